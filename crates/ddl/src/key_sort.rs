//! Sorting index keys that may not fit in memory: sorted runs in temporary files, then one merge.
//!
//! Invariants
//! 1. Memory stays within the budget given, whatever the number of keys.
//! 2. The order is (key bytes, row id); equal keys come one after the other.
//! 3. Temporary files are gone when the sorter is.
//!
//! 4. Keys in memory are all packed into numbers ([`ShortKey`]), or none of them.
//!
//! Format of an entry that is not packed, in memory and in a run, little-endian: u16 (bits 0–14 key length, bit 15: a key column is
//! NULL), u64 row id, key bytes.

use super::short_key::ShortKey;
use kilndb_base::bytes::first_word;
use kilndb_base::env::{Env, File, OpenMode};
use kilndb_base::loser_tree::LoserTree;
use kilndb_base::{Error, Result, RowId, sqlstate, work};
use kilndb_storage::IndexEntries;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longest key, as storage's trees take them.
const MAX_KEY_BYTES: usize = 1990;
const NULL_FLAG: u16 = 0x8000;
const HEAD_BYTES: usize = 10;
/// So many keys are sorted before anybody notices.
const SORTED_HERE: usize = 10_000;
/// Read from a run at once.
const READ_BYTES: usize = 128 * 1024;

struct Run {
    path: PathBuf,
    file: Arc<dyn File>,
    bytes: u64,
}

impl Run {
    /// Writes what has come together, if that is enough for a write.
    #[inline]
    fn write_full(&mut self, out: &mut Vec<u8>) -> Result<()> {
        if out.len() < READ_BYTES { Ok(()) } else { self.write(out) }
    }
    fn write(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.file.write_at(out, self.bytes)?;
        self.bytes += out.len() as u64;
        out.clear();
        Ok(())
    }
}

pub(super) struct KeySorter {
    env: Arc<dyn Env>,
    directory: PathBuf,
    budget_bytes: usize,
    short: Vec<ShortKey>,
    bytes: Vec<u8>,
    entries: Vec<SortEntry>,
    last_rid: u64,
    /// Of two keys the one that was pushed later has no lower row id, as when a heap is read from its start.
    is_in_rid_order: bool,
    /// The bytes of the longest key.
    longest: usize,
    runs: Vec<Run>,
    pub count: u64,
}

impl Drop for KeySorter {
    fn drop(&mut self) {
        for run in &self.runs {
            // A file that stays behind is removed at the next start.
            let _ = self.env.remove_file(&run.path);
        }
    }
}

/// A key in memory, with so much of it that most comparisons need not look for the rest. The fields stand in the order
/// in which they decide.
#[derive(Clone, Copy)]
pub(super) struct SortEntry {
    /// The first eight bytes of the key, filled up with zeros.
    first: u64,
    /// The next three bytes, and the length of the key, or 12 if it is longer: of two keys that differ in nothing but
    /// what was filled up the shorter one comes first.
    next: u32,
    /// Where the key stands in the sorter's bytes.
    at: u32,
}

impl SortEntry {
    const PREFIX_BYTES: usize = 11;

    #[inline]
    fn new(key: &[u8], at: u32) -> SortEntry {
        let length = key.len().min(SortEntry::PREFIX_BYTES + 1) as u32;
        let next = (first_word(key.get(8..).unwrap_or(&[])) >> 32) as u32;
        SortEntry { first: first_word(key), next: next & !0xff | length, at }
    }
    /// All fields in one: comparing these has no branches.
    #[inline]
    fn number(self) -> u128 {
        u128::from(self.first) << 64 | u128::from(self.next) << 32 | u128::from(self.at)
    }
    /// Whether the entry has all of the key: others with the same prefix have the same key.
    fn is_whole(self) -> bool {
        (self.next & 0xff) as usize <= SortEntry::PREFIX_BYTES
    }
}

/// By key, then by row id.
#[inline(never)]
fn compare_at(bytes: &[u8], a: u32, b: u32) -> std::cmp::Ordering {
    let (a, b) = (key_at(bytes, a as usize), key_at(bytes, b as usize));
    (a.0, a.1).cmp(&(b.0, b.1))
}

