//! Log record bodies: page operations, undo records, transaction ends, directory changes.
//!
//! Invariants
//! 1. [`PageOp::apply`] is the one function that changes a page for a record, forward and in recovery.
//! 2. The undo record that a change carries is rebuilt from the record alone.
//! 3. Which byte says what a record or an operation is, is in [`super::tag`] alone.
//!
//! Must not know: where pages are, who runs transactions.

use super::tag::{OpTag, RecordKind};
use crate::btree::node;
use crate::heap::page as hp;
use crate::page::{self, PageBytes, at, put16};
use crate::undo::entries::LeafChanges;
use crate::undo::many::{SlotSet, UpdateShape};
use crate::undo::record::{UndoKind, UndoRecord, update_data};
use kilndb_base::bytes::{ByteReader, put_prefixed, put_varint};
use kilndb_base::{Error, Result};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageTarget {
    pub rel: u32,
    pub block: u32,
}

#[derive(Debug, Clone)]
pub enum PageOp<'a> {
    Init {
        kind: u8,
        level: u8,
    },
    Put {
        slot: usize,
        word: u64,
        body: &'a [u8],
    },
    /// Rows as (varint length, bytes), in slots from `first` on.
    PutMany {
        first: usize,
        word: u64,
        rows: &'a [u8],
    },
    /// payload[off..off + cut] = new. `old` is what was there (logged only where there is an undo record).
    Patch {
        slot: usize,
        word: u64,
        off: usize,
        cut: usize,
        old: &'a [u8],
        new: &'a [u8],
    },
    Word {
        slot: usize,
        word: u64,
    },
    Free {
        slot: usize,
    },
    /// Frees those rows of the range whose word has the address of `word`.
    FreeRange {
        first: usize,
        last: usize,
        word: u64,
    },
    TreeInsert {
        idx: usize,
        entry: &'a [u8],
    },
    TreeRemove {
        idx: usize,
    },
    TreeReplace {
        idx: usize,
        entry: &'a [u8],
    },
    /// These bytes follow the entry's key.
    TreeExtend {
        idx: usize,
        tail: &'a [u8],
    },
    TreeImage {
        level: u8,
        image: &'a [u8],
    },
    TreeCut {
        idx: usize,
        right: u32,
        high: &'a [u8],
    },
    /// The first entries of the right sibling, each with its length, follow the node's own.
    TreeAppend {
        right: u32,
        high: &'a [u8],
        entries: &'a [u8],
    },
    /// The first `count` entries go: the left sibling has them now.
    TreeDropFront {
        count: usize,
        low: &'a [u8],
    },
    Cell {
        bytes: &'a [u8],
    },
    /// [`PageOp::Patch`] for several rows. `shape`: see [`crate::undo::many`]; `old` and `new`: their bytes, one row after
    /// the other.
    PatchMany {
        first: usize,
        shape: &'a [u8],
        word: u64,
        old: &'a [u8],
        new: &'a [u8],
    },
    /// Entries of a leaf that are inserted or retired ([`crate::undo::entries`]); `stamp` is that of the retired ones.
    TreeChangeMany {
        stamp: u64,
        changes: &'a [u8],
    },
    /// [`PageOp::Word`] for several rows.
    WordMany {
        first: usize,
        slots: &'a [u8],
        word: u64,
    },
}

fn bad() -> Error {
    Error::corrupted("log record does not parse")
}
const SAME: u8 = 0x10;
const ZERO: u8 = 0x20;

fn put_word(out: &mut Vec<u8>, word: u64, undo: u64) {
    let flags = (word >> 56) as u8;
    debug_assert!(flags < 0x10);
    let address = word & hp::ADDRESS;
    if address == 0 {
        out.push(flags | ZERO);
    } else if address == undo {
        out.push(flags | SAME);
    } else {
        out.push(flags);
        put_varint(out, address);
    }
}
fn get_word(r: &mut ByteReader<'_>, undo: u64) -> Option<u64> {
    let b = r.u8()?;
    let address = match b & 0xf0 {
        ZERO => 0,
        SAME => undo,
        0 => r.varint().filter(|address| *address <= hp::ADDRESS)?,
        _ => return None,
    };
    Some(u64::from(b & 0x0f) << 56 | address)
}
fn get_u32(r: &mut ByteReader<'_>) -> Option<u32> {
    u32::try_from(r.varint()?).ok()
}
/// A slot, an index of an entry, an offset or a length: something within a page.
fn get_place(r: &mut ByteReader<'_>) -> Option<usize> {
    r.varint().filter(|place| *place < page::PAGE as u64).map(|place| place as usize)
}

