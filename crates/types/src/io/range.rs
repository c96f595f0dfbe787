//! Ranges and multiranges: text and binary forms.

use super::{error, input, output, receive, send};
use crate::range::{self, Multirange, Range, RangeBound, RangeType};
use crate::{Datum, EvalContext, pieces};
use kilndb_base::work::{self, SmallSteps};
use kilndb_base::{Error, Result, sqlstate};

fn is_blank(b: u8) -> bool {
    b.is_ascii_whitespace() || b == 0x0b
}
#[cold]
fn malformed(what: &str, text: &str, detail: &str) -> Error {
    error(sqlstate::INVALID_TEXT_REPRESENTATION, format!("malformed {what} literal: \"{text}\"")).with_detail(detail)
}
#[inline]
fn skip_blanks(b: &[u8], at: &mut usize) -> Result<()> {
    // There are none as a rule.
    if b.get(*at).copied().is_some_and(is_blank) {
        *at += pieces::count_leading(&b[*at..], is_blank)?;
    }
    Ok(())
}
fn starts_with_empty(b: &[u8]) -> bool {
    b.get(..5).is_some_and(|word| word.eq_ignore_ascii_case(b"empty"))
}

pub(super) fn range_in(ty: RangeType, text: &str, ctx: &EvalContext) -> Result<Range> {
    let bad = |detail: &str| malformed("range", text, detail);
    let b = text.as_bytes();
    let mut at = 0;
    skip_blanks(b, &mut at)?;
    if starts_with_empty(&b[at..]) {
        at += 5;
        skip_blanks(b, &mut at)?;
        return if at == b.len() { Ok(Range::empty(ty)) } else { Err(bad("Junk after \"empty\" key word.")) };
    }
    let lower_inclusive = match b.get(at) {
        Some(b'[') => true,
        Some(b'(') => false,
        _ => return Err(bad("Missing left parenthesis or bracket.")),
    };
    at += 1;
    let lower = bound_text(text, &mut at)?;
    if b.get(at) != Some(&b',') {
        return Err(bad("Missing comma after lower bound."));
    }
    at += 1;
    let upper = bound_text(text, &mut at)?;
    let upper_inclusive = match b.get(at) {
        Some(b']') => true,
        Some(b')') => false,
        _ => return Err(bad("Too many commas.")),
    };
    at += 1;
    skip_blanks(b, &mut at)?;
    if at != b.len() {
        return Err(bad("Junk after right parenthesis or bracket."));
    }
    let value = |text: Option<String>| text.map_or(Ok(Datum::Null), |t| input(ty.subtype, &t, -1, ctx));
    let (lower, upper) = (value(lower)?, value(upper)?);
    Range::make(ty, RangeBound::lower(lower, lower_inclusive), RangeBound::upper(upper, upper_inclusive))
}
/// A bound without its quotes; None: there is none.
fn bound_text(text: &str, at: &mut usize) -> Result<Option<String>> {
    let end = || malformed("range", text, "Unexpected end of input.");
    let b = text.as_bytes();
    let is_end = |c: Option<&u8>| matches!(c, Some(b',' | b')' | b']'));
    if is_end(b.get(*at)) {
        return Ok(None);
    }
    let mut value = Vec::new();
    let (mut quoted, mut steps) = (false, SmallSteps::default());
    while quoted || !is_end(b.get(*at)) {
        steps.step(3)?;
        let c = *b.get(*at).ok_or_else(end)?;
        *at += 1;
        match c {
            b'\\' => {
                value.push(*b.get(*at).ok_or_else(end)?);
                *at += 1;
            }
            b'"' if quoted && b.get(*at) == Some(&b'"') => {
                value.push(b'"');
                *at += 1;
            }
            b'"' => quoted = !quoted,
            _ => value.push(c),
        }
    }
    String::from_utf8(value).map(Some).map_err(|_| end())
}

