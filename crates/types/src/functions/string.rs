//! Text functions.

use super::get;
use super::limits;
use crate::io::{natural_type, output_string};
use crate::{Array, Datum, EvalContext, io, pieces};
use kilndb_base::work::SmallSteps;
use kilndb_base::{Error, Result, shared, sqlstate, work};
use std::borrow::Cow;
use std::sync::Arc;

fn error(state: kilndb_base::SqlState, message: impl Into<String>) -> Error {
    Error::new(state, message)
}
fn parameter(message: impl Into<String>) -> Error {
    error(sqlstate::INVALID_PARAMETER_VALUE, message)
}
pub(super) fn length(s: &str) -> Result<i32> {
    if s.is_ascii() { Ok(s.len() as i32) } else { pieces::count_chars(s).map(|n| n as i32) }
}
/// Simple case mapping, one character to one.
pub(crate) fn map_case(s: &str, upper: bool) -> Result<String> {
    pieces::map_text(s, 4, |piece| match (piece.is_ascii(), upper) {
        (true, true) => piece.to_ascii_uppercase(),
        (true, false) => piece.to_ascii_lowercase(),
        (false, _) => piece.chars().map(|c| one(c, upper)).collect(),
    })
}
pub(crate) fn one(c: char, upper: bool) -> char {
    let mut chars: (Option<char>, Option<char>) = (None, None);
    if upper {
        let mut i = c.to_uppercase();
        chars = (i.next(), i.next());
    } else {
        let mut i = c.to_lowercase();
        chars.0 = i.next();
        chars.1 = i.next();
    }
    match chars {
        (Some(r), None) => r,
        _ => alone(c, upper),
    }
}
/// The one character that stands for a character in the other case where several would say it better.
fn alone(c: char, upper: bool) -> char {
    let by = |distance: u32| char::from_u32(c as u32 + distance).unwrap_or(c);
    match c {
        'İ' if !upper => 'i',
        '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' if upper => by(8),
        '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' if upper => by(9),
        _ => c,
    }
}
fn initcap_of(s: &str) -> Result<String> {
    let mut word = false;
    let mut mapped = |c: char| {
        let r = one(c, !word);
        word = c.is_alphanumeric();
        r
    };
    pieces::map_text(s, 4, |piece| piece.chars().map(&mut mapped).collect::<String>())
}
/// substring(s from start for len), 1-based, characters.
pub(crate) fn substr(s: &str, start: i32, len: Option<i32>) -> Result<&str> {
    let start = i64::from(start);
    let end = match len {
        None => i64::MAX,
        Some(l) if l < 0 => return Err(error(sqlstate::SUBSTRING_ERROR, "negative substring length not allowed")),
        Some(l) => start + i64::from(l),
    };
    let from = (start.max(1) - 1) as usize;
    if end <= 1 || end <= start {
        return Ok("");
    }
    let a = pieces::char_offset(s, from)?;
    let rest = &s[a..];
    let count = end - start.max(1);
    let b = if len.is_none() {
        rest.len()
    } else {
        pieces::char_offset(rest, usize::try_from(count).unwrap_or(usize::MAX))?
    };
    Ok(&rest[..b])
}
pub(crate) fn trim_set<'a>(s: &'a str, set: &str, left: bool, right: bool) -> Result<&'a str> {
    let set: kilndb_base::hash::HashSet<char> = work::steps(set.chars(), 20).collect::<Result<_>>()?;
    let mut r = s;
    while let Some(c) = r.chars().next().filter(|c| left && set.contains(c)) {
        work::step(20)?;
        r = &r[c.len_utf8()..];
    }
    while let Some(c) = r.chars().next_back().filter(|c| right && set.contains(c)) {
        work::step(20)?;
        r = &r[..r.len() - c.len_utf8()];
    }
    Ok(r)
}
fn trim_blanks(s: &str, left: bool, right: bool) -> Result<&str> {
    let mut rest = s;
    if left {
        rest = &rest[pieces::count_leading(rest.as_bytes(), |b| b == b' ')?..];
    }
    if right {
        let mut steps = SmallSteps::default();
        let mut length = rest.len();
        while length > 0 && rest.as_bytes()[length - 1] == b' ' {
            steps.step(1)?;
            length -= 1;
        }
        rest = &rest[..length];
    }
    Ok(rest)
}
const MAX_LEN: i64 = 0x3fff_ffff;
fn too_large() -> Error {
    error(sqlstate::PROGRAM_LIMIT_EXCEEDED, "requested length too large")
}
fn pad(s: &str, want: i32, fill: &str, left: bool) -> Result<String> {
    let want = want.max(0) as usize;
    if want as i64 > MAX_LEN / 4 {
        return Err(too_large());
    }
    let have = length(s)? as usize;
    if have >= want || fill.is_empty() {
        return Ok(s[..pieces::char_offset(s, want)?].to_string());
    }
    let width = pieces::count_chars(fill)?;
    let mut filling = pieces::repeat(fill, (want - have) / width)?;
    filling.push_str(&fill[..pieces::char_offset(fill, (want - have) % width)?]);
    if left { pieces::concat(&[&filling, s]) } else { pieces::concat(&[s, &filling]) }
}
fn repeat_of(s: &str, n: i32) -> Result<String> {
    let n = n.max(0) as usize;
    if s.len().saturating_mul(n) as i64 > MAX_LEN {
        return Err(too_large());
    }
    pieces::repeat(s, n)
}
fn reversed(s: &str) -> Result<String> {
    let mut out = String::with_capacity(s.len());
    let mut end = s.len();
    while end > 0 {
        let start = s.floor_char_boundary(end.saturating_sub(work::PIECE_BYTES));
        work::step(2 * (end - start))?;
        out.extend(s[start..end].chars().rev());
        end = start;
    }
    Ok(out)
}
/// 1-based character position, 0 if absent.
pub(super) fn position(s: &str, sub: &str) -> Result<i32> {
    pieces::find(s, sub)?.map_or(Ok(0), |i| Ok(length(&s[..i])? + 1))
}
pub(super) fn translate_of(s: &str, from: &str, to: &str) -> Result<String> {
    // The first of several places of a character counts.
    let mut map = kilndb_base::hash::HashMap::default();
    let mut to = to.chars();
    for c in from.chars() {
        work::step(40)?;
        let target = to.next();
        map.entry(c).or_insert(target);
    }
    let mapped = |c: char| map.get(&c).copied().unwrap_or(Some(c));
    pieces::map_text(s, 20, |piece| piece.chars().filter_map(mapped).collect::<String>())
}
pub(crate) fn take(s: &str, n: i32, left: bool) -> Result<&str> {
    let len = length(s)?;
    let n = if n < 0 { len.saturating_add(n).max(0) } else { n.min(len) };
    if left {
        Ok(&s[..pieces::char_offset(s, n as usize)?])
    } else {
        Ok(&s[pieces::char_offset(s, (len - n) as usize)?..])
    }
}
fn nth_part<'a>(parts: impl Iterator<Item = &'a str>, n: usize) -> Result<&'a str> {
    for (i, part) in parts.enumerate() {
        work::step(20 + part.len())?;
        if i == n {
            return Ok(part);
        }
    }
    Ok("")
}
fn split_at(s: &str, sep: &str, n: i32) -> Result<String> {
    if n == 0 {
        return Err(parameter("field position must not be zero"));
    }
    if s.is_empty() {
        return Ok(String::new());
    }
    if sep.is_empty() {
        return Ok(if n == 1 || n == -1 { s.to_string() } else { String::new() });
    }
    let wanted = n.unsigned_abs() as usize - 1;
    let part = match (sep.len() > pieces::LONG, n > 0) {
        (false, true) => nth_part(s.split(sep), wanted)?,
        (false, false) => nth_part(s.rsplit(sep), wanted)?,
        // Preparing the search takes long already, and there are few parts.
        (true, true) => work::apart(|| s.split(sep).nth(wanted))?.unwrap_or_default(),
        (true, false) => work::apart(|| s.rsplit(sep).nth(wanted))?.unwrap_or_default(),
    };
    pieces::concat(&[part])
}
fn chr_of(n: i32) -> Result<Arc<str>> {
    if n < 0 {
        return Err(parameter("character number must be positive"));
    }
    if n == 0 {
        return Err(error(sqlstate::PROGRAM_LIMIT_EXCEEDED, "null character not permitted"));
    }
    if n as u32 > 0x10_ffff {
        return Err(error(
            sqlstate::PROGRAM_LIMIT_EXCEEDED,
            format!("requested character too large for encoding: {n}"),
        ));
    }
    char::from_u32(n as u32).map(|c| Arc::from(&*c.encode_utf8(&mut [0; 4]))).ok_or_else(|| {
        error(sqlstate::PROGRAM_LIMIT_EXCEEDED, format!("requested character not valid for encoding: {n}"))
    })
}
fn overlay(s: &str, new: &str, start: i32, len: i32) -> Result<String> {
    if start <= 0 {
        return Err(error(sqlstate::SUBSTRING_ERROR, "negative substring length not allowed"));
    }
    let end =
        start.checked_add(len).ok_or_else(|| error(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range"))?;
    pieces::concat(&[substr(s, 1, Some(start - 1))?, new, substr(s, end, None)?])
}
/// True unless the word can stand unquoted.
fn needs_quotes(s: &str) -> bool {
    let plain = s.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && s.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    !plain || RESERVED.binary_search(&s).is_ok()
}
pub fn quote_identifier(s: &str) -> String {
    if needs_quotes(s) { format!("\"{}\"", s.replace('"', "\"\"")) } else { s.to_string() }
}
pub(crate) fn quote_literal_of(s: &str) -> Result<String> {
    let body = limits::replace_all(s, "'", "''")?;
    if s.contains('\\') {
        pieces::concat(&["E'", &limits::replace_all(&body, "\\", "\\\\")?, "'"])
    } else {
        pieces::concat(&["'", &body, "'"])
    }
}
/// Keywords that quote_ident quotes: all but the unreserved ones.
static RESERVED: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "authorization",
    "between",
    "bigint",
    "binary",
    "bit",
    "boolean",
    "both",
    "case",
    "cast",
    "char",
    "character",
    "check",
    "coalesce",
    "collate",
    "collation",
    "column",
    "concurrently",
    "constraint",
    "create",
    "cross",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "dec",
    "decimal",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "exists",
    "extract",
    "false",
    "fetch",
    "float",
    "for",
    "foreign",
    "freeze",
    "from",
    "full",
    "grant",
    "greatest",
    "group",
    "grouping",
    "having",
    "ilike",
    "in",
    "initially",
    "inner",
    "inout",
    "int",
    "integer",
    "intersect",
    "interval",
    "into",
    "is",
    "isnull",
    "join",
    "json",
    "json_array",
    "json_arrayagg",
    "json_exists",
    "json_object",
    "json_objectagg",
    "json_query",
    "json_scalar",
    "json_serialize",
    "json_table",
    "json_value",
    "lateral",
    "leading",
    "least",
    "left",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "merge_action",
    "national",
    "natural",
    "nchar",
    "none",
    "normalize",
    "not",
    "notnull",
    "null",
    "nullif",
    "numeric",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "out",
    "outer",
    "overlaps",
    "overlay",
    "placing",
    "position",
    "precision",
    "primary",
    "real",
    "references",
    "returning",
    "right",
    "row",
    "select",
    "session_user",
    "setof",
    "similar",
    "smallint",
    "some",
    "substring",
    "symmetric",
    "system_user",
    "table",
    "tablesample",
    "then",
    "time",
    "timestamp",
    "to",
    "trailing",
    "treat",
    "trim",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "values",
    "varchar",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
    "xmlattributes",
    "xmlconcat",
    "xmlelement",
    "xmlexists",
    "xmlforest",
    "xmlnamespaces",
    "xmlparse",
    "xmlpi",
    "xmlroot",
    "xmlserialize",
    "xmltable",
];

fn shown<'d>(d: &'d Datum, c: &EvalContext) -> Result<Cow<'d, str>> {
    match d {
        Datum::Text(text) => Ok(Cow::Borrowed(text)),
        _ => output_string(natural_type(d), d, c).map(Cow::Owned),
    }
}
/// The value as a cast to text gives it, which spells truth values out and gives every address the length of its mask.
fn as_text<'d>(d: &'d Datum, c: &EvalContext) -> Result<Cow<'d, str>> {
    match d {
        Datum::Bool(b) => Ok(Cow::Owned(b.to_string())),
        Datum::Inet(v) => Ok(Cow::Owned(format!("{}/{}", v.host(), v.bits))),
        d => shown(d, c),
    }
}
/// Arguments of a VARIADIC "any" function: spread out, or one array.
fn spread(args: &[Datum]) -> &[Datum] {
    match args {
        [Datum::Array(a)] => &a.elements,
        _ => args,
    }
}
pub(crate) fn md5_hex(b: &[u8]) -> Result<String> {
    use md5::Digest;
    let mut digest = md5::Md5::new();
    for piece in pieces::of_bytes(b, 2) {
        digest.update(piece?);
    }
    let mut out = Vec::new();
    io::bytea::encode_hex(&digest.finalize(), &mut out);
    Ok(String::from_utf8(out).unwrap_or_default())
}

