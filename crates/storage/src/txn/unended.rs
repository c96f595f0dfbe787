//! Transactions that could not be rolled back, and the errors that those get which wait for them.
//!
//! Must not know: what they had done.

use kilndb_base::hash::HashMap;
use kilndb_base::sync::Mutex;
use kilndb_base::sync::atomic::{AtomicBool, Ordering::*};
use kilndb_base::{Error, Result};

/// Transactions that could not be rolled back, because a page cannot be read. Each stays in progress for everybody, so
/// readers see what was there before it; whoever would have to wait for it gets an error instead. Recovery tries again.
#[derive(Default)]
pub(crate) struct UnendedRollbacks {
    any: AtomicBool,
    causes: Mutex<HashMap<u64, Error>>,
}
impl UnendedRollbacks {
    pub(super) fn add(&self, xid: u64, cause: &Error) {
        crate::lock(&self.causes).insert(xid, cause.clone());
        self.any.store(true, SeqCst);
    }
    /// Err: the transaction will not end as long as this process lives.
    #[inline]
    pub fn check(&self, xid: u64) -> Result<()> {
        if self.any.load(SeqCst) { self.look_for(xid) } else { Ok(()) }
    }
    #[cold]
    fn look_for(&self, xid: u64) -> Result<()> {
        let Some(cause) = crate::lock(&self.causes).get(&xid).cloned() else { return Ok(()) };
        Err(Error::corrupted(format!("transaction {xid} could not be rolled back"))
            .with_detail(cause.message())
            .with_hint("What it has changed cannot be changed again before the server has recovered the page."))
    }
}
