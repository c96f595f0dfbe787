//! Moments as the log writes them, and the names of log files, which are made of one.

use kilndb_types::datetime::calendar::{DAYS, MONTHS, Tm, day_of_week, tm_of, to_julian};
use kilndb_types::datetime::zone::Zone;
use std::fmt::Write;

const MICROS_PER_SECOND: i64 = 1_000_000;
/// Microseconds from 1970 to 2000, where PostgreSQL's calendar begins.
const POSTGRES_EPOCH_MICROS: i64 = 946_684_800 * MICROS_PER_SECOND;

/// A moment in log_timezone.
pub struct LogMoment {
    unix_micros: i64,
    local: Tm,
    abbreviation: String,
}

impl LogMoment {
    pub fn new(unix_micros: i64, zone: &Zone) -> LogMoment {
        let timestamp = unix_micros - POSTGRES_EPOCH_MICROS;
        let offset = zone.at_utc(timestamp);
        let local = tm_of(timestamp + i64::from(offset.seconds) * MICROS_PER_SECOND);
        LogMoment { unix_micros, local, abbreviation: offset.abbreviation }
    }
    pub fn unix_seconds(&self) -> i64 {
        self.unix_micros.div_euclid(MICROS_PER_SECOND)
    }
    /// `2026-11-24 19:39:27 UTC`
    pub fn seconds(&self) -> String {
        self.text(false)
    }
    /// `2026-11-24 19:39:27.153 UTC`
    pub fn milliseconds(&self) -> String {
        self.text(true)
    }
    /// `1795549167.153`
    pub fn epoch(&self) -> String {
        let milliseconds = self.unix_micros.rem_euclid(MICROS_PER_SECOND) / 1000;
        format!("{}.{milliseconds:03}", self.unix_seconds())
    }
    fn text(&self, with_milliseconds: bool) -> String {
        let Tm { year, month, day, hour, minute, second, micros } = self.local;
        let mut text = format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}");
        if with_milliseconds {
            let _ = write!(text, ".{:03}", micros / 1000);
        }
        text.push(' ');
        text.push_str(&self.abbreviation);
        text
    }

    /// A name by a pattern with strftime's escapes. Those that are not known stay as they are.
    pub fn name(&self, pattern: &str) -> String {
        let Tm { year, month, day, hour, minute, second, .. } = self.local;
        let julian = to_julian(year, month, day);
        let weekday = DAYS.get(day_of_week(julian) as usize).copied().unwrap_or("");
        let month_name = MONTHS.get((month - 1) as usize).copied().unwrap_or("");
        let short = |name: &str| name.chars().take(3).collect::<String>();
        let mut name = String::new();
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                name.push(c);
                continue;
            }
            match chars.next() {
                Some('Y') => name.push_str(&format!("{year:04}")),
                Some('y') => name.push_str(&format!("{:02}", year.rem_euclid(100))),
                Some('m') => name.push_str(&format!("{month:02}")),
                Some('d') => name.push_str(&format!("{day:02}")),
                Some('e') => name.push_str(&format!("{day:2}")),
                Some('H') => name.push_str(&format!("{hour:02}")),
                Some('I') => name.push_str(&format!("{:02}", (hour + 11) % 12 + 1)),
                Some('p') => name.push_str(if hour < 12 { "AM" } else { "PM" }),
                Some('M') => name.push_str(&format!("{minute:02}")),
                Some('S') => name.push_str(&format!("{second:02}")),
                Some('j') => name.push_str(&format!("{:03}", julian - to_julian(year, 1, 1) + 1)),
                Some('u') => name.push_str(&((day_of_week(julian) + 6) % 7 + 1).to_string()),
                Some('w') => name.push_str(&day_of_week(julian).to_string()),
                Some('a') => name.push_str(&short(weekday)),
                Some('A') => name.push_str(weekday),
                Some('b' | 'h') => name.push_str(&short(month_name)),
                Some('B') => name.push_str(month_name),
                Some('F') => name.push_str(&format!("{year:04}-{month:02}-{day:02}")),
                Some('s') => name.push_str(&self.unix_seconds().to_string()),
                Some('Z') => name.push_str(&self.abbreviation),
                Some('%') => name.push('%'),
                Some(other) => name.extend(['%', other]),
                None => name.push('%'),
            }
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROS: i64 = 1_795_549_167_153_999;

    #[test]
    fn moments_have_the_zone_s_abbreviation() {
        let at = |zone: &str| LogMoment::new(MICROS, &Zone::find(zone).unwrap());
        assert_eq!(at("UTC").milliseconds(), "2026-11-24 19:39:27.153 UTC");
        assert_eq!(at("Europe/Berlin").seconds(), "2026-11-24 20:39:27 CET");
        assert_eq!(at("UTC").epoch(), "1795549167.153");
    }

    #[test]
    fn file_names_are_strftime_s() {
        let moment = LogMoment::new(MICROS, &Zone::utc());
        assert_eq!(moment.name("postgresql-%Y-%m-%d_%H%M%S.log"), "postgresql-2026-11-24_193927.log");
        assert_eq!(
            moment.name("%a %A %b %j %I%p %u%w %y 100%% %F %s %q%"),
            "Tue Tuesday Nov 328 07PM 22 26 100% 2026-11-24 1795549167 %q%"
        );
    }
}
