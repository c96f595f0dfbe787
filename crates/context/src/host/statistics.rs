//! The functions behind the statistics views (`pg_stat_get_…`, `pg_stat_reset…`).
//!
//! Invariants
//! 1. A figure that this server does not count is NULL where the view allows for it, else 0 because it is 0 here;
//!    docs/compatibility.md says which and why.
//!
//! Must not know: how the figures come about.

use super::POSTGRES_EPOCH_MICROS;
use super::StatementHost;
use super::arguments::{oid_of, text_of};
use crate::client::Progress;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_storage::{ACTORS, IoActor, IoObject, OBJECTS, StatsGroup};
use kilndb_types::{Datum, oids};

/// Names that [`call`] answers beside all that begin with `pg_stat_get_`.
pub fn is_known(name: &str) -> bool {
    matches!(
        name,
        "pg_stat_reset"
            | "pg_stat_reset_shared"
            | "pg_stat_reset_single_table_counters"
            | "pg_stat_clear_snapshot"
            | "pg_stat_force_next_flush"
            | "pg_indexam_progress_phasename"
    ) || name.strip_prefix("pg_stat_get_").is_some_and(|rest| {
        const OTHER: [&str; 4] = ["xact_", "backend_", "function_", "subscription_"];
        !OTHER.iter().any(|prefix| rest.starts_with(prefix)) && rest != "replication_slot"
    })
}

fn count(n: u64) -> Datum {
    Datum::Int8(n as i64)
}
/// Never, if it is 0.
fn time(micros: i64) -> Datum {
    if micros == 0 { Datum::Null } else { Datum::TimestampTz(micros) }
}

