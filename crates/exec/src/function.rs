//! Set-returning functions, streamed where that matters.

use super::context::*;
use super::expr::Evaluate;
use super::expr::eval_args;
use super::state::Unary;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_plan::{FunctionCall, Node, Op, ProjectItem};
use kilndb_spill::{RowStore, StoreCursor};
use kilndb_types::numeric::Numeric;
use kilndb_types::{Array, Datum, functions, json, key, oids};
use std::cmp::Ordering;
use std::sync::Arc;

/// Rows of one call.
enum Rows {
    Ints { next: i128, stop: i128, step: i128, ty: Oid },
    Steps { next: Option<Datum>, stop: Datum, step: Datum, up: bool, ty: Oid, add: functions::ScalarFn },
    List { values: Vec<Datum>, next: usize },
    Elements { array: Arc<Array>, next: usize },
    Table { rows: Vec<Vec<Datum>>, next: usize },
    Stored(Box<Stored>),
}

const NO_ROWS: Rows = Rows::List { values: Vec::new(), next: 0 };

/// What a routine has returned.
struct Stored {
    rows: RowStore,
    reader: StoreCursor,
    next: usize,
}

fn zero_step() -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, "step size cannot equal zero")
}

fn int(d: Option<&Datum>) -> i128 {
    match d {
        Some(Datum::Int4(v)) => i128::from(*v),
        Some(Datum::Int8(v)) => i128::from(*v),
        _ => 1,
    }
}

