//! A session's private store: temporary relations, their pages, undo and transactions, shared with nobody.
//!
//! It is a [`Core`] of its own, so heaps, trees and transactions work as in the shared one, but
//!
//! 1. nothing of it is logged, and nothing of it is ever read again by another process: it ends with its session, and
//!    what a crash leaves of its file is removed at the next start;
//! 2. its pages are in a pool of their own, bounded by `buffer_bytes`; what does not fit goes to a file of its own,
//!    which is made when the first page must leave;
//! 3. its transactions ([`Transaction::attach`]) ride in one of the shared engine's and end with that one;
//! 4. ids of its relations are `FIRST_RELATION` and above, so they are told from shared ones;
//! 5. the cleaner thread purges it as it does the shared core, and is the only other one that looks at it.
//!
//! Must not know: what the relations hold, who the session is.

use crate::api::{EngineConfig, Isolation, Persistence, RelationKind};
use crate::buffer::{Pool, PoolMemory};
use crate::core::{Core, TransactionSpace};
use crate::directory::Relation;
use crate::engine::Engine;
use crate::txn::table::{FIRST_CSN, XidTable};
use crate::txn::{Snapshot, Transaction};
use crate::undo::Undo;
use crate::wal::Log;
use kilndb_base::env::{Env, File, OpenMode};
use kilndb_base::sync::atomic::Ordering::*;
use kilndb_base::sync::{Arc, OnceLock};
use kilndb_base::{Error, RelationId, Result, sqlstate};
use std::io;
use std::path::PathBuf;

/// Relations of private stores have ids from here on; shared ones are below.
const FIRST_RELATION: u32 = 0x8000_0000;
/// Address space of one store; less if the machine has no more to give.
const MOST_BYTES: usize = 64 << 30;
const LEAST_BYTES: usize = 1 << 30;

pub fn is_private(id: RelationId) -> bool {
    id.0 >= FIRST_RELATION
}

/// The file of pages that do not fit: made at the first write, removed when the store goes.
struct OverflowFile {
    env: Arc<dyn Env>,
    path: PathBuf,
    file: OnceLock<Arc<dyn File>>,
}

impl OverflowFile {
    fn file(&self) -> io::Result<&Arc<dyn File>> {
        if self.file.get().is_none() {
            if let Some(dir) = self.path.parent() {
                self.env.create_dir_all(dir)?;
            }
            let _ = self.file.set(self.env.open(&self.path, OpenMode::Truncate)?);
        }
        self.file.get().ok_or_else(|| io::Error::other("the file of temporary pages was not opened"))
    }
}
impl File for OverflowFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file()?.read_at(buf, offset)
    }
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.file()?.write_at(data, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn len(&self) -> io::Result<u64> {
        self.file.get().map_or(Ok(0), |f| f.len())
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file()?.set_len(len)
    }
    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.get().map_or(Ok(()), |f| f.punch_hole(offset, len))
    }
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file()?.allocate(offset, len)
    }
}
impl Drop for OverflowFile {
    fn drop(&mut self) {
        if self.file.get().is_some() {
            // If the file cannot be removed now, the next start removes it.
            let _ = self.env.remove_file(&self.path);
        }
    }
}

pub struct PrivateStore {
    core: Arc<Core>,
}

