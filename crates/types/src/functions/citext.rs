//! Functions of the extension citext that text has not. What a value is, is said in [`crate::citext`].

use super::get::{self, arg};
use super::rows::{self, FunctionRows, RowsCall};
use super::{regex, string};
use crate::citext::{CITEXT, lower};
use crate::hash::{hash_bytes, hash_bytes_extended};
use crate::key::compare;
use crate::{Datum, EvalContext, pieces};
use kilndb_base::Result;
use std::cmp::Ordering;

fn order(a: &Datum, b: &Datum) -> Ordering {
    compare(CITEXT, a, b)
}
/// Without a letter that asks for case, options get the one that does not.
fn without_case(options: &str) -> String {
    if options.contains('c') { options.to_string() } else { format!("{options}i") }
}
/// The arguments with options that ignore case: those given, or `options` where none are.
fn ignoring_case(args: &[Datum], given: usize, options: &str) -> Result<Vec<Datum>> {
    let mut list = pieces::cloned(args)?;
    let options = match list.get(given) {
        Some(Datum::Text(options)) => without_case(options),
        _ => options.to_string(),
    };
    list.truncate(given);
    list.push(Datum::text(options));
    Ok(list)
}

/// A pattern that matches the text itself.
fn literally(text: &str) -> Result<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    pieces::map_text(text, 4, |piece| {
        let mut out = String::with_capacity(piece.len());
        for c in piece.chars() {
            if !is_plain(c) {
                out.push('\\');
            }
            out.push(c);
        }
        out
    })
}

scalars! {
    fn citext_eq(_c; a: any, b: any) = order(a, b).is_eq();
    fn citext_ne(_c; a: any, b: any) = order(a, b).is_ne();
    fn citext_lt(_c; a: any, b: any) = order(a, b).is_lt();
    fn citext_le(_c; a: any, b: any) = order(a, b).is_le();
    fn citext_gt(_c; a: any, b: any) = order(a, b).is_gt();
    fn citext_ge(_c; a: any, b: any) = order(a, b).is_ge();
    fn citext_cmp(_c; a: any, b: any) = order(a, b) as i32;
    fn citext_pattern_lt(_c; a: any, b: any) = order(a, b).is_lt();
    fn citext_pattern_le(_c; a: any, b: any) = order(a, b).is_le();
    fn citext_pattern_gt(_c; a: any, b: any) = order(a, b).is_gt();
    fn citext_pattern_ge(_c; a: any, b: any) = order(a, b).is_ge();
    fn citext_pattern_cmp(_c; a: any, b: any) = order(a, b) as i32;
    /// Of equal values the second is the result.
    fn citext_smaller(_c; a: any, b: any) = (if order(a, b).is_lt() { a } else { b }).clone();
    fn citext_larger(_c; a: any, b: any) = (if order(a, b).is_gt() { a } else { b }).clone();
    fn citext_hash(_c; a: text) = hash_bytes(lower(a).as_bytes()) as i32;
    fn citext_hash_extended(_c; a: text, seed: int8) = hash_bytes_extended(lower(a).as_bytes(), seed as u64) as i64;
    fn p15837_strpos(_c; a: text, b: text) = string::position(&lower(a), &lower(b))?;
    fn p15840_translate(_c; s: text, from: text, to: text) = {
        let once = string::translate_of(s, &lower(from), to)?;
        string::translate_of(&once, &string::map_case(from, true)?, to)?
    };
}

pub(crate) fn p15827_regexp_match(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    regex::regexp_match(ctx, &ignoring_case(args, 2, "i")?)
}
pub(crate) fn p15828_regexp_match(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    regex::regexp_match(ctx, &ignoring_case(args, 2, "i")?)
}
pub(crate) fn p15831_regexp_replace(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    regex::textregexreplace(ctx, &ignoring_case(args, 3, "i")?)
}
pub(crate) fn p15832_regexp_replace(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    regex::textregexreplace(ctx, &ignoring_case(args, 3, "i")?)
}
pub(crate) fn p15833_regexp_split_to_array(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    regex::regexp_split_to_array(ctx, &ignoring_case(args, 2, "i")?)
}
pub(crate) fn p15834_regexp_split_to_array(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    regex::regexp_split_to_array(ctx, &ignoring_case(args, 2, "i")?)
}
pub(crate) fn p15838_replace(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let pattern = Datum::text(literally(get::text(arg(args, 1)?)?)?);
    let list = [arg(args, 0)?.clone(), pattern, arg(args, 2)?.clone(), Datum::text("gi")];
    regex::textregexreplace(ctx, &list)
}
/// A part beyond the last one is NULL.
pub(crate) fn p15839_split_part(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let pattern = Datum::text(literally(get::text(arg(args, 1)?)?)?);
    let parts = regex::regexp_split_to_array(ctx, &[arg(args, 0)?.clone(), pattern, Datum::text("i")])?;
    let at = get::int4(arg(args, 2)?)?;
    let place = usize::try_from(i64::from(at) - 1).ok();
    Ok(place.and_then(|at| get::array(&parts).ok()?.elements.get(at).cloned()).unwrap_or_default())
}

fn without_case_rows(call: RowsCall<'_>, function: rows::RowsFn) -> Result<FunctionRows> {
    let args = ignoring_case(&call.args, 2, "i")?;
    function(RowsCall { args, ..call })
}
pub(crate) fn p15829_regexp_matches(call: RowsCall<'_>) -> Result<FunctionRows> {
    without_case_rows(call, rows::regexp_matches)
}
pub(crate) fn p15830_regexp_matches(call: RowsCall<'_>) -> Result<FunctionRows> {
    without_case_rows(call, rows::regexp_matches)
}
pub(crate) fn p15835_regexp_split_to_table(call: RowsCall<'_>) -> Result<FunctionRows> {
    without_case_rows(call, rows::regexp_split_to_table)
}
pub(crate) fn p15836_regexp_split_to_table(call: RowsCall<'_>) -> Result<FunctionRows> {
    without_case_rows(call, rows::regexp_split_to_table)
}
