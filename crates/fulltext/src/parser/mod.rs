//! The default parser: cuts a document into tokens of 23 types.
//!
//! A machine of states with alternatives that are tried in order ([`states`]). A try that fails comes back to where it
//! began and goes on with the next alternative; a token that is found ends all tries.
//!
//! Invariant: a comment that is not closed is looked for once, however many begin.

mod states;

use kilndb_base::sync::LazyLock;
use states::{CharacterTest, ParserAction, ParserEffect, ParserState};

/// Token types by number; 0 is none.
pub mod token {
    #![allow(missing_docs)]
    pub(crate) const ASCII_WORD: u8 = 1;
    pub const WORD: u8 = 2;
    pub(crate) const NUM_WORD: u8 = 3;
    pub(crate) const EMAIL: u8 = 4;
    pub(crate) const URL: u8 = 5;
    pub const HOST: u8 = 6;
    pub(crate) const SCIENTIFIC: u8 = 7;
    pub const VERSION: u8 = 8;
    pub(crate) const NUM_PART: u8 = 9;
    pub const PART: u8 = 10;
    pub(crate) const ASCII_PART: u8 = 11;
    pub(crate) const BLANK: u8 = 12;
    pub(crate) const TAG: u8 = 13;
    pub(crate) const PROTOCOL: u8 = 14;
    pub(crate) const NUM_COMPOUND: u8 = 15;
    pub(crate) const ASCII_COMPOUND: u8 = 16;
    pub(crate) const COMPOUND: u8 = 17;
    pub(crate) const URL_PATH: u8 = 18;
    pub const FILE: u8 = 19;
    pub(crate) const DECIMAL: u8 = 20;
    pub(crate) const SIGNED: u8 = 21;
    pub(crate) const UNSIGNED: u8 = 22;
    pub(crate) const ENTITY: u8 = 23;
}

/// (alias, description) of the types 1 to 23.
pub const TOKEN_TYPES: [(&str, &str); 23] = [
    ("asciiword", "Word, all ASCII"),
    ("word", "Word, all letters"),
    ("numword", "Word, letters and digits"),
    ("email", "Email address"),
    ("url", "URL"),
    ("host", "Host"),
    ("sfloat", "Scientific notation"),
    ("version", "Version number"),
    ("hword_numpart", "Hyphenated word part, letters and digits"),
    ("hword_part", "Hyphenated word part, all letters"),
    ("hword_asciipart", "Hyphenated word part, all ASCII"),
    ("blank", "Space symbols"),
    ("tag", "XML tag"),
    ("protocol", "Protocol head"),
    ("numhword", "Hyphenated word, letters and digits"),
    ("asciihword", "Hyphenated word, all ASCII"),
    ("hword", "Hyphenated word, all letters"),
    ("url_path", "URL path"),
    ("file", "File or path name"),
    ("float", "Decimal notation"),
    ("int", "Signed integer"),
    ("uint", "Unsigned integer"),
    ("entity", "XML entity"),
];

/// Marks and characters without width: they end no word, and begin none.
static MARKS: LazyLock<Vec<(char, char)>> = LazyLock::new(|| {
    let hir = regex_syntax::Parser::new().parse(r"[\p{M}\p{Cf}]");
    match hir.map(|h| h.into_kind()) {
        Ok(regex_syntax::hir::HirKind::Class(regex_syntax::hir::Class::Unicode(class))) => {
            class.ranges().iter().map(|r| (r.start(), r.end())).collect()
        }
        _ => Vec::new(),
    }
});

fn is_mark(c: char) -> bool {
    // U+00AD, the soft hyphen, has a width.
    if c < '\u{300}' {
        return false;
    }
    let at = MARKS.partition_point(|(_, end)| *end < c);
    MARKS.get(at).is_some_and(|(start, _)| *start <= c)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token<'a> {
    /// The type of the token, one of [`token`].
    pub kind: u8,
    pub text: &'a str,
}

