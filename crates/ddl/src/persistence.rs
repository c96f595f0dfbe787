//! SET LOGGED and SET UNLOGGED: a relation's contents move into new storage of the other kind; the old goes at commit.
//!
//! Invariants
//! 1. A table, its indexes and the sequences that its columns own change together.
//! 2. Until commit nothing of the old storage is touched, so a rollback, or a crash, finds it as it was.

use super::Definitions;
use super::create_table::KEPT;
use crate::client::Runtime;
use crate::host::SequenceState;
use kilndb_base::{Error, Oid, RelationId, Result, sqlstate};
use kilndb_catalog::global::GLOBAL;
use kilndb_catalog::ids::*;
use kilndb_catalog::{Table, TableKind};
use kilndb_storage::{Persistence, RelationKind, RowBatch, is_private};
use kilndb_types::Datum;
use std::sync::Arc;

/// The storage parameter that says what a crash leaves of an unlogged table.
pub(super) const RECOVERY: &str = "unlogged_recovery";
pub(super) const LOGGED: u8 = b'p';
pub(super) const UNLOGGED: u8 = b'u';

pub(super) fn check_recovery(value: &str) -> Result<()> {
    if ["truncate", "checkpoint"].iter().any(|known| value.eq_ignore_ascii_case(known)) {
        return Ok(());
    }
    Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, format!("invalid value for enum option \"{RECOVERY}\": {value}"))
        .with_detail("Valid values are \"truncate\" and \"checkpoint\"."))
}

/// The letter for new storage of a table: as pg_class has it, or [`KEPT`] if its options say so.
pub(super) fn storage_letter(persistence: u8, options: &[String]) -> u8 {
    let kept = options.iter().any(|o| {
        o.split_once('=').is_some_and(|(name, value)| name == RECOVERY && value.eq_ignore_ascii_case("checkpoint"))
    });
    if persistence == UNLOGGED && kept { KEPT } else { persistence }
}