impl<'a> PageOp<'a> {
    pub fn apply(&self, p: &mut PageBytes, target: PageTarget) -> Result<()> {
        match *self {
            PageOp::Init { kind, level } => {
                let flags = p[at::FLAGS];
                page::format(p, kind, flags, level, target.rel, target.block);
                if kind == page::KIND_TREE {
                    node::load_image(p, level, &node::image(0, &[], &[], &[]))?;
                }
                Ok(())
            }
            PageOp::Put { slot, word, body } => hp::put(p, slot, word, body),
            PageOp::PutMany { first, word, rows } => {
                let mut r = ByteReader::new(rows);
                let mut slot = first;
                while !r.is_empty() {
                    hp::put(p, slot, word, r.prefixed().ok_or_else(bad)?)?;
                    slot += 1;
                }
                Ok(())
            }
            PageOp::Patch { slot, word, off, cut, new, .. } => hp::patch(p, slot, word, off, cut, new),
            PageOp::Word { slot, word } => hp::set_word(p, slot, word),
            PageOp::Free { slot } => hp::free(p, slot),
            PageOp::FreeRange { first, last, word } => {
                for slot in first..=last {
                    // The word of a piece has a row id in these bits, so it is left alone.
                    if hp::word(page::PageView::of(p), slot)
                        .is_some_and(|w| w & hp::PIECE == 0 && w & hp::ADDRESS == word & hp::ADDRESS)
                    {
                        hp::free(p, slot)?;
                    }
                }
                Ok(())
            }
            PageOp::TreeInsert { idx, entry } => node::insert(p, idx, entry),
            PageOp::TreeRemove { idx } => node::remove(p, idx),
            PageOp::TreeReplace { idx, entry } => node::replace(p, idx, entry),
            PageOp::TreeExtend { idx, tail } => node::extend(p, idx, tail),
            PageOp::TreeImage { level, image } => node::load_image(p, level, image),
            PageOp::TreeCut { idx, right, high } => node::cut(p, idx, right, high),
            PageOp::TreeAppend { right, high, entries } => node::append_entries(p, right, high, entries),
            PageOp::TreeDropFront { count, low } => node::drop_front(p, count, low),
            PageOp::TreeChangeMany { stamp, changes } => {
                node::change_many(p, stamp, LeafChanges::parse(changes).ok_or_else(bad)?)
            }
            PageOp::Cell { bytes } => {
                let end = page::HEADER + bytes.len();
                p.get_mut(page::HEADER..end).ok_or_else(bad)?.copy_from_slice(bytes);
                put16(p, at::COUNT, bytes.len());
                Ok(())
            }
            PageOp::PatchMany { first, shape, word, new, .. } => {
                let (shape, _) = UpdateShape::parse(first, shape).ok_or_else(bad)?;
                hp::patch_many(p, &shape, word, new)
            }
            PageOp::WordMany { first, slots, word } => {
                let (slots, _) = SlotSet::parse(first, slots).ok_or_else(bad)?;
                slots.iter().try_for_each(|slot| hp::set_word(p, slot, word))
            }
        }
    }
    /// The slot or the entry that it is about (the first, of several).
    pub fn place(&self) -> Option<usize> {
        match *self {
            PageOp::Put { slot, .. }
            | PageOp::Patch { slot, .. }
            | PageOp::Word { slot, .. }
            | PageOp::Free { slot } => Some(slot),
            PageOp::PutMany { first, .. }
            | PageOp::FreeRange { first, .. }
            | PageOp::PatchMany { first, .. }
            | PageOp::WordMany { first, .. } => Some(first),
            PageOp::TreeInsert { idx, .. }
            | PageOp::TreeRemove { idx }
            | PageOp::TreeReplace { idx, .. }
            | PageOp::TreeExtend { idx, .. }
            | PageOp::TreeCut { idx, .. } => Some(idx),
            PageOp::Init { .. }
            | PageOp::TreeImage { .. }
            | PageOp::TreeAppend { .. }
            | PageOp::TreeDropFront { .. }
            | PageOp::TreeChangeMany { .. }
            | PageOp::Cell { .. } => None,
        }
    }
    pub fn tag(&self) -> OpTag {
        match self {
            PageOp::Init { .. } => OpTag::Init,
            PageOp::Put { .. } => OpTag::Put,
            PageOp::PutMany { .. } => OpTag::PutMany,
            PageOp::Patch { .. } => OpTag::Patch,
            PageOp::Word { .. } => OpTag::Word,
            PageOp::Free { .. } => OpTag::Free,
            PageOp::FreeRange { .. } => OpTag::FreeRange,
            PageOp::TreeInsert { .. } => OpTag::TreeInsert,
            PageOp::TreeRemove { .. } => OpTag::TreeRemove,
            PageOp::TreeReplace { .. } => OpTag::TreeReplace,
            PageOp::TreeExtend { .. } => OpTag::TreeExtend,
            PageOp::TreeImage { .. } => OpTag::TreeImage,
            PageOp::TreeCut { .. } => OpTag::TreeCut,
            PageOp::TreeAppend { .. } => OpTag::TreeAppend,
            PageOp::TreeDropFront { .. } => OpTag::TreeDropFront,
            PageOp::TreeChangeMany { .. } => OpTag::TreeChangeMany,
            PageOp::Cell { .. } => OpTag::Cell,
            PageOp::PatchMany { .. } => OpTag::PatchMany,
            PageOp::WordMany { .. } => OpTag::WordMany,
        }
    }
    /// Does the operation replace all of the page's contents?
    pub(crate) fn is_init(&self) -> bool {
        matches!(self, PageOp::Init { .. })
    }
    /// Does the operation set all contents of a cell?
    pub(crate) fn is_of_cell(&self) -> bool {
        matches!(self, PageOp::Cell { .. })
    }
    /// `tagged`: the first byte says which operation it is; not needed where the undo kind does.
    fn encode(&self, out: &mut Vec<u8>, undo: u64, with_old: bool, tagged: bool) {
        if tagged {
            out.push(self.tag().byte());
        }
        match *self {
            PageOp::Init { kind, level } => out.extend_from_slice(&[kind, level]),
            PageOp::Put { slot, word, body } => {
                put_varint(out, slot as u64);
                put_word(out, word, undo);
                put_prefixed(out, body);
            }
            PageOp::PutMany { first, word, rows } => {
                put_varint(out, first as u64);
                put_word(out, word, undo);
                put_prefixed(out, rows);
            }
            PageOp::Patch { slot, word, off, cut, old, new } => {
                put_varint(out, slot as u64);
                put_word(out, word, undo);
                put_varint(out, off as u64);
                let same = new.len() == cut;
                put_varint(out, (cut as u64) << 1 | u64::from(same));
                if with_old {
                    assert!(old.len() == cut);
                    out.extend_from_slice(old);
                }
                if same {
                    out.extend_from_slice(new);
                } else {
                    put_prefixed(out, new);
                }
            }
            PageOp::Word { slot, word } => {
                put_varint(out, slot as u64);
                put_word(out, word, undo);
            }
            PageOp::Free { slot } => {
                put_varint(out, slot as u64);
            }
            PageOp::FreeRange { first, last, word } => {
                put_varint(out, first as u64);
                put_varint(out, last as u64);
                put_word(out, word, undo);
            }
            PageOp::TreeInsert { idx, entry } => {
                put_varint(out, idx as u64);
                put_prefixed(out, entry);
            }
            PageOp::TreeRemove { idx } => {
                put_varint(out, idx as u64);
            }
            PageOp::TreeReplace { idx, entry } => {
                put_varint(out, idx as u64);
                put_prefixed(out, entry);
            }
            PageOp::TreeImage { level, image } => {
                out.push(level);
                put_prefixed(out, image);
            }
            PageOp::TreeCut { idx, right, high } => {
                put_varint(out, idx as u64);
                put_varint(out, u64::from(right));
                put_prefixed(out, high);
            }
            PageOp::TreeAppend { right, high, entries } => {
                put_varint(out, u64::from(right));
                put_prefixed(out, high);
                put_prefixed(out, entries);
            }
            PageOp::TreeDropFront { count, low } => {
                put_varint(out, count as u64);
                put_prefixed(out, low);
            }
            PageOp::TreeChangeMany { stamp, changes } => {
                put_word(out, stamp, undo);
                put_prefixed(out, changes);
            }
            PageOp::Cell { bytes } => {
                put_prefixed(out, bytes);
            }
            PageOp::PatchMany { first, shape, word, old, new } => {
                put_varint(out, first as u64);
                put_word(out, word, undo);
                put_prefixed(out, shape);
                if with_old {
                    out.extend_from_slice(old);
                }
                out.extend_from_slice(new);
            }
            PageOp::WordMany { first, slots, word } => {
                put_varint(out, first as u64);
                put_word(out, word, undo);
                put_prefixed(out, slots);
            }
            PageOp::TreeExtend { idx, tail } => {
                put_varint(out, idx as u64);
                put_prefixed(out, tail);
            }
        }
    }
    fn decode(r: &mut ByteReader<'a>, undo: u64, with_old: bool, tag: Option<OpTag>) -> Option<PageOp<'a>> {
        let tag = match tag {
            Some(tag) => tag,
            None => OpTag::of_byte(r.u8()?)?,
        };
        Some(match tag {
            OpTag::Init => PageOp::Init { kind: r.u8()?, level: r.u8()? },
            OpTag::Put => PageOp::Put { slot: get_place(r)?, word: get_word(r, undo)?, body: r.prefixed()? },
            OpTag::PutMany => PageOp::PutMany { first: get_place(r)?, word: get_word(r, undo)?, rows: r.prefixed()? },
            OpTag::Patch => {
                let slot = get_place(r)?;
                let word = get_word(r, undo)?;
                let off = get_place(r)?;
                let both = r.varint()?;
                let cut = usize::try_from(both >> 1).ok()?;
                let old = if with_old { r.bytes(cut)? } else { &[] };
                let new = if both & 1 != 0 { r.bytes(cut)? } else { r.prefixed()? };
                PageOp::Patch { slot, word, off, cut, old, new }
            }
            OpTag::Word => PageOp::Word { slot: get_place(r)?, word: get_word(r, undo)? },
            OpTag::Free => PageOp::Free { slot: get_place(r)? },
            OpTag::FreeRange => {
                PageOp::FreeRange { first: get_place(r)?, last: get_place(r)?, word: get_word(r, undo)? }
            }
            OpTag::TreeInsert => PageOp::TreeInsert { idx: get_place(r)?, entry: r.prefixed()? },
            OpTag::TreeRemove => PageOp::TreeRemove { idx: get_place(r)? },
            OpTag::TreeReplace => PageOp::TreeReplace { idx: get_place(r)?, entry: r.prefixed()? },
            OpTag::TreeImage => PageOp::TreeImage { level: r.u8()?, image: r.prefixed()? },
            OpTag::TreeCut => PageOp::TreeCut { idx: get_place(r)?, right: get_u32(r)?, high: r.prefixed()? },
            OpTag::TreeAppend => PageOp::TreeAppend { right: get_u32(r)?, high: r.prefixed()?, entries: r.prefixed()? },
            OpTag::TreeDropFront => PageOp::TreeDropFront { count: get_place(r)?, low: r.prefixed()? },
            OpTag::TreeChangeMany => {
                let (stamp, changes) = (get_word(r, undo)?, r.prefixed()?);
                LeafChanges::parse(changes)?;
                PageOp::TreeChangeMany { stamp, changes }
            }
            OpTag::Cell => PageOp::Cell { bytes: r.prefixed()? },
            OpTag::PatchMany => {
                let (first, word, shape) = (get_place(r)?, get_word(r, undo)?, r.prefixed()?);
                let (old, new) = UpdateShape::parse(first, shape).filter(|(_, rest)| rest.is_empty())?.0.lengths();
                PageOp::PatchMany {
                    first,
                    shape,
                    word,
                    old: if with_old { r.bytes(old)? } else { &[] },
                    new: r.bytes(new)?,
                }
            }
            OpTag::WordMany => {
                let (first, word, slots) = (get_place(r)?, get_word(r, undo)?, r.prefixed()?);
                SlotSet::parse(first, slots).filter(|(_, rest)| rest.is_empty())?;
                PageOp::WordMany { first, slots, word }
            }
            OpTag::TreeExtend => PageOp::TreeExtend { idx: get_place(r)?, tail: r.prefixed()? },
        })
    }
}

/// A record body, decoded.
#[derive(Debug)]
pub enum Record<'a> {
    /// A change: page operations, and in `undo` the undo record with its address.
    Change {
        xid: u64,
        undo: Option<(u64, UndoRecord)>,
        ops: Vec<(PageTarget, PageOp<'a>)>,
    },
    /// A step of a rollback: page operations, and the transaction's chain goes on at `next`.
    Compensate {
        xid: u64,
        next: u64,
        ops: Vec<(PageTarget, PageOp<'a>)>,
    },
    Commit {
        xid: u64,
        purge: bool,
        drops: Vec<u32>,
        /// The transaction's changes of the catalogs, as bytes of the layers above; empty: there are none.
        catalog_changes: &'a [u8],
    },
    /// Rolled back completely; the relations it had made are gone.
    Abort {
        xid: u64,
    },
    /// These relations are dropped if the transaction commits, like those in its commit record, which has no room for
    /// all. No checkpoint's redo LSN lies between this record and that one.
    Doom {
        xid: u64,
        rels: Vec<u32>,
    },
    PurgeDone {
        xid: u64,
    },
    Create {
        xid: u64,
        rel: u32,
        kind: u8,
        persistence: u8,
    },
    Extent {
        rel: u32,
        index: u32,
        start: u32,
    },
    /// The blocks from this number on are no longer the relation's, nor are the extents that begin there or further on.
    Truncate {
        rel: u32,
        blocks: u32,
    },
    Drop {
        rel: u32,
    },
    Chunk {
        number: u64,
        page: u32,
    },
    ChunkGone {
        number: u64,
    },
    /// The heap that an index belongs to.
    Belongs {
        rel: u32,
        heap: u32,
        /// Each row of the heap has exactly one entry in the index.
        has_all_rows: bool,
    },
    /// The log ended here (maybe torn) and goes on at this LSN.
    Link {
        to: u64,
    },
    /// The contents that an unlogged cell has after a crash.
    Initial {
        rel: u32,
        bytes: &'a [u8],
    },
    /// The log was durable up to this LSN before the flush that this record is part of began.
    Durable {
        to: u64,
    },
}

impl Record<'_> {
    pub fn kind(&self) -> RecordKind {
        match self {
            Record::Change { undo: None, .. } => RecordKind::Change,
            Record::Change { undo: Some(_), .. } => RecordKind::ChangeWithUndo,
            Record::Compensate { .. } => RecordKind::Compensation,
            Record::Commit { .. } => RecordKind::Commit,
            Record::Abort { .. } => RecordKind::Abort,
            Record::Doom { .. } => RecordKind::Doom,
            Record::PurgeDone { .. } => RecordKind::PurgeDone,
            Record::Create { .. } => RecordKind::Create,
            Record::Extent { .. } => RecordKind::Extent,
            Record::Truncate { .. } => RecordKind::Truncate,
            Record::Drop { .. } => RecordKind::Drop,
            Record::Chunk { .. } => RecordKind::Chunk,
            Record::ChunkGone { .. } => RecordKind::ChunkGone,
            Record::Belongs { .. } => RecordKind::Belongs,
            Record::Link { .. } => RecordKind::Link,
            Record::Initial { .. } => RecordKind::Initial,
            Record::Durable { .. } => RecordKind::Durable,
        }
    }
}

/// The operation that a change with such an undo record begins with, if that follows from the kind: then the operation's
/// tag is not logged, nor are the undo record's place and data, which follow from the operation.
fn first_tag(undo: UndoKind) -> Option<OpTag> {
    match undo {
        UndoKind::Insert | UndoKind::PieceInsert => Some(OpTag::Put),
        UndoKind::Update => Some(OpTag::Patch),
        UndoKind::Delete | UndoKind::Lock => Some(OpTag::Word),
        UndoKind::IndexInsert => Some(OpTag::TreeInsert),
        UndoKind::UpdateMany => Some(OpTag::PatchMany),
        UndoKind::DeleteMany => Some(OpTag::WordMany),
        UndoKind::IndexChangeMany => Some(OpTag::TreeChangeMany),
        UndoKind::InsertRange
        | UndoKind::IndexMark
        | UndoKind::IndexRevive
        | UndoKind::IndexRetire
        | UndoKind::PieceRetire
        | UndoKind::IndexRetireMany
        | UndoKind::OfMethod => None,
    }
}
fn encode_ops(out: &mut Vec<u8>, ops: &[(PageTarget, PageOp<'_>)], undo: u64, kind: Option<UndoKind>) {
    let mut tag = kind.and_then(first_tag);
    for (target, op) in ops {
        put_varint(out, u64::from(target.rel));
        put_varint(out, u64::from(target.block));
        let start = out.len();
        op.encode(out, undo, kind.is_some(), tag.is_none());
        debug_assert!(out.len() > start);
        tag = None;
    }
}
fn decode_ops<'a>(r: &mut ByteReader<'a>, undo: u64, kind: Option<UndoKind>) -> Option<Vec<(PageTarget, PageOp<'a>)>> {
    let mut ops = Vec::new();
    let mut tag = kind.and_then(first_tag);
    while !r.is_empty() {
        let target = PageTarget { rel: get_u32(r)?, block: get_u32(r)? };
        ops.push((target, PageOp::decode(r, undo, kind.is_some(), tag)?));
        tag = None;
    }
    Some(ops)
}
/// Is the field derived from the kind, so that it is not written? See [`first_tag`].
fn derived(kind: UndoKind) -> bool {
    first_tag(kind).is_some()
}

/// Puts the first byte of a change with an undo record, whose bits 4–7 are the undo kind, or 0 before the kinds that do not
/// fit there.
fn put_undo_kind(out: &mut Vec<u8>, kind: UndoKind) {
    match kind as u8 {
        kind @ ..16 => out.push(RecordKind::ChangeWithUndo.byte() | kind << 4),
        kind => out.extend_from_slice(&[RecordKind::ChangeWithUndo.byte(), kind]),
    }
}
fn get_undo_kind(head: u8, r: &mut ByteReader<'_>) -> Option<UndoKind> {
    match head >> 4 {
        0 => UndoKind::from_u8(r.u8()?).filter(|kind| *kind as u8 >= 16),
        kind => UndoKind::from_u8(kind),
    }
}
pub fn encode_change(out: &mut Vec<u8>, xid: u64, undo: Option<(u64, &UndoRecord)>, ops: &[(PageTarget, PageOp<'_>)]) {
    out.clear();
    match undo {
        None => {
            out.push(RecordKind::Change.byte());
            put_varint(out, xid);
            encode_ops(out, ops, 0, None);
        }
        Some((address, u)) => {
            put_undo_kind(out, u.kind);
            put_varint(out, xid);
            put_varint(out, address);
            // How far back the transaction's previous undo record lies; 0: this is its first.
            let back = if u.prev == 0 { 0 } else { (address.wrapping_sub(u.prev)) as i64 };
            put_varint(out, ((back << 1) ^ (back >> 63)) as u64);
            put_varint(out, u64::from(u.command) << 3 | u64::from(u.mode));
            if u.kind != UndoKind::Insert && u.kind != UndoKind::PieceInsert && u.kind != UndoKind::IndexInsert {
                put_word(out, u.old_word, 0);
            }
            assert!(ops.first().is_none_or(|(_, op)| first_tag(u.kind).is_none_or(|t| t == op.tag())));
            if !derived(u.kind) {
                put_varint(out, u64::from(u.rel));
                put_varint(out, u64::from(u.block));
                put_varint(out, u64::from(u.slot));
                put_prefixed(out, &u.data);
            }
            encode_ops(out, ops, address, Some(u.kind));
        }
    }
}
pub fn encode_compensate(out: &mut Vec<u8>, xid: u64, next: u64, ops: &[(PageTarget, PageOp<'_>)]) {
    out.clear();
    out.push(RecordKind::Compensation.byte());
    put_varint(out, xid);
    put_varint(out, next);
    encode_ops(out, ops, 0, None);
}
/// A record that is neither a change nor a compensation, which are written by [`encode_change`] and
/// [`encode_compensate`]: those come as empty bytes.
pub fn encode(record: &Record<'_>) -> Vec<u8> {
    let kind = record.kind();
    let flag_if = |is_set: bool| if is_set { RecordKind::FLAG } else { 0 };
    let mut out = Vec::new();
    let mut numbers = |flags: u8, ns: &[u64]| {
        out.push(kind.byte() | flags);
        for n in ns {
            put_varint(&mut out, *n);
        }
    };
    match record {
        Record::Commit { xid, purge, drops, catalog_changes: [] } => {
            numbers(flag_if(*purge), &[*xid]);
            drops.iter().for_each(|rel| put_varint(&mut out, u64::from(*rel)));
        }
        Record::Commit { xid, purge, drops, catalog_changes } => {
            numbers(flag_if(*purge) | RecordKind::SECOND_FLAG, &[*xid, drops.len() as u64]);
            drops.iter().for_each(|rel| put_varint(&mut out, u64::from(*rel)));
            out.extend_from_slice(catalog_changes);
        }
        Record::Doom { xid, rels } => {
            numbers(0, &[*xid]);
            rels.iter().for_each(|rel| put_varint(&mut out, u64::from(*rel)));
        }
        Record::Abort { xid } | Record::PurgeDone { xid } => numbers(0, &[*xid]),
        Record::Create { xid, rel, kind, persistence } => {
            numbers(0, &[*xid, u64::from(*rel), u64::from(*kind), u64::from(*persistence)]);
        }
        Record::Extent { rel, index, start } => numbers(0, &[u64::from(*rel), u64::from(*index), u64::from(*start)]),
        Record::Truncate { rel, blocks } => numbers(0, &[u64::from(*rel), u64::from(*blocks)]),
        Record::Drop { rel } => numbers(0, &[u64::from(*rel)]),
        Record::Chunk { number, page } => numbers(0, &[*number, u64::from(*page)]),
        Record::ChunkGone { number } => numbers(0, &[*number]),
        Record::Belongs { rel, heap, has_all_rows } => {
            numbers(flag_if(*has_all_rows), &[u64::from(*rel), u64::from(*heap)]);
        }
        Record::Link { to } | Record::Durable { to } => numbers(0, &[*to]),
        Record::Initial { rel, bytes } => {
            numbers(0, &[u64::from(*rel)]);
            put_prefixed(&mut out, bytes);
        }
        Record::Change { .. } | Record::Compensate { .. } => {}
    }
    out
}

pub fn decode(body: &[u8]) -> Result<Record<'_>> {
    decode_inner(body).ok_or_else(bad)
}
fn decode_inner(body: &[u8]) -> Option<Record<'_>> {
    let mut r = ByteReader::new(body);
    let head = r.u8()?;
    let is_flagged = head & RecordKind::FLAG != 0;
    Some(match RecordKind::of_head(head)? {
        RecordKind::Change => Record::Change { xid: r.varint()?, undo: None, ops: decode_ops(&mut r, 0, None)? },
        RecordKind::ChangeWithUndo => {
            let kind = get_undo_kind(head, &mut r)?;
            let xid = r.varint()?;
            let address = r.varint().filter(|address| *address <= hp::ADDRESS)?;
            let z = r.varint()?;
            let back = (z >> 1) as i64 ^ -((z & 1) as i64);
            let prev = if back == 0 { 0 } else { address.wrapping_sub(back as u64) };
            let c = r.varint()?;
            let old_word = match kind {
                UndoKind::Insert | UndoKind::PieceInsert | UndoKind::IndexInsert => 0,
                _ => get_word(&mut r, 0)?,
            };
            let mut u = UndoRecord {
                kind,
                mode: (c & 7) as u8,
                command: u32::try_from(c >> 3).ok()?,
                xid,
                prev,
                old_word,
                rel: 0,
                block: 0,
                slot: 0,
                data: Vec::new(),
            };
            if !derived(kind) {
                u.rel = get_u32(&mut r)?;
                u.block = get_u32(&mut r)?;
                u.slot = u16::try_from(r.varint()?).ok()?;
                u.data = r.prefixed()?.to_vec();
            }
            let ops = decode_ops(&mut r, address, Some(kind))?;
            if derived(kind) {
                let (target, op) = ops.first()?;
                u.rel = target.rel;
                u.block = target.block;
                match op {
                    PageOp::Put { slot, .. } | PageOp::Word { slot, .. } => u.slot = *slot as u16,
                    PageOp::Patch { slot, off, old, new, .. } => {
                        u.slot = *slot as u16;
                        u.data = update_data(*off, new.len(), old);
                    }
                    PageOp::PatchMany { first, shape, old, .. } => {
                        u.slot = *first as u16;
                        u.data = [*shape, *old].concat();
                    }
                    PageOp::WordMany { first, slots, .. } => {
                        u.slot = *first as u16;
                        u.data = slots.to_vec();
                    }
                    PageOp::TreeChangeMany { changes, .. } => {
                        u.data = changes.to_vec();
                        u.block = 0;
                    }
                    PageOp::TreeInsert { entry, .. } => {
                        let (key, rid) = node::parse(entry)?;
                        u.data = crate::undo::record::index_data(&[], rid, &key);
                        u.block = 0;
                    }
                    _ => return None,
                }
            }
            Record::Change { xid, undo: Some((address, u)), ops }
        }
        RecordKind::Compensation => {
            Record::Compensate { xid: r.varint()?, next: r.varint()?, ops: decode_ops(&mut r, 0, None)? }
        }
        RecordKind::Commit => {
            let xid = r.varint()?;
            let mut drops = Vec::new();
            if head & RecordKind::SECOND_FLAG == 0 {
                while !r.is_empty() {
                    drops.push(get_u32(&mut r)?);
                }
                return Some(Record::Commit { xid, purge: is_flagged, drops, catalog_changes: &[] });
            }
            for _ in 0..r.varint()? {
                drops.push(get_u32(&mut r)?);
            }
            let catalog_changes = Some(r.remaining()).filter(|changes| !changes.is_empty())?;
            Record::Commit { xid, purge: is_flagged, drops, catalog_changes }
        }
        RecordKind::Abort => Record::Abort { xid: r.varint()? },
        RecordKind::PurgeDone => Record::PurgeDone { xid: r.varint()? },
        RecordKind::Create => Record::Create {
            xid: r.varint()?,
            rel: get_u32(&mut r)?,
            kind: r.varint()?.try_into().ok()?,
            persistence: r.varint()?.try_into().ok()?,
        },
        RecordKind::Extent => {
            Record::Extent { rel: get_u32(&mut r)?, index: get_u32(&mut r)?, start: get_u32(&mut r)? }
        }
        RecordKind::Doom => {
            let (xid, mut rels) = (r.varint()?, Vec::new());
            while !r.is_empty() {
                rels.push(get_u32(&mut r)?);
            }
            Record::Doom { xid, rels }
        }
        RecordKind::Truncate => Record::Truncate { rel: get_u32(&mut r)?, blocks: get_u32(&mut r)? },
        RecordKind::Drop => Record::Drop { rel: get_u32(&mut r)? },
        RecordKind::Chunk => Record::Chunk { number: r.varint()?, page: get_u32(&mut r)? },
        RecordKind::ChunkGone => Record::ChunkGone { number: r.varint()? },
        RecordKind::Belongs => {
            Record::Belongs { rel: get_u32(&mut r)?, heap: get_u32(&mut r)?, has_all_rows: is_flagged }
        }
        RecordKind::Link => Record::Link { to: r.varint()? },
        RecordKind::Initial => Record::Initial { rel: get_u32(&mut r)?, bytes: r.prefixed()? },
        RecordKind::Durable => Record::Durable { to: r.varint()? },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes as docs/format.md shows them, and as earlier builds have written them, are decoded.
    #[test]
    fn a_commit_record_byte_by_byte() {
        let changes = b"changes";
        let commit = Record::Commit { xid: 300, purge: true, drops: vec![5, 200], catalog_changes: changes };
        let expected = [&[0x34, 0xac, 0x02, 0x02, 0x05, 0xc8, 0x01][..], changes].concat();
        assert_eq!(encode(&commit), expected);
        assert!(matches!(
            decode(&expected).unwrap(),
            Record::Commit { xid: 300, purge: true, drops, catalog_changes: b"changes" } if drops == [5, 200]
        ));
        let old = [0x14, 0xac, 0x02, 0x05, 0xc8, 0x01];
        assert!(matches!(
            decode(&old).unwrap(),
            Record::Commit { xid: 300, purge: true, drops, catalog_changes: [] } if drops == [5, 200]
        ));
        // A flag without the field that it announces is an error.
        assert!(decode(&[0x24, 0x05, 0x00]).is_err());
    }
}
