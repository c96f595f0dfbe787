//! Programs over vectors: expressions as a flat list of steps, each of which computes one vector for many rows
//! (docs/decisions/0062).
//!
//! A program is made of expressions whose calls may be made in any order: nothing volatile, no subqueries, no routines,
//! nothing of the session. What must not be evaluated for some rows (the branches of CASE, what is behind a false AND) is
//! kept from them by narrowing the rows that the steps work on.
//!
//! Invariants
//! 1. A register is written by the steps between two changes of the rows, and read for these rows or fewer.
//! 2. Each `Narrow` has its `Widen` behind it, or stands at the end of a condition.
//!
//! Must not know: how steps are run.

use super::expression::{Arithmetic, CExpr, IntOp, ScalarCall};
use super::node::AggSpec;
use kilndb_base::Oid;
use kilndb_base::sync::OnceLock;
use kilndb_bind::ir::BoolTestKind;
use kilndb_types::cast::CastFn;
use kilndb_types::functions::ScalarFn;
use kilndb_types::vector::{self, VectorFn};
use kilndb_types::{Datum, oids};
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VectorOperand {
    Register(usize),
    /// A column of the rows.
    Column(usize),
}

/// Which values of a condition are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Truth {
    True,
    NotTrue,
    NotFalse,
    Null,
}

/// What a step does with values, all of which must be there.
#[derive(Clone, Copy)]
pub enum VectorOperation {
    /// `strict`: none of the values is NULL.
    Scalar(ScalarCall),
    CompareInt(IntOp),
    Arithmetic {
        op: Arithmetic,
        wide: bool,
        f: ScalarFn,
    },
    Cast {
        f: CastFn,
        typmod: i32,
        explicit: bool,
        vector: Option<VectorFn>,
    },
    /// A cast through the text form.
    InOut {
        from: Oid,
        to: Oid,
        typmod: i32,
        explicit: bool,
        vector: Option<VectorFn>,
    },
    /// A modifier applied to a value of its type.
    Typmod {
        ty: Oid,
        typmod: i32,
        explicit: bool,
    },
}

pub enum VectorStep {
    /// Makes the source have the column's values.
    Load {
        column: usize,
        /// Only some of the rows that the program is for are asked for.
        is_nested: bool,
    },
    /// Writes a register, which the step does not read but where it says so.
    Compute { into: usize, what: Computation },
    /// Goes on with those rows for which the condition is so; if there are none, at the step with this number.
    Narrow { by: VectorOperand, to: Truth, if_none: usize },
    /// Goes on with the rows from before the last `Narrow`.
    Widen,
}

/// What a register gets.
pub enum Computation {
    /// A value that is the same for all rows.
    Constant(CExpr),
    Call {
        operation: VectorOperation,
        args: Box<[VectorOperand]>,
    },
    Not(VectorOperand),
    IsNull {
        arg: VectorOperand,
        negated: bool,
    },
    BoolTest {
        arg: VectorOperand,
        test: BoolTestKind,
    },
    /// Is the value one of a set's?
    InSet {
        arg: VectorOperand,
        ty: Oid,
        set: Arc<kilndb_base::hash::HashSet<Vec<u8>>>,
        has_null: bool,
        negated: bool,
    },
    /// The value of an expression that is evaluated one row after the other, from these columns of them.
    Rowwise {
        value: CExpr,
        columns: Box<[usize]>,
    },
    /// The beginning of a result; None: NULL.
    Begin(Option<bool>),
    /// What the register has, AND or OR another value.
    Join {
        is_and: bool,
        from: VectorOperand,
    },
    /// What the register has, and other values for the present rows.
    Blend(VectorOperand),
}

/// The steps that compute some expressions.
pub struct VectorProgram {
    pub steps: Vec<VectorStep>,
    pub registers: usize,
    /// Where each expression's values are; none if the program is a condition.
    pub results: Vec<VectorOperand>,
    /// The columns that are used.
    pub columns: Vec<usize>,
}

