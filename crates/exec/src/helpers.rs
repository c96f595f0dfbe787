//! Threads that do a part of one statement's work beside the session itself.
//!
//! Invariants
//! 1. No more helpers run at once than the machine has cores besides one, whatever the number of statements.
//! 2. A session that ends before its helpers stops them; it waits for them only when it wants their results.
//! 3. A helper that panics is a failed statement.
//!
//! Must not know: what the work is.

use kilndb_base::env::{Env, process_monotonic_nanos};
use kilndb_base::park::{Park, ThreadPark, WakeHandle};
use kilndb_base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use kilndb_base::sync::{Arc, Mutex};
use kilndb_base::work::under;
use kilndb_base::{Error, Result, memory, sqlstate};
use kilndb_storage::accesses::{self, Accesses};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A session that waits for its helpers looks around after so long at the latest.
const LOOK_AROUND_NANOS: u64 = 100_000_000;

pub struct HelperPool {
    env: Arc<dyn Env>,
    most: usize,
    busy: AtomicUsize,
}

/// The helpers of one statement, each of which makes a `T`.
pub struct HelperTeam<T> {
    shared: Arc<TeamResults<T>>,
}

struct TeamResults<T> {
    stop: Arc<AtomicBool>,
    running: AtomicUsize,
    /// The result of each helper, with the accesses that it has counted.
    results: Mutex<Vec<(Result<T>, Accesses)>>,
    wake: WakeHandle,
}

/// How a helper waits. There is no session that it could give way to; it stops when nobody wants its work any more.
pub struct HelperPark {
    stop: Arc<AtomicBool>,
    inner: ThreadPark,
}

impl HelperPool {
    pub fn new(env: Arc<dyn Env>, cores: usize) -> HelperPool {
        HelperPool { env, most: cores.saturating_sub(1), busy: AtomicUsize::new(0) }
    }

    /// Starts as many helpers as are wanted and free; with none, there is no team.
    pub fn start<T: Send + 'static>(
        self: &Arc<HelperPool>,
        wanted: usize,
        wake: WakeHandle,
        work: impl Fn(&HelperPark) -> Result<T> + Send + Sync + 'static,
    ) -> Option<HelperTeam<T>> {
        let stop = Arc::new(AtomicBool::new(false));
        let shared =
            Arc::new(TeamResults { stop, running: AtomicUsize::new(0), results: Mutex::new(Vec::new()), wake });
        let work = Arc::new(work);
        let limit_bytes = memory::account().limit_bytes;
        for _ in 0..wanted {
            let taken =
                self.busy.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| (n < self.most).then_some(n + 1));
            if taken.is_err() {
                break;
            }
            let (pool, team, work) = (self.clone(), shared.clone(), work.clone());
            shared.running.fetch_add(1, Ordering::AcqRel);
            let body = move || {
                let park = HelperPark { stop: team.stop.clone(), inner: ThreadPark::new() };
                let before = accesses::now();
                let limited = || {
                    memory::limit_account(limit_bytes);
                    work(&park)
                };
                let result = catch_unwind(AssertUnwindSafe(|| under(&park, limited)));
                drop(work);
                let result = result.unwrap_or_else(|_| Err(Error::internal("a helper thread of a statement failed")));
                team.results.lock().unwrap_or_else(|e| e.into_inner()).push((result, accesses::now().since(&before)));
                pool.busy.fetch_sub(1, Ordering::AcqRel);
                team.running.fetch_sub(1, Ordering::AcqRel);
                team.wake.wake();
            };
            if self.env.spawn("helper", Box::new(body)).is_err() {
                // Without a thread the session does the work alone.
                self.busy.fetch_sub(1, Ordering::AcqRel);
                shared.running.fetch_sub(1, Ordering::AcqRel);
                break;
            }
        }
        (shared.running.load(Ordering::Acquire) > 0
            || !shared.results.lock().unwrap_or_else(|e| e.into_inner()).is_empty())
        .then_some(HelperTeam { shared })
    }
}

impl<T> HelperTeam<T> {
    /// Waits until all helpers are done, and takes their results.
    pub fn finish(self, park: &dyn Park) -> Result<Vec<T>> {
        while self.shared.running.load(Ordering::Acquire) > 0 {
            park.park(Some(process_monotonic_nanos() + LOOK_AROUND_NANOS))?;
        }
        let results = std::mem::take(&mut *self.shared.results.lock().unwrap_or_else(|e| e.into_inner()));
        results.iter().for_each(|(_, theirs)| accesses::take_over(theirs));
        results.into_iter().map(|(result, _)| result).collect()
    }
}

impl<T> Drop for HelperTeam<T> {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
    }
}

impl Park for HelperPark {
    fn wake_handle(&self) -> WakeHandle {
        self.inner.wake_handle()
    }
    fn park(&self, deadline_nanos: Option<u64>) -> Result<()> {
        self.checkpoint()?;
        let soon = process_monotonic_nanos() + LOOK_AROUND_NANOS;
        self.inner.park(Some(deadline_nanos.map_or(soon, |deadline| deadline.min(soon))))
    }
    fn park_uninterruptible(&self) {
        self.inner.park_uninterruptible();
    }
    fn checkpoint(&self) -> Result<()> {
        if self.stop.load(Ordering::Acquire) {
            return Err(Error::new(sqlstate::QUERY_CANCELED, "the statement of a helper has ended"));
        }
        memory::check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kilndb_base::env::OsEnv;

    fn pool(cores: usize) -> Arc<HelperPool> {
        Arc::new(HelperPool::new(Arc::new(OsEnv), cores))
    }

    #[test]
    fn no_more_helpers_than_cores_besides_one() {
        let (pool, park) = (pool(3), ThreadPark::new());
        let gate = Arc::new(AtomicBool::new(false));
        let open = gate.clone();
        let team = pool.start(5, park.wake_handle(), move |helper| {
            while !open.load(Ordering::Acquire) {
                helper.checkpoint()?;
                kilndb_base::sync::yield_now();
            }
            Ok(7)
        });
        assert!(pool.start(1, park.wake_handle(), |_| Ok(())).is_none());
        gate.store(true, Ordering::Release);
        assert_eq!(team.unwrap().finish(&park).unwrap(), [7, 7]);
        assert_eq!(pool.start(1, park.wake_handle(), |_| Ok(1)).unwrap().finish(&park).unwrap(), [1]);
        assert!(self::pool(1).start(1, park.wake_handle(), |_| Ok(())).is_none());
    }

    #[test]
    fn who_is_not_wanted_any_more_stops_and_a_panic_is_an_error() {
        let (pool, park) = (pool(2), ThreadPark::new());
        let team = pool.start(1, park.wake_handle(), |helper| {
            loop {
                helper.checkpoint()?;
                kilndb_base::sync::yield_now();
            }
            #[allow(unreachable_code)]
            Ok(())
        });
        drop(team);
        while pool.busy.load(Ordering::Acquire) > 0 {
            kilndb_base::sync::yield_now();
        }
        let team = pool.start(1, park.wake_handle(), |_| -> Result<()> { panic!("planned") });
        assert!(team.unwrap().finish(&park).is_err());
    }
}
