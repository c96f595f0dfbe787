//! hstore's text form (`"key"=>"value", "other"=>NULL`) and its binary form.

use super::{Hstore, corrupted, datum};
use crate::Datum;
use crate::types::text::utf8;
use kilndb_base::{Error, Result, sqlstate, work};

/// What PostgreSQL's scanner takes for a space.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

/// A key or a value as it is written.
struct Word {
    text: String,
    is_quoted: bool,
}

type WrittenPair = (String, Option<String>);

impl Parser<'_> {
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }
    fn wrong(&self) -> Error {
        let near = self.text.get(self.at..).and_then(|rest| rest.chars().next()).map(String::from).unwrap_or_default();
        let message = format!("syntax error in hstore, near \"{near}\" at position {}", self.at);
        Error::new(sqlstate::SYNTAX_ERROR, message)
    }
    fn ended() -> Error {
        Error::new(sqlstate::SYNTAX_ERROR, "syntax error in hstore: unexpected end of string")
    }
    fn skip_spaces(&mut self) -> Result<()> {
        while self.byte().is_some_and(is_space) {
            work::step(2)?;
            self.at += 1;
        }
        Ok(())
    }
    /// The character here, which stands for itself.
    fn escaped(&mut self, word: &mut String) -> Result<()> {
        self.at += 1;
        let c = self.text.get(self.at..).and_then(|rest| rest.chars().next()).ok_or_else(Parser::ended)?;
        word.push(c);
        self.at += c.len_utf8();
        Ok(())
    }
    /// A word up to the byte that ends one that is not quoted; None: the text ends before one begins.
    fn word(&mut self, end: u8) -> Result<Option<Word>> {
        self.skip_spaces()?;
        let mut text = String::new();
        match self.byte() {
            None => return Ok(None),
            Some(b'"') => {
                self.at += 1;
                self.quoted(&mut text)?;
                return Ok(Some(Word { text, is_quoted: true }));
            }
            Some(b'=') if end == b'=' => return Err(self.wrong()),
            _ => {}
        }
        // A value may begin with the comma that ends others.
        let mut is_first = true;
        while let Some(byte) = self.byte() {
            work::step(3)?;
            match byte {
                b'\\' => self.escaped(&mut text)?,
                byte if byte == end && !is_first || is_space(byte) => break,
                _ => self.plain(&mut text),
            }
            is_first = false;
        }
        Ok(Some(Word { text, is_quoted: false }))
    }
    fn plain(&mut self, word: &mut String) {
        if let Some(c) = self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            word.push(c);
            self.at += c.len_utf8();
        }
    }
    fn quoted(&mut self, word: &mut String) -> Result<()> {
        loop {
            work::step(3)?;
            match self.byte() {
                None => return Err(Parser::ended()),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escaped(word)?,
                Some(_) => self.plain(word),
            }
        }
    }
    fn arrow(&mut self) -> Result<()> {
        self.skip_spaces()?;
        for wanted in *b"=>" {
            match self.byte() {
                Some(byte) if byte == wanted => self.at += 1,
                Some(_) => return Err(self.wrong()),
                None => return Err(Parser::ended()),
            }
        }
        Ok(())
    }
}

/// The pairs of a text, in its order.
pub(super) fn parse(text: &str) -> Result<Vec<WrittenPair>> {
    let mut parser = Parser { text, at: 0 };
    let mut pairs = Vec::new();
    while let Some(key) = parser.word(b'=')? {
        parser.arrow()?;
        let value = parser.word(b',')?.ok_or_else(Parser::ended)?;
        let is_null = !value.is_quoted && value.text.eq_ignore_ascii_case("null");
        pairs.push((key.text, (!is_null).then_some(value.text)));
        parser.skip_spaces()?;
        match parser.byte() {
            None => break,
            Some(b',') => parser.at += 1,
            Some(_) => return Err(parser.wrong()),
        }
    }
    Ok(pairs)
}

