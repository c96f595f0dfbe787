//! Sessions that do something beside a load: hold a snapshot, clean up now and then, or work as much as they can.
//!
//! 1. None of them works longer than the load: what one that makes no pause does at the load's end is cancelled.
//! 2. A session that fails while the load runs is an error of the run, with the server's words.
//!
//! Must not know: what the load is.

use super::LOOK_EVERY;
use super::session::ScriptSession;
use crate::client::Client;
use crate::guard::SetAtEnd;
use crate::script::{Script, VariableNames};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(super) struct BesideSessions {
    pub sessions: Vec<BesideSession>,
    pub pace: BesidePace,
}

pub(super) struct BesideSession {
    pub session: ScriptSession,
    pub script: Script,
    pub names: VariableNames,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum BesidePace {
    /// Once before the load; the session stays as it is then.
    Once,
    /// Once before the load, then again so long after it has ended.
    Every(Duration),
    /// From when the load begins, again and again.
    WithoutPause,
}

impl BesideSessions {
    /// Runs a load while the sessions do what they are to do. `admin` is a session that can cancel what others do. Beside what the load
    /// gives: how often each script has come to its end, or that with the fewest ends; None of those that run once.
    pub fn during<T>(
        mut self,
        admin: &mut Client,
        load: impl FnOnce() -> Result<T, String>,
    ) -> Result<(T, Option<u64>), String> {
        let mut pids = Vec::new();
        for session in &mut self.sessions {
            match self.pace {
                BesidePace::WithoutPause => pids.push(session.pid()?),
                BesidePace::Once | BesidePace::Every(_) => session.run()?,
            }
        }
        if self.pace == BesidePace::Once {
            return load().map(|done| (done, None));
        }
        let (pace, is_over) = (self.pace, &AtomicBool::new(false));
        std::thread::scope(|scope| {
            let at_end = SetAtEnd(is_over);
            let begin = |session| scope.spawn(move || BesideSession::repeat(session, pace, is_over));
            let threads: Vec<_> = self.sessions.iter_mut().map(begin).collect();
            let done = load();
            drop(at_end);
            while threads.iter().any(|thread| !thread.is_finished()) {
                pids.iter().for_each(|pid| {
                    // A server that does not answer any more has ended the sessions, too.
                    let _ = admin.query(&format!("select pg_cancel_backend({pid})"));
                });
                std::thread::sleep(LOOK_EVERY);
            }
            let ended = threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| Err("a session beside the load has panicked".into())));
            let ended: Vec<Result<u64, String>> = ended.collect();
            let done = done?;
            let rounds: Vec<u64> = ended.into_iter().collect::<Result<_, String>>()?;
            Ok((done, rounds.into_iter().min()))
        })
    }
}

impl BesideSession {
    fn run(&mut self) -> Result<(), String> {
        self.session.run(&self.script, &self.names).map_err(|e| format!("beside the load: {e}"))
    }
    fn pid(&mut self) -> Result<i64, String> {
        self.session.client.integer("select pg_backend_pid()").map_err(|e| format!("beside the load: {e}"))
    }
    /// Returns how often the script has come to its end while the load ran.
    fn repeat(&mut self, pace: BesidePace, is_over: &AtomicBool) -> Result<u64, String> {
        let mut rounds = 0;
        loop {
            if let BesidePace::Every(every) = pace {
                rest(every, is_over);
            }
            if is_over.load(Ordering::SeqCst) {
                return Ok(rounds);
            }
            match self.run() {
                // It was cancelled.
                Err(_) if pace == BesidePace::WithoutPause && is_over.load(Ordering::SeqCst) => return Ok(rounds),
                done => done?,
            }
            rounds += 1;
        }
    }
}

/// Waits so long, or until the load is over.
fn rest(time: Duration, is_over: &AtomicBool) {
    let ends = Instant::now() + time;
    while !is_over.load(Ordering::SeqCst) {
        let left = ends.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(LOOK_EVERY));
    }
}
