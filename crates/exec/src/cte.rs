//! Common table expressions: their rows are computed once, batch by batch as they are asked for, and read by position.
//!
//! In a recursive one the rows of a round are the working table of the next: they are a range of the rows made.

use super::context::*;
use super::state::NodeState;
use kilndb_base::{Error, Result};
use kilndb_plan::{CtePlan, Op, PlanNode};
use kilndb_spill::{KeySet, RowStore, StoreCursor};
use kilndb_types::key;
use std::sync::Arc;

pub(crate) struct CteState {
    rows: RowStore,
    source: NodeState,
    recursive: Option<NodeState>,
    /// The recursive term is being run for the present round.
    in_round: bool,
    /// Rows of the previous round.
    working: std::ops::Range<usize>,
    /// The rows that there are, where each may be there once.
    seen: KeySet,
    /// Room for a row's key.
    key: Vec<u8>,
    first_done: bool,
    done: bool,
}

pub(crate) struct CteScanState {
    pub node: Arc<PlanNode>,
    next: usize,
    cursor: StoreCursor,
}

impl CteScanState {
    pub fn new(node: &Arc<PlanNode>) -> CteScanState {
        CteScanState { node: node.clone(), next: 0, cursor: StoreCursor::default() }
    }
    pub(crate) fn rescan(&mut self) {
        self.next = 0;
        self.cursor = StoreCursor::default();
    }
    /// Appends rows up to number `end`.
    fn read(&mut self, rows: &RowStore, end: usize, out: &mut Batch, cx: &ExecContext<'_>) -> Result<()> {
        while !out.full() && self.next < end {
            out.push(rows.row(self.next, &mut self.cursor, cx.io())?);
            self.next += 1;
        }
        Ok(())
    }
    pub fn next(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.node.clone();
        match &node.op {
            Op::WorkTable { cte } => {
                let Some(Some(c)) = rt.ctes.get(*cte) else {
                    return Err(Error::internal("working table without a recursive query"));
                };
                self.next = self.next.max(c.working.start);
                self.read(&c.rows, c.working.end, out, cx)
            }
            Op::CteScan { cte } => loop {
                if let Some(Some(c)) = rt.ctes.get(*cte) {
                    self.read(&c.rows, c.rows.len(), out, cx)?;
                    if out.rows > 0 || c.done {
                        return Ok(());
                    }
                }
                advance(*cte, rt, cx)?;
            },
            _ => Ok(()),
        }
    }
}

/// Discards the rows of these CTEs; they are computed anew when they are asked for.
pub fn forget(ctes: impl Iterator<Item = usize>, rt: &mut RunState) {
    for n in ctes {
        if let Some(slot) = rt.ctes.get_mut(n) {
            *slot = None;
        }
    }
}

/// Computes some more rows of the CTE.
fn advance(cte: usize, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
    let plan = rt.plan.clone();
    let Some(info) = plan.ctes.get(cte) else { return Err(Error::internal("WITH query")) };
    let mut c = match rt.ctes.get_mut(cte).and_then(Option::take) {
        Some(c) => c,
        None => CteState {
            rows: RowStore::new(info.node.width, cx.work_mem_bytes),
            source: NodeState::new(&info.node),
            recursive: info.recursive.as_ref().map(NodeState::new),
            in_round: false,
            working: 0..0,
            seen: KeySet::new(cx.hash_mem_bytes),
            key: Vec::new(),
            first_done: false,
            done: false,
        },
    };
    let mut batch = Batch::new(info.node.width);
    cx.park.step()?;
    if !c.first_done {
        c.source.next(&mut batch, rt, cx)?;
        take(&mut c, &batch, info, cx)?;
        if batch.rows == 0 {
            c.first_done = true;
            c.done = c.recursive.is_none() || c.rows.is_empty();
            c.working = 0..c.rows.len();
        }
        rt.ctes[cte] = Some(c);
        return Ok(());
    }
    let Some(mut recursive) = c.recursive.take() else {
        c.done = true;
        rt.ctes[cte] = Some(c);
        return Ok(());
    };
    let starts = !std::mem::replace(&mut c.in_round, true);
    // The term reads the working table while it runs.
    rt.ctes[cte] = Some(c);
    if starts {
        recursive.rescan(rt);
        forget(info.inner.clone(), rt);
    }
    recursive.next(&mut batch, rt, cx)?;
    if let Some(Some(c)) = rt.ctes.get_mut(cte) {
        take(c, &batch, info, cx)?;
        if batch.rows == 0 {
            c.in_round = false;
            c.working = c.working.end..c.rows.len();
            c.done = c.working.is_empty();
        }
        c.recursive = Some(recursive);
    }
    Ok(())
}

/// Stores the rows of a batch. UNION without ALL stores only rows that are not there yet.
fn take(c: &mut CteState, batch: &Batch, info: &CtePlan, cx: &ExecContext<'_>) -> Result<()> {
    let distinct = info.recursive.is_some() && !info.union_all;
    for i in 0..batch.rows {
        let row = batch.row(i);
        if distinct {
            c.key.clear();
            for (d, t) in row.iter().zip(&info.types) {
                key::hash_equal_key(*t, d, &mut c.key)?;
            }
            if !c.seen.insert(&c.key, cx.io())? {
                continue;
            }
        }
        c.rows.push(row, cx.io())?;
    }
    Ok(())
}

pub(crate) fn run_to_end(cte: usize, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
    loop {
        if let Some(Some(c)) = rt.ctes.get(cte)
            && c.done
        {
            return Ok(());
        }
        advance(cte, rt, cx)?;
    }
}
