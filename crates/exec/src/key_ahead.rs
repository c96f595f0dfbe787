//! The partition that a statement's parameter leads to is prefetched into the processor's caches before the statement
//! comes to it.
//!
//! Of thousands of partitions each is in no cache. When the parameter arrives it is known where the partition's slot
//! among those of its table is; when the statement starts, that slot says where the partition is. Both are waited for
//! only when the row is made.
//!
//! Invariants
//! 1. It is a guess, which nothing but speed depends on: the statement finds its partitions itself.
//! 2. Nothing is read through the address kept in the plan, so it may be of what is gone.

use super::opened_partitions::{SLOT_BYTES, opened};
use kilndb_base::sync::atomic::Ordering::Relaxed;
use kilndb_catalog::CatalogView;
use kilndb_catalog::partition::remainder;
use kilndb_plan::key_ahead::KeyAhead;
use kilndb_storage::ahead;
use kilndb_types::{Datum, partition_hash};

fn hash(key: &KeyAhead, params: &[Datum]) -> Option<u64> {
    let value = params.get(key.parameter)?;
    partition_hash::row_hash(std::iter::once((key.base_type, value))).ok()
}

/// Called when the parameters are known: prefetches the slot of the partition.
pub fn fetch_slot(key: &KeyAhead, params: &[Datum]) {
    let (slots, count) = (key.slots.load(Relaxed), key.count.load(Relaxed));
    if slots != 0
        && let Some(hash) = hash(key, params)
    {
        ahead::fetch(slots + remainder(hash, count.max(1)) * SLOT_BYTES);
    }
}

/// Called when the statement starts: prefetches what the slot leads to.
pub fn fetch(key: &KeyAhead, params: &[Datum], catalog: &dyn CatalogView) {
    let Some(opened) = opened(key.table, catalog) else { return };
    let Some((slots, count)) = opened.slots_by_remainder() else { return };
    // The slot is written only if it changes, because other processors read it.
    if key.slots.load(Relaxed) != slots {
        key.count.store(count, Relaxed);
        key.slots.store(slots, Relaxed);
    }
    if let Some(hash) = hash(key, params)
        && let Some(known) = opened.known(remainder(hash, count))
    {
        known.fetch_ahead(key.to_change);
    }
}
