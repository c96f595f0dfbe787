//! A role without a privilege tries every way to what the privilege protects: refused before anybody has planned the
//! statement, allowed with the privilege, refused again when it has been taken back and plans are kept everywhere.
//!
//! Each answer must also be PostgreSQL's: SQLSTATE, message, detail. Without a PostgreSQL 18 at hand only what is asked
//! of KilnDB alone is checked.
//!
//! Invariants
//! 1. What an attempt changes is rolled back; what it is made with (prepared statements, routines, views) stays, with
//!    its plans, in one session.

mod owners;
mod secrets;

use kilndb_lab::client::{Address, Client, ClientError};
use kilndb_lab::postgres;
use kilndb_lab::process::{self, Server, TempDir};
use secrets::{Asks, SECRETS, Secret, WORLD};

/// A statement in one of the ways that there are to run it.
struct Attempt {
    /// What the thief makes once, as soon as that is allowed.
    made_by: Option<String>,
    run: String,
    /// By Parse, Bind and Execute.
    is_extended: bool,
}

impl Attempt {
    fn plain(run: String) -> Attempt {
        Attempt { made_by: None, run, is_extended: false }
    }
    fn made(made_by: String, run: String) -> Attempt {
        Attempt { made_by: Some(made_by), run, is_extended: false }
    }
}

/// Every way to run a query or a change of rows.
fn ways_of_query(n: usize, sql: &str, asks: Asks) -> Vec<Attempt> {
    let first = sql.split(' ').next().unwrap_or_default();
    let is_select = matches!(first, "select" | "table" | "with");
    let name = format!("way_{n}");
    let mut ways = ways_of_command(n, sql);
    ways.push(Attempt::made(format!("prepare {name} as {sql}"), format!("execute {name}")));
    if asks != Asks::WhileRunning {
        ways.push(Attempt::plain(format!("explain {sql}")));
        ways.push(Attempt::made(format!("prepare {name}e as {sql}"), format!("explain execute {name}e")));
    }
    ways.push(Attempt::plain(format!("explain (analyze, costs off) {sql}")));
    ways.push(Attempt::made(
        format!("create function den.{name}_sql() returns void language sql as $f$ {sql} $f$"),
        format!("select den.{name}_sql()"),
    ));
    ways.push(Attempt::made(
        format!(
            "create function den.{name}_caught() returns text language plpgsql as $f$ begin {}; return 'done'; \
             exception when others then raise; end $f$",
            if is_select { format!("perform q::text from ({sql}) q") } else { sql.to_string() }
        ),
        format!("select den.{name}_caught()"),
    ));
    if is_select {
        ways.push(Attempt::plain(format!("with q as materialized ({sql}) select q::text from q")));
        ways.push(Attempt::plain(format!("select q::text from ({sql}) q")));
        ways.push(Attempt::plain(format!("select array(select q::text from ({sql}) q)")));
        ways.push(Attempt::plain(format!("copy ({sql}) to stdout")));
        ways.push(Attempt::plain(format!("declare c cursor for {sql}; fetch all from c")));
        ways.push(Attempt::plain(format!("declare c scroll cursor with hold for {sql}; fetch all from c")));
        ways.push(Attempt::plain(format!("insert into den.own select length(q::text) from ({sql}) q")));
        ways.push(Attempt::plain(format!("create table den.{name}_copy as select q::text as row from ({sql}) q")));
        if asks != Asks::AtParsing {
            ways.push(Attempt::made(
                format!("create view den.{name}_view as select q::text as row from ({sql}) q"),
                format!("select * from den.{name}_view"),
            ));
            ways.push(Attempt::made(
                format!(
                    "create materialized view den.{name}_kept as select q::text as row from ({sql}) q with no data"
                ),
                format!("refresh materialized view den.{name}_kept"),
            ));
        }
        ways.push(Attempt::made(
            format!(
                "create function den.{name}_loop() returns setof record language plpgsql as \
                 $f$ begin return query select q::text from ({sql}) q; end $f$"
            ),
            format!("select * from den.{name}_loop() as (row text)"),
        ));
        ways.push(Attempt::made(
            format!(
                "create function den.{name}_trigger() returns trigger language plpgsql as \
                 $f$ begin perform q::text from ({sql}) q; return new; end $f$; create table den.{name}_table (a int); \
                 create trigger t before insert on den.{name}_table for each row execute function den.{name}_trigger()"
            ),
            format!("insert into den.{name}_table values (1)"),
        ));
    }
    ways
}

