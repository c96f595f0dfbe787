//! The ranges of keys in which the values that are looked for are.
//!
//! Invariants
//! 1. Encoded columns follow one another and each says itself where it ends, so a bound of several columns is one byte
//!    string, and ranges that are made in the order of their columns' values are in the order of keys.
//! 2. No two ranges share a key: a row is found once.

use super::context::{ExecContext, RunState};
use super::expr::Evaluate;
use super::index::fit;
use kilndb_base::Result;
use kilndb_catalog::IndexKey;
use kilndb_catalog::key_range::{KeyRange, append, prefix_range, successor};
use kilndb_plan::{KeyBound, KeyPoints, KeySearch};
use kilndb_storage::Relation;
use kilndb_types::Datum;
use kilndb_types::key::column_len;
use std::ops::Bound;
use std::sync::Arc;

/// Combinations of several arrays' elements are looked for one by one up to so many. Beyond, what is said of further
/// columns is left to the scan's filter.
const MOST_COMBINATIONS: usize = 1 << 16;

/// Values of a column without conditions are skipped through up to so many.
const MOST_SKIPPED: usize = 1000;

/// What is looked for after the equal columns.
pub(super) struct KeysAfter<'a> {
    pub search: &'a KeySearch,
    /// The columns after the equal ones.
    pub keys: &'a [IndexKey],
    pub tree: &'a Arc<Relation>,
}

impl KeysAfter<'_> {
    /// The ranges after `prefix`, which the equal columns are.
    pub fn ranges(&self, prefix: Vec<u8>, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Vec<KeyRange>> {
        let search = self.search;
        let mut prefixes = vec![prefix];
        for (points, key) in search.points.iter().zip(self.keys) {
            if matches!(points, KeyPoints::Each) {
                match self.with_each_value(&prefixes, key, cx)? {
                    Some(longer) => prefixes = longer,
                    None => return Ok(prefixes.into_iter().map(prefix_range).collect()),
                }
                continue;
            }
            let values = encoded(points, key, rt, cx)?;
            if prefixes.len() > 1 && prefixes.len().saturating_mul(values.len()) > MOST_COMBINATIONS {
                return Ok(prefixes.into_iter().map(prefix_range).collect());
            }
            prefixes = match values.as_slice() {
                [one] => {
                    prefixes.iter_mut().for_each(|prefix| prefix.extend_from_slice(one));
                    prefixes
                }
                several => prefixes.iter().flat_map(|p| several.iter().map(|v| [&p[..], &v[..]].concat())).collect(),
            };
        }
        if search.bounds.is_empty() && !search.not_null {
            return Ok(prefixes.into_iter().map(prefix_range).collect());
        }
        let rest = self.keys.get(search.points.len()..).unwrap_or_default();
        let Some(span) = Span::of(search, rest, rt, cx)? else { return Ok(Vec::new()) };
        Ok(prefixes.into_iter().map(|prefix| span.after(prefix)).collect())
    }

    /// The prefixes with each value that the next column has after them in the tree; None: these are too many.
    fn with_each_value(
        &self,
        prefixes: &[Vec<u8>],
        key: &IndexKey,
        cx: &mut ExecContext<'_>,
    ) -> Result<Option<Vec<Vec<u8>>>> {
        let mut longer = Vec::new();
        let (mut keys, mut ends, mut rids) = (Vec::new(), Vec::new(), Vec::new());
        for prefix in prefixes {
            let (mut from, to) = prefix_range(prefix.clone());
            loop {
                keys.clear();
                ends.clear();
                rids.clear();
                let mut scan = self.tree.index_scan_for(&cx.snapshot, from, to.clone(), false, false)?;
                scan.next_batch(&mut keys, &mut ends, &mut rids)?;
                let Some(end) = ends.first() else { break };
                let first = keys.get(prefix.len()..*end as usize).unwrap_or(&[]);
                let Some(len) = column_len(key.order_type, first, key.descending) else { return Ok(None) };
                longer.push(keys[..prefix.len() + len].to_vec());
                cx.park.checkpoint()?;
                match longer.last().and_then(|value| successor(value)) {
                    Some(next) => from = Bound::Included(next),
                    None => break,
                }
                if longer.len() > MOST_SKIPPED {
                    return Ok(None);
                }
            }
        }
        Ok(Some(longer))
    }
}

