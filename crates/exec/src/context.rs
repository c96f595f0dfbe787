//! What running a plan needs from outside, and the state one run keeps.

use super::routine::{RoutineHost, TransactionSlot};
use super::row_program::Registers;
use crate::helpers::HelperPool;
use crate::stats::Usage;
use kilndb_base::env::process_monotonic_nanos;
use kilndb_base::park::Park;
use kilndb_base::{Error, Oid, Result, RowId};
use kilndb_catalog::CatalogView;
use kilndb_plan::Plan;
use kilndb_spill::{SpillIo, TempSpace};
use kilndb_storage::accesses::{self, Accesses};
use kilndb_storage::{Engine, Snapshot, Transaction};
use kilndb_types::functions::SessionFunction;
use kilndb_types::vector::{Rows, Vector};
use kilndb_types::{Datum, EvalContext};
use std::ops::{Deref, Range};
use std::sync::Arc;

/// What a plan asks of the session that runs it: functions that depend on it, and a few facts.
pub trait SessionHost {
    /// Calls a function whose answer comes from the session or the catalogs, like nextval or current_setting.
    fn call_function(&self, function: SessionFunction, args: &[Datum], env: &mut CallEnv<'_>) -> Result<Datum>;
    /// All rows of a set-returning function of that kind.
    fn call_for_rows(
        &self,
        function: SessionFunction,
        args: &[Datum],
        env: &mut CallEnv<'_>,
    ) -> Result<Vec<Vec<Datum>>>;
    /// The row that a cursor stands on, for WHERE CURRENT OF.
    fn cursor_position(&self, name: &str, table: Oid) -> Result<RowId> {
        let _ = table;
        Err(kilndb_base::Error::new(
            kilndb_base::sqlstate::INVALID_CURSOR_NAME,
            format!("cursor \"{name}\" does not exist"),
        ))
    }
    /// The rules of a partition's rows.
    fn table_rules(&self, table: &Arc<kilndb_catalog::Table>) -> Result<kilndb_plan::partition::TableRules> {
        Err(kilndb_base::Error::internal(format!("nobody to find the rules of table \"{}\"", table.name)))
    }
    /// The expressions of a table's partition key.
    fn key_expressions(
        &self,
        table: &kilndb_catalog::Table,
    ) -> Result<Vec<Option<kilndb_plan::expression::Expression>>> {
        Err(kilndb_base::Error::internal(format!("nobody to find the partition key of table \"{}\"", table.name)))
    }
    /// Whether whoever runs the statement may read these columns of a table, of which errors would tell.
    fn may_read(&self, _table: &kilndb_catalog::Table, _columns: &[i16]) -> bool {
        true
    }
    /// 42501 unless a table's owner may do this to its columns: foreign keys are looked after for owners.
    fn require_of_owner(&self, _table: &kilndb_catalog::Table, _wanted: u64, _columns: &[i16]) -> Result<()> {
        Ok(())
    }
    /// Whether row security hides rows of a table from whoever runs the statement.
    fn hides_rows(&self, _table: &kilndb_catalog::Table) -> bool {
        false
    }
    /// 42501 unless a role may call these functions; None: whoever runs the statement.
    fn require_functions(
        &self,
        _functions: &[kilndb_bind::access::FunctionAccess],
        _role: Option<kilndb_base::Oid>,
    ) -> Result<()> {
        Ok(())
    }
    /// The role that the statement runs as.
    fn role(&self) -> kilndb_base::Oid {
        0
    }
    /// An error where a trigger may not be put off to the end of the transaction, when somebody else would run it.
    fn refuse_deferred_trigger(&self) -> Result<()> {
        Ok(())
    }
    /// An expression over a table as definitions show it.
    fn shown_expression(&self, sql: &str, _table: &kilndb_catalog::Table) -> String {
        sql.to_string()
    }
    /// Is session_replication_role set to replica? Then ordinary triggers do not fire.
    fn is_replica(&self) -> bool {
        false
    }
    /// The setting gin_fuzzy_search_limit; 0 means no limit.
    fn fuzzy_search_limit(&self) -> u64 {
        0
    }
    fn current_user(&self) -> String;
    fn session_user(&self) -> String;
    fn current_database(&self) -> String;
    fn current_schema(&self) -> Option<String>;
}

/// What a session function may use of the running statement.
pub struct CallEnv<'a> {
    pub engine: &'a Arc<Engine>,
    pub txn: &'a mut Transaction,
    pub snapshot: &'a Snapshot,
    pub park: &'a dyn Park,
    pub catalog: &'a dyn CatalogView,
    pub eval: &'a EvalContext<'a>,
}

