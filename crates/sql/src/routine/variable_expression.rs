//! Expressions over variables of any plain type, computed where the variables are: what [`super::integer_expression`] is for
//! integers.
//!
//! Invariants
//! 1. What is computed here is what the long way would have computed: the functions are the same, and so are their
//!    errors. Where a variable is no plain value, the long way is taken.
//! 2. An expression in here depends on nothing but its variables: on no catalog, session, clock or setting at the time
//!    it was made.

use super::integer_expression::VariableValues;
use super::spi::Variable;
use kilndb_base::{Error, Oid};
use kilndb_bind::ir;
use kilndb_bind::ir::{BoolTestKind, ExprKind};
use kilndb_plan::expression::{Arithmetic, CExpr, IntOp, compare_int, int_of};
use kilndb_types::context::is_self_contained;
use kilndb_types::functions::ScalarFn;
use kilndb_types::{Datum, EvalContext, cast};

#[derive(Clone)]
enum Operation {
    Const(Datum),
    Variable(u32),
    Call1 { f: ScalarFn, strict: bool, arg: Box<Operation> },
    Call2 { f: ScalarFn, strict: bool, args: Box<[Operation; 2]> },
    Call { f: ScalarFn, strict: bool, args: Box<[Operation]> },
    CompareInt { op: IntOp, args: Box<[Operation; 2]> },
    Arithmetic { op: Arithmetic, wide: bool, f: ScalarFn, args: Box<[Operation; 2]> },
    Cast { f: cast::CastFn, typmod: i32, explicit: bool, arg: Box<Operation> },
    InOut { from: Oid, to: Oid, typmod: i32, explicit: bool, arg: Box<Operation> },
    Typmod { ty: Oid, typmod: i32, explicit: bool, arg: Box<Operation> },
    And(Box<[Operation]>),
    Or(Box<[Operation]>),
    Not(Box<Operation>),
    IsNull { negated: bool, arg: Box<Operation> },
    IsTrue { wanted: Option<bool>, negated: bool, arg: Box<Operation> },
    Coalesce(Box<[Operation]>),
    Case { whens: Box<[(Operation, Operation)]>, otherwise: Box<Operation> },
}

/// A compiled expression over variables, and the type of its value.
#[derive(Clone)]
pub struct VariableExpression {
    node: Operation,
    type_oid: Oid,
    typmod: i32,
}

/// Why there is no value.
pub(crate) enum Stop {
    LongWay,
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(e: Error) -> Stop {
        Stop::Failed(e)
    }
}

type Computed<T> = Result<T, Stop>;

/// Text of a constant that was read with the session's settings may mean something else in another session.
pub(crate) fn has_constants_of_settings(e: &ir::Expr) -> bool {
    e.any(&|e| matches!(e.kind, ExprKind::Const(_)) && !is_self_contained(e.ty))
}

impl VariableExpression {
    /// None: it takes more than that. `uses`: the variables that parameters stand for. The expression must be
    /// self-contained.
    pub(crate) fn of(e: &CExpr, uses: &[Variable], type_oid: Oid, typmod: i32) -> Option<VariableExpression> {
        Some(VariableExpression { node: Operation::of(e, uses)?, type_oid, typmod })
    }
    pub fn type_oid(&self) -> Oid {
        self.type_oid
    }
    pub fn typmod(&self) -> i32 {
        self.typmod
    }
    pub(crate) fn evaluate(&self, values: &impl VariableValues, cx: &EvalContext<'_>) -> Computed<Datum> {
        self.node.eval(values, cx)
    }
}

