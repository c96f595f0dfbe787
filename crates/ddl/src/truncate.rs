//! TRUNCATE: new, empty storage for a table and its indexes; the old goes at commit.

use super::Definitions;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, RelationId, Result, sqlstate};
use kilndb_catalog::global::GLOBAL;
use kilndb_catalog::ids::*;
use kilndb_catalog::privileges::privilege;
use kilndb_catalog::trigger::TriggerOperation;
use kilndb_catalog::{Table, TableKind};
use kilndb_storage::{Isolation, LockMode, RelationKind, is_private};
use kilndb_syntax::raw::DropBehavior;
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;
use std::sync::Arc;

impl Definitions<'_> {
    pub fn truncate(&mut self, s: &nodes::TruncateStmt, runtime: &dyn Runtime) -> Result<()> {
        let mut tables: Vec<Arc<Table>> = Vec::new();
        for node in s.relations() {
            let Node::RangeVar(r) = node else { continue };
            let table = self.context_mut().table_of(r, runtime)?;
            // Of a global temporary table only the session's own rows go.
            let mode = if table.persistence == GLOBAL { LockMode::RowExclusive } else { self.table_lock() };
            let table = self.lock_for_ddl(&table, mode, runtime)?;
            if table.kind == TableKind::Partitioned && super::partition::says_only(r) {
                return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, "cannot truncate only a partitioned table")
                    .with_hint("Do not specify the ONLY keyword, or use TRUNCATE ONLY on the partitions directly."));
            }
            for oid in self.context_mut().with_catalog(runtime, |host| host.reader.partition_tree(table.oid))? {
                if !tables.iter().any(|t| t.oid == oid) {
                    let table = self.context_mut().table_by_oid(oid, runtime)?;
                    tables.push(self.lock_for_ddl(&table, mode, runtime)?);
                }
            }
        }
        self.add_referencing(&mut tables, s.behavior == DropBehavior::DROP_CASCADE, runtime)?;
        if s.restart_seqs {
            for table in &tables {
                for sequence in self.owned_sequences(table, runtime)? {
                    self.require_table_owner(&sequence)?;
                }
            }
        }
        use kilndb_catalog::trigger::{BEFORE, TRUNCATE};
        for table in &tables {
            self.host.fire_statement_triggers(table, TriggerOperation::Truncate, TRUNCATE | BEFORE, runtime)?;
        }
        for table in &tables {
            if table.kind == TableKind::Partitioned {
                if s.restart_seqs {
                    self.restart_owned_sequences(table, runtime)?;
                }
                continue;
            }
            self.note_emptied(table.storage, runtime)?;
            self.empty_table(table, runtime)?;
            if s.restart_seqs {
                self.restart_owned_sequences(table, runtime)?;
            }
        }
        for table in &tables {
            self.host.fire_statement_triggers(table, TriggerOperation::Truncate, TRUNCATE, runtime)?;
        }
        Ok(())
    }

    /// Tables with foreign keys to what is truncated must be truncated too.
    fn add_referencing(&mut self, tables: &mut Vec<Arc<Table>>, cascade: bool, runtime: &dyn Runtime) -> Result<()> {
        let mut at = 0;
        while at < tables.len() {
            let table = tables[at].clone();
            at += 1;
            for key in &table.referenced_by {
                if tables.iter().any(|t| t.oid == key.table) {
                    continue;
                }
                let other = self.context_mut().table_by_oid(key.table, runtime)?;
                if cascade {
                    self.context_mut().require_on_table(&other, privilege::TRUNCATE)?;
                } else {
                    return Err(Error::unsupported("cannot truncate a table referenced in a foreign key constraint")
                        .with_detail(format!("Table \"{}\" references \"{}\".", other.name, table.name))
                        .with_hint(format!(
                            "Truncate table \"{}\" at the same time, or use TRUNCATE ... CASCADE.",
                            other.name
                        )));
                }
                self.context()
                    .notice(kilndb_base::Severity::Notice, format!("truncate cascades to table \"{}\"", other.name));
                for oid in self.context_mut().with_catalog(runtime, |host| host.reader.partition_tree(other.oid))? {
                    if !tables.iter().any(|t| t.oid == oid) {
                        let other = self.context_mut().table_by_oid(oid, runtime)?;
                        // A partition has the key as its own, too.
                        self.context_mut().require_on_table(&other, privilege::TRUNCATE)?;
                        tables.push(self.lock_for_ddl(&other, LockMode::AccessExclusive, runtime)?);
                    }
                }
            }
        }
        Ok(())
    }

    /// All rows of a table are about to go: whoever is serializable and has read some comes before this transaction.
    pub(super) fn note_emptied(&mut self, heap: RelationId, runtime: &dyn Runtime) -> Result<()> {
        if self.context().transaction.txn.as_ref().is_none_or(|txn| txn.isolation() != Isolation::Serializable) {
            return Ok(());
        }
        self.context_mut().take_snapshot(runtime)?;
        if is_private(heap) {
            return Ok(());
        }
        self.context().transaction.txn.as_ref().map_or(Ok(()), |txn| self.context().cluster.engine.empties(txn, heap))
    }

    /// Takes effect at commit.
    pub(super) fn drop_storage(&mut self, storage: RelationId) -> Result<()> {
        let context = self.context_mut();
        let txn = context.transaction.txn.as_mut();
        let txn = txn.ok_or_else(|| Error::internal("no transaction to drop storage in"))?;
        match context.shared.temporary.store() {
            Some(store) if is_private(storage) => {
                txn.attach(store);
                store.drop_relation(txn, storage)
            }
            _ => context.cluster.engine.drop_relation(txn, storage),
        }
    }

    pub(super) fn empty_table(&mut self, table: &Table, runtime: &dyn Runtime) -> Result<()> {
        self.context_mut().transaction.usage.emptied(table.oid);
        self.replace_storage(table.oid, table.storage, RelationKind::Heap, table.persistence, runtime)?;
        self.leave_entries(table);
        for index in table.indexes.iter().filter(|i| !i.is_in_whole) {
            self.replace_storage(index.oid, index.storage, index.storage_kind(), table.persistence, runtime)?;
        }
        Ok(())
    }

    pub(super) fn replace_storage(
        &mut self,
        oid: Oid,
        old: RelationId,
        kind: RelationKind,
        persistence: u8,
        runtime: &dyn Runtime,
    ) -> Result<RelationId> {
        if persistence == GLOBAL {
            let new = self.new_storage(kind, b't')?;
            self.drop_storage(old)?;
            self.context().shared.temporary.replace_instance(oid, Some(new));
            return Ok(new);
        }
        let new = self.new_storage_like(kind, persistence, old)?;
        if !self.replace_later(old, &[new]) {
            let new = [new];
            self.drop_replaced(old, if is_private(old) { &[] } else { &new })?;
        }
        self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, oid, runtime, |row| {
            row.set("relfilenode", Datum::Oid(new.0));
            row.set("reltuples", Datum::Float4(-1.0));
            row.set("relpages", Datum::Int4(0));
        })?;
        Ok(new)
    }

    /// The sequences of a table's columns.
    fn owned_sequences(&mut self, table: &Table, runtime: &dyn Runtime) -> Result<Vec<Arc<Table>>> {
        let mut sequences = Vec::new();
        for row in self.dependents(PG_CLASS, table.oid, 0)? {
            if !b"ai".contains(&row.char("deptype")) || row.oid("classid") != PG_CLASS {
                continue;
            }
            let sequence = self.context_mut().table_by_oid(row.oid("objid"), runtime)?;
            if sequence.kind == TableKind::Sequence {
                sequences.push(sequence);
            }
        }
        Ok(sequences)
    }

    /// RESTART IDENTITY: each sequence gets a new cell, so that a rollback brings the old value back.
    fn restart_owned_sequences(&mut self, table: &Table, runtime: &dyn Runtime) -> Result<()> {
        for sequence in self.owned_sequences(table, runtime)? {
            let options = self.sequence_options(sequence.oid)?;
            let cell = self.replace_storage(
                sequence.oid,
                sequence.storage,
                RelationKind::Cell,
                sequence.persistence,
                runtime,
            )?;
            self.begin_sequence(
                cell,
                crate::host::SequenceState { last_value: options.start, is_called: false, log_count: 0 },
            )?;
            self.context().shared.scratch.sequence_cache.borrow_mut().remove(&sequence.oid);
        }
        Ok(())
    }
}
