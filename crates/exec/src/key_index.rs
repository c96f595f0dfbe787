//! Numbers by key, for tables of groups and of rows to be joined.
//!
//! Most keys are a number or two, or a short text: they are kept within the table, as one word each. The keys of a batch
//! of rows ([`KeyBatch`]) are looked for together, so that the processor fetches the table's lines for many of them at once:
//! a large table is in no cache.
//!
//! Invariants
//! 1. A key of at most [`SHORT_BYTES_MAX`] bytes is a word, and never among the long ones.
//! 2. No word is 0, which stands for a free slot, and for a row that has no key.
//! 3. At least a quarter of the slots is free, so that each search ends.

use super::hash::{ENTRY_BYTES, KeyMap};
use kilndb_base::prefetch;
use kilndb_base::{Oid, Result};
use kilndb_types::vector::Vector;

/// Keys of so many bytes fit a word, beside their length.
const SHORT_BYTES_MAX: usize = 15;
/// The slots of so many keys are fetched before the first of them is looked at.
const FETCHED_AHEAD: usize = 32;
/// Stands for no number.
pub(crate) const NO_NUMBER: u32 = u32::MAX;
/// A table of more slots is given back when it is cleared.
const KEPT_SLOTS_MAX: usize = 1024;
const SLOTS_MIN: usize = 16;
/// The last byte of a word: one more than the number of bytes before it that are the key.
const LENGTH_SHIFT: u32 = 120;
/// In place of the length, in a [`KeyBatch`]: the word says where the long key is.
const IS_LONG: u8 = u8::MAX;

/// None: the key is too long.
#[inline]
fn word_of(key: &[u8]) -> Option<u128> {
    if key.len() > SHORT_BYTES_MAX {
        return None;
    }
    let mut word = [0; 16];
    word[..key.len()].copy_from_slice(key);
    word[SHORT_BYTES_MAX] = key.len() as u8 + 1;
    Some(u128::from_le_bytes(word))
}

/// The key that a word is, in `bytes`.
fn key_in(bytes: &[u8; 16]) -> &[u8] {
    &bytes[..usize::from(bytes[SHORT_BYTES_MAX]).saturating_sub(1).min(SHORT_BYTES_MAX)]
}

/// Does a word of a [`KeyBatch`] stand for a long key?
#[inline]
fn is_long(word: u128) -> bool {
    (word >> LENGTH_SHIFT) as u8 == IS_LONG
}

/// A hash of one word: both halves multiplied with one another, each changed by a constant before.
#[inline]
fn hash_of(word: u128) -> usize {
    let (low, high) = (word as u64 ^ 0x9e37_79b9_7f4a_7c15, (word >> 64) as u64 ^ 0xd6e8_feb8_6659_fd93);
    let product = u128::from(low) * u128::from(high);
    ((product as u64) ^ (product >> 64) as u64) as usize
}

/// Words with their numbers, in slots that are looked at one after the other from the one that the hash says.
#[derive(Default)]
struct WordTable {
    words: Vec<u128>,
    numbers: Vec<u32>,
    count: usize,
}

