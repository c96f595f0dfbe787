//! Text to dates and times: the fields of PostgreSQL's input, in the orders it takes them.

use super::abbreviations::AbbreviationMeaning;
use super::calendar::*;
use super::zone::{Zone, abbreviation};
use crate::EvalContext;
use crate::context::DateOrder;

/// Why a text was not understood; the caller adds the text and type.
#[derive(Clone, Debug, PartialEq)]
pub enum DatetimeProblem {
    BadFormat,
    FieldOverflow,
    /// Perhaps month and day are the other way round.
    DayMonthOverflow,
    IntervalOverflow,
    ZoneOverflow,
    UnknownZone(String),
}
use DatetimeProblem::*;
pub type DatetimeResult<T> = Result<T, DatetimeProblem>;

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FieldKind {
    Number,
    String,
    Date,
    Time,
    Tz,
    Special,
}
pub type DatetimeField = (FieldKind, String);

/// Splits the text, lower-cased.
pub fn split(text: &str) -> DatetimeResult<Vec<DatetimeField>> {
    let t = text.to_ascii_lowercase();
    let b = t.as_bytes();
    let mut fields = Vec::new();
    let mut i = 0;
    let digit = |i: usize| b.get(i).is_some_and(u8::is_ascii_digit);
    let alpha = |i: usize| b.get(i).is_some_and(|c| c.is_ascii_alphabetic() || *c >= 0x80);
    while i < b.len() {
        let c = b[i];
        if c.is_ascii_whitespace() || c == 0x0b {
            i += 1;
            continue;
        }
        let start = i;
        let kind = if c.is_ascii_digit() {
            while digit(i) {
                i += 1;
            }
            match b.get(i) {
                Some(b':') => {
                    while digit(i) || matches!(b.get(i), Some(b':' | b'.')) {
                        i += 1;
                    }
                    FieldKind::Time
                }
                Some(&d @ (b'-' | b'/' | b'.')) => {
                    i += 1;
                    if digit(i) {
                        let mut kind = if d == b'.' { FieldKind::Number } else { FieldKind::Date };
                        while digit(i) {
                            i += 1;
                        }
                        if b.get(i) == Some(&d) {
                            kind = FieldKind::Date;
                            i += 1;
                            while digit(i) || b.get(i) == Some(&d) {
                                i += 1;
                            }
                        }
                        kind
                    } else {
                        while digit(i) || alpha(i) || b.get(i) == Some(&d) {
                            i += 1;
                        }
                        FieldKind::Date
                    }
                }
                _ => FieldKind::Number,
            }
        } else if c == b'.' {
            i += 1;
            while digit(i) {
                i += 1;
            }
            FieldKind::Number
        } else if alpha(i) {
            while alpha(i) {
                i += 1;
            }
            let date = match b.get(i) {
                Some(b'-' | b'/' | b'.') => true,
                Some(x) if *x == b'+' || x.is_ascii_digit() => word(&t[start..i]).is_none(),
                _ => false,
            };
            if date {
                while digit(i) || alpha(i) || matches!(b.get(i), Some(b'+' | b'-' | b'/' | b'_' | b'.' | b':')) {
                    i += 1;
                }
                FieldKind::Date
            } else {
                FieldKind::String
            }
        } else if c == b'+' || c == b'-' {
            let sign = c as char;
            i += 1;
            while b.get(i).is_some_and(u8::is_ascii_whitespace) {
                i += 1;
            }
            let body = i;
            let kind = if digit(i) || b.get(i) == Some(&b'.') {
                while digit(i) || matches!(b.get(i), Some(b':' | b'.' | b'-')) {
                    i += 1;
                }
                FieldKind::Tz
            } else if alpha(i) {
                while alpha(i) {
                    i += 1;
                }
                FieldKind::Special
            } else {
                return Err(BadFormat);
            };
            fields.push((kind, format!("{sign}{}", &t[body..i])));
            continue;
        } else if c.is_ascii_punctuation() {
            i += 1;
            continue;
        } else {
            return Err(BadFormat);
        };
        if fields.len() >= 25 {
            return Err(BadFormat);
        }
        fields.push((kind, t[start..i].to_string()));
    }
    Ok(fields)
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum DatetimeWord {
    Month(i32),
    Dow(i32),
    Am,
    Pm,
    Ad,
    Bc,
    Now,
    Today,
    Tomorrow,
    Yesterday,
    Epoch,
    Infinity,
    NegInfinity,
    AllBalls,
    Julian,
    IsoTime,
    Dst,
    Ignore,
}
/// Words of dates, apart from zones.
pub fn word(w: &str) -> Option<DatetimeWord> {
    // At most ten characters count.
    let w = w.get(..10).unwrap_or(w);
    Some(match w {
        "jan" | "january" => DatetimeWord::Month(1),
        "feb" | "february" => DatetimeWord::Month(2),
        "mar" | "march" => DatetimeWord::Month(3),
        "apr" | "april" => DatetimeWord::Month(4),
        "may" => DatetimeWord::Month(5),
        "jun" | "june" => DatetimeWord::Month(6),
        "jul" | "july" => DatetimeWord::Month(7),
        "aug" | "august" => DatetimeWord::Month(8),
        "sep" | "sept" | "september" => DatetimeWord::Month(9),
        "oct" | "october" => DatetimeWord::Month(10),
        "nov" | "november" => DatetimeWord::Month(11),
        "dec" | "december" => DatetimeWord::Month(12),
        "sun" | "sunday" => DatetimeWord::Dow(0),
        "mon" | "monday" => DatetimeWord::Dow(1),
        "tue" | "tues" | "tuesday" => DatetimeWord::Dow(2),
        "wed" | "weds" | "wednesday" => DatetimeWord::Dow(3),
        "thu" | "thur" | "thurs" | "thursday" => DatetimeWord::Dow(4),
        "fri" | "friday" => DatetimeWord::Dow(5),
        "sat" | "saturday" => DatetimeWord::Dow(6),
        "am" => DatetimeWord::Am,
        "pm" => DatetimeWord::Pm,
        "ad" => DatetimeWord::Ad,
        "bc" => DatetimeWord::Bc,
        "now" => DatetimeWord::Now,
        "today" => DatetimeWord::Today,
        "tomorrow" => DatetimeWord::Tomorrow,
        "yesterday" => DatetimeWord::Yesterday,
        "epoch" => DatetimeWord::Epoch,
        "infinity" | "+infinity" => DatetimeWord::Infinity,
        "-infinity" => DatetimeWord::NegInfinity,
        "allballs" => DatetimeWord::AllBalls,
        "j" | "jd" | "julian" => DatetimeWord::Julian,
        "t" => DatetimeWord::IsoTime,
        "dst" => DatetimeWord::Dst,
        "at" | "on" => DatetimeWord::Ignore,
        "d" | "h" | "m" | "s" | "y" | "mm" => return None,
        _ => return None,
    })
}

const Y: u32 = 1;
const M: u32 = 2;
const D: u32 = 4;
const TIME: u32 = 8;
const TZ: u32 = 16;
const DOY: u32 = 32;
const DTZMOD: u32 = 64;
const DOW: u32 = 128;
const DATE: u32 = Y | M | D;

/// What a date/time text says.
#[derive(Debug)]
pub enum DatetimeValue {
    /// Local time, and the zone in seconds east if one was given.
    Moment(Tm, Option<i32>),
    Epoch,
    Infinity,
    NegInfinity,
}

pub struct DatetimeDecoder<'a> {
    ctx: &'a EvalContext<'a>,
    tm: Tm,
    doy: i32,
    mask: u32,
    two_digit_year: bool,
    bc: bool,
    pm: Option<bool>,
    zone: Option<i32>,
    named: Option<Zone>,
    have_text_month: bool,
    order: DateOrder,
    /// DTK_JULIAN or ISO time announced by the field before.
    pending: Option<DatetimeWord>,
    time_only: bool,
}

