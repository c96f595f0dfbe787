//! Rows of the functions behind the system views: exactly the OUT columns that pg_proc tells of them.

use super::StatementHost;
use super::session_function::{session_functions, session_rows};
use crate::client::{BackendKind, SessionControl, WaitKind};
use crate::settings::{Context, Kind, definitions, is_confidential};
use crate::tls_facts::{ClientCertificate, TlsFacts};
use kilndb_base::hash::HashMap;
use kilndb_base::{Oid, Result};
use kilndb_catalog::extension::{EXTENSIONS, Extension};
use kilndb_catalog::ids::PG_CLASS;
use kilndb_catalog::lock_class::{ADVISORY_PAIR_LOCK, RELATION_LOCK};
use kilndb_catalog::roles::{PG_READ_ALL_SETTINGS, PG_READ_ALL_STATS};
use kilndb_catalog::store::array;
use kilndb_storage::{HotRow, LockMode, ReadLockKind};
use kilndb_types::{Datum, EvalContext, oids};
use std::cell::OnceCell;

session_rows! {
    fn pg_show_all_settings(call) = Ok(settings(call.host));
    fn pg_stat_get_activity(call) = activity(call.host, call.args);
    fn pg_lock_status(call) = {
        let mut rows = locks(call.host);
        rows.extend(read_locks(call.host)?);
        Ok(rows)
    };
    fn pg_listening_channels(call) = Ok(super::notifications::channels(&call.host.scratch.listening));
    fn pg_prepared_statement(call) = Ok(call.host.named.prepared_rows());
    fn kiln_stat_plans(call) = plans(call.host);
    fn kiln_hot_rows(call) = hot_rows(call.host);
    fn pg_cursor(call) = Ok(call.host.named.cursor_rows());
    fn aclexplode(call) = privileges(call.args);
    // There are no foreign options.
    fn pg_options_to_table(_call) = Ok(Vec::new());
    fn pg_available_extensions(_call) = Ok(available_extensions());
    fn pg_available_extension_versions(_call) = Ok(available_extension_versions());
    // There is one version of each.
    fn pg_extension_update_paths(_call) = Ok(Vec::new());
    fn pg_partition_tree(call) = call.host.partition_tree_rows(call.oid(0));
    fn pg_partition_ancestors(call) = {
        Ok(call.host.partition_ancestors(call.oid(0))?.into_iter().map(|o| vec![Datum::Oid(o)]).collect())
    };
}
session_functions! {
    fn pg_blocking_pids(call) = Ok(blocking_pids(call.host, call.int(0) as i32));
}

/// Each privilege of a list as a row: who has granted it to whom.
fn privileges(args: &[Datum]) -> Result<Vec<Vec<Datum>>> {
    let Some(Datum::Array(list)) = args.first() else { return Ok(Vec::new()) };
    let mut rows = Vec::new();
    for item in kilndb_types::functions::acl::items(list)? {
        for (name, is_grantable) in item.named_privileges() {
            rows.push(vec![
                Datum::Oid(item.grantor),
                Datum::Oid(item.grantee),
                Datum::text(name),
                Datum::Bool(is_grantable),
            ]);
        }
    }
    Ok(rows)
}

/// The type of client addresses.
pub(super) const INET: Oid = 869;

fn optional(text: Option<&str>) -> Datum {
    text.map_or(Datum::Null, Datum::text)
}

fn settings(host: &StatementHost<'_>) -> Vec<Vec<Datum>> {
    let server = host.cluster.settings();
    let sees_all = host.has_privileges_of(PG_READ_ALL_SETTINGS).unwrap_or(false);
    definitions()
        .into_iter()
        .filter(|d| !matches!(d.name, "role" | "session_authorization"))
        .filter(|d| sees_all || !is_confidential(d.name))
        .map(|d| {
            // The server's settings may have changed since the session began.
            let value =
                if d.context <= Context::Sighup { server.get(d.name) } else { host.settings.get(d.name).unwrap_or("") };
            let number = |v: f64| {
                if v == f64::MIN || v == f64::MAX || matches!(d.kind, Kind::String | Kind::Bool | Kind::Enum) {
                    Datum::Null
                } else {
                    Datum::text(v.to_string())
                }
            };
            let kind = match d.kind {
                Kind::Bool => "bool",
                Kind::Integer => "integer",
                Kind::Real => "real",
                Kind::String => "string",
                Kind::Enum => "enum",
            };
            let enums = match d.kind {
                Kind::Enum => array(oids::TEXT, d.enum_values.iter().map(Datum::text).collect()),
                _ => Datum::Null,
            };
            vec![
                Datum::text(d.name),
                Datum::text(value),
                optional(d.unit),
                Datum::text(d.category),
                Datum::text(""),
                Datum::Null,
                Datum::text(d.context.as_str()),
                Datum::text(kind),
                Datum::text(if d.context <= Context::Sighup {
                    server.source(d.name)
                } else {
                    host.settings.source(d.name)
                }),
                number(d.min),
                number(d.max),
                enums,
                Datum::text(&d.boot_value),
                Datum::text(if d.context <= Context::Sighup {
                    value
                } else {
                    host.settings.reset_value(d.name).unwrap_or("")
                }),
                Datum::Null,
                Datum::Null,
                Datum::Bool(false),
            ]
        })
        .collect()
}

