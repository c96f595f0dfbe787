//! inet, cidr, macaddr and macaddr8: what their values are, read, written and ordered.
//!
//! Invariants
//! 1. Bytes of [`Inet::address`] behind the family's length are zero.
//! 2. A cidr is an [`Inet`] without bits behind its mask that says so; order, equality and hash do not look at that.

use crate::io::{error, invalid_syntax};
use kilndb_base::{Result, sqlstate, work};
use std::cmp::Ordering;
use std::io::Write;

#[derive(Clone, Copy, Debug)]
pub struct Inet {
    pub is_v6: bool,
    pub is_cidr: bool,
    /// Length of the network part.
    pub bits: u8,
    pub address: [u8; 16],
}

impl Inet {
    pub fn new(is_v6: bool) -> Inet {
        Inet { is_v6, is_cidr: false, bits: 0, address: [0; 16] }
    }
    pub fn max_bits(&self) -> u8 {
        if self.is_v6 { 128 } else { 32 }
    }
    /// The family as PostgreSQL stores, sends and hashes it.
    pub(crate) fn family_byte(&self) -> u8 {
        if self.is_v6 { 3 } else { 2 }
    }
    pub fn bytes(&self) -> &[u8] {
        if self.is_v6 { &self.address } else { &self.address[..4] }
    }
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        if self.is_v6 { &mut self.address } else { &mut self.address[..4] }
    }
    /// The address as a number.
    pub fn number(&self) -> u128 {
        if self.is_v6 {
            u128::from_be_bytes(self.address)
        } else {
            u128::from(u32::from_be_bytes(self.address[..4].try_into().unwrap_or_default()))
        }
    }
    pub fn with_number(mut self, number: u128) -> Inet {
        if self.is_v6 {
            self.address = number.to_be_bytes();
        } else {
            self.address[..4].copy_from_slice(&(number as u32).to_be_bytes());
        }
        self
    }
    /// Ones where the host part is.
    pub fn host_mask(&self) -> u128 {
        let all = if self.is_v6 { u128::MAX } else { u128::from(u32::MAX) };
        all.checked_shr(u32::from(self.bits)).unwrap_or(0) & all
    }
    pub(crate) fn full_mask(&self) -> u128 {
        if self.is_v6 { u128::MAX } else { u128::from(u32::MAX) }
    }
    pub fn with_bits(mut self, bits: u8) -> Inet {
        self.bits = bits;
        self
    }
    /// The address without its host part.
    pub fn network(&self) -> Inet {
        self.with_number(self.number() & !self.host_mask())
    }
    pub fn as_cidr(mut self, is_cidr: bool) -> Inet {
        self.is_cidr = is_cidr;
        self
    }
    pub(crate) fn is_network(&self) -> bool {
        self.number() & self.host_mask() == 0
    }
    /// Do the first `bits` bits agree, of values of one family?
    pub(crate) fn same_prefix(&self, other: &Inet, bits: u8) -> bool {
        let host = self.with_bits(bits).host_mask();
        self.number() & !host == other.number() & !host
    }
    /// How many of the first `limit` bits agree.
    pub(crate) fn common_bits(&self, other: &Inet, limit: u8) -> u8 {
        let width = u32::from(self.max_bits());
        let different = (self.number() ^ other.number()) << (128 - width);
        limit.min(different.leading_zeros().min(width) as u8)
    }
    /// Families, then the network part with a shorter one before what begins with it, then the whole address.
    pub fn compare(&self, other: &Inet) -> Ordering {
        self.sort_parts().cmp(&other.sort_parts())
    }
    fn sort_parts(&self) -> (bool, u128, u8, u128) {
        (self.is_v6, self.number() & !self.host_mask(), self.bits, self.number())
    }
    /// Bytes that sort as [`Inet::compare`] does.
    pub fn sort_key(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_v6));
        out.extend_from_slice(self.network().bytes());
        out.push(self.bits);
        out.extend_from_slice(self.bytes());
    }
    /// What PostgreSQL hashes.
    pub(crate) fn hashed_bytes(&self) -> ([u8; 18], usize) {
        let mut all = [0; 18];
        all[0] = self.family_byte();
        all[1] = self.bits;
        let len = self.bytes().len();
        all[2..2 + len].copy_from_slice(self.bytes());
        (all, 2 + len)
    }

    pub fn parse(text: &str, is_cidr: bool) -> Result<Inet> {
        let bad = || invalid_syntax(if is_cidr { "cidr" } else { "inet" }, text);
        let parse = || match (text.contains(':'), is_cidr) {
            (true, _) => parse_v6(text.as_bytes()),
            (false, true) => parse_v4_cidr(text.as_bytes()),
            (false, false) => parse_v4(text.as_bytes()),
        };
        let parsed = if text.len() < LONG { parse() } else { work::apart(parse)? };
        let value = parsed.ok_or_else(bad)?.as_cidr(is_cidr);
        if is_cidr && !value.is_network() {
            return Err(error(sqlstate::INVALID_TEXT_REPRESENTATION, format!("invalid cidr value: \"{text}\""))
                .with_detail("Value has bits set to right of mask."));
        }
        Ok(value)
    }
    /// A cidr with the length of its mask, also where that is all.
    pub fn write(&self, out: &mut Vec<u8>) {
        // A Vec takes every write.
        if self.is_v6 {
            write_v6(&self.address, out);
        } else {
            let a = &self.address;
            let _ = write!(out, "{}.{}.{}.{}", a[0], a[1], a[2], a[3]);
        }
        if self.is_cidr || self.bits != self.max_bits() {
            let _ = write!(out, "/{}", self.bits);
        }
    }
    /// The address alone.
    pub fn host(&self) -> String {
        let mut out = Vec::new();
        self.with_bits(self.max_bits()).as_cidr(false).write(&mut out);
        String::from_utf8(out).unwrap_or_default()
    }
    /// A cidr with no more octets or words than its network part has.
    pub(crate) fn abbreviated(&self) -> String {
        let shown = if self.is_v6 { abbreviate_v6(self) } else { abbreviate_v4(self) };
        format!("{shown}/{}", self.bits)
    }
    pub fn receive(bytes: &[u8], is_cidr: bool) -> Result<Inet> {
        let name = if is_cidr { "cidr" } else { "inet" };
        let bad = |what: &str| {
            error(sqlstate::INVALID_BINARY_REPRESENTATION, format!("invalid {what} external \"{name}\" value"))
        };
        let short = || error(sqlstate::PROTOCOL_VIOLATION, "insufficient data left in message");
        let at = |i: usize| bytes.get(i).copied().ok_or_else(short);
        let mut value = match at(0)? {
            2 => Inet::new(false),
            3 => Inet::new(true),
            _ => return Err(bad("address family in")),
        };
        value.bits = at(1)?;
        if value.bits > value.max_bits() {
            return Err(bad("bits in"));
        }
        at(2)?;
        let len = usize::from(at(3)?);
        if len != value.bytes().len() {
            return Err(bad("length in"));
        }
        let address = bytes.get(4..4 + len).ok_or_else(short)?;
        value.bytes_mut().copy_from_slice(address);
        if bytes.len() > 4 + len {
            return Err(error(sqlstate::INVALID_BINARY_REPRESENTATION, "incorrect binary data format"));
        }
        if is_cidr && !value.is_network() {
            return Err(error(sqlstate::INVALID_BINARY_REPRESENTATION, "invalid external \"cidr\" value")
                .with_detail("Value has bits set to right of mask."));
        }
        Ok(value.as_cidr(is_cidr))
    }
    pub fn send(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.family_byte(), self.bits, u8::from(self.is_cidr), self.bytes().len() as u8]);
        out.extend_from_slice(self.bytes());
    }
}

