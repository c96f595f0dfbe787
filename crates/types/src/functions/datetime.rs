//! Date and time operators and functions.

use super::int::division_by_zero;
use crate::datetime::calendar::*;
use crate::datetime::interval::{INFINITY, NEG_INFINITY, unit as interval_unit};
use crate::datetime::parse::session_zone;
use crate::datetime::zone::Zone;
use crate::datetime::*;
use crate::numeric::Numeric;
use crate::{Datum, EvalContext, Interval, pieces};
use kilndb_base::{Error, Result, sqlstate};

fn overflow(message: &str) -> Error {
    Error::new(sqlstate::DATETIME_FIELD_OVERFLOW, message)
}
fn interval_range() -> Error {
    overflow("interval out of range")
}
fn parameter(message: impl Into<String>) -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}
fn sign(v: &Interval) -> i32 {
    if *v == INFINITY {
        1
    } else if *v == NEG_INFINITY {
        -1
    } else {
        0
    }
}
fn infinite(s: i32) -> Interval {
    if s > 0 { INFINITY } else { NEG_INFINITY }
}

// ---- interval arithmetic ----

fn interval_add(a: &Interval, b: &Interval) -> Result<Interval> {
    match (sign(a), sign(b)) {
        (0, 0) => {}
        (0, s) | (s, 0) => return Ok(infinite(s)),
        (s, t) if s == t => return Ok(infinite(s)),
        _ => return Err(interval_range()),
    }
    let sum = || {
        Some(Interval {
            months: a.months.checked_add(b.months)?,
            days: a.days.checked_add(b.days)?,
            micros: a.micros.checked_add(b.micros)?,
        })
    };
    sum().filter(|v| !v.is_infinite()).ok_or_else(interval_range)
}
fn interval_neg(v: &Interval) -> Result<Interval> {
    match sign(v) {
        0 => {}
        s => return Ok(infinite(-s)),
    }
    let neg = || {
        Some(Interval { months: v.months.checked_neg()?, days: v.days.checked_neg()?, micros: v.micros.checked_neg()? })
    };
    neg().filter(|v| !v.is_infinite()).ok_or_else(interval_range)
}
/// Subtracts the fields one by one. A sum with the negative would fail for the least interval, which has none.
fn interval_subtract(a: &Interval, b: &Interval) -> Result<Interval> {
    if a.is_infinite() || b.is_infinite() {
        return interval_add(a, &interval_neg(b)?);
    }
    let difference = || {
        Some(Interval {
            months: a.months.checked_sub(b.months)?,
            days: a.days.checked_sub(b.days)?,
            micros: a.micros.checked_sub(b.micros)?,
        })
    };
    difference().filter(|v| !v.is_infinite()).ok_or_else(interval_range)
}
/// Rounds away floating-point noise below a microsecond.
fn round_secs(v: f64) -> f64 {
    (v * 1e6).round_ties_even() / 1e6
}
fn interval_multiply(v: &Interval, f: f64) -> Result<Interval> {
    if f.is_nan() {
        return Err(interval_range());
    }
    match sign(v) {
        0 => {}
        _ if f == 0.0 => return Err(interval_range()),
        s => return Ok(infinite(if f < 0.0 { -s } else { s })),
    }
    if f.is_infinite() {
        let zero = Interval { months: 0, days: 0, micros: 0 };
        let order = crate::key::compare(0, &Datum::Interval((*v).into()), &Datum::Interval(zero.into())) as i32;
        if order == 0 {
            return Err(interval_range());
        }
        return Ok(infinite(if f < 0.0 { -order } else { order }));
    }
    scaled(v, f, false)
}
pub(crate) fn interval_divide(v: &Interval, f: f64) -> Result<Interval> {
    if f == 0.0 {
        return Err(division_by_zero());
    }
    if f.is_nan() {
        return Err(interval_range());
    }
    match sign(v) {
        0 => {}
        _ if f.is_infinite() => return Err(interval_range()),
        s => return Ok(infinite(if f < 0.0 { -s } else { s })),
    }
    scaled(v, f, true)
}
/// Fractions of months go to days (30 each), fractions of days to microseconds.
fn scaled(v: &Interval, f: f64, divide: bool) -> Result<Interval> {
    let apply = |x: f64| if divide { x / f } else { x * f };
    let int = |x: f64| if x.is_nan() || x.abs() >= 2_147_483_648.0 { Err(interval_range()) } else { Ok(x as i32) };
    let months_f = apply(f64::from(v.months));
    let months = int(months_f)?;
    let days_f = apply(f64::from(v.days));
    let mut days = int(days_f)?;
    let month_days = round_secs((months_f - f64::from(months)) * 30.0);
    let mut sec = round_secs((days_f - f64::from(days) + month_days - month_days.trunc()) * 86_400.0);
    if sec.abs() >= 86_400.0 {
        let extra = (sec / 86_400.0) as i32;
        days = days.checked_add(extra).ok_or_else(interval_range)?;
        sec -= f64::from(extra) * 86_400.0;
    }
    days = days.checked_add(month_days as i32).ok_or_else(interval_range)?;
    let micros = (apply(v.micros as f64) + sec * 1e6).round_ties_even();
    if micros.is_nan() || micros.abs() >= 9.223_372_036_854_776e18 {
        return Err(interval_range());
    }
    let r = Interval { months, days, micros: micros as i64 };
    if r.is_infinite() { Err(interval_range()) } else { Ok(r) }
}
fn justify(v: &Interval, hours: bool, days: bool) -> Result<Interval> {
    if v.is_infinite() {
        return Ok(*v);
    }
    let (mut months, mut d, mut t) = (i64::from(v.months), i64::from(v.days), v.micros);
    if hours {
        d += t / USECS_PER_DAY;
        t %= USECS_PER_DAY;
    }
    if days {
        months += d / 30;
        d %= 30;
        if months > 0 && (d < 0 || (d == 0 && t < 0)) {
            d += 30;
            months -= 1;
        } else if months < 0 && (d > 0 || (d == 0 && t > 0)) {
            d -= 30;
            months += 1;
        }
    }
    if hours {
        if d > 0 && t < 0 {
            t += USECS_PER_DAY;
            d -= 1;
        } else if d < 0 && t > 0 {
            t -= USECS_PER_DAY;
            d += 1;
        }
    }
    Ok(Interval {
        months: i32::try_from(months).map_err(|_| interval_range())?,
        days: i32::try_from(d).map_err(|_| interval_range())?,
        micros: t,
    })
}

