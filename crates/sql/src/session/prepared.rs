//! Prepared statements: parsed once, planned once per catalog version, shared between sessions.

use super::Session;
use super::command::{is_plannable, may_run_when_failed};
use crate::client::Runtime;
use kilndb_base::hash::HashMap;
use kilndb_base::sync::atomic::{AtomicBool, Ordering};
use kilndb_base::sync::{Arc, Mutex};
use kilndb_base::{Error, Oid, Result};
use kilndb_bind::ir::BoundStatement;
use kilndb_bind::lifting::Lifting;
use kilndb_catalog::cache::Asked;
use kilndb_exec::Begun;
use kilndb_plan::Plan;
use kilndb_plan::node::{OutputColumn, Planning};
use kilndb_syntax::{Node, Statement};
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
    /// What its rows have, which stays so while the statement has its name. None: it gives no rows.
    pub columns: Option<Arc<[OutputColumn]>>,
    planned: Mutex<Option<Planned>>,
    /// Other sessions may have it too.
    is_shared: AtomicBool,
}

#[derive(Clone)]
struct Planned {
    catalog_version: u64,
    path: Arc<[Oid]>,
    /// Of the temporary objects, for a plan that uses any.
    generation: u64,
    plan: Arc<Plan>,
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
    database: Oid,
    /// Parameter types are inferred from the catalogs of this version.
    catalog_version: u64,
    sql: Arc<str>,
    declared_types: Vec<Oid>,
    path: Arc<[Oid]>,
    /// DateStyle, IntervalStyle, TimeZone and the like.
    formats: u64,
}

/// EXPLAIN EXECUTE.
#[derive(Clone, Copy)]
pub(super) struct Explained<'a> {
    pub statement: &'a kilndb_syntax::nodes::ExplainStmt,
    pub source: &'a Arc<str>,
    pub values: Option<&'a [kilndb_types::Datum]>,
}

/// What a plan is wanted of; with `lifting`, literals become parameters.
struct PlanRequest<'a> {
    node: Node<'a>,
    source: Arc<str>,
    declared_types: &'a [Oid],
    lifting: Option<&'a Lifting>,
    explained: Option<Explained<'a>>,
}

/// Texts per shard; a full shard starts anew.
const CACHED_STATEMENTS_PER_SHARD: usize = 512;
/// Longer texts are not worth keeping.
const CACHED_STATEMENT_BYTES: usize = 16 * 1024;

impl StatementCache {
    fn shard(&self, key: &CacheKey) -> &Mutex<HashMap<CacheKey, Arc<Prepared>>> {
        &self.shards[(self.hasher.hash_one(&key.sql) % 16) as usize]
    }
    pub fn get(&self, key: &CacheKey) -> Option<Arc<Prepared>> {
        self.shard(key).lock().unwrap_or_else(|e| e.into_inner()).get(key).cloned()
    }
    pub fn put(&self, key: CacheKey, prepared: Arc<Prepared>) {
        let mut shard = self.shard(&key).lock().unwrap_or_else(|e| e.into_inner());
        if shard.len() >= CACHED_STATEMENTS_PER_SHARD {
            shard.clear();
        }
        shard.insert(key, prepared);
    }
}

