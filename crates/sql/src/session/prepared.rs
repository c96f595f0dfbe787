//! Prepared statements: parsed once, planned once per catalog version, shared between sessions.

use super::command::{is_plannable, may_run_when_failed};
use super::plan_choice::{ValuePlanCosts, may_prefer_values};
use crate::client::Runtime;
use crate::context::{Explained, MeasuredPlan, PlanRequest, SessionContext};
use crate::plan_guard::{FormerPlan, GuardedStatements, StatementGuard};
use kilndb_base::hash::HashMap;
use kilndb_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use kilndb_base::sync::{Arc, Mutex, OnceLock};
use kilndb_base::{Error, Oid, Result};
use kilndb_plan::Plan;
use kilndb_plan::node::OutputColumn;
use kilndb_syntax::Statement;
use kilndb_types::Datum;
use std::hash::BuildHasher;

/// A named or unnamed statement. Without a statement it is the empty query.
pub(crate) struct Prepared {
    pub sql: Arc<str>,
    pub statement: Option<Statement>,
    pub param_types: Vec<Oid>,
    /// SQL-level PREPARE.
    pub from_sql: bool,
    pub prepare_time: i64,
    /// Bound and planned, rather than a utility command.
    pub is_plannable: bool,
    pub may_run_when_failed: bool,
    /// The rows of its plan tell where they are: a cursor's.
    tells_places: bool,
    /// What its rows have, which stays so while the statement has its name. None: it gives no rows.
    pub columns: Option<Arc<[OutputColumn]>>,
    planned: Mutex<Option<Planned>>,
    /// With plan_guard, once it has run.
    guard: OnceLock<Arc<StatementGuard>>,
    /// Other sessions may have it too.
    is_shared: AtomicBool,
    /// No other one has this number, nor will have it.
    pub number: u64,
}

/// The number that the next statement gets.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

#[derive(Clone)]
struct Planned {
    catalog_version: u64,
    path: Arc<[Oid]>,
    /// Of the temporary objects, for a plan that uses any.
    generation: u64,
    /// For all values of the parameters.
    plan: Arc<Plan>,
    value_plans: ValuePlanCosts,
}

/// The plan that an execution takes.
pub(crate) struct ChosenPlan {
    pub plan: Arc<Plan>,
    /// It was made for the values of this execution.
    pub is_for_values: bool,
}

/// Prepared statements by text, shared by all sessions: parsing, binding and planning happen once per text and catalog
/// version. What else a plan depends on (search_path, formats that literals were read with) is part of the key.
#[derive(Default)]
pub(crate) struct StatementCache {
    shards: [Mutex<HashMap<CacheKey, Arc<Prepared>>>; 16],
    hasher: kilndb_base::hash::HashState,
}

#[derive(PartialEq, Eq, Hash, Clone)]
pub(crate) struct CacheKey {
    pub database: Oid,
    /// Parameter types are inferred from the catalogs of this version.
    catalog_version: u64,
    pub sql: Arc<str>,
    declared_types: Vec<Oid>,
    path: Arc<[Oid]>,
    /// DateStyle, IntervalStyle, TimeZone and the like.
    formats: u64,
}

/// Texts per shard; a full shard starts anew.
const CACHED_STATEMENTS_PER_SHARD: usize = 512;
/// Longer texts are not worth keeping.
const CACHED_STATEMENT_BYTES: usize = 16 * 1024;

impl CacheKey {
    /// The key under which a text's prepared statement may be shared; None: it may not.
    pub fn of(sql: &str, declared_types: &[Oid], context: &SessionContext) -> Option<CacheKey> {
        if context.catalogs.has_ddl || sql.len() > CACHED_STATEMENT_BYTES || !context.is_path_current() {
            return None;
        }
        Some(CacheKey {
            database: context.database.oid,
            catalog_version: context.database.version(),
            sql: Arc::from(sql),
            declared_types: declared_types.to_vec(),
            path: context.search_path(),
            formats: context.settings.format_fingerprint,
        })
    }
}

