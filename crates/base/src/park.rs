//! How lower layers wait without knowing what a session is.
//!
//! Storage never blocks a thread on another session: it registers a [`Wake`] handle with whatever it
//! waits for and calls [`Park::park`]. The server parks a coroutine; a test parks a thread.
//!
//! Invariant: nothing is held across a park: no latch, no epoch guard, no mutex guard.

use crate::Result;
use crate::env::process_monotonic_nanos;
use crate::sync::{Arc, Condvar, Mutex};

/// Wakes one parked session; callable from any thread, any number of times, early or late.
pub trait Wake: Send + Sync {
    fn wake(&self);
}
pub type WakeHandle = Arc<dyn Wake>;

/// The statement's side of waiting.
pub trait Park {
    /// A handle that wakes this session. Wakes that come before the park are not lost.
    fn wake_handle(&self) -> WakeHandle;
    /// Waits for a wake-up or until `deadline_nanos` of the environment's monotonic clock. May return
    /// early: callers re-check. Fails when the session is cancelled, timed out or terminated.
    fn park(&self, deadline_nanos: Option<u64>) -> Result<()>;
    /// Parks as [`Park::park`] does with a deadline, for somebody who waits for others' locks and looks for himself
    /// whether they are gone.
    fn park_for_lock(&self, deadline_nanos: u64) -> Result<()> {
        self.park(Some(deadline_nanos))
    }
    /// Parks as [`Park::park`] does, but a cancel request does not end the wait (used where the answer must be known,
    /// as after a commit record has its place in the log).
    fn park_uninterruptible(&self);
    /// Whether somebody starts a flush of the log for those who wait for one, once all that can run has run. Then more
    /// of them share it.
    fn is_flushed_for(&self) -> bool {
        false
    }
    /// A long computation calls this now and then: gives way to other sessions when the time slice is
    /// used up; fails when the session is cancelled.
    fn checkpoint(&self) -> Result<()>;
    /// A checkpoint for steps that mostly take less than a look at the clock, and are followed by others.
    fn step(&self) -> Result<()> {
        self.checkpoint()
    }
    /// Calls `f` where it takes nobody else's turn, and waits for its end, which a cancel request does not hasten. Fails if
    /// the session is cancelled before. Who has no others to give way to calls it at once.
    fn run_apart(&self, f: &mut (dyn FnMut() + Send)) -> Result<()> {
        f();
        Ok(())
    }
    /// For how long in all it has waited for locks, for its turn, and for its client to take its output, in nanoseconds; 0
    /// if nobody counts.
    fn waited_nanos(&self) -> u64 {
        0
    }
    /// Gives way as [`Park::checkpoint`] does and is not cancelled: for what must be done to its end, as a rollback.
    fn give_way(&self) {}
}

/// Parks a thread: for tests, recovery and background work.
pub struct ThreadPark {
    inner: Arc<ThreadWake>,
}
struct ThreadWake {
    woken: Mutex<bool>,
    cond: Condvar,
}
impl Wake for ThreadWake {
    fn wake(&self) {
        let mut woken = self.woken.lock().unwrap_or_else(|e| e.into_inner());
        *woken = true;
        self.cond.notify_one();
    }
}
impl Default for ThreadPark {
    fn default() -> Self {
        ThreadPark { inner: Arc::new(ThreadWake { woken: Mutex::new(false), cond: Condvar::new() }) }
    }
}
impl ThreadPark {
    pub fn new() -> ThreadPark {
        ThreadPark::default()
    }
    fn wait(&self, deadline_nanos: Option<u64>) {
        let mut woken = self.inner.woken.lock().unwrap_or_else(|e| e.into_inner());
        while !*woken {
            match deadline_nanos {
                None => woken = self.inner.cond.wait(woken).unwrap_or_else(|e| e.into_inner()),
                Some(deadline) => {
                    let left = deadline.saturating_sub(process_monotonic_nanos());
                    if left == 0 {
                        break;
                    }
                    let left = std::time::Duration::from_nanos(left);
                    woken = self.inner.cond.wait_timeout(woken, left).unwrap_or_else(|e| e.into_inner()).0;
                }
            }
        }
        *woken = false;
    }
}
impl Park for ThreadPark {
    fn wake_handle(&self) -> WakeHandle {
        self.inner.clone()
    }
    fn park(&self, deadline_nanos: Option<u64>) -> Result<()> {
        self.wait(deadline_nanos);
        Ok(())
    }
    fn park_uninterruptible(&self) {
        self.wait(None);
    }
    fn checkpoint(&self) -> Result<()> {
        Ok(())
    }
}
