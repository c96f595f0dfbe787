//! `kilndb lab run` as somebody types it: what it measures, what it says of targets that fail, and what it leaves behind.

use kilndb_lab::client::Client;
use kilndb_lab::process::{self, Server, TempDir};
use kilndb_lab::report::bounds;
use kilndb_lab::results::{CellResults, LabResults, RunResults};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

struct LabServer {
    server: Server,
    _folder: TempDir,
}

impl LabServer {
    fn start() -> LabServer {
        let folder = TempDir::new("lab").expect("a folder");
        let port = process::free_port().expect("a free port");
        let server = process::start_kilndb(&folder.path().join("data"), port, &[]).expect("the server starts");
        LabServer { server, _folder: folder }
    }
    fn uri(&self) -> String {
        format!("postgresql://postgres@127.0.0.1:{}/postgres", self.server.address().port)
    }
    fn client(&self) -> Client {
        Client::connect(self.server.address(), "postgres").expect("a connection")
    }
    fn schemas(&self) -> i64 {
        let sql = "select count(*) from pg_namespace where nspname like 'kiln\\_lab\\_%'";
        self.client().integer(sql).expect("a count")
    }
}

/// An experiment's folder: `more` goes behind its first lines.
fn experiment(folder: &Path, more: &str) -> PathBuf {
    let path = folder.join("counters");
    std::fs::create_dir_all(&path).expect("a folder");
    let toml = format!(
        "title = 'Counters'\nquestion = 'How many?'\ncount = 'changed-rows'\n[load]\nclients = [4]\nseconds = 1\n\
         [variables]\nrows = 10\n[setup]\nsql = ['setup.sql']\n\
         [measure]\nchanged-rows = 'select sum(n) from counter'\n{more}"
    );
    std::fs::write(path.join("experiment.toml"), toml).expect("a file");
    let setup = "create table counter (id int primary key, n bigint);\n\
                 insert into counter select g, 0 from generate_series(1, :rows) g;\n";
    std::fs::write(path.join("setup.sql"), setup).expect("a file");
    let script = "\\set id random(1, :rows)\nupdate counter set n = n + 1 where id = :id;\n";
    std::fs::write(path.join("count.sql"), script).expect("a file");
    std::fs::write(path.join("hold.sql"), "begin;\nselect count(*) from counter;\n").expect("a file");
    path
}

const ONE_VARIANT: &str = "[[variants]]\nname = 'count'\nscript = 'count.sql'\nevery-transaction-changes = true\n";

fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kilndb-lab"));
    command.arg("lab").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(experiment: &Path, out: &Path, targets: &[&str], more: &[&str]) -> Output {
    let mut arguments = vec!["run", experiment.to_str().expect("a name"), "--out", out.to_str().expect("a name")];
    targets.iter().for_each(|target| arguments.extend(["--target", target]));
    arguments.extend(more);
    lab(&arguments).output().expect("it runs")
}

fn results(output: &Output, out: &Path) -> LabResults {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    LabResults::read(out).expect("there are results")
}

#[test]
fn each_round_counts_the_rows_that_were_changed() {
    let (server, folder) = (LabServer::start(), TempDir::new("lab-out").expect("a folder"));
    let more = format!(
        "[beside]\nscript = 'hold.sql'\n{ONE_VARIANT}[[checks]]\nname = 'all are there'\nsql = 'select count(*) = 7 from counter'\n"
    );
    let experiment = experiment(folder.path(), &more);
    let (out, target) = (folder.path().join("out"), format!("here={}", server.uri()));
    let output = run(&experiment, &out, &[&target], &["--rounds", "2", "--rows", "7", "--clients", "1,3"]);
    let results = results(&output, &out);
    assert!(results.targets[0].version.contains("KilnDB"), "{:?}", results.targets);
    let cells = &results.experiments[0].cells;
    assert_eq!(cells.iter().map(|cell| cell.clients).collect::<Vec<_>>(), [1, 3]);
    for cell in cells {
        assert_eq!((cell.problem.as_deref(), cell.runs.len()), (None, 2));
        for run in &cell.runs {
            assert!(run.transactions > 0 && run.changed_rows == run.transactions, "{run:?}");
            assert_eq!((run.failed, &run.failed_checks[..]), (0, &[][..]));
            assert_eq!(run.seconds.len(), 1, "of whole seconds");
            assert!(run.statements.len() == 1 && run.statements[0].text.contains("where id = :id"), "{run:?}");
            assert!(run.server.log_bytes.is_some_and(|bytes| bytes > 0), "{:?}", run.server);
            assert!(run.percentile_us(50.0) <= run.percentile_us(99.0), "{:?}", run.latency);
        }
    }
    assert_eq!(server.schemas(), 0);
}

