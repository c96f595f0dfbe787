//! Somebody presses Ctrl-C: what runs is ended, what was made is taken away, and what was measured is kept.
//!
//! 1. The signal's handler does nothing but count; a thread ends the lab's sessions on all targets, so that whatever waits for a server
//!    fails and goes on to its end.
//! 2. At a second signal that thread ends the temporary servers, whose folders go with them, and the process. A third one ends the
//!    process, whatever it does.
//!
//! Must not know: experiments.

use super::LOOK_EVERY;
use crate::target::Target;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Signals that have come.
static SIGNALS: AtomicU32 = AtomicU32::new(0);

/// What shells say of a process that SIGINT has ended.
const EXIT_STATUS: i32 = 128 + libc::SIGINT;

/// Has somebody asked the lab to stop?
pub fn is_stopped() -> bool {
    SIGNALS.load(Ordering::SeqCst) > 0
}
fn is_urged() -> bool {
    SIGNALS.load(Ordering::SeqCst) > 1
}

extern "C" fn note_signal(signal: libc::c_int) {
    if SIGNALS.fetch_add(1, Ordering::SeqCst) > 0 {
        // SAFETY: signal(2) may be called in a handler; the default action ends the process at the next signal.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Listens to the signals that ask a program to stop.
pub struct StopWatch;

impl StopWatch {
    pub fn new() -> StopWatch {
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            let handler: extern "C" fn(libc::c_int) = note_signal;
            // SAFETY: the handler adds to an atomic and calls signal(2), which are allowed in handlers.
            unsafe { libc::signal(signal, handler as libc::sighandler_t) };
        }
        StopWatch
    }

    /// Runs `action`; once somebody asks to stop, the lab's sessions end.
    pub fn guard<T>(&self, targets: &[Target], action: impl FnOnce() -> T) -> T {
        let is_over = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                wait_for(is_over, is_stopped);
                if is_stopped() && !is_urged() {
                    // A server that does not answer keeps nobody from being urged.
                    std::thread::scope(|scope| {
                        targets.iter().for_each(|target| drop(scope.spawn(|| target.end_sessions())));
                        wait_for(is_over, is_urged);
                        end_if_urged(targets);
                    });
                }
                end_if_urged(targets);
            });
            let _over = crate::guard::SetAtEnd(is_over);
            action()
        })
    }
}

fn wait_for(is_over: &AtomicBool, what: fn() -> bool) {
    while !is_over.load(Ordering::Acquire) && !what() {
        std::thread::sleep(LOOK_EVERY);
    }
}

fn end_if_urged(targets: &[Target]) {
    if is_urged() {
        targets.iter().for_each(Target::take_away);
        std::process::exit(EXIT_STATUS);
    }
}

impl Default for StopWatch {
    fn default() -> StopWatch {
        StopWatch::new()
    }
}
