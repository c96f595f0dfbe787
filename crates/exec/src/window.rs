//! Window functions over input that is sorted by partition and order.

use super::context::*;
use super::expr::Evaluate;
use super::sort::{compare_keys, compare_values};
use super::state::UnaryInput;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_bind::ir::FrameMode;
use kilndb_plan::{CFrameBound, Op, RunCondition, SortSpec, WindowFn, WindowPlan};
use kilndb_types::aggregates::Accumulator;
use kilndb_types::functions::{FunctionKind, descriptor::WindowFunction};
use kilndb_types::{Datum, key, oids};
use std::cmp::Ordering;

pub(crate) struct WindowState {
    pub unary: UnaryInput,
    /// The number of values of one input row.
    width: usize,
    rows: Vec<Datum>,
    results: Vec<Datum>,
    count: usize,
    next: usize,
    /// The input is at its end, or no more rows are of use.
    done: bool,
    /// The next row of the input's batch.
    position: usize,
    numbers: RowNumbers,
    /// The bounds of the run conditions; None: no value is within them.
    most: Vec<Option<i64>>,
    /// How many rows were looked at since the last checkpoint.
    looked: std::cell::Cell<usize>,
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
    let has_offset = |b: &CFrameBound| matches!(b, CFrameBound::Preceding(_) | CFrameBound::Following(_));
    plan.functions.iter().all(is_number) && !has_offset(&plan.start) && !has_offset(&plan.end)
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

/// One partition: rows `from..to`, and per row the ends of its group of peers.
struct Partition {
    from: usize,
    to: usize,
    /// Start of the peer group of each row, its number from 1, and its end.
    groups: Vec<(usize, usize, usize)>,
}

/// The row that the functions are computed for.
struct CurrentRow<'a> {
    plan: &'a WindowPlan,
    partition: &'a Partition,
    /// The row's number among all rows.
    number: usize,
    /// The row's frame: the first row and the one behind the last.
    frame: (usize, usize),
}

impl CurrentRow<'_> {
    /// The start of its peer group, the group's number from 1, and its end.
    fn peers(&self) -> (usize, usize, usize) {
        self.partition.groups[self.number - self.partition.from]
    }
    /// Does EXCLUDE leave that row out of the frame? 1: the row itself, 2: its group, 3: its peers.
    fn excludes(&self, other: usize) -> bool {
        let (start, _, end) = self.peers();
        let is_peer = other >= start && other < end;
        match self.plan.exclude {
            1 => other == self.number,
            2 => is_peer,
            3 => is_peer && other != self.number,
            _ => false,
        }
    }
}

/// Finds the frames of a partition's rows.
struct FrameFinder<'a> {
    plan: &'a WindowPlan,
    partition: &'a Partition,
    /// Values of the ORDER BY expressions of all rows.
    order: &'a [Datum],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FrameEnd {
    /// The frame's first row.
    Start,
    /// The row behind its last.
    End,
}

/// Aggregate state that grows with a frame whose start stays.
struct RunningAggregate {
    acc: Option<Box<dyn Accumulator>>,
    count: i64,
    start: usize,
    end: usize,
    value: Option<Datum>,
}