#[test]
fn a_check_that_is_not_met_is_told() {
    let (server, folder) = (LabServer::start(), TempDir::new("lab-out").expect("a folder"));
    let more = format!("{ONE_VARIANT}[[checks]]\nname = 'few'\nsql = 'select sum(n) < 1 from counter'\n");
    let experiment = experiment(folder.path(), &more);
    let (out, target) = (folder.path().join("out"), format!("here={}", server.uri()));
    let output = run(&experiment, &out, &[&target], &["--rounds", "1", "--keep"]);
    let results = results(&output, &out);
    assert_eq!(results.experiments[0].cells[0].runs[0].failed_checks, ["few"]);
    assert_eq!(server.schemas(), 1, "it was to be kept");
}

#[test]
fn targets_and_variants_that_fail_are_told_and_the_rest_goes_on() {
    let (server, folder) = (LabServer::start(), TempDir::new("lab-out").expect("a folder"));
    server.client().query("create database readonly").expect("a database");
    server.client().query("alter database readonly set default_transaction_read_only = on").expect("a setting");
    let more = format!(
        "{ONE_VARIANT}[[variants]]\nname = 'unknown'\nscript = 'count.sql'\nsetup = ['create table x (y no_such_type)']\n\
         [[variants]]\nname = 'other'\nscript = 'count.sql'\nonly = ['postgres']\n"
    );
    let experiment = experiment(folder.path(), &more);
    let out = folder.path().join("out");
    let down = format!("down=postgresql://postgres@127.0.0.1:{}/postgres", process::free_port().expect("a port"));
    let place = format!("postgresql://postgres:x@127.0.0.1:{}", server.server.address().port);
    let (refused, readonly) = (format!("refused={place}/nowhere"), format!("readonly={place}/readonly"));
    let here = format!("here={}", server.uri());
    let output = run(&experiment, &out, &[&down, &refused, &readonly, &here], &["--rounds", "1"]);
    let results = results(&output, &out);
    let problem = |target: &str, variant: &str| {
        let cell = results.experiments[0].cells.iter().find(|cell| cell.target == target && cell.variant == variant);
        let cell = cell.unwrap_or_else(|| panic!("there is a cell for {variant} on {target}"));
        assert_eq!(cell.problem.is_some(), cell.runs.is_empty(), "{cell:?}");
        cell.problem.clone().unwrap_or_default()
    };
    assert!(problem("down", "count").contains("refused"), "{}", problem("down", "count"));
    assert!(problem("refused", "count").contains("database \"nowhere\" does not exist"));
    assert!(problem("readonly", "count").contains("read-only transaction"), "{}", problem("readonly", "count"));
    assert_eq!(problem("here", "count"), "");
    assert!(problem("here", "unknown").contains("type \"no_such_type\" does not exist"));
    assert!(!results.experiments[0].cells.iter().any(|cell| cell.target == "here" && cell.variant == "other"));
    assert!(!std::fs::read_to_string(out.join("results.json")).expect("a file").contains(":x@"), "a password");
    assert_eq!(server.schemas(), 0);
}

/// A folder of one file.
fn folder_of(folder: &Path, name: &str, toml: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::create_dir_all(&path).expect("a folder");
    std::fs::write(path.join("experiment.toml"), toml).expect("a file");
    path
}

