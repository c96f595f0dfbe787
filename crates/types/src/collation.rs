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

use crate::citext::CITEXT;
use crate::{oids, types};
use icu_collator::options::{AlternateHandling, CaseLevel, CollatorOptions, MaxVariable, Strength};
use icu_collator::{CollatorBorrowed, CollatorPreferences};
use icu_locale_core::{LanguageIdentifier, Locale};
use kilndb_base::sync::{Mutex, OnceLock, PoisonError};
use kilndb_base::{Error, Oid, Result, sqlstate, work};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The collation of a database's texts unless they have another.
pub const DEFAULT_COLLATION: Oid = 100;
pub const C_COLLATION: Oid = 950;

/// Order types are from here up. No catalog gives out an OID among them.
pub const FIRST_ORDER_TYPE: Oid = 0xffff_0000;
/// So many collations of different locales can be in use in a process.
const MAX_RULES: usize = 4096;
/// The types whose texts are told apart under the same rules: the others count as the first of these.
const TEXT_TYPES: [Oid; 3] = [oids::TEXT, oids::BPCHAR, CITEXT];
const _: () = assert!(MAX_RULES * TEXT_TYPES.len() <= (Oid::MAX - FIRST_ORDER_TYPE) as usize);

/// Texts up to this length are compared in no time.
const SHORT: usize = 256;

/// The rules of a locale's dictionaries, from ICU's data.
pub struct CollationRules {
    /// The locale as CREATE COLLATION names it, with its options (`-u-…`).
    pub locale: String,
    /// Texts that the rules do not tell apart are told apart by their bytes.
    pub is_deterministic: bool,
    /// What cases of letters depend on.
    pub(crate) language: LanguageIdentifier,
    collator: CollatorBorrowed<'static>,
    /// Where it stands among the process's rules.
    number: usize,
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
            Some(rules) => rules.order_type(type_oid),
            None => type_oid,
        }
    }
    pub fn is_deterministic(self) -> bool {
        self.rules.is_none_or(|rules| rules.is_deterministic)
    }
}

static RULES: [OnceLock<CollationRules>; MAX_RULES] = [const { OnceLock::new() }; MAX_RULES];
/// The rules that there are, by locale and whether they are deterministic.
static NUMBERS: Mutex<BTreeMap<(String, bool), usize>> = Mutex::new(BTreeMap::new());

/// The rules of a locale, which stay as long as the process: whatever has been compared by them may be compared again.
/// Errors: 22023 for a text that is no locale, 0A000 for options that do not exist here, 54000 for too many.
pub fn rules(locale: &str, is_deterministic: bool) -> Result<&'static CollationRules> {
    let mut numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (locale.to_string(), is_deterministic);
    if let Some(known) = numbers.get(&key).and_then(|number| RULES[*number].get()) {
        return Ok(known);
    }
    let number = numbers.len();
    let Some(free) = RULES.get(number) else {
        let message = format!("too many collations are in use: a server can have {MAX_RULES}");
        return Err(Error::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, message));
    };
    let tag = parse_locale(locale)?;
    let collator = collator(locale, &tag)?;
    numbers.insert(key, number);
    Ok(free.get_or_init(|| CollationRules {
        locale: locale.to_string(),
        is_deterministic,
        language: tag.id,
        collator,
        number,
    }))
}

fn not_a_locale(locale: &str) -> Error {
    Error::new(
        sqlstate::INVALID_PARAMETER_VALUE,
        format!("could not convert locale name \"{locale}\" to language tag: U_ILLEGAL_ARGUMENT_ERROR"),
    )
}

/// A locale of the operating system's manner without the encoding that it may name: `en_US` of `en_US.UTF-8`.
pub fn without_encoding(locale: &str) -> String {
    let (before, options) = match locale.split_once('@') {
        Some((before, options)) => (before, format!("@{options}")),
        None => (locale, String::new()),
    };
    let name = before.split_once('.').map_or(before, |(name, _)| name);
    format!("{name}{options}")
}

