//! What several threads make of numbered pieces of work, handed on in the order of the numbers.
//!
//! Invariants
//! 1. An outcome leaves once all before it have left.
//! 2. No more than a given number of pieces are on their way: begun, or made and not taken.
//!
//! Must not know: what the work is, and who does it.

use kilndb_base::park::WakeHandle;
use kilndb_base::sync::{Arc, Mutex, PoisonError};
use std::collections::VecDeque;

/// For each thread, so many pieces may be begun of which the session has not had the first one's outcome.
const PIECES_AHEAD: u64 = 4;
/// A helper that finds nothing to do for so long ends: other statements want it.
pub(crate) const IDLE_NANOS: u64 = 50_000_000;
/// The session looks around after so long at the latest while it waits for a helper.
pub(crate) const LOOK_AROUND_NANOS: u64 = 100_000_000;

pub(crate) struct OutcomeQueue<T> {
    ahead: u64,
    /// How many pieces have been begun.
    begun: u64,
    /// The piece whose outcome the session wants next.
    wanted: u64,
    /// Outcomes from the wanted one on, of those that there are.
    outcomes: VecDeque<Option<T>>,
    /// Who waits until the session has had more of them.
    waiting: Vec<WakeHandle>,
}

impl<T> OutcomeQueue<T> {
    pub fn new(threads: usize) -> OutcomeQueue<T> {
        let ahead = threads as u64 * PIECES_AHEAD;
        OutcomeQueue { ahead, begun: 0, wanted: 0, outcomes: VecDeque::new(), waiting: Vec::new() }
    }
    /// May one more piece be begun?
    pub fn has_room(&self) -> bool {
        self.begun - self.wanted < self.ahead
    }
    /// The number of one more piece.
    pub fn begin(&mut self) -> u64 {
        self.begun += 1;
        self.begun - 1
    }
    /// Wakes this one when the session takes the next outcome.
    pub fn wait(&mut self, waiter: &WakeHandle) {
        self.waiting.push(waiter.clone());
    }
    /// Leaves the outcome of a piece. True: it is the one that is wanted.
    pub fn put(&mut self, number: u64, outcome: T) -> bool {
        let at = (number - self.wanted) as usize;
        if self.outcomes.len() <= at {
            self.outcomes.resize_with(at + 1, || None);
        }
        self.outcomes[at] = Some(outcome);
        at == 0
    }
    /// The outcome of the wanted piece, if it is there, and who waits for this: the next one is wanted then.
    pub fn take(&mut self) -> Option<(T, Vec<WakeHandle>)> {
        let outcome = self.outcomes.front_mut()?.take()?;
        self.outcomes.pop_front();
        self.wanted += 1;
        Some((outcome, std::mem::take(&mut self.waiting)))
    }
    /// Is there a piece whose outcome the session has not had?
    pub fn is_any_missing(&self) -> bool {
        self.wanted < self.begun
    }
}

/// Leaves an outcome for work whose thread has not come back.
pub(crate) struct OutcomeGuard<F: FnMut()> {
    leave: F,
    is_done: bool,
}

impl<F: FnMut()> OutcomeGuard<F> {
    pub fn new(leave: F) -> OutcomeGuard<F> {
        OutcomeGuard { leave, is_done: false }
    }
    /// The thread has come back, and leaves the outcome itself.
    pub fn done(mut self) {
        self.is_done = true;
    }
}

impl<F: FnMut()> Drop for OutcomeGuard<F> {
    fn drop(&mut self) {
        if !self.is_done {
            (self.leave)();
        }
    }
}

/// What all threads are done with, whose memory is used again: that of a piece is too large to be asked of the system each time.
pub struct Spares<T>(Arc<Mutex<Vec<T>>>);

impl<T> Clone for Spares<T> {
    fn clone(&self) -> Spares<T> {
        Spares(self.0.clone())
    }
}

impl<T> Default for Spares<T> {
    fn default() -> Spares<T> {
        Spares(Arc::default())
    }
}

impl<T: Default> Spares<T> {
    pub fn take(&self) -> T {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }
    pub fn put(&self, spare: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(spare);
    }
    pub(crate) fn drop_all(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
