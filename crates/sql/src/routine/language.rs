//! What a procedural language is: it checks and compiles bodies, and what it has compiled can be called.

use super::spi::Spi;
pub use crate::host::routine_definition::{Definition, RoutineKind, TriggerTable, Volatility};
use kilndb_base::{Oid, Result};
pub use kilndb_catalog::routine::{Argument, ArgumentMode, RowColumn, TupleDescriptor};
pub use kilndb_catalog::trigger::TriggerOperation;
pub use kilndb_exec::routine::ResultRows;
use kilndb_types::Datum;
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TriggerTime {
    Before,
    After,
    InsteadOf,
}

/// What a trigger function is told of its event.
#[derive(Clone, Debug)]
pub struct TriggerEvent<'c> {
    pub trigger_name: &'c str,
    pub time: TriggerTime,
    pub for_each_row: bool,
    pub operation: TriggerOperation,
    pub table_oid: Oid,
    pub table_name: &'c str,
    pub table_schema: &'c str,
    pub arguments: &'c [String],
    /// Records of the table's row type.
    pub old: Option<Datum>,
    pub new: Option<Datum>,
    /// Names of the transition tables that the trigger has asked for; statements of the function find them as
    /// relations.
    pub old_table: Option<&'c str>,
    pub new_table: Option<&'c str>,
}

/// One call.
pub struct Call<'c> {
    pub definition: &'c Definition,
    /// Values of the input arguments ([`Definition::inputs`]), of the declared types.
    pub arguments: &'c [Datum],
    /// The row that the caller wants of a routine that returns RECORD (column definition list, INTO …).
    pub expected: Option<&'c TupleDescriptor>,
    /// Where rows go if the routine returns a set.
    pub rows: Option<&'c mut dyn ResultRows>,
    pub trigger: Option<&'c TriggerEvent<'c>>,
    /// COMMIT and ROLLBACK are refused.
    pub atomic: bool,
}

/// A language in which bodies of routines are written. Shared by all sessions.
pub trait ProceduralLanguage: Send + Sync {
    fn name(&self) -> &'static str;
    /// What CREATE FUNCTION checks: unless check_function_bodies is off, that the body can be compiled; and what the
    /// language cannot do (argument and result types).
    fn validate(&self, definition: &Definition, spi: &mut Spi<'_>) -> Result<()>;
    fn compile(&self, definition: &Arc<Definition>, spi: &mut Spi<'_>) -> Result<Arc<dyn CompiledRoutine>>;
}

/// Read-only; shared by the sessions that call it.
pub trait CompiledRoutine: Send + Sync {
    /// Asked when the catalogs have changed, though not the definition: are the types that it was compiled with as they
    /// were?
    fn is_current(&self, spi: &mut Spi<'_>) -> Result<bool> {
        let _ = spi;
        Ok(true)
    }
    /// The result. A row is a [`Datum::Record`] with the fields of [`Definition::row`] (or [`Call::expected`]). Of a
    /// procedure: a record of the output arguments, NULL if there are none. Of a set: nothing ([`Call::rows`] has taken
    /// them). Of a trigger: the row to go on with, or NULL.
    fn call(&self, call: &mut Call<'_>, spi: &mut Spi<'_>) -> Result<Datum>;
}
