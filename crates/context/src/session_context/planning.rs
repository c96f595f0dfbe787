//! Statements become plans, and plans get their locks.

use super::SessionContext;
use crate::client::Runtime;
use kilndb_base::hash::{HashSet, HashSetExt};
use kilndb_base::sync::Arc;
use kilndb_base::{Error, Oid, Result};
use kilndb_bind::engine_query::{EngineQuery, insert_rows};
use kilndb_bind::ir::{BoundStatement, LockStrength};
use kilndb_bind::lifting::Lifting;
use kilndb_bind::variables::VariableScope;
use kilndb_catalog::cache::CatalogReader;
use kilndb_catalog::changes::PlanDependencies;
use kilndb_catalog::column_statistics::FormerStatistics;
use kilndb_catalog::lock_class::RELATION_LOCK;
use kilndb_catalog::privileges::Privileges;
use kilndb_catalog::row_security::PlanRole;
use kilndb_catalog::temporary::is_temporary;
use kilndb_exec::MeasureStart;
use kilndb_plan::Plan;
use kilndb_plan::measured::MeasuredCost;
use kilndb_plan::node::{Op, PlanNode, PlanningReport};
use kilndb_storage::{LockMode, LockTag, WaitPolicy};
use kilndb_syntax::{Node, Statement, nodes};
use kilndb_types::{Datum, EvalContext};

/// EXPLAIN EXECUTE.
#[derive(Clone, Copy)]
pub struct Explained<'a> {
    pub statement: &'a nodes::ExplainStmt,
    pub source: &'a Arc<str>,
}

/// A plan whose executions are measured.
#[derive(Clone, Copy)]
pub struct MeasuredPlan<'a> {
    pub measured: &'a Arc<MeasuredCost>,
    /// Statistics to plan by instead of the present ones.
    pub former: Option<&'a Arc<FormerStatistics>>,
}

/// What a plan is wanted of.
#[derive(Clone, Copy)]
pub struct PlanRequest<'a> {
    pub node: Node<'a>,
    pub source: &'a Arc<str>,
    pub declared_types: &'a [Oid],
    /// Literals become parameters.
    pub lifting: Option<&'a Lifting>,
    pub explained: Option<Explained<'a>>,
    /// The plan is wanted for these values of the parameters alone.
    pub values: Option<&'a [Datum]>,
    pub measured: Option<MeasuredPlan<'a>>,
    /// The rows are to tell where they are, for cursors.
    pub tells_places: bool,
    /// The rows are to be entered in this table.
    pub insert_into: Option<&'a Arc<kilndb_catalog::Table>>,
    /// It is the query of a view that is being made, which no policies concern.
    pub is_definition: bool,
}

impl<'a> PlanRequest<'a> {
    pub fn of(node: Node<'a>, source: &'a Arc<str>) -> PlanRequest<'a> {
        PlanRequest {
            node,
            source,
            declared_types: &[],
            lifting: None,
            explained: None,
            values: None,
            measured: None,
            tells_places: false,
            insert_into: None,
            is_definition: false,
        }
    }
}

impl SessionContext {
    /// Takes the table locks that a plan needs.
    pub fn lock_tables(&mut self, plan: &Plan, runtime: &dyn Runtime) -> Result<()> {
        for (table, mode) in &plan.locks {
            self.lock_table(*table, *mode, WaitPolicy::Wait, runtime)?;
        }
        Ok(())
    }

    /// Takes the table locks of a plan that was made when the catalogs were of `version`. False: what it uses has
    /// changed since, or may have, while this waited: another plan is to be made, with these locks held.
    pub fn lock_plan(&mut self, plan: &Plan, version: u64, runtime: &dyn Runtime) -> Result<bool> {
        self.check_read_only(plan)?;
        self.lock_tables(plan, runtime)?;
        Ok(self.database.still_fits(version, &plan.objects, &plan.names).is_some())
    }

    /// Has `attempt` make a plan. It looks at definitions before their tables are locked: if it fails, the reason may be
    /// that another session is just changing what it has found. So it is repeated once that is locked as whoever reads
    /// it does, and has changed meanwhile.
    pub fn plan_or_lock<T>(
        &mut self,
        runtime: &dyn Runtime,
        mut attempt: impl FnMut(&mut SessionContext, &PlanDependencies) -> Result<T>,
    ) -> Result<T> {
        let mut locked = HashSet::new();
        loop {
            let (version, asked) = (self.database.version(), PlanDependencies::default());
            let failed = match attempt(self, &asked) {
                Err(e) => e,
                made => return made,
            };
            let found: Vec<Oid> = asked.take_objects();
            let fresh: Vec<Oid> = found.iter().copied().filter(|oid| locked.insert(*oid)).collect();
            for oid in &fresh {
                self.lock_table(*oid, LockMode::AccessShare, WaitPolicy::Wait, runtime)?;
            }
            let is_unchanged = self.database.still_fits(version, &found, &asked.names.take()).is_some();
            if fresh.is_empty() || is_unchanged {
                return Err(failed);
            }
        }
    }

