//! Statements of the simple protocol that differ in their literals only share a plan (docs/decisions/0009).
//!
//! Invariants
//! 1. A template is used only for a text of the same shape, with the same values of the literals that were not lifted,
//!    under the catalog version, search path and formats that it was made for.
//! 2. A failure while a template is made, or while its parameters are read, is not reported: the statement takes the
//!    long way, whose errors have positions in the text.

use super::command::is_plannable;
use super::{CacheKey, Session};
use crate::client::{Client, Runtime};
use crate::context::{Block, MeasuredPlan, PlanRequest, SessionContext};
use crate::log::LoggedStatements;
use crate::plan_guard::StatementGuard;
use kilndb_base::hash::HashMap;
use kilndb_base::sync::atomic::{AtomicU64, Ordering};
use kilndb_base::sync::{Arc, Mutex, PoisonError};
use kilndb_base::{Error, Oid, Result, memory};
use kilndb_bind::lifting::{LiftedParam, Lifting};
use kilndb_plan::Plan;
use kilndb_syntax::literals::{Literal, Scanned};
use kilndb_syntax::{Node, Statement};
use kilndb_types::{Datum, io, oids};
use std::hash::{Hash, Hasher};

pub(crate) enum Body {
    Plan {
        plan: Arc<Plan>,
        lifted: Vec<LiftedParam>,
        /// With plan_guard.
        guard: Option<Arc<StatementGuard>>,
    },
    /// BEGIN, COMMIT and the like: no need to parse them again.
    Command(Statement),
    /// EXECUTE of a prepared statement with nothing but literals as arguments: for routines, which make such texts in
    /// loops.
    Execute(Box<str>),
    /// Literals decide too much in such a statement, or it is none of the kinds above.
    Unshared,
}

/// What was made of a statement, and for which others it holds.
pub(crate) struct Template {
    database: Oid,
    /// The latest that it was found right for.
    catalog_version: AtomicU64,
    path: Arc<[Oid]>,
    /// DateStyle, IntervalStyle, TimeZone and the like.
    formats: u64,
    shape: Box<[u8]>,
    /// The literals that must be as they were: number and text.
    fixed: Vec<(usize, Box<str>)>,
    /// It was made while plan_guard was on.
    is_guarded: bool,
    pub body: Body,
}

/// The plan that an execution of a template takes.
pub(crate) struct TemplatePlan<'a> {
    pub plan: Arc<Plan>,
    pub lifted: &'a [LiftedParam],
    /// Of the catalogs, for which the plan is right.
    version: u64,
}

/// Templates by shape, shared by all sessions.
#[derive(Default)]
pub(crate) struct TemplateCache {
    shards: [Mutex<HashMap<u64, Vec<Arc<Template>>>>; 16],
}

/// Shapes per shard; a full shard starts anew.
const SHAPES_PER_SHARD: usize = 512;
/// Templates of one shape, which differ in the literals that were not lifted or in the session's settings.
const TEMPLATES_PER_SHAPE: usize = 4;
/// A plan that has taken more memory is not kept for others.
const LARGEST_BYTES: i64 = 1 << 20;
/// Longer texts are not worth keeping.
const TEMPLATE_BYTES: usize = 16 * 1024;

fn hash_of(shape: &[u8]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    shape.hash(&mut hasher);
    hasher.finish()
}

impl TemplateCache {
    /// The template that holds for a text in a session with this context.
    pub fn find(
        &self,
        lookup: &Lookup,
        sql: &str,
        scanned: &Scanned,
        context: &SessionContext,
    ) -> Option<Arc<Template>> {
        if !context.is_path_current() {
            return None;
        }
        let hash = lookup.hash;
        let shard = self.shards[(hash % 16) as usize].lock().unwrap_or_else(PoisonError::into_inner);
        shard.get(&hash)?.iter().find(|t| t.fits(context, sql, scanned)).cloned()
    }

    fn put(&self, hash: u64, template: Template) {
        let mut shard = self.shards[(hash % 16) as usize].lock().unwrap_or_else(PoisonError::into_inner);
        if shard.len() >= SHAPES_PER_SHARD && !shard.contains_key(&hash) {
            shard.clear();
        }
        let bucket = shard.entry(hash).or_default();
        bucket.retain(|t| t.database != template.database || t.version() >= template.version());
        if bucket.len() >= TEMPLATES_PER_SHAPE {
            bucket.remove(0);
        }
        bucket.push(Arc::new(template));
    }
}

