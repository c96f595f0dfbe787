//! What operations make of values: the meaning of a step of a program, for one row.
//!
//! Must not know: where the values come from, and whether the row is one of many.

use super::context::ExecContext;
use super::{arrays, partition, routine, sqlvalue};
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_plan::expression::{compare_int, int_of};
use kilndb_plan::operation::{DomainCheck, Operation, RowType, SubscriptBounds};
use kilndb_types::functions::json;
use kilndb_types::{Array, Datum, EvalContext, Record, cast, io, key, oids};
use std::cmp::Ordering;
use std::sync::Arc;

/// The result of an operation that [only looks at its value](Operation::looks_at_one).
pub(crate) fn of_one(operation: &Operation, a: &Datum, eval: &EvalContext<'_>) -> Result<Datum> {
    match operation {
        Operation::IsRowNull { negated } => Ok(Datum::Bool(match a {
            Datum::Record(r) => r.fields.iter().all(|f| f.1.is_null() != *negated),
            value => value.is_null() != *negated,
        })),
        Operation::Scalar(call) if !call.strict => (call.f)(eval, std::slice::from_ref(a)),
        _ if a.is_null() => Ok(Datum::Null),
        Operation::Scalar(call) => (call.f)(eval, std::slice::from_ref(a)),
        Operation::Cast { f, typmod, explicit, .. } => f(a, *typmod, *explicit, eval),
        Operation::InOut { from, to, typmod, explicit, .. } => match (*from, a) {
            (oids::UNKNOWN, Datum::Text(text)) => io::input(*to, text, *typmod, eval),
            _ => cast::cast_via_text(*from, *to, a, *typmod, *explicit, eval),
        },
        Operation::Field { index } => Ok(match a {
            Datum::Record(r) => r.fields.get(*index).map(|f| f.1.clone()).unwrap_or_default(),
            _ => Datum::Null,
        }),
        _ => Err(Error::internal("an operation that wants more than to look at a value")),
    }
}

/// The result of an operation, which may take the values away; of one that runs no program.
pub(crate) fn apply(operation: &Operation, args: &mut [Datum], cx: &mut ExecContext<'_>) -> Result<Datum> {
    if operation.is_strict() && args.iter().any(Datum::is_null) {
        return Ok(Datum::Null);
    }
    if let [a] = args
        && operation.looks_at_one()
    {
        return of_one(operation, a, &cx.eval);
    }
    match operation {
        Operation::Scalar(call) => (call.f)(&cx.eval, args),
        Operation::CompareInt(op) => Ok(match (args.first().and_then(int_of), args.get(1).and_then(int_of)) {
            (Some(l), Some(r)) => Datum::Bool(compare_int(*op, l, r)),
            _ => Datum::Null,
        }),
        Operation::Arithmetic { op, wide, f } => match (args.first().and_then(int_of), args.get(1).and_then(int_of)) {
            (Some(l), Some(r)) => op.of(*wide, l, r, *f, &cx.eval),
            _ => Ok(Datum::Null),
        },
        Operation::Typmod { ty, typmod, explicit } => cast::apply_typmod(*ty, first(args), *typmod, *explicit),
        Operation::Session { function, name, .. } => match *function {
            Some(function) => cx.call_env(|session, env| session.call_function(function, args, env)),
            None => Err(Error::unsupported(format!("function {name} is not supported"))),
        },
        Operation::Routine(call) => routine::call(call, args, cx),
        Operation::SatisfiesHash { types, variadic } => partition::satisfies(args, (types, *variadic), cx),
        Operation::SqlValue(value) => sqlvalue::value(*value, cx),
        Operation::DomainNotNull { name } if args.first().is_none_or(Datum::is_null) => {
            Err(Error::new(sqlstate::NOT_NULL_VIOLATION, format!("domain {name} does not allow null values")))
        }
        Operation::DomainNotNull { .. } => Ok(first(args)),
        Operation::DomainCheck(domain) => match args.first() {
            Some(Datum::Bool(false)) => {
                let DomainCheck { domain, check } = &**domain;
                let message = format!("value for domain {domain} violates check constraint \"{check}\"");
                Err(Error::new(sqlstate::CHECK_VIOLATION, message).with_constraint(check))
            }
            _ => Ok(Datum::Null),
        },
        other => compared(other, args, cx),
    }
}

