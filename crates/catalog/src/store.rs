//! Rows of the system tables: real heaps and B+trees of one database, read by index and written with all their
//! indexes kept.
//!
//! Invariants
//! 1. Every write goes through [`CatalogWriter`], inside a transaction: DDL rolls back like the rest.
//! 2. A shared table's storage is the same in every database's store.

use super::builtin::{BUILTINS, SystemIndex, SystemTable};
use super::catalog_row::CatalogRow;
use super::default_grants::new_object;
use super::definition_rows::defined_objects;
use super::ids::*;
use super::key_range::{KeyRange, prefix_range};
use super::privileges::items_of_new_owner;
use super::shared_dependencies::{NeededRoles, needed_roles, owned_table};
use super::temporary::{TemporaryCatalog, is_temporary_row};
use kilndb_base::hash::HashMap;
use kilndb_base::park::Park;
use kilndb_base::sync::{Arc, LazyLock};
use kilndb_base::{Error, Oid, Result, RowId};
use kilndb_storage::{
    Fetched, IndexInsert, Relation, RowBatch, Snapshot, Transaction, Uniqueness, WaitPolicy, WriteOptions, WriteOutcome,
};
use kilndb_types::acl::AclItem;
use kilndb_types::key::encode_key;
use kilndb_types::row::{RowDescriptor, encode_row};
use kilndb_types::{Datum, oids};
use std::borrow::Cow;

/// Everything fixed about a system table: shape and storage format.
pub struct SystemTableLayout {
    pub table: &'static SystemTable,
    pub descriptor: Arc<RowDescriptor>,
}

pub static SHAPES: LazyLock<HashMap<Oid, SystemTableLayout>> = LazyLock::new(|| {
    BUILTINS
        .tables
        .iter()
        .filter_map(|table| {
            let types: Vec<Oid> = table.columns.iter().map(|c| c.type_oid).collect();
            let descriptor = Arc::new(RowDescriptor::new(&types).ok()?);
            Some((table.oid, SystemTableLayout { table, descriptor }))
        })
        .collect()
});

pub fn shape(table: Oid) -> Result<&'static SystemTableLayout> {
    SHAPES.get(&table).ok_or_else(|| Error::internal(format!("system table {table} has no shape")))
}

/// Where the system tables and indexes of a database are, by their OIDs.
#[derive(Clone, Default)]
pub struct CatalogStore {
    pub relations: HashMap<Oid, Arc<Relation>>,
}

impl CatalogStore {
    pub fn relation(&self, oid: Oid) -> Result<&Arc<Relation>> {
        self.relations.get(&oid).ok_or_else(|| Error::internal(format!("system relation {oid} has no storage")))
    }

    /// Rows whose first index columns equal `key`.
    pub fn lookup(&self, table: Oid, index: Oid, key: &[Datum], snapshot: &Snapshot) -> Result<Vec<CatalogRow>> {
        let range = key_range(shape(table)?, index, key)?;
        let mut rows: Vec<CatalogRow> = Vec::new();
        self.visit(&IndexRange { table, index, range, backward: false }, snapshot, &mut |row| {
            rows.push(row);
            Ok(true)
        })?;
        Ok(rows)
    }

