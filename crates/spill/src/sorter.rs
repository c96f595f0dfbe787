//! Sorts records by the bytes of their keys.
//!
//! Records lie in blocks; what is sorted are [`SortEntry`]s, which have eight bytes of their keys: the first that are not the
//! same in all keys ([`TellingBytes`]). Entries are dealt out by the first bits in which they differ until few are left, which are then
//! sorted by comparing. Runs on disk are merged as they are read. Equal keys keep their order of arrival: runs are numbered
//! in that order, and so are blocks. Between the pieces of its work the statement may give way.

use super::file::{HEAD_BYTES, STEP_BYTES, SpillCursor, SpillFile, SpillIo, append_record, lengths};
use kilndb_base::Result;
use kilndb_base::bytes::first_word;
use kilndb_base::loser_tree::LoserTree;
use kilndb_types::Datum;
use std::cmp::Ordering;
use std::ops::Range;

/// Entries sorted, or dealt out, without a look at the time slice.
const SEGMENT: usize = 16 * 1024;
/// Fewer entries than this are not dealt out: comparing is faster.
const DEALT_MIN: usize = 1024;
/// The smallest read buffer of a run in a merge.
const RUN_BUFFER_BYTES: usize = 16 * 1024;
/// So many runs are merged at once, if there is memory for their buffers: each merge more writes all records once more.
const MERGED_RUNS_MAX: usize = 256;
/// Entries are dealt out by so many bits at once.
const RADIX_BITS: u32 = 8;

#[derive(Clone, Copy)]
struct SortEntry {
    /// Eight bytes of the key, as a number that orders like them.
    prefix: u64,
    block: u32,
    at: u32,
}

/// So many of a key's first bytes are looked at to find those that tell keys apart.
const LOOKED_BYTES: usize = 32;

/// The first positions at which keys differ. Of two keys the bytes at these positions tell the order, unless they are the same.
#[derive(Clone, Copy, Debug, PartialEq)]
struct TellingBytes {
    positions: [u8; 8],
    count: usize,
    /// There may be others behind these.
    has_more: bool,
}

impl TellingBytes {
    const FIRST: TellingBytes = TellingBytes { positions: [0, 1, 2, 3, 4, 5, 6, 7], count: 8, has_more: true };

    /// The key's bytes at these positions, as a number that orders like them, zeros where the key is shorter.
    #[inline]
    fn prefix_of(&self, key: &[u8]) -> u64 {
        let first = usize::from(self.positions[0]);
        if self.count == 8 && usize::from(self.positions[7]) == first + 7 {
            return first_word(key.get(first..).unwrap_or(&[]));
        }
        let mut prefix = [0; 8];
        for (byte, at) in prefix.iter_mut().zip(&self.positions[..self.count]) {
            *byte = key.get(usize::from(*at)).copied().unwrap_or(0);
        }
        u64::from_be_bytes(prefix)
    }
}

/// The bits of the first bytes that are not the same in all keys. Keys that are shorter count as if zeros followed: comparing
/// whole keys tells them apart where that matters.
#[derive(Default)]
struct DifferingBits {
    first: Option<[u128; 2]>,
    differing: [u128; 2],
}

impl DifferingBits {
    fn add(&mut self, key: &[u8]) {
        let mut bytes = [0; LOOKED_BYTES];
        let n = key.len().min(LOOKED_BYTES);
        bytes[..n].copy_from_slice(&key[..n]);
        let half = |from: usize| {
            let mut half = [0; 16];
            half.copy_from_slice(&bytes[from..from + 16]);
            u128::from_le_bytes(half)
        };
        let words = [half(0), half(16)];
        let first = self.first.get_or_insert(words);
        for ((differing, first), word) in self.differing.iter_mut().zip(first).zip(words) {
            *differing |= *first ^ word;
        }
    }
    /// `longest`: how many bytes a key has at most.
    fn telling(&self, longest: usize) -> TellingBytes {
        let bytes = self.differing.map(u128::to_le_bytes);
        let mut found = TellingBytes { positions: [0; 8], count: 0, has_more: longest > LOOKED_BYTES };
        for (at, _) in bytes.as_flattened().iter().enumerate().filter(|(_, byte)| **byte != 0) {
            if found.count == found.positions.len() {
                found.has_more = true;
                break;
            }
            found.positions[found.count] = at as u8;
            found.count += 1;
        }
        found
    }
}

