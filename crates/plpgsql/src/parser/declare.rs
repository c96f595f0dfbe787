//! Declarations.

use super::{Lookup, Parser, Tok, sign};
use crate::keywords::{Keyword, word_of};
use crate::namespace::{LabelKind, NamespaceItemKind};
use crate::scanner::Token;
use crate::tree::*;
use kilndb_base::{Error, Result, Severity, sqlstate};
use kilndb_types::oids;

impl Parser<'_> {
    /// After DECLARE, up to BEGIN, which is read. Returns the slots of what was declared.
    pub(crate) fn declarations(&mut self) -> Result<Vec<Slot>> {
        let first = self.frame.variables.len();
        self.lookup = Lookup::Declare;
        loop {
            let (tok, place) = self.next_at()?;
            match tok {
                Tok::Keyword(Keyword::Begin) => break,
                // More of them are harmless.
                Tok::Keyword(Keyword::Declare) => {}
                Tok::Plain(Token::LessLess) => {
                    let name = self.next()?;
                    if name.any_identifier().is_none() {
                        return self.syntax_error();
                    }
                    self.expect(&Tok::Plain(Token::GreaterGreater))?;
                    return self.syntax("block label must be placed before DECLARE, not after", place.0);
                }
                tok => self.declaration(&tok, place)?,
            }
        }
        self.lookup = Lookup::Normal;
        let is_set_up = |slot: &Slot| match self.frame.variables.get(*slot) {
            Some(Variable::Scalar(v)) => v.fact.is_none(),
            Some(Variable::Record(_)) => true,
            _ => false,
        };
        Ok((first..self.frame.variables.len()).filter(is_set_up).collect())
    }

    /// A name: a word, or a keyword that is none where names stand.
    pub(super) fn name_of(&mut self, tok: &Tok) -> Result<String> {
        match tok {
            Tok::Word { name, .. } => Ok(name.clone()),
            Tok::Keyword(k) => match word_of(*k) {
                Some(word) => Ok(word.to_string()),
                None => self.syntax_error(),
            },
            _ => self.syntax_error(),
        }
    }

    /// The name of what is declared.
    fn declared_name(&mut self, tok: &Tok, place: (usize, usize)) -> Result<(String, u32)> {
        let name = self.name_of(tok)?;
        let line = self.line_of(place.0);
        if self.frame.namespace.find_local(&name).is_some() {
            return self.error_here("duplicate declaration");
        }
        let (warn, refuse) = (self.frame.extra_warnings.shadowed_variables, self.frame.extra_errors.shadowed_variables);
        if (warn || refuse) && self.frame.namespace.find(&[&name]).is_some() {
            let message = format!("variable \"{name}\" shadows a previously defined variable");
            let error = Error::new(sqlstate::DUPLICATE_ALIAS, message).with_position(self.position(place.0));
            if refuse {
                return Err(error);
            }
            self.names.warn(error.with_severity(Severity::Warning));
        }
        Ok((name, line))
    }

    fn declaration(&mut self, tok: &Tok, place: (usize, usize)) -> Result<()> {
        let (name, line) = self.declared_name(tok, place)?;
        let (tok, place) = self.next_at()?;
        match tok {
            Tok::Keyword(Keyword::Alias) => self.alias(&name),
            Tok::Keyword(Keyword::Cursor) => self.cursor_declaration(&name, line, Scroll::Default),
            Tok::Keyword(Keyword::Scroll) if self.peeks_cursor()? => {
                self.expect_keyword(Keyword::Cursor)?;
                self.cursor_declaration(&name, line, Scroll::Wanted)
            }
            Tok::Keyword(Keyword::No) => {
                self.expect_keyword(Keyword::Scroll)?;
                self.expect_keyword(Keyword::Cursor)?;
                self.cursor_declaration(&name, line, Scroll::Refused)
            }
            Tok::Keyword(Keyword::Constant) => {
                let (tok, place) = self.next_at()?;
                self.variable_declaration(&name, line, true, tok, place)
            }
            tok => self.variable_declaration(&name, line, false, tok, place),
        }
    }

    fn peeks_cursor(&mut self) -> Result<bool> {
        self.peek_is(&Tok::Plain(Token::Identifier { name: "cursor".into(), quoted: false }))
    }

    fn alias(&mut self, name: &str) -> Result<()> {
        self.expect_keyword(Keyword::For)?;
        let (tok, place) = self.next_at()?;
        let parts: Vec<String> = match &tok {
            Tok::Words(names) => names.clone(),
            tok => match tok.any_identifier() {
                Some(name) => vec![name],
                None => return self.syntax_error(),
            },
        };
        let names: Vec<&str> = parts.iter().map(String::as_str).collect();
        match self.frame.namespace.find(&names) {
            Some((NamespaceItemKind::Scalar(slot), _)) => self.frame.namespace.add_scalar(slot, name),
            Some((NamespaceItemKind::Record(slot), _)) => self.frame.namespace.add_record(slot, name),
            _ => {
                return self.fail(
                    sqlstate::UNDEFINED_OBJECT,
                    format!("variable \"{}\" does not exist", parts.join(".")),
                    place.0,
                );
            }
        }
        self.expect(&sign(';'))
    }

    fn variable_declaration(
        &mut self,
        name: &str,
        line: u32,
        constant: bool,
        tok: Tok,
        place: (usize, usize),
    ) -> Result<()> {
        let ty = self.data_type(tok, place)?;
        let (mut tok, mut place) = self.next_at()?;
        let mut collation = None;
        if tok == Tok::Keyword(Keyword::Collate) {
            let (word, _) = self.next_at()?;
            let parts = match &word {
                Tok::Words(names) => names.clone(),
                word => word.any_identifier().into_iter().collect(),
            };
            if parts.is_empty() {
                return self.syntax_error();
            }
            collation = Some(self.names.collation(&parts)?);
            if !is_collatable(&ty) {
                return self.fail(
                    sqlstate::DATATYPE_MISMATCH,
                    format!("collations are not supported by type {}", ty.name),
                    place.0,
                );
            }
            (tok, place) = self.next_at()?;
        }
        let not_null_at = (tok == Tok::Keyword(Keyword::Not)).then_some(place.0);
        if not_null_at.is_some() {
            self.expect_keyword(Keyword::Null)?;
            tok = self.next()?;
        }
        let default = match tok {
            Tok::Plain(Token::Sign(';')) => None,
            Tok::Plain(Token::Sign('=') | Token::ColonEquals) | Tok::Keyword(Keyword::Default) => {
                Some(self.expression(sign(';'), ";")?)
            }
            _ => return self.syntax_error(),
        };
        let slot = self.frame.declare(name, line, ty, true)?;
        if let (Some(at), None) = (not_null_at, &default) {
            let message = format!("variable \"{name}\" must have a default value, since it's declared NOT NULL");
            return self.fail(sqlstate::NULL_VALUE_NOT_ALLOWED, message, at);
        }
        let not_null = not_null_at.is_some();
        match self.frame.variables.get_mut(slot) {
            Some(Variable::Scalar(v)) => {
                (v.constant, v.not_null, v.default, v.collation) = (constant, not_null, default, collation);
            }
            Some(Variable::Record(v)) => (v.constant, v.not_null, v.default) = (constant, not_null, default),
            _ => {}
        }
        Ok(())
    }

    /// A type, whose first token has been read. What follows it is left.
    fn data_type(&mut self, tok: Tok, place: (usize, usize)) -> Result<TypeInfo> {
        let start = place.0;
        let parts = match &tok {
            Tok::Words(names) => Some(names.clone()),
            Tok::Word { name, .. } => Some(vec![name.clone()]),
            tok if tok.is_unreserved() => tok.any_identifier().map(|name| vec![name]),
            _ => None,
        };
        let (mut tok, mut place) = (tok, place);
        if let Some(parts) = parts {
            (tok, place) = self.next_at()?;
            if tok == sign('%') {
                (tok, place) = self.next_at()?;
                if tok.is_word(Keyword::Type) {
                    let ty = self.type_like(&parts)?;
                    return self.array_of(ty);
                }
                if tok.is_word(Keyword::Rowtype) {
                    let ty = self.names.type_of_rows(&parts)?;
                    return self.array_of(ty);
                }
            }
        }
        let mut depth = 0i32;
        loop {
            match &tok {
                Tok::Plain(Token::Sign(';' | '=') | Token::ColonEquals)
                | Tok::Keyword(Keyword::Collate | Keyword::Not | Keyword::Default) => break,
                Tok::Plain(Token::Sign(',' | ')')) if depth == 0 => break,
                Tok::Plain(Token::End) => {
                    return self.error_here(if depth != 0 {
                        "mismatched parentheses"
                    } else {
                        "incomplete data type declaration"
                    });
                }
                Tok::Plain(Token::Sign('(')) => depth += 1,
                Tok::Plain(Token::Sign(')')) => depth -= 1,
                _ => {}
            }
            (tok, place) = self.next_at()?;
        }
        let text = self.slice(start, place.0);
        if text.is_empty() {
            return self.error_here("missing data type declaration");
        }
        let at = self.position(start);
        let ty = self.names.type_of_text(text.trim_end()).map_err(|mut e| {
            e.0.position = Some(at + e.0.position.map_or(0, |p| p.saturating_sub(1)));
            e
        })?;
        self.push_back(tok, place);
        Ok(ty)
    }

    /// `name%TYPE`: of a variable, or of a column.
    fn type_like(&mut self, parts: &[String]) -> Result<TypeInfo> {
        let names: Vec<&str> = parts.iter().map(String::as_str).collect();
        let found = if names.len() <= 2 { self.frame.namespace.find(&names) } else { None };
        let slot = match found {
            Some((NamespaceItemKind::Scalar(slot), _)) => Some(slot),
            Some((NamespaceItemKind::Record(slot), used)) if used == names.len() => Some(slot),
            _ => None,
        };
        match slot.and_then(|slot| self.frame.variables.get(slot)) {
            Some(Variable::Scalar(v)) => Ok(v.ty.clone()),
            Some(Variable::Record(v)) => Ok(v.ty.clone()),
            _ if names.len() == 1 => {
                Err(Error::new(sqlstate::UNDEFINED_OBJECT, format!("variable \"{}\" does not exist", names.join("."))))
            }
            _ => self.names.type_of_column(parts),
        }
    }

    /// `[ARRAY] [n] …` after %TYPE.
    fn array_of(&mut self, ty: TypeInfo) -> Result<TypeInfo> {
        let (mut tok, mut place) = self.next_at()?;
        let mut is_array = tok.is_word(Keyword::Array);
        if is_array {
            (tok, place) = self.next_at()?;
        }
        while tok == sign('[') {
            is_array = true;
            let mut inner = self.next()?;
            if matches!(inner, Tok::Plain(Token::Integer(_))) {
                inner = self.next()?;
            }
            if inner != sign(']') {
                return self.error_here("syntax error, expected \"]\"");
            }
            (tok, place) = self.next_at()?;
        }
        self.push_back(tok, place);
        if is_array && !ty.is_array { self.names.array_of(&ty) } else { Ok(ty) }
    }

    /// After CURSOR.
    fn cursor_declaration(&mut self, name: &str, line: u32, scroll: Scroll) -> Result<()> {
        self.frame.namespace.push(Some(name), LabelKind::Other);
        let mut args = None;
        let mut tok = self.next()?;
        if tok == sign('(') {
            args = Some(self.cursor_parameters()?);
            tok = self.next()?;
        }
        if !matches!(tok, Tok::Keyword(Keyword::Is | Keyword::For)) {
            return self.syntax_error();
        }
        let query = self.sql_statement()?;
        self.frame.namespace.pop();
        let ty = self.names.type_of_oid(oids::REFCURSOR, -1)?;
        let slot = self.frame.declare(name, line, ty, true)?;
        if let Some(Variable::Scalar(v)) = self.frame.variables.get_mut(slot) {
            v.cursor = Some(Box::new(BoundCursor { query, args, scroll }));
        }
        Ok(())
    }

    fn cursor_parameters(&mut self) -> Result<Slot> {
        let (mut names, mut slots) = (Vec::new(), Vec::new());
        loop {
            let (tok, place) = self.next_at()?;
            let (name, line) = self.declared_name(&tok, place)?;
            let (tok, place) = self.next_at()?;
            let ty = self.data_type(tok, place)?;
            slots.push(self.frame.declare(&name, line, ty, true)?);
            names.push(name);
            match self.next()? {
                Tok::Plain(Token::Sign(',')) => {}
                Tok::Plain(Token::Sign(')')) => return Ok(self.frame.add(Variable::Row { names, slots })),
                _ => return self.syntax_error(),
            }
        }
    }
}

fn is_collatable(ty: &TypeInfo) -> bool {
    matches!(
        ty.oid,
        oids::TEXT
            | oids::VARCHAR
            | oids::BPCHAR
            | oids::NAME
            | oids::TEXT_ARRAY
            | oids::VARCHAR_ARRAY
            | oids::BPCHAR_ARRAY
            | oids::NAME_ARRAY
    )
}
