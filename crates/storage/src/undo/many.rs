//! Records of several rows of a page: the set of slots, and for updates what was replaced in each row.
//!
//! Invariants
//! 1. Set of slots: last slot u16, then a bit for each slot from the record's own to the last one; the first and the
//!    last bit are set.
//! 2. A shape follows the set for updates: 0 and one (offset, replaced length, new length), u16 each, for all rows; or
//!    1 and one such triple for each row. The replaced bytes of the rows follow each other in the order of their slots.
//! 3. All rows of a record had the same word before, and have the same one after it.
//!
//! Must not know: where records lie, what payloads mean.

/// The lengths of one row's change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct RowSpan {
    pub off: usize,
    pub old: usize,
    pub new: usize,
}
const SPAN: usize = 6;
const ALIKE: u8 = 0;
const EACH: u8 = 1;

fn get16(bytes: &[u8], at: usize) -> Option<usize> {
    bytes.get(at..at + 2).map(|b| usize::from(u16::from_le_bytes([b[0], b[1]])))
}

/// A set of slots, as it lies in a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotSet<'a> {
    pub first: usize,
    pub last: usize,
    bits: &'a [u8],
}

impl<'a> SlotSet<'a> {
    /// Reads a set; the set and the bytes that follow it.
    pub fn parse(first: usize, data: &'a [u8]) -> Option<(SlotSet<'a>, &'a [u8])> {
        let last = get16(data, 0)?;
        let bytes = last.checked_sub(first)? / 8 + 1;
        Some((SlotSet { first, last, bits: data.get(2..2 + bytes)? }, &data[2 + bytes..]))
    }
    /// How many members come before the slot, if the slot is a member.
    pub fn rank(&self, slot: usize) -> Option<usize> {
        let at = slot.checked_sub(self.first)?;
        let byte = *self.bits.get(at / 8)?;
        if byte & 1 << (at % 8) == 0 {
            return None;
        }
        let before: u32 = self.bits[..at / 8].iter().map(|b| b.count_ones()).sum();
        Some((before + (byte & ((1 << (at % 8)) - 1)).count_ones()) as usize)
    }
    pub fn count(&self) -> usize {
        self.bits.iter().map(|b| b.count_ones() as usize).sum()
    }
    pub fn iter(&self) -> impl Iterator<Item = usize> + 'a {
        let (first, bits) = (self.first, self.bits);
        bits.iter().enumerate().flat_map(move |(i, byte)| {
            let mut left = *byte;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros() as usize;
                left &= left.wrapping_sub(1);
                (bit < 8).then_some(first + i * 8 + bit)
            })
        })
    }
}

/// Appends a set of slots, which are in ascending order; there is at least one.
pub(crate) fn put_slots(out: &mut Vec<u8>, slots: impl Iterator<Item = usize> + Clone) {
    let Some(first) = slots.clone().next() else { return };
    let start = out.len() + 2;
    out.extend_from_slice(&[0, 0]);
    let mut last = first;
    for slot in slots {
        let at = start + (slot - first) / 8;
        if at >= out.len() {
            out.resize(at + 1, 0);
        }
        out[at] |= 1 << ((slot - first) % 8);
        last = slot;
    }
    out[start - 2..start].copy_from_slice(&(last as u16).to_le_bytes());
}

/// The set of slots of an update of several rows, and the span of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpdateShape<'a> {
    pub slots: SlotSet<'a>,
    alike: Option<RowSpan>,
    each: &'a [u8],
}

fn get_span(bytes: &[u8]) -> Option<RowSpan> {
    Some(RowSpan { off: get16(bytes, 0)?, old: get16(bytes, 2)?, new: get16(bytes, 4)? })
}
fn put_span(out: &mut Vec<u8>, span: RowSpan) {
    for n in [span.off, span.old, span.new] {
        out.extend_from_slice(&(n as u16).to_le_bytes());
    }
}