    /// Gives the rows of a range to `visit`, in the index's order, until it wants no more.
    pub fn visit(
        &self,
        range: &IndexRange,
        snapshot: &Snapshot,
        visit: &mut dyn FnMut(CatalogRow) -> Result<bool>,
    ) -> Result<()> {
        let shape = shape(range.table)?;
        let definition = index_of(shape, range.index)?;
        let heap = self.relation(range.table)?;
        let (lower, upper) = range.range.clone();
        let mut scan = self.relation(range.index)?.index_scan(lower, upper, range.backward);
        let (mut keys, mut ends, mut rids, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        loop {
            let more = scan.next_batch(&mut keys, &mut ends, &mut rids)?;
            let mut start = 0;
            for (at, (rid, end)) in rids.iter().zip(&ends).enumerate() {
                let entry = &keys[start..*end as usize];
                start = *end as usize;
                let Fetched::Visible { recheck } = heap.fetch(*rid, snapshot, &mut bytes)? else { continue };
                let row = CatalogRow::stored(*rid, shape, &bytes)?;
                if (recheck || scan.is_retired(at)) && index_key(shape, definition, row.values())? != entry {
                    continue;
                }
                if !visit(row)? {
                    return Ok(());
                }
            }
            keys.clear();
            ends.clear();
            rids.clear();
            if !more {
                return Ok(());
            }
        }
    }

    pub fn scan(&self, table: Oid, snapshot: &Snapshot) -> Result<Vec<CatalogRow>> {
        let shape = shape(table)?;
        let heap = self.relation(table)?;
        let mut rows = Vec::new();
        let mut batch = RowBatch::default();
        for block in 0..heap.pages() {
            batch.bytes.clear();
            batch.rows.clear();
            heap.scan_block(block, snapshot, &mut batch)?;
            for (rid, start, end) in &batch.rows {
                rows.push(CatalogRow::stored(*rid, shape, &batch.bytes[*start as usize..*end as usize])?);
            }
        }
        Ok(rows)
    }
}

/// Rows of a system table by a range of one of its indexes.
pub struct IndexRange {
    pub table: Oid,
    pub index: Oid,
    pub range: KeyRange,
    /// From its end to its beginning.
    pub backward: bool,
}

fn index_of(shape: &'static SystemTableLayout, index: Oid) -> Result<&'static SystemIndex> {
    let found = shape.table.indexes.iter().find(|i| i.oid == index);
    found.ok_or_else(|| Error::internal(format!("system index {index} is not one of {}", shape.table.name)))
}

/// The range of an index's entries whose first columns equal `key`.
pub fn key_range(shape: &'static SystemTableLayout, index: Oid, key: &[Datum]) -> Result<KeyRange> {
    let mut prefix = Vec::new();
    for (column, value) in index_of(shape, index)?.keys.iter().zip(key) {
        encode_key(shape.table.columns[*column].type_oid, value, false, false, &mut prefix)?;
    }
    Ok(prefix_range(prefix))
}

pub fn index_key(shape: &SystemTableLayout, index: &SystemIndex, values: &[Datum]) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    for column in &index.keys {
        encode_key(shape.table.columns[*column].type_oid, &values[*column], false, false, &mut key)?;
    }
    Ok(key)
}

/// Writes rows of system tables within a transaction: those of temporary objects into the session's own catalog.
pub struct CatalogWriter<'a> {
    pub store: &'a CatalogStore,
    /// The database whose rows are written.
    pub database: Oid,
    pub txn: &'a mut Transaction,
    pub park: &'a dyn Park,
    /// The session's temporary objects; None where there can be none.
    pub temporary: Option<&'a TemporaryCatalog>,
    /// A row of a shared table was written.
    pub wrote_shared: bool,
    /// What was.
    pub changes: super::changes::Changes,
    pub definitions: WrittenDefinitions,
    /// What is inserted is new: it begins with its owner's default privileges.
    pub grants_defaults: bool,
}

/// What a writer of system tables has done to the definitions of objects (class, OID).
#[derive(Default)]
pub struct WrittenDefinitions {
    /// Rows that define them were written: what they need may have changed.
    pub defined: Vec<(Oid, Oid)>,
    /// Their own rows were inserted, or deleted.
    pub created: Vec<(Oid, Oid)>,
    pub deleted: Vec<(Oid, Oid)>,
}

impl<'a> CatalogWriter<'a> {
    /// Writes as it is told, without temporary objects and without the grants that new objects begin with.
    pub fn plain(
        store: &'a CatalogStore,
        database: Oid,
        txn: &'a mut Transaction,
        park: &'a dyn Park,
    ) -> CatalogWriter<'a> {
        CatalogWriter {
            store,
            database,
            txn,
            park,
            temporary: None,
            wrote_shared: false,
            changes: Default::default(),
            definitions: WrittenDefinitions::default(),
            grants_defaults: false,
        }
    }
}

