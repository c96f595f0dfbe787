//! The statement's side of a coroutine: parking and time slices.

use crate::connection::ConnectionLink;
use crate::shared::ServerShared;
use crate::worker::{WorkerInbox, WorkerMessage};
use corosensei::Yielder;
use kilndb_base::env::process_monotonic_nanos;
use kilndb_base::park::{Park, Wake, WakeHandle};
use kilndb_base::sync::atomic::{AtomicBool, Ordering};
use kilndb_base::{Error, Result, sqlstate, work};
use kilndb_context::client::{Runtime, SessionControl, WaitKind};
use kilndb_context::lock_waits::ToldWait;
use kilndb_context::log::CONGESTION_PAUSE_NANOS;
use kilndb_storage::accesses;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// Why a coroutine was suspended.
pub enum SuspendReason {
    Park { deadline_nanos: Option<u64> },
    Slice,
    Input,
    Output,
}

/// How long a statement may run before others get their turn.
pub const TIME_SLICE_NANOS: u64 = 2_000_000;
/// The same for a statement that has had a whole slice before, while there are others with something to do.
pub const SHORT_SLICE_NANOS: u64 = 250_000;
/// Among calls of [`Park::step`] that follow quickly upon one another only one of so many looks at the clock, which
/// takes longer than all else that they do.
const STEPS_PER_LOOK: u32 = 16;
const FIRST_STEPS: u32 = 4;
/// That is, if so many would take no more than such a part of the slice.
const QUICK_PART: u64 = 16;

fn is_past(deadline_nanos: Option<u64>) -> bool {
    deadline_nanos.is_some_and(|deadline| process_monotonic_nanos() >= deadline)
}

pub struct ConnectionWake {
    inbox: Arc<WorkerInbox>,
    token: usize,
    generation: u64,
    woken: AtomicBool,
}

impl ConnectionWake {
    pub fn new(inbox: Arc<WorkerInbox>, token: usize, generation: u64) -> ConnectionWake {
        ConnectionWake { inbox, token, generation, woken: AtomicBool::new(false) }
    }
    pub fn attention(&self) -> IdleSessionWake {
        IdleSessionWake { inbox: self.inbox.clone(), token: self.token, generation: self.generation }
    }
    pub fn take(&self) -> bool {
        self.woken.swap(false, Ordering::AcqRel)
    }
    pub fn is_set(&self) -> bool {
        self.woken.load(Ordering::Acquire)
    }
}

impl Wake for ConnectionWake {
    fn wake(&self) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            self.inbox.send(WorkerMessage::Wake { token: self.token, generation: self.generation });
        }
    }
}

/// Makes the worker look at a session that is idle.
pub struct IdleSessionWake {
    inbox: Arc<WorkerInbox>,
    token: usize,
    generation: u64,
}

impl Wake for IdleSessionWake {
    fn wake(&self) {
        self.inbox.send(WorkerMessage::Attention { token: self.token, generation: self.generation });
    }
}

pub struct CoroutineRuntime {
    yielder: *const Yielder<(), SuspendReason>,
    pub link: Rc<ConnectionLink>,
    pub wake: Arc<ConnectionWake>,
    pub control: Arc<SessionControl>,
    slice_end_nanos: Cell<u64>,
    /// When the clock was looked at last, and how many steps there have been since and are to be until the next time.
    looked_nanos: Cell<u64>,
    /// For locks, its turn, and the client to take its output, since it began.
    waited_nanos: Cell<u64>,
    steps: Cell<u32>,
    steps_per_look: Cell<u32>,
    shared: Arc<ServerShared>,
    worker: usize,
}

impl CoroutineRuntime {
    /// `yielder` must outlive the value: it is made inside the coroutine and dropped before it ends.
    pub fn new(
        yielder: &Yielder<(), SuspendReason>,
        link: Rc<ConnectionLink>,
        wake: Arc<ConnectionWake>,
        control: Arc<SessionControl>,
        shared: Arc<ServerShared>,
        worker: usize,
    ) -> CoroutineRuntime {
        let runtime = CoroutineRuntime {
            yielder,
            link,
            wake,
            control,
            slice_end_nanos: Cell::new(0),
            looked_nanos: Cell::new(0),
            waited_nanos: Cell::new(0),
            steps: Cell::new(0),
            steps_per_look: Cell::new(FIRST_STEPS),
            shared,
            worker,
        };
        runtime.begin_slice();
        runtime
    }

