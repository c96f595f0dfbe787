//! RAISE and GET DIAGNOSTICS.

use super::{Parser, Tok, sign};
use crate::conditions;
use crate::keywords::{Keyword, word_of};
use crate::scanner::Token;
use crate::tree::*;
use kilndb_base::{Error, Result, sqlstate};

const LEVELS: &[(Keyword, Level)] = &[
    (Keyword::Exception, Level::Exception),
    (Keyword::Warning, Level::Warning),
    (Keyword::Notice, Level::Notice),
    (Keyword::Info, Level::Info),
    (Keyword::Log, Level::Log),
    (Keyword::Debug, Level::Debug),
];

const OPTIONS: &[(Keyword, RaiseOption)] = &[
    (Keyword::Errcode, RaiseOption::Errcode),
    (Keyword::Message, RaiseOption::Message),
    (Keyword::Detail, RaiseOption::Detail),
    (Keyword::Hint, RaiseOption::Hint),
    (Keyword::Column, RaiseOption::Column),
    (Keyword::Constraint, RaiseOption::Constraint),
    (Keyword::Datatype, RaiseOption::Datatype),
    (Keyword::Table, RaiseOption::Table),
    (Keyword::Schema, RaiseOption::Schema),
];

const ITEMS: &[(Keyword, DiagnosticItem)] = &[
    (Keyword::RowCount, DiagnosticItem::RowCount),
    (Keyword::PgRoutineOid, DiagnosticItem::RoutineOid),
    (Keyword::PgContext, DiagnosticItem::Context),
    (Keyword::PgExceptionDetail, DiagnosticItem::ExceptionDetail),
    (Keyword::PgExceptionHint, DiagnosticItem::ExceptionHint),
    (Keyword::PgExceptionContext, DiagnosticItem::ExceptionContext),
    (Keyword::ColumnName, DiagnosticItem::ColumnName),
    (Keyword::ConstraintName, DiagnosticItem::ConstraintName),
    (Keyword::PgDatatypeName, DiagnosticItem::DatatypeName),
    (Keyword::MessageText, DiagnosticItem::MessageText),
    (Keyword::TableName, DiagnosticItem::TableName),
    (Keyword::SchemaName, DiagnosticItem::SchemaName),
    (Keyword::ReturnedSqlstate, DiagnosticItem::ReturnedSqlstate),
];

fn choose<T: Copy>(list: &[(Keyword, T)], tok: &Tok) -> Option<T> {
    list.iter().find(|(k, _)| tok.is_word(*k)).map(|(_, v)| *v)
}