fn key_at(bytes: &[u8], at: usize) -> (&[u8], u64, bool) {
    let head = u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let mut rid = [0; 8];
    rid.copy_from_slice(&bytes[at + 2..at + HEAD_BYTES]);
    let length = (head & !NULL_FLAG) as usize;
    (&bytes[at + HEAD_BYTES..at + HEAD_BYTES + length], u64::from_le_bytes(rid), head & NULL_FLAG != 0)
}

impl KeySorter {
    pub fn new(env: Arc<dyn Env>, data_dir: &Path, budget_bytes: usize) -> KeySorter {
        KeySorter {
            env,
            directory: data_dir.join("tmp"),
            budget_bytes: budget_bytes.clamp(1 << 20, 1 << 30),
            short: Vec::new(),
            bytes: Vec::new(),
            entries: Vec::new(),
            last_rid: 0,
            is_in_rid_order: true,
            longest: 0,
            runs: Vec::new(),
            count: 0,
        }
    }

    pub fn push(&mut self, key: &[u8], rid: RowId, has_null: bool) -> Result<()> {
        if key.len() > MAX_KEY_BYTES {
            return Err(Error::new(
                sqlstate::PROGRAM_LIMIT_EXCEEDED,
                format!("index row size {} exceeds btree maximum, {MAX_KEY_BYTES}", key.len()),
            ));
        }
        let short_bytes = self.short.len() * size_of::<ShortKey>();
        if short_bytes + self.bytes.len() + self.entries.len() * size_of::<SortEntry>() >= self.budget_bytes {
            self.write_run()?;
        }
        self.count += 1;
        if self.entries.is_empty() {
            if let Some(short) = ShortKey::new(key, rid.to_u64(), has_null) {
                self.short.push(short);
                return Ok(());
            }
            self.unpack();
        }
        self.add_long(key, rid, has_null);
        Ok(())
    }

    /// A key has come that cannot be packed.
    #[cold]
    fn unpack(&mut self) {
        for short in std::mem::take(&mut self.short) {
            let rid = RowId::from_u64(short.rid());
            self.add_long(&short.bytes()[..short.length()], rid, short.has_null());
        }
    }

    fn add_long(&mut self, key: &[u8], rid: RowId, has_null: bool) {
        self.entries.push(SortEntry::new(key, self.bytes.len() as u32));
        self.is_in_rid_order &= self.last_rid <= rid.to_u64();
        self.last_rid = rid.to_u64();
        self.longest = self.longest.max(key.len());
        let head = key.len() as u16 | if has_null { NULL_FLAG } else { 0 };
        self.bytes.extend_from_slice(&head.to_le_bytes());
        self.bytes.extend_from_slice(&rid.to_u64().to_le_bytes());
        self.bytes.extend_from_slice(key);
    }

    /// Sorting cannot give way in between, so more than a few keys are sorted where they take nobody's turn.
    fn sort(&mut self) -> Result<()> {
        if self.entries.len() + self.short.len() <= SORTED_HERE {
            self.sort_entries();
            return Ok(());
        }
        work::apart(|| self.sort_entries())
    }

    fn sort_entries(&mut self) {
        self.short.sort_unstable();
        let (bytes, in_order) = (&self.bytes, self.is_in_rid_order);
        if in_order && self.longest <= SortEntry::PREFIX_BYTES {
            self.entries.sort_unstable_by_key(|entry| entry.number());
            return;
        }
        self.entries.sort_unstable_by(|a, b| {
            (a.first, a.next).cmp(&(b.first, b.next)).then_with(|| match in_order && a.is_whole() {
                true => a.at.cmp(&b.at),
                false => compare_at(bytes, a.at, b.at),
            })
        });
    }

