//! `kilndb inspect` of a cluster whose server was killed: what its sessions have done is in the log, and what a
//! definition has changed is in its commit.

use kilndb_lab::client::Client;
use kilndb_lab::process::{self, TempDir};
use std::process::Command;

fn inspect(arguments: &[&str]) -> Vec<String> {
    let program = process::kilndb_program().expect("the program");
    let output = Command::new(program).arg("inspect").args(arguments).output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_string).collect()
}
#[track_caller]
fn line_with<'l>(lines: &'l [String], words: &[&str]) -> &'l str {
    let found = lines.iter().find(|line| words.iter().all(|word| line.contains(word)));
    found.unwrap_or_else(|| panic!("no line with {words:?} among {}", lines.len()))
}

#[test]
fn a_definition_is_found_in_the_log() {
    let folder = TempDir::new("inspect").expect("a temporary folder");
    let data = folder.path().join("data");
    let port = process::free_port().expect("a free port");
    let server = process::start_kilndb(&data, port, &[]).expect("the server starts");
    let mut client = Client::connect(server.address(), "postgres").expect("a connection");
    client.query("checkpoint").expect("a checkpoint");
    let mut integer = |sql: &str| client.integer(sql).expect("a number").to_string();
    let before = integer("select txid_current()::int8");
    client.query("create table seen (a int primary key, b text)").expect("a table");
    client.query("insert into seen select n, 'b' || n from generate_series(1, 100) n").expect("rows");
    let mut integer = |sql: &str| client.integer(sql).expect("a number").to_string();
    let (table, index) =
        (integer("select 'seen'::regclass::oid::int8"), integer("select 'seen_pkey'::regclass::oid::int8"));
    let file = integer("select relfilenode::int8 from pg_class where relname = 'seen'");
    let tree = integer("select relfilenode::int8 from pg_class where relname = 'seen_pkey'");
    let database = integer("select oid::int8 from pg_database where datname = current_database()");
    server.kill().expect("the server is killed");

    let data_dir = data.to_str().expect("a path that is text");
    let lines = inspect(&["log", "-D", data_dir]);
    let commit = line_with(&lines, &[": commit,", "catalog changes", "\"seen\""]);
    for words in [format!("database {database},"), format!(" {table} "), format!(" {index}"), "objects".into()] {
        assert!(commit.contains(&words), "{words:?} is not in {commit:?}");
    }
    assert!(!commit.contains("everything"), "{commit:?}");
    let xid: u64 = commit
        .split("transaction ")
        .nth(1)
        .and_then(|rest| rest.split(',').next())
        .expect("an xid")
        .parse()
        .expect("a number");
    assert!(xid > before.parse().expect("a number"));
    // Rows change nothing in the catalogs.
    let rows = line_with(&lines, &["change with undo", &format!("of relation {file} ")]);
    let writer = rows.split("transaction ").nth(1).and_then(|rest| rest.split(',').next()).expect("an xid");
    assert!(!line_with(&lines, &[&format!(": commit, transaction {writer}")]).contains("catalog changes"));
    line_with(&lines, &["create", &format!("relation {tree},")]);
    line_with(&lines, &["the log ends at"]);

    // Recovered and stopped properly, the pages have it all.
    let server = process::start_kilndb(&data, port, &[]).expect("the server starts");
    server.stop().expect("the server stops");
    line_with(&inspect(&["relations", "-D", data_dir]), &["of a proper stop"]);
    line_with(&inspect(&["page", "-D", data_dir, &file, "0"]), &["100 slots"]);
    line_with(&inspect(&["tree", "-D", data_dir, &tree]), &["1 nodes, 100 entries"]);
    line_with(&inspect(&["undo", "-D", data_dir, &file, "0", "1"]), &["that is all"]);
}