impl WordTable {
    /// Where the word is, or the free slot where it belongs. There are slots.
    #[inline]
    fn slot(&self, word: u128) -> usize {
        let mask = self.words.len() - 1;
        let mut at = hash_of(word) & mask;
        while self.words[at] != word && self.words[at] != 0 {
            at = (at + 1) & mask;
        }
        at
    }
    #[inline]
    fn get(&self, word: u128) -> Option<u32> {
        if self.count == 0 {
            return None;
        }
        let at = self.slot(word);
        (self.words[at] == word).then(|| self.numbers[at])
    }
    #[inline]
    fn insert(&mut self, word: u128, number: u32) -> Option<u32> {
        if (self.count + 1) * 4 > self.words.len() * 3 {
            self.grow();
        }
        let at = self.slot(word);
        if self.words[at] == word {
            return Some(std::mem::replace(&mut self.numbers[at], number));
        }
        (self.words[at], self.numbers[at]) = (word, number);
        self.count += 1;
        None
    }
    #[cold]
    fn grow(&mut self) {
        let slots = (self.words.len() * 2).max(SLOTS_MIN);
        let words = std::mem::replace(&mut self.words, vec![0; slots]);
        let numbers = std::mem::replace(&mut self.numbers, vec![0; slots]);
        for (word, number) in words.into_iter().zip(numbers).filter(|(word, _)| *word != 0) {
            let at = self.slot(word);
            (self.words[at], self.numbers[at]) = (word, number);
        }
    }
    /// Asks for the memory of a word's slot.
    #[inline]
    fn fetch(&self, word: u128) {
        if let Some(at) = hash_of(word).checked_rem(self.words.len()) {
            prefetch::fetch(self.words.as_ptr() as usize + at * size_of::<u128>());
            prefetch::fetch(self.numbers.as_ptr() as usize + at * size_of::<u32>());
        }
    }
    fn clear(&mut self) {
        if self.words.len() > KEPT_SLOTS_MAX {
            *self = WordTable::default();
        }
        self.forget();
    }
    fn forget(&mut self) {
        self.words.fill(0);
        self.count = 0;
    }
}

#[derive(Default)]
pub(crate) struct KeyIndex {
    short: WordTable,
    long: KeyMap,
}

impl KeyIndex {
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<u32> {
        match word_of(key) {
            Some(word) => self.short.get(word),
            None => self.long.get(key).copied(),
        }
    }
    /// The number that the key had before.
    pub fn insert(&mut self, key: &[u8], number: u32) -> Option<u32> {
        match word_of(key) {
            Some(word) => self.short.insert(word, number),
            None => self.insert_long(key, number),
        }
    }
    fn insert_long(&mut self, key: &[u8], number: u32) -> Option<u32> {
        match self.long.get_mut(key) {
            Some(known) => Some(std::mem::replace(known, number)),
            None => self.long.insert(key.into(), number),
        }
    }
    /// The number of a batch's key. None: there is no such key, or the row has none.
    #[inline]
    pub fn get_of(&self, keys: &KeyBatch, at: usize) -> Option<u32> {
        match keys.words[at] {
            0 => None,
            word if is_long(word) => self.long.get(keys.long(word)).copied(),
            word => self.short.get(word),
        }
    }
    /// As [`KeyIndex::insert`], of a key that the row has.
    #[inline]
    pub fn insert_of(&mut self, keys: &KeyBatch, at: usize, number: u32) -> Option<u32> {
        match keys.words[at] {
            word if is_long(word) => self.insert_long(keys.long(word), number),
            word => self.short.insert(word, number),
        }
    }
    /// Asks for the memory where a batch's keys are or belong, of those that come after `at`; to be called with each `at`.
    #[inline]
    pub fn fetch_ahead(&self, keys: &KeyBatch, at: usize) {
        if at.is_multiple_of(FETCHED_AHEAD) {
            let from = if at == 0 { 0 } else { at + FETCHED_AHEAD };
            let ahead = keys.words.iter().skip(from).take(at + 2 * FETCHED_AHEAD - from);
            ahead.for_each(|word| self.short.fetch(*word));
        }
    }
    /// The numbers of all of a batch's keys, [`NO_NUMBER`] for those that are not there.
    pub fn find(&self, keys: &KeyBatch, numbers: &mut Vec<u32>) {
        numbers.clear();
        for at in 0..keys.len() {
            self.fetch_ahead(keys, at);
            numbers.push(self.get_of(keys, at).unwrap_or(NO_NUMBER));
        }
    }
    pub fn len(&self) -> usize {
        self.short.count + self.long.len()
    }
    /// The memory of the slots, which is all that short keys take.
    pub fn slot_bytes(&self) -> usize {
        self.short.words.len() * (size_of::<u128>() + size_of::<u32>())
    }
    pub fn clear(&mut self) {
        self.short.clear();
        self.long.clear();
    }
    /// As [`KeyIndex::clear`], but keeps the room for as many keys as there were.
    pub fn forget(&mut self) {
        self.short.forget();
        self.long.clear();
    }
    /// Makes room for the keys of another index. Without that, keys that come in the order of their slots in another one would
    /// crowd into the first slots of this one.
    pub fn reserve(&mut self, other: &KeyIndex) {
        while (self.short.count + other.short.count + 1) * 4 > self.short.words.len() * 3 {
            self.short.grow();
        }
    }
    /// Calls `f` for all keys with their numbers, in no order, until it fails.
    pub fn try_each(&self, mut f: impl FnMut(&[u8], u32) -> Result<()>) -> Result<()> {
        for (word, number) in self.short.words.iter().zip(&self.short.numbers).filter(|(word, _)| **word != 0) {
            f(key_in(&word.to_le_bytes()), *number)?;
        }
        self.long.iter().try_for_each(|(key, number)| f(key, *number))
    }
}

