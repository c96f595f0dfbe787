//! For tests: how often a computation asks whether others should have their turn.

use crate::context::NoHost;
use crate::{EvalContext, FormatSettings};
use kilndb_base::park::{Park, WakeHandle};
use kilndb_base::work::{self, UNITS_PER_LOOK};
use kilndb_base::{Error, Result, sqlstate};
use std::cell::Cell;
use std::fmt::Debug;

struct CountingPark {
    looks: Cell<usize>,
    fails_from: usize,
}
impl Park for CountingPark {
    fn wake_handle(&self) -> WakeHandle {
        unreachable!("nobody waits here")
    }
    fn park(&self, _deadline_nanos: Option<u64>) -> Result<()> {
        Ok(())
    }
    fn park_uninterruptible(&self) {}
    fn checkpoint(&self) -> Result<()> {
        self.looks.set(self.looks.get() + 1);
        if self.looks.get() >= self.fails_from {
            return Err(Error::new(sqlstate::QUERY_CANCELED, "canceled"));
        }
        Ok(())
    }
}

/// Calls `f` with the settings that a session begins with.
pub fn with_context<T>(f: impl FnOnce(&EvalContext<'_>) -> T) -> T {
    let (format, random_state) = (FormatSettings::default(), Cell::new([1, 2]));
    f(&EvalContext {
        format: &format,
        transaction_timestamp: 0,
        statement_timestamp: 0,
        host: &NoHost,
        random_state: &random_state,
        clock_was_read: None,
    })
}

/// Calls `f` twice: it must ask at least `least` times, and end at once when half-way the answer is that it is cancelled.
pub fn asks<T: Debug>(least: usize, f: impl Fn(&EvalContext<'_>) -> Result<T>) {
    let park = CountingPark { looks: Cell::new(0), fails_from: usize::MAX };
    let _ = work::under(&park, || with_context(&f));
    let looks = park.looks.get();
    assert!(looks >= least.max(2), "{looks} looks, not {least}");
    let park = CountingPark { looks: Cell::new(0), fails_from: looks / 2 };
    let ended = work::under(&park, || with_context(&f));
    assert!(ended.is_err_and(|e| e.is_interruption()), "the computation goes on when it is cancelled");
    assert_eq!(park.looks.get(), looks / 2);
}

/// Looks that so many units are worth at least: what a step is too much for one look does not count for the next one.
pub fn worth(units: usize) -> usize {
    units * 2 / 3 / UNITS_PER_LOOK as usize
}
