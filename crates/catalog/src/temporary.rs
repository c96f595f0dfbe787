//! The rows of system tables that describe a session's temporary objects: in its own memory, beside the shared tables.
//!
//! Invariants
//! 1. A row belongs here if the object it describes (or ties to another) has an OID of the temporary range; nothing in
//!    the shared tables names such an OID.
//! 2. OIDs of that range are the session's own: another session may use the same one for something else.
//! 3. Every change is noted until the transaction ends, and taken back in reverse order
//!    ([`TemporaryCatalog::undo_to`]).
//! 4. `generation` changes with every change: what was made of the rows (cached objects, plans) is of one generation.
//! 5. It changes while statements that look at it are running (a function makes a temporary table): no reference into
//!    it is held across a call.
//! 6. Their storage, and the session's own rows of global temporary tables (`global`), are in the session's private
//!    store, which is opened when it is first needed.
//!
//! Must not know: sessions.

use super::cache::ObjectCache;
use super::catalog_row::CatalogRow;
use super::global::{GlobalTableInstance, GlobalTableInstances};
use super::ids::*;
use super::key_range::KeyRange;
use super::store::{SHAPES, SystemTableLayout, index_key, shape};
use kilndb_base::hash::{HashMap, HashMapExt};
use kilndb_base::{Error, Oid, Result, RowId};
use kilndb_storage::{Engine, PrivateStore};
use kilndb_types::Datum;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeSet;
use std::sync::Arc;

/// OIDs of temporary objects; the shared counter passes over them.
pub const TEMPORARY_OIDS: std::ops::Range<Oid> = 0x7000_0000..0x8000_0000;
/// The session's temporary schema.
pub const TEMPORARY_SCHEMA: Oid = TEMPORARY_OIDS.start;
/// Row ids in blocks from here on are of temporary rows: no system table grows so long.
const FIRST_BLOCK: u32 = 0xC000_0000;
const ROWS_PER_BLOCK: u32 = 256;

#[inline]
pub fn is_temporary(oid: Oid) -> bool {
    TEMPORARY_OIDS.contains(&oid)
}
#[inline]
pub fn is_temporary_row(rid: RowId) -> bool {
    rid.block >= FIRST_BLOCK
}
fn rid_of(number: u32) -> RowId {
    RowId { block: FIRST_BLOCK + number / ROWS_PER_BLOCK, slot: (number % ROWS_PER_BLOCK) as u16 }
}
fn number_of(rid: RowId) -> u32 {
    (rid.block - FIRST_BLOCK) * ROWS_PER_BLOCK + u32::from(rid.slot)
}
/// Numbers of rows are given anew from here on.
const NUMBERS: u32 = 0x3000_0000;

type TemporaryRow = Arc<Vec<Datum>>;
/// The entries of an index: the key, and the number of the row.
type IndexEntries = BTreeSet<(Vec<u8>, u32)>;

/// One system table's temporary rows and their index entries.
struct TemporaryTableRows {
    shape: &'static SystemTableLayout,
    rows: HashMap<u32, TemporaryRow>,
    /// Entries by key, then row, for each index that the system table has.
    indexes: Vec<(Oid, IndexEntries)>,
    next: u32,
}

impl TemporaryTableRows {
    fn new(table: Oid) -> Result<TemporaryTableRows> {
        let shape = shape(table)?;
        let indexes = shape.table.indexes.iter().map(|i| (i.oid, IndexEntries::new())).collect();
        Ok(TemporaryTableRows { shape, rows: HashMap::new(), indexes, next: 0 })
    }
    fn put(&mut self, number: u32, new: Option<TemporaryRow>) -> Result<Option<TemporaryRow>> {
        let old = self.rows.remove(&number);
        for (definition, (_, entries)) in self.shape.table.indexes.iter().zip(&mut self.indexes) {
            if let Some(old) = &old {
                entries.remove(&(index_key(self.shape, definition, old)?, number));
            }
            if let Some(new) = &new {
                entries.insert((index_key(self.shape, definition, new)?, number));
            }
        }
        if let Some(new) = new {
            self.rows.insert(number, new);
        }
        Ok(old)
    }
    fn in_range(&self, index: Oid, range: &KeyRange) -> Vec<(Vec<u8>, u32)> {
        use std::ops::Bound::*;
        let Some((_, entries)) = self.indexes.iter().find(|(oid, _)| *oid == index) else { return Vec::new() };
        let lower = match &range.0 {
            Included(key) => Included((key.clone(), 0)),
            Excluded(key) => Excluded((key.clone(), u32::MAX)),
            Unbounded => Unbounded,
        };
        let upper = match &range.1 {
            Included(key) => Included((key.clone(), u32::MAX)),
            Excluded(key) => Excluded((key.clone(), 0)),
            Unbounded => Unbounded,
        };
        // A range that ends before it begins is empty here, not an error.
        if let (Included(a) | Excluded(a), Included(b) | Excluded(b)) = (&lower, &upper)
            && a >= b
        {
            return Vec::new();
        }
        entries.range((lower, upper)).cloned().collect()
    }
    fn catalog_row(&self, number: u32) -> Option<CatalogRow> {
        let values = self.rows.get(&number)?.clone();
        Some(CatalogRow::of_values(rid_of(number), self.shape, values))
    }
}

