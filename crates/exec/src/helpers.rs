//! Threads that do a part of one statement's work beside the session itself.
//!
//! Invariants
//! 1. No more helpers run at once than the machine has cores besides one, whatever the number of statements.
//! 2. A session that ends before its helpers stops them; it waits for them only when it wants their results.
//! 3. A helper that panics is a failed statement.
//! 4. While short turns of other sessions than their own take much of a worker's time, helpers work a ninth of theirs, as
//!    those sessions do that are in the middle of a long statement (docs/decisions/0034).
//!
//! Must not know: what the work is.

use kilndb_base::env::{Env, process_monotonic_nanos};
use kilndb_base::park::{Park, ThreadPark, WakeHandle};
use kilndb_base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use kilndb_base::sync::{Arc, Mutex};
use kilndb_base::work::under;
use kilndb_base::worker_load::{WorkerLoad, session_number};
use kilndb_base::{Error, Result, memory, sqlstate};
use kilndb_storage::accesses::{self, Accesses};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// So long a helper works beside short turns before it rests for so many times as long.
const WORK_NANOS: u64 = 250_000;
const REST: u64 = 8;
/// A session that waits for its helpers looks around after so long at the latest.
const LOOK_AROUND_NANOS: u64 = 100_000_000;

pub struct HelperPool {
    env: Arc<dyn Env>,
    most: usize,
    busy: AtomicUsize,
    /// Of each worker: whose short turns take much of its time.
    loads: Mutex<Vec<Arc<WorkerLoad>>>,
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
    /// The session whose statement it works for, by its number.
    session: u64,
    loads: Vec<Arc<WorkerLoad>>,
    /// When it began to work, or rested last.
    rested_nanos: Cell<u64>,
}

impl HelperPool {
    pub fn new(env: Arc<dyn Env>, cores: usize) -> HelperPool {
        HelperPool { env, most: cores.saturating_sub(1), busy: AtomicUsize::new(0), loads: Mutex::default() }
    }

    /// Where one more worker tells its load.
    pub fn add_worker(&self) -> Arc<WorkerLoad> {
        let load = Arc::new(WorkerLoad::default());
        self.loads.lock().unwrap_or_else(|e| e.into_inner()).push(load.clone());
        load
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
        let session = session_number(&shared.wake);
        let loads = self.loads.lock().unwrap_or_else(|e| e.into_inner()).clone();
        for _ in 0..wanted {
            let taken =
                self.busy.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| (n < self.most).then_some(n + 1));
            if taken.is_err() {
                break;
            }
            let (pool, team, work, loads) = (self.clone(), shared.clone(), work.clone(), loads.clone());
            shared.running.fetch_add(1, Ordering::AcqRel);
            let body = move || {
                let park = HelperPark {
                    stop: team.stop.clone(),
                    inner: ThreadPark::new(),
                    session,
                    loads,
                    rested_nanos: Cell::new(process_monotonic_nanos()),
                };
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
            if self.env.spawn_less_urgent("helper", Box::new(body)).is_err() {
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
    /// Is any helper still at work?
    pub fn is_running(&self) -> bool {
        self.shared.running.load(Ordering::Acquire) > 0
    }
    /// Waits until all helpers are done, and takes their results.
    pub fn finish(self, park: &dyn Park) -> Result<Vec<T>> {
        while self.is_running() {
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
        // It does not rest before it waits: what wakes it in its rest would be missing then.
        self.check()?;
        let soon = process_monotonic_nanos() + LOOK_AROUND_NANOS;
        self.inner.park(Some(deadline_nanos.map_or(soon, |deadline| deadline.min(soon))))
    }
    fn park_uninterruptible(&self) {
        self.inner.park_uninterruptible();
    }
    fn checkpoint(&self) -> Result<()> {
        self.check()?;
        self.rest_if_loaded();
        Ok(())
    }
}

impl HelperPark {
    fn check(&self) -> Result<()> {
        if self.stop.load(Ordering::Acquire) {
            return Err(Error::new(sqlstate::QUERY_CANCELED, "the statement of a helper has ended"));
        }
        memory::check()
    }
    fn rest_if_loaded(&self) {
        if !self.loads.iter().any(|load| load.is_of_others(self.session)) {
            return;
        }
        let now = process_monotonic_nanos();
        let worked = now.saturating_sub(self.rested_nanos.get());
        if worked >= WORK_NANOS {
            // What it has worked before there was a load is not made up for.
            let rest = worked.min(4 * WORK_NANOS) * REST;
            // Whoever wakes it has something for it to do.
            let _ = self.inner.park(Some(now + rest));
            self.rested_nanos.set(process_monotonic_nanos());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kilndb_base::env::OsEnv;
    use kilndb_base::worker_load::LoadedBy;

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
    fn beside_short_turns_a_helper_rests() {
        let (pool, park) = (pool(2), ThreadPark::new());
        let time_of_work = || {
            let team = pool.start(1, park.wake_handle(), |helper| {
                let start = process_monotonic_nanos();
                for _ in 0..20 {
                    let end = process_monotonic_nanos() + WORK_NANOS;
                    while process_monotonic_nanos() < end {}
                    helper.checkpoint()?;
                }
                Ok(process_monotonic_nanos() - start)
            });
            team.unwrap().finish(&park).unwrap()[0]
        };
        let load = pool.add_worker();
        let (own, other) = (session_number(&park.wake_handle()), ThreadPark::new());
        for by in [LoadedBy::Several, LoadedBy::One(session_number(&other.wake_handle()))] {
            load.set(by);
            let loaded = time_of_work();
            assert!(loaded >= 20 * WORK_NANOS * (1 + REST), "{loaded} beside {by:?}");
        }
        for by in [LoadedBy::Nobody, LoadedBy::One(own)] {
            load.set(by);
            // Others may have had the processor meanwhile, but it rests no more: once is enough.
            assert!((0..50).any(|_| time_of_work() < 20 * WORK_NANOS * (1 + REST) / 2), "beside {by:?}");
        }
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
