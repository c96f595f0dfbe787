//! Dates, times, intervals: text in and out, rounding, conversions.
//!
//! Invariants
//! 1. All arithmetic is in i64 microseconds and Julian days; jiff is asked for zone offsets only.
//! 2. `i64::MIN` / `MAX` (timestamps) and `i32::MIN` / `MAX` (dates) are the infinities.

pub mod abbreviations;
pub mod calendar;
pub mod interval;
pub(crate) mod iso;
pub mod parse;
pub mod zone;

pub use interval::interval_in;
pub(crate) use interval::{interval_out, interval_typmod};

use crate::context::{DateOrder, DateStyle};
use crate::io::digits;
use crate::{EvalContext, pieces};
use calendar::*;
use kilndb_base::{Error, Result, sqlstate};
use parse::{DatetimeDecoder, DatetimeProblem, DatetimeResult, DatetimeValue, session_zone};
use std::io::Write;
use zone::Zone;

pub(crate) const MIN_TIMESTAMP: i64 = -211_813_488_000_000_000;
pub(crate) const END_TIMESTAMP: i64 = 9_223_371_331_200_000_000;
pub(crate) const MIN_DATE: i32 = -POSTGRES_EPOCH_JDATE;
pub(crate) const END_DATE: i32 = 2_147_483_494 - POSTGRES_EPOCH_JDATE;
pub(crate) const UNIX_EPOCH_TS: i64 = (UNIX_EPOCH_JDATE - POSTGRES_EPOCH_JDATE) as i64 * USECS_PER_DAY;

#[cold]
pub fn problem(p: DatetimeProblem, text: &str, type_name: &str) -> Error {
    match p {
        DatetimeProblem::BadFormat => Error::new(
            sqlstate::INVALID_DATETIME_FORMAT,
            format!("invalid input syntax for type {type_name}: \"{text}\""),
        ),
        DatetimeProblem::FieldOverflow => {
            Error::new(sqlstate::DATETIME_FIELD_OVERFLOW, format!("date/time field value out of range: \"{text}\""))
        }
        DatetimeProblem::DayMonthOverflow => {
            Error::new(sqlstate::DATETIME_FIELD_OVERFLOW, format!("date/time field value out of range: \"{text}\""))
                .with_hint("Perhaps you need a different \"DateStyle\" setting.")
        }
        DatetimeProblem::IntervalOverflow => {
            Error::new(sqlstate::DATETIME_FIELD_OVERFLOW, format!("interval field value out of range: \"{text}\""))
        }
        DatetimeProblem::ZoneOverflow => Error::new(
            sqlstate::INVALID_TIME_ZONE_DISPLACEMENT_VALUE,
            format!("time zone displacement out of range: \"{text}\""),
        ),
        DatetimeProblem::UnknownZone(zone) => unknown_zone(&zone),
    }
}
#[cold]
pub(crate) fn unknown_zone(name: &str) -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, format!("time zone \"{name}\" not recognized"))
}
#[cold]
pub(crate) fn timestamp_range() -> Error {
    Error::new(sqlstate::DATETIME_FIELD_OVERFLOW, "timestamp out of range")
}
#[cold]
pub(crate) fn date_range() -> Error {
    Error::new(sqlstate::DATETIME_FIELD_OVERFLOW, "date out of range")
}
#[cold]
fn text_range(what: &str, text: &str) -> Error {
    Error::new(sqlstate::DATETIME_FIELD_OVERFLOW, format!("{what} out of range: \"{text}\""))
}

