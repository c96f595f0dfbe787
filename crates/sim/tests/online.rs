//! Changes of a table's structure beside the load (docs/decisions/0048): whatever is changed, and whenever the server is
//! killed, no change of a row is lost or done twice, indexes have what the table has, and the table is whole.
//! `KILNDB_CRASH_ROUNDS` sets the number of rounds.

use kilndb_lab::client::{Client, ClientError};
use kilndb_lab::guard::{KillAtEnd, connect_unless};
use kilndb_lab::process::{self, Server, TempDir};
use kilndb_sim::random::Random;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ROWS: u64 = 20_000;
const WRITERS: u64 = 4;
/// A round is over when so much time has passed without a change.
const PATIENCE: Duration = Duration::from_secs(60);

fn connect(server: &Server) -> Client {
    Client::connect(server.address(), "postgres").expect("a connection")
}
fn run(client: &mut Client, sql: &str) {
    client.query(sql).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
}

/// All that is added to `k` of rows is in `moves`.
fn make_tables(client: &mut Client) {
    run(client, "drop table if exists acc, moves");
    run(client, "create table moves (d bigint)");
    run(client, "create table acc (id int primary key, k int not null check (k > -1000000), v text, tags int[])");
    run(client, "create unique index acc_v on acc (v)");
    run(client, "create index acc_tags on acc using gin (tags)");
    run(client, "create index acc_some on acc (lower(v), k) where id % 3 = 0");
    let rows = format!("select g, 0, 'v' || g, array[g % 7, g % 11] from generate_series(0, {ROWS} - 1) g");
    run(client, &format!("insert into acc {rows}"));
}

/// The same in partitions, one of which has partitions of its own.
fn make_partitioned_tables(client: &mut Client) {
    run(client, "create table moves (d bigint)");
    run(
        client,
        "create table acc (id int primary key, k int not null check (k > -1000000), v text, tags int[]) partition by range (id)",
    );
    run(client, "create table acc_1 partition of acc for values from (minvalue) to (3000)");
    run(client, "create table acc_2 partition of acc for values from (3000) to (12000) partition by hash (id)");
    run(client, "create table acc_2a partition of acc_2 for values with (modulus 2, remainder 0)");
    run(client, "create table acc_2b partition of acc_2 for values with (modulus 2, remainder 1)");
    run(client, "create table acc_3 partition of acc for values from (12000) to (maxvalue)");
    run(client, "create index acc_v on acc (v)");
    run(client, "create index acc_tags on acc using gin (tags)");
    run(client, "create index acc_some on acc (lower(v), k) where id % 3 = 0");
    let rows = format!("select g, 0, 'v' || g, array[g % 7, g % 11] from generate_series(0, {ROWS} - 1) g");
    run(client, &format!("insert into acc {rows}"));
}

/// One transaction's statements.
fn statements(random: &mut Random) -> String {
    let (id, d) = (random.below(ROWS), random.below(9) as i64 - 4);
    let place = |random: &mut Random| match random.below(4) {
        // Some rows are hot.
        0 => random.below(20),
        _ => random.below(ROWS),
    };
    match random.below(12) {
        0..=4 => {
            let id = place(random);
            format!(
                "with u as (update acc set k = k + ({d}) where id = {id} returning 1) insert into moves select {d} from u"
            )
        }
        5 => format!("update acc set v = 'w' || id || 'x' where id = {id} and v not like '%x'"),
        6 => format!("update acc set tags = array[{d}, {id} % 5] where id between {id} and {id} + 3"),
        // Two rows exchange their values of a unique index.
        7 => format!(
            "update acc set v = 'y{id}' where id = {id}; update acc set v = 'v' || id where id = {id} and v = 'y{id}'"
        ),
        8 => format!("with g as (delete from acc where id = {id} returning k) insert into moves select -k from g"),
        9 | 10 => format!(
            "with i as (insert into acc(id, k, v, tags) values ({id}, {d}, 'v{id}', array[{d}]) on conflict do nothing returning 1) insert into moves select {d} from i"
        ),
        _ => format!(
            "with u as (update acc set k = k + 1 where id between {id} and {id} + 200 returning 1) insert into moves select 1 from u"
        ),
    }
}

