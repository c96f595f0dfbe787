//! Runs programs for one row ([`kilndb_plan::program`]): the steps that vectors are computed by, each for one value.
//!
//! Registers are values that belong to the run of the statement, so that nothing is allocated for a row. What would narrow the
//! rows to none jumps over the steps behind it.
//!
//! Values are written to where they are read, number by number: a value that is written in narrow pieces and moved in wide ones,
//! as those are that a function returns, stalls processors for longer than it takes to compute it.
//!
//! Invariants
//! 1. Whatever a program calls may run programs of its own, whose registers are behind its own.
//! 2. A register that was taken, or that was part of a call, holds nothing that takes memory.
//!
//! Must not know: where rows come from.

use super::context::{ExecContext, RunState};
use super::operation::{self, of_elements, of_one};
use kilndb_base::{Error, Result};
use kilndb_bind::ir::BoolTestKind;
use kilndb_plan::expression::{compare_int, int_of};
use kilndb_plan::operation::Operation;
use kilndb_plan::program::{Computation, ConstantSource, Operand, Operands, Program, Step, Truth};
use kilndb_types::numeric::Numeric;
use kilndb_types::{Datum, key};

/// What there is where a row or a list of parameters is shorter than a program believes.
static NULL: Datum = Datum::Null;

/// The registers of the programs that are run for a row now.
#[derive(Default)]
pub(crate) struct Registers {
    values: Vec<Datum>,
    /// Those before are in use.
    free: usize,
}

/// Copies a value piece by piece as it will be read.
#[inline]
pub(crate) fn copy(from: &Datum, to: &mut Datum) {
    match from {
        Datum::Int4(v) => put_int4(to, *v),
        Datum::Int8(v) => put_int8(to, *v),
        Datum::Text(v) => set(to, Datum::Text(v.clone())),
        Datum::Numeric(Numeric::Short(v)) => set(to, Datum::Numeric(Numeric::Short(*v))),
        other => set(to, other.clone()),
    }
}

/// Hands a value on piece by piece as it was written.
#[inline(always)]
pub(crate) fn put(value: Datum, to: &mut Datum) {
    match value {
        Datum::Int4(v) => put_int4(to, v),
        Datum::Int8(v) => put_int8(to, v),
        Datum::Bool(v) => put_bool(to, v),
        Datum::Text(v) => set(to, Datum::Text(v)),
        Datum::Numeric(Numeric::Short(v)) => set(to, Datum::Numeric(Numeric::Short(v))),
        Datum::Null => put_null(to),
        other => set(to, other),
    }
}

/// Writes a value over another one, of which most often there is nothing to drop.
#[inline(always)]
fn set(to: &mut Datum, value: Datum) {
    match is_plain(to) {
        true => std::mem::forget(std::mem::replace(to, value)),
        false => *to = value,
    }
}

// Where the same kind of value was before, there is nothing to drop.
#[inline(always)]
fn put_int4(to: &mut Datum, value: i32) {
    match to {
        Datum::Int4(place) => *place = value,
        other => set(other, Datum::Int4(value)),
    }
}
#[inline(always)]
fn put_int8(to: &mut Datum, value: i64) {
    match to {
        Datum::Int8(place) => *place = value,
        other => set(other, Datum::Int8(value)),
    }
}
#[inline(always)]
fn put_bool(to: &mut Datum, value: bool) {
    match to {
        Datum::Bool(place) => *place = value,
        other => set(other, Datum::Bool(value)),
    }
}
#[inline(always)]
fn put_null(to: &mut Datum) {
    set(to, Datum::Null);
}

