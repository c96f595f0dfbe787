//! Commands that are not planned: transaction control, settings, prepared statements, maintenance, and the door to DDL.

use super::Session;
use super::command::is_plannable;
use super::prepared::row_columns;
use super::prepared::{CacheKey, Prepared};
use super::run::PlanRun;
use super::run::{SinkMaker, command_tag, known_format};
use crate::client::{Client, Runtime};
use crate::context::modes::Modes;
use crate::context::settings::given_value;
use crate::settings::{SettingScope, definition, unrecognized};
use crate::settings::{confidential, is_confidential};
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_bind::engine_query::{ValueQuery, ValueSource};
use kilndb_catalog::privileges::privilege;
use kilndb_catalog::roles::{PG_CHECKPOINT, PG_READ_ALL_SETTINGS};
use kilndb_context::settings::PlanCacheMode;
use kilndb_syntax::raw::{DiscardMode, TransactionStmtKind as T, VariableSetKind as V};
use kilndb_syntax::{Node, Statement, nodes};
use std::sync::Arc;

impl Session {
    pub(super) fn transaction_command(&mut self, t: &nodes::TransactionStmt, runtime: &dyn Runtime) -> Result<String> {
        let name = t.savepoint_name().unwrap_or("");
        let tag = match t.kind {
            T::TRANS_STMT_BEGIN | T::TRANS_STMT_START => {
                self.begin_block(runtime)?;
                self.context.transaction_modes(t.options())?;
                if t.kind == T::TRANS_STMT_BEGIN { "BEGIN" } else { "START TRANSACTION" }
            }
            T::TRANS_STMT_COMMIT => {
                let modes = self.context.modes();
                let tag = self.commit_block(runtime)?;
                self.chain(t.chain, modes, runtime)?;
                tag
            }
            T::TRANS_STMT_ROLLBACK => {
                let modes = self.context.modes();
                self.rollback_block(runtime)?;
                self.chain(t.chain, modes, runtime)?;
                "ROLLBACK"
            }
            T::TRANS_STMT_SAVEPOINT => {
                self.context.refuse_if_failed()?;
                self.context.savepoint(name)?;
                "SAVEPOINT"
            }
            T::TRANS_STMT_RELEASE => {
                self.context.refuse_if_failed()?;
                self.context.release_savepoint(name)?;
                "RELEASE"
            }
            T::TRANS_STMT_ROLLBACK_TO => {
                self.rollback_to_savepoint(name, runtime)?;
                "ROLLBACK"
            }
            _ => return Err(Error::unsupported("two-phase commit (PREPARE TRANSACTION) is not supported")),
        };
        Ok(tag.to_string())
    }

    fn chain(&mut self, chain: bool, modes: Modes, runtime: &dyn Runtime) -> Result<()> {
        if !chain {
            return Ok(());
        }
        self.begin_block(runtime)?;
        self.context.continue_modes(modes)
    }

    pub(super) fn set_command(&mut self, s: &nodes::VariableSetStmt, runtime: &dyn Runtime) -> Result<String> {
        let name = s.name().unwrap_or("");
        let scope = if s.is_local { SettingScope::Local } else { SettingScope::Session };
        if s.is_local && !self.context.lives_longer_than_statement() {
            self.context.warn_outside_block("SET LOCAL");
        }
        self.context.begin_statement(runtime)?;
        let mut tag = "SET";
        match s.kind {
            V::VAR_SET_VALUE => self.context.set_value(name, &given_value(s)?, scope)?,
            V::VAR_SET_DEFAULT | V::VAR_RESET => {
                if s.kind == V::VAR_RESET {
                    tag = "RESET";
                }
                self.context.reset_value(name, scope)?;
            }
            V::VAR_RESET_ALL => {
                self.context.settings.reset_all();
                tag = "RESET";
            }
            V::VAR_SET_CURRENT => {
                let current = self.context.settings.get(name).ok_or_else(|| unrecognized(name))?.to_string();
                self.context.settings.set(name, &current, scope)?;
            }
            V::VAR_SET_MULTI => match name {
                "TRANSACTION" => {
                    if !self.context.in_explicit_block() {
                        self.context.warn_outside_block("SET TRANSACTION");
                    }
                    self.context.transaction_modes(s.args())?;
                }
                "TRANSACTION SNAPSHOT" => {
                    if s.is_local {
                        return Err(Error::unsupported("SET LOCAL TRANSACTION SNAPSHOT is not implemented"));
                    }
                    if !self.context.in_explicit_block() {
                        self.context.warn_outside_block("SET TRANSACTION");
                    }
                    self.context.import_snapshot(&given_value(s)?)?;
                }
                "SESSION CHARACTERISTICS" => {
                    self.context.session_modes(s.args())?;
                }
                other => return Err(Error::unsupported(format!("SET {other} is not supported"))),
            },
            _ => return Err(Error::unsupported("this form of SET is not supported")),
        }
        self.publish_settings(runtime);
        Ok(tag.to_string())
    }

