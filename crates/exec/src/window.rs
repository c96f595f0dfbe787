//! Window functions over input that is sorted by partition and order.
//!
//! Of a partition no more rows are kept than the functions look at: where they look at nothing behind the current row's
//! peers, one part of the partition after the other is read, computed and given out; where frames of ROWS move, the rows that
//! the next frame begins with stay for the next part. Otherwise the whole partition is kept: in memory up to work_mem, and
//! then it is computed as a whole; beyond that in a temporary file, and computed as its rows are given out.

mod aggregates;
mod frames;
mod functions;
mod rows;

use self::frames::{FrameFinder, FrameOffsets, OrderValues, Partition, has_offset};
use self::functions::{CurrentRow, FunctionState};
use self::rows::{PartitionRows, move_values};
use super::columns::RowInput;
use super::context::*;
use super::expr::Evaluate;
use super::sort::compare_values;
use super::state::UnaryInput;
use kilndb_base::{Error, Result};
use kilndb_bind::ir::FrameMode;
use kilndb_plan::expression::CExpr;
use kilndb_plan::{CFrameBound, Op, RunCondition, SortSpec, WindowFn, WindowPlan};
use kilndb_spill::StoreCursor;
use kilndb_types::Datum;
use kilndb_types::functions::{FunctionKind, descriptor::WindowFunction};
use std::cmp::Ordering;

pub(crate) struct WindowState {
    pub unary: UnaryInput,
    /// How the input is read, unless rows get their numbers as they come.
    input: RowInput,
    rows: PartitionRows,
    /// The results of the rows from `first` to the one before `computed`.
    results: Vec<Datum>,
    first: usize,
    computed: usize,
    /// The row behind the last one that can be computed.
    count: usize,
    next: usize,
    /// The next part is of the same partition.
    goes_on: bool,
    /// The input is at its end, or no more rows are of use.
    done: bool,
    /// The next row of the input's batch.
    position: usize,
    numbers: RowNumbers,
    /// The bounds of the run conditions; None: no value is within them.
    most: Vec<Option<i64>>,
    /// How many rows of the partition were given out, and of how many groups of peers they were.
    rows_before: usize,
    groups_before: usize,
    /// Evaluated once, when there is a row.
    offsets: Option<FrameOffsets>,
    /// The keys of the partition that is read, where they are no columns.
    partition_keys: Vec<Datum>,
    /// The frames of the rows that are kept.
    frames: Option<FrameFinder>,
    /// Of each function, from one part of a partition to the next.
    states: Vec<FunctionState>,
    /// Reads the rows that are given out.
    given: StoreCursor,
}

/// The present row's numbers in its partition.
#[derive(Default)]
struct RowNumbers {
    /// The keys of the partition, and of the row's group of peers.
    partition: Vec<Datum>,
    order: Vec<Datum>,
    row: i64,
    rank: i64,
    dense_rank: i64,
    /// No more rows of the partition are of use.
    is_over: bool,
}

/// Are all functions numbers of rows, which need no frame?
fn numbers_rows(plan: &WindowPlan) -> bool {
    use WindowFunction as W;
    let is_number = |f: &WindowFn| {
        matches!(f.function, Some(FunctionKind::Window(W::RowNumber | W::Rank | W::DenseRank))) && !f.is_aggregate
    };
    plan.functions.iter().all(is_number) && !has_offset(&plan.start) && !has_offset(&plan.end)
}

/// Does each row's result depend on nothing but the rows up to the last of its peers? Then a partition is computed part by
/// part, and no more of it is kept than that.
fn runs(plan: &WindowPlan) -> bool {
    use WindowFunction as W;
    let looks_back = |f: &WindowFn| {
        f.outlives_value || matches!(f.function, Some(FunctionKind::Window(W::RowNumber | W::Rank | W::DenseRank)))
    };
    plan.exclude == 0
        && matches!((&plan.start, &plan.end), (CFrameBound::UnboundedPreceding, CFrameBound::CurrentRow))
        && plan.functions.iter().all(looks_back)
}

