//! The executor: runs plans and evaluates expression programs.
//!
//! Invariants
//! 1. An [`Execution`] owns all its state and borrows nothing between calls: it can be put aside and resumed.
//! 2. Every loop over rows passes `Park::checkpoint` at least once per batch.
//! 3. A data-modifying plan runs to its end before its first RETURNING row is handed out.
//!
//! Must not know: syntax, names of objects and how they are found, sessions (it asks a [`SessionHost`] and a
//! [`RoutineHost`]), sockets, protocol, how the catalogs keep what they tell.

mod aggregate;
mod arrays;
mod bitmap;
mod by_partition;
mod cascade;
mod columns;
pub mod constraint;
mod context;
mod cte;
mod explain;
pub mod expr;
mod function;
mod hash;
mod hash_table;
mod hashjoin;
pub mod helpers;
mod index;
mod index_changes;
pub mod integer_program;
mod inverted;
mod join;
pub mod key_ahead;
mod key_index;
mod key_search;
mod lockrows;
mod loop_columns;
mod loop_table;
mod memoize;
mod merge;
mod mergejoin;
mod modify;
mod modify_columns;
mod modify_many;
mod modify_partitions;
mod modify_row;
mod modify_triggered;
mod morsel_parts;
mod morsels;
pub mod no_session;
mod null_rows;
mod opened_partitions;
mod operation;
mod outcomes;
mod partition;
mod partition_scan;
pub mod parts;
mod pieces;
mod printed;
mod project;
pub mod routine;
mod row_program;
mod row_security;
mod row_set;
mod scan;
mod setop;
mod sort;
mod sqlvalue;
mod state;
pub mod stats;
mod subplan;
mod trigger;
mod vector_program;
mod window;
pub mod write;

use crate::columns::{COLUMNS_ROWS_MIN, ColumnBatch};
pub use crate::explain::shape as plan_shape;
use crate::explain::{Measurements, Serializer};
pub use context::*;
use kilndb_base::env::process_monotonic_nanos;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_bind::ir::{ExplainFormat, ExplainOptions};
use kilndb_plan::{Op, Plan, PlanNode};
use kilndb_types::Datum;
pub use outcomes::Spares;
pub use pieces::{PieceRun, PieceWork};
use printed::PrintedRun;
pub use routine::{CallerResources, RoutineHost, TransactionSlot};
use state::NodeState;
use std::sync::Arc;
pub use trigger::{PendingTrigger, TriggerCall};

