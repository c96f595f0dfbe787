//! The dead generations of rows, in a form in which every posting of an index can be looked up.
//!
//! Invariants
//! 1. Rows are added in order, each once. Nothing is looked up before the last one is added.
//! 2. A lookup reads two places in memory, near those of the row before in the same page, where a hash table would read
//!    a random one.
//!
//! Must not know: where rows and postings are.

use super::entry::Posting;
use kilndb_base::RowId;

/// Generations from one to another (inclusive) of a row.
struct DeadGenerations {
    row: u64,
    first: u32,
    last: u32,
}

#[derive(Default)]
pub(super) struct DeadRows {
    list: Vec<DeadGenerations>,
    rows: usize,
    first_block: u32,
    /// The positions in the list where each block of the heap begins, and the end. It is empty if there are few rows in
    /// many blocks.
    starts: Vec<u32>,
}

/// Rows with dead generations are in one of so many blocks, or blocks are not looked up.
const BLOCKS_PER_ROW: usize = 4;

fn block_of(row: u64) -> u32 {
    RowId::from_u64(row).block
}

impl DeadRows {
    /// How many rows.
    pub fn len(&self) -> usize {
        self.rows
    }
    pub fn push(&mut self, row: u64, dead: &[(u32, u32)]) {
        self.rows += usize::from(!dead.is_empty());
        self.list.extend(dead.iter().map(|(first, last)| DeadGenerations { row, first: *first, last: *last }));
    }
    /// Ends the adding of rows.
    pub fn finish(&mut self) {
        let (Some(first), Some(last)) = (self.list.first(), self.list.last()) else { return };
        self.first_block = block_of(first.row);
        let blocks = (block_of(last.row) - self.first_block) as usize + 1;
        if blocks > BLOCKS_PER_ROW * self.list.len() || self.list.len() > u32::MAX as usize {
            return;
        }
        self.starts.reserve_exact(blocks + 1);
        for (at, dead) in (0..).zip(&self.list) {
            let block = (block_of(dead.row) - self.first_block) as usize;
            self.starts.resize(self.starts.len().max(block + 1), at);
        }
        self.starts.push(self.list.len() as u32);
    }
    /// The entries of the row's block, or all entries.
    fn near(&self, row: u64) -> &[DeadGenerations] {
        if self.starts.is_empty() {
            return &self.list;
        }
        let found = block_of(row).checked_sub(self.first_block).and_then(|block| {
            let (start, end) = (self.starts.get(block as usize)?, self.starts.get(block as usize + 1)?);
            self.list.get(*start as usize..*end as usize)
        });
        found.unwrap_or(&[])
    }
    pub fn contains(&self, (row, generation): Posting) -> bool {
        let near = self.near(row);
        let rest = near.get(near.partition_point(|dead| dead.row < row)..).unwrap_or(&[]);
        rest.iter().take_while(|dead| dead.row == row).any(|dead| (dead.first..=dead.last).contains(&generation))
    }
    /// Each row with its dead generations.
    pub(crate) fn into_rows(self) -> impl Iterator<Item = (u64, Vec<(u32, u32)>)> {
        let mut list = self.list.into_iter().peekable();
        std::iter::from_fn(move || {
            let row = list.peek()?.row;
            Some((
                row,
                std::iter::from_fn(|| list.next_if(|dead| dead.row == row).map(|dead| (dead.first, dead.last)))
                    .collect(),
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn check(rows: &BTreeMap<u64, Vec<(u32, u32)>>) {
        let mut dead = DeadRows::default();
        rows.iter().for_each(|(row, generations)| dead.push(*row, generations));
        dead.finish();
        assert_eq!(dead.len(), rows.len());
        for row in rows.keys().flat_map(|row| {
            [row.saturating_sub(1 << 16), row.saturating_sub(1), *row, row + 1, row + (1 << 16), row + (1 << 30)]
        }) {
            for generation in 0..12 {
                let expected = rows
                    .get(&row)
                    .is_some_and(|all| all.iter().any(|(first, last)| (*first..=*last).contains(&generation)));
                assert_eq!(dead.contains((row, generation)), expected, "{row} {generation}");
            }
        }
        assert_eq!(dead.into_rows().collect::<BTreeMap<_, _>>(), *rows);
    }
    #[test]
    fn what_is_dead_is_found_and_nothing_else() {
        let generations =
            |row: u64| if row.is_multiple_of(3) { vec![(0, 4)] } else { vec![(1, 1), (3, row as u32 % 7 + 3)] };
        let of = |rows: &mut dyn Iterator<Item = u64>| check(&rows.map(|row| (row, generations(row))).collect());
        of(&mut std::iter::empty());
        of(&mut std::iter::once(7 << 16 | 3));
        // Rows side by side, in every third block, far apart.
        of(&mut (0..2000u64).map(|n| (100 + n / 20) << 16 | (n % 20 + 1)));
        of(&mut (0..2000u64).map(|n| (3 * n) << 16 | 1));
        of(&mut (1..1000u64).map(|n| (n * n) << 16 | n));
        of(&mut (0..4u64).map(|n| (n * 0x3fff_ffff) << 16));
    }
}
