//! SQL within a body: where it ends, what of it is INTO, and whether SQL's grammar takes it.

use super::{Lookup, Parser, Tok, VariableToken, sign};
use crate::keywords::Keyword;
use crate::scanner::Token;
use crate::tree::*;
use kilndb_base::{Error, Result, sqlstate};

/// What ends a piece of SQL, and what to say if it is not there.
pub(crate) struct Until<'a> {
    pub tokens: &'a [Tok],
    pub expected: &'a str,
}

/// SQL as it was read.
pub(crate) struct SqlFragment {
    pub start: usize,
    pub end: usize,
    pub ended_by: Tok,
    /// The first `:=` or `=` outside parentheses.
    pub assign: Option<(usize, usize)>,
}

const INTO_MAX: usize = 1024;

impl<'a> Parser<'a> {
    pub(crate) fn slice(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or("")
    }

    /// Reads up to one of the tokens of `until` that stands outside parentheses.
    pub(crate) fn read_sql(&mut self, until: &Until<'_>, is_expression: bool) -> Result<SqlFragment> {
        let saved = std::mem::replace(&mut self.lookup, Lookup::Sql);
        let piece = self.read_sql_tokens(until, is_expression);
        self.lookup = saved;
        piece
    }

    fn read_sql_tokens(&mut self, until: &Until<'_>, is_expression: bool) -> Result<SqlFragment> {
        let (mut start, mut end, mut depth, mut assign) = (None, 0, 0i32, None);
        let ended_by = loop {
            let (tok, place) = self.next_at()?;
            let first = *start.get_or_insert(place.0);
            // With fewer than three terminators the end of the body is one too: what follows will miss more than that.
            let is_end = tok == Tok::Plain(Token::End) && until.tokens.len() < 3;
            if depth == 0 && (is_end || until.tokens.contains(&tok)) {
                if end <= first {
                    let what = if is_expression { "missing expression" } else { "missing SQL statement" };
                    return self.error_here(what);
                }
                break tok;
            }
            match &tok {
                Tok::Plain(Token::Sign('(' | '[')) => depth += 1,
                Tok::Plain(Token::Sign(')' | ']')) => {
                    depth -= 1;
                    if depth < 0 {
                        return self.error_here("mismatched parentheses");
                    }
                }
                Tok::Plain(Token::End | Token::Sign(';')) => {
                    if depth != 0 {
                        return self.error_here("mismatched parentheses");
                    }
                    let what = if is_expression { "expression" } else { "statement" };
                    return self.syntax(format!("missing \"{}\" at end of SQL {what}", until.expected), place.0);
                }
                Tok::Plain(Token::ColonEquals | Token::Sign('=')) if depth == 0 && assign.is_none() => {
                    assign = Some(place)
                }
                _ => {}
            }
            end = place.1;
        };
        Ok(SqlFragment { start: start.unwrap_or(0), end, ended_by, assign })
    }

    /// An expression up to one of `tokens`, which is returned too.
    pub(crate) fn expression_until(&mut self, tokens: &[Tok], expected: &str) -> Result<(Expr, Tok)> {
        let piece = self.read_sql(&Until { tokens, expected }, true)?;
        let text = self.slice(piece.start, piece.end);
        self.check(text, ParseMode::Expression, piece.start)?;
        Ok((self.expr(text, ParseMode::Expression), piece.ended_by))
    }
    pub(crate) fn expression(&mut self, token: Tok, expected: &str) -> Result<Expr> {
        self.expression_until(&[token], expected).map(|(e, _)| e)
    }
    /// Expressions with commas between them, up to `end`.
    pub(crate) fn expressions(&mut self, end: Tok, expected: &str) -> Result<Vec<Expr>> {
        let mut list = Vec::new();
        loop {
            let (e, ended_by) = self.expression_until(&[sign(','), end.clone()], expected)?;
            list.push(e);
            if ended_by != sign(',') {
                return Ok(list);
            }
        }
    }
    /// A statement up to its semicolon.
    pub(crate) fn sql_statement(&mut self) -> Result<Expr> {
        let piece = self.read_sql(&Until { tokens: &[sign(';')], expected: ";" }, false)?;
        let text = self.slice(piece.start, piece.end);
        self.check(text, ParseMode::Statement, piece.start)?;
        Ok(self.expr(text, ParseMode::Statement))
    }

