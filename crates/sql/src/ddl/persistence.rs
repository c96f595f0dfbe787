//! SET LOGGED and SET UNLOGGED: a relation's contents move into new storage of the other kind; the old goes at commit.
//!
//! Invariants
//! 1. A table, its indexes and the sequences that its columns own change together.
//! 2. Until commit nothing of the old storage is touched, so a rollback, or a crash, finds it as it was.

use super::Session;
use super::sequence::SequenceState;
use crate::catalog::global::GLOBAL;
use crate::catalog::ids::*;
use crate::catalog::{Table, TableKind};
use crate::client::Runtime;
use kilndb_base::{Error, Oid, RelationId, Result, sqlstate};
use kilndb_storage::{RelationKind, RowBatch};
use kilndb_types::Datum;
use std::sync::Arc;

pub(super) const LOGGED: u8 = b'p';
pub(super) const UNLOGGED: u8 = b'u';

impl Session {
    pub(super) fn set_persistence(&mut self, table: &Arc<Table>, to: u8, runtime: &dyn Runtime) -> Result<()> {
        if !matches!(table.kind, TableKind::Table | TableKind::Sequence) {
            let action = if to == LOGGED { "SET LOGGED" } else { "SET UNLOGGED" };
            let message = format!("ALTER action {action} cannot be performed on relation \"{}\"", table.name);
            return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, message).with_detail(super::identity::not_for(table.kind)));
        }
        if matches!(table.persistence, b't' | GLOBAL) {
            let message = format!("cannot change logged status of table \"{}\" because it is temporary", table.name);
            return Err(Error::new(sqlstate::INVALID_TABLE_DEFINITION, message).with_table(&table.schema_name, &table.name));
        }
        if table.persistence == to {
            return Ok(());
        }
        if table.kind == TableKind::Sequence {
            return self.move_sequence(table, to, runtime);
        }
        self.check_neighbours(table, to, runtime)?;
        self.move_table(table, to, runtime)?;
        for row in self.dependents(PG_CLASS, table.oid, 0)? {
            if b"ai".contains(&row.char("deptype")) && row.oid("classid") == PG_CLASS {
                let owned = self.table_by_oid(row.oid("objid"), runtime)?;
                if owned.kind == TableKind::Sequence && owned.persistence != to {
                    self.move_sequence(&owned, to, runtime)?;
                }
            }
        }
        Ok(())
    }

    /// What is logged may not refer to what is not: a crash would leave it without its keys.
    fn check_neighbours(&mut self, table: &Arc<Table>, to: u8, runtime: &dyn Runtime) -> Result<()> {
        let keys = if to == LOGGED { &table.foreign_keys } else { &table.referenced_by };
        for key in keys {
            let other = if to == LOGGED { key.referenced_table } else { key.table };
            if other == table.oid {
                continue;
            }
            let other = self.table_by_oid(other, runtime)?;
            let message = match (to, other.persistence) {
                (LOGGED, LOGGED) | (UNLOGGED, UNLOGGED) => continue,
                (LOGGED, _) => format!("could not change table \"{}\" to logged because it references unlogged table \"{}\"", table.name, other.name),
                _ => format!("could not change table \"{}\" to unlogged because it references logged table \"{}\"", table.name, other.name),
            };
            let e = Error::new(sqlstate::INVALID_TABLE_DEFINITION, message);
            return Err(e.with_table(&table.schema_name, &table.name).with_constraint(&key.name));
        }
        Ok(())
    }

    fn note_persistence(&mut self, oid: Oid, to: u8, runtime: &dyn Runtime) -> Result<()> {
        self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, oid, runtime, |row| row.set("relpersistence", Datum::Char(to)))
    }

    /// All rows into new storage; the indexes are built from them.
    pub(super) fn move_table(&mut self, table: &Arc<Table>, to: u8, runtime: &dyn Runtime) -> Result<()> {
        let new = self.replace_storage(table.oid, table.storage, RelationKind::Heap, to, runtime)?;
        self.note_persistence(table.oid, to, runtime)?;
        for index in &table.indexes {
            self.replace_storage(index.oid, index.storage, RelationKind::BTree, to, runtime)?;
            self.note_persistence(index.oid, to, runtime)?;
        }
        self.move_rows(table.storage, new, runtime)?;
        let moved = self.table_by_oid(table.oid, runtime)?;
        for index in &moved.indexes {
            self.build_index(&moved, index, runtime)?;
        }
        Ok(())
    }

    /// The rows that are there now, whatever the transaction's snapshot: nobody else may be writing.
    fn move_rows(&mut self, from: RelationId, to: RelationId, runtime: &dyn Runtime) -> Result<()> {
        let (source, target) = (self.instance.engine.relation(from)?, self.instance.engine.relation(to)?);
        let txn = self.txn.as_mut().ok_or_else(|| Error::internal("no transaction to copy rows in"))?;
        txn.next_command();
        let snapshot = txn.catalog_snapshot();
        let (mut batch, mut rids) = (RowBatch::default(), Vec::new());
        for block in 0..source.pages() {
            batch.clear();
            source.scan_block(block, &snapshot, &mut batch)?;
            target.insert_many(txn, &batch, &mut rids)?;
            runtime.checkpoint()?;
        }
        txn.next_command();
        Ok(())
    }

    fn move_sequence(&mut self, sequence: &Table, to: u8, runtime: &dyn Runtime) -> Result<()> {
        let state = SequenceState::decode(&self.instance.engine.relation(sequence.storage)?.cell_read()?)?;
        let cell = self.replace_storage(sequence.oid, sequence.storage, RelationKind::Cell, to, runtime)?;
        self.begin_sequence(cell, SequenceState { log_count: 0, ..state })?;
        self.scratch.sequence_cache.borrow_mut().remove(&sequence.oid);
        self.note_persistence(sequence.oid, to, runtime)
    }

    /// The state of a sequence in a new cell; an unlogged one is in it again after a crash.
    pub(super) fn begin_sequence(&mut self, cell: RelationId, state: SequenceState) -> Result<()> {
        let mut bytes = Vec::new();
        state.encode(&mut bytes);
        self.temporary.relation(&self.instance.engine, cell)?.cell_init(&bytes)
    }
}
