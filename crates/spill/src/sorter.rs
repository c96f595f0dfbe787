//! Sorts records by the bytes of their keys.
//!
//! Records lie in blocks; what is sorted are [`SortEntry`]s, in segments between which the statement may give way. Segments
//! in memory and runs on disk are merged as they are read. Equal keys keep their order of arrival: sources of a merge
//! are numbered in that order, and so are blocks.

use super::file::{HEAD_BYTES, STEP_BYTES, SpillCursor, SpillFile, SpillIo, append_record, lengths};
use kilndb_base::Result;
use kilndb_types::Datum;
use std::cmp::Ordering;

/// Entries sorted without a look at the time slice.
const SEGMENT: usize = 16 * 1024;
/// The smallest read buffer of a run in a merge.
const RUN_BUFFER_BYTES: usize = 16 * 1024;

#[derive(Clone, Copy)]
struct SortEntry {
    /// The key's first eight bytes, as a number that orders like them.
    prefix: u64,
    block: u32,
    at: u32,
}

fn prefix_of(key: &[u8]) -> u64 {
    let mut first = [0; 8];
    let n = key.len().min(8);
    first[..n].copy_from_slice(&key[..n]);
    u64::from_be_bytes(first)
}

/// The records that are held in memory.
#[derive(Default)]
struct SortMemory {
    blocks: Vec<Vec<u8>>,
    entries: Vec<SortEntry>,
    bytes: usize,
    /// The length of all keys, if it is the same and at most 8: then the prefix is the whole key.
    uniform: Option<usize>,
}

impl SortMemory {
    fn record(&self, e: SortEntry) -> &[u8] {
        let from = &self.blocks[e.block as usize][e.at as usize..];
        let (key, row) = lengths(from);
        &from[..HEAD_BYTES + key + row]
    }
    fn key(&self, e: SortEntry) -> &[u8] {
        let from = &self.blocks[e.block as usize][e.at as usize..];
        &from[HEAD_BYTES..HEAD_BYTES + lengths(from).0]
    }
    fn is_short(&self) -> bool {
        self.uniform.is_some_and(|n| n <= 8)
    }
    fn push(&mut self, key: &[u8], values: &[Datum], block_bytes: usize) -> Result<()> {
        if self.blocks.last().is_none_or(|b| b.len() >= block_bytes) {
            self.blocks.push(Vec::new());
        }
        let number = self.blocks.len() - 1;
        let Some(block) = self.blocks.last_mut() else { return Ok(()) };
        let at = block.len();
        append_record(block, key, values)?;
        self.bytes += block.len() - at + size_of::<SortEntry>() * 3 / 2;
        if self.entries.is_empty() {
            self.uniform = Some(key.len());
        } else if self.uniform != Some(key.len()) {
            self.uniform = None;
        }
        self.entries.push(SortEntry { prefix: prefix_of(key), block: number as u32, at: at as u32 });
        Ok(())
    }
    fn sort(&mut self, io: SpillIo<'_>) -> Result<()> {
        let mut entries = std::mem::take(&mut self.entries);
        for segment in entries.chunks_mut(SEGMENT) {
            if self.is_short() {
                segment.sort_unstable_by_key(|a| (a.prefix, a.block, a.at));
            } else {
                segment.sort_unstable_by(|a, b| {
                    let place = |e: &SortEntry| (e.block, e.at);
                    a.prefix
                        .cmp(&b.prefix)
                        .then_with(|| self.key(*a).cmp(self.key(*b)))
                        .then_with(|| place(a).cmp(&place(b)))
                });
            }
            io.park.checkpoint()?;
        }
        self.entries = entries;
        Ok(())
    }
    fn clear(&mut self) {
        self.blocks.truncate(1);
        self.blocks.iter_mut().for_each(Vec::clear);
        self.entries.clear();
        self.bytes = 0;
    }
}

enum MergeSource {
    Segment { next: usize, end: usize },
    Run { file: SpillFile, cursor: SpillCursor },
}

/// Merges several sorted sources into one.
struct SortMerge {
    sources: Vec<MergeSource>,
    prefixes: Vec<u64>,
    /// Binary heap of sources by their present record.
    heap: Vec<u32>,
    started: bool,
}

impl SortMerge {
    fn new(sources: Vec<MergeSource>) -> SortMerge {
        SortMerge { prefixes: vec![0; sources.len()], heap: Vec::with_capacity(sources.len()), sources, started: false }
    }

