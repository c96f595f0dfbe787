//! What a server's log says of statements: the lines that PostgreSQL 18 writes, which were compared by hand.

use kilndb_lab::client::Client;
use kilndb_lab::process::{self, Server, TempDir};

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
