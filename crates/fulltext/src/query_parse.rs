//! Text that becomes a tsquery: the type's own syntax, plain text, web searches.

use crate::config::Config;
use crate::lexeme_scan::{LEXEME_BYTES, LexemeDialect, Scanner, is_operator, is_space};
use crate::query::{DEPTH_MAX, QueryItem, QueryOperand, QueryOperator, TsQuery, bad_distance, too_deep};
use kilndb_base::{Error, Result, sqlstate};

/// PostgreSQL's stack of operators without their right sides.
const PENDING_MAX: usize = 32;

/// An item, or what is left of an operand without lexemes.
enum QueryPart {
    Item(QueryItem),
    Stop,
}

enum OperandReading<'a> {
    /// As it is.
    AsIs,
    /// Through a configuration; words of one operand are joined by the operator.
    Through(&'a Config, QueryOperator),
}

enum QueryToken {
    Operator(QueryOperator, u16),
    Operand(String, u8, bool),
    Open,
    Close,
    /// Nothing follows where an operand should.
    Stop,
}

struct QueryParser<'a> {
    scanner: Scanner<'a>,
    wants_operand: bool,
    is_first: bool,
    open: usize,
    word: OperandReading<'a>,
    /// The query's parts in postfix order.
    parts: Vec<QueryPart>,
    notices: Vec<Error>,
}

/// What is said about a query, besides the query.
pub struct ParsedQuery {
    pub query: TsQuery,
    pub notices: Vec<Error>,
}

fn too_big(text: &str) -> Error {
    Error::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, format!("word is too long in tsquery: \"{text}\""))
}

impl TsQuery {
    /// The input of the type.
    pub fn parse(text: &str) -> Result<ParsedQuery> {
        parse(text, LexemeDialect::Query, OperandReading::AsIs)
    }
    pub fn to_query(config: &Config, text: &str) -> Result<ParsedQuery> {
        parse(text, LexemeDialect::Query, OperandReading::Through(config, QueryOperator::Phrase))
    }
    pub fn web(config: &Config, text: &str) -> Result<ParsedQuery> {
        parse(text, LexemeDialect::Web, OperandReading::Through(config, QueryOperator::Phrase))
    }
    /// Plain text: its words joined by the operator (AND or phrase).
    pub fn plain(config: &Config, text: &str, operator: QueryOperator) -> Result<ParsedQuery> {
        let mut parser = QueryParser::new(text, LexemeDialect::Query, OperandReading::Through(config, operator));
        if !text.is_empty() {
            parser.push_operand(text, 0, false)?;
        }
        parser.finish()
    }
}

fn parse(text: &str, dialect: LexemeDialect, word: OperandReading<'_>) -> Result<ParsedQuery> {
    let mut parser = QueryParser::new(text, dialect, word);
    parser.run()?;
    parser.finish()
}

