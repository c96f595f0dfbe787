//! A seed's run: a machine is set up, processes on it are put under load and killed, and what they answered is held
//! against what may be.

use crate::machine::{FOLDER, Process, ProcessOptions, SeedChoice};
use crate::more_work::{self, ToldNumbers};
use crate::session::SimConnection;
use kilndb_base::sync::scheduler::{self, Life, OnStandstill, Pace, Scheduler};
use kilndb_base::sync::{Arc, JoinHandle};
use kilndb_lab::client::{ClientError, Connection};
use kilndb_sim::definitions;
use kilndb_sim::disk::SimEnv;
use kilndb_sim::history::session::{Ended, Plant, Session as HistorySession, read_everything};
use kilndb_sim::history::{self, History, Kind, Level, Transaction, workload};
use kilndb_sim::random::{Choice, Random};
use kilndb_storage::StorageLimits;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What a run has done, and what was wrong.
#[derive(Debug, Default)]
pub struct Verdict {
    pub seed: u64,
    pub kills: u32,
    pub transactions: usize,
    pub indexes_compared: usize,
    pub virtual_ms: u64,
    pub turns: u64,
    /// The same in each run of the seed.
    pub trace: u64,
    pub failure: Option<String>,
}

const HISTORY_SESSIONS: u32 = 3;
const DEFINITION_SESSIONS: usize = 2;
/// A process that has not started in so much virtual time never will.
const START_LIMIT: Duration = Duration::from_secs(600);

/// The file of all pages, in the cluster's folder.
const PAGES: &str = "pages";

/// What becomes of one client of a process.
type Outcome = Result<(), String>;

struct Machine {
    scheduler: Arc<Scheduler>,
    disk: Arc<SimEnv>,
    options: ProcessOptions,
    lives: u32,
    board: Arc<workload::Board>,
    levels: Arc<[Level]>,
    definitions: Vec<definitions::Session>,
    transactions: Vec<Transaction>,
    numbers: ToldNumbers,
    verdict: Verdict,
}

/// Runs a seed to its end or its first failure. At most once in a process.
pub fn run_seed(seed: u64, on_standstill: OnStandstill) -> Verdict {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let points_between = [8, 32, 128, 512, 2048][random.below(5) as usize];
    let pace = Pace { seed, points_between };
    Scheduler::run(pace, on_standstill, |scheduler| {
        let mut machine = Machine::new(scheduler, seed);
        let failure = machine.run().err();
        let (turns, trace) = scheduler.trace();
        let virtual_ms = scheduler.now_nanos() / 1_000_000;
        Verdict { seed, turns, trace, virtual_ms, failure, ..machine.verdict }
    })
}

impl Machine {
    fn new(scheduler: &Arc<Scheduler>, seed: u64) -> Machine {
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
        let limits = StorageLimits {
            record_bytes: [512, 4096, 1 << 16][choice.below(3) as usize],
            free_pages_kept: [0, 64, 8192][choice.below(3) as usize],
            ..StorageLimits::default()
        };
        let definitions = (0..DEFINITION_SESSIONS)
            .map(|number| definitions::Session::new(number, scheduler.random() | 1, choice.below(2) == 0))
            .collect();
        Machine {
            scheduler: scheduler.clone(),
            disk: Arc::default(),
            options: ProcessOptions { settings, limits },
            lives: 0,
            board: Arc::default(),
            levels: [Level::ReadCommitted, Level::RepeatableRead, Level::Serializable].into(),
            definitions,
            transactions: Vec::new(),
            numbers: ToldNumbers::default(),
            verdict: Verdict { seed, ..Verdict::default() },
        }
    }

    fn below(&self, n: u64) -> u64 {
        SeedChoice(&self.scheduler).below(n)
    }

    fn run(&mut self) -> Outcome {
        let process = self.start()?;
        self.load(&process)?;
        let rounds = 2 + self.below(4);
        let mut process = process;
        for round in 0..rounds {
            self.work(&process).map_err(|e| format!("round {round}: {e}"))?;
            let damaged = self.below(6) == 0 && self.damage(&process);
            let started = self.start_again().map_err(|e| format!("start after round {round}: {e}"));
            let verified = started.and_then(|next| {
                process = next;
                self.verify(&process).map_err(|e| format!("after round {round}: {e}"))
            });
            match verified {
                // Detected, and named: nothing is to be had of this machine any more.
                Err(e) if damaged && e.contains("XX001") => return Ok(()),
                verified => verified?,
            }
            if damaged {
                // What was not read yet may be damaged still.
                return Ok(());
            }
        }
        self.finish(&process)
    }