impl WindowState {
    pub fn new(unary: UnaryInput) -> WindowState {
        WindowState {
            width: match &unary.node.op {
                Op::Window { input, .. } => input.width,
                _ => 0,
            },
            unary,
            rows: Vec::new(),
            results: Vec::new(),
            count: 0,
            next: 0,
            done: false,
            position: 0,
            numbers: RowNumbers::default(),
            most: Vec::new(),
            looked: Default::default(),
        }
    }
    pub(crate) fn rescan(&mut self, rt: &mut RunState) {
        self.unary.rescan(rt);
        self.rows.clear();
        self.results.clear();
        self.count = 0;
        self.next = 0;
        self.done = false;
        self.position = 0;
        self.numbers = RowNumbers::default();
        self.most.clear();
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
        let (width, extra) = (self.width, plan.functions.len());
        while !out.full() {
            if self.next >= self.count {
                if self.done || !self.next_partition(plan, rt, cx)? {
                    break;
                }
                continue;
            }
            let i = self.next;
            self.next += 1;
            let results = &self.results[i * extra..(i + 1) * extra];
            if !self.is_within(plan, results) {
                // The functions do not sink again before the partition's end.
                self.next = self.count;
                self.done |= plan.partition.is_empty();
                continue;
            }
            out.data.extend_from_slice(&self.rows[i * width..(i + 1) * width]);
            out.data.extend_from_slice(results);
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
            out.data.extend_from_slice(self.unary.buffer.row(at));
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

    /// Reads the next partition and computes the functions for it; false: there is none.
    fn next_partition(&mut self, plan: &WindowPlan, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<bool> {
        let mut order_keys = Vec::new();
        let mut key = Vec::new();
        self.rows.clear();
        (self.count, self.next) = (0, 0);
        loop {
            if self.position >= self.unary.buffer.rows {
                self.position = 0;
                if !self.unary.fill(BATCH_ROWS, rt, cx)? {
                    self.unary.buffer.clear();
                    self.done = true;
                    break;
                }
            }
            let row = self.unary.buffer.row(self.position);
            if self.count == 0 {
                key.clear();
                read_keys(&plan.partition, row, &mut key, rt, cx)?;
            } else if !plan.partition.is_empty() {
                let mut own = key.clone();
                if !read_keys(&plan.partition, row, &mut own, rt, cx)? {
                    break;
                }
            }
            for k in &plan.order {
                order_keys.push(k.expr.eval(row, rt, cx)?);
            }
            self.rows.extend_from_slice(row);
            self.count += 1;
            self.position += 1;
        }
        if self.count == 0 {
            return Ok(false);
        }
        let same = |a: usize, b: usize| {
            let n = plan.order.len();
            let (a, b) = (&order_keys[a * n..(a + 1) * n], &order_keys[b * n..(b + 1) * n]);
            compare_keys(&plan.order, a, b) == Ordering::Equal
        };
        self.results.clear();
        self.results.resize(self.count * plan.functions.len(), Datum::Null);
        let mut groups = Vec::with_capacity(self.count);
        let (mut start, mut number) = (0, 0);
        while start < self.count {
            let mut end = start + 1;
            while end < self.count && same(start, end) {
                end += 1;
            }
            number += 1;
            groups.extend(std::iter::repeat_n((start, number, end), end - start));
            start = end;
        }
        let p = Partition { from: 0, to: self.count, groups };
        self.partition(&FrameFinder { plan, partition: &p, order: &order_keys }, rt, cx)?;
        Ok(true)
    }

    /// Computes the functions for all rows of a partition.
    fn partition(&mut self, frames: &FrameFinder<'_>, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let (plan, p) = (frames.plan, frames.partition);
        let extra = plan.functions.len();
        let offsets = |b: &CFrameBound, rt: &mut RunState, cx: &mut ExecContext<'_>| -> Result<Datum> {
            match b {
                CFrameBound::Preceding(e) | CFrameBound::Following(e) => e.eval(&[], rt, cx),
                _ => Ok(Datum::Null),
            }
        };
        let (start_offset, end_offset) = (offsets(&plan.start, rt, cx)?, offsets(&plan.end, rt, cx)?);
        check_offset(&plan.start, &start_offset, "starting")?;
        check_offset(&plan.end, &end_offset, "ending")?;
        let mut running: Vec<RunningAggregate> = plan
            .functions
            .iter()
            .map(|_| RunningAggregate { acc: None, count: 0, start: usize::MAX, end: 0, value: None })
            .collect();
        for i in p.from..p.to {
            if i % 1024 == 0 {
                cx.park.checkpoint()?;
            }
            let mut frame = (i, i);
            if plan.functions.iter().any(uses_frame) {
                let start = frames.edge(&plan.start, &start_offset, i, FrameEnd::Start, cx)?;
                let end = frames.edge(&plan.end, &end_offset, i, FrameEnd::End, cx)?;
                frame = (start, end.max(start));
            }
            let current = CurrentRow { plan, partition: p, number: i, frame };
            for (n, f) in plan.functions.iter().enumerate() {
                self.results[i * extra + n] = if f.is_aggregate {
                    self.aggregate(f, &mut running[n], &current, rt, cx)?
                } else {
                    self.function(f, &current, rt, cx)?
                };
            }
        }
        Ok(())
    }

    fn row(&self, i: usize) -> &[Datum] {
        self.rows.get(i * self.width..(i + 1) * self.width).unwrap_or(&[])
    }

    fn aggregate(
        &self,
        f: &WindowFn,
        r: &mut RunningAggregate,
        current: &CurrentRow<'_>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<Datum> {
        let CurrentRow { plan, frame, .. } = *current;
        if plan.exclude == 0
            && r.start == frame.0
            && r.end == frame.1
            && let Some(v) = &r.value
        {
            return Ok(v.clone());
        }
        // array_agg gives its state away when it finishes.
        let grows = plan.exclude == 0 && &*f.name != "array_agg" && r.start == frame.0 && r.end <= frame.1;
        if !grows {
            r.acc = if matches!(f.oid, 2803 | 2147) {
                None
            } else {
                let Some(FunctionKind::Aggregate(make)) = f.function else {
                    return Err(Error::unsupported(format!("aggregate {} is not supported", f.name)));
                };
                Some(make(&f.arg_types))
            };
            r.count = 0;
            r.start = frame.0;
            r.end = frame.0;
        }
        let mut args = Vec::new();
        for j in r.end..frame.1 {
            self.looked.set(self.looked.get() + 1);
            if self.looked.get() >= BATCH_ROWS {
                self.looked.set(0);
                cx.park.checkpoint()?;
            }
            if current.excludes(j) {
                continue;
            }
            let row = self.row(j);
            if let Some(c) = &f.filter
                && !c.is_true(row, rt, cx)?
            {
                continue;
            }
            args.clear();
            for a in &f.args {
                args.push(a.eval(row, rt, cx)?);
            }
            match &mut r.acc {
                Some(acc) => acc.add(&args, &cx.eval)?,
                None => r.count += i64::from(f.star || args.first().is_some_and(|d| !d.is_null())),
            }
        }
        r.end = frame.1;
        let v = match &mut r.acc {
            Some(acc) => acc.finish(&cx.eval)?,
            None => Datum::Int8(r.count),
        };
        r.value = Some(v.clone());
        Ok(v)
    }

    fn function(
        &self,
        f: &WindowFn,
        current: &CurrentRow<'_>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<Datum> {
        let CurrentRow { plan, partition: p, number: i, frame } = *current;
        let total = p.to - p.from;
        let (peer_start, group, peer_end) = current.peers();
        let rank = peer_start - p.from;
        let arg = |n: usize, at: usize, rt: &mut RunState, cx: &mut ExecContext<'_>| -> Result<Datum> {
            match f.args.get(n) {
                Some(e) => e.eval(self.row(at), rt, cx),
                None => Ok(Datum::Null),
            }
        };
        let Some(FunctionKind::Window(function)) = f.function else {
            return Err(Error::unsupported(format!("window function {} is not supported", f.name)));
        };
        use WindowFunction as W;
        Ok(match function {
            W::RowNumber => Datum::Int8((i - p.from + 1) as i64),
            W::Rank => Datum::Int8(rank as i64 + 1),
            W::DenseRank => Datum::Int8(group as i64),
            W::PercentRank => Datum::Float8(if total <= 1 { 0.0 } else { rank as f64 / (total - 1) as f64 }),
            W::CumeDist => Datum::Float8((peer_end - p.from) as f64 / total as f64),
            W::Ntile => {
                let Datum::Int4(buckets) = arg(0, i, rt, cx)? else { return Ok(Datum::Null) };
                if buckets <= 0 {
                    return Err(Error::new(
                        kilndb_base::SqlState::new("22014"),
                        "argument of ntile must be greater than zero",
                    ));
                }
                let (buckets, at) = (buckets as usize, i - p.from);
                let (small, rest) = (total / buckets, total % buckets);
                let wide = rest * (small + 1);
                let n = if at < wide { at / (small + 1) } else { rest + (at - wide) / small.max(1) };
                Datum::Int4(n as i32 + 1)
            }
            W::Lag
            | W::LagWithOffset
            | W::LagWithOffsetAndDefault
            | W::Lead
            | W::LeadWithOffset
            | W::LeadWithOffsetAndDefault => {
                let lag = matches!(function, W::Lag | W::LagWithOffset | W::LagWithOffsetAndDefault);
                let offset = if f.args.len() > 1 {
                    match arg(1, i, rt, cx)? {
                        Datum::Int4(n) => i64::from(n),
                        _ => return Ok(Datum::Null),
                    }
                } else {
                    1
                };
                let at = i as i64 + if lag { -offset } else { offset };
                if at >= p.from as i64 && at < p.to as i64 { arg(0, at as usize, rt, cx)? } else { arg(2, i, rt, cx)? }
            }
            W::FirstValue | W::LastValue | W::NthValue => {
                let mut list = (frame.0..frame.1).filter(|j| !current.excludes(*j));
                let at = match function {
                    W::FirstValue => list.next(),
                    W::LastValue => list.next_back(),
                    _ => match arg(1, i, rt, cx)? {
                        Datum::Int4(n) if n > 0 && plan.exclude == 0 => {
                            Some(frame.0 + n as usize - 1).filter(|at| *at < frame.1)
                        }
                        Datum::Int4(n) if n > 0 => list.nth(n as usize - 1),
                        Datum::Int4(_) => {
                            return Err(Error::new(
                                kilndb_base::SqlState::new("22016"),
                                "argument of nth_value must be greater than zero",
                            ));
                        }
                        _ => None,
                    },
                };
                match at {
                    Some(j) => arg(0, j, rt, cx)?,
                    None => Datum::Null,
                }
            }
        })
    }
}

fn uses_frame(f: &WindowFn) -> bool {
    f.is_aggregate || matches!(f.function, Some(FunctionKind::Window(function)) if function.uses_frame())
}

fn check_offset(b: &CFrameBound, d: &Datum, which: &str) -> Result<()> {
    if !matches!(b, CFrameBound::Preceding(_) | CFrameBound::Following(_)) {
        return Ok(());
    }
    if d.is_null() {
        return Err(Error::new(sqlstate::NULL_VALUE_NOT_ALLOWED, format!("frame {which} offset must not be null")));
    }
    if matches!(d, Datum::Int8(n) if *n < 0) || matches!(d, Datum::Int4(n) if *n < 0) {
        return Err(Error::new(
            kilndb_base::SqlState::new("22013"),
            format!("frame {which} offset must not be negative"),
        ));
    }
    Ok(())
}

impl FrameFinder<'_> {
    /// The first row of the frame of row `i`, or the row behind its last.
    fn edge(&self, b: &CFrameBound, offset: &Datum, i: usize, which: FrameEnd, cx: &ExecContext<'_>) -> Result<usize> {
        let (plan, p) = (self.plan, self.partition);
        let (peer_start, group, peer_end) = p.groups[i - p.from];
        let n = match offset {
            Datum::Int8(n) => *n,
            _ => 0,
        };
        let following = matches!(b, CFrameBound::Following(_));
        Ok(match b {
            CFrameBound::UnboundedPreceding => p.from,
            CFrameBound::UnboundedFollowing => p.to,
            CFrameBound::CurrentRow => match (plan.mode, which) {
                (FrameMode::Rows, FrameEnd::Start) => i,
                (FrameMode::Rows, FrameEnd::End) => i + 1,
                (_, FrameEnd::Start) => peer_start,
                (_, FrameEnd::End) => peer_end,
            },
            CFrameBound::Preceding(_) | CFrameBound::Following(_) => match plan.mode {
                FrameMode::Rows => {
                    let n = if following { n } else { -n };
                    let at = (i as i64).saturating_add(n).saturating_add(i64::from(which == FrameEnd::End));
                    at.clamp(p.from as i64, p.to as i64) as usize
                }
                FrameMode::Groups => {
                    let wanted = (group as i64).saturating_add(if following { n } else { -n });
                    let number = |g: &(usize, usize, usize)| g.1 as i64;
                    if which == FrameEnd::Start {
                        let at = p.groups.partition_point(|g| number(g) < wanted);
                        p.groups.get(at).map_or(p.to, |g| g.0)
                    } else {
                        let behind = p.groups.partition_point(|g| number(g) <= wanted);
                        p.groups[..behind].last().map_or(p.from, |g| g.2)
                    }
                }
                FrameMode::Range => self.range_edge(offset, i, which, following, cx)?,
            },
        })
    }

