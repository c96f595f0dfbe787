//! `kill -9` while many sessions change definitions and rows.
//!
//! Each session has tables of its own, whose definitions it changes, and rows of its own in tables that all share, whose
//! definitions one more session changes. It knows the states that its acknowledged transactions led to. After a crash:
//!
//! 1. a session's tables, their definitions and their rows are those of one of its transactions, whole: the last one
//!    acknowledged with `synchronous_commit = on`, a later one acknowledged without, or the one in flight;
//! 2. unlogged tables are empty;
//! 3. each index leads to the rows that a scan finds, forward and backward;
//! 4. catalogs agree with each other, and `kilndb check` finds nothing.

mod model;
mod verify;

use crate::random::Random;
use kilndb_lab::client::{Client, ClientError, Connection};
use kilndb_lab::guard::KillAtEnd;
use kilndb_lab::process::{self, Server, TempDir};
use model::{
    Model, PlannedTransaction, SHARED, TransactionPlanner, create_addition, parent_name, prepare_addition, shared_name,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

pub struct DefinitionOptions {
    pub rounds: u64,
    pub sessions: usize,
    pub load_max_ms: u64,
    /// All transactions wait for the log; otherwise two in three do not.
    pub only_synchronous: bool,
    pub seed: u64,
}

#[derive(Debug, Default)]
pub struct DefinitionReport {
    pub rounds: u64,
    pub acknowledged: u64,
    pub in_doubt: u64,
    pub indexes_compared: usize,
    pub failed: u64,
}

/// A session, and what it knows: it outlives the connections that it works over.
pub struct Session {
    number: usize,
    random: Random,
    next_name: u64,
    model: Model,
    /// The states that a crash may leave, oldest first.
    possible: Vec<Model>,
    acknowledged: u64,
    failed: u64,
    in_doubt: u64,
    only_synchronous: bool,
}

pub fn run(options: &DefinitionOptions, mut progress: impl FnMut(&str)) -> Result<DefinitionReport, String> {
    let folder = TempDir::new("definitions").map_err(|e| e.to_string())?;
    let data = folder.path().join("data");
    let port = process::free_port().map_err(|e| e.to_string())?;
    let mut random = Random(options.seed | 1);
    let mut sessions: Vec<Session> = (0..options.sessions)
        .map(|number| Session::new(number, random.number() | 1, options.only_synchronous))
        .collect();
    let mut report = DefinitionReport::default();
    for round in 1..=options.rounds {
        let at = |e: String| complaint(&folder, format!("seed {} round {round}: {e}", options.seed));
        // Small ones, so that pages are evicted and checkpoints come while the load runs.
        let buffers = ["shared_buffers=1MB", "shared_buffers=4MB", "shared_buffers=32MB"][random.below(3) as usize];
        let settings = [buffers, "max_wal_size=32MB", "deadlock_timeout=50ms"];
        let server = process::start_kilndb(&data, port, &settings).map_err(|e| at(e.to_string()))?;
        if round == 1 {
            let mut client = connect(&server).map_err(|e| at(e.to_string()))?;
            load(&mut client, options.sessions).map_err(at)?;
        }
        let under_load = Duration::from_millis(100 + random.below(options.load_max_ms));
        crash(server, &mut sessions, under_load, &mut random).map_err(at)?;
        if random.one_in(4) {
            let after = Duration::from_millis(random.below(150));
            process::die_in_start(&data, port, after).map_err(|e| at(e.to_string()))?;
        }
        let server = process::start_kilndb(&data, port, &settings).map_err(|e| at(e.to_string()))?;
        let mut client = connect(&server).map_err(|e| at(e.to_string()))?;
        report.indexes_compared += verify_all(&mut client, &mut sessions).map_err(at)?;
        drop(client);
        let status = server.stop().map_err(|e| at(e.to_string()))?;
        if !status.success() {
            return Err(at(format!("a clean stop ended with {status}")));
        }
        process::check_kilndb(&data).map_err(|e| at(e.to_string()))?;
        report.rounds = round;
        report.acknowledged = sessions.iter().map(|s| s.acknowledged).sum();
        report.failed = sessions.iter().map(|s| s.failed).sum();
        report.in_doubt = sessions.iter().map(|s| s.in_doubt).sum();
        progress(&format!("round {round}: {buffers}, killed after {} ms, {report:?}", under_load.as_millis()));
    }
    Ok(report)
}

/// The message of a failure; the data stays for a post-mortem.
fn complaint(folder: &TempDir, message: String) -> String {
    let kept = folder.path().with_extension("failed");
    match std::fs::rename(folder.path(), &kept) {
        Ok(()) => format!("{message} (data kept in {})", kept.display()),
        Err(e) => format!("{message} (data not kept: {e})"),
    }
}

fn connect(server: &Server) -> Result<Client, ClientError> {
    Client::connect(server.address(), "postgres")
}

/// Makes the tables that so many sessions work on.
pub fn load(client: &mut dyn Connection, sessions: usize) -> Result<(), String> {
    let mut statements = vec![
        "set synchronous_commit = on".to_string(),
        "create table ledger (session int primary key, number bigint not null)".into(),
        format!("insert into ledger select g, 0 from generate_series(0, {}) g", sessions - 1),
        "create table quiet (id int primary key, v int)".into(),
        "insert into quiet select g, 0 from generate_series(1, 500) g".into(),
    ];
    statements.extend(
        (0..SHARED)
            .map(|n| format!("create table {} (id bigint primary key, v bigint, t text, w text)", shared_name(n))),
    );
    statements.extend((0..SHARED).map(create_addition));
    for session in 0..sessions {
        let parent = parent_name(session);
        statements.push(format!(
            "create table {parent} (id bigint primary key, v bigint, t text, w text) partition by range (id)"
        ));
        statements.push(format!("create index on {parent} (v)"));
    }
    statements.iter().try_for_each(|sql| client.query(sql).map(drop).map_err(|e| format!("{sql}: {e}")))
}

/// Load from all sessions, then `kill -9`.
fn crash(server: Server, sessions: &mut [Session], under_load: Duration, random: &mut Random) -> Result<(), String> {
    let killed = AtomicBool::new(false);
    let salt = AtomicU64::new(random.number());
    let result = std::thread::scope(|scope| {
        let (server, killed) = (&server, &killed);
        let guard = KillAtEnd { server, killed };
        let mut threads = Vec::new();
        for session in sessions {
            threads.push(scope.spawn(move || {
                let number = session.number;
                let done = connect(server).and_then(|mut client| session.work(&mut client));
                ended(done, killed).map_err(|e| format!("session {number}: {e}"))
            }));
        }
        for beside in BESIDE {
            let seed = salt.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed) | 1;
            threads.push(scope.spawn(move || {
                let done = connect(server).and_then(|mut client| beside(&mut client, &mut Random(seed)));
                ended(done, killed)
            }));
        }
        std::thread::sleep(under_load);
        drop(guard);
        // All are waited for before the first failure is told.
        let ended = threads.into_iter().map(|t| t.join().unwrap_or_else(|_| Err("a session panicked".into())));
        let outcomes: Vec<Result<(), String>> = ended.collect();
        outcomes.into_iter().collect()
    });
    server.kill().map_err(|e| e.to_string())?;
    result
}

