//! OPEN, FETCH, MOVE, CLOSE and the arguments of bound cursors.

use super::{Lookup, Parser, Tok, sign};
use crate::keywords::Keyword;
use crate::scanner::Token;
use crate::tree::*;
use kilndb_base::{Result, sqlstate};
use kilndb_types::oids;

/// Direction and number of FETCH and MOVE.
struct Fetch {
    direction: Direction,
    count: FetchCount,
    many: bool,
}

impl Parser<'_> {
    pub(crate) fn cursor_variable(&mut self) -> Result<Slot> {
        let (tok, place) = self.next_at()?;
        let Tok::Variable(v) = &tok else { return self.not_a_variable(&tok, place) };
        let slot = v.slot;
        let is_subscripted = self.peek_is(&sign('['))?;
        match self.frame.variables.get(slot) {
            Some(Variable::Scalar(v)) if v.fact.is_none() && !is_subscripted => {
                if v.ty.oid != oids::REFCURSOR {
                    let message = format!("variable \"{}\" must be of type cursor or refcursor", v.name);
                    return self.fail(sqlstate::DATATYPE_MISMATCH, message, place.0);
                }
                Ok(slot)
            }
            _ => self.fail(sqlstate::DATATYPE_MISMATCH, "cursor variable must be a simple variable", place.0),
        }
    }

    pub(crate) fn open(&mut self) -> Result<StmtKind> {
        let cursor = self.cursor_variable()?;
        let is_bound = matches!(self.frame.variables.get(cursor), Some(Variable::Scalar(v)) if v.cursor.is_some());
        if is_bound {
            let args = self.cursor_args(cursor, &sign(';'))?;
            return Ok(StmtKind::Open { cursor, scroll: Scroll::Default, source: OpenSource::Bound(args) });
        }
        let mut scroll = Scroll::Default;
        let mut tok = self.next()?;
        if tok.is_word(Keyword::No) {
            tok = self.next()?;
            if tok.is_word(Keyword::Scroll) {
                scroll = Scroll::Refused;
                tok = self.next()?;
            }
        } else if tok.is_word(Keyword::Scroll) {
            scroll = Scroll::Wanted;
            tok = self.next()?;
        }
        if tok != Tok::Keyword(Keyword::For) {
            return self.error_here("syntax error, expected \"FOR\"");
        }
        let (tok, place) = self.next_at()?;
        let source = if tok == Tok::Keyword(Keyword::Execute) {
            let (query, end) = self.expression_until(&[Tok::Keyword(Keyword::Using), sign(';')], "USING or ;")?;
            let params = if end == sign(';') { Vec::new() } else { self.expressions(sign(';'), ", or ;")? };
            OpenSource::Dynamic { query, params }
        } else {
            self.push_back(tok, place);
            OpenSource::Query(self.sql_statement()?)
        };
        Ok(StmtKind::Open { cursor, scroll, source })
    }

    pub(crate) fn fetch(&mut self, at: (usize, usize)) -> Result<StmtKind> {
        let fetch = self.direction()?;
        let cursor = self.cursor_variable()?;
        self.expect_keyword(Keyword::Into)?;
        let target = self.target_of_into(false)?.target;
        self.expect(&sign(';'))?;
        if fetch.many {
            return self.fail(sqlstate::FEATURE_NOT_SUPPORTED, "FETCH statement cannot return multiple rows", at.0);
        }
        Ok(StmtKind::Fetch { cursor, target: Some(target), direction: fetch.direction, count: fetch.count })
    }

    pub(crate) fn move_cursor(&mut self) -> Result<StmtKind> {
        let fetch = self.direction()?;
        let cursor = self.cursor_variable()?;
        self.expect(&sign(';'))?;
        Ok(StmtKind::Fetch { cursor, target: None, direction: fetch.direction, count: fetch.count })
    }

    /// Up to FROM or IN, which is read too.
    fn direction(&mut self) -> Result<Fetch> {
        let (tok, place) = self.next_at()?;
        if tok == Tok::Plain(Token::End) {
            return self.error_here("unexpected end of function definition");
        }
        let one = |direction, number| Fetch { direction, count: FetchCount::Number(number), many: false };
        let all = Fetch { direction: Direction::Forward, count: FetchCount::All, many: true };
        let fetch = if tok.is_word(Keyword::Next) {
            one(Direction::Forward, 1)
        } else if tok.is_word(Keyword::Prior) {
            one(Direction::Backward, 1)
        } else if tok.is_word(Keyword::First) {
            one(Direction::Absolute, 1)
        } else if tok.is_word(Keyword::Last) {
            one(Direction::Absolute, -1)
        } else if tok.is_word(Keyword::Absolute) {
            return self.counted(Direction::Absolute, false);
        } else if tok.is_word(Keyword::Relative) {
            return self.counted(Direction::Relative, false);
        } else if tok == Tok::Keyword(Keyword::All) {
            all
        } else if tok.is_word(Keyword::Forward) {
            return self.complete_direction(Direction::Forward);
        } else if tok.is_word(Keyword::Backward) {
            return self.complete_direction(Direction::Backward);
        } else if matches!(tok, Tok::Keyword(Keyword::From | Keyword::In)) {
            return Ok(one(Direction::Forward, 1));
        } else if matches!(tok, Tok::Variable(_)) {
            // A cursor, without a direction.
            self.push_back(tok, place);
            return Ok(one(Direction::Forward, 1));
        } else {
            self.push_back(tok, place);
            return self.counted(Direction::Forward, true);
        };
        self.expect_source_word()?;
        Ok(fetch)
    }

    fn counted(&mut self, direction: Direction, many: bool) -> Result<Fetch> {
        let (count, _) =
            self.expression_until(&[Tok::Keyword(Keyword::From), Tok::Keyword(Keyword::In)], "FROM or IN")?;
        Ok(Fetch { direction, count: FetchCount::Expr(count), many })
    }

    fn complete_direction(&mut self, direction: Direction) -> Result<Fetch> {
        let (tok, place) = self.next_at()?;
        match tok {
            Tok::Plain(Token::End) => self.error_here("unexpected end of function definition"),
            Tok::Keyword(Keyword::From | Keyword::In) => {
                Ok(Fetch { direction, count: FetchCount::Number(1), many: false })
            }
            Tok::Keyword(Keyword::All) => {
                self.expect_source_word()?;
                Ok(Fetch { direction, count: FetchCount::All, many: true })
            }
            tok => {
                self.push_back(tok, place);
                self.counted(direction, true)
            }
        }
    }

    fn expect_source_word(&mut self) -> Result<()> {
        match self.next()? {
            Tok::Keyword(Keyword::From | Keyword::In) => Ok(()),
            _ => self.error_here("expected FROM or IN"),
        }
    }

    /// Arguments of a bound cursor, and `until`. As one expression of as many columns as there are arguments, in their
    /// order.
    pub(crate) fn cursor_args(&mut self, cursor: Slot, until: &Tok) -> Result<Option<Expr>> {
        let (name, args) = match self.frame.variables.get(cursor) {
            Some(Variable::Scalar(v)) => (v.name.clone(), v.cursor.as_ref().and_then(|c| c.args)),
            _ => (String::new(), None),
        };
        let (tok, place) = self.next_at()?;
        let names = match args.and_then(|slot| self.frame.variables.get(slot)) {
            Some(Variable::Row { names, .. }) => names.clone(),
            _ if tok == sign('(') => return self.syntax(format!("cursor \"{name}\" has no arguments"), place.0),
            _ if tok == *until => return Ok(None),
            _ => return self.syntax_error(),
        };
        if tok != sign('(') {
            return self.syntax(format!("cursor \"{name}\" has arguments"), place.0);
        }
        let text = self.argument_list(&name, &names)?;
        let expr = self.expr(&text, ParseMode::Expression);
        self.expect(until)?;
        Ok(Some(expr))
    }

    fn argument_list(&mut self, cursor: &str, names: &[String]) -> Result<String> {
        let mut values: Vec<Option<String>> = vec![None; names.len()];
        let mut any_named = false;
        for i in 0..names.len() {
            let (first, second, start) = self.peek_two()?;
            let is_named = matches!(first, Tok::Plain(Token::Identifier { .. }))
                && matches!(second, Tok::Plain(Token::ColonEquals | Token::EqualsGreater));
            let at = if is_named {
                any_named = true;
                self.argument_name(cursor, names)?
            } else {
                i
            };
            if values.get(at).is_some_and(Option::is_some) {
                let parameter = names.get(at).map_or("", String::as_str);
                return self.syntax(
                    format!("value for parameter \"{parameter}\" of cursor \"{cursor}\" specified more than once"),
                    start,
                );
            }
            let piece =
                self.read_sql(&super::sql::Until { tokens: &[sign(','), sign(')')], expected: ",\" or \")" }, true)?;
            let text = self.slice(piece.start, piece.end);
            self.check(text, ParseMode::Expression, piece.start)?;
            if let Some(value) = values.get_mut(at) {
                *value = Some(text.to_string());
            }
            let is_last = i + 1 == names.len();
            let end = self.current.0;
            if piece.ended_by == sign(')') && !is_last {
                return self.syntax(format!("not enough arguments for cursor \"{cursor}\""), end);
            }
            if piece.ended_by == sign(',') && is_last {
                return self.syntax(format!("too many arguments for cursor \"{cursor}\""), end);
            }
        }
        let shown = names.iter().zip(values).map(|(name, value)| {
            let value = value.unwrap_or_default();
            if any_named { format!("{value} AS {}", quote(name)) } else { value }
        });
        Ok(shown.collect::<Vec<_>>().join(", "))
    }

    /// `name :=`. Returns which argument it is.
    fn argument_name(&mut self, cursor: &str, names: &[String]) -> Result<usize> {
        let saved = std::mem::replace(&mut self.lookup, Lookup::Declare);
        let read = self.next_at();
        self.lookup = saved;
        let (tok, place) = read?;
        let name = tok.any_identifier().unwrap_or_default();
        let Some(at) = names.iter().position(|n| *n == name) else {
            return self.syntax(format!("cursor \"{cursor}\" has no argument named \"{name}\""), place.0);
        };
        self.next()?;
        Ok(at)
    }
}

fn quote(name: &str) -> String {
    let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    if plain { name.to_string() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}