/// The records that are held in memory.
#[derive(Default)]
struct SortMemory {
    blocks: Vec<Vec<u8>>,
    entries: Vec<SortEntry>,
    bytes: usize,
    /// The length of all keys, if it is the same.
    uniform: Option<usize>,
    /// What the entries' prefixes have.
    telling: Option<TellingBytes>,
    /// Once sorted, the groups of entries in their order. One of more than [`SEGMENT`] entries, whose prefixes are all the
    /// same, consists of segments that are still to be merged.
    groups: Vec<Range<usize>>,
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
    /// Is the prefix all of the key that is not the same in all keys?
    fn is_short(&self) -> bool {
        self.uniform.is_some() && self.telling.is_some_and(|telling| !telling.has_more)
    }
    fn push(&mut self, key: &[u8], values: &[Datum], block_bytes: usize) -> Result<()> {
        if self.blocks.last().is_none_or(|b| b.len() >= block_bytes) {
            self.blocks.push(Vec::new());
        }
        let number = self.blocks.len() - 1;
        let block = &mut self.blocks[number];
        let at = block.len();
        append_record(block, key, values)?;
        self.bytes += block.len() - at + size_of::<SortEntry>() * 3 / 2;
        if self.entries.is_empty() {
            self.uniform = Some(key.len());
        } else if self.uniform != Some(key.len()) {
            self.uniform = None;
        }
        let prefix = TellingBytes::FIRST.prefix_of(key);
        self.entries.push(SortEntry { prefix, block: number as u32, at: at as u32 });
        Ok(())
    }

    /// Sorts the entries, whose keys are told apart by these bytes first.
    fn sort(&mut self, telling: TellingBytes, io: SpillIo<'_>) -> Result<()> {
        let mut entries = std::mem::take(&mut self.entries);
        self.telling = Some(telling);
        self.groups.clear();
        if telling.positions != TellingBytes::FIRST.positions {
            for piece in entries.chunks_mut(SEGMENT) {
                piece.iter_mut().for_each(|e| e.prefix = telling.prefix_of(self.key(*e)));
                io.park.checkpoint()?;
            }
        }
        let mut groups = Vec::new();
        let done = self.sort_group(&mut entries, 0, &mut groups, io);
        (self.entries, self.groups) = (entries, groups);
        done
    }
    /// Sorts entries, the first of which is at `from` among all.
    fn sort_group(
        &self,
        entries: &mut [SortEntry],
        from: usize,
        groups: &mut Vec<Range<usize>>,
        io: SpillIo<'_>,
    ) -> Result<()> {
        let mut differing = 0;
        if let Some(SortEntry { prefix: first, .. }) = entries.first().filter(|_| entries.len() >= DEALT_MIN) {
            for piece in entries.chunks(SEGMENT) {
                differing = piece.iter().fold(differing, |bits, e| bits | (e.prefix ^ first));
                io.park.checkpoint()?;
            }
        }
        if differing == 0 {
            for segment in entries.chunks_mut(SEGMENT) {
                self.sort_segment(segment);
                io.park.checkpoint()?;
            }
            match groups.last_mut() {
                // What is behind one another in order need not be told apart.
                Some(last) if last.len() + entries.len() <= SEGMENT => last.end += entries.len(),
                _ => groups.push(from..from + entries.len()),
            }
            return Ok(());
        }
        let mut start = from;
        let mut rest = entries;
        for count in deal_out(rest, differing.leading_zeros(), io)? {
            let (bucket, others) = rest.split_at_mut(count);
            if !bucket.is_empty() {
                self.sort_group(bucket, start, groups, io)?;
            }
            start += count;
            rest = others;
        }
        Ok(())
    }
    fn sort_segment(&self, segment: &mut [SortEntry]) {
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
    }
    fn clear(&mut self) {
        self.blocks.truncate(1);
        self.blocks.iter_mut().for_each(Vec::clear);
        self.entries.clear();
        self.groups.clear();
        self.bytes = 0;
    }
}