impl CacheKey {
    /// The same text, whatever has become of the catalogs.
    pub fn of_any_version(self) -> CacheKey {
        CacheKey { catalog_version: 0, ..self }
    }
}

impl StatementCache {
    fn shard(&self, key: &CacheKey) -> &Mutex<HashMap<CacheKey, Arc<Prepared>>> {
        &self.shards[(self.hasher.hash_one(&key.sql) % 16) as usize]
    }
    pub fn get(&self, key: &CacheKey) -> Option<Arc<Prepared>> {
        self.shard(key).lock().unwrap_or_else(|e| e.into_inner()).get(key).cloned()
    }
    /// Other sessions may have it too, if it is fit for that.
    pub fn share(&self, key: Option<CacheKey>, prepared: &Arc<Prepared>, context: &SessionContext) {
        if let Some(key) = key
            && !context.catalogs.has_ddl
            && context.catalogs.path.schemas == key.path
            && prepared.is_plannable
            && prepared.may_be_shared()
        {
            prepared.is_shared.store(true, Ordering::Relaxed);
            self.put(key, prepared.clone());
        }
    }
    fn put(&self, key: CacheKey, prepared: Arc<Prepared>) {
        let mut shard = self.shard(&key).lock().unwrap_or_else(|e| e.into_inner());
        if shard.len() >= CACHED_STATEMENTS_PER_SHARD {
            shard.clear();
        }
        shard.insert(key, prepared);
    }
}

/// None for a plan that gives no rows, not even empty ones.
pub(crate) fn row_columns(plan: &Plan) -> Option<&[OutputColumn]> {
    (!plan.columns.is_empty() || plan.command == "SELECT").then_some(&plan.columns)
}

/// What makes rows of another type of them.
fn row_type(column: &OutputColumn) -> (&str, Oid, i32) {
    (&column.name, column.type_oid, column.typmod)
}

impl Prepared {
    /// Not planned yet.
    pub(super) fn new(sql: &str, statement: Option<Statement>, declared_types: &[Oid], now: i64) -> Prepared {
        Prepared {
            sql: Arc::from(sql),
            is_plannable: statement.as_ref().is_some_and(|s| is_plannable(&s.node())),
            may_run_when_failed: statement.as_ref().is_none_or(|s| may_run_when_failed(&s.node())),
            statement,
            param_types: declared_types.to_vec(),
            from_sql: false,
            prepare_time: now,
            tells_places: false,
            columns: None,
            planned: Mutex::new(None),
            guard: OnceLock::new(),
            is_shared: AtomicBool::new(false),
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
        }
    }
    /// SQL-level PREPARE.
    pub(super) fn of_command(sql: &str, statement: Option<Statement>, declared_types: &[Oid], now: i64) -> Prepared {
        Prepared { from_sql: true, ..Prepared::new(sql, statement, declared_types, now) }
    }
    /// The query of a cursor.
    pub(super) fn of_cursor(sql: &str, query: Statement, declared_types: &[Oid], now: i64) -> Prepared {
        Prepared { from_sql: true, tells_places: true, ..Prepared::new(sql, Some(query), declared_types, now) }
    }
    /// What a cursor of a routine shows.
    pub(super) fn of_text(sql: &str, now: i64) -> Prepared {
        Prepared {
            from_sql: true,
            is_plannable: true,
            may_run_when_failed: false,
            ..Prepared::new(sql, None, &[], now)
        }
    }

    fn request<'a>(&'a self, statement: &'a Statement) -> PlanRequest<'a> {
        PlanRequest {
            declared_types: &self.param_types,
            tells_places: self.tells_places,
            ..PlanRequest::of(statement.node(), statement.source())
        }
    }
    fn statement(&self) -> Result<Statement> {
        self.statement.clone().ok_or_else(|| Error::internal("an empty statement has no plan"))
    }

    /// Plans it for the first time: errors show at PREPARE.
    pub(super) fn planned_in(mut self, context: &mut SessionContext, runtime: &dyn Runtime) -> Result<Prepared> {
        let statement = self.statement()?;
        let catalog_version = context.database.version();
        let plan = context.plan_with(&self.request(&statement), runtime)?;
        self.param_types = plan.param_types.clone();
        self.columns = row_columns(&plan).map(Arc::from);
        self.remember(plan, catalog_version, context);
        Ok(self)
    }

