//! The template patterns of to_char, to_number, to_date and to_timestamp.
//!
//! Invariants
//! 1. A template becomes nodes once, in [`TemplateNodes`] or [`number::NumberFormat::parse`]; reading and writing walk them.
//! 2. Month and day names are English: the locale is C, so TM changes only the padding.
//!
//! Must not know: how SQL calls these functions (that is `functions::tochar`).

pub mod number;
pub mod read;
pub mod write;

use CalendarConvention::{Gregorian, Iso};
use kilndb_base::Result;
use kilndb_base::work::SmallSteps;

/// What a date/time pattern stands for. Spellings that differ in case only share one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TemplateKey {
    /// AD, BC; with dots or without.
    Era,
    /// AM, PM; with dots or without.
    HalfDay,
    Century,
    DayName,
    DayShort,
    DayOfYear,
    IsoDayOfYear,
    DayOfMonth,
    DayOfWeek,
    IsoDayOfWeek,
    /// FF1 to FF6.
    Fraction(u8),
    Exact,
    Hour24,
    Hour12,
    IsoWeek,
    /// IYYY, IYY, IY, I.
    IsoYear(u8),
    Julian,
    Minute,
    Month,
    MonthName,
    MonthShort,
    Millis,
    Offset,
    Quarter,
    RomanMonth,
    SecondOfDay,
    Second,
    ZoneHour,
    ZoneMinute,
    Zone,
    Micros,
    Week,
    WeekOfMonth,
    YearComma,
    /// YYYY, YYY, YY, Y.
    Year(u8),
}

/// The calendar a field belongs to; a template must not mix them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CalendarConvention {
    Any,
    Gregorian,
    Iso,
}

struct TemplatePattern {
    name: &'static str,
    key: TemplateKey,
    digits: bool,
    convention: CalendarConvention,
}
const fn pattern(
    name: &'static str,
    key: TemplateKey,
    digits: bool,
    convention: CalendarConvention,
) -> TemplatePattern {
    TemplatePattern { name, key, digits, convention }
}
use CalendarConvention::Any;
/// Ordered by their first letters. Longer patterns come before the shorter ones that they start with.
static PATTERNS: [TemplatePattern; 58] = [
    pattern("A.D.", TemplateKey::Era, false, Any),
    pattern("A.M.", TemplateKey::HalfDay, false, Any),
    pattern("AD", TemplateKey::Era, false, Any),
    pattern("AM", TemplateKey::HalfDay, false, Any),
    pattern("B.C.", TemplateKey::Era, false, Any),
    pattern("BC", TemplateKey::Era, false, Any),
    pattern("CC", TemplateKey::Century, true, Any),
    pattern("DAY", TemplateKey::DayName, false, Any),
    pattern("DDD", TemplateKey::DayOfYear, true, Gregorian),
    pattern("DD", TemplateKey::DayOfMonth, true, Gregorian),
    pattern("DY", TemplateKey::DayShort, false, Any),
    pattern("Day", TemplateKey::DayName, false, Any),
    pattern("Dy", TemplateKey::DayShort, false, Any),
    pattern("D", TemplateKey::DayOfWeek, true, Gregorian),
    pattern("FF1", TemplateKey::Fraction(1), true, Any),
    pattern("FF2", TemplateKey::Fraction(2), true, Any),
    pattern("FF3", TemplateKey::Fraction(3), true, Any),
    pattern("FF4", TemplateKey::Fraction(4), true, Any),
    pattern("FF5", TemplateKey::Fraction(5), true, Any),
    pattern("FF6", TemplateKey::Fraction(6), true, Any),
    pattern("FX", TemplateKey::Exact, false, Any),
    pattern("HH24", TemplateKey::Hour24, true, Any),
    pattern("HH12", TemplateKey::Hour12, true, Any),
    pattern("HH", TemplateKey::Hour12, true, Any),
    pattern("IDDD", TemplateKey::IsoDayOfYear, true, Iso),
    pattern("ID", TemplateKey::IsoDayOfWeek, true, Iso),
    pattern("IW", TemplateKey::IsoWeek, true, Iso),
    pattern("IYYY", TemplateKey::IsoYear(4), true, Iso),
    pattern("IYY", TemplateKey::IsoYear(3), true, Iso),
    pattern("IY", TemplateKey::IsoYear(2), true, Iso),
    pattern("I", TemplateKey::IsoYear(1), true, Iso),
    pattern("J", TemplateKey::Julian, true, Any),
    pattern("MI", TemplateKey::Minute, true, Any),
    pattern("MM", TemplateKey::Month, true, Gregorian),
    pattern("MONTH", TemplateKey::MonthName, false, Gregorian),
    pattern("MON", TemplateKey::MonthShort, false, Gregorian),
    pattern("Month", TemplateKey::MonthName, false, Gregorian),
    pattern("Mon", TemplateKey::MonthShort, false, Gregorian),
    pattern("MS", TemplateKey::Millis, true, Any),
    pattern("OF", TemplateKey::Offset, false, Any),
    pattern("P.M.", TemplateKey::HalfDay, false, Any),
    pattern("PM", TemplateKey::HalfDay, false, Any),
    pattern("Q", TemplateKey::Quarter, true, Any),
    pattern("RM", TemplateKey::RomanMonth, false, Gregorian),
    pattern("SSSSS", TemplateKey::SecondOfDay, true, Any),
    pattern("SSSS", TemplateKey::SecondOfDay, true, Any),
    pattern("SS", TemplateKey::Second, true, Any),
    pattern("TZH", TemplateKey::ZoneHour, false, Any),
    pattern("TZM", TemplateKey::ZoneMinute, true, Any),
    pattern("TZ", TemplateKey::Zone, false, Any),
    pattern("US", TemplateKey::Micros, true, Any),
    pattern("WW", TemplateKey::Week, true, Gregorian),
    pattern("W", TemplateKey::WeekOfMonth, true, Gregorian),
    pattern("Y,YYY", TemplateKey::YearComma, true, Gregorian),
    pattern("YYYY", TemplateKey::Year(4), true, Gregorian),
    pattern("YYY", TemplateKey::Year(3), true, Gregorian),
    pattern("YY", TemplateKey::Year(2), true, Gregorian),
    pattern("Y", TemplateKey::Year(1), true, Gregorian),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ordinal {
    None,
    Upper,
    Lower,
}
#[derive(Clone, Copy, Debug)]
pub(crate) struct TemplateField<'a> {
    /// The field's name as the template spells it.
    pub name: &'a str,
    pub key: TemplateKey,
    pub digits: bool,
    pub convention: CalendarConvention,
    /// FM: no padding.
    pub fill: bool,
    /// TM.
    pub localized: bool,
    pub ordinal: Ordinal,
}
#[derive(Clone, Copy, Debug)]
pub(crate) enum TemplateNode<'a> {
    Field(TemplateField<'a>),
    Space(char),
    Separator(char),
    Literal(char),
}

