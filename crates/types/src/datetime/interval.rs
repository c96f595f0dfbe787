//! Intervals: text in and out, range and precision of the type.

use super::calendar::*;
use super::parse::{DatetimeField, DatetimeProblem, DatetimeResult, FieldKind, clock, split};
use super::read;
use crate::context::IntervalStyle;
use crate::{EvalContext, Interval};
use kilndb_base::{Error, Result, sqlstate};
use std::io::Write;

pub(crate) const MASK_YEAR: i32 = 1 << 2;
pub(crate) const MASK_MONTH: i32 = 1 << 1;
pub(crate) const MASK_DAY: i32 = 1 << 3;
pub(crate) const MASK_HOUR: i32 = 1 << 10;
pub(crate) const MASK_MINUTE: i32 = 1 << 11;
pub(crate) const MASK_SECOND: i32 = 1 << 12;
const FULL_RANGE: i32 = 0x7fff;

pub const INFINITY: Interval = Interval { months: i32::MAX, days: i32::MAX, micros: i64::MAX };
pub(crate) const NEG_INFINITY: Interval = Interval { months: i32::MIN, days: i32::MIN, micros: i64::MIN };
impl Interval {
    pub(crate) fn is_infinite(&self) -> bool {
        *self == INFINITY || *self == NEG_INFINITY
    }
}

#[derive(Default)]
struct IntervalSum {
    months: i64,
    days: i64,
    micros: i64,
}
impl IntervalSum {
    fn add_micros(&mut self, v: f64, unit: f64) -> DatetimeResult<()> {
        let r = (v * unit).round_ties_even();
        if r.abs() > 9.3e18 {
            return Err(DatetimeProblem::FieldOverflow);
        }
        self.micros = self.micros.checked_add(r as i64).ok_or(DatetimeProblem::FieldOverflow)?;
        Ok(())
    }
    /// A count of a unit: integer part and fraction (same sign).
    fn add(&mut self, unit: IntervalUnit, int: i64, frac: f64) -> DatetimeResult<()> {
        let over = DatetimeProblem::FieldOverflow;
        let months = |a: &mut IntervalSum, per: i64| -> DatetimeResult<()> {
            a.months = a
                .months
                .checked_add(int.checked_mul(per).ok_or(DatetimeProblem::FieldOverflow)?)
                .ok_or(DatetimeProblem::FieldOverflow)?;
            a.months += (frac * per as f64).round_ties_even() as i64;
            Ok(())
        };
        match unit {
            IntervalUnit::Micros(per) => {
                self.micros = self.micros.checked_add(int.checked_mul(per).ok_or(over.clone())?).ok_or(over)?;
                self.add_micros(frac, per as f64)?;
            }
            IntervalUnit::Days(per) => {
                self.days = self.days.checked_add(int.checked_mul(per).ok_or(over.clone())?).ok_or(over)?;
                self.frac_days(frac * per as f64)?;
            }
            IntervalUnit::Months(1) => {
                self.months = self.months.checked_add(int).ok_or(over)?;
                self.frac_days(frac * 30.0)?;
            }
            IntervalUnit::Months(per) => months(self, per)?,
        }
        Ok(())
    }
    fn frac_days(&mut self, v: f64) -> DatetimeResult<()> {
        let whole = v.trunc();
        self.days += whole as i64;
        self.add_micros(v - whole, USECS_PER_DAY as f64)
    }
    fn finish(&self) -> DatetimeResult<Interval> {
        let over = |_| DatetimeProblem::IntervalOverflow;
        // The extremes of all three fields spell the infinities.
        Ok(Interval {
            months: i32::try_from(self.months).map_err(over)?,
            days: i32::try_from(self.days).map_err(over)?,
            micros: self.micros,
        })
    }
}
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum IntervalUnit {
    Micros(i64),
    Days(i64),
    Months(i64),
}
pub fn unit(word: &str) -> Option<IntervalUnit> {
    let w = word.get(..10).unwrap_or(word);
    Some(match w {
        "us" | "usec" | "usecs" | "useconds" | "usecond" | "microsecon" => IntervalUnit::Micros(1),
        "ms" | "msec" | "msecs" | "mseconds" | "msecond" | "millisecon" => IntervalUnit::Micros(1000),
        "s" | "sec" | "secs" | "second" | "seconds" => IntervalUnit::Micros(USECS_PER_SEC),
        "m" | "min" | "mins" | "minute" | "minutes" => IntervalUnit::Micros(USECS_PER_MINUTE),
        "h" | "hr" | "hrs" | "hour" | "hours" => IntervalUnit::Micros(USECS_PER_HOUR),
        "d" | "day" | "days" => IntervalUnit::Days(1),
        "w" | "week" | "weeks" => IntervalUnit::Days(7),
        "mon" | "mons" | "month" | "months" => IntervalUnit::Months(1),
        "qtr" | "quarter" => IntervalUnit::Months(3),
        "y" | "yr" | "yrs" | "year" | "years" => IntervalUnit::Months(12),
        "dec" | "decs" | "decade" | "decades" => IntervalUnit::Months(120),
        "c" | "cent" | "century" | "centuries" => IntervalUnit::Months(1200),
        "mil" | "mils" | "millennia" | "millennium" => IntervalUnit::Months(12_000),
        _ => return None,
    })
}

