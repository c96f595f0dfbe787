//! Whose short turns take much of a worker's time. A worker tells it to the helper threads of long statements.
//!
//! Invariants
//! 1. What one session did in short turns before its long statement is nothing for that statement's helpers to rest for.
//!
//! Must not know: workers, helpers, and how the load is measured.

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

/// What one worker tells of its load.
#[derive(Default)]
pub struct WorkerLoad {
    by: AtomicU64,
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
    /// Short turns of others than this session take much of the worker's time.
    pub fn is_of_others(&self, session: u64) -> bool {
        let by = self.by.load(Ordering::Relaxed);
        by != NOBODY && by != session
    }
}