/// What was there before a change.
enum TemporaryUndo {
    Row {
        table: Oid,
        number: u32,
        old: Option<TemporaryRow>,
    },
    /// What was known of a global temporary table, or of one of its indexes.
    Instance {
        oid: Oid,
        old: Option<GlobalTableInstance>,
    },
}

#[derive(Default)]
pub struct TemporaryCatalog {
    /// What stores are opened in; None in tests.
    pub(super) engine: Option<Arc<Engine>>,
    pub(super) store: OnceCell<Arc<PrivateStore>>,
    /// The buffer that the session's store gets when it is opened, in bytes.
    pub buffer_bytes: Cell<u64>,
    pub(super) instances: RefCell<HashMap<Oid, GlobalTableInstance>>,
    /// The relations that were made in this transaction: if it has also made the table or index, a rollback takes them
    /// back.
    pub(super) made: RefCell<Vec<Oid>>,
    pub(super) users: Arc<GlobalTableInstances>,
    /// The number under which other sessions see this one in `users`.
    pub(super) session: i32,
    tables: RefCell<HashMap<Oid, TemporaryTableRows>>,
    changes: RefCell<Vec<TemporaryUndo>>,
    next_oid: Cell<Oid>,
    generation: Cell<u64>,
    /// Objects made of the rows, and the version of the shared catalogs they were made with.
    cache: ObjectCache,
    cache_version: Cell<u64>,
    /// The transition tables of the running trigger functions, and of the functions that these call; outer ones first.
    transitions: RefCell<Vec<super::trigger::TransitionTables>>,
}

/// The columns that say to which object a row of a system table belongs.
fn owner_columns(table: Oid) -> &'static [&'static str] {
    match table {
        PG_CLASS | PG_TYPE | PG_NAMESPACE | PG_PROC => &["oid"],
        PG_ATTRIBUTE => &["attrelid"],
        PG_INDEX => &["indexrelid"],
        PG_CONSTRAINT => &["conrelid"],
        PG_ATTRDEF => &["adrelid"],
        PG_SEQUENCE => &["seqrelid"],
        PG_REWRITE => &["ev_class"],
        PG_DESCRIPTION => &["objoid"],
        PG_DEPEND => &["objid", "refobjid"],
        PG_STATISTIC => &["starelid"],
        PG_STATISTIC_EXT => &["oid"],
        PG_STATISTIC_EXT_DATA => &["stxoid"],
        PG_INHERITS => &["inhrelid"],
        PG_PARTITIONED_TABLE => &["partrelid"],
        PG_TRIGGER => &["tgrelid"],
        PG_POLICY => &["polrelid"],
        _ => &[],
    }
}

impl TemporaryCatalog {
    /// Whether this row of a system table describes something temporary.
    pub fn owns(table: Oid, row: &[Datum]) -> bool {
        let Some(shape) = SHAPES.get(&table) else { return false };
        let is_own = |name: &&str| match shape.table.column(name).and_then(|i| row.get(i)) {
            Some(Datum::Oid(oid)) => is_temporary(*oid),
            _ => false,
        };
        owner_columns(table).iter().any(is_own)
    }

