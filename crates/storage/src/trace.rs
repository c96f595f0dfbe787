//! What a thread asks of storage, one operation after the other, for tests that show it (docs/decisions/0042).
//!
//! Invariants
//! 1. A build without debug assertions has none of it. In one with them, a thread that is not traced pays a look at a
//!    flag of its own for an operation.
//! 2. A trace holds what its own thread does. Background threads and a statement's helper threads are not in it.
//!
//! Must not know: what operations are done for, what relations are called.

use crate::api::{CommitMode, LockMode, LockTag};
use crate::wal::record::{PageOp, PageTarget, Record, decode};
use kilndb_base::{RelationId, RowId};
use std::cell::{Cell, RefCell};

/// Something that a thread has asked of storage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TracedOperation {
    /// A row was read by its id, as a snapshot sees it, or in its newest version.
    ReadRow { heap: RelationId, row: RowId, is_newest: bool, is_found: bool },
    /// The rows of a block were read, or only counted.
    ReadBlock { heap: RelationId, block: u32, rows: usize, is_count: bool },
    /// A scan of a tree has returned entries of one leaf.
    ReadEntries { tree: RelationId, entries: usize, is_backward: bool },
    /// The entries of one key were looked up in a tree, to find out whether a row with it is alive.
    FindKey { tree: RelationId, entries: usize },
    /// A scan of terms has begun.
    ScanTerms { index: RelationId },
    /// A lock that is not of a row was asked for.
    Lock { tag: LockTag, mode: LockMode, is_granted: bool },
    /// Pages were changed; `undo` is the kind of the undo record.
    Change { is_logged: bool, undo: Option<String>, pages: Vec<PageOperation> },
    /// A log record that is no change of pages.
    LogRecord { kind: &'static str },
    /// A transaction has committed.
    Commit { mode: CommitMode, is_waited_for: bool },
}

/// A part of a change: what is done to one page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageOperation {
    pub relation: RelationId,
    pub block: u32,
    /// As docs/format.md calls it.
    pub words: &'static str,
}

kilndb_base::task_local! {
    static IS_TRACED: Cell<bool> = const { Cell::new(false) };
    static TRACE: RefCell<Vec<TracedOperation>> = const { RefCell::new(Vec::new()) };
}

/// From here on the thread's operations are kept, until [`end`].
pub fn begin() {
    TRACE.with(|trace| trace.borrow_mut().clear());
    IS_TRACED.with(|is_traced| is_traced.set(true));
}

/// The operations since [`begin`]; none in a build without debug assertions.
pub fn end() -> Vec<TracedOperation> {
    IS_TRACED.with(|is_traced| is_traced.set(false));
    TRACE.with(|trace| std::mem::take(&mut *trace.borrow_mut()))
}

/// Keeps the operation that `make` describes if the thread is traced.
#[inline]
pub(crate) fn note(make: impl FnOnce() -> TracedOperation) {
    if cfg!(debug_assertions) && IS_TRACED.with(Cell::get) {
        let operation = make();
        TRACE.with(|trace| trace.borrow_mut().push(operation));
    }
}

fn page_operations(ops: &[(PageTarget, PageOp<'_>)]) -> Vec<PageOperation> {
    let shown = ops.iter().map(|(target, op)| PageOperation {
        relation: RelationId(target.rel),
        block: target.block,
        words: op.tag().words(),
    });
    shown.collect()
}

/// A change of a relation that has no log.
#[inline]
pub(crate) fn note_unlogged_change(ops: &[(PageTarget, PageOp<'_>)]) {
    note(|| TracedOperation::Change { is_logged: false, undo: None, pages: page_operations(ops) });
}

/// What was appended to the log.
#[inline]
pub(crate) fn note_log_record(body: &[u8]) {
    note(|| match decode(body) {
        Ok(Record::Change { undo, ops, .. }) => TracedOperation::Change {
            is_logged: true,
            undo: undo.map(|(_, record)| format!("{:?}", record.kind)),
            pages: page_operations(&ops),
        },
        Ok(record) => TracedOperation::LogRecord { kind: record.kind().words() },
        Err(_) => TracedOperation::LogRecord { kind: "a record that does not parse" },
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_kept_only_while_the_thread_is_traced() {
        let operation = || TracedOperation::ScanTerms { index: RelationId(7) };
        note(operation);
        begin();
        note(operation);
        let kept = end();
        note(operation);
        assert_eq!(kept, vec![operation(); usize::from(cfg!(debug_assertions))]);
        assert_eq!(end(), Vec::new());
    }
}
