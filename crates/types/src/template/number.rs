//! Number pictures: to_char and to_number.

use super::{UNITS_OF_NODE, ordinal_ending};
use crate::numeric::Numeric;
use crate::pieces;
use kilndb_base::work::SmallSteps;
use kilndb_base::{Error, Result, sqlstate};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NumberKey {
    Comma,
    Point,
    Zero,
    Nine,
    Blank,
    Currency,
    LocalPoint,
    Exponent,
    Fill,
    Group,
    LocalCurrency,
    Minus,
    Plus,
    Brackets,
    Roman(bool),
    PlusMinus,
    Spell,
    Sign,
    /// Upper case or not.
    Ordinal(bool),
    Shift,
}
/// Ordered by their first bytes; longer ones come before the shorter ones that they start with.
static KEYS: [(&str, NumberKey); 20] = [
    (",", NumberKey::Comma),
    (".", NumberKey::Point),
    ("0", NumberKey::Zero),
    ("9", NumberKey::Nine),
    ("B", NumberKey::Blank),
    ("C", NumberKey::Currency),
    ("D", NumberKey::LocalPoint),
    ("EEEE", NumberKey::Exponent),
    ("FM", NumberKey::Fill),
    ("G", NumberKey::Group),
    ("L", NumberKey::LocalCurrency),
    ("MI", NumberKey::Minus),
    ("PL", NumberKey::Plus),
    ("PR", NumberKey::Brackets),
    ("RN", NumberKey::Roman(true)),
    ("SG", NumberKey::PlusMinus),
    ("SP", NumberKey::Spell),
    ("S", NumberKey::Sign),
    ("TH", NumberKey::Ordinal(true)),
    ("V", NumberKey::Shift),
];
enum NumberFormatNode {
    Key(NumberKey),
    Literal(char),
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SignPosition {
    None,
    Before,
    After,
}

/// A parsed picture.
pub struct NumberFormat {
    nodes: Vec<NumberFormatNode>,
    decimal: bool,
    zero: bool,
    blank: bool,
    fill: bool,
    sign: bool,
    bracket: bool,
    minus: bool,
    plus: bool,
    roman: bool,
    shift: bool,
    exponent: bool,
    place: SignPosition,
    /// Digits before and after the point.
    pre: usize,
    post: usize,
    /// Digits before the picture's S.
    pre_sign: usize,
    /// Digits behind V.
    multi: usize,
    zero_start: usize,
    zero_end: usize,
}

fn bad(message: &str) -> Error {
    Error::new(sqlstate::SYNTAX_ERROR, message)
}
/// Letters of the longest Roman numeral (MMMDCCCLXXXVIII).
const ROMAN_LEN: usize = 15;

impl NumberFormat {
    pub fn parse(template: &str) -> Result<NumberFormat> {
        let mut p = NumberFormat {
            nodes: Vec::new(),
            decimal: false,
            zero: false,
            blank: false,
            fill: false,
            sign: false,
            bracket: false,
            minus: false,
            plus: false,
            roman: false,
            shift: false,
            exponent: false,
            place: SignPosition::None,
            pre: 0,
            post: 0,
            pre_sign: 0,
            multi: 0,
            zero_start: 0,
            zero_end: 0,
        };
        let (mut rest, mut steps) = (template, SmallSteps::default());
        while let Some(c) = rest.chars().next() {
            steps.step(UNITS_OF_NODE)?;
            if let Some((len, key)) = find(rest) {
                rest = &rest[len..];
                p.prepare(key)?;
                p.nodes.push(NumberFormatNode::Key(key));
                continue;
            }
            if c == '"' {
                rest = &rest[1..];
                while let (Some(c), behind) = super::quoted(rest) {
                    steps.step(UNITS_OF_NODE)?;
                    p.nodes.push(NumberFormatNode::Literal(c));
                    rest = behind;
                }
                rest = rest.strip_prefix('"').unwrap_or(rest);
                continue;
            }
            if rest.starts_with("\\\"") {
                rest = &rest[1..];
                p.nodes.push(NumberFormatNode::Literal('"'));
            } else {
                p.nodes.push(NumberFormatNode::Literal(c));
            }
            rest = &rest[rest.chars().next().map_or(0, char::len_utf8)..];
        }
        Ok(p)
    }
    /// Notes what a pattern asks for, and refuses combinations.
    fn prepare(&mut self, key: NumberKey) -> Result<()> {
        if self.exponent && key != NumberKey::Exponent {
            return Err(bad("\"EEEE\" must be the last pattern used"));
        }
        match key {
            NumberKey::Nine => {
                if self.bracket {
                    return Err(bad("\"9\" must be ahead of \"PR\""));
                }
                if self.shift {
                    self.multi += 1;
                } else if self.decimal {
                    self.post += 1;
                } else {
                    self.pre += 1;
                }
            }
            NumberKey::Zero => {
                if self.bracket {
                    return Err(bad("\"0\" must be ahead of \"PR\""));
                }
                if !self.zero && !self.decimal {
                    self.zero = true;
                    self.zero_start = self.pre + 1;
                }
                if self.decimal {
                    self.post += 1;
                } else {
                    self.pre += 1;
                }
                self.zero_end = self.pre + self.post;
            }
            NumberKey::Blank => self.blank |= self.pre == 0 && self.post == 0 && !self.zero,
            NumberKey::LocalPoint | NumberKey::Point => {
                if self.decimal {
                    return Err(bad("multiple decimal points"));
                }
                if self.shift {
                    return Err(bad("cannot use \"V\" and decimal point together"));
                }
                self.decimal = true;
            }
            NumberKey::Fill => self.fill = true,
            NumberKey::Sign | NumberKey::Minus | NumberKey::Plus | NumberKey::PlusMinus | NumberKey::Brackets => {
                self.prepare_sign(key)?
            }
            NumberKey::Roman(_) => {
                if self.roman {
                    return Err(bad("cannot use \"RN\" twice"));
                }
                self.roman = true;
            }
            NumberKey::Shift => {
                if self.decimal {
                    return Err(bad("cannot use \"V\" and decimal point together"));
                }
                self.shift = true;
            }
            NumberKey::Exponent => {
                if self.exponent {
                    return Err(bad("cannot use \"EEEE\" twice"));
                }
                if self.blank
                    || self.fill
                    || self.sign
                    || self.bracket
                    || self.minus
                    || self.plus
                    || self.roman
                    || self.shift
                {
                    return Err(bad("\"EEEE\" is incompatible with other formats")
                        .with_detail("\"EEEE\" may only be used together with digit and decimal point patterns."));
                }
                self.exponent = true;
            }
            NumberKey::Comma
            | NumberKey::Currency
            | NumberKey::Group
            | NumberKey::LocalCurrency
            | NumberKey::Spell
            | NumberKey::Ordinal(_) => {}
        }
        let others = self.decimal || self.zero || self.blank || self.sign || self.bracket || self.minus || self.plus;
        if self.roman && (others || self.shift || self.exponent) {
            return Err(bad("\"RN\" is incompatible with other formats")
                .with_detail("\"RN\" may only be used together with \"FM\"."));
        }
        Ok(())
    }
    fn prepare_sign(&mut self, key: NumberKey) -> Result<()> {
        if self.sign {
            match key {
                NumberKey::Sign => return Err(bad("cannot use \"S\" twice")),
                NumberKey::Minus => return Err(bad("cannot use \"S\" and \"MI\" together")),
                NumberKey::Plus => return Err(bad("cannot use \"S\" and \"PL\" together")),
                NumberKey::PlusMinus => return Err(bad("cannot use \"S\" and \"SG\" together")),
                _ => {}
            }
        }
        match key {
            NumberKey::Sign => {
                if self.plus || self.minus || self.bracket {
                    return Err(bad("cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together"));
                }
                if !self.decimal {
                    self.place = SignPosition::Before;
                    self.pre_sign = self.pre;
                } else if self.place == SignPosition::None {
                    self.place = SignPosition::After;
                }
                self.sign = true;
            }
            NumberKey::Minus => self.minus = true,
            NumberKey::Plus => self.plus = true,
            NumberKey::PlusMinus => (self.minus, self.plus) = (true, true),
            _ => {
                if self.sign || self.plus || self.minus {
                    return Err(bad("cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together"));
                }
                self.bracket = true;
            }
        }
        Ok(())
    }
}
fn find(text: &str) -> Option<(usize, NumberKey)> {
    let first = text.bytes().next()?.to_ascii_uppercase();
    // The most frequent ones come first.
    let same = KEYS.iter().skip_while(|(name, _)| name.as_bytes()[0] < first);
    same.take_while(|(name, _)| name.as_bytes()[0] == first).find_map(|(name, key)| {
        let head = text.get(..name.len())?;
        let lower = head.bytes().all(|b| !b.is_ascii_uppercase()) && head.eq_ignore_ascii_case(name);
        if head != *name && !lower {
            return None;
        }
        let key = match key {
            NumberKey::Roman(_) if lower => NumberKey::Roman(false),
            NumberKey::Ordinal(_) if lower => NumberKey::Ordinal(false),
            k => *k,
        };
        Some((name.len(), key))
    })
}

// ---- to_char ----

/// A number's digits ready for the picture.
struct FormattedDigits {
    text: String,
    spaces: usize,
    /// `+`, `-`, or none where the text has its own.
    sign: u8,
}

pub(crate) fn roman(v: i64) -> String {
    const ONES: [(i64, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    if !(1..=3999).contains(&v) {
        return "#".repeat(ROMAN_LEN);
    }
    let (mut rest, mut out) = (v, String::new());
    for (n, s) in ONES {
        while rest >= n {
            out.push_str(s);
            rest -= n;
        }
    }
    out
}
/// No finite number has more significant digits; zeros follow.
const SIGNIFICANT_NUMERIC: usize = 150_000;
const SIGNIFICANT_FLOAT: usize = 800;

/// Mantissa, with zeros behind it, and exponent as C prints them, blank for a plus sign.
fn scientific(mantissa: &str, zeros: usize, exponent: i32) -> Result<String> {
    let blank = if mantissa.starts_with('-') { "" } else { " " };
    let sign = if exponent < 0 { '-' } else { '+' };
    pieces::concat(&[blank, mantissa, &pieces::repeat("0", zeros)?, &format!("e{sign}{:02}", exponent.abs())])
}
fn scientific_numeric(v: &Numeric, decimals: usize) -> Result<String> {
    let significant = decimals.min(SIGNIFICANT_NUMERIC);
    let (mantissa, exponent) = v.to_scientific(significant as i32);
    scientific(&mantissa, decimals - significant, exponent)
}
/// A number with so many decimals.
fn fixed(v: &Numeric, decimals: usize) -> Result<String> {
    let own = decimals.min(v.dscale().max(0) as usize);
    let mut text = v.round_to(own as i32).to_string();
    if v.is_finite() && own < decimals {
        if own == 0 {
            text.push('.');
        }
        push_zeros(&mut text, decimals - own)?;
    }
    Ok(text)
}
fn push_zeros(text: &mut String, count: usize) -> Result<()> {
    text.reserve(count);
    let mut steps = SmallSteps::default();
    for _ in 0..count {
        steps.step(1)?;
        text.push('0');
    }
    Ok(())
}

impl NumberFormat {
    /// What shows for NaN and infinities under EEEE.
    fn no_exponent(&self) -> Result<String> {
        let hashes = pieces::repeat("#", self.pre + self.post + 4)?;
        let (before, behind) = hashes.split_at(self.pre);
        pieces::concat(&[" ", before, ".", behind])
    }
    fn plain(&self, text: String) -> FormattedDigits {
        FormattedDigits { text, spaces: 0, sign: 0 }
    }
    /// Splits the sign off, pads, and shows an overflow as `#`.
    fn fit(&self, mut text: String) -> Result<FormattedDigits> {
        let sign = if text.starts_with('-') { b'-' } else { b'+' };
        if sign == b'-' {
            text.remove(0);
        }
        let len = text.find('.').unwrap_or(text.len());
        if len > self.pre {
            let hashes = |count: usize| pieces::repeat("#", count);
            let text = pieces::concat(&[&hashes(self.pre)?, ".", &hashes(self.post)?])?;
            return Ok(FormattedDigits { text, spaces: 0, sign });
        }
        Ok(FormattedDigits { text, spaces: self.pre - len, sign })
    }

    pub(crate) fn write_numeric(mut self, v: &Numeric) -> Result<String> {
        let digits = if self.roman {
            let n = v.to_i64().filter(|n| i32::try_from(*n).is_ok()).unwrap_or(i64::from(i32::MAX));
            self.plain(roman(n))
        } else if self.exponent {
            self.plain(if v.is_finite() { scientific_numeric(v, self.post)? } else { self.no_exponent()? })
        } else {
            let mut shifted = v.clone();
            if self.shift {
                shifted = v.mul(&Numeric::from(10).power(&Numeric::from(self.multi as i64))?);
                self.pre += self.multi;
            }
            self.fit(fixed(&shifted, self.post)?)?
        };
        self.write(&digits)
    }
    pub(crate) fn write_int4(mut self, v: i32) -> Result<String> {
        if self.roman || self.exponent {
            return self.write_int8(v.into());
        }
        let mut n = v;
        if self.shift {
            n = v.wrapping_mul(10f64.powi(self.multi as i32) as i32);
            self.pre += self.multi;
        }
        self.write_whole(i64::from(n))
    }
    pub(crate) fn write_int8(mut self, v: i64) -> Result<String> {
        if self.roman {
            let n = if i32::try_from(v).is_ok() { v } else { i64::from(i32::MAX) };
            let d = self.plain(roman(n));
            return self.write(&d);
        }
        if self.exponent {
            let d = self.plain(scientific_numeric(&Numeric::from(v), self.post)?);
            return self.write(&d);
        }
        let mut n = v;
        if self.shift {
            let range = || crate::cast::out_of_range("bigint");
            let factor = 10i64.checked_pow(self.multi as u32).ok_or_else(range)?;
            n = v.checked_mul(factor).ok_or_else(range)?;
            self.pre += self.multi;
        }
        self.write_whole(n)
    }
    fn write_whole(self, n: i64) -> Result<String> {
        let mut text = n.to_string();
        if self.post > 0 {
            text.push('.');
            push_zeros(&mut text, self.post)?;
        }
        let d = self.fit(text)?;
        self.write(&d)
    }
    pub(crate) fn write_float4(self, v: f32) -> Result<String> {
        self.write_float(f64::from(v), 6, |v, multi| f64::from(v as f32 * 10f64.powi(multi) as f32))
    }
    pub(crate) fn write_float8(self, v: f64) -> Result<String> {
        self.write_float(v, 15, |v, multi| v * 10f64.powi(multi))
    }
    fn write_float(mut self, v: f64, significant: usize, shifted: impl Fn(f64, i32) -> f64) -> Result<String> {
        if self.roman {
            let n = v.round_ties_even();
            let fits = (-2_147_483_648.0..2_147_483_648.0).contains(&n);
            let d = self.plain(roman(if fits { n as i64 } else { i64::from(i32::MAX) }));
            return self.write(&d);
        }
        if self.exponent {
            let text = if v.is_finite() {
                let significant = self.post.min(SIGNIFICANT_FLOAT);
                let s = format!("{v:.significant$e}");
                let (m, e) = s.split_once('e').unwrap_or((&s, "0"));
                scientific(m, self.post - significant, e.parse().unwrap_or(0))?
            } else {
                self.no_exponent()?
            };
            let d = self.plain(text);
            return self.write(&d);
        }
        let mut val = v;
        if self.shift {
            val = shifted(v, self.multi as i32);
            self.pre += self.multi;
        }
        let named = if val.is_nan() { "NaN" } else { "Infinity" };
        let whole = if val.is_finite() { format!("{:.0}", val.abs()).len() } else { named.len() };
        // No more digits than the type holds.
        self.post = self.post.min(significant.saturating_sub(whole));
        let text = if val.is_finite() {
            format!("{:.*}", self.post, val)
        } else if val == f64::NEG_INFINITY {
            format!("-{named}")
        } else {
            named.into()
        };
        let d = self.fit(text)?;
        self.write(&d)
    }

    fn write(mut self, digits: &FormattedDigits) -> Result<String> {
        if self.exponent {
            return pieces::concat(&[&digits.text]);
        }
        self.zero_start = self.zero_start.saturating_sub(1);
        let mut sign_done;
        if self.plus || self.minus {
            // MI and SG write the sign themselves.
            sign_done = !(self.plus && !self.minus);
        } else {
            if digits.sign != b'-' && self.fill {
                self.bracket = false;
            }
            sign_done = digits.sign == b'+' && self.fill && !self.sign;
            if self.place == SignPosition::Before && self.pre == self.pre_sign {
                self.place = SignPosition::After;
            }
        }
        let mut count = (self.post + self.pre) as i64 - 1;
        if !sign_done && digits.spaces == 0 {
            count += 1;
        }
        let relevant = if self.fill && self.decimal { self.last_relevant(digits)? } else { None };
        // Under a roman picture nothing anchors a sign.
        sign_done |= self.roman;
        let mut w = NumberWriter {
            number: &digits.text,
            at: 0,
            spaces: digits.spaces,
            sign: digits.sign,
            sign_done,
            digits_begun: false,
            current: 0,
            count,
            relevant,
            out: String::new(),
            picture: &self,
        };
        w.run()?;
        Ok(w.out)
    }
    /// Under FM: the last digit behind the point that is not a zero to drop, or the point itself.
    fn last_relevant(&self, digits: &FormattedDigits) -> Result<Option<usize>> {
        let b = digits.text.as_bytes();
        let Some(point) = digits.text.find('.') else { return Ok(None) };
        let (mut last, mut steps) = (b.len() - 1, SmallSteps::default());
        while last > point && b[last] == b'0' {
            steps.step(1)?;
            last -= 1;
        }
        if self.zero_end > digits.spaces {
            last = last.max((b.len() - 1).min(self.zero_end - digits.spaces));
        }
        Ok(Some(last))
    }
}

struct NumberWriter<'a> {
    number: &'a str,
    at: usize,
    spaces: usize,
    sign: u8,
    sign_done: bool,
    /// A digit was written: group separators show.
    digits_begun: bool,
    current: usize,
    count: i64,
    relevant: Option<usize>,
    out: String,
    picture: &'a NumberFormat,
}
impl NumberWriter<'_> {
    fn run(&mut self) -> Result<()> {
        let mut steps = SmallSteps::default();
        for node in &self.picture.nodes {
            steps.step(UNITS_OF_NODE)?;
            match node {
                NumberFormatNode::Literal(c) => self.out.push(*c),
                NumberFormatNode::Key(k) => self.key(*k)?,
            }
        }
        Ok(())
    }
    fn unless_fill(&mut self, c: char) {
        if !self.picture.fill {
            self.out.push(c);
        }
    }
    fn key(&mut self, key: NumberKey) -> Result<()> {
        match key {
            NumberKey::Nine | NumberKey::Zero | NumberKey::Point | NumberKey::LocalPoint => {
                if !self.picture.roman {
                    self.digit(key);
                }
            }
            NumberKey::Comma | NumberKey::Group if self.digits_begun => self.out.push(','),
            NumberKey::Comma | NumberKey::Group => self.unless_fill(' '),
            NumberKey::LocalCurrency => self.out.push(' '),
            NumberKey::Roman(upper) => {
                let text = if upper { self.number.to_string() } else { self.number.to_ascii_lowercase() };
                let width = if self.picture.fill { 0 } else { ROMAN_LEN };
                self.out.push_str(&format!("{text:>width$}"));
            }
            NumberKey::Ordinal(upper) => {
                let overflow = self.number.starts_with('#');
                if self.picture.roman || overflow || self.sign == b'-' || self.picture.decimal {
                    return Ok(());
                }
                self.out.push_str(ordinal_ending(self.number, upper)?);
            }
            NumberKey::Minus if self.sign == b'-' => self.out.push('-'),
            NumberKey::Plus if self.sign == b'+' => self.out.push('+'),
            NumberKey::Minus | NumberKey::Plus => self.unless_fill(' '),
            NumberKey::PlusMinus => self.out.push(char::from(self.sign)),
            NumberKey::Blank
            | NumberKey::Currency
            | NumberKey::Exponent
            | NumberKey::Fill
            | NumberKey::Brackets
            | NumberKey::Spell
            | NumberKey::Sign
            | NumberKey::Shift => {}
        }
        Ok(())
    }
    fn peek(&self) -> u8 {
        self.number.as_bytes().get(self.at).copied().unwrap_or(0)
    }
    fn relevant_is_point(&self) -> bool {
        self.relevant.is_some_and(|r| self.number.as_bytes().get(r) == Some(&b'.'))
    }
    /// A leading zero before the decimals that need not show: `.1` under 9.9.
    fn is_optional_zero(&self) -> bool {
        !self.picture.zero && self.at == 0 && self.peek() == b'0' && self.picture.post != 0
    }
    fn locale_sign(&mut self) {
        self.out.push(if self.sign == b'-' { '-' } else { '+' });
    }
    fn digit(&mut self, key: NumberKey) {
        let p = self.picture;
        self.digits_begun = false;
        let begun = self.current >= self.spaces || (p.zero && p.zero_start == self.current);
        if !self.sign_done && begun && (!self.is_optional_zero() || self.relevant_is_point()) {
            self.leading_sign();
        }
        if self.current < self.spaces && (p.zero_start > self.current || !p.zero) {
            self.unless_fill(' ');
        } else if self.current < self.spaces {
            self.out.push('0');
            self.digits_begun = true;
        } else {
            self.number_char(key);
        }
        let mut end = self.count + i64::from(self.spaces > 0) + i64::from(p.decimal);
        if self.relevant == Some(self.at) {
            end = self.current as i64;
        }
        if self.current as i64 + 1 == end {
            if self.sign_done && p.bracket {
                self.out.push(if self.sign == b'+' { ' ' } else { '>' });
            } else if p.sign && p.place == SignPosition::After {
                self.locale_sign();
            }
        }
        self.current += 1;
    }
    fn leading_sign(&mut self) {
        let p = self.picture;
        if p.sign {
            if p.place == SignPosition::Before {
                self.locale_sign();
                self.sign_done = true;
            }
            return;
        }
        self.sign_done = true;
        if p.bracket {
            self.out.push(if self.sign == b'+' { ' ' } else { '<' });
        } else if self.sign == b'-' {
            self.out.push('-');
        } else {
            self.unless_fill(' ');
        }
    }
    fn number_char(&mut self, key: NumberKey) {
        let p = self.picture;
        let c = self.peek();
        if c == b'.' {
            if !self.relevant_is_point() || p.fill {
                self.out.push('.');
            }
        } else if self.relevant.is_some_and(|r| self.at > r) && key != NumberKey::Zero {
            // A zero that FM drops.
        } else if self.is_optional_zero() {
            if !p.fill {
                self.out.push(' ');
            } else if self.relevant_is_point() {
                self.out.push('0');
            }
        } else if c != 0 {
            self.out.push(char::from(c));
            self.digits_begun = true;
        }
        if c != 0 {
            self.at += 1;
        }
    }
}

// ---- to_number ----

struct NumberReader<'a> {
    input: &'a str,
    at: usize,
    /// Blank until one was read.
    sign: u8,
    digits: String,
    read_pre: usize,
    read_post: usize,
    read_point: bool,
}

