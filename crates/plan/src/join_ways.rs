//! The ways to join two sets of items, and what each costs.
//!
//! Must not know: which sets are joined, and why.

use super::estimate::{JoinSides, MergeReach};
use super::finished_cost::PathCost;
use super::join_nodes::{HashCondition, MergeKey};
use super::join_search::{JoinMethod, JoinPath, JoinSearch};
use super::operator_count::operator_count;
use super::row_order::{RowOrder, has_same};
use super::scan::WantedRows;
use super::*;
use std::rc::Rc;

/// A cache of what was found with the same values pays off from so many calls on.
const FEWEST_CALLS: f64 = 2.0;
/// Few rows may be so many when the plan is used again.
const GROWN_ROWS: f64 = 64.0;
/// A hash table of so many rows may not fit into memory.
const MANY_ROWS: f64 = 100_000.0;
/// The rows of joins of joins are estimated too low more often than too high, and a table that outgrows its memory costs more
/// than a probe of each of its rows would have: the other side is hashed if it has not more than so many times the rows.
const JOINS_GROW: f64 = 2.0;
/// What a cache must save of the calls.
const WORTHWHILE: f64 = 0.1;

/// What is the same for two sides that are joined by the same conditions.
pub(super) struct JoinFacts {
    /// The share of the pairs that the conditions leave.
    share: f64,
    /// Of semi and anti joins: the share of the left rows that have a partner.
    matched: f64,
    keys: Option<HashCondition>,
    /// Those of `keys` that a merge join can compare.
    merged: Vec<(Expr, Expr)>,
    /// How far a merge by each of `merged` reads into the left and the right side.
    reach: Vec<[MergeReach; 2]>,
    /// The share of the pairs that each of `merged` leaves by itself.
    merged_shares: Vec<f64>,
    /// The class of equal expressions that each of `merged` is of.
    classes: Vec<Option<usize>>,
    /// What the conditions say is equal.
    pub equal: Vec<Vec<Expr>>,
    conditions: usize,
    probe: Option<Probe>,
}

/// The right side, looked up with values of the left one.
#[derive(Clone, Copy)]
struct Probe {
    cost: f64,
    rows: f64,
    /// How many different values there are to look up; None: the results cannot be kept.
    distinct: Option<f64>,
}

impl JoinFacts {
    /// Is there something equal that rows can be hashed by?
    pub(super) fn has_keys(&self) -> bool {
        self.keys.is_some()
    }
    pub fn rows(&self, kind: JoinKind, left: f64, right: f64) -> f64 {
        let matches = left * right * self.share;
        let rows = match kind {
            JoinKind::Inner | JoinKind::Right => matches,
            JoinKind::Left => matches.max(left),
            JoinKind::Full => matches.max(left).max(right),
            JoinKind::Semi => left * self.matched,
            JoinKind::Anti => left * (1.0 - self.matched),
        };
        rows.max(1.0)
    }
}

/// Two sides to be joined.
pub(super) struct JoinPair<'p> {
    pub left: &'p [Rc<JoinPath>],
    pub right: &'p [Rc<JoinPath>],
    /// The right side, if it is one item.
    pub item: Option<usize>,
    pub kind: JoinKind,
    pub facts: &'p JoinFacts,
    pub rows: f64,
}

impl JoinPair<'_> {
    /// Which of the keys that a merge join can compare this one is.
    fn place_of(&self, key: &MergeKey) -> Option<usize> {
        let is_it = |(l, r): &(Expr, Expr)| kilndb_bind::same(l, &key.sides.0) && kilndb_bind::same(r, &key.sides.1);
        self.facts.merged.iter().position(is_it)
    }

    /// How many pairs a merge by these keys looks at: what else is asked is judged of each of them.
    fn merged_pairs(&self, left: f64, right: f64, keys: &[MergeKey]) -> f64 {
        if matches!(self.kind, JoinKind::Semi | JoinKind::Anti) {
            return self.rows;
        }
        let share = |key: &MergeKey| self.place_of(key).and_then(|at| self.facts.merged_shares.get(at));
        let by_keys: f64 = keys.iter().filter_map(share).product();
        (left * right * by_keys).max(self.rows)
    }

    /// How far a merge by these keys reads into the left and the right side.
    fn reach(&self, first: Option<usize>, descending: bool) -> (MergeReach, MergeReach) {
        let known = first.and_then(|at| self.facts.reach.get(at).copied());
        let [left, right] = match known {
            Some(reach) if descending => reach.map(MergeReach::reversed),
            reach => reach.unwrap_or([MergeReach::WHOLE; 2]),
        };
        // Rows without a partner are wanted all the same.
        let keeps_left = matches!(self.kind, JoinKind::Left | JoinKind::Full | JoinKind::Anti);
        let keeps_right = matches!(self.kind, JoinKind::Right | JoinKind::Full);
        let of = |reach, keeps: bool| if keeps { MergeReach::WHOLE } else { reach };
        (of(left, keeps_left), of(right, keeps_right))
    }
}

