//! Pieces of a statement's input that the session gives out, and what it and its helpers make of each, handed back in the order
//! in which they were given out (docs/decisions/0070).
//!
//! Invariants
//! 1. A piece is worked on by one thread, which leaves an outcome for it, whatever happens to the thread.
//! 2. What is made of pieces may be made without catalogs, session and client: it depends on the piece, on the settings of
//!    formats and on the times of transaction and statement.
//! 3. A helper that finds no piece for some time ends; the session starts another one when there are pieces again.
//!
//! Must not know: what pieces are and what is made of them.

use super::context::SourceContext;
use super::helpers::HelperTeam;
use super::outcomes::{IDLE_NANOS, LOOK_AROUND_NANOS, OutcomeGuard, OutcomeQueue};
use kilndb_base::env::process_monotonic_nanos;
use kilndb_base::park::{Park, WakeHandle};
use kilndb_base::sync::{Arc, Mutex, MutexGuard, PoisonError};
use kilndb_base::{Error, Result};
use kilndb_types::context::NoHost;
use kilndb_types::{EvalContext, FormatSettings};
use std::cell::Cell;
use std::collections::VecDeque;

/// What is done with a piece, on any thread.
pub trait PieceWork: Send + Sync + 'static {
    type Piece: Send + 'static;
    type Made: Send + 'static;
    fn work_on(&self, piece: Self::Piece, eval: &EvalContext<'_>) -> Self::Made;
}

/// What values are made with where there is no session.
#[derive(Clone)]
pub(crate) struct DetachedEval {
    format: FormatSettings,
    transaction_timestamp: i64,
    statement_timestamp: i64,
}

impl DetachedEval {
    pub fn of(eval: &EvalContext<'_>) -> DetachedEval {
        DetachedEval {
            format: eval.format.clone(),
            transaction_timestamp: eval.transaction_timestamp,
            statement_timestamp: eval.statement_timestamp,
        }
    }
    /// `random_state`: what is made on other threads draws no random numbers.
    pub fn context<'c>(&'c self, random_state: &'c Cell<[u64; 2]>) -> EvalContext<'c> {
        EvalContext {
            format: &self.format,
            transaction_timestamp: self.transaction_timestamp,
            statement_timestamp: self.statement_timestamp,
            host: &NoHost,
            random_state,
            clock_was_read: None,
        }
    }
}

/// The pieces as all threads see them.
struct PieceBoard<W: PieceWork> {
    work: W,
    state: Mutex<PieceState<W>>,
    session: WakeHandle,
}

struct PieceState<W: PieceWork> {
    outcomes: OutcomeQueue<Result<W::Made>>,
    /// Pieces that nobody works on yet, by their numbers.
    untaken: VecDeque<(u64, W::Piece)>,
    /// Helpers that wait for one.
    idle: Vec<WakeHandle>,
    /// Nobody wants outcomes any more.
    is_closed: bool,
}

impl<W: PieceWork> PieceBoard<W> {
    fn state(&self) -> MutexGuard<'_, PieceState<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn add(&self, piece: W::Piece) {
        let mut state = self.state();
        let number = state.outcomes.begin();
        state.untaken.push_back((number, piece));
        let idle = state.idle.pop();
        drop(state);
        if let Some(idle) = idle {
            idle.wake();
        }
    }
    fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.untaken.clear();
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        idle.iter().for_each(|idle| idle.wake());
    }
    /// Leaves an error for a piece whose thread has not come back.
    fn guard(&self, number: u64) -> OutcomeGuard<impl FnMut()> {
        OutcomeGuard::new(move || {
            self.put(number, Err(Error::internal("a thread that read a part of the input has failed")));
        })
    }
    fn put(&self, number: u64, outcome: Result<W::Made>) {
        let is_wanted = self.state().outcomes.put(number, outcome);
        if is_wanted {
            self.session.wake();
        }
    }
    fn take_outcome(&self) -> Option<Result<W::Made>> {
        self.state().outcomes.take().map(|(outcome, _)| outcome)
    }
    /// Works on the first piece that nobody works on; false: there is none, and `waiter` is woken once there is.
    fn work_on_one(&self, waiter: Option<&WakeHandle>, eval: &EvalContext<'_>) -> bool {
        let mut state = self.state();
        let Some((number, piece)) = state.untaken.pop_front() else {
            state.idle.extend(waiter.cloned());
            return false;
        };
        drop(state);
        let guard = self.guard(number);
        let made = self.work.work_on(piece, eval);
        guard.done();
        self.put(number, Ok(made));
        true
    }
    /// What a helper does: works until there has been no piece for some time.
    fn help(&self, park: &dyn Park, eval: &EvalContext<'_>) -> Result<()> {
        let handle = park.wake_handle();
        loop {
            let until = process_monotonic_nanos() + IDLE_NANOS;
            while !self.work_on_one(Some(&handle), eval) {
                if self.state().is_closed || process_monotonic_nanos() >= until {
                    return Ok(());
                }
                park.park(Some(until))?;
            }
            park.checkpoint()?;
        }
    }
}

/// Pieces that the session gives out, and whose outcomes it gets.
pub struct PieceRun<W: PieceWork> {
    board: Arc<PieceBoard<W>>,
    team: Option<HelperTeam<()>>,
    eval: DetachedEval,
}

