//! What a history is: transactions as their clients saw them.
//!
//! Every key holds a list that only grows: whoever writes a key appends a value that nobody else appends to it. So a
//! list that somebody has read tells which versions came before it, and the lists at the end tell the order of all
//! versions. A key without a row is an empty list.

use std::collections::BTreeMap;

pub type Key = u32;
pub type Value = u32;
/// A moment of the one clock that all clients share.
pub type Tick = u64;

/// The time from before a message was sent until after its answer was read: what the server did, it did in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    pub from: Tick,
    pub to: Tick,
}

/// The isolation level that a transaction asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsolationLevel {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl IsolationLevel {
    pub fn sql(self) -> &'static str {
        match self {
            IsolationLevel::ReadCommitted => "read committed",
            IsolationLevel::RepeatableRead => "repeatable read",
            IsolationLevel::Serializable => "serializable",
        }
    }

    /// Whether the whole transaction has one snapshot, instead of one for each statement.
    pub fn keeps_snapshot(self) -> bool {
        self != IsolationLevel::ReadCommitted
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionOutcome {
    /// The server has said so.
    Committed,
    /// The server has said so, or can never have been asked to commit.
    Aborted,
    /// The connection broke while the answer was awaited.
    Unknown,
}

/// What a statement that locks or writes a row has told about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowTouch {
    /// The statement found no row.
    Missed,
    /// The statement found a row; the client was not shown it.
    Unseen,
    /// The statement found a row, and this is the list with what the statement itself appended.
    Saw(Vec<Value>),
    /// There was no answer: the statement may or may not have found a row.
    Attempted,
}

/// How rows are found and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteWay {
    /// FOR UPDATE, UPDATE.
    Plain,
    /// INSERT of a row that the transaction has deleted.
    Moved,
    /// INSERT ON CONFLICT DO UPDATE.
    OnConflict,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepAction {
    /// A plain SELECT. Empty if there was no answer.
    Select(Vec<(Key, Vec<Value>)>),
    /// A statement that locks rows, and appends `value` to each if there is one.
    Modify {
        value: Option<Value>,
        rows: Vec<(Key, RowTouch)>,
        way: WriteWay,
    },
    Savepoint,
    /// ROLLBACK to the last savepoint, which stays.
    RollbackToSavepoint,
    /// The last savepoint is forgotten.
    Release,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionStep {
    pub action: StepAction,
    pub during: Interval,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    pub session: u32,
    pub level: IsolationLevel,
    pub steps: Vec<TransactionStep>,
    pub outcome: TransactionOutcome,
    /// The commit, the rollback, or the error that ended it.
    pub end: Interval,
}

/// Everything a run has seen: the transactions, and the lists that were read after all of them.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub transactions: Vec<Transaction>,
    pub last: BTreeMap<Key, Vec<Value>>,
}

impl Transaction {
    /// For each step, whether a later ROLLBACK TO SAVEPOINT undid it.
    pub fn undone(&self) -> Vec<bool> {
        let mut undone = vec![false; self.steps.len()];
        let mut savepoints = Vec::new();
        for (number, step) in self.steps.iter().enumerate() {
            match step.action {
                StepAction::Savepoint => savepoints.push(number),
                StepAction::RollbackToSavepoint => {
                    let since = savepoints.last().copied().unwrap_or(0);
                    undone[since + 1..number].fill(true);
                }
                StepAction::Release => {
                    savepoints.pop();
                }
                _ => {}
            }
        }
        undone
    }
}