    fn key<'m>(&'m self, source: u32, memory: &'m SortMemory) -> &'m [u8] {
        match &self.sources[source as usize] {
            MergeSource::Segment { next, .. } => memory.key(memory.entries[*next]),
            MergeSource::Run { cursor, .. } => cursor.key(),
        }
    }
    fn order(&self, a: u32, b: u32, memory: &SortMemory) -> Ordering {
        let prefixes = self.prefixes[a as usize].cmp(&self.prefixes[b as usize]);
        prefixes.then_with(|| self.key(a, memory).cmp(self.key(b, memory))).then_with(|| a.cmp(&b))
    }
    fn sift_down(&mut self, mut at: usize, memory: &SortMemory) {
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let mut least = at;
            for child in [left, right] {
                if child < self.heap.len() && self.order(self.heap[child], self.heap[least], memory) == Ordering::Less {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.heap.swap(at, least);
            at = least;
        }
    }
    /// Notes a source's present record; false if it has none.
    fn note(&mut self, source: u32, memory: &SortMemory, io: SpillIo<'_>) -> Result<bool> {
        let i = source as usize;
        match &mut self.sources[i] {
            MergeSource::Segment { next, end } => {
                if next >= end {
                    return Ok(false);
                }
                self.prefixes[i] = memory.entries[*next].prefix;
            }
            MergeSource::Run { file, cursor } => {
                if !cursor.advance(file, io)? {
                    return Ok(false);
                }
                self.prefixes[i] = prefix_of(cursor.key());
            }
        }
        Ok(true)
    }
    /// Moves to the next record; false at the end.
    fn advance(&mut self, memory: &SortMemory, io: SpillIo<'_>) -> Result<bool> {
        if !self.started {
            self.started = true;
            for source in 0..self.sources.len() as u32 {
                if self.note(source, memory, io)? {
                    self.heap.push(source);
                }
            }
            for at in (0..self.heap.len() / 2).rev() {
                self.sift_down(at, memory);
            }
        } else if let Some(&top) = self.heap.first() {
            if let MergeSource::Segment { next, .. } = &mut self.sources[top as usize] {
                *next += 1;
            }
            if !self.note(top, memory, io)? {
                self.heap.swap_remove(0);
            }
            self.sift_down(0, memory);
        }
        Ok(!self.heap.is_empty())
    }
    fn record<'m>(&'m self, memory: &'m SortMemory) -> &'m [u8] {
        match self.heap.first().map(|top| &self.sources[*top as usize]) {
            Some(MergeSource::Segment { next, .. }) => memory.record(memory.entries[*next]),
            Some(MergeSource::Run { cursor, .. }) => cursor.record(),
            None => &[],
        }
    }
}

/// A sorter: it takes rows with keys and gives them back sorted.
pub struct Sorter {
    budget_bytes: usize,
    memory: SortMemory,
    /// Runs on disk: those of level n are merges of runs of level n − 1, and older than all of these.
    levels: Vec<Vec<SpillFile>>,
    merge: Option<SortMerge>,
    pub peak_bytes: usize,
    pub disk_bytes: u64,
}

impl Sorter {
    pub fn new(budget_bytes: usize) -> Sorter {
        let budget_bytes = budget_bytes.max(STEP_BYTES / 2);
        Sorter {
            budget_bytes,
            memory: SortMemory::default(),
            levels: Vec::new(),
            merge: None,
            peak_bytes: 0,
            disk_bytes: 0,
        }
    }
    pub fn is_external(&self) -> bool {
        !self.levels.is_empty()
    }
    pub fn memory_bytes(&self) -> usize {
        self.memory.bytes
    }

    pub fn push(&mut self, key: &[u8], values: &[Datum], io: SpillIo<'_>) -> Result<()> {
        let block_bytes = (self.budget_bytes / 16).clamp(4096, 256 * 1024);
        self.memory.push(key, values, block_bytes)?;
        self.peak_bytes = self.peak_bytes.max(self.memory.bytes);
        if self.memory.bytes >= self.budget_bytes {
            self.write_run(io)?;
        }
        Ok(())
    }

    fn segments(&self) -> SortMerge {
        let count = self.memory.entries.len();
        let ends = (0..count)
            .step_by(SEGMENT)
            .map(|from| MergeSource::Segment { next: from, end: (from + SEGMENT).min(count) });
        SortMerge::new(ends.collect())
    }

    /// Writes `merge` to a run of its own.
    fn write(&mut self, mut merge: SortMerge, io: SpillIo<'_>) -> Result<SpillFile> {
        let mut file = SpillFile::new(STEP_BYTES.min(self.budget_bytes / 4));
        while merge.advance(&self.memory, io)? {
            file.push_record(merge.record(&self.memory), io)?;
        }
        file.finish(io)?;
        Ok(file)
    }