pub(crate) fn is_finite_ts(ts: i64) -> bool {
    ts != i64::MIN && ts != i64::MAX
}
pub(crate) fn check_timestamp(ts: i64) -> Result<i64> {
    if is_finite_ts(ts) && !(MIN_TIMESTAMP..END_TIMESTAMP).contains(&ts) { Err(timestamp_range()) } else { Ok(ts) }
}
pub(crate) fn is_finite_date(d: i32) -> bool {
    (MIN_DATE..END_DATE).contains(&d)
}
pub(crate) fn check_date(d: i32) -> Result<i32> {
    if d != i32::MIN && d != i32::MAX && !(MIN_DATE..END_DATE).contains(&d) { Err(date_range()) } else { Ok(d) }
}
pub(crate) fn check_time(t: i64) -> Result<i64> {
    if (0..=USECS_PER_DAY).contains(&t) {
        Ok(t)
    } else {
        Err(Error::new(sqlstate::DATETIME_FIELD_OVERFLOW, "time out of range"))
    }
}
/// The session's local time at the transaction's start.
pub(crate) fn local_now(ctx: &EvalContext) -> Tm {
    local_time_at(ctx.transaction_timestamp, ctx)
}
/// The session's local time at a moment.
pub(crate) fn local_time_at(ts: i64, ctx: &EvalContext) -> Tm {
    tm_of(ts + i64::from(session_zone(ctx).offset_at(ts)) * USECS_PER_SEC)
}
/// Rounds microseconds to `typmod` decimals, half away from zero.
pub(crate) fn round_micros(v: i64, typmod: i32) -> i64 {
    if !(0..6).contains(&typmod) {
        return v;
    }
    let unit = 10i64.pow((6 - typmod) as u32);
    if v >= 0 { v.saturating_add(unit / 2) / unit * unit } else { -((-v).saturating_add(unit / 2) / unit * unit) }
}
pub(crate) fn round_time(v: i64, typmod: i32) -> i64 {
    round_micros(v, typmod)
}
pub(crate) fn round_timestamp(v: i64, typmod: i32) -> Result<i64> {
    if !is_finite_ts(v) {
        return Ok(v);
    }
    check_timestamp(round_micros(v, typmod))
}

/// Bytes that a date, a time, an interval or a zone may have. PostgreSQL takes no more than 150 of them.
const LONGEST: usize = 4096;

/// A long text with one blank for each run of them; None: it is longer still.
fn shortened(text: &str) -> Result<Option<String>> {
    let is_blank = |b: u8| b.is_ascii_whitespace() || b == 0x0b;
    let (mut rest, mut out) = (text, String::new());
    while !rest.is_empty() {
        rest = &rest[pieces::count_leading(rest.as_bytes(), is_blank)?..];
        let end = rest.bytes().take(LONGEST).position(is_blank).unwrap_or(rest.len());
        if out.len() + end > LONGEST {
            return Ok(None);
        }
        out.push_str(&rest[..end]);
        out.push(' ');
        rest = &rest[end..];
    }
    Ok(Some(out))
}
/// Reads a text. Only of short ones is each byte looked at more than once.
#[inline]
fn read<T>(text: &str, type_name: &str, parse: impl FnOnce(&str) -> DatetimeResult<T>) -> Result<T> {
    let parsed = if text.len() <= LONGEST {
        parse(text)
    } else {
        shortened(text)?.map_or(Err(DatetimeProblem::BadFormat), |short| parse(&short))
    };
    parsed.map_err(|p| problem(p, text, type_name))
}

