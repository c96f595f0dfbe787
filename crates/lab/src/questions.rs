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
    /// What is asked instead where a view of ours is missing.
    elsewhere: Option<&'static str>,
}

/// The question that is answered with keys.
const HOT_ROWS: &str = "hot_rows";
/// The question that is answered with ages.
const QUEUES: &str = "queues";
const UNDEFINED_TABLE: &str = "42P01";

const fn question(name: &'static str, sql: &'static str) -> ServerQuestion {
    ServerQuestion { name, sql, elsewhere: None }
}

pub const QUESTIONS: [ServerQuestion; 16] = [
    question(
        "server",
        "select version() as version, pg_postmaster_start_time() as started, clock_timestamp() as now, current_user as role, \
              current_setting('max_connections') as max_connections",
    ),
    question(
        "throughput",
        "select sum(xact_commit) as commits, sum(xact_rollback) as rollbacks, sum(tup_inserted) as inserted, sum(tup_updated) as updated, \
              sum(tup_deleted) as deleted, sum(tup_fetched) as fetched, sum(deadlocks) as deadlocks, sum(temp_bytes) as temporary_bytes, \
              extract(epoch from clock_timestamp()) as at from pg_stat_database",
    ),
    question(
        "sessions",
        "select coalesce(state, backend_type) as state, case when state = 'active' then coalesce(wait_event_type || ': ' || wait_event, 'running') else '' end as wait, \
              count(*) as sessions, extract(epoch from max(clock_timestamp() - state_change))::numeric(20,1) as longest_s \
              from pg_stat_activity where pid <> pg_backend_pid() group by 1, 2 order by 3 desc",
    ),
    question(
        "locks",
        "select a.pid, pg_blocking_pids(a.pid) as waits_for, a.usename as role, a.wait_event as for_what, \
              extract(epoch from clock_timestamp() - a.query_start)::numeric(20,1) as seconds, left(a.query, 200) as statement \
              from (select * from pg_stat_activity where wait_event_type = 'Lock' order by query_start limit 50) a order by a.query_start",
    ),
    question(
        "tables",
        "select s.schemaname || '.' || s.relname as table, s.n_live_tup as rows, s.n_tup_ins as inserted, s.n_tup_upd as updated, s.n_tup_del as deleted, \
              s.seq_scan as scans, s.idx_scan as index_scans, pg_size_pretty(pg_total_relation_size(s.relid)) as size, s.last_autoanalyze as analyzed \
              from (select * from pg_stat_user_tables order by n_tup_ins + n_tup_upd + n_tup_del desc limit 30) s order by s.n_tup_ins + s.n_tup_upd + s.n_tup_del desc",
    ),
    question(
        "partitions",
        "select p.oid::regclass::text as parent, c.relname as partition, s.n_tup_ins + s.n_tup_upd + s.n_tup_del as changes, c.reltuples::bigint as rows \
              from pg_inherits i join pg_class p on p.oid = i.inhparent and p.relkind = 'p' join pg_class c on c.oid = i.inhrelid and c.relkind in ('r', 'p') \
              join pg_stat_user_tables s on s.relid = c.oid order by 1, 2 limit 2048",
    ),
    question(
        "log",
        "select wal_records as records, wal_bytes as bytes, wal_buffers_full as buffers_full, pg_current_wal_lsn() as position, \
              pg_current_wal_flush_lsn() as flushed from pg_stat_wal",
    ),
    question(
        "checkpoints",
        "select num_timed as timed, num_requested as requested, num_done as done, write_time as write_ms, sync_time as sync_ms, \
              buffers_written as pages from pg_stat_checkpointer",
    ),
    ServerQuestion {
        name: "snapshots",
        sql: "select a.pid, a.usename as role, a.state, extract(epoch from clock_timestamp() - a.xact_start)::numeric(20,1) as seconds, \
              s.transactions_since as commits_since, pg_size_pretty(s.undo_bytes) as keeps_undo, left(a.query, 200) as statement \
              from pg_stat_activity a left join (select pid, max(transactions_since) as transactions_since, max(undo_bytes) as undo_bytes \
              from kiln_stat_snapshots group by pid) s on s.pid = a.pid \
              where a.xact_start is not null and a.pid <> pg_backend_pid() order by a.xact_start limit 20",
        elsewhere: Some(
            "select pid, usename as role, state, extract(epoch from clock_timestamp() - xact_start)::numeric(20,1) as seconds, left(query, 200) as statement \
             from pg_stat_activity where xact_start is not null and pid <> pg_backend_pid() order by xact_start limit 20",
        ),
    },
    question(
        "undo",
        "select pg_size_pretty(bytes) as undo, pg_size_pretty(transactions_bytes) as of_transactions, pg_size_pretty(snapshots_bytes) as of_old_snapshots \
         from kiln_stat_undo",
    ),
    question("commits", "select from_us, samples, total_us from kiln_stat_commits where samples > 0"),
    question(
        "inverted_indexes",
        "select quote_ident(schemaname) || '.' || quote_ident(relname) as table, indexrelname as index, pending_rows, pg_size_pretty(pending_bytes) as pending \
         from kiln_stat_inverted_indexes order by pending_bytes desc, 1, 2 limit 20",
    ),
    // Out of a queue about as much goes as comes in. Its first column of a time says when a row came, if asking for the oldest is cheap.
    question(
        QUEUES,
        "select quote_ident(s.schemaname) || '.' || quote_ident(s.relname) as table, s.n_live_tup as depth, s.n_tup_ins as inserted, s.n_tup_del as deleted, \
         case when s.n_live_tup <= 10000 or exists (select 1 from pg_index x where x.indrelid = s.relid and x.indisvalid and x.indpred is null \
         and x.indkey[0] = a.attnum and (select amname from pg_class i join pg_am m on m.oid = i.relam where i.oid = x.indexrelid) = 'btree') \
         then quote_ident(a.attname) end as oldest_s from pg_stat_user_tables s left join lateral (select attname, attnum from pg_attribute \
         where attrelid = s.relid and attnum > 0 and not attisdropped and atttypid in ('timestamp'::regtype, 'timestamptz'::regtype) \
         order by attnum limit 1) a on true where s.n_tup_ins > 100 and s.n_tup_del > 100 and s.n_tup_del * 2 >= s.n_tup_ins order by s.n_tup_del desc limit 10",
    ),
    question(
        "slow_statements",
        "select longest_ms::numeric(20,1) as longest_ms, (total_ms / executions)::numeric(20,1) as mean_ms, executions, datname as database, usename as role, \
         to_char(last_at, 'HH24:MI:SS') as last, left(statement, 400) as statement, plan from kiln_stat_slow_statements order by kiln_stat_slow_statements.longest_ms desc limit 10",
    ),
    question(
        "statements",
        "select pid, usename as role, extract(epoch from clock_timestamp() - query_start)::numeric(20,1) as seconds, \
              coalesce(wait_event_type || ': ' || wait_event, 'running') as wait, left(query, 400) as statement \
              from pg_stat_activity where state = 'active' and pid <> pg_backend_pid() order by query_start limit 20",
    ),
    question(
        HOT_ROWS,
        "select quote_ident(h.schemaname) || '.' || quote_ident(h.relname) as table, h.row_tid as place, h.updates_per_second::bigint as updates_per_second, \
              h.waiters, h.holder_pid as held_by, (select string_agg(quote_ident(a.attname), ', ' order by array_position(x.indkey::int2[], a.attnum)) \
              from pg_index x join pg_attribute a on a.attrelid = x.indrelid and a.attnum = any (x.indkey::int2[]) where x.indrelid = h.relid and x.indisprimary) as key_columns \
              from kiln_stat_hot_rows h order by h.waiters desc, h.updates_per_second desc limit 20",
    ),
];

