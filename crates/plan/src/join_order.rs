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
use super::join::used_rels;
use super::scan::WantedRows;
use super::sorted_join::JoinedItems;
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

/// What is the same for an item that joins by the same conditions, whatever it joins.
#[derive(Clone, Copy)]
struct JoinFacts {
    /// The share of the pairs that the conditions leave.
    share: f64,
    can_hash: bool,
    /// What one probe of the item's index costs, with values for the other side of the conditions; None: no index
    /// serves.
    probe: Option<f64>,
}

struct JoinSearch<'s, 'e> {
    planner: &'s Planner<'e>,
    query: &'s Query,
    from: JoinedItems<'s>,
    candidates: &'s [JoinCandidate],
    conditions: Vec<JoinCondition<'s>>,
    /// By item: the items that it needs values of.
    depends: Vec<u64>,
    /// By item and the set of conditions that join it.
    known: HashMap<(usize, u64), JoinFacts>,
}

/// The best order that is found of the items of a FROM clause.
pub(super) fn best_order<'s>(
    planner: &'s Planner<'_>,
    query: &'s Query,
    from: JoinedItems<'s>,
    candidates: &'s [JoinCandidate],
) -> Result<Vec<usize>> {
    let items = from.items;
    // What needs values of others stands behind them already.
    if items.len() < 2 || items.len() > COMPARED {
        return Ok((0..items.len()).collect());
    }
    let of_rels = |rels: &[u32]| {
        let positions = (0..items.len()).filter(|i| items[*i].rels.iter().any(|r| rels.contains(r)));
        positions.fold(0u64, |set, i| set | 1 << i)
    };
    let conditions = from.joins.iter().take(COMPARED);
    let conditions = conditions.map(|e| JoinCondition { condition: e, items: of_rels(&used_rels(e, from.level)) });
    let search = JoinSearch {
        planner,
        query,
        from,
        candidates,
        conditions: conditions.collect(),
        depends: items.iter().map(|i| of_rels(&planner.lateral_rels(query, i, from.level))).collect(),
        known: HashMap::new(),
    };
    search.order()
}

impl JoinSearch<'_, '_> {
    /// The order in which the items are best joined.
    fn order(mut self) -> Result<Vec<usize>> {
        if self.from.items.len() <= EXHAUSTIVE { self.exhaustive() } else { self.greedy() }
    }

    fn single(&self, item: usize) -> JoinedSet {
        let JoinCandidate { rows, cost } = self.candidates[item];
        JoinedSet { rows, cost, order: vec![item] }
    }

    fn exhaustive(&mut self) -> Result<Vec<usize>> {
        let all = self.from.items.len();
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
        let all = self.from.items.len();
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
        let free = (0..self.from.items.len()).filter(|i| set & (1 << i) == 0 && self.depends[*i] & !set == 0);
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
            let cost = joined.cost + costs.loop_runs(joined.rows, cost);
            return Ok(JoinedSet { rows: (joined.rows * rows).max(1.0), cost, order });
        }
        let facts = self.facts(item, usable)?;
        let matches = (joined.rows * rows * facts.share).max(1.0);
        let settings = self.planner.catalog.planner_settings();
        let loops = costs.loop_pairs(joined.rows, rows, usable.count_ones() as usize);
        let mut best = joined.cost + cost + loops + settings.penalty(settings.nestloop);
        if facts.can_hash {
            let one_way = costs.hash_join(joined.rows, rows, matches, 1);
            let other_way = costs.hash_join(rows, joined.rows, matches, 1);
            let hashed = joined.cost + cost + one_way.min(other_way) + settings.penalty(settings.hashjoin);
            best = best.min(hashed);
        }
        if let Some(probe) = facts.probe {
            let probed = joined.cost + costs.loop_runs(joined.rows, probe);
            best = best.min(probed + settings.penalty(settings.nestloop));
        }
        Ok(JoinedSet { rows: matches, cost: best, order })
    }

    fn facts(&mut self, item: usize, usable: u64) -> Result<JoinFacts> {
        if usable == 0 {
            return Ok(JoinFacts { share: 1.0, can_hash: false, probe: None });
        }
        if let Some(known) = self.known.get(&(item, usable)) {
            return Ok(*known);
        }
        let conditions = self.expressions(usable);
        let own = &self.from.items[item].rels;
        let others: Vec<u32> = self.from.level.iter().copied().filter(|rel| !own.contains(rel)).collect();
        let mut columns = Vec::new();
        conditions.iter().for_each(|e| e.columns(&mut columns));
        let (of_item, of_others) = columns.into_iter().partition(|c| own.contains(&c.rel));
        let facts = JoinFacts {
            share: self.planner.join_selectivity(&conditions, JoinSides { left: &others, right: own }),
            can_hash: self.planner.hash_keys(&conditions, &Layout(of_others), &Layout(of_item)).is_some(),
            probe: self.probe(item, &conditions)?,
        };
        self.known.insert((item, usable), facts);
        Ok(facts)
    }

    fn probe(&self, item: usize, conditions: &[Expr]) -> Result<Option<f64>> {
        let JoinTree::Rel(id) = self.from.items[item].tree else { return Ok(None) };
        let Some(rel) = self.query.rels.iter().find(|r| r.id == *id) else { return Ok(None) };
        let RelKind::Table(table) = &rel.kind else { return Ok(None) };
        let all = [self.from.own[item].as_slice(), conditions].concat();
        let chosen = self.planner.choose_access(rel, table, &all, WantedRows::ALL)?;
        Ok(chosen.is_probe().then_some(chosen.estimate.cost))
    }
}