// ---- moments and intervals ----

pub(super) fn timestamp_add(ts: i64, v: &Interval) -> Result<i64> {
    match sign(v) {
        0 => {}
        s => {
            let to = if s > 0 { i64::MAX } else { i64::MIN };
            return if is_finite_ts(ts) || ts == to { Ok(to) } else { Err(timestamp_range()) };
        }
    }
    if !is_finite_ts(ts) {
        return Ok(ts);
    }
    let mut ts = ts;
    if v.months != 0 {
        let mut tm = tm_of(ts);
        let m = i64::from(tm.year) * 12 + i64::from(tm.month) - 1 + i64::from(v.months);
        tm.year = i32::try_from(m.div_euclid(12)).map_err(|_| timestamp_range())?;
        tm.month = m.rem_euclid(12) as i32 + 1;
        tm.day = tm.day.min(days_in_month(tm.year, tm.month));
        ts = tm.timestamp().ok_or_else(timestamp_range)?;
    }
    let sum = i64::from(v.days)
        .checked_mul(USECS_PER_DAY)
        .and_then(|d| ts.checked_add(d))
        .and_then(|t| t.checked_add(v.micros))
        .ok_or_else(timestamp_range)?;
    if is_finite_ts(sum) { check_timestamp(sum) } else { Err(timestamp_range()) }
}
/// Months and days move the local time, the rest the moment.
pub(super) fn timestamptz_add(ts: i64, v: &Interval, zone: &Zone) -> Result<i64> {
    if sign(v) != 0 || !is_finite_ts(ts) {
        return timestamp_add(ts, v);
    }
    let mut ts = ts;
    if v.months != 0 || v.days != 0 {
        let local = utc_to_local(ts, zone)?;
        ts = local_to_utc(timestamp_add(local, &Interval { micros: 0, ..*v })?, zone)?;
    }
    timestamp_add(ts, &Interval { months: 0, days: 0, micros: v.micros })
}
fn tz_add(c: &EvalContext, ts: i64, v: &Interval) -> Result<i64> {
    timestamptz_add(ts, v, &session_zone(c))
}
fn subtract(a: i64, b: i64) -> Result<Interval> {
    if !is_finite_ts(a) || !is_finite_ts(b) {
        if a == b {
            return Err(interval_range());
        }
        return Ok(infinite(if a == i64::MAX || b == i64::MIN { 1 } else { -1 }));
    }
    let micros = a.checked_sub(b).ok_or_else(interval_range)?;
    justify(&Interval { months: 0, days: 0, micros }, true, false)
}
fn age(a: i64, b: i64) -> Result<Interval> {
    if !is_finite_ts(a) || !is_finite_ts(b) {
        return subtract(a, b);
    }
    let (flip, late, early) = if a < b { (-1i64, b, a) } else { (1, a, b) };
    let (x, y) = (tm_of(late), tm_of(early));
    let mut micros = x.time_micros() - y.time_micros();
    let mut days = x.day - y.day;
    let mut months = (x.year - y.year) * 12 + x.month - y.month;
    if micros < 0 {
        micros += USECS_PER_DAY;
        days -= 1;
    }
    while days < 0 {
        // Whole months are counted from the earlier time on, so that what is left over ends its month.
        days += days_in_month(y.year, y.month);
        months -= 1;
    }
    Ok(Interval { months: months * flip as i32, days: days * flip as i32, micros: micros * flip })
}
fn date_shift(d: i32, days: i32) -> Result<i32> {
    if d == i32::MIN || d == i32::MAX {
        return Ok(d);
    }
    let v = d.checked_add(days).ok_or_else(date_range)?;
    if v == i32::MAX || v == i32::MIN { Err(date_range()) } else { check_date(v) }
}
pub(super) fn date_diff(a: i32, b: i32) -> Result<i32> {
    let inf = |d: i32| d == i32::MIN || d == i32::MAX;
    if inf(a) || inf(b) {
        return Err(overflow("cannot subtract infinite dates"));
    }
    Ok(a - b)
}
fn time_shift(t: i64, v: &Interval, minus: bool) -> Result<i64> {
    if v.is_infinite() {
        return Err(overflow(if minus {
            "cannot subtract infinite interval from time"
        } else {
            "cannot add infinite interval to time"
        }));
    }
    Ok((if minus { t.wrapping_sub(v.micros) } else { t.wrapping_add(v.micros) }).rem_euclid(USECS_PER_DAY))
}
fn date_time(d: i32, t: i64) -> Result<i64> {
    let ts = date_to_timestamp(d)?;
    if !is_finite_ts(ts) {
        return Ok(ts);
    }
    check_timestamp(ts.checked_add(t).ok_or_else(timestamp_range)?)
}
fn date_timetz(d: i32, t: (i64, i32)) -> Result<i64> {
    let ts = date_time(d, t.0)?;
    if !is_finite_ts(ts) {
        return Ok(ts);
    }
    check_timestamp(ts + i64::from(t.1) * USECS_PER_SEC)
}

// ---- fields ----

