//! A seed's run: a machine is set up, processes on it are put under load and killed, and what they answered is held
//! against what may be.

use crate::clients::{ClientOutcome, Clients, Reconnects, lost_or};
use crate::machine::{FOLDER, Hardware, Process, ProcessOptions, SeedChoice};
use crate::network::Network;
use crate::parts;
use crate::session::SimConnection;
use crate::trouble::{self, Trouble};
use crate::workloads::numbers::{self, ToldNumbers};
use crate::workloads::{self, WORKLOADS};
use kilndb_base::sync::Arc;
use kilndb_base::sync::scheduler::{self, OnStandstill, ProcessLife, Scheduler, SchedulerPace};
use kilndb_lab::client::Connection;
use kilndb_sim::definitions;
use kilndb_sim::history::session::{PlantedFault, Session as HistorySession, SessionEnd, read_everything};
use kilndb_sim::history::{self, AnomalyKind, History, IsolationLevel, Transaction, workload};
use kilndb_sim::random::{Chooser, Random};
use kilndb_storage::StorageLimits;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Seeds take a hundred million turns at most: with ten times as many their tasks get on no more.
const TURNS_MAX: u64 = 1_000_000_000;

/// A run, and what is left out of it.
#[derive(Clone, Default)]
pub struct RunOptions {
    pub seed: u64,
    /// Names of workloads, and "troubles".
    pub without: Vec<String>,
    /// The most rounds that a run has.
    pub rounds: Option<u64>,
}

/// What a run has done, and what was wrong.
#[derive(Debug, Default)]
pub struct Verdict {
    pub seed: u64,
    pub kills: u32,
    pub transactions: usize,
    pub indexes_compared: usize,
    pub virtual_ms: u64,
    pub turns: u64,
    /// A number for all that has happened, the same in each run of the seed.
    pub trace: u64,
    pub failure: Option<String>,
}

/// A process that has not started in so much virtual time never will.
const START_LIMIT: Duration = Duration::from_secs(600);

/// Clients ask nothing for so long at most, while the engine goes on with what it does by itself.
const MOST_QUIET_MS: u64 = 20 * 60 * 1000;

/// The file of all pages, in the cluster's folder.
const PAGES: &str = "pages";

struct Machine {
    hardware: Hardware,
    options: ProcessOptions,
    without: Arc<Vec<String>>,
    most_rounds: u64,
    /// Somebody ends sessions.
    has_reaper: bool,
    lives: u32,
    board: Arc<workload::SharedCounters>,
    levels: Arc<[IsolationLevel]>,
    definitions: Vec<definitions::Session>,
    transactions: Vec<Transaction>,
    numbers: ToldNumbers,
    verdict: Verdict,
}

/// Runs a seed to its end or its first failure. At most once in a process.
pub fn run_seed(options: &RunOptions, on_standstill: OnStandstill) -> Verdict {
    let seed = options.seed;
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let points_between = [8, 32, 128, 512, 2048][random.below(5) as usize];
    let pace = SchedulerPace { seed, points_between, turns_max: TURNS_MAX };
    let options = options.clone();
    Scheduler::run(pace, on_standstill, move |scheduler| {
        let mut machine = Machine::new(scheduler, &options);
        let failure = machine.run().err();
        let (turns, trace) = scheduler.trace();
        let virtual_ms = scheduler.now_nanos() / 1_000_000;
        Verdict { seed, turns, trace, virtual_ms, failure, ..machine.verdict }
    })
}

