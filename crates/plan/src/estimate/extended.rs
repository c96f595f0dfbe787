//! Conditions on several columns of a table, and groups by several, as its statistics objects tell: by the most common
//! combinations, then by functional dependencies; by numbers of different combinations.
//!
//! Invariants
//! 1. A condition that a statistics object has answered is not counted by itself.
//!
//! Must not know: how statistics are computed.

use super::restriction::evaluated_row;
use super::*;
use kilndb_catalog::extended_statistics::{CommonCombination, ExtendedStatistics, FunctionalDependency};
use kilndb_catalog::operator_class::EQUAL;

/// The columns that stand for a statistics object's members while its combinations are judged.
const FIRST_MEMBER: i16 = i16::MAX - 16;

/// A condition, by the members of one object.
struct MemberCondition {
    /// Its place among the conditions.
    at: usize,
    /// Places of members.
    members: Vec<usize>,
    /// With members in the place of columns and expressions.
    condition: Expr,
}

/// A table's statistics object, with its members as expressions over the statement's relation.
struct BoundObject<'s> {
    statistics: &'s ExtendedStatistics,
    members: Vec<Expr>,
}

/// Common combinations that satisfy a condition: how frequent they are, and how frequent they would be if their members
/// were independent.
#[derive(Default)]
struct CommonShare {
    frequency: f64,
    base: f64,
}

impl CommonShare {
    fn add(&mut self, item: &CommonCombination) {
        self.frequency += item.frequency;
        self.base += item.base_frequency;
    }
    /// With the combinations that the list has not, at most as many as it leaves. `simple`: the condition's share without the list;
    /// `total`: that of all combinations in it.
    fn with_others(&self, simple: f64, total: f64) -> f64 {
        let other = (simple - self.base).clamp(0.0, 1.0).min((1.0 - total).max(0.0));
        (self.frequency + other).clamp(0.0, 1.0)
    }
}