pub(super) struct JoinWay {
    pub left: Rc<JoinPath>,
    pub right: Rc<JoinPath>,
    pub method: JoinMethod,
    pub order: Rc<RowOrder>,
    /// What merge joins compare that it is sorted by first, and in which direction.
    pub leading: Option<(usize, bool)>,
    pub cost: PathCost,
}

fn cheapest(paths: &[Rc<JoinPath>]) -> Option<&Rc<JoinPath>> {
    paths.iter().min_by(|a, b| a.cost.cost.total_cmp(&b.cost.cost))
}

fn columns_of(conditions: &[Expr]) -> Vec<ColId> {
    let mut columns = Vec::new();
    conditions.iter().for_each(|e| e.columns(&mut columns));
    columns
}

impl JoinSearch<'_, '_> {
    pub(super) fn facts(&self, left: u64, right: u64, item: Option<usize>, conditions: u128) -> Result<Rc<JoinFacts>> {
        let used = (0..self.conditions.len()).filter(|n| conditions & (1 << n) != 0);
        let items = used.fold(0, |items, n| items | self.conditions[n].items);
        // One item may be looked up, and others of the same columns may not.
        let key = (conditions, right & items, item);
        if let Some(known) = self.known.borrow().get(&key) {
            return Ok(known.clone());
        }
        let list = self.expressions(conditions);
        let (left_rels, right_rels) = (self.rels_of(left), self.rels_of(right));
        // Columns of queries outside are of neither side.
        let columns = columns_of(&list);
        let of = |rels: &[u32]| Layout(columns.iter().copied().filter(|c| rels.contains(&c.rel)).collect());
        let (of_left, of_right) = (of(&left_rels), of(&right_rels));
        let sides = JoinSides { left: &left_rels, right: &right_rels };
        let keys = self.planner.hash_keys(&list, &of_left, &of_right);
        let is_of = |e: &Expr, pair: &(Expr, Expr)| {
            self.planner.merged_sides(e).is_some_and(|(l, r)| {
                kilndb_bind::same(l, &pair.0) && kilndb_bind::same(r, &pair.1)
                    || kilndb_bind::same(r, &pair.0) && kilndb_bind::same(l, &pair.1)
            })
        };
        let is_merged = |pair: &&(Expr, Expr)| list.iter().any(|e| is_of(e, pair));
        let merged: Vec<(Expr, Expr)> = keys.iter().flat_map(|k| &k.keys).filter(is_merged).cloned().collect();
        let equal = merged.iter().map(|(l, r)| vec![l.clone(), r.clone()]).collect();
        let class_of = |(l, _): &(Expr, Expr)| self.merged.iter().position(|(class, _)| has_same(class, l));
        let classes = merged.iter().map(class_of).collect();
        let reach = merged.iter().map(|(l, r)| self.planner.merge_reach(l, r)).collect();
        let share_of = |e: &[Expr]| self.planner.join_selectivity(e, sides, &self.equal);
        let share = if list.is_empty() { 1.0 } else { share_of(&list) };
        let merged_shares = merged.iter().map(|pair| {
            let alone = list.iter().find(|e| list.len() > 1 && is_of(e, pair));
            alone.map_or(share, |e| share_of(std::slice::from_ref(e)))
        });
        let merged_shares = merged_shares.collect();
        let right_rows = item.and_then(|i| self.items[i].plans.first()).map_or(1.0, |p| p.rows);
        let kind = item.map_or(JoinKind::Inner, |i| self.items[i].kind);
        let matched = match kind {
            JoinKind::Semi | JoinKind::Anti => self.planner.semi_selectivity(&list, sides, right_rows),
            _ => 1.0,
        };
        let facts = JoinFacts {
            share,
            matched,
            keys,
            merged,
            reach,
            merged_shares,
            classes,
            equal,
            conditions: list.len(),
            probe: match item {
                Some(item) if !list.is_empty() => self.probe(item, &list, &of_left)?,
                _ => None,
            },
        };
        let facts = Rc::new(facts);
        self.known.borrow_mut().insert(key, facts.clone());
        Ok(facts)
    }

