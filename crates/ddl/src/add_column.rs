//! ALTER TABLE … ADD COLUMN: the column in the system tables, its values in the rows that there are, and what holds for
//! them.

use super::Definitions;
use super::alter_table::column_of;
use super::create_table::NewColumn;
use super::sequence::ColumnTable;
use crate::client::Runtime;
use crate::host::NullSink;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_bind::engine_query::{ColumnChange, FillColumn, FillValue, RowCondition, RowValue, ValueQuery, ValueSource};
use kilndb_bind::object_address::ObjectAddress;
use kilndb_catalog::ids::*;
use kilndb_catalog::store::array;
use kilndb_catalog::{Table, TableKind};
use kilndb_syntax::raw::ConstrType;
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;
use std::sync::Arc;

/// A column that is in the system tables, and whose values the rows may not have yet.
pub(super) struct AddedColumn {
    pub attnum: i16,
    pub column: NewColumn,
    /// Each row gets a value of its own, so that all are written anew.
    pub is_filled_row_by_row: bool,
    has_domain: bool,
}

impl AddedColumn {
    /// What a row gets that is written anew. None: NULL.
    pub fn fill_value(&self) -> Option<FillValue> {
        let column = &self.column;
        if column.default_sql.is_none() && column.sequence.is_none() && !self.has_domain {
            return None;
        }
        Some(match (column.generated, column.identity, column.sequence) {
            (0, identity, Some(sequence)) if identity != 0 => FillValue::Sequence(sequence),
            _ => FillValue::Default,
        })
    }
}

/// The definition of a column that a part of ALTER TABLE adds under this name.
pub(super) fn definition_of<'a>(c: &'a nodes::AlterTableCmd, name: &str) -> Option<&'a nodes::ColumnDef> {
    match c.def() {
        Node::ColumnDef(definition) if definition.colname() == Some(name) => Some(definition),
        _ => None,
    }
}