#[test]
fn kinds_fill_their_tables_and_run_their_clients() {
    let (server, folder) = (LabServer::start(), TempDir::new("lab-out").expect("a folder"));
    let (out, target) = (folder.path().join("out"), format!("here={}", server.uri()));
    let orders = folder_of(
        folder.path(),
        "orders",
        "title = 'Orders'\nquestion = 'How many?'\n[load]\nclients = [3]\nseconds = 1\n\
         [variables]\nwarehouses = 1\nitems = 50\ncustomers = 20\n[setup]\ndata = 'tpcc'\n\
         [[variants]]\nname = 'statements'\nload = 'tpcc'\n[[variants]]\nname = 'batches'\nload = 'tpcc-batches'\n\
         [[checks]]\nname = 'orders have come to those of the beginning'\nsql = 'select count(*) > 200 from orders'\n",
    );
    let found = results(&run(&orders, &out, &[&target], &["--rounds", "1"]), &out);
    for cell in &found.experiments[0].cells {
        assert_eq!((cell.problem.as_deref(), cell.runs.len()), (None, 1), "{}", cell.variant);
        let run = &cell.runs[0];
        assert!(run.transactions > 0 && run.failed_checks.is_empty(), "{run:?}");
        assert!(run.seconds[0].transactions > 0 && run.percentile_us(50.0) > Some(0), "{run:?}");
    }
    assert!(found.experiments[0].variants.iter().all(|variant| variant.script.contains("insert into order_line")));
    let found = results(&run(&orders, &out, &[&target], &["--overwrite", "--set", "warehouses=0"]), &out);
    let problem = found.experiments[0].cells[0].problem.as_deref();
    assert_eq!(problem, Some("data tpcc: the variable warehouses cannot be 0"));
    let parts = folder_of(
        folder.path(),
        "parts",
        "title = 'Parts'\nquestion = 'How long?'\ncount = 'statement-time'\n[load]\nclients = [1]\nseconds = 1\n\
         [variables]\nscale = 0.01\n[setup]\ndata = 'tpch'\n[[variants]]\nname = 'a'\nscript = 'a.sql'\n\
         [[checks]]\nname = 'all are there'\nsql = 'select count(*) = 2000 from part'\n",
    );
    std::fs::write(parts.join("a.sql"), "select count(*) from lineitem;\n").expect("a file");
    let found = results(&run(&parts, &out, &[&target], &["--overwrite", "--rounds", "1"]), &out);
    let cell = &found.experiments[0].cells[0];
    assert_eq!((cell.problem.as_deref(), &cell.runs[0].failed_checks[..]), (None, &[][..]));
    assert_eq!(server.schemas(), 0);
}

#[test]
fn what_is_beside_a_load_without_a_pause_ends_with_it() {
    let (server, folder) = (LabServer::start(), TempDir::new("lab-out").expect("a folder"));
    let more = format!(
        "[beside]\nwithout-pause = true\n{ONE_VARIANT}beside = ['sleep.sql', 'look.sql']\n\
         [[variants]]\nname = 'broken'\nscript = 'count.sql'\nbeside = 'broken.sql'\n\
         [[variants]]\nname = 'few'\nscript = 'count.sql'\nclients = [2]\nprotocol = 'simple'\n"
    );
    let experiment = experiment(folder.path(), &more);
    for (name, text) in [
        ("sleep.sql", "select pg_sleep(3600);\n"),
        ("look.sql", "select count(*) from counter;\n"),
        ("broken.sql", "select 1 / 0;\n"),
    ] {
        std::fs::write(experiment.join(name), text).expect("a file");
    }
    let (out, target) = (folder.path().join("out"), format!("here={}", server.uri()));
    let found = results(&run(&experiment, &out, &[&target], &["--rounds", "1"]), &out);
    let cells = &found.experiments[0].cells;
    let cell = |name: &str| cells.iter().find(|cell| cell.variant == name).expect("a cell");
    assert_eq!((cell("count").problem.as_deref(), cell("count").runs.len()), (None, 1));
    let problem = cell("broken").problem.clone().unwrap_or_default();
    assert!(problem.contains("beside the load: broken.sql:1") && problem.contains("division by zero"), "{problem}");
    // A script that never comes to its end has none of the rounds that another one has.
    assert_eq!((cell("count").runs[0].beside_rounds, cell("few").runs[0].beside_rounds), (Some(0), None));
    // One variant has a number of clients of its own.
    assert_eq!(cells.iter().map(|cell| cell.clients).collect::<Vec<_>>(), [2, 4, 4]);
    assert_eq!((cell("few").clients, cell("few").runs.len()), (2, 1));
    assert_eq!(server.schemas(), 0);
}

/// Experiments that come with the program, on a temporary KilnDB alone, a second for each run.
fn run_on_temporary(folder: &Path, names: &[&str], more: &[&str]) -> LabResults {
    let out = folder.join("out");
    let mut command = lab(&["run"]);
    command.args(names).args(["--seconds", "1", "--check", "--overwrite", "--out"]).arg(&out).args(more);
    // There is no PostgreSQL in this folder.
    results(&command.env("PGBIN", folder).output().expect("it runs"), &out)
}

