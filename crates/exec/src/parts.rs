//! A whole table, or partitioned table, read by several threads, and joined with others on the way, by hash or by looking each
//! row up in an index.
//!
//! The session and its helpers take the blocks of the table from one counter, those of partitions from one for each, in
//! the same order. The build sides of hash joins are read before the helpers begin. What runs beside the session has a
//! [`RunState`] and an [`ExecContext`] of its own, without catalogs, session and client: the planner gives only
//! expressions here that need none of these.
//!
//! Where the order of the rows counts, or there are many, the session and its helpers take morsels of the table
//! ([`super::morsels`]).
//!
//! Invariants
//! 1. The session and its helpers read with one snapshot, so that it does not matter which of them reads a row.
//! 2. While there are parts, no rows wait in files: a part that has no more room for groups ends, unless its groups can leave
//!    (`super::aggregate`), and the session goes on alone with the rest of the table once it has taken in the others'.
//!
//! Must not know: what is aggregated.

use super::aggregate::{AggregateState, counts_whole_table};
use super::context::*;
use super::hashjoin::{HashJoinState, SharedBuild};
use super::join::NestLoopState;
use super::morsel_parts::{MorselParts, PartWork};
use super::morsels::{MorselBoard, MorselResult, MorselRun, MorselTable, MorselWork};
use super::no_session::NoSession;
use super::partition::LeafPartition;
use super::partition_scan::{PartitionsState, SharedLeaves};
use super::pieces::DetachedEval;
use super::project::ProjectState;
use super::routine::TransactionSlot;
use super::scan::ScanState;
use super::state::{NodeState, UnaryInput};
use crate::helpers::{HelperPark, HelperPool};
use crate::stats::Usage;
use kilndb_base::sync::atomic::{AtomicU32, Ordering};
use kilndb_base::sync::{Arc, Mutex, PoisonError};
use kilndb_base::{Error, Result};
use kilndb_bind::ir::JoinKind;
use kilndb_plan::{Op, Plan, PlanNode};
use kilndb_spill::TempSpace;
use kilndb_storage::{Engine, Isolation, Relation, Snapshot};
use kilndb_types::Datum;
use std::cell::Cell;

/// A table with fewer blocks would be read before a helper has begun.
const BLOCKS_MIN: u32 = 1024;
/// A table with fewer blocks is read in parts all the same if what is joined with it costs so much, and it has so many blocks.
const JOINED_COST_MIN: f64 = 10_000.0;
const JOINED_BLOCKS_MIN: u64 = 64;
/// Rows that joins make of one row of the table, at most, if several threads read it and their groups cannot leave.
const PAIRS_MAX: u64 = 16;
/// Blocks that are counted between two looks at the counter.
const BLOCKS_AT_ONCE: u32 = 16;

/// What the helpers of a statement have done, of those that are done.
#[derive(Default)]
pub(crate) struct HelperFigures {
    usage: Usage,
    /// By the node's number; empty if nodes are not counted.
    counters: Vec<NodeCounter>,
}

impl HelperFigures {
    /// Adds them to those of the session.
    pub fn add_to(&self, rt: &mut RunState, cx: &mut ExecContext<'_>) {
        cx.usage.read_by_helpers(&self.usage);
        if let Some(own) = &mut rt.counters {
            add_counters(own, &self.counters);
        }
    }
}

/// All that a helper needs of the statement.
struct HelperJob {
    engine: Arc<Engine>,
    snapshot: Snapshot,
    plan: Arc<Plan>,
    params: Vec<Datum>,
    exec_params: Vec<Datum>,
    eval: DetachedEval,
    work_mem_bytes: usize,
    hash_mem_bytes: usize,
    temp: TempSpace,
    /// What helpers have read and, for EXPLAIN ANALYZE, counted of each node.
    figures: Arc<Mutex<HelperFigures>>,
}

