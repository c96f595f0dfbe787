//! Nested loops.

use super::context::*;
use super::expr::Evaluate;
use super::state::NodeState;
use kilndb_base::Result;
use kilndb_bind::ir::JoinKind;
use kilndb_plan::expression::CExpr;
use kilndb_plan::{Op, PlanNode};
use kilndb_spill::{RowStore, StoreCursor};
use kilndb_types::Datum;
use std::sync::Arc;

pub(crate) struct NestLoopState {
    pub node: Arc<PlanNode>,
    outer: NodeState,
    inner: NodeState,
    outer_batch: Batch,
    outer_next: usize,
    inner_batch: Batch,
    inner_next: usize,
    /// The join is in the middle of an outer row: the inner side goes on.
    active: bool,
    matched: bool,
    inner_started: bool,
    /// The rows of the inner side, if they are kept for all outer rows.
    stored: Option<RowStore>,
    stored_cursor: StoreCursor,
    stored_next: usize,
    inner_matched: Vec<bool>,
    outer_done: bool,
    tail: usize,
    /// Stored rows joined since the last checkpoint.
    looked: usize,
}

impl NestLoopState {
    pub fn new(node: &Arc<PlanNode>, outer: &Arc<PlanNode>, inner: &Arc<PlanNode>) -> NestLoopState {
        NestLoopState {
            node: node.clone(),
            outer: NodeState::new(outer),
            inner: NodeState::new(inner),
            outer_batch: Batch::new(outer.width),
            outer_next: 0,
            inner_batch: Batch::new(inner.width),
            inner_next: 0,
            active: false,
            matched: false,
            inner_started: false,
            stored: None,
            stored_cursor: StoreCursor::default(),
            stored_next: 0,
            inner_matched: Vec::new(),
            outer_done: false,
            tail: 0,
            looked: 0,
        }
    }
    pub(crate) fn rescan(&mut self, rt: &mut RunState) {
        self.outer.rescan(rt);
        self.inner.forget();
        self.outer_batch.clear();
        self.outer_next = 0;
        self.active = false;
        self.outer_done = false;
        self.tail = 0;
        // The rows that are kept may depend on parameters of an outer query, so they are discarded.
        self.stored = None;
        self.inner_matched.clear();
    }

    fn restart_inner(&mut self, rt: &mut RunState) {
        if self.inner_started {
            self.inner.rescan(rt);
        }
        self.inner_started = true;
        self.inner_batch.clear();
        self.inner_next = 0;
    }

    pub fn next(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.node.clone();
        let Op::NestLoop { inner, kind, on, params, materialize, .. } = &node.op else { return Ok(()) };
        let inner_width = inner.width;
        if *materialize && self.stored.is_none() {
            self.restart_inner(rt);
            let mut rows = RowStore::new(inner_width, cx.work_mem_bytes);
            self.inner_batch.max = BATCH_ROWS;
            while self.inner.fill(&mut self.inner_batch, rt, cx)? {
                for i in 0..self.inner_batch.rows {
                    rows.push(self.inner_batch.row(i), cx.io())?;
                }
            }
            if *kind == JoinKind::Full {
                self.inner_matched = vec![false; rows.len()];
            }
            self.stored_cursor = StoreCursor::default();
            self.stored = Some(rows);
        }
        while !out.full() {
            if !self.active {
                if self.outer_next >= self.outer_batch.rows {
                    if self.outer_done {
                        if *kind == JoinKind::Full {
                            self.unmatched_inner(out, cx)?;
                        }
                        return Ok(());
                    }
                    self.outer_batch.max = out.max;
                    self.outer_next = 0;
                    self.outer_done = !self.outer.fill(&mut self.outer_batch, rt, cx)?;
                    continue;
                }
                for (param, slot) in params {
                    rt.exec_params[*param] =
                        self.outer_batch.row(self.outer_next).get(*slot).cloned().unwrap_or_default();
                }
                if !rt.plan.correlated_ctes.is_empty() {
                    let plan = rt.plan.clone();
                    let stale = plan.correlated_ctes.iter().filter(|c| params.iter().any(|p| p.0 == c.0));
                    super::cte::forget(stale.map(|c| c.1), rt);
                }
                if self.stored.is_none() {
                    // Semi and anti joins need one partner only.
                    if on.is_none() && matches!(kind, JoinKind::Semi | JoinKind::Anti) {
                        self.inner_batch.max = 1;
                    }
                    self.restart_inner(rt);
                }
                self.stored_next = 0;
                self.active = true;
                self.matched = false;
            }
            if !self.inner_row(out, on.as_ref(), *kind, rt, cx)? {
                // The inner side is at its end.
                if !self.matched && matches!(kind, JoinKind::Left | JoinKind::Full | JoinKind::Anti) {
                    out.data.extend_from_slice(self.outer_batch.row(self.outer_next));
                    out.data.extend(std::iter::repeat_n(Datum::Null, inner_width));
                    out.end_row();
                }
                self.active = false;
                self.outer_next += 1;
            }
        }
        Ok(())
    }

    /// Joins the present outer row with one more inner row; false at the inner side's end.
    fn inner_row(
        &mut self,
        out: &mut Batch,
        on: Option<&CExpr>,
        kind: JoinKind,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        let outer = self.outer_batch.row(self.outer_next);
        let number = self.stored_next;
        if let Some(rows) = &self.stored {
            if self.stored_next >= rows.len() {
                return Ok(false);
            }
            out.data.extend_from_slice(outer);
            out.data.extend_from_slice(rows.row(self.stored_next, &mut self.stored_cursor, cx.io())?);
            self.stored_next += 1;
            self.looked += 1;
            if self.looked >= BATCH_ROWS {
                self.looked = 0;
                cx.park.checkpoint()?;
            }
        } else {
            if self.inner_next >= self.inner_batch.rows {
                self.inner_next = 0;
                if !self.inner.fill(&mut self.inner_batch, rt, cx)? {
                    return Ok(false);
                }
            }
            out.data.extend_from_slice(outer);
            out.data.extend_from_slice(self.inner_batch.row(self.inner_next));
            self.inner_next += 1;
        }
        let from = out.rows * out.width;
        let pass = match on {
            Some(e) => e.is_true(&out.data[from..], rt, cx)?,
            None => true,
        };
        if !pass {
            out.cancel_row();
            return Ok(true);
        }
        self.matched = true;
        if let Some(m) = self.inner_matched.get_mut(number) {
            *m = true;
        }
        if kind == JoinKind::Anti {
            out.cancel_row();
            return Ok(false);
        }
        out.end_row();
        Ok(kind != JoinKind::Semi)
    }

    fn unmatched_inner(&mut self, out: &mut Batch, cx: &ExecContext<'_>) -> Result<()> {
        let Some(rows) = &self.stored else { return Ok(()) };
        while !out.full() && self.tail < rows.len() {
            let i = self.tail;
            self.tail += 1;
            if !self.inner_matched.get(i).copied().unwrap_or(true) {
                out.data.extend(std::iter::repeat_n(Datum::Null, self.outer_batch.width));
                out.data.extend_from_slice(rows.row(i, &mut self.stored_cursor, cx.io())?);
                out.end_row();
            }
        }
        Ok(())
    }
}
