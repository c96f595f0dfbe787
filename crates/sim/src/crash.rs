//! `kill -9` under load, again and again.
//!
//! Every client numbers its transactions and writes the number into its row of `ledger` and into `history`, within the
//! transaction itself. After a crash:
//!
//! 1. what a client saw committed is there: its ledger row is at least as far as the last acknowledged number, and at
//!    most one further (the one in flight);
//! 2. `history` holds each number up to the ledger's exactly once;
//! 3. the sums of accounts, tellers, branches and history agree;
//! 4. `kilndb check` finds nothing.

use crate::random::Random;
use kilndb_lab::client::{Client, ClientError};
use kilndb_lab::process::{self, Server, TempDir};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const BRANCHES: u64 = 4;
const TELLERS: u64 = 10 * BRANCHES;
const ACCOUNTS: u64 = 1000 * BRANCHES;

pub struct CrashOptions {
    pub rounds: usize,
    pub clients: usize,
    /// Longest time under load before the kill.
    pub load_max_ms: u64,
    pub seed: u64,
}

#[derive(Debug, Default)]
pub struct CrashReport {
    pub rounds: usize,
    pub acknowledged: i64,
    pub longest_start_ms: u128,
}

struct CrashBench {
    data: PathBuf,
    port: u16,
    /// The last number each client saw acknowledged.
    acknowledged: Vec<AtomicI64>,
}

pub fn run(options: &CrashOptions, mut progress: impl FnMut(&str)) -> Result<CrashReport, String> {
    let folder = TempDir::new("crash").map_err(|e| e.to_string())?;
    let bench = CrashBench {
        data: folder.path().join("data"),
        port: process::free_port().map_err(|e| e.to_string())?,
        acknowledged: (0..options.clients).map(|_| AtomicI64::new(0)).collect(),
    };
    let mut random = Random(options.seed | 1);
    let mut report = CrashReport::default();
    let mut server = bench.start(&mut report)?;
    bench.load(&server)?;
    for round in 1..=options.rounds {
        let under_load = Duration::from_millis(50 + random.below(options.load_max_ms));
        let seed = random.number();
        let done = bench.crash(server, under_load, seed);
        // One round in four dies a second time while it recovers.
        if random.below(4) == 0 {
            let after = Duration::from_millis(random.below(150));
            process::die_in_start(&bench.data, bench.port, after).map_err(|e| e.to_string())?;
        }
        server = bench.start(&mut report)?;
        bench.verify(&server).map_err(|e| bench.complaint(round, &e, &folder))?;
        let status = server.stop().map_err(|e| e.to_string())?;
        if !status.success() {
            return Err(format!("round {round}: a clean stop ended with {status}"));
        }
        process::check_kilndb(&bench.data).map_err(|e| bench.complaint(round, &e.to_string(), &folder))?;
        done.map_err(|e| format!("round {round}: {e}"))?;
        server = bench.start(&mut report)?;
        report.rounds = round;
        report.acknowledged = bench.acknowledged.iter().map(|a| a.load(Ordering::SeqCst)).sum();
        progress(&format!(
            "round {round}: killed after {} ms, {} transactions so far",
            under_load.as_millis(),
            report.acknowledged
        ));
    }
    Ok(report)
}

impl CrashBench {
    fn start(&self, report: &mut CrashReport) -> Result<Server, String> {
        let began = Instant::now();
        // Small, so that pages are evicted and checkpoints run while the load does.
        let server =
            process::start_kilndb(&self.data, self.port, &["shared_buffers=16MB"]).map_err(|e| e.to_string())?;
        report.longest_start_ms = report.longest_start_ms.max(began.elapsed().as_millis());
        Ok(server)
    }

    /// The message of a failure; the data stays for a post-mortem.
    fn complaint(&self, round: usize, message: &str, folder: &TempDir) -> String {
        let kept = std::env::temp_dir().join(format!("kilndb-crash-failed-{}", std::process::id()));
        let kept = match std::fs::rename(folder.path(), &kept) {
            Ok(()) => format!("data kept in {}", kept.display()),
            Err(e) => format!("data not kept: {e}"),
        };
        format!("round {round}: {message} ({kept})")
    }

    fn load(&self, server: &Server) -> Result<(), String> {
        let mut client = connect(server)?;
        let clients = self.acknowledged.len();
        for sql in [
            "create table branches (bid int primary key, bbalance bigint not null)".to_string(),
            "create table tellers (tid int primary key, bid int, tbalance bigint not null)".into(),
            "create table accounts (aid int primary key, bid int, abalance bigint not null, filler char(84))".into(),
            "create table history (tid int, bid int, aid int, delta int, client int, number bigint, mtime timestamp)"
                .into(),
            "create table ledger (client int primary key, number bigint not null)".into(),
            format!("insert into branches select g, 0 from generate_series(1, {BRANCHES}) g"),
            format!("insert into tellers select g, g % {BRANCHES} + 1, 0 from generate_series(1, {TELLERS}) g"),
            format!("insert into accounts select g, g % {BRANCHES} + 1, 0, '' from generate_series(1, {ACCOUNTS}) g"),
            format!("insert into ledger select g, 0 from generate_series(0, {}) g", clients - 1),
        ] {
            client.query(&sql).map_err(|e| format!("{sql}: {e}"))?;
        }
        Ok(())
    }

