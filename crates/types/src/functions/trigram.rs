//! Functions of pg_trgm.

use super::textsearch::text_array;
use crate::trigram::{self, Trigram, WordSimilarity, word_similarity};
use crate::{Array, Datum, EvalContext};
use kilndb_base::{Result, work};

fn of_words(strict: bool, pattern: &str, text: &str) -> Result<f32> {
    word_similarity(pattern, text, WordSimilarity { strict, enough: None })
}
fn has_words(cx: &EvalContext<'_>, strict: bool, pattern: &str, text: &str) -> Result<bool> {
    let thresholds = &cx.format.trigram;
    let threshold = if strict { thresholds.strict_word } else { thresholds.word };
    let found = word_similarity(pattern, text, WordSimilarity { strict, enough: Some(threshold) })?;
    Ok(f64::from(found) >= threshold)
}
fn shown(list: &[Trigram]) -> Result<Array> {
    let mut words = Vec::with_capacity(list.len());
    for t in work::steps(list, 100) {
        words.push(Datum::text(trigram::shown(*t?)));
    }
    Ok(text_array(words))
}
fn distance(share: f32) -> f32 {
    (1.0 - f64::from(share)) as f32
}

scalars! {
    fn show_trgm(_c; s: text) = shown(&trigram::of_text(s)?)?;
    fn similarity(_c; a: text, b: text) = trigram::similarity(a, b)?;
    fn similarity_op(c; a: text, b: text) = f64::from(trigram::similarity(a, b)?) >= c.format.trigram.similarity;
    fn similarity_dist(_c; a: text, b: text) = distance(trigram::similarity(a, b)?);
    fn word(_c; a: text, b: text) = of_words(false, a, b)?;
    fn word_op(c; a: text, b: text) = has_words(c, false, a, b)?;
    fn word_commutator_op(c; a: text, b: text) = has_words(c, false, b, a)?;
    fn word_dist_op(_c; a: text, b: text) = distance(of_words(false, a, b)?);
    fn word_dist_commutator_op(_c; a: text, b: text) = distance(of_words(false, b, a)?);
    fn strict_word(_c; a: text, b: text) = of_words(true, a, b)?;
    fn strict_word_op(c; a: text, b: text) = has_words(c, true, a, b)?;
    fn strict_word_commutator_op(c; a: text, b: text) = has_words(c, true, b, a)?;
    fn strict_word_dist_op(_c; a: text, b: text) = distance(of_words(true, a, b)?);
    fn strict_word_dist_commutator_op(_c; a: text, b: text) = distance(of_words(true, b, a)?);
}
