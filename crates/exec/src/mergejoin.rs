//! Merge joins.
//!
//! Both sides are sorted by their keys, each ascending or descending; where NULL comes does not matter. The inner rows with one key are kept until the outer
//! side has left that key: in memory, and in a file beyond the budget.

use super::context::*;
use super::expr::Evaluate;
use super::state::NodeState;
use kilndb_base::Result;
use kilndb_bind::ir::JoinKind;
use kilndb_plan::expression::{CExpr, Expression};
use kilndb_plan::{MergeKeyKind, Op, PlanNode};
use kilndb_spill::{RowStore, StoreCursor, row_bytes};
use kilndb_types::{Datum, key};
use std::cmp::Ordering;
use std::sync::Arc;

/// One side of the join, read row by row.
struct MergeSide {
    input: NodeState,
    batch: Batch,
    next: usize,
    /// The key of the present row; empty if it has NULL in it, and so no partner.
    key: Vec<u8>,
    done: bool,
}

impl MergeSide {
    fn new(node: &Arc<PlanNode>) -> MergeSide {
        MergeSide { input: NodeState::new(node), batch: Batch::new(node.width), next: 0, key: Vec::new(), done: false }
    }
    fn rescan(&mut self, rt: &mut RunState) {
        self.input.rescan(rt);
        self.batch.clear();
        (self.next, self.done) = (0, false);
        self.key.clear();
    }
    /// Makes the next row, or the present one if it has not been taken, the present one; false at the end.
    fn advance(
        &mut self,
        keys: &[Expression],
        kinds: &[MergeKeyKind],
        max: usize,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        if self.done {
            return Ok(false);
        }
        if self.next >= self.batch.rows {
            self.next = 0;
            self.batch.max = max;
            if !self.input.fill(&mut self.batch, rt, cx)? {
                self.done = true;
                return Ok(false);
            }
        }
        self.key.clear();
        let row = self.batch.row(self.next);
        for (e, kind) in keys.iter().zip(kinds) {
            let computed;
            let value = match e.tree() {
                CExpr::Slot(slot) => &row[*slot],
                _ => {
                    computed = e.eval(row, rt, cx)?;
                    &computed
                }
            };
            if value.is_null() {
                self.key.clear();
                break;
            }
            key::encode_key(kind.ty, value, kind.descending, false, &mut self.key)?;
        }
        Ok(true)
    }
    fn row(&self) -> &[Datum] {
        self.batch.row(self.next)
    }
}

/// The inner rows that have one key.
#[derive(Default)]
struct InnerGroup {
    key: Vec<u8>,
    count: usize,
    rows: Vec<Datum>,
    used_bytes: usize,
    /// The rows beyond the budget, and how many of them there are in memory before.
    stored: Option<(RowStore, usize)>,
    cursor: StoreCursor,
    matched: Vec<bool>,
}

impl InnerGroup {
    fn begin(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.rows.clear();
        self.matched.clear();
        (self.count, self.used_bytes, self.stored) = (0, 0, None);
    }
    fn push(&mut self, row: &[Datum], cx: &ExecContext<'_>) -> Result<()> {
        self.count += 1;
        self.matched.push(false);
        if let Some((stored, _)) = &mut self.stored {
            return stored.push(row, cx.io());
        }
        self.used_bytes += row_bytes(row);
        self.rows.extend_from_slice(row);
        if self.used_bytes > cx.work_mem_bytes {
            self.cursor = StoreCursor::default();
            // What is in memory has used the budget up.
            self.stored = Some((RowStore::new(row.len(), 0), self.count));
        }
        Ok(())
    }
    fn append_row(&mut self, at: usize, width: usize, out: &mut Vec<Datum>, cx: &ExecContext<'_>) -> Result<()> {
        match &self.stored {
            Some((stored, before)) if at >= *before => {
                out.extend_from_slice(stored.row(at - before, &mut self.cursor, cx.io())?);
            }
            _ => out.extend_from_slice(self.rows.get(at * width..(at + 1) * width).unwrap_or(&[])),
        }
        Ok(())
    }
}

pub(crate) struct MergeJoinState {
    pub node: Arc<PlanNode>,
    outer: MergeSide,
    inner: MergeSide,
    group: InnerGroup,
    has_group: bool,
    /// The next row of the group for the present outer row, if that is being joined.
    position: Option<usize>,
    is_matched: bool,
    /// The next row of a group that is left behind to be looked at for rows without a partner.
    leaving: Option<usize>,
    looked: usize,
}

impl MergeJoinState {
    pub fn new(node: &Arc<PlanNode>, outer: &Arc<PlanNode>, inner: &Arc<PlanNode>) -> MergeJoinState {
        MergeJoinState {
            node: node.clone(),
            outer: MergeSide::new(outer),
            inner: MergeSide::new(inner),
            group: InnerGroup::default(),
            has_group: false,
            position: None,
            is_matched: false,
            leaving: None,
            looked: 0,
        }
    }
    pub(crate) fn rescan(&mut self, rt: &mut RunState) {
        self.outer.rescan(rt);
        self.inner.rescan(rt);
        self.group = InnerGroup::default();
        (self.has_group, self.position, self.is_matched, self.leaving) = (false, None, false, None);
    }

