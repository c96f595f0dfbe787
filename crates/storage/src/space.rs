//! The free pages of the address space. They are computed at the start and never stored.
//!
//! Free pages that lie side by side are one range. A request takes the beginning of the lowest of the smallest ranges
//! that have room for it: what is used lies close together, as huge pages want it (`buffer::dense`), and what many
//! small relations leave behind is there for large ones. What stays free goes back to the file system: then it is a hole
//! in the file of pages, and must be filled before it is given out.
//!
//! Invariants
//! 1. Ranges neither overlap nor touch each other, and end before [`Space::end`]; they are aligned to nothing.
//! 2. Page 0 is never given out.
//! 3. Holes are free. After a start nobody knows where they are, so all that is free counts as one: to fill what is
//!    none costs little.
//!
//! Must not know: who uses the pages.

use kilndb_base::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) const MAX_EXTENT: u32 = 1024;
/// The number of size classes; the largest class has all ranges from its size on.
const CLASSES: usize = 11;

#[derive(Default)]
pub struct Space {
    /// The free ranges: number of pages by first page.
    free: BTreeMap<u32, u32>,
    /// First pages of the ranges that have 2^class pages or more, but fewer than the next class's.
    by_class: [BTreeSet<u32>; CLASSES],
    /// The first page that was never given out.
    end: u32,
    limit: u32,
    holes: FileHoles,
    free_pages: u64,
}

/// Ranges with fewer pages are not made a hole.
const SMALLEST_HOLE: u32 = 64;
/// Pages of one call to the file system at most: 128 MB.
const LARGEST_HOLE: u32 = 16384;
/// Pages that are filled together, if so many are free.
const FILLED_AT_ONCE: u32 = 256;

/// Ranges of pages that the file does not have room for: pages by first page, none touching the next.
#[derive(Default)]
struct FileHoles {
    ranges: BTreeMap<u32, u32>,
    pages: u64,
}