impl HelperJob {
    fn of(rt: &RunState, cx: &ExecContext<'_>) -> HelperJob {
        HelperJob {
            engine: cx.engine.clone(),
            snapshot: cx.snapshot.clone(),
            plan: rt.plan.clone(),
            params: rt.params.clone(),
            exec_params: rt.exec_params.clone(),
            eval: DetachedEval::of(&cx.eval),
            work_mem_bytes: cx.work_mem_bytes,
            hash_mem_bytes: cx.hash_mem_bytes,
            temp: cx.temp.clone(),
            figures: Arc::new(Mutex::new(HelperFigures {
                usage: Usage::default(),
                counters: vec![NodeCounter::default(); rt.counters.as_ref().map_or(0, Vec::len)],
            })),
        }
    }

    fn carry_out<R>(
        &self,
        park: &HelperPark,
        work: impl FnOnce(&mut RunState, &mut ExecContext<'_>) -> Result<R>,
    ) -> Result<R> {
        let mut rt = RunState::new(self.plan.clone(), &self.params);
        rt.exec_params.clone_from(&self.exec_params);
        let counted = self.figures.lock().unwrap_or_else(PoisonError::into_inner).counters.len();
        rt.counters = (counted > 0).then(|| vec![NodeCounter::default(); counted]);
        // This transaction never writes and takes no snapshot. It exists because evaluation asks a transaction what it
        // has changed: nothing.
        let mut txn = TransactionSlot::new(self.engine.begin(Isolation::ReadCommitted, 0));
        let random_state = Cell::new([1, 2]);
        let mut pending = PendingChecks::default();
        let mut usage = Usage::default();
        let mut cx = ExecContext {
            engine: &self.engine,
            txn: &mut txn,
            snapshot: self.snapshot.clone().into(),
            park,
            eval: self.eval.context(&random_state),
            catalog: &NoSession,
            session: &NoSession,
            work_mem_bytes: self.work_mem_bytes,
            hash_mem_bytes: self.hash_mem_bytes,
            temp: &self.temp,
            source: None,
            pending: &mut pending,
            helpers: None,
            usage: &mut usage,
            routines: None,
        };
        let done = work(&mut rt, &mut cx);
        drop(cx);
        let mut figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        figures.usage.read_by_helpers(&usage);
        add_counters(&mut figures.counters, rt.counters.as_deref().unwrap_or_default());
        drop(figures);
        txn.rollback(park)?;
        done
    }
}

fn add_counters(own: &mut [NodeCounter], theirs: &[NodeCounter]) {
    own.iter_mut().zip(theirs).for_each(|(own, theirs)| own.add(theirs));
}

/// The pool to take helpers from, and how many helpers; None if the table has too few blocks.
fn helpers<'a>(blocks: u64, cx: &ExecContext<'a>) -> Option<(&'a Arc<HelperPool>, usize)> {
    // Read locks of SERIALIZABLE belong to one transaction.
    let alone = cx.txn.isolation() == Isolation::Serializable || blocks < u64::from(BLOCKS_MIN);
    cx.helpers.filter(|(_, most)| *most > 0 && !alone)
}

/// The input that the session and its helpers read together.
#[derive(Clone)]
enum SharedInput {
    Table(Arc<AtomicU32>),
    /// A table whose parts are given out by somebody.
    TableInMorsels,
    /// Partitions of which it is so.
    PartitionsInMorsels,
    Partitions(SharedLeaves),
    /// The build side of a hash join that the session has read, and what is shared of the probe side.
    Join(SharedBuild, Box<SharedInput>),
    /// What is shared of the outer side of a nested loop.
    Loop(Box<SharedInput>),
    /// What is shared of a projection's input.
    Projection(Box<SharedInput>),
}

/// What is wanted of the rows of a shared input, and in which way it is shared.
#[derive(Clone, Copy)]
struct SharingTerms<'a> {
    /// By column: is it used?
    is_used: &'a [bool],
    /// A row of the table may have so many partners.
    pairs_max: u64,
    in_morsels: bool,
    /// What is made of a morsel waits for its turn, whatever it takes.
    results_wait: bool,
}

