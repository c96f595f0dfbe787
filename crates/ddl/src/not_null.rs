//! NOT NULL as constraints: rows of pg_constraint with names, beside the flag in pg_attribute that is enforced.
//!
//! Invariant: a user table's column has a row exactly if its flag is set. (Tables of older data folders may lack rows:
//! what removes one does not insist.)

use super::Definitions;
use super::alter_table::column_of;
use super::constraint::NewConstraint;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_bind::engine_query::RowCondition;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_catalog::{Column, Table};
use kilndb_syntax::nodes;
use kilndb_types::Datum;
use std::sync::Arc;

/// What a NOT NULL clause says beside the column.
#[derive(Clone, Debug, Default)]
pub(crate) struct NotNullClause {
    pub name: Option<String>,
    pub no_inherit: bool,
    pub not_valid: bool,
}

impl NotNullClause {
    pub fn of(c: &nodes::Constraint) -> NotNullClause {
        NotNullClause {
            name: c.conname().map(str::to_string),
            no_inherit: c.is_no_inherit,
            not_valid: c.skip_validation,
        }
    }
}

fn state(message: String) -> Error {
    Error::new(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}

pub(super) fn in_primary_key(table: &Table, attnum: i16) -> bool {
    table.indexes.iter().any(|i| i.primary && i.keys.iter().any(|k| k.attnum == attnum))
}

impl Definitions<'_> {
    /// The row of a column's NOT NULL.
    pub(super) fn not_null_row(&mut self, table: &Table, attnum: i16) -> Result<Option<CatalogRow>> {
        Ok(not_null_of(&self.not_null_rows(table.oid)?, attnum).cloned())
    }

    /// The rows of a table's constraints, among which those of NOT NULL are.
    pub(super) fn not_null_rows(&mut self, table: Oid) -> Result<Vec<CatalogRow>> {
        self.context_mut().catalog_lookup(PG_CONSTRAINT, PG_CONSTRAINT_CONRELID_INDEX, &[Datum::Oid(table)])
    }

    pub(super) fn insert_not_null(
        &mut self,
        table: &Table,
        attnum: i16,
        clause: &NotNullClause,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let column = table.columns[attnum as usize - 1].name.clone();
        let name = match &clause.name {
            Some(name) => {
                self.refuse_taken_constraint(table, name)?;
                name.clone()
            }
            None => self.free_constraint_name(table, &[column], "not_null", &[], runtime)?,
        };
        let new = NewConstraint {
            name: &name,
            kind: b'n',
            table,
            columns: &[attnum],
            index: 0,
            deferrable: false,
            deferred: false,
            validated: !clause.not_valid,
            enforced: true,
            no_inherit: clause.no_inherit,
            expression: None,
            foreign: None,
            is_inherited: false,
            part_of: 0,
        };
        self.insert_constraint(&new, runtime).map(|_| ())
    }

    fn refuse_taken_constraint(&mut self, table: &Table, name: &str) -> Result<()> {
        let rows =
            self.context_mut().catalog_lookup(PG_CONSTRAINT, PG_CONSTRAINT_CONRELID_INDEX, &[Datum::Oid(table.oid)])?;
        if rows.iter().any(|r| r.text("conname") == Some(name)) {
            let message = format!("constraint \"{name}\" for relation \"{}\" already exists", table.name);
            return Err(Error::new(sqlstate::DUPLICATE_OBJECT, message));
        }
        Ok(())
    }

    fn refuse_nulls(&mut self, table: &Arc<Table>, column: &Column, runtime: &dyn Runtime) -> Result<()> {
        let is_null = RowCondition::Null(column.attnum);
        let Some(table) = self.table_with_row(table, is_null, runtime)? else { return Ok(()) };
        let message = format!("column \"{}\" of relation \"{}\" contains null values", column.name, table.name);
        Err(Error::new(sqlstate::NOT_NULL_VIOLATION, message)
            .with_table(&table.schema_name, &table.name)
            .with_column(&column.name))
    }

    /// SET NOT NULL: on columns that may be null yet, or whose constraint was not validated.
    pub(super) fn set_not_null(&mut self, table: &Arc<Table>, columns: &[i16], runtime: &dyn Runtime) -> Result<()> {
        for attnum in columns {
            self.add_not_null(table, *attnum, &NotNullClause::default(), runtime)?;
        }
        Ok(())
    }

    pub(super) fn add_not_null(
        &mut self,
        table: &Arc<Table>,
        attnum: i16,
        clause: &NotNullClause,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let column = &table.columns[attnum as usize - 1];
        if column.not_null {
            let known = self.not_null_row(table, attnum)?;
            if let (Some(row), Some(name)) = (&known, &clause.name)
                && row.text("conname") != Some(name)
            {
                let message = format!(
                    "cannot create not-null constraint \"{name}\" on column \"{}\" of table \"{}\"",
                    column.name, table.name
                );
                let known = row.text("conname").unwrap_or("");
                return Err(state(message)
                    .with_detail(format!("A not-null constraint named \"{known}\" already exists for this column.")));
            }
            return match known {
                Some(row) if !row.bool("convalidated") && !clause.not_valid => {
                    self.validate_not_null(table, &row, runtime)
                }
                _ => Ok(()),
            };
        }
        if !clause.not_valid {
            self.refuse_nulls(table, column, runtime)?;
        }
        self.update_attribute(table.oid, attnum, runtime, |row| row.set("attnotnull", Datum::Bool(true)))?;
        self.insert_not_null(table, attnum, clause, runtime)
    }

    /// ADD CONSTRAINT … NOT NULL.
    pub(super) fn add_not_null_constraint(
        &mut self,
        table: &Arc<Table>,
        c: &nodes::Constraint,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        for name in super::strings(c.keys()) {
            let attnum = column_of(table, name)?.attnum;
            self.add_not_null(table, attnum, &NotNullClause::of(c), runtime)?;
        }
        Ok(())
    }

    pub(super) fn validate_not_null(
        &mut self,
        table: &Arc<Table>,
        row: &CatalogRow,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        for attnum in row.numbers("conkey") {
            if let Some(column) = usize::try_from(attnum - 1).ok().and_then(|i| table.columns.get(i)) {
                self.refuse_nulls(table, column, runtime)?;
            }
        }
        self.update_row(PG_CONSTRAINT, PG_CONSTRAINT_OID_INDEX, row.oid("oid"), runtime, |row| {
            row.set("convalidated", Datum::Bool(true))
        })
    }

    /// ALTER COLUMN DROP NOT NULL.
    pub(super) fn drop_not_null(&mut self, table: &Arc<Table>, name: &str, runtime: &dyn Runtime) -> Result<()> {
        let column = column_of(table, name)?;
        if column.identity != 0 {
            let message = format!("column \"{name}\" of relation \"{}\" is an identity column", table.name);
            return Err(Error::new(sqlstate::SYNTAX_ERROR, message));
        }
        refuse_primary(table, column)?;
        if let Some(row) = self.not_null_row(table, column.attnum)? {
            self.delete_constraint(row.oid("oid"), runtime)?;
        }
        self.update_attribute(table.oid, column.attnum, runtime, |row| row.set("attnotnull", Datum::Bool(false)))
    }

    /// DROP CONSTRAINT of a NOT NULL, before its row goes.
    pub(super) fn release_not_null(
        &mut self,
        table: &Arc<Table>,
        row: &CatalogRow,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        for attnum in row.numbers("conkey") {
            let Some(column) = usize::try_from(attnum - 1).ok().and_then(|i| table.columns.get(i)) else { continue };
            refuse_primary(table, column)?;
            if column.identity != 0 {
                return Err(state(format!(
                    "column \"{}\" of relation \"{}\" is an identity column",
                    column.name, table.name
                )));
            }
            self.update_attribute(table.oid, column.attnum, runtime, |row| row.set("attnotnull", Datum::Bool(false)))?;
        }
        Ok(())
    }
}

/// The row of a column's NOT NULL among those of a table's constraints.
pub(super) fn not_null_of(rows: &[CatalogRow], attnum: i16) -> Option<&CatalogRow> {
    rows.iter().find(|r| r.char("contype") == b'n' && r.numbers("conkey") == [i64::from(attnum)])
}

fn refuse_primary(table: &Table, column: &Column) -> Result<()> {
    if in_primary_key(table, column.attnum) {
        return Err(Error::new(
            sqlstate::INVALID_TABLE_DEFINITION,
            format!("column \"{}\" is in a primary key", column.name),
        ));
    }
    Ok(())
}
