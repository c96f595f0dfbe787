//! UNION, INTERSECT, EXCEPT.

use super::columns::RowInput;
use super::context::*;
use super::hash::{DistinctKeys, ENTRY_BYTES, KeyMap, budget_of_reader};
use super::state::NodeState;
use kilndb_base::{Oid, Result};
use kilndb_bind::ir::SetOp;
use kilndb_plan::{Op, PlanNode};
use kilndb_spill::{SpillCursor, SpillFile, SpillIo, SpillPartitions};
use kilndb_types::{Datum, key, row};
use std::sync::Arc;

/// The count that marks a key as given out, for operations without ALL.
const GIVEN: u64 = u64::MAX;
/// After so many splits a partition's keys have the same hash: it stays as it is.
const MAX_LEVEL: u32 = 12;

pub(crate) struct SetOpState {
    pub node: Arc<PlanNode>,
    left: SetOpSide,
    right: SetOpSide,
    phase: SetOpPhase,
    unique: DistinctKeys,
    counts: KeyCounts,
    pending: Vec<SpilledPair>,
    /// The left side of a pair being read.
    reading: Option<(SpillFile, SpillCursor)>,
}

#[derive(Clone, Copy, PartialEq)]
enum SetOpPhase {
    First,
    Second,
    Spilled,
}

/// The rows of both sides that belong to one partition.
struct SpilledPair {
    left: SpillFile,
    /// The right side as counts: how often each key was there.
    right: Option<SpillFile>,
    level: u32,
}

/// How often each key occurs on the right side.
#[derive(Default)]
struct KeyCounts {
    keys: KeyMap<u64>,
    used_bytes: usize,
    level: u32,
    /// The partitions of the right side, if it does not fit in memory.
    right: Option<SpillPartitions>,
    /// Rows of the left side that have to wait.
    left: Option<SpillPartitions>,
}

impl KeyCounts {
    fn add(&mut self, key: &[u8], count: u64, budget: usize, io: SpillIo<'_>) -> Result<()> {
        if let Some(parts) = &mut self.right {
            return parts.push(key, &[Datum::Int8(count as i64)], io);
        }
        if let Some(known) = self.keys.get_mut(key) {
            *known = known.saturating_add(count);
            return Ok(());
        }
        self.insert(key, count);
        if self.used_bytes > budget && self.keys.len() > 1 && self.level < MAX_LEVEL {
            let mut parts = SpillPartitions::new(self.level, budget);
            for (key, count) in std::mem::take(&mut self.keys) {
                parts.push(&key, &[Datum::Int8(count as i64)], io)?;
            }
            self.used_bytes = 0;
            self.right = Some(parts);
        }
        Ok(())
    }
    fn insert(&mut self, key: &[u8], count: u64) {
        self.used_bytes += key.len() + ENTRY_BYTES;
        self.keys.insert(key.into(), count);
    }

    /// Is this row of the left side part of the result? None: it has to wait for its partition.
    fn keeps(&mut self, op: SetOp, all: bool, key: &[u8], budget: usize) -> Option<bool> {
        if self.right.is_some() {
            return None;
        }
        let full = self.used_bytes + key.len() + ENTRY_BYTES > budget && self.keys.len() > 1;
        let count = self.keys.get_mut(key);
        Some(match (op, all, count) {
            (SetOp::Intersect, false, Some(n)) => *n != GIVEN && std::mem::replace(n, GIVEN) > 0,
            (SetOp::Intersect, _, None) => false,
            (_, true, Some(n)) => {
                let had = *n > 0;
                *n = n.saturating_sub(1);
                had == (op == SetOp::Intersect)
            }
            (_, true, None) => true,
            (_, false, Some(_)) => false,
            (_, false, None) if full => return None,
            (_, false, None) => {
                self.insert(key, 1);
                true
            }
        })
    }
    fn wait(&mut self, key: &[u8], record: &[u8], budget: usize, io: SpillIo<'_>) -> Result<()> {
        let level = self.level;
        self.left.get_or_insert_with(|| SpillPartitions::new(level, budget)).push_record(key, record, io)
    }
    fn wait_row(&mut self, key: &[u8], row: &[Datum], budget: usize, io: SpillIo<'_>) -> Result<()> {
        let level = self.level;
        self.left.get_or_insert_with(|| SpillPartitions::new(level, budget)).push(key, row, io)
    }
    /// The partitions that have gathered, as pairs of the next level.
    fn pairs(&mut self, out: &mut Vec<SpilledPair>, io: SpillIo<'_>) -> Result<()> {
        let Some(left) = self.left.take() else { return Ok(()) };
        let rights: Vec<Option<SpillFile>> = match self.right.take() {
            Some(parts) => parts.finish(io)?.into_iter().map(Some).collect(),
            None => Vec::new(),
        };
        let rights = rights.into_iter().chain(std::iter::repeat_with(|| None));
        let level = self.level + 1;
        let pairs = left.finish(io)?.into_iter().zip(rights).map(|(left, right)| SpilledPair { left, right, level });
        out.extend(pairs.filter(|p| p.left.records > 0));
        Ok(())
    }
}

fn key_of(types: &[Oid], row: &[Datum], out: &mut Vec<u8>) -> Result<()> {
    out.clear();
    row.iter().zip(types).try_for_each(|(d, t)| key::hash_equal_key(*t, d, out))
}

/// One of the two inputs, which several threads read if they can.
struct SetOpSide {
    node: NodeState,
    input: RowInput,
}

