//! Row triggers of partitioned tables: each partition has a copy of its parent's.
//!
//! Invariants
//! 1. A copy points at the trigger that it was made from (`tgparentid`), one level above; it goes with it, and with
//!    DETACH.
//! 2. What a copy depends on, its original depends on too, so objects that go are listed with the originals only.

use super::Definitions;
use super::constraint::NewConstraint;
use super::partition::own_columns;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_catalog::store::vector;
use kilndb_catalog::trigger::{ROW, Trigger, is_of_key};
use kilndb_catalog::{Table, TableKind};
use kilndb_storage::LockMode;
use kilndb_syntax::raw::AlterTableType as A;
use kilndb_types::{Datum, oids};
use std::sync::Arc;

/// The triggers that ENABLE or DISABLE TRIGGER means.
#[derive(Clone, Copy)]
pub(super) enum Which<'n> {
    Named(&'n str),
    /// All but those of foreign keys.
    User,
    All,
}

impl Which<'_> {
    pub(super) fn is(self, row: &CatalogRow) -> bool {
        match self {
            Which::Named(name) => row.text("tgname") == Some(name),
            Which::User => !row.bool("tgisinternal"),
            Which::All => true,
        }
    }
}

/// What ENABLE or DISABLE TRIGGER sets, and of which triggers.
pub(super) fn firing_mode(command: A::Type, name: &str) -> Option<(u8, Which<'_>)> {
    Some(match command {
        A::AT_EnableTrig => (b'O', Which::Named(name)),
        A::AT_EnableAlwaysTrig => (b'A', Which::Named(name)),
        A::AT_EnableReplicaTrig => (b'R', Which::Named(name)),
        A::AT_DisableTrig => (b'D', Which::Named(name)),
        A::AT_EnableTrigAll => (b'O', Which::All),
        A::AT_EnableTrigUser => (b'O', Which::User),
        A::AT_DisableTrigAll => (b'D', Which::All),
        A::AT_DisableTrigUser => (b'D', Which::User),
        _ => return None,
    })
}

/// A row trigger with tables of changed rows cannot be a partition's.
pub(super) fn refuse_transitions(table: &Table) -> Result<()> {
    match table.triggers.iter().find(|t| t.for_each_row() && t.has_transition_tables()) {
        Some(t) => Err(Error::unsupported(format!(
            "trigger \"{}\" prevents table \"{}\" from becoming a partition",
            t.name, table.name
        ))
        .with_detail("ROW triggers with transition tables are not supported on partitions.")),
        None => Ok(()),
    }
}