/// What has gone wrong with the cells of a run.
fn problems(results: &LabResults) -> Vec<String> {
    let cells = results.experiments.iter().flat_map(|experiment| &experiment.cells);
    let of_runs = |cell: &CellResults| cell.runs.iter().flat_map(|run| run.failed_checks.clone()).collect::<Vec<_>>();
    cells.flat_map(|cell| [of_runs(cell), cell.problem.iter().cloned().collect()].concat()).collect()
}

#[test]
fn a_table_is_changed_beside_the_load_on_it() {
    let folder = TempDir::new("lab-online").expect("a folder");
    let results = run_on_temporary(folder.path(), &["online"], &["--rounds", "2", "--seconds", "4"]);
    assert_eq!(problems(&results), [""; 0]);
    let cells = &results.experiments[0].cells;
    assert_eq!(cells.len(), 6);
    for cell in cells {
        assert_eq!(cell.runs.len(), 2, "{}", cell.variant);
        for run in &cell.runs {
            assert!(run.transactions > 0 && run.failed == 0, "{}: {run:?}", cell.variant);
            assert_eq!(run.beside_rounds.is_some(), cell.variant != "without", "{}", cell.variant);
        }
    }
    let settings = &results.targets[0].settings;
    assert_eq!(settings.get("autovacuum_naptime").map(String::as_str), Some("1s"), "{settings:?}");
    let rows = bounds::of_experiment(&results, &results.experiments[0]);
    assert!(rows.len() == 9 && rows.iter().all(|row| row.figure.is_some()), "{rows:?}");
}

#[test]
fn ways_in_are_compared_on_temporary_servers() {
    let folder = TempDir::new("lab-ways-in").expect("a folder");
    let names = ["access-control", "tls", "strangers"];
    let sizes = ["--rows", "1000", "--set", "half_open=20", "--set", "idle=50", "--set", "guesses=50"];
    let more = [&["--rounds", "1", "--clients", "4"], &sizes[..]].concat();
    let results = run_on_temporary(folder.path(), &names, &more);
    assert_eq!(problems(&results), [""; 0]);
    assert_eq!(results.experiments.iter().map(|one| one.cells.len()).collect::<Vec<_>>(), [3, 2, 2]);
    for experiment in &results.experiments {
        assert!(experiment.cells.iter().all(|cell| cell.runs.len() == 1 && cell.runs[0].failed == 0), "{experiment:?}");
        let rows = bounds::of_experiment(&results, experiment);
        assert!(rows.iter().all(|row| row.figure.is_some()), "{rows:?}");
    }
}

#[test]
fn roles_are_taken_away_and_strangers_are_kept_from_given_servers() {
    let (server, folder) = (LabServer::start(), TempDir::new("lab-out").expect("a folder"));
    let out = folder.path().join("out");
    let target = format!("here={}?sslmode=disable", server.uri());
    let arguments = ["run", "access-control", "strangers", "tls", "--rows", "1000", "--clients", "2", "--seconds", "1"];
    let mut command = lab(&arguments);
    command.args(["--rounds", "1", "--target", &target, "--out"]).arg(&out);
    let results = results(&command.output().expect("it runs"), &out);
    let problem = |variant: &str| {
        let mut cells = results.experiments.iter().flat_map(|experiment| &experiment.cells);
        cells.find(|cell| cell.variant == variant).expect("a cell").problem.clone().unwrap_or_default()
    };
    assert_eq!(["owner", "policy", "without", "tcp"].map(&problem), [""; 4]);
    assert!(problem("strangers").contains("for temporary servers alone"), "{}", problem("strangers"));
    assert!(problem("tls").contains("sslmode=disable"), "{}", problem("tls"));
    assert_eq!(server.schemas(), 0);
    let roles = "select count(*) from pg_roles where rolname like 'kiln\\_lab\\_%'";
    assert_eq!(server.client().integer(roles).expect("a count"), 0);
}