/// The first value, taken away.
fn first(args: &mut [Datum]) -> Datum {
    args.first_mut().map(std::mem::take).unwrap_or_default()
}

/// How two values that are there are ordered ([`Operation::Order`]).
pub(crate) fn order(ty: Oid, l: &Datum, r: &Datum) -> Datum {
    Datum::Int4(key::compare(ty, l, r) as i32)
}

/// Operations that compare values with each other.
fn compared(operation: &Operation, args: &mut [Datum], cx: &ExecContext<'_>) -> Result<Datum> {
    match operation {
        Operation::IsDistinct { eq, negated } => {
            let is_distinct = match args {
                [l, r] if l.is_null() || r.is_null() => l.is_null() != r.is_null(),
                args => !matches!(eq(&cx.eval, args)?, Datum::Bool(true)),
            };
            Ok(Datum::Bool(is_distinct != *negated))
        }
        Operation::NullIf { eq } => {
            let is_equal = !args.iter().any(Datum::is_null) && matches!(eq(&cx.eval, args)?, Datum::Bool(true));
            Ok(if is_equal { Datum::Null } else { first(args) })
        }
        Operation::MinMax { ty, greatest } => {
            let wanted = if *greatest { Ordering::Greater } else { Ordering::Less };
            let mut best = Datum::Null;
            for value in args.iter_mut().filter(|value| !value.is_null()) {
                if best.is_null() || key::compare(*ty, value, &best) == wanted {
                    best = std::mem::take(value);
                }
            }
            Ok(best)
        }
        Operation::Order { ty } => {
            let [l, r] = args else { return Ok(Datum::Null) };
            Ok(order(*ty, l, r))
        }
        Operation::ScalarArray { call, any } => {
            let [x, list] = args else { return Ok(Datum::Null) };
            arrays::scalar_array(call.f, call.strict, *any, std::mem::take(x), list, cx)
        }
        other => composed(other, args, cx),
    }
}

/// Operations that make values with parts, or take them apart.
fn composed(operation: &Operation, args: &mut [Datum], cx: &ExecContext<'_>) -> Result<Datum> {
    match operation {
        Operation::Array { element, multidim: true } => arrays::join(*element, args),
        Operation::Array { element, .. } => {
            Ok(kilndb_catalog::store::array(*element, args.iter_mut().map(std::mem::take).collect()))
        }
        Operation::Row(row) => {
            let RowType { ty, types, names } = &**row;
            let fields = types.iter().zip(args).map(|(ty, value)| (*ty, std::mem::take(value))).collect();
            Ok(Datum::Record(Arc::new(Record { type_oid: *ty, fields, names: names.clone() })))
        }
        Operation::FieldAssign { ty, types, index } => {
            let [row, value] = args else { return Ok(Datum::Null) };
            let mut fields = match row {
                Datum::Record(r) => r.fields.clone(),
                _ => types.iter().map(|ty| (*ty, Datum::Null)).collect(),
            };
            if let Some(field) = fields.get_mut(*index) {
                field.1 = std::mem::take(value);
            }
            Ok(Datum::Record(Arc::new(Record { type_oid: *ty, fields, names: None })))
        }
        Operation::Retag { ty } => Ok(match first(args) {
            Datum::Record(r) => {
                Datum::Record(Arc::new(Record { type_oid: *ty, fields: r.fields.clone(), names: r.names.clone() }))
            }
            other => other,
        }),
        Operation::RetagArray { element } => Ok(match first(args) {
            Datum::Array(mut a) if a.element_type != *element => {
                Arc::make_mut(&mut a).element_type = *element;
                Datum::Array(a)
            }
            other => other,
        }),
        Operation::ArrayCast { from, to, func, explicit } => of_elements(args, *to, |e| match (e, func) {
            (Datum::Null, _) => Ok(Datum::Null),
            (e, Some(f)) => f(e, -1, *explicit, &cx.eval),
            (e, None) => cast::cast_via_text(*from, *to, e, -1, *explicit, &cx.eval),
        }),
        Operation::ArrayTypmod { element, typmod, explicit } => of_elements(args, *element, |e| match e {
            Datum::Null => Ok(Datum::Null),
            e => cast::apply_typmod(*element, e.clone(), *typmod, *explicit),
        }),
        other => part(other, args),
    }
}

