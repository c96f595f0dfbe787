//! Morsels: a table cut into ranges of blocks, which the session and its helpers take from one counter, and what they make of
//! each, handed on in the order of the table.
//!
//! Who has made something of a morsel leaves it on the board, where the session takes it once those before it have been taken. So the result is that of one thread: the same
//! rows in the same order, and the same error behind the same rows.
//!
//! Invariants
//! 1. A morsel is taken by one thread, which leaves a result or an error for it, whatever happens to the thread.
//! 2. No morsel is taken that is too far ahead of the session ([`MORSELS_AHEAD`]), so that few results wait.
//! 3. A helper ends when it has had nothing to do for some time, as beside a client that reads slowly: other statements
//!    want it.
//!
//! Must not know: what is made of the rows.

use super::context::{ExecContext, RunState};
use super::helpers::HelperTeam;
use super::parts::{HelperFigures, begin_morsels};
use super::state::NodeState;
use kilndb_base::env::process_monotonic_nanos;
use kilndb_base::park::WakeHandle;
use kilndb_base::sync::{Arc, Mutex, MutexGuard, PoisonError};
use kilndb_base::{Error, Result};
use kilndb_plan::Op;
use std::collections::VecDeque;
use std::ops::Range;

/// Blocks of a morsel: half a megabyte, which takes a thread some 100 µs or more.
const MORSEL_BLOCKS: u32 = 64;
/// For each thread, so many morsels may be taken of which the session has not had the first one's result.
const MORSELS_AHEAD: u32 = 4;
/// A helper that finds nothing to do for so long ends.
const IDLE_NANOS: u64 = 50_000_000;
/// The session looks around after so long at the latest while it waits for a helper.
const LOOK_AROUND_NANOS: u64 = 100_000_000;

/// What is done with a morsel's rows, which the node hands on until it has no more.
pub(crate) type MorselWork<T> =
    Arc<dyn Fn(&mut NodeState, &mut RunState, &mut ExecContext<'_>) -> Result<T> + Send + Sync>;

/// The morsels of a table, as all threads see them.
pub(crate) struct MorselBoard<T> {
    blocks: u32,
    ahead: u32,
    state: Mutex<BoardState<T>>,
    session: WakeHandle,
}

struct BoardState<T> {
    /// The next morsel to be taken by a thread.
    next: u32,
    /// The morsel of which the session wants the result next.
    wanted: u32,
    /// Results from the wanted one on, of those that there are.
    results: VecDeque<Option<Result<T>>>,
    /// Helpers that wait until the session has had more results.
    waiting: Vec<WakeHandle>,
}

enum TakenMorsel {
    /// This one, by its number.
    One(u32),
    /// None now: the session has to take results first.
    None,
    /// There are no more.
    End,
}

/// Leaves an error for a morsel whose thread has not come back.
struct MorselGuard<'a, T> {
    board: &'a MorselBoard<T>,
    morsel: u32,
    is_done: bool,
}

impl<T> Drop for MorselGuard<'_, T> {
    fn drop(&mut self) {
        if !self.is_done {
            self.board.put(self.morsel, Err(Error::internal("a thread that read a part of a table has failed")));
        }
    }
}

