//! Conditions that follow from others and that an index can answer: an address in a network lies between the network's
//! first and last one, a text that begins with another between that one and the next, a date compared with a time of
//! day is compared with its date.
//!
//! Invariant: where a condition is true, so is what it implies; the condition is checked all the same.

use super::*;
use kilndb_bind::Binder;
use kilndb_types::{Datum, oids};

const NETWORK_SUB: Oid = 927;
const NETWORK_SUBEQ: Oid = 928;
const NETWORK_SUP: Oid = 929;
const NETWORK_SUPEQ: Oid = 930;
const BROADCAST: Oid = 698;
const SET_MASKLEN: Oid = 605;
const NETWORK: Oid = 683;

/// The conditions that `preds` imply, beside themselves.
pub fn implied(planner: &Planner<'_>, preds: &[Expr]) -> Result<Vec<Expr>> {
    let mut out = Vec::new();
    for p in preds {
        let ExprKind::Func(f) = &p.kind else { continue };
        let [l, r] = f.args.as_slice() else { continue };
        if let Some(prefix) = access::prefix_of(f.oid, r) {
            access::prefix_bounds(planner, l, &prefix, &mut out)?;
            continue;
        }
        if let Some((date, operator, day)) = as_date(planner, f)? {
            let binder = Binder::new(planner.catalog, Arc::from(""), Vec::new());
            let day = Expr::new(ExprKind::Const(Datum::Date(day)), oids::DATE);
            out.push(binder.make_operator(None, operator, Some(date.clone()), day, -1)?);
            continue;
        }
        let (inner, network, strict) = match f.oid {
            NETWORK_SUB => (l, r, true),
            NETWORK_SUBEQ => (l, r, false),
            NETWORK_SUP => (r, l, true),
            NETWORK_SUPEQ => (r, l, false),
            _ => continue,
        };
        let (first, last) = ends(network);
        let binder = Binder::new(planner.catalog, Arc::from(""), Vec::new());
        let lower = if strict { ">" } else { ">=" };
        out.push(binder.make_operator(None, lower, Some(inner.clone()), first, -1)?);
        out.push(binder.make_operator(None, "<=", Some(inner.clone()), last, -1)?);
    }
    Ok(out)
}

/// A comparison of a date with a point in time as one with a day: the date, the operator, the day.
fn as_date<'e>(planner: &Planner<'_>, f: &'e FuncExpr) -> Result<Option<(&'e Expr, &'static str, i32)>> {
    const DAY_MICROS: i64 = 86_400_000_000;
    let [l, r] = f.args.as_slice() else { return Ok(None) };
    let (date, micros, is_flipped) = match (&l.kind, &r.kind) {
        (_, ExprKind::Const(Datum::Timestamp(micros))) if planner.base_type(l.ty) == oids::DATE => (l, *micros, false),
        (ExprKind::Const(Datum::Timestamp(micros)), _) if planner.base_type(r.ty) == oids::DATE => (r, *micros, true),
        _ => return Ok(None),
    };
    let strategy = planner.catalog.btree_strategy(f.operator)?;
    let (Some(strategy), Ok(day)) = (strategy, i32::try_from(micros.div_euclid(DAY_MICROS))) else { return Ok(None) };
    let is_midnight = micros.rem_euclid(DAY_MICROS) == 0;
    let operator = match (if is_flipped { 6 - strategy } else { strategy }, is_midnight) {
        (1, true) => "<",
        (1 | 2, _) => "<=",
        (3, true) => "=",
        (4, true) => ">=",
        (4 | 5, _) => ">",
        _ => return Ok(None),
    };
    Ok(Some((date, operator, day)))
}

/// The first and the last address of a network.
fn ends(network: &Expr) -> (Expr, Expr) {
    if let ExprKind::Const(Datum::Inet(v)) = &access::strip(network).kind {
        let constant = |v| Expr::new(ExprKind::Const(Datum::Inet(v)), oids::INET);
        return (constant(v.network()), constant(v.with_number(v.number() | v.host_mask()).with_bits(v.max_bits())));
    }
    let call = |oid, name: &str, args| {
        let call = FuncExpr::internal(oid, name.into(), args, true, b'i');
        Expr::new(ExprKind::Func(Box::new(call)), oids::INET)
    };
    let all_bits = Expr::new(ExprKind::Const(Datum::Int4(-1)), oids::INT4);
    let last = call(SET_MASKLEN, "set_masklen", vec![call(BROADCAST, "broadcast", vec![network.clone()]), all_bits]);
    (call(NETWORK, "network", vec![network.clone()]), last)
}

/// The conditions without those that are implied and not used by the index.
pub(crate) fn keep_used(preds: &[Expr], implied: &[Expr], m: &mut access::IndexMatch) -> Vec<Expr> {
    let mut kept = preds.to_vec();
    for (i, e) in implied.iter().enumerate() {
        if m.used.contains(&(preds.len() + i)) {
            m.renumber(preds.len() + i, kept.len());
            kept.push(e.clone());
        }
    }
    kept
}
