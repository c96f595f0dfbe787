//! One table against many partitions, and PL/pgSQL (experiment 5, the partitioned queue of experiment 4).

use super::{Better, Figures, Options, Run, connect, median, pgbench_with};
use kilndb_lab::process::{Server, TempDir};
use std::time::Instant;

const CLIENTS: u32 = 64;
const PARTITIONS: u32 = 1024;
/// KilnDB alone has so many too: PostgreSQL would take most of the benchmark's time.
const MANY_PARTITIONS: u32 = 8192;
/// Rows that are read by key: all tables together are to fit into memory.
const KEYS: u32 = 1_000_000;
const QUEUE_ROWS: u32 = 1_000_000;
const QUEUE_PARTITIONS: u32 = 256;
const LOOP_SELECTS: u32 = 1_000_000;
/// Of each client, as in experiment 4: together as many as there are rows.
const QUEUE_TRANSACTIONS: u32 = 3906;
/// Runs of what is held against each other; they take turns, and the figure is their median.
const TURNS: usize = 3;
/// Runs of KilnDB's queue in a turn: one before and one after PostgreSQL's, which lasts several times as long.
const QUEUE_RUNS: [&str; 3] = ["KilnDB", "PostgreSQL", "KilnDB"];
/// KilnDB's own tables are to be alike within a few per cent, and the machine's speed differs by more from one moment
/// to the next: many short runs in turns, for whole seconds of which pgbench still tells how many transactions there
/// were.
const OWN_TURNS: usize = 21;
const OWN_RUN_S: u32 = 2;

const DISPATCHER: &str = "create or replace function dyn_pre_orders(partitions int, client_id int) returns int8 as $$ declare suffix int := mod(client_id, partitions); begin execute format('execute p%s(%s)', suffix, client_id); return 0; exception when others then execute format('prepare p%s(int) as with tmp as (delete from t_order_q_%s where ctid = (select ctid from t_order_q_%s where pg_try_advisory_xact_lock(id) order by id limit 1) returning order_id, cts) insert into t_order_u (order_id,cts,uts,status) select tmp.order_id, tmp.cts, now(), 1 from tmp;', suffix, suffix, suffix); execute format('execute p%s(%s)', suffix, client_id); return 0; end; $$ language plpgsql strict";

struct Bench<'a> {
    engine: &'static str,
    options: &'a Options,
    server: &'a Server,
    folder: TempDir,
}

pub(super) fn measure(
    engine: &'static str,
    options: &Options,
    figures: &mut Figures,
    server: &Server,
) -> Result<(), String> {
    let folder = TempDir::new("bench-partitions").map_err(|e| e.to_string())?;
    let bench = Bench { engine, options, server, folder };
    bench.tables(figures)?;
    bench.selects_and_upserts(figures)?;
    bench.loops(figures)?;
    bench.execute(&["drop table test, p"])
}

