//! Base64 as SCRAM's messages and PostgreSQL's verifiers have it: with padding, without white space.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let group = at(0) << 16 | at(1) << 8 | at(2);
        for i in 0..4 {
            let digit = ALPHABET[(group >> (18 - 6 * i) & 63) as usize];
            text.push(if i <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// None: that is no base64.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take_while(|c| **c == b'=').count();
    if padding > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for (number, group) in text.chunks(4).enumerate() {
        let is_last = (number + 1) * 4 == text.len();
        let padding = if is_last { padding } else { 0 };
        let mut value = 0u32;
        for (i, c) in group.iter().enumerate() {
            let digit = if i >= 4 - padding { 0 } else { ALPHABET.iter().position(|a| a == c)? as u32 };
            value = value << 6 | digit;
        }
        bytes.extend_from_slice(&value.to_be_bytes()[1..4 - padding]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn what_is_encoded_is_decoded() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text.as_bytes()).as_deref(), Some(bytes.as_bytes()));
        }
        for wrong in ["Z", "Zg", "Zg=", "=Zg=", "Z===", "====", "Zg==Zg==", "Zm 9", "Zm\u{0}9", "Zm9-"] {
            assert_eq!(decode(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
