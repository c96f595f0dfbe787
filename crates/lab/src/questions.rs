//! What may be asked of a server about what it does, in SQL: a row here is a table or a figure of the console's page and of
//! `kilndb top`.
//!
//! 1. Nothing that a user has said becomes part of a question, but for names that the server itself has quoted.
//! 2. A server of another product may not know what is asked for; whoever asks goes on without.
//!
//! Must not know: how answers are shown.

use crate::client::{Answer, Client, ClientError};

/// A question by its name.
pub struct ServerQuestion {
    pub name: &'static str,
    pub sql: &'static str,
}

/// The question that is answered with keys.
const HOT_ROWS: &str = "hot_rows";

pub const QUESTIONS: [ServerQuestion; 11] = [
    ServerQuestion {
        name: "server",
        sql: "select version() as version, pg_postmaster_start_time() as started, clock_timestamp() as now, current_user as role, \
              current_setting('max_connections') as max_connections",
    },
    ServerQuestion {
        name: "throughput",
        sql: "select sum(xact_commit) as commits, sum(xact_rollback) as rollbacks, sum(tup_inserted) as inserted, sum(tup_updated) as updated, \
              sum(tup_deleted) as deleted, sum(tup_fetched) as fetched, sum(deadlocks) as deadlocks, sum(temp_bytes) as temporary_bytes, \
              extract(epoch from clock_timestamp()) as at from pg_stat_database",
    },
    ServerQuestion {
        name: "sessions",
        sql: "select coalesce(state, backend_type) as state, case when state = 'active' then coalesce(wait_event_type || ': ' || wait_event, 'running') else '' end as wait, \
              count(*) as sessions, extract(epoch from max(clock_timestamp() - state_change))::numeric(20,1) as longest_s \
              from pg_stat_activity where pid <> pg_backend_pid() group by 1, 2 order by 3 desc",
    },
    ServerQuestion {
        name: "locks",
        sql: "select a.pid, pg_blocking_pids(a.pid) as waits_for, a.usename as role, a.wait_event as for_what, \
              extract(epoch from clock_timestamp() - a.query_start)::numeric(20,1) as seconds, left(a.query, 200) as statement \
              from (select * from pg_stat_activity where wait_event_type = 'Lock' order by query_start limit 50) a order by a.query_start",
    },
    ServerQuestion {
        name: "tables",
        sql: "select s.schemaname || '.' || s.relname as table, s.n_live_tup as rows, s.n_tup_ins as inserted, s.n_tup_upd as updated, s.n_tup_del as deleted, \
              s.seq_scan as scans, s.idx_scan as index_scans, pg_size_pretty(pg_total_relation_size(s.relid)) as size, s.last_autoanalyze as analyzed \
              from (select * from pg_stat_user_tables order by n_tup_ins + n_tup_upd + n_tup_del desc limit 30) s order by s.n_tup_ins + s.n_tup_upd + s.n_tup_del desc",
    },
    ServerQuestion {
        name: "partitions",
        sql: "select p.oid::regclass::text as parent, c.relname as partition, s.n_tup_ins + s.n_tup_upd + s.n_tup_del as changes, c.reltuples::bigint as rows \
              from pg_inherits i join pg_class p on p.oid = i.inhparent and p.relkind = 'p' join pg_class c on c.oid = i.inhrelid and c.relkind in ('r', 'p') \
              join pg_stat_user_tables s on s.relid = c.oid order by 1, 2 limit 2048",
    },
    ServerQuestion {
        name: "log",
        sql: "select wal_records as records, wal_bytes as bytes, wal_buffers_full as buffers_full, pg_current_wal_lsn() as position, \
              pg_current_wal_flush_lsn() as flushed from pg_stat_wal",
    },
    ServerQuestion {
        name: "checkpoints",
        sql: "select num_timed as timed, num_requested as requested, num_done as done, write_time as write_ms, sync_time as sync_ms, \
              buffers_written as pages from pg_stat_checkpointer",
    },
    ServerQuestion {
        name: "snapshots",
        sql: "select pid, usename as role, state, extract(epoch from clock_timestamp() - xact_start)::numeric(20,1) as seconds, left(query, 200) as statement \
              from pg_stat_activity where xact_start is not null and pid <> pg_backend_pid() order by xact_start limit 20",
    },
    ServerQuestion {
        name: "statements",
        sql: "select pid, usename as role, extract(epoch from clock_timestamp() - query_start)::numeric(20,1) as seconds, \
              coalesce(wait_event_type || ': ' || wait_event, 'running') as wait, left(query, 400) as statement \
              from pg_stat_activity where state = 'active' and pid <> pg_backend_pid() order by query_start limit 20",
    },
    ServerQuestion {
        name: HOT_ROWS,
        sql: "select quote_ident(h.schemaname) || '.' || quote_ident(h.relname) as table, h.row_tid as place, h.updates_per_second::bigint as updates_per_second, \
              h.waiters, h.holder_pid as held_by, (select string_agg(quote_ident(a.attname), ', ' order by array_position(x.indkey::int2[], a.attnum)) \
              from pg_index x join pg_attribute a on a.attrelid = x.indrelid and a.attnum = any (x.indkey::int2[]) where x.indrelid = h.relid and x.indisprimary) as key_columns \
              from kiln_stat_hot_rows h order by h.waiters desc, h.updates_per_second desc limit 20",
    },
];

impl ServerQuestion {
    pub fn find(name: &str) -> Option<&'static ServerQuestion> {
        QUESTIONS.iter().find(|question| question.name == name)
    }

    pub fn ask(&self, client: &mut Client) -> Result<Answer, ClientError> {
        let mut answer = client.query(self.sql)?.into_iter().next_back().unwrap_or_default();
        if self.name == HOT_ROWS {
            add_keys(client, &mut answer)?;
        }
        Ok(answer)
    }
}

/// Puts the rows' primary keys in the place of the columns' names, of the tables that the role may read.
fn add_keys(client: &mut Client, hot_rows: &mut Answer) -> Result<(), ClientError> {
    const TABLE: usize = 0;
    const PLACE: usize = 1;
    const KEY_COLUMNS: usize = 5;
    for row in &mut hot_rows.rows {
        let text = |at: usize| row.get(at).and_then(Option::as_deref);
        let key = match (text(TABLE), text(PLACE), text(KEY_COLUMNS)) {
            (Some(table), Some(place), Some(columns)) => {
                // Names come quoted from the server, and a place is two numbers.
                match client.value(&format!("select concat_ws(', ', {columns}) from {table} where ctid = '{place}'")) {
                    Ok(key) => key,
                    Err(ClientError::Server(_)) => None,
                    Err(e) => return Err(e),
                }
            }
            _ => None,
        };
        if let Some(value) = row.get_mut(KEY_COLUMNS) {
            *value = key;
        }
    }
    if let Some((name, _)) = hot_rows.columns.get_mut(KEY_COLUMNS) {
        *name = "key".into();
    }
    Ok(())
}
