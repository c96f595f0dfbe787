//! Running a plan: locks, snapshot, execution, and rows on their way to the client.

use super::Session;
use crate::client::{Client, FieldInfo, MessageMaker, Runtime};
use crate::host::Environment;
use crate::host::NullSink;
use crate::routine::Routines;
use kilndb_base::env::process_monotonic_nanos;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_exec::stats::Usage;
use kilndb_exec::{
    ExecContext, Execution, PendingChecks, PrintedRows, RowPrinter, RowSink, RunProgress, TransactionSlot,
};
use kilndb_plan::Plan;
use kilndb_plan::measured::MeasuredCost;
use kilndb_plan::node::OutputColumn;
use kilndb_storage::Snapshot;
use kilndb_types::context::is_shown_by_settings;
use kilndb_types::io::ShownColumn;
use kilndb_types::vector::{Rows, Vector};
use kilndb_types::{Datum, EvalContext, io};
use std::sync::Arc;

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
    fn takes_columns(&self) -> bool {
        true
    }
    fn columns(&mut self, vectors: &[Vector], rows: Rows<'_>) -> Result<()> {
        let (columns, formats, eval) = (self.columns, self.formats, &self.eval);
        let shown: Vec<ShownColumn<'_>> =
            columns.iter().zip(vectors).map(|(c, vector)| ShownColumn::new(vector, c.type_oid, c.typmod)).collect();
        rows.try_each(|row| {
            self.client
                .data_row(shown.len(), &mut |i, out| append_shown(&shown[i], row, known_format(formats, i)?, out, eval))
        })
    }
    fn printer(&self) -> Option<Arc<dyn RowPrinter>> {
        let messages = self.client.messages()?;
        let formats =
            (0..self.columns.len()).map(|i| known_format(self.formats, i).ok()).collect::<Option<Vec<_>>>()?;
        let types: Vec<(Oid, i32)> = self.columns.iter().map(|c| (c.type_oid, c.typmod)).collect();
        let are_plain = types.iter().all(|(type_oid, _)| is_shown_by_settings(*type_oid));
        are_plain.then(|| Arc::new(DataRowPrinter { messages, formats, types }) as Arc<dyn RowPrinter>)
    }
    fn printed(&mut self, rows: &PrintedRows) -> Result<()> {
        self.client.send_made(&rows.bytes)
    }
}

/// Appends a value of a column; false: it is NULL.
fn append_shown(
    column: &ShownColumn<'_>,
    row: usize,
    format: Format,
    out: &mut Vec<u8>,
    eval: &EvalContext<'_>,
) -> Result<bool> {
    match format {
        _ if column.is_null(row) => return Ok(false),
        Format::Text => column.append_text(row, out, eval)?,
        Format::Binary => column.append_binary(row, out, eval)?,
    }
    Ok(true)
}

/// Makes the messages of a client's rows.
struct DataRowPrinter {
    messages: &'static dyn MessageMaker,
    formats: Vec<Format>,
    types: Vec<(Oid, i32)>,
}

