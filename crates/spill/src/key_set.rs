//! Sets of keys: in memory as long as they fit, the others in runs on disk that are looked up.
//!
//! A run has its keys in the order of their hashes, and for each block of it the first hash and the place. A look-up asks each
//! run's filter and reads one block of each run that may have the key (more only where a hash comes again and again, or a key
//! is longer than a block). When a run is not larger than twice the one that follows, both become one: so there are few of
//! them, and each key is written few times.
//!
//! Invariants
//! 1. A key is in memory or in one run, once.
//! 2. The hashes of a run's records do not descend.
//!
//! A run's record: the hash as eight bytes, big-endian, then the key, as the key of a record of [`super::file`].
//!
//! Must not know: what keys are made of.

use super::file::{SpillCursor, SpillFile, SpillIo, append_record};
use super::hash::ByteHasher;
use super::key_filter::KeyFilter;
use kilndb_base::Result;
use kilndb_base::hash::{HashSet, HashSetExt};

/// The bytes of a run that a look-up reads at a time.
const BLOCK_BYTES: usize = 1024;
/// The bytes that a run is written in, and read in from its begin to its end.
const SCAN_BYTES: usize = 16 * 1024;
const HASH_BYTES: usize = 8;
/// What a key in memory takes besides its bytes: its vector, its place in the table, the allocation.
const KEY_OVERHEAD_BYTES: usize = 56;
/// Keys are dealt out by the first bits of their hashes before they are sorted, so that others get their turn in between.
const BUCKET_BITS: u32 = 8;
const KEYS_PER_CHECKPOINT: usize = 16 * 1024;
/// The least memory that is filled before a run is written.
const BUDGET_BYTES_MIN: usize = 16 * 1024;

pub struct KeySet {
    memory: HashSet<Vec<u8>>,
    used_bytes: usize,
    budget_bytes: usize,
    /// The older ones first, each larger than twice the next.
    runs: Vec<KeyRun>,
    /// Of a look-up.
    cursor: SpillCursor,
}

/// Keys in a file, in the order of their hashes.
struct KeyRun {
    file: SpillFile,
    /// Of each block the hash of its first record, and where that begins.
    blocks: Vec<(u64, u64)>,
    filter: KeyFilter,
}

/// A record's hash and key.
fn parts(record_key: &[u8]) -> (u64, &[u8]) {
    match record_key.split_first_chunk::<HASH_BYTES>() {
        Some((hash, key)) => (u64::from_be_bytes(*hash), key),
        None => (0, &[]),
    }
}

impl KeyRun {
    /// A run that so many keys will be added to.
    fn new(keys: usize, filter_limit_bytes: usize) -> KeyRun {
        let filter = KeyFilter::new(keys, filter_limit_bytes);
        KeyRun { file: SpillFile::new(SCAN_BYTES), blocks: Vec::new(), filter }
    }
    /// Adds a record, whose hash is not below the last one's.
    fn push(&mut self, hash: u64, record: &[u8], io: SpillIo<'_>) -> Result<()> {
        let at = self.file.bytes();
        if self.blocks.last().is_none_or(|(_, begin)| at >= begin + BLOCK_BYTES as u64) {
            self.blocks.push((hash, at));
        }
        self.filter.add(hash);
        self.file.push_record(record, io)
    }
    fn contains(&self, hash: u64, key: &[u8], cursor: &mut SpillCursor, io: SpillIo<'_>) -> Result<bool> {
        if !self.filter.may_contain(hash) {
            return Ok(false);
        }
        // Records of this hash may begin in the block before the first that begins with it.
        let behind = self.blocks.partition_point(|(first, _)| *first < hash);
        let Some((first, begin)) = self.blocks.get(behind.saturating_sub(1)) else { return Ok(false) };
        if *first > hash {
            return Ok(false);
        }
        cursor.seek(*begin);
        while cursor.advance(&self.file, io)? {
            let (of_record, found) = parts(cursor.key());
            if of_record > hash {
                break;
            }
            if of_record == hash && found == key {
                return Ok(true);
            }
        }
        Ok(false)
    }
    /// Both runs as one.
    fn merged(self, other: KeyRun, filter_limit_bytes: usize, io: SpillIo<'_>) -> Result<KeyRun> {
        let mut all = KeyRun::new((self.file.records + other.file.records) as usize, filter_limit_bytes);
        let mut sides = [(self.file, SpillCursor::new(SCAN_BYTES)), (other.file, SpillCursor::new(SCAN_BYTES))];
        let mut heads = [None, None];
        for ((file, cursor), head) in sides.iter_mut().zip(&mut heads) {
            *head = cursor.advance(file, io)?.then(|| parts(cursor.key()).0);
        }
        while let Some(next) = match heads {
            [Some(l), Some(r)] => Some(usize::from(r < l)),
            [Some(_), None] => Some(0),
            [None, Some(_)] => Some(1),
            [None, None] => None,
        } {
            let (file, cursor) = &mut sides[next];
            all.push(heads[next].unwrap_or(0), cursor.record(), io)?;
            heads[next] = cursor.advance(file, io)?.then(|| parts(cursor.key()).0);
        }
        all.file.finish(io)?;
        Ok(all)
    }
}

