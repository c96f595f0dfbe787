//! Which bytes of keys tell them apart.

use kilndb_base::bytes::first_word;

/// So many of a key's first bytes are looked at to find those that tell keys apart.
const LOOKED_BYTES: usize = 32;

/// The first positions at which keys differ. Of two keys the bytes at these positions tell the order, unless they are the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TellingBytes {
    pub positions: [u8; 8],
    count: usize,
    /// There may be others behind these.
    pub has_more: bool,
}

impl TellingBytes {
    pub const FIRST: TellingBytes = TellingBytes { positions: [0, 1, 2, 3, 4, 5, 6, 7], count: 8, has_more: true };

    /// The key's bytes at these positions, as a number that orders like them, zeros where the key is shorter.
    #[inline]
    pub fn prefix_of(&self, key: &[u8]) -> u64 {
        let first = usize::from(self.positions[0]);
        if self.count == 8 && usize::from(self.positions[7]) == first + 7 {
            return first_word(key.get(first..).unwrap_or(&[]));
        }
        let mut prefix = [0; 8];
        for (byte, at) in prefix.iter_mut().zip(&self.positions[..self.count]) {
            *byte = key.get(usize::from(*at)).copied().unwrap_or(0);
        }
        u64::from_be_bytes(prefix)
    }
}

/// The bits of the first bytes that are not the same in all keys. Keys that are shorter count as if zeros followed: comparing
/// whole keys tells them apart where that matters.
#[derive(Default)]
pub(super) struct DifferingBits {
    first: Option<[u128; 2]>,
    differing: [u128; 2],
}

impl DifferingBits {
    pub fn add(&mut self, key: &[u8]) {
        let mut bytes = [0; LOOKED_BYTES];
        let n = key.len().min(LOOKED_BYTES);
        bytes[..n].copy_from_slice(&key[..n]);
        let half = |from: usize| {
            let mut half = [0; 16];
            half.copy_from_slice(&bytes[from..from + 16]);
            u128::from_le_bytes(half)
        };
        let words = [half(0), half(16)];
        let first = self.first.get_or_insert(words);
        for ((differing, first), word) in self.differing.iter_mut().zip(first).zip(words) {
            *differing |= *first ^ word;
        }
    }
    /// Counts the keys that another one has counted.
    pub fn add_all(&mut self, others: &DifferingBits) {
        let Some(theirs) = others.first else { return };
        let first = *self.first.get_or_insert(theirs);
        for at in 0..first.len() {
            self.differing[at] |= others.differing[at] | (first[at] ^ theirs[at]);
        }
    }
    /// `longest`: how many bytes a key has at most.
    pub fn telling(&self, longest: usize) -> TellingBytes {
        let bytes = self.differing.map(u128::to_le_bytes);
        let mut found = TellingBytes { positions: [0; 8], count: 0, has_more: longest > LOOKED_BYTES };
        for (at, _) in bytes.as_flattened().iter().enumerate().filter(|(_, byte)| **byte != 0) {
            if found.count == found.positions.len() {
                found.has_more = true;
                break;
            }
            found.positions[found.count] = at as u8;
            found.count += 1;
        }
        found
    }
}
