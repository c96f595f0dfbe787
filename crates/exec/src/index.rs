//! Index keys and ranges.

use super::context::{ExecContext, RunState};
use super::expr::Evaluate;
use super::key_search::KeysAfter;
use kilndb_base::{Oid, Result};
use kilndb_catalog::Index;
use kilndb_catalog::key_range::prefix_range;
pub use kilndb_catalog::key_range::{KeyRange, append};
use kilndb_plan::expression::CExpr;
use kilndb_plan::{IndexAccess, IndexPlan};
use kilndb_storage::{Relation, RelationKind};
use kilndb_types::{Datum, oids};
use std::ops::Bound;
use std::sync::Arc;

/// A value as the key's type holds it; None: no value of the key's type equals it (an integer out of range).
pub(super) fn fit(ty: Oid, d: Datum) -> Result<Datum, i8> {
    let wide = match (&d, ty) {
        (Datum::Int2(v), oids::INT4 | oids::INT8) => i64::from(*v),
        (Datum::Int4(v), oids::INT2 | oids::INT8) => i64::from(*v),
        (Datum::Int8(v), oids::INT2 | oids::INT4) => *v,
        _ => return Ok(d),
    };
    match ty {
        oids::INT8 => Ok(Datum::Int8(wide)),
        oids::INT4 => i32::try_from(wide).map(Datum::Int4).map_err(|_| if wide > 0 { 1 } else { -1 }),
        _ => i16::try_from(wide).map(Datum::Int2).map_err(|_| if wide > 0 { 1 } else { -1 }),
    }
}

/// The ranges of keys to read; empty: no row can match.
pub fn ranges(
    a: &IndexAccess,
    tree: &Arc<Relation>,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<Vec<KeyRange>> {
    let mut prefix = Vec::with_capacity(24);
    for (k, e) in a.index.keys.iter().zip(&a.equal) {
        let v = e.eval(&[], rt, cx)?;
        if v.is_null() {
            return Ok(Vec::new());
        }
        match fit(k.type_oid, v) {
            Ok(v) => append(k, &v, &mut prefix)?,
            Err(_) => return Ok(Vec::new()),
        }
    }
    match &a.search {
        None => Ok(vec![prefix_range(prefix)]),
        Some(search) => {
            let search = KeysAfter { search, keys: &a.index.keys[a.equal.len()..], tree };
            search.ranges(prefix, rt, cx)
        }
    }
}

/// The keys, all their columns, if `ranges` are those of an access that looks for nothing but whole keys.
pub(crate) fn whole_keys(a: &IndexAccess, ranges: Vec<KeyRange>) -> Option<Vec<Vec<u8>>> {
    if !a.has_whole_keys() {
        return None;
    }
    ranges.into_iter().map(|(lower, _)| if let Bound::Included(key) = lower { Some(key) } else { None }).collect()
}

/// Where keys have no order, several may be kept as one: what is found for that is read once.
pub(crate) fn join_equal(kind: RelationKind, ranges: &mut Vec<KeyRange>) {
    if ranges.len() < 2 || kind.method().is_none_or(|method| method.is_ordered) {
        return;
    }
    let kept = |range: &KeyRange| match &range.0 {
        Bound::Included(key) => Some(kind.kept_key(key).into_owned()),
        _ => None,
    };
    ranges.sort_by_cached_key(kept);
    ranges.dedup_by_key(|range| kept(range));
}

/// In a tree that has entries of several heaps: where a heap's own are, if nothing but a whole key is looked for.
pub(crate) fn narrow(a: &IndexAccess, ranges: &mut [KeyRange], suffix: &[u8]) {
    if !a.has_whole_keys() {
        return;
    }
    for range in ranges {
        if let Bound::Included(key) = &mut range.0 {
            key.extend_from_slice(suffix);
            range.1 = Bound::Included(key.clone());
        }
    }
}

/// The index entry of a table row, and whether a key column is NULL. None: the row is not in the (partial) index.
pub fn entry(
    p: &IndexPlan,
    row: &[Datum],
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<Option<(Vec<u8>, bool)>> {
    let mut out = Vec::with_capacity(24);
    Ok(put_entry(p, row, &mut out, rt, cx)?.map(|null| (out, null)))
}

/// As [`entry`], the key appended to `out`. That of an inverted index is empty: see [`super::inverted`].
pub fn put_entry(
    p: &IndexPlan,
    row: &[Datum],
    out: &mut Vec<u8>,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<Option<bool>> {
    if let Some(f) = &p.predicate
        && !f.is_true(row, rt, cx)?
    {
        return Ok(None);
    }
    if p.has_terms() {
        return Ok(Some(false));
    }
    let mut null = false;
    for (k, e) in p.shape.keys.iter().zip(&p.shape.values) {
        match e.tree() {
            CExpr::Slot(i) => {
                let d = row.get(*i).unwrap_or(&Datum::Null);
                null |= d.is_null();
                append(k, d, out)?;
            }
            _ => {
                let d = e.eval(row, rt, cx)?;
                null |= d.is_null();
                append(k, &d, out)?;
            }
        }
    }
    if let Some(name) = &p.suffix {
        out.extend_from_slice(name);
    }
    Ok(Some(null))
}

/// The key of plain columns, for the recheck of index scans.
pub fn plain_key(index: &Index, row: &[Datum]) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(24);
    for k in &index.keys {
        let d = row.get(usize::try_from(k.attnum - 1).unwrap_or(usize::MAX)).unwrap_or(&Datum::Null);
        append(k, d, &mut out)?;
    }
    Ok(out)
}
