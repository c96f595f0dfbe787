//! How an analysis that nobody has asked for waits and works: it rests between short pieces of work, and ends when
//! somebody wants the table in a way that it stands in.
//!
//! Invariants
//! 1. A wait ends after [`LOOK_NANOS`] at the latest, to look whether somebody waits for the table.
//!
//! Must not know: what is analyzed, and how.

use crate::client::{Activity, BackendKind, Runtime, SessionControl};
use kilndb_base::env::process_monotonic_nanos;
use kilndb_base::park::{Park, ThreadPark, WakeHandle};
use kilndb_base::sync::Arc;
use kilndb_base::sync::atomic::{AtomicBool, Ordering};
use kilndb_base::{Error, Result, Severity, sqlstate};
use kilndb_context::Cluster;
use kilndb_storage::LockTag;
use std::cell::Cell;

/// In views and messages. Clients' sessions have numbers from 1000 on.
const PROCESS_ID: i32 = 999;
/// Work between two rests.
const WORK_NANOS: u64 = 2_000_000;
const LOOK_NANOS: u64 = 50_000_000;

pub(super) struct AutoanalyzeRuntime {
    cluster: Arc<Cluster>,
    park: Arc<ThreadPark>,
    pub control: Arc<SessionControl>,
    stop: Arc<AtomicBool>,
    /// The lock of the table that is being analyzed.
    held: Cell<Option<LockTag>>,
    works_until_nanos: Cell<u64>,
    rest_nanos: u64,
}

impl AutoanalyzeRuntime {
    pub(super) fn new(cluster: Arc<Cluster>, park: Arc<ThreadPark>, stop: Arc<AtomicBool>) -> AutoanalyzeRuntime {
        let activity = Activity { kind: BackendKind::Autoanalyze, ..Activity::default() };
        let control = SessionControl::new(PROCESS_ID, Vec::new(), park.wake_handle(), park.wake_handle(), activity);
        let settings = cluster.settings();
        let own_ms = settings.real("autovacuum_vacuum_cost_delay");
        let rest_ms = if own_ms < 0.0 { settings.real("vacuum_cost_delay") } else { own_ms };
        AutoanalyzeRuntime {
            cluster,
            park,
            control: Arc::new(control),
            stop,
            held: Cell::new(None),
            works_until_nanos: Cell::new(process_monotonic_nanos() + WORK_NANOS),
            rest_nanos: (rest_ms * 1e6) as u64,
        }
    }

    /// From now on whoever waits for this lock ends the analysis.
    pub(super) fn holds(&self, tag: LockTag) {
        self.held.set(Some(tag));
    }
    pub(super) fn holds_nothing(&self) {
        self.held.set(None);
    }

    fn check(&self) -> Result<()> {
        if self.stop.load(Ordering::Acquire) {
            let e = Error::new(sqlstate::ADMIN_SHUTDOWN, "terminating autovacuum process due to administrator command");
            return Err(e.with_severity(Severity::Fatal));
        }
        if self.held.get().is_some_and(|tag| self.cluster.engine.is_lock_waited_for(&tag)) {
            return Err(Error::new(sqlstate::QUERY_CANCELED, "canceling autovacuum task"));
        }
        self.control.check_interrupts()
    }
}

impl Park for AutoanalyzeRuntime {
    fn wake_handle(&self) -> WakeHandle {
        self.park.wake_handle()
    }
    fn park(&self, deadline_nanos: Option<u64>) -> Result<()> {
        self.check()?;
        let look = process_monotonic_nanos() + LOOK_NANOS;
        self.park.park(Some(deadline_nanos.map_or(look, |deadline| deadline.min(look))))?;
        self.check()
    }
    fn park_uninterruptible(&self) {
        self.park.park_uninterruptible();
    }
    fn checkpoint(&self) -> Result<()> {
        self.check()?;
        if process_monotonic_nanos() < self.works_until_nanos.get() {
            return Ok(());
        }
        if self.rest_nanos > 0 {
            self.cluster.env.sleep(std::time::Duration::from_nanos(self.rest_nanos));
        }
        self.works_until_nanos.set(process_monotonic_nanos() + WORK_NANOS);
        self.check()
    }
}

impl Runtime for AutoanalyzeRuntime {
    fn control(&self) -> &SessionControl {
        &self.control
    }
    fn worker(&self) -> usize {
        0
    }
}
