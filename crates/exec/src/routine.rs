//! Calls of routines from expressions and from FROM.
//!
//! Must not know: languages, sessions. [`RoutineHost`] does.

use super::context::{ExecContext, PendingChecks};
use crate::stats::Usage;
use kilndb_base::{Error, Result};
use kilndb_plan::expression::RoutineCall;
use kilndb_spill::RowStore;
use kilndb_storage::{Snapshot, Transaction};
use kilndb_types::Datum;
use std::ops::{Deref, DerefMut};

/// The transaction of a running statement. While a routine that the statement has called is running, that has it.
///
/// Invariant: it is empty only within [`RoutineHost::call_routine`], which has the only reference to it.
pub struct TransactionSlot(Option<Transaction>);

impl TransactionSlot {
    pub fn new(txn: Transaction) -> TransactionSlot {
        TransactionSlot(Some(txn))
    }
    /// An empty slot, for expressions that are evaluated without a transaction.
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

/// What a statement lends to the session while a routine runs.
pub struct CallerResources<'a> {
    pub txn: &'a mut TransactionSlot,
    pub pending: &'a mut PendingChecks,
    pub usage: &'a mut Usage,
    /// The snapshot of the calling statement.
    pub snapshot: &'a Snapshot,
}

/// Takes the rows of a set-returning routine.
pub trait ResultRows {
    /// One row: a value per column; a single value if the result is a scalar.
    fn push(&mut self, row: &[Datum]) -> Result<()>;
}

/// Calls routines for a running statement: the session.
pub trait RoutineHost {
    /// Calls a routine. The rows of a set-returning one go to `rows`.
    fn call_routine(
        &mut self,
        call: &RoutineCall,
        arguments: &[Datum],
        rows: Option<&mut dyn ResultRows>,
        held: CallerResources<'_>,
    ) -> Result<Datum>;
    /// Calls a trigger's function. The result is the row that it returns, None for NULL.
    fn call_trigger(
        &mut self,
        fire: super::trigger::TriggerCall<'_>,
        held: CallerResources<'_>,
    ) -> Result<Option<Vec<Datum>>>;
}

fn nobody() -> Error {
    Error::internal("a routine was called where there is no session")
}

pub fn call(call: &RoutineCall, arguments: &[Datum], cx: &mut ExecContext<'_>) -> Result<Datum> {
    let held = CallerResources { txn: cx.txn, pending: cx.pending, usage: cx.usage, snapshot: &cx.snapshot };
    cx.routines.as_deref_mut().ok_or_else(nobody)?.call_routine(call, arguments, None, held)
}

/// Keeps the rows of a set, beyond work_mem in a temporary file.
struct StoreWriter<'a> {
    rows: &'a mut RowStore,
    io: kilndb_spill::SpillIo<'a>,
}
impl ResultRows for StoreWriter<'_> {
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
    let mut keep = StoreWriter { rows: &mut rows, io: cx.io() };
    let held = CallerResources { txn: cx.txn, pending: cx.pending, usage: cx.usage, snapshot: &cx.snapshot };
    cx.routines.as_deref_mut().ok_or_else(nobody)?.call_routine(call, arguments, Some(&mut keep), held)?;
    Ok(rows)
}
