//! SASLprep (RFC 4013) of passwords, as PostgreSQL's clients and server do it.
//!
//! Invariant: both ends of an exchange prepare a password the same way. So PostgreSQL's order is kept, which looks for
//! what is prohibited after mapping and before normalisation, and a password that cannot be prepared is taken as it is.

use std::borrow::Cow;
use stringprep::tables;
use unicode_normalization::UnicodeNormalization;

/// The password as its key is derived from it.
pub fn prepared(password: &[u8]) -> Cow<'_, [u8]> {
    if password.is_ascii() {
        return Cow::Borrowed(password);
    }
    let text = std::str::from_utf8(password).ok();
    text.and_then(normalized).map_or(Cow::Borrowed(password), |text| Cow::Owned(text.into_bytes()))
}

/// None: the text has what SASLprep prohibits.
fn normalized(text: &str) -> Option<String> {
    let mapped: Vec<char> = text
        .chars()
        .filter_map(|c| {
            if tables::non_ascii_space_character(c) {
                Some(' ')
            } else {
                (!tables::commonly_mapped_to_nothing(c)).then_some(c)
            }
        })
        .collect();
    if mapped.is_empty() || mapped.iter().any(|c| is_prohibited(*c)) || !is_in_one_direction(&mapped) {
        return None;
    }
    Some(mapped.into_iter().nfkc().collect())
}

fn is_prohibited(c: char) -> bool {
    tables::ascii_control_character(c)
        || tables::non_ascii_control_character(c)
        || tables::private_use(c)
        || tables::non_character_code_point(c)
        || tables::inappropriate_for_plain_text(c)
        || tables::inappropriate_for_canonical_representation(c)
        || tables::change_display_properties_or_deprecated(c)
        || tables::tagging_character(c)
        || tables::unassigned_code_point(c)
}

/// The rule for text that is written from right to left.
fn is_in_one_direction(text: &[char]) -> bool {
    let is_right_to_left = |c: Option<&char>| c.is_some_and(|c| tables::bidi_r_or_al(*c));
    if !text.iter().any(|c| tables::bidi_r_or_al(*c)) {
        return true;
    }
    is_right_to_left(text.first()) && is_right_to_left(text.last()) && !text.iter().any(|c| tables::bidi_l(*c))
}

#[cfg(test)]
mod tests {
    use super::prepared;

    fn prepares(from: &str, to: &str) {
        assert_eq!(String::from_utf8_lossy(&prepared(from.as_bytes())), to, "{from:?}");
    }

    #[test]
    fn as_rfc_4013_shows() {
        prepares("I\u{AD}X", "IX");
        prepares("user", "user");
        prepares("USER", "USER");
        prepares("\u{AA}", "a");
        prepares("\u{2168}", "IX");
        prepares("a\u{A0}b", "a b");
    }

    #[test]
    fn what_cannot_be_prepared_is_taken_as_it_is() {
        // A control character, two directions, nothing left, a code point without a character.
        for text in ["\u{7}é", "\u{627}1", "\u{627}a\u{627}", "\u{AD}", "\u{221}é"] {
            prepares(text, text);
        }
        // ASCII is not looked at.
        prepares("\u{7}", "\u{7}");
        assert_eq!(&*prepared(b"\xFF\xAA"), b"\xFF\xAA");
    }
}
