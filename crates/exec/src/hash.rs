//! Hash tables over equality keys, and DISTINCT.

use super::columns::{ColumnBatch, ColumnInput, RowInput, row_of};
use super::context::*;
use super::expr::Evaluate;
use super::key_index::{KeyBatch, KeyIndex, entry_bytes};
use super::state::UnaryInput;
use kilndb_base::{Error, Oid, Result};
use kilndb_plan::Op;
use kilndb_plan::expression::CExpr;
use kilndb_spill::{ByteHasher, SpillCursor, SpillFile, SpillIo, SpillPartitions};
use kilndb_types::vector::Vector;
use kilndb_types::{Datum, key, row};
use std::hash::BuildHasherDefault;

pub(crate) type KeyMap<V = u32> = std::collections::HashMap<Box<[u8]>, V, BuildHasherDefault<ByteHasher>>;

/// What an entry of a [`KeyMap`] takes beside the key's bytes.
pub(crate) const ENTRY_BYTES: usize = 64;

/// Finds the first row of each key. Keys that do not fit the budget wait in partitions until the input's end.
#[derive(Default)]
pub(crate) struct DistinctKeys {
    seen: KeyIndex,
    used_bytes: usize,
    level: u32,
    overflow: Option<SpillPartitions>,
    pending: Vec<(SpillFile, u32)>,
    reading: Option<(SpillFile, SpillCursor)>,
    /// The row that has to wait.
    row: Vec<Datum>,
    batches: u64,
    peak_bytes: usize,
    disk_bytes: u64,
}

impl DistinctKeys {
    /// Is this the first row with its key? Then it is to be given out now.
    pub(crate) fn offer(&mut self, key: &[u8], row: &[Datum], budget: usize, io: SpillIo<'_>) -> Result<bool> {
        if self.seen.get(key).is_some() {
            return Ok(false);
        }
        if self.has_room(key.len(), budget) {
            self.seen.insert(key, 0);
            return Ok(true);
        }
        self.put_off(key, row, budget, io)?;
        Ok(false)
    }
    /// As [`DistinctKeys::offer`], of a key of a batch, which are offered one after the other.
    /// The rest of the row is asked for if it has to wait.
    pub(crate) fn offer_of(
        &mut self,
        keys: &KeyBatch,
        at: usize,
        row: impl FnOnce(&mut Vec<Datum>) -> Result<()>,
        budget: usize,
        io: SpillIo<'_>,
    ) -> Result<bool> {
        self.seen.fetch_ahead(keys, at);
        if self.seen.get_of(keys, at).is_some() {
            return Ok(false);
        }
        let mut short = [0; 16];
        let key = keys.bytes(at, &mut short);
        if self.has_room(key.len(), budget) {
            self.seen.insert_of(keys, at, 0);
            return Ok(true);
        }
        let mut values = std::mem::take(&mut self.row);
        values.clear();
        row(&mut values)?;
        self.put_off(key, &values, budget, io)?;
        self.row = values;
        Ok(false)
    }
    /// Is there room for another key? It is counted then.
    fn has_room(&mut self, key_bytes: usize, budget: usize) -> bool {
        let bytes = entry_bytes(key_bytes);
        if self.used_bytes + bytes > budget && self.seen.len() > 0 {
            return false;
        }
        self.used_bytes += bytes;
        self.peak_bytes = self.peak_bytes.max(self.used_bytes);
        true
    }
    fn put_off(&mut self, key: &[u8], row: &[Datum], budget: usize, io: SpillIo<'_>) -> Result<()> {
        let level = self.level;
        self.overflow.get_or_insert_with(|| SpillPartitions::new(level, budget)).push(key, row, io)
    }
    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes
    }
    /// Appends rows that had to wait until the input's end. If none is appended, there are no more.
    pub fn drain(&mut self, out: &mut Batch, budget: usize, io: SpillIo<'_>) -> Result<()> {
        while !out.full() {
            let Some((file, mut cursor)) = self.reading.take() else {
                if !self.next_input(io)? {
                    return Ok(());
                }
                continue;
            };
            let mut ended = false;
            while !out.full() && !ended {
                if !cursor.advance(&file, io)? {
                    ended = true;
                } else if self.seen.get(cursor.key()).is_none() {
                    if self.has_room(cursor.key().len(), budget) {
                        self.seen.insert(cursor.key(), 0);
                        row::decode_self_describing(cursor.row(), out.width, &mut out.data)?;
                        out.end_row();
                    } else {
                        let level = self.level;
                        let overflow = self.overflow.get_or_insert_with(|| SpillPartitions::new(level, budget));
                        overflow.push_record(cursor.key(), cursor.record(), io)?;
                    }
                }
            }
            if !ended {
                self.reading = Some((file, cursor));
            }
        }
        Ok(())
    }
    fn next_input(&mut self, io: SpillIo<'_>) -> Result<bool> {
        if let Some(overflow) = self.overflow.take() {
            let files = overflow.finish(io)?;
            self.disk_bytes += files.iter().map(SpillFile::disk_bytes).sum::<u64>();
            self.pending.extend(files.into_iter().filter(|f| f.records > 0).map(|f| (f, self.level + 1)));
        }
        let Some((file, level)) = self.pending.pop() else { return Ok(false) };
        self.seen.clear();
        self.used_bytes = 0;
        self.batches += 1;
        self.level = level;
        self.reading = Some((file, SpillCursor::new(budget_of_reader())));
        Ok(true)
    }
    pub fn report(&self) -> NodeReport {
        NodeReport::Hash { batches: self.batches + 1, memory: self.peak_bytes as u64, disk: self.disk_bytes }
    }
}

