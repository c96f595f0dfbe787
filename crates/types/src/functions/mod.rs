//! Functions and operators by pg_proc OID.
use crate::{Datum, EvalContext};
use kilndb_base::{Oid, Result};

pub type ScalarFn = fn(&EvalContext<'_>, &[Datum]) -> Result<Datum>;
pub struct Builtin {
    pub func: ScalarFn,
}

/// The function with this pg_proc OID. A strict one must never be called with a NULL.
pub fn lookup(proc_oid: Oid) -> Option<ScalarFn> {
    let _ = proc_oid;
    None
}