    /// The temporary schema, once the session has one.
    pub fn schema(&self) -> Option<Oid> {
        self.tables.borrow().get(&PG_NAMESPACE).filter(|t| !t.rows.is_empty()).map(|_| TEMPORARY_SCHEMA)
    }
    /// No relation, no type, no routine.
    #[inline]
    pub fn is_empty(&self) -> bool {
        let tables = self.tables.borrow();
        tables.is_empty() || Self::has_no_objects(&tables)
    }
    fn has_no_objects(tables: &HashMap<Oid, TemporaryTableRows>) -> bool {
        [PG_CLASS, PG_PROC].iter().all(|table| tables.get(table).is_none_or(|t| t.rows.is_empty()))
    }
    pub fn has_relation(&self, oid: Oid) -> bool {
        self.numbers(PG_CLASS, PG_CLASS_OID_INDEX, &[Datum::Oid(oid)]).is_ok_and(|found| !found.is_empty())
    }
    /// Whether there is a temporary relation or type of that name.
    pub fn has_name(&self, name: &str) -> bool {
        let key = [Datum::text(name)];
        [(PG_CLASS, PG_CLASS_RELNAME_NSP_INDEX), (PG_TYPE, PG_TYPE_TYPNAME_NSP_INDEX)]
            .into_iter()
            .any(|(table, index)| self.numbers(table, index, &key).is_ok_and(|found| !found.is_empty()))
    }
    pub fn push_transitions(&self, tables: super::trigger::TransitionTables) {
        self.transitions.borrow_mut().push(tables);
    }
    pub fn pop_transitions(&self) -> super::trigger::TransitionTables {
        self.transitions.borrow_mut().pop().unwrap_or_default()
    }
    /// Whether a trigger function is running, or something that it has called.
    pub fn is_in_trigger(&self) -> bool {
        !self.transitions.borrow().is_empty()
    }
    /// The running function's table of changed rows of that name; is it that of new rows?
    pub fn transition_table(&self, name: &str) -> Option<(Arc<super::Table>, bool)> {
        let all = self.transitions.borrow();
        let top = all.last()?;
        let is = |known: &Option<String>| known.as_deref() == Some(name);
        let table = top.table.clone()?;
        if is(&top.old_name) { Some((table, false)) } else { is(&top.new_name).then_some((table, true)) }
    }
    /// Hands out the rows of the running function's table of old or new rows.
    pub fn each_transition_row(
        &self,
        is_new: bool,
        io: kilndb_spill::SpillIo<'_>,
        take: &mut dyn FnMut(&super::Table, &[kilndb_types::Datum]) -> Result<()>,
    ) -> Result<()> {
        let all = self.transitions.borrow();
        let Some(top) = all.last() else { return Ok(()) };
        let (Some(table), Some(rows)) = (&top.table, if is_new { &top.rows.new } else { &top.rows.old }) else {
            return Ok(());
        };
        let mut cursor = kilndb_spill::StoreCursor::default();
        for n in 0..rows.len() {
            take(table, rows.row(n, &mut cursor, io)?)?;
        }
        Ok(())
    }
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.get()
    }
    pub fn cache(&self) -> &ObjectCache {
        &self.cache
    }
    /// Cached objects are of this version of the shared catalogs.
    #[inline]
    pub fn settle(&self, version: u64) {
        if self.cache_version.replace(version) != version {
            self.forget_objects();
        }
    }
    pub fn forget_objects(&self) {
        self.cache.clear();
    }

    /// An OID that no temporary object has.
    pub fn new_oid(&self) -> Oid {
        loop {
            let oid = self.next_oid.get().max(TEMPORARY_SCHEMA) + 1;
            self.next_oid.set(if oid >= TEMPORARY_OIDS.end - 1 { TEMPORARY_SCHEMA } else { oid });
            let taken =
                |table: Oid, index: Oid| !self.numbers(table, index, &[Datum::Oid(oid)]).unwrap_or_default().is_empty();
            let indexes = [
                (PG_CLASS, PG_CLASS_OID_INDEX),
                (PG_TYPE, PG_TYPE_OID_INDEX),
                (PG_CONSTRAINT, PG_CONSTRAINT_OID_INDEX),
                (PG_PROC, PG_PROC_OID_INDEX),
                (PG_TRIGGER, PG_TRIGGER_OID_INDEX),
                (PG_POLICY, PG_POLICY_OID_INDEX),
            ];
            if !indexes.into_iter().any(|(table, index)| taken(table, index)) {
                return oid;
            }
        }
    }

    // ---- reading

    fn numbers(&self, table: Oid, index: Oid, key: &[Datum]) -> Result<Vec<u32>> {
        let tables = self.tables.borrow();
        let Some(rows) = tables.get(&table).filter(|t| !t.rows.is_empty()) else { return Ok(Vec::new()) };
        let range = super::store::key_range(rows.shape, index, key)?;
        Ok(rows.in_range(index, &range).into_iter().map(|(_, number)| number).collect())
    }
    pub fn lookup(&self, table: Oid, index: Oid, key: &[Datum]) -> Result<Vec<CatalogRow>> {
        let tables = self.tables.borrow();
        let Some(rows) = tables.get(&table) else { return Ok(Vec::new()) };
        Ok(self.numbers(table, index, key)?.into_iter().filter_map(|n| rows.catalog_row(n)).collect())
    }
    pub fn scan(&self, table: Oid) -> Vec<CatalogRow> {
        let tables = self.tables.borrow();
        let Some(rows) = tables.get(&table) else { return Vec::new() };
        let mut numbers: Vec<u32> = rows.rows.keys().copied().collect();
        numbers.sort_unstable();
        numbers.into_iter().filter_map(|n| rows.catalog_row(n)).collect()
    }
    pub fn count(&self, table: Oid) -> usize {
        self.tables.borrow().get(&table).map_or(0, |t| t.rows.len())
    }
    pub fn row(&self, table: Oid, rid: RowId) -> Option<CatalogRow> {
        self.tables.borrow().get(&table)?.catalog_row(number_of(rid))
    }
    /// Entries of a system index in a range, in its order.
    pub fn entries(&self, table: Oid, index: Oid, range: &KeyRange) -> Vec<(Vec<u8>, RowId)> {
        let tables = self.tables.borrow();
        let Some(rows) = tables.get(&table).filter(|t| !t.rows.is_empty()) else { return Vec::new() };
        rows.in_range(index, range).into_iter().map(|(key, number)| (key, rid_of(number))).collect()
    }

    // ---- writing

    fn change(&self, table: Oid, number: u32, new: Option<TemporaryRow>) -> Result<()> {
        let unknown = || Error::internal("a temporary row of an unknown table");
        let old = self.tables.borrow_mut().get_mut(&table).ok_or_else(unknown)?.put(number, new)?;
        self.changes.borrow_mut().push(TemporaryUndo::Row { table, number, old });
        self.touched();
        Ok(())
    }
    pub(super) fn touched(&self) {
        self.generation.set(self.generation.get() + 1);
        self.forget_objects();
    }
    pub fn insert(&self, table: Oid, row: Vec<Datum>) -> Result<RowId> {
        let number = self.new_number(table)?;
        self.change(table, number, Some(Arc::new(row)))?;
        Ok(rid_of(number))
    }
    fn new_number(&self, table: Oid) -> Result<u32> {
        let mut tables = self.tables.borrow_mut();
        let rows = match tables.entry(table) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(new) => new.insert(TemporaryTableRows::new(table)?),
        };
        while rows.rows.contains_key(&rows.next) {
            rows.next = (rows.next + 1) % NUMBERS;
        }
        let number = rows.next;
        rows.next = (rows.next + 1) % NUMBERS;
        Ok(number)
    }
    pub fn update(&self, table: Oid, rid: RowId, row: Vec<Datum>) -> Result<()> {
        self.change(table, number_of(rid), Some(Arc::new(row)))
    }
    pub fn delete(&self, table: Oid, rid: RowId) -> Result<()> {
        self.change(table, number_of(rid), None)
    }

    // ---- the transaction

    pub(super) fn change_instance(&self, oid: Oid, new: Option<GlobalTableInstance>) {
        let old = self.instances.borrow().get(&oid).copied();
        self.put_instance(oid, new);
        self.changes.borrow_mut().push(TemporaryUndo::Instance { oid, old });
        self.touched();
    }
    /// How many changes there have been, for [`TemporaryCatalog::undo_to`].
    pub fn mark(&self) -> usize {
        self.changes.borrow().len()
    }
    pub fn undo_to(&self, mark: usize) -> Result<()> {
        if self.mark() <= mark {
            return Ok(());
        }
        while self.mark() > mark {
            let Some(change) = self.changes.borrow_mut().pop() else { break };
            match change {
                TemporaryUndo::Row { table, number, old } => {
                    if let Some(rows) = self.tables.borrow_mut().get_mut(&table) {
                        rows.put(number, old)?;
                    }
                }
                TemporaryUndo::Instance { oid, old } => self.put_instance(oid, old),
            }
        }
        self.touched();
        Ok(())
    }
    /// The changes stay.
    pub fn commit(&self) {
        self.changes.take();
    }
}

