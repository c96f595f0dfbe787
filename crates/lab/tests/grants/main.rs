//! Roles, grants and statements made at random: KilnDB allows and refuses what PostgreSQL does, in the same words.
//!
//! For each seed a database with roles, objects and grants of its own is made on both servers. Then grants, owners and
//! roles change, and roles run statements and ask what they may do. Every answer (rows; or SQLSTATE, message and detail;
//! warnings) must be PostgreSQL's. `KILNDB_SEED` and `KILNDB_SEEDS` say which seeds, `KILNDB_QUESTIONS` how many
//! questions each of them asks; with `KILNDB_SCRIPTS` each seed's statements are left in that folder. Without a PostgreSQL
//! 18 at hand the test says so and passes.
//!
//! Invariants
//! 1. What both servers are asked follows from the seed alone, never from an answer.
//! 2. Changes of grants, owners and roles stay; whatever else a question changes is rolled back.
//! 3. Nothing is made that KilnDB does not support.

mod changes;
mod definitions;
mod permissions;
mod policies;
mod statements;
mod world;

use kilndb_lab::both;
use kilndb_lab::client::{Address, Client, ClientError};
use kilndb_lab::process::{self, Server, TempDir};
use kilndb_lab::{postgres, random::RowRandom};
use std::collections::BTreeSet;
use std::fmt::Write;
use world::World;

/// Connections to each server: the first is the superuser's, the others are those of roles.
const CONNECTIONS: usize = 3;

/// A seed with so many of them says no more.
const MOST_DIFFERENCES: usize = 20;

/// What is asked at once, with nothing of it left behind unless it says so.
pub struct Question {
    pub statements: Vec<String>,
    pub scope: Scope,
    pub compares: Compares,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// It changes nothing, or is to stay.
    Alone,
    /// It is taken back.
    RolledBack,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Compares {
    Rows,
    /// Plans, numbers of processes: only whether it is allowed.
    Allowed,
}

impl Question {
    pub fn alone(statement: String) -> Question {
        Question { statements: vec![statement], scope: Scope::Alone, compares: Compares::Rows }
    }
    pub fn rolled_back(statement: String) -> Question {
        Question { statements: vec![statement], scope: Scope::RolledBack, compares: Compares::Rows }
    }
    pub fn allowed(statement: String) -> Question {
        Question { statements: vec![statement], scope: Scope::RolledBack, compares: Compares::Allowed }
    }
}

/// A server, and the connections to the seed's database.
struct Side {
    name: &'static str,
    address: Address,
    clients: Vec<Client>,
}

impl Side {
    fn new(name: &'static str, server: &Server) -> Side {
        Side { name, address: server.address().clone(), clients: Vec::new() }
    }

    fn connect(&mut self, database: &str, user: &str) -> Client {
        let address = Address { user: user.into(), ..self.address.clone() };
        Client::connect(&address, database).unwrap_or_else(|e| panic!("{}: {user} connects: {e}", self.name))
    }

    /// The answer to a statement as text.
    fn answer(&mut self, client: usize, sql: &str, compares: Compares, is_extended: bool) -> String {
        let client = &mut self.clients[client];
        client.notices.clear();
        let answered = match is_extended {
            true => client.prepare("", sql).and_then(|()| client.execute("", &[])),
            false => client.query(sql),
        };
        let mut text = String::new();
        match answered {
            Ok(answers) if compares == Compares::Rows => {
                for answer in answers {
                    let mut rows: Vec<String> = answer.rows.iter().map(|row| format!("{row:?}\n")).collect();
                    rows.sort();
                    let tag = answer.tag;
                    let _ = writeln!(text, "{tag}");
                    text.extend(rows);
                }
            }
            Ok(_) => text.push_str("allowed\n"),
            Err(ClientError::Server(e)) => {
                let detail = e.detail.filter(|_| e.code == "42501").unwrap_or_default();
                let _ = writeln!(text, "{} {} {} {detail}", e.severity, e.code, e.message);
            }
            Err(e) => panic!("{}: {sql}: {e}", self.name),
        }
        // Objects come in no particular order. How many rows a statement has seen when it fails is nobody's promise.
        let is_refused = text.starts_with("ERROR ");
        let warnings =
            client.notices.iter().filter(|n| n.severity == "WARNING" && !(is_refused && n.message.starts_with("saw ")));
        let warnings: BTreeSet<String> = warnings.map(|w| format!("WARNING {} {}\n", w.code, w.message)).collect();
        text.extend(warnings);
        if sql.contains(" on all ") && text.starts_with("ERROR ") {
            return "ERROR for one of several objects".into();
        }
        text
    }
}

/// Both servers, and what has been found to differ.
struct Comparison {
    kilndb: Side,
    postgres: Side,
    seed: u64,
    asked: usize,
    differences: Vec<String>,
    /// What has been run, for whoever looks for the cause of a difference.
    script: Vec<String>,
}

impl Comparison {
    /// Runs a statement on both servers and gives whether it failed on the second one.
    fn run(&mut self, client: usize, sql: &str, compares: Compares, is_extended: bool) -> bool {
        let expected = self.postgres.answer(client, sql, compares, is_extended);
        let found = self.kilndb.answer(client, sql, compares, is_extended);
        self.script.push(format!("/* {client} */ {sql};"));
        if expected != found
            && !differ_in_order(sql, &expected, &found)
            && !self.is_of_plan(client, sql, &expected, &found)
        {
            let place = self.script.len();
            let (expected, found) = (lines_beside(&expected, &found), lines_beside(&found, &expected));
            self.differences.push(format!(
                "seed {}, line {place}, connection {client}:\n{sql}\nPostgreSQL: {expected}\nKilnDB: {found}\n",
                self.seed
            ));
        }
        let failed = |status: u8| status == b'E';
        let (ours, theirs) = (&self.kilndb.clients[client], &self.postgres.clients[client]);
        if failed(ours.status) || failed(theirs.status) {
            self.rolled_back(client, "rollback to a");
            return true;
        }
        expected.starts_with("ERROR")
    }

