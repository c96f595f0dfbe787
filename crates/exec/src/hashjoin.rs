//! Hash joins.
//!
//! The build side goes into a table. If it does not fit, both sides go to partitions by the hash of their keys, and
//! pairs of partitions are joined one by one; a pair that splitting does not help is joined in passes, one per piece of
//! the build side that fits. A filter of the build side's keys keeps most rows of the probe side that have no partner out of the
//! partitions, if they do not belong to the result.

mod columns;

use self::columns::JoinColumns;
pub(crate) use self::columns::SharedBuild;
use super::context::*;
use super::expr::Evaluate;
use super::hash::budget_of_reader;
use super::hash_table::{HashTable, NONE, key_of};
use super::state::NodeState;
use kilndb_base::{Oid, Result};
use kilndb_bind::ir::JoinKind;
use kilndb_plan::expression::Expression;
use kilndb_plan::{Op, PlanNode};
use kilndb_spill::{KeyFilter, Sorter, SpillCursor, SpillFile, SpillIo, SpillPartitions};
use kilndb_types::{Datum, row};
use std::sync::Arc;

/// A pair is split at most so many times.
const MAX_LEVEL: u32 = 4;

/// The filter may take this share of the memory.
const FILTER_SHARE: usize = 8;

/// A build side that did not fit.
struct SpilledBuild {
    parts: SpillPartitions,
    /// Has all keys of it.
    filter: KeyFilter,
}

impl SpilledBuild {
    fn new(hash_mem_bytes: usize) -> SpilledBuild {
        let filter = KeyFilter::new(usize::MAX, hash_mem_bytes / FILTER_SHARE);
        SpilledBuild { parts: SpillPartitions::new(0, hash_mem_bytes), filter }
    }
    fn push(&mut self, key: &[u8], row: &[Datum], io: SpillIo<'_>) -> Result<()> {
        self.filter.add_key(key);
        self.parts.push(key, row, io)
    }
}

struct SpilledPair {
    build: SpillFile,
    probe: SpillFile,
    level: u32,
    /// Rows of the build side that this pair was split from.
    parent: u64,
}

/// A pair being joined.
struct PairJoin {
    build: SpillFile,
    build_cursor: SpillCursor,
    probe: SpillFile,
    probe_cursor: SpillCursor,
    /// The table holds the last piece of the build side.
    last: bool,
    /// Which rows of the probe side have found a partner in an earlier pass, if there are several.
    found: Option<Vec<u64>>,
    /// The position of the next row of the probe side.
    number: usize,
}

pub(crate) struct HashJoinState {
    pub node: Arc<PlanNode>,
    probe: NodeState,
    build: NodeState,
    started: bool,
    table: HashTable,
    probe_batch: Batch,
    probe_next: usize,
    chain: u32,
    active: bool,
    row_matched: bool,
    /// The number of the present row of the probe side, if its order counts and both sides are in partitions.
    probe_number: i64,
    /// The result in the order of the probe side, if that counts and did not stay.
    sorted: Option<Sorter>,
    /// The present source of probe rows is at its end.
    probe_done: bool,
    tail: usize,
    key: Vec<u8>,
    pending: Vec<SpilledPair>,
    pass: Option<PairJoin>,
    spilled: bool,
    batches: u64,
    peak_bytes: usize,
    disk_bytes: u64,
    /// What joining columns keeps, once they have been asked for.
    columns: Option<Box<JoinColumns>>,
}

/// Does an outer row without a partner belong to the result?
fn keeps_unmatched(kind: JoinKind) -> bool {
    matches!(kind, JoinKind::Left | JoinKind::Full | JoinKind::Anti)
}

/// Is there a result for rows of the probe side though the build side has none?
fn needs_probe(kind: JoinKind) -> bool {
    !matches!(kind, JoinKind::Inner | JoinKind::Semi | JoinKind::Right)
}

/// Does a row of the table without a partner belong to the result?
fn keeps_table(kind: JoinKind) -> bool {
    matches!(kind, JoinKind::Right | JoinKind::Full)
}

