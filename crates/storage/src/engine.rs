//! The engine: opens a cluster, runs background threads, creates and drops relations, shuts down.
//!
//! Invariants
//! 1. One engine per folder, and no check beside it: it has the folder locked until it is shut down.
//! 2. Background threads hold the core, never the engine; dropping the engine stops them (as a crash would, but for
//!    what they have begun). One that panics is as bad as a log that fails: the owner is told to end the process.
//!
//! Must not know: SQL.

use crate::api::*;
use crate::buffer::doublewrite::{AREA_BYTES, DoubleWrite, DoubleWriteArea};
use crate::buffer::{Pool, PoolMemory};
use crate::checkpoint::{CheckpointReason, Checkpointer};
use crate::cleaner;
use crate::control::{self, Checkpoint};
use crate::core::{Core, TransactionSpace};
use crate::directory::{Relation, persistence_number};
use crate::locks::owner::LockOwner;
use crate::locks::waiting::{LockWait, WaitedObject};
use crate::locks::waits_for::WaitLink;
use crate::method::work::IndexWorkers;
use crate::ssi::locks::{ReadLockInfo, ReadLockLimits};
use crate::stats::{ACTORS, IoActor, IoObject, Stats, StatsGroup, act_as};
use crate::sync_switch::SyncSwitch;
use crate::tuning::Tuning;
use crate::txn::table::{FIRST_CSN, XidTable};
use crate::txn::{Snapshot, Transaction};
use crate::undo::Undo;
use crate::wal::Log;
use crate::wal::frame::SEGMENT;
use crate::wal::record::{Record, encode};
use crate::wal::segment::{LogSegments, failed};
use kilndb_base::env::{Env, File, FolderLock, FolderLockGuard, OpenMode};
use kilndb_base::park::Park;
use kilndb_base::sync::atomic::{AtomicBool, Ordering::*};
use kilndb_base::sync::{Arc, Mutex, Weak};
use kilndb_base::{Csn, Error, Lsn, RelationId, Result, RowId, Severity, sqlstate};
use std::any::Any;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::time::Duration;

pub struct Engine {
    core: Arc<Core>,
    /// The cores of the sessions' private stores, for the cleaner.
    private: Arc<Mutex<Vec<Weak<Core>>>>,
    pub(crate) checkpointer: Arc<Checkpointer>,
    threads: Mutex<Vec<kilndb_base::sync::JoinHandle<()>>>,
    new: bool,
    /// The lock of the folder, so that no other process opens it. It is dropped last.
    locked: Mutex<Option<FolderLockGuard>>,
}

