//! Tokens with their names looked up, pushed back and looked at ahead.

use super::{Lookup, Parser, Tok, VariableToken};
use crate::keywords::{Keyword, unreserved, word_of};
use crate::namespace::NamespaceItemKind;
use crate::scanner::{Lexeme, Token};
use kilndb_base::Result;

impl Parser<'_> {
    fn read(&mut self) -> Result<Lexeme<Tok>> {
        if let Some(lexeme) = self.pushed.pop() {
            return Ok(lexeme);
        }
        let Lexeme { token, start, end } = self.scanner.next()?;
        let token = match token {
            Token::Keyword(k) => Tok::Keyword(k),
            other => Tok::Plain(other),
        };
        Ok(Lexeme { token, start, end })
    }

    /// Puts a token back, to be read again as it is.
    pub(crate) fn push_back(&mut self, token: Tok, (start, end): (usize, usize)) {
        self.pushed.push(Lexeme { token, start, end });
    }

    pub(crate) fn next(&mut self) -> Result<Tok> {
        self.next_at().map(|(tok, _)| tok)
    }

    /// The next token, and where it is.
    pub(crate) fn next_at(&mut self) -> Result<(Tok, (usize, usize))> {
        let first = self.read()?;
        let name = match &first.token {
            Tok::Plain(Token::Identifier { name, quoted }) => Some((name.clone(), *quoted)),
            Tok::Plain(Token::Parameter(name)) => Some((name.clone(), false)),
            _ => None,
        };
        let lexeme = match name {
            Some((name, quoted)) => self.names_from(first, name, quoted)?,
            None => first,
        };
        self.current = (lexeme.start, lexeme.end);
        self.after_statement = matches!(
            lexeme.token,
            Tok::Plain(Token::Sign(';')) | Tok::Keyword(Keyword::Begin | Keyword::Then | Keyword::Else | Keyword::Loop)
        );
        Ok((lexeme.token, self.current))
    }

    /// A name has been read: up to three, with dots between them, are looked up together.
    fn names_from(&mut self, first: Lexeme<Tok>, name: String, quoted: bool) -> Result<Lexeme<Tok>> {
        let (start, mut end) = (first.start, first.end);
        let mut names = vec![name];
        let mut after = self.read()?;
        while names.len() < 3 && after.token == super::sign('.') {
            let part = self.read()?;
            let Tok::Plain(Token::Identifier { name, .. }) = &part.token else {
                self.pushed.push(part);
                break;
            };
            names.push(name.clone());
            end = part.end;
            after = self.read()?;
        }
        // At a statement's start a name alone is a variable only if something is assigned to it.
        let is_dot = after.token == super::sign('.');
        let assigns = matches!(after.token, Tok::Plain(Token::ColonEquals | Token::Sign('=' | '[')));
        self.pushed.push(after);
        let token = if names.len() == 1 {
            self.word(names, quoted, is_dot || assigns || !self.after_statement)
        } else {
            self.qualified(names)
        };
        Ok(Lexeme { token, start, end })
    }

    fn word(&mut self, names: Vec<String>, quoted: bool, look_up: bool) -> Tok {
        let name = names.first().cloned().unwrap_or_default();
        if look_up && self.lookup == Lookup::Normal {
            let found = self.frame.namespace.find(&[&name]);
            if let Some((NamespaceItemKind::Scalar(slot) | NamespaceItemKind::Record(slot), _)) = found {
                return Tok::Variable(VariableToken { slot, names, quoted });
            }
        }
        match unreserved(&name) {
            Some(k) if !quoted => Tok::Keyword(k),
            _ => Tok::Word { name, quoted },
        }
    }

    fn qualified(&mut self, names: Vec<String>) -> Tok {
        if self.lookup == Lookup::Declare {
            return Tok::Words(names);
        }
        let parts: Vec<&str> = names.iter().map(String::as_str).collect();
        match (self.frame.namespace.find(&parts), names.len()) {
            (Some((NamespaceItemKind::Scalar(slot), _)), 2) | (Some((NamespaceItemKind::Record(slot), 2)), 2) => {
                Tok::Variable(VariableToken { slot, names, quoted: false })
            }
            (Some((NamespaceItemKind::Record(record), used)), _) => {
                // `record.field.deeper`: the third name is no concern of the variable's.
                let slot = names.get(used).map(|field| self.frame.field(record, field));
                let names = names.into_iter().take(used + 1).collect();
                slot.map_or(Tok::Words(Vec::new()), |slot| Tok::Variable(VariableToken { slot, names, quoted: false }))
            }
            _ => Tok::Words(names),
        }
    }

    /// The next token as the scanner has it: no name is looked up.
    pub(crate) fn peek_is(&mut self, wanted: &Tok) -> Result<bool> {
        let lexeme = self.read()?;
        let is = lexeme.token == *wanted;
        self.pushed.push(lexeme);
        Ok(is)
    }

    /// The next two tokens as the scanner has them, and where the first is.
    pub(crate) fn peek_two(&mut self) -> Result<(Tok, Tok, usize)> {
        let (first, second) = (self.read()?, self.read()?);
        let peeked = (first.token.clone(), second.token.clone(), first.start);
        self.pushed.push(second);
        self.pushed.push(first);
        Ok(peeked)
    }

    pub(crate) fn expect(&mut self, wanted: &Tok) -> Result<()> {
        if self.next()? == *wanted { Ok(()) } else { self.syntax_error() }
    }
    pub(crate) fn expect_keyword(&mut self, wanted: Keyword) -> Result<()> {
        self.expect(&Tok::Keyword(wanted))
    }
}

impl Tok {
    /// The word is this keyword, even if there is a variable of that name.
    pub(crate) fn is_word(&self, keyword: Keyword) -> bool {
        match self {
            Tok::Keyword(k) => *k == keyword,
            Tok::Variable(v) => {
                !v.quoted && v.names.len() == 1 && v.names.first().map(String::as_str) == word_of(keyword)
            }
            _ => false,
        }
    }
    /// A name of any sort: a word, an unreserved keyword, a variable's simple name.
    pub(crate) fn any_identifier(&self) -> Option<String> {
        match self {
            Tok::Word { name, .. } => Some(name.clone()),
            Tok::Keyword(k) => word_of(*k).map(str::to_string),
            Tok::Variable(v) if v.names.len() == 1 => v.names.first().cloned(),
            _ => None,
        }
    }
    pub(crate) fn is_unreserved(&self) -> bool {
        matches!(self, Tok::Keyword(k) if word_of(*k).is_some())
    }
}
