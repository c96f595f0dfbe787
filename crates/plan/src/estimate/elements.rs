//! How many rows a condition on elements leaves: `tsvector @@ tsquery`, `@>`, `<@`, `&&` of arrays, `value = ANY
//! (array)`. It is estimated as PostgreSQL does, from the common elements that ANALYZE has found, or else from
//! defaults.
//!
//! Invariants
//! 1. Elements are assumed to be independent of one another; for `<@` the numbers of distinct elements per row correct
//!    that.
//!
//! Must not know: what paths cost.

use super::*;
use kilndb_catalog::column_statistics::{ColumnStatistics, ElementStatistics};
use kilndb_fulltext::TsQuery;
use kilndb_fulltext::query::{QueryItem, QueryOperator};
use kilndb_types::key::compare;
use kilndb_types::{Datum, oids};
use std::cmp::Ordering;

/// The selectivity of one element that is not known to be common.
const ELEMENT: f64 = 0.005;
const OVERLAP: f64 = 0.01;
/// Of an operator that is like a match, where nothing is known.
const MATCHING: f64 = 0.01;
/// A prefix takes the common lexemes for samples of all if there are so many.
const LEXEMES_FOR_PREFIX: usize = 100;
/// Estimates of `<@` take about this many steps for a common element.
const EFFORT: usize = 100;

#[derive(Clone, Copy, PartialEq, Eq)]
enum ArrayRelationship {
    Contains,
    Contained,
    Overlaps,
}

impl Planner<'_> {
    /// The share of the rows that satisfy a condition on elements; None: it is none, or nothing is known.
    pub(super) fn element_condition(&self, rel: u32, e: &Expr) -> Option<f64> {
        match &e.kind {
            ExprKind::Func(f) if f.operator != 0 => match (f.args.as_slice(), &*f.name) {
                ([l, r], "@@" | "@@@") => self.search_selectivity(rel, l, r),
                // Of jsonb the common values and the histogram's bounds are tried.
                ([l, _], "@>" | "<@") if self.base_type(l.ty) == oids::JSONB => {
                    Some(self.observed_selectivity(rel, e).unwrap_or(MATCHING))
                }
                ([l, r], "@>" | "<@" | "&&") => self.array_selectivity(rel, &f.name, l, r),
                _ => None,
            },
            ExprKind::ScalarArray { func, any } => match (func.args.as_slice(), &*func.name) {
                ([l, r], "=" | "<>") => self.any_selectivity(rel, (l, r), &*func.name == "=", *any),
                _ => None,
            },
            _ => None,
        }
    }

    /// The element statistics of an expression. None: it is no column of the relation, or was not analyzed.
    fn elements_of(&self, rel: u32, e: &Expr) -> Option<Arc<ColumnStatistics>> {
        let variable = self.variable(e);
        variable.statistics.filter(|_| variable.column.is_some_and(|c| c.rel == rel))
    }

    /// The side that depends on the table, the value of the other one, and whether they stand in this order. None: the
    /// other one has no value yet.
    fn sides<'e>(&self, rel: u32, l: &'e Expr, r: &'e Expr) -> Option<(&'e Expr, Datum, bool)> {
        match (access::foreign(l, rel), access::foreign(r, rel)) {
            (false, true) => Some((l, self.element_value(rel, l, r)?, true)),
            (true, false) => Some((r, self.element_value(rel, r, l)?, false)),
            _ => None,
        }
    }

    /// The value that is compared with the elements of a column.
    fn element_value(&self, rel: u32, column: &Expr, value: &Expr) -> Option<Datum> {
        let has_common = self.elements_of(rel, column).is_some_and(|s| !s.elements.common.is_empty());
        self.value_of(value, has_common)
    }

    fn search_selectivity(&self, rel: u32, l: &Expr, r: &Expr) -> Option<f64> {
        let (vector, value, _) = self.sides(rel, l, r)?;
        if vector.ty != oids::TSVECTOR {
            return None;
        }
        let query = match value {
            Datum::Null => return Some(0.0),
            Datum::TsQuery(query) => query,
            _ => return None,
        };
        let known = self.elements_of(rel, vector);
        let common = known
            .as_ref()
            .map(|k| Lexemes { words: &k.elements.common, frequencies: &k.elements.frequencies })
            .filter(|c| c.frequencies.len() == c.words.len() + 2 && !c.words.is_empty());
        let share = if query.items.is_empty() { 0.0 } else { search(&query, 0, common.as_ref()) };
        Some(share * (1.0 - known.map_or(0.0, |k| k.null_fraction)))
    }

    fn array_selectivity(&self, rel: u32, operator: &str, l: &Expr, r: &Expr) -> Option<f64> {
        let element = self.element_type(l.ty);
        if element == 0 || element != self.element_type(r.ty) {
            return None;
        }
        let default = if operator == "&&" { OVERLAP } else { ELEMENT };
        let Some((column, value, is_left)) = self.sides(rel, l, r) else { return Some(default) };
        let wanted = match &value {
            Datum::Null => return Some(0.0),
            Datum::Array(wanted) => &wanted.elements,
            _ => return Some(default),
        };
        let relationship = match (operator, is_left) {
            ("&&", _) => ArrayRelationship::Overlaps,
            ("@>", true) | ("<@", false) => ArrayRelationship::Contains,
            _ => ArrayRelationship::Contained,
        };
        let known = self.elements_of(rel, column);
        Some(of_elements(relationship, element, wanted, known.as_deref()))
    }

    /// `value = ANY (column)`, and the like with `<>` and ALL.
    fn any_selectivity(&self, rel: u32, (value, column): (&Expr, &Expr), is_equality: bool, any: bool) -> Option<f64> {
        let element = self.element_type(column.ty);
        if element == 0 || access::foreign(column, rel) || !access::foreign(value, rel) {
            return None;
        }
        let known = self.elements_of(rel, column);
        let value = self.element_value(rel, column, value)?;
        if value.is_null() {
            return Some(0.0);
        }
        let relationship = if any == is_equality { ArrayRelationship::Contains } else { ArrayRelationship::Contained };
        let share = of_elements(relationship, element, &[value], known.as_deref());
        Some(if is_equality { share } else { 1.0 - share })
    }
}

