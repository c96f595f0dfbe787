//! Rows distributed over files by the hash of their keys.

use super::file::{SpillFile, SpillIo};
use super::hash::ByteHasher;
use kilndb_base::Result;
use kilndb_types::Datum;
use std::hash::Hasher;

const PARTITIONS: usize = 16;

pub struct SpillPartitions {
    files: Vec<SpillFile>,
    level: u32,
}

/// The partition that a key belongs to. Levels are independent of each other, and of the order in hash tables.
fn number(key: &[u8], level: u32) -> usize {
    let mut hasher = ByteHasher::default();
    hasher.write(key);
    let mut h = hasher.finish().wrapping_add(u64::from(level + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    h = (h ^ (h >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    h = (h ^ (h >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (h >> 60) as usize % PARTITIONS
}

impl SpillPartitions {
    pub fn new(level: u32, budget_bytes: usize) -> SpillPartitions {
        let buffer = budget_bytes / (4 * PARTITIONS);
        SpillPartitions { files: (0..PARTITIONS).map(|_| SpillFile::new(buffer)).collect(), level }
    }
    pub fn push(&mut self, key: &[u8], row: &[Datum], io: SpillIo<'_>) -> Result<()> {
        self.files[number(key, self.level)].push(key, row, io)
    }
    pub fn push_record(&mut self, key: &[u8], record: &[u8], io: SpillIo<'_>) -> Result<()> {
        self.files[number(key, self.level)].push_record(record, io)
    }
    /// Ends the writing; all partitions, in order.
    pub fn finish(mut self, io: SpillIo<'_>) -> Result<Vec<SpillFile>> {
        for f in &mut self.files {
            f.finish(io)?;
        }
        Ok(self.files)
    }
}