pub fn call(host: &StatementHost<'_>, name: &str, args: &[Datum]) -> Result<Datum> {
    let first = args.first();
    match name {
        "pg_stat_reset" => {
            let (database, now) = (host.database(), host.facts.statement_timestamp);
            host.cluster.statistics.reset_database(database.oid, now);
            database.temp.reset_totals();
        }
        "pg_stat_reset_shared" => reset_shared(host, first)?,
        "pg_stat_reset_single_table_counters" => {
            host.cluster.statistics.reset_relation(host.database().oid, oid_of(first), host.facts.statement_timestamp);
        }
        "pg_stat_clear_snapshot" | "pg_stat_force_next_flush" => {}
        "pg_indexam_progress_phasename" => return Ok(index_phase(args)),
        "pg_stat_get_wal" => return wal(host),
        _ => {
            let rest = name.strip_prefix("pg_stat_get_").unwrap_or("");
            return Ok(match rest.strip_prefix("db_") {
                Some(rest) => database(host, rest, oid_of(first)),
                None => shared(host, rest).unwrap_or_else(|| relation(host, rest, oid_of(first))),
            });
        }
    }
    Ok(Datum::text(""))
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

/// Of the checkpointer and the background writer.
fn shared(host: &StatementHost<'_>, name: &str) -> Option<Datum> {
    let stats = host.cluster.engine.stats();
    let c = stats.checkpoints();
    Some(match name {
        "checkpointer_num_timed" => count(c.timed),
        "checkpointer_num_requested" => count(c.requested),
        "checkpointer_num_performed" => count(c.done),
        "checkpointer_write_time" => Datum::Float8(c.write_ms as f64),
        "checkpointer_sync_time" => Datum::Float8(c.sync_ms as f64),
        "checkpointer_buffers_written" => count(c.buffers_written),
        "checkpointer_stat_reset_time" => reset_time(host, StatsGroup::Checkpointer),
        // There is no standby, and there are no SLRUs; the background writer knows no limit of a round.
        n if n.starts_with("checkpointer_") => count(0),
        "bgwriter_maxwritten_clean" => count(0),
        "bgwriter_buf_written_clean" => count(stats.background_writer().buffers_clean),
        "bgwriter_stat_reset_time" => reset_time(host, StatsGroup::BackgroundWriter),
        "buf_alloc" => count(stats.background_writer().buffers_alloc),
        _ => return None,
    })
}

fn relation(host: &StatementHost<'_>, name: &str, oid: Oid) -> Datum {
    let t = host.cluster.statistics.relation(host.database().oid, oid);
    match name {
        "numscans" => count(t.usage.scans),
        "lastscan" => time(t.last_scan),
        "tuples_returned" => count(t.usage.read),
        "tuples_fetched" => count(t.usage.fetched),
        // Of an index in PostgreSQL 0: kiln_stat_index_writes shows it.
        "tuples_inserted" => count(t.usage.inserted + t.usage.entries),
        "tuples_updated" => count(t.usage.updated),
        "tuples_deleted" => count(t.usage.deleted),
        // Rows keep their place, there are no heap-only tuples; old versions are in undo, and go by themselves.
        "tuples_hot_updated" | "tuples_newpage_updated" | "dead_tuples" => count(0),
        "live_tuples" => count(t.usage.live.max(0) as u64),
        "mod_since_analyze" => Datum::Int8(t.modified_since_analyze),
        "ins_since_vacuum" => Datum::Int8(t.inserted_since_vacuum),
        "last_vacuum_time" => time(t.last_vacuum),
        "last_analyze_time" => time(t.last_analyze),
        "vacuum_count" => count(t.vacuums),
        "analyze_count" => count(t.analyzes),
        "total_vacuum_time" => Datum::Float8(t.vacuum_ms),
        "total_analyze_time" => Datum::Float8(t.analyze_ms),
        // Nobody vacuums or analyzes by himself.
        "autovacuum_count" | "autoanalyze_count" => count(0),
        "total_autovacuum_time" | "total_autoanalyze_time" => Datum::Float8(0.0),
        _ => Datum::Null,
    }
}

fn database(host: &StatementHost<'_>, name: &str, oid: Oid) -> Datum {
    let d = host.cluster.statistics.database(oid);
    let ms = |us: u64| Datum::Float8(us as f64 / 1000.0);
    let temporary = || host.cluster.used_database(oid).map_or((0, 0), |d| d.temp.totals());
    match name {
        "numbackends" => {
            let is_here = |c: &crate::client::SessionControl| {
                c.activity.lock().unwrap_or_else(|e| e.into_inner()).database_oid == oid
            };
            Datum::Int4(host.cluster.sessions().all().iter().filter(|c| is_here(c)).count() as i32)
        }
        "xact_commit" => count(d.commits),
        "xact_rollback" => count(d.rollbacks),
        "tuples_returned" => count(d.returned),
        "tuples_fetched" => count(d.fetched),
        "tuples_inserted" => count(d.inserted),
        "tuples_updated" => count(d.updated),
        "tuples_deleted" => count(d.deleted),
        "deadlocks" => count(d.deadlocks),
        "sessions" => count(d.sessions),
        "session_time" => ms(d.session_us),
        "active_time" => ms(d.active_us),
        "idle_in_transaction_time" => ms(d.idle_in_transaction_us),
        "temp_files" => count(temporary().0),
        "temp_bytes" => count(temporary().1),
        "stat_reset_time" => host.cluster.statistics.reset_time(oid).map_or(Datum::Null, Datum::TimestampTz),
        // There are no standbys and no parallel workers.
        n if n.starts_with("conflict_") || n.starts_with("parallel_workers") => count(0),
        // Not counted: which database a page is of, times of reads and writes, why sessions ended, damaged pages.
        _ => Datum::Null,
    }
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
pub fn io(host: &StatementHost<'_>) -> Result<Vec<Vec<Datum>>> {
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
pub fn progress(host: &StatementHost<'_>, args: &[Datum]) -> Result<Vec<Vec<Datum>>> {
    let kind = text_of(args.first()).to_ascii_uppercase();
    if !["VACUUM", "ANALYZE", "CLUSTER", "CREATE INDEX", "BASEBACKUP", "COPY"].contains(&kind.as_str()) {
        return Err(Error::new(
            sqlstate::INVALID_PARAMETER_VALUE,
            format!("invalid command name: \"{}\"", text_of(args.first())),
        ));
    }
    let mut rows = Vec::new();
    for control in host.cluster.sessions().all() {
        let Some(Progress { relation, values, .. }) = control.progress.read(&kind) else { continue };
        let database = control.activity.lock().unwrap_or_else(|e| e.into_inner()).database_oid;
        let mut row = vec![Datum::Int4(control.process_id), Datum::Oid(database), Datum::Oid(relation)];
        row.extend(values.iter().map(|v| Datum::Int8(*v)));
        rows.push(row);
    }
    Ok(rows)
}