impl<'a> QueryParser<'a> {
    fn new(text: &'a str, dialect: LexemeDialect, word: OperandReading<'a>) -> QueryParser<'a> {
        let scanner = Scanner::new(text, dialect);
        QueryParser {
            scanner,
            wants_operand: true,
            is_first: true,
            open: 0,
            word,
            parts: Vec::new(),
            notices: Vec::new(),
        }
    }
    fn push_operator(&mut self, operator: QueryOperator, distance: u16) {
        self.parts.push(QueryPart::Item(QueryItem::Operator { operator, distance, left: 0 }));
    }
    fn push_word(&mut self, word: &str, weights: u8, prefix: bool) -> Result<()> {
        if word.len() >= LEXEME_BYTES {
            return Err(too_big(self.scanner.text));
        }
        self.parts.push(QueryPart::Item(QueryItem::Operand(QueryOperand { word: word.into(), weights, prefix })));
        Ok(())
    }

    fn push_operand(&mut self, text: &str, weights: u8, prefix: bool) -> Result<()> {
        let OperandReading::Through(config, operator) = self.word else { return self.push_word(text, weights, prefix) };
        let words = config.parse(text, &mut self.notices)?;
        if words.is_empty() {
            self.parts.push(QueryPart::Stop);
            return Ok(());
        }
        let (mut position, mut groups, mut at) = (0u32, 0usize, 0usize);
        while let Some(first) = words.get(at) {
            // Stop words keep their places.
            while position > 0 && position + 1 < first.position {
                self.parts.push(QueryPart::Stop);
                if groups > 0 {
                    self.push_operator(operator, 1);
                }
                groups += 1;
                position += 1;
            }
            position = first.position;
            let mut variants = 0;
            while let Some(v) = words.get(at).filter(|w| w.position == position) {
                let mut count = 0;
                while let Some(w) = words.get(at).filter(|w| w.position == position && w.variant == v.variant) {
                    self.push_word(&w.word, weights, prefix || w.prefix)?;
                    if count > 0 {
                        self.push_operator(QueryOperator::And, 0);
                    }
                    count += 1;
                    at += 1;
                }
                if variants > 0 {
                    self.push_operator(QueryOperator::Or, 0);
                }
                variants += 1;
            }
            if groups > 0 {
                self.push_operator(operator, u16::from(operator == QueryOperator::Phrase));
            }
            groups += 1;
        }
        Ok(())
    }

    fn run(&mut self) -> Result<()> {
        let mut levels: Vec<Vec<(QueryOperator, u16)>> = vec![Vec::new()];
        while let Some(next) = self.next_syntax()? {
            self.scanner.steps.step(100)?;
            let Some(pending) = levels.last_mut() else { return Err(self.scanner.syntax_error()) };
            match next {
                QueryToken::Stop => {
                    self.parts.push(QueryPart::Stop);
                    break;
                }
                QueryToken::Operand(word, weights, prefix) => self.push_operand(&word, weights, prefix)?,
                QueryToken::Operator(operator, distance) => {
                    let waits = |top: QueryOperator| match operator {
                        QueryOperator::Not => operator.priority() >= top.priority(),
                        _ => operator.priority() > top.priority(),
                    };
                    while let Some((top, d)) = pending.pop_if(|p| !waits(p.0)) {
                        self.push_operator(top, d);
                    }
                    if pending.len() == PENDING_MAX {
                        return Err(Error::internal("tsquery stack too small"));
                    }
                    if let Some(pending) = levels.last_mut() {
                        pending.push((operator, distance));
                    }
                }
                QueryToken::Open if levels.len() > DEPTH_MAX => return Err(too_deep()),
                QueryToken::Open => levels.push(Vec::new()),
                QueryToken::Close => {
                    for (operator, distance) in levels.pop().unwrap_or_default().into_iter().rev() {
                        self.push_operator(operator, distance);
                    }
                }
            }
        }
        for (operator, distance) in levels.into_iter().rev().flat_map(|l| l.into_iter().rev()) {
            self.push_operator(operator, distance);
        }
        Ok(())
    }

    fn next_syntax(&mut self) -> Result<Option<QueryToken>> {
        if self.scanner.dialect == LexemeDialect::Web { self.next_of_web() } else { self.next_standard() }
    }
    fn operand_follows(&mut self, syntax: QueryToken) -> Result<Option<QueryToken>> {
        self.scanner.at += 1;
        (self.wants_operand, self.is_first) = (true, false);
        Ok(Some(syntax))
    }

    fn next_standard(&mut self) -> Result<Option<QueryToken>> {
        self.scanner.skip_spaces()?;
        let next = self.scanner.peek();
        if self.wants_operand {
            return match next {
                Some(b'!') => self.operand_follows(QueryToken::Operator(QueryOperator::Not, 0)),
                Some(b'(') => {
                    self.open += 1;
                    self.operand_follows(QueryToken::Open)
                }
                Some(b':') => Err(self.scanner.syntax_error()),
                _ => match self.scanner.next_lexeme()? {
                    Some(found) => {
                        let (weights, prefix) = self.modifiers();
                        (self.wants_operand, self.is_first) = (false, false);
                        Ok(Some(QueryToken::Operand(found.word, weights, prefix)))
                    }
                    None if self.is_first => Ok(None),
                    None => Err(Error::new(
                        sqlstate::SYNTAX_ERROR,
                        format!("no operand in tsquery: \"{}\"", self.scanner.text),
                    )),
                },
            };
        }
        match next {
            Some(b'&') => self.operand_follows(QueryToken::Operator(QueryOperator::And, 0)),
            Some(b'|') => self.operand_follows(QueryToken::Operator(QueryOperator::Or, 0)),
            Some(b'<') => match self.phrase_operator()? {
                Some(distance) => {
                    self.wants_operand = true;
                    Ok(Some(QueryToken::Operator(QueryOperator::Phrase, distance)))
                }
                None => Err(self.scanner.syntax_error()),
            },
            Some(b')') if self.open > 0 => {
                self.open -= 1;
                self.scanner.at += 1;
                Ok(Some(QueryToken::Close))
            }
            None if self.open == 0 => Ok(None),
            _ => Err(self.scanner.syntax_error()),
        }
    }
    /// `:*AB`.
    fn modifiers(&mut self) -> (u8, bool) {
        let (mut weights, mut prefix) = (0, false);
        if self.scanner.peek() == Some(b':') {
            loop {
                self.scanner.at += 1;
                match self.scanner.peek() {
                    Some(b'a' | b'A') => weights |= 8,
                    Some(b'b' | b'B') => weights |= 4,
                    Some(b'c' | b'C') => weights |= 2,
                    Some(b'd' | b'D') => weights |= 1,
                    Some(b'*') => prefix = true,
                    _ => break,
                }
            }
        }
        (weights, prefix)
    }
    /// `<->` or `<3>`, if something follows it.
    fn phrase_operator(&mut self) -> Result<Option<u16>> {
        let rest = self.scanner.text.as_bytes().get(self.scanner.at + 1..).unwrap_or_default();
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let (len, distance) = match rest.first() {
            Some(b'-') => (1, 1),
            _ if digits > 0 => {
                let value = rest.iter().take(digits).fold(0u32, |v, b| (v * 10 + u32::from(b - b'0')).min(1 << 24));
                (digits, value)
            }
            _ => return Ok(None),
        };
        if distance > 16384 {
            return Err(bad_distance());
        }
        if rest.get(len) != Some(&b'>') || rest.len() == len + 1 {
            return Ok(None);
        }
        self.scanner.at += len + 2;
        Ok(Some(distance as u16))
    }

    fn next_of_web(&mut self) -> Result<Option<QueryToken>> {
        loop {
            self.scanner.skip_spaces()?;
            let next = self.scanner.peek();
            if !self.wants_operand {
                match next {
                    None => return Ok(None),
                    _ if self.takes_or() => {
                        self.wants_operand = true;
                        return Ok(Some(QueryToken::Operator(QueryOperator::Or, 0)));
                    }
                    Some(b) if is_operator(b) => {
                        self.scanner.at += 1;
                        continue;
                    }
                    Some(_) => {
                        self.wants_operand = true;
                        return Ok(Some(QueryToken::Operator(QueryOperator::And, 0)));
                    }
                }
            }
            match next {
                Some(b'-') => return self.operand_follows(QueryToken::Operator(QueryOperator::Not, 0)),
                Some(b'"') => {
                    let rest = self.scanner.text.get(self.scanner.at + 1..).unwrap_or_default();
                    let (text, taken) = rest.find('"').map_or((rest, rest.len()), |end| (&rest[..end], end + 1));
                    self.scanner.at += 1 + taken;
                    (self.wants_operand, self.is_first) = (false, false);
                    return Ok(Some(QueryToken::Operand(text.to_string(), 0, false)));
                }
                Some(b) if is_operator(b) => {
                    self.scanner.at += 1;
                    self.is_first = false;
                }
                _ => {
                    return match self.scanner.next_lexeme()? {
                        Some(found) => {
                            (self.wants_operand, self.is_first) = (false, false);
                            Ok(Some(QueryToken::Operand(found.word, 0, false)))
                        }
                        None if self.is_first => Ok(None),
                        None => Ok(Some(QueryToken::Stop)),
                    };
                }
            }
        }
    }
    /// The word OR, with something behind it.
    fn takes_or(&mut self) -> bool {
        let rest = self.scanner.text.get(self.scanner.at..).unwrap_or_default();
        if !rest.get(..2).is_some_and(|w| w.eq_ignore_ascii_case("or")) {
            return false;
        }
        let behind = &rest[2..];
        let Some(first) = behind.chars().next() else { return false };
        if first == '-' || first == '_' || first.is_alphanumeric() {
            return false;
        }
        if !behind.chars().skip(1).any(|c| !(c.is_ascii() && is_space(c as u8))) {
            return false;
        }
        self.scanner.at += 2;
        true
    }

    fn finish(self) -> Result<ParsedQuery> {
        let mut notices = self.notices;
        if self.parts.is_empty() {
            let message = format!("text-search query doesn't contain lexemes: \"{}\"", self.scanner.text);
            notices.push(notice(message));
            return Ok(ParsedQuery { query: TsQuery::default(), notices });
        }
        let query = without_stops(self.parts)?;
        if query.is_empty() {
            notices.push(notice("text-search query contains only stop words or doesn't contain lexemes, ignored"));
        }
        Ok(ParsedQuery { query, notices })
    }
}

