//! The hot row and the queue (experiment 4). What counts is rows changed, never attempts.

use super::{Better, Figures, Options, connect, execute, pgbench_with};
use kilndb_lab::client::Client;
use kilndb_lab::process::{Server, TempDir};
use std::cell::Cell;

const HOT_ROW_START: i64 = 2_000_000_000;
const QUEUE_ROWS: u32 = 1_000_000;
const QUEUE_CLIENTS: u32 = 256;
/// As in the experiment's calls of pgbench.
const THREADS: u32 = 8;

const PLAIN: &str = "update tbl set cnt=cnt-1, ts=now() where id=1;";
const SKIP_LOCKED: &str = "with tmp as ( select id from tbl where id=1 for update skip locked ) update tbl set cnt=cnt-1, ts=now() from tmp where tbl.id=tmp.id returning tbl.id;";
const ADVISORY: &str = "update tbl set cnt=cnt-1, ts=now() where id=1 and pg_try_advisory_xact_lock(1) returning id;";

const QUEUE_MOVE: &str = "with tmp as (delete from t_order_q where id = :vid returning order_id, cts) insert into t_order_u (order_id,cts,uts,status) select tmp.order_id, tmp.cts, now(), 1 from tmp;";
const QUEUE_ADVISORY: &str = "with tmp as (delete from t_order_q where ctid = (select ctid from t_order_q where pg_try_advisory_xact_lock(id) order by id limit 1) returning order_id, cts) insert into t_order_u (order_id,cts,uts,status) select tmp.order_id, tmp.cts, now(), 1 from tmp;";

fn queue_script(claim: &str) -> String {
    format!("begin;\nselect id as vid from t_order_q order by id {claim} \\gset\n{QUEUE_MOVE}\nend;\n")
}

/// Rows changed per second by a script of one or more statements, run with `arguments`.
struct Script<'a> {
    server: &'a Server,
    options: &'a Options,
    folder: TempDir,
    /// Seconds of all runs so far in which nothing was committed.
    empty_seconds: Cell<usize>,
}

/// What came of a script.
struct Outcome {
    rate: f64,
    rows: i64,
    transactions: u64,
}

impl Script<'_> {
    fn run(&self, script: &str, clients: u32, mode: &str, count: &str) -> Result<Outcome, String> {
        let file = self.folder.path().join("script.sql");
        std::fs::write(&file, script).map_err(|e| e.to_string())?;
        let file = file.to_string_lossy().into_owned();
        let mut admin = connect(self.server)?;
        let mut rows = || admin.integer(count).map_err(|e| e.to_string());
        let before = rows()?;
        let run = pgbench_with(self.server.address(), self.options, clients, THREADS, &["-M", mode, "-f", &file])?;
        let after = rows()?;
        // Transactions per second and their number give the seconds that the clients were at work.
        let seconds = run.transactions as f64 / run.tps.max(1e-9);
        self.empty_seconds.set(self.empty_seconds.get() + run.empty_seconds);
        let rows = (after - before).abs();
        Ok(Outcome { rate: rows as f64 / seconds, rows, transactions: run.transactions })
    }
    /// The plain UPDATE: each transaction changes the row, once.
    fn run_plain(&self, engine: &str, clients: u32) -> Result<f64, String> {
        let Outcome { rate, rows, transactions } = self.run(PLAIN, clients, "prepared", "select cnt from tbl")?;
        if u64::try_from(rows) != Ok(transactions) {
            return Err(format!("{engine}: {transactions} updates have counted down by {rows}"));
        }
        Ok(rate)
    }
}

pub(super) fn measure(
    engine: &'static str,
    options: &Options,
    figures: &mut Figures,
    server: &Server,
) -> Result<(), String> {
    let folder = TempDir::new("bench-hot").map_err(|e| e.to_string())?;
    let script = Script { server, options, folder, empty_seconds: Cell::new(0) };
    for kind in ["unlogged", "logged"] {
        let create = format!(
            "create {} table tbl (id int primary key, cnt int, ts timestamp)",
            if kind == "unlogged" { kind } else { "" }
        );
        execute(
            server,
            &["drop table if exists tbl", &create, &format!("insert into tbl values (1, {HOT_ROW_START}, now())")],
        )?;
        let variants = [("plain", PLAIN), ("SKIP LOCKED", SKIP_LOCKED), ("advisory", ADVISORY)];
        for (name, sql) in variants.iter().take(if kind == "logged" { 1 } else { 3 }) {
            let rate = match *name {
                "plain" => script.run_plain(engine, 1920)?,
                _ => script.run(sql, 1920, "prepared", "select cnt from tbl")?.rate,
            };
            figures.put(engine, &format!("hot row, {kind}, 1920 clients, {name}, rows/s"), Better::More, rate);
            execute(server, &["vacuum full tbl"])?;
        }
        let rate = script.run_plain(engine, 64)?;
        figures.put(engine, &format!("hot row, {kind}, 64 clients, plain, rows/s"), Better::More, rate);
    }
    queue(engine, figures, server, &script)?;
    let empty = script.empty_seconds.get() as f64;
    figures.put(engine, "hot row and queue, all runs: seconds without a commit", Better::Less, empty);
    Ok(())
}

/// A session with a snapshot as old as the run.
fn hold_snapshot(server: &Server) -> Result<Client, String> {
    let mut holder = connect(server)?;
    for sql in ["begin isolation level repeatable read", "select count(*) from t_order_q"] {
        holder.query(sql).map_err(|e| e.to_string())?;
    }
    Ok(holder)
}

fn queue(engine: &'static str, figures: &mut Figures, server: &Server, script: &Script<'_>) -> Result<(), String> {
    let plain = queue_script("for update limit 1");
    let skip_locked = queue_script("for update skip locked limit 1");
    let variants = [("plain", plain.as_str()), ("SKIP LOCKED", &skip_locked), ("advisory", QUEUE_ADVISORY)];
    for (name, text, held) in variants.iter().flat_map(|(name, text)| [(name, text, false), (name, text, true)]) {
        execute(
            server,
            &[
                "drop table if exists t_order_q, t_order_u",
                "create unlogged table t_order_q (id serial8 primary key, order_id uuid unique, cts timestamp not null)",
                "create unlogged table t_order_u (id serial8 primary key, order_id uuid unique, cts timestamp not null, uts timestamp not null, status int not null)",
                &format!(
                    "insert into t_order_q (order_id, cts) select gen_random_uuid(), clock_timestamp() from generate_series(1,{QUEUE_ROWS})"
                ),
                "vacuum analyze t_order_q",
            ],
        )?;
        let holder = if held { Some(hold_snapshot(server)?) } else { None };
        let rate = script.run(text, QUEUE_CLIENTS, "extended", "select count(*) from t_order_u")?.rate;
        drop(holder);
        let beside = if held { ", beside a held snapshot" } else { "" };
        figures.put(engine, &format!("queue, {QUEUE_CLIENTS} clients, {name}{beside}, rows/s"), Better::More, rate);
        let mut admin = connect(server)?;
        let left = admin.integer("select count(*) from t_order_q").map_err(|e| e.to_string())?;
        let moved = admin.integer("select count(*) from t_order_u").map_err(|e| e.to_string())?;
        if left + moved != i64::from(QUEUE_ROWS) {
            return Err(format!("{engine}: {left} orders left and {moved} moved do not make {QUEUE_ROWS}"));
        }
    }
    Ok(())
}
