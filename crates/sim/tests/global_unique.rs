//! One unique index for all partitions, against a model and under `kill -9`.
//! `KILNDB_CRASH_ROUNDS` sets the number of rounds.

use kilndb_lab::client::{Client, ClientError};
use kilndb_lab::guard::{KillAtEnd, connect_unless};
use kilndb_lab::process::{self, Server, TempDir};
use kilndb_sim::random::Random;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

fn connect(server: &Server) -> Client {
    Client::connect(server.address(), "postgres").expect("a connection")
}
fn run(client: &mut Client, sql: &str) {
    client.query(sql).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
}
/// SQLSTATE; empty: it was done.
fn outcome(client: &mut Client, sql: &str) -> String {
    match client.query(sql) {
        Ok(_) => String::new(),
        Err(ClientError::Server(e)) => e.code.clone(),
        Err(e) => panic!("{sql}: {e}"),
    }
}

const REGIONS: u64 = 4;
const IDS: u64 = 60;

fn partition_of(region: u64, with: &str) -> String {
    format!("create table part_{region} {with} for values in ({region})")
}
fn make_table(client: &mut Client) {
    run(client, "create table whole (id int, region int, note text, unique (id)) partition by list (region)");
    for region in 0..REGIONS {
        run(client, &partition_of(region, "partition of whole"));
    }
}

/// Region by id.
type Rows = BTreeMap<u64, u64>;

/// What is in the table, read as a whole, is the model; each id is found by itself, and is taken.
fn agrees(client: &mut Client, model: &Rows, what: &str) {
    let answers = client.query("select id, region, tableoid::regclass from whole order by id").expect("rows");
    let rows: Vec<(u64, u64, String)> = answers
        .into_iter()
        .flat_map(|a| a.rows)
        .map(|r| {
            (
                r[0].as_deref().expect("an id").parse().expect("a number"),
                r[1].as_deref().expect("a region").parse().expect("a number"),
                r[2].clone().expect("a name"),
            )
        })
        .collect();
    let expected: Vec<(u64, u64, String)> =
        model.iter().map(|(id, region)| (*id, *region, format!("part_{region}"))).collect();
    assert_eq!(rows, expected, "{what}");
    for id in 0..IDS {
        let found = client.value(&format!("select (select region from whole where id = {id})")).expect("an answer");
        assert_eq!(found, model.get(&id).map(u64::to_string), "{what}: id {id}");
    }
}

/// One random change; Some: how the rows are after it.
fn change(client: &mut Client, random: &mut Random, model: &Rows) -> Option<Rows> {
    let (id, region, other) = (random.below(IDS), random.below(REGIONS), random.below(IDS));
    let mut after = model.clone();
    let (sql, expected) = match random.below(16) {
        0..=4 => {
            let taken = after.contains_key(&id);
            after.entry(id).or_insert(region);
            (format!("insert into whole values ({id}, {region}, 'new')"), if taken { "23505" } else { "" })
        }
        5 => {
            let taken = after.contains_key(&id);
            after.entry(id).or_insert(region);
            (format!("insert into part_{region} values ({id}, {region}, 'new')"), if taken { "23505" } else { "" })
        }
        6 => {
            after.entry(id).or_insert(region);
            (
                format!(
                    "insert into whole values ({id}, {region}, 'new') on conflict (id) do update set note = 'again'"
                ),
                "",
            )
        }
        7 => {
            after.entry(id).or_insert(region);
            (format!("insert into whole values ({id}, {region}, 'new') on conflict do nothing"), "")
        }
        8 => {
            let state = match after.remove(&id) {
                Some(region) if other == id || !after.contains_key(&other) => {
                    after.insert(other, region);
                    ""
                }
                Some(_) => "23505",
                None => "",
            };
            (format!("update whole set id = {other} where id = {id}"), state)
        }
        9 | 10 => {
            after.entry(id).and_modify(|r| *r = region);
            (format!("update whole set region = {region} where id = {id}"), "")
        }
        11 => {
            after.remove(&id);
            (format!("delete from whole where id = {id}"), "")
        }
        12 => {
            after.retain(|id, r| *r != region || !id.is_multiple_of(3));
            (format!("delete from part_{region} where id % 3 = 0"), "")
        }
        13 => {
            after.retain(|_, r| *r != region);
            (format!("truncate part_{region}"), "")
        }
        14 => {
            after.retain(|_, r| *r != region);
            (format!("drop table part_{region}; {}", partition_of(region, "partition of whole")), "")
        }
        _ => {
            // While it is away, it gets the id as well, or does not.
            let elsewhere = after.get(&id).is_some_and(|r| *r != region);
            after.entry(id).or_insert(region);
            let sql = format!(
                "alter table whole detach partition part_{region}; insert into part_{region} values ({id}, {region}, 'away') on conflict do nothing; alter table whole attach partition part_{region} for values in ({region})"
            );
            (sql, if elsewhere { "23505" } else { "" })
        }
    };
    let got = outcome(client, &sql);
    assert_eq!(got, expected, "{sql}: {model:?}");
    expected.is_empty().then_some(after)
}

