//! Aggregates over window frames.
//!
//! Invariants
//! 1. A frame that moves forward costs the rows that come and those that leave, if the aggregate can take rows out again
//!    ([`Accumulator::remove`]); otherwise, as with EXCLUDE, it is made anew from all rows of the frame.
//! 2. The value is the same either way.

use super::functions::CurrentRow;
use crate::context::*;
use crate::expr::Evaluate;
use kilndb_base::{Error, Result};
use kilndb_plan::expression::CExpr;
use kilndb_plan::{CFrameBound, WindowFn, WindowPlan};
use kilndb_spill::StoreCursor;
use kilndb_types::Datum;
use kilndb_types::aggregates::Accumulator;
use kilndb_types::functions::FunctionKind;

/// An aggregate of the rows `start..end`.
pub(super) struct FrameAggregate {
    acc: Option<Box<dyn Accumulator>>,
    start: usize,
    end: usize,
    /// The aggregate's value for these rows.
    value: Option<Datum>,
    /// Rows may be taken out.
    moves: bool,
    /// More rows may come after a value was asked for.
    grows: bool,
    /// How many rows were looked at since the last checkpoint.
    looked: usize,
    arguments: Vec<Datum>,
    /// Reads the rows that come into the frame, and those that leave it.
    coming: StoreCursor,
    leaving: StoreCursor,
}

impl FrameAggregate {
    pub fn new(plan: &WindowPlan, f: &WindowFn) -> FrameAggregate {
        let moves = plan.exclude == 0 && !f.varies && !matches!(plan.start, CFrameBound::UnboundedPreceding);
        let grows = plan.exclude == 0 && f.outlives_value;
        FrameAggregate {
            acc: None,
            start: 0,
            end: 0,
            value: None,
            moves,
            grows,
            looked: 0,
            arguments: Vec::new(),
            coming: StoreCursor::default(),
            leaving: StoreCursor::default(),
        }
    }

    /// The first `rows` rows are gone: the one behind them has the number 0 from here on. Of a frame that begins with the
    /// partition, what has been gathered of them stays.
    pub fn renumber(&mut self, rows: usize) {
        (self.start, self.end) = (self.start.saturating_sub(rows), self.end.saturating_sub(rows));
        self.value = None;
    }

    pub fn value(
        &mut self,
        f: &WindowFn,
        current: &CurrentRow<'_>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<Datum> {
        let (start, end) = current.frame;
        if current.plan.exclude == 0
            && (self.start, self.end) == (start, end)
            && let Some(v) = &self.value
        {
            return Ok(v.clone());
        }
        if !self.follow(f, current, rt, cx)? {
            self.restart(f, start)?;
        }
        for row in self.end..end {
            if !current.excludes(row) {
                self.change(f, current, (row, true), rt, cx)?;
            }
        }
        self.end = end;
        let v = self.acc_mut()?.finish(&cx.eval)?;
        self.value = Some(v.clone());
        Ok(v)
    }

    fn acc_mut(&mut self) -> Result<&mut Box<dyn Accumulator>> {
        self.acc.as_mut().ok_or_else(|| Error::internal("a window aggregate that was not started"))
    }

    /// Takes the rows out that are before the frame. False: it must be started anew.
    fn follow(
        &mut self,
        f: &WindowFn,
        current: &CurrentRow<'_>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        let (start, end) = current.frame;
        if !self.grows || self.acc.is_none() || start < self.start || end < self.end {
            return Ok(false);
        }
        // Where more rows leave than stay, those that stay are sooner taken in again.
        let leaving = start - self.start;
        if leaving > 0 && (!self.moves || leaving > self.end.saturating_sub(start)) {
            return Ok(false);
        }
        for row in self.start..start {
            if !self.change(f, current, (row, false), rt, cx)? {
                return Ok(false);
            }
        }
        self.start = start;
        Ok(true)
    }

    fn restart(&mut self, f: &WindowFn, start: usize) -> Result<()> {
        let Some(FunctionKind::Aggregate(make)) = f.function else {
            return Err(Error::unsupported(format!("aggregate {} is not supported", f.name)));
        };
        let acc = make(&f.arg_types);
        let moving = if self.moves { acc.for_moving_frames() } else { None };
        self.acc = Some(moving.unwrap_or(acc));
        (self.start, self.end) = (start, start);
        Ok(())
    }

    /// Does the row count? Then its arguments, which `kept` is room for.
    fn arguments<'a>(
        kept: &'a mut Vec<Datum>,
        f: &WindowFn,
        row: &'a [Datum],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<Option<&'a [Datum]>> {
        if let Some(c) = &f.filter
            && !c.is_true(row, rt, cx)?
        {
            return Ok(None);
        }
        if let [argument] = f.args.as_slice()
            && let CExpr::Slot(slot) = argument.tree()
            && let Some(value) = row.get(*slot..=*slot)
        {
            return Ok(Some(value));
        }
        kept.clear();
        for a in &f.args {
            kept.push(a.eval(row, rt, cx)?);
        }
        Ok(Some(kept))
    }

    /// A row comes into the frame, or leaves it. False: it cannot be taken out.
    fn change(
        &mut self,
        f: &WindowFn,
        current: &CurrentRow<'_>,
        (row, comes): (usize, bool),
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        self.look(cx)?;
        let Some(acc) = &mut self.acc else { return Ok(comes) };
        let reader = if comes { &mut self.coming } else { &mut self.leaving };
        let row = current.rows.row(row, reader, cx.io())?;
        match Self::arguments(&mut self.arguments, f, row, rt, cx)? {
            Some(values) if comes => acc.add(values, &cx.eval).map(|()| true),
            Some(values) => acc.remove(values, &cx.eval),
            None => Ok(true),
        }
    }

    fn look(&mut self, cx: &mut ExecContext<'_>) -> Result<()> {
        self.looked += 1;
        if self.looked >= BATCH_ROWS {
            self.looked = 0;
            cx.park.checkpoint()?;
        }
        Ok(())
    }
}