impl<'a> UpdateShape<'a> {
    /// Reads a shape; the shape and the bytes that follow it.
    pub fn parse(first: usize, data: &'a [u8]) -> Option<(UpdateShape<'a>, &'a [u8])> {
        let (slots, rest) = SlotSet::parse(first, data)?;
        let (form, rest) = rest.split_first()?;
        match *form {
            ALIKE => Some((UpdateShape { slots, alike: Some(get_span(rest)?), each: &[] }, rest.get(SPAN..)?)),
            EACH => {
                let len = slots.count() * SPAN;
                Some((UpdateShape { slots, alike: None, each: rest.get(..len)? }, rest.get(len..)?))
            }
            _ => None,
        }
    }
    pub fn spans(&self) -> impl Iterator<Item = (usize, RowSpan)> + 'a {
        let (alike, each) = (self.alike, self.each);
        let span = move |rank: usize| alike.or_else(|| get_span(each.get(rank * SPAN..)?)).unwrap_or_default();
        self.slots.iter().enumerate().map(move |(rank, slot)| (slot, span(rank)))
    }
    /// Sum of the replaced bytes and of the new ones.
    pub fn lengths(&self) -> (usize, usize) {
        match self.alike {
            Some(span) => {
                let count = self.slots.count();
                (count * span.old, count * span.new)
            }
            None => self.spans().fold((0, 0), |(old, new), (_, span)| (old + span.old, new + span.new)),
        }
    }
    /// A row's span, and where its replaced bytes begin.
    pub fn find(&self, slot: usize) -> Option<(RowSpan, usize)> {
        let rank = self.slots.rank(slot)?;
        if let Some(span) = self.alike {
            return Some((span, rank * span.old));
        }
        let mut start = 0;
        for at in 0..rank {
            start += get16(self.each, at * SPAN + 2)?;
        }
        Some((get_span(self.each.get(rank * SPAN..)?)?, start))
    }
}

/// Appends the shape of an update: slots in ascending order, with their spans.
pub(crate) fn put_shape(out: &mut Vec<u8>, rows: &[(usize, RowSpan)]) {
    put_slots(out, rows.iter().map(|(slot, _)| *slot));
    match rows {
        [(_, first), rest @ ..] if rest.iter().all(|(_, span)| span == first) => {
            out.push(ALIKE);
            put_span(out, *first);
        }
        _ => {
            out.push(EACH);
            rows.iter().for_each(|(_, span)| put_span(out, *span));
        }
    }
}
/// Upper bound of what [`put_shape`] makes of so many rows in slots from `first` to `last`.
pub(crate) fn shape_len(first: usize, last: usize, count: usize) -> usize {
    2 + (last - first) / 8 + 1 + 1 + count * SPAN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_found() {
        let mut seed = 1u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((seed >> 33) % below) as usize
        };
        for round in 0..2000 {
            let mut rows = Vec::new();
            let mut slot = 1 + random(300);
            let alike = RowSpan { off: random(9), old: random(5), new: random(5) };
            for _ in 0..1 + random(60) {
                let span = if round % 2 == 0 {
                    alike
                } else {
                    RowSpan { off: random(700), old: random(300), new: random(300) }
                };
                rows.push((slot, span));
                slot += 1 + random(if round % 3 == 0 { 1 } else { 20 });
            }
            let mut data = Vec::new();
            put_shape(&mut data, &rows);
            assert!(data.len() <= shape_len(rows[0].0, rows[rows.len() - 1].0, rows.len()));
            data.extend_from_slice(b"rest");
            let (shape, rest) = UpdateShape::parse(rows[0].0, &data).unwrap();
            assert_eq!(rest, b"rest");
            assert!(shape.spans().eq(rows.iter().copied()));
            assert_eq!(shape.slots.count(), rows.len());
            let sums = rows.iter().fold((0, 0), |(old, new), (_, s)| (old + s.old, new + s.new));
            assert_eq!(shape.lengths(), sums);
            let mut start = 0;
            for (rank, (slot, span)) in rows.iter().enumerate() {
                assert_eq!(shape.slots.rank(*slot), Some(rank));
                assert_eq!(shape.find(*slot), Some((*span, start)));
                start += span.old;
            }
            for slot in (0..400).chain([65535]).filter(|slot| !rows.iter().any(|(s, _)| s == slot)) {
                assert_eq!(shape.slots.rank(slot), None);
                assert_eq!(shape.find(slot), None);
            }
            for len in 0..data.len() - 4 {
                assert!(UpdateShape::parse(rows[0].0, &data[..len]).is_none());
            }
        }
    }
}