impl<T> MorselBoard<T> {
    pub fn new(blocks: u32, threads: usize, session: WakeHandle) -> MorselBoard<T> {
        let state = BoardState { next: 0, wanted: 0, results: VecDeque::new(), waiting: Vec::new() };
        let threads = u32::try_from(threads).unwrap_or(u32::MAX);
        MorselBoard { blocks, ahead: threads.saturating_mul(MORSELS_AHEAD), state: Mutex::new(state), session }
    }
    fn state(&self) -> MutexGuard<'_, BoardState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn count(&self) -> u32 {
        self.blocks.div_ceil(MORSEL_BLOCKS)
    }
    fn blocks_of(&self, morsel: u32) -> Range<u32> {
        let first = morsel * MORSEL_BLOCKS;
        first..self.blocks.min(first.saturating_add(MORSEL_BLOCKS))
    }
    /// Takes a morsel. If there is none now, `waiter` is woken once there may be.
    fn take(&self, waiter: Option<&WakeHandle>) -> TakenMorsel {
        let mut state = self.state();
        if state.next >= self.count() {
            return TakenMorsel::End;
        }
        if state.next - state.wanted >= self.ahead {
            state.waiting.extend(waiter.cloned());
            return TakenMorsel::None;
        }
        state.next += 1;
        TakenMorsel::One(state.next - 1)
    }
    fn put(&self, morsel: u32, result: Result<T>) {
        let mut state = self.state();
        let at = (morsel - state.wanted) as usize;
        if state.results.len() <= at {
            state.results.resize_with(at + 1, || None);
        }
        state.results[at] = Some(result);
        drop(state);
        if at == 0 {
            self.session.wake();
        }
    }
    /// The result of the wanted morsel, if it is there: the next one is wanted then.
    fn take_result(&self) -> Option<Result<T>> {
        let mut state = self.state();
        let result = state.results.front_mut()?.take()?;
        state.results.pop_front();
        state.wanted += 1;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.iter().for_each(|waiter| waiter.wake());
        Some(result)
    }
    fn is_at_end(&self) -> bool {
        self.state().wanted >= self.count()
    }

    /// Works on a morsel that was taken.
    fn work_on(
        &self,
        morsel: u32,
        input: &mut NodeState,
        work: &dyn Fn(&mut NodeState, &mut RunState, &mut ExecContext<'_>) -> Result<T>,
        (rt, cx): (&mut RunState, &mut ExecContext<'_>),
    ) {
        let mut guard = MorselGuard { board: self, morsel, is_done: false };
        input.begin_part(self.blocks_of(morsel));
        let result = work(input, rt, cx);
        guard.is_done = true;
        self.put(morsel, result);
    }

    /// What a helper does: takes morsels until there are no more, or none for some time.
    pub fn help(
        &self,
        input: &mut NodeState,
        work: &dyn Fn(&mut NodeState, &mut RunState, &mut ExecContext<'_>) -> Result<T>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let handle = cx.park.wake_handle();
        let mut idle_since = None;
        loop {
            match self.take(Some(&handle)) {
                TakenMorsel::One(morsel) => {
                    idle_since = None;
                    self.work_on(morsel, input, work, (rt, cx));
                }
                TakenMorsel::None => {
                    let now = process_monotonic_nanos();
                    let until = *idle_since.get_or_insert(now) + IDLE_NANOS;
                    if now >= until {
                        return Ok(());
                    }
                    cx.park.park(Some(until))?;
                }
                TakenMorsel::End => return Ok(()),
            }
        }
    }
}

/// Morsels that the session works on together with helpers.
pub(crate) struct MorselRun<T: Send + 'static> {
    board: Arc<MorselBoard<T>>,
    work: MorselWork<T>,
    /// None: they have ended, and what they have counted is the session's.
    team: Option<(HelperTeam<()>, Arc<Mutex<HelperFigures>>)>,
}

impl<T: Send + 'static> MorselRun<T> {
    pub fn new(
        board: Arc<MorselBoard<T>>,
        work: MorselWork<T>,
        team: HelperTeam<()>,
        figures: Arc<Mutex<HelperFigures>>,
    ) -> MorselRun<T> {
        MorselRun { board, work, team: Some((team, figures)) }
    }

    /// What has been made of the next morsel in the order of the table. None: there are no more. `input` is the one with which
    /// it was begun.
    pub fn next(&mut self, input: &mut NodeState, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Option<T>> {
        loop {
            if let Some(result) = self.board.take_result() {
                return result.map(Some);
            }
            if self.board.is_at_end() {
                self.finish(rt, cx)?;
                return Ok(None);
            }
            match self.board.take(None) {
                TakenMorsel::One(morsel) => self.board.work_on(morsel, input, &*self.work, (rt, cx)),
                // A helper works on the one that is wanted.
                _ => cx.park.park(Some(process_monotonic_nanos() + LOOK_AROUND_NANOS))?,
            }
        }
    }

    fn finish(&mut self, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let Some((team, figures)) = self.team.take() else { return Ok(()) };
        let launched = team.finish(cx.park)?.len();
        figures.lock().unwrap_or_else(PoisonError::into_inner).add_to(rt, cx);
        rt.workers_launched += launched as u64;
        Ok(())
    }
}

/// An input whose batches the session gets in their order while several threads read it.
pub(crate) struct BatchMorsels<B: Send + 'static> {
    run: MorselRun<Vec<B>>,
    /// Batches of the present morsel that are still to come.
    batches: std::vec::IntoIter<B>,
    spare: SpareBatches<B>,
}

/// Batches that have been read, whose memory is used again.
struct SpareBatches<B>(Arc<Mutex<Vec<B>>>);

