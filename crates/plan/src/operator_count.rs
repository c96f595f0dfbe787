//! How much conditions ask of the processor, in operators.
//!
//! Must not know: what an operator costs.

use super::*;

/// A pattern is held against each character of a text: measured, it takes 100 to 200 ns where a comparison of integers takes
/// 10 to 30.
const PATTERN: f64 = 8.0;
/// An array of patterns that is not known has so many.
const ELEMENTS: f64 = 10.0;

/// The operators and functions in these conditions, each of which counts as one at least.
pub(crate) fn operator_count<'e>(conditions: impl IntoIterator<Item = &'e Expr>) -> f64 {
    conditions.into_iter().map(|e| operators_in(e).max(1.0)).sum()
}

fn operators_in(e: &Expr) -> f64 {
    let own = match &e.kind {
        ExprKind::Func(f) => of_function(&f.name),
        // Each element of an array is a pattern, of which half are tried on average before one fits.
        ExprKind::ScalarArray { func, .. } if of_function(&func.name) > 1.0 => {
            let elements = match func.args.get(1).map(|array| &access::strip(array).kind) {
                Some(ExprKind::Const(kilndb_types::Datum::Array(list))) => list.elements.len() as f64,
                _ => ELEMENTS,
            };
            (of_function(&func.name) * elements * 0.5).max(1.0)
        }
        ExprKind::ScalarArray { .. } => 1.0,
        ExprKind::RowCompare { left, .. } => left.len() as f64,
        _ => 0.0,
    };
    let mut sum = own;
    e.for_children(&mut |child| sum += operators_in(child));
    sum
}

fn of_function(name: &str) -> f64 {
    if matches!(name, "~~" | "!~~" | "~~*" | "!~~*" | "~" | "!~" | "~*" | "!~*") { PATTERN } else { 1.0 }
}