pub(crate) fn date_in(text: &str, ctx: &EvalContext) -> Result<i32> {
    let value = read(text, "date", |text| DatetimeDecoder::datetime(ctx, text))?;
    match value {
        DatetimeValue::Epoch => Ok(UNIX_EPOCH_JDATE - POSTGRES_EPOCH_JDATE),
        DatetimeValue::Infinity => Ok(i32::MAX),
        DatetimeValue::NegInfinity => Ok(i32::MIN),
        DatetimeValue::Moment(tm, _) => {
            if !is_valid_julian(tm.year, tm.month) {
                return Err(text_range("date", text));
            }
            let d = tm.date();
            if (MIN_DATE..END_DATE).contains(&d) { Ok(d) } else { Err(text_range("date", text)) }
        }
    }
}
pub(crate) fn time_in(text: &str, typmod: i32, ctx: &EvalContext) -> Result<i64> {
    let (tm, _) = read(text, "time", |text| DatetimeDecoder::time(ctx, text, false))?;
    Ok(round_time(tm.time_micros(), typmod))
}
/// (microseconds, zone in seconds west).
pub(crate) fn timetz_in(text: &str, typmod: i32, ctx: &EvalContext) -> Result<(i64, i32)> {
    let (tm, zone) = read(text, "time with time zone", |text| DatetimeDecoder::time(ctx, text, true))?;
    let east = match zone {
        Some(z) => z,
        None => session_zone(ctx).offset_for_local(tm.timestamp().unwrap_or(0)),
    };
    Ok((round_time(tm.time_micros(), typmod), -east))
}
pub(crate) fn timestamp_in(text: &str, typmod: i32, ctx: &EvalContext) -> Result<i64> {
    let value = read(text, "timestamp", |text| DatetimeDecoder::datetime(ctx, text))?;
    let ts = match value {
        DatetimeValue::Epoch => UNIX_EPOCH_TS,
        DatetimeValue::Infinity => return Ok(i64::MAX),
        DatetimeValue::NegInfinity => return Ok(i64::MIN),
        DatetimeValue::Moment(tm, _) => tm.timestamp().ok_or_else(|| text_range("timestamp", text))?,
    };
    if !(MIN_TIMESTAMP..END_TIMESTAMP).contains(&ts) {
        return Err(text_range("timestamp", text));
    }
    round_timestamp(ts, typmod)
}
pub(crate) fn timestamptz_in(text: &str, typmod: i32, ctx: &EvalContext) -> Result<i64> {
    let value = read(text, "timestamp with time zone", |text| DatetimeDecoder::datetime(ctx, text))?;
    let range = || text_range("timestamp", text);
    let ts = match value {
        DatetimeValue::Epoch => UNIX_EPOCH_TS,
        DatetimeValue::Infinity => return Ok(i64::MAX),
        DatetimeValue::NegInfinity => return Ok(i64::MIN),
        DatetimeValue::Moment(tm, zone) => {
            let local = tm.timestamp().ok_or_else(range)?;
            let east = match zone {
                Some(z) => z,
                None => session_zone(ctx).offset_for_local(local),
            };
            local.checked_sub(i64::from(east) * USECS_PER_SEC).ok_or_else(range)?
        }
    };
    if !(MIN_TIMESTAMP..END_TIMESTAMP).contains(&ts) {
        return Err(range());
    }
    round_timestamp(ts, typmod)
}

// ---- output ----

