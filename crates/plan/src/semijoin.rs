//! EXISTS, NOT EXISTS and IN with a subquery, as semi and anti joins.
//!
//! A condition becomes a [`SemiJoin`] when its subquery is only joins and conditions, or (IN) when it does not depend
//! on the level it is in. Conditions that use the level's columns are the join's, the others stay with the subquery. A
//! condition that cannot be taken apart in this way stays a subplan. NOT IN always does: its NULLs make it something
//! else than an anti join.

use super::join::used_rels;
use super::join_search::SearchItem;
use super::scan::WantedRows;
use super::*;

pub(crate) struct SemiJoin {
    kind: JoinKind,
    /// The FROM clause of the subquery, without conditions.
    query: Query,
    own: Vec<Expr>,
    pub joins: Vec<Expr>,
    /// The relations of the level that `joins` use.
    pub outer: Vec<u32>,
}

/// Do only joins and conditions decide which rows the query has?
pub(crate) fn only_joins(q: &Query) -> bool {
    q.only_conditions() && !q.from.is_empty()
}

/// EXISTS needs no columns and no order.
pub(crate) fn forget_columns(q: &mut Query) {
    if q.only_conditions() {
        let one = Expr::new(ExprKind::Const(kilndb_types::Datum::Int4(1)), kilndb_types::oids::INT4);
        q.targets = vec![Target { expr: one, name: "?column?".into(), junk: false, table_oid: 0, attnum: 0 }];
        q.order_by.clear();
        q.distinct = Distinct::No;
    }
}

fn uses_level(q: &Query, level: &[u32]) -> bool {
    let mut columns = Vec::new();
    q.outer_columns(&mut columns);
    columns.iter().any(|c| level.contains(&c.rel))
}

/// The subquery as FROM, conditions of its own, and conditions with columns of the level.
fn take_apart(q: &Query, level: &[u32]) -> Option<(Query, Vec<Expr>, Vec<Expr>)> {
    if !only_joins(q) {
        return None;
    }
    let from = Query { rels: q.rels.clone(), from: q.from.clone(), ..Query::default() };
    if uses_level(&from, level) {
        return None;
    }
    let mut all = Vec::new();
    if let Some(f) = &q.filter {
        f.clone().conjuncts(&mut all);
    }
    if all.iter().any(Expr::is_volatile) {
        return None;
    }
    let (joins, own) = all.into_iter().partition(|p| !used_rels(p, level).is_empty());
    Some((from, own, joins))
}

/// The condition as a semi or anti join with the relations of `level`, or as it was.
pub(crate) fn semi_of(p: Expr, level: &[u32]) -> Result<SemiJoin, Expr> {
    let found = match &p.kind {
        ExprKind::SubLink(s) => semi_of_link(s, JoinKind::Semi, level),
        ExprKind::Not(inner) => match &inner.kind {
            ExprKind::SubLink(s) if s.kind == SubKind::Exists => semi_of_link(s, JoinKind::Anti, level),
            _ => None,
        },
        _ => None,
    };
    found.ok_or(p)
}

fn semi_of_link(s: &SubLink, kind: JoinKind, level: &[u32]) -> Option<SemiJoin> {
    let (query, own, joins) = match s.kind {
        SubKind::Exists => take_apart(&s.query, level)?,
        SubKind::Any => {
            let test = s.test.as_deref()?;
            if test.is_volatile() || test.has_sublink() || used_rels(test, level).is_empty() {
                return None;
            }
            any_parts(s, test, level)?
        }
        _ => return None,
    };
    let mut outer: Vec<u32> = joins.iter().flat_map(|p| used_rels(p, level)).collect();
    outer.sort_unstable();
    outer.dedup();
    (!outer.is_empty()).then_some(SemiJoin { kind, query, own, joins, outer })
}

fn any_parts(s: &SubLink, test: &Expr, level: &[u32]) -> Option<(Query, Vec<Expr>, Vec<Expr>)> {
    let outputs: Vec<&Expr> = s.query.targets.iter().filter(|t| !t.junk).map(|t| &t.expr).collect();
    let plain =
        !outputs.iter().any(|e| e.is_volatile() || e.has_sublink() || e.has_srf() || !used_rels(e, level).is_empty());
    if plain && let Some((query, own, mut joins)) = take_apart(&s.query, level) {
        let mut test = test.clone();
        let replaced = test.rewrite(&mut |e| {
            super::rewrite::put_value(e, s.test_rel, &outputs);
            Ok(())
        });
        replaced.ok()?;
        test.conjuncts(&mut joins);
        return Some((query, own, joins));
    }
    if uses_level(&s.query, level) {
        return None;
    }
    let columns = outputs.iter().map(|e| e.rel_column("")).collect();
    let rel = Rel {
        id: s.test_rel,
        alias: "ANY_subquery".into(),
        columns,
        kind: RelKind::Subquery(s.query.clone()),
        lateral: false,
        security_quals: Vec::new(),
    };
    let mut joins = Vec::new();
    test.clone().conjuncts(&mut joins);
    let query = Query { rels: vec![rel], from: vec![JoinTree::Rel(s.test_rel)], ..Query::default() };
    Some((query, Vec::new(), joins))
}

