//! Whose short turns take much of a worker's time. A worker tells it to the helper threads of long statements.
//!
//! Invariants
//! 1. What one session did in short turns before its long statement is nothing for that statement's helpers to rest for.
//! 2. A worker that sleeps for long has no load, though it does not wake up to tell so.
//!
//! Must not know: workers, helpers, and how the load is measured.

use crate::env::process_monotonic_nanos;
use crate::park::WakeHandle;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};

const NOBODY: u64 = 0;
/// No session's number: that is the address of something aligned to more than a byte.
const SEVERAL: u64 = 1;

/// Whose short turns take much of a worker's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadedBy {
    Nobody,
    /// One session, by its [`session_number`].
    One(u64),
    Several,
}

/// A worker that sleeps for so long has nothing to do. Between short turns it sleeps less.
const LONG_SLEEP_NANOS: u64 = 20_000_000;

/// What one worker tells of its load.
#[derive(Default)]
pub struct WorkerLoad {
    by: AtomicU64,
    /// Since when it sleeps; 0: it is awake.
    asleep_since_nanos: AtomicU64,
}

/// What tells a session from all others that are there.
pub fn session_number(wake: &WakeHandle) -> u64 {
    Arc::as_ptr(wake).cast::<u8>() as u64
}

impl WorkerLoad {
    pub fn set(&self, by: LoadedBy) {
        let by = match by {
            LoadedBy::Nobody => NOBODY,
            LoadedBy::Several => SEVERAL,
            LoadedBy::One(session) => session,
        };
        self.by.store(by, Ordering::Relaxed);
    }
    /// The worker goes to sleep.
    pub fn set_asleep(&self, now_nanos: u64) {
        self.asleep_since_nanos.store(now_nanos, Ordering::Relaxed);
    }
    /// The worker has woken up.
    pub fn set_awake(&self) {
        self.asleep_since_nanos.store(0, Ordering::Relaxed);
    }
    /// Short turns of others than this session take much of the worker's time.
    pub fn is_of_others(&self, session: u64) -> bool {
        let by = self.by.load(Ordering::Relaxed);
        by != NOBODY && by != session && !self.sleeps_long(process_monotonic_nanos())
    }
    fn sleeps_long(&self, now_nanos: u64) -> bool {
        let since = self.asleep_since_nanos.load(Ordering::Relaxed);
        since != 0 && now_nanos.saturating_sub(since) >= LONG_SLEEP_NANOS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sleeps_long_has_no_load() {
        let load = WorkerLoad::default();
        load.set(LoadedBy::Several);
        assert!(load.is_of_others(8));
        let now = process_monotonic_nanos();
        load.set_asleep(now);
        assert!(!load.sleeps_long(now + LONG_SLEEP_NANOS - 1) && load.sleeps_long(now + LONG_SLEEP_NANOS));
        load.set_asleep(now.saturating_sub(LONG_SLEEP_NANOS));
        assert!(!load.is_of_others(8));
        load.set_awake();
        assert!(load.is_of_others(8));
    }
}
