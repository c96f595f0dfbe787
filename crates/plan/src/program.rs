//! Programs: expressions as a flat list of steps over registers, which are run for many rows at a time, a vector for each
//! register, or for one row (docs/decisions/0062 and 0069).
//!
//! A program for many rows is made of expressions whose calls may be made in any order: nothing volatile, no subqueries, no
//! routines, nothing of the session. One for a row may have all of these. What must not be evaluated for some rows (the
//! branches of CASE, what is behind a false AND) is kept from them by narrowing the rows that the steps work on; for one row
//! that is a jump.
//!
//! Invariants
//! 1. A register is written by the steps between two changes of the rows, and read for these rows or fewer.
//! 2. Each `Narrow` (or `Decide`) has its `Widen` behind it, or stands at the end of a condition.
//! 3. What reads a register as [`Operand::Taken`] is the only step of the program that reads it.
//!
//! Must not know: how steps are run.

use super::expression::{CExpr, CSubscript, Expression, SubPlanUse};
use super::node::AggSpec;
use super::operation::{Operation, SubscriptBounds};
use super::program_builder::ProgramBuilder;
use kilndb_base::Oid;
use kilndb_base::sync::OnceLock;
use kilndb_bind::ir::BoolTestKind;
use kilndb_types::Datum;
use smallvec::SmallVec;
use std::sync::Arc;

/// What a program is run for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProgramKind {
    ManyRows,
    OneRow,
}

/// Where a value is. The numbers are narrow for the sake of [`STEP_BYTES`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand {
    Register(u32),
    /// A register that nobody reads afterwards.
    Taken(u32),
    /// A column of the rows.
    Column(u32),
    /// One of the program's constants.
    Constant(u32),
}

/// What an operation's values are; most operations have one or two.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operands {
    One(Operand),
    Two([Operand; 2]),
    List(Box<OperandList>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OperandList(Box<[Operand]>);

impl Operands {
    #[inline]
    pub fn as_slice(&self) -> &[Operand] {
        match self {
            Operands::One(one) => std::slice::from_ref(one),
            Operands::Two(two) => two,
            Operands::List(list) => &list.0,
        }
    }
    pub fn as_mut_slice(&mut self) -> &mut [Operand] {
        match self {
            Operands::One(one) => std::slice::from_mut(one),
            Operands::Two(two) => two,
            Operands::List(list) => &mut list.0,
        }
    }
}

impl FromIterator<Operand> for Operands {
    fn from_iter<T: IntoIterator<Item = Operand>>(list: T) -> Operands {
        let list: Vec<Operand> = list.into_iter().collect();
        match list[..] {
            [one] => Operands::One(one),
            [l, r] => Operands::Two([l, r]),
            _ => Operands::List(Box::new(OperandList(list.into()))),
        }
    }
}

/// A value that is the same for all rows.
pub enum ConstantSource {
    Value(Datum),
    /// A parameter of the statement.
    Parameter(usize),
    /// A value that is handed to a correlated part of the plan.
    ExecParameter(usize),
}

/// Which values of a condition are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Truth {
    True,
    NotTrue,
    NotFalse,
    Null,
}

impl Truth {
    /// Is it this one? None: NULL.
    #[inline(always)]
    pub fn is(self, truth: Option<bool>) -> bool {
        match self {
            Truth::True => truth == Some(true),
            Truth::NotTrue => truth != Some(true),
            Truth::NotFalse => truth != Some(false),
            Truth::Null => truth.is_none(),
        }
    }
}

pub enum Step {
    /// Makes the source have the column's values.
    Load {
        column: usize,
        /// Only some of the rows that the program is for are asked for.
        is_nested: bool,
    },
    /// Writes a register, which the step does not read but where it says so.
    Compute { into: u32, what: Computation },
    /// Goes on with those rows for which the condition is so; if there are none, at the step with this number.
    Narrow { by: Operand, to: Truth, if_none: u32 },
    /// As `Compute` and `Narrow` by its value, which nothing else reads; only in a program for one row.
    Decide { what: Computation, to: Truth, if_none: u32 },
    /// Goes on with the rows from before the last `Narrow`.
    Widen,
}

/// What a register gets.
pub enum Computation {
    /// The value of an expression that is evaluated once a run of the statement, by a program for no row.
    Once {
        index: usize,
        value: Arc<Program>,
    },
    Call {
        operation: Operation,
        args: Operands,
    },
    Not(Operand),
    IsNull {
        arg: Operand,
        negated: bool,
    },
    BoolTest {
        arg: Operand,
        test: BoolTestKind,
    },
    /// Is the value one of a set's?
    InSet {
        arg: Operand,
        ty: Oid,
        set: Arc<kilndb_base::hash::HashSet<Vec<u8>>>,
        has_null: bool,
        negated: bool,
    },
    /// The beginning of a result; None: NULL.
    Begin(Option<bool>),
    /// What the register has, AND or OR another value.
    Join {
        is_and: bool,
        from: Operand,
    },
    /// What the register has, and other values for the present rows.
    Blend(Operand),
    /// What a subquery says of the row.
    SubPlan(Box<SubPlanUse>),
}