impl Machine {
    fn new(scheduler: &Arc<Scheduler>, run: &RunOptions) -> Machine {
        let mut choice = SeedChoice(scheduler);
        let buffers = ["1MB", "2MB", "8MB"][choice.below(3) as usize];
        let settings = [
            ("shared_buffers", buffers),
            ("max_wal_size", "32MB"),
            ("min_wal_size", "32MB"),
            ("deadlock_timeout", "50ms"),
            ("huge_pages", "off"),
        ];
        let settings = settings.map(|(name, value)| (name.to_string(), value.to_string())).to_vec();
        let usual = StorageLimits::default();
        // A new cluster's catalog takes more than 256 small chunks.
        let (undo_chunks, chunk_bytes) = match choice.below(4) {
            0 => (1 << 8, usual.chunk_bytes),
            1 => (usual.undo_chunks, 512),
            2 => (usual.undo_chunks, 4096),
            _ => (usual.undo_chunks, usual.chunk_bytes),
        };
        let limits = StorageLimits {
            record_bytes: [512, 4096, 1 << 16][choice.below(3) as usize],
            free_pages_kept: [0, 64, 8192][choice.below(3) as usize],
            xids: [usual.xids, 1 << 10, 1 << 7][choice.below(3) as usize],
            undo_chunks,
            chunk_bytes,
            old_snapshot_commits: [usual.old_snapshot_commits, 5, 20, 100][choice.below(4) as usize],
            compacted_chunks: [usual.compacted_chunks, 1, 1, 4][choice.below(4) as usize],
            ..usual
        };
        let is_small = limits.xids < usual.xids || limits.undo_chunks < usual.undo_chunks;
        // program_limit_exceeded
        let excused = if is_small { vec!["54000"] } else { Vec::new() };
        let definitions = (0..parts::DEFINITION_SESSIONS)
            .map(|number| definitions::Session::new(number, scheduler.random() | 1, choice.below(2) == 0))
            .collect();
        let all = [IsolationLevel::ReadCommitted, IsolationLevel::RepeatableRead, IsolationLevel::Serializable];
        let levels = match choice.below(2) {
            0 => all.to_vec(),
            _ => vec![all[choice.below(3) as usize]],
        };
        let hardware = Hardware {
            scheduler: scheduler.clone(),
            disk: Arc::default(),
            network: Network::new(scheduler),
            clock_ahead_micros: Arc::default(),
        };
        Machine {
            hardware,
            options: ProcessOptions { settings, limits, excused },
            without: Arc::new(parts::left_out(run, &mut choice)),
            most_rounds: run.rounds.unwrap_or(u64::MAX),
            has_reaper: choice.below(2) == 0,
            lives: 0,
            board: Arc::default(),
            levels: levels.into(),
            definitions,
            transactions: Vec::new(),
            numbers: ToldNumbers::default(),
            verdict: Verdict { seed: run.seed, ..Verdict::default() },
        }
    }

