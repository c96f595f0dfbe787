//! The shared row locks that are held, block by block. A transaction that shares all rows of a table costs 16 bytes a
//! row, and the owners that share one row are found without a look at locks of other blocks.
//!
//! Invariants
//! 1. The list of a block is never empty and is in the order of slots.
//!
//! Must not know: who waits for a row.

use crate::api::RowLockMode;
use kilndb_base::hash::HashMap;

/// A relation and one of its blocks.
pub(crate) type BlockKey = (u32, u32);

struct RowShare {
    owner: u64,
    slot: u16,
    mode: RowLockMode,
}
const _: () = assert!(size_of::<RowShare>() == 16);

/// An entry of the list of locks that a transaction has to give back: shared locks of one block in one mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SharedLock {
    pub block: BlockKey,
    pub mode: RowLockMode,
    /// The one row; None: all of the block's that it holds.
    pub slot: Option<u16>,
}

#[derive(Default)]
pub(crate) struct SharedRows(HashMap<BlockKey, Vec<RowShare>>);

impl SharedRows {
    /// The number of blocks with shared rows.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// The owners that share the row, with their modes.
    pub fn of(&self, block: BlockKey, slot: u16) -> impl Iterator<Item = (u64, RowLockMode)> {
        let all = self.0.get(&block).map_or(&[][..], Vec::as_slice);
        let first = all.partition_point(|share| share.slot < slot);
        all[first..].iter().take_while(move |share| share.slot == slot).map(|share| (share.owner, share.mode))
    }
    /// Adds a lock. True if it is the owner's first one in that block and mode; None: the owner has this one already.
    pub fn add(&mut self, block: BlockKey, slot: u16, owner: u64, mode: RowLockMode) -> Option<bool> {
        if self.of(block, slot).any(|share| share == (owner, mode)) {
            return None;
        }
        let all = self.0.entry(block).or_default();
        let is_first = !all.iter().any(|share| (share.owner, share.mode) == (owner, mode));
        let at = all.partition_point(|share| share.slot <= slot);
        all.insert(at, RowShare { owner, slot, mode });
        Some(is_first)
    }
    /// Returns the slots that are not shared by the owner in this mode any more.
    pub fn remove(&mut self, lock: &SharedLock, owner: u64) -> Vec<u16> {
        let Some(all) = self.0.get_mut(&lock.block) else { return Vec::new() };
        let mut freed = Vec::new();
        all.retain(|share| {
            let goes = (share.owner, share.mode) == (owner, lock.mode) && lock.slot.is_none_or(|s| s == share.slot);
            freed.extend(goes.then_some(share.slot));
            !goes
        });
        if all.is_empty() {
            self.0.remove(&lock.block);
        }
        freed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RowLockMode::{KeyShare, Share};

    #[test]
    fn shares_are_found_by_row_and_given_back_by_block() {
        let mut shares = SharedRows::default();
        let block = (7, 3);
        assert_eq!(shares.add(block, 5, 1, KeyShare), Some(true));
        assert_eq!(shares.add(block, 2, 1, KeyShare), Some(false));
        assert_eq!(shares.add(block, 5, 1, KeyShare), None);
        assert_eq!(shares.add(block, 5, 1, Share), Some(true));
        assert_eq!(shares.add(block, 5, 2, KeyShare), Some(true));
        assert_eq!(shares.of(block, 5).collect::<Vec<_>>(), [(1, KeyShare), (1, Share), (2, KeyShare)]);
        assert_eq!(shares.of(block, 2).collect::<Vec<_>>(), [(1, KeyShare)]);
        assert_eq!(shares.of((7, 4), 5).count(), 0);
        assert_eq!(shares.remove(&SharedLock { block, mode: KeyShare, slot: None }, 1), [2, 5]);
        assert_eq!(shares.remove(&SharedLock { block, mode: Share, slot: Some(5) }, 1), [5]);
        assert_eq!(shares.remove(&SharedLock { block, mode: Share, slot: Some(5) }, 1), [0; 0]);
        assert_eq!(shares.of(block, 5).collect::<Vec<_>>(), [(2, KeyShare)]);
        assert_eq!(shares.remove(&SharedLock { block, mode: KeyShare, slot: None }, 2), [5]);
        assert_eq!(shares.len(), 0);
    }
}
