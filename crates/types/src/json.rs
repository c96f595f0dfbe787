//! JSON: validation of text.

use kilndb_base::{Error, Result, sqlstate};

struct Parser<'a> {
    b: &'a [u8],
    at: usize,
}
const MAX_DEPTH: usize = 512;

/// Accepts what RFC 8259 accepts.
pub fn validate(text: &str) -> Result<()> {
    let mut p = Parser { b: text.as_bytes(), at: 0 };
    let ok = p.value(0).is_some() && {
        p.blanks();
        p.at == p.b.len()
    };
    if ok {
        return Ok(());
    }
    let e = Error::new(sqlstate::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json");
    if p.at >= p.b.len() {
        return Err(e.with_detail("The input string ended unexpectedly."));
    }
    let token: String = text.get(p.at..).unwrap_or("").chars().take_while(|c| c.is_alphanumeric()).collect();
    let token = if token.is_empty() { text.get(p.at..).unwrap_or("").chars().take(1).collect() } else { token };
    Err(e.with_detail(format!("Token \"{token}\" is invalid.")))
}
impl Parser<'_> {
    fn blanks(&mut self) {
        while matches!(self.b.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }
    fn take(&mut self, c: u8) -> bool {
        self.blanks();
        let hit = self.b.get(self.at) == Some(&c);
        self.at += usize::from(hit);
        hit
    }
    fn value(&mut self, depth: usize) -> Option<()> {
        self.blanks();
        if depth > MAX_DEPTH {
            return None;
        }
        match self.b.get(self.at)? {
            b'{' => {
                self.at += 1;
                if self.take(b'}') {
                    return Some(());
                }
                loop {
                    self.blanks();
                    self.string()?;
                    self.take(b':').then_some(())?;
                    self.value(depth + 1)?;
                    if !self.take(b',') {
                        return self.take(b'}').then_some(());
                    }
                }
            }
            b'[' => {
                self.at += 1;
                if self.take(b']') {
                    return Some(());
                }
                loop {
                    self.value(depth + 1)?;
                    if !self.take(b',') {
                        return self.take(b']').then_some(());
                    }
                }
            }
            b'"' => self.string(),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.number(),
        }
    }
    fn word(&mut self, w: &[u8]) -> Option<()> {
        self.b.get(self.at..)?.starts_with(w).then_some(())?;
        self.at += w.len();
        Some(())
    }
    fn string(&mut self) -> Option<()> {
        (self.b.get(self.at)? == &b'"').then_some(())?;
        let mut at = self.at + 1;
        loop {
            match self.b.get(at)? {
                b'"' => break,
                b'\\' => match self.b.get(at + 1)? {
                    b'u' => {
                        self.b.get(at + 2..at + 6)?.iter().all(u8::is_ascii_hexdigit).then_some(())?;
                        at += 6;
                    }
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => at += 2,
                    _ => return None,
                },
                0..=0x1f => return None,
                _ => at += 1,
            }
        }
        self.at = at + 1;
        Some(())
    }
    fn digits(&mut self, mut at: usize) -> Option<usize> {
        let start = at;
        while self.b.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        (at > start).then_some(at)
    }
    fn number(&mut self) -> Option<()> {
        let mut at = self.at + usize::from(self.b.get(self.at) == Some(&b'-'));
        at = if self.b.get(at) == Some(&b'0') { at + 1 } else { self.digits(at)? };
        if self.b.get(at) == Some(&b'.') {
            at = self.digits(at + 1)?;
        }
        if matches!(self.b.get(at), Some(b'e' | b'E')) {
            at += 1 + usize::from(matches!(self.b.get(at + 1), Some(b'+' | b'-')));
            at = self.digits(at)?;
        }
        if self.b.get(at).is_some_and(u8::is_ascii_alphanumeric) {
            return None;
        }
        self.at = at;
        Some(())
    }
}
