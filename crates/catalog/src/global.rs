//! Where a session's temporary rows are: its private store, and its own instances of global temporary tables.
//!
//! A global temporary table is an ordinary object of the shared catalogs without storage (`relpersistence` 'g'). Each
//! session that looks at it gets an instance: empty storage of its own for the table and its indexes.
//!
//! Invariants
//! 1. An instance is made when a session first looks the table up; no transaction takes that back, since it is empty.
//!    What TRUNCATE and DROP do to it is taken back.
//! 2. [`GlobalTableInstances`] knows all instances of a database: a definition changes only while nobody else has rows of it.
//!
//! Must not know: how definitions change.

use super::model::*;
use super::temporary::TemporaryCatalog;
use kilndb_base::hash::HashMap;
use kilndb_base::sync::{Arc, Mutex, MutexGuard};
use kilndb_base::{Error, Oid, RelationId, Result};
use kilndb_storage::{Engine, PrivateStore, Relation, RelationKind, is_private};

/// `relpersistence` of global temporary tables and their indexes.
pub const GLOBAL: u8 = b'g';
/// The storage option that keeps ON COMMIT.
pub const DELETE_ROWS_OPTION: &str = "on_commit_delete_rows";

#[derive(Clone, Copy, Debug)]
pub struct GlobalTableInstance {
    pub storage: RelationId,
    /// The rows go at the end of the transaction.
    pub delete_rows: bool,
}

/// For each global temporary table, the sessions that have an instance of it, with that instance's heap.
type InstanceHeaps = HashMap<Oid, Vec<(i32, Arc<Relation>)>>;

/// The instances that sessions have of a database's global temporary tables.
#[derive(Default)]
pub struct GlobalTableInstances {
    heaps: Mutex<InstanceHeaps>,
}

impl GlobalTableInstances {
    fn lock(&self) -> MutexGuard<'_, InstanceHeaps> {
        self.heaps.lock().unwrap_or_else(|e| e.into_inner())
    }
    fn set(&self, table: Oid, session: i32, heap: Option<Arc<Relation>>) {
        let mut heaps = self.lock();
        let users = heaps.entry(table).or_default();
        users.retain(|(user, _)| *user != session);
        users.extend(heap.map(|heap| (session, heap)));
        if users.is_empty() {
            heaps.remove(&table);
        }
    }
    fn forget(&self, session: i32) {
        self.lock().retain(|_, users| {
            users.retain(|(user, _)| *user != session);
            !users.is_empty()
        });
    }
}

impl TemporaryCatalog {
    pub fn new(engine: Arc<Engine>, users: Arc<GlobalTableInstances>, session: i32) -> TemporaryCatalog {
        let mut catalog = TemporaryCatalog::default();
        (catalog.engine, catalog.users, catalog.session) = (Some(engine), users, session);
        catalog
    }

    // ---- the private store

    pub fn store(&self) -> Option<&Arc<PrivateStore>> {
        self.store.get()
    }
    pub fn open_store(&self) -> Result<&Arc<PrivateStore>> {
        if self.store.get().is_none() {
            let engine = self.engine.as_ref().ok_or_else(|| Error::internal("temporary tables without an engine"))?;
            let _ = self.store.set(PrivateStore::open(engine, self.buffer_bytes.get())?);
        }
        self.store.get().ok_or_else(|| Error::internal("a private store was not opened"))
    }
    /// A storage relation, shared or the session's own.
    pub fn relation(&self, engine: &Engine, id: RelationId) -> Result<Arc<Relation>> {
        match self.store.get() {
            Some(store) if is_private(id) => store.relation(id),
            _ => engine.relation(id),
        }
    }

    // ---- global temporary tables

