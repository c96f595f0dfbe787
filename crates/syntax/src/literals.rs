//! Finds the literals of a statement without parsing it, so that statements that differ in their literals only can
//! share a plan.
//!
//! Invariants
//! 1. Texts with the same [`Scanned::shape`] have the same tokens, but for the values of their literals.
//! 2. What this scanner does not know (comments, dollar quotes, prefixed strings, several statements, …) makes it give
//!    up; a number that it does not know stays in the shape as it is written.
//! 3. Whether a token that looks like a literal is one, and may vary, is for the binder to say.
//!
//! Must not know: catalogs, types, plans.

/// What a literal looks like; equal kinds are equal tokens to the grammar and equal types to the binder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LiteralKind {
    /// Digits that fit an `i32`.
    Int4,
    /// Digits that fit an `i64`, negated or not, but no `i32`, negated or not.
    Int8,
    /// `'…'`.
    String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Literal {
    pub kind: LiteralKind,
    /// Byte offsets in the text; a string's quotes are included.
    pub start: u32,
    pub end: u32,
    /// Where a minus stands that precedes it with nothing but blanks between them.
    pub minus_at: Option<u32>,
    /// The value of an integer.
    pub number: i64,
}

impl Literal {
    pub fn text<'s>(&self, sql: &'s str) -> &'s str {
        sql.get(self.start as usize..self.end as usize).unwrap_or("")
    }
    /// A string's value: quotes off, doubled ones single.
    pub fn string(&self, sql: &str) -> String {
        let text = self.text(sql);
        text.get(1..text.len().saturating_sub(1)).unwrap_or("").replace("''", "'")
    }
}

/// Most literals that a statement may have for its plan to be shared.
pub const LITERALS_MAX: usize = 64;

/// A scanned statement. Reused from one statement to the next, so that scanning allocates nothing.
#[derive(Default, Debug, Clone)]
pub struct Scanned {
    /// The text with a control byte in place of each literal, without the final semicolon.
    pub shape: Vec<u8>,
    pub literals: Vec<Literal>,
}

const INT4_MARK: u8 = 1;
const STRING_MARK: u8 = 2;
const INT8_MARK: u8 = 3;

fn is_identifier_start(c: u8) -> bool {
    c.is_ascii_alphabetic() || c == b'_' || c >= 0x80
}

fn is_identifier_part(c: u8) -> bool {
    is_identifier_start(c) || c.is_ascii_digit() || c == b'$'
}

fn is_blank(c: u8) -> bool {
    matches!(c, b' ' | b'\t' | b'\n' | b'\r' | 0x0c | 0x0b)
}

fn skip_while(bytes: &[u8], mut at: usize, wanted: impl Fn(u8) -> bool) -> usize {
    while at < bytes.len() && wanted(bytes[at]) {
        at += 1;
    }
    at
}

impl Scanned {
    /// Scans `sql`; false if its plan is not to be shared between different literals.
    pub fn scan(&mut self, sql: &str) -> bool {
        self.shape.clear();
        self.literals.clear();
        let bytes = sql.as_bytes();
        let mut at = skip_while(bytes, 0, is_blank);
        let mut minus_at = None;
        while at < bytes.len() {
            let c = bytes[at];
            let start = at;
            let previous_minus = minus_at.take();
            match c {
                _ if is_identifier_start(c) => {
                    at = skip_while(bytes, at, is_identifier_part);
                    if bytes.get(at) == Some(&b'\'') || bytes.get(at) == Some(&b'&') {
                        return false;
                    }
                    self.shape.extend_from_slice(&bytes[start..at]);
                }
                b'0'..=b'9' => at = self.number(sql, at, previous_minus),
                b'.' => {
                    at = skip_while(bytes, at + 1, |c| is_identifier_part(c) || c == b'.');
                    self.shape.extend_from_slice(&bytes[start..at]);
                }
                b'\'' => match self.string(bytes, at, previous_minus) {
                    Some(end) => at = end,
                    None => return false,
                },
                b'"' => {
                    at = skip_while(bytes, at + 1, |c| c != b'"') + 1;
                    if at > bytes.len() {
                        return false;
                    }
                    self.shape.extend_from_slice(&bytes[start..at]);
                }
                b'-' | b'/' if bytes.get(at + 1) == Some(&b'-') || (c == b'/' && bytes.get(at + 1) == Some(&b'*')) => {
                    return false;
                }
                b';' => {
                    if skip_while(bytes, at + 1, is_blank) != bytes.len() {
                        return false;
                    }
                    at = bytes.len();
                }
                b'$' | b'\\' | 0..=8 | 0x0e..=0x1f | 0x7f => return false,
                _ => {
                    if c == b'-' {
                        minus_at = Some(at as u32);
                    } else if is_blank(c) {
                        minus_at = previous_minus;
                    }
                    self.shape.push(c);
                    at += 1;
                }
            }
        }
        while self.shape.last().is_some_and(|c| is_blank(*c)) {
            self.shape.pop();
        }
        self.literals.len() <= LITERALS_MAX && !self.shape.is_empty()
    }