    /// A bit rots, in a page or in the log. False: there was nothing to rot.
    fn damage(&mut self, process: &Process) -> bool {
        let (path, from, length) = match (self.below(2), process.settled_log()) {
            (0, Some((path, offset))) if offset > 0 => (path, offset.saturating_sub(4096), offset.min(4096)),
            _ => {
                let length = self.disk.spoil(PAGES, |bytes| bytes.len() as u64);
                if length == 0 {
                    return false;
                }
                (PAGES.into(), 0, length)
            }
        };
        let (at, bit) = (from + self.below(length), self.below(8));
        let path = path.strip_prefix(FOLDER).map(std::path::Path::to_path_buf).unwrap_or(path);
        self.disk.spoil(path, |bytes| {
            let byte = bytes.get_mut(at as usize);
            byte.map(|byte| *byte ^= 1 << bit).is_some()
        })
    }

    /// Starts a process and waits until it answers.
    fn start(&mut self) -> Result<Arc<Process>, String> {
        self.lives += 1;
        let process = Process::start(&self.scheduler, &self.disk, Life(self.lives), &self.options);
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
            self.disk = match self.below(2) {
                0 => self.disk.restart(),
                _ => self.disk.after_power_loss(&mut SeedChoice(&self.scheduler)),
            };
            self.verdict.kills += 1;
            if self.below(4) != 0 {
                return self.start();
            }
            self.lives += 1;
            let process = Process::start(&self.scheduler, &self.disk, Life(self.lives), &self.options);
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

    fn load(&mut self, process: &Arc<Process>) -> Outcome {
        let mut client = self.client(process)?;
        for sql in [workload::TABLE, more_work::TABLES] {
            client.query(sql).map_err(|e| e.to_string())?;
        }
        definitions::load(&mut client, self.definitions.len())
    }

    /// All clients at work, until the process is killed.
    fn work(&mut self, process: &Arc<Process>) -> Outcome {
        self.board.stop.store(false, Ordering::SeqCst);
        let mut clients = Clients { process: process.clone(), tasks: Vec::new(), outcomes: Arc::default() };
        let recorded: Arc<Mutex<Vec<Transaction>>> = Arc::default();
        for number in 0..HISTORY_SESSIONS {
            let (board, levels, recorded) = (self.board.clone(), self.levels.clone(), recorded.clone());
            let random = Random(self.scheduler.random() | 1);
            clients.start(format!("history {number}"), move |client| {
                let session = HistorySession::new(client, number, random, (&board, &levels, Plant::Nothing));
                let mut session = match session {
                    Ok(session) => session,
                    Err(e) => return lost_or(Err(e)),
                };
                let ended = session.run();
                recorded.lock().unwrap_or_else(|e| e.into_inner()).append(&mut session.transactions);
                match ended {
                    Ended::Wrong(message) => Err(message),
                    _ => Ok(()),
                }
            });
        }
        let kept: Arc<Mutex<Vec<definitions::Session>>> = Arc::default();
        for (number, mut session) in std::mem::take(&mut self.definitions).into_iter().enumerate() {
            let kept = kept.clone();
            clients.start(format!("definitions {number}"), move |mut client| {
                let done = session.work(&mut client);
                kept.lock().unwrap_or_else(|e| e.into_inner()).push(session);
                lost_or(done)
            });
        }
        for (number, beside) in definitions::BESIDE.into_iter().enumerate() {
            let mut random = Random(self.scheduler.random() | 1);
            clients.start(format!("beside {number}"), move |mut client| lost_or(beside(&mut client, &mut random)));
        }
        let (numbers, mut random) = (self.numbers.clone(), Random(self.scheduler.random() | 1));
        clients.start("numbers".into(), move |mut client| lost_or(numbers.draw(&mut client, &mut random)));
        let mut random = Random(self.scheduler.random() | 1);
        let write = move |mut client: SimConnection| lost_or(more_work::write_documents(&mut client, &mut random));
        clients.start("documents".into(), write);
        for number in 0..2 {
            let mut random = Random(self.scheduler.random() | 1);
            let work = move |mut client: SimConnection| lost_or(more_work::work_queue(&mut client, &mut random));
            clients.start(format!("queue {number}"), work);
        }
        scheduler::sleep(Duration::from_micros(2_000 + self.below(200_000)));
        let why = process.why_ended();
        process.kill();
        let outcome = clients.end();
        self.transactions.append(&mut recorded.lock().unwrap_or_else(|e| e.into_inner()));
        self.definitions = std::mem::take(&mut kept.lock().unwrap_or_else(|e| e.into_inner()));
        self.definitions.sort_by_key(definitions::Session::number);
        match why {
            Some(why) => Err(format!("the process ended by itself: {why}")),
            None => outcome,
        }
    }

    fn verify(&mut self, process: &Arc<Process>) -> Outcome {
        let mut client = self.client(process)?;
        self.verdict.indexes_compared += definitions::verify_all(&mut client, &mut self.definitions)?;
        let mut random = Random(self.scheduler.random() | 1);
        for _ in 0..4 {
            more_work::check_documents(&mut client, &mut random).map_err(|e| e.to_string())?;
        }
        let last = read_everything(&mut client)?;
        self.check_history(last)
    }

    fn check_history(&mut self, last: std::collections::BTreeMap<u32, Vec<u32>>) -> Outcome {
        self.verdict.transactions = self.transactions.len();
        let history = History { transactions: std::mem::take(&mut self.transactions), last };
        let mut anomalies = history::check(&history);
        // What a transaction saw of another one before that was on disk, and a crash took away (docs/decisions/0003).
        anomalies.retain(|a| a.kind != Kind::UnconfirmedRead);
        self.transactions = history.transactions;
        match anomalies.first() {
            Some(first) => Err(format!("{} anomalies: {first}", anomalies.len())),
            None => Ok(()),
        }
    }

    /// A clean end, and a look at all that is on the disk.
    fn finish(&mut self, process: &Arc<Process>) -> Outcome {
        let Some(Ok(instance)) = process.instance() else { return Err("no process".into()) };
        let stopped: Arc<Mutex<Option<Outcome>>> = Arc::default();
        let told = stopped.clone();
        let body = move || {
            let done = instance.shutdown().map_err(|e| e.message().to_string());
            *told.lock().unwrap_or_else(|e| e.into_inner()) = Some(done);
        };
        let task = scheduler::spawn("stop", Some(process.life), body).map_err(|e| e.to_string())?;
        task.join().map_err(|_| "the shutdown panicked")?;
        stopped.lock().unwrap_or_else(|e| e.into_inner()).take().unwrap_or(Ok(()))?;
        process.kill();
        self.disk = self.disk.restart();
        let problems = kilndb_storage::check(self.disk.clone(), FOLDER.into());
        match problems {
            Ok(problems) if problems.is_empty() => Ok(()),
            Ok(problems) => Err(format!("kilndb check: {problems:?}")),
            Err(e) => Err(format!("kilndb check: {}", e.message())),
        }
    }
}

/// The clients of a process. They are not in it: they hear that it has ended.
struct Clients {
    process: Arc<Process>,
    tasks: Vec<(String, JoinHandle<()>)>,
    outcomes: Arc<Mutex<Vec<(String, Outcome)>>>,
}

impl Clients {
    fn start(&mut self, name: String, work: impl FnOnce(SimConnection) -> Outcome + Send + 'static) {
        let (process, outcomes, own_name) = (self.process.clone(), self.outcomes.clone(), name.clone());
        let body = move || {
            let outcome = match SimConnection::connect(&process) {
                Ok(client) => work(client),
                Err(ClientError::Io(_)) => Ok(()),
                Err(e) => Err(e.to_string()),
            };
            if outcome.is_err() {
                // The rest would only go on.
                process.kill();
            }
            outcomes.lock().unwrap_or_else(|e| e.into_inner()).push((own_name, outcome));
        };
        let task = scheduler::spawn(&name, Some(Life(0)), body).expect("a thread can be started");
        self.tasks.push((name, task));
    }

    /// Waits for all of them; the first complaint of any.
    fn end(self) -> Outcome {
        for (name, task) in self.tasks {
            task.join().map_err(|_| format!("{name} panicked"))?;
        }
        let outcomes = std::mem::take(&mut *self.outcomes.lock().unwrap_or_else(|e| e.into_inner()));
        let complain = |(name, outcome): (String, Outcome)| outcome.map_err(|e| format!("{name}: {e}"));
        outcomes.into_iter().try_for_each(complain)
    }
}

/// A lost connection is what a kill looks like.
fn lost_or(done: Result<(), ClientError>) -> Outcome {
    match done {
        Err(ClientError::Io(_)) => Ok(()),
        done => done.map_err(|e| e.to_string()),
    }
}
