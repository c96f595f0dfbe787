//! The search for the best tree of joins of one FROM clause, with the method of each join. Trees are compared by
//! estimates alone; [`super::join_build`] builds the one that is found.
//!
//! Up to [`EXHAUSTIVE`] relations the best tree of all, also of those that join two joins, is found by dynamic
//! programming over the sets of relations (Selinger et al., 1979; Moerkotte and Neumann, 2006); of more the next relation
//! is always the one with which the join is cheapest.
//!
//! Invariants
//! 1. An item that needs others (LATERAL, the inner side of a semi, anti or outer join) stands alone on the right of a
//!    join whose left side has these.
//! 2. Sets without a condition between them are joined only if there is no other way to join all.
//! 3. Of each set the cheapest path is kept, and the cheapest one for each order that is still of use; if few rows are
//!    wanted, also those whose first rows come sooner.
//!
//! Must not know: how a join is built.

use super::estimate::JoinSides;
use super::finished_cost::PathCost;
use super::join::{FromPlan, used_rels};
use super::join_nodes::MergeKey;
use super::join_ways::{JoinFacts, JoinPair, JoinWay};
use super::row_order::{RowOrder, has_same};
use super::scan::WantedRows;
use super::*;
use std::rc::Rc;

/// So many items make at most a thousand sets, and some ten thousand pairs of them.
const EXHAUSTIVE: usize = 10;
/// With more items the cost of a join that is found quickly leaves out what costs more.
const UNBOUNDED: usize = 4;
/// With more items two joins are joined only if few conditions tie the items.
const MOST_TIED: usize = 7;
/// Of costs that differ by less it decides which one stands more rows than are expected, then the number of rows in the outermost
/// loop, and then the statement's order.
const CLEARLY_LESS: f64 = 0.99;
/// Of what costs less than this, more rows than are expected do not matter much.
const FRAGILE_COST_MIN: f64 = 1000.0;
/// A set of items has a bit for each.
pub(super) const MOST_ITEMS: usize = 60;
const MOST_CONDITIONS: usize = 128;

/// A relation, an outer join that is one unit, or the inner side of a semi, anti or outer join.
pub(super) struct SearchItem<'q> {
    pub query: &'q Query,
    /// Inner, or how it joins what stands on its left.
    pub kind: JoinKind,
    pub rels: Vec<u32>,
    /// What it is in its query's FROM clause, if it may be looked up with values of others.
    pub tree: Option<&'q JoinTree>,
    /// The conditions on it alone.
    pub own: Vec<Expr>,
    /// The relations that must stand on its left.
    pub needs: Vec<u32>,
    /// It runs once per row of these.
    pub is_lateral: bool,
    /// The plans of the item alone: the cheapest one, and then those with an order.
    pub plans: Vec<FromPlan>,
    /// The item with the values of its conditions' other side, if that is planned already.
    pub bound: Option<FromPlan>,
}

/// A join condition, and the items whose columns it uses.
pub(super) struct SearchCondition {
    pub condition: Expr,
    pub items: u64,
    /// The item that it belongs to, if that is no inner one.
    pub of: Option<usize>,
}

/// A way to the rows of a set of items.
pub(super) struct JoinPath {
    pub way: PathWay,
    pub set: u64,
    pub cost: PathCost,
    pub order: Rc<RowOrder>,
    /// How many keys of the wanted order it has.
    pub presorted: usize,
    /// What merge joins compare that it is sorted by first, and in which direction.
    pub(super) leading: Option<(usize, bool)>,
    /// The rows of the first table that is read.
    outermost: f64,
    /// All rows are compared with all others though there are keys to hash them by: with many more rows than are expected that
    /// takes much longer.
    is_fragile: bool,
}

pub(super) enum PathWay {
    Item { item: usize, plan: usize },
    Join { left: Rc<JoinPath>, right: Rc<JoinPath>, method: JoinMethod, kind: JoinKind, conditions: u128 },
}

/// How two sides are joined.
#[derive(Clone)]
pub(super) enum JoinMethod {
    /// The right side, an item, needs values of the left one.
    PerRow,
    /// The right side, an item, is found by values of the left one.
    Probe {
        memoize: bool,
    },
    Pairs,
    /// The right side goes into the table, or (`flipped`) the left one.
    Hash {
        flipped: bool,
    },
    Merge {
        keys: Vec<MergeKey>,
    },
}

struct JoinSet {
    rows: f64,
    paths: Vec<Rc<JoinPath>>,
}

