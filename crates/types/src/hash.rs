//! PostgreSQL's hash functions (Bob Jenkins' lookup3 with PostgreSQL's seed), for hash partitioning that places
//! rows where PostgreSQL does.

use crate::numeric::Numeric;

struct HashState {
    a: u32,
    b: u32,
    c: u32,
}

impl HashState {
    fn new(len: u32) -> HashState {
        let v = 0x9e37_79b9u32.wrapping_add(len).wrapping_add(3_923_095);
        HashState { a: v, b: v, c: v }
    }
    fn mix(&mut self) {
        let HashState { mut a, mut b, mut c } = *self;
        a = a.wrapping_sub(c) ^ c.rotate_left(4);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(6);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(8);
        b = b.wrapping_add(a);
        a = a.wrapping_sub(c) ^ c.rotate_left(16);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(19);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(4);
        b = b.wrapping_add(a);
        *self = HashState { a, b, c };
    }
    fn finish(&mut self) {
        let HashState { mut a, mut b, mut c } = *self;
        c = (c ^ b).wrapping_sub(b.rotate_left(14));
        a = (a ^ c).wrapping_sub(c.rotate_left(11));
        b = (b ^ a).wrapping_sub(a.rotate_left(25));
        c = (c ^ b).wrapping_sub(b.rotate_left(16));
        a = (a ^ c).wrapping_sub(c.rotate_left(4));
        b = (b ^ a).wrapping_sub(a.rotate_left(14));
        c = (c ^ b).wrapping_sub(b.rotate_left(24));
        *self = HashState { a, b, c };
    }
    fn seed(&mut self, seed: u64) {
        if seed != 0 {
            self.a = self.a.wrapping_add((seed >> 32) as u32);
            self.b = self.b.wrapping_add(seed as u32);
            self.mix();
        }
    }
    fn feed(&mut self, key: &[u8]) {
        let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        let mut chunks = key.chunks_exact(12);
        for chunk in &mut chunks {
            self.a = self.a.wrapping_add(word(&chunk[0..4]));
            self.b = self.b.wrapping_add(word(&chunk[4..8]));
            self.c = self.c.wrapping_add(word(&chunk[8..12]));
            self.mix();
        }
        // The tail: the lowest byte of c is left to the length, so its bytes sit one higher.
        for (i, &byte) in chunks.remainder().iter().enumerate() {
            let v = u32::from(byte);
            match i {
                0..=3 => self.a = self.a.wrapping_add(v << (8 * i)),
                4..=7 => self.b = self.b.wrapping_add(v << (8 * (i - 4))),
                _ => self.c = self.c.wrapping_add(v << (8 * (i - 7))),
            }
        }
        self.finish();
    }
}

pub(crate) fn hash_bytes(key: &[u8]) -> u32 {
    let mut s = HashState::new(key.len() as u32);
    s.feed(key);
    s.c
}
pub(crate) fn hash_bytes_extended(key: &[u8], seed: u64) -> u64 {
    let mut s = HashState::new(key.len() as u32);
    s.seed(seed);
    s.feed(key);
    (u64::from(s.b) << 32) | u64::from(s.c)
}
pub(crate) fn hash_u32(k: u32) -> u32 {
    let mut s = HashState::new(4);
    s.a = s.a.wrapping_add(k);
    s.finish();
    s.c
}
pub(crate) fn hash_u32_extended(k: u32, seed: u64) -> u64 {
    let mut s = HashState::new(4);
    s.seed(seed);
    s.a = s.a.wrapping_add(k);
    s.finish();
    (u64::from(s.b) << 32) | u64::from(s.c)
}
/// int8 hashes like int4 where the values agree.
fn fold_i64(v: i64) -> u32 {
    let low = v as u32;
    let high = (v >> 32) as u32;
    low ^ if v >= 0 { high } else { !high }
}
pub(crate) fn hash_i64(v: i64) -> u32 {
    hash_u32(fold_i64(v))
}
pub(crate) fn hash_i64_extended(v: i64, seed: u64) -> u64 {
    hash_u32_extended(fold_i64(v), seed)
}
/// float4 hashes as float8; −0 as 0; every NaN alike.
pub(crate) fn hash_f64(v: f64) -> u32 {
    if v == 0.0 {
        return 0;
    }
    hash_bytes(&canonical(v).to_le_bytes())
}
pub(crate) fn hash_f64_extended(v: f64, seed: u64) -> u64 {
    if v == 0.0 {
        return seed;
    }
    hash_bytes_extended(&canonical(v).to_le_bytes(), seed)
}
fn canonical(v: f64) -> f64 {
    if v.is_nan() { f64::from_bits(0x7ff8_0000_0000_0000) } else { v }
}

/// hash_numeric: numbers that are equal have equal hashes, whatever their display scales.
pub(crate) fn hash_numeric(n: &Numeric) -> u32 {
    match n.hash_parts() {
        None => 0,
        Some((bytes, _)) if bytes.is_empty() => u32::MAX,
        Some((bytes, weight)) => hash_bytes(&bytes) ^ weight as u32,
    }
}
/// hash_numeric_extended.
pub(crate) fn hash_numeric_extended(n: &Numeric, seed: u64) -> u64 {
    match n.hash_parts() {
        None => seed,
        Some((bytes, _)) if bytes.is_empty() => seed.wrapping_sub(1),
        Some((bytes, weight)) => hash_bytes_extended(&bytes, seed) ^ i64::from(weight) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn known_values() {
        // Figures of PostgreSQL 18.
        assert_eq!(hash_u32(1) as i32, -1905060026);
        assert_eq!(hash_bytes(b"hello world, this is") as i32, HASH_TEXT);
        assert_eq!(hash_bytes_extended(b"abc", 7) as i64, HASH_TEXT_EXT);
        assert_eq!(hash_i64(-5) as i32, HASH_I8);
        assert_eq!(hash_f64(1.5) as i32, HASH_F8);
    }
    const HASH_TEXT: i32 = 1224919347;
    const HASH_TEXT_EXT: i64 = 1967049030278966041;
    const HASH_I8: i32 = 1412886042;
    const HASH_F8: i32 = 630860146;
}
