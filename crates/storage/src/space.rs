//! Which pages of the address space are free. Computed at start, never stored.
//!
//! Free pages that lie side by side are one range. A request takes the beginning of the lowest of the smallest ranges
//! that have room for it: what is used lies close together, as huge pages want it (`buffer::dense`), and what many
//! small relations leave behind is there for large ones.
//!
//! Invariants
//! 1. Ranges neither overlap nor touch each other, and end before [`Space::end`]; they are aligned to nothing.
//! 2. Page 0 is never given out.
//!
//! Must not know: who uses the pages.

use kilndb_base::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

pub const MAX_EXTENT: u32 = 1024;
/// Of the largest belong ranges of any number of pages from there on.
const CLASSES: usize = 11;

#[derive(Default)]
pub struct Space {
    /// Pages by first page.
    free: BTreeMap<u32, u32>,
    /// First pages of the ranges that have 2^class pages or more, but fewer than the next class's.
    by_class: [BTreeSet<u32>; CLASSES],
    /// First page never given out.
    end: u32,
    limit: u32,
}

fn class_of(pages: u32) -> usize {
    (pages.ilog2() as usize).min(CLASSES - 1)
}

impl Space {
    pub fn new(limit: u32) -> Space {
        Space { end: 1, limit, ..Space::default() }
    }
    /// While the log is read nobody knows yet what is in use: nothing can be taken, and what is given back is not
    /// remembered.
    pub fn unknown() -> Space {
        Space::default()
    }
    /// From the ranges in use: the gaps are free.
    pub fn rebuild(limit: u32, used: &BTreeMap<u32, u32>) -> Result<Space> {
        let mut space = Space::new(limit);
        for (&start, &len) in used {
            if start < space.end {
                return Err(Error::corrupted(format!("page {start} is covered by two extents")));
            }
            space.add(space.end, start - space.end);
            space.end = start + len;
        }
        Ok(space)
    }
    /// `pages`: a power of two up to [`MAX_EXTENT`].
    pub fn take(&mut self, pages: u32) -> Result<u32> {
        assert!(pages.is_power_of_two() && pages <= MAX_EXTENT);
        if let Some(start) = (class_of(pages)..CLASSES).find_map(|class| self.by_class[class].first().copied()) {
            let len = self.remove(start);
            self.add(start + pages, len - pages);
            return Ok(start);
        }
        let start = self.end;
        if u64::from(start) + u64::from(pages) > u64::from(self.limit) {
            return Err(Error::new(kilndb_base::sqlstate::DISK_FULL, "the address space of the data file is full"));
        }
        self.end += pages;
        Ok(start)
    }
    pub fn give(&mut self, mut start: u32, mut pages: u32) {
        if self.end == 0 {
            return;
        }
        if let Some((&before, &len)) = self.free.range(..start).next_back() {
            assert!(before + len <= start, "page {start} was free");
            if before + len == start {
                pages += self.remove(before);
                start = before;
            }
        }
        let next = start + pages;
        assert!(next <= self.end && self.free.range(start..next).next().is_none(), "pages from {start} were free");
        if self.free.contains_key(&next) {
            pages += self.remove(next);
        }
        self.add(start, pages);
    }
    fn add(&mut self, start: u32, pages: u32) {
        if pages > 0 {
            self.free.insert(start, pages);
            self.by_class[class_of(pages)].insert(start);
        }
    }
    /// How many pages the range had.
    fn remove(&mut self, start: u32) -> u32 {
        let pages = self.free.remove(&start).unwrap_or(0);
        assert!(pages > 0 && self.by_class[class_of(pages)].remove(&start), "no range begins at page {start}");
        pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a table of pages: nothing is given out twice, neighbours are one range, a restart finds the same.
    #[test]
    fn what_is_given_back_is_found_again() {
        let mut state = 7u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let (mut space, mut used) = (Space::new(1 << 20), BTreeMap::new());
        let mut owned = vec![false; 1 << 20];
        owned[0] = true;
        for round in 0..20_000 {
            if used.is_empty() || random(100) < if round / 2_000 % 2 == 0 { 60 } else { 40 } {
                let pages = 1 << random(7);
                let start = space.take(pages).expect("there is room");
                for page in start..start + pages {
                    assert!(!std::mem::replace(&mut owned[page as usize], true), "page {page} was given out twice");
                }
                used.insert(start, pages);
            } else {
                let at = *used.keys().nth(random(used.len() as u64) as usize).expect("one of them");
                let pages = used.remove(&at).expect("it is there");
                owned[at as usize..(at + pages) as usize].fill(false);
                space.give(at, pages);
            }
            let free: u32 = space.free.values().sum();
            assert_eq!(used.values().sum::<u32>() + free + 1, space.end);
            assert!(
                space.free.iter().zip(space.free.iter().skip(1)).all(|((a, len), (b, _))| a + len < *b),
                "neighbours are one"
            );
        }
        let again = Space::rebuild(1 << 20, &used).expect("no overlaps");
        assert!(again.end <= space.end && again.free.iter().all(|(start, len)| space.free.get(start) == Some(len)));
        for (start, pages) in std::mem::take(&mut used) {
            space.give(start, pages);
        }
        assert_eq!(space.free.len(), 1, "all of it is one range again");
        assert_eq!(space.take(1024).expect("there is room"), 1, "the lowest page");
    }

    #[test]
    fn small_requests_go_where_large_ones_do_not_fit() {
        let used = BTreeMap::from([(1, 9), (12, 8), (52, 8)]);
        let mut space = Space::rebuild(100, &used).expect("no overlaps");
        assert_eq!([1, 8, 1, 16].map(|pages| space.take(pages).expect("there is room")), [10, 20, 11, 28]);
        assert!(space.take(64).is_err(), "the address space ends");
        assert!(Space::rebuild(100, &BTreeMap::from([(1, 9), (8, 2)])).is_err(), "overlaps");
        let mut unknown = Space::unknown();
        unknown.give(5, 4);
        assert!(unknown.take(1).is_err(), "nobody knows what is free");
    }
}