    pub fn next(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.node.clone();
        let Op::MergeJoin { kind, outer_keys, inner_keys, kinds, on, .. } = &node.op else { return Ok(()) };
        let keeps_outer = matches!(kind, JoinKind::Left | JoinKind::Full | JoinKind::Anti);
        let keeps_inner = matches!(kind, JoinKind::Right | JoinKind::Full);
        while !out.full() {
            self.looked += 1;
            if self.looked >= BATCH_ROWS {
                self.looked = 0;
                cx.park.checkpoint()?;
            }
            if self.leaving.is_some() {
                self.leave_group(keeps_inner, out, cx)?;
                continue;
            }
            if let Some(at) = self.position {
                self.join_row(at, on.as_ref(), *kind, out, rt, cx)?;
                continue;
            }
            if !self.outer.advance(outer_keys, kinds, out.max, rt, cx)? {
                // What is left of the inner side has no partner.
                if !keeps_inner || !self.next_group(inner_keys, kinds, out.max, rt, cx)? {
                    return Ok(());
                }
                continue;
            }
            let order = match (self.outer.key.is_empty(), self.has_group) {
                (true, _) => Ordering::Less,
                (false, true) => self.outer.key.cmp(&self.group.key),
                (false, false) => Ordering::Greater,
            };
            match order {
                Ordering::Equal => (self.position, self.is_matched) = (Some(0), false),
                Ordering::Greater => {
                    if self.next_group(inner_keys, kinds, out.max, rt, cx)? {
                        continue;
                    }
                    if !keeps_outer {
                        return Ok(());
                    }
                    self.unmatched_outer(out);
                }
                Ordering::Less if keeps_outer => self.unmatched_outer(out),
                Ordering::Less => self.outer.next += 1,
            }
        }
        Ok(())
    }

    fn unmatched_outer(&mut self, out: &mut Batch) {
        out.data.extend_from_slice(self.outer.row());
        out.data.extend(std::iter::repeat_n(Datum::Null, self.inner.batch.width));
        out.end_row();
        self.outer.next += 1;
    }

    /// Leaves the present group, or reads the next one; false: there is none.
    fn next_group(
        &mut self,
        keys: &[Expression],
        kinds: &[MergeKeyKind],
        max: usize,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        if self.has_group {
            self.leaving = Some(0);
            return Ok(true);
        }
        if !self.inner.advance(keys, kinds, max, rt, cx)? {
            return Ok(false);
        }
        self.group.begin(&self.inner.key);
        loop {
            self.group.push(self.inner.row(), cx)?;
            self.inner.next += 1;
            // Rows with NULL in the key have no partner, whatever the others have.
            let is_single = self.group.key.is_empty();
            if is_single || !self.inner.advance(keys, kinds, BATCH_ROWS, rt, cx)? || self.inner.key != self.group.key {
                break;
            }
        }
        self.has_group = true;
        Ok(true)
    }

    /// Hands out the rows of the present group that have found no partner, if they are wanted, and forgets it.
    fn leave_group(&mut self, keeps_inner: bool, out: &mut Batch, cx: &ExecContext<'_>) -> Result<()> {
        let mut at = self.leaving.unwrap_or(0);
        while keeps_inner && at < self.group.count {
            if !self.group.matched[at] {
                if out.full() {
                    self.leaving = Some(at);
                    return Ok(());
                }
                out.data.extend(std::iter::repeat_n(Datum::Null, self.outer.batch.width));
                self.group.append_row(at, self.inner.batch.width, &mut out.data, cx)?;
                out.end_row();
            }
            at += 1;
        }
        (self.leaving, self.has_group) = (None, false);
        Ok(())
    }

    /// Joins the present outer row with one row of the group, or ends with it.
    fn join_row(
        &mut self,
        at: usize,
        on: Option<&Expression>,
        kind: JoinKind,
        out: &mut Batch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        if at >= self.group.count {
            self.position = None;
            match !self.is_matched && matches!(kind, JoinKind::Left | JoinKind::Full | JoinKind::Anti) {
                true => self.unmatched_outer(out),
                false => self.outer.next += 1,
            }
            return Ok(());
        }
        out.data.extend_from_slice(self.outer.row());
        self.group.append_row(at, self.inner.batch.width, &mut out.data, cx)?;
        let from = out.rows * out.width;
        let is_met = match on {
            Some(e) => e.is_true(&out.data[from..], rt, cx)?,
            None => true,
        };
        self.position = Some(at + 1);
        if !is_met {
            out.cancel_row();
            return Ok(());
        }
        self.is_matched = true;
        self.group.matched[at] = true;
        if kind == JoinKind::Anti {
            out.cancel_row();
        } else {
            out.end_row();
        }
        if matches!(kind, JoinKind::Semi | JoinKind::Anti) {
            self.position = None;
            self.outer.next += 1;
        }
        Ok(())
    }
}
