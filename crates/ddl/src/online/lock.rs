//! The lock of the last step, for which nobody is made to wait long: it is asked for briefly, and given up and asked for
//! again while somebody holds the table.

use super::{Definitions, OnlineChange};
use crate::client::{Runtime, SessionControl};
use kilndb_base::env::process_monotonic_nanos;
use kilndb_base::park::{Park, WakeHandle};
use kilndb_base::sync::atomic::Ordering;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_storage::WaitPolicy;

/// Others wait behind the first request for so long at most; behind later ones for longer, up to the other limit.
const PATIENCE_NANOS: u64 = 20_000_000;
const MOST_PATIENCE_NANOS: u64 = 80_000_000;
/// Between requests others have the table for so many times as long as one has lasted.
const PAUSE: u64 = 10;

impl Definitions<'_> {
    pub(super) fn take_full_lock(&mut self, online: &mut OnlineChange, runtime: &dyn Runtime) -> Result<()> {
        let begun = process_monotonic_nanos();
        let limit = runtime.control().lock_timeout_nanos.load(Ordering::Relaxed);
        let mut patience = PATIENCE_NANOS;
        loop {
            let until = process_monotonic_nanos() + patience;
            let before = self.writer()?.savepoint();
            match self.take_locks(online, &BriefWait { runtime, until }) {
                Err(e) if e.sqlstate() == sqlstate::LOCK_NOT_AVAILABLE => {}
                taken => return taken,
            }
            // Of several locks some were there, perhaps.
            self.writer()?.rollback_to(&before, runtime)?;
            if limit != 0 && process_monotonic_nanos() - begun >= limit {
                return Err(Error::new(sqlstate::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout"));
            }
            let next = process_monotonic_nanos() + patience * PAUSE;
            while process_monotonic_nanos() < next {
                runtime.park_for_lock(next)?;
            }
            patience = (patience * 2).min(MOST_PATIENCE_NANOS);
            self.catch_up(online, runtime)?;
        }
    }
}

impl Definitions<'_> {
    fn take_locks(&mut self, online: &OnlineChange, wait: &BriefWait<'_>) -> Result<()> {
        for table in &online.tables {
            self.context_mut().lock_table(table.source.oid, table.lock, WaitPolicy::Wait, wait)?;
        }
        for (table, mode) in &online.other_locks {
            self.context_mut().lock_table(*table, *mode, WaitPolicy::Wait, wait)?;
        }
        Ok(())
    }
}

/// Waits for a lock until a moment, and gives up then.
struct BriefWait<'a> {
    runtime: &'a dyn Runtime,
    until: u64,
}

impl Park for BriefWait<'_> {
    fn wake_handle(&self) -> WakeHandle {
        self.runtime.wake_handle()
    }
    fn park(&self, deadline_nanos: Option<u64>) -> Result<()> {
        let until = deadline_nanos.map_or(self.until, |deadline| deadline.min(self.until));
        self.runtime.park_for_lock(until)?;
        if process_monotonic_nanos() >= self.until {
            return Err(Error::new(sqlstate::LOCK_NOT_AVAILABLE, "the lock is not free yet"));
        }
        Ok(())
    }
    fn park_uninterruptible(&self) {
        self.runtime.park_uninterruptible();
    }
    fn checkpoint(&self) -> Result<()> {
        self.runtime.checkpoint()
    }
    fn give_way(&self) {
        self.runtime.give_way();
    }
}

impl Runtime for BriefWait<'_> {
    fn control(&self) -> &SessionControl {
        self.runtime.control()
    }
    fn worker(&self) -> usize {
        self.runtime.worker()
    }
}