    /// Load from all clients, then `kill -9`. An error is one that a client saw before the kill.
    fn crash(&self, server: Server, under_load: Duration, seed: u64) -> Result<(), String> {
        let killed = AtomicBool::new(false);
        let salt = AtomicU64::new(seed);
        let address = server.address().clone();
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (number, acknowledged) in self.acknowledged.iter().enumerate() {
                let (address, killed, salt) = (&address, &killed, &salt);
                threads.push(scope.spawn(move || {
                    let seed = salt.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed) | 1;
                    let done = Client::connect(address, "postgres")
                        .and_then(|mut client| work(&mut client, number, acknowledged, &mut Random(seed)));
                    ended(done, killed).map_err(|e| format!("client {number}: {e}"))
                }));
            }
            threads.push(scope.spawn(|| ended(maintain(&address), &killed)));
            std::thread::sleep(under_load);
            killed.store(true, Ordering::SeqCst);
            let mut result = server.kill().map_err(|e| e.to_string());
            for thread in threads {
                let done = thread.join().unwrap_or_else(|_| Err("a client panicked".into()));
                result = result.and(done);
            }
            result
        })
    }

    fn verify(&self, server: &Server) -> Result<(), String> {
        let mut client = connect(server)?;
        let mut ask = |sql: &str| client.integer(sql).map_err(|e| format!("{sql}: {e}"));
        let accounts = ask("select sum(abalance)::bigint from accounts")?;
        let tellers = ask("select sum(tbalance)::bigint from tellers")?;
        let branches = ask("select sum(bbalance)::bigint from branches")?;
        let history = ask("select coalesce(sum(delta), 0)::bigint from history")?;
        if accounts != tellers || accounts != branches || accounts != history {
            return Err(format!(
                "sums differ: accounts {accounts}, tellers {tellers}, branches {branches}, history {history}"
            ));
        }
        for (number, acknowledged) in self.acknowledged.iter().enumerate() {
            let seen = acknowledged.load(Ordering::SeqCst);
            let ledger = ask(&format!("select number from ledger where client = {number}"))?;
            if ledger != seen && ledger != seen + 1 {
                return Err(format!("client {number} saw {seen} acknowledged, the ledger says {ledger}"));
            }
            let rows = ask(&format!("select count(*) from history where client = {number}"))?;
            let distinct = ask(&format!("select count(distinct number) from history where client = {number}"))?;
            let highest = ask(&format!("select coalesce(max(number), 0) from history where client = {number}"))?;
            if [rows, distinct, highest] != [ledger; 3] {
                return Err(format!(
                    "client {number}: ledger {ledger}, history has {rows} rows, {distinct} numbers up to {highest}"
                ));
            }
            // The next round goes on from here.
            acknowledged.store(ledger, Ordering::SeqCst);
        }
        Ok(())
    }
}

fn connect(server: &Server) -> Result<Client, String> {
    Client::connect(server.address(), "postgres").map_err(|e| e.to_string())
}

/// A lost connection is what a kill looks like; before it, and any error of the server, is a failure.
fn ended(done: Result<(), ClientError>, killed: &AtomicBool) -> Result<(), String> {
    match done {
        Err(ClientError::Io(_)) if killed.load(Ordering::SeqCst) => Ok(()),
        Err(e) => Err(e.to_string()),
        Ok(()) => Ok(()),
    }
}

/// Runs one client's transactions until the connection breaks.
fn work(client: &mut Client, number: usize, acknowledged: &AtomicI64, random: &mut Random) -> Result<(), ClientError> {
    loop {
        let next = acknowledged.load(Ordering::SeqCst) + 1;
        let (account, teller, branch) =
            (random.below(ACCOUNTS) + 1, random.below(TELLERS) + 1, random.below(BRANCHES) + 1);
        let delta = random.below(10_001) as i64 - 5_000;
        let statements = [
            "begin".to_string(),
            format!("update accounts set abalance = abalance + {delta} where aid = {account}"),
            format!("select abalance from accounts where aid = {account}"),
            format!("update tellers set tbalance = tbalance + {delta} where tid = {teller}"),
            format!("update branches set bbalance = bbalance + {delta} where bid = {branch}"),
            format!(
                "insert into history values ({teller}, {branch}, {account}, {delta}, {number}, {next}, now()::timestamp)"
            ),
            format!("update ledger set number = {next} where client = {number}"),
        ];
        // One in ten is given up; half go as one text, half statement by statement.
        let given_up = random.below(10) == 0;
        let last = if given_up { "rollback" } else { "commit" };
        if random.below(2) == 0 {
            client.query(&format!("{}; {last}", statements.join("; ")))?;
        } else {
            for statement in &statements {
                client.query(statement)?;
            }
            client.query(last)?;
        }
        if !given_up {
            acknowledged.store(next, Ordering::SeqCst);
        }
    }
}

/// Checkpoints, and relations that come and go, beside the load.
fn maintain(address: &kilndb_lab::client::Address) -> Result<(), ClientError> {
    let mut client = Client::connect(address, "postgres")?;
    loop {
        client.query("drop table if exists passing")?;
        client.query("create table passing (a int primary key, b text)")?;
        client.query("insert into passing select g, repeat('x', 50) from generate_series(1, 500) g")?;
        client.query("create index on passing (b, a)")?;
        client.query("checkpoint")?;
        std::thread::sleep(Duration::from_millis(50));
    }
}
