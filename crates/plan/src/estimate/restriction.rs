//! The share of a relation's rows that satisfy conditions on its columns. Columns of other relations in a condition
//! stand for values that are known only when the plan runs.

use super::ordering::{order, share_below};
use super::patterns::PatternKind;
use super::*;
use crate::expression::{CExpr, compare_int, int_of};
use kilndb_types::EvalContext;
use std::cmp::Ordering;

/// PostgreSQL's defaults.
const INEQUALITY: f64 = 1.0 / 3.0;
const RANGE: f64 = 0.005;
pub(super) const PATTERN: f64 = 0.005;
const UNKNOWN_TEST: f64 = 0.005;
/// An array whose elements are not known has so many.
const ELEMENTS: f64 = 10.0;
/// A histogram of fewer bounds says nothing of a pattern.
pub(super) const BOUNDS_FOR_PATTERN: usize = 10;

/// Btree strategies.
pub(super) const LESS: u8 = 1;
pub(super) const LESS_OR_EQUAL: u8 = 2;
pub(super) const EQUAL: u8 = 3;
const GREATER_OR_EQUAL: u8 = 4;

/// A comparison of a variable with something that does not depend on its relation.
pub(super) struct VariableComparison<'e> {
    pub variable: &'e Expr,
    pub value: &'e Expr,
    /// The btree strategy with the variable on the left.
    pub strategy: u8,
}

/// The bounds that conditions set to one column: the share of the rows above the lower one, below the upper one.
#[derive(Default)]
struct ColumnBounds {
    lower: Option<f64>,
    upper: Option<f64>,
    null_fraction: f64,
}

impl ColumnBounds {
    fn selectivity(&self) -> f64 {
        let (lower, upper) = match (self.lower, self.upper) {
            (Some(lower), Some(upper)) => (lower, upper),
            (one, other) => return one.or(other).unwrap_or(1.0),
        };
        let is_default = |share: f64| (share - INEQUALITY).abs() < 1e-9;
        if is_default(lower) || is_default(upper) {
            return RANGE;
        }
        let both = lower + upper - 1.0 + self.null_fraction;
        match both {
            b if b > 0.0 => b.min(1.0),
            // Bounds close to one another, or a contradiction.
            b if b > -0.01 => 1e-10,
            _ => RANGE,
        }
    }
}