    fn write_run(&mut self, io: SpillIo<'_>) -> Result<()> {
        self.memory.sort(io)?;
        let mut run = self.write(self.segments(), io)?;
        // A later sort of the same size needs the file's buffer no more than this one.
        run.flush(io)?;
        self.memory.clear();
        self.disk_bytes += run.disk_bytes();
        let most = (self.budget_bytes / RUN_BUFFER_BYTES).clamp(4, 64);
        for level in 0.. {
            if self.levels.len() == level {
                self.levels.push(Vec::new());
            }
            self.levels[level].push(run);
            if self.levels[level].len() < most {
                break;
            }
            let runs = std::mem::take(&mut self.levels[level]);
            run = self.write(self.merge_of(runs), io)?;
        }
        Ok(())
    }

    fn merge_of(&self, runs: Vec<SpillFile>) -> SortMerge {
        let buffer = self.budget_bytes / runs.len().max(1);
        SortMerge::new(
            runs.into_iter().map(|file| MergeSource::Run { file, cursor: SpillCursor::new(buffer) }).collect(),
        )
    }

    /// Ends the input; from now on [`Sorter::advance`] yields the rows.
    pub fn finish(&mut self, io: SpillIo<'_>) -> Result<()> {
        if self.levels.is_empty() {
            self.memory.sort(io)?;
            self.merge = Some(self.segments());
            return Ok(());
        }
        if !self.memory.entries.is_empty() {
            self.write_run(io)?;
        }
        self.memory = SortMemory::default();
        let runs: Vec<SpillFile> = std::mem::take(&mut self.levels).into_iter().rev().flatten().collect();
        self.levels.push(Vec::new());
        self.merge = Some(self.merge_of(runs));
        Ok(())
    }

    /// The next record's key and row; None at the end.
    pub fn advance(&mut self, io: SpillIo<'_>) -> Result<Option<(&[u8], &[u8])>> {
        let Some(merge) = &mut self.merge else { return Ok(None) };
        if !merge.advance(&self.memory, io)? {
            return Ok(None);
        }
        let record = merge.record(&self.memory);
        let key = HEAD_BYTES + lengths(record).0;
        Ok(Some((&record[HEAD_BYTES..key], &record[key..])))
    }
}

#[cfg(test)]
mod tests {
    use super::super::TempSpace;
    use super::*;
    use kilndb_base::env::OsEnv;
    use kilndb_base::park::ThreadPark;
    use kilndb_types::row;
    use std::sync::Arc;

    /// Against a stable sort in memory, with keys of all lengths and many equal ones.
    fn check(name: &str, budget: usize, rows: usize, key_of: &dyn Fn(u64) -> Vec<u8>) {
        let dir = std::env::temp_dir().join(format!("kilndb-sorter-{name}-{}", std::process::id()));
        let space = TempSpace::new(Arc::new(OsEnv), &dir);
        let park = ThreadPark::new();
        let io = SpillIo { space: &space, park: &park };
        let mut sorter = Sorter::new(budget);
        let mut wanted = Vec::new();
        let mut x = 9u64;
        for n in 0..rows as i32 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let key = key_of(x >> 33);
            sorter.push(&key, &[Datum::Int4(n)], io).unwrap();
            wanted.push((key, n));
        }
        wanted.sort_by(|a, b| a.0.cmp(&b.0));
        sorter.finish(io).unwrap();
        let mut values = Vec::new();
        for (key, n) in &wanted {
            let (k, row) = sorter.advance(io).unwrap().unwrap();
            assert!(k == key);
            values.clear();
            row::decode_self_describing(row, 1, &mut values).unwrap();
            assert!(matches!(values[0], Datum::Int4(v) if v == *n));
        }
        assert!(sorter.advance(io).unwrap().is_none());
        drop(sorter);
        let left = std::fs::read_dir(dir.join("tmp")).map_or(0, |d| d.count());
        assert_eq!(left, 0);
        let _ = std::fs::remove_dir_all(dir);
    }

    #[test]
    fn all_ways_sort_alike() {
        let short = |x: u64| (x as u32 % 10_000).to_be_bytes().to_vec();
        let long = |x: u64| format!("{}{}", "k".repeat((x % 30) as usize), x % 700).into_bytes();
        for (i, budget) in [1 << 15, 1 << 17, 1 << 24].into_iter().enumerate() {
            check(&format!("short{i}"), budget, 60_000, &short);
            check(&format!("long{i}"), budget, 60_000, &long);
        }
        check("none", 1 << 20, 0, &short);
        check("one", 1 << 20, 1, &long);
    }
}
