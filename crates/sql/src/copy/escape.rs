//! Values as COPY's text and CSV formats write them, and what is read of escapes.
//!
//! Most values have no byte that needs an escape, which is found out sixteen bytes at a time.
//!
//! Must not know: types, rows, where the bytes go.

use super::CopyOptions;
use kilndb_base::Result;
use kilndb_base::work::{PIECE_BYTES, step};

/// A step over fewer bytes is not worth counting.
const SHORT: usize = 1024;

/// The pieces of a value, between which others get their turn.
fn pieces(value: &[u8]) -> impl Iterator<Item = Result<&[u8]>> {
    value
        .chunks(PIECE_BYTES)
        .map(|piece| if piece.len() > SHORT { step(piece.len()).map(|()| piece) } else { Ok(piece) })
}

/// Where the first byte is that `is_special` says so of.
#[inline(always)]
pub(super) fn find(bytes: &[u8], is_special: impl Fn(u8) -> bool + Copy) -> Option<usize> {
    let has_any = |bytes: &[u8]| bytes.iter().fold(false, |found, byte| found | is_special(*byte));
    let (long, rest) = bytes.as_chunks::<16>();
    let mut at = 0;
    for chunk in long {
        if has_any(chunk) {
            return bytes[at..].iter().position(|byte| is_special(*byte)).map(|within| at + within);
        }
        at += 16;
    }
    let (short, _) = rest.as_chunks::<8>();
    if let [chunk] = short
        && !has_any(chunk)
    {
        at += 8;
    }
    bytes[at..].iter().position(|byte| is_special(*byte)).map(|within| at + within)
}

/// Whether the text format writes the byte with a backslash.
#[inline(always)]
fn is_escaped(byte: u8, delimiter: u8) -> bool {
    byte.wrapping_sub(8) < 6 || byte == b'\\' || byte == delimiter
}

/// Appends a value in the text format.
pub(super) fn append_text(value: &[u8], delimiter: u8, out: &mut Vec<u8>) -> Result<()> {
    for piece in pieces(value) {
        let mut rest = piece?;
        while let Some(at) = find(rest, |byte| is_escaped(byte, delimiter)) {
            let letter = match rest[at] {
                8 => b'b',
                9 => b't',
                10 => b'n',
                11 => b'v',
                12 => b'f',
                13 => b'r',
                byte => byte,
            };
            out.extend_from_slice(&rest[..at]);
            out.extend_from_slice(&[b'\\', letter]);
            rest = &rest[at + 1..];
        }
        out.extend_from_slice(rest);
    }
    Ok(())
}

/// What follows a backslash: the byte meant and how many were used.
pub(super) fn unescape(rest: &[u8]) -> (u8, usize) {
    let octal = |b: u8| (b'0'..=b'7').contains(&b);
    match rest[0] {
        b'b' => (8, 1),
        b'f' => (12, 1),
        b'n' => (b'\n', 1),
        b'r' => (b'\r', 1),
        b't' => (b'\t', 1),
        b'v' => (11, 1),
        b if octal(b) => {
            let digits = rest.iter().take(3).take_while(|b| octal(**b)).count();
            let value = rest[..digits].iter().fold(0u32, |v, b| v * 8 + u32::from(b - b'0'));
            (value as u8, digits)
        }
        b'x' if rest.get(1).is_some_and(u8::is_ascii_hexdigit) => {
            let digits = rest[1..].iter().take(2).take_while(|b| b.is_ascii_hexdigit()).count();
            let text = std::str::from_utf8(&rest[1..=digits]).unwrap_or("0");
            (u8::from_str_radix(text, 16).unwrap_or(0), digits + 1)
        }
        b => (b, 1),
    }
}

/// How a column's values are written in CSV.
#[derive(Clone, Copy)]
pub(super) struct CsvColumn {
    pub is_always_quoted: bool,
    /// There is no other column in the line.
    pub is_alone: bool,
}