impl Planner<'_> {
    /// The share of the rows of `rel` that satisfy all of these conditions.
    pub(crate) fn restriction_selectivity<'e>(&self, rel: u32, conditions: impl IntoIterator<Item = &'e Expr>) -> f64 {
        let conditions: Vec<&Expr> = conditions.into_iter().collect();
        let (share, answered) = self.combined_selectivity(rel, &conditions);
        let open = conditions.into_iter().zip(answered).filter(|(_, answered)| !answered).map(|(c, _)| c);
        (share * self.independent_selectivity(rel, open)).clamp(0.0, 1.0)
    }

    /// The same, as if columns were independent of one another.
    pub(super) fn independent_selectivity<'e>(&self, rel: u32, conditions: impl IntoIterator<Item = &'e Expr>) -> f64 {
        let mut bounds: Vec<(&Expr, ColumnBounds)> = Vec::new();
        let mut share = 1.0;
        for condition in conditions {
            let selectivity = self.condition_selectivity(rel, condition);
            let bounded = self
                .variable_comparison(rel, condition)
                .filter(|c| c.strategy != EQUAL && !self.is_range(c.variable.ty));
            let Some(comparison) = bounded else {
                share *= selectivity;
                continue;
            };
            let variable = access::strip(comparison.variable);
            let at = bounds.iter().position(|(known, _)| kilndb_bind::same(known, variable)).unwrap_or_else(|| {
                bounds.push((variable, ColumnBounds::default()));
                bounds.len() - 1
            });
            let entry = &mut bounds[at].1;
            entry.null_fraction = self.variable(comparison.variable).null_fraction();
            let bound = if comparison.strategy < EQUAL { &mut entry.upper } else { &mut entry.lower };
            *bound = Some(bound.map_or(selectivity, |before| before.min(selectivity)));
        }
        (share * bounds.iter().map(|(_, b)| b.selectivity()).product::<f64>()).clamp(0.0, 1.0)
    }

    /// The share of the rows of `rel` that satisfy one condition.
    pub(crate) fn condition_selectivity(&self, rel: u32, e: &Expr) -> f64 {
        let of = |e: &Expr| self.condition_selectivity(rel, e);
        let share = match &e.kind {
            ExprKind::And(list) => self.restriction_selectivity(rel, list),
            ExprKind::Or(list) => {
                let independent = || list.iter().map(of).fold(0.0, |sum, share| sum + share - sum * share);
                let known = self.disjunction_selectivity(rel, e, list).or_else(|| self.common_disjunction(rel, list));
                known.unwrap_or_else(independent)
            }
            ExprKind::Not(inner) => 1.0 - of(inner) - self.null_share(inner),
            ExprKind::Const(Datum::Bool(true)) => 1.0,
            ExprKind::Const(_) => 0.0,
            ExprKind::Column(_) => self.boolean_selectivity(e, true),
            ExprKind::IsNull { arg, negated } => self.null_selectivity(arg, *negated),
            ExprKind::BoolTest { arg, test } => self.bool_test_selectivity(rel, arg, *test),
            ExprKind::IsDistinct { eq, negated } => {
                let equal = self.equality_selectivity(rel, &eq.args).unwrap_or(UNKNOWN_TEST);
                if *negated { equal } else { 1.0 - equal }
            }
            ExprKind::ScalarArray { func, any } => self.array_comparison_selectivity(rel, func, *any, e),
            ExprKind::RowCompare { kind, left, right } => self.row_selectivity(rel, *kind, left, right),
            ExprKind::Func(f) => self.function_selectivity(rel, f, e),
            _ => 0.5,
        };
        share.clamp(0.0, 1.0)
    }

    /// The share of the rows for which a comparison with a column gives NULL.
    fn null_share(&self, e: &Expr) -> f64 {
        let ExprKind::Func(f) = &e.kind else { return 0.0 };
        if !matches!(&*f.name, "=" | "<>" | "<" | "<=" | ">" | ">=") {
            return 0.0;
        }
        f.args.iter().map(|a| self.variable(a)).find(|v| v.statistics.is_some()).map_or(0.0, |v| v.null_fraction())
    }

    fn boolean_selectivity(&self, e: &Expr, wanted: bool) -> f64 {
        let variable = self.variable(e);
        match &variable.statistics {
            Some(_) => self.equal_to(&variable, Some(&Datum::Bool(wanted))),
            None => 0.5,
        }
    }

    fn null_selectivity(&self, arg: &Expr, negated: bool) -> f64 {
        let variable = self.variable(arg);
        let share = if variable.statistics.is_some() { variable.null_fraction() } else { UNKNOWN_TEST };
        if negated { 1.0 - share } else { share }
    }

    fn bool_test_selectivity(&self, rel: u32, arg: &Expr, test: BoolTestKind) -> f64 {
        let variable = self.variable(arg);
        let null = variable.null_fraction();
        let is_true = self.condition_selectivity(rel, arg);
        match test {
            BoolTestKind::True => is_true,
            BoolTestKind::NotTrue => 1.0 - is_true,
            BoolTestKind::False => 1.0 - is_true - null,
            BoolTestKind::NotFalse => is_true + null,
            BoolTestKind::Unknown => {
                if variable.statistics.is_some() {
                    null
                } else {
                    UNKNOWN_TEST
                }
            }
            BoolTestKind::NotUnknown => 1.0 - if variable.statistics.is_some() { null } else { UNKNOWN_TEST },
        }
    }

    /// A condition as a comparison of a column of `rel` with something else.
    pub(super) fn variable_comparison<'e>(&self, rel: u32, e: &'e Expr) -> Option<VariableComparison<'e>> {
        let ExprKind::Func(f) = &e.kind else { return None };
        let [l, r] = f.args.as_slice() else { return None };
        let strategy = self.catalog.btree_strategy(f.operator).ok().flatten().filter(|_| f.operator != 0)?;
        match (access::foreign(l, rel), access::foreign(r, rel)) {
            (false, true) => Some(VariableComparison { variable: l, value: r, strategy }),
            (true, false) => Some(VariableComparison { variable: r, value: l, strategy: 6 - strategy }),
            _ => None,
        }
    }

    fn function_selectivity(&self, rel: u32, f: &FuncExpr, e: &Expr) -> f64 {
        if let Some(share) = self.range_selectivity(rel, f) {
            return share;
        }
        if let Some(c) = self.variable_comparison(rel, e) {
            let variable = self.variable(c.variable);
            // Nobody has counted the values of an expression such as document->>'kind', but those of its column.
            if variable.statistics.is_none()
                && let Some(share) = self.observed_selectivity(rel, e)
            {
                return share;
            }
            if c.strategy == EQUAL {
                return self.equal_to_expression(&variable, c.value);
            }
            let value = self.value_of(c.value, variable.has_histogram());
            return less_or_greater(&variable, c.strategy, value.as_ref());
        }
        if let Some(share) = self.element_condition(rel, e) {
            return share;
        }
        match (f.args.as_slice(), &*f.name) {
            ([l, r], "=" | "<>" | "<" | "<=" | ">" | ">=") if f.operator != 0 => {
                let is_equality = matches!(&*f.name, "=" | "<>");
                let share = match self.equality_selectivity(rel, &f.args) {
                    Some(share) if is_equality => share,
                    _ if is_equality => 1.0 / self.variable(l).distinct().max(self.variable(r).distinct()),
                    _ => INEQUALITY,
                };
                if &*f.name == "<>" { 1.0 - share - self.null_share(e) } else { share }
            }
            _ => self.operator_selectivity(rel, f, e),
        }
    }

    /// `column = value`, in any order; None: it is no such comparison.
    fn equality_selectivity(&self, rel: u32, args: &[Expr]) -> Option<f64> {
        let [l, r] = args else { return None };
        let (column, value) = match (access::foreign(l, rel), access::foreign(r, rel)) {
            (false, true) => (l, r),
            (true, false) => (r, l),
            _ => return None,
        };
        let variable = self.variable(column);
        Some(self.equal_to_expression(&variable, value))
    }

    /// The share of the rows with the value of an expression, which may be a column of another relation.
    fn equal_to_expression(&self, variable: &Variable, e: &Expr) -> f64 {
        let value = self.value_of(e, variable.has_outstanding_values());
        let average = self.equal_to(variable, value.as_ref());
        match &access::strip(e).kind {
            ExprKind::Column(column) => {
                let other = self.column_variable(*column, e.ty);
                self.skewed_pairs(variable, &other).map_or(average, |skewed| skewed.max(average))
            }
            _ => average,
        }
    }

    /// The share of the rows with a value; None: with a value that is not known yet.
    pub(super) fn equal_to(&self, variable: &Variable, value: Option<&Datum>) -> f64 {
        if value.is_some_and(Datum::is_null) {
            return 0.0;
        }
        let (null, distinct) = (variable.null_fraction(), variable.distinct());
        let Some(s) = variable.statistics.as_ref().filter(|_| !variable.is_unique) else {
            return (1.0 - null) / distinct;
        };
        let Some(value) = value else {
            let average = (1.0 - null) / distinct;
            return s.frequencies.first().map_or(average, |most| average.min(*most));
        };
        let is_value = |common: &Datum| order(variable.ty, common, value) == Some(Ordering::Equal);
        if let Some(i) = s.common.iter().position(is_value) {
            return s.frequencies[i];
        }
        let rest = (1.0 - s.frequencies.iter().sum::<f64>() - null).clamp(0.0, 1.0);
        let others = distinct - s.common.len() as f64;
        let share = if others > 1.0 { rest / others } else { rest };
        s.frequencies.last().map_or(share, |least| share.min(*least))
    }

    /// `value = ANY (array)` and the like.
    fn array_comparison_selectivity(&self, rel: u32, func: &FuncExpr, any: bool, e: &Expr) -> f64 {
        if let Some(share) = self.element_condition(rel, e) {
            return share;
        }
        let [l, r] = func.args.as_slice() else { return 0.5 };
        let variable = self.variable(l);
        let is_equality = &*func.name == "=";
        let strategy = self.catalog.btree_strategy(func.operator).ok().flatten();
        let of_element = |value: Option<&Datum>| match (&*func.name, strategy) {
            ("=", _) => self.equal_to(&variable, value),
            ("<>", _) => 1.0 - self.equal_to(&variable, value) - variable.null_fraction(),
            (_, Some(strategy)) => less_or_greater(&variable, strategy, value),
            _ => self.observed_selectivity(rel, e).unwrap_or_else(|| {
                PatternKind::of(&func.name).map_or(INEQUALITY, |(_, negated)| PatternKind::default_share(negated))
            }),
        };
        let shares: Vec<f64> = match self.value_of(r, variable.has_outstanding_values()) {
            Some(Datum::Array(list)) => list.elements.iter().map(|value| of_element(Some(value))).collect(),
            Some(_) => return 0.0,
            None => vec![of_element(None); self.element_count(r)],
        };
        if !any {
            return shares.iter().product();
        }
        let sum: f64 = shares.iter().sum();
        if is_equality && sum <= 1.0 { sum } else { shares.iter().fold(0.0, |all, share| all + share - all * share) }
    }

    /// The number of elements of an array expression.
    fn element_count(&self, array: &Expr) -> usize {
        match &array.kind {
            ExprKind::Array { elements, .. } => elements.len(),
            ExprKind::Cast { arg, .. } => self.element_count(arg),
            _ => ELEMENTS as usize,
        }
    }

    /// The first column decides nearly always.
    fn row_selectivity(&self, rel: u32, kind: CompareKind, left: &[Expr], right: &[Expr]) -> f64 {
        let equal = || {
            let pairs = left.iter().zip(right);
            pairs
                .map(|(l, r)| self.equality_selectivity(rel, &[l.clone(), r.clone()]).unwrap_or(RANGE))
                .product::<f64>()
        };
        let strategy = match kind {
            CompareKind::Eq => return equal(),
            CompareKind::Ne => return 1.0 - equal(),
            CompareKind::Lt => LESS,
            CompareKind::Le => LESS_OR_EQUAL,
            CompareKind::Ge => GREATER_OR_EQUAL,
            CompareKind::Gt => 5,
        };
        let (Some(l), Some(r)) = (left.first(), right.first()) else { return INEQUALITY };
        let (column, value, strategy) = match (access::foreign(l, rel), access::foreign(r, rel)) {
            (false, true) => (l, r, strategy),
            (true, false) => (r, l, 6 - strategy),
            _ => return INEQUALITY,
        };
        let variable = self.variable(column);
        let value = self.value_of(value, variable.has_histogram());
        less_or_greater(&variable, strategy, value.as_ref())
    }

    /// The share of the rows that satisfy a condition on one column, as the known values of that column do. None: there
    /// are none, or the condition needs more than built-in functions of that column and constants.
    pub(super) fn observed_selectivity(&self, rel: u32, e: &Expr) -> Option<f64> {
        let (s, column) = self.observed_column(rel, e)?;
        let sample = s.histogram.len();
        if s.common.is_empty() && sample < BOUNDS_FOR_PATTERN {
            return None;
        }
        self.value_of(e, true);
        let (of_common, found) = self.shares_of(&s, column, e)?;
        let share = match sample {
            n if n < BOUNDS_FOR_PATTERN => PATTERN,
            n => found.clamp(0.5 / n as f64, 1.0 - 0.5 / n as f64),
        };
        Some(of_common + share_of_others(&s) * share)
    }

    /// The share of the rows that have common values of which a condition on one column is true, and the share of the
    /// histogram's bounds of which it is.
    pub(super) fn observed_shares(&self, rel: u32, e: &Expr) -> Option<(f64, f64)> {
        let (s, column) = self.observed_column(rel, e)?;
        self.shares_of(&s, column, e)
    }

    /// The only column of a condition, with what is known of it.
    fn observed_column(&self, rel: u32, e: &Expr) -> Option<(Arc<ColumnStatistics>, ColId)> {
        let mut columns = Vec::new();
        e.columns(&mut columns);
        columns.dedup();
        let [column] = columns.as_slice() else { return None };
        if column.rel != rel || !e.is_immutable_builtin() {
            return None;
        }
        Some((self.column_variable(*column, e.ty).statistics?, *column))
    }

    fn shares_of(&self, s: &ColumnStatistics, column: ColId, e: &Expr) -> Option<(f64, f64)> {
        let condition = self.compile(e, &Layout(vec![column])).ok()?;
        let is_true = |value: &Datum| match evaluated(&condition, self.eval.as_ref(), Some(value))? {
            Datum::Bool(b) => Some(b),
            Datum::Null => Some(false),
            _ => None,
        };
        let mut of_common = 0.0;
        for (value, frequency) in s.common.iter().zip(&s.frequencies) {
            of_common += if is_true(value)? { *frequency } else { 0.0 };
        }
        let mut found = 0.0;
        for value in &s.histogram {
            found += f64::from(u8::from(is_true(value)?));
        }
        Some((of_common, found / s.histogram.len().max(1) as f64))
    }

    /// The value of an expression that asks nothing but what time it is and what the settings are.
    pub(super) fn known_value(&self, e: &Expr) -> Option<Datum> {
        if let Some(value) = e.as_const() {
            return Some(value.clone());
        }
        if e.any(&|e| matches!(e.kind, ExprKind::Column(_) | ExprKind::Param(_) | ExprKind::SubLink(_))) {
            return None;
        }
        let value = self.compile(e, &Layout::default()).ok()?;
        evaluated(&value, self.eval.as_ref(), None)
    }
}