impl CatalogWriter<'_> {
    /// `values`: (column, value); columns not named are NULL if they may be, else zero, false or empty.
    pub fn insert(&mut self, table: Oid, values: &[(&str, Datum)]) -> Result<RowId> {
        let shape = shape(table)?;
        let mut row = unset_row(shape);
        for (name, value) in values {
            row[position(shape, name)?] = value.clone();
        }
        self.insert_row(table, &row)
    }

    /// As [`CatalogWriter::insert`] for several rows with values for the same columns: a page or leaf is latched once
    /// for those that come to it.
    pub fn insert_many(&mut self, table: Oid, columns: &[&str], rows: &[Vec<Datum>]) -> Result<()> {
        let shape = shape(table)?;
        let positions = columns.iter().map(|name| position(shape, name)).collect::<Result<Vec<_>>>()?;
        let unset = unset_row(shape);
        let mut shared = Vec::with_capacity(rows.len());
        for values in rows {
            let mut row = unset.clone();
            positions.iter().zip(values).for_each(|(at, value)| row[*at] = value.clone());
            self.note_inserted(table, &row);
            if TemporaryCatalog::owns(table, &row) {
                self.temporary()?.insert(table, row)?;
            } else {
                self.settle_roles(table, None, Some(&row))?;
                self.changes.note(table, &row, true);
                shared.push(row);
            }
        }
        self.wrote_shared |= !shared.is_empty();
        self.store_many(shape, &shared)
    }

    fn store_many(&mut self, shape: &SystemTableLayout, rows: &[Vec<Datum>]) -> Result<()> {
        // A transaction that makes temporary objects alone has nothing to write here.
        if rows.is_empty() {
            return Ok(());
        }
        let (mut batch, mut bytes, mut rids) = (RowBatch::default(), Vec::new(), Vec::new());
        for row in rows {
            bytes.clear();
            encode_row(&shape.descriptor, row, &mut bytes)?;
            batch.push(RowId::from_u64(0), &bytes);
        }
        let heap = self.store.relation(shape.table.oid)?;
        heap.insert_many(self.txn, &batch, &mut rids)?;
        for index in &shape.table.indexes {
            let mut keys = Vec::with_capacity(rows.len());
            for (row, rid) in rows.iter().zip(&rids) {
                keys.push((index_key(shape, index, row)?, *rid));
            }
            // Neighbours in the tree are inserted together.
            keys.sort();
            batch.clear();
            keys.iter().for_each(|(key, rid)| batch.push(*rid, key));
            let relation = self.store.relation(index.oid)?;
            if relation.index_insert_many(self.txn, heap, &batch, uniqueness_of(index), self.park)?.is_some() {
                return Err(duplicate_key(index));
            }
        }
        Ok(())
    }

    fn note_inserted(&mut self, table: Oid, row: &[Datum]) {
        let defined = defined_objects(table, None, row);
        self.definitions.created.extend(defined.iter().filter(|(class, _)| *class == table));
        self.definitions.defined.extend(defined);
    }

    /// The row as it is to be inserted: with the grants that its object begins with.
    fn with_default_grants<'r>(&mut self, table: Oid, row: &'r [Datum]) -> Result<Cow<'r, [Datum]>> {
        let new = if self.grants_defaults { new_object(table, row) } else { None };
        let Some(new) = new else { return Ok(Cow::Borrowed(row)) };
        let snapshot = self.txn.catalog_snapshot();
        let grants = new
            .grants(&mut |key| self.store.lookup(PG_DEFAULT_ACL, PG_DEFAULT_ACL_ROLE_NSP_OBJ_INDEX, &key, &snapshot))?;
        let Some(grants) = grants else { return Ok(Cow::Borrowed(row)) };
        let mut row = row.to_vec();
        row[new.grants] = array(oids::ACLITEM, grants.into_iter().map(Datum::AclItem).collect());
        Ok(Cow::Owned(row))
    }

    pub fn insert_row(&mut self, table: Oid, row: &[Datum]) -> Result<RowId> {
        self.note_inserted(table, row);
        let row = &*self.with_default_grants(table, row)?;
        if TemporaryCatalog::owns(table, row) {
            return self.temporary()?.insert(table, row.to_vec());
        }
        self.wrote_shared = true;
        self.changes.note(table, row, true);
        let shape = shape(table)?;
        let mut bytes = Vec::new();
        encode_row(&shape.descriptor, row, &mut bytes)?;
        let heap = self.store.relation(table)?;
        let rid = heap.insert(self.txn, &bytes)?;
        for index in &shape.table.indexes {
            let key = index_key(shape, index, row)?;
            self.insert_key(heap, index, &key, rid)?;
        }
        self.settle_roles(table, None, Some(row))?;
        Ok(rid)
    }

    fn insert_key(&mut self, heap: &Arc<Relation>, index: &SystemIndex, key: &[u8], rid: RowId) -> Result<()> {
        let relation = self.store.relation(index.oid)?;
        match relation.index_insert(self.txn, heap, key, rid, uniqueness_of(index), self.park)? {
            IndexInsert::Inserted => Ok(()),
            IndexInsert::Conflict(_) | IndexInsert::Elsewhere(..) => Err(duplicate_key(index)),
        }
    }

    fn temporary(&self) -> Result<&TemporaryCatalog> {
        self.temporary.ok_or_else(|| Error::internal("a temporary object outside of a session"))
    }

    pub fn update(&mut self, old: &CatalogRow, new: &[Datum]) -> Result<()> {
        let new = &*with_grants_of_new_owner(old, new);
        let (snapshot, options) = (self.txn.take_snapshot(), newest(WaitPolicy::Wait));
        written(self.update_or_leave(old, new, options, &snapshot)?)
    }

    /// As [`CatalogWriter::update`], but an error if others have changed the row since it was read as of `snapshot`.
    pub fn update_seen(&mut self, old: &CatalogRow, new: &[Datum], snapshot: &Snapshot) -> Result<()> {
        written(self.update_or_leave(old, new, WriteOptions::default(), snapshot)?)
    }

    /// As [`CatalogWriter::update`], but a row that another transaction has changed and not finished with stays as it is.
    pub fn update_unless_held(&mut self, old: &CatalogRow, new: &[Datum]) -> Result<()> {
        let (snapshot, options) = (self.txn.take_snapshot(), newest(WaitPolicy::SkipLocked));
        match self.update_or_leave(old, new, options, &snapshot)? {
            WriteOutcome::Skipped => Ok(()),
            outcome => written(outcome),
        }
    }

    fn update_or_leave(
        &mut self,
        old: &CatalogRow,
        new: &[Datum],
        options: WriteOptions,
        snapshot: &Snapshot,
    ) -> Result<WriteOutcome> {
        self.definitions.defined.extend(defined_objects(old.table().oid, Some(old.values()), new));
        if is_temporary_row(old.rid) {
            return self.temporary()?.update(old.table().oid, old.rid, new.to_vec()).map(|()| WriteOutcome::Done);
        }
        self.wrote_shared = true;
        self.changes.note_update(old.table().oid, old.values(), new);
        let shape = shape(old.table().oid)?;
        let mut bytes = Vec::new();
        encode_row(&shape.descriptor, new, &mut bytes)?;
        let heap = self.store.relation(old.table().oid)?;
        let mut changed = Vec::new();
        for index in &shape.table.indexes {
            let (old_key, new_key) = (index_key(shape, index, old.values())?, index_key(shape, index, new)?);
            if old_key != new_key {
                changed.push((index, old_key, new_key));
            }
        }
        let mut retired = Vec::new();
        for (index, old_key, _) in &changed {
            retired.push((self.store.relation(index.oid)?.as_ref(), old_key.as_slice()));
        }
        let options = WriteOptions { key_update: !changed.is_empty(), ..options };
        let outcome = heap.update(self.txn, old.rid, &bytes, &retired, &options.with(snapshot, self.park))?;
        if matches!(outcome, WriteOutcome::Done) {
            for (index, _, new_key) in &changed {
                self.insert_key(heap, index, new_key, old.rid)?;
            }
            self.settle_roles(old.table().oid, Some(old.values()), Some(new))?;
        }
        Ok(outcome)
    }

    pub fn delete(&mut self, row: &CatalogRow) -> Result<()> {
        let (snapshot, options) = (self.txn.take_snapshot(), newest(WaitPolicy::Wait));
        self.delete_by(row, options, &snapshot)
    }

    /// As [`CatalogWriter::delete`], but an error if others have changed the row since it was read as of `snapshot`.
    pub fn delete_seen(&mut self, row: &CatalogRow, snapshot: &Snapshot) -> Result<()> {
        self.delete_by(row, WriteOptions::default(), snapshot)
    }

    fn delete_by(&mut self, row: &CatalogRow, options: WriteOptions, snapshot: &Snapshot) -> Result<()> {
        let defined = defined_objects(row.table().oid, None, row.values());
        self.definitions.deleted.extend(defined.iter().filter(|(class, _)| *class == row.table().oid));
        self.definitions.defined.extend(defined);
        if is_temporary_row(row.rid) {
            return self.temporary()?.delete(row.table().oid, row.rid);
        }
        self.wrote_shared = true;
        self.changes.note(row.table().oid, row.values(), false);
        let shape = shape(row.table().oid)?;
        let heap = self.store.relation(row.table().oid)?;
        let mut keys = Vec::new();
        for index in &shape.table.indexes {
            keys.push((self.store.relation(index.oid)?, index_key(shape, index, row.values())?));
        }
        let retired: Vec<(&Relation, &[u8])> = keys.iter().map(|(r, k)| (r.as_ref(), k.as_slice())).collect();
        let options = WriteOptions { key_update: true, ..options };
        let outcome = heap.delete(self.txn, row.rid, &retired, &options.with(snapshot, self.park))?;
        written(outcome)?;
        self.settle_roles(row.table().oid, Some(row.values()), None)
    }

    /// Who owns a relation: what it has of the owner's column grants depends on itself.
    pub(crate) fn relation_owner(&mut self, relation: Oid) -> Result<Oid> {
        let snapshot = self.txn.catalog_snapshot();
        let rows = self.store.lookup(PG_CLASS, PG_CLASS_OID_INDEX, &[Datum::Oid(relation)], &snapshot)?;
        Ok(rows.first().map_or(0, |row| row.oid("relowner")))
    }

    /// What pg_shdepend has for a part of an object. `database`: 0 for what all databases share.
    fn known_needs(&mut self, database: Oid, part: &NeededRoles) -> Result<Vec<CatalogRow>> {
        let key = [Datum::Oid(database), Datum::Oid(part.class), Datum::Oid(part.object), Datum::Int4(part.part)];
        let snapshot = self.txn.catalog_snapshot();
        self.store.lookup(PG_SHDEPEND, PG_SHDEPEND_DEPENDER_INDEX, &key, &snapshot)
    }

    /// Brings pg_shdepend up to date with a row that was written.
    fn settle_roles(&mut self, table: Oid, old: Option<&[Datum]>, new: Option<&[Datum]>) -> Result<()> {
        let Some(owned) = owned_table(table) else { return Ok(()) };
        let needed = |row: Option<&[Datum]>| row.and_then(|row| needed_roles(table, row)).unwrap_or_default();
        let (before, mut after) = (needed(old), needed(new));
        if table == PG_ATTRIBUTE && !after.roles.is_empty() {
            let owner = self.relation_owner(after.object)?;
            after.roles.retain(|(role, _)| *role != owner);
        } else if before.roles == after.roles {
            return Ok(());
        }
        let database = if owned.is_shared { 0 } else { self.database };
        let role_of = |row: &CatalogRow| (row.oid("refobjid"), row.char("deptype"));
        if !before.roles.is_empty() {
            for row in self.known_needs(database, &before)? {
                let role = role_of(&row);
                if before.roles.contains(&role) && !after.roles.contains(&role) {
                    self.delete(&row)?;
                }
            }
        }
        let known = match table {
            PG_ATTRIBUTE => self.known_needs(database, &after)?.iter().map(role_of).collect(),
            _ => before.roles,
        };
        for (role, kind) in after.roles.iter().filter(|role| !known.contains(role)) {
            let row = [
                ("dbid", Datum::Oid(database)),
                ("classid", Datum::Oid(after.class)),
                ("objid", Datum::Oid(after.object)),
                ("objsubid", Datum::Int4(after.part)),
                ("refclassid", Datum::Oid(PG_AUTHID)),
                ("refobjid", Datum::Oid(*role)),
                ("deptype", Datum::Char(*kind)),
            ];
            self.insert(PG_SHDEPEND, &row)?;
        }
        Ok(())
    }
}

