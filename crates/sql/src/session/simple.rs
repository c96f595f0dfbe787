//! The simple query protocol: a script in one message.

use super::Session;
use super::command::{command_of, may_run_when_failed};
use super::logging::LoggedStep;
use super::prepared::row_columns;
use super::run::{SinkMaker, command_tag, describe};
use super::template::look_up;
use crate::client::{Client, Runtime};
use crate::context::Block;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_plan::Plan;
use kilndb_syntax::Statement;
use kilndb_syntax::literals::Scanned;
use kilndb_types::Datum;
use std::sync::Arc;

impl Session {
    pub fn simple_query(&mut self, sql: &str, runtime: &dyn Runtime, client: &mut dyn Client) -> Result<()> {
        self.statements.prepared.remove("");
        self.statements.portals.remove("");
        self.statement_started(sql, None, runtime);
        let done = self.run_script(sql, runtime, client);
        let done = match done {
            Ok(()) => self.finish_implicit(runtime),
            Err(e) => Err(e),
        };
        self.send_notices(client);
        if done.is_ok() && self.context.times_statement() {
            self.log_duration(LoggedStep::Query { sql }, runtime);
        }
        self.statement_ended(runtime);
        if done.is_ok() {
            self.log.end();
        }
        done
    }

    fn run_script(&mut self, sql: &str, runtime: &dyn Runtime, client: &mut dyn Client) -> Result<()> {
        let mut scanned = std::mem::take(&mut self.scanned);
        let done = self.run_scanned(sql, &mut scanned, runtime, client);
        self.scanned = scanned;
        done
    }

    /// `scanned`: room for the scanner's results.
    fn run_scanned(
        &mut self,
        sql: &str,
        scanned: &mut Scanned,
        runtime: &dyn Runtime,
        client: &mut dyn Client,
    ) -> Result<()> {
        let lookup = look_up(&self.context, sql, scanned);
        let known = lookup.as_ref().and_then(|l| self.instance.templates.find(l, sql, scanned, &self.context));
        if let Some(class) = known.as_ref().and_then(|t| t.logged_class())
            && self.context.settings.log.statements.includes(class)
        {
            self.log_statement(LoggedStep::Query { sql }, runtime);
        }
        if let Some(template) = &known
            && let Some(tag) = self.run_template(template, sql, scanned, runtime, client)?
        {
            return self.complete_alone(&tag, runtime, client);
        }
        let script = kilndb_syntax::parse(sql)?;
        let statements = script.statements();
        if self.context.tells_of_statements() {
            self.log_script(&statements, sql, runtime);
        }
        if let (Some(lookup), None, [statement]) = (&lookup, &known, statements.as_slice())
            && let Some(template) = self.make_template(lookup, statement, sql, scanned, runtime)?
            && let Some(tag) = self.run_template(&template, sql, scanned, runtime, client)?
        {
            return self.complete_alone(&tag, runtime, client);
        }
        self.run_statements(statements, runtime, client)
    }

    fn run_statements(
        &mut self,
        statements: Vec<Statement>,
        runtime: &dyn Runtime,
        client: &mut dyn Client,
    ) -> Result<()> {
        if statements.is_empty() {
            client.empty_query();
            return Ok(());
        }
        let alone = statements.len() == 1;
        for statement in &statements {
            if self.context.transaction.block == Block::Failed && !may_run_when_failed(&statement.node()) {
                self.context.refuse_if_failed()?;
            }
            let tag = self.run_statement(statement, alone, runtime, client)?;
            // The last statement's own commit comes before its tag: a failing commit must not be preceded by success.
            if alone || !self.is_script_open() {
                self.finish_implicit(runtime)?;
            }
            self.send_notices(client);
            client.command_complete(&tag);
        }
        Ok(())
    }

    /// Statements of one script share a transaction.
    fn is_script_open(&self) -> bool {
        self.context.transaction.block == Block::Implicit
    }

