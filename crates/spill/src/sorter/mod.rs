//! Sorts records by the bytes of their keys.
//!
//! Records lie in blocks; what is sorted are [`memory::SortEntry`]s, which have eight bytes of their keys: the first that are not
//! the same in all keys ([`keys::TellingBytes`]). Entries are dealt out by the first bits in which they differ until few are left,
//! which are then sorted by comparing. Runs on disk are merged as they are read. Equal keys keep their order of arrival: runs are
//! numbered in that order, and so are blocks. Between the pieces of its work the statement may give way.
//!
//! Several threads can each sort the rows of the morsels that they take ([`Sorter::of_part`]); what they have is merged then
//! ([`Sorter::of_parts`]). Their rows end with the number of the morsel, which tells the order of equal keys: that of one thread
//! that has read the morsels one after the other (docs/decisions/0071).

mod keys;
mod memory;
mod merge;

use self::keys::{DifferingBits, TellingBytes};
use self::memory::SortMemory;
use self::merge::{MergeSource, MergeSources, NUMBER_BYTES, SortedMemory, SortedRecords};
use super::file::{HEAD_BYTES, STEP_BYTES, SpillFile, SpillIo, lengths};
use kilndb_base::Result;
use kilndb_base::sync::Arc;
use kilndb_base::sync::atomic::{AtomicUsize, Ordering};
use kilndb_types::Datum;

/// The smallest read buffer of a run in a merge.
const RUN_BUFFER_BYTES: usize = 16 * 1024;
/// So many runs are merged at once, if there is memory for their buffers: each merge more writes all records once more.
const MERGED_RUNS_MAX: usize = 256;

/// The memory of a sort, which the sorters of several threads share.
#[derive(Clone)]
pub struct SortBudget {
    limit_bytes: usize,
    sharers: usize,
    /// What all of them hold.
    used_bytes: Arc<AtomicUsize>,
}

impl SortBudget {
    pub fn new(limit_bytes: usize, sharers: usize) -> SortBudget {
        SortBudget { limit_bytes, sharers: sharers.max(1), used_bytes: Arc::default() }
    }
    /// What each would have if all had the same.
    pub fn share_bytes(&self) -> usize {
        self.limit_bytes / self.sharers
    }
}

/// What a sorter has told the others of its memory.
struct SharedMemory {
    budget: SortBudget,
    told_bytes: usize,
}

impl SharedMemory {
    /// Is there no more memory, and does a sorter with so many bytes have enough of it to write them to a file? The rest is
    /// with others, who ask this too: those who have less than half of their share have less than half of all together.
    fn is_full(&mut self, bytes: usize) -> bool {
        let share = self.budget.share_bytes();
        let more = bytes - self.told_bytes;
        if more < share / 16 {
            return false;
        }
        self.told_bytes = bytes;
        let all = self.budget.used_bytes.fetch_add(more, Ordering::Relaxed) + more;
        all >= self.budget.limit_bytes && bytes >= share / 2
    }
    /// The sorter's memory is empty.
    fn give_back(&mut self) {
        self.budget.used_bytes.fetch_sub(std::mem::take(&mut self.told_bytes), Ordering::Relaxed);
    }
}