/// The row as it is to be stored: what its object's former owner has granted, and was granted, is the new owner's.
fn with_grants_of_new_owner<'r>(old: &CatalogRow, new: &'r [Datum]) -> Cow<'r, [Datum]> {
    let columns = owned_table(old.table().oid).and_then(|owned| {
        let (owner, grants) = (owned.owner?, owned.grants?);
        Some((old.table().column(owner)?, old.table().column(grants)?))
    });
    let Some((owner, grants)) = columns else { return Cow::Borrowed(new) };
    let (Some(Datum::Oid(before)), Some(Datum::Oid(after))) = (old.values().get(owner), new.get(owner)) else {
        return Cow::Borrowed(new);
    };
    let Some(Datum::Array(list)) = new.get(grants).filter(|_| before != after) else { return Cow::Borrowed(new) };
    let item = |element: &Datum| if let Datum::AclItem(item) = element { Some(*item) } else { None };
    let items: Vec<AclItem> = list.elements.iter().filter_map(item).collect();
    let mut row = new.to_vec();
    let items = items_of_new_owner(&items, *before, *after);
    row[grants] = array(oids::ACLITEM, items.into_iter().map(Datum::AclItem).collect());
    Cow::Owned(row)
}

fn position(shape: &SystemTableLayout, column: &str) -> Result<usize> {
    let at = shape.table.column(column);
    at.ok_or_else(|| Error::internal(format!("{} has no column {column}", shape.table.name)))
}

