//! State of one plan node during a run, and the simple nodes.

use super::context::*;
use super::expr::Evaluate;
use super::{aggregate, cte, function, hash, hashjoin, join, lockrows, modify, scan, setop, sort};
use kilndb_base::{Error, Result, sqlstate};
use kilndb_plan::expression::CExpr;
use kilndb_plan::{Node, Op};
use kilndb_types::Datum;
use std::sync::Arc;

pub struct Unary {
    pub node: Arc<Node>,
    pub input: Box<State>,
    pub buffer: Batch,
}

pub struct LimitState {
    unary: Unary,
    skip: Option<u64>,
    left: u64,
    last: Option<Vec<Datum>>,
    done: bool,
}

pub enum State {
    Result { node: Arc<Node>, done: bool },
    Values { node: Arc<Node>, next: usize },
    Scan(Box<scan::ScanState>),
    Partitions(Box<super::partition_scan::PartitionsState>),
    ByPartition(Box<super::by_partition::ByPartitionState>),
    Function(Box<function::FunctionState>),
    CteScan(cte::CteScanState),
    Filter(Unary),
    Project(Unary),
    ProjectSet(Box<function::ProjectSetState>),
    NestLoop(Box<join::NestLoopState>),
    HashJoin(Box<hashjoin::HashJoinState>),
    Aggregate(Box<aggregate::AggregateState>),
    Sort(Box<sort::SortState>),
    Limit(Box<LimitState>),
    Distinct(Box<hash::DistinctState>),
    SetOp(Box<setop::SetOpState>),
    Window(Box<super::window::WindowState>),
    LockRows(Box<lockrows::LockRowsState>),
    Modify(Box<modify::ModifyState>),
}

impl State {
    pub fn new(node: &Arc<Node>) -> State {
        let unary = |input: &Arc<Node>| Unary {
            node: node.clone(),
            input: Box::new(State::new(input)),
            buffer: Batch::new(input.width),
        };
        match &node.op {
            Op::Result { .. } | Op::Shown { .. } => State::Result { node: node.clone(), done: false },
            Op::Values { .. } => State::Values { node: node.clone(), next: 0 },
            Op::SeqScan(_)
            | Op::IndexScan { .. }
            | Op::TidScan { .. }
            | Op::BitmapScan { .. }
            | Op::CountScan { .. } => State::Scan(Box::new(scan::ScanState::new(node))),
            Op::Partitions(p) => {
                State::Partitions(Box::new(super::partition_scan::PartitionsState::new(node, &p.template)))
            }
            Op::ByPartition(p) => {
                State::ByPartition(Box::new(super::by_partition::ByPartitionState::new(node, &p.input)))
            }
            Op::Function { .. } => State::Function(Box::new(function::FunctionState::new(node))),
            Op::CteScan { .. } | Op::WorkTable { .. } => State::CteScan(cte::CteScanState::new(node)),
            Op::Filter { input, .. } => State::Filter(unary(input)),
            Op::Project { input, .. } => State::Project(unary(input)),
            Op::ProjectSet { input, .. } => State::ProjectSet(Box::new(function::ProjectSetState::new(unary(input)))),
            Op::NestLoop { outer, inner, .. } => {
                State::NestLoop(Box::new(join::NestLoopState::new(node, outer, inner)))
            }
            Op::HashJoin { probe, build, .. } => {
                State::HashJoin(Box::new(hashjoin::HashJoinState::new(node, probe, build)))
            }
            Op::Aggregate { input, .. } => State::Aggregate(Box::new(aggregate::AggregateState::new(unary(input)))),
            Op::Sort { input, .. } => State::Sort(Box::new(sort::SortState::new(unary(input)))),
            Op::Limit { input, .. } => {
                State::Limit(Box::new(LimitState { unary: unary(input), skip: None, left: 0, last: None, done: false }))
            }
            Op::Distinct { input, .. } => State::Distinct(Box::new(hash::DistinctState::new(unary(input)))),
            Op::SetOp { left, right, .. } => State::SetOp(Box::new(setop::SetOpState::new(node, left, right))),
            Op::Window { input, .. } => State::Window(Box::new(super::window::WindowState::new(unary(input)))),
            Op::LockRows { input, .. } => State::LockRows(Box::new(lockrows::LockRowsState::new(unary(input)))),
            Op::Modify(m) => State::Modify(Box::new(modify::ModifyState::new(node, &m.statement.input))),
        }
    }