/// Every way to run any other statement.
fn ways_of_command(n: usize, sql: &str) -> Vec<Attempt> {
    let mut ways = vec![Attempt::plain(sql.to_string())];
    // After Execute the client would owe a Sync that comes behind its data.
    if sql.ends_with("from stdin") {
        return ways;
    }
    ways.push(Attempt { is_extended: true, ..Attempt::plain(sql.to_string()) });
    let is_copied = sql.starts_with("copy ");
    let is_top_level = sql.starts_with("select ") && sql.contains(" into ");
    if is_copied || is_top_level {
        return ways;
    }
    ways.push(Attempt::plain(format!("do $do$ begin execute $q${sql}$q$; end $do$")));
    let is_select = matches!(sql.split(' ').next(), Some("select" | "table" | "with"));
    if !is_select {
        ways.push(Attempt::made(
            format!("create procedure den.way_{n}_call() language plpgsql as $f$ begin {sql}; end $f$"),
            format!("call den.way_{n}_call()"),
        ));
    }
    ways
}

/// A server, with the thief's session and a superuser's.
struct Side {
    superuser: Client,
    thief: Client,
}

impl Side {
    fn new(server: &Server) -> Side {
        let connect = |user: &str| {
            let address = Address { user: user.into(), ..server.address().clone() };
            Client::connect(&address, "vault").unwrap_or_else(|e| panic!("{user} connects: {e}"))
        };
        let mut first = Client::connect(server.address(), "postgres").expect("a connection");
        first.query("create database vault").expect("a database");
        let mut superuser = connect("postgres");
        run(&mut superuser, WORLD);
        let thief = connect("esc_thief");
        Side { superuser, thief }
    }

    /// What the thief is told, in a transaction that is taken back.
    fn attempt(&mut self, attempt: &Attempt) -> String {
        let thief = &mut self.thief;
        run(thief, "begin");
        let answer = match attempt.is_extended {
            false => thief.query(&attempt.run),
            true => thief.prepare("", &attempt.run).and_then(|()| thief.execute("", &[])),
        };
        let told = told(&attempt.run, answer.map(|_| String::new()));
        run(thief, "rollback");
        told
    }

    fn make(&mut self, sql: &str) -> String {
        told(sql, self.thief.query(sql).map(|_| String::new()))
    }
}

