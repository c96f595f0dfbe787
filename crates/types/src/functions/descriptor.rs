//! What a function is: one descriptor for each that is there, by the OID of pg_proc.
//!
//! `table.rs` has them all, written by `scripts/function-table.py` from pg_proc's facts and from the handlers that it
//! finds in the sources (docs/decisions/0040). Who plans a call asks for the descriptor once; a running statement calls
//! the handler.
//!
//! Must not know: what the session's functions do. It knows their numbers in the session's own table.

use super::ScalarFn;
use super::rows::RowsFn;
use super::table::DESCRIPTORS;
use crate::aggregates::AggregateFn;
use crate::vector::{self, VectorFn};
use kilndb_base::Oid;

pub struct FunctionDescriptor {
    /// The function's OID in pg_proc. Functions that syntax alone calls have one that pg_proc does not have.
    pub oid: Oid,
    pub name: &'static str,
    pub volatility: Volatility,
    /// A NULL among the arguments makes the result NULL without a call.
    pub strict: bool,
    pub kind: FunctionKind,
    pub support: Support,
    /// Computes the function for many rows at a time.
    pub vector: Option<VectorFn>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Volatility {
    Immutable,
    Stable,
    Volatile,
}

impl Volatility {
    /// pg_proc.provolatile.
    pub fn letter(self) -> u8 {
        match self {
            Volatility::Immutable => b'i',
            Volatility::Stable => b's',
            Volatility::Volatile => b'v',
        }
    }
}

/// Who computes a function, and with what.
#[derive(Clone, Copy)]
pub enum FunctionKind {
    /// The function computes its result from its arguments and the [`EvalContext`](crate::EvalContext) alone.
    Scalar(ScalarFn),
    /// The function makes a set from its arguments and the [`EvalContext`](crate::EvalContext) alone.
    Rows(RowsFn),
    Aggregate(AggregateFn),
    Window(WindowFunction),
    /// The session, by its own table.
    Session(SessionFunction),
    /// The session, and it returns a set.
    SessionRows(SessionFunction),
    /// A constructor of ranges: it is told the type ([`super::range::constructor`]).
    RangeConstructor,
    /// The function runs statements, or is a trigger: it is called as users' functions are.
    Routine,
    /// satisfies_hash_partition: the executor computes it.
    HashPartition,
    /// The binder replaces the call.
    Binder,
}

/// The number of a function in the session's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionFunction(pub u16);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowFunction {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    Ntile,
    Lag,
    LagWithOffset,
    LagWithOffsetAndDefault,
    Lead,
    LeadWithOffset,
    LeadWithOffsetAndDefault,
    FirstValue,
    LastValue,
    NthValue,
}

impl WindowFunction {
    /// first_value, last_value and nth_value look at the rows of the frame.
    pub fn uses_frame(self) -> bool {
        matches!(self, WindowFunction::FirstValue | WindowFunction::LastValue | WindowFunction::NthValue)
    }
}

/// What the binder and the planner know of a function beside its handler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Support {
    /// Nothing.
    Plain,
    /// A comparison of integers of any widths.
    CompareIntegers(IntOp),
    /// The function does arithmetic on two integers, of which the wider one has the width of the result.
    IntegerArithmetic(Arithmetic, IntWidth),
    /// The function makes an array of elements, of which a value alone does not tell the type.
    MakesArray,
    /// The function is called with one record of its arguments, which tells their types. The record's own type is
    /// ANYARRAY if the last argument is the array that VARIADIC was written before.
    WantsTypes,
    /// The function asks what time it is.
    Clock,
    /// The function is called immutable, but depends on the session's time zone.
    SessionZone,
    /// pg_typeof: the binder knows the answer.
    TypeOf,
    /// pg_collation_for: so it does here.
    CollationOf,
    /// Arguments of any type are taken, and are called with as text where a value does not tell its type: an array
    /// that comes all the same is the one that VARIADIC was written before, of which the elements are arguments.
    ShowsArguments,
    /// Values of domains come to it as such: it looks at the domains itself.
    SeesDomains,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntWidth {
    Int4,
    Int8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    Plus,
    Minus,
    Times,
    Divide,
    Modulo,
}

/// One row of the table.
pub(super) const fn f(
    oid: Oid,
    name: &'static str,
    volatility: Volatility,
    strict: bool,
    kind: FunctionKind,
    support: Support,
) -> FunctionDescriptor {
    FunctionDescriptor { oid, name, volatility, strict, kind, support, vector: vector::form(oid) }
}

/// The descriptor of a function by its OID; None: there is no such function in this build.
pub fn descriptor(oid: Oid) -> Option<&'static FunctionDescriptor> {
    let at = DESCRIPTORS.binary_search_by_key(&oid, |d| d.oid).ok()?;
    DESCRIPTORS.get(at)
}

/// All, by OID.
pub fn descriptors() -> &'static [FunctionDescriptor] {
    &DESCRIPTORS
}

/// What runs a scalar function; None: it is none.
pub fn lookup(oid: Oid) -> Option<ScalarFn> {
    match descriptor(oid)?.kind {
        FunctionKind::Scalar(function) => Some(function),
        _ => None,
    }
}

/// What gathers an aggregate's rows; None: there is no such aggregate.
pub fn aggregate(oid: Oid) -> Option<AggregateFn> {
    match descriptor(oid)?.kind {
        FunctionKind::Aggregate(make) => Some(make),
        _ => None,
    }
}

/// Whether a function is called as users' functions are.
pub fn is_routine(oid: Oid) -> bool {
    descriptor(oid).is_some_and(|d| matches!(d.kind, FunctionKind::Routine))
}

/// What is known of a function beside its handler; of users' functions nothing is.
pub fn support(oid: Oid) -> Support {
    descriptor(oid).map_or(Support::Plain, |d| d.support)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_found_by_their_oids() {
        assert!(DESCRIPTORS.is_sorted_by(|a, b| a.oid < b.oid), "two functions have one OID");
        for d in descriptors() {
            assert!(descriptor(d.oid).is_some_and(|found| std::ptr::eq(found, d)), "{}", d.name);
        }
        assert!(descriptor(Oid::MAX).is_none());
        assert!(lookup(177).is_some(), "int4pl");
        assert!(lookup(2803).is_none() && aggregate(2803).is_some(), "count(*)");
        assert_eq!(support(177), Support::IntegerArithmetic(Arithmetic::Plus, IntWidth::Int4));
    }
}