/// The value of a program's first result for a row. False: the row was left out, and there is none.
pub(crate) fn run(
    program: &Program,
    row: &[Datum],
    out: &mut Datum,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<bool> {
    let base = rt.registers.free;
    let end = base + program.registers;
    if rt.registers.values.len() < end {
        rt.registers.values.resize_with(end, Datum::default);
    }
    rt.registers.free = end;
    let done = RowRun { program, row, base }.run(out, rt, cx);
    rt.registers.free = base;
    done
}

/// The value of an expression that is evaluated once a run of the statement.
pub(crate) fn once(index: usize, program: &Program, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Datum> {
    if let Some(Some(known)) = rt.once.get(index) {
        return Ok(known.clone());
    }
    let mut value = Datum::Null;
    run(program, &[], &mut value, rt, cx)?;
    if let Some(slot) = rt.once.get_mut(index) {
        *slot = Some(value.clone());
    }
    Ok(value)
}

/// The result of an operation, which may take the values away.
pub(crate) fn apply(
    operation: &Operation,
    args: &mut [Datum],
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<Datum> {
    match operation {
        Operation::ArrayMap { to, element } => of_elements(args, *to, |e| {
            let mut mapped = Datum::Null;
            run(element.program(), std::slice::from_ref(e), &mut mapped, rt, cx)?;
            Ok(mapped)
        }),
        other => operation::apply(other, args, cx),
    }
}

/// A run, whose registers begin at `base`.
struct RowRun<'r> {
    program: &'r Program,
    row: &'r [Datum],
    base: usize,
}

impl RowRun<'_> {
    #[inline(always)]
    fn get<'v>(&'v self, at: Operand, rt: &'v RunState) -> &'v Datum {
        let found = match at {
            Operand::Column(column) => self.row.get(column),
            Operand::Register(register) | Operand::Taken(register) => rt.registers.values.get(self.base + register),
            Operand::Constant(constant) => match self.program.constants.get(constant) {
                Some(ConstantSource::Value(value)) => Some(value),
                Some(ConstantSource::Parameter(n)) => rt.params.get(*n),
                Some(ConstantSource::ExecParameter(n)) => rt.exec_params.get(*n),
                None => None,
            },
        };
        found.unwrap_or(&NULL)
    }

    /// False: it has come to the end without the row.
    #[inline(always)]
    fn run(&self, out: &mut Datum, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<bool> {
        let steps = &self.program.steps[..];
        let mut next = 0;
        while let Some(step) = steps.get(next) {
            next += 1;
            match step {
                // The last step of most programs writes to where the result belongs.
                Step::Compute { into, what } => {
                    let own = if self.program.written_last == Some(*into) { None } else { Some(*into) };
                    self.compute((what, own), out, rt, cx)?;
                }
                Step::Narrow { by, to, if_none } => {
                    if !is_so(self.get(*by, rt), *to) {
                        if *if_none >= steps.len() {
                            return Ok(false);
                        }
                        next = *if_none;
                    }
                }
                Step::Widen | Step::Load { .. } => {}
            }
        }
        if self.program.written_last.is_none()
            && let Some(result) = self.program.results.first()
        {
            self.take(*result, out, rt);
        }
        Ok(true)
    }

    /// Where a step writes: its register, or, if it has none, `out`.
    #[inline(always)]
    fn place<'v>(&self, own: Option<usize>, out: &'v mut Datum, rt: &'v mut RunState) -> &'v mut Datum {
        match own {
            Some(register) => match rt.registers.values.get_mut(self.base + register) {
                Some(register) => register,
                None => out,
            },
            None => out,
        }
    }

    /// The value, into `out`; a register that gives it away is NULL then.
    #[inline(always)]
    fn take(&self, at: Operand, out: &mut Datum, rt: &mut RunState) {
        if let Operand::Taken(register) = at
            && let Some(value) = rt.registers.values.get_mut(self.base + register)
            && !is_plain(value)
        {
            put(std::mem::take(value), out);
            return;
        }
        copy(self.get(at, rt), out);
    }

    #[inline(always)]
    fn compute(
        &self,
        (what, own): (&Computation, Option<usize>),
        out: &mut Datum,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        match what {
            Computation::Call { operation: Operation::CompareInt(op), args, .. } => {
                let values = self.two_integers(args, rt);
                let place = self.place(own, out, rt);
                match values {
                    [Some(l), Some(r)] => put_bool(place, compare_int(*op, l, r)),
                    _ => put_null(place),
                }
            }
            Computation::Call { operation: Operation::Arithmetic { op, wide, f }, args, .. } => {
                let [Some(l), Some(r)] = self.two_integers(args, rt) else {
                    put_null(self.place(own, out, rt));
                    return Ok(());
                };
                let place = self.place(own, out, rt);
                match op.within(*wide, l, r) {
                    Some(value) if *wide => put_int8(place, value),
                    Some(value) => put_int4(place, value as i32),
                    None => *place = op.of(*wide, l, r, *f, &cx.eval)?,
                }
            }
            Computation::IsNull { arg, negated } => {
                let is_so = self.get(*arg, rt).is_null() != *negated;
                put_bool(self.place(own, out, rt), is_so);
            }
            Computation::Join { is_and, from } => {
                let there = own.map_or(&NULL, |register| self.get(Operand::Register(register), rt));
                match join(*is_and, there, self.get(*from, rt)) {
                    Some(value) => put_bool(self.place(own, out, rt), value),
                    None => put_null(self.place(own, out, rt)),
                }
            }
            Computation::Call { operation, args, frame } => {
                self.call((operation, args.as_slice(), *frame), own, out, rt, cx)?;
            }
            other => self.compute_more((other, own), out, rt, cx)?,
        }
        Ok(())
    }

    #[inline(never)]
    fn compute_more(
        &self,
        (what, own): (&Computation, Option<usize>),
        out: &mut Datum,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let value = match what {
            Computation::Begin(value) => value.map_or(Datum::Null, Datum::Bool),
            Computation::Blend(from) => {
                let mut value = Datum::Null;
                self.take(*from, &mut value, rt);
                value
            }
            Computation::Not(arg) => match self.get(*arg, rt) {
                Datum::Bool(v) => Datum::Bool(!v),
                _ => Datum::Null,
            },
            Computation::BoolTest { arg, test } => Datum::Bool(bool_test(self.get(*arg, rt), *test)),
            Computation::InSet { arg, ty, set, has_null, negated } => {
                rt.pace.step(cx.park)?;
                let arg = self.get(*arg, rt);
                if arg.is_null() {
                    Datum::Null
                } else {
                    let mut bytes = Vec::new();
                    key::hash_equal_key(*ty, arg, &mut bytes)?;
                    match set.contains(&bytes) {
                        true => Datum::Bool(!negated),
                        false if *has_null => Datum::Null,
                        false => Datum::Bool(*negated),
                    }
                }
            }
            Computation::Once { index, value } => once(*index, value, rt, cx)?,
            Computation::SubPlan(subplan) => {
                rt.pace.step(cx.park)?;
                super::subplan::eval(subplan, self.row, rt, cx)?
            }
            Computation::Call { .. } | Computation::IsNull { .. } | Computation::Join { .. } => {
                return Err(Error::internal("a step that is computed elsewhere"));
            }
        };
        *self.place(own, out, rt) = value;
        Ok(())
    }

    #[inline(always)]
    fn two_integers(&self, args: &Operands, rt: &RunState) -> [Option<i64>; 2] {
        match args {
            Operands::Two([l, r]) => [int_of(self.get(*l, rt)), int_of(self.get(*r, rt))],
            _ => [None, None],
        }
    }

    #[inline(never)]
    fn call(
        &self,
        (operation, args, frame): (&Operation, &[Operand], usize),
        own: Option<usize>,
        out: &mut Datum,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        rt.pace.step(cx.park)?;
        if let [arg] = args
            && operation.looks_at_one()
        {
            let value = self.get(*arg, rt);
            let value = match operation {
                Operation::Scalar(call) if call.strict && value.is_null() => Ok(Datum::Null),
                Operation::Scalar(call) => (call.f)(&cx.eval, std::slice::from_ref(value)),
                Operation::Cast { .. } if value.is_null() => Ok(Datum::Null),
                Operation::Cast { f, typmod, explicit, .. } => f(value, *typmod, *explicit, &cx.eval),
                other => of_one(other, value, &cx.eval),
            };
            put(value?, self.place(own, out, rt));
            if let Operand::Taken(register) = arg {
                self.forget(*register, rt);
            }
            return Ok(());
        }
        let frame = self.base + frame;
        for (at, arg) in args.iter().enumerate() {
            // What was computed for the call stands in its place.
            if !matches!(arg, Operand::Register(own) | Operand::Taken(own) if self.base + own == frame + at) {
                self.fill(*arg, frame + at, rt);
            }
        }
        let done = self.call_framed(operation, frame..frame + args.len(), rt, cx);
        for value in rt.registers.values.get_mut(frame..frame + args.len()).unwrap_or_default() {
            if !is_plain(value) {
                *value = Datum::Null;
            }
        }
        put(done?, self.place(own, out, rt));
        Ok(())
    }

    /// Puts a value into its place in a frame.
    #[inline(always)]
    fn fill(&self, from: Operand, to: usize, rt: &mut RunState) {
        let RunState { registers: Registers { values, .. }, params, exec_params, .. } = rt;
        let held = match from {
            Operand::Column(column) => self.row.get(column),
            Operand::Constant(constant) => match self.program.constants.get(constant) {
                Some(ConstantSource::Value(value)) => Some(value),
                Some(ConstantSource::Parameter(n)) => params.get(*n),
                Some(ConstantSource::ExecParameter(n)) => exec_params.get(*n),
                None => None,
            },
            Operand::Taken(register) => {
                let value = values.get_mut(self.base + register).map(std::mem::take).unwrap_or_default();
                if let Some(place) = values.get_mut(to) {
                    put(value, place);
                }
                return;
            }
            Operand::Register(register) => {
                let value = values.get(self.base + register).cloned().unwrap_or_default();
                if let Some(place) = values.get_mut(to) {
                    *place = value;
                }
                return;
            }
        };
        if let Some(place) = values.get_mut(to) {
            copy(held.unwrap_or(&NULL), place);
        }
    }

    #[inline(always)]
    fn call_framed(
        &self,
        operation: &Operation,
        frame: std::ops::Range<usize>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<Datum> {
        if let Operation::ArrayMap { .. } = operation {
            let mut values: Vec<Datum> = rt.registers.values[frame].iter_mut().map(std::mem::take).collect();
            return apply(operation, &mut values, rt, cx);
        }
        let Some(values) = rt.registers.values.get_mut(frame) else {
            return Err(Error::internal("a call without its registers"));
        };
        match operation {
            Operation::Scalar(call) if call.strict && values.iter().any(Datum::is_null) => Ok(Datum::Null),
            Operation::Scalar(call) => (call.f)(&cx.eval, values),
            other => operation::apply(other, values, cx),
        }
    }

    fn forget(&self, register: usize, rt: &mut RunState) {
        if let Some(value) = rt.registers.values.get_mut(self.base + register).filter(|value| !is_plain(value)) {
            *value = Datum::Null;
        }
    }
}

/// Does it take no memory of its own?
#[inline(always)]
fn is_plain(value: &Datum) -> bool {
    match value {
        Datum::Null | Datum::Bool(_) | Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) | Datum::Float8(_) => true,
        Datum::Numeric(Numeric::Short(_)) => true,
        _ => false,
    }
}

/// What there is, AND or OR another value.
#[inline(always)]
fn join(is_and: bool, there: &Datum, from: &Datum) -> Option<bool> {
    let truth = |value: &Datum| match value {
        Datum::Bool(v) => Some(*v),
        _ => None,
    };
    match (truth(there), truth(from)) {
        // One of them decides.
        (Some(v), _) | (_, Some(v)) if v != is_and => Some(v),
        (Some(_), Some(_)) => Some(is_and),
        _ => None,
    }
}

/// Is a condition's value the one that is meant?
#[inline(always)]
fn is_so(value: &Datum, to: Truth) -> bool {
    match to {
        Truth::True => matches!(value, Datum::Bool(true)),
        Truth::NotTrue => !matches!(value, Datum::Bool(true)),
        Truth::NotFalse => !matches!(value, Datum::Bool(false)),
        Truth::Null => value.is_null(),
    }
}

fn bool_test(value: &Datum, test: BoolTestKind) -> bool {
    let value = match value {
        Datum::Bool(v) => Some(*v),
        _ => None,
    };
    match test {
        BoolTestKind::True => value == Some(true),
        BoolTestKind::NotTrue => value != Some(true),
        BoolTestKind::False => value == Some(false),
        BoolTestKind::NotFalse => value != Some(false),
        BoolTestKind::Unknown => value.is_none(),
        BoolTestKind::NotUnknown => value.is_some(),
    }
}
