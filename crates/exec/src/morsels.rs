//! Morsels: tables cut into ranges of blocks, which the session and its helpers take one after the other, and what they make of
//! each, handed on in the order of the table. (What each thread makes of all that it takes: [`super::morsel_parts`].)
//!
//! Who has made something of a morsel leaves it on the board, where the session takes it once those before it have been taken.
//! So the result is that of one thread: the same rows in the same order, and the same error behind the same rows.
//!
//! Invariants
//! 1. A morsel is taken by one thread, which leaves an outcome for it, whatever happens to the thread.
//! 2. No morsel is taken that is too far ahead of the session ([`OutcomeQueue`]), and where much is made of few blocks, the
//!    next morsels have fewer ([`RESULT_BYTES`]). So what waits on the board is a few megabytes.
//! 3. A helper ends when it has had nothing to do for some time, as beside a client that reads slowly: other statements
//!    want it.
//! 4. Of a morsel that more is made of than may wait, nothing is kept: the session makes it again when its turn has come, and hands it
//!    on as it is made. Where that happens again, the helpers end, and the session goes on alone.
//! 5. The session gives way between results, though it may never have a morsel of its own to work on.
//!
//! Must not know: what is made of the rows.

use super::context::{ExecContext, RunState};
use super::helpers::HelperTeam;
use super::outcomes::{IDLE_NANOS, LOOK_AROUND_NANOS, OutcomeGuard, OutcomeQueue, Spares};
use super::partition::LeafPartition;
use super::parts::{HelperFigures, begin_morsels};
use super::state::NodeState;
use kilndb_base::env::process_monotonic_nanos;
use kilndb_base::park::WakeHandle;
use kilndb_base::sync::{Arc, Mutex, MutexGuard, PoisonError};
use kilndb_base::{Error, Oid, Result};
use kilndb_plan::Op;
use kilndb_storage::Relation;
use std::ops::Range;

/// Blocks of the first morsel, and of a morsel at most: half a megabyte, which takes a thread some 100 µs or more.
const FIRST_BLOCKS: u32 = 4;
pub(super) const BLOCKS_MAX: u32 = 64;
/// What is made of a morsel should take so many bytes: less than a processor's cache.
const RESULT_BYTES: Range<usize> = 128 << 10..512 << 10;

/// What is made of a morsel may wait for its turn if it takes no more bytes than these: its nodes may find any number of rows for each of
/// the table.
const WAITING_BYTES_MAX: usize = 2 << 20;
/// So many morsels may be left out before the session goes on alone.
const LEFT_OUT_MAX: u32 = 2;

/// What is made of a morsel.
pub(crate) trait MorselResult: Default + Send + 'static {
    /// The memory that it takes.
    fn bytes(&self) -> usize;
    /// What stands for a result that was too large to wait for its turn. None: there is no such result.
    fn left_out() -> Option<Self> {
        None
    }
    fn is_left_out(&self) -> bool {
        false
    }
}

