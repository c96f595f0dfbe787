//! to_date and to_timestamp: text read by a template.

use super::*;
use crate::EvalContext;
use crate::datetime::abbreviations::AbbreviationMeaning;
use crate::datetime::calendar::*;
use crate::datetime::parse::{DatetimeProblem, session_zone};
use crate::datetime::zone::{Zone, abbreviation};
use crate::datetime::{self, problem};
use crate::pieces;
use kilndb_base::{Error, Result, sqlstate, work};

/// A zone that the text named.
enum NamedZone {
    /// Seconds east of UTC.
    Fixed(i32),
    Zone(Zone),
}
/// What the text gave; 0 is not given.
#[derive(Default)]
struct ReadFields {
    convention: Option<CalendarConvention>,
    hour: i32,
    minute: i32,
    second: i32,
    second_of_day: i32,
    millis: i32,
    micros: i32,
    pm: i32,
    twelve_hour: bool,
    /// 1 is Sunday.
    weekday: i32,
    day: i32,
    day_of_year: i32,
    month: i32,
    year: i32,
    bc: i32,
    week: i32,
    week_of_month: i32,
    century: i32,
    julian: i32,
    year_digits: u8,
    fraction_digits: u8,
    zone_sign: i32,
    zone_hour: i32,
    zone_minute: i32,
    zone: Option<NamedZone>,
}
/// The moment read, before a zone is applied.
pub struct ReadMoment {
    pub tm: Tm,
    pub zone: Option<i32>,
    /// Digits of FF1 to FF6, or 0.
    pub fraction_digits: u8,
}

struct TemplateScanner<'a> {
    text: &'a str,
    at: usize,
    /// The node behind the one that is read.
    following: Option<TemplateNode<'a>>,
    out: ReadFields,
}

fn format_error(message: String) -> Error {
    Error::new(sqlstate::INVALID_DATETIME_FORMAT, message)
}
const HINT_FM: &str = "If your source string is not fixed-width, try using the \"FM\" modifier.";

/// Sets a field that may be given twice only with one value.
fn set(field: &mut i32, value: i32, name: &str) -> Result<()> {
    if *field != 0 && *field != value {
        return Err(format_error(format!("conflicting values for \"{name}\" field in formatting string"))
            .with_detail("This value contradicts a previous setting for the same field type."));
    }
    *field = value;
    Ok(())
}
/// Years of one to three digits lie around 2020.
fn near_2020(year: i32) -> i32 {
    match year {
        y if y < 70 => y + 2000,
        y if y < 100 => y + 1900,
        y if y < 520 => y + 2000,
        y if y < 1000 => y + 1000,
        y => y,
    }
}

