//! Hash tables over equality keys, and DISTINCT.

use super::context::*;
use super::expr::Evaluate;
use super::state::UnaryInput;
use kilndb_base::Result;
use kilndb_plan::Op;
use kilndb_plan::expression::CExpr;
use kilndb_spill::{ByteHasher, SpillCursor, SpillFile, SpillIo, SpillPartitions};
use kilndb_types::{Datum, key, row};
use std::hash::BuildHasherDefault;

pub(crate) type KeyMap<V = u32> = std::collections::HashMap<Box<[u8]>, V, BuildHasherDefault<ByteHasher>>;

/// What an entry of a [`KeyMap`] takes beside the key's bytes.
pub(crate) const ENTRY_BYTES: usize = 64;

/// Finds the first row of each key. Keys that do not fit the budget wait in partitions until the input's end.
#[derive(Default)]
pub(crate) struct DistinctKeys {
    seen: KeyMap<()>,
    used_bytes: usize,
    level: u32,
    overflow: Option<SpillPartitions>,
    pending: Vec<(SpillFile, u32)>,
    reading: Option<(SpillFile, SpillCursor)>,
    batches: u64,
    peak_bytes: usize,
    disk_bytes: u64,
}

impl DistinctKeys {
    /// Is this the first row with its key? Then it is to be given out now.
    pub(crate) fn offer(&mut self, key: &[u8], row: &[Datum], budget: usize, io: SpillIo<'_>) -> Result<bool> {
        if self.seen.contains_key(key) {
            return Ok(false);
        }
        if self.has_room(key, budget) {
            return Ok(true);
        }
        let level = self.level;
        self.overflow.get_or_insert_with(|| SpillPartitions::new(level, budget)).push(key, row, io)?;
        Ok(false)
    }
    fn has_room(&mut self, key: &[u8], budget: usize) -> bool {
        let bytes = key.len() + ENTRY_BYTES;
        if self.used_bytes + bytes > budget && !self.seen.is_empty() {
            return false;
        }
        self.used_bytes += bytes;
        self.peak_bytes = self.peak_bytes.max(self.used_bytes);
        self.seen.insert(key.into(), ());
        true
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
                } else if !self.seen.contains_key(cursor.key()) {
                    if self.has_room(cursor.key(), budget) {
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
        self.seen = KeyMap::default();
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
}

impl DistinctState {
    pub fn new(unary: UnaryInput) -> DistinctState {
        DistinctState { unary, unique: DistinctKeys::default(), last: None, input_done: false }
    }
    pub(crate) fn rescan(&mut self, rt: &mut RunState) {
        self.unique = DistinctKeys::default();
        self.last = None;
        self.input_done = false;
        self.unary.rescan(rt);
    }
    pub fn next(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::Distinct { keys, sorted, .. } = &node.op else { return Ok(()) };
        let (io, budget) = (cx.io(), cx.hash_mem_bytes);
        let mut k = Vec::new();
        while out.rows == 0 && !self.input_done {
            if !self.unary.fill(out.max, rt, cx)? {
                self.input_done = true;
                break;
            }
            for i in 0..self.unary.buffer.rows {
                let row = self.unary.buffer.row(i);
                k.clear();
                for s in keys {
                    let d = match &s.expr {
                        CExpr::Slot(slot) => &row[*slot],
                        e => &e.eval(row, rt, cx)?,
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