pub(super) struct JoinSearch<'s, 'e> {
    pub planner: &'s Planner<'e>,
    pub items: Vec<SearchItem<'s>>,
    pub conditions: Vec<SearchCondition>,
    pub wanted: WantedRows<'s>,
    /// By item: the items that must stand on its left.
    needs: Vec<u64>,
    /// What inner joins make equal, once all are made.
    pub equal: Vec<Vec<Expr>>,
    /// The equalities of each class of what is equal: one of them is enough for a join.
    alike: Vec<u128>,
    /// By condition: the share of the pairs of rows that it leaves, of those that there may be a choice of.
    shares: Vec<f64>,
    /// What merge joins may compare: expressions that conditions say are equal, and the items that these join.
    pub(super) merged: Vec<(Vec<Expr>, u64)>,
    sets: HashMap<u64, JoinSet>,
    pub(super) known: RefCell<HashMap<(u128, u64, Option<usize>), Rc<JoinFacts>>>,
    /// Pairs of sets without a condition between them may be joined.
    joins_all: bool,
    /// What a join of all items costs that is known already: a part of it that costs more is of no use.
    bound: f64,
}

/// The items with columns of these relations.
fn items_of(items: &[SearchItem<'_>], rels: &[u32]) -> u64 {
    let has = |i: &usize| items[*i].rels.iter().any(|r| rels.contains(r));
    (0..items.len()).filter(has).fold(0, |set, i| set | 1 << i)
}

impl<'s, 'e> JoinSearch<'s, 'e> {
    /// `conditions`: each with the item that it belongs to, if that is no inner one. What cannot be judged in a join is
    /// handed back.
    pub fn new(
        planner: &'s Planner<'e>,
        items: Vec<SearchItem<'s>>,
        conditions: Vec<(Expr, Option<usize>)>,
        level: &[u32],
        wanted: WantedRows<'s>,
    ) -> (JoinSearch<'s, 'e>, Vec<Expr>) {
        let mut left = Vec::new();
        let mut usable: Vec<SearchCondition> = Vec::new();
        let (of_items, inner): (Vec<_>, Vec<_>) = conditions.into_iter().partition(|(_, of)| of.is_some());
        for (condition, of) in of_items.into_iter().chain(inner) {
            let items = items_of(&items, &used_rels(&condition, level));
            match items.count_ones() > 1 && usable.len() < MOST_CONDITIONS || of.is_some() {
                true => usable.push(SearchCondition { condition, items, of }),
                false => left.push(condition),
            }
        }
        let needs = items.iter().map(|i| items_of(&items, &i.needs)).collect();
        let mut search = JoinSearch {
            planner,
            items,
            conditions: usable,
            wanted,
            needs,
            equal: Vec::new(),
            alike: Vec::new(),
            shares: Vec::new(),
            merged: Vec::new(),
            sets: HashMap::new(),
            known: RefCell::default(),
            joins_all: false,
            bound: f64::INFINITY,
        };
        search.equal = search.equal_expressions(|c| c.of.is_none()).into_iter().map(|(class, _)| class).collect();
        search.derive_equalities();
        search.note_shares();
        search.merged = search.equal_expressions(|_| true);
        (search, left)
    }

    /// The expressions that equalities among these conditions say are equal, with the items of the equalities.
    fn equal_expressions(&self, counts: impl Fn(&SearchCondition) -> bool) -> Vec<(Vec<Expr>, u64)> {
        let mut classes: Vec<(Vec<Expr>, u64)> = Vec::new();
        for c in self.conditions.iter().filter(|c| counts(c)) {
            let Some((l, r)) = self.planner.merged_sides(&c.condition) else { continue };
            let (with, without): (Vec<_>, Vec<_>) =
                classes.drain(..).partition(|(class, _)| has_same(class, l) || has_same(class, r));
            classes = without;
            let mut joined = (Vec::new(), c.items);
            for (class, items) in with {
                joined.0.extend(class);
                joined.1 |= items;
            }
            for e in [l, r] {
                if !has_same(&joined.0, e) {
                    joined.0.push(e.clone());
                }
            }
            classes.push(joined);
        }
        classes
    }

    /// `a = b AND b = c` says that `a = c`, by which `a` and `c` may be joined before `b`. Only classes with one expression
    /// of each item count: two of the same item are not equal before the item is joined.
    fn derive_equalities(&mut self) {
        let level = self.rels_of(u64::MAX >> (64 - self.items.len()));
        for class in self.equal.clone() {
            let of: Vec<u64> = class.iter().map(|e| items_of(&self.items, &used_rels(e, &level))).collect();
            let is_apart = of
                .iter()
                .try_fold(0u64, |seen, items| (items.count_ones() == 1 && seen & items == 0).then_some(seen | items));
            if is_apart.is_none() {
                continue;
            }
            let mut alike = 0u128;
            for (n, c) in self.conditions.iter().enumerate().filter(|(_, c)| c.of.is_none()) {
                if self.planner.merged_sides(&c.condition).is_some_and(|(l, _)| has_same(&class, l)) {
                    alike |= 1 << n;
                }
            }
            let mut derived = Vec::new();
            let mut is_complete = true;
            for (x, a) in class.iter().enumerate() {
                for (y, b) in class.iter().enumerate().skip(x + 1) {
                    let items = of[x] | of[y];
                    let is_there = |n: &usize| alike & (1 << n) != 0 && self.conditions[*n].items == items;
                    if (0..self.conditions.len()).any(|n| is_there(&n)) {
                        continue;
                    }
                    match self.equality(alike, a, b) {
                        Some(condition) => derived.push(SearchCondition { condition, items, of: None }),
                        None => is_complete = false,
                    }
                }
            }
            // One equality is enough for a join only if there is one for any two sets, whichever are joined first.
            if !is_complete || self.conditions.len() + derived.len() > MOST_CONDITIONS {
                continue;
            }
            for condition in derived {
                alike |= 1 << self.conditions.len();
                self.conditions.push(condition);
            }
            self.alike.push(alike);
        }
    }

    /// Judges the equalities that stand for one another.
    fn note_shares(&mut self) {
        let alike = self.alike.iter().filter(|class| class.count_ones() > 1).fold(0, |all, class| all | class);
        let share = |n: usize| {
            let SearchCondition { condition, items, .. } = &self.conditions[n];
            let left = items & items.wrapping_neg();
            let (left, right) = (self.rels_of(left), self.rels_of(items & !left));
            let sides = JoinSides { left: &left, right: &right };
            self.planner.join_selectivity(std::slice::from_ref(condition), sides, &[])
        };
        self.shares = (0..self.conditions.len()).map(|n| if alike & (1 << n) != 0 { share(n) } else { 1.0 }).collect();
    }

    /// Of equalities that say the same the one that leaves most pairs: where a value is frequent on the one side and the
    /// other, the equality of these two knows of it, and one with a unique column does not.
    fn most_telling(&self, of_class: u128) -> u128 {
        let mut best: Option<usize> = None;
        let mut left = of_class;
        while left != 0 {
            let n = left.trailing_zeros() as usize;
            left &= left - 1;
            if best.is_none_or(|best| self.shares[n] * CLEARLY_LESS > self.shares[best]) {
                best = Some(n);
            }
        }
        best.map_or(0, |best| 1 << best)
    }

    /// `a = b`, by the operator of one of these conditions.
    fn equality(&self, conditions: u128, a: &Expr, b: &Expr) -> Option<Expr> {
        self.expressions(conditions).into_iter().find_map(|mut e| {
            let ExprKind::Func(f) = &mut e.kind else { return None };
            let is_alike = matches!(f.args.as_slice(), [l, r] if l.ty == a.ty && r.ty == b.ty);
            f.args = vec![a.clone(), b.clone()];
            is_alike.then_some(e)
        })
    }

    /// Adds the plans of tables that yield them in an order which is of use: the wanted one, or one for a merge join.
    pub fn add_ordered_plans(&mut self) -> Result<()> {
        let merges = self.planner.catalog.planner_settings().mergejoin;
        let mut added = Vec::new();
        for (n, item) in self.items.iter().enumerate() {
            let Some(JoinTree::Rel(id)) = item.tree else { continue };
            let Some(rel) = item.query.rels.iter().find(|r| r.id == *id) else { continue };
            let RelKind::Table(table) = &rel.kind else { continue };
            if table.indexes.is_empty() {
                continue;
            }
            let mut orders: Vec<Vec<SortKey>> = Vec::new();
            if item.kind == JoinKind::Inner {
                orders.push(self.wanted_of(*id));
            }
            for (class, _) in self.merged.iter().filter(|(_, items)| merges && items & (1 << n) != 0) {
                let is_first = |att| table.indexes.iter().any(|i| i.keys.first().is_some_and(|k| k.attnum == att));
                let of_rel =
                    |e: &&Expr| matches!(access::strip(e).kind, ExprKind::Column(c) if c.rel == *id && is_first(c.att));
                let Some(e) = class.iter().find(of_rel) else { continue };
                orders.push(vec![SortKey { expr: e.clone(), descending: false, nulls_first: false }]);
                // The other direction is of use if it is the wanted one.
                let is_wanted = |w: &&SortKey| (w.descending || w.nulls_first) && has_same(class, &w.expr);
                orders.extend(
                    self.wanted.order.first().filter(is_wanted).map(|w| vec![SortKey { expr: e.clone(), ..w.clone() }]),
                );
            }
            for order in orders.iter().filter(|order| !order.is_empty()) {
                if let Some(found) = self.planner.ordered_table(rel, table, &item.own, order)? {
                    let order = found.order;
                    let estimate = Estimate { rows: found.rows, cost: found.cost };
                    added.push((n, FromPlan { order, ..FromPlan::of(found.planned, estimate) }));
                }
            }
        }
        for (n, plan) in added {
            self.items[n].plans.push(plan);
        }
        Ok(())
    }

    /// The keys of the wanted order, from the first on, that columns of the relation are equal to.
    fn wanted_of(&self, rel: u32) -> Vec<SortKey> {
        let own = |e: &&Expr| matches!(access::strip(e).kind, ExprKind::Column(c) if c.rel == rel);
        let of_key = |key: &SortKey| {
            let mut used = Vec::new();
            key.expr.columns(&mut used);
            if !used.is_empty() && used.iter().all(|c| c.rel == rel) {
                return Some(key.clone());
            }
            let class = self.equal.iter().find(|class| has_same(class, &key.expr))?;
            class.iter().find(own).map(|e| SortKey { expr: e.clone(), ..key.clone() })
        };
        self.wanted.order.iter().map_while(of_key).collect()
    }

    /// The best path to the join of all items.
    pub fn best(mut self) -> Result<(Self, Rc<JoinPath>)> {
        let all = self.items.len();
        let whole = (1u64 << all) - 1;
        for connected in [true, false] {
            self.joins_all = !connected;
            self.bound = f64::INFINITY;
            self.begin_with_items();
            if all > EXHAUSTIVE || all > UNBOUNDED && self.wanted.limit.is_infinite() {
                self.greedy(whole)?;
            }
            let mut best = self.best_of(whole);
            if all <= EXHAUSTIVE {
                if let Some(found) = &best {
                    self.bound = self.finished(found);
                    self.begin_with_items();
                }
                self.exhaustive(whole)?;
                // What is as dear as the bound may have been left out with what is dearer.
                best = self.best_of(whole).or(best);
            }
            if let Some(best) = best {
                return Ok((self, best));
            }
        }
        Err(kilndb_base::Error::internal("no order to join the relations in"))
    }

    fn best_of(&self, set: u64) -> Option<Rc<JoinPath>> {
        let paths = &self.sets.get(&set)?.paths;
        paths.iter().min_by(|a, b| self.finished(a).total_cmp(&self.finished(b))).cloned()
    }

    fn begin_with_items(&mut self) {
        self.sets.clear();
        for item in (0..self.items.len()).filter(|i| self.needs[*i] == 0) {
            let set = self.single(item);
            self.sets.insert(1 << item, set);
        }
    }

    fn finished(&self, path: &JoinPath) -> f64 {
        self.planner.finished_cost(self.wanted, path.cost, path.presorted)
    }

    fn single(&self, item: usize) -> JoinSet {
        let plans = &self.items[item].plans;
        let rows = plans.first().map_or(1.0, |p| p.rows);
        let mut set = JoinSet { rows, paths: Vec::new() };
        for (n, plan) in plans.iter().enumerate() {
            let cost = PathCost { rows, first: plan.first, cost: plan.cost };
            let order = Rc::new(plan.order.clone());
            let leading = self.leading_of(&order, 1 << item);
            let way = PathWay::Item { item, plan: n };
            let presorted = self.presorted_of(&order);
            let (own, outermost, is_fragile) = (1 << item, rows, false);
            self.keep(&mut set, JoinPath { way, set: own, cost, order, presorted, leading, outermost, is_fragile });
        }
        set
    }

    /// How many keys of the wanted order rows of this order have in the end, when all equalities hold.
    fn presorted_of(&self, order: &RowOrder) -> usize {
        match order.keys.is_empty() || self.wanted.order.is_empty() {
            true => order.presorted(self.wanted.order),
            false => order.clone().with_equal(&self.equal).presorted(self.wanted.order),
        }
    }

    /// What later merge joins compare that a set of this order is sorted by first.
    fn leading_of(&self, order: &RowOrder, set: u64) -> Option<(usize, bool)> {
        let first = order.keys.first()?;
        let is_merged = |(class, items): &(Vec<Expr>, u64)| {
            items & !set != 0 && first.expressions.iter().any(|e| has_same(class, e))
        };
        self.merged.iter().position(is_merged).map(|at| (at, first.descending))
    }

    /// Adds a path to those of a set, unless one of them is as good in everything.
    fn keep(&self, set: &mut JoinSet, path: JoinPath) {
        let limited = self.wanted.limit.is_finite();
        let covers = |a: &JoinPath, b: &JoinPath| {
            let is_sooner = !limited || a.cost.first <= b.cost.first * 1.01 + 0.01;
            // An order that nobody may want in the end is not worth anything by itself.
            let is_alike = (a.presorted, a.leading) == (b.presorted, b.leading);
            let is_paid_for = is_alike || a.cost.cost <= b.cost.cost;
            is_sooner && is_paid_for && a.presorted >= b.presorted && (b.leading.is_none() || a.leading == b.leading)
        };
        let is_better = |a: &JoinPath, b: &JoinPath| {
            let is_alike = a.cost.cost <= b.cost.cost / CLEARLY_LESS;
            let rank = |path: &JoinPath| (path.is_fragile, path.outermost);
            a.cost.cost < b.cost.cost * CLEARLY_LESS || is_alike && rank(a) < rank(b)
        };
        if set.paths.iter().any(|known| covers(known, &path) && !is_better(&path, known)) {
            return;
        }
        set.paths.retain(|known| !(covers(&path, known) && path.cost.cost <= known.cost.cost / CLEARLY_LESS));
        set.paths.push(Rc::new(path));
    }

    fn exhaustive(&mut self, whole: u64) -> Result<()> {
        // Where nearly all items are tied to all others there are too many pairs of joins, and little to be won by them.
        let items = self.items.len();
        let joins_joins = items <= MOST_TIED || self.conditions.len() <= 2 * items;
        for set in 1..=whole {
            if set.count_ones() < 2 {
                continue;
            }
            kilndb_base::stack::check()?;
            let mut joined: Option<JoinSet> = None;
            let mut right = (set - 1) & set;
            while right != 0 {
                let smaller = right.count_ones().min((set & !right).count_ones());
                if smaller == 1 || joins_joins {
                    self.join_sets(set & !right, right, &mut joined)?;
                }
                right = (right - 1) & set;
            }
            if let Some(joined) = joined.filter(|joined| !joined.paths.is_empty()) {
                self.sets.insert(set, joined);
            }
        }
        Ok(())
    }

    fn greedy(&mut self, whole: u64) -> Result<()> {
        let free = (0..self.items.len()).filter(|i| self.needs[*i] == 0);
        let rows = |i: &usize| self.items[*i].plans.first().map_or(1.0, |p| p.rows);
        let Some(first) = free.min_by(|a, b| rows(a).total_cmp(&rows(b))) else { return Ok(()) };
        let mut set = 1u64 << first;
        while set != whole {
            let mut best: Option<(u64, f64, JoinSet)> = None;
            for item in (0..self.items.len()).map(|i| 1u64 << i).filter(|item| set & item == 0) {
                let mut joined = None;
                self.join_sets(set, item, &mut joined)?;
                self.join_sets(item, set, &mut joined)?;
                let Some(joined) = joined else { continue };
                let cost = joined.paths.iter().map(|p| p.cost.cost).fold(f64::INFINITY, f64::min);
                if best.as_ref().is_none_or(|(_, least, _)| cost < least * CLEARLY_LESS) {
                    best = Some((item, cost, joined));
                }
            }
            let Some((item, _, joined)) = best else { return Ok(()) };
            set |= item;
            self.sets.insert(set, joined);
        }
        Ok(())
    }

    /// The conditions by which `right` joins `left`, as a set; None: the two are not to be joined.
    fn usable(&self, left: u64, right: u64) -> Option<u128> {
        if right.count_ones() == 1 {
            let item = right.trailing_zeros() as usize;
            let needs = self.needs[item];
            if self.items[item].kind != JoinKind::Inner {
                let own = (0..self.conditions.len()).filter(|n| self.conditions[*n].of == Some(item));
                return (needs & !left == 0).then(|| own.fold(0, |found, n| found | 1 << n));
            }
            if needs != 0 && needs & !left != 0 {
                return None;
            }
        }
        let fits = |c: &SearchCondition| {
            c.of.is_none() && c.items & left != 0 && c.items & right != 0 && c.items & !(left | right) == 0
        };
        let found =
            (0..self.conditions.len()).filter(|n| fits(&self.conditions[*n])).fold(0, |found, n| found | 1 << n);
        // Of one class each side has equal values already: one equality says that those of both are equal.
        let found = self.alike.iter().fold(found, |found, class| {
            let of_class = found & class;
            found & !of_class | self.most_telling(of_class)
        });
        let is_tied = found != 0 || right.count_ones() == 1 && self.needs[right.trailing_zeros() as usize] != 0;
        (is_tied || self.joins_all).then_some(found)
    }

    /// Adds the ways to join two sets to those of their union.
    fn join_sets(&self, left: u64, right: u64, joined: &mut Option<JoinSet>) -> Result<()> {
        let Some(left_set) = self.sets.get(&left) else { return Ok(()) };
        let item = (right.count_ones() == 1).then(|| right.trailing_zeros() as usize);
        let alone;
        let right_set = match (self.sets.get(&right), item) {
            (Some(set), _) => set,
            (None, Some(item)) => {
                alone = self.single(item);
                &alone
            }
            (None, None) => return Ok(()),
        };
        let Some(conditions) = self.usable(left, right) else { return Ok(()) };
        let facts = self.facts(left, right, item, conditions)?;
        let kind = item.map_or(JoinKind::Inner, |i| self.items[i].kind);
        let rows = facts.rows(kind, left_set.rows, right_set.rows);
        let joined = joined.get_or_insert_with(|| JoinSet { rows, paths: Vec::new() });
        let pair =
            JoinPair { left: &left_set.paths, right: &right_set.paths, item, kind, facts: &facts, rows: joined.rows };
        let set = left | right;
        let is_plain = self.wanted.order.is_empty() && self.wanted.limit.is_infinite();
        for way in self.ways(&pair) {
            let JoinWay { left: l, right: r, method, order, leading, cost } = way;
            if cost.cost > self.bound / CLEARLY_LESS {
                continue;
            }
            // The order counts as long as there is something to be merged with.
            let leading = leading.filter(|(class, _)| self.merged[*class].1 & !set != 0);
            // Most ways are worse than one that is there, and have no order that would count.
            let is_worse = |known: &Rc<JoinPath>| match is_plain {
                true => (leading.is_none() || leading == known.leading) && known.cost.cost < cost.cost * CLEARLY_LESS,
                false => order.keys.is_empty() && known.cost.cost * 1.01 < cost.cost && known.cost.first <= cost.first,
            };
            if joined.paths.iter().any(is_worse) {
                continue;
            }
            // What the join makes equal its rows are sorted by too.
            let order = match kind == JoinKind::Inner && !order.keys.is_empty() && !facts.equal.is_empty() {
                true => Rc::new(RowOrder::clone(&order).with_equal(&facts.equal)),
                false => order,
            };
            let (presorted, outermost) = (self.presorted_of(&order), l.outermost);
            let compares_all = matches!(method, JoinMethod::Pairs) && facts.has_keys();
            let has_several = l.cost.rows > 1.0 && r.cost.rows > 1.0 && cost.cost > FRAGILE_COST_MIN;
            let is_fragile = l.is_fragile || r.is_fragile || compares_all && has_several;
            let way = PathWay::Join { left: l, right: r, method, kind, conditions };
            self.keep(joined, JoinPath { way, set, cost, order, presorted, leading, outermost, is_fragile });
        }
        Ok(())
    }

    pub fn expressions(&self, conditions: u128) -> Vec<Expr> {
        let chosen = (0..self.conditions.len()).filter(|n| conditions & (1 << n) != 0);
        chosen.map(|n| self.conditions[n].condition.clone()).collect()
    }

    /// The relations of a set of items.
    pub fn rels_of(&self, set: u64) -> Vec<u32> {
        let chosen = (0..self.items.len()).filter(|i| set & (1 << i) != 0);
        chosen.flat_map(|i| self.items[i].rels.iter().copied()).collect()
    }
}