    fn write_run(&mut self) -> Result<()> {
        self.sort()?;
        self.env.create_dir_all(&self.directory)?;
        let path = self.directory.join(format!("sort.{:016x}", self.env.random_u64()));
        let file = self.env.open(&path, OpenMode::Truncate)?;
        self.runs.push(Run { path, file, bytes: 0 });
        let Some(run) = self.runs.last_mut() else { return Ok(()) };
        let mut out = Vec::with_capacity(READ_BYTES * 2);
        for short in &self.short {
            let head = short.length() as u16 | if short.has_null() { NULL_FLAG } else { 0 };
            out.extend_from_slice(&head.to_le_bytes());
            out.extend_from_slice(&short.rid().to_le_bytes());
            out.extend_from_slice(&short.bytes()[..short.length()]);
            run.write_full(&mut out)?;
        }
        for entry in &self.entries {
            let at = entry.at as usize;
            let (key, _, _) = key_at(&self.bytes, at);
            out.extend_from_slice(&self.bytes[at..at + HEAD_BYTES + key.len()]);
            run.write_full(&mut out)?;
        }
        run.write(&mut out)?;
        self.short.clear();
        self.bytes.clear();
        self.entries.clear();
        Ok(())
    }

    /// Sorts what is in memory, so that [`KeySorter::finish`] has little left to do: on the thread that has pushed.
    pub(crate) fn sort_now(&mut self) -> Result<()> {
        if self.runs.is_empty() { self.sort() } else { Ok(()) }
    }

    /// The keys in order. Call once, after the last push.
    pub fn finish(&mut self) -> Result<MergedKeys<'_>> {
        MergedKeys::of(self.sources()?)
    }

    /// What is to be merged, none of which has been read.
    fn sources(&mut self) -> Result<Vec<KeySource<'_>>> {
        if self.runs.is_empty() {
            self.sort()?;
            return Ok(match self.short.is_empty() {
                true => vec![KeySource::Memory { bytes: &self.bytes, entries: &self.entries, read: 0 }],
                false => vec![KeySource::Short { keys: self.short.iter(), bytes: [0; 16], present: None }],
            });
        }
        self.write_run()?;
        self.short = Vec::new();
        self.bytes = Vec::new();
        self.entries = Vec::new();
        Ok(self.runs.iter().map(|run| KeySource::Run(RunReader::new(run))).collect())
    }
}

struct RunReader<'a> {
    run: &'a Run,
    buffer: Vec<u8>,
    /// Where the present entry begins in the buffer, and how long it is.
    at: usize,
    length: usize,
    offset: u64,
}