impl Planner<'_> {
    /// The inner side of a semi or anti join, as an item of the search for the best joins.
    pub(super) fn semi_item<'q>(&self, semi: &'q SemiJoin) -> Result<SearchItem<'q>> {
        let trees: Vec<&JoinTree> = semi.query.from.iter().collect();
        let plain = self.plan_trees(&semi.query, &trees, semi.own.clone(), WantedRows::ALL)?;
        let mut rels = Vec::new();
        trees.iter().for_each(|t| super::join::rels_of(t, &mut rels));
        let all = [semi.own.as_slice(), &semi.joins].concat();
        let mut bound = self.plan_trees(&semi.query, &trees, all.clone(), WantedRows::ALL)?;
        if bound.planned.node.op.is_probe() {
            // One row of each run is enough.
            let first = WantedRows { limit: 1.0, ..WantedRows::ALL };
            let sooner = self.plan_trees(&semi.query, &trees, all, first)?;
            bound = if sooner.planned.node.op.is_probe() { sooner } else { bound };
        }
        let is_table = |id: &u32| semi.query.rels.iter().any(|r| r.id == *id && matches!(r.kind, RelKind::Table(_)));
        let tree = match trees.as_slice() {
            [tree @ JoinTree::Rel(id)] if is_table(id) => Some(*tree),
            _ => None,
        };
        Ok(SearchItem {
            query: &semi.query,
            kind: semi.kind,
            rels,
            tree,
            own: semi.own.clone(),
            needs: semi.outer.clone(),
            is_lateral: false,
            // The nested loop pays off if the values of an outer row make the inner side cheaper, by an index for example.
            bound: (bound.cost < plain.cost * 0.5).then_some(bound),
            plans: vec![plain],
        })
    }

    /// Does each row find one row at most? Then the semi join is an inner one, and may be made in any order: PostgreSQL's
    /// reduce_unique_semijoins.
    pub(super) fn joins_one_row(&self, semi: &SemiJoin) -> Result<bool> {
        let ([JoinTree::Rel(id)], [rel]) = (semi.query.from.as_slice(), semi.query.rels.as_slice()) else {
            return Ok(false);
        };
        let RelKind::Table(table) = &rel.kind else { return Ok(false) };
        if semi.kind != JoinKind::Semi
            || !table.kind.has_rows()
            || table.partition_key.is_some()
            || semi.joins.iter().any(Expr::varies)
        {
            return Ok(false);
        }
        let mut fixed = Vec::new();
        for e in semi.joins.iter().chain(&semi.own) {
            fixed.extend(access::fixed_column(e, *id, self.catalog)?);
        }
        let is_fixed = |index: &Arc<kilndb_catalog::Index>| {
            index.tells_rows_apart() && !index.deferrable && index.keys.iter().all(|k| fixed.contains(&k.attnum))
        };
        Ok(table.indexes.iter().any(is_fixed))
    }

    /// A semi join as an ordinary join with the distinct values of the subquery, which may then come first: the new
    /// relation, and the conditions with it.
    pub(crate) fn distinct_rel(&self, semi: &SemiJoin, level: &[u32]) -> Option<(Rel, Vec<Expr>)> {
        if semi.kind != JoinKind::Semi {
            return None;
        }
        let id = self.new_rel();
        let (mut targets, mut columns, mut conditions): (Vec<Target>, Vec<RelColumn>, Vec<Expr>) = Default::default();
        for p in &semi.joins {
            let ExprKind::Func(f) = &p.kind else { return None };
            let [l, r] = f.args.as_slice() else { return None };
            let operator = self.catalog.operator_by_oid(f.operator).ok().flatten()?;
            if operator.name != "=" || !operator.can_hash || p.has_sublink() {
                return None;
            }
            let of_level = |e: &Expr| !used_rels(e, level).is_empty();
            let inner = match (of_level(l), of_level(r)) {
                (true, false) => r,
                (false, true) => l,
                _ => return None,
            };
            targets.push(Target { expr: inner.clone(), name: String::new(), junk: false, table_oid: 0, attnum: 0 });
            columns.push(inner.rel_column(""));
            let column = inner.as_column(ColId { rel: id, att: columns.len() as i16 });
            let mut f = f.clone();
            let at = usize::from(of_level(&f.args[0]));
            f.args[at] = column;
            conditions.push(Expr { kind: ExprKind::Func(f), ..p.clone() });
        }
        self.name_columns(id, &targets.iter().map(|t| &t.expr).collect::<Vec<_>>());
        let query = Query {
            rels: semi.query.rels.clone(),
            from: semi.query.from.clone(),
            filter: Expr::and_all(semi.own.clone()),
            targets,
            distinct: Distinct::All,
            ..Query::default()
        };
        Some((
            Rel {
                id,
                alias: "unique_subquery".into(),
                columns,
                kind: RelKind::Subquery(SharedQuery::new(query)),
                lateral: false,
                security_quals: Vec::new(),
            },
            conditions,
        ))
    }
}
