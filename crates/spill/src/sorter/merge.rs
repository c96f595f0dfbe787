//! Sorted records, one after the other: those of memory, and those of several sources that are merged.

use super::keys::TellingBytes;
use super::memory::{SEGMENT, SortMemory};
use crate::file::{HEAD_BYTES, SpillCursor, SpillFile, SpillIo, lengths};
use kilndb_base::Result;
use kilndb_base::loser_tree::LoserTree;
use kilndb_base::prefetch;
use std::cmp::Ordering;
use std::ops::Range;

/// The bytes of a morsel's number, with which each row of a sorter of a part ends.
pub(super) const NUMBER_BYTES: usize = 4;
/// So many records ahead are on their way to the processor's cache: they lie anywhere in memory.
const FETCHED_AHEAD: usize = 8;

/// Sorted sequences of records.
trait SortedSources {
    fn count(&self) -> u32;
    /// Moves to the next record of a source, at first to its first one. The prefix of its key; None: it has no more.
    fn next(&mut self, source: u32, io: SpillIo<'_>) -> Result<Option<u64>>;
    /// Of two sources whose records have the same prefix, does the record of `a` come first?
    fn comes_first(&self, a: u32, b: u32) -> bool;
}

/// The order of sources. None: nothing has been read.
#[derive(Default)]
pub(super) struct MergeOrder(Option<LoserTree>);

impl MergeOrder {
    fn first(&self) -> Option<u32> {
        self.0.as_ref().and_then(LoserTree::first)
    }
    /// Moves to the next record; false at the end.
    fn advance(&mut self, sources: &mut impl SortedSources, io: SpillIo<'_>) -> Result<bool> {
        match (self.first(), &mut self.0) {
            (Some(source), Some(order)) => {
                let prefix = sources.next(source, io)?;
                order.replace_first(prefix, |a, b| sources.comes_first(a, b));
            }
            (_, None) => {
                let prefixes = (0..sources.count()).map(|source| sources.next(source, io));
                let prefixes = prefixes.collect::<Result<Vec<Option<u64>>>>()?;
                self.0 = Some(LoserTree::of(prefixes, |a, b| sources.comes_first(a, b)));
            }
            (None, Some(_)) => {}
        }
        Ok(self.first().is_some())
    }
}

/// Segments of the entries of a memory: the entries of each that are still to come, its present one before them.
struct MemorySegments<'m> {
    memory: &'m SortMemory,
    places: &'m mut [Range<usize>],
}

impl SortedSources for MemorySegments<'_> {
    fn count(&self) -> u32 {
        self.places.len() as u32
    }
    fn next(&mut self, source: u32, _: SpillIo<'_>) -> Result<Option<u64>> {
        let next = self.places[source as usize].next();
        Ok(next.map(|at| self.memory.entries[at].prefix))
    }
    fn comes_first(&self, a: u32, b: u32) -> bool {
        let [a, b] = [a, b].map(|source| self.memory.entries[self.places[source as usize].start - 1]);
        let arrival = (a.block, a.at).cmp(&(b.block, b.at));
        self.memory.key(a).cmp(self.memory.key(b)).then(arrival) == Ordering::Less
    }
}

/// Where the reading of a sorted memory stands.
#[derive(Default)]
struct MemoryOrder {
    /// The next group.
    group: usize,
    /// What is left of the present group, its first entry the present record, unless its segments are merged.
    entries: Range<usize>,
    merge: Option<(Vec<Range<usize>>, MergeOrder)>,
    is_begun: bool,
}

impl MemoryOrder {
    /// Moves to the next record; false at the end.
    fn advance(&mut self, memory: &SortMemory, io: SpillIo<'_>) -> Result<bool> {
        if std::mem::replace(&mut self.is_begun, true) {
            self.entries.start += usize::from(self.entries.start < self.entries.end);
        }
        loop {
            if let Some((places, order)) = &mut self.merge {
                if order.advance(&mut MemorySegments { memory, places }, io)? {
                    return Ok(true);
                }
                self.merge = None;
            }
            if self.entries.start < self.entries.end {
                if let Some(ahead) = memory.entries.get(self.entries.start + FETCHED_AHEAD) {
                    prefetch::fetch_range(memory.address(*ahead), prefetch::LINE_BYTES);
                }
                return Ok(true);
            }
            let Some(next) = memory.groups.get(self.group) else { return Ok(false) };
            self.group += 1;
            if next.len() <= SEGMENT {
                self.entries = next.clone();
            } else {
                let segments = next.clone().step_by(SEGMENT);
                let places = segments.map(|from| from..(from + SEGMENT).min(next.end)).collect();
                self.merge = Some((places, MergeOrder::default()));
            }
        }
    }
    fn record<'m>(&self, memory: &'m SortMemory) -> &'m [u8] {
        let at = match &self.merge {
            Some((places, order)) => order.first().map(|source| places[source as usize].start - 1),
            None => Some(self.entries.start),
        };
        at.and_then(|at| memory.entries.get(at)).map_or(&[], |entry| memory.record(*entry))
    }
}

