//! What a routine may do in the session and transaction of its caller.
//!
//! Invariants
//! 1. A statement of a VOLATILE routine sees what the statements before it have done, and what others have committed since; one of a
//!    STABLE or IMMUTABLE routine sees what the calling statement sees, and may not write.
//! 2. Text that failed is reported with its own position (`internal_position` of `internal_query`), and with a line of context
//!    per routine that was running.

use crate::client::Runtime;
use crate::exec::RowSink;
use crate::session::Session;
use kilndb_base::{Error, Oid, Result};
use kilndb_types::Datum;
use std::sync::Arc;

pub use super::language::{RowColumn, RowShape};

/// How text is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseMode {
    /// One statement.
    Statement,
    /// What may follow SELECT: an expression, or more (`a, b FROM t`).
    Expression,
    /// `target := expression` (or `=`), where the target is a variable followed by `indirections` fields or subscripts: the value is the new value of the
    /// whole variable, which the scope finds by its first part(s), `names` of them.
    Assignment { names: u8 },
}

/// A variable of the routine, as a parameter of a statement. The number is the language's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Variable {
    pub number: u32,
    pub type_oid: Oid,
    pub typmod: i32,
}

/// Which of the two a name means that is a variable as well as a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum VariableConflict {
    /// 42702.
    #[default]
    Error,
    UseVariable,
    UseColumn,
}

/// The variables that a statement's text can see, and their values when it runs.
pub trait VariableScope {
    /// `parts` of a column reference: `x`, `rec.field`, `label.x`, `label.rec.field`; with `star`: `rec.*`, the whole row. None: no such
    /// variable. `required`: no column has that name, so a field that a record lacks is an error.
    fn resolve(&self, parts: &[&str], star: bool, required: bool) -> Result<Option<Variable>>;
    /// `$n`, n from 1.
    fn parameter(&self, number: u32) -> Option<Variable>;
    fn conflict(&self) -> VariableConflict {
        VariableConflict::Error
    }
    /// The language's name in "It could refer to either a … variable or a table column."
    fn language(&self) -> &'static str {
        "PL/pgSQL"
    }
    /// The columns of a variable of type RECORD as it is now.
    fn row_of(&self, variable: u32) -> Result<Option<Arc<RowShape>>> {
        let _ = variable;
        Ok(None)
    }
    fn value(&self, variable: u32) -> Result<Datum>;
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
        self.0.get(index as usize).map(|(type_oid, _)| Variable { number: index, type_oid: *type_oid, typmod: -1 })
    }
    fn value(&self, variable: u32) -> Result<Datum> {
        self.0.get(variable as usize).map(|(_, value)| value.clone()).ok_or_else(|| Error::internal("no such parameter"))
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
    pub row: Option<Arc<RowShape>>,
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
pub struct Subtransaction {
    pub(crate) depth: usize,
}

/// A statement or expression of a routine: parsed once, planned once per state of the catalogs. Shared by sessions.
pub struct SpiPrepared {
    pub(crate) text: Arc<str>,
    pub(crate) mode: ParseMode,
}

impl SpiPrepared {
    pub fn text(&self) -> &str {
        &self.text
    }
    pub fn mode(&self) -> ParseMode {
        self.mode
    }
}

/// The session as a routine has it.
pub struct Spi<'s> {
    pub(crate) session: &'s mut Session,
    pub(crate) runtime: &'s dyn Runtime,
    /// Statements may not write, and share the caller's snapshot.
    pub(crate) read_only: bool,
    /// COMMIT and ROLLBACK are refused.
    pub(crate) atomic: bool,
}

fn not_yet<T>(what: &str) -> Result<T> {
    Err(Error::unsupported(format!("{what} in a routine is not supported")))
}

