//! JSON text to a tree.
//!
//! Invariants
//! 1. What it accepts and says is what PostgreSQL's parser accepts and says, with DETAIL and CONTEXT.
//! 2. Every value of the tree knows its place in the text: json keeps the text of what it is given.
//! 3. No deeper than [`MAX_DEPTH`], so that code may follow the tree by recursion.

use kilndb_base::{Error, Result, SqlState, sqlstate, stack, work};

pub(crate) const MAX_DEPTH: usize = 6000;

/// A value and the bytes of the text that it is.
#[derive(Clone, Debug)]
pub struct ParsedJson {
    pub kind: ParsedJsonKind,
    pub start: usize,
    pub end: usize,
}
#[derive(Clone, Debug)]
pub enum ParsedJsonKind {
    Null,
    Bool(bool),
    /// A number, which its text is.
    Number,
    /// A string without its escapes.
    String(String),
    Array(Vec<ParsedJson>),
    /// An object's members in the text's order, with duplicates.
    Object(Vec<(String, ParsedJson)>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum JsonToken {
    ObjectStart,
    ObjectEnd,
    ArrayStart,
    ArrayEnd,
    Comma,
    Colon,
    String,
    Number,
    True,
    False,
    Null,
    End,
}

enum JsonTextError {
    EscapingInvalid,
    EscapingRequired(u8),
    Invalid,
    ZeroCodePoint,
    EscapeFormat,
    HighSurrogate,
    LowSurrogate,
    Expected(&'static str),
    /// Too deep, or not to be gone on with.
    Refused(Error),
}

struct Lexer<'a> {
    text: &'a str,
    b: &'a [u8],
    line: usize,
    line_start: usize,
    start: usize,
    end: usize,
    token: JsonToken,
    /// Strings are unescaped, and a tree is made.
    build: bool,
    string: String,
}

/// Is it JSON? (The escapes of surrogates are not looked at, as PostgreSQL's json does not.)
pub fn validate(text: &str) -> Result<()> {
    run(text, false).map(|_| ())
}
/// The tree of a text.
pub fn parse(text: &str) -> Result<ParsedJson> {
    run(text, true)
}

fn run(text: &str, build: bool) -> Result<ParsedJson> {
    let mut lexer = Lexer {
        text,
        b: text.as_bytes(),
        line: 1,
        line_start: 0,
        start: 0,
        end: 0,
        token: JsonToken::End,
        build,
        string: String::new(),
    };
    let result = lexer.next().and_then(|()| lexer.value(0)).and_then(|v| match lexer.token {
        JsonToken::End => Ok(v),
        _ => Err(lexer.expected("end of input")),
    });
    result.map_err(|p| lexer.error(p))
}

fn not_too_deep(depth: usize) -> Result<(), JsonTextError> {
    let is_shallow = if depth > MAX_DEPTH { Err(stack::too_deep()) } else { stack::check() };
    is_shallow.map_err(JsonTextError::Refused)
}

fn is_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_' || c >= 0x80
}

impl Lexer<'_> {
    fn expected(&self, what: &'static str) -> JsonTextError {
        JsonTextError::Expected(what)
    }

    #[cold]
    fn error(&self, problem: JsonTextError) -> Error {
        let token = self.text.get(self.start..self.end).map_or_else(
            || String::from_utf8_lossy(self.b.get(self.start..self.end).unwrap_or(&[])).into_owned(),
            str::to_string,
        );
        let mut state: SqlState = sqlstate::INVALID_TEXT_REPRESENTATION;
        let mut message = "invalid input syntax for type json";
        let detail = match problem {
            JsonTextError::Refused(e) => return e,
            JsonTextError::EscapingInvalid => format!("Escape sequence \"\\{token}\" is invalid."),
            JsonTextError::EscapingRequired(c) => format!("Character with value 0x{c:02x} must be escaped."),
            JsonTextError::Expected(_) if self.token == JsonToken::End => {
                "The input string ended unexpectedly.".to_string()
            }
            JsonTextError::Expected(what) => format!("Expected {what}, but found \"{token}\"."),
            JsonTextError::Invalid => format!("Token \"{token}\" is invalid."),
            JsonTextError::ZeroCodePoint => {
                state = sqlstate::UNTRANSLATABLE_CHARACTER;
                message = "unsupported Unicode escape sequence";
                "\\u0000 cannot be converted to text.".to_string()
            }
            JsonTextError::EscapeFormat => "\"\\u\" must be followed by four hexadecimal digits.".to_string(),
            JsonTextError::HighSurrogate => "Unicode high surrogate must not follow a high surrogate.".to_string(),
            JsonTextError::LowSurrogate => "Unicode low surrogate must follow a high surrogate.".to_string(),
        };
        Error::new(state, message).with_detail(detail).with_context(self.context())
    }

