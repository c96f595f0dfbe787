//! The state of each kind of plan node during a run, and the execution of simple nodes.

use super::columns::ColumnBatch;
use super::context::*;
use super::expr::Evaluate;
use super::morsels::MorselTable;
use super::project::ProjectState;
use super::{aggregate, cte, function, hash, hashjoin, join, lockrows, memoize, mergejoin, modify, scan, setop, sort};
use kilndb_base::{Error, Result, sqlstate};
use kilndb_plan::expression::Expression;
use kilndb_plan::{Op, PlanNode};
use kilndb_types::Datum;
use std::ops::Range;
use std::sync::Arc;

pub(crate) struct UnaryInput {
    pub node: Arc<PlanNode>,
    pub input: Box<NodeState>,
    pub buffer: Batch,
}

pub(crate) struct LimitState {
    unary: UnaryInput,
    skip: Option<u64>,
    left: u64,
    last: Option<Vec<Datum>>,
    done: bool,
}

pub(crate) enum NodeState {
    Result {
        node: Arc<PlanNode>,
        done: bool,
    },
    Values {
        node: Arc<PlanNode>,
        next: usize,
    },
    Scan(Box<scan::ScanState>),
    Partitions(Box<super::partition_scan::PartitionsState>),
    ByPartition(Box<super::by_partition::ByPartitionState>),
    Function(Box<function::FunctionState>),
    CteScan(cte::CteScanState),
    Filter(UnaryInput),
    /// `is_met`: what its condition says, once it has been asked.
    OneTimeFilter {
        unary: UnaryInput,
        is_met: Option<bool>,
    },
    Project(ProjectState),
    ProjectSet(Box<function::ProjectSetState>),
    NestLoop(Box<join::NestLoopState>),
    HashJoin(Box<hashjoin::HashJoinState>),
    MergeJoin(Box<mergejoin::MergeJoinState>),
    Memoize(Box<memoize::MemoizeState>),
    Aggregate(Box<aggregate::AggregateState>),
    Sort(Box<sort::SortState>),
    Limit(Box<LimitState>),
    Distinct(Box<hash::DistinctState>),
    SetOp(Box<setop::SetOpState>),
    Window(Box<super::window::WindowState>),
    LockRows(Box<lockrows::LockRowsState>),
    Modify(Box<modify::ModifyState>),
}

/// Do the rows come from outside, as those of COPY do?
fn is_source(node: &PlanNode) -> bool {
    matches!(&node.op, Op::Values { rows } if rows.is_empty())
}

