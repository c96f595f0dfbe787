//! One table against many partitions, and PL/pgSQL (experiment 5, the partitioned queue of experiment 4).

use super::BenchOptions;
use super::pgbench::PgbenchLoad;
use super::turns::{BenchStage, ServerTurn};
use kilndb_lab::statistics::Better;

const CLIENTS: u32 = 64;
const PARTITIONS: u32 = 1024;
/// KilnDB alone has so many too: PostgreSQL would take most of the benchmark's time.
const MANY_PARTITIONS: u32 = 8192;
/// Rows that are read by key: all tables together are to fit into memory.
const KEYS: u32 = 1_000_000;
const QUEUE_PARTITIONS: u32 = 256;
/// The transactions of each client: fewer than in experiment 4, so that a turn lasts seconds.
const QUEUE_TRANSACTIONS: u32 = 390;
const QUEUE_ROWS: u32 = 100_000;
const LOOP_SELECTS: u32 = 1_000_000;
const EMPTY: &str = "SELECT and upsert of partitions, all runs: seconds without a commit";

const DISPATCHER: &str = "create or replace function dyn_pre_orders(partitions int, client_id int) returns int8 as $$ declare suffix int := mod(client_id, partitions); begin execute format('execute p%s(%s)', suffix, client_id); return 0; exception when others then execute format('prepare p%s(int) as with tmp as (delete from t_order_q_%s where ctid = (select ctid from t_order_q_%s where pg_try_advisory_xact_lock(id) order by id limit 1) returning order_id, cts) insert into t_order_u (order_id,cts,uts,status) select tmp.order_id, tmp.cts, now(), 1 from tmp;', suffix, suffix, suffix); execute format('execute p%s(%s)', suffix, client_id); return 0; end; $$ language plpgsql strict";

const ADDITIONS: &str = "do $$ declare x int8 := 0; begin for i in 1..10000000 loop x := x + i; end loop; if x <> 50000005000000 then raise exception 'the sum is %', x; end if; end $$";

pub(super) fn stages(options: &BenchOptions) -> Vec<BenchStage> {
    vec![
        load(options.rows),
        // The tables are there from the first of these to the last.
        by_key("SELECT", select, "prepared").begin(tables),
        by_key("SELECT", select, "simple"),
        by_key("SELECT", select, "extended"),
        by_key("upsert", upsert, "prepared"),
        additions(),
        selects_in_a_loop(),
        queue(),
    ]
}

fn create(table: &str, partitions: u32) -> String {
    format!(
        "do language plpgsql $$ declare begin for i in 0..{} loop execute format('create unlogged table {table}_%s partition of {table} for values WITH (MODULUS {partitions}, REMAINDER %s)', i, i); end loop; end; $$",
        partitions - 1
    )
}

fn fill(table: &str, rows: u32) -> String {
    format!("insert into {table} select generate_series(1,{rows}), md5(random()::text), clock_timestamp()")
}

fn select(table: &str) -> String {
    format!("\\set id random(1,{KEYS})\nselect * from {table} where id=:id;\n")
}

fn upsert(table: &str) -> String {
    format!(
        "\\set id random(1,{})\ninsert into {table} values (:id, md5(random()::text), now()) on conflict (id) do update set info=excluded.info,crt_time=excluded.crt_time;\n",
        KEYS * 10
    )
}

fn parent(table: &str) -> String {
    format!("create unlogged table {table} (id int primary key, info text, crt_time timestamp) partition by hash (id)")
}

/// A table of many partitions, created and filled.
fn load(rows: u32) -> BenchStage {
    BenchStage::new("partitions created and filled", move |turn| {
        turn.execute(&[&parent("loaded")])?;
        let seconds = turn.timed(&create("loaded", PARTITIONS))?;
        turn.put(&format!("creating {PARTITIONS} partitions, seconds"), Better::Less, seconds);
        let seconds = turn.timed(&fill("loaded", rows))?;
        let row = format!("loading {:.1}M rows into {PARTITIONS} partitions, seconds", f64::from(rows) / 1e6);
        turn.put(&row, Better::Less, seconds);
        turn.execute(&["drop table loaded"])
    })
    .end(|turn| turn.execute(&["drop table if exists loaded"]))
}

/// The tables of one turn: what is held against each other is also how many partitions there are.
fn kinds(turn: &ServerTurn<'_>) -> Vec<(&'static str, String)> {
    let mut kinds = vec![("test", "a single table".to_string()), ("p", format!("{PARTITIONS} partitions"))];
    if !turn.is_postgres() {
        kinds.push(("m", format!("{MANY_PARTITIONS} partitions")));
    }
    kinds
}

