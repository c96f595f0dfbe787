//! Aggregate functions by pg_proc OID.
use crate::{Datum, EvalContext};
use kilndb_base::{Oid, Result};

pub trait Accumulator: Send {
    /// One row's arguments; NULLs are passed through.
    fn add(&mut self, args: &[Datum], ctx: &EvalContext) -> Result<()>;
    fn finish(&mut self, ctx: &EvalContext) -> Result<Datum>;
    /// `count` rows with no arguments, for count(*).
    fn add_rows(&mut self, count: u64) -> bool {
        let _ = count;
        false
    }
}

pub fn lookup_aggregate(proc_oid: Oid) -> Option<fn() -> Box<dyn Accumulator>> {
    let _ = proc_oid;
    None
}
/// For aggregates whose state depends on the argument types (array_agg, min(anyarray) …). Falls back to
/// [`lookup_aggregate`].
pub fn new_with_types(proc_oid: Oid, arg_types: &[Oid]) -> Option<Box<dyn Accumulator>> {
    let _ = arg_types;
    lookup_aggregate(proc_oid).map(|make| make())
}
