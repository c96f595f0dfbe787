//! Expressions over the slots of a routine's variables: SQL's own expression programs, run where the variables are,
//! without a plan, a snapshot or a list of parameters.
//!
//! Invariants
//! 1. An expression in here depends on nothing but its variables and the settings of formats: on no catalog, session or
//!    clock, and on no setting at the time it was made. So it means the same for as long as its variables' types do.
//! 2. Programs evaluated in an [`ExpressionRoom`] call no routine: it is never in use twice.

use super::plans::Simple;
use super::spi::Variable;
use crate::client::Runtime;
use crate::context::SessionContext;
use kilndb_base::sync::Arc;
use kilndb_base::{Oid, Result};
use kilndb_bind::ir::{self, ExprKind};
use kilndb_exec::expr::Evaluate;
use kilndb_exec::integer_program::IntegerProgram;
use kilndb_exec::no_session::NoSession;
use kilndb_exec::stats::Usage;
use kilndb_exec::{ExecContext, PendingChecks, RunState, SnapshotSlot, TransactionSlot};
use kilndb_plan::Plan;
use kilndb_plan::expression::Expression;
use kilndb_types::context::{NoHost, is_self_contained};
use kilndb_types::{Datum, EvalContext};

/// An expression program over the slots of variables, and the type of its value.
#[derive(Clone)]
pub struct SlotExpression {
    program: Expression,
    type_oid: Oid,
    typmod: i32,
    variables: Box<[Variable]>,
    /// What the program was made for.
    plan: Arc<Plan>,
}

/// Text of a constant that was read with the session's settings may mean something else in another session.
pub(super) fn has_constants_of_settings(e: &ir::Expr) -> bool {
    e.any(&|e| matches!(e.kind, ExprKind::Const(_)) && !is_self_contained(e.ty))
}

/// The variables that an expression uses, each with the type that it is used as.
pub(super) fn variable_types(e: &ir::Expr, uses: &[Variable]) -> Vec<(u32, Oid)> {
    let mut types = Vec::new();
    add_variable_types(e, uses, &mut types);
    types
}

fn add_variable_types(e: &ir::Expr, uses: &[Variable], types: &mut Vec<(u32, Oid)>) {
    if let ExprKind::Param(n) = e.kind
        && let Some(variable) = uses.get(n as usize)
        && !types.contains(&(variable.number, e.ty))
    {
        types.push((variable.number, e.ty));
    }
    e.for_children(&mut |child| add_variable_types(child, uses, types));
}

impl SlotExpression {
    /// None: it takes more than values. `uses`: the variables that parameters stand for. The expression must be
    /// self-contained.
    pub(super) fn of(simple: &Simple, uses: &[Variable], plan: &Arc<Plan>) -> Option<SlotExpression> {
        let slots: Vec<usize> = uses.iter().map(|variable| variable.number as usize).collect();
        let program = simple.expr.over_slots(&slots)?.into();
        let Simple { type_oid, typmod, .. } = *simple;
        Some(SlotExpression { program, type_oid, typmod, variables: uses.into(), plan: plan.clone() })
    }
    /// The same where it takes nothing but integers and truth values: then it needs no room to be evaluated in. `types`: those of
    /// the variables.
    pub(super) fn of_integers(&self, types: &[(u32, Oid)]) -> Option<IntegerProgram> {
        IntegerProgram::of(&self.program, self.type_oid, types)
    }
    pub fn type_oid(&self) -> Oid {
        self.type_oid
    }
    pub fn typmod(&self) -> i32 {
        self.typmod
    }
    /// The variables whose slots must have their values.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }
}

/// What a session keeps for evaluating expressions that need no statement around them.
#[derive(Default)]
pub(super) struct ExpressionRoom {
    /// Of programs over slots.
    run: Option<Box<RunState>>,
    pending: PendingChecks,
    usage: Usage,
}

impl ExpressionRoom {
    /// The value of an expression over slots.
    #[inline(always)]
    pub(super) fn evaluate(
        &mut self,
        expression: &SlotExpression,
        slots: &[Datum],
        context: &SessionContext,
        runtime: &dyn Runtime,
    ) -> Result<Datum> {
        let mut run = match self.run.take() {
            Some(run) => run,
            None => Box::new(RunState::new(expression.plan.clone(), &[])),
        };
        let done = self.evaluate_in(&expression.program, slots, &mut run, context, runtime);
        self.run = Some(run);
        done
    }

    /// The value of a program that needs neither session nor catalogs.
    // A call of its own would pass so many arguments through memory that they took as long as a small program.
    #[inline(always)]
    pub(super) fn evaluate_in(
        &mut self,
        program: &Expression,
        row: &[Datum],
        run: &mut RunState,
        context: &SessionContext,
        runtime: &dyn Runtime,
    ) -> Result<Datum> {
        let mut cx = ExecContext {
            engine: &context.cluster.engine,
            txn: &mut TransactionSlot::empty(),
            snapshot: SnapshotSlot::empty(),
            park: runtime,
            eval: EvalContext {
                format: &context.settings.format,
                transaction_timestamp: context.transaction.transaction_timestamp,
                statement_timestamp: context.transaction.statement_timestamp,
                host: &NoHost,
                random_state: &context.shared.scratch.random_state,
                clock_was_read: None,
            },
            catalog: &NoSession,
            session: &NoSession,
            work_mem_bytes: 0,
            hash_mem_bytes: 0,
            temp: &context.database.temp,
            source: None,
            pending: &mut self.pending,
            helpers: None,
            usage: &mut self.usage,
            routines: None,
        };
        program.eval(row, run, &mut cx)
    }
}