/// Moves entries, in place, to buckets by the bits of their prefixes behind the first so many. Returns how many each bucket
/// has. (American flag sort: McIlroy, Bostic and McIlroy, Computing Systems 6 (1), 1993.)
fn deal_out(entries: &mut [SortEntry], shared_bits: u32, io: SpillIo<'_>) -> Result<Vec<usize>> {
    let shift = (u64::BITS - RADIX_BITS).saturating_sub(shared_bits);
    let bucket_of = |e: &SortEntry| (e.prefix >> shift) as usize & ((1 << RADIX_BITS) - 1);
    let mut counts = vec![0; 1 << RADIX_BITS];
    for piece in entries.chunks(SEGMENT) {
        piece.iter().for_each(|e| counts[bucket_of(e)] += 1);
        io.park.checkpoint()?;
    }
    let mut next = Vec::with_capacity(counts.len());
    let mut ends = Vec::with_capacity(counts.len());
    let mut from = 0;
    for count in &counts {
        next.push(from);
        from += count;
        ends.push(from);
    }
    let mut moved = 0;
    for bucket in 0..counts.len() {
        while next[bucket] < ends[bucket] {
            let own = bucket_of(&entries[next[bucket]]);
            // One that belongs elsewhere changes places with the next entry there.
            if own != bucket {
                entries.swap(next[bucket], next[own]);
            }
            next[own] += 1;
            moved += 1;
            if moved % SEGMENT == 0 {
                io.park.checkpoint()?;
            }
        }
    }
    Ok(counts)
}

enum MergeSource {
    Segment { next: usize, end: usize },
    Run { file: SpillFile, cursor: SpillCursor },
}

/// The key of a source's present record.
fn present_key<'m>(source: &'m MergeSource, memory: &'m SortMemory) -> &'m [u8] {
    match source {
        MergeSource::Segment { next, .. } => memory.key(memory.entries[*next]),
        MergeSource::Run { cursor, .. } => cursor.key(),
    }
}

/// Of two sources whose records have the same prefix, does the record of `a` come first?
fn comes_first(sources: &[MergeSource], memory: &SortMemory, a: u32, b: u32) -> bool {
    // Of equal keys, the one that arrived first.
    let arrival = |source: u32| match &sources[source as usize] {
        MergeSource::Segment { next, .. } => {
            let SortEntry { block, at, .. } = memory.entries[*next];
            (block, at)
        }
        MergeSource::Run { .. } => (source, 0),
    };
    let key = |source: u32| present_key(&sources[source as usize], memory);
    key(a).cmp(key(b)).then_with(|| arrival(a).cmp(&arrival(b))) == Ordering::Less
}

/// Merges several sorted sources into one.
struct SortMerge {
    sources: Vec<MergeSource>,
    /// None: nothing has been read.
    order: Option<LoserTree>,
    /// What prefixes have of the keys.
    telling: TellingBytes,
}

impl SortMerge {
    fn new(sources: Vec<MergeSource>, telling: TellingBytes) -> SortMerge {
        SortMerge { sources, order: None, telling }
    }
    /// The prefix of a source's present record; None if it has none.
    fn note(&mut self, source: u32, memory: &SortMemory, io: SpillIo<'_>) -> Result<Option<u64>> {
        Ok(match &mut self.sources[source as usize] {
            MergeSource::Segment { next, end } => (next < end).then(|| memory.entries[*next].prefix),
            MergeSource::Run { file, cursor } => {
                cursor.advance(file, io)?.then(|| self.telling.prefix_of(cursor.key()))
            }
        })
    }
    fn first(&self) -> Option<u32> {
        self.order.as_ref().and_then(LoserTree::first)
    }
    /// Moves to the next record; false at the end.
    fn advance(&mut self, memory: &SortMemory, io: SpillIo<'_>) -> Result<bool> {
        if let Some(source) = self.first() {
            if let MergeSource::Segment { next, .. } = &mut self.sources[source as usize] {
                *next += 1;
            }
            let prefix = self.note(source, memory, io)?;
            if let Some(order) = &mut self.order {
                order.replace_first(prefix, |a, b| comes_first(&self.sources, memory, a, b));
            }
        } else if self.order.is_none() {
            let prefixes = (0..self.sources.len() as u32).map(|source| self.note(source, memory, io));
            let prefixes = prefixes.collect::<Result<Vec<Option<u64>>>>()?;
            self.order = Some(LoserTree::of(prefixes, |a, b| comes_first(&self.sources, memory, a, b)));
        }
        Ok(self.first().is_some())
    }
    fn record<'m>(&'m self, memory: &'m SortMemory) -> &'m [u8] {
        match self.first().map(|source| &self.sources[source as usize]) {
            Some(MergeSource::Segment { next, .. }) => memory.record(memory.entries[*next]),
            Some(MergeSource::Run { cursor, .. }) => cursor.record(),
            None => &[],
        }
    }
}