/// A row in which nobody has set anything.
fn unset_row(shape: &SystemTableLayout) -> Vec<Datum> {
    shape.table.columns.iter().map(|c| if c.not_null { zero(c.type_oid) } else { Datum::Null }).collect()
}

fn uniqueness_of(index: &SystemIndex) -> Uniqueness {
    if index.unique { Uniqueness::Unique } else { Uniqueness::NotUnique }
}

fn duplicate_key(index: &SystemIndex) -> Error {
    Error::new(
        kilndb_base::sqlstate::UNIQUE_VIOLATION,
        format!("duplicate key value violates unique constraint \"{}\"", index.name),
    )
}

/// How a row is written in whatever its newest version is.
fn newest(wait: WaitPolicy) -> WriteOptions {
    WriteOptions { wait, latest: true, key_update: false }
}

fn written(outcome: WriteOutcome) -> Result<()> {
    match outcome {
        WriteOutcome::Done => Ok(()),
        WriteOutcome::Deleted => Err(Error::internal("tuple concurrently deleted")),
        _ => Err(Error::internal("tuple concurrently updated")),
    }
}

/// The value of a NOT NULL system column that nobody set.
fn zero(type_oid: Oid) -> Datum {
    use kilndb_types::oids::*;
    match type_oid {
        BOOL => Datum::Bool(false),
        CHAR => Datum::Char(0),
        INT2 => Datum::Int2(0),
        INT4 => Datum::Int4(0),
        INT8 => Datum::Int8(0),
        FLOAT4 => Datum::Float4(0.0),
        FLOAT8 => Datum::Float8(0.0),
        TEXT | NAME | PG_NODE_TREE => Datum::text(""),
        INT2VECTOR => vector(INT2, Vec::new()),
        OIDVECTOR => vector(OID, Vec::new()),
        PG_LSN => Datum::U64(0),
        TIMESTAMPTZ => Datum::TimestampTz(0),
        BYTEA => Datum::Bytea(Arc::from(&[][..])),
        _ => Datum::Oid(0),
    }
}

/// An int2vector or oidvector: one dimension, counted from 0.
pub fn vector(element_type: Oid, elements: Vec<Datum>) -> Datum {
    let dims = vec![(0, elements.len() as u32)];
    Datum::Array(Arc::new(kilndb_types::Array { element_type, dims, elements }))
}

/// An ordinary array of one dimension.
pub fn array(element_type: Oid, elements: Vec<Datum>) -> Datum {
    let dims = if elements.is_empty() { Vec::new() } else { vec![(1, elements.len() as u32)] };
    Datum::Array(Arc::new(kilndb_types::Array { element_type, dims, elements }))
}