/// Rows of both: the shared table's and the session's own.
pub fn lookup(
    store: &super::store::CatalogStore,
    own: &TemporaryCatalog,
    table: Oid,
    index: Oid,
    key: &[Datum],
    snapshot: &kilndb_storage::Snapshot,
) -> Result<Vec<CatalogRow>> {
    let mut rows = if names_own(key) { Vec::new() } else { store.lookup(table, index, key, snapshot)? };
    rows.extend(own.lookup(table, index, key)?);
    Ok(rows)
}

/// Does a key name an object of the session's own?
pub fn names_own(key: &[Datum]) -> bool {
    key.iter().any(|k| matches!(k, Datum::Oid(oid) if is_temporary(*oid)))
}

pub fn scan(
    store: &super::store::CatalogStore,
    own: &TemporaryCatalog,
    table: Oid,
    snapshot: &kilndb_storage::Snapshot,
) -> Result<Vec<CatalogRow>> {
    let mut rows = store.scan(table, snapshot)?;
    rows.extend(own.scan(table));
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(oid: Oid, name: &str) -> Vec<Datum> {
        let shape = shape(PG_CLASS).expect("pg_class");
        let mut row = vec![Datum::Null; shape.table.columns.len()];
        for (column, value) in [
            ("oid", Datum::Oid(oid)),
            ("relname", Datum::text(name)),
            ("relnamespace", Datum::Oid(TEMPORARY_SCHEMA)),
            ("reltablespace", Datum::Oid(0)),
            ("relfilenode", Datum::Oid(0)),
        ] {
            row[shape.table.column(column).expect("a column")] = value;
        }
        row
    }

    #[test]
    fn changes_are_taken_back_in_reverse_order() {
        let catalog = TemporaryCatalog::default();
        let oid = catalog.new_oid();
        let rid = catalog.insert(PG_CLASS, class(oid, "a")).expect("inserted");
        catalog.commit();
        let before = catalog.generation();
        catalog.update(PG_CLASS, rid, class(oid, "b")).expect("updated");
        let mark = catalog.mark();
        catalog.delete(PG_CLASS, rid).expect("deleted");
        assert!(catalog.is_empty());
        catalog.undo_to(mark).expect("undone");
        let name = |c: &TemporaryCatalog| {
            c.lookup(PG_CLASS, PG_CLASS_OID_INDEX, &[Datum::Oid(oid)])
                .expect("found")
                .pop()
                .and_then(|r| r.text("relname").map(str::to_string))
        };
        assert_eq!(name(&catalog).as_deref(), Some("b"));
        catalog.undo_to(0).expect("undone");
        assert_eq!(name(&catalog).as_deref(), Some("a"));
        let key = [Datum::text("b"), Datum::Oid(TEMPORARY_SCHEMA)];
        assert!(catalog.lookup(PG_CLASS, PG_CLASS_RELNAME_NSP_INDEX, &key).expect("looked up").is_empty());
        assert!(catalog.generation() > before);
    }

    #[test]
    fn making_and_dropping_leaves_nothing_behind() {
        let catalog = TemporaryCatalog::default();
        for _ in 0..1000 {
            let oid = catalog.new_oid();
            let rid = catalog.insert(PG_CLASS, class(oid, "a")).expect("inserted");
            catalog.delete(PG_CLASS, rid).expect("deleted");
            catalog.commit();
        }
        let tables = catalog.tables.borrow();
        let rows = &tables[&PG_CLASS];
        assert!(
            rows.rows.is_empty() && rows.indexes.iter().all(|(_, entries)| entries.is_empty()) && catalog.mark() == 0
        );
    }
}
