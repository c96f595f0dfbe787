//! Tree node: layout and pure functions on bytes, used forward and in recovery.
//!
//! Invariants
//! 1. After the page header: right sibling u32 at 32 (0 = none), spare u32, low fence u16 at 40, high fence u16 at 42
//!    (offsets of entries, 0 = unbounded), then one u16 offset per entry, in key order.
//! 2. Entry: length word u16 (bits 0–13 key length, bit 14 has a child, bit 15 has a stamp), row id 6 bytes, child u32
//!    if any, stamp u64 if any, key bytes. Entries are ordered by (key bytes, row id) and unique.
//! 3. low ≤ entry < high. In an inner node entry i covers [entry i, entry i + 1); its first entry equals the low fence.
//!
//! Must not know: latches, the log, heaps.

use crate::entry_changes::EntryChange;
use crate::page::*;
use crate::undo::entries::{KEY_MAX, LeafChanges};
use kilndb_base::bytes::first_word as head;
use kilndb_base::{Error, Result};
use std::cmp::Ordering;

const RIGHT: usize = 32;
const LOW: usize = 40;
const HIGH: usize = 42;
pub const SLOTS: usize = 44;
/// Two fences and two entries of this length fit a page.
pub const MAX_KEY: usize = 1990;
const CHILD: usize = 1 << 14;
const STAMPED: usize = 1 << 15;
/// A flag in a stamp: the entry was retired by the undo record at the stamp's address. Without it, the entry was
/// revived.
pub(crate) const RETIRED: u64 = 1 << 56;

const _: () = assert!(RIGHT == HEADER && LOW == HEADER + 8 && HIGH == LOW + 2 && SLOTS == HIGH + 2);
const _: () = assert!(4 * (MAX_KEY + 20 + 2) + SLOTS <= PAGE && MAX_KEY <= KEY_MAX);

/// An entry as it lies in a page.
#[derive(Clone, Copy)]
pub(crate) struct NodeEntry<'a> {
    pub key: &'a [u8],
    pub rid: u64,
    pub child: u32,
    pub stamp: u64,
    pub bytes: &'a [u8],
}
/// A full key: bytes and row id.
#[derive(Clone, Copy)]
pub(crate) struct KeyAndRow<'a>(pub &'a [u8], pub u64);

