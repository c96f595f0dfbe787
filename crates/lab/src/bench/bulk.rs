//! Commit modes, whole tables at once, temporary tables (experiments 1 and 3).

use super::{Better, Figures, Options, command, connect, execute_with, median, pgbench, pgbench_with, socket_folder};
use kilndb_lab::client::Client;
use kilndb_lab::process::{Server, TempDir};
use std::time::Instant;

const CLIENTS: u32 = 28;
/// Runs of each commit mode; the figure is their median.
const TURNS: usize = 3;
/// Rows of the table that is updated ten times.
const UPDATED_ROWS: u32 = 1_000_000;
const TEMPORARY: &str =
    "create temp table scratch (a int, b text);\ninsert into scratch values (1, 'x');\ndrop table scratch;\n";

pub(super) fn measure(
    engine: &'static str,
    options: &Options,
    figures: &mut Figures,
    server: &Server,
) -> Result<(), String> {
    commit_modes(engine, options, figures, server)?;
    for kind in ["", "unlogged", "temporary"] {
        whole_table(engine, options, figures, server, kind)?;
    }
    size_after_updates(engine, figures, server)?;
    temporary_tables(engine, options, figures, server)?;
    copy(engine, options, figures, server)
}

/// TPC-B as experiment 1 runs it: committed when it is on disk, a little later, or without a log. The first two take
/// turns, because what one is held against is the other: the disk, and how warm the server is, must be the same for
/// both.
fn commit_modes(engine: &'static str, options: &Options, figures: &mut Figures, server: &Server) -> Result<(), String> {
    let mut put = |mode: &str, tps: Vec<f64>| {
        figures.put(engine, &format!("TPC-B, prepared, {CLIENTS} clients, {mode}, tps"), Better::More, median(tps));
    };
    let run = || pgbench(server.address(), options, CLIENTS, &["-M", "prepared"]).map(|result| result.tps);
    let mut admin = connect(server)?;
    let (mut on, mut off) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        on.push(run()?);
        execute_with(&mut admin, &["alter role postgres set synchronous_commit = off"])?;
        execute_with(
            &mut admin,
            &[
                "alter system set wal_writer_delay = '10ms'",
                "alter system set wal_writer_flush_after = '1MB'",
                "select pg_reload_conf()",
            ],
        )?;
        off.push(run()?);
        execute_with(&mut admin, &["alter role postgres reset synchronous_commit"])?;
        execute_with(
            &mut admin,
            &[
                "alter system reset wal_writer_delay",
                "alter system reset wal_writer_flush_after",
                "select pg_reload_conf()",
            ],
        )?;
    }
    put("synchronous_commit on", on);
    put("synchronous_commit off", off);
    let scale = options.scale.to_string();
    let output = command("pgbench", server.address())?
        .args(["-i", "-q", "-s", &scale, "--unlogged-tables", "postgres"])
        .output();
    let output = output.map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(format!("pgbench -i --unlogged-tables: {}", String::from_utf8_lossy(&output.stderr)));
    }
    put("unlogged tables", vec![run()?]);
    Ok(())
}