/// The values that a column may have, encoded, in order, each once.
fn encoded(points: &KeyPoints, key: &IndexKey, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    let mut add = |value: Datum| -> Result<()> {
        if !value.is_null()
            && let Ok(value) = fit(key.type_oid, value)
        {
            let mut bytes = Vec::with_capacity(16);
            append(key, &value, &mut bytes)?;
            all.push(bytes);
        }
        Ok(())
    };
    match points {
        KeyPoints::Equal(e) => add(e.eval(&[], rt, cx)?)?,
        KeyPoints::AnyOf(e) => {
            if let Datum::Array(list) = e.eval(&[], rt, cx)? {
                list.elements.iter().try_for_each(|value| add(value.clone()))?;
            }
        }
        // Only the tree knows them.
        KeyPoints::Each => {}
        KeyPoints::Null => {
            let mut bytes = Vec::new();
            append(key, &Datum::Null, &mut bytes)?;
            all.push(bytes);
        }
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// Where the keys after a prefix begin and end.
struct Span {
    from: Vec<u8>,
    /// None: where those with the prefix end.
    to: Option<Vec<u8>>,
}

/// Where a bound is.
enum Edge {
    /// No value is within the bound.
    Nothing,
    /// All values are.
    Everything,
    At(Vec<u8>),
}

impl Span {
    /// What all bounds leave; None: nothing.
    fn of(search: &KeySearch, keys: &[IndexKey], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Option<Span>> {
        let Some(key) = keys.first() else { return Ok(None) };
        let mut null = Vec::new();
        append(key, &Datum::Null, &mut null)?;
        let mut span = match key.nulls_first {
            true => Span { from: successor(&null).unwrap_or_default(), to: None },
            false => Span { from: Vec::new(), to: Some(null) },
        };
        for bound in &search.bounds {
            match edge(bound, keys, rt, cx)? {
                Edge::Nothing => return Ok(None),
                Edge::Everything => {}
                Edge::At(at) if bound.is_lower => span.from = span.from.max(at),
                Edge::At(at) => span.to = Some(span.to.map_or(at.clone(), |to| to.min(at))),
            }
        }
        let is_empty = span.to.as_ref().is_some_and(|to| *to <= span.from);
        Ok((!is_empty).then_some(span))
    }

    fn after(&self, prefix: Vec<u8>) -> KeyRange {
        let from = [&prefix[..], &self.from[..]].concat();
        let from = if from.is_empty() { Bound::Unbounded } else { Bound::Included(from) };
        let to = match &self.to {
            Some(to) => Bound::Excluded([&prefix[..], &to[..]].concat()),
            None => prefix_range(prefix).1,
        };
        (from, to)
    }
}

/// The first key within a lower bound, or the first one beyond an upper bound.
fn edge(bound: &KeyBound, keys: &[IndexKey], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Edge> {
    let mut at = Vec::with_capacity(24);
    // Is the edge behind the keys that begin with these values?
    let mut is_behind = bound.is_lower != bound.is_inclusive;
    for (i, (value, key)) in bound.values.iter().zip(keys).enumerate() {
        let value = value.eval(&[], rt, cx)?;
        if value.is_null() {
            // Rows that are equal up to here are neither less nor greater.
            if i == 0 {
                return Ok(Edge::Nothing);
            }
            is_behind = bound.is_lower;
            break;
        }
        match fit(key.type_oid, value) {
            Ok(value) => append(key, &value, &mut at)?,
            // The value is beyond all that the column can have, on one side or the other.
            Err(side) => {
                let is_above = (side > 0) != key.descending;
                if i == 0 {
                    return Ok(if is_above == bound.is_lower { Edge::Nothing } else { Edge::Everything });
                }
                is_behind = is_above;
                break;
            }
        }
    }
    Ok(match is_behind {
        true => successor(&at).map_or(Edge::Everything, Edge::At),
        false => Edge::At(at),
    })
}
