//! Running a plan: locks, snapshot, execution, and rows on their way to the client.

use super::Session;
use super::environment::{Environment, StatementHost};
use crate::client::{Client, FieldInfo, Runtime};
use crate::routine::Routines;
use kilndb_base::hash::{HashSet, HashSetExt};
use kilndb_base::{Error, Oid, Result, sqlstate, work};
use kilndb_bind::ir::LockStrength;
use kilndb_catalog::changes::Asked;
use kilndb_catalog::lock_class::RELATION_LOCK;
use kilndb_catalog::temporary::is_temporary;
use kilndb_exec::stats::Usage;
use kilndb_exec::{ExecContext, Execution, PendingChecks, Progress, RowSink, TransactionSlot};
use kilndb_plan::Plan;
use kilndb_plan::node::{Node, Op, OutputColumn};
use kilndb_storage::{LockMode, LockTag, Snapshot, WaitPolicy};
use kilndb_types::{Datum, EvalContext, io};
use std::sync::Arc;

/// What changing a setting is taken for.
const UNITS_PER_SETTING: usize = 2000;

/// Sends rows to the client in the formats it asked for.
pub(crate) struct ClientSink<'a> {
    pub client: &'a mut dyn Client,
    pub columns: &'a [OutputColumn],
    pub formats: &'a [i16],
    pub eval: EvalContext<'a>,
}

pub(crate) fn format_of(formats: &[i16], column: usize) -> i16 {
    match formats {
        [] => 0,
        [one] => *one,
        many => many.get(column).copied().unwrap_or(0),
    }
}

/// How a value goes over the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    Text,
    Binary,
}

/// 22023 for a format code that there is not.
pub(crate) fn known_format(formats: &[i16], column: usize) -> Result<Format> {
    match format_of(formats, column) {
        0 => Ok(Format::Text),
        1 => Ok(Format::Binary),
        other => Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, format!("unsupported format code: {other}"))),
    }
}

/// 08P01 unless the formats are none, one for all columns, or one for each.
pub(crate) fn check_result_formats(formats: &[i16], columns: &[OutputColumn]) -> Result<()> {
    let (given, wanted) = (formats.len(), columns.len());
    if given <= 1 || given == wanted {
        return Ok(());
    }
    Err(Error::new(
        sqlstate::PROTOCOL_VIOLATION,
        format!("bind message has {given} result formats but query has {wanted} columns"),
    ))
}

impl RowSink for ClientSink<'_> {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        let (columns, formats, eval) = (self.columns, self.formats, &self.eval);
        self.client.data_row(columns.len(), &mut |i, out| {
            let (value, column, format) = (&values[i], &columns[i], known_format(formats, i)?);
            match format {
                _ if value.is_null() => return Ok(false),
                Format::Text => io::output_typmod(column.type_oid, column.typmod, value, out, eval)?,
                Format::Binary => io::send_typmod(column.type_oid, column.typmod, value, out, eval)?,
            }
            Ok(true)
        })
    }
}

/// A sink for statements whose rows nobody wants.
pub(crate) struct NullSink;
impl RowSink for NullSink {
    fn row(&mut self, _values: &[Datum]) -> Result<()> {
        Ok(())
    }
}

/// Keeps the rows.
#[derive(Default)]
pub(crate) struct RowsSink {
    pub rows: Vec<Vec<Datum>>,
}
impl RowSink for RowsSink {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        self.rows.push(values.to_vec());
        Ok(())
    }
}

pub(crate) fn column_types(plan: &Plan) -> Vec<(Oid, i32)> {
    plan.columns.iter().map(|c| (c.type_oid, c.typmod)).collect()
}

pub(crate) fn describe(columns: &[OutputColumn], formats: &[i16], client: &mut dyn Client) {
    let fields: Vec<FieldInfo<'_>> = columns
        .iter()
        .enumerate()
        .map(|(i, c)| FieldInfo {
            name: &c.name,
            table_oid: c.table_oid,
            attnum: c.attnum,
            type_oid: c.shown_type,
            type_len: c.type_len,
            typmod: c.shown_typmod,
            format: format_of(formats, i),
        })
        .collect();
    client.row_description(&fields);
}

impl Session {
    /// Takes the table locks that a plan needs.
    pub(crate) fn lock_tables(&mut self, plan: &Plan, runtime: &dyn Runtime) -> Result<()> {
        for (table, mode) in &plan.locks {
            self.lock_table(*table, *mode, WaitPolicy::Wait, runtime)?;
        }
        Ok(())
    }

