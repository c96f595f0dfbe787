//! A random sample of a table's rows: of up to as many random blocks as rows are wanted, each row of them with equal
//! chance.
//!
//! Invariants
//! 1. A snapshot serves for a few blocks, unless the transaction keeps its own: old versions do not pile up behind a
//!    long sample. Rows keep their places, so none comes twice.
//! 2. Memory holds the sample and one block, whatever the table's size. Every block ends with a checkpoint.
//! 3. Rows come in their physical order, which the correlation is measured against.

use crate::client::ProgressSlot;
use kilndb_base::park::Park;
use kilndb_base::{Result, RowId};
use kilndb_storage::{Relation, RowBatch, Snapshot};

pub(super) struct Sample {
    /// As they are stored.
    pub rows: Vec<Box<[u8]>>,
    /// Where they are, in the same order.
    pub places: Vec<RowId>,
    /// Rows of the table: counted if all blocks were read, else estimated.
    pub total_rows: f64,
    pub blocks: u32,
    pub blocks_read: u32,
    /// Rows in the blocks that were read.
    pub rows_seen: u64,
}

/// A small generator (splitmix64): statistics need no better one.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    /// One of 0 … bound − 1.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// Blocks that are read with one snapshot.
const BLOCKS_PER_SNAPSHOT: u32 = 64;

/// What a sample is taken of.
pub(super) struct SampledHeap<'a> {
    pub heap: &'a Relation,
    pub wanted: usize,
    pub seed: u64,
}

/// `snapshot` gives the newest one; the one before is not used any more.
pub(super) fn take(
    sampled: &SampledHeap<'_>,
    snapshot: &mut dyn FnMut() -> Result<Snapshot>,
    park: &dyn Park,
    progress: &ProgressSlot,
) -> Result<Sample> {
    let SampledHeap { heap, wanted, seed } = *sampled;
    let blocks = heap.pages();
    let mut current = None;
    let mut random = Random(seed);
    let mut blocks_wanted = u64::from(blocks).min(wanted as u64);
    progress.set(super::BLOCKS_TOTAL, blocks_wanted as i64);
    let mut sample =
        Sample { rows: Vec::new(), places: Vec::new(), total_rows: 0.0, blocks, blocks_read: 0, rows_seen: 0 };
    let mut chosen: Vec<(RowId, Box<[u8]>)> = Vec::new();
    let mut batch = RowBatch::default();
    for block in 0..blocks {
        // So that each set of blocks of that size is as likely as any other.
        if random.below(u64::from(blocks - block)) >= blocks_wanted {
            continue;
        }
        blocks_wanted -= 1;
        sample.blocks_read += 1;
        progress.set(super::BLOCKS_DONE, i64::from(sample.blocks_read));
        batch.clear();
        if sample.blocks_read % BLOCKS_PER_SNAPSHOT == 1 {
            current = None;
        }
        let visible = match &current {
            Some(visible) => visible,
            None => current.insert(snapshot()?),
        };
        heap.scan_block(block, visible, &mut batch)?;
        for (rid, start, end) in &batch.rows {
            let row = || Box::from(&batch.bytes[*start as usize..*end as usize]);
            sample.rows_seen += 1;
            if chosen.len() < wanted {
                chosen.push((*rid, row()));
                continue;
            }
            // The n-th row takes the place of one of the sample with probability wanted / n.
            let place = random.below(sample.rows_seen) as usize;
            if place < wanted {
                chosen[place] = (*rid, row());
            }
        }
        park.checkpoint()?;
    }
    sample.total_rows = match sample.blocks_read {
        read if read == blocks => sample.rows_seen as f64,
        0 => 0.0,
        read => (sample.rows_seen as f64 / f64::from(read) * f64::from(blocks) + 0.5).floor(),
    };
    chosen.sort_unstable_by_key(|(rid, _)| *rid);
    (sample.places, sample.rows) = chosen.into_iter().unzip();
    Ok(sample)
}