/// An address of so many bytes is mostly zeros or blanks in front of one: it is read where it takes nobody's turn.
const LONG: usize = 32 << 10;

#[inline]
fn parse_apart<T: Send>(text: &str, parse: impl FnOnce() -> T + Send) -> Result<T> {
    if text.len() < LONG { Ok(parse()) } else { work::apart(parse) }
}

/// Digits at `at`; None if there are none or they say more than `limit`.
fn decimal(text: &[u8], at: &mut usize, limit: u32) -> Option<u8> {
    let start = *at;
    let mut value = 0u32;
    while let Some(d) = text.get(*at).filter(|b| b.is_ascii_digit()) {
        value = value * 10 + u32::from(d - b'0');
        if value > limit {
            return None;
        }
        *at += 1;
    }
    (*at > start).then_some(value as u8)
}
/// `/n` at the end of the text, if there is more text.
fn v4_bits(text: &[u8], at: usize) -> Option<Option<u8>> {
    match text.get(at) {
        None => Some(None),
        Some(b'/') => {
            let mut at = at + 1;
            let bits = decimal(text, &mut at, 32)?;
            (at == text.len()).then_some(Some(bits))
        }
        Some(_) => None,
    }
}
/// Octets with dots between them; a dot may end them where `open`.
fn octets(text: &[u8], at: &mut usize, open: bool, out: &mut Inet) -> Option<usize> {
    let mut count = 0;
    loop {
        if count > 0 && open && !text.get(*at).is_some_and(u8::is_ascii_digit) {
            return Some(count);
        }
        let octet = decimal(text, at, 255)?;
        *out.address[..4].get_mut(count)? = octet;
        count += 1;
        match text.get(*at) {
            None | Some(b'/') => return Some(count),
            Some(b'.') => *at += 1,
            Some(_) => return None,
        }
    }
}
fn parse_v4(text: &[u8]) -> Option<Inet> {
    let mut value = Inet::new(false);
    let mut at = 0;
    let count = octets(text, &mut at, true, &mut value)?;
    value.bits = match v4_bits(text, at)? {
        Some(bits) => bits,
        None if count == 4 => 32,
        None => return None,
    };
    // The network part must have been written.
    (usize::from(value.bits / 8) <= count).then_some(value)
}
/// Octets left out are zero; the mask's length comes from the class where it is not written.
fn parse_v4_cidr(text: &[u8]) -> Option<Inet> {
    let mut value = Inet::new(false);
    let mut at = 0;
    let is_hex = matches!(text, [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit());
    let count = if is_hex {
        at = 2;
        let mut nibbles = 0;
        while let Some(digit) = text.get(at).and_then(|b| (*b as char).to_digit(16)) {
            let octet = value.address[..4].get_mut(nibbles / 2)?;
            *octet |= (digit << if nibbles % 2 == 0 { 4 } else { 0 }) as u8;
            nibbles += 1;
            at += 1;
        }
        nibbles.div_ceil(2)
    } else {
        octets(text, &mut at, false, &mut value)?
    };
    value.bits = match v4_bits(text, at)? {
        Some(bits) => bits,
        None => {
            let first = value.address[0];
            let class = match first {
                240.. => 32,
                224.. => 8,
                192.. => 24,
                128.. => 16,
                _ => 8,
            };
            match class.max(count as u8 * 8) {
                8 if first == 224 => 4,
                bits => bits,
            }
        }
    };
    Some(value)
}
/// A number without leading zeros that ends the text.
fn v6_bits(text: &[u8]) -> Option<u8> {
    if text.len() > 1 && text[0] == b'0' {
        return None;
    }
    let mut at = 0;
    let bits = decimal(text, &mut at, 128)?;
    (at == text.len()).then_some(bits)
}
/// `a.b.c.d` or `a.b.c.d/n` at the end of an IPv6 address.
fn embedded_v4(text: &[u8]) -> Option<([u8; 4], Option<u8>)> {
    let (address, bits) = match text.iter().position(|b| *b == b'/') {
        Some(at) => (&text[..at], Some(v6_bits(&text[at + 1..])?)),
        None => (text, None),
    };
    let mut octets = [0; 4];
    let mut parts = address.split(|b| *b == b'.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.len() > 1 && part[0] == b'0' {
            return None;
        }
        let mut at = 0;
        *octet = decimal(part, &mut at, 255)?;
        if at != part.len() {
            return None;
        }
    }
    parts.next().is_none().then_some((octets, bits))
}
fn parse_v6(text: &[u8]) -> Option<Inet> {
    let mut value = Inet::new(true);
    value.bits = 128;
    let mut words: Vec<u8> = Vec::with_capacity(18);
    let mut gap = None;
    let mut at = 0;
    if text.first() == Some(&b':') {
        at = 1;
        if text.get(1) != Some(&b':') {
            return None;
        }
    }
    let mut word_start = at;
    let mut word = None::<u32>;
    while let Some(&c) = text.get(at) {
        at += 1;
        if let Some(digit) = (c as char).to_digit(16) {
            word = Some(word.unwrap_or(0) << 4 | digit);
            if at - word_start > 4 {
                return None;
            }
            continue;
        }
        match c {
            b':' => {
                match word.take() {
                    None if gap.is_some() => return None,
                    None => gap = Some(words.len()),
                    Some(_) if at == text.len() => return None,
                    Some(w) => words.extend_from_slice(&(w as u16).to_be_bytes()),
                }
                word_start = at;
            }
            b'.' => {
                let (octets, bits) = embedded_v4(&text[word_start..])?;
                words.extend_from_slice(&octets);
                value.bits = bits.unwrap_or(128);
                word = None;
                break;
            }
            b'/' => {
                value.bits = v6_bits(&text[at..])?;
                break;
            }
            _ => return None,
        }
        if words.len() > 16 {
            return None;
        }
    }
    if let Some(w) = word {
        words.extend_from_slice(&(w as u16).to_be_bytes());
    }
    match gap {
        Some(gap) if words.len() < 16 => {
            let tail = words.len() - gap;
            value.address[..gap].copy_from_slice(&words[..gap]);
            value.address[16 - tail..].copy_from_slice(&words[gap..]);
        }
        None if words.len() == 16 => value.address.copy_from_slice(&words),
        _ => return None,
    }
    Some(value)
}

