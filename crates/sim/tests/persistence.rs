//! What is left of tables of each kind (logged, unlogged, unlogged and kept at checkpoints, temporary, global
//! temporary) after a clean stop, a kill, a kill in a checkpoint, a kill in recovery, and on a disk that is full for a
//! while. A failed sync is in `crates/storage/tests/failing_disk.rs`, where it can be made to happen. After each
//! `kilndb check` finds nothing.

use kilndb_lab::client::{Client, ClientError};
use kilndb_lab::process::{self, Server, TempDir};
use kilndb_sim::rest::log_at_rest;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Rows, their ids' sum, rows changed after the checkpoint, and the sum of ids found through the index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rows {
    count: i64,
    sum: i64,
    late: i64,
}
const NONE: Rows = Rows { count: 0, sum: 0, late: 0 };
const BEFORE: i64 = 2000;
/// As of the checkpoint.
const AT_CHECKPOINT: Rows = Rows { count: BEFORE, sum: BEFORE * (BEFORE + 1) / 2, late: 0 };
/// Rows 1–100 are changed after it, 101–200 deleted, 2001–3000 added.
const AT_END: Rows = Rows { count: 2900, sum: 3000 * 3001 / 2 - (101 + 200) * 50, late: 1100 };

struct Bench {
    _folder: TempDir,
    data: PathBuf,
    port: u16,
    settings: Vec<&'static str>,
}
impl Bench {
    fn new(name: &str, settings: &[&'static str]) -> Bench {
        let folder = TempDir::new(name).expect("a temporary folder");
        let data = folder.path().join("data");
        Bench { _folder: folder, data, port: process::free_port().expect("a free port"), settings: settings.to_vec() }
    }
    fn start(&self) -> Server {
        process::start_kilndb(&self.data, self.port, &self.settings).expect("the server starts")
    }
    /// A clean stop, the check, and the next start.
    fn checked(&self, server: Server) -> Server {
        server.stop().expect("the server stops");
        process::check_kilndb(&self.data).expect("the check finds nothing");
        self.start()
    }
}
fn connect(server: &Server) -> Client {
    Client::connect(server.address(), "postgres").expect("a connection")
}
fn run(client: &mut Client, sql: &str) {
    client.query(sql).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
}
fn code(client: &mut Client, sql: &str) -> Option<String> {
    match client.query(sql) {
        Ok(_) => None,
        Err(ClientError::Server(e)) => Some(e.code),
        Err(e) => panic!("{sql}: {e}"),
    }
}

const KINDS: [(&str, &str); 5] = [
    ("logged", "create table logged (id int generated always as identity primary key, t text)"),
    ("unlogged", "create unlogged table unlogged (id int generated always as identity primary key, t text)"),
    (
        "kept",
        "create unlogged table kept (id int generated always as identity primary key, t text) with (unlogged_recovery = checkpoint)",
    ),
    ("passing", "create temp table passing (id int generated always as identity primary key, t text)"),
    (
        "shared",
        "create global temp table shared (id int generated always as identity primary key, t text) on commit preserve rows",
    ),
];

/// Both ways to the rows must say the same; None: there is no such table.
fn rows(client: &mut Client, table: &str) -> Option<Rows> {
    if client.integer(&format!("select count(*) from pg_class where relname = '{table}'")).ok()? == 0 {
        return None;
    }
    let mut number = |sql: String| client.integer(&sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let found = Rows {
        count: number(format!("select count(*) from {table}")),
        sum: number(format!("select coalesce(sum(id), 0) from {table}")),
        late: number(format!("select count(*) from {table} where t || '' like 'late%'")),
    };
    let joined = number(format!(
        "select coalesce(sum((select id from {table} x where x.id = g)), 0) from generate_series(1, 3500) g"
    ));
    assert_eq!(joined, found.sum, "{table}: by its key");
    let texts = number(format!(
        "select coalesce(sum((select sum(id) from {table} x where left(x.t, 20) = 'late' || g)), 0) from generate_series(1, 3500) g"
    ));
    assert_eq!(
        texts,
        number(format!("select coalesce(sum(id), 0) from {table} where t || '' like 'late%'")),
        "{table}: by its text"
    );
    Some(found)
}

/// Tables of all kinds, a checkpoint in the middle of a transaction that never ends, and changes after it. Returns the
/// sessions.
fn fill(server: &Server) -> (Client, Client) {
    let mut client = connect(server);
    for (table, definition) in KINDS {
        run(&mut client, definition);
        run(
            &mut client,
            &format!(
                "create index on {table} (left(t, 20)); insert into {table} (t) select 'early' || g from generate_series(1, {BEFORE}) g"
            ),
        );
    }
    let mut open = connect(server);
    for table in ["logged", "unlogged", "kept"] {
        let begin = if open.status == b'T' { "" } else { "begin; " };
        run(
            &mut open,
            &format!(
                "{begin}update {table} set t = 'never' || id where id between 500 and 600; delete from {table} where id between 601 and 700"
            ),
        );
        run(
            &mut open,
            &format!(
                "insert into {table} (id, t) overriding system value select g, 'never' from generate_series(100000, 100500) g"
            ),
        );
        run(
            &mut open,
            &format!(
                "savepoint s; update {table} set t = repeat('x', 9000) where id between 500 and 520; rollback to s"
            ),
        );
        run(&mut open, &format!("update {table} set t = repeat('x', 9000) where id between 510 and 530"));
    }
    run(&mut client, "checkpoint");
    for (table, _) in KINDS {
        run(
            &mut client,
            &format!(
                "update {table} set t = 'late' || id where id <= 100; delete from {table} where id between 101 and 200"
            ),
        );
        run(&mut client, &format!("insert into {table} (t) select 'late' || g from generate_series(2001, 3000) g"));
        assert_eq!(rows(&mut client, table), Some(AT_END), "{table}");
    }
    (client, open)
}
/// The tables after a start, in the order of [`KINDS`].
fn expect(server: &Server, what: &str, expected: [Option<Rows>; 5]) {
    let mut client = connect(server);
    for ((table, _), expected) in KINDS.iter().zip(expected) {
        assert_eq!(rows(&mut client, table), expected, "{table} after {what}");
    }
}
/// What is left can be written to, and numbers go on where the rows are.
fn still_works(server: &Server) {
    let mut client = connect(server);
    for table in ["logged", "unlogged", "kept", "shared"] {
        let highest = client.integer(&format!("select coalesce(max(id), 0) from {table}")).expect("a number");
        let next = client.integer(&format!("insert into {table} (t) values ('after') returning id")).expect("a row");
        assert!(next > highest, "{table}: {next} after {highest}");
        if table == "unlogged" && highest == 0 {
            assert_eq!(next, 1, "its sequence begins again");
        }
        run(&mut client, &format!("delete from {table} where t = 'after'"));
    }
}

#[test]
fn clean_stop() {
    let bench = Bench::new("kinds-stop", &[]);
    let server = bench.start();
    let sessions = fill(&server);
    let server = bench.checked(server);
    drop(sessions);
    expect(&server, "a clean stop", [Some(AT_END), Some(AT_END), Some(AT_END), None, Some(NONE)]);
    still_works(&server);
    // A kill right after a start finds what the stop has left, even without a checkpoint in between.
    server.kill().expect("the server is killed");
    let server = bench.start();
    expect(&server, "a clean stop and a kill", [Some(AT_END), Some(NONE), Some(AT_END), None, Some(NONE)]);
    bench.checked(server).stop().expect("the server stops");
}

const AFTER_KILL: [Option<Rows>; 5] = [Some(AT_END), Some(NONE), Some(AT_CHECKPOINT), None, Some(NONE)];

#[test]
fn kill() {
    let bench = Bench::new("kinds-kill", &[]);
    let server = bench.start();
    let sessions = fill(&server);
    server.kill().expect("the server is killed");
    drop(sessions);
    let server = bench.start();
    expect(&server, "a kill", AFTER_KILL);
    still_works(&server);
    let server = bench.checked(server);
    expect(&server, "a kill and a clean stop", AFTER_KILL);
    server.stop().expect("the server stops");
}

#[test]
fn kill_in_recovery() {
    // Little memory: pages go home before they are changed again.
    let bench = Bench::new("kinds-recovery", &["shared_buffers=2MB"]);
    let server = bench.start();
    let sessions = fill(&server);
    server.kill().expect("the server is killed");
    drop(sessions);
    for ms in [2, 5, 10, 20, 30, 45, 60, 90, 130] {
        process::die_in_start(&bench.data, bench.port, Duration::from_millis(ms)).expect("a start that is cut off");
    }
    let server = bench.start();
    expect(&server, "kills in recovery", AFTER_KILL);
    still_works(&server);
    bench.checked(server).stop().expect("the server stops");
}

#[test]
fn kill_in_a_checkpoint() {
    let bench = Bench::new("kinds-checkpoint", &["shared_buffers=4MB"]);
    let mut server = bench.start();
    run(&mut connect(&server), "create table logged (id int primary key, n int, t text); create unlogged table unlogged (like logged including all);
        create unlogged table kept (like logged including all) with (unlogged_recovery = checkpoint)");
    for table in ["logged", "unlogged", "kept"] {
        run(&mut connect(&server), &format!("create index on {table} (n)"));
        run(
            &mut connect(&server),
            &format!("insert into {table} select g, 0, repeat('x', 400) from generate_series(1, 20000) g"),
        );
    }
    run(&mut connect(&server), "checkpoint");
    let mut at_last = 0;
    for (round, ms) in (1i64..).zip([0, 1, 2, 4, 8, 15, 30, 60, 120]) {
        let mut client = connect(&server);
        for table in ["logged", "unlogged", "kept"] {
            run(&mut client, &format!("update {table} set n = {round}"));
        }
        let mut open = connect(&server);
        run(
            &mut open,
            "begin; update kept set n = -1 where id % 3 = 0; insert into kept select g, -1 from generate_series(50000, 50100) g",
        );
        client.send("checkpoint").expect("a message");
        let (writer, address) = (connect(&server), server.address().clone());
        // Somebody changes the rows while they are copied.
        let busy = std::thread::spawn(move || {
            let mut writer = writer;
            while writer.query("update kept set t = repeat('y', 300) where id % 7 = 1 and id % 3 <> 0").is_ok() {}
            drop(address);
        });
        std::thread::sleep(Duration::from_millis(ms));
        server.kill().expect("the server is killed");
        busy.join().expect("the writer");
        drop((client, open));
        server = bench.start();
        let mut client = connect(&server);
        let mut one = |sql: &str| client.value(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
        assert_eq!(
            one("select count(*) || ' ' || min(n) || ' ' || max(n) from logged"),
            Some(format!("20000 {round} {round}"))
        );
        assert_eq!(one("select count(*) from unlogged").as_deref(), Some("0"));
        let kept = one("select count(*) || ' ' || min(n) || ' ' || max(n) from kept").unwrap_or_default();
        let possible = [format!("20000 {at_last} {at_last}"), format!("20000 {round} {round}")];
        assert!(possible.contains(&kept), "round {round}: kept has {kept}, not {possible:?}");
        at_last = if kept == possible[1] { round } else { at_last };
        assert_eq!(one(&format!("select count(*) from kept where n = {at_last}")).as_deref(), Some("20000"));
        assert_eq!(
            one("select count(*) from generate_series(1, 20000) g where exists (select from kept where id = g)")
                .as_deref(),
            Some("20000")
        );
        let halves = one("select count(distinct length(t)) from kept where id % 7 = 1 and id % 3 <> 0");
        assert_eq!(halves.as_deref(), Some("1"), "a statement by half");
        run(&mut client, "insert into unlogged select g, 0, repeat('x', 400) from generate_series(1, 20000) g");
        drop(client);
        if round % 3 == 0 {
            server = bench.checked(server);
        }
    }
    bench.checked(server).stop().expect("the server stops");
}

#[test]
fn changes_of_definition_keep_the_rows() {
    let bench = Bench::new("kinds-definitions", &[]);
    let server = bench.start();
    let mut client = connect(&server);
    for (table, how) in [
        ("to_kept", "alter table to_kept set (unlogged_recovery = checkpoint)"),
        ("to_logged", "alter table to_logged set logged"),
        ("twice", "alter table twice set logged; alter table twice set unlogged"),
        ("typed", "alter table typed alter t type varchar(20)"),
        ("indexed", "create index on indexed (t)"),
        ("built", "reindex table built"),
        ("more", "alter table more add column n int default 3, add column u int unique generated always as identity"),
        ("emptied", "truncate emptied restart identity"),
        ("plain", "alter table plain reset (unlogged_recovery)"),
        ("undone", "begin; truncate undone; alter table undone set logged; rollback"),
    ] {
        let option = if table == "to_kept" { "" } else { "with (unlogged_recovery = checkpoint)" };
        run(&mut client, &format!("create unlogged table {table} (id serial primary key, t text) {option}"));
        run(&mut client, &format!("insert into {table} (t) select 'v' || g from generate_series(1, 1000) g"));
        if table != "to_kept" {
            run(&mut client, "checkpoint");
        }
        run(&mut client, how);
    }
    run(
        &mut client,
        "create unlogged table made with (unlogged_recovery = checkpoint) as select g as id, 'v' || g as t from generate_series(1, 1000) g",
    );
    server.kill().expect("the server is killed");
    let server = bench.start();
    let mut client = connect(&server);
    for (table, left) in [
        ("to_kept", 1000),
        ("to_logged", 1000),
        ("twice", 1000),
        ("typed", 1000),
        ("indexed", 1000),
        ("built", 1000),
        ("more", 1000),
        ("emptied", 0),
        ("plain", 0),
        ("undone", 1000),
        ("made", 1000),
    ] {
        let mut one = |sql: String| client.integer(&sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
        assert_eq!(one(format!("select count(*) from {table}")), left, "{table}");
        assert_eq!(
            one(format!("select count(*) from {table} where t = 'v7' and id = 7")),
            i64::from(left > 0),
            "{table}"
        );
        if table != "made" {
            // One that becomes plainly unlogged begins again where it was then, as with SET UNLOGGED.
            let next = if table == "emptied" { 1 } else { 1001 };
            assert_eq!(one(format!("select nextval('{table}_id_seq')")), next, "{table}");
        }
    }
    bench.checked(server).stop().expect("the server stops");
}

#[test]
fn kill_in_set_logged() {
    let bench = Bench::new("kinds-set-logged", &["shared_buffers=8MB"]);
    let mut server = bench.start();
    run(&mut connect(&server), "create table changing (id serial primary key, t text); create index on changing (t)");
    for ms in [1, 5, 15, 40, 80, 150, 250, 400] {
        let mut client = connect(&server);
        run(
            &mut client,
            "truncate changing; insert into changing (id, t) select g, 'v' || g from generate_series(1, 20000) g; checkpoint",
        );
        let state = |client: &mut Client| {
            client
                .value("select relpersistence from pg_class where relname = 'changing'")
                .expect("a letter")
                .unwrap_or_default()
        };
        let before = state(&mut client);
        client
            .send(&format!("alter table changing set {}", if before == "p" { "unlogged" } else { "logged" }))
            .expect("a message");
        std::thread::sleep(Duration::from_millis(ms));
        server.kill().expect("the server is killed");
        drop(client);
        server = bench.start();
        let mut client = connect(&server);
        let after = state(&mut client);
        let expected = if after == "p" { 20000 } else { 0 };
        assert_eq!(
            client.integer("select count(*) from changing").ok(),
            Some(expected),
            "from {before} to {after} after {ms} ms"
        );
        assert_eq!(
            client
                .integer(
                    "select count(*) from generate_series(1, 20000) g where exists (select from changing where id = g)"
                )
                .ok(),
            Some(expected)
        );
        assert_eq!(client.integer("select count(*) from generate_series(1, 20000) g where exists (select from changing where t = 'v' || g)").ok(), Some(expected));
        let letters = client
            .value("select string_agg(distinct relpersistence::text, '') from pg_class where relname like 'changing%'")
            .expect("letters");
        assert_eq!(letters.as_deref(), Some(after.as_str()), "table, indexes and sequence");
        drop(client);
        server = bench.checked(server);
    }
    server.stop().expect("the server stops");
}

#[test]
fn unlogged_sequences_begin_again() {
    let bench = Bench::new("kinds-sequences", &[]);
    let mut server = bench.start();
    let mut client = connect(&server);
    run(
        &mut client,
        "create unlogged sequence fresh start 5; create sequence changed; create unlogged sequence restarted; create sequence logged_now",
    );
    let next = |client: &mut Client, name: &str| {
        client.integer(&format!("select nextval('{name}')")).unwrap_or_else(|e| panic!("{name}: {e}"))
    };
    for _ in 0..40 {
        for name in ["fresh", "changed", "restarted", "logged_now"] {
            next(&mut client, name);
        }
    }
    run(
        &mut client,
        "alter sequence changed set unlogged; alter sequence restarted restart 1000; alter sequence logged_now set unlogged",
    );
    run(&mut client, "select nextval('logged_now'); alter sequence logged_now set logged; checkpoint");
    for _ in 0..3 {
        for name in ["fresh", "changed", "restarted"] {
            next(&mut client, name);
        }
    }
    for _ in 0..2 {
        server.kill().expect("the server is killed");
        server = bench.start();
        let mut client = connect(&server);
        // As PostgreSQL: what the sequence was made with, or what it had when it became unlogged.
        assert_eq!(
            [next(&mut client, "fresh"), next(&mut client, "changed"), next(&mut client, "restarted")],
            [5, 41, 1000]
        );
        assert!(next(&mut client, "logged_now") > 41);
    }
    let server = bench.checked(server);
    let mut client = connect(&server);
    assert_eq!(
        [next(&mut client, "fresh"), next(&mut client, "changed"), next(&mut client, "restarted")],
        [6, 42, 1001]
    );
    server.stop().expect("the server stops");
}

/// A database made of another one has its tables of all kinds, and each keeps what its kind promises.
#[test]
fn kill_after_a_database_was_copied() {
    let bench = Bench::new("kinds-template", &[]);
    let mut server = bench.start();
    let database = |server: &Server, name: &str| Client::connect(server.address(), name).expect("a connection");
    run(&mut connect(&server), "create database model");
    let mut client = database(&server, "model");
    run(
        &mut client,
        "create unlogged table kept (a int primary key, b serial) with (unlogged_recovery = checkpoint); create unlogged table emptied (a int); create table logged (a int)",
    );
    run(
        &mut client,
        "insert into kept select generate_series(1, 1000); insert into emptied values (1); insert into logged values (1)",
    );
    drop(client);
    run(&mut connect(&server), "create database copied template model");
    let rows =
        |client: &mut Client, table: &str| client.integer(&format!("select count(*) from {table}")).expect("a count");
    let mut client = database(&server, "copied");
    assert_eq!([rows(&mut client, "kept"), rows(&mut client, "emptied"), rows(&mut client, "logged")], [1000, 1, 1]);
    run(&mut client, "checkpoint; insert into kept select generate_series(1001, 1100)");
    run(&mut database(&server, "model"), "delete from kept where a <= 500");
    server.kill().expect("the server is killed");
    server = bench.start();
    for name in ["model", "copied"] {
        let mut client = database(&server, name);
        assert_eq!(
            [rows(&mut client, "kept"), rows(&mut client, "emptied"), rows(&mut client, "logged")],
            [1000, 0, 1],
            "{name}"
        );
        assert_eq!(client.integer("insert into kept (a) values (2000) returning b").ok(), Some(1001), "{name}");
        assert_eq!(rows(&mut client, "kept where a between 1 and 2000"), 1001, "{name}");
    }
    bench.checked(server).stop().expect("the server stops");
}

/// No file of the process may grow beyond this; None: there is no limit.
fn limit_files(server: &Server, bytes: Option<u64>) {
    let limit = libc::rlimit { rlim_cur: bytes.unwrap_or(libc::RLIM_INFINITY), rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the engine runs; `limit` is valid, the old one is not asked for.
    let done = unsafe {
        libc::prlimit(
            server.engine_pid().expect("an engine") as libc::pid_t,
            libc::RLIMIT_FSIZE,
            &limit,
            std::ptr::null_mut(),
        )
    };
    assert_eq!(done, 0, "the limit is set");
}
fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |m| m.len())
}

#[test]
fn full_disk() {
    let bench = Bench::new("kinds-full", &["temp_buffers=100", "shared_buffers=8MB"]);
    let server = bench.start();
    let sessions = fill(&server);
    let mut client = sessions.0;
    // The double-write area and the segments of the log have their size; other files have no room left soon.
    let limit = (size(&bench.data.join("pages")) + (4 << 20)).max(24 << 20);
    limit_files(&server, Some(limit));
    for (table, _) in KINDS {
        let sql = format!("insert into {table} (t) select repeat('x', 1000) from generate_series(1, 20000)");
        let mut codes = (0..8).map(|_| code(&mut client, &format!("begin; {sql}; rollback")));
        let failed = codes.find(|c| c.is_some()).flatten();
        client.query("rollback").unwrap_or_else(|e| panic!("{table}: {e}\n{}", server.log_tail()));
        let mut batches = 0;
        let failed = failed.or_else(|| {
            while batches < 8 {
                batches += 1;
                if let Some(code) = code(&mut client, &sql) {
                    return Some(code);
                }
            }
            None
        });
        assert_eq!(failed.as_deref(), Some("53100"), "{table}");
        for (other, _) in KINDS {
            let found = client.integer(&format!("select count(*) from {other} where id <= 3000")).ok();
            assert_eq!(found, Some(AT_END.count), "{other} is read while the disk is full");
        }
        assert_eq!(
            client.integer(&format!("select count(*) from {table} where t like 'x%'")).ok(),
            Some(20000 * (batches.max(1) - 1)),
            "{table}: by half"
        );
        run(&mut client, &format!("delete from {table} where t like 'x%'"));
    }
    // There is no room for a larger image either: the last one stays.
    limit_files(&server, None);
    for (table, _) in KINDS {
        run(&mut client, &format!("insert into {table} (t) select repeat('x', 1000) from generate_series(1, 20000)"));
        run(&mut client, &format!("delete from {table} where t like 'x%'"));
        assert_eq!(rows(&mut client, table), Some(AT_END), "{table} when there is room again");
    }
    run(&mut client, "checkpoint");
    drop((client, sessions.1));
    let server = bench.checked(server);
    expect(&server, "a disk that was full", [Some(AT_END), Some(AT_END), Some(AT_END), None, Some(NONE)]);
    still_works(&server);
    server.stop().expect("the server stops");
}

#[test]
fn unlogged_rows_are_not_in_the_log() {
    let bench = Bench::new("kinds-log", &[]);
    let server = bench.start();
    let mut client = connect(&server);
    let pages = || size(&bench.data.join("pages"));
    for (table, definition) in &KINDS[1..3] {
        run(&mut client, definition);
        run(&mut client, &format!("create index on {table} (left(t, 20))"));
    }
    run(&mut client, "checkpoint");
    let position = |client: &mut Client| client.value("select pg_current_wal_insert_lsn()").expect("a position");
    let before = log_at_rest(&mut client);
    for (table, _) in &KINDS[1..3] {
        run(&mut client, &format!("insert into {table} (t) select 'v' || g from generate_series(1, 30000) g"));
        run(
            &mut client,
            &format!("update {table} set t = t || 'x' where id % 2 = 0; delete from {table} where id % 5 = 0"),
        );
        run(&mut client, &format!("begin; update {table} set t = repeat('y', 3000) where id % 100 = 1; rollback"));
        run(&mut client, &format!("begin; savepoint s; delete from {table} where id % 3 = 0; rollback to s; commit"));
    }
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(position(&mut client), before, "the log has grown");
    assert!(pages() > 0);
    server.stop().expect("the server stops");
    process::check_kilndb(&bench.data).expect("the check finds nothing");
}