/// Does each row's result depend on nothing but the rows of a frame that moves with it, so that no rows before that frame
/// need be kept, and none behind it be read?
fn slides(plan: &WindowPlan) -> bool {
    use WindowFunction as W;
    let is_from_beginning = matches!(plan.start, CFrameBound::UnboundedPreceding);
    let of_frame = |f: &WindowFn| match f.function {
        // Of a frame from the beginning on only that is kept which has been gathered.
        Some(FunctionKind::Window(W::FirstValue | W::LastValue | W::NthValue)) => !is_from_beginning,
        Some(FunctionKind::Window(W::RowNumber)) => true,
        _ => f.is_aggregate && (!is_from_beginning || f.outlives_value),
    };
    plan.mode == FrameMode::Rows
        && plan.exclude == 0
        && plan.run.is_empty()
        && !matches!(plan.end, CFrameBound::UnboundedFollowing)
        && !(is_from_beginning && matches!(plan.end, CFrameBound::CurrentRow))
        && plan.functions.iter().all(of_frame)
}

/// Does anything ask for the groups of peers?
fn needs_groups(plan: &WindowPlan) -> bool {
    use WindowFunction as W;
    let asks = |f: &WindowFn| {
        matches!(f.function, Some(FunctionKind::Window(W::Rank | W::DenseRank | W::PercentRank | W::CumeDist)))
    };
    frames::frames_need_groups(plan) || frames::frames_need_values(plan) || plan.functions.iter().any(asks)
}

/// Tells rows whose keys are other than those of the row before.
struct KeyChange<'a> {
    specs: &'a [SortSpec],
    /// The keys are columns, so they are compared where they are.
    are_columns: bool,
    /// The keys of the row before.
    keys: Vec<Datum>,
}

