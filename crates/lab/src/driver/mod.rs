//! The driver of loads: thousands of clients that run scripts, on few threads.
//!
//! Each thread has its clients and a poll of their sockets; it reads what is there, lets those clients go on that can, writes, and
//! sleeps until a socket or a clock wakes it. Latencies are kept by second and thread, and put together in the end.
//!
//! 1. A client belongs to one thread, from its first message to its last.
//! 2. With a rate, a transaction's latency begins when it was due, not when the client came to it: whoever stalls the server makes
//!    all wait that were due meanwhile (coordinated omission).
//! 3. A transaction that fails counts as failed and nothing else; rows that it changed are not counted.
//!
//! Must not know: experiments, and what scripts are for.

mod figures;
mod link;
mod load_client;
mod pgbench;
mod thread;

pub(crate) use figures::EndedTransaction;
pub use figures::{LoadFigures, SecondFigures, StatementFigures};
pub(crate) use load_client::changed_rows_of_tag;
pub use pgbench::run_pgbench;

use crate::client::Address;
use crate::script::{Script, VariableNames};
use crate::session_socket::SessionLogin;
use serde::Deserialize;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Barrier};
use std::time::Duration;

/// How statements are sent.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum LoadProtocol {
    /// As texts, with the variables' values within.
    Simple,
    /// Parsed and bound each time.
    Extended,
    /// Parsed once by each client.
    #[default]
    Prepared,
}

/// When a load ends.
#[derive(Clone, Copy, Debug)]
pub enum LoadLength {
    After(Duration),
    /// Of each client.
    Transactions(u64),
}

/// What is run. Scripts share the names of their variables.
pub struct LoadPlan {
    pub address: Address,
    pub database: String,
    pub password: Option<String>,
    pub clients: usize,
    pub threads: usize,
    pub protocol: LoadProtocol,
    /// Each with how often it is chosen, of the sum of all.
    pub scripts: Vec<(Script, u32)>,
    pub names: VariableNames,
    /// Variables that are set from the beginning.
    pub presets: Vec<(String, String)>,
    pub length: LoadLength,
    /// Transactions a second that are due, of all clients; None: each begins when the one before has ended.
    pub rate: Option<f64>,
    /// How often a transaction is tried that has failed because of others (40001, 40P01).
    pub tries: u32,
    pub seed: u64,
    /// What each client says once it has connected, before the clock runs; empty: nothing.
    pub session: String,
    /// Transactions that have ended so far, for whoever looks on.
    pub ended: Arc<AtomicU64>,
}

impl LoadPlan {
    /// A load of one client that is prepared and runs for ten seconds; what it runs is still to be said.
    pub fn new(address: Address, database: &str) -> LoadPlan {
        LoadPlan {
            address,
            database: database.to_string(),
            password: None,
            clients: 1,
            threads: std::thread::available_parallelism().map_or(1, |n| n.get()),
            protocol: LoadProtocol::Prepared,
            scripts: Vec::new(),
            names: VariableNames::default(),
            presets: Vec::new(),
            length: LoadLength::After(Duration::from_secs(10)),
            rate: None,
            tries: 1,
            seed: 1,
            session: String::new(),
            ended: Arc::default(),
        }
    }
    /// Who each client is.
    pub fn login(&self) -> SessionLogin<'_> {
        SessionLogin {
            address: &self.address,
            database: &self.database,
            password: self.password.as_deref(),
            session: &self.session,
        }
    }
}

/// What the threads of a load know of each other.
struct LoadStart {
    /// Where each waits for all others' clients to be connected.
    ready: Barrier,
    /// A client has not got its connection: nobody begins.
    has_failed: AtomicBool,
}

/// Runs a load to its end. Errors: a client could not connect, or a thread has failed.
pub fn run(plan: &LoadPlan) -> Result<LoadFigures, String> {
    let threads = plan.threads.clamp(1, plan.clients.max(1));
    let start = &LoadStart { ready: Barrier::new(threads), has_failed: AtomicBool::new(false) };
    std::thread::scope(|scope| {
        let run_one = |number: usize| scope.spawn(move || thread::run(plan, (number, threads), start));
        let all: Vec<_> = (0..threads).map(run_one).collect();
        let mut figures = LoadFigures::default();
        let mut failed = None;
        for one in all {
            match one.join() {
                Ok(Ok(of_thread)) => figures.add(of_thread),
                Ok(Err(e)) => failed = Some(e),
                Err(_) => failed = Some("a thread of the driver has panicked".into()),
            }
        }
        failed.map_or(Ok(figures), Err)
    })
}
