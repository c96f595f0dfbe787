//! A set of the rows of a heap that have changed since somebody has begun to watch it ([`crate::heap::watch`]).
//!
//! Must not know: who watches, what a change is.

use kilndb_base::RowId;
use kilndb_base::hash::HashMap;
use kilndb_base::sync::Mutex;

/// Sets of slots are kept apart by their blocks' numbers, so that writers of different blocks seldom wait for each other.
const SHARDS: usize = 64;

/// Slots of a block, a bit for each.
type SlotBits = Vec<u64>;

/// The rows that have changed since they were last taken.
pub(crate) struct ChangedRows {
    shards: [Mutex<HashMap<u32, SlotBits>>; SHARDS],
}

impl Default for ChangedRows {
    fn default() -> ChangedRows {
        ChangedRows { shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl ChangedRows {
    pub fn note(&self, block: u32, slots: impl Iterator<Item = usize>) {
        let mut shard = crate::lock(&self.shards[block as usize % SHARDS]);
        let bits = shard.entry(block).or_default();
        for slot in slots {
            if slot / 64 >= bits.len() {
                bits.resize(slot / 64 + 1, 0);
            }
            bits[slot / 64] |= 1 << (slot % 64);
        }
    }

    /// All rows noted, in the order of their places. None is noted afterwards.
    pub fn take(&self) -> Vec<RowId> {
        let mut rows = Vec::new();
        for shard in &self.shards {
            for (block, bits) in std::mem::take(&mut *crate::lock(shard)) {
                let set = (0..bits.len() * 64).filter(|slot| bits[slot / 64] & 1 << (slot % 64) != 0);
                rows.extend(set.map(|slot| RowId { block, slot: slot as u16 }));
            }
        }
        rows.sort_unstable();
        rows
    }

    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| crate::lock(shard).is_empty())
    }
}