impl SharedInput {
    /// A helper's scan.
    fn scan(&self, node: &Arc<PlanNode>) -> Result<NodeState> {
        match (self, &node.op) {
            (SharedInput::Table(blocks), _) => {
                let mut scan = ScanState::new(node);
                scan.share(blocks.clone());
                Ok(NodeState::Scan(Box::new(scan)))
            }
            (SharedInput::TableInMorsels, _) => Ok(NodeState::Scan(Box::new(ScanState::new(node)))),
            (SharedInput::PartitionsInMorsels, Op::Partitions(p)) => {
                Ok(NodeState::Partitions(Box::new(PartitionsState::new(node, &p.template))))
            }
            (SharedInput::Partitions(leaves), Op::Partitions(p)) => {
                let mut scan = PartitionsState::new(node, &p.template);
                scan.share(leaves.clone());
                Ok(NodeState::Partitions(Box::new(scan)))
            }
            (SharedInput::Join(shared, below), Op::HashJoin { probe, build, .. }) => {
                let join = HashJoinState::new(node, probe, build).with_shared(below.scan(probe)?, shared.clone());
                Ok(NodeState::HashJoin(Box::new(join)))
            }
            (SharedInput::Loop(below), Op::NestLoop { outer, inner, .. }) => {
                let join = NestLoopState::new(node, outer, inner).with_outer(below.scan(outer)?);
                Ok(NodeState::NestLoop(Box::new(join)))
            }
            (SharedInput::Projection(below), Op::Project { input, .. }) => {
                let (input, buffer) = (Box::new(below.scan(input)?), Batch::new(input.width));
                Ok(NodeState::Project(ProjectState::new(UnaryInput { node: node.clone(), input, buffer })))
            }
            _ => Err(Error::internal("partitions are read by something other than a scan of them")),
        }
    }
}

/// An input that is shared, and the tables that are read for it.
struct SharedScan {
    input: SharedInput,
    tables: Vec<MorselTable>,
}

impl SharedScan {
    fn pages(&self) -> u64 {
        self.tables.iter().map(|table| u64::from(table.blocks)).sum()
    }
    /// The input that has this one below it.
    fn below(self, above: impl FnOnce(Box<SharedInput>) -> SharedInput) -> SharedScan {
        SharedScan { input: above(Box::new(self.input)), tables: self.tables }
    }
}