pub fn interval_in(text: &str, typmod: i32, ctx: &EvalContext) -> Result<Interval> {
    let range = if typmod >= 0 { (typmod >> 16) & FULL_RANGE } else { FULL_RANGE };
    let v = read(text, "interval", |text| {
        parse(text, range, ctx).map_err(|p| match p {
            DatetimeProblem::FieldOverflow => DatetimeProblem::IntervalOverflow,
            p => p,
        })
    })?;
    interval_typmod(v, typmod)
}
fn parse(text: &str, range: i32, ctx: &EvalContext) -> DatetimeResult<Interval> {
    match split(text).and_then(|f| decode(&f, range, ctx)) {
        Err(DatetimeProblem::BadFormat) if text.trim_start().starts_with(['P', 'p']) => iso8601(text.trim()),
        other => other,
    }
}

/// The least unit of a range, for a number without one.
fn default_unit(range: i32) -> IntervalUnit {
    if range == FULL_RANGE || range & MASK_SECOND != 0 {
        IntervalUnit::Micros(USECS_PER_SEC)
    } else if range & MASK_MINUTE != 0 {
        IntervalUnit::Micros(USECS_PER_MINUTE)
    } else if range & MASK_HOUR != 0 {
        IntervalUnit::Micros(USECS_PER_HOUR)
    } else if range & MASK_DAY != 0 {
        IntervalUnit::Days(1)
    } else if range & MASK_MONTH != 0 {
        IntervalUnit::Months(1)
    } else if range & MASK_YEAR != 0 {
        IntervalUnit::Months(12)
    } else {
        IntervalUnit::Micros(USECS_PER_SEC)
    }
}

