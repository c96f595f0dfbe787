//! Expression programs over variables: the parameters of a routine's expression are variables, and all variables of a
//! running call are one row, which programs read as they read a table's.
//!
//! Must not know: routines, and where variables are kept.

use crate::expression::CExpr;
use kilndb_types::context::is_self_contained;

/// Where a program finds its parameters.
struct SlotFinder<'a> {
    /// By parameter.
    slots: &'a [usize],
}

impl CExpr {
    /// The program that reads parameter `n` from the slot `slots[n]`. None: its value depends on more than that and the
    /// session's settings, or the row that it would have to be evaluated over is another's.
    pub fn over_slots(&self, slots: &[usize]) -> Option<CExpr> {
        SlotFinder { slots }.program(self)
    }
}

impl SlotFinder<'_> {
    fn boxed(&self, e: &CExpr) -> Option<Box<CExpr>> {
        self.program(e).map(Box::new)
    }

    fn list(&self, list: &[CExpr]) -> Option<Box<[CExpr]>> {
        list.iter().map(|e| self.program(e)).collect()
    }

    fn pair(&self, [l, r]: &[CExpr; 2]) -> Option<Box<[CExpr; 2]>> {
        Some(Box::new([self.program(l)?, self.program(r)?]))
    }

    fn program(&self, e: &CExpr) -> Option<CExpr> {
        Some(match e {
            CExpr::Const(d) => CExpr::Const(d.clone()),
            CExpr::Param(n) => CExpr::Slot(*self.slots.get(*n)?),
            CExpr::Call1 { call, arg } => CExpr::Call1 { call: *call, arg: self.boxed(arg)? },
            CExpr::Call2 { call, args } => CExpr::Call2 { call: *call, args: self.pair(args)? },
            CExpr::Call { call, args } => CExpr::Call { call: *call, args: self.list(args)? },
            CExpr::CompareInt { op, args } => CExpr::CompareInt { op: *op, args: self.pair(args)? },
            CExpr::Arithmetic { op, wide, f, args } => {
                CExpr::Arithmetic { op: *op, wide: *wide, f: *f, args: self.pair(args)? }
            }
            // A run of the program is no run of a statement: variables may have other values each time.
            CExpr::Once { arg, .. } => self.program(arg)?,
            CExpr::And(list) => CExpr::And(self.list(list)?),
            CExpr::Or(list) => CExpr::Or(self.list(list)?),
            CExpr::Not(arg) => CExpr::Not(self.boxed(arg)?),
            CExpr::Coalesce(list) => CExpr::Coalesce(self.list(list)?),
            other => self.conversion(other).or_else(|| self.choice(other))?,
        })
    }

    fn conversion(&self, e: &CExpr) -> Option<CExpr> {
        Some(match e {
            CExpr::Cast { f, typmod, explicit, vector, arg } => {
                CExpr::Cast { f: *f, typmod: *typmod, explicit: *explicit, vector: *vector, arg: self.boxed(arg)? }
            }
            CExpr::InOut { from, to, typmod, explicit, arg } if is_self_contained(*from) && is_self_contained(*to) => {
                CExpr::InOut { from: *from, to: *to, typmod: *typmod, explicit: *explicit, arg: self.boxed(arg)? }
            }
            CExpr::Typmod { ty, typmod, explicit, arg } => {
                CExpr::Typmod { ty: *ty, typmod: *typmod, explicit: *explicit, arg: self.boxed(arg)? }
            }
            _ => return None,
        })
    }

    fn choice(&self, e: &CExpr) -> Option<CExpr> {
        Some(match e {
            CExpr::IsNull { arg, negated, row } => {
                CExpr::IsNull { arg: self.boxed(arg)?, negated: *negated, row: *row }
            }
            CExpr::BoolTest { arg, test } => CExpr::BoolTest { arg: self.boxed(arg)?, test: *test },
            CExpr::IsDistinct { left, right, eq, negated } => {
                CExpr::IsDistinct { left: self.boxed(left)?, right: self.boxed(right)?, eq: *eq, negated: *negated }
            }
            CExpr::NullIf { eq, args } => CExpr::NullIf { eq: *eq, args: self.pair(args)? },
            CExpr::MinMax { ty, greatest, args } => {
                CExpr::MinMax { ty: *ty, greatest: *greatest, args: self.list(args)? }
            }
            CExpr::Case { arg, whens, otherwise } => CExpr::Case {
                arg: match arg {
                    Some(arg) => Some(self.boxed(arg)?),
                    None => None,
                },
                whens: whens
                    .iter()
                    .map(|(when, then)| Some((self.program(when)?, self.program(then)?)))
                    .collect::<Option<_>>()?,
                otherwise: self.boxed(otherwise)?,
            },
            CExpr::CaseArg => CExpr::CaseArg,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kilndb_types::{Datum, oids};

    #[test]
    fn parameters_become_slots() {
        let sum = CExpr::Coalesce(Box::new([CExpr::Param(1), CExpr::Const(Datum::Int4(7)), CExpr::Param(0)]));
        let once = CExpr::Once { index: 0, arg: Box::new(sum) };
        let Some(CExpr::Coalesce(list)) = once.over_slots(&[4, 9]) else { panic!("a program of values") };
        assert!(matches!(&list[..], [CExpr::Slot(9), CExpr::Const(Datum::Int4(7)), CExpr::Slot(4)]));
    }

    #[test]
    fn what_depends_on_more_is_none() {
        assert!(CExpr::Param(1).over_slots(&[4]).is_none(), "a parameter that is no variable");
        assert!(CExpr::Slot(0).over_slots(&[4]).is_none(), "a column of another row");
        let by_catalogs = |from, to| {
            let arg = Box::new(CExpr::Param(0));
            CExpr::InOut { from, to, typmod: -1, explicit: true, arg }.over_slots(&[4])
        };
        assert!(by_catalogs(oids::TEXT, oids::INT4).is_some());
        assert!(by_catalogs(oids::TEXT, oids::REGTYPE).is_none(), "names are looked up");
    }
}
