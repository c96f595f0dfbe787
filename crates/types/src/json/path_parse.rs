//! jsonpath: its grammar, and its text as PostgreSQL prints it.

use super::value::escape;
use crate::numeric::Numeric;
use crate::pieces;
use kilndb_base::work::{self, SmallSteps};
use kilndb_base::{Error, Result, sqlstate};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathOperator {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Eq,
    Ne,
    Lt,
    Gt,
    Le,
    Ge,
    And,
    Or,
    StartsWith,
}
impl PathOperator {
    fn text(self) -> &'static str {
        match self {
            PathOperator::Add => "+",
            PathOperator::Sub => "-",
            PathOperator::Mul => "*",
            PathOperator::Div => "/",
            PathOperator::Mod => "%",
            PathOperator::Eq => "==",
            PathOperator::Ne => "!=",
            PathOperator::Lt => "<",
            PathOperator::Gt => ">",
            PathOperator::Le => "<=",
            PathOperator::Ge => ">=",
            PathOperator::And => "&&",
            PathOperator::Or => "||",
            PathOperator::StartsWith => "starts with",
        }
    }
    fn priority(self) -> u8 {
        match self {
            PathOperator::Or => 0,
            PathOperator::And => 1,
            PathOperator::Eq
            | PathOperator::Ne
            | PathOperator::Lt
            | PathOperator::Gt
            | PathOperator::Le
            | PathOperator::Ge
            | PathOperator::StartsWith => 2,
            PathOperator::Add | PathOperator::Sub => 3,
            PathOperator::Mul | PathOperator::Div | PathOperator::Mod => 4,
        }
    }
}

#[derive(Clone, Debug)]
pub enum PathExpr {
    Null,
    Bool(bool),
    Number(Numeric),
    String(String),
    Variable(String),
    Root,
    Current,
    Last,
    Binary(PathOperator, Box<PathExpr>, Box<PathExpr>),
    Plus(Box<PathExpr>),
    Minus(Box<PathExpr>),
    Not(Box<PathExpr>),
    Exists(Box<PathExpr>),
    IsUnknown(Box<PathExpr>),
    LikeRegex(Box<PathExpr>, String, String),
    /// A value and what is done with it.
    Chain(Box<PathExpr>, Vec<PathAccessor>),
}
#[derive(Clone, Debug)]
pub enum PathAccessor {
    Key(String),
    AnyKey,
    AnyArray,
    Index(Vec<(PathExpr, Option<PathExpr>)>),
    /// `**{first to last}`; None: last.
    Any(Option<u32>, Option<u32>),
    Filter(PathExpr),
    Method(String, Vec<PathExpr>),
}
#[derive(Clone, Debug)]
pub struct JsonPath {
    pub lax: bool,
    pub expr: PathExpr,
}

#[derive(Clone, PartialEq, Debug)]
enum PathToken {
    Word(String),
    Quoted(String),
    Variable(String),
    Int(String),
    Number(String),
    Sign(&'static str),
    End,
}

struct PathParser<'a> {
    text: &'a str,
    tokens: Vec<(PathToken, usize, usize)>,
    at: usize,
    depth: usize,
    in_filter: usize,
    in_index: usize,
}

const METHODS: [&str; 19] = [
    "abs",
    "size",
    "type",
    "floor",
    "double",
    "ceiling",
    "keyvalue",
    "bigint",
    "boolean",
    "date",
    "decimal",
    "integer",
    "number",
    "string",
    "datetime",
    "time",
    "time_tz",
    "timestamp",
    "timestamp_tz",
];
const SIGNS: [&str; 29] = [
    "**", "==", "!=", "<>", "<=", ">=", "&&", "||", "<", ">", "=", "!", "+", "-", "*", "/", "%", "(", ")", "[", "]",
    "{", "}", "?", "@", "$", ".", ",", ":",
];
const MAX_DEPTH: usize = 2000;

