//! pg_dump and pg_restore of PostgreSQL 18 with KilnDB: a dump restores to what it was made of, and says what
//! PostgreSQL would say.
//!
//! The programs are those that scripts/setup.sh fetches for the tests, or of the folder `PGBIN`. The comparison with
//! PostgreSQL wants a server with contrib, which only `make test-postgres` fetches: without one it says so and passes.

use kilndb_lab::client::{Address, Client};
use kilndb_lab::postgres;
use kilndb_lab::process::{self, Server, TempDir};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is in tests/dump/schema.sql.
const SOURCE: &str = "source";

/// Runs a program of PostgreSQL against a database and gives what it prints; panics if it fails.
fn run(program: &str, at: &Address, database: &str, arguments: &[&str]) -> String {
    let output = Command::new(postgres::program(program).expect(program))
        .args(["-h", &at.host, "-p", &at.port.to_string(), "-U", "postgres", "-d", database])
        .args(arguments)
        .env("PGOPTIONS", "-c client_min_messages=warning")
        .output()
        .unwrap_or_else(|e| panic!("{program}: {e}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?} on {database}: {errors}");
    // psql goes on after a warning, and so do the others: there should be none.
    assert!(errors.is_empty(), "{program} {arguments:?} on {database}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn create(at: &Address, database: &str) {
    let sql = format!("CREATE DATABASE {database} TEMPLATE template0");
    run("psql", at, "postgres", &["-qX", "-c", &sql]);
}

fn script(at: &Address, database: &str, script: &Path) {
    create(at, database);
    run(
        "psql",
        at,
        database,
        &["-qX", "-o", "/dev/null", "-v", "ON_ERROR_STOP=1", "-f", &script.display().to_string()],
    );
}

fn dump_of(at: &Address, database: &str) -> String {
    without_keys(&run("pg_dump", at, database, &[]))
}

/// A dump without the keys that psql's \restrict gets, which are other ones each time, and without the versions of the
/// programs.
fn without_keys(dump: &str) -> String {
    let varies =
        |line: &&str| !["\\restrict ", "\\unrestrict ", "-- Dumped "].iter().any(|start| line.starts_with(start));
    dump.lines().filter(varies).map(|line| format!("{line}\n")).collect()
}

fn schema() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/dump/schema.sql")
}

fn kilndb(temp: &TempDir) -> Server {
    let port = process::free_port().expect("a free port");
    process::start_kilndb(&temp.path().join("data"), port, &[]).expect("KilnDB")
}

fn assert_same(what: &str, expected: &str, found: &str) {
    if expected != found {
        let differing = expected.lines().zip(found.lines()).position(|(a, b)| a != b);
        let at = differing.unwrap_or_else(|| expected.lines().count().min(found.lines().count()));
        let part = |text: &str| text.lines().skip(at.saturating_sub(6)).take(16).collect::<Vec<_>>().join("\n");
        panic!("{what}: differs in line {}\n--- expected\n{}\n--- found\n{}", at + 1, part(expected), part(found));
    }
}

#[test]
fn dumps_restore_to_the_same() {
    let temp = TempDir::new("dump").expect("a folder");
    let server = kilndb(&temp);
    let at = server.address().clone();
    let file = |name: &str| temp.path().join(name);
    script(&at, SOURCE, &schema());
    let dump = dump_of(&at, SOURCE);

    std::fs::write(file("plain.sql"), &dump).expect("a file");
    script(&at, "plain", &file("plain.sql"));
    assert_same("plain", &dump, &dump_of(&at, "plain"));

    for (database, options) in [("inserts", "--inserts"), ("named", "--column-inserts")] {
        let text = without_keys(&run("pg_dump", &at, SOURCE, &[options]));
        std::fs::write(file(database), text).expect("a file");
        script(&at, database, &file(database));
        assert_same(options, &dump, &dump_of(&at, database));
    }

    for (database, format, jobs) in [("custom", "-Fc", "1"), ("folder", "-Fd", "2")] {
        let archive = file(database).display().to_string();
        run("pg_dump", &at, SOURCE, &[format, "-j", jobs, "-f", &archive]);
        create(&at, database);
        run("pg_restore", &at, database, &["-j", "2", &archive]);
        assert_same(format, &dump, &dump_of(&at, database));
    }
    server.stop().expect("an orderly end");
}

/// A dump's parts by what their headings say of them.
fn parts(dump: &str) -> BTreeMap<String, String> {
    let mut parts: BTreeMap<String, String> = BTreeMap::new();
    let mut heading = String::new();
    for line in dump.lines() {
        match line.strip_prefix("-- Name: ").or_else(|| line.strip_prefix("-- Data for Name: ")) {
            Some(name) => heading = name.to_string(),
            None if line.is_empty() || line == "--" => {}
            None => parts.entry(heading.clone()).or_default().push_str(&format!("{line}\n")),
        }
    }
    parts
}

/// Views and bodies in SQL syntax are shown as they were written, not as PostgreSQL lays them out.
fn is_laid_out_otherwise(heading: &str, text: &str) -> bool {
    heading.contains("; Type: VIEW; ")
        || (heading.contains("; Type: FUNCTION; ") && text.contains("RETURN ") && !text.contains(" AS $"))
}

#[test]
fn dumps_say_what_postgres_says() {
    if postgres::program("postgres").is_err() {
        println!("skipped: no server of PostgreSQL {} (scripts/setup.sh postgres)", postgres::MAJOR);
        return;
    }
    let (temp, postgres_temp) =
        (TempDir::new("dump").expect("a folder"), TempDir::new("dump-postgres").expect("a folder"));
    let server = kilndb(&temp);
    let at = server.address().clone();
    let port = process::free_port().expect("a free port");
    let postgres = postgres::start(postgres_temp.path(), port, &["fsync=off"]).expect("PostgreSQL");
    let contrib = "select count(*) from pg_available_extensions where name in ('pg_trgm', 'btree_gin')";
    let mut client = Client::connect(postgres.address(), "postgres").expect("a connection");
    if client.integer(contrib).expect("a count") < 2 {
        println!("skipped: PostgreSQL's server is one without contrib (scripts/setup.sh postgres)");
        return;
    }
    let there = postgres.address().clone();
    script(&at, SOURCE, &schema());
    script(&there, SOURCE, &schema());
    let (own, theirs) = (dump_of(&at, SOURCE), dump_of(&there, SOURCE));

    let (own_parts, their_parts) = (parts(&own), parts(&theirs));
    let headings = |parts: &BTreeMap<String, String>| parts.keys().cloned().collect::<Vec<_>>().join("\n");
    assert_same("headings", &headings(&their_parts), &headings(&own_parts));
    for (heading, text) in &their_parts {
        if !is_laid_out_otherwise(heading, text) {
            assert_same(heading, text, &own_parts[heading]);
        }
    }

    // What KilnDB dumps PostgreSQL takes for the same.
    let file = temp.path().join("own.sql");
    std::fs::write(&file, &own).expect("a file");
    script(&there, "restored", &file);
    assert_same("KilnDB's dump in PostgreSQL", &theirs, &dump_of(&there, "restored"));

    // And the other way round.
    let file = temp.path().join("theirs.sql");
    std::fs::write(&file, &theirs).expect("a file");
    script(&at, "restored", &file);
    let restored = parts(&dump_of(&at, "restored"));
    assert_same("headings of PostgreSQL's dump in KilnDB", &headings(&own_parts), &headings(&restored));
    for (heading, text) in &own_parts {
        if !is_laid_out_otherwise(heading, text) {
            assert_same(heading, text, &restored[heading]);
        }
    }
    server.stop().expect("an orderly end");
}

/// A cluster's roles, databases and all in them, without what differs between servers: how a database is made, the role
/// that every cluster has, how views are laid out.
fn dump_of_all(at: &Address) -> String {
    let dump = without_keys(&run_all(at));
    let of_server = |line: &&str| {
        let of_database = line.starts_with("CREATE DATABASE ");
        !of_database && !line.ends_with("ROLE postgres;") && !line.starts_with("ALTER ROLE postgres ")
    };
    let kept: Vec<&str> = dump.lines().filter(of_server).collect();
    // PostgreSQL lays queries out over several lines.
    kept.join("\n").split_whitespace().collect::<Vec<_>>().join(" ").replace("; ", ";\n")
}

fn run_all(at: &Address) -> String {
    let output = Command::new(postgres::program("pg_dumpall").expect("pg_dumpall"))
        .args(["-h", &at.host, "-p", &at.port.to_string(), "-U", "postgres"])
        .output()
        .unwrap_or_else(|e| panic!("pg_dumpall: {e}"));
    assert!(output.status.success(), "pg_dumpall: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn restore_all(at: &Address, file: &Path) {
    // The role that runs it is there already: that statement fails, and the others do not depend on it.
    let output = Command::new(postgres::program("psql").expect("psql"))
        .args(["-h", &at.host, "-p", &at.port.to_string(), "-U", "postgres", "-qX", "-o", "/dev/null", "-f"])
        .arg(file)
        .output()
        .unwrap_or_else(|e| panic!("psql: {e}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    let unexpected: Vec<&str> = errors.lines().filter(|line| !line.contains("\"postgres\" already exists")).collect();
    assert!(unexpected.is_empty(), "psql: {unexpected:?}");
}

/// Roles, memberships, owners, grants and default privileges come back from pg_dumpall, PostgreSQL's too.
#[test]
fn whole_clusters_restore_to_the_same() {
    let roles = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/dump/roles.sql");
    let temps = [(); 3].map(|()| TempDir::new("dump-all").expect("a folder"));
    let (source, target) = (kilndb(&temps[0]), kilndb(&temps[1]));
    restore_all(source.address(), &roles);
    let file = temps[0].path().join("all.sql");
    std::fs::write(&file, run_all(source.address())).expect("a file");
    restore_all(target.address(), &file);
    let own = dump_of_all(source.address());
    assert!(own.contains("ALTER DEFAULT PRIVILEGES") && own.contains("GRANT dump_app TO dump_noinh WITH ADMIN OPTION"));
    assert_same("pg_dumpall", &own, &dump_of_all(target.address()));

    if postgres::program("postgres").is_err() {
        println!("skipped: no server of PostgreSQL {} (scripts/setup.sh postgres)", postgres::MAJOR);
        return;
    }
    let port = process::free_port().expect("a free port");
    let postgres = postgres::start(temps[2].path(), port, &["fsync=off"]).expect("PostgreSQL");
    restore_all(postgres.address(), &roles);
    // Each password has a salt of its own.
    let without_passwords = |dump: String| -> String {
        let cut = |line: &str| line.split(" PASSWORD ").next().unwrap_or(line).to_string();
        dump.lines().map(cut).collect::<Vec<_>>().join("\n")
    };
    assert_same(
        "what PostgreSQL's pg_dumpall says",
        &without_passwords(dump_of_all(postgres.address())),
        &without_passwords(own),
    );
    source.stop().expect("an orderly end");
    target.stop().expect("an orderly end");
}

/// A statement's first value; panics if it fails.
fn value(client: &mut Client, sql: &str) -> String {
    client.value(sql).unwrap_or_else(|e| panic!("{sql}: {e}")).unwrap_or_default()
}

#[test]
fn snapshots_can_be_shared() {
    let temp = TempDir::new("snapshots").expect("a folder");
    let server = kilndb(&temp);
    let connect = || Client::connect(server.address(), "postgres").expect("a connection");
    let (mut writer, mut exporter, mut importer) = (connect(), connect(), connect());
    value(&mut writer, "create table t (v int); insert into t values (1)");
    for level in ["repeatable read", "read committed"] {
        value(&mut writer, "update t set v = 1");
        value(&mut exporter, &format!("begin isolation level {level}"));
        assert_eq!(value(&mut exporter, "select v from t"), "1");
        let name = value(&mut exporter, "select pg_export_snapshot()");
        value(&mut exporter, "insert into t values (100)");
        value(&mut writer, "update t set v = 2 where v = 1");
        let take = format!("set transaction snapshot '{name}'");
        value(&mut importer, "begin isolation level repeatable read");
        value(&mut importer, &take);
        // Neither what was committed afterwards nor what the exporter did.
        assert_eq!(value(&mut importer, "select string_agg(v::text, ' ') from t"), "1", "{level}");
        value(&mut exporter, "rollback");
        // The importer keeps it; nobody else can have it now.
        value(&mut writer, "update t set v = 3");
        assert_eq!(value(&mut importer, "select v from t"), "1", "{level}");
        value(&mut writer, "begin isolation level repeatable read");
        let refused = writer.value(&take).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(refused.contains("does not exist"), "{refused}");
        value(&mut writer, "rollback");
        value(&mut importer, "commit");
        assert_eq!(value(&mut importer, "select v from t"), "3", "{level}");
    }
    server.stop().expect("an orderly end");
}
