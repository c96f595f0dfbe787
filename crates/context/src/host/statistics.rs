//! The functions behind the statistics views (`pg_stat_get_…`, `pg_stat_reset…`).
//!
//! Invariants
//! 1. A figure that this server does not count is NULL where the view allows for it, else 0 because it is 0 here;
//!    docs/compatibility.md says which and why.
//!
//! Must not know: how the figures come about.

use super::POSTGRES_EPOCH_MICROS;
use super::StatementHost;
use super::arguments::text_of;
use super::session_function::{Call, session_functions, session_rows};
use crate::client::Progress;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_catalog::roles::PG_READ_ALL_STATS;
use kilndb_exec::stats::{DatabaseTotals, RelationTotals};
use kilndb_storage::{ACTORS, CheckpointStats, IoActor, IoObject, OBJECTS, StatsGroup};
use kilndb_types::{Datum, oids};

fn count(n: u64) -> Datum {
    Datum::Int8(n as i64)
}
/// Never, if it is 0.
fn time(micros: i64) -> Datum {
    if micros == 0 { Datum::Null } else { Datum::TimestampTz(micros) }
}

session_functions! {
    fn pg_stat_reset(call) = {
        let (database, now) = (call.host.database(), call.host.facts.statement_timestamp);
        call.host.cluster.statistics.reset_database(database.oid, now);
        database.temp.reset_totals();
        Ok(Datum::text(""))
    };
    fn pg_stat_reset_shared(call) = reset_shared(call.host, call.arg(0)).map(|()| Datum::text(""));
    fn pg_stat_reset_single_table_counters(call) = {
        let (database, now) = (call.host.database().oid, call.host.facts.statement_timestamp);
        call.host.cluster.statistics.reset_relation(database, call.oid(0), now);
        Ok(Datum::text(""))
    };
    fn pg_stat_clear_snapshot(_call) = Ok(Datum::text(""));
    fn pg_stat_force_next_flush(_call) = Ok(Datum::text(""));
    fn pg_indexam_progress_phasename(call) = Ok(index_phase(call.args));
    fn pg_stat_get_wal(call) = wal(call.host);

    // Of the checkpointer and the background writer. There is no standby, and there are no SLRUs; the background writer
    // knows no limit of a round.
    fn pg_stat_get_checkpointer_num_timed(call) = Ok(count(checkpoints(call).timed));
    fn pg_stat_get_checkpointer_num_requested(call) = Ok(count(checkpoints(call).requested));
    fn pg_stat_get_checkpointer_buffers_written(call) = Ok(count(checkpoints(call).buffers_written));
    fn pg_stat_get_bgwriter_buf_written_clean(call) = Ok(count(call.host.cluster.engine.stats().background_writer().buffers_clean));
    fn pg_stat_get_bgwriter_maxwritten_clean(_call) = Ok(count(0));
    fn pg_stat_get_buf_alloc(call) = Ok(count(call.host.cluster.engine.stats().background_writer().buffers_alloc));
    fn pg_stat_get_bgwriter_stat_reset_time(call) = Ok(reset_time(call.host, StatsGroup::BackgroundWriter));
    fn pg_stat_get_checkpointer_write_time(call) = Ok(Datum::Float8(checkpoints(call).write_ms as f64));
    fn pg_stat_get_checkpointer_sync_time(call) = Ok(Datum::Float8(checkpoints(call).sync_ms as f64));
    fn pg_stat_get_checkpointer_stat_reset_time(call) = Ok(reset_time(call.host, StatsGroup::Checkpointer));
    fn pg_stat_get_checkpointer_restartpoints_timed(_call) = Ok(count(0));
    fn pg_stat_get_checkpointer_restartpoints_requested(_call) = Ok(count(0));
    fn pg_stat_get_checkpointer_restartpoints_performed(_call) = Ok(count(0));
    fn pg_stat_get_checkpointer_slru_written(_call) = Ok(count(0));
    fn pg_stat_get_checkpointer_num_performed(call) = Ok(count(checkpoints(call).done));

    // Of a table or an index. Rows keep their place, there are no heap-only tuples; old versions are in undo, and go by
    // themselves: nobody vacuums by himself.
    fn pg_stat_get_numscans(call) = Ok(count(relation(call).usage.scans));
    fn pg_stat_get_tuples_returned(call) = Ok(count(relation(call).usage.read));
    fn pg_stat_get_tuples_fetched(call) = Ok(count(relation(call).usage.fetched));
    // Of an index in PostgreSQL 0: kiln_stat_index_writes shows it.
    fn pg_stat_get_tuples_inserted(call) = {
        let t = relation(call);
        Ok(count(t.usage.inserted + t.usage.entries))
    };
    fn pg_stat_get_tuples_updated(call) = Ok(count(relation(call).usage.updated));
    fn pg_stat_get_tuples_deleted(call) = Ok(count(relation(call).usage.deleted));
    fn pg_stat_get_tuples_hot_updated(_call) = Ok(count(0));
    fn pg_stat_get_last_vacuum_time(call) = Ok(time(relation(call).last_vacuum));
    fn pg_stat_get_last_analyze_time(call) = Ok(time(relation(call).last_analyze));
    fn pg_stat_get_last_autoanalyze_time(call) = Ok(time(relation(call).last_autoanalyze));
    fn pg_stat_get_live_tuples(call) = Ok(count(relation(call).usage.live.max(0) as u64));
    fn pg_stat_get_dead_tuples(_call) = Ok(count(0));
    fn pg_stat_get_vacuum_count(call) = Ok(count(relation(call).vacuums));
    fn pg_stat_get_autovacuum_count(_call) = Ok(count(0));
    fn pg_stat_get_analyze_count(call) = Ok(count(relation(call).analyzes));
    fn pg_stat_get_autoanalyze_count(call) = Ok(count(relation(call).autoanalyzes));
    fn pg_stat_get_mod_since_analyze(call) = Ok(Datum::Int8(relation(call).modified_since_analyze));
    fn pg_stat_get_ins_since_vacuum(call) = Ok(Datum::Int8(relation(call).inserted_since_vacuum));
    fn pg_stat_get_tuples_newpage_updated(_call) = Ok(count(0));
    fn pg_stat_get_lastscan(call) = Ok(time(relation(call).last_scan));
    fn pg_stat_get_total_vacuum_time(call) = Ok(Datum::Float8(relation(call).vacuum_ms));
    fn pg_stat_get_total_autovacuum_time(_call) = Ok(Datum::Float8(0.0));
    fn pg_stat_get_total_analyze_time(call) = Ok(Datum::Float8(relation(call).analyze_ms));
    fn pg_stat_get_total_autoanalyze_time(call) = Ok(Datum::Float8(relation(call).autoanalyze_ms));

    // Of a database. There are no standbys and no parallel workers.
    fn pg_stat_get_db_numbackends(call) = Ok(Datum::Int4(backends(call)));
    fn pg_stat_get_db_xact_commit(call) = Ok(count(database(call).commits));
    fn pg_stat_get_db_xact_rollback(call) = Ok(count(database(call).rollbacks));
    fn pg_stat_get_db_tuples_returned(call) = Ok(count(database(call).returned));
    fn pg_stat_get_db_tuples_fetched(call) = Ok(count(database(call).fetched));
    fn pg_stat_get_db_tuples_inserted(call) = Ok(count(database(call).inserted));
    fn pg_stat_get_db_tuples_updated(call) = Ok(count(database(call).updated));
    fn pg_stat_get_db_tuples_deleted(call) = Ok(count(database(call).deleted));
    fn pg_stat_get_db_conflict_tablespace(_call) = Ok(count(0));
    fn pg_stat_get_db_conflict_lock(_call) = Ok(count(0));
    fn pg_stat_get_db_conflict_snapshot(_call) = Ok(count(0));
    fn pg_stat_get_db_conflict_bufferpin(_call) = Ok(count(0));
    fn pg_stat_get_db_conflict_startup_deadlock(_call) = Ok(count(0));
    fn pg_stat_get_db_conflict_all(_call) = Ok(count(0));
    fn pg_stat_get_db_stat_reset_time(call) = Ok(reset_of_database(call));
    fn pg_stat_get_db_temp_files(call) = Ok(count(temporary(call).0));
    fn pg_stat_get_db_temp_bytes(call) = Ok(count(temporary(call).1));
    fn pg_stat_get_db_deadlocks(call) = Ok(count(database(call).deadlocks));
    fn pg_stat_get_db_session_time(call) = Ok(ms(database(call).session_us));
    fn pg_stat_get_db_active_time(call) = Ok(ms(database(call).active_us));
    fn pg_stat_get_db_idle_in_transaction_time(call) = Ok(ms(database(call).idle_in_transaction_us));
    fn pg_stat_get_db_sessions(call) = Ok(count(database(call).sessions));
    fn pg_stat_get_db_conflict_logicalslot(_call) = Ok(count(0));
    fn pg_stat_get_db_parallel_workers_to_launch(_call) = Ok(count(0));
    fn pg_stat_get_db_parallel_workers_launched(_call) = Ok(count(0));

    // Not counted: which database or relation a page is of, times of reads and writes, why sessions ended, damaged pages.
    // There is no archiver, no receiver, and nothing that vacuums by itself.
    fn pg_stat_get_blocks_fetched(_call) = Ok(Datum::Null);
    fn pg_stat_get_blocks_hit(_call) = Ok(Datum::Null);
    fn pg_stat_get_db_blocks_fetched(_call) = Ok(Datum::Null);
    fn pg_stat_get_db_blocks_hit(_call) = Ok(Datum::Null);
    fn pg_stat_get_last_autovacuum_time(_call) = Ok(Datum::Null);
    fn pg_stat_get_db_blk_read_time(_call) = Ok(Datum::Null);
    fn pg_stat_get_db_blk_write_time(_call) = Ok(Datum::Null);
    fn pg_stat_get_archiver(_call) = Ok(Datum::Null);
    fn pg_stat_get_wal_receiver(_call) = Ok(Datum::Null);
    fn pg_stat_get_db_checksum_failures(_call) = Ok(Datum::Null);
    fn pg_stat_get_db_checksum_last_failure(_call) = Ok(Datum::Null);
    fn pg_stat_get_snapshot_timestamp(_call) = Ok(Datum::Null);
    fn pg_stat_get_db_sessions_abandoned(_call) = Ok(Datum::Null);
    fn pg_stat_get_db_sessions_fatal(_call) = Ok(Datum::Null);
    fn pg_stat_get_db_sessions_killed(_call) = Ok(Datum::Null);
}
session_rows! {
    fn pg_stat_get_io(call) = io(call.host);
    fn pg_stat_get_progress_info(call) = progress(call.host, call.args);
}

