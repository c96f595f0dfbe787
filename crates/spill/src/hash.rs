//! The hash of keys, in hash tables and in partitions of what does not fit in them.

use std::hash::Hasher;

/// A fast hash for keys of our own making (no defence against chosen keys is needed per statement).
#[derive(Default)]
pub struct ByteHasher(u64);

impl ByteHasher {
    pub(crate) fn hash_of(key: &[u8]) -> u64 {
        let mut hasher = ByteHasher::default();
        hasher.write(key);
        hasher.finish()
    }
}

/// Spreads a hash over all bits (the finaliser of splitmix64: Steele, Lea, Flood, OOPSLA 2014).
pub(crate) fn mixed(hash: u64) -> u64 {
    let half = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let whole = (half ^ (half >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    whole ^ (whole >> 31)
}

impl Hasher for ByteHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }
    fn write(&mut self, bytes: &[u8]) {
        const K: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut chunks = bytes.chunks_exact(8);
        for c in &mut chunks {
            let mut b = [0; 8];
            b.copy_from_slice(c);
            self.0 = (self.0.rotate_left(5) ^ u64::from_le_bytes(b)).wrapping_mul(K);
        }
        let mut last = [0; 8];
        let rest = chunks.remainder();
        last[..rest.len()].copy_from_slice(rest);
        self.0 = (self.0.rotate_left(5) ^ u64::from_le_bytes(last) ^ ((bytes.len() as u64) << 56)).wrapping_mul(K);
    }
}