/// None for an empty template.
pub(crate) fn to_number(input: &str, template: &str) -> Result<Option<Numeric>> {
    if template.is_empty() {
        return Ok(None);
    }
    let mut p = NumberFormat::parse(template)?;
    if p.exponent {
        return Err(Error::unsupported("\"EEEE\" not supported for input"));
    }
    let mut r =
        NumberReader { input, at: 0, sign: b' ', digits: String::new(), read_pre: 0, read_post: 0, read_point: false };
    let (mut roman_digits, mut steps) = (None, SmallSteps::default());
    for node in &p.nodes {
        if r.done() {
            break;
        }
        steps.step(UNITS_OF_NODE)?;
        match node {
            NumberFormatNode::Literal(_) => r.skip_char(),
            NumberFormatNode::Key(NumberKey::Roman(_)) => {
                let v = r
                    .roman()?
                    .ok_or_else(|| Error::new(sqlstate::INVALID_TEXT_REPRESENTATION, "invalid Roman numeral"))?;
                let text = v.to_string();
                roman_digits = Some(text.len());
                r.digits.push_str(&text);
            }
            NumberFormatNode::Key(k) => r.key(*k, &p),
        }
    }
    if let Some(n) = roman_digits {
        p.pre = n;
    }
    if r.digits.ends_with('.') {
        r.digits.pop();
    }
    let scale = r.read_post;
    let precision = p.pre + p.multi + scale;
    let text = format!("{}{}", char::from(r.sign), r.digits);
    let typmod = (((precision << 16) | scale) + 4) as i32;
    let v = Numeric::parse(&text)?.apply_typmod(typmod)?;
    if p.shift {
        let factor = Numeric::from(10).power(&Numeric::from(-(p.multi as i64)))?;
        return Ok(Some(v.mul(&factor)));
    }
    Ok(Some(v))
}
impl NumberReader<'_> {
    fn done(&self) -> bool {
        self.at >= self.input.len()
    }
    fn peek(&self) -> u8 {
        self.input.as_bytes().get(self.at).copied().unwrap_or(0)
    }
    fn skip_char(&mut self) {
        self.at += self.input.get(self.at..).and_then(|s| s.chars().next()).map_or(1, char::len_utf8);
    }
    /// Skips up to `n` characters that cannot belong to a number.
    fn skip_non_data(&mut self, n: usize) {
        for _ in 0..n {
            if self.done() || b"0123456789.,+-".contains(&self.peek()) {
                return;
            }
            self.skip_char();
        }
    }
    fn key(&mut self, key: NumberKey, p: &NumberFormat) {
        match key {
            NumberKey::Nine | NumberKey::Zero | NumberKey::Point | NumberKey::LocalPoint => {
                self.digit(key, p);
                self.at += 1;
            }
            // Nothing marks digits as begun while reading: FM pictures skip no separators.
            NumberKey::Comma | NumberKey::Group if !p.fill && self.peek() == b',' => self.at += 1,
            NumberKey::LocalCurrency => self.skip_non_data(1),
            NumberKey::Ordinal(_) if !p.roman && !p.decimal => self.skip_non_data(2),
            NumberKey::Minus | NumberKey::Plus | NumberKey::PlusMinus => {
                let c = self.peek();
                if (c == b'-' && key != NumberKey::Plus) || (c == b'+' && key != NumberKey::Minus) {
                    self.sign = c;
                    self.at += 1;
                } else {
                    self.skip_non_data(1);
                }
            }
            _ => {}
        }
    }
    fn digit(&mut self, key: NumberKey, p: &NumberFormat) {
        if self.peek() == b' ' {
            self.at += 1;
        }
        if self.done() {
            return;
        }
        let nothing_read = self.read_pre + self.read_post == 0;
        if self.sign == b' ' && matches!(key, NumberKey::Zero | NumberKey::Nine) && nothing_read {
            let c = self.peek();
            if p.sign {
                if p.place == SignPosition::Before && matches!(c, b'-' | b'+') {
                    self.sign = c;
                    self.at += 1;
                }
            } else if c == b'-' || (p.bracket && c == b'<') {
                self.sign = b'-';
                self.at += 1;
            } else if c == b'+' {
                self.sign = b'+';
                self.at += 1;
            }
        }
        if self.done() {
            return;
        }
        let c = self.peek();
        let mut read = false;
        if c.is_ascii_digit() {
            if self.read_point && self.read_post == p.post {
                return;
            }
            self.digits.push(char::from(c));
            if self.read_point {
                self.read_post += 1;
            } else {
                self.read_pre += 1;
            }
            read = true;
        } else if p.decimal && !self.read_point && c == b'.' {
            self.digits.push('.');
            self.read_point = true;
            read = true;
        }
        if self.sign == b' ' && self.read_pre + self.read_post > 0 {
            self.trailing_sign(read, p);
        }
    }
    /// A sign right behind the last digit.
    fn trailing_sign(&mut self, read: bool, p: &NumberFormat) {
        let next = self.input.as_bytes().get(self.at + 1).copied();
        if p.sign && read {
            if let Some(c @ (b'-' | b'+')) = next {
                self.sign = c;
                self.at += 1;
            }
        } else if !read && !p.sign && (p.plus || p.minus) {
            let c = self.peek();
            if matches!(c, b'-' | b'+') {
                self.sign = c;
            }
        }
    }
    /// A Roman numeral in its standard form, of at most 15 letters.
    fn roman(&mut self) -> Result<Option<i64>> {
        self.at += pieces::count_leading(self.input.as_bytes().get(self.at..).unwrap_or(&[]), super::is_space)?;
        let start = self.at;
        let mut values = Vec::new();
        while self.at - start < ROMAN_LEN {
            values.push(match self.peek().to_ascii_uppercase() {
                b'I' => 1,
                b'V' => 5,
                b'X' => 10,
                b'L' => 50,
                b'C' => 100,
                b'D' => 500,
                b'M' => 1000,
                _ => break,
            });
            self.at += 1;
        }
        let mut sum = 0i64;
        for (i, v) in values.iter().enumerate() {
            sum += if values.get(i + 1).is_some_and(|n| n > v) { -v } else { *v };
        }
        // A number in Roman digits counts in its standard spelling alone, so that IIII is none.
        let text = self.input.get(start..self.at);
        Ok(text.is_some_and(|text| roman(sum).eq_ignore_ascii_case(text)).then_some(sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::looks::{asks, worth};

    #[test]
    fn keys_are_found_by_their_first_byte() {
        assert!(KEYS.is_sorted_by_key(|(name, _)| name.as_bytes()[0]));
        assert!(KEYS.iter().all(|(name, key)| find(name) == Some((name.len(), *key))));
        assert!(["", "é", "x", "\"9"].iter().all(|text| find(text).is_none()));
    }

    #[test]
    fn zeros_that_no_number_has_are_appended() {
        let many = 200_000;
        let wide = NumberFormat::parse(&format!("FM9.{}", "0".repeat(many))).unwrap();
        assert_eq!(
            wide.write_numeric(&Numeric::parse("1.25").unwrap()).unwrap(),
            format!("1.25{}", "0".repeat(many - 2))
        );
        let exponent = || NumberFormat::parse(&format!("9.{}EEEE", "9".repeat(many))).unwrap();
        let expected = format!(" 1.25{}e+02", "0".repeat(many - 2));
        assert_eq!(exponent().write_numeric(&Numeric::parse("125").unwrap()).unwrap(), expected);
        assert_eq!(exponent().write_float8(125.0).unwrap(), expected);
        assert_eq!(exponent().write_float8(f64::NAN).unwrap(), format!(" #.{}", "#".repeat(many + 4)));
    }

    #[test]
    fn long_pictures_give_way() {
        let number = Numeric::parse("-1234.5").unwrap();
        for (template, units) in [("9", 3), ("FM0", 3), ("\"x\"", 3), ("9TH", 3), ("x", 3), ("MI", 3)] {
            let template = template.repeat(400_000);
            asks(worth(template.len() / 3 * units), |_| NumberFormat::parse(&template)?.write_numeric(&number));
            asks(worth(template.len() / 3 * units), |_| to_number(&template, &template));
        }
    }
}
