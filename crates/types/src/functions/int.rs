//! Integer arithmetic and bit operators.

use crate::cast::out_of_range;
use kilndb_base::{Error, sqlstate};

#[cold]
pub(super) fn division_by_zero() -> Error {
    Error::new(sqlstate::DIVISION_BY_ZERO, "division by zero")
}
fn small() -> Error {
    out_of_range("smallint")
}
fn int() -> Error {
    out_of_range("integer")
}
fn big() -> Error {
    out_of_range("bigint")
}

scalars! {
    fn int2pl(_c; a: int2, b: int2) = a.checked_add(b).ok_or_else(small)?;
    fn int2mi(_c; a: int2, b: int2) = a.checked_sub(b).ok_or_else(small)?;
    fn int2mul(_c; a: int2, b: int2) = a.checked_mul(b).ok_or_else(small)?;
    fn int2div(_c; a: int2, b: int2) = if b == 0 { return Err(division_by_zero()) } else { a.checked_div(b).ok_or_else(small)? };
    fn int24pl(_c; a: int2, b: int4) = i32::from(a).checked_add(b).ok_or_else(int)?;
    fn int24mi(_c; a: int2, b: int4) = i32::from(a).checked_sub(b).ok_or_else(int)?;
    fn int24mul(_c; a: int2, b: int4) = i32::from(a).checked_mul(b).ok_or_else(int)?;
    fn int24div(_c; a: int2, b: int4) = if b == 0 { return Err(division_by_zero()) } else { i32::from(a).checked_div(b).ok_or_else(int)? };
    fn int28pl(_c; a: int2, b: int8) = i64::from(a).checked_add(b).ok_or_else(big)?;
    fn int28mi(_c; a: int2, b: int8) = i64::from(a).checked_sub(b).ok_or_else(big)?;
    fn int28mul(_c; a: int2, b: int8) = i64::from(a).checked_mul(b).ok_or_else(big)?;
    fn int28div(_c; a: int2, b: int8) = if b == 0 { return Err(division_by_zero()) } else { i64::from(a).checked_div(b).ok_or_else(big)? };
    fn int2mod(_c; a: int2, b: int2) = if b == 0 { return Err(division_by_zero()) } else { a.wrapping_rem(b) };
    fn int2um(_c; a: int2) = a.checked_neg().ok_or_else(small)?;
    fn int2up(_c; a: int2) = a;
    fn int2abs(_c; a: int2) = a.checked_abs().ok_or_else(small)?;
    fn int2and(_c; a: int2, b: int2) = a & b;
    fn int2or(_c; a: int2, b: int2) = a | b;
    fn int2xor(_c; a: int2, b: int2) = a ^ b;
    fn int2not(_c; a: int2) = !a;
    fn int2shl(_c; a: int2, n: int4) = i32::from(a).wrapping_shl(n as u32) as i16;
    fn int2shr(_c; a: int2, n: int4) = i32::from(a).wrapping_shr(n as u32) as i16;
    fn int42pl(_c; a: int4, b: int2) = a.checked_add(i32::from(b)).ok_or_else(int)?;
    fn int42mi(_c; a: int4, b: int2) = a.checked_sub(i32::from(b)).ok_or_else(int)?;
    fn int42mul(_c; a: int4, b: int2) = a.checked_mul(i32::from(b)).ok_or_else(int)?;
    fn int42div(_c; a: int4, b: int2) = if b == 0 { return Err(division_by_zero()) } else { a.checked_div(i32::from(b)).ok_or_else(int)? };
    fn int4pl(_c; a: int4, b: int4) = a.checked_add(b).ok_or_else(int)?;
    fn int4mi(_c; a: int4, b: int4) = a.checked_sub(b).ok_or_else(int)?;
    fn int4mul(_c; a: int4, b: int4) = a.checked_mul(b).ok_or_else(int)?;
    fn int4div(_c; a: int4, b: int4) = if b == 0 { return Err(division_by_zero()) } else { a.checked_div(b).ok_or_else(int)? };
    fn int48pl(_c; a: int4, b: int8) = i64::from(a).checked_add(b).ok_or_else(big)?;
    fn int48mi(_c; a: int4, b: int8) = i64::from(a).checked_sub(b).ok_or_else(big)?;
    fn int48mul(_c; a: int4, b: int8) = i64::from(a).checked_mul(b).ok_or_else(big)?;
    fn int48div(_c; a: int4, b: int8) = if b == 0 { return Err(division_by_zero()) } else { i64::from(a).checked_div(b).ok_or_else(big)? };
    fn int4mod(_c; a: int4, b: int4) = if b == 0 { return Err(division_by_zero()) } else { a.wrapping_rem(b) };
    fn int4um(_c; a: int4) = a.checked_neg().ok_or_else(int)?;
    fn int4up(_c; a: int4) = a;
    fn int4abs(_c; a: int4) = a.checked_abs().ok_or_else(int)?;
    fn int4and(_c; a: int4, b: int4) = a & b;
    fn int4or(_c; a: int4, b: int4) = a | b;
    fn int4xor(_c; a: int4, b: int4) = a ^ b;
    fn int4not(_c; a: int4) = !a;
    fn int4shl(_c; a: int4, n: int4) = a.wrapping_shl(n as u32);
    fn int4shr(_c; a: int4, n: int4) = a.wrapping_shr(n as u32);
    fn int82pl(_c; a: int8, b: int2) = a.checked_add(i64::from(b)).ok_or_else(big)?;
    fn int82mi(_c; a: int8, b: int2) = a.checked_sub(i64::from(b)).ok_or_else(big)?;
    fn int82mul(_c; a: int8, b: int2) = a.checked_mul(i64::from(b)).ok_or_else(big)?;
    fn int82div(_c; a: int8, b: int2) = if b == 0 { return Err(division_by_zero()) } else { a.checked_div(i64::from(b)).ok_or_else(big)? };
    fn int84pl(_c; a: int8, b: int4) = a.checked_add(i64::from(b)).ok_or_else(big)?;
    fn int84mi(_c; a: int8, b: int4) = a.checked_sub(i64::from(b)).ok_or_else(big)?;
    fn int84mul(_c; a: int8, b: int4) = a.checked_mul(i64::from(b)).ok_or_else(big)?;
    fn int84div(_c; a: int8, b: int4) = if b == 0 { return Err(division_by_zero()) } else { a.checked_div(i64::from(b)).ok_or_else(big)? };
    fn int8pl(_c; a: int8, b: int8) = a.checked_add(b).ok_or_else(big)?;
    fn int8mi(_c; a: int8, b: int8) = a.checked_sub(b).ok_or_else(big)?;
    fn int8mul(_c; a: int8, b: int8) = a.checked_mul(b).ok_or_else(big)?;
    fn int8div(_c; a: int8, b: int8) = if b == 0 { return Err(division_by_zero()) } else { a.checked_div(b).ok_or_else(big)? };
    fn int8mod(_c; a: int8, b: int8) = if b == 0 { return Err(division_by_zero()) } else { a.wrapping_rem(b) };
    fn int8um(_c; a: int8) = a.checked_neg().ok_or_else(big)?;
    fn int8up(_c; a: int8) = a;
    fn int8abs(_c; a: int8) = a.checked_abs().ok_or_else(big)?;
    fn int8and(_c; a: int8, b: int8) = a & b;
    fn int8or(_c; a: int8, b: int8) = a | b;
    fn int8xor(_c; a: int8, b: int8) = a ^ b;
    fn int8not(_c; a: int8) = !a;
    fn int8shl(_c; a: int8, n: int4) = a.wrapping_shl(n as u32);
    fn int8shr(_c; a: int8, n: int4) = a.wrapping_shr(n as u32);
    fn int4inc(_c; a: int4) = a.checked_add(1).ok_or_else(int)?;
    fn int8inc(_c; a: int8) = a.checked_add(1).ok_or_else(big)?;
    fn int8dec(_c; a: int8) = a.checked_sub(1).ok_or_else(big)?;
    fn int4gcd(_c; a: int4, b: int4) = i32::try_from(gcd(i128::from(a), i128::from(b))).map_err(|_| int())?;
    fn int8gcd(_c; a: int8, b: int8) = i64::try_from(gcd(i128::from(a), i128::from(b))).map_err(|_| big())?;
    fn int4lcm(_c; a: int4, b: int4) = i32::try_from(lcm(i128::from(a), i128::from(b))).map_err(|_| int())?;
    fn int8lcm(_c; a: int8, b: int8) = i64::try_from(lcm(i128::from(a), i128::from(b))).map_err(|_| big())?;
    fn to_hex32(_c; a: int4) = format!("{a:x}");
    fn to_hex64(_c; a: int8) = format!("{a:x}");
    fn to_oct32(_c; a: int4) = format!("{a:o}");
    fn to_oct64(_c; a: int8) = format!("{a:o}");
    fn to_bin32(_c; a: int4) = format!("{a:b}");
    fn to_bin64(_c; a: int8) = format!("{a:b}");
}
fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
fn lcm(a: i128, b: i128) -> i128 {
    if a == 0 || b == 0 { 0 } else { (a / gcd(a, b) * b).abs() }
}