/// The program of a condition as far as it can be one: rows that it leaves have to meet `rest` as well.
pub struct ConditionProgram {
    pub program: Option<VectorProgram>,
    pub rest: Option<CExpr>,
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
    let mut builder = ProgramBuilder::default();
    let mut taken = 0;
    for e in list {
        let mark = builder.mark();
        let Some(by) = builder.value(e) else {
            builder.take_back(mark);
            break;
        };
        builder.steps.push(VectorStep::Narrow { by, to: Truth::True, if_none: usize::MAX });
        taken += 1;
    }
    let rest = match &list[taken..] {
        [] => None,
        [one] => Some(one.clone()),
        more => Some(CExpr::And(more.into())),
    };
    ConditionProgram { program: (taken > 0).then(|| builder.finish(Vec::new())), rest }
}

/// A list of expressions, and of conditions under which they are computed.
#[derive(Default)]
pub struct ValuesBuilder {
    builder: ProgramBuilder,
    results: Vec<VectorOperand>,
}

impl ValuesBuilder {
    /// Adds an expression. False: no program can compute it.
    pub fn add(&mut self, e: &CExpr) -> bool {
        let value = self.builder.value(e);
        self.results.extend(value);
        value.is_some()
    }
    /// Adds a condition, then the expressions for the rows for which it is true. False: no program can compute them.
    pub fn add_where(&mut self, condition: &CExpr, list: &[CExpr]) -> bool {
        if !self.add(condition) {
            return false;
        }
        let Some(by) = self.results.last().copied() else { return false };
        let narrowed = self.builder.narrow(by, Truth::True);
        let done = list.iter().all(|e| self.add(e));
        self.builder.widen(narrowed);
        done
    }
    pub fn finish(self) -> VectorProgram {
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
    pub program: VectorProgram,
    /// By column of the input: is it used?
    pub is_used: Vec<bool>,
}

/// An aggregation's program, made when it is first wanted. Its results are the keys, then for each aggregate its
/// condition, if it has one, and its arguments. None: rows have to be taken one after the other, because of a
/// call, or because an aggregate keeps its arguments.
#[derive(Default)]
pub struct LazyAggregateProgram(OnceLock<Option<ValuesProgram>>);

impl LazyAggregateProgram {
    pub fn of(&self, groups: &[CExpr], aggs: &[AggSpec], width: usize) -> Option<&ValuesProgram> {
        self.0.get_or_init(|| aggregate_program(groups, aggs, width)).as_ref()
    }
}

fn aggregate_program(groups: &[CExpr], aggs: &[AggSpec], width: usize) -> Option<ValuesProgram> {
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
    pub fn of<'e>(&self, exprs: impl IntoIterator<Item = &'e CExpr>, width: usize) -> Option<&ValuesProgram> {
        let make = || {
            let mut values = ValuesBuilder::default();
            exprs.into_iter().all(|e| values.add(e)).then(|| values.finish_over(width))
        };
        self.0.get_or_init(make).as_ref()
    }
}

/// The keys of a hash join's sides, and the condition on pairs of rows with equal keys.
pub struct JoinProgram {
    pub probe_keys: VectorProgram,
    pub build_keys: VectorProgram,
    /// Over the columns of the probe side, then those of the build side.
    pub on: Option<VectorProgram>,
}

/// A join's program, made when it is first wanted. None: its expressions want one row after the other.
#[derive(Default)]
pub struct LazyJoinProgram(OnceLock<Option<JoinProgram>>);

impl LazyJoinProgram {
    pub fn of(&self, probe_keys: &[CExpr], build_keys: &[CExpr], on: Option<&CExpr>) -> Option<&JoinProgram> {
        self.0.get_or_init(|| join_program(probe_keys, build_keys, on)).as_ref()
    }
}

