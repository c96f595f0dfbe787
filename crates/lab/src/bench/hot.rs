//! The hot row and the queue (experiment 4). What counts is rows changed, never attempts.

use super::{Better, Figures, Options, connect, pgbench};
use kilndb_lab::process::{Server, TempDir};

const HOT_ROW_START: i64 = 2_000_000_000;
const QUEUE_ROWS: u32 = 1_000_000;
const QUEUE_CLIENTS: u32 = 256;

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
}

impl Script<'_> {
    fn run(&self, script: &str, clients: u32, mode: &str, count: &str) -> Result<f64, String> {
        let file = self.folder.path().join("script.sql");
        std::fs::write(&file, script).map_err(|e| e.to_string())?;
        let file = file.to_string_lossy().into_owned();
        let mut admin = connect(self.server)?;
        let mut rows = || admin.integer(count).map_err(|e| e.to_string());
        let before = rows()?;
        let run = pgbench(self.server.address().port, self.options, clients, &["-M", mode, "-f", &file])?;
        let after = rows()?;
        // Transactions per second and their number give the seconds that the clients were at work.
        let seconds = run.transactions as f64 / run.tps.max(1e-9);
        Ok((after - before).abs() as f64 / seconds)
    }
}

fn execute(server: &Server, statements: &[&str]) -> Result<(), String> {
    let mut admin = connect(server)?;
    for sql in statements {
        admin.query(sql).map_err(|e| format!("{sql}: {e}"))?;
    }
    Ok(())
}

pub(super) fn measure(engine: &'static str, options: &Options, figures: &mut Figures, server: &Server) -> Result<(), String> {
    let folder = TempDir::new("bench-hot").map_err(|e| e.to_string())?;
    let script = Script { server, options, folder };
    for kind in ["unlogged", "logged"] {
        let create = format!("create {} table tbl (id int primary key, cnt int, ts timestamp)", if kind == "unlogged" { kind } else { "" });
        execute(server, &["drop table if exists tbl", &create, &format!("insert into tbl values (1, {HOT_ROW_START}, now())")])?;
        let variants = [("plain", PLAIN), ("SKIP LOCKED", SKIP_LOCKED), ("advisory", ADVISORY)];
        for (name, sql) in variants.iter().take(if kind == "logged" { 1 } else { 3 }) {
            let rate = script.run(sql, 1920, "prepared", "select cnt from tbl")?;
            figures.put(engine, &format!("hot row, {kind}, 1920 clients, {name}, rows/s"), Better::More, rate);
            execute(server, &["vacuum full tbl"])?;
        }
        let rate = script.run(PLAIN, 64, "prepared", "select cnt from tbl")?;
        figures.put(engine, &format!("hot row, {kind}, 64 clients, plain, rows/s"), Better::More, rate);
    }
    queue(engine, figures, server, &script)
}

fn queue(engine: &'static str, figures: &mut Figures, server: &Server, script: &Script<'_>) -> Result<(), String> {
    let plain = queue_script("for update limit 1");
    let skip_locked = queue_script("for update skip locked limit 1");
    for (name, text) in [("plain", plain.as_str()), ("SKIP LOCKED", &skip_locked), ("advisory", QUEUE_ADVISORY)] {
        execute(
            server,
            &[
                "drop table if exists t_order_q, t_order_u",
                "create unlogged table t_order_q (id serial8 primary key, order_id uuid unique, cts timestamp not null)",
                "create unlogged table t_order_u (id serial8 primary key, order_id uuid unique, cts timestamp not null, uts timestamp not null, status int not null)",
                &format!("insert into t_order_q (order_id, cts) select gen_random_uuid(), clock_timestamp() from generate_series(1,{QUEUE_ROWS})"),
                "vacuum analyze t_order_q",
            ],
        )?;
        let rate = script.run(text, QUEUE_CLIENTS, "extended", "select count(*) from t_order_u")?;
        figures.put(engine, &format!("queue, {QUEUE_CLIENTS} clients, {name}, rows/s"), Better::More, rate);
        let mut admin = connect(server)?;
        let left = admin.integer("select count(*) from t_order_q").map_err(|e| e.to_string())?;
        let moved = admin.integer("select count(*) from t_order_u").map_err(|e| e.to_string())?;
        if left + moved != i64::from(QUEUE_ROWS) {
            return Err(format!("{engine}: {left} orders left and {moved} moved do not make {QUEUE_ROWS}"));
        }
    }
    Ok(())
}
