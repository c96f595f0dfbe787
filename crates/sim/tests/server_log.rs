//! What a server's log says of statements: the lines that PostgreSQL 18 writes, which were compared by hand.

use kilndb_lab::client::Client;
use kilndb_lab::process::{self, Server, TempDir};
use std::time::{Duration, Instant};

struct Bench {
    folder: TempDir,
    server: Server,
}

impl Bench {
    fn new(name: &str, settings: &[&str]) -> Bench {
        let folder = TempDir::new(name).expect("a temporary folder");
        let port = process::free_port().expect("a free port");
        let server = process::start_kilndb(&folder.path().join("data"), port, settings).expect("the server starts");
        Bench { folder, server }
    }
    /// Runs what succeeds and what fails alike.
    fn run(&self, statements: &[&str]) {
        let mut client = Client::connect(self.server.address(), "postgres").expect("a connection");
        for sql in statements {
            let _ = client.query(sql);
        }
    }
    /// The lines of sessions, which begin with `|`, and what follows them with a tab; durations are `#`.
    fn stop(self) -> (TempDir, Vec<String>) {
        assert!(self.server.stop().expect("the server stops").success());
        let text = std::fs::read_to_string(self.folder.path().join("data.log")).expect("a log");
        let mut lines: Vec<String> =
            text.lines().filter(|line| line.starts_with(['|', '\t'])).map(without_duration).collect();
        // A session whose client has gone just now may be ended by the stop before it has noticed.
        if let Some(ended) = lines.iter().position(|line| line.contains("FATAL:  terminating connection")) {
            assert!(lines[ended..].iter().skip(1).all(|line| line.contains("STATEMENT:")), "{lines:?}");
            lines.truncate(ended);
        }
        (self.folder, lines)
    }
}

fn without_duration(line: &str) -> String {
    match line.split_once("duration: ").and_then(|(before, rest)| Some((before, rest.split_once(" ms")?))) {
        Some((before, (_, after))) => format!("{before}duration: # ms{after}"),
        None => line.to_string(),
    }
}

/// `%q` leaves the server's own lines without the bar.
const PREFIX: &str = "log_line_prefix=%q|%u %i ";

#[test]
fn statements_and_errors_are_told() {
    let bench = Bench::new("log", &[PREFIX, "log_statement=mod"]);
    bench.run(&[
        "create table t (a int primary key)",
        "select 1",
        "insert into t values (1)",
        // Found by the template of the one before.
        "insert into t values (2)",
        "insert into t values (1)",
        "selekt 1",
        "begin",
        "delete from t",
        "prepare p(int) as insert into t values ($1)",
        "execute p(7)",
        "commit",
        "do $$ begin raise warning 'careful\nline two'; end $$",
        "set log_error_verbosity = verbose",
        "select 1/0",
        "set log_min_error_statement = panic; set log_error_verbosity = terse",
        "insert into t values (7)",
    ]);
    let expected = "|postgres idle LOG:  statement: create table t (a int primary key)
|postgres idle LOG:  statement: insert into t values (1)
|postgres idle LOG:  statement: insert into t values (2)
|postgres idle LOG:  statement: insert into t values (1)
|postgres INSERT ERROR:  duplicate key value violates unique constraint \"t_pkey\"
|postgres INSERT DETAIL:  Key (a)=(1) already exists.
|postgres INSERT STATEMENT:  insert into t values (1)
|postgres idle ERROR:  syntax error at or near \"selekt\" at character 1
|postgres idle STATEMENT:  selekt 1
|postgres idle in transaction LOG:  statement: delete from t
|postgres idle in transaction LOG:  statement: prepare p(int) as insert into t values ($1)
|postgres idle in transaction LOG:  statement: execute p(7)
|postgres idle in transaction DETAIL:  prepare: prepare p(int) as insert into t values ($1)
|postgres DO WARNING:  careful
\tline two
|postgres DO CONTEXT:  PL/pgSQL function inline_code_block line 1 at RAISE
|postgres SELECT ERROR:  22012: division by zero
|postgres SELECT STATEMENT:  select 1/0
|postgres idle LOG:  statement: insert into t values (7)
|postgres INSERT ERROR:  duplicate key value violates unique constraint \"t_pkey\"";
    assert_eq!(bench.stop().1.join("\n"), expected);
}