impl Definitions<'_> {
    /// New storage in place of `old`, or beside it: kept at checkpoints if that is.
    pub(super) fn new_storage_like(
        &mut self,
        kind: RelationKind,
        persistence: u8,
        old: RelationId,
    ) -> Result<RelationId> {
        let kept = persistence == UNLOGGED && self.is_kept(old)?;
        self.new_storage(kind, if kept { KEPT } else { persistence })
    }

    fn is_kept(&self, storage: RelationId) -> Result<bool> {
        // A partitioned table has no storage.
        Ok(storage.0 != 0
            && !is_private(storage)
            && self.context().cluster.engine.relation(storage)?.persistence() == Persistence::Kept)
    }

    fn options_of(&mut self, table: Oid) -> Result<Vec<String>> {
        let rows = self.context_mut().catalog_lookup(PG_CLASS, PG_CLASS_OID_INDEX, &[Datum::Oid(table)])?;
        Ok(rows.first().map(|row| row.texts("reloptions")).unwrap_or_default())
    }

    /// The table's storage becomes what its options say.
    pub(super) fn follow_recovery(&mut self, table: &Arc<Table>, runtime: &dyn Runtime) -> Result<()> {
        if table.kind != TableKind::Table || table.persistence != UNLOGGED {
            return Ok(());
        }
        let letter = storage_letter(UNLOGGED, &self.options_of(table.oid)?);
        if self.is_kept(table.storage)? == (letter == KEPT) {
            return Ok(());
        }
        self.move_table(table, letter, runtime)?;
        // Sequences do not follow what others draw from them, so they move in the last step.
        self.finish_online(runtime)?;
        self.move_owned(table, letter, runtime)
    }

    /// A new sequence of a column comes back from a crash as its table does.
    pub(super) fn keep_with_table(&mut self, sequence: Oid, table: Oid, runtime: &dyn Runtime) -> Result<()> {
        let (sequence, table) =
            (self.context_mut().table_by_oid(sequence, runtime)?, self.context_mut().table_by_oid(table, runtime)?);
        if sequence.persistence != UNLOGGED
            || table.persistence != UNLOGGED
            || self.is_kept(sequence.storage)? == self.is_kept(table.storage)?
        {
            return Ok(());
        }
        let letter = if self.is_kept(table.storage)? { KEPT } else { UNLOGGED };
        self.move_sequence(&sequence, letter, runtime)
    }

    pub(super) fn set_persistence(&mut self, table: &Arc<Table>, to: u8, runtime: &dyn Runtime) -> Result<()> {
        if !matches!(table.kind, TableKind::Table | TableKind::Sequence) {
            let action = if to == LOGGED { "SET LOGGED" } else { "SET UNLOGGED" };
            let message = format!("ALTER action {action} cannot be performed on relation \"{}\"", table.name);
            return Err(
                Error::new(sqlstate::WRONG_OBJECT_TYPE, message).with_detail(super::identity::not_for(table.kind))
            );
        }
        if matches!(table.persistence, b't' | GLOBAL) {
            let message = format!("cannot change logged status of table \"{}\" because it is temporary", table.name);
            return Err(
                Error::new(sqlstate::INVALID_TABLE_DEFINITION, message).with_table(&table.schema_name, &table.name)
            );
        }
        if table.persistence == to {
            return Ok(());
        }
        if table.kind == TableKind::Sequence {
            return self.move_sequence(table, to, runtime);
        }
        table
            .indexes
            .iter()
            .try_for_each(|index| self.refuse_for_global(index, "changing whether a partition is logged"))?;
        if self.context().transaction.pending.checks.iter().any(|c| c.table == table.oid)
            || self.context().transaction.pending.triggers.iter().any(|t| t.table == table.oid && t.done_at.is_none())
        {
            let message = format!("cannot ALTER TABLE \"{}\" because it has pending trigger events", table.name);
            return Err(Error::new(sqlstate::OBJECT_IN_USE, message));
        }
        self.check_neighbours(table, to, runtime)?;
        self.refuse_stored_rows(table, runtime)?;
        let letter = storage_letter(to, &self.options_of(table.oid)?);
        self.move_table(table, letter, runtime)?;
        // Sequences do not follow what others draw from them, so they move in the last step.
        self.finish_online(runtime)?;
        self.move_owned(table, letter, runtime)
    }

    /// The sequences of its columns.
    fn move_owned(&mut self, table: &Table, letter: u8, runtime: &dyn Runtime) -> Result<()> {
        for row in self.dependents(PG_CLASS, table.oid, 0)? {
            if b"ai".contains(&row.char("deptype")) && row.oid("classid") == PG_CLASS {
                let owned = self.context_mut().table_by_oid(row.oid("objid"), runtime)?;
                if owned.kind == TableKind::Sequence {
                    self.move_sequence(&owned, letter, runtime)?;
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
            let other = self.context_mut().table_by_oid(other, runtime)?;
            let message = match (to, other.persistence) {
                (LOGGED, LOGGED) | (UNLOGGED, UNLOGGED) => continue,
                (LOGGED, _) => format!(
                    "could not change table \"{}\" to logged because it references unlogged table \"{}\"",
                    table.name, other.name
                ),
                _ => format!(
                    "could not change table \"{}\" to unlogged because it references logged table \"{}\"",
                    table.name, other.name
                ),
            };
            let e = Error::new(sqlstate::INVALID_TABLE_DEFINITION, message);
            return Err(e.with_table(&table.schema_name, &table.name).with_constraint(&key.name));
        }
        Ok(())
    }

    /// Storage of the kind that the letter says ([`KEPT`] too) in place of the old.
    fn replace_with(
        &mut self,
        relation: (Oid, RelationId),
        kind: RelationKind,
        letter: u8,
        runtime: &dyn Runtime,
    ) -> Result<RelationId> {
        let (oid, old) = relation;
        let new = self.new_storage(kind, letter)?;
        if !self.replace_later(old, &[new]) {
            self.drop_replaced(old, &[new])?;
        }
        let shown = if letter == KEPT { UNLOGGED } else { letter };
        self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, oid, runtime, |row| {
            row.set("relfilenode", Datum::Oid(new.0));
            row.set("relpersistence", Datum::Char(shown));
        })?;
        Ok(new)
    }

    /// All rows into new storage; the indexes are built from them.
    fn move_table(&mut self, table: &Arc<Table>, letter: u8, runtime: &dyn Runtime) -> Result<()> {
        let new = self.replace_with((table.oid, table.storage), RelationKind::Heap, letter, runtime)?;
        for index in &table.indexes {
            self.replace_with((index.oid, index.storage), index.storage_kind(), letter, runtime)?;
        }
        let moved = self.context_mut().table_by_oid(table.oid, runtime)?;
        match self.is_online(table) {
            true => self.copy_table(table, &moved, (&[], &[]), runtime)?,
            false => self.move_rows(table.storage, new, runtime)?,
        }
        for index in &moved.indexes {
            self.build_index(&moved, index, runtime)?;
        }
        Ok(())
    }

    /// The rows that are there now, whatever the transaction's snapshot: nobody else may be writing.
    fn move_rows(&mut self, from: RelationId, to: RelationId, runtime: &dyn Runtime) -> Result<()> {
        let context = self.context_mut();
        let engine = &context.cluster.engine;
        let (source, target) = (engine.relation(from)?, engine.relation(to)?);
        let txn = context.transaction.txn.as_mut().ok_or_else(|| Error::internal("no transaction to copy rows in"))?;
        txn.next_command();
        let snapshot = txn.catalog_snapshot();
        let (mut batch, mut rids) = (RowBatch::default(), Vec::new());
        for block in 0..source.pages() {
            batch.clear();
            source.scan_block(block, &snapshot, &mut batch)?;
            engine.pace_bulk(batch.rows.len(), runtime)?;
            target.insert_many(txn, &batch, &mut rids)?;
            runtime.checkpoint()?;
        }
        txn.next_command();
        Ok(())
    }

    fn move_sequence(&mut self, sequence: &Table, letter: u8, runtime: &dyn Runtime) -> Result<()> {
        let state = SequenceState::decode(&self.context().cluster.engine.relation(sequence.storage)?.cell_read()?)?;
        let cell = self.replace_with((sequence.oid, sequence.storage), RelationKind::Cell, letter, runtime)?;
        self.begin_sequence(cell, SequenceState { log_count: 0, ..state })?;
        self.context().shared.scratch.sequence_cache.borrow_mut().remove(&sequence.oid);
        Ok(())
    }

    /// The state of a sequence in a new cell; an unlogged one is in it again after a crash.
    pub(super) fn begin_sequence(&mut self, cell: RelationId, state: SequenceState) -> Result<()> {
        let mut bytes = Vec::new();
        state.encode(&mut bytes);
        self.context().shared.temporary.relation(&self.context().cluster.engine, cell)?.cell_init(&bytes)
    }
}
