//! Runs programs over vectors (docs/decisions/0062).
//!
//! Whoever runs a program has a way to do the same one row after the other, and takes it when the program fails: so the
//! error that is raised is that of the first row, in the order of its expressions.
//!
//! Invariants
//! 1. A step computes only the rows that are left at it.
//! 2. A failure leaves nothing behind but registers that the next run overwrites.
//!
//! Must not know: where rows come from (it asks a [`ColumnSource`]).

use super::context::{ExecContext, RunState};
use super::row_program;
use kilndb_base::{Error, Result};
use kilndb_bind::ir::BoolTestKind;
use kilndb_plan::operation::Operation;
use kilndb_plan::program::{Computation, ConstantSource, Operand, Program, Step, Truth};
use kilndb_types::Datum;
use kilndb_types::vector::{self, Rows, Vector, VectorValues};

/// The columns of the rows that a program runs over.
pub(crate) trait ColumnSource {
    /// Makes the values of a column known for `rows`. From now on only `left` of all rows matter, which are `rows` and
    /// maybe more.
    fn load(&mut self, column: usize, rows: Rows<'_>, left: Rows<'_>) -> Result<()>;
    /// The values of a column that was loaded.
    fn column(&self, column: usize) -> &Vector;
}

/// Columns that are there.
impl ColumnSource for [Vector] {
    fn load(&mut self, _: usize, _: Rows<'_>, _: Rows<'_>) -> Result<()> {
        Ok(())
    }
    fn column(&self, column: usize) -> &Vector {
        &self[column]
    }
}

/// The registers of a program, and the rows that its steps are narrowed to.
#[derive(Default)]
pub(crate) struct ProgramState {
    registers: Vec<Vector>,
    /// The program's constants.
    constants: Vec<Vector>,
    /// Lists of rows; those from `depth` on are spare.
    lists: Vec<Vec<u32>>,
    depth: usize,
    /// How many lists a load that is not nested has seen.
    base_depth: usize,
    /// Rows without NULLs among the arguments of a call.
    plain: Vec<u32>,
    key: Vec<u8>,
}

fn rows_at<'l>(lists: &'l [Vec<u32>], depth: usize, rows: Rows<'l>) -> Rows<'l> {
    match depth {
        0 => rows,
        depth => Rows::Listed(&lists[depth - 1], rows.positions()),
    }
}

/// What steps read.
struct Operands<'v, S: ?Sized> {
    registers: &'v [Vector],
    constants: &'v [Vector],
    source: &'v S,
}

impl<'v, S: ColumnSource + ?Sized> Operands<'v, S> {
    fn get(&self, at: Operand) -> &'v Vector {
        match at {
            Operand::Register(register) | Operand::Taken(register) => &self.registers[register as usize],
            Operand::Constant(constant) => &self.constants[constant as usize],
            Operand::Column(column) => self.source.column(column as usize),
        }
    }
}

/// A call of an operation for many rows.
struct VectorCall<'c> {
    operation: &'c Operation,
    args: &'c [&'c Vector],
}

impl ProgramState {
    /// The rows for which the condition is true, into `list`. False: it fails for one of them.
    pub fn filter<S: ColumnSource + ?Sized>(
        &mut self,
        (program, list): (&Program, &mut Vec<u32>),
        source: &mut S,
        rows: Rows<'_>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        list.clear();
        if !self.run(program, source, rows, rt, cx)? {
            return Ok(false);
        }
        match self.depth {
            0 => rows.each(|row| list.push(row as u32)),
            depth => list.extend_from_slice(&self.lists[depth - 1]),
        }
        Ok(true)
    }

    /// Where a result of the program's last run is.
    pub fn result<'v, S: ColumnSource + ?Sized>(&'v self, source: &'v S, at: Operand) -> &'v Vector {
        self.operands(source).get(at)
    }

    fn operands<'v, S: ColumnSource + ?Sized>(&'v self, source: &'v S) -> Operands<'v, S> {
        Operands { registers: &self.registers, constants: &self.constants, source }
    }

    /// Gives constants the values that they have in this run.
    fn set_constants(&mut self, program: &Program, rt: &RunState) {
        self.constants.resize_with(program.constants.len().max(self.constants.len()), Vector::default);
        for (constant, source) in self.constants.iter_mut().zip(&program.constants) {
            let value = match source {
                ConstantSource::Value(value) => Some(value),
                ConstantSource::Parameter(n) => rt.params.get(*n),
                ConstantSource::ExecParameter(n) => rt.exec_params.get(*n),
            };
            constant.make_constant(value.cloned().unwrap_or_default());
        }
    }