fn words_of(address: &[u8; 16]) -> [u16; 8] {
    std::array::from_fn(|i| u16::from_be_bytes([address[2 * i], address[2 * i + 1]]))
}
fn write_v6(address: &[u8; 16], out: &mut Vec<u8>) {
    let words = words_of(address);
    // The longest run of zeros, the first of equally long ones, two words at least.
    let (mut best, mut at) = ((0, 0), 0);
    while at < 8 {
        let run = words[at..].iter().take_while(|w| **w == 0).count();
        if run > best.1 && run >= 2 {
            best = (at, run);
        }
        at += run.max(1);
    }
    let (base, len) = best;
    for i in 0..8 {
        if (base..base + len).contains(&i) {
            if i == base {
                out.push(b':');
            }
            continue;
        }
        if i != 0 {
            out.push(b':');
        }
        let holds_v4 = i == 6
            && len > 0
            && base == 0
            && (len == 6 || (len == 7 && words[7] != 1) || (len == 5 && words[5] == 0xffff));
        if holds_v4 {
            let _ = write!(out, "{}.{}.{}.{}", address[12], address[13], address[14], address[15]);
            return;
        }
        let _ = write!(out, "{:x}", words[i]);
    }
    if len > 0 && base + len == 8 {
        out.push(b':');
    }
}
fn abbreviate_v4(value: &Inet) -> String {
    if value.bits == 0 {
        return "0".into();
    }
    let shown = usize::from(value.bits).div_ceil(8);
    value.network().address[..shown].iter().map(u8::to_string).collect::<Vec<_>>().join(".")
}
fn abbreviate_v6(value: &Inet) -> String {
    if value.bits == 0 {
        return "::".into();
    }
    let address = value.network().address;
    let count = usize::from(value.bits).div_ceil(16).max(2);
    let words = &words_of(&address)[..count];
    // As PostgreSQL looks for the run of zeros: one that is not longer than the best goes on being counted into the
    // next one.
    let (mut start, mut len, mut run_start, mut run) = (0, 0, 0, 0);
    for (i, word) in words.iter().enumerate() {
        if *word == 0 {
            if run == 0 {
                run_start = i;
            }
            run += 1;
        } else if run > len {
            (start, len, run) = (run_start, run, 0);
        }
    }
    if run > len {
        (start, len) = (run_start, run);
    }
    let is_v4 = len != count
        && start == 0
        && (len == 6
            || (len == 5 && address[10] == 0xff && address[11] == 0xff)
            || (len == 7 && address[14] != 0 && address[15] != 1));
    let mut out = String::new();
    for i in 0..count {
        if len != 0 && (start..start + len).contains(&i) {
            if i == start {
                out.push(':');
            }
            if i == count - 1 {
                out.push(':');
            }
        } else if is_v4 && i > 5 {
            out.push(if i == 6 { ':' } else { '.' });
            out += &address[2 * i].to_string();
            if i != 7 || value.bits > 120 {
                out += &format!(".{}", address[2 * i + 1]);
            }
        } else {
            if !out.is_empty() {
                out.push(':');
            }
            out += &format!("{:x}", words[i]);
        }
    }
    out
}

