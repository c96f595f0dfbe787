//! Calls of routines from expressions and from FROM.
//!
//! Must not know: languages, sessions. [`RoutineHost`] does.

use super::context::{ExecContext, PendingChecks};
use super::spill::RowStore;
use crate::catalog::FunctionInfo;
use crate::routine::{ResultRows, RowShape};
use crate::stats::Usage;
use kilndb_base::{Error, Oid, Result};
use kilndb_storage::{Snapshot, Transaction};
use kilndb_types::Datum;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// The transaction of a running statement. While a routine that the statement has called is running, that has it.
///
/// Invariant: it is empty only within [`RoutineHost::call_routine`], which has the only reference to it.
pub struct TransactionSlot(Option<Transaction>);

impl TransactionSlot {
    pub fn new(txn: Transaction) -> TransactionSlot {
        TransactionSlot(Some(txn))
    }
    /// For what is evaluated without one.
    pub const fn empty() -> TransactionSlot {
        TransactionSlot(None)
    }
    pub fn take(&mut self) -> Option<Transaction> {
        self.0.take()
    }
    pub fn put_back(&mut self, txn: Option<Transaction>) {
        self.0 = txn;
    }
    pub fn into_inner(self) -> Option<Transaction> {
        self.0
    }
}
impl Deref for TransactionSlot {
    type Target = Transaction;
    #[inline]
    fn deref(&self) -> &Transaction {
        match &self.0 {
            Some(txn) => txn,
            None => unreachable!("the transaction is with a routine"),
        }
    }
}
impl DerefMut for TransactionSlot {
    #[inline]
    fn deref_mut(&mut self) -> &mut Transaction {
        match &mut self.0 {
            Some(txn) => txn,
            None => unreachable!("the transaction is with a routine"),
        }
    }
}

/// A call of a routine as a plan has it.
#[derive(Debug)]
pub struct RoutineCall {
    pub oid: Oid,
    pub name: Arc<str>,
    pub strict: bool,
    pub returns_set: bool,
    /// Of the arguments, as this call has them.
    pub argument_types: Vec<Oid>,
    pub result_type: Oid,
    pub is_polymorphic: bool,
    /// The columns that the caller wants of a routine that returns RECORD.
    pub expected: Option<Arc<RowShape>>,
    /// Rows are wanted as their columns, not as one composite value.
    pub spread: bool,
    /// The last argument is an array given with VARIADIC.
    pub variadic: bool,
}

impl RoutineCall {
    /// A call of a function of one value with arguments of these types, which is none of the statement's own.
    pub fn of(function: &FunctionInfo, argument_types: Vec<Oid>) -> RoutineCall {
        let polymorphic = crate::bind::is_polymorphic;
        RoutineCall {
            oid: function.oid,
            name: Arc::from(function.name.as_str()),
            strict: function.strict,
            returns_set: false,
            argument_types,
            result_type: function.return_type,
            is_polymorphic: polymorphic(function.return_type) || function.arg_types.iter().any(|t| polymorphic(*t)),
            expected: None,
            spread: false,
            variadic: false,
        }
    }
    /// What settles polymorphic types: of the arguments, then of the result.
    pub fn types(&self) -> Vec<Oid> {
        if !self.is_polymorphic {
            return Vec::new();
        }
        self.argument_types.iter().copied().chain([self.result_type]).collect()
    }
}

/// What a statement gives out of its hands while a routine runs.
pub struct Held<'a> {
    pub txn: &'a mut TransactionSlot,
    pub pending: &'a mut PendingChecks,
    pub usage: &'a mut Usage,
    /// The statement's own.
    pub snapshot: &'a Snapshot,
}

/// Who calls routines: the session.
pub trait RoutineHost {
    /// `rows`: where those of a set go.
    fn call_routine(
        &mut self,
        call: &RoutineCall,
        arguments: &[Datum],
        rows: Option<&mut dyn ResultRows>,
        held: Held<'_>,
    ) -> Result<Datum>;
    /// The row that the trigger's function returns; None: NULL.
    fn call_trigger(&mut self, fire: super::trigger::Fire<'_>, held: Held<'_>) -> Result<Option<Vec<Datum>>>;
}

fn nobody() -> Error {
    Error::internal("a routine was called where there is no session")
}

pub fn call(call: &RoutineCall, arguments: &[Datum], cx: &mut ExecContext<'_>) -> Result<Datum> {
    let held = Held { txn: cx.txn, pending: cx.pending, usage: cx.usage, snapshot: &cx.snapshot };
    cx.routines.as_deref_mut().ok_or_else(nobody)?.call_routine(call, arguments, None, held)
}

/// Keeps the rows of a set, beyond work_mem in a temporary file.
struct Keep<'a> {
    rows: &'a mut RowStore,
    io: super::spill::Io<'a>,
}
impl ResultRows for Keep<'_> {
    fn push(&mut self, row: &[Datum]) -> Result<()> {
        self.rows.push(row, self.io)
    }
}

/// All rows of a set-returning call. `width`: how many values a row has.
pub fn call_for_rows(
    call: &RoutineCall,
    arguments: &[Datum],
    width: usize,
    cx: &mut ExecContext<'_>,
) -> Result<RowStore> {
    let mut rows = RowStore::new(width, cx.work_mem_bytes);
    let mut keep = Keep { rows: &mut rows, io: cx.io() };
    let held = Held { txn: cx.txn, pending: cx.pending, usage: cx.usage, snapshot: &cx.snapshot };
    cx.routines.as_deref_mut().ok_or_else(nobody)?.call_routine(call, arguments, Some(&mut keep), held)?;
    Ok(rows)
}