impl<'a> KeyChange<'a> {
    /// `keys`: those of the row before.
    fn new(specs: &'a [SortSpec], keys: Vec<Datum>) -> KeyChange<'a> {
        let are_columns = specs.iter().all(|spec| matches!(spec.expr.tree(), CExpr::Slot(_)));
        KeyChange { specs, are_columns, keys }
    }
    /// Are the row's keys those of the row `before`? Without one there is nothing to compare with.
    fn is_same(
        &mut self,
        before: Option<&[Datum]>,
        row: &[Datum],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        if !self.are_columns {
            return Ok(read_keys(self.specs, row, &mut self.keys, rt, cx)? && before.is_some());
        }
        let Some(before) = before else { return Ok(false) };
        Ok(self.specs.iter().all(|spec| match *spec.expr.tree() {
            CExpr::Slot(slot) => {
                compare_values(spec.ty, &before[slot], &row[slot], spec.descending, spec.nulls_first).is_eq()
            }
            _ => true,
        }))
    }
}

fn most_of(run: &RunCondition, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Option<i64>> {
    Ok(match run.most.eval(&[], rt, cx)? {
        Datum::Int2(n) => Some(n.into()),
        Datum::Int4(n) => Some(n.into()),
        Datum::Int8(n) => Some(n),
        _ => None,
    })
}

/// Makes `keys` those of the row; were they equal to the ones that it had?
fn read_keys(
    specs: &[SortSpec],
    row: &[Datum],
    keys: &mut Vec<Datum>,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<bool> {
    let mut is_same = keys.len() == specs.len();
    keys.resize(specs.len(), Datum::Null);
    for (spec, key) in specs.iter().zip(keys) {
        let value = spec.expr.eval(row, rt, cx)?;
        is_same &= compare_values(spec.ty, key, &value, spec.descending, spec.nulls_first) == Ordering::Equal;
        *key = value;
    }
    Ok(is_same)
}

impl WindowState {
    pub fn new(unary: UnaryInput) -> WindowState {
        WindowState {
            rows: PartitionRows::new(match &unary.node.op {
                Op::Window { input, .. } => input.width,
                _ => 0,
            }),
            unary,
            input: RowInput::default(),
            results: Vec::new(),
            first: 0,
            computed: 0,
            count: 0,
            next: 0,
            goes_on: false,
            done: false,
            position: 0,
            numbers: RowNumbers::default(),
            most: Vec::new(),
            rows_before: 0,
            groups_before: 0,
            offsets: None,
            partition_keys: Vec::new(),
            frames: None,
            states: Vec::new(),
            given: StoreCursor::default(),
        }
    }
    pub(crate) fn rescan(&mut self, rt: &mut RunState) {
        self.unary.rescan(rt);
        self.input = RowInput::default();
        self.rows.clear();
        self.results.clear();
        (self.first, self.computed, self.count, self.next) = (0, 0, 0, 0);
        self.goes_on = false;
        self.offsets = None;
        self.partition_keys.clear();
        self.done = false;
        self.position = 0;
        self.numbers = RowNumbers::default();
        self.most.clear();
        (self.rows_before, self.groups_before) = (0, 0);
        self.frames = None;
        self.states.clear();
    }

    pub fn next(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::Window { plan, .. } = &node.op else { return Ok(()) };
        if self.most.len() != plan.run.len() {
            self.most = plan.run.iter().map(|run| most_of(run, rt, cx)).collect::<Result<_>>()?;
            self.unary.input.set_bound(self.rows_of_use(plan));
        }
        if numbers_rows(plan) {
            return self.number_rows(plan, out, rt, cx);
        }
        let extra = plan.functions.len();
        let slides = slides(plan);
        while !out.full() {
            if self.next >= self.computed {
                if self.computed < self.count {
                    self.compute_more(plan, rt, cx)?;
                } else if self.done || !self.next_part(plan, rt, cx)? {
                    break;
                }
                continue;
            }
            let i = self.next;
            self.next += 1;
            let results = (i - self.first) * extra..(i - self.first + 1) * extra;
            if !self.is_within(plan, &self.results[results.clone()]) {
                // The functions do not sink again before the partition's end.
                (self.next, self.computed) = (self.count, self.count);
                self.done |= plan.partition.is_empty();
                continue;
            }
            match slides || self.rows.is_spilled() {
                // The results of later rows depend on it.
                true => out.data.extend_from_slice(self.rows.row(i, &mut self.given, cx.io())?),
                false => self.rows.take(i, &mut out.data),
            }
            move_values(&mut self.results[results], &mut out.data);
            out.end_row();
        }
        Ok(())
    }

    /// How many rows of the input are of use at most, if that is known.
    fn rows_of_use(&self, plan: &WindowPlan) -> Option<u64> {
        if !plan.partition.is_empty() || !numbers_rows(plan) {
            return None;
        }
        let of_rows = plan.run.iter().zip(&self.most).filter(|(run, _)| {
            let function = plan.functions.get(run.function).and_then(|f| f.function);
            matches!(function, Some(FunctionKind::Window(WindowFunction::RowNumber)))
        });
        of_rows.filter_map(|(_, most)| most.map(|n| u64::try_from(n).unwrap_or(0))).min()
    }

    /// Are the run conditions met?
    fn is_within(&self, plan: &WindowPlan, results: &[Datum]) -> bool {
        plan.run.iter().zip(&self.most).all(|(run, most)| match (results.get(run.function), most) {
            (Some(Datum::Int8(n)), Some(most)) => n < most || run.is_inclusive && n == most,
            _ => false,
        })
    }

    /// Rows get their numbers as they come; nothing is kept of a partition.
    fn number_rows(
        &mut self,
        plan: &WindowPlan,
        out: &mut Batch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        while !out.full() && !self.done {
            if self.position >= self.unary.buffer.rows {
                self.position = 0;
                if !self.unary.fill(out.max, rt, cx)? {
                    self.unary.buffer.clear();
                    self.done = true;
                    break;
                }
            }
            let at = self.position;
            self.position += 1;
            let row = self.unary.buffer.row(at);
            let numbers = &mut self.numbers;
            if !read_keys(&plan.partition, row, &mut numbers.partition, rt, cx)? || numbers.row == 0 {
                *numbers = RowNumbers { partition: std::mem::take(&mut numbers.partition), ..RowNumbers::default() };
            }
            if numbers.is_over {
                continue;
            }
            let is_peer = read_keys(&plan.order, row, &mut numbers.order, rt, cx)? && numbers.row > 0;
            numbers.row += 1;
            if !is_peer {
                numbers.rank = numbers.row;
                numbers.dense_rank += 1;
            }
            move_values(values_of(&mut self.unary.buffer, at), &mut out.data);
            for f in &plan.functions {
                out.data.push(Datum::Int8(match f.function {
                    Some(FunctionKind::Window(WindowFunction::Rank)) => self.numbers.rank,
                    Some(FunctionKind::Window(WindowFunction::DenseRank)) => self.numbers.dense_rank,
                    _ => self.numbers.row,
                }));
            }
            let from = out.data.len() - plan.functions.len();
            if self.is_within(plan, &out.data[from..]) {
                out.end_row();
            } else {
                out.cancel_row();
                self.numbers.is_over = true;
                self.done = plan.partition.is_empty();
            }
        }
        Ok(())
    }

    /// Reads the next partition, or as much of it as can be computed; false: there is none.
    fn next_part(&mut self, plan: &WindowPlan, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<bool> {
        let begins = !self.goes_on;
        // Of no rows nobody asks for offsets.
        if begins && !self.has_row(rt, cx)? {
            return Ok(false);
        }
        let offsets = match self.offsets.take() {
            Some(offsets) => offsets,
            None => FrameOffsets::of(plan, rt, cx)?,
        };
        let slide = slides(plan).then(|| offsets.reach(plan));
        self.forget_rows(slide.map_or(0, |(back, _)| back.saturating_add(1)));
        self.next = self.first;
        let mut part =
            Partition { rows_before: self.rows_before, groups_before: self.groups_before, ..Partition::default() };
        let mut order = OrderValues::default();
        // So many rows at once that keeping those that stay costs little.
        let enough = slide.map(|(back, ahead)| back.max(BATCH_ROWS).saturating_add(ahead).saturating_add(self.first));
        let is_over = self.read_part(plan, &mut part, (&mut order, enough), rt, cx)?;
        self.count = match slide {
            Some((_, ahead)) if !is_over => self.rows.len() - ahead,
            _ => self.rows.len(),
        };
        self.computed = self.first;
        self.goes_on = !is_over;
        self.offsets = Some(offsets);
        if self.count == self.first {
            // The partition has ended where the last part did; others may follow.
            return Ok(!self.done);
        }
        if begins || self.states.is_empty() {
            self.states = plan.functions.iter().map(|f| FunctionState::new(plan, f)).collect();
            self.given = StoreCursor::default();
        }
        self.groups_before += part.bounds.len().saturating_sub(1);
        self.frames = Some(FrameFinder::new(part, order));
        Ok(true)
    }

    /// Is there one more row of the input, at `position` of its batch?
    fn has_row(&mut self, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<bool> {
        if self.position >= self.unary.buffer.rows {
            self.position = 0;
            let UnaryInput { node, input, buffer } = &mut self.unary;
            if self.done || !self.input.fill((buffer, BATCH_ROWS), (input, node.id), rt, cx)? {
                self.unary.buffer.clear();
                self.done = true;
            }
        }
        Ok(!self.done)
    }

    /// Makes room for the next part: of the last one the last `kept` rows stay, and those that have no results yet.
    fn forget_rows(&mut self, kept: usize) {
        let gone = if self.goes_on { self.count.saturating_sub(kept) } else { self.rows.len() };
        self.rows.forget(gone);
        self.first = self.count.saturating_sub(gone);
        if self.goes_on {
            self.rows_before += gone;
            self.states.iter_mut().for_each(|state| state.renumber(gone));
        } else {
            (self.rows_before, self.groups_before) = (0, 0);
        }
    }

    /// Reads rows up to the end of the partition (true), or of one of its groups of peers, or until there are `enough` rows.
    /// `order` gets the values of the ORDER BY expression where frames are found by them.
    fn read_part(
        &mut self,
        plan: &WindowPlan,
        part: &mut Partition,
        (order, enough): (&mut OrderValues, Option<usize>),
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        let (runs, has_groups) = (runs(plan), needs_groups(plan));
        let needs_values = frames::frames_need_values(plan);
        let mut partitions = KeyChange::new(&plan.partition, std::mem::take(&mut self.partition_keys));
        let mut groups = KeyChange::new(&plan.order, Vec::new());
        // What is read part by part is no more than that.
        let budget_bytes = (!runs && enough.is_none()).then_some(cx.work_mem_bytes);
        let is_over = loop {
            let read = self.rows.len();
            if enough.is_some_and(|enough| read >= enough) {
                break false;
            }
            if !self.has_row(rt, cx)? {
                break true;
            }
            let row = self.unary.buffer.row(self.position);
            let before = self.rows.last();
            if !plan.partition.is_empty() && !partitions.is_same(before, row, rt, cx)? && before.is_some() {
                break true;
            }
            let is_peer = has_groups && groups.is_same(before, row, rt, cx)?;
            if !is_peer {
                if runs && read >= BATCH_ROWS {
                    break false;
                }
                if has_groups {
                    part.bounds.push(read);
                }
            }
            if let (true, Some(k)) = (needs_values, plan.order.first()) {
                order.push(k.expr.eval(row, rt, cx)?, cx)?;
            }
            self.rows.push(values_of(&mut self.unary.buffer, self.position), budget_bytes, cx.io())?;
            self.position += 1;
        };
        if has_groups {
            part.bounds.push(self.rows.len());
        }
        part.rows = self.rows.len();
        self.partition_keys = partitions.keys;
        Ok(is_over)
    }

    /// Computes the functions for the rows that come next: for all that can be, or a few of those in a file.
    fn compute_more(&mut self, plan: &WindowPlan, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let (Some(frames), Some(offsets)) = (&mut self.frames, &self.offsets) else {
            return Err(Error::internal("rows of a window without their frames"));
        };
        let uses_frame = plan.functions.iter().any(uses_frame);
        self.first = self.computed;
        let end = if self.rows.is_spilled() { self.count.min(self.first + BATCH_ROWS) } else { self.count };
        self.results.clear();
        self.results.resize((end - self.first) * plan.functions.len(), Datum::Null);
        let mut results = self.results.iter_mut();
        for row in self.first..end {
            if row % BATCH_ROWS == 0 {
                cx.park.checkpoint()?;
            }
            frames.go_to(row);
            let frame = if uses_frame { frames.frame(plan, offsets, cx)? } else { (row, row) };
            let (partition, place) = (&frames.partition, frames.place);
            let current = CurrentRow { plan, partition, rows: &self.rows, place, frame };
            for ((f, state), result) in plan.functions.iter().zip(&mut self.states).zip(&mut results) {
                *result = state.value(f, &current, rt, cx)?;
            }
        }
        self.computed = end;
        Ok(())
    }
}

fn uses_frame(f: &WindowFn) -> bool {
    f.is_aggregate || matches!(f.function, Some(FunctionKind::Window(function)) if function.uses_frame())
}

/// The values of a row of a batch.
fn values_of(batch: &mut Batch, at: usize) -> &mut [Datum] {
    let width = batch.width;
    batch.data.get_mut(at * width..(at + 1) * width).unwrap_or(&mut [])
}