fn write(server: &Server, killed: &AtomicBool, seed: u64, done: &AtomicU64) {
    let Some(mut client) = connect_unless(server, killed) else { return };
    let mut random = Random(seed + 1);
    loop {
        let (first, second) = (statements(&mut random), statements(&mut random));
        let sql = match random.below(6) {
            0 => format!("begin; {first}; rollback"),
            1 => format!("begin; {first}; savepoint s; {second}; rollback to s; commit"),
            2 => format!("begin; {first}; {second}; commit"),
            _ => first,
        };
        match client.query(&sql) {
            Ok(_) => _ = done.fetch_add(1, Ordering::SeqCst),
            Err(ClientError::Server(e)) if ["23505", "40P01", "40001"].contains(&e.code.as_str()) => {
                if client.query("rollback").is_err() {
                    return;
                }
            }
            Err(e) => {
                assert!(killed.load(Ordering::SeqCst), "{sql}: {e}");
                return;
            }
        }
    }
}

const CHANGES: &[&str] = &[
    "create index if not exists acc_k on acc (k)",
    "alter table acc alter k type bigint",
    "reindex table acc",
    "alter table acc add u uuid default gen_random_uuid()",
    "alter table acc add constraint acc_u unique (u)",
    "alter table acc alter tags type bigint[] using tags::bigint[]",
    "alter table acc add n int generated always as identity",
    "reindex index concurrently acc_some",
    "cluster acc using acc_v",
    "alter table acc drop n",
    "alter table acc drop u",
    // Several parts make one copy.
    "alter table acc add constraint acc_u unique (id, u), alter k type int, add u uuid default gen_random_uuid(), add w int default 5, alter w set default 6",
    "alter table acc drop u, drop w",
    "alter table acc alter k type int",
    "create index concurrently if not exists acc_both on acc (v, id)",
    "alter table acc alter tags type int[] using tags::int[], alter v type varchar",
    "alter table acc alter v type text",
    "drop index if exists acc_k, acc_both",
    // There is always something that keeps ids apart.
    "alter table acc add constraint acc_id unique (id)",
    "alter table acc drop constraint acc_pkey",
    "alter table acc add primary key (id)",
    "alter table acc drop constraint acc_id",
];

/// Changes of a partitioned table as a whole.
const CHANGES_OF_TREE: &[&str] = &[
    "create index if not exists acc_k on acc (k)",
    "alter table acc alter k type bigint",
    "alter table acc add u uuid default gen_random_uuid()",
    "alter table acc add constraint acc_u unique (id, u)",
    "create index if not exists acc_tags_too on acc using gin (tags)",
    "alter table acc alter tags type bigint[] using tags::bigint[]",
    "alter table acc add n int",
    "alter table acc drop n",
    "alter table acc drop u",
    "alter table acc alter k type int",
    "create index if not exists acc_both on acc (v, id)",
    "reindex table acc",
    "alter table acc alter tags type int[] using tags::int[]",
    "drop index if exists acc_k, acc_both, acc_tags_too",
];

/// Makes one change after the other. What a kill has left undone, or done, need not be done again.
fn change(server: &Server, killed: &AtomicBool, (changes, turn): (&[&str], &AtomicU64)) {
    let Some(mut client) = connect_unless(server, killed) else { return };
    loop {
        let at = turn.load(Ordering::SeqCst);
        let sql = changes[at as usize % changes.len()];
        match client.query(sql) {
            Ok(_) => {}
            Err(ClientError::Server(e)) if ["42701", "42P07", "42703", "42704", "42P16"].contains(&e.code.as_str()) => {
            }
            Err(e) => {
                assert!(killed.load(Ordering::SeqCst), "{sql}: {e}");
                return;
            }
        }
        turn.store(at + 1, Ordering::SeqCst);
    }
}

fn is_consistent(client: &mut Client) {
    let mut ask = |sql: &str| client.integer(sql).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    let (kept, moved) = (ask("select sum(k) from acc"), ask("select coalesce(sum(d), 0) from moves"));
    assert_eq!(kept, moved, "changes of rows are lost, or done twice");
    assert_eq!(ask("select count(*) from acc"), ask("select count(distinct id) from acc"));
    let by_scan = "set enable_indexscan = off; set enable_bitmapscan = off; set enable_seqscan = on";
    let by_index = "set enable_indexscan = on; set enable_bitmapscan = off; set enable_seqscan = off";
    let by_bitmap = "set enable_indexscan = off; set enable_bitmapscan = on; set enable_seqscan = off";
    for (condition, way) in [
        ("id >= 0", by_index),
        ("v > ''", by_index),
        ("k > -1000000", by_index),
        ("lower(v) > '' and id % 3 = 0", by_index),
        ("tags @> '{3}'", by_bitmap),
        ("tags && '{1,4}'", by_bitmap),
    ] {
        let sql = format!("select id, k, v from acc where {condition} order by id");
        let mut found = Vec::new();
        for way in [by_scan, way] {
            run(client, way);
            let rows: Vec<_> = client.query(&sql).expect("rows").into_iter().flat_map(|a| a.rows).collect();
            found.push(rows);
        }
        assert_eq!(found[0].len(), found[1].len(), "{condition}");
        assert!(found[0] == found[1], "{condition}");
    }
}