impl Definitions<'_> {
    fn trigger_rows(&mut self, table: Oid) -> Result<Vec<CatalogRow>> {
        self.context_mut().catalog_lookup(PG_TRIGGER, PG_TRIGGER_TGRELID_TGNAME_INDEX, &[Datum::Oid(table)])
    }

    /// The copies of a table's trigger, each with its partition.
    fn clones_of(
        &mut self,
        table: &Table,
        trigger: Oid,
        runtime: &dyn Runtime,
    ) -> Result<Vec<(Arc<Table>, CatalogRow)>> {
        if table.kind != TableKind::Partitioned {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for partition in self.partition_oids(table.oid, runtime)? {
            if let Some(row) = self.trigger_rows(partition)?.into_iter().find(|row| row.oid("tgparentid") == trigger) {
                found.push((self.context_mut().table_by_oid(partition, runtime)?, row));
            }
        }
        Ok(found)
    }

    /// A partition gets its parent's row triggers.
    pub(super) fn clone_triggers(&mut self, parent: &Arc<Table>, child: Oid, runtime: &dyn Runtime) -> Result<()> {
        if parent.triggers.is_empty() {
            return Ok(());
        }
        let mut rows = self.trigger_rows(parent.oid)?;
        rows.retain(|row| row.int("tgtype") as i16 & ROW != 0 && !row.bool("tgisinternal"));
        rows.sort_by_key(|row| row.oid("oid"));
        for row in &rows {
            self.clone_trigger(parent, row, child, false, runtime)?;
        }
        Ok(())
    }

    /// The partitions get a new row trigger of their parent. `replace`: one of that name is replaced.
    pub(super) fn pass_on_trigger(
        &mut self,
        parent: &Arc<Table>,
        trigger: Oid,
        replace: bool,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let Some(row) = self.trigger_by_oid(trigger)? else { return Ok(()) };
        if parent.kind != TableKind::Partitioned || row.int("tgtype") as i16 & ROW == 0 {
            return Ok(());
        }
        for partition in self.partition_oids(parent.oid, runtime)? {
            self.clone_trigger(parent, &row, partition, replace, runtime)?;
        }
        Ok(())
    }

    fn clone_trigger(
        &mut self,
        parent: &Arc<Table>,
        row: &CatalogRow,
        child: Oid,
        replace: bool,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let child = self.context_mut().table_by_oid(child, runtime)?;
        let child = self.lock_for_ddl(&child, LockMode::ShareRowExclusive, runtime)?;
        let trigger = Trigger::of_row(row);
        let existing = self.trigger_row(child.oid, &trigger.name)?;
        if let Some(old) = &existing {
            super::trigger::refuse_existing(old, replace, &child)?;
        }
        let constraint = match trigger.constraint {
            0 => 0,
            _ => self.insert_constraint(
                &NewConstraint {
                    no_inherit: true,
                    is_inherited: false,
                    deferrable: trigger.deferrable,
                    deferred: trigger.initially_deferred,
                    ..NewConstraint::inherited(&trigger.name, b't', &child, &[], true)
                },
                runtime,
            )?,
        };
        let oid = match &existing {
            Some(old) => old.oid("oid"),
            None => self.new_oid(child.oid)?,
        };
        let own = |numbers: &[i64]| own_columns(parent, &child, numbers);
        let mut copy = row.clone();
        copy.set("oid", Datum::Oid(oid));
        copy.set("tgrelid", Datum::Oid(child.oid));
        copy.set("tgparentid", Datum::Oid(trigger.oid));
        copy.set("tgconstraint", Datum::Oid(constraint));
        copy.set("tgattr", vector(oids::INT2, own(&row.numbers("tgattr")).into_iter().map(Datum::Int2).collect()));
        if let Some(old) = &existing {
            self.write_catalog(runtime, |w| w.delete(old))?;
        }
        self.write_catalog(runtime, |w| w.insert_row(PG_TRIGGER, copy.values()).map(|_| ()))?;
        self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, child.oid, runtime, |row| {
            row.set("relhastriggers", Datum::Bool(true))
        })?;
        self.pass_on_trigger(&child, oid, replace, runtime)
    }

    /// The copies of a trigger that goes.
    pub(super) fn delete_clones(&mut self, row: &CatalogRow, runtime: &dyn Runtime) -> Result<()> {
        if row.int("tgtype") as i16 & ROW == 0 {
            return Ok(());
        }
        let table = self.context_mut().table_by_oid(row.oid("tgrelid"), runtime)?;
        for (partition, clone) in self.clones_of(&table, row.oid("oid"), runtime)? {
            self.lock_for_ddl(&partition, LockMode::AccessExclusive, runtime)?;
            self.delete_trigger(&clone, runtime)?;
        }
        Ok(())
    }

    /// DETACH: a table of its own does not keep the copies.
    pub(super) fn drop_cloned_triggers(&mut self, table: Oid, runtime: &dyn Runtime) -> Result<()> {
        for row in self.trigger_rows(table)?.iter().filter(|row| row.oid("tgparentid") != 0 && !is_of_key(row)) {
            self.delete_trigger(row, runtime)?;
        }
        Ok(())
    }

    /// DROP TRIGGER of a copy.
    pub(super) fn refuse_clone(&mut self, row: &CatalogRow, runtime: &dyn Runtime) -> Result<()> {
        let Some(original) = self.trigger_by_oid(row.oid("tgparentid"))? else { return Ok(()) };
        let (own, whole) = (self.trigger_shown(row, runtime)?, self.trigger_shown(&original, runtime)?);
        Err(Error::new(
            sqlstate::DEPENDENT_OBJECTS_STILL_EXIST,
            format!("cannot drop {own} because {whole} requires it"),
        )
        .with_hint(format!("You can drop {whole} instead.")))
    }

    pub(super) fn rename_clones(
        &mut self,
        table: &Table,
        trigger: Oid,
        old_name: &str,
        new_name: &str,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        for (partition, row) in self.clones_of(table, trigger, runtime)? {
            let name = row.text("tgname").unwrap_or("").to_string();
            if name != new_name {
                if self.trigger_row(partition.oid, new_name)?.is_some() {
                    return Err(super::trigger::duplicate(new_name, &partition));
                }
                if name != old_name {
                    self.context().notice(
                        Severity::Notice,
                        format!("renamed trigger \"{name}\" on relation \"{}\"", partition.name),
                    );
                }
                self.update_row(PG_TRIGGER, PG_TRIGGER_OID_INDEX, row.oid("oid"), runtime, |row| {
                    row.set("tgname", Datum::text(new_name))
                })?;
            }
            self.rename_clones(&partition, row.oid("oid"), &name, new_name, runtime)?;
        }
        Ok(())
    }

    /// ENABLE, DISABLE TRIGGER, for the partitions of a table.
    pub(super) fn enable_clones(
        &mut self,
        table: &Table,
        which: Which<'_>,
        mode: u8,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        for row in self.trigger_rows(table.oid)? {
            if row.int("tgtype") as i16 & ROW != 0 && which.is(&row) {
                self.enable_clones_of(table, row.oid("oid"), mode, runtime)?;
            }
        }
        Ok(())
    }

    fn enable_clones_of(&mut self, table: &Table, trigger: Oid, mode: u8, runtime: &dyn Runtime) -> Result<()> {
        for (partition, row) in self.clones_of(table, trigger, runtime)? {
            if row.char("tgenabled") != mode {
                self.update_row(PG_TRIGGER, PG_TRIGGER_OID_INDEX, row.oid("oid"), runtime, |row| {
                    row.set("tgenabled", Datum::Char(mode))
                })?;
                self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, partition.oid, runtime, |_| {})?;
            }
            self.enable_clones_of(&partition, row.oid("oid"), mode, runtime)?;
        }
        Ok(())
    }
}
