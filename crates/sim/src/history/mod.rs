//! Is what the clients of a server have seen possible, if every transaction got what its isolation level promises?
//!
//! Random transactions read lists and append to them (`workload`), sessions run them and write down what they saw
//! (`session`), `run` kills the server in between, and the checker (`check`) looks at the whole afterwards. The checker
//! knows nothing of servers: it is a function of a `History`. Names of anomalies are those of Adya's thesis, as Elle
//! uses them.
//!
//! What PostgreSQL promises, and so what is checked. There is one order of all commits and all snapshots, such that:
//!
//! 1. A snapshot sees a transaction's writes, all of them and to the last, if it comes after the transaction's commit,
//!    else none. Nobody sees what was rolled back, whole transaction or savepoint.
//! 2. A transaction sees its own writes.
//! 3. At READ COMMITTED each statement has a snapshot. A plain SELECT shows that. A statement that locks or writes a
//!    row waits for whoever has written it, and takes its newest version, at a moment of its own for each row, after
//!    the snapshot. So two such rows, or two statements, may show different moments: read skew, non-repeatable reads,
//!    lost updates between statements are allowed.
//! 4. At REPEATABLE READ and SERIALIZABLE the first statement's snapshot is the transaction's. Whoever changes a row
//!    has seen its newest version: its writer committed before the snapshot. That is snapshot isolation; write skew is
//!    allowed.
//! 5. A row that is locked or written stays so until the end of the transaction (or until the savepoint is rolled
//!    back).
//! 6. The order is that of real time: what was acknowledged before a statement was sent, a snapshot of this statement
//!    sees. A session's own order is a part of that. A crash is a moment as any other: it takes away nothing that was
//!    acknowledged or seen.
//! 7. SERIALIZABLE transactions that committed can be put into one serial order. It follows the rw-dependencies between
//!    them (a → b: a did not see what b wrote over it), and a comes before b if a's commit comes before b's snapshot in
//!    the order of 1.
//!
//! Of 7: it is strict (a commit that was acknowledged before another transaction began is before it in the serial order
//! as well), read-only transactions included, although no documentation says so. In a circle of such dependencies let c
//! be the first to commit. Nobody in the circle has committed before c's snapshot, so an rw-dependency b → c leads to
//! it; b took its snapshot before c's commit, so what leads to b is one too, a → b. That is the dangerous structure
//! that is always refused, and if a only reads, it is so if c committed before a's snapshot, which follows in the same
//! way. Why a commit came before a snapshot is of no importance in this, so it may have been the clock, or transactions
//! of other levels in between. Rw-dependencies from or to those are not watched: they count for 1 to 6 only. Nor is
//! what ON CONFLICT finds, because no snapshot looks for it: the write guards it, unless it is rolled back with its
//! savepoint. (To read one's own version later adds nothing to how it was found to be written.)
//!
//! All of 1 to 6 are statements "this event came before that one", so there is such an order exactly if these make no
//! circle: the checker draws the events of all transactions and looks for circles (`events`), and 7 adds a place in the
//! serial order for each transaction. What needs no order (2, values that nobody wrote, acknowledged writes that are
//! gone) `versions` checks before.

mod events;
mod explain;
mod graph;
mod model;
#[cfg(test)]
mod notation;
pub mod run;
pub mod session;
#[cfg(test)]
mod tests;
mod versions;
pub mod workload;

pub use explain::{Anomaly, AnomalyKind};
pub use model::*;

/// What is wrong with a history; nothing, if all is as the levels promise.
pub fn check(history: &History) -> Vec<Anomaly> {
    let mut anomalies = Vec::new();
    let versions = versions::Versions::of(history, &mut anomalies);
    events::check(history, &versions, &mut anomalies);
    anomalies
}
