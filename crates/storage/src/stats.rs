//! Counters of input and output, of the log and of checkpoints, since the start or the last reset.
//!
//! Invariants
//! 1. Counters are touched where pages and log segments are read, written or synced, and for checkpoints, never for a
//!    page that is in memory: a system call costs far more than the counter.
//! 2. Who does the work is known from its thread ([`act_as`]); threads that say nothing work for clients.
//!
//! Must not know: how they are shown.

use kilndb_base::sync::atomic::{AtomicI64, AtomicU64, Ordering::*};
use std::cell::Cell;

/// The actors that read and write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoActor {
    Client,
    Checkpointer,
    BackgroundWriter,
    WalWriter,
    Startup,
}
/// The objects that are read and written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoObject {
    Relation,
    TemporaryRelation,
    Wal,
    /// Segments made for the log.
    WalInit,
}
pub const ACTORS: [IoActor; 5] =
    [IoActor::Client, IoActor::Checkpointer, IoActor::BackgroundWriter, IoActor::WalWriter, IoActor::Startup];
pub const OBJECTS: [IoObject; 4] = [IoObject::Relation, IoObject::TemporaryRelation, IoObject::Wal, IoObject::WalInit];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IoEvent {
    Read,
    Write,
    Extend,
    Evict,
    Sync,
}
const EVENTS: usize = 5;

kilndb_base::task_local! {
    static ACTOR: Cell<IoActor> = const { Cell::new(IoActor::Client) };
}

/// Counts this thread's work as that of `actor` from now on.
pub(crate) fn act_as(actor: IoActor) {
    ACTOR.with(|a| a.set(actor));
}

#[derive(Default)]
struct IoCounter {
    events: AtomicU64,
    bytes: AtomicU64,
}

/// What one kind of actor did to one kind of object.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct IoLine {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub write_bytes: u64,
    pub extends: u64,
    pub extend_bytes: u64,
    pub evictions: u64,
    pub syncs: u64,
}

/// A group of counters that is reset at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatsGroup {
    Io,
    Wal,
    Checkpointer,
    BackgroundWriter,
}
const GROUPS: usize = 4;

#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct CheckpointStats {
    /// Due by time, also those that had nothing to do.
    pub timed: u64,
    /// The checkpoints that were asked for or due by the log's volume.
    pub requested: u64,
    pub done: u64,
    pub write_ms: u64,
    pub sync_ms: u64,
    pub buffers_written: u64,
}

#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct BackgroundWriterStats {
    pub buffers_clean: u64,
    /// How many frames were filled with a page.
    pub buffers_alloc: u64,
}

#[derive(Default)]
pub(crate) struct CheckpointCounters {
    pub timed: AtomicU64,
    pub requested: AtomicU64,
    pub done: AtomicU64,
    pub write_ms: AtomicU64,
    pub sync_ms: AtomicU64,
    pub buffers_written: AtomicU64,
}

#[derive(Default)]
pub struct Stats {
    io: [[[IoCounter; EVENTS]; OBJECTS.len()]; ACTORS.len()],
    pub(crate) checkpoints: CheckpointCounters,
    pub(crate) buffers_clean: AtomicU64,
    pub(crate) buffers_alloc: AtomicU64,
    /// When each group was reset last, in microseconds since 1970.
    reset: [AtomicI64; GROUPS],
}

impl Stats {
    pub fn new(now_unix_micros: i64) -> Stats {
        let stats = Stats::default();
        stats.reset.iter().for_each(|r| r.store(now_unix_micros, Relaxed));
        stats
    }
    #[cold]
    pub(crate) fn count(&self, object: IoObject, event: IoEvent, events: u64, bytes: u64) {
        let actor = ACTOR.with(Cell::get);
        let counter = &self.io[actor as usize][object as usize][event as usize];
        counter.events.fetch_add(events, Relaxed);
        counter.bytes.fetch_add(bytes, Relaxed);
    }
    pub fn io(&self, actor: IoActor, object: IoObject) -> IoLine {
        let counter = |e: IoEvent| &self.io[actor as usize][object as usize][e as usize];
        let (events, bytes) = (|e| counter(e).events.load(Relaxed), |e| counter(e).bytes.load(Relaxed));
        IoLine {
            reads: events(IoEvent::Read),
            read_bytes: bytes(IoEvent::Read),
            writes: events(IoEvent::Write),
            write_bytes: bytes(IoEvent::Write),
            extends: events(IoEvent::Extend),
            extend_bytes: bytes(IoEvent::Extend),
            evictions: events(IoEvent::Evict),
            syncs: events(IoEvent::Sync),
        }
    }
    pub fn checkpoints(&self) -> CheckpointStats {
        let c = &self.checkpoints;
        CheckpointStats {
            timed: c.timed.load(Relaxed),
            requested: c.requested.load(Relaxed),
            done: c.done.load(Relaxed),
            write_ms: c.write_ms.load(Relaxed),
            sync_ms: c.sync_ms.load(Relaxed),
            buffers_written: c.buffers_written.load(Relaxed),
        }
    }
    pub fn background_writer(&self) -> BackgroundWriterStats {
        BackgroundWriterStats {
            buffers_clean: self.buffers_clean.load(Relaxed),
            buffers_alloc: self.buffers_alloc.load(Relaxed),
        }
    }
    pub fn reset_at(&self, group: StatsGroup) -> i64 {
        self.reset[group as usize].load(Relaxed)
    }
    /// Counters of the log itself are its own: see `Log::reset_stats`.
    pub(crate) fn reset(&self, group: StatsGroup, now_unix_micros: i64) {
        let zero = |counter: &AtomicU64| counter.store(0, Relaxed);
        match group {
            StatsGroup::Io => self.io.iter().flatten().flatten().for_each(|c| {
                zero(&c.events);
                zero(&c.bytes);
            }),
            StatsGroup::Checkpointer => {
                let c = &self.checkpoints;
                [&c.timed, &c.requested, &c.done, &c.write_ms, &c.sync_ms, &c.buffers_written]
                    .into_iter()
                    .for_each(zero);
            }
            StatsGroup::BackgroundWriter => [&self.buffers_clean, &self.buffers_alloc].into_iter().for_each(zero),
            StatsGroup::Wal => {}
        }
        self.reset[group as usize].store(now_unix_micros, Relaxed);
    }
}
