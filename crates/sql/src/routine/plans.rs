//! The plans of routines' statements and expressions: made once per state of the catalogs, used for as long as nothing
//! that they depend on has changed.
//!
//! Invariants
//! 1. A plan is used only under the catalog version, search path and formats that it was made for; what has changed
//!    within the session's own transaction is not shared with others.

use super::slot_expression::{ExpressionRoom, SlotExpression, has_constants_of_settings, variable_types};
use super::spi::*;
use super::statement::row_of_plan;
use super::text::{SELECT, UPDATE, in_text};
use crate::client::Runtime;
use crate::context::{MeasuredPlan, SessionContext, note_origin, plan_by};
use crate::plan_guard::{GuardedStatements, StatementGuard};
use crate::session::CacheKey;
use crate::session::plan_choice::ValuePlanCosts;
use kilndb_base::hash::HashMap;
use kilndb_base::sync::{Arc, PoisonError};
use kilndb_base::{Error, Oid, Result};
use kilndb_bind::ir;
use kilndb_bind::variables::Variables;
use kilndb_catalog::cache::PlanDependencies;
use kilndb_exec::integer_program::IntegerProgram;
use kilndb_exec::{Execution, RunState};
use kilndb_plan::expression::Expression;
use kilndb_plan::{Op, Plan};
use kilndb_syntax::Node;
use kilndb_types::Datum;

/// What a plan that sessions share was made for.
#[derive(Clone)]
pub(super) struct SharedPlan {
    pub(super) catalog_version: u64,
    pub(super) path: Arc<[Oid]>,
    pub(super) formats: u64,
    pub(super) plan: Arc<SpiPlan>,
}

/// Read-only.
#[derive(Default)]
pub(super) struct SpiPlan {
    /// None: a command.
    pub(super) plan: Option<Arc<Plan>>,
    /// Of the catalogs that it was made with.
    pub(super) catalog_version: u64,
    pub(super) uses: Vec<Variable>,
    pub(super) simple: Option<Simple>,
    pub(super) quick: Option<IntegerProgram>,
    pub(super) over_slots: Option<SlotExpression>,
    pub(super) row: Option<Arc<TupleDescriptor>>,
    /// Made for the values that the variables had.
    pub(super) is_for_values: bool,
}

/// What a statement's plan is wanted for.
#[derive(Clone, Copy, Default)]
pub(super) struct PlanKind<'a> {
    /// Its rows are to tell where they are, for CURRENT OF.
    pub(super) tells_places: bool,
    /// It is for the values that the variables have now.
    pub(super) for_values: bool,
    pub(super) measured: Option<MeasuredPlan<'a>>,
}

/// An expression without a query around it.
pub(super) struct Simple {
    pub(super) expr: Expression,
    pub(super) type_oid: Oid,
    pub(super) typmod: i32,
    /// It needs neither session nor catalogs; it may ask for the time.
    pub(super) is_of_moment: bool,
}

/// Everything that a session's plans depend on; when it moves, they are looked at again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Epoch {
    catalog_version: u64,
    settings: u64,
    temporary: u64,
    /// Changes of the catalogs within the session's own transaction.
    own: u64,
    role: Oid,
}

/// A plan as a session has it.
pub(super) struct CachedPlan {
    pub(super) epoch: Epoch,
    pub(super) plan: Arc<SpiPlan>,
    pub(super) value_plans: ValuePlanCosts,
    /// With plan_guard, of a statement that reads tables.
    pub(super) guard: Option<Arc<StatementGuard>>,
    /// Room for evaluating it.
    pub(super) run: Option<Box<RunState>>,
    /// An execution that has ended, to be run again.
    pub(super) execution: Option<Box<Execution>>,
}

impl CachedPlan {
    fn new(epoch: Epoch, plan: Arc<SpiPlan>) -> CachedPlan {
        CachedPlan { epoch, plan, value_plans: ValuePlanCosts::default(), guard: None, run: None, execution: None }
    }
}

/// The plans that a session's routines have used.
#[derive(Default)]
pub(crate) struct RoutinePlans {
    pub(super) statements: HashMap<u64, CachedPlan>,
    /// Assignment conversions by types and type modifier.
    pub(super) conversions: HashMap<(Oid, Oid, i32), CachedPlan>,
    pub(super) guards: Arc<GuardedStatements>,
    pub(super) room: ExpressionRoom,
}

