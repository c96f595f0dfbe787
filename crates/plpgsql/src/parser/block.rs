//! Blocks, their labels and handlers of exceptions.

use super::{Parser, Tok, sign};
use crate::conditions;
use crate::keywords::Keyword;
use crate::namespace::LabelKind;
use crate::scanner::Token;
use crate::tree::*;
use kilndb_base::{Error, Result, sqlstate, work};
use kilndb_types::oids;

/// What reading a short statement takes.
const STATEMENT_UNITS: usize = 700;

impl Parser<'_> {
    /// `<<name>>`, if there is one.
    pub(crate) fn label(&mut self) -> Result<Option<String>> {
        let (tok, place) = self.next_at()?;
        if tok != Tok::Plain(Token::LessLess) {
            self.push_back(tok, place);
            return Ok(None);
        }
        self.label_name().map(Some)
    }

    /// After `<<`.
    pub(crate) fn label_name(&mut self) -> Result<String> {
        let Some(name) = self.next()?.any_identifier() else { return self.syntax_error() };
        self.expect(&Tok::Plain(Token::GreaterGreater))?;
        Ok(name)
    }

    /// From DECLARE or BEGIN to the label after END. Returns where BEGIN is too.
    pub(crate) fn block(&mut self, label: Option<String>) -> Result<(Block, usize)> {
        self.frame.namespace.push(label.as_deref(), LabelKind::Block);
        let declared = match self.next()? {
            Tok::Keyword(Keyword::Declare) => self.declarations()?,
            Tok::Keyword(Keyword::Begin) => Vec::new(),
            _ => return self.syntax_error(),
        };
        let begin = self.current.0;
        let body = self.statements()?;
        let (tok, place) = self.next_at()?;
        let exceptions = if tok == Tok::Keyword(Keyword::Exception) {
            Some(self.exceptions(place)?)
        } else {
            self.push_back(tok, place);
            None
        };
        self.expect_keyword(Keyword::End)?;
        self.end_label(label.as_deref())?;
        self.frame.namespace.pop();
        Ok((Block { label, declared, body, exceptions }, begin))
    }

    /// The name after END or END LOOP, if there is one, must be that of the beginning.
    pub(crate) fn end_label(&mut self, label: Option<&str>) -> Result<()> {
        let (tok, place) = self.next_at()?;
        let Some(end) = tok.any_identifier() else {
            self.push_back(tok, place);
            return Ok(());
        };
        match label {
            None => self.syntax(format!("end label \"{end}\" specified for unlabeled block"), place.0),
            Some(label) if label != end => {
                self.syntax(format!("end label \"{end}\" differs from block's label \"{label}\""), place.0)
            }
            Some(_) => Ok(()),
        }
    }

    fn exceptions(&mut self, place: (usize, usize)) -> Result<Exceptions> {
        let line = self.line_of(place.0);
        self.frame.has_exceptions = true;
        let sqlstate = self.constant_text("sqlstate", line)?;
        let sqlerrm = self.constant_text("sqlerrm", line)?;
        let mut handlers = Vec::new();
        loop {
            let (tok, place) = self.next_at()?;
            if tok != Tok::Keyword(Keyword::When) {
                if handlers.is_empty() {
                    return self.syntax_error();
                }
                self.push_back(tok, place);
                return Ok(Exceptions { sqlstate, sqlerrm, handlers });
            }
            let mut conditions = self.condition()?;
            loop {
                match self.next()? {
                    Tok::Keyword(Keyword::Or) => conditions.extend(self.condition()?),
                    Tok::Keyword(Keyword::Then) => break,
                    _ => return self.syntax_error(),
                }
            }
            handlers.push(Handler { conditions, body: self.statements()? });
        }
    }

    fn constant_text(&mut self, name: &str, line: u32) -> Result<Slot> {
        let ty = self.names.type_of_oid(oids::TEXT, -1)?;
        let slot = self.frame.declare(name, line, ty, true)?;
        if let Some(Variable::Scalar(v)) = self.frame.variables.get_mut(slot) {
            v.constant = true;
        }
        Ok(slot)
    }

    fn condition(&mut self) -> Result<Vec<Condition>> {
        let Some(name) = self.next()?.any_identifier() else { return self.syntax_error() };
        match name.as_str() {
            "sqlstate" => Ok(vec![Condition::State(conditions::sqlstate_of(&self.sqlstate_text()?))]),
            "others" => Ok(vec![Condition::Others]),
            name => {
                let states = conditions::all(name);
                if states.is_empty() {
                    return Err(Error::new(
                        sqlstate::UNDEFINED_OBJECT,
                        format!("unrecognized exception condition \"{name}\""),
                    ));
                }
                Ok(states.into_iter().map(Condition::State).collect())
            }
        }
    }

    /// The string after SQLSTATE.
    pub(crate) fn sqlstate_text(&mut self) -> Result<String> {
        let Tok::Plain(Token::Text(state)) = self.next()? else { return self.syntax_error() };
        if !conditions::is_sqlstate(&state) {
            return self.error_here("invalid SQLSTATE code");
        }
        Ok(state)
    }

    /// Statements up to what is none.
    pub(crate) fn statements(&mut self) -> Result<Vec<Stmt>> {
        let mut list = Vec::new();
        loop {
            work::step(STATEMENT_UNITS)?;
            let (tok, place) = self.next_at()?;
            match self.one_statement(tok, place)? {
                Parsed::Statement(s) => list.push(s),
                Parsed::Nothing => {}
                Parsed::Not(tok) => {
                    self.push_back(tok, place);
                    return Ok(list);
                }
            }
        }
    }

    /// `END what;`
    pub(crate) fn end_of(&mut self, what: Keyword) -> Result<()> {
        self.expect_keyword(Keyword::End)?;
        self.expect_keyword(what)?;
        self.expect(&sign(';'))
    }
}

pub(crate) enum Parsed {
    Statement(Stmt),
    /// `NULL;`
    Nothing,
    /// The token begins no statement.
    Not(Tok),
}