fn find(text: &str) -> Option<(&str, &'static TemplatePattern)> {
    let first = text.bytes().next()?.to_ascii_uppercase();
    let from = PATTERNS.partition_point(|p| p.name.as_bytes()[0] < first);
    PATTERNS[from..].iter().take_while(|p| p.name.as_bytes()[0] == first).find_map(|p| {
        let head = text.get(..p.name.len())?;
        let lower = || head.bytes().all(|b| !b.is_ascii_uppercase()) && head.eq_ignore_ascii_case(p.name);
        (head == p.name || lower()).then_some((head, p))
    })
}
pub(crate) fn is_separator(b: u8) -> bool {
    b > 0x20 && b < 0x7f && !b.is_ascii_alphanumeric()
}
pub(crate) fn is_space(b: u8) -> bool {
    b.is_ascii_whitespace() || b == 0x0b
}

/// The next character of a quoted passage, None where the passage ends, and what follows.
pub(crate) fn quoted(rest: &str) -> (Option<char>, &str) {
    let mut chars = rest.chars();
    let next = match chars.next() {
        Some('"') => None,
        // A backslash quotes the next character, if any.
        Some('\\') => Some(chars.next().unwrap_or('\\')),
        c => c,
    };
    (next, chars.as_str())
}

/// What looking for the pattern at a place of a template costs.
pub(crate) const UNITS_OF_NODE: usize = 30;
/// What reading or writing a field costs.
const UNITS_OF_FIELD: usize = 100;

