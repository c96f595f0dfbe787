//! Values of variables and expressions of scripts, and how they turn into each other.

use std::fmt;

/// What an expression gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScriptValue {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
}

/// Of a double as many digits are written as it always has.
const DOUBLE_DIGITS: usize = 15;

impl ScriptValue {
    fn type_name(self) -> &'static str {
        match self {
            ScriptValue::Null => "null",
            ScriptValue::Bool(_) => "boolean",
            ScriptValue::Int(_) => "int",
            ScriptValue::Double(_) => "double",
        }
    }
    pub fn is_null(self) -> bool {
        self == ScriptValue::Null
    }
    /// Of what a condition says: numbers other than zero count as true, NULL does not.
    pub fn is_true(self) -> bool {
        match self {
            ScriptValue::Null => false,
            ScriptValue::Bool(value) => value,
            ScriptValue::Int(value) => value != 0,
            ScriptValue::Double(value) => value != 0.0,
        }
    }
    pub fn to_bool(self) -> Result<bool, String> {
        match self {
            ScriptValue::Bool(value) => Ok(value),
            other => Err(format!("cannot coerce {} to boolean", other.type_name())),
        }
    }
    /// A double is rounded to the nearest integer, halves to the even one.
    pub fn to_int(self) -> Result<i64, String> {
        match self {
            ScriptValue::Int(value) => Ok(value),
            ScriptValue::Double(value) => {
                let rounded = value.round_ties_even();
                // -2^63 is a double, 2^63 - 1 is none.
                match rounded >= i64::MIN as f64 && rounded < -(i64::MIN as f64) {
                    true => Ok(rounded as i64),
                    false => Err(format!("double to int overflow for {value:.6}")),
                }
            }
            other => Err(format!("cannot coerce {} to int", other.type_name())),
        }
    }
    pub fn to_double(self) -> Result<f64, String> {
        match self {
            ScriptValue::Double(value) => Ok(value),
            ScriptValue::Int(value) => Ok(value as f64),
            other => Err(format!("cannot coerce {} to double", other.type_name())),
        }
    }

    /// The value that a variable's text stands for. None: it is empty or malformed.
    pub fn of_text(text: &str) -> Option<ScriptValue> {
        let is = |word: &str| text.eq_ignore_ascii_case(word);
        let begins = |word: &str| word.get(..text.len()).is_some_and(is);
        if text.is_empty() {
            return None;
        }
        if is("null") {
            return Some(ScriptValue::Null);
        }
        if begins("true") || begins("yes") || is("on") {
            return Some(ScriptValue::Bool(true));
        }
        if begins("false") || begins("no") || is("off") || is("of") {
            return Some(ScriptValue::Bool(false));
        }
        let digits = text.trim_start().trim_start_matches(['-', '+']).trim_end();
        if !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit()) {
            return text.trim().parse().ok().map(ScriptValue::Int);
        }
        text.trim_start().parse().ok().map(ScriptValue::Double)
    }
}

impl fmt::Display for ScriptValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ScriptValue::Null => f.write_str("NULL"),
            ScriptValue::Bool(value) => write!(f, "{value}"),
            ScriptValue::Int(value) => write!(f, "{value}"),
            ScriptValue::Double(value) => f.write_str(&shortest(value)),
        }
    }
}

/// A double as `%.15g` of PostgreSQL's printf has it: with an exponent if it is very large or very small, without zeros at the end.
fn shortest(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0".into() } else { "0".into() };
    }
    let scientific = format!("{:.*e}", DOUBLE_DIGITS - 1, value);
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= DOUBLE_DIGITS as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", without_zeros(digits), exponent.abs());
    }
    let decimals = usize::try_from(DOUBLE_DIGITS as i32 - 1 - exponent).unwrap_or(0);
    without_zeros(&format!("{value:.decimals$}")).to_string()
}

fn without_zeros(number: &str) -> &str {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_values() {
        let of = |text| ScriptValue::of_text(text);
        assert_eq!(of("Null"), Some(ScriptValue::Null));
        for text in ["t", "TRUE", "y", "ye", "on"] {
            assert_eq!(of(text), Some(ScriptValue::Bool(true)), "{text}");
        }
        for text in ["f", "No", "of", "OFF"] {
            assert_eq!(of(text), Some(ScriptValue::Bool(false)), "{text}");
        }
        assert_eq!(of("-12"), Some(ScriptValue::Int(-12)));
        assert_eq!(of("1.5e3"), Some(ScriptValue::Double(1500.0)));
        for text in ["", "o", "abc", "99999999999999999999"] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn doubles_are_written_as_printf_does() {
        let text = |value| ScriptValue::Double(value).to_string();
        assert_eq!(text(2.0), "2");
        assert_eq!(text(0.1), "0.1");
        assert_eq!(text(-1234.5), "-1234.5");
        assert_eq!(text(1e15), "1e+15");
        assert_eq!(text(123456789012345.0), "123456789012345");
        assert_eq!(text(0.00001), "1e-05");
        assert_eq!(text(std::f64::consts::PI), "3.14159265358979");
    }

    #[test]
    fn what_fits_no_integer_is_refused() {
        assert_eq!(ScriptValue::Double(2.5).to_int(), Ok(2));
        assert_eq!(ScriptValue::Double(-3.5).to_int(), Ok(-4));
        assert_eq!(ScriptValue::Double(i64::MIN as f64).to_int(), Ok(i64::MIN));
        assert!(ScriptValue::Double(9.3e18).to_int().is_err());
        assert!(ScriptValue::Double(f64::NAN).to_int().is_err());
        assert!(ScriptValue::Bool(true).to_int().is_err());
    }
}