fn notice(message: impl Into<String>) -> Error {
    Error::notice(sqlstate::SUCCESSFUL_COMPLETION, kilndb_base::Severity::Notice, message)
}

/// A subtree in prefix order, and how far the stop words left out on either side would have reached.
struct CleanedSubtree {
    items: Option<Vec<QueryItem>>,
    left_add: u32,
    right_add: u32,
}

/// Leaves out stop words, the distances of phrases kept right. The parts come in postfix order, left operands first.
fn without_stops(parts: Vec<QueryPart>) -> Result<TsQuery> {
    if !parts.iter().any(|p| matches!(p, QueryPart::Stop)) {
        let items = parts.into_iter().rev().filter_map(|p| if let QueryPart::Item(i) = p { Some(i) } else { None });
        return TsQuery::link(items.collect());
    }
    let malformed = || Error::internal("malformed tsquery: operand not found");
    let mut stack: Vec<CleanedSubtree> = Vec::new();
    for part in parts {
        let made = match part {
            QueryPart::Stop => CleanedSubtree { items: None, left_add: 0, right_add: 0 },
            // Kept in postfix order here: what is appended stays where it is.
            QueryPart::Item(item @ QueryItem::Operand(_)) => {
                CleanedSubtree { items: Some(vec![item]), left_add: 0, right_add: 0 }
            }
            QueryPart::Item(item @ QueryItem::Operator { operator: QueryOperator::Not, .. }) => {
                let mut operand = stack.pop().ok_or_else(malformed)?;
                operand.items.iter_mut().for_each(|i| i.push(item.clone()));
                operand
            }
            QueryPart::Item(QueryItem::Operator { operator, distance, .. }) => {
                let right = stack.pop().ok_or_else(malformed)?;
                let left = stack.pop().ok_or_else(malformed)?;
                join_cleaned(operator, distance, left, right)
            }
        };
        stack.push(made);
    }
    match (stack.pop(), stack.is_empty()) {
        (Some(CleanedSubtree { items: Some(items), .. }), true) => TsQuery::link(items.into_iter().rev().collect()),
        (Some(_), true) => Ok(TsQuery::default()),
        _ => Err(Error::internal("malformed tsquery: extra nodes")),
    }
}
fn join_cleaned(operator: QueryOperator, distance: u16, left: CleanedSubtree, right: CleanedSubtree) -> CleanedSubtree {
    let is_phrase = operator == QueryOperator::Phrase;
    let d = u32::from(distance);
    match (left.items, right.items) {
        (None, None) => {
            let add = if is_phrase { left.left_add + d + right.left_add } else { left.left_add.max(right.left_add) };
            CleanedSubtree { items: None, left_add: add, right_add: add }
        }
        (None, items) => {
            let left_add = if is_phrase { left.left_add + d + right.left_add } else { right.left_add };
            CleanedSubtree { items, left_add, right_add: right.right_add }
        }
        (items, None) => {
            let right_add = if is_phrase { left.right_add + d + right.right_add } else { left.right_add };
            CleanedSubtree { items, left_add: left.left_add, right_add }
        }
        (Some(mut items), Some(mut more)) => {
            items.append(&mut more);
            let distance =
                if is_phrase { (d + left.right_add + right.left_add).min(u32::from(u16::MAX)) as u16 } else { 0 };
            items.push(QueryItem::Operator { operator, distance, left: 0 });
            let (left_add, right_add) = if is_phrase { (left.left_add, right.right_add) } else { (0, 0) };
            CleanedSubtree { items: Some(items), left_add, right_add }
        }
    }
}
