//! Functions of inet, cidr, macaddr and macaddr8.

use crate::network::Inet;
use crate::oids::*;
use crate::{Datum, EvalContext, io};
use kilndb_base::{Error, Oid, Result, sqlstate};

fn parameter(message: impl Into<String>) -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}
fn out_of_range() -> Error {
    Error::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "result is out of range")
}
fn send(c: &EvalContext, t: Oid, d: &Datum) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    io::send(t, d, &mut out, c)?;
    Ok(out)
}
fn mask_length(value: &Inet, bits: i32) -> Result<u8> {
    let wanted = if bits == -1 { i32::from(value.max_bits()) } else { bits };
    u8::try_from(wanted)
        .ok()
        .filter(|b| *b <= value.max_bits())
        .ok_or_else(|| parameter(format!("invalid mask length: {bits}")))
}
fn together(a: &Inet, b: &Inet, what: &str, f: impl Fn(u128, u128) -> u128) -> Result<Inet> {
    if a.is_v6 != b.is_v6 {
        return Err(parameter(format!("cannot {what} inet values of different sizes")));
    }
    Ok(a.with_number(f(a.number(), b.number())).with_bits(a.bits.max(b.bits)))
}
/// Whether `a` lies in `b`'s network.
fn lies_in(a: &Inet, b: &Inet) -> bool {
    a.is_v6 == b.is_v6 && a.bits >= b.bits && a.same_prefix(b, b.bits)
}
fn plus(a: &Inet, n: i128) -> Result<Inet> {
    let sum = if n < 0 { a.number().checked_sub(n.unsigned_abs()) } else { a.number().checked_add(n as u128) };
    sum.filter(|v| *v <= a.full_mask()).map(|v| a.with_number(v)).ok_or_else(out_of_range)
}
fn minus(a: &Inet, b: &Inet) -> Result<i64> {
    if a.is_v6 != b.is_v6 {
        return Err(parameter("cannot subtract inet values of different sizes"));
    }
    let (a, b) = (a.number(), b.number());
    let distance = i64::try_from(a.abs_diff(b));
    match distance {
        Ok(v) => Ok(if a < b { -v } else { v }),
        Err(_) if a < b && b - a == 1 << 63 => Ok(i64::MIN),
        Err(_) => Err(out_of_range()),
    }
}
fn zip<const N: usize>(a: &[u8; N], b: &[u8; N], f: impl Fn(u8, u8) -> u8) -> [u8; N] {
    std::array::from_fn(|i| f(a[i], b[i]))
}
fn truncated<const N: usize>(a: &[u8; N]) -> [u8; N] {
    std::array::from_fn(|i| if i < 3 { a[i] } else { 0 })
}
fn shorter(a: &[u8; 8]) -> Result<[u8; 6]> {
    if a[3..5] != [0xff, 0xfe] {
        let hint = "Only addresses that have FF and FE as values in the 4th and 5th bytes from the left, for example \
                    xx:xx:xx:ff:fe:xx:xx:xx, are eligible to be converted from macaddr8 to macaddr.";
        return Err(Error::new(
            sqlstate::NUMERIC_VALUE_OUT_OF_RANGE,
            "macaddr8 data out of range to convert to macaddr",
        )
        .with_hint(hint));
    }
    Ok([a[0], a[1], a[2], a[5], a[6], a[7]])
}
fn text_of(a: &Inet, with_bits: bool) -> String {
    let mut out = Vec::new();
    a.as_cidr(with_bits).write(&mut out);
    String::from_utf8(out).unwrap_or_default()
}