    /// The next batch of rows in place of what was in `batch`; false at the end.
    pub fn fill(&mut self, batch: &mut Batch, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<bool> {
        batch.clear();
        cx.park.step()?;
        self.next(batch, rt, cx)?;
        Ok(batch.rows > 0)
    }

    /// Appends rows to `out` (given empty) until it is full; none appended means the end.
    pub fn next(&mut self, out: &mut Batch, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<()> {
        if rt.counters.is_none() {
            return self.next_plain(out, rt, cx);
        }
        let id = self.node_id();
        let begun = Begun::now();
        let result = self.next_plain(out, rt, cx);
        if let Some(c) = rt.counters.as_mut().and_then(|c| c.get_mut(id)) {
            c.count(out.rows, &begun);
            if c.loops == 0 {
                c.loops = 1;
                c.startup_nanos = c.nanos;
            }
        }
        result
    }

    fn node_id(&self) -> usize {
        match self {
            State::Result { node, .. } | State::Values { node, .. } => node.id,
            State::Scan(s) => s.node.id,
            State::Partitions(s) => s.node.id,
            State::ByPartition(s) => s.node.id,
            State::Function(s) => s.node.id,
            State::CteScan(s) => s.node.id,
            State::Filter(u) | State::Project(u) => u.node.id,
            State::ProjectSet(s) => s.unary.node.id,
            State::NestLoop(s) => s.node.id,
            State::HashJoin(s) => s.node.id,
            State::Aggregate(s) => s.unary.node.id,
            State::Sort(s) => s.unary.node.id,
            State::Limit(s) => s.unary.node.id,
            State::Distinct(s) => s.unary.node.id,
            State::SetOp(s) => s.node.id,
            State::Window(s) => s.unary.node.id,
            State::LockRows(s) => s.unary.node.id,
            State::Modify(s) => s.node.id,
        }
    }

    fn next_plain(&mut self, out: &mut Batch, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<()> {
        match self {
            State::Result { node, done } => {
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
            State::Values { node, next } => {
                let Op::Values { rows } = &node.op else { return Ok(()) };
                if rows.is_empty() {
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
            State::Scan(s) => s.next(out, rt, cx),
            State::Partitions(s) => s.next(out, rt, cx),
            State::ByPartition(s) => s.next(out, rt, cx),
            State::Function(s) => s.next(out, rt, cx),
            State::CteScan(s) => s.next(out, rt, cx),
            State::Filter(u) => filter(u, out, rt, cx),
            State::Project(u) => project(u, out, rt, cx),
            State::ProjectSet(s) => s.next(out, rt, cx),
            State::NestLoop(s) => s.next(out, rt, cx),
            State::HashJoin(s) => s.next(out, rt, cx),
            State::Aggregate(s) => s.next(out, rt, cx),
            State::Sort(s) => s.next(out, rt, cx),
            State::Limit(s) => s.next(out, rt, cx),
            State::Distinct(s) => s.next(out, rt, cx),
            State::SetOp(s) => s.next(out, rt, cx),
            State::Window(s) => s.next(out, rt, cx),
            State::LockRows(s) => s.next(out, rt, cx),
            State::Modify(s) => s.next(out, rt, cx),
        }
    }

    /// No more than `rows` rows will be asked for before the next start (None: not known).
    fn set_bound(&mut self, rows: Option<u64>) {
        match self {
            State::Sort(s) => s.set_bound(rows),
            State::Project(u) => u.input.set_bound(rows),
            _ => {}
        }
    }

    /// Starts over with the present parameters.
    pub fn rescan(&mut self, rt: &mut Runtime) {
        if let Some(c) = rt.counters.as_mut() {
            let id = self.node_id();
            if let Some(c) = c.get_mut(id) {
                c.loops += 1;
            }
        }
        match self {
            State::Result { done, .. } => *done = false,
            State::Values { next, .. } => *next = 0,
            State::Scan(s) => s.rescan(),
            State::Partitions(s) => s.rescan(),
            State::ByPartition(s) => s.rescan(),
            State::Function(s) => s.rescan(),
            State::CteScan(s) => s.rescan(),
            State::Filter(u) | State::Project(u) => u.rescan(rt),
            State::ProjectSet(s) => s.rescan(rt),
            State::NestLoop(s) => s.rescan(rt),
            State::HashJoin(s) => s.rescan(rt),
            State::Aggregate(s) => s.rescan(rt),
            State::Sort(s) => s.rescan(rt),
            State::Limit(s) => {
                s.unary.rescan(rt);
                s.skip = None;
                s.last = None;
                s.done = false;
            }
            State::Distinct(s) => s.rescan(rt),
            State::SetOp(s) => s.rescan(rt),
            State::Window(s) => s.rescan(rt),
            State::LockRows(s) => s.rescan(rt),
            State::Modify(_) => {}
        }
    }
}

impl Unary {
    pub fn rescan(&mut self, rt: &mut Runtime) {
        self.buffer.clear();
        self.input.rescan(rt);
    }
    /// The next batch of input in `buffer`; false at the end.
    pub fn fill(&mut self, max: usize, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<bool> {
        self.buffer.max = max;
        self.input.fill(&mut self.buffer, rt, cx)
    }
}

fn filter(u: &mut Unary, out: &mut Batch, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<()> {
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

fn project(u: &mut Unary, out: &mut Batch, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<()> {
    let node = u.node.clone();
    let Op::Project { exprs, .. } = &node.op else { return Ok(()) };
    if u.fill(out.max, rt, cx)? {
        for i in 0..u.buffer.rows {
            for e in exprs {
                let v = match e {
                    CExpr::Slot(s) => u.buffer.row(i).get(*s).cloned().unwrap_or_default(),
                    e => e.eval(u.buffer.row(i), rt, cx)?,
                };
                out.data.push(v);
            }
            out.end_row();
        }
    }
    Ok(())
}

impl LimitState {
    fn next(&mut self, out: &mut Batch, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::Limit { limit, offset, ties, .. } = &node.op else { return Ok(()) };
        if self.skip.is_none() {
            let read = |e: &Option<CExpr>, rt: &mut Runtime, cx: &mut ExecContext<'_>| -> Result<Option<i64>> {
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
                    // Rows equal to the last one still belong.
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