pub struct ExecContext<'a> {
    pub engine: &'a Arc<Engine>,
    pub txn: &'a mut TransactionSlot,
    pub snapshot: SnapshotSlot,
    pub park: &'a dyn Park,
    pub eval: EvalContext<'a>,
    pub catalog: &'a dyn CatalogView,
    pub session: &'a dyn SessionHost,
    pub work_mem_bytes: usize,
    /// The memory for hash tables: work_mem times hash_mem_multiplier.
    pub hash_mem_bytes: usize,
    pub temp: &'a TempSpace,
    /// The source of rows that no table holds (COPY FROM).
    pub source: Option<&'a mut dyn RowSource>,
    /// Checks put off to the end of the transaction.
    pub pending: &'a mut PendingChecks,
    /// Threads that may help, and how many at most; None in a helper.
    pub helpers: Option<(&'a Arc<HelperPool>, usize)>,
    /// What is counted for the statistics views.
    pub usage: &'a mut Usage,
    /// The session, which calls routines; None in a helper.
    pub routines: Option<&'a mut (dyn RoutineHost + 'a)>,
}

/// Deferred constraint checks of a transaction, kept by the session.
#[derive(Default)]
pub struct PendingChecks {
    pub checks: Vec<PendingCheck>,
    /// Calls of deferred constraint triggers, in the order of their events.
    pub triggers: Vec<super::trigger::PendingTrigger>,
    /// The error under way is of what follows a statement (checks, actions, AFTER triggers), not of its own rows.
    pub failed_behind: bool,
    /// The cascade of the running statement, while the actions of its foreign keys run.
    pub cascade: Option<Box<super::cascade::Cascade>>,
    /// SET CONSTRAINTS: constraint OID → deferred now; key 0 is ALL.
    pub modes: kilndb_base::hash::HashMap<Oid, bool>,
}

impl PendingChecks {
    /// Takes back the events since a savepoint. Calls that were made with `level` or more savepoints open, for earlier
    /// events, are to be made again.
    pub fn undo_triggers(&mut self, len: usize, level: usize) {
        self.triggers.truncate(len);
        self.triggers.iter_mut().filter(|t| t.done_at.is_some_and(|at| at >= level)).for_each(|t| t.done_at = None);
    }
    /// Notes that savepoints beyond this many are released: what was done in them counts for the one before.
    pub fn keep_triggers(&mut self, level: usize) {
        self.triggers.iter_mut().for_each(|t| t.done_at = t.done_at.map(|at| at.min(level)));
    }
}

#[derive(Clone, Debug)]
pub struct PendingCheck {
    pub constraint: Oid,
    /// The referencing table, its key columns' values.
    pub table: Oid,
    pub key: Vec<Datum>,
    /// The check is "does anyone still refer to this key" (a referenced row went away).
    pub parent_gone: bool,
    /// The check is "is this row the only one of its key" (of a unique constraint): the table's storage, the row.
    pub twin: Option<(kilndb_base::RelationId, kilndb_base::RowId)>,
}