struct Lexemes<'a> {
    words: &'a [Datum],
    frequencies: &'a [f32],
}

impl Lexemes<'_> {
    fn least(&self) -> f64 {
        f64::from(self.frequencies[self.words.len()])
    }
    /// The selectivity of a word that is not common.
    fn rare(&self) -> f64 {
        ELEMENT.min(self.least() / 2.0)
    }
    fn word(&self, at: usize) -> &str {
        if let Datum::Text(word) = &self.words[at] { word } else { "" }
    }
    fn exactly(&self, word: &str) -> f64 {
        let order = |at: usize| self.word(at).len().cmp(&word.len()).then_with(|| self.word(at).cmp(word));
        let (mut from, mut to) = (0, self.words.len());
        while from < to {
            let middle = (from + to) / 2;
            match order(middle) {
                Ordering::Less => from = middle + 1,
                Ordering::Greater => to = middle,
                Ordering::Equal => return f64::from(self.frequencies[middle]),
            }
        }
        self.rare()
    }
    fn beginning(&self, prefix: &str) -> f64 {
        let (mut matched, mut all, mut count) = (0.0, 0.0, 0);
        for at in 0..self.words.len() {
            let share = f64::from(self.frequencies[at]);
            if self.word(at).starts_with(prefix) {
                matched += share - matched * share;
                count += 1;
            }
            all += share - all * share;
        }
        // Words that are not common are assumed to have the prefix as often as common ones do.
        let share = f64::clamp(matched, 0.0, 1.0)
            + (1.0 - f64::clamp(all, 0.0, 1.0)) * f64::from(count) / self.words.len() as f64;
        share.max(self.rare())
    }
}