/// After a crash: what is there is what the sessions know. Returns how many indexes were compared.
pub fn verify_all(client: &mut dyn Connection, sessions: &mut [Session]) -> Result<usize, String> {
    verify::catalogs(client)?;
    let mut compared = 0;
    for session in sessions {
        let number = verify::ledger(client, session.number)?;
        let numbers: Vec<u64> = session.possible.iter().map(|m| m.number).collect();
        let found = session.possible.iter().find(|m| m.number == number).ok_or_else(|| {
            format!("session {} is at transaction {number}, possible are {numbers:?}", session.number)
        })?;
        session.model = found.clone().after_crash();
        session.possible = vec![session.model.clone()];
        compared += verify::session(client, session.number, &session.model)
            .map_err(|e| format!("transaction {number} of {numbers:?}: {e}"))?;
    }
    Ok(compared)
}

/// Work beside that of the sessions, until the connection breaks.
pub type SideWork = fn(&mut dyn Connection, &mut Random) -> Result<(), ClientError>;
pub const BESIDE: [SideWork; 4] = [change_shared, hold_snapshots, hold_for_long, checkpoint];

/// A lost connection is what a kill looks like.
fn ended(done: Result<(), ClientError>, killed: &AtomicBool) -> Result<(), String> {
    match done {
        Err(ClientError::Io(_)) if killed.load(Ordering::SeqCst) => Ok(()),
        Err(e) => Err(e.to_string()),
        Ok(()) => Ok(()),
    }
}
/// What a session that runs beside others may meet: a deadlock, a lock that is not to be had.
fn may_happen(e: &ClientError) -> bool {
    matches!(e, ClientError::Server(e) if ["40P01", "55P03", "40001"].contains(&e.code.as_str()))
}
/// Runs the statements; true: they are done, false: they were refused and are rolled back.
fn attempt(client: &mut dyn Connection, statements: &[String]) -> Result<bool, ClientError> {
    for sql in statements {
        match client.query(sql) {
            Ok(_) => {}
            Err(e) if may_happen(&e) => {
                client.query("rollback")?;
                return Ok(false);
            }
            Err(ClientError::Server(e)) => {
                let message = format!("{} in {sql:?} of {statements:#?}", e.message);
                return Err(ClientError::Server(kilndb_lab::client::ServerError { message, ..e }));
            }
            Err(e) => return Err(e),
        }
    }
    Ok(true)
}