    /// Locks the tables of a plan that was made when the catalogs were of `version`, and has `plan_anew` make another as
    /// long as what it uses has changed meanwhile. None: the plan given is still right.
    pub fn lock_or_replan(
        &mut self,
        plan: &Plan,
        version: u64,
        runtime: &dyn Runtime,
        mut plan_anew: impl FnMut(&mut SessionContext) -> Result<Arc<Plan>>,
    ) -> Result<Option<Arc<Plan>>> {
        if self.lock_plan(plan, version, runtime)? {
            return Ok(None);
        }
        let mut held = plan.locks.clone();
        loop {
            let version = self.database.version();
            let again = plan_anew(self)?;
            // Definitions that were locked before they were read do not change.
            let was_locked = again.locks.iter().all(|lock| held.contains(lock));
            if self.lock_plan(&again, version, runtime)? || was_locked {
                return Ok(Some(again));
            }
            held.extend(again.locks.iter().copied());
        }
    }

    pub fn lock_table(&mut self, table: Oid, mode: LockMode, wait: WaitPolicy, runtime: &dyn Runtime) -> Result<bool> {
        // System tables are protected by their row versions alone; temporary ones are nobody else's.
        if table < kilndb_catalog::builtin::FIRST_USER_OID || is_temporary(table) {
            return Ok(true);
        }
        let tag = LockTag(RELATION_LOCK, u64::from(self.database.oid), u64::from(table));
        let txn =
            self.transaction.txn.as_mut().ok_or_else(|| Error::internal("no transaction to hold a table lock"))?;
        txn.lock(tag, mode, wait, runtime)
    }

    pub fn check_read_only(&self, plan: &Plan) -> Result<()> {
        if !plan.changes_permanent || !self.is_read_only() {
            return Ok(());
        }
        let locks = (plan.command == "SELECT").then(|| first_row_lock(&plan.root)).flatten();
        self.refuse_if_read_only(match locks {
            Some(LockStrength::Update) => "SELECT FOR UPDATE",
            Some(LockStrength::NoKeyUpdate) => "SELECT FOR NO KEY UPDATE",
            Some(LockStrength::Share) => "SELECT FOR SHARE",
            Some(LockStrength::KeyShare) => "SELECT FOR KEY SHARE",
            None => plan.command,
        })
    }

    /// Binds and plans a statement as the catalogs are now.
    pub fn make_plan(
        &mut self,
        statement: &Statement,
        declared_types: &[Oid],
        runtime: &dyn Runtime,
    ) -> Result<Arc<Plan>> {
        self.make_plan_of(statement.node(), statement.source(), declared_types, runtime)
    }

    pub fn make_plan_of(
        &mut self,
        node: Node<'_>,
        source: &Arc<str>,
        declared_types: &[Oid],
        runtime: &dyn Runtime,
    ) -> Result<Arc<Plan>> {
        self.plan_with(&PlanRequest { declared_types, ..PlanRequest::of(node, source) }, runtime)
    }

    pub fn plan_with(&mut self, request: &PlanRequest<'_>, runtime: &dyn Runtime) -> Result<Arc<Plan>> {
        self.plan_or_lock(runtime, |context, asked| context.plan_at_once(request, asked, runtime))
    }

    /// One attempt, with the definitions as they are now.
    fn plan_at_once(
        &mut self,
        request: &PlanRequest<'_>,
        asked: &PlanDependencies,
        runtime: &dyn Runtime,
    ) -> Result<Arc<Plan>> {
        let PlanRequest {
            node,
            source,
            declared_types,
            lifting,
            explained,
            values,
            tells_places,
            insert_into,
            measured,
            is_definition,
        } = *request;
        let held = self.held_variables.clone().filter(|_| declared_types.is_empty() && lifting.is_none());
        let environment = self.environment(runtime)?;
        let mut host = environment.host();
        plan_by(&mut host.reader, asked, measured);
        host.reader.role.take_if(|_| is_definition);
        let mut param_types = declared_types.to_vec();
        let eval = EvalContext { clock_was_read: Some(&asked.reads_moment), ..host.eval() };
        let mut bound = match &held {
            Some(held) => {
                let variables = kilndb_bind::variables::Variables::new(&**held);
                let bound =
                    kilndb_bind::bind_with_variables(node, source.clone(), &host.reader, &variables, Some(&eval))?;
                let used = variables.used();
                kilndb_bind::with_values(bound, &|n| used.get(n as usize).map(|v| held.value(v.number)).transpose())?
            }
            None => kilndb_bind::bind_node(node, source.clone(), &host.reader, &mut param_types, lifting, Some(&eval))?,
        };
        if let Some(values) = values {
            bound = kilndb_bind::with_values(bound, &|n| Ok(values.get(n as usize).cloned()))?;
        }
        if let Some(by) = explained {
            bound = kilndb_bind::explained(by.statement, by.source, bound, &host.reader)?;
        }
        if let Some(table) = insert_into {
            bound = insert_rows(bound, table, &host.reader)?;
        }
        let places = if tells_places { kilndb_bind::current_of::add_places(&mut bound) } else { Vec::new() };
        let begun = matches!(bound, BoundStatement::Explain { .. }).then(MeasureStart::now);
        let mut plan = self
            .shared
            .scratch
            .without_notices(|| kilndb_plan::plan(bound, param_types, &host.reader, &self.cluster.engine, &eval))?;
        if let Some((nanos, accesses)) = begun.map(|begun| begun.taken())
            && let Some(plan) = Arc::get_mut(&mut plan)
        {
            let shows_settings = plan.explain.as_ref().is_some_and(|o| o.settings);
            let settings = if shows_settings { self.settings.changed_for_plans() } else { Vec::new() };
            plan.planning = PlanningReport { nanos, accesses, settings };
        }
        if let Some(plan) = Arc::get_mut(&mut plan) {
            plan.access.schemas = named_schemas(&host.reader, asked)?;
            note_origin(plan, asked, places, measured);
        }
        Ok(plan)
    }