    /// What of the line has been read, as CONTEXT shows it.
    fn context(&self) -> String {
        let mut start = self.line_start;
        let end = self.end.min(self.b.len());
        while end.saturating_sub(start) >= 50 {
            start += 1;
            while start < end && !self.text.is_char_boundary(start) {
                start += 1;
            }
        }
        if start - self.line_start <= 3 {
            start = self.line_start;
        }
        let shown = String::from_utf8_lossy(self.b.get(start..end).unwrap_or(&[]));
        let prefix = if start > self.line_start { "..." } else { "" };
        let more = self.token != JsonToken::End && end < self.b.len() && !matches!(self.b[end], b'\n' | b'\r');
        format!("JSON data, line {}: {prefix}{shown}{}", self.line, if more { "..." } else { "" })
    }

    /// The next token.
    fn next(&mut self) -> Result<(), JsonTextError> {
        work::step(20 + 2 * (self.end - self.start)).map_err(JsonTextError::Refused)?;
        let mut at = self.end;
        while let Some(c @ (b' ' | b'\t' | b'\n' | b'\r')) = self.b.get(at) {
            at += 1;
            if *c == b'\n' {
                self.line += 1;
                self.line_start = at;
            }
        }
        self.start = at;
        let Some(&c) = self.b.get(at) else {
            self.end = at;
            self.token = JsonToken::End;
            return Ok(());
        };
        let single = match c {
            b'{' => JsonToken::ObjectStart,
            b'}' => JsonToken::ObjectEnd,
            b'[' => JsonToken::ArrayStart,
            b']' => JsonToken::ArrayEnd,
            b',' => JsonToken::Comma,
            b':' => JsonToken::Colon,
            b'"' => {
                self.token = JsonToken::String;
                return self.string();
            }
            b'-' => return self.number(at + 1),
            b'0'..=b'9' => return self.number(at),
            _ => return self.word(),
        };
        self.end = at + 1;
        self.token = single;
        Ok(())
    }

    fn word(&mut self) -> Result<(), JsonTextError> {
        let mut end = self.start;
        while self.b.get(end).copied().is_some_and(is_word) {
            end += 1;
        }
        self.end = if end == self.start { self.start + 1 } else { end };
        self.token = match self.b.get(self.start..end) {
            Some(b"true") => JsonToken::True,
            Some(b"false") => JsonToken::False,
            Some(b"null") => JsonToken::Null,
            _ => {
                self.token = JsonToken::Null;
                return Err(JsonTextError::Invalid);
            }
        };
        Ok(())
    }

    fn digits(&self, mut at: usize) -> (usize, bool) {
        let start = at;
        while self.b.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        (at, at > start)
    }
    fn number(&mut self, mut at: usize) -> Result<(), JsonTextError> {
        let mut good;
        if self.b.get(at) == Some(&b'0') {
            at += 1;
            good = true;
        } else {
            (at, good) = self.digits(at);
        }
        if self.b.get(at) == Some(&b'.') {
            let (end, any) = self.digits(at + 1);
            at = end;
            good &= any;
        }
        if matches!(self.b.get(at), Some(b'e' | b'E')) {
            at += 1 + usize::from(matches!(self.b.get(at + 1), Some(b'+' | b'-')));
            let (end, any) = self.digits(at);
            at = end;
            good &= any;
        }
        while self.b.get(at).copied().is_some_and(is_word) {
            at += 1;
            good = false;
        }
        self.end = at;
        self.token = JsonToken::Number;
        if good { Ok(()) } else { Err(JsonTextError::Invalid) }
    }

    /// An error at the character at `at`, which the context still shows.
    fn fail_after(&mut self, at: usize, problem: JsonTextError) -> Result<(), JsonTextError> {
        let mut end = (at + 1).min(self.b.len());
        while !self.text.is_char_boundary(end) {
            end += 1;
        }
        self.end = end;
        Err(problem)
    }