scalars! {
    fn textlen(_c; s: text) = length(s)?;
    fn bpcharlen(_c; s: text) = length(crate::cast::without_padding(s))?;
    fn textoctetlen(_c; s: text) = s.len() as i32;
    fn bpcharoctetlen(_c; s: text) = s.len() as i32;
    fn p1811_bit_length(_c; s: text) = s.len() as i32 * 8;
    fn p1810_bit_length(_c; s: bytea) = s.len() as i32 * 8;
    fn lower(_c; s: text) = map_case(s, false)?;
    fn upper(_c; s: text) = map_case(s, true)?;
    fn casefold(_c; s: text) = map_case(s, false)?;
    fn initcap(_c; s: text) = initcap_of(s)?;
    fn textcat(_c; a: text, b: text) = { limits::joined(a.len(), b.len())?; pieces::joined(&[a, b])? };
    fn p2003_textanycat(c; a: text, b: any) = pieces::joined(&[a, &as_text(b, c)?])?;
    fn p2004_anytextcat(c; a: any, b: text) = pieces::joined(&[&as_text(a, c)?, b])?;
    fn nameconcatoid(_c; a: text, b: oid) = { let tail = format!("_{b}"); let head = crate::cast::truncate_name(a); let mut end = head.len().min(63 - tail.len()); while !head.is_char_boundary(end) { end -= 1; } format!("{}{tail}", &head[..end]) };
    fn text_substr(_c; s: text, start: int4, len: int4) = substr(s, start, Some(len))?;
    fn text_substr_no_len(_c; s: text, start: int4) = substr(s, start, None)?;
    fn textpos(_c; s: text, sub: text) = position(s, sub)?;
    fn replace_text(_c; s: text, from: text, to: text) = limits::replace_all(s, from, to)?;
    fn translate(_c; s: text, from: text, to: text) = translate_of(s, from, to)?;
    fn lpad(_c; s: text, n: int4, fill: text) = pad(s, n, fill, true)?;
    fn rpad(_c; s: text, n: int4, fill: text) = pad(s, n, fill, false)?;
    fn p879_lpad(_c; s: text, n: int4) = pad(s, n, " ", true)?;
    fn p880_rpad(_c; s: text, n: int4) = pad(s, n, " ", false)?;
    fn ltrim(_c; s: text, set: text) = trim_set(s, set, true, false)?;
    fn rtrim(_c; s: text, set: text) = trim_set(s, set, false, true)?;
    fn btrim(_c; s: text, set: text) = trim_set(s, set, true, true)?;
    fn ltrim1(_c; s: text) = trim_blanks(s, true, false)?;
    fn rtrim1(_c; s: text) = trim_blanks(s, false, true)?;
    fn btrim1(_c; s: text) = trim_blanks(s, true, true)?;
    fn repeat(_c; s: text, n: int4) = repeat_of(s, n)?;
    fn text_reverse(_c; s: text) = reversed(s)?;
    fn text_left(_c; s: text, n: int4) = take(s, n, true)?;
    fn text_right(_c; s: text, n: int4) = take(s, n, false)?;
    fn split_part(_c; s: text, sep: text, n: int4) = split_at(s, sep, n)?;
    fn ascii(_c; s: text) = s.chars().next().map_or(0, |c| c as i32);
    fn chr(_c; n: int4) = chr_of(n)?;
    fn md5_text(_c; s: text) = md5_hex(s.as_bytes())?;
    fn md5_bytea(_c; s: bytea) = md5_hex(s)?;
    fn quote_ident(_c; s: text) = quote_identifier(s);
    fn quote_literal(_c; s: text) = quote_literal_of(s)?;
    fn p1285_quote_literal(c; v: any) = quote_literal_of(&as_text(v, c)?)?;
    fn p1290_quote_nullable(c; v: any) = if v.is_null() { "NULL".to_string() } else { quote_literal_of(&as_text(v, c)?)? };
    fn quote_nullable(_c; v: any) = if v.is_null() { "NULL".to_string() } else { quote_literal_of(get::text(v)?)? };
    fn text_starts_with(_c; s: text, prefix: text) = s.starts_with(prefix);
    fn textoverlay(_c; s: text, new: text, start: int4, len: int4) = overlay(s, new, start, len)?;
    fn textoverlay_no_len(_c; s: text, new: text, start: int4) = overlay(s, new, start, length(new)?)?;
    fn text_larger(_c; a: text, b: text) = if a > b { a } else { b };
    fn text_smaller(_c; a: text, b: text) = if a < b { a } else { b };
    fn unistr(_c; s: text) = unescape(s)?;
    fn length_in_encoding(_c; s: bytea, e: text) = { super::bytea::only_utf8(e)?; String::from_utf8_lossy(s).chars().count() as i32 };
}
fn unescape(s: &str) -> Result<String> {
    let bad = || {
        error(sqlstate::SYNTAX_ERROR, "invalid Unicode escape")
            .with_hint("Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX.")
    };
    let mut out = String::new();
    let mut rest = s;
    let mut high: Option<u32> = None;
    let pair = || error(sqlstate::SYNTAX_ERROR, "invalid Unicode surrogate pair");
    while let Some(c) = rest.chars().next() {
        work::step(5)?;
        if c != '\\' {
            if high.is_some() {
                return Err(pair());
            }
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let tail = &rest[1..];
        if let Some(behind) = tail.strip_prefix('\\') {
            if high.is_some() {
                return Err(pair());
            }
            out.push('\\');
            rest = behind;
            continue;
        }
        let (skip, digits) = match tail.chars().next() {
            Some('u') => (1, 4),
            Some('U') => (1, 8),
            Some('+') => (1, 6),
            _ => (0, 4),
        };
        let hex = tail.get(skip..skip + digits).ok_or_else(bad)?;
        if !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(bad());
        }
        let v = u32::from_str_radix(hex, 16).map_err(|_| bad())?;
        rest = &tail[skip + digits..];
        match (high.take(), v) {
            (Some(h), 0xdc00..=0xdfff) => out.extend(char::from_u32(0x10000 + ((h - 0xd800) << 10) + (v - 0xdc00))),
            (Some(_), _) | (None, 0xdc00..=0xdfff) => return Err(pair()),
            (None, 0xd800..=0xdbff) => high = Some(v),
            (None, v) => {
                out.push(char::from_u32(v).ok_or_else(|| parameter(format!("invalid Unicode code point: {v:04X}")))?)
            }
        }
    }
    if high.is_some() { Err(pair()) } else { Ok(out) }
}

