//! Entries of an inverted index as bytes (docs/format.md).
//!
//! Invariants
//! 1. The part of an entry by which it is found is never a prefix of another entry's: so what follows it may change
//!    without changing the order.
//! 2. Escaped terms sort as terms do.
//!
//! Must not know: pages, the log.

use kilndb_base::bytes::{ByteReader, put_prefixed, put_varint};
use kilndb_base::{Error, Result, sqlstate};

pub const PENDING: u8 = 1;
pub(crate) const POSTING: u8 = 2;
pub(crate) const HISTORY: u8 = 3;

/// Longer terms are cut.
pub(crate) const LONGEST_TERM: usize = 1000;
const CUT_TERM: usize = LONGEST_TERM - 8;
/// How many bytes of terms a piece of a pending row has at most.
pub(crate) const LARGEST_PIECE: usize = 1800;
/// The bytes before a term in a piece, at most.
const LENGTH_BYTES: usize = 3;
pub(crate) const ROW_ID_BYTES: usize = 6;
const PENDING_OWN: usize = 1 + ROW_ID_BYTES + 4 + 2;

const _: () = assert!(PENDING_OWN + 10 + LARGEST_PIECE <= crate::MAX_KEY);

pub fn damaged() -> Error {
    Error::new(sqlstate::INDEX_CORRUPTED, "an entry of an inverted index is damaged")
}

/// A posting: (row id, generation).
pub(crate) type Posting = (u64, u32);

fn put_row(out: &mut Vec<u8>, row: u64) {
    out.extend_from_slice(&row.to_be_bytes()[2..]);
}
fn get_row(bytes: &[u8]) -> Option<u64> {
    let mut row = [0; 8];
    row[2..].copy_from_slice(bytes.get(..ROW_ID_BYTES)?);
    Some(u64::from_be_bytes(row))
}

// ---- terms

/// A term as it is kept: those that are too long are cut and end in a hash.
pub fn kept_term(term: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    if escaped_len(term) <= LONGEST_TERM {
        return term.into();
    }
    let mut cut = cut_term(term).to_vec();
    // The hash is FNV-1a and must never change, because it is on disk.
    let hash = term
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    cut.extend(hash.to_be_bytes().map(|byte| byte.max(1)));
    cut.into()
}
fn escaped_len(term: &[u8]) -> usize {
    term.len() + term.iter().filter(|byte| **byte == 0).count()
}
/// The part of a long term that is kept as it is.
fn cut_term(term: &[u8]) -> &[u8] {
    let mut escaped = 0;
    let end = term.iter().position(|byte| {
        escaped += if *byte == 0 { 2 } else { 1 };
        escaped > CUT_TERM
    });
    &term[..end.unwrap_or(term.len())]
}
fn put_escaped(out: &mut Vec<u8>, term: &[u8]) {
    // Nearly all terms have no zero byte to escape.
    if !term.contains(&0) {
        return out.extend_from_slice(term);
    }
    let mut parts = term.split(|byte| *byte == 0);
    out.extend_from_slice(parts.next().unwrap_or(&[]));
    for part in parts {
        out.extend_from_slice(&[0, 0xff]);
        out.extend_from_slice(part);
    }
}
/// The bytes that all entries of a term begin with.
pub(crate) fn posting_own(term: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(term.len() + 20);
    put_posting_own(&mut out, &kept_term(term));
    out
}
/// Appends the bytes that all entries of a kept term begin with.
pub(crate) fn put_posting_own(out: &mut Vec<u8>, kept: &[u8]) {
    out.push(POSTING);
    put_escaped(out, kept);
    out.extend_from_slice(&[0, 1]);
}
/// A bound below all entries of terms at or after this one, cut as long terms are.
pub(crate) fn term_bound(term: &[u8], upper: bool) -> Vec<u8> {
    let mut out = vec![POSTING];
    if escaped_len(term) <= LONGEST_TERM {
        put_escaped(&mut out, term);
        return out;
    }
    put_escaped(&mut out, cut_term(term));
    if upper {
        // Entries that begin like this may be below the bound.
        out.push(0xff);
        out.extend_from_slice(&[0xff; 9]);
    }
    out
}
/// A posting entry: its own bytes up to the end of the term, and what follows.
pub(crate) fn split_posting(key: &[u8]) -> Option<(&[u8], &[u8])> {
    if key.first() != Some(&POSTING) {
        return None;
    }
    let mut at = 1;
    loop {
        at += key.get(at..)?.iter().position(|byte| *byte == 0)?;
        match key.get(at + 1)? {
            1 => return Some(key.split_at(at + 2)),
            0xff => at += 2,
            _ => return None,
        }
    }
}
/// The term of `own`.
pub fn unescaped(own: &[u8]) -> Vec<u8> {
    let body = own.get(1..own.len().saturating_sub(2)).unwrap_or(&[]);
    let mut out = Vec::with_capacity(body.len());
    let mut skip = false;
    for byte in body {
        if skip {
            skip = false;
            continue;
        }
        out.push(*byte);
        skip = *byte == 0;
    }
    out
}

