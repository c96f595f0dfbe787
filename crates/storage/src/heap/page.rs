//! Heap page: slot directory and items; pure functions on bytes, used forward and in recovery.
//!
//! Invariants
//! 1. Slot s (from 1) is 4 bytes at 32 + 4 × (s − 1): item offset u16 (0 = free), item length u16.
//! 2. An item is an 8-byte version word and a payload; it occupies at least 14 bytes, so that a payload can
//!    always be replaced by a 6-byte pointer in place.
//! 3. `AUX` counts the free slots below `COUNT`; `GARBAGE` the bytes between `UPPER` and the end in no item.
//!
//! Must not know: transactions, the log.

use crate::page::*;
use crate::undo::many::UpdateShape;
use kilndb_base::{Error, Result, prefetch};

pub(crate) const MIN_ITEM: usize = 14;
pub const WORD: usize = 8;
pub(crate) const MAX_SLOT: usize = PAGE / (MIN_ITEM + 4);
/// So many free slots do not matter to a page.
const FEW_SLOTS: usize = 32;
/// The longest payload kept in a page; longer ones go to pieces.
pub(crate) const MAX_INLINE: usize = 6000;

pub(crate) const DELETED: u64 = 1 << 56;
pub(crate) const KEY_CHANGED: u64 = 1 << 57;
/// The payload is a pointer to the first piece.
pub(crate) const FORWARD: u64 = 1 << 58;
/// A piece of some row's payload; the low 48 bits are that row's id.
pub const PIECE: u64 = 1 << 59;
pub(crate) const FLAGS: u64 = 0xff << 56;
pub(crate) const ADDRESS: u64 = !FLAGS;

fn slot_at(slot: usize) -> usize {
    HEADER + 4 * (slot - 1)
}
#[inline]
pub(crate) fn space_of(len: usize) -> usize {
    len.max(MIN_ITEM)
}
/// The offset and length of a used slot's item.
#[inline]
pub fn item(v: PageView, slot: usize) -> Option<(usize, usize)> {
    if slot == 0 || slot > v.u16(at::COUNT) {
        return None;
    }
    let off = v.u16(slot_at(slot));
    let len = v.u16(slot_at(slot) + 2);
    (off >= HEADER && len >= WORD && off + len <= PAGE).then_some((off, len))
}
pub fn word(v: PageView, slot: usize) -> Option<u64> {
    item(v, slot).map(|(off, _)| v.u64(off))
}
fn contiguous(p: &PageBytes) -> usize {
    get16(p, at::UPPER).saturating_sub(HEADER + 4 * get16(p, at::COUNT))
}
/// How many bytes a new item may take after compaction, including its slot if it needs a new one.
pub fn room(p: &PageBytes) -> usize {
    let slot = if get16(p, at::AUX) > 0 { 0 } else { 4 };
    (contiguous(p) + get16(p, at::GARBAGE)).saturating_sub(slot)
}
/// About as much, as an optimistic reader finds it.
pub(crate) fn room_seen(v: PageView) -> usize {
    (v.u16(at::UPPER).saturating_sub(HEADER + 4 * v.u16(at::COUNT)) + v.u16(at::GARBAGE)).saturating_sub(4)
}
pub fn fits(p: &PageBytes, len: usize) -> bool {
    room(p) >= space_of(len)
}
/// The slot that the next insert of an item of `len` bytes takes. One behind the last is preferred: rows then come in the
/// order in which they were inserted, no matter when the slots of deleted ones became free. Free slots are taken once the
/// page has been full and was compacted, or they are many and the larger part: no page is full of slots alone.
pub(crate) fn next_slot(p: &PageBytes, len: usize) -> usize {
    let (count, free) = (get16(p, at::COUNT), get16(p, at::AUX));
    let has_room = count < MAX_SLOT && contiguous(p) >= space_of(len) + 4;
    // Of a page that was compacted the bytes of deleted rows are garbage no more.
    let was_full = !has_room || get16(p, at::GARBAGE) < free * MIN_ITEM;
    if free > 0 && (was_full || free > FEW_SLOTS && 2 * free > count) {
        for s in 1..=count {
            if get16(p, slot_at(s)) == 0 {
                return s;
            }
        }
    }
    count + 1
}
/// A row is put there in a moment: asks for the bytes that it will have, and for its slot's.
pub(crate) fn fetch_place(p: &PageBytes, slot: usize, len: usize) {
    let start = p.as_ptr() as usize;
    let need = space_of(len);
    prefetch::fetch(start + slot_at(slot));
    prefetch::fetch_range(start + get16(p, at::UPPER).saturating_sub(need), need);
}
/// How many slots from `first`, which is free, are free; and how many rows may be put there one after the other.
pub(crate) fn free_slots(p: &PageBytes, first: usize) -> (usize, usize) {
    let count = get16(p, at::COUNT);
    let free = (first..=count).take_while(|s| get16(p, slot_at(*s)) == 0).count();
    (free, if first + free > count { MAX_SLOT + 1 - first } else { free })
}

fn compact(p: &mut PageBytes) {
    let old = *p;
    let mut upper = PAGE;
    for s in 1..=get16(&old, at::COUNT) {
        let off = get16(&old, slot_at(s));
        if off == 0 {
            continue;
        }
        let space = space_of(get16(&old, slot_at(s) + 2));
        upper -= space;
        p[upper..upper + space].copy_from_slice(&old[off..off + space]);
        put16(p, slot_at(s), upper);
    }
    put16(p, at::UPPER, upper);
    put16(p, at::GARBAGE, 0);
}
fn bad(what: &str) -> Error {
    Error::corrupted(format!("heap page: {what}"))
}