fn activity(host: &StatementHost<'_>, args: &[Datum]) -> Result<Vec<Vec<Datum>>> {
    let time = |t: Option<i64>| t.map_or(Datum::Null, Datum::TimestampTz);
    let only = match args.first() {
        Some(Datum::Int4(pid)) => Some(*pid),
        _ => None,
    };
    let eval = host.eval();
    let mut rows = Vec::new();
    let sees_all = host.has_privileges_of(PG_READ_ALL_STATS)?;
    let awaited = AwaitedLocks::default();
    for control in host.cluster.sessions().all() {
        if only.is_some_and(|pid| pid != control.process_id) {
            continue;
        }
        let waits_for = control.waits_for();
        let a = control.activity.lock().unwrap_or_else(|e| e.into_inner()).clone();
        let address = a.client_addr.as_deref().and_then(|t| kilndb_types::io::input(INET, t, -1, &eval).ok());
        let port = match (&address, a.client_port) {
            (Some(_), Some(port)) => Datum::Int4(port),
            (Some(_), None) => Datum::Null,
            (None, _) if a.kind == BackendKind::Client => Datum::Int4(-1),
            // Nobody is connected to it.
            (None, _) => Datum::Null,
        };
        let wait = match a.state {
            "active" if waits_for != WaitKind::Lock && awaits_safe_snapshot(host, a.lock_owner) => {
                Some(("IPC", "SafeSnapshot"))
            }
            "active" => match waits_for {
                WaitKind::Nothing => None,
                WaitKind::Lock => Some(("Lock", awaited.kind(host, a.lock_owner))),
                WaitKind::Time => Some(("Timeout", "PgSleep")),
                WaitKind::ClientRead => Some(("Client", "ClientRead")),
                WaitKind::ClientWrite => Some(("Client", "ClientWrite")),
            },
            _ => Some(("Client", "ClientRead")),
        };
        let null = Datum::Null;
        let mut row = Vec::from([
            Datum::Oid(a.database_oid),
            Datum::Int4(control.process_id),
            Datum::Oid(a.user_oid),
            Datum::text(&a.application_name),
            Datum::text(a.state),
            Datum::text(&a.query),
            optional(wait.map(|(kind, _)| kind)),
            optional(wait.map(|(_, event)| event)),
            time(a.xact_start),
            time(a.query_start),
            Datum::TimestampTz(a.backend_start),
            Datum::TimestampTz(a.state_change),
            address.unwrap_or_default(),
            null.clone(),
            port,
            null.clone(),
            null.clone(),
            Datum::text(a.kind.words()),
        ]);
        row.extend(encryption(a.tls.as_deref(), &eval));
        row.extend([Datum::Bool(false), null.clone(), Datum::Bool(false), Datum::Bool(false), null.clone(), null]);
        if !sees_all && !host.has_privileges_of(a.user_oid)? {
            hide_activity(&mut row);
        }
        rows.push(row);
    }
    Ok(rows)
}

pub(super) const HIDDEN: &str = "<insufficient privilege>";

/// Rows of kiln_stat_plans(). Nobody knows whose the statements are: their texts are for those who read all statistics.
fn plans(host: &StatementHost<'_>) -> Result<Vec<Vec<Datum>>> {
    const STATEMENT: usize = 1;
    const DESCRIPTION: usize = 8;
    let mut rows = host.named.plan_rows();
    if !host.has_privileges_of(PG_READ_ALL_STATS)? {
        for row in &mut rows {
            row[STATEMENT] = Datum::text(HIDDEN);
            row[DESCRIPTION] = Datum::Null;
        }
    }
    Ok(rows)
}

/// Rows that kiln_hot_rows() tells of.
const HOT_ROWS_MAX: usize = 100;

