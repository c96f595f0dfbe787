//! `kill -9` beside sessions that draw from sequences, set them and start them anew.
//!
//! 1. A number that a session was told of does not come again: while the server lives, whatever became of the
//!    transaction; after a crash, if a transaction that was acknowledged later rests on it.
//! 2. A sequence that one session alone draws from goes on where it was, no more than 32 numbers later; what setval(),
//!    RESTART and TRUNCATE … RESTART IDENTITY were acknowledged to have done stays done.

use crate::random::Random;
use kilndb_lab::client::{Client, ClientError};
use kilndb_lab::guard::KillAtEnd;
use kilndb_lab::process::{self, Server, TempDir};
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Numbers that a crash may leave out.
const AHEAD: usize = 32;
/// Sequences that all draw from; their numbers never come again.
const COMMON: [&str; 5] = ["plain", "cached", "descending", "many_id_seq", "filled_id_seq"];

pub struct SequenceOptions {
    pub rounds: u64,
    pub sessions: usize,
    pub load_max_ms: u64,
    pub seed: u64,
}

#[derive(Debug, Default)]
pub struct SequenceReport {
    pub rounds: u64,
    pub told: usize,
    pub own_steps: u64,
}

/// A sequence as its only user knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct SequenceState {
    last: i64,
    is_called: bool,
    increment: i64,
    max: i64,
}
impl SequenceState {
    /// The state after one more number; behind its end the sequence goes on from 1.
    fn next(self) -> SequenceState {
        let next = if !self.is_called { self.last } else { self.last + self.increment };
        SequenceState { last: if next > self.max { 1 } else { next }, is_called: true, ..self }
    }
    /// Is it told by this number, drawn after a crash?
    fn after_crash(self, number: i64) -> Option<SequenceState> {
        let mut state = self;
        (0..=AHEAD).find_map(|_| {
            state = state.next();
            (state.last == number).then_some(state)
        })
    }
}

/// Numbers of one common sequence.
#[derive(Default)]
struct DrawnNumbers {
    /// All in this life of the server, and those before that must not come again.
    all: HashSet<i64>,
    durable: HashSet<i64>,
}

struct Session {
    number: usize,
    random: Random,
    /// The states of the session's own sequence that a crash may leave, the last one being what holds now.
    own: Vec<SequenceState>,
    /// The identity column of its own table, likewise.
    identity: Vec<SequenceState>,
    /// Told since its last acknowledged transaction: (sequence, number).
    pending: Vec<(usize, i64)>,
    steps: u64,
}

struct SequenceBench {
    told: [Mutex<DrawnNumbers>; COMMON.len()],
    killed: AtomicBool,
}
type ClientResult = Result<(), ClientError>;

pub fn run(options: &SequenceOptions, mut progress: impl FnMut(&str)) -> Result<SequenceReport, String> {
    let folder = TempDir::new("sequences").map_err(|e| e.to_string())?;
    let data = folder.path().join("data");
    let port = process::free_port().map_err(|e| e.to_string())?;
    let mut random = Random(options.seed | 1);
    let mut sessions: Vec<Session> =
        (0..options.sessions).map(|number| Session::new(number, random.number() | 1)).collect();
    let bench = SequenceBench { told: Default::default(), killed: AtomicBool::new(false) };
    let mut report = SequenceReport::default();
    for round in 0..=options.rounds {
        let at = |e: String| format!("seed {} round {round}: {e}", options.seed);
        let buffers = ["shared_buffers=1MB", "shared_buffers=2MB", "shared_buffers=16MB"][random.below(3) as usize];
        let settings = [buffers, "max_wal_size=32MB"];
        let server = process::start_kilndb(&data, port, &settings).map_err(|e| at(e.to_string()))?;
        if round == 0 {
            load(&server, options.sessions).map_err(at)?;
        } else {
            sessions.iter_mut().try_for_each(|s| s.compare(&server)).map_err(at)?;
        }
        if round == options.rounds {
            let status = server.stop().map_err(|e| at(e.to_string()))?;
            if !status.success() {
                return Err(at(format!("a clean stop ended with {status}")));
            }
            process::check_kilndb(&data).map_err(|e| at(e.to_string()))?;
            break;
        }
        bench.crash(server, &mut sessions, 50 + random.below(options.load_max_ms)).map_err(at)?;
        if random.one_in(4) {
            let after = Duration::from_millis(random.below(150));
            process::die_in_start(&data, port, after).map_err(|e| at(e.to_string()))?;
        }
        report.rounds = round + 1;
        report.told = bench.told.iter().map(|t| lock(t).durable.len()).sum();
        report.own_steps = sessions.iter().map(|s| s.steps).sum();
        progress(&format!("round {}: {buffers}, {report:?}", round + 1));
    }
    Ok(report)
}