/// One run of a plan; resumable between batches of rows.
pub struct Execution {
    root: NodeState,
    rt: RunState,
    batch: Batch,
    /// Next row of `batch` to hand out.
    position: usize,
    finished: bool,
    /// `batch` holds the lines of EXPLAIN already.
    is_explained: bool,
    /// Rows returned, or changed by a data-modifying plan.
    rows: u64,
    /// How long it has run so far, if that is measured.
    busy_nanos: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunProgress {
    /// Rows handed out by this call; for data-modifying plans rows changed.
    pub rows: u64,
    pub finished: bool,
}

/// For EXPLAIN, by the node id of a scan of partitions: the partitions that the plan shows and that pruning leaves out
/// before the first row.
pub(crate) type RemovedPartitions = kilndb_base::hash::HashMap<usize, Vec<kilndb_base::Oid>>;

fn note_removed(
    node: &Arc<PlanNode>,
    removed: &mut RemovedPartitions,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<()> {
    if let Op::Partitions(p) = &node.op
        && p.shown.len() > 1
    {
        removed.insert(node.id, partition_scan::removed_at_start(p, rt, cx)?);
    }
    node.children().into_iter().try_for_each(|child| note_removed(child, removed, rt, cx))
}

/// Kept out of the way of plans that run.
#[cold]
fn not_populated(view: &str) -> Error {
    let message = format!("materialized view \"{view}\" has not been populated");
    Error::new(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
        .with_hint("Use the REFRESH MATERIALIZED VIEW command.")
}

impl Execution {
    pub fn start(plan: Arc<Plan>, params: &[Datum], cx: &mut ExecContext<'_>) -> Result<Execution> {
        plan.addresses.fetch_nodes();
        if let Some(view) = &plan.unpopulated {
            return Err(not_populated(view));
        }
        let rt = RunState::new(plan, params);
        let root = NodeState::new(&rt.plan.root);
        let batch = Batch::new(rt.plan.root.width);
        // This comes last because it waits for the partition's slot to arrive from memory.
        if let Some(key) = &rt.plan.key_ahead {
            key_ahead::fetch(key, params, cx.catalog);
        }
        Ok(Execution { root, rt, batch, position: 0, finished: false, is_explained: false, rows: 0, busy_nanos: 0 })
    }

    pub fn plan(&self) -> &Arc<Plan> {
        &self.rt.plan
    }

    /// Empties the state after a run that did not fail, so that [`Execution::restart`] can use it again. False: the
    /// state is not worth keeping.
    pub fn set_aside(&mut self) -> bool {
        if !self.rt.plan.keeps_state {
            return false;
        }
        self.root.rescan(&mut self.rt);
        self.batch.clear();
        self.rt.params.clear();
        self.rt.once.iter_mut().for_each(|o| *o = None);
        (self.position, self.finished, self.rows) = (0, false, 0);
        true
    }

    /// Begins another run with a state that was set aside, with the parameters that `fill` writes.
    pub fn restart(&mut self, fill: impl FnOnce(&mut Vec<Datum>) -> Result<()>) -> Result<()> {
        self.busy_nanos = 0;
        fill(&mut self.rt.params)
    }

    /// Hands out up to `max_rows` rows (None: all).
    pub fn run(
        &mut self,
        cx: &mut ExecContext<'_>,
        max_rows: Option<u64>,
        sink: &mut dyn RowSink,
    ) -> Result<RunProgress> {
        if self.rt.plan.explain.is_some() {
            return self.run_explain(cx, max_rows, sink);
        }
        self.run_plan(cx, max_rows, sink)
    }

    /// The first call makes all lines of EXPLAIN; later ones hand them out.
    fn run_explain(
        &mut self,
        cx: &mut ExecContext<'_>,
        max_rows: Option<u64>,
        sink: &mut dyn RowSink,
    ) -> Result<RunProgress> {
        if !self.is_explained {
            let lines = self.explain(cx)?;
            self.batch = Batch::new(1);
            lines.iter().for_each(|line| self.batch.push(&[Datum::text(line)]));
            (self.position, self.is_explained) = (0, true);
        }
        let left = self.batch.rows - self.position;
        let handed = max_rows.filter(|n| *n > 0).and_then(|n| usize::try_from(n).ok()).map_or(left, |n| n.min(left));
        for row in self.position..self.position + handed {
            sink.row(self.batch.row(row))?;
        }
        self.position += handed;
        self.finished = self.position == self.batch.rows && max_rows.is_none_or(|n| n == 0 || n > handed as u64);
        Ok(RunProgress { rows: handed as u64, finished: self.finished })
    }

    /// Runs the statement if it is to be analyzed. What EXPLAIN shows, line by line; other formats than text are one
    /// value.
    fn explain(&mut self, cx: &mut ExecContext<'_>) -> Result<Vec<String>> {
        let plan = self.rt.plan.clone();
        let default = ExplainOptions::default();
        let options = plan.explain.as_ref().unwrap_or(&default);
        let (mut millis, mut serialized) = (None, None);
        if options.analyze {
            self.enable_counters();
            let started_nanos = process_monotonic_nanos();
            let mut rows = Serializer::new(options.serialize, &plan.explained_columns, cx.eval);
            self.run_plan(cx, None, &mut rows)?;
            millis = Some((process_monotonic_nanos() - started_nanos) as f64 / 1e6);
            serialized = rows.into_total();
        }
        let mut removed = RemovedPartitions::default();
        let ctes = plan.ctes.iter().flat_map(|c| std::iter::once(&c.node).chain(&c.recursive));
        // EXPLAIN (GENERIC_PLAN) has no values that could leave out partitions.
        for root in std::iter::once(&plan.root).chain(&plan.subplans).chain(ctes).filter(|_| !options.generic_plan) {
            note_removed(root, &mut removed, &mut self.rt, cx)?;
        }
        let measured = Measurements { counters: self.counters(), removed: &removed, execution_ms: millis, serialized };
        Ok(match options.format {
            ExplainFormat::Text => crate::explain::lines(&plan, &measured),
            _ => vec![crate::explain::document(&plan, &measured)],
        })
    }

    fn run_plan(
        &mut self,
        cx: &mut ExecContext<'_>,
        max_rows: Option<u64>,
        sink: &mut dyn RowSink,
    ) -> Result<RunProgress> {
        let limit = max_rows.filter(|n| *n > 0).unwrap_or(u64::MAX);
        let mut handed = 0;
        if limit == u64::MAX && sink.takes_columns() && self.begins_with_columns() {
            handed = self.run_columns(cx, sink)?;
        }
        while !self.finished {
            while self.position < self.batch.rows {
                if handed >= limit {
                    return Ok(RunProgress { rows: handed, finished: false });
                }
                sink.row(self.batch.row(self.position))?;
                self.position += 1;
                handed += 1;
            }
            if handed >= limit {
                return Ok(RunProgress { rows: handed, finished: false });
            }
            self.batch.clear();
            self.position = 0;
            self.batch.max = usize::try_from(limit - handed).unwrap_or(BATCH_ROWS).clamp(1, BATCH_ROWS);
            cx.park.step()?;
            self.root.next(&mut self.batch, &mut self.rt, cx)?;
            if self.batch.rows == 0 {
                self.finish(cx)?;
            }
        }
        self.rows += handed;
        let rows = match (&self.rt.plan.root.op, &self.root) {
            (Op::Modify(_), NodeState::Modify(m)) => m.changed,
            _ => handed,
        };
        Ok(RunProgress { rows, finished: true })
    }

    /// Has nobody asked for a row yet, and are there columns of enough of them? The columns of a join have a copy of a wide
    /// value for each pair, which its rows share.
    fn begins_with_columns(&self) -> bool {
        let is_begun = self.finished || self.batch.rows > 0;
        !is_begun
            && !matches!(self.root, NodeState::HashJoin(_))
            && self.rt.plan.root.rows >= COLUMNS_ROWS_MIN
            && self.root.has_columns()
    }

    /// Hands out all rows as columns; how many.
    fn run_columns(&mut self, cx: &mut ExecContext<'_>, sink: &mut dyn RowSink) -> Result<u64> {
        let is_used = vec![true; self.rt.plan.root.width];
        if let Some(printer) = sink.printer() {
            let mut run = PrintedRun::begin(printer, (&mut self.root, &is_used), &mut self.rt, cx)?;
            if let Some(run) = &mut run {
                let handed = run.hand_out(sink, &mut self.root, &mut self.rt, cx)?;
                self.finish(cx)?;
                return Ok(handed);
            }
        }
        let mut batch = ColumnBatch::default();
        let mut handed = 0;
        while self.root.fill_columns((&mut batch, &is_used), &mut self.rt, cx)? {
            let (columns, rows) = batch.parts();
            sink.columns(columns, rows)?;
            handed += rows.len() as u64;
        }
        self.finish(cx)?;
        Ok(handed)
    }

    /// Data-modifying CTEs that nobody read still run.
    fn finish(&mut self, cx: &mut ExecContext<'_>) -> Result<()> {
        for number in self.rt.plan.run_always.clone() {
            cte::run_to_end(number, &mut self.rt, cx)?;
        }
        self.finished = true;
        Ok(())
    }

    /// It has run for so much longer; how long in all.
    pub fn add_busy_nanos(&mut self, nanos: u64) -> u64 {
        self.busy_nanos += nanos;
        self.busy_nanos
    }
    pub fn counters(&self) -> Option<&[NodeCounter]> {
        self.rt.counters.as_deref()
    }
    /// Makes the run count rows and times, for EXPLAIN ANALYZE.
    pub(crate) fn enable_counters(&mut self) {
        self.rt.counters = Some(vec![NodeCounter::default(); self.rt.plan.nodes]);
    }
}

const _: () = {
    const fn send<T: Send>() {}
    const fn shared<T: Send + Sync>() {}
    send::<Execution>();
    shared::<Plan>();
};
