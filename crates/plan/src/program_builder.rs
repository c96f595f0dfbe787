//! Makes programs of the planner's trees ([`super::program`]).
//!
//! Invariant: what a tree must not evaluate is behind a `Narrow`.

use super::expression::{CExpr, CSubscript, IntOp, RowComparison, ScalarCall};
use super::operation::{DomainCheck, Operation, operation_of};
use super::program::{Computation, ConstantSource, Operand, Operands, Program, ProgramKind, Step, Truth, bounds_of};
use kilndb_base::Oid;
use kilndb_bind::ir::CompareKind;
use kilndb_types::{Datum, oids};
use std::sync::Arc;

/// What a step computes from its operands: two steps with one key compute the same.
#[derive(Clone, PartialEq)]
enum StepKey {
    Call {
        function: usize,
        detail: (i32, bool),
        args: Operands,
    },
    /// A cast through the text form, or, if there is no type that it is from, a modifier applied.
    Cast {
        from: Option<Oid>,
        to: Oid,
        detail: (i32, bool),
        args: Operands,
    },
    Once(usize),
}

impl StepKey {
    /// None: two steps are never taken for the same.
    fn of(operation: &Operation, args: &Operands) -> Option<StepKey> {
        let cast = |from, to, detail| Some(StepKey::Cast { from, to, detail, args: args.clone() });
        let (function, detail) = match operation {
            Operation::InOut { from, to, typmod, explicit, .. } => return cast(Some(*from), *to, (*typmod, *explicit)),
            Operation::Typmod { ty, typmod, explicit } => return cast(None, *ty, (*typmod, *explicit)),
            Operation::Scalar(call) => (call.f as usize, (0, call.strict)),
            Operation::CompareInt(op) => (*op as usize, (0, false)),
            Operation::Arithmetic { op, wide, .. } => (16 + *op as usize, (0, *wide)),
            Operation::Cast { f, typmod, explicit, .. } => (*f as usize, (*typmod, *explicit)),
            _ => return None,
        };
        Some(StepKey::Call { function, detail, args: args.clone() })
    }
}

/// The comparison of integers that asks the same.
fn int_op(kind: CompareKind) -> IntOp {
    match kind {
        CompareKind::Lt => IntOp::Lt,
        CompareKind::Le => IntOp::Le,
        CompareKind::Ge => IntOp::Ge,
        CompareKind::Gt => IntOp::Gt,
        CompareKind::Eq => IntOp::Eq,
        CompareKind::Ne => IntOp::Ne,
    }
}

pub(super) struct ProgramBuilder {
    kind: ProgramKind,
    steps: Vec<Step>,
    registers: u32,
    constants: Vec<ConstantSource>,
    /// The columns that are there for the present rows.
    loaded: Vec<usize>,
    /// What registers hold for the present rows.
    known: Vec<(StepKey, u32)>,
    depth: usize,
    /// The values that the CASEs around compare, the innermost last.
    case_args: Vec<Operand>,
    /// What column 0 means in the checks of a domain.
    checked: Option<Operand>,
}

/// How far a builder was.
struct BuilderMark {
    steps: usize,
    registers: u32,
    loaded: usize,
    known: usize,
}

/// The step where rows were narrowed, and how far the builder was there.
pub(super) struct Narrowed(usize, BuilderMark);

