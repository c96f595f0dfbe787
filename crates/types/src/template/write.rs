//! to_char for dates, times and intervals.

use super::*;
use crate::Interval;
use crate::datetime::calendar::*;
use crate::datetime::zone::Zone;
use kilndb_base::{Error, Result, sqlstate, work};
use std::fmt::Write;

/// The fields a template can show.
struct ShownFields {
    year: i32,
    month: i32,
    day: i32,
    hour: i64,
    minute: i32,
    second: i32,
    micros: i32,
    day_of_year: i32,
    /// The day of the week; 0 is Sunday.
    weekday: i32,
    /// Seconds east of UTC, abbreviation.
    zone: Option<(i32, String)>,
    interval: bool,
}

pub fn timestamp(ts: i64, zone: Option<&Zone>, template: &str) -> Result<String> {
    let offset = zone.map(|z| z.at_utc(ts));
    let east = offset.as_ref().map_or(0, |o| o.seconds);
    let tm = tm_of(ts.saturating_add(i64::from(east) * USECS_PER_SEC));
    let jd = to_julian(tm.year, tm.month, tm.day);
    let shown = ShownFields {
        year: tm.year,
        month: tm.month,
        day: tm.day,
        hour: i64::from(tm.hour),
        minute: tm.minute,
        second: tm.second,
        micros: tm.micros,
        day_of_year: jd - to_julian(tm.year, 1, 1) + 1,
        weekday: day_of_week(jd),
        zone: offset.map(|o| (o.seconds, o.abbreviation)),
        interval: false,
    };
    shown.write(template)
}
pub fn interval(v: &Interval, template: &str) -> Result<String> {
    let (year, month, day) = (v.months / 12, v.months % 12, v.days);
    let shown = ShownFields {
        year,
        month,
        day,
        hour: v.micros / USECS_PER_HOUR,
        minute: (v.micros / USECS_PER_MINUTE % 60) as i32,
        second: (v.micros / USECS_PER_SEC % 60) as i32,
        micros: (v.micros % USECS_PER_SEC) as i32,
        // The whole span, roughly.
        day_of_year: (year.wrapping_mul(12).wrapping_add(month)).wrapping_mul(30).wrapping_add(day),
        weekday: 0,
        zone: None,
        interval: true,
    };
    shown.write(template)
}

/// Zero-padded as C's printf does: a sign counts.
fn pad(out: &mut String, v: i64, width: usize) {
    let _ = write!(out, "{v:0width$}");
}
/// Pads to `width`, or one more for the sign of `like`; FM does neither.
fn number(out: &mut String, f: &TemplateField, v: i64, like: i64, width: usize) -> Result<()> {
    let start = out.len();
    pad(out, v, if f.fill { 0 } else { width + usize::from(like < 0) });
    ordinal(out, f, start)
}
fn ordinal(out: &mut String, f: &TemplateField, start: usize) -> Result<()> {
    if f.ordinal != Ordinal::None {
        let ending = ordinal_ending(out.get(start..).unwrap_or(""), f.ordinal == Ordinal::Upper)?;
        out.push_str(ending);
    }
    Ok(())
}
/// A word in the case of the pattern's name.
fn word(out: &mut String, f: &TemplateField, text: &str, width: usize) {
    let b = f.name.as_bytes();
    let upper = |i: usize| b.get(i).is_some_and(u8::is_ascii_uppercase);
    let last = b.iter().rposition(u8::is_ascii_alphabetic).unwrap_or(0);
    let shown = match (upper(0), upper(last)) {
        (true, true) => text.to_ascii_uppercase(),
        (true, false) => text.to_string(),
        _ => text.to_ascii_lowercase(),
    };
    let width = if f.fill || f.localized { 0 } else { width };
    let _ = write!(out, "{shown:<width$}");
}

