//! ALTER TABLE … ALTER COLUMN … TYPE: the column's type changes, its rows are written anew, and whatever else of the
//! table speaks of the column is bound again.
//!
//! Invariants
//! 1. Checks, index expressions and index conditions that name the column mean what their texts mean with the new type;
//!    one that cannot be bound with it is an error.
//! 2. A foreign key at either end of which the column stands is compared by the operators of the new types, and holds for
//!    the rows that there are.
//! 3. Rows go from the old storage into new storage within the transaction; a rollback brings the old one back.

use super::Definitions;
use super::alter_table::column_of;
use super::constraint::{key_pair, operator_columns};
use super::identity::identity_type;
use super::online::OwnedChange;
use crate::client::Runtime;
use crate::host::StatementHost;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_bind::engine_query::{ColumnChange, RowCondition};
use kilndb_bind::names::{BoundText, VisibleColumns};
use kilndb_bind::object_address::ObjectAddress;
use kilndb_bind::{Binder, bind_expression, bind_expression_node, is_untyped_literal};
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::format_type::quote_identifier;
use kilndb_catalog::ids::*;
use kilndb_catalog::store::vector;
use kilndb_catalog::{CatalogView, Column, ForeignKey, Index, IndexKey, Table, TableKind};
use kilndb_storage::LockMode;
use kilndb_syntax::{Node, nodes};
use kilndb_types::{Datum, oids};
use std::sync::Arc;

/// A column and the type that it is to have.
struct TypeChange<'a> {
    table: &'a Arc<Table>,
    column: &'a Column,
    type_oid: Oid,
    typmod: i32,
    collation: Oid,
    /// The expression over the old row that gives the new value.
    value: &'a str,
}

impl TypeChange<'_> {
    /// Values are equal to those of other columns if they were before: an integer becomes a wider one.
    fn keeps_equality(&self) -> bool {
        let widens = matches!(
            (self.column.type_oid, self.type_oid),
            (oids::INT2, oids::INT2 | oids::INT4 | oids::INT8) | (oids::INT4, oids::INT4 | oids::INT8)
        );
        widens && self.value == quote_identifier(&self.column.name)
    }

    fn column_reference(&self) -> ObjectAddress {
        ObjectAddress::column(self.table.oid, self.column.attnum)
    }
}

