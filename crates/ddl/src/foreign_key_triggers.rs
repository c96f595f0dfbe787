//! Foreign keys as rows of pg_trigger. The executor checks keys by itself; the rows say whether it does: ALTER TABLE …
//! DISABLE TRIGGER ALL switches a table's part of its foreign keys off.
//!
//! Invariants
//! 1. A row of pg_constraint has triggers on the referencing table, unless it is a part of a key for a partition of the
//!    *referenced* one, and on the referenced table, unless it is a part for a partition of the *referencing* one. A
//!    key that is not enforced has none.
//! 2. A part's triggers point at those of the row that it is a part of (`tgparentid`).

use super::Definitions;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::Table;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_catalog::store::vector;
use kilndb_catalog::trigger::{DELETE, INSERT, ROW, UPDATE};
use kilndb_types::{Datum, oids};
use std::sync::Arc;

/// RI_FKey_check_ins, RI_FKey_check_upd.
const CHECK_INSERT: Oid = 1644;
const CHECK_UPDATE: Oid = 1645;

/// RI_FKey_…_del of an action; the next one is for UPDATE.
fn action_function(action: u8) -> Oid {
    match action {
        b'c' => 1646,
        b'r' => 1648,
        b'n' => 1650,
        b'd' => 1652,
        _ => 1654,
    }
}

struct KeyTriggerSpec {
    on_referenced: bool,
    kind: i16,
    function: Oid,
    deferrable: bool,
    deferred: bool,
}

/// The triggers of a row, those on the referenced table first.
fn wanted(key: &CatalogRow, has_actions: bool, has_checks: bool) -> Vec<KeyTriggerSpec> {
    let (deferrable, deferred) = (key.bool("condeferrable"), key.bool("condeferred"));
    let action = |letter: u8, kind: i16, offset: Oid| {
        let waits = letter == b'a';
        KeyTriggerSpec {
            on_referenced: true,
            kind: ROW | kind,
            function: action_function(letter) + offset,
            deferrable: waits && deferrable,
            deferred: waits && deferred,
        }
    };
    let check = |kind: i16, function: Oid| KeyTriggerSpec {
        on_referenced: false,
        kind: ROW | kind,
        function,
        deferrable,
        deferred,
    };
    let mut all = Vec::new();
    if has_actions {
        all.extend([action(key.char("confdeltype"), DELETE, 0), action(key.char("confupdtype"), UPDATE, 1)]);
    }
    if has_checks {
        all.extend([check(INSERT, CHECK_INSERT), check(UPDATE, CHECK_UPDATE)]);
    }
    all
}

