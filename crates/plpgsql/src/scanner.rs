//! Text to tokens, by the rules of PostgreSQL's own scanner with PL/pgSQL's reserved words.
//!
//! Invariants
//! 1. A token's `start..end` is its text in the source, quotes included.
//! 2. Scanning never looks further than one token ahead of what was asked for: a scanner's error shows only where it is
//!    reached.
//!
//! Must not know: variables. Which words name one is for the parser to say.

use crate::keywords::{Keyword, reserved};
use kilndb_base::{Error, Result, sqlstate};

#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    End,
    /// Folded or unquoted.
    Identifier {
        name: String,
        quoted: bool,
    },
    /// `$1`, with its dollar.
    Parameter(String),
    Integer(i64),
    Number,
    Text(String),
    BitText,
    Operator(String),
    /// `; , ( ) [ ] . : + - * / % ^ < > = #`
    Sign(char),
    TypeCast,
    DotDot,
    ColonEquals,
    EqualsGreater,
    LessEquals,
    GreaterEquals,
    NotEquals,
    LessLess,
    GreaterGreater,
    Keyword(Keyword),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Lexeme<T> {
    pub token: T,
    pub start: usize,
    pub end: usize,
}

pub struct Scanner<'s> {
    text: &'s str,
    at: usize,
}

/// Identifiers are cut to this many bytes.
const NAME_BYTES: usize = 63;

fn is_operator_char(b: u8) -> bool {
    matches!(
        b,
        b'~' | b'!'
            | b'@'
            | b'#'
            | b'^'
            | b'&'
            | b'|'
            | b'`'
            | b'?'
            | b'+'
            | b'-'
            | b'*'
            | b'/'
            | b'%'
            | b'<'
            | b'>'
            | b'='
    )
}

fn is_name_start(b: u8) -> bool {
    b.is_ascii_alphabetic() || b == b'_' || b >= 0x80
}

fn is_name_part(b: u8) -> bool {
    is_name_start(b) || b.is_ascii_digit() || b == b'$'
}

fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

pub fn fold(name: &str) -> String {
    truncate(name.to_ascii_lowercase())
}

fn truncate(mut name: String) -> String {
    if name.len() > NAME_BYTES {
        let mut end = NAME_BYTES;
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        name.truncate(end);
    }
    name
}

