//! Texts and other values of varying length, without a box each.

use crate::Datum;
use kilndb_base::{Error, Result, shared};

/// Which [`Datum`] the bytes stand for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BytesKind {
    Text,
    Bytea,
    Jsonb,
    /// Values of any type as they are stored, which are handed on without a look at them.
    Stored,
}

/// Slices of one buffer, by position.
#[derive(Clone, Debug, Default)]
pub struct ByteColumn {
    bytes: Vec<u8>,
    /// Start and end of each.
    spans: Vec<(u32, u32)>,
}

impl ByteColumn {
    pub(super) fn start(&mut self, positions: usize) {
        self.bytes.clear();
        self.spans.clear();
        self.spans.resize(positions, (0, 0));
    }
    pub(super) fn grow(&mut self, positions: usize) {
        self.spans.resize(self.spans.len() + positions, (0, 0));
    }
    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes.len() + self.spans.len() * size_of::<(u32, u32)>()
    }
    #[inline]
    pub fn get(&self, at: usize) -> &[u8] {
        let (from, to) = self.spans[at];
        &self.bytes[from as usize..to as usize]
    }
    /// False: the buffer cannot take it.
    #[inline]
    pub fn put(&mut self, at: usize, value: &[u8]) -> bool {
        self.put_padded(at, value, 0)
    }
    /// As [`ByteColumn::put`], with so many blanks behind the value.
    #[inline]
    pub fn put_padded(&mut self, at: usize, value: &[u8], blanks: usize) -> bool {
        let from = self.bytes.len();
        let Ok(to) = u32::try_from(from + value.len() + blanks) else { return false };
        self.bytes.extend_from_slice(value);
        self.bytes.resize(to as usize, b' ');
        self.spans[at] = (from as u32, to);
        true
    }
    /// Lets `write` append the value to the buffer. False: the buffer cannot take it.
    pub fn put_with(&mut self, at: usize, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        let from = self.bytes.len();
        write(&mut self.bytes);
        let Ok(to) = u32::try_from(self.bytes.len()) else { return false };
        self.spans[at] = (from as u32, to);
        true
    }
}

pub(super) fn of(value: &Datum) -> Option<(BytesKind, &[u8])> {
    match value {
        Datum::Text(v) => Some((BytesKind::Text, v.as_bytes())),
        Datum::Bytea(v) => Some((BytesKind::Bytea, v)),
        Datum::Jsonb(v) => Some((BytesKind::Jsonb, v)),
        Datum::Stored(v) => Some((BytesKind::Stored, v)),
        _ => None,
    }
}

/// Errors: stored bytes that should be a text and are not UTF-8.
pub(super) fn datum(kind: BytesKind, bytes: &[u8]) -> Result<Datum> {
    Ok(match kind {
        BytesKind::Text => Datum::Text(shared::text(text(bytes)?)?),
        BytesKind::Bytea => Datum::Bytea(shared::bytes(bytes)?),
        BytesKind::Jsonb => Datum::Jsonb(shared::bytes(bytes)?),
        BytesKind::Stored => Datum::Stored(shared::bytes(bytes)?),
    })
}

pub(crate) fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| Error::corrupted("a stored text is not UTF-8"))
}