/// Rows of kiln_hot_rows(): of tables in this database.
fn hot_rows(host: &StatementHost<'_>) -> Result<Vec<Vec<Datum>>> {
    let found = host.cluster.engine.hot_rows(HOT_ROWS_MAX);
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let by_storage = relations_by_storage(host)?;
    let pids = pids_by_owner(host);
    let row = |hot: HotRow| {
        let relation = by_storage.get(&hot.relation.0)?;
        let holder = hot.holder.and_then(|owner| pids.get(&owner));
        Some(vec![
            Datum::Oid(*relation),
            Datum::Tid(hot.row.block, hot.row.slot),
            Datum::Float8(hot.updates_per_second),
            Datum::Int8(hot.waiters as i64),
            holder.map_or(Datum::Null, |pid| Datum::Int4(*pid)),
        ])
    };
    Ok(found.into_iter().filter_map(row).collect())
}

/// The relations of this database, by what storage knows them by.
pub(super) fn relations_by_storage(host: &StatementHost<'_>) -> Result<HashMap<Oid, Oid>> {
    let classes = host.reader.scan(PG_CLASS)?;
    Ok(classes.iter().map(|c| (c.oid("relfilenode"), c.oid("oid"))).collect())
}

/// The process ids of the sessions that own locks, by owner.
pub(super) fn pids_by_owner(host: &StatementHost<'_>) -> HashMap<u64, i32> {
    let sessions = host.cluster.sessions().all();
    let owner = |c: &SessionControl| c.activity.lock().unwrap_or_else(|e| e.into_inner()).lock_owner;
    sessions.iter().filter_map(|c| Some((owner(c)?, c.process_id))).collect()
}

/// Leaves of a session's row what everybody may see: where it is, who it is, what its program calls itself.
fn hide_activity(row: &mut [Datum]) {
    const STATE: usize = 4;
    const QUERY: usize = 5;
    row[STATE..].fill(Datum::Null);
    row[QUERY] = Datum::text(HIDDEN);
}

/// Names in pg_stat_ssl are as long as PostgreSQL keeps them, in bytes.
const NAME_BYTES_MAX: usize = 63;