    /// A statement of SQL; `first` and `place` are its first token.
    pub(crate) fn execute_sql(&mut self, first: &Tok, place: (usize, usize)) -> Result<StmtKind> {
        let saved = std::mem::replace(&mut self.lookup, Lookup::Sql);
        let read = self.execute_sql_tokens(first, place.0);
        self.lookup = saved;
        let (text, into) = read?;
        self.check(&text, ParseMode::Statement, place.0)?;
        Ok(StmtKind::Sql { query: self.expr(&text, ParseMode::Statement), into })
    }

    fn execute_sql_tokens(&mut self, first: &Tok, start: usize) -> Result<(String, Option<IntoClause>)> {
        let mut routine = RoutineBody::new(first);
        let mut into: Option<(IntoClause, usize, Option<usize>)> = None;
        let (mut previous, mut parens) = (first.clone(), 0u32);
        let end = loop {
            let (tok, place) = self.next_at()?;
            if let Some((_, _, after @ None)) = &mut into {
                *after = Some(place.0);
            }
            match &tok {
                Tok::Plain(Token::Sign('(')) => parens += 1,
                Tok::Plain(Token::Sign(')')) => parens = parens.saturating_sub(1),
                _ => {}
            }
            let inside = routine.take(&tok, parens);
            match &tok {
                Tok::Plain(Token::Sign(';')) if parens == 0 && !inside => break place.0,
                Tok::Plain(Token::End) => return self.error_here("unexpected end of function definition"),
                Tok::Keyword(Keyword::Into) => {
                    let is_sql = matches!(previous, Tok::Keyword(Keyword::Insert | Keyword::Merge))
                        || *first == Tok::Keyword(Keyword::Import);
                    if !is_sql {
                        if into.is_some() {
                            return self.error_here("INTO specified more than once");
                        }
                        self.lookup = Lookup::Normal;
                        let target = self.target_of_into(true);
                        self.lookup = Lookup::Sql;
                        into = Some((target?, place.0, None));
                    }
                }
                _ => {}
            }
            previous = tok;
        };
        // Blanks in place of INTO keep positions as they are.
        let text = match &into {
            Some((_, at, after)) => {
                let after = after.unwrap_or(end);
                format!("{}{}{}", self.slice(start, *at), " ".repeat(after.saturating_sub(*at)), self.slice(after, end))
            }
            None => self.slice(start, end).to_string(),
        };
        Ok((text.trim_end().to_string(), into.map(|(target, ..)| target)))
    }

    // Targets of INTO.

    /// After INTO.
    pub(crate) fn target_of_into(&mut self, may_be_strict: bool) -> Result<IntoClause> {
        let (mut tok, mut place) = self.next_at()?;
        let strict = may_be_strict && tok == Tok::Keyword(Keyword::Strict);
        if strict {
            (tok, place) = self.next_at()?;
        }
        let Tok::Variable(variable) = tok else { return self.not_a_variable(&tok, place) };
        if !self.frame.is_row(variable.slot) {
            return Ok(IntoClause { target: self.scalar_list(&variable, place)?, strict });
        }
        self.check_assignable(variable.slot, place.0)?;
        let (tok, place) = self.next_at()?;
        if tok == sign(',') {
            return self.syntax("record variable cannot be part of multiple-item INTO list", place.0);
        }
        self.push_back(tok, place);
        Ok(IntoClause { target: variable.slot, strict })
    }

