//! gin_trgm_ops: a term for each trigram.

use super::{TermCollector, TermCondition, trigram_regex};
use crate::trigram::{self, GAP, Thresholds, Trigram, of_symbols, symbol};
use kilndb_base::{Error, Result};

/// Strategy numbers of the class.
const SIMILAR: u16 = 1;
const LIKE: u16 = 3;
const ILIKE: u16 = 4;
const REGEX: u16 = 5;
const REGEX_ANY_CASE: u16 = 6;
const SIMILAR_WORD: u16 = 7;
const SIMILAR_STRICT_WORD: u16 = 9;
const EQUAL: u16 = 11;

pub fn terms(text: &str, put: &mut dyn FnMut(&[u8])) -> Result<()> {
    trigram::of_text(text)?.iter().for_each(|t| put(t));
    Ok(())
}

pub fn need(strategy: u16, text: &str, thresholds: &Thresholds, terms: &mut TermCollector) -> Result<TermCondition> {
    Ok(match strategy {
        SIMILAR => share(text, thresholds.similarity, terms)?,
        SIMILAR_WORD => share(text, thresholds.word, terms)?,
        SIMILAR_STRICT_WORD => share(text, thresholds.strict_word, terms)?,
        LIKE | ILIKE => like(text, terms)?,
        REGEX => trigram_regex::need(text, false, terms)?,
        REGEX_ANY_CASE => trigram_regex::need(text, true, terms)?,
        EQUAL => all(trigram::of_text(text)?, terms),
        other => return Err(Error::internal(format!("strategy {other} of gin_trgm_ops"))),
    })
}

fn all(list: impl IntoIterator<Item = Trigram>, terms: &mut TermCollector) -> TermCondition {
    TermCondition::all(list.into_iter().map(|t| terms.element(&t)).collect())
}

/// Trigrams that symbols one after the other must have.
pub(crate) fn of_run(symbols: &str, terms: &mut TermCollector) -> Result<TermCondition> {
    let mut list = Vec::new();
    of_symbols(symbols, &mut |t| {
        list.push(t);
        Ok(())
    })?;
    Ok(all(list, terms))
}

/// The other text may have no more trigrams than are common.
fn share(text: &str, threshold: f64, terms: &mut TermCollector) -> Result<TermCondition> {
    let list = trigram::of_text(text)?;
    if threshold <= 0.0 {
        return Ok(TermCondition::Anything);
    }
    let enough = (1..=list.len()).find(|n| f64::from(*n as f32 / list.len() as f32) >= threshold);
    Ok(match enough {
        Some(least) => TermCondition::at_least(least, list.iter().map(|t| terms.element(t)).collect()),
        None => TermCondition::Never,
    })
}

/// What is between the pattern's `%` and `_`.
fn like(pattern: &str, terms: &mut TermCollector) -> Result<TermCondition> {
    let (mut runs, mut run) = (Vec::new(), String::from(GAP));
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '%' | '_' => runs.push(std::mem::take(&mut run)),
            '\\' => run.extend(chars.next().map(symbol)),
            c => run.push(symbol(c)),
        }
    }
    run.push(GAP);
    runs.push(run);
    Ok(TermCondition::all(runs.iter().map(|run| of_run(run, terms)).collect::<Result<_>>()?))
}
