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
    /// Runs a load while the sessions do what they are to do. `admin` is a session that can cancel what others do.
    pub fn during<T>(mut self, admin: &mut Client, load: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        let mut pids = Vec::new();
        for session in &mut self.sessions {
            match self.pace {
                BesidePace::WithoutPause => pids.push(session.pid()?),
                BesidePace::Once | BesidePace::Every(_) => session.run()?,
            }
        }
        if self.pace == BesidePace::Once {
            return load();
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
            let failed = threads.into_iter().filter_map(|thread| match thread.join() {
                Ok(ended) => ended.err(),
                Err(_) => Some("a session beside the load has panicked".into()),
            });
            let failed = failed.collect::<Vec<String>>();
            let done = done?;
            failed.into_iter().next().map_or(Ok(done), Err)
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
    fn repeat(&mut self, pace: BesidePace, is_over: &AtomicBool) -> Result<(), String> {
        loop {
            if let BesidePace::Every(every) = pace {
                rest(every, is_over);
            }
            if is_over.load(Ordering::SeqCst) {
                return Ok(());
            }
            match self.run() {
                // It was cancelled.
                Err(_) if pace == BesidePace::WithoutPause && is_over.load(Ordering::SeqCst) => return Ok(()),
                done => done?,
            }
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
