//! Queries that no user has written: the engine makes them for definitions, COPY and foreign keys. They are made bound,
//! so no text of a statement is put together and parsed again. The only texts that they read are kept expressions and
//! conditions, the queries of views, and what compares a materialized view with its query.
//!
//! Invariants
//! 1. An engine query means the same under every search path and every setting.
//! 2. Parameters are numbered from zero, and their types are known before binding.

mod key;
mod key_join;
mod table;
mod value;
mod view;
mod write;

pub use key::{KeyAction, KeyQuery, NewKeyValue};
pub use key_join::KeyJoin;
pub use table::{RowCondition, RowValue, TableQuery};
pub use value::{CallQuery, ValueQuery, ValueSource};
pub use view::ViewStatement;
pub use write::{ColumnChange, CopyRows, DeleteRows, FillColumn, FillValue, insert_rows};

use super::Binder;
use super::from::table_columns;
use super::ir::*;
use kilndb_base::{Error, Oid, Result};
use kilndb_catalog::extension::is_member;
use kilndb_catalog::{CatalogView, Column, IndexKey, Table};
use kilndb_types::{Datum, oids};
use std::sync::Arc;

/// A query that the engine makes.
pub trait EngineQuery {
    /// The types of its parameters.
    fn parameter_types(&self) -> Vec<Oid> {
        Vec::new()
    }
    fn bind(&self, catalog: &dyn CatalogView) -> Result<BoundStatement>;
}

/// `key = value` as the key's type compares: an extension's operator may be in a schema that no path has.
fn equality(binder: &Binder<'_>, key: Expr, value: Expr) -> Result<Expr> {
    let catalog = binder.catalog;
    let own = match catalog.ordering_operators(binder.base_type(key.ty))? {
        Some(operators) if is_member(operators.equal) => catalog.operator_by_oid(operators.equal)?,
        _ => None,
    };
    let schema = own.and_then(|operator| catalog.schema_name_of(operator.schema_oid));
    binder.make_operator(schema.as_deref(), "=", Some(key), value, -1)
}

/// `arg IS [NOT] NULL`.
fn null_test(arg: Expr, negated: bool) -> Expr {
    Expr::new(ExprKind::IsNull { arg: Box::new(arg), negated }, oids::BOOL)
}

fn binder_of(catalog: &dyn CatalogView) -> Binder<'_> {
    Binder::new(catalog, Arc::from(""), Vec::new())
}

fn statement(query: Query) -> BoundStatement {
    BoundStatement::Query(SharedQuery::new(query))
}

/// A table in a FROM list.
fn table_rel(id: u32, table: &Arc<Table>) -> Rel {
    Rel {
        id,
        alias: table.name.clone(),
        columns: table_columns(table),
        kind: RelKind::Table(table.clone()),
        lateral: false,
        security_quals: Vec::new(),
    }
}

/// A column of a table by its number.
fn column_of(table: &Table, attnum: i16) -> Result<&Column> {
    let column = table.columns.iter().find(|c| c.attnum == attnum && !c.dropped);
    column.ok_or_else(|| Error::internal(format!("{} has no column {attnum}", table.name)))
}

/// The statement that does `dml` to the rows of its table for which `filter` is true, or all of them.
fn change_of(dml: Dml, filter: Option<Expr>) -> BoundStatement {
    statement(Query {
        rels: vec![table_rel(dml.rel, &dml.table)],
        from: vec![JoinTree::Rel(dml.rel)],
        filter,
        body: QueryBody::Dml(Box::new(dml)),
        ..Query::default()
    })
}

fn target(expr: Expr, name: &str) -> Target {
    Target { expr, name: name.to_string(), junk: false, table_oid: 0, attnum: 0 }
}

fn one_row() -> Option<Expr> {
    Some(Expr::new(ExprKind::Const(Datum::Int8(1)), oids::INT8))
}
