//! Parts: what the session and its helpers each make of all the morsels of a table that they take, put together in the end
//! (docs/decisions/0071).
//!
//! Invariants
//! 1. Morsels are numbered in the order of the table, and each is taken by one thread. Those of a thread have rising numbers.
//! 2. Once a morsel has failed none is taken any more. Those before it end, so the error is that of the first one that has one.
//!
//! Must not know: what is made of the rows.

use super::context::{ExecContext, RunState};
use super::morsels::{BLOCKS_MAX, MorselPosition, MorselTable};
use super::state::NodeState;
use kilndb_base::sync::{Mutex, MutexGuard, PoisonError};
use kilndb_base::{Error, Result};
use std::ops::Range;

/// What each thread makes of all the morsels that it takes.
pub(crate) trait PartWork: Send + Sync + 'static {
    type PartialResult: Send + 'static;
    /// A part to which nothing has come yet.
    fn begin(&self) -> Self::PartialResult;
    /// Adds the rows of a morsel, which the node hands on until it has no more. A thread's morsels have rising numbers.
    fn take_in(
        &self,
        part: &mut Self::PartialResult,
        morsel: u32,
        input: &mut NodeState,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()>;
    /// There are no more morsels.
    fn end(&self, part: &mut Self::PartialResult, cx: &mut ExecContext<'_>) -> Result<()>;
    /// Makes one of all parts, whose morsels have come to their end.
    fn merge(&self, parts: Vec<Self::PartialResult>, cx: &mut ExecContext<'_>) -> Result<Self::PartialResult>;
}

/// The morsels of tables that have so many blocks each, as all threads see them.
struct MorselNumbers {
    blocks: Vec<u32>,
    state: Mutex<NumbersState>,
}

#[derive(Default)]
struct NumbersState {
    position: MorselPosition,
    taken: u32,
    /// The first morsel that has failed.
    failure: Option<(u32, Error)>,
}

impl MorselNumbers {
    fn new(blocks: Vec<u32>) -> MorselNumbers {
        MorselNumbers { blocks, state: Mutex::default() }
    }
    fn state(&self) -> MutexGuard<'_, NumbersState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// The next morsel: its number, the table's place in the list, and its blocks.
    fn take(&self) -> Option<(u32, usize, Range<u32>)> {
        let mut state = self.state();
        if state.failure.is_some() {
            return None;
        }
        let (table, blocks) = state.position.take(&self.blocks, BLOCKS_MAX)?;
        let number = state.taken;
        assert!(number < u32::MAX, "no table has so many morsels");
        state.taken += 1;
        Some((number, table, blocks))
    }
    fn fail(&self, morsel: u32, error: Error) {
        let failure = &mut self.state().failure;
        if failure.as_ref().is_none_or(|(first, _)| morsel < *first) {
            *failure = Some((morsel, error));
        }
    }
    fn has_failed(&self) -> bool {
        self.state().failure.is_some()
    }
    /// The error of the first morsel that has failed.
    fn take_failure(&self) -> Option<Error> {
        self.state().failure.take().map(|(_, error)| error)
    }
}

/// Tables that are read in parts, and what is made of them.
pub(crate) struct MorselParts<W> {
    tables: Vec<MorselTable>,
    numbers: MorselNumbers,
    work: W,
}

impl<W: PartWork> MorselParts<W> {
    pub fn new(tables: Vec<MorselTable>, work: W) -> MorselParts<W> {
        let numbers = MorselNumbers::new(tables.iter().map(|table| table.blocks).collect());
        MorselParts { tables, numbers, work }
    }
    pub fn tables(&self) -> &[MorselTable] {
        &self.tables
    }
    /// What this thread makes of the morsels that it takes; it is of no use if one has failed.
    pub fn make(&self, input: &mut NodeState, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<W::PartialResult> {
        let mut part = self.work.begin();
        while let Some((number, table, blocks)) = self.numbers.take() {
            let begun = cx.park.step().and_then(|()| input.begin_part(&self.tables[table], blocks, rt));
            let done = begun.and_then(|()| self.work.take_in(&mut part, number, input, rt, cx));
            if let Err(error) = done {
                self.numbers.fail(number, error);
            }
        }
        if !self.numbers.has_failed() {
            self.work.end(&mut part, cx)?;
        }
        Ok(part)
    }
    /// What all threads have made, or the error of the first morsel that has failed.
    pub fn merge(&self, parts: Vec<W::PartialResult>, cx: &mut ExecContext<'_>) -> Result<W::PartialResult> {
        match self.numbers.take_failure() {
            Some(failure) => Err(failure),
            None => self.work.merge(parts, cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn morsels_have_the_numbers_of_their_order() {
        let numbers = MorselNumbers::new(vec![BLOCKS_MAX + 1, 0, 3]);
        let taken: Vec<_> = std::iter::from_fn(|| numbers.take()).collect();
        assert_eq!(taken, [(0, 0, 0..BLOCKS_MAX), (1, 0, BLOCKS_MAX..BLOCKS_MAX + 1), (2, 2, 0..3)]);
    }

    #[test]
    fn the_first_failure_is_the_one_that_counts() {
        let numbers = MorselNumbers::new(vec![1000 * BLOCKS_MAX]);
        (0..5).for_each(|_| assert!(numbers.take().is_some()));
        numbers.fail(3, Error::internal("third"));
        assert!(numbers.take().is_none() && numbers.has_failed());
        numbers.fail(4, Error::internal("fourth"));
        numbers.fail(1, Error::internal("first"));
        assert_eq!(numbers.take_failure().unwrap().message(), "first");
    }
}