impl Template {
    fn version(&self) -> u64 {
        self.catalog_version.load(Ordering::Relaxed)
    }
    /// Nothing has changed since that the plan depends on.
    fn is_current(&self, database: &kilndb_catalog::cache::Database) -> bool {
        let version = self.version();
        if database.is_current(version) {
            return true;
        }
        let found = match &self.body {
            Body::Plan { plan, .. } => database.still_fits(version, &plan.objects, &plan.names),
            _ => None,
        };
        found.inspect(|now| self.catalog_version.store(*now, Ordering::Relaxed)).is_some()
    }
    /// None: it has no plan.
    pub fn plan_in(&self, context: &SessionContext) -> Option<TemplatePlan<'_>> {
        let Body::Plan { plan, lifted, guard } = &self.body else { return None };
        let now = context.database.version();
        let guard = guard.as_ref().filter(|_| context.settings.plan_guard && !context.catalogs.has_ddl);
        Some(match guard.and_then(|guard| guard.former(context)) {
            Some(former) => TemplatePlan { plan: former.plan, lifted, version: now },
            None => TemplatePlan { plan: plan.clone(), lifted, version: self.version() },
        })
    }
    /// The class of the statement for log_statement. None: it is not known before it is parsed.
    pub(super) fn logged_class(&self) -> Option<LoggedStatements> {
        match &self.body {
            Body::Plan { plan, .. } => Some(LoggedStatements::of_command(plan.command)),
            // Nothing but transaction commands.
            Body::Command(_) => Some(LoggedStatements::All),
            Body::Unshared | Body::Execute(_) => None,
        }
    }
    fn fits(&self, context: &SessionContext, sql: &str, scanned: &Scanned) -> bool {
        *self.shape == *scanned.shape
            && self.database == context.database.oid
            && self.is_current(&context.database)
            && self.formats == context.settings.format_fingerprint
            && (self.is_guarded || !context.settings.plan_guard)
            && (Arc::ptr_eq(&self.path, &context.catalogs.path.schemas) || self.path == context.catalogs.path.schemas)
            && match &self.body {
                Body::Plan { plan, .. } => context.fits_temporary(plan, 0) && context.fits_role(plan),
                _ => true,
            }
            && self.fixed.iter().all(|(i, text)| scanned.literals.get(*i).is_some_and(|l| l.text(sql) == &**text))
    }
}

/// A number without a sign, or a string.
fn is_plain_literal(node: Node<'_>) -> bool {
    use kilndb_syntax::ConstValue as C;
    match node {
        Node::A_Const(c) if !c.isnull => match c.val() {
            Some(C::Integer(i)) => i >= 0,
            Some(C::String(_)) => true,
            _ => false,
        },
        _ => false,
    }
}

/// What a simple query is looked up by, and what its template will be stored under.
pub(crate) struct Lookup {
    hash: u64,
    catalog_version: u64,
}

impl Session {
    /// Runs a statement by its template. None: nothing was done, the statement must take the long way.
    pub(super) fn run_template(
        &mut self,
        template: &Template,
        sql: &str,
        scanned: &Scanned,
        runtime: &dyn Runtime,
        client: &mut dyn Client,
    ) -> Result<Option<String>> {
        match &template.body {
            Body::Unshared | Body::Execute(_) => Ok(None),
            Body::Command(statement) => self.run_utility(statement, true, runtime, client).map(Some),
            Body::Plan { .. } => {
                let Some(TemplatePlan { plan, lifted, version }) = template.plan_in(&self.context) else {
                    return Ok(None);
                };
                self.note_command(plan.command, runtime);
                self.context.begin_statement(runtime)?;
                self.context.fix_snapshot(runtime)?;
                match lifted_values(&mut self.context, lifted, sql, scanned, runtime) {
                    Ok(_) if !self.context.lock_plan(&plan, version, runtime)? => Ok(None),
                    Ok(params) => self.run_plan_for_client(&plan, &params, runtime, client).map(Some),
                    Err(_) => Ok(None),
                }
            }
        }
    }

