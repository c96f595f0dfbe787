//! Threads for work that can neither give way nor be cancelled, as that of the C parser: the session waits, and its
//! worker turns to others.
//!
//! Invariants
//! 1. Nobody comes back before the work he has asked for is over: it may borrow from him.
//! 2. No more such threads run at once than the machine has cores besides one, but one always may.
//!
//! Must not know: what the work is.

use kilndb_base::Result;
use kilndb_base::env::{Env, process_monotonic_nanos};
use kilndb_base::park::{Park, WakeHandle};
use kilndb_base::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The longest that somebody who waits for a turn goes without looking around, in nanoseconds.
const LOOK_AROUND_NANOS: u64 = 100_000_000;

pub struct SideThreads {
    env: Arc<dyn Env>,
    most: usize,
    turns: Arc<Mutex<SideThreadTurns>>,
}

#[derive(Default)]
struct SideThreadTurns {
    running: usize,
    waiting: Vec<WakeHandle>,
}

type SideThreadResult = Arc<Mutex<Option<Result<(), Box<dyn Any + Send>>>>>;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leaves its turn to others when it goes out of scope.
struct SideThreadTurn(Arc<Mutex<SideThreadTurns>>);
impl Drop for SideThreadTurn {
    fn drop(&mut self) {
        let waiting = {
            let mut turns = locked(&self.0);
            turns.running -= 1;
            std::mem::take(&mut turns.waiting)
        };
        waiting.iter().for_each(|w| w.wake());
    }
}

impl SideThreads {
    pub fn new(env: Arc<dyn Env>) -> SideThreads {
        let cores = std::thread::available_parallelism().map_or(2, |n| n.get());
        SideThreads { env, most: (cores - 1).max(1), turns: Arc::default() }
    }

    /// Runs `f` on a thread of its own while `park` waits. Fails if the session is cancelled before it is its turn.
    pub fn run(&self, park: &dyn Park, f: &mut (dyn FnMut() + Send)) -> Result<()> {
        let turn = self.wait_for_turn(park)?;
        let ended: SideThreadResult = Arc::default();
        let (told, wake) = (ended.clone(), park.wake_handle());
        // SAFETY: only the lifetime changes. This function does not return before the thread has told its end, after
        // which it does not use `f` any more (invariant 1); nothing in between can unwind.
        let f: &'static mut (dyn FnMut() + Send) = unsafe { std::mem::transmute(f) };
        let work = Arc::new(Mutex::new(Some(f)));
        let taken = work.clone();
        let body = move || {
            let f = locked(&taken).take();
            let end = catch_unwind(AssertUnwindSafe(|| f.into_iter().for_each(|f| f())));
            *locked(&told) = Some(end);
            drop(turn);
            wake.wake();
        };
        if self.env.spawn_less_urgent("apart", Box::new(body)).is_err() {
            // The worker does it: late for the others is better than not at all.
            locked(&work).take().into_iter().for_each(|f| f());
            return Ok(());
        }
        loop {
            let end = locked(&ended).take();
            match end {
                Some(Ok(())) => return Ok(()),
                Some(Err(panic)) => resume_unwind(panic),
                None => park.park_uninterruptible(),
            }
        }
    }

    fn wait_for_turn(&self, park: &dyn Park) -> Result<SideThreadTurn> {
        loop {
            {
                let mut turns = locked(&self.turns);
                if turns.running < self.most {
                    turns.running += 1;
                    return Ok(SideThreadTurn(self.turns.clone()));
                }
                turns.waiting.push(park.wake_handle());
            }
            park.park(Some(process_monotonic_nanos() + LOOK_AROUND_NANOS))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kilndb_base::env::OsEnv;
    use kilndb_base::park::ThreadPark;
    use kilndb_base::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn work_is_over_when_the_call_returns_and_takes_turns() {
        let apart = Arc::new(SideThreads::new(Arc::new(OsEnv)));
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let sessions = (0..6).map(|n| {
            let (apart, running, most) = (apart.clone(), running.clone(), most.clone());
            std::thread::spawn(move || {
                let park = ThreadPark::new();
                let own = std::thread::current().id();
                let mut sum = 0;
                let mut work = || {
                    assert_ne!(std::thread::current().id(), own);
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    (0..1000).for_each(|i| sum += i * n);
                    running.fetch_sub(1, Ordering::SeqCst);
                };
                apart.run(&park, &mut work).unwrap();
                assert_eq!(sum, 499_500 * n);
            })
        });
        let sessions: Vec<_> = sessions.collect();
        sessions.into_iter().for_each(|s| s.join().unwrap());
        assert!((1..=apart.most).contains(&most.load(Ordering::SeqCst)));
    }

    #[test]
    fn a_panic_is_the_callers() {
        let apart = SideThreads::new(Arc::new(OsEnv));
        let gone = catch_unwind(AssertUnwindSafe(|| apart.run(&ThreadPark::new(), &mut || panic!("planted"))));
        assert!(gone.is_err());
        assert_eq!(locked(&apart.turns).running, 0);
    }
}
