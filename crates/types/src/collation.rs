//! Collations: by which rules texts are compared where bytes do not decide (docs/decisions/0060).
//!
//! A text is compared by the type that it is of (`key`), and so a text under rules of its own is, to whatever compares,
//! sorts, hashes or makes keys, of a type of its own: its *order type*, an OID that stands for the type and the rules.
//! Order types live as long as the process and are never stored; catalogs name collations.
//!
//! Invariants
//! 1. The order of an order type is that of the bytes of its keys, as `key` has it of all types.
//! 2. Under a deterministic collation nothing is equal but what has equal bytes.
//!
//! Must not know: catalogs, expressions.

use crate::types;
use icu_collator::options::{AlternateHandling, CaseLevel, CollatorOptions, MaxVariable, Strength};
use icu_collator::{CollatorBorrowed, CollatorPreferences};
use icu_locale_core::Locale;
use kilndb_base::sync::{Mutex, OnceLock, PoisonError};
use kilndb_base::{Error, Oid, Result, sqlstate, work};
use std::cmp::Ordering;

/// The collation of a database's texts unless they have another.
pub const DEFAULT_COLLATION: Oid = 100;
pub const C_COLLATION: Oid = 950;

/// Order types are from here up. No catalog gives out an OID among them.
pub const FIRST_ORDER_TYPE: Oid = 0xffff_0000;
/// So many order types can be in use in a process.
const ORDER_TYPES: usize = 4096;

/// Texts up to this length are compared in no time.
const SHORT: usize = 256;

/// The rules of a locale's dictionaries, from ICU's data.
pub struct CollationRules {
    /// The locale as CREATE COLLATION names it, with its options (`-u-…`).
    pub locale: String,
    /// Texts that the rules do not tell apart are told apart by their bytes.
    pub is_deterministic: bool,
    collator: CollatorBorrowed<'static>,
}

impl std::fmt::Debug for CollationRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CollationRules").field(&self.locale).finish()
    }
}

/// A collation as tables and expressions have it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Collation {
    /// 0: what has it is of a type without collations.
    pub oid: Oid,
    /// None: texts are compared by their bytes.
    pub rules: Option<&'static CollationRules>,
}

impl PartialEq for Collation {
    fn eq(&self, other: &Collation) -> bool {
        self.oid == other.oid
    }
}
impl Eq for Collation {}

impl Collation {
    /// A collation that compares bytes.
    pub const fn of_bytes(oid: Oid) -> Collation {
        Collation { oid, rules: None }
    }
    /// What a value of the type is to whoever compares it. Types that are no texts are what they are.
    pub fn order_type(self, type_oid: Oid) -> Oid {
        match self.rules {
            Some(rules) => order_type(type_oid, rules),
            None => type_oid,
        }
    }
    pub fn is_deterministic(self) -> bool {
        self.rules.is_none_or(|rules| rules.is_deterministic)
    }
}

/// A type under rules.
struct OrderType {
    of: Oid,
    rules: &'static CollationRules,
    /// Of an array: what its elements are, the element's own type first.
    element: OnceLock<(Oid, Oid)>,
}

struct Interned {
    rules: Vec<&'static CollationRules>,
    order_types: usize,
}

static INTERNED: Mutex<Interned> = Mutex::new(Interned { rules: Vec::new(), order_types: 0 });
static TYPES: [OnceLock<OrderType>; ORDER_TYPES] = [const { OnceLock::new() }; ORDER_TYPES];

/// The rules of a locale. Errors: 22023 for a text that is no locale, 0A000 for options that do not exist here.
pub fn rules(locale: &str, is_deterministic: bool) -> Result<&'static CollationRules> {
    let mut interned = INTERNED.lock().unwrap_or_else(PoisonError::into_inner);
    let is_it = |rules: &&&'static CollationRules| rules.locale == locale && rules.is_deterministic == is_deterministic;
    if let Some(known) = interned.rules.iter().find(is_it) {
        return Ok(known);
    }
    let collator = collator(locale)?;
    // Collations are few, and whatever has been compared by one may be compared again.
    let rules: &'static CollationRules =
        Box::leak(Box::new(CollationRules { locale: locale.to_string(), is_deterministic, collator }));
    interned.rules.push(rules);
    Ok(rules)
}