/// A step takes no more than a line of the processor's cache.
///
/// With thousands of sessions little of a plan is in the nearer caches when a statement begins, and what an expression of one or
/// two steps costs is to fetch its program: docs/decisions/0069.
pub const STEP_BYTES: usize = 64;
const _: () = assert!(size_of::<Step>() <= STEP_BYTES);

/// The steps that compute some expressions. What a program of two steps and one constant needs is in one place, for the same
/// reason.
pub struct Program {
    pub steps: SmallVec<[Step; 2]>,
    pub registers: u32,
    /// The last register, if nothing but the last step deals with it, and it is the result: its value can be written to where
    /// it belongs.
    pub written_last: Option<u32>,
    pub constants: SmallVec<[ConstantSource; 1]>,
    /// Where each expression's values are; none if the program is a condition.
    pub results: SmallVec<[Operand; 2]>,
    /// The columns that are used; empty in a program for one row.
    pub columns: Box<[usize]>,
}

impl Program {
    /// The program that computes an expression for one row.
    pub fn of_value(e: &CExpr) -> Program {
        let mut builder = ProgramBuilder::new(ProgramKind::OneRow);
        let value = builder.value(e);
        builder.finish(value.into_iter().collect())
    }
    /// The program that comes to its end for a row for which the condition is true.
    pub fn of_condition(e: &CExpr) -> Program {
        let mut builder = ProgramBuilder::new(ProgramKind::OneRow);
        for_conditions(e, &mut |e| {
            builder.add_condition(e);
        });
        builder.finish(Vec::new())
    }
}

/// Hands over the conditions that are joined by AND.
fn for_conditions(e: &CExpr, f: &mut impl FnMut(&CExpr)) {
    match e {
        CExpr::And(list) => list.iter().for_each(|e| for_conditions(e, f)),
        one => f(one),
    }
}

/// Which bounds subscripts have.
pub(crate) fn bounds_of(subs: &[CSubscript]) -> Box<[SubscriptBounds]> {
    subs.iter().map(|s| SubscriptBounds { has_lower: s.lower.is_some(), has_upper: s.upper.is_some() }).collect()
}

/// May the expression be evaluated for rows in any order, and more than once?
pub(crate) fn is_pure(e: &CExpr) -> bool {
    ProgramBuilder::new(ProgramKind::ManyRows).value(e).is_some()
}

/// The program of a condition as far as it can be one: rows that it leaves have to meet `rest` as well.
pub struct ConditionProgram {
    pub program: Option<Program>,
    pub rest: Option<Expression>,
}

/// A condition's program, made when it is first wanted: by no statement that reads few rows.
#[derive(Default)]
pub struct LazyCondition(OnceLock<ConditionProgram>);

impl LazyCondition {
    pub fn of(&self, condition: Option<&CExpr>) -> &ConditionProgram {
        self.0.get_or_init(|| match condition {
            Some(condition) => condition_program(condition),
            None => ConditionProgram { program: None, rest: None },
        })
    }
}

fn condition_program(condition: &CExpr) -> ConditionProgram {
    let list = match condition {
        CExpr::And(list) => &list[..],
        one => std::slice::from_ref(one),
    };
    let mut builder = ProgramBuilder::new(ProgramKind::ManyRows);
    let taken = list.iter().take_while(|e| builder.add_condition(e)).count();
    let rest = match &list[taken..] {
        [] => None,
        [one] => Some(one.clone().into()),
        more => Some(CExpr::And(more.into()).into()),
    };
    ConditionProgram { program: (taken > 0).then(|| builder.finish(Vec::new())), rest }
}

/// A list of expressions, and of conditions under which they are computed.
pub struct ValuesBuilder {
    builder: ProgramBuilder,
    results: Vec<Operand>,
}

impl Default for ValuesBuilder {
    fn default() -> ValuesBuilder {
        ValuesBuilder { builder: ProgramBuilder::new(ProgramKind::ManyRows), results: Vec::new() }
    }
}

