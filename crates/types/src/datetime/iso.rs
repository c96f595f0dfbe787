//! Dates and times in the form in which they are mostly written, whatever the settings: `2024-01-31 23:59:59.5+01`.
//!
//! Invariant: what is read here means the same to [`super::parse`]; anything unusual is left to that.

use super::calendar::{MARCH_OF_YEAR_0_JDATE, days_in_month};
use super::calendar::{POSTGRES_EPOCH_JDATE, USECS_PER_DAY, USECS_PER_HOUR, USECS_PER_MINUTE, USECS_PER_SEC};

/// Bytes of a date.
const DATE: usize = 10;

fn digit(byte: u8) -> Option<i32> {
    let digit = byte.wrapping_sub(b'0');
    (digit <= 9).then(|| i32::from(digit))
}

/// A number of two digits that is at most `most`.
fn two(text: &[u8], most: i32) -> Option<i32> {
    let [tens, ones] = text else { return None };
    let number = digit(*tens)? * 10 + digit(*ones)?;
    (number <= most).then_some(number)
}

/// Days since 2000-01-01. Years have four digits that cannot be taken for something else.
pub(crate) fn date(text: &str) -> Option<i32> {
    day(text.as_bytes().try_into().ok()?)
}

fn day(text: &[u8; DATE]) -> Option<i32> {
    let [c, d, y, z, b'-', m, n, b'-', e, f] = *text else { return None };
    let year = two(&[c, d], 99)? * 100 + two(&[y, z], 99)?;
    let (month, day) = (two(&[m, n], 12)?, two(&[e, f], 31)?);
    let is_day = year >= 1000 && month >= 1 && day >= 1 && day <= days_in_month(year, month);
    is_day.then(|| {
        // As `to_julian` counts, of years that are positive.
        let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
        days + MARCH_OF_YEAR_0_JDATE - POSTGRES_EPOCH_JDATE
    })
}

/// Microseconds since midnight, and what follows the time.
fn clock(text: &[u8]) -> Option<(i64, &[u8])> {
    let (head, rest) = text.split_first_chunk::<8>()?;
    let [h, i, b':', m, n, b':', s, t] = *head else { return None };
    let (hour, minute, second) = (two(&[h, i], 23)?, two(&[m, n], 59)?, two(&[s, t], 59)?);
    let whole = i64::from(hour) * USECS_PER_HOUR + i64::from(minute) * USECS_PER_MINUTE;
    let whole = whole + i64::from(second) * USECS_PER_SEC;
    let [b'.', fraction @ ..] = rest else { return Some((whole, rest)) };
    let (mut micros, mut unit, mut used) = (0, USECS_PER_SEC, 0);
    while let Some(digit) = fraction.get(used).copied().and_then(digit) {
        used += 1;
        unit /= 10;
        micros += i64::from(digit) * unit;
    }
    // More digits are rounded elsewhere.
    (1..=6).contains(&used).then(|| (whole + micros, &fraction[used..]))
}

/// Microseconds since 2000-01-01, and what follows the time.
fn moment(text: &str) -> Option<(i64, &[u8])> {
    let (date, rest) = text.as_bytes().split_first_chunk::<DATE>()?;
    let [b' ', time @ ..] = rest else { return None };
    let (micros, rest) = clock(time)?;
    Some((i64::from(day(date)?) * USECS_PER_DAY + micros, rest))
}

/// Microseconds since 2000-01-01 of a time without a zone.
pub(crate) fn timestamp(text: &str) -> Option<i64> {
    moment(text).filter(|(_, rest)| rest.is_empty()).map(|(micros, _)| micros)
}

/// Microseconds since 2000-01-01 in UTC of a time with its distance from UTC in hours, or hours and minutes.
pub(crate) fn timestamptz(text: &str) -> Option<i64> {
    let (local, zone) = moment(text)?;
    let [sign @ (b'+' | b'-'), h, i, minutes @ ..] = zone else { return None };
    let minute = match minutes {
        [] => 0,
        [b':', m, n] => two(&[*m, *n], 59)?,
        _ => return None,
    };
    let east = i64::from(two(&[*h, *i], 14)?) * USECS_PER_HOUR + i64::from(minute) * USECS_PER_MINUTE;
    Some(if *sign == b'+' { local - east } else { local + east })
}
