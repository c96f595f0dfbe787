//! Changes of several entries of a leaf, as they lie in an undo record and in an operation of the log.
//!
//! Invariants
//! 1. Each change: head u16 (bits 0–13 length of the key, bit 14: the entry is retired, otherwise it is inserted; bit 15:
//!    the stamp that it replaces follows), position u16, row id u48, replaced stamp u64 if any, key.
//! 2. Changes are in the order of their entries, each of which occurs once. A position is that on the leaf with all
//!    changes before it made.
//! 3. What stands in a record is made with one latch on the leaf, and all stamps lead to that record.
//!
//! Must not know: what keys mean, where the leaf is.

use crate::entry_changes::EntryChange;
use kilndb_base::bytes::ByteReader;

const RETIRE: u16 = 1 << 14;
const STAMPED: u16 = 1 << 15;
const KEY_LEN: u16 = RETIRE - 1;
const HEAD: usize = 10;
const _: () = assert!(HEAD == 2 + 2 + 6);
/// No key is longer.
pub(crate) const KEY_MAX: usize = KEY_LEN as usize;

/// The change of one entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LeafChange<'a> {
    pub what: EntryChange,
    pub idx: usize,
    pub rid: u64,
    /// The stamp of a retired entry before; 0: it had none, or the entry is inserted.
    pub replaced: u64,
    pub key: &'a [u8],
}

/// The changes of several entries of a leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeafChanges<'a>(&'a [u8]);

/// The most bytes that a change with such a key takes.
pub(crate) fn change_len(key: &[u8]) -> usize {
    HEAD + 8 + key.len()
}

/// Appends a change to those of a record.
pub(crate) fn put_change(out: &mut Vec<u8>, change: &LeafChange<'_>) {
    debug_assert!(change.key.len() <= usize::from(KEY_LEN) && change.idx <= usize::from(u16::MAX));
    let mut head = change.key.len() as u16;
    if change.what == EntryChange::Retire {
        head |= RETIRE;
    }
    if change.replaced != 0 {
        head |= STAMPED;
    }
    out.extend_from_slice(&head.to_le_bytes());
    out.extend_from_slice(&(change.idx as u16).to_le_bytes());
    out.extend_from_slice(&change.rid.to_le_bytes()[..6]);
    if change.replaced != 0 {
        out.extend_from_slice(&change.replaced.to_le_bytes());
    }
    out.extend_from_slice(change.key);
}

fn take_change<'a>(r: &mut ByteReader<'a>) -> Option<LeafChange<'a>> {
    let head = r.u16()?;
    let idx = usize::from(r.u16()?);
    let mut rid = [0; 8];
    rid[..6].copy_from_slice(r.bytes(6)?);
    let replaced = if head & STAMPED != 0 { r.u64()? } else { 0 };
    let what = if head & RETIRE != 0 { EntryChange::Retire } else { EntryChange::Insert };
    // There is one way to write a change: an inserted entry replaces nothing, and a stamp of zero is none.
    if head & STAMPED != 0 && (replaced == 0 || what == EntryChange::Insert) {
        return None;
    }
    Some(LeafChange { what, idx, rid: u64::from_le_bytes(rid), replaced, key: r.bytes(usize::from(head & KEY_LEN))? })
}

impl<'a> LeafChanges<'a> {
    /// Reads changes; None: the bytes are something else.
    pub fn parse(bytes: &'a [u8]) -> Option<LeafChanges<'a>> {
        let mut r = ByteReader::new(bytes);
        while !r.is_empty() {
            take_change(&mut r)?;
        }
        Some(LeafChanges(bytes))
    }
    pub fn iter(&self) -> impl Iterator<Item = LeafChange<'a>> + use<'a> {
        let mut r = ByteReader::new(self.0);
        std::iter::from_fn(move || take_change(&mut r))
    }
    /// The entries that are retired: row id, key.
    pub fn retired(&self) -> impl Iterator<Item = (u64, &'a [u8])> + use<'a> {
        self.iter().filter(|change| change.what == EntryChange::Retire).map(|change| (change.rid, change.key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_found() {
        let change = |what, idx, replaced, key| LeafChange { what, idx, rid: 0xfedc_ba98_7654, replaced, key };
        let all = [
            change(EntryChange::Retire, 0, 0, &b""[..]),
            change(EntryChange::Insert, 7, 0, b"key"),
            change(EntryChange::Retire, 65535, 1 << 56 | 5, &[9; 1990]),
        ];
        let mut data = Vec::new();
        let mut ends = vec![0];
        for one in &all {
            let before = data.len();
            put_change(&mut data, one);
            assert!(data.len() - before <= change_len(one.key));
            ends.push(data.len());
        }
        let found = LeafChanges::parse(&data).unwrap();
        assert!(found.iter().eq(all));
        assert!(found.retired().eq([all[0], all[2]].map(|change| (change.rid, change.key))));
        for len in 0..data.len() {
            assert_eq!(LeafChanges::parse(&data[..len]).is_some(), ends.contains(&len), "{len}");
        }
    }

    #[test]
    fn there_is_one_way_to_write_a_change() {
        let mut data = Vec::new();
        let stamped = LeafChange { what: EntryChange::Retire, idx: 3, rid: 4, replaced: 5, key: b"k" };
        put_change(&mut data, &stamped);
        let mut inserted = data.clone();
        inserted[1] &= !(RETIRE >> 8) as u8;
        assert!(LeafChanges::parse(&inserted).is_none(), "an inserted entry replaces no stamp");
        data[HEAD..HEAD + 8].fill(0);
        assert!(LeafChanges::parse(&data).is_none(), "a stamp of zero is no stamp");
    }
}
