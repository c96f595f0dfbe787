//! Byte codecs: little-endian numbers at offsets, variable-length integers, CRC-32C.

/// Reads little-endian numbers from the front of a slice; every read is bounds-checked.
#[derive(Clone, Copy)]
pub struct ByteReader<'a> {
    rest: &'a [u8],
}

macro_rules! read_number {
    ($($name:ident -> $ty:ty;)*) => { $(
        pub fn $name(&mut self) -> Option<$ty> {
            let (head, rest) = self.rest.split_first_chunk::<{ size_of::<$ty>() }>()?;
            self.rest = rest;
            Some(<$ty>::from_le_bytes(*head))
        }
    )* };
}

impl<'a> ByteReader<'a> {
    pub fn new(rest: &'a [u8]) -> ByteReader<'a> {
        ByteReader { rest }
    }
    pub fn remaining(&self) -> &'a [u8] {
        self.rest
    }
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
    read_number! { u8 -> u8; u16 -> u16; u32 -> u32; u64 -> u64; i16 -> i16; i32 -> i32; i64 -> i64; }
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(head)
    }
    /// LEB128, at most 10 bytes.
    #[inline]
    pub fn varint(&mut self) -> Option<u64> {
        match self.rest.split_first()? {
            (&byte, rest) if byte < 0x80 => {
                self.rest = rest;
                Some(u64::from(byte))
            }
            _ => self.long_varint(),
        }
    }
    fn long_varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        let mut shift = 0;
        loop {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            if shift == 63 && byte > 1 {
                return None;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
            shift += 7;
            if shift > 63 {
                return None;
            }
        }
    }
    /// A varint length, then that many bytes.
    pub fn prefixed(&mut self) -> Option<&'a [u8]> {
        let count = self.varint()?;
        self.bytes(usize::try_from(count).ok()?)
    }
}

pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub fn put_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The first 8 bytes as a number, the first one highest, with zeros behind fewer.
#[inline]
pub fn first_word(bytes: &[u8]) -> u64 {
    if let Some(first) = bytes.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        // The two overlap by what is missing from 8 bytes.
        let last = u64::from(u32::from_be_bytes(*last)) << (8 * (8 - bytes.len()));
        return u64::from(u32::from_be_bytes(*first)) << 32 | last & 0xffff_ffff;
    }
    bytes.iter().enumerate().fold(0, |head, (i, byte)| head | u64::from(*byte) << (56 - 8 * i))
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn varints_come_back() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            let mut reader = ByteReader::new(&out);
            assert_eq!(reader.varint(), Some(value));
            assert!(reader.is_empty());
        }
        assert_eq!(ByteReader::new(&[0xff; 10]).varint(), None);
    }
}