/// Makes a scan one that helpers may take part in, and says which tables it reads; or a hash join, whose probe side they
/// read. None: it does not read a whole table, or not on these terms.
fn share(
    input: &mut NodeState,
    terms: SharingTerms<'_>,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<Option<SharedScan>> {
    match input {
        NodeState::HashJoin(join) => {
            let Some(build) = join.share_build(terms.is_used, rt, cx)? else { return Ok(None) };
            let of_probe = join.used_of_probe().to_vec();
            // A thread that has no more room for groups, which cannot leave, ends with the rows that it has read. These must not
            // become too many.
            let terms =
                SharingTerms { is_used: &of_probe, pairs_max: terms.pairs_max / build.pairs_max.max(1), ..terms };
            if terms.pairs_max == 0 {
                return Ok(None);
            }
            let probe = share(join.probe(), terms, rt, cx)?;
            Ok(probe.map(|probe| probe.below(|below| SharedInput::Join(build, below))))
        }
        NodeState::NestLoop(join) => {
            let node = join.node.clone();
            let Op::NestLoop { outer, inner, kind, .. } = &node.op else { return Ok(None) };
            // How many rows are found for each is not known before: what is made of a morsel might be far too much.
            let has_one_pair = matches!(kind, JoinKind::Semi | JoinKind::Anti);
            if terms.results_wait && !has_one_pair {
                return Ok(None);
            }
            let found = if has_one_pair { 1 } else { inner.rows.ceil().max(1.0) as u64 };
            let all = vec![true; outer.width];
            let terms = SharingTerms { is_used: &all, pairs_max: terms.pairs_max / found, ..terms };
            if terms.pairs_max == 0 {
                return Ok(None);
            }
            let shared = share(join.share_outer(), terms, rt, cx)?;
            Ok(shared.map(|shared| shared.below(SharedInput::Loop)))
        }
        NodeState::Scan(own) => {
            let Op::SeqScan(scan) = &own.node.op else { return Ok(None) };
            let Some(heap) = &scan.heap else { return Ok(None) };
            let tables = vec![MorselTable::of_table(scan.table.oid, heap)];
            if terms.in_morsels {
                return Ok(Some(SharedScan { input: SharedInput::TableInMorsels, tables }));
            }
            let blocks = Arc::new(AtomicU32::new(0));
            own.share(blocks.clone());
            Ok(Some(SharedScan { input: SharedInput::Table(blocks), tables }))
        }
        NodeState::Project(project) if terms.in_morsels => {
            let Some(of_input) = project.used_of_input() else { return Ok(None) };
            let terms = SharingTerms { is_used: &of_input, ..terms };
            let shared = share(&mut project.unary.input, terms, rt, cx)?;
            Ok(shared.map(|shared| shared.below(SharedInput::Projection)))
        }
        NodeState::Partitions(own) => {
            let leaves = own.open_all(rt, cx)?;
            let tables = leaves.iter().map(MorselTable::of_partition).collect();
            let leaves = SharedLeaves::new(leaves);
            // Where there are no helpers, this thread reads all of them.
            own.share(leaves.clone());
            let input = match terms.in_morsels {
                true => SharedInput::PartitionsInMorsels,
                false => SharedInput::Partitions(leaves),
            };
            Ok(Some(SharedScan { input, tables }))
        }
        _ => Ok(None),
    }
}

/// Aggregates a whole table together with helpers, if the plan allows and there are some. What is left of the table
/// afterwards is read by `state` alone: mostly nothing.
pub(crate) fn aggregate(state: &mut AggregateState, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
    let node = state.unary.node.clone();
    let Op::Aggregate { input, in_parts: true, .. } = &node.op else { return Ok(()) };
    if helpers(u64::MAX, cx).is_none() {
        return Ok(());
    }
    let is_used = state.used_columns().to_vec();
    // Joins are taken part in by columns alone.
    if is_used.is_empty() && matches!(*state.unary.input, NodeState::HashJoin(_)) {
        return Ok(());
    }
    let pairs_max = if state.is_bounded() { u64::MAX } else { PAIRS_MAX };
    let terms = SharingTerms { is_used: &is_used, pairs_max, in_morsels: false, results_wait: false };
    let Some(scan) = share(&mut state.unary.input, terms, rt, cx)? else { return Ok(()) };
    let Some((pool, most)) = helpers(weighed_blocks(input, scan.pages()), cx) else { return Ok(()) };
    let shared = scan.input;
    let (orders, input, of) = (HelperJob::of(rt, cx), input.clone(), node.clone());
    let figures = orders.figures.clone();
    let team = pool.start(most, cx.park.wake_handle(), move |park| {
        orders.carry_out(park, |rt, cx| AggregateState::of_part(&of, shared.scan(&input)?, rt, cx))
    });
    let Some(team) = team else { return Ok(()) };
    state.collect_part(rt, cx)?;
    let parts = team.finish(cx.park)?;
    let figures = figures.lock().unwrap_or_else(PoisonError::into_inner);
    figures.add_to(rt, cx);
    rt.count_workers(node.id, parts.len());
    for part in parts {
        state.absorb(part, cx)?;
    }
    Ok(())
}

/// How many blocks a table counts as having that is read in parts, with what is joined with it.
fn weighed_blocks(input: &PlanNode, pages: u64) -> u64 {
    let is_long = input.cost >= JOINED_COST_MIN && pages >= JOINED_BLOCKS_MIN;
    if is_long { pages.max(u64::from(BLOCKS_MIN)) } else { pages }
}

