//! `kill -9` while partitions are created, attached, detached and dropped: what a restart finds is a consistent tree.
//! `KILNDB_CRASH_ROUNDS` sets the number of rounds.

use kilndb_lab::client::{Client, ClientError};
use kilndb_lab::guard::{KillAtEnd, connect_unless};
use kilndb_lab::process::{self, Server, TempDir};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

/// Ids of a partition: (number - 1) × WIDTH up to number × WIDTH.
const WIDTH: i64 = 1_000_000;
const PARTITIONS: i64 = 4;

fn connect(server: &Server) -> Client {
    Client::connect(server.address(), "postgres").expect("a connection")
}
fn run(client: &mut Client, sql: &str) {
    client.query(sql).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
}

/// Which rows must be there.
#[derive(Default)]
struct Model {
    /// Ids whose COMMIT was answered, of the partition that stays.
    committed: Mutex<BTreeSet<i64>>,
    next: AtomicI64,
}

/// Comes and goes with one partition. Its name ends with its number; what is in it goes only with DROP.
fn change_definitions(server: &Server, killed: &AtomicBool, number: i64) {
    let Some(mut client) = connect_unless(server, killed) else { return };
    let (from, to) = ((number - 1) * WIDTH, number * WIDTH);
    let name = format!("part_{number}");
    let bounds = format!("for values from ({from}) to ({to})");
    let mut turn = 0;
    let done = (|| -> Result<(), ClientError> {
        loop {
            client.query(&format!("create table if not exists {name} partition of whole {bounds}"))?;
            client.query(&format!("alter table whole detach partition {name}"))?;
            client.query(&format!("insert into {name} values ({to} - 1, 'detached') on conflict do nothing"))?;
            client.query(&format!("begin; alter table whole attach partition {name} {bounds}; insert into whole values ({to} - 2, 'with it') on conflict do nothing; commit"))?;
            // Every other time it does not go.
            turn += 1;
            if turn % 2 == 0 {
                client.query(&format!("drop table {name}"))?;
                client.query(&format!("create table {name} (id bigint primary key, t text)"))?;
                client.query(&format!("alter table whole attach partition {name} {bounds}"))?;
            } else {
                client.query(&format!("begin; drop table {name}; rollback"))?;
            }
        }
    })();
    let e = done.expect_err("it works until it is killed");
    assert!(killed.load(Ordering::SeqCst), "partition {number}: {e}");
}

/// Rows through the named table. A partition that is away is no failure of the test.
fn insert(server: &Server, model: &Model, killed: &AtomicBool) {
    let Some(mut client) = connect_unless(server, killed) else { return };
    loop {
        let n = model.next.fetch_add(1, Ordering::SeqCst);
        let id = n % PARTITIONS * WIDTH + n / PARTITIONS;
        match client.query(&format!("insert into whole values ({id}, 'row')")) {
            Ok(_) => {
                if id / WIDTH == PARTITIONS - 1 {
                    model.committed.lock().expect("no panic").insert(id);
                }
            }
            Err(ClientError::Server(e)) if ["23514", "40P01", "42P01"].contains(&e.code.as_str()) => {}
            Err(e) => {
                assert!(killed.load(Ordering::SeqCst), "id {id}: {e}");
                return;
            }
        }
    }
}

/// Catalogs, rows and indexes agree.
fn is_consistent(server: &Server, model: &Model) {
    let mut client = connect(server);
    let mut ask = |sql: &str| client.integer(sql).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    assert_eq!(
        ask(
            "select count(*) from pg_inherits i full join (select oid from pg_class where relispartition) c on c.oid = i.inhrelid where i.inhrelid is null or c.oid is null"
        ),
        0
    );
    assert_eq!(
        ask("select count(*) from pg_class where relkind = 'r' and relispartition <> (relpartbound is not null)"),
        0
    );
    let parts = client
        .query("select c.relname, c.relispartition from pg_class c where relname ~ '^part_[0-9]$' order by 1")
        .expect("partitions");
    let mut of_parts = 0;
    for row in parts.into_iter().flat_map(|a| a.rows) {
        let (name, is_partition) = (row[0].clone().expect("a name"), row[1].as_deref() == Some("t"));
        let number: i64 = name.trim_start_matches("part_").parse().expect("a number");
        let rows = client.integer(&format!("select count(*) from {name}")).expect("a count");
        let within = client
            .integer(&format!(
                "select count(*) from {name} where id >= {} and id < {}",
                (number - 1) * WIDTH,
                number * WIDTH
            ))
            .expect("a count");
        assert_eq!(rows, within, "{name}");
        if is_partition {
            of_parts += rows;
            // Its part of the primary key is there, and a row is found through it.
            let indexes = client.integer(&format!("select count(*) from pg_index i join pg_inherits h on h.inhrelid = i.indexrelid where i.indrelid = '{name}'::regclass")).expect("a count");
            assert_eq!(indexes, 1, "{name}");
        }
    }
    assert_eq!(client.integer("select count(*) from whole").expect("a count"), of_parts);
    for id in model.committed.lock().expect("no panic").iter() {
        let found = client.integer(&format!("select (select count(*) from whole where id = {id})")).expect("a count");
        assert_eq!(found, 1, "row {id}");
    }
}

#[test]
fn killed_amid_changes_of_partitions() {
    let rounds = std::env::var("KILNDB_CRASH_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(3);
    let folder = TempDir::new("partitions").expect("a temporary folder");
    let data = folder.path().join("data");
    let port = process::free_port().expect("a free port");
    let mut server = process::start_kilndb(&data, port, &[]).expect("the server starts");
    run(&mut connect(&server), "create table whole (id bigint primary key, t text) partition by range (id)");
    for number in 1..=PARTITIONS {
        run(
            &mut connect(&server),
            &format!(
                "create table part_{number} partition of whole for values from ({}) to ({})",
                (number - 1) * WIDTH,
                number * WIDTH
            ),
        );
    }
    let model = Model::default();
    for round in 0..rounds {
        let killed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (server, model, killed) = (&server, &model, &killed);
            let guard = KillAtEnd { server, killed };
            // The last partition stays, so its rows must.
            for number in 1..PARTITIONS {
                scope.spawn(move || change_definitions(server, killed, number));
            }
            scope.spawn(move || insert(server, model, killed));
            std::thread::sleep(Duration::from_millis(100 + 97 * (round % 7)));
            drop(guard);
        });
        server.kill().expect("the server is gone");
        server = process::start_kilndb(&data, port, &[]).expect("the server starts");
        is_consistent(&server, &model);
        // A partition that was dropped or away comes back.
        let mut client = connect(&server);
        for number in 1..PARTITIONS {
            let (from, to) = ((number - 1) * WIDTH, number * WIDTH);
            run(&mut client, &format!("create table if not exists part_{number} (id bigint primary key, t text)"));
            let attached = client
                .value(&format!("select relispartition from pg_class where relname = 'part_{number}'"))
                .expect("a row");
            if attached.as_deref() == Some("f") {
                run(
                    &mut client,
                    &format!("alter table whole attach partition part_{number} for values from ({from}) to ({to})"),
                );
            }
        }
    }
    let committed = model.committed.lock().expect("no panic").len();
    assert!(committed > 0, "nothing was committed");
    assert!(server.stop().expect("a clean stop").success());
    process::check_kilndb(&data).expect("the check finds nothing");
    println!("{rounds} rounds, {committed} rows of the partition that stays");
}
