//! Column defaults: their rows in pg_attrdef, and what they depend on.
//!
//! Invariants
//! 1. A default goes with its column (pg_depend 'a') and keeps the relations that its regclass constants name ('n').
//! 2. The default of a serial column names its sequence by OID, so that renaming or moving the sequence keeps it
//!    working.

use super::Definitions;
use super::create_table::NewColumn;
use crate::client::Runtime;
use crate::host::StatementHost;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_bind::ir::{Expr, ExprKind};
use kilndb_bind::names::VisibleColumns;
use kilndb_catalog::builtin::FIRST_USER_OID;
use kilndb_catalog::ids::*;
use kilndb_catalog::{CatalogView, Table};
use kilndb_types::context::ObjectNames;
use kilndb_types::{Datum, oids};
use std::sync::Arc;

/// nextval(regclass).
const NEXTVAL: Oid = 1574;

/// The relation that a regclass constant names.
fn relation_named(e: &Expr, host: &StatementHost<'_>) -> Option<Oid> {
    if e.ty != oids::REGCLASS {
        return None;
    }
    match &e.kind {
        ExprKind::Const(Datum::Oid(oid)) => Some(*oid),
        // Not looked up yet: names mean what the search path says when the expression runs.
        ExprKind::Cast { arg, .. } => match &arg.kind {
            ExprKind::Const(Datum::Text(text)) if arg.ty == oids::UNKNOWN => host.reg_input(oids::REGCLASS, text).ok(),
            _ => None,
        },
        _ => None,
    }
}

/// `nextval('name')` with the name as an OID.
fn by_oid(e: &Expr, host: &StatementHost<'_>) -> Option<String> {
    match &e.kind {
        ExprKind::Func(f) if f.oid == NEXTVAL => f.args.first().and_then(|a| relation_named(a, host)).map(nextval_of),
        _ => None,
    }
}

/// DEFAULT NULL says nothing, unless it keeps a domain's own default away.
pub(super) fn says_nothing(column: &NewColumn) -> bool {
    column.generated == 0 && column.type_oid < FIRST_USER_OID && column.default_sql.as_deref() == Some("NULL")
}

/// Is the text one string constant?
fn is_literal(sql: &str) -> bool {
    let inner = sql.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    inner.is_some_and(|inner| !inner.replace("''", "").contains('\''))
}

pub(super) fn nextval_of(sequence: Oid) -> String {
    format!("nextval('{sequence}'::regclass)")
}