#[derive(Clone, Copy, PartialEq, Debug)]
enum DatetimePart {
    Micro,
    Milli,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    Epoch,
    Dow,
    IsoDow,
    Doy,
    IsoYear,
    Julian,
    Zone,
    ZoneHour,
    ZoneMinute,
}
fn part(name: &str) -> Option<DatetimePart> {
    use DatetimePart::*;
    // At most ten characters count.
    let n = if name.len() > 10 { name.get(..10)? } else { name }.to_ascii_lowercase();
    let n = n.as_str();
    Some(match n {
        "epoch" => Epoch,
        "dow" => Dow,
        "isodow" => IsoDow,
        "doy" => Doy,
        "isoyear" => IsoYear,
        "j" | "jd" | "julian" => Julian,
        "timezone" => Zone,
        "timezone_h" => ZoneHour,
        "timezone_m" => ZoneMinute,
        _ => match n {
            "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecon" => Micro,
            "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecon" => Milli,
            "w" | "week" | "weeks" => Week,
            "qtr" | "quarter" => Quarter,
            "dec" | "decs" | "decade" | "decades" => Decade,
            "c" | "cent" | "century" | "centuries" => Century,
            "mil" | "mils" | "millennia" | "millennium" => Millennium,
            n => match interval_unit(n)? {
                crate::datetime::interval::IntervalUnit::Micros(USECS_PER_SEC) => Second,
                crate::datetime::interval::IntervalUnit::Micros(USECS_PER_MINUTE) => Minute,
                crate::datetime::interval::IntervalUnit::Micros(USECS_PER_HOUR) => Hour,
                crate::datetime::interval::IntervalUnit::Days(1) => Day,
                crate::datetime::interval::IntervalUnit::Months(1) => Month,
                crate::datetime::interval::IntervalUnit::Months(12) => Year,
                _ => return None,
            },
        },
    })
}
fn lowered(name: &str) -> Result<String> {
    pieces::map_text(name, 1, str::to_ascii_lowercase)
}
fn unknown_unit(name: &str, type_name: &str) -> Error {
    lowered(name).map_or_else(|e| e, |name| parameter(format!("unit \"{name}\" not recognized for type {type_name}")))
}
fn unsupported_unit(name: &str, type_name: &str) -> Error {
    let message = |name| format!("unit \"{name}\" not supported for type {type_name}");
    lowered(name).map_or_else(|e| e, |name| Error::unsupported(message(name)))
}
/// An extracted field: exact, with its decimals; or nothing for infinities.
enum ExtractedField {
    Exact(i128, i32),
    Infinite(bool),
    Null,
}
impl ExtractedField {
    fn int(v: impl Into<i128>) -> ExtractedField {
        ExtractedField::Exact(v.into(), 0)
    }
    fn numeric(&self) -> Datum {
        match self {
            ExtractedField::Exact(v, scale) => Datum::Numeric(Numeric::from_scaled(*v, *scale)),
            ExtractedField::Infinite(neg) => {
                Datum::Numeric(if *neg { Numeric::neg_infinity() } else { Numeric::infinity() })
            }
            ExtractedField::Null => Datum::Null,
        }
    }
    fn float(&self) -> Datum {
        match self {
            ExtractedField::Exact(v, scale) => Datum::Float8(Numeric::from_scaled(*v, *scale).to_f64()),
            ExtractedField::Infinite(neg) => Datum::Float8(if *neg { f64::NEG_INFINITY } else { f64::INFINITY }),
            ExtractedField::Null => Datum::Null,
        }
    }
}
fn infinite_field(p: DatetimePart, negative: bool, interval: bool) -> ExtractedField {
    use DatetimePart::*;
    let grows = if interval {
        matches!(p, Hour | Day | Year | Decade | Century | Millennium | Epoch)
    } else {
        matches!(p, Year | Decade | Century | Millennium | Epoch | IsoYear | Julian)
    };
    if grows { ExtractedField::Infinite(negative) } else { ExtractedField::Null }
}
fn clock_field(p: DatetimePart, tm: &Tm) -> Option<ExtractedField> {
    let us = i128::from(tm.second) * 1_000_000 + i128::from(tm.micros);
    Some(match p {
        DatetimePart::Micro => ExtractedField::int(us),
        DatetimePart::Milli => ExtractedField::Exact(us, 3),
        DatetimePart::Second => ExtractedField::Exact(us, 6),
        DatetimePart::Minute => ExtractedField::int(tm.minute),
        DatetimePart::Hour => ExtractedField::int(tm.hour),
        _ => return None,
    })
}
fn floor_div(a: i32, b: i32) -> i32 {
    a.div_euclid(b)
}
fn date_field(p: DatetimePart, tm: &Tm) -> Option<ExtractedField> {
    let y = tm.year;
    let jd = to_julian(y, tm.month, tm.day);
    // There is no year 0: BC years count from −1.
    let shown = if y > 0 { y } else { y - 1 };
    let blocks = |n: i32| if y > 0 { (y + n - 1) / n } else { -((n - 1 - (y - 1)) / n) };
    Some(match p {
        DatetimePart::Day => ExtractedField::int(tm.day),
        DatetimePart::Month => ExtractedField::int(tm.month),
        DatetimePart::Quarter => ExtractedField::int((tm.month - 1) / 3 + 1),
        DatetimePart::Week => ExtractedField::int(iso_year_week(y, tm.month, tm.day).1),
        DatetimePart::IsoYear => {
            let iso = iso_year_week(y, tm.month, tm.day).0;
            ExtractedField::int(if iso <= 0 { iso - 1 } else { iso })
        }
        DatetimePart::Year => ExtractedField::int(shown),
        DatetimePart::Decade => ExtractedField::int(if y >= 0 { y / 10 } else { -((8 - (y - 1)) / 10) }),
        DatetimePart::Century => ExtractedField::int(blocks(100)),
        DatetimePart::Millennium => ExtractedField::int(blocks(1000)),
        DatetimePart::Dow => ExtractedField::int(day_of_week(jd)),
        DatetimePart::IsoDow => ExtractedField::int(if day_of_week(jd) == 0 { 7 } else { day_of_week(jd) }),
        DatetimePart::Doy => ExtractedField::int(jd - to_julian(y, 1, 1) + 1),
        _ => return None,
    })
}
fn moment_field(name: &str, ts: i64, zone: Option<i32>, type_name: &str) -> Result<ExtractedField> {
    let p = part(name).ok_or_else(|| unknown_unit(name, type_name))?;
    if !is_finite_ts(ts) {
        if zone.is_none() && matches!(p, DatetimePart::Zone | DatetimePart::ZoneHour | DatetimePart::ZoneMinute) {
            return Err(unsupported_unit(name, type_name));
        }
        return Ok(infinite_field(p, ts < 0, false));
    }
    let east = zone.unwrap_or(0);
    let local = ts + i64::from(east) * USECS_PER_SEC;
    let tm = tm_of(local);
    if let Some(f) = clock_field(p, &tm).or_else(|| date_field(p, &tm)) {
        return Ok(f);
    }
    Ok(match p {
        DatetimePart::Epoch => ExtractedField::Exact(i128::from(ts) - i128::from(UNIX_EPOCH_TS), 6),
        DatetimePart::Julian => {
            let day = to_julian(tm.year, tm.month, tm.day);
            let fraction = tm.time_micros();
            if fraction == 0 && type_name == "date" {
                ExtractedField::int(day)
            } else {
                // Day and fraction of a day, to as many decimals as a quotient of numerics has.
                let q = Numeric::from(fraction).div(&Numeric::from(USECS_PER_DAY))?;
                let v = Numeric::from(day).add(&q);
                return Ok(ExtractedField::Exact(
                    v.scale_by_power_of_ten(v.dscale()).to_i128().unwrap_or(0),
                    v.dscale(),
                ));
            }
        }
        DatetimePart::Zone if zone.is_some() => ExtractedField::int(east),
        DatetimePart::ZoneHour if zone.is_some() => ExtractedField::int(east / 3600),
        DatetimePart::ZoneMinute if zone.is_some() => ExtractedField::int(east % 3600 / 60),
        _ => return Err(unsupported_unit(name, type_name)),
    })
}
fn tz_field(c: &EvalContext, name: &str, ts: i64) -> Result<ExtractedField> {
    let east = if is_finite_ts(ts) { session_zone(c).offset_at(ts) } else { 0 };
    moment_field(name, ts, Some(east), "timestamp with time zone")
}
fn day_field(name: &str, d: i32) -> Result<ExtractedField> {
    let p = part(name).ok_or_else(|| unknown_unit(name, "date"))?;
    use DatetimePart::*;
    if matches!(p, Micro | Milli | Second | Minute | Hour | Zone | ZoneHour | ZoneMinute) {
        return Err(unsupported_unit(name, "date"));
    }
    if d == i32::MAX || d == i32::MIN {
        return Ok(infinite_field(p, d < 0, false));
    }
    let (year, month, day) = from_julian(d + POSTGRES_EPOCH_JDATE);
    let tm = Tm { year, month, day, ..Tm::default() };
    match p {
        Epoch => Ok(ExtractedField::int((i64::from(d) + i64::from(POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE)) * 86_400)),
        Julian => Ok(ExtractedField::int(d + POSTGRES_EPOCH_JDATE)),
        p => date_field(p, &tm).ok_or_else(|| unsupported_unit(name, "date")),
    }
}
fn time_field(name: &str, t: i64, west: Option<i32>) -> Result<ExtractedField> {
    let type_name = if west.is_some() { "time with time zone" } else { "time without time zone" };
    let p = part(name).ok_or_else(|| unknown_unit(name, type_name))?;
    if let Some(f) = clock_field(p, &time_of(t)) {
        return Ok(f);
    }
    Ok(match (p, west) {
        (DatetimePart::Epoch, w) => ExtractedField::Exact(i128::from(t) + i128::from(w.unwrap_or(0)) * 1_000_000, 6),
        (DatetimePart::Zone, Some(w)) => ExtractedField::int(-w),
        (DatetimePart::ZoneHour, Some(w)) => ExtractedField::int(-w / 3600),
        (DatetimePart::ZoneMinute, Some(w)) => ExtractedField::int(-w % 3600 / 60),
        _ => return Err(unsupported_unit(name, type_name)),
    })
}
fn interval_field(name: &str, v: &Interval) -> Result<ExtractedField> {
    use DatetimePart::*;
    let p = part(name).ok_or_else(|| unknown_unit(name, "interval"))?;
    if matches!(p, Zone | ZoneHour | ZoneMinute | Dow | IsoDow | Doy | IsoYear | Julian) {
        return Err(unsupported_unit(name, "interval"));
    }
    if v.is_infinite() {
        return Ok(infinite_field(p, v.months < 0, true));
    }
    let us = v.micros;
    let (year, month) = (v.months / 12, v.months % 12);
    Ok(match p {
        Micro => ExtractedField::int(us % USECS_PER_MINUTE),
        Milli => ExtractedField::Exact(i128::from(us % USECS_PER_MINUTE), 3),
        Second => ExtractedField::Exact(i128::from(us % USECS_PER_MINUTE), 6),
        Minute => ExtractedField::int(us / USECS_PER_MINUTE % 60),
        Hour => ExtractedField::int(us / USECS_PER_HOUR),
        Day => ExtractedField::int(v.days),
        Week => ExtractedField::int(v.days / 7),
        Month => ExtractedField::int(month),
        Quarter => ExtractedField::int(if month >= 0 { month / 3 + 1 } else { -(-month / 3 + 1) }),
        Year => ExtractedField::int(year),
        Decade => ExtractedField::int(year / 10),
        Century => ExtractedField::int(year / 100),
        Millennium => ExtractedField::int(year / 1000),
        _ => {
            // A year has 365.25 days, a month 30.
            let secs = i128::from(year) * 31_557_600 + i128::from(month) * 2_592_000 + i128::from(v.days) * 86_400;
            ExtractedField::Exact(secs * 1_000_000 + i128::from(us), 6)
        }
    })
}

