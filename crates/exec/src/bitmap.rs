//! Rows found by indexes: inverted ones, and those of keys.
//!
//! Invariants
//! 1. Pending rows are read before postings, all of an index's at once: a row that is merged meanwhile is found twice,
//!    never not at all.
//! 2. Whether a row that was found is wanted is for the scan's filter to say.
//! 3. What a combination of conditions finds first may do for all: then other indexes are not read to their end.
//! 4. A set that outgrows `work_mem` forgets which rows of a block were found ([`RowIdSet`]).

use super::context::{ExecContext, MeasureStart, RunState};
use super::expr::Evaluate;
use super::index;
use super::partition::LeafPartition;
use super::row_set::{RowIdCollector, RowIdSet};
use kilndb_base::park::Park;
use kilndb_base::{Error, Result};
use kilndb_plan::{Bitmap, IndexAccess, InvertedAccess};
use kilndb_storage::{PendingTerms, TermScan};
use kilndb_types::inverted::{InvertedClass, TermCondition, TermQuery, TermRange};
use memchr::memmem::Finder;
use std::sync::Arc;

pub(crate) enum BitmapRows {
    /// The index cannot tell which rows qualify: the whole table is to be read.
    Everything,
    Rows(RowIdSet),
}

/// Once some rows are found, so many entries of another index are read for each of them, to tell which of them are
/// wanted. Where an index has more, looking at the rows themselves costs less.
const WORTHWHILE: usize = 16;

