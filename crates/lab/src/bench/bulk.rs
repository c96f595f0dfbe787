//! Commit modes, whole tables at once, temporary tables (experiments 1 and 3).

use super::pgbench::PgbenchLoad;
use super::turns::{BenchStage, ServerTurn, execute};
use super::{BenchOptions, command};
use kilndb_lab::client::Client;
use kilndb_lab::process::TempDir;
use kilndb_lab::statistics::Better;
use std::time::Instant;

const CLIENTS: u32 = 28;
/// Rows of the table that is updated ten times.
const UPDATED_ROWS: u32 = 1_000_000;
const TEMPORARY: &str =
    "create temp table scratch (a int, b text);\ninsert into scratch values (1, 'x');\ndrop table scratch;\n";

pub(super) fn stages(options: &BenchOptions) -> Vec<BenchStage> {
    let rows = options.rows;
    let mut stages = vec![commit_modes(), unlogged_tpcb(options.scale)];
    stages.extend(["", "unlogged", "temporary"].map(|kind| whole_table(kind, rows)));
    let updated = "table and indexes after ten whole-table UPDATEs, times their size before";
    stages.push(BenchStage::new(updated, |turn| size_after_updates(turn, updated)).turns(1));
    let temporary = "CREATE TEMP TABLE, INSERT, DROP, 64 clients, tps";
    stages.push(BenchStage::new(temporary, |turn| {
        let run = turn.pgbench(&PgbenchLoad::script(TEMPORARY, 64, "simple"))?;
        turn.put(temporary, Better::More, run.tps);
        Ok(())
    }));
    stages.push(copy(rows));
    stages
}

/// TPC-B as experiment 1 runs it: committed when it is on disk, or a little later. Both in one turn, because what one is
/// held against is the other too.
fn commit_modes() -> BenchStage {
    BenchStage::new("commit modes", |turn| {
        for (mode, before, after) in [
            ("synchronous_commit on", &[] as &[&str], &[] as &[&str]),
            (
                "synchronous_commit off",
                &[
                    "alter role postgres set synchronous_commit = off",
                    "alter system set wal_writer_delay = '10ms'",
                    "alter system set wal_writer_flush_after = '1MB'",
                    "select pg_reload_conf()",
                ],
                &[
                    "alter role postgres reset synchronous_commit",
                    "alter system reset wal_writer_delay",
                    "alter system reset wal_writer_flush_after",
                    "select pg_reload_conf()",
                ],
            ),
        ] {
            turn.execute(before)?;
            let run = turn.pgbench(&PgbenchLoad::tpcb(CLIENTS, "prepared"));
            turn.execute(after)?;
            turn.put(&format!("TPC-B, prepared, {CLIENTS} clients, {mode}, tps"), Better::More, run?.tps);
        }
        Ok(())
    })
}

/// The tables of the other parts are unlogged meanwhile, and as they were before afterwards.
fn unlogged_tpcb(scale: u32) -> BenchStage {
    let fill = move |turn: &ServerTurn<'_>, more: &[&str]| {
        let mut pgbench = command("pgbench", &turn.side.at)?;
        let output = pgbench.args(["-i", "-q", "-s", &scale.to_string()]).args(more).arg("postgres").output();
        let output = output.map_err(|e| e.to_string())?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("pgbench -i {more:?}: {}", String::from_utf8_lossy(&output.stderr))),
        }
    };
    let row = format!("TPC-B, prepared, {CLIENTS} clients, unlogged tables, tps");
    BenchStage::new(&row.clone(), move |turn| {
        let run = turn.pgbench(&PgbenchLoad::tpcb(CLIENTS, "prepared"))?;
        turn.put(&row, Better::More, run.tps);
        Ok(())
    })
    .begin(move |turn| fill(turn, &["--unlogged-tables"]))
    .end(move |turn| fill(turn, &[]))
}

