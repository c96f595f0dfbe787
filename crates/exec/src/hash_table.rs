//! The rows of one side of a join by their key, in memory.
//!
//! Must not know: where the rows come from, and what becomes of those that have no partner.

use super::context::*;
use super::expr::Evaluate;
use super::key_index::{KeyIndex, NO_NUMBER, entry_bytes};
use kilndb_base::{Oid, Result};
use kilndb_plan::expression::{CExpr, Expression};
use kilndb_spill::row_bytes;
use kilndb_types::{Datum, key};

/// No row.
pub(super) const NONE: u32 = NO_NUMBER;
const CHUNK_ROWS: usize = 1024;

/// Rows of one side of a join by key.
#[derive(Default)]
pub(super) struct HashTable {
    pub width: usize,
    chunks: Vec<Vec<Datum>>,
    pub count: usize,
    /// Key → first row with it; chains through `next_row`.
    map: KeyIndex,
    pub next_row: Vec<u32>,
    pub matched: Vec<bool>,
    pub bytes: usize,
}

impl HashTable {
    pub fn new(width: usize) -> HashTable {
        HashTable { width, ..HashTable::default() }
    }
    /// A row whose key is empty has NULL in it, and so no partner.
    pub fn push(&mut self, key: &[u8], values: impl Iterator<Item = Datum>) {
        let number = self.count as u32;
        let mut next = NONE;
        if !key.is_empty() {
            match self.map.insert(key, number) {
                Some(first) => next = first,
                None => self.bytes += entry_bytes(key.len()),
            }
        }
        self.next_row.push(next);
        self.matched.push(false);
        if self.count.is_multiple_of(CHUNK_ROWS) {
            self.chunks.push(Vec::new());
        }
        if let Some(chunk) = self.chunks.last_mut() {
            let from = chunk.len();
            chunk.extend(values);
            self.bytes += row_bytes(&chunk[from..]) + 5;
        }
        self.count += 1;
    }
    pub fn row(&self, i: usize) -> &[Datum] {
        let from = i % CHUNK_ROWS * self.width;
        self.chunks.get(i / CHUNK_ROWS).and_then(|c| c.get(from..from + self.width)).unwrap_or(&[])
    }
    pub fn first(&self, key: &[u8]) -> u32 {
        if key.is_empty() { NONE } else { self.map.get(key).unwrap_or(NONE) }
    }
    pub fn is_full(&self, budget: usize) -> bool {
        self.bytes > budget && self.count > 1 || self.count >= NONE as usize - 1
    }
}

/// The key of a row, written to `out`; empty if there is NULL in it.
pub(super) fn key_of(
    keys: &[Expression],
    types: &[Oid],
    row: &[Datum],
    out: &mut Vec<u8>,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<()> {
    out.clear();
    for (e, t) in keys.iter().zip(types) {
        let computed;
        let d = match e.tree() {
            CExpr::Slot(s) => &row[*s],
            _ => {
                computed = e.eval(row, rt, cx)?;
                &computed
            }
        };
        if d.is_null() {
            out.clear();
            return Ok(());
        }
        key::hash_equal_key(*t, d, out)?;
    }
    Ok(())
}