pub(super) fn range_out(range: &Range, out: &mut Vec<u8>, ctx: &EvalContext) -> Result<()> {
    let Some((lower, upper)) = &range.bounds else {
        out.extend_from_slice(b"empty");
        return Ok(());
    };
    out.push(if lower.inclusive { b'[' } else { b'(' });
    bound_out(range, lower, out, ctx)?;
    out.push(b',');
    bound_out(range, upper, out, ctx)?;
    out.push(if upper.inclusive { b']' } else { b')' });
    Ok(())
}
fn bound_out(range: &Range, bound: &RangeBound, out: &mut Vec<u8>, ctx: &EvalContext) -> Result<()> {
    if bound.is_infinite() {
        return Ok(());
    }
    let start = out.len();
    output(range.ty.subtype, &bound.value, out, ctx)?;
    let text = &out[start..];
    let special = |b: &u8| matches!(b, b'"' | b'\\' | b'(' | b')' | b'[' | b']' | b',') || is_blank(*b);
    if text.is_empty() || !pieces::all(text, |b| !special(&b))? {
        super::double_quote(out, start)?;
    }
    Ok(())
}

pub(super) fn multirange_in(ty: RangeType, text: &str, ctx: &EvalContext) -> Result<Multirange> {
    let bad = |detail: &str| malformed("multirange", text, detail);
    let b = text.as_bytes();
    let mut at = 0;
    skip_blanks(b, &mut at)?;
    if b.get(at) != Some(&b'{') {
        return Err(bad("Missing left brace."));
    }
    at += 1;
    let mut ranges = Vec::new();
    let mut is_first = true;
    loop {
        skip_blanks(b, &mut at)?;
        match b.get(at) {
            None => return Err(bad("Unexpected end of input.")),
            Some(b'}') if is_first => break,
            Some(b'[' | b'(') => {
                work::step(100)?;
                let end = range_end(b, at)?.ok_or_else(|| bad("Unexpected end of input."))?;
                ranges.push(range_in(ty, &text[at..end], ctx)?);
                at = end;
            }
            Some(_) if starts_with_empty(&b[at..]) => at += 5,
            Some(_) => return Err(bad("Expected range start.")),
        }
        is_first = false;
        skip_blanks(b, &mut at)?;
        match b.get(at) {
            None => return Err(bad("Unexpected end of input.")),
            Some(b',') => at += 1,
            Some(b'}') => break,
            Some(_) => return Err(bad("Expected comma or end of multirange.")),
        }
    }
    at += 1;
    skip_blanks(b, &mut at)?;
    if at != b.len() {
        return Err(bad("Junk after closing right brace."));
    }
    Multirange::make(ty, ranges)
}
/// Where the range that begins at `at` ends: behind a parenthesis or bracket that is neither quoted nor escaped.
fn range_end(b: &[u8], mut at: usize) -> Result<Option<usize>> {
    let (mut quoted, mut steps) = (false, SmallSteps::default());
    at += 1;
    while let Some(c) = b.get(at) {
        steps.step(2)?;
        match c {
            b'\\' => at += 1,
            b'"' if quoted && b.get(at + 1) == Some(&b'"') => at += 1,
            b'"' => quoted = !quoted,
            b')' | b']' if !quoted => return Ok(Some(at + 1)),
            _ => {}
        }
        at += 1;
    }
    Ok(None)
}
pub(super) fn multirange_out(value: &Multirange, out: &mut Vec<u8>, ctx: &EvalContext) -> Result<()> {
    out.push(b'{');
    for (i, range) in value.ranges.iter().enumerate() {
        work::step(100)?;
        if i > 0 {
            out.push(b',');
        }
        range_out(range, out, ctx)?;
    }
    out.push(b'}');
    Ok(())
}

