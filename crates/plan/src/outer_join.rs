//! Outer joins taken apart, so that their sides take part in the search for the best joins.
//!
//! `(A LEFT JOIN B ON p) JOIN C ON q` has the rows of `(A JOIN C ON q) LEFT JOIN B ON p` where `q` has no columns of B, and
//! two LEFT joins whose conditions have none of the other's right side may change places: the first two of the
//! identities in PostgreSQL's optimizer/README. Of the third, `(A LEFT JOIN B) LEFT JOIN C ON r(B, C)`, the search makes
//! the form that is written. Anti joins are like LEFT joins whose right side nobody sees.
//!
//! Invariants
//! 1. A right side comes alone, after all relations that the condition of its join uses.
//! 2. No other condition uses its columns, but those of outer joins that come after it: elsewhere the join stays a unit.
//!
//! Must not know: which order is the best one.

use super::join::{FromItem, flatten, lateral_columns, rels_of, used_rels, within};
use super::join_search::{MOST_ITEMS, SearchItem};
use super::scan::WantedRows;
use super::*;

/// From so many items on there is something to choose.
const FEWEST_ITEMS: usize = 3;
/// Conditions that outer joins may have in one search.
const MOST_CONDITIONS: usize = 60;

/// The right side of an outer join, apart from its left side.
pub(super) struct JoinedSide {
    kind: JoinKind,
    /// The conditions of the join that are about both sides, or the left one.
    pub conditions: Vec<Expr>,
    /// Those about the right side alone.
    own: Vec<Expr>,
    /// The relations that must be there before.
    needs: Vec<u32>,
}

impl Planner<'_> {
    /// Puts both sides of outer joins in the place of the joins, as long as that is of use and allowed.
    pub(super) fn take_outer_joins_apart<'q>(
        &self,
        q: &Query,
        items: &mut Vec<FromItem<'q>>,
        conditions: &mut Vec<Expr>,
    ) {
        if items.len() + items.iter().map(|i| outer_joins(i.tree)).sum::<usize>() < FEWEST_ITEMS {
            return;
        }
        let mut left = MOST_CONDITIONS;
        let mut at = 0;
        while at < items.len() {
            match self
                .parts(q, at, items, conditions)
                .filter(|parts| parts.side.conditions.len() <= left && items.len() + parts.left.len() <= MOST_ITEMS)
            {
                None => at += 1,
                Some(parts) => {
                    left -= parts.side.conditions.len();
                    conditions.extend(parts.conditions);
                    let right = FromItem { tree: parts.right, rels: parts.rels, joined: Some(parts.side) };
                    // The left side is looked at again.
                    items.splice(at..=at, parts.left.into_iter().chain([right]));
                }
            }
        }
    }

    fn parts<'q>(
        &self,
        q: &Query,
        at: usize,
        items: &[FromItem<'q>],
        conditions: &[Expr],
    ) -> Option<OuterJoinParts<'q>> {
        let item = &items[at];
        let JoinTree::Join { kind: kind @ (JoinKind::Left | JoinKind::Anti), left, right, on } = item.tree else {
            return None;
        };
        if item.joined.is_some() {
            return None;
        }
        let level: Vec<u32> = items.iter().flat_map(|i| i.rels.iter().copied()).collect();
        let (mut left_rels, mut rels) = (Vec::new(), Vec::new());
        rels_of(left, &mut left_rels);
        rels_of(right, &mut rels);
        let is_of_right = |e: &Expr| !used_rels(e, &rels).is_empty();
        let is_lateral = lateral_columns(q, &rels).iter().any(|c| level.contains(&c.rel) && !rels.contains(&c.rel));
        let others: Vec<u32> = level.iter().copied().filter(|r| !rels.contains(r)).collect();
        let is_needed = lateral_columns(q, &others).iter().any(|c| rels.contains(&c.rel));
        if is_lateral || is_needed || conditions.iter().any(is_of_right) {
            return None;
        }
        let mut list = Vec::new();
        on.clone().into_iter().for_each(|e| e.conjuncts(&mut list));
        if list.iter().any(Expr::varies) {
            return None;
        }
        let about = |e: &Expr| used_rels(e, &level);
        let (own, joins): (Vec<Expr>, Vec<Expr>) =
            list.into_iter().partition(|e| !about(e).is_empty() && within(&about(e), &rels));
        let mut needs: Vec<u32> = joins.iter().flat_map(about).filter(|r| !rels.contains(r)).collect();
        if needs.is_empty() {
            needs = left_rels;
        }
        let (mut parts, mut inner) = (Vec::new(), Vec::new());
        flatten(left, &mut parts, &mut inner);
        // Conditions of inner joins on the left side may use right sides of joins there, which are units then.
        let side = JoinedSide { kind: *kind, conditions: joins, own, needs };
        Some(OuterJoinParts { left: parts, conditions: inner, right, rels, side })
    }

    /// The right side of an outer join as an item of the search for the best joins.
    pub(super) fn joined_item<'q>(
        &self,
        q: &'q Query,
        tree: &'q JoinTree,
        rels: Vec<u32>,
        joined: JoinedSide,
    ) -> Result<SearchItem<'q>> {
        let JoinedSide { kind, own, needs, .. } = joined;
        let plan = self.plan_trees(q, &[tree], own.clone(), WantedRows::ALL)?;
        let (plans, bound) = (vec![plan], None);
        Ok(SearchItem { query: q, kind, rels, tree: Some(tree), own, needs, is_lateral: false, plans, bound })
    }
}

/// An outer join taken apart.
struct OuterJoinParts<'q> {
    left: Vec<FromItem<'q>>,
    /// What inner joins of the left side ask for.
    conditions: Vec<Expr>,
    right: &'q JoinTree,
    rels: Vec<u32>,
    side: JoinedSide,
}

/// How many outer joins could be taken apart.
fn outer_joins(t: &JoinTree) -> usize {
    match t {
        JoinTree::Join { kind: JoinKind::Inner, left, right, .. } => outer_joins(left) + outer_joins(right),
        JoinTree::Join { kind: JoinKind::Left | JoinKind::Anti, left, .. } => {
            let mut rels = Vec::new();
            rels_of(left, &mut rels);
            rels.len()
        }
        _ => 0,
    }
}