    /// Computes the program's results for the rows. False: it fails for one of them, and they will tell which and how
    /// if they are taken one after the other. Errors: the statement is to end.
    pub fn run<S: ColumnSource + ?Sized>(
        &mut self,
        program: &Program,
        source: &mut S,
        rows: Rows<'_>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        match self.run_steps(program, source, rows, rt, cx) {
            Ok(()) => Ok(true),
            Err(error) if error.is_interruption() => Err(error),
            Err(_) => Ok(false),
        }
    }

    fn run_steps<S: ColumnSource + ?Sized>(
        &mut self,
        program: &Program,
        source: &mut S,
        rows: Rows<'_>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        (self.depth, self.base_depth) = (0, 0);
        self.registers.resize_with(self.registers.len().max(program.registers as usize), Vector::default);
        self.set_constants(program, rt);
        let mut next = 0;
        while let Some(step) = program.steps.get(next) {
            next += 1;
            match step {
                Step::Narrow { by, to, if_none } => {
                    if !self.narrow(source, rows, *by, *to) {
                        next = *if_none as usize;
                    }
                }
                Step::Widen => self.depth -= 1,
                Step::Load { column, is_nested } => {
                    if !is_nested {
                        self.base_depth = self.depth;
                    }
                    let left = rows_at(&self.lists, self.base_depth, rows);
                    source.load(*column, rows_at(&self.lists, self.depth, rows), left)?;
                }
                Step::Decide { .. } => return Err(Error::internal("a step for one row")),
                Step::Compute { into, what } => self.compute((*into as usize, what), source, rows, rt, cx)?,
            }
        }
        Ok(())
    }

    /// False: no row is left.
    fn narrow<S: ColumnSource + ?Sized>(&mut self, source: &S, rows: Rows<'_>, by: Operand, to: Truth) -> bool {
        if self.lists.len() == self.depth {
            self.lists.push(Vec::new());
        }
        let mut list = std::mem::take(&mut self.lists[self.depth]);
        let rows = rows_at(&self.lists, self.depth, rows);
        let by = self.operands(source).get(by);
        match (to, &by.values) {
            (Truth::True, VectorValues::Bools(values)) if !by.is_constant() && !by.nulls.has_any() => {
                rows.list_where(&mut list, |row| values[row]);
            }
            (Truth::True, _) => rows.list_where(&mut list, |row| by.is_true(row)),
            (Truth::NotTrue, _) => rows.list_where(&mut list, |row| !by.is_true(row)),
            (Truth::NotFalse, _) => rows.list_where(&mut list, |row| !by.is_false(row)),
            (Truth::Null, _) => rows.list_where(&mut list, |row| by.is_null(row)),
        }
        let is_any = !list.is_empty();
        self.lists[self.depth] = list;
        self.depth += 1;
        is_any
    }

    fn compute<S: ColumnSource + ?Sized>(
        &mut self,
        (into, what): (usize, &Computation),
        source: &S,
        rows: Rows<'_>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let rows = rows_at(&self.lists, self.depth, rows);
        // No operand is the register that is written, so that it can be taken out.
        let mut out = std::mem::take(&mut self.registers[into]);
        let operands = Operands { registers: &self.registers, constants: &self.constants, source };
        match what {
            Computation::Once { index, value } => {
                out.make_constant(row_program::once(*index, value, rt, cx)?);
            }
            Computation::Call { operation, args } => {
                let args: Vec<&Vector> = args.as_slice().iter().map(|at| operands.get(*at)).collect();
                VectorCall { operation, args: &args }.run((rows, &mut self.plain), &mut out, rt, cx)?;
            }
            Computation::Not(arg) => {
                let arg = operands.get(*arg);
                let found = out.start_bools(rows.positions());
                rows.each(|row| found[row] = arg.is_false(row));
                copy_nulls(&[arg], rows, &mut out);
            }
            Computation::IsNull { arg, negated } => {
                let arg = operands.get(*arg);
                let found = out.start_bools(rows.positions());
                rows.each(|row| found[row] = arg.is_null(row) != *negated);
            }
            Computation::BoolTest { arg, test } => {
                let arg = operands.get(*arg);
                let found = out.start_bools(rows.positions());
                use BoolTestKind as B;
                rows.each(|row| {
                    found[row] = match test {
                        B::True => arg.is_true(row),
                        B::NotTrue => !arg.is_true(row),
                        B::False => arg.is_false(row),
                        B::NotFalse => !arg.is_false(row),
                        B::Unknown => arg.is_null(row),
                        B::NotUnknown => !arg.is_null(row),
                    }
                });
            }
            Computation::InSet { arg, ty, set, has_null, negated } => {
                let arg = operands.get(*arg);
                out.start_bools(rows.positions());
                let key = &mut self.key;
                rows.try_each(|row| {
                    key.clear();
                    let value = if arg.is_null(row) {
                        Datum::Null
                    } else {
                        arg.append_key(*ty, row, key)?;
                        match set.contains(key.as_slice()) {
                            true => Datum::Bool(!negated),
                            false if *has_null => Datum::Null,
                            false => Datum::Bool(*negated),
                        }
                    };
                    out.put(row, value);
                    Ok::<(), Error>(())
                })?;
            }
            Computation::Begin(Some(value)) => {
                let found = out.start_bools(rows.positions());
                rows.each(|row| found[row] = *value);
            }
            Computation::Begin(None) => {
                out.start(rows.positions());
                rows.each(|row| out.nulls.set(row));
            }
            Computation::Join { is_and, from } => join(*is_and, operands.get(*from), rows, &mut out),
            Computation::Blend(from) => out.copy_rows(operands.get(*from), rows)?,
            Computation::SubPlan(_) => return Err(Error::internal("a subquery in a program for many rows")),
        }
        self.registers[into] = out;
        Ok(())
    }
}