/// An array whose elements are made of another's.
pub(crate) fn of_elements(
    args: &mut [Datum],
    element_type: u32,
    f: impl FnMut(&Datum) -> Result<Datum>,
) -> Result<Datum> {
    let Some(Datum::Array(a)) = args.first() else { return Ok(first(args)) };
    let elements = a.elements.iter().map(f).collect::<Result<Vec<Datum>>>()?;
    Ok(Datum::Array(Arc::new(Array { element_type, dims: a.dims.clone(), elements })))
}

/// Operations on a part of a value: by subscripts or keys.
fn part(operation: &Operation, args: &mut [Datum]) -> Result<Datum> {
    match (operation, args) {
        (Operation::Subscript { bounds, slice }, [a, values @ ..]) => Ok(match slice_bounds(bounds, values) {
            Some(bounds) => arrays::subscript(a, &bounds, *slice),
            None => Datum::Null,
        }),
        (Operation::SubscriptAssign { element, bounds, slice }, [a, value, values @ ..]) => {
            let Some(bounds) = slice_bounds(bounds, values) else { return Err(null_subscript("array")) };
            arrays::assign(*element, std::mem::take(a), &bounds, *slice, std::mem::take(value))
        }
        (Operation::JsonSubscript, [a, steps @ ..]) => {
            match steps.iter().map(json::subscript_step).collect::<Option<Vec<String>>>() {
                Some(steps) => json::fetch(a, &steps),
                None => Ok(Datum::Null),
            }
        }
        (Operation::JsonSubscriptAssign, [a, value, steps @ ..]) => {
            let first_is_number = matches!(steps.first(), Some(Datum::Int4(_)));
            let steps: Vec<Option<String>> = steps.iter().map(json::subscript_step).collect();
            if steps.iter().any(Option::is_none) {
                return Err(null_subscript("jsonb"));
            }
            json::assign(a, &steps, first_is_number, value)
        }
        (Operation::KeySubscript(by), [a, key]) => (by.fetch)(a, key),
        (Operation::KeySubscriptAssign(by), [_, _, Datum::Null]) => Err(null_subscript(by.type_name)),
        (Operation::KeySubscriptAssign(by), [a, value, key]) => (by.assign)(a, key, value),
        _ => Err(Error::internal("an operation without its values")),
    }
}

fn null_subscript(of: &str) -> Error {
    let message = format!("{of} subscript in assignment must not be null");
    Error::new(sqlstate::NULL_VALUE_NOT_ALLOWED, message)
}

/// The bounds of subscripts, each lower one before its upper one; None: one of them is NULL.
fn slice_bounds(bounds: &[SubscriptBounds], values: &[Datum]) -> Option<Vec<(Option<i32>, Option<i32>)>> {
    let mut values = values.iter();
    let mut next = |has_one: bool| match (has_one, has_one.then(|| values.next()).flatten()) {
        (false, _) => Some(None),
        (true, Some(Datum::Int4(value))) => Some(Some(*value)),
        (true, _) => None,
    };
    bounds.iter().map(|b| Some((next(b.has_lower)?, next(b.has_upper)?))).collect()
}
