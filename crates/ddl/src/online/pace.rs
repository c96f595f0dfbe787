//! The pace of a change beside the load: while others have something to do, it works a part of the time.
//!
//! A session that computes gives way after each time slice, but it has a whole slice whenever its turn comes, and a
//! transaction of others takes a fraction of one: beside 28 clients it had most of its processor.
//! Others have something to do if giving way to them takes time, and beside copying also if one of them has committed
//! meanwhile: while all of them wait for the log, the processor is free, but what a change writes then is what they wait
//! for next. What follows changes uses that time, since it must be faster than those who make them.

use crate::client::{Runtime, SessionControl};
use kilndb_base::env::process_monotonic_nanos;
use kilndb_base::park::{Park, WakeHandle};
use kilndb_base::sync::Arc;
use kilndb_base::{Csn, Error, Result};
use kilndb_storage::Engine;
use std::cell::Cell;

/// So long it works before it looks whether others have something to do: longer than a time slice.
const WORK_NANOS: u64 = 2_500_000;
/// Of so many steps one looks at the clock.
const STEPS_PER_LOOK: u32 = 32;
/// Others want the processor if giving way to them has taken at least such a part of the work's time.
const BUSY_PART: u64 = 8;

/// How far a change gives way.
pub(crate) struct Pace {
    /// How many times as long as it has worked it pauses.
    pause: u64,
    /// It pauses for those who commit, too.
    heeds_commits: bool,
}

/// Copying and building.
pub(crate) const COPYING: Pace = Pace { pause: 3, heeds_commits: true };
/// Following changes.
pub(crate) const FOLLOWING: Pace = Pace { pause: 1, heeds_commits: false };

pub(crate) struct PacedRuntime<'a> {
    runtime: &'a dyn Runtime,
    engine: Arc<Engine>,
    pace: Pace,
    resumed_nanos: Cell<u64>,
    /// How long it has worked, and others have had the processor meanwhile, since the last pause.
    worked_nanos: Cell<u64>,
    given_nanos: Cell<u64>,
    steps: Cell<u32>,
    /// The newest commit when it last looked.
    last_csn: Cell<Csn>,
}

impl<'a> PacedRuntime<'a> {
    pub fn new(runtime: &'a dyn Runtime, engine: &Arc<Engine>, pace: Pace) -> PacedRuntime<'a> {
        PacedRuntime {
            runtime,
            engine: engine.clone(),
            pace,
            resumed_nanos: Cell::new(process_monotonic_nanos()),
            worked_nanos: Cell::new(0),
            given_nanos: Cell::new(0),
            steps: Cell::new(0),
            last_csn: Cell::new(engine.last_csn()),
        }
    }

    fn pause_if_busy(&self, give_way: impl FnOnce() -> Result<()>) -> Result<()> {
        let before = process_monotonic_nanos();
        give_way()?;
        let after = process_monotonic_nanos();
        let worked = self.worked_nanos.get() + before.saturating_sub(self.resumed_nanos.get());
        let given = self.given_nanos.get() + (after - before);
        self.resumed_nanos.set(after);
        if worked < WORK_NANOS {
            self.worked_nanos.set(worked);
            self.given_nanos.set(given);
            return Ok(());
        }
        self.worked_nanos.set(0);
        self.given_nanos.set(0);
        let csn = self.engine.last_csn();
        let has_others_commit = self.last_csn.replace(csn) != csn && self.pace.heeds_commits;
        if has_others_commit || given >= worked / BUSY_PART {
            let until = after + (worked * self.pace.pause).saturating_sub(given);
            while process_monotonic_nanos() < until {
                self.runtime.park(Some(until))?;
            }
            self.resumed_nanos.set(process_monotonic_nanos());
        }
        Ok(())
    }
}

impl Park for PacedRuntime<'_> {
    fn wake_handle(&self) -> WakeHandle {
        self.runtime.wake_handle()
    }
    fn park(&self, deadline_nanos: Option<u64>) -> Result<()> {
        self.runtime.park(deadline_nanos)
    }
    fn park_for_lock(&self, deadline_nanos: u64) -> Result<()> {
        self.runtime.park_for_lock(deadline_nanos)
    }
    fn park_uninterruptible(&self) {
        self.runtime.park_uninterruptible();
    }
    fn is_flushed_for(&self) -> bool {
        self.runtime.is_flushed_for()
    }
    fn checkpoint(&self) -> Result<()> {
        self.pause_if_busy(|| self.runtime.checkpoint())
    }
    fn step(&self) -> Result<()> {
        let steps = self.steps.get() + 1;
        self.steps.set(steps % STEPS_PER_LOOK);
        if steps < STEPS_PER_LOOK { self.runtime.step() } else { self.pause_if_busy(|| self.runtime.step()) }
    }
    fn run_apart(&self, f: &mut (dyn FnMut() + Send)) -> Result<()> {
        self.runtime.run_apart(f)
    }
    fn give_way(&self) {
        self.runtime.give_way();
    }
}

impl Runtime for PacedRuntime<'_> {
    fn control(&self) -> &SessionControl {
        self.runtime.control()
    }
    fn tell(&self, notice: &Error) -> Result<bool> {
        self.runtime.tell(notice)
    }
    fn worker(&self) -> usize {
        self.runtime.worker()
    }
}
