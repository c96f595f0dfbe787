//! LIKE, SIMILAR TO and regular expressions.
//!
//! Regular expressions run on fancy-regex. The gap to PostgreSQL's engine: alternatives are taken leftmost-first
//! where PostgreSQL takes the longest match.

use super::{get, string};
use crate::{Datum, EvalContext, pieces};
use fancy_regex::Regex;
use kilndb_base::work::{self, SmallSteps};
use kilndb_base::{Error, Result, sqlstate};
use std::cell::RefCell;
use std::rc::Rc;

fn parameter(message: impl Into<String>) -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}

// ---- LIKE ----

/// Matches with `%`, `_` and backslash escapes. Works on bytes; `step` gives a character's width.
fn like(s: &[u8], p: &[u8], utf8: bool) -> Result<bool> {
    let (mut si, mut pi) = (0, 0);
    let mut steps = SmallSteps::default();
    // Where to go on after a mismatch behind the last `%`.
    let mut retry: Option<(usize, usize)> = None;
    let step = |i: usize| -> usize {
        if !utf8 {
            return 1;
        }
        match s.get(i) {
            Some(0xf0..) => 4,
            Some(0xe0..) => 3,
            Some(0xc0..) => 2,
            _ => 1,
        }
    };
    loop {
        steps.step(2)?;
        match p.get(pi) {
            Some(b'%') => {
                pi += 1;
                if pi == p.len() {
                    return Ok(true);
                }
                retry = Some((si, pi));
                continue;
            }
            Some(b'_') if si < s.len() => {
                si += step(si);
                pi += 1;
                continue;
            }
            Some(&c) if c != b'_' => {
                let (want, width) = if c == b'\\' {
                    match p.get(pi + 1) {
                        Some(c) => (*c, 2),
                        None => {
                            return Err(Error::new(
                                sqlstate::INVALID_ESCAPE_SEQUENCE,
                                "LIKE pattern must not end with escape character",
                            ));
                        }
                    }
                } else {
                    (c, 1)
                };
                if s.get(si) == Some(&want) {
                    si += 1;
                    pi += width;
                    continue;
                }
            }
            None if si == s.len() => return Ok(true),
            _ => {}
        }
        match retry {
            Some((at, back)) if at < s.len() => {
                si = at + step(at);
                pi = back;
                retry = Some((si, back));
            }
            _ => return Ok(false),
        }
    }
}
fn ilike(s: &str, p: &str) -> Result<bool> {
    like(string::map_case(s, false)?.as_bytes(), string::map_case(p, false)?.as_bytes(), true)
}
/// LIKE's pattern with another escape character, in bytes, each of which is a character.
fn like_escape_bytes(p: &[u8], e: &[u8]) -> Result<Vec<u8>> {
    let as_text = |bytes: &[u8]| -> Result<String> {
        let mut text = String::with_capacity(bytes.len());
        for piece in pieces::of_bytes(bytes, 1) {
            text.extend(piece?.iter().map(|b| char::from(*b)));
        }
        Ok(text)
    };
    // Two are too many already.
    let escaped = like_escape_text(&as_text(p)?, &as_text(&e[..e.len().min(2)])?)?;
    let mut bytes = Vec::with_capacity(escaped.len());
    for piece in pieces::of_text(&escaped, 1) {
        bytes.extend(piece?.chars().map(|c| c as u8));
    }
    Ok(bytes)
}
/// Rewrites a pattern with another escape character to one with backslashes.
fn like_escape_text(p: &str, e: &str) -> Result<String> {
    let mut chars = e.chars();
    let (first, more) = (chars.next(), chars.next());
    if more.is_some() {
        return Err(Error::new(sqlstate::INVALID_ESCAPE_SEQUENCE, "invalid escape string")
            .with_hint("Escape string must be empty or one character."));
    }
    let Some(first) = first else { return Ok(p.replace('\\', "\\\\")) };
    if first == '\\' {
        return Ok(p.to_string());
    }
    let mut out = String::new();
    let mut after = false;
    for c in p.chars() {
        work::step(5)?;
        if c == first && !after {
            out.push('\\');
            after = true;
        } else if c == '\\' {
            out.push('\\');
            if !after {
                out.push('\\');
            }
            after = false;
        } else {
            out.push(c);
            after = false;
        }
    }
    Ok(out)
}
/// SIMILAR TO's pattern as a regular expression.
fn similar(p: &str, e: Option<&str>) -> Result<String> {
    let escape = match e {
        None => Some('\\'),
        Some("") => None,
        Some(e) => {
            let mut i = e.chars();
            let first = i.next();
            if i.next().is_some() {
                return Err(Error::new(sqlstate::INVALID_ESCAPE_SEQUENCE, "invalid escape string")
                    .with_hint("Escape string must be empty or one character."));
            }
            first
        }
    };
    let mut out = String::from("^(?:");
    let mut in_class = false;
    let mut class_start = 0;
    let mut separators = 0;
    let mut chars = p.chars().peekable();
    while let Some(c) = chars.next() {
        work::step(5)?;
        if Some(c) == escape {
            match chars.next() {
                Some('"') if !in_class => {
                    match separators {
                        0 => out.push_str("){1,1}?("),
                        1 => out.push_str("){1,1}(?:"),
                        _ => {
                            return Err(Error::new(
                                sqlstate::INVALID_ESCAPE_SEQUENCE,
                                "SQL regular expression may not contain more than two escape-double-quote separators",
                            ));
                        }
                    }
                    separators += 1;
                }
                Some(c) => {
                    out.push('\\');
                    out.push(c);
                }
                None => {}
            }
        } else if in_class {
            if c == '\\' {
                out.push('\\');
            }
            out.push(c);
            if c == ']' && out.len() > class_start + 1 {
                in_class = false;
            }
        } else {
            match c {
                '[' => {
                    in_class = true;
                    out.push('[');
                    if chars.peek() == Some(&'^') {
                        chars.next();
                        out.push('^');
                    }
                    class_start = out.len();
                }
                '%' => out.push_str(".*"),
                '_' => out.push('.'),
                '(' => out.push_str("(?:"),
                '\\' | '.' | '^' | '$' => {
                    out.push('\\');
                    out.push(c);
                }
                c => out.push(c),
            }
        }
    }
    out.push_str(")$");
    Ok(out)
}