/// `out AND from`, or `out OR from`.
fn join(is_and: bool, from: &Vector, rows: Rows<'_>, out: &mut Vector) {
    let Vector { values: VectorValues::Bools(found), nulls, .. } = out else { return };
    if let (VectorValues::Bools(others), Rows::All(count)) = (&from.values, rows)
        && !from.is_constant()
        && !from.nulls.has_any()
        && !nulls.has_any()
    {
        let pairs = found[..count].iter_mut().zip(&others[..count]);
        return match is_and {
            true => pairs.for_each(|(found, other)| *found &= *other),
            false => pairs.for_each(|(found, other)| *found |= *other),
        };
    }
    rows.each(|row| {
        let decides = if is_and { from.is_false(row) } else { from.is_true(row) };
        if decides {
            found[row] = !is_and;
            nulls.unset(row);
        } else if from.is_null(row) && found[row] == is_and {
            // What has been decided stays.
            nulls.set(row);
        }
    });
}

/// Makes those rows NULL that are NULL in one of the vectors.
fn copy_nulls(from: &[&Vector], rows: Rows<'_>, out: &mut Vector) {
    for arg in from.iter().filter(|arg| arg.nulls.has_any()) {
        rows.each(|row| {
            if arg.is_null(row) {
                out.nulls.set(row);
            }
        });
    }
}

impl VectorCall<'_> {
    fn run(
        &self,
        (rows, plain): (Rows<'_>, &mut Vec<u32>),
        out: &mut Vector,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let args = self.args;
        if args.iter().all(|arg| arg.is_constant()) {
            return self.run_once(out, rt, cx);
        }
        let has_nulls = self.operation.is_strict() && args.iter().any(|arg| arg.nulls.has_any());
        let wanted = if has_nulls {
            rows.list_where(plain, |row| args.iter().all(|arg| !arg.is_null(row)));
            Rows::Listed(plain, rows.positions())
        } else {
            rows
        };
        if !self.run_vector_form(wanted, out) {
            self.run_each(wanted, out, rt, cx)?;
        }
        if has_nulls {
            copy_nulls(args, rows, out);
        }
        Ok(())
    }

    /// False: the operation has no vector form, or that does not know how to compute one of the rows.
    fn run_vector_form(&self, rows: Rows<'_>, out: &mut Vector) -> bool {
        let args = self.args;
        match self.operation {
            Operation::Scalar(call) => call.vector.is_some_and(|form| form(rows, args, out)),
            Operation::Cast { vector, .. } | Operation::InOut { vector, .. } => {
                vector.is_some_and(|form| form(rows, args, out))
            }
            Operation::CompareInt(op) => vector::compare_integers(*op, rows, args, out),
            Operation::Arithmetic { op, wide, .. } => vector::integer_arithmetic(*op, *wide, rows, args, out),
            Operation::Typmod { ty, typmod, .. } => vector::apply_typmod(*ty, *typmod, rows, args, out),
            _ => false,
        }
    }

    /// Computes one row after the other.
    fn run_each(&self, rows: Rows<'_>, out: &mut Vector, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        out.start(rows.positions());
        let takes = self.operation.takes_values();
        // Constants are there before the first row unless they are taken away; the other arguments take their places for each.
        let first = |arg: &&Vector| if arg.is_constant() { arg.get(0) } else { Ok(Datum::Null) };
        let mut values = self.args.iter().map(first).collect::<Result<Vec<Datum>>>()?;
        let varying: Vec<usize> = (0..self.args.len()).filter(|at| takes || !self.args[*at].is_constant()).collect();
        rows.try_each(|row| {
            for at in &varying {
                values[*at] = self.args[*at].get(row)?;
            }
            rt.pace.step(cx.park)?;
            out.put(row, row_program::apply(self.operation, &mut values, rt, cx)?);
            Ok::<(), Error>(())
        })
    }

    /// Constants give a constant.
    fn run_once(&self, out: &mut Vector, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let mut values = self.args.iter().map(|arg| arg.get(0)).collect::<Result<Vec<Datum>>>()?;
        rt.pace.step(cx.park)?;
        out.make_constant(row_program::apply(self.operation, &mut values, rt, cx)?);
        Ok(())
    }
}