/// The state of one run of a plan that expressions read and write: parameters, subplans, values computed once.
pub struct RunState {
    pub plan: Arc<Plan>,
    pub params: Vec<Datum>,
    /// The values that are handed to correlated parts of the plan, by number.
    pub(crate) exec_params: Vec<Datum>,
    pub(crate) subplans: Vec<Option<super::subplan::SubplanState>>,
    pub(crate) ctes: Vec<Option<super::cte::CteState>>,
    /// Values of expressions that are constant for a run.
    pub once: Vec<Option<Datum>>,
    /// The registers of the programs that are run now, those of the innermost behind the others.
    pub(crate) registers: Registers,
    /// By node id of a scan of partitions: the span of partitions that it is reading.
    spans: Vec<(usize, Range<usize>)>,
    /// Rows that conditions have ruled out so far.
    pub(crate) removed: u64,
    /// For EXPLAIN ANALYZE: rows, loops and nanoseconds by node id.
    pub counters: Option<Vec<NodeCounter>>,
    pub(crate) pace: CheckpointInterval,
}

/// How many calls of functions expressions make between two checkpoints, where the session gives way or stops: as many
/// as take about a millisecond. A checkpoint per batch of rows would not be enough, because a batch may hold calls that
/// take long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckpointInterval {
    calls_left: u32,
    interval_calls: u32,
    looked_nanos: u64,
}

impl Default for CheckpointInterval {
    fn default() -> CheckpointInterval {
        CheckpointInterval {
            calls_left: CheckpointInterval::FIRST_CALLS,
            interval_calls: CheckpointInterval::FIRST_CALLS,
            looked_nanos: 0,
        }
    }
}

impl CheckpointInterval {
    const FIRST_CALLS: u32 = 32;
    const CALLS_MAX: u32 = 4096;

    /// To be called before each call of a function.
    #[inline]
    pub fn step(&mut self, park: &dyn Park) -> Result<()> {
        self.calls_left -= 1;
        if self.calls_left == 0 { self.look(park) } else { Ok(()) }
    }

    #[cold]
    fn look(&mut self, park: &dyn Park) -> Result<()> {
        let now = process_monotonic_nanos();
        let taken = now.saturating_sub(self.looked_nanos);
        if self.looked_nanos != 0 && taken > 1_000_000 {
            self.interval_calls = (self.interval_calls / 4).max(1);
        } else if self.looked_nanos != 0 && taken < 250_000 {
            self.interval_calls = (self.interval_calls * 2).min(CheckpointInterval::CALLS_MAX);
        }
        self.calls_left = self.interval_calls;
        park.checkpoint()?;
        self.looked_nanos = process_monotonic_nanos();
        Ok(())
    }
}

#[derive(Clone, Copy, Default, Debug)]
pub struct NodeCounter {
    pub rows: u64,
    pub loops: u64,
    pub nanos: u64,
    pub startup_nanos: u64,
    pub removed: u64,
    /// How often an index was searched.
    pub searches: u64,
    /// Pages and log, the node's and those of what is below it.
    pub accesses: Accesses,
    /// Helper threads that have done a part of it.
    pub workers_launched: u64,
    pub report: NodeReport,
}

impl NodeCounter {
    /// Adds a call of the node that has yielded `rows` rows.
    pub fn count(&mut self, rows: usize, begun: &MeasureStart) {
        let (nanos, accesses) = begun.taken();
        self.nanos += nanos;
        self.rows += rows as u64;
        self.accesses.add(&accesses);
    }
}

impl NodeCounter {
    /// Takes in what another thread has counted of the same node.
    pub fn add(&mut self, theirs: &NodeCounter) {
        self.rows += theirs.rows;
        self.loops += theirs.loops;
        self.nanos += theirs.nanos;
        self.startup_nanos += theirs.startup_nanos;
        self.removed += theirs.removed;
        self.searches += theirs.searches;
        self.accesses.add(&theirs.accesses);
        self.workers_launched += theirs.workers_launched;
        self.report = self.report.with(&theirs.report);
    }
    /// As [`NodeCounter::count`], of a node whose first call is its start.
    pub(crate) fn count_call(&mut self, rows: usize, begun: &MeasureStart) {
        self.count(rows, begun);
        if self.loops == 0 {
            self.loops = 1;
            self.startup_nanos = self.nanos;
        }
    }
}

/// The moment at which something began that is measured for EXPLAIN.
pub struct MeasureStart {
    at_nanos: u64,
    accesses: Accesses,
}

