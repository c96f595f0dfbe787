//! Functions that return sets of rows, made one after another where that matters.
//!
//! A function of this kind is `pub fn prosrc(call: RowsCall<'_>) -> Result<FunctionRows>`; `scripts/function-table.py` finds it
//! by its name.

use super::{ScalarFn, datetime, get, numeric, regex, snapshot, string};
use crate::json::populate::FieldType;
use crate::numeric::Numeric;
use crate::{Array, Datum, EvalContext, Record, io, key, oids};
use kilndb_base::{Error, Oid, Result, sqlstate};
use std::cmp::Ordering;
use std::sync::Arc;

pub type RowsFn = fn(RowsCall<'_>) -> Result<FunctionRows>;

/// A call of a set-returning function.
pub struct RowsCall<'a> {
    pub args: Vec<Datum>,
    /// Types of the arguments.
    pub types: &'a [Oid],
    /// The function's name, for messages.
    pub name: &'a str,
    /// The columns that a definition list names.
    pub columns: Option<Vec<FieldType>>,
    /// The fields of a row become columns; otherwise the caller wants records.
    pub spread: bool,
    pub ctx: &'a EvalContext<'a>,
}

/// The rows of one call.
pub enum FunctionRows {
    Ints { next: i128, stop: i128, step: i128, ty: Oid },
    Steps { next: Option<Datum>, stop: Datum, step: Datum, up: bool, ty: Oid, add: ScalarFn },
    List { values: Vec<Datum>, next: usize },
    Elements { array: Arc<Array>, next: usize },
    Table { rows: Vec<Vec<Datum>>, next: usize },
}

impl FunctionRows {
    pub fn none() -> FunctionRows {
        FunctionRows::list(Vec::new())
    }
    /// Rows of one column.
    pub fn list(values: Vec<Datum>) -> FunctionRows {
        FunctionRows::List { values, next: 0 }
    }
    pub fn table(rows: Vec<Vec<Datum>>) -> FunctionRows {
        FunctionRows::Table { rows, next: 0 }
    }

    /// Appends the `columns` values of the next row; false at the end.
    pub fn next(
        &mut self,
        columns: usize,
        composite: bool,
        out: &mut Vec<Datum>,
        ctx: &EvalContext<'_>,
    ) -> Result<bool> {
        match self {
            FunctionRows::Ints { next, stop, step, ty } => {
                if (*step > 0 && *next > *stop) || (*step < 0 && *next < *stop) {
                    return Ok(false);
                }
                out.push(match *ty {
                    oids::INT4 => Datum::Int4(*next as i32),
                    oids::INT8 => Datum::Int8(*next as i64),
                    _ => Datum::Numeric(Numeric::from(*next)),
                });
                *next += *step;
            }
            FunctionRows::Steps { next, stop, step, up, ty, add } => {
                let Some(d) = next.take() else { return Ok(false) };
                let o = key::compare(*ty, &d, stop);
                if *up && o == Ordering::Greater || !*up && o == Ordering::Less {
                    return Ok(false);
                }
                *next = add(ctx, &[d.clone(), step.clone()]).ok();
                out.push(d);
            }
            FunctionRows::List { values, next } => {
                let Some(d) = values.get_mut(*next).map(std::mem::take) else { return Ok(false) };
                *next += 1;
                spread(vec![d], columns, composite, out);
            }
            FunctionRows::Elements { array, next } => {
                let Some(d) = array.elements.get(*next).cloned() else { return Ok(false) };
                *next += 1;
                spread(vec![d], columns, composite, out);
            }
            FunctionRows::Table { rows, next } => {
                let Some(r) = rows.get_mut(*next).map(std::mem::take) else { return Ok(false) };
                *next += 1;
                // A row where one value is asked for is a record.
                let r = if columns == 1 && r.len() > 1 { vec![record(r)] } else { r };
                spread(r, columns, composite && columns > 1, out);
            }
        }
        Ok(true)
    }
}