pub(crate) fn session_zone(ctx: &EvalContext) -> Zone {
    Zone::find(&ctx.format.time_zone).unwrap_or_else(Zone::utc)
}

impl<'a> DatetimeDecoder<'a> {
    fn new(ctx: &'a EvalContext<'a>, time_only: bool) -> DatetimeDecoder<'a> {
        DatetimeDecoder {
            ctx,
            tm: Tm::default(),
            doy: 0,
            mask: 0,
            two_digit_year: false,
            bc: false,
            pm: None,
            zone: None,
            named: None,
            have_text_month: false,
            order: ctx.format.date_order,
            pending: None,
            time_only,
        }
    }
    fn set(&mut self, bits: u32) -> DatetimeResult<()> {
        if self.mask & bits != 0 {
            return Err(BadFormat);
        }
        self.mask |= bits;
        Ok(())
    }

    /// A date, timestamp or timestamptz.
    pub fn datetime(ctx: &'a EvalContext<'a>, text: &str) -> DatetimeResult<DatetimeValue> {
        let fields = split(text)?;
        let mut d = DatetimeDecoder::new(ctx, false);
        let mut special = None;
        for i in 0..fields.len() {
            if let Some(v) = d.field(&fields, i)? {
                if special.is_some() {
                    return Err(BadFormat);
                }
                special = Some(v);
            }
        }
        if let Some(v) = special {
            // Infinity and epoch stand alone (a zone or time beside them is an error).
            return if d.mask & !(DOW | TZ) != 0 { Err(BadFormat) } else { Ok(v) };
        }
        if d.pending.is_some() {
            return Err(BadFormat);
        }
        d.validate_date()?;
        d.apply_meridiem()?;
        if d.mask & DATE != DATE {
            return Err(BadFormat);
        }
        d.finish_zone()?;
        Ok(DatetimeValue::Moment(d.tm, d.zone))
    }
    /// A time of day: time, zone, and the local date if one was given.
    pub fn time(ctx: &'a EvalContext<'a>, text: &str, want_zone: bool) -> DatetimeResult<(Tm, Option<i32>)> {
        let fields = split(text)?;
        let mut d = DatetimeDecoder::new(ctx, true);
        for i in 0..fields.len() {
            if d.field(&fields, i)?.is_some() {
                return Err(BadFormat);
            }
        }
        if d.pending.is_some() {
            return Err(BadFormat);
        }
        if d.mask & DATE != 0 && d.mask & (Y | M | D | DOY) != 0 {
            d.validate_date()?;
        }
        d.apply_meridiem()?;
        if !time_in_range(&d.tm) {
            return Err(FieldOverflow);
        }
        if d.mask & TIME == 0 {
            return Err(BadFormat);
        }
        if d.mask & DATE != DATE {
            if d.named.is_some() {
                if want_zone && d.zone.is_none() {
                    return Err(BadFormat);
                }
                // A zone with daylight saving says nothing without a date.
                if !matches!(d.named, Some(Zone::Fixed(..))) {
                    return Err(BadFormat);
                }
            }
            // The value keeps nothing of the date but the offset of the session's zone, and that only if the text has
            // none.
            let needs_offset = want_zone && d.zone.is_none() && d.named.is_none();
            let now = if needs_offset { ctx.clock_of_input() } else { ctx.transaction_timestamp };
            let now = super::local_time_at(now, ctx);
            (d.tm.year, d.tm.month, d.tm.day) = (now.year, now.month, now.day);
        }
        d.finish_zone()?;
        Ok((d.tm, d.zone))
    }

    fn finish_zone(&mut self) -> DatetimeResult<()> {
        if let Some(z) = self.named.take() {
            let local = self.tm.timestamp().ok_or(FieldOverflow)?;
            let base = z.offset_for_local(local);
            self.zone = Some(base);
        }
        Ok(())
    }

    /// Takes in one field of the text. Returns a value that stands alone.
    fn field(&mut self, fields: &[DatetimeField], i: usize) -> DatetimeResult<Option<DatetimeValue>> {
        let (kind, text) = &fields[i];
        match kind {
            FieldKind::Date => self.date_field(text)?,
            FieldKind::Time => {
                if let Some(p) = self.pending.take()
                    && p != DatetimeWord::IsoTime
                {
                    return Err(BadFormat);
                }
                self.set(TIME)?;
                self.clock(text)?;
            }
            FieldKind::Tz => self.zone_field(text)?,
            FieldKind::Number => self.number_field(text)?,
            FieldKind::String | FieldKind::Special => return self.word_field(text),
        }
        Ok(None)
    }

    fn date_field(&mut self, text: &str) -> DatetimeResult<()> {
        if self.pending == Some(DatetimeWord::Julian) {
            // `J2451187-0800`: a zone glued on.
            self.pending = None;
            let at = text.find('-').ok_or(BadFormat)?;
            self.julian(&text[..at])?;
            return self.zone_field(&text[at..]);
        }
        let month_and_day = self.mask & (M | D) == M | D;
        let first_digit = text.starts_with(|c: char| c.is_ascii_digit());
        if self.pending.is_some() || month_and_day || self.time_only && self.mask & TIME != 0 && !first_digit {
            if first_digit || self.pending.is_some() {
                if let Some(p) = self.pending.take()
                    && p != DatetimeWord::IsoTime
                {
                    return Err(BadFormat);
                }
                if self.mask & TIME != 0 {
                    return Err(BadFormat);
                }
                // `040506-08`: time and zone glued together.
                let at = text.find('-').ok_or(BadFormat)?;
                self.zone_field(&text[at..])?;
                return self.number_run(&text[..at]);
            }
            return self.zone_name(text);
        }
        if self.time_only && !first_digit && self.mask & TIME == 0 && text.contains('/') {
            return self.zone_name(text);
        }
        match self.date(text) {
            Err(_)
                if !first_digit
                    && text.contains(['/', '-', '+', '_'])
                    && !text.starts_with(|c: char| c.is_ascii_digit())
                    && word(text.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or("")).is_none() =>
            {
                self.zone_name(text)
            }
            other => other,
        }
    }
    fn zone_name(&mut self, text: &str) -> DatetimeResult<()> {
        self.set(TZ)?;
        match Zone::find(text) {
            Some(z) => {
                if let Zone::Fixed(s, _) = &z {
                    self.zone = Some(*s);
                }
                self.named = Some(z);
                Ok(())
            }
            None => Err(if self.mask & (M | D) == (M | D) || self.time_only {
                UnknownZone(text.to_string())
            } else {
                BadFormat
            }),
        }
    }
    fn zone_field(&mut self, text: &str) -> DatetimeResult<()> {
        let offset = zone_offset(text)?;
        // `GMT+3`, `PST8`: an offset after an abbreviation would be a POSIX name.
        self.set(TZ)?;
        self.zone = Some(offset);
        Ok(())
    }
    fn clock(&mut self, text: &str) -> DatetimeResult<()> {
        let (h, m, s, us) = clock(text)?;
        if h > i64::from(i32::MAX) {
            return Err(FieldOverflow);
        }
        (self.tm.hour, self.tm.minute, self.tm.second, self.tm.micros) = (h as i32, m, s, us);
        if !time_in_range(&self.tm) {
            return Err(FieldOverflow);
        }
        Ok(())
    }
    fn julian(&mut self, text: &str) -> DatetimeResult<()> {
        let (int, frac) = text.split_once('.').map_or((text, None), |(a, b)| (a, Some(b)));
        let jd: i64 =
            int.parse().map_err(|_| if int.bytes().all(|b| b.is_ascii_digit()) { FieldOverflow } else { BadFormat })?;
        let jd = i32::try_from(jd).map_err(|_| FieldOverflow)?;
        self.set(DATE)?;
        (self.tm.year, self.tm.month, self.tm.day) = from_julian(jd);
        if let Some(frac) = frac {
            self.set(TIME)?;
            let part: f64 = format!("0.{frac}").parse().map_err(|_| BadFormat)?;
            let t = time_of((part * USECS_PER_DAY as f64) as i64);
            (self.tm.hour, self.tm.minute, self.tm.second, self.tm.micros) = (t.hour, t.minute, t.second, t.micros);
        }
        Ok(())
    }

    fn number_field(&mut self, text: &str) -> DatetimeResult<()> {
        match self.pending.take() {
            Some(DatetimeWord::Julian) => return self.julian(text),
            Some(DatetimeWord::IsoTime) => {
                if self.mask & TIME != 0 || (self.mask & DATE != DATE && !self.time_only) {
                    return Err(BadFormat);
                }
                return self.number_run(text);
            }
            Some(_) => return Err(BadFormat),
            None => {}
        }
        if let Some(point) = text.find('.') {
            if self.mask & DATE == 0 && !self.time_only {
                return self.date(text);
            }
            if point > 2 {
                return self.number_run(text);
            }
            return self.number(text);
        }
        if text.len() >= 6 && (self.mask & DATE == 0 || self.mask & TIME == 0) {
            return self.number_run(text);
        }
        self.number(text)
    }

    /// Digits run together: yyyymmdd, yymmdd, hhmmss, hhmm, with a fraction.
    fn number_run(&mut self, text: &str) -> DatetimeResult<()> {
        let (digits, frac) = match text.find('.') {
            Some(at) => (&text[..at], Some(&text[at..])),
            None => (text, None),
        };
        let num = |s: &str| s.parse::<i32>().map_err(|_| BadFormat);
        if let Some(frac) = frac {
            self.tm.micros = fraction(frac)?;
        } else if self.mask & DATE != DATE
            && digits.len() >= 6
            && !(self.time_only && self.mask & TIME == 0 && self.mask & DATE == 0 && digits.len() == 6)
        {
            self.set(DATE)?;
            let n = digits.len();
            self.tm.day = num(&digits[n - 2..])?;
            self.tm.month = num(&digits[n - 4..n - 2])?;
            self.tm.year = num(&digits[..n - 4])?;
            if n - 4 == 2 {
                self.two_digit_year = true;
            }
            return Ok(());
        }
        if self.mask & TIME == 0 {
            let parts = match digits.len() {
                6 => (num(&digits[..2])?, num(&digits[2..4])?, num(&digits[4..])?),
                4 => (num(&digits[..2])?, num(&digits[2..])?, 0),
                _ => return Err(BadFormat),
            };
            self.set(TIME)?;
            (self.tm.hour, self.tm.minute, self.tm.second) = parts;
            if !time_in_range(&self.tm) {
                return Err(FieldOverflow);
            }
            return Ok(());
        }
        Err(BadFormat)
    }

    /// A lone number: which part of a date it is depends on what is known and on DateStyle.
    fn number(&mut self, text: &str) -> DatetimeResult<()> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let v: i32 = text[..digits].parse().map_err(|_| if digits == 0 { BadFormat } else { FieldOverflow })?;
        if digits < text.len() {
            if digits > 2 {
                return self.number_run(text);
            }
            return Err(BadFormat);
        }
        if digits == 3 && self.mask & DATE == Y && (1..=366).contains(&v) {
            self.set(DOY | M | D)?;
            self.doy = v;
            return Ok(());
        }
        match self.mask & DATE {
            0 => {
                if digits >= 3 || self.order == DateOrder::Ymd {
                    self.year(v, digits)
                } else if self.order == DateOrder::Dmy {
                    self.day(v)
                } else {
                    self.month(v)
                }
            }
            Y => self.month(v),
            M => {
                if self.have_text_month {
                    if digits >= 3 || self.order == DateOrder::Ymd { self.year(v, digits) } else { self.day(v) }
                } else {
                    self.day(v)
                }
            }
            bits if bits == Y | M => {
                if self.have_text_month && digits >= 3 && self.two_digit_year {
                    // The year came where a day was: swap.
                    self.tm.day = self.tm.year;
                    self.mask |= D;
                    self.tm.year = v;
                    self.two_digit_year = false;
                    Ok(())
                } else {
                    self.day(v)
                }
            }
            D => self.month(v),
            bits if bits == M | D => self.year(v, digits),
            DATE => {
                if self.mask & TIME != 0 {
                    return Err(BadFormat);
                }
                self.number_run(text)
            }
            _ => Err(BadFormat),
        }
    }
    fn year(&mut self, v: i32, digits: usize) -> DatetimeResult<()> {
        self.set(Y)?;
        self.tm.year = v;
        self.two_digit_year = digits <= 2;
        Ok(())
    }
    fn month(&mut self, v: i32) -> DatetimeResult<()> {
        self.set(M)?;
        self.tm.month = v;
        Ok(())
    }
    fn day(&mut self, v: i32) -> DatetimeResult<()> {
        self.set(D)?;
        self.tm.day = v;
        Ok(())
    }

    /// A date with its parts joined by punctuation.
    fn date(&mut self, text: &str) -> DatetimeResult<()> {
        let mut parts: Vec<&str> = Vec::new();
        let b = text.as_bytes();
        let mut i = 0;
        while i < b.len() {
            let start = i;
            let class = |c: u8| {
                if c.is_ascii_digit() {
                    0
                } else if c.is_ascii_alphabetic() {
                    1
                } else {
                    2
                }
            };
            let k = class(b[i]);
            if k == 2 {
                i += 1;
                continue;
            }
            while i < b.len() && class(b[i]) == k {
                i += 1;
            }
            parts.push(&text[start..i]);
        }
        if parts.is_empty() || parts.len() > 3 {
            return Err(BadFormat);
        }
        // A month's name says which part it is, so it goes first.
        let mut rest = Vec::new();
        for p in parts {
            if p.as_bytes()[0].is_ascii_digit() {
                rest.push(p);
                continue;
            }
            match word(p) {
                Some(DatetimeWord::Month(m)) => {
                    self.set(M)?;
                    self.tm.month = m;
                    self.have_text_month = true;
                }
                _ => return Err(BadFormat),
            }
        }
        for p in rest {
            if p.is_empty() || self.mask & DATE == DATE {
                return Err(BadFormat);
            }
            let before = self.mask;
            self.number(p)?;
            if (before ^ self.mask) & TIME != 0 {
                return Err(BadFormat);
            }
        }
        if self.mask & (Y | M | D) != DATE && self.mask & DOY == 0 {
            return Err(BadFormat);
        }
        Ok(())
    }

    fn word_field(&mut self, text: &str) -> DatetimeResult<Option<DatetimeValue>> {
        if let Some(p) = self.pending.take() {
            let _ = p;
            return Err(BadFormat);
        }
        let w = word(text);
        if w.is_none() {
            if self.zone_word(text)? {
                return Ok(None);
            }
            if text == "z" || text == "zulu" {
                self.set(TZ)?;
                self.zone = Some(0);
                return Ok(None);
            }
            if self.mask & TZ == 0
                && text.len() > 2
                && let Some(z) = Zone::find(text)
            {
                self.set(TZ)?;
                if let Zone::Fixed(s, _) = &z {
                    self.zone = Some(*s);
                }
                self.named = Some(z);
                return Ok(None);
            }
            return Err(BadFormat);
        }
        match w.ok_or(BadFormat)? {
            DatetimeWord::Month(m) => {
                // `Feb 2 1999`, or a number before that was taken for the month is the day.
                if self.mask & M != 0
                    && !self.have_text_month
                    && self.mask & D == 0
                    && (1..=31).contains(&self.tm.month)
                {
                    self.tm.day = self.tm.month;
                    self.mask |= D;
                    self.mask &= !M;
                }
                self.have_text_month = true;
                self.month(m)?;
            }
            DatetimeWord::Dow(_) => self.set(DOW)?,
            DatetimeWord::Am => self.meridiem(false)?,
            DatetimeWord::Pm => self.meridiem(true)?,
            DatetimeWord::Ad => self.bc = false,
            DatetimeWord::Bc => self.bc = true,
            DatetimeWord::Ignore => {}
            DatetimeWord::Dst => {
                self.set(DTZMOD)?;
                self.zone = Some(self.zone.ok_or(BadFormat)? + 3600);
            }
            DatetimeWord::Julian => self.pending = Some(DatetimeWord::Julian),
            DatetimeWord::IsoTime => {
                if self.mask & DATE != DATE && !self.time_only {
                    return Err(BadFormat);
                }
                self.pending = Some(DatetimeWord::IsoTime);
            }
            DatetimeWord::Now => {
                self.set(DATE | TIME | TZ)?;
                let zone = session_zone(self.ctx);
                let now = self.ctx.clock_of_input();
                let offset = zone.offset_at(now);
                self.tm = tm_of(now + i64::from(offset) * USECS_PER_SEC);
                self.zone = Some(offset);
            }
            w @ (DatetimeWord::Today | DatetimeWord::Tomorrow | DatetimeWord::Yesterday) => {
                self.set(DATE)?;
                let now = super::local_time_at(self.ctx.clock_of_input(), self.ctx);
                let shift = match w {
                    DatetimeWord::Tomorrow => 1,
                    DatetimeWord::Yesterday => -1,
                    _ => 0,
                };
                (self.tm.year, self.tm.month, self.tm.day) =
                    from_julian(to_julian(now.year, now.month, now.day) + shift);
            }
            DatetimeWord::AllBalls => {
                self.set(TIME | TZ)?;
                self.zone = Some(0);
            }
            DatetimeWord::Epoch => return Ok(Some(DatetimeValue::Epoch)),
            DatetimeWord::Infinity => return Ok(Some(DatetimeValue::Infinity)),
            DatetimeWord::NegInfinity => return Ok(Some(DatetimeValue::NegInfinity)),
        }
        Ok(None)
    }
    fn zone_word(&mut self, text: &str) -> DatetimeResult<bool> {
        match abbreviation(text) {
            None => Ok(false),
            Some(AbbreviationMeaning::Fixed(seconds, _)) => {
                self.set(TZ)?;
                self.zone = Some(*seconds);
                Ok(true)
            }
            Some(AbbreviationMeaning::Zone(name)) => {
                self.set(TZ)?;
                self.named = Zone::find(name);
                Ok(true)
            }
        }
    }
    fn meridiem(&mut self, pm: bool) -> DatetimeResult<()> {
        if self.pm.is_some() {
            return Err(BadFormat);
        }
        self.pm = Some(pm);
        Ok(())
    }
    fn apply_meridiem(&mut self) -> DatetimeResult<()> {
        if let Some(pm) = self.pm {
            if self.tm.hour > 12 {
                return Err(FieldOverflow);
            }
            if pm && self.tm.hour != 12 {
                self.tm.hour += 12;
            } else if !pm && self.tm.hour == 12 {
                self.tm.hour = 0;
            }
        }
        Ok(())
    }

    fn validate_date(&mut self) -> DatetimeResult<()> {
        let tm = &mut self.tm;
        if self.mask & Y != 0 && self.mask & DATE != 0 {
            if self.bc {
                if tm.year <= 0 {
                    return Err(FieldOverflow);
                }
                tm.year = 1 - tm.year;
            } else if self.two_digit_year {
                if tm.year < 70 {
                    tm.year += 2000;
                } else if tm.year < 100 {
                    tm.year += 1900;
                }
            } else if tm.year <= 0 && !self.julian_like() {
                return Err(FieldOverflow);
            }
        }
        let tm = &mut self.tm;
        if self.mask & DOY != 0 {
            (tm.year, tm.month, tm.day) = from_julian(to_julian(tm.year, 1, 1) + self.doy - 1);
        }
        if self.mask & M != 0 && !(1..=12).contains(&tm.month) {
            return Err(DayMonthOverflow);
        }
        if self.mask & D != 0 && !(1..=31).contains(&tm.day) {
            return Err(DayMonthOverflow);
        }
        if self.mask & DATE == DATE && tm.day > days_in_month(tm.year, tm.month) {
            return Err(FieldOverflow);
        }
        Ok(())
    }
    /// A Julian day or `now` set all three parts at once; its year may be before 1 AD.
    fn julian_like(&self) -> bool {
        to_julian(self.tm.year, self.tm.month.max(1), self.tm.day.max(1)) < to_julian(1, 1, 1) && self.tm.year < 0
    }
}

