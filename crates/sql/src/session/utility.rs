//! Commands that are not planned: transaction control, settings, prepared statements, maintenance, and the door to DDL.

use super::Session;
use super::modes::Modes;
use super::prepared::{is_plannable, row_columns};
use super::run::{SinkMaker, command_tag, known_format};
use crate::client::{Client, Runtime};
use crate::log::statement_tag;
use crate::settings::{SetBy, SettingScope, check_privilege, definition, unrecognized};
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_storage::{LockMode, WaitPolicy};
use kilndb_syntax::raw::{DiscardMode, TransactionStmtKind as T, VariableSetKind as V};
use kilndb_syntax::{ConstValue, Node, Statement, nodes};
use std::sync::Arc;

impl Session {
    /// Runs a utility command and returns its tag. `alone`: no other statement shares its message.
    pub(crate) fn run_utility(
        &mut self,
        statement: &Statement,
        alone: bool,
        runtime: &dyn Runtime,
        client: &mut dyn Client,
    ) -> Result<String> {
        let node = statement.node();
        self.note_command(statement_tag(&node));
        if let Node::TransactionStmt(t) = node {
            return self.transaction_command(t, runtime);
        }
        self.refuse_if_failed()?;
        if !super::utility_rows::may_give_rows(&node) {
            // What it runs within is not what the client has bound.
            self.utility_formats = None;
        }
        if self.in_explicit_block() && needs_snapshot(&node) {
            self.begin_statement(runtime)?;
            self.fix_snapshot(runtime)?;
        }
        let tag = match node {
            Node::VariableSetStmt(s) => {
                let tag = self.set_command(s, runtime)?;
                self.publish_settings(runtime);
                tag
            }
            Node::VariableShowStmt(s) => self.show_command(s, client)?,
            Node::PrepareStmt(s) => self.prepare_command(s, statement, runtime)?,
            Node::ExecuteStmt(s) => return self.execute_command(s, runtime, client),
            Node::DeallocateStmt(s) => self.deallocate_command(s)?,
            Node::DiscardStmt(s) => self.discard_command(s, runtime)?,
            Node::CheckPointStmt(_) => {
                self.instance.engine.checkpoint(runtime)?;
                "CHECKPOINT".to_string()
            }
            Node::VacuumStmt(s) => self.vacuum_command(s, alone, statement.source(), runtime)?,
            Node::AlterSystemStmt(s) => self.alter_system(s)?,
            Node::DeclareCursorStmt(s) => self.declare_cursor(s, statement, runtime)?,
            Node::FetchStmt(s) => return self.fetch_command(s, runtime, client),
            Node::ClosePortalStmt(s) => self.close_cursor(s.portalname())?,
            Node::LockStmt(s) => self.lock_command(s, runtime)?,
            Node::ConstraintsSetStmt(s) => self.set_constraints(s, runtime)?,
            Node::ListenStmt(s) => self.listen_command(s, runtime)?,
            Node::UnlistenStmt(s) => self.unlisten_command(s, runtime)?,
            Node::NotifyStmt(s) => self.notify_command(s, runtime)?,
            Node::CopyStmt(s) => return self.copy_command(s, statement, runtime, client),
            Node::ExplainStmt(s) => return self.explain_command(s, statement, runtime, client),
            Node::DoStmt(s) => self.do_command(s, statement.source(), runtime)?,
            Node::CallStmt(s) => self.call_command(s, statement.source(), runtime, client)?,
            _ => {
                let autonomous = matches!(node, Node::CreatedbStmt(_) | Node::DropdbStmt(_));
                if autonomous && !alone {
                    self.refuse_in_block(if matches!(node, Node::CreatedbStmt(_)) {
                        "CREATE DATABASE"
                    } else {
                        "DROP DATABASE"
                    })?;
                }
                if !alone
                    && matches!(node, Node::AlterTableStmt(s) if crate::ddl::partition_detach::detaches_concurrently(s))
                {
                    let message = "ALTER TABLE ... DETACH CONCURRENTLY cannot run inside a transaction block";
                    return Err(Error::new(sqlstate::ACTIVE_SQL_TRANSACTION, message));
                }
                return self.run_ddl(statement, runtime, client);
            }
        };
        if let Some(txn) = &mut self.txn {
            txn.next_command();
        }
        Ok(tag)
    }