pub fn parse(text: &str) -> Result<JsonPath> {
    let mut p = PathParser { text, tokens: Vec::new(), at: 0, depth: 0, in_filter: 0, in_index: 0 };
    p.tokens = tokens(text)?;
    if p.tokens.len() == 1 {
        return Err(Error::new(
            sqlstate::INVALID_TEXT_REPRESENTATION,
            format!("invalid input syntax for type jsonpath: \"{text}\""),
        ));
    }
    let lax = match p.peek() {
        PathToken::Word(w) if w == "strict" => {
            p.at += 1;
            false
        }
        PathToken::Word(w) if w == "lax" => {
            p.at += 1;
            true
        }
        _ => true,
    };
    let (expr, _) = p.or()?;
    if *p.peek() != PathToken::End {
        return Err(p.syntax_error());
    }
    Ok(JsonPath { lax, expr })
}

fn error_at(text: &str, start: usize, end: usize, what: &str) -> Error {
    let message = if start >= text.len() {
        format!("{what} at end of jsonpath input")
    } else {
        format!("{what} at or near \"{}\" of jsonpath input", text.get(start..end).unwrap_or(""))
    };
    Error::new(sqlstate::SYNTAX_ERROR, message)
}

fn is_special(c: char) -> bool {
    "?%$.[]{}()|&!=<>@#,*:-+/\\\"".contains(c) || c.is_ascii_whitespace()
}

