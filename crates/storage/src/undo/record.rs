//! Undo records as they lie on undo pages.
//!
//! Format: length u16 (whole record), kind u8, mode u8, command u32, xid u64, previous record of the transaction u64,
//! replaced version word u64, relation u32, block u32, slot u16, data. Kinds that end in Many stand for one record per
//! row.
//!
//! Must not know: how chunks are found.

use super::entries::LeafChanges;
use super::many::{SlotSet, UpdateShape};
use crate::page::{HEADER, PAGE};
use kilndb_base::bytes::ByteReader;
use kilndb_base::{Error, Result};

pub(crate) const CHUNK_PAGES: u32 = 8;
pub(crate) const CHUNK: u64 = CHUNK_PAGES as u64 * PAGE as u64;
pub const FIXED: usize = 42;
/// The maximal length of an undo record's data.
pub const DATA_MAX: usize = PAGE - HEADER - FIXED;
const _: () = assert!(FIXED == 2 + 1 + 1 + 4 + 8 + 8 + 8 + 4 + 4 + 2);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum UndoKind {
    Insert = 1,
    /// data: last slot u16.
    InsertRange = 2,
    /// data: offset u16, new length u16, replaced bytes.
    Update = 3,
    Delete = 4,
    Lock = 5,
    /// relation: index; data: row id u48, key.
    IndexInsert = 6,
    /// An entry whose row has another key now. data: replaced stamp u64, row id u48, key.
    IndexMark = 7,
    /// A marked entry that is wanted again. data as IndexMark.
    IndexRevive = 8,
    /// An entry of a deleted row. data: heap u32, row id u48, key.
    IndexRetire = 9,
    PieceInsert = 10,
    /// The first piece of a payload that a newer version replaced.
    PieceRetire = 11,
    /// Updates of rows of a page, from `slot` on. data: shape ([`super::many`]), replaced bytes.
    UpdateMany = 12,
    /// Deletes of rows of a page, from `slot` on. data: set of slots ([`super::many`]).
    DeleteMany = 13,
    /// As IndexRetire, for several rows. data: heap u32, then for each entry length of the key u16, row id u48, key.
    IndexRetireMany = 14,
    /// A change by an index method, which alone knows what the data says. For an inverted index: a row's terms, as row
    /// id, replaced generation + 1, new generation + 1 (0: none), as varints.
    OfMethod = 15,
    /// Entries of a leaf that are inserted or, because their rows have other keys now, marked. data: changes
    /// ([`super::entries`]).
    IndexChangeMany = 16,
}
pub(crate) const KINDS: [UndoKind; 16] = {
    use UndoKind::*;
    [
        Insert,
        InsertRange,
        Update,
        Delete,
        Lock,
        IndexInsert,
        IndexMark,
        IndexRevive,
        IndexRetire,
        PieceInsert,
        PieceRetire,
        UpdateMany,
        DeleteMany,
        IndexRetireMany,
        OfMethod,
        IndexChangeMany,
    ]
};
const _: () = assert!(KINDS[0] as usize == 1 && KINDS[KINDS.len() - 1] as usize == KINDS.len());

impl UndoKind {
    #[inline]
    pub(crate) fn from_u8(v: u8) -> Option<UndoKind> {
        KINDS.get(usize::from(v).wrapping_sub(1)).copied()
    }
    /// The kind that a record of this kind is to each of its rows.
    #[inline]
    pub fn of_row(self) -> UndoKind {
        match self {
            UndoKind::UpdateMany => UndoKind::Update,
            UndoKind::DeleteMany => UndoKind::Delete,
            kind => kind,
        }
    }
    /// Is there something to purge once the transaction has committed and no snapshot sees the state before? For
    /// [`UndoKind::OfMethod`] it depends, and the transaction says so itself.
    pub(crate) fn wants_purge(self) -> bool {
        use UndoKind::*;
        matches!(self, Delete | DeleteMany | IndexMark | IndexRetire | IndexRetireMany | IndexChangeMany | PieceRetire)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct UndoRecord {
    pub kind: UndoKind,
    /// Row lock mode that the record stands for (0–3).
    pub mode: u8,
    pub command: u32,
    pub xid: u64,
    pub prev: u64,
    pub old_word: u64,
    pub rel: u32,
    pub block: u32,
    pub slot: u16,
    pub data: Vec<u8>,
}

/// The heap, and row id and key of each entry.
pub type RetiredEntries<'a> = (u32, Vec<(u64, &'a [u8])>);