fn w(out: &mut Vec<u8>, args: std::fmt::Arguments) {
    // A Vec takes every write.
    let _ = out.write_fmt(args);
}
fn two(out: &mut Vec<u8>, v: i32) {
    let v = v.rem_euclid(100) as u8;
    out.push(b'0' + v / 10);
    out.push(b'0' + v % 10);
}
fn year_shown(year: i32) -> i32 {
    if year > 0 { year } else { 1 - year }
}
pub(crate) fn date_out(d: i32, ctx: &EvalContext, out: &mut Vec<u8>) {
    match d {
        i32::MAX => out.extend_from_slice(b"infinity"),
        i32::MIN => out.extend_from_slice(b"-infinity"),
        _ => {
            let (year, month, day) = from_julian(d + POSTGRES_EPOCH_JDATE);
            date_part(&Tm { year, month, day, ..Tm::default() }, ctx, out);
            if year <= 0 {
                out.extend_from_slice(b" BC");
            }
        }
    }
}
fn date_part(tm: &Tm, ctx: &EvalContext, out: &mut Vec<u8>) {
    let y = year_shown(tm.year);
    let day_first = ctx.format.date_order == DateOrder::Dmy;
    match ctx.format.date_style {
        DateStyle::Iso => {
            if let 0..=9999 = y {
                let [c, d, y, z] = digits::four(y as u32);
                let ([m, n], [e, f]) = (digits::pair(tm.month as u32), digits::pair(tm.day as u32));
                out.extend_from_slice(&[c, d, y, z, b'-', m, n, b'-', e, f]);
                return;
            }
            w(out, format_args!("{y}-{:02}-{:02}", tm.month, tm.day));
        }
        DateStyle::Sql => {
            let (a, b) = if day_first { (tm.day, tm.month) } else { (tm.month, tm.day) };
            w(out, format_args!("{a:02}/{b:02}/{y:04}"));
        }
        DateStyle::German => w(out, format_args!("{:02}.{:02}.{y:04}", tm.day, tm.month)),
        DateStyle::Postgres => {
            let (a, b) = if day_first { (tm.day, tm.month) } else { (tm.month, tm.day) };
            w(out, format_args!("{a:02}-{b:02}-{y:04}"));
        }
    }
}
fn clock_part(tm: &Tm, out: &mut Vec<u8>) {
    let ([h, i], [m, n]) = (digits::pair(tm.hour as u32), digits::pair(tm.minute as u32));
    let [s, t] = digits::pair(tm.second as u32);
    out.extend_from_slice(&[h, i, b':', m, n, b':', s, t]);
    fraction_part(tm.micros, out);
}
fn fraction_part(micros: i32, out: &mut Vec<u8>) {
    if micros != 0 {
        let mut text = [b'.'; 7];
        digits::write_padded_before(&mut text, 7, u64::from(micros.unsigned_abs()), 6);
        let length = text.iter().rposition(|byte| *byte != b'0').map_or(0, |last| last + 1);
        out.extend_from_slice(&text[..length]);
    }
}
pub(crate) fn time_out(t: i64, out: &mut Vec<u8>) {
    clock_part(&time_of(t), out);
}
pub(crate) fn timetz_out(t: i64, west: i32, out: &mut Vec<u8>) {
    clock_part(&time_of(t), out);
    offset_part(-west, out);
}
/// `+02`, `-03:30`, `+01:02:03`.
pub(crate) fn offset_part(east: i32, out: &mut Vec<u8>) {
    out.push(if east < 0 { b'-' } else { b'+' });
    let v = east.abs();
    two(out, v / 3600);
    if v % 3600 != 0 {
        out.push(b':');
        two(out, v / 60 % 60);
        if v % 60 != 0 {
            out.push(b':');
            two(out, v % 60);
        }
    }
}
pub(crate) fn timestamp_out(ts: i64, ctx: &EvalContext, out: &mut Vec<u8>) -> Result<()> {
    moment_out(ts, None, ctx, out);
    Ok(())
}
pub(crate) fn timestamptz_out(ts: i64, ctx: &EvalContext, out: &mut Vec<u8>) -> Result<()> {
    if ctx.format.time_zone == "UTC" {
        moment_out(ts, Some((0, "UTC")), ctx, out);
        return Ok(());
    }
    let offset = session_zone(ctx).at_utc(ts);
    moment_out(ts, Some((offset.seconds, &offset.abbreviation)), ctx, out);
    Ok(())
}
fn moment_out(ts: i64, zone: Option<(i32, &str)>, ctx: &EvalContext, out: &mut Vec<u8>) {
    match ts {
        i64::MAX => return out.extend_from_slice(b"infinity"),
        i64::MIN => return out.extend_from_slice(b"-infinity"),
        _ => {}
    }
    let tm = tm_of(ts.saturating_add(zone.map_or(0, |z| i64::from(z.0) * USECS_PER_SEC)));
    let style = ctx.format.date_style;
    if style == DateStyle::Postgres {
        let dow = day_of_week(tm.date() + POSTGRES_EPOCH_JDATE) as usize;
        let (day_name, month) = (&DAYS[dow][..3], &MONTHS[(tm.month - 1) as usize][..3]);
        if ctx.format.date_order == DateOrder::Dmy {
            w(out, format_args!("{day_name} {:02} {month} ", tm.day));
        } else {
            w(out, format_args!("{day_name} {month} {:02} ", tm.day));
        }
        clock_part(&tm, out);
        w(out, format_args!(" {:04}", year_shown(tm.year)));
    } else {
        date_part(&tm, ctx, out);
        out.push(b' ');
        clock_part(&tm, out);
    }
    if let Some((seconds, abbreviation)) = zone {
        let word = abbreviation.starts_with(|c: char| c.is_ascii_alphabetic());
        match style {
            DateStyle::Iso => offset_part(seconds, out),
            _ if word => w(out, format_args!(" {abbreviation}")),
            DateStyle::Postgres => {
                out.push(b' ');
                offset_part(seconds, out);
            }
            _ => offset_part(seconds, out),
        }
    }
    if tm.year <= 0 {
        out.extend_from_slice(b" BC");
    }
}

