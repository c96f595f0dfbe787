//! Tokens on their way through dictionaries that give several lexemes for a token, or want several tokens.
//!
//! Configurations without such dictionaries do not come here, but for one question and one answer.

use crate::config::{Config, token_units};
use crate::dictionary::{Dictionary, Lexemes, NormalizedLexeme};
use crate::parser::Token;
use crate::thesaurus::{PartialMatch, Thesaurus};
use kilndb_base::{Result, work};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

/// The token behind the last one of a text.
const END: Token<'static> = Token { kind: 0, text: "" };

/// Tokens and what they become together; None: no dictionary knows them.
pub(crate) struct LexizedTokens<'a> {
    pub tokens: Vec<Token<'a>>,
    pub lexemes: Option<Lexemes>,
}

/// A dictionary that has asked for more tokens.
struct PendingDictionary {
    oid: u32,
    dictionary: Arc<Dictionary>,
    begun: PartialMatch,
    /// What it would make of the tokens up to one of the waiting.
    known: Option<(usize, Lexemes)>,
    /// The next token that it is to see.
    next: usize,
}

pub(crate) struct Lexizer<'c, 'a> {
    config: &'c Config,
    waiting: VecDeque<Token<'a>>,
    done: Vec<Token<'a>>,
    asking: Option<PendingDictionary>,
    /// The first dictionary that the first waiting token has not been to.
    place: usize,
}

impl<'c, 'a> Lexizer<'c, 'a> {
    pub fn new(config: &'c Config) -> Lexizer<'c, 'a> {
        Lexizer { config, waiting: VecDeque::new(), done: Vec::new(), asking: None, place: 0 }
    }
    /// All groups of a text's tokens.
    pub fn run(
        mut self,
        tokens: impl Iterator<Item = Token<'a>>,
        visit: &mut dyn FnMut(LexizedTokens<'a>) -> Result<()>,
    ) -> Result<()> {
        for token in tokens.chain([END]) {
            work::step(token_units(token))?;
            self.waiting.push_back(token);
            loop {
                let lexemes = self.advance();
                let was_last = lexemes.is_none();
                let tokens: Vec<Token<'a>> =
                    std::mem::take(&mut self.done).into_iter().filter(|t| t.kind != 0).collect();
                if lexemes.is_some() || !tokens.is_empty() {
                    visit(LexizedTokens { tokens, lexemes })?;
                }
                if was_last {
                    break;
                }
            }
        }
        Ok(())
    }

    fn drop_first(&mut self) {
        self.done.extend(self.waiting.pop_front());
        self.place = 0;
    }
    /// The lexemes that come next; None: there are none, or more tokens are wanted.
    fn advance(&mut self) -> Option<Lexemes> {
        loop {
            match self.asking.take() {
                Some(asking) => {
                    if let Some(found) = self.go_on(asking) {
                        return Some(found);
                    }
                    if self.asking.is_some() {
                        return None;
                    }
                }
                None => {
                    let found = self.ask_dictionaries();
                    if found.is_some() || self.asking.is_none() {
                        return found;
                    }
                }
            }
        }
    }
    /// Takes one token after the other, until a dictionary knows one or asks for more.
    fn ask_dictionaries(&mut self) -> Option<Lexemes> {
        while let Some(token) = self.waiting.front() {
            let mut text = Cow::Borrowed(token.text);
            for (i, entry) in self.config.dictionaries(token.kind).iter().enumerate().skip(self.place) {
                if entry.dictionary.is_filter() {
                    text = entry.dictionary.filtered(&text).map_or(text, Cow::Owned);
                    continue;
                }
                let (found, begun) = match entry.dictionary.thesaurus() {
                    Some(thesaurus) => {
                        let step = thesaurus.step(None, &text);
                        (step.result, step.begun)
                    }
                    None => (entry.dictionary.lexemes(&text), None),
                };
                if let Some(begun) = begun {
                    let known = found.map(|lexemes| (0, lexemes));
                    self.asking = Some(PendingDictionary {
                        oid: entry.oid,
                        dictionary: entry.dictionary.clone(),
                        begun,
                        known,
                        next: 1,
                    });
                    self.place = i + 1;
                    return None;
                }
                if found.is_some() {
                    self.drop_first();
                    return found;
                }
            }
            self.drop_first();
        }
        None
    }
    /// The tokens behind the first one, for the dictionary that has asked for them. It stays in `asking` if there are
    /// none left.
    fn go_on(&mut self, mut asking: PendingDictionary) -> Option<Lexemes> {
        let dictionary = asking.dictionary.clone();
        while let Some(token) = self.waiting.get(asking.next).copied() {
            let at = asking.next;
            let entries = self.config.dictionaries(token.kind);
            if token.kind != 0 {
                if entries.is_empty() {
                    asking.next += 1;
                    continue;
                }
                if !entries.iter().any(|e| e.oid == asking.oid) {
                    // Tokens of this type are not for it: the first one goes to the dictionaries behind it.
                    return None;
                }
            }
            let step = dictionary
                .thesaurus()
                .filter(|_| token.kind != 0)
                .map(|t: &Thesaurus| t.step(Some(&asking.begun), token.text));
            let (found, begun) = step.map_or((None, None), |s| (s.result, s.begun));
            if let Some(begun) = begun {
                asking.begun = begun;
                asking.next += 1;
                asking.known = found.map(|lexemes| (at, lexemes)).or(asking.known);
                continue;
            }
            let (last, lexemes) = found.map(|lexemes| (at, lexemes)).or(asking.known)?;
            (0..=last).for_each(|_| self.drop_first());
            return Some(lexemes);
        }
        self.asking = Some(asking);
        None
    }
}

impl Config {
    /// What the tokens of a text become, in order.
    pub(crate) fn each_group<'a>(
        &self,
        mut tokens: impl Iterator<Item = Token<'a>>,
        visit: &mut dyn FnMut(LexizedTokens<'a>) -> Result<()>,
    ) -> Result<()> {
        if self.gives_single_lexemes() {
            let group = |token: Token<'a>| {
                let lexemes = self.lexize(token).map(|lexeme| lexeme.map(NormalizedLexeme::from).into_iter().collect());
                LexizedTokens { tokens: vec![token], lexemes }
            };
            tokens.try_for_each(|t| work::step(token_units(t)).and_then(|()| visit(group(t))))
        } else {
            Lexizer::new(self).run(tokens, visit)
        }
    }
}