impl Parser<'_> {
    pub(crate) fn raise(&mut self) -> Result<StmtKind> {
        let mut raise =
            Raise { level: Level::Exception, condition: None, message: None, params: Vec::new(), options: Vec::new() };
        let mut tok = self.next_inside()?;
        if tok != sign(';') {
            if let Some(level) = choose(LEVELS, &tok) {
                raise.level = level;
                tok = self.next_inside()?;
            }
            if let Tok::Plain(Token::Text(message)) = tok {
                raise.message = Some(message);
                tok = self.next()?;
                if !matches!(tok, Tok::Plain(Token::Sign(',' | ';')) | Tok::Keyword(Keyword::Using)) {
                    return self.syntax_error();
                }
                while tok == sign(',') {
                    let ends = [sign(','), sign(';'), Tok::Keyword(Keyword::Using)];
                    let (e, end) = self.expression_until(&ends, ", or ; or USING")?;
                    raise.params.push(e);
                    tok = end;
                }
            } else if tok != Tok::Keyword(Keyword::Using) {
                raise.condition = Some(self.raised_condition(&tok)?);
                tok = self.next()?;
                if !matches!(tok, Tok::Plain(Token::Sign(';')) | Tok::Keyword(Keyword::Using)) {
                    return self.syntax_error();
                }
            }
            if tok == Tok::Keyword(Keyword::Using) {
                raise.options = self.raise_options()?;
            }
        }
        check_parameters(&raise)?;
        Ok(StmtKind::Raise(Box::new(raise)))
    }

    /// A token; the end of the body is no good place to stop.
    fn next_inside(&mut self) -> Result<Tok> {
        match self.next()? {
            Tok::Plain(Token::End) => self.error_here("unexpected end of function definition"),
            tok => Ok(tok),
        }
    }

    fn raised_condition(&mut self, tok: &Tok) -> Result<String> {
        if tok.is_word(Keyword::Sqlstate) {
            return self.sqlstate_text();
        }
        let name = self.name_of(tok)?;
        if conditions::first(&name).is_none() {
            return Err(Error::new(sqlstate::UNDEFINED_OBJECT, format!("unrecognized exception condition \"{name}\"")));
        }
        Ok(name)
    }

    fn raise_options(&mut self) -> Result<Vec<(RaiseOption, Expr)>> {
        let mut options = Vec::new();
        loop {
            let tok = self.next_inside()?;
            let Some(option) = choose(OPTIONS, &tok) else {
                return self.error_here("unrecognized RAISE statement option");
            };
            if !matches!(self.next()?, Tok::Plain(Token::ColonEquals | Token::Sign('='))) {
                return self.error_here("syntax error, expected \"=\"");
            }
            let (value, end) = self.expression_until(&[sign(','), sign(';')], ", or ;")?;
            options.push((option, value));
            if end == sign(';') {
                return Ok(options);
            }
        }
    }

    pub(crate) fn diagnostics(&mut self, at: (usize, usize)) -> Result<StmtKind> {
        let mut tok = self.next()?;
        let stacked = tok == Tok::Keyword(Keyword::Stacked);
        if stacked || tok == Tok::Keyword(Keyword::Current) {
            tok = self.next()?;
        }
        if tok != Tok::Keyword(Keyword::Diagnostics) {
            return self.syntax_error();
        }
        let mut items = Vec::new();
        loop {
            let target = self.diagnostics_target()?;
            if !matches!(self.next()?, Tok::Plain(Token::ColonEquals | Token::Sign('='))) {
                return self.syntax_error();
            }
            let tok = self.next()?;
            let Some(item) = choose(ITEMS, &tok) else { return self.error_here("unrecognized GET DIAGNOSTICS item") };
            items.push((target, item));
            match self.next()? {
                Tok::Plain(Token::Sign(',')) => {}
                Tok::Plain(Token::Sign(';')) => break,
                _ => return self.syntax_error(),
            }
        }
        for (_, item) in &items {
            let is_current_only = matches!(item, DiagnosticItem::RowCount | DiagnosticItem::RoutineOid);
            let is_refused = *item != DiagnosticItem::Context && is_current_only == stacked;
            if is_refused {
                let area = if stacked { "STACKED" } else { "CURRENT" };
                let keyword = ITEMS.iter().find(|(_, i)| i == item).and_then(|(k, _)| word_of(*k)).unwrap_or("");
                let message = format!(
                    "diagnostics item {} is not allowed in GET {area} DIAGNOSTICS",
                    keyword.to_ascii_uppercase()
                );
                return self.syntax(message, at.0);
            }
        }
        Ok(StmtKind::Diagnostics { stacked, items })
    }

    fn diagnostics_target(&mut self) -> Result<Slot> {
        let (tok, place) = self.next_at()?;
        let Tok::Variable(v) = &tok else { return self.not_a_variable(&tok, place) };
        if self.frame.is_row(v.slot) || self.peek_is(&sign('['))? {
            return self.syntax(format!("\"{}\" is not a scalar variable", v.shown()), place.0);
        }
        self.check_assignable(v.slot, place.0)?;
        Ok(v.slot)
    }
}

fn check_parameters(raise: &Raise) -> Result<()> {
    let Some(message) = &raise.message else { return Ok(()) };
    let places = message.replace("%%", "").matches('%').count();
    let wrong =
        |what: &str| Err(Error::new(sqlstate::SYNTAX_ERROR, format!("too {what} parameters specified for RAISE")));
    match places.cmp(&raise.params.len()) {
        std::cmp::Ordering::Less => wrong("many"),
        std::cmp::Ordering::Greater => wrong("few"),
        std::cmp::Ordering::Equal => Ok(()),
    }
}