impl Planner<'_> {
    fn objects_of(&self, rel: u32) -> Option<(Arc<Table>, Arc<[ExtendedStatistics]>)> {
        let table = self.relations.borrow().get(&rel)?.table.clone()?;
        let objects = self.catalog.extended_statistics(&table).ok()?;
        (!objects.is_empty()).then_some((table, objects))
    }

    fn bound_object<'s>(&self, statistics: &'s ExtendedStatistics, rel: u32, table: &Table) -> Option<BoundObject<'s>> {
        let mut members = Vec::new();
        for attnum in &statistics.columns {
            let column = table.columns.iter().find(|c| c.attnum == *attnum)?;
            members.push(Expr::of_column(rel, column));
        }
        for sql in &statistics.expressions {
            members.push(self.index_sql(sql, rel, table).ok()?);
        }
        Some(BoundObject { statistics, members })
    }

    /// What is known of an expression that a statistics object has.
    pub(super) fn object_expression(&self, e: &Expr, rel: u32) -> Option<Arc<ColumnStatistics>> {
        let (table, objects) = self.objects_of(rel)?;
        for object in objects.iter() {
            for (sql, attnum) in object.expressions.iter().zip(1..) {
                let Ok(expression) = self.index_sql(sql, rel, &table) else { continue };
                if kilndb_bind::same(e, &expression) || kilndb_bind::same(access::strip(e), &expression) {
                    let known = self.catalog.index_statistics(&table, object.oid, attnum).ok().flatten();
                    if known.is_some() {
                        return known;
                    }
                }
            }
        }
        None
    }

    /// The share of the rows that satisfy those of the conditions that statistics objects answer, and which these are.
    pub(super) fn combined_selectivity(&self, rel: u32, conditions: &[&Expr]) -> (f64, Vec<bool>) {
        let mut answered = vec![false; conditions.len()];
        // One OR alone is looked at arm by arm.
        if self.without_objects.get() || matches!(conditions, [one] if matches!(one.kind, ExprKind::Or(_))) {
            return (1.0, answered);
        }
        let Some((table, objects)) = self.objects_of(rel) else { return (1.0, answered) };
        let bound = self.bound_objects(&objects, rel, &table);
        let mut share = 1.0;
        while let Some(found) = self.best_combinations(rel, &bound, conditions, &answered) {
            share *= self.common_selectivity(rel, found.0, &found.1, conditions);
            found.1.iter().for_each(|c| answered[c.at] = true);
        }
        share *= self.dependent_selectivity(rel, &bound, conditions, &mut answered);
        (share, answered)
    }

    /// The share of the rows that satisfy one of the arms of an OR; None: statistics objects do not tell. As PostgreSQL's
    /// `statext_mcv_clauselist_selectivity` for OR: arm by arm, less what it has in common with those before.
    pub(super) fn common_disjunction(&self, rel: u32, arms: &[Expr]) -> Option<f64> {
        if self.without_objects.get() {
            return None;
        }
        let (table, objects) = self.objects_of(rel)?;
        let bound = self.bound_objects(&objects, rel, &table);
        let arms: Vec<&Expr> = arms.iter().collect();
        let mut answered = vec![false; arms.len()];
        let mut share = None;
        let either = |a: f64, b: f64| a + b - a * b;
        while let Some((object, found)) = self.best_combinations(rel, &bound, &arms, &answered) {
            let own = self.share_of_arms(rel, object, &found, &arms);
            share = Some(share.map_or(own, |known| either(known, own)));
            found.iter().for_each(|c| answered[c.at] = true);
        }
        let others = arms.iter().zip(&answered).filter(|(_, answered)| !**answered);
        others.fold(share, |share, (arm, _)| share.map(|share| either(share, self.condition_selectivity(rel, arm))))
    }

    fn share_of_arms(&self, rel: u32, object: &BoundObject<'_>, found: &[MemberCondition], arms: &[&Expr]) -> f64 {
        let items = &object.statistics.common.items;
        let total: f64 = items.iter().map(|item| item.frequency).sum();
        let mut matched = vec![false; items.len()];
        let (mut share, mut simple_share) = (0.0, 0.0);
        for c in found {
            let simple = self.simple_share(rel, std::iter::once(arms[c.at]));
            let (mut own, mut again) = (CommonShare::default(), CommonShare::default());
            for (item, matched) in items.iter().zip(&mut matched) {
                if self.judged(&c.condition, object, rel, Some(&item.values)) != Some(true) {
                    continue;
                }
                own.add(item);
                if std::mem::replace(matched, true) {
                    again.add(item);
                }
            }
            let simple_again = simple_share * simple;
            simple_share += simple - simple_again;
            // What is known of one member alone tells more of it than its combinations do.
            let whole = if c.members.len() == 1 { simple } else { own.with_others(simple, total) };
            share += whole - again.with_others(simple_again, total);
            share = f64::clamp(share, 0.0, 1.0);
        }
        share
    }

    /// What the conditions would be without statistics objects.
    fn simple_share<'e>(&self, rel: u32, conditions: impl Iterator<Item = &'e Expr>) -> f64 {
        let before = self.without_objects.replace(true);
        let share = self.independent_selectivity(rel, conditions);
        self.without_objects.set(before);
        share
    }

    fn bound_objects<'s>(&self, objects: &'s [ExtendedStatistics], rel: u32, table: &Table) -> Vec<BoundObject<'s>> {
        let bound = objects.iter().filter_map(|o| self.bound_object(o, rel, table));
        bound.filter(|o| o.members.len() > 1).collect()
    }

    /// The object with common combinations that covers most members by these conditions, and more than one.
    fn best_combinations<'o, 's>(
        &self,
        rel: u32,
        objects: &'o [BoundObject<'s>],
        conditions: &[&Expr],
        answered: &[bool],
    ) -> Option<(&'o BoundObject<'s>, Vec<MemberCondition>)> {
        let mut best: Option<(usize, &BoundObject<'s>, Vec<MemberCondition>)> = None;
        for object in objects.iter().filter(|o| !o.statistics.common.items.is_empty()) {
            let open = conditions.iter().enumerate().filter(|(i, _)| !answered[*i]);
            let found: Vec<MemberCondition> =
                open.filter_map(|(at, c)| self.member_condition(rel, object, at, c)).collect();
            let mut covered: Vec<usize> = found.iter().flat_map(|c| c.members.iter().copied()).collect();
            covered.sort_unstable();
            covered.dedup();
            let most = best.as_ref().map_or(1, |b| b.0);
            let is_smaller = best.as_ref().is_some_and(|b| object.members.len() < b.1.members.len());
            if covered.len() > most || covered.len() == most && most > 1 && is_smaller {
                best = Some((covered.len(), object, found));
            }
        }
        best.map(|(_, object, found)| (object, found))
    }

    /// The condition, if it asks of the relation nothing but an object's members, and all values in it are known.
    fn member_condition(&self, rel: u32, object: &BoundObject<'_>, at: usize, e: &Expr) -> Option<MemberCondition> {
        let mut condition = e.clone();
        let mut members = Vec::new();
        replace_members(&mut condition, rel, object, &mut members);
        let mut columns = Vec::new();
        condition.columns(&mut columns);
        let is_answered = !columns.is_empty() && columns.iter().all(|c| c.rel == rel && c.att >= FIRST_MEMBER);
        if !is_answered || condition.varies() {
            return None;
        }
        self.value_of(e, true);
        members.sort_unstable();
        members.dedup();
        let first = object.statistics.common.items.first();
        let judged = self.judged(&condition, object, rel, first.map(|i| i.values.as_slice()));
        judged.map(|_| MemberCondition { at, members, condition })
    }

    /// Whether a combination satisfies a condition over members; None: that cannot be told.
    fn judged(&self, condition: &Expr, object: &BoundObject<'_>, rel: u32, values: Option<&[Datum]>) -> Option<bool> {
        let columns = (0..object.members.len()).map(|i| ColId { rel, att: FIRST_MEMBER + i as i16 });
        let values = values.unwrap_or_default();
        let program = self.compile(condition, &Layout(columns.collect())).ok();
        match evaluated_row(&program?, self.eval.as_ref(), values)? {
            Datum::Bool(b) => Some(b),
            Datum::Null => Some(false),
            _ => None,
        }
    }

    fn common_selectivity(
        &self,
        rel: u32,
        object: &BoundObject<'_>,
        found: &[MemberCondition],
        conditions: &[&Expr],
    ) -> f64 {
        let simple = self.simple_share(rel, found.iter().map(|c| conditions[c.at]));
        let (mut common, mut total) = (CommonShare::default(), 0.0);
        for item in &object.statistics.common.items {
            total += item.frequency;
            if found.iter().all(|c| self.judged(&c.condition, object, rel, Some(&item.values)) == Some(true)) {
                common.add(item);
            }
        }
        common.with_others(simple, total)
    }

    /// By functional dependencies: `a = 1 AND b = 2` is no rarer than `a = 1` where a tells b.
    fn dependent_selectivity(
        &self,
        rel: u32,
        objects: &[BoundObject<'_>],
        conditions: &[&Expr],
        answered: &mut [bool],
    ) -> f64 {
        let mut asked: Vec<(Expr, Vec<usize>)> = Vec::new();
        for (at, condition) in conditions.iter().enumerate().filter(|(at, _)| !answered[*at]) {
            if let Some(of) = self.equality_of(rel, condition) {
                match asked.iter_mut().find(|(e, _)| kilndb_bind::same(e, &of)) {
                    Some((_, places)) => places.push(at),
                    None => asked.push((of, vec![at])),
                }
            }
        }
        let place = |e: &Expr| asked.iter().position(|(known, _)| kilndb_bind::same(known, access::strip(e)));
        // Dependencies by places in `asked`.
        let mut usable: Vec<(Vec<usize>, usize, f64)> = Vec::new();
        for object in objects {
            let numbers = object.statistics.members();
            let place_of = |number: i16| {
                let member = numbers.iter().position(|n| *n == number)?;
                place(object.members.get(member)?)
            };
            for FunctionalDependency { from, to, degree } in &object.statistics.dependencies {
                let from: Option<Vec<usize>> = from.iter().map(|n| place_of(*n)).collect();
                if let (Some(from), Some(to)) = (from, place_of(*to)) {
                    usable.push((from, to, *degree));
                }
            }
        }
        let mut open: Vec<usize> = (0..asked.len()).collect();
        let mut applied: Vec<(Vec<usize>, usize, f64)> = Vec::new();
        loop {
            let fits = usable.iter().filter(|(from, to, _)| open.contains(to) && from.iter().all(|f| open.contains(f)));
            let strongest = fits.fold(None, |best: Option<&(Vec<usize>, usize, f64)>, next| match best {
                Some(b) if (b.0.len(), b.2) >= (next.0.len(), next.2) => Some(b),
                _ => Some(next),
            });
            let Some(dependency) = strongest.cloned() else { break };
            open.retain(|place| *place != dependency.1);
            applied.push(dependency);
        }
        let mut used: Vec<usize> = applied.iter().flat_map(|(from, to, _)| from.iter().copied().chain([*to])).collect();
        used.sort_unstable();
        used.dedup();
        let mut shares: HashMap<usize, f64> = HashMap::new();
        for place in &used {
            asked[*place].1.iter().for_each(|at| answered[*at] = true);
            let own = asked[*place].1.iter().map(|at| conditions[*at]);
            shares.insert(*place, self.independent_selectivity(rel, own));
        }
        let of = |shares: &HashMap<usize, f64>, place: &usize| shares.get(place).copied().unwrap_or(1.0);
        for (from, to, degree) in applied.iter().rev() {
            let telling: f64 = from.iter().map(|f| of(&shares, f)).product();
            let told = of(&shares, to);
            let held = if telling <= told { *degree } else { degree * told / telling };
            shares.insert(*to, held + (1.0 - degree) * told);
        }
        used.iter().map(|place| of(&shares, place)).product()
    }

    /// The column or expression whose value, or one of a few, the condition asks for.
    fn equality_of(&self, rel: u32, e: &Expr) -> Option<Expr> {
        let of_operator = |f: &FuncExpr| {
            let [l, r] = f.args.as_slice() else { return None };
            if f.operator == 0 || self.catalog.btree_strategy(f.operator).ok().flatten() != Some(EQUAL) {
                return None;
            }
            let (variable, value) = match (access::foreign(l, rel), access::foreign(r, rel)) {
                (false, true) => (l, r),
                (true, false) => (r, l),
                _ => return None,
            };
            self.value_of(value, true).map(|_| access::strip(variable).clone())
        };
        match &e.kind {
            ExprKind::Func(f) => of_operator(f),
            ExprKind::ScalarArray { func, any: true } => {
                let [l, r] = func.args.as_slice() else { return None };
                let is_equality = self.catalog.btree_strategy(func.operator).ok().flatten() == Some(EQUAL);
                let is_known = !access::foreign(l, rel) && access::foreign(r, rel) && self.value_of(r, true).is_some();
                (is_equality && is_known).then(|| access::strip(l).clone())
            }
            ExprKind::Or(list) => {
                let mut sides = list.iter().map(|e| self.equality_of(rel, e));
                let first = sides.next()??;
                sides.all(|side| side.is_some_and(|e| kilndb_bind::same(&e, &first))).then_some(first)
            }
            ExprKind::Column(c) if c.rel == rel => Some(e.clone()),
            ExprKind::Not(inner) if matches!(&inner.kind, ExprKind::Column(c) if c.rel == rel) => {
                Some((**inner).clone())
            }
            _ => None,
        }
    }

    /// Takes those of a table's groups that a statistics object has counted together out of the list, with their number.
    pub(super) fn counted_together(&self, rel: u32, groups: &mut Vec<(Expr, f64)>) -> Option<f64> {
        let (table, objects) = self.objects_of(rel)?;
        let mut best: Option<(Vec<usize>, f64)> = None;
        for object in objects.iter().filter(|o| !o.counts.is_empty()) {
            let Some(bound) = self.bound_object(object, rel, &table) else { continue };
            let numbers = object.members();
            let member = |e: &Expr| match &access::strip(e).kind {
                ExprKind::Column(c) => object.columns.iter().position(|n| *n == c.att && c.rel == rel),
                _ => bound.members.iter().position(|m| kilndb_bind::same(m, access::strip(e))),
            };
            let matched: Vec<(usize, i16)> =
                groups.iter().enumerate().filter_map(|(i, (e, _))| Some((i, *numbers.get(member(e)?)?))).collect();
            if matched.len() < 2 || best.as_ref().is_some_and(|b| b.0.len() >= matched.len()) {
                continue;
            }
            let is_it = |members: &[i16]| {
                members.len() == matched.len() && matched.iter().all(|(_, number)| members.contains(number))
            };
            if let Some(count) = object.counts.iter().find(|c| is_it(&c.members)) {
                best = Some((matched.iter().map(|(i, _)| *i).collect(), count.distinct));
            }
        }
        let (places, distinct) = best?;
        let mut at = 0;
        groups.retain(|_| {
            at += 1;
            !places.contains(&(at - 1))
        });
        Some(distinct)
    }
}

/// Puts columns that stand for members in the place of these.
fn replace_members(e: &mut Expr, rel: u32, object: &BoundObject<'_>, found: &mut Vec<usize>) {
    let _ = e.rewrite(&mut |e| {
        let place = object.members.iter().position(|m| kilndb_bind::same(m, e));
        if let Some(place) = place {
            found.push(place);
            e.kind = ExprKind::Column(ColId { rel, att: FIRST_MEMBER + place as i16 });
        }
        Ok(())
    });
}
