//! Statements that want more memory than there is: they are refused, the server stays, and what they had goes back.

use kilndb_lab::client::{Client, ClientError};
use kilndb_lab::process::{self, Server, TempDir};
use std::time::{Duration, Instant};

const BUFFERS_MB: u64 = 32;
const LIMIT_MB: u64 = 400;
/// Program, stacks and what allocators keep in reserve for a while: the debug build's size beyond the limit.
const BESIDE_MB: u64 = 300;
const PATIENCE: Duration = Duration::from_secs(60);

struct Bench {
    server: Server,
    _folder: TempDir,
}

impl Bench {
    fn start(name: &str) -> Bench {
        let folder = TempDir::new(name).expect("a temporary folder");
        let port = process::free_port().expect("a free port");
        let settings = [format!("server_mem_limit={LIMIT_MB}MB"), format!("shared_buffers={BUFFERS_MB}MB")];
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let server = process::start_kilndb(&folder.path().join("data"), port, &settings).expect("the server starts");
        Bench { server, _folder: folder }
    }
    fn connect(&self) -> Client {
        Client::connect(self.server.address(), "postgres").expect("a connection")
    }
    /// A line of the engine's status: VmRSS or VmHWM.
    fn size_mb(&self, line: &str) -> u64 {
        let pid = self.server.engine_pid().expect("an engine");
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
        let found = status.lines().find_map(|l| l.strip_prefix(line)).and_then(|l| l.split_whitespace().next());
        found.and_then(|kb| kb.parse::<u64>().ok()).expect("a size") >> 10
    }
    /// Whether nothing has made the supervisor start another engine.
    fn stop(self) {
        let log = self.server.log_tail();
        assert!(!log.contains("was terminated by"), "{log}");
        self.server.stop().expect("the server stops");
    }
}

/// The SQLSTATE that a statement ends with; empty if it succeeds.
fn state(client: &mut Client, sql: &str) -> String {
    match client.query(sql) {
        Ok(_) => String::new(),
        Err(ClientError::Server(e)) => e.code.clone(),
        Err(e) => panic!("{sql}: {e}"),
    }
}

const GREEDY: &[&str] = &[
    "select length(repeat('x', 1000000000))",
    "select array_length(array_agg(g), 1) from generate_series(1, 50000000) g",
    "select string_agg(repeat('x', 1000), '') is null from generate_series(1, 900000) g",
    "select jsonb_agg(repeat('x', 1000)) is null from generate_series(1, 900000) g",
    "do $$ declare a int[] := array[1]; begin loop a := a || a; end loop; end $$",
    "do $$ declare s text := 'x'; begin loop s := s || s; end loop; end $$",
    "select count(pg_notify('c', repeat('x', 5000) || g)) from generate_series(1, 300000) g",
    "select array_length(string_to_array(repeat('x,', 50000000), null), 1)",
    "select array_length(regexp_split_to_array(repeat('a,', 30000000), ','), 1)",
    "select array_length(array_fill(1, array[100000000]), 1)",
];

/// What goes to files instead of growing: each of these wants more than the limit if its keys stay in memory.
const SPILLING: &[(&str, i64)] = &[
    (
        "select count(*) from generate_series(1, 10) o
         where repeat('x', 600) || o not in (select repeat('x', 600) || g + 5 from generate_series(1, 700000) g)",
        5,
    ),
    (
        "with recursive r(n, x) as (select g, repeat('x', 600) from generate_series(1, 700000) g
                                   union select n / 2, x from r where n > 1)
         select count(*) from r",
        700_000,
    ),
];

#[test]
fn who_wants_too_much_is_refused_and_the_memory_goes_back() {
    let bench = Bench::start("memory-greedy");
    let engine = bench.server.engine_pid().expect("an engine");
    std::thread::scope(|scope| {
        let greedy = (0..4).map(|first| {
            let mut client = bench.connect();
            scope.spawn(move || {
                for n in 0..GREEDY.len() {
                    let sql = GREEDY[(first * 3 + n) % GREEDY.len()];
                    assert_eq!(state(&mut client, sql), "53200", "{sql}");
                    assert_eq!(client.integer("select 1").ok(), Some(1));
                }
            })
        });
        let greedy: Vec<_> = greedy.collect();
        // Who wants little is served all the while, whoever has just connected too.
        let mut n = 0;
        while n < 200 || greedy.iter().any(|thread| !thread.is_finished()) {
            let mut client = bench.connect();
            for _ in 0..20 {
                let sum = client.integer(&format!("select sum(g) + {n} from generate_series(1, 1000) g"));
                assert_eq!(sum.expect("an answer to who wants little"), 500_500 + n);
                n += 1;
            }
        }
    });
    assert_eq!(bench.server.engine_pid().ok(), Some(engine), "{}", bench.server.log_tail());
    let peak = bench.size_mb("VmHWM:");
    assert!(peak < LIMIT_MB + BESIDE_MB, "{peak} MB");
    let (began, mut idle) = (Instant::now(), u64::MAX);
    while idle > BUFFERS_MB + BESIDE_MB && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(100));
        idle = bench.size_mb("VmRSS:");
    }
    assert!(idle <= BUFFERS_MB + BESIDE_MB, "{idle} MB stay with an idle server");
    bench.stop();
}