    /// Runs one statement and returns its command tag. `alone`: no other statement shares its message.
    fn run_statement(
        &mut self,
        statement: &Statement,
        alone: bool,
        runtime: &dyn Runtime,
        client: &mut dyn Client,
    ) -> Result<String> {
        let node = statement.node();
        let command = command_of(&node);
        if command.is_planned() {
            self.note_command((command.tag)(node), runtime);
            self.context.begin_statement(runtime)?;
            self.context.fix_snapshot(runtime)?;
            let version = self.context.database.version();
            let plan = self.context.make_plan(statement, &[], runtime)?;
            let again = self
                .context
                .lock_or_replan(&plan, version, runtime, |context| context.make_plan(statement, &[], runtime))?;
            let plan = again.unwrap_or(plan);
            if !plan.param_types.is_empty() {
                return Err(Error::new(sqlstate::UNDEFINED_PARAMETER, "there is no parameter $1"));
            }
            return self.run_plan_for_client(&plan, &[], runtime, client);
        }
        self.run_utility(statement, alone, runtime, client)
    }

    /// The tables are locked.
    pub(super) fn run_plan_for_client(
        &mut self,
        plan: &Arc<Plan>,
        params: &[Datum],
        runtime: &dyn Runtime,
        client: &mut dyn Client,
    ) -> Result<String> {
        if let Some(columns) = row_columns(plan) {
            describe(columns, &[], client);
        }
        let progress = self.run_locked(plan, params, runtime, SinkMaker::Client { client, formats: &[] })?;
        self.note_duration(plan, runtime);
        Ok(command_tag(plan, progress.rows))
    }

    /// `prepared`: the number of the prepared statement whose text it is.
    pub(super) fn statement_started(&mut self, sql: &str, prepared: Option<u64>, runtime: &dyn Runtime) {
        use kilndb_base::sync::atomic::Ordering;
        let control = runtime.control();
        control.cancel_requested.store(false, Ordering::Release);
        let now = self.context.now();
        self.count_time(false, now);
        self.log.begin(now);
        self.context.shared.temp_space.ask_for_removed(self.context.settings.log.temp_files_bytes.is_some());
        control
            .statement_deadline_nanos
            .store(crate::client::deadline_after(self.context.settings.statement_timeout_ms), Ordering::Relaxed);
        control.idle_deadline_nanos.store(0, Ordering::Relaxed);
        let is_shown = prepared.is_some() && self.shown_statement == prepared;
        self.shown_statement = prepared;
        self.context.update_activity(runtime, |a| {
            a.state = "active";
            a.query_start = Some(now);
            a.state_change = now;
            if !is_shown {
                a.query.clear();
                let end = (0..=sql.len().min(1023)).rev().find(|i| sql.is_char_boundary(*i)).unwrap_or(0);
                a.query.push_str(&sql[..end]);
            }
        });
    }

    pub(super) fn statement_ended(&mut self, runtime: &dyn Runtime) {
        runtime.control().statement_deadline_nanos.store(0, kilndb_base::sync::atomic::Ordering::Relaxed);
        self.log_temporary_files();
        let now = self.context.now();
        self.count_time(true, now);
        let state = match self.status() {
            b'T' => "idle in transaction",
            b'E' => "idle in transaction (aborted)",
            _ => "idle",
        };
        let ended = self.context.transaction.txn.is_none();
        self.set_idle_deadlines(runtime);
        self.publish_settings(runtime);
        let owner = self.context.shared.scratch.advisory.borrow().as_ref().map(kilndb_storage::LockOwner::id);
        self.context.update_activity(runtime, |a| {
            if ended {
                (a.lock_owner, a.xact_start) = (owner, None);
            }
            a.state = state;
            a.state_change = now;
        });
    }
}

impl Session {
    /// What limits the time until the next statement.
    fn set_idle_deadlines(&self, runtime: &dyn Runtime) {
        use kilndb_base::sync::atomic::Ordering;
        let control = runtime.control();
        let in_transaction = self.context.transaction.txn.is_some() || self.context.in_explicit_failure();
        if !in_transaction {
            control.transaction_deadline_nanos.store(0, Ordering::Relaxed);
        }
        let limit_ms = if in_transaction {
            self.context.settings.idle_in_transaction_timeout_ms
        } else {
            self.context.settings.idle_session_timeout_ms
        };
        control.idle_deadline_nanos.store(crate::client::deadline_after(limit_ms), Ordering::Relaxed);
    }
}