fn lock(told: &Mutex<DrawnNumbers>) -> std::sync::MutexGuard<'_, DrawnNumbers> {
    told.lock().unwrap_or_else(|e| e.into_inner())
}
fn connect(server: &Server) -> Result<Client, ClientError> {
    Client::connect(server.address(), "postgres")
}
fn load(server: &Server, sessions: usize) -> Result<(), String> {
    let mut client = connect(server).map_err(|e| e.to_string())?;
    let mut statements: Vec<String> = [
        "set synchronous_commit = on",
        "create sequence plain",
        "create sequence cached cache 7",
        "create sequence descending increment by -3",
        "create table many (id bigserial primary key, t text)",
        "create table filled (id bigint generated always as identity (cache 5) primary key, t text)",
        "create table load (id int primary key, t text)",
        "insert into load select g, repeat('x', 900) from generate_series(1, 3000) g",
    ]
    .map(String::from)
    .into();
    for n in 0..sessions {
        statements.push(format!("create sequence own_{n} maxvalue 5000 cycle"));
        statements.push(format!(
            "create table items_{n} (id bigint generated by default as identity (maxvalue 5000 cycle), t text)"
        ));
    }
    statements.iter().try_for_each(|sql| client.query(sql).map(drop).map_err(|e| format!("{sql}: {e}")))
}

impl SequenceBench {
    fn crash(&self, server: Server, sessions: &mut [Session], under_load_ms: u64) -> Result<(), String> {
        self.killed.store(false, Ordering::SeqCst);
        let result = std::thread::scope(|scope| {
            let guard = KillAtEnd { server: &server, killed: &self.killed };
            let server = &server;
            let mut threads = vec![scope.spawn(move || self.ended(evict(server)))];
            for session in sessions {
                threads.push(scope.spawn(move || {
                    let done = connect(server).and_then(|mut client| session.work(&mut client, self));
                    self.ended(done)
                }));
            }
            std::thread::sleep(Duration::from_millis(under_load_ms));
            drop(guard);
            // All are waited for before the first failure is told.
            let ended = threads.into_iter().map(|t| t.join().unwrap_or_else(|_| Err("a session failed".into())));
            let outcomes: Vec<Result<(), String>> = ended.collect();
            outcomes.into_iter().collect()
        });
        server.kill().map_err(|e| e.to_string())?;
        // What nothing acknowledged rests on may come again.
        for told in &self.told {
            let mut told = lock(told);
            told.all = told.durable.clone();
        }
        result
    }
    fn ended(&self, done: ClientResult) -> Result<(), String> {
        match done {
            Err(ClientError::Io(_)) if self.killed.load(Ordering::SeqCst) => Ok(()),
            Err(e) => Err(e.to_string()),
            Ok(()) => Ok(()),
        }
    }
}

/// Other work needs the buffers; checkpoints.
fn evict(server: &Server) -> ClientResult {
    let mut client = connect(server)?;
    for turn in 0.. {
        client.query(&format!("update load set t = repeat(chr(97 + {turn} % 26), 900) where id % 5 = {turn} % 5"))?;
        if turn % 3 == 0 {
            client.query("checkpoint")?;
        }
    }
    Ok(())
}

impl Session {
    fn new(number: usize, seed: u64) -> Session {
        let start = SequenceState { last: 1, is_called: false, increment: 1, max: 5000 };
        Session { number, random: Random(seed), own: vec![start], identity: vec![start], pending: Vec::new(), steps: 0 }
    }
    fn now(&self) -> SequenceState {
        self.own[self.own.len() - 1]
    }

    /// After a crash: the sequences go on from one of the states that they may be in.
    fn compare(&mut self, server: &Server) -> Result<(), String> {
        let mut client = connect(server).map_err(|e| e.to_string())?;
        client.query("set synchronous_commit = on").map_err(|e| e.to_string())?;
        let n = self.number;
        for (states, sql) in [
            (&mut self.own, format!("select nextval('own_{n}')")),
            (&mut self.identity, format!("insert into items_{n} values (default, 'after') returning id")),
        ] {
            // Several numbers, lest one fits two states that differ in their increments.
            for draw in 0..3 {
                let number = client.integer(&sql).map_err(|e| format!("{sql}: {e}"))?;
                let goes_on = |state: &SequenceState| match draw {
                    0 => state.after_crash(number),
                    _ => Some(state.next()).filter(|next| next.last == number),
                };
                let found: Vec<SequenceState> = states.iter().filter_map(goes_on).collect();
                if found.is_empty() {
                    return Err(format!("{sql} gives {number}; it was at one of {states:?}"));
                }
                *states = found;
            }
            states.dedup();
            states.drain(..states.len() - 1);
        }
        self.pending.clear();
        Ok(())
    }