impl<'a> RunReader<'a> {
    fn new(run: &'a Run) -> RunReader<'a> {
        RunReader { run, buffer: Vec::new(), at: 0, length: 0, offset: 0 }
    }
    fn available(&mut self, count: usize) -> Result<bool> {
        if self.buffer.len() - self.at >= count {
            return Ok(true);
        }
        self.buffer.drain(..self.at);
        self.at = 0;
        let kept = self.buffer.len();
        let want = (READ_BYTES as u64).min(self.run.bytes - self.offset) as usize;
        self.buffer.resize(kept + want, 0);
        let got = self.run.file.read_at(&mut self.buffer[kept..], self.offset)?;
        if got < want {
            return Err(Error::corrupted(format!(
                "temporary file {} is shorter than it was written",
                self.run.path.display()
            )));
        }
        self.offset += got as u64;
        Ok(self.buffer.len() >= count)
    }
    /// Moves to the next entry; false at the end.
    fn advance(&mut self) -> Result<bool> {
        self.at += std::mem::take(&mut self.length);
        if !self.available(HEAD_BYTES)? {
            return Ok(false);
        }
        let key = (u16::from_le_bytes([self.buffer[self.at], self.buffer[self.at + 1]]) & !NULL_FLAG) as usize;
        if !self.available(HEAD_BYTES + key)? {
            return Err(Error::corrupted("a sorted run ends within an entry"));
        }
        self.length = HEAD_BYTES + key;
        Ok(true)
    }
}

/// Sorted entries, the last one that was read being the present one.
enum KeySource<'a> {
    Memory { bytes: &'a [u8], entries: &'a [SortEntry], read: usize },
    Short { keys: std::slice::Iter<'a, ShortKey>, bytes: [u8; 16], present: Option<ShortKey> },
    Run(RunReader<'a>),
}

impl KeySource<'_> {
    /// Moves to the next entry. Returns the first bytes of its key, as a number; None at the end.
    fn advance(&mut self) -> Result<Option<u64>> {
        let is_there = match self {
            KeySource::Memory { entries, read, .. } => {
                *read += 1;
                *read <= entries.len()
            }
            KeySource::Short { keys, bytes, present } => {
                *present = keys.next().copied();
                *bytes = present.map_or([0; 16], ShortKey::bytes);
                present.is_some()
            }
            KeySource::Run(reader) => reader.advance()?,
        };
        Ok(is_there.then(|| first_word(self.entry().0)))
    }
    /// The present entry: key, row id, "a key column is NULL". There is one.
    fn entry(&self) -> (&[u8], u64, bool) {
        match self {
            KeySource::Memory { bytes, entries, read } => key_at(bytes, entries[read - 1].at as usize),
            KeySource::Short { bytes, present, .. } => match present {
                Some(short) => (&bytes[..short.length()], short.rid(), short.has_null()),
                None => (&[], 0, false),
            },
            KeySource::Run(reader) => key_at(&reader.buffer, reader.at),
        }
    }
}

/// Of two sources with the same first bytes of their keys, does the entry of `a` come first?
fn comes_first(sources: &[KeySource<'_>], a: u32, b: u32) -> bool {
    let ((a, a_rid, _), (b, b_rid, _)) = (sources[a as usize].entry(), sources[b as usize].entry());
    // Keys of the same length that are no longer than their first bytes are the same.
    if a.len() == b.len() && a.len() <= size_of::<u64>() { a_rid < b_rid } else { (a, a_rid) < (b, b_rid) }
}

/// What sorters have, in order.
pub(super) struct MergedKeys<'a> {
    sources: Vec<KeySource<'a>>,
    order: LoserTree,
    /// The first entry has been handed out.
    is_taken: bool,
}

/// Sorted keys, one after the other.
pub(super) trait SortedKeys {
    /// The next key, which is there until the next call, its row, and "a key column is NULL". None: there are no more.
    fn next_key(&mut self) -> Result<Option<(&[u8], RowId, bool)>>;
}

impl<'a> MergedKeys<'a> {
    pub fn new(sorters: &'a mut [KeySorter]) -> Result<MergedKeys<'a>> {
        let mut sources = Vec::new();
        for sorter in sorters {
            sources.extend(sorter.sources()?);
        }
        MergedKeys::of(sources)
    }
    fn of(mut sources: Vec<KeySource<'a>>) -> Result<MergedKeys<'a>> {
        let prefixes = sources.iter_mut().map(KeySource::advance).collect::<Result<Vec<Option<u64>>>>()?;
        let order = LoserTree::of(prefixes, |a, b| comes_first(&sources, a, b));
        Ok(MergedKeys { sources, order, is_taken: false })
    }
}

impl SortedKeys for MergedKeys<'_> {
    #[inline]
    fn next_key(&mut self) -> Result<Option<(&[u8], RowId, bool)>> {
        if self.is_taken
            && let Some(first) = self.order.first()
        {
            let prefix = self.sources[first as usize].advance()?;
            self.order.replace_first(prefix, |a, b| comes_first(&self.sources, a, b));
        }
        self.is_taken = true;
        Ok(self.order.first().map(|first| {
            let (key, rid, has_null) = self.sources[first as usize].entry();
            (key, RowId::from_u64(rid), has_null)
        }))
    }
}

impl Iterator for MergedKeys<'_> {
    /// Key, row id, "a key column is NULL".
    type Item = Result<(Vec<u8>, RowId, bool)>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_key();
        next.map(|entry| entry.map(|(key, rid, has_null)| (key.to_vec(), rid, has_null))).transpose()
    }
}

