//! Cases of letters by the rules of a locale: upper, lower, initcap and casefold under a collation of ICU's.
//!
//! Each function takes, behind its own argument, an order type of the collation's rules.
//!
//! Must not know: collations of tables.

use crate::collation::rules_of;
use crate::functions::ScalarFn;
use crate::functions::limits;
use crate::{Datum, EvalContext};
use icu_casemap::CaseMapperBorrowed;
use icu_locale_core::LanguageIdentifier;
use kilndb_base::{Error, Oid, Result, work};
use unicode_segmentation::UnicodeSegmentation;

/// The function that does by a locale's rules what the one with this OID does by those of all; None: it depends on none.
pub fn by_locale(oid: Oid) -> Option<ScalarFn> {
    Some(match oid {
        870 => lower,
        871 => upper,
        872 => initcap,
        6412 => casefold,
        _ => return None,
    })
}

/// The text that `map` makes of the argument, which may be three times as long.
fn mapped(args: &[Datum], map: impl FnOnce(&str, &LanguageIdentifier) -> String) -> Result<Datum> {
    let [Datum::Text(text), Datum::Oid(order_type)] = args else {
        return Err(Error::internal("a case by locale of something else than a text"));
    };
    let Some(rules) = rules_of(*order_type) else { return Err(Error::internal("a case by no locale")) };
    work::owe(text.len() * 8);
    limits::joined(text.len() * 3, 0)?;
    Ok(Datum::Text(map(text, &rules.language).as_str().into()))
}

fn lower(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    mapped(args, |text, language| CaseMapperBorrowed::new().lowercase_to_string(text, language).into_owned())
}

fn upper(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    mapped(args, |text, language| CaseMapperBorrowed::new().uppercase_to_string(text, language).into_owned())
}

/// Words end where Unicode says so (UAX 29), which an apostrophe within one does not.
fn initcap(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    mapped(args, |text, language| {
        let mapper = CaseMapperBorrowed::new();
        let titled = |word| {
            mapper.titlecase_segment_with_only_case_data_to_string(word, language, Default::default()).into_owned()
        };
        text.split_word_bounds().map(titled).collect()
    })
}

fn casefold(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    mapped(args, |text, language| {
        let mapper = CaseMapperBorrowed::new();
        let is_turkic = matches!(language.language.as_str(), "tr" | "az");
        if is_turkic { mapper.fold_turkic_string(text) } else { mapper.fold_string(text) }.into_owned()
    })
}
