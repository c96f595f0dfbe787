//! Conditions that follow from others and that an index can answer: an address in a network lies between the network's
//! first and last one.
//!
//! Invariant: where a condition is true, so is what it implies; it is checked all the same.

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
        if let Some(used) = m.used.iter_mut().find(|u| **u == preds.len() + i) {
            *used = kept.len();
            kept.push(e.clone());
        }
    }
    kept
}