// ---- truncation ----

fn trunc_tm(p: DatetimePart, mut tm: Tm) -> Option<Tm> {
    use DatetimePart::*;
    let level = match p {
        Micro => return Some(tm),
        Milli => {
            tm.micros = tm.micros / 1000 * 1000;
            return Some(tm);
        }
        Second => 1,
        Minute => 2,
        Hour => 3,
        Day => 4,
        Week => {
            let jd = to_julian(tm.year, tm.month, tm.day);
            let (y, m, d) = from_julian(jd - (day_of_week(jd) + 6) % 7);
            return Some(Tm { year: y, month: m, day: d, ..Tm::default() });
        }
        Month => 5,
        Quarter => {
            return Some(Tm { year: tm.year, month: 3 * ((tm.month - 1) / 3) + 1, day: 1, ..Tm::default() });
        }
        Year => 6,
        Decade => {
            let year = if tm.year > 0 { tm.year / 10 * 10 } else { -((8 - (tm.year - 1)) / 10) * 10 };
            return Some(Tm { year, month: 1, day: 1, ..Tm::default() });
        }
        Century | Millennium => {
            let n = if p == Century { 100 } else { 1000 };
            let year = floor_div(tm.year - 1, n) * n + 1;
            return Some(Tm { year, month: 1, day: 1, ..Tm::default() });
        }
        _ => return None,
    };
    tm.micros = 0;
    if level >= 2 {
        tm.second = 0;
    }
    if level >= 3 {
        tm.minute = 0;
    }
    if level >= 4 {
        tm.hour = 0;
    }
    if level >= 5 {
        tm.day = 1;
    }
    if level >= 6 {
        tm.month = 1;
    }
    Some(tm)
}
fn trunc_local(name: &str, ts: i64, type_name: &str) -> Result<i64> {
    let p = part(name).ok_or_else(|| unknown_unit(name, type_name))?;
    if trunc_tm(p, Tm { year: 2000, month: 1, day: 1, ..Tm::default() }).is_none() {
        return Err(unsupported_unit(name, type_name));
    }
    if !is_finite_ts(ts) {
        return Ok(ts);
    }
    let tm = trunc_tm(p, tm_of(ts)).ok_or_else(|| unsupported_unit(name, type_name))?;
    tm.timestamp().ok_or_else(timestamp_range)
}
fn trunc_tz(name: &str, ts: i64, zone: &Zone) -> Result<i64> {
    let type_name = "timestamp with time zone";
    if !is_finite_ts(ts) {
        return trunc_local(name, ts, type_name);
    }
    let east = i64::from(zone.offset_at(ts)) * USECS_PER_SEC;
    let local = trunc_local(name, ts + east, type_name)?;
    // Within a day the offset stays; from a day on it is looked up anew.
    let keep = matches!(
        part(name),
        Some(
            DatetimePart::Micro
                | DatetimePart::Milli
                | DatetimePart::Second
                | DatetimePart::Minute
                | DatetimePart::Hour
        )
    );
    if keep { Ok(local - east) } else { local_to_utc(local, zone) }
}
fn trunc_interval(name: &str, v: &Interval) -> Result<Interval> {
    use DatetimePart::*;
    let p = part(name).ok_or_else(|| unknown_unit(name, "interval"))?;
    let week = || {
        Error::unsupported("unit \"week\" not supported for type interval")
            .with_detail("Months usually have fractional weeks.")
    };
    if p == Week {
        return Err(week());
    }
    if matches!(p, Zone | ZoneHour | ZoneMinute | Dow | IsoDow | Doy | IsoYear | Julian | Epoch) {
        return Err(unsupported_unit(name, "interval"));
    }
    if v.is_infinite() {
        return Ok(*v);
    }
    let months = |n: i32| Interval { months: v.months / n * n, days: 0, micros: 0 };
    let clock = |n: i64| Interval { micros: v.micros / n * n, ..*v };
    Ok(match p {
        Micro => *v,
        Milli => clock(1000),
        Second => clock(USECS_PER_SEC),
        Minute => clock(USECS_PER_MINUTE),
        Hour => clock(USECS_PER_HOUR),
        Day => clock(i64::MAX),
        Month => months(1),
        Quarter => months(3),
        Year => months(12),
        Decade => months(120),
        Century => months(1200),
        _ => months(12_000),
    })
}
fn bin(stride: &Interval, ts: i64, origin: i64) -> Result<i64> {
    if !is_finite_ts(ts) {
        return Ok(ts);
    }
    if !is_finite_ts(origin) {
        return Err(overflow("origin out of range"));
    }
    if stride.is_infinite() {
        return Err(overflow("timestamps cannot be binned into infinite intervals"));
    }
    if stride.months != 0 {
        return Err(Error::unsupported("timestamps cannot be binned into intervals containing months or years"));
    }
    let step = i64::from(stride.days)
        .checked_mul(USECS_PER_DAY)
        .and_then(|d| d.checked_add(stride.micros))
        .ok_or_else(interval_range)?;
    if step <= 0 {
        return Err(overflow("stride must be greater than zero"));
    }
    let diff = ts.checked_sub(origin).ok_or_else(interval_range)?;
    let floor = diff.div_euclid(step).checked_mul(step).ok_or_else(timestamp_range)?;
    check_timestamp(origin.checked_add(floor).ok_or_else(timestamp_range)?)
}