fn not_a_locale(locale: &str) -> Error {
    Error::new(
        sqlstate::INVALID_PARAMETER_VALUE,
        format!("could not convert locale name \"{locale}\" to language tag: U_ILLEGAL_ARGUMENT_ERROR"),
    )
}

/// The locale as ICU's language tags are written: `en_US@colStrength=primary` is older than those, and not read.
pub fn parse_locale(locale: &str) -> Result<Locale> {
    let tag = if locale.is_empty() { "und".to_string() } else { locale.replace('_', "-") };
    if tag.contains('@') {
        return Err(Error::unsupported(format!("ICU locale \"{locale}\" is no language tag: it")));
    }
    Locale::try_from_str(&tag).map_err(|_| not_a_locale(locale))
}

/// Reads the options of a language tag that ICU's library does not read itself.
fn collator(locale: &str) -> Result<CollatorBorrowed<'static>> {
    let tag = parse_locale(locale)?;
    let mut options = CollatorOptions::default();
    for (key, value) in tag.extensions.unicode.keywords.iter() {
        let value = value.to_string();
        match (key.as_str(), value.as_str()) {
            ("ks", "level1") => options.strength = Some(Strength::Primary),
            ("ks", "level2") => options.strength = Some(Strength::Secondary),
            ("ks", "level3" | "") => options.strength = Some(Strength::Tertiary),
            ("ks", "level4") => options.strength = Some(Strength::Quaternary),
            ("ks", "identic") => options.strength = Some(Strength::Identical),
            ("ka", "shifted") => options.alternate_handling = Some(AlternateHandling::Shifted),
            ("ka", _) => options.alternate_handling = Some(AlternateHandling::NonIgnorable),
            ("kc", "" | "true") => options.case_level = Some(CaseLevel::On),
            ("kc", _) => options.case_level = Some(CaseLevel::Off),
            ("kv", "space") => options.max_variable = Some(MaxVariable::Space),
            ("kv", "punct") => options.max_variable = Some(MaxVariable::Punctuation),
            ("kv", "symbol") => options.max_variable = Some(MaxVariable::Symbol),
            ("kv", "currency") => options.max_variable = Some(MaxVariable::Currency),
            // The library reads these. Texts are always compared as if they were normalized.
            ("co" | "kf" | "kn" | "kk" | "va", _) => {}
            (key, value) => {
                return Err(Error::unsupported(format!("collation option \"{key}-{value}\" of ICU locales")));
            }
        }
    }
    CollatorBorrowed::try_new(CollatorPreferences::from(&tag), options)
        .map_err(|_| Error::unsupported(format!("ICU locale \"{locale}\"")))
}

/// The OID that stands for a type under rules: of a text, or of an array of texts. Any other type stays what it is, and
/// so does a type when there are too many of them.
fn order_type(type_oid: Oid, rules: &'static CollationRules) -> Oid {
    if type_oid >= FIRST_ORDER_TYPE {
        return type_oid;
    }
    let mut interned = INTERNED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = TYPES[..interned.order_types].iter().filter_map(OnceLock::get);
    let at = known
        .into_iter()
        .position(|ty| ty.of == type_oid && std::ptr::eq(ty.rules, rules))
        .unwrap_or(interned.order_types);
    assert!(at < ORDER_TYPES, "more collations are in use than a process can have");
    if at == interned.order_types {
        let _ = TYPES[at].set(OrderType { of: type_oid, rules, element: OnceLock::new() });
        interned.order_types += 1;
    }
    FIRST_ORDER_TYPE + at as Oid
}

fn of(oid: Oid) -> Option<&'static OrderType> {
    TYPES.get(oid.checked_sub(FIRST_ORDER_TYPE)? as usize)?.get()
}

/// The rules by which values of the type are compared; None: its own.
#[inline]
pub fn rules_of(oid: Oid) -> Option<&'static CollationRules> {
    if oid < FIRST_ORDER_TYPE { None } else { of(oid).map(|ty| ty.rules) }
}