impl UndoRecord {
    pub(crate) fn wants_purge(&self) -> bool {
        self.kind.wants_purge() || self.kind == UndoKind::OfMethod
    }
    pub fn len(&self) -> usize {
        FIXED + self.data.len()
    }
    pub fn write(&self, out: &mut [u8]) {
        out[0..2].copy_from_slice(&(self.len() as u16).to_le_bytes());
        out[2] = self.kind as u8;
        out[3] = self.mode;
        out[4..8].copy_from_slice(&self.command.to_le_bytes());
        out[8..16].copy_from_slice(&self.xid.to_le_bytes());
        out[16..24].copy_from_slice(&self.prev.to_le_bytes());
        out[24..32].copy_from_slice(&self.old_word.to_le_bytes());
        out[32..36].copy_from_slice(&self.rel.to_le_bytes());
        out[36..40].copy_from_slice(&self.block.to_le_bytes());
        out[40..42].copy_from_slice(&self.slot.to_le_bytes());
        out[FIXED..self.len()].copy_from_slice(&self.data);
    }
    pub fn parse(bytes: &[u8]) -> Option<UndoRecord> {
        UndoRecord::parse_with(bytes, |_, data| Some(data.to_vec()))
    }
    /// Reads a record as it applies to the row in this slot.
    pub(crate) fn parse_row(bytes: &[u8], slot: usize) -> Option<UndoRecord> {
        let mut record = UndoRecord::parse_with(bytes, |head, data| match head.kind {
            UndoKind::UpdateMany => {
                let (shape, old) = UpdateShape::parse(usize::from(head.slot), data)?;
                let (span, start) = shape.find(slot)?;
                Some(update_data(span.off, span.new, old.get(start..start + span.old)?))
            }
            UndoKind::DeleteMany => Some(Vec::new()),
            _ => Some(data.to_vec()),
        })?;
        if record.kind != record.kind.of_row() {
            record.kind = record.kind.of_row();
            record.slot = slot as u16;
        }
        Some(record)
    }
    fn parse_with(bytes: &[u8], data: impl FnOnce(&UndoRecord, &[u8]) -> Option<Vec<u8>>) -> Option<UndoRecord> {
        let mut r = ByteReader::new(bytes);
        let len = usize::from(r.u16()?);
        let mut record = UndoRecord {
            kind: UndoKind::from_u8(r.u8()?)?,
            mode: r.u8()?,
            command: r.u32()?,
            xid: r.u64()?,
            prev: r.u64()?,
            old_word: r.u64()?,
            rel: r.u32()?,
            block: r.u32()?,
            slot: r.u16()?,
            data: Vec::new(),
        };
        record.data = data(&record, r.bytes(len.checked_sub(FIXED)?)?)?;
        Some(record)
    }
    /// Rows that a record of UpdateMany or DeleteMany is about.
    pub fn rows(&self) -> Option<SlotSet<'_>> {
        SlotSet::parse(usize::from(self.slot), &self.data).map(|(slots, _)| slots)
    }
    pub fn bad() -> Error {
        Error::corrupted("undo record does not parse")
    }
    /// Update: offset, length of the new bytes, replaced bytes.
    pub(crate) fn patch(&self) -> Result<(usize, usize, &[u8])> {
        let mut r = ByteReader::new(&self.data);
        let (Some(off), Some(cut)) = (r.u16(), r.u16()) else { return Err(Self::bad()) };
        Ok((usize::from(off), usize::from(cut), r.remaining()))
    }
    pub(crate) fn apply_to(&self, payload: &mut Vec<u8>) -> Result<()> {
        let (off, cut, old) = self.patch()?;
        if off + cut > payload.len() {
            return Err(Error::corrupted("undo record does not fit its row"));
        }
        payload.splice(off..off + cut, old.iter().copied());
        Ok(())
    }
    /// The entries of an IndexRetireMany record.
    pub fn retired(&self) -> Result<RetiredEntries<'_>> {
        let parse = || {
            let mut r = ByteReader::new(&self.data);
            let heap = r.u32()?;
            let mut entries = Vec::new();
            while !r.is_empty() {
                let len = usize::from(r.u16()?);
                let mut rid = [0; 8];
                rid[..6].copy_from_slice(r.bytes(6)?);
                entries.push((u64::from_le_bytes(rid), r.bytes(len)?));
            }
            Some((heap, entries))
        };
        parse().ok_or_else(Self::bad)
    }
    /// The changes of an IndexChangeMany record.
    pub fn leaf_changes(&self) -> Result<LeafChanges<'_>> {
        LeafChanges::parse(&self.data).ok_or_else(Self::bad)
    }
    /// Index kinds: leading number of `width` bytes, row id, key.
    pub(crate) fn index_parts(&self, width: usize) -> Result<(u64, u64, &[u8])> {
        if self.data.len() < width + 6 {
            return Err(Self::bad());
        }
        let mut lead = [0; 8];
        lead[..width].copy_from_slice(&self.data[..width]);
        let mut rid = [0; 8];
        rid[..6].copy_from_slice(&self.data[width..width + 6]);
        Ok((u64::from_le_bytes(lead), u64::from_le_bytes(rid), &self.data[width + 6..]))
    }
}
/// The data of an Update record: `new_len` bytes at `off` took the place of `old`.
pub(crate) fn update_data(off: usize, new_len: usize, old: &[u8]) -> Vec<u8> {
    let mut data = Vec::with_capacity(4 + old.len());
    data.extend_from_slice(&(off as u16).to_le_bytes());
    data.extend_from_slice(&(new_len as u16).to_le_bytes());
    data.extend_from_slice(old);
    data
}
/// Appends one of the entries of an IndexRetireMany record.
pub(crate) fn put_retired(data: &mut Vec<u8>, rid: u64, key: &[u8]) {
    data.extend_from_slice(&(key.len() as u16).to_le_bytes());
    data.extend_from_slice(&rid.to_le_bytes()[..6]);
    data.extend_from_slice(key);
}
pub(crate) const RETIRED_HEAD: usize = 8;
pub(crate) fn index_data(lead: &[u8], rid: u64, key: &[u8]) -> Vec<u8> {
    let mut data = Vec::with_capacity(lead.len() + 6 + key.len());
    data.extend_from_slice(lead);
    data.extend_from_slice(&rid.to_le_bytes()[..6]);
    data.extend_from_slice(key);
    data
}