/// The share of the rows whose value is less (strategies 1 and 2) or greater (4 and 5) than a value.
pub(super) fn less_or_greater(variable: &Variable, strategy: u8, value: Option<&Datum>) -> f64 {
    let (Some(s), Some(value)) = (&variable.statistics, value) else { return INEQUALITY };
    if value.is_null() {
        return 0.0;
    }
    let mut of_common = 0.0;
    for (common, frequency) in s.common.iter().zip(&s.frequencies) {
        let Some(order) = order(variable.ty, common, value) else { return INEQUALITY };
        let holds = match strategy {
            LESS => order.is_lt(),
            LESS_OR_EQUAL => order.is_le(),
            GREATER_OR_EQUAL => order.is_ge(),
            _ => order.is_gt(),
        };
        of_common += if holds { *frequency } else { 0.0 };
    }
    let rest = share_of_others(s);
    let share = match share_below(variable.ty, &s.histogram, value) {
        Some(below) if strategy < EQUAL => below,
        Some(below) => 1.0 - below,
        None if s.common.is_empty() => return INEQUALITY,
        None => 0.5,
    };
    (of_common + rest * share).clamp(0.0, 1.0)
}

/// As [`evaluated_row`], over one column at most.
fn evaluated(e: &CExpr, eval: Option<&EvalContext<'_>>, column: Option<&Datum>) -> Option<Datum> {
    evaluated_row(e, eval, column.map_or(&[], std::slice::from_ref))
}