    fn probe(&self, item: usize, conditions: &[Expr], outer: &Layout) -> Result<Option<Probe>> {
        let item = &self.items[item];
        if item.is_lateral {
            return Ok(None);
        }
        let values = outer.0.iter().map(|c| Expr::column(*c, 0, -1)).collect::<Vec<_>>();
        let is_table = item.tree.is_some_and(|t| matches!(t, JoinTree::Rel(id) if has_table(item.query, *id)));
        let can_keep = is_table && !conditions.iter().chain(&item.own).any(|e| e.is_volatile() || e.has_sublink());
        // Of values of which nothing is known it is not taken for granted that they come again.
        let is_counted = can_keep && self.planner.knows_group_count(&values);
        let distinct = is_counted.then(|| self.planner.group_count(&values, f64::MAX));
        if let Some(bound) = &item.bound {
            return Ok(Some(Probe { cost: bound.cost, rows: bound.rows, distinct }));
        }
        let Some(JoinTree::Rel(id)) = item.tree else { return Ok(None) };
        let Some(rel) = item.query.rels.iter().find(|r| r.id == *id) else { return Ok(None) };
        let RelKind::Table(table) = &rel.kind else { return Ok(None) };
        let all = [item.own.as_slice(), conditions].concat();
        let chosen = self.planner.choose_access(rel, table, &all, WantedRows::ALL)?;
        let Estimate { rows, cost } = chosen.estimate;
        Ok(chosen.is_probe().then_some(Probe { cost, rows, distinct }))
    }

    pub(super) fn ways(&self, pair: &JoinPair<'_>) -> Vec<JoinWay> {
        let mut ways = Vec::new();
        let Some(right) = cheapest(pair.right) else { return ways };
        if pair.item.is_some_and(|i| self.items[i].is_lateral) {
            for left in pair.left {
                let runs = self.planner.costs().loop_runs(left.cost.rows, right.cost.cost);
                ways.push(self.loop_way(pair, left, right, JoinMethod::PerRow, (right.cost.first, runs)));
            }
            return ways;
        }
        for left in pair.left {
            self.loops(pair, left, right, &mut ways);
            self.hashed(pair, left, right, false, &mut ways);
        }
        if matches!(pair.kind, JoinKind::Inner | JoinKind::Full | JoinKind::Left)
            && let Some(left) = cheapest(pair.left)
        {
            for right in pair.right {
                self.hashed(pair, left, right, true, &mut ways);
            }
        }
        self.merges(pair, &mut ways);
        ways
    }

    /// A loop over `left`, whose order it keeps. `inner`: what is spent before its first row beside `left`, and in all.
    fn loop_way(
        &self,
        pair: &JoinPair<'_>,
        left: &Rc<JoinPath>,
        right: &Rc<JoinPath>,
        method: JoinMethod,
        (first, cost): (f64, f64),
    ) -> JoinWay {
        let keeps_order = pair.kind != JoinKind::Full;
        JoinWay {
            left: left.clone(),
            right: right.clone(),
            method,
            order: if keeps_order { left.order.clone() } else { Rc::default() },
            leading: left.leading.filter(|_| keeps_order),
            cost: PathCost { rows: pair.rows, first: left.cost.first + first, cost: left.cost.cost + cost },
        }
    }

