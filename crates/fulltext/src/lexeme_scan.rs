//! Lexemes as text has them, in tsvector and in tsquery: plain or in quotes, positions behind them.

use kilndb_base::work::SmallSteps;
use kilndb_base::{Error, Result, sqlstate};

/// The greatest position; what is beyond has it, too.
pub(crate) const POSITION_MAX: u32 = 16383;
/// A lexeme is shorter than this.
pub(crate) const LEXEME_BYTES: usize = 2047;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LexemeDialect {
    Vector,
    Query,
    Web,
}

pub(crate) struct ScannedLexeme {
    pub word: String,
    /// Weight in the two high bits.
    pub positions: Vec<u16>,
}

/// C's isspace.
pub(crate) fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t'..=b'\r')
}
pub(crate) fn is_operator(b: u8) -> bool {
    matches!(b, b'!' | b'&' | b'|' | b'(' | b')' | b'<')
}

pub(crate) struct Scanner<'a> {
    pub text: &'a str,
    pub at: usize,
    pub dialect: LexemeDialect,
    pub steps: SmallSteps,
}

impl<'a> Scanner<'a> {
    pub fn new(text: &'a str, dialect: LexemeDialect) -> Scanner<'a> {
        Scanner { text, at: 0, dialect, steps: SmallSteps::default() }
    }
    pub fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }
    /// The next character, which is taken.
    fn take(&mut self) -> Option<char> {
        let c = self.text.get(self.at..).and_then(|t| t.chars().next())?;
        self.at += c.len_utf8();
        Some(c)
    }
    #[cold]
    pub fn syntax_error(&self) -> Error {
        let what = if self.dialect == LexemeDialect::Vector { "tsvector" } else { "tsquery" };
        Error::new(sqlstate::SYNTAX_ERROR, format!("syntax error in {what}: \"{}\"", self.text))
    }
    fn escaped(&mut self, word: &mut String) -> Result<()> {
        self.at += 1;
        match self.take() {
            Some(c) => word.push(c),
            None => {
                return Err(Error::new(
                    sqlstate::SYNTAX_ERROR,
                    format!("there is no escaped character: \"{}\"", self.text),
                ));
            }
        }
        Ok(())
    }

    pub fn skip_spaces(&mut self) -> Result<()> {
        while self.peek().is_some_and(is_space) {
            self.steps.step(1)?;
            self.at += 1;
        }
        Ok(())
    }

    /// The next lexeme; None at the end.
    pub(crate) fn next_lexeme(&mut self) -> Result<Option<ScannedLexeme>> {
        self.skip_spaces()?;
        self.steps.step(100)?;
        let is_web = self.dialect == LexemeDialect::Web;
        match self.peek() {
            None => Ok(None),
            Some(b'\'') if !is_web => self.quoted().map(Some),
            Some(b'"') if is_web => Err(self.syntax_error()),
            Some(b) if self.dialect != LexemeDialect::Vector && is_operator(b) => Err(self.syntax_error()),
            _ => self.plain().map(Some),
        }
    }
    fn plain(&mut self) -> Result<ScannedLexeme> {
        let is_web = self.dialect == LexemeDialect::Web;
        let (mut word, mut steps) = (String::new(), SmallSteps::default());
        loop {
            steps.step(5)?;
            match self.peek() {
                Some(b'\\') if !is_web => self.escaped(&mut word)?,
                Some(b':') if !word.is_empty() || self.dialect != LexemeDialect::Web => {
                    // A colon begins no word, except in a web search, where the first character is taken as it is.
                    if word.is_empty() && self.dialect == LexemeDialect::Vector {
                        word.push(':');
                        self.at += 1;
                        continue;
                    }
                    if word.is_empty() {
                        return Err(self.syntax_error());
                    }
                    if self.dialect == LexemeDialect::Vector {
                        self.at += 1;
                        let positions = self.positions()?;
                        return Ok(ScannedLexeme { word, positions });
                    }
                    return Ok(ScannedLexeme { word, positions: Vec::new() });
                }
                Some(b)
                    if !is_space(b)
                        && !(self.dialect != LexemeDialect::Vector && is_operator(b))
                        && !(is_web && b == b'"') =>
                {
                    if let Some(c) = self.take() {
                        word.push(c);
                    }
                }
                _ if word.is_empty() => return Err(self.syntax_error()),
                _ => return Ok(ScannedLexeme { word, positions: Vec::new() }),
            }
        }
    }
    fn quoted(&mut self) -> Result<ScannedLexeme> {
        let (mut word, mut steps) = (String::new(), SmallSteps::default());
        self.at += 1;
        loop {
            steps.step(5)?;
            match self.peek() {
                None => return Err(self.syntax_error()),
                Some(b'\\') => self.escaped(&mut word)?,
                Some(b'\'') => {
                    self.at += 1;
                    if self.peek() != Some(b'\'') {
                        break;
                    }
                    word.push('\'');
                    self.at += 1;
                }
                Some(_) => {
                    if let Some(c) = self.take() {
                        word.push(c);
                    }
                }
            }
        }
        if word.is_empty() {
            return Err(self.syntax_error());
        }
        let mut positions = Vec::new();
        if self.dialect == LexemeDialect::Vector && self.peek() == Some(b':') {
            self.at += 1;
            positions = self.positions()?;
        }
        Ok(ScannedLexeme { word, positions })
    }
    /// `3A,5,7b`: at least one.
    fn positions(&mut self) -> Result<Vec<u16>> {
        let mut positions: Vec<u16> = Vec::new();
        let mut wants_number = true;
        loop {
            self.steps.step(5)?;
            let next = self.peek();
            if wants_number {
                if !next.is_some_and(|b| b.is_ascii_digit()) {
                    return Err(self.syntax_error());
                }
                positions.push(self.number()?);
                wants_number = false;
                continue;
            }
            match next {
                None => return Ok(positions),
                Some(b) if is_space(b) => return Ok(positions),
                Some(b',') => wants_number = true,
                Some(b) if b.is_ascii_digit() => {}
                Some(b) => {
                    let weight = match b {
                        b'a' | b'A' | b'*' => 3,
                        b'b' | b'B' => 2,
                        b'c' | b'C' => 1,
                        b'd' | b'D' => 0,
                        _ => return Err(self.syntax_error()),
                    };
                    match positions.last_mut() {
                        Some(p) if *p >> 14 == 0 => *p |= weight << 14,
                        _ => return Err(self.syntax_error()),
                    }
                }
            }
            self.at += 1;
        }
    }
    fn number(&mut self) -> Result<u16> {
        let mut value = 0u32;
        while let Some(b @ b'0'..=b'9') = self.peek() {
            self.steps.step(2)?;
            value = (value * 10 + u32::from(b - b'0')).min(1 << 24);
            self.at += 1;
        }
        if value == 0 {
            return Err(Error::new(
                sqlstate::SYNTAX_ERROR,
                format!("wrong position info in tsvector: \"{}\"", self.text),
            ));
        }
        Ok(value.min(POSITION_MAX) as u16)
    }
}