    fn string(&mut self) -> Result<(), JsonTextError> {
        self.string.clear();
        let mut at = self.start;
        let mut high: Option<u32> = None;
        let mut steps = work::SmallSteps::default();
        loop {
            at += 1;
            steps.step(2).map_err(JsonTextError::Refused)?;
            let Some(&c) = self.b.get(at) else {
                self.end = at;
                return Err(JsonTextError::Invalid);
            };
            match c {
                b'"' => break,
                b'\\' => {
                    at += 1;
                    let Some(&c) = self.b.get(at) else {
                        self.end = at;
                        return Err(JsonTextError::Invalid);
                    };
                    if c == b'u' {
                        let mut code = 0;
                        for _ in 0..4 {
                            at += 1;
                            let Some(&c) = self.b.get(at) else {
                                self.end = at;
                                return Err(JsonTextError::Invalid);
                            };
                            match char::from(c).to_digit(16) {
                                Some(d) => code = code * 16 + d,
                                None => return self.fail_after(at, JsonTextError::EscapeFormat),
                            }
                        }
                        if self.build {
                            match (code, high) {
                                (0xd800..=0xdbff, Some(_)) => return self.fail_after(at, JsonTextError::HighSurrogate),
                                (0xd800..=0xdbff, None) => {
                                    high = Some(code);
                                    continue;
                                }
                                (0xdc00..=0xdfff, Some(first)) => {
                                    code = 0x10000 + ((first - 0xd800) << 10) + (code - 0xdc00);
                                    high = None;
                                }
                                (0xdc00..=0xdfff, None) | (_, Some(_)) => {
                                    return self.fail_after(at, JsonTextError::LowSurrogate);
                                }
                                (0, None) => return self.fail_after(at, JsonTextError::ZeroCodePoint),
                                _ => {}
                            }
                            self.string.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                        }
                        continue;
                    }
                    if high.is_some() {
                        return self.fail_after(at, JsonTextError::LowSurrogate);
                    }
                    let plain = match c {
                        b'"' | b'\\' | b'/' => char::from(c),
                        b'b' => '\u{8}',
                        b'f' => '\u{c}',
                        b'n' => '\n',
                        b'r' => '\r',
                        b't' => '\t',
                        _ => {
                            self.start = at;
                            return self.fail_after(at, JsonTextError::EscapingInvalid);
                        }
                    };
                    if self.build {
                        self.string.push(plain);
                    }
                }
                _ => {
                    if high.is_some() {
                        return self.fail_after(at, JsonTextError::LowSurrogate);
                    }
                    let from = at;
                    while let Some(&c) = self.b.get(at) {
                        if c == b'"' || c == b'\\' {
                            break;
                        }
                        if c <= 31 {
                            self.end = at;
                            return Err(JsonTextError::EscapingRequired(c));
                        }
                        at += 1;
                    }
                    if self.build {
                        self.string.push_str(self.text.get(from..at).unwrap_or(""));
                    }
                    at -= 1;
                }
            }
        }
        self.end = at + 1;
        if high.is_some() { Err(JsonTextError::LowSurrogate) } else { Ok(()) }
    }

    /// The value that begins at the present token; the token after it is the present one afterwards.
    fn value(&mut self, depth: usize) -> Result<ParsedJson, JsonTextError> {
        let start = self.start;
        let kind = match self.token {
            JsonToken::ObjectStart => self.object(depth + 1)?,
            JsonToken::ArrayStart => self.array(depth + 1)?,
            JsonToken::String => ParsedJsonKind::String(std::mem::take(&mut self.string)),
            JsonToken::Number => ParsedJsonKind::Number,
            JsonToken::True => ParsedJsonKind::Bool(true),
            JsonToken::False => ParsedJsonKind::Bool(false),
            JsonToken::Null => ParsedJsonKind::Null,
            _ => return Err(self.expected("JSON value")),
        };
        let end = self.end;
        self.next()?;
        Ok(ParsedJson { kind, start, end })
    }
    /// Reads an object up to the closing token, which stays the present one.
    fn object(&mut self, depth: usize) -> Result<ParsedJsonKind, JsonTextError> {
        not_too_deep(depth)?;
        let mut list = Vec::new();
        self.next()?;
        match self.token {
            JsonToken::ObjectEnd => return Ok(ParsedJsonKind::Object(list)),
            JsonToken::String => {}
            _ => return Err(self.expected("string or \"}\"")),
        }
        loop {
            if self.token != JsonToken::String {
                return Err(self.expected("string"));
            }
            let key = std::mem::take(&mut self.string);
            self.next()?;
            if self.token != JsonToken::Colon {
                return Err(self.expected("\":\""));
            }
            self.next()?;
            let value = self.value(depth)?;
            if self.build {
                list.push((key, value));
            }
            match self.token {
                JsonToken::Comma => self.next()?,
                JsonToken::ObjectEnd => return Ok(ParsedJsonKind::Object(list)),
                _ => return Err(self.expected("\",\" or \"}\"")),
            }
        }
    }
    fn array(&mut self, depth: usize) -> Result<ParsedJsonKind, JsonTextError> {
        not_too_deep(depth)?;
        let mut list = Vec::new();
        self.next()?;
        if self.token == JsonToken::ArrayEnd {
            return Ok(ParsedJsonKind::Array(list));
        }
        loop {
            let value = self.value(depth)?;
            if self.build {
                list.push(value);
            }
            match self.token {
                JsonToken::Comma => self.next()?,
                JsonToken::ArrayEnd => return Ok(ParsedJsonKind::Array(list)),
                _ => return Err(self.expected("\",\" or \"]\"")),
            }
        }
    }
}
