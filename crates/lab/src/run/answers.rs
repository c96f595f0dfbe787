//! Whether two servers gave the same answer.
//!
//! Must not know: experiments.

use crate::client::Answer;

pub(super) type AnswerRow = Vec<Option<String>>;

/// Values that differ by less, relative to themselves, are the same: the order in which floats are added is free.
const TOLERANCE: f64 = 1e-9;

/// What a statement has answered.
#[derive(Debug, Default)]
pub(super) struct StatementAnswer {
    /// The how many-th of those that its script has run.
    pub number: usize,
    /// The statement's place among the figures of its run; None: it has none.
    pub figure: Option<usize>,
    /// How it is called.
    pub title: String,
    pub rows: Vec<AnswerRow>,
}

/// The rows of a statement's answer, sorted unless their order is part of the answer.
pub(super) fn rows_of(answers: Vec<Answer>, is_in_order: bool) -> Vec<AnswerRow> {
    let mut rows = answers.into_iter().next_back().map(|answer| answer.rows).unwrap_or_default();
    if !is_in_order {
        rows.sort();
    }
    rows
}

/// What the first difference is; None: the answers are the same.
pub(super) fn difference(base: &[AnswerRow], other: &[AnswerRow]) -> Option<String> {
    if base.len() != other.len() {
        return Some(format!("{} rows instead of {}", other.len(), base.len()));
    }
    let unequal = |(base, other): &(&AnswerRow, &AnswerRow)| !is_same_row(base, other);
    let (row, (base, other)) = base.iter().zip(other).enumerate().find(|(_, pair)| unequal(pair))?;
    Some(format!("row {}: {} instead of {}", row + 1, shown(other), shown(base)))
}

fn is_same_row(base: &AnswerRow, other: &AnswerRow) -> bool {
    base.len() == other.len() && base.iter().zip(other).all(|(base, other)| is_same_value(base, other))
}

fn is_same_value(base: &Option<String>, other: &Option<String>) -> bool {
    if base == other {
        return true;
    }
    let (Some(base), Some(other)) = (base, other) else { return false };
    match (base.parse::<f64>(), other.parse::<f64>()) {
        (Ok(base), Ok(other)) => (base - other).abs() <= TOLERANCE * base.abs().max(other.abs()),
        _ => false,
    }
}

fn shown(row: &AnswerRow) -> String {
    let values: Vec<&str> = row.iter().map(|value| value.as_deref().unwrap_or("null")).collect();
    format!("({})", values.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[&[&str]], is_in_order: bool) -> Vec<AnswerRow> {
        let value = |text: &&str| (*text != "null").then(|| text.to_string());
        let rows = rows.iter().map(|row| row.iter().map(value).collect()).collect();
        rows_of(vec![Answer { rows, ..Answer::default() }], is_in_order)
    }

    #[test]
    fn the_order_counts_where_it_is_total() {
        let (one, two) = (&["1", "a"][..], &["2", "null"][..]);
        assert_eq!(difference(&rows(&[one, two], false), &rows(&[two, one], false)), None);
        let found = difference(&rows(&[one, two], true), &rows(&[two, one], true));
        assert_eq!(found.as_deref(), Some("row 1: (2, null) instead of (1, a)"));
    }

    #[test]
    fn numbers_are_compared_by_value_and_texts_by_text() {
        let same = |base: &str, other: &str| difference(&rows(&[&[base]], true), &rows(&[&[other]], true)).is_none();
        assert!(same("1.50", "1.5") && same("0.30000000000000004", "0.3") && same("0", "0.0"));
        assert!(!same("1.5", "1.6") && !same("null", "0") && !same("a", "b") && !same("1", "a"));
        let counted = difference(&rows(&[&["1"]], true), &rows(&[], true));
        assert_eq!(counted.as_deref(), Some("0 rows instead of 1"));
    }
}