// ---- translation to fancy-regex ----

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Flags {
    icase: bool,
    literal: bool,
    expanded: bool,
    /// `.` and negated classes do not match a newline.
    dot_stops: bool,
    /// `^` and `$` match at line ends.
    lines: bool,
    global: bool,
}
fn flags(text: &str, global_ok: bool) -> Result<Flags> {
    let mut f = Flags::default();
    for c in text.chars() {
        match c {
            'g' if global_ok => f.global = true,
            'i' => f.icase = true,
            'c' => f.icase = false,
            'm' | 'n' => (f.dot_stops, f.lines) = (true, true),
            'p' => (f.dot_stops, f.lines) = (true, false),
            's' => (f.dot_stops, f.lines) = (false, false),
            'w' => (f.dot_stops, f.lines) = (false, true),
            'x' => f.expanded = true,
            't' => f.expanded = false,
            'q' => f.literal = true,
            'b' | 'e' => {}
            c => return Err(parameter(format!("invalid regular expression option: \"{c}\""))),
        }
    }
    Ok(f)
}
fn bad(reason: &str) -> Error {
    Error::new(sqlstate::INVALID_REGULAR_EXPRESSION, format!("invalid regular expression: {reason}"))
}
fn translate(pattern: &str, mut f: Flags) -> Result<(String, Flags)> {
    let mut p = pattern;
    if let Some(rest) = p.strip_prefix("***=") {
        f.literal = true;
        p = rest;
    } else if let Some(rest) = p.strip_prefix("***:") {
        p = rest;
    }
    if f.literal {
        return Ok((regex_escape(p), f));
    }
    if let Some(rest) = p.strip_prefix("(?")
        && let Some(end) = rest.find(')')
        && end > 0
        && rest[..end].bytes().all(|b| b.is_ascii_lowercase())
    {
        let mut g = flags(&rest[..end], false)?;
        g.icase |= f.icase;
        g.global = f.global;
        f = g;
        p = &rest[end + 1..];
    }
    let mut out = String::new();
    let chars: Vec<char> = p.chars().collect();
    let mut i = 0;
    let mut depth = 0;
    // Whether something stands before that a quantifier can follow.
    let mut operand = false;
    while i < chars.len() {
        let c = chars[i];
        i += 1;
        match c {
            '\\' => {
                let Some(&e) = chars.get(i) else { return Err(bad("invalid escape \\ sequence")) };
                i += 1;
                operand = true;
                match e {
                    'm' => out.push_str(r"\b(?=\w)"),
                    'M' => out.push_str(r"\b(?<=\w)"),
                    'y' => out.push_str(r"\b"),
                    'Y' => out.push_str(r"\B"),
                    'A' => out.push_str(r"\A"),
                    'Z' => out.push_str(r"\z"),
                    'B' => out.push_str(r"\\"),
                    'e' => out.push_str(r"\x1b"),
                    'u' => hex(&chars, &mut i, 4, &mut out)?,
                    'U' => hex(&chars, &mut i, 8, &mut out)?,
                    'x' => {
                        let n = chars[i..].iter().take_while(|c| c.is_ascii_hexdigit()).count();
                        hex(&chars, &mut i, n.min(8), &mut out)?;
                    }
                    'd' | 'D' | 's' | 'S' | 'w' | 'W' | 'n' | 't' | 'r' | 'f' | 'v' | 'a' => {
                        out.push('\\');
                        out.push(e);
                    }
                    '1'..='9' => {
                        out.push_str(&format!("(?:\\{e})"));
                    }
                    '0' => out.push_str(r"\x00"),
                    e if e.is_ascii_alphanumeric() => return Err(bad("invalid escape \\ sequence")),
                    e => out.push_str(&regex_escape(&e.to_string())),
                }
            }
            '[' => {
                class(&chars, &mut i, &mut out, f)?;
                operand = true;
            }
            '(' => {
                depth += 1;
                out.push('(');
                operand = false;
                if chars.get(i) == Some(&'?') {
                    out.push('?');
                    i += 1;
                    while let Some(c) = chars.get(i).filter(|c| matches!(c, ':' | '=' | '!' | '<')) {
                        out.push(*c);
                        i += 1;
                    }
                }
            }
            ')' => {
                depth -= 1;
                if depth < 0 {
                    return Err(bad("parentheses () not balanced"));
                }
                out.push(')');
                operand = true;
            }
            '*' | '+' | '?' => {
                if !operand {
                    return Err(bad("quantifier operand invalid"));
                }
                out.push(c);
                if chars.get(i) == Some(&'?') {
                    out.push('?');
                    i += 1;
                }
                operand = false;
                if matches!(chars.get(i), Some('*' | '+' | '?')) {
                    return Err(bad("quantifier operand invalid"));
                }
            }
            '{' if chars.get(i).is_some_and(char::is_ascii_digit) => {
                if !operand {
                    return Err(bad("quantifier operand invalid"));
                }
                let Some(len) = chars[i..].iter().position(|c| *c == '}') else {
                    return Err(bad("braces {} not balanced"));
                };
                let body: String = chars[i..i + len].iter().collect();
                i += len + 1;
                let nums: Vec<Option<u32>> = body.split(',').map(|n| n.parse().ok()).collect();
                match nums.as_slice() {
                    [Some(n)] if *n <= 255 => {}
                    [Some(n), None] if *n <= 255 && body.ends_with(',') => {}
                    [Some(a), Some(b)] if a <= b && *b <= 255 => {}
                    _ => return Err(bad("invalid repetition count(s)")),
                }
                out.push_str(&format!("{{{body}}}"));
                if chars.get(i) == Some(&'?') {
                    out.push('?');
                    i += 1;
                }
                operand = false;
            }
            '{' | '}' => {
                out.push('\\');
                out.push(c);
                operand = true;
            }
            '^' => {
                out.push_str(if f.lines { "(?m:^)" } else { "\\A" });
                operand = false;
            }
            '$' => {
                out.push_str(if f.lines { "(?m:$)" } else { "\\z" });
                operand = false;
            }
            '.' => {
                out.push_str(if f.dot_stops { "[^\\n]" } else { "(?s:.)" });
                operand = true;
            }
            '|' => {
                out.push('|');
                operand = false;
            }
            c if f.expanded && c.is_whitespace() => {}
            '#' if f.expanded => {
                while i < chars.len() && chars[i] != '\n' {
                    i += 1;
                }
            }
            c => {
                out.push_str(&regex_escape(&c.to_string()));
                operand = true;
            }
        }
    }
    if depth != 0 {
        return Err(bad("parentheses () not balanced"));
    }
    Ok((out, f))
}
fn hex(chars: &[char], i: &mut usize, n: usize, out: &mut String) -> Result<()> {
    let text: String = chars.get(*i..*i + n).ok_or_else(|| bad("invalid escape \\ sequence"))?.iter().collect();
    let c = u32::from_str_radix(&text, 16).ok().and_then(char::from_u32);
    *i += n;
    out.push_str(&regex_escape(&c.ok_or_else(|| bad("invalid escape \\ sequence"))?.to_string()));
    Ok(())
}
fn regex_escape(s: &str) -> String {
    let mut out = String::new();
    for c in s.chars() {
        if matches!(
            c,
            '\\' | '.' | '+' | '*' | '?' | '(' | ')' | '|' | '[' | ']' | '{' | '}' | '^' | '$' | '#' | '&' | '-' | '~'
        ) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
/// A bracket expression; `i` stands behind the `[`.
fn class(chars: &[char], i: &mut usize, out: &mut String, f: Flags) -> Result<()> {
    let unbalanced = || bad("brackets [] not balanced");
    let rest: String = chars[*i..].iter().take(7).collect();
    if rest.starts_with("[:<:]]") {
        *i += 6;
        out.push_str(r"\b(?=\w)");
        return Ok(());
    }
    if rest.starts_with("[:>:]]") {
        *i += 6;
        out.push_str(r"\b(?<=\w)");
        return Ok(());
    }
    out.push('[');
    if chars.get(*i) == Some(&'^') {
        out.push('^');
        *i += 1;
        if f.dot_stops {
            out.push_str("\\n");
        }
    }
    let mut first = true;
    loop {
        let c = *chars.get(*i).ok_or_else(unbalanced)?;
        *i += 1;
        match c {
            ']' if !first => break,
            '[' if matches!(chars.get(*i), Some(':' | '.' | '=')) => {
                let kind = chars[*i];
                let end =
                    chars[*i + 1..].windows(2).position(|w| w[0] == kind && w[1] == ']').ok_or_else(unbalanced)?;
                let name: String = chars[*i + 1..*i + 1 + end].iter().collect();
                *i += end + 3;
                if kind == ':' {
                    const NAMES: [&str; 13] = [
                        "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
                        "space", "upper", "xdigit",
                    ];
                    match name.as_str() {
                        "alpha" => out.push_str(r"\p{Alphabetic}"),
                        "alnum" => out.push_str(r"\p{Alphabetic}\p{Nd}"),
                        "lower" => out.push_str(r"\p{Lowercase}"),
                        "upper" => out.push_str(r"\p{Uppercase}"),
                        "space" => out.push_str(r"\s"),
                        "word" => out.push_str(r"\w"),
                        n if NAMES.contains(&n) => out.push_str(&format!("[:{n}:]")),
                        _ => return Err(bad("invalid character class")),
                    }
                } else {
                    out.push_str(&regex_escape(&name));
                }
            }
            '\\' => {
                let e = *chars.get(*i).ok_or_else(unbalanced)?;
                *i += 1;
                if e.is_ascii_alphanumeric() {
                    out.push('\\');
                    out.push(e);
                } else {
                    out.push_str(&regex_escape(&e.to_string()));
                }
            }
            '-' if chars.get(*i) != Some(&']') && !first => out.push('-'),
            c => {
                if chars.get(*i) == Some(&'-')
                    && let Some(&hi) = chars.get(*i + 1).filter(|h| **h != ']' && **h != '[' && **h != '\\')
                    && hi < c
                {
                    return Err(bad("invalid character range"));
                }
                out.push_str(&regex_escape(&c.to_string()));
            }
        }
        first = false;
    }
    out.push(']');
    Ok(())
}

/// A pattern takes some hundred times its length of memory while it is compiled.
const PATTERN_MAX_BYTES: usize = 256 << 10;

kilndb_base::task_local! {
    /// Compiled patterns of this thread, newest last. Only a cache: results do not depend on it.
    static CACHE: RefCell<Vec<(String, Rc<Regex>)>> = const { RefCell::new(Vec::new()) };
}
/// A pattern as fancy-regex reads it.
pub(crate) fn translated(pattern: &str, icase: bool) -> Result<String> {
    with_flags(pattern, Flags { icase, ..Flags::default() })
}
fn with_flags(pattern: &str, f: Flags) -> Result<String> {
    let (mut text, f) = translate(pattern, f)?;
    if f.icase {
        text.insert_str(0, "(?i)");
    }
    Ok(text)
}
fn compile(pattern: &str, f: Flags) -> Result<Rc<Regex>> {
    if pattern.len() > PATTERN_MAX_BYTES {
        return Err(bad("regular expression is too complex"));
    }
    let text = with_flags(pattern, f)?;
    CACHE.with(|cache| {
        let mut cache = cache.borrow_mut();
        if let Some(at) = cache.iter().position(|e| e.0 == text) {
            return Ok(cache[at].1.clone());
        }
        let re = Rc::new(Regex::new(&text).map_err(|e| bad(&e.to_string()))?);
        if cache.len() >= 32 {
            cache.remove(0);
        }
        cache.push((text, re.clone()));
        Ok(re)
    })
}
fn run(e: fancy_regex::Error) -> Error {
    Error::new(sqlstate::INVALID_REGULAR_EXPRESSION, format!("regular expression failed: {e}"))
}
fn matches(s: &str, p: &str, icase: bool) -> Result<bool> {
    is_match(&*compile(p, Flags { icase, ..Flags::default() })?, s)
}
fn is_match(re: &Regex, s: &str) -> Result<bool> {
    // One search cannot be divided.
    if s.len() > pieces::LONG { work::apart(|| re.is_match(s))? } else { re.is_match(s) }.map_err(run)
}
/// Matches from character `start` (1-based): per match, the spans of the whole and of the groups.
fn find_all(s: &str, re: &Regex, start: i32, limit: usize) -> Result<Vec<Vec<Option<(usize, usize)>>>> {
    let from = pieces::char_offset(s, start as usize - 1)?;
    let mut out = Vec::new();
    if start > string::length(s)? + 1 {
        return Ok(out);
    }
    let mut at = from;
    while out.len() < limit && at <= s.len() {
        let Some(c) = re.captures_from_pos(s, at).map_err(run)? else { break };
        let spans: Vec<_> = (0..c.len()).map(|i| c.get(i).map(|m| (m.start(), m.end()))).collect();
        let Some(Some((b, e))) = spans.first().copied() else { break };
        // An empty match right behind the previous one is skipped over.
        let next = if e == b { e + s[e..].chars().next().map_or(1, char::len_utf8) } else { e };
        work::step(200 + (next - at))?;
        at = next;
        out.push(spans);
    }
    Ok(out)
}
/// Bytes that [`replacement`] will append, at most.
fn replacement_len(with: &str, spans: &[Option<(usize, usize)>]) -> usize {
    if !with.contains('\\') {
        return with.len();
    }
    let group = |c: char| match c {
        '&' => Some(0),
        '1'..='9' => Some(c as usize - '0' as usize),
        _ => None,
    };
    let mut total = with.len();
    for (at, _) in with.match_indices('\\') {
        let number = with[at + 1..].chars().next().and_then(group);
        if let Some((b, e)) = number.and_then(|n| spans.get(n).copied().flatten()) {
            total = total.saturating_add(e - b);
        }
    }
    total
}
fn replacement(s: &str, with: &str, spans: &[Option<(usize, usize)>], out: &mut String) -> Result<()> {
    let mut chars = with.chars();
    while let Some(c) = chars.next() {
        work::step(5)?;
        if c != '\\' {
            out.push(c);
            continue;
        }
        let group = match chars.next() {
            Some('&') => 0,
            Some(d @ '1'..='9') => d as usize - '0' as usize,
            Some('\\') => {
                out.push('\\');
                continue;
            }
            Some(c) => {
                out.push('\\');
                out.push(c);
                continue;
            }
            None => {
                out.push('\\');
                continue;
            }
        };
        if let Some(Some((b, e))) = spans.get(group) {
            pieces::append_text(out, &s[*b..*e])?;
        }
    }
    Ok(())
}
/// Replaces the `n`-th match, or all if `n` is 0.
fn replace(s: &str, p: &str, with: &str, start: i32, n: i32, f: Flags) -> Result<String> {
    positive(start, "start")?;
    if n < 0 {
        return Err(value("n", n));
    }
    let re = compile(p, f)?;
    let found = find_all(s, &re, start, if n == 0 { usize::MAX } else { n as usize })?;
    let mut out = String::new();
    let mut at = 0;
    for (i, spans) in found.iter().enumerate() {
        if n != 0 && i + 1 != n as usize {
            continue;
        }
        if let Some(Some((b, e))) = spans.first() {
            super::limits::room(out.len() + (b - at), replacement_len(with, spans))?;
            pieces::append_text(&mut out, &s[at..*b])?;
            replacement(s, with, spans, &mut out)?;
            at = *e;
        }
    }
    pieces::append_text(&mut out, &s[at..])?;
    Ok(out)
}
fn value(name: &str, v: i32) -> Error {
    parameter(format!("invalid value for parameter \"{name}\": {v}"))
}
fn positive(v: i32, name: &str) -> Result<()> {
    if v <= 0 { Err(value(name, v)) } else { Ok(()) }
}
fn no_global(text: &str, function: &str) -> Result<Flags> {
    let f = flags(text, true)?;
    if f.global {
        return Err(parameter(format!("{function}() does not support the \"global\" option")));
    }
    Ok(f)
}
/// regexp_match's result: the groups, or the whole match where there are none.
fn groups(s: &str, spans: &[Option<(usize, usize)>]) -> Datum {
    let part = |x: &Option<(usize, usize)>| x.map_or(Datum::Null, |(b, e)| Datum::text(&s[b..e]));
    let elements =
        if spans.len() > 1 { spans[1..].iter().map(part).collect() } else { spans.iter().map(part).collect() };
    string::text_array(elements)
}
fn first_match(s: &str, p: &str, f: Flags) -> Result<Option<Datum>> {
    let re = compile(p, f)?;
    Ok(find_all(s, &re, 1, 1)?.first().map(|m| groups(s, m)))
}
/// All of regexp_matches' rows, for the set-returning caller.
pub(crate) fn regexp_matches(s: &str, p: &str, flag_text: &str) -> Result<Vec<Datum>> {
    let f = flags(flag_text, true)?;
    let re = compile(p, f)?;
    Ok(find_all(s, &re, 1, if f.global { usize::MAX } else { 1 })?.iter().map(|m| groups(s, m)).collect())
}
/// The parts between matches, as regexp_split_to_table gives them.
pub(crate) fn regexp_split(s: &str, p: &str, flag_text: &str, function: &str) -> Result<Vec<String>> {
    let re = compile(p, no_global(flag_text, function)?)?;
    let mut out = Vec::new();
    let mut at = 0;
    for m in find_all(s, &re, 1, usize::MAX)? {
        if let Some(Some((b, e))) = m.first() {
            // An empty match at the start or behind the previous match splits nothing.
            if b == e && (*b == s.len() || *b == at && *e == at) {
                continue;
            }
            work::step(40 + (b - at))?;
            out.push(s[at..*b].to_string());
            at = *e;
        }
    }
    out.push(s[at..].to_string());
    Ok(out)
}
fn split_array(s: &str, p: &str, f: &str) -> Result<Datum> {
    Ok(string::text_array(regexp_split(s, p, f, "regexp_split_to_array")?.into_iter().map(Datum::text).collect()))
}
fn count(s: &str, p: &str, start: i32, f: &str) -> Result<i32> {
    positive(start, "start")?;
    let f = no_global(f, "regexp_count")?;
    Ok(find_all(s, &*compile(p, f)?, start, usize::MAX)?.len() as i32)
}
fn nth(s: &str, p: &str, start: i32, n: i32, f: Flags, sub: i32) -> Result<Option<(usize, usize)>> {
    positive(start, "start")?;
    positive(n, "n")?;
    if sub < 0 {
        return Err(value("subexpr", sub));
    }
    let found = find_all(s, &*compile(p, f)?, start, n as usize)?;
    Ok(found.get(n as usize - 1).and_then(|m| m.get(sub as usize).copied().flatten()))
}
fn instr(args: &[Datum]) -> Result<i32> {
    let int = |i: usize, d: i32| args.get(i).map_or(Ok(d), get::int4);
    let (s, p) = (get::text(get::arg(args, 0)?)?, get::text(get::arg(args, 1)?)?);
    let end = int(4, 0)?;
    positive(int(2, 1)?, "start")?;
    positive(int(3, 1)?, "n")?;
    if end != 0 && end != 1 {
        return Err(value("endoption", end));
    }
    let f = no_global(args.get(5).map_or(Ok(""), get::text)?, "regexp_instr")?;
    let m = nth(s, p, int(2, 1)?, int(3, 1)?, f, int(6, 0)?)?;
    m.map_or(Ok(0), |(b, e)| Ok(string::length(&s[..if end == 1 { e } else { b }])? + 1))
}
fn substr(args: &[Datum]) -> Result<Option<String>> {
    let int = |i: usize, d: i32| args.get(i).map_or(Ok(d), get::int4);
    let (s, p) = (get::text(get::arg(args, 0)?)?, get::text(get::arg(args, 1)?)?);
    positive(int(2, 1)?, "start")?;
    positive(int(3, 1)?, "n")?;
    let f = no_global(args.get(4).map_or(Ok(""), get::text)?, "regexp_substr")?;
    let m = nth(s, p, int(2, 1)?, int(3, 1)?, f, int(5, 0)?)?;
    Ok(m.map(|(b, e)| s[b..e].to_string()))
}
/// substring(s from pattern): the first group, or the whole match.
fn substring(s: &str, p: &str) -> Result<Option<String>> {
    let re = compile(p, Flags::default())?;
    let found = find_all(s, &re, 1, 1)?;
    let span = found.first().and_then(|m| if m.len() > 1 { m[1] } else { m[0] });
    Ok(span.map(|(b, e)| s[b..e].to_string()))
}
fn replace_options(opt: &str) -> Result<Flags> {
    if let Some(d) = opt.chars().next().filter(char::is_ascii_digit) {
        return Err(parameter(format!("invalid regular expression option: \"{d}\""))
            .with_hint("If you meant to use regexp_replace() with a start parameter, cast the fourth argument to integer explicitly."));
    }
    flags(opt, true)
}

scalars! {
    fn textlike(_c; s: text, p: text) = like(s.as_bytes(), p.as_bytes(), true)?;
    fn textnlike(_c; s: text, p: text) = !like(s.as_bytes(), p.as_bytes(), true)?;
    fn namelike(_c; s: text, p: text) = like(s.as_bytes(), p.as_bytes(), true)?;
    fn namenlike(_c; s: text, p: text) = !like(s.as_bytes(), p.as_bytes(), true)?;
    fn bytealike(_c; s: bytea, p: bytea) = like(s, p, false)?;
    fn byteanlike(_c; s: bytea, p: bytea) = !like(s, p, false)?;
    fn texticlike(_c; s: text, p: text) = ilike(s, p)?;
    fn texticnlike(_c; s: text, p: text) = !ilike(s, p)?;
    fn nameiclike(_c; s: text, p: text) = ilike(s, p)?;
    fn nameicnlike(_c; s: text, p: text) = !ilike(s, p)?;
    fn like_escape(_c; p: text, e: text) = like_escape_text(p, e)?;
    fn like_escape_bytea(_c; p: bytea, e: bytea) = like_escape_bytes(p, e)?;
    fn similar_to_escape_1(_c; p: text) = similar(p, None)?;
    fn similar_to_escape_2(_c; p: text, e: text) = similar(p, Some(e))?;
    fn textregexeq(_c; s: text, p: text) = matches(s, p, false)?;
    fn textregexne(_c; s: text, p: text) = !matches(s, p, false)?;
    fn texticregexeq(_c; s: text, p: text) = matches(s, p, true)?;
    fn texticregexne(_c; s: text, p: text) = !matches(s, p, true)?;
    fn nameregexeq(_c; s: text, p: text) = matches(s, p, false)?;
    fn nameregexne(_c; s: text, p: text) = !matches(s, p, false)?;
    fn nameicregexeq(_c; s: text, p: text) = matches(s, p, true)?;
    fn nameicregexne(_c; s: text, p: text) = !matches(s, p, true)?;
    fn textregexsubstr(_c; s: text, p: text) = substring(s, p)?;
    fn p2074_substring(_c; s: text, p: text, e: text) = substring(s, &similar(p, Some(e))?)?;
    fn textregexreplace_noopt(_c; s: text, p: text, with: text) = replace(s, p, with, 1, 1, Flags::default())?;
    fn textregexreplace(_c; s: text, p: text, with: text, opt: text) = { let f = replace_options(opt)?; replace(s, p, with, 1, if f.global { 0 } else { 1 }, f)? };
    fn textregexreplace_extended(_c; s: text, p: text, with: text, start: int4, n: int4, opt: text) = replace(s, p, with, start, n, flags(opt, true)?)?;
    fn textregexreplace_extended_no_flags(_c; s: text, p: text, with: text, start: int4, n: int4) = replace(s, p, with, start, n, Flags::default())?;
    fn textregexreplace_extended_no_n(_c; s: text, p: text, with: text, start: int4) = replace(s, p, with, start, 1, Flags::default())?;
    fn regexp_like(_c; s: text, p: text, f: text) = is_match(&*compile(p, no_global(f, "regexp_like")?)?, s)?;
    fn regexp_like_no_flags(_c; s: text, p: text) = matches(s, p, false)?;
    fn regexp_count(_c; s: text, p: text, start: int4, f: text) = count(s, p, start, f)?;
    fn regexp_count_no_flags(_c; s: text, p: text, start: int4) = count(s, p, start, "")?;
    fn regexp_count_no_start(_c; s: text, p: text) = count(s, p, 1, "")?;
    fn regexp_match(_c; s: text, p: text, f: text) = { let f = flags(f, true)?; if f.global { return Err(parameter("regexp_match() does not support the \"global\" option").with_hint("Use the regexp_matches function instead.")); } first_match(s, p, f)? };
    fn regexp_match_no_flags(_c; s: text, p: text) = first_match(s, p, Flags::default())?;
    fn regexp_split_to_array(_c; s: text, p: text, f: text) = split_array(s, p, f)?;
    fn regexp_split_to_array_no_flags(_c; s: text, p: text) = split_array(s, p, "")?;
}
pub(crate) fn similar_escape(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    match (args.first(), args.get(1)) {
        (Some(Datum::Text(p)), Some(Datum::Text(e))) => similar(p, Some(e)).map(Datum::text),
        (Some(Datum::Text(p)), _) => similar(p, None).map(Datum::text),
        _ => Ok(Datum::Null),
    }
}
macro_rules! all_arities {
    ($($name:ident => $with:ident;)*) => { $(
        pub fn $name(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
            use super::IntoDatum;
            $with(args)?.into_datum()
        }
    )* };
}
all_arities! { any_regexp_instr => instr; any_regexp_substr => substr; }
