//! A Bloom filter of hashed keys: says of most keys that are not in a set that they are not.
//!
//! The filter is blocked (Putze, Sanders, Singler: Cache-, Hash- and Space-Efficient Bloom Filters, 2007): all bits of a key
//! are in one cache line, so that a look-up costs one miss.
//!
//! Invariants
//! 1. A hash that was added is found.
//!
//! Must not know: what keys are made of, where they are.

use super::hash::{ByteHasher, mixed};

/// With ten bits for a key and six of them set, about one key in seventy is found that was never added.
const BITS_PER_KEY: usize = 10;
const BITS_SET: u32 = 6;
const LINE_WORDS: usize = 8;
const LINE_BYTES: usize = LINE_WORDS * 8;
/// A bit's place in its line: nine bits of the hash.
const PLACE_BITS: u32 = (LINE_BYTES * 8).trailing_zeros();

#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Line([u64; LINE_WORDS]);

pub struct KeyFilter {
    lines: Vec<Line>,
}

impl KeyFilter {
    /// A filter for so many keys that takes at most `limit_bytes` (a line at least): too little room makes it say less.
    pub fn new(keys: usize, limit_bytes: usize) -> KeyFilter {
        let wanted = keys.saturating_mul(BITS_PER_KEY) / 8;
        KeyFilter { lines: vec![Line::default(); (wanted.min(limit_bytes) / LINE_BYTES).max(1)] }
    }
    /// The number of a hash's line, and what gives the places in it.
    fn line_and_places(&self, hash: u64) -> (usize, u64) {
        let of_line = mixed(hash);
        let line = ((u128::from(of_line) * self.lines.len() as u128) >> u64::BITS) as usize;
        // The places must not depend on the bits that have chosen the line.
        (line, mixed(of_line))
    }
    pub fn add(&mut self, hash: u64) {
        let (line, places) = self.line_and_places(hash);
        for n in 0..BITS_SET {
            let (word, bit) = place(places, n);
            self.lines[line].0[word] |= bit;
        }
    }
    pub fn add_key(&mut self, key: &[u8]) {
        self.add(ByteHasher::hash_of(key));
    }
    /// False: the key was not added.
    pub fn may_have_key(&self, key: &[u8]) -> bool {
        self.may_contain(ByteHasher::hash_of(key))
    }
    /// False: the hash was not added.
    pub fn may_contain(&self, hash: u64) -> bool {
        let (line, places) = self.line_and_places(hash);
        let line = &self.lines[line].0;
        (0..BITS_SET).all(|n| {
            let (word, bit) = place(places, n);
            line[word] & bit != 0
        })
    }
}

/// The word and the bit in it of a key's n-th place.
fn place(places: u64, n: u32) -> (usize, u64) {
    let place = places >> (n * PLACE_BITS);
    ((place >> 6) as usize % LINE_WORDS, 1 << (place & 63))
}

#[cfg(test)]
mod tests {
    use super::super::hash::ByteHasher;
    use super::*;

    fn found(filter: &KeyFilter, keys: std::ops::Range<u64>) -> usize {
        keys.filter(|n| filter.may_contain(ByteHasher::hash_of(&n.to_be_bytes()))).count()
    }

    #[test]
    fn what_was_added_is_found_and_little_else() {
        let mut filter = KeyFilter::new(20_000, usize::MAX);
        (0..20_000u64).for_each(|n| filter.add(ByteHasher::hash_of(&n.to_be_bytes())));
        assert_eq!(found(&filter, 0..20_000), 20_000);
        let wrongly = found(&filter, 20_000..120_000);
        assert!((200..3_000).contains(&wrongly), "{wrongly} of 100,000");
    }

    #[test]
    fn a_filter_without_room_still_finds_what_was_added() {
        let mut filter = KeyFilter::new(20_000, 0);
        (0..20_000u64).for_each(|n| filter.add(ByteHasher::hash_of(&n.to_be_bytes())));
        assert_eq!(found(&filter, 0..20_000), 20_000);
        assert_eq!(found(&KeyFilter::new(0, 0), 0..100), 0);
    }
}