/// A sorter: it takes rows with keys and gives them back sorted.
pub struct Sorter {
    /// What it may hold; where memory is shared, in merges only.
    budget_bytes: usize,
    shared: Option<SharedMemory>,
    /// Of a sorter of a part, the morsel whose rows come.
    morsel: Option<[u8; NUMBER_BYTES]>,
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
            shared: None,
            morsel: None,
            memory: SortMemory::default(),
            differing: DifferingBits::default(),
            longest: 0,
            levels: Vec::new(),
            sorted: None,
            peak_bytes: 0,
            disk_bytes: 0,
        }
    }
    /// A sorter of a part of the rows.
    pub fn of_part(budget: SortBudget) -> Sorter {
        let shared = Some(SharedMemory { budget: budget.clone(), told_bytes: 0 });
        Sorter { shared, morsel: Some([0; NUMBER_BYTES]), ..Sorter::new(budget.share_bytes()) }
    }
    /// The rows to come are those of a morsel with this number, which is not lower than those before it. Nothing for a sorter
    /// of all rows.
    pub fn begin_morsel(&mut self, number: u32) {
        if let Some(morsel) = &mut self.morsel {
            *morsel = number.to_be_bytes();
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
        let number = self.morsel.as_ref().map_or(&[][..], |morsel| morsel);
        self.memory.push(key, (values, number), block_bytes)?;
        self.differing.add(key);
        self.longest = self.longest.max(key.len());
        self.peak_bytes = self.peak_bytes.max(self.memory.bytes);
        let is_full = match &mut self.shared {
            Some(shared) => shared.is_full(self.memory.bytes),
            None => self.memory.bytes >= self.budget_bytes,
        };
        if is_full {
            self.write_run(io)?;
        }
        Ok(())
    }

    /// Writes records to a run of their own.
    fn write(&self, sorted: &mut SortedRecords, io: SpillIo<'_>) -> Result<SpillFile> {
        let mut file = SpillFile::new(STEP_BYTES.min(self.budget_bytes / 4));
        while sorted.advance(io)? {
            file.push_record(sorted.record(), io)?;
        }
        file.finish(io)?;
        Ok(file)
    }

    fn write_run(&mut self, io: SpillIo<'_>) -> Result<()> {
        self.memory.sort(self.telling(), io)?;
        self.write_memory(io)
    }
    /// Writes what is sorted in memory to a run.
    fn write_memory(&mut self, io: SpillIo<'_>) -> Result<()> {
        let mut sorted = SortedRecords::Memory(SortedMemory::new(std::mem::take(&mut self.memory)));
        let mut run = self.write(&mut sorted, io)?;
        // A later sort of the same size needs the file's buffer no more than this one.
        run.flush(io)?;
        if let SortedRecords::Memory(sorted) = sorted {
            self.memory = sorted.into_memory();
        }
        self.memory.clear();
        if let Some(shared) = &mut self.shared {
            shared.give_back();
        }
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
            run = self.write(&mut self.merge_of(runs), io)?;
        }
        Ok(())
    }

    fn merge_of(&self, runs: Vec<SpillFile>) -> SortedRecords {
        let buffer_bytes = self.budget_bytes / runs.len().max(1);
        self.merge_of_sources(runs.into_iter().map(|run| MergeSource::of_run(run, buffer_bytes)).collect())
    }
    fn merge_of_sources(&self, sources: Vec<MergeSource>) -> SortedRecords {
        SortedRecords::of_merge(MergeSources::new(sources, self.telling(), self.morsel.is_some()))
    }
    fn telling(&self) -> TellingBytes {
        self.differing.telling(self.longest)
    }
    /// The runs on disk, older ones first.
    fn take_runs(&mut self) -> Vec<SpillFile> {
        std::mem::take(&mut self.levels).into_iter().rev().flatten().collect()
    }

    /// Ends the input; from now on [`Sorter::advance`] yields the rows.
    pub fn finish(&mut self, io: SpillIo<'_>) -> Result<()> {
        self.end_part(io)?;
        let memory = std::mem::take(&mut self.memory);
        if self.levels.is_empty() {
            self.sorted = Some(SortedRecords::Memory(SortedMemory::new(memory)));
            return Ok(());
        }
        let runs = self.take_runs();
        self.levels.push(Vec::new());
        self.sorted = Some(self.merge_of(runs));
        Ok(())
    }

    /// Ends the input of a sorter of a part: what is in memory is sorted, or belongs to a run.
    pub fn end_part(&mut self, io: SpillIo<'_>) -> Result<()> {
        if self.levels.is_empty() {
            return self.memory.sort(self.telling(), io);
        }
        if self.memory.is_empty() { Ok(()) } else { self.write_run(io) }
    }

    /// All rows of the sorters of parts, whose input has ended.
    pub fn of_parts(parts: Vec<Sorter>, budget_bytes: usize, io: SpillIo<'_>) -> Result<Sorter> {
        let mut whole = Sorter { morsel: Some([0; NUMBER_BYTES]), ..Sorter::new(budget_bytes) };
        let is_external = parts.iter().any(Sorter::is_external);
        let (mut runs, mut sources) = (Vec::new(), Vec::new());
        for mut part in parts {
            if is_external && !part.memory.is_empty() {
                part.write_memory(io)?;
            }
            runs.append(&mut part.take_runs());
            if !part.memory.is_empty() {
                sources.push(MergeSource::Memory(Box::new(SortedMemory::new(part.memory))));
            }
            whole.differing.add_all(&part.differing);
            whole.longest = whole.longest.max(part.longest);
            whole.peak_bytes += part.peak_bytes;
            whole.disk_bytes += part.disk_bytes;
        }
        let sorted = if is_external { whole.merge_of(runs) } else { whole.merge_of_sources(sources) };
        whole.sorted = Some(sorted);
        if is_external {
            whole.levels.push(Vec::new());
        }
        Ok(whole)
    }

    /// The next record's key and row; None at the end.
    pub fn advance(&mut self, io: SpillIo<'_>) -> Result<Option<(&[u8], &[u8])>> {
        let Some(sorted) = &mut self.sorted else { return Ok(None) };
        if !sorted.advance(io)? {
            return Ok(None);
        }
        let record = sorted.record();
        let key = HEAD_BYTES + lengths(record).0;
        let end = record.len() - self.morsel.map_or(0, |number| number.len());
        Ok(Some((&record[HEAD_BYTES..key], &record[key..end])))
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

    /// Sorters of parts, to which rows are given in morsels of ten.
    fn sort_in_parts(rows: &[(Vec<u8>, i32)], budget_bytes: usize, io: SpillIo<'_>) -> Sorter {
        let budget = SortBudget::new(budget_bytes, 3);
        let mut parts: Vec<Sorter> = (0..3).map(|_| Sorter::of_part(budget.clone())).collect();
        for (number, morsel) in (0..).zip(rows.chunks(10)) {
            // The last one has few, and keeps them in memory.
            let part = &mut parts[if number % 100 == 0 { 2 } else { number as usize % 7 % 2 }];
            part.begin_morsel(number);
            morsel.iter().for_each(|(key, n)| part.push(key, &[Datum::Int4(*n)], io).unwrap());
        }
        parts.iter_mut().for_each(|part| part.end_part(io).unwrap());
        Sorter::of_parts(parts, budget_bytes, io).unwrap()
    }

    /// Against a stable sort in memory, with keys of all lengths and many equal ones; sorted by one sorter and by three.
    fn check(name: &str, budget: usize, rows: usize, key_of: &dyn Fn(u64) -> Vec<u8>) {
        let dir = std::env::temp_dir().join(format!("kilndb-sorter-{name}-{}", std::process::id()));
        let space = TempSpace::new(Arc::new(OsEnv), &dir);
        let park = ThreadPark::new();
        let io = SpillIo { space: &space, park: &park };
        let mut whole = Sorter::new(budget);
        let mut wanted = Vec::new();
        let mut x = 9u64;
        for n in 0..rows as i32 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let key = key_of(x >> 33);
            whole.push(&key, &[Datum::Int4(n)], io).unwrap();
            wanted.push((key, n));
        }
        whole.finish(io).unwrap();
        let in_parts = sort_in_parts(&wanted, budget, io);
        wanted.sort_by(|a, b| a.0.cmp(&b.0));
        for mut sorter in [whole, in_parts] {
            let mut values = Vec::new();
            for (key, n) in &wanted {
                let (k, row) = sorter.advance(io).unwrap().unwrap();
                assert!(k == key);
                values.clear();
                row::decode_self_describing(row, 1, &mut values).unwrap();
                assert!(matches!(values[0], Datum::Int4(v) if v == *n), "{name}: {n}, {:?}", values[0]);
            }
            assert!(sorter.advance(io).unwrap().is_none());
        }
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

    #[test]
    fn sharers_use_what_others_leave() {
        let dir = std::env::temp_dir().join(format!("kilndb-sorter-shared-{}", std::process::id()));
        let space = TempSpace::new(Arc::new(OsEnv), &dir);
        let park = ThreadPark::new();
        let io = SpillIo { space: &space, park: &park };
        let budget = SortBudget::new(1 << 20, 2);
        let mut parts = [Sorter::of_part(budget.clone()), Sorter::of_part(budget)];
        let mut push = |part: usize, rows: i32| {
            for n in 0..rows {
                parts[part].push(&n.to_be_bytes(), &[Datum::Int4(n)], io).unwrap();
            }
            [parts[0].memory_bytes(), parts[1].memory_bytes(), usize::from(parts[part].is_external())]
        };
        // The other one has nothing, so the first one goes far beyond its half.
        let [first, _, is_external] = push(0, 15_000);
        assert!(first > (1 << 20) * 3 / 5 && is_external == 0, "{first}");
        // The second one has a half of a half only, and the first one too much.
        let [_, second, is_external] = push(1, 12_000);
        assert!(second > 0 && is_external == 1, "{second}");
        let [first, second, _] = push(0, 15_000);
        assert!(first + second <= 1 << 20, "{first} {second}");
        drop(parts);
        let _ = std::fs::remove_dir_all(dir);
    }
}