    /// The shared definition with the session's own storage.
    pub(crate) fn instance_of(&self, shared: &Table) -> Result<Table> {
        let mut own = shared.clone();
        if shared.kind == TableKind::Index {
            // It is made with its table.
            own.storage = self.instances.borrow().get(&shared.oid).map_or(RelationId(0), |i| i.storage);
            return Ok(own);
        }
        own.storage = self.instance(shared.oid, RelationKind::Heap, shared.delete_rows, RelationId(0))?;
        for index in &mut own.indexes {
            let storage = self.instance(index.oid, index.storage_kind(), shared.delete_rows, own.storage)?;
            *index = Arc::new(Index { storage, ..index.as_ref().clone() });
        }
        Ok(own)
    }
    fn instance(&self, oid: Oid, kind: RelationKind, delete_rows: bool, heap: RelationId) -> Result<RelationId> {
        if let Some(known) = self.instances.borrow().get(&oid) {
            return Ok(known.storage);
        }
        let relation = self.open_store()?.add_relation(kind)?;
        if kind != RelationKind::Heap {
            relation.set_heap(heap);
        }
        self.put_instance(oid, Some(GlobalTableInstance { storage: relation.id(), delete_rows }));
        self.made.borrow_mut().push(oid);
        Ok(relation.id())
    }
    pub(super) fn put_instance(&self, oid: Oid, new: Option<GlobalTableInstance>) {
        let relation = new.and_then(|i| self.store.get()?.relation(i.storage).ok());
        self.users.set(oid, self.session, relation.filter(|r| r.kind() == RelationKind::Heap));
        match new {
            Some(new) => self.instances.borrow_mut().insert(oid, new),
            None => self.instances.borrow_mut().remove(&oid),
        };
    }
    /// TRUNCATE and DROP: another storage, or none.
    pub fn replace_instance(&self, oid: Oid, storage: Option<RelationId>) {
        let delete_rows = self.instances.borrow().get(&oid).is_some_and(|i| i.delete_rows);
        self.change_instance(oid, storage.map(|storage| GlobalTableInstance { storage, delete_rows }));
    }
    pub fn instances(&self) -> Vec<(Oid, RelationId)> {
        self.instances.borrow().iter().map(|(oid, i)| (*oid, i.storage)).collect()
    }
    /// Has another session rows of the table?
    pub fn is_used_by_others(&self, table: Oid) -> bool {
        self.users
            .lock()
            .get(&table)
            .is_some_and(|users| users.iter().any(|(user, heap)| *user != self.session && heap.pages() > 0))
    }
    /// The end of a transaction: rows that were to live no longer go, with their storage. `undone`: so have definitions
    /// that it may have made.
    #[inline]
    pub fn end_transaction(&self, undone: bool) {
        if !self.instances.borrow().is_empty() || !self.made.borrow().is_empty() {
            self.end_instances(undone);
        }
    }

    fn end_instances(&self, undone: bool) {
        let made = self.made.take();
        if self.instances.borrow().is_empty() {
            return;
        }
        let Some(store) = self.store.get().cloned() else { return };
        for oid in made.into_iter().filter(|_| undone) {
            let known = self.instances.borrow().get(&oid).copied();
            if let Some(known) = known {
                self.put_instance(oid, None);
                store.remove_relation(known.storage);
                self.touched();
            }
        }
        let has_rows = |i: &GlobalTableInstance| {
            store.relation(i.storage).is_ok_and(|r| r.kind() == RelationKind::Heap && r.pages() > 0)
        };
        if !self.instances.borrow().values().any(|i| i.delete_rows && has_rows(i)) {
            return;
        }
        let all: Vec<(Oid, RelationId)> =
            self.instances.borrow().iter().filter(|(_, i)| i.delete_rows).map(|(oid, i)| (*oid, i.storage)).collect();
        for (oid, storage) in all {
            self.put_instance(oid, None);
            store.remove_relation(storage);
        }
        self.touched();
    }
    /// The session ends.
    pub fn close(&mut self) {
        if !self.instances.borrow().is_empty() {
            self.users.forget(self.session);
        }
        *self = TemporaryCatalog::default();
    }
}
