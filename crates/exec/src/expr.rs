//! Evaluation of expression programs.

use super::context::{ExecContext, RunState};
use kilndb_base::{Error, Result, sqlstate};
use kilndb_bind::ir::{BoolTestKind, CompareKind};
use kilndb_plan::expression::*;
use kilndb_types::numeric::Numeric;
use kilndb_types::{Array, Datum, EvalContext, Record, cast, key, oids};
use std::cmp::Ordering;
use std::sync::Arc;

/// The value of the expression for a row.
pub trait Evaluate {
    /// Is the condition true for a row? NULL counts as not true.
    fn is_true(&self, row: &[Datum], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<bool>;
    /// As [`CExpr::eval`], to where the value belongs: that integers are handed on through memory costs more than to
    /// compute them.
    fn eval_into(&self, row: &[Datum], out: &mut Datum, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()>;
    fn eval(&self, row: &[Datum], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Datum>;
}

/// The parts of [`Evaluate::eval_into`] for some kinds of expressions.
trait EvaluateKinds {
    /// The value, if nothing has to be computed for it.
    fn held<'v>(&'v self, row: &'v [Datum], rt: &'v RunState) -> Option<&'v Datum>;
    /// What a function of one argument makes of the value, which is not copied for that if it is held.
    fn with(
        &self,
        row: &[Datum],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
        f: impl FnOnce(&Datum, &EvalContext<'_>) -> Result<Datum>,
    ) -> Result<Datum>;
    /// As [`Evaluate::eval_into`], to where NULL is.
    fn eval_argument(&self, row: &[Datum], out: &mut Datum, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()>;
    fn eval_int(&self, row: &[Datum], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Option<i64>>;
    /// An integer that takes nothing but integers to compute; None: it is NULL, out of range, or takes more.
    fn quick_int(&self, row: &[Datum], rt: &RunState) -> Option<i64>;
    fn eval_more(&self, row: &[Datum], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Datum>;
    fn eval_composite(&self, row: &[Datum], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Datum>;
}

/// What there is where a row or a list of parameters is shorter than a program believes.
static NULL: Datum = Datum::Null;

/// Copies a value piece by piece as it will be read: see [`Evaluate::eval_into`].
#[inline]
fn copy(from: &Datum, to: &mut Datum) {
    *to = match from {
        Datum::Int4(v) => Datum::Int4(*v),
        Datum::Int8(v) => Datum::Int8(*v),
        Datum::Text(v) => Datum::Text(v.clone()),
        Datum::Numeric(Numeric::Short(v)) => Datum::Numeric(Numeric::Short(*v)),
        other => other.clone(),
    };
}

/// The result, if both operands are quickly known and it is in range.
fn quick(op: Arithmetic, wide: bool, l: &CExpr, r: &CExpr, row: &[Datum], rt: &RunState) -> Option<i64> {
    let (l, r) = (l.quick_int(row, rt)?, r.quick_int(row, rt)?);
    if wide { op.of_int8(l, r) } else { op.of_int4(i32::try_from(l).ok()?, i32::try_from(r).ok()?).map(i64::from) }
}

impl Evaluate for CExpr {
    fn is_true(&self, row: &[Datum], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<bool> {
        match self {
            CExpr::CompareInt { op, args } => {
                let (l, r) = (args[0].eval_int(row, rt, cx)?, args[1].eval_int(row, rt, cx)?);
                Ok(matches!((l, r), (Some(l), Some(r)) if compare_int(*op, l, r)))
            }
            CExpr::And(list) => {
                for e in list {
                    if !e.is_true(row, rt, cx)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            other => Ok(matches!(other.eval(row, rt, cx)?, Datum::Bool(true))),
        }
    }

    #[inline]
    fn eval_into(&self, row: &[Datum], out: &mut Datum, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        if let CExpr::Arithmetic { op, wide, args, .. } = self
            && let Some(v) = quick(*op, *wide, &args[0], &args[1], row, rt)
        {
            if *wide {
                *out = Datum::Int8(v);
            } else {
                *out = Datum::Int4(v as i32);
            }
            return Ok(());
        }
        // The value is copied here because a `Result` on the way would be written in wide pieces and read in narrow
        // ones, which stalls processors.
        if let CExpr::Slot(i) = self {
            *out = row.get(*i).cloned().unwrap_or_default();
            return Ok(());
        }
        *out = self.eval(row, rt, cx)?;
        Ok(())
    }

    fn eval(&self, row: &[Datum], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Datum> {
        match self {
            CExpr::Slot(i) => Ok(row.get(*i).unwrap_or(&NULL).clone()),
            CExpr::Const(d) => Ok(d.clone()),
            CExpr::Param(i) => Ok(rt.params.get(*i).unwrap_or(&NULL).clone()),
            CExpr::ExecParam(i) => Ok(rt.exec_params.get(*i).unwrap_or(&NULL).clone()),
            CExpr::Call1 { call, arg } => {
                rt.pace.step(cx.park)?;
                arg.with(row, rt, cx, |a, eval| {
                    if call.strict && a.is_null() { Ok(Datum::Null) } else { (call.f)(eval, std::slice::from_ref(a)) }
                })
            }
            CExpr::Call2 { call, args } => {
                let mut a = [Datum::Null, Datum::Null];
                args[0].eval_argument(row, &mut a[0], rt, cx)?;
                args[1].eval_argument(row, &mut a[1], rt, cx)?;
                if call.strict && (a[0].is_null() || a[1].is_null()) {
                    return Ok(Datum::Null);
                }
                rt.pace.step(cx.park)?;
                (call.f)(&cx.eval, &a)
            }
            CExpr::CompareInt { op, args } => {
                let (l, r) = (args[0].eval_int(row, rt, cx)?, args[1].eval_int(row, rt, cx)?);
                Ok(match (l, r) {
                    (Some(l), Some(r)) => Datum::Bool(compare_int(*op, l, r)),
                    _ => Datum::Null,
                })
            }
            CExpr::Arithmetic { op, wide, f, args } => {
                let (l, r) = (args[0].eval_int(row, rt, cx)?, args[1].eval_int(row, rt, cx)?);
                let (Some(l), Some(r)) = (l, r) else { return Ok(Datum::Null) };
                op.of(*wide, l, r, *f, &cx.eval)
            }
            other => other.eval_more(row, rt, cx),
        }
    }
}

impl EvaluateKinds for CExpr {
    #[inline]
    fn held<'v>(&'v self, row: &'v [Datum], rt: &'v RunState) -> Option<&'v Datum> {
        match self {
            CExpr::Slot(i) => Some(row.get(*i).unwrap_or(&NULL)),
            CExpr::Const(d) => Some(d),
            CExpr::Param(i) => Some(rt.params.get(*i).unwrap_or(&NULL)),
            CExpr::ExecParam(i) => Some(rt.exec_params.get(*i).unwrap_or(&NULL)),
            _ => None,
        }
    }

    #[inline]
    fn with(
        &self,
        row: &[Datum],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
        f: impl FnOnce(&Datum, &EvalContext<'_>) -> Result<Datum>,
    ) -> Result<Datum> {
        match self.held(row, rt) {
            Some(d) => f(d, &cx.eval),
            // The value is looked at where it is: see `eval_into`.
            None => match self.eval(row, rt, cx) {
                Ok(ref d) => f(d, &cx.eval),
                failed => failed,
            },
        }
    }

    #[inline]
    fn eval_argument(&self, row: &[Datum], out: &mut Datum, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        match self.held(row, rt) {
            Some(d) => copy(d, out),
            None => *out = self.eval(row, rt, cx)?,
        }
        Ok(())
    }

    fn eval_int(&self, row: &[Datum], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Option<i64>> {
        match self.held(row, rt) {
            Some(d) => Ok(int_of(d)),
            None => match self.eval(row, rt, cx) {
                Ok(ref d) => Ok(int_of(d)),
                Err(e) => Err(e),
            },
        }
    }

    #[inline]
    fn quick_int(&self, row: &[Datum], rt: &RunState) -> Option<i64> {
        match self {
            CExpr::Slot(i) => row.get(*i).and_then(int_of),
            CExpr::Const(d) => int_of(d),
            CExpr::Param(i) => rt.params.get(*i).and_then(int_of),
            CExpr::Arithmetic { op, wide, args, .. } => quick(*op, *wide, &args[0], &args[1], row, rt),
            _ => None,
        }
    }

    #[inline(never)]
    fn eval_more(&self, row: &[Datum], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Datum> {
        rt.pace.step(cx.park)?;
        match self {
            CExpr::Call { call, args } => match eval_args(args, call.strict, row, rt, cx)? {
                Some(a) => (call.f)(&cx.eval, &a),
                None => Ok(Datum::Null),
            },
            CExpr::Session { function, name, strict, args } => {
                let Some(a) = eval_args(args, *strict, row, rt, cx)? else { return Ok(Datum::Null) };
                let Some(function) = *function else {
                    return Err(Error::unsupported(format!("function {name} is not supported")));
                };
                cx.call_env(|s, env| s.call_function(function, &a, env))
            }
            CExpr::Routine { call, args } => match eval_args(args, call.strict, row, rt, cx)? {
                Some(a) => super::routine::call(call, &a, cx),
                None => Ok(Datum::Null),
            },
            CExpr::SatisfiesHash { types, variadic, args } => {
                let args = eval_args(args, false, row, rt, cx)?.unwrap_or_default();
                super::partition::satisfies(&args, (types, *variadic), cx)
            }
            CExpr::Domain { name, not_null, checks, arg } => {
                let value = [arg.eval(row, rt, cx)?];
                if *not_null && value[0].is_null() {
                    return Err(Error::new(
                        sqlstate::NOT_NULL_VIOLATION,
                        format!("domain {name} does not allow null values"),
                    ));
                }
                for (check, condition) in checks {
                    if matches!(condition.eval(&value, rt, cx)?, Datum::Bool(false)) {
                        let message = format!("value for domain {name} violates check constraint \"{check}\"");
                        return Err(Error::new(sqlstate::CHECK_VIOLATION, message).with_constraint(check));
                    }
                }
                let [value] = value;
                Ok(value)
            }
            CExpr::ArrayMap { to, element, arg } => {
                let a = arg.eval(row, rt, cx)?;
                let Datum::Array(a) = &a else { return Ok(a) };
                let mut elements = Vec::with_capacity(a.elements.len());
                for e in &a.elements {
                    elements.push(element.eval(std::slice::from_ref(e), rt, cx)?);
                }
                Ok(Datum::Array(Arc::new(Array { element_type: *to, dims: a.dims.clone(), elements })))
            }
            CExpr::Cast { f, typmod, explicit, arg, .. } => {
                arg.with(
                    row,
                    rt,
                    cx,
                    |a, eval| {
                        if a.is_null() { Ok(Datum::Null) } else { f(a, *typmod, *explicit, eval) }
                    },
                )
            }
            CExpr::InOut { from, to, typmod, explicit, arg } => arg.with(row, rt, cx, |a, eval| match (*from, a) {
                (_, Datum::Null) => Ok(Datum::Null),
                (oids::UNKNOWN, Datum::Text(t)) => kilndb_types::io::input(*to, t, *typmod, eval),
                _ => cast::cast_via_text(*from, *to, a, *typmod, *explicit, eval),
            }),
            CExpr::Typmod { ty, typmod, explicit, arg } => {
                let a = arg.eval(row, rt, cx)?;
                if a.is_null() { Ok(a) } else { cast::apply_typmod(*ty, a, *typmod, *explicit) }
            }
            CExpr::ArrayCast { from, to, func, explicit, arg } => {
                let a = arg.eval(row, rt, cx)?;
                let Datum::Array(a) = &a else { return Ok(a) };
                let mut elements = Vec::with_capacity(a.elements.len());
                for e in &a.elements {
                    elements.push(match (e, func) {
                        (Datum::Null, _) => Datum::Null,
                        (e, Some(f)) => f(e, -1, *explicit, &cx.eval)?,
                        (e, None) => cast::cast_via_text(*from, *to, e, -1, *explicit, &cx.eval)?,
                    });
                }
                Ok(Datum::Array(Arc::new(Array { element_type: *to, dims: a.dims.clone(), elements })))
            }
            CExpr::ArrayTypmod { element, typmod, explicit, arg } => {
                let a = arg.eval(row, rt, cx)?;
                let Datum::Array(a) = &a else { return Ok(a) };
                let mut elements = Vec::with_capacity(a.elements.len());
                for e in &a.elements {
                    let e = e.clone();
                    elements.push(if e.is_null() { e } else { cast::apply_typmod(*element, e, *typmod, *explicit)? });
                }
                Ok(Datum::Array(Arc::new(Array { element_type: *element, dims: a.dims.clone(), elements })))
            }
            CExpr::RetagArray { element, arg } => Ok(match arg.eval(row, rt, cx)? {
                Datum::Array(mut a) if a.element_type != *element => {
                    Arc::make_mut(&mut a).element_type = *element;
                    Datum::Array(a)
                }
                other => other,
            }),
            CExpr::Retag { ty, arg } => Ok(match arg.eval(row, rt, cx)? {
                Datum::Record(r) => {
                    Datum::Record(Arc::new(Record { type_oid: *ty, fields: r.fields.clone(), names: r.names.clone() }))
                }
                other => other,
            }),
            CExpr::And(list) => {
                let mut null = false;
                for e in list {
                    match e.eval(row, rt, cx)? {
                        Datum::Bool(false) => return Ok(Datum::Bool(false)),
                        Datum::Null => null = true,
                        _ => {}
                    }
                }
                Ok(if null { Datum::Null } else { Datum::Bool(true) })
            }
            CExpr::Or(list) => {
                let mut null = false;
                for e in list {
                    match e.eval(row, rt, cx)? {
                        Datum::Bool(true) => return Ok(Datum::Bool(true)),
                        Datum::Null => null = true,
                        _ => {}
                    }
                }
                Ok(if null { Datum::Null } else { Datum::Bool(false) })
            }
            CExpr::Not(e) => Ok(match e.eval(row, rt, cx)? {
                Datum::Bool(b) => Datum::Bool(!b),
                _ => Datum::Null,
            }),
            CExpr::IsNull { arg, negated, row: as_row } => arg.with(row, rt, cx, |a, _| {
                let result = match a {
                    Datum::Record(r) if *as_row => r.fields.iter().all(|f| f.1.is_null() != *negated),
                    d => d.is_null() != *negated,
                };
                Ok(Datum::Bool(result))
            }),
            CExpr::BoolTest { arg, test } => {
                let a = match arg.eval(row, rt, cx)? {
                    Datum::Bool(b) => Some(b),
                    _ => None,
                };
                use BoolTestKind as B;
                Ok(Datum::Bool(match test {
                    B::True => a == Some(true),
                    B::NotTrue => a != Some(true),
                    B::False => a == Some(false),
                    B::NotFalse => a != Some(false),
                    B::Unknown => a.is_none(),
                    B::NotUnknown => a.is_some(),
                }))
            }
            CExpr::IsDistinct { left, right, eq, negated } => {
                let a = [left.eval(row, rt, cx)?, right.eval(row, rt, cx)?];
                let distinct = match (a[0].is_null(), a[1].is_null()) {
                    (true, true) => false,
                    (false, false) => !matches!(eq(&cx.eval, &a)?, Datum::Bool(true)),
                    _ => true,
                };
                Ok(Datum::Bool(distinct != *negated))
            }
            CExpr::NullIf { eq, args } => {
                let [x, y] = [args[0].eval(row, rt, cx)?, args[1].eval(row, rt, cx)?];
                if x.is_null() || y.is_null() {
                    return Ok(x);
                }
                let pair = [x, y];
                let equal = matches!(eq(&cx.eval, &pair)?, Datum::Bool(true));
                let [x, _] = pair;
                Ok(if equal { Datum::Null } else { x })
            }
            CExpr::Case { arg, whens, otherwise } => {
                if let Some(a) = arg {
                    let v = a.eval(row, rt, cx)?;
                    rt.case_args.push(v);
                }
                let mut chosen = None;
                for (when, then) in whens {
                    // Unlike a statement's condition, an AND in here goes on behind a NULL.
                    match when.eval(row, rt, cx) {
                        Ok(Datum::Bool(true)) => {
                            chosen = Some(then);
                            break;
                        }
                        Ok(_) => {}
                        Err(e) => {
                            if arg.is_some() {
                                rt.case_args.pop();
                            }
                            return Err(e);
                        }
                    }
                }
                if arg.is_some() {
                    rt.case_args.pop();
                }
                chosen.unwrap_or(otherwise).eval(row, rt, cx)
            }
            CExpr::CaseArg => Ok(rt.case_args.last().cloned().unwrap_or_default()),
            CExpr::Coalesce(list) => {
                for e in list {
                    let v = e.eval(row, rt, cx)?;
                    if !v.is_null() {
                        return Ok(v);
                    }
                }
                Ok(Datum::Null)
            }
            CExpr::MinMax { ty, greatest, args } => {
                let mut best = Datum::Null;
                for e in args {
                    let v = e.eval(row, rt, cx)?;
                    if v.is_null() {
                        continue;
                    }
                    let wanted = if *greatest { Ordering::Greater } else { Ordering::Less };
                    if best.is_null() || key::compare(*ty, &v, &best) == wanted {
                        best = v;
                    }
                }
                Ok(best)
            }
            CExpr::SqlValue(v) => super::sqlvalue::value(*v, cx),
            CExpr::Once { index, arg } => {
                if let Some(Some(v)) = rt.once.get(*index) {
                    return Ok(v.clone());
                }
                let v = arg.eval(row, rt, cx)?;
                if let Some(slot) = rt.once.get_mut(*index) {
                    *slot = Some(v.clone());
                }
                Ok(v)
            }
            CExpr::ScalarArray { call, any, args } => {
                let x = args[0].eval(row, rt, cx)?;
                let list = args[1].eval(row, rt, cx)?;
                super::arrays::scalar_array(call.f, call.strict, *any, x, &list, cx)
            }
            CExpr::InSet { ty, arg, set, has_null, negated } => {
                let x = arg.eval(row, rt, cx)?;
                if x.is_null() {
                    return Ok(Datum::Null);
                }
                let mut k = Vec::new();
                key::hash_equal_key(*ty, &x, &mut k)?;
                Ok(if set.contains(&k) {
                    Datum::Bool(!*negated)
                } else if *has_null {
                    Datum::Null
                } else {
                    Datum::Bool(*negated)
                })
            }
            CExpr::RowCompare(compared) => row_compare(compared, row, rt, cx),
            CExpr::SubPlan(s) => super::subplan::eval(s, row, rt, cx),
            other => other.eval_composite(row, rt, cx),
        }
    }

    #[inline(never)]
    fn eval_composite(&self, row: &[Datum], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Datum> {
        match self {
            CExpr::Array { element, multidim, args } => {
                let mut elements = Vec::with_capacity(args.len());
                for a in args {
                    elements.push(a.eval(row, rt, cx)?);
                }
                if *multidim {
                    super::arrays::join(*element, &elements)
                } else {
                    Ok(kilndb_catalog::store::array(*element, elements))
                }
            }
            CExpr::Row { ty, types, args, names } => {
                let mut fields = Vec::with_capacity(args.len());
                for (a, t) in args.iter().zip(types) {
                    fields.push((*t, a.eval(row, rt, cx)?));
                }
                Ok(Datum::Record(Arc::new(Record { type_oid: *ty, fields, names: names.clone() })))
            }
            CExpr::Field { index, arg } => Ok(match arg.eval(row, rt, cx)? {
                Datum::Record(r) => r.fields.get(*index).map(|f| f.1.clone()).unwrap_or_default(),
                _ => Datum::Null,
            }),
            CExpr::Subscript { arg, subs, slice } => {
                let a = arg.eval(row, rt, cx)?;
                if a.is_null() {
                    return Ok(a);
                }
                let Some(bounds) = subscripts(subs, row, rt, cx)? else { return Ok(Datum::Null) };
                Ok(super::arrays::subscript(&a, &bounds, *slice))
            }
            CExpr::JsonSubscript { arg, subs } => {
                let a = arg.eval(row, rt, cx)?;
                let steps: Option<Vec<String>> = json_steps(subs, row, rt, cx)?.0.into_iter().collect();
                match steps {
                    Some(steps) => kilndb_types::functions::json::fetch(&a, &steps),
                    None => Ok(Datum::Null),
                }
            }
            CExpr::JsonSubscriptAssign { arg, subs, value } => {
                let a = arg.eval(row, rt, cx)?;
                let v = value.eval(row, rt, cx)?;
                let (steps, first_is_number) = json_steps(subs, row, rt, cx)?;
                if steps.iter().any(Option::is_none) {
                    return Err(Error::new(
                        sqlstate::NULL_VALUE_NOT_ALLOWED,
                        "jsonb subscript in assignment must not be null",
                    ));
                }
                kilndb_types::functions::json::assign(&a, &steps, first_is_number, &v)
            }
            CExpr::KeySubscript { by, arg, key } => {
                let (a, key) = (arg.eval(row, rt, cx)?, key.eval(row, rt, cx)?);
                if a.is_null() || key.is_null() { Ok(Datum::Null) } else { (by.fetch)(&a, &key) }
            }
            CExpr::KeySubscriptAssign { by, arg, key, value } => {
                let (a, v) = (arg.eval(row, rt, cx)?, value.eval(row, rt, cx)?);
                let key = key.eval(row, rt, cx)?;
                if key.is_null() {
                    let message = format!("{} subscript in assignment must not be null", by.type_name);
                    return Err(Error::new(sqlstate::NULL_VALUE_NOT_ALLOWED, message));
                }
                (by.assign)(&a, &key, &v)
            }
            CExpr::SubscriptAssign { element, arg, subs, slice, value } => {
                let a = arg.eval(row, rt, cx)?;
                let v = value.eval(row, rt, cx)?;
                let Some(bounds) = subscripts(subs, row, rt, cx)? else {
                    return Err(Error::new(
                        sqlstate::NULL_VALUE_NOT_ALLOWED,
                        "array subscript in assignment must not be null",
                    ));
                };
                super::arrays::assign(*element, a, &bounds, *slice, v)
            }
            CExpr::FieldAssign { ty, types, index, arg, value } => {
                let a = arg.eval(row, rt, cx)?;
                let v = value.eval(row, rt, cx)?;
                let mut fields = match a {
                    Datum::Record(r) => r.fields.clone(),
                    _ => types.iter().map(|t| (*t, Datum::Null)).collect(),
                };
                if let Some(f) = fields.get_mut(*index) {
                    f.1 = v;
                }
                Ok(Datum::Record(Arc::new(Record { type_oid: *ty, fields, names: None })))
            }
            _ => Err(Error::internal("expression kind")),
        }
    }
}

/// Subscripts of jsonb as a path (None: NULL); is the first one a number?
fn json_steps(
    subs: &[CSubscript],
    row: &[Datum],
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<(Vec<Option<String>>, bool)> {
    let mut steps = Vec::with_capacity(subs.len());
    let mut first_is_number = false;
    for (i, s) in subs.iter().enumerate() {
        let d = match &s.upper {
            Some(e) => e.eval(row, rt, cx)?,
            None => Datum::Null,
        };
        first_is_number |= i == 0 && matches!(d, Datum::Int4(_));
        steps.push(kilndb_types::functions::json::subscript_step(&d));
    }
    Ok((steps, first_is_number))
}

type SliceBounds = Vec<(Option<i32>, Option<i32>)>;

/// The subscripts' values; None: one of them is NULL.
fn subscripts(
    subs: &[CSubscript],
    row: &[Datum],
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<Option<SliceBounds>> {
    let mut out = Vec::with_capacity(subs.len());
    for s in subs {
        let mut pair = [None, None];
        for (slot, e) in pair.iter_mut().zip([&s.lower, &s.upper]) {
            if let Some(e) = e {
                match e.eval(row, rt, cx)? {
                    Datum::Int4(v) => *slot = Some(v),
                    _ => return Ok(None),
                }
            }
        }
        out.push((pair[0], pair[1]));
    }
    Ok(Some(out))
}

/// None: strict, and an argument is NULL.
pub(crate) fn eval_args(
    args: &[CExpr],
    strict: bool,
    row: &[Datum],
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<Option<Vec<Datum>>> {
    let mut out = Vec::with_capacity(args.len());
    for a in args {
        let v = a.eval(row, rt, cx)?;
        if strict && v.is_null() {
            return Ok(None);
        }
        out.push(v);
    }
    Ok(Some(out))
}

fn row_compare(compared: &RowComparison, row: &[Datum], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Datum> {
    let RowComparison { kind, types, left, right } = compared;
    for ((l, r), ty) in left.iter().zip(right).zip(types) {
        let (a, b) = (l.eval(row, rt, cx)?, r.eval(row, rt, cx)?);
        if a.is_null() || b.is_null() {
            return Ok(Datum::Null);
        }
        let ordering = key::compare(*ty, &a, &b);
        if ordering != Ordering::Equal {
            let less = ordering == Ordering::Less;
            return Ok(Datum::Bool(match kind {
                CompareKind::Lt | CompareKind::Le => less,
                CompareKind::Gt | CompareKind::Ge => !less,
                CompareKind::Eq => false,
                CompareKind::Ne => true,
            }));
        }
    }
    Ok(Datum::Bool(matches!(kind, CompareKind::Le | CompareKind::Ge | CompareKind::Eq)))
}