/// The records of a memory that is sorted.
pub(super) struct SortedMemory {
    memory: SortMemory,
    order: MemoryOrder,
}

impl SortedMemory {
    pub fn new(memory: SortMemory) -> SortedMemory {
        SortedMemory { memory, order: MemoryOrder::default() }
    }
    pub fn into_memory(self) -> SortMemory {
        self.memory
    }
}

/// One of the sources of a merge.
pub(super) enum MergeSource {
    Memory(Box<SortedMemory>),
    Run(SpillFile, SpillCursor),
}

impl MergeSource {
    pub fn of_run(file: SpillFile, buffer_bytes: usize) -> MergeSource {
        MergeSource::Run(file, SpillCursor::new(buffer_bytes))
    }
    fn record(&self) -> &[u8] {
        match self {
            MergeSource::Memory(sorted) => sorted.order.record(&sorted.memory),
            MergeSource::Run(_, cursor) => cursor.record(),
        }
    }
}

fn key_of(record: &[u8]) -> &[u8] {
    &record[HEAD_BYTES..HEAD_BYTES + lengths(record).0]
}

/// Sources by the number of their first row among all, older ones first, or by the numbers of morsels that all rows end with.
pub(super) struct MergeSources {
    sources: Vec<MergeSource>,
    telling: TellingBytes,
    is_numbered: bool,
}

impl MergeSources {
    /// `telling`: what prefixes have of the keys; `is_numbered`: rows end with the numbers of their morsels.
    pub fn new(sources: Vec<MergeSource>, telling: TellingBytes, is_numbered: bool) -> MergeSources {
        MergeSources { sources, telling, is_numbered }
    }
    fn record(&self, source: u32) -> &[u8] {
        self.sources[source as usize].record()
    }
    /// Where the record stands among those with its key.
    fn arrival<'r>(&self, source: u32, record: &'r [u8]) -> (&'r [u8], u32) {
        let number = if self.is_numbered { &record[record.len() - NUMBER_BYTES..] } else { &[][..] };
        (number, source)
    }
}

impl SortedSources for MergeSources {
    fn count(&self) -> u32 {
        self.sources.len() as u32
    }
    fn next(&mut self, source: u32, io: SpillIo<'_>) -> Result<Option<u64>> {
        let source = &mut self.sources[source as usize];
        let is_there = match source {
            MergeSource::Memory(sorted) => sorted.order.advance(&sorted.memory, io)?,
            MergeSource::Run(file, cursor) => cursor.advance(file, io)?,
        };
        Ok(is_there.then(|| self.telling.prefix_of(key_of(source.record()))))
    }
    fn comes_first(&self, a: u32, b: u32) -> bool {
        let (of_a, of_b) = (self.record(a), self.record(b));
        let arrival = || self.arrival(a, of_a).cmp(&self.arrival(b, of_b));
        key_of(of_a).cmp(key_of(of_b)).then_with(arrival) == Ordering::Less
    }
}

/// Sorted records, of which one is the present one.
pub(super) enum SortedRecords {
    Memory(SortedMemory),
    Merge(MergeSources, MergeOrder),
}

impl SortedRecords {
    pub fn of_merge(sources: MergeSources) -> SortedRecords {
        SortedRecords::Merge(sources, MergeOrder::default())
    }
    /// Moves to the next record; false at the end.
    pub fn advance(&mut self, io: SpillIo<'_>) -> Result<bool> {
        match self {
            SortedRecords::Memory(sorted) => sorted.order.advance(&sorted.memory, io),
            SortedRecords::Merge(sources, order) => order.advance(sources, io),
        }
    }
    pub fn record(&self) -> &[u8] {
        match self {
            SortedRecords::Memory(sorted) => sorted.order.record(&sorted.memory),
            SortedRecords::Merge(sources, order) => order.first().map_or(&[], |source| sources.record(source)),
        }
    }
}
