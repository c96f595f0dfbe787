//! Joins and aggregates that are done partition by partition.
//!
//! Invariants
//! 1. Partitions of the same number are joined only if the tables are still divided alike when the run begins;
//!    otherwise the run takes all partitions at once.
//! 2. Small partitions that follow one another are taken together: the fixed cost of a run is not paid for a few rows.

use super::context::*;
use super::partition::{PartitionRoute, relation, seen_map};
use super::partition_scan::heap_of;
use super::state::NodeState;
use kilndb_base::Result;
use kilndb_catalog::Table;
use kilndb_catalog::partition::PartitionMap;
use kilndb_plan::{Op, PlanNode};
use std::ops::Range;
use std::sync::Arc;

/// Partitions are taken together up to this many blocks.
const BLOCKS_TOGETHER: u64 = 2048;

pub(crate) struct ByPartitionState {
    pub node: Arc<PlanNode>,
    input: Box<NodeState>,
    /// The spans of partitions that are left, the next one last. None: the run has not begun.
    spans: Option<Vec<Range<usize>>>,
    is_reading: bool,
    /// The input has run before.
    has_run: bool,
}

impl ByPartitionState {
    pub fn new(node: &Arc<PlanNode>, input: &Arc<PlanNode>) -> ByPartitionState {
        ByPartitionState {
            node: node.clone(),
            input: Box::new(NodeState::new(input)),
            spans: None,
            is_reading: false,
            has_run: false,
        }
    }
    pub(crate) fn rescan(&mut self) {
        self.spans = None;
        self.is_reading = false;
    }

    pub fn next(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.node.clone();
        let Op::ByPartition(plan) = &node.op else { return Ok(()) };
        if self.spans.is_none() {
            self.spans = Some(spans(&plan.scans, rt.counters.is_some(), cx)?);
        }
        while out.rows == 0 {
            if !self.is_reading {
                let Some(span) = self.spans.as_mut().and_then(Vec::pop) else { return Ok(()) };
                if std::mem::replace(&mut self.has_run, true) {
                    self.input.rescan(rt);
                }
                rt.restrict(&plan.scans, &span);
                self.is_reading = true;
            }
            self.input.next(out, rt, cx)?;
            if out.rows == 0 {
                self.is_reading = false;
                self.count_as_shown(rt, &plan.shown, &plan.scans);
                cx.park.checkpoint()?;
            }
        }
        Ok(())
    }

    /// For EXPLAIN ANALYZE: adds what the input's nodes have counted since the last partition to this one's counters.
    fn count_as_shown(&self, rt: &mut RunState, shown: &[kilndb_plan::ShownPartition], scans: &[(usize, Arc<Table>)]) {
        let span = scans.first().and_then(|(scan, _)| rt.span_of(*scan));
        let Some(counters) = &mut rt.counters else { return };
        let Some(part) = shown.iter().find(|part| span.as_ref().is_some_and(|span| span.start == part.position)) else {
            return;
        };
        for (node, stand_in) in &part.stands_for {
            let counted = counters.get_mut(*node).map(std::mem::take).unwrap_or_default();
            if let Some(total) = counters.get_mut(*stand_in) {
                total.add(&counted);
                total.report = counted.report;
            }
        }
    }
}

/// Which partitions are taken together, the last ones first.
fn spans(scans: &[(usize, Arc<Table>)], one_by_one: bool, cx: &mut ExecContext<'_>) -> Result<Vec<Range<usize>>> {
    let maps = scans.iter().map(|(_, table)| seen_map(table.oid, cx)).collect::<Result<Vec<_>>>()?;
    let Some((first, others)) = maps.split_first() else { return Ok(Vec::new()) };
    if !others.iter().all(|map| map.is_divided_like(first)) {
        return Ok(std::iter::once(0..usize::MAX).collect());
    }
    let mut spans: Vec<Range<usize>> = Vec::new();
    let mut blocks = BLOCKS_TOGETHER;
    for at in 0..first.partitions.len() {
        match spans.last_mut() {
            Some(span) if blocks < BLOCKS_TOGETHER && !one_by_one => span.end = at + 1,
            _ => {
                spans.push(at..at + 1);
                blocks = 0;
            }
        }
        for ((_, table), map) in scans.iter().zip(&maps) {
            blocks = blocks.saturating_add(blocks_of(table, map, at, cx)?);
        }
    }
    spans.reverse();
    Ok(spans)
}

fn blocks_of(table: &Table, map: &PartitionMap, at: usize, cx: &ExecContext<'_>) -> Result<u64> {
    let Some(partition) = map.partitions.get(at).filter(|p| !p.is_partitioned) else { return Ok(BLOCKS_TOGETHER) };
    let place = PartitionRoute { oid: partition.oid, at: Some(at as u32) };
    // A partition that is being dropped may have no storage any more.
    let heap = heap_of(table, place, cx)?.and_then(|heap| relation(heap, cx).ok());
    Ok(heap.map_or(0, |heap| u64::from(heap.pages())))
}