/// The share of the rows that match the part of a query that begins at an item.
fn search(query: &TsQuery, at: usize, common: Option<&Lexemes<'_>>) -> f64 {
    let share = match query.items.get(at) {
        Some(QueryItem::Operand(o)) if o.prefix => match common.filter(|c| c.words.len() >= LEXEMES_FOR_PREFIX) {
            Some(common) => common.beginning(&o.word),
            None => return ELEMENT * 4.0,
        },
        Some(QueryItem::Operand(o)) => common.map_or(ELEMENT, |c| c.exactly(&o.word)),
        Some(QueryItem::Operator { operator: QueryOperator::Not, .. }) => 1.0 - search(query, at + 1, common),
        Some(QueryItem::Operator { operator, left, .. }) => {
            let (a, b) = (search(query, at + 1, common), search(query, at + left, common));
            if *operator == QueryOperator::Or { a + b - a * b } else { a * b }
        }
        None => ELEMENT,
    };
    share.clamp(0.0, 1.0)
}

fn of_elements(
    relationship: ArrayRelationship,
    element: Oid,
    wanted: &[Datum],
    known: Option<&ColumnStatistics>,
) -> f64 {
    let has_null = wanted.iter().any(Datum::is_null);
    if has_null && relationship == ArrayRelationship::Contains {
        return 0.0;
    }
    let mut items: Vec<&Datum> = wanted.iter().filter(|v| !v.is_null()).collect();
    items.sort_by(|a, b| compare(element, a, b));
    items.dedup_by(|a, b| compare(element, a, b) == Ordering::Equal);
    let usable =
        known.map(|k| &k.elements).filter(|k| !k.common.is_empty() && k.frequencies.len() == k.common.len() + 3);
    let share = match relationship {
        ArrayRelationship::Contained => {
            usable.filter(|k| k.counts.len() >= 3).map_or(ELEMENT, |k| f64::from(contained(element, &items, k)))
        }
        _ => contains_or_overlaps(relationship, element, &items, usable),
    };
    share.clamp(0.0, 1.0) * (1.0 - known.map_or(0.0, |k| k.null_fraction))
}

fn contains_or_overlaps(
    relationship: ArrayRelationship,
    element: Oid,
    items: &[&Datum],
    known: Option<&ElementStatistics>,
) -> f64 {
    let rare = known.map_or(ELEMENT, |k| ELEMENT.min(f64::from(k.frequencies[k.common.len()]) / 2.0));
    let share = |item: &Datum| {
        let found = known
            .and_then(|k| k.common.binary_search_by(|c| compare(element, c, item)).ok().map(|at| k.frequencies[at]));
        found.map_or(rare, f64::from)
    };
    let shares = items.iter().map(|item| share(item));
    if relationship == ArrayRelationship::Contains {
        shares.product()
    } else {
        shares.fold(0.0, |sum, share| sum + share - sum * share)
    }
}

/// The share of rows that have nothing but `items`. Of the common elements that are not among these none may be there,
/// nor a rare one; how likely the others are to come as often as rows have elements is known from the numbers of
/// elements.
fn contained(element: Oid, items: &[&Datum], known: &ElementStatistics) -> f32 {
    let common = &known.frequencies[..known.common.len()];
    let rare = (ELEMENT as f32).min(known.frequencies[common.len()] / 2.0);
    let with_null = known.frequencies[common.len() + 2];
    let Some((average, histogram)) = known.counts.split_last() else { return ELEMENT as f32 };
    // The rest of the average number of elements are rare elements.
    let mut rest = *average - common.iter().sum::<f32>();
    let mut others_absent = 1.0f32;
    let mut shares: Vec<f32> = vec![rare; items.len()];
    let mut next = items.iter().zip(&mut shares).peekable();
    for (value, share) in known.common.iter().zip(common) {
        while next.next_if(|(item, _)| compare(element, item, value).is_lt()).is_some() {}
        match next.next_if(|(item, _)| compare(element, item, value).is_eq()) {
            Some((_, place)) => *place = *share,
            None => others_absent *= 1.0 - share,
        }
    }
    rest = rest.max(0.0);
    others_absent *= (-rest).exp();
    limit_effort(&mut shares, common.len());
    let n = shares.len();
    let of_items = distribution(&shares, n, 0.0);
    let of_all = distribution(common, n, rest);
    let of_rows = count_shares(histogram, n);
    let sum: f32 =
        (0..=n).filter(|i| of_all[*i] > 0.0).map(|i| of_rows[i] * others_absent * of_items[i] / of_all[i]).sum();
    (sum * (1.0 - with_null)).clamp(0.0, 1.0)
}