/// Are the rows of a node those of a whole table, and might helpers read it with this thread?
pub(crate) fn may_be_shared(node: &PlanNode, cx: &ExecContext<'_>) -> bool {
    let reads_whole_table = match &node.op {
        Op::Project { input, is_self_contained, .. } => *is_self_contained && input.op.reads_whole_table(),
        op => op.reads_whole_table(),
    };
    reads_whole_table && helpers(u64::MAX, cx).is_some()
}

/// Makes the table that `input` reads one that helpers may read in morsels, if the plan allows and there are helpers: where to
/// take them from, and how many. `results_wait`: what is made of a morsel waits for its turn, whatever it takes.
fn share_morsels<'a>(
    (input, is_used): (&mut NodeState, &[bool]),
    results_wait: bool,
    rt: &mut RunState,
    cx: &mut ExecContext<'a>,
) -> Result<Option<(SharedScan, &'a Arc<HelperPool>, usize)>> {
    let node = input.node().clone();
    if !may_be_shared(&node, cx) {
        return Ok(None);
    }
    let pairs_max = if results_wait { PAIRS_MAX } else { u64::MAX };
    let terms = SharingTerms { is_used, pairs_max, in_morsels: true, results_wait };
    let Some(scan) = share(input, terms, rt, cx)? else { return Ok(None) };
    let found = helpers(weighed_blocks(&node, scan.pages()), cx);
    Ok(found.map(|(pool, most)| (scan, pool, most)))
}

/// Notes that the tables are read, each of them once.
fn note_scans(tables: &[MorselTable], cx: &mut ExecContext<'_>) -> Result<()> {
    for table in tables {
        table.heap.begin_scan(&cx.snapshot)?;
        cx.usage.scanned(table.oid, 1, 0, 0);
    }
    Ok(())
}