    /// Makes and stores the template of a statement that is alone in its message. None: it must take the long way.
    pub(crate) fn make_template(
        &mut self,
        lookup: &Lookup,
        statement: &Statement,
        sql: &str,
        scanned: &Scanned,
        runtime: &dyn Runtime,
    ) -> Result<Option<Arc<Template>>> {
        let node = statement.node();
        let mut lifted = Vec::new();
        let held_before = memory::account().held_bytes;
        let measured = self.context.settings.plan_guard.then(Arc::default);
        let mut body = if is_plannable(&node) {
            self.context.begin_statement(runtime)?;
            let lifting = Lifting::new(statement.source().clone(), scanned.literals.clone());
            let request = PlanRequest {
                lifting: Some(&lifting),
                measured: measured.as_ref().map(|measured| MeasuredPlan { measured, former: None }),
                ..PlanRequest::of(node, statement.source())
            };
            match self.context.plan_with(&request, runtime) {
                Ok(plan) if literals_may_vary(&mut self.context, &plan, runtime)? => {
                    lifted = lifting.into_params();
                    Body::Plan { plan, lifted: lifted.clone(), guard: None }
                }
                Err(e) if e.is_interruption() => return Err(e),
                _ => Body::Unshared,
            }
        } else if matches!(node, Node::TransactionStmt(_)) && scanned.literals.is_empty() {
            Body::Command(statement.clone())
        } else if let Node::ExecuteStmt(s) = node
            && s.params().len() == scanned.literals.len()
            && s.params().iter().all(is_plain_literal)
        {
            Body::Execute(s.name().unwrap_or("").into())
        } else {
            Body::Unshared
        };
        if self.context.catalogs.has_ddl || !self.context.is_path_current() {
            return Ok(None);
        }
        // Of statements that are alike but for their literals, those with the same constants are taken together.
        let is_fixed = |i: usize| matches!(body, Body::Plan { .. }) && lifted.iter().all(|p| p.literal != i);
        let fixed = scanned.literals.iter().enumerate().filter(|(i, _)| is_fixed(*i));
        let fixed: Vec<(usize, Box<str>)> = fixed.map(|(i, l)| (i, l.text(sql).into())).collect();
        if let Body::Plan { plan, guard, .. } = &mut body
            && measured.is_some()
            && plan.may_be_guarded()
        {
            *guard = self.guard_shape(plan, lookup.catalog_version, (&scanned.shape, &fixed));
        }
        let body = match body {
            // A literal such as 'now' means something else at the next execution.
            Body::Plan { plan, .. } if plan.reads_moment => Body::Unshared,
            body => body,
        };
        let template = Template {
            database: self.context.database.oid,
            catalog_version: AtomicU64::new(lookup.catalog_version),
            path: self.context.catalogs.path.schemas.clone(),
            formats: self.context.settings.format_fingerprint,
            shape: scanned.shape.as_slice().into(),
            fixed,
            is_guarded: measured.is_some(),
            body,
        };
        // A plan holds the values of its constant parts, which may be of any size.
        let is_large = memory::account().held_bytes - held_before > LARGEST_BYTES;
        if matches!(&template.body, Body::Plan { plan, .. } if plan.is_private || is_large) {
            // For this once: a private plan's text may have another meaning for the next session.
            return Ok(Some(Arc::new(template)));
        }
        self.instance.templates.put(lookup.hash, template);
        Ok(self.instance.templates.find(lookup, sql, scanned, &self.context))
    }

    /// Has the executions of a plan measured with those of former plans of the same shape, whose literals that were not
    /// lifted are the same. `version`: of the catalogs, as it was before the plan was made.
    fn guard_shape(
        &self,
        plan: &mut Arc<Plan>,
        version: u64,
        (shape, fixed): (&[u8], &[(usize, Box<str>)]),
    ) -> Option<Arc<StatementGuard>> {
        let mut text = String::from_utf8_lossy(shape).into_owned();
        for (number, literal) in fixed {
            text.push_str(&format!(" /* {}: {literal} */", number + 1));
        }
        let key = CacheKey::of(&text, &plan.param_types, &self.context)?;
        let guard = self.instance.guards.of(key)?;
        guard.watch(plan, version, &self.context);
        Some(guard)
    }

    /// Sends what ends a statement that was alone in its message.
    pub(super) fn complete_alone(&mut self, tag: &str, runtime: &dyn Runtime, client: &mut dyn Client) -> Result<()> {
        self.finish_implicit(runtime)?;
        self.send_notices(client);
        client.command_complete(tag);
        Ok(())
    }
}

/// Scans `sql` into `scanned`; None if its template may not be shared or looked up.
pub(crate) fn look_up(context: &SessionContext, sql: &str, scanned: &mut Scanned) -> Option<Lookup> {
    if sql.len() > TEMPLATE_BYTES || context.catalogs.has_ddl || context.transaction.block == Block::Failed {
        return None;
    }
    let catalog_version = context.database.version();
    scanned.scan(sql).then(|| Lookup { hash: hash_of(&scanned.shape), catalog_version })
}