impl NodeState {
    pub fn new(node: &Arc<PlanNode>) -> NodeState {
        let unary = |input: &Arc<PlanNode>| UnaryInput {
            node: node.clone(),
            input: Box::new(NodeState::new(input)),
            buffer: Batch::new(input.width),
        };
        match &node.op {
            Op::Result { .. } | Op::Shown { .. } => NodeState::Result { node: node.clone(), done: false },
            Op::Values { .. } => NodeState::Values { node: node.clone(), next: 0 },
            Op::SeqScan(_)
            | Op::IndexScan { .. }
            | Op::TidScan { .. }
            | Op::BitmapScan { .. }
            | Op::CountScan { .. } => NodeState::Scan(Box::new(scan::ScanState::new(node))),
            Op::Partitions(p) => {
                NodeState::Partitions(Box::new(super::partition_scan::PartitionsState::new(node, &p.template)))
            }
            Op::ByPartition(p) => {
                NodeState::ByPartition(Box::new(super::by_partition::ByPartitionState::new(node, &p.input)))
            }
            Op::Function { .. } => NodeState::Function(Box::new(function::FunctionState::new(node))),
            Op::CteScan { .. } | Op::WorkTable { .. } => NodeState::CteScan(cte::CteScanState::new(node)),
            Op::Filter { input, .. } => NodeState::Filter(unary(input)),
            Op::OneTimeFilter { input, .. } => NodeState::OneTimeFilter { unary: unary(input), is_met: None },
            Op::Project { input, .. } => NodeState::Project(ProjectState::new(unary(input))),
            Op::ProjectSet { input, .. } => {
                NodeState::ProjectSet(Box::new(function::ProjectSetState::new(unary(input))))
            }
            Op::NestLoop { outer, inner, .. } => {
                NodeState::NestLoop(Box::new(join::NestLoopState::new(node, outer, inner)))
            }
            Op::HashJoin { probe, build, .. } => {
                NodeState::HashJoin(Box::new(hashjoin::HashJoinState::new(node, probe, build)))
            }
            Op::MergeJoin { outer, inner, .. } => {
                NodeState::MergeJoin(Box::new(mergejoin::MergeJoinState::new(node, outer, inner)))
            }
            Op::Memoize { input, .. } => NodeState::Memoize(Box::new(memoize::MemoizeState::new(unary(input)))),
            Op::Aggregate { input, .. } => NodeState::Aggregate(Box::new(aggregate::AggregateState::new(unary(input)))),
            Op::Sort { input, .. } => NodeState::Sort(Box::new(sort::SortState::new(unary(input)))),
            Op::Limit { input, .. } => NodeState::Limit(Box::new(LimitState {
                unary: unary(input),
                skip: None,
                left: 0,
                last: None,
                done: false,
            })),
            Op::Distinct { input, .. } => NodeState::Distinct(Box::new(hash::DistinctState::new(unary(input)))),
            Op::SetOp { left, right, .. } => NodeState::SetOp(Box::new(setop::SetOpState::new(node, left, right))),
            Op::Window { input, .. } => NodeState::Window(Box::new(super::window::WindowState::new(unary(input)))),
            Op::LockRows { input, .. } => NodeState::LockRows(Box::new(lockrows::LockRowsState::new(unary(input)))),
            Op::Modify(m) => NodeState::Modify(Box::new(modify::ModifyState::new(node, &m.statement.input))),
        }
    }