impl RowPrinter for DataRowPrinter {
    fn print(&self, columns: &[Vector], rows: Rows<'_>, eval: &EvalContext<'_>, out: &mut PrintedRows) -> Result<()> {
        let columns = self.types.iter().zip(columns);
        let shown: Vec<ShownColumn<'_>> =
            columns.map(|((type_oid, typmod), vector)| ShownColumn::new(vector, *type_oid, *typmod)).collect();
        rows.try_each(|row| {
            let mut write = |i: usize, out: &mut Vec<u8>| append_shown(&shown[i], row, self.formats[i], out, eval);
            self.messages.data_row(shown.len(), &mut write, &mut out.bytes)?;
            out.rows += 1;
            Ok(())
        })
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
    /// Runs a plan from start to end into `sink`; returns the rows counted for the command tag.
    pub(crate) fn run_to_sink(
        &mut self,
        plan: &Arc<Plan>,
        params: &[Datum],
        runtime: &dyn Runtime,
        make_sink: SinkMaker<'_>,
    ) -> Result<RunProgress> {
        self.context.check_read_only(plan)?;
        self.context.lock_tables(plan, runtime)?;
        self.run_locked(plan, params, runtime, make_sink)
    }

    /// As [`Session::run_to_sink`], with the locks that the plan needs.
    pub(crate) fn run_locked(
        &mut self,
        plan: &Arc<Plan>,
        params: &[Datum],
        runtime: &dyn Runtime,
        make_sink: SinkMaker<'_>,
    ) -> Result<RunProgress> {
        let snapshot = self.context.take_snapshot(runtime)?;
        self.advance(PlanRun::whole(plan, params, snapshot), &mut None, runtime, make_sink)
    }

    /// Starts an execution or goes on with it.
    pub(crate) fn advance(
        &mut self,
        request: PlanRun<'_>,
        execution: &mut Option<Box<Execution>>,
        runtime: &dyn Runtime,
        make_sink: SinkMaker<'_>,
    ) -> Result<RunProgress> {
        if execution.is_none() {
            self.context.check_access(request.plan)?;
        }
        let environment = self.context.environment_at(&request.snapshot, runtime)?;
        let transaction = &mut self.context.transaction;
        let txn = transaction.txn.take().ok_or_else(|| Error::internal("no transaction to run a statement in"))?;
        let mut lent = Lent {
            txn: TransactionSlot::new(txn),
            pending: std::mem::take(&mut transaction.pending),
            usage: std::mem::take(&mut transaction.usage),
        };
        let clock = request.plan.measured.clone().map(|cost| ExecutionClock::start(cost, runtime));
        let is_last = request.is_last;
        let done = self.advance_with(&environment, &mut lent, request, execution, make_sink);
        let transaction = &mut self.context.transaction;
        (transaction.pending, transaction.usage) = (lent.pending, lent.usage);
        transaction.txn = lent.txn.into_inner();
        let progress = done?;
        if let (Some(clock), Some(running)) = (clock, execution.as_mut()) {
            clock.stop(running, progress.finished || is_last, runtime);
        }
        // What follows in the transaction sees what this command did.
        if let Some(txn) = &mut transaction.txn {
            txn.next_command();
        }
        self.context.apply_set_config()?;
        Ok(progress)
    }

    /// Runs the plan with what was taken out of the session, which is there for the routines that the plan calls.
    fn advance_with(
        &mut self,
        environment: &Environment<'_>,
        lent: &mut Lent,
        request: PlanRun<'_>,
        execution: &mut Option<Box<Execution>>,
        make_sink: SinkMaker<'_>,
    ) -> Result<RunProgress> {
        let PlanRun { plan, params, snapshot, max_rows, .. } = request;
        let (host, runtime) = (&environment.host(), environment.runtime);
        let settings = &environment.settings;
        let mut routines = Routines { session: self, plan, runtime };
        let mut cx = ExecContext {
            engine: &environment.shared.cluster.engine,
            txn: &mut lent.txn,
            snapshot: snapshot.into(),
            park: runtime,
            eval: host.eval(),
            catalog: &host.reader,
            session: host,
            work_mem_bytes: settings.work_mem_bytes as usize,
            hash_mem_bytes: settings.hash_mem_bytes as usize,
            temp: &environment.shared.temp_space,
            source: None,
            pending: &mut lent.pending,
            helpers: Some((&environment.shared.cluster.helpers, settings.helpers_per_query)),
            usage: &mut lent.usage,
            routines: Some(&mut routines),
        };
        if execution.is_none() {
            *execution = Some(Box::new(Execution::start(plan.clone(), params, &mut cx)?));
        }
        let Some(running) = execution else { return Err(Error::internal("an execution vanished")) };
        if max_rows == Some(0) {
            return Ok(RunProgress { rows: 0, finished: false });
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
}

/// Measures a part of an execution, up to where it stops or ends.
struct ExecutionClock {
    cost: Arc<MeasuredCost>,
    began_nanos: u64,
    waited_nanos: u64,
}

impl ExecutionClock {
    fn start(cost: Arc<MeasuredCost>, runtime: &dyn Runtime) -> ExecutionClock {
        ExecutionClock { cost, began_nanos: process_monotonic_nanos(), waited_nanos: runtime.waited_nanos() }
    }
    fn stop(self, execution: &mut Execution, is_finished: bool, runtime: &dyn Runtime) {
        let waited = runtime.waited_nanos() - self.waited_nanos;
        let busy = (process_monotonic_nanos() - self.began_nanos).saturating_sub(waited);
        let total = execution.add_busy_nanos(busy);
        if is_finished {
            self.cost.add(total);
        }
    }
}

/// A plan that is to run.
pub(crate) struct PlanRun<'a> {
    pub plan: &'a Arc<Plan>,
    pub params: &'a [Datum],
    pub snapshot: Snapshot,
    /// After so many rows it stops, and may go on later.
    pub max_rows: Option<u64>,
    /// Nobody goes on with it, even if it was not at its end: it counts as a whole execution.
    pub is_last: bool,
}

impl<'a> PlanRun<'a> {
    /// Up to so many rows; somebody may go on with it.
    pub fn part(plan: &'a Arc<Plan>, params: &'a [Datum], snapshot: Snapshot, max_rows: Option<u64>) -> PlanRun<'a> {
        PlanRun { plan, params, snapshot, max_rows, is_last: false }
    }
    /// To its end.
    pub fn whole(plan: &'a Arc<Plan>, params: &'a [Datum], snapshot: Snapshot) -> PlanRun<'a> {
        PlanRun { plan, params, snapshot, max_rows: None, is_last: true }
    }
}

/// What a running plan has of the transaction.
struct Lent {
    txn: TransactionSlot,
    pending: PendingChecks,
    usage: Usage,
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