impl<B: Default> SpareBatches<B> {
    fn take(&self) -> B {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }
    fn put(&self, batch: B) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(batch);
    }
}

/// Is there more to do for the rows than to read them? Handing them over costs what decoding them costs.
fn computes(op: &Op) -> bool {
    match op {
        Op::SeqScan(scan) => scan.filter.is_some(),
        _ => true,
    }
}

impl<B: Default + Send + 'static> BatchMorsels<B> {
    /// `fill` puts the next rows into a batch, in place of what was in it; false: there are none. None: one thread reads all.
    pub fn begin(
        (input, is_used): (&mut NodeState, &[bool]),
        fill: impl Fn(&mut NodeState, &mut B, &mut RunState, &mut ExecContext<'_>) -> Result<bool> + Send + Sync + 'static,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<Option<BatchMorsels<B>>> {
        if !computes(&input.node().op) {
            return Ok(None);
        }
        let spare = SpareBatches(Arc::default());
        let spares = SpareBatches(spare.0.clone());
        let read = move |input: &mut NodeState, rt: &mut RunState, cx: &mut ExecContext<'_>| {
            let (mut batches, mut batch) = (Vec::new(), spares.take());
            while fill(input, &mut batch, rt, cx)? {
                batches.push(std::mem::replace(&mut batch, spares.take()));
            }
            spares.put(batch);
            Ok(batches)
        };
        let run = begin_morsels((input, is_used), Arc::new(read), rt, cx)?;
        Ok(run.map(|run| BatchMorsels { run, batches: Vec::new().into_iter(), spare }))
    }

    /// Puts the next batch in place of `batch`. False: there is none.
    pub fn next(
        &mut self,
        batch: &mut B,
        input: &mut NodeState,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        loop {
            if let Some(next) = self.batches.next() {
                self.spare.put(std::mem::replace(batch, next));
                return Ok(true);
            }
            let Some(batches) = self.run.next(input, rt, cx)? else { return Ok(false) };
            self.batches = batches.into_iter();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kilndb_base::park::{Park, ThreadPark};

    fn board(morsels: u32) -> MorselBoard<u32> {
        MorselBoard::new(morsels * MORSEL_BLOCKS - 1, 1, ThreadPark::new().wake_handle())
    }

    #[test]
    fn results_leave_in_the_order_of_the_table() {
        let board = board(4);
        assert_eq!(board.blocks_of(3), 3 * MORSEL_BLOCKS..4 * MORSEL_BLOCKS - 1);
        let taken: Vec<u32> = std::iter::from_fn(|| match board.take(None) {
            TakenMorsel::One(morsel) => Some(morsel),
            _ => None,
        })
        .collect();
        assert_eq!(taken, [0, 1, 2, 3]);
        board.put(2, Ok(2));
        board.put(1, Err(Error::internal("planned")));
        assert!(board.take_result().is_none());
        board.put(0, Ok(0));
        assert_eq!(board.take_result().unwrap().unwrap(), 0);
        assert!(board.take_result().unwrap().is_err());
        assert_eq!(board.take_result().unwrap().unwrap(), 2);
        assert!(board.take_result().is_none() && !board.is_at_end());
        board.put(3, Ok(3));
        assert_eq!(board.take_result().unwrap().unwrap(), 3);
        assert!(board.take_result().is_none() && board.is_at_end());
        assert!(matches!(board.take(None), TakenMorsel::End));
    }

    #[test]
    fn nobody_goes_far_ahead_of_the_session() {
        let board = board(100);
        let mut taken = 0;
        while let TakenMorsel::One(_) = board.take(None) {
            taken += 1;
        }
        assert_eq!(taken, MORSELS_AHEAD);
        let waiter = ThreadPark::new();
        assert!(matches!(board.take(Some(&waiter.wake_handle())), TakenMorsel::None));
        board.put(0, Ok(0));
        assert!(board.take_result().is_some());
        // It was woken, so it does not wait.
        waiter.park(None).unwrap();
        assert!(matches!(board.take(None), TakenMorsel::One(n) if n == MORSELS_AHEAD));
    }

    #[test]
    fn a_thread_that_panics_leaves_an_error() {
        let board = board(1);
        assert!(matches!(board.take(None), TakenMorsel::One(0)));
        drop(MorselGuard { board: &board, morsel: 0, is_done: false });
        assert!(board.take_result().unwrap().is_err());
    }
}