impl Operation {
    fn of(e: &CExpr, uses: &[Variable]) -> Option<Operation> {
        let boxed = |e: &CExpr| Operation::of(e, uses).map(Box::new);
        let list = |l: &[CExpr]| l.iter().map(|e| Operation::of(e, uses)).collect::<Option<Box<[Operation]>>>();
        let pair = |args: &[CExpr; 2]| Some(Box::new([Operation::of(&args[0], uses)?, Operation::of(&args[1], uses)?]));
        Some(match e {
            CExpr::Const(d) => Operation::Const(d.clone()),
            CExpr::Param(n) => Operation::Variable(uses.get(*n)?.number),
            CExpr::Call1 { call, arg } => Operation::Call1 { f: call.f, strict: call.strict, arg: boxed(arg)? },
            CExpr::Call2 { call, args } => Operation::Call2 { f: call.f, strict: call.strict, args: pair(args)? },
            CExpr::Call { call, args } => Operation::Call { f: call.f, strict: call.strict, args: list(args)? },
            CExpr::CompareInt { op, args } => Operation::CompareInt { op: *op, args: pair(args)? },
            CExpr::Arithmetic { op, wide, f, args } => {
                Operation::Arithmetic { op: *op, wide: *wide, f: *f, args: pair(args)? }
            }
            CExpr::Cast { f, typmod, explicit, arg, .. } => {
                Operation::Cast { f: *f, typmod: *typmod, explicit: *explicit, arg: boxed(arg)? }
            }
            CExpr::InOut { from, to, typmod, explicit, arg } if is_self_contained(*from) && is_self_contained(*to) => {
                Operation::InOut { from: *from, to: *to, typmod: *typmod, explicit: *explicit, arg: boxed(arg)? }
            }
            CExpr::Typmod { ty, typmod, explicit, arg } => {
                Operation::Typmod { ty: *ty, typmod: *typmod, explicit: *explicit, arg: boxed(arg)? }
            }
            // A variable may have another value each time.
            CExpr::Once { arg, .. } => return Operation::of(arg, uses),
            CExpr::And(args) => Operation::And(list(args)?),
            CExpr::Or(args) => Operation::Or(list(args)?),
            CExpr::Not(arg) => Operation::Not(boxed(arg)?),
            CExpr::IsNull { arg, negated, row: false } => Operation::IsNull { negated: *negated, arg: boxed(arg)? },
            CExpr::BoolTest { arg, test } => {
                let (wanted, negated) = match test {
                    BoolTestKind::True => (Some(true), false),
                    BoolTestKind::NotTrue => (Some(true), true),
                    BoolTestKind::False => (Some(false), false),
                    BoolTestKind::NotFalse => (Some(false), true),
                    BoolTestKind::Unknown => (None, false),
                    BoolTestKind::NotUnknown => (None, true),
                };
                Operation::IsTrue { wanted, negated, arg: boxed(arg)? }
            }
            CExpr::Coalesce(args) => Operation::Coalesce(list(args)?),
            CExpr::Case { arg: None, whens, otherwise } => {
                let whens = whens
                    .iter()
                    .map(|(when, then)| Some((Operation::of(when, uses)?, Operation::of(then, uses)?)))
                    .collect::<Option<_>>()?;
                Operation::Case { whens, otherwise: boxed(otherwise)? }
            }
            _ => return None,
        })
    }

    /// The value if it is there already.
    #[inline]
    fn held<'v>(&'v self, values: &'v impl VariableValues) -> Computed<Option<&'v Datum>> {
        match self {
            Operation::Variable(n) => values.scalar(*n).map(Some).ok_or(Stop::LongWay),
            Operation::Const(d) => Ok(Some(d)),
            _ => Ok(None),
        }
    }

    fn int(&self, values: &impl VariableValues, cx: &EvalContext<'_>) -> Computed<Option<i64>> {
        match self.held(values)? {
            Some(d) => Ok(int_of(d)),
            None => Ok(int_of(&self.eval(values, cx)?)),
        }
    }

    fn truth(&self, values: &impl VariableValues, cx: &EvalContext<'_>) -> Computed<Option<bool>> {
        let of = |d: &Datum| if let Datum::Bool(b) = d { Some(*b) } else { None };
        match self.held(values)? {
            Some(d) => Ok(of(d)),
            None => Ok(of(&self.eval(values, cx)?)),
        }
    }

    /// What a function of one argument makes of it.
    #[inline]
    fn with<R>(
        &self,
        values: &impl VariableValues,
        cx: &EvalContext<'_>,
        f: impl FnOnce(&Datum) -> Computed<R>,
    ) -> Computed<R> {
        match self.held(values)? {
            Some(d) => f(d),
            None => f(&self.eval(values, cx)?),
        }
    }

