//! Sorted keys that a helper merges while the index is built from those that it has merged already.
//!
//! Invariants
//! 1. At most [`BATCHES`] batches of keys wait for the builder; then the helper waits.
//! 2. A helper that fails, or goes, ends the keys with an error.
//!
//! Must not know: pages.

use super::build::ROWS_DONE;
use super::key_sort::{KeySorter, MergedKeys, SortedKeys};
use crate::client::ProgressSlot;
use kilndb_base::env::process_monotonic_nanos;
use kilndb_base::park::{Park, WakeHandle};
use kilndb_base::sync::{Arc, Mutex, MutexGuard};
use kilndb_base::{Error, Result, RowId, sqlstate};
use kilndb_exec::helpers::HelperPool;
use kilndb_storage::IndexEntries;
use std::collections::VecDeque;

/// Fewer keys are merged by who builds the index.
pub(super) const KEYS_AHEAD_MIN: u64 = 100_000;
const BATCHES: usize = 8;
const KEYS_PER_BATCH: usize = 4096;
/// Who waits looks around after so long at the latest.
const LOOK_AROUND_NANOS: u64 = 100_000_000;

#[derive(Default)]
struct KeyBatch {
    bytes: Vec<u8>,
    /// Where each key ends, its row, and "a key column is NULL".
    keys: Vec<(u32, RowId, bool)>,
}

#[derive(Default)]
struct KeyQueue {
    full: VecDeque<KeyBatch>,
    empty: Vec<KeyBatch>,
    /// The helper, as long as it waits for room.
    waiting: Option<WakeHandle>,
    outcome: Option<Result<()>>,
}

struct SharedQueue {
    queue: Mutex<KeyQueue>,
    builder: WakeHandle,
}

impl SharedQueue {
    fn lock(&self) -> MutexGuard<'_, KeyQueue> {
        self.queue.lock().unwrap_or_else(|e| e.into_inner())
    }
    /// A batch to be filled, once there is room for it.
    fn room(&self, park: &dyn Park) -> Result<KeyBatch> {
        loop {
            {
                let mut queue = self.lock();
                if queue.full.len() < BATCHES {
                    queue.waiting = None;
                    return Ok(queue.empty.pop().unwrap_or_default());
                }
                queue.waiting = Some(park.wake_handle());
            }
            park.park(Some(process_monotonic_nanos() + LOOK_AROUND_NANOS))?;
        }
    }
    fn put(&self, batch: KeyBatch) {
        self.lock().full.push_back(batch);
        self.builder.wake();
    }
    /// The next batch in exchange for one that has been read; None: there are no more.
    fn take(&self, read: KeyBatch, park: &dyn Park) -> Result<Option<KeyBatch>> {
        self.lock().empty.push(read);
        loop {
            {
                let mut queue = self.lock();
                if let Some(batch) = queue.full.pop_front() {
                    let waiting = queue.waiting.take();
                    drop(queue);
                    waiting.iter().for_each(|helper| helper.wake());
                    return Ok(Some(batch));
                }
                if let Some(outcome) = &queue.outcome {
                    return outcome.clone().map(|()| None);
                }
            }
            park.park(Some(process_monotonic_nanos() + LOOK_AROUND_NANOS))?;
        }
    }
}

/// Tells the builder how the helper has ended, even if it panics.
struct OutcomeGuard<'a>(&'a SharedQueue);

impl OutcomeGuard<'_> {
    fn end(&self, outcome: Result<()>) {
        self.0.lock().outcome.get_or_insert(outcome);
        self.0.builder.wake();
    }
}
impl Drop for OutcomeGuard<'_> {
    fn drop(&mut self) {
        self.end(Err(Error::internal("a helper that merges keys has gone")));
    }
}

fn merge(sorters: &mut [KeySorter], queue: &SharedQueue, park: &dyn Park) -> Result<()> {
    let mut merged = MergedKeys::new(sorters)?;
    loop {
        let mut batch = queue.room(park)?;
        batch.bytes.clear();
        batch.keys.clear();
        while batch.keys.len() < KEYS_PER_BATCH
            && let Some((key, rid, has_null)) = merged.next_key()?
        {
            batch.bytes.extend_from_slice(key);
            batch.keys.push((batch.bytes.len() as u32, rid, has_null));
        }
        if batch.keys.is_empty() {
            return Ok(());
        }
        queue.put(batch);
        park.checkpoint()?;
    }
}

/// The keys that a helper merges.
struct KeysAhead<'a> {
    queue: &'a SharedQueue,
    park: &'a dyn Park,
    batch: KeyBatch,
    next: usize,
    /// Where the next key begins.
    at: usize,
}

impl SortedKeys for KeysAhead<'_> {
    #[inline]
    fn next_key(&mut self) -> Result<Option<(&[u8], RowId, bool)>> {
        if self.next == self.batch.keys.len() {
            let read = std::mem::take(&mut self.batch);
            // Whoever asks once more after the last key finds no batch begun.
            (self.next, self.at) = (0, 0);
            let Some(batch) = self.queue.take(read, self.park)? else { return Ok(None) };
            self.batch = batch;
        }
        let (end, rid, has_null) = self.batch.keys[self.next];
        let start = std::mem::replace(&mut self.at, end as usize);
        self.next += 1;
        Ok(Some((&self.batch.bytes[start..end as usize], rid, has_null)))
    }
}

