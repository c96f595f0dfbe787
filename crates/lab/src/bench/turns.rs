//! Servers that take turns.
//!
//! 1. Whatever is measured is a [`BenchStage`]: begun once on each server, run in turns, ended. No part measures one server
//!    from beginning to end: the machine's speed changes from one minute to the next.
//! 2. While one server has its turn the others stand still (SIGSTOP), with all they do in the background.
//! 3. The order of a pair changes from one to the next: what comes first meets the same as what comes second.

use super::figures::{Figures, Judged};
use super::pgbench::{PgbenchLoad, PgbenchRun};
use super::{BenchOptions, pgbench};
use kilndb_lab::client::{Address, Client};
use kilndb_lab::process::{Server, TempDir};
use kilndb_lab::statistics::Better;
use std::path::PathBuf;

/// One of those that are compared.
pub(super) struct ComparedServer {
    /// The server's name as in the table.
    pub name: &'static str,
    pub at: Address,
    pub server: Server,
    pub data: PathBuf,
    /// The program, if it is a KilnDB.
    pub kilndb: Option<PathBuf>,
    // The folders go after the server: fields are dropped in order.
    pub _folders: [TempDir; 2],
}

impl ComparedServer {
    fn is_postgres(&self) -> bool {
        self.kilndb.is_none()
    }
    pub(super) fn pause(&self) {
        self.server.pause();
    }
    pub(super) fn go_on(&self) {
        self.server.go_on();
    }
    /// Does something with a server that stands still otherwise.
    pub(super) fn alone<T>(&self, action: impl FnOnce() -> T) -> T {
        self.go_on();
        let done = action();
        self.pause();
        done
    }
}

/// Writes what the servers have left in the system's cache, so that it is not written in another one's time.
pub(super) fn sync_files() {
    // SAFETY: a system call without arguments.
    unsafe { libc::sync() };
}

type StageAction = Box<dyn Fn(&mut ServerTurn<'_>) -> Result<(), String>>;

/// Something that is measured: its turns put values into rows.
pub(super) struct BenchStage {
    name: String,
    begin: StageAction,
    turn: StageAction,
    end: StageAction,
    /// How many turns each server has; None: as many as there are to be pairs.
    turns: Option<usize>,
    judged: Judged,
}

impl BenchStage {
    pub(super) fn new(name: &str, turn: impl Fn(&mut ServerTurn<'_>) -> Result<(), String> + 'static) -> BenchStage {
        BenchStage {
            name: name.to_string(),
            begin: Box::new(|_| Ok(())),
            turn: Box::new(turn),
            end: Box::new(|_| Ok(())),
            turns: None,
            judged: Judged::Yes,
        }
    }
    pub(super) fn begin(mut self, step: impl Fn(&mut ServerTurn<'_>) -> Result<(), String> + 'static) -> BenchStage {
        self.begin = Box::new(step);
        self
    }
    pub(super) fn end(mut self, step: impl Fn(&mut ServerTurn<'_>) -> Result<(), String> + 'static) -> BenchStage {
        self.end = Box::new(step);
        self
    }
    /// What takes long, or is the same each time.
    pub(super) fn turns(mut self, turns: usize) -> BenchStage {
        self.turns = Some(turns);
        self
    }
    pub(super) fn unjudged(mut self) -> BenchStage {
        self.judged = Judged::No;
        self
    }

    /// All of it. After a failure the end is tried all the same, so that the next stage finds what it expects.
    pub(super) fn run(
        &self,
        sides: &[ComparedServer],
        options: &BenchOptions,
        figures: &mut Figures,
    ) -> Result<(), String> {
        let sides: Vec<&ComparedServer> = sides.iter().collect();
        let mut each = |sides: &[&ComparedServer], step: &StageAction| {
            sides.iter().try_for_each(|side| {
                sync_files();
                let done = side.alone(|| step(&mut ServerTurn { side, options, figures, judged: self.judged }));
                done.map_err(|e| format!("{}, {}: {e}", self.name, side.name))
            })
        };
        let mut done = each(&sides, &self.begin);
        for turn in 0..self.turns.unwrap_or(options.pairs) {
            let mut order = sides.clone();
            if turn % 2 == 1 {
                order.reverse();
            }
            done = done.and_then(|()| each(&order, &self.turn));
        }
        let ended = each(&sides, &self.end);
        done.and(ended)
    }
}

/// A server's turn.
pub(super) struct ServerTurn<'a> {
    pub side: &'a ComparedServer,
    pub options: &'a BenchOptions,
    figures: &'a mut Figures,
    judged: Judged,
}

impl ServerTurn<'_> {
    pub(super) fn put(&mut self, row: &str, better: Better, value: f64) {
        self.figures.put(self.side.name, row, better, self.judged, value);
    }
    /// A row that is held against a bound and not against the other server.
    pub(super) fn put_bound(&mut self, row: &str, better: Better, value: f64, bound: f64) {
        self.figures.put_bound(self.side.name, row, better, value, bound);
    }
    pub(super) fn is_postgres(&self) -> bool {
        self.side.is_postgres()
    }
    pub(super) fn connect(&self) -> Result<Client, String> {
        Client::connect(&self.side.at, "postgres").map_err(|e| e.to_string())
    }
    pub(super) fn execute(&self, statements: &[&str]) -> Result<(), String> {
        execute(&mut self.connect()?, statements)
    }
    pub(super) fn integer(&self, sql: &str) -> Result<i64, String> {
        self.connect()?.integer(sql).map_err(|e| format!("{sql}: {e}"))
    }
    pub(super) fn pgbench(&self, load: &PgbenchLoad<'_>) -> Result<PgbenchRun, String> {
        pgbench::run(&self.side.at, self.options, load)
    }
}

pub(super) fn execute(client: &mut Client, statements: &[&str]) -> Result<(), String> {
    statements.iter().try_for_each(|sql| client.query(sql).map(drop).map_err(|e| format!("{sql}: {e}")))
}