/// Fields are read from the last to the first: a unit comes behind its number.
fn decode(fields: &[DatetimeField], range: i32, ctx: &EvalContext) -> DatetimeResult<Interval> {
    use DatetimeProblem::BadFormat;
    if fields.is_empty() {
        return Err(BadFormat);
    }
    if let [(_, w)] = fields {
        match w.as_str() {
            "infinity" | "+infinity" => return Ok(INFINITY),
            "-infinity" => return Ok(NEG_INFINITY),
            _ => {}
        }
    }
    let mut acc = IntervalSum::default();
    let mut pending: Option<IntervalUnit> = None;
    let mut ago = false;
    let mut any = false;
    let mut seen: Vec<IntervalUnit> = Vec::new();
    // In the SQL style a leading sign counts for every field without one of its own.
    let sql_negative = ctx.format.interval_style == IntervalStyle::SqlStandard
        && fields[0].1.starts_with('-')
        && !fields[1..].iter().any(|f| f.1.starts_with(['-', '+']));
    let sign_of = |negative: bool| negative || sql_negative;
    let mut mark = |u: IntervalUnit| -> DatetimeResult<()> {
        if seen.contains(&u) {
            return Err(BadFormat);
        }
        seen.push(u);
        Ok(())
    };
    for (kind, text) in fields.iter().rev() {
        let (negative, body) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text.as_str()),
        };
        let dashed = *kind == FieldKind::Date && body.contains('-');
        match kind {
            FieldKind::Time | FieldKind::Tz if body.contains(':') => {
                for part in [USECS_PER_HOUR, USECS_PER_MINUTE, USECS_PER_SEC, 1000, 1] {
                    mark(IntervalUnit::Micros(part))?;
                }
                let v = time_field(body, range)?;
                acc.micros = acc
                    .micros
                    .checked_add(if sign_of(negative) { -v } else { v })
                    .ok_or(DatetimeProblem::FieldOverflow)?;
                any = true;
                // A number before a time is days.
                pending = Some(IntervalUnit::Days(1));
            }
            FieldKind::Number | FieldKind::Tz | FieldKind::Date | FieldKind::Time => {
                if dashed || (*kind == FieldKind::Tz && body.contains('-')) {
                    let (y, m) = body.split_once('-').ok_or(BadFormat)?;
                    let y: i64 = y.parse().map_err(|_| BadFormat)?;
                    let m: i64 = m.parse().map_err(|_| BadFormat)?;
                    if m > 11 {
                        return Err(DatetimeProblem::FieldOverflow);
                    }
                    mark(IntervalUnit::Months(12))?;
                    mark(IntervalUnit::Months(1))?;
                    let v = y.checked_mul(12).and_then(|v| v.checked_add(m)).ok_or(DatetimeProblem::FieldOverflow)?;
                    acc.months += if sign_of(negative) { -v } else { v };
                    pending = None;
                    any = true;
                    continue;
                }
                let u = pending.take().unwrap_or_else(|| default_unit(range));
                let neg = sign_of(negative);
                let (int, frac) = number(body, neg)?;
                mark(u)?;
                if u == IntervalUnit::Micros(USECS_PER_SEC) && frac != 0.0 {
                    // A fraction of a second leaves no room for its parts.
                    mark(IntervalUnit::Micros(1000))?;
                    mark(IntervalUnit::Micros(1))?;
                }
                acc.add(u, int, frac)?;
                any = true;
                // A number before hours is days.
                pending = (u == IntervalUnit::Micros(USECS_PER_HOUR)).then_some(IntervalUnit::Days(1));
            }
            FieldKind::String | FieldKind::Special => match body {
                "ago" => {
                    if any || ago || pending.is_some() {
                        return Err(BadFormat);
                    }
                    ago = true;
                }
                _ => {
                    if pending.is_some() && !matches!(pending, Some(IntervalUnit::Days(1))) {
                        return Err(BadFormat);
                    }
                    if matches!(body, "infinity") {
                        return Err(BadFormat);
                    }
                    pending = Some(unit(body).ok_or(BadFormat)?);
                    if negative {
                        return Err(BadFormat);
                    }
                }
            },
        }
    }
    if !any {
        return Err(BadFormat);
    }
    if matches!(pending, Some(u) if u != IntervalUnit::Days(1)) {
        return Err(BadFormat);
    }
    let mut v = acc.finish()?;
    if ago {
        v = Interval {
            months: v.months.checked_neg().ok_or(DatetimeProblem::IntervalOverflow)?,
            days: v.days.checked_neg().ok_or(DatetimeProblem::IntervalOverflow)?,
            micros: v.micros.checked_neg().ok_or(DatetimeProblem::IntervalOverflow)?,
        };
    }
    Ok(v)
}
fn time_field(body: &str, range: i32) -> DatetimeResult<i64> {
    let colons = body.matches(':').count();
    let minute_second = range == MASK_MINUTE | MASK_SECOND;
    let (mut h, mut m, mut s, us) = clock(body)?;
    if colons == 1 && minute_second && !body.contains('.') {
        (h, m, s) = (0, i32::try_from(h).map_err(|_| DatetimeProblem::FieldOverflow)?, m);
    }
    h.checked_mul(3600)
        .and_then(|v| v.checked_add(i64::from(m) * 60 + i64::from(s)))
        .and_then(|v| v.checked_mul(USECS_PER_SEC))
        .and_then(|v| v.checked_add(i64::from(us)))
        .ok_or(DatetimeProblem::FieldOverflow)
}
/// Whole part and fraction, signed.
fn number(body: &str, negative: bool) -> DatetimeResult<(i64, f64)> {
    let (int, frac) = match body.find('.') {
        Some(at) => (&body[..at], &body[at..]),
        None => (body, ""),
    };
    let int = if int.is_empty() {
        0
    } else if int.bytes().all(|b| b.is_ascii_digit()) {
        let signed = if negative { format!("-{int}") } else { int.to_string() };
        signed.parse().map_err(|_| DatetimeProblem::FieldOverflow)?
    } else {
        return Err(DatetimeProblem::BadFormat);
    };
    let frac: f64 =
        if frac.len() > 1 { format!("0{frac}").parse().map_err(|_| DatetimeProblem::BadFormat)? } else { 0.0 };
    Ok((int, if negative { -frac } else { frac }))
}
/// `P1Y2M3DT4H5M6S`, `P0001-02-03T04:05:06`.
fn iso8601(text: &str) -> DatetimeResult<Interval> {
    use DatetimeProblem::BadFormat;
    let mut acc = IntervalSum::default();
    let mut rest = &text[1..];
    let mut time = false;
    if rest.is_empty() {
        return Err(BadFormat);
    }
    while !rest.is_empty() {
        if rest.starts_with(['T', 't']) {
            if time {
                return Err(BadFormat);
            }
            time = true;
            rest = &rest[1..];
            continue;
        }
        let bytes = rest.as_bytes();
        let part = |i: usize, b: u8| {
            b.is_ascii_digit()
                || b == b'.'
                || (i == 0 && matches!(b, b'-' | b'+'))
                || (matches!(b, b'e' | b'E') && i > 0 && bytes.get(i + 1).is_some_and(u8::is_ascii_digit))
        };
        let end = bytes.iter().enumerate().find(|(i, b)| !part(*i, **b)).map_or(rest.len(), |(i, _)| i);
        let (num, tail) = rest.split_at(end);
        let (int, frac) = iso_number(num)?;
        let letter = tail.bytes().next().map(|c| c.to_ascii_uppercase());
        let u = match (time, letter) {
            (false, Some(b'Y')) => IntervalUnit::Months(12),
            (false, Some(b'M')) => IntervalUnit::Months(1),
            (false, Some(b'W')) => IntervalUnit::Days(7),
            (false, Some(b'D')) => IntervalUnit::Days(1),
            (true, Some(b'H')) => IntervalUnit::Micros(USECS_PER_HOUR),
            (true, Some(b'M')) => IntervalUnit::Micros(USECS_PER_MINUTE),
            (true, Some(b'S')) => IntervalUnit::Micros(USECS_PER_SEC),
            (false, None | Some(b'T' | b'-')) => {
                // The alternative forms: yyyymmdd, yyyy, yyyy-mm-dd.
                let end = rest.find(['T', 't']).unwrap_or(rest.len());
                iso_date(&rest[..end], &mut acc)?;
                rest = &rest[end..];
                continue;
            }
            (true, None | Some(b':')) => {
                iso_time(rest, &mut acc)?;
                break;
            }
            _ => return Err(BadFormat),
        };
        acc.add(u, int, frac)?;
        rest = &tail[1..];
    }
    acc.finish()
}
/// A number with its own sign and, for the sake of old, an exponent.
fn iso_number(text: &str) -> DatetimeResult<(i64, f64)> {
    let negative = text.starts_with('-');
    let body = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !body.bytes().any(|b| b.is_ascii_digit()) {
        return Err(DatetimeProblem::BadFormat);
    }
    if body.contains(['e', 'E']) {
        let v: f64 = text.parse().map_err(|_| DatetimeProblem::BadFormat)?;
        return if v.abs() < 9.2e18 { Ok((v.trunc() as i64, v.fract())) } else { Err(DatetimeProblem::FieldOverflow) };
    }
    number(body, negative)
}
fn iso_date(text: &str, acc: &mut IntervalSum) -> DatetimeResult<()> {
    if text.len() == 8 && text.bytes().all(|b| b.is_ascii_digit()) {
        let v = number(text, false)?.0;
        acc.add(IntervalUnit::Months(12), v / 10_000, 0.0)?;
        acc.add(IntervalUnit::Months(1), v / 100 % 100, 0.0)?;
        return acc.add(IntervalUnit::Days(1), v % 100, 0.0);
    }
    let (sign, body) = text.split_at(usize::from(text.starts_with(['-', '+'])));
    let mut units = [IntervalUnit::Months(12), IntervalUnit::Months(1), IntervalUnit::Days(1)].into_iter();
    for (i, part) in body.split('-').enumerate() {
        let u = units.next().ok_or(DatetimeProblem::BadFormat)?;
        let (int, frac) = if i == 0 { iso_number(&format!("{sign}{part}"))? } else { iso_number(part)? };
        acc.add(u, int, frac)?;
    }
    Ok(())
}
/// hhmmss, hh, hh:mm:ss.
fn iso_time(text: &str, acc: &mut IntervalSum) -> DatetimeResult<()> {
    let units = [USECS_PER_HOUR, USECS_PER_MINUTE, USECS_PER_SEC];
    if text.len() == 6 && text.bytes().all(|b| b.is_ascii_digit()) {
        let v = number(text, false)?.0;
        for (n, u) in [v / 10_000, v / 100 % 100, v % 100].into_iter().zip(units) {
            acc.add(IntervalUnit::Micros(u), n, 0.0)?;
        }
        return Ok(());
    }
    let mut units = units.into_iter();
    for part in text.split(':') {
        let (int, frac) = iso_number(part)?;
        acc.add(IntervalUnit::Micros(units.next().ok_or(DatetimeProblem::BadFormat)?), int, frac)?;
    }
    Ok(())
}