// ---- blocks of postings

/// The anchor of a block, which stands behind the term: a row id and a generation. No posting in the block is before
/// it, and no two blocks of a term have the same one.
pub(crate) const ANCHOR_BYTES: usize = ROW_ID_BYTES + 4;

/// The bytes that postings may take in a block of this term before it is divided. Twice as many still fit an entry.
pub(crate) fn largest_block(own: &[u8]) -> usize {
    crate::MAX_KEY.saturating_sub(own.len() + ANCHOR_BYTES + 20) / 2
}
pub(crate) fn put_anchor(out: &mut Vec<u8>, anchor: Posting) {
    put_row(out, anchor.0);
    out.extend_from_slice(&anchor.1.to_be_bytes());
}
/// `own`, the anchor, the postings: each as the distance of its row from the one before, doubled, odd if a generation
/// follows.
pub fn block(own: &[u8], anchor: Posting, postings: &[Posting]) -> Vec<u8> {
    debug_assert!(postings.windows(2).all(|w| w[0] < w[1]), "postings are in order");
    debug_assert!(postings.first().is_none_or(|first| anchor <= *first), "none lies before its anchor");
    let mut out = Vec::with_capacity(own.len() + ANCHOR_BYTES + postings.len() * 3);
    out.extend_from_slice(own);
    put_anchor(&mut out, anchor);
    put_postings(&mut out, anchor.0, postings);
    out
}
/// Appends postings that follow the row `before`.
pub(crate) fn put_postings(out: &mut Vec<u8>, mut before: u64, postings: &[Posting]) {
    for posting in postings {
        put_posting(out, before, *posting);
        before = posting.0;
    }
}
fn put_posting(out: &mut Vec<u8>, before: u64, (row, generation): Posting) {
    put_varint(out, (row - before) << 1 | u64::from(generation != 0));
    if generation != 0 {
        put_varint(out, u64::from(generation));
    }
}
/// Reads the posting that follows the row `before`.
#[inline]
fn get_posting(r: &mut ByteReader<'_>, before: u64) -> Result<Posting> {
    let step = r.varint().ok_or_else(damaged)?;
    let row = before.checked_add(step >> 1).filter(|row| *row < 1 << 48).ok_or_else(damaged)?;
    let generation =
        if step & 1 == 0 { 0 } else { r.varint().and_then(|g| u32::try_from(g).ok()).ok_or_else(damaged)? };
    Ok((row, generation))
}
/// Appends what a block, which has `rest` behind its term, has there once these postings are in it (in order, none
/// before its anchor). How many bytes at its beginning are as they were; None: all postings are there already, and
/// nothing is appended.
pub(crate) fn put_among(out: &mut Vec<u8>, rest: &[u8], new: &[Posting]) -> Result<Option<usize>> {
    let mut row = anchor_of(rest).ok_or_else(damaged)?.0;
    let mut r = ByteReader::new(&rest[ANCHOR_BYTES..]);
    let mut new = new.iter().copied().peekable();
    // How many bytes of `rest` were read, and how many come before the first change.
    let (mut copied, mut same) = (0, None);
    while let Some(next) = new.peek().copied() {
        let begin = rest.len() - r.remaining().len();
        let old = if r.is_empty() { None } else { Some(get_posting(&mut r, row)?) };
        if old.is_none_or(|old| next < old) {
            same.get_or_insert(begin);
            out.extend_from_slice(&rest[copied..begin]);
            while let Some(posting) = new.next_if(|posting| old.is_none_or(|old| *posting < old)) {
                put_posting(out, row, posting);
                row = posting.0;
            }
            if let Some(old) = old {
                put_posting(out, row, old);
            }
            copied = rest.len() - r.remaining().len();
        }
        if let Some(old) = old {
            new.next_if_eq(&old);
            row = old.0;
        }
    }
    if same.is_some() {
        out.extend_from_slice(&rest[copied..]);
    }
    Ok(same)
}
/// How many of the postings fit into so many bytes; one at least.
pub fn fitting(anchor: Posting, postings: &[Posting], most: usize) -> usize {
    let varint_len = |value: u64| (64 - (value | 1).leading_zeros() as usize).div_ceil(7);
    let (mut before, mut len) = (anchor.0, 0);
    for (at, (row, generation)) in postings.iter().enumerate() {
        len += varint_len((row - before) << 1) + if *generation != 0 { varint_len(u64::from(*generation)) } else { 0 };
        if len > most {
            return at.max(1);
        }
        before = *row;
    }
    postings.len()
}
/// Postings of what follows the term (empty: one row, the entry's own).
pub(crate) fn read_postings(rest: &[u8], rid: u64, visit: &mut impl FnMut(Posting)) -> Result<()> {
    if rest.is_empty() {
        visit((rid, 0));
        return Ok(());
    }
    let mut row = anchor_of(rest).ok_or_else(damaged)?.0;
    let mut r = ByteReader::new(&rest[ANCHOR_BYTES..]);
    while !r.is_empty() {
        let posting = get_posting(&mut r, row)?;
        row = posting.0;
        visit(posting);
    }
    Ok(())
}
pub(crate) fn anchor_of(rest: &[u8]) -> Option<Posting> {
    Some((get_row(rest)?, u32::from_be_bytes(*rest.get(ROW_ID_BYTES..)?.first_chunk()?)))
}
/// A key behind all blocks of the term with an anchor at or before this posting.
pub(crate) fn put_after_block(out: &mut Vec<u8>, own: &[u8], posting: Posting) {
    out.extend_from_slice(own);
    put_anchor(out, posting);
    // More than what any block's postings begin with: no varint is so long.
    out.extend_from_slice(&[0xff; 10]);
}
/// The bytes that a block with this anchor begins with.
pub(crate) fn block_own(own: &[u8], anchor: Posting) -> Vec<u8> {
    block(own, anchor, &[])
}

