//! Records in memory, and their sorting.

use super::keys::TellingBytes;
use crate::file::{HEAD_BYTES, SpillIo, append_record, lengths};
use kilndb_base::Result;
use kilndb_types::Datum;
use std::ops::Range;

/// Entries sorted, or dealt out, without a look at the time slice.
pub(super) const SEGMENT: usize = 16 * 1024;
/// Fewer entries than this are not dealt out: comparing is faster.
const DEALT_MIN: usize = 1024;
/// Entries are dealt out by so many bits at once.
const RADIX_BITS: u32 = 8;

#[derive(Clone, Copy)]
pub(super) struct SortEntry {
    /// Eight bytes of the key, as a number that orders like them.
    pub prefix: u64,
    pub block: u32,
    pub at: u32,
}

/// The records that are held in memory.
#[derive(Default)]
pub(super) struct SortMemory {
    blocks: Vec<Vec<u8>>,
    pub entries: Vec<SortEntry>,
    pub bytes: usize,
    /// The length of all keys, if it is the same.
    uniform: Option<usize>,
    /// What the entries' prefixes have.
    pub telling: Option<TellingBytes>,
    /// Once sorted, the groups of entries in their order. One of more than [`SEGMENT`] entries, whose prefixes are all the
    /// same, consists of segments that are still to be merged.
    pub groups: Vec<Range<usize>>,
}

impl SortMemory {
    pub fn record(&self, e: SortEntry) -> &[u8] {
        let from = &self.blocks[e.block as usize][e.at as usize..];
        let (key, row) = lengths(from);
        &from[..HEAD_BYTES + key + row]
    }
    pub fn key(&self, e: SortEntry) -> &[u8] {
        let from = &self.blocks[e.block as usize][e.at as usize..];
        &from[HEAD_BYTES..HEAD_BYTES + lengths(from).0]
    }
    /// Where the record lies, for who wants it on its way to the processor's cache.
    pub fn address(&self, e: SortEntry) -> usize {
        self.blocks[e.block as usize].as_ptr() as usize + e.at as usize
    }
    /// Is the prefix all of the key that is not the same in all keys?
    fn is_short(&self) -> bool {
        self.uniform.is_some() && self.telling.is_some_and(|telling| !telling.has_more)
    }
    /// `tail`: what the row ends with, behind its values.
    pub fn push(&mut self, key: &[u8], (values, tail): (&[Datum], &[u8]), block_bytes: usize) -> Result<()> {
        if self.blocks.last().is_none_or(|b| b.len() >= block_bytes) {
            self.blocks.push(Vec::new());
        }
        let number = self.blocks.len() - 1;
        let block = &mut self.blocks[number];
        let at = block.len();
        append_record(block, key, (values, tail))?;
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
    pub fn sort(&mut self, telling: TellingBytes, io: SpillIo<'_>) -> Result<()> {
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
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
    pub fn clear(&mut self) {
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
