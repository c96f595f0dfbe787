//! Base64 as SCRAM's messages and PostgreSQL's verifiers have it: with padding, without white space.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};

/// PostgreSQL does not look at the bits behind the last byte either.
const ENGINE: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

pub fn encode(bytes: &[u8]) -> String {
    ENGINE.encode(bytes)
}

/// None: that is no base64.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    ENGINE.decode(text).ok()
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
        assert_eq!(decode(b"Zh==").as_deref(), Some(&b"f"[..]));
        for wrong in ["Z", "Zg", "Zg=", "=Zg=", "Z===", "====", "Zg==Zg==", "Zm 9", "Zm\u{0}9", "Zm9-"] {
            assert_eq!(decode(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