    /// With plan_guard its plans are watched from now on.
    pub(super) fn watch(&self, guards: &GuardedStatements, context: &SessionContext) {
        if context.settings.plan_guard
            && self.is_plannable
            && self.guard.get().is_none()
            && let Some(key) = CacheKey::of(&self.sql, &self.param_types, context)
            && let Some(guard) = guards.of(key)
        {
            // Another session may have been quicker.
            let _ = self.guard.set(guard);
        }
    }
    fn guard_in(&self, context: &SessionContext) -> Option<&Arc<StatementGuard>> {
        self.guard.get().filter(|_| context.settings.plan_guard && !context.catalogs.has_ddl)
    }

    /// The plan for an execution with these values of the parameters.
    pub(crate) fn plan_for(
        &self,
        values: &[Datum],
        context: &mut SessionContext,
        runtime: &dyn Runtime,
    ) -> Result<ChosenPlan> {
        let generic = self.plan_in(context, runtime)?;
        let former = self.guard_in(context).and_then(|guard| guard.former(context));
        if let Some(former) = former {
            return self.former_plan_for(former, values, context, runtime);
        }
        if !self.prefers_values(&generic, context) {
            return Ok(ChosenPlan { plan: generic, is_for_values: false });
        }
        let measured = generic.measured.as_ref().map(|measured| MeasuredPlan { measured, former: None });
        let plan = self.plan_values(values, measured, context, runtime)?;
        let cpu_operator_cost = context.settings.switches.costs.cpu_operator;
        if let Some(known) = &mut *self.planned.lock().unwrap_or_else(|e| e.into_inner()) {
            known.value_plans.note(&plan, cpu_operator_cost);
        }
        Ok(ChosenPlan { plan, is_for_values: true })
    }

    fn plan_values(
        &self,
        values: &[Datum],
        measured: Option<MeasuredPlan<'_>>,
        context: &mut SessionContext,
        runtime: &dyn Runtime,
    ) -> Result<Arc<Plan>> {
        let statement = self.statement()?;
        self.plan_again(&PlanRequest { values: Some(values), measured, ..self.request(&statement) }, context, runtime)
    }

    /// The same by statistics as they were.
    fn former_plan_for(
        &self,
        former: FormerPlan,
        values: &[Datum],
        context: &mut SessionContext,
        runtime: &dyn Runtime,
    ) -> Result<ChosenPlan> {
        let FormerPlan { plan: generic, measured, statistics, value_plans } = former;
        if generic.param_types.is_empty() || !value_plans.prefer_values(&generic, context.settings.plan_cache_mode) {
            return Ok(ChosenPlan { plan: generic, is_for_values: false });
        }
        let measured = MeasuredPlan { measured: &measured, former: Some(&statistics) };
        let plan = self.plan_values(values, Some(measured), context, runtime)?;
        if let Some(guard) = self.guard.get() {
            guard.note_former(&plan, context.settings.switches.costs.cpu_operator);
        }
        Ok(ChosenPlan { plan, is_for_values: true })
    }

    fn prefers_values(&self, generic: &Plan, context: &SessionContext) -> bool {
        let mode = context.settings.plan_cache_mode;
        if generic.param_types.is_empty() || !may_prefer_values(generic, mode) {
            return false;
        }
        let known = self.planned.lock().unwrap_or_else(|e| e.into_inner()).as_ref().map(|p| p.value_plans);
        known.unwrap_or_default().prefer_values(generic, mode)
    }