impl<W: PieceWork> PieceRun<W> {
    /// None: the statement may have no helpers, or there are none.
    pub fn begin(work: W, cx: &SourceContext<'_>) -> Option<PieceRun<W>> {
        let (_, most) = cx.helpers.filter(|(_, most)| *most > 0)?;
        let state = PieceState {
            outcomes: OutcomeQueue::new(most + 1),
            untaken: VecDeque::new(),
            idle: Vec::new(),
            is_closed: false,
        };
        let board = Arc::new(PieceBoard { work, state: Mutex::new(state), session: cx.park.wake_handle() });
        let mut run = PieceRun { board, team: None, eval: DetachedEval::of(cx.eval) };
        run.start_helpers(cx);
        run.team.is_some().then_some(run)
    }
    fn start_helpers(&mut self, cx: &SourceContext<'_>) {
        let Some((pool, most)) = cx.helpers else { return };
        let (board, eval) = (self.board.clone(), self.eval.clone());
        self.team =
            pool.start(most, cx.park.wake_handle(), move |park| board.help(park, &eval.context(&Cell::new([1, 2]))));
    }
    /// May a piece be added?
    pub fn has_room(&self) -> bool {
        self.board.state().outcomes.has_room()
    }
    pub fn add(&mut self, piece: W::Piece, cx: &SourceContext<'_>) -> Result<()> {
        self.board.add(piece);
        if self.team.as_ref().is_none_or(|team| !team.is_running()) {
            self.end_helpers(cx)?;
            self.start_helpers(cx);
        }
        Ok(())
    }
    fn end_helpers(&mut self, cx: &SourceContext<'_>) -> Result<()> {
        match self.team.take() {
            Some(team) => team.finish(cx.park).map(|_| ()),
            None => Ok(()),
        }
    }
    /// What was made of the next piece, in the order of adding. None: there are no more pieces.
    pub fn next(&mut self, cx: &SourceContext<'_>) -> Result<Option<W::Made>> {
        loop {
            cx.park.step()?;
            if let Some(outcome) = self.board.take_outcome() {
                return outcome.map(Some);
            }
            if !self.board.state().outcomes.is_any_missing() {
                return Ok(None);
            }
            if !self.board.work_on_one(None, cx.eval) {
                // A helper works on the one that is wanted.
                cx.park.park(Some(process_monotonic_nanos() + LOOK_AROUND_NANOS))?;
            }
        }
    }
}

impl<W: PieceWork> Drop for PieceRun<W> {
    /// Other statements may want the helpers at once.
    fn drop(&mut self) {
        self.board.close();
    }
}

#[cfg(test)]
mod tests {
    use super::super::helpers::HelperPool;
    use super::*;
    use kilndb_base::env::OsEnv;
    use kilndb_base::park::ThreadPark;
    use kilndb_base::sync::yield_now;

    struct Doubling;
    impl PieceWork for Doubling {
        type Piece = u64;
        type Made = u64;
        fn work_on(&self, piece: u64, _: &EvalContext<'_>) -> u64 {
            // Later pieces are done sooner.
            (0..20_u64.saturating_sub(piece)).for_each(|_| yield_now());
            2 * piece
        }
    }

    /// Runs a test as a statement that may have one helper, if `helpers` says so.
    fn with_context(helpers: usize, test: impl FnOnce(&SourceContext<'_>)) {
        let (format, random_state) = (FormatSettings::default(), Cell::new([1, 2]));
        let eval = DetachedEval { format, transaction_timestamp: 0, statement_timestamp: 0 };
        let (pool, park) = (Arc::new(HelperPool::new(Arc::new(OsEnv), 2)), ThreadPark::new());
        let eval = eval.context(&random_state);
        test(&SourceContext { eval: &eval, park: &park, helpers: Some((&pool, helpers)) });
    }

    #[test]
    fn outcomes_come_in_the_order_of_the_pieces() {
        with_context(1, |cx| {
            let mut run = PieceRun::begin(Doubling, cx).unwrap();
            let (mut given, mut taken) = (0, Vec::new());
            while taken.len() < 100 {
                while given < 100 && run.has_room() {
                    run.add(given, cx).unwrap();
                    given += 1;
                }
                taken.extend(run.next(cx).unwrap());
            }
            assert_eq!(taken, (0..200).step_by(2).collect::<Vec<u64>>());
            assert_eq!(run.next(cx).unwrap(), None);
        });
    }

    #[test]
    fn helpers_that_found_nothing_are_started_again() {
        with_context(1, |cx| {
            let mut run = PieceRun::begin(Doubling, cx).unwrap();
            while run.team.as_ref().is_some_and(HelperTeam::is_running) {
                yield_now();
            }
            run.add(7, cx).unwrap();
            assert!(run.team.is_some());
            assert_eq!(run.next(cx).unwrap(), Some(14));
        });
    }

    #[test]
    fn helpers_end_with_the_run() {
        with_context(1, |cx| {
            let (pool, _) = cx.helpers.unwrap();
            drop(PieceRun::begin(Doubling, cx).unwrap());
            let began = process_monotonic_nanos();
            while pool.start(1, cx.park.wake_handle(), |_| Ok(())).is_none() {
                assert!(process_monotonic_nanos() < began + 1000 * IDLE_NANOS, "the helper waits for pieces");
                yield_now();
            }
        });
    }

    #[test]
    fn without_helpers_there_are_no_pieces() {
        with_context(0, |cx| assert!(PieceRun::begin(Doubling, cx).is_none()));
    }

    #[test]
    fn a_thread_that_panics_leaves_an_error() {
        with_context(1, |cx| {
            let mut run = PieceRun::begin(Doubling, cx).unwrap();
            let number = run.board.state().outcomes.begin();
            drop(run.board.guard(number));
            assert!(run.next(cx).is_err());
        });
    }
}
