//! The entries of one index that an UPDATE of many rows replaces, gathered so that they are changed in the order of their
//! keys.
//!
//! Invariants
//! 1. Once it is sorted, the smallest entry that is left comes first, of equal ones the one that is retired.
//!
//! Must not know: the index, what keys mean.

use kilndb_base::RowId;
use kilndb_base::bytes::first_word;
use std::cmp::Ordering;

/// Keys with the rows that have them.
#[derive(Default)]
struct EntryRun {
    bytes: Vec<u8>,
    entries: Vec<GatheredEntry>,
    next: usize,
}

const HEAD_BYTES: u32 = 8;

#[derive(Clone, Copy)]
struct GatheredEntry {
    /// The first bytes of the key as a number: most comparisons end there.
    head: u64,
    rid: u64,
    start: u32,
    len: u32,
}

impl EntryRun {
    fn push(&mut self, key: &[u8], rid: RowId) {
        let (start, len) = (self.bytes.len() as u32, key.len() as u32);
        self.entries.push(GatheredEntry { head: first_word(key), rid: rid.to_u64(), start, len });
        self.bytes.extend_from_slice(key);
    }
    fn key(&self, entry: &GatheredEntry) -> &[u8] {
        self.bytes.get(entry.start as usize..(entry.start + entry.len) as usize).unwrap_or(&[])
    }
    fn sort(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.sort_unstable_by(|a, b| self.compare(a, (self, b)));
        self.entries = entries;
    }
    /// Compares an entry with one of this run or another.
    fn compare(&self, a: &GatheredEntry, (other, b): (&EntryRun, &GatheredEntry)) -> Ordering {
        let by_rest = || match a.len.min(b.len) {
            // The bytes behind a short key count as zeros in its head: the heads are the same, so one key begins with
            // the other.
            0..=HEAD_BYTES => a.len.cmp(&b.len),
            _ => self.key(a).cmp(other.key(b)),
        };
        a.head.cmp(&b.head).then_with(by_rest).then(a.rid.cmp(&b.rid))
    }
    fn first(&self) -> Option<&GatheredEntry> {
        self.entries.get(self.next)
    }
    fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.next = 0;
    }
}

/// What is to be done with an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EntryChange {
    Retire,
    Insert,
}

/// The entries that rows no longer have, and those that they have instead, of an index that is not unique: their keys are
/// as the index keeps them, and no row has one that stays. The rows are
/// changed already. Memory: [`EntryChanges::size_bytes`].
#[derive(Default)]
pub struct EntryChanges {
    retired: EntryRun,
    new: EntryRun,
}

impl EntryChanges {
    pub fn retire(&mut self, key: &[u8], rid: RowId) {
        self.retired.push(key, rid);
    }
    pub fn insert(&mut self, key: &[u8], rid: RowId) {
        self.new.push(key, rid);
    }
    pub fn is_empty(&self) -> bool {
        self.retired.entries.is_empty() && self.new.entries.is_empty()
    }
    pub fn len(&self) -> usize {
        self.retired.entries.len() + self.new.entries.len()
    }
    /// How many entries have been inserted.
    pub fn inserted(&self) -> u64 {
        self.new.next as u64
    }
    pub fn size_bytes(&self) -> usize {
        let of_run = |run: &EntryRun| run.bytes.len() + run.entries.len() * size_of::<GatheredEntry>();
        of_run(&self.retired) + of_run(&self.new)
    }
    /// To be called before the changes are made, once all are gathered.
    pub fn sort(&mut self) {
        self.retired.sort();
        self.new.sort();
    }
    /// All of them are made.
    pub fn is_done(&self) -> bool {
        self.next().is_none()
    }
    pub fn clear(&mut self) {
        self.retired.clear();
        self.new.clear();
    }
    /// The next change: what, the key, the row.
    pub(crate) fn next(&self) -> Option<(EntryChange, &[u8], u64)> {
        let (retired, new) = (self.retired.first(), self.new.first());
        let is_retired_first = match (retired, new) {
            (Some(old), Some(new)) => self.retired.compare(old, (&self.new, new)).is_le(),
            (old, _) => old.is_some(),
        };
        match is_retired_first {
            true => retired.map(|entry| (EntryChange::Retire, self.retired.key(entry), entry.rid)),
            false => new.map(|entry| (EntryChange::Insert, self.new.key(entry), entry.rid)),
        }
    }
    /// The change that [`EntryChanges::next`] tells is made.
    pub(crate) fn advance(&mut self, made: EntryChange) {
        match made {
            EntryChange::Retire => self.retired.next += 1,
            EntryChange::Insert => self.new.next += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_in_the_order_of_their_keys() {
        let rid = |slot| RowId { block: 1, slot };
        let mut changes = EntryChanges::default();
        for (key, slot) in [(&b"b"[..], 2), (b"a", 1), (b"a\0", 1), (b"12345678x", 1), (b"12345678", 9)] {
            changes.retire(key, rid(slot));
        }
        for (key, slot) in [(&b"b"[..], 2), (b"b", 1), (b"c", 3)] {
            changes.insert(key, rid(slot));
        }
        changes.sort();
        let mut order = Vec::new();
        while let Some((what, key, rid)) = changes.next() {
            order.push((what, key.to_vec(), rid & 0xff));
            changes.advance(what);
        }
        let keys: Vec<_> = order.iter().map(|(_, key, _)| &key[..]).collect();
        assert_eq!(keys, [&b"12345678"[..], b"12345678x", b"a", b"a\0", b"b", b"b", b"b", b"c"]);
        let what: Vec<_> = order[4..].iter().map(|(what, ..)| *what).collect();
        assert_eq!(what, [EntryChange::Insert, EntryChange::Retire, EntryChange::Insert, EntryChange::Insert]);
        assert!(changes.is_done() && !changes.is_empty());
        changes.clear();
        assert!(changes.is_empty() && changes.size_bytes() == 0);
    }
}