/// The memory of a key in an index, with its part of the slots that are free.
pub(crate) fn entry_bytes(key_bytes: usize) -> usize {
    match long_key_bytes(key_bytes) {
        0 => 2 * (size_of::<u128>() + size_of::<u32>()) + 8,
        bytes => bytes,
    }
}
/// The memory of a key that is too long for a slot; 0 for others.
pub(crate) fn long_key_bytes(key_bytes: usize) -> usize {
    if key_bytes <= SHORT_BYTES_MAX { 0 } else { key_bytes + ENTRY_BYTES }
}

/// The keys of a batch of rows, one after the other.
#[derive(Default)]
pub(crate) struct KeyBatch {
    words: Vec<u128>,
    /// The bytes of keys that fit no word.
    long: Vec<u8>,
    /// The key at hand.
    key: Vec<u8>,
}

impl KeyBatch {
    pub fn len(&self) -> usize {
        self.words.len()
    }
    pub fn clear(&mut self) {
        self.words.clear();
        self.long.clear();
    }
    /// Appends a row that has no key.
    pub fn push_none(&mut self) {
        self.words.push(0);
    }
    pub fn is_none(&self, at: usize) -> bool {
        self.words[at] == 0
    }
    /// Appends the key of a row: a number of two bytes, if there is one, and the values of these columns, which have these
    /// types.
    #[inline]
    pub fn push(&mut self, head: Option<u16>, columns: &[(&Vector, Oid)], row: usize) -> Result<()> {
        let (mut word, mut len) = head.map_or((0, 0), |head| (u128::from(head), 2));
        for (column, ty) in columns {
            match column.short_key(*ty, row) {
                Some((bits, bytes)) if len + bytes <= SHORT_BYTES_MAX => {
                    word |= bits << (8 * len);
                    len += bytes;
                }
                _ => return self.push_bytes(head, columns, row),
            }
        }
        self.words.push(word | (len as u128 + 1) << LENGTH_SHIFT);
        Ok(())
    }
    fn push_bytes(&mut self, head: Option<u16>, columns: &[(&Vector, Oid)], row: usize) -> Result<()> {
        self.key.clear();
        self.key.extend(head.into_iter().flat_map(u16::to_le_bytes));
        for (column, ty) in columns {
            column.append_key(*ty, row, &mut self.key)?;
        }
        let word = word_of(&self.key).unwrap_or_else(|| {
            let from = self.long.len();
            self.long.extend_from_slice(&self.key);
            from as u128 | (self.long.len() as u128) << 56 | u128::from(IS_LONG) << LENGTH_SHIFT
        });
        self.words.push(word);
        Ok(())
    }
    fn long(&self, word: u128) -> &[u8] {
        const PLACE: u128 = (1 << 56) - 1;
        self.long.get((word & PLACE) as usize..(word >> 56 & PLACE) as usize).unwrap_or(&[])
    }
    /// The key of a row as bytes, of which short ones are put into `short`.
    pub fn bytes<'k>(&'k self, at: usize, short: &'k mut [u8; 16]) -> &'k [u8] {
        match self.words[at] {
            word if is_long(word) => self.long(word),
            word => {
                *short = word.to_le_bytes();
                key_in(short)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kilndb_types::{Datum, oids};

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
        known.sort();
        known.dedup();
        let mut listed = Vec::new();
        let each = index.try_each(|key, number| {
            assert_eq!(index.get(key), Some(number));
            listed.push(key.to_vec());
            Ok(())
        });
        each.unwrap();
        listed.sort();
        assert_eq!(listed, known);
        assert_eq!(index.len(), known.len());
        index.clear();
        assert_eq!(index.get(&[0]), None);
    }

    /// Searches stay short when an index takes in the keys of another one, in the order in which these stand there.
    #[test]
    fn keys_of_another_index_do_not_crowd() {
        let index_of = |from: u64| {
            let mut index = KeyIndex::default();
            for n in from..from + 18_000 {
                index.insert(&n.to_be_bytes(), n as u32);
            }
            index
        };
        let (mut all, other) = (index_of(0), index_of(1 << 32));
        all.reserve(&other);
        let mut looked_at = 0;
        let absorbed = other.try_each(|key, number| {
            let word = word_of(key).unwrap();
            let mask = all.short.words.len() - 1;
            looked_at += all.short.slot(word).wrapping_sub(hash_of(word)) & mask;
            all.insert(key, number);
            Ok(())
        });
        absorbed.unwrap();
        assert_eq!(all.len(), 36_000);
        assert!(looked_at < 20 * other.len(), "{looked_at}");
    }

    /// A batch's keys are those that are made one by one, and are found as these are.
    #[test]
    fn keys_of_a_batch_are_those_of_its_rows() {
        let mut numbers = Vector::default();
        let mut texts = Vector::default();
        const ROWS: usize = 5000;
        numbers.start(ROWS);
        texts.start(ROWS);
        for row in 0..ROWS {
            let number = row as i64 * 7919 % 1009;
            numbers.put(row, if number == 5 { Datum::Null } else { Datum::Int8(number) });
            texts.put(row, Datum::Text("äx".repeat(row % 13).as_str().into()));
        }
        for columns in [
            &[(&numbers, oids::INT8)][..],
            &[(&texts, oids::TEXT)],
            &[(&numbers, oids::INT8), (&texts, oids::TEXT)],
            &[(&texts, oids::TEXT), (&numbers, oids::INT8)],
            &[],
        ] {
            let (mut batch, mut index, mut by_bytes) = (KeyBatch::default(), KeyIndex::default(), KeyIndex::default());
            let mut found = Vec::new();
            for row in 0..ROWS {
                batch.push(Some(3), columns, row).unwrap();
                let mut key = vec![3, 0];
                columns.iter().for_each(|(column, ty)| column.append_key(*ty, row, &mut key).unwrap());
                assert_eq!(batch.bytes(row, &mut [0; 16]), key);
                assert_eq!(index.insert_of(&batch, row, row as u32), by_bytes.insert(&key, row as u32));
                assert_eq!(index.get(&key), Some(row as u32));
            }
            batch.push_none();
            index.find(&batch, &mut found);
            let alone: Vec<u32> =
                (0..=ROWS).map(|row| by_bytes.get(batch.bytes(row, &mut [0; 16])).unwrap_or(NO_NUMBER)).collect();
            assert_eq!(found[..ROWS], alone[..ROWS]);
            assert_eq!(found[ROWS], NO_NUMBER);
            assert_eq!(index.len(), by_bytes.len());
        }
    }
}
