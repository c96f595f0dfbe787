//! ALTER TABLE … ALTER CONSTRAINT: when a foreign key is checked, and whether; whether a NOT NULL is passed on.
//!
//! Invariant: all rows of pg_constraint that belong to one foreign key say the same.

use super::Definitions;
use super::constraint::key_pair;
use crate::client::Runtime;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_catalog::Table;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_syntax::nodes;
use kilndb_types::Datum;
use std::sync::Arc;

impl Definitions<'_> {
    pub(super) fn alter_constraint(
        &mut self,
        table: &Arc<Table>,
        a: &nodes::ATAlterConstraint,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let name = a.conname().unwrap_or("");
        let rows =
            self.context_mut().catalog_lookup(PG_CONSTRAINT, PG_CONSTRAINT_CONRELID_INDEX, &[Datum::Oid(table.oid)])?;
        let row = rows.into_iter().find(|row| row.text("conname") == Some(name)).ok_or_else(|| {
            Error::new(
                sqlstate::UNDEFINED_OBJECT,
                format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name),
            )
        })?;
        refuse_kind(table, a, &row)?;
        if row.oid("conparentid") != 0 {
            return Err(self.derived(table, &row, runtime)?);
        }
        if a.alter_inheritability {
            if a.noinherit && row.int("coninhcount") > 0 {
                let message = format!("cannot alter inherited constraint \"{name}\" on relation \"{}\"", table.name);
                return Err(Error::new(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
            }
            self.update_row(PG_CONSTRAINT, PG_CONSTRAINT_OID_INDEX, row.oid("oid"), runtime, |row| {
                row.set("connoinherit", Datum::Bool(a.noinherit))
            })?;
        }
        if row.char("contype") != b'f' {
            return Ok(());
        }
        let becomes_enforced = a.alter_enforceability && a.is_enforced && !row.bool("conenforced");
        if becomes_enforced && let Some(key) = table.foreign_keys.iter().find(|key| key.oid == row.oid("oid")).cloned()
        {
            let target = self.context_mut().table_by_oid(key.referenced_table, runtime)?;
            self.validate_foreign_key(key_pair(&key, table, &target), name, runtime)?;
        }
        self.alter_key(&row, a, runtime)
    }

    /// A foreign key and all rows that point at it.
    fn alter_key(&mut self, row: &CatalogRow, a: &nodes::ATAlterConstraint, runtime: &dyn Runtime) -> Result<()> {
        let changes = a.alter_enforceability && a.is_enforced != row.bool("conenforced");
        self.update_row(PG_CONSTRAINT, PG_CONSTRAINT_OID_INDEX, row.oid("oid"), runtime, |row| {
            if a.alter_deferrability {
                row.set("condeferrable", Datum::Bool(a.deferrable));
                row.set("condeferred", Datum::Bool(a.initdeferred));
            }
            if changes {
                row.set("conenforced", Datum::Bool(a.is_enforced));
                row.set("convalidated", Datum::Bool(a.is_enforced));
            }
        })?;
        self.settle_key_triggers(row.oid("oid"), runtime)?;
        for part in self.parts_of_key(row)? {
            self.alter_key(&part, a, runtime)?;
        }
        Ok(())
    }

    fn derived(&mut self, table: &Table, row: &CatalogRow, runtime: &dyn Runtime) -> Result<Error> {
        let mut top = row.clone();
        while top.oid("conparentid") != 0 {
            let above = self.context_mut().catalog_lookup(
                PG_CONSTRAINT,
                PG_CONSTRAINT_OID_INDEX,
                &[Datum::Oid(top.oid("conparentid"))],
            )?;
            top = above.into_iter().next().ok_or_else(|| Error::internal("a part of a constraint that is gone"))?;
        }
        let (name, of) = (row.text("conname").unwrap_or(""), top.text("conname").unwrap_or("").to_string());
        let above = self.context_mut().table_by_oid(top.oid("conrelid"), runtime)?;
        let message = format!("cannot alter constraint \"{name}\" on relation \"{}\"", table.name);
        Ok(Error::new(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
            .with_detail(format!(
                "Constraint \"{name}\" is derived from constraint \"{of}\" of relation \"{}\".",
                above.name
            ))
            .with_hint("You may alter the constraint it derives from instead."))
    }
}

/// Each property is one of some kinds of constraints.
fn refuse_kind(table: &Table, a: &nodes::ATAlterConstraint, row: &CatalogRow) -> Result<()> {
    let (name, kind) = (a.conname().unwrap_or(""), row.char("contype"));
    let wrong = |message: String| Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, message));
    if a.alter_deferrability && kind != b'f' {
        return wrong(format!("constraint \"{name}\" of relation \"{}\" is not a foreign key constraint", table.name));
    }
    if a.alter_enforceability && kind != b'f' {
        return wrong(format!("cannot alter enforceability of constraint \"{name}\" of relation \"{}\"", table.name));
    }
    if a.alter_inheritability && kind != b'n' {
        return wrong(format!("constraint \"{name}\" of relation \"{}\" is not a not-null constraint", table.name));
    }
    if a.alter_inheritability && a.noinherit && table.partition_key.is_some() {
        return Err(Error::unsupported(format!(
            "not-null constraint \"{name}\" on partitioned table \"{}\" cannot be NO INHERIT",
            table.name
        )));
    }
    Ok(())
}
