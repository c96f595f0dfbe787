//! Unique indexes of partitioned tables that lack columns of the partition key: one tree for all partitions
//! (docs/decisions/0022-global-unique.md).
//!
//! Invariants
//! 1. The tree is the storage of the topmost index that needs one; its parts, down to those of the partitions with rows, have none.
//!    A part has the tree as long as it is one.
//! 2. A row of a partition is in the tree from when its partition has such a part until it has not. A partition that is dropped or
//!    emptied leaves its entries behind: they are dead with its heap, and taken out later.
//!
//! Must not know: how entries name their heaps.

use super::Session;
use super::index::NewIndex;
use super::key_sort::MergedKeys;
use crate::catalog::ids::*;
use crate::catalog::{Index, Table, TableKind};
use crate::client::Runtime;
use kilndb_base::{Error, RelationId, Result, RowId, sqlstate};
use kilndb_storage::{IndexInsert, Relation, RelationKind, Uniqueness};
use kilndb_types::Datum;
use std::sync::Arc;

/// Could rows in several partitions have the same key?
pub(super) fn needs_one_tree(table: &Table, new: &NewIndex) -> bool {
    let Some(key) = table.partition_key.as_ref().filter(|_| new.unique) else { return false };
    key.has_expressions() || key.parts.iter().any(|part| !new.keys.iter().any(|k| k.attnum == part.attnum))
}

/// The tree is logged; so must be what it leads to.
pub(super) fn refuse_partition(child: &Table) -> Result<()> {
    match child.persistence {
        b'p' => Ok(()),
        _ => Err(Error::unsupported(format!(
            "partition \"{}\" of a table with a unique index that lacks partitioning columns must be a permanent, logged table",
            child.name
        ))),
    }
}

pub(super) fn refuse_detach(parent: &Table, child: &Table, concurrently: bool) -> Result<()> {
    let Some(index) = parent.indexes.iter().find(|i| i.is_global) else { return Ok(()) };
    if concurrently {
        return Err(Error::unsupported(format!("DETACH PARTITION CONCURRENTLY from a table with unique index \"{}\", which lacks partitioning columns, is not supported", index.name)));
    }
    if child.kind == TableKind::Partitioned {
        return Err(Error::unsupported(format!("detaching partitioned table \"{}\" from a table with unique index \"{}\", which lacks partitioning columns, is not supported", child.name, index.name)));
    }
    Ok(())
}

impl Session {
    /// Storage of a partitioned table's index: none, if each partition has a tree of its own.
    pub(super) fn new_global_tree(&mut self, table: &Table, new: &NewIndex) -> Result<RelationId> {
        if !needs_one_tree(table, new) {
            return Ok(RelationId(0));
        }
        refuse_partition(table)?;
        let tree = self.new_storage(RelationKind::BTree, table.persistence)?;
        self.instance.engine.relation(tree)?.set_entries_name_heap();
        Ok(tree)
    }

    fn tree_and_heap(&self, table: &Table, index: &Index) -> Result<(Arc<Relation>, Arc<Relation>)> {
        Ok((self.instance.engine.relation(index.storage)?, self.instance.engine.relation(table.storage)?))
    }

    /// Enters the rows of a partition whose index has become a part.
    pub(super) fn enter_rows(&mut self, table: &Arc<Table>, index: &Arc<Index>, runtime: &dyn Runtime) -> Result<()> {
        let (tree, heap) = self.tree_and_heap(table, index)?;
        let mut sorters = self.gather_keys(table, index, runtime)?;
        let txn = self.txn.as_mut().ok_or_else(|| Error::internal("no transaction to enter rows in"))?;
        let mut twin: Option<RowId> = None;
        for (n, entry) in MergedKeys::new(&mut sorters)?.enumerate() {
            let (mut key, rid, has_null) = entry?;
            key.extend_from_slice(&Relation::heap_name(heap.id()));
            let uniqueness = if has_null { Uniqueness::NotUnique } else { Uniqueness::UniqueFromNow };
            if tree.index_insert(txn, &heap, &key, rid, uniqueness, runtime)? != IndexInsert::Inserted {
                twin = Some(rid);
                break;
            }
            if n % 256 == 0 {
                runtime.checkpoint()?;
            }
        }
        match twin {
            Some(rid) => Err(self.duplicate_error(table, index, rid, runtime)?),
            None => Ok(()),
        }
    }

