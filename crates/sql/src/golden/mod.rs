//! Golden files: what each statement of a corpus becomes, from the bound query over the plan to what storage does
//! (docs/decisions/0042). The statements are in `tests/golden/*.sql`, what is expected of them beside it in
//! `tests/golden/*.golden`; `UPDATE_GOLDEN=1` writes the latter instead of comparing.

mod bound_tree;
mod client;
mod hash_collisions;
mod operations;

use crate::session::system_views::StartRuntime;
use crate::session::temporary_instance::TemporaryInstance;
use crate::session::{BindRequest, Session, StartupOptions};
use client::CollectingClient;
use kilndb_base::{Result, work};
use kilndb_storage::trace;
use kilndb_syntax::{Node, Statement};
use operations::RelationNames;
use std::path::{Path, PathBuf};

/// Statements before this line prepare what those after it work on. They are not shown.
const SEPARATOR: &str = "-- shown from here on";

/// The session that runs a file's statements.
struct Shower {
    session: Session,
    runtime: StartRuntime,
}

impl Shower {
    fn connect(cluster: &TemporaryInstance) -> Result<Shower> {
        let runtime = StartRuntime::new();
        let options = StartupOptions { user: "postgres".into(), database: "postgres".into(), settings: Vec::new() };
        let session = work::under(&runtime, || Session::connect(cluster.instance.clone(), options, &runtime))?;
        Ok(Shower { session, runtime })
    }

    /// Runs statements of the simple protocol. Rows come back as their first columns.
    fn query(&mut self, sql: &str) -> Result<Vec<Vec<String>>> {
        let mut client = CollectingClient::default();
        let (session, runtime) = (&mut self.session, &self.runtime);
        work::under(runtime, || session.simple_query(sql, runtime, &mut client))?;
        Ok(client.rows)
    }

    /// Runs a statement of the extended protocol and its commit. The plan is made, and the catalogs are read, before the
    /// trace begins.
    fn trace(&mut self, sql: &str) -> Result<(Vec<trace::TracedOperation>, String)> {
        let mut client = CollectingClient::default();
        let (session, runtime) = (&mut self.session, &self.runtime);
        let operations = work::under(runtime, || {
            session.parse("", sql, &[], runtime)?;
            let request =
                BindRequest { portal: "", statement: "", param_formats: &[], params: &[], result_formats: &[] };
            session.bind(&request, runtime, &mut client)?;
            trace::begin();
            let done = session.execute("", None, runtime, &mut client);
            let done = match done {
                Ok(()) => session.sync(runtime, &mut client),
                Err(e) => session.abort_statement(runtime).and(Err(e)),
            };
            let operations = trace::end();
            done.map(|()| operations)
        })?;
        Ok((operations, client.tag))
    }

    fn bound(&mut self, statement: &Statement) -> Result<String> {
        let (session, runtime) = (&mut self.session, &self.runtime);
        work::under(runtime, || {
            session.begin_block(runtime)?;
            let bound = bound_tree::of_statement(&mut session.context, statement, runtime)?;
            session.commit(runtime)?;
            Ok(bound)
        })
    }

    fn show(&mut self, statement: &Statement) -> Result<String> {
        let sql = statement.text();
        let mut shown = String::new();
        let has_plan = matches!(
            statement.node(),
            Node::SelectStmt(_) | Node::InsertStmt(_) | Node::UpdateStmt(_) | Node::DeleteStmt(_) | Node::MergeStmt(_)
        );
        if has_plan {
            let bound = self.bound(statement)?;
            shown += &format!("---- bound query\n{bound}---- plan\n");
            for row in self.query(&format!("EXPLAIN (VERBOSE, COSTS OFF) {sql}"))? {
                shown += &format!("{}\n", row.join(""));
            }
        }
        let mut names = RelationNames::default();
        names.add(&self.query(RelationNames::QUERY)?);
        let (operations, tag) = self.trace(sql)?;
        names.add(&self.query(RelationNames::QUERY)?);
        shown += "---- storage\n";
        for line in operations::lines(&operations, &names) {
            shown += &format!("{line}\n");
        }
        shown += &format!("---- {tag}\n\n");
        Ok(shown)
    }
}

/// What the file's golden file is to hold.
fn shown_file(path: &Path) -> std::result::Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let (setup, corpus) = text.split_once(SEPARATOR).ok_or_else(|| format!("there is no line \"{SEPARATOR}\""))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let cluster = TemporaryInstance::open(&format!("golden-{name}"));
    let mut shower = Shower::connect(&cluster).map_err(|e| e.message().to_string())?;
    shower.query(setup).map_err(|e| format!("what prepares: {}", e.message()))?;
    let script = kilndb_syntax::parse(corpus).map_err(|e| e.message().to_string())?;
    let (mut shown, mut rest) = (String::new(), corpus);
    for statement in script.statements() {
        let sql = statement.text();
        // What stands before a statement is said about it.
        let (comment, after) = rest.split_once(sql).unwrap_or(("", rest));
        rest = after;
        let comment = comment.trim_start_matches(';').trim();
        shown += &format!("{}\n{comment}{}{sql};\n", "=".repeat(80), if comment.is_empty() { "" } else { "\n" });
        let about = |e: kilndb_base::Error| format!("{}: {}", statement.text(), e.message());
        shown += &shower.show(&statement).map_err(about)?;
    }
    let Shower { mut session, runtime } = shower;
    work::under(&runtime, || session.close(&runtime));
    Ok(shown)
}

/// The first line in which two texts differ, with what each has there.
fn difference(expected: &str, found: &str) -> String {
    let (mut a, mut b) = (expected.lines(), found.lines());
    let mut number = 0;
    loop {
        number += 1;
        match (a.next(), b.next()) {
            (None, None) => return "the texts differ in their last bytes".into(),
            (one, other) if one == other => {}
            (one, other) => {
                let shown = |line: Option<&str>| line.unwrap_or("(the end)").to_string();
                return format!("line {number}\n  expected: {}\n  found:    {}", shown(one), shown(other));
            }
        }
    }
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "a build without debug assertions has no traces")]
fn statements_become_what_their_golden_files_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let entries = std::fs::read_dir(&folder).expect("the folder tests/golden");
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "sql"));
    files.sort();
    assert!(!files.is_empty(), "there are no statements in tests/golden");
    let is_recorded = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = Vec::new();
    for path in files {
        let golden = path.with_extension("golden");
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match shown_file(&path) {
            Err(problem) => wrong.push(format!("{name}: {problem}")),
            Ok(shown) if is_recorded => std::fs::write(&golden, shown).expect("a golden file is written"),
            Ok(shown) => {
                let expected = std::fs::read_to_string(&golden).unwrap_or_default();
                if expected != shown {
                    wrong.push(format!("{name}: {}", difference(&expected, &shown)));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}\nUPDATE_GOLDEN=1 writes what was found, for a review", wrong.join("\n"));
}