    pub(super) fn show_command(&mut self, s: &nodes::VariableShowStmt, client: &mut dyn Client) -> Result<String> {
        let name = s.name().unwrap_or("");
        if name != "all" && self.context.settings.get(name).is_none() {
            return Err(unrecognized(name));
        }
        let sees_all = self.context.owns(PG_READ_ALL_SETTINGS);
        if !sees_all && is_confidential(name) {
            return Err(confidential(name));
        }
        let formats = self.begin_rows(&super::utility_rows::show_columns(name), &[], client);
        if name == "all" {
            for d in crate::settings::definitions().into_iter().filter(|d| sees_all || !is_confidential(d.name)) {
                let row = [d.name.to_string(), self.context.shown(d.name), String::new()];
                send_text_row(client, &row, &formats)?;
            }
            return Ok("SHOW".to_string());
        }
        send_text_row(client, &[self.context.shown(name)], &formats)?;
        Ok("SHOW".to_string())
    }

    pub(super) fn prepare_command(
        &mut self,
        s: &nodes::PrepareStmt,
        statement: &Statement,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let name = s.name().unwrap_or("");
        self.context.begin_statement(runtime)?;
        let mut types = Vec::new();
        for t in s.argtypes() {
            types.push(self.context.resolve_type(t, statement.source(), runtime)?.0);
        }
        let key = CacheKey::of(statement.text(), &types, &self.context);
        if let Some(known) = key
            .as_ref()
            .and_then(|k| self.instance.statements.get(k))
            .filter(|known| known.may_be_taken_in(&mut self.context))
        {
            self.refuse_prepared(name)?;
            self.statements.prepared.insert(name, known);
            return Ok("PREPARE".to_string());
        }
        // The inner statement is kept as a statement of its own, so that it can be planned again.
        let text = kilndb_syntax::statement_sql(s.query())?;
        let script = kilndb_syntax::parse(&text)?;
        let inner = script.statements().pop();
        let prepared = Prepared::of_command(statement.text(), inner, &types, self.context.now());
        let prepared = self.prepare_statement(prepared, runtime)?;
        self.refuse_prepared(name)?;
        self.instance.statements.share(key, &prepared, &self.context);
        self.statements.prepared.insert(name, prepared);
        Ok("PREPARE".to_string())
    }

    /// 42P05 for a name that a statement has.
    fn refuse_prepared(&self, name: &str) -> Result<()> {
        if !self.statements.prepared.contains(name) {
            return Ok(());
        }
        let message = format!("prepared statement \"{name}\" already exists");
        Err(Error::new(sqlstate::DUPLICATE_PSTATEMENT, message))
    }

    pub(super) fn execute_command(
        &mut self,
        s: &nodes::ExecuteStmt,
        source: &Arc<str>,
        runtime: &dyn Runtime,
        client: &mut dyn Client,
    ) -> Result<String> {
        self.context.begin_statement(runtime)?;
        let name = s.name().unwrap_or("");
        let prepared = self.find_prepared(name)?;
        let params = self.evaluate_arguments(s, source, &prepared.param_types.clone(), runtime)?;
        let Some(inner) = &prepared.statement else { return Ok("EXECUTE".to_string()) };
        if !is_plannable(&inner.node()) {
            return self.run_utility(&inner.clone(), false, runtime, client);
        }
        let before = self.context.take_snapshot(runtime)?;
        let version = self.context.database.version();
        let plan = self.choose_plan(name, &prepared, &params, runtime)?.plan;
        let again = self.context.lock_or_replan(&plan, version, runtime, |context| {
            prepared.plan_for(&params, context, runtime).map(|chosen| chosen.plan)
        })?;
        let plan = again.unwrap_or(plan);
        // As in PostgreSQL: a query sees the tables as they were before it waited for them, a change as they are.
        let snapshot = if plan.is_query() { before } else { self.context.take_snapshot(runtime)? };
        let formats = row_columns(&plan).map(|columns| self.begin_rows(columns, &[], client)).unwrap_or_default();
        let sink = SinkMaker::Client { client, formats: &formats };
        let progress = self.advance(PlanRun::whole(&plan, &params, snapshot), &mut None, runtime, sink)?;
        self.note_duration(&plan, runtime);
        Ok(command_tag(&plan, progress.rows))
    }

