//! Experiments of timed statements, as somebody runs them: figures, answers, bounds, COPY, plans, and schemas that variants share.

use kilndb_lab::process::{self, Server, TempDir};
use kilndb_lab::results::{CellResults, LabResults};
use std::path::Path;
use std::process::{Command, Output, Stdio};

struct TimedServer {
    server: Server,
    _folder: TempDir,
}

impl TimedServer {
    fn start() -> TimedServer {
        let folder = TempDir::new("timed").expect("a folder");
        let port = process::free_port().expect("a free port");
        let server = process::start_kilndb(&folder.path().join("data"), port, &[]).expect("the server starts");
        TimedServer { server, _folder: folder }
    }
    fn target(&self, name: &str) -> String {
        format!("{name}=postgresql://postgres@127.0.0.1:{}/postgres", self.server.address().port)
    }
}

const HEAD: &str = "title = 'T'\nquestion = 'Q?'\ncount = 'statement-time'\nload = { clients = [1], seconds = 1 }\n";
const ALL: &str = "[[variants]]\nname = 'all'\nscript = 'a.sql'\n";

/// Runs a folder of a TOML file and SQL files.
fn run(folder: &Path, toml: &str, files: &[(&str, &str)], more: &[&str]) -> Output {
    let path = folder.join("made-up");
    std::fs::create_dir_all(&path).expect("a folder");
    std::fs::write(path.join("experiment.toml"), format!("{HEAD}{toml}")).expect("a file");
    files.iter().for_each(|(name, text)| std::fs::write(path.join(name), text).expect("a file"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_kilndb-lab"));
    command.args(["lab", "run"]).arg(&path).arg("--out").arg(folder.join("out")).args(more);
    command.stdin(Stdio::null()).output().expect("it runs")
}

fn results(folder: &Path, output: &Output) -> LabResults {
    let errors = String::from_utf8_lossy(&output.stderr);
    LabResults::read(&folder.join("out")).unwrap_or_else(|e| panic!("{e}: {errors}"))
}

fn figures(cell: &CellResults) -> Vec<(&str, bool)> {
    cell.runs[0].statements.iter().map(|one| (one.title(), one.total_ms().is_some())).collect()
}

#[test]
fn statements_with_names_have_figures_and_one_that_is_refused_stops_nothing() {
    let (server, folder) = (TimedServer::start(), TempDir::new("timed-out").expect("a folder"));
    let script = "create table t as select g from generate_series(1, 100) g;\n\
        -- name: count\nselect count(*) from t where g > 0;\n-- name: refused\n-- must: 2\nselect no_such_column from t;\n\
        -- name: a value\n-- figure: value\n-- must: 3\n-- aim: 2\nselect 2.5;\ndrop table t;\n";
    let target = server.target("here");
    let more = ["--target", &target, "--rounds", "2"];
    let output = run(folder.path(), &format!("{ALL}[measure]\nplan-rows = true\n"), &[("a.sql", script)], &more);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results = results(folder.path(), &output);
    let cell = &results.experiments[0].cells[0];
    assert_eq!((cell.problem.as_deref(), cell.runs.len()), (None, 2));
    assert_eq!(figures(cell), [("count", true), ("refused", false), ("a value", true)]);
    for run in &cell.runs {
        assert_eq!(run.statements[0].plan_rows, Some(101.0), "the rows of a scan and of its aggregate");
        assert!(run.statements[1].problem.as_ref().is_some_and(|problem| problem.contains("no_such_column")));
        assert_eq!((run.statements[2].value, run.transactions), (Some(2.5), 1));
        assert_eq!(run.changed_rows, 0, "those of CREATE TABLE AS are no changes");
    }
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = |name: &str| shown.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_string();
    assert!(line("a value").contains("2.500") && line("a value").contains("above aim"), "{shown}");
    assert!(line("refused").contains("missing"), "{shown}");
    assert!(shown.contains("! all on here with 1 client: run 1, refused: 42703"), "{shown}");

    // The same with bounds that have to be kept.
    let more = ["--target", &target, "--rounds", "1", "--overwrite", "--bounds"];
    let output = run(folder.path(), ALL, &[("a.sql", script)], &more);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("made-up, refused: missing"), "{errors}");
    assert!(!errors.contains("a value"), "{errors}");
}

#[test]
fn another_answer_is_no_figure() {
    let (here, there) = (TimedServer::start(), TimedServer::start());
    let folder = TempDir::new("timed-out").expect("a folder");
    // The same question is asked twice, and answered otherwise the second time.
    let script = "create temp table t (g int);\nselect sum(g) from t;\ninsert into t values (5);\nselect sum(g) from t;\n\
        -- name: same\nselect g from generate_series(1, 3) g;\n\
        -- name: other\nselect current_setting('port');\nselect current_setting('port')::int;\n";
    let (own, other) = (here.target("here"), there.target("there"));
    let more = ["--target", &own, "--target", &other, "--rounds", "1"];
    let toml = format!("{ALL}[measure]\nanswers = true\n");
    let output = run(folder.path(), &toml, &[("a.sql", script)], &more);
    let results = results(folder.path(), &output);
    let cells = &results.experiments[0].cells;
    assert_eq!(figures(&cells[0]), [("same", true), ("other", true)]);
    assert_eq!(figures(&cells[1]), [("same", true), ("other", false)]);
    let told = cells[1].runs[0].statements[1].problem.clone().unwrap_or_default();
    assert!(told.starts_with("another answer than here's: row 1: ("), "{told}");
    // One without a figure fails the run as a check does.
    assert!(cells[0].runs[0].failed_checks.is_empty() && cells[1].runs[0].failed_checks.len() == 1);
}

#[test]
fn copy_has_a_side_of_the_client() {
    let (server, folder) = (TimedServer::start(), TempDir::new("timed-out").expect("a folder"));
    let setup =
        "create table t as select g, 'text ' || g as s from generate_series(1, 1000) g;\ncreate table u (like t);\n";
    let script = "-- file: rows\ncopy t to stdout (format binary);\n-- name: out\ncopy t to stdout;\n\
        -- name: in\n-- file: rows\ncopy u from stdin (format binary);\n\
        -- name: rows\n-- figure: value\nselect count(*) from (select * from u intersect select * from t) x;\ntruncate u;\n";
    let target = server.target("here");
    let toml = format!("[setup]\nsql = ['setup.sql']\n{ALL}");
    let files = [("a.sql", script), ("setup.sql", setup)];
    let output = run(folder.path(), &toml, &files, &["--target", &target, "--rounds", "1"]);
    let results = results(folder.path(), &output);
    let cell = &results.experiments[0].cells[0];
    assert_eq!(figures(cell), [("out", true), ("in", true), ("rows", true)], "{cell:?}");
    assert_eq!(cell.runs[0].statements[2].value, Some(1000.0));
}

#[test]
fn variants_share_a_schema_and_plans_are_held_against_others() {
    let (server, folder) = (TimedServer::start(), TempDir::new("timed-out").expect("a folder"));
    let toml = "[setup]\nshared = true\nsql = ['create table t as select g from generate_series(1, 1000) g', 'analyze t']\n\
        [measure]\nestimates = true\n[[variants]]\nname = 'one'\nscript = 'a.sql'\n[[variants]]\nname = 'two'\nscript = 'a.sql'\n\
        [[bounds]]\nname = 'far'\nfigure = 'far-estimates'\nvariant = 'one'\nmust = 1\n";
    let script = "-- name: near\nselect g from t where g < 500;\n";
    let target = server.target("here");
    let output = run(folder.path(), toml, &[("a.sql", script)], &["--target", &target, "--rounds", "1"]);
    let results = results(folder.path(), &output);
    for cell in &results.experiments[0].cells {
        let estimates = cell.runs[0].statements[0].estimates.clone().expect("they were measured");
        assert_eq!((cell.problem.as_deref(), estimates.nodes, estimates.near), (None, 1, 1));
        assert!(estimates.planning_ms > 0.0 && estimates.best_ms.is_none(), "{estimates:?}");
    }
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.lines().any(|line| line.starts_with("far") && line.contains("missing")), "{shown}");
}