/// Literals like 'now' are read when a statement is bound: such a text must be bound each time.
pub(crate) fn reads_the_clock(sql: &str) -> bool {
    let lower = sql.to_ascii_lowercase();
    ["now", "today", "tomorrow", "yesterday", "allballs"]
        .iter()
        .any(|word| lower.match_indices(word).any(|(at, _)| !lower[at + word.len()..].trim_start().starts_with('(')))
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
    /// What a cursor of a routine shows.
    pub(crate) fn of_text(sql: &str, prepare_time: i64) -> Prepared {
        Prepared {
            sql: Arc::from(sql),
            statement: None,
            param_types: Vec::new(),
            from_sql: true,
            prepare_time,
            is_plannable: true,
            may_run_when_failed: false,
            columns: None,
            planned: Mutex::new(None),
            is_shared: AtomicBool::new(false),
        }
    }
    fn plan(&self) -> Option<Arc<Plan>> {
        self.planned.lock().unwrap_or_else(|e| e.into_inner()).as_ref().map(|p| p.plan.clone())
    }
    fn may_be_shared(&self) -> bool {
        self.plan().is_some_and(|plan| !plan.is_private)
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

impl Session {
    /// Parses and, if it can be planned, plans: errors show at PREPARE.
    pub(crate) fn prepare_statement(
        &mut self,
        sql: &str,
        statement: Option<Statement>,
        declared_types: &[Oid],
        from_sql: bool,
        runtime: &dyn Runtime,
    ) -> Result<Arc<Prepared>> {
        let mut prepared = Prepared {
            sql: Arc::from(sql),
            is_plannable: statement.as_ref().is_some_and(|s| is_plannable(&s.node())),
            may_run_when_failed: statement.as_ref().is_none_or(|s| may_run_when_failed(&s.node())),
            statement,
            param_types: declared_types.to_vec(),
            from_sql,
            prepare_time: self.now(),
            columns: None,
            planned: Mutex::new(None),
            is_shared: AtomicBool::new(false),
        };
        let Some(statement) = prepared.statement.clone() else { return Ok(Arc::new(prepared)) };
        if !prepared.is_plannable {
            prepared.columns = self.utility_columns(&statement, runtime)?;
        } else {
            let catalog_version = self.database.version();
            let plan = self.make_plan(&statement, declared_types, runtime)?;
            prepared.param_types = plan.param_types.clone();
            prepared.columns = row_columns(&plan).map(Arc::from);
            self.remember(&prepared, plan, catalog_version);
        }
        Ok(Arc::new(prepared))
    }

    /// The key under which a text's prepared statement may be shared; None: it may not.
    pub(super) fn cache_key(&self, sql: &str, declared_types: &[Oid]) -> Option<CacheKey> {
        if self.has_ddl || sql.len() > CACHED_STATEMENT_BYTES || !self.is_path_current() {
            return None;
        }
        Some(CacheKey {
            database: self.database.oid,
            catalog_version: self.database.version(),
            sql: Arc::from(sql),
            declared_types: declared_types.to_vec(),
            path: self.path.2.clone(),
            formats: self.settings.format_fingerprint,
        })
    }

    pub(super) fn share(&self, key: Option<CacheKey>, prepared: &Arc<Prepared>) {
        if let Some(key) = key
            && !self.has_ddl
            && self.path.2 == key.path
            && prepared.is_plannable
            && prepared.may_be_shared()
            && !reads_the_clock(&key.sql)
        {
            prepared.is_shared.store(true, Ordering::Relaxed);
            self.instance.statements.put(key, prepared.clone());
        }
    }

    /// Binds and plans a statement as the catalogs are now.
    pub(crate) fn make_plan(
        &mut self,
        statement: &Statement,
        declared_types: &[Oid],
        runtime: &dyn Runtime,
    ) -> Result<Arc<Plan>> {
        self.make_plan_of(statement.node(), statement.source().clone(), declared_types, runtime)
    }

    pub(crate) fn make_plan_of(
        &mut self,
        node: Node<'_>,
        source: Arc<str>,
        declared_types: &[Oid],
        runtime: &dyn Runtime,
    ) -> Result<Arc<Plan>> {
        self.plan_with(node, source, declared_types, None, None, runtime)
    }

    /// The plan of what has been prepared, to be shown; a plan for these very values, if they are given.
    pub(super) fn plan_to_explain(
        &mut self,
        prepared: &Prepared,
        by: Explained<'_>,
        runtime: &dyn Runtime,
    ) -> Result<Arc<Plan>> {
        let statement = prepared.statement.clone().ok_or_else(|| Error::internal("an empty statement has no plan"))?;
        self.plan_with(statement.node(), statement.source().clone(), &prepared.param_types, None, Some(by), runtime)
    }

    /// As [`Session::make_plan_of`]; with `lifting`, literals become parameters.
    pub(super) fn plan_with(
        &mut self,
        node: Node<'_>,
        source: Arc<str>,
        declared_types: &[Oid],
        lifting: Option<&Lifting>,
        explained: Option<Explained<'_>>,
        runtime: &dyn Runtime,
    ) -> Result<Arc<Plan>> {
        let request = PlanRequest { node, source, declared_types, lifting, explained };
        self.plan_or_lock(runtime, |session, asked| session.plan_at_once(&request, asked, runtime))
    }

    /// One attempt, with the definitions as they are now.
    fn plan_at_once(&mut self, request: &PlanRequest<'_>, asked: &Asked, runtime: &dyn Runtime) -> Result<Arc<Plan>> {
        let PlanRequest { node, ref source, declared_types, lifting, explained } = *request;
        let held = self.held_variables.clone().filter(|_| declared_types.is_empty() && lifting.is_none());
        let environment = self.environment(runtime)?;
        let mut host = environment.host();
        host.reader.asked = Some(asked);
        let mut param_types = declared_types.to_vec();
        let mut bound = match &held {
            Some(held) => {
                let variables = kilndb_bind::variables::Variables::new(&**held);
                let bound = kilndb_bind::bind_with_variables(
                    node,
                    source.clone(),
                    &host.reader,
                    &variables,
                    Some(&host.eval()),
                )?;
                crate::routine::held::with_values(bound, &variables.used(), held)?
            }
            None => kilndb_bind::bind_node(
                node,
                source.clone(),
                &host.reader,
                &mut param_types,
                lifting,
                Some(&host.eval()),
            )?,
        };
        if let Some(by) = explained {
            bound = kilndb_bind::explained(by.statement, by.source, bound, by.values, &host.reader)?;
        }
        let places = if self.wants_places { kilndb_bind::current_of::add_places(&mut bound) } else { Vec::new() };
        let begun = matches!(bound, BoundStatement::Explain { .. }).then(Begun::now);
        let mut plan = self.own.scratch.without_notices(|| {
            kilndb_plan::plan(bound, param_types, &host.reader, &self.instance.engine, &host.eval())
        })?;
        if let Some((nanos, accesses)) = begun.map(|begun| begun.taken())
            && let Some(plan) = Arc::get_mut(&mut plan)
        {
            let shows_settings = plan.explain.as_ref().is_some_and(|o| o.settings);
            let settings = if shows_settings { self.settings.changed_for_plans() } else { Vec::new() };
            plan.planning = Planning { nanos, accesses, settings };
        }
        if let Some(plan) = Arc::get_mut(&mut plan) {
            plan.names = asked.names.take();
            plan.is_private = asked.is_private.get();
            plan.objects = asked.objects.take().into_iter().collect();
            plan.columns.truncate(plan.columns.len() - 2 * places.len());
            plan.places = places;
        }
        Ok(plan)
    }

    /// The plan of a prepared statement, made anew if the catalogs have changed.
    pub(crate) fn plan_of(&mut self, prepared: &Prepared, runtime: &dyn Runtime) -> Result<Arc<Plan>> {
        if let Some(known) = &mut *prepared.planned.lock().unwrap_or_else(|e| e.into_inner())
            && !self.has_ddl
            && let Some(version) =
                self.database.still_fits(known.catalog_version, &known.plan.objects, &known.plan.names)
            && self.path_is(&known.path)
            && self.fits_temporary(&known.plan, known.generation)
        {
            known.catalog_version = version;
            return Ok(known.plan.clone());
        }
        let statement = prepared.statement.clone().ok_or_else(|| Error::internal("an empty statement has no plan"))?;
        let catalog_version = self.database.version();
        let plan = self.make_plan(&statement, &prepared.param_types, runtime)?;
        prepared.refuse_other_result(&plan)?;
        self.remember(prepared, plan.clone(), catalog_version);
        Ok(plan)
    }

    /// False if temporary objects would be found where the plan has found others, or what it uses has changed.
    pub(crate) fn fits_temporary(&self, plan: &Plan, generation: u64) -> bool {
        if plan.is_private {
            return generation == self.own.temporary.generation();
        }
        self.own.temporary.is_empty() || !plan.names.iter().any(|name| self.own.temporary.has_name(name))
    }

    /// As [`Session::fits_temporary`], of what another session has prepared.
    pub(super) fn may_take(&self, prepared: &Prepared) -> bool {
        self.own.temporary.is_empty()
            || prepared.plan().is_some_and(|plan| !plan.is_private && self.fits_temporary(&plan, 0))
    }

    pub(crate) fn path_is(&self, path: &Arc<[Oid]>) -> bool {
        self.is_path_current() && (Arc::ptr_eq(&self.path.2, path) || self.path.2 == *path)
    }

    /// `catalog_version`: as it was before the plan was made.
    fn remember(&self, prepared: &Prepared, plan: Arc<Plan>, catalog_version: u64) {
        // What others use too must not hold what is this session's alone.
        let is_for_all = !plan.is_private || !prepared.is_shared.load(Ordering::Relaxed);
        if !self.has_ddl && is_for_all {
            let (path, generation) = (self.path.2.clone(), self.own.temporary.generation());
            *prepared.planned.lock().unwrap_or_else(|e| e.into_inner()) =
                Some(Planned { catalog_version, path, generation, plan });
        }
    }
}