fn start(call: &FunctionCall, row: &[Datum], rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<Rows> {
    if let Some(e) = &call.scalar {
        return Ok(Rows::List { values: vec![e.eval(row, rt, cx)?], next: 0 });
    }
    if let Some(routine) = &call.routine {
        let Some(args) = eval_args(&call.args, call.strict, row, rt, cx)? else {
            return Ok(NO_ROWS);
        };
        let width = if call.composite { call.columns } else { 1 };
        let rows = super::routine::call_for_rows(routine, &args, width, cx)?;
        return Ok(Rows::Stored(Box::new(Stored { rows, reader: StoreCursor::default(), next: 0 })));
    }
    let Some(args) = eval_args(&call.args, call.strict, row, rt, cx)? else {
        return Ok(NO_ROWS);
    };
    match call.oid {
        1066..=1069 => {
            let step = int(args.get(2));
            if step == 0 {
                return Err(zero_step());
            }
            Ok(Rows::Ints {
                next: int(args.first()),
                stop: int(args.get(1)),
                step,
                ty: if call.oid >= 1068 { oids::INT8 } else { oids::INT4 },
            })
        }
        3259 | 3260 | 938 | 939 => steps(call, args, cx),
        2331 => Ok(args.into_iter().next().map_or(NO_ROWS, elements)),
        2947 | 5064 => Ok(Rows::List { values: functions::snapshot::running(&args, call.oid == 5064)?, next: 0 }),
        1293 => Ok(Rows::List {
            values: match args.into_iter().next() {
                Some(Datum::Multirange(m)) => m.ranges.iter().map(|r| r.clone().datum()).collect(),
                _ => Vec::new(),
            },
            next: 0,
        }),
        1191 | 1192 => Ok(subscripts(&args)),
        oid if json::sets::SETS.contains(&oid) => json_rows(call, &args, cx),
        2765 | 2766 => through_array(if call.oid == 2765 { 2767 } else { 2768 }, args, cx),
        6160 | 6161 => through_array(if call.oid == 6160 { 394 } else { 376 }, args, cx),
        _ => {
            let (oid, name) = (call.oid, call.name.clone());
            let rows = cx
                .call_env(|s, env| s.call_set_returning(oid, &name, &args, env))
                .unwrap_or_else(|| Err(Error::unsupported(format!("function {name} is not supported"))))?;
            Ok(Rows::Table { rows, next: 0 })
        }
    }
}

fn json_rows(call: &FunctionCall, args: &[Datum], cx: &ExecContext<'_>) -> Result<Rows> {
    let columns: Option<Vec<json::populate::Field>> =
        call.shape.as_ref().map(|shape| shape.columns.iter().map(|c| (c.name.clone(), c.type_oid, c.typmod)).collect());
    let set = json::sets::Call {
        oid: call.oid,
        name: &call.name,
        types: &call.arg_types,
        args,
        columns: columns.as_deref(),
        spread: call.composite,
    };
    Ok(Rows::Table { rows: json::sets::rows(&set, &cx.eval)?, next: 0 })
}

fn through_array(oid: Oid, args: Vec<Datum>, cx: &mut ExecContext<'_>) -> Result<Rows> {
    let Some(f) = functions::lookup(oid) else { return Err(Error::unsupported("splitting text into rows")) };
    Ok(elements(f(&cx.eval, &args)?))
}

fn elements(value: Datum) -> Rows {
    match value {
        Datum::Array(array) => Rows::Elements { array, next: 0 },
        _ => NO_ROWS,
    }
}

fn subscripts(args: &[Datum]) -> Rows {
    let (Some(Datum::Array(a)), Some(Datum::Int4(d))) = (args.first(), args.get(1)) else { return NO_ROWS };
    let Some((low, len)) = usize::try_from(*d - 1).ok().and_then(|i| a.dims.get(i)) else { return NO_ROWS };
    let (low, high) = (i128::from(*low), i128::from(*low) + i128::from(*len) - 1);
    if matches!(args.get(2), Some(Datum::Bool(true))) {
        return Rows::Ints { next: high, stop: low, step: -1, ty: oids::INT4 };
    }
    Rows::Ints { next: low, stop: high, step: 1, ty: oids::INT4 }
}

/// A number without a fraction, not even one of zeros, that is far from what 128 bits hold.
fn whole(n: &Numeric) -> Option<i128> {
    if n.dscale() == 0 && n.is_integral() { n.to_i64().map(i128::from) } else { None }
}

/// generate_series over numeric and timestamps.
fn steps(call: &FunctionCall, args: Vec<Datum>, cx: &mut ExecContext<'_>) -> Result<Rows> {
    let (ty, add) = match call.oid {
        938 => (oids::TIMESTAMP, 2032),
        939 => (oids::TIMESTAMPTZ, 1189),
        _ => (oids::NUMERIC, 1724),
    };
    let Some(add) = functions::lookup(add) else { return Err(Error::unsupported("generate_series of this type")) };
    let mut args = args.into_iter();
    let (Some(first), Some(stop)) = (args.next(), args.next()) else { return Err(Error::internal("generate_series")) };
    let step = match args.next() {
        Some(s) => s,
        None => kilndb_types::io::input(oids::NUMERIC, "1", -1, &cx.eval)?,
    };
    if ty == oids::NUMERIC {
        for (value, what) in [(&first, "start value"), (&stop, "stop value"), (&step, "step size")] {
            let mut text = Vec::new();
            kilndb_types::io::output_typmod(ty, -1, value, &mut text, &cx.eval)?;
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
        return if step == 0 { Err(zero_step()) } else { Ok(Rows::Ints { next, stop, step, ty: oids::NUMERIC }) };
    }
    let moved = add(&cx.eval, &[first.clone(), step.clone()])?;
    let up = match key::compare(ty, &moved, &first) {
        Ordering::Equal => return Err(zero_step()),
        o => o == Ordering::Greater,
    };
    Ok(Rows::Steps { next: Some(first), stop, step, up, ty, add })
}

impl Rows {
    /// Appends `columns` values; false at the end.
    fn next(
        &mut self,
        columns: usize,
        composite: bool,
        out: &mut Vec<Datum>,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        match self {
            Rows::Ints { next, stop, step, ty } => {
                if (*step > 0 && *next > *stop) || (*step < 0 && *next < *stop) {
                    return Ok(false);
                }
                out.push(match *ty {
                    oids::INT4 => Datum::Int4(*next as i32),
                    oids::INT8 => Datum::Int8(*next as i64),
                    _ => Datum::Numeric(Arc::new(Numeric::from(*next))),
                });
                *next += *step;
                Ok(true)
            }
            Rows::Steps { next, stop, step, up, ty, add } => {
                let Some(d) = next.take() else { return Ok(false) };
                let o = key::compare(*ty, &d, stop);
                if *up && o == Ordering::Greater || !*up && o == Ordering::Less {
                    return Ok(false);
                }
                *next = add(&cx.eval, &[d.clone(), step.clone()]).ok();
                out.push(d);
                Ok(true)
            }
            Rows::List { values, next } => {
                let Some(d) = values.get_mut(*next).map(std::mem::take) else { return Ok(false) };
                *next += 1;
                spread(vec![d], columns, composite, out);
                Ok(true)
            }
            Rows::Elements { array, next } => {
                let Some(d) = array.elements.get(*next).cloned() else { return Ok(false) };
                *next += 1;
                spread(vec![d], columns, composite, out);
                Ok(true)
            }
            Rows::Stored(stored) => {
                if stored.next >= stored.rows.len() {
                    return Ok(false);
                }
                let row = stored.rows.row(stored.next, &mut stored.reader, cx.io())?;
                stored.next += 1;
                spread(row.to_vec(), columns, composite, out);
                Ok(true)
            }
            Rows::Table { rows, next } => {
                let Some(r) = rows.get_mut(*next).map(std::mem::take) else { return Ok(false) };
                *next += 1;
                // A row where one value is asked for is a record.
                let r = if columns == 1 && r.len() > 1 { vec![record(r)] } else { r };
                spread(r, columns, composite && columns > 1, out);
                Ok(true)
            }
        }
    }
}

fn record(row: Vec<Datum>) -> Datum {
    let fields = row.into_iter().map(|d| (kilndb_types::io::natural_type(&d), d)).collect();
    Datum::Record(Arc::new(kilndb_types::Record { type_oid: oids::RECORD, names: None, fields }))
}
/// A composite value's fields become columns.
fn spread(row: Vec<Datum>, columns: usize, composite: bool, out: &mut Vec<Datum>) {
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

pub struct FunctionState {
    pub node: Arc<Node>,
    rows: Vec<Option<Rows>>,
    started: bool,
    count: i64,
}

impl FunctionState {
    pub fn new(node: &Arc<Node>) -> FunctionState {
        FunctionState { node: node.clone(), rows: Vec::new(), started: false, count: 0 }
    }
    pub fn rescan(&mut self) {
        self.started = false;
        self.rows.clear();
        self.count = 0;
    }
    pub fn next(&mut self, out: &mut Batch, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.node.clone();
        let Op::Function { calls, ordinality, .. } = &node.op else { return Ok(()) };
        if !self.started {
            self.started = true;
            for c in calls {
                self.rows.push(Some(start(c, &[], rt, cx)?));
            }
        }
        while !out.full() {
            let mut any = false;
            for (c, slot) in calls.iter().zip(&mut self.rows) {
                let got = match slot {
                    Some(r) => r.next(c.columns, c.composite, &mut out.data, cx)?,
                    None => false,
                };
                if got {
                    any = true;
                } else {
                    *slot = None;
                    out.data.extend(std::iter::repeat_n(Datum::Null, c.columns));
                }
            }
            if !any {
                out.cancel_row();
                return Ok(());
            }
            if *ordinality {
                self.count += 1;
                out.data.push(Datum::Int8(self.count));
            }
            out.end_row();
        }
        Ok(())
    }
}

/// Set-returning functions in the select list: all advance together, the short ones give NULL.
pub struct ProjectSetState {
    pub unary: Unary,
    position: usize,
    active: Option<Vec<Option<Rows>>>,
}

impl ProjectSetState {
    pub fn new(unary: Unary) -> ProjectSetState {
        ProjectSetState { unary, position: 0, active: None }
    }
    pub fn rescan(&mut self, rt: &mut Runtime) {
        self.unary.rescan(rt);
        self.position = 0;
        self.active = None;
    }
    pub fn next(&mut self, out: &mut Batch, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::ProjectSet { items, .. } = &node.op else { return Ok(()) };
        while !out.full() {
            if self.active.is_none() {
                if self.position >= self.unary.buffer.rows {
                    self.position = 0;
                    if !self.unary.fill(BATCH_ROWS, rt, cx)? {
                        return Ok(());
                    }
                }
                let mut rows = Vec::new();
                for i in items {
                    rows.push(match i {
                        ProjectItem::Set(c) => Some(start(c, self.unary.buffer.row(self.position), rt, cx)?),
                        ProjectItem::Expr(_) => None,
                    });
                }
                self.active = Some(rows);
            }
            let Some(rows) = &mut self.active else { return Ok(()) };
            let mut any = false;
            for (item, slot) in items.iter().zip(rows) {
                match item {
                    ProjectItem::Expr(e) => {
                        let v = e.eval(self.unary.buffer.row(self.position), rt, cx)?;
                        out.data.push(v);
                    }
                    ProjectItem::Set(c) => {
                        let got = match slot {
                            Some(r) => r.next(1, c.composite, &mut out.data, cx)?,
                            None => false,
                        };
                        if got {
                            any = true;
                        } else {
                            *slot = None;
                            out.data.push(Datum::Null);
                        }
                    }
                }
            }
            if any {
                out.end_row();
            } else {
                out.cancel_row();
                self.active = None;
                self.position += 1;
            }
        }
        Ok(())
    }
}