#[test]
fn changes_beside_the_load_lose_nothing() {
    change_in_rounds("online", make_tables, CHANGES);
}

#[test]
fn changes_of_partitioned_tables_lose_nothing() {
    change_in_rounds("online-tree", make_partitioned_tables, CHANGES_OF_TREE);
}

fn change_in_rounds(name: &str, make: fn(&mut Client), changes: &[&str]) {
    let rounds = std::env::var("KILNDB_CRASH_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(4);
    let folder = TempDir::new(name).expect("a temporary folder");
    let data = folder.path().join("data");
    let port = process::free_port().expect("a free port");
    let mut server = process::start_kilndb(&data, port, &[]).expect("the server starts");
    make(&mut connect(&server));
    let (done, turn) = (AtomicU64::new(0), AtomicU64::new(0));
    for round in 0..rounds {
        let killed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (server, killed, done, turn) = (&server, &killed, &done, &turn);
            let guard = KillAtEnd { server, killed };
            for writer in 0..WRITERS {
                scope.spawn(move || write(server, killed, round * WRITERS + writer, done));
            }
            scope.spawn(move || change(server, killed, (changes, turn)));
            std::thread::sleep(Duration::from_millis(1500 + 331 * (round % 7)));
            // On a slow machine a change beside the load takes longer than a round.
            let (wanted, patience) = (round + 1, Instant::now() + PATIENCE);
            while turn.load(Ordering::SeqCst) < wanted && Instant::now() < patience {
                std::thread::sleep(Duration::from_millis(37));
            }
            drop(guard);
        });
        server.kill().expect("the server is gone");
        server = process::start_kilndb(&data, port, &[]).expect("the server starts");
        is_consistent(&mut connect(&server));
        assert!(server.stop().expect("a clean stop").success());
        process::check_kilndb(&data).expect("the check finds nothing");
        server = process::start_kilndb(&data, port, &[]).expect("the server starts");
    }
    let (done, turn) = (done.load(Ordering::SeqCst), turn.load(Ordering::SeqCst));
    assert!(done > 0 && turn >= rounds, "{done} transactions beside {turn} changes");
    assert!(server.stop().expect("a clean stop").success());
    process::check_kilndb(&data).expect("the check finds nothing");
    println!("{rounds} rounds, {done} transactions beside {turn} changes");
}

#[test]
fn a_table_is_partitioned_beside_the_load() {
    let rounds = std::env::var("KILNDB_CRASH_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(4);
    let folder = TempDir::new("partitioned").expect("a temporary folder");
    let data = folder.path().join("data");
    let port = process::free_port().expect("a free port");
    let mut server = process::start_kilndb(&data, port, &[]).expect("the server starts");
    let (done, partitioned) = (AtomicU64::new(0), AtomicU64::new(0));
    for round in 0..rounds {
        let mut client = connect(&server);
        make_tables(&mut client);
        if round % 4 < 2 {
            // Otherwise one tree keeps it unique in all partitions.
            run(&mut client, "drop index acc_v; create index acc_v on acc (v)");
        }
        let killed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (server, killed, done) = (&server, &killed, &done);
            let guard = KillAtEnd { server, killed };
            for writer in 0..WRITERS {
                scope.spawn(move || write(server, killed, 1000 + round * WRITERS + writer, done));
            }
            let to_be_killed = round % 2 == 1;
            let change = scope.spawn(move || {
                let Some(mut client) = connect_unless(server, killed) else { return };
                std::thread::sleep(Duration::from_millis(200));
                let answer = client.query("call kiln_partition_table('acc', 'hash (id)', 7)");
                assert!(answer.is_ok() || killed.load(Ordering::SeqCst), "{answer:?}");
            });
            if to_be_killed {
                std::thread::sleep(Duration::from_millis(400 + 171 * (round % 5)));
            } else {
                change.join().expect("the table becomes partitioned");
                std::thread::sleep(Duration::from_millis(300));
            }
            drop(guard);
        });
        server.kill().expect("the server is gone");
        server = process::start_kilndb(&data, port, &[]).expect("the server starts");
        let mut client = connect(&server);
        is_consistent(&mut client);
        let kind = client.value("select relkind from pg_class where oid = 'acc'::regclass").expect("a table");
        partitioned.fetch_add(u64::from(kind.as_deref() == Some("p")), Ordering::SeqCst);
        assert!(server.stop().expect("a clean stop").success());
        process::check_kilndb(&data).expect("the check finds nothing");
        server = process::start_kilndb(&data, port, &[]).expect("the server starts");
    }
    let (done, partitioned) = (done.load(Ordering::SeqCst), partitioned.load(Ordering::SeqCst));
    assert!(
        done > 0 && partitioned >= rounds / 2,
        "{done} transactions, partitioned in {partitioned} of {rounds} rounds"
    );
    println!("{rounds} rounds, {done} transactions, partitioned in {partitioned}");
}

