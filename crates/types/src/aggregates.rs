//! Aggregate functions by pg_proc OID.
//!
//! Invariants
//! 1. NULL arguments come in and are skipped here where SQL says so.
//! 2. Integers are summed exactly (i128), numerics as numerics, floats as PostgreSQL does (Youngs-Cramer).

use self::float::floats;
use self::grouped::{GroupState, states_of};
pub use self::grouped::{GroupedAccumulator, GroupedRows, grouped};
pub use self::interval::IntervalTotals;
use self::interval::intervals;
use self::numeric::numerics;
pub use self::partial::{PartialAggregate, PartialForm};
pub use self::regression::RegressionSums;
use self::regression::{Regr, regression};
use crate::citext::CITEXT;
use crate::functions::get;
use crate::numeric::Numeric;
use crate::vector::{Rows, Vector, VectorValues};
use crate::{Array, Datum, EvalContext, key, oids::*};
use kilndb_base::{Error, Oid, Result, sqlstate};
use std::cmp::Ordering;
use std::sync::Arc;

mod float;
mod grouped;
mod interval;
mod moving;
mod numeric;
mod partial;
mod regression;
mod strings;

/// Defines aggregates: `fn name(types; oids) = accumulator;`. `scripts/function-table.py` reads the OIDs.
macro_rules! aggregates {
    ($( $(#[$doc:meta])* fn $name:ident($types:ident; $($oid:literal),+ $(,)?) = $make:expr; )*) => { $(
        $(#[$doc])*
        pub(crate) fn $name($types: &[kilndb_base::Oid]) -> Box<dyn $crate::aggregates::Accumulator> {
            $make
        }
    )* };
}
pub(crate) use aggregates;

pub trait Accumulator: Send {
    /// Takes in the arguments of one row; NULLs are passed through.
    fn add(&mut self, args: &[Datum], ctx: &EvalContext) -> Result<()>;
    fn finish(&mut self, ctx: &EvalContext) -> Result<Datum>;
    /// Does it still have all that it has gathered when it has been finished, so that more rows may come?
    fn outlives_finish(&self) -> bool {
        true
    }
    /// Takes a row out again that came through [`Accumulator::add`]: afterwards it is as if it had never come. Rows leave
    /// in the order in which they came. False: it cannot, and must be made anew from the rows that stay.
    fn remove(&mut self, args: &[Datum], ctx: &EvalContext) -> Result<bool> {
        let _ = (args, ctx);
        Ok(false)
    }
    /// An empty one of its kind that rows can be taken out of, if it must keep more for that. None: there is no other one.
    fn for_moving_frames(&self) -> Option<Box<dyn Accumulator>> {
        None
    }
    /// Takes in the arguments of rows one after the other.
    fn add_vectors(&mut self, rows: Rows<'_>, args: &[&Vector], ctx: &EvalContext) -> Result<()> {
        self.add_each(rows, args, ctx)
    }
    /// Takes in the arguments of rows as values.
    fn add_each(&mut self, rows: Rows<'_>, args: &[&Vector], ctx: &EvalContext) -> Result<()> {
        if let [arg] = args
            && let VectorValues::Datums(values) = &arg.values
        {
            // The values are there, and are taken where they are.
            return rows.try_each(|row| match arg.is_null(row) {
                true => self.add(&[Datum::Null], ctx),
                false => self.add(std::slice::from_ref(&values[arg.at(row)]), ctx),
            });
        }
        let mut values = Vec::with_capacity(args.len());
        rows.try_each(|row| {
            values.clear();
            for arg in args {
                values.push(arg.get(row)?);
            }
            self.add(&values, ctx)
        })
    }
    /// Empty states of its kind for many groups, if they need no box each.
    fn grouped(&self) -> Option<Box<dyn GroupedAccumulator>> {
        None
    }
    /// What it has gathered, to be taken in by another one of its kind; None: it depends on the order of the rows, or
    /// there is no such way.
    fn partial(&self) -> Option<PartialAggregate> {
        None
    }
    fn absorb(&mut self, other: PartialAggregate, ctx: &EvalContext) -> Result<()> {
        let _ = (other, ctx);
        Err(Error::internal("an aggregate that is not made in parts"))
    }
}

fn first(args: &[Datum]) -> &Datum {
    args.first().unwrap_or(&Datum::Null)
}
#[cold]
fn mixed() -> Error {
    Error::internal("parts of different aggregates")
}
#[cold]
fn overflow() -> Error {
    Error::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow")
}

#[derive(Clone, Default)]
struct CountAccumulator {
    rows: i64,
    star: bool,
}
impl GroupState for CountAccumulator {
    fn add_pairs(states: &mut [Self], pairs: &[(u32, u32)], args: &[&Vector]) -> Result<bool> {
        match args {
            [arg] if arg.nulls.has_any() || arg.is_constant() => {
                for (row, group) in pairs {
                    states[*group as usize].rows += i64::from(!arg.is_null(*row as usize));
                }
            }
            _ => pairs.iter().for_each(|(_, group)| states[*group as usize].rows += 1),
        }
        Ok(true)
    }
}
impl Accumulator for CountAccumulator {
    fn add(&mut self, args: &[Datum], _: &EvalContext) -> Result<()> {
        if self.star || !first(args).is_null() {
            self.rows += 1;
        }
        Ok(())
    }
    fn finish(&mut self, _: &EvalContext) -> Result<Datum> {
        Ok(Datum::Int8(self.rows))
    }
    fn remove(&mut self, args: &[Datum], _: &EvalContext) -> Result<bool> {
        if self.star || !first(args).is_null() {
            self.rows -= 1;
        }
        Ok(true)
    }
    fn add_vectors(&mut self, rows: Rows<'_>, args: &[&Vector], _: &EvalContext) -> Result<()> {
        match args {
            [arg] => rows.each(|row| self.rows += i64::from(!arg.is_null(row))),
            _ => self.rows += rows.len() as i64,
        }
        Ok(())
    }
    fn partial(&self) -> Option<PartialAggregate> {
        Some(PartialAggregate::Count(self.rows))
    }
    fn absorb(&mut self, other: PartialAggregate, _: &EvalContext) -> Result<()> {
        let PartialAggregate::Count(rows) = other else { return Err(mixed()) };
        self.rows += rows;
        Ok(())
    }
    fn grouped(&self) -> Option<Box<dyn GroupedAccumulator>> {
        Some(states_of(self.clone()))
    }
}

/// Which result a summing aggregate gives.
#[derive(Clone, Copy, PartialEq)]
enum SumResult {
    Sum,
    Avg,
    VarSamp,
    VarPop,
    StddevSamp,
    StddevPop,
}
impl SumResult {
    fn squares(self) -> bool {
        !matches!(self, SumResult::Sum | SumResult::Avg)
    }
    fn sample(self) -> bool {
        matches!(self, SumResult::VarSamp | SumResult::StddevSamp)
    }
    fn root(self) -> bool {
        matches!(self, SumResult::StddevSamp | SumResult::StddevPop)
    }
}
/// sum and avg over int2, int4, int8.
#[derive(Clone)]
struct IntegerSums {
    want: SumResult,
    /// sum(int2) and sum(int4) are bigint, sum(int8) numeric.
    small: bool,
    count: i64,
    sum: i128,
}
fn whole(d: &Datum) -> Result<Option<i128>> {
    Ok(match d {
        Datum::Null => None,
        Datum::Int4(v) => Some(i128::from(*v)),
        d => Some(i128::from(get::int8(d)?)),
    })
}
impl GroupState for IntegerSums {
    fn add_pairs(states: &mut [Self], pairs: &[(u32, u32)], args: &[&Vector]) -> Result<bool> {
        let [arg] = args else { return Ok(false) };
        let VectorValues::Integers(_, words) = &arg.values else { return Ok(false) };
        each_word(pairs, arg, words, |group, word| {
            let state = &mut states[group];
            state.sum += i128::from(word);
            state.count += 1;
        });
        Ok(true)
    }
}
impl Accumulator for IntegerSums {
    fn add(&mut self, args: &[Datum], _: &EvalContext) -> Result<()> {
        let Some(v) = whole(first(args))? else { return Ok(()) };
        self.count += 1;
        self.sum += v;
        Ok(())
    }
    fn remove(&mut self, args: &[Datum], _: &EvalContext) -> Result<bool> {
        let Some(v) = whole(first(args))? else { return Ok(true) };
        self.count -= 1;
        self.sum -= v;
        Ok(true)
    }
    fn add_vectors(&mut self, rows: Rows<'_>, args: &[&Vector], ctx: &EvalContext) -> Result<()> {
        let [arg] = args else { return self.add_each(rows, args, ctx) };
        let VectorValues::Integers(_, words) = &arg.values else { return self.add_each(rows, args, ctx) };
        let (sum, count) = sum_of_words(rows, arg, words);
        self.sum += sum;
        self.count += count;
        Ok(())
    }
    fn finish(&mut self, _: &EvalContext) -> Result<Datum> {
        if self.count == 0 {
            return Ok(Datum::Null);
        }
        if self.want == SumResult::Sum && self.small {
            return i64::try_from(self.sum).map(Datum::Int8).map_err(|_| crate::cast::out_of_range("bigint"));
        }
        moments(self.want, self.count, Numeric::from(self.sum), &Numeric::zero(0))
    }
    fn partial(&self) -> Option<PartialAggregate> {
        Some(PartialAggregate::Integers { count: self.count, sum: self.sum, squares: 0 })
    }
    fn absorb(&mut self, other: PartialAggregate, _: &EvalContext) -> Result<()> {
        let PartialAggregate::Integers { count, sum, .. } = other else { return Err(mixed()) };
        self.count += count;
        self.sum += sum;
        Ok(())
    }
    fn grouped(&self) -> Option<Box<dyn GroupedAccumulator>> {
        Some(states_of(self.clone()))
    }
}
/// The variance family over int2, int4, int8.
#[derive(Clone)]
struct IntegerMoments {
    sums: IntegerSums,
    squares: i128,
}
impl GroupState for IntegerMoments {}
impl Accumulator for IntegerMoments {
    fn add(&mut self, args: &[Datum], ctx: &EvalContext) -> Result<()> {
        let Some(v) = whole(first(args))? else { return Ok(()) };
        self.squares = self.squares.checked_add(v * v).ok_or_else(overflow)?;
        self.sums.add(args, ctx)
    }
    fn remove(&mut self, args: &[Datum], ctx: &EvalContext) -> Result<bool> {
        let Some(v) = whole(first(args))? else { return Ok(true) };
        self.squares -= v * v;
        self.sums.remove(args, ctx)
    }
    fn finish(&mut self, _: &EvalContext) -> Result<Datum> {
        let IntegerSums { want, count, sum, .. } = self.sums;
        if count == 0 { Ok(Datum::Null) } else { moments(want, count, sum.into(), &self.squares.into()) }
    }
    fn partial(&self) -> Option<PartialAggregate> {
        let IntegerSums { count, sum, .. } = self.sums;
        Some(PartialAggregate::Integers { count, sum, squares: self.squares })
    }
    fn absorb(&mut self, other: PartialAggregate, _: &EvalContext) -> Result<()> {
        let PartialAggregate::Integers { count, sum, squares } = other else { return Err(mixed()) };
        self.sums.count += count;
        self.sums.sum += sum;
        self.squares = self.squares.checked_add(squares).ok_or_else(overflow)?;
        Ok(())
    }
    fn grouped(&self) -> Option<Box<dyn GroupedAccumulator>> {
        Some(states_of(self.clone()))
    }
}
/// Calls `f` with the number beside each row and the row's word, unless that is NULL.
#[inline]
fn each_word(pairs: &[(u32, u32)], arg: &Vector, words: &[i64], mut f: impl FnMut(usize, i64)) {
    if arg.nulls.has_any() || arg.is_constant() {
        for (row, group) in pairs.iter().filter(|(row, _)| !arg.is_null(*row as usize)) {
            f(*group as usize, words[arg.at(*row as usize)]);
        }
    } else {
        pairs.iter().for_each(|(row, group)| f(*group as usize, words[*row as usize]));
    }
}
/// The sum of the words that are not NULL, and how many they are.
fn sum_of_words(rows: Rows<'_>, arg: &Vector, words: &[i64]) -> (i128, i64) {
    let (mut sum, mut count) = (0, 0);
    if arg.nulls.has_any() || arg.is_constant() {
        rows.each(|row| {
            if !arg.is_null(row) {
                sum += i128::from(words[arg.at(row)]);
                count += 1;
            }
        });
    } else {
        rows.each(|row| sum += i128::from(words[row]));
        count = rows.len() as i64;
    }
    (sum, count)
}
fn numeric(v: Numeric) -> Datum {
    Datum::Numeric(v)
}
fn moments(want: SumResult, count: i64, sum: Numeric, squares: &Numeric) -> Result<Datum> {
    let n = Numeric::from(count);
    match want {
        SumResult::Sum => return Ok(numeric(sum.checked()?)),
        SumResult::Avg => return Ok(numeric(sum.div(&n)?)),
        _ => {}
    }
    if want.sample() && count <= 1 {
        return Ok(Datum::Null);
    }
    let numerator = n.mul(squares).sub(&sum.mul(&sum));
    if numerator.signum() <= 0 {
        return Ok(numeric(Numeric::zero(0)));
    }
    let divisor = if want.sample() { n.mul(&Numeric::from(count - 1)) } else { n.mul(&n) };
    let scale = numerator.select_div_scale(&divisor);
    let variance = numerator.div_scale(&divisor, scale, true);
    Ok(numeric(if want.root() { variance.sqrt_scale(scale) } else { variance }))
}

/// min, max and any_value.
#[derive(Clone)]
struct ExtremeAccumulator {
    keep: fn(Ordering) -> bool,
    /// 0, or the type of values that do not show how they compare.
    type_oid: Oid,
    value: Datum,
}
impl GroupState for ExtremeAccumulator {}
impl Accumulator for ExtremeAccumulator {
    fn add(&mut self, args: &[Datum], _: &EvalContext) -> Result<()> {
        let v = first(args);
        if !v.is_null() && (self.value.is_null() || (self.keep)(key::compare(self.type_oid, v, &self.value))) {
            self.value = v.clone();
        }
        Ok(())
    }
    fn add_vectors(&mut self, rows: Rows<'_>, args: &[&Vector], ctx: &EvalContext) -> Result<()> {
        let [arg] = args else { return self.add_each(rows, args, ctx) };
        let best = match &arg.values {
            VectorValues::Integers(_, words) | VectorValues::Decimals(_, words) => {
                self.best_row(rows, arg, |a, b| words[a].cmp(&words[b]))
            }
            VectorValues::Doubles(values) => self.best_row(rows, arg, |a, b| key::compare_f64(values[a], values[b])),
            _ => return self.add_each(rows, args, ctx),
        };
        match best {
            Some(row) => self.add(&[arg.get(row)?], ctx),
            None => Ok(()),
        }
    }
    fn finish(&mut self, _: &EvalContext) -> Result<Datum> {
        Ok(self.value.clone())
    }
    fn partial(&self) -> Option<PartialAggregate> {
        Some(PartialAggregate::Value(self.value.clone()))
    }
    fn absorb(&mut self, other: PartialAggregate, ctx: &EvalContext) -> Result<()> {
        let PartialAggregate::Value(value) = other else { return Err(mixed()) };
        self.add(&[value], ctx)
    }
    fn for_moving_frames(&self) -> Option<Box<dyn Accumulator>> {
        Some(moving::extreme(self.keep, self.type_oid))
    }
    fn grouped(&self) -> Option<Box<dyn GroupedAccumulator>> {
        Some(states_of(self.clone()))
    }
}
impl ExtremeAccumulator {
    /// The row that is kept of all that are not NULL.
    fn best_row(&self, rows: Rows<'_>, arg: &Vector, order: impl Fn(usize, usize) -> Ordering) -> Option<usize> {
        let mut best = None;
        rows.each(|row| {
            if !arg.is_null(row) && best.is_none_or(|known| (self.keep)(order(arg.at(row), arg.at(known)))) {
                best = Some(row);
            }
        });
        best
    }
}
#[derive(Clone, Copy)]
enum BitOperation {
    And,
    Or,
    Xor,
}
/// bit_and, bit_or, bit_xor.
struct BitAccumulator {
    op: BitOperation,
    value: Datum,
}
impl BitAccumulator {
    fn fold(&self, a: i64, b: i64) -> i64 {
        match self.op {
            BitOperation::And => a & b,
            BitOperation::Or => a | b,
            BitOperation::Xor => a ^ b,
        }
    }
}
impl Accumulator for BitAccumulator {
    fn add(&mut self, args: &[Datum], _: &EvalContext) -> Result<()> {
        let v = first(args);
        self.value = match (&self.value, v) {
            (_, Datum::Null) => return Ok(()),
            (Datum::Null, v) => v.clone(),
            (Datum::Int2(a), Datum::Int2(b)) => Datum::Int2(self.fold(i64::from(*a), i64::from(*b)) as i16),
            (Datum::Int4(a), Datum::Int4(b)) => Datum::Int4(self.fold(i64::from(*a), i64::from(*b)) as i32),
            (Datum::Int8(a), Datum::Int8(b)) => Datum::Int8(self.fold(*a, *b)),
            (Datum::Text(a), Datum::Text(b)) => {
                if a.len() != b.len() {
                    return Err(Error::new(
                        sqlstate::STRING_DATA_RIGHT_TRUNCATION,
                        "cannot combine bit strings of different sizes",
                    ));
                }
                let bit = |(x, y): (u8, u8)| {
                    char::from(b'0' + (self.fold(i64::from(x - b'0'), i64::from(y - b'0')) & 1) as u8)
                };
                Datum::text(a.bytes().zip(b.bytes()).map(bit).collect::<String>())
            }
            _ => return Err(Error::internal("bit aggregate over mixed types")),
        };
        Ok(())
    }
    fn finish(&mut self, _: &EvalContext) -> Result<Datum> {
        Ok(self.value.clone())
    }
    fn partial(&self) -> Option<PartialAggregate> {
        Some(PartialAggregate::Value(self.value.clone()))
    }
    fn absorb(&mut self, other: PartialAggregate, ctx: &EvalContext) -> Result<()> {
        let PartialAggregate::Value(value) = other else { return Err(mixed()) };
        self.add(&[value], ctx)
    }
}

#[derive(Default)]
struct ArrayAgg {
    element_type: Oid,
    rows: bool,
    inner: Option<Vec<(i32, u32)>>,
    count: u32,
    elements: Vec<Datum>,
}
impl Accumulator for ArrayAgg {
    fn add(&mut self, args: &[Datum], _: &EvalContext) -> Result<()> {
        let v = first(args);
        let bad = |m: &str| Error::new(sqlstate::ARRAY_SUBSCRIPT_ERROR, m);
        self.count += 1;
        if !self.rows {
            self.elements.push(v.clone());
            return Ok(());
        }
        match v {
            Datum::Array(a) => {
                if a.dims.is_empty() {
                    return Err(bad("cannot accumulate empty arrays"));
                }
                match &self.inner {
                    None => self.inner = Some(a.dims.clone()),
                    Some(d) if d.iter().map(|x| x.1).ne(a.dims.iter().map(|x| x.1)) => {
                        return Err(bad("cannot accumulate arrays of different dimensionality"));
                    }
                    _ => {}
                }
                self.element_type = a.element_type;
                self.elements.extend(a.elements.iter().cloned());
                Ok(())
            }
            _ => Err(Error::new(sqlstate::NULL_VALUE_NOT_ALLOWED, "cannot accumulate null arrays")),
        }
    }
    fn finish(&mut self, _: &EvalContext) -> Result<Datum> {
        if self.count == 0 {
            return Ok(Datum::Null);
        }
        let mut dims = vec![(1, self.count)];
        dims.extend(self.inner.clone().unwrap_or_default());
        if self.element_type == 0 {
            self.element_type = self.elements.iter().find(|e| !e.is_null()).map_or(TEXT, crate::io::natural_type);
        }
        let elements = std::mem::take(&mut self.elements);
        Ok(Datum::Array(Arc::new(Array { element_type: self.element_type, dims, elements })))
    }
    fn outlives_finish(&self) -> bool {
        false
    }
}

fn integers(want: SumResult, small: bool) -> Box<dyn Accumulator> {
    let sums = IntegerSums { want, small, count: 0, sum: 0 };
    if want.squares() { Box::new(IntegerMoments { sums, squares: 0 }) } else { Box::new(sums) }
}
fn pick(keep: fn(Ordering) -> bool) -> Box<dyn Accumulator> {
    Box::new(ExtremeAccumulator { keep, type_oid: 0, value: Datum::Null })
}
fn pick_of(type_oid: Oid, keep: fn(Ordering) -> bool) -> Box<dyn Accumulator> {
    Box::new(ExtremeAccumulator { keep, type_oid, value: Datum::Null })
}
fn bits(op: BitOperation) -> Box<dyn Accumulator> {
    Box::new(BitAccumulator { op, value: Datum::Null })
}
/// Makes what gathers one group's rows; it is told the types of the aggregate's arguments.
pub type AggregateFn = fn(&[Oid]) -> Box<dyn Accumulator>;

aggregates! {
    fn count_rows(_types; 2803) = Box::new(CountAccumulator { star: true, rows: 0 });
    fn count_values(_types; 2147) = Box::new(CountAccumulator::default());
    fn sum_int8(_types; 2107) = integers(SumResult::Sum, false);
    fn sum_integers(_types; 2108, 2109) = integers(SumResult::Sum, true);
    fn sum_float4(_types; 2110) = floats(SumResult::Sum, true);
    fn sum_float8(_types; 2111) = floats(SumResult::Sum, false);
    fn sum_interval(_types; 2113) = intervals(false);
    fn sum_numeric(_types; 2114) = numerics(SumResult::Sum);
    fn avg_integers(_types; 2100, 2101, 2102) = integers(SumResult::Avg, false);
    fn avg_numeric(_types; 2103) = numerics(SumResult::Avg);
    fn avg_floats(_types; 2104, 2105) = floats(SumResult::Avg, false);
    fn avg_interval(_types; 2106) = intervals(true);
    fn variance_integers(_types; 2148, 2149, 2150, 2641, 2642, 2643) = integers(SumResult::VarSamp, false);
    fn variance_floats(_types; 2151, 2152, 2644, 2645) = floats(SumResult::VarSamp, false);
    fn variance_numeric(_types; 2153, 2646) = numerics(SumResult::VarSamp);
    fn stddev_integers(_types; 2154, 2155, 2156, 2712, 2713, 2714) = integers(SumResult::StddevSamp, false);
    fn stddev_floats(_types; 2157, 2158, 2715, 2716) = floats(SumResult::StddevSamp, false);
    fn stddev_numeric(_types; 2159, 2717) = numerics(SumResult::StddevSamp);
    fn var_pop_integers(_types; 2718, 2719, 2720) = integers(SumResult::VarPop, false);
    fn var_pop_floats(_types; 2721, 2722) = floats(SumResult::VarPop, false);
    fn var_pop_numeric(_types; 2723) = numerics(SumResult::VarPop);
    fn stddev_pop_integers(_types; 2724, 2725, 2726) = integers(SumResult::StddevPop, false);
    fn stddev_pop_floats(_types; 2727, 2728) = floats(SumResult::StddevPop, false);
    fn stddev_pop_numeric(_types; 2729) = numerics(SumResult::StddevPop);
    fn max(_types;
        2050, 2115, 2116, 2117, 2118, 2119, 2120, 2122, 2123, 2124, 2125, 2126, 2127, 2128, 2129, 2130, 2797,
        3526, 3564, 4189, 5099, 6373, 6395
    ) = pick(|o| o == Ordering::Greater);
    fn min(_types;
        2051, 2131, 2132, 2133, 2134, 2135, 2136, 2138, 2139, 2140, 2141, 2142, 2143, 2144, 2145, 2146, 2798,
        3527, 3565, 4190, 5100, 6374, 6396
    ) = pick(|o| o == Ordering::Less);
    fn max_bpchar(_types; 2244) = pick_of(BPCHAR, |o| o == Ordering::Greater);
    fn min_bpchar(_types; 2245) = pick_of(BPCHAR, |o| o == Ordering::Less);
    fn max_citext(_types; 15818) = pick_of(CITEXT, |o| o != Ordering::Less);
    fn min_citext(_types; 15817) = pick_of(CITEXT, |o| o != Ordering::Greater);
    fn any_value(_types; 6291) = pick(|_| false);
    fn bool_and(_types; 2517, 2519) = moving::bools(false);
    fn bool_or(_types; 2518) = moving::bools(true);
    fn bit_and(_types; 2236, 2238, 2240, 2242) = bits(BitOperation::And);
    fn bit_or(_types; 2237, 2239, 2241, 2243) = bits(BitOperation::Or);
    fn bit_xor(_types; 6164, 6165, 6166, 6167) = bits(BitOperation::Xor);
    fn string_agg(_types; 3538, 3545) = Box::new(strings::StringAgg::default());
    fn array_agg(types;
        2335
    ) = Box::new(ArrayAgg { element_type: types.first().copied().unwrap_or(0), ..ArrayAgg::default() });
    fn array_agg_arrays(_types; 4053) = Box::new(ArrayAgg { rows: true, ..ArrayAgg::default() });
    fn regr_count(_types; 2818) = regression(Regr::Count);
    fn regr_sxx(_types; 2819) = regression(Regr::Sxx);
    fn regr_syy(_types; 2820) = regression(Regr::Syy);
    fn regr_sxy(_types; 2821) = regression(Regr::Sxy);
    fn regr_avgx(_types; 2822) = regression(Regr::AvgX);
    fn regr_avgy(_types; 2823) = regression(Regr::AvgY);
    fn regr_r2(_types; 2824) = regression(Regr::R2);
    fn regr_slope(_types; 2825) = regression(Regr::Slope);
    fn regr_intercept(_types; 2826) = regression(Regr::Intercept);
    fn covar_pop(_types; 2827) = regression(Regr::CovarPop);
    fn covar_samp(_types; 2828) = regression(Regr::CovarSamp);
    fn corr(_types; 2829) = regression(Regr::Corr);
}
