//! ANALYZE that runs by itself, seen from outside: which tables it takes, that nobody waits for it, and what of the
//! counters outlives the server.

use kilndb_lab::client::Client;
use kilndb_lab::process::{self, Server, TempDir};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

struct Machine {
    _folder: TempDir,
    data: PathBuf,
    port: u16,
}

impl Machine {
    fn new(name: &str) -> Machine {
        let folder = TempDir::new(name).expect("a temporary folder");
        let data = folder.path().join("data");
        Machine { _folder: folder, data, port: process::free_port().expect("a free port") }
    }
    fn start(&self, settings: &[&str]) -> Server {
        let all = [&["autovacuum=on", "autovacuum_naptime=1"], settings].concat();
        process::start_kilndb(&self.data, self.port, &all).expect("the server starts")
    }
}

fn connect(server: &Server, database: &str) -> Client {
    Client::connect(server.address(), database).expect("a connection")
}

fn run(client: &mut Client, statements: &[&str]) {
    for sql in statements {
        client.query(sql).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    }
}

fn count(client: &mut Client, sql: &str) -> i64 {
    client.integer(sql).unwrap_or_else(|e| panic!("{sql}: {e:?}"))
}

/// Waits until the question is answered with this number.
fn await_count(client: &mut Client, sql: &str, wanted: i64) {
    let end = Instant::now() + PATIENCE;
    loop {
        let found = count(client, sql);
        if found == wanted {
            return;
        }
        assert!(Instant::now() < end, "{sql}: {found}, not {wanted}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn analyzed(table: &str) -> String {
    format!("select autoanalyze_count from pg_stat_user_tables where relname = '{table}'")
}

#[test]
fn changed_tables_are_analyzed_as_their_settings_say() {
    let machine = Machine::new("autoanalyze-settings");
    let server = machine.start(&["log_autovacuum_min_duration=0"]);
    let mut client = connect(&server, "postgres");
    run(
        &mut client,
        &[
            "create table many (a int)",
            "create table few (a int)",
            "create table eager (a int) with (autovacuum_analyze_threshold = 5, autovacuum_analyze_scale_factor = 0)",
            "create table patient (a int) with (autovacuum_analyze_threshold = 100000)",
            "create table disabled (a int) with (autovacuum_enabled = false)",
            "create table undone (a int)",
            "create table uncounted (a int)",
            "create temporary table own (a int)",
            "insert into few select generate_series(1, 50)",
            "insert into eager select generate_series(1, 6)",
            "insert into patient select generate_series(1, 1000)",
            "insert into disabled select generate_series(1, 1000)",
            "insert into own select generate_series(1, 1000)",
            "begin; insert into undone select generate_series(1, 1000); rollback",
            "set track_counts = off",
            "insert into uncounted select generate_series(1, 1000)",
            "reset track_counts",
            "create database other",
        ],
    );
    let mut other = connect(&server, "other");
    // What clients' transactions are like there does not hold for analyses.
    run(&mut client, &["alter database other set transaction_timeout = '1ms'"]);
    run(&mut other, &["create table there (a int)", "insert into there select generate_series(1, 20000)"]);
    await_count(&mut other, &analyzed("there"), 1);
    await_count(&mut client, &analyzed("eager"), 1);
    // Those that are due from now on come after those that were due before.
    run(&mut client, &["insert into many select generate_series(1, 1000)"]);
    await_count(&mut client, &analyzed("many"), 1);
    assert_eq!(count(&mut client, "select count(*) from pg_stats where tablename in ('many', 'eager')"), 2);
    assert_eq!(count(&mut client, "select reltuples::bigint from pg_class where relname = 'many'"), 1000);
    let row = "select count(*) from pg_stat_user_tables where relname = 'many' and last_autoanalyze is not null
               and last_analyze is null and analyze_count = 0 and n_mod_since_analyze = 0 and n_live_tup = 1000";
    assert_eq!(count(&mut client, row), 1);
    let left_alone = "select count(*) from pg_stat_user_tables where autoanalyze_count > 0
                      and relname in ('few', 'patient', 'disabled', 'undone', 'uncounted')";
    assert_eq!(count(&mut client, left_alone), 0);
    assert_eq!(count(&mut client, "select n_mod_since_analyze from pg_stat_user_tables where relname = 'undone'"), 0);
    assert_eq!(count(&mut client, "select n_tup_ins from pg_stat_user_tables where relname = 'uncounted'"), 0);
    run(
        &mut client,
        &[
            "alter table patient set (autovacuum_analyze_threshold = 10)",
            "alter table disabled reset (autovacuum_enabled)",
        ],
    );
    await_count(&mut client, &analyzed("patient"), 1);
    await_count(&mut client, &analyzed("disabled"), 1);
    // Ten of a hundred more than the fixed number is what the scale factor asks for.
    run(&mut client, &["update many set a = a where a <= 150"]);
    run(&mut client, &["insert into few values (51)"]);
    await_count(&mut client, &analyzed("few"), 1);
    assert_eq!(count(&mut client, &analyzed("many")), 1);
    run(&mut client, &["update many set a = a where a = 1"]);
    await_count(&mut client, &analyzed("many"), 2);
    let log = server.log_tail();
    assert!(log.contains("automatic analyze of table \"postgres.public.many\""), "{log}");
    server.stop().expect("the server stops");
}

const ROWS: i64 = 300_000;

/// A server on which an analysis of `big`, in `database`, is going on and takes long.
fn with_long_analysis(machine: &Machine, database: &str) -> Server {
    let server = machine.start(&["autovacuum_vacuum_cost_delay=100"]);
    let mut client = connect(&server, "postgres");
    if database != "postgres" {
        run(&mut client, &[&format!("create database {database}")]);
        client = connect(&server, database);
    }
    let fill = format!("insert into big select g, 'row ' || g from generate_series(1, {ROWS}) g");
    run(&mut client, &["create table big (a int, b text)", &fill]);
    let running = "select count(*) from pg_stat_progress_analyze p join pg_stat_activity a using (pid)
                   where p.relid = 'big'::regclass and a.backend_type = 'autovacuum worker'";
    await_count(&mut client, running, 1);
    server
}

#[test]
fn whoever_wants_the_table_ends_its_analysis() {
    let machine = Machine::new("autoanalyze-lock");
    let server = with_long_analysis(&machine, "postgres");
    let mut client = connect(&server, "postgres");
    // Changes of rows do not disturb it, and are not disturbed.
    run(&mut client, &["insert into big values (0, 'more')"]);
    assert_eq!(count(&mut client, "select count(*) from pg_stat_progress_analyze"), 1);
    let began = Instant::now();
    run(&mut client, &["begin; lock table big in share update exclusive mode"]);
    let waited = began.elapsed();
    assert!(waited < Duration::from_secs(1), "{waited:?}");
    assert_eq!(count(&mut client, "select count(*) from pg_stat_progress_analyze"), 0);
    // Nor does it wait for the lock while somebody has it.
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(count(&mut client, "select count(*) from pg_locks where not granted"), 0);
    run(&mut client, &["commit"]);
    let log = server.log_tail();
    assert!(log.contains("canceling autovacuum task: automatic analyze of table \"postgres.public.big\""), "{log}");
    let running = "select count(*) from pg_stat_progress_analyze";
    await_count(&mut client, running, 1);
    // A stop does not wait for it either.
    let began = Instant::now();
    server.stop().expect("the server stops");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    process::check_kilndb(&machine.data).expect("the check finds nothing");
}

#[test]
fn a_database_can_be_dropped_while_it_is_analyzed() {
    let machine = Machine::new("autoanalyze-drop");
    let server = with_long_analysis(&machine, "doomed");
    let mut client = connect(&server, "postgres");
    // The client that has filled it has to be gone.
    await_count(&mut client, "select count(*) from pg_stat_activity where datname = 'doomed' and pid > 999", 0);
    run(&mut client, &["drop database doomed"]);
    server.stop().expect("the server stops");
}

#[test]
fn counters_outlive_a_stop_and_not_a_crash() {
    let machine = Machine::new("autoanalyze-counters");
    let figures = "select n_tup_ins * 1000000 + n_mod_since_analyze * 1000 + autoanalyze_count
                   from pg_stat_user_tables where relname = 'counted'";
    let server = machine.start(&[]);
    let mut client = connect(&server, "postgres");
    run(&mut client, &["create table counted (a int)", "insert into counted select generate_series(1, 100)"]);
    await_count(&mut client, &analyzed("counted"), 1);
    run(&mut client, &["insert into counted values (1), (2)"]);
    assert_eq!(count(&mut client, figures), 102_002_001);
    server.stop().expect("the server stops");
    let kept = machine.data.join("statistics");
    assert!(is_file(&kept));
    let server = machine.start(&[]);
    assert!(!is_file(&kept));
    assert_eq!(count(&mut connect(&server, "postgres"), figures), 102_002_001);
    server.kill().expect("the server ends");
    let server = machine.start(&[]);
    assert_eq!(count(&mut connect(&server, "postgres"), figures), 0);
    assert_eq!(
        count(&mut connect(&server, "postgres"), "select count(*) from pg_stats where tablename = 'counted'"),
        1
    );
    server.stop().expect("the server stops");
}

fn is_file(path: &Path) -> bool {
    path.is_file()
}