/// Has the session and helpers do `work` for each morsel of the table that `input` reads, if the plan allows and there are
/// helpers. Of the input's columns only those in `is_used` are wanted, by the node with the number `consumer`.
pub(crate) fn begin_morsels<T: MorselResult>(
    (input, is_used, consumer): (&mut NodeState, &[bool], usize),
    work: MorselWork<T>,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<Option<MorselRun<T>>> {
    let results_wait = T::left_out().is_none();
    let Some((scan, pool, most)) = share_morsels((input, is_used), results_wait, rt, cx)? else { return Ok(None) };
    let (node, SharedScan { input: shared, tables }) = (input.node().clone(), scan);
    let job = HelperJob::of(rt, cx);
    let figures = job.figures.clone();
    let tables: Arc<[MorselTable]> = tables.into();
    let blocks = tables.iter().map(|table| table.blocks).collect();
    let board = Arc::new(MorselBoard::new(blocks, most + 1, cx.park.wake_handle()));
    let (of_helper, their_work, their_tables) = (board.clone(), work.clone(), tables.clone());
    let team = pool.start(most, cx.park.wake_handle(), move |park| {
        job.carry_out(park, |rt, cx| {
            of_helper.help((&mut shared.scan(&node)?, &their_tables), &their_work, rt, cx);
            Ok(())
        })
    });
    let Some(team) = team else { return Ok(None) };
    note_scans(&tables, cx)?;
    Ok(Some(MorselRun::new((board, tables), work, (team, figures), consumer)))
}

/// Has the session and helpers each make a part of the morsels that they take of the table that `input` reads, if the plan
/// allows and there are helpers, and makes one of all. Of the input's columns only those in `is_used` are wanted, by the node with
/// the number `consumer`. An error is that of the first morsel that has one, as if one thread had read them.
pub(crate) fn make_together<W: PartWork>(
    (input, is_used, consumer): (&mut NodeState, &[bool], usize),
    work: W,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<Option<W::PartialResult>> {
    let Some((scan, pool, most)) = share_morsels((input, is_used), false, rt, cx)? else { return Ok(None) };
    let (node, SharedScan { input: shared, tables }) = (input.node().clone(), scan);
    let job = HelperJob::of(rt, cx);
    let figures = job.figures.clone();
    let morsels = Arc::new(MorselParts::new(tables, work));
    let of_helper = morsels.clone();
    let team = pool.start(most, cx.park.wake_handle(), move |park| {
        job.carry_out(park, |rt, cx| of_helper.make(&mut shared.scan(&node)?, rt, cx))
    });
    let Some(team) = team else { return Ok(None) };
    note_scans(morsels.tables(), cx)?;
    let own = morsels.make(input, rt, cx)?;
    let mut parts = team.finish(cx.park)?;
    figures.lock().unwrap_or_else(PoisonError::into_inner).add_to(rt, cx);
    rt.count_workers(consumer, parts.len());
    parts.push(own);
    morsels.merge(parts, cx).map(Some)
}

/// The number of a partitioned table's rows, if `state` aggregates nothing but count(*). The input counts as read then.
pub(crate) fn count_partitions(
    state: &mut AggregateState,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<Option<i64>> {
    let node = state.unary.node.clone();
    let NodeState::Partitions(input) = &mut *state.unary.input else { return Ok(None) };
    if rt.counters.is_some() || !counts_whole_table(&node.op) {
        return Ok(None);
    }
    let leaves = input.open_all(rt, cx)?;
    for leaf in &leaves {
        leaf.heap.begin_scan(&cx.snapshot)?;
    }
    let heaps: Vec<Arc<Relation>> = leaves.iter().map(|leaf: &Arc<LeafPartition>| leaf.heap.clone()).collect();
    let counts = count(&heaps, node.id, rt, cx)?;
    for (leaf, rows) in leaves.iter().zip(&counts) {
        cx.usage.scanned(leaf.oid, 1, *rows as u64, 0);
    }
    Ok(Some(counts.into_iter().sum()))
}

/// The numbers of the heaps' rows, counted together with helpers.
pub fn count(heaps: &[Arc<Relation>], node: usize, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Vec<i64>> {
    let heaps: Arc<[(Arc<Relation>, AtomicU32)]> = heaps.iter().map(|heap| (heap.clone(), AtomicU32::new(0))).collect();
    let pages = heaps.iter().map(|(heap, _)| u64::from(heap.pages())).sum();
    let team = helpers(pages, cx).and_then(|(pool, most)| {
        let (heaps, snapshot) = (heaps.clone(), cx.snapshot.clone());
        pool.start(most, cx.park.wake_handle(), move |park| count_part(&heaps, &snapshot, park))
    });
    let mut totals = count_part(&heaps, &cx.snapshot, cx.park)?;
    let others = team.map_or_else(|| Ok(Vec::new()), |team| team.finish(cx.park))?;
    rt.count_workers(node, others.len());
    for theirs in others {
        assert!(theirs.len() == totals.len(), "all threads count the same heaps");
        totals.iter_mut().zip(theirs).for_each(|(total, rows)| *total += rows);
    }
    Ok(totals)
}

fn count_part(
    heaps: &[(Arc<Relation>, AtomicU32)],
    snapshot: &Snapshot,
    park: &dyn kilndb_base::park::Park,
) -> Result<Vec<i64>> {
    let mut totals = Vec::with_capacity(heaps.len());
    for (heap, blocks) in heaps {
        let mut total = 0;
        loop {
            let first = blocks.fetch_add(BLOCKS_AT_ONCE, Ordering::Relaxed);
            let end = heap.pages().min(first.saturating_add(BLOCKS_AT_ONCE));
            if first >= end {
                break;
            }
            for block in first..end {
                total += i64::from(heap.count_block(block, snapshot)?);
            }
            park.checkpoint()?;
        }
        totals.push(total);
    }
    Ok(totals)
}