fn tables(turn: &mut ServerTurn<'_>) -> Result<(), String> {
    turn.execute(&[
        "drop table if exists test, p, m",
        "create unlogged table test (id int primary key, info text, crt_time timestamp)",
        &fill("test", KEYS),
        &parent("p"),
        &create("p", PARTITIONS),
        &fill("p", KEYS),
    ])?;
    if !turn.is_postgres() {
        turn.execute(&[&parent("m"), &create("m", MANY_PARTITIONS), &fill("m", KEYS)])?;
    }
    turn.execute(&["vacuum analyze test", "vacuum analyze p", "checkpoint"])
}

fn by_key(what: &'static str, script: fn(&str) -> String, mode: &'static str) -> BenchStage {
    BenchStage::new(&format!("{what} by key, {mode}"), move |turn| {
        for (table, kind) in kinds(turn) {
            let run = turn.pgbench(&PgbenchLoad::script(&script(table), CLIENTS, mode))?;
            turn.put(&format!("{what} by key, {mode}, {CLIENTS} clients, {kind}, tps"), Better::More, run.tps);
            if table != "test" {
                turn.add(EMPTY, run.empty_seconds as f64);
            }
        }
        Ok(())
    })
}

fn additions() -> BenchStage {
    let row = "PL/pgSQL, 10M additions, seconds";
    BenchStage::new(row, move |turn| {
        let seconds = turn.timed(ADDITIONS)?;
        turn.put(row, Better::Less, seconds);
        Ok(())
    })
}

fn selects_in_a_loop() -> BenchStage {
    let row = "PL/pgSQL, 1M SELECTs of a row, seconds";
    BenchStage::new(row, move |turn| {
        let seconds = turn.timed(&format!("do $$ declare t text; n int := 0; begin for i in 1..{LOOP_SELECTS} loop select info into t from test where id = i; n := n + (length(t) = 32)::int; end loop; if n <> {LOOP_SELECTS} then raise exception '% rows', n; end if; end $$"))?;
        turn.put(row, Better::Less, seconds);
        Ok(())
    })
    .end(|turn| turn.execute(&["drop table if exists test, p, m"]))
}

fn queue() -> BenchStage {
    let row =
        format!("queue, {QUEUE_PARTITIONS} partitions, {QUEUE_PARTITIONS} clients, dispatcher in PL/pgSQL, rows/s");
    BenchStage::new(&row.clone(), move |turn| {
        let rate = queue_turn(turn)?;
        turn.put(&row, Better::More, rate);
        Ok(())
    })
    .end(|turn| turn.execute(&["drop table if exists t_order_q, t_order_u"]))
}

/// Rows moved per second.
fn queue_turn(turn: &ServerTurn<'_>) -> Result<f64, String> {
    turn.execute(&[
        "create unlogged table t_order_q (id serial8 primary key, order_id uuid, cts timestamp not null) partition by hash (id)",
        "create unlogged table t_order_u (id serial8 primary key, order_id uuid unique, cts timestamp not null, uts timestamp not null, status int not null)",
        &format!("do language plpgsql $$ declare x int := {QUEUE_PARTITIONS}; begin for i in 0..x-1 loop execute format ($_$create unlogged table t_order_q_%s PARTITION OF t_order_q FOR VALUES WITH (MODULUS %s, REMAINDER %s);$_$, i, x, i ); end loop; end $$"),
        &format!("insert into t_order_q (order_id, cts) select gen_random_uuid(), clock_timestamp() from generate_series(1,{QUEUE_ROWS})"),
        DISPATCHER,
        // What the runs before have left to be written is not the queue's.
        "checkpoint",
    ])?;
    let script = format!("\\set clients {QUEUE_PARTITIONS}\nselect dyn_pre_orders(:clients, :client_id);\n");
    let run = turn.pgbench(&PgbenchLoad {
        threads: 8,
        transactions: Some(QUEUE_TRANSACTIONS),
        ..PgbenchLoad::script(&script, QUEUE_PARTITIONS, "extended")
    })?;
    let left = turn.integer("select count(*) from t_order_q")?;
    let moved = turn.integer("select count(*) from t_order_u")?;
    if left + moved != i64::from(QUEUE_ROWS) {
        return Err(format!("{left} orders left and {moved} moved do not make {QUEUE_ROWS}"));
    }
    turn.execute(&["drop table t_order_q, t_order_u"])?;
    Ok(moved as f64 / run.seconds())
}