#[test]
fn durations_are_told() {
    let bench = Bench::new("durations", &[PREFIX]);
    let mut client = Client::connect(bench.server.address(), "postgres").expect("a connection");
    for sql in ["set log_min_duration_statement = 0", "select 1"] {
        client.query(sql).expect("it runs");
    }
    client.prepare("s", "select $1::int").expect("it is prepared");
    client.execute("s", &["7".to_string()]).expect("it runs");
    for sql in ["set log_statement = 'all'", "select 2", "set log_min_duration_statement = 60000", "select 3"] {
        client.query(sql).expect("it runs");
    }
    drop(client);
    let expected = "|postgres SET LOG:  duration: # ms  statement: set log_min_duration_statement = 0
|postgres SELECT LOG:  duration: # ms  statement: select 1
|postgres PARSE LOG:  duration: # ms  parse s: select $1::int
|postgres BIND LOG:  duration: # ms  bind s: select $1::int
|postgres BIND DETAIL:  Parameters: $1 = '7'
|postgres SELECT LOG:  duration: # ms  execute s: select $1::int
|postgres SELECT DETAIL:  Parameters: $1 = '7'
|postgres SET LOG:  duration: # ms  statement: set log_statement = 'all'
|postgres idle LOG:  statement: select 2
|postgres SELECT LOG:  duration: # ms
|postgres idle LOG:  statement: set log_min_duration_statement = 60000
|postgres idle LOG:  statement: select 3";
    assert_eq!(bench.stop().1.join("\n"), expected);
}

#[test]
fn files_have_text_and_json() {
    let settings =
        ["logging_collector=on", "log_destination=stderr,jsonlog", "log_filename=k.log", "log_statement=all", PREFIX];
    let bench = Bench::new("logfiles", &settings);
    bench.run(&["select 'a\"\tb'", "select nothing"]);
    let (folder, on_standard_error) = bench.stop();
    assert!(on_standard_error.is_empty(), "{on_standard_error:?}");
    let read = |name: &str| std::fs::read_to_string(folder.path().join("data/log").join(name)).expect("a log file");
    assert!(read("k.log").contains("|postgres idle LOG:  statement: select 'a\"\tb'\n"), "{}", read("k.log"));
    let json = read("k.json");
    for part in [
        "\"error_severity\":\"LOG\",\"message\":\"statement: select 'a\\\"\\tb'\",",
        "\"error_severity\":\"ERROR\",\"state_code\":\"42703\",\"message\":\"column \\\"nothing\\\" does not exist\",\
         \"statement\":\"select nothing\",\"cursor_position\":8,",
    ] {
        assert!(json.contains(part), "{part}\n{json}");
    }
}

/// Names and sizes of temporary files are not PostgreSQL's, the lines are.
#[test]
fn temporary_files_are_told() {
    let bench = Bench::new("log-temporary", &[PREFIX, "work_mem=64kB", "log_temp_files=0"]);
    let sorted = "select count(*) from (select i from generate_series(1, 20000) i order by i desc) x";
    bench.run(&[
        sorted,
        "set log_temp_files = '10MB'",
        sorted,
        "set log_temp_files = -1",
        sorted,
        "set log_temp_files = 0",
        "begin",
        "declare c cursor for select i from generate_series(1, 20000) i order by i desc",
        "fetch 3 from c",
        "close c",
        "commit",
        "set log_min_error_statement = panic",
        sorted,
    ]);
    let (_folder, lines) = bench.stop();
    let mut told: Vec<String> = lines.iter().map(|line| without_file(line)).collect();
    told.dedup();
    let file = "LOG:  temporary file: path \"tmp/#\", size #";
    let expected = [
        format!("|postgres SELECT {file}"),
        format!("|postgres SELECT STATEMENT:  {sorted}"),
        // The first row has the runs merged, whose files go then; the last of them goes with the cursor.
        format!("|postgres FETCH {file}"),
        "|postgres FETCH STATEMENT:  fetch 3 from c".to_string(),
        format!("|postgres CLOSE CURSOR {file}"),
        "|postgres CLOSE CURSOR STATEMENT:  close c".to_string(),
        format!("|postgres SELECT {file}"),
    ];
    // A sort has one file or several; each has both lines, but where statements are not told.
    let mut once: Vec<String> = Vec::new();
    for line in told {
        if !once.iter().rev().take(2).any(|other| *other == line) {
            once.push(line);
        }
    }
    assert_eq!(once, expected, "{lines:#?}");
}

fn without_file(line: &str) -> String {
    match line.split_once("path \"tmp/") {
        Some((before, _)) => format!("{before}path \"tmp/#\", size #"),
        None => line.to_string(),
    }
}

