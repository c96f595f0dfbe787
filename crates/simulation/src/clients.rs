//! The clients of a process. They are not in it: they hear that it has ended.

use crate::machine::Process;
use crate::session::SimConnection;
use kilndb_base::sync::scheduler::{self, ProcessLife, Scheduler};
use kilndb_base::sync::{Arc, JoinHandle};
use kilndb_lab::client::{ClientError, Connection};
use std::sync::Mutex;
use std::time::Duration;

/// What becomes of one client of a process.
pub type ClientOutcome = Result<(), String>;

/// A statement that takes longer than this, while nobody begins anything new, waits for what nobody tells it.
const CALM_LIMIT: Duration = Duration::from_secs(120);

/// How often a client whose connection is lost connects again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reconnects {
    Never,
    /// As long as there is a process.
    Always,
}

pub struct Clients {
    scheduler: Arc<Scheduler>,
    process: Arc<Process>,
    /// Workloads that are left out.
    without: Arc<Vec<String>>,
    tasks: Vec<(String, JoinHandle<()>)>,
    outcomes: Arc<Mutex<Vec<(String, ClientOutcome)>>>,
}

impl Clients {
    pub fn new(scheduler: &Arc<Scheduler>, process: &Arc<Process>, without: &Arc<Vec<String>>) -> Clients {
        let (scheduler, process, without) = (scheduler.clone(), process.clone(), without.clone());
        Clients { scheduler, process, without, tasks: Vec::new(), outcomes: Arc::default() }
    }

    /// `work` gets a connection and works until it is lost.
    pub fn start(
        &mut self,
        name: &str,
        reconnects: Reconnects,
        mut work: impl FnMut(SimConnection) -> ClientOutcome + Send + 'static,
    ) {
        if self.without.iter().any(|left_out| left_out == name) {
            return;
        }
        let (process, outcomes, own_name) = (self.process.clone(), self.outcomes.clone(), name.to_string());
        let body = move || {
            let outcome = loop {
                let outcome = match SimConnection::connect(&process) {
                    Ok(client) => work(client),
                    Err(ClientError::Io(_)) => Ok(()),
                    Err(e) => Err(e.to_string()),
                };
                if outcome.is_err() || reconnects == Reconnects::Never || process.is_closed() {
                    break outcome;
                }
                scheduler::sleep(Duration::from_millis(1));
            };
            if outcome.is_err() {
                // The rest would only go on.
                process.kill();
            }
            outcomes.lock().unwrap_or_else(|e| e.into_inner()).push((own_name, outcome));
        };
        let task = scheduler::spawn(name, Some(ProcessLife(0)), body).expect("there is memory for a stack");
        self.tasks.push((name.to_string(), task));
    }

    fn ended(&self) -> Vec<String> {
        let outcomes = self.outcomes.lock().unwrap_or_else(|e| e.into_inner());
        outcomes.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Lets all statements come to their ends, and nobody begin another one. A statement that does not end waits for
    /// something that nobody tells it.
    pub(crate) fn calm_down(&self) -> ClientOutcome {
        self.process.close();
        let until = scheduler::now_nanos() + CALM_LIMIT.as_nanos() as u64;
        while self.ended().len() < self.tasks.len() && self.process.why_ended().is_none() {
            if scheduler::now_nanos() > until {
                let ended = self.ended();
                let open: Vec<&String> =
                    self.tasks.iter().map(|(name, _)| name).filter(|n| !ended.contains(n)).collect();
                let asked = [self.process.open_statements(), self.locks()].concat().join("\n");
                let told = self.scheduler.told();
                let seconds = CALM_LIMIT.as_secs();
                return Err(format!("after {seconds} s a statement has not ended: {open:?}\n{asked}\n{told}"));
            }
            scheduler::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// What the server itself says of who waits for whom.
    fn locks(&self) -> Vec<String> {
        let sql = "select pid, locktype, relation::regclass, page, tuple, transactionid, virtualxid, mode, granted, \
            pg_blocking_pids(pid) from pg_locks order by pid, granted";
        let answers = SimConnection::connect_late(&self.process).and_then(|mut client| client.query(sql));
        match answers {
            Ok(answers) => answers.into_iter().flat_map(|answer| answer.rows).map(|row| format!("{row:?}")).collect(),
            Err(e) => vec![e.to_string()],
        }
    }

    /// Waits for all of them; the first complaint of any.
    pub fn end(self) -> ClientOutcome {
        for (name, task) in self.tasks {
            task.join().map_err(|_| format!("{name} panicked"))?;
        }
        let outcomes = std::mem::take(&mut *self.outcomes.lock().unwrap_or_else(|e| e.into_inner()));
        let complain = |(name, outcome): (String, ClientOutcome)| outcome.map_err(|e| format!("{name}: {e}"));
        outcomes.into_iter().try_for_each(complain)
    }
}

/// A lost connection is what a kill looks like.
pub(crate) fn lost_or(done: Result<(), ClientError>) -> ClientOutcome {
    match done {
        Err(ClientError::Io(_)) => Ok(()),
        done => done.map_err(|e| e.to_string()),
    }
}