/// Keeps only the greatest shares if there are very many.
fn limit_effort(shares: &mut Vec<f32>, common: usize) {
    if shares.len() > EFFORT * common / (common + shares.len()).max(1) {
        let b = common as f64;
        let most = (((b * b + 4.0 * EFFORT as f64 * b).sqrt() - b) / 2.0) as usize;
        shares.sort_by(|a, b| b.total_cmp(a));
        shares.truncate(most);
    }
}

/// The probabilities that exactly 0, 1 … `most` of independent events happen. `rest` is the sum of rare ones besides,
/// by Poisson's law.
fn distribution(events: &[f32], most: usize, rest: f32) -> Vec<f32> {
    let mut row = vec![0.0f32; most + 1];
    row[0] = 1.0;
    for p in events {
        for j in (0..=most).rev() {
            row[j] = row[j] * (1.0 - p) + if j > 0 { row[j - 1] * p } else { 0.0 };
        }
    }
    if rest <= ELEMENT as f32 {
        return row;
    }
    let mut sum = vec![0.0f32; most + 1];
    let mut p = (-rest).exp();
    for i in 0..=most {
        for j in 0..=most - i {
            sum[i + j] += row[j] * p;
        }
        p *= rest / (i + 1) as f32;
    }
    sum
}

/// The shares of rows with 0, 1 … `most` different elements. Each part of the histogram has the same number of rows,
/// spread evenly, half a share at its bounds.
fn count_shares(histogram: &[f32], most: usize) -> Vec<f32> {
    let part = 1.0 / (histogram.len() - 1) as f32;
    let (mut at, mut width_before) = (0, 0.0f32);
    let share_of = |width: f32, share: f32| if width > 0.0 { share / width } else { 0.0 };
    (0..=most)
        .map(|k| {
            let first = at;
            while histogram.get(at).is_some_and(|bound| *bound <= k as f32) {
                at += 1;
            }
            if at == first {
                return share_of(width_before, part);
            }
            let width = histogram.get(at).map_or(0.0, |bound| bound - histogram[at - 1]);
            let share = part * ((at - first - 1) as f32 + share_of(width, 0.5) + share_of(width_before, 0.5));
            width_before = width;
            share
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> ColumnStatistics {
        let elements = ElementStatistics {
            common: [1, 2, 3].map(Datum::Int4).to_vec(),
            frequencies: vec![0.5, 0.5, 1.0, 0.5, 1.0, 0.0],
            counts: vec![2.0, 2.0, 2.0, 2.0],
        };
        ColumnStatistics { elements, ..Default::default() }
    }

    /// Every row has 3, and 1 or 2.
    #[test]
    fn rows_within_a_list() {
        let known = known();
        let of = |relationship, wanted: &[i32]| {
            of_elements(
                relationship,
                oids::INT4,
                &wanted.iter().map(|n| Datum::Int4(*n)).collect::<Vec<_>>(),
                Some(&known),
            )
        };
        assert_eq!(of(ArrayRelationship::Contains, &[1, 3]), 0.5);
        assert_eq!(of(ArrayRelationship::Overlaps, &[1, 2]), 0.75);
        assert!((of(ArrayRelationship::Contained, &[1, 2, 3]) - 1.0).abs() < 0.01);
        assert!(of(ArrayRelationship::Contained, &[1, 2]) < 0.01);
        assert_eq!(of(ArrayRelationship::Contains, &[99]), 0.005);
    }

    #[test]
    fn words_of_a_search() {
        let words = ["an", "the"].map(Datum::text);
        let common = Lexemes { words: &words, frequencies: &[0.5, 0.8, 0.5, 0.8] };
        let share = |text: &str| search(&TsQuery::parse(text).expect("a query").query, 0, Some(&common));
        assert_eq!(share("the"), f64::from(0.8f32));
        assert_eq!(share("!an"), 0.5);
        assert_eq!(share("an & other"), 0.5 * 0.005);
        assert_eq!(share("an | an"), 0.75);
    }
}