    /// Whether PostgreSQL allows what KilnDB refuses because of a plan of its own: it asks about nothing that only stands in
    /// what a condition that is never true has cut away, and an expression of PL/pgSQL that it has planned for somebody
    /// else may name schemas of theirs. Asked while nothing has been taken back yet.
    fn is_of_plan(&mut self, client: usize, sql: &str, expected: &str, found: &str) -> bool {
        if expected.starts_with("ERROR") || !found.starts_with("ERROR 42501 permission denied for ") {
            return false;
        }
        let asks_again = found.contains("for schema") && self.postgres.clients[client].status == b'T';
        let postgres = &mut self.postgres.clients[client];
        if asks_again {
            let again = ["rollback to a", "discard plans", sql].map(|sql| postgres.query(sql).is_err());
            return again[2];
        }
        // Of `ERROR 42501 permission denied for table t2` and the lines after it.
        let Some(object) = found.lines().next().and_then(|line| line.split_whitespace().last()) else { return false };
        let select = sql.strip_prefix("explain (analyze, costs off) ").or(sql.strip_prefix("explain (costs off) "));
        let Ok(answers) = postgres.query(&format!("explain (verbose, costs off) {}", select.unwrap_or(sql))) else {
            return false;
        };
        let plan: Vec<&str> =
            answers.iter().flat_map(|answer| &answer.rows).flatten().flatten().map(String::as_str).collect();
        let names_object =
            |line: &&str| line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == object);
        plan.iter().any(|line| line.contains("One-Time Filter: false")) && !plan.iter().any(names_object)
    }

    fn quietly(&mut self, client: usize, sql: &str) {
        self.run(client, sql, Compares::Allowed, false);
    }

    /// Ends what may have failed on one of the servers only.
    fn rolled_back(&mut self, client: usize, sql: &str) {
        for side in [&mut self.postgres, &mut self.kilndb] {
            let _ = side.clients[client].query(sql);
        }
        self.script.push(format!("/* {client} */ {sql};"));
    }

    fn ask(&mut self, client: usize, question: &Question, random: &mut RowRandom) {
        let is_in_transaction = self.kilndb.clients[client].status == b'T';
        let scope = question.scope == Scope::RolledBack;
        if is_in_transaction || scope {
            self.rolled_back(client, if is_in_transaction { "savepoint a" } else { "begin" });
            if !is_in_transaction {
                self.rolled_back(client, "savepoint a");
            }
        }
        for sql in &question.statements {
            let is_extended = random.index(5) == 0 && !sql.starts_with("copy");
            self.asked += 1;
            if self.run(client, sql, question.compares, is_extended) {
                break;
            }
        }
        if scope {
            self.rolled_back(client, if is_in_transaction { "rollback to a" } else { "rollback" });
        }
    }
}

/// Whether both servers refuse a statement that needs several privileges, for want of different ones. Which one is missed
/// first follows from PostgreSQL's plan (subqueries that are merged or not, constant expressions, kept plans).
fn differ_in_order(sql: &str, expected: &str, found: &str) -> bool {
    // A function in a condition that changes the statement's own rows is no question of privileges.
    if expected.starts_with("ERROR 27000 ") {
        return true;
    }
    // Of an object that is not there PostgreSQL may hear before or after it asks for a privilege on another one.
    let is_refused = |answer: &str| {
        let states = ["ERROR 42501 ", "ERROR 42P01 ", "ERROR 42883 ", "ERROR 42704 ", "ERROR 42701 ", "ERROR 42P17 "];
        states.iter().any(|state| answer.starts_with(state))
    };
    let is_name = |word: &&str| {
        let mut letters = word.chars();
        letters.next().is_some_and(|c| "tvmfqpdn".contains(c)) && letters.next().is_some_and(|c| c.is_ascii_digit())
    };
    let names = sql.split(|c: char| !c.is_ascii_alphanumeric()).filter(is_name);
    let needed: usize = names.map(|name| if name.starts_with(['v', 'f', 'p']) { 2 } else { 1 }).sum();
    // Defaults call functions, too.
    let needed = needed + usize::from(sql.contains("insert") || sql.contains("default"));
    needed > 1 && is_refused(expected) && is_refused(found)
}