impl ValuesBuilder {
    /// Adds an expression. False: no program can compute it.
    pub fn add(&mut self, e: &CExpr) -> bool {
        let value = self.builder.value(e);
        self.results.extend(value);
        value.is_some()
    }
    /// Adds a condition, then the expressions for the rows for which it is true. False: no program can compute them.
    pub fn add_where(&mut self, condition: &CExpr, list: &[Expression]) -> bool {
        if !self.add(condition) {
            return false;
        }
        let Some(by) = self.results.last().copied() else { return false };
        let narrowed = self.builder.narrow(by, Truth::True);
        let done = list.iter().all(|e| self.add(e));
        self.builder.widen(narrowed);
        done
    }
    pub fn finish(self) -> Program {
        self.builder.finish(self.results)
    }
    /// As [`ValuesBuilder::finish`], over rows of so many columns.
    fn finish_over(self, width: usize) -> ValuesProgram {
        let program = self.finish();
        let is_used = (0..width).map(|column| program.columns.contains(&column)).collect();
        ValuesProgram { program, is_used }
    }
}

/// A list of expressions over the rows of an input.
pub struct ValuesProgram {
    pub program: Program,
    /// By column of the input: is it used?
    pub is_used: Vec<bool>,
}

/// An aggregation's program, made when it is first wanted. Its results are the keys, then for each aggregate its
/// condition, if it has one, and its arguments. None: rows have to be taken one after the other, because of a
/// call, or because an aggregate keeps its arguments.
#[derive(Default)]
pub struct LazyAggregateProgram(OnceLock<Option<ValuesProgram>>);

impl LazyAggregateProgram {
    pub fn of(&self, groups: &[Expression], aggs: &[AggSpec], width: usize) -> Option<&ValuesProgram> {
        self.0.get_or_init(|| aggregate_program(groups, aggs, width)).as_ref()
    }
}

fn aggregate_program(groups: &[Expression], aggs: &[AggSpec], width: usize) -> Option<ValuesProgram> {
    let mut values = ValuesBuilder::default();
    for group in groups {
        values.add(group).then_some(())?;
    }
    for a in aggs {
        if a.keeps_arguments() && !a.counts_different() {
            return None;
        }
        let done = match &a.filter {
            Some(condition) => values.add_where(condition, &a.args),
            None => a.args.iter().all(|arg| values.add(arg)),
        };
        done.then_some(())?;
    }
    Some(values.finish_over(width))
}

/// A projection's program, made when it is first wanted.
#[derive(Default)]
pub struct LazyValuesProgram(OnceLock<Option<ValuesProgram>>);

impl LazyValuesProgram {
    /// None: the expressions want one row after the other.
    pub fn of<'e>(&self, exprs: impl IntoIterator<Item = &'e Expression>, width: usize) -> Option<&ValuesProgram> {
        let make = || {
            let mut values = ValuesBuilder::default();
            exprs.into_iter().all(|e| values.add(e)).then(|| values.finish_over(width))
        };
        self.0.get_or_init(make).as_ref()
    }
}

/// The keys of a hash join's sides, and the condition on pairs of rows with equal keys.
pub struct JoinProgram {
    pub probe_keys: Program,
    pub build_keys: Program,
    /// Over the columns of the probe side, then those of the build side.
    pub on: Option<Program>,
}

/// A join's program, made when it is first wanted. None: its expressions want one row after the other.
#[derive(Default)]
pub struct LazyJoinProgram(OnceLock<Option<JoinProgram>>);

impl LazyJoinProgram {
    pub fn of(&self, probe_keys: &[Expression], build_keys: &[Expression], on: Option<&CExpr>) -> Option<&JoinProgram> {
        self.0.get_or_init(|| join_program(probe_keys, build_keys, on)).as_ref()
    }
}

fn join_program(probe_keys: &[Expression], build_keys: &[Expression], on: Option<&CExpr>) -> Option<JoinProgram> {
    let keys = |list: &[Expression]| {
        let mut values = ValuesBuilder::default();
        list.iter().all(|key| values.add(key)).then(|| values.finish())
    };
    let on = match on.map(condition_program) {
        None => None,
        Some(ConditionProgram { program: Some(program), rest: None }) => Some(program),
        Some(_) => return None,
    };
    Some(JoinProgram { probe_keys: keys(probe_keys)?, build_keys: keys(build_keys)?, on })
}

#[cfg(test)]
mod tests {
    use super::super::expression::IntOp;
    use super::*;

    #[test]
    fn a_condition_of_comparisons_writes_no_register() {
        let above = |column| {
            let args = [CExpr::Slot(column), CExpr::Const(Datum::Int4(3))];
            CExpr::CompareInt { op: IntOp::Gt, args: Box::new(args) }
        };
        let program = Program::of_condition(&CExpr::And(Box::new([above(0), above(1)])));
        assert_eq!((program.registers, program.steps.len()), (0, 2));
        let decides = |step: &Step| matches!(step, Step::Decide { to: Truth::True, if_none: 2, .. });
        assert!(program.steps.iter().all(decides));
        // A value that is read twice stays in its register.
        let case = CExpr::Case {
            arg: None,
            whens: vec![(above(0), above(1))].into(),
            otherwise: Box::new(CExpr::Const(Datum::Null)),
        };
        assert!(Program::of_condition(&case).registers > 0);
    }
}