fn record(row: Vec<Datum>) -> Datum {
    let fields = row.into_iter().map(|d| (io::natural_type(&d), d)).collect();
    Datum::Record(Arc::new(Record { type_oid: oids::RECORD, names: None, fields }))
}

/// Appends a row of `columns` values. The fields of a composite value become columns.
pub fn spread(row: Vec<Datum>, columns: usize, composite: bool, out: &mut Vec<Datum>) {
    if composite && row.len() == 1 {
        if let Some(Datum::Record(r)) = row.first() {
            out.extend((0..columns).map(|i| r.fields.get(i).map(|f| f.1.clone()).unwrap_or_default()));
            return;
        }
        if columns > 1 {
            out.extend(std::iter::repeat_n(Datum::Null, columns));
            return;
        }
    }
    let mut row = row.into_iter();
    out.extend((0..columns).map(|_| row.next().unwrap_or_default()));
}

fn zero_step() -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, "step size cannot equal zero")
}

/// The integers of generate_series; without a third argument the step is 1.
fn integers(call: RowsCall<'_>, ty: Oid) -> Result<FunctionRows> {
    let int = |at| match call.args.get(at) {
        Some(Datum::Int4(v)) => i128::from(*v),
        Some(Datum::Int8(v)) => i128::from(*v),
        _ => 1,
    };
    let step = int(2);
    if step == 0 {
        return Err(zero_step());
    }
    Ok(FunctionRows::Ints { next: int(0), stop: int(1), step, ty })
}
pub(crate) fn generate_series_int4(call: RowsCall<'_>) -> Result<FunctionRows> {
    integers(call, oids::INT4)
}
pub(crate) fn generate_series_step_int4(call: RowsCall<'_>) -> Result<FunctionRows> {
    integers(call, oids::INT4)
}
pub(crate) fn generate_series_int8(call: RowsCall<'_>) -> Result<FunctionRows> {
    integers(call, oids::INT8)
}
pub(crate) fn generate_series_step_int8(call: RowsCall<'_>) -> Result<FunctionRows> {
    integers(call, oids::INT8)
}

/// A number without a fraction, not even one of zeros, that is far from what 128 bits hold.
fn whole(n: &Numeric) -> Option<i128> {
    if n.dscale() == 0 && n.is_integral() { n.to_i64().map(i128::from) } else { None }
}

/// The values of generate_series that `add` makes of the first one.
fn steps(call: RowsCall<'_>, ty: Oid, add: ScalarFn) -> Result<FunctionRows> {
    let ctx = call.ctx;
    let mut args = call.args.into_iter();
    let (Some(first), Some(stop)) = (args.next(), args.next()) else { return Err(Error::internal("generate_series")) };
    let step = match args.next() {
        Some(s) => s,
        None => io::input(oids::NUMERIC, "1", -1, ctx)?,
    };
    if ty == oids::NUMERIC {
        for (value, what) in [(&first, "start value"), (&stop, "stop value"), (&step, "step size")] {
            let mut text = Vec::new();
            io::output_typmod(ty, -1, value, &mut text, ctx)?;
            let problem = match text.as_slice() {
                b"NaN" => "NaN",
                b"Infinity" | b"-Infinity" => "infinity",
                _ => continue,
            };
            return Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, format!("{what} cannot be {problem}")));
        }
    }
    if let (Datum::Numeric(a), Datum::Numeric(b), Datum::Numeric(c)) = (&first, &stop, &step)
        && let (Some(next), Some(stop), Some(step)) = (whole(a), whole(b), whole(c))
    {
        return if step == 0 {
            Err(zero_step())
        } else {
            Ok(FunctionRows::Ints { next, stop, step, ty: oids::NUMERIC })
        };
    }
    let moved = add(ctx, &[first.clone(), step.clone()])?;
    let up = match key::compare(ty, &moved, &first) {
        Ordering::Equal => return Err(zero_step()),
        o => o == Ordering::Greater,
    };
    Ok(FunctionRows::Steps { next: Some(first), stop, step, up, ty, add })
}
pub(crate) fn generate_series_numeric(call: RowsCall<'_>) -> Result<FunctionRows> {
    steps(call, oids::NUMERIC, numeric::numeric_add)
}
pub(crate) fn generate_series_step_numeric(call: RowsCall<'_>) -> Result<FunctionRows> {
    steps(call, oids::NUMERIC, numeric::numeric_add)
}
pub(crate) fn generate_series_timestamp(call: RowsCall<'_>) -> Result<FunctionRows> {
    steps(call, oids::TIMESTAMP, datetime::timestamp_pl_interval)
}
pub(crate) fn generate_series_timestamptz(call: RowsCall<'_>) -> Result<FunctionRows> {
    steps(call, oids::TIMESTAMPTZ, datetime::timestamptz_pl_interval)
}