    pub(crate) fn evaluate_arguments(
        &mut self,
        s: &nodes::ExecuteStmt,
        source: &Arc<str>,
        types: &[Oid],
        runtime: &dyn Runtime,
    ) -> Result<Vec<kilndb_types::Datum>> {
        let given = s.params().len();
        if given != types.len() {
            let name = s.name().unwrap_or("");
            return Err(Error::new(
                sqlstate::SYNTAX_ERROR,
                format!("wrong number of parameters for prepared statement \"{name}\""),
            )
            .with_detail(format!("Expected {} parameters but got {given}.", types.len())));
        }
        let mut values = Vec::with_capacity(given);
        for (at, (argument, type_oid)) in s.params().iter().zip(types).enumerate() {
            values.push(self.evaluate_constant((at + 1, argument), source, *type_oid, runtime)?);
        }
        Ok(values)
    }

    /// An argument of EXECUTE: any expression without columns.
    fn evaluate_constant(
        &mut self,
        (number, argument): (usize, Node<'_>),
        source: &Arc<str>,
        type_oid: Oid,
        runtime: &dyn Runtime,
    ) -> Result<kilndb_types::Datum> {
        use kilndb_catalog::CatalogView;
        let wanted = self.context.with_catalog(runtime, |host| Ok(host.reader.format_type(type_oid, -1)))?;
        let mismatch = |from: &str| {
            let message = format!("parameter ${number} of type {from} cannot be coerced to the expected type {wanted}");
            Error::new(sqlstate::DATATYPE_MISMATCH, message)
                .with_hint("You will need to rewrite or cast the expression.")
        };
        let source = ValueSource::Statement(argument, source);
        let query = ValueQuery { source, ty: (type_oid, -1), mismatch: &mismatch };
        let plan = self.context.plan_engine_query(&query, runtime)?;
        let mut sink = crate::host::RowsSink::default();
        self.definitions("EXECUTE").run_seen(&plan, runtime, &mut sink)?;
        Ok(sink.rows.into_iter().next().and_then(|r| r.into_iter().next()).unwrap_or_default())
    }

    pub(super) fn deallocate_command(&mut self, s: &nodes::DeallocateStmt) -> Result<String> {
        match s.name() {
            Some(name) if !s.isall => {
                self.find_prepared(name)?;
                self.statements.prepared.remove(name);
                Ok("DEALLOCATE".to_string())
            }
            _ => {
                self.statements.prepared.clear();
                Ok("DEALLOCATE ALL".to_string())
            }
        }
    }

    pub(super) fn discard_command(&mut self, s: &nodes::DiscardStmt, runtime: &dyn Runtime) -> Result<String> {
        Ok(match s.target {
            DiscardMode::DISCARD_PLANS => "DISCARD PLANS",
            DiscardMode::DISCARD_SEQUENCES => {
                self.context.forget_sequences();
                "DISCARD SEQUENCES"
            }
            DiscardMode::DISCARD_TEMP => {
                self.context.begin_statement(runtime)?;
                self.definitions("DISCARD").drop_own_temporary_objects(runtime)?;
                "DISCARD TEMP"
            }
            _ => {
                self.context.begin_statement(runtime)?;
                self.statements.portals.clear();
                self.statements.prepared.clear();
                self.context.set_session_authorization(None, SettingScope::Session)?;
                self.context.settings.reset_all();
                self.context.forget_sequences();
                self.context.shared.scratch.advisory.borrow_mut().take();
                self.context.unlisten_all(runtime)?;
                self.definitions("DISCARD").drop_own_temporary_objects(runtime)?;
                "DISCARD ALL"
            }
        }
        .to_string())
    }

    pub(super) fn alter_system(&mut self, s: &nodes::AlterSystemStmt) -> Result<String> {
        let Some(set) = s.setstmt() else { return Err(Error::internal("ALTER SYSTEM without a setting")) };
        if !self.context.is_superuser() {
            let name = set.name().unwrap_or("");
            if set.kind == V::VAR_RESET_ALL || !self.context.is_granted_parameter(name, privilege::ALTER_SYSTEM) {
                let message = match set.kind {
                    V::VAR_RESET_ALL => "permission denied to perform ALTER SYSTEM RESET ALL".to_string(),
                    _ => format!("permission denied to set parameter \"{name}\""),
                };
                return Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, message));
            }
        }
        let (dir, fsync) = (self.context.cluster.data_dir.clone(), self.context.cluster.settings().flag("fsync"));
        if set.kind == V::VAR_RESET_ALL {
            crate::settings::write_auto_conf(&dir, None, None, fsync)?;
            return Ok("ALTER SYSTEM".to_string());
        }
        let name = set.name().unwrap_or("");
        let d = definition(name).ok_or_else(|| unrecognized(name))?;
        if d.context == crate::settings::Context::Internal {
            return Err(Error::new(
                sqlstate::CANT_CHANGE_RUNTIME_PARAM,
                format!("parameter \"{}\" cannot be changed", d.name),
            ));
        }
        let value = match set.kind {
            V::VAR_SET_VALUE => Some(crate::settings::check_value(d, &given_value(set)?)?),
            _ => None,
        };
        crate::settings::write_auto_conf(&dir, Some(d.name), value.as_deref(), fsync)?;
        Ok("ALTER SYSTEM".to_string())
    }

    pub(super) fn do_command(&mut self, s: &nodes::DoStmt, source: &str, runtime: &dyn Runtime) -> Result<String> {
        let option = |name: &str| {
            s.args().iter().find(|d| d.defname() == Some(name)).and_then(|d| d.arg().as_str().map(str::to_string))
        };
        let body = option("as").ok_or_else(|| Error::new(sqlstate::SYNTAX_ERROR, "no inline code specified"))?;
        let language = option("language").unwrap_or_else(|| "plpgsql".to_string());
        self.context.begin_statement(runtime)?;
        if language == "sql" {
            return Err(Error::unsupported("language \"sql\" does not support inline code execution"));
        }
        self.context.require_language(&language)?;
        self.run_inline(&language, &body, runtime).map_err(|e| crate::ddl::function::transposed(e, source, &body))?;
        Ok("DO".to_string())
    }

    pub(super) fn checkpoint_command(&mut self, runtime: &dyn Runtime) -> Result<String> {
        if !self.context.owns(PG_CHECKPOINT) {
            let message = "permission denied to execute CHECKPOINT command";
            let detail = "Only roles with privileges of the \"pg_checkpoint\" role may execute this command.";
            return Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, message).with_detail(detail));
        }
        self.context.cluster.engine.checkpoint(runtime)?;
        Ok("CHECKPOINT".to_string())
    }

    pub(super) fn explain_command(
        &mut self,
        s: &nodes::ExplainStmt,
        statement: &Statement,
        runtime: &dyn Runtime,
        client: &mut dyn Client,
    ) -> Result<String> {
        if let Node::ExecuteStmt(e) = s.query() {
            return self.explain_execute(s, e, statement, runtime, client);
        }
        if !is_plannable(&kilndb_bind::explained_query(s)) {
            return Err(Error::unsupported("EXPLAIN of a utility statement is not supported"));
        }
        self.context.begin_statement(runtime)?;
        let plan = self.context.make_plan(statement, &[], runtime)?;
        self.run_explain(&plan, &[], runtime, client)
    }

    fn explain_execute(
        &mut self,
        s: &nodes::ExplainStmt,
        e: &nodes::ExecuteStmt,
        statement: &Statement,
        runtime: &dyn Runtime,
        client: &mut dyn Client,
    ) -> Result<String> {
        self.context.begin_statement(runtime)?;
        let (plan, params) = self.explained_execute(s, e, statement, runtime)?;
        self.run_explain(&plan, &params, runtime, client)
    }

    /// The plan and the parameters of EXPLAIN EXECUTE.
    pub(crate) fn explained_execute(
        &mut self,
        s: &nodes::ExplainStmt,
        e: &nodes::ExecuteStmt,
        statement: &Statement,
        runtime: &dyn Runtime,
    ) -> Result<(Arc<kilndb_plan::Plan>, Vec<kilndb_types::Datum>)> {
        let name = e.name().unwrap_or("");
        let prepared = self.find_prepared(name)?;
        let params = self.evaluate_arguments(e, statement.source(), &prepared.param_types.clone(), runtime)?;
        if !prepared.statement.as_ref().is_some_and(|inner| is_plannable(&inner.node())) {
            return Err(Error::unsupported("EXPLAIN of a utility statement is not supported"));
        }
        // It says what the EXECUTE would run into, and which kind of plan that would take. A plan that all values have
        // shows them too, as PostgreSQL's first plans do.
        let chosen = self.choose_plan(name, &prepared, &params, runtime)?;
        let is_generic = self.context.settings.plan_cache_mode == PlanCacheMode::ForceGenericPlan
            || !chosen.is_for_values && chosen.plan.is_better_for_values();
        let values = (!is_generic).then_some(params.as_slice());
        let by = crate::context::Explained { statement: s, source: statement.source() };
        let plan = prepared.plan_to_explain(by, values, &mut self.context, runtime)?;
        Ok((plan, params))
    }

    fn run_explain(
        &mut self,
        plan: &Arc<kilndb_plan::Plan>,
        params: &[kilndb_types::Datum],
        runtime: &dyn Runtime,
        client: &mut dyn Client,
    ) -> Result<String> {
        let formats = self.begin_rows(&plan.columns, &[], client);
        self.run_to_sink(plan, params, runtime, SinkMaker::Client { client, formats: &formats })?;
        Ok("EXPLAIN".to_string())
    }
}

/// The binary form of a text is the text.
fn send_text_row(client: &mut dyn Client, row: &[String], formats: &[i16]) -> Result<()> {
    client.data_row(row.len(), &mut |i, out| {
        known_format(formats, i)?;
        out.extend_from_slice(row[i].as_bytes());
        Ok(true)
    })
}