impl ProgramBuilder {
    pub fn new(kind: ProgramKind) -> ProgramBuilder {
        ProgramBuilder {
            kind,
            steps: Vec::new(),
            registers: 0,
            constants: Vec::new(),
            loaded: Vec::new(),
            known: Vec::new(),
            depth: 0,
            case_args: Vec::new(),
            checked: None,
        }
    }
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
        self.case_args.clear();
        self.checked = None;
    }
    /// Adds a condition; rows for which it is not true are left out from here on. False: no program of this kind can compute it,
    /// and nothing was added.
    pub fn add_condition(&mut self, e: &CExpr) -> bool {
        let mark = self.mark();
        match self.value(e) {
            Some(by) => self.steps.push(Step::Narrow { by, to: Truth::True, if_none: u32::MAX }),
            None => {
                self.take_back(mark);
                return false;
            }
        }
        true
    }
    pub fn finish(mut self, mut results: Vec<Operand>) -> Program {
        let end = narrow(self.steps.len());
        for step in &mut self.steps {
            if let Step::Narrow { if_none, .. } = step
                && *if_none == u32::MAX
            {
                *if_none = end;
            }
        }
        let of_step = |step: &Step| match step {
            Step::Load { column, .. } => Some(*column),
            _ => None,
        };
        let mut columns: Vec<usize> = self.steps.iter().filter_map(of_step).collect();
        columns.sort_unstable();
        columns.dedup();
        if self.kind == ProgramKind::OneRow {
            take_last_reads(&mut self.steps, &mut results);
            self.steps = decide_at_once(self.steps);
            if !self.steps.iter().any(|step| matches!(step, Step::Compute { .. })) {
                self.registers = 0;
            }
        }
        let written_last = written_last(&self.steps, self.registers, &results);
        Program {
            steps: self.steps.into(),
            registers: self.registers,
            written_last,
            constants: self.constants.into(),
            results: results.into(),
            columns: columns.into(),
        }
    }
    fn register(&mut self) -> u32 {
        self.registers += 1;
        self.registers - 1
    }
    /// The register that a value is wanted in, or a new one.
    fn register_for(&mut self, wanted: Option<u32>) -> u32 {
        wanted.unwrap_or_else(|| self.register())
    }
    fn load(&mut self, column: usize) {
        if self.kind == ProgramKind::ManyRows && !self.loaded.contains(&column) {
            self.loaded.push(column);
            self.steps.push(Step::Load { column, is_nested: self.depth > 0 });
        }
    }
    fn compute(&mut self, into: u32, what: Computation) {
        self.steps.push(Step::Compute { into, what });
    }
    /// A step that writes the register that is wanted, or one of its own.
    fn step(&mut self, wanted: Option<u32>, what: Computation) -> Option<Operand> {
        let into = self.register_for(wanted);
        self.compute(into, what);
        Some(Operand::Register(into))
    }
    fn constant(&mut self, source: ConstantSource) -> Option<Operand> {
        self.constants.push(source);
        Some(Operand::Constant(narrow(self.constants.len() - 1)))
    }
    /// A step that need not be there twice.
    fn shared(&mut self, key: Option<StepKey>, wanted: Option<u32>, what: Computation) -> Option<Operand> {
        let Some(key) = key.filter(|_| self.kind == ProgramKind::ManyRows) else { return self.step(wanted, what) };
        if let Some((_, register)) = self.known.iter().find(|(known, _)| *known == key) {
            return Some(Operand::Register(*register));
        }
        let made = self.step(None, what);
        if let Some(Operand::Register(register)) = made {
            self.known.push((key, register));
        }
        made
    }
    /// Begins steps for fewer rows. Returns what [`ProgramBuilder::widen`] takes.
    pub fn narrow(&mut self, by: Operand, to: Truth) -> Narrowed {
        let mark = self.mark();
        self.steps.push(Step::Narrow { by, to, if_none: 0 });
        self.depth += 1;
        Narrowed(self.steps.len() - 1, mark)
    }
    pub fn widen(&mut self, Narrowed(at, mark): Narrowed) {
        let end = narrow(self.steps.len());
        if let Step::Narrow { if_none, .. } = &mut self.steps[at] {
            *if_none = end;
        }
        self.steps.push(Step::Widen);
        self.depth -= 1;
        // What was computed for fewer rows is not there for all.
        self.loaded.truncate(mark.loaded);
        self.known.truncate(mark.known);
    }

    fn values<'e>(&mut self, list: impl IntoIterator<Item = &'e CExpr>) -> Option<Operands> {
        list.into_iter().map(|e| self.value(e)).collect()
    }
    /// A call of an operation with values that are there.
    fn call(&mut self, operation: Operation, args: Operands, wanted: Option<u32>) -> Option<Operand> {
        if self.kind == ProgramKind::ManyRows && !operation.is_pure() {
            return None;
        }
        self.shared(StepKey::of(&operation, &args), wanted, Computation::Call { operation, args })
    }

    /// Where the expression's values will be. None: no program of this kind can compute it.
    pub fn value(&mut self, e: &CExpr) -> Option<Operand> {
        self.value_in(e, None)
    }
    /// The same of a value that is wanted in a register, if it is computed at all.
    fn value_in(&mut self, e: &CExpr, wanted: Option<u32>) -> Option<Operand> {
        match e {
            CExpr::Slot(column) => {
                if let Some(checked) = self.checked {
                    return Some(checked);
                }
                self.load(*column);
                Some(Operand::Column(narrow(*column)))
            }
            CExpr::Const(value) => self.constant(ConstantSource::Value(value.clone())),
            CExpr::Param(n) => self.constant(ConstantSource::Parameter(*n)),
            CExpr::ExecParam(n) => self.constant(ConstantSource::ExecParameter(*n)),
            CExpr::Once { index, arg } => {
                let value = Arc::new(Program::of_value(arg));
                self.shared(Some(StepKey::Once(*index)), wanted, Computation::Once { index: *index, value })
            }
            CExpr::And(list) => self.joined(true, list, wanted),
            CExpr::Or(list) => self.joined(false, list, wanted),
            CExpr::Not(arg) => {
                let arg = self.value(arg)?;
                self.step(wanted, Computation::Not(arg))
            }
            CExpr::IsNull { arg, negated, row: false } => {
                let arg = self.value(arg)?;
                self.step(wanted, Computation::IsNull { arg, negated: *negated })
            }
            CExpr::BoolTest { arg, test } => {
                let arg = self.value(arg)?;
                self.step(wanted, Computation::BoolTest { arg, test: *test })
            }
            CExpr::InSet { ty, arg, set, has_null, negated } => {
                let arg = self.value(arg)?;
                let (ty, set, has_null, negated) = (*ty, set.clone(), *has_null, *negated);
                self.step(wanted, Computation::InSet { arg, ty, set, has_null, negated })
            }
            CExpr::ScalarArray { call, any, args } if self.kind == ProgramKind::ManyRows && !call.is_volatile => {
                match elements(&args[1]) {
                    Some(elements) => self.any_of(*call, *any, &args[0], &elements),
                    None => self.plain(e, wanted),
                }
            }
            CExpr::Case { arg, whens, otherwise } => self.case(arg.as_deref(), (whens, otherwise), wanted),
            CExpr::CaseArg => match self.case_args.last() {
                Some(value) => Some(*value),
                None => self.constant(ConstantSource::Value(Datum::Null)),
            },
            CExpr::Coalesce(list) => self.coalesce(list, wanted),
            CExpr::RowCompare(compared) => self.row_comparison(compared, wanted),
            CExpr::Subscript { arg, subs, slice } => {
                let operation = Operation::Subscript { bounds: bounds_of(subs), slice: *slice };
                self.subscript(operation, (arg, subs), wanted)
            }
            CExpr::JsonSubscript { arg, subs } => self.subscript(Operation::JsonSubscript, (arg, subs), wanted),
            CExpr::Domain { name, not_null, checks, arg } => self.domain((name, *not_null), checks, arg),
            CExpr::SubPlan(subplan) => match self.kind {
                ProgramKind::OneRow => self.step(wanted, Computation::SubPlan(subplan.clone())),
                ProgramKind::ManyRows => None,
            },
            other => self.plain(other, wanted),
        }
    }

    /// An operation on values.
    fn plain(&mut self, e: &CExpr, wanted: Option<u32>) -> Option<Operand> {
        let (operation, args) = operation_of(e)?;
        // Cheaper than to compute what stands in front of it.
        if self.kind == ProgramKind::ManyRows && !operation.is_pure() {
            return None;
        }
        let args = self.values(args)?;
        self.call(operation, args, wanted)
    }

    /// The AND or OR of so many conditions, each computed for the rows that those before it leave undecided.
    fn joined(&mut self, is_and: bool, list: &[CExpr], wanted: Option<u32>) -> Option<Operand> {
        let into = self.register_for(wanted);
        let is_begun = self.kind == ProgramKind::ManyRows || list.is_empty();
        if is_begun {
            self.compute(into, Computation::Begin(Some(is_and)));
        }
        let mut narrowed = Vec::new();
        for (at, condition) in list.iter().enumerate() {
            match is_begun || at > 0 {
                true => {
                    let from = self.value(condition)?;
                    self.compute(into, Computation::Join { is_and, from });
                }
                false => self.blend(into, condition)?,
            }
            if at + 1 < list.len() {
                let undecided = if is_and { Truth::NotFalse } else { Truth::NotTrue };
                narrowed.push(self.narrow(Operand::Register(into), undecided));
            }
        }
        narrowed.into_iter().rev().for_each(|n| self.widen(n));
        Some(Operand::Register(into))
    }

    /// A register whose value depends on which steps come to be run.
    fn begin(&mut self, wanted: Option<u32>) -> u32 {
        let into = self.register_for(wanted);
        // For one row each way through the steps writes it.
        if self.kind == ProgramKind::ManyRows {
            self.compute(into, Computation::Begin(None));
        }
        into
    }
    /// Puts the value into a register for the present rows.
    fn blend(&mut self, into: u32, e: &CExpr) -> Option<()> {
        let wanted = self.wanted_for(into);
        let from = self.value_in(e, wanted)?;
        self.blend_from(into, from);
        Some(())
    }
    /// For one row what is put into a register is computed in it.
    fn wanted_for(&self, into: u32) -> Option<u32> {
        (self.kind == ProgramKind::OneRow).then_some(into)
    }
    fn blend_from(&mut self, into: u32, from: Operand) {
        if from != Operand::Register(into) {
            self.compute(into, Computation::Blend(from));
        }
    }

    /// `x op ANY (elements)`, or ALL: one comparison after the other, as OR and AND have them, but each for all rows. That is
    /// faster than to find out which rows are left; where a comparison fails for a row that was not left, so does the program,
    /// in whose place rows are evaluated one by one.
    fn any_of(&mut self, call: ScalarCall, any: bool, x: &CExpr, elements: &[CExpr]) -> Option<Operand> {
        let x = self.value(x)?;
        let elements = self.values(elements)?;
        let into = self.register();
        self.compute(into, Computation::Begin(Some(!any)));
        for element in elements.as_slice().iter().copied() {
            let operation = Operation::Scalar(call);
            let from = self.call(operation, Operands::Two([x, element]), None)?;
            self.compute(into, Computation::Join { is_and: !any, from });
        }
        Some(Operand::Register(into))
    }

    fn case(
        &mut self,
        arg: Option<&CExpr>,
        (whens, otherwise): (&[(CExpr, CExpr)], &CExpr),
        wanted: Option<u32>,
    ) -> Option<Operand> {
        let compared = match arg {
            Some(arg) => Some(self.value(arg)?),
            None => None,
        };
        let into = self.begin(wanted);
        let mut narrowed = Vec::new();
        for (when, then) in whens {
            self.case_args.extend(compared);
            let by = self.value(when);
            if compared.is_some() {
                self.case_args.pop();
            }
            let by = by?;
            let chosen = self.narrow(by, Truth::True);
            self.blend(into, then)?;
            self.widen(chosen);
            narrowed.push(self.narrow(by, Truth::NotTrue));
        }
        self.blend(into, otherwise)?;
        narrowed.into_iter().rev().for_each(|n| self.widen(n));
        Some(Operand::Register(into))
    }

    fn coalesce(&mut self, list: &[CExpr], wanted: Option<u32>) -> Option<Operand> {
        let into = self.begin(wanted);
        let mut narrowed = Vec::new();
        for (i, e) in list.iter().enumerate() {
            self.blend(into, e)?;
            if i + 1 < list.len() {
                narrowed.push(self.narrow(Operand::Register(into), Truth::Null));
            }
        }
        narrowed.into_iter().rev().for_each(|n| self.widen(n));
        Some(Operand::Register(into))
    }

    /// The first pair of values that differ decides; those behind it are not computed.
    fn row_comparison(&mut self, compared: &RowComparison, wanted: Option<u32>) -> Option<Operand> {
        let into = self.begin(wanted);
        let (mut narrowed, count) = (Vec::new(), compared.types.len());
        for (at, ((l, r), ty)) in compared.left.iter().zip(&compared.right).zip(&compared.types).enumerate() {
            let args = self.values([l, r])?;
            // Integers are compared as they are, other values by the number that says how they are ordered.
            let args = match *ty {
                oids::INT2 | oids::INT4 | oids::INT8 => args,
                _ => {
                    let order = self.call(Operation::Order { ty: *ty }, args, None)?;
                    Operands::Two([order, self.constant(ConstantSource::Value(Datum::Int4(0)))?])
                }
            };
            let wanted = self.wanted_for(into);
            let decided = self.call(Operation::CompareInt(int_op(compared.kind)), args.clone(), wanted)?;
            self.blend_from(into, decided);
            if at + 1 < count {
                let is_equal = self.call(Operation::CompareInt(IntOp::Eq), args, None)?;
                narrowed.push(self.narrow(is_equal, Truth::True));
            }
        }
        narrowed.into_iter().rev().for_each(|n| self.widen(n));
        Some(Operand::Register(into))
    }

    /// A part of a value; of NULL there is none, and its subscripts are not computed.
    fn subscript(
        &mut self,
        operation: Operation,
        (whole, subs): (&CExpr, &[CSubscript]),
        wanted: Option<u32>,
    ) -> Option<Operand> {
        let whole = self.value(whole)?;
        let into = self.register_for(wanted);
        self.compute(into, Computation::Begin(None));
        let is_there = self.step(None, Computation::IsNull { arg: whole, negated: true })?;
        let narrowed = self.narrow(is_there, Truth::True);
        let mut args = vec![whole];
        for e in subs.iter().flat_map(|s| s.lower.iter().chain(&s.upper)) {
            args.push(self.value(e)?);
        }
        let from = self.call(operation, args.into_iter().collect(), None)?;
        self.blend_from(into, from);
        self.widen(narrowed);
        Some(Operand::Register(into))
    }

    /// A value that has to meet a domain's conditions.
    fn domain(
        &mut self,
        (name, not_null): (&Arc<str>, bool),
        checks: &[(String, CExpr)],
        arg: &CExpr,
    ) -> Option<Operand> {
        let mut value = self.value(arg)?;
        if not_null {
            value = self.call(Operation::DomainNotNull { name: name.clone() }, Operands::One(value), None)?;
        }
        let outside = self.checked.replace(value);
        for (check, condition) in checks {
            let met = self.value(condition);
            let check = Operation::DomainCheck(Box::new(DomainCheck { domain: name.clone(), check: check.clone() }));
            if met.and_then(|met| self.call(check, Operands::One(met), None)).is_none() {
                self.checked = outside;
                return None;
            }
        }
        self.checked = outside;
        Some(value)
    }
}