impl IndexEntries for MergedKeys<'_> {
    fn next_entry(&mut self) -> Result<Option<(&[u8], RowId)>> {
        Ok(self.next_key()?.map(|(key, rid, _)| (key, rid)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kilndb_base::env::OsEnv;

    #[test]
    fn prefixes_stand_in_the_order_of_their_keys() {
        let mut keys: Vec<Vec<u8>> = vec![vec![], vec![0], vec![0, 0], b"abcdefgh".to_vec(), b"abcdefgh\0".to_vec()];
        keys.extend((9..14).map(|n| vec![b'a'; n]));
        keys.extend((9..14).map(|n| [vec![b'a'; 8], vec![0; n - 8]].concat()));
        for in_order in [true, false] {
            let mut sorter = KeySorter::new(Arc::new(OsEnv), Path::new("nowhere"), 1 << 20);
            let mut wanted = Vec::new();
            for round in 0..3u32 {
                for (n, key) in keys.iter().rev().enumerate() {
                    let block = if in_order { round * 100 + n as u32 } else { 300 - round * 100 - n as u32 };
                    sorter.push(key, RowId { block, slot: 1 }, false).unwrap();
                    wanted.push((key.clone(), RowId { block, slot: 1 }, false));
                }
            }
            wanted.sort();
            let sorted: Vec<_> = sorter.finish().unwrap().map(|e| e.unwrap()).collect();
            assert!(sorted == wanted, "{in_order}");
        }
    }

    #[test]
    fn a_long_key_among_short_ones_changes_no_order() {
        let mut sorter = KeySorter::new(Arc::new(OsEnv), Path::new("nowhere"), 1 << 20);
        let mut wanted = Vec::new();
        for n in 0..3_000u32 {
            let length = if n == 1_500 { 40 } else { n as usize % 10 };
            let key: Vec<u8> = (0..length).map(|at| (n as usize * 7919 % (at + 3)) as u8).collect();
            let rid = RowId { block: n * 31 % 997, slot: n as u16 };
            sorter.push(&key, rid, n % 4 == 0).unwrap();
            wanted.push((key, rid, n % 4 == 0));
        }
        assert!(sorter.short.is_empty() && sorter.count == 3_000);
        wanted.sort();
        let sorted: Vec<_> = sorter.finish().unwrap().map(|e| e.unwrap()).collect();
        assert!(sorted == wanted);
    }

    #[test]
    fn what_does_not_fit_is_merged_from_runs() {
        merges_runs(0);
        merges_runs(10);
    }

    /// Keys with so many bytes more, which are short or long.
    fn merges_runs(more: usize) {
        let dir = std::env::temp_dir().join(format!("kilndb-key-sort-{more}-{}", std::process::id()));
        let mut sorter = KeySorter::new(Arc::new(OsEnv), &dir, 1 << 20);
        let mut wanted = Vec::new();
        let mut x = 7u64;
        for n in 0..300_000u32 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let key = [&(x >> 40).to_be_bytes()[3..], &vec![1; more]].concat();
            let rid = RowId { block: n, slot: 1 };
            sorter.push(&key, rid, n % 3 == 0).unwrap();
            wanted.push((key, rid, n % 3 == 0));
        }
        wanted.sort();
        assert!(sorter.runs.len() > 3);
        let sorted: Vec<_> = sorter.finish().unwrap().map(|e| e.unwrap()).collect();
        assert!(sorted == wanted);
        drop(sorter);
        // The same keys in three sorters, one of which has not spilled, and one of which has none.
        let mut sorters: Vec<KeySorter> = (0..3).map(|_| KeySorter::new(Arc::new(OsEnv), &dir, 1 << 20)).collect();
        for (i, (key, rid, null)) in wanted.iter().enumerate() {
            sorters[usize::from(i % 100 == 0)].push(key, *rid, *null).unwrap();
        }
        sorters.iter_mut().for_each(|s| s.sort_now().unwrap());
        assert!(sorters[0].runs.len() > 3 && sorters[1].runs.is_empty());
        let sorted: Vec<_> = MergedKeys::new(&mut sorters).unwrap().map(|e| e.unwrap()).collect();
        assert!(sorted == wanted);
        drop(sorters);
        assert_eq!(std::fs::read_dir(dir.join("tmp")).unwrap().count(), 0);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
