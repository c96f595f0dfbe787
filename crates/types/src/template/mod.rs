//! The template patterns of to_char, to_number, to_date and to_timestamp.
//!
//! Invariants
//! 1. A template becomes nodes once, in [`datetime_nodes`] or [`number::Picture::parse`]; reading and writing walk
//!    them.
//! 2. Month and day names are English: the locale is C, so TM changes only the padding.
//!
//! Must not know: how SQL calls these functions (that is `functions::tochar`).

pub mod number;
pub mod read;
pub mod write;

use Convention::{Gregorian, Iso};

/// What a date/time pattern stands for. Spellings that differ in case only share one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Key {
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
pub(crate) enum Convention {
    Any,
    Gregorian,
    Iso,
}

struct Pattern {
    name: &'static str,
    key: Key,
    digits: bool,
    convention: Convention,
}
const fn pattern(name: &'static str, key: Key, digits: bool, convention: Convention) -> Pattern {
    Pattern { name, key, digits, convention }
}
use Convention::Any;
/// Longer patterns come before the shorter ones that they start with.
static PATTERNS: [Pattern; 58] = [
    pattern("A.D.", Key::Era, false, Any),
    pattern("A.M.", Key::HalfDay, false, Any),
    pattern("AD", Key::Era, false, Any),
    pattern("AM", Key::HalfDay, false, Any),
    pattern("B.C.", Key::Era, false, Any),
    pattern("BC", Key::Era, false, Any),
    pattern("CC", Key::Century, true, Any),
    pattern("DAY", Key::DayName, false, Any),
    pattern("DDD", Key::DayOfYear, true, Gregorian),
    pattern("DD", Key::DayOfMonth, true, Gregorian),
    pattern("DY", Key::DayShort, false, Any),
    pattern("Day", Key::DayName, false, Any),
    pattern("Dy", Key::DayShort, false, Any),
    pattern("D", Key::DayOfWeek, true, Gregorian),
    pattern("FF1", Key::Fraction(1), true, Any),
    pattern("FF2", Key::Fraction(2), true, Any),
    pattern("FF3", Key::Fraction(3), true, Any),
    pattern("FF4", Key::Fraction(4), true, Any),
    pattern("FF5", Key::Fraction(5), true, Any),
    pattern("FF6", Key::Fraction(6), true, Any),
    pattern("FX", Key::Exact, false, Any),
    pattern("HH24", Key::Hour24, true, Any),
    pattern("HH12", Key::Hour12, true, Any),
    pattern("HH", Key::Hour12, true, Any),
    pattern("IDDD", Key::IsoDayOfYear, true, Iso),
    pattern("ID", Key::IsoDayOfWeek, true, Iso),
    pattern("IW", Key::IsoWeek, true, Iso),
    pattern("IYYY", Key::IsoYear(4), true, Iso),
    pattern("IYY", Key::IsoYear(3), true, Iso),
    pattern("IY", Key::IsoYear(2), true, Iso),
    pattern("I", Key::IsoYear(1), true, Iso),
    pattern("J", Key::Julian, true, Any),
    pattern("MI", Key::Minute, true, Any),
    pattern("MM", Key::Month, true, Gregorian),
    pattern("MONTH", Key::MonthName, false, Gregorian),
    pattern("MON", Key::MonthShort, false, Gregorian),
    pattern("Month", Key::MonthName, false, Gregorian),
    pattern("Mon", Key::MonthShort, false, Gregorian),
    pattern("MS", Key::Millis, true, Any),
    pattern("OF", Key::Offset, false, Any),
    pattern("P.M.", Key::HalfDay, false, Any),
    pattern("PM", Key::HalfDay, false, Any),
    pattern("Q", Key::Quarter, true, Any),
    pattern("RM", Key::RomanMonth, false, Gregorian),
    pattern("SSSSS", Key::SecondOfDay, true, Any),
    pattern("SSSS", Key::SecondOfDay, true, Any),
    pattern("SS", Key::Second, true, Any),
    pattern("TZH", Key::ZoneHour, false, Any),
    pattern("TZM", Key::ZoneMinute, true, Any),
    pattern("TZ", Key::Zone, false, Any),
    pattern("US", Key::Micros, true, Any),
    pattern("WW", Key::Week, true, Gregorian),
    pattern("W", Key::WeekOfMonth, true, Gregorian),
    pattern("Y,YYY", Key::YearComma, true, Gregorian),
    pattern("YYYY", Key::Year(4), true, Gregorian),
    pattern("YYY", Key::Year(3), true, Gregorian),
    pattern("YY", Key::Year(2), true, Gregorian),
    pattern("Y", Key::Year(1), true, Gregorian),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ordinal {
    None,
    Upper,
    Lower,
}
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    /// As the template spells it.
    pub name: &'a str,
    pub key: Key,
    pub digits: bool,
    pub convention: Convention,
    /// FM: no padding.
    pub fill: bool,
    /// TM.
    pub localized: bool,
    pub ordinal: Ordinal,
}
#[derive(Clone, Copy, Debug)]
pub(crate) enum Node<'a> {
    Field(Field<'a>),
    Space(char),
    Separator(char),
    Literal(char),
}

fn find(text: &str) -> Option<(&str, &'static Pattern)> {
    PATTERNS.iter().find_map(|p| {
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

/// Characters of a quoted passage; `rest` starts behind the opening quote. Returns what follows the closing one.
pub(crate) fn quoted(rest: &str, mut push: impl FnMut(char)) -> &str {
    let mut chars = rest.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return rest.get(at + 1..).unwrap_or(""),
            // A backslash quotes the next character, if any.
            '\\' => push(chars.next().map_or('\\', |n| n.1)),
            c => push(c),
        }
    }
    ""
}

pub(crate) fn datetime_nodes(template: &str) -> Vec<Node<'_>> {
    let mut nodes = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        let (mut fill, mut localized) = (false, false);
        if let Some(r) = rest.strip_prefix("FM").or_else(|| rest.strip_prefix("fm")) {
            (fill, rest) = (true, r);
        } else if let Some(r) = rest.strip_prefix("TM").or_else(|| rest.strip_prefix("tm")) {
            (localized, rest) = (true, r);
        }
        if let Some((name, p)) = find(rest) {
            rest = &rest[name.len()..];
            let mut ordinal = Ordinal::None;
            if let Some(r) = rest.strip_prefix("TH") {
                (ordinal, rest) = (Ordinal::Upper, r);
            } else if let Some(r) = rest.strip_prefix("th") {
                (ordinal, rest) = (Ordinal::Lower, r);
            } else if let Some(r) = rest.strip_prefix("SP") {
                // Spell mode is accepted and does nothing.
                rest = r;
            }
            nodes.push(Node::Field(Field {
                name,
                key: p.key,
                digits: p.digits,
                convention: p.convention,
                fill,
                localized,
                ordinal,
            }));
            continue;
        }
        if let Some(r) = rest.strip_prefix('"') {
            rest = quoted(r, |c| nodes.push(Node::Literal(c)));
            continue;
        }
        if rest.starts_with("\\\"") {
            rest = &rest[1..];
        }
        let Some(c) = rest.chars().next() else { break };
        rest = &rest[c.len_utf8()..];
        nodes.push(match u8::try_from(c) {
            Ok(b) if is_separator(b) => Node::Separator(c),
            Ok(b) if is_space(b) => Node::Space(c),
            _ => Node::Literal(c),
        });
    }
    nodes
}

/// The English ordinal ending of a number's text.
pub(crate) fn ordinal_ending(number: &str, upper: bool) -> kilndb_base::Result<&'static str> {
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
