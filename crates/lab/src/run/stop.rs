//! Somebody presses Ctrl-C: what runs is ended, what was made is taken away, and what was measured is kept.
//!
//! 1. The signal's handler does nothing but say that it came; a thread ends the lab's sessions on all targets, so that whatever waits
//!    for a server fails and goes on to its end.
//! 2. A second signal ends the process at once.
//!
//! Must not know: experiments.

use super::LOOK_EVERY;
use crate::target::Target;
use std::sync::atomic::{AtomicBool, Ordering};

static STOPPED: AtomicBool = AtomicBool::new(false);

/// Has somebody asked the lab to stop?
pub fn is_stopped() -> bool {
    STOPPED.load(Ordering::SeqCst)
}

extern "C" fn note_signal(signal: libc::c_int) {
    STOPPED.store(true, Ordering::SeqCst);
    // SAFETY: signal(2) may be called in a handler; the default action ends the process at the second signal.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Listens to the signals that ask a program to stop.
pub struct StopWatch;

impl StopWatch {
    pub fn new() -> StopWatch {
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            let handler: extern "C" fn(libc::c_int) = note_signal;
            // SAFETY: the handler writes to an atomic and calls signal(2), which are allowed in handlers.
            unsafe { libc::signal(signal, handler as libc::sighandler_t) };
        }
        StopWatch
    }

    /// Runs `action`; once somebody asks to stop, the lab's sessions end.
    pub fn guard<T>(&self, targets: &[Target], action: impl FnOnce() -> T) -> T {
        let is_over = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while !is_over.load(Ordering::Acquire) && !is_stopped() {
                    std::thread::sleep(LOOK_EVERY);
                }
                if is_stopped() {
                    targets.iter().for_each(Target::end_sessions);
                }
            });
            let _over = crate::guard::SetAtEnd(is_over);
            action()
        })
    }
}

impl Default for StopWatch {
    fn default() -> StopWatch {
        StopWatch::new()
    }
}
