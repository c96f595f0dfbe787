//! Which conditions an index can answer.

mod build;
mod condition;
mod matching;
mod order;
pub(crate) mod prefix;
mod row_comparison;

use super::scan::text_class;
use super::*;
use kilndb_catalog::IndexKey;
use kilndb_catalog::operator_class::EQUAL;
use kilndb_types::collation::{rules_of, same_rules};
use kilndb_types::oids;
use kilndb_types::types::compare_alike;
pub(crate) use matching::IndexMatch;
pub(crate) use prefix::{prefix_bounds, prefix_of};

pub fn strip(e: &Expr) -> &Expr {
    match &e.kind {
        ExprKind::Cast { arg, kind: CastKind::Relabel, .. } if compare_alike(arg.ty, e.ty) => strip(arg),
        ExprKind::Collate { arg, .. } => strip(arg),
        _ => e,
    }
}

pub fn is_key(e: &Expr, rel: u32, key: &IndexKey, expression: Option<&Expr>) -> bool {
    match expression {
        Some(x) => kilndb_bind::same(e, x) || kilndb_bind::same(strip(e), x),
        None => matches!(&strip(e).kind, ExprKind::Column(c) if c.rel == rel && c.att == key.attnum && key.attnum != 0),
    }
}

/// Can a value of type `value` be encoded as one of the key's type?
fn comparable(key: Oid, value: Oid) -> bool {
    let int = |t: Oid| matches!(t, oids::INT2 | oids::INT4 | oids::INT8);
    key == value
        || int(key) && int(value)
        || text_class(key) && text_class(value)
        || key == oids::BPCHAR && value == oids::BPCHAR
        || is_address(key) && is_address(value)
}

fn is_address(t: Oid) -> bool {
    matches!(t, oids::INET | oids::CIDR)
}

pub fn foreign(e: &Expr, rel: u32) -> bool {
    let mut used = Vec::new();
    e.columns(&mut used);
    !used.iter().any(|c| c.rel == rel) && !e.varies()
}

/// The column of `rel` that the condition says the only value of.
pub fn fixed_column(e: &Expr, rel: u32, catalog: &dyn CatalogView) -> Result<Option<i16>> {
    let ExprKind::Func(f) = &e.kind else { return Ok(None) };
    let [l, r] = f.args.as_slice() else { return Ok(None) };
    if f.operator == 0
        || catalog.btree_strategy(f.operator)? != Some(EQUAL)
        || !e.collation.collation.is_deterministic()
    {
        return Ok(None);
    }
    let of = |column: &Expr, value: &Expr| match &strip(column).kind {
        ExprKind::Column(c) if c.rel == rel && c.att > 0 && foreign(value, rel) => Some(c.att),
        _ => None,
    };
    Ok(of(l, r).or_else(|| of(r, l)))
}

/// (value, btree strategy, value is an array) if `p` compares the key with something else.
pub fn comparison(
    planner: &Planner<'_>,
    rel: u32,
    key: &IndexKey,
    expression: Option<&Expr>,
    p: &Expr,
) -> Result<Option<(Expr, u8, bool)>> {
    let key_type = planner.base_type(key.type_oid);
    if !same_rules(p.collation.collation.rules, rules_of(key.order_type)) {
        return Ok(None);
    }
    match &p.kind {
        ExprKind::Func(f) if f.operator != 0 => {
            let [l, r] = f.args.as_slice() else { return Ok(None) };
            let (value, flipped) = if is_key(l, rel, key, expression) && foreign(r, rel) {
                (r, false)
            } else if is_key(r, rel, key, expression) && foreign(l, rel) {
                (l, true)
            } else {
                return Ok(None);
            };
            if !comparable(key_type, planner.base_type(value.ty)) {
                return Ok(None);
            }
            let Some(mut strategy) = planner.catalog.btree_strategy(f.operator)? else { return Ok(None) };
            if flipped {
                strategy = 6 - strategy;
            }
            Ok(Some((value.clone(), strategy, false)))
        }
        ExprKind::ScalarArray { func, any: true } if &*func.name == "=" => {
            let [l, r] = func.args.as_slice() else { return Ok(None) };
            if !is_key(l, rel, key, expression) || !foreign(r, rel) {
                return Ok(None);
            }
            if !comparable(key_type, planner.element_type(r.ty)) {
                return Ok(None);
            }
            Ok(Some((r.clone(), 3, true)))
        }
        _ => Ok(None),
    }
}

/// Values of `ctid = x` and `ctid = ANY (x)`, and the position of the condition that they are of: one of `preds`, which
/// needs no further check then.
pub(crate) fn tid_condition(rel: u32, preds: &[Expr]) -> Option<(Vec<Expr>, usize)> {
    let exact = preds.iter().enumerate().find_map(|(i, p)| Some((vec![tid_value(rel, p)?], i)));
    exact.or_else(|| preds.iter().enumerate().find_map(|(i, p)| Some((tid_alternatives(rel, p)?, i))))
}

fn tid_value(rel: u32, p: &Expr) -> Option<Expr> {
    let is_ctid = |e: &Expr| matches!(&e.kind, ExprKind::Column(c) if c.rel == rel && c.att == ATT_CTID);
    let (ExprKind::Func(f) | ExprKind::ScalarArray { func: f, any: true }) = &p.kind else { return None };
    let [l, r] = f.args.as_slice() else { return None };
    let array = matches!(p.kind, ExprKind::ScalarArray { .. });
    if &*f.name != "=" {
        None
    } else if is_ctid(l) && foreign(r, rel) && (array || r.ty == oids::TID) {
        Some(r.clone())
    } else if !array && is_ctid(r) && foreign(l, rel) && l.ty == oids::TID {
        Some(l.clone())
    } else {
        None
    }
}

/// The alternatives of `ctid = x OR ctid = y`.
fn tid_alternatives(rel: u32, p: &Expr) -> Option<Vec<Expr>> {
    let ExprKind::Or(list) = &p.kind else { return None };
    list.iter().map(|e| tid_value(rel, e)).collect()
}