impl<'a> TemplateScanner<'a> {
    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }
    fn done(&self) -> bool {
        self.at >= self.text.len()
    }
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or("")
    }
    fn skip_char(&mut self) {
        self.at += self.rest().chars().next().map_or(0, char::len_utf8);
    }
    fn skip_spaces(&mut self) -> Result<i32> {
        let count = pieces::count_leading(self.rest_bytes(), is_space)?;
        self.at += count;
        Ok(count as i32)
    }
    fn rest_bytes(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or(&[])
    }
    fn scan(&mut self, mut nodes: TemplateNodes<'a>) -> Result<()> {
        let mut exact = false;
        // Characters skipped beyond what the template has.
        let mut extra = 0;
        let mut is_first = true;
        self.following = nodes.next().transpose()?;
        while let Some(node) = self.following {
            if self.done() {
                break;
            }
            self.following = nodes.next().transpose()?;
            let loosens = match node {
                TemplateNode::Field(f) => f.key != TemplateKey::Exact,
                _ => is_first,
            };
            is_first = false;
            if !exact && loosens {
                extra += self.skip_spaces()?;
            }
            match node {
                TemplateNode::Space(_) | TemplateNode::Separator(_) if exact => self.skip_char(),
                TemplateNode::Space(_) | TemplateNode::Separator(_) => {
                    extra -= 1;
                    if is_space(self.peek()) || is_separator(self.peek()) {
                        self.at += 1;
                        extra += 1;
                    }
                }
                TemplateNode::Literal(_) if !exact && extra > 0 => extra -= 1,
                TemplateNode::Literal(_) => self.skip_char(),
                TemplateNode::Field(f) => {
                    work::step(UNITS_OF_FIELD)?;
                    self.set_convention(f.convention)?;
                    if f.key == TemplateKey::Exact {
                        exact = true;
                    } else {
                        self.field(&f, extra)?;
                    }
                    if !exact {
                        extra = self.skip_spaces()?;
                    }
                }
            }
        }
        Ok(())
    }
    fn set_convention(&mut self, c: CalendarConvention) -> Result<()> {
        if c == CalendarConvention::Any {
            return Ok(());
        }
        if *self.out.convention.get_or_insert(c) != c {
            return Err(format_error("invalid combination of date conventions".into())
                .with_hint("Do not mix Gregorian and ISO week date conventions in a formatting template."));
        }
        Ok(())
    }
    /// Whether what follows this field in the template is no digit, so that the number may be of any length.
    fn next_is_separator(&self, f: &TemplateField) -> bool {
        f.ordinal != Ordinal::None
            || match self.following {
                None => true,
                Some(TemplateNode::Field(n)) => !n.digits,
                Some(TemplateNode::Literal(c) | TemplateNode::Space(c) | TemplateNode::Separator(c)) => {
                    !c.is_ascii_digit()
                }
            }
    }
    /// Reads an integer; returns it and the bytes taken, blanks included.
    fn int(&mut self, f: &TemplateField, len: usize) -> Result<(i32, usize)> {
        let init = self.at;
        self.skip_spaces()?;
        let bytes = self.text.as_bytes();
        let remaining = bytes.len() - self.at.min(bytes.len());
        let field = bytes.get(self.at..self.at + len.min(remaining)).unwrap_or(&[]);
        let copy = String::from_utf8_lossy(field).into_owned();
        let value;
        if f.fill || self.next_is_separator(f) {
            let (v, used) = leading_int(bytes.get(init..).unwrap_or(&[]))?;
            value = v;
            self.at = init + used;
        } else {
            if remaining < len {
                return Err(format_error(format!("source string too short for \"{}\" formatting field", f.name))
                    .with_detail(format!("Field requires {len} characters, but only {remaining} remain."))
                    .with_hint(HINT_FM));
            }
            let (v, used) = leading_int(field)?;
            if used > 0 && used < len {
                return Err(format_error(format!("invalid value \"{copy}\" for \"{}\"", f.name))
                    .with_detail(format!("Field requires {len} characters, but only {used} could be parsed."))
                    .with_hint(HINT_FM));
            }
            value = v;
            self.at += used;
        }
        if self.at == init {
            return Err(format_error(format!("invalid value \"{copy}\" for \"{}\"", f.name))
                .with_detail("Value must be an integer."));
        }
        let v = i32::try_from(value).map_err(|_| {
            Error::new(
                sqlstate::DATETIME_FIELD_OVERFLOW,
                format!("value for \"{}\" in source string is out of range", f.name),
            )
            .with_detail(format!("Value must be in the range {} to {}.", i32::MIN, i32::MAX))
        })?;
        Ok((v, self.at - init))
    }
    fn ordinal(&mut self, f: &TemplateField) {
        if f.ordinal != Ordinal::None {
            self.skip_char();
            self.skip_char();
        }
    }
    /// Which of `words` the text goes on with, in any case.
    fn word<'w>(&mut self, f: &TemplateField, words: impl Iterator<Item = &'w str>) -> Result<usize> {
        let rest = self.rest().as_bytes();
        for (i, w) in words.enumerate() {
            if rest.get(..w.len()).is_some_and(|head| head.eq_ignore_ascii_case(w.as_bytes())) {
                self.at += w.len();
                return Ok(i);
            }
        }
        let shown = self.rest().split(|c: char| c.is_ascii_whitespace()).next().unwrap_or("");
        Err(format_error(format!("invalid value \"{shown}\" for \"{}\"", f.name))
            .with_detail("The given value did not match any of the allowed values for this field."))
    }
    /// A number into the field that `slot` names.
    fn store(&mut self, f: &TemplateField, len: usize, slot: fn(&mut ReadFields) -> &mut i32) -> Result<usize> {
        let (v, used) = self.int(f, len)?;
        set(slot(&mut self.out), v, f.name)?;
        self.ordinal(f);
        Ok(used)
    }
    fn field(&mut self, f: &TemplateField, extra: i32) -> Result<()> {
        let len = f.name.len();
        match f.key {
            TemplateKey::HalfDay | TemplateKey::Era => {
                let words = match (f.key, f.name.contains('.')) {
                    (TemplateKey::HalfDay, true) => ["a.m.", "p.m."],
                    (TemplateKey::HalfDay, false) => ["am", "pm"],
                    (_, true) => ["a.d.", "b.c."],
                    (_, false) => ["ad", "bc"],
                };
                let v = self.word(f, words.into_iter())? as i32;
                if f.key == TemplateKey::HalfDay {
                    self.out.twelve_hour = true;
                    set(&mut self.out.pm, v, f.name)?;
                } else {
                    set(&mut self.out.bc, v, f.name)?;
                }
            }
            TemplateKey::Hour12 => {
                self.store(f, 2, |r| &mut r.hour)?;
                self.out.twelve_hour = true;
            }
            TemplateKey::Hour24 => drop(self.store(f, 2, |r| &mut r.hour)?),
            TemplateKey::Minute => drop(self.store(f, len, |r| &mut r.minute)?),
            TemplateKey::Second => drop(self.store(f, len, |r| &mut r.second)?),
            TemplateKey::SecondOfDay => drop(self.store(f, len, |r| &mut r.second_of_day)?),
            TemplateKey::Millis | TemplateKey::Micros | TemplateKey::Fraction(_) => self.fraction(f)?,
            TemplateKey::Zone | TemplateKey::Offset | TemplateKey::ZoneHour | TemplateKey::ZoneMinute => {
                self.zone(f, extra)?
            }
            _ => self.date_field(f)?,
        }
        Ok(())
    }
    fn fraction(&mut self, f: &TemplateField) -> Result<()> {
        // 25 and 250 are a quarter; 025 is not.
        let scale =
            |v: i32, digits: usize, used: usize| v.saturating_mul(10i32.pow(digits.saturating_sub(used) as u32));
        if f.key == TemplateKey::Millis {
            let (v, used) = self.int(f, 3)?;
            set(&mut self.out.millis, v, f.name)?;
            self.out.millis = scale(v, 3, used);
        } else {
            let mut len = 6;
            if let TemplateKey::Fraction(n) = f.key {
                self.out.fraction_digits = n;
                len = usize::from(n);
            }
            let (v, used) = self.int(f, len)?;
            set(&mut self.out.micros, v, f.name)?;
            self.out.micros = scale(v, 6, used);
        }
        self.ordinal(f);
        Ok(())
    }
    fn zone(&mut self, f: &TemplateField, extra: i32) -> Result<()> {
        if f.key == TemplateKey::ZoneMinute {
            if self.out.zone_sign == 0 {
                self.out.zone_sign = 1;
            }
            let (v, _) = self.int(f, 2)?;
            return set(&mut self.out.zone_minute, v, f.name);
        }
        if f.key == TemplateKey::Zone {
            if let Some((used, zone)) = zone_prefix(self.rest()) {
                self.at += used;
                self.out.zone = Some(zone);
                self.out.zone_sign = 0;
                return Ok(());
            }
            if self.peek().is_ascii_alphabetic() {
                return Err(format_error(format!("invalid value \"{}\" for \"{}\"", self.rest(), f.name))
                    .with_detail("Time zone abbreviation is not recognized."));
            }
        }
        match self.peek() {
            c @ (b'+' | b'-' | b' ') => {
                self.out.zone_sign = if c == b'-' { -1 } else { 1 };
                self.at += 1;
            }
            _ => {
                // The sign may have been taken for a separator.
                let before = self.at.checked_sub(1).and_then(|i| self.text.as_bytes().get(i));
                self.out.zone_sign = if extra > 0 && before == Some(&b'-') { -1 } else { 1 };
            }
        }
        let (v, _) = self.int(f, 2)?;
        set(&mut self.out.zone_hour, v, f.name)?;
        if f.key != TemplateKey::ZoneHour && self.peek() == b':' {
            self.at += 1;
            let (v, _) = self.int(f, 2)?;
            set(&mut self.out.zone_minute, v, f.name)?;
        }
        Ok(())
    }
    fn date_field(&mut self, f: &TemplateField) -> Result<()> {
        let len = f.name.len();
        let short = |s: &&'static str| s.get(..3).unwrap_or("");
        match f.key {
            TemplateKey::MonthName | TemplateKey::MonthShort => {
                let v = if f.key == TemplateKey::MonthName {
                    self.word(f, MONTHS.into_iter())?
                } else {
                    self.word(f, MONTHS.iter().map(short))?
                };
                set(&mut self.out.month, v as i32 + 1, f.name)?;
            }
            TemplateKey::RomanMonth => {
                let v = self.word(f, ROMAN_MONTHS.into_iter().rev())?;
                set(&mut self.out.month, 12 - v as i32, f.name)?;
            }
            TemplateKey::DayName | TemplateKey::DayShort => {
                let v = if f.key == TemplateKey::DayName {
                    self.word(f, DAYS.into_iter())?
                } else {
                    self.word(f, DAYS.iter().map(short))?
                };
                set(&mut self.out.weekday, v as i32, f.name)?;
                self.out.weekday += 1;
            }
            TemplateKey::Month => drop(self.store(f, len, |r| &mut r.month)?),
            TemplateKey::DayOfYear | TemplateKey::IsoDayOfYear => drop(self.store(f, 3, |r| &mut r.day_of_year)?),
            TemplateKey::DayOfMonth => drop(self.store(f, len, |r| &mut r.day)?),
            TemplateKey::DayOfWeek => drop(self.store(f, len, |r| &mut r.weekday)?),
            TemplateKey::IsoDayOfWeek => {
                self.store(f, 1, |r| &mut r.weekday)?;
                self.out.weekday = if self.out.weekday >= 7 { 1 } else { self.out.weekday + 1 };
            }
            TemplateKey::Week | TemplateKey::IsoWeek => drop(self.store(f, len, |r| &mut r.week)?),
            // Read, and not used: no date follows from a quarter.
            TemplateKey::Quarter => {
                self.int(f, len)?;
                self.ordinal(f);
            }
            TemplateKey::Century => drop(self.store(f, len, |r| &mut r.century)?),
            TemplateKey::YearComma => self.year_comma(f)?,
            TemplateKey::Year(digits) | TemplateKey::IsoYear(digits) => {
                let used = self.store(f, len, |r| &mut r.year)?;
                if digits < 4 && used < 4 {
                    self.out.year = near_2020(self.out.year);
                }
                self.out.year_digits = digits;
            }
            TemplateKey::WeekOfMonth => drop(self.store(f, len, |r| &mut r.week_of_month)?),
            TemplateKey::Julian => drop(self.store(f, len, |r| &mut r.julian)?),
            _ => {}
        }
        Ok(())
    }
    fn year_comma(&mut self, f: &TemplateField) -> Result<()> {
        let bad = |s: &str| format_error(format!("invalid value \"{s}\" for \"Y,YYY\""));
        let rest = self.rest();
        let b = rest.as_bytes();
        let (millennia, used) = leading_int(b)?;
        if used == 0 || b.get(used) != Some(&b',') {
            return Err(bad(rest));
        }
        let tail = b.get(used + 1..).unwrap_or(&[]);
        let (years, n) = leading_int(tail.get(..3).unwrap_or(tail))?;
        if n == 0 {
            return Err(bad(rest));
        }
        let year = i32::try_from(millennia.saturating_mul(1000).saturating_add(years)).map_err(|_| {
            Error::new(sqlstate::DATETIME_FIELD_OVERFLOW, "value for \"Y,YYY\" in source string is out of range")
        })?;
        self.at += used + 1 + n;
        set(&mut self.out.year, year, f.name)?;
        self.out.year_digits = 4;
        self.ordinal(f);
        Ok(())
    }
}
/// Reads an integer as C's strtol does: blanks, a sign, digits. Returns the value (clamped) and the bytes used, 0
/// without a digit.
fn leading_int(b: &[u8]) -> Result<(i64, usize)> {
    let blanks = pieces::count_leading(b, is_space)?;
    let signed = usize::from(matches!(b.get(blanks), Some(b'+' | b'-')));
    let negative = b.get(blanks) == Some(&b'-');
    let mut at = blanks + signed;
    let start = at;
    let (mut v, mut steps) = (0i64, SmallSteps::default());
    while let Some(c) = b.get(at).filter(|c| c.is_ascii_digit()) {
        steps.step(2)?;
        v = v.saturating_mul(10).saturating_add(i64::from(c - b'0'));
        at += 1;
    }
    if at == start {
        return Ok((0, 0));
    }
    Ok((if negative { -v } else { v }, at))
}
/// The longest zone abbreviation that the text starts with.
fn zone_prefix(text: &str) -> Option<(usize, NamedZone)> {
    let letters = text.bytes().take(10).take_while(u8::is_ascii_alphabetic).count();
    (1..=letters).rev().find_map(|n| {
        let zone = match abbreviation(&text.get(..n)?.to_ascii_lowercase())? {
            AbbreviationMeaning::Fixed(east, _) => NamedZone::Fixed(*east),
            AbbreviationMeaning::Zone(name) => NamedZone::Zone(Zone::find(name)?),
        };
        Some((n, zone))
    })
}