impl Definitions<'_> {
    fn key_triggers(&mut self, key: Oid) -> Result<Vec<CatalogRow>> {
        self.context_mut().catalog_lookup(PG_TRIGGER, PG_TRIGGER_TGCONSTRAINT_INDEX, &[Datum::Oid(key)])
    }

    /// Gives a foreign key's row of pg_constraint the triggers that it is to have, and takes away others.
    pub(super) fn settle_key_triggers(&mut self, key: Oid, runtime: &dyn Runtime) -> Result<()> {
        let rows = self.context_mut().catalog_lookup(PG_CONSTRAINT, PG_CONSTRAINT_OID_INDEX, &[Datum::Oid(key)])?;
        let Some(row) = rows.first().filter(|row| row.char("contype") == b'f') else { return Ok(()) };
        let above = self.context_mut().catalog_lookup(
            PG_CONSTRAINT,
            PG_CONSTRAINT_OID_INDEX,
            &[Datum::Oid(row.oid("conparentid"))],
        )?;
        let above = above.first();
        let is_reference_part = above.is_some_and(|above| above.oid("conrelid") == row.oid("conrelid"));
        let enforced = row.bool("conenforced");
        let wanted = wanted(row, enforced && (above.is_none() || is_reference_part), enforced && !is_reference_part);
        let above = match above {
            Some(above) => self.key_triggers(above.oid("oid"))?,
            None => Vec::new(),
        };
        let place = |w: &KeyTriggerSpec| if w.on_referenced { row.oid("confrelid") } else { row.oid("conrelid") };
        let mut known = self.key_triggers(key)?;
        for w in &wanted {
            let is_it = |t: &CatalogRow| t.oid("tgfoid") == w.function;
            let parent = above.iter().find(|t| is_it(t)).map_or(0, |t| t.oid("oid"));
            match known.iter().position(|t| is_it(t) && t.oid("tgrelid") == place(w)) {
                Some(at) => {
                    let oid = known.swap_remove(at).oid("oid");
                    self.update_row(PG_TRIGGER, PG_TRIGGER_OID_INDEX, oid, runtime, |t| {
                        t.set("tgparentid", Datum::Oid(parent));
                        t.set("tgdeferrable", Datum::Bool(w.deferrable));
                        t.set("tginitdeferred", Datum::Bool(w.deferred));
                    })?;
                }
                None => {
                    let enabled = above.iter().find(|t| is_it(t)).map_or(b'O', |t| t.char("tgenabled"));
                    self.insert_key_trigger(row, w, (parent, enabled), runtime)?;
                }
            }
        }
        for rest in known {
            self.delete_key_trigger(&rest, runtime)?;
        }
        Ok(())
    }

    fn insert_key_trigger(
        &mut self,
        key: &CatalogRow,
        w: &KeyTriggerSpec,
        (parent, enabled): (Oid, u8),
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let (referencing, referenced) = (key.oid("conrelid"), key.oid("confrelid"));
        let (table, other) = if w.on_referenced { (referenced, referencing) } else { (referencing, referenced) };
        let oid = self.new_oid(table)?;
        let letter = if w.on_referenced { 'a' } else { 'c' };
        let values = [
            ("oid", Datum::Oid(oid)),
            ("tgrelid", Datum::Oid(table)),
            ("tgparentid", Datum::Oid(parent)),
            ("tgname", Datum::text(format!("RI_ConstraintTrigger_{letter}_{oid}"))),
            ("tgfoid", Datum::Oid(w.function)),
            ("tgtype", Datum::Int2(w.kind)),
            ("tgenabled", Datum::Char(enabled)),
            ("tgisinternal", Datum::Bool(true)),
            ("tgconstrrelid", Datum::Oid(other)),
            ("tgconstrindid", Datum::Oid(key.oid("conindid"))),
            ("tgconstraint", Datum::Oid(key.oid("oid"))),
            ("tgdeferrable", Datum::Bool(w.deferrable)),
            ("tginitdeferred", Datum::Bool(w.deferred)),
            ("tgnargs", Datum::Int2(0)),
            ("tgattr", vector(oids::INT2, Vec::new())),
            ("tgargs", Datum::Bytea(Arc::from([].as_slice()))),
        ];
        self.write_catalog(runtime, |w| w.insert(PG_TRIGGER, &values).map(|_| ()))?;
        let class = self.context_mut().catalog_lookup(PG_CLASS, PG_CLASS_OID_INDEX, &[Datum::Oid(table)])?;
        if class.first().is_some_and(|c| !c.bool("relhastriggers")) {
            self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, table, runtime, |row| {
                row.set("relhastriggers", Datum::Bool(true))
            })?;
        }
        Ok(())
    }

    pub(super) fn delete_key_trigger(&mut self, trigger: &CatalogRow, runtime: &dyn Runtime) -> Result<()> {
        let oid = trigger.oid("oid");
        self.delete_rows(
            PG_DESCRIPTION,
            PG_DESCRIPTION_O_C_O_INDEX,
            &[Datum::Oid(oid), Datum::Oid(PG_TRIGGER)],
            runtime,
        )?;
        self.write_catalog(runtime, |w| w.delete(trigger))
    }

    /// In a cluster of an earlier build foreign keys may have none yet.
    pub(super) fn complete_key_triggers(&mut self, table: &Table, runtime: &dyn Runtime) -> Result<()> {
        for key in table.foreign_keys.iter().chain(&table.referenced_by).filter(|key| key.enforced) {
            if self.key_triggers(key.oid)?.is_empty() {
                self.settle_key_triggers(key.oid, runtime)?;
            }
        }
        Ok(())
    }

    /// The foreign key goes.
    pub(super) fn delete_key_triggers(&mut self, key: Oid, runtime: &dyn Runtime) -> Result<()> {
        for trigger in self.key_triggers(key)?.iter().filter(|t| kilndb_catalog::trigger::is_of_key(t)) {
            self.delete_key_trigger(trigger, runtime)?;
        }
        Ok(())
    }

    /// DROP TRIGGER of one of these.
    pub(super) fn refuse_key_trigger(&mut self, trigger: &CatalogRow, runtime: &dyn Runtime) -> Result<()> {
        if !kilndb_catalog::trigger::is_of_key(trigger) {
            return Ok(());
        }
        let rows = self.context_mut().catalog_lookup(
            PG_CONSTRAINT,
            PG_CONSTRAINT_OID_INDEX,
            &[Datum::Oid(trigger.oid("tgconstraint"))],
        )?;
        let key = rows.first().ok_or_else(|| Error::internal("a trigger of a foreign key that is gone"))?;
        let table = self.context_mut().table_by_oid(key.oid("conrelid"), runtime)?;
        let constraint =
            format!("constraint {} on table {}", key.text("conname").unwrap_or(""), self.shown_name(&table, runtime)?);
        let message = format!("cannot drop {} because {constraint} requires it", self.trigger_shown(trigger, runtime)?);
        Err(Error::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message)
            .with_hint(format!("You can drop {constraint} instead.")))
    }

    /// ENABLE, DISABLE TRIGGER: only a superuser switches foreign keys.
    pub(super) fn refuse_system_trigger(&self, trigger: &CatalogRow) -> Result<()> {
        if !trigger.bool("tgisinternal") || self.context().is_superuser() {
            return Ok(());
        }
        let name = trigger.text("tgname").unwrap_or("");
        Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, format!("permission denied: \"{name}\" is a system trigger")))
    }
}