impl Spi<'_> {
    pub fn is_atomic(&self) -> bool {
        self.atomic
    }
    /// Parses and plans; errors of both have their position in `text`.
    pub fn prepare(&mut self, text: &str, mode: ParseMode, scope: &dyn VariableScope) -> Result<Arc<SpiPrepared>> {
        let _ = (text, mode, scope, &self.session, self.runtime, self.read_only);
        not_yet("a statement")
    }
    /// Checks the syntax only, as CREATE FUNCTION does.
    pub fn check_syntax(&mut self, text: &str, mode: ParseMode) -> Result<()> {
        let _ = (text, mode);
        not_yet("a statement")
    }
    /// The result's columns, as the catalogs are now; None: it has none.
    pub fn describe(&mut self, prepared: &Arc<SpiPrepared>, scope: &dyn VariableScope) -> Result<Option<Arc<RowShape>>> {
        let _ = (prepared, scope);
        not_yet("a statement")
    }
    /// Runs a statement; `sink` gets the rows, of which there are at most `limit` (0: all).
    pub fn run(&mut self, prepared: &Arc<SpiPrepared>, scope: &dyn VariableScope, limit: u64, sink: &mut dyn RowSink) -> Result<Outcome> {
        let _ = (prepared, scope, limit, sink);
        not_yet("a statement")
    }
    /// Runs text that was made at run time (EXECUTE … USING). A text that was seen before is neither parsed nor planned again.
    pub fn execute(&mut self, text: &str, parameters: &[(Oid, Datum)], limit: u64, sink: &mut dyn RowSink) -> Result<Outcome> {
        let _ = (text, parameters, limit, sink);
        not_yet("EXECUTE")
    }
    /// The value of an expression, and its type. More than one column or row is PostgreSQL's error. Takes no snapshot and starts no executor where
    /// the expression can do without.
    pub fn evaluate(&mut self, prepared: &Arc<SpiPrepared>, scope: &dyn VariableScope) -> Result<(Datum, Oid, i32)> {
        let _ = (prepared, scope);
        not_yet("an expression")
    }
    /// A condition: NULL is false.
    pub fn is_true(&mut self, prepared: &Arc<SpiPrepared>, scope: &dyn VariableScope) -> Result<bool> {
        let (value, ..) = self.evaluate(prepared, scope)?;
        Ok(matches!(value, Datum::Bool(true)))
    }
    /// Opens a cursor on a statement that returns rows. `name` None: one is made up (`<unnamed portal 1>`). Returns the name.
    pub fn open_cursor(&mut self, name: Option<&str>, prepared: &Arc<SpiPrepared>, scope: &dyn VariableScope, scroll: Scroll) -> Result<String> {
        let _ = (name, prepared, scope, scroll);
        not_yet("a cursor")
    }
    pub fn open_cursor_on_text(&mut self, name: Option<&str>, text: &str, parameters: &[(Oid, Datum)], scroll: Scroll) -> Result<String> {
        let _ = (name, text, parameters, scroll);
        not_yet("a cursor")
    }
    /// The columns of an open cursor's rows. 34000 if there is no such cursor.
    pub fn cursor_row(&mut self, name: &str) -> Result<Arc<RowShape>> {
        let _ = name;
        not_yet("a cursor")
    }
    /// Returns how many rows there were. `is_move`: they go nowhere.
    pub fn fetch(&mut self, name: &str, direction: Direction, is_move: bool, sink: &mut dyn RowSink) -> Result<u64> {
        let _ = (name, direction, is_move, sink);
        not_yet("a cursor")
    }
    pub fn close_cursor(&mut self, name: &str) -> Result<()> {
        let _ = name;
        not_yet("a cursor")
    }
    /// Costs no log record and nothing shared.
    pub fn begin_subtransaction(&mut self) -> Result<Subtransaction> {
        not_yet("an exception block")
    }
    pub fn release(&mut self, mark: Subtransaction) -> Result<()> {
        let _ = mark.depth;
        not_yet("an exception block")
    }
    /// Undoes what was done since; the error's own fields are the caller's to keep.
    pub fn roll_back_to(&mut self, mark: Subtransaction) -> Result<()> {
        let _ = mark.depth;
        not_yet("an exception block")
    }
    /// 2D000 in an atomic call or inside an exception block.
    pub fn commit(&mut self, chain: bool) -> Result<()> {
        let _ = chain;
        not_yet("COMMIT")
    }
    pub fn roll_back(&mut self, chain: bool) -> Result<()> {
        let _ = chain;
        not_yet("ROLLBACK")
    }
    /// A message to the client (client_min_messages decides) and the log; its severity is below ERROR.
    pub fn notice(&mut self, notice: Error) {
        self.session.own.scratch.notices.borrow_mut().push(notice);
    }
    /// A setting's value as SHOW prints it; None: there is none of that name.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.session.settings.get(name).map(|_| self.session.shown(name))
    }
    /// Gives others their turn and looks whether the statement is to stop. To be called in every loop.
    pub fn checkpoint(&mut self) -> Result<()> {
        self.runtime.checkpoint()
    }

    // Types.

    /// `text` as in a declaration: `integer`, `numeric(10,2)[]`, `public.t`, `t.c%TYPE`, `t%ROWTYPE`.
    pub fn resolve_type(&mut self, text: &str) -> Result<(Oid, i32)> {
        let _ = text;
        not_yet("a type")
    }
    /// The columns of a composite type; None: it is none.
    pub fn row_of_type(&mut self, type_oid: Oid) -> Result<Option<Arc<RowShape>>> {
        let _ = type_oid;
        not_yet("a type")
    }
    /// The type of a column: `table.column`, `schema.table.column`. None: there is no such column or table.
    pub fn column_type(&mut self, parts: &[&str]) -> Result<Option<(Oid, i32)>> {
        let _ = parts;
        not_yet("a type")
    }
    /// The composite type of a relation's rows. 42P01.
    pub fn row_type_of_relation(&mut self, parts: &[&str]) -> Result<Oid> {
        let _ = parts;
        not_yet("a type")
    }
    /// The array type of a type, or 0.
    pub fn array_type(&mut self, type_oid: Oid) -> Result<Oid> {
        let _ = type_oid;
        not_yet("a type")
    }
    /// The element type of an array type, or 0.
    pub fn element_type(&mut self, type_oid: Oid) -> Result<Oid> {
        let _ = type_oid;
        not_yet("a type")
    }
    pub fn format_type(&mut self, type_oid: Oid, typmod: i32) -> Result<String> {
        let _ = (type_oid, typmod);
        not_yet("a type")
    }
    /// As an assignment does: by an assignment cast, or through the text form.
    pub fn convert(&mut self, value: Datum, from: (Oid, i32), to: (Oid, i32)) -> Result<Datum> {
        let _ = (value, from, to);
        not_yet("a conversion")
    }
    pub fn output(&mut self, value: &Datum, type_oid: Oid) -> Result<String> {
        let _ = (value, type_oid);
        not_yet("a conversion")
    }
    pub fn input(&mut self, text: &str, type_oid: Oid, typmod: i32) -> Result<Datum> {
        let _ = (text, type_oid, typmod);
        not_yet("a conversion")
    }
}