impl KeySet {
    pub fn new(budget_bytes: usize) -> KeySet {
        KeySet {
            memory: HashSet::new(),
            used_bytes: 0,
            budget_bytes: budget_bytes.max(BUDGET_BYTES_MIN),
            runs: Vec::new(),
            cursor: SpillCursor::new(BLOCK_BYTES),
        }
    }
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty() && self.runs.is_empty()
    }
    /// Adds a key. False: it was there.
    pub fn insert(&mut self, key: &[u8], io: SpillIo<'_>) -> Result<bool> {
        if self.contains(key, io)? {
            return Ok(false);
        }
        self.memory.insert(key.to_vec());
        self.used_bytes += key.len() + KEY_OVERHEAD_BYTES;
        if self.used_bytes > self.budget_bytes {
            self.write_run(io)?;
        }
        Ok(true)
    }
    pub fn contains(&mut self, key: &[u8], io: SpillIo<'_>) -> Result<bool> {
        if self.memory.contains(key) {
            return Ok(true);
        }
        if self.runs.is_empty() {
            return Ok(false);
        }
        let hash = ByteHasher::hash_of(key);
        for run in &self.runs {
            if run.contains(hash, key, &mut self.cursor, io)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
    /// Is there a key for which this is so? All are looked at until there is one.
    pub fn any(&mut self, mut is_so: impl FnMut(&[u8]) -> bool, io: SpillIo<'_>) -> Result<bool> {
        if self.memory.iter().any(|key| is_so(key)) {
            return Ok(true);
        }
        for run in &self.runs {
            let mut cursor = SpillCursor::new(SCAN_BYTES);
            while cursor.advance(&run.file, io)? {
                if is_so(parts(cursor.key()).1) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Moves the keys in memory to a run.
    fn write_run(&mut self, io: SpillIo<'_>) -> Result<()> {
        // Each run is larger than twice the next: together the filters take at most as much as the keys in memory.
        let filter_limit_bytes = self.budget_bytes / 2;
        let mut run = KeyRun::new(self.memory.len(), filter_limit_bytes);
        let mut buckets: Vec<Vec<(u64, Vec<u8>)>> = (0..1 << BUCKET_BITS).map(|_| Vec::new()).collect();
        for (n, key) in self.memory.drain().enumerate() {
            if n % KEYS_PER_CHECKPOINT == 0 {
                io.park.checkpoint()?;
            }
            let hash = ByteHasher::hash_of(&key);
            buckets[(hash >> (u64::BITS - BUCKET_BITS)) as usize].push((hash, key));
        }
        self.used_bytes = 0;
        let (mut record_key, mut record) = (Vec::new(), Vec::new());
        for mut bucket in buckets {
            io.park.checkpoint()?;
            bucket.sort_unstable();
            for (hash, key) in bucket {
                record_key.clear();
                record_key.extend_from_slice(&hash.to_be_bytes());
                record_key.extend_from_slice(&key);
                record.clear();
                append_record(&mut record, &record_key, (&[], &[]))?;
                run.push(hash, &record, io)?;
            }
        }
        run.file.finish(io)?;
        while let Some(before) = self.runs.pop_if(|before| before.file.records <= 2 * run.file.records) {
            run = before.merged(run, filter_limit_bytes, io)?;
        }
        self.runs.push(run);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::TempSpace;
    use super::*;
    use kilndb_base::env::OsEnv;
    use kilndb_base::park::ThreadPark;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    struct Folder(std::path::PathBuf);
    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Runs a test with a folder of temporary files, which is empty in the end.
    fn with_io(name: &str, test: impl FnOnce(SpillIo<'_>)) {
        let folder = Folder(std::env::temp_dir().join(format!("kilndb-key-set-{name}-{}", std::process::id())));
        let space = TempSpace::new(Arc::new(OsEnv), &folder.0);
        let park = ThreadPark::new();
        test(SpillIo { space: &space, park: &park });
        assert_eq!(std::fs::read_dir(folder.0.join("tmp")).unwrap().count(), 0);
    }

    fn key(n: u64) -> Vec<u8> {
        let mut key = n.to_be_bytes().to_vec();
        // Some are longer than a block.
        let length = if n.is_multiple_of(501) { 9000 } else { (n % 40) as usize };
        key.resize(8 + length, n as u8);
        key
    }

    #[test]
    fn a_set_on_disk_is_a_set() {
        with_io("set", |io| {
            let (mut set, mut model) = (KeySet::new(0), BTreeSet::new());
            let mut x = 7u64;
            for _ in 0..30_000 {
                x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let n = (x >> 33) % 9000;
                assert_eq!(set.insert(&key(n), io).unwrap(), model.insert(n), "{n}");
            }
            assert!(set.runs.len() > 1 && set.runs.len() < 12, "{} runs", set.runs.len());
            for n in 0..9100 {
                assert_eq!(set.contains(&key(n), io).unwrap(), model.contains(&n), "{n}");
            }
            let mut found = BTreeSet::new();
            let look = |key: &[u8]| {
                assert!(found.insert(u64::from_be_bytes(*key.first_chunk().unwrap())), "a key is there twice");
                false
            };
            assert!(!set.any(look, io).unwrap());
            assert_eq!(found, model);
            let last = *model.last().unwrap();
            assert!(set.any(|key| key.starts_with(&last.to_be_bytes()), io).unwrap());
        });
    }

    #[test]
    fn keys_of_one_hash_are_told_apart() {
        // The hash takes keys of eight bytes, then multiplies: two words that cancel each other out give one hash for many keys.
        const K: u64 = 0x9e37_79b9_7f4a_7c15;
        let colliding = |n: u64| {
            let after_first = n.wrapping_mul(K);
            let mut key = n.to_le_bytes().to_vec();
            key.extend_from_slice(&after_first.rotate_left(5).to_le_bytes());
            key
        };
        assert_eq!(ByteHasher::hash_of(&colliding(1)), ByteHasher::hash_of(&colliding(2)));
        with_io("hash", |io| {
            let mut set = KeySet::new(0);
            for n in 0..3000 {
                assert!(set.insert(&colliding(n), io).unwrap());
            }
            for n in (0..6000).step_by(37) {
                assert_eq!(set.contains(&colliding(n), io).unwrap(), n < 3000, "{n}");
            }
        });
    }
}
