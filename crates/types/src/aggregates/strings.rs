//! string_agg: texts or byte strings, one behind the other.
//!
//! Invariants
//! 1. What has been appended is not moved before the result is made: pieces are as long as all before them together, up to
//!    [`LARGEST_PIECE_BYTES`]. A single buffer that doubles moves everything again and again, and leaves as much behind as it
//!    needs, since all groups grow at the same time.
//!
//! Must not know: which group it is.

use super::grouped::{GroupState, GroupedAccumulator, states_of};
use super::{Accumulator, first};
use crate::functions::limits;
use crate::vector::{self, ByteColumn, Rows, Vector};
use crate::{Datum, EvalContext};
use kilndb_base::{Result, shared};

const SMALLEST_PIECE_BYTES: usize = 32;
const LARGEST_PIECE_BYTES: usize = 8192;

/// Bytes in pieces.
#[derive(Clone, Default)]
struct PiecedBytes {
    full: Vec<Vec<u8>>,
    last: Vec<u8>,
    len: usize,
}

impl PiecedBytes {
    fn push(&mut self, bytes: &[u8]) {
        let room = self.last.capacity() - self.last.len();
        let (here, rest) = bytes.split_at(room.min(bytes.len()));
        self.last.extend_from_slice(here);
        if !rest.is_empty() {
            let wanted = self.len.clamp(SMALLEST_PIECE_BYTES, LARGEST_PIECE_BYTES);
            let next = Vec::with_capacity(rest.len().max(wanted));
            let full = std::mem::replace(&mut self.last, next);
            if !full.is_empty() {
                self.full.push(full);
            }
            self.last.extend_from_slice(rest);
        }
        self.len += bytes.len();
    }
    /// Lets `make` make something of all bytes.
    fn with_all<T>(&self, make: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        if self.full.is_empty() {
            return make(&self.last);
        }
        let mut all = Vec::with_capacity(self.len);
        for piece in self.full.iter().chain([&self.last]) {
            all.extend_from_slice(piece);
        }
        make(&all)
    }
}

/// What the values are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AppendedKind {
    Text,
    Bytea,
}

#[derive(Clone, Default)]
pub(super) struct StringAgg {
    /// None: there has been no value.
    kind: Option<AppendedKind>,
    bytes: PiecedBytes,
}

impl StringAgg {
    fn append(&mut self, kind: AppendedKind, value: &[u8], separator: &[u8]) -> Result<()> {
        if self.kind.is_some() {
            limits::room(self.bytes.len, separator.len() + value.len())?;
            self.bytes.push(separator);
        }
        self.kind = Some(kind);
        self.bytes.push(value);
        Ok(())
    }
    /// The row's text, unless it is NULL, behind the row's separator.
    fn append_row(&mut self, row: usize, (text, texts): TextArg<'_>, (between, separators): TextArg<'_>) -> Result<()> {
        if text.is_null(row) {
            return Ok(());
        }
        let separator = match between.is_null(row) {
            true => "",
            false => vector::text_of(separators.get(between.at(row)))?,
        };
        let value = vector::text_of(texts.get(text.at(row)))?;
        self.append(AppendedKind::Text, value.as_bytes(), separator.as_bytes())
    }
}

/// A vector of texts, and the texts.
type TextArg<'a> = (&'a Vector, &'a ByteColumn);

/// The arguments, if both are texts without a box each.
fn text_args<'a>(args: &[&'a Vector]) -> Option<(TextArg<'a>, TextArg<'a>)> {
    let [text, separator] = args else { return None };
    Some(((text, vector::texts(text)?), (separator, vector::texts(separator)?)))
}

impl GroupState for StringAgg {
    fn add_pairs(states: &mut [Self], pairs: &[(u32, u32)], args: &[&Vector]) -> Result<bool> {
        let Some((text, separator)) = text_args(args) else { return Ok(false) };
        for (row, group) in pairs {
            states[*group as usize].append_row(*row as usize, text, separator)?;
        }
        Ok(true)
    }
}

impl Accumulator for StringAgg {
    fn add(&mut self, args: &[Datum], _: &EvalContext) -> Result<()> {
        let separator = match args.get(1) {
            Some(Datum::Text(separator)) => separator.as_bytes(),
            Some(Datum::Bytea(separator)) => separator,
            _ => &[],
        };
        match first(args) {
            Datum::Text(value) => self.append(AppendedKind::Text, value.as_bytes(), separator),
            Datum::Bytea(value) => self.append(AppendedKind::Bytea, value, separator),
            _ => Ok(()),
        }
    }
    fn add_vectors(&mut self, rows: Rows<'_>, args: &[&Vector], ctx: &EvalContext) -> Result<()> {
        let Some((text, separator)) = text_args(args) else { return self.add_each(rows, args, ctx) };
        rows.try_each(|row| self.append_row(row, text, separator))
    }
    fn grouped(&self) -> Option<Box<dyn GroupedAccumulator>> {
        Some(states_of(StringAgg::default()))
    }
    fn finish(&mut self, _: &EvalContext) -> Result<Datum> {
        match self.kind {
            None => Ok(Datum::Null),
            Some(AppendedKind::Text) => {
                self.bytes.with_all(|bytes| Ok(Datum::Text(shared::text(vector::text_of(bytes)?)?)))
            }
            Some(AppendedKind::Bytea) => self.bytes.with_all(|bytes| Ok(Datum::Bytea(shared::bytes(bytes)?))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_give_what_was_appended() {
        let mut seed = 7u64;
        for most in [1, 40, 3000, 20_000] {
            let (mut pieced, mut whole) = (PiecedBytes::default(), Vec::new());
            for _ in 0..200 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let bytes = vec![(seed >> 40) as u8; (seed >> 33) as usize % most];
                pieced.push(&bytes);
                whole.extend_from_slice(&bytes);
            }
            assert_eq!(pieced.len, whole.len());
            assert!(pieced.with_all(|all| Ok(all == whole)).unwrap());
            let room: usize = pieced.full.iter().chain([&pieced.last]).map(Vec::capacity).sum();
            assert!(room <= whole.len() + LARGEST_PIECE_BYTES.max(most).min(whole.len().max(SMALLEST_PIECE_BYTES)));
        }
    }
}