pub(crate) fn text_concat(c: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let mut out = String::new();
    for d in spread(args) {
        if !d.is_null() {
            let part = shown(d, c)?;
            limits::room(out.len(), part.len())?;
            pieces::append_text(&mut out, &part)?;
        }
    }
    Ok(Datum::Text(shared::text(&out)?))
}
/// Appends a part, behind the separator if it is not the first.
fn add_part(out: &mut Option<String>, sep: &str, part: &str) -> Result<()> {
    match out {
        None => *out = Some(part.to_string()),
        Some(out) => {
            limits::room(out.len(), sep.len() + part.len())?;
            pieces::append_text(out, sep)?;
            pieces::append_text(out, part)?;
        }
    }
    Ok(())
}

pub(crate) fn text_concat_ws(c: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let Some((sep, rest)) = args.split_first() else { return Ok(Datum::Null) };
    if sep.is_null() {
        return Ok(Datum::Null);
    }
    let sep = get::text(sep)?;
    let mut out: Option<String> = None;
    for d in spread(rest) {
        if !d.is_null() {
            add_part(&mut out, sep, &shown(d, c)?)?;
        }
    }
    Ok(Datum::Text(shared::text(&out.unwrap_or_default())?))
}
pub(crate) fn text_format_nv(c: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    text_format(c, args)
}
pub(crate) fn text_format(c: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let Some((fmt, rest)) = args.split_first() else { return Ok(Datum::Null) };
    if fmt.is_null() {
        return Ok(Datum::Null);
    }
    let values = spread(rest);
    let too_few = || parameter("too few arguments for format()");
    let fmt = get::text(fmt)?;
    let mut out = String::new();
    let mut next = 0usize;
    let mut chars = fmt.chars().peekable();
    while let Some(ch) = chars.next() {
        work::step(5)?;
        if ch != '%' {
            out.push(ch);
            continue;
        }
        let unterminated =
            || parameter("unterminated format() type specifier").with_hint("For a single \"%\" use \"%%\".");
        if chars.peek() == Some(&'%') {
            chars.next();
            out.push('%');
            continue;
        }
        let number = |chars: &mut std::iter::Peekable<std::str::Chars>| -> Result<Option<i32>> {
            let mut v: Option<i32> = None;
            while let Some(d) = chars.peek().and_then(|c| c.to_digit(10)) {
                chars.next();
                v = Some(
                    v.unwrap_or(0)
                        .checked_mul(10)
                        .and_then(|v| v.checked_add(d as i32))
                        .ok_or_else(|| error(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "number is out of range"))?,
                );
            }
            Ok(v)
        };
        let zero = || parameter("format specifies argument 0, but arguments are numbered from 1");
        let mut index: Option<usize> = None;
        let mut width: Option<i32> = None;
        let mut minus = false;
        if let Some(n) = number(&mut chars)? {
            if chars.peek() == Some(&'$') {
                chars.next();
                if n == 0 {
                    return Err(zero());
                }
                index = Some(n as usize - 1);
            } else {
                width = Some(n);
            }
        }
        if width.is_none() {
            while chars.peek() == Some(&'-') {
                chars.next();
                minus = true;
            }
            if chars.peek() == Some(&'*') {
                chars.next();
                let n = number(&mut chars)?;
                let at = match n {
                    Some(0) => return Err(zero()),
                    Some(n) => {
                        if chars.next() != Some('$') {
                            return Err(parameter("width argument position must be ended by \"$\""));
                        }
                        n as usize - 1
                    }
                    None => next,
                };
                next = at + 1;
                let d = values.get(at).ok_or_else(too_few)?;
                width = Some(if d.is_null() { 0 } else { shown(d, c)?.parse().unwrap_or(0) });
            } else {
                width = number(&mut chars)?;
            }
        }
        let kind = chars.next().ok_or_else(unterminated)?;
        if !matches!(kind, 's' | 'I' | 'L') {
            return Err(parameter(format!("unrecognized format() type specifier \"{kind}\""))
                .with_hint("For a single \"%\" use \"%%\"."));
        }
        let at = index.unwrap_or(next);
        next = at + 1;
        let d = values.get(at).ok_or_else(too_few)?;
        let text = match (kind, d.is_null()) {
            ('s', true) => Cow::Borrowed(""),
            ('s', false) => shown(d, c)?,
            ('I', true) => {
                return Err(error(
                    sqlstate::NULL_VALUE_NOT_ALLOWED,
                    "null values cannot be formatted as an SQL identifier",
                ));
            }
            ('I', false) => Cow::Owned(quote_identifier(&shown(d, c)?)),
            (_, true) => Cow::Borrowed("NULL"),
            (_, false) => Cow::Owned(quote_literal_of(&shown(d, c)?)?),
        };
        let w = width.unwrap_or(0);
        let fill = (w.unsigned_abs() as usize).saturating_sub(length(&text)? as usize);
        limits::room(out.len(), text.len() + fill)?;
        let filling = pieces::repeat(" ", fill)?;
        let (left, right) = if minus || w < 0 { (&*text, &*filling) } else { (&*filling, &*text) };
        pieces::append_text(&mut out, left)?;
        pieces::append_text(&mut out, right)?;
    }
    Ok(Datum::Text(shared::text(&out)?))
}