fn put_quoted(text: &str, out: &mut Vec<u8>) -> Result<()> {
    out.push(b'"');
    for &byte in text.as_bytes() {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
    work::step(text.len() * 2)
}

pub(super) fn write(value: &Hstore<'_>, out: &mut Vec<u8>) -> Result<()> {
    for (at, (key, value)) in value.pairs()?.into_iter().enumerate() {
        if at > 0 {
            out.extend_from_slice(b", ");
        }
        put_quoted(key, out)?;
        out.extend_from_slice(b"=>");
        match value {
            Some(value) => put_quoted(value, out)?,
            None => out.extend_from_slice(b"NULL"),
        }
    }
    Ok(())
}

pub(super) fn send(value: &Hstore<'_>, out: &mut Vec<u8>) -> Result<()> {
    out.extend_from_slice(&(value.len() as u32).to_be_bytes());
    for at in work::steps(0..value.len(), 10) {
        let (key, value) = value.pair(at?).ok_or_else(corrupted)?;
        out.extend_from_slice(&(key.len() as u32).to_be_bytes());
        out.extend_from_slice(key.as_bytes());
        match value {
            Some(value) => {
                out.extend_from_slice(&(value.len() as u32).to_be_bytes());
                out.extend_from_slice(value.as_bytes());
            }
            None => out.extend_from_slice(&(-1i32).to_be_bytes()),
        }
    }
    Ok(())
}

/// The number before the rest of a message.
fn number(bytes: &mut &[u8]) -> Result<i32> {
    let (head, rest) = bytes.split_first_chunk::<4>().ok_or_else(crate::types::short)?;
    *bytes = rest;
    Ok(i32::from_be_bytes(*head))
}
fn text_of<'a>(bytes: &mut &'a [u8], len: i32) -> Result<&'a str> {
    let len = usize::try_from(len).map_err(|_| crate::types::short())?;
    let (head, rest) = bytes.split_at_checked(len).ok_or_else(crate::types::short)?;
    *bytes = rest;
    utf8(head)
}

pub(super) fn receive(bytes: &[u8]) -> Result<Datum> {
    /// As many as PostgreSQL takes.
    const MOST: i32 = 0x3fff_ffff / 40;
    let mut rest = bytes;
    let count = number(&mut rest)?;
    if !(0..=MOST).contains(&count) {
        let message = format!("number of pairs ({count}) exceeds the maximum allowed ({MOST})");
        return Err(Error::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, message));
    }
    let mut pairs = Vec::new();
    for _ in 0..count {
        work::step(20)?;
        let len = number(&mut rest)?;
        if len < 0 {
            return Err(Error::new(sqlstate::NULL_VALUE_NOT_ALLOWED, "null value not allowed for hstore key"));
        }
        let key = text_of(&mut rest, len)?;
        let len = number(&mut rest)?;
        pairs.push((key, if len < 0 { None } else { Some(text_of(&mut rest, len)?) }));
    }
    if !rest.is_empty() {
        return Err(crate::types::bad_format());
    }
    datum(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_postgresql_reads_them() {
        let read = |text: &str| match parse(text) {
            Ok(pairs) => pairs
                .iter()
                .map(|(k, v)| format!("{k}:{}", v.as_deref().unwrap_or("<null>")))
                .collect::<Vec<_>>()
                .join("|"),
            Err(e) => e.message().to_string(),
        };
        assert_eq!(read(""), "");
        assert_eq!(read("a=>1,b=> NuLl , \"c d\"=>\"null\""), "a:1|b:<null>|c d:null");
        assert_eq!(read("\\=a=>q=w,"), "=a:q=w");
        assert_eq!(read("a=>,b"), "a:,b");
        assert_eq!(read("a\\\"b=>\"x\\\"y\\\\\""), "a\"b:x\"y\\");
        assert_eq!(read("=a=>1"), "syntax error in hstore, near \"=\" at position 0");
        assert_eq!(read("a>q"), "syntax error in hstore: unexpected end of string");
        assert_eq!(read("a=>\"b"), "syntax error in hstore: unexpected end of string");
        assert_eq!(read("a=>b\\"), "syntax error in hstore: unexpected end of string");
        assert_eq!(read("a=é"), "syntax error in hstore, near \"é\" at position 2");
        assert_eq!(read("a=>1 b"), "syntax error in hstore, near \"b\" at position 5");
    }

    #[test]
    fn long_values_give_way() {
        use crate::looks::{asks, worth};
        let text: String = (0..100_000).map(|i| format!("key{i}=>\"value {i}\",")).collect();
        let value = datum(parse(&text).unwrap()).unwrap();
        asks(worth(2 * text.len()), |_| parse(&text));
        asks(worth(text.len()), |_| {
            let mut out = Vec::new();
            write(&Hstore::of(&value)?, &mut out)?;
            Ok(out)
        });
    }

    #[test]
    fn binary_form_comes_back() {
        let value = datum(parse("a=>1,bb=>NULL,é=>\"\"").unwrap()).unwrap();
        let mut out = Vec::new();
        send(&Hstore::of(&value).unwrap(), &mut out).unwrap();
        let back = receive(&out).unwrap();
        assert_eq!(Hstore::of(&back).unwrap().pairs().unwrap(), Hstore::of(&value).unwrap().pairs().unwrap());
        for cut in 0..out.len() {
            assert!(receive(&out[..cut]).is_err(), "{cut}");
        }
        assert!(receive(&[0xff, 0xff, 0xff, 0xff]).is_err());
        assert!(receive(&[&[0, 0, 0, 1][..], &[0xff; 4]].concat()).is_err());
    }
}
