//! Temporary tables seen from outside: nothing shared is written, nothing is left behind.

use kilndb_lab::client::{Client, ClientError};
use kilndb_lab::process::{self, Server, TempDir};
use kilndb_sim::rest::log_at_rest;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn connect(server: &Server) -> Client {
    Client::connect(server.address(), "postgres").expect("a connection")
}

fn run(client: &mut Client, sql: &str) {
    client.query(sql).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
}

/// Files of temporary pages.
fn files(data: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(data.join("tmp")).map(|dir| dir.flatten().map(|f| f.path()).collect()).unwrap_or_default()
}

fn resident_kilobytes(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.engine_pid().expect("an engine")))
        .expect("the process is there");
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).expect("a line for resident memory");
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number of kilobytes")
}

fn within_a_minute(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

const CYCLES: usize = 10_000;

#[test]
fn ten_thousand_tables_write_no_shared_page_and_no_log() {
    let folder = TempDir::new("temporary").expect("a temporary folder");
    let data = folder.path().join("data");
    let server =
        process::start_kilndb(&data, process::free_port().expect("a free port"), &[]).expect("the server starts");
    let mut observer = connect(&server);
    let mut client = connect(&server);
    let cycle = |client: &mut Client, number: usize| {
        let end = if number.is_multiple_of(3) { "rollback" } else { "commit" };
        let sql = format!(
            "begin; create temp table scratch (id int generated always as identity primary key, t text not null, n int check (n > 0));
             create index on scratch (t); insert into scratch (t, n) values ('a', {number} + 1), ('b', 2);
             create temp view seen as select t from scratch; update scratch set t = 'c' where t = 'a';
             savepoint s; alter table scratch add column more int; rollback to s; drop view seen; {}; {end}",
            if number.is_multiple_of(3) { "select 1" } else { "drop table scratch" }
        );
        run(client, &sql);
    };
    let sizes = "select string_agg(c.oid || ':' || pg_relation_size(c.oid), ' ' order by c.oid) from pg_class c where c.relkind in ('r', 'i')";
    let shared = "select string_agg(c.oid || ':' || c.relname, ' ' order by c.oid) from pg_class c";
    for number in 0..500 {
        cycle(&mut client, number);
    }
    log_at_rest(&mut observer);
    let before = (
        observer.value(sizes).expect("sizes"),
        observer.value(shared).expect("names"),
        observer.value("select pg_current_wal_insert_lsn()").expect("a position"),
    );
    let memory = resident_kilobytes(&server);
    for number in 0..CYCLES {
        cycle(&mut client, number);
    }
    let after = (
        observer.value(sizes).expect("sizes"),
        observer.value(shared).expect("names"),
        observer.value("select pg_current_wal_insert_lsn()").expect("a position"),
    );
    assert_eq!(before, after);
    let grown = resident_kilobytes(&server).saturating_sub(memory);
    assert!(grown < 16 * 1024, "memory has grown by {grown} kB");
    assert_eq!(client.integer("select count(*) from pg_class where relnamespace = pg_my_temp_schema()").ok(), Some(0));
    drop((observer, client));
    server.stop().expect("the server stops");
    process::check_kilndb(&data).expect("the check finds nothing");
}

#[test]
fn a_crash_leaves_no_file_and_no_object() {
    let folder = TempDir::new("temporary-crash").expect("a temporary folder");
    let data = folder.path().join("data");
    let start = || {
        process::start_kilndb(&data, process::free_port().expect("a free port"), &["temp_buffers=100"])
            .expect("the server starts")
    };
    let server = start();
    let mut client = connect(&server);
    run(
        &mut client,
        "create table kept (a int); create global temporary table own (a int primary key) on commit preserve rows",
    );
    run(&mut client, "insert into kept values (1); insert into own values (1)");
    run(
        &mut client,
        "create temp table large (a int primary key, t text); insert into large select g, repeat('x', 100) from generate_series(1, 50000) g",
    );
    run(&mut client, "begin; insert into kept values (2); update large set t = 'y' where a % 2 = 0");
    assert_eq!(files(&data).len(), 1, "what is larger than temp_buffers is in one file");
    server.kill().expect("the server is killed");
    assert_eq!(files(&data).len(), 1);
    let server = start();
    assert_eq!(files(&data), Vec::<PathBuf>::new());
    let mut client = connect(&server);
    assert_eq!(client.integer("select count(*) from kept").ok(), Some(1));
    assert_eq!(client.integer("select count(*) from own").ok(), Some(0));
    assert_eq!(client.integer("select count(*) from pg_class where relname like 'large%'").ok(), Some(0));
    assert!(client.query("select * from large").is_err());
    server.stop().expect("the server stops");
    process::check_kilndb(&data).expect("the check finds nothing");
}

#[test]
fn a_client_that_goes_away_in_a_transaction_leaves_nothing() {
    let folder = TempDir::new("temporary-hangup").expect("a temporary folder");
    let data = folder.path().join("data");
    let server = process::start_kilndb(&data, process::free_port().expect("a free port"), &["temp_buffers=100"])
        .expect("the server starts");
    let mut observer = connect(&server);
    run(&mut observer, "create global temporary table own (a int) on commit preserve rows");
    let mut memory = 0;
    for round in 0..16 {
        let mut client = connect(&server);
        run(
            &mut client,
            "create temp table before (a int, t text); insert into before select g, repeat('x', 100) from generate_series(1, 20000) g",
        );
        run(
            &mut client,
            "begin; create temp table inside (a int primary key); insert into inside select generate_series(1, 5000); insert into own values (1)",
        );
        run(&mut client, "delete from before where a % 3 = 0");
        assert_eq!(files(&data).len(), 1);
        if round % 2 == 0 {
            client.send("update before set t = t || 'y' from generate_series(1, 50)").expect("a message");
        }
        drop(client);
        within_a_minute("the file of a client that has gone stays", || files(&data).is_empty());
        if round == 5 {
            memory = resident_kilobytes(&server);
        }
    }
    let grown = resident_kilobytes(&server).saturating_sub(memory);
    assert!(grown < 16 * 1024, "memory has grown by {grown} kB");
    run(&mut observer, "alter table own add column b int; drop table own");
    drop(observer);
    server.stop().expect("the server stops");
    process::check_kilndb(&data).expect("the check finds nothing");
}

#[test]
fn a_global_temporary_table_has_rows_for_each_session() {
    let folder = TempDir::new("temporary-global").expect("a temporary folder");
    let data = folder.path().join("data");
    let port = process::free_port().expect("a free port");
    let server = process::start_kilndb(&data, port, &[]).expect("the server starts");
    let (mut one, mut two) = (connect(&server), connect(&server));
    run(
        &mut one,
        "create global temporary table kept (a int primary key, t text) on commit preserve rows; create index on kept (t)",
    );
    run(&mut one, "create global temp table passing (a int primary key) on commit delete rows");
    run(&mut one, "create global temporary table plain (a int)");
    run(&mut one, "insert into kept values (1, 'one'), (2, 'one'); insert into plain values (1)");
    run(&mut two, "insert into kept values (1, 'two')");
    assert_eq!(one.value("select string_agg(t, ',' order by a) from kept").expect("rows").as_deref(), Some("one,one"));
    assert_eq!(
        two.value("select string_agg(t, ',' order by a) from kept where t = 'two'").expect("rows").as_deref(),
        Some("two")
    );
    assert_eq!(
        one.integer("select count(*) from plain").ok(),
        Some(1),
        "rows are preserved unless it is said otherwise"
    );
    // Rows of a transaction, also when it is prepared statements that see them.
    run(&mut one, "prepare n as select count(*) from passing");
    for _ in 0..3 {
        run(&mut one, "begin; insert into passing values (1)");
        assert_eq!(one.integer("execute n").ok(), Some(1));
        assert_eq!(two.integer("select count(*) from passing").ok(), Some(0));
        run(&mut one, "commit");
        assert_eq!(one.integer("execute n").ok(), Some(0));
    }
    run(&mut one, "begin; insert into passing values (1); savepoint s; truncate passing; rollback to s");
    assert_eq!(one.integer("execute n").ok(), Some(1));
    run(&mut one, "rollback");
    // TRUNCATE is of the session's own rows, and is taken back.
    run(&mut two, "begin; truncate kept");
    assert_eq!(two.integer("select count(*) from kept").ok(), Some(0));
    assert_eq!(one.integer("select count(*) from kept").ok(), Some(2));
    run(&mut two, "rollback");
    assert_eq!(two.integer("select count(*) from kept").ok(), Some(1));
    // The definition is everybody's: it changes while nobody else has rows.
    for sql in ["alter table kept add column b int", "drop table kept", "create index on kept (a, t)"] {
        let ClientError::Server(refused) = one.query(sql).expect_err(sql) else { panic!("{sql} ended the connection") };
        assert_eq!(refused.code, "55006", "{sql}");
    }
    run(&mut two, "truncate kept");
    run(&mut one, "alter table kept add column b int default 7; create unique index on kept (t, a)");
    assert_eq!(
        one.value("select string_agg(a || t || b, ',' order by a) from kept").expect("rows").as_deref(),
        Some("1one7,2one7")
    );
    // A change that is taken back was seen by nobody afterwards.
    run(&mut one, "begin; alter table kept add column c int default 9; update kept set c = 1; rollback");
    assert!(one.query("select c from kept").is_err());
    run(&mut one, "begin; savepoint s; alter table kept drop column b; rollback to s");
    assert_eq!(one.integer("select sum(b) from kept").ok(), Some(14));
    run(&mut one, "commit");
    run(&mut two, "insert into kept values (5, 'two', 1)");
    assert_eq!(two.integer("select b from kept where t = 'two' and a = 5").ok(), Some(1));
    // Catalogs and log grow with definitions, not with rows.
    let position = log_at_rest(&mut one);
    for n in 10..200 {
        run(
            &mut one,
            &format!(
                "insert into kept values ({n}, 'x'); begin; insert into passing values ({n}); commit; truncate kept"
            ),
        );
    }
    assert_eq!(one.value("select pg_current_wal_insert_lsn()").expect("a position"), position);
    run(&mut one, "discard temp");
    assert_eq!(one.integer("select count(*) from plain").ok(), Some(0));
    drop((one, two));
    server.stop().expect("the server stops");
    let server = process::start_kilndb(&data, port, &[]).expect("the server starts again");
    let mut one = connect(&server);
    assert_eq!(one.integer("select count(*) from kept").ok(), Some(0));
    run(&mut one, "insert into kept values (1, 'again', 2)");
    assert_eq!(
        one.value(
            "select string_agg(relpersistence::text, '') from pg_class where relname in ('kept', 'passing', 'plain')"
        )
        .expect("letters")
        .as_deref(),
        Some("ggg")
    );
    run(&mut one, "drop table kept, passing, plain");
    drop(one);
    server.stop().expect("the server stops");
    process::check_kilndb(&data).expect("the check finds nothing");
}