/// Writes to a table and to one that references it.
fn write_references(server: &Server, killed: &AtomicBool, seed: u64, done: &AtomicU64) {
    let Some(mut client) = connect_unless(server, killed) else { return };
    let mut random = Random(seed + 1);
    loop {
        let id = random.below(500);
        let sql = match random.below(6) {
            0 => format!("insert into parent values ({id}) on conflict do nothing"),
            1 => format!("delete from parent where id = {id}"),
            2 => {
                format!("begin; insert into child (parent) values ({id}); delete from parent where id = {id}; rollback")
            }
            3 => format!("update child set parent = {} where id % 100 = {}", random.below(500), random.below(100)),
            _ => format!("insert into child (parent) values ({id})"),
        };
        match client.query(&sql) {
            Ok(_) => _ = done.fetch_add(1, Ordering::SeqCst),
            Err(ClientError::Server(e)) if ["23503", "40P01", "40001"].contains(&e.code.as_str()) => {
                if client.query("rollback").is_err() {
                    return;
                }
            }
            Err(e) => {
                assert!(killed.load(Ordering::SeqCst), "{sql}: {e}");
                return;
            }
        }
    }
}

#[test]
fn keys_and_references_get_wider_beside_the_load() {
    let rounds = std::env::var("KILNDB_CRASH_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(3);
    let folder = TempDir::new("references").expect("a temporary folder");
    let data = folder.path().join("data");
    let port = process::free_port().expect("a free port");
    let mut server = process::start_kilndb(&data, port, &[]).expect("the server starts");
    let mut client = connect(&server);
    run(&mut client, "create table parent (id int primary key)");
    run(&mut client, "create table child (id serial primary key, parent int references parent on delete cascade)");
    run(&mut client, "create index child_parent on child (parent)");
    run(&mut client, "insert into parent select generate_series(0, 499)");
    run(&mut client, "insert into child (parent) select g % 500 from generate_series(1, 20000) g");
    let (done, changed) = (AtomicU64::new(0), AtomicU64::new(0));
    for round in 0..rounds {
        let killed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (server, killed, done, changed) = (&server, &killed, &done, &changed);
            let guard = KillAtEnd { server, killed };
            for writer in 0..WRITERS {
                scope.spawn(move || write_references(server, killed, 2000 + round * WRITERS + writer, done));
            }
            scope.spawn(move || {
                let Some(mut client) = connect_unless(server, killed) else { return };
                loop {
                    // Types are those that are there after a kill; the first changes may change nothing then.
                    for sql in [
                        "alter table parent alter id type bigint",
                        "alter table child alter parent type bigint, alter id type bigint",
                        "alter table child alter parent type int, alter id type int",
                        "alter table parent alter id type int",
                    ] {
                        match client.query(sql) {
                            Ok(_) => _ = changed.fetch_add(1, Ordering::SeqCst),
                            Err(ClientError::Server(e)) if e.code == "40P01" => {}
                            Err(e) => {
                                assert!(killed.load(Ordering::SeqCst), "{sql}: {e}");
                                return;
                            }
                        }
                    }
                }
            });
            std::thread::sleep(Duration::from_millis(1700 + 413 * (round % 5)));
            // A slow machine has not come to two changes by then.
            let begin = Instant::now();
            while round == 0 && changed.load(Ordering::SeqCst) < 2 && begin.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(50));
            }
            drop(guard);
        });
        server.kill().expect("the server is gone");
        server = process::start_kilndb(&data, port, &[]).expect("the server starts");
        let mut client = connect(&server);
        let dangling = "select count(*) from child c where not exists (select from parent p where p.id = c.parent)";
        assert_eq!(client.integer(dangling).expect("a count"), 0, "rows that reference nothing");
        let twice = "select count(*) - count(distinct id) from parent";
        assert_eq!(client.integer(twice).expect("a count"), 0, "keys that are there twice");
        assert!(server.stop().expect("a clean stop").success());
        process::check_kilndb(&data).expect("the check finds nothing");
        server = process::start_kilndb(&data, port, &[]).expect("the server starts");
    }
    let (done, changed) = (done.load(Ordering::SeqCst), changed.load(Ordering::SeqCst));
    assert!(done > 0 && changed >= 2, "{done} transactions beside {changed} changes");
    println!("{rounds} rounds, {done} transactions beside {changed} changes");
}