/// Whether texts are compared by the same rules, or by their bytes both times.
pub fn same_rules(a: Option<&CollationRules>, b: Option<&CollationRules>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => std::ptr::eq(a, b),
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// The type that an order type is of, or the type itself.
#[inline]
pub fn without_rules(oid: Oid) -> Oid {
    if oid < FIRST_ORDER_TYPE { oid } else { of(oid).map_or(oid, |ty| ty.of) }
}

/// What an array's elements are compared as, if the array's type is `oid` and theirs is `element`.
#[inline]
pub(crate) fn element_order_type(oid: Oid, element: Oid) -> Oid {
    if oid < FIRST_ORDER_TYPE {
        return element;
    }
    let Some(ty) = of(oid) else { return element };
    let known = ty.element.get_or_init(|| (element, order_type(element, ty.rules)));
    if known.0 == element { known.1 } else { order_type(element, ty.rules) }
}

/// The order of two texts of an order type; None: `oid` is none.
#[inline]
pub(crate) fn compare_texts(oid: Oid, a: &str, b: &str) -> Option<Ordering> {
    if oid < FIRST_ORDER_TYPE {
        return None;
    }
    let ty = of(oid)?;
    Some(ty.rules.compare(&types::folded(ty.of, a), &types::folded(ty.of, b)))
}

/// Appends the key of a text of an order type; false: `oid` is none.
pub(crate) fn encode_text(oid: Oid, text: &str, out: &mut Vec<u8>) -> bool {
    let Some(ty) = of(oid) else { return false };
    ty.rules.encode(&types::folded(ty.of, text), out);
    true
}

impl CollationRules {
    pub fn compare(&self, a: &str, b: &str) -> Ordering {
        if a.len().min(b.len()) > SHORT {
            work::owe(a.len().min(b.len()) * 8);
        }
        match self.collator.compare(a, b) {
            Ordering::Equal if self.is_deterministic => a.as_bytes().cmp(b.as_bytes()),
            order => order,
        }
    }

    /// Appends bytes whose order is [`CollationRules::compare`]'s, and which end with a byte 0 that is not among them.
    fn encode(&self, text: &str, out: &mut Vec<u8>) {
        if text.len() > SHORT {
            work::owe(text.len() * 16);
        }
        let start = out.len();
        let Ok(()) = self.collator.write_sort_key_to(text, out);
        assert!(!out[start..].contains(&0), "a sort key has no zero bytes");
        out.push(0);
        if self.is_deterministic {
            out.extend_from_slice(text.as_bytes());
            out.push(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{compare, encode_key};
    use crate::{Datum, oids};

    fn order(locale: &str, is_deterministic: bool) -> Oid {
        Collation { oid: 1, rules: Some(rules(locale, is_deterministic).unwrap()) }.order_type(oids::TEXT)
    }

    #[test]
    fn keys_are_in_the_order_of_texts() {
        let words = [
            "", "a", "A", "ab", "äb", "z", "ä", "Z", "ö", "o", "10", "9", "a b", "a-b", "\u{1}", "日本", "é",
            "e\u{301}",
        ];
        for locale in
            ["und", "sv", "de-u-co-phonebk", "und-u-ks-level2", "und-u-kn", "und-u-ks-level1-kc", "und-u-ka-shifted"]
        {
            for is_deterministic in [true, false] {
                let ty = order(locale, is_deterministic);
                for a in words {
                    for b in words {
                        let key = |text: &str| {
                            let mut out = Vec::new();
                            encode_key(ty, &Datum::text(text), false, false, &mut out).unwrap();
                            out
                        };
                        let expected = compare(ty, &Datum::text(a), &Datum::text(b));
                        assert_eq!(key(a).cmp(&key(b)), expected, "{a:?} {b:?} by {locale}");
                        assert!(!is_deterministic || expected.is_eq() == (a == b));
                    }
                }
            }
        }
    }

    #[test]
    fn swedish_has_letters_behind_z() {
        let before = |ty, a, b| compare(ty, &Datum::text(a), &Datum::text(b)).is_lt();
        assert!(before(order("sv", true), "z", "ä"));
        assert!(before(order("und", true), "ä", "z"));
        assert!(before(order("und-u-kn", true), "9", "10"));
        assert!(compare(order("und-u-ks-level2", false), &Datum::text("ABC"), &Datum::text("abc")).is_eq());
    }

    #[test]
    fn what_is_no_locale_is_refused() {
        assert_eq!(rules("no locale", true).err().unwrap().sqlstate(), sqlstate::INVALID_PARAMETER_VALUE);
        assert_eq!(rules("und-u-kr-digit", true).err().unwrap().sqlstate(), sqlstate::FEATURE_NOT_SUPPORTED);
    }
}