    fn transaction_command(&mut self, t: &nodes::TransactionStmt, runtime: &dyn Runtime) -> Result<String> {
        let name = t.savepoint_name().unwrap_or("");
        let tag = match t.kind {
            T::TRANS_STMT_BEGIN | T::TRANS_STMT_START => {
                self.begin_block(runtime)?;
                self.transaction_modes(t.options())?;
                if t.kind == T::TRANS_STMT_BEGIN { "BEGIN" } else { "START TRANSACTION" }
            }
            T::TRANS_STMT_COMMIT => {
                let modes = self.modes();
                let tag = self.commit_block(runtime)?;
                self.chain(t.chain, modes, runtime)?;
                tag
            }
            T::TRANS_STMT_ROLLBACK => {
                let modes = self.modes();
                self.rollback_block(runtime)?;
                self.chain(t.chain, modes, runtime)?;
                "ROLLBACK"
            }
            T::TRANS_STMT_SAVEPOINT => {
                self.refuse_if_failed()?;
                self.savepoint(name)?;
                "SAVEPOINT"
            }
            T::TRANS_STMT_RELEASE => {
                self.refuse_if_failed()?;
                self.release_savepoint(name)?;
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
        self.continue_modes(modes)
    }

    fn set_command(&mut self, s: &nodes::VariableSetStmt, runtime: &dyn Runtime) -> Result<String> {
        let name = s.name().unwrap_or("");
        let scope = if s.is_local { SettingScope::Local } else { SettingScope::Session };
        if s.is_local && !self.lives_longer_than_statement() {
            self.warn_outside_block("SET LOCAL");
        }
        self.begin_statement(runtime)?;
        let mut tag = "SET";
        match s.kind {
            V::VAR_SET_VALUE => self.set_value(name, &given_value(s)?, scope)?,
            V::VAR_SET_DEFAULT | V::VAR_RESET => {
                if s.kind == V::VAR_RESET {
                    tag = "RESET";
                }
                self.reset_value(name, scope)?;
            }
            V::VAR_RESET_ALL => {
                self.settings.reset_all();
                tag = "RESET";
            }
            V::VAR_SET_CURRENT => {
                let current = self.settings.get(name).ok_or_else(|| unrecognized(name))?.to_string();
                self.settings.set(name, &current, scope)?;
            }
            V::VAR_SET_MULTI => match name {
                "TRANSACTION" => {
                    if !self.in_explicit_block() {
                        self.warn_outside_block("SET TRANSACTION");
                    }
                    self.transaction_modes(s.args())?;
                }
                "TRANSACTION SNAPSHOT" => {
                    if s.is_local {
                        return Err(Error::unsupported("SET LOCAL TRANSACTION SNAPSHOT is not implemented"));
                    }
                    if !self.in_explicit_block() {
                        self.warn_outside_block("SET TRANSACTION");
                    }
                    self.import_snapshot(&given_value(s)?)?;
                }
                "SESSION CHARACTERISTICS" => {
                    self.session_modes(s.args())?;
                }
                other => return Err(Error::unsupported(format!("SET {other} is not supported"))),
            },
            _ => return Err(Error::unsupported("this form of SET is not supported")),
        }
        Ok(tag.to_string())
    }

    fn warn_outside_block(&self, what: &str) {
        let message = format!("{what} can only be used in transaction blocks");
        self.own.scratch.notices.borrow_mut().push(Error::notice(
            sqlstate::NO_ACTIVE_SQL_TRANSACTION,
            Severity::Warning,
            message,
        ));
    }

    pub(crate) fn set_value(&mut self, name: &str, value: &str, scope: SettingScope) -> Result<()> {
        match set_by(name) {
            SetBy::Role => return self.set_role(value, scope),
            SetBy::SessionAuthorization => return self.set_session_authorization(Some(value), scope),
            SetBy::TransactionMode => return self.set_mode(name, value),
            SetBy::TemporaryBuffers => self.refuse_other_temp_buffers(value)?,
            SetBy::Value => {}
        }
        self.refuse_setting(name)?;
        self.settings.set(name, value, scope)
    }

    /// 42501 unless the role in force may set it.
    pub(crate) fn refuse_setting(&self, name: &str) -> Result<()> {
        match check_privilege(name, false) {
            Err(e) if !self.is_superuser() => Err(e),
            _ => Ok(()),
        }
    }

    fn reset_value(&mut self, name: &str, scope: SettingScope) -> Result<()> {
        match set_by(name) {
            SetBy::Role => self.reset_role(scope),
            SetBy::SessionAuthorization => self.set_session_authorization(None, scope),
            SetBy::TransactionMode => Err(Error::unsupported(format!("parameter \"{name}\" cannot be reset"))),
            SetBy::Value | SetBy::TemporaryBuffers => {
                self.refuse_setting(name)?;
                self.settings.reset(name, scope)
            }
        }
    }

    fn show_command(&mut self, s: &nodes::VariableShowStmt, client: &mut dyn Client) -> Result<String> {
        let name = s.name().unwrap_or("");
        if name != "all" && self.settings.get(name).is_none() {
            return Err(unrecognized(name));
        }
        let formats = self.begin_rows(&super::utility_rows::show_columns(name), &[], client);
        if name == "all" {
            for d in crate::settings::definitions() {
                let row = [d.name.to_string(), self.shown(d.name), String::new()];
                send_text_row(client, &row, &formats)?;
            }
            return Ok("SHOW".to_string());
        }
        send_text_row(client, &[self.shown(name)], &formats)?;
        Ok("SHOW".to_string())
    }

    fn prepare_command(
        &mut self,
        s: &nodes::PrepareStmt,
        statement: &Statement,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let name = s.name().unwrap_or("");
        if self.own.prepared.contains(name) {
            return Err(Error::new(
                sqlstate::DUPLICATE_PSTATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            ));
        }
        self.begin_statement(runtime)?;
        let mut types = Vec::new();
        for t in s.argtypes() {
            types.push(self.resolve_type(t, statement.source(), runtime)?.0);
        }
        let key = self.cache_key(statement.text(), &types);
        if let Some(known) =
            key.as_ref().and_then(|k| self.instance.statements.get(k)).filter(|known| self.may_take(known))
        {
            self.own.prepared.insert(name, known);
            return Ok("PREPARE".to_string());
        }
        // The inner statement is kept as a statement of its own, so that it can be planned again.
        let text = kilndb_syntax::statement_sql(s.query())?;
        let script = kilndb_syntax::parse(&text)?;
        let inner = script.statements().pop();
        let prepared = self.prepare_statement(statement.text(), inner, &types, true, runtime)?;
        self.share(key, &prepared);
        self.own.prepared.insert(name, prepared);
        Ok("PREPARE".to_string())
    }

    fn execute_command(
        &mut self,
        s: &nodes::ExecuteStmt,
        runtime: &dyn Runtime,
        client: &mut dyn Client,
    ) -> Result<String> {
        self.begin_statement(runtime)?;
        let prepared = self.find_prepared(s.name().unwrap_or(""))?;
        let params = self.evaluate_arguments(s, &prepared.param_types.clone(), runtime)?;
        let Some(inner) = &prepared.statement else { return Ok("EXECUTE".to_string()) };
        if !is_plannable(&inner.node()) {
            return self.run_utility(&inner.clone(), false, runtime, client);
        }
        let before = self.take_snapshot(runtime)?;
        let version = self.database.version();
        let plan = self.plan_of(&prepared, runtime)?;
        let again = self.lock_or_replan(&plan, version, runtime, |s| s.plan_of(&prepared, runtime))?;
        let plan = again.unwrap_or(plan);
        // As in PostgreSQL: a query sees the tables as they were before it waited for them, a change as they are.
        let snapshot = if plan.is_query() { before } else { self.take_snapshot(runtime)? };
        let formats = row_columns(&plan).map(|columns| self.begin_rows(columns, &[], client)).unwrap_or_default();
        let sink = SinkMaker::Client { client, formats: &formats };
        let progress = self.advance(&plan, &params, &mut None, snapshot, None, runtime, sink)?;
        Ok(command_tag(&plan, progress.rows))
    }

    pub(crate) fn evaluate_arguments(
        &mut self,
        s: &nodes::ExecuteStmt,
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
        for (argument, type_oid) in s.params().iter().zip(types) {
            values.push(self.evaluate_constant(argument, *type_oid, runtime)?);
        }
        Ok(values)
    }

    /// An argument of EXECUTE: any expression without columns.
    fn evaluate_constant(
        &mut self,
        argument: Node<'_>,
        type_oid: Oid,
        runtime: &dyn Runtime,
    ) -> Result<kilndb_types::Datum> {
        use kilndb_catalog::CatalogView;
        let text = kilndb_syntax::expression_sql(argument)?;
        let name = self.with_catalog(runtime, |host| Ok(host.reader.format_type(type_oid, -1)))?;
        let mut sink = super::run::RowsSink::default();
        self.query_seen(&format!("SELECT CAST(({text}) AS {name})"), runtime, &mut sink)?;
        Ok(sink.rows.into_iter().next().and_then(|r| r.into_iter().next()).unwrap_or_default())
    }

    fn deallocate_command(&mut self, s: &nodes::DeallocateStmt) -> Result<String> {
        match s.name() {
            Some(name) if !s.isall => {
                self.find_prepared(name)?;
                self.own.prepared.remove(name);
                Ok("DEALLOCATE".to_string())
            }
            _ => {
                self.own.prepared.clear();
                Ok("DEALLOCATE ALL".to_string())
            }
        }
    }

    fn discard_command(&mut self, s: &nodes::DiscardStmt, runtime: &dyn Runtime) -> Result<String> {
        Ok(match s.target {
            DiscardMode::DISCARD_PLANS => "DISCARD PLANS",
            DiscardMode::DISCARD_SEQUENCES => {
                self.forget_sequences();
                "DISCARD SEQUENCES"
            }
            DiscardMode::DISCARD_TEMP => {
                self.begin_statement(runtime)?;
                self.drop_own_temporary_objects(runtime)?;
                "DISCARD TEMP"
            }
            _ => {
                self.refuse_in_block("DISCARD ALL")?;
                self.begin_statement(runtime)?;
                self.own.portals.clear();
                self.own.prepared.clear();
                self.set_session_authorization(None, SettingScope::Session)?;
                self.settings.reset_all();
                self.forget_sequences();
                self.own.scratch.advisory.borrow_mut().take();
                self.unlisten_all(runtime)?;
                self.drop_own_temporary_objects(runtime)?;
                "DISCARD ALL"
            }
        }
        .to_string())
    }

    fn forget_sequences(&mut self) {
        self.own.scratch.currval.borrow_mut().clear();
        self.own.scratch.last_sequence.set(None);
        self.own.scratch.sequence_cache.borrow_mut().clear();
    }

    fn alter_system(&mut self, s: &nodes::AlterSystemStmt) -> Result<String> {
        if !self.is_superuser() {
            return Err(Error::new(
                sqlstate::INSUFFICIENT_PRIVILEGE,
                "permission denied to perform ALTER SYSTEM RESET ALL",
            ));
        }
        self.refuse_in_block("ALTER SYSTEM")?;
        let Some(set) = s.setstmt() else { return Err(Error::internal("ALTER SYSTEM without a setting")) };
        let (dir, fsync) = (self.instance.data_dir.clone(), self.instance.settings().flag("fsync"));
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

    fn do_command(&mut self, s: &nodes::DoStmt, source: &str, runtime: &dyn Runtime) -> Result<String> {
        let option = |name: &str| {
            s.args().iter().find(|d| d.defname() == Some(name)).and_then(|d| d.arg().as_str().map(str::to_string))
        };
        let body = option("as").ok_or_else(|| Error::new(sqlstate::SYNTAX_ERROR, "no inline code specified"))?;
        let language = option("language").unwrap_or_else(|| "plpgsql".to_string());
        self.begin_statement(runtime)?;
        if language == "sql" {
            return Err(Error::unsupported("language \"sql\" does not support inline code execution"));
        }
        self.run_inline(&language, &body, runtime).map_err(|e| crate::ddl::function::transposed(e, source, &body))?;
        Ok("DO".to_string())
    }

    fn lock_command(&mut self, s: &nodes::LockStmt, runtime: &dyn Runtime) -> Result<String> {
        if !self.lives_longer_than_statement() {
            return Err(Error::new(
                sqlstate::NO_ACTIVE_SQL_TRANSACTION,
                "LOCK TABLE can only be used in transaction blocks",
            ));
        }
        const MODES: [LockMode; 8] = [
            LockMode::AccessShare,
            LockMode::RowShare,
            LockMode::RowExclusive,
            LockMode::ShareUpdateExclusive,
            LockMode::Share,
            LockMode::ShareRowExclusive,
            LockMode::Exclusive,
            LockMode::AccessExclusive,
        ];
        let mode = usize::try_from(s.mode - 1).ok().and_then(|i| MODES.get(i)).copied();
        let mode = mode.ok_or_else(|| Error::internal("an unknown lock mode"))?;
        for relation in s.relations() {
            let Node::RangeVar(r) = relation else { continue };
            let table = self.table_of(r, runtime)?;
            let wait = if s.nowait { WaitPolicy::NoWait } else { WaitPolicy::Wait };
            if !self.lock_table(table.oid, mode, wait, runtime)? {
                let name = &table.name;
                return Err(Error::new(
                    sqlstate::LOCK_NOT_AVAILABLE,
                    format!("could not obtain lock on relation \"{name}\""),
                ));
            }
        }
        Ok("LOCK TABLE".to_string())
    }

    fn explain_command(
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
        self.begin_statement(runtime)?;
        let plan = self.make_plan(statement, &[], runtime)?;
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
        self.begin_statement(runtime)?;
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
        let prepared = self.find_prepared(e.name().unwrap_or(""))?;
        let params = self.evaluate_arguments(e, &prepared.param_types.clone(), runtime)?;
        if !prepared.statement.as_ref().is_some_and(|inner| is_plannable(&inner.node())) {
            return Err(Error::unsupported("EXPLAIN of a utility statement is not supported"));
        }
        // It says what the EXECUTE would run into.
        self.plan_of(&prepared, runtime)?;
        // As PostgreSQL's first executions: with values in place of parameters.
        let is_generic = self.settings.get("plan_cache_mode") == Some("force_generic_plan");
        let by = super::prepared::Explained {
            statement: s,
            source: statement.source(),
            values: (!is_generic).then_some(&params),
        };
        let plan = self.plan_to_explain(&prepared, by, runtime)?;
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

/// These commands leave it open what the transaction's later statements see.
fn needs_snapshot(node: &Node<'_>) -> bool {
    !matches!(
        node,
        Node::LockStmt(_)
            | Node::VariableSetStmt(_)
            | Node::VariableShowStmt(_)
            | Node::ConstraintsSetStmt(_)
            | Node::FetchStmt(_)
            | Node::ListenStmt(_)
            | Node::NotifyStmt(_)
            | Node::UnlistenStmt(_)
            | Node::CheckPointStmt(_)
    )
}

/// The binary form of a text is the text.
fn send_text_row(client: &mut dyn Client, row: &[String], formats: &[i16]) -> Result<()> {
    client.data_row(row.len(), &mut |i, out| {
        known_format(formats, i)?;
        out.extend_from_slice(row[i].as_bytes());
        Ok(true)
    })
}

pub(crate) fn const_text(c: &nodes::A_Const) -> String {
    match c.val() {
        Some(ConstValue::Integer(i)) => i.to_string(),
        Some(ConstValue::Float(f)) => f.to_string(),
        Some(ConstValue::Boolean(b)) => b.to_string(),
        Some(ConstValue::String(s) | ConstValue::BitString(s)) => s.to_string(),
        _ => String::new(),
    }
}

/// A value in SET: a constant, or an interval's cast in SET TIME ZONE.
fn setting_argument(node: Node<'_>, name: &str) -> Result<String> {
    match node {
        Node::A_Const(c) => Ok(const_text(c)),
        Node::TypeCast(t) => match t.arg() {
            Node::A_Const(c) => time_zone_of_interval(&const_text(c), t),
            _ => Err(Error::unsupported(format!("this value for \"{name}\" is not supported"))),
        },
        _ => Err(Error::unsupported(format!("this value for \"{name}\" is not supported"))),
    }
}

/// SET TIME ZONE INTERVAL '…' HOUR TO MINUTE: the grammar has intervals nowhere else.
fn time_zone_of_interval(text: &str, cast: &nodes::TypeCast) -> Result<String> {
    let fields = cast.type_name().and_then(|t| t.typmods().into_iter().next());
    let range = match fields {
        Some(Node::A_Const(c)) => {
            if let Some(ConstValue::Integer(range)) = c.val() {
                range
            } else {
                -1
            }
        }
        _ => -1,
    };
    let typmod = if range < 0 { -1 } else { (range << 16) | 0xffff };
    let format = kilndb_types::FormatSettings::default();
    let random_state = std::cell::Cell::new([0; 2]);
    let cx = kilndb_types::EvalContext {
        format: &format,
        transaction_timestamp: 0,
        statement_timestamp: 0,
        host: &kilndb_types::context::NoHost,
        random_state: &random_state,
    };
    let interval = kilndb_types::datetime::interval::interval_in(text, typmod, &cx)?;
    let beyond = if interval.months != 0 { "months" } else { "days" };
    if interval.months != 0 || interval.days != 0 {
        let error = Error::new(
            sqlstate::INVALID_PARAMETER_VALUE,
            format!("invalid value for parameter \"TimeZone\": \"INTERVAL '{text}'\""),
        );
        return Err(error.with_detail(format!("Cannot specify {beyond} in time zone interval.")));
    }
    Ok(kilndb_types::datetime::zone::fixed_name((interval.micros / 1_000_000) as i32))
}

/// The value that a SET names, as text.
pub(crate) fn given_value(s: &nodes::VariableSetStmt) -> Result<String> {
    let name = s.name().unwrap_or("");
    let mut values = Vec::new();
    for arg in s.args() {
        values.push(setting_argument(arg, name)?);
    }
    if values.len() > 1 && !is_list(name) {
        return Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, format!("SET {name} takes only one argument")));
    }
    Ok(join_setting(name, &values))
}

/// What a change of the setting is; of what users have made up it is a value.
fn set_by(name: &str) -> SetBy {
    definition(name).map_or(SetBy::Value, |d| d.descriptor.set_by)
}

/// Settings that are lists in PostgreSQL.
fn is_list(name: &str) -> bool {
    let known = [
        "createrole_self_grant",
        "datestyle",
        "debug_io_direct",
        "listen_addresses",
        "local_preload_libraries",
        "log_connections",
        "log_destination",
        "restrict_nonsystem_relation_kind",
        "search_path",
        "session_preload_libraries",
        "shared_preload_libraries",
        "synchronized_standby_slots",
        "synchronous_standby_names",
        "temp_tablespaces",
        "unix_socket_directories",
        "wal_consistency_checking",
    ];
    known.contains(&name.to_ascii_lowercase().as_str())
}

/// Lists (search_path, DateStyle) are kept as text with quotes where a name needs them.
fn join_setting(name: &str, values: &[String]) -> String {
    let is_name_list =
        matches!(name.to_ascii_lowercase().as_str(), "search_path" | "temp_tablespaces" | "local_preload_libraries");
    if is_name_list {
        let quoted: Vec<String> = values.iter().map(|v| kilndb_catalog::format_type::quote_identifier(v)).collect();
        return quoted.join(", ");
    }
    values.join(", ")
}