#[derive(Clone, Copy)]
struct ParserPosition {
    at: usize,
    /// Bytes and characters of the token so far.
    len: usize,
    chars: usize,
    state: ParserState,
    /// How many alternatives of the state have been tried.
    tried: usize,
}

/// Gives the tokens of a document, one after the other.
pub struct Parser<'a> {
    text: &'a str,
    place: ParserPosition,
    saved: Vec<ParserPosition>,
    start: usize,
    /// A host is to end where its path begins: the whole URL has been given already.
    want_host: bool,
    /// Inside of script or style.
    ignore: bool,
    no_comment_end: bool,
    /// The length that a nested look-ahead has found.
    found: (usize, usize),
}

impl<'a> Parser<'a> {
    pub fn new(text: &'a str) -> Parser<'a> {
        let place = ParserPosition { at: 0, len: 0, chars: 0, state: ParserState::Base, tried: 0 };
        Parser {
            text,
            place,
            saved: Vec::new(),
            start: 0,
            want_host: false,
            ignore: false,
            no_comment_end: false,
            found: (0, 0),
        }
    }
    fn current(&self) -> Option<char> {
        match self.text.as_bytes().get(self.place.at) {
            Some(b) if b.is_ascii() => Some(*b as char),
            Some(_) => self.text.get(self.place.at..).and_then(|t| t.chars().next()),
            None => None,
        }
    }

    /// Looks ahead with a parser of its own, which begins here.
    fn look_ahead(&mut self, state: ParserState, kind: u8) -> bool {
        let Some(rest) = self.text.get(self.place.at..) else { return false };
        let mut ahead = Parser::new(rest);
        ahead.place.state = state;
        ahead.want_host = state == ParserState::Base;
        match ahead.next() {
            Some(t) if t.kind == kind => {
                self.found = (t.text.len(), t.text.chars().count());
                true
            }
            _ => false,
        }
    }
    fn passes(&mut self, test: CharacterTest, c: Option<char>) -> bool {
        match test {
            CharacterTest::Any => true,
            CharacterTest::End => c.is_none(),
            CharacterTest::Is(b) => c == Some(b as char),
            CharacterTest::AsciiLetter => c.is_some_and(|c| c.is_ascii_alphabetic()),
            CharacterTest::Letter => c.is_some_and(is_letter),
            CharacterTest::Digit => c.is_some_and(|c| c.is_ascii_digit()),
            CharacterTest::LetterOrDigit => c.is_some_and(is_letter_or_digit),
            CharacterTest::NeitherLetterNorDigit => !c.is_some_and(is_letter_or_digit),
            CharacterTest::HexDigit => c.is_some_and(|c| c.is_ascii_hexdigit()),
            CharacterTest::Space => c.is_some_and(char::is_whitespace),
            CharacterTest::Mark => c.is_some_and(is_mark),
            CharacterTest::UrlCharacter => c.is_some_and(|c| ('!'..='~').contains(&c) && !"\"<>\\^`{|}".contains(c)),
            CharacterTest::Ignored => self.ignore,
            CharacterTest::HostWanted => std::mem::take(&mut self.want_host),
            CharacterTest::HostAhead => self.look_ahead(ParserState::Base, token::HOST),
            CharacterTest::UrlPathAhead => self.look_ahead(ParserState::UrlPathFirst, token::URL_PATH),
        }
    }
    /// Script and style begin and end what is ignored.
    fn note_tag(&mut self) {
        let Some(tag) = self.text.get(self.start..self.place.at) else { return };
        match tag {
            t if t.eq_ignore_ascii_case("</script") || t.eq_ignore_ascii_case("</style") => self.ignore = false,
            t if t.eq_ignore_ascii_case("<script") || t.eq_ignore_ascii_case("<style") => self.ignore = true,
            _ => {}
        }
    }
    fn apply(&mut self, effect: ParserEffect) {
        match effect {
            ParserEffect::None => {}
            ParserEffect::NoteTag => self.note_tag(),
            ParserEffect::TakeAhead => {
                self.place.at += self.found.0;
                self.place.len += self.found.0;
                self.place.chars += self.found.1;
            }
            ParserEffect::TakeAheadAndReread => {
                self.place.len += self.found.0;
                self.place.chars += self.found.1;
                self.place.at = self.start;
                self.want_host = true;
            }
            ParserEffect::Reread => self.place.at = self.start,
            ParserEffect::Restart => {
                self.place.at = self.start;
                (self.place.len, self.place.chars) = (0, 0);
            }
        }
    }
    fn step_over(&mut self, c: Option<char>) {
        if let Some(c) = c {
            self.place.at += c.len_utf8();
            self.place.len += c.len_utf8();
            self.place.chars += 1;
        }
    }
    /// What the state's first alternative does with each of them, at once: most of most documents.
    fn step_over_letters(&mut self) {
        let rest = self.text.as_bytes().get(self.place.at..).unwrap_or(&[]);
        let letters = rest.iter().take_while(|b| b.is_ascii_alphabetic()).count();
        self.place.at += letters;
        self.place.len += letters;
        self.place.chars += letters;
    }
    fn back(&mut self) -> bool {
        match self.saved.pop() {
            Some(place) => {
                self.place = place;
                true
            }
            None => false,
        }
    }
    /// The first alternative from `tried` on that fits.
    fn choose(&mut self, c: Option<char>) -> (usize, states::ParserRule) {
        let (rules, otherwise) = states::alternatives(self.place.state);
        let mut at = std::mem::take(&mut self.place.tried);
        while let Some(rule) = rules.get(at) {
            if self.passes(rule.test, c) {
                return (at, *rule);
            }
            at += 1;
        }
        (at, states::ParserRule { test: CharacterTest::End, action: otherwise, effect: ParserEffect::None })
    }

    fn find(&mut self) -> Option<u8> {
        let end = self.text.len();
        if self.place.at >= end {
            return None;
        }
        self.start = self.place.at;
        loop {
            if self.place.state == ParserState::AsciiWord && self.place.tried == 0 {
                self.step_over_letters();
            }
            let c = self.current();
            if c.is_none()
                && matches!(
                    self.place.state,
                    ParserState::Comment | ParserState::CloseCommentFirst | ParserState::CloseCommentLast
                )
            {
                self.no_comment_end = true;
            }
            if self.place.state == ParserState::CommentLast && self.no_comment_end {
                if !self.back() {
                    return None;
                }
                continue;
            }
            let (at, rule) = self.choose(c);
            self.apply(rule.effect);
            match rule.action {
                ParserAction::Token(kind, next) => {
                    self.saved.clear();
                    self.place.state = next;
                    return Some(kind);
                }
                ParserAction::Back => {
                    if !self.back() {
                        return None;
                    }
                    continue;
                }
                ParserAction::Try(next) => {
                    self.saved.push(ParserPosition { tried: at + 1, ..self.place });
                    self.place.state = next;
                }
                ParserAction::Commit(next) => {
                    self.saved.pop();
                    self.place.state = next;
                }
                ParserAction::Merge => {
                    if let Some(saved) = self.saved.pop() {
                        self.place.state = saved.state;
                    }
                }
                ParserAction::Again(next) => {
                    self.place.state = next;
                    continue;
                }
                ParserAction::Go(next) => self.place.state = next,
                ParserAction::Stay => {}
            }
            if self.place.at >= end {
                return None;
            }
            self.step_over(c);
        }
    }
}

impl<'a> Iterator for Parser<'a> {
    type Item = Token<'a>;
    fn next(&mut self) -> Option<Token<'a>> {
        let kind = self.find()?;
        let len = self.place.len;
        (self.place.len, self.place.chars, self.place.tried) = (0, 0, 0);
        let text = self.text.get(self.start..self.start + len)?;
        Some(Token { kind, text })
    }
}

pub(crate) fn is_letter(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphabetic() } else { c.is_alphabetic() && !is_mark(c) }
}
fn is_letter_or_digit(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphanumeric() } else { c.is_alphanumeric() && !is_mark(c) }
}