/// Applies `interval(p)` and field ranges.
pub(crate) fn interval_typmod(v: Interval, typmod: i32) -> Result<Interval> {
    if typmod < 0 || v.is_infinite() {
        return Ok(v);
    }
    let range = (typmod >> 16) & FULL_RANGE;
    let precision = typmod & 0xffff;
    let mut v = v;
    let cut = |v: &mut Interval, unit: i64| v.micros = v.micros / unit * unit;
    if range != FULL_RANGE {
        const YM: i32 = MASK_YEAR | MASK_MONTH;
        match range {
            MASK_YEAR => v = Interval { months: v.months / 12 * 12, days: 0, micros: 0 },
            MASK_MONTH | YM => (v.days, v.micros) = (0, 0),
            MASK_DAY => v.micros = 0,
            _ if range & MASK_SECOND != 0 => {}
            _ if range & MASK_MINUTE != 0 => cut(&mut v, USECS_PER_MINUTE),
            _ => cut(&mut v, USECS_PER_HOUR),
        }
    }
    if precision < 6 {
        let unit = 10i64.pow((6 - precision) as u32);
        let half = if v.micros >= 0 { unit / 2 } else { -unit / 2 };
        let sum = v
            .micros
            .checked_add(half)
            .ok_or_else(|| Error::new(sqlstate::DATETIME_FIELD_OVERFLOW, "interval out of range"))?;
        v.micros = sum - sum % unit;
    }
    Ok(v)
}