/// A session that holds locks, and others that wait for them and are told of.
struct WaitBench {
    bench: Bench,
    holder: Client,
    /// Process ids and what stands for them.
    names: Vec<(i64, &'static str)>,
}

impl WaitBench {
    fn new(name: &str, settings: &[&str]) -> WaitBench {
        let bench = Bench::new(name, &[&[PREFIX], settings].concat());
        let mut holder = Client::connect(bench.server.address(), "postgres").expect("a connection");
        let id = holder.integer("select pg_backend_pid()").expect("a number");
        holder.query("create table t (a int primary key, b int); insert into t values (1, 0)").expect("it runs");
        WaitBench { bench, holder, names: vec![(id, "HOLDER")] }
    }
    fn hold(&mut self, sql: &str) {
        self.holder.query(sql).expect("it runs");
    }
    fn log(&self) -> String {
        std::fs::read_to_string(self.bench.folder.path().join("data.log")).expect("a log")
    }
    /// A session whose first statement waits, and which the log has been told of.
    fn waiter(&mut self, name: &'static str, sql: &str) -> Client {
        let mut waiter = Client::connect(self.bench.server.address(), "postgres").expect("a connection");
        let id = self.holder.integer("select max(pid) from pg_stat_activity").expect("a number");
        self.names.push((id, name));
        waiter.send(sql).expect("it is sent");
        let told = format!("process {id} still waiting for ");
        let deadline = Instant::now() + Duration::from_secs(20);
        while !self.log().contains(&told) {
            assert!(Instant::now() < deadline, "nothing is told of {sql}");
            std::thread::sleep(Duration::from_millis(5));
        }
        waiter
    }
    /// The sessions' lines with names for process ids; other numbers that differ from run to run are `#`.
    fn stop(self) -> String {
        let WaitBench { bench, mut holder, names } = self;
        let others = "select count(*) from pg_stat_activity where pid <> pg_backend_pid()";
        while holder.integer(others).expect("a number") > 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(holder);
        let lines: Vec<String> = bench.stop().1.iter().map(|line| with_names(line, &names)).collect();
        lines.join("\n")
    }
}

fn with_names(line: &str, names: &[(i64, &'static str)]) -> String {
    let mut named: Vec<String> = Vec::new();
    for word in line.split(' ') {
        let number = word.trim_end_matches([',', '.']);
        let end = &word[number.len()..];
        let name = names.iter().find(|(id, _)| id.to_string() == number).map(|(_, name)| *name);
        named.push(match (named.last().map_or("", String::as_str), name) {
            ("after" | "transaction" | "relation", _) => format!("#{end}"),
            (_, Some(name)) => format!("{name}{end}"),
            _ => word.to_string(),
        });
    }
    named.join(" ")
}

/// PostgreSQL tells CONTEXT of rows that are waited for, too.
#[test]
fn long_waits_for_locks_are_told() {
    let settings = ["log_lock_waits=on", "deadlock_timeout=20ms", "log_destination=stderr,jsonlog"];
    let mut waits = WaitBench::new("log-waits", &settings);
    waits.hold("begin; update t set b = 1");
    let mut first = waits.waiter("FIRST", "update t set b = 2");
    let mut second = waits.waiter("SECOND", "delete from t where a = 1");
    let mut third = waits.waiter("THIRD", "select b from t for update");
    let cancelled = waits.names.last().map_or(0, |(id, _)| *id);
    waits.hold(&format!("select pg_cancel_backend({cancelled})"));
    assert!(third.answers().is_err());
    waits.hold("commit");
    first.answers().expect("it runs");
    second.answers().expect("it runs");
    waits.hold("begin; insert into t values (2, 0)");
    let mut inserting = waits.waiter("INSERTING", "insert into t values (2, 1)");
    waits.hold("rollback");
    inserting.answers().expect("it runs");
    waits.hold("begin; lock t in share mode");
    first.query("begin; lock t in share mode").expect("it runs");
    let mut locking = waits.waiter("LOCKING", "set log_min_error_statement = panic; begin; lock t; commit");
    waits.hold("commit");
    first.query("commit").expect("it runs");
    locking.answers().expect("it runs");
    waits.hold("select pg_advisory_lock(-1, 7)");
    let mut advisory = waits.waiter("ADVISORY", "select pg_advisory_lock_shared(-1, 7)");
    waits.hold("select pg_advisory_unlock(-1, 7)");
    advisory.answers().expect("it runs");
    drop((first, second, third, inserting, locking, advisory));
    let log = waits.log();
    for part in [
        "\"ps\":\"UPDATE waiting\",",
        "\"error_severity\":\"LOG\",\"message\":\"process ",
        "\"detail\":\"Process holding the lock: ",
        "\"statement\":\"update t set b = 2\",",
    ] {
        let json = log
            .lines()
            .find(|line| line.contains("still waiting for ShareLock on transaction") && line.starts_with('{'))
            .expect("a line of JSON");
        assert!(json.contains(part), "{part}\n{json}");
    }
    let row = "AccessExclusiveLock on tuple (0,1) of relation # of database 5";
    let table = "AccessExclusiveLock on relation # of database 5";
    let advisory = "ShareLock on advisory lock [5,4294967295,7,2]";
    let expected = format!(
        "|postgres UPDATE waiting LOG:  process FIRST still waiting for ShareLock on transaction # after # ms
|postgres UPDATE waiting DETAIL:  Process holding the lock: HOLDER. Wait queue: FIRST.
|postgres UPDATE waiting STATEMENT:  update t set b = 2
|postgres DELETE waiting LOG:  process SECOND still waiting for {row} after # ms
|postgres DELETE waiting DETAIL:  Process holding the lock: FIRST. Wait queue: SECOND.
|postgres DELETE waiting STATEMENT:  delete from t where a = 1
|postgres SELECT waiting LOG:  process THIRD still waiting for {row} after # ms
|postgres SELECT waiting DETAIL:  Process holding the lock: FIRST. Wait queue: SECOND, THIRD.
|postgres SELECT waiting STATEMENT:  select b from t for update
|postgres SELECT ERROR:  canceling statement due to user request
|postgres SELECT STATEMENT:  select b from t for update
|postgres UPDATE waiting LOG:  process FIRST acquired ShareLock on transaction # after # ms
|postgres UPDATE waiting STATEMENT:  update t set b = 2
|postgres DELETE waiting LOG:  process SECOND acquired {row} after # ms
|postgres DELETE waiting STATEMENT:  delete from t where a = 1
|postgres INSERT waiting LOG:  process INSERTING still waiting for ShareLock on transaction # after # ms
|postgres INSERT waiting DETAIL:  Process holding the lock: HOLDER. Wait queue: INSERTING.
|postgres INSERT waiting STATEMENT:  insert into t values (2, 1)
|postgres INSERT waiting LOG:  process INSERTING acquired ShareLock on transaction # after # ms
|postgres INSERT waiting STATEMENT:  insert into t values (2, 1)
|postgres LOCK TABLE waiting LOG:  process LOCKING still waiting for {table} after # ms
|postgres LOCK TABLE waiting DETAIL:  Processes holding the lock: HOLDER, FIRST. Wait queue: LOCKING.
|postgres LOCK TABLE waiting LOG:  process LOCKING acquired {table} after # ms
|postgres SELECT waiting LOG:  process ADVISORY still waiting for {advisory} after # ms
|postgres SELECT waiting DETAIL:  Process holding the lock: HOLDER. Wait queue: ADVISORY.
|postgres SELECT waiting STATEMENT:  select pg_advisory_lock_shared(-1, 7)
|postgres SELECT waiting LOG:  process ADVISORY acquired {advisory} after # ms
|postgres SELECT waiting STATEMENT:  select pg_advisory_lock_shared(-1, 7)"
    );
    assert_eq!(waits.stop(), expected);
}

#[test]
fn short_waits_are_not_told_and_none_without_the_setting() {
    let mut waits = WaitBench::new("log-no-waits", &["deadlock_timeout=1ms"]);
    waits.hold("begin; update t set b = 1");
    let update = "update t set b = 2";
    let (limit, on) = ("set lock_timeout = '50ms'", "set log_lock_waits = on");
    waits.bench.run(&[limit, update]);
    waits.bench.run(&[limit, on, "set deadlock_timeout = '1h'", update]);
    waits.bench.run(&[limit, on, "set log_lock_waits = off", update]);
    waits.bench.run(&[limit, on, "set log_min_messages = fatal", update]);
    waits.hold("commit");
    let told = waits.stop();
    let failed = "|postgres UPDATE ERROR:  canceling statement due to lock timeout
|postgres UPDATE STATEMENT:  update t set b = 2";
    assert_eq!(told, [failed; 3].join("\n"));
}
