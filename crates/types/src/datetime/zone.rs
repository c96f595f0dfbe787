//! Time zones: names, abbreviations, POSIX strings; offsets through jiff's data.

use super::abbreviations::{ABBREVIATIONS, AbbreviationMeaning};
use super::calendar::*;
use jiff::tz::TimeZone;

#[derive(Clone, Debug)]
pub enum Zone {
    /// Seconds east of UTC, and the abbreviation shown.
    Fixed(i32, String),
    Named(TimeZone),
}
/// The offset in effect: seconds east of UTC, daylight saving, abbreviation.
pub struct ZoneOffset {
    pub seconds: i32,
    pub dst: bool,
    pub abbreviation: String,
}

const UNIX_TO_PG_SECS: i64 = 946_684_800;
/// A span after which the calendar and weekdays repeat.
const CYCLE_SECS: i64 = 146_097 * 86_400;
const LAST_DIRECT_SECS: i64 = 240_000_000_000;
const FIRST_DIRECT_SECS: i64 = -370_000_000_000;

impl Zone {
    pub fn utc() -> Zone {
        Zone::Fixed(0, "UTC".into())
    }
    /// The zone that is called by a name, a POSIX specification, or the session's spelling of a fixed offset
    /// (`<+03>-03`).
    pub fn find(name: &str) -> Option<Zone> {
        if name.eq_ignore_ascii_case("utc") || name.eq_ignore_ascii_case("gmt") {
            return Some(Zone::Fixed(0, name.to_ascii_uppercase()));
        }
        if let Ok(tz) = TimeZone::get(name) {
            return Some(Zone::Named(tz));
        }
        posix(name)
    }
    /// As the list of zones spells it; None: it is not in there.
    pub fn name(&self) -> Option<&str> {
        if let Zone::Named(tz) = self { tz.iana_name() } else { None }
    }
    /// What is in effect at a moment (microseconds since 2000 UTC).
    pub fn at_utc(&self, ts: i64) -> ZoneOffset {
        match self {
            Zone::Fixed(seconds, abbreviation) => {
                ZoneOffset { seconds: *seconds, dst: false, abbreviation: abbreviation.clone() }
            }
            Zone::Named(tz) => {
                let secs = ts.div_euclid(USECS_PER_SEC).saturating_add(UNIX_TO_PG_SECS);
                let stamp = jiff::Timestamp::from_second(near(secs)).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
                let info = tz.to_offset_info(stamp);
                ZoneOffset {
                    seconds: info.offset().seconds(),
                    dst: info.dst().is_dst(),
                    abbreviation: info.abbreviation().to_string(),
                }
            }
        }
    }
    pub(crate) fn offset_at(&self, ts: i64) -> i32 {
        match self {
            Zone::Fixed(seconds, _) => *seconds,
            Zone::Named(tz) => {
                let secs = ts.div_euclid(USECS_PER_SEC).saturating_add(UNIX_TO_PG_SECS);
                let stamp = jiff::Timestamp::from_second(near(secs)).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
                tz.to_offset(stamp).seconds()
            }
        }
    }
    /// The offset for a local time. In a gap or fold the standard-time reading wins, as PostgreSQL has it:
    /// a time that does not exist is read with the offset before the jump.
    pub(crate) fn offset_for_local(&self, local: i64) -> i32 {
        let Zone::Named(_) = self else {
            return self.offset_at(local);
        };
        const DAY: i64 = USECS_PER_DAY;
        let before = self.offset_at(local.saturating_sub(DAY));
        let after = self.offset_at(local.saturating_add(DAY));
        if before == after {
            // Two changes within two days do not happen close enough to matter.
            let there = local.saturating_sub(i64::from(before) * USECS_PER_SEC);
            return if self.offset_at(there) == before { before } else { self.offset_at(there) };
        }
        let reads = |off: i32| {
            let utc = local.saturating_sub(i64::from(off) * USECS_PER_SEC);
            self.offset_at(utc) == off
        };
        match (reads(before), reads(after)) {
            (true, false) => before,
            (false, true) => after,
            // Ambiguous: the standard-time reading. Missing: the one before the jump.
            (true, true) => {
                let utc = local.saturating_sub(i64::from(after) * USECS_PER_SEC);
                if self.at_utc(utc).dst { before } else { after }
            }
            (false, false) => before,
        }
    }
}
/// Brings a moment into the range jiff knows, at the same place of the calendar's 400-year cycle.
fn near(secs: i64) -> i64 {
    if secs > LAST_DIRECT_SECS {
        secs - ((secs - LAST_DIRECT_SECS) / CYCLE_SECS + 1) * CYCLE_SECS
    } else if secs < FIRST_DIRECT_SECS {
        secs + ((FIRST_DIRECT_SECS - secs) / CYCLE_SECS + 1) * CYCLE_SECS
    } else {
        secs
    }
}

/// POSIX zone strings. PostgreSQL takes plain `ABC5` and `ABC5DEF` with the rules of the United States.
fn posix(name: &str) -> Option<Zone> {
    let b = name.as_bytes();
    let (label, rest) = if b.first() == Some(&b'<') {
        let end = name.find('>')?;
        (&name[1..end], &name[end + 1..])
    } else {
        let end = b.iter().position(|c| !c.is_ascii_alphabetic())?;
        if end < 3 {
            return None;
        }
        (&name[..end], &name[end..])
    };
    let end = rest.find(|c: char| !(c.is_ascii_digit() || matches!(c, '+' | '-' | ':'))).unwrap_or(rest.len());
    let offset = &rest[..end];
    if offset.is_empty() {
        return None;
    }
    if end == rest.len() {
        let west = hms(offset)?;
        return Some(Zone::Fixed(-west, label.to_string()));
    }
    let spec = if rest.contains(',') { name.to_string() } else { format!("{name},M3.2.0,M11.1.0") };
    TimeZone::posix(&spec).ok().map(Zone::Named)
}
/// The name of a zone that is always so many seconds east of UTC, as SET TIME ZONE makes it of a number of hours.
pub fn fixed_name(east_seconds: i32) -> String {
    let (here, there) = if east_seconds < 0 { ('-', '+') } else { ('+', '-') };
    let seconds = east_seconds.unsigned_abs();
    let mut offset = format!("{:02}", seconds / 3600);
    if !seconds.is_multiple_of(3600) {
        offset += &format!(":{:02}", seconds / 60 % 60);
    }
    if !seconds.is_multiple_of(60) {
        offset += &format!(":{:02}", seconds % 60);
    }
    format!("<{here}{offset}>{there}{offset}")
}
fn hms(text: &str) -> Option<i32> {
    let (neg, body) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let mut parts = body.split(':');
    let mut total = parts.next()?.parse::<i32>().ok().filter(|h| *h < 168)? * 3600;
    for unit in [60, 1] {
        if let Some(p) = parts.next() {
            total += p.parse::<i32>().ok().filter(|v| *v < 60)? * unit;
        }
    }
    Some(if neg { -total } else { total })
}

/// An abbreviation of the default set: fixed seconds east of UTC, or a zone to ask.
pub fn abbreviation(word: &str) -> Option<&'static AbbreviationMeaning> {
    ABBREVIATIONS.binary_search_by(|e| e.0.cmp(word)).ok().and_then(|i| ABBREVIATIONS.get(i)).map(|e| &e.1)
}