    /// The plan of a query that the engine itself makes.
    pub fn plan_engine_query(&mut self, query: &dyn EngineQuery, runtime: &dyn Runtime) -> Result<Arc<Plan>> {
        self.plan_or_lock(runtime, |context, asked| {
            let environment = context.environment(runtime)?;
            let mut host = environment.host();
            host.reader.asked = Some(asked);
            let bound = query.bind(&host.reader)?;
            context.shared.scratch.without_notices(|| {
                kilndb_plan::plan(bound, query.parameter_types(), &host.reader, &context.cluster.engine, &host.eval())
            })
        })
    }

    /// False if temporary objects would be found where the plan has found others, or what it uses has changed.
    pub fn fits_temporary(&self, plan: &Plan, generation: u64) -> bool {
        if plan.is_private {
            return generation == self.shared.temporary.generation();
        }
        self.shared.temporary.is_empty() || !plan.names.iter().any(|name| self.shared.temporary.has_name(name))
    }

    /// False if policies would make the plan another one for the role in force.
    #[inline]
    pub fn fits_role(&self, plan: &Plan) -> bool {
        plan.role.is_none_or(|role| {
            !self.shared.roles.is_changed.get()
                && role
                    == PlanRole {
                        role: self.identity.current_role,
                        roles_version: self.cluster.role_directory.version(),
                        applies_row_security: self.settings.row_security,
                    }
        })
    }

    pub fn path_is(&self, path: &Arc<[Oid]>) -> bool {
        self.is_path_current()
            && (Arc::ptr_eq(&self.catalogs.path.schemas, path) || self.catalogs.path.schemas == *path)
    }
}

/// The schemas that a statement names, with who may use them.
fn named_schemas(reader: &CatalogReader<'_>, asked: &PlanDependencies) -> Result<Vec<(String, Privileges)>> {
    let mut schemas = Vec::new();
    for schema in asked.schemas.take() {
        if let Some(privileges) = reader.schema_privileges(schema)? {
            schemas.push((reader.schema_name(schema)?.unwrap_or_default(), privileges));
        }
    }
    Ok(schemas)
}

/// Has a plan made by the statistics that are wanted, and `asked` note which tables it looks at if its cost is measured.
pub fn plan_by<'h>(reader: &mut CatalogReader<'h>, asked: &'h PlanDependencies, measured: Option<MeasuredPlan<'h>>) {
    reader.asked = Some(asked);
    *asked.tables.borrow_mut() = measured.map(|_| Vec::new());
    reader.former = measured.and_then(|m| m.former).map(|former| &**former);
}

/// Writes down what a plan was made of. `places`: the columns behind the others that tell where its rows are, two each.
pub fn note_origin(plan: &mut Plan, asked: &PlanDependencies, places: Vec<Oid>, measured: Option<MeasuredPlan<'_>>) {
    plan.names = asked.names.take();
    plan.is_private = asked.is_private.get();
    plan.reads_moment = asked.reads_moment.get();
    plan.role = asked.role.get();
    plan.objects = asked.take_objects();
    plan.columns.truncate(plan.columns.len() - 2 * places.len());
    plan.places = places;
    if let Some(MeasuredPlan { measured, former }) = measured {
        plan.measured = Some(measured.clone());
        let tables = asked.tables.take().unwrap_or_default();
        plan.statistics = Some(former.cloned().unwrap_or_else(|| Arc::new(FormerStatistics::new(tables))));
    }
}

fn first_row_lock(node: &PlanNode) -> Option<LockStrength> {
    match &node.op {
        Op::LockRows { targets, .. } => targets.first().map(|t| t.strength),
        _ => node.children().into_iter().find_map(|child| first_row_lock(child)),
    }
}
