//! The table that a nested loop goes over to when its outer side has many more rows than was thought: see
//! [`kilndb_plan::LoopSwitch`].
//!
//! Invariants
//! 1. An outer row finds in the table what looking it up would find: the rows of the whole inner side, its own
//!    conditions applied, by the keys of the join; what else is to hold for a pair is judged by the loop.
//! 2. The table is gone when the loop begins anew: the inner side's conditions may depend on an outer query's row.
//!
//! Must not know: the kind of the join.

use super::context::*;
use super::hash_table::{HashTable, NONE, key_of};
use super::state::NodeState;
use kilndb_base::Result;
use kilndb_plan::LoopSwitch;
use kilndb_types::Datum;

#[derive(Default)]
pub(super) struct LoopTable {
    /// The outer rows so far, and these with the inner rows that were found for them.
    outer_rows: u64,
    steps: u64,
    table: Option<HashTable>,
    /// It does not fit into memory, so rows are looked up as before.
    is_too_large: bool,
    key: Vec<u8>,
    /// The next row for the present outer row.
    chain: u32,
}

impl LoopTable {
    pub fn is_made(&self) -> bool {
        self.table.is_some()
    }
    pub fn forget(&mut self) {
        self.table = None;
        (self.outer_rows, self.steps) = (0, 0);
    }
    /// To be called for each inner row that was looked up.
    pub fn note_found(&mut self) {
        self.steps += 1;
    }

    /// To be called for each row of the outer side. If there is a table then, the row's partners are those that
    /// [`LoopTable::next_row`] yields.
    pub fn begin_row(
        &mut self,
        switch: &LoopSwitch,
        (node, outer): (usize, &[Datum]),
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        self.outer_rows += 1;
        self.steps += 1;
        if self.table.is_none() {
            if self.steps <= switch.after_steps || self.is_too_large {
                return Ok(());
            }
            self.make(switch, rt, cx)?;
            let Some(table) = &self.table else { return Ok(()) };
            let report = NodeReport::LoopTable { after_rows: self.outer_rows - 1, memory: table.bytes as u64 };
            rt.report(node, report);
        }
        key_of(&switch.outer_keys, &switch.types, outer, &mut self.key, rt, cx)?;
        self.chain = self.table.as_ref().map_or(NONE, |table| table.first(&self.key));
        Ok(())
    }

    pub fn next_row(&mut self) -> Option<&[Datum]> {
        let table = self.table.as_ref().filter(|_| self.chain != NONE)?;
        let row = self.chain as usize;
        self.chain = table.next_row[row];
        Some(table.row(row))
    }

    fn make(&mut self, switch: &LoopSwitch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let width = switch.build.width;
        let (mut build, mut batch) = (NodeState::new(&switch.build), Batch::new(width));
        let mut table = HashTable::new(width);
        while build.fill(&mut batch, rt, cx)? {
            for i in 0..batch.rows {
                key_of(&switch.build_keys, &switch.types, batch.row(i), &mut self.key, rt, cx)?;
                if self.key.is_empty() {
                    continue;
                }
                let row = &mut batch.data[i * width..(i + 1) * width];
                table.push(&self.key, row.iter_mut().map(std::mem::take));
                if table.is_full(cx.hash_mem_bytes) {
                    self.is_too_large = true;
                    return Ok(());
                }
            }
        }
        self.table = Some(table);
        Ok(())
    }
}