impl FileHoles {
    fn add(&mut self, start: u32, pages: u32) {
        let before = self.ranges.range(..start).next_back().map(|(s, n)| (*s, *n));
        let start = match before {
            Some((s, n)) if s + n == start => {
                self.ranges.insert(s, n + pages);
                s
            }
            _ => {
                self.ranges.insert(start, pages);
                start
            }
        };
        self.pages += u64::from(pages);
        let len = self.ranges[&start];
        if let Some(next) = self.ranges.remove(&(start + len)) {
            self.ranges.insert(start, len + next);
        }
    }
    /// The first range that has something of `start..end`, cut to that.
    fn first_in(&self, start: u32, end: u32) -> Option<(u32, u32)> {
        let before = self.ranges.range(..=start).next_back();
        let found = before.filter(|(s, n)| *s + *n > start).or_else(|| self.ranges.range(start..end).next());
        found.map(|(s, n)| ((*s).max(start), (*s + *n).min(end)))
    }
    fn remove(&mut self, start: u32, end: u32) {
        while let Some((from, to)) = self.first_in(start, end) {
            let Some((&s, &n)) = self.ranges.range(..=from).next_back() else { return };
            self.ranges.remove(&s);
            self.pages -= u64::from(to - from);
            if s < from {
                self.ranges.insert(s, from - s);
            }
            if to < s + n {
                self.ranges.insert(to, s + n - to);
            }
        }
    }
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
    /// Builds the free ranges from those in use: the gaps are free, and so are the file's pages behind the last one.
    pub(crate) fn rebuild(limit: u32, file_pages: u32, used: &BTreeMap<u32, u32>) -> Result<Space> {
        let mut space = Space::new(limit);
        for (&start, &len) in used {
            if start < space.end {
                return Err(Error::corrupted(format!("page {start} is covered by two extents")));
            }
            space.leave_out(start);
            space.end = start + len;
        }
        space.leave_out(file_pages.min(limit));
        Ok(space)
    }
    /// Notes that all pages up to `next` are free. They count as holes, since it is not known which the file has room
    /// for.
    fn leave_out(&mut self, next: u32) {
        if next > self.end {
            self.holes.add(self.end, next - self.end);
            self.add(self.end, next - self.end);
            self.end = next;
        }
    }
    /// `pages`: a power of two up to [`MAX_EXTENT`]. `fill` makes the file have room for so many pages from there on;
    /// what is beyond all pages ever given out is not asked for.
    pub fn take(&mut self, pages: u32, fill: &mut dyn FnMut(u32, u32) -> Result<()>) -> Result<u32> {
        assert!(pages.is_power_of_two() && pages <= MAX_EXTENT);
        if let Some(start) = (class_of(pages)..CLASSES).find_map(|class| self.by_class[class].first().copied()) {
            if self.holes.first_in(start, start + pages).is_some() {
                let more = self.free.get(&start).map_or(pages, |len| pages.max(FILLED_AT_ONCE).min(*len));
                fill(start, more)?;
                self.holes.remove(start, start + more);
            }
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
    /// Takes out a range that may become a hole: first page, pages. The caller makes it one, and tells
    /// [`Space::returned`]. None: no more than `kept` pages are free and no holes, or those that are lie scattered.
    pub(crate) fn take_for_hole(&mut self, kept: u64) -> Option<(u32, u32)> {
        if self.free_pages - self.holes.pages < kept + u64::from(SMALLEST_HOLE) {
            return None;
        }
        // Holes are made from the end on, because the beginning is given out first.
        let large = self.free.iter().rev().filter(|(_, len)| **len >= SMALLEST_HOLE);
        let (start, pages) = large.flat_map(|(start, len)| self.filled_in(*start, *start + *len)).next()?;
        let pages = pages.min(LARGEST_HOLE);
        let (&first, _) = self.free.range(..=start).next_back()?;
        let len = self.remove(first);
        self.add(first, start - first);
        self.add(start + pages, first + len - start - pages);
        Some((start, pages))
    }
    /// The parts of a free range that are no holes, and large enough to become some.
    fn filled_in(&self, start: u32, end: u32) -> Vec<(u32, u32)> {
        let (mut parts, mut at) = (Vec::new(), start);
        while at < end {
            let (from, to) = self.holes.first_in(at, end).unwrap_or((end, end));
            if from - at >= SMALLEST_HOLE {
                parts.push((at, from - at));
            }
            at = to;
        }
        parts
    }
    /// The range that [`Space::take_for_hole`] has given is free again; `is_hole`: and the file has no room for it.
    pub fn returned(&mut self, start: u32, pages: u32, is_hole: bool) {
        if is_hole {
            self.holes.add(start, pages);
        }
        self.give(start, pages);
    }
    fn add(&mut self, start: u32, pages: u32) {
        if pages > 0 {
            self.free_pages += u64::from(pages);
            self.free.insert(start, pages);
            self.by_class[class_of(pages)].insert(start);
        }
    }
    /// Removes a range; the number of pages that it had.
    fn remove(&mut self, start: u32) -> u32 {
        let pages = self.free.remove(&start).unwrap_or(0);
        assert!(pages > 0 && self.by_class[class_of(pages)].remove(&start), "no range begins at page {start}");
        self.free_pages -= u64::from(pages);
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
                let start = space.take(pages, &mut |_, _| Ok(())).expect("there is room");
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
        let again = Space::rebuild(1 << 20, 0, &used).expect("no overlaps");
        assert!(again.end <= space.end && again.free.iter().all(|(start, len)| space.free.get(start) == Some(len)));
        for (start, pages) in std::mem::take(&mut used) {
            space.give(start, pages);
        }
        assert_eq!(space.free.len(), 1, "all of it is one range again");
        assert_eq!(space.take(1024, &mut |_, _| Ok(())).expect("there is room"), 1, "the lowest page");
    }

    /// Fills the holes within pages that are given out, and makes holes of pages that stay free, except for a reserve.
    #[test]
    fn holes_are_filled_before_they_are_given_out() {
        let mut rng = 7u64;
        let mut random = |below: u64| {
            rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (rng >> 33) % below
        };
        let mut space = Space::new(1 << 20);
        let (mut is_hole, mut used) = (vec![false; 1 << 20], BTreeMap::new());
        let mut made = 0u64;
        for round in 0..200 {
            for _ in 0..200 {
                if used.is_empty() || random(100) < if round / 10 % 2 == 0 { 70 } else { 30 } {
                    let pages = 1 << random(11);
                    let fill = &mut |start: u32, pages: u32| {
                        is_hole[start as usize..(start + pages) as usize].fill(false);
                        Ok(())
                    };
                    let Ok(start) = space.take(pages, fill) else { continue };
                    let given = &is_hole[start as usize..(start + pages) as usize];
                    assert!(!given.contains(&true), "pages from {start} have no room");
                    used.insert(start, pages);
                } else {
                    let at = *used.keys().nth(random(used.len() as u64) as usize).expect("one of them");
                    let pages = used.remove(&at).expect("it is there");
                    space.give(at, pages);
                }
            }
            while let Some((start, pages)) = space.take_for_hole(8192) {
                let succeeds = random(10) > 0;
                if succeeds {
                    let hole = &mut is_hole[start as usize..(start + pages) as usize];
                    assert!(!hole.contains(&true), "it was one");
                    hole.fill(true);
                    made += u64::from(pages);
                }
                space.returned(start, pages, succeeds);
                if !succeeds {
                    break;
                }
            }
            assert_eq!(space.holes.pages, is_hole.iter().filter(|h| **h).count() as u64);
            assert_eq!(space.free_pages, space.free.values().map(|n| u64::from(*n)).sum::<u64>());
        }
        assert!(made > 100_000, "only {made} pages became holes");
    }

    #[test]
    fn small_requests_go_where_large_ones_do_not_fit() {
        let used = BTreeMap::from([(1, 9), (12, 8), (52, 8)]);
        let mut space = Space::rebuild(100, 0, &used).expect("no overlaps");
        assert_eq!(
            [1, 8, 1, 16].map(|pages| space.take(pages, &mut |_, _| Ok(())).expect("there is room")),
            [10, 20, 11, 28]
        );
        assert!(space.take(64, &mut |_, _| Ok(())).is_err(), "the address space ends");
        assert!(Space::rebuild(100, 0, &BTreeMap::from([(1, 9), (8, 2)])).is_err(), "overlaps");
        let mut unknown = Space::unknown();
        unknown.give(5, 4);
        assert!(unknown.take(1, &mut |_, _| Ok(())).is_err(), "nobody knows what is free");
    }
}