    /// The first of a list of scalar variables has been read. Returns the row of them.
    pub(crate) fn scalar_list(&mut self, first: &VariableToken, place: (usize, usize)) -> Result<Slot> {
        self.check_assignable(first.slot, place.0)?;
        let (mut names, mut slots) = (vec![first.shown()], vec![first.slot]);
        loop {
            let (tok, place) = self.next_at()?;
            if tok != sign(',') {
                self.push_back(tok, place);
                break;
            }
            if slots.len() >= INTO_MAX {
                return self.fail(sqlstate::PROGRAM_LIMIT_EXCEEDED, "too many INTO variables specified", place.0);
            }
            let (tok, place) = self.next_at()?;
            let Tok::Variable(variable) = tok else { return self.not_a_variable(&tok, place) };
            self.check_assignable(variable.slot, place.0)?;
            if self.frame.is_row(variable.slot) {
                return self.syntax(format!("\"{}\" is not a scalar variable", variable.shown()), place.0);
            }
            names.push(variable.shown());
            slots.push(variable.slot);
        }
        self.line_of(place.0);
        Ok(self.frame.add(Variable::Row { names, slots }))
    }

    /// A single scalar variable as a list.
    pub(crate) fn list_of_one(&mut self, name: &str, slot: Slot, place: (usize, usize)) -> Result<Slot> {
        self.check_assignable(slot, place.0)?;
        Ok(self.frame.add(Variable::Row { names: vec![name.to_string()], slots: vec![slot] }))
    }

    pub(crate) fn not_a_variable<T>(&self, tok: &Tok, place: (usize, usize)) -> Result<T> {
        match tok {
            Tok::Word { name, .. } => self.syntax(format!("\"{name}\" is not a known variable"), place.0),
            Tok::Words(names) => self.syntax(format!("\"{}\" is not a known variable", names.join(".")), place.0),
            _ => self.syntax_error(),
        }
    }

    pub(crate) fn check_assignable(&self, slot: Slot, offset: usize) -> Result<()> {
        let (name, constant) = match self.frame.variables.get(slot) {
            Some(Variable::Scalar(v)) => (&v.name, v.constant),
            Some(Variable::Record(v)) => (&v.name, v.constant),
            Some(Variable::Field { record, .. }) => return self.check_assignable(*record, offset),
            Some(Variable::Row { .. }) => return Ok(()),
            None => return Err(Error::internal("a variable without a slot")),
        };
        if constant {
            return self.fail(crate::ERROR_IN_ASSIGNMENT, format!("variable \"{name}\" is declared CONSTANT"), offset);
        }
        Ok(())
    }
}

/// Semicolons within the body of CREATE FUNCTION … BEGIN ATOMIC … END do not end the statement.
struct RoutineBody {
    /// The first words: `c`reate, `o`r, `r`eplace, `f`unction.
    words: Vec<u8>,
    depth: u32,
}

impl RoutineBody {
    fn new(first: &Tok) -> RoutineBody {
        let is_create = matches!(first, Tok::Word { name, .. } if name == "create");
        RoutineBody { words: if is_create { b"c".to_vec() } else { Vec::new() }, depth: 0 }
    }
    /// True within BEGIN … END.
    fn take(&mut self, tok: &Tok, parens: u32) -> bool {
        if !self.words.is_empty() && self.words.len() < 4 {
            self.words.push(match tok {
                Tok::Keyword(Keyword::Or) => b'o',
                Tok::Word { name, .. } if name == "replace" => b'r',
                Tok::Word { name, .. } if name == "function" || name == "procedure" => b'f',
                _ => b' ',
            });
        }
        if (self.words.starts_with(b"cf") || self.words == b"corf") && parens == 0 {
            match tok {
                Tok::Keyword(Keyword::Begin | Keyword::Case) => self.depth += 1,
                Tok::Keyword(Keyword::End) => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
        self.depth > 0
    }
}