    /// The index that a table has brought along has become a part: its rows are found in the whole's tree from now on.
    pub(super) fn move_into_whole(&mut self, table: &Arc<Table>, own: &Index, runtime: &dyn Runtime) -> Result<()> {
        if table.kind == TableKind::Partitioned {
            return Err(Error::unsupported(format!("attaching partitioned table \"{}\", which has unique index \"{}\" of its own, is not supported", table.name, own.name)));
        }
        self.instance.engine.move_read_locks(own.storage, table.storage)?;
        self.drop_storage(own.storage)?;
        self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, own.oid, runtime, |row| row.set("relfilenode", Datum::Oid(0)))?;
        let table = self.table_by_oid(table.oid, runtime)?;
        let part = table.indexes.iter().find(|i| i.oid == own.oid && i.is_in_whole).cloned();
        let part = part.ok_or_else(|| Error::internal("an index that is not in what it is a part of"))?;
        self.build_index(&table, &part, runtime)
    }

    /// Before a partition is detached: its rows leave the tree.
    pub(super) fn retire_rows(&mut self, table: &Arc<Table>, runtime: &dyn Runtime) -> Result<()> {
        for index in table.indexes.iter().filter(|i| i.is_in_whole) {
            let (tree, heap) = self.tree_and_heap(table, index)?;
            let mut sorters = self.gather_keys(table, index, runtime)?;
            let txn = self.txn.as_mut().ok_or_else(|| Error::internal("no transaction to detach in"))?;
            for (n, entry) in MergedKeys::new(&mut sorters)?.enumerate() {
                let (mut key, rid, _) = entry?;
                key.extend_from_slice(&Relation::heap_name(heap.id()));
                tree.index_retire(txn, &key, rid)?;
                if n % 256 == 0 {
                    runtime.checkpoint()?;
                }
            }
        }
        Ok(())
    }

    /// After that: each index that was in the tree gets one of its own.
    pub(super) fn leave_whole(&mut self, before: &Table, runtime: &dyn Runtime) -> Result<()> {
        for index in before.indexes.iter().filter(|i| i.is_in_whole) {
            let storage = self.new_storage_like(RelationKind::BTree, before.persistence, before.storage)?;
            self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, index.oid, runtime, |row| row.set("relfilenode", Datum::Oid(storage.0)))?;
            let table = self.table_by_oid(before.oid, runtime)?;
            let own = table.indexes.iter().find(|i| i.oid == index.oid).cloned();
            let own = own.ok_or_else(|| Error::internal("a detached partition has lost an index"))?;
            self.build_index(&table, &own, runtime)?;
        }
        Ok(())
    }

    /// The table's heap goes with this transaction: what it leaves in trees that it shares is taken out afterwards.
    pub(super) fn leave_entries(&mut self, table: &Table) {
        let Some(txn) = self.txn.as_mut() else { return };
        for index in table.indexes.iter().filter(|i| i.is_in_whole && i.storage.0 != 0) {
            self.instance.engine.sweep_index(txn, index.storage);
        }
    }

    /// A change of what the keys of such an index are made of, or of where its entries are, cannot be done for one partition after the other.
    pub(super) fn refuse_for_global(&self, index: &Index, what: &str) -> Result<()> {
        match index.is_global {
            true => Err(Error::new(sqlstate::FEATURE_NOT_SUPPORTED, format!("{what} is not supported for unique index \"{}\", which lacks partitioning columns", index.name))),
            false => Ok(()),
        }
    }
}