/// The probe side in partitions.
struct ProbePartitions {
    parts: SpillPartitions,
    /// The number of the last row, and the row with it, if the order counts.
    numbered: Option<(i64, Vec<Datum>)>,
}

impl ProbePartitions {
    fn new(node: &PlanNode, cx: &ExecContext<'_>) -> ProbePartitions {
        let keeps_order = matches!(node.op, Op::HashJoin { keeps_order: true, .. });
        let parts = SpillPartitions::new(0, cx.hash_mem_bytes);
        ProbePartitions { parts, numbered: keeps_order.then(|| (0, Vec::new())) }
    }
    fn push(&mut self, key: &[u8], row: &[Datum], io: SpillIo<'_>) -> Result<()> {
        let Some((number, numbered)) = &mut self.numbered else { return self.parts.push(key, row, io) };
        *number += 1;
        numbered.clear();
        numbered.extend_from_slice(row);
        numbered.push(Datum::Int8(*number));
        self.parts.push(key, numbered, io)
    }
}

impl HashJoinState {
    pub fn new(node: &Arc<PlanNode>, probe: &Arc<PlanNode>, build: &Arc<PlanNode>) -> HashJoinState {
        HashJoinState {
            node: node.clone(),
            probe: NodeState::new(probe),
            build: NodeState::new(build),
            started: false,
            table: HashTable::default(),
            probe_batch: Batch::new(probe.width),
            probe_next: 0,
            chain: NONE,
            active: false,
            row_matched: false,
            probe_number: 0,
            sorted: None,
            probe_done: false,
            tail: 0,
            key: Vec::new(),
            pending: Vec::new(),
            pass: None,
            spilled: false,
            batches: 0,
            peak_bytes: 0,
            disk_bytes: 0,
            columns: None,
        }
    }
    pub(crate) fn rescan(&mut self, rt: &mut RunState) {
        self.probe.rescan(rt);
        self.build.rescan(rt);
        self.started = false;
        self.table = HashTable::default();
        self.reset_probe();
        self.pending.clear();
        self.pass = None;
        self.sorted = None;
        self.spilled = false;
        self.columns = None;
    }
    fn reset_probe(&mut self) {
        self.probe_batch.clear();
        self.probe_next = 0;
        self.active = false;
        self.probe_done = false;
        self.tail = 0;
    }

    /// Reads the build side; if it does not fit, partitions both.
    fn start(&mut self, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.node.clone();
        let Op::HashJoin { build, kind, .. } = &node.op else { return Ok(()) };
        self.table = HashTable::new(build.width);
        let mut parts = None;
        let mut b = Batch::new(build.width);
        while self.build.fill(&mut b, rt, cx)? {
            for i in 0..b.rows {
                let row = &mut b.data[i * build.width..(i + 1) * build.width];
                self.add_build_row(&node, row, &mut parts, rt, cx)?;
            }
        }
        self.finish_table();
        match parts {
            Some(build) => self.partition_probe(build, rt, cx)?,
            None => self.probe_done = self.table.count == 0 && !needs_probe(*kind),
        }
        Ok(())
    }

    /// Has read the build side.
    fn finish_table(&mut self) {
        self.peak_bytes = self.peak_bytes.max(self.table.bytes);
        self.started = true;
        self.batches = 1;
    }

    /// Adds a row, which is taken out, to the table or to the partitions that the table had to become.
    fn add_build_row(
        &mut self,
        node: &PlanNode,
        row: &mut [Datum],
        parts: &mut Option<SpilledBuild>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let Op::HashJoin { build_keys, types, kind, .. } = &node.op else { return Ok(()) };
        key_of(build_keys, types, row, &mut self.key, rt, cx)?;
        if self.key.is_empty() && !keeps_table(*kind) {
            return Ok(());
        }
        match parts {
            Some(parts) => parts.push(&self.key, row, cx.io())?,
            None => {
                self.table.push(&self.key, row.iter_mut().map(std::mem::take));
                if self.table.is_full(cx.hash_mem_bytes) {
                    *parts = Some(self.evict(build_keys, types, rt, cx)?);
                }
            }
        }
        Ok(())
    }