/// Experiment 3.
fn whole_table(
    engine: &'static str,
    options: &Options,
    figures: &mut Figures,
    server: &Server,
    kind: &str,
) -> Result<(), String> {
    let rows = options.rows;
    let mut client = connect(server)?;
    execute_with(&mut client, &[&format!("create {kind} table tab(c1 integer)"), "checkpoint"])?;
    let name = if kind.is_empty() { "logged" } else { kind };
    let mut timed = |client: &mut Client, what: &str, sql: &str| {
        let began = Instant::now();
        client.query(sql).map_err(|e| format!("{sql}: {e}"))?;
        let millions = f64::from(rows) / 1e6 / began.elapsed().as_secs_f64();
        figures.put(engine, &format!("{what}, {name}, million rows/s"), Better::More, millions);
        Ok::<(), String>(())
    };
    timed(&mut client, "INSERT", &format!("insert into tab select generate_series(1, {:e})", f64::from(rows)))?;
    execute_with(&mut client, &["vacuum analyze"])?;
    let pages = client.integer("select relpages from pg_class where relname = 'tab'").map_err(|e| e.to_string())?;
    timed(&mut client, "count(*)", "select count(*) from tab")?;
    timed(&mut client, "UPDATE", "update tab set c1 = (c1 + 1)")?;
    execute_with(&mut client, &["vacuum analyze"])?;
    let sum = client.integer("select sum(c1 - 1) from tab").map_err(|e| e.to_string())?;
    if sum != i64::from(rows) * (i64::from(rows) + 1) / 2 {
        return Err(format!("{engine}: the rows of the {name} table sum up to {sum}"));
    }
    timed(&mut client, "DELETE", "delete from tab")?;
    let left = client.integer("select count(*) from tab").map_err(|e| e.to_string())?;
    if left != 0 {
        return Err(format!("{engine}: {left} rows of the {name} table are left"));
    }
    figures.put(engine, &format!("pages of one-int rows, {name}"), Better::Less, pages as f64);
    execute_with(&mut client, &["drop table tab"])
}

fn size_after_updates(engine: &'static str, figures: &mut Figures, server: &Server) -> Result<(), String> {
    let mut client = connect(server)?;
    let fill =
        format!("insert into updated select i, 0, i % 1000, 'some text' from generate_series(1, {UPDATED_ROWS}) i");
    execute_with(
        &mut client,
        &["create table updated (id int primary key, n int, k int, t text)", &fill, "create index on updated (k)"],
    )?;
    let mut size = || client.integer("select pg_total_relation_size('updated')").map_err(|e| e.to_string());
    let before = size()?;
    for _ in 0..10 {
        execute_with(&mut client, &["update updated set n = n + 1", "vacuum updated"])?;
    }
    let mut size = || client.integer("select pg_total_relation_size('updated')").map_err(|e| e.to_string());
    let after = size()?;
    figures.put(
        engine,
        "table and indexes after ten whole-table UPDATEs, times their size before",
        Better::Less,
        after as f64 / before as f64,
    );
    execute_with(&mut client, &["drop table updated"])
}

fn temporary_tables(
    engine: &'static str,
    options: &Options,
    figures: &mut Figures,
    server: &Server,
) -> Result<(), String> {
    let folder = TempDir::new("bench-temporary").map_err(|e| e.to_string())?;
    let file = folder.path().join("script.sql");
    std::fs::write(&file, TEMPORARY).map_err(|e| e.to_string())?;
    let file = file.to_string_lossy().into_owned();
    let result = pgbench_with(server.address(), options, 64, 2, &["-f", &file])?;
    figures.put(engine, "CREATE TEMP TABLE, INSERT, DROP, 64 clients, tps", Better::More, result.tps);
    Ok(())
}

fn copy(engine: &'static str, options: &Options, figures: &mut Figures, server: &Server) -> Result<(), String> {
    // The server writes and reads the file, maybe as another user.
    let folder = socket_folder()?;
    let file = folder.path().join("accounts").display().to_string();
    let mut client = connect(server)?;
    let rows = options.rows;
    let fill = format!("insert into copied select i, i / 100000 + 1, 0, '' from generate_series(1, {rows}) i");
    execute_with(
        &mut client,
        &["create table copied (aid int not null, bid int, abalance int, filler char(84))", &fill],
    )?;
    execute_with(&mut client, &[&format!("copy copied to '{file}'"), "truncate copied", "checkpoint"])?;
    let began = Instant::now();
    execute_with(&mut client, &[&format!("copy copied from '{file}'")])?;
    let millions = f64::from(rows) / 1e6 / began.elapsed().as_secs_f64();
    figures.put(engine, "COPY of pgbench_accounts, million rows/s", Better::More, millions);
    let count = client.integer("select count(*) from copied").map_err(|e| e.to_string())?;
    if count != i64::from(rows) {
        return Err(format!("{engine}: COPY has brought {count} rows"));
    }
    execute_with(&mut client, &["drop table copied"])
}
