//! Rows of the functions behind our own views of what the server does (`kiln_stat_…`): exactly the OUT columns that pg_proc tells of
//! them.
//!
//! Must not know: how the figures come about.

use super::StatementHost;
use super::session_function::session_rows;
use super::views::{HIDDEN, pids_by_owner, relations_by_storage};
use crate::slow_statements::SlowStatement;
use kilndb_base::Result;
use kilndb_catalog::roles::PG_READ_ALL_STATS;
use kilndb_storage::{CommitTimeBucket, LiveSnapshot, PendingMerge};
use kilndb_types::Datum;

session_rows! {
    fn kiln_commit_times(call) = Ok(call.host.cluster.engine.commit_times().into_iter().map(commit_times).collect());
    fn kiln_undo(call) = Ok(vec![undo(call.host)]);
    fn kiln_snapshots(call) = Ok(snapshots(call.host));
    fn kiln_pending_merges(call) = pending_merges(call.host);
    fn kiln_slow_statements(call) = slow_statements(call.host);
}

fn number(value: u64) -> Datum {
    Datum::Int8(i64::try_from(value).unwrap_or(i64::MAX))
}

fn commit_times(bucket: CommitTimeBucket) -> Vec<Datum> {
    let CommitTimeBucket { from_us, to_us, samples, total_us } = bucket;
    vec![number(from_us), to_us.map_or(Datum::Null, number), number(samples), number(total_us)]
}

fn undo(host: &StatementHost<'_>) -> Vec<Datum> {
    let undo = host.cluster.engine.undo_use();
    vec![number(undo.bytes), number(undo.of_transactions_bytes), number(undo.of_snapshots_bytes)]
}

/// Those of sessions: the server itself takes some for a moment.
fn snapshots(host: &StatementHost<'_>) -> Vec<Vec<Datum>> {
    let pids = pids_by_owner(host);
    let row = |snapshot: LiveSnapshot| {
        let pid = pids.get(&snapshot.owner)?;
        Some(vec![Datum::Int4(*pid), number(snapshot.transactions_since), number(snapshot.undo_bytes)])
    };
    host.cluster.engine.live_snapshots().into_iter().filter_map(row).collect()
}

/// Of indexes in this database.
fn pending_merges(host: &StatementHost<'_>) -> Result<Vec<Vec<Datum>>> {
    let found = host.cluster.engine.pending_merges();
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let by_storage = relations_by_storage(host)?;
    let row = |pending: PendingMerge| {
        let index = by_storage.get(&pending.index.0)?;
        Some(vec![Datum::Oid(*index), number(pending.rows), number(pending.bytes)])
    };
    Ok(found.into_iter().filter_map(row).collect())
}

/// Texts and plans are for their own roles, and for those who read all statistics.
fn slow_statements(host: &StatementHost<'_>) -> Result<Vec<Vec<Datum>>> {
    let sees_all = host.has_privileges_of(PG_READ_ALL_STATS)?;
    let row = |statement: SlowStatement| -> Result<Vec<Datum>> {
        let is_seen = sees_all || host.has_privileges_of(statement.user)?;
        let ms = |micros: i64| Datum::Float8(micros as f64 / 1e3);
        Ok(vec![
            Datum::Oid(statement.database),
            Datum::Oid(statement.user),
            Datum::text(if is_seen { &statement.text } else { HIDDEN }),
            number(statement.executions),
            ms(statement.total_micros),
            ms(statement.longest_micros),
            Datum::TimestampTz(statement.last),
            if is_seen { Datum::text(&statement.plan) } else { Datum::Null },
        ])
    };
    host.cluster.slow_statements.all().into_iter().map(row).collect()
}