// ---- conversions ----

pub(crate) fn date_to_timestamp(d: i32) -> Result<i64> {
    match d {
        i32::MAX => Ok(i64::MAX),
        i32::MIN => Ok(i64::MIN),
        _ => {
            let ts = i64::from(d); // days
            let ts = ts.checked_mul(USECS_PER_DAY).filter(|t| (MIN_TIMESTAMP..END_TIMESTAMP).contains(t));
            ts.ok_or_else(|| Error::new(sqlstate::DATETIME_FIELD_OVERFLOW, "date out of range for timestamp"))
        }
    }
}
pub(crate) fn timestamp_to_date(ts: i64) -> i32 {
    match ts {
        i64::MAX => i32::MAX,
        i64::MIN => i32::MIN,
        _ => ts.div_euclid(USECS_PER_DAY) as i32,
    }
}
pub(crate) fn local_to_utc(local: i64, zone: &Zone) -> Result<i64> {
    if !is_finite_ts(local) {
        return Ok(local);
    }
    let east = i64::from(zone.offset_for_local(local)) * USECS_PER_SEC;
    check_timestamp(local.checked_sub(east).ok_or_else(timestamp_range)?)
}
pub(crate) fn utc_to_local(utc: i64, zone: &Zone) -> Result<i64> {
    if !is_finite_ts(utc) {
        return Ok(utc);
    }
    let east = i64::from(zone.offset_at(utc)) * USECS_PER_SEC;
    check_timestamp(utc.checked_add(east).ok_or_else(timestamp_range)?)
}
/// A zone as `AT TIME ZONE` names it: abbreviation, zone name or POSIX string.
pub(crate) fn named_zone(name: &str) -> Result<Zone> {
    if name.len() > LONGEST {
        return Err(unknown_zone(name));
    }
    let lower = name.to_ascii_lowercase();
    match zone::abbreviation(&lower) {
        Some(abbreviations::AbbreviationMeaning::Fixed(s, _)) => return Ok(Zone::Fixed(*s, name.to_ascii_uppercase())),
        Some(abbreviations::AbbreviationMeaning::Zone(z)) => {
            if let Some(z) = Zone::find(z) {
                return Ok(z);
            }
        }
        None => {}
    }
    if let Ok(s) = parse::zone_offset(name) {
        // POSIX sign: positive is west.
        return Ok(Zone::Fixed(-s, name.to_string()));
    }
    Zone::find(name).ok_or_else(|| unknown_zone(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::looks::{asks, worth};

    #[test]
    fn long_texts_are_read_or_refused_soon() {
        let blanks = " ".repeat(2_000_000);
        let moment = format!("{blanks}2000-01-02{blanks}03:04:05{blanks}");
        asks(worth(moment.len()), |cx| timestamp_in(&moment, -1, cx));
        asks(worth(moment.len()), |cx| interval_in(&format!("{blanks}P1D{blanks}1 day{blanks}"), -1, cx));
        crate::looks::with_context(|cx| {
            assert_eq!(timestamp_in(&moment, -1, cx).unwrap(), timestamp_in("2000-01-02 03:04:05", -1, cx).unwrap());
            let day = interval_in("1 day", -1, cx).unwrap();
            assert_eq!(interval_in(&format!("{blanks}1{blanks}day{blanks}"), -1, cx).unwrap(), day);
            assert_eq!(interval_in(&format!("{blanks}P1D{blanks}"), -1, cx).unwrap(), day);
            for long in ["1", "x", "é", "1 "] {
                let long = format!("2000{}", long.repeat(LONGEST));
                let refused = timestamp_in(&long, -1, cx).unwrap_err();
                assert_eq!(refused.message(), format!("invalid input syntax for type timestamp: \"{long}\""));
                assert!(interval_in(&long, -1, cx).is_err());
                assert_eq!(named_zone(&long).unwrap_err().message(), format!("time zone \"{long}\" not recognized"));
            }
        });
    }
}