pub fn build(key: &[u8], rid: u64, child: Option<u32>, stamp: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + 20);
    build_into(&mut out, key, rid, child, stamp);
    out
}
/// As [`build`], the entry appended to `out`.
pub fn build_into(out: &mut Vec<u8>, key: &[u8], rid: u64, child: Option<u32>, stamp: u64) {
    let head = key.len() | if child.is_some() { CHILD } else { 0 } | if stamp != 0 { STAMPED } else { 0 };
    out.extend_from_slice(&(head as u16).to_le_bytes());
    out.extend_from_slice(&rid.to_le_bytes()[..6]);
    if let Some(child) = child {
        out.extend_from_slice(&child.to_le_bytes());
    }
    if stamp != 0 {
        out.extend_from_slice(&stamp.to_le_bytes());
    }
    out.extend_from_slice(key);
}
/// Bytes of an entry before its key, if it has neither child nor stamp.
pub(crate) const PLAIN_HEAD: usize = 8;
/// Completes such an entry, of which the key is there.
pub(crate) fn set_plain_head(entry: &mut [u8], rid: u64) {
    let head = (entry.len() - PLAIN_HEAD) as u16;
    entry[..2].copy_from_slice(&head.to_le_bytes());
    entry[2..PLAIN_HEAD].copy_from_slice(&rid.to_le_bytes()[..6]);
}
#[inline]
pub(crate) fn entry_at(v: &PageView, off: usize) -> Option<NodeEntry<'_>> {
    if off < SLOTS {
        return None;
    }
    let head = v.u16(off);
    let rid = v.u48(off + 2);
    let mut at = off + 8;
    let mut child = 0;
    if head & CHILD != 0 {
        child = v.u32(at);
        at += 4;
    }
    let mut stamp = 0;
    if head & STAMPED != 0 {
        stamp = v.u64(at);
        at += 8;
    }
    let len = head & (CHILD - 1);
    Some(NodeEntry { key: v.bytes(at, len)?, rid, child, stamp, bytes: v.bytes(off, at + len - off)? })
}
pub fn parse(bytes: &[u8]) -> Option<(Vec<u8>, u64)> {
    let head = usize::from(u16::from_le_bytes([*bytes.first()?, *bytes.get(1)?]));
    let mut rid = [0; 8];
    rid[..6].copy_from_slice(bytes.get(2..8)?);
    let at = 8 + if head & CHILD != 0 { 4 } else { 0 } + if head & STAMPED != 0 { 8 } else { 0 };
    Some((bytes.get(at..at + (head & (CHILD - 1)))?.to_vec(), u64::from_le_bytes(rid)))
}
/// The offsets of the first and the last entry, for prefetching: they may be any numbers if the page is changing.
pub fn ends(v: &PageView) -> [usize; 2] {
    let last = count(v).saturating_sub(1).min((PAGE - SLOTS) / 2 - 1);
    [0, last].map(|idx| v.u16(SLOTS + 2 * idx).min(PAGE - 1))
}
#[inline]
pub fn count(v: &PageView) -> usize {
    v.u16(at::COUNT)
}
#[inline]
pub fn level(v: &PageView) -> u8 {
    v.u8(at::LEVEL)
}
pub fn right(v: &PageView) -> u32 {
    v.u32(RIGHT)
}
#[inline]
pub fn entry<'a>(v: &'a PageView, idx: usize) -> Option<NodeEntry<'a>> {
    entry_at(v, v.u16(SLOTS + 2 * idx))
}
pub fn low<'a>(v: &'a PageView) -> Option<NodeEntry<'a>> {
    entry_at(v, v.u16(LOW))
}
pub fn high<'a>(v: &'a PageView) -> Option<NodeEntry<'a>> {
    entry_at(v, v.u16(HIGH))
}
#[inline]
pub fn compare(e: &NodeEntry<'_>, key: KeyAndRow<'_>) -> Ordering {
    compare_with_head((e.key, e.rid), head(key.0), key)
}
/// Compares an entry with a key, whose first bytes are `at`.
#[inline]
fn compare_with_head((bytes, rid): (&[u8], u64), at: u64, key: KeyAndRow<'_>) -> Ordering {
    // Most comparisons are settled by the first 8 bytes, without a call. Zeros behind a short key do not change the
    // order: where they differ from the other key's bytes, that one goes on.
    let by_head = head(bytes).cmp(&at);
    if by_head != Ordering::Equal {
        return by_head;
    }
    let by_key = if bytes.len() <= 8 && key.0.len() <= 8 { bytes.len().cmp(&key.0.len()) } else { bytes.cmp(key.0) };
    by_key.then(rid.cmp(&key.1))
}
/// How many bytes two keys share at their beginnings.
#[inline]
fn shared_len(a: &[u8], b: &[u8]) -> usize {
    let least = a.len().min(b.len());
    let differing = head(a) ^ head(b);
    if differing != 0 {
        return (differing.leading_zeros() as usize / 8).min(least);
    }
    a.iter().zip(b).skip(8).take_while(|(a, b)| a == b).count() + least.min(8)
}
/// The prefix that all entries of a node share, and the range of the bytes behind it, both by the node's fences. The
/// first and last nodes of a level use their own first and last entries for want of a fence.
///
/// In a tree of texts the prefix may be longer than the 8 bytes that most comparisons look at, so they look at the
/// bytes behind it.
struct KeySpan<'a> {
    shared: &'a [u8],
    /// The first bytes behind the prefix, as a number, of the lowest key.
    low: u64,
    high: u64,
}
impl KeySpan<'_> {
    #[inline]
    fn of<'a>(v: &'a PageView, count: usize) -> KeySpan<'a> {
        let low = low(v).or_else(|| entry(v, 0)).map_or(&[][..], |e| e.key);
        let high = high(v).or_else(|| entry(v, count.saturating_sub(1))).map_or(&[][..], |e| e.key);
        let (shared, rest) = low.split_at(shared_len(low, high));
        KeySpan { shared, low: head(rest), high: head(high.get(shared.len()..).unwrap_or(&[])) }
    }
    /// The position of the key if keys are spread evenly between the fences, as consecutive numbers are. Binary search
    /// touches some 13 cache lines of a full node, a search around this position some 4. Perlman, Itai, Avni:
    /// Interpolation search (1978).
    #[inline]
    fn guess(&self, at: u64, count: usize) -> Option<usize> {
        let whole = self.high.checked_sub(self.low).filter(|w| *w != 0)?;
        let part = at.saturating_sub(self.low).min(whole);
        Some(((u128::from(part) * count as u128 / u128::from(whole)) as usize).min(count - 1))
    }
}
/// The first index whose entry is ≥ key.
#[inline]
pub(crate) fn lower_bound(v: &PageView, key: KeyAndRow<'_>) -> usize {
    let count = count(v);
    if count < WORTH_GUESSING {
        return partition_point(0, count, |i| entry(v, i).is_some_and(|e| compare(&e, key) == Ordering::Less));
    }
    let span = KeySpan::of(v, count);
    let Some((first, rest)) = key.0.split_at_checked(span.shared.len()).filter(|(first, _)| *first == span.shared)
    else {
        return if key.0 < span.shared { 0 } else { count };
    };
    let at = head(rest);
    let is_less = |i| {
        let Some(e) = entry(v, i) else { return false };
        let of_entry = e.key.get(first.len()..).unwrap_or(&[]);
        compare_with_head((of_entry, e.rid), at, KeyAndRow(rest, key.1)) == Ordering::Less
    };
    match span.guess(at, count) {
        Some(guess) => search_around(guess, count, is_less),
        None => partition_point(0, count, is_less),
    }
}
/// As [`lower_bound`], for a key whose entry is likely to be at `near` or beside it.
#[inline]
pub(crate) fn lower_bound_near(v: &PageView, key: KeyAndRow<'_>, near: usize) -> usize {
    let (count, at) = (count(v), head(key.0));
    if count == 0 {
        return 0;
    }
    let is_less = |i| entry(v, i).is_some_and(|e| compare_with_head((e.key, e.rid), at, key) == Ordering::Less);
    search_around(near.min(count - 1), count, is_less)
}
/// How many bytes all keys between the fences share at their beginning.
pub(crate) fn shared_by_fences(v: &PageView) -> usize {
    low(v).zip(high(v)).map_or(0, |(low, high)| shared_len(low.key, high.key))
}
/// As [`lower_bound`], for a key that is not before entry `from` and likely to be near it. It lies between the fences,
/// which share `shared` bytes.
pub(crate) fn lower_bound_from(v: &PageView, key: KeyAndRow<'_>, from: usize, shared: usize) -> usize {
    let rest = key.0.get(shared..).unwrap_or(&[]);
    let at = head(rest);
    let is_less = |i| {
        let Some(e) = entry(v, i) else { return false };
        compare_with_head((e.key.get(shared..).unwrap_or(&[]), e.rid), at, KeyAndRow(rest, key.1)) == Ordering::Less
    };
    search_from(from, count(v), GUESS_ERROR, is_less)
}
/// The first of the indexes from `a` to before `b` that is not less; those that are less come first.
#[inline]
fn partition_point(mut a: usize, mut b: usize, is_less: impl Fn(usize) -> bool) -> usize {
    while a < b {
        let mid = (a + b) / 2;
        if is_less(mid) { a = mid + 1 } else { b = mid }
    }
    a
}
/// Searches near `a` first, then further away by ever larger steps.
#[inline]
fn search_from(mut a: usize, mut b: usize, mut step: usize, is_less: impl Fn(usize) -> bool) -> usize {
    while a < b {
        let at = (a + step).min(b - 1);
        if !is_less(at) {
            b = at;
            break;
        }
        a = at + 1;
        step *= 2;
    }
    partition_point(a, b, is_less)
}
/// Searches below `count`, near `guess` first, then further away by ever larger steps: keys drawn at random are off by
/// about the square root of their number.
#[inline]
fn search_around(guess: usize, count: usize, is_less: impl Fn(usize) -> bool) -> usize {
    let (near, far) = (guess.saturating_sub(GUESS_ERROR), (guess + GUESS_ERROR).min(count - 1));
    if is_less(near) {
        return if is_less(far) {
            search_from(far + 1, count, 4 * GUESS_ERROR, is_less)
        } else {
            partition_point(near + 1, far, is_less)
        };
    }
    let (mut a, mut b, mut step) = (0, near, 4 * GUESS_ERROR);
    while a < b {
        let at = b.saturating_sub(step);
        if is_less(at) {
            a = at + 1;
            break;
        }
        b = at;
        step *= 2;
    }
    partition_point(a, b, is_less)
}
/// Nodes with fewer entries are searched by halves only.
const WORTH_GUESSING: usize = 32;
const GUESS_ERROR: usize = 2;
/// The position of a key relative to a node's fences.
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
pub(crate) enum FenceSide {
    Left,
    Inside,
    Right,
}
pub fn side(v: &PageView, key: KeyAndRow<'_>) -> FenceSide {
    if low(v).is_some_and(|e| compare(&e, key) == Ordering::Greater) {
        return FenceSide::Left;
    }
    if high(v).is_some_and(|e| compare(&e, key) != Ordering::Greater) {
        return FenceSide::Right;
    }
    FenceSide::Inside
}
/// Is the key before the high fence?
pub(crate) fn is_before_end(v: &PageView, key: KeyAndRow<'_>) -> bool {
    high(v).is_none_or(|e| compare(&e, key) == Ordering::Greater)
}
/// Inner node: index of the child that covers `key`.
#[inline]
pub(crate) fn child_index(v: &PageView, key: KeyAndRow<'_>) -> usize {
    let i = lower_bound(v, key);
    match entry(v, i) {
        Some(e) if i < count(v) && compare(&e, key) == Ordering::Equal => i,
        _ => i.saturating_sub(1),
    }
}
/// The bytes that an entry takes in the slot directory.
pub const SLOT: usize = 2;
pub fn room(p: &PageBytes) -> usize {
    room_of(&PageView::of(p))
}
pub(crate) fn room_of(v: &PageView) -> usize {
    (v.u16(at::UPPER) + v.u16(at::GARBAGE)).saturating_sub(SLOTS + SLOT * count(v))
}
fn bad(what: &str) -> Error {
    Error::corrupted(format!("index page: {what}"))
}
fn append(p: &mut PageBytes, bytes: &[u8]) -> Result<usize> {
    let upper = get16(p, at::UPPER);
    if upper < SLOTS + 2 * get16(p, at::COUNT) + bytes.len() + 2 {
        return Err(bad("no room"));
    }
    let off = upper - bytes.len();
    p[off..upper].copy_from_slice(bytes);
    put16(p, at::UPPER, off);
    Ok(off)
}
fn compact(p: &mut PageBytes) -> Result<()> {
    let old = *p;
    let v = PageView::of(&old);
    put16(p, at::UPPER, PAGE);
    put16(p, at::GARBAGE, 0);
    for at in [LOW, HIGH].into_iter().chain((0..count(&v)).map(|i| SLOTS + 2 * i)) {
        if let Some(e) = entry_at(&v, get16(&old, at)) {
            let off = append(p, e.bytes)?;
            put16(p, at, off);
        }
    }
    Ok(())
}
pub fn insert(p: &mut PageBytes, idx: usize, bytes: &[u8]) -> Result<()> {
    let n = get16(p, at::COUNT);
    if idx > n || room(p) < bytes.len() + 2 {
        return Err(bad("insert does not fit"));
    }
    if get16(p, at::UPPER) < SLOTS + 2 * n + bytes.len() + 2 {
        compact(p)?;
    }
    let off = append(p, bytes)?;
    p.copy_within(SLOTS + 2 * idx..SLOTS + 2 * n, SLOTS + 2 * idx + 2);
    put16(p, SLOTS + 2 * idx, off);
    put16(p, at::COUNT, n + 1);
    Ok(())
}
pub fn remove(p: &mut PageBytes, idx: usize) -> Result<()> {
    let n = get16(p, at::COUNT);
    let v = PageView::of(p);
    let len = entry(&v, idx).filter(|_| idx < n).ok_or_else(|| bad("no such entry"))?.bytes.len();
    p.copy_within(SLOTS + 2 * idx + 2..SLOTS + 2 * n, SLOTS + 2 * idx);
    put16(p, at::COUNT, n - 1);
    put16(p, at::GARBAGE, get16(p, at::GARBAGE) + len);
    Ok(())
}
pub fn replace(p: &mut PageBytes, idx: usize, bytes: &[u8]) -> Result<()> {
    remove(p, idx)?;
    insert(p, idx, bytes)
}
/// Inserts and retires entries of a leaf; the retired ones get this stamp.
pub(crate) fn change_many(p: &mut PageBytes, stamp: u64, changes: LeafChanges<'_>) -> Result<()> {
    let mut bytes = Vec::new();
    for change in changes.iter() {
        bytes.clear();
        match change.what {
            EntryChange::Insert => {
                build_into(&mut bytes, change.key, change.rid, None, 0);
                insert(p, change.idx, &bytes)?;
            }
            EntryChange::Retire => {
                build_into(&mut bytes, change.key, change.rid, None, stamp);
                replace(p, change.idx, &bytes)?;
            }
        }
    }
    Ok(())
}
/// Appends bytes to the entry's key.
pub fn extend(p: &mut PageBytes, idx: usize, tail: &[u8]) -> Result<()> {
    let view = PageView::of(p);
    let old = entry(&view, idx).filter(|_| idx < count(&view)).ok_or_else(|| bad("place"))?;
    if old.key.len() + tail.len() > MAX_KEY {
        return Err(bad("entry"));
    }
    let mut bytes = Vec::with_capacity(old.bytes.len() + tail.len());
    bytes.extend_from_slice(old.bytes);
    bytes.extend_from_slice(tail);
    // The length of the key is in the low bits, and does not reach the flags.
    let head = usize::from(u16::from_le_bytes([bytes[0], bytes[1]])) + tail.len();
    bytes[..2].copy_from_slice(&(head as u16).to_le_bytes());
    replace(p, idx, &bytes)
}
/// A node's contents as a log image: right sibling u32, low and high fence (each with its length), entries (each with
/// its length).
pub fn image(right: u32, low: &[u8], high: &[u8], entries: &[&[u8]]) -> Vec<u8> {
    let mut out = image_of(right, low, high, &[]);
    for e in entries {
        kilndb_base::bytes::put_prefixed(&mut out, e);
    }
    out
}
/// As [`image`], of entries that have been put one behind the other, each with its length.
pub fn image_of(right: u32, low: &[u8], high: &[u8], entries: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(PAGE);
    out.extend_from_slice(&right.to_le_bytes());
    kilndb_base::bytes::put_prefixed(&mut out, low);
    kilndb_base::bytes::put_prefixed(&mut out, high);
    out.extend_from_slice(entries);
    out
}
/// Replaces the contents of a formatted node page.
pub(crate) fn load_image(p: &mut PageBytes, level: u8, image: &[u8]) -> Result<()> {
    let (flags, rel, block, lsn) = (p[at::FLAGS], get32(p, at::REL), get32(p, at::BLOCK), lsn(p));
    format(p, KIND_TREE, flags, level, rel, block);
    set_lsn(p, lsn);
    let mut r = kilndb_base::bytes::ByteReader::new(image);
    put32(p, RIGHT, r.u32().ok_or_else(|| bad("image"))?);
    for at in [LOW, HIGH] {
        let fence = r.prefixed().ok_or_else(|| bad("image"))?;
        if !fence.is_empty() {
            let off = append(p, fence)?;
            put16(p, at, off);
        }
    }
    let mut n = 0;
    while !r.is_empty() {
        let e = r.prefixed().ok_or_else(|| bad("image"))?;
        let off = append(p, e)?;
        put16(p, SLOTS + 2 * n, off);
        n += 1;
        put16(p, at::COUNT, n);
    }
    Ok(())
}
/// Keeps the entries before `idx`; `high` becomes the high fence, `right` the right sibling.
pub fn cut(p: &mut PageBytes, idx: usize, right: u32, high: &[u8]) -> Result<()> {
    let old = *p;
    let v = PageView::of(&old);
    let low = low(&v).map_or(&[][..], |e| e.bytes);
    let entries: Vec<&[u8]> = (0..idx.min(count(&v))).filter_map(|i| entry(&v, i)).map(|e| e.bytes).collect();
    let bytes = image(right, low, high, &entries);
    load_image(p, level(&v), &bytes)
}
/// Appends entries of the right sibling, each with its length; `high` becomes the high fence, `right` the right sibling.
pub(crate) fn append_entries(p: &mut PageBytes, right: u32, high: &[u8], entries: &[u8]) -> Result<()> {
    let old = *p;
    let v = PageView::of(&old);
    let mut all: Vec<&[u8]> = (0..count(&v)).filter_map(|i| entry(&v, i)).map(|e| e.bytes).collect();
    let mut r = kilndb_base::bytes::ByteReader::new(entries);
    while !r.is_empty() {
        all.push(r.prefixed().ok_or_else(|| bad("appended entries"))?);
    }
    let bytes = image(right, low(&v).map_or(&[][..], |e| e.bytes), high, &all);
    load_image(p, level(&v), &bytes)
}
/// Drops the first `dropped` entries; `low` becomes the low fence.
pub(crate) fn drop_front(p: &mut PageBytes, dropped: usize, low: &[u8]) -> Result<()> {
    let old = *p;
    let v = PageView::of(&old);
    let kept: Vec<&[u8]> = (dropped..count(&v)).filter_map(|i| entry(&v, i)).map(|e| e.bytes).collect();
    let bytes = image(right(&v), low, high(&v).map_or(&[][..], |e| e.bytes), &kept);
    load_image(p, level(&v), &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node of these keys between two fences.
    fn node(keys: &[Vec<u8>], low: &[u8], high: &[u8]) -> PageBytes {
        let mut page = [0; PAGE];
        let entries: Vec<Vec<u8>> = keys.iter().map(|k| build(k, 7, None, 0)).collect();
        let entries: Vec<&[u8]> = entries.iter().map(Vec::as_slice).collect();
        load_image(&mut page, 0, &image(0, &build(low, 0, None, 0), &build(high, 0, None, 0), &entries)).unwrap();
        page
    }
    #[test]
    fn keys_are_ordered_as_bytes_are() {
        let mut keys: Vec<Vec<u8>> = vec![vec![]];
        for len in 1..=10usize {
            for fill in [0, 1, 0x7f, 0xff] {
                keys.push(vec![fill; len]);
                for last in [0, 2, 0xff] {
                    let mut key = vec![fill; len];
                    key[len - 1] = last;
                    keys.push(key);
                }
            }
        }
        for a in &keys {
            for b in &keys {
                let bytes = build(a, 5, None, 0);
                let mut page = [0; PAGE];
                page[SLOTS..SLOTS + bytes.len()].copy_from_slice(&bytes);
                let v = PageView::of(&page);
                let entry = entry_at(&v, SLOTS).unwrap();
                for rid in [4, 5, 6] {
                    assert_eq!(compare(&entry, KeyAndRow(b, rid)), (&a[..], 5).cmp(&(&b[..], rid)), "{a:?} {b:?}");
                }
            }
        }
    }
    #[test]
    fn the_bound_is_the_same_wherever_the_guess_leads() {
        let evenly = |i: u32| (1000 + i).to_be_bytes().to_vec();
        let squares = |i: u32| (i * i).to_be_bytes().to_vec();
        let clustered = |i: u32| (if i < 290 { i } else { 1 << 30 | i }).to_be_bytes().to_vec();
        let texts = |i: u32| format!("customer-{}", 1000 + i * 7 % 3000).into_bytes();
        let short = |i: u32| vec![b'a'; i as usize % 30 + 1];
        let alike = |i: u32| format!("so begin{}{i}", "a".repeat(i as usize % 5)).into_bytes();
        let kinds: [&dyn Fn(u32) -> Vec<u8>; 6] = [&evenly, &squares, &clustered, &texts, &short, &alike];
        for kind in kinds {
            let mut keys: Vec<Vec<u8>> = (0..300).map(kind).collect();
            keys.sort();
            keys.dedup();
            let low = keys[0].clone();
            let mut high = keys[keys.len() - 1].clone();
            high.push(0);
            let page = node(&keys, &low, &high);
            let v = PageView::of(&page);
            assert_eq!(count(&v), keys.len());
            let mut asked = keys.clone();
            asked.extend(keys.iter().map(|k| [&k[..], &[0]].concat()));
            asked.extend(keys.iter().map(|k| k[..k.len() - 1].to_vec()));
            asked.push(vec![0xff; 12]);
            for len in 0..20 {
                let begin = &low[..low.len().min(len)];
                asked.extend([begin.to_vec(), [begin, &[0]].concat(), [begin, &[0xff]].concat()]);
            }
            for key in &asked {
                for rid in [0, 7, 9] {
                    let expected = keys.partition_point(|k| (&k[..], 7) < (&key[..], rid));
                    assert_eq!(lower_bound(&v, KeyAndRow(key, rid)), expected, "{key:?} {rid}");
                    for near in [0, expected / 2, expected, expected + 3, 4000] {
                        assert_eq!(lower_bound_near(&v, KeyAndRow(key, rid), near), expected, "{key:?} {rid} {near}");
                    }
                    if key >= &low && key < &high {
                        for from in [0, expected / 2, expected.saturating_sub(3), expected] {
                            assert_eq!(
                                lower_bound_from(&v, KeyAndRow(key, rid), from, shared_by_fences(&v)),
                                expected,
                                "{key:?} {rid}"
                            );
                        }
                    }
                }
            }
        }
    }
}