/// The lines of an answer that the other one has not.
fn lines_beside(answer: &str, other: &str) -> String {
    let lines: Vec<&str> = answer.lines().filter(|line| !other.lines().any(|o| o == *line)).take(8).collect();
    lines.join("\n    ")
}

/// One role at work: a few questions, in a transaction or each by itself.
fn turn(both: &mut Comparison, world: &mut World) {
    let client = world.random.index(CONNECTIONS);
    if client == 0 {
        let role = world.role();
        both.quietly(0, "reset session authorization");
        if !world.one_in(10) {
            both.run(0, &format!("set session authorization {role}"), Compares::Rows, false);
        }
    }
    let role = world.role();
    let set_role = if world.one_in(2) { "reset role".to_string() } else { format!("set role {role}") };
    both.run(client, &set_role, Compares::Rows, false);
    let path = world.search_path();
    both.run(client, &format!("set search_path = {path}"), Compares::Rows, false);
    let is_block = world.one_in(4);
    if is_block {
        both.quietly(client, "begin");
    }
    for _ in 0..6 {
        let question = world.question();
        let mut random = RowRandom::of_row(world.random.bits(), 0);
        both.ask(client, &question, &mut random);
        if is_block && world.one_in(3) {
            let sql = format!("set {}role {}", if world.one_in(2) { "local " } else { "" }, world.role());
            both.ask(client, &Question::alone(sql), &mut random);
        }
    }
    if is_block {
        let end = if world.one_in(2) { "rollback" } else { "commit" };
        both.run(client, end, Compares::Rows, false);
    }
}

fn one_seed(kilndb: &Server, postgres: &Server, seed: u64, questions: usize) -> Comparison {
    let mut both = Comparison {
        kilndb: Side::new("KilnDB", kilndb),
        postgres: Side::new("PostgreSQL", postgres),
        seed,
        asked: 0,
        differences: Vec::new(),
        script: Vec::new(),
    };
    let mut world = World::new(seed);
    let connect_all = |both: &mut Comparison, database: &str, user: &str| {
        for side in [&mut both.kilndb, &mut both.postgres] {
            let client = side.connect(database, user);
            side.clients.push(client);
        }
    };
    connect_all(&mut both, "postgres", "postgres");
    both.quietly(0, "create database grants_world");
    both.kilndb.clients.clear();
    both.postgres.clients.clear();
    connect_all(&mut both, "grants_world", "postgres");
    for sql in world.creation() {
        both.run(0, &sql, Compares::Rows, false);
    }
    // Grants made at random may have shut everybody out.
    both.quietly(0, "grant connect on database grants_world to public");
    for n in 1..CONNECTIONS {
        connect_all(&mut both, "grants_world", &format!("r{n}"));
    }
    while both.asked < questions && both.differences.len() < MOST_DIFFERENCES {
        turn(&mut both, &mut world);
        if world.one_in(20) {
            both.quietly(0, "reset session authorization");
            for sql in world.catalog_questions() {
                both.run(0, &sql, Compares::Rows, false);
            }
        }
    }
    both.kilndb.clients.clear();
    both.postgres.clients.clear();
    connect_all(&mut both, "postgres", "postgres");
    both.run(0, "drop database grants_world with (force)", Compares::Rows, false);
    both.run(0, &format!("drop owned by {}", world.roles.join(", ")), Compares::Rows, false);
    both.run(0, &format!("drop role {}", world.roles.join(", ")), Compares::Rows, false);
    both
}

#[test]
fn what_is_allowed_is_what_postgres_allows() {
    if let Err(e) = postgres::program("initdb").and_then(|_| postgres::program("postgres")) {
        println!("not compared: {e}");
        return;
    }
    let temp = TempDir::new("grants").expect("a folder");
    let port = process::free_port().expect("a free port");
    let kilndb = process::start_kilndb(&temp.path().join("data"), port, &[]).expect("KilnDB");
    let other_temp = TempDir::new("grants-postgres").expect("a folder");
    let port = process::free_port().expect("a free port");
    let postgres = postgres::start(other_temp.path(), port, &["fsync=off"]).expect("PostgreSQL");
    let questions = both::number("KILNDB_QUESTIONS", 500) as usize;
    let (mut asked, mut differences) = (0, 0);
    let seeds = both::seeds(3);
    for seed in seeds.clone() {
        let both = one_seed(&kilndb, &postgres, seed, questions);
        asked += both.asked;
        differences += both.differences.len();
        both.differences.iter().for_each(|difference| println!("{difference}"));
        if let Some(folder) = std::env::var_os("KILNDB_SCRIPTS") {
            let path = std::path::Path::new(&folder).join(format!("grants-{seed}.sql"));
            std::fs::write(path, both.script.join("\n")).expect("the script is written");
        }
    }
    println!("{asked} questions, {differences} differences");
    kilndb.stop().expect("an orderly end");
    assert_eq!(differences, 0, "seeds from {}", seeds.start);
}
