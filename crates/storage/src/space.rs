//! Which pages of the address space are free. Computed at start, never stored.
//!
//! Invariants
//! 1. A range is a power of two of pages and aligned to nothing; ranges never overlap.
//! 2. Page 0 is never given out.
//!
//! Must not know: who uses the pages.

use kilndb_base::{Error, Result};
use std::collections::BTreeMap;

pub const MAX_EXTENT: u32 = 1024;
const CLASSES: usize = 11;

#[derive(Default)]
pub struct Space {
    free: [Vec<u32>; CLASSES],
    /// First page never given out.
    end: u32,
    limit: u32,
}

fn class_of(pages: u32) -> usize {
    assert!(pages.is_power_of_two() && pages <= MAX_EXTENT);
    pages.trailing_zeros() as usize
}

impl Space {
    pub fn new(limit: u32) -> Space {
        Space { free: Default::default(), end: 1, limit }
    }
    /// From the ranges in use: the gaps are free.
    pub fn rebuild(limit: u32, used: &BTreeMap<u32, u32>) -> Result<Space> {
        let mut space = Space::new(limit);
        for (&start, &len) in used {
            if start < space.end {
                return Err(Error::corrupted(format!("page {start} is covered by two extents")));
            }
            space.give_range(space.end, start);
            space.end = start + len;
        }
        Ok(space)
    }
    fn give_range(&mut self, mut from: u32, to: u32) {
        while from < to {
            let class = (to - from).ilog2().min(CLASSES as u32 - 1);
            self.free[class as usize].push(from);
            from += 1 << class;
        }
    }
    pub fn take(&mut self, pages: u32) -> Result<u32> {
        let class = class_of(pages);
        for c in class..CLASSES {
            if let Some(start) = self.free[c].pop() {
                for half in (class..c).rev() {
                    self.free[half].push(start + (1 << half));
                }
                return Ok(start);
            }
        }
        let start = self.end;
        if u64::from(start) + u64::from(pages) > u64::from(self.limit) {
            return Err(Error::new(kilndb_base::sqlstate::DISK_FULL, "the address space of the data file is full"));
        }
        self.end += pages;
        Ok(start)
    }
    pub fn give(&mut self, start: u32, pages: u32) {
        self.free[class_of(pages)].push(start);
    }
}