#[test]
fn two_builds_take_turns_and_come_back_from_restarts() {
    let folder = TempDir::new("lab-out").expect("a folder");
    let (experiment, out) = (experiment(folder.path(), ONE_VARIANT), folder.path().join("out"));
    let program = process::kilndb_program().expect("the program is built");
    let program = program.to_str().expect("a name");
    let output = run(&experiment, &out, &[], &["--before", program, "--rounds", "2", "--restart", "--check"]);
    let found = results(&output, &out);
    let cells = &found.experiments[0].cells;
    assert_eq!(cells.iter().map(|cell| cell.target.as_str()).collect::<Vec<_>>(), ["kilndb", "before"]);
    for cell in cells {
        assert_eq!((cell.problem.as_deref(), cell.runs.len()), (None, 2), "{}", cell.target);
        // What a round before a restart has changed is there after it, or these would not agree.
        assert!(cell.runs.iter().all(|run| run.transactions > 0 && run.failed_checks.is_empty()), "{cell:?}");
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let row = text.lines().find(|line| line.starts_with("counters, count")).expect("a row of the builds");
    assert!(row.ends_with("not judged, 2 pairs"), "{row}");
    let nowhere = run(&experiment, &out, &[], &["--before", "/nowhere/kilndb"]);
    let errors = String::from_utf8_lossy(&nowhere.stderr);
    assert!(!nowhere.status.success() && errors.contains("/nowhere/kilndb is no file"), "{errors}");
}

#[test]
fn a_report_goes_into_a_document_and_a_picture() {
    let folder = TempDir::new("lab-document").expect("a folder");
    let place = |name: &str| folder.path().join(name).to_str().expect("a name").to_string();
    kilndb_lab::report::sample::results().write(folder.path()).expect("results");
    let document = "# Figures\n<!-- lab: begin all -->\nold\n<!-- lab: end all -->\nlast\n";
    std::fs::write(place("figures.md"), document).expect("a file");
    let report = |more: &[&str]| {
        let results = place("");
        let all = [&["report", &results], more].concat();
        lab(&all).output().expect("it runs")
    };
    let written =
        report(&["--markdown", &place("figures.md"), "--section", "all", "--svg", "hot-row", &place("a.svg")]);
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let text = std::fs::read_to_string(place("figures.md")).expect("a file");
    assert!(
        text.starts_with("# Figures\n<!-- lab: begin all -->\n") && text.ends_with("<!-- lab: end all -->\nlast\n")
    );
    assert!(text.contains("#### One row that everybody updates") && !text.contains("old\n"), "{text}");
    assert!(std::fs::read_to_string(place("a.svg")).expect("a file").starts_with("<svg "));
    for (more, told) in [
        (vec!["--markdown", &place("figures.md"), "--section", "none"], "there is no line <!-- lab: begin none -->"),
        (vec!["--markdown", &place("figures.md")], "--markdown needs --section"),
        (vec!["--svg", "none", &place("b.svg")], "no experiment none"),
    ] {
        let refused = report(&more);
        let errors = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && errors.contains(told), "{errors}, not {told}");
    }
    assert_eq!(std::fs::read_to_string(place("figures.md")).expect("a file"), text);
}

/// Starts a long run and waits until its load is at work.
fn long_run(server: &LabServer, experiment: &Path, out: &Path) -> Child {
    let target = format!("here={}", server.uri());
    let out = out.to_str().expect("a name");
    let arguments = ["run", experiment.to_str().expect("a name"), "--target", &target, "--seconds", "60", "--out", out];
    let child = lab(&arguments).spawn().expect("it starts");
    let mut client = server.client();
    let deadline = Instant::now() + Duration::from_secs(60);
    let active = "select count(*) from pg_stat_activity where application_name like 'kilndb lab%' and query like 'update counter%'";
    while client.integer(active).expect("a count") == 0 {
        assert!(Instant::now() < deadline, "no load begins");
        std::thread::sleep(Duration::from_millis(50));
    }
    child
}

#[test]
fn a_target_that_dies_in_the_middle_is_told() {
    let (mut server, folder) = (LabServer::start(), TempDir::new("lab-out").expect("a folder"));
    let experiment = experiment(folder.path(), ONE_VARIANT);
    let out = folder.path().join("out");
    let child = long_run(&server, &experiment, &out);
    assert!(server.server.is_running());
    server.server.kill().expect("it dies");
    let results = results(&child.wait_with_output().expect("it ends"), &out);
    let cell = &results.experiments[0].cells[0];
    assert!(cell.problem.as_deref().is_some_and(|problem| problem.starts_with("08006")), "{cell:?}");
}

#[test]
fn somebody_who_stops_it_finds_nothing_left() {
    let (server, folder) = (LabServer::start(), TempDir::new("lab-out").expect("a folder"));
    let experiment = experiment(folder.path(), ONE_VARIANT);
    let out = folder.path().join("out");
    let child = long_run(&server, &experiment, &out);
    assert_eq!(server.schemas(), 1);
    // SAFETY: a signal to a child of ours that has not been waited for.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
    let output = child.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("stopped"), "{errors}");
    assert_eq!(server.schemas(), 0);
}