fn checkpoints(call: &Call<'_, '_>) -> CheckpointStats {
    call.host.cluster.engine.stats().checkpoints()
}
fn relation(call: &Call<'_, '_>) -> RelationTotals {
    call.host.cluster.statistics.relation(call.host.database().oid, call.oid(0))
}
fn database(call: &Call<'_, '_>) -> DatabaseTotals {
    call.host.cluster.statistics.database(call.oid(0))
}
fn ms(us: u64) -> Datum {
    Datum::Float8(us as f64 / 1000.0)
}
/// Temporary files of a database, and their bytes.
fn temporary(call: &Call<'_, '_>) -> (u64, u64) {
    call.host.cluster.used_database(call.oid(0)).map_or((0, 0), |d| d.temp.totals())
}
fn reset_of_database(call: &Call<'_, '_>) -> Datum {
    call.host.cluster.statistics.reset_time(call.oid(0)).map_or(Datum::Null, Datum::TimestampTz)
}
fn backends(call: &Call<'_, '_>) -> i32 {
    let oid = call.oid(0);
    let is_here =
        |c: &crate::client::SessionControl| c.activity.lock().unwrap_or_else(|e| e.into_inner()).database_oid == oid;
    call.host.cluster.sessions().all().iter().filter(|c| is_here(c)).count() as i32
}