    fn loops(&self, pair: &JoinPair<'_>, left: &Rc<JoinPath>, right: &Rc<JoinPath>, ways: &mut Vec<JoinWay>) {
        let (costs, settings) = (self.planner.costs(), self.planner.catalog.planner_settings());
        let penalty = settings.penalty(settings.nestloop);
        // Of small tables that may be hashed too it is not taken for granted that they stay small.
        let may_grow = pair.facts.keys.is_some() && left.cost.rows > 1.0 && right.cost.rows > 1.0;
        let grown = |rows: f64| if may_grow { rows.max(GROWN_ROWS) } else { rows };
        let pairs = costs.loop_pairs(grown(left.cost.rows), grown(right.cost.rows), pair.facts.conditions);
        // The right side's rows are kept, or it runs again for each row of the left one.
        let runs = if settings.material { right.cost.cost } else { costs.loop_runs(left.cost.rows, right.cost.cost) };
        let first = right.cost.cost + penalty;
        ways.push(self.loop_way(pair, left, right, JoinMethod::Pairs, (first, runs + pairs + penalty)));
        let Some(probe) = pair.facts.probe.filter(|_| pair.kind != JoinKind::Full) else { return };
        let calls = left.cost.rows;
        let runs = costs.loop_runs(calls, probe.cost) + penalty;
        ways.push(self.loop_way(pair, left, right, JoinMethod::Probe { memoize: false }, (penalty, runs)));
        let Some(distinct) = probe.distinct.filter(|_| settings.memoize) else { return };
        let misses = distinct.min(calls);
        if calls >= FEWEST_CALLS && misses < calls * (1.0 - WORTHWHILE) {
            let runs = costs.loop_runs(calls, 0.0) + costs.cached_runs(calls, misses, probe.cost, probe.rows) + penalty;
            ways.push(self.loop_way(pair, left, right, JoinMethod::Probe { memoize: true }, (penalty, runs)));
        }
    }

    fn hashed(
        &self,
        pair: &JoinPair<'_>,
        left: &Rc<JoinPath>,
        right: &Rc<JoinPath>,
        flipped: bool,
        ways: &mut Vec<JoinWay>,
    ) {
        let Some(condition) = &pair.facts.keys else { return };
        let (costs, settings) = (self.planner.costs(), self.planner.catalog.planner_settings());
        let (probe, build) = if flipped { (right, left) } else { (left, right) };
        let built = build.cost.rows * if build.set.count_ones() > 2 { JOINS_GROW } else { 1.0 };
        let hashed = costs.hash_join(probe.cost.rows, built, pair.rows, condition.keys.len());
        let residual = costs.filter(pair.rows, operator_count(&condition.residual));
        let penalty = settings.penalty(settings.hashjoin);
        let table = costs.hash_join(0.0, built, 0.0, condition.keys.len());
        // The unmatched rows of the table come last.
        let keeps_order = !(flipped && pair.kind == JoinKind::Left) && pair.kind != JoinKind::Full;
        ways.push(JoinWay {
            left: left.clone(),
            right: right.clone(),
            method: JoinMethod::Hash { flipped },
            order: if keeps_order { probe.order.clone() } else { Rc::default() },
            leading: probe.leading.filter(|_| keeps_order),
            cost: PathCost {
                rows: pair.rows,
                first: probe.cost.first + build.cost.cost + table + penalty,
                cost: probe.cost.cost + build.cost.cost + hashed + residual + penalty,
            },
        });
    }

    /// Merge joins: of sides that have an order, or are sorted for it.
    fn merges(&self, pair: &JoinPair<'_>, ways: &mut Vec<JoinWay>) {
        let all = &pair.facts.merged;
        let (Some(left), Some(right)) = (cheapest(pair.left), cheapest(pair.right)) else { return };
        if all.is_empty() {
            return;
        }
        // Hashing is cheaper than sorting both sides, unless an order is wanted or the table would not fit into memory.
        let hashes = self.planner.catalog.planner_settings().hashjoin;
        if !hashes || !self.wanted.order.is_empty() || left.cost.rows.min(right.cost.rows) > MANY_ROWS {
            self.merge(pair, left, right, self.keys_as_wanted(all), ways);
        }
        for sorted in pair.left.iter().filter(|p| !p.order.keys.is_empty()) {
            let keys = keys_in_order(all, &sorted.order, |(l, _)| l);
            if !keys.is_empty() {
                self.merge(pair, sorted, right, keys.clone(), ways);
                for other in pair.right.iter().filter(|p| !p.order.keys.is_empty()) {
                    self.merge(pair, sorted, other, keys.clone(), ways);
                }
            }
        }
        for sorted in pair.right.iter().filter(|p| !p.order.keys.is_empty()) {
            let keys = keys_in_order(all, &sorted.order, |(_, r)| r);
            if !keys.is_empty() {
                self.merge(pair, left, sorted, keys, ways);
            }
        }
    }

