//! Rows distributed over files by the hash of their keys.

use super::file::{SpillFile, SpillIo};
use super::hash::{ByteHasher, mixed};
use kilndb_base::Result;
use kilndb_types::Datum;

/// How many bits of a hash say which partition it is.
const BITS: u32 = 4;
/// As [`BITS`], where the budget has so many bytes that there is room for the buffers of more partitions.
const MANY_BITS: u32 = 6;
const MANY_PARTITIONS_BYTES: usize = 1 << 20;

pub struct SpillPartitions {
    /// As many as the budget has room for: all of the same level and budget have as many.
    files: Vec<SpillFile>,
    bits: u32,
    level: u32,
}

/// The partition that a key belongs to, so many bits. Levels are independent of each other, and of the order in hash tables.
fn number(key: &[u8], level: u32, bits: u32) -> usize {
    let h = mixed(ByteHasher::hash_of(key).wrapping_add(u64::from(level + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    (h >> (u64::BITS - bits)) as usize
}

impl SpillPartitions {
    pub fn new(level: u32, budget_bytes: usize) -> SpillPartitions {
        let bits = if budget_bytes < MANY_PARTITIONS_BYTES { BITS } else { MANY_BITS };
        let buffer = budget_bytes >> (bits + 2);
        SpillPartitions { files: (0..1 << bits).map(|_| SpillFile::new(buffer)).collect(), bits, level }
    }
    pub fn push(&mut self, key: &[u8], row: &[Datum], io: SpillIo<'_>) -> Result<()> {
        self.files[number(key, self.level, self.bits)].push(key, row, io)
    }
    pub fn push_record(&mut self, key: &[u8], record: &[u8], io: SpillIo<'_>) -> Result<()> {
        self.files[number(key, self.level, self.bits)].push_record(record, io)
    }
    /// Ends the writing; all partitions, in order.
    pub fn finish(mut self, io: SpillIo<'_>) -> Result<Vec<SpillFile>> {
        for f in &mut self.files {
            f.finish(io)?;
        }
        Ok(self.files)
    }
}