impl Definitions<'_> {
    pub(super) fn insert_default(&mut self, table: Oid, attnum: i16, sql: &str, runtime: &dyn Runtime) -> Result<()> {
        let oid = self.new_oid(table)?;
        let table = self.context_mut().table_by_oid(table, runtime)?;
        let column = table.columns.iter().find(|c| c.attnum == attnum);
        let (stored, typed) = self.context_mut().with_catalog(runtime, |host| {
            // Positions are of the expression's text, not of the statement's.
            let bound = kilndb_bind::bind_expression(sql, Some(&table), &host.reader, None).map_err(|mut e| {
                e.0.position = None;
                e
            })?;
            // A label of an enum is to be known as one.
            let typed = column.filter(|c| c.type_oid >= FIRST_USER_OID && is_literal(sql));
            let typed = typed.map(|c| format!("{sql}::{}", host.reader.format_type(c.type_oid, c.typmod)));
            Ok((by_oid(&bound.expr, host), typed))
        })?;
        let sql = typed.as_deref().unwrap_or(sql);
        let stored = match stored {
            Some(stored) => stored,
            None => {
                let over = column.map_or(VisibleColumns::Table(&table), |c| {
                    VisibleColumns::Default(Some(&table), (c.type_oid, c.typmod))
                });
                self.stored_expression(sql, over, runtime)?
            }
        };
        self.write_catalog(runtime, |w| {
            let row = [
                ("oid", Datum::Oid(oid)),
                ("adrelid", Datum::Oid(table.oid)),
                ("adnum", Datum::Int2(attnum)),
                ("adbin", Datum::text(&stored)),
            ];
            w.insert(PG_ATTRDEF, &row).map(|_| ())
        })?;
        Ok(())
    }

    /// Forgets the default of one column, or of all of a table's.
    pub(super) fn delete_defaults(&mut self, table: Oid, attnum: Option<i16>, runtime: &dyn Runtime) -> Result<()> {
        let key: Vec<Datum> = std::iter::once(Datum::Oid(table)).chain(attnum.map(Datum::Int2)).collect();
        for row in self.context_mut().catalog_lookup(PG_ATTRDEF, PG_ATTRDEF_ADRELID_ADNUM_INDEX, &key)? {
            self.write_catalog(runtime, |w| w.delete(&row))?;
        }
        Ok(())
    }

    pub(super) fn drop_default(&mut self, table: Oid, attnum: i16, runtime: &dyn Runtime) -> Result<()> {
        self.delete_defaults(table, Some(attnum), runtime)?;
        self.update_attribute(table, attnum, runtime, |row| row.set("atthasdef", Datum::Bool(false)))
    }

    /// ALTER COLUMN SET DEFAULT and DROP DEFAULT.
    pub(super) fn alter_default(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        def: kilndb_syntax::Node<'_>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let column = super::alter_table::column_of(table, name)?.clone();
        let has_default = !matches!(def, kilndb_syntax::Node::None);
        let is = |what: &str| {
            Error::new(
                sqlstate::SYNTAX_ERROR,
                format!("column \"{name}\" of relation \"{}\" is {what} column", table.name),
            )
        };
        if column.identity != 0 {
            let e = is("an identity");
            return Err(if has_default {
                e
            } else {
                e.with_hint("Use ALTER TABLE ... ALTER COLUMN ... DROP IDENTITY instead.")
            });
        }
        if column.generated != 0 {
            let e = is("a generated");
            let hint = if has_default {
                "Use ALTER TABLE ... ALTER COLUMN ... SET EXPRESSION instead."
            } else {
                "Use ALTER TABLE ... ALTER COLUMN ... DROP EXPRESSION instead."
            };
            return Err(if has_default || column.generated == b's' { e.with_hint(hint) } else { e });
        }
        if !has_default {
            return self.drop_default(table.oid, column.attnum, runtime);
        }
        let sql = kilndb_syntax::expression_sql(def)?;
        if sql == "NULL" && column.type_oid < FIRST_USER_OID {
            return self.drop_default(table.oid, column.attnum, runtime);
        }
        self.check_default(&sql, &column.name, (column.type_oid, column.typmod), runtime)?;
        self.delete_defaults(table.oid, Some(column.attnum), runtime)?;
        self.insert_default(table.oid, column.attnum, &sql, runtime)?;
        self.update_attribute(table.oid, column.attnum, runtime, |row| row.set("atthasdef", Datum::Bool(true)))
    }

    /// The default must fit the column.
    pub(super) fn check_default(
        &mut self,
        sql: &str,
        name: &str,
        target: (Oid, i32),
        runtime: &dyn Runtime,
    ) -> Result<()> {
        self.context_mut().with_catalog(runtime, |host| {
            let bound = kilndb_bind::bind_expression(sql, None, &host.reader, Some(target));
            bound.map(|_| ()).map_err(|mut e| {
                e.0.position = None;
                if e.sqlstate() == sqlstate::DATATYPE_MISMATCH {
                    let of = e.message().split(" but should").next().unwrap_or("").to_string();
                    e.0.message = format!(
                        "column \"{name}\" is of type {} but default {of}",
                        host.reader.format_type(target.0, -1)
                    );
                    e = e.with_hint("You will need to rewrite or cast the expression.");
                }
                e
            })
        })
    }
}