fn reset_shared(host: &StatementHost<'_>, target: Option<&Datum>) -> Result<()> {
    let all = [StatsGroup::Io, StatsGroup::Wal, StatsGroup::Checkpointer, StatsGroup::BackgroundWriter];
    let groups = match target {
        Some(Datum::Null) | None => &all[..],
        given => match text_of(given).as_str() {
            "io" => &all[..1],
            "wal" => &all[1..2],
            "checkpointer" => &all[2..3],
            "bgwriter" => &all[3..],
            "archiver" | "recovery_prefetch" | "slru" => &[],
            other => {
                return Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, format!("unrecognized reset target: \"{other}\"")).with_hint(
                    "Target must be \"archiver\", \"bgwriter\", \"checkpointer\", \"io\", \"recovery_prefetch\", \"slru\", or \"wal\".",
                ));
            }
        },
    };
    groups.iter().for_each(|group| host.cluster.engine.reset_stats(*group));
    Ok(())
}

fn reset_time(host: &StatementHost<'_>, group: StatsGroup) -> Datum {
    Datum::TimestampTz(host.cluster.engine.stats().reset_at(group) - POSTGRES_EPOCH_MICROS)
}

/// PostgreSQL's name for what a B-tree build is doing.
fn index_phase(args: &[Datum]) -> Datum {
    match args.get(1) {
        Some(Datum::Int8(1)) => Datum::text("initializing"),
        Some(Datum::Int8(2)) => Datum::text("scanning table"),
        Some(Datum::Int8(3)) => Datum::text("sorting live tuples"),
        Some(Datum::Int8(4)) => Datum::text("sorting dead tuples"),
        Some(Datum::Int8(5)) => Datum::text("loading tuples in tree"),
        _ => Datum::Null,
    }
}