/// Gives `build` the keys of the sorters in order. With a helper, if one is wanted and free, they are merged ahead.
pub(super) fn with_merged<T>(
    sorters: Vec<KeySorter>,
    (pool, helpers): (&Arc<HelperPool>, usize),
    park: &dyn Park,
    build: impl FnOnce(&mut dyn SortedKeys) -> Result<T>,
) -> Result<T> {
    let sorters = Arc::new(Mutex::new(sorters));
    let queue = Arc::new(SharedQueue { queue: Mutex::default(), builder: park.wake_handle() });
    let team = {
        let (sorters, queue) = (sorters.clone(), queue.clone());
        pool.start(helpers.min(1), park.wake_handle(), move |helper| {
            let guard = OutcomeGuard(&queue);
            let mut sorters = sorters.lock().unwrap_or_else(|e| e.into_inner());
            guard.end(merge(&mut sorters, &queue, helper));
            Ok(())
        })
    };
    if team.is_none() {
        let mut sorters = sorters.lock().unwrap_or_else(|e| e.into_inner());
        return build(&mut MergedKeys::new(&mut sorters)?);
    }
    build(&mut KeysAhead { queue: &queue, park, batch: KeyBatch::default(), next: 0, at: 0 })
}

/// The entries of an index that is being built.
pub(super) struct BuiltEntries<'a> {
    pub keys: &'a mut dyn SortedKeys,
    pub progress: &'a ProgressSlot,
    pub is_unique: bool,
    pub loaded: i64,
    pub previous: Vec<u8>,
    /// The row whose key another one has, in a unique index.
    pub duplicate: Option<RowId>,
}

impl IndexEntries for BuiltEntries<'_> {
    fn next_entry(&mut self) -> Result<Option<(&[u8], RowId)>> {
        let Some((key, rid, has_null)) = self.keys.next_key()? else { return Ok(None) };
        self.loaded += 1;
        self.progress.set(ROWS_DONE, self.loaded);
        if self.is_unique && !has_null {
            if self.loaded > 1 && self.previous == key {
                self.duplicate = Some(rid);
                return Err(Error::new(sqlstate::UNIQUE_VIOLATION, "duplicate key"));
            }
            self.previous.clear();
            self.previous.extend_from_slice(key);
        }
        Ok(Some((key, rid)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kilndb_base::env::OsEnv;
    use kilndb_base::park::ThreadPark;
    use std::path::Path;

    fn sorters(keys: u64) -> Vec<KeySorter> {
        let mut sorters: Vec<KeySorter> =
            (0..2).map(|_| KeySorter::new(Arc::new(OsEnv), Path::new("nowhere"), 64 << 20)).collect();
        for n in 0..keys {
            let key = (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40).to_be_bytes();
            sorters[(n % 2) as usize].push(&key, RowId::from_u64(n << 16 | 1), n % 5 == 0).unwrap();
        }
        sorters
    }
    fn read(keys: &mut dyn SortedKeys) -> Result<Vec<(Vec<u8>, RowId, bool)>> {
        let mut all = Vec::new();
        while let Some((key, rid, has_null)) = keys.next_key()? {
            all.push((key.to_vec(), rid, has_null));
        }
        assert!(keys.next_key()?.is_none(), "a key behind the last one");
        Ok(all)
    }

    #[test]
    fn a_helper_merges_as_the_builder_would() {
        let (pool, park) = (Arc::new(HelperPool::new(Arc::new(OsEnv), 2)), ThreadPark::new());
        let merged = |keys, helpers| with_merged(sorters(keys), (&pool, helpers), &park, read).unwrap();
        for keys in [0, 1, 4095, 4096, 4097, 100_000] {
            let alone = merged(keys, 0);
            assert!(alone.len() as u64 == keys && alone.is_sorted_by_key(|(key, rid, _)| (key.clone(), rid.to_u64())));
            // The helper of the round before may not have gone yet.
            while pool.start(1, park.wake_handle(), |_| Ok(())).is_none() {
                std::thread::yield_now();
            }
            assert!(merged(keys, 1) == alone, "{keys} keys");
        }
    }

    #[test]
    fn whoever_reads_no_further_stops_the_helper() {
        let (pool, park) = (Arc::new(HelperPool::new(Arc::new(OsEnv), 2)), ThreadPark::new());
        let first = with_merged(sorters(200_000), (&pool, 1), &park, |keys| {
            keys.next_key()?;
            Err::<(), _>(Error::internal("enough"))
        });
        assert_eq!(first.unwrap_err().message(), "enough");
        let until = process_monotonic_nanos() + 20_000_000_000;
        while pool.start(1, park.wake_handle(), |_| Ok(())).is_none() {
            assert!(process_monotonic_nanos() < until, "the helper goes on");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_helper_that_has_gone_is_an_error() {
        let park = ThreadPark::new();
        let queue = SharedQueue { queue: Mutex::default(), builder: park.wake_handle() };
        drop(OutcomeGuard(&queue));
        let mut keys = KeysAhead { queue: &queue, park: &park, batch: KeyBatch::default(), next: 0, at: 0 };
        assert!(keys.next_key().is_err());
    }
}
