//! The functions and operators of expressions, in one table: a new one is a row.

use super::expression::ScriptEnvironment;
use super::random::{self, GAUSSIAN_MIN, ZIPFIAN_MAX, ZIPFIAN_MIN};
use super::value::ScriptValue::{self, Bool, Double, Int};
use std::ops::RangeInclusive;

type Applied = Result<ScriptValue, String>;

pub struct ScriptFunction {
    pub name: &'static str,
    /// How many it takes.
    pub arguments: RangeInclusive<usize>,
    /// Of NULL it makes NULL without being called.
    pub is_strict: bool,
    pub apply: fn(&mut ScriptEnvironment<'_>, &[ScriptValue]) -> Applied,
}

const fn function(
    name: &'static str,
    arguments: RangeInclusive<usize>,
    apply: fn(&mut ScriptEnvironment<'_>, &[ScriptValue]) -> Applied,
) -> ScriptFunction {
    ScriptFunction { name, arguments, is_strict: true, apply }
}

/// As many as pgbench takes.
const ARGUMENTS_MAX: usize = 16;

static FUNCTIONS: [ScriptFunction; 36] = [
    function("+", 2..=2, |_, a| number(a, |l, r| l + r, i64::checked_add, "add")),
    function("-", 2..=2, |_, a| number(a, |l, r| l - r, i64::checked_sub, "sub")),
    function("*", 2..=2, |_, a| number(a, |l, r| l * r, i64::checked_mul, "mul")),
    function("/", 2..=2, |_, a| match is_double(a) {
        true => Ok(Double(a[0].to_double()? / a[1].to_double()?)),
        false => divided(a, i64::checked_div),
    }),
    // What a division by -1 leaves is 0, whatever the number.
    function("mod", 2..=2, |_, a| divided(a, |l, r| Some(l.wrapping_rem(r)))),
    function("=", 2..=2, |_, a| compared(a, |l, r| l == r, |l, r| l == r)),
    function("<>", 2..=2, |_, a| compared(a, |l, r| l != r, |l, r| l != r)),
    function("<", 2..=2, |_, a| compared(a, |l, r| l < r, |l, r| l < r)),
    function("<=", 2..=2, |_, a| compared(a, |l, r| l <= r, |l, r| l <= r)),
    function("&", 2..=2, |_, a| Ok(Int(a[0].to_int()? & a[1].to_int()?))),
    function("|", 2..=2, |_, a| Ok(Int(a[0].to_int()? | a[1].to_int()?))),
    function("#", 2..=2, |_, a| Ok(Int(a[0].to_int()? ^ a[1].to_int()?))),
    function("<<", 2..=2, |_, a| Ok(Int(a[0].to_int()?.wrapping_shl(a[1].to_int()? as u32)))),
    function(">>", 2..=2, |_, a| Ok(Int(a[0].to_int()?.wrapping_shr(a[1].to_int()? as u32)))),
    function("not", 1..=1, |_, a| Ok(Bool(!a[0].to_bool()?))),
    ScriptFunction { name: "is", arguments: 2..=2, is_strict: false, apply: |_, a| Ok(Bool(a[0] == a[1])) },
    ScriptFunction {
        name: "debug",
        arguments: 1..=1,
        is_strict: false,
        apply: |_, a| {
            eprintln!("debug: {}", a[0]);
            Ok(a[0])
        },
    },
    function("pi", 0..=0, |_, _| Ok(Double(std::f64::consts::PI))),
    function("abs", 1..=1, |_, a| match a[0] {
        Double(value) => Ok(Double(value.abs())),
        other => Ok(Int(other.to_int()?.wrapping_abs())),
    }),
    function("double", 1..=1, |_, a| a[0].to_double().map(Double)),
    function("int", 1..=1, |_, a| a[0].to_int().map(Int)),
    function("sqrt", 1..=1, |_, a| Ok(Double(a[0].to_double()?.sqrt()))),
    function("ln", 1..=1, |_, a| Ok(Double(a[0].to_double()?.ln()))),
    function("exp", 1..=1, |_, a| Ok(Double(a[0].to_double()?.exp()))),
    function("pow", 2..=2, power),
    function("power", 2..=2, power),
    function("least", 1..=ARGUMENTS_MAX, |_, a| extreme(a, f64::min, i64::min)),
    function("greatest", 1..=ARGUMENTS_MAX, |_, a| extreme(a, f64::max, i64::max)),
    function("random", 2..=2, |env, a| {
        let (low, high) = range(a)?;
        Ok(Int(env.random.uniform(low, high)))
    }),
    function("random_exponential", 3..=3, |env, a| {
        let ((low, high), parameter) = (range(a)?, a[2].to_double()?);
        match parameter > 0.0 {
            true => Ok(Int(env.random.exponential(low, high, parameter))),
            false => Err(format!("exponential parameter must be greater than zero (not {parameter:.6})")),
        }
    }),
    function("random_gaussian", 3..=3, |env, a| {
        let ((low, high), parameter) = (range(a)?, a[2].to_double()?);
        match parameter >= GAUSSIAN_MIN {
            true => Ok(Int(env.random.gaussian(low, high, parameter))),
            false => Err(format!("gaussian parameter must be at least {GAUSSIAN_MIN:.6} (not {parameter:.6})")),
        }
    }),
    function("random_zipfian", 3..=3, |env, a| {
        let ((low, high), parameter) = (range(a)?, a[2].to_double()?);
        match (ZIPFIAN_MIN..=ZIPFIAN_MAX).contains(&parameter) {
            true => Ok(Int(env.random.zipfian(low, high, parameter))),
            false => Err(format!(
                "zipfian parameter must be in range [{ZIPFIAN_MIN:.3}, {ZIPFIAN_MAX:.0}] (not {parameter:.6})"
            )),
        }
    }),
    function("hash", 1..=2, |env, a| Ok(Int(random::hash_murmur2(a[0].to_int()?, seed(env, a.get(1))?)))),
    function("hash_murmur2", 1..=2, |env, a| Ok(Int(random::hash_murmur2(a[0].to_int()?, seed(env, a.get(1))?)))),
    function("hash_fnv1a", 1..=2, |env, a| Ok(Int(random::hash_fnv1a(a[0].to_int()?, seed(env, a.get(1))?)))),
    function("permute", 2..=3, |env, a| {
        let (value, size, seed) = (a[0].to_int()?, a[1].to_int()?, seed(env, a.get(2))?);
        match size > 0 {
            true => Ok(Int(random::permute(value, size, seed))),
            false => Err("permute size parameter must be greater than zero".into()),
        }
    }),
];

pub fn find(name: &str) -> Option<&'static ScriptFunction> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

fn is_double(args: &[ScriptValue]) -> bool {
    args.iter().any(|arg| matches!(arg, Double(_)))
}

/// An operation on doubles, if one of the numbers is one, or on integers.
fn number(
    args: &[ScriptValue],
    of_doubles: fn(f64, f64) -> f64,
    of_ints: fn(i64, i64) -> Option<i64>,
    name: &str,
) -> Applied {
    if is_double(args) {
        return Ok(Double(of_doubles(args[0].to_double()?, args[1].to_double()?)));
    }
    let value = of_ints(args[0].to_int()?, args[1].to_int()?);
    value.map(Int).ok_or_else(|| format!("bigint {name} out of range"))
}

fn divided(args: &[ScriptValue], of_ints: fn(i64, i64) -> Option<i64>) -> Applied {
    let (left, right) = (args[0].to_int()?, args[1].to_int()?);
    if right == 0 {
        return Err("division by zero".into());
    }
    of_ints(left, right).map(Int).ok_or_else(|| "bigint div out of range".to_string())
}

fn compared(args: &[ScriptValue], of_doubles: fn(f64, f64) -> bool, of_ints: fn(i64, i64) -> bool) -> Applied {
    Ok(Bool(match is_double(args) {
        true => of_doubles(args[0].to_double()?, args[1].to_double()?),
        false => of_ints(args[0].to_int()?, args[1].to_int()?),
    }))
}

fn power(_: &mut ScriptEnvironment<'_>, args: &[ScriptValue]) -> Applied {
    Ok(Double(args[0].to_double()?.powf(args[1].to_double()?)))
}

fn extreme(args: &[ScriptValue], of_doubles: fn(f64, f64) -> f64, of_ints: fn(i64, i64) -> i64) -> Applied {
    if is_double(args) {
        let values = args.iter().map(|arg| arg.to_double()).collect::<Result<Vec<f64>, String>>()?;
        return values.into_iter().reduce(of_doubles).map(Double).ok_or_else(|| "no arguments".into());
    }
    let values = args.iter().map(|arg| arg.to_int()).collect::<Result<Vec<i64>, String>>()?;
    values.into_iter().reduce(of_ints).map(Int).ok_or_else(|| "no arguments".into())
}

/// The bounds that random numbers lie between.
fn range(args: &[ScriptValue]) -> Result<(i64, i64), String> {
    let (low, high) = (args[0].to_int()?, args[1].to_int()?);
    if low > high {
        return Err("empty range given to random".into());
    }
    match high.checked_sub(low).and_then(|span| span.checked_add(1)) {
        Some(_) => Ok((low, high)),
        None => Err("random range is too large".into()),
    }
}

fn seed(env: &ScriptEnvironment<'_>, given: Option<&ScriptValue>) -> Result<i64, String> {
    given.map_or(Ok(env.default_seed), |seed| seed.to_int())
}