impl Session {
    pub fn new(number: usize, seed: u64, only_synchronous: bool) -> Session {
        let model = Model::new(number);
        Session {
            number,
            random: Random(seed),
            next_name: 0,
            possible: vec![model.clone()],
            model,
            acknowledged: 0,
            failed: 0,
            in_doubt: 0,
            only_synchronous,
        }
    }

    pub fn number(&self) -> usize {
        self.number
    }

    /// Transactions until the connection breaks.
    pub fn work(&mut self, client: &mut dyn Connection) -> Result<(), ClientError> {
        client.query("create temp table passing (id int primary key, w text)")?;
        for n in 0..SHARED {
            client.query(&prepare_addition(n))?;
        }
        loop {
            let planned =
                TransactionPlanner::new(self.number, &mut self.random, &mut self.next_name, &self.model).transaction();
            let is_synchronous = self.only_synchronous || self.random.one_in(3) || self.possible.len() > 40;
            let mode = if is_synchronous { "on" } else { "off" };
            client.query(&format!("set synchronous_commit = {mode}"))?;
            if self.random.one_in(20) {
                client.query("truncate passing; insert into passing select g, repeat('p', 200) from generate_series(1, 300) g; drop table passing; create temp table passing (id int primary key, w text)")?;
            }
            self.run(client, planned, is_synchronous)?;
        }
    }

    fn run(
        &mut self,
        client: &mut dyn Connection,
        planned: PlannedTransaction,
        is_synchronous: bool,
    ) -> Result<(), ClientError> {
        let PlannedTransaction { statements, commits, after } = planned;
        let mut statements = [vec!["begin".to_string()], statements].concat();
        let is_one_text = self.random.one_in(3);
        let last = if commits { "commit" } else { "rollback" }.to_string();
        if is_one_text {
            statements.push(last);
            statements = vec![statements.join("; ")];
        } else {
            if !attempt(client, &statements)? {
                self.failed += 1;
                return Ok(());
            }
            statements = vec![last];
        }
        if commits {
            // From here on it may come through without an answer.
            self.possible.push(after.clone());
            self.in_doubt += 1;
        }
        let is_done = attempt(client, &statements)?;
        if commits {
            self.in_doubt -= 1;
        }
        match (commits, is_done) {
            (true, true) => {
                self.acknowledged += 1;
                if is_synchronous {
                    self.possible = vec![after.clone()];
                }
                self.model = after;
            }
            (true, false) => {
                self.failed += 1;
                self.possible.pop();
            }
            (false, _) => {}
        }
        Ok(())
    }
}

