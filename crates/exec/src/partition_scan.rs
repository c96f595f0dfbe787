//! A partitioned table's rows: one partition after another, several threads together, or merged by the order that each
//! partition has.
//!
//! Invariant: partitions are found when reading begins, by the conditions' values at that moment.

use super::columns::ColumnBatch;
use super::context::*;
use super::expr::Evaluate;
use super::opened_partitions::opened;
use super::partition::{
    LeafPartition, OpenPartition, PartitionRoute, gone, keeps_pending, lock, open, open_to_read, relation, seen_map,
};
use super::scan::ScanState;
use kilndb_base::sync::atomic::AtomicU32;
use kilndb_base::{Oid, RelationId, Result};
use kilndb_catalog::operator_class::{SupportFunctionCaller, UserOperatorClass};
use kilndb_catalog::partition::column_map;
use kilndb_catalog::{FunctionInfo, Table};
use kilndb_plan::expression::{CExpr, Expression};
use kilndb_plan::partition::PartitionScan;
use kilndb_plan::prune::PruneValues;
use kilndb_plan::{Op, PlanNode, SortSpec};
use kilndb_storage::LockMode;
use kilndb_types::{Datum, key};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

/// Reads one partition after another, or merges them by the order that each has.
pub(crate) struct PartitionsState {
    pub node: Arc<PlanNode>,
    reading: PartitionReader,
}

struct PartitionReader {
    scan: ScanState,
    is_started: bool,
    /// The only partition to be read, if there is just one.
    only: Option<PartitionRoute>,
    /// The partitions that are still to be read, the next one last.
    left: Vec<PartitionRoute>,
    /// The partitions that several threads read together, and how many of them this thread has begun.
    shared: Option<(SharedLeaves, usize)>,
    is_open: bool,
    /// Only the rows of the block that is being read are still wanted.
    ends_with_block: bool,
    /// For EXPLAIN ANALYZE: the node that stands for the partition's scan.
    counted: Option<usize>,
    merge: Option<PartitionMerge>,
}

/// Partitions that several threads read together, all in this order: each takes blocks of the first one that has some
/// left.
#[derive(Clone)]
pub(crate) struct SharedLeaves(Arc<[(Arc<LeafPartition>, Arc<AtomicU32>)]>);

impl SharedLeaves {
    pub fn new(leaves: Vec<Arc<LeafPartition>>) -> SharedLeaves {
        SharedLeaves(leaves.into_iter().map(|leaf| (leaf, Arc::default())).collect())
    }
}

/// Sorted partitions, of each of which some rows have been read.
struct PartitionMerge {
    sources: Vec<MergeSource>,
    /// The next row's key of each that has one.
    next: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
}

struct MergeSource {
    scan: ScanState,
    counted: Option<usize>,
    rows: Batch,
    at: usize,
}

/// How many rows are read first from each partition. Each later read takes more: under a LIMIT the first may be enough.
const FIRST_ROWS: usize = 4;

