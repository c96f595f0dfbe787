//! What operators leave that are no comparisons: each has PostgreSQL's estimator (`oprrest` and `oprjoin` in
//! pg_operator), which says what is taken where nothing is known, and what values are tried otherwise.
//!
//! Invariants
//! 1. An operator without an estimator, whose name says nothing either, leaves a half, as in PostgreSQL.
//!
//! Must not know: what paths cost.

use super::patterns::PatternKind;
use super::*;

/// The estimators of restrictions in pg_proc.
const AREASEL: Oid = 139;
const POSITIONSEL: Oid = 1300;
const CONTSEL: Oid = 1302;
const NETWORKSEL: Oid = 3560;
const MATCHINGSEL: Oid = 5040;
/// And those of joins whose operators have no estimator of restrictions, or another one.
const AREAJOINSEL: Oid = 140;
const POSITIONJOINSEL: Oid = 1301;
const CONTJOINSEL: Oid = 1303;
const MATCHINGJOINSEL: Oid = 5041;

/// What an operator leaves of which there is no estimator.
const NO_ESTIMATOR: f64 = 0.5;
/// A call of a function that tells true or false.
const CALL: f64 = 0.3333333;
/// So many values of one side stand for all of them where a join's condition is no equality.
const SAMPLED_VALUES: usize = 12;

/// PostgreSQL's share where nothing is known, by the estimator and the operator's name.
fn default_of_estimator(estimator: Oid, name: &str) -> f64 {
    match (estimator, name) {
        (AREASEL | AREAJOINSEL, _) => 0.005,
        (POSITIONSEL | POSITIONJOINSEL, _) => 0.1,
        (CONTSEL | CONTJOINSEL, _) => 0.001,
        (MATCHINGSEL | MATCHINGJOINSEL, _) => 0.01,
        (_, "=") => 1.0 / DISTINCT_DEFAULT,
        (_, "<>") => 1.0 - 1.0 / DISTINCT_DEFAULT,
        (_, "<" | "<=" | ">" | ">=") => 1.0 / 3.0,
        (_, "&&") => 0.01,
        (_, "@@" | "@@@" | "@>" | "<@" | "<<" | "<<=" | ">>" | ">>=") => 0.005,
        (0, _) => NO_ESTIMATOR,
        (_, name) => match PatternKind::of(name) {
            Some((_, negated)) => PatternKind::default_share(negated),
            None => NO_ESTIMATOR,
        },
    }
}

impl Planner<'_> {
    /// The share of the rows of `rel` that a call leaves which is no comparison, range or element condition.
    pub(super) fn operator_selectivity(&self, rel: u32, f: &FuncExpr, e: &Expr) -> f64 {
        if f.operator == 0 {
            return self.observed_selectivity(rel, e).unwrap_or(CALL);
        }
        let info = self.catalog.operator_by_oid(f.operator).ok().flatten();
        let estimator = info.map_or(0, |o| o.restriction);
        let known = match estimator {
            NETWORKSEL => self.network_selectivity(rel, f, e),
            _ => self.pattern_selectivity(rel, f, e),
        };
        known.or_else(|| self.observed_selectivity(rel, e)).unwrap_or_else(|| default_of_estimator(estimator, &f.name))
    }

    /// The share of the pairs of rows that satisfy an operator between two relations which is no equality: the average
    /// over some values of one side. PostgreSQL has a constant for each operator, which is taken if no values are known.
    pub(super) fn operator_pairs(&self, f: &FuncExpr, sides: JoinSides<'_>) -> f64 {
        self.sampled_pairs(f, sides).unwrap_or_else(|| {
            let info = self.catalog.operator_by_oid(f.operator).ok().flatten();
            default_of_estimator(info.map_or(0, |o| o.join), &f.name)
        })
    }

    fn sampled_pairs(&self, f: &FuncExpr, sides: JoinSides<'_>) -> Option<f64> {
        let [l, r] = f.args.as_slice() else { return None };
        let (l_rel, r_rel) = (only_relation(l, sides)?, only_relation(r, sides)?);
        if l_rel == r_rel {
            return None;
        }
        let (at, rel, variable) = match self.variable(r) {
            known if known.has_histogram() => (1, l_rel, known),
            _ => (0, r_rel, self.variable(l)),
        };
        let s = variable.statistics.as_ref().filter(|_| variable.has_histogram())?;
        let mut call = f.clone();
        let share = sample(s).map(|(value, weight)| {
            let ty = call.args[at].ty;
            call.args[at] = Expr::new(ExprKind::Const(value.clone()), ty);
            let condition = Expr::new(ExprKind::Func(Box::new(call.clone())), oids::BOOL);
            weight * self.condition_selectivity(rel, &condition)
        });
        Some(share.sum::<f64>() * (1.0 - s.null_fraction))
    }
}

/// The relation of the join's that an expression is about; None: there are several, or none.
fn only_relation(e: &Expr, sides: JoinSides<'_>) -> Option<u32> {
    let mut used = Vec::new();
    e.columns(&mut used);
    let first = used.first()?.rel;
    let is_one = used.iter().all(|c| c.rel == first) && (sides.left.contains(&first) || sides.right.contains(&first));
    is_one.then_some(first)
}

/// Some of the values of a column, each with its share of those that are not NULL.
fn sample(s: &ColumnStatistics) -> impl Iterator<Item = (&Datum, f64)> {
    let common: f64 = s.frequencies.iter().sum();
    let bounds = s.histogram.len();
    // The first and the last one are extremes.
    let middle = (bounds > 2).then(|| bounds - 2);
    let taken = middle.map_or(bounds, |n| n.min(SAMPLED_VALUES));
    let bound_at = move |i: usize| match middle {
        Some(n) => 1 + (2 * i + 1) * n / (2 * taken),
        None => i,
    };
    let shown = s.common.len().min(SAMPLED_VALUES);
    let of_shown: f64 = s.frequencies[..shown].iter().sum();
    let rest = share_of_others(s);
    let all = (if taken > 0 { rest } else { 0.0 } + common).max(1e-9);
    let of_common = s.common.iter().zip(&s.frequencies).take(shown);
    of_common
        .map(move |(value, frequency)| (value, frequency * common / of_shown.max(1e-9) / all))
        .chain((0..taken).map(move |i| (&s.histogram[bound_at(i)], rest / all / taken as f64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_the_weight_of_all() {
        let statistics = ColumnStatistics {
            null_fraction: 0.1,
            common: (0..40).map(Datum::Int4).collect(),
            frequencies: vec![0.01; 40],
            histogram: (0..=100).map(|i| Datum::Int4(i * 10)).collect(),
            ..Default::default()
        };
        let taken: Vec<(&Datum, f64)> = sample(&statistics).collect();
        assert_eq!(taken.len(), 2 * SAMPLED_VALUES);
        assert!((taken.iter().map(|(_, weight)| weight).sum::<f64>() - 1.0).abs() < 1e-9);
        let of_bounds: Vec<i32> = taken[SAMPLED_VALUES..]
            .iter()
            .filter_map(|(v, _)| if let Datum::Int4(n) = v { Some(*n) } else { None })
            .collect();
        assert_eq!((of_bounds.first(), of_bounds.last()), (Some(&50), Some(&950)));
    }

    #[test]
    fn estimators_have_defaults() {
        assert_eq!(default_of_estimator(POSITIONSEL, "<<"), 0.1);
        assert_eq!(default_of_estimator(NETWORKSEL, "<<"), 0.005);
        assert_eq!(default_of_estimator(1819, "~~"), 0.005);
        assert_eq!(default_of_estimator(0, "#"), 0.5);
    }
}
