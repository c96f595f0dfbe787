//! Lock owners apart from transactions, for session-level locks.
//!
//! Must not know: whose locks they are, and for what.

use super::table::LockRequest;
use crate::api::{LockMode, LockTag, WaitPolicy};
use crate::core::Core;
use kilndb_base::Result;
use kilndb_base::park::Park;
use std::sync::Arc;

/// Holds advisory locks apart from transactions (a session). Dropping it releases them.
pub struct LockOwner {
    pub(crate) core: Arc<Core>,
    pub(crate) owner: u64,
    held: Vec<(LockTag, LockMode)>,
}
impl LockOwner {
    /// Makes an owner with the number of the session's transaction, so that the two do not block each other.
    pub(crate) fn new(core: Arc<Core>, owner: u64) -> LockOwner {
        LockOwner { core, owner, held: Vec::new() }
    }
    pub fn holds_nothing(&self) -> bool {
        self.held.is_empty()
    }
    /// Takes a lock. Ok(false): the policy is NoWait or SkipLocked and the lock is not free.
    pub fn lock(&mut self, tag: LockTag, mode: LockMode, wait: WaitPolicy, park: &dyn Park) -> Result<bool> {
        let got = self.core.locks.lock(&self.core.waits, LockRequest { owner: self.owner, tag, mode, wait }, park)?;
        if got {
            self.held.push((tag, mode));
        }
        Ok(got)
    }
    /// Releases a lock once; false if this owner does not hold it.
    pub fn unlock(&mut self, tag: LockTag, mode: LockMode) -> bool {
        let Some(at) = self.held.iter().rposition(|h| *h == (tag, mode)) else { return false };
        self.held.remove(at);
        self.core.locks.unlock(&self.core.waits, self.owner, tag, mode)
    }
    pub(crate) fn unlock_all(&mut self) {
        for (tag, mode) in std::mem::take(&mut self.held) {
            self.core.locks.unlock(&self.core.waits, self.owner, tag, mode);
        }
    }
    /// The number that `Engine::locks_snapshot` shows.
    pub fn id(&self) -> u64 {
        self.owner
    }
}
impl Drop for LockOwner {
    fn drop(&mut self) {
        self.unlock_all();
    }
}
