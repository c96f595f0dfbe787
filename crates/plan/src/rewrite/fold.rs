//! Constant folding: PostgreSQL's eval_const_expressions.
//!
//! An error while something is evaluated leaves it as it is. A call of a function that is not immutable is never
//! evaluated, but gives NULL if the function is strict and an argument is NULL.

use super::super::compile::Layout;
use super::super::expression::CExpr;
use super::*;
use kilndb_base::hash::HashSet;
use kilndb_catalog::builtin::FIRST_USER_OID;
use kilndb_catalog::value_host::with_context;
use kilndb_types::functions::{self, descriptor::Support};
use kilndb_types::{Datum, cast, oids};

/// The function of `boolean = boolean`.
const BOOL_EQ: u32 = 60;
/// The function of `boolean <> boolean`.
const BOOL_NE: u32 = 84;

fn as_bool(e: &Expr) -> Option<bool> {
    match e.as_const() {
        Some(Datum::Bool(b)) => Some(*b),
        _ => None,
    }
}

fn is_null(e: &Expr) -> bool {
    e.as_const().is_some_and(Datum::is_null)
}

/// Puts `by` in the place of `e`, whose type it has.
fn replace(e: &mut Expr, mut by: Expr) {
    // The modifier of a cast is what it does.
    let is_cast = match &by.kind {
        ExprKind::Cast { .. } => true,
        ExprKind::Func(f) => matches!(f.form, FuncForm::ImplicitCast | FuncForm::ExplicitCast),
        _ => false,
    };
    if !is_cast {
        by.typmod = e.typmod;
    }
    *e = by;
}

fn set_constant(e: &mut Expr, value: Datum) {
    e.kind = ExprKind::Const(value);
}

