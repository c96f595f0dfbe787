//! What a step of a program makes of values ([`super::program`]).
//!
//! Must not know: how it is computed, which the executor knows.

use super::expression::{Arithmetic, CExpr, Expression, IntOp, RoutineCall, ScalarCall};
use kilndb_base::Oid;
use kilndb_base::sync::Arc;
use kilndb_bind::ir::SqlValue;
use kilndb_types::cast::CastFn;
use kilndb_types::functions::{ScalarFn, SessionFunction};
use kilndb_types::types::KeySubscript;
use kilndb_types::vector::VectorFn;

/// Which of its bounds a subscript has: `[lower:upper]`. Values stand for those that it has, the lower one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptBounds {
    pub has_lower: bool,
    pub has_upper: bool,
}

/// What a row is made of values as.
#[derive(Clone)]
pub struct RowType {
    pub ty: Oid,
    pub types: Box<[Oid]>,
    pub names: Option<Arc<[String]>>,
}

/// The names of a domain and of its condition.
#[derive(Clone)]
pub struct DomainCheck {
    pub domain: Arc<str>,
    pub check: String,
}

/// Makes one value of some. It is part of a step ([`super::program::STEP_BYTES`]).
#[derive(Clone)]
pub enum Operation {
    Scalar(ScalarCall),
    CompareInt(IntOp),
    /// An operation on two integers of the same type; `f` is called for others, and raises their errors.
    Arithmetic {
        op: Arithmetic,
        wide: bool,
        f: ScalarFn,
    },
    Cast {
        f: CastFn,
        typmod: i32,
        explicit: bool,
        vector: Option<VectorFn>,
    },
    /// A cast through the text form; from `unknown` the reading of a literal.
    InOut {
        from: Oid,
        to: Oid,
        typmod: i32,
        explicit: bool,
        vector: Option<VectorFn>,
    },
    /// A modifier applied to a value of its type.
    Typmod {
        ty: Oid,
        typmod: i32,
        explicit: bool,
    },
    /// `row IS [NOT] NULL`, of a value that may be a row.
    IsRowNull {
        negated: bool,
    },
    IsDistinct {
        eq: ScalarFn,
        negated: bool,
    },
    NullIf {
        eq: ScalarFn,
    },
    MinMax {
        ty: Oid,
        greatest: bool,
    },
    /// How two values are ordered: a number below 0, 0, or one above it.
    Order {
        ty: Oid,
    },
    /// A value compared with all elements of an array.
    ScalarArray {
        call: ScalarCall,
        any: bool,
    },
    Array {
        element: Oid,
        multidim: bool,
    },
    Row(Box<RowType>),
    Field {
        index: usize,
    },
    FieldAssign {
        ty: Oid,
        types: Box<[Oid]>,
        index: usize,
    },
    /// Of an array, then the bounds.
    Subscript {
        bounds: Box<[SubscriptBounds]>,
        slice: bool,
    },
    /// Of an array, the value, then the bounds.
    SubscriptAssign {
        element: Oid,
        bounds: Box<[SubscriptBounds]>,
        slice: bool,
    },
    /// Of a document, then the steps to its part.
    JsonSubscript,
    /// Of a document, the value, then the steps to its part.
    JsonSubscriptAssign,
    /// A part of a value that its type finds by a key.
    KeySubscript(&'static KeySubscript),
    /// Of the whole, the part's value, the key.
    KeySubscriptAssign(&'static KeySubscript),
    /// Casts each element of an array.
    ArrayCast {
        from: Oid,
        to: Oid,
        func: Option<CastFn>,
        explicit: bool,
    },
    ArrayTypmod {
        element: Oid,
        typmod: i32,
        explicit: bool,
    },
    /// Converts each element of an array by an expression over the element alone.
    ArrayMap {
        to: Oid,
        element: Arc<Expression>,
    },
    /// An array whose element type its function could not know.
    RetagArray {
        element: Oid,
    },
    /// Sets the type of a record.
    Retag {
        ty: Oid,
    },
    /// The value itself, which must not be NULL.
    DomainNotNull {
        name: Arc<str>,
    },
    /// The condition itself, which must not be false.
    DomainCheck(Box<DomainCheck>),
    SqlValue(SqlValue),
    /// None: there is no such function in this build, which a call tells.
    Session {
        function: Option<SessionFunction>,
        name: Arc<str>,
        strict: bool,
    },
    Routine(Arc<RoutineCall>),
    /// satisfies_hash_partition, with the types of its arguments.
    SatisfiesHash {
        types: Box<[Oid]>,
        variadic: bool,
    },
}

impl Operation {
    /// Is the result NULL if one of the values is?
    #[inline]
    pub fn is_strict(&self) -> bool {
        match self {
            Operation::Scalar(call) => call.strict,
            Operation::Session { strict, .. } => *strict,
            Operation::Routine(call) => call.strict,
            Operation::CompareInt(_)
            | Operation::Arithmetic { .. }
            | Operation::Cast { .. }
            | Operation::InOut { .. }
            | Operation::Typmod { .. }
            | Operation::Order { .. }
            | Operation::Field { .. }
            | Operation::Subscript { .. }
            | Operation::JsonSubscript
            | Operation::KeySubscript(_)
            | Operation::ArrayCast { .. }
            | Operation::ArrayTypmod { .. }
            | Operation::ArrayMap { .. }
            | Operation::RetagArray { .. }
            | Operation::Retag { .. } => true,
            _ => false,
        }
    }

    /// Does it only look at its value, if it has one, and at the settings of formats?
    pub fn looks_at_one(&self) -> bool {
        matches!(
            self,
            Operation::Scalar(_)
                | Operation::Cast { .. }
                | Operation::InOut { .. }
                | Operation::IsRowNull { .. }
                | Operation::Field { .. }
        )
    }

    /// May it take values away that it makes its result of?
    pub fn takes_values(&self) -> bool {
        !matches!(
            self,
            Operation::Scalar(_)
                | Operation::CompareInt(_)
                | Operation::Arithmetic { .. }
                | Operation::Cast { .. }
                | Operation::InOut { .. }
                | Operation::IsDistinct { .. }
                | Operation::Order { .. }
        )
    }

    /// May it be computed for rows in any order, and more than once? What is volatile, calls a routine or asks the session may
    /// not.
    pub fn is_pure(&self) -> bool {
        match self {
            Operation::Scalar(call) | Operation::ScalarArray { call, .. } => !call.is_volatile,
            Operation::ArrayMap { element, .. } => super::program::is_pure(element),
            Operation::SqlValue(_)
            | Operation::Session { .. }
            | Operation::Routine(_)
            | Operation::SatisfiesHash { .. } => false,
            _ => true,
        }
    }
}

/// An expression's operation and the values that it is computed from, if all of them are computed before it and it is not the
/// business of control flow.
pub(crate) fn operation_of(e: &CExpr) -> Option<(Operation, Vec<&CExpr>)> {
    Some(match e {
        CExpr::Call { call, args } => (Operation::Scalar(*call), args.iter().collect()),
        CExpr::Call1 { call, arg } => (Operation::Scalar(*call), vec![arg]),
        CExpr::Call2 { call, args } => (Operation::Scalar(*call), args.iter().collect()),
        CExpr::CompareInt { op, args } => (Operation::CompareInt(*op), args.iter().collect()),
        CExpr::Arithmetic { op, wide, f, args } => {
            (Operation::Arithmetic { op: *op, wide: *wide, f: *f }, args.iter().collect())
        }
        CExpr::Cast { f, typmod, explicit, vector, arg } => {
            (Operation::Cast { f: *f, typmod: *typmod, explicit: *explicit, vector: *vector }, vec![arg])
        }
        CExpr::InOut { from, to, typmod, explicit, arg } => {
            let vector = (*typmod < 0).then(|| kilndb_types::vector::conversion(*from, *to)).flatten();
            (Operation::InOut { from: *from, to: *to, typmod: *typmod, explicit: *explicit, vector }, vec![arg])
        }
        CExpr::Typmod { ty, typmod, explicit, arg } => {
            (Operation::Typmod { ty: *ty, typmod: *typmod, explicit: *explicit }, vec![arg])
        }
        CExpr::IsNull { arg, negated, row: true } => (Operation::IsRowNull { negated: *negated }, vec![arg]),
        CExpr::IsDistinct { left, right, eq, negated } => {
            (Operation::IsDistinct { eq: *eq, negated: *negated }, vec![left, right])
        }
        CExpr::NullIf { eq, args } => (Operation::NullIf { eq: *eq }, args.iter().collect()),
        CExpr::MinMax { ty, greatest, args } => {
            (Operation::MinMax { ty: *ty, greatest: *greatest }, args.iter().collect())
        }
        CExpr::ScalarArray { call, any, args } => {
            (Operation::ScalarArray { call: *call, any: *any }, args.iter().collect())
        }
        CExpr::SqlValue(value) => (Operation::SqlValue(*value), Vec::new()),
        CExpr::Session { function, name, strict, args } => {
            let operation = Operation::Session { function: *function, name: name.clone(), strict: *strict };
            (operation, args.iter().collect())
        }
        CExpr::Routine { call, args } => (Operation::Routine(call.clone()), args.iter().collect()),
        CExpr::SatisfiesHash { types, variadic, args } => {
            (Operation::SatisfiesHash { types: types.clone(), variadic: *variadic }, args.iter().collect())
        }
        other => return composite_operation(other),
    })
}

/// The same for rows, arrays and other values with parts.
fn composite_operation(e: &CExpr) -> Option<(Operation, Vec<&CExpr>)> {
    Some(match e {
        CExpr::Array { element, multidim, args } => {
            (Operation::Array { element: *element, multidim: *multidim }, args.iter().collect())
        }
        CExpr::Row { ty, types, args, names } => {
            let row = RowType { ty: *ty, types: types.clone(), names: names.clone() };
            (Operation::Row(Box::new(row)), args.iter().collect())
        }
        CExpr::Field { index, arg } => (Operation::Field { index: *index }, vec![arg]),
        CExpr::FieldAssign { ty, types, index, arg, value } => {
            (Operation::FieldAssign { ty: *ty, types: types.clone(), index: *index }, vec![arg, value])
        }
        CExpr::SubscriptAssign { element, arg, subs, slice, value } => {
            let bounds = super::program::bounds_of(subs);
            let operation = Operation::SubscriptAssign { element: *element, bounds, slice: *slice };
            let bounds = subs.iter().flat_map(|s| s.lower.iter().chain(&s.upper));
            (operation, [&**arg, &**value].into_iter().chain(bounds).collect())
        }
        CExpr::JsonSubscriptAssign { arg, subs, value } => {
            let steps = subs.iter().filter_map(|s| s.upper.as_ref());
            (Operation::JsonSubscriptAssign, [&**arg, &**value].into_iter().chain(steps).collect())
        }
        CExpr::KeySubscript { by, arg, key } => (Operation::KeySubscript(by), vec![arg, key]),
        CExpr::KeySubscriptAssign { by, arg, key, value } => (Operation::KeySubscriptAssign(by), vec![arg, value, key]),
        CExpr::ArrayCast { from, to, func, explicit, arg } => {
            (Operation::ArrayCast { from: *from, to: *to, func: *func, explicit: *explicit }, vec![arg])
        }
        CExpr::ArrayTypmod { element, typmod, explicit, arg } => {
            (Operation::ArrayTypmod { element: *element, typmod: *typmod, explicit: *explicit }, vec![arg])
        }
        CExpr::ArrayMap { to, element, arg } => {
            let element = Arc::new(Expression::from(CExpr::clone(element)));
            (Operation::ArrayMap { to: *to, element }, vec![arg])
        }
        CExpr::RetagArray { element, arg } => (Operation::RetagArray { element: *element }, vec![arg]),
        CExpr::Retag { ty, arg } => (Operation::Retag { ty: *ty }, vec![arg]),
        _ => return None,
    })
}