scalars! {
    fn inet_in(c; v: text) = io::input(INET, v, -1, c)?;
    fn cidr_in(c; v: text) = io::input(CIDR, v, -1, c)?;
    fn inet_out(c; v: any) = io::output_string(INET, v, c)?;
    fn cidr_out(c; v: any) = io::output_string(CIDR, v, c)?;
    fn inet_send(c; v: any) = send(c, INET, v)?;
    fn cidr_send(c; v: any) = send(c, CIDR, v)?;
    fn macaddr_in(c; v: text) = io::input(MACADDR, v, -1, c)?;
    fn macaddr_out(c; v: any) = io::output_string(MACADDR, v, c)?;
    fn macaddr_send(c; v: any) = send(c, MACADDR, v)?;
    fn macaddr8_in(c; v: text) = io::input(MACADDR8, v, -1, c)?;
    fn macaddr8_out(c; v: any) = io::output_string(MACADDR8, v, c)?;
    fn macaddr8_send(c; v: any) = send(c, MACADDR8, v)?;

    fn inet_abbrev(_c; a: inet) = text_of(a, false);
    fn cidr_abbrev(_c; a: inet) = a.abbreviated();
    fn network_show(_c; a: inet) = format!("{}/{}", a.host(), a.bits);
    fn network_host(_c; a: inet) = a.host();
    fn network_masklen(_c; a: inet) = i32::from(a.bits);
    fn network_family(_c; a: inet) = if a.is_v6 { 6 } else { 4 };
    fn network_network(_c; a: inet) = a.network().as_cidr(true);
    fn inet_to_cidr(_c; a: inet) = a.network().as_cidr(true);
    fn network_netmask(_c; a: inet) = a.with_number(a.full_mask() & !a.host_mask()).with_bits(a.max_bits());
    fn network_hostmask(_c; a: inet) = a.with_number(a.host_mask()).with_bits(a.max_bits());
    fn network_broadcast(_c; a: inet) = a.with_number(a.number() | a.host_mask());
    fn inet_set_masklen(_c; a: inet, bits: int4) = a.with_bits(mask_length(a, bits)?);
    fn cidr_set_masklen(_c; a: inet, bits: int4) = a.with_bits(mask_length(a, bits)?).network().as_cidr(true);
    fn inet_same_family(_c; a: inet, b: inet) = a.is_v6 == b.is_v6;
    fn inet_merge(_c; a: inet, b: inet) = {
        if a.is_v6 != b.is_v6 {
            return Err(parameter("cannot merge addresses from different families"));
        }
        a.with_bits(a.common_bits(b, a.bits.min(b.bits))).network().as_cidr(true)
    };
    fn network_sub(_c; a: inet, b: inet) = a.bits > b.bits && lies_in(a, b);
    fn network_subeq(_c; a: inet, b: inet) = lies_in(a, b);
    fn network_sup(_c; a: inet, b: inet) = b.bits > a.bits && lies_in(b, a);
    fn network_supeq(_c; a: inet, b: inet) = lies_in(b, a);
    fn network_overlap(_c; a: inet, b: inet) = a.is_v6 == b.is_v6 && a.same_prefix(b, a.bits.min(b.bits));
    fn inetnot(_c; a: inet) = a.with_number(!a.number() & a.full_mask());
    fn inetand(_c; a: inet, b: inet) = together(a, b, "AND", |a, b| a & b)?;
    fn inetor(_c; a: inet, b: inet) = together(a, b, "OR", |a, b| a | b)?;
    fn inetpl(_c; a: inet, n: int8) = plus(a, i128::from(n))?;
    fn p2631_int8pl_inet(_c; n: int8, a: inet) = plus(a, i128::from(n))?;
    // The least number has no opposite: it stays what it is, as in PostgreSQL.
    fn inetmi_int8(_c; a: inet, n: int8) = plus(a, i128::from(n.wrapping_neg()))?;
    fn inetmi(_c; a: inet, b: inet) = minus(a, b)?;

    fn macaddr_not(_c; a: macaddr) = a.map(|b| !b);
    fn macaddr_and(_c; a: macaddr, b: macaddr) = zip(a, b, |a, b| a & b);
    fn macaddr_or(_c; a: macaddr, b: macaddr) = zip(a, b, |a, b| a | b);
    fn macaddr_trunc(_c; a: macaddr) = truncated(a);
    fn macaddr8_not(_c; a: macaddr8) = a.map(|b| !b);
    fn macaddr8_and(_c; a: macaddr8, b: macaddr8) = zip(a, b, |a, b| a & b);
    fn macaddr8_or(_c; a: macaddr8, b: macaddr8) = zip(a, b, |a, b| a | b);
    fn macaddr8_trunc(_c; a: macaddr8) = truncated(a);
    fn macaddr8_set7bit(_c; a: macaddr8) = { let mut a = *a; a[0] |= 2; a };
    fn macaddrtomacaddr8(_c; a: macaddr) = [a[0], a[1], a[2], 0xff, 0xfe, a[3], a[4], a[5]];
    fn macaddr8tomacaddr(_c; a: macaddr8) = shorter(a)?;
}