/// Values of the literals for parameters of these types; None: they take more than reading.
pub(crate) fn literal_arguments(
    context: &mut SessionContext,
    sql: &str,
    scanned: &Scanned,
    types: &[Oid],
    runtime: &dyn Runtime,
) -> Option<Vec<Datum>> {
    use kilndb_syntax::literals::LiteralKind as K;
    if types.len() != scanned.literals.len() {
        return None;
    }
    let values = context.with_value_context(types.iter().copied(), runtime, |eval| {
        let value = |(literal, type_oid): (&Literal, &Oid)| {
            Ok(match (literal.kind, *type_oid) {
                (K::Int4 | K::Int8, oids::INT2) => i16::try_from(literal.number).ok().map(Datum::Int2),
                (K::Int4 | K::Int8, oids::INT4) => i32::try_from(literal.number).ok().map(Datum::Int4),
                (K::Int4 | K::Int8, oids::INT8) => Some(Datum::Int8(literal.number)),
                (K::String, _) => Some(io::input(*type_oid, &literal.string(sql), -1, eval)?),
                _ => None,
            })
        };
        scanned.literals.iter().zip(types).map(value).collect::<Result<Option<Vec<_>>>>()
    });
    values.ok().flatten()
}

pub(crate) fn lifted_values(
    context: &mut SessionContext,
    lifted: &[LiftedParam],
    sql: &str,
    scanned: &Scanned,
    runtime: &dyn Runtime,
) -> Result<Vec<Datum>> {
    use kilndb_syntax::literals::LiteralKind as K;
    context.with_value_context(lifted.iter().map(|p| p.type_oid), runtime, |eval| {
        let value = |p: &LiftedParam| {
            let literal = scanned.literals.get(p.literal).ok_or_else(|| Error::internal("a literal vanished"))?;
            let number = if p.negated { -literal.number } else { literal.number };
            Ok(match literal.kind {
                K::Int4 => Datum::Int4(number as i32),
                K::Int8 => Datum::Int8(number),
                K::String => io::input(p.type_oid, &literal.string(sql), -1, eval)?,
            })
        };
        lifted.iter().map(value).collect()
    })
}

/// False if another plan may be better for other constants, or if a table of the plan has an index for which they
/// matter: on an expression, or partial.
fn literals_may_vary(context: &mut SessionContext, plan: &Plan, runtime: &dyn Runtime) -> Result<bool> {
    use kilndb_catalog::CatalogView;
    if plan.param_types.is_empty() {
        return Ok(true);
    }
    if plan.depends_on_values {
        return Ok(false);
    }
    let environment = context.environment(runtime)?;
    let host = environment.host();
    for (table, _) in &plan.locks {
        let Some(table) = host.reader.table_by_oid(*table)? else { continue };
        if table.indexes.iter().any(|i| i.predicate_sql.is_some() || i.keys.iter().any(|k| k.attnum == 0)) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::system_views::StartRuntime;
    use crate::session::temporary_instance::TemporaryInstance;

    #[test]
    fn plans_are_shared_unless_a_literal_was_read_by_the_clock() {
        let temporary = TemporaryInstance::open("templates");
        let instance = &temporary.instance;
        let runtime = StartRuntime::new();
        let database = instance.cluster.open_database("postgres").unwrap();
        let mut session = Session::of_server(instance.clone(), database, &runtime).unwrap();
        let cases = [
            ("select 'now'::timestamptz", false),
            ("select timestamp 'tomorrow'", false),
            ("select '{yesterday}'::date[]", false),
            ("select '12:00'::timetz", false),
            ("select date '2001-02-03'", true),
            ("select time 'allballs'", true),
            ("select '12:00+02'::timetz", true),
            ("select 'now'::text", true),
            ("select 'nowhere' as today", true),
            ("select 1 as now", true),
        ];
        for (sql, is_shared) in cases {
            session.context.begin_statement(&runtime).unwrap();
            let mut scanned = Scanned::default();
            let lookup = look_up(&session.context, sql, &mut scanned).unwrap();
            let script = kilndb_syntax::parse(sql).unwrap();
            let template = session.make_template(&lookup, &script.statements()[0], sql, &scanned, &runtime);
            let is_plan = template.unwrap().is_some_and(|t| matches!(t.body, Body::Plan { .. }));
            assert_eq!(is_plan, is_shared, "{sql}");
        }
        session.close(&runtime);
    }
}