fn time_in_range(tm: &Tm) -> bool {
    !(tm.hour < 0
        || tm.minute < 0
        || tm.minute > 59
        || tm.second < 0
        || tm.second > 60
        || tm.micros < 0
        || tm.micros > 1_000_000
        || tm.hour > 24
        // Hour 24 and second 60 are allowed as far as the day reaches.
        || tm.time_micros() > USECS_PER_DAY)
}

/// `.123` in microseconds, rounded.
pub fn fraction(text: &str) -> DatetimeResult<i32> {
    if text == "." {
        return Ok(0);
    }
    let digits = text.strip_prefix('.').ok_or(BadFormat)?;
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(BadFormat);
    }
    let v: f64 = format!("0{text}").parse().map_err(|_| BadFormat)?;
    Ok((v * 1e6).round_ties_even() as i32)
}
/// hh:mm, hh:mm:ss, with a fraction.
pub fn clock(text: &str) -> DatetimeResult<(i64, i32, i32, i32)> {
    let (body, frac) = match text.find('.') {
        Some(at) => (&text[..at], fraction(&text[at..])?),
        None => (text, 0),
    };
    let parts: Vec<&str> = body.split(':').collect();
    let num = |s: &str| -> DatetimeResult<i64> {
        if s.is_empty() || !s.bytes().all(|b| b.is_ascii_digit()) {
            return Err(BadFormat);
        }
        s.parse().map_err(|_| FieldOverflow)
    };
    let (h, m, s) = match parts.as_slice() {
        [h, m] if text.contains('.') => return Ok((0, num(h)? as i32, num(m)? as i32, frac)),
        [h, m] => (num(h)?, num(m)?, 0),
        [h, m, s] => (num(h)?, num(m)?, num(s)?),
        _ => return Err(BadFormat),
    };
    if m > 59 || s > 60 {
        return Err(FieldOverflow);
    }
    Ok((h, m as i32, s as i32, frac))
}
/// `+hh`, `-hh:mm`, `+hhmm`, `+hhmmss`, `-hh:mm:ss`: seconds east.
pub(crate) fn zone_offset(text: &str) -> DatetimeResult<i32> {
    let (neg, body) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => return Err(BadFormat),
    };
    let num = |s: &str| -> DatetimeResult<i32> {
        if s.is_empty() || !s.bytes().all(|b| b.is_ascii_digit()) {
            return Err(BadFormat);
        }
        s.parse().map_err(|_| ZoneOverflow)
    };
    let (h, m, s) = if body.contains(':') {
        let p: Vec<&str> = body.split(':').collect();
        match p.as_slice() {
            [h, m] => (num(h)?, num(m)?, 0),
            [h, m, s] => (num(h)?, num(m)?, num(s)?),
            _ => return Err(BadFormat),
        }
    } else {
        let v = num(body)?;
        match body.len() {
            0..=2 => (v, 0, 0),
            3 | 4 => (v / 100, v % 100, 0),
            5 | 6 => (v / 10000, v / 100 % 100, v % 100),
            _ => return Err(ZoneOverflow),
        }
    };
    if h > 15 || m > 59 || s > 59 {
        return Err(ZoneOverflow);
    }
    let v = h * 3600 + m * 60 + s;
    Ok(if neg { -v } else { v })
}