    fn eval(&self, values: &impl VariableValues, cx: &EvalContext<'_>) -> Computed<Datum> {
        match self {
            Operation::Const(d) => Ok(d.clone()),
            Operation::Variable(n) => values.scalar(*n).cloned().ok_or(Stop::LongWay),
            Operation::Call1 { f, strict, arg } => arg.with(values, cx, |a| {
                if *strict && a.is_null() {
                    return Ok(Datum::Null);
                }
                Ok(f(cx, std::slice::from_ref(a))?)
            }),
            Operation::Call2 { f, strict, args } => {
                let a = [args[0].eval(values, cx)?, args[1].eval(values, cx)?];
                if *strict && (a[0].is_null() || a[1].is_null()) {
                    return Ok(Datum::Null);
                }
                Ok(f(cx, &a)?)
            }
            Operation::CompareInt { op, args } => Ok(match (args[0].int(values, cx)?, args[1].int(values, cx)?) {
                (Some(l), Some(r)) => Datum::Bool(compare_int(*op, l, r)),
                _ => Datum::Null,
            }),
            Operation::Arithmetic { op, wide, f, args } => {
                let (Some(l), Some(r)) = (args[0].int(values, cx)?, args[1].int(values, cx)?) else {
                    return Ok(Datum::Null);
                };
                Ok(op.of(*wide, l, r, *f, cx)?)
            }
            other => other.eval_more(values, cx),
        }
    }

    #[inline(never)]
    fn eval_more(&self, values: &impl VariableValues, cx: &EvalContext<'_>) -> Computed<Datum> {
        let unless_null = |arg: &Operation, f: &dyn Fn(&Datum) -> kilndb_base::Result<Datum>| {
            arg.with(values, cx, |a| if a.is_null() { Ok(Datum::Null) } else { Ok(f(a)?) })
        };
        match self {
            Operation::Call { f, strict, args } => {
                let args = args.iter().map(|a| a.eval(values, cx)).collect::<Computed<Vec<_>>>()?;
                if *strict && args.iter().any(Datum::is_null) { Ok(Datum::Null) } else { Ok(f(cx, &args)?) }
            }
            Operation::Cast { f, typmod, explicit, arg } => unless_null(arg, &|a| f(a, *typmod, *explicit, cx)),
            Operation::InOut { from, to, typmod, explicit, arg } => unless_null(arg, &|a| match (*from, a) {
                (kilndb_types::oids::UNKNOWN, Datum::Text(t)) => kilndb_types::io::input(*to, t, *typmod, cx),
                _ => cast::cast_via_text(*from, *to, a, *typmod, *explicit, cx),
            }),
            Operation::Typmod { ty, typmod, explicit, arg } => {
                unless_null(arg, &|a| cast::apply_typmod(*ty, a.clone(), *typmod, *explicit))
            }
            Operation::And(list) => Operation::combine(list, false, values, cx),
            Operation::Or(list) => Operation::combine(list, true, values, cx),
            Operation::Not(arg) => Ok(arg.truth(values, cx)?.map_or(Datum::Null, |v| Datum::Bool(!v))),
            Operation::IsNull { negated, arg } => arg.with(values, cx, |a| Ok(Datum::Bool(a.is_null() != *negated))),
            Operation::IsTrue { wanted, negated, arg } => {
                Ok(Datum::Bool((arg.truth(values, cx)? == *wanted) != *negated))
            }
            Operation::Coalesce(list) => {
                for e in list {
                    let v = e.eval(values, cx)?;
                    if !v.is_null() {
                        return Ok(v);
                    }
                }
                Ok(Datum::Null)
            }
            Operation::Case { whens, otherwise } => {
                for (when, then) in whens {
                    if when.truth(values, cx)? == Some(true) {
                        return then.eval(values, cx);
                    }
                }
                otherwise.eval(values, cx)
            }
            _ => Err(Stop::LongWay),
        }
    }

    /// AND, which `settled` = false settles; OR, which true does.
    fn combine(
        list: &[Operation],
        settled: bool,
        values: &impl VariableValues,
        cx: &EvalContext<'_>,
    ) -> Computed<Datum> {
        let mut null = false;
        for e in list {
            match e.truth(values, cx)? {
                Some(v) if v == settled => return Ok(Datum::Bool(settled)),
                None => null = true,
                _ => {}
            }
        }
        Ok(if null { Datum::Null } else { Datum::Bool(!settled) })
    }
}