#[test]
fn random_changes_do_what_the_model_does() {
    let folder = TempDir::new("global-model").expect("a temporary folder");
    let data = folder.path().join("data");
    let mut server =
        process::start_kilndb(&data, process::free_port().expect("a free port"), &[]).expect("the server starts");
    let mut client = connect(&server);
    make_table(&mut client);
    let mut model = Rows::new();
    let mut random = Random(20_261_122);
    for round in 0..400 {
        let seed = random.0;
        let what = format!("round {round}, seed {seed}");
        if random.below(3) > 0 {
            if let Some(after) = change(&mut client, &mut random, &model) {
                model = after;
            }
        } else {
            // Several in a transaction, some of them taken back.
            run(&mut client, "begin");
            let mut inside = model.clone();
            for _ in 0..1 + random.below(4) {
                run(&mut client, "savepoint s");
                match change(&mut client, &mut random, &inside) {
                    Some(after) if random.below(3) > 0 => inside = after,
                    _ => run(&mut client, "rollback to s"),
                }
            }
            if random.below(4) > 0 {
                run(&mut client, "commit");
                model = inside;
            } else {
                run(&mut client, "rollback");
            }
        }
        if round % 8 == 0 {
            agrees(&mut client, &model, &what);
        }
        if round % 150 == 149 {
            assert!(server.stop().expect("a clean stop").success());
            process::check_kilndb(&data).expect("the check finds nothing");
            server = process::start_kilndb(&data, process::free_port().expect("a free port"), &[])
                .expect("the server starts");
            client = connect(&server);
        }
    }
    agrees(&mut client, &model, "the end");
    drop(client);
    assert!(server.stop().expect("a clean stop").success());
    process::check_kilndb(&data).expect("the check finds nothing");
}

/// Changes of rows through the whole. Whoever comes second, or is chosen to end a circle, tries something else.
fn write(server: &Server, killed: &AtomicBool, seed: u64, done: &AtomicU64) {
    let Some(mut client) = connect_unless(server, killed) else { return };
    let mut random = Random(seed + 1);
    loop {
        let (id, region, other) = (random.below(IDS * 4), random.below(REGIONS), random.below(IDS * 4));
        let sql = match random.below(8) {
            0..=2 => format!("insert into whole values ({id}, {region}, 'new')"),
            3 => format!(
                "insert into whole values ({id}, {region}, 'new') on conflict (id) do update set note = 'again'"
            ),
            4 => format!("update whole set id = {other} where id = {id}"),
            5 => format!("update whole set region = {region} where id = {id}"),
            6 => format!("delete from whole where id = {id}"),
            _ => {
                format!("begin; insert into whole values ({id}, {region}, 'one'), ({other}, {region}, 'other'); commit")
            }
        };
        match client.query(&sql) {
            Ok(_) => _ = done.fetch_add(1, Ordering::SeqCst),
            Err(ClientError::Server(e))
                if ["23505", "23514", "40P01", "40001", "42P01", "55P03"].contains(&e.code.as_str()) =>
            {
                if sql.starts_with("begin") && client.query("rollback").is_err() {
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

/// The last partition comes and goes. What it has by then may be elsewhere too.
fn define(server: &Server, killed: &AtomicBool) {
    let Some(mut client) = connect_unless(server, killed) else { return };
    let region = REGIONS - 1;
    let commands = [
        format!("alter table whole detach partition part_{region}"),
        format!("alter table whole attach partition part_{region} for values in ({region})"),
        format!("truncate part_{region}"),
        format!("begin; truncate part_{region}; rollback"),
        format!("alter table whole attach partition part_{region} for values in ({region})"),
        format!("begin; drop table part_{region}; {}; commit", partition_of(region, "partition of whole")),
    ];
    loop {
        for sql in &commands {
            match client.query(sql) {
                Ok(_) => {}
                // It is a partition already, or not; or has what the others have by now.
                Err(ClientError::Server(e))
                    if ["42809", "42P01", "23505", "40P01", "42P17"].contains(&e.code.as_str()) =>
                {
                    if sql.starts_with("begin") && client.query("rollback").is_err() {
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
}

#[test]
fn killed_amid_changes_ids_stay_unique() {
    let rounds = std::env::var("KILNDB_CRASH_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(3);
    let folder = TempDir::new("global-crash").expect("a temporary folder");
    let data = folder.path().join("data");
    let port = process::free_port().expect("a free port");
    let mut server = process::start_kilndb(&data, port, &[]).expect("the server starts");
    make_table(&mut connect(&server));
    let done = AtomicU64::new(0);
    for round in 0..rounds {
        let killed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (server, killed, done) = (&server, &killed, &done);
            let guard = KillAtEnd { server, killed };
            for n in 0..4 {
                scope.spawn(move || write(server, killed, round * 100 + n, done));
            }
            scope.spawn(move || define(server, killed));
            std::thread::sleep(Duration::from_millis(150 + 97 * (round % 7)));
            drop(guard);
        });
        server.kill().expect("the server is gone");
        server = process::start_kilndb(&data, port, &[]).expect("the server starts");
        let mut client = connect(&server);
        let answers = client.query("select id, region from whole order by id").expect("rows");
        let mut model = Rows::new();
        for row in answers.into_iter().flat_map(|a| a.rows) {
            let number = |i: usize| row[i].as_deref().expect("a value").parse::<u64>().expect("a number");
            assert_eq!(model.insert(number(0), number(1)), None, "round {round}: id {} twice", number(0));
        }
        for (id, region) in &model {
            let found = client.value(&format!("select (select region from whole where id = {id})")).expect("an answer");
            assert_eq!(found, Some(region.to_string()), "round {round}: id {id}");
            let to = (region + 1) % (REGIONS - 1);
            assert_eq!(
                outcome(&mut client, &format!("insert into whole values ({id}, {to}, 'second')")),
                "23505",
                "round {round}: id {id}"
            );
        }
    }
    assert!(done.load(Ordering::SeqCst) > 0, "nothing was done");
    assert!(server.stop().expect("a clean stop").success());
    process::check_kilndb(&data).expect("the check finds nothing");
    println!("{rounds} rounds, {} changes", done.load(Ordering::SeqCst));
}