/// Adds to a result what is made of a morsel's rows, which the node hands on until it has no more. What was made before an
/// error stays.
pub(crate) type MorselWork<T> =
    Arc<dyn Fn(&mut NodeState, &mut T, &mut RunState, &mut ExecContext<'_>) -> Result<()> + Send + Sync>;

/// A table that is read in morsels.
#[derive(Clone)]
pub(crate) struct MorselTable {
    pub oid: Oid,
    pub heap: Arc<Relation>,
    /// The partition that it is.
    pub leaf: Option<Arc<LeafPartition>>,
    /// How many blocks it had when the reading began: later ones have no row for its snapshot.
    pub blocks: u32,
}

impl MorselTable {
    pub fn of_table(oid: Oid, heap: &Arc<Relation>) -> MorselTable {
        MorselTable { oid, heap: heap.clone(), leaf: None, blocks: heap.pages() }
    }
    pub fn of_partition(leaf: &Arc<LeafPartition>) -> MorselTable {
        MorselTable { leaf: Some(leaf.clone()), ..MorselTable::of_table(leaf.oid, &leaf.heap) }
    }
}

/// The morsels of tables that are read one after the other, as all threads see them.
pub(crate) struct MorselBoard<T> {
    /// The blocks of each table.
    tables: Vec<u32>,
    state: Mutex<BoardState<T>>,
    session: WakeHandle,
}

struct BoardState<T> {
    position: MorselPosition,
    /// How many blocks it has, unless the table ends before.
    blocks: u32,
    /// How many results were too large to wait.
    left_out: u32,
    outcomes: OutcomeQueue<MorselOutcome<T>>,
}

/// What was made of a morsel, and the error that came behind it.
struct MorselOutcome<T> {
    /// The table's place in the list.
    table: usize,
    blocks: Range<u32>,
    made: T,
    done: Result<()>,
}

/// Where the next morsel begins.
#[derive(Default)]
pub(super) struct MorselPosition {
    /// The table's place in the list.
    table: usize,
    block: u32,
}

impl MorselPosition {
    /// Goes on to the next table that has blocks left, of tables that have so many each. False: there is none.
    pub fn find(&mut self, tables: &[u32]) -> bool {
        while tables.get(self.table).is_some_and(|blocks| self.block >= *blocks) {
            *self = MorselPosition { table: self.table + 1, block: 0 };
        }
        self.table < tables.len()
    }
    /// Takes the next blocks, so many at most: the table's place in the list, and its blocks. None: there are no more.
    pub fn take(&mut self, tables: &[u32], most: u32) -> Option<(usize, Range<u32>)> {
        if !self.find(tables) {
            return None;
        }
        let first = self.block;
        self.block = tables[self.table].min(first.saturating_add(most));
        Some((self.table, first..self.block))
    }
}

/// Some blocks of a table.
#[derive(Debug, PartialEq, Eq)]
struct Morsel {
    /// Its place in the order of all.
    number: u64,
    /// The table's place in the list.
    table: usize,
    blocks: Range<u32>,
}

#[derive(Debug, PartialEq, Eq)]
enum TakenMorsel {
    One(Morsel),
    /// None now: the session has to take outcomes first.
    None,
    /// There are no more.
    End,
}

impl<T: MorselResult> MorselBoard<T> {
    /// `tables`: how many blocks each of them has.
    pub fn new(tables: Vec<u32>, threads: usize, session: WakeHandle) -> MorselBoard<T> {
        let state = BoardState {
            position: MorselPosition::default(),
            blocks: FIRST_BLOCKS,
            left_out: 0,
            outcomes: OutcomeQueue::new(threads),
        };
        MorselBoard { tables, state: Mutex::new(state), session }
    }
    fn state(&self) -> MutexGuard<'_, BoardState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Takes a morsel. If there is none now, `waiter` is woken once there may be.
    fn take(&self, waiter: Option<&WakeHandle>) -> TakenMorsel {
        let mut state = self.state();
        let is_helper = waiter.is_some();
        if !state.position.find(&self.tables) || is_helper && state.left_out >= LEFT_OUT_MAX {
            return TakenMorsel::End;
        }
        if !state.outcomes.has_room() {
            waiter.into_iter().for_each(|waiter| state.outcomes.wait(waiter));
            return TakenMorsel::None;
        }
        let most = state.blocks;
        let Some((table, blocks)) = state.position.take(&self.tables, most) else { return TakenMorsel::End };
        TakenMorsel::One(Morsel { number: state.outcomes.begin(), table, blocks })
    }
    /// Leaves an error for a morsel whose thread has not come back.
    fn guard(&self, number: u64) -> OutcomeGuard<impl FnMut()> {
        OutcomeGuard::new(move || {
            let failed = Error::internal("a thread that read a part of a table has failed");
            self.put(number, MorselOutcome { table: 0, blocks: 0..0, made: T::default(), done: Err(failed) });
        })
    }
    fn put(&self, number: u64, outcome: MorselOutcome<T>) {
        let bytes = outcome.made.bytes();
        let mut state = self.state();
        if outcome.made.is_left_out() {
            (state.blocks, state.left_out) = (1, state.left_out + 1);
        } else if bytes >= RESULT_BYTES.end {
            state.blocks = (state.blocks / 2).max(1);
        } else if bytes < RESULT_BYTES.start {
            state.blocks = (state.blocks * 2).min(BLOCKS_MAX);
        }
        let is_wanted = state.outcomes.put(number, outcome);
        drop(state);
        if is_wanted {
            self.session.wake();
        }
    }
    /// The outcome of the wanted morsel, if it is there: the next one is wanted then.
    fn take_outcome(&self) -> Option<MorselOutcome<T>> {
        let (outcome, waiting) = self.state().outcomes.take()?;
        waiting.iter().for_each(|waiter| waiter.wake());
        Some(outcome)
    }
    /// A result that is left out without being made, if the session has to go on alone.
    fn alone(&self) -> Option<T> {
        let is_alone = self.state().left_out >= LEFT_OUT_MAX;
        if is_alone { T::left_out() } else { None }
    }
    /// Does a thread work on a morsel whose outcome the session has not had?
    fn is_any_missing(&self) -> bool {
        self.state().outcomes.is_any_missing()
    }

    /// Works on a morsel that was taken.
    fn work_on(
        &self,
        morsel: Morsel,
        (input, tables): (&mut NodeState, &[MorselTable]),
        work: &MorselWork<T>,
        (rt, cx): (&mut RunState, &mut ExecContext<'_>),
    ) {
        let Morsel { number, table, blocks } = morsel;
        let guard = self.guard(number);
        let (mut made, mut done) = (T::default(), Ok(()));
        match self.alone() {
            Some(left_out) => made = left_out,
            None => {
                let counters = rt.counters.clone();
                let begun = begin_part(input, tables, (table, blocks.clone()), rt);
                done = begun.and_then(|()| work(input, &mut made, rt, cx));
                if made.is_left_out() {
                    // Its rows will be counted when they are made again.
                    rt.counters = counters;
                }
            }
        }
        guard.done();
        self.put(number, MorselOutcome { table, blocks, made, done });
    }

    /// What a helper does: takes morsels until there are no more, or none for some time. What fails does so for a morsel.
    pub fn help(
        &self,
        (input, tables): (&mut NodeState, &[MorselTable]),
        work: &MorselWork<T>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) {
        let handle = cx.park.wake_handle();
        let mut idle_since = None;
        loop {
            match self.take(Some(&handle)) {
                TakenMorsel::One(morsel) => {
                    idle_since = None;
                    self.work_on(morsel, (&mut *input, tables), work, (rt, cx));
                }
                TakenMorsel::None => {
                    let now = process_monotonic_nanos();
                    let until = *idle_since.get_or_insert(now) + IDLE_NANOS;
                    if now >= until || cx.park.park(Some(until)).is_err() {
                        return;
                    }
                }
                TakenMorsel::End => return,
            }
        }
    }
}

/// The input goes on with these blocks of the table at this place in the list.
fn begin_part(
    input: &mut NodeState,
    tables: &[MorselTable],
    (table, blocks): (usize, Range<u32>),
    rt: &mut RunState,
) -> Result<()> {
    match tables.get(table) {
        Some(table) => input.begin_part(table, blocks, rt),
        None => Err(Error::internal("a morsel of no table")),
    }
}

/// Morsels that the session works on together with helpers.
pub(crate) struct MorselRun<T: MorselResult> {
    board: Arc<MorselBoard<T>>,
    tables: Arc<[MorselTable]>,
    work: MorselWork<T>,
    /// None: they have ended, and what they have counted is the session's.
    team: Option<(HelperTeam<()>, Arc<Mutex<HelperFigures>>)>,
    /// The error behind the result that was handed out last.
    failure: Option<Error>,
    /// The node that wants the rows, by its number.
    consumer: usize,
}

impl<T: MorselResult> MorselRun<T> {
    pub fn new(
        (board, tables): (Arc<MorselBoard<T>>, Arc<[MorselTable]>),
        work: MorselWork<T>,
        team: (HelperTeam<()>, Arc<Mutex<HelperFigures>>),
        consumer: usize,
    ) -> MorselRun<T> {
        MorselRun { board, tables, work, team: Some(team), failure: None, consumer }
    }

    /// What has been made of the next morsel in the order of the table. None: there are no more. `input` is the one with which
    /// it was begun. If the result is left out, `input` has the rows of the morsel, all of which have to be read before the next one.
    pub fn next(&mut self, input: &mut NodeState, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Option<T>> {
        loop {
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
            cx.park.step()?;
            if let Some(MorselOutcome { table, blocks, made, done }) = self.board.take_outcome() {
                self.failure = done.err();
                if made.is_left_out() && self.failure.is_none() {
                    begin_part(input, &self.tables, (table, blocks), rt)?;
                }
                return Ok(Some(made));
            }
            match self.board.take(None) {
                TakenMorsel::One(morsel) => {
                    self.board.work_on(morsel, (&mut *input, &self.tables), &self.work, (rt, cx))
                }
                TakenMorsel::End if !self.board.is_any_missing() => {
                    self.finish(rt, cx)?;
                    return Ok(None);
                }
                // A helper works on the one that is wanted.
                _ => cx.park.park(Some(process_monotonic_nanos() + LOOK_AROUND_NANOS))?,
            }
        }
    }

    fn finish(&mut self, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let Some((team, figures)) = self.team.take() else { return Ok(()) };
        let launched = team.finish(cx.park)?.len();
        figures.lock().unwrap_or_else(PoisonError::into_inner).add_to(rt, cx);
        rt.count_workers(self.consumer, launched);
        Ok(())
    }
}

/// Puts the next rows into a batch, in place of what was in it. False: there are none.
type BatchFill<B> =
    Arc<dyn Fn(&mut NodeState, &mut B, &mut RunState, &mut ExecContext<'_>) -> Result<bool> + Send + Sync>;

/// An input whose batches the session gets in their order while several threads read it.
pub(crate) struct BatchMorsels<B: RowsBatch> {
    run: MorselRun<BatchList<B>>,
    fill: BatchFill<B>,
    /// The rows of the present morsel come as the session makes them.
    is_alone: bool,
    /// Batches of the present morsel that are still to come.
    batches: std::vec::IntoIter<B>,
    spare: Spares<B>,
}

/// Rows that are handed over together.
pub(crate) trait RowsBatch: Default + Send + 'static {
    /// The memory that it takes.
    fn bytes(&self) -> usize;
}

struct BatchList<B> {
    batches: Vec<B>,
    bytes: usize,
    is_left_out: bool,
}

impl<B> Default for BatchList<B> {
    fn default() -> BatchList<B> {
        BatchList { batches: Vec::new(), bytes: 0, is_left_out: false }
    }
}

impl<B: RowsBatch> MorselResult for BatchList<B> {
    fn bytes(&self) -> usize {
        self.bytes
    }
    fn left_out() -> Option<BatchList<B>> {
        Some(BatchList { is_left_out: true, ..BatchList::default() })
    }
    fn is_left_out(&self) -> bool {
        self.is_left_out
    }
}

impl<B: RowsBatch> BatchList<B> {
    /// Adds a batch, unless there are too many already.
    fn push(&mut self, batch: B, spares: &Spares<B>) {
        self.bytes += batch.bytes();
        self.is_left_out |= self.bytes > WAITING_BYTES_MAX;
        if self.is_left_out {
            std::iter::once(batch).chain(self.batches.drain(..)).for_each(|batch| spares.put(batch));
        } else {
            self.batches.push(batch);
        }
    }
}

/// Is there more to do for the rows than to read them? Handing them over costs what decoding them costs.
fn computes(op: &Op) -> bool {
    match op {
        Op::SeqScan(scan) => scan.filter.is_some(),
        Op::Partitions(p) => computes(&p.template.op),
        _ => true,
    }
}

impl<B: RowsBatch> BatchMorsels<B> {
    /// As [`BatchMorsels::begin_of_few`], where `fill` hands all rows over. None too if that would not be worth while.
    pub fn begin(
        (input, is_used, consumer): (&mut NodeState, &[bool], usize),
        fill: impl Fn(&mut NodeState, &mut B, &mut RunState, &mut ExecContext<'_>) -> Result<bool> + Send + Sync + 'static,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<Option<BatchMorsels<B>>> {
        match computes(&input.node().op) {
            true => BatchMorsels::begin_of_few((input, is_used, consumer), fill, rt, cx),
            false => Ok(None),
        }
    }
    /// `fill` puts the next rows into a batch, in place of what was in it; false: there are none. `consumer`: the node that
    /// wants them, by its number. None: one thread reads all.
    pub fn begin_of_few(
        (input, is_used, consumer): (&mut NodeState, &[bool], usize),
        fill: impl Fn(&mut NodeState, &mut B, &mut RunState, &mut ExecContext<'_>) -> Result<bool> + Send + Sync + 'static,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<Option<BatchMorsels<B>>> {
        let spare = Spares::<B>::default();
        let spares = spare.clone();
        let fill: BatchFill<B> = Arc::new(fill);
        let theirs = fill.clone();
        let read =
            move |input: &mut NodeState, made: &mut BatchList<B>, rt: &mut RunState, cx: &mut ExecContext<'_>| {
                loop {
                    let mut batch = spares.take();
                    if !theirs(input, &mut batch, rt, cx)? {
                        spares.put(batch);
                        return Ok(());
                    }
                    made.push(batch, &spares);
                }
            };
        let run = begin_morsels((input, is_used, consumer), Arc::new(read), rt, cx)?;
        Ok(run.map(|run| BatchMorsels { run, fill, is_alone: false, batches: Vec::new().into_iter(), spare }))
    }

    /// Puts the next batch in place of `batch`. False: there is none.
    pub fn next(
        &mut self,
        batch: &mut B,
        input: &mut NodeState,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        cx.park.step()?;
        loop {
            if let Some(next) = self.batches.next() {
                self.spare.put(std::mem::replace(batch, next));
                return Ok(true);
            }
            if self.is_alone && (self.fill)(input, batch, rt, cx)? {
                return Ok(true);
            }
            let Some(list) = self.run.next(input, rt, cx)? else {
                self.spare.drop_all();
                return Ok(false);
            };
            (self.batches, self.is_alone) = (list.batches.into_iter(), list.is_left_out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kilndb_base::park::{Park, ThreadPark};

    #[derive(Default, PartialEq, Debug)]
    struct Made(usize);

    impl MorselResult for Made {
        fn bytes(&self) -> usize {
            self.0
        }
    }

    fn board(tables: &[u32]) -> MorselBoard<Made> {
        MorselBoard::new(tables.to_vec(), 1, ThreadPark::new().wake_handle())
    }
    fn take(board: &MorselBoard<Made>) -> (usize, Range<u32>) {
        match board.take(None) {
            TakenMorsel::One(morsel) => (morsel.table, morsel.blocks),
            other => panic!("{other:?}"),
        }
    }
    fn put(board: &MorselBoard<Made>, number: u64, bytes: usize) {
        board.put(number, MorselOutcome { table: 0, blocks: 0..1, made: Made(bytes), done: Ok(()) });
    }

    #[test]
    fn outcomes_leave_in_the_order_of_the_tables() {
        let board = board(&[1, 0, 9]);
        let taken: Vec<_> = (0..4).map(|_| take(&board)).collect();
        assert_eq!(taken, [(0, 0..1), (2, 0..4), (2, 4..8), (2, 8..9)]);
        assert_eq!(board.take(None), TakenMorsel::End);
        put(&board, 2, 200);
        let failed = Err(Error::internal("planned"));
        board.put(1, MorselOutcome { table: 2, blocks: 0..4, made: Made(100), done: failed });
        assert!(board.take_outcome().is_none());
        put(&board, 0, 0);
        assert_eq!(board.take_outcome().unwrap().made, Made(0));
        let failed = board.take_outcome().unwrap();
        assert!(failed.made == Made(100) && failed.done.is_err());
        assert_eq!(board.take_outcome().unwrap().made, Made(200));
        assert!(board.take_outcome().is_none() && board.is_any_missing());
        put(&board, 3, 300);
        assert_eq!(board.take_outcome().unwrap().made, Made(300));
        assert!(board.take_outcome().is_none() && !board.is_any_missing());
    }

    #[test]
    fn nobody_goes_far_ahead_of_the_session() {
        let board = board(&[1000]);
        while board.state().outcomes.has_room() {
            take(&board);
        }
        let waiter = ThreadPark::new();
        assert_eq!(board.take(Some(&waiter.wake_handle())), TakenMorsel::None);
        put(&board, 0, 0);
        assert!(board.take_outcome().is_some());
        // It was woken, so it does not wait.
        waiter.park(None).unwrap();
        take(&board);
    }

    #[test]
    fn much_of_few_blocks_makes_the_next_morsels_smaller() {
        let board = board(&[10_000]);
        let mut number = 0;
        let mut blocks_after = |bytes| {
            let (_, blocks) = take(&board);
            put(&board, number, bytes);
            number += 1;
            assert!(board.take_outcome().is_some());
            blocks.len()
        };
        let little: Vec<usize> = (0..6).map(|_| blocks_after(1000)).collect();
        assert_eq!(little, [4, 8, 16, 32, 64, 64]);
        assert_eq!([300_000, 300_000].map(&mut blocks_after), [64, 64]);
        assert_eq!([10_000_000; 8].map(&mut blocks_after), [64, 32, 16, 8, 4, 2, 1, 1]);
    }

    #[derive(Default)]
    struct LargeBatch(usize);

    impl RowsBatch for LargeBatch {
        fn bytes(&self) -> usize {
            self.0
        }
    }

    #[test]
    fn what_is_too_large_to_wait_is_left_out_and_then_the_session_goes_on_alone() {
        let board: MorselBoard<BatchList<LargeBatch>> = MorselBoard::new(vec![100], 2, ThreadPark::new().wake_handle());
        let helper = ThreadPark::new().wake_handle();
        let spares = Spares::default();
        let mut fine = BatchList::default();
        [WAITING_BYTES_MAX / 2; 2].into_iter().for_each(|bytes| fine.push(LargeBatch(bytes), &spares));
        assert!(!fine.is_left_out() && fine.batches.len() == 2);
        for number in 0..LEFT_OUT_MAX {
            let TakenMorsel::One(morsel) = board.take(Some(&helper)) else { panic!("there is a morsel") };
            assert!(board.alone().is_none());
            let mut made = BatchList::default();
            [WAITING_BYTES_MAX, 1, 1].into_iter().for_each(|bytes| made.push(LargeBatch(bytes), &spares));
            assert!(made.is_left_out() && made.batches.is_empty());
            let (table, blocks) = (morsel.table, morsel.blocks);
            board.put(u64::from(number), MorselOutcome { table, blocks, made, done: Ok(()) });
        }
        assert_eq!(board.take(Some(&helper)), TakenMorsel::End);
        let TakenMorsel::One(morsel) = board.take(None) else { panic!("there is a morsel") };
        assert_eq!(morsel.blocks.len(), 1);
        assert!(board.alone().is_some_and(|result| result.is_left_out()));
    }

    #[test]
    fn a_thread_that_panics_leaves_an_error() {
        let board = board(&[1]);
        take(&board);
        drop(board.guard(0));
        assert!(board.take_outcome().unwrap().done.is_err());
    }
}
