//! The session's own functions: those that are answered out of the session, its settings and the catalogs.
//!
//! A function is a row of `session_functions!` beside what it needs, one that returns a set a row of `session_rows!`. The
//! row's name is the function's in pg_proc, and stands for all functions of that name that nobody else computes;
//! `p<oid>_name` is that one alone. `scripts/function-table.py` gives them their numbers (`table.rs`,
//! docs/decisions/0040), by which plans call them.

mod table;

use super::StatementHost;
use super::arguments;
use kilndb_base::{Error, Oid, Result};
use kilndb_exec::CallEnv;
use kilndb_types::Datum;
use kilndb_types::functions::SessionFunction;

/// A call of a session function. An argument that is absent, or of another type than it is asked for, is empty, 0 or
/// false.
pub struct Call<'c, 'e> {
    pub host: &'c StatementHost<'c>,
    pub args: &'c [Datum],
    pub env: &'c mut CallEnv<'e>,
}

impl<'c> Call<'c, '_> {
    pub fn arg(&self, at: usize) -> Option<&'c Datum> {
        self.args.get(at)
    }
    pub fn text(&self, at: usize) -> String {
        arguments::text_of(self.arg(at))
    }
    pub fn oid(&self, at: usize) -> Oid {
        arguments::oid_of(self.arg(at))
    }
    pub fn int(&self, at: usize) -> i64 {
        arguments::int_of(self.arg(at))
    }
    pub fn flag(&self, at: usize) -> bool {
        arguments::bool_of(self.arg(at))
    }
}

pub(crate) type SessionFn = fn(&mut Call<'_, '_>) -> Result<Datum>;
pub(crate) type SessionRowsFn = fn(&mut Call<'_, '_>) -> Result<Vec<Vec<Datum>>>;

/// Defines functions of the session: `fn name(call) = result;`.
macro_rules! session_functions {
    ($( $(#[$doc:meta])* fn $name:ident($call:ident) = $body:expr; )*) => { $(
        $(#[$doc])*
        pub(crate) fn $name(
            $call: &mut $crate::host::session_function::Call<'_, '_>,
        ) -> kilndb_base::Result<kilndb_types::Datum> {
            $body
        }
    )* };
}
/// Defines functions of the session that return sets: `fn name(call) = rows;`.
macro_rules! session_rows {
    ($( $(#[$doc:meta])* fn $name:ident($call:ident) = $body:expr; )*) => { $(
        $(#[$doc])*
        pub(crate) fn $name(
            $call: &mut $crate::host::session_function::Call<'_, '_>,
        ) -> kilndb_base::Result<Vec<Vec<kilndb_types::Datum>>> {
            $body
        }
    )* };
}
pub(crate) use {session_functions, session_rows};

#[cold]
fn unknown(function: SessionFunction) -> Error {
    Error::internal(format!("the session has no function {}", function.0))
}

pub(super) fn call(function: SessionFunction, call: &mut Call<'_, '_>) -> Result<Datum> {
    let (_, handler) = table::FUNCTIONS.get(usize::from(function.0)).ok_or_else(|| unknown(function))?;
    handler(call)
}

pub(super) fn rows(function: SessionFunction, call: &mut Call<'_, '_>) -> Result<Vec<Vec<Datum>>> {
    let (_, handler) = table::ROWS.get(usize::from(function.0)).ok_or_else(|| unknown(function))?;
    handler(call)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kilndb_types::functions::FunctionKind;
    use kilndb_types::functions::descriptor::descriptors;

    #[test]
    fn descriptors_and_handlers_have_the_same_numbers() {
        let (mut functions, mut rows) = (0, 0);
        for d in descriptors() {
            let entry = match d.kind {
                FunctionKind::Session(n) => {
                    functions += 1;
                    table::FUNCTIONS.get(usize::from(n.0)).map(|(oid, _)| *oid)
                }
                FunctionKind::SessionRows(n) => {
                    rows += 1;
                    table::ROWS.get(usize::from(n.0)).map(|(oid, _)| *oid)
                }
                _ => continue,
            };
            assert_eq!(entry, Some(d.oid), "{}", d.name);
        }
        assert_eq!((functions, rows), (table::FUNCTIONS.len(), table::ROWS.len()));
    }
}