impl ReadFields {
    fn time(&self, tm: &mut Tm) -> Result<()> {
        if self.second_of_day != 0 {
            let s = self.second_of_day;
            (tm.hour, tm.minute, tm.second) = (s / 3600, s % 3600 / 60, s % 60);
        }
        for (from, to) in [(self.second, &mut tm.second), (self.minute, &mut tm.minute), (self.hour, &mut tm.hour)] {
            if from != 0 {
                *to = from;
            }
        }
        if self.twelve_hour {
            if !(1..=12).contains(&tm.hour) {
                return Err(format_error(format!("hour \"{}\" is invalid for the 12-hour clock", tm.hour))
                    .with_hint("Use the 24-hour clock, or give an hour between 1 and 12."));
            }
            if self.pm != 0 && tm.hour < 12 {
                tm.hour += 12;
            } else if self.pm == 0 && tm.hour == 12 {
                tm.hour = 0;
            }
        }
        Ok(())
    }
    /// The year from year, century and era; None where it overflows.
    fn year(&self) -> Option<Option<i32>> {
        let century = if self.bc != 0 { self.century.checked_neg()? } else { self.century };
        if self.year != 0 {
            if self.century != 0 && self.year_digits <= 2 {
                let y = self.year % 100;
                return Some(Some(match (y, century >= 0) {
                    (0, true) => century.checked_mul(100)?,
                    (0, false) => century.checked_mul(100)?.checked_add(1)?,
                    (y, true) => century.checked_sub(1)?.checked_mul(100)?.checked_add(y)?,
                    (y, false) => century.checked_add(1)?.checked_mul(100)?.checked_sub(y)?.checked_add(1)?,
                }));
            }
            let y = if self.bc != 0 { self.year.checked_neg()? } else { self.year };
            return Some(Some(if y < 0 { y + 1 } else { y }));
        }
        if self.century == 0 {
            return Some(None);
        }
        let first = if century >= 0 { century.checked_sub(1)? } else { century };
        Some(Some(first.checked_mul(100)?.checked_add(1)?))
    }
    /// Year, month and day, checked.
    fn date(&mut self, tm: &mut Tm, overflow: &dyn Fn() -> Error) -> Result<()> {
        let (mut has_year, mut has_month, mut has_day) = (false, false, false);
        if let Some(y) = self.year().ok_or_else(overflow)? {
            tm.year = y;
            has_year = true;
        }
        let iso = self.convention == Some(CalendarConvention::Iso);
        let from_jd = |jd: i32, tm: &mut Tm| (tm.year, tm.month, tm.day) = from_julian(jd);
        if self.julian != 0 {
            from_jd(self.julian, tm);
            (has_year, has_month, has_day) = (true, true, true);
        }
        if self.week != 0 && iso {
            let days = self.week.checked_sub(1).and_then(|w| w.checked_mul(7)).ok_or_else(overflow)?;
            let within = match self.weekday {
                0 => 0,
                d if d > 1 => d - 2,
                _ => 6,
            };
            let jd = iso_week_start(tm.year).checked_add(days).and_then(|d| d.checked_add(within));
            from_jd(jd.ok_or_else(overflow)?, tm);
            (has_year, has_month, has_day) = (true, true, true);
        }
        let first_of = |week: i32| week.checked_sub(1).and_then(|w| w.checked_mul(7)).and_then(|d| d.checked_add(1));
        if self.week != 0 && !iso {
            self.day_of_year = first_of(self.week).ok_or_else(overflow)?;
        }
        if self.week_of_month != 0 {
            self.day = first_of(self.week_of_month).ok_or_else(overflow)?;
        }
        if self.day != 0 {
            tm.day = self.day;
            has_day = true;
        }
        if self.month != 0 {
            tm.month = self.month;
            has_month = true;
        }
        if self.day_of_year != 0 && (tm.month <= 1 || tm.day <= 1) {
            if tm.year == 0 && self.bc == 0 {
                return Err(format_error("cannot calculate day of year without year information".into()));
            }
            if iso {
                let jd = (iso_week_start(tm.year) - 1).checked_add(self.day_of_year).ok_or_else(overflow)?;
                from_jd(jd, tm);
                has_year = true;
            } else {
                day_of_year(self.day_of_year, tm);
            }
            (has_month, has_day) = (true, true);
        }
        let month_bad = has_month && !(1..=12).contains(&tm.month);
        let day_bad = has_day && !(1..=31).contains(&tm.day);
        if month_bad || day_bad || (has_year && has_month && has_day && tm.day > days_in_month(tm.year, tm.month)) {
            return Err(overflow());
        }
        Ok(())
    }
}
/// Month and day of a day number, each only where not given yet.
fn day_of_year(number: i32, tm: &mut Tm) {
    let (mut month, mut before) = (1, 0);
    while month <= 12 && number > before + days_in_month(tm.year, month) {
        before += days_in_month(tm.year, month);
        month += 1;
    }
    if tm.month <= 1 {
        tm.month = month;
    }
    if tm.day <= 1 {
        tm.day = number - before;
    }
}