// ---- constructors ----

fn date_value(y: i32, m: i32, d: i32) -> Result<Tm> {
    let bad = || overflow(&format!("date field value out of range: {y}-{m:02}-{d:02}"));
    if y == 0 {
        return Err(bad());
    }
    let year = if y < 0 { y + 1 } else { y };
    if !(1..=12).contains(&m) || d < 1 || d > days_in_month(year, m) {
        return Err(bad());
    }
    if !is_valid_julian(year, m) {
        return Err(overflow(&format!("date out of range: {y}-{m:02}-{d:02}")));
    }
    Ok(Tm { year, month: m, day: d, ..Tm::default() })
}
fn time_value(h: i32, m: i32, s: f64) -> Result<i64> {
    let shown = format!("{h}:{m:02}:{}", {
        let t = crate::io::float::general(s, 6);
        if t.len() < 2 { format!("0{t}") } else { t }
    });
    let bad = || overflow(&format!("time field value out of range: {shown}"));
    if s.is_nan() || !(0.0..=60.0).contains(&s) || !(0..=24).contains(&h) || !(0..=59).contains(&m) {
        return Err(bad());
    }
    let us = (s * 1e6).round_ties_even() as i64;
    if h == 24 && (m > 0 || us > 0) {
        return Err(bad());
    }
    Ok((i64::from(h) * 60 + i64::from(m)) * USECS_PER_MINUTE + us)
}
fn moment_value(y: i32, mo: i32, d: i32, h: i32, m: i32, s: f64) -> Result<i64> {
    let tm = date_value(y, mo, d).map_err(|e| {
        if e.message().starts_with("date field") {
            e
        } else {
            overflow(&format!("timestamp out of range: {y}-{mo:02}-{d:02} {h}:{m:02}:{s:02}"))
        }
    })?;
    let time = time_value(h, m, s)?;
    check_timestamp(tm.timestamp().and_then(|t| t.checked_add(time)).ok_or_else(timestamp_range)?)
}
fn interval_value(y: i32, mo: i32, w: i32, d: i32, h: i32, m: i32, s: f64) -> Result<Interval> {
    if !s.is_finite() {
        return Err(interval_range());
    }
    let v = || {
        let secs = (s * 1e6).round_ties_even();
        if secs.abs() > 9.2e18 {
            return None;
        }
        Some(Interval {
            months: y.checked_mul(12)?.checked_add(mo)?,
            days: w.checked_mul(7)?.checked_add(d)?,
            micros: (i64::from(h) * USECS_PER_HOUR)
                .checked_add(i64::from(m) * USECS_PER_MINUTE)?
                .checked_add(secs as i64)?,
        })
    };
    v().filter(|v| !v.is_infinite()).ok_or_else(interval_range)
}
fn unix_float(v: f64) -> Result<i64> {
    if v.is_nan() {
        return Err(overflow("timestamp cannot be NaN"));
    }
    if v.is_infinite() {
        return Ok(if v > 0.0 { i64::MAX } else { i64::MIN });
    }
    let range = || overflow(&format!("timestamp out of range: \"{}\"", crate::io::float::general(v, 6)));
    let us = ((v - 946_684_800.0) * 1e6).round_ties_even();
    if !(-2.2e17..9.2234e18).contains(&us) {
        return Err(range());
    }
    check_timestamp(us as i64).map_err(|_| range())
}
fn zone_of_interval(v: &Interval) -> Result<Zone> {
    let shown = || {
        let mut out = Vec::new();
        interval_out(v, crate::context::IntervalStyle::Postgres, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    };
    if v.is_infinite() {
        return Err(parameter("interval time zone must be finite").with_detail(shown()));
    }
    if v.months != 0 || v.days != 0 {
        return Err(parameter(format!("interval time zone \"{}\" must not include months or days", shown())));
    }
    Ok(Zone::Fixed((v.micros / USECS_PER_SEC) as i32, String::new()))
}
fn timetz_at(c: &EvalContext, t: (i64, i32), zone: &Zone) -> Datum {
    let east = zone.offset_at(c.transaction_timestamp);
    let utc = t.0 + i64::from(t.1) * USECS_PER_SEC;
    Datum::TimeTz((utc + i64::from(east) * USECS_PER_SEC).rem_euclid(USECS_PER_DAY), -east)
}
/// Whether (s1, e1) and (s2, e2) overlap; NULLs as SQL has them.
fn overlap(args: &[Datum], end: impl Fn(&Datum, &Datum) -> Result<Datum>) -> Result<Datum> {
    let [s1, e1, s2, e2] = args else { return Err(Error::internal("overlaps wants four arguments")) };
    let close = |s: &Datum, e: &Datum| match e {
        Datum::Interval(_) if s.is_null() => Ok(Datum::Null),
        Datum::Interval(_) => end(s, e),
        _ => Ok(e.clone()),
    };
    let (e1, e2) = (close(s1, e1)?, close(s2, e2)?);
    let order = |a: &Datum, b: &Datum| crate::key::compare(0, a, b);
    let sort = |s: &Datum, e: &Datum| match (s.is_null(), e.is_null()) {
        (true, _) => (e.clone(), Datum::Null),
        (false, true) => (s.clone(), Datum::Null),
        _ if order(s, e).is_gt() => (e.clone(), s.clone()),
        _ => (s.clone(), e.clone()),
    };
    let ((a, ae), (b, be)) = (sort(s1, &e1), sort(s2, &e2));
    if a.is_null() || b.is_null() {
        return Ok(Datum::Null);
    }
    let (first_end, later, later_end) = match order(&a, &b) {
        std::cmp::Ordering::Greater => (be, a, ae),
        std::cmp::Ordering::Less => (ae, b, be),
        _ => return Ok(if ae.is_null() || be.is_null() { Datum::Null } else { Datum::Bool(true) }),
    };
    if first_end.is_null() {
        return Ok(Datum::Null);
    }
    if order(&later, &first_end).is_lt() {
        return Ok(Datum::Bool(true));
    }
    // One end is all that is known of the later period: the other may lie anywhere.
    Ok(if later_end.is_null() { Datum::Null } else { Datum::Bool(false) })
}
macro_rules! overlaps {
    ($($name:ident)*) => { $(
        pub fn $name(c: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
            overlap(args, |s, e| {
                let v = super::get::interval(e)?;
                Ok(match s {
                    Datum::Timestamp(t) => Datum::Timestamp(timestamp_add(*t, &v)?),
                    Datum::TimestampTz(t) => Datum::TimestampTz(tz_add(c, *t, &v)?),
                    Datum::Time(t) => Datum::Time(time_shift(*t, &v, false)?),
                    other => other.clone(),
                })
            })
        }
    )* };
}
overlaps! { any_overlaps }

use Datum::{Date, Time, TimeTz, Timestamp, TimestampTz};

scalars! {
    fn date_mi(_c; a: date, b: date) = date_diff(a, b)?;
    fn date_pli(_c; a: date, n: int4) = Date(date_shift(a, n)?);
    fn date_mii(_c; a: date, n: int4) = Date(date_shift(a, n.checked_neg().ok_or_else(date_range)?)?);
    fn p2550_integer_pl_date(_c; n: int4, a: date) = Date(date_shift(a, n)?);
    fn date_pl_interval(_c; a: date, v: interval) = Timestamp(timestamp_add(date_to_timestamp(a)?, &v)?);
    fn date_mi_interval(_c; a: date, v: interval) = Timestamp(timestamp_add(date_to_timestamp(a)?, &interval_neg(&v)?)?);
    fn p2546_interval_pl_date(_c; v: interval, a: date) = Timestamp(timestamp_add(date_to_timestamp(a)?, &v)?);
    fn datetime_timestamp(_c; d: date, t: time) = Timestamp(date_time(d, t)?);
    fn p1296_timedate_pl(_c; t: time, d: date) = Timestamp(date_time(d, t)?);
    fn datetimetz_timestamptz(_c; d: date, t: timetz) = TimestampTz(date_timetz(d, t)?);
    fn p1298_timetzdate_pl(_c; t: timetz, d: date) = TimestampTz(date_timetz(d, t)?);
    fn p1176_timestamptz(c; d: date, t: time) = TimestampTz(local_to_utc(date_time(d, t)?, &session_zone(c))?);
    fn date_finite(_c; d: date) = d != i32::MAX && d != i32::MIN;
    fn timestamp_finite(_c; t: timestamp) = is_finite_ts(t);
    fn interval_finite(_c; v: interval) = !v.is_infinite();
    fn timestamp_mi(_c; a: timestamp, b: timestamp) = subtract(a, b)?;
    fn timestamp_pl_interval(_c; t: timestamp, v: interval) = Timestamp(timestamp_add(t, &v)?);
    fn timestamp_mi_interval(_c; t: timestamp, v: interval) = Timestamp(timestamp_add(t, &interval_neg(&v)?)?);
    fn p2548_interval_pl_timestamp(_c; v: interval, t: timestamp) = Timestamp(timestamp_add(t, &v)?);
    fn timestamptz_pl_interval(c; t: timestamp, v: interval) = TimestampTz(tz_add(c, t, &v)?);
    fn timestamptz_mi_interval(c; t: timestamp, v: interval) = TimestampTz(tz_add(c, t, &interval_neg(&v)?)?);
    fn p2549_interval_pl_timestamptz(c; v: interval, t: timestamp) = TimestampTz(tz_add(c, t, &v)?);
    fn timestamptz_pl_interval_at_zone(_c; t: timestamp, v: interval, z: text) = TimestampTz(timestamptz_add(t, &v, &named_zone(z)?)?);
    fn timestamptz_mi_interval_at_zone(_c; t: timestamp, v: interval, z: text) = TimestampTz(timestamptz_add(t, &interval_neg(&v)?, &named_zone(z)?)?);
    fn interval_pl(_c; a: interval, b: interval) = interval_add(&a, &b)?;
    fn interval_mi(_c; a: interval, b: interval) = interval_subtract(&a, &b)?;
    fn interval_um(_c; a: interval) = interval_neg(&a)?;
    fn interval_mul(_c; a: interval, f: float8) = interval_multiply(&a, f)?;
    fn mul_d_interval(_c; f: float8, a: interval) = interval_multiply(&a, f)?;
    fn interval_div(_c; a: interval, f: float8) = interval_divide(&a, f)?;
    fn interval_justify_interval(_c; a: interval) = justify(&a, true, true)?;
    fn interval_justify_hours(_c; a: interval) = justify(&a, true, false)?;
    fn interval_justify_days(_c; a: interval) = justify(&a, false, true)?;
    fn time_mi_time(_c; a: time, b: time) = Interval { months: 0, days: 0, micros: a - b };
    fn time_pl_interval(_c; t: time, v: interval) = Time(time_shift(t, &v, false)?);
    fn time_mi_interval(_c; t: time, v: interval) = Time(time_shift(t, &v, true)?);
    fn p1848_interval_pl_time(_c; v: interval, t: time) = Time(time_shift(t, &v, false)?);
    fn timetz_pl_interval(_c; t: timetz, v: interval) = TimeTz(time_shift(t.0, &v, false)?, t.1);
    fn timetz_mi_interval(_c; t: timetz, v: interval) = TimeTz(time_shift(t.0, &v, true)?, t.1);
    fn p2547_interval_pl_timetz(_c; v: interval, t: timetz) = TimeTz(time_shift(t.0, &v, false)?, t.1);
    fn timestamp_age(_c; a: timestamp, b: timestamp) = age(a, b)?;
    fn timestamptz_age(c; a: timestamp, b: timestamp) = { let z = session_zone(c); age(utc_to_local(a, &z)?, utc_to_local(b, &z)?)? };
    fn p2059_age(c; a: timestamp) = age(i64::from(local_now(c).date()) * USECS_PER_DAY, a)?;
    fn p1386_age(c; a: timestamp) = age(i64::from(local_now(c).date()) * USECS_PER_DAY, utc_to_local(a, &session_zone(c))?)?;
    fn timestamp_part(_c; f: text, t: timestamp) = moment_field(f, t, None, "timestamp without time zone")?.float();
    fn timestamptz_part(c; f: text, t: timestamp) = tz_field(c, f, t)?.float();
    fn interval_part(_c; f: text, v: interval) = interval_field(f, &v)?.float();
    fn time_part(_c; f: text, t: time) = time_field(f, t, None)?.float();
    fn timetz_part(_c; f: text, t: timetz) = time_field(f, t.0, Some(t.1))?.float();
    fn p1384_date_part(_c; f: text, d: date) = moment_field(f, date_to_timestamp(d)?, None, "timestamp without time zone")?.float();
    fn extract_timestamp(_c; f: text, t: timestamp) = moment_field(f, t, None, "timestamp without time zone")?.numeric();
    fn extract_timestamptz(c; f: text, t: timestamp) = tz_field(c, f, t)?.numeric();
    fn extract_interval(_c; f: text, v: interval) = interval_field(f, &v)?.numeric();
    fn extract_time(_c; f: text, t: time) = time_field(f, t, None)?.numeric();
    fn extract_timetz(_c; f: text, t: timetz) = time_field(f, t.0, Some(t.1))?.numeric();
    fn extract_date(_c; f: text, d: date) = day_field(f, d)?.numeric();
    fn timestamp_trunc(_c; f: text, t: timestamp) = Timestamp(trunc_local(f, t, "timestamp without time zone")?);
    fn timestamptz_trunc(c; f: text, t: timestamp) = TimestampTz(trunc_tz(f, t, &session_zone(c))?);
    fn timestamptz_trunc_zone(_c; f: text, t: timestamp, z: text) = TimestampTz(trunc_tz(f, t, &named_zone(z)?)?);
    fn interval_trunc(_c; f: text, v: interval) = trunc_interval(f, &v)?;
    fn timestamp_bin(_c; s: interval, t: timestamp, o: timestamp) = Timestamp(bin(&s, t, o)?);
    fn timestamptz_bin(_c; s: interval, t: timestamp, o: timestamp) = TimestampTz(bin(&s, t, o)?);
    fn make_date(_c; y: int4, m: int4, d: int4) = Date(date_value(y, m, d)?.date());
    fn make_time(_c; h: int4, m: int4, s: float8) = Time(time_value(h, m, s)?);
    fn make_timestamp(_c; y: int4, mo: int4, d: int4, h: int4, m: int4, s: float8) = Timestamp(moment_value(y, mo, d, h, m, s)?);
    fn make_timestamptz(c; y: int4, mo: int4, d: int4, h: int4, m: int4, s: float8) = TimestampTz(local_to_utc(moment_value(y, mo, d, h, m, s)?, &session_zone(c))?);
    fn make_timestamptz_at_timezone(_c; y: int4, mo: int4, d: int4, h: int4, m: int4, s: float8, z: text) = TimestampTz(local_to_utc(moment_value(y, mo, d, h, m, s)?, &input_zone(z)?)?);
    fn make_interval(_c; y: int4, mo: int4, w: int4, d: int4, h: int4, m: int4, s: float8) = interval_value(y, mo, w, d, h, m, s)?;
    fn float8_timestamptz(_c; v: float8) = TimestampTz(unix_float(v)?);
    fn timestamp_zone(_c; z: text, t: timestamp) = TimestampTz(local_to_utc(t, &named_zone(z)?)?);
    fn timestamptz_zone(_c; z: text, t: timestamp) = Timestamp(utc_to_local(t, &named_zone(z)?)?);
    fn timestamp_izone(_c; v: interval, t: timestamp) = TimestampTz(local_to_utc(t, &zone_of_interval(&v)?)?);
    fn timestamptz_izone(_c; v: interval, t: timestamp) = Timestamp(utc_to_local(t, &zone_of_interval(&v)?)?);
    fn timetz_zone(c; z: text, t: timetz) = timetz_at(c, t, &named_zone(z)?);
    fn timetz_izone(c; v: interval, t: timetz) = timetz_at(c, t, &zone_of_interval(&v)?);
    fn timestamp_at_local(c; t: timestamp) = TimestampTz(local_to_utc(t, &session_zone(c))?);
    fn timestamptz_at_local(c; t: timestamp) = Timestamp(utc_to_local(t, &session_zone(c))?);
    fn timetz_at_local(c; t: timetz) = timetz_at(c, t, &session_zone(c));
    fn now(c;) = TimestampTz(c.transaction_timestamp);
    fn statement_timestamp(c;) = TimestampTz(c.statement_timestamp);
    fn clock_timestamp(c;) = TimestampTz(c.host.clock_unix_micros() + UNIX_EPOCH_TS);
    fn timeofday(c;) = now_text(c);
}
/// make_timestamptz's zone: a name, or an offset with the SQL sign.
fn input_zone(z: &str) -> Result<Zone> {
    match crate::datetime::parse::zone_offset(z) {
        Ok(s) => Ok(Zone::Fixed(s, z.to_string())),
        Err(crate::datetime::parse::DatetimeProblem::ZoneOverflow) => {
            Err(parameter(format!("numeric time zone \"{z}\" out of range")))
        }
        Err(_) if z.starts_with(|c: char| c.is_ascii_digit()) => {
            Err(parameter(format!("invalid input syntax for type numeric time zone: \"{z}\""))
                .with_hint("Numeric time zones must have \"-\" or \"+\" as first character."))
        }
        Err(_) => named_zone(z),
    }
}
fn now_text(c: &EvalContext) -> String {
    let ts = c.host.clock_unix_micros() + UNIX_EPOCH_TS;
    let o = session_zone(c).at_utc(ts);
    let tm = tm_of(ts + i64::from(o.seconds) * USECS_PER_SEC);
    let dow = day_of_week(to_julian(tm.year, tm.month, tm.day)) as usize;
    format!(
        "{} {} {:02} {:02}:{:02}:{:02}.{:06} {} {}",
        &DAYS[dow][..3],
        &MONTHS[(tm.month - 1) as usize][..3],
        tm.day,
        tm.hour,
        tm.minute,
        tm.second,
        tm.micros,
        tm.year,
        o.abbreviation
    )
}