// ---- pending rows

pub(crate) fn pending_own(posting: Posting, piece: u16) -> Vec<u8> {
    let mut out = Vec::with_capacity(PENDING_OWN + 64);
    out.push(PENDING);
    put_row(&mut out, posting.0);
    out.extend_from_slice(&posting.1.to_be_bytes());
    out.extend_from_slice(&piece.to_be_bytes());
    out
}
/// Row, generation, number of the piece, and the rest.
pub(crate) fn split_pending(key: &[u8]) -> Option<(Posting, u16, &[u8])> {
    if key.first() != Some(&PENDING) || key.len() < PENDING_OWN {
        return None;
    }
    let row = get_row(&key[1..])?;
    let generation = u32::from_be_bytes(*key[7..].first_chunk()?);
    let piece = u16::from_be_bytes(*key[11..].first_chunk()?);
    Some(((row, generation), piece, &key[PENDING_OWN..]))
}
/// A pending row that is in one piece: its terms.
pub(crate) fn whole_pending(key: &[u8]) -> Option<(Posting, &[u8])> {
    let (posting, piece, rest) = split_pending(key)?;
    let mut r = ByteReader::new(rest);
    (piece == 0 && r.varint() == Some(1)).then(|| (posting, r.remaining()))
}
/// The pieces of a pending row; the first one begins with their number. Terms come in their order, each once.
pub(crate) fn pending_pieces(posting: Posting, terms: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
    // Nearly all rows: one piece, no term that would be cut.
    let len: usize = terms.iter().map(|term| term.len() + LENGTH_BYTES).sum();
    if len <= LARGEST_PIECE && terms.iter().all(|term| 2 * term.len() <= LONGEST_TERM) {
        let mut key = pending_own(posting, 0);
        key.reserve(1 + len);
        put_varint(&mut key, 1);
        terms.iter().for_each(|term| put_prefixed(&mut key, term));
        return Ok(vec![key]);
    }
    several_pieces(posting, terms)
}
fn several_pieces(posting: Posting, terms: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
    let mut bodies: Vec<Vec<u8>> = vec![Vec::new()];
    let mut kept: Vec<_> = terms.iter().map(|term| kept_term(term)).collect();
    // Terms that were cut may have another order now.
    kept.sort_unstable();
    kept.dedup();
    for kept in kept {
        if let Some(last) = bodies.last()
            && last.len() + kept.len() + LENGTH_BYTES > LARGEST_PIECE
        {
            bodies.push(Vec::new());
        }
        if let Some(last) = bodies.last_mut() {
            put_prefixed(last, &kept);
        }
    }
    let count = u16::try_from(bodies.len())
        .map_err(|_| Error::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, "a row has too many terms for an inverted index"))?;
    Ok(bodies
        .into_iter()
        .zip(0..)
        .map(|(body, piece)| {
            let mut key = pending_own(posting, piece);
            if piece == 0 {
                put_varint(&mut key, u64::from(count));
            }
            key.extend_from_slice(&body);
            key
        })
        .collect())
}