pub fn moment(text: &str, template: &str) -> Result<ReadMoment> {
    let mut s = TemplateScanner { text, at: 0, following: None, out: ReadFields::default() };
    s.scan(TemplateNodes::of(template))?;
    let mut r = s.out;
    let overflow = || problem(DatetimeProblem::FieldOverflow, text, "timestamp");
    let mut tm = Tm { month: 1, day: 1, ..Tm::default() };
    r.time(&mut tm)?;
    r.date(&mut tm, &overflow)?;
    let micros = r.millis.checked_mul(1000).and_then(|v| v.checked_add(r.micros)).ok_or_else(overflow)?;
    tm.micros = micros;
    let time_good = (0..24).contains(&tm.hour) && (0..60).contains(&tm.minute) && (0..60).contains(&tm.second);
    if !time_good || !(0..1_000_000).contains(&micros) {
        return Err(overflow());
    }
    let zone = if r.zone_sign != 0 {
        if !(0..=15).contains(&r.zone_hour) || !(0..60).contains(&r.zone_minute) {
            return Err(problem(DatetimeProblem::ZoneOverflow, text, "timestamp"));
        }
        Some(r.zone_sign * (r.zone_hour * 60 + r.zone_minute) * 60)
    } else {
        r.zone.map(|z| match z {
            NamedZone::Fixed(east) => east,
            NamedZone::Zone(z) => z.offset_for_local(tm.timestamp().unwrap_or(0)),
        })
    };
    Ok(ReadMoment { tm, zone, fraction_digits: r.fraction_digits })
}
pub fn date(text: &str, template: &str) -> Result<i32> {
    let tm = moment(text, template)?.tm;
    let range = || Error::new(sqlstate::DATETIME_FIELD_OVERFLOW, format!("date out of range: \"{text}\""));
    if !is_valid_julian(tm.year, tm.month) {
        return Err(range());
    }
    let d = tm.date();
    if (datetime::MIN_DATE..datetime::END_DATE).contains(&d) { Ok(d) } else { Err(range()) }
}
pub fn timestamptz(text: &str, template: &str, ctx: &EvalContext) -> Result<i64> {
    let m = moment(text, template)?;
    let local = m.tm.timestamp().ok_or_else(datetime::timestamp_range)?;
    let east = m.zone.unwrap_or_else(|| session_zone(ctx).offset_for_local(local));
    let ts = local.checked_sub(i64::from(east) * USECS_PER_SEC).ok_or_else(datetime::timestamp_range)?;
    let ts = datetime::check_timestamp(ts)?;
    if m.fraction_digits == 0 { Ok(ts) } else { datetime::round_timestamp(ts, i32::from(m.fraction_digits)) }
}
