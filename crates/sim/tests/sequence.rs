//! nextval() gives every number once: to sessions that ask at the same time, and after a crash behind a checkpoint.
//! `KILNDB_CRASH_ROUNDS` sets the number of rounds, `KILNDB_CRASH_SEED` repeats the choices of a run.

use kilndb_lab::client::{Address, Client};
use kilndb_lab::process::{self, TempDir};
use kilndb_sim::sequences::{self, SequenceOptions};

const SESSIONS: usize = 12;
const EACH: usize = 6_000;
const KILLS: usize = 4;

fn connect(port: u16) -> Client {
    Client::connect(&Address::local(port), "postgres").expect("a connection")
}
fn take(client: &mut Client, sql: &str) -> i64 {
    client.integer(sql).expect("a number")
}

#[test]
fn every_number_is_given_once() {
    let folder = TempDir::new("sequence").expect("a temporary folder");
    let port = process::free_port().expect("a free port");
    let data = folder.path().join("data");
    let mut server = process::start_kilndb(&data, port, &[]).expect("the server starts");
    connect(port).query("create sequence s; create sequence cached cache 7").expect("sequences");

    let given = std::thread::scope(|scope| {
        let sessions: Vec<_> = (0..SESSIONS)
            .map(|_| {
                scope.spawn(move || {
                    let mut client = connect(port);
                    (0..EACH).map(|_| take(&mut client, "select nextval('s')")).collect::<Vec<i64>>()
                })
            })
            .collect();
        sessions.into_iter().map(|s| s.join().expect("a session")).collect::<Vec<_>>()
    });
    for of_one in &given {
        assert!(of_one.is_sorted_by(|a, b| a < b), "a session's numbers grow");
    }
    let mut all: Vec<i64> = given.into_iter().flatten().collect();
    all.sort_unstable();
    assert_eq!(all, (1..=(SESSIONS * EACH) as i64).collect::<Vec<_>>(), "each number once, none left out");

    let mut last = all.last().copied().unwrap_or(0);
    for before in 0..KILLS {
        // What a number promises is kept for it once something that depends on it is committed.
        let mut client = connect(port);
        client.query("create table if not exists t (n bigint, c bigint)").expect("a table");
        for _ in 0..before {
            take(&mut client, "insert into t values (nextval('s'), nextval('cached')) returning n");
        }
        client.query("checkpoint").expect("a checkpoint");
        for _ in 0..=before {
            take(&mut client, "insert into t values (nextval('s'), nextval('cached')) returning n");
        }
        let most = take(&mut client, "select max(n) from t").max(last);
        let most_cached = take(&mut client, "select max(c) from t");
        server.kill().expect("the server is killed");
        server = process::start_kilndb(&data, port, &[]).expect("the server starts again");
        let mut client = connect(port);
        last = take(&mut client, "select nextval('s')");
        let cached = take(&mut client, "select nextval('cached')");
        assert!(last > most, "{last} was given before the crash: {most} numbers were");
        assert!(cached > most_cached, "{cached} was given before the crash: up to {most_cached} were");
        assert!(last <= most + 33, "no more than 32 numbers are lost: {most}, then {last}");
    }
    server.stop().expect("the server stops");
}

#[test]
fn what_was_told_does_not_come_again() {
    let number = |name: &str, default: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64);
    let options = SequenceOptions {
        rounds: number("KILNDB_CRASH_ROUNDS", 6),
        sessions: 6,
        load_max_ms: 1200,
        seed: number("KILNDB_CRASH_SEED", time),
    };
    println!("seed {}", options.seed);
    match sequences::run(&options, |line| println!("{line}")) {
        Ok(report) => assert!(report.told > 0 && report.own_steps > 0, "{report:?}"),
        Err(message) => panic!("{message}"),
    }
}