impl PrivateStore {
    /// Pages that do not fit into `buffer_bytes` go to a file in the folder `tmp`, which its owner empties at each
    /// start.
    pub fn open(engine: &Engine, buffer_bytes: u64) -> Result<Arc<PrivateStore>> {
        let shared = engine.core();
        let file = shared.config.data_dir.join("tmp").join(format!("relations.{:016x}", shared.env.random_u64()));
        let config = EngineConfig { workers: 1, shared_buffers_bytes: buffer_bytes, ..shared.config.clone() };
        let log = Arc::new(Log::none(&shared.env, FIRST_CSN, config.log.clone()));
        let overflow = Arc::new(OverflowFile { env: shared.env.clone(), path: file, file: OnceLock::new() });
        let memory = PoolMemory {
            resident_bytes: buffer_bytes,
            most_bytes: MOST_BYTES,
            least_bytes: LEAST_BYTES,
            huge_pages: false,
        };
        let pool = Pool::new(overflow, None, log.clone(), memory, shared.stats.clone())?;
        let limits = &config.limits;
        let undo = Undo::new(2, 1, limits.private_undo_chunks, limits.chunk_bytes)?;
        let xids = XidTable::new(3, limits.private_xids)?;
        let transactions = TransactionSpace { undo, xids };
        let core = Core::assemble(shared.env.clone(), config, log, pool, transactions, FIRST_RELATION)?;
        let core = Arc::new(core);
        engine.clean_also(&core);
        Ok(Arc::new(PrivateStore { core }))
    }
    pub fn relation(&self, id: RelationId) -> Result<Arc<Relation>> {
        let found = self.core.directory.get(id.0);
        found.ok_or_else(|| Error::new(sqlstate::UNDEFINED_TABLE, format!("storage relation {id} does not exist")))
    }
    fn add(&self, kind: RelationKind, creator: u64) -> Result<Arc<Relation>> {
        let directory = &self.core.directory;
        let id = loop {
            let id = directory.next_id.fetch_add(1, Relaxed);
            if id < FIRST_RELATION {
                // When all relation ids are used up they are given out again from the first one.
                directory.next_id.store(FIRST_RELATION, Relaxed);
            } else if directory.get(id).is_none() {
                break id;
            }
        };
        let relation = directory.add(&self.core, id, kind, Persistence::Temporary, creator);
        if kind != RelationKind::Heap {
            relation.extend(0)?;
        }
        Ok(relation)
    }
    /// Transactional: gone again if `txn`, to which the store is attached, rolls back.
    pub fn create_relation(&self, txn: &mut Transaction, kind: RelationKind) -> Result<Arc<Relation>> {
        let txn = txn.within(&self.core)?;
        txn.begin_write()?;
        let relation = self.add(kind, txn.xid)?;
        txn.creates.push(relation.id().0);
        Ok(relation)
    }
    /// Takes effect at commit.
    pub fn drop_relation(&self, txn: &mut Transaction, id: RelationId) -> Result<()> {
        let txn = txn.within(&self.core)?;
        txn.begin_write()?;
        txn.drops.push(id.0);
        Ok(())
    }
    /// Creates a relation that no rollback removes.
    pub fn add_relation(&self, kind: RelationKind) -> Result<Arc<Relation>> {
        self.add(kind, 0)
    }
    /// Removes a relation at once. No session may be reading it.
    pub fn remove_relation(&self, id: RelationId) {
        self.core.directory.remove(&self.core, id.0);
    }
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }
    /// How many pages of the store are in memory.
    pub fn resident_pages(&self) -> u64 {
        self.core.pool.resident() as u64
    }
}

impl Drop for PrivateStore {
    fn drop(&mut self) {
        self.core.stop.store(true, SeqCst);
        // The relations refer to the core: without this neither would be freed.
        self.core.directory.clear();
    }
}

impl Transaction {
    /// From here on the store's relations may be read and written in this transaction.
    pub fn attach(&mut self, store: &PrivateStore) {
        if self.private.is_none() {
            let core = store.core();
            let mut private = Transaction::new(core.clone(), Isolation::ReadCommitted, 0, core.new_owner());
            private.command = self.command;
            self.private = Some(Box::new(private));
        }
    }
    /// The part of the transaction that works in `core`.
    pub(crate) fn within(&mut self, core: &Arc<Core>) -> Result<&mut Transaction> {
        if Arc::ptr_eq(&self.core, core) {
            return Ok(self);
        }
        match &mut self.private {
            Some(private) if Arc::ptr_eq(&private.core, core) => Ok(private),
            _ => Err(not_attached()),
        }
    }
    #[inline]
    pub(crate) fn of(&mut self, relation: &Relation) -> Result<&mut Transaction> {
        if Arc::ptr_eq(&self.core, &relation.core) { Ok(self) } else { self.within(&relation.core) }
    }
    #[inline]
    pub(crate) fn part_of(&self, relation: &Relation) -> Result<&Transaction> {
        if Arc::ptr_eq(&self.core, &relation.core) {
            return Ok(self);
        }
        match &self.private {
            Some(private) if Arc::ptr_eq(&private.core, &relation.core) => Ok(private),
            _ => Err(not_attached()),
        }
    }
}

impl Snapshot {
    /// The snapshot of the store that the relation is in.
    #[inline]
    pub(crate) fn of(&self, relation: &Relation) -> Result<&Snapshot> {
        if self.is_of(&relation.core) {
            return Ok(self);
        }
        match &self.private {
            Some(private) if private.is_of(&relation.core) => Ok(private),
            _ => Err(not_attached()),
        }
    }
}

#[cold]
fn not_attached() -> Error {
    Error::internal("a temporary relation outside of its session's transaction")
}