impl<'s> Scanner<'s> {
    pub fn new(text: &'s str) -> Scanner<'s> {
        Scanner { text, at: 0 }
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn rest(&self) -> &'s str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn error(&self, message: &str, start: usize) -> Error {
        self.error_near(message, start, self.text.len())
    }

    fn error_near(&self, message: &str, start: usize, end: usize) -> Error {
        let near = self.text.get(start..end).unwrap_or("");
        let position = self.text.get(..start).unwrap_or("").chars().count() as u32 + 1;
        let message = if near.is_empty() {
            format!("{message} at end of input")
        } else {
            format!("{message} at or near \"{near}\"")
        };
        Error::new(sqlstate::SYNTAX_ERROR, message).with_position(position)
    }

    pub fn next(&mut self) -> Result<Lexeme<Token>> {
        self.skip_blanks()?;
        let start = self.at;
        let token = self.token(start)?;
        Ok(Lexeme { token, start, end: self.at })
    }

    fn skip_blanks(&mut self) -> Result<()> {
        loop {
            let (b, next) = (self.byte(0), self.byte(1));
            if self.at >= self.text.len() {
                return Ok(());
            } else if is_space(b) {
                self.at += 1;
            } else if b == b'-' && next == b'-' {
                self.at += self.rest().find(['\n', '\r']).unwrap_or(self.rest().len());
            } else if b == b'/' && next == b'*' {
                self.skip_comment()?;
            } else {
                return Ok(());
            }
        }
    }

    /// Comments nest.
    fn skip_comment(&mut self) -> Result<()> {
        let (start, mut depth) = (self.at, 0u32);
        while self.at < self.text.len() {
            match (self.byte(0), self.byte(1)) {
                (b'/', b'*') => (depth, self.at) = (depth + 1, self.at + 2),
                (b'*', b'/') => {
                    (depth, self.at) = (depth - 1, self.at + 2);
                    if depth == 0 {
                        return Ok(());
                    }
                }
                _ => self.at += 1,
            }
        }
        Err(self.error("unterminated /* comment", start))
    }

    fn token(&mut self, start: usize) -> Result<Token> {
        let (b, next) = (self.byte(0), self.byte(1));
        if self.at >= self.text.len() {
            return Ok(Token::End);
        }
        match b {
            b'\'' => return self.quoted_text(start, 1, false).map(Token::Text),
            b'e' | b'E' if next == b'\'' => return self.quoted_text(start, 2, true).map(Token::Text),
            b'n' | b'N' if next == b'\'' => return self.quoted_text(start, 2, false).map(Token::Text),
            b'b' | b'B' | b'x' | b'X' if next == b'\'' => {
                return self.quoted_text(start, 2, false).map(|_| Token::BitText);
            }
            b'u' | b'U' if next == b'&' && self.byte(2) == b'\'' => {
                return self.quoted_text(start, 3, false).and_then(|t| self.unicode(&t, start)).map(Token::Text);
            }
            b'u' | b'U' if next == b'&' && self.byte(2) == b'"' => {
                self.at += 2;
                let name = self.quoted_name(start)?;
                return Ok(Token::Identifier { name: truncate(self.unicode(&name, start)?), quoted: true });
            }
            b'"' => return Ok(Token::Identifier { name: truncate(self.quoted_name(start)?), quoted: true }),
            b'$' if next.is_ascii_digit() => {
                self.at += 1;
                self.skip_while(|b| b.is_ascii_digit());
                if is_name_start(self.byte(0)) {
                    return Err(self.error_near("trailing junk after parameter", start, self.at + 1));
                }
                return Ok(Token::Parameter(self.text[start..self.at].to_string()));
            }
            b'$' => return self.dollar_text(start),
            _ if b.is_ascii_digit() || b == b'.' && next.is_ascii_digit() => return self.number(start),
            _ if is_name_start(b) => {
                self.skip_while(is_name_part);
                let name = fold(&self.text[start..self.at]);
                return Ok(match reserved(&name) {
                    Some(k) => Token::Keyword(k),
                    None => Token::Identifier { name, quoted: false },
                });
            }
            _ => {}
        }
        Ok(self.sign(b, next))
    }

    fn sign(&mut self, b: u8, next: u8) -> Token {
        let two = match (b, next) {
            (b':', b':') => Some(Token::TypeCast),
            (b':', b'=') => Some(Token::ColonEquals),
            (b'.', b'.') => Some(Token::DotDot),
            _ => None,
        };
        if let Some(token) = two {
            self.at += 2;
            return token;
        }
        if !is_operator_char(b) {
            let c = self.rest().chars().next().unwrap_or(' ');
            self.at += c.len_utf8();
            return Token::Sign(c);
        }
        self.operator()
    }

    /// The longest run of operator characters, without what begins a comment, and without a trailing + or - unless a
    /// character says that it is no operator of standard SQL.
    fn operator(&mut self) -> Token {
        let bytes = self.rest().as_bytes();
        let mut len = bytes.iter().take_while(|b| is_operator_char(**b)).count();
        for i in 1..len {
            if matches!(&bytes[i..(i + 2).min(bytes.len())], b"--" | b"/*") {
                len = i;
                break;
            }
        }
        while len > 1 && matches!(bytes[len - 1], b'+' | b'-') {
            let special = |b: &u8| matches!(b, b'~' | b'!' | b'@' | b'#' | b'^' | b'&' | b'|' | b'`' | b'?' | b'%');
            if bytes[..len - 1].iter().any(special) {
                break;
            }
            len -= 1;
        }
        let text = &self.rest()[..len];
        self.at += len;
        match text {
            "=>" => Token::EqualsGreater,
            "<=" => Token::LessEquals,
            ">=" => Token::GreaterEquals,
            "<>" | "!=" => Token::NotEquals,
            "<<" => Token::LessLess,
            ">>" => Token::GreaterGreater,
            "#" | "+" | "-" | "*" | "/" | "%" | "^" | "<" | ">" | "=" => Token::Sign(char::from(bytes[0])),
            _ => Token::Operator(text.to_string()),
        }
    }

    fn skip_while(&mut self, test: impl Fn(u8) -> bool) {
        while self.at < self.text.len() && test(self.byte(0)) {
            self.at += 1;
        }
    }

    fn number(&mut self, start: usize) -> Result<Token> {
        let prefixed = self.byte(0) == b'0' && matches!(self.byte(1), b'x' | b'X' | b'o' | b'O' | b'b' | b'B');
        if prefixed {
            let radix = match self.byte(1) | 0x20 {
                b'x' => 16,
                b'o' => 8,
                _ => 2,
            };
            self.at += 2;
            self.skip_while(|b| b.is_ascii_alphanumeric() || b == b'_');
            let digits = self.text[start + 2..self.at].replace('_', "");
            return Ok(i64::from_str_radix(&digits, radix).map_or(Token::Number, Token::Integer));
        }
        let digits = |b: u8| b.is_ascii_digit() || b == b'_';
        self.skip_while(digits);
        let mut whole = true;
        // Two dots are a range.
        if self.byte(0) == b'.' && self.byte(1) != b'.' {
            whole = false;
            self.at += 1;
            self.skip_while(digits);
        }
        if matches!(self.byte(0), b'e' | b'E') {
            let sign = usize::from(matches!(self.byte(1), b'+' | b'-'));
            if self.byte(1 + sign).is_ascii_digit() {
                whole = false;
                self.at += 1 + sign;
                self.skip_while(digits);
            }
        }
        if is_name_start(self.byte(0)) {
            let end = self.at + self.rest().bytes().take_while(|b| is_name_part(*b)).count();
            return Err(self.error_near("trailing junk after numeric literal", start, end));
        }
        let text = self.text[start..self.at].replace('_', "");
        Ok(match text.parse::<i64>() {
            // As in SQL: what does not fit 32 bits is no integer constant.
            Ok(v) if whole && i32::try_from(v).is_ok() => Token::Integer(v),
            _ => Token::Number,
        })
    }

    /// `'…'`, continued on further lines; `skip`: bytes up to and with the first quote.
    fn quoted_text(&mut self, start: usize, skip: usize, escapes: bool) -> Result<String> {
        self.at += skip;
        let mut value = String::new();
        loop {
            let Some(c) = self.rest().chars().next() else {
                return Err(self.error("unterminated quoted string", start));
            };
            self.at += c.len_utf8();
            match c {
                '\'' if self.byte(0) == b'\'' => {
                    self.at += 1;
                    value.push('\'');
                }
                '\'' if self.is_continued() => {}
                '\'' => return Ok(value),
                '\\' if escapes => self.escape(&mut value, start)?,
                c => value.push(c),
            }
        }
    }

    /// White space with a line end in it, and another quote: the string goes on there.
    fn is_continued(&mut self) -> bool {
        let blanks = self.rest().bytes().take_while(|b| is_space(*b)).count();
        let gap = &self.rest()[..blanks];
        let goes_on = gap.contains(['\n', '\r']) && self.byte(blanks) == b'\'';
        if goes_on {
            self.at += blanks + 1;
        }
        goes_on
    }

    fn escape(&mut self, value: &mut String, start: usize) -> Result<()> {
        let Some(c) = self.rest().chars().next() else {
            return Err(self.error("unterminated quoted string", start));
        };
        self.at += c.len_utf8();
        let number = |scanner: &mut Self, first: usize, max: usize, radix: u32| {
            let digits: String = scanner.text[first..].chars().take(max).take_while(|c| c.is_digit(radix)).collect();
            scanner.at = first + digits.len();
            u32::from_str_radix(&digits, radix).ok().and_then(char::from_u32)
        };
        let decoded = match c {
            'n' => Some('\n'),
            't' => Some('\t'),
            'r' => Some('\r'),
            'b' => Some('\u{8}'),
            'f' => Some('\u{c}'),
            'v' => Some('\u{b}'),
            'x' if self.byte(0).is_ascii_hexdigit() => number(self, self.at, 2, 16),
            'u' => number(self, self.at, 4, 16),
            'U' => number(self, self.at, 8, 16),
            '0'..='7' => number(self, self.at - 1, 3, 8),
            c => Some(c),
        };
        match decoded {
            Some(c) => value.push(c),
            None => return Err(self.error_near("invalid Unicode escape", start, self.at)),
        }
        Ok(())
    }

    /// `\0041` and `\+000041` in what U& precedes.
    fn unicode(&self, text: &str, start: usize) -> Result<String> {
        let wrong = || self.error_near("invalid Unicode escape", start, self.at);
        let mut value = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('\\') {
            value.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            if let Some(more) = after.strip_prefix('\\') {
                value.push('\\');
                rest = more;
                continue;
            }
            let (digits, skip) = if after.starts_with('+') { (after.get(1..7), 7) } else { (after.get(..4), 4) };
            let c = digits.and_then(|d| u32::from_str_radix(d, 16).ok()).and_then(char::from_u32).ok_or_else(wrong)?;
            value.push(c);
            rest = &after[skip..];
        }
        value.push_str(rest);
        Ok(value)
    }

    fn quoted_name(&mut self, start: usize) -> Result<String> {
        self.at += 1;
        let mut name = String::new();
        loop {
            let Some(c) = self.rest().chars().next() else {
                return Err(self.error("unterminated quoted identifier", start));
            };
            self.at += c.len_utf8();
            match c {
                '"' if self.byte(0) == b'"' => {
                    self.at += 1;
                    name.push('"');
                }
                '"' if name.is_empty() => {
                    return Err(self.error_near("zero-length delimited identifier", start, self.at));
                }
                '"' => return Ok(name),
                c => name.push(c),
            }
        }
    }

    fn dollar_text(&mut self, start: usize) -> Result<Token> {
        let tag_bytes = self.rest()[1..].bytes().take_while(|b| is_name_part(*b) && *b != b'$').count();
        let tag_end = start + 1 + tag_bytes;
        if self.text.as_bytes().get(tag_end) != Some(&b'$') {
            self.at += 1;
            return Ok(Token::Sign('$'));
        }
        let tag = &self.text[start..=tag_end];
        let body = &self.text[tag_end + 1..];
        match body.find(tag) {
            Some(len) => {
                self.at = tag_end + 1 + len + tag.len();
                Ok(Token::Text(body[..len].to_string()))
            }
            None => Err(self.error("unterminated dollar-quoted string", start)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<Token> {
        let mut scanner = Scanner::new(text);
        let mut found = Vec::new();
        loop {
            match scanner.next().expect("a token").token {
                Token::End => return found,
                token => found.push(token),
            }
        }
    }

    #[test]
    fn ranges_are_not_numbers() {
        assert_eq!(tokens("1..10"), [Token::Integer(1), Token::DotDot, Token::Integer(10)]);
        assert_eq!(
            tokens("1.5e3 x.y"),
            [
                Token::Number,
                Token::Identifier { name: "x".into(), quoted: false },
                Token::Sign('.'),
                Token::Identifier { name: "y".into(), quoted: false },
            ]
        );
    }

    #[test]
    fn operators_end_where_sql_says() {
        assert_eq!(
            tokens("a:=-1"),
            [
                Token::Identifier { name: "a".into(), quoted: false },
                Token::ColonEquals,
                Token::Sign('-'),
                Token::Integer(1),
            ]
        );
        assert_eq!(
            tokens("<<-->\n>> =- @-"),
            [Token::LessLess, Token::GreaterGreater, Token::Sign('='), Token::Sign('-'), Token::Operator("@-".into())]
        );
        assert_eq!(tokens("/* a /* b */ c */ <> --x"), [Token::NotEquals]);
    }

    #[test]
    fn strings() {
        assert_eq!(
            tokens("'it''s' E'a\\n\\x41' $$x$$ $t$a$$b$t$"),
            [
                Token::Text("it's".into()),
                Token::Text("a\nA".into()),
                Token::Text("x".into()),
                Token::Text("a$$b".into()),
            ]
        );
        assert_eq!(tokens("'a'\n  'b' U&'d\\0061t'"), [Token::Text("ab".into()), Token::Text("dat".into())]);
        let e = Scanner::new("'abc").next().expect_err("an error");
        assert_eq!(e.message(), "unterminated quoted string at or near \"'abc\"");
    }

    #[test]
    fn names_fold_unless_quoted() {
        assert_eq!(
            tokens("ABC \"ABC\" $1"),
            [
                Token::Identifier { name: "abc".into(), quoted: false },
                Token::Identifier { name: "ABC".into(), quoted: true },
                Token::Parameter("$1".into()),
            ]
        );
        assert_eq!(tokens("BEGIN"), [Token::Keyword(Keyword::Begin)]);
    }
}