#[test]
fn sets_of_keys_that_do_not_fit_answer_from_files() {
    let bench = Bench::start("memory-sets");
    let mut client = bench.connect();
    for (sql, answer) in SPILLING {
        assert_eq!(client.integer(sql).expect("an answer"), *answer, "{sql}");
    }
    let peak = bench.size_mb("VmHWM:");
    assert!(peak < LIMIT_MB + BESIDE_MB, "{peak} MB");
    bench.stop();
}

#[test]
fn the_sessions_own_limit_holds_for_a_transaction_and_can_be_caught() {
    let bench = Bench::start("memory-own");
    let mut client = bench.connect();
    let sql = "select length(repeat('x', 20000000))";
    assert_eq!(state(&mut client, sql), "");
    client.query("set statement_mem_limit = '10MB'").expect("a setting");
    assert_eq!(client.value("show statement_mem_limit").ok().flatten().as_deref(), Some("10MB"));
    assert_eq!(state(&mut client, sql), "53200");
    let caught = "do $$ begin perform length(repeat('x', 20000000)); raise exception 'not refused';
                  exception when out_of_memory then null; end $$";
    assert_eq!(state(&mut client, caught), "");
    // Cursors that are open hold what they have sorted: each alone is less than the limit.
    client.query("begin").expect("a transaction");
    let cursor = |n: i32| {
        format!(
            "declare c{n} cursor for select string_agg(repeat('x', 1000), '') from generate_series(1, 3000) union all
             select 'y' from generate_series(1, 2); fetch c{n}"
        )
    };
    let states: Vec<String> = (0..10).map(|n| state(&mut client, &cursor(n))).collect();
    assert_eq!(states[0], "");
    assert!(states.contains(&"53200".to_string()), "{states:?}");
    client.query("rollback").expect("an end");
    assert_eq!(state(&mut client, "select length(repeat('x', 2000000))"), "");
    client.query("reset statement_mem_limit").expect("a setting");
    assert_eq!(state(&mut client, sql), "");
    bench.stop();
}

#[test]
fn a_message_without_room_is_refused_and_read_to_its_end() {
    let bench = Bench::start("memory-message");
    let mut client = bench.connect();
    let long = format!("select length('{}')", "x".repeat((LIMIT_MB as usize - 50) << 20));
    for _ in 0..2 {
        assert_eq!(state(&mut client, &long), "53200");
        assert_eq!(client.integer("select 1").ok(), Some(1));
    }
    let peak = bench.size_mb("VmHWM:");
    assert!(peak < BUFFERS_MB + BESIDE_MB, "{peak} MB for a message that is thrown away");
    // One that fits is taken.
    let long = format!("select length('{}')", "x".repeat(10 << 20));
    assert_eq!(client.integer(&long).ok(), Some(10 << 20));
    bench.stop();
}

#[test]
fn what_sessions_keep_is_counted_too() {
    let bench = Bench::start("memory-kept");
    let (mut hoarder, mut other) = (bench.connect(), bench.connect());
    let text = "x".repeat(400_000);
    let refused = (0..5000).position(|n| !state(&mut hoarder, &format!("prepare p{n} as select '{text}'")).is_empty());
    let kept = refused.expect("it is refused before the machine is full");
    assert!(kept > 50, "{kept}");
    let peak = bench.size_mb("VmHWM:");
    assert!(peak < LIMIT_MB + BESIDE_MB, "{peak} MB");
    assert_eq!(state(&mut other, "select length(repeat('x', 20000000))"), "53200");
    drop(hoarder);
    let began = Instant::now();
    while !state(&mut other, "select length(repeat('x', 20000000))").is_empty() {
        assert!(began.elapsed() < PATIENCE, "what a session has kept goes with it");
        std::thread::sleep(Duration::from_millis(50));
    }
    bench.stop();
}