    fn begin_slice(&self) {
        let now = process_monotonic_nanos();
        self.slice_end_nanos.set(now + self.link.slice_nanos.get());
        self.looked_nanos.set(now);
        self.steps.set(0);
    }

    /// Others are to have their turn.
    fn is_slice_over(&self) -> bool {
        process_monotonic_nanos() >= self.slice_end_nanos.get()
    }

    /// Whether the slice is over, with as few looks at the clock as can be.
    fn is_slice_over_at_step(&self) -> bool {
        let steps = self.steps.get() + 1;
        self.steps.set(steps);
        if steps < self.steps_per_look.get() {
            return false;
        }
        let now = process_monotonic_nanos();
        let each = now.saturating_sub(self.looked_nanos.get()) / u64::from(steps);
        let quick_nanos = self.link.slice_nanos.get() / QUICK_PART;
        let quick = (quick_nanos / each.max(1)).clamp(1, u64::from(STEPS_PER_LOOK)) as u32;
        self.steps_per_look.set(quick.min(steps * 2));
        self.looked_nanos.set(now);
        self.steps.set(0);
        now >= self.slice_end_nanos.get()
    }

    /// Whether others have had their turn.
    fn give_way_if(&self, is_over: bool) -> bool {
        if is_over {
            self.suspend(SuspendReason::Slice);
        }
        is_over
    }

    pub fn suspend(&self, why: SuspendReason) {
        let counted = accesses::now();
        // No execution waits for input; between statements nobody asks how long that took.
        let waits = match why {
            SuspendReason::Input => false,
            SuspendReason::Park { .. } => self.control.waits_for() == WaitKind::Lock,
            _ => true,
        };
        let began = waits.then(process_monotonic_nanos);
        // SAFETY: see `new`: the yielder lives on this coroutine's stack below every use of `self`, and `self` is
        // used on that coroutine only (the type is not Send).
        work::aside(|| unsafe { &*self.yielder }.suspend(why));
        accesses::resume(&counted);
        self.begin_slice();
        if let Some(began) = began {
            let waited = self.looked_nanos.get().saturating_sub(began);
            self.waited_nanos.set(self.waited_nanos.get() + waited);
        }
    }

    /// Waits for the socket.
    pub fn wait_for_client(&self, kind: WaitKind) {
        self.control.set_waits_for(kind);
        self.suspend(if kind == WaitKind::ClientRead { SuspendReason::Input } else { SuspendReason::Output });
        self.control.set_waits_for(WaitKind::Nothing);
    }

    fn interrupts(&self) -> Result<()> {
        self.control.check_interrupts()
    }

    /// Waits for a wake-up, whatever timers of earlier waits the worker still has. False: the time has come before.
    fn is_woken_before(&self, deadline_nanos: Option<u64>) -> bool {
        loop {
            if self.wake.is_set() {
                return true;
            }
            if is_past(deadline_nanos) {
                return false;
            }
            self.suspend(SuspendReason::Park { deadline_nanos });
        }
    }

    /// Waits for a lock. The log is told if that takes longer than `told_nanos`, and then of its end.
    fn suspend_and_tell(&self, deadline_nanos: Option<u64>, told_nanos: u64) {
        let began = process_monotonic_nanos();
        let sooner = |nanos: u64| Some(deadline_nanos.map_or(nanos, |deadline| deadline.min(nanos)));
        let cluster = &*self.shared.instance.cluster;
        let mut is_woken = self.is_woken_before(sooner(began.saturating_add(told_nanos)));
        // As with other lines that somebody can wait with, the reader of the log is waited for while it is behind.
        while !is_woken && !is_past(deadline_nanos) && cluster.log_sink().is_congested() {
            is_woken = self.is_woken_before(sooner(process_monotonic_nanos() + CONGESTION_PAUSE_NANOS));
        }
        if is_woken || is_past(deadline_nanos) {
            return;
        }
        let told = ToldWait::tell(cluster, &self.control, process_monotonic_nanos() - began);
        self.is_woken_before(deadline_nanos);
        if let Some(told) = told {
            // The session may have the lock now, so this line does not wait.
            told.tell_end(cluster, &self.control, process_monotonic_nanos() - began);
        }
    }