impl MeasureStart {
    pub fn now() -> MeasureStart {
        MeasureStart { at_nanos: process_monotonic_nanos(), accesses: accesses::now() }
    }
    /// Nanoseconds, pages and log up to now.
    pub fn taken(&self) -> (u64, Accesses) {
        (process_monotonic_nanos() - self.at_nanos, accesses::now().since(&self.accesses))
    }
}

/// What EXPLAIN ANALYZE shows of a node beside rows and times.
#[derive(Clone, Copy, Default, Debug)]
pub enum NodeReport {
    #[default]
    None,
    Sort {
        method: &'static str,
        on_disk: bool,
        bytes: u64,
    },
    Hash {
        batches: u64,
        memory: u64,
        disk: u64,
    },
    Merge {
        inserted: u64,
        updated: u64,
        deleted: u64,
        skipped: u64,
    },
    /// A loop has gone over to a table of its inner side.
    LoopTable {
        after_rows: u64,
        memory: u64,
    },
    /// A sort of rows that some keys' order was there of.
    IncrementalSort {
        groups: u64,
        method: &'static str,
        average: u64,
        peak: u64,
    },
    Memoize {
        hits: u64,
        misses: u64,
        evictions: u64,
        overflows: u64,
        memory: u64,
    },
    /// The blocks of a bitmap scan: those of which some rows were looked at, and those of which all were.
    Blocks {
        exact: u64,
        lossy: u64,
    },
}

impl NodeReport {
    /// What two threads tell together of a node that both have run. Counts are added; of memory that each has for itself the
    /// larger is told, and what cannot be told of both is told of the first.
    fn with(self, theirs: &NodeReport) -> NodeReport {
        match (self, *theirs) {
            (NodeReport::None, theirs) => theirs,
            (
                NodeReport::Memoize { hits, misses, evictions, overflows, memory },
                NodeReport::Memoize { hits: h, misses: m, evictions: e, overflows: o, memory: of_other },
            ) => NodeReport::Memoize {
                hits: hits + h,
                misses: misses + m,
                evictions: evictions + e,
                overflows: overflows + o,
                memory: memory.max(of_other),
            },
            (NodeReport::Blocks { exact, lossy }, NodeReport::Blocks { exact: e, lossy: l }) => {
                NodeReport::Blocks { exact: exact + e, lossy: lossy + l }
            }
            (own, _) => own,
        }
    }
}

impl RunState {
    pub fn new(plan: Arc<Plan>, params: &[Datum]) -> RunState {
        RunState {
            params: params.to_vec(),
            exec_params: vec![Datum::Null; plan.exec_params],
            subplans: plan.subplans.iter().map(|_| None).collect(),
            ctes: plan.ctes.iter().map(|_| None).collect(),
            registers: Registers::default(),
            once: vec![None; plan.once],
            spans: Vec::new(),
            removed: 0,
            counters: None,
            pace: Default::default(),
            plan,
        }
    }
    /// Makes scans of partitions read only those of these numbers when they next begin.
    pub fn restrict(&mut self, scans: &[(usize, Arc<kilndb_catalog::Table>)], span: &Range<usize>) {
        for (scan, _) in scans {
            self.spans.retain(|(known, _)| known != scan);
            self.spans.push((*scan, span.clone()));
        }
    }
    pub(crate) fn span_of(&self, scan: usize) -> Option<Range<usize>> {
        self.spans.iter().find(|(known, _)| *known == scan).map(|(_, span)| span.clone())
    }
    /// Counts the beginning of a scan that stands under a node, for EXPLAIN ANALYZE.
    pub(crate) fn count_start(&mut self, node: usize) {
        if let Some(c) = self.counters.as_mut().and_then(|c| c.get_mut(node)) {
            c.loops += 1;
        }
    }
    /// Counts the rows that conditions have ruled out since `removed` was the total.
    pub(crate) fn count_removed(&mut self, node: usize, removed: u64) {
        let more = self.removed - removed;
        if let Some(c) = self.counters.as_mut().and_then(|c| c.get_mut(node)) {
            c.removed += more;
        }
    }
    pub fn count_rows(&mut self, node: usize, rows: usize, begun: &MeasureStart) {
        if let Some(c) = self.counters.as_mut().and_then(|c| c.get_mut(node)) {
            c.count(rows, begun);
            if c.startup_nanos == 0 {
                c.startup_nanos = c.nanos;
            }
        }
    }
    /// Counts helper threads that have done parts of the node.
    pub(crate) fn count_workers(&mut self, node: usize, launched: usize) {
        if let Some(c) = self.counters.as_mut().and_then(|c| c.get_mut(node)) {
            c.workers_launched += launched as u64;
        }
    }
    pub(crate) fn count_searches(&mut self, node: usize, searches: u64) {
        if let Some(c) = self.counters.as_mut().and_then(|c| c.get_mut(node)) {
            c.searches += searches;
        }
    }
    /// Notes what EXPLAIN ANALYZE shows of a node.
    pub fn report(&mut self, node: usize, report: NodeReport) {
        if let Some(c) = self.counters.as_mut().and_then(|c| c.get_mut(node)) {
            c.report = report;
        }
    }
}