impl MergeSource {
    /// Is there a next row, once more have been read if need be?
    fn has_row(&mut self, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<bool> {
        if self.at >= self.rows.rows {
            self.rows.clear();
            self.at = 0;
            next_counted(&mut self.scan, self.counted, &mut self.rows, rt, cx)?;
            self.rows.max = (self.rows.max * 4).min(BATCH_ROWS);
        }
        Ok(self.at < self.rows.rows)
    }
    fn key(&self, keys: &[SortSpec], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(16);
        for k in keys {
            let value = k.expr.eval(self.rows.row(self.at), rt, cx)?;
            key::encode_key(k.ty, &value, k.descending, k.nulls_first, &mut out)?;
        }
        Ok(out)
    }
}

/// Counts the beginning of a partition's scan, for EXPLAIN ANALYZE, and returns the node that stands for it.
fn begin_counted(p: &PartitionScan, partition: Oid, rt: &mut RunState) -> Option<usize> {
    let node = counted_node(p, partition, rt)?;
    rt.count_start(node);
    Some(node)
}

/// As [`begin_counted`], of a partition of which a thread may read several parts.
fn begin_counted_once(p: &PartitionScan, partition: Oid, rt: &mut RunState) -> Option<usize> {
    let node = counted_node(p, partition, rt)?;
    let is_begun = rt.counters.as_ref().and_then(|counters| counters.get(node)).is_some_and(|c| c.loops > 0);
    if !is_begun {
        rt.count_start(node);
    }
    Some(node)
}

/// The node that stands for the partition's scan, if EXPLAIN ANALYZE counts.
fn counted_node(p: &PartitionScan, partition: Oid, rt: &RunState) -> Option<usize> {
    rt.counters.as_ref()?;
    p.shown.iter().find(|s| s.oid == partition).map(|shown| shown.node.id)
}

fn next_counted(
    scan: &mut ScanState,
    counted: Option<usize>,
    out: &mut Batch,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<()> {
    let Some(node) = counted else { return scan.next(out, rt, cx) };
    let (begun, before, removed) = (MeasureStart::now(), out.rows, rt.removed);
    let searches = scan.searches();
    scan.next(out, rt, cx)?;
    rt.count_removed(node, removed);
    rt.count_searches(node, scan.searches() - searches);
    rt.count_rows(node, out.rows - before, &begun);
    Ok(())
}

impl PartitionsState {
    pub fn new(node: &Arc<PlanNode>, template: &Arc<PlanNode>) -> PartitionsState {
        let reading = PartitionReader {
            scan: ScanState::new(template),
            is_started: false,
            only: None,
            left: Vec::new(),
            shared: None,
            is_open: false,
            ends_with_block: false,
            counted: None,
            merge: None,
        };
        PartitionsState { node: node.clone(), reading }
    }
    pub(crate) fn rescan(&mut self) {
        let reading = &mut self.reading;
        reading.is_started = false;
        reading.only = None;
        reading.left.clear();
        reading.shared = None;
        reading.is_open = false;
        reading.merge = None;
    }

    /// All partitions that are to be read, locked and opened, in place of being read by this state alone.
    pub(crate) fn open_all(&mut self, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Vec<Arc<LeafPartition>>> {
        let Op::Partitions(p) = &self.node.op else { return Ok(Vec::new()) };
        let reading = &mut self.reading;
        reading.start(p, rt.span_of(self.node.id), rt, cx)?;
        let mut leaves = Vec::with_capacity(reading.left.len() + 1);
        while let Some(place) = reading.only.take().or_else(|| reading.left.pop()) {
            cx.park.checkpoint()?;
            leaves.extend(open(&p.table, place, LockMode::AccessShare, cx)?);
        }
        reading.is_started = true;
        Ok(leaves)
    }
    /// Reads those blocks of the partitions that the others who have been given the same do not.
    pub fn share(&mut self, leaves: SharedLeaves) {
        self.reading.shared = Some((leaves, 0));
        self.reading.is_started = true;
    }
    /// Reads these blocks of a partition next, and no others.
    pub(crate) fn begin_part(
        &mut self,
        leaf: &Arc<LeafPartition>,
        blocks: Range<u32>,
        rt: &mut RunState,
    ) -> Result<()> {
        let Op::Partitions(p) = &self.node.op else { return Ok(()) };
        let reading = &mut self.reading;
        reading.left.clear();
        (reading.only, reading.shared) = (None, None);
        reading.counted = begin_counted_once(p, leaf.oid, rt);
        reading.scan.read_partition(OpenPartition::Held(leaf.clone()))?;
        reading.scan.begin_part(blocks);
        (reading.is_started, reading.is_open) = (true, true);
        Ok(())
    }
    /// Makes the scan end after the block that it is reading, until this is called with false.
    pub(crate) fn end_with_block(&mut self, ends: bool) {
        self.reading.ends_with_block = ends;
        self.reading.scan.end_with_block(ends);
    }

    pub fn next(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let Op::Partitions(p) = &self.node.op else { return Ok(()) };
        let reading = &mut self.reading;
        reading.start_once(p, self.node.id, rt, cx)?;
        match (&mut reading.merge, &p.order) {
            (Some(merge), Some(order)) => merge.next(&order.keys, out, rt, cx),
            _ => reading.next_plain(p, out, rt, cx),
        }
    }

    /// Can it hand on its rows as columns?
    pub fn has_columns(&self) -> bool {
        matches!(&self.node.op, Op::Partitions(p) if p.order.is_none()) && self.reading.scan.has_columns()
    }
    /// The next rows as columns, of which only those in `is_used` are there. No row: there are no more.
    pub fn next_columns(
        &mut self,
        out: &mut ColumnBatch,
        is_used: &[bool],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let Op::Partitions(p) = &self.node.op else { return Ok(()) };
        self.reading.start_once(p, self.node.id, rt, cx)?;
        self.reading.next_columns(p, (out, is_used), rt, cx)
    }
}

impl PartitionReader {
    /// Finds the partitions, unless that was done.
    fn start_once(
        &mut self,
        p: &PartitionScan,
        node: usize,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        if !self.is_started {
            self.start(p, rt.span_of(node), rt, cx)?;
            self.is_started = true;
        }
        Ok(())
    }

    fn next_columns(
        &mut self,
        p: &PartitionScan,
        (out, is_used): (&mut ColumnBatch, &[bool]),
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        loop {
            if !self.is_open && !self.open_next(p, rt, cx)? {
                out.clear();
                return Ok(());
            }
            let (begun, removed) = (self.counted.map(|_| MeasureStart::now()), rt.removed);
            self.scan.next_columns(out, is_used, rt, cx)?;
            if let (Some(node), Some(begun)) = (self.counted, begun) {
                rt.count_removed(node, removed);
                rt.count_rows(node, out.rows().len(), &begun);
            }
            if !out.rows().is_empty() || self.ends_with_block {
                return Ok(());
            }
            self.is_open = false;
            cx.park.checkpoint()?;
        }
    }

    /// `span`: of the named table's partitions only these are to be read.
    fn start(
        &mut self,
        p: &PartitionScan,
        span: Option<Range<usize>>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        // Without a reference of its own to the map, nor a list, if the key leads to one partition.
        let catalog = cx.catalog;
        if let Some(shared) = opened(p.table.oid, catalog)
            && !keeps_pending(&shared.map, cx)
            && let Some(found) = kilndb_plan::prune::only(
                &shared.map,
                &p.prune,
                &mut ConditionValues { evaluate: &mut |e, cx| e.eval(&[], rt, cx).map(Some), cx },
            )?
        {
            let Some(at) = found.filter(|at| span.as_ref().is_none_or(|span| span.contains(at))) else { return Ok(()) };
            // What has been opened is one that has rows; its description needs no look then.
            let plain = |oid| PartitionRoute { oid, at: Some(at as u32) };
            self.only = match shared.known(at) {
                Some(known) => Some(plain(known.oid)),
                None => Some(&shared.map.partitions[at]).filter(|p| !p.is_partitioned).map(|p| plain(p.oid)),
            };
            if self.only.is_some() {
                return Ok(());
            }
        }
        let mut found = Vec::new();
        leaves(p, &p.table, span.as_ref(), &mut |e, cx| e.eval(&[], rt, cx).map(Some), cx, &mut found)?;
        with_entries(p, &mut found, rt, cx)?;
        let as_they_are = match &p.order {
            Some(order) if found.len() > 1 => match order.ranges {
                Some(backward) if seen_map(p.table.oid, cx)?.has_plain_ranges() => {
                    if backward {
                        found.reverse();
                    }
                    true
                }
                _ => false,
            },
            _ => true,
        };
        if let (false, Some(order)) = (as_they_are, &p.order) {
            self.merge = Some(PartitionMerge::start(p, &p.template, &order.keys, &found, rt, cx)?);
        }
        found.reverse();
        self.left = found;
        Ok(())
    }

    fn next_plain(
        &mut self,
        p: &PartitionScan,
        out: &mut Batch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        while out.rows == 0 {
            if !self.is_open && !self.open_next(p, rt, cx)? {
                return Ok(());
            }
            next_counted(&mut self.scan, self.counted, out, rt, cx)?;
            if out.rows == 0 {
                if self.ends_with_block {
                    return Ok(());
                }
                self.is_open = false;
                cx.park.checkpoint()?;
            }
        }
        Ok(())
    }

    /// Goes on to the next partition; false if there is none.
    fn open_next(&mut self, p: &PartitionScan, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<bool> {
        if self.ends_with_block {
            return Ok(false);
        }
        if let Some((SharedLeaves(leaves), begun)) = &mut self.shared {
            let Some((leaf, blocks)) = leaves.get(*begun) else { return Ok(false) };
            *begun += 1;
            self.counted = begin_counted_once(p, leaf.oid, rt);
            self.scan.rescan();
            self.scan.read_partition(OpenPartition::Held(leaf.clone()))?;
            self.scan.share(blocks.clone());
            self.is_open = true;
            return Ok(true);
        }
        while let Some(next) = self.only.take().or_else(|| self.left.pop()) {
            let Some(partition) = open_to_read(&p.table, next, LockMode::AccessShare, cx)? else { continue };
            self.counted = begin_counted(p, next.oid, rt);
            self.scan.rescan();
            self.scan.read_partition(partition)?;
            self.is_open = true;
            return Ok(true);
        }
        Ok(false)
    }
}

impl PartitionMerge {
    fn start(
        p: &PartitionScan,
        template: &Arc<PlanNode>,
        keys: &[SortSpec],
        partitions: &[PartitionRoute],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<PartitionMerge> {
        let mut merge = PartitionMerge { sources: Vec::new(), next: BinaryHeap::new() };
        for partition in partitions {
            cx.park.checkpoint()?;
            let Some(open) = open_to_read(&p.table, *partition, LockMode::AccessShare, cx)? else { continue };
            let mut source = MergeSource {
                scan: ScanState::new(template),
                counted: begin_counted(p, partition.oid, rt),
                rows: Batch::with_max(template.width, FIRST_ROWS),
                at: 0,
            };
            source.scan.read_partition(open)?;
            if source.has_row(rt, cx)? {
                let key = source.key(keys, rt, cx)?;
                merge.next.push(Reverse((key, merge.sources.len())));
                merge.sources.push(source);
            }
        }
        Ok(merge)
    }

    fn next(&mut self, keys: &[SortSpec], out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        while !out.full() {
            let Some(Reverse((_, at))) = self.next.pop() else { return Ok(()) };
            let source = &mut self.sources[at];
            out.push(source.rows.row(source.at));
            source.at += 1;
            if source.has_row(rt, cx)? {
                let key = source.key(keys, rt, cx)?;
                self.next.push(Reverse((key, at)));
            }
        }
        Ok(())
    }
}

/// Where the rows of a partition are, as far as is known without a lock on it.
pub fn heap_of(named: &Table, place: PartitionRoute, cx: &ExecContext<'_>) -> Result<Option<RelationId>> {
    let shared = place.at.and_then(|at| opened(named.oid, cx.catalog)?.known(at as usize));
    match shared.filter(|known| known.oid == place.oid) {
        Some(known) => Ok(Some(known.leaf.heap.id())),
        None => Ok(cx.catalog.table_by_oid(place.oid)?.map(|table| table.storage)),
    }
}

/// The partition, at whatever distance, whose rows are in that heap.
pub(crate) fn with_heap(
    named: &Arc<Table>,
    heap: RelationId,
    cx: &mut ExecContext<'_>,
) -> Result<Option<PartitionRoute>> {
    let mut tables = vec![named.oid];
    while let Some(table) = tables.pop() {
        for (at, partition) in seen_map(table, cx)?.partitions.iter().enumerate() {
            if partition.is_partitioned {
                tables.push(partition.oid);
                continue;
            }
            let place = PartitionRoute { oid: partition.oid, at: (table == named.oid).then_some(at as u32) };
            if heap_of(named, place, cx)? == Some(heap) {
                return Ok(Some(place));
            }
        }
    }
    Ok(None)
}

/// Of partitions to be read by way of one tree for all: those that have entries for what is looked for.
fn with_entries(
    p: &PartitionScan,
    found: &mut Vec<PartitionRoute>,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<()> {
    let Op::IndexScan { access, .. } = &p.template.op else { return Ok(()) };
    if !access.index.is_global || found.len() < 2 {
        return Ok(());
    }
    let tree = relation(access.index.storage, cx)?;
    let ranges = super::index::ranges(access, &tree, rt, cx)?;
    let Some(keys) = super::index::whole_keys(access, ranges) else { return Ok(()) };
    let mut heaps = Vec::new();
    for key in keys {
        heaps.extend(tree.heaps_with(&cx.snapshot, &key)?);
    }
    let mut left = Vec::new();
    let mut known = Vec::new();
    for place in found.iter() {
        if let Some(heap) = heap_of(&p.table, *place, cx)?.filter(|heap| heaps.contains(heap)) {
            left.push(*place);
            known.push(heap);
        }
    }
    // The heap of a partition that conditions rule out, or one that is gone, or new: only then all are looked at that
    // are not ruled out.
    let is_gone = |heap: &RelationId| cx.engine.relation(*heap).is_err();
    if heaps.iter().all(|heap| known.contains(heap) || is_gone(heap)) {
        *found = left;
    }
    Ok(())
}

type ValueOf<'e> = dyn FnMut(&Expression, &mut ExecContext<'_>) -> Result<Option<Datum>> + 'e;

/// The values that conditions have while the plan runs.
struct ConditionValues<'k, 'e, 'c> {
    evaluate: &'k mut ValueOf<'e>,
    cx: &'k mut ExecContext<'c>,
}
impl SupportFunctionCaller for ConditionValues<'_, '_, '_> {
    fn call(&mut self, function: &FunctionInfo, class: &UserOperatorClass, arguments: [&Datum; 2]) -> Result<Datum> {
        self.cx.call(function, class, arguments)
    }
}
impl PruneValues for ConditionValues<'_, '_, '_> {
    fn value(&mut self, e: &Expression) -> Result<Option<Datum>> {
        (self.evaluate)(e, self.cx)
    }
}

/// The partitions with rows below `table` that the conditions leave.
fn leaves(
    p: &PartitionScan,
    table: &Arc<Table>,
    span: Option<&Range<usize>>,
    evaluate: &mut ValueOf<'_>,
    cx: &mut ExecContext<'_>,
    out: &mut Vec<PartitionRoute>,
) -> Result<()> {
    let map = seen_map(table.oid, cx)?;
    let is_named = table.oid == p.table.oid;
    let columns = if is_named { None } else { column_map(&p.table, table) };
    let found = kilndb_plan::prune::candidates(
        &map,
        &p.prune,
        columns.as_deref(),
        is_named,
        &mut ConditionValues { evaluate, cx },
    )?;
    for i in found.into_iter().filter(|i| span.is_none_or(|span| span.contains(i))) {
        let partition = &map.partitions[i];
        if !partition.is_partitioned {
            out.push(PartitionRoute { oid: partition.oid, at: is_named.then_some(i as u32) });
            continue;
        }
        lock(partition.oid, LockMode::AccessShare, cx)?;
        let below = cx.catalog.table_by_oid(partition.oid)?.ok_or_else(|| gone(partition.oid))?;
        leaves(p, &below, None, evaluate, cx, out)?;
    }
    Ok(())
}

/// For EXPLAIN: of the partitions that the plan shows, those that are left out by values known before the first row.
pub(crate) fn removed_at_start(p: &PartitionScan, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Vec<Oid>> {
    if !p.prune.any_value(&|e| !matches!(e, CExpr::Const(_)) && e.is_known_at_start()) {
        return Ok(Vec::new());
    }
    let mut left = Vec::new();
    let mut evaluate = |e: &Expression, cx: &mut ExecContext<'_>| {
        if e.is_known_at_start() { e.eval(&[], rt, cx).map(Some) } else { Ok(None) }
    };
    leaves(p, &p.table, None, &mut evaluate, cx, &mut left)?;
    Ok(p.shown.iter().map(|s| s.oid).filter(|oid| !left.iter().any(|place| place.oid == *oid)).collect())
}