/// Makes or replaces the slot's item.
pub fn put(p: &mut PageBytes, slot: usize, word: u64, body: &[u8]) -> Result<()> {
    let count = get16(p, at::COUNT);
    if slot == 0 || slot > MAX_SLOT {
        return Err(bad("slot number out of range"));
    }
    let need = space_of(WORD + body.len());
    let total = contiguous(p) + get16(p, at::GARBAGE);
    let old = if slot <= count && get16(p, slot_at(slot)) != 0 { Some(get16(p, slot_at(slot) + 2)) } else { None };
    if let Some(old) = old
        && space_of(old) >= need
    {
        let off = get16(p, slot_at(slot));
        put64(p, off, word);
        p[off + WORD..off + WORD + body.len()].copy_from_slice(body);
        let freed = space_of(old) - need;
        put16(p, slot_at(slot) + 2, WORD + body.len());
        put16(p, at::GARBAGE, get16(p, at::GARBAGE) + freed);
        return Ok(());
    }
    let slots = slot.saturating_sub(count) * 4;
    if total + old.map_or(0, space_of) < need + slots {
        return Err(bad("no room"));
    }
    if let Some(old) = old {
        put16(p, slot_at(slot), 0);
        put16(p, at::GARBAGE, get16(p, at::GARBAGE) + space_of(old));
    }
    if contiguous(p) < need + slots {
        compact(p);
    }
    if slot > count {
        for s in count + 1..=slot {
            put32(p, slot_at(s), 0);
        }
        put16(p, at::COUNT, slot);
        put16(p, at::AUX, get16(p, at::AUX) + slot - count - 1);
    } else if old.is_none() {
        put16(p, at::AUX, get16(p, at::AUX).saturating_sub(1));
    }
    let off = get16(p, at::UPPER) - need;
    put16(p, at::UPPER, off);
    put16(p, slot_at(slot), off);
    put16(p, slot_at(slot) + 2, WORD + body.len());
    put64(p, off, word);
    p[off + WORD..off + WORD + body.len()].copy_from_slice(body);
    Ok(())
}
pub(crate) fn set_word(p: &mut PageBytes, slot: usize, word: u64) -> Result<()> {
    let (off, _) = item(PageView::of(p), slot).ok_or_else(|| bad("no such slot"))?;
    put64(p, off, word);
    Ok(())
}
/// payload[off..off + cut] = new.
pub(crate) fn patch(p: &mut PageBytes, slot: usize, word: u64, off: usize, cut: usize, new: &[u8]) -> Result<()> {
    let (at, len) = item(PageView::of(p), slot).ok_or_else(|| bad("no such slot"))?;
    if off + cut > len - WORD {
        return Err(bad("patch beyond the row"));
    }
    if cut == new.len() {
        put64(p, at, word);
        let place = &mut p[at + WORD + off..at + WORD + off + cut];
        // Most changes are of one integer, which is copied without a call.
        match <[u8; 4]>::try_from(new) {
            Ok(integer) => place.copy_from_slice(&integer),
            Err(_) => place.copy_from_slice(new),
        }
        return Ok(());
    }
    let mut body = Vec::with_capacity(len + new.len());
    body.extend_from_slice(&p[at + WORD..at + WORD + off]);
    body.extend_from_slice(new);
    body.extend_from_slice(&p[at + WORD + off + cut..at + len]);
    put(p, slot, word, &body)
}
/// As [`patch`], for several rows; `new`: their new bytes, one after the other.
pub(crate) fn patch_many(p: &mut PageBytes, shape: &UpdateShape<'_>, word: u64, new: &[u8]) -> Result<()> {
    let mut start = 0;
    for (slot, span) in shape.spans() {
        let bytes = new.get(start..start + span.new).ok_or_else(|| bad("patches are cut short"))?;
        start += span.new;
        patch(p, slot, word, span.off, span.old, bytes)?;
    }
    Ok(())
}
/// The room that a page has left while several of its items change their length, one after the other.
pub(crate) struct PageRoom(usize);
impl PageRoom {
    pub fn of(p: &PageBytes) -> PageRoom {
        PageRoom(contiguous(p) + get16(p, at::GARBAGE))
    }
    pub fn left(&self) -> usize {
        self.0
    }
    /// An item's length, its word included, changes; false if it cannot.
    #[inline]
    pub fn change(&mut self, from: usize, to: usize) -> bool {
        let left = (self.0 + space_of(from)).checked_sub(space_of(to));
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}
/// Whether the slot's payload could be `len` bytes long.
pub(crate) fn can_become(p: &PageBytes, slot: usize, len: usize) -> bool {
    let Some((_, have)) = item(PageView::of(p), slot) else { return false };
    contiguous(p) + get16(p, at::GARBAGE) + space_of(have) >= space_of(WORD + len)
}
pub fn free(p: &mut PageBytes, slot: usize) -> Result<()> {
    let (_, len) = item(PageView::of(p), slot).ok_or_else(|| bad("no such slot"))?;
    put32(p, slot_at(slot), 0);
    put16(p, at::AUX, get16(p, at::AUX) + 1);
    put16(p, at::GARBAGE, get16(p, at::GARBAGE) + space_of(len));
    if get16(p, at::AUX) == get16(p, at::COUNT) && get16(p, at::COUNT) > FEW_SLOTS {
        put16(p, at::AUX, 0);
        put16(p, at::COUNT, 0);
        put16(p, at::UPPER, PAGE);
        put16(p, at::GARBAGE, 0);
    }
    Ok(())
}