    /// The edge of a RANGE frame whose bound is so far from row `i`, in the order or against it.
    fn range_edge(
        &self,
        offset: &Datum,
        i: usize,
        which: FrameEnd,
        following: bool,
        cx: &ExecContext<'_>,
    ) -> Result<usize> {
        let (plan, p, order) = (self.plan, self.partition, self.order);
        let Some(k) = plan.order.first() else { return Ok(p.to) };
        let (peer_start, _, peer_end) = p.groups[i - p.from];
        if order[i].is_null() {
            return Ok(if which == FrameEnd::Start { peer_start } else { peer_end });
        }
        let up = following != k.descending;
        let f = if up { plan.range_plus } else { plan.range_minus };
        let Some(f) = f else {
            return Err(Error::unsupported(
                "RANGE with offset PRECEDING/FOLLOWING is not supported for this column type",
            ));
        };
        let limit = f(&cx.eval, &[order[i].clone(), offset.clone()])?;
        // A date plus an interval is a timestamp, so dates are compared as timestamps.
        let is_date = matches!(limit, Datum::Timestamp(_)) && k.ty == oids::DATE;
        let compared_type = if is_date { oids::TIMESTAMP } else { k.ty };
        let side = |j: usize| {
            let o = match &order[j] {
                Datum::Date(days) if is_date => key::compare(compared_type, &Datum::Timestamp(midnight(*days)), &limit),
                known => key::compare(compared_type, known, &limit),
            };
            if k.descending { o.reverse() } else { o }
        };
        // Rows are in order, nulls together at one end.
        let known = &order[p.from..p.to];
        let first =
            p.from + if known.first().is_some_and(Datum::is_null) { known.partition_point(Datum::is_null) } else { 0 };
        let known = &order[first..p.to];
        let end = first
            + if known.last().is_some_and(Datum::is_null) {
                known.partition_point(|d| !d.is_null())
            } else {
                known.len()
            };
        let split = |test: &dyn Fn(Ordering) -> bool| {
            let (mut low, mut high) = (first, end);
            while low < high {
                let middle = low + (high - low) / 2;
                if test(side(middle)) { low = middle + 1 } else { high = middle }
            }
            low
        };
        Ok(if which == FrameEnd::Start {
            Some(split(&|o| o == Ordering::Less)).filter(|at| *at < end).unwrap_or(p.to)
        } else {
            Some(split(&|o| o != Ordering::Greater)).filter(|at| *at > first).unwrap_or(p.from)
        })
    }
}

/// Microseconds of a date's beginning; the infinities stay what they are.
fn midnight(days: i32) -> i64 {
    match days {
        i32::MIN => i64::MIN,
        i32::MAX => i64::MAX,
        days => i64::from(days) * 86_400_000_000,
    }
}