impl ServerQuestion {
    pub fn find(name: &str) -> Option<&'static ServerQuestion> {
        QUESTIONS.iter().find(|question| question.name == name)
    }

    pub fn ask(&self, client: &mut Client) -> Result<Answer, ClientError> {
        let answers = match (client.query(self.sql), self.elsewhere) {
            (Err(ClientError::Server(e)), Some(sql)) if e.code == UNDEFINED_TABLE => client.query(sql)?,
            (answers, _) => answers?,
        };
        let mut answer = answers.into_iter().next_back().unwrap_or_default();
        match self.name {
            HOT_ROWS => add_keys(client, &mut answer)?,
            QUEUES => add_ages(client, &mut answer)?,
            _ => {}
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
        // Names come quoted from the server, and a place is two numbers.
        let asked = match (text(TABLE), text(PLACE), text(KEY_COLUMNS)) {
            (Some(table), Some(place), Some(columns)) => {
                Some(format!("select concat_ws(', ', {columns}) from {table} where ctid = '{place}'"))
            }
            _ => None,
        };
        put_value(client, row.get_mut(KEY_COLUMNS), asked)?;
    }
    if let Some((name, _)) = hot_rows.columns.get_mut(KEY_COLUMNS) {
        *name = "key".into();
    }
    Ok(())
}

/// Puts the ages of the oldest rows in the place of the names of the columns that tell them.
fn add_ages(client: &mut Client, queues: &mut Answer) -> Result<(), ClientError> {
    const TABLE: usize = 0;
    const TIME_COLUMN: usize = 4;
    for row in &mut queues.rows {
        let text = |at: usize| row.get(at).and_then(Option::as_deref);
        let asked = text(TABLE).zip(text(TIME_COLUMN)).map(|(table, column)| {
            format!("select extract(epoch from clock_timestamp() - min({column}))::numeric(20,1) from {table}")
        });
        put_value(client, row.get_mut(TIME_COLUMN), asked)?;
    }
    Ok(())
}

/// Puts what the server answers where the question was made of. What it refuses, as for want of a right, is not there.
fn put_value(
    client: &mut Client,
    place: Option<&mut Option<String>>,
    asked: Option<String>,
) -> Result<(), ClientError> {
    let answered = match asked.map(|sql| client.value(&sql)) {
        Some(Err(ClientError::Server(_))) | None => None,
        Some(answered) => answered?,
    };
    if let Some(place) = place {
        *place = answered;
    }
    Ok(())
}