    /// The next batch of rows in place of what was in `batch`; false at the end.
    pub fn fill(&mut self, batch: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<bool> {
        batch.clear();
        cx.park.step()?;
        self.next(batch, rt, cx)?;
        // Rows are read by position: a value too many or too few would shift all that follow.
        assert!(batch.data.len() == batch.rows * batch.width, "a batch consists of whole rows");
        Ok(batch.rows > 0)
    }

    /// Appends rows to `out` (given empty) until it is full; none appended means the end.
    pub fn next(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        if rt.counters.is_none() {
            return self.next_plain(out, rt, cx);
        }
        let id = self.node_id();
        let begun = MeasureStart::now();
        let result = self.next_plain(out, rt, cx);
        if let Some(c) = rt.counters.as_mut().and_then(|c| c.get_mut(id)) {
            c.count_call(out.rows, &begun);
        }
        result
    }

    /// Can it hand on its rows as columns?
    pub fn has_columns(&self) -> bool {
        match self {
            NodeState::Scan(scan) => scan.has_columns(),
            NodeState::Partitions(scan) => scan.has_columns(),
            NodeState::HashJoin(join) => join.has_columns(),
            NodeState::Project(project) => project.has_columns(),
            NodeState::Distinct(distinct) => distinct.has_columns(),
            NodeState::Values { node, .. } => is_source(node),
            _ => false,
        }
    }

    /// As [`NodeState::has_columns`], or will it have them once several threads read parts of it?
    pub fn may_have_columns(&self) -> bool {
        match self {
            NodeState::HashJoin(join) => join.may_have_columns(),
            _ => self.has_columns(),
        }
    }

    /// As [`NodeState::fill`], of a node that [has columns](NodeState::has_columns): of them only those in `is_used`.
    pub fn fill_columns(
        &mut self,
        (out, is_used): (&mut ColumnBatch, &[bool]),
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        cx.park.step()?;
        out.clear();
        let begun = rt.counters.is_some().then(MeasureStart::now);
        let id = self.node_id();
        match self {
            NodeState::Scan(scan) => scan.next_columns(out, is_used, rt, cx)?,
            NodeState::Partitions(scan) => scan.next_columns(out, is_used, rt, cx)?,
            NodeState::HashJoin(join) => join.next_columns(out, is_used, rt, cx)?,
            NodeState::Project(project) => project.next_columns(out, is_used, rt, cx)?,
            NodeState::Distinct(distinct) => distinct.next_columns(out, is_used, rt, cx)?,
            NodeState::Values { node, .. } if is_source(node) => {
                if let Some(source) = &mut cx.source {
                    out.start(SOURCE_ROWS, is_used.len());
                    let context = SourceContext { eval: &cx.eval, park: cx.park, helpers: cx.helpers };
                    let rows = source.fill_columns(&mut out.columns, &context)?;
                    out.truncate(rows);
                }
            }
            _ => return Err(Error::internal("columns are asked of a node that has rows")),
        }
        if let Some(begun) = begun
            && let Some(c) = rt.counters.as_mut().and_then(|c| c.get_mut(id))
        {
            c.count_call(out.rows().len(), &begun);
        }
        Ok(!out.rows().is_empty())
    }

    /// Goes on with a part of the table that it reads, after it has had no more rows of the one before.
    pub(crate) fn begin_part(&mut self, table: &MorselTable, blocks: Range<u32>, rt: &mut RunState) -> Result<()> {
        match (self, &table.leaf) {
            (NodeState::Scan(scan), _) => scan.begin_part(blocks),
            (NodeState::Partitions(scan), Some(leaf)) => scan.begin_part(leaf, blocks, rt)?,
            (NodeState::Project(project), _) => project.unary.input.begin_part(table, blocks, rt)?,
            (NodeState::HashJoin(join), _) => {
                join.probe().begin_part(table, blocks, rt)?;
                join.go_on();
            }
            (NodeState::NestLoop(join), _) => {
                join.outer().begin_part(table, blocks, rt)?;
                join.go_on();
            }
            _ => return Err(Error::internal("a part is read of what has no parts")),
        }
        Ok(())
    }

    /// Makes the scan that several threads share end after the block that it is reading, until this is called with false.
    pub(crate) fn end_with_block(&mut self, ends: bool) {
        match self {
            NodeState::Scan(scan) => scan.end_with_block(ends),
            NodeState::Partitions(scan) => scan.end_with_block(ends),
            NodeState::HashJoin(join) => {
                join.probe().end_with_block(ends);
                if !ends {
                    join.go_on();
                }
            }
            NodeState::NestLoop(join) => {
                join.outer().end_with_block(ends);
                if !ends {
                    join.go_on();
                }
            }
            _ => {}
        }
    }

    fn node_id(&self) -> usize {
        self.node().id
    }
    pub(crate) fn node(&self) -> &Arc<PlanNode> {
        match self {
            NodeState::Result { node, .. } | NodeState::Values { node, .. } => node,
            NodeState::Scan(s) => &s.node,
            NodeState::Partitions(s) => &s.node,
            NodeState::ByPartition(s) => &s.node,
            NodeState::Function(s) => &s.node,
            NodeState::CteScan(s) => &s.node,
            NodeState::Filter(u) => &u.node,
            NodeState::Project(p) => &p.unary.node,
            NodeState::OneTimeFilter { unary, .. } => &unary.node,
            NodeState::ProjectSet(s) => &s.unary.node,
            NodeState::NestLoop(s) => &s.node,
            NodeState::HashJoin(s) => &s.node,
            NodeState::MergeJoin(s) => &s.node,
            NodeState::Memoize(s) => &s.unary.node,
            NodeState::Aggregate(s) => &s.unary.node,
            NodeState::Sort(s) => &s.unary.node,
            NodeState::Limit(s) => &s.unary.node,
            NodeState::Distinct(s) => &s.unary.node,
            NodeState::SetOp(s) => &s.node,
            NodeState::Window(s) => &s.unary.node,
            NodeState::LockRows(s) => &s.unary.node,
            NodeState::Modify(s) => &s.node,
        }
    }

    fn next_plain(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        match self {
            NodeState::Result { node, done } => {
                if !std::mem::replace(done, true) {
                    let keep = match &node.op {
                        Op::Result { filter: Some(f) } => f.is_true(&[], rt, cx)?,
                        _ => true,
                    };
                    if keep {
                        out.end_row();
                    }
                }
                Ok(())
            }
            NodeState::Values { node, next } => {
                let Op::Values { rows } = &node.op else { return Ok(()) };
                if is_source(node) {
                    return match &mut cx.source {
                        Some(source) => source.fill(out, &cx.eval),
                        None => Ok(()),
                    };
                }
                while !out.full() {
                    let Some(r) = rows.get(*next) else { break };
                    *next += 1;
                    for e in r {
                        let v = e.eval(&[], rt, cx)?;
                        out.data.push(v);
                    }
                    out.end_row();
                }
                Ok(())
            }
            NodeState::Scan(s) => s.next(out, rt, cx),
            NodeState::Partitions(s) => s.next(out, rt, cx),
            NodeState::ByPartition(s) => s.next(out, rt, cx),
            NodeState::Function(s) => s.next(out, rt, cx),
            NodeState::CteScan(s) => s.next(out, rt, cx),
            NodeState::Filter(u) => filter(u, out, rt, cx),
            NodeState::OneTimeFilter { unary, is_met } => one_time_filter(unary, is_met, out, rt, cx),
            NodeState::Project(p) => p.next(out, rt, cx),
            NodeState::ProjectSet(s) => s.next(out, rt, cx),
            NodeState::NestLoop(s) => s.next(out, rt, cx),
            NodeState::HashJoin(s) => s.next(out, rt, cx),
            NodeState::MergeJoin(s) => s.next(out, rt, cx),
            NodeState::Memoize(s) => s.next(out, rt, cx),
            NodeState::Aggregate(s) => s.next(out, rt, cx),
            NodeState::Sort(s) => s.next(out, rt, cx),
            NodeState::Limit(s) => s.next(out, rt, cx),
            NodeState::Distinct(s) => s.next(out, rt, cx),
            NodeState::SetOp(s) => s.next(out, rt, cx),
            NodeState::Window(s) => s.next(out, rt, cx),
            NodeState::LockRows(s) => s.next(out, rt, cx),
            NodeState::Modify(s) => s.next(out, rt, cx),
        }
    }

    /// Says that no more than `rows` rows will be asked for before the next start (None: not known).
    pub(crate) fn set_bound(&mut self, rows: Option<u64>) {
        match self {
            NodeState::Sort(s) => s.set_bound(rows),
            NodeState::Project(p) => p.unary.input.set_bound(rows),
            _ => {}
        }
    }

    /// Says that values which the node depends on, beside those that its loop sets, may be others.
    pub(crate) fn forget(&mut self) {
        if let NodeState::Memoize(s) = self {
            s.forget();
        }
    }

    /// Makes the node start over with the present parameters.
    pub(crate) fn rescan(&mut self, rt: &mut RunState) {
        if let Some(c) = rt.counters.as_mut() {
            let id = self.node_id();
            if let Some(c) = c.get_mut(id) {
                c.loops += 1;
            }
        }
        match self {
            NodeState::Result { done, .. } => *done = false,
            NodeState::Values { next, .. } => *next = 0,
            NodeState::Scan(s) => s.rescan(),
            NodeState::Partitions(s) => s.rescan(),
            NodeState::ByPartition(s) => s.rescan(),
            NodeState::Function(s) => s.rescan(),
            NodeState::CteScan(s) => s.rescan(),
            NodeState::Filter(u) => u.rescan(rt),
            NodeState::Project(p) => p.rescan(rt),
            NodeState::OneTimeFilter { unary, is_met } => {
                *is_met = None;
                unary.rescan(rt);
            }
            NodeState::ProjectSet(s) => s.rescan(rt),
            NodeState::NestLoop(s) => s.rescan(rt),
            NodeState::HashJoin(s) => s.rescan(rt),
            NodeState::MergeJoin(s) => s.rescan(rt),
            NodeState::Memoize(s) => s.rescan(),
            NodeState::Aggregate(s) => s.rescan(rt),
            NodeState::Sort(s) => s.rescan(rt),
            NodeState::Limit(s) => {
                s.unary.rescan(rt);
                s.skip = None;
                s.last = None;
                s.done = false;
            }
            NodeState::Distinct(s) => s.rescan(rt),
            NodeState::SetOp(s) => s.rescan(rt),
            NodeState::Window(s) => s.rescan(rt),
            NodeState::LockRows(s) => s.rescan(rt),
            NodeState::Modify(_) => {}
        }
    }
}

impl UnaryInput {
    pub(crate) fn rescan(&mut self, rt: &mut RunState) {
        self.buffer.clear();
        self.input.rescan(rt);
    }
    /// The next batch of input in `buffer`; false at the end.
    pub fn fill(&mut self, max: usize, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<bool> {
        self.buffer.max = max;
        self.input.fill(&mut self.buffer, rt, cx)
    }
}

fn filter(u: &mut UnaryInput, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
    let node = u.node.clone();
    let Op::Filter { condition, .. } = &node.op else { return Ok(()) };
    while out.rows == 0 {
        if !u.fill(out.max, rt, cx)? {
            break;
        }
        for i in 0..u.buffer.rows {
            if condition.is_true(u.buffer.row(i), rt, cx)? {
                out.push(u.buffer.row(i));
            } else if let Some(c) = rt.counters.as_mut().and_then(|c| c.get_mut(node.id)) {
                c.removed += 1;
            }
        }
    }
    Ok(())
}

/// The input is not asked for a row unless the condition is met.
fn one_time_filter(
    u: &mut UnaryInput,
    is_met: &mut Option<bool>,
    out: &mut Batch,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<()> {
    let Op::OneTimeFilter { condition, .. } = &u.node.op else { return Ok(()) };
    let is_met = match is_met {
        Some(known) => *known,
        None => *is_met.insert(condition.is_true(&[], rt, cx)?),
    };
    if is_met { u.input.next(out, rt, cx) } else { Ok(()) }
}

impl LimitState {
    fn next(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::Limit { limit, offset, ties, .. } = &node.op else { return Ok(()) };
        if self.skip.is_none() {
            let read = |e: &Option<Expression>, rt: &mut RunState, cx: &mut ExecContext<'_>| -> Result<Option<i64>> {
                Ok(match e {
                    Some(e) => match e.eval(&[], rt, cx)? {
                        Datum::Int8(n) => Some(n),
                        _ => None,
                    },
                    None => None,
                })
            };
            let n = read(offset, rt, cx)?.unwrap_or(0);
            if n < 0 {
                return Err(Error::new(
                    sqlstate::INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE,
                    "OFFSET must not be negative",
                ));
            }
            let l = read(limit, rt, cx)?;
            if l.is_some_and(|l| l < 0) {
                return Err(Error::new(sqlstate::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE, "LIMIT must not be negative"));
            }
            self.skip = Some(n as u64);
            self.left = l.map_or(u64::MAX, |l| l as u64);
            let needed = l.filter(|_| ties.is_none()).map(|l| (l as u64).saturating_add(n as u64));
            self.unary.input.set_bound(needed);
        }
        while out.rows == 0 && !self.done {
            if self.left == 0 && ties.is_none() {
                break;
            }
            let skip = self.skip.unwrap_or(0);
            let want = self.left.saturating_add(skip).min(out.max as u64).max(1) as usize;
            if !self.unary.fill(want, rt, cx)? {
                self.done = true;
                break;
            }
            for i in 0..self.unary.buffer.rows {
                if self.skip.unwrap_or(0) > 0 {
                    self.skip = self.skip.map(|s| s - 1);
                    continue;
                }
                let row = self.unary.buffer.row(i);
                if self.left == 0 {
                    // WITH TIES: rows that are equal to the last one still belong to the result.
                    let (Some(keys), Some(last)) = (ties, &self.last) else { break };
                    for k in keys {
                        let (a, b) = (k.expr.eval(row, rt, cx)?, k.expr.eval(last, rt, cx)?);
                        if kilndb_types::key::compare(k.ty, &a, &b) != std::cmp::Ordering::Equal {
                            self.done = true;
                        }
                    }
                    if self.done {
                        break;
                    }
                    out.push(row);
                    continue;
                }
                out.push(row);
                if self.left != u64::MAX {
                    self.left -= 1;
                }
                if self.left == 0 && ties.is_some() {
                    self.last = Some(row.to_vec());
                }
            }
            if self.left == 0 && (ties.is_none() || self.last.is_none()) {
                self.done = true;
            }
        }
        Ok(())
    }
}
