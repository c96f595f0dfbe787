//! How many rows functions yield: what pg_proc says (ROWS), or the arguments of those that count or take an array apart.

use super::*;

/// generate_series of integers: of int4 and int8, with a step and without.
const SERIES: [Oid; 4] = [1066, 1067, 1068, 1069];
const UNNEST: Oid = 2331;

impl Planner<'_> {
    /// The rows of a call, of which there is one for what is no set.
    pub(crate) fn function_rows(&self, call: &Expr) -> f64 {
        let ExprKind::Func(f) = &call.kind else { return 1.0 };
        if !f.returns_set {
            return 1.0;
        }
        let known = match f.oid {
            oid if SERIES.contains(&oid) => self.series_rows(&f.args),
            UNNEST => f.args.first().and_then(|array| self.array_rows(array)),
            _ => None,
        };
        let declared = || self.catalog.function_by_oid(f.oid).ok().flatten().map(|info| f64::from(info.rows));
        known.or_else(declared).filter(|rows| *rows > 0.0).unwrap_or(1000.0).max(1.0)
    }

    fn series_rows(&self, args: &[Expr]) -> Option<f64> {
        let number = |e: &Expr| self.known_value(e).as_ref().and_then(crate::expression::int_of).map(|n| n as f64);
        let (first, last) = (number(args.first()?)?, number(args.get(1)?)?);
        let step = args.get(2).map_or(Some(1.0), number)?;
        (step != 0.0).then(|| ((last - first) / step).floor() + 1.0).map(|rows| rows.max(1.0))
    }

    fn array_rows(&self, array: &Expr) -> Option<f64> {
        match self.known_value(array) {
            Some(Datum::Array(list)) => Some(list.elements.len() as f64),
            _ => None,
        }
    }
}
