//! Numbers by key, for tables of groups and of rows to be joined.
//!
//! Most keys are a number or two, or a short text: they are kept within the table, as one word each.

use super::hash::KeyMap;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Keys of so many bytes fit a word, beside their length.
const SHORT_BYTES_MAX: usize = 15;

#[derive(Default)]
pub(crate) struct KeyIndex {
    short: HashMap<u128, u32, BuildHasherDefault<WordHasher>>,
    long: KeyMap,
}

/// A hash of one word: both halves multiplied with one another, each changed by a constant before.
#[derive(Default)]
struct WordHasher(u64);

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.0 = self.0.rotate_left(5) ^ u64::from(*b));
    }
    fn write_u128(&mut self, word: u128) {
        let (low, high) = (word as u64 ^ 0x9e37_79b9_7f4a_7c15, (word >> 64) as u64 ^ 0xd6e8_feb8_6659_fd93);
        let product = u128::from(low) * u128::from(high);
        self.0 = (product as u64) ^ (product >> 64) as u64;
    }
}

/// None: the key is too long.
#[inline]
fn word_of(key: &[u8]) -> Option<u128> {
    if key.len() > SHORT_BYTES_MAX {
        return None;
    }
    let mut word = [0; 16];
    word[..key.len()].copy_from_slice(key);
    word[SHORT_BYTES_MAX] = key.len() as u8;
    Some(u128::from_le_bytes(word))
}

impl KeyIndex {
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<u32> {
        match word_of(key) {
            Some(word) => self.short.get(&word).copied(),
            None => self.long.get(key).copied(),
        }
    }
    /// The number that the key had before.
    pub fn insert(&mut self, key: &[u8], number: u32) -> Option<u32> {
        match word_of(key) {
            Some(word) => self.short.insert(word, number),
            None => match self.long.get_mut(key) {
                Some(known) => Some(std::mem::replace(known, number)),
                None => self.long.insert(key.into(), number),
            },
        }
    }
    pub fn len(&self) -> usize {
        self.short.len() + self.long.len()
    }
    pub fn clear(&mut self) {
        self.short.clear();
        self.long.clear();
    }
    /// All keys with their numbers, in no order.
    pub fn each(&self, mut f: impl FnMut(&[u8], u32)) {
        for (word, number) in &self.short {
            let bytes = word.to_le_bytes();
            f(&bytes[..usize::from(bytes[SHORT_BYTES_MAX])], *number);
        }
        self.long.iter().for_each(|(key, number)| f(key, *number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_all_lengths_are_told_apart() {
        let mut index = KeyIndex::default();
        let keys: Vec<Vec<u8>> =
            (0..40).flat_map(|len| [vec![0; len], vec![7; len], [vec![0; len], vec![1]].concat()]).collect();
        let mut known: Vec<&[u8]> = Vec::new();
        for (number, key) in keys.iter().enumerate() {
            let before = index.insert(key, number as u32);
            assert_eq!(before.is_some(), known.contains(&key.as_slice()), "{key:?}");
            known.push(key);
        }
        for key in &keys {
            let last = keys.iter().rposition(|k| k == key).map(|n| n as u32);
            assert_eq!(index.get(key), last);
        }
        assert_eq!(index.get(&[9]), None);
        let mut count = 0;
        index.each(|key, number| {
            assert_eq!(index.get(key), Some(number));
            count += 1;
        });
        known.sort();
        known.dedup();
        assert_eq!(count, known.len());
        index.clear();
        assert_eq!(index.get(&[0]), None);
    }
}