impl Definitions<'_> {
    /// ALTER COLUMN … TYPE … USING.
    pub(super) fn alter_type(
        &mut self,
        table: &Arc<Table>,
        c: &nodes::AlterTableCmd,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let name = c.name().unwrap_or("");
        let column = column_of(table, name)?;
        let Node::ColumnDef(definition) = c.def() else { return Err(Error::internal("ALTER TYPE without a type")) };
        let t = definition.type_name().ok_or_else(|| Error::internal("ALTER TYPE without a type"))?;
        let (type_oid, typmod) = self.context_mut().resolve_type(t, source, runtime)?;
        self.require_type(type_oid, runtime)?;
        self.refuse_inner_self(table.type_oid, type_oid, 0, runtime)?;
        let collation = match definition.coll_clause() {
            Some(clause) => self.collation_for(type_oid, &super::strings(clause.collname()), runtime)?,
            None => self.type_info(type_oid, runtime)?.collation,
        };
        self.refuse_new_type(table, column, runtime)?;
        if table.kind == TableKind::Composite {
            self.refuse_stored_rows(table, runtime)?;
            return self.retype_attribute(table, column.attnum, (type_oid, typmod, collation), runtime);
        }
        let using = definition.raw_default();
        if let Some(sequence) = column.identity_sequence.filter(|_| column.identity != 0) {
            identity_type(type_oid)?;
            self.retype_sequence(sequence, type_oid, runtime)?;
        }
        let (old, old_column) = self.before_other_types(table, column)?;
        self.check_conversion(&old, &old_column, (type_oid, typmod), (using, source), runtime)?;
        let value = match using {
            Node::None => quote_identifier(name),
            node => kilndb_syntax::expression_sql(node)?,
        };
        self.change_type(&TypeChange { table, column, type_oid, typmod, collation, value: &value }, runtime)
    }

    fn change_type(&mut self, change: &TypeChange<'_>, runtime: &dyn Runtime) -> Result<()> {
        let TypeChange { table, column, type_oid, typmod, collation, .. } = *change;
        self.refuse_stored_rows(table, runtime)?;
        let users = self.expressions_of(change, runtime)?;
        let keys = keys_of(table, column.attnum);
        if keys.all().next().is_some() && !change.keeps_equality() {
            // References are compared with the rows of another table, which would have to be followed too.
            self.finish_online(runtime)?;
        }
        let default = self.converted_default(change, runtime)?;
        self.delete_statistics(table.oid, Some(column.attnum), runtime)?;
        self.clear_statistics_objects(table.oid, column.attnum, runtime)?;
        self.retype_attribute(table, column.attnum, (type_oid, typmod, collation), runtime)?;
        self.retype_indexes(change, runtime)?;
        if let Some(sql) = default {
            self.delete_defaults(table.oid, Some(column.attnum), runtime)?;
            self.insert_default(table.oid, column.attnum, &sql, runtime)?;
        }
        self.bind_expressions_again(change, &users, runtime)?;
        self.retype_keys(table.oid, &keys, runtime)?;
        if table.kind == TableKind::Partitioned {
            return Ok(());
        }
        let converted = ColumnChange::Converted { attnum: column.attnum, value: change.value, ty: (type_oid, typmod) };
        let keeps_equality = change.keeps_equality();
        let retyped = RetypedColumn { column: column.clone(), users, keys, keeps_equality };
        if let Some(rewrite) = &mut self.rewrite {
            rewrite.changes.push(OwnedChange::of(&converted));
            rewrite.retyped.push(retyped);
            return Ok(());
        }
        self.move_rows_with(table, (&[converted], &[]), runtime)?;
        self.validate_again(table.oid, &retyped, runtime)
    }

    /// The table and the column as they were before the command: what other parts of it say of types is not seen by
    /// USING.
    fn before_other_types(&self, table: &Arc<Table>, column: &Column) -> Result<(Arc<Table>, Column)> {
        let Some(rewrite) = &self.rewrite else { return Ok((table.clone(), column.clone())) };
        if rewrite.retyped.iter().any(|retyped| retyped.column.attnum == column.attnum) {
            return Err(Error::unsupported(format!("cannot alter type of column \"{}\" twice", column.name)));
        }
        Ok((rewrite.source.clone(), column_of(&rewrite.source, &column.name)?.clone()))
    }

    /// 42804 if the old values, or those of USING, do not become the new type by assignment.
    fn check_conversion(
        &mut self,
        table: &Arc<Table>,
        column: &Column,
        ty: (Oid, i32),
        (using, source): (Node<'_>, &Arc<str>),
        runtime: &dyn Runtime,
    ) -> Result<()> {
        if column.generated != 0 && !matches!(using, Node::None) {
            let message = "cannot specify USING when altering type of generated column";
            return Err(Error::new(sqlstate::INVALID_COLUMN_DEFINITION, message)
                .with_detail(format!("Column \"{}\" is a generated column.", column.name)));
        }
        self.context_mut().with_catalog(runtime, |host| {
            let shown = host.reader.format_type(ty.0, ty.1);
            let automatic = |what: &str, hint: String| {
                let message = format!("{what} \"{}\" cannot be cast automatically to type {shown}", column.name);
                Error::new(sqlstate::DATATYPE_MISMATCH, message).with_hint(hint)
            };
            let quoted = quote_identifier(&column.name);
            let (bound, error) = match using {
                Node::None => {
                    let hint = format!("You might need to specify \"USING {quoted}::{shown}\".");
                    (bind_expression(&quoted, Some(table), &host.reader, Some(ty)), automatic("column", hint))
                }
                node => {
                    let binder = Binder::new(&host.reader, source.clone(), Vec::new());
                    // An error in the expression itself is told as it is.
                    bind_expression_node(&binder, node, Some(table), None)?;
                    let hint = "You might need to add an explicit cast.".to_string();
                    let error = automatic("result of USING clause for column", hint);
                    (bind_expression_node(&binder, node, Some(table), Some(ty)), error)
                }
            };
            match bound {
                Ok(_) => Ok(()),
                Err(e) if e.sqlstate() == sqlstate::DATATYPE_MISMATCH => Err(error),
                Err(e) => Err(e),
            }
        })
    }

    /// The column's default as it is to be kept with the new type: a literal without a type of its own has been one of
    /// the old type. 42804 if the default does not become the new type by assignment.
    fn converted_default(&mut self, change: &TypeChange<'_>, runtime: &dyn Runtime) -> Result<Option<String>> {
        let TypeChange { table, column, type_oid, typmod, .. } = *change;
        let Some(sql) = &column.default_sql else { return Ok(None) };
        self.context_mut().with_catalog(runtime, |host| {
            let over = Some(table).filter(|_| column.generated != 0);
            let is_untyped = over.is_none() && is_untyped_literal(sql, &host.reader)?;
            let typed =
                is_untyped.then(|| format!("{sql}::{}", host.reader.format_type(column.type_oid, column.typmod)));
            let sql = typed.as_ref().unwrap_or(sql);
            match bind_expression(sql, over, &host.reader, Some((type_oid, typmod))) {
                Ok(_) => Ok(typed),
                Err(e) if e.sqlstate() == sqlstate::DATATYPE_MISMATCH => {
                    let what = if column.generated == 0 { "default" } else { "generation expression" };
                    let shown = host.reader.format_type(type_oid, typmod);
                    let message =
                        format!("{what} for column \"{}\" cannot be cast automatically to type {shown}", column.name);
                    Err(Error::new(sqlstate::DATATYPE_MISMATCH, message))
                }
                Err(e) => Err(e),
            }
        })
    }

    /// ALTER COLUMN … TYPE is refused where something else than the table's own rules uses the column.
    fn refuse_new_type(&mut self, table: &Table, column: &Column, runtime: &dyn Runtime) -> Result<()> {
        self.settle_dependencies(runtime)?;
        let name = &column.name;
        for row in self.dependents(PG_CLASS, table.oid, i32::from(column.attnum))? {
            let user = ObjectAddress::object(row.oid("classid"), row.oid("objid"));
            let what = match user.class {
                PG_PROC => "by a function or procedure",
                PG_REWRITE => "by a view or rule",
                PG_TRIGGER => "in a trigger definition",
                PG_POLICY => "in a policy definition",
                PG_ATTRDEF => {
                    self.refuse_generated(table, name, user.object)?;
                    continue;
                }
                _ => continue,
            };
            let shown = self.object_shown(user, runtime)?;
            return Err(Error::unsupported(format!("cannot alter type of a column used {what}"))
                .with_detail(format!("{shown} depends on column \"{name}\"")));
        }
        Ok(())
    }

    /// 0A000 if the value of a generated column, whose row of pg_attrdef this is, is computed from the column.
    fn refuse_generated(&mut self, table: &Table, name: &str, default: Oid) -> Result<()> {
        let rows = self.context_mut().catalog_lookup(PG_ATTRDEF, PG_ATTRDEF_OID_INDEX, &[Datum::Oid(default)])?;
        let generated = rows
            .first()
            .and_then(|row| table.columns.iter().find(|c| i64::from(c.attnum) == row.int("adnum") && c.generated != 0));
        match generated.filter(|other| other.name != name) {
            Some(other) => Err(Error::unsupported("cannot alter type of a column used by a generated column")
                .with_detail(format!("Column \"{name}\" is used by generated column \"{}\".", other.name))),
            None => Ok(()),
        }
    }

    /// The table's checks and indexes that have the column in an expression.
    fn expressions_of(&mut self, change: &TypeChange<'_>, runtime: &dyn Runtime) -> Result<ExpressionUsers> {
        let (table, column) = (change.table, change.column_reference());
        self.context_mut().with_catalog(runtime, |host| {
            let names = |sql: &str| names_column(host, table, sql, column);
            let mut users = ExpressionUsers::default();
            for check in &table.checks {
                if names(&check.sql)? {
                    users.checks.push(check.oid);
                }
            }
            for index in &table.indexes {
                let keys = index.keys.iter().filter_map(|k| k.expression_sql.as_deref());
                for sql in keys.chain(index.predicate_sql.as_deref()) {
                    if names(sql)? && !users.indexes.contains(&index.oid) {
                        users.indexes.push(index.oid);
                    }
                }
            }
            Ok(users)
        })
    }

    /// Binds the expressions that name the column with its new type, and writes what depends on their types.
    fn bind_expressions_again(
        &mut self,
        change: &TypeChange<'_>,
        users: &ExpressionUsers,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let table = self.context_mut().table_by_oid(change.table.oid, runtime)?;
        for check in table.checks.iter().filter(|check| users.checks.contains(&check.oid)) {
            self.bind_condition_again(&table, &check.sql, runtime)?;
            // What it depends on, operators for one, may have changed with the type.
            self.update_row(PG_CONSTRAINT, PG_CONSTRAINT_OID_INDEX, check.oid, runtime, |row| {
                row.set("conbin", Datum::text(&check.sql))
            })?;
        }
        for index in table.indexes.iter().filter(|index| users.indexes.contains(&index.oid)) {
            self.refuse_for_global(index, "changing the type of a column that an expression names")?;
            if let Some(sql) = &index.predicate_sql {
                self.bind_condition_again(&table, sql, runtime)?;
            }
            for (at, key) in index.keys.iter().enumerate() {
                let Some(sql) = key.expression_sql.as_deref().filter(|_| key.attnum == 0) else { continue };
                let (type_oid, derived) = self.context_mut().with_catalog(runtime, |host| {
                    let bound = bind_expression(sql, Some(&table), &host.reader, None)?;
                    Ok((bound.expr.ty, bound.expr.collation))
                })?;
                let collation = self.collation_of_expression(type_oid, derived, runtime)?;
                if key.collation == change.column.collation.oid {
                    self.recollate_key(index, at, collation, runtime)?;
                }
                self.retype_key(index, at, type_oid, runtime)?;
            }
        }
        Ok(())
    }

    fn bind_condition_again(&mut self, table: &Arc<Table>, sql: &str, runtime: &dyn Runtime) -> Result<()> {
        self.context_mut().with_catalog(runtime, |host| {
            bind_expression(sql, Some(table), &host.reader, Some((oids::BOOL, -1))).map(|_| ())
        })
    }

    /// The rows in new storage, in the order of these keys if there are any, and the indexes over them.
    pub(super) fn move_rows_with(
        &mut self,
        source: &Arc<Table>,
        change: (&[ColumnChange<'_>], &[IndexKey]),
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let now = self.context_mut().table_by_oid(source.oid, runtime)?;
        self.empty_table(&now, runtime)?;
        let table = self.context_mut().table_by_oid(now.oid, runtime)?;
        self.copy_table(source, &table, change, runtime)?;
        table.indexes.iter().try_for_each(|index| self.build_index(&table, index, runtime))
    }

    /// What holds for the new values as it did for the old: NOT NULL, checks, foreign keys.
    pub(super) fn validate_again(&mut self, table: Oid, retyped: &RetypedColumn, runtime: &dyn Runtime) -> Result<()> {
        let table = self.context_mut().table_by_oid(table, runtime)?;
        let RetypedColumn { column, users, keys, keeps_equality } = retyped;
        if column.not_null && self.table_with_row(&table, RowCondition::Null(column.attnum), runtime)?.is_some() {
            let message = format!("column \"{}\" of relation \"{}\" contains null values", column.name, table.name);
            return Err(Error::new(sqlstate::NOT_NULL_VIOLATION, message).with_table(&table.schema_name, &table.name));
        }
        let checks = table.checks.iter().filter(|check| users.checks.contains(&check.oid));
        for check in checks.filter(|check| check.enforced && check.validated) {
            self.validate_check(&table, &check.name, &check.sql, runtime)?;
        }
        for key in keys.all().filter(|key| key.enforced && key.validated && !keeps_equality) {
            let (referencing, referenced) = self.key_tables(key, runtime)?;
            if referencing.kind == TableKind::Partitioned || self.is_part_of_tree_key(&table, key)? {
                continue;
            }
            self.validate_foreign_key(key_pair(key, &referencing, &referenced), &key.name, runtime)?;
        }
        Ok(())
    }

    /// Whether a foreign key of a partition is one of the whole tree's, which holds or not once all partitions have
    /// their new rows.
    fn is_part_of_tree_key(&mut self, table: &Table, key: &ForeignKey) -> Result<bool> {
        if key.part_of == 0 || table.partition_of == 0 {
            return Ok(false);
        }
        Ok(key.table == table.oid || self.constraint_row(key.part_of)?.is_some_and(|w| w.oid("conrelid") == key.table))
    }

    /// ALTER COLUMN … TYPE of a partitioned table, whose partitions have their new rows: its foreign keys hold for them.
    pub(super) fn validate_tree_keys(&mut self, table: Oid, column: &str, runtime: &dyn Runtime) -> Result<()> {
        let table = self.context_mut().table_by_oid(table, runtime)?;
        let keys = keys_of(&table, column_of(&table, column)?.attnum);
        for key in keys.all().filter(|key| key.part_of == 0 && key.enforced && key.validated) {
            let (referencing, referenced) = self.key_tables(key, runtime)?;
            self.validate_foreign_key(key_pair(key, &referencing, &referenced), &key.name, runtime)?;
        }
        Ok(())
    }

    fn key_tables(&mut self, key: &ForeignKey, runtime: &dyn Runtime) -> Result<(Arc<Table>, Arc<Table>)> {
        let referencing = self.context_mut().table_by_oid(key.table, runtime)?;
        Ok((referencing, self.context_mut().table_by_oid(key.referenced_table, runtime)?))
    }

    /// The operators of foreign keys are those of the types that they compare now.
    fn retype_keys(&mut self, table: Oid, keys: &ColumnKeys, runtime: &dyn Runtime) -> Result<()> {
        for key in keys.all() {
            let (referencing, referenced) = self.key_tables(key, runtime)?;
            for other in [&referencing, &referenced] {
                if other.oid != table && !self.lock_later(other.oid, LockMode::ShareRowExclusive) {
                    self.lock_for_ddl(other, LockMode::ShareRowExclusive, runtime)?;
                }
            }
            let pair = key_pair(key, &referencing, &referenced);
            let operators = operator_columns(&self.equality_operators(pair, &key.name, runtime)?);
            self.set_key_operators(key.oid, &operators, runtime)?;
        }
        Ok(())
    }

    /// The operators of a foreign key and of all rows that point at it: partitions have the columns' types, or get them.
    fn set_key_operators(&mut self, key: Oid, operators: &[(&str, Datum)], runtime: &dyn Runtime) -> Result<()> {
        self.update_row(PG_CONSTRAINT, PG_CONSTRAINT_OID_INDEX, key, runtime, |row| {
            operators.iter().for_each(|(name, value)| row.set(name, value.clone()));
        })?;
        let Some(row) = self.constraint_row(key)? else { return Ok(()) };
        for part in self.parts_of_key(&row)? {
            self.set_key_operators(part.oid("oid"), operators, runtime)?;
        }
        Ok(())
    }

    fn retype_attribute(
        &mut self,
        table: &Table,
        attnum: i16,
        (type_oid, typmod, collation): (Oid, i32, Oid),
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let (len, storage) = self.type_storage(type_oid, runtime)?;
        self.update_attribute(table.oid, attnum, runtime, |row| {
            row.set("atttypid", Datum::Oid(type_oid));
            row.set("atttypmod", Datum::Int4(typmod));
            row.set("attlen", Datum::Int2(len));
            row.set("attstorage", Datum::Char(storage));
            row.set("attcollation", Datum::Oid(collation));
            row.set("atthasmissing", Datum::Bool(false));
            row.set("attmissingval", Datum::Null);
        })
    }

    fn retype_indexes(&mut self, change: &TypeChange<'_>, runtime: &dyn Runtime) -> Result<()> {
        let TypeChange { table, column: Column { attnum, collation: former, .. }, type_oid, .. } = *change;
        let attnum = *attnum;
        for index in &table.indexes {
            if index.keys.iter().any(|k| k.attnum == attnum) {
                self.refuse_for_global(index, "changing the type of a key column")?;
            }
            for (at, _) in index.keys.iter().enumerate().filter(|(_, k)| k.attnum == attnum) {
                self.retype_key(index, at, type_oid, runtime)?;
                // A key with a collation of its own keeps it.
                if index.keys[at].collation == former.oid {
                    self.recollate_key(index, at, change.collation, runtime)?;
                }
            }
        }
        Ok(())
    }

    /// A key of an index is sorted by another collation from now on.
    fn recollate_key(&mut self, index: &Arc<Index>, at: usize, collation: Oid, runtime: &dyn Runtime) -> Result<()> {
        let stored = Datum::Oid(collation);
        self.update_attribute(index.oid, at as i16 + 1, runtime, |row| row.set("attcollation", stored))?;
        self.update_row(PG_INDEX, PG_INDEX_INDEXRELID_INDEX, index.oid, runtime, |row| {
            set_of_key(row, "indcollation", at, collation);
        })
    }

    /// A key of an index is of another type from now on.
    fn retype_key(&mut self, index: &Arc<Index>, at: usize, type_oid: Oid, runtime: &dyn Runtime) -> Result<()> {
        let key = &index.keys[at];
        let class = self
            .context_mut()
            .with_catalog(runtime, |host| crate::host::default_class(index.method.oid, type_oid, &host.reader))?;
        let class = match class {
            Some(class) => class,
            None if index.has_terms() => return Err(self.no_class(index, type_oid, runtime)?),
            None => key.opclass,
        };
        let stored = self.stored_type(index.method.oid, class, type_oid, runtime)?;
        self.update_attribute(index.oid, at as i16 + 1, runtime, |row| row.set("atttypid", Datum::Oid(stored)))?;
        self.update_row(PG_INDEX, PG_INDEX_INDEXRELID_INDEX, index.oid, runtime, |row| {
            set_of_key(row, "indclass", at, class);
        })
    }

    fn no_class(&mut self, index: &Index, type_oid: u32, runtime: &dyn Runtime) -> Result<Error> {
        let shown = self.context_mut().with_catalog(runtime, |host| Ok(host.reader.format_type(type_oid, -1)))?;
        let message =
            format!("data type {shown} has no default operator class for access method \"{}\"", index.method.name);
        Ok(Error::new(sqlstate::UNDEFINED_OBJECT, message).with_hint(
            "You must specify an operator class for the index or define a default operator class for the data type.",
        ))
    }
}

/// Sets what a column of pg_index has for one of the index's keys.
fn set_of_key(row: &mut CatalogRow, column: &'static str, key: usize, value: Oid) {
    let mut all: Vec<Datum> = row.numbers(column).into_iter().map(|oid| Datum::Oid(oid as Oid)).collect();
    if let Some(own) = all.get_mut(key) {
        *own = Datum::Oid(value);
    }
    row.set(column, vector(oids::OID, all));
}

/// A column as it was, and what has to hold for its new values as it did for the old ones.
pub(super) struct RetypedColumn {
    column: Column,
    users: ExpressionUsers,
    keys: ColumnKeys,
    /// References hold as they did.
    keeps_equality: bool,
}

/// Checks and indexes, by OID, whose expressions name a column.
#[derive(Default)]
struct ExpressionUsers {
    checks: Vec<Oid>,
    indexes: Vec<Oid>,
}

/// The foreign keys that a column belongs to.
struct ColumnKeys {
    referencing: Vec<Arc<ForeignKey>>,
    referenced: Vec<Arc<ForeignKey>>,
}

impl ColumnKeys {
    fn all(&self) -> impl Iterator<Item = &Arc<ForeignKey>> {
        self.referencing.iter().chain(&self.referenced)
    }
}

fn keys_of(table: &Table, attnum: i16) -> ColumnKeys {
    let having = |keys: &[Arc<ForeignKey>], columns: fn(&ForeignKey) -> &Vec<i16>| {
        keys.iter().filter(|key| columns(key).contains(&attnum)).cloned().collect()
    };
    ColumnKeys {
        referencing: having(&table.foreign_keys, |key| &key.columns),
        referenced: having(&table.referenced_by, |key| &key.referenced_columns),
    }
}

pub(super) fn names_column(
    host: &StatementHost<'_>,
    table: &Arc<Table>,
    sql: &str,
    column: ObjectAddress,
) -> Result<bool> {
    Ok(BoundText::expression(sql, VisibleColumns::Table(table), &host.reader)?.refers_to(column))
}