/// A date/time template's nodes, one after the other: together they take many times the template's memory.
pub(crate) struct TemplateNodes<'a> {
    rest: &'a str,
    is_quoted: bool,
    steps: SmallSteps,
}
impl<'a> TemplateNodes<'a> {
    pub fn of(template: &'a str) -> TemplateNodes<'a> {
        TemplateNodes { rest: template, is_quoted: false, steps: SmallSteps::default() }
    }
    /// Takes a modifier in front of a pattern.
    fn strip(&mut self, upper: &str, lower: &str) -> bool {
        let rest = self.rest.strip_prefix(upper).or_else(|| self.rest.strip_prefix(lower));
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }
    fn next_node(&mut self) -> Result<Option<TemplateNode<'a>>> {
        while !self.rest.is_empty() {
            self.steps.step(UNITS_OF_NODE)?;
            if self.is_quoted {
                let (c, rest) = quoted(self.rest);
                (self.is_quoted, self.rest) = (c.is_some(), rest);
                match c {
                    Some(c) => return Ok(Some(TemplateNode::Literal(c))),
                    None => continue,
                }
            }
            let fill = self.strip("FM", "fm");
            let localized = !fill && self.strip("TM", "tm");
            if let Some((name, p)) = find(self.rest) {
                return Ok(Some(TemplateNode::Field(self.field(name, p, fill, localized))));
            }
            if self.strip("\"", "\"") {
                self.is_quoted = true;
                continue;
            }
            if self.rest.starts_with("\\\"") {
                self.rest = &self.rest[1..];
            }
            let mut chars = self.rest.chars();
            let Some(c) = chars.next() else { break };
            self.rest = chars.as_str();
            return Ok(Some(match u8::try_from(c) {
                Ok(b) if is_separator(b) => TemplateNode::Separator(c),
                Ok(b) if is_space(b) => TemplateNode::Space(c),
                _ => TemplateNode::Literal(c),
            }));
        }
        Ok(None)
    }
    fn field(&mut self, name: &'a str, p: &TemplatePattern, fill: bool, localized: bool) -> TemplateField<'a> {
        self.rest = &self.rest[name.len()..];
        let mut ordinal = Ordinal::None;
        if let Some(r) = self.rest.strip_prefix("TH") {
            (ordinal, self.rest) = (Ordinal::Upper, r);
        } else if let Some(r) = self.rest.strip_prefix("th") {
            (ordinal, self.rest) = (Ordinal::Lower, r);
        } else if let Some(r) = self.rest.strip_prefix("SP") {
            // Spell mode is accepted and does nothing.
            self.rest = r;
        }
        TemplateField { name, key: p.key, digits: p.digits, convention: p.convention, fill, localized, ordinal }
    }
}
impl<'a> Iterator for TemplateNodes<'a> {
    type Item = Result<TemplateNode<'a>>;
    fn next(&mut self) -> Option<Result<TemplateNode<'a>>> {
        self.next_node().transpose()
    }
}

/// The English ordinal ending of a number's text.
pub(crate) fn ordinal_ending(number: &str, upper: bool) -> Result<&'static str> {
    let b = number.as_bytes();
    let last = b.last().copied().unwrap_or(b' ');
    if !last.is_ascii_digit() {
        return Err(kilndb_base::Error::new(
            kilndb_base::sqlstate::INVALID_TEXT_REPRESENTATION,
            format!("\"{number}\" is not a number"),
        ));
    }
    let teen = b.len() > 1 && b[b.len() - 2] == b'1';
    Ok(match (last, upper) {
        (b'1', true) if !teen => "ST",
        (b'2', true) if !teen => "ND",
        (b'3', true) if !teen => "RD",
        (_, true) => "TH",
        (b'1', false) if !teen => "st",
        (b'2', false) if !teen => "nd",
        (b'3', false) if !teen => "rd",
        (_, false) => "th",
    })
}

/// January first.
pub(crate) const ROMAN_MONTHS: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::looks::{asks, worth};

    #[test]
    fn patterns_are_found_by_their_first_letter() {
        assert!(PATTERNS.is_sorted_by_key(|p| p.name.as_bytes()[0]));
        for p in &PATTERNS {
            assert_eq!(find(p.name).map(|(head, found)| (head, found.key)), Some((p.name, p.key)));
        }
        assert!(["", "é", "x", "\"Y"].iter().all(|text| find(text).is_none()));
    }

    #[test]
    fn nodes_of_a_template() {
        let shown = |template: &str| {
            TemplateNodes::of(template)
                .map(|node| match node.unwrap() {
                    TemplateNode::Field(f) => format!("<{}{}>", if f.fill { "FM" } else { "" }, f.name),
                    TemplateNode::Space(c) | TemplateNode::Separator(c) | TemplateNode::Literal(c) => c.to_string(),
                })
                .collect::<String>()
        };
        assert_eq!(shown(r#"FMDDth "of\"" \"MON\" """y" é"#), r#"<FMDD> of" "<MON>" y é"#);
        assert_eq!(shown("FM"), "");
        assert_eq!(shown(r#""YY\"#), r"YY\");
    }

    #[test]
    fn long_templates_give_way() {
        for pattern in ["x", "\"\"", "YYYY", "FMMonth", " "] {
            let template = pattern.repeat(100_000);
            let units = if pattern.len() > 2 { UNITS_OF_FIELD } else { UNITS_OF_NODE };
            asks(worth(100_000 * units), |_| write::timestamp(0, None, &template));
        }
        // Reading ends with the text.
        let (fields, blanks) = ("2000 ".repeat(100_000), " ".repeat(1_000_000));
        asks(worth(100_000 * UNITS_OF_FIELD), |_| read::moment(&fields, &"YYYY ".repeat(100_000)).map(|_| ()));
        for text in [format!("{blanks}2000"), format!("2000{blanks}"), format!("{}2000", "0".repeat(1_000_000))] {
            asks(worth(1_000_000), |_| read::date(&text, "YYYY"));
        }
        assert_eq!(read::date("2000", &"YYYY ".repeat(1_000_000)).unwrap(), 0);
    }
}