fn is_quoted(value: &[u8], o: &CopyOptions, column: CsvColumn) -> Result<bool> {
    if column.is_always_quoted || value == o.null.as_bytes() || (column.is_alone && value == b"\\.") {
        return Ok(true);
    }
    let (delimiter, quote) = (o.delimiter, o.quote);
    for piece in pieces(value) {
        let is_special = |byte| byte == delimiter || byte == quote || byte == b'\n' || byte == b'\r';
        if find(piece?, is_special).is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Appends a value in CSV.
pub(super) fn append_csv(value: &[u8], o: &CopyOptions, column: CsvColumn, out: &mut Vec<u8>) -> Result<()> {
    if is_quoted(value, o, column)? {
        return append_quoted(value, o, out);
    }
    for piece in pieces(value) {
        out.extend_from_slice(piece?);
    }
    Ok(())
}

fn append_quoted(value: &[u8], o: &CopyOptions, out: &mut Vec<u8>) -> Result<()> {
    let (quote, escape) = (o.quote, o.escape);
    out.push(quote);
    for piece in pieces(value) {
        let mut rest = piece?;
        while let Some(at) = find(rest, |byte| byte == quote || byte == escape) {
            out.extend_from_slice(&rest[..at]);
            out.extend_from_slice(&[escape, rest[at]]);
            rest = &rest[at + 1..];
        }
        out.extend_from_slice(rest);
    }
    out.push(quote);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::options::Format;
    use super::*;

    fn text(value: &[u8], delimiter: u8) -> Vec<u8> {
        let mut out = Vec::new();
        append_text(value, delimiter, &mut out).unwrap();
        out
    }

    #[test]
    fn text_fields_are_escaped() {
        assert_eq!(text(b"a\tb\\c\n", b'\t'), b"a\\tb\\\\c\\n");
        assert_eq!(text(b"\x08\x09\x0a\x0b\x0c\x0d\x07\x0e|", b'|'), b"\\b\\t\\n\\v\\f\\r\x07\x0e\\|");
        // Wherever the byte stands, and however long the value is.
        for length in 0..70 {
            let plain = vec![b'x'; length];
            assert_eq!(text(&plain, b','), plain);
            for at in 0..length {
                let mut value = plain.clone();
                value[at] = b',';
                let expected = [&plain[..at], b"\\,", &plain[at + 1..]].concat();
                assert_eq!(text(&value, b','), expected);
            }
        }
    }

    #[test]
    fn escapes_of_the_text_format() {
        assert_eq!(unescape(b"n"), (b'\n', 1));
        assert_eq!(unescape(b"1019"), (b'A', 3));
        assert_eq!(unescape(b"x41"), (b'A', 3));
        assert_eq!(unescape(b"x"), (b'x', 1));
        assert_eq!(unescape(b"\\"), (b'\\', 1));
    }

    #[test]
    fn csv_fields_are_quoted_where_they_must_be() {
        let options = CopyOptions {
            format: Format::Csv,
            delimiter: b',',
            null: "nil".into(),
            header: false,
            header_match: false,
            quote: b'"',
            escape: b'\'',
            force_quote: Vec::new(),
            force_not_null: Vec::new(),
            force_null: Vec::new(),
        };
        let csv = |value: &str, is_always_quoted, is_alone| {
            let column = CsvColumn { is_always_quoted, is_alone };
            let mut out = Vec::new();
            append_csv(value.as_bytes(), &options, column, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(csv("plain, or not, that is the question", false, false), "\"plain, or not, that is the question\"");
        assert_eq!(csv("it's \"so\"", false, false), "\"it''s '\"so'\"\"");
        assert_eq!(csv("it's", false, false), "it's");
        assert_eq!((csv("nil", false, false), csv("x", true, false)), ("\"nil\"".into(), "\"x\"".into()));
        assert_eq!((csv("\\.", false, true), csv("\\.", false, false)), ("\"\\.\"".into(), "\\.".into()));
        assert_eq!(csv("a\r", false, false), "\"a\r\"");
    }
}
