//! Short keys with their row ids, each packed into one number, so that numbers are sorted and nothing stands elsewhere.
//!
//! Invariants
//! 1. Numbers are in the order of (key bytes, row id).
//!
//! Must not know: files.

/// The longest key that can be packed.
pub(super) const SHORT_BYTES: usize = 9;

/// From the highest bit: three that are zero, the key filled up with zeros (72), its length (4), the row id (48), "a key column is NULL" (1).
/// Of two keys that differ in nothing but what was filled up the shorter one comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ShortKey(u128);

const RID_AT: u32 = 1;
const LENGTH_AT: u32 = 49;
const KEY_AT: u32 = 53;
/// Where the last byte of the longest key stands in the number's bytes, from the highest.
const FIRST_BYTE_BITS: u32 = 128 - KEY_AT - 8 * SHORT_BYTES as u32;

impl ShortKey {
    /// None: the key is too long.
    #[inline]
    pub(super) fn new(key: &[u8], rid: u64, has_null: bool) -> Option<ShortKey> {
        if key.len() > SHORT_BYTES || rid >> 48 != 0 {
            return None;
        }
        let mut bytes = [0; 16];
        bytes[..key.len()].copy_from_slice(key);
        let filled_up = u128::from_be_bytes(bytes) >> FIRST_BYTE_BITS;
        Some(ShortKey(filled_up | (key.len() as u128) << LENGTH_AT | u128::from(rid) << RID_AT | u128::from(has_null)))
    }
    /// The key's bytes are the first ones of these, as many as [`ShortKey::length`] says.
    #[inline]
    pub(super) fn bytes(self) -> [u8; 16] {
        (self.0 << FIRST_BYTE_BITS).to_be_bytes()
    }
    #[inline]
    pub(super) fn length(self) -> usize {
        (self.0 >> LENGTH_AT) as usize & 0xf
    }
    #[inline]
    pub(super) fn rid(self) -> u64 {
        (self.0 >> RID_AT) as u64 & ((1 << 48) - 1)
    }
    #[inline]
    pub(super) fn has_null(self) -> bool {
        self.0 & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_keys_are_what_they_were_and_in_their_order() {
        let mut keys: Vec<(Vec<u8>, u64, bool)> = Vec::new();
        for key in [&[][..], &[0], &[0, 0], &[0, 1], &[1], &[7; 8], &[7; 9], &[7, 7, 7, 7, 7, 7, 7, 7, 0], &[255; 9]] {
            for rid in [0, 1, 65_536, (1 << 48) - 1] {
                keys.push((key.to_vec(), rid, rid == 1));
            }
        }
        let packed = |(key, rid, null): &(Vec<u8>, u64, bool)| ShortKey::new(key, *rid, *null).expect("it is short");
        let mut all: Vec<ShortKey> = keys.iter().rev().map(packed).collect();
        all.sort_unstable();
        keys.sort();
        let unpacked: Vec<_> =
            all.iter().map(|one| (one.bytes()[..one.length()].to_vec(), one.rid(), one.has_null())).collect();
        assert!(unpacked == keys);
        assert!(ShortKey::new(&[0; 10], 1, false).is_none() && ShortKey::new(&[1], 1 << 48, false).is_none());
    }
}
