//! The order in which the relations of one FROM clause are joined: each joins the result of those before it. Orders are
//! compared by estimates alone; nothing is built.
//!
//! Up to [`EXHAUSTIVE`] relations the best order of all is found by dynamic programming over the sets of relations
//! (Selinger et al., 1979); of more the next relation is always the one with which the join is cheapest; more than
//! [`COMPARED`] are joined as they stand in the statement.
//!
//! Invariants
//! 1. A relation that needs values of others (LATERAL) comes after them.
//! 2. A relation without a condition that ties it to those before is taken only if there is no other one.
//!
//! Must not know: how a join is built.

use super::estimate::JoinSides;
use super::join::{FromItem, used_rels};
use super::scan::WantedRows;
use super::*;

/// So many relations make at most some thousand sets.
const EXHAUSTIVE: usize = 10;
/// Of costs that differ by less the order of the statement decides.
const CLEARLY_LESS: f64 = 0.99;
/// A set of relations has a bit for each.
const COMPARED: usize = 64;

/// What is known of a relation, or of an outer join that is one unit.
pub(super) struct JoinCandidate {
    pub rows: f64,
    pub cost: f64,
}

/// A join condition and the items whose columns it uses.
struct JoinCondition<'e> {
    condition: &'e Expr,
    items: u64,
}

/// The best way to join a set of items.
#[derive(Clone)]
struct JoinedSet {
    rows: f64,
    cost: f64,
    order: Vec<usize>,
}

struct JoinSearch<'s, 'e> {
    planner: &'s Planner<'e>,
    query: &'s Query,
    items: &'s [FromItem<'s>],
    own: &'s [Vec<Expr>],
    candidates: &'s [JoinCandidate],
    conditions: Vec<JoinCondition<'s>>,
    /// By item: the items that it needs values of.
    depends: Vec<u64>,
    /// By item and the set of conditions: what one probe of its index costs; None: no index serves.
    probes: HashMap<(usize, u64), Option<f64>>,
    /// By the set of conditions and the item that they join: the share of the pairs that they leave.
    shares: HashMap<(usize, u64), f64>,
}

/// The best order that is found of the items of a FROM clause.
pub(super) fn best_order<'s>(
    planner: &'s Planner<'_>,
    query: &'s Query,
    items: &'s [FromItem<'s>],
    own: &'s [Vec<Expr>],
    candidates: &'s [JoinCandidate],
    joins: &'s [Option<Expr>],
) -> Result<Vec<usize>> {
    match items.len() {
        0 | 1 => Ok((0..items.len()).collect()),
        // What needs values of others stands behind them already.
        n if n > COMPARED => Ok((0..n).collect()),
        _ => JoinSearch::new(planner, query, items, own, candidates, joins).order(),
    }
}