fn elements(value: Datum) -> FunctionRows {
    match value {
        Datum::Array(array) => FunctionRows::Elements { array, next: 0 },
        _ => FunctionRows::none(),
    }
}
pub(crate) fn array_unnest(call: RowsCall<'_>) -> Result<FunctionRows> {
    Ok(call.args.into_iter().next().map_or(FunctionRows::none(), elements))
}
pub(crate) fn generate_subscripts(call: RowsCall<'_>) -> Result<FunctionRows> {
    let (Some(Datum::Array(a)), Some(Datum::Int4(d))) = (call.args.first(), call.args.get(1)) else {
        return Ok(FunctionRows::none());
    };
    let Some((low, len)) = usize::try_from(*d - 1).ok().and_then(|i| a.dims.get(i)) else {
        return Ok(FunctionRows::none());
    };
    let (low, high) = (i128::from(*low), i128::from(*low) + i128::from(*len) - 1);
    if matches!(call.args.get(2), Some(Datum::Bool(true))) {
        return Ok(FunctionRows::Ints { next: high, stop: low, step: -1, ty: oids::INT4 });
    }
    Ok(FunctionRows::Ints { next: low, stop: high, step: 1, ty: oids::INT4 })
}
pub(crate) fn generate_subscripts_nodir(call: RowsCall<'_>) -> Result<FunctionRows> {
    generate_subscripts(call)
}
pub(crate) fn multirange_unnest(call: RowsCall<'_>) -> Result<FunctionRows> {
    let ranges = get::multirange(get::arg(&call.args, 0)?)?.ranges.iter();
    Ok(FunctionRows::list(ranges.map(|r| r.clone().datum()).collect()))
}
pub(crate) fn p2947_txid_snapshot_xip(call: RowsCall<'_>) -> Result<FunctionRows> {
    snapshot::running(&call.args, false).map(FunctionRows::list)
}
pub(crate) fn p5064_pg_snapshot_xip(call: RowsCall<'_>) -> Result<FunctionRows> {
    snapshot::running(&call.args, true).map(FunctionRows::list)
}
pub(crate) fn regexp_split_to_table(call: RowsCall<'_>) -> Result<FunctionRows> {
    regex::regexp_split_to_array(call.ctx, &call.args).map(elements)
}
pub(crate) fn regexp_split_to_table_no_flags(call: RowsCall<'_>) -> Result<FunctionRows> {
    regex::regexp_split_to_array_no_flags(call.ctx, &call.args).map(elements)
}
pub(crate) fn text_to_table(call: RowsCall<'_>) -> Result<FunctionRows> {
    string::text_to_array(call.ctx, &call.args).map(elements)
}
pub(crate) fn text_to_table_null(call: RowsCall<'_>) -> Result<FunctionRows> {
    string::text_to_array_null(call.ctx, &call.args).map(elements)
}
pub(crate) fn regexp_matches(call: RowsCall<'_>) -> Result<FunctionRows> {
    let text = |at| get::arg(&call.args, at).and_then(get::text);
    regex::regexp_matches(text(0)?, text(1)?, text(2)?).map(FunctionRows::list)
}
pub(crate) fn regexp_matches_no_flags(call: RowsCall<'_>) -> Result<FunctionRows> {
    let text = |at| get::arg(&call.args, at).and_then(get::text);
    regex::regexp_matches(text(0)?, text(1)?, "").map(FunctionRows::list)
}