impl<'a> Rewriter<'a> {
    pub(super) fn fold(&self, e: &mut Expr) -> Result<()> {
        match &e.kind {
            ExprKind::Const(_) | ExprKind::Param(_) | ExprKind::Column(_) => return Ok(()),
            ExprKind::And(_) | ExprKind::Or(_) => return self.fold_list(e),
            ExprKind::Case { .. } => return self.fold_case(e),
            _ => {}
        }
        kilndb_base::stack::check()?;
        e.for_children_mut(&mut |c| self.fold(c))?;
        match &mut e.kind {
            ExprKind::SubLink(s) => self.level(&mut s.query),
            ExprKind::Func(_) => self.fold_call(e),
            ExprKind::Cast { .. } => self.fold_cast(e),
            ExprKind::Not(arg) => {
                let arg = std::mem::replace(&mut **arg, Expr::bool(true));
                let negated = self.negate(arg);
                replace(e, negated);
                Ok(())
            }
            ExprKind::IsNull { arg, negated } => {
                let is_row = arg.ty == oids::RECORD || arg.ty >= FIRST_USER_OID;
                if let Some(value) = arg.as_const()
                    && (value.is_null() || !is_row)
                {
                    let result = value.is_null() != *negated;
                    set_constant(e, Datum::Bool(result));
                }
                Ok(())
            }
            ExprKind::BoolTest { arg, test } => {
                if arg.as_const().is_some() {
                    let result = test.is_met_by(as_bool(arg));
                    set_constant(e, Datum::Bool(result));
                }
                Ok(())
            }
            ExprKind::IsDistinct { .. } => self.fold_distinct(e),
            ExprKind::Coalesce(_) => {
                fold_coalesce(e);
                Ok(())
            }
            ExprKind::Field { arg, index, .. } => {
                if let ExprKind::Row { fields, .. } = &mut arg.kind
                    && fields.get(*index).is_some_and(|f| f.ty == e.ty)
                {
                    let field = fields.swap_remove(*index);
                    replace(e, field);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// AND and OR.
    fn fold_list(&self, e: &mut Expr) -> Result<()> {
        kilndb_base::stack::check()?;
        let (ExprKind::And(list) | ExprKind::Or(list)) = &mut e.kind else { return Ok(()) };
        let list = std::mem::take(list);
        let is_and = matches!(e.kind, ExprKind::And(_));
        let mut kept = Vec::with_capacity(list.len());
        let mut has_null = false;
        for mut item in list {
            self.fold(&mut item)?;
            match &item.kind {
                ExprKind::Const(Datum::Bool(value)) if *value == is_and => {}
                ExprKind::Const(Datum::Bool(value)) => {
                    e.kind = ExprKind::Const(Datum::Bool(*value));
                    return Ok(());
                }
                ExprKind::Const(d) if d.is_null() => has_null = true,
                ExprKind::And(_) if is_and => kept.extend(into_list(item)),
                ExprKind::Or(_) if !is_and => kept.extend(into_list(item)),
                _ => kept.push(item),
            }
        }
        if has_null {
            kept.push(Expr::null(oids::BOOL));
        }
        match kept.len() {
            0 => set_constant(e, Datum::Bool(is_and)),
            1 => *e = kept.remove(0),
            _ => e.kind = if is_and { ExprKind::And(kept) } else { ExprKind::Or(kept) },
        }
        Ok(())
    }

    /// Branches that are never taken are not looked at.
    fn fold_case(&self, e: &mut Expr) -> Result<()> {
        kilndb_base::stack::check()?;
        let ExprKind::Case { arg, whens, otherwise } = &mut e.kind else { return Ok(()) };
        if let Some(a) = arg {
            self.fold(a)?;
        }
        let value = arg.take_if(|a| a.as_const().is_some());
        let mut kept = Vec::with_capacity(whens.len());
        for (mut when, mut then) in std::mem::take(whens) {
            if let Some(value) = &value {
                replace_case_argument(&mut when, value)?;
            }
            self.fold(&mut when)?;
            if when.as_const().is_some() && as_bool(&when) != Some(true) {
                continue;
            }
            if as_bool(&when) == Some(true) {
                *otherwise = Some(Box::new(then));
                break;
            }
            self.fold(&mut then)?;
            kept.push((when, then));
        }
        if let Some(otherwise) = otherwise {
            self.fold(otherwise)?;
        }
        if !kept.is_empty() {
            *whens = kept;
            return Ok(());
        }
        match otherwise.take() {
            Some(only) => replace(e, *only),
            None => set_constant(e, Datum::Null),
        }
        Ok(())
    }

    fn fold_call(&self, e: &mut Expr) -> Result<()> {
        let ExprKind::Func(f) = &mut e.kind else { return Ok(()) };
        if f.returns_set || e.ty == oids::RECORD || f.args.is_empty() {
            return Ok(());
        }
        if f.args.iter().all(|a| a.as_const().is_none()) {
            return Ok(());
        }
        let support = functions::support(f.oid);
        if f.strict && support != Support::WantsTypes && f.args.iter().any(is_null) {
            if !f.args.iter().any(Expr::has_srf) {
                set_constant(e, Datum::Null);
            }
            return Ok(());
        }
        if f.args.iter().all(|a| a.as_const().is_some()) {
            // The bits that are kept of a number depend on the length, which a cast around this one knows.
            let is_cut_later = e.ty == oids::BIT && f.form != FuncForm::Call;
            if f.volatility == b'i'
                && !is_cut_later
                && let Some(value) = self.evaluate(e)?
            {
                set_constant(e, value);
            }
            return Ok(());
        }
        if matches!(f.oid, BOOL_EQ | BOOL_NE)
            && let [l, r] = f.args.as_mut_slice()
            && let Some(constant) = as_bool(l).or(as_bool(r))
        {
            let other = std::mem::replace(if as_bool(l).is_some() { r } else { l }, Expr::bool(true));
            let is_itself = constant == (f.oid == BOOL_EQ);
            replace(e, if is_itself { other } else { self.negate(other) });
        }
        Ok(())
    }

    fn fold_cast(&self, e: &mut Expr) -> Result<()> {
        let ExprKind::Cast { arg, kind, .. } = &e.kind else { return Ok(()) };
        let Some(value) = arg.as_const() else { return Ok(()) };
        let may_fold = match kind {
            CastKind::Relabel | CastKind::Typmod => true,
            CastKind::InOut => {
                value.is_null()
                    || kilndb_types::context::is_self_contained(arg.ty)
                        && kilndb_types::context::is_self_contained(e.ty)
            }
            CastKind::Array => value.is_null(),
            CastKind::Row | CastKind::Domain => false,
        };
        let is_plain = e.ty < FIRST_USER_OID && arg.ty < FIRST_USER_OID;
        if !may_fold || !is_plain {
            return Ok(());
        }
        if value.is_null() {
            set_constant(e, Datum::Null);
        } else if let Some(value) = self.evaluate(e)? {
            set_constant(e, value);
        }
        Ok(())
    }

    /// `a IS DISTINCT FROM b` of constants.
    fn fold_distinct(&self, e: &mut Expr) -> Result<()> {
        let ExprKind::IsDistinct { eq, negated } = &e.kind else { return Ok(()) };
        let [l, r] = eq.args.as_slice() else { return Ok(()) };
        let (Some(a), Some(b)) = (l.as_const(), r.as_const()) else { return Ok(()) };
        let is_distinct = if a.is_null() || b.is_null() {
            a.is_null() != b.is_null()
        } else {
            let equal = Expr::new(ExprKind::Func(eq.clone()), oids::BOOL);
            match self.evaluate(&equal)? {
                Some(Datum::Bool(equal)) if eq.volatility == b'i' => !equal,
                _ => return Ok(()),
            }
        };
        let result = is_distinct != *negated;
        set_constant(e, Datum::Bool(result));
        Ok(())
    }

    /// The opposite of a condition, with NOT as far inside as it goes.
    fn negate(&self, e: Expr) -> Expr {
        let Expr { kind, ty, typmod, loc, collation } = e;
        let made = |kind| Expr { kind, ty, typmod, loc, collation };
        match kind {
            ExprKind::Const(Datum::Bool(value)) => made(ExprKind::Const(Datum::Bool(!value))),
            ExprKind::Const(Datum::Null) => made(ExprKind::Const(Datum::Null)),
            ExprKind::Not(inner) => *inner,
            ExprKind::And(list) => made(ExprKind::Or(list.into_iter().map(|x| self.negate(x)).collect())),
            ExprKind::Or(list) => made(ExprKind::And(list.into_iter().map(|x| self.negate(x)).collect())),
            ExprKind::IsNull { arg, negated } if !matches!(arg.kind, ExprKind::Row { .. }) && is_plain_type(arg.ty) => {
                made(ExprKind::IsNull { arg, negated: !negated })
            }
            ExprKind::BoolTest { arg, test } => made(ExprKind::BoolTest { arg, test: opposite(test) }),
            ExprKind::Func(mut f) => match self.negator(&f) {
                Some((operator, function, name)) => {
                    (f.operator, f.oid, f.name) = (operator, function, name);
                    made(ExprKind::Func(f))
                }
                None => made(ExprKind::Not(Box::new(made(ExprKind::Func(f))))),
            },
            ExprKind::ScalarArray { mut func, any } => match self.negator(&func) {
                Some((operator, function, name)) => {
                    (func.operator, func.oid, func.name) = (operator, function, name);
                    made(ExprKind::ScalarArray { func, any: !any })
                }
                None => made(ExprKind::Not(Box::new(made(ExprKind::ScalarArray { func, any })))),
            },
            kind => made(ExprKind::Not(Box::new(made(kind)))),
        }
    }

    /// The operator that says the opposite, its function and its name.
    fn negator(&self, f: &FuncExpr) -> Option<(u32, u32, Arc<str>)> {
        if f.operator == 0 {
            return None;
        }
        let negator = self.catalog.operator_by_oid(f.operator).ok()??.negator;
        // An extension's functions have numbers of this server's own.
        if negator == 0 || negator >= FIRST_USER_OID {
            return None;
        }
        let operator = self.catalog.operator_by_oid(negator).ok()??;
        Some((operator.oid, operator.function, operator.name.as_str().into()))
    }

    /// The value of a call or a cast of constants; None if it has none now.
    fn evaluate(&self, e: &Expr) -> Result<Option<Datum>> {
        let planner = self.evaluator.get_or_init(|| Planner {
            is_detached: true,
            ..Planner::new(self.catalog, self.engine, HashSet::default(), None)
        });
        let compiled = match planner.compile(e, &Layout::default()) {
            Ok(compiled) => compiled,
            Err(error) if error.is_interruption() => return Err(error),
            Err(_) => return Ok(None),
        };
        let value = with_context(self.catalog, |cx| match &compiled {
            CExpr::Const(value) => Some(Ok(value.clone())),
            CExpr::CompareInt { args, .. } => match (&e.kind, &**args) {
                (ExprKind::Func(f), [CExpr::Const(l), CExpr::Const(r)]) => {
                    functions::lookup(f.oid).map(|function| function(cx, &[l.clone(), r.clone()]))
                }
                _ => None,
            },
            CExpr::Cast { f, typmod, explicit, arg, .. } => match &**arg {
                CExpr::Const(value) => Some(f(value, *typmod, *explicit, cx)),
                _ => None,
            },
            CExpr::Typmod { ty, typmod, explicit, arg } => match &**arg {
                CExpr::Const(value) => Some(cast::apply_typmod(*ty, value.clone(), *typmod, *explicit)),
                _ => None,
            },
            CExpr::InOut { from, to, typmod, explicit, arg } => match &**arg {
                CExpr::Const(value) if *from != oids::UNKNOWN => {
                    Some(cast::cast_via_text(*from, *to, value, *typmod, *explicit, cx))
                }
                _ => None,
            },
            _ => None,
        });
        match value {
            Some(Ok(value)) => Ok(Some(value)),
            Some(Err(error)) if error.is_interruption() => Err(error),
            _ => Ok(None),
        }
    }
}

fn into_list(e: Expr) -> Vec<Expr> {
    match e.kind {
        ExprKind::And(list) | ExprKind::Or(list) => list,
        _ => vec![e],
    }
}

fn is_plain_type(ty: u32) -> bool {
    ty != oids::RECORD && ty < FIRST_USER_OID
}

fn opposite(test: BoolTestKind) -> BoolTestKind {
    match test {
        BoolTestKind::True => BoolTestKind::NotTrue,
        BoolTestKind::NotTrue => BoolTestKind::True,
        BoolTestKind::False => BoolTestKind::NotFalse,
        BoolTestKind::NotFalse => BoolTestKind::False,
        BoolTestKind::Unknown => BoolTestKind::NotUnknown,
        BoolTestKind::NotUnknown => BoolTestKind::Unknown,
    }
}

/// NULLs go, and with them what stands behind the first constant that is not NULL.
fn fold_coalesce(e: &mut Expr) {
    let ExprKind::Coalesce(list) = &mut e.kind else { return };
    list.retain(|x| !is_null(x));
    if let Some(last) = list.iter().position(|x| x.as_const().is_some()) {
        list.truncate(last + 1);
    }
    match list.as_mut_slice() {
        [] => set_constant(e, Datum::Null),
        [only] if only.ty == e.ty => {
            let only = std::mem::replace(only, Expr::bool(true));
            replace(e, only);
        }
        _ => {}
    }
}

/// Puts the argument of a CASE in the place of each use of it in a WHEN; a CASE inside has an argument of its own.
fn replace_case_argument(e: &mut Expr, value: &Expr) -> Result<()> {
    match &e.kind {
        ExprKind::CaseArg => {
            *e = value.clone();
            Ok(())
        }
        ExprKind::Case { arg: Some(_), .. } => Ok(()),
        _ => e.for_children_mut(&mut |c| replace_case_argument(c, value)),
    }
}