impl<'s, 'e> JoinSearch<'s, 'e> {
    fn new(
        planner: &'s Planner<'e>,
        query: &'s Query,
        items: &'s [FromItem<'s>],
        own: &'s [Vec<Expr>],
        candidates: &'s [JoinCandidate],
        joins: &'s [Option<Expr>],
    ) -> JoinSearch<'s, 'e> {
        let level: Vec<u32> = items.iter().flat_map(|i| i.rels.iter().copied()).collect();
        let of_rels = |rels: &[u32]| {
            let positions = (0..items.len()).filter(|i| items[*i].rels.iter().any(|r| rels.contains(r)));
            positions.fold(0u64, |set, i| set | 1 << i)
        };
        let conditions = joins.iter().flatten().take(COMPARED);
        let conditions = conditions.map(|e| JoinCondition { condition: e, items: of_rels(&used_rels(e, &level)) });
        JoinSearch {
            planner,
            query,
            items,
            own,
            candidates,
            conditions: conditions.collect(),
            depends: items.iter().map(|i| of_rels(&planner.lateral_rels(query, i, &level))).collect(),
            probes: HashMap::new(),
            shares: HashMap::new(),
        }
    }

    /// The order in which the items are best joined.
    fn order(mut self) -> Result<Vec<usize>> {
        if self.items.len() <= EXHAUSTIVE { self.exhaustive() } else { self.greedy() }
    }

    fn single(&self, item: usize) -> JoinedSet {
        let JoinCandidate { rows, cost } = self.candidates[item];
        JoinedSet { rows, cost, order: vec![item] }
    }

    fn exhaustive(&mut self) -> Result<Vec<usize>> {
        let all = self.items.len();
        let mut best: Vec<Option<JoinedSet>> = vec![None; 1 << all];
        for item in (0..all).filter(|i| self.depends[*i] == 0) {
            best[1 << item] = Some(self.single(item));
        }
        for set in 1..(1u64 << all) {
            let Some(joined) = best[set as usize].take() else { continue };
            for item in self.next_items(set) {
                let next = self.join(&joined, set, item)?;
                let place = &mut best[(set | 1 << item) as usize];
                if place.as_ref().is_none_or(|known| self.is_better(&next, known)) {
                    *place = Some(next);
                }
            }
            if set == (1 << all) - 1 {
                return Ok(joined.order);
            }
        }
        Err(kilndb_base::Error::internal("no order to join the relations in"))
    }

    /// Of ways that cost nearly the same the one with fewer rows in its outermost loop is the better one, or else that
    /// with the statement's order.
    fn is_better(&self, next: &JoinedSet, known: &JoinedSet) -> bool {
        let first = |set: &JoinedSet| set.order.first().map_or(0.0, |item| self.candidates[*item].rows);
        let is_alike = next.cost <= known.cost / CLEARLY_LESS;
        next.cost < known.cost * CLEARLY_LESS || is_alike && first(next) < first(known)
    }

    fn greedy(&mut self) -> Result<Vec<usize>> {
        let all = self.items.len();
        let first = (0..all)
            .filter(|i| self.depends[*i] == 0)
            .min_by(|a, b| self.candidates[*a].rows.total_cmp(&self.candidates[*b].rows));
        let Some(first) = first else {
            return Err(kilndb_base::Error::internal("no relation to begin with"));
        };
        let (mut joined, mut set) = (self.single(first), 1u64 << first);
        while joined.order.len() < all {
            let mut best: Option<(usize, JoinedSet)> = None;
            for item in self.next_items(set) {
                let next = self.join(&joined, set, item)?;
                if best.as_ref().is_none_or(|(_, known)| next.cost < known.cost * CLEARLY_LESS) {
                    best = Some((item, next));
                }
            }
            let Some((item, next)) = best else {
                return Err(kilndb_base::Error::internal("no order to join the relations in"));
            };
            (joined, set) = (next, set | 1 << item);
        }
        Ok(joined.order)
    }

    /// The items that may be joined next: those that a condition ties to the set, or else all.
    fn next_items(&self, set: u64) -> Vec<usize> {
        let free = (0..self.items.len()).filter(|i| set & (1 << i) == 0 && self.depends[*i] & !set == 0);
        let (tied, others): (Vec<usize>, Vec<usize>) =
            free.partition(|i| self.depends[*i] != 0 || self.usable(set, *i) != 0);
        if tied.is_empty() { others } else { tied }
    }

    /// The conditions that can be judged once the item has joined the set, as a set.
    fn usable(&self, set: u64, item: usize) -> u64 {
        let both = set | 1 << item;
        let fits = |c: &JoinCondition<'_>| c.items & (1 << item) != 0 && c.items & !both == 0 && c.items & set != 0;
        (0..self.conditions.len()).filter(|n| fits(&self.conditions[*n])).fold(0, |found, n| found | 1 << n)
    }

    fn expressions(&self, conditions: u64) -> Vec<Expr> {
        let chosen = (0..self.conditions.len()).filter(|n| conditions & (1 << n) != 0);
        chosen.map(|n| self.conditions[n].condition.clone()).collect()
    }

    fn join(&mut self, joined: &JoinedSet, set: u64, item: usize) -> Result<JoinedSet> {
        let usable = self.usable(set, item);
        let JoinCandidate { rows, cost } = self.candidates[item];
        let costs = self.planner.costs();
        let mut order = joined.order.clone();
        order.push(item);
        if self.depends[item] != 0 {
            let cost = joined.cost + costs.loop_starts(joined.rows) + joined.rows * cost;
            return Ok(JoinedSet { rows: (joined.rows * rows).max(1.0), cost, order });
        }
        let share = self.share(item, usable);
        let matches = (joined.rows * rows * share).max(1.0);
        let settings = self.planner.catalog.planner_settings();
        let loops = costs.loop_pairs(joined.rows, rows, usable.count_ones() as usize);
        let mut best = joined.cost + cost + loops + settings.penalty(settings.nestloop);
        if usable != 0 {
            let conditions = self.expressions(usable);
            let sides = (self.layout_of(set), self.layout_of(1 << item));
            if self.planner.hash_keys(&conditions, &sides.0, &sides.1).is_some() {
                let one_way = costs.hash_join(joined.rows, rows, matches, 1);
                let other_way = costs.hash_join(rows, joined.rows, matches, 1);
                let hashed = joined.cost + cost + one_way.min(other_way) + settings.penalty(settings.hashjoin);
                best = best.min(hashed);
            }
            if let Some(probe) = self.probe(item, usable)? {
                let probed = joined.cost + costs.loop_starts(joined.rows) + joined.rows * probe;
                best = best.min(probed + settings.penalty(settings.nestloop));
            }
        }
        Ok(JoinedSet { rows: matches, cost: best, order })
    }

    /// The columns of a set of items that conditions use.
    fn layout_of(&self, set: u64) -> Layout {
        let rels: Vec<u32> = (0..self.items.len())
            .filter(|i| set & (1 << i) != 0)
            .flat_map(|i| self.items[i].rels.iter().copied())
            .collect();
        let mut columns = Vec::new();
        self.conditions.iter().for_each(|c| c.condition.columns(&mut columns));
        columns.retain(|c| rels.contains(&c.rel));
        Layout(columns)
    }

    fn share(&mut self, item: usize, usable: u64) -> f64 {
        if usable == 0 {
            return 1.0;
        }
        if let Some(known) = self.shares.get(&(item, usable)) {
            return *known;
        }
        let others: Vec<u32> =
            (0..self.items.len()).filter(|i| *i != item).flat_map(|i| self.items[i].rels.iter().copied()).collect();
        let sides = JoinSides { left: &others, right: &self.items[item].rels };
        let share = self.planner.join_selectivity(&self.expressions(usable), sides);
        self.shares.insert((item, usable), share);
        share
    }

    /// What one probe of the item costs, with values for the other side of these conditions.
    fn probe(&mut self, item: usize, usable: u64) -> Result<Option<f64>> {
        if let Some(known) = self.probes.get(&(item, usable)) {
            return Ok(*known);
        }
        let JoinTree::Rel(id) = self.items[item].tree else { return Ok(None) };
        let found = match self.query.rels.iter().find(|r| r.id == *id) {
            Some(rel @ Rel { kind: RelKind::Table(table), .. }) => {
                let all = [self.own[item].as_slice(), &self.expressions(usable)].concat();
                let chosen = self.planner.choose_access(rel, table, &all, WantedRows::ALL)?;
                chosen.is_probe().then_some(chosen.estimate.cost)
            }
            _ => None,
        };
        self.probes.insert((item, usable), found);
        Ok(found)
    }
}