/// No program has so many registers, constants or columns that it would matter.
fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// See [`Program::written_last`].
fn written_last(steps: &[Step], registers: u32, results: &[Operand]) -> Option<u32> {
    let last = registers.checked_sub(1)?;
    let is_result = matches!(results, [Operand::Register(at) | Operand::Taken(at)] if *at == last);
    let is_alone = match steps.last() {
        Some(Step::Compute { into, what }) => *into == last && !goes_on(what),
        _ => false,
    };
    (is_result && is_alone).then_some(last)
}

/// Does a register get what other steps have made, or will make?
fn goes_on(what: &Computation) -> bool {
    matches!(what, Computation::Begin(_) | Computation::Join { .. } | Computation::Blend(_))
}

/// Makes one step of a value and of the step behind it that narrows by it, if nothing else reads it.
fn decide_at_once(steps: Vec<Step>) -> Vec<Step> {
    let target = |step: &Step| match step {
        Step::Narrow { if_none, .. } => Some(*if_none as usize),
        _ => None,
    };
    let targets: Vec<usize> = steps.iter().filter_map(target).collect();
    let mut made: Vec<Step> = Vec::with_capacity(steps.len());
    // For each step where it is now.
    let mut moved = Vec::with_capacity(steps.len() + 1);
    for (at, step) in steps.into_iter().enumerate() {
        moved.push(narrow(made.len()));
        let step = match (step, made.pop()) {
            (Step::Narrow { by: Operand::Taken(read), to, if_none }, Some(Step::Compute { into, what }))
                if into == read && !goes_on(&what) && !targets.contains(&at) =>
            {
                Step::Decide { what, to, if_none }
            }
            (step, before) => {
                made.extend(before);
                step
            }
        };
        made.push(step);
    }
    moved.push(narrow(made.len()));
    for step in &mut made {
        if let Step::Narrow { if_none, .. } | Step::Decide { if_none, .. } = step {
            *if_none = moved.get(*if_none as usize).copied().unwrap_or(u32::MAX);
        }
    }
    made
}

