//! Whether two bound expressions, subqueries in them included, are written the same.
//!
//! Invariants
//! 1. Two copies of one expression are the same.
//! 2. Relations of a subquery have numbers of their own in each copy: they are the same if they stand in the same place
//!    of subqueries that are the same. Columns from outside must be the same columns.
//! 3. Positions in the text do not count.

use super::ir::*;

/// Do two expressions mean the same?
pub fn same(a: &Expr, b: &Expr) -> bool {
    ExpressionComparison::default().exprs(a, b)
}

/// What stands for what while two expressions are compared.
#[derive(Default)]
struct ExpressionComparison {
    rels: Vec<(u32, u32)>,
    ctes: Vec<(u32, u32)>,
}

fn counterpart(pairs: &[(u32, u32)], a: u32) -> u32 {
    pairs.iter().rev().find(|p| p.0 == a).map_or(a, |p| p.1)
}

fn all<T>(a: &[T], b: &[T], mut equal: impl FnMut(&T, &T) -> bool) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| equal(x, y))
}

fn option<T>(a: Option<&T>, b: Option<&T>, equal: impl FnOnce(&T, &T) -> bool) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(x), Some(y)) => equal(x, y),
        _ => false,
    }
}

impl ExpressionComparison {
    fn exprs(&mut self, a: &Expr, b: &Expr) -> bool {
        if a.ty != b.ty || !self.heads(a, b) {
            return false;
        }
        let mut left = Vec::new();
        let mut right = Vec::new();
        a.for_children(&mut |c| left.push(c));
        b.for_children(&mut |c| right.push(c));
        all(&left, &right, |l, r| self.exprs(l, r))
    }

    /// Everything but the children.
    fn heads(&mut self, a: &Expr, b: &Expr) -> bool {
        use ExprKind as K;
        if std::mem::discriminant(&a.kind) != std::mem::discriminant(&b.kind) {
            return false;
        }
        match (&a.kind, &b.kind) {
            (K::Const(x), K::Const(y)) => format!("{x:?}") == format!("{y:?}"),
            (K::Param(x), K::Param(y)) => x == y,
            (K::Column(x), K::Column(y)) => counterpart(&self.rels, x.rel) == y.rel && x.att == y.att,
            (K::Func(x), K::Func(y)) | (K::NullIf(x), K::NullIf(y)) => x.oid == y.oid,
            (K::Cast { kind: x, .. }, K::Cast { kind: y, .. }) => x == y && a.typmod == b.typmod,
            (K::IsNull { negated: x, .. }, K::IsNull { negated: y, .. }) => x == y,
            (K::BoolTest { test: x, .. }, K::BoolTest { test: y, .. }) => x == y,
            (K::IsDistinct { negated: x, eq: f }, K::IsDistinct { negated: y, eq: g }) => x == y && f.oid == g.oid,
            (K::MinMax { greatest: x, .. }, K::MinMax { greatest: y, .. }) => x == y,
            (K::Field { index: x, .. }, K::Field { index: y, .. }) => x == y,
            (K::ScalarArray { func: x, any: m }, K::ScalarArray { func: y, any: n }) => x.oid == y.oid && m == n,
            (K::RowCompare { kind: x, .. }, K::RowCompare { kind: y, .. }) => x == y,
            (K::Case { arg: x, otherwise: m, .. }, K::Case { arg: y, otherwise: n, .. }) => {
                x.is_some() == y.is_some() && m.is_some() == n.is_some()
            }
            (K::Agg(x), K::Agg(y)) => {
                x.oid == y.oid
                    && x.distinct == y.distinct
                    && x.star == y.star
                    && x.filter.is_some() == y.filter.is_some()
                    && all(&x.order, &y.order, same_direction)
            }
            (K::Window(x), K::Window(y)) => x.oid == y.oid && x.window == y.window && x.star == y.star,
            (K::SqlValue(x), K::SqlValue(y)) => x == y,
            (K::Collate { collation: x, .. }, K::Collate { collation: y, .. }) => x == y,
            (K::Subscript { slice: x, subscripts: m, .. }, K::Subscript { slice: y, subscripts: n, .. }) => {
                x == y
                    && all(m, n, |p, q| {
                        p.lower.is_some() == q.lower.is_some() && p.upper.is_some() == q.upper.is_some()
                    })
            }
            (K::SubLink(x), K::SubLink(y)) => self.sublinks(x, y),
            _ => true,
        }
    }

    /// The subqueries; that of the left sides and the test, which are children, follows.
    fn sublinks(&mut self, a: &SubLink, b: &SubLink) -> bool {
        if a.kind != b.kind || a.equality != b.equality || a.test.is_some() != b.test.is_some() {
            return false;
        }
        self.rels.push((a.test_rel, b.test_rel));
        self.queries(&a.query, &b.query)
    }

    fn options(&mut self, a: Option<&Expr>, b: Option<&Expr>) -> bool {
        option(a, b, |x, y| self.exprs(x, y))
    }
    fn lists(&mut self, a: &[Expr], b: &[Expr]) -> bool {
        all(a, b, |x, y| self.exprs(x, y))
    }
    fn sorts(&mut self, a: &[SortKey], b: &[SortKey]) -> bool {
        all(a, b, |x, y| same_direction(x, y) && self.exprs(&x.expr, &y.expr))
    }