    /// The keys of a merge join whose sides are sorted for it, so that the result has as much as can be of the wanted
    /// order.
    fn keys_as_wanted(&self, all: &[(Expr, Expr)]) -> Vec<MergeKey> {
        let mut found: Vec<MergeKey> = Vec::new();
        for wanted in self.wanted.order {
            let is_it = |(l, r): &&(Expr, Expr)| {
                let class = self.equal.iter().find(|class| has_same(class, l) || has_same(class, r));
                has_same(&[l.clone(), r.clone()], &wanted.expr)
                    || class.is_some_and(|class| has_same(class, &wanted.expr))
            };
            let Some(sides) = all.iter().filter(|k| is_new(&found, k)).find(is_it).cloned() else { break };
            found.push(MergeKey { sides, descending: wanted.descending, nulls_first: wanted.nulls_first });
        }
        let rest: Vec<MergeKey> = all.iter().filter(|k| is_new(&found, k)).cloned().map(MergeKey::ascending).collect();
        found.extend(rest);
        found
    }

    fn merge(
        &self,
        pair: &JoinPair<'_>,
        left: &Rc<JoinPath>,
        right: &Rc<JoinPath>,
        keys: Vec<MergeKey>,
        ways: &mut Vec<JoinWay>,
    ) {
        let (costs, settings) = (self.planner.costs(), self.planner.catalog.planner_settings());
        let (by_left, by_right) = (sort_keys(&keys, |k| &k.sides.0), sort_keys(&keys, |k| &k.sides.1));
        let sorted =
            |path: &JoinPath, keys: &[SortKey]| self.planner.sorted_cost(keys, path.cost, path.order.presorted(keys));
        let first_key = keys.first().and_then(|first| pair.place_of(first));
        let descending = keys.first().is_some_and(|k| k.descending);
        let (of_left, of_right) = pair.reach(first_key, descending);
        let l = sorted(left, &by_left).part(of_left.start, of_left.end);
        let r = sorted(right, &by_right).part(of_right.start, of_right.end);
        let pairs = pair.merged_pairs(left.cost.rows, right.cost.rows, &keys);
        let merged = costs.merge_join(l.rows, r.rows, pairs, keys.len());
        let residual = costs.filter(pairs, pair.facts.conditions.saturating_sub(keys.len()) as f64);
        let penalty = settings.penalty(settings.mergejoin);
        let keeps_order = !matches!(pair.kind, JoinKind::Full | JoinKind::Right);
        let class = first_key.and_then(|at| pair.facts.classes.get(at).copied().flatten());
        let order = match keeps_order {
            false => Rc::default(),
            true if left.order.gives(&by_left) => left.order.clone(),
            true => Rc::new(RowOrder::of_keys(&by_left)),
        };
        ways.push(JoinWay {
            left: left.clone(),
            right: right.clone(),
            method: JoinMethod::Merge { keys },
            order,
            leading: class.filter(|_| keeps_order).map(|class| (class, descending)),
            cost: PathCost {
                rows: pair.rows,
                first: l.first + r.first + penalty,
                cost: l.cost + r.cost + merged + residual + penalty,
            },
        });
    }
}

fn has_table(query: &Query, rel: u32) -> bool {
    query.rels.iter().any(|r| r.id == rel && matches!(r.kind, RelKind::Table(_)))
}

pub(super) fn sort_keys(keys: &[MergeKey], side: impl Fn(&MergeKey) -> &Expr) -> Vec<SortKey> {
    let key = |k| SortKey { expr: side(k).clone(), descending: k.descending, nulls_first: k.nulls_first };
    keys.iter().map(key).collect()
}

/// The keys that a merge join can compare if one side has this order.
fn keys_in_order(keys: &[(Expr, Expr)], order: &RowOrder, side: impl Fn(&(Expr, Expr)) -> &Expr) -> Vec<MergeKey> {
    let mut found: Vec<MergeKey> = Vec::new();
    for own in &order.keys {
        let is_next = |k: &&(Expr, Expr)| has_same(&own.expressions, side(k)) && is_new(&found, k);
        let Some(sides) = keys.iter().find(is_next).cloned() else { break };
        found.push(MergeKey { sides, descending: own.descending, nulls_first: own.nulls_first });
    }
    found
}

fn is_new(found: &[MergeKey], key: &(Expr, Expr)) -> bool {
    !found.iter().any(|f| kilndb_bind::same(&f.sides.0, &key.0) && kilndb_bind::same(&f.sides.1, &key.1))
}
