//! What an owner waits for, for those who tell of it.
//!
//! Must not know: who asks, and in which words it is told.

use super::rows::RowKey;
use crate::api::{LockMode, LockTag, RowLockMode};
use kilndb_base::{RelationId, RowId};

/// The object of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitedObject {
    Lock(LockTag, LockMode),
    /// The end of the transaction that has a row, or has put in an index entry; 0: it has no number.
    Transaction(u64),
    /// To be the next one for a row that others wait for already.
    Row {
        relation: RelationId,
        row: RowId,
        mode: RowLockMode,
        /// The transaction that had the row when the wait began; 0: none that has a number.
        holder: u64,
    },
}

/// A wait: what for, who has it, and all who wait for it in their order, where they have one.
#[derive(Clone, Debug)]
pub struct LockWait {
    pub object: WaitedObject,
    pub holders: Vec<u64>,
    pub queue: Vec<u64>,
}

/// What the graph is told of a wait for a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RowWait {
    /// The transaction that has the row; 0: it is not known.
    pub xid: u64,
    /// The row and how it is wanted; None: it is an index entry that is waited for.
    pub row: Option<(RowKey, RowLockMode)>,
    /// The blockers wait for the row themselves.
    pub in_line: bool,
}