    /// `for_lock`: others see that it waits for a lock.
    fn park_until(&self, deadline_nanos: Option<u64>, for_lock: bool) -> Result<()> {
        self.interrupts()?;
        if self.wake.take() {
            return Ok(());
        }
        let is_open_ended = for_lock && deadline_nanos.is_none();
        let lock_timeout = self.control.lock_timeout_nanos.load(Ordering::Relaxed);
        let lock_deadline = (is_open_ended && lock_timeout != 0).then(|| process_monotonic_nanos() + lock_timeout);
        let told_nanos = if is_open_ended { self.control.told_wait_nanos.load(Ordering::Relaxed) } else { 0 };
        let ends = [&self.control.statement_deadline_nanos, &self.control.transaction_deadline_nanos];
        let ends = ends.iter().map(|end| end.load(Ordering::Relaxed)).filter(|end| *end != 0);
        let deadline_nanos = ends.chain(deadline_nanos.or(lock_deadline)).min();
        self.control.set_waits_for(if for_lock { WaitKind::Lock } else { WaitKind::Time });
        if told_nanos == 0 {
            self.suspend(SuspendReason::Park { deadline_nanos });
        } else {
            self.suspend_and_tell(deadline_nanos, told_nanos);
        }
        self.control.set_waits_for(WaitKind::Nothing);
        self.wake.take();
        self.interrupts()?;
        if lock_deadline.is_some_and(|end| process_monotonic_nanos() >= end) {
            return Err(Error::new(sqlstate::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout"));
        }
        Ok(())
    }
}

impl Park for CoroutineRuntime {
    fn wake_handle(&self) -> WakeHandle {
        self.wake.clone()
    }
    fn park(&self, deadline_nanos: Option<u64>) -> Result<()> {
        // Of all waits, those for locks alone have no end of their own.
        self.park_until(deadline_nanos, deadline_nanos.is_none())
    }
    fn park_for_lock(&self, deadline_nanos: u64) -> Result<()> {
        self.park_until(Some(deadline_nanos), true)
    }
    fn park_uninterruptible(&self) {
        if self.wake.take() {
            return;
        }
        self.suspend(SuspendReason::Park { deadline_nanos: None });
        self.wake.take();
    }
    fn is_flushed_for(&self) -> bool {
        true
    }
    fn checkpoint(&self) -> Result<()> {
        self.interrupts()?;
        if self.give_way_if(self.is_slice_over()) { self.interrupts() } else { Ok(()) }
    }
    fn run_apart(&self, f: &mut (dyn FnMut() + Send)) -> Result<()> {
        self.shared.apart.run(self, f)
    }
    fn step(&self) -> Result<()> {
        self.interrupts()?;
        if self.give_way_if(self.is_slice_over_at_step()) { self.interrupts() } else { Ok(()) }
    }
    fn waited_nanos(&self) -> u64 {
        self.waited_nanos.get()
    }
    fn give_way(&self) {
        self.give_way_if(self.is_slice_over());
    }
}

impl Runtime for CoroutineRuntime {
    fn control(&self) -> &SessionControl {
        &self.control
    }
    fn tell(&self, notice: &Error) -> Result<bool> {
        self.link.output.borrow_mut().error_or_notice(&notice.0);
        self.link.is_urgent.set(true);
        while self.link.pending_output() > crate::protocol::OUTPUT_LIMIT_BYTES {
            self.wait_for_client(WaitKind::ClientWrite);
            if self.link.write_failed.get() || self.link.end_of_input.get() {
                return Err(crate::protocol::client_gone());
            }
            self.interrupts()?;
        }
        Ok(true)
    }
    fn worker(&self) -> usize {
        self.worker
    }
}