fn w(out: &mut Vec<u8>, args: std::fmt::Arguments) {
    // A Vec takes every write.
    let _ = out.write_fmt(args);
}
fn seconds(out: &mut Vec<u8>, sec: i64, micros: i64, pad: bool) {
    if pad {
        w(out, format_args!("{sec:02}"))
    } else {
        w(out, format_args!("{sec}"))
    }
    if micros != 0 {
        w(out, format_args!(".{micros:06}"));
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
}
pub(crate) fn interval_out(v: &Interval, style: IntervalStyle, out: &mut Vec<u8>) {
    if *v == INFINITY {
        return out.extend_from_slice(b"infinity");
    }
    if *v == NEG_INFINITY {
        return out.extend_from_slice(b"-infinity");
    }
    let (y, mon, d) = (v.months / 12, v.months % 12, v.days);
    let abs = v.micros.unsigned_abs() as i128;
    let (h, m, s, us) = (
        (abs / 3_600_000_000) as i64,
        (abs / 60_000_000 % 60) as i64,
        (abs / 1_000_000 % 60) as i64,
        (abs % 1_000_000) as i64,
    );
    let neg = v.micros < 0;
    let clock = |out: &mut Vec<u8>| {
        w(out, format_args!("{h:02}:{m:02}:"));
        seconds(out, s, us, true);
    };
    match style {
        IntervalStyle::Postgres => {
            let mut first = true;
            let mut before = false;
            for (n, name) in [(y, "year"), (mon, "mon"), (d, "day")] {
                if n != 0 {
                    let plus = if before && n > 0 { "+" } else { "" };
                    w(
                        out,
                        format_args!(
                            "{}{plus}{n} {name}{}",
                            if first { "" } else { " " },
                            if n == 1 { "" } else { "s" }
                        ),
                    );
                    before = n < 0;
                    first = false;
                }
            }
            if first || v.micros != 0 {
                if !first {
                    out.push(b' ');
                }
                out.extend_from_slice(if neg {
                    b"-"
                } else if before {
                    b"+"
                } else {
                    b""
                });
                clock(out);
            }
        }
        IntervalStyle::PostgresVerbose => {
            out.push(b'@');
            let mut ago = false;
            let mut zero = true;
            for (n, name) in [(y, "year"), (mon, "mon"), (d, "day")] {
                if n != 0 {
                    if zero {
                        ago = n < 0;
                    }
                    let n = if ago { -i64::from(n) } else { i64::from(n) };
                    zero = false;
                    w(out, format_args!(" {n} {name}{}", if n == 1 { "" } else { "s" }));
                }
            }
            let flip = |zero: bool, ago: &mut bool| {
                if zero {
                    *ago = neg;
                }
                neg != *ago
            };
            if h != 0 {
                let minus = flip(zero, &mut ago);
                zero = false;
                w(
                    out,
                    format_args!(
                        " {}{h} hour{}",
                        if minus { "-" } else { "" },
                        if h == 1 && !minus { "" } else { "s" }
                    ),
                );
            }
            if m != 0 {
                let minus = flip(zero, &mut ago);
                zero = false;
                w(
                    out,
                    format_args!(" {}{m} min{}", if minus { "-" } else { "" }, if m == 1 && !minus { "" } else { "s" }),
                );
            }
            if s != 0 || us != 0 {
                let minus = flip(zero, &mut ago);
                zero = false;
                out.extend_from_slice(if minus { b" -" } else { b" " });
                seconds(out, s, us, false);
                w(out, format_args!(" sec{}", if s == 1 && us == 0 && !minus { "" } else { "s" }));
            }
            if zero {
                out.extend_from_slice(b" 0");
            }
            if ago {
                out.extend_from_slice(b" ago");
            }
        }
        IntervalStyle::SqlStandard => sql_out(v, y, mon, (h, m, s, us), out),
        IntervalStyle::Iso8601 => {
            if v.months == 0 && d == 0 && v.micros == 0 {
                return out.extend_from_slice(b"PT0S");
            }
            out.push(b'P');
            for (n, c) in [(y, 'Y'), (mon, 'M'), (d, 'D')] {
                if n != 0 {
                    w(out, format_args!("{n}{c}"));
                }
            }
            if v.micros != 0 {
                out.push(b'T');
                let sign = if neg { "-" } else { "" };
                if h != 0 {
                    w(out, format_args!("{sign}{h}H"));
                }
                if m != 0 {
                    w(out, format_args!("{sign}{m}M"));
                }
                if s != 0 || us != 0 {
                    out.extend_from_slice(sign.as_bytes());
                    seconds(out, s, us, false);
                    out.push(b'S');
                }
            }
        }
    }
}
fn sql_out(v: &Interval, y: i32, mon: i32, clock: (i64, i64, i64, i64), out: &mut Vec<u8>) {
    let (h, m, s, us) = clock;
    let has_negative = v.months < 0 || v.days < 0 || v.micros < 0;
    let has_positive = v.months > 0 || v.days > 0 || v.micros > 0;
    let has_ym = v.months != 0;
    let has_dt = v.days != 0 || v.micros != 0;
    let standard = !(has_negative && has_positive) && !(has_ym && has_dt);
    if !has_negative && !has_positive {
        return out.push(b'0');
    }
    if !standard {
        let sign = |n: bool| if n { '-' } else { '+' };
        w(
            out,
            format_args!(
                "{}{}-{} {}{} {}{h}:{m:02}:",
                sign(v.months < 0),
                y.abs(),
                mon.abs(),
                sign(v.days < 0),
                v.days.unsigned_abs(),
                sign(v.micros < 0)
            ),
        );
        return seconds(out, s, us, true);
    }
    if has_negative {
        out.push(b'-');
    }
    if has_ym {
        return w(out, format_args!("{}-{}", y.abs(), mon.abs()));
    }
    if v.days != 0 {
        w(out, format_args!("{} ", v.days.unsigned_abs()));
    }
    w(out, format_args!("{h}:{m:02}:"));
    seconds(out, s, us, true);
}