/// Marks the reading of registers that are read once: it may take the value away.
fn take_last_reads(steps: &mut [Step], results: &mut [Operand]) {
    let mut reads: Vec<u32> = Vec::new();
    let mut count = |operand: &mut Operand| {
        if let Operand::Register(register) = operand {
            let register = *register as usize;
            if reads.len() <= register {
                reads.resize(register + 1, 0);
            }
            reads[register] += 1;
        }
    };
    steps.iter_mut().for_each(|step| for_operands(step, &mut count));
    results.iter_mut().for_each(&mut count);
    let mut take = |operand: &mut Operand| {
        if let Operand::Register(register) = *operand
            && reads.get(register as usize) == Some(&1)
        {
            *operand = Operand::Taken(register);
        }
    };
    steps.iter_mut().for_each(|step| for_operands(step, &mut take));
    // Nothing is read behind a result.
    for result in results {
        if let Operand::Register(register) = *result {
            *result = Operand::Taken(register);
        }
    }
}

/// Hands over what a step reads.
fn for_operands(step: &mut Step, f: &mut impl FnMut(&mut Operand)) {
    match step {
        Step::Narrow { by, .. } => f(by),
        Step::Compute { what, .. } | Step::Decide { what, .. } => match what {
            Computation::Call { args, .. } => args.as_mut_slice().iter_mut().for_each(f),
            Computation::Not(arg)
            | Computation::IsNull { arg, .. }
            | Computation::BoolTest { arg, .. }
            | Computation::InSet { arg, .. }
            | Computation::Join { from: arg, .. }
            | Computation::Blend(arg) => f(arg),
            Computation::Once { .. } | Computation::Begin(_) | Computation::SubPlan(_) => {}
        },
        Step::Load { .. } | Step::Widen => {}
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