/// What is read in order: the records in memory, group by group, or runs that are merged.
enum SortedRecords {
    Memory {
        /// The next group.
        group: usize,
        /// What is left of the present group, its first entry the present record, unless it is merged.
        entries: Range<usize>,
        merge: Option<SortMerge>,
        started: bool,
    },
    Runs(SortMerge),
}

impl SortedRecords {
    fn of_memory() -> SortedRecords {
        SortedRecords::Memory { group: 0, entries: 0..0, merge: None, started: false }
    }
    /// Moves to the next record; false at the end.
    fn advance(&mut self, memory: &SortMemory, io: SpillIo<'_>) -> Result<bool> {
        let SortedRecords::Memory { group, entries, merge, started } = self else {
            let SortedRecords::Runs(merge) = self else { return Ok(false) };
            return merge.advance(memory, io);
        };
        if std::mem::replace(started, true) {
            entries.start += usize::from(entries.start < entries.end);
        }
        loop {
            if let Some(merging) = merge {
                if merging.advance(memory, io)? {
                    return Ok(true);
                }
                *merge = None;
            }
            if entries.start < entries.end {
                return Ok(true);
            }
            let Some(next) = memory.groups.get(*group) else { return Ok(false) };
            *group += 1;
            if next.len() <= SEGMENT {
                *entries = next.clone();
            } else {
                let segments = next.clone().step_by(SEGMENT);
                let segments =
                    segments.map(|from| MergeSource::Segment { next: from, end: (from + SEGMENT).min(next.end) });
                let telling = memory.telling.unwrap_or(TellingBytes::FIRST);
                *merge = Some(SortMerge::new(segments.collect(), telling));
            }
        }
    }
    fn record<'m>(&'m self, memory: &'m SortMemory) -> &'m [u8] {
        match self {
            SortedRecords::Memory { merge: Some(merge), .. } | SortedRecords::Runs(merge) => merge.record(memory),
            SortedRecords::Memory { entries, .. } => {
                memory.entries.get(entries.start).map_or(&[], |entry| memory.record(*entry))
            }
        }
    }
}

/// A sorter: it takes rows with keys and gives them back sorted.
pub struct Sorter {
    budget_bytes: usize,
    memory: SortMemory,
    differing: DifferingBits,
    /// The bytes of the longest key.
    longest: usize,
    /// Runs on disk: those of level n are merges of runs of level n − 1, and older than all of these.
    levels: Vec<Vec<SpillFile>>,
    sorted: Option<SortedRecords>,
    pub peak_bytes: usize,
    pub disk_bytes: u64,
}