    fn work(&mut self, client: &mut Client, bench: &SequenceBench) -> ClientResult {
        client.query("set synchronous_commit = on")?;
        // What the session before had cached is lost with it; nobody minds.
        loop {
            self.steps += 1;
            match self.random.below(3) {
                0 => self.draw(client, bench)?,
                1 => self.use_own(client)?,
                _ => self.use_identity(client)?,
            }
        }
    }

    /// Whatever was done is durable: the transaction has been acknowledged, and has written.
    fn acknowledged(&mut self, bench: &SequenceBench) {
        for (sequence, number) in self.pending.drain(..) {
            lock(&bench.told[sequence]).durable.insert(number);
        }
    }
    fn draw(&mut self, client: &mut Client, bench: &SequenceBench) -> ClientResult {
        let is_alone = self.random.one_in(2);
        let is_given_up = !is_alone && self.random.one_in(3);
        if !is_alone {
            client.query("begin")?;
        }
        for _ in 0..if is_alone { 1 } else { 1 + self.random.below(5) } {
            let sequence = self.random.below(COMMON.len() as u64) as usize;
            let number = client.integer(&match COMMON[sequence] {
                "many_id_seq" => "insert into many (t) values ('many') returning id".to_string(),
                "filled_id_seq" => "insert into filled (t) values ('filled') returning id".to_string(),
                name => format!("select nextval('{name}')"),
            })?;
            let is_new = lock(&bench.told[sequence]).all.insert(number);
            assert!(is_new, "{} gives {number} again", COMMON[sequence]);
            self.pending.push((sequence, number));
        }
        if is_given_up {
            return client.query("rollback").map(drop);
        }
        if !is_alone {
            client.query("commit")?;
        }
        self.acknowledged(bench);
        Ok(())
    }

    fn use_own(&mut self, client: &mut Client) -> ClientResult {
        let name = format!("own_{}", self.number);
        let in_block = self.random.one_in(2);
        let commits = self.random.one_in(2);
        let restarts = in_block && self.random.one_in(4);
        let before = self.now();
        if in_block {
            client.query("begin")?;
        }
        if restarts {
            self.restart(client, &name)?;
        }
        for _ in 0..1 + self.random.below(4) {
            match self.random.below(6) {
                0 => {
                    let (value, is_called) = (1 + self.random.below(4900) as i64, self.random.one_in(2));
                    self.own.push(SequenceState { last: value, is_called, ..self.now() });
                    client.query(&format!("select setval('{name}', {value}, {is_called})"))?;
                }
                1 if !in_block => self.restart(client, &name)?,
                _ => {
                    let next = self.now().next();
                    self.own.push(next);
                    let number = client.integer(&format!("select nextval('{name}')"))?;
                    assert_eq!(number, next.last, "{name} after {before:?}");
                }
            }
            if !in_block {
                self.own.drain(..self.own.len() - 1);
            }
        }
        if in_block {
            client.query(if commits { "commit" } else { "rollback" })?;
            let last = if restarts && !commits { before } else { self.now() };
            match commits {
                true => self.own = vec![last],
                // What a given up transaction has drawn is drawn, unless it was from its own new beginning.
                false => self.own.push(last),
            }
        }
        Ok(())
    }
    fn restart(&mut self, client: &mut Client, name: &str) -> ClientResult {
        let (value, increment) = (1 + self.random.below(4900) as i64, 1 + self.random.below(3) as i64);
        self.own.push(SequenceState { last: value, is_called: false, increment, ..self.now() });
        client.query(&format!("alter sequence {name} increment by {increment} restart with {value}")).map(drop)
    }

    fn use_identity(&mut self, client: &mut Client) -> ClientResult {
        let n = self.number;
        let in_block = self.random.one_in(2);
        let commits = self.random.one_in(2);
        let mut now = self.identity[self.identity.len() - 1];
        // As it was when this transaction started it anew.
        let mut left = None;
        let before = now;
        if in_block {
            client.query("begin")?;
        }
        for _ in 0..1 + self.random.below(4) {
            if self.random.one_in(8) {
                left.get_or_insert(now);
                now = SequenceState { last: 1, is_called: false, ..now };
                self.identity.push(now);
                client.query(&format!("truncate items_{n} restart identity"))?;
            } else {
                now = now.next();
                self.identity.push(now);
                let number = client.integer(&format!("insert into items_{n} (t) values ('item') returning id"))?;
                assert_eq!(number, now.last, "items_{n} after {before:?}");
            }
            if !in_block {
                (self.identity, left) = (vec![now], None);
            }
        }
        if in_block {
            client.query(if commits { "commit" } else { "rollback" })?;
            match commits {
                true => self.identity = vec![now],
                // What it drew before it started anew is drawn.
                false => self.identity.push(left.unwrap_or(now)),
            }
        }
        Ok(())
    }
}
