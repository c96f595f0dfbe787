//! Rows found by inverted indexes.
//!
//! Invariants
//! 1. Pending rows are read before postings, all of an index's at once: a row that is merged meanwhile is found twice, never not at all.
//! 2. Rows are in the order of their ids, each once. Whether a row is wanted is for the scan's filter to say.

use super::context::{ExecContext, Runtime};
use super::partition::Leaf;
use crate::plan::{Bitmap, InvertedAccess};
use kilndb_base::{Error, Result};
use kilndb_storage::{InvertedScan, kept_term};
use kilndb_types::inverted::{Class, Need, Query, Wanted};
use std::sync::Arc;

pub enum Found {
    /// Terms do not tell: the whole table is to be read.
    Everything,
    Rows(Vec<u64>),
}

pub fn rows(b: &Bitmap, leaf: Option<&Arc<Leaf>>, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<Found> {
    let found = match b {
        Bitmap::Index(access) => {
            let found = index_rows(access, leaf, rt, cx)?;
            let count = if let Found::Rows(rows) = &found { rows.len() as u64 } else { 0 };
            if let Some(c) = rt.counters.as_mut().and_then(|c| c.get_mut(access.shown)) {
                c.loops += 1;
                c.rows += count;
            }
            found
        }
        Bitmap::All(list) => {
            let mut all = None;
            for part in list {
                all = match (all, rows(part, leaf, rt, cx)?) {
                    (None, first) => Some(first),
                    (Some(Found::Everything), other) | (Some(other), Found::Everything) => Some(other),
                    (Some(Found::Rows(a)), Found::Rows(b)) => Some(Found::Rows(both(a, &b))),
                };
                if matches!(&all, Some(Found::Rows(rows)) if rows.is_empty()) {
                    break;
                }
            }
            all.unwrap_or(Found::Everything)
        }
        Bitmap::Any(list) => {
            let mut any = Vec::new();
            for part in list {
                match rows(part, leaf, rt, cx)? {
                    Found::Everything => return Ok(Found::Everything),
                    Found::Rows(rows) => any.extend(rows),
                }
            }
            Found::Rows(in_order(any))
        }
    };
    Ok(found)
}

fn index_rows(access: &InvertedAccess, leaf: Option<&Arc<Leaf>>, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<Found> {
    let mut all = Query { wanted: Vec::new(), need: Need::Anything };
    let mut needs = Vec::new();
    // Columns of which a row has one term, with what is wanted of them.
    let mut single: Vec<(u8, usize)> = Vec::new();
    for c in &access.conditions {
        let value = c.value.eval(&[], rt, cx)?;
        let query = c.class.query(c.column, c.strategy, &value, &cx.eval.format.trigram)?;
        if let (Class::Ordered(_), [wanted]) = (c.class, query.wanted.as_slice()) {
            if let Some((_, at)) = single.iter().find(|(column, _)| *column == c.column) {
                match all.wanted[*at].narrowed(wanted) {
                    Some(both) => all.wanted[*at] = both,
                    None => return Ok(Found::Rows(Vec::new())),
                }
                continue;
            }
            single.push((c.column, all.wanted.len()));
        }
        needs.push(query.need.shifted(all.wanted.len()));
        all.wanted.extend(query.wanted);
    }
    all.need = Need::all(needs);
    match all.need {
        Need::Anything => return Ok(Found::Everything),
        Need::Never => return Ok(Found::Rows(Vec::new())),
        _ => {}
    }
    let (oid, tree) = match (leaf, &access.relation) {
        (Some(leaf), _) => {
            let own = leaf.index(access.index.oid)?;
            (own.oid, &own.relation)
        }
        (None, Some(tree)) => (access.index.oid, tree),
        (None, None) => return Err(Error::internal("an index of a partitioned table has no entries of its own")),
    };
    let mut scan = tree.inverted_scan(&cx.snapshot)?;
    let pending: Vec<PendingWanted> = all.wanted.iter().map(PendingWanted::of).collect();
    let mut found = Vec::new();
    scan.pending(&mut |rid, terms| {
        if all.need.is_met(&mut |n| pending[n].is_among(terms)) {
            found.push(rid.to_u64());
        }
        Ok(())
    })?;
    let mut uses = vec![0; all.wanted.len()];
    count_uses(&all.need, &mut uses);
    let mut search = Search { scan, wanted: &all.wanted, uses, known: vec![None; all.wanted.len()] };
    let rows = search.rows(&all.need)?;
    let rows = if found.is_empty() { rows } else { in_order([found, rows].concat()) };
    cx.usage.scanned(oid, 1, rows.len() as u64, 0);
    Ok(Found::Rows(rows))
}

/// A wanted term, to be found among terms as they are kept.
struct PendingWanted {
    wanted: Wanted,
    /// A range whose bounds are too long to be compared with terms that may have been cut.
    is_vague: bool,
}
impl PendingWanted {
    fn of(w: &Wanted) -> PendingWanted {
        /// Terms up to here are kept whole, whatever is in them.
        const WHOLE: usize = 490;
        match &w.upper {
            None => PendingWanted { wanted: Wanted { lower: kept_term(&w.lower).into_owned(), upper: None }, is_vague: false },
            Some(upper) => PendingWanted { wanted: w.clone(), is_vague: w.lower.len().max(upper.len()) > WHOLE },
        }
    }
    fn is_among(&self, terms: &[&[u8]]) -> bool {
        self.is_vague || self.wanted.is_among(terms)
    }
}

struct Search<'q> {
    scan: InvertedScan,
    wanted: &'q [Wanted],
    /// How often each is asked for.
    uses: Vec<usize>,
    known: Vec<Option<Vec<u64>>>,
}

fn count_uses(need: &Need, uses: &mut [usize]) {
    match need {
        Need::Term(n) => uses[*n] += 1,
        Need::All(list) | Need::Any(list) | Need::AtLeast(_, list) => list.iter().for_each(|part| count_uses(part, uses)),
        Need::Anything | Need::Never => {}
    }
}

impl Search<'_> {
    fn rows(&mut self, need: &Need) -> Result<Vec<u64>> {
        match need {
            Need::Term(n) => self.term(*n),
            Need::Any(list) => {
                let mut any = Vec::new();
                for part in list {
                    any.extend(self.rows(part)?);
                }
                Ok(in_order(any))
            }
            Need::All(list) => {
                let mut parts = Vec::with_capacity(list.len());
                for part in list {
                    let rows = self.rows(part)?;
                    if rows.is_empty() {
                        return Ok(rows);
                    }
                    parts.push(rows);
                }
                // From the rarest on.
                parts.sort_by_key(Vec::len);
                let mut parts = parts.into_iter();
                let first = parts.next().unwrap_or_default();
                Ok(parts.fold(first, |a, b| both(a, &b)))
            }
            Need::AtLeast(count, list) => {
                let mut all = Vec::new();
                for part in list {
                    all.extend(self.rows(part)?);
                }
                // A row is once in each part's list.
                all.sort_unstable();
                Ok(all.chunk_by(|a, b| a == b).filter(|same| same.len() >= *count).map(|same| same[0]).collect())
            }
            // Neither is left within others.
            Need::Anything | Need::Never => Err(Error::internal("a condition of an inverted index that asks for no terms")),
        }
    }
    fn term(&mut self, n: usize) -> Result<Vec<u64>> {
        if let Some(rows) = &self.known[n] {
            return Ok(rows.clone());
        }
        let w = &self.wanted[n];
        let mut rows = Vec::new();
        self.scan.rows(&w.lower, w.upper.as_deref(), &mut rows)?;
        let rows = in_order(rows);
        if self.uses[n] > 1 {
            self.known[n] = Some(rows.clone());
        }
        Ok(rows)
    }
}

fn in_order(mut rows: Vec<u64>) -> Vec<u64> {
    if !rows.is_sorted_by(|a, b| a < b) {
        rows.sort_unstable();
        rows.dedup();
    }
    rows
}

/// What is in two sorted lists; the first should be the shorter one.
fn both(mut a: Vec<u64>, b: &[u64]) -> Vec<u64> {
    let mut rest = b;
    a.retain(|row| {
        // Doubling steps, then halving: most of a long list is never looked at.
        let mut step = 1;
        while step < rest.len() && rest[step] < *row {
            step *= 2;
        }
        let from = step / 2;
        let to = rest.len().min(step + 1);
        rest = &rest[from + rest[from..to].partition_point(|r| r < row)..];
        rest.first() == Some(row)
    });
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_intersected() {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state >> 33
        };
        for _ in 0..2000 {
            let (few, many) = (next() % 9, next() % 200);
            let a = in_order((0..few).map(|_| next() % 60).collect());
            let b = in_order((0..many).map(|_| next() % 100).collect());
            let expected: Vec<u64> = a.iter().copied().filter(|row| b.contains(row)).collect();
            assert_eq!(both(a.clone(), &b), expected);
            assert_eq!(both(b, &a), expected);
        }
    }
}