impl Sorter {
    pub fn new(budget_bytes: usize) -> Sorter {
        let budget_bytes = budget_bytes.max(STEP_BYTES / 2);
        Sorter {
            budget_bytes,
            memory: SortMemory::default(),
            differing: DifferingBits::default(),
            longest: 0,
            levels: Vec::new(),
            sorted: None,
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
        self.differing.add(key);
        self.longest = self.longest.max(key.len());
        self.peak_bytes = self.peak_bytes.max(self.memory.bytes);
        if self.memory.bytes >= self.budget_bytes {
            self.write_run(io)?;
        }
        Ok(())
    }

    /// Writes records to a run of their own.
    fn write(&mut self, mut sorted: SortedRecords, io: SpillIo<'_>) -> Result<SpillFile> {
        let mut file = SpillFile::new(STEP_BYTES.min(self.budget_bytes / 4));
        while sorted.advance(&self.memory, io)? {
            file.push_record(sorted.record(&self.memory), io)?;
        }
        file.finish(io)?;
        Ok(file)
    }

    fn write_run(&mut self, io: SpillIo<'_>) -> Result<()> {
        self.memory.sort(self.telling(), io)?;
        let mut run = self.write(SortedRecords::of_memory(), io)?;
        // A later sort of the same size needs the file's buffer no more than this one.
        run.flush(io)?;
        self.memory.clear();
        self.disk_bytes += run.disk_bytes();
        let most = (self.budget_bytes / RUN_BUFFER_BYTES).clamp(4, MERGED_RUNS_MAX);
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

    fn merge_of(&self, runs: Vec<SpillFile>) -> SortedRecords {
        let buffer = self.budget_bytes / runs.len().max(1);
        let sources = runs.into_iter().map(|file| MergeSource::Run { file, cursor: SpillCursor::new(buffer) });
        SortedRecords::Runs(SortMerge::new(sources.collect(), self.telling()))
    }
    fn telling(&self) -> TellingBytes {
        self.differing.telling(self.longest)
    }

    /// Ends the input; from now on [`Sorter::advance`] yields the rows.
    pub fn finish(&mut self, io: SpillIo<'_>) -> Result<()> {
        if self.levels.is_empty() {
            self.memory.sort(self.telling(), io)?;
            self.sorted = Some(SortedRecords::of_memory());
            return Ok(());
        }
        if !self.memory.entries.is_empty() {
            self.write_run(io)?;
        }
        self.memory = SortMemory::default();
        let runs: Vec<SpillFile> = std::mem::take(&mut self.levels).into_iter().rev().flatten().collect();
        self.levels.push(Vec::new());
        self.sorted = Some(self.merge_of(runs));
        Ok(())
    }

    /// The next record's key and row; None at the end.
    pub fn advance(&mut self, io: SpillIo<'_>) -> Result<Option<(&[u8], &[u8])>> {
        let Some(sorted) = &mut self.sorted else { return Ok(None) };
        if !sorted.advance(&self.memory, io)? {
            return Ok(None);
        }
        let record = sorted.record(&self.memory);
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
        // Keys that begin alike for all of the prefix and beyond it, or are that much longer than others.
        let alike = |x: u64| [b"the same beginning".as_slice(), &(x as u16 % 300).to_be_bytes()].concat();
        let equal = |_: u64| b"one".to_vec();
        let prefixes = |x: u64| vec![0; (x % 20) as usize];
        // Two numbers, of each of which a few bytes differ; more bytes than a prefix has; and bytes behind those looked at.
        let two =
            |x: u64| [[1].as_slice(), &(x % 70_000).to_be_bytes(), &[1], &(x / 70_000 % 300).to_be_bytes()].concat();
        let many = |x: u64| x.to_be_bytes().iter().flat_map(|byte| [7, byte % 3, 7, byte / 3 % 2]).collect();
        let far = |x: u64| [[x as u8 % 5].as_slice(), &[9; 40], &(x as u16 % 40).to_be_bytes()].concat();
        let ragged = |x: u64| [[3].as_slice(), &(x % 90).to_be_bytes()[..(x % 9) as usize], &[0, 4]].concat();
        let wide = |x: u64| [[1].as_slice(), &(x.wrapping_mul(x)).to_be_bytes()].concat();
        for (i, budget) in [1 << 15, 1 << 17, 1 << 24].into_iter().enumerate() {
            check(&format!("short{i}"), budget, 60_000, &short);
            check(&format!("long{i}"), budget, 60_000, &long);
            check(&format!("alike{i}"), budget, 60_000, &alike);
            check(&format!("equal{i}"), budget, 60_000, &equal);
            check(&format!("prefixes{i}"), budget, 60_000, &prefixes);
            check(&format!("wide{i}"), budget, 60_000, &wide);
            check(&format!("two{i}"), budget, 60_000, &two);
            check(&format!("many{i}"), budget, 60_000, &many);
            check(&format!("far{i}"), budget, 60_000, &far);
            check(&format!("ragged{i}"), budget, 60_000, &ragged);
        }
        check("none", 1 << 20, 0, &short);
        check("one", 1 << 20, 1, &long);
    }
}
