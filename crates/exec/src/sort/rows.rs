//! Rows that are sorted: all, or the first ones only while they fit in memory; by one thread, or by several, of which each sorts
//! the rows of the morsels that it takes.

use super::top::TopRows;
use crate::columns::{ColumnBatch, fill_rows};
use crate::context::*;
use crate::expr::Evaluate;
use crate::morsel_parts::PartWork;
use crate::parts::may_be_shared;
use crate::state::NodeState;
use kilndb_base::sync::Arc;
use kilndb_base::{Error, Result};
use kilndb_plan::expression::CExpr;
use kilndb_plan::{Op, PlanNode, SortSpec};
use kilndb_spill::{SortBudget, Sorter, SpillIo};
use kilndb_types::{Datum, key, row};

/// Rows that are taken in, and handed out in their order once there are no more.
pub(super) struct SortedRows {
    /// None: there are too many, or no LIMIT.
    top: Option<TopRows>,
    sorter: Sorter,
    count: u64,
    key: Vec<u8>,
}

impl SortedRows {
    /// `bound`: no more rows are wanted.
    pub fn new(bound: Option<u64>, work_mem_bytes: usize) -> SortedRows {
        let top = bound.map(|n| TopRows::new(n, work_mem_bytes));
        SortedRows { top, sorter: Sorter::new(work_mem_bytes), count: 0, key: Vec::new() }
    }
    /// Those of one of several threads.
    fn of_part(bound: Option<u64>, budget: &SortBudget) -> SortedRows {
        let top = bound.map(|n| TopRows::new(n, budget.share_bytes()));
        SortedRows { top, sorter: Sorter::of_part(budget.clone()), count: 0, key: Vec::new() }
    }
    pub fn count(&self) -> u64 {
        self.count
    }
    /// Makes the sort's key of a row, and returns it with the length of the part that the first `presorted` keys have.
    pub fn make_key(
        &mut self,
        (keys, presorted): (&[SortSpec], usize),
        row: &[Datum],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<(&[u8], usize)> {
        let mut beginning = 0;
        self.key.clear();
        for (n, k) in keys.iter().enumerate() {
            let d = match k.expr.tree() {
                CExpr::Slot(s) => &row[*s],
                _ => &k.expr.eval(row, rt, cx)?,
            };
            key::encode_key(k.ty, d, k.descending, k.nulls_first, &mut self.key)?;
            if n + 1 == presorted {
                beginning = self.key.len();
            }
        }
        Ok((&self.key, beginning))
    }
    /// Takes in the row whose key was made last.
    pub fn push(&mut self, row: &[Datum], morsel: u32, io: SpillIo<'_>) -> Result<()> {
        self.count += 1;
        let Some(top) = &mut self.top else { return self.sorter.push(&self.key, row, io) };
        if !top.offer(&self.key, row, morsel) {
            self.give_up_top(io)?;
            self.sorter.begin_morsel(morsel);
        }
        Ok(())
    }
    fn give_up_top(&mut self, io: SpillIo<'_>) -> Result<()> {
        match self.top.take() {
            Some(mut top) => top.give_to(&mut self.sorter, io),
            None => Ok(()),
        }
    }
    /// Takes in all rows of the input, of a morsel with this number.
    pub fn take_in(
        &mut self,
        (keys, morsel): (&[SortSpec], u32),
        (input, width): (&mut NodeState, usize),
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let (mut rows, mut columns) = (Batch::new(width), ColumnBatch::default());
        self.sorter.begin_morsel(morsel);
        while fill_rows(input, (&mut rows, &mut columns), rt, cx)? {
            for n in 0..rows.rows {
                let row = rows.row(n);
                self.make_key((keys, 0), row, rt, cx)?;
                self.push(row, morsel, cx.io())?;
            }
        }
        Ok(())
    }
    /// Ends the input.
    pub fn finish(&mut self, io: SpillIo<'_>) -> Result<()> {
        match &mut self.top {
            Some(top) => top.finish(),
            None => self.sorter.finish(io)?,
        }
        Ok(())
    }
    /// How the rows were sorted.
    pub fn report(&self) -> NodeReport {
        let (method, on_disk, bytes) = match &self.top {
            Some(top) if self.count > top.limit.saturating_mul(2) => ("top-N heapsort", false, top.bytes as u64),
            Some(top) => ("quicksort", false, top.bytes as u64),
            None if self.sorter.is_external() => ("external merge", true, self.sorter.disk_bytes),
            None => ("quicksort", false, self.sorter.peak_bytes as u64),
        };
        NodeReport::Sort { method, on_disk, bytes }
    }
    /// The next row's values behind those in `out`; false at the end.
    pub fn next(&mut self, out: &mut Batch, io: SpillIo<'_>) -> Result<bool> {
        if let Some(top) = &mut self.top {
            let Some(row) = top.next() else { return Ok(false) };
            out.data.extend(row);
        } else {
            let Some((_, bytes)) = self.sorter.advance(io)? else { return Ok(false) };
            row::decode_self_describing(bytes, out.width, &mut out.data)?;
        }
        out.end_row();
        Ok(true)
    }
}

/// What threads do that sort together.
pub(super) struct SortWork {
    node: Arc<PlanNode>,
    bound: Option<u64>,
    budget: SortBudget,
}

impl SortWork {
    /// None: the keys need a session, or there is nothing that helpers could read.
    pub fn of(node: &Arc<PlanNode>, bound: Option<u64>, cx: &ExecContext<'_>) -> Option<SortWork> {
        let Op::Sort { input, presorted: 0, is_self_contained: true, .. } = &node.op else { return None };
        if !may_be_shared(input, cx) {
            return None;
        }
        let threads = cx.helpers.map_or(0, |(_, most)| most) + 1;
        Some(SortWork { node: node.clone(), bound, budget: SortBudget::new(cx.work_mem_bytes, threads) })
    }
}

impl PartWork for SortWork {
    type PartialResult = SortedRows;

    fn begin(&self) -> SortedRows {
        SortedRows::of_part(self.bound, &self.budget)
    }
    fn take_in(
        &self,
        part: &mut SortedRows,
        morsel: u32,
        input: &mut NodeState,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let Op::Sort { keys, input: below, .. } = &self.node.op else {
            return Err(Error::internal("something else than a sort sorts in parts"));
        };
        part.take_in((keys, morsel), (input, below.width), rt, cx)
    }
    fn end(&self, part: &mut SortedRows, cx: &mut ExecContext<'_>) -> Result<()> {
        if part.top.is_some() { Ok(()) } else { part.sorter.end_part(cx.io()) }
    }
    /// The rows are in the order of one thread that has taken in the morsels one after the other.
    fn merge(&self, parts: Vec<SortedRows>, cx: &mut ExecContext<'_>) -> Result<SortedRows> {
        let io = cx.io();
        let mut whole = SortedRows::new(self.bound, cx.work_mem_bytes);
        whole.count = parts.iter().map(|part| part.count).sum();
        if parts.iter().all(|part| part.top.is_some()) {
            let tops = parts.into_iter().filter_map(|part| part.top);
            whole.top = tops.reduce(|mut first, other| {
                first.absorb(other);
                first
            });
            whole.finish(io)?;
            return Ok(whole);
        }
        let mut sorters = Vec::new();
        for mut part in parts {
            if part.top.is_some() {
                part.give_up_top(io)?;
                part.sorter.end_part(io)?;
            }
            sorters.push(part.sorter);
        }
        (whole.top, whole.sorter) = (None, Sorter::of_parts(sorters, cx.work_mem_bytes, io)?);
        Ok(whole)
    }
}