impl ShownFields {
    fn write(&self, template: &str) -> Result<String> {
        let mut out = String::with_capacity(template.len() * 2);
        for node in TemplateNodes::of(template) {
            match node? {
                TemplateNode::Space(c) | TemplateNode::Separator(c) | TemplateNode::Literal(c) => out.push(c),
                TemplateNode::Field(f) => {
                    work::step(UNITS_OF_FIELD)?;
                    self.field(&mut out, &f)?
                }
            }
        }
        Ok(out)
    }
    fn not_for_interval(&self) -> Result<()> {
        if !self.interval {
            return Ok(());
        }
        Err(Error::new(sqlstate::INVALID_DATETIME_FORMAT, "invalid format specification for an interval value")
            .with_hint("Intervals are not tied to specific calendar dates."))
    }
    /// A year as shown: years before Christ count from 1.
    fn shown_year(&self, year: i32) -> i64 {
        let year = i64::from(year);
        if self.interval || year > 0 { year } else { 1 - year }
    }
    fn iso(&self) -> (i32, i32) {
        iso_year_week(self.year, self.month, self.day)
    }
    fn field(&self, out: &mut String, f: &TemplateField) -> Result<()> {
        let dotted = f.name.contains('.');
        match f.key {
            TemplateKey::HalfDay => {
                let pm = self.hour % 24 >= 12;
                word(out, f, if dotted { ["A.M.", "P.M."] } else { ["AM", "PM"] }[usize::from(pm)], 0);
            }
            TemplateKey::Era => {
                self.not_for_interval()?;
                let bc = self.year <= 0;
                word(out, f, if dotted { ["A.D.", "B.C."] } else { ["AD", "BC"] }[usize::from(bc)], 0);
            }
            TemplateKey::Hour12
            | TemplateKey::Hour24
            | TemplateKey::Minute
            | TemplateKey::Second
            | TemplateKey::Fraction(_)
            | TemplateKey::Millis
            | TemplateKey::Micros
            | TemplateKey::SecondOfDay => self.time_field(out, f)?,
            TemplateKey::Zone | TemplateKey::ZoneHour | TemplateKey::ZoneMinute | TemplateKey::Offset => {
                self.zone_field(out, f)?
            }
            TemplateKey::MonthName
            | TemplateKey::MonthShort
            | TemplateKey::DayName
            | TemplateKey::DayShort
            | TemplateKey::RomanMonth => self.name_field(out, f)?,
            TemplateKey::Exact => {}
            _ => self.date_field(out, f)?,
        }
        Ok(())
    }
    fn time_field(&self, out: &mut String, f: &TemplateField) -> Result<()> {
        let plain = TemplateField { fill: false, ..*f };
        let fraction = |digits: u8| i64::from(self.micros / 10i32.pow(6 - u32::from(digits.min(6))));
        match f.key {
            TemplateKey::Hour12 => {
                let h = if self.hour % 12 == 0 { 12 } else { self.hour % 12 };
                number(out, f, h, self.hour, 2)
            }
            TemplateKey::Hour24 => number(out, f, self.hour, self.hour, 2),
            TemplateKey::Minute => number(out, f, self.minute.into(), self.minute.into(), 2),
            TemplateKey::Second => number(out, f, self.second.into(), self.second.into(), 2),
            TemplateKey::Fraction(n) => number(out, &plain, fraction(n), 0, n.into()),
            TemplateKey::Millis => number(out, &plain, fraction(3), 0, 3),
            TemplateKey::Micros => number(out, &plain, fraction(6), 0, 6),
            _ => {
                let v = self.hour * 3600 + i64::from(self.minute) * 60 + i64::from(self.second);
                number(out, f, v, 0, 0)
            }
        }
    }
    fn zone_field(&self, out: &mut String, f: &TemplateField) -> Result<()> {
        self.not_for_interval()?;
        let (east, abbreviation) = match &self.zone {
            Some((east, a)) => (*east, a.as_str()),
            None => (0, ""),
        };
        let sign = if east >= 0 { '+' } else { '-' };
        let (h, m) = (east.abs() / 3600, east.abs() % 3600 / 60);
        match f.key {
            TemplateKey::ZoneHour => {
                let _ = write!(out, "{sign}{h:02}");
            }
            TemplateKey::ZoneMinute => {
                let _ = write!(out, "{m:02}");
            }
            TemplateKey::Offset => {
                out.push(sign);
                pad(out, h.into(), if f.fill { 0 } else { 2 });
                if east.abs() % 3600 != 0 {
                    let _ = write!(out, ":{m:02}");
                }
            }
            _ if f.name.starts_with('t') => out.push_str(&abbreviation.to_ascii_lowercase()),
            _ => out.push_str(abbreviation),
        }
        Ok(())
    }
    fn name_field(&self, out: &mut String, f: &TemplateField) -> Result<()> {
        if f.key == TemplateKey::RomanMonth {
            if self.month == 0 && self.year == 0 {
                return Ok(());
            }
            // Whole years of an interval stand at a year's end; negative months count from there backwards.
            let at = match self.month {
                0 if self.year >= 0 => 11,
                0 => 0,
                m if m < 0 => 12 + m,
                m => m - 1,
            };
            word(out, f, ROMAN_MONTHS.get(at as usize).unwrap_or(&""), 4);
            return Ok(());
        }
        self.not_for_interval()?;
        let short = |s: &'static str| s.get(..3).unwrap_or(s);
        let month = MONTHS.get((self.month - 1).max(0) as usize).copied().unwrap_or("");
        let day = DAYS.get(self.weekday.max(0) as usize).copied().unwrap_or("");
        match f.key {
            TemplateKey::MonthName => word(out, f, month, 9),
            TemplateKey::MonthShort => word(out, f, short(month), 0),
            TemplateKey::DayName => word(out, f, day, 9),
            _ => word(out, f, short(day), 0),
        }
        Ok(())
    }
    fn date_field(&self, out: &mut String, f: &TemplateField) -> Result<()> {
        let n = |out: &mut String, v: i32, width: usize| number(out, f, v.into(), v.into(), width);
        match f.key {
            TemplateKey::Month => n(out, self.month, 2),
            TemplateKey::DayOfYear => number(out, f, self.day_of_year.into(), 0, 3),
            TemplateKey::IsoDayOfYear => {
                let v = to_julian(self.year, self.month, self.day) - iso_week_start(self.iso().0) + 1;
                number(out, f, v.into(), 0, 3)
            }
            TemplateKey::DayOfMonth => number(out, f, self.day.into(), 0, 2),
            TemplateKey::DayOfWeek => {
                self.not_for_interval()?;
                n(out, self.weekday + 1, 0)
            }
            TemplateKey::IsoDayOfWeek => {
                self.not_for_interval()?;
                n(out, if self.weekday == 0 { 7 } else { self.weekday }, 0)
            }
            TemplateKey::Week => number(out, f, ((self.day_of_year - 1) / 7 + 1).into(), 0, 2),
            TemplateKey::IsoWeek => number(out, f, self.iso().1.into(), 0, 2),
            TemplateKey::Quarter if self.month == 0 => Ok(()),
            TemplateKey::Quarter => n(out, (self.month - 1) / 3 + 1, 0),
            TemplateKey::Century => {
                let c = match self.year {
                    y if self.interval => y / 100,
                    y if y > 0 => (y - 1) / 100 + 1,
                    y => y / 100 - 1,
                };
                if (-99..=99).contains(&c) { n(out, c, 2) } else { n(out, c, 0) }
            }
            TemplateKey::YearComma => {
                let y = self.shown_year(self.year);
                let start = out.len();
                let _ = write!(out, "{},", y / 1000);
                pad(out, y % 1000, 3);
                ordinal(out, f, start)
            }
            TemplateKey::Year(digits) => self.year_field(out, f, self.year, digits),
            TemplateKey::IsoYear(digits) => self.year_field(out, f, self.iso().0, digits),
            TemplateKey::WeekOfMonth => n(out, (self.day - 1) / 7 + 1, 0),
            _ => number(out, f, to_julian(self.year, self.month, self.day).into(), 0, 0),
        }
    }
    fn year_field(&self, out: &mut String, f: &TemplateField, year: i32, digits: u8) -> Result<()> {
        let y = self.shown_year(year);
        let shown = if digits >= 4 { y } else { y % 10i64.pow(digits.into()) };
        if digits == 1 {
            return number(out, &TemplateField { fill: false, ..*f }, shown, 0, 1);
        }
        number(out, f, shown, self.shown_year(self.year), digits.into())
    }
}
