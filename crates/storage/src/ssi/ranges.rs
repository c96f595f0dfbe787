//! The key ranges of one index that were read: a line of segments, each with its readers.
//!
//! Invariants
//! 1. A segment reaches from its key up to the next segment's; below the first nobody has read.
//! 2. An entry put at a key concerns the readers of that key's segment and nobody else. Ranges are of keys, so what
//!    splits and merges do to pages means nothing to them.
//! 3. Once the last range is taken out, no segment is left.
//!
//! Must not know: pages, who conflicts with whom.

use super::Reader;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// A key with a row id, as entries are ordered.
pub(crate) type FullKey = (Vec<u8>, u64);
/// A range from the first key up to, but not including, the second, or to the end. It is never empty in the structures
/// below.
pub(crate) type KeyRange = (FullKey, Option<FullKey>);

#[derive(Default)]
pub(crate) struct RangeMap {
    segments: BTreeMap<FullKey, Vec<Arc<Reader>>>,
    /// Ranges of all readers; those of one reader that touch are one.
    ranges: usize,
}

fn same(a: &[Arc<Reader>], b: &[Arc<Reader>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
}
fn upper(to: &Option<FullKey>) -> Bound<&FullKey> {
    to.as_ref().map_or(Bound::Unbounded, Bound::Excluded)
}
pub(crate) fn is_empty((from, to): &KeyRange) -> bool {
    to.as_ref().is_some_and(|to| to <= from)
}

impl RangeMap {
    fn split(&mut self, at: &FullKey) {
        if !self.segments.contains_key(at) {
            let readers = self.readers_of(at).to_vec();
            self.segments.insert(at.clone(), readers);
        }
    }
    /// The reader has read this too. `joined`: its ranges that now are one with the new one.
    pub fn add(&mut self, reader: &Arc<Reader>, range: &KeyRange, joined: &[KeyRange]) {
        let (from, to) = range;
        self.split(from);
        if let Some(to) = to {
            self.split(to);
        }
        for (_, readers) in self.segments.range_mut((Bound::Included(from), upper(to))) {
            if !readers.iter().any(|r| Arc::ptr_eq(r, reader)) {
                readers.push(reader.clone());
            }
        }
        for (a, b) in joined.iter().chain([range]) {
            self.join_at(a);
            if let Some(b) = b {
                self.join_at(b);
            }
        }
        self.ranges = self.ranges + 1 - joined.len().min(self.ranges + 1);
    }
    /// Takes a border out if the same have read both sides.
    fn join_at(&mut self, at: &FullKey) {
        let before: &[Arc<Reader>] = self.segments.range(..at).next_back().map_or(&[], |(_, r)| r);
        if self.segments.get(at).is_some_and(|after| same(before, after)) {
            self.segments.remove(at);
        }
    }
    /// Takes out one of the reader's ranges, as it is after all joining.
    pub fn remove(&mut self, reader: &Arc<Reader>, (from, to): &KeyRange) {
        self.ranges = self.ranges.saturating_sub(1);
        if self.ranges == 0 {
            self.segments.clear();
            return;
        }
        for (_, readers) in self.segments.range_mut((Bound::Included(from), upper(to))) {
            readers.retain(|r| !Arc::ptr_eq(r, reader));
        }
        let with_end = to.as_ref().map_or(Bound::Unbounded, Bound::Included);
        let mut before: &[Arc<Reader>] = self.segments.range(..from).next_back().map_or(&[], |(_, r)| r);
        let mut needless = Vec::new();
        for (key, readers) in self.segments.range((Bound::Included(from), with_end)) {
            if same(before, readers) {
                needless.push(key.clone());
            }
            before = readers;
        }
        for key in needless {
            self.segments.remove(&key);
        }
    }
    /// The readers of the place where this entry goes.
    pub(crate) fn readers_of(&self, entry: &FullKey) -> &[Arc<Reader>] {
        self.segments.range(..=entry).next_back().map_or(&[], |(_, readers)| readers)
    }
}

/// A reader's own ranges of one index: apart from each other, those that touch are one.
#[derive(Default)]
pub(crate) struct OwnRanges {
    ranges: BTreeMap<FullKey, Option<FullKey>>,
}

fn reaches(to: &Option<FullKey>, key: &FullKey) -> bool {
    to.as_ref().is_none_or(|to| to >= key)
}

impl OwnRanges {
    pub fn len(&self) -> usize {
        self.ranges.len()
    }
    pub fn covers(&self, (from, to): &KeyRange) -> bool {
        match (self.ranges.range(..=from).next_back(), to) {
            (None, _) | (Some((_, Some(_))), None) => false,
            (Some((_, None)), _) => true,
            (Some((_, Some(end))), Some(to)) => to <= end,
        }
    }
    /// Adds a range; returns those that have become part of it.
    pub fn add(&mut self, range: &KeyRange) -> Vec<KeyRange> {
        let (mut from, mut to) = range.clone();
        let mut joined: Vec<KeyRange> = Vec::new();
        let before = self.ranges.range(..&from).next_back().filter(|(_, end)| reaches(end, &from));
        joined.extend(before.map(|(a, b)| (a.clone(), b.clone())));
        let after = self.ranges.range((Bound::Included(&from), Bound::Unbounded)).take_while(|(a, _)| reaches(&to, a));
        joined.extend(after.map(|(a, b)| (a.clone(), b.clone())));
        for (a, b) in &joined {
            self.ranges.remove(a);
            from = from.min(a.clone());
            to = match (to, b) {
                (Some(to), Some(b)) => Some(to.max(b.clone())),
                _ => None,
            };
        }
        self.ranges.insert(from, to);
        joined
    }
    pub fn iter(&self) -> impl Iterator<Item = KeyRange> + '_ {
        self.ranges.iter().map(|(a, b)| (a.clone(), b.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u64) -> FullKey {
        (vec![n as u8], 0)
    }

    /// Against a table of what each key's readers are.
    #[test]
    fn readers_are_those_of_the_ranges_over_the_key() {
        let readers: Vec<Arc<Reader>> = (0..4).map(|n| Arc::new(Reader::new(n + 1, n, false))).collect();
        let mut seed = 88_172_645_463_325_252u64;
        let mut next = |n: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % n
        };
        for round in 0..300 {
            let mut map = RangeMap::default();
            let mut own: Vec<OwnRanges> = (0..4).map(|_| OwnRanges::default()).collect();
            let mut model = [[false; 4]; 40];
            for _ in 0..30 {
                let who = next(4) as usize;
                let (a, b) = (next(39), next(41));
                let range = (key(a), (b < 40).then(|| key(b)));
                if b <= a {
                    continue;
                }
                model[a as usize..b.min(40) as usize].iter_mut().for_each(|k| k[who] = true);
                if !own[who].covers(&range) {
                    let joined = own[who].add(&range);
                    map.add(&readers[who], &range, &joined);
                }
                if next(6) == 0 {
                    let who = next(4) as usize;
                    std::mem::take(&mut own[who]).iter().for_each(|r| map.remove(&readers[who], &r));
                    model.iter_mut().for_each(|k| k[who] = false);
                }
                for (n, expected) in model.iter().enumerate() {
                    let found = map.readers_of(&(vec![n as u8], 7));
                    let there: Vec<bool> =
                        readers.iter().map(|reader| found.iter().any(|r| Arc::ptr_eq(r, reader))).collect();
                    assert_eq!(there, expected, "round {round} key {n}");
                }
                assert_eq!(map.ranges, own.iter().map(OwnRanges::len).sum::<usize>());
            }
            for (who, own) in own.iter().enumerate() {
                own.iter().for_each(|r| map.remove(&readers[who], &r));
            }
            assert!(map.segments.is_empty());
        }
    }
}