/// Experiment 3.
fn whole_table(kind: &'static str, rows: u32) -> BenchStage {
    let name = if kind.is_empty() { "logged" } else { kind };
    BenchStage::new(&format!("a whole table, {name}"), move |turn| {
        // A temporary table is of this session.
        let mut client = turn.connect()?;
        execute(&mut client, &[&format!("create {kind} table tab(c1 integer)"), "checkpoint"])?;
        let mut millions_of = |what: &str, client: &mut Client, sql: &str| {
            let began = Instant::now();
            execute(client, &[sql])?;
            let millions = f64::from(rows) / 1e6 / began.elapsed().as_secs_f64();
            turn.put(&format!("{what}, {name}, million rows/s"), Better::More, millions);
            Ok::<(), String>(())
        };
        millions_of("INSERT", &mut client, &format!("insert into tab select generate_series(1, {rows})"))?;
        execute(&mut client, &["vacuum analyze tab"])?;
        let bytes = integer(&mut client, "select pg_relation_size('tab')")?;
        millions_of("count(*)", &mut client, "select count(*) from tab")?;
        millions_of("UPDATE", &mut client, "update tab set c1 = (c1 + 1)")?;
        execute(&mut client, &["vacuum analyze tab"])?;
        let sum = integer(&mut client, "select sum(c1 - 1) from tab")?;
        if sum != i64::from(rows) * (i64::from(rows) + 1) / 2 {
            return Err(format!("the rows of the {name} table sum up to {sum}"));
        }
        millions_of("DELETE", &mut client, "delete from tab")?;
        let left = integer(&mut client, "select count(*) from tab")?;
        if left != 0 {
            return Err(format!("{left} rows of the {name} table are left"));
        }
        turn.put(&format!("size of one-int rows, {name}, MB"), Better::Less, bytes as f64 / 1e6);
        execute(&mut client, &["drop table tab"])
    })
    .end(|turn| turn.execute(&["drop table if exists tab"]))
}

fn integer(client: &mut Client, sql: &str) -> Result<i64, String> {
    client.integer(sql).map_err(|e| format!("{sql}: {e}"))
}

fn size_after_updates(turn: &mut ServerTurn<'_>, row: &str) -> Result<(), String> {
    let fill =
        format!("insert into updated select i, 0, i % 1000, 'some text' from generate_series(1, {UPDATED_ROWS}) i");
    turn.execute(&[
        "create table updated (id int primary key, n int, k int, t text)",
        &fill,
        "create index on updated (k)",
    ])?;
    let before = turn.integer("select pg_total_relation_size('updated')")?;
    for _ in 0..10 {
        turn.execute(&["update updated set n = n + 1", "vacuum updated"])?;
    }
    let after = turn.integer("select pg_total_relation_size('updated')")?;
    turn.put(row, Better::Less, after as f64 / before as f64);
    turn.execute(&["drop table updated"])
}

fn copy(rows: u32) -> BenchStage {
    BenchStage::new("COPY", move |turn| {
        // The server writes and reads the file, maybe as another user.
        let folder = TempDir::for_sockets().map_err(|e| e.to_string())?;
        let file = folder.path().join("accounts").display().to_string();
        turn.execute(&[&format!("copy filled to '{file}'"), "truncate copied", "checkpoint"])?;
        let seconds = turn.timed(&format!("copy copied from '{file}'"))?;
        turn.put("COPY of pgbench_accounts, million rows/s", Better::More, f64::from(rows) / 1e6 / seconds);
        match turn.integer("select count(*) from copied")? {
            count if count == i64::from(rows) => Ok(()),
            count => Err(format!("COPY has brought {count} rows")),
        }
    })
    .begin(move |turn| {
        turn.execute(&[
            "create table filled (aid int not null, bid int, abalance int, filler char(84))",
            &format!("insert into filled select i, i / 100000 + 1, 0, '' from generate_series(1, {rows}) i"),
            "create table copied (like filled)",
        ])
    })
    .end(|turn| turn.execute(&["drop table if exists filled, copied"]))
}