    /// Takes the table locks of a plan that was made when the catalogs were of `version`. False: what it uses has
    /// changed since, or may have, while this waited: another plan is to be made, with these locks held.
    pub(crate) fn lock_plan(&mut self, plan: &Plan, version: u64, runtime: &dyn Runtime) -> Result<bool> {
        self.check_read_only(plan)?;
        self.lock_tables(plan, runtime)?;
        Ok(self.database.still_fits(version, &plan.objects, &plan.names).is_some())
    }

    /// Has `attempt` make a plan. It looks at definitions before their tables are locked: if it fails, the reason may be
    /// that another session is just changing what it has found. So it is repeated once that is locked as whoever reads
    /// it does, and has changed meanwhile.
    pub(crate) fn plan_or_lock<T>(
        &mut self,
        runtime: &dyn Runtime,
        mut attempt: impl FnMut(&mut Session, &Asked) -> Result<T>,
    ) -> Result<T> {
        let mut locked = HashSet::new();
        loop {
            let (version, asked) = (self.database.version(), Asked::default());
            let failed = match attempt(self, &asked) {
                Err(e) => e,
                made => return made,
            };
            let found: Vec<Oid> = asked.objects.take().into_iter().collect();
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
    pub(crate) fn lock_or_replan(
        &mut self,
        plan: &Plan,
        version: u64,
        runtime: &dyn Runtime,
        mut plan_anew: impl FnMut(&mut Session) -> Result<Arc<Plan>>,
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

    pub(crate) fn lock_table(
        &mut self,
        table: Oid,
        mode: LockMode,
        wait: WaitPolicy,
        runtime: &dyn Runtime,
    ) -> Result<bool> {
        // System tables are protected by their row versions alone; temporary ones are nobody else's.
        if table < kilndb_catalog::builtin::FIRST_USER_OID || is_temporary(table) {
            return Ok(true);
        }
        let tag = LockTag(RELATION_LOCK, u64::from(self.database.oid), u64::from(table));
        let txn = self.txn.as_mut().ok_or_else(|| Error::internal("no transaction to hold a table lock"))?;
        txn.lock(tag, mode, wait, runtime)
    }

    pub(crate) fn check_read_only(&self, plan: &Plan) -> Result<()> {
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

    /// Runs a plan from start to end into `sink`; returns the rows counted for the command tag.
    pub(crate) fn run_to_sink(
        &mut self,
        plan: &Arc<Plan>,
        params: &[Datum],
        runtime: &dyn Runtime,
        make_sink: SinkMaker<'_>,
    ) -> Result<Progress> {
        self.check_read_only(plan)?;
        self.lock_tables(plan, runtime)?;
        self.run_locked(plan, params, runtime, make_sink)
    }

    /// As [`Session::run_to_sink`], with the locks that the plan needs.
    pub(crate) fn run_locked(
        &mut self,
        plan: &Arc<Plan>,
        params: &[Datum],
        runtime: &dyn Runtime,
        make_sink: SinkMaker<'_>,
    ) -> Result<Progress> {
        let snapshot = self.take_snapshot(runtime)?;
        let mut execution = None;
        let progress = self.advance(plan, params, &mut execution, snapshot, None, runtime, make_sink)?;
        Ok(progress)
    }

    /// Starts an execution or goes on with it, for at most `max_rows` rows.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn advance(
        &mut self,
        plan: &Arc<Plan>,
        params: &[Datum],
        execution: &mut Option<Box<Execution>>,
        snapshot: Snapshot,
        max_rows: Option<u64>,
        runtime: &dyn Runtime,
        make_sink: SinkMaker<'_>,
    ) -> Result<Progress> {
        let environment = self.environment_at(&snapshot, runtime)?;
        let host = environment.host();
        let txn = self.txn.take().ok_or_else(|| Error::internal("no transaction to run a statement in"))?;
        let mut txn = TransactionSlot::new(txn);
        let (mut pending, mut usage) = (std::mem::take(&mut self.pending), std::mem::take(&mut self.usage));
        let done = self.advance_with(
            &environment,
            &host,
            (&mut txn, &mut pending, &mut usage),
            plan,
            params,
            execution,
            snapshot,
            max_rows,
            runtime,
            make_sink,
        );
        (self.pending, self.usage) = (pending, usage);
        self.txn = txn.into_inner();
        let progress = done?;
        txn_next_command(self);
        self.apply_set_config()?;
        Ok(progress)
    }

    /// Runs the plan with what was taken out of the session, which is there for the routines that the plan calls.
    #[allow(clippy::too_many_arguments)]
    fn advance_with(
        &mut self,
        environment: &Environment<'_>,
        host: &StatementHost<'_>,
        (txn, pending, usage): (&mut TransactionSlot, &mut PendingChecks, &mut Usage),
        plan: &Arc<Plan>,
        params: &[Datum],
        execution: &mut Option<Box<Execution>>,
        snapshot: Snapshot,
        max_rows: Option<u64>,
        runtime: &dyn Runtime,
        make_sink: SinkMaker<'_>,
    ) -> Result<Progress> {
        let settings = &environment.settings;
        let mut routines = Routines { session: self, plan, runtime };
        let mut cx = ExecContext {
            engine: &environment.own.instance.engine,
            txn,
            snapshot,
            park: runtime,
            eval: host.eval(),
            catalog: &host.reader,
            session: host,
            work_mem_bytes: settings.work_mem_bytes as usize,
            hash_mem_bytes: settings.hash_mem_bytes as usize,
            temp: &environment.own.database.temp,
            source: None,
            pending,
            helpers: Some((&environment.own.instance.helpers, settings.helpers_per_query)),
            usage,
            routines: Some(&mut routines),
        };
        if execution.is_none() {
            *execution = Some(Box::new(Execution::start(plan.clone(), params, &mut cx)?));
        }
        let Some(running) = execution else { return Err(Error::internal("an execution vanished")) };
        if max_rows == Some(0) {
            return Ok(Progress { rows: 0, finished: false });
        }
        match make_sink {
            SinkMaker::Client { client, formats } => {
                let mut sink = ClientSink { client, columns: &plan.columns, formats, eval: host.eval() };
                running.run(&mut cx, max_rows, &mut sink)
            }
            SinkMaker::Sink(sink) => running.run(&mut cx, max_rows, sink),
            SinkMaker::Copy(parts) => {
                let mut sink = parts.sink(host.eval());
                running.run(&mut cx, max_rows, &mut *sink)
            }
            SinkMaker::Source(source) => {
                cx.source = Some(source);
                running.run(&mut cx, max_rows, &mut NullSink)
            }
        }
    }

    fn apply_set_config(&mut self) -> Result<()> {
        use crate::settings::SettingScope;
        for setting in self.own.scratch.set_config.take().into_list() {
            work::step(UNITS_PER_SETTING)?;
            let scope = if setting.is_local { SettingScope::Local } else { SettingScope::Session };
            self.set_value(&setting.name, &setting.value, scope)?;
        }
        Ok(())
    }
}

/// What follows in the transaction sees what this command did.
fn txn_next_command(session: &mut Session) {
    if let Some(txn) = &mut session.txn {
        txn.next_command();
    }
}

pub(crate) enum SinkMaker<'a> {
    Client {
        client: &'a mut dyn Client,
        formats: &'a [i16],
    },
    Sink(&'a mut dyn RowSink),
    Copy(&'a mut dyn crate::copy::SinkParts),
    /// Rows come from here (COPY FROM); results go nowhere.
    Source(&'a mut dyn kilndb_exec::RowSource),
}

/// `SELECT 3`, `INSERT 0 1`, ….
pub(crate) fn command_tag(plan: &Plan, rows: u64) -> String {
    match plan.command {
        "INSERT" => format!("INSERT 0 {rows}"),
        "EXPLAIN" => "EXPLAIN".to_string(),
        command => format!("{command} {rows}"),
    }
}

/// 54000 for more parameters than the protocol counts.
pub(crate) fn check_parameter_count(given: usize, needed: usize, name: &str) -> Result<()> {
    if given == needed {
        return Ok(());
    }
    Err(Error::new(
        sqlstate::PROTOCOL_VIOLATION,
        format!("bind message supplies {given} parameters, but prepared statement \"{name}\" requires {needed}"),
    ))
}

fn first_row_lock(node: &Node) -> Option<LockStrength> {
    match &node.op {
        Op::LockRows { targets, .. } => targets.first().map(|t| t.strength),
        _ => node.children().into_iter().find_map(|child| first_row_lock(child)),
    }
}