/// The queue, of servers that run at the same time. The machine's speed changes from one minute to the next: the
/// servers take turns. The idle one has nothing left to do, for each run drops its tables.
pub(super) fn queue_in_turns(
    options: &Options,
    figures: &mut Figures,
    servers: [(&'static str, &Server); 2],
) -> Result<(), String> {
    let bench = |(engine, server)| {
        let folder = TempDir::new("bench-queue").map_err(|e| e.to_string())?;
        Ok::<_, String>(Bench { engine, options, server, folder })
    };
    let benches = [bench(servers[0])?, bench(servers[1])?];
    let mut rows_per_second = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        for engine in QUEUE_RUNS {
            for (bench, all) in benches.iter().zip(&mut rows_per_second).filter(|(bench, _)| bench.engine == engine) {
                all.push(bench.queue_run()?);
            }
        }
    }
    let row =
        format!("queue, {QUEUE_PARTITIONS} partitions, {QUEUE_PARTITIONS} clients, dispatcher in PL/pgSQL, rows/s");
    for (bench, all) in benches.iter().zip(rows_per_second) {
        eprintln!(
            "{}, each run: {}",
            bench.engine,
            all.iter().map(|v| format!("{v:.0}")).collect::<Vec<_>>().join(" ")
        );
        figures.put(bench.engine, &row, Better::More, median(all));
    }
    Ok(())
}

impl Bench<'_> {
    fn execute(&self, statements: &[&str]) -> Result<(), String> {
        super::execute(self.server, statements)
    }
    fn timed(&self, sql: &str) -> Result<f64, String> {
        let began = Instant::now();
        self.execute(&[sql])?;
        Ok(began.elapsed().as_secs_f64())
    }
    fn has_many(&self) -> bool {
        self.engine == "KilnDB"
    }
    /// Creates and fills, as experiment 5 does.
    fn tables(&self, figures: &mut Figures) -> Result<(), String> {
        let rows = self.options.rows;
        let fill = |table: &str, rows: u32| {
            format!("insert into {table} select generate_series(1,{rows}), md5(random()::text), clock_timestamp()")
        };
        let create = |table: &str, partitions: u32| {
            format!(
                "do language plpgsql $$ declare begin for i in 0..{} loop execute format('create unlogged table {table}_%s partition of {table} for values WITH (MODULUS {partitions}, REMAINDER %s)', i, i); end loop; end; $$",
                partitions - 1
            )
        };
        self.execute(&[
            "create unlogged table test (id int primary key, info text, crt_time timestamp)",
            &fill("test", KEYS),
        ])?;
        self.execute(&[
            "create unlogged table p (id int primary key, info text, crt_time timestamp) partition by hash (id)",
        ])?;
        let took = self.timed(&create("p", PARTITIONS))?;
        figures.put(self.engine, &format!("creating {PARTITIONS} partitions, seconds"), Better::Less, took);
        let took = self.timed(&fill("p", rows))?;
        figures.put(
            self.engine,
            &format!("loading {:.0}M rows into {PARTITIONS} partitions, seconds", f64::from(rows) / 1e6),
            Better::Less,
            took,
        );
        self.execute(&["truncate p", &fill("p", KEYS)])?;
        if self.has_many() {
            self.execute(&[
                "create unlogged table m (id int primary key, info text, crt_time timestamp) partition by hash (id)",
            ])?;
            self.execute(&[&create("m", MANY_PARTITIONS), &fill("m", KEYS)])?;
        }
        self.execute(&["vacuum analyze test", "vacuum analyze p", "checkpoint"])
    }
    fn script(&self, text: &str, clients: u32, threads: u32, arguments: &[&str]) -> Result<Run, String> {
        self.script_for(self.options, text, clients, threads, arguments)
    }
    fn script_for(
        &self,
        options: &Options,
        text: &str,
        clients: u32,
        threads: u32,
        arguments: &[&str],
    ) -> Result<Run, String> {
        let file = self.folder.path().join("script.sql");
        std::fs::write(&file, text).map_err(|e| e.to_string())?;
        let file = file.to_string_lossy().into_owned();
        pgbench_with(self.server.address(), options, clients, threads, &[arguments, &["-f", &file]].concat())
    }
    fn selects_and_upserts(&self, figures: &mut Figures) -> Result<(), String> {
        let select = |table: &str| format!("\\set id random(1,{KEYS})\nselect * from {table} where id=:id;\n");
        let upsert = |table: &str| {
            format!(
                "\\set id random(1,{})\ninsert into {table} values (:id, md5(random()::text), now()) on conflict (id) do update set info=excluded.info,crt_time=excluded.crt_time;\n",
                KEYS * 10
            )
        };
        let (few, many) = (format!("{PARTITIONS} partitions"), format!("{MANY_PARTITIONS} partitions"));
        let mut kinds = vec![("test", "a single table"), ("p", few.as_str())];
        if self.has_many() {
            kinds.push(("m", many.as_str()));
        }
        let (mut turns, mut options) = (TURNS, self.options.clone());
        if self.has_many() {
            (turns, options.duration_s) = (OWN_TURNS, options.duration_s.min(OWN_RUN_S));
        }
        let mut empty = 0;
        for (what, script, mode) in [
            ("SELECT", &select as &dyn Fn(&str) -> String, "prepared"),
            ("SELECT", &select, "simple"),
            ("SELECT", &select, "extended"),
            ("upsert", &upsert, "prepared"),
        ] {
            let mut tps = vec![Vec::new(); kinds.len()];
            for _ in 0..turns {
                for ((table, _), tps) in kinds.iter().zip(&mut tps) {
                    let run = self.script_for(&options, &script(table), CLIENTS, 2, &["-M", mode])?;
                    tps.push(run.tps);
                    empty += if *table == "test" { 0 } else { run.empty_seconds };
                }
            }
            for ((_, kind), tps) in kinds.iter().zip(tps) {
                figures.put(
                    self.engine,
                    &format!("{what} by key, {mode}, {CLIENTS} clients, {kind}, tps"),
                    Better::More,
                    median(tps),
                );
            }
        }
        figures.put(
            self.engine,
            "SELECT and upsert of partitions, all runs: seconds without a commit",
            Better::Less,
            empty as f64,
        );
        Ok(())
    }
    /// Rows moved per second.
    fn queue_run(&self) -> Result<f64, String> {
        self.execute(&[
            "create unlogged table t_order_q (id serial8 primary key, order_id uuid, cts timestamp not null) partition by hash (id)",
            "create unlogged table t_order_u (id serial8 primary key, order_id uuid unique, cts timestamp not null, uts timestamp not null, status int not null)",
            &format!("do language plpgsql $$ declare x int := {QUEUE_PARTITIONS}; begin for i in 0..x-1 loop execute format ($_$create unlogged table t_order_q_%s PARTITION OF t_order_q FOR VALUES WITH (MODULUS %s, REMAINDER %s);$_$, i, x, i ); end loop; end $$"),
            &format!("insert into t_order_q (order_id, cts) select gen_random_uuid(), clock_timestamp() from generate_series(1,{QUEUE_ROWS})"),
            DISPATCHER,
            // What the runs before have left to be written is not the queue's.
            "checkpoint",
        ])?;
        let arguments = ["-M", "extended", "-t", &QUEUE_TRANSACTIONS.to_string()];
        let run = self.script(
            &format!("\\set clients {QUEUE_PARTITIONS}\nselect dyn_pre_orders(:clients, :client_id);\n"),
            QUEUE_PARTITIONS,
            8,
            &arguments,
        )?;
        let mut admin = connect(self.server)?;
        let mut count =
            |table: &str| admin.integer(&format!("select count(*) from {table}")).map_err(|e| e.to_string());
        let (left, moved) = (count("t_order_q")?, count("t_order_u")?);
        if left + moved != i64::from(QUEUE_ROWS) {
            return Err(format!("{}: {left} orders left and {moved} moved do not make {QUEUE_ROWS}", self.engine));
        }
        self.execute(&["drop table t_order_q, t_order_u"])?;
        let seconds = run.transactions as f64 / run.tps.max(1e-9);
        Ok(moved as f64 / seconds)
    }
    fn loops(&self, figures: &mut Figures) -> Result<(), String> {
        let additions = self.timed("do $$ declare x int8 := 0; begin for i in 1..10000000 loop x := x + i; end loop; if x <> 50000005000000 then raise exception 'the sum is %', x; end if; end $$")?;
        figures.put(self.engine, "PL/pgSQL, 10M additions, seconds", Better::Less, additions);
        let selects = self.timed(&format!("do $$ declare t text; n int := 0; begin for i in 1..{LOOP_SELECTS} loop select info into t from test where id = i; n := n + (length(t) = 32)::int; end loop; if n <> {LOOP_SELECTS} then raise exception '% rows', n; end if; end $$"))?;
        figures.put(self.engine, "PL/pgSQL, 1M SELECTs of a row, seconds", Better::Less, selects);
        Ok(())
    }
}