    /// Moves the table to partitions.
    fn evict(
        &mut self,
        keys: &[Expression],
        types: &[Oid],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<SpilledBuild> {
        self.peak_bytes = self.peak_bytes.max(self.table.bytes);
        let width = self.table.width;
        let table = std::mem::replace(&mut self.table, HashTable::new(width));
        let mut parts = SpilledBuild::new(cx.hash_mem_bytes);
        let mut key = Vec::new();
        for i in 0..table.count {
            key_of(keys, types, table.row(i), &mut key, rt, cx)?;
            parts.push(&key, table.row(i), cx.io())?;
        }
        Ok(parts)
    }

    fn partition_probe(&mut self, build: SpilledBuild, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.node.clone();
        let Op::HashJoin { probe, probe_keys, types, kind, .. } = &node.op else { return Ok(()) };
        let mut parts = ProbePartitions::new(&node, cx);
        let mut b = Batch::new(probe.width);
        while self.probe.fill(&mut b, rt, cx)? {
            for i in 0..b.rows {
                key_of(probe_keys, types, b.row(i), &mut self.key, rt, cx)?;
                if keeps_unmatched(*kind) || !self.key.is_empty() && build.filter.may_have_key(&self.key) {
                    parts.push(&self.key, b.row(i), cx.io())?;
                }
            }
        }
        self.begin_pairs(build.parts, parts, cx)
    }

    /// Both sides are in partitions.
    fn begin_pairs(&mut self, build: SpillPartitions, probe: ProbePartitions, cx: &ExecContext<'_>) -> Result<()> {
        let node = self.node.clone();
        let Op::HashJoin { kind, .. } = &node.op else { return Ok(()) };
        (self.spilled, self.probe_done) = (true, true);
        let (build, probe) = (build.finish(cx.io())?, probe.parts.finish(cx.io())?);
        self.add_pairs(build, probe, 1, u64::MAX, *kind);
        Ok(())
    }

    fn add_pairs(&mut self, build: Vec<SpillFile>, probe: Vec<SpillFile>, level: u32, parent: u64, kind: JoinKind) {
        assert!(build.len() == probe.len(), "both sides have the same partitions");
        for (build, probe) in build.into_iter().zip(probe) {
            self.disk_bytes += build.disk_bytes() + probe.disk_bytes();
            let wanted = probe.records > 0 && (build.records > 0 || keeps_unmatched(kind))
                || build.records > 0 && keeps_table(kind);
            if wanted {
                self.pending.push(SpilledPair { build, probe, level, parent });
            }
        }
    }

    /// Begins with the next pair, or the next pass of the present one; false if there is none.
    fn next_pass(&mut self, cx: &mut ExecContext<'_>) -> Result<bool> {
        let node = self.node.clone();
        let Op::HashJoin { build, kind, .. } = &node.op else { return Ok(false) };
        let (io, budget) = (cx.io(), cx.hash_mem_bytes);
        if let Some(mut pass) = self.pass.take().filter(|p| !p.last) {
            self.table = HashTable::new(build.width);
            pass.last = load(&mut self.table, &pass.build, &mut pass.build_cursor, budget, io)?;
            pass.probe_cursor.seek(0);
            pass.number = 0;
            self.begin(pass);
            return Ok(true);
        }
        while let Some(pair) = self.pending.pop() {
            self.table = HashTable::new(build.width);
            self.batches += 1;
            let mut build_cursor = SpillCursor::new(budget_of_reader());
            let last = load(&mut self.table, &pair.build, &mut build_cursor, budget, io)?;
            let helps = pair.build.records < pair.parent / 10 * 9;
            if !last && pair.level < MAX_LEVEL && helps {
                self.table = HashTable::new(build.width);
                self.split(pair, *kind, budget, io)?;
                continue;
            }
            let found = (!last).then(|| vec![0; pair.probe.records as usize / 64 + 1]);
            let probe_cursor = SpillCursor::new(budget_of_reader());
            self.begin(PairJoin {
                build: pair.build,
                build_cursor,
                probe: pair.probe,
                probe_cursor,
                last,
                found,
                number: 0,
            });
            return Ok(true);
        }
        Ok(false)
    }
    fn begin(&mut self, pass: PairJoin) {
        self.peak_bytes = self.peak_bytes.max(self.table.bytes);
        self.pass = Some(pass);
        self.reset_probe();
    }

    fn split(&mut self, pair: SpilledPair, kind: JoinKind, budget: usize, io: SpillIo<'_>) -> Result<()> {
        let mut sides = Vec::new();
        for file in [&pair.build, &pair.probe] {
            let mut parts = SpillPartitions::new(pair.level, budget);
            let mut cursor = SpillCursor::new(budget_of_reader());
            while cursor.advance(file, io)? {
                parts.push_record(cursor.key(), cursor.record(), io)?;
            }
            sides.push(parts.finish(io)?);
        }
        if let (Some(probe), Some(build)) = (sides.pop(), sides.pop()) {
            self.add_pairs(build, probe, pair.level + 1, pair.build.records, kind);
        }
        Ok(())
    }

    pub fn next(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        if !self.started {
            self.start(rt, cx)?;
        }
        // Rows would be missing that have been read as columns.
        assert!(self.columns.is_none(), "a join that has begun to hand on columns hands on no rows");
        let node = self.node.clone();
        match &node.op {
            Op::HashJoin { keeps_order: true, .. } if self.spilled => self.next_in_order(out, rt, cx),
            _ => self.next_joined(out, rt, cx),
        }
    }

    /// The rows of a join of partitions, in the order of the probe side.
    fn next_in_order(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        if self.sorted.is_none() {
            let mut sorter = Sorter::new(cx.work_mem_bytes);
            // One row at a time, so that its number is known.
            let mut row = Batch::with_max(out.width, 1);
            loop {
                row.clear();
                self.next_joined(&mut row, rt, cx)?;
                if row.rows == 0 {
                    break;
                }
                sorter.push(&self.probe_number.to_be_bytes(), row.row(0), cx.io())?;
            }
            sorter.finish(cx.io())?;
            self.sorted = Some(sorter);
        }
        let Some(sorter) = &mut self.sorted else { return Ok(()) };
        while !out.full() {
            let Some((_, bytes)) = sorter.advance(cx.io())? else { break };
            row::decode_self_describing(bytes, out.width, &mut out.data)?;
            out.end_row();
        }
        Ok(())
    }

    fn next_joined(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        loop {
            self.join(out, rt, cx)?;
            if out.full() {
                return Ok(());
            }
            // The probe side is at its end.
            if !self.spilled || !self.next_pass(cx)? {
                break;
            }
        }
        if out.rows == 0 {
            let report =
                NodeReport::Hash { batches: self.batches, memory: self.peak_bytes as u64, disk: self.disk_bytes };
            rt.report(self.node.id, report);
        }
        Ok(())
    }

    /// Fills `probe_batch` and `key` ready for the next row; false at the end.
    fn next_probe_row(
        &mut self,
        keys: &[Expression],
        types: &[Oid],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        if let Some(pass) = &mut self.pass {
            self.probe_batch.clear();
            self.probe_next = 0;
            if !pass.probe_cursor.advance(&pass.probe, cx.io())? {
                return Ok(false);
            }
            let is_numbered = matches!(self.node.op, Op::HashJoin { keeps_order: true, .. });
            let width = self.probe_batch.width + usize::from(is_numbered);
            row::decode_self_describing(pass.probe_cursor.row(), width, &mut self.probe_batch.data)?;
            if is_numbered && let Some(Datum::Int8(number)) = self.probe_batch.data.pop() {
                self.probe_number = number;
            }
            self.probe_batch.end_row();
            self.key.clear();
            self.key.extend_from_slice(pass.probe_cursor.key());
            pass.number += 1;
            if pass.number % BATCH_ROWS == 0 {
                cx.park.checkpoint()?;
            }
            return Ok(true);
        }
        if self.probe_next >= self.probe_batch.rows {
            self.probe_next = 0;
            if !self.probe.fill(&mut self.probe_batch, rt, cx)? {
                return Ok(false);
            }
        }
        key_of(keys, types, self.probe_batch.row(self.probe_next), &mut self.key, rt, cx)?;
        Ok(true)
    }

    /// In an earlier pass of this pair, has the row found a partner?
    fn was_found(&self) -> bool {
        let Some(PairJoin { found: Some(bits), number, .. }) = &self.pass else { return false };
        bits.get((number - 1) / 64).is_some_and(|w| w >> ((number - 1) % 64) & 1 == 1)
    }
    fn note_found(&mut self) {
        if let Some(PairJoin { found: Some(bits), number, .. }) = &mut self.pass
            && let Some(word) = bits.get_mut((*number - 1) / 64)
        {
            *word |= 1 << ((*number - 1) % 64);
        }
    }

    /// Joins until `out` is full or the present source of probe rows (with the table's own unmatched rows) is at its
    /// end.
    fn join(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.node.clone();
        let Op::HashJoin { build, kind, probe_keys, types, on, .. } = &node.op else { return Ok(()) };
        while !out.full() {
            if !self.active {
                if self.probe_done || !self.next_probe_row(probe_keys, types, rt, cx)? {
                    self.probe_done = true;
                    if keeps_table(*kind) {
                        self.unmatched(out);
                    }
                    return Ok(());
                }
                self.active = true;
                self.row_matched = self.was_found();
                let settled = self.row_matched && matches!(kind, JoinKind::Semi | JoinKind::Anti);
                self.chain = if settled { NONE } else { self.table.first(&self.key) };
            }
            if self.chain == NONE {
                let last = self.pass.as_ref().is_none_or(|p| p.last);
                if !self.row_matched && last && keeps_unmatched(*kind) {
                    out.data.extend_from_slice(self.probe_batch.row(self.probe_next));
                    out.data.extend(std::iter::repeat_n(Datum::Null, build.width));
                    out.end_row();
                }
                self.active = false;
                self.probe_next += 1;
                continue;
            }
            let i = self.chain as usize;
            self.chain = self.table.next_row[i];
            out.data.extend_from_slice(self.probe_batch.row(self.probe_next));
            out.data.extend_from_slice(self.table.row(i));
            let from = out.rows * out.width;
            let pass = match on {
                Some(e) => e.is_true(&out.data[from..], rt, cx)?,
                None => true,
            };
            if !pass {
                out.cancel_row();
                continue;
            }
            if !self.row_matched {
                self.row_matched = true;
                self.note_found();
            }
            self.table.matched[i] = true;
            match kind {
                JoinKind::Anti => {
                    out.cancel_row();
                    self.chain = NONE;
                }
                JoinKind::Semi => {
                    out.end_row();
                    self.chain = NONE;
                }
                _ => out.end_row(),
            }
        }
        Ok(())
    }

    fn unmatched(&mut self, out: &mut Batch) {
        while !out.full() && self.tail < self.table.count {
            let i = self.tail;
            self.tail += 1;
            if !self.table.matched[i] {
                out.data.extend(std::iter::repeat_n(Datum::Null, self.probe_batch.width));
                out.data.extend_from_slice(self.table.row(i));
                out.end_row();
            }
        }
    }
}

/// Reads rows into the table until it is full; true if these were all.
fn load(
    table: &mut HashTable,
    file: &SpillFile,
    cursor: &mut SpillCursor,
    budget: usize,
    io: SpillIo<'_>,
) -> Result<bool> {
    let mut values = Vec::new();
    while !table.is_full(budget) {
        if !cursor.advance(file, io)? {
            return Ok(true);
        }
        values.clear();
        row::decode_self_describing(cursor.row(), table.width, &mut values)?;
        table.push(cursor.key(), values.drain(..));
        if table.count.is_multiple_of(BATCH_ROWS) {
            io.park.checkpoint()?;
        }
    }
    Ok(false)
}