/// A session that has used more begins anew.
const PLANS_MAX: usize = 16_384;

/// The only column of a query that is nothing but an expression.
fn only_expression(q: &ir::Query) -> Option<&ir::Expr> {
    let plain = matches!(q.body, ir::QueryBody::Select)
        && q.rels.is_empty()
        && q.from.is_empty()
        && q.ctes.is_empty()
        && q.filter.is_none();
    let single = q.group_by.is_empty()
        && q.grouping_sets.is_none()
        && q.having.is_none()
        && !q.has_aggs
        && q.windows.is_empty()
        && !q.has_srf;
    let whole = q.order_by.is_empty()
        && matches!(q.distinct, ir::Distinct::No)
        && q.limit.is_none()
        && q.offset.is_none()
        && q.locks.is_empty();
    match q.targets.as_slice() {
        [only] if plain && single && whole && !only.junk && !only.expr.has_sublink() => Some(&only.expr),
        _ => None,
    }
}

/// `kind`: of the expression, if the query is nothing else.
fn simple_of(plan: &Plan, kind: Option<(bool, Oid, i32)>) -> Option<Simple> {
    if !plan.access.functions.is_empty() {
        // Whether the role in force may call them is asked where plans are started.
        return None;
    }
    match (&plan.root.op, kind) {
        (Op::Project { input, exprs, .. }, Some((is_of_moment, type_oid, typmod)))
            if matches!(input.op, Op::Result { filter: None }) && exprs.len() == 1 && plan.subplans.is_empty() =>
        {
            Some(Simple { expr: exprs[0].clone(), type_oid, typmod, is_of_moment })
        }
        _ => None,
    }
}

impl RoutinePlans {
    fn epoch(context: &SessionContext) -> Epoch {
        Epoch {
            catalog_version: context.database.version(),
            settings: context.settings.generation,
            temporary: context.shared.temporary.generation(),
            own: context.catalogs.own_changes,
            role: context.identity.current_role,
        }
    }

    pub(super) fn make_plan(
        prepared: &SpiPrepared,
        scope: &dyn VariableScope,
        kind: PlanKind<'_>,
        context: &mut SessionContext,
        runtime: &dyn Runtime,
    ) -> Result<Arc<SpiPlan>> {
        if !prepared.is_plannable() {
            return Ok(Arc::default());
        }
        context.plan_or_lock(runtime, |context, asked| {
            Self::make_plan_at_once(prepared, scope, (kind, asked), context, runtime)
        })
    }

