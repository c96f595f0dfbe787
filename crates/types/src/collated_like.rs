//! LIKE under a collation by which different texts may be equal: what stands between wildcards is compared by the
//! collation, with every piece of the text that it may be equal to (PostgreSQL 18, section 9.7.1).
//!
//! Must not know: how patterns come to be.

use crate::collation::{CollationRules, rules_of};
use crate::functions::ScalarFn;
use crate::{Datum, EvalContext};
use kilndb_base::{Error, Oid, Result, sqlstate, work};

enum Token {
    Literal(String),
    AnyCharacter,
    Anything,
}

/// What LIKE and NOT LIKE are under such a collation, of whose rules an order type is the third argument; None: the
/// function is neither.
pub fn by_rules(oid: Oid) -> Option<ScalarFn> {
    match oid {
        850 | 1631 | 858 => Some(like),
        851 | 1632 | 859 => Some(not_like),
        _ => None,
    }
}

fn like(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    matches(args).map(Datum::Bool)
}

fn not_like(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    matches(args).map(|is_match| Datum::Bool(!is_match))
}

fn matches(args: &[Datum]) -> Result<bool> {
    let [Datum::Text(text), Datum::Text(pattern), Datum::Oid(order_type)] = args else {
        return Err(Error::internal("LIKE by a collation of something else than texts"));
    };
    let Some(rules) = rules_of(*order_type) else { return Err(Error::internal("LIKE by no collation")) };
    let tokens = tokens_of(pattern)?;
    let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    Search { text, ends: &ends, tokens: &tokens, rules, failed: vec![false; tokens.len() * ends.len()] }.is_match(0, 0)
}

fn tokens_of(pattern: &str) -> Result<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut literal = String::new();
    let mut characters = pattern.chars();
    while let Some(c) = characters.next() {
        let wildcard = match c {
            '%' => Token::Anything,
            '_' => Token::AnyCharacter,
            '\\' => {
                let Some(escaped) = characters.next() else {
                    let message = "LIKE pattern must not end with escape character";
                    return Err(Error::new(sqlstate::INVALID_ESCAPE_SEQUENCE, message));
                };
                literal.push(escaped);
                continue;
            }
            _ => {
                literal.push(c);
                continue;
            }
        };
        if !literal.is_empty() {
            tokens.push(Token::Literal(std::mem::take(&mut literal)));
        }
        tokens.push(wildcard);
    }
    if !literal.is_empty() {
        tokens.push(Token::Literal(literal));
    }
    Ok(tokens)
}

struct Search<'a> {
    text: &'a str,
    /// Where characters begin, and the end.
    ends: &'a [usize],
    tokens: &'a [Token],
    rules: &'static CollationRules,
    /// By token and place: the rest of the pattern does not match the rest of the text.
    failed: Vec<bool>,
}

impl Search<'_> {
    /// Whether the tokens from `token` on match the text from its character `place` on.
    fn is_match(&mut self, token: usize, place: usize) -> Result<bool> {
        kilndb_base::stack::check()?;
        let last = self.ends.len() - 1;
        let Some(first) = self.tokens.get(token) else { return Ok(place == last) };
        let seen = token * self.ends.len() + place;
        if self.failed[seen] {
            return Ok(false);
        }
        let is_match = match first {
            Token::AnyCharacter => place < last && self.is_match(token + 1, place + 1)?,
            Token::Anything => {
                let mut found = false;
                for next in place..=last {
                    found = self.is_match(token + 1, next)?;
                    if found {
                        break;
                    }
                }
                found
            }
            Token::Literal(literal) => self.is_literal(literal, token, place)?,
        };
        self.failed[seen] = !is_match;
        Ok(is_match)
    }

    fn is_literal(&mut self, literal: &str, token: usize, place: usize) -> Result<bool> {
        let last = self.ends.len() - 1;
        let is_end = token + 1 == self.tokens.len();
        for next in if is_end { last } else { place }..=last {
            let piece = &self.text[self.ends[place]..self.ends[next]];
            work::owe(piece.len() + literal.len());
            if self.rules.compare(piece, literal).is_eq() && self.is_match(token + 1, next)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_compared_by_the_collation() {
        let order_type = crate::collation::rules("und-u-ks-level2", false).unwrap().order_type(crate::oids::TEXT);
        let is_match = |text: &str, pattern: &str| {
            let args = [Datum::text(text), Datum::text(pattern), Datum::Oid(order_type)];
            matches(&args).unwrap()
        };
        for (text, pattern) in
            [("ABC", "abc"), ("ABC", "a%"), ("ABC", "_b_"), ("xAby", "%aB%"), ("", "%"), ("A%", "a\\%")]
        {
            assert!(is_match(text, pattern), "{text} {pattern}");
        }
        for (text, pattern) in [("ABC", "ab"), ("ABC", "_"), ("ABC", "b%"), ("", "_"), ("Ax", "a\\%")] {
            assert!(!is_match(text, pattern), "{text} {pattern}");
        }
        assert!(tokens_of("a\\").is_err());
    }
}