pub fn rows(
    b: &Bitmap,
    leaf: Option<&Arc<LeafPartition>>,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<BitmapRows> {
    rows_within(b, usize::MAX, leaf, rt, cx)
}

/// As [`rows`], unless more than `most` entries of a tree have to be read.
fn rows_within(
    b: &Bitmap,
    most: usize,
    leaf: Option<&Arc<LeafPartition>>,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<BitmapRows> {
    let Some(begun) = rt.counters.is_some().then(MeasureStart::now) else { return find(b, most, leaf, rt, cx) };
    let found = find(b, most, leaf, rt, cx)?;
    let (node, rows) = match (b, &found) {
        (Bitmap::Index(access), BitmapRows::Rows(rows)) => (access.shown, rows.len()),
        (Bitmap::Index(access), BitmapRows::Everything) => (access.shown, 0),
        (Bitmap::Keys(_, node), BitmapRows::Rows(rows)) => (*node, rows.len()),
        (Bitmap::Keys(_, node), BitmapRows::Everything) => (*node, 0),
        // As in PostgreSQL, the rows of a combination (BitmapAnd, BitmapOr) are not counted.
        (Bitmap::All(_, node) | Bitmap::Any(_, node), _) => (*node, 0),
    };
    rt.count_start(node);
    rt.count_rows(node, rows, &begun);
    Ok(found)
}

fn find(
    b: &Bitmap,
    most: usize,
    leaf: Option<&Arc<LeafPartition>>,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<BitmapRows> {
    let found = match b {
        Bitmap::Index(access) => index_rows(access, leaf, rt, cx)?,
        Bitmap::Keys(access, node) => key_rows((access, *node), most, leaf, rt, cx)?,
        Bitmap::All(list, _) => {
            let mut all = None;
            for part in list {
                let most = match &all {
                    Some(BitmapRows::Rows(rows)) => rows.len().saturating_mul(WORTHWHILE),
                    _ => usize::MAX,
                };
                all = match (all, rows_within(part, most, leaf, rt, cx)?) {
                    (None, first) => Some(first),
                    (Some(BitmapRows::Everything), other) | (Some(other), BitmapRows::Everything) => Some(other),
                    (Some(BitmapRows::Rows(a)), BitmapRows::Rows(b)) => Some(BitmapRows::Rows(a.and(&b))),
                };
                if matches!(&all, Some(BitmapRows::Rows(rows)) if rows.is_empty()) {
                    break;
                }
            }
            all.unwrap_or(BitmapRows::Everything)
        }
        Bitmap::Any(list, _) => {
            let mut any = Vec::new();
            for part in list {
                match rows(part, leaf, rt, cx)? {
                    BitmapRows::Everything => return Ok(BitmapRows::Everything),
                    BitmapRows::Rows(rows) => any.push(rows),
                }
            }
            BitmapRows::Rows(RowIdSet::or(any, cx.work_mem_bytes))
        }
    };
    Ok(found)
}

fn index_rows(
    access: &InvertedAccess,
    leaf: Option<&Arc<LeafPartition>>,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<BitmapRows> {
    let mut all = TermQuery { wanted: Vec::new(), need: TermCondition::Anything };
    let mut needs = Vec::new();
    // Columns of which a row has one term, with what is wanted of them.
    let mut single: Vec<(u8, usize)> = Vec::new();
    for c in &access.conditions {
        let value = c.value.eval(&[], rt, cx)?;
        let query = c.class.query(c.column, c.strategy, &value, &cx.eval.format.trigram)?;
        if let (InvertedClass::Ordered(_), [wanted]) = (c.class, query.wanted.as_slice()) {
            if let Some((_, at)) = single.iter().find(|(column, _)| *column == c.column) {
                match all.wanted[*at].narrowed(wanted) {
                    Some(both) => all.wanted[*at] = both,
                    None => return Ok(BitmapRows::Rows(RowIdSet::default())),
                }
                continue;
            }
            single.push((c.column, all.wanted.len()));
        }
        needs.push(query.need.shifted(all.wanted.len()));
        all.wanted.extend(query.wanted);
    }
    all.need = TermCondition::all(needs);
    match all.need {
        TermCondition::Anything => return Ok(BitmapRows::Everything),
        TermCondition::Never => return Ok(BitmapRows::Rows(RowIdSet::default())),
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
    if tree.is_newer_than(&cx.snapshot) {
        return Ok(BitmapRows::Everything);
    }
    let mut scan = tree.term_scan(&cx.snapshot)?;
    rt.count_searches(access.shown, 1);
    let pending: Vec<PendingTerm> = all.wanted.iter().map(|w| PendingTerm::of(w, &*scan)).collect();
    let mut found = RowIdCollector::new(cx.work_mem_bytes);
    scan.pending(&mut |rid, row| {
        let mut terms = None;
        let is_met = all.need.is_met(&mut |n| {
            pending[n].may_be_among(row) && pending[n].is_among(terms.get_or_insert_with(|| row.terms()))
        });
        if let Some(Err(e)) = terms {
            return Err(e);
        }
        if is_met {
            found.add(&[rid.to_u64()]);
        }
        cx.park.step()
    })?;
    let mut uses = vec![0; all.wanted.len()];
    count_uses(&all.need, &mut uses);
    let mut search = TermSearch {
        scan,
        wanted: &all.wanted,
        uses,
        known: vec![None; all.wanted.len()],
        budget_bytes: cx.work_mem_bytes,
        park: cx.park,
    };
    let rows = search.rows(&all.need)?;
    let mut rows = if found.is_empty() { rows } else { RowIdSet::or([rows, found.done()], cx.work_mem_bytes) };
    take_some(&mut rows, cx);
    cx.usage.scanned(oid, 1, rows.len() as u64, 0);
    Ok(BitmapRows::Rows(rows))
}

/// The rows of all entries that are looked for. Some may lead to rows with other keys by now: the scan's filter says.
fn key_rows(
    (access, node): (&IndexAccess, usize),
    most: usize,
    leaf: Option<&Arc<LeafPartition>>,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<BitmapRows> {
    let (oid, tree) = match (leaf, &access.relation) {
        (Some(leaf), _) => {
            let own = leaf.index(access.index.oid)?;
            (own.oid, &own.relation)
        }
        (None, Some(tree)) => (access.index.oid, tree),
        (None, None) => return Err(Error::internal("an index of a partitioned table has no entries of its own")),
    };
    let mut ranges = index::ranges(access, tree, rt, cx)?;
    index::join_equal(tree.kind(), &mut ranges);
    let mut found = RowIdCollector::new(cx.work_mem_bytes);
    let (mut keys, mut ends, mut rids) = (Vec::new(), Vec::new(), Vec::new());
    let (mut searches, mut entries) = (0, 0_usize);
    'ranges: for (lower, upper) in ranges {
        let mut scan = tree.index_scan_for(&cx.snapshot, lower, upper, false, access.unique_point)?;
        searches += 1;
        loop {
            keys.clear();
            ends.clear();
            rids.clear();
            let has_more = scan.next_batch(&mut keys, &mut ends, &mut rids)?;
            entries += rids.len();
            if entries > most {
                break 'ranges;
            }
            rids.iter().for_each(|rid| found.add(&[rid.to_u64()]));
            cx.park.checkpoint()?;
            if !has_more {
                break;
            }
        }
    }
    rt.count_searches(node, searches);
    cx.usage.scanned(oid, searches, entries as u64, 0);
    Ok(if entries > most { BitmapRows::Everything } else { BitmapRows::Rows(found.done()) })
}

/// Leaves about gin_fuzzy_search_limit rows, chosen by chance, if more were found.
fn take_some(rows: &mut RowIdSet, cx: &ExecContext<'_>) {
    let limit = cx.session.fuzzy_search_limit();
    let count = rows.len() as u64;
    if limit > 0 && count > limit {
        rows.retain(|| {
            let mut bytes = [0; 8];
            cx.eval.host.random_bytes(&mut bytes);
            u64::from_le_bytes(bytes) % count < limit
        });
    }
}

/// A term that is looked for, prepared to be found among the terms of pending rows.
struct PendingTerm {
    wanted: TermRange,
    /// A range whose bounds are too long to be compared with terms that may have been cut.
    is_vague: bool,
    /// For a single term the bytes that stand for it among those of a pending row, for a range the bytes that all its
    /// terms begin with.
    finder: Option<Finder<'static>>,
}
impl PendingTerm {
    fn of(w: &TermRange, scan: &dyn TermScan) -> PendingTerm {
        /// Terms up to here are kept whole, whatever is in them.
        const WHOLE: usize = 490;
        match &w.upper {
            None => {
                let lower = scan.kept_term(&w.lower).into_owned();
                let finder = Some(Finder::new(&PendingTerms::bytes_of(&lower)).into_owned());
                PendingTerm { wanted: TermRange { lower, upper: None }, is_vague: false, finder }
            }
            Some(upper) => {
                let is_vague = w.lower.len().max(upper.len()) > WHOLE;
                // All terms between two begin as both do. The first byte says no more than what column the term is of.
                let shared = w.lower.iter().zip(upper).take_while(|(a, b)| a == b).count();
                let finder = (shared > 1 && !is_vague).then(|| Finder::new(&w.lower[..shared]).into_owned());
                PendingTerm { wanted: w.clone(), is_vague, finder }
            }
        }
    }
    fn may_be_among(&self, row: PendingTerms<'_>) -> bool {
        self.finder.as_ref().is_none_or(|finder| finder.find(row.bytes()).is_some())
    }
    /// Whether terms could not be read is left to the caller to report.
    fn is_among(&self, terms: &Result<Vec<&[u8]>>) -> bool {
        self.is_vague || terms.as_ref().is_ok_and(|terms| self.wanted.is_among(terms))
    }
}

struct TermSearch<'q> {
    scan: Box<dyn TermScan>,
    wanted: &'q [TermRange],
    /// How many conditions ask for each term, by position in `wanted`.
    uses: Vec<usize>,
    known: Vec<Option<RowIdSet>>,
    /// Of each set.
    budget_bytes: usize,
    park: &'q dyn Park,
}

fn count_uses(need: &TermCondition, uses: &mut [usize]) {
    match need {
        TermCondition::Term(n) => uses[*n] += 1,
        TermCondition::All(list) | TermCondition::Any(list) | TermCondition::AtLeast(_, list) => {
            list.iter().for_each(|part| count_uses(part, uses))
        }
        TermCondition::Anything | TermCondition::Never => {}
    }
}

impl TermSearch<'_> {
    fn rows(&mut self, need: &TermCondition) -> Result<RowIdSet> {
        match need {
            TermCondition::Term(n) => self.term(*n),
            TermCondition::Any(list) => {
                let budget_bytes = self.budget_bytes;
                Ok(RowIdSet::or(self.each(list)?, budget_bytes))
            }
            TermCondition::All(list) => {
                let mut parts = Vec::with_capacity(list.len());
                for part in list {
                    let rows = self.rows(part)?;
                    if rows.is_empty() {
                        return Ok(rows);
                    }
                    parts.push(rows);
                }
                // Sets are intersected from the smallest on, so that the intermediate results stay small.
                parts.sort_by_key(RowIdSet::len);
                let mut parts = parts.into_iter();
                let first = parts.next().unwrap_or_default();
                Ok(parts.fold(first, |a, b| a.and(&b)))
            }
            TermCondition::AtLeast(count, list) => Ok(RowIdSet::at_least(*count, self.each(list)?)),
            // Neither is left within others.
            TermCondition::Anything | TermCondition::Never => {
                Err(Error::internal("a condition of an inverted index that asks for no terms"))
            }
        }
    }
    fn each(&mut self, list: &[TermCondition]) -> Result<Vec<RowIdSet>> {
        list.iter().map(|part| self.rows(part)).collect()
    }
    fn term(&mut self, n: usize) -> Result<RowIdSet> {
        if let Some(rows) = &self.known[n] {
            return Ok(rows.clone());
        }
        let w = &self.wanted[n];
        let mut rows = RowIdCollector::new(self.budget_bytes);
        self.scan.rows(&w.lower, w.upper.as_deref(), &mut |found| {
            rows.add(found);
            self.park.step()
        })?;
        let rows = rows.done();
        if self.uses[n] > 1 {
            self.known[n] = Some(rows.clone());
        }
        Ok(rows)
    }
}