impl SetOpSide {
    fn new(node: &Arc<PlanNode>) -> SetOpSide {
        SetOpSide { node: NodeState::new(node), input: RowInput::default() }
    }
    fn fill(&mut self, rows: &mut Batch, consumer: usize, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<bool> {
        let max = rows.max;
        self.input.fill((rows, max), (&mut self.node, consumer), rt, cx)
    }
    fn rescan(&mut self, rt: &mut RunState) {
        self.node.rescan(rt);
        self.input = RowInput::default();
    }
}

impl SetOpState {
    pub fn new(node: &Arc<PlanNode>, left: &Arc<PlanNode>, right: &Arc<PlanNode>) -> SetOpState {
        SetOpState {
            node: node.clone(),
            left: SetOpSide::new(left),
            right: SetOpSide::new(right),
            phase: SetOpPhase::First,
            unique: DistinctKeys::default(),
            counts: KeyCounts::default(),
            pending: Vec::new(),
            reading: None,
        }
    }
    pub(crate) fn rescan(&mut self, rt: &mut RunState) {
        self.left.rescan(rt);
        self.right.rescan(rt);
        self.phase = SetOpPhase::First;
        self.unique = DistinctKeys::default();
        self.counts = KeyCounts::default();
        self.pending.clear();
        self.reading = None;
    }

    pub fn next(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.node.clone();
        let Op::SetOp { op, all, types, .. } = &node.op else { return Ok(()) };
        match op {
            SetOp::Union => self.union(*all, types, out, rt, cx),
            op => self.compare(*op, *all, types, out, rt, cx),
        }
    }

    fn union(
        &mut self,
        all: bool,
        types: &[Oid],
        out: &mut Batch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let (io, budget) = (cx.io(), cx.hash_mem_bytes);
        let mut b = Batch::with_max(out.width, out.max);
        let mut key = Vec::new();
        while out.rows == 0 && self.phase != SetOpPhase::Spilled {
            b.clear();
            cx.park.checkpoint()?;
            let first = self.phase == SetOpPhase::First;
            let side = if first { &mut self.left } else { &mut self.right };
            match all {
                true => side.node.next(out, rt, cx)?,
                false => _ = side.fill(&mut b, self.node.id, rt, cx)?,
            }
            if out.rows + b.rows == 0 {
                self.phase = if first { SetOpPhase::Second } else { SetOpPhase::Spilled };
            }
            for i in 0..b.rows {
                key_of(types, b.row(i), &mut key)?;
                if self.unique.offer(&key, b.row(i), budget, io)? {
                    out.push(b.row(i));
                }
            }
        }
        if out.rows == 0 && !all {
            self.unique.drain(out, budget, io)?;
            if out.rows == 0 {
                rt.report(self.node.id, self.unique.report());
            }
        }
        Ok(())
    }

    fn compare(
        &mut self,
        op: SetOp,
        all: bool,
        types: &[Oid],
        out: &mut Batch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let (io, budget) = (cx.io(), cx.hash_mem_bytes);
        let mut b = Batch::with_max(out.width, out.max);
        let mut key = Vec::new();
        while self.phase == SetOpPhase::First {
            if !self.right.fill(&mut b, self.node.id, rt, cx)? {
                self.phase = SetOpPhase::Second;
            }
            for i in 0..b.rows {
                key_of(types, b.row(i), &mut key)?;
                self.counts.add(&key, 1, budget, io)?;
            }
        }
        while out.rows == 0 && self.phase == SetOpPhase::Second {
            if !self.left.fill(&mut b, self.node.id, rt, cx)? {
                self.phase = SetOpPhase::Spilled;
            }
            for i in 0..b.rows {
                key_of(types, b.row(i), &mut key)?;
                match self.counts.keeps(op, all, &key, budget) {
                    Some(true) => out.push(b.row(i)),
                    Some(false) => {}
                    None => self.counts.wait_row(&key, b.row(i), budget, io)?,
                }
            }
        }
        if out.rows == 0 {
            self.spilled(op, all, out, budget, io)?;
        }
        Ok(())
    }

    /// Rows of the partitions.
    fn spilled(&mut self, op: SetOp, all: bool, out: &mut Batch, budget: usize, io: SpillIo<'_>) -> Result<()> {
        while !out.full() {
            let Some((file, mut cursor)) = self.reading.take() else {
                self.counts.pairs(&mut self.pending, io)?;
                let Some(pair) = self.pending.pop() else { return Ok(()) };
                self.load(pair, budget, io)?;
                continue;
            };
            let mut ended = false;
            while !out.full() && !ended {
                if !cursor.advance(&file, io)? {
                    ended = true;
                    continue;
                }
                match self.counts.keeps(op, all, cursor.key(), budget) {
                    Some(true) => {
                        row::decode_self_describing(cursor.row(), out.width, &mut out.data)?;
                        out.end_row();
                    }
                    Some(false) => {}
                    None => self.counts.wait(cursor.key(), cursor.record(), budget, io)?,
                }
            }
            if !ended {
                self.reading = Some((file, cursor));
            }
        }
        Ok(())
    }

    /// Counts a pair's right side and begins with its left one.
    fn load(&mut self, pair: SpilledPair, budget: usize, io: SpillIo<'_>) -> Result<()> {
        self.counts = KeyCounts { level: pair.level, ..KeyCounts::default() };
        if let Some(file) = pair.right {
            let mut cursor = SpillCursor::new(budget_of_reader());
            let mut count = Vec::new();
            while cursor.advance(&file, io)? {
                count.clear();
                row::decode_self_describing(cursor.row(), 1, &mut count)?;
                let n = if let Some(Datum::Int8(n)) = count.first() { *n as u64 } else { 1 };
                self.counts.add(cursor.key(), n, budget, io)?;
            }
        }
        self.reading = Some((pair.left, SpillCursor::new(budget_of_reader())));
        Ok(())
    }
}