    /// A number that begins at `at`; returns where it ends.
    fn number(&mut self, sql: &str, at: usize, minus_at: Option<u32>) -> usize {
        let bytes = sql.as_bytes();
        let end = skip_while(bytes, at, |c| c.is_ascii_digit());
        let known = !bytes.get(end).is_some_and(|c| is_identifier_part(*c) || *c == b'.');
        let number = sql.get(at..end).filter(|_| known).and_then(|digits| digits.parse::<i64>().ok());
        // 2147483648 is an int4 when it is negated.
        let kind = match number {
            Some(n) if i32::try_from(n).is_ok() => (LiteralKind::Int4, INT4_MARK, n),
            Some(n) if n > 1 << 31 => (LiteralKind::Int8, INT8_MARK, n),
            _ => {
                let end = skip_while(bytes, at, |c| is_identifier_part(c) || c == b'.');
                self.shape.extend_from_slice(&bytes[at..end]);
                return end;
            }
        };
        self.shape.push(kind.1);
        self.literals.push(Literal { kind: kind.0, start: at as u32, end: end as u32, minus_at, number: kind.2 });
        end
    }

    /// A string that begins at `at`; returns where it ends, None if it does not end or is continued by another.
    fn string(&mut self, bytes: &[u8], start: usize, minus_at: Option<u32>) -> Option<usize> {
        let mut at = start + 1;
        loop {
            at = skip_while(bytes, at, |c| c != b'\'');
            if at >= bytes.len() {
                return None;
            }
            at += 1;
            if bytes.get(at) != Some(&b'\'') {
                break;
            }
            at += 1;
        }
        if bytes.get(skip_while(bytes, at, is_blank)) == Some(&b'\'') {
            return None;
        }
        self.shape.push(STRING_MARK);
        self.literals.push(Literal {
            kind: LiteralKind::String,
            start: start as u32,
            end: at as u32,
            minus_at,
            number: 0,
        });
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(sql: &str) -> Option<(String, Vec<String>)> {
        let mut scanned = Scanned::default();
        scanned.scan(sql).then(|| {
            let shape = String::from_utf8(scanned.shape.clone()).unwrap();
            (shape, scanned.literals.iter().map(|l| l.text(sql).to_string()).collect())
        })
    }

    #[test]
    fn literals_leave_the_shape() {
        let (shape, literals) = scan("select a1 from t2 where x = 12 and y = 'it''s' ;").unwrap();
        assert_eq!(shape, "select a1 from t2 where x = \u{1} and y = \u{2}");
        assert_eq!(literals, ["12", "'it''s'"]);
        assert_eq!(scan("select 3000000000").unwrap().0, "select \u{3}");
    }

    #[test]
    fn other_numbers_stay() {
        for text in [
            "select 1.5",
            "select .5",
            "select 1e10",
            "select 0x1f",
            "select 1_000",
            "select 2147483648",
            "select 12ab",
        ] {
            let (shape, literals) = scan(text).unwrap();
            assert_eq!((shape.as_str(), literals.len()), (text, 0));
        }
    }

    #[test]
    fn the_unusual_is_refused() {
        for text in [
            "select 1; select 2",
            "select 1 -- x",
            "select /* 1 */ 2",
            "select $1",
            "select $$a$$",
            "select e'a'",
            "select 'a' 'b'",
            "select 'a",
            "select \"a",
            "",
        ] {
            assert_eq!(scan(text), None, "{text}");
        }
    }

    #[test]
    fn a_minus_is_noted() {
        let mut scanned = Scanned::default();
        assert!(scanned.scan("set a = b + - 5, c = d -7"));
        assert_eq!(scanned.literals.iter().map(|l| l.minus_at).collect::<Vec<_>>(), [Some(12), Some(23)]);
    }
}