// ---- histories

/// The generations that a row has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowHistory {
    /// The present generation; None: there is no row here now.
    pub present: Option<u32>,
    /// Dead ones that may have postings: (first, last), in order, apart from each other.
    pub dead: Vec<(u32, u32)>,
}

impl RowHistory {
    pub fn own(row: u64) -> Vec<u8> {
        let mut out = vec![HISTORY];
        put_row(&mut out, row);
        out
    }
    pub fn row_of(key: &[u8]) -> Option<u64> {
        if key.first() == Some(&HISTORY) { get_row(&key[1..]) } else { None }
    }
    /// The history of a row that has no entry for it.
    pub fn none() -> RowHistory {
        RowHistory { present: Some(0), dead: Vec::new() }
    }
    pub fn parse(key: &[u8]) -> Option<RowHistory> {
        let mut r = ByteReader::new(key.get(1 + ROW_ID_BYTES..)?);
        let present = u32::try_from(r.varint()?).ok()?.checked_sub(1);
        let mut dead = Vec::new();
        let mut next = 0u32;
        while !r.is_empty() {
            let first = next.checked_add(u32::try_from(r.varint()?).ok()?)?;
            let last = first.checked_add(u32::try_from(r.varint()?).ok()?)?;
            dead.push((first, last));
            next = last.checked_add(1)?;
        }
        Some(RowHistory { present, dead })
    }
    pub fn bytes(&self, row: u64) -> Vec<u8> {
        let mut out = RowHistory::own(row);
        put_varint(&mut out, self.present.map_or(0, |p| u64::from(p) + 1));
        let mut next = 0;
        for (first, last) in &self.dead {
            put_varint(&mut out, u64::from(first - next));
            put_varint(&mut out, u64::from(last - first));
            next = last + 1;
        }
        out
    }
    /// Is it the history of a row without an entry, so that none is needed?
    pub fn is_plain(&self) -> bool {
        self.dead.is_empty() && self.present.is_none_or(|p| p == 0)
    }
    /// The next generation, of which there is no posting.
    pub fn next(&self) -> u32 {
        let dead = self.dead.last().map_or(0, |(_, last)| last + 1);
        self.present.map_or(dead, |p| dead.max(p + 1))
    }
    pub fn is_dead(&self, generation: u32) -> bool {
        self.dead.iter().any(|(first, last)| (*first..=*last).contains(&generation))
    }
    pub(crate) fn add_dead(&mut self, first: u32, last: u32) {
        let at = self.dead.partition_point(|dead| dead.0 < first);
        self.dead.insert(at, (first, last));
        let mut joined: Vec<(u32, u32)> = Vec::with_capacity(self.dead.len());
        for (first, last) in self.dead.drain(..) {
            match joined.last_mut() {
                Some(before) if before.1.saturating_add(1) >= first => before.1 = before.1.max(last),
                _ => joined.push((first, last)),
            }
        }
        self.dead = joined;
    }
    /// Forgets dead generations that have no postings any more.
    pub fn forget(&mut self, gone: &[(u32, u32)]) {
        for (first, last) in gone {
            let parts = std::mem::take(&mut self.dead).into_iter().flat_map(|(a, b)| {
                let left = (a < *first).then(|| (a, b.min(first.saturating_sub(1))));
                let right = (b > *last).then(|| (a.max(last.saturating_add(1)), b));
                left.into_iter().chain(right)
            });
            self.dead = parts.collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_sort_as_they_do_without_escapes() {
        let mut terms: Vec<Vec<u8>> = vec![
            vec![],
            vec![0],
            vec![0, 0],
            vec![0, 1],
            vec![0, 0xff],
            vec![1],
            b"a".to_vec(),
            b"a\0".to_vec(),
            b"a\0b".to_vec(),
            b"ab".to_vec(),
            vec![0xff],
            vec![0xff, 0],
        ];
        terms.sort();
        for (a, b) in terms.iter().zip(&terms[1..]) {
            assert!(posting_own(a) < posting_own(b), "{a:?} {b:?}");
            assert!(!posting_own(b).starts_with(&posting_own(a)));
        }
        for a in &terms {
            let own = posting_own(a);
            assert_eq!(unescaped(&own), *a);
            let with_more = [&own[..], &[0, 1, 2, 0, 1]].concat();
            assert_eq!(split_posting(&with_more), Some((&own[..], &[0, 1, 2, 0, 1][..])));
            for b in &terms {
                let (below, beyond) = (term_bound(b, false), term_bound(b, true));
                assert_eq!(own >= below, a >= b, "{a:?} {b:?}");
                assert_eq!(own >= beyond, a >= b, "{a:?} {b:?}");
            }
        }
    }
    #[test]
    fn long_terms_are_within_bounds_that_were_cut() {
        let long = |last: u8| [vec![b'x'; 3000], vec![last]].concat();
        let (a, b) = (long(1), long(2));
        assert_ne!(posting_own(&a), posting_own(&b));
        assert!(posting_own(&a).len() <= LONGEST_TERM + 3);
        for term in [&a, &b] {
            let own = posting_own(term);
            assert!(own >= term_bound(&a, false) && own < term_bound(&b, true));
        }
        assert!(posting_own(&[0; 5000]).len() <= LONGEST_TERM + 3);
        assert!(posting_own(&vec![0xff; 5000]) < term_bound(&vec![0xff; 6000], true));
    }
    fn after_block(own: &[u8], posting: Posting) -> Vec<u8> {
        let mut out = Vec::new();
        put_after_block(&mut out, own, posting);
        out
    }
    #[test]
    fn blocks_come_back() {
        let own = posting_own(b"word");
        let postings = [(5, 0), (5, 3), (6, 0), (1 << 20, 70_000), ((1 << 48) - 1, 0)];
        for anchor in [(5, 0), (3, 9)] {
            let bytes = block(&own, anchor, &postings);
            assert!(bytes < after_block(&own, anchor) && bytes > after_block(&own, (2, 0)));
            let (term, rest) = split_posting(&bytes).unwrap();
            assert_eq!((term, anchor_of(rest)), (&own[..], Some(anchor)));
            let mut found = Vec::new();
            read_postings(rest, 0, &mut |p| found.push(p)).unwrap();
            assert_eq!(found, postings);
            assert!(read_postings(&rest[..rest.len() - 1], 0, &mut |_| ()).is_err());
            for most in 0..rest.len() + 2 {
                let count = fitting(anchor, &postings, most);
                let len = |count: usize| block(&[], anchor, &postings[..count]).len() - ANCHOR_BYTES;
                assert!(count == 1 || len(count) <= most);
                assert!(count == postings.len() || len(count + 1) > most);
            }
        }
        assert!(largest_block(&posting_own(&[b'x'; 5000])) > 400);
    }
    #[test]
    fn postings_are_put_among_those_of_a_block() {
        let own = posting_own(b"word");
        let all: Vec<Posting> =
            vec![(3, 0), (3, 5), (4, 0), (400, 1), (401, 0), (1 << 20, 2), (1 << 40, 0), (1 << 40, 70_000)];
        for kept in 0..1u32 << all.len() {
            let (old, new): (Vec<Posting>, Vec<Posting>) = all
                .iter()
                .zip(0..)
                .map(|(p, i)| (*p, kept >> i & 1 == 1))
                .fold((vec![], vec![]), |(mut old, mut new), (p, is_old)| {
                    if is_old {
                        old.push(p)
                    } else {
                        new.push(p)
                    }
                    (old, new)
                });
            for anchor in [(3, 0), (1, 7)] {
                let before = block(&own, anchor, &old);
                let rest = before.strip_prefix(&own[..]).unwrap();
                let mut out = b"x".to_vec();
                let same = put_among(&mut out, rest, &new).unwrap();
                let after = block(&own, anchor, &all);
                if new.is_empty() {
                    assert_eq!((same, &out[..]), (None, &b"x"[..]));
                    continue;
                }
                assert_eq!(out[1..], after[own.len()..], "{old:?} {new:?}");
                let behind = old.iter().position(|p| *p > new[0]).unwrap_or(old.len());
                assert_eq!(same, Some(block(&[], anchor, &old[..behind]).len()));
                // Once more: they are there.
                let mut again = Vec::new();
                assert_eq!(put_among(&mut again, &out[1..], &new).unwrap(), None);
                assert!(again.is_empty());
                assert_eq!(put_among(&mut again, rest, &all).unwrap(), Some(same.unwrap()));
                assert_eq!(again, out[1..]);
            }
        }
        assert!(put_among(&mut Vec::new(), &[0; ANCHOR_BYTES - 1], &[(5, 0)]).is_err());
    }
    #[test]
    fn histories_come_back_and_keep_ranges() {
        let mut history = RowHistory { present: Some(7), dead: Vec::new() };
        for generation in [3, 1, 2, 5, 0, 5] {
            history.add_dead(generation, generation);
        }
        assert_eq!(history.dead, [(0, 3), (5, 5)]);
        let mut all = history.clone();
        all.add_dead(0, 7);
        assert_eq!(all.dead, [(0, 7)]);
        assert_eq!(RowHistory::parse(&history.bytes(9)), Some(history.clone()));
        assert_eq!(history.next(), 8);
        history.forget(&[(1, 1), (5, 5)]);
        assert_eq!(history.dead, [(0, 0), (2, 3)]);
        assert!(!history.is_plain() && RowHistory::none().is_plain());
        assert_eq!(RowHistory { present: None, dead: vec![(0, 4)] }.next(), 5);
    }
    #[test]
    fn rows_are_divided_into_pieces() {
        let terms: Vec<Vec<u8>> = (0..500u32).map(|i| format!("term{i:06}").into_bytes()).collect();
        let pieces = pending_pieces((77, 2), &terms).unwrap();
        assert!(pieces.len() > 2);
        let mut found = Vec::new();
        for (i, piece) in pieces.iter().enumerate() {
            assert!(piece.len() <= crate::MAX_KEY);
            let (posting, number, rest) = split_pending(piece).unwrap();
            assert_eq!((posting, usize::from(number)), ((77, 2), i));
            let mut r = ByteReader::new(rest);
            if i == 0 {
                assert_eq!(r.varint(), Some(pieces.len() as u64));
            }
            while !r.is_empty() {
                found.push(r.prefixed().unwrap().to_vec());
            }
        }
        assert_eq!(found, terms);
    }
}