/// Records, full page images (there are none), bytes, how often the buffers were full, the last reset.
fn wal(host: &StatementHost<'_>) -> Result<Datum> {
    let w = host.cluster.engine.wal_stats();
    let bytes = kilndb_types::io::input(oids::NUMERIC, &w.bytes.to_string(), -1, &host.eval())?;
    Ok(super::identifiers::record(vec![
        (oids::INT8, count(w.records)),
        (oids::INT8, count(0)),
        (oids::NUMERIC, bytes),
        (oids::INT8, count(w.buffers_full)),
        (oids::TIMESTAMPTZ, reset_time(host, StatsGroup::Wal)),
    ]))
}

/// Rows of pg_stat_io: who can do what to what. Writes back and reuses there are none; hits are not counted.
fn io(host: &StatementHost<'_>) -> Result<Vec<Vec<Datum>>> {
    let eval = host.eval();
    let mut rows = Vec::new();
    for actor in ACTORS {
        for object in OBJECTS {
            let kind = match actor {
                IoActor::Client => "client backend",
                IoActor::Checkpointer => "checkpointer",
                IoActor::BackgroundWriter => "background writer",
                IoActor::WalWriter => "walwriter",
                IoActor::Startup => "startup",
            };
            let writes_log = matches!(object, IoObject::Wal | IoObject::WalInit);
            if writes_log != (actor == IoActor::WalWriter)
                || object == IoObject::TemporaryRelation && actor != IoActor::Client
            {
                continue;
            }
            let line = host.cluster.engine.stats().io(actor, object);
            let reads = !writes_log;
            let bytes = |n: u64| kilndb_types::io::input(oids::NUMERIC, &n.to_string(), -1, &eval);
            let only = |possible: bool, value: Datum| if possible { value } else { Datum::Null };
            let syncs = !matches!(object, IoObject::TemporaryRelation);
            rows.push(vec![
                Datum::text(kind),
                Datum::text(match object {
                    IoObject::Relation => "relation",
                    IoObject::TemporaryRelation => "temp relation",
                    IoObject::Wal | IoObject::WalInit => "wal",
                }),
                Datum::text(if object == IoObject::WalInit { "init" } else { "normal" }),
                only(reads, count(line.reads)),
                only(reads, bytes(line.read_bytes)?),
                only(reads, Datum::Float8(0.0)),
                count(line.writes),
                bytes(line.write_bytes)?,
                Datum::Float8(0.0),
                Datum::Null,
                Datum::Null,
                only(reads, count(line.extends)),
                only(reads, bytes(line.extend_bytes)?),
                only(reads, Datum::Float8(0.0)),
                Datum::Null,
                only(reads, count(line.evictions)),
                Datum::Null,
                only(syncs, count(line.syncs)),
                only(syncs, Datum::Float8(0.0)),
                reset_time(host, StatsGroup::Io),
            ]);
        }
    }
    Ok(rows)
}

/// Rows of the commands of one kind that run now: process, database, relation, 20 numbers.
fn progress(host: &StatementHost<'_>, args: &[Datum]) -> Result<Vec<Vec<Datum>>> {
    let kind = text_of(args.first()).to_ascii_uppercase();
    if !["VACUUM", "ANALYZE", "CLUSTER", "CREATE INDEX", "BASEBACKUP", "COPY"].contains(&kind.as_str()) {
        return Err(Error::new(
            sqlstate::INVALID_PARAMETER_VALUE,
            format!("invalid command name: \"{}\"", text_of(args.first())),
        ));
    }
    let sees_all = host.has_privileges_of(PG_READ_ALL_STATS)?;
    let mut rows = Vec::new();
    for control in host.cluster.sessions().all() {
        let Some(Progress { relation, values, .. }) = control.progress.read(&kind) else { continue };
        let (database, role) = {
            let activity = control.activity.lock().unwrap_or_else(|e| e.into_inner());
            (activity.database_oid, activity.user_oid)
        };
        let mut row = vec![Datum::Int4(control.process_id), Datum::Oid(database), Datum::Oid(relation)];
        row.extend(values.iter().map(|v| Datum::Int8(*v)));
        if !sees_all && !host.has_privileges_of(role)? {
            row[2..].fill(Datum::Null);
        }
        rows.push(row);
    }
    Ok(rows)
}
