//! min(x) and max(x) of a table as the first row in an index's order.

use super::agg::distinct_aggregates;
use super::scan::WantedRows;
use super::*;
use kilndb_catalog::Table;
use kilndb_types::{Datum, oids};

/// The argument of a built-in min or max, and whether it is max.
fn min_or_max(e: &Expr) -> Option<(&Expr, bool)> {
    let ExprKind::Agg(a) = &e.kind else { return None };
    let max = match &*a.name {
        "min" => false,
        "max" => true,
        _ => return None,
    };
    let [arg] = a.args.as_slice() else { return None };
    (a.oid < kilndb_catalog::builtin::FIRST_USER_OID && a.filter.is_none() && a.order.is_empty() && a.direct_args == 0)
        .then_some((arg, max))
}

fn is_candidate(q: &Query) -> bool {
    q.has_aggs
        && q.group_by.is_empty()
        && q.grouping_sets.is_none()
        && q.having.is_none()
        && q.windows.is_empty()
        && !q.has_srf
        && q.locks.is_empty()
        && q.ctes.is_empty()
        && q.outer_aggs.is_empty()
        && matches!(q.distinct, Distinct::No)
        && !q.filter.as_ref().is_some_and(|f| f.is_volatile() || f.has_sublink())
        && !q.rels.iter().flat_map(|rel| &rel.security_quals).any(Expr::has_sublink)
}

impl Planner<'_> {
    /// The query with a subquery for each aggregate, if an index serves every one of them.
    pub(crate) fn min_max_by_index(&self, q: &Query) -> Result<Option<Query>> {
        let ([rel], [JoinTree::Rel(_)], true) = (q.rels.as_slice(), q.from.as_slice(), is_candidate(q)) else {
            return Ok(None);
        };
        let RelKind::Table(table) = &rel.kind else { return Ok(None) };
        if !table.kind.has_rows() || table.indexes.is_empty() {
            return Ok(None);
        }
        let mut aggs: Vec<Expr> = Vec::new();
        for e in q.targets.iter().map(|t| &t.expr).chain(q.order_by.iter().map(|k| &k.expr)) {
            distinct_aggregates(e, &mut aggs);
        }
        let mut links = Vec::new();
        for a in &aggs {
            let Some((arg, max)) = min_or_max(a) else { return Ok(None) };
            match self.first_in_index(q, rel, table, arg, max)? {
                Some(query) => links.push(Expr { kind: scalar(query, self.new_rel()), ..a.clone() }),
                None => return Ok(None),
            }
        }
        if links.is_empty() {
            return Ok(None);
        }
        let mut out = q.clone();
        let mut replace = |e: &mut Expr| {
            if let Some(i) = aggs.iter().position(|a| kilndb_bind::same(a, e)) {
                *e = links[i].clone();
            }
            Ok(())
        };
        for t in &mut out.targets {
            t.expr.rewrite(&mut replace)?;
        }
        for k in &mut out.order_by {
            k.expr.rewrite(&mut replace)?;
        }
        out.has_aggs = false;
        out.rels.clear();
        out.from.clear();
        out.filter = None;
        Ok(Some(out))
    }

    /// `SELECT arg FROM table WHERE … AND arg IS NOT NULL ORDER BY arg LIMIT 1`, if an index gives that order.
    fn first_in_index(&self, q: &Query, rel: &Rel, table: &Arc<Table>, arg: &Expr, max: bool) -> Result<Option<Query>> {
        let mut own = Rel { id: self.new_rel(), ..rel.clone() };
        let own_id = own.id;
        let mut arg = arg.clone();
        let mut filter = q.filter.clone();
        let mut rename = |e: &mut Expr| {
            if let ExprKind::Column(c) = &mut e.kind
                && c.rel == rel.id
            {
                let before = *c;
                c.rel = own_id;
                self.needed.borrow_mut().insert(*c);
                if let Some(names) = &self.names {
                    names.name_like(*c, before);
                }
            }
            Ok(())
        };
        arg.rewrite(&mut rename)?;
        filter.iter_mut().chain(&mut own.security_quals).try_for_each(|e| e.rewrite(&mut rename))?;
        if arg.is_volatile() || arg.has_sublink() {
            return Ok(None);
        }
        let mut conditions = Vec::new();
        if let Some(f) = filter {
            f.conjuncts(&mut conditions);
        }
        conditions.push(Expr::new(ExprKind::IsNull { arg: Box::new(arg.clone()), negated: true }, oids::BOOL));
        // NULLs are excluded by a condition, so it does not matter where they would be sorted.
        for nulls_first in [max, !max] {
            let key = SortKey { expr: arg.clone(), descending: max, nulls_first };
            let first_row = WantedRows { order: std::slice::from_ref(&key), limit: 1.0, groups: None };
            if self.plan_table(&own, table, &conditions, first_row)?.order.gives(first_row.order) {
                let target = Target { expr: arg, name: String::new(), junk: false, table_oid: 0, attnum: 0 };
                return Ok(Some(Query {
                    from: vec![JoinTree::Rel(own.id)],
                    rels: vec![own],
                    filter: Expr::and_all(conditions),
                    targets: vec![target],
                    order_by: vec![key],
                    limit: Some(Expr::new(ExprKind::Const(Datum::Int8(1)), oids::INT8)),
                    ..Query::default()
                }));
            }
        }
        Ok(None)
    }
}

fn scalar(query: Query, id: u32) -> ExprKind {
    ExprKind::SubLink(Box::new(SubLink {
        id,
        kind: SubKind::Scalar,
        query: SharedQuery::new(query),
        left: Vec::new(),
        test: None,
        test_rel: 0,
        equality: false,
    }))
}