/// The tokens with their places.
fn tokens(text: &str) -> Result<Vec<(PathToken, usize, usize)>> {
    let b = text.as_bytes();
    let mut list = Vec::new();
    let mut at = 0;
    loop {
        work::step(100)?;
        at += pieces::count_leading(&b[at..], |c| c.is_ascii_whitespace() || c == 11)?;
        let start = at;
        let Some(&c) = b.get(at) else { break };
        if b[at..].starts_with(b"/*") {
            match pieces::find(&text[at + 2..], "*/")? {
                Some(end) => at += end + 4,
                None => return Err(error_at(text, text.len(), text.len(), "unexpected end of comment")),
            }
            continue;
        }
        let token = match c {
            b'"' => PathToken::Quoted(quoted(text, &mut at)?),
            b'$' if b.get(at + 1) == Some(&b'"') => {
                at += 1;
                PathToken::Variable(quoted(text, &mut at)?)
            }
            b'$' if text[at + 1..].chars().next().is_some_and(|c| !is_special(c)) => {
                at += 1;
                PathToken::Variable(word(text, &mut at)?)
            }
            b'0'..=b'9' => number(text, &mut at)?,
            b'.' if b.get(at + 1).is_some_and(u8::is_ascii_digit) => number(text, &mut at)?,
            _ => match SIGNS.iter().find(|s| b[at..].starts_with(s.as_bytes())) {
                Some(sign) => {
                    at += sign.len();
                    PathToken::Sign(match *sign {
                        "<>" => "!=",
                        "=" => "==",
                        s => s,
                    })
                }
                None if is_special(char::from(c)) && c != b'\\' => {
                    return Err(error_at(text, at, at + 1, "syntax error"));
                }
                None => PathToken::Word(word(text, &mut at)?),
            },
        };
        list.push((token, start, at));
    }
    list.push((PathToken::End, text.len(), text.len()));
    Ok(list)
}
fn number(text: &str, at: &mut usize) -> Result<PathToken> {
    let b = text.as_bytes();
    let start = *at;
    let digits = |mut i: usize, ok: fn(&u8) -> bool| {
        while b.get(i).is_some_and(|c| ok(c) || *c == b'_') {
            i += 1;
        }
        i
    };
    let junk = |end: usize| {
        let more = text[end..].chars().next().filter(|c| c.is_alphanumeric() || *c == '_').map_or(0, char::len_utf8);
        (more > 0).then(|| error_at(text, start, end + more, "trailing junk after numeric literal"))
    };
    if b[start] == b'0' && matches!(b.get(start + 1), Some(b'x' | b'X' | b'o' | b'O' | b'b' | b'B')) {
        let (radix, ok): (u32, fn(&u8) -> bool) = match b[start + 1] {
            b'x' | b'X' => (16, u8::is_ascii_hexdigit),
            b'o' | b'O' => (8, |c| (b'0'..=b'7').contains(c)),
            _ => (2, |c| matches!(c, b'0' | b'1')),
        };
        let end = digits(start + 2, ok);
        if let Some(e) = junk(end) {
            return Err(e);
        }
        let value = i128::from_str_radix(&text[start + 2..end].replace('_', ""), radix);
        let Ok(value) = value else { return Err(error_at(text, start, end, "trailing junk after numeric literal")) };
        *at = end;
        return Ok(PathToken::Int(value.to_string()));
    }
    let mut end = digits(start, u8::is_ascii_digit);
    let mut is_int = true;
    if b[start] == b'0' && end > start + 1 {
        return Err(error_at(text, start, end, "trailing junk after numeric literal"));
    }
    if b.get(end) == Some(&b'.')
        && b.get(end + 1) != Some(&b'*')
        && !b.get(end + 1).is_some_and(|c| c.is_ascii_alphabetic() && !matches!(c, b'e' | b'E'))
    {
        is_int = false;
        end = digits(end + 1, u8::is_ascii_digit);
    }
    if matches!(b.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(b.get(end + 1), Some(b'+' | b'-')));
        let after = digits(end + 1 + sign, u8::is_ascii_digit);
        if after == end + 1 + sign {
            return Err(error_at(text, start, end + 1, "trailing junk after numeric literal"));
        }
        is_int = false;
        end = after;
    }
    if let Some(e) = junk(end) {
        return Err(e);
    }
    *at = end;
    let shown = text[start..end].replace('_', "");
    Ok(if is_int { PathToken::Int(shown) } else { PathToken::Number(shown) })
}
fn word(text: &str, at: &mut usize) -> Result<String> {
    let (mut out, mut steps) = (String::new(), SmallSteps::default());
    while let Some(c) = text[*at..].chars().next() {
        steps.step(5)?;
        if c == '\\' {
            *at += 1;
            unescape(text, at, &mut out)?;
        } else if is_special(c) {
            break;
        } else {
            out.push(c);
            *at += c.len_utf8();
        }
    }
    Ok(out)
}
fn quoted(text: &str, at: &mut usize) -> Result<String> {
    let (mut out, mut steps) = (String::new(), SmallSteps::default());
    *at += 1;
    loop {
        steps.step(5)?;
        match text[*at..].chars().next() {
            None => return Err(error_at(text, text.len(), text.len(), "unterminated quoted string")),
            Some('"') => {
                *at += 1;
                return Ok(out);
            }
            Some('\\') => {
                *at += 1;
                unescape(text, at, &mut out)?;
            }
            Some(c) => {
                out.push(c);
                *at += c.len_utf8();
            }
        }
    }
}
/// What follows a backslash.
fn unescape(text: &str, at: &mut usize, out: &mut String) -> Result<()> {
    let hex = |from: usize, count: usize| text.get(from..from + count).and_then(|h| u32::from_str_radix(h, 16).ok());
    let Some(c) = text[*at..].chars().next() else {
        return Err(error_at(text, text.len(), text.len(), "unexpected end after backslash"));
    };
    *at += c.len_utf8();
    let bad = |what: &str, detail: &str| Error::new(sqlstate::SYNTAX_ERROR, what).with_detail(detail);
    let code = match c {
        'b' => 8,
        'f' => 12,
        'n' => 10,
        'r' => 13,
        't' => 9,
        'v' => 11,
        'x' => {
            let Some(code) = hex(*at, 2) else {
                return Err(error_at(text, *at - 2, *at, "invalid hexadecimal character sequence"));
            };
            *at += 2;
            code
        }
        'u' => {
            let code = if text[*at..].starts_with('{') {
                let end = text[*at..].find('}').map(|e| *at + e);
                let code = end.and_then(|e| u32::from_str_radix(&text[*at + 1..e], 16).ok());
                *at = end.map_or(*at, |e| e + 1);
                code
            } else {
                let code = hex(*at, 4);
                *at += 4;
                code
            };
            let Some(mut code) = code else {
                return Err(error_at(text, (*at).min(text.len()), text.len(), "invalid Unicode escape sequence"));
            };
            if (0xd800..0xdc00).contains(&code) {
                let low = if text[*at..].starts_with("\\u") {
                    hex(*at + 2, 4).filter(|l| (0xdc00..0xe000).contains(l))
                } else {
                    None
                };
                let Some(low) = low else {
                    return Err(bad(
                        "invalid input syntax for type jsonpath",
                        "Unicode low surrogate must follow a high surrogate.",
                    ));
                };
                *at += 6;
                code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            } else if (0xdc00..0xe000).contains(&code) {
                return Err(bad(
                    "invalid input syntax for type jsonpath",
                    "Unicode low surrogate must follow a high surrogate.",
                ));
            }
            code
        }
        c => c as u32,
    };
    if code == 0 {
        return Err(Error::new(sqlstate::UNTRANSLATABLE_CHARACTER, "unsupported Unicode escape sequence")
            .with_detail("\\u0000 cannot be converted to text."));
    }
    out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
    Ok(())
}