/// Calls of built-in functions of constants and of a row's values; None: there is more to it, or it fails.
pub(super) fn evaluated_row(e: &CExpr, eval: Option<&EvalContext<'_>>, row: &[Datum]) -> Option<Datum> {
    let of = |e: &CExpr| evaluated_row(e, eval, row);
    let call = |f: kilndb_types::functions::ScalarFn, strict: bool, args: &[CExpr]| {
        let args = args.iter().map(of).collect::<Option<Vec<Datum>>>()?;
        if strict && args.iter().any(Datum::is_null) { Some(Datum::Null) } else { f(eval?, &args).ok() }
    };
    match e {
        CExpr::Const(value) => Some(value.clone()),
        CExpr::Slot(i) => row.get(*i).cloned(),
        CExpr::ScalarArray { call, any, args } => {
            let (value, list) = (of(&args[0])?, of(&args[1])?);
            let Datum::Array(list) = list else { return Some(Datum::Null) };
            let compared = |element: &Datum| {
                let operands = [value.clone(), element.clone()];
                if call.strict && operands.iter().any(Datum::is_null) {
                    Some(Datum::Null)
                } else {
                    (call.f)(eval?, &operands).ok()
                }
            };
            all_of(list.elements.iter().map(compared), *any)
        }
        CExpr::InSet { ty, arg, set, has_null, negated } => {
            let value = of(arg)?;
            let mut key = Vec::new();
            kilndb_types::key::hash_equal_key(*ty, &value, &mut key).ok()?;
            let is_in = set.contains(&key);
            Some(if value.is_null() || !is_in && *has_null { Datum::Null } else { Datum::Bool(is_in != *negated) })
        }
        CExpr::BoolTest { arg, test } => {
            let value = match of(arg)? {
                Datum::Bool(b) => Some(b),
                _ => None,
            };
            Some(Datum::Bool(test.is_met_by(value)))
        }
        CExpr::And(list) => all_of(list.iter().map(of), false),
        CExpr::Or(list) => all_of(list.iter().map(of), true),
        CExpr::Not(arg) => match of(arg)? {
            Datum::Bool(b) => Some(Datum::Bool(!b)),
            Datum::Null => Some(Datum::Null),
            _ => None,
        },
        CExpr::Once { arg, .. } => of(arg),
        CExpr::Call1 { call: c, arg } => call(c.f, c.strict, std::slice::from_ref(&**arg)),
        CExpr::Call2 { call: c, args } => call(c.f, c.strict, &args[..]),
        CExpr::Arithmetic { op, wide, args, .. } => {
            let (l, r) = (of(&args[0])?, of(&args[1])?);
            if l.is_null() || r.is_null() {
                return Some(Datum::Null);
            }
            let value = op.within(*wide, int_of(&l)?, int_of(&r)?)?;
            Some(if *wide { Datum::Int8(value) } else { Datum::Int4(value as i32) })
        }
        CExpr::Call { call: c, args } => call(c.f, c.strict, args),
        CExpr::Cast { f, typmod, explicit, arg, .. } => match of(arg)? {
            Datum::Null => Some(Datum::Null),
            value => f(&value, *typmod, *explicit, eval?).ok(),
        },
        CExpr::CompareInt { op, args } => {
            let (l, r) = (of(&args[0])?, of(&args[1])?);
            if l.is_null() || r.is_null() {
                return Some(Datum::Null);
            }
            Some(Datum::Bool(compare_int(*op, int_of(&l)?, int_of(&r)?)))
        }
        CExpr::IsNull { arg, negated, row: false } => Some(Datum::Bool(of(arg)?.is_null() != *negated)),
        CExpr::Array { element, multidim: false, args } => {
            let values = args.iter().map(of).collect::<Option<Vec<Datum>>>()?;
            Some(kilndb_catalog::store::array(*element, values))
        }
        _ => None,
    }
}

/// AND, or with `wanted` OR: one that is `wanted` decides, else one that is NULL.
fn all_of(values: impl Iterator<Item = Option<Datum>>, wanted: bool) -> Option<Datum> {
    let mut has_null = false;
    for value in values {
        match value? {
            Datum::Bool(b) if b == wanted => return Some(Datum::Bool(wanted)),
            Datum::Null => has_null = true,
            _ => {}
        }
    }
    Some(if has_null { Datum::Null } else { Datum::Bool(!wanted) })
}