impl Definitions<'_> {
    pub(super) fn add_column(
        &mut self,
        table: &Arc<Table>,
        c: &nodes::AlterTableCmd,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let Node::ColumnDef(definition) = c.def() else { return Err(Error::internal("ADD COLUMN without a column")) };
        let name = definition.colname().unwrap_or("");
        if table.columns.iter().any(|k| !k.dropped && k.name == name) {
            let message = format!("column \"{name}\" of relation \"{}\" already exists", table.name);
            if c.missing_ok {
                self.context().shared.scratch.notices.borrow_mut().push(Error::notice(
                    sqlstate::DUPLICATE_COLUMN,
                    Severity::Notice,
                    format!("{message}, skipping"),
                ));
                return Ok(());
            }
            return Err(Error::new(sqlstate::DUPLICATE_COLUMN, message));
        }
        let mut column = self.new_column(definition, ColumnTable::of(table), source, runtime)?;
        let is_primary = definition
            .constraints()
            .iter()
            .any(|k| matches!(k, Node::Constraint(k) if k.contype == ConstrType::CONSTR_PRIMARY));
        column.not_null |= is_primary;
        self.require_type(column.type_oid, runtime)?;
        self.refuse_inner_self(table.type_oid, column.type_oid, 0, runtime)?;
        self.attach_column(table, &column, false, runtime)?;
        if table.kind == TableKind::Partitioned {
            self.add_column_below(table, &column, runtime)?;
        }
        // Otherwise the rows do not have the column's values yet.
        match self.rewrite.is_none() {
            true => self.constrain_column(table.oid, &column, definition, source, runtime),
            false => Ok(()),
        }
    }

    /// What holds for a new column, whose values the rows have.
    pub(super) fn constrain_column(
        &mut self,
        table: Oid,
        column: &NewColumn,
        definition: &nodes::ColumnDef,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let table = self.context_mut().table_by_oid(table, runtime)?;
        if column.not_null {
            let attnum = column_of(&table, &column.name)?.attnum;
            self.add_not_null(&table, attnum, &column.not_null_clause, runtime)?;
        }
        let mut all: Vec<&nodes::Constraint> = Vec::new();
        for constraint in definition.constraints() {
            if let Node::Constraint(k) = constraint {
                all.push(k);
            }
        }
        for k in &all {
            if k.contype == ConstrType::CONSTR_FOREIGN {
                // References are compared with the rows of another table, which would have to be followed too.
                self.finish_online(runtime)?;
            }
            self.add_constraint(table.oid, k, Some(&column.name), &all, source, runtime)?;
        }
        Ok(())
    }

    /// The column itself, and its values in the rows that there are, unless the command changes more columns: then the
    /// rows get all of their new values together. `is_part`: of a partition, which draws from its parent's sequence.
    pub(super) fn attach_column(
        &mut self,
        table: &Arc<Table>,
        column: &NewColumn,
        is_part: bool,
        runtime: &dyn Runtime,
    ) -> Result<i16> {
        let added = AddedColumn {
            attnum: table.columns.len() as i16 + 1,
            column: column.clone(),
            is_filled_row_by_row: self.is_filled_row_by_row(column, runtime)?,
            has_domain: self.type_info(column.type_oid, runtime)?.kind == b'd',
        };
        if table.kind == TableKind::Table && self.has_own_value(column, runtime)? {
            self.refuse_stored_rows(table, runtime)?;
        }
        let is_together = self.rewrite.is_some();
        // Beside others rows may come at any time, until the lock is there.
        if !is_together && !added.is_filled_row_by_row && self.is_online(table) {
            self.finish_online(runtime)?;
        }
        self.write_column(table.oid, &added, is_part, runtime)?;
        let attnum = added.attnum;
        if let Some(rewrite) = &mut self.rewrite {
            rewrite.added.push(added);
            return Ok(attnum);
        }
        self.fill_column(table, &added, runtime)?;
        self.settle_column(table.oid, &added, runtime)?;
        Ok(attnum)
    }

    /// The column's rows in the system tables. NOT NULL is checked once the rows that there are have their value, and as
    /// an identity the column could not be given one.
    fn write_column(&mut self, table: Oid, added: &AddedColumn, is_part: bool, runtime: &dyn Runtime) -> Result<()> {
        let AddedColumn { attnum, column, .. } = added;
        let storage = self.type_storage(column.type_oid, runtime)?;
        let bare = NewColumn { not_null: false, identity: 0, ..column.clone() };
        self.write_catalog(runtime, |w| {
            super::create_table::insert_attributes(w, table, *attnum, std::slice::from_ref(&bare), &[storage])
        })?;
        self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, table, runtime, |row| row.set("relnatts", Datum::Int2(*attnum)))?;
        if let Some(sql) = column.default_sql.as_ref().filter(|_| !super::default::says_nothing(column)) {
            self.insert_default(table, *attnum, sql, runtime)?;
        }
        if let (Some(sequence), false) = (column.sequence, is_part) {
            let kind = if column.identity != 0 { b'i' } else { b'a' };
            self.tie_sequence(sequence, ObjectAddress::column(table, *attnum), kind, runtime)?;
            self.keep_with_table(sequence, table, runtime)?;
        }
        Ok(())
    }

    /// The rows that there are get the column's value: a default that is the same for all is kept beside the column.
    pub(super) fn fill_column(&mut self, table: &Arc<Table>, added: &AddedColumn, runtime: &dyn Runtime) -> Result<()> {
        let AddedColumn { attnum, column, .. } = added;
        if let Some(sql) = column.default_sql.as_ref().filter(|_| table.kind != TableKind::Composite) {
            self.require_calls(table, (RowValue::Expression(sql), RowCondition::All), runtime)?;
        }
        let has_rows = self.is_online(table)
            || !matches!(table.kind, TableKind::Partitioned | TableKind::Composite)
                && self.table_with_row(table, RowCondition::All, runtime)?.is_some();
        if !has_rows {
            return Ok(());
        }
        let constant = match &column.default_sql {
            Some(sql) if !added.is_filled_row_by_row => {
                self.constant_default(sql, (column.type_oid, column.typmod), runtime)?
            }
            _ => None,
        };
        if let Some(value) = constant {
            let value = self.context_mut().with_catalog(runtime, |host| {
                let shape = host.reader.stored_shape(column.type_oid, &mut Vec::new())?;
                Ok(shape.map_or(value.clone(), |shape| shape.written(value)))
            })?;
            let missing = array(column.type_oid, vec![value]);
            return self.update_attribute(table.oid, *attnum, runtime, |row| {
                row.set("atthasmissing", Datum::Bool(true));
                row.set("attmissingval", missing);
            });
        }
        let Some(value) = added.fill_value() else { return Ok(()) };
        if self.is_online(table) {
            return self.move_rows_with(table, (&[ColumnChange::Added { attnum: *attnum, value }], &[]), runtime);
        }
        let table = self.context_mut().table_by_oid(table.oid, runtime)?;
        self.rows_into(&FillColumn { table: &table, attnum: *attnum, value }, runtime, &mut NullSink)?;
        Ok(())
    }

    /// What is said of the column once its values are there.
    pub(super) fn settle_column(&mut self, table: Oid, added: &AddedColumn, runtime: &dyn Runtime) -> Result<()> {
        let identity = added.column.identity;
        if identity != 0 {
            self.update_attribute(table, added.attnum, runtime, |row| row.set("attidentity", Datum::Char(identity)))?;
        }
        self.follow_row_type(table, runtime)
    }

    /// Whether each row gets a value of its own for a new column, so that all are written anew.
    fn is_filled_row_by_row(&mut self, column: &NewColumn, runtime: &dyn Runtime) -> Result<bool> {
        if column.generated != 0 || column.identity != 0 || column.sequence.is_some() {
            return Ok(true);
        }
        match &column.default_sql {
            Some(sql) => self.is_volatile(sql, (column.type_oid, column.typmod), runtime),
            None => Ok(false),
        }
    }

    fn is_volatile(&mut self, sql: &str, ty: (u32, i32), runtime: &dyn Runtime) -> Result<bool> {
        self.context_mut().with_catalog(runtime, |host| {
            let bound = kilndb_bind::bind_expression(sql, None, &host.reader, Some(ty))?;
            Ok(bound.expr.is_volatile())
        })
    }

    /// Whether rows get another value than NULL for a new column, or one that its domain must be asked about.
    fn has_own_value(&mut self, column: &NewColumn, runtime: &dyn Runtime) -> Result<bool> {
        if column.generated != 0 || column.identity != 0 || column.sequence.is_some() {
            return Ok(true);
        }
        if column.default_sql.is_some() {
            return Ok(!super::default::says_nothing(column));
        }
        let mut info = self.type_info(column.type_oid, runtime)?;
        while let Some(domain) = info.domain.clone() {
            if domain.not_null || domain.default_sql.is_some() || !domain.checks.is_empty() {
                return Ok(true);
            }
            info = self.type_info(info.base_type, runtime)?;
        }
        Ok(false)
    }

    /// The value of a default that is the same for every row; None: NULL.
    fn constant_default(&mut self, sql: &str, ty: (u32, i32), runtime: &dyn Runtime) -> Result<Option<Datum>> {
        let mismatch = |from: &str| Error::internal(format!("a default of type {from}"));
        let query = ValueQuery { source: ValueSource::Kept(sql), ty, mismatch: &mismatch };
        Ok(Some(self.value_of(&query, runtime)?).filter(|value| !value.is_null()))
    }
}