/// Of temporary servers too.
#[test]
fn somebody_who_is_in_a_hurry_finds_nothing_left() {
    let folder = TempDir::new("lab-out").expect("a folder");
    let experiment = experiment(folder.path(), ONE_VARIANT);
    let (temporary, out) = (folder.path().join("temporary"), folder.path().join("out"));
    std::fs::create_dir(&temporary).expect("a folder");
    let [experiment, out] = [&experiment, &out].map(|path| path.to_str().expect("a name"));
    let mut child = lab(&["run", experiment, "--seconds", "1", "--rounds", "100", "--out", out])
        .env("TMPDIR", &temporary)
        // KilnDB alone.
        .env("PGBIN", folder.path())
        .spawn()
        .expect("it starts");
    let errors = std::io::BufReader::new(child.stderr.take().expect("a pipe"));
    let has_run = |line: std::io::Result<String>| line.expect("a line").contains("round 1");
    assert!(std::io::BufRead::lines(errors).any(has_run), "no round has ended");
    assert!(processes_that_name(&temporary) > 0);
    for _ in 0..2 {
        // SAFETY: a signal to a child of ours that has not been waited for.
        unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
        // One signal that is still to be delivered swallows another.
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(child.wait().expect("it ends").code(), Some(128 + libc::SIGINT));
    let left: Vec<_> = std::fs::read_dir(&temporary).expect("a folder").collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(processes_that_name(&temporary), 0);
}

/// Processes with a path in their arguments.
fn processes_that_name(path: &Path) -> usize {
    let path = path.to_str().expect("a name");
    let processes = std::fs::read_dir("/proc").expect("a folder").flatten();
    let arguments = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    arguments.filter(|arguments| String::from_utf8_lossy(arguments).contains(path)).count()
}

#[test]
fn results_are_not_overwritten_without_being_asked_to() {
    let (server, folder) = (LabServer::start(), TempDir::new("lab-out").expect("a folder"));
    let experiment = experiment(folder.path(), ONE_VARIANT);
    let (out, target) = (folder.path().join("out"), format!("here={}", server.uri()));
    let first = results(&run(&experiment, &out, &[&target], &["--rounds", "1"]), &out);
    let second = run(&experiment, &out, &[&target], &["--rounds", "1"]);
    let errors = String::from_utf8_lossy(&second.stderr);
    assert!(!second.status.success() && errors.contains("has results already"), "{errors}");
    let third = run(&experiment, &out, &[&target], &["--rounds", "2", "--overwrite"]);
    assert_eq!(first.experiments[0].cells[0].runs.len(), 1);
    assert_eq!(results(&third, &out).experiments[0].cells[0].runs.len(), 2);
}

/// What the script waits for makes the rate, so that a busy machine does not.
#[test]
fn the_driver_and_pgbench_agree() {
    let (server, folder) = (LabServer::start(), TempDir::new("lab-out").expect("a folder"));
    let experiment = experiment(folder.path(), ONE_VARIANT);
    let script = "\\set id random(1, :rows)\n\\sleep 20 ms\nupdate counter set n = n + 1 where id = :id;\n";
    std::fs::write(experiment.join("count.sql"), script).expect("a file");
    let target = format!("here={}", server.uri());
    let [own, pgbench] = ["lab", "pgbench"].map(|driver| {
        let out = folder.path().join(driver);
        let more = ["--rounds", "1", "--seconds", "3", "--driver", driver];
        let results = results(&run(&experiment, &out, &[&target], &more), &out);
        let cell = &results.experiments[0].cells[0];
        assert_eq!(cell.problem, None);
        cell.runs[0].clone()
    });
    for run in [&own, &pgbench] {
        assert_eq!(run.changed_rows, run.transactions, "{run:?}");
    }
    let apart = |a: f64, b: f64| (a / b).ln().abs();
    let rate = |run: &RunResults| run.transactions as f64 / run.elapsed_s;
    assert!(apart(rate(&own), rate(&pgbench)) < 0.1, "{} and {} a second", rate(&own), rate(&pgbench));
    let median = |run: &RunResults| run.percentile_us(50.0).expect("a median") as f64;
    assert!(apart(median(&own), median(&pgbench)) < 0.1, "{} and {} us", median(&own), median(&pgbench));
}
