//! Unique indexes of partitioned tables that lack columns of the partition key: one tree for all partitions
//! (docs/decisions/0022-global-unique.md).
//!
//! Invariants
//! 1. The tree is the storage of the topmost index that needs one; its parts, down to those of the partitions with
//!    rows, have none. A part has the tree as long as it is one.
//! 2. A row of a partition is in the tree from when its partition has such a part until it has not. A partition that is
//!    dropped or emptied leaves its entries behind: they are dead with its heap, and taken out later.
//!
//! Must not know: how entries name their heaps.

use super::Definitions;
use super::build::KeysOf;
use super::key_sort::MergedKeys;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, RelationId, Result, RowId, sqlstate};
use kilndb_catalog::ids::*;
use kilndb_catalog::{Index, IndexKey, Table, TableKind};
use kilndb_storage::{IndexInsert, LockMode, Relation, RelationKind, Uniqueness};
use kilndb_types::Datum;
use std::sync::Arc;

/// Could rows in several partitions have the same key?
fn needs_one_tree(table: &Table, unique: bool, keys: &[IndexKey]) -> bool {
    let Some(key) = table.partition_key.as_ref().filter(|_| unique) else { return false };
    key.has_expressions() || key.parts.iter().any(|part| !keys.iter().any(|k| k.attnum == part.attnum))
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

impl Definitions<'_> {
    /// Storage of a partitioned table's index: none, if each partition has a tree of its own.
    pub(super) fn new_global_tree(&mut self, table: &Table, is_unique: bool, keys: &[IndexKey]) -> Result<RelationId> {
        if !needs_one_tree(table, is_unique, keys) {
            return Ok(RelationId(0));
        }
        refuse_partition(table)?;
        self.new_tree(table)
    }

    fn new_tree(&mut self, table: &Table) -> Result<RelationId> {
        let tree = self.new_storage(RelationKind::BTree, table.persistence)?;
        self.context().cluster.engine.relation(tree)?.set_entries_name_heap();
        Ok(tree)
    }

    fn set_tree(&mut self, table: &Arc<Table>, index: Oid, tree: RelationId, runtime: &dyn Runtime) -> Result<()> {
        self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, index, runtime, |row| {
            row.set("relfilenode", Datum::Oid(tree.0))
        })?;
        self.tell_parts(table, index, runtime)
    }

    /// What is known of the parts of an index says where its tree is: they are read anew.
    fn tell_parts(&mut self, table: &Arc<Table>, index: Oid, runtime: &dyn Runtime) -> Result<()> {
        if table.kind != TableKind::Partitioned {
            return Ok(());
        }
        for partition in self.partition_oids(table.oid, runtime)? {
            let child = self.context_mut().table_by_oid(partition, runtime)?;
            if let Some(part) = child.indexes.iter().find(|i| i.part_of == index).map(|i| i.oid) {
                self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, part, runtime, |row| {
                    row.set("relpages", Datum::Int4(0))
                })?;
                self.tell_parts(&child, part, runtime)?;
            }
        }
        Ok(())
    }

    /// The tables with rows among the table and those below it, locked, with their parts of its index, as far as they
    /// have one.
    fn parts_below(
        &mut self,
        table: &Arc<Table>,
        index: Oid,
        runtime: &dyn Runtime,
    ) -> Result<Vec<(Arc<Table>, Arc<Index>)>> {
        let table = self.lock_for_ddl(table, LockMode::AccessExclusive, runtime)?;
        if table.kind != TableKind::Partitioned {
            let own = table.indexes.iter().find(|i| i.oid == index).cloned();
            return Ok(own.map(|own| (table, own)).into_iter().collect());
        }
        let mut found = Vec::new();
        for partition in self.partition_oids(table.oid, runtime)? {
            let child = self.context_mut().table_by_oid(partition, runtime)?;
            if let Some(part) = child.indexes.iter().find(|i| i.part_of == index) {
                found.extend(self.parts_below(&child, part.oid, runtime)?);
            }
        }
        Ok(found)
    }

    /// Enters the rows of all partitions below the table, which have left another tree or are in none yet.
    fn fill_tree(&mut self, table: &Arc<Table>, index: Oid, runtime: &dyn Runtime) -> Result<()> {
        for (leaf, part) in self.parts_below(table, index, runtime)? {
            self.build_index(&leaf, &part, runtime)?;
        }
        Ok(())
    }

    /// Trees of an index, or of its parts, that are not wanted any more.
    fn drop_trees(&mut self, table: &Arc<Table>, index: &Index, new: RelationId, runtime: &dyn Runtime) -> Result<()> {
        if index.storage.0 != 0 && !index.is_in_whole {
            self.context().cluster.engine.move_read_locks(
                index.storage,
                if table.kind == TableKind::Partitioned { new } else { table.storage },
            )?;
            self.drop_storage(index.storage)?;
            self.set_tree(table, index.oid, RelationId(0), runtime)?;
            if table.kind == TableKind::Partitioned {
                return Ok(());
            }
        }
        if table.kind != TableKind::Partitioned {
            return Ok(());
        }
        for partition in self.partition_oids(table.oid, runtime)? {
            let child = self.context_mut().table_by_oid(partition, runtime)?;
            let child = self.lock_for_ddl(&child, LockMode::AccessExclusive, runtime)?;
            refuse_partition(&child)?;
            if let Some(part) = child.indexes.iter().find(|i| i.part_of == index.oid).cloned() {
                self.drop_trees(&child, &part, new, runtime)?;
            }
        }
        Ok(())
    }

    /// An index without storage that is no part any more gets what it needs: a tree, or one for each partition.
    fn give_trees(&mut self, table: &Arc<Table>, index: Oid, runtime: &dyn Runtime) -> Result<()> {
        let own = table.indexes.iter().find(|i| i.oid == index).cloned();
        let own = own.ok_or_else(|| Error::internal("a detached partition has lost an index"))?;
        let tree = match table.kind {
            TableKind::Partitioned if needs_one_tree(table, own.unique, &own.keys) => self.new_tree(table)?,
            TableKind::Partitioned => {
                for partition in self.partition_oids(table.oid, runtime)? {
                    let child = self.context_mut().table_by_oid(partition, runtime)?;
                    if let Some(part) = child.indexes.iter().find(|i| i.part_of == index).cloned() {
                        self.give_trees(&child, part.oid, runtime)?;
                    }
                }
                return Ok(());
            }
            _ => self.new_storage_like(RelationKind::BTree, table.persistence, table.storage)?,
        };
        self.set_tree(table, index, tree, runtime)?;
        let table = self.context_mut().table_by_oid(table.oid, runtime)?;
        self.fill_tree(&table, index, runtime)
    }

    /// REINDEX: a new tree for all partitions.
    pub(super) fn rebuild_global_tree(
        &mut self,
        table: &Arc<Table>,
        index: &Index,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let tree = self.new_tree(table)?;
        self.context().cluster.engine.move_read_locks(index.storage, tree)?;
        self.drop_storage(index.storage)?;
        self.set_tree(table, index.oid, tree, runtime)?;
        let table = self.context_mut().table_by_oid(table.oid, runtime)?;
        self.fill_tree(&table, index.oid, runtime)
    }

    fn tree_and_heap(&self, table: &Table, index: &Index) -> Result<(Arc<Relation>, Arc<Relation>)> {
        Ok((
            self.context().cluster.engine.relation(index.storage)?,
            self.context().cluster.engine.relation(table.storage)?,
        ))
    }

    /// Enters the rows of a partition whose index has become a part.
    pub(super) fn enter_rows(&mut self, table: &Arc<Table>, index: &Arc<Index>, runtime: &dyn Runtime) -> Result<()> {
        let (tree, heap) = self.tree_and_heap(table, index)?;
        let mut sorters = self.gather_keys(table, index, &KeysOf::default(), runtime)?;
        let txn = self
            .context_mut()
            .transaction
            .txn
            .as_mut()
            .ok_or_else(|| Error::internal("no transaction to enter rows in"))?;
        let mut duplicate: Option<RowId> = None;
        for (n, entry) in MergedKeys::new(&mut sorters)?.enumerate() {
            let (mut key, rid, has_null) = entry?;
            key.extend_from_slice(&Relation::heap_name(heap.id()));
            let uniqueness = if has_null { Uniqueness::NotUnique } else { Uniqueness::UniqueFromNow };
            if tree.index_insert(txn, &heap, &key, rid, uniqueness, runtime)? != IndexInsert::Inserted {
                duplicate = Some(rid);
                break;
            }
            if n % 256 == 0 {
                runtime.checkpoint()?;
            }
        }
        match duplicate {
            Some(rid) => Err(self.duplicate_error(table, index, rid, runtime)?),
            None => Ok(()),
        }
    }

    /// The index that a table has brought along has become a part: its rows are found in the whole's tree from now on.
    pub(super) fn move_into_whole(
        &mut self,
        table: &Arc<Table>,
        own: &Index,
        tree: RelationId,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        refuse_partition(table)?;
        self.drop_trees(table, own, tree, runtime)?;
        self.tell_parts(table, own.oid, runtime)?;
        let table = self.context_mut().table_by_oid(table.oid, runtime)?;
        if !table.indexes.iter().any(|i| i.oid == own.oid && i.is_in_whole) {
            return Err(Error::internal("an index that is not in what it is a part of"));
        }
        self.fill_tree(&table, own.oid, runtime)
    }

    /// Before a partition is detached: its rows leave the tree.
    pub(super) fn retire_rows(&mut self, table: &Arc<Table>, runtime: &dyn Runtime) -> Result<()> {
        for index in table.indexes.iter().filter(|i| i.is_in_whole) {
            for (leaf, part) in self.parts_below(table, index.oid, runtime)? {
                self.retire_rows_of(&leaf, &part, runtime)?;
            }
        }
        Ok(())
    }

    fn retire_rows_of(&mut self, table: &Arc<Table>, index: &Arc<Index>, runtime: &dyn Runtime) -> Result<()> {
        let (tree, heap) = self.tree_and_heap(table, index)?;
        let mut sorters = self.gather_keys(table, index, &KeysOf::default(), runtime)?;
        let txn = self
            .context_mut()
            .transaction
            .txn
            .as_mut()
            .ok_or_else(|| Error::internal("no transaction to detach in"))?;
        for (n, entry) in MergedKeys::new(&mut sorters)?.enumerate() {
            let (mut key, rid, _) = entry?;
            key.extend_from_slice(&Relation::heap_name(heap.id()));
            tree.index_retire(txn, &key, rid)?;
            if n % 256 == 0 {
                runtime.checkpoint()?;
            }
        }
        Ok(())
    }

    /// After that: each index that was in the tree gets one of its own.
    pub(super) fn leave_whole(&mut self, before: &Table, runtime: &dyn Runtime) -> Result<()> {
        for index in before.indexes.iter().filter(|i| i.is_in_whole) {
            let table = self.context_mut().table_by_oid(before.oid, runtime)?;
            self.tell_parts(&table, index.oid, runtime)?;
            self.give_trees(&table, index.oid, runtime)?;
        }
        Ok(())
    }

    /// The table's heap goes with this transaction: what it leaves in trees that it shares is taken out afterwards.
    pub(super) fn leave_entries(&mut self, table: &Table) {
        let context = self.context_mut();
        let Some(txn) = context.transaction.txn.as_mut() else { return };
        for index in table.indexes.iter().filter(|i| i.is_in_whole && i.storage.0 != 0) {
            context.cluster.engine.sweep_index(txn, index.storage);
        }
    }

    /// A change of what the keys of such an index are made of, or of where its entries are, cannot be done for one
    /// partition after the other.
    pub(super) fn refuse_for_global(&self, index: &Index, what: &str) -> Result<()> {
        match index.is_global {
            true => Err(Error::new(
                sqlstate::FEATURE_NOT_SUPPORTED,
                format!(
                    "{what} is not supported for unique index \"{}\", which lacks partitioning columns",
                    index.name
                ),
            )),
            false => Ok(()),
        }
    }
}
