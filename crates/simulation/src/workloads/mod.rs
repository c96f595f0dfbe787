//! What clients do to one process beside the sessions of `sim`'s histories and definitions: each workload has its tables,
//! its clients, which work until their connections break, and what must hold of its tables at any time.
//!
//! A new one is a file here and a row in [`WORKLOADS`].

mod bulk;
mod changed_table;
mod counters;
mod documents;
mod jobs;
mod keyed;
pub mod numbers;
mod queue;
mod report;
mod undecided;

use kilndb_lab::client::{Answer, ClientError, Connection, ServerError};
use kilndb_sim::definitions::SideWork;
use kilndb_sim::random::Random;
use std::time::Duration;

pub type WorkloadResult = Result<(), ClientError>;

pub struct Workload {
    /// Statements that make them.
    pub tables: &'static str,
    /// The clients' names, by which they can be left out of a run, and what they do.
    pub clients: &'static [(&'static str, SideWork)],
    /// Holds of the tables whenever nobody is in the middle of something.
    pub check: fn(&mut dyn Connection, &mut Random) -> WorkloadResult,
}

pub(crate) const WORKLOADS: [Workload; 9] = [
    documents::WORKLOAD,
    queue::WORKLOAD,
    bulk::WORKLOAD,
    jobs::WORKLOAD,
    counters::WORKLOAD,
    undecided::WORKLOAD,
    report::WORKLOAD,
    changed_table::WORKLOAD,
    keyed::WORKLOAD,
];

/// What no server may do.
fn wrong(message: String) -> ClientError {
    let severity = "ERROR".to_string();
    ClientError::Server(ServerError { severity, code: "wrong".into(), message, detail: None })
}

/// Runs a text; a deadlock is rolled back.
fn attempt(client: &mut dyn Connection, sql: &str) -> WorkloadResult {
    match client.query(sql) {
        Err(ClientError::Server(e)) if e.code == "40P01" => client.query("rollback").map(drop),
        done => done.map(drop),
    }
}

fn pause(client: &mut dyn Connection, random: &mut Random, longest_us: u64) {
    client.pause(Duration::from_micros(random.below(longest_us)));
}

/// Two ways to ask, at two times or by two plans, have found the same.
fn same_rows(what: &str, one: &[Answer], other: &[Answer]) -> WorkloadResult {
    let rows = |answers: &[Answer]| answers.last().map(|a| a.rows.clone());
    let (one, other) = (rows(one), rows(other));
    if one == other {
        return Ok(());
    }
    Err(wrong(format!("{what}: one way finds {one:?}, the other one {other:?}")))
}

/// How an index is read where a check compares it with the table.
#[derive(Clone, Copy)]
enum IndexScan {
    Plain,
    Bitmap,
}

/// Asks by an index, and by a scan of the table. The caller's snapshot is the same for both. Returns what they found.
fn by_index_and_scan(client: &mut dyn Connection, sql: &str, index: IndexScan) -> Result<Vec<Answer>, ClientError> {
    client.query(match index {
        IndexScan::Plain => "set enable_seqscan = off; set enable_bitmapscan = off",
        IndexScan::Bitmap => "set enable_seqscan = off",
    })?;
    let with = client.query(sql)?;
    client.query(
        "reset enable_seqscan; set enable_bitmapscan = off; set enable_indexscan = off; set enable_indexonlyscan = off",
    )?;
    let without = client.query(sql)?;
    client.query("reset enable_bitmapscan; reset enable_indexscan; reset enable_indexonlyscan")?;
    same_rows(sql, &without, &with)?;
    Ok(with)
}

/// Asks as [`by_index_and_scan`] does, in a transaction of its own.
fn check_index(client: &mut dyn Connection, sql: &str, index: IndexScan) -> WorkloadResult {
    client.query("begin isolation level repeatable read")?;
    by_index_and_scan(client, sql, index)?;
    client.query("commit").map(drop)
}

/// Takes snapshots, and looks several times with each, until the connection breaks. Each finds the same all the time.
/// One in three is held for long.
fn watch(
    client: &mut dyn Connection,
    random: &mut Random,
    mut look: impl FnMut(&mut dyn Connection) -> Result<Vec<Answer>, ClientError>,
) -> WorkloadResult {
    loop {
        client.query("begin isolation level repeatable read")?;
        let first = look(client)?;
        let longest_us = if random.one_in(3) { 150_000 } else { 4000 };
        for _ in 0..random.below(4) {
            pause(client, random, longest_us);
            same_rows("a snapshot, asked first and later", &first, &look(client)?)?;
        }
        client.query("commit")?;
    }
}

/// Ends sessions of others now and then, until the connection breaks.
pub(crate) fn end_sessions(client: &mut dyn Connection, random: &mut Random) -> WorkloadResult {
    loop {
        pause(client, random, 40_000);
        let place = random.below(20);
        let sql = format!(
            "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() order by pid offset {place} limit 1"
        );
        client.query(&sql)?;
    }
}