impl Engine {
    /// Creates the cluster if `data_dir` is empty, else recovers it.
    pub fn open(env: Arc<dyn Env>, config: EngineConfig) -> Result<Arc<Engine>> {
        act_as(IoActor::Startup);
        let opened = Engine::open_now(env, config);
        act_as(IoActor::Client);
        opened
    }
    fn open_now(env: Arc<dyn Env>, config: EngineConfig) -> Result<Arc<Engine>> {
        let dir = config.data_dir.clone();
        env.create_dir_all(&dir).map_err(|e| failed("create", &dir.display().to_string(), e))?;
        let locked = lock_cluster(&*env, &dir, FolderLock::Exclusive)?;
        let found = control::read(&env, &dir)?;
        let new = found.is_none();
        if let Some(damage) = found.as_ref().and_then(|found| found.damage.as_ref()) {
            (config.log)(Severity::Warning, damage);
        }
        let checkpoint = found.map(|found| found.checkpoint).unwrap_or_else(|| Checkpoint {
            redo: SEGMENT,
            clean: true,
            next_xid: 3,
            next_csn: FIRST_CSN,
            next_relation: 1,
            next_chunk: 1,
            ..Checkpoint::default()
        });
        let core = build_core(env, config, &checkpoint, CorePurpose::Serve)?;
        if !new {
            control::harden(&core.env, &dir, &core.log, checkpoint.generation)?;
        }
        let engine = Engine {
            core: core.clone(),
            private: Arc::default(),
            checkpointer: Arc::new(Checkpointer::default()),
            threads: Mutex::default(),
            new,
            locked: Mutex::new(Some(locked)),
        };
        engine.checkpointer.generation.store(checkpoint.generation, Relaxed);
        if new {
            core.rebuild_space()?;
        } else {
            core.load_checkpoint(&checkpoint)?;
        }
        let mut reason = CheckpointReason::Start;
        if !new && (!checkpoint.clean || !checkpoint.unfinished.is_empty()) {
            core.tell(Severity::Log, "the cluster was not shut down properly; recovery starts");
            reason = CheckpointReason::EndOfRecovery;
            // Log space may be needed before the flusher runs: start it first. It idles until there are records.
            engine.spawn_flusher()?;
            core.recover(&checkpoint)?;
            // The undo's pages must not go to others before the undo is not needed: a recovery that is cut off begins
            // again.
            core.drop_all_undo()?;
        } else {
            let start = crate::wal::segment::fresh_lsn(&core.env, &core.config.data_dir.join("wal"), checkpoint.redo)?;
            core.log.restart_at(start, checkpoint.next_csn.max(FIRST_CSN));
            engine.spawn_flusher()?;
            core.drop_all_undo()?;
        }
        if !new {
            // Of a cluster that is being made, control is the first file with anything in it.
            core.log.begin()?;
        }
        engine.checkpointer.checkpoint(&core, reason, &[])?;
        engine.spawn_others()?;
        Ok(Arc::new(engine))
    }
    fn spawn(&self, name: &str, body: impl FnOnce(&Core) + Send + 'static) -> Result<()> {
        let core = self.core.clone();
        let told = name.to_string();
        let guarded = move || {
            // A background thread that panics must end the process: otherwise its work would silently stop.
            if let Err(panic) = std::panic::catch_unwind(AssertUnwindSafe(|| body(&core))) {
                core.log
                    .fail(&Error::internal(format!("background thread \"{told}\" panicked: {}", panic_text(&*panic))));
            }
        };
        let handle = self.core.env.spawn(name, Box::new(guarded))?;
        crate::lock(&self.threads).push(handle);
        Ok(())
    }
    fn spawn_flusher(&self) -> Result<()> {
        self.spawn("wal-flusher", |core| {
            act_as(IoActor::WalWriter);
            core.log.run_flusher();
        })
    }
    fn spawn_others(&self) -> Result<()> {
        let private = self.private.clone();
        self.spawn("cleaner", move |core| {
            act_as(IoActor::BackgroundWriter);
            cleaner::run(core, &private);
        })?;
        self.spawn("index-merger", |core| {
            act_as(IoActor::BackgroundWriter);
            let mut workers = IndexWorkers::default();
            while !core.stop.load(Acquire) {
                let busy = core.index_work_round(&mut workers);
                core.env.sleep(Duration::from_millis(if busy { 1 } else { 20 }));
            }
        })?;
        let checkpointer = self.checkpointer.clone();
        self.spawn("checkpointer", move |core| {
            act_as(IoActor::Checkpointer);
            checkpointer.run(core);
        })
    }
    /// How many pages may be in memory at the same time.
    pub fn buffer_pages(&self) -> u64 {
        self.core.config.shared_buffers_bytes / crate::page::PAGE as u64
    }
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }
    /// The cleaner looks after a private store too, as long as that is there.
    pub(crate) fn clean_also(&self, core: &Arc<Core>) {
        crate::lock(&self.private).push(Arc::downgrade(core));
    }
    /// True if `open` made a new cluster.
    pub fn is_new(&self) -> bool {
        self.new
    }
    pub fn begin(self: &Arc<Self>, isolation: Isolation, worker: usize) -> Transaction {
        let owner = self.core.new_owner();
        Transaction::new(self.core.clone(), isolation, worker, owner)
    }
    /// As [`Engine::begin`], for a session that also holds locks of its own: the two never deadlock with each other
    /// unseen, and never block each other.
    pub fn begin_for(self: &Arc<Self>, session: &LockOwner, isolation: Isolation, worker: usize) -> Transaction {
        let mut transaction = Transaction::new(self.core.clone(), isolation, worker, session.owner);
        transaction.of_session = true;
        transaction
    }
    /// For locks that outlive the transaction in which the session takes the first of them. As long as it holds any,
    /// its next transactions begin with [`Engine::begin_for`].
    pub fn lock_owner_of(&self, transaction: &Transaction) -> LockOwner {
        LockOwner::new(self.core.clone(), transaction.owner)
    }
    /// The circle of waits because of which the owner was refused last, and what each waits for.
    pub fn take_deadlock(&self, owner: u64) -> Vec<(WaitLink, Option<u64>)> {
        let cycle = self.core.waits.take_refused(owner);
        cycle.into_iter().map(|waiting| (waiting, self.core.xids.running(waiting.blocker))).collect()
    }
    /// The owners that a lock owner waits for.
    pub fn blockers_of(&self, owner: u64) -> Vec<u64> {
        self.core.waits.blockers_of(owner)
    }
    /// What a lock owner waits for. It looks at all that wait: for messages.
    pub fn lock_wait(&self, owner: u64) -> Option<LockWait> {
        let core = &*self.core;
        let mut wait = core.waits.wait_of(owner)?;
        match wait.object {
            WaitedObject::Transaction(0) => {
                let xid = wait.holders.first().and_then(|holder| core.xids.running(*holder));
                wait.object = WaitedObject::Transaction(xid.unwrap_or(0));
            }
            WaitedObject::Row { relation, row, .. } => {
                // A queue that was led to another row is not found; then the owner stands for it.
                let queue = core.rows.waiters((relation.0, row.to_u64()));
                if let Some((first, behind)) = queue.split_first().filter(|_| queue.contains(&owner)) {
                    wait.holders = vec![*first];
                    wait.queue = behind.to_vec();
                }
            }
            WaitedObject::Lock(..) | WaitedObject::Transaction(_) => {}
        }
        Some(wait)
    }
    /// Does a lock owner wait? Not any more once it has been given what it waited for, or may look for it.
    pub fn is_waiting(&self, owner: u64) -> bool {
        self.core.waits.is_waiting(owner)
    }
    /// The id of a lock owner's transaction, if it has one. It looks at all that run: for messages.
    pub fn running_transaction(&self, owner: u64) -> Option<u64> {
        self.core.xids.running(owner)
    }
    /// Does a lock owner wait for a row behind other waiters?
    pub fn waits_in_line(&self, owner: u64) -> bool {
        self.core.waits.is_in_line(owner)
    }
    /// Whether somebody waits for a lock: whoever holds it and can come back later gives it up.
    pub fn is_lock_waited_for(&self, tag: &LockTag) -> bool {
        self.core.locks.is_waited_for(tag)
    }
    /// The rows that are updated the most or waited for, at most `rows_max`, those with the most waiters and updates first.
    pub fn hot_rows(&self, rows_max: usize) -> Vec<HotRow> {
        let core = &*self.core;
        let mut found: BTreeMap<(u32, u64), HotRow> = BTreeMap::new();
        let hot_row = |key: (u32, u64)| HotRow {
            relation: RelationId(key.0),
            row: RowId::from_u64(key.1),
            updates_per_second: 0.0,
            waiters: 0,
            holder: None,
        };
        for rate in core.updates.rates(core.env.monotonic_nanos()).into_iter().take(rows_max) {
            let key = (rate.relation, rate.row.to_u64());
            found.insert(key, HotRow { updates_per_second: rate.per_second, ..hot_row(key) });
        }
        for queue in core.rows.queues() {
            let row = found.entry(queue.key).or_insert_with(|| hot_row(queue.key));
            row.waiters = queue.waiters;
            row.holder = core.waits.blockers_of(queue.first).first().copied();
        }
        let mut rows: Vec<HotRow> = found.into_values().collect();
        rows.sort_by(|a, b| b.waiters.cmp(&a.waiters).then(b.updates_per_second.total_cmp(&a.updates_per_second)));
        rows.truncate(rows_max);
        rows
    }
    pub fn locks_snapshot(&self) -> Vec<LockInfo> {
        self.core.locks.snapshot()
    }
    // ---- SERIALIZABLE

    pub fn set_read_lock_limits(&self, limits: &ReadLockLimits) {
        self.core.ssi.set_limits(limits);
    }
    /// The SIREAD locks of all serializable transactions.
    pub fn read_locks_snapshot(&self) -> Vec<ReadLockInfo> {
        self.core.ssi.list()
    }
    /// Owners of the transactions for whose end a READ ONLY DEFERRABLE one waits.
    pub fn safe_snapshot_blockers(&self, owner: u64) -> Vec<u64> {
        self.core.ssi.waited_for(owner)
    }
    /// To be called before all rows of a heap go at once without being locked one by one.
    pub fn empties(&self, txn: &Transaction, heap: RelationId) -> Result<()> {
        match &txn.reader {
            Some(reader) => self.core.ssi.emptied(&self.core, reader, heap.0),
            None => Ok(()),
        }
    }
    /// A relation is replaced by another, or a heap takes over for an index of it: whoever has read anything of the one
    /// counts as having read all of the other. Nobody may be reading or writing either.
    pub fn move_read_locks(&self, from: RelationId, to: RelationId) -> Result<()> {
        self.core.ssi.move_locks(from.0, &*self.relation(to)?);
        Ok(())
    }
    /// The snapshots of others that are older than this one, as of now: each with its CSN, and with this one's own
    /// changes. What one of them sees may go as soon as its owner ends; then it sees something newer.
    pub fn older_snapshots(&self, than: &Snapshot) -> Vec<Snapshot> {
        let csns = self.core.snapshots.live(than.csn).csns();
        let older = csns.into_iter().filter(|csn| *csn < than.csn);
        older.map(|csn| Snapshot { csn, reader: None, ..than.clone() }).collect()
    }
    pub fn checkpoint(&self, park: &dyn Park) -> Result<()> {
        self.checkpointer.request(0, park)
    }
    /// To be called before a change of many rows: waits if the log fills faster than checkpoints can make room within
    /// `max_wal_size`. Small changes are not held up, since others may wait for their rows.
    pub fn pace_bulk(&self, rows: usize, park: &dyn Park) -> Result<()> {
        if rows < BULK_ROWS { Ok(()) } else { self.checkpointer.await_room(&self.core, park) }
    }
    /// For a transaction that [`Transaction::needs_checkpoint`] before it commits, and does nothing else any more.
    pub fn checkpoint_for(&self, txn: &Transaction, park: &dyn Park) -> Result<()> {
        self.checkpointer.request(txn.xid, park)
    }
    /// Rolls back what is still open (its owners do nothing any more), purges, stops the background threads, and writes
    /// a final checkpoint: the next start has nothing to recover.
    pub fn shutdown(&self) -> Result<()> {
        let core = &self.core;
        core.roll_back_open()?;
        core.stop.store(true, SeqCst);
        let threads = std::mem::take(&mut *crate::lock(&self.threads));
        // The flusher is needed for the last checkpoint.
        let mut threads = threads.into_iter();
        let flusher = threads.next();
        for t in threads {
            let _ = t.join();
        }
        // The cleaner has ended by now, so no other thread can put an item back into the queue.
        for _ in 0..1000 {
            core.log.flush_blocking(core.log.insert_lsn())?;
            core.purge_round(true);
            if core.purge.len() == 0 {
                break;
            }
            core.env.sleep(Duration::from_millis(1));
        }
        core.undo.close_streams();
        core.undo.discard(&core.pool, &core.directory.space, &core.log, u64::MAX);
        let outcome = self.checkpointer.checkpoint(core, CheckpointReason::Shutdown, &[]);
        core.log.stop();
        if let Some(f) = flusher {
            let _ = f.join();
        }
        *crate::lock(&self.locked) = None;
        outcome
    }

    /// Transactional: gone again if `txn` rolls back.
    pub fn create_relation(
        &self,
        txn: &mut Transaction,
        kind: RelationKind,
        persistence: Persistence,
    ) -> Result<Arc<Relation>> {
        txn.begin_write()?;
        let core = &self.core;
        let id = core.directory.new_id(core.config.limits.relation_ids)?;
        let xid = txn.xid;
        let relation = core.directory.add(core, id, kind, persistence, xid);
        if persistence != Persistence::Temporary {
            let record =
                Record::Create { xid, rel: id, kind: kind.number(), persistence: persistence_number(persistence) };
            core.log.append(&encode(&record));
            txn.logged_work = true;
        }
        txn.creates.push(id);
        if kind != RelationKind::Heap {
            relation.extend(0)?;
        }
        Ok(relation)
    }
    /// Takes effect at commit.
    pub fn drop_relation(&self, txn: &mut Transaction, id: RelationId) -> Result<()> {
        txn.begin_removal()?;
        let relation = self.relation(id)?;
        txn.logged_work |= relation.persistence != Persistence::Temporary;
        relation.dropper.store(txn.xid, Release);
        txn.drops.push(id.0);
        Ok(())
    }
    /// An index whose entries name their heaps: those of heaps that `txn` drops are taken out when it has committed.
    pub fn sweep_index(&self, txn: &mut Transaction, id: RelationId) {
        if !txn.sweeps.contains(&id.0) {
            txn.sweeps.push(id.0);
        }
    }
    pub fn relation(&self, id: RelationId) -> Result<Arc<Relation>> {
        self.core
            .directory
            .get(id.0)
            .ok_or_else(|| Error::new(sqlstate::UNDEFINED_TABLE, format!("storage relation {id} does not exist")))
    }

    /// Waits until everything up to `lsn` is on disk. Err: the log has failed, and nobody may be told of what it says.
    pub fn wait_flushed(&self, lsn: Lsn, park: &dyn Park) -> Result<()> {
        self.core.log.wait_flushed(lsn.0, park)
    }
    /// Does a session wait for a flush that [`Engine::begin_flush`] is to start (see `Park::is_flushed_for`)?
    pub fn is_flush_wanted(&self) -> bool {
        self.core.log.is_flush_wanted()
    }
    pub fn begin_flush(&self, is_caller_idle: bool) {
        self.core.log.begin_flush(is_caller_idle);
    }
    /// Waits for the flush of a commit that may be delayed so that others share it, if enough of them are under way.
    pub fn wait_flushed_together(&self, lsn: Lsn, delay: CommitDelay, park: &dyn Park) -> Result<()> {
        let core = &self.core;
        if delay.delay_us > 0
            && core.sync_on.load(Relaxed)
            && core.xids.unfinished().iter().filter(|(_, _, purge)| !purge).count() >= delay.siblings
        {
            core.log.delay_next_flush(delay.delay_us);
        }
        core.log.wait_flushed(lsn.0, park)
    }
    pub fn flushed_lsn(&self) -> Lsn {
        Lsn(self.core.log.flushed())
    }
    pub fn insert_lsn(&self) -> Lsn {
        Lsn(self.core.log.insert_lsn())
    }
    /// The CSN of the newest commit: a snapshot taken from now on has this one or a later one.
    pub fn last_csn(&self) -> Csn {
        Csn(self.core.log.last_csn())
    }
    pub fn wal_stats(&self) -> WalStats {
        self.core.log.stats()
    }
    pub fn buffer_stats(&self) -> BufferStats {
        let lines: Vec<_> = ACTORS.iter().map(|actor| self.core.stats.io(*actor, IoObject::Relation)).collect();
        BufferStats {
            reads: lines.iter().map(|l| l.reads).sum(),
            evictions: lines.iter().map(|l| l.evictions).sum(),
            writes: lines.iter().map(|l| l.writes).sum(),
            resident_pages: self.core.pool.resident() as u64,
            checkpoints: self.core.stats.checkpoints().done,
        }
    }
    /// The bytes of undo that some snapshot or transaction still needs or may need.
    pub fn undo_bytes(&self) -> u64 {
        self.core.undo.count() as u64 * crate::undo::record::CHUNK
    }
    /// How many transactions have deletes that wait to be purged.
    pub fn purge_backlog(&self) -> usize {
        self.core.purge.len()
    }
    pub fn tuning(&self) -> Tuning {
        self.core.tuning.get()
    }
    pub fn set_tuning(&self, tuning: Tuning) {
        self.core.sync_on.store(tuning.fsync, Relaxed);
        self.core.log.set_tuning(&tuning);
        self.core.tuning.set(tuning);
    }
    pub fn stats(&self) -> &Stats {
        &self.core.stats
    }
    pub fn reset_stats(&self, group: StatsGroup) {
        self.core.stats.reset(group, self.core.env.unix_micros());
        if group == StatsGroup::Wal {
            self.core.log.reset_stats();
        }
    }
}
impl Drop for Engine {
    fn drop(&mut self) {
        self.core.stop.store(true, SeqCst);
        // The flusher last: the others may be waiting for it.
        let mut threads = std::mem::take(&mut *crate::lock(&self.threads)).into_iter();
        let flusher = threads.next();
        for t in threads {
            let _ = t.join();
        }
        self.core.log.stop();
        if let Some(f) = flusher {
            let _ = f.join();
        }
        self.core.directory.clear();
    }
}