/// Is the expression a condition?
type TypedPathExpr = (PathExpr, bool);

impl PathParser<'_> {
    fn peek(&self) -> &PathToken {
        self.tokens.get(self.at).map_or(&PathToken::End, |t| &t.0)
    }
    #[cold]
    fn syntax_error(&self) -> Error {
        let (start, end) = self.tokens.get(self.at).map_or((self.text.len(), self.text.len()), |t| (t.1, t.2));
        error_at(self.text, start, end, "syntax error")
    }
    fn take(&mut self, sign: &str) -> bool {
        let hit = matches!(self.peek(), PathToken::Sign(s) if *s == sign);
        self.at += usize::from(hit);
        hit
    }
    fn expect(&mut self, sign: &str) -> Result<()> {
        if self.take(sign) { Ok(()) } else { Err(self.syntax_error()) }
    }
    fn take_word(&mut self, word: &str) -> bool {
        let hit = matches!(self.peek(), PathToken::Word(w) if w == word);
        self.at += usize::from(hit);
        hit
    }
    fn condition(&mut self) -> Result<PathExpr> {
        match self.or()? {
            (e, true) => Ok(e),
            _ => Err(self.syntax_error()),
        }
    }
    fn value(&mut self) -> Result<PathExpr> {
        match self.sum()? {
            (e, false) => Ok(e),
            _ => Err(self.syntax_error()),
        }
    }

    fn or(&mut self) -> Result<TypedPathExpr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(kilndb_base::stack::too_deep());
        }
        let mut left = self.and()?;
        while left.1 && self.take("||") {
            let right = self.and()?;
            if !right.1 {
                return Err(self.syntax_error());
            }
            left = (PathExpr::Binary(PathOperator::Or, Box::new(left.0), Box::new(right.0)), true);
        }
        self.depth -= 1;
        Ok(left)
    }
    fn and(&mut self) -> Result<TypedPathExpr> {
        let mut left = self.not()?;
        while left.1 && self.take("&&") {
            let right = self.not()?;
            if !right.1 {
                return Err(self.syntax_error());
            }
            left = (PathExpr::Binary(PathOperator::And, Box::new(left.0), Box::new(right.0)), true);
        }
        Ok(left)
    }
    fn not(&mut self) -> Result<TypedPathExpr> {
        if self.take("!") {
            // A condition that has its own end must follow.
            if !matches!(self.peek(), PathToken::Sign("("))
                && !matches!(self.peek(), PathToken::Word(w) if w == "exists")
            {
                return Err(self.syntax_error());
            }
            let inner = match self.peek() {
                PathToken::Word(_) => self.exists()?,
                _ => {
                    self.at += 1;
                    let inner = self.condition()?;
                    self.expect(")")?;
                    inner
                }
            };
            return Ok((PathExpr::Not(Box::new(inner)), true));
        }
        self.comparison()
    }
    fn exists(&mut self) -> Result<PathExpr> {
        self.at += 1;
        self.expect("(")?;
        let inner = self.value()?;
        self.expect(")")?;
        Ok(PathExpr::Exists(Box::new(inner)))
    }
    fn comparison(&mut self) -> Result<TypedPathExpr> {
        let left = self.sum()?;
        if left.1 {
            return Ok(left);
        }
        let left = left.0;
        let op = match self.peek() {
            PathToken::Sign("==") => PathOperator::Eq,
            PathToken::Sign("!=") => PathOperator::Ne,
            PathToken::Sign("<") => PathOperator::Lt,
            PathToken::Sign(">") => PathOperator::Gt,
            PathToken::Sign("<=") => PathOperator::Le,
            PathToken::Sign(">=") => PathOperator::Ge,
            PathToken::Word(w) if w == "starts" => {
                self.at += 1;
                if !self.take_word("with") {
                    return Err(self.syntax_error());
                }
                let right = match self.peek().clone() {
                    PathToken::Quoted(s) => PathExpr::String(s),
                    PathToken::Variable(v) => PathExpr::Variable(v),
                    _ => return Err(self.syntax_error()),
                };
                self.at += 1;
                return Ok((PathExpr::Binary(PathOperator::StartsWith, Box::new(left), Box::new(right)), true));
            }
            PathToken::Word(w) if w == "like_regex" => {
                self.at += 1;
                return Ok((self.like_regex(left)?, true));
            }
            _ => return Ok((left, false)),
        };
        self.at += 1;
        let right = self.value()?;
        Ok((PathExpr::Binary(op, Box::new(left), Box::new(right)), true))
    }
    fn like_regex(&mut self, left: PathExpr) -> Result<PathExpr> {
        let PathToken::Quoted(pattern) = self.peek().clone() else { return Err(self.syntax_error()) };
        self.at += 1;
        let mut flags = String::new();
        if self.take_word("flag") {
            let PathToken::Quoted(given) = self.peek().clone() else { return Err(self.syntax_error()) };
            self.at += 1;
            for c in given.chars() {
                if !"ismxq".contains(c) {
                    return Err(Error::new(sqlstate::SYNTAX_ERROR, "invalid input syntax for type jsonpath")
                        .with_detail(format!("Unrecognized flag character \"{c}\" in LIKE_REGEX predicate.")));
                }
                if c == 'x' && !given.contains('q') {
                    return Err(Error::unsupported(
                        "XQuery \"x\" flag (expanded regular expressions) is not implemented",
                    ));
                }
            }
            flags = "ismxq".chars().filter(|c| given.contains(*c)).collect();
        }
        Ok(PathExpr::LikeRegex(Box::new(left), pattern, flags))
    }
    fn sum(&mut self) -> Result<TypedPathExpr> {
        let mut left = self.product()?;
        loop {
            let op = match self.peek() {
                PathToken::Sign("+") => PathOperator::Add,
                PathToken::Sign("-") => PathOperator::Sub,
                _ => return Ok(left),
            };
            if left.1 {
                return Err(self.syntax_error());
            }
            self.at += 1;
            let (right, false) = self.product()? else { return Err(self.syntax_error()) };
            left = (PathExpr::Binary(op, Box::new(left.0), Box::new(right)), false);
        }
    }
    fn product(&mut self) -> Result<TypedPathExpr> {
        let mut left = self.unary()?;
        loop {
            let op = match self.peek() {
                PathToken::Sign("*") => PathOperator::Mul,
                PathToken::Sign("/") => PathOperator::Div,
                PathToken::Sign("%") => PathOperator::Mod,
                _ => return Ok(left),
            };
            if left.1 {
                return Err(self.syntax_error());
            }
            self.at += 1;
            let (right, false) = self.unary()? else { return Err(self.syntax_error()) };
            left = (PathExpr::Binary(op, Box::new(left.0), Box::new(right)), false);
        }
    }
    fn unary(&mut self) -> Result<TypedPathExpr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(kilndb_base::stack::too_deep());
        }
        let sign = if self.take("+") {
            Some(true)
        } else if self.take("-") {
            Some(false)
        } else {
            None
        };
        let result = match sign {
            None => self.accessors(),
            Some(plus) => {
                let (inner, false) = self.unary()? else { return Err(self.syntax_error()) };
                Ok((if plus { PathExpr::Plus(Box::new(inner)) } else { PathExpr::Minus(Box::new(inner)) }, false))
            }
        };
        self.depth -= 1;
        result
    }
    fn accessors(&mut self) -> Result<TypedPathExpr> {
        let mut base = self.primary()?;
        let mut steps = Vec::new();
        while let Some(step) = self.step()? {
            steps.push(step);
        }
        if steps.is_empty() {
            return Ok(base);
        }
        // What follows a chain in parentheses belongs to it.
        if let PathExpr::Chain(_, own) = &mut base.0 {
            own.extend(steps);
            return Ok((base.0, false));
        }
        Ok((PathExpr::Chain(Box::new(base.0), steps), false))
    }
    fn primary(&mut self) -> Result<TypedPathExpr> {
        let e = match self.peek().clone() {
            PathToken::Quoted(s) => PathExpr::String(s),
            PathToken::Variable(v) => PathExpr::Variable(v),
            PathToken::Int(n) | PathToken::Number(n) => PathExpr::Number(Numeric::parse(&n)?),
            PathToken::Sign("$") => PathExpr::Root,
            PathToken::Sign("@") if self.in_filter == 0 => {
                return Err(Error::new(sqlstate::SYNTAX_ERROR, "@ is not allowed in root expressions"));
            }
            PathToken::Sign("@") => PathExpr::Current,
            PathToken::Sign("(") => {
                self.at += 1;
                let inner = self.or()?;
                self.expect(")")?;
                if inner.1 && self.take_word("is") {
                    if !self.take_word("unknown") {
                        return Err(self.syntax_error());
                    }
                    return Ok((PathExpr::IsUnknown(Box::new(inner.0)), true));
                }
                return Ok(inner);
            }
            PathToken::Word(w) => match w.as_str() {
                "null" => PathExpr::Null,
                "true" => PathExpr::Bool(true),
                "false" => PathExpr::Bool(false),
                "last" if self.in_index == 0 => {
                    return Err(Error::new(sqlstate::SYNTAX_ERROR, "LAST is allowed only in array subscripts"));
                }
                "last" => PathExpr::Last,
                "exists" => return Ok((self.exists()?, true)),
                _ => return Err(self.syntax_error()),
            },
            _ => return Err(self.syntax_error()),
        };
        self.at += 1;
        Ok((e, false))
    }
    fn step(&mut self) -> Result<Option<PathAccessor>> {
        if self.take("[") {
            if self.take("*") {
                self.expect("]")?;
                return Ok(Some(PathAccessor::AnyArray));
            }
            self.in_index += 1;
            let mut list = Vec::new();
            loop {
                let first = self.value()?;
                let last = if self.take_word("to") { Some(self.value()?) } else { None };
                list.push((first, last));
                if !self.take(",") {
                    break;
                }
            }
            self.in_index -= 1;
            self.expect("]")?;
            return Ok(Some(PathAccessor::Index(list)));
        }
        if self.take("?") {
            self.expect("(")?;
            self.in_filter += 1;
            let condition = self.condition()?;
            self.in_filter -= 1;
            self.expect(")")?;
            return Ok(Some(PathAccessor::Filter(condition)));
        }
        if !self.take(".") {
            return Ok(None);
        }
        if self.take("*") {
            return Ok(Some(PathAccessor::AnyKey));
        }
        if self.take("**") {
            return self.any().map(Some);
        }
        let (name, is_word) = match self.peek().clone() {
            PathToken::Word(w) => (w, true),
            PathToken::Quoted(s) => (s, false),
            _ => return Err(self.syntax_error()),
        };
        self.at += 1;
        if is_word && matches!(self.peek(), PathToken::Sign("(")) && METHODS.contains(&name.as_str()) {
            return self.method(name).map(Some);
        }
        Ok(Some(PathAccessor::Key(name)))
    }
    fn any(&mut self) -> Result<PathAccessor> {
        if !self.take("{") {
            return Ok(PathAccessor::Any(Some(0), None));
        }
        let mut level = || -> Result<Option<u32>> {
            let level = match self.peek() {
                PathToken::Int(n) => Some(n.parse().map_err(|_| {
                    Error::new(
                        sqlstate::NUMERIC_VALUE_OUT_OF_RANGE,
                        format!("value \"{n}\" is out of range for type integer"),
                    )
                })?),
                PathToken::Word(w) if w == "last" => None,
                _ => return Err(self.syntax_error()),
            };
            self.at += 1;
            Ok(level)
        };
        let first = level()?;
        let last = if self.take_word("to") {
            let level = match self.peek() {
                PathToken::Int(n) => n.parse().ok(),
                PathToken::Word(w) if w == "last" => None,
                _ => return Err(self.syntax_error()),
            };
            self.at += 1;
            level
        } else {
            first
        };
        self.expect("}")?;
        Ok(PathAccessor::Any(first, last))
    }
    fn method(&mut self, name: String) -> Result<PathAccessor> {
        self.expect("(")?;
        let mut args = Vec::new();
        let most = match name.as_str() {
            "decimal" => usize::MAX,
            "datetime" | "time" | "time_tz" | "timestamp" | "timestamp_tz" => 1,
            _ => 0,
        };
        while args.len() < most && !matches!(self.peek(), PathToken::Sign(")")) {
            let negative = name == "decimal" && self.take("-");
            let plus = !negative && name == "decimal" && self.take("+");
            let arg = match self.peek().clone() {
                PathToken::Quoted(s) if name == "datetime" => PathExpr::String(s),
                PathToken::Int(n) if name != "datetime" => PathExpr::Number(Numeric::parse(&n)?),
                _ => return Err(self.syntax_error()),
            };
            self.at += 1;
            args.push(if negative {
                PathExpr::Minus(Box::new(arg))
            } else if plus {
                PathExpr::Plus(Box::new(arg))
            } else {
                arg
            });
            if !self.take(",") {
                break;
            }
        }
        self.expect(")")?;
        if args.len() > 2 {
            return Err(Error::new(sqlstate::SYNTAX_ERROR, "invalid input syntax for type jsonpath")
                .with_detail(".decimal() can only have an optional precision[,scale]."));
        }
        Ok(PathAccessor::Method(name, args))
    }
}