fn join_program(probe_keys: &[CExpr], build_keys: &[CExpr], on: Option<&CExpr>) -> Option<JoinProgram> {
    let keys = |list: &[CExpr]| {
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

/// What a step computes from its operands: two steps with one key compute the same.
#[derive(Clone, PartialEq)]
enum StepKey {
    Call {
        function: usize,
        detail: (i32, bool),
        args: Box<[VectorOperand]>,
    },
    /// A cast through the text form, or, if there is no type that it is from, a modifier applied.
    Cast {
        from: Option<Oid>,
        to: Oid,
        detail: (i32, bool),
        args: Box<[VectorOperand]>,
    },
    Parameter(usize),
    Once(usize),
}

#[derive(Default)]
struct ProgramBuilder {
    steps: Vec<VectorStep>,
    registers: usize,
    columns: Vec<usize>,
    /// The columns that are there for the present rows.
    loaded: Vec<usize>,
    /// What registers hold for the present rows.
    known: Vec<(StepKey, usize)>,
    depth: usize,
}

/// How far a builder was.
struct BuilderMark {
    steps: usize,
    registers: usize,
    loaded: usize,
    known: usize,
}

impl ProgramBuilder {
    fn mark(&self) -> BuilderMark {
        BuilderMark {
            steps: self.steps.len(),
            registers: self.registers,
            loaded: self.loaded.len(),
            known: self.known.len(),
        }
    }
    fn take_back(&mut self, mark: BuilderMark) {
        self.steps.truncate(mark.steps);
        self.registers = mark.registers;
        self.loaded.truncate(mark.loaded);
        self.known.truncate(mark.known);
        self.depth = 0;
    }
    fn finish(mut self, results: Vec<VectorOperand>) -> VectorProgram {
        let end = self.steps.len();
        for step in &mut self.steps {
            if let VectorStep::Narrow { if_none, .. } = step
                && *if_none == usize::MAX
            {
                *if_none = end;
            }
        }
        let of_step = |step: &VectorStep| match step {
            VectorStep::Load { column, .. } => Some(*column),
            _ => None,
        };
        self.columns = self.steps.iter().filter_map(of_step).collect();
        self.columns.sort_unstable();
        self.columns.dedup();
        VectorProgram { steps: self.steps, registers: self.registers, results, columns: self.columns }
    }
    fn register(&mut self) -> usize {
        self.registers += 1;
        self.registers - 1
    }
    fn load(&mut self, column: usize) {
        if !self.loaded.contains(&column) {
            self.loaded.push(column);
            self.steps.push(VectorStep::Load { column, is_nested: self.depth > 0 });
        }
    }
    fn compute(&mut self, into: usize, what: Computation) {
        self.steps.push(VectorStep::Compute { into, what });
    }
    /// A step that writes a register of its own.
    fn step(&mut self, what: Computation) -> Option<VectorOperand> {
        let into = self.register();
        self.compute(into, what);
        Some(VectorOperand::Register(into))
    }
    /// A step that need not be there twice.
    fn shared(&mut self, key: StepKey, what: Computation) -> Option<VectorOperand> {
        if let Some((_, register)) = self.known.iter().find(|(known, _)| *known == key) {
            return Some(VectorOperand::Register(*register));
        }
        let made = self.step(what);
        if let Some(VectorOperand::Register(register)) = made {
            self.known.push((key, register));
        }
        made
    }
    /// Begins steps for fewer rows. Returns what [`ProgramBuilder::widen`] takes.
    fn narrow(&mut self, by: VectorOperand, to: Truth) -> (usize, BuilderMark) {
        let mark = self.mark();
        self.steps.push(VectorStep::Narrow { by, to, if_none: 0 });
        self.depth += 1;
        (self.steps.len() - 1, mark)
    }
    fn widen(&mut self, (at, mark): (usize, BuilderMark)) {
        let end = self.steps.len();
        if let VectorStep::Narrow { if_none, .. } = &mut self.steps[at] {
            *if_none = end;
        }
        self.steps.push(VectorStep::Widen);
        self.depth -= 1;
        // What was computed for fewer rows is not there for all.
        self.loaded.truncate(mark.loaded);
        self.known.truncate(mark.known);
    }

    fn values(&mut self, list: &[CExpr]) -> Option<Box<[VectorOperand]>> {
        list.iter().map(|e| self.value(e)).collect()
    }
    fn call(&mut self, operation: VectorOperation, args: &[CExpr]) -> Option<VectorOperand> {
        let args = self.values(args)?;
        let cast = |from, to, detail| StepKey::Cast { from, to, detail, args: args.clone() };
        let (function, detail) = match operation {
            VectorOperation::InOut { from, to, typmod, explicit, .. } => {
                return self.shared(cast(Some(from), to, (typmod, explicit)), Computation::Call { operation, args });
            }
            VectorOperation::Typmod { ty, typmod, explicit } => {
                return self.shared(cast(None, ty, (typmod, explicit)), Computation::Call { operation, args });
            }
            VectorOperation::Scalar(call) => (call.f as usize, (0, call.strict)),
            VectorOperation::CompareInt(op) => (op as usize, (0, false)),
            VectorOperation::Arithmetic { op, wide, .. } => (16 + op as usize, (0, wide)),
            VectorOperation::Cast { f, typmod, explicit, .. } => (f as usize, (typmod, explicit)),
        };
        let key = StepKey::Call { function, detail, args: args.clone() };
        self.shared(key, Computation::Call { operation, args })
    }

    /// Where the expression's values will be. None: no program can compute it.
    fn value(&mut self, e: &CExpr) -> Option<VectorOperand> {
        match e {
            CExpr::Slot(column) => {
                self.load(*column);
                Some(VectorOperand::Column(*column))
            }
            CExpr::Param(n) => self.shared(StepKey::Parameter(*n), Computation::Constant(e.clone())),
            CExpr::Once { index, .. } => self.shared(StepKey::Once(*index), Computation::Constant(e.clone())),
            CExpr::Const(_) | CExpr::ExecParam(_) => self.step(Computation::Constant(e.clone())),
            CExpr::Call1 { call, .. } | CExpr::Call2 { call, .. } | CExpr::Call { call, .. } if call.is_volatile => {
                None
            }
            CExpr::Call1 { call, arg } => self.call(VectorOperation::Scalar(*call), std::slice::from_ref(arg)),
            CExpr::Call2 { call, args } => self.call(VectorOperation::Scalar(*call), &args[..]),
            CExpr::Call { call, args } => self.call(VectorOperation::Scalar(*call), args),
            CExpr::CompareInt { op, args } => self.call(VectorOperation::CompareInt(*op), &args[..]),
            CExpr::Arithmetic { op, wide, f, args } => {
                self.call(VectorOperation::Arithmetic { op: *op, wide: *wide, f: *f }, &args[..])
            }
            CExpr::Cast { f, typmod, explicit, vector, arg } => {
                let operation = VectorOperation::Cast { f: *f, typmod: *typmod, explicit: *explicit, vector: *vector };
                self.call(operation, std::slice::from_ref(arg))
            }
            // A literal has no type of its own, and is read once.
            CExpr::InOut { from, to, typmod, explicit, arg } if *from != oids::UNKNOWN => {
                let (from, to, typmod, explicit) = (*from, *to, *typmod, *explicit);
                let vector = (typmod < 0).then(|| vector::conversion(from, to)).flatten();
                let operation = VectorOperation::InOut { from, to, typmod, explicit, vector };
                self.call(operation, std::slice::from_ref(arg))
            }
            CExpr::Typmod { ty, typmod, explicit, arg } => {
                let operation = VectorOperation::Typmod { ty: *ty, typmod: *typmod, explicit: *explicit };
                self.call(operation, std::slice::from_ref(arg))
            }
            CExpr::And(list) => self.logic(true, list),
            CExpr::Or(list) => self.logic(false, list),
            CExpr::Not(arg) => {
                let arg = self.value(arg)?;
                self.step(Computation::Not(arg))
            }
            CExpr::IsNull { arg, negated, row: false } => {
                let arg = self.value(arg)?;
                self.step(Computation::IsNull { arg, negated: *negated })
            }
            CExpr::BoolTest { arg, test } => {
                let arg = self.value(arg)?;
                self.step(Computation::BoolTest { arg, test: *test })
            }
            CExpr::InSet { ty, arg, set, has_null, negated } => {
                let arg = self.value(arg)?;
                let (ty, set, has_null, negated) = (*ty, set.clone(), *has_null, *negated);
                self.step(Computation::InSet { arg, ty, set, has_null, negated })
            }
            CExpr::ScalarArray { call, any, args } if !call.is_volatile => match elements(&args[1]) {
                Some(elements) => self.any_of(*call, *any, &args[0], &elements),
                None => self.rowwise(e),
            },
            CExpr::Case { arg: None, whens, otherwise } => self.case(whens, otherwise),
            CExpr::Coalesce(list) => self.coalesce(list),
            other => self.rowwise(other),
        }
    }

    fn logic(&mut self, is_and: bool, list: &[CExpr]) -> Option<VectorOperand> {
        self.joined(is_and, list.len(), |builder, at| builder.value(&list[at]))
    }
    /// The AND or OR of so many conditions, each computed for the rows that those before it leave undecided.
    fn joined(
        &mut self,
        is_and: bool,
        count: usize,
        mut condition: impl FnMut(&mut ProgramBuilder, usize) -> Option<VectorOperand>,
    ) -> Option<VectorOperand> {
        let into = self.register();
        self.compute(into, Computation::Begin(Some(is_and)));
        let mut narrowed = Vec::new();
        for at in 0..count {
            let from = condition(self, at)?;
            self.compute(into, Computation::Join { is_and, from });
            if at + 1 < count {
                let undecided = if is_and { Truth::NotFalse } else { Truth::NotTrue };
                narrowed.push(self.narrow(VectorOperand::Register(into), undecided));
            }
        }
        narrowed.into_iter().rev().for_each(|n| self.widen(n));
        Some(VectorOperand::Register(into))
    }

    /// `x op ANY (elements)`, or ALL: one comparison after the other, as OR and AND have them, but each for all rows. That is
    /// faster than to find out which rows are left; where a comparison fails for a row that was not left, so does the program,
    /// in whose place rows are evaluated one by one.
    fn any_of(&mut self, call: ScalarCall, any: bool, x: &CExpr, elements: &[CExpr]) -> Option<VectorOperand> {
        let x = self.value(x)?;
        let elements = self.values(elements)?;
        let operation = VectorOperation::Scalar(call);
        let into = self.register();
        self.compute(into, Computation::Begin(Some(!any)));
        for element in elements {
            let from = self.step(Computation::Call { operation, args: Box::new([x, element]) })?;
            self.compute(into, Computation::Join { is_and: !any, from });
        }
        Some(VectorOperand::Register(into))
    }

    fn case(&mut self, whens: &[(CExpr, CExpr)], otherwise: &CExpr) -> Option<VectorOperand> {
        let into = self.register();
        self.compute(into, Computation::Begin(None));
        let mut narrowed = Vec::new();
        for (when, then) in whens {
            let by = self.value(when)?;
            let chosen = self.narrow(by, Truth::True);
            let from = self.value(then)?;
            self.compute(into, Computation::Blend(from));
            self.widen(chosen);
            narrowed.push(self.narrow(by, Truth::NotTrue));
        }
        let from = self.value(otherwise)?;
        self.compute(into, Computation::Blend(from));
        narrowed.into_iter().rev().for_each(|n| self.widen(n));
        Some(VectorOperand::Register(into))
    }

    fn coalesce(&mut self, list: &[CExpr]) -> Option<VectorOperand> {
        let into = self.register();
        self.compute(into, Computation::Begin(None));
        let mut narrowed = Vec::new();
        for (i, e) in list.iter().enumerate() {
            let from = self.value(e)?;
            self.compute(into, Computation::Blend(from));
            if i + 1 < list.len() {
                narrowed.push(self.narrow(VectorOperand::Register(into), Truth::Null));
            }
        }
        narrowed.into_iter().rev().for_each(|n| self.widen(n));
        Some(VectorOperand::Register(into))
    }

    fn rowwise(&mut self, e: &CExpr) -> Option<VectorOperand> {
        let mut columns = Vec::new();
        if !is_pure(e, &mut columns) {
            return None;
        }
        columns.sort_unstable();
        columns.dedup();
        columns.iter().for_each(|column| self.load(*column));
        self.step(Computation::Rowwise { value: e.clone(), columns: columns.into() })
    }
}

/// An array of more elements is looked through for one row after the other.
const ELEMENTS_MAX: usize = 16;

/// The elements of an array that is written out, if they are few.
fn elements(array: &CExpr) -> Option<Vec<CExpr>> {
    let list: Vec<CExpr> = match array {
        CExpr::Const(Datum::Array(a)) => a.elements.iter().map(|e| CExpr::Const(e.clone())).collect(),
        CExpr::Array { multidim: false, args, .. } if args.iter().all(is_constant) => args.to_vec(),
        _ => return None,
    };
    (list.len() <= ELEMENTS_MAX).then_some(list)
}

fn is_constant(e: &CExpr) -> bool {
    matches!(e, CExpr::Const(_) | CExpr::Param(_) | CExpr::Once { .. })
}

/// May the expression be evaluated for rows in any order, and more than once? Appends the columns that it uses.
fn is_pure(e: &CExpr, columns: &mut Vec<usize>) -> bool {
    let mut all = |list: &[CExpr]| list.iter().all(|e| is_pure(e, columns));
    match e {
        CExpr::Slot(column) => {
            columns.push(*column);
            true
        }
        CExpr::Const(_) | CExpr::Param(_) | CExpr::ExecParam(_) | CExpr::Once { .. } | CExpr::CaseArg => true,
        CExpr::Call { call, args } => !call.is_volatile && all(args),
        CExpr::Call1 { call, arg } => !call.is_volatile && all(std::slice::from_ref(arg)),
        CExpr::Call2 { call, args } => !call.is_volatile && all(&args[..]),
        CExpr::CompareInt { args, .. } | CExpr::Arithmetic { args, .. } | CExpr::NullIf { args, .. } => all(&args[..]),
        CExpr::ScalarArray { call, args, .. } => !call.is_volatile && all(&args[..]),
        CExpr::Cast { arg, .. }
        | CExpr::InOut { arg, .. }
        | CExpr::Typmod { arg, .. }
        | CExpr::ArrayCast { arg, .. }
        | CExpr::ArrayTypmod { arg, .. }
        | CExpr::RetagArray { arg, .. }
        | CExpr::Retag { arg, .. }
        | CExpr::Not(arg)
        | CExpr::IsNull { arg, .. }
        | CExpr::BoolTest { arg, .. }
        | CExpr::Field { arg, .. }
        | CExpr::InSet { arg, .. } => all(std::slice::from_ref(arg)),
        CExpr::And(list) | CExpr::Or(list) | CExpr::Coalesce(list) => all(list),
        CExpr::MinMax { args, .. } | CExpr::Array { args, .. } | CExpr::Row { args, .. } => all(args),
        CExpr::IsDistinct { left, right, .. } => all(std::slice::from_ref(left)) && all(std::slice::from_ref(right)),
        CExpr::Case { arg, whens, otherwise } => {
            arg.as_ref().is_none_or(|arg| all(std::slice::from_ref(arg)))
                && whens.iter().all(|(when, then)| all(std::slice::from_ref(when)) && all(std::slice::from_ref(then)))
                && all(std::slice::from_ref(otherwise))
        }
        CExpr::RowCompare(compared) => all(&compared.left) && all(&compared.right),
        _ => false,
    }
}