/// Bytes that are read from a partition at once.
pub(crate) fn budget_of_reader() -> usize {
    kilndb_spill::STEP_BYTES / 4
}

pub(crate) struct DistinctState {
    pub unary: UnaryInput,
    unique: DistinctKeys,
    /// The key of the last row, if the input is sorted.
    last: Option<Vec<u8>>,
    input_done: bool,
    /// The keys of a batch of columns.
    keys: KeyBatch,
    waiting: Batch,
    /// How the input is read as columns, and as rows.
    columns: ColumnInput,
    is_begun: bool,
    rows: RowInput,
}

impl DistinctState {
    pub fn new(unary: UnaryInput) -> DistinctState {
        DistinctState {
            unary,
            unique: DistinctKeys::default(),
            last: None,
            input_done: false,
            keys: KeyBatch::default(),
            waiting: Batch::default(),
            columns: ColumnInput::default(),
            is_begun: false,
            rows: RowInput::default(),
        }
    }
    /// Can it hand on its rows as columns? Its keys are columns of its input then.
    pub fn has_columns(&self) -> bool {
        let Op::Distinct { keys, sorted: false, .. } = &self.unary.node.op else { return false };
        keys.iter().all(|key| matches!(key.expr.tree(), CExpr::Slot(_))) && self.unary.input.has_columns()
    }
    /// The next rows as columns, of which only those in `is_used` are there. No row: there are no more.
    pub fn next_columns(
        &mut self,
        out: &mut ColumnBatch,
        is_used: &[bool],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::Distinct { keys, .. } = &node.op else { return Ok(()) };
        let of_key = keys.iter().filter_map(|key| match *key.expr.tree() {
            CExpr::Slot(slot) => Some((slot, key.ty)),
            _ => None,
        });
        let of_key: Vec<(usize, Oid)> = of_key.collect();
        // A row that has to wait is kept with its keys, which are what is told apart, and with what is used.
        let mut wanted = is_used.to_vec();
        of_key.iter().for_each(|(slot, _)| wanted[*slot] = true);
        if !std::mem::replace(&mut self.is_begun, true) {
            self.columns.begin_morsels((&mut self.unary.input, node.id), &wanted, rt, cx)?;
        }
        while !self.input_done {
            // The batch that was handed on the last time is used again.
            std::mem::swap(out, &mut self.columns.batch);
            let is_filled = self.columns.fill(&mut self.unary.input, &wanted, rt, cx)?;
            std::mem::swap(out, &mut self.columns.batch);
            if !is_filled {
                self.input_done = true;
                break;
            }
            self.keep_new(out, &of_key, &wanted, cx)?;
            if !out.rows().is_empty() {
                return Ok(());
            }
        }
        self.waiting.start(is_used.len());
        self.unique.drain(&mut self.waiting, cx.hash_mem_bytes, cx.io())?;
        if self.waiting.rows == 0 {
            rt.report(node.id, self.unique.report());
        }
        out.take_values(&mut self.waiting, is_used);
        Ok(())
    }
    /// Leaves in a batch the rows whose keys have not been seen before.
    fn keep_new(
        &mut self,
        batch: &mut ColumnBatch,
        of_key: &[(usize, Oid)],
        wanted: &[bool],
        cx: &ExecContext<'_>,
    ) -> Result<()> {
        let (columns, rows) = batch.parts();
        let columns = &*columns;
        let of_key: Vec<(&Vector, Oid)> = of_key.iter().map(|(slot, ty)| (&columns[*slot], *ty)).collect();
        self.keys.clear();
        rows.try_each(|row| self.keys.push(None, &of_key, row))?;
        let (mut kept, mut at) = (Vec::new(), 0);
        rows.try_each(|row| {
            let values = |values: &mut Vec<Datum>| row_of(columns, wanted, row, values);
            if self.unique.offer_of(&self.keys, at, values, cx.hash_mem_bytes, cx.io())? {
                kept.push(row as u32);
            }
            at += 1;
            Ok::<(), Error>(())
        })?;
        let positions = rows.positions();
        batch.take_rows(&mut kept, positions);
        Ok(())
    }
    pub(crate) fn rescan(&mut self, rt: &mut RunState) {
        self.unique = DistinctKeys::default();
        self.last = None;
        self.input_done = false;
        (self.columns, self.rows, self.is_begun) = (ColumnInput::default(), RowInput::default(), false);
        self.unary.rescan(rt);
    }
    pub fn next(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::Distinct { keys, sorted, .. } = &node.op else { return Ok(()) };
        let (io, budget) = (cx.io(), cx.hash_mem_bytes);
        let mut k = Vec::new();
        while out.rows == 0 && !self.input_done {
            let UnaryInput { input, buffer, .. } = &mut self.unary;
            if !self.rows.fill((buffer, out.max), (input, node.id), rt, cx)? {
                self.input_done = true;
                break;
            }
            for i in 0..self.unary.buffer.rows {
                let row = self.unary.buffer.row(i);
                k.clear();
                for s in keys {
                    let d = match s.expr.tree() {
                        CExpr::Slot(slot) => &row[*slot],
                        _ => &s.expr.eval(row, rt, cx)?,
                    };
                    key::hash_equal_key(s.ty, d, &mut k)?;
                }
                let new = if *sorted {
                    let new = self.last.as_deref() != Some(k.as_slice());
                    if new {
                        self.last = Some(k.clone());
                    }
                    new
                } else {
                    self.unique.offer(&k, row, budget, io)?
                };
                if new {
                    out.push(row);
                }
            }
        }
        if out.rows == 0 && !sorted {
            self.unique.drain(out, budget, io)?;
            if out.rows == 0 {
                rt.report(node.id, self.unique.report());
            }
        }
        Ok(())
    }
}