// ---- string <-> array ----

fn split_text(args: &[Datum]) -> Result<Datum> {
    let s = match args.first() {
        None | Some(Datum::Null) => return Ok(Datum::Null),
        Some(d) => get::text(d)?,
    };
    let null = match args.get(2) {
        None | Some(Datum::Null) => None,
        Some(d) => Some(get::text(d)?),
    };
    let mut elements = Vec::new();
    let mut add = |part: &str| {
        elements.push(if null == Some(part) { Datum::Null } else { Datum::text(part) });
        // An element costs its allocation, and its part of the search.
        work::step(40 + part.len())
    };
    match args.get(1) {
        _ if s.is_empty() => {}
        None | Some(Datum::Null) => s.char_indices().try_for_each(|(i, c)| add(&s[i..i + c.len_utf8()]))?,
        Some(d) => match get::text(d)? {
            "" => add(s)?,
            sep if sep.len() > pieces::LONG => {
                work::apart(|| s.split(sep).collect::<Vec<_>>())?.into_iter().try_for_each(add)?
            }
            sep => s.split(sep).try_for_each(add)?,
        },
    }
    Ok(text_array(elements))
}
pub(super) fn text_array(elements: Vec<Datum>) -> Datum {
    let dims = if elements.is_empty() { Vec::new() } else { vec![(1, elements.len() as u32)] };
    Datum::Array(Arc::new(Array { element_type: crate::oids::TEXT, dims, elements }))
}
pub(crate) fn text_to_array(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    split_text(args)
}
pub(crate) fn text_to_array_null(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    split_text(args)
}
fn join(c: &EvalContext, args: &[Datum]) -> Result<Datum> {
    let (Some(Datum::Array(a)), Some(Datum::Text(sep))) = (args.first(), args.get(1)) else { return Ok(Datum::Null) };
    let null = match args.get(2) {
        Some(Datum::Text(n)) => Some(&**n),
        _ => None,
    };
    let mut out: Option<String> = None;
    for e in &a.elements {
        work::step(30)?;
        if !e.is_null() {
            add_part(&mut out, sep, &output_string(a.element_type, e, c)?)?;
        } else if let Some(n) = null {
            add_part(&mut out, sep, n)?;
        }
    }
    Ok(Datum::Text(shared::text(&out.unwrap_or_default())?))
}
pub(crate) fn array_to_text(c: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    join(c, args)
}
pub(crate) fn array_to_text_null(c: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    join(c, args)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn identifiers_are_quoted_where_needed() {
        assert_eq!(quote_identifier("abc_1"), "abc_1");
        assert_eq!(quote_identifier("Abc"), "\"Abc\"");
        assert_eq!(quote_identifier("user"), "\"user\"");
        assert_eq!(quote_identifier("a\"b"), "\"a\"\"b\"");
        assert_eq!(quote_identifier(""), "\"\"");
    }
}
