//! The hash code of a key, as docs/format.md says.

/// Bytes of a code.
pub const CODE_BYTES: usize = 4;

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// One step takes eight bytes in, or what is left of them.
fn step(state: u64, bytes: u64) -> u64 {
    let mixed = (state ^ bytes).wrapping_mul(FACTOR);
    mixed ^ (mixed >> 32)
}

/// The code of a key, the high half of a 64-bit state, its most significant byte first.
pub fn code_of(key: &[u8]) -> [u8; CODE_BYTES] {
    let mut state = step(FACTOR, key.len() as u64);
    for part in key.chunks(8) {
        let mut bytes = [0; 8];
        bytes[..part.len()].copy_from_slice(part);
        state = step(state, u64::from_le_bytes(bytes));
    }
    let state = step(state, 0);
    ((state >> 32) as u32).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is on disk must be found by later builds.
    #[test]
    fn codes_stay_what_they_are() {
        let codes: Vec<String> = [&b""[..], b"a", b"12345678", b"123456789"]
            .iter()
            .map(|key| code_of(key).iter().map(|b| format!("{b:02x}")).collect())
            .collect();
        assert_eq!(codes, ["352cd683", "d0d83743", "36c8b351", "f4740ed6"]);
    }

    #[test]
    fn codes_of_numbers_in_a_row_are_spread() {
        let mut of_first_byte = [0usize; 256];
        let mut codes = std::collections::BTreeSet::new();
        for n in 0..100_000u32 {
            let code = code_of(&n.to_be_bytes());
            of_first_byte[usize::from(code[0])] += 1;
            codes.insert(code);
        }
        let (fewest, most) = (of_first_byte.iter().min(), of_first_byte.iter().max());
        assert!(fewest > Some(&280) && most < Some(&510), "{fewest:?} {most:?}");
        // By chance one pair is to be expected.
        assert!(codes.len() > 99_980, "{} codes", codes.len());
    }
}