/// The locale as ICU's language tags are written: `en_US@colStrength=primary` is older than those, and not read.
pub fn parse_locale(locale: &str) -> Result<Locale> {
    let tag = if locale.is_empty() { "und".to_string() } else { without_encoding(locale).replace('_', "-") };
    if tag.contains('@') {
        return Err(Error::unsupported(format!("ICU locale \"{locale}\" is no language tag: it")));
    }
    Locale::try_from_str(&tag).map_err(|_| not_a_locale(locale))
}

/// Reads the options of a language tag that ICU's library does not read itself.
fn collator(locale: &str, tag: &Locale) -> Result<CollatorBorrowed<'static>> {
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
    CollatorBorrowed::try_new(CollatorPreferences::from(tag), options)
        .map_err(|_| Error::unsupported(format!("ICU locale \"{locale}\"")))
}

/// The rules of an order type, and which texts it is of.
#[inline]
fn of(oid: Oid) -> Option<(&'static CollationRules, Oid)> {
    let at = oid.checked_sub(FIRST_ORDER_TYPE)? as usize;
    Some((RULES.get(at / TEXT_TYPES.len())?.get()?, TEXT_TYPES[at % TEXT_TYPES.len()]))
}

/// The rules by which values of the type are compared; None: its own.
#[inline]
pub fn rules_of(oid: Oid) -> Option<&'static CollationRules> {
    of(oid).map(|(rules, _)| rules)
}

/// Whether texts are compared by the same rules, or by their bytes both times.
pub fn same_rules(a: Option<&CollationRules>, b: Option<&CollationRules>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => std::ptr::eq(a, b),
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// What an array's elements are compared as, if the array's type is `oid` and theirs is `element`.
#[inline]
pub(crate) fn element_order_type(oid: Oid, element: Oid) -> Oid {
    rules_of(oid).map_or(element, |rules| rules.order_type(element))
}

/// The order of two texts of an order type; None: `oid` is none.
#[inline]
pub(crate) fn compare_texts(oid: Oid, a: &str, b: &str) -> Option<Ordering> {
    let (rules, ty) = of(oid)?;
    Some(rules.compare(&types::folded(ty, a), &types::folded(ty, b)))
}

/// Appends the key of a text of an order type; false: `oid` is none.
pub(crate) fn encode_text(oid: Oid, text: &str, out: &mut Vec<u8>) -> bool {
    let Some((rules, ty)) = of(oid) else { return false };
    rules.encode(&types::folded(ty, text), out);
    true
}

impl CollationRules {
    /// The OID that stands for a type of texts, or of arrays of them, under these rules.
    pub fn order_type(&self, type_oid: Oid) -> Oid {
        let ty = TEXT_TYPES.iter().position(|ty| *ty == type_oid).unwrap_or(0);
        FIRST_ORDER_TYPE + (self.number * TEXT_TYPES.len() + ty) as Oid
    }

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
    fn texts_that_fold_do_so_under_rules_too() {
        for ty in types::descriptors().filter(|ty| ty.folded.is_some()) {
            assert!(TEXT_TYPES.contains(&ty.oid), "{}", ty.oid);
        }
        let is_equal = |ty: Oid, a, b| {
            let ty = rules("und", false).unwrap().order_type(ty);
            compare(ty, &Datum::text(a), &Datum::text(b)).is_eq()
        };
        assert!(is_equal(oids::BPCHAR, "a  ", "a") && !is_equal(oids::TEXT, "a  ", "a"));
        assert!(is_equal(CITEXT, "A", "a") && !is_equal(oids::VARCHAR, "A", "a"));
    }

    #[test]
    fn what_is_no_locale_is_refused() {
        assert_eq!(rules("no locale", true).err().unwrap().sqlstate(), sqlstate::INVALID_PARAMETER_VALUE);
        assert_eq!(rules("und-u-kr-digit", true).err().unwrap().sqlstate(), sqlstate::FEATURE_NOT_SUPPORTED);
    }
}