    fn queries(&mut self, a: &Query, b: &Query) -> bool {
        // What names a level's relations comes before what uses them.
        a.outer_aggs.len() == b.outer_aggs.len()
            && {
                self.rels.push((a.outer_agg_rel, b.outer_agg_rel));
                self.with_queries(a, b)
            }
            && self.relations(a, b)
            && self.bodies(&a.body, &b.body)
            && all(&a.from, &b.from, |x, y| self.trees(x, y))
            && self.options(a.filter.as_ref(), b.filter.as_ref())
            && all(&a.targets, &b.targets, |x, y| x.name == y.name && x.junk == y.junk && self.exprs(&x.expr, &y.expr))
            && self.lists(&a.group_by, &b.group_by)
            && a.grouping_sets == b.grouping_sets
            && self.lists(&a.outer_aggs, &b.outer_aggs)
            && self.options(a.having.as_ref(), b.having.as_ref())
            && all(&a.windows, &b.windows, |x, y| self.windows(x, y))
            && self.sorts(&a.order_by, &b.order_by)
            && self.distincts(&a.distinct, &b.distinct)
            && self.options(a.limit.as_ref(), b.limit.as_ref())
            && self.options(a.offset.as_ref(), b.offset.as_ref())
            && a.with_ties == b.with_ties
            && all(&a.locks, &b.locks, |x, y| {
                counterpart(&self.rels, x.rel) == y.rel && x.strength == y.strength && x.wait == y.wait
            })
    }

    fn with_queries(&mut self, a: &Query, b: &Query) -> bool {
        all(&a.ctes, &b.ctes, |x, y| {
            // A recursive one reads itself.
            self.ctes.push((x.id, y.id));
            x.name == y.name
                && x.recursive == y.recursive
                && x.materialized == y.materialized
                && self.queries(&x.query, &y.query)
        })
    }

    fn relations(&mut self, a: &Query, b: &Query) -> bool {
        if a.rels.len() != b.rels.len() {
            return false;
        }
        self.rels.extend(a.rels.iter().zip(&b.rels).map(|(x, y)| (x.id, y.id)));
        all(&a.rels, &b.rels, |x, y| {
            x.alias == y.alias
                && x.lateral == y.lateral
                && all(&x.columns, &y.columns, |m, n| m.name == n.name && m.ty == n.ty && m.typmod == n.typmod)
                && self.relation_kinds(&x.kind, &y.kind)
                && self.lists(&x.security_quals, &y.security_quals)
        })
    }

    fn relation_kinds(&mut self, a: &RelKind, b: &RelKind) -> bool {
        match (a, b) {
            (RelKind::Table(x), RelKind::Table(y)) => x.oid == y.oid,
            (RelKind::Subquery(x), RelKind::Subquery(y)) => self.queries(x, y),
            (RelKind::Function { calls: x, ordinality: m }, RelKind::Function { calls: y, ordinality: n }) => {
                m == n
                    && all(x, y, |p, q| {
                        p.columns == q.columns && p.composite == q.composite && self.exprs(&p.expr, &q.expr)
                    })
            }
            (RelKind::Values(x), RelKind::Values(y)) => all(x, y, |p, q| self.lists(p, q)),
            (RelKind::Cte { cte: x, recursive_self: m }, RelKind::Cte { cte: y, recursive_self: n }) => {
                counterpart(&self.ctes, *x) == *y && m == n
            }
            _ => false,
        }
    }

    fn bodies(&mut self, a: &QueryBody, b: &QueryBody) -> bool {
        match (a, b) {
            (QueryBody::Select, QueryBody::Select) => true,
            (QueryBody::Values(x), QueryBody::Values(y)) => all(x, y, |p, q| self.lists(p, q)),
            (
                QueryBody::SetOp { op, all, left, right, rel },
                QueryBody::SetOp { op: op2, all: all2, left: left2, right: right2, rel: rel2 },
            ) => {
                self.rels.push((*rel, *rel2));
                op == op2 && all == all2 && self.queries(left, left2) && self.queries(right, right2)
            }
            // A statement that changes rows is itself and no other.
            _ => false,
        }
    }

    fn trees(&mut self, a: &JoinTree, b: &JoinTree) -> bool {
        match (a, b) {
            (JoinTree::Rel(x), JoinTree::Rel(y)) => counterpart(&self.rels, *x) == *y,
            (
                JoinTree::Join { kind, left, right, on },
                JoinTree::Join { kind: kind2, left: left2, right: right2, on: on2 },
            ) => {
                kind == kind2
                    && self.trees(left, left2)
                    && self.trees(right, right2)
                    && self.options(on.as_ref(), on2.as_ref())
            }
            _ => false,
        }
    }

    fn windows(&mut self, a: &WindowSpec, b: &WindowSpec) -> bool {
        self.lists(&a.partition, &b.partition)
            && self.sorts(&a.order, &b.order)
            && a.mode == b.mode
            && a.exclude == b.exclude
            && self.bounds(&a.start, &b.start)
            && self.bounds(&a.end, &b.end)
    }

    fn bounds(&mut self, a: &FrameBound, b: &FrameBound) -> bool {
        match (a, b) {
            (FrameBound::Preceding(x), FrameBound::Preceding(y))
            | (FrameBound::Following(x), FrameBound::Following(y)) => self.exprs(x, y),
            _ => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }

    fn distincts(&mut self, a: &Distinct, b: &Distinct) -> bool {
        match (a, b) {
            (Distinct::No, Distinct::No) | (Distinct::All, Distinct::All) => true,
            (Distinct::On(x), Distinct::On(y)) => self.lists(x, y),
            _ => false,
        }
    }
}

fn same_direction(a: &SortKey, b: &SortKey) -> bool {
    a.descending == b.descending && a.nulls_first == b.nulls_first
}
