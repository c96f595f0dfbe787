//! Nested loops.
//!
//! Several threads may join parts of the outer side, each with a loop of its own (`super::parts`). They read the outer side as
//! columns, if it has these, since that is how parts of it are handed out.

use super::columns::{ColumnInput, row_of};
use super::context::*;
use super::expr::Evaluate;
use super::loop_columns::LoopColumns;
use super::loop_table::LoopTable;
use super::state::NodeState;
use kilndb_base::{Error, Result};
use kilndb_bind::ir::JoinKind;
use kilndb_plan::expression::Expression;
use kilndb_plan::program::{ConditionProgram, LazyCondition};
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
    /// There is one outer row at most: the inner side's rows need not be kept.
    is_outer_short: bool,
    /// The rows of the inner side, if they are kept for all outer rows.
    stored: Option<RowStore>,
    /// Their columns, if the condition is asked of many of them at a time.
    stored_columns: Option<Box<LoopColumns>>,
    stored_cursor: StoreCursor,
    stored_next: usize,
    inner_matched: Vec<bool>,
    outer_done: bool,
    tail: usize,
    /// Rows in memory joined since the last checkpoint.
    looked: usize,
    /// What the loop looks its inner rows up in once there are many outer ones.
    table: LoopTable,
    /// The outer side as columns, if it is read so.
    columns: Option<Box<ColumnInput>>,
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
            is_outer_short: false,
            stored: None,
            stored_columns: None,
            stored_cursor: StoreCursor::default(),
            stored_next: 0,
            inner_matched: Vec::new(),
            outer_done: false,
            tail: 0,
            looked: 0,
            table: LoopTable::default(),
            columns: None,
        }
    }
    /// The outer side, of which several threads are to read parts.
    pub fn share_outer(&mut self) -> &mut NodeState {
        self.columns.get_or_insert_default();
        &mut self.outer
    }
    /// Joins what `outer` has, which is a part of the outer side.
    pub fn with_outer(mut self, outer: NodeState) -> NestLoopState {
        self.outer = outer;
        self.share_outer();
        self
    }
    /// The outer side.
    pub fn outer(&mut self) -> &mut NodeState {
        &mut self.outer
    }
    /// The outer side may have more rows after it had none.
    pub fn go_on(&mut self) {
        self.outer_done = false;
    }
    pub(crate) fn rescan(&mut self, rt: &mut RunState) {
        self.outer.rescan(rt);
        self.inner.forget();
        self.outer_batch.clear();
        self.outer_next = 0;
        self.active = false;
        self.outer_done = false;
        self.tail = 0;
        self.is_outer_short = false;
        // The rows that are kept may depend on parameters of an outer query, so they are discarded.
        self.stored = None;
        self.stored_columns = None;
        self.inner_matched.clear();
        self.table.forget();
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
        let Op::NestLoop { inner, kind, on, params, materialize, switch, program, .. } = &node.op else {
            return Ok(());
        };
        let inner_width = inner.width;
        if *materialize && self.stored.is_none() && !self.is_outer_short {
            // A full join's inner rows have to be there at its end.
            self.is_outer_short = *kind != JoinKind::Full && self.has_one_outer_row(out.max, rt, cx)?;
            if !self.is_outer_short {
                self.store_inner(*kind, rt, cx)?;
                self.keep_columns(program.of(on.as_deref()), cx)?;
            }
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
                    self.outer_done = !self.fill_outer(rt, cx)?;
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
                if let Some(switch) = switch {
                    let outer = self.outer_batch.row(self.outer_next);
                    self.table.begin_row(switch, (node.id, outer), rt, cx)?;
                }
                if self.stored.is_none() && !self.table.is_made() {
                    // Semi and anti joins need one partner only.
                    if on.is_none() && matches!(kind, JoinKind::Semi | JoinKind::Anti) {
                        self.inner_batch.max = 1;
                    }
                    self.restart_inner(rt);
                }
                self.stored_next = 0;
                if let Some(columns) = &mut self.stored_columns {
                    columns.begin_row();
                }
                self.active = true;
                self.matched = false;
            }
            let on = match switch {
                Some(switch) if self.table.is_made() => switch.on.as_ref(),
                _ => on.as_ref(),
            };
            let condition = (on, program.as_ref());
            if !self.inner_row(out, condition, *kind, rt, cx)? {
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

    /// The next rows of the outer side; false at its end.
    fn fill_outer(&mut self, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<bool> {
        let Some(columns) = &mut self.columns else { return self.outer.fill(&mut self.outer_batch, rt, cx) };
        let is_used = vec![true; self.outer_batch.width];
        self.outer_batch.clear();
        if !columns.fill(&mut self.outer, &is_used, rt, cx)? {
            return Ok(false);
        }
        let (columns, rows) = columns.batch.parts();
        let mut row = Vec::with_capacity(is_used.len());
        rows.try_each(|position| {
            row_of(columns, &is_used, position, &mut row)?;
            self.outer_batch.data.append(&mut row);
            self.outer_batch.end_row();
            Ok::<(), Error>(())
        })?;
        Ok(true)
    }

    /// Reads the first rows of the outer side. True: there is one at most, so the inner side's rows are wanted but once.
    fn has_one_outer_row(&mut self, max: usize, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<bool> {
        self.outer_batch.max = max;
        self.outer_next = 0;
        self.outer_done = !self.outer.fill(&mut self.outer_batch, rt, cx)?;
        if self.outer_done || self.outer_batch.rows > 1 {
            return Ok(self.outer_done);
        }
        let mut more = Batch::with_max(self.outer_batch.width, max);
        self.outer_done = !self.outer.fill(&mut more, rt, cx)?;
        (0..more.rows).for_each(|i| self.outer_batch.push(more.row(i)));
        Ok(self.outer_done)
    }

    /// Keeps the rows of the inner side for all outer rows.
    fn store_inner(&mut self, kind: JoinKind, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        self.restart_inner(rt);
        let mut rows = RowStore::new(self.inner_batch.width, cx.work_mem_bytes);
        self.inner_batch.max = BATCH_ROWS;
        while self.inner.fill(&mut self.inner_batch, rt, cx)? {
            for i in 0..self.inner_batch.rows {
                rows.push(self.inner_batch.row(i), cx.io())?;
            }
        }
        if kind == JoinKind::Full {
            self.inner_matched = vec![false; rows.len()];
        }
        self.stored_cursor = StoreCursor::default();
        self.stored = Some(rows);
        Ok(())
    }

    /// Keeps the columns of the inner side's rows that are kept, if the condition is to be asked of many of them at a time.
    fn keep_columns(&mut self, condition: &ConditionProgram, cx: &ExecContext<'_>) -> Result<()> {
        if let Some(rows) = &self.stored {
            let widths = (self.outer_batch.width, self.inner_batch.width);
            self.stored_columns = LoopColumns::of_rows(rows, condition, widths, cx)?.map(Box::new);
        }
        Ok(())
    }

    /// Joins the present outer row with one more inner row; false at the inner side's end.
    fn inner_row(
        &mut self,
        out: &mut Batch,
        (mut on, program): (Option<&Expression>, &LazyCondition),
        kind: JoinKind,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        let outer = self.outer_batch.row(self.outer_next);
        let mut number = self.stored_next;
        if self.table.is_made() {
            let Some(inner) = self.table.next_row() else { return Ok(false) };
            out.data.extend_from_slice(outer);
            out.data.extend_from_slice(inner);
            self.count_looked(cx)?;
        } else if let (Some(rows), Some(columns)) = (&self.stored, &mut self.stored_columns) {
            let condition = (program.of(on.map(|on| &**on)), on);
            let Some(partner) = columns.next(condition, (outer, &mut self.looked), rt, cx)? else { return Ok(false) };
            (number, on) = (partner.number, partner.on);
            out.data.extend_from_slice(outer);
            out.data.extend_from_slice(rows.row(number, &mut self.stored_cursor, cx.io())?);
        } else if let Some(rows) = &self.stored {
            if self.stored_next >= rows.len() {
                return Ok(false);
            }
            out.data.extend_from_slice(outer);
            out.data.extend_from_slice(rows.row(self.stored_next, &mut self.stored_cursor, cx.io())?);
            self.stored_next += 1;
            self.count_looked(cx)?;
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
            self.table.note_found();
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

    /// Rows in memory are joined without a look at anything that would give way.
    fn count_looked(&mut self, cx: &ExecContext<'_>) -> Result<()> {
        self.looked += 1;
        if self.looked >= BATCH_ROWS {
            self.looked = 0;
            cx.park.checkpoint()?;
        }
        Ok(())
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