#[cold]
fn short() -> Error {
    error(sqlstate::PROTOCOL_VIOLATION, "insufficient data left in message")
}
fn prefixed<'a>(b: &mut &'a [u8]) -> Result<&'a [u8]> {
    let (head, rest) = b.split_first_chunk::<4>().ok_or_else(short)?;
    let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*head) as usize).ok_or_else(short)?;
    *b = rest;
    Ok(value)
}
fn at_end(b: &[u8]) -> Result<()> {
    if b.is_empty() {
        Ok(())
    } else {
        Err(error(sqlstate::INVALID_BINARY_REPRESENTATION, "incorrect binary data format"))
    }
}
pub(super) fn range_receive(ty: RangeType, bytes: &[u8], ctx: &EvalContext) -> Result<Range> {
    let (&flags, mut rest) = bytes.split_first().ok_or_else(short)?;
    let has = |bit: u8| flags & bit != 0;
    let mut value = |absent: u8| {
        if has(range::EMPTY) || has(absent) {
            Ok(Datum::Null)
        } else {
            receive(ty.subtype, prefixed(&mut rest)?, -1, ctx)
        }
    };
    let lower = RangeBound::lower(value(range::LOWER_INFINITE)?, has(range::LOWER_INCLUSIVE));
    let upper = RangeBound::upper(value(range::UPPER_INFINITE)?, has(range::UPPER_INCLUSIVE));
    at_end(rest)?;
    if has(range::EMPTY) { Ok(Range::empty(ty)) } else { Range::make(ty, lower, upper) }
}
pub(super) fn range_send(range: &Range, out: &mut Vec<u8>, ctx: &EvalContext) -> Result<()> {
    out.push(range.flags());
    if let Some((lower, upper)) = &range.bounds {
        for bound in [lower, upper].into_iter().filter(|b| !b.is_infinite()) {
            with_length(out, |out| send(range.ty.subtype, &bound.value, out, ctx))?;
        }
    }
    Ok(())
}
fn with_length(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out)?;
    let len = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&len.to_be_bytes());
    Ok(())
}
pub(super) fn multirange_receive(ty: RangeType, bytes: &[u8], ctx: &EvalContext) -> Result<Multirange> {
    let (head, mut rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
    let mut ranges = Vec::new();
    for _ in 0..u32::from_be_bytes(*head) {
        work::step(100)?;
        ranges.push(range_receive(ty, prefixed(&mut rest)?, ctx)?);
    }
    at_end(rest)?;
    Multirange::make(ty, ranges)
}
pub(super) fn multirange_send(value: &Multirange, out: &mut Vec<u8>, ctx: &EvalContext) -> Result<()> {
    out.extend_from_slice(&(value.ranges.len() as u32).to_be_bytes());
    work::steps(&value.ranges, 100).try_for_each(|r| with_length(out, |out| range_send(r?, out, ctx)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::looks::{asks, worth};
    use crate::oids::NUMERIC;

    const TEXTS: RangeType = RangeType { oid: 70_000, multirange: 70_001, subtype: crate::oids::TEXT };

    #[test]
    fn long_bounds_give_way() {
        let long = "b\\\"".repeat(300_000);
        let (plain, quoted) = (format!("[a,{long})"), format!("[\"{long}\",x)"));
        let blanks = format!("{}[a,b)", " ".repeat(1_000_000));
        for text in [&plain, &quoted, &blanks] {
            asks(worth(text.len()), |cx| range_in(TEXTS, text, cx));
            asks(worth(text.len()), |cx| multirange_in(TEXTS, &format!("{{{text}}}"), cx));
        }
        asks(worth(long.len()), |cx| range_out(&range_in(TEXTS, &plain, cx)?, &mut Vec::new(), cx));
    }

    #[test]
    fn many_ranges_give_way() {
        let numbers = range::built_in(3906).filter(|ty| ty.subtype == NUMERIC).expect("numrange");
        let text: String = (0..10_000).map(|i| format!(",[{i},{i}]")).collect();
        let text = format!("{{{}}}", &text[1..]);
        asks(worth(10_000 * 100), |cx| multirange_in(numbers, &text, cx).map(|_| ()));
        let write = |cx: &EvalContext| -> Result<(Multirange, Vec<u8>)> {
            let (value, mut out) = (multirange_in(numbers, &text, cx)?, Vec::new());
            multirange_send(&value, &mut out, cx)?;
            Ok((value, out))
        };
        asks(worth(10_000 * 200), |cx| write(cx).map(|_| ()));
        asks(worth(10_000 * 300), |cx| multirange_receive(numbers, &write(cx)?.1, cx).map(|_| ()));
        asks(worth(10_000 * 300), |cx| multirange_out(&write(cx)?.0, &mut Vec::new(), cx));
    }
}