/// Rows from outside, as COPY FROM reads them.
pub trait RowSource {
    /// Appends rows to `out`; none are appended at the end.
    fn fill(&mut self, out: &mut Batch, eval: &EvalContext<'_>) -> Result<()>;
    /// Writes rows to columns, which have [`SOURCE_ROWS`] positions, from the first on. Returns how many; 0 at the end. What
    /// fails behind a row is told by the next call, since an error in that row comes first.
    fn fill_columns(&mut self, columns: &mut [Vector], cx: &SourceContext<'_>) -> Result<usize>;
    /// Tells the source what the next steps are about, so that it can name it in an error.
    fn concerns(&mut self, what: SourceConcern);
}

/// What a [`RowSource`] has of the statement.
pub struct SourceContext<'c> {
    pub eval: &'c EvalContext<'c>,
    pub park: &'c dyn Park,
    /// As in [`ExecContext`].
    pub helpers: Option<(&'c Arc<HelperPool>, usize)>,
}

/// The most rows that a [`RowSource`] writes to columns at once.
pub const SOURCE_ROWS: usize = 1024;

/// What an error would be about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceConcern {
    /// None of the rows given so far.
    Nothing,
    /// The row that the source is reading, or could not read.
    Reading,
    Row(SourceRow),
}

/// One of the rows that a [`RowSource`] has given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SourceRow {
    pub place: RowPlace,
    /// The row is in the heap already, so that only an index can refuse it.
    pub is_stored: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowPlace {
    /// The row's position in the last batch.
    OfBatch(usize),
    /// The row's number among all rows, from 0.
    Number(u64),
}

impl ExecContext<'_> {
    /// Tells the rows' source, if there is one, which row the next steps are about.
    pub fn concerns(&mut self, place: RowPlace, is_stored: bool) {
        if let Some(source) = &mut self.source {
            source.concerns(SourceConcern::Row(SourceRow { place, is_stored }));
        }
    }
    /// Tells the rows' source that the next steps are about the row that it could not read.
    pub(crate) fn concerns_reading(&mut self) {
        if let Some(source) = &mut self.source {
            source.concerns(SourceConcern::Reading);
        }
    }
    /// Tells the rows' source that all rows it has given so far are stored.
    pub(crate) fn concerns_none(&mut self) {
        if let Some(source) = &mut self.source {
            source.concerns(SourceConcern::Nothing);
        }
    }
}

/// Receives result rows.
pub trait RowSink {
    fn row(&mut self, values: &[Datum]) -> Result<()>;
    /// Does it take [columns](RowSink::columns), too?
    fn takes_columns(&self) -> bool {
        false
    }
    /// Many rows, as [`RowSink::row`] would take one after the other.
    fn columns(&mut self, _columns: &[Vector], _rows: Rows<'_>) -> Result<()> {
        Err(Error::internal("columns are given to a sink that takes rows"))
    }
    /// What makes of columns what the sink hands on, on any thread. None: the sink wants the columns.
    fn printer(&self) -> Option<Arc<dyn RowPrinter>> {
        None
    }
    /// Rows that the [printer](RowSink::printer) has made, as [`RowSink::columns`] would take the columns.
    fn printed(&mut self, _rows: &PrintedRows) -> Result<()> {
        Err(Error::internal("printed rows are given to a sink that has no printer"))
    }
}

