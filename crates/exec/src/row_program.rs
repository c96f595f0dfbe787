//! Runs programs for one row ([`kilndb_plan::program`]): the steps that vectors are computed by, each for one value.
//!
//! Registers are values that belong to the run of the statement, so that nothing is allocated for a row. What would narrow the
//! rows to none jumps over the steps behind it.
//!
//! What a function returns goes where the program's value is wanted without being looked at on the way, and numbers are written
//! to where they are read: a value that is written in narrow pieces and moved in wide ones stalls processors for longer than it
//! takes to compute it.
//!
//! Invariant: whatever a program calls may run programs of its own, whose registers are behind its own.
//!
//! Must not know: where rows come from.

use super::context::{ExecContext, RunState};
use super::expr::Evaluate;
use super::operation::{self, of_elements, of_one};
use kilndb_base::{Error, Result};
use kilndb_plan::expression::{compare_int, int_of};
use kilndb_plan::operation::Operation;
use kilndb_plan::program::{Computation, ConstantSource, Operand, Operands, Program, Step, Truth};
use kilndb_types::numeric::Numeric;
use kilndb_types::{Datum, key};

/// What there is where a row or a list of parameters is shorter than a program believes.
pub(crate) static NULL: Datum = Datum::Null;

/// Arguments of so many values need no list of their own.
const FEW_ARGUMENTS: usize = 4;

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
fn put_integer(to: &mut Datum, wide: bool, value: i64) {
    match wide {
        true => put_int8(to, value),
        false => put_int4(to, value as i32),
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

/// The value of a program's result for a row.
pub(crate) fn value(program: &Program, row: &[Datum], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Datum> {
    // Most programs are one step.
    if let ([Step::Compute { what, .. }], Some(0)) = (&program.steps[..], program.written_last) {
        return RowRun { program, row, base: 0 }.value_of(what, rt, cx);
    }
    let run = RowRun::begin(program, row, rt);
    let value = run.value(rt, cx);
    rt.registers.free = run.base;
    value
}

/// The same, to where the value belongs.
pub(crate) fn value_into(
    program: &Program,
    row: &[Datum],
    out: &mut Datum,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<()> {
    if let ([Step::Compute { what, .. }], Some(0)) = (&program.steps[..], program.written_last)
        && (RowRun { program, row, base: 0 }).put_number(what, out, rt)
    {
        return Ok(());
    }
    *out = value(program, row, rt, cx)?;
    Ok(())
}

/// Does a condition's program come to its end for a row?
pub(crate) fn is_met(program: &Program, row: &[Datum], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<bool> {
    let run = RowRun::begin(program, row, rt);
    let is_met = run.steps(&program.steps, rt, cx);
    rt.registers.free = run.base;
    is_met
}

/// The value of an expression that is evaluated once a run of the statement.
pub(crate) fn once(index: usize, program: &Program, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Datum> {
    if let Some(Some(known)) = rt.once.get(index) {
        return Ok(known.clone());
    }
    let value = value(program, &[], rt, cx)?;
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
        Operation::ArrayMap { to, element } => {
            of_elements(args, *to, |e| element.eval(std::slice::from_ref(e), rt, cx))
        }
        other => operation::apply(other, args, cx),
    }
}

/// A run, whose registers begin at `base`.
struct RowRun<'r> {
    program: &'r Program,
    row: &'r [Datum],
    base: usize,
}

impl<'r> RowRun<'r> {
    #[inline(always)]
    fn begin(program: &'r Program, row: &'r [Datum], rt: &mut RunState) -> RowRun<'r> {
        let base = rt.registers.free;
        let end = base + program.registers as usize;
        if rt.registers.values.len() < end {
            rt.registers.values.resize_with(end, Datum::default);
        }
        rt.registers.free = end;
        RowRun { program, row, base }
    }

    #[inline(always)]
    fn get<'v>(&'v self, at: Operand, rt: &'v RunState) -> &'v Datum {
        let found = match at {
            Operand::Column(column) => self.row.get(column as usize),
            Operand::Register(register) | Operand::Taken(register) => {
                rt.registers.values.get(self.base + register as usize)
            }
            Operand::Constant(constant) => match self.program.constants.get(constant as usize) {
                Some(ConstantSource::Value(value)) => Some(value),
                Some(ConstantSource::Parameter(n)) => rt.params.get(*n),
                Some(ConstantSource::ExecParameter(n)) => rt.exec_params.get(*n),
                None => None,
            },
        };
        found.unwrap_or(&NULL)
    }

    fn value(&self, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Datum> {
        let steps = &self.program.steps[..];
        if self.program.written_last.is_some()
            && let Some((Step::Compute { what, .. }, before)) = steps.split_last()
        {
            self.steps(before, rt, cx)?;
            return self.value_of(what, rt, cx);
        }
        self.steps(steps, rt, cx)?;
        let mut value = Datum::Null;
        if let Some(result) = self.program.results.first() {
            self.fill(*result, &mut value, rt);
        }
        Ok(value)
    }

    /// Runs steps. False: they have come to the end without the row.
    #[inline(always)]
    fn steps(&self, steps: &[Step], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<bool> {
        let mut next = 0;
        while let Some(step) = steps.get(next) {
            next += 1;
            let (is_so, if_none) = match step {
                Step::Compute { into, what } => {
                    self.compute(what, *into, rt, cx)?;
                    continue;
                }
                Step::Narrow { by, to, if_none } => (is_so(self.get(*by, rt), *to), *if_none),
                Step::Decide { what, to, if_none } => (self.decide(what, *to, rt, cx)?, *if_none),
                Step::Widen | Step::Load { .. } => continue,
            };
            if !is_so {
                next = if_none as usize;
                if next >= steps.len() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The value of an argument or a result, into where NULL is; a register that gives it away is NULL then.
    #[inline(always)]
    fn fill(&self, at: Operand, place: &mut Datum, rt: &mut RunState) {
        if let Operand::Taken(register) = at {
            if let Some(value) = rt.registers.values.get_mut(self.base + register as usize) {
                *place = std::mem::take(value);
            }
            return;
        }
        copy(self.get(at, rt), place);
    }

    #[inline(always)]
    fn compute(&self, what: &Computation, into: u32, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let at = self.base + into as usize;
        // Numbers are written in place.
        let known = match what {
            Computation::Join { is_and, from } => {
                Some(join(*is_and, self.get(Operand::Register(into), rt), self.get(*from, rt)))
            }
            other => self.truth_of(other, rt),
        };
        if let Some(truth) = known {
            if let Some(register) = rt.registers.values.get_mut(at) {
                match truth {
                    Some(truth) => put_bool(register, truth),
                    None => put_null(register),
                }
            }
            return Ok(());
        }
        if let Computation::Call { operation: Operation::Arithmetic { op, wide, .. }, args } = what
            && let [Some(l), Some(r)] = self.two_integers(args, rt)
            && let Some(value) = op.within(*wide, l, r)
        {
            if let Some(register) = rt.registers.values.get_mut(at) {
                put_integer(register, *wide, value);
            }
            return Ok(());
        }
        let value = self.value_of(what, rt, cx)?;
        if let Some(register) = rt.registers.values.get_mut(at) {
            set(register, value);
        }
        Ok(())
    }

    /// The truth that a step computes of what is there. None: it computes something else.
    #[inline(always)]
    fn truth_of(&self, what: &Computation, rt: &RunState) -> Option<Option<bool>> {
        match what {
            Computation::Call { operation: Operation::CompareInt(op), args } => {
                Some(match self.two_integers(args, rt) {
                    [Some(l), Some(r)] => Some(compare_int(*op, l, r)),
                    _ => None,
                })
            }
            Computation::IsNull { arg, negated } => Some(Some(self.get(*arg, rt).is_null() != *negated)),
            _ => None,
        }
    }

    /// Is what a step computes the truth that is meant?
    #[inline(always)]
    fn decide(&self, what: &Computation, to: Truth, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<bool> {
        match self.truth_of(what, rt) {
            Some(truth) => Ok(to.is(truth)),
            None => Ok(is_so(&self.value_of(what, rt, cx)?, to)),
        }
    }

    /// Writes what a step computes if it is a number that has nothing against it. False: it is not.
    #[inline(always)]
    fn put_number(&self, what: &Computation, out: &mut Datum, rt: &RunState) -> bool {
        if let Computation::Call { operation: Operation::Arithmetic { op, wide, .. }, args } = what
            && let [Some(l), Some(r)] = self.two_integers(args, rt)
            && let Some(value) = op.within(*wide, l, r)
        {
            put_integer(out, *wide, value);
            return true;
        }
        false
    }

    /// The value of a step.
    fn value_of(&self, what: &Computation, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Datum> {
        match what {
            Computation::Call { operation: Operation::Scalar(call), args: Operands::Two([l, r]) } => {
                let mut values = [Datum::Null, Datum::Null];
                self.fill(*l, &mut values[0], rt);
                self.fill(*r, &mut values[1], rt);
                if call.strict && (values[0].is_null() || values[1].is_null()) {
                    return Ok(Datum::Null);
                }
                rt.pace.step(cx.park)?;
                (call.f)(&cx.eval, &values)
            }
            // The value is not copied if the operation only looks at it.
            Computation::Call { operation: Operation::Scalar(call), args: Operands::One(arg) } => {
                rt.pace.step(cx.park)?;
                let value = self.get(*arg, rt);
                if call.strict && value.is_null() {
                    return Ok(Datum::Null);
                }
                (call.f)(&cx.eval, std::slice::from_ref(value))
            }
            Computation::Call { operation: Operation::Cast { f, typmod, explicit, .. }, args: Operands::One(arg) } => {
                rt.pace.step(cx.park)?;
                let value = self.get(*arg, rt);
                if value.is_null() {
                    return Ok(Datum::Null);
                }
                f(value, *typmod, *explicit, &cx.eval)
            }
            Computation::Call { operation: Operation::Order { ty }, args: Operands::Two([l, r]) } => {
                rt.pace.step(cx.park)?;
                let (l, r) = (self.get(*l, rt), self.get(*r, rt));
                Ok(if l.is_null() || r.is_null() { Datum::Null } else { operation::order(*ty, l, r) })
            }
            Computation::Call { operation: Operation::CompareInt(op), args } => Ok(match self.two_integers(args, rt) {
                [Some(l), Some(r)] => Datum::Bool(compare_int(*op, l, r)),
                _ => Datum::Null,
            }),
            Computation::Call { operation: Operation::Arithmetic { op, wide, f }, args } => {
                match self.two_integers(args, rt) {
                    [Some(l), Some(r)] => op.of(*wide, l, r, *f, &cx.eval),
                    _ => Ok(Datum::Null),
                }
            }
            Computation::Call { operation, args } => self.call(operation, args.as_slice(), rt, cx),
            other => self.rarer_value(other, rt, cx),
        }
    }

    #[inline(never)]
    fn call(
        &self,
        operation: &Operation,
        args: &[Operand],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<Datum> {
        rt.pace.step(cx.park)?;
        if let [arg] = args
            && operation.looks_at_one()
        {
            return of_one(operation, self.get(*arg, rt), &cx.eval);
        }
        let mut few = [const { Datum::Null }; FEW_ARGUMENTS];
        let mut many = Vec::new();
        let values = match few.get_mut(..args.len()) {
            Some(few) => few,
            None => {
                many.resize_with(args.len(), Datum::default);
                &mut many[..]
            }
        };
        for (at, value) in args.iter().zip(&mut *values) {
            self.fill(*at, value, rt);
        }
        apply(operation, values, rt, cx)
    }

    #[inline(never)]
    fn rarer_value(&self, what: &Computation, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Datum> {
        Ok(match what {
            Computation::Begin(value) => value.map_or(Datum::Null, Datum::Bool),
            Computation::Blend(from) => {
                let mut value = Datum::Null;
                self.fill(*from, &mut value, rt);
                value
            }
            Computation::Not(arg) => match self.get(*arg, rt) {
                Datum::Bool(v) => Datum::Bool(!v),
                _ => Datum::Null,
            },
            Computation::IsNull { arg, negated } => Datum::Bool(self.get(*arg, rt).is_null() != *negated),
            Computation::BoolTest { arg, test } => Datum::Bool(test.is_met_by(truth(self.get(*arg, rt)))),
            Computation::InSet { arg, ty, set, has_null, negated } => {
                rt.pace.step(cx.park)?;
                let arg = self.get(*arg, rt);
                if arg.is_null() {
                    return Ok(Datum::Null);
                }
                let mut bytes = Vec::new();
                key::hash_equal_key(*ty, arg, &mut bytes)?;
                match set.contains(&bytes) {
                    true => Datum::Bool(!negated),
                    false if *has_null => Datum::Null,
                    false => Datum::Bool(*negated),
                }
            }
            Computation::Once { index, value } => return once(*index, value, rt, cx),
            Computation::SubPlan(subplan) => {
                rt.pace.step(cx.park)?;
                return super::subplan::eval(subplan, self.row, rt, cx);
            }
            Computation::Call { .. } | Computation::Join { .. } => {
                return Err(Error::internal("a step that is computed elsewhere"));
            }
        })
    }

    #[inline(always)]
    fn two_integers(&self, args: &Operands, rt: &RunState) -> [Option<i64>; 2] {
        match args {
            Operands::Two([l, r]) => [int_of(self.get(*l, rt)), int_of(self.get(*r, rt))],
            _ => [None, None],
        }
    }
}

/// Does it take no memory of its own?
#[inline(always)]
fn is_plain(value: &Datum) -> bool {
    matches!(
        value,
        Datum::Null
            | Datum::Bool(_)
            | Datum::Int2(_)
            | Datum::Int4(_)
            | Datum::Int8(_)
            | Datum::Float8(_)
            | Datum::Numeric(Numeric::Short(_))
    )
}

/// None: NULL.
#[inline(always)]
fn truth(value: &Datum) -> Option<bool> {
    match value {
        Datum::Bool(v) => Some(*v),
        _ => None,
    }
}

/// What there is, AND or OR another value.
#[inline(always)]
fn join(is_and: bool, there: &Datum, from: &Datum) -> Option<bool> {
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
        Truth::Null => value.is_null(),
        to => to.is(truth(value)),
    }
}