/// Definitions of what others write to at the same time.
fn change_shared(client: &mut dyn Connection, random: &mut Random) -> Result<(), ClientError> {
    client.query("set lock_timeout = '300ms'")?;
    loop {
        let name = shared_name(random.below(SHARED as u64) as usize);
        let mut statements = vec!["begin".to_string()];
        for _ in 0..1 + random.below(3) {
            statements.push(match random.below(9) {
                0 => format!("alter table {name} add column if not exists x bigint not null default 3"),
                1 => format!("alter table {name} drop column if exists x"),
                2 => format!("alter table {name} alter column v type {}", ["bigint", "numeric"][random.below(2) as usize]),
                3 => format!("create index if not exists {name}_v on {name} (v)"),
                4 => format!("drop index if exists {name}_v"),
                5 => format!("alter table {name} drop constraint if exists {name}_t; alter table {name} add constraint {name}_t unique (t)"),
                6 => format!("create index if not exists {name}_partial on {name} ((v + 1)) where v % 2 = 0"),
                7 => format!("drop index if exists {name}_partial"),
                _ => format!("alter table {name} rename to {name}_away; alter table {name}_away rename to {name}"),
            });
        }
        statements.push(if random.one_in(3) { "rollback" } else { "commit" }.into());
        match attempt(client, &statements) {
            // A column keeps its type while the partial index is there.
            Err(ClientError::Server(e)) if e.code == "0A000" => client.query("rollback").map(drop)?,
            done => _ = done?,
        }
        client.pause(Duration::from_millis(random.below(30)));
    }
}

/// A snapshot sees the same when it looks again.
fn hold_snapshots(client: &mut dyn Connection, random: &mut Random) -> Result<(), ClientError> {
    client.query("set lock_timeout = '2s'")?;
    let sql: Vec<String> = (0..SHARED)
        .map(|n| format!("select count(*), coalesce(sum(v), 0), coalesce(sum(length(w)), 0), coalesce(sum(hashtext(t)), 0) from {}", shared_name(n)))
        .collect();
    loop {
        if !attempt(client, &["begin isolation level repeatable read".into(), sql.join("; ")])? {
            continue;
        }
        let first = client.query(&sql.join("; "))?;
        for _ in 0..1 + random.below(5) {
            client.pause(Duration::from_millis(random.below(60)));
            let again = client.query(&sql.join("; "))?;
            assert!(
                first.iter().zip(&again).all(|(a, b)| a.rows == b.rows),
                "a snapshot has changed: {first:?}, then {again:?}"
            );
        }
        client.query("commit")?;
    }
}

/// Versions are needed as long as it lives, and nobody waits for it.
fn hold_for_long(client: &mut dyn Connection, _: &mut Random) -> Result<(), ClientError> {
    let sql = "select count(*) + 1000 * sum(v) from quiet";
    client.query("begin isolation level repeatable read")?;
    let first = client.integer(sql)?;
    loop {
        assert_eq!(client.integer(sql)?, first, "an old snapshot has changed");
        client.pause(Duration::from_millis(50));
    }
}

/// Checkpoints, and changes that the old snapshot must not see.
fn checkpoint(client: &mut dyn Connection, random: &mut Random) -> Result<(), ClientError> {
    loop {
        for _ in 0..random.below(20) {
            client.pause(Duration::from_millis(random.below(40)));
            let from = random.below(500);
            client.query(&format!("update quiet set v = v + 1 where id between {from} and {from} + 20"))?;
        }
        client.query("checkpoint")?;
    }
}