/// The message of a panic, if it is a text.
fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text")
}

/// The folder itself is locked, not a file in it: a file may be removed.
pub(crate) fn lock_cluster(env: &dyn Env, dir: &Path, how: FolderLock) -> Result<FolderLockGuard> {
    let shown = dir.display();
    let locked = env.lock_dir(dir, how).map_err(|e| failed("lock", &shown.to_string(), e))?;
    locked.ok_or_else(|| {
        let text = format!("data folder \"{shown}\" is in use by another kilndb server or check");
        Error::new(sqlstate::OBJECT_IN_USE, text)
    })
}

/// The purpose that a core is built for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CorePurpose {
    Serve,
    /// The cluster is only inspected: nothing is written, and no file is made.
    Inspect,
}

pub(crate) fn build_core(
    env: Arc<dyn Env>,
    config: EngineConfig,
    c: &Checkpoint,
    purpose: CorePurpose,
) -> Result<Arc<Core>> {
    let dir = config.data_dir.clone();
    let serves = purpose == CorePurpose::Serve;
    let sync_on = Arc::new(AtomicBool::new(config.fsync));
    let env: Arc<dyn Env> = Arc::new(SyncSwitch::new(env, sync_on.clone()));
    // Only a cluster that is being made has no such file.
    let how = match purpose {
        CorePurpose::Serve if c.generation == 0 => OpenMode::Create,
        CorePurpose::Serve => OpenMode::Existing,
        CorePurpose::Inspect => OpenMode::ReadOnly,
    };
    let pages = env.open(&dir.join("pages"), how).map_err(|e| failed("open", "pages", e))?;
    let how = if serves { OpenMode::Create } else { OpenMode::ReadOnly };
    let double_write = env.open(&dir.join("doublewrite"), how).map_err(|e| failed("open", "doublewrite", e))?;
    let area = DoubleWriteArea::read(&*double_write)?;
    if serves {
        reserve_area(&*double_write, &config, c)?;
        if area.is_damaged() {
            let text =
                "file \"doublewrite\" is damaged (the line behind its slots): no torn page can be restored from it";
            (config.log)(Severity::Warning, text);
        }
        if let Some(slot) = area.rotten_slot() {
            let text =
                format!("file \"doublewrite\" is damaged (slot {slot}): no page is restored from copies before that");
            (config.log)(Severity::Warning, &text);
        }
        area.harden(&*double_write)?;
        let repaired = crate::buffer::doublewrite::repair_pages(&*pages, &area)?;
        if repaired.restored > 0 {
            let text = format!("{} torn pages were restored from the double-write area", repaired.restored);
            (config.log)(Severity::Log, &text);
        }
        if repaired.left > 0 {
            let text = format!("{} torn pages could not be restored from the double-write area", repaired.left);
            (config.log)(Severity::Warning, &text);
        }
        env.create_dir_all(&dir.join("wal")).map_err(|e| failed("create", "wal", e))?;
        env.sync_dir(&dir)?;
    }
    let stats = Arc::new(Stats::new(env.unix_micros()));
    let segments = LogSegments::new(env.clone(), dir.join("wal"), stats.clone());
    let log = Log::new(
        segments,
        c.redo,
        c.next_csn.max(FIRST_CSN),
        config.wal_buffers_bytes,
        &Tuning::of(&config),
        config.log.clone(),
    );
    let log = Arc::new(log);
    let workers = config.workers.max(1) + 1;
    let memory = PoolMemory::of_cluster(config.shared_buffers_bytes, config.huge_pages);
    let double_write = DoubleWrite::new(double_write, &area);
    let pool = Pool::new(pages, Some(double_write), log.clone(), memory, stats)?;
    let undo = Undo::new(workers, c.next_chunk.max(1), config.limits.undo_chunks, config.limits.chunk_bytes)?;
    let xids = XidTable::new(c.next_xid.max(3), config.limits.xids)?;
    let mut core = Core::assemble(env, config, log, pool, TransactionSpace { undo, xids }, 1)?;
    core.sync_on = sync_on;
    core.known_durable.store(area.newest_lsn().max(c.durable), Relaxed);
    let core = Arc::new(core);
    core.judge_pages();
    Ok(core)
}

/// The double-write area has all its room from the beginning: a page must get to its place on a full disk.
fn reserve_area(file: &dyn File, config: &EngineConfig, c: &Checkpoint) -> Result<()> {
    if file.len()? >= AREA_BYTES {
        return Ok(());
    }
    match file.allocate(0, AREA_BYTES).map_err(|e| failed("extend", "doublewrite", e)) {
        Err(e) if c.generation == 0 => Err(e),
        Err(e) => {
            // An older program has made it. What it has may be enough.
            (config.log)(Severity::Warning, e.message());
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// A change of so many rows at once is of a statement in bulk.
const BULK_ROWS: usize = 64;