    /// The plan for all values, made anew if the catalogs have changed.
    pub(crate) fn plan_in(&self, context: &mut SessionContext, runtime: &dyn Runtime) -> Result<Arc<Plan>> {
        let guard = self.guard_in(context);
        if let Some(known) = &mut *self.planned.lock().unwrap_or_else(|e| e.into_inner())
            && !context.catalogs.has_ddl
            && let Some(version) =
                context.database.still_fits(known.catalog_version, &known.plan.objects, &known.plan.names)
            && context.path_is(&known.path)
            && context.fits_temporary(&known.plan, known.generation)
            && context.fits_role(&known.plan)
            && (guard.is_none() || known.plan.measured.is_some())
        {
            known.catalog_version = version;
            return Ok(known.plan.clone());
        }
        let statement = self.statement()?;
        let catalog_version = context.database.version();
        let measured = guard.map(|guard| guard.measure_next(context));
        let measured = measured.as_ref().map(|measured| MeasuredPlan { measured, former: None });
        let plan = self.plan_again(&PlanRequest { measured, ..self.request(&statement) }, context, runtime)?;
        if let Some(guard) = guard.filter(|_| plan.may_be_guarded()) {
            guard.adopt(&plan, catalog_version, context);
        }
        self.remember(plan.clone(), catalog_version, context);
        Ok(plan)
    }

    fn plan_again(
        &self,
        request: &PlanRequest<'_>,
        context: &mut SessionContext,
        runtime: &dyn Runtime,
    ) -> Result<Arc<Plan>> {
        let made = context.plan_with(request, runtime).map_err(|mut e| {
            // It would be one in the text of PREPARE; the client looks at that of EXECUTE.
            e.0.position.take_if(|_| self.from_sql);
            e
        });
        let plan = made?;
        self.refuse_other_result(&plan)?;
        Ok(plan)
    }

    /// The plan to be shown; a plan for these very values, if they are given.
    pub(super) fn plan_to_explain(
        &self,
        by: Explained<'_>,
        values: Option<&[Datum]>,
        context: &mut SessionContext,
        runtime: &dyn Runtime,
    ) -> Result<Arc<Plan>> {
        let statement = self.statement()?;
        context.plan_with(&PlanRequest { explained: Some(by), values, ..self.request(&statement) }, runtime)
    }

    /// As [`SessionContext::fits_temporary`], of what another session has prepared. Who may not use the schemas that it
    /// names does not learn what is in them.
    pub(super) fn may_be_taken_in(&self, context: &mut SessionContext) -> bool {
        let Some(plan) = self.plan() else { return false };
        let fits = context.shared.temporary.is_empty() || !plan.is_private && context.fits_temporary(&plan, 0);
        fits && context.fits_role(&plan) && context.may_use_schemas(&plan)
    }

    /// `catalog_version`: as it was before the plan was made.
    fn remember(&self, plan: Arc<Plan>, catalog_version: u64, context: &SessionContext) {
        // What others use too must not hold what is this session's alone.
        let is_for_all = !plan.is_private && !plan.reads_moment || !self.is_shared.load(Ordering::Relaxed);
        if !context.catalogs.has_ddl && is_for_all {
            let (path, generation) = (context.search_path(), context.shared.temporary.generation());
            *self.planned.lock().unwrap_or_else(|e| e.into_inner()) =
                Some(Planned { catalog_version, path, generation, plan, value_plans: ValuePlanCosts::default() });
        }
    }

    fn plan(&self) -> Option<Arc<Plan>> {
        self.planned.lock().unwrap_or_else(|e| e.into_inner()).as_ref().map(|p| p.plan.clone())
    }
    fn may_be_shared(&self) -> bool {
        self.plan().is_some_and(|plan| !plan.is_private && !plan.reads_moment)
    }
    /// None for what has no result.
    pub(crate) fn result_types(&self) -> Option<Vec<Oid>> {
        self.columns.as_ref().map(|columns| columns.iter().map(|c| c.type_oid).collect())
    }
    /// 0A000 for a plan whose rows are not those that the statement was prepared with.
    fn refuse_other_result(&self, plan: &Plan) -> Result<()> {
        let same = match (&self.columns, row_columns(plan)) {
            (Some(before), Some(now)) => before.iter().map(row_type).eq(now.iter().map(row_type)),
            (None, None) => true,
            _ => false,
        };
        if same { Ok(()) } else { Err(Error::unsupported("cached plan must not change result type")) }
    }
}