fn run(client: &mut Client, sql: &str) {
    client.query(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
}

fn told(sql: &str, answer: Result<String, ClientError>) -> String {
    match answer {
        Ok(text) => text,
        Err(ClientError::Server(e)) => {
            format!("{} {}{}", e.code, e.message, e.detail.map(|d| format!(" ({d})")).unwrap_or_default())
        }
        Err(e) => panic!("{sql}: {e}"),
    }
}

/// Both servers, and what is not as it should be.
struct Heist {
    kilndb: Side,
    postgres: Option<Side>,
    asked: usize,
    wrong: Vec<String>,
}

const REFUSED: &str = "42501 ";

impl Heist {
    fn both(&mut self, ask: impl Fn(&mut Side) -> String, what: &str) -> String {
        let found = ask(&mut self.kilndb);
        self.asked += 1;
        if let Some(postgres) = &mut self.postgres {
            let expected = ask(postgres);
            // What is not there for anybody need not be refused as to somebody.
            if expected != found && !(found.starts_with("0A000 ") && found.contains("not supported")) {
                self.wrong.push(format!("{what}\n  PostgreSQL: {expected}\n  KilnDB:     {found}"));
            }
        }
        found
    }

    fn as_superuser(&mut self, sql: &str) {
        for side in [Some(&mut self.kilndb), self.postgres.as_mut()].into_iter().flatten() {
            run(&mut side.superuser, sql);
        }
    }

    /// All attempts once. `is_allowed`: none may be refused, otherwise each must be.
    fn try_all(&mut self, attempts: &[(Attempt, bool)], made: &mut [bool], (when, is_allowed): (&str, bool)) {
        for (n, (attempt, is_beyond)) in attempts.iter().enumerate() {
            if let (Some(sql), false) = (&attempt.made_by, made[n]) {
                let answer = self.both(|side| side.make(sql), &format!("{when}: {sql}"));
                made[n] = answer.is_empty();
                if !made[n] {
                    if is_allowed && !is_beyond || !answer.starts_with(REFUSED) {
                        self.wrong.push(format!("{when}: {sql}\n  cannot be made: {answer}"));
                    }
                    continue;
                }
            }
            let answer = self.both(|side| side.attempt(attempt), &format!("{when}: {}", attempt.run));
            if answer.starts_with(REFUSED) == (is_allowed && !is_beyond) {
                self.wrong.push(format!("{when}: {}\n  is told: {answer}", attempt.run));
            }
        }
    }

    fn try_secret(&mut self, secret: &Secret, first: usize) -> usize {
        let mut attempts = Vec::new();
        for sql in secret.queries {
            attempts
                .extend(ways_of_query(first + attempts.len(), sql, secret.asks).into_iter().map(|way| (way, false)));
        }
        for sql in secret.commands {
            attempts.extend(ways_of_command(first + attempts.len(), sql).into_iter().map(|way| (way, false)));
        }
        for sql in secret.beyond {
            attempts.push((Attempt::plain(sql.to_string()), true));
        }
        let mut made = vec![false; attempts.len()];
        let name = secret.name;
        self.as_superuser(secret.revoke);
        self.try_all(&attempts, &mut made, (&format!("without {name}"), false));
        self.as_superuser(secret.grant);
        for _ in 0..3 {
            self.try_all(&attempts, &mut made, (&format!("with {name}"), true));
        }
        self.as_superuser(secret.revoke);
        self.try_all(&attempts, &mut made, (&format!("without {name} any more"), false));
        first + attempts.len()
    }
}

fn heist(temps: &[TempDir; 2]) -> (Heist, Vec<Server>) {
    let port = process::free_port().expect("a free port");
    let kilndb = process::start_kilndb(&temps[0].path().join("data"), port, &[]).expect("KilnDB");
    let mut servers = vec![kilndb];
    if postgres::program("initdb").and_then(|_| postgres::program("postgres")).is_ok() {
        let port = process::free_port().expect("a free port");
        servers.push(postgres::start(temps[1].path(), port, &["fsync=off"]).expect("PostgreSQL"));
    } else {
        println!("not compared: no server of PostgreSQL {} (scripts/setup.sh postgres)", postgres::MAJOR);
    }
    let kilndb = Side::new(&servers[0]);
    let postgres = servers.get(1).map(Side::new);
    (Heist { kilndb, postgres, asked: 0, wrong: Vec::new() }, servers)
}

fn folders(name: &str) -> [TempDir; 2] {
    [TempDir::new(name).expect("a folder"), TempDir::new(&format!("{name}-postgres")).expect("a folder")]
}

fn end(heist: Heist, servers: Vec<Server>) {
    let Heist { kilndb, postgres, asked, wrong } = heist;
    drop((kilndb, postgres));
    println!("{asked} attempts, {} not as they should be", wrong.len());
    for server in servers {
        server.stop().expect("an orderly end");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn privileges_are_wanted_whichever_way_a_statement_runs() {
    let temps = folders("escalation");
    let (mut heist, servers) = heist(&temps);
    let mut first = 0;
    for secret in SECRETS {
        first = heist.try_secret(secret, first);
        heist.as_superuser("grant usage on language plpgsql to public");
    }
    end(heist, servers);
}

#[test]
fn owners_and_superusers_alone_do_what_is_theirs() {
    let temps = folders("escalation-owners");
    let (mut heist, servers) = heist(&temps);
    let owner_only = Secret {
        name: "membership in the owner's role",
        grant: "grant esc_owner to esc_thief",
        revoke: "revoke esc_owner from esc_thief",
        asks: Asks::AtTheStart,
        queries: &[],
        commands: owners::OF_OWNER,
        beyond: &[],
    };
    let first = heist.try_secret(&owner_only, 0);
    for (n, sql) in owners::OF_SUPERUSERS.iter().enumerate() {
        for attempt in ways_of_command(first + n, sql) {
            if let Some(made_by) = &attempt.made_by {
                heist.both(|side| side.make(made_by), made_by);
            }
            let answer = heist.both(|side| side.attempt(&attempt), &attempt.run);
            if answer.is_empty() {
                heist.wrong.push(format!("{}\n  is allowed", attempt.run));
            }
        }
    }
    end(heist, servers);
}

#[test]
fn nothing_is_learnt_of_what_may_not_be_read() {
    let temps = folders("escalation-hidden");
    let (mut heist, servers) = heist(&temps);
    heist.as_superuser("prepare secret as select 'secret'; select 'secret'");
    for (sql, expected) in owners::HIDDEN {
        let ask = |side: &mut Side| {
            let value = side.thief.value(sql);
            told(sql, value.map(|value| value.unwrap_or_else(|| "NULL".into())))
        };
        let answer = heist.both(ask, sql);
        if answer != *expected {
            heist.wrong.push(format!("{sql}\n  says {answer}, not {expected}"));
        }
    }
    heist.as_superuser("grant insert, update on vault.t, vault.parted to esc_thief");
    for (sql, code) in owners::BLIND {
        for attempt in ways_of_command(0, sql).into_iter().filter(|attempt| attempt.made_by.is_none()) {
            let answer = heist.both(|side| side.attempt(&attempt), &attempt.run);
            if !answer.starts_with(code) || answer.contains("ten") || answer.contains("twenty") {
                heist.wrong.push(format!("{}\n  is told: {answer}", attempt.run));
            }
        }
    }
    end(heist, servers);
}
