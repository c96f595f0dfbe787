//! Frames of the log: the bytes before a record's body, and the sizes of segments and records.
//!
//! Must not know: what is in the bodies.

use crate::crc::crc32c;

pub const SEGMENT: u64 = 16 << 20;
pub(crate) const MAX_BODY: usize = 1 << 16;
/// As PostgreSQL shows LSNs: the high and the low half in hexadecimal digits.
pub(crate) fn shown_lsn(lsn: u64) -> String {
    format!("{:X}/{:X}", lsn >> 32, lsn as u32)
}

pub fn mix(crc: u32, lsn: u64) -> u32 {
    crc ^ (lsn as u32) ^ ((lsn >> 32) as u32).wrapping_mul(0x9e37_79b1)
}

/// The bytes that stand before a body in the log, and how many they are.
pub(crate) fn frame_head(body: &[u8], lsn: u64, crc: u32) -> ([u8; 14], usize) {
    let mut head = [0u8; 14];
    let mut n = 0;
    let mut v = body.len();
    while v >= 0x80 {
        head[n] = v as u8 | 0x80;
        v >>= 7;
        n += 1;
    }
    head[n] = v as u8;
    n += 1;
    head[n..n + 4].copy_from_slice(&mix(crc, lsn).to_le_bytes());
    (head, n + 4)
}
/// A record as it stands in the log at `lsn`.
pub fn frame(body: &[u8], lsn: u64) -> Vec<u8> {
    let (head, len) = frame_head(body, lsn, crc32c(body));
    [&head[..len], body].concat()
}
