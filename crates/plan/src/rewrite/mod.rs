//! Rewriting of bound queries before they are planned: the same rows, from a query that is simpler to plan.
//!
//! The order of the passes
//! 1. From the innermost query outwards: windows are put in order and those that no call uses go (`windows`), WITH
//!    queries that are read once become subqueries (`cte`), and simple subqueries in FROM are merged into the queries that they stand in (`pull_up`, `single_rows`).
//! 2. From the outermost query inwards, each level as follows: its expressions are folded (`fold`), its conditions are
//!    put in a form that shows what is common to their alternatives (`conditions`), outer joins that cannot yield rows
//!    filled with NULLs become inner joins and those that nobody looks at go (`outer_joins`, `useless_joins`), a table
//!    that is joined with itself by a key goes (`self_joins`),
//!    constants that columns are equal to are told of all columns that are equal to them (`equivalence`), what an OR
//!    over several relations says of one of them is said beside it (`or_restrictions`), and conditions go down into the subqueries whose columns they are about (`push_down`). Subqueries come after the
//!    level that they stand in, and so see the conditions that were pushed into them.
//!
//! Invariants
//! 1. A rewritten query has the rows of the query that it comes from, with their multiplicity.
//! 2. What has an error in it is not folded: it may never be evaluated. Nothing is evaluated while the query is
//!    rewritten whose value may change until the plan runs.
//! 3. A volatile expression stays where it is, unless it goes altogether because its value does not matter.
//! 4. A level is walked once for folding, and the other passes look at levels only that have what they are about: a
//!    statement that reads a row by its key is walked, and that is all.

mod barrier;
mod conditions;
mod cte;
mod equivalence;
mod fold;
mod or_restrictions;
mod outer_joins;
mod pull_up;
mod push_down;
mod self_joins;
mod single_rows;
mod strictness;
mod useless_joins;
mod windows;

pub(super) use barrier::tells_nothing;
pub(super) use or_restrictions::said_of_each;
pub(super) use strictness::not_null_relations;

pub(super) use conditions::canonical;

use super::Planner;
use kilndb_base::Result;
use kilndb_bind::ir::*;
use kilndb_catalog::CatalogView;
use kilndb_storage::Engine;
use std::borrow::Borrow;
use std::cell::OnceCell;
use std::sync::Arc;

pub(super) fn rewrite(query: &mut Query, catalog: &dyn CatalogView, engine: &Arc<Engine>) -> Result<()> {
    pull_up::pull_up(query)?;
    Rewriter { catalog, engine, evaluator: OnceCell::new() }.level(query)
}

/// Folds an expression of a definition: what it is compared with has been folded too.
pub(super) fn fold_expression(e: &mut Expr, catalog: &dyn CatalogView, engine: &Arc<Engine>) -> Result<()> {
    Rewriter { catalog, engine, evaluator: OnceCell::new() }.fold(e)
}

struct Rewriter<'a> {
    catalog: &'a dyn CatalogView,
    engine: &'a Arc<Engine>,
    /// Compiles what may be folded: made when the first such expression is found.
    evaluator: OnceCell<Planner<'a>>,
}

impl Rewriter<'_> {
    /// Rewrites a query, and then the queries in it.
    fn level(&self, q: &mut Query) -> Result<()> {
        kilndb_base::stack::check()?;
        if q.grouping_sets.is_none() {
            q.for_exprs_mut(&mut |e| self.fold(e))?;
        } else {
            // Above grouping sets expressions are recognized by how they are written, and equal constants differ.
            q.for_conditions_mut(&mut |e| self.fold(e))?;
            q.for_exprs_mut(&mut |e| for_sublinks(e, &mut |s| self.level(&mut s.query)))?;
        }
        conditions::simplify(q);
        if q.from.iter().any(|t| matches!(t, JoinTree::Join { .. })) {
            outer_joins::reduce(q);
            useless_joins::remove(q, self.catalog)?;
        }
        if q.rels.len() > 1 {
            self_joins::eliminate(q, self.catalog)?;
        }
        if q.rels.len() > 1 {
            equivalence::derive(q, self.catalog)?;
            or_restrictions::extract(q);
        }
        if q.rels.iter().any(|r| matches!(r.kind, RelKind::Subquery(_))) {
            push_down::push_down(q)?;
        }
        q.for_subqueries_mut(&mut |inner| self.level(inner))
    }
}

/// Puts the value of a column of `rel` in the place of the column: `values` has that of the first one first.
pub(super) fn put_value(e: &mut Expr, rel: u32, values: &[impl Borrow<Expr>]) {
    if let ExprKind::Column(c) = &e.kind
        && c.rel == rel
        && let Some(value) = usize::try_from(c.att - 1).ok().and_then(|i| values.get(i))
    {
        *e = value.borrow().clone().at(e.loc);
    }
}

/// Calls `f` on the subqueries in an expression, not on those nested in them.
fn for_sublinks(e: &mut Expr, f: &mut dyn FnMut(&mut SubLink) -> Result<()>) -> Result<()> {
    e.for_children_mut(&mut |c| for_sublinks(c, f))?;
    match &mut e.kind {
        ExprKind::SubLink(s) => f(s),
        _ => Ok(()),
    }
}

/// The relations of a join tree.
fn relations(t: &JoinTree, out: &mut Vec<u32>) {
    match t {
        JoinTree::Rel(0) => {}
        JoinTree::Rel(rel) => out.push(*rel),
        JoinTree::Join { left, right, .. } => {
            relations(left, out);
            relations(right, out);
        }
    }
}

fn relations_of(t: &JoinTree) -> Vec<u32> {
    let mut out = Vec::new();
    relations(t, &mut out);
    out
}

/// The conditions that an expression is the conjunction of, taken out of where it was.
fn take_conjuncts(e: &mut Option<Expr>) -> Vec<Expr> {
    let mut out = Vec::new();
    if let Some(e) = e.take() {
        e.conjuncts(&mut out);
    }
    out
}