    fn choice(&self) -> SeedChoice<'_> {
        SeedChoice(&self.hardware.scheduler)
    }

    fn below(&self, n: u64) -> u64 {
        self.choice().below(n)
    }

    fn random(&self) -> Random {
        Random(self.hardware.scheduler.random() | 1)
    }

    fn is_left_out(&self, part: &str) -> bool {
        self.without.iter().any(|name| name == part)
    }

    fn run(&mut self) -> ClientOutcome {
        let mut process = self.start()?;
        self.load(&process)?;
        let rounds = (2 + self.below(4)).min(self.most_rounds);
        for round in 0..rounds {
            if round + 1 == rounds && self.below(6) == 0 && !self.is_left_out(parts::TROUBLES) {
                return self.forgetful_round(&process);
            }
            self.work(&process).map_err(|e| format!("round {round}: {e}"))?;
            let is_damaged = self.below(6) == 0 && !self.is_left_out(parts::TROUBLES);
            let damage = if is_damaged { self.damage(&process) } else { None };
            let started = self.start_again().map_err(|e| format!("start after round {round}: {e}"));
            let verified = started.and_then(|next| {
                process = next;
                self.verify(&process).map_err(|e| format!("after round {round}: {e}"))
            });
            match verified {
                // Detected, and named: nothing is to be had of this machine any more.
                Err(e) if damage.is_some_and(|codes| codes.iter().any(|code| e.contains(code))) => return Ok(()),
                verified => verified?,
            }
            if damage.is_some() {
                // What was not read yet may be damaged still.
                return Ok(());
            }
        }
        self.finish(&process)
    }

    /// A round on a medium that loses writes, or misplaces them, or does not sync, and what comes after it. Much of that
    /// cannot be found out; whoever meets it gets an answer all the same, and be it an error.
    fn forgetful_round(&mut self, process: &Arc<Process>) -> ClientOutcome {
        process.plan(trouble::choose_mischief(&mut self.choice()));
        let after = |machine: &mut Machine| {
            machine.work(process)?;
            let process = machine.start_again()?;
            machine.verify(&process)?;
            machine.finish(&process)
        };
        match after(self) {
            Err(e) if e.contains("panic: ") || e.contains("has not ended") || e.contains("does not come to") => {
                Err(format!("after the medium's mischief: {e}"))
            }
            _ => Ok(()),
        }
    }

    /// Something rots: a bit of the log, or some bits of another file; or a file is gone. Returns the SQLSTATEs that may
    /// tell of it; None: there was nothing to damage.
    fn damage(&mut self, process: &Process) -> Option<&'static [&'static str]> {
        let names = self.hardware.disk.names();
        if self.below(4) == 0 {
            let path = trouble::losable_file(names, &mut self.choice())?;
            self.hardware.disk.lose(path);
            // io_error: it cannot be opened.
            return Some(&["XX001", "58030"]);
        }
        // What was flushed before may be in a file that has been removed since.
        let is_there = |path: &PathBuf| names.iter().any(|name| path.ends_with(name));
        let settled = process.settled_log().filter(|(path, offset)| *offset > 0 && is_there(path));
        let (path, from, length, bits) = match (self.below(3), settled) {
            (0, Some((path, offset))) => (path, offset.saturating_sub(4096), offset.min(4096), 1),
            (1, _) => (trouble::rotting_file(names, &mut self.choice())?, 0, u64::MAX, 1),
            _ => (PathBuf::from(PAGES), 0, u64::MAX, 1 + self.below(8)),
        };
        let path = path.strip_prefix(FOLDER).map(std::path::Path::to_path_buf).unwrap_or(path);
        let length = length.min(self.hardware.disk.spoil(&path, |bytes| bytes.len() as u64));
        if length == 0 {
            return None;
        }
        for _ in 0..bits {
            let (at, bit) = (from + self.below(length), self.below(8));
            self.hardware.disk.spoil(&path, |bytes| bytes.get_mut(at as usize).map(|byte| *byte ^= 1 << bit));
        }
        Some(&["XX001"])
    }

    /// Starts a process and waits until it answers.
    fn start(&mut self) -> Result<Arc<Process>, String> {
        self.lives += 1;
        let process = Process::start(&self.hardware, ProcessLife(self.lives), &self.options);
        let until = scheduler::now_nanos() + START_LIMIT.as_nanos() as u64;
        while scheduler::now_nanos() < until {
            if let Some(why) = process.why_ended() {
                return Err(format!("the process ended in its start: {why}"));
            }
            match process.instance() {
                Some(Ok(_)) => return Ok(process),
                Some(Err(e)) => return Err(format!("the start failed: {e}")),
                None => scheduler::sleep(Duration::from_millis(1)),
            };
        }
        Err("the process does not come to the end of its start".into())
    }

    /// The next process on the machine, whether the machine stayed up or not; sometimes one or two die in their starts.
    fn start_again(&mut self) -> Result<Arc<Process>, String> {
        loop {
            self.hardware.disk = match self.below(2) {
                0 => self.hardware.disk.restart(),
                _ => self.hardware.disk.after_power_loss(&mut self.choice()),
            };
            self.verdict.kills += 1;
            if self.below(4) != 0 {
                return self.start();
            }
            self.lives += 1;
            let process = Process::start(&self.hardware, ProcessLife(self.lives), &self.options);
            scheduler::sleep(Duration::from_micros(self.below(30_000)));
            if let Some(why) = process.why_ended() {
                return Err(format!("the process ended in its start: {why}"));
            }
            process.kill();
        }
    }

    fn client(&self, process: &Arc<Process>) -> Result<SimConnection, String> {
        SimConnection::connect(process).map_err(|e| e.to_string())
    }

    fn load(&mut self, process: &Arc<Process>) -> ClientOutcome {
        let mut client = self.client(process)?;
        let of_workloads = WORKLOADS.iter().map(|workload| workload.tables);
        for sql in [workload::TABLE, numbers::SEQUENCES].into_iter().chain(of_workloads) {
            client.query(sql).map_err(|e| e.to_string())?;
        }
        definitions::load(&mut client, self.definitions.len())
    }

    /// All clients at work, until the process is killed, or ends by itself where it may.
    fn work(&mut self, process: &Arc<Process>) -> ClientOutcome {
        let trouble = match self.is_left_out(parts::TROUBLES) {
            true => Trouble::Nothing,
            false => Trouble::choose(&mut self.choice()),
        };
        process.excuse(trouble.codes());
        if let Some((operations, fault)) = trouble.fault(&mut self.choice()) {
            self.hardware.disk.arm(operations, fault);
        }
        self.board.stop.store(false, Ordering::SeqCst);
        let mut clients = Clients::new(&self.hardware.scheduler, process, &self.without);
        let recorded = self.start_history(&mut clients);
        let kept = self.start_definitions(&mut clients);
        self.start_others(&mut clients);
        scheduler::sleep(Duration::from_micros(1_000 + self.below(100_000)));
        if self.below(3) == 0 {
            // Somebody sets the clock, by up to an hour.
            let micros = self.below(7_200_000_000) as i64 - 3_600_000_000;
            self.hardware.clock_ahead_micros.fetch_add(micros, Ordering::Relaxed);
        }
        if self.below(3) == 0 {
            let quiet = Duration::from_millis(self.below(MOST_QUIET_MS));
            process.be_quiet(quiet);
            scheduler::sleep(quiet);
        }
        scheduler::sleep(Duration::from_micros(1_000 + self.below(100_000)));
        let calm = match self.below(3) {
            0 => clients.calm_down(),
            _ => Ok(()),
        };
        let why = process.why_ended();
        process.kill();
        let outcome = clients.end();
        self.transactions.append(&mut recorded.lock().unwrap_or_else(|e| e.into_inner()));
        let mut kept = std::mem::take(&mut *kept.lock().unwrap_or_else(|e| e.into_inner()));
        self.definitions.append(&mut kept);
        self.definitions.sort_by_key(definitions::Session::number);
        match why {
            Some(why) if trouble == Trouble::Nothing => Err(format!("the process ended by itself: {why}")),
            Some(_) => outcome,
            None => outcome.and(calm),
        }
    }

    fn start_history(&mut self, clients: &mut Clients) -> Arc<Mutex<Vec<Transaction>>> {
        let all: Arc<Mutex<Vec<Transaction>>> = Arc::default();
        for number in 0..parts::HISTORY_SESSIONS {
            let (board, levels, recorded) = (self.board.clone(), self.levels.clone(), all.clone());
            let mut random = self.random();
            clients.start(&parts::history(number), Reconnects::Always, move |client| {
                let random = Random(random.number() | 1);
                let session = HistorySession::new(client, number, random, (&board, &levels, PlantedFault::Nothing));
                let mut session = match session {
                    Ok(session) => session,
                    Err(e) => return lost_or(Err(e)),
                };
                let ended = session.run();
                recorded.lock().unwrap_or_else(|e| e.into_inner()).append(&mut session.transactions);
                match ended {
                    SessionEnd::Wrong(message) => Err(message),
                    _ => Ok(()),
                }
            });
        }
        all
    }

    /// Where the sessions are while they are not at work.
    fn start_definitions(&mut self, clients: &mut Clients) -> Arc<Mutex<Vec<definitions::Session>>> {
        let resting: Arc<Mutex<Vec<definitions::Session>>> = Arc::default();
        let (stay, work): (Vec<_>, Vec<_>) = std::mem::take(&mut self.definitions)
            .into_iter()
            .partition(|session| self.is_left_out(&parts::definitions(session.number())));
        self.definitions = stay;
        for session in work {
            let (resting, name) = (resting.clone(), parts::definitions(session.number()));
            // It is back there even if there is no process to connect to.
            let number = session.number();
            resting.lock().unwrap_or_else(|e| e.into_inner()).push(session);
            clients.start(&name, Reconnects::Never, move |mut client| {
                let all = || resting.lock().unwrap_or_else(|e| e.into_inner());
                let own = all().extract_if(.., |session| session.number() == number).next();
                let Some(mut session) = own else { return Ok(()) };
                let done = session.work(&mut client);
                all().push(session);
                lost_or(done)
            });
        }
        resting
    }

    fn start_others(&mut self, clients: &mut Clients) {
        for (name, work) in parts::beside() {
            let mut random = self.random();
            clients.start(name, Reconnects::Always, move |mut client| lost_or(work(&mut client, &mut random)));
        }
        let (numbers, mut random) = (self.numbers.clone(), self.random());
        let draw = move |mut client: SimConnection| lost_or(numbers.draw(&mut client, &mut random));
        clients.start(parts::NUMBERS, Reconnects::Always, draw);
        let mut random = self.random();
        if self.has_reaper {
            let reap = move |mut client: SimConnection| lost_or(workloads::end_sessions(&mut client, &mut random));
            clients.start(parts::REAPER, Reconnects::Always, reap);
        }
    }

    fn verify(&mut self, process: &Arc<Process>) -> ClientOutcome {
        let mut client = self.client(process)?;
        self.verdict.indexes_compared += definitions::verify_all(&mut client, &mut self.definitions)?;
        let mut random = self.random();
        for workload in &WORKLOADS {
            (workload.check)(&mut client, &mut random).map_err(|e| e.to_string())?;
        }
        let last = read_everything(&mut client)?;
        self.check_history(last)
    }

    fn check_history(&mut self, last: std::collections::BTreeMap<u32, Vec<u32>>) -> ClientOutcome {
        self.verdict.transactions = self.transactions.len();
        let history = History { transactions: std::mem::take(&mut self.transactions), last };
        let mut anomalies = history::check(&history);
        // What a transaction saw of another one before that was on disk, and a crash took away (docs/decisions/0003).
        anomalies.retain(|a| a.kind != AnomalyKind::UnconfirmedRead);
        self.transactions = history.transactions;
        match anomalies.first() {
            Some(first) => Err(format!("{} anomalies: {first}", anomalies.len())),
            None => Ok(()),
        }
    }

    /// A clean end, and a look at all that is on the disk.
    fn finish(&mut self, process: &Arc<Process>) -> ClientOutcome {
        let Some(Ok(instance)) = process.instance() else { return Err("no process".into()) };
        let stopped: Arc<Mutex<Option<ClientOutcome>>> = Arc::default();
        let told = stopped.clone();
        let body = move || {
            let done = instance.shutdown().map_err(|e| e.message().to_string());
            *told.lock().unwrap_or_else(|e| e.into_inner()) = Some(done);
        };
        let task = scheduler::spawn("stop", Some(process.life), body).map_err(|e| e.to_string())?;
        task.join().map_err(|_| "the shutdown panicked")?;
        stopped.lock().unwrap_or_else(|e| e.into_inner()).take().unwrap_or(Ok(()))?;
        process.kill();
        self.hardware.disk = self.hardware.disk.restart();
        let problems = kilndb_storage::check(self.hardware.disk.clone(), FOLDER.into());
        match problems {
            Ok(problems) if problems.is_empty() => Ok(()),
            Ok(problems) => Err(format!("kilndb check: {problems:?}")),
            Err(e) => Err(format!("kilndb check: {}", e.message())),
        }
    }
}
