//! What a routine may do in the session and transaction of its caller.
//!
//! Invariants
//! 1. A statement of a VOLATILE routine sees what the statements before it have done, and what others have committed
//!    since; one of a STABLE or IMMUTABLE routine sees what the calling statement sees, and may not write.
//! 2. Text that failed is reported with its own position (`internal_position` of `internal_query`), and with a line of
//!    context per routine that was running.

use crate::client::Runtime;
use crate::session::Session;
use kilndb_base::{Error, Oid, Result};
use kilndb_storage::Snapshot;
use kilndb_types::Datum;
use std::sync::Arc;

pub use super::language::{RowColumn, TupleDescriptor};
pub use kilndb_bind::variables::{Variable, VariableConflict, VariableScope};

/// How text is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseMode {
    /// One statement.
    Statement,
    /// What may follow SELECT: an expression, or more (`a, b FROM t`).
    Expression,
    /// `target := expression` (or `=`), where the target is a variable followed by `indirections` fields or subscripts:
    /// the value is the new value of the whole variable, which the scope finds by its first part(s), `names` of them.
    Assignment { names: u8 },
}

/// No variables at all.
pub struct NoVariables;
impl VariableScope for NoVariables {
    fn resolve(&self, _parts: &[&str], _star: bool, _required: bool) -> Result<Option<Variable>> {
        Ok(None)
    }
    fn parameter(&self, _number: u32) -> Option<Variable> {
        None
    }
    fn value(&self, _variable: u32) -> Result<Datum> {
        Err(Error::internal("a value of no variable"))
    }
}

/// `$1`, `$2` … of EXECUTE … USING.
pub struct Parameters<'a>(pub &'a [(Oid, Datum)]);
impl VariableScope for Parameters<'_> {
    fn resolve(&self, _parts: &[&str], _star: bool, _required: bool) -> Result<Option<Variable>> {
        Ok(None)
    }
    fn parameter(&self, number: u32) -> Option<Variable> {
        let index = number.checked_sub(1)?;
        self.0.get(index as usize).map(|(type_oid, _)| Variable {
            number: index,
            type_oid: *type_oid,
            typmod: -1,
            collation: Default::default(),
        })
    }
    fn value(&self, variable: u32) -> Result<Datum> {
        self.0
            .get(variable as usize)
            .map(|(_, value)| value.clone())
            .ok_or_else(|| Error::internal("no such parameter"))
    }
}

/// What kind of statement has run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    Select,
    Insert,
    Update,
    Delete,
    Merge,
    /// CREATE TABLE AS, SELECT INTO.
    SelectInto,
    /// CALL: the procedure's output row, if it has one, is the only row.
    Call,
    Utility,
}

#[derive(Clone, Debug)]
pub struct Outcome {
    pub command: Command,
    /// Rows returned, or changed.
    pub processed: u64,
    /// The result's columns; None: it has none (no SELECT, no RETURNING).
    pub row: Option<Arc<TupleDescriptor>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scroll {
    /// As DECLARE without either word: backwards if that costs nothing.
    Default,
    Scroll,
    NoScroll,
}

/// FETCH and MOVE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// So many rows; i64::MAX is ALL.
    Forward(i64),
    Backward(i64),
    Absolute(i64),
    Relative(i64),
}

/// The mark of a block with an exception handler. It must be given back to [`Spi::release`] or [`Spi::roll_back_to`].
#[must_use]
pub struct Subtransaction {
    pub(crate) depth: usize,
}

pub use super::statement::SpiPrepared;

/// The session as a routine has it.
pub struct Spi<'s> {
    pub(crate) session: &'s mut Session,
    pub(crate) runtime: &'s dyn Runtime,
    /// Statements may not write, and share the caller's snapshot.
    pub(crate) read_only: bool,
    /// COMMIT and ROLLBACK are refused.
    pub(crate) atomic: bool,
    /// The calling statement's, or what was seen last.
    pub(crate) snapshot: Option<Snapshot>,
}

impl Spi<'_> {
    pub fn is_atomic(&self) -> bool {
        self.atomic
    }
    /// A condition: NULL is false.
    pub fn is_true(&mut self, prepared: &Arc<SpiPrepared>, scope: &dyn VariableScope) -> Result<bool> {
        let (value, ..) = self.evaluate(prepared, scope)?;
        Ok(matches!(value, Datum::Bool(true)))
    }
    /// A message to the client (client_min_messages decides) and the log; its severity is below ERROR.
    pub fn notice(&mut self, notice: Error) -> Result<()> {
        self.session.context.shared.scratch.notices.borrow_mut().push(notice);
        self.session.tell_notices(self.runtime)
    }
    /// A setting's value as SHOW prints it; None: there is none of that name.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.session.context.settings.get(name).map(|_| self.session.context.shown(name))
    }
    /// Gives others their turn and looks whether the statement is to stop. To be called in every loop.
    pub fn checkpoint(&mut self) -> Result<()> {
        self.runtime.checkpoint()
    }
}