/// A field of a macaddr: blanks, a sign, `0x`, hexadecimal digits; all but the blanks count into `width`.
fn hex_field(text: &[u8], at: &mut usize, width: usize) -> Option<i64> {
    while text.get(*at).is_some_and(|b| b.is_ascii_whitespace() || *b == 0x0b) {
        *at += 1;
    }
    let end = at.saturating_add(width).min(text.len());
    let negative = match text[..end].get(*at) {
        Some(sign @ (b'+' | b'-')) => {
            *at += 1;
            *sign == b'-'
        }
        _ => false,
    };
    let is_digit = |at: usize| text[..end].get(at).and_then(|b| (*b as char).to_digit(16));
    if matches!(text[..end].get(*at..*at + 2), Some([b'0', b'x' | b'X'])) {
        *at += 2;
        is_digit(*at)?;
    }
    let start = *at;
    let mut value = 0i64;
    while let Some(digit) = is_digit(*at) {
        value = (value << 4 | i64::from(digit)).min(i64::from(u32::MAX));
        *at += 1;
    }
    (*at > start).then_some(if negative { -value } else { value })
}
/// Six fields with a separator (or none) behind each; only blanks may follow.
fn mac_fields(text: &[u8], width: usize, separators: [Option<u8>; 5]) -> Option<[i64; 6]> {
    let mut at = 0;
    let mut fields = [0; 6];
    for (i, field) in fields.iter_mut().enumerate() {
        *field = hex_field(text, &mut at, width)?;
        if let Some(Some(separator)) = separators.get(i) {
            if text.get(at) != Some(separator) {
                return None;
            }
            at += 1;
        }
    }
    text[at..].iter().all(|b| b.is_ascii_whitespace() || *b == 0x0b).then_some(fields)
}
pub(crate) fn parse_macaddr(text: &str) -> Result<[u8; 6]> {
    let (colon, dash, dot) = (Some(b':'), Some(b'-'), Some(b'.'));
    let forms = [
        (usize::MAX, [colon; 5]),
        (usize::MAX, [dash; 5]),
        (2, [None, None, colon, None, None]),
        (2, [None, None, dash, None, None]),
        (2, [None, dot, None, dot, None]),
        (2, [None, dash, None, dash, None]),
        (2, [None; 5]),
    ];
    let fields = parse_apart(text, || {
        forms.iter().find_map(|(width, separators)| mac_fields(text.as_bytes(), *width, *separators))
    })?;
    let fields = fields.ok_or_else(|| invalid_syntax("macaddr", text))?;
    let mut value = [0; 6];
    for (byte, field) in value.iter_mut().zip(fields) {
        *byte = u8::try_from(field).map_err(|_| {
            error(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, format!("invalid octet value in \"macaddr\" value: \"{text}\""))
        })?;
    }
    Ok(value)
}
pub(crate) fn parse_macaddr8(text: &str) -> Result<[u8; 8]> {
    parse_apart(text, || parse_mac8(text))?
}
fn parse_mac8(text: &str) -> Result<[u8; 8]> {
    let bad = || invalid_syntax("macaddr8", text);
    let blank = |b: &u8| b.is_ascii_whitespace() || *b == 0x0b;
    let b = text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b').as_bytes();
    let mut bytes = Vec::with_capacity(8);
    let mut spacer = None;
    let mut at = 0;
    while at + 1 < b.len() {
        let digit = |at: usize| (b[at] as char).to_digit(16).ok_or_else(bad);
        if bytes.len() == 8 {
            return Err(bad());
        }
        bytes.push((digit(at)? << 4 | digit(at + 1)?) as u8);
        at += 2;
        if let Some(c @ (b':' | b'-' | b'.')) = b.get(at) {
            if *spacer.get_or_insert(*c) != *c {
                return Err(bad());
            }
            at += 1;
        }
        if matches!(bytes.len(), 6 | 8) && b.get(at).is_some_and(blank) {
            if !b[at..].iter().all(blank) {
                return Err(bad());
            }
            at = b.len();
        }
    }
    match bytes[..] {
        [a, b, c, d, e, f] => Ok([a, b, c, 0xff, 0xfe, d, e, f]),
        _ => bytes.try_into().map_err(|_| bad()),
    }
}
pub(crate) fn write_mac(bytes: &[u8], out: &mut Vec<u8>) {
    for (i, b) in bytes.iter().enumerate() {
        if i > 0 {
            out.push(b':');
        }
        let _ = write!(out, "{b:02x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_values() {
        // In PostgreSQL's order.
        let sorted = [
            "0.0.0.0/0",
            "9.255.0.1",
            "10.0.0.0/8",
            "10.1.2.3/8",
            "10.255.255.255/8",
            "10.0.0.0/9",
            "10.0.0.1/32",
            "10.1.0.0/16",
            "11.0.0.0/8",
            "192.168.1.0/24",
            "192.168.1.226/24",
            "192.168.1.0/25",
            "192.168.1.255/25",
            "192.168.1.0",
            "192.168.1.226",
            "::/0",
            "::1",
            "::4.3.2.1/24",
            "10:23::f1/64",
            "10:23::ffff",
            "ffff::/16",
        ];
        let values: Vec<Inet> = sorted.iter().map(|t| Inet::parse(t, false).expect(t)).collect();
        let key = |v: &Inet| {
            let mut out = Vec::new();
            v.sort_key(&mut out);
            out
        };
        for a in &values {
            for b in &values {
                assert_eq!(a.compare(b), key(a).cmp(&key(b)), "{a:?} {b:?}");
            }
        }
        let mut again = values.clone();
        again.sort_by(Inet::compare);
        assert!(values[..14].iter().zip(&again).all(|(a, b)| a.is_v6 == b.is_v6));
    }
    #[test]
    fn text_comes_back() {
        for text in [
            "1.2.3.4",
            "1.2.3.0/24",
            "::",
            "::/0",
            "1::",
            "::1",
            "::ffff:1.2.3.4",
            "::1.2.3.4/128",
            "1:0:0:2::3/7",
            "0:1:2:3:4:5:6:7",
            "::2:3:4:5:6:7",
        ] {
            let value = Inet::parse(text, false).expect(text);
            let mut out = Vec::new();
            value.write(&mut out);
            assert_eq!(
                Inet::parse(std::str::from_utf8(&out).expect("text"), false).expect("again").sort_parts(),
                value.sort_parts(),
                "{text}"
            );
        }
        for bad in [
            "",
            "1.2.3",
            "1.2.3.4.5",
            "1.2.3.256",
            "1.2.3.4/33",
            "1.2.3.4/",
            ":",
            ":1",
            "1:",
            "1:2:3:4:5:6:7:8:9",
            "::1::2",
            "12345::",
            "::/129",
            "::/08",
            "::1.2.3.04",
            "/24",
            "1.2.3.4x",
        ] {
            assert!(Inet::parse(bad, false).is_err(), "{bad}");
        }
    }
}