    /// One attempt, with the definitions as they are now.
    fn make_plan_at_once(
        prepared: &SpiPrepared,
        scope: &dyn VariableScope,
        (wanted, asked): (PlanKind<'_>, &PlanDependencies),
        context: &mut SessionContext,
        runtime: &dyn Runtime,
    ) -> Result<Arc<SpiPlan>> {
        let catalog_version = context.database.version();
        let environment = context.environment(runtime)?;
        let mut host = environment.host();
        plan_by(&mut host.reader, asked, wanted.measured);
        let variables = Variables::new(scope);
        let (node, source) = (prepared.statement.node(), prepared.statement.source().clone());
        let before = match prepared.mode {
            ParseMode::Statement => "",
            ParseMode::Expression => SELECT,
            ParseMode::Assignment { .. } => UPDATE,
        };
        let in_own_text = |e| in_text(e, &prepared.text, before);
        let eval = kilndb_types::EvalContext { clock_was_read: Some(&asked.reads_moment), ..host.eval() };
        let bound = match (prepared.mode, node) {
            (ParseMode::Assignment { names }, Node::UpdateStmt(u)) => match u.target_list().iter().next() {
                Some(target) => kilndb_bind::bind_assignment(
                    target,
                    usize::from(names),
                    source,
                    &host.reader,
                    &variables,
                    Some(&eval),
                ),
                None => Err(Error::internal("an assignment without a target")),
            },
            _ => kilndb_bind::bind_with_variables(node, source, &host.reader, &variables, Some(&eval)),
        };
        let mut bound = bound.map_err(in_own_text)?;
        if wanted.for_values {
            let used = variables.used();
            bound =
                kilndb_bind::with_values(bound, &|n| used.get(n as usize).map(|v| scope.checked_value(v)).transpose())?;
        }
        let places = if wanted.tells_places { kilndb_bind::current_of::add_places(&mut bound) } else { Vec::new() };
        let expression = match &bound {
            ir::BoundStatement::Query(q) => only_expression(q),
            _ => None,
        };
        let kind = expression.map(|e| (e.is_of_moment(), e.ty, e.typmod));
        let is_timeless = expression.is_some_and(|e| e.is_self_contained());
        let types = expression.map(|e| variable_types(e, &variables.used()));
        let of_settings = expression.is_some_and(has_constants_of_settings);
        let plan = context
            .shared
            .scratch
            .without_notices(|| kilndb_plan::plan(bound, Vec::new(), &host.reader, &context.cluster.engine, &eval));
        let mut plan = plan.map_err(in_own_text)?;
        if let Some(plan) = Arc::get_mut(&mut plan) {
            note_origin(plan, asked, places, wanted.measured);
        }
        let uses = variables.into_used();
        let simple = simple_of(&plan, kind);
        let over_slots = simple
            .as_ref()
            .filter(|s| s.is_of_moment && is_timeless && !of_settings)
            .and_then(|s| SlotExpression::of(s, &uses, &plan));
        let quick = over_slots.as_ref().zip(types).and_then(|(program, types)| program.of_integers(&types));
        let row = row_of_plan(&plan);
        let is_for_values = wanted.for_values;
        Ok(Arc::new(SpiPlan { plan: Some(plan), catalog_version, uses, simple, quick, over_slots, row, is_for_values }))
    }

    /// The plan as things are now.
    pub(super) fn plan(
        &mut self,
        context: &mut SessionContext,
        prepared: &SpiPrepared,
        scope: &dyn VariableScope,
        runtime: &dyn Runtime,
    ) -> Result<Arc<SpiPlan>> {
        let epoch = Self::epoch(context);
        if let Some(known) = self.statements.get(&prepared.id)
            && known.epoch == epoch
            && context.database.is_current(epoch.catalog_version)
            && known.plan.plan.as_ref().is_none_or(|plan| context.fits_role(plan))
        {
            return Ok(known.plan.clone());
        }
        let shared = prepared.shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let may_use = shared.filter(|s| {
            !context.catalogs.has_ddl
                && context.database.is_current(s.catalog_version)
                && s.formats == context.settings.format_fingerprint
                && context.path_is(&s.path)
                && s.plan.plan.as_ref().is_none_or(|plan| context.fits_temporary(plan, 0) && context.fits_role(plan))
                && (!context.settings.plan_guard || s.plan.plan.as_ref().is_none_or(|plan| plan.measured.is_some()))
        });
        let guard;
        let plan = match may_use {
            Some(s) => {
                guard = self.guard_of(prepared, &s.plan, context);
                s.plan
            }
            None => {
                let measured = context.settings.plan_guard.then(Arc::default);
                let measured = measured.as_ref().map(|measured| MeasuredPlan { measured, former: None });
                let kind = PlanKind { measured, ..PlanKind::default() };
                let mut plan = Self::make_plan(prepared, scope, kind, context, runtime)?;
                guard = self.guard_of(prepared, &plan, context);
                if let (Some(guard), Some(SpiPlan { plan: Some(plan), catalog_version, .. })) =
                    (&guard, Arc::get_mut(&mut plan))
                {
                    guard.watch(plan, *catalog_version, context);
                }
                if !context.catalogs.has_ddl && plan.plan.as_ref().is_none_or(|p| !p.is_private && !p.reads_moment) {
                    let shared = SharedPlan {
                        catalog_version: epoch.catalog_version,
                        path: context.search_path(),
                        formats: context.settings.format_fingerprint,
                        plan: plan.clone(),
                    };
                    *prepared.shared.lock().unwrap_or_else(PoisonError::into_inner) = Some(shared);
                }
                plan
            }
        };
        if self.statements.len() >= PLANS_MAX {
            self.statements.clear();
        }
        self.statements.insert(prepared.id, CachedPlan { guard, ..CachedPlan::new(epoch, plan.clone()) });
        Ok(plan)
    }

    /// With plan_guard, who watches the plans of a statement that reads tables.
    fn guard_of(
        &self,
        prepared: &SpiPrepared,
        planned: &SpiPlan,
        context: &SessionContext,
    ) -> Option<Arc<StatementGuard>> {
        let plan = planned.plan.as_ref().filter(|_| context.settings.plan_guard && planned.simple.is_none())?;
        if plan.measured.is_none() || !plan.may_be_guarded() {
            return None;
        }
        let types: Vec<Oid> = planned.uses.iter().map(|variable| variable.type_oid).collect();
        self.guards.of(CacheKey::of(prepared.text(), &types, context)?)
    }

    /// [`Simple`] expressions that need neither session nor catalogs.
    pub(super) fn evaluate_quickly(
        &mut self,
        context: &SessionContext,
        prepared: &SpiPrepared,
        scope: &dyn VariableScope,
        runtime: &dyn Runtime,
    ) -> Option<Result<(Datum, Oid, i32)>> {
        let known = self.statements.get_mut(&prepared.id)?;
        Self::quickly(context, known, &mut self.room, runtime, |uses, params| {
            for v in uses {
                params.push(scope.checked_value(v)?);
            }
            Ok(())
        })
    }

    /// As [`Session::evaluate_quickly`], of a conversion.
    pub(super) fn convert_quickly(
        &mut self,
        context: &SessionContext,
        value: &Datum,
        key: (Oid, Oid, i32),
        runtime: &dyn Runtime,
    ) -> Option<Result<Datum>> {
        let done = self.conversions.get_mut(&key).and_then(|known| {
            Self::quickly(context, known, &mut self.room, runtime, |_, params| {
                params.push(value.clone());
                Ok(())
            })
        });
        done.map(|done| done.map(|(value, ..)| value))
    }

    /// The plan of an assignment conversion; None: it goes through the text form.
    pub(super) fn conversion(
        &mut self,
        context: &mut SessionContext,
        key: (Oid, Oid, i32),
        runtime: &dyn Runtime,
    ) -> Result<Option<Arc<Plan>>> {
        let epoch = Self::epoch(context);
        if let Some(known) = self.conversions.get(&key).filter(|k| k.epoch == epoch) {
            return Ok(known.plan.plan.clone());
        }
        let (from, to, typmod) = key;
        let environment = context.environment(runtime)?;
        let host = environment.host();
        let bound = kilndb_bind::bind_conversion(from, to, typmod, &host.reader)?;
        let planned = match bound {
            Some((query, is_self_contained)) => {
                let plan = kilndb_plan::plan(
                    ir::BoundStatement::Query(ir::SharedQuery::new(query)),
                    vec![from],
                    &host.reader,
                    &context.cluster.engine,
                    &host.eval(),
                )?;
                let simple = simple_of(&plan, Some((is_self_contained, to, typmod)));
                SpiPlan { plan: Some(plan), simple, ..SpiPlan::default() }
            }
            None => SpiPlan::default(),
        };
        let plan = planned.plan.clone();
        self.conversions.insert(key, CachedPlan::new(epoch, Arc::new(planned)));
        Ok(plan)
    }

    /// None: it must take the long way.
    fn quickly(
        context: &SessionContext,
        known: &mut CachedPlan,
        room: &mut ExpressionRoom,
        runtime: &dyn Runtime,
        fill: impl FnOnce(&[Variable], &mut Vec<Datum>) -> Result<()>,
    ) -> Option<Result<(Datum, Oid, i32)>> {
        let simple = known.plan.simple.as_ref().filter(|s| s.is_of_moment)?;
        let epoch = Self::epoch(context);
        if known.epoch != epoch || !context.database.is_current(epoch.catalog_version) {
            return None;
        }
        let run = match &mut known.run {
            Some(run) => run,
            none => none.insert(Box::new(RunState::new(known.plan.plan.clone()?, &[]))),
        };
        run.params.clear();
        if let Err(e) = fill(&known.plan.uses, &mut run.params) {
            return Some(Err(e));
        }
        run.once.iter_mut().for_each(|o| *o = None);
        let done = room.evaluate_in(&simple.expr, &[], run, context, runtime);
        Some(done.map(|value| (value, simple.type_oid, simple.typmod)))
    }
}