fn truncated(name: &str) -> &str {
    let mut end = name.len().min(NAME_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// The columns of pg_stat_ssl.
fn encryption(tls: Option<&TlsFacts>, eval: &EvalContext<'_>) -> [Datum; 7] {
    let Some(tls) = tls else {
        let mut none = [const { Datum::Null }; 7];
        none[0] = Datum::Bool(false);
        return none;
    };
    let client = tls.client.as_ref();
    let name = |of: fn(&ClientCertificate) -> &str| client.map_or(Datum::Null, |c| Datum::text(truncated(of(c))));
    let serial = client.and_then(|c| kilndb_types::io::input(oids::NUMERIC, &c.serial, -1, eval).ok());
    [
        Datum::Bool(true),
        Datum::text(tls.version),
        Datum::text(tls.cipher),
        Datum::Int4(tls.cipher_bits),
        name(|c| &c.subject),
        serial.unwrap_or_default(),
        name(|c| &c.issuer),
    ]
}

fn awaits_safe_snapshot(host: &StatementHost<'_>, owner: Option<u64>) -> bool {
    owner.is_some_and(|owner| !host.cluster.engine.safe_snapshot_blockers(owner).is_empty())
}

/// The locks of the lock table that owners wait for, which are looked through once, and only if somebody waits for a lock: thousands
/// may wait.
#[derive(Default)]
struct AwaitedLocks(OnceCell<HashMap<u64, &'static str>>);

impl AwaitedLocks {
    /// PostgreSQL's name for the kind of lock that the owner waits for.
    fn kind(&self, host: &StatementHost<'_>, owner: Option<u64>) -> &'static str {
        let engine = &host.cluster.engine;
        let by_owner = self.0.get_or_init(|| {
            let awaited = engine.locks_snapshot().into_iter().filter(|lock| !lock.granted);
            awaited
                .map(|lock| (lock.owner, if lock.tag.0 == RELATION_LOCK { "relation" } else { "advisory" }))
                .collect()
        });
        match owner.and_then(|owner| by_owner.get(&owner)) {
            Some(kind) => kind,
            None if owner.is_some_and(|owner| engine.waits_in_line(owner)) => "tuple",
            None => "transactionid",
        }
    }
}

/// Process ids of the sessions that one waits for.
fn blocking_pids(host: &StatementHost<'_>, pid: i32) -> Datum {
    let sessions = host.cluster.sessions();
    let owner = |c: &SessionControl| c.activity.lock().unwrap_or_else(|e| e.into_inner()).lock_owner;
    let waiting = sessions.get(pid).filter(|c| c.waits_for() == WaitKind::Lock);
    let blockers = waiting.map_or(Vec::new(), |c| {
        let mut blockers = owner(&c).map_or(Vec::new(), |o| host.cluster.engine.blockers_of(o));
        blockers.extend(&c.activity.lock().unwrap_or_else(|e| e.into_inner()).waits_for_owners);
        blockers
    });
    let mut pids = Vec::new();
    if !blockers.is_empty() {
        let all = sessions.all();
        pids.extend(
            all.iter().filter(|c| owner(c).is_some_and(|o| blockers.contains(&o))).map(|c| Datum::Int4(c.process_id)),
        );
    }
    array(oids::INT4, pids)
}

pub fn mode_name(mode: LockMode) -> &'static str {
    match mode {
        LockMode::AccessShare => "AccessShareLock",
        LockMode::RowShare => "RowShareLock",
        LockMode::RowExclusive => "RowExclusiveLock",
        LockMode::ShareUpdateExclusive => "ShareUpdateExclusiveLock",
        LockMode::Share => "ShareLock",
        LockMode::ShareRowExclusive => "ShareRowExclusiveLock",
        LockMode::Exclusive => "ExclusiveLock",
        LockMode::AccessExclusive => "AccessExclusiveLock",
    }
}

fn locks(host: &StatementHost<'_>) -> Vec<Vec<Datum>> {
    let pids = pids_by_owner(host);
    let mut rows = Vec::new();
    for lock in host.cluster.engine.locks_snapshot() {
        let (class, database, object) = (lock.tag.0, lock.tag.1, lock.tag.2);
        let is_relation = class == RELATION_LOCK;
        let pid = pids.get(&lock.owner).copied();
        let mut row = vec![Datum::Null; 16];
        row[0] = Datum::text(if is_relation { "relation" } else { "advisory" });
        row[1] = Datum::Oid(database as Oid);
        if is_relation {
            row[2] = Datum::Oid(object as Oid);
        } else {
            row[7] = Datum::Oid((object >> 32) as Oid);
            row[8] = Datum::Oid(object as u32);
            row[9] = Datum::Int2(if class == ADVISORY_PAIR_LOCK { 2 } else { 1 });
        }
        row[10] = Datum::text(format!("{}/{}", pid.unwrap_or(0), lock.owner));
        row[11] = pid.map_or(Datum::Null, Datum::Int4);
        row[12] = Datum::text(mode_name(lock.mode));
        row[13] = Datum::Bool(lock.granted);
        row[14] = Datum::Bool(lock.fast);
        rows.push(row);
    }
    rows
}

/// SIREAD locks in this database.
fn read_locks(host: &StatementHost<'_>) -> Result<Vec<Vec<Datum>>> {
    let all = host.cluster.engine.read_locks_snapshot();
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let by_storage = relations_by_storage(host)?;
    let mut rows = Vec::new();
    for lock in all {
        let Some(relation) = by_storage.get(&lock.relation.0) else { continue };
        // Also of a session that has gone since.
        let pid = lock.session.map(|pid| pid as i32);
        let mut row = vec![Datum::Null; 16];
        row[0] = Datum::text(match lock.kind {
            ReadLockKind::Relation => "relation",
            ReadLockKind::Page(_) | ReadLockKind::KeyRange => "page",
            ReadLockKind::Row(_) => "tuple",
        });
        row[1] = Datum::Oid(host.reader.database.oid);
        row[2] = Datum::Oid(*relation);
        match lock.kind {
            ReadLockKind::Page(block) => row[3] = Datum::Int4(block as i32),
            ReadLockKind::Row(rid) => {
                row[3] = Datum::Int4(rid.block as i32);
                row[4] = Datum::Int2(rid.slot as i16);
            }
            ReadLockKind::Relation | ReadLockKind::KeyRange => {}
        }
        row[10] = Datum::text(format!("{}/{}", pid.unwrap_or(0), 0));
        row[11] = pid.map_or(Datum::Null, Datum::Int4);
        row[12] = Datum::text("SIReadLock");
        row[13] = Datum::Bool(true);
        row[14] = Datum::Bool(false);
        rows.push(row);
    }
    Ok(rows)
}

/// Rows of pg_available_extensions(): name, version, comment.
fn available_extensions() -> Vec<Vec<Datum>> {
    EXTENSIONS.iter().map(|e| vec![Datum::text(e.name), Datum::text(e.version), Datum::text(e.comment)]).collect()
}

/// Rows of pg_available_extension_versions().
fn available_extension_versions() -> Vec<Vec<Datum>> {
    let row = |e: &Extension| {
        let schema = e.schema.map_or(Datum::Null, Datum::text);
        let flags = [true, e.trusted, e.is_relocatable()].map(Datum::Bool);
        [
            vec![Datum::text(e.name), Datum::text(e.version)],
            flags.to_vec(),
            vec![schema, Datum::Null, Datum::text(e.comment)],
        ]
        .concat()
    };
    EXTENSIONS.iter().map(row).collect()
}