/// Rows in the form in which a sink hands them on.
#[derive(Default)]
pub struct PrintedRows {
    /// What the rows have become, as the sink's client gets it.
    pub bytes: Vec<u8>,
    pub rows: u64,
    /// The bytes of the rows alone, without what frames them.
    pub content_bytes: u64,
}

impl PrintedRows {
    pub fn clear(&mut self) {
        self.bytes.clear();
        (self.rows, self.content_bytes) = (0, 0);
    }
}

/// Makes of columns what a sink hands on. Its types are those that any thread can show.
pub trait RowPrinter: Send + Sync {
    /// Appends the rows.
    fn print(&self, columns: &[Vector], rows: Rows<'_>, eval: &EvalContext<'_>, out: &mut PrintedRows) -> Result<()>;
}

/// The snapshot that a statement reads with; empty where expressions are evaluated that read nothing.
///
/// Invariant: whoever is evaluated with an empty one consists of nothing but values and functions of these.
pub struct SnapshotSlot(Option<Snapshot>);

impl SnapshotSlot {
    pub const fn empty() -> SnapshotSlot {
        SnapshotSlot(None)
    }
}
impl From<Snapshot> for SnapshotSlot {
    fn from(snapshot: Snapshot) -> SnapshotSlot {
        SnapshotSlot(Some(snapshot))
    }
}
impl Deref for SnapshotSlot {
    type Target = Snapshot;
    #[inline]
    fn deref(&self) -> &Snapshot {
        match &self.0 {
            Some(snapshot) => snapshot,
            None => unreachable!("an expression of values alone reads something"),
        }
    }
}

impl<'a> ExecContext<'a> {
    pub fn io(&self) -> SpillIo<'a> {
        SpillIo { space: self.temp, park: self.park }
    }
    pub(crate) fn call_env<R>(&mut self, f: impl FnOnce(&dyn SessionHost, &mut CallEnv<'_>) -> R) -> R {
        let session = self.session;
        let mut env = CallEnv {
            engine: self.engine,
            txn: self.txn,
            snapshot: &self.snapshot,
            park: self.park,
            catalog: self.catalog,
            eval: &self.eval,
        };
        f(session, &mut env)
    }
}

pub const BATCH_ROWS: usize = 1024;

/// Rows of equal width, their values one after the other in one vector.
#[derive(Default)]
pub struct Batch {
    pub width: usize,
    pub rows: usize,
    pub data: Vec<Datum>,
    /// The consumer wants no more than this many rows.
    pub max: usize,
}

impl Batch {
    pub fn new(width: usize) -> Batch {
        Batch { width, rows: 0, data: Vec::new(), max: BATCH_ROWS }
    }
    pub(crate) fn with_max(width: usize, max: usize) -> Batch {
        Batch { width, rows: 0, data: Vec::new(), max: max.clamp(1, BATCH_ROWS) }
    }
    pub fn clear(&mut self) {
        self.data.clear();
        self.rows = 0;
    }
    /// Is empty, for rows of that width.
    pub(crate) fn start(&mut self, width: usize) {
        self.clear();
        (self.width, self.max) = (width, BATCH_ROWS);
    }
    pub fn full(&self) -> bool {
        self.rows >= self.max
    }
    pub fn row(&self, i: usize) -> &[Datum] {
        self.data.get(i * self.width..(i + 1) * self.width).unwrap_or(&[])
    }
    pub fn push(&mut self, row: &[Datum]) {
        self.data.extend_from_slice(row);
        self.rows += 1;
    }
    /// Counts a row whose values were appended to `data` already.
    pub fn end_row(&mut self) {
        self.rows += 1;
        debug_assert_eq!(self.data.len(), self.rows * self.width);
    }
    /// Takes back the values of an unfinished row.
    pub fn cancel_row(&mut self) {
        self.data.truncate(self.rows * self.width);
    }
}