impl JsonPath {
    pub fn text(&self) -> String {
        let mut out = Vec::new();
        if !self.lax {
            out.extend_from_slice(b"strict ");
        }
        write(&self.expr, true, &mut out);
        String::from_utf8(out).unwrap_or_default()
    }
}
fn priority(e: &PathExpr) -> u8 {
    match e {
        PathExpr::Binary(op, ..) => op.priority(),
        PathExpr::Plus(_) | PathExpr::Minus(_) => 5,
        _ => 6,
    }
}
fn side(e: &PathExpr, of: u8, out: &mut Vec<u8>) {
    write(e, priority(e) <= of, out);
}
fn write(e: &PathExpr, brackets: bool, out: &mut Vec<u8>) {
    let put = |out: &mut Vec<u8>, s: &str| out.extend_from_slice(s.as_bytes());
    match e {
        PathExpr::Null => put(out, "null"),
        PathExpr::Bool(b) => put(out, if *b { "true" } else { "false" }),
        PathExpr::Number(n) => put(out, &n.to_string()),
        PathExpr::String(s) => escape(s, out),
        PathExpr::Variable(v) => {
            out.push(b'$');
            escape(v, out);
        }
        PathExpr::Root => out.push(b'$'),
        PathExpr::Current => out.push(b'@'),
        PathExpr::Last => put(out, "last"),
        PathExpr::Binary(op, l, r) => {
            if brackets {
                out.push(b'(');
            }
            side(l, op.priority(), out);
            put(out, &format!(" {} ", op.text()));
            side(r, op.priority(), out);
            if brackets {
                out.push(b')');
            }
        }
        PathExpr::Plus(inner) | PathExpr::Minus(inner) => {
            if brackets {
                out.push(b'(');
            }
            out.push(if matches!(e, PathExpr::Plus(_)) { b'+' } else { b'-' });
            side(inner, 5, out);
            if brackets {
                out.push(b')');
            }
        }
        PathExpr::Not(inner) => {
            put(out, "!(");
            write(inner, false, out);
            out.push(b')');
        }
        PathExpr::IsUnknown(inner) => {
            out.push(b'(');
            write(inner, false, out);
            put(out, ") is unknown");
        }
        PathExpr::Exists(inner) => {
            put(out, "exists (");
            write(inner, false, out);
            out.push(b')');
        }
        PathExpr::LikeRegex(left, pattern, flags) => {
            if brackets {
                out.push(b'(');
            }
            side(left, 2, out);
            put(out, " like_regex ");
            escape(pattern, out);
            if !flags.is_empty() {
                put(out, &format!(" flag \"{flags}\""));
            }
            if brackets {
                out.push(b')');
            }
        }
        PathExpr::Chain(base, steps) => {
            if matches!(**base, PathExpr::Number(_)) {
                out.push(b'(');
                write(base, false, out);
                out.push(b')');
            } else {
                write(base, true, out);
            }
            steps.iter().for_each(|s| write_step(s, out));
        }
    }
}
fn write_step(s: &PathAccessor, out: &mut Vec<u8>) {
    let put = |out: &mut Vec<u8>, s: &str| out.extend_from_slice(s.as_bytes());
    match s {
        PathAccessor::Key(k) => {
            out.push(b'.');
            escape(k, out);
        }
        PathAccessor::AnyKey => put(out, ".*"),
        PathAccessor::AnyArray => put(out, "[*]"),
        PathAccessor::Index(list) => {
            out.push(b'[');
            for (i, (first, last)) in list.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write(first, false, out);
                if let Some(last) = last {
                    put(out, " to ");
                    write(last, false, out);
                }
            }
            out.push(b']');
        }
        PathAccessor::Any(first, last) => {
            let shown = |l: &Option<u32>| l.map_or("last".to_string(), |n| n.to_string());
            put(
                out,
                &match (first, last) {
                    (Some(0), None) => ".**".to_string(),
                    (f, l) if f == l => format!(".**{{{}}}", shown(f)),
                    (f, l) => format!(".**{{{} to {}}}", shown(f), shown(l)),
                },
            );
        }
        PathAccessor::Filter(e) => {
            put(out, "?(");
            write(e, false, out);
            out.push(b')');
        }
        PathAccessor::Method(name, args) => {
            put(out, &format!(".{name}("));
            for (i, a) in args.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write(a, false, out);
            }
            out.push(b')');
        }
    }
}
