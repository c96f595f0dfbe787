//! Queries over one table that the engine itself makes, for definitions and COPY: bound, without a text of a statement.

use super::from::table_columns;
use super::ir::*;
use super::{Binder, bind_expression};
use kilndb_base::{Error, Result};
use kilndb_catalog::{CatalogView, Table};
use kilndb_types::{Datum, oids};
use std::sync::Arc;

/// A value of each row.
#[derive(Clone, Copy, Debug)]
pub enum RowValue<'a> {
    /// Where the row is.
    Place,
    /// The table that it is in: a partition, of a partitioned table.
    TableOid,
    /// By its number.
    Column(i16),
    /// The text of an expression as it is kept.
    Expression(&'a str),
}

/// Which rows.
#[derive(Clone, Copy, Debug)]
pub enum RowCondition<'a> {
    All,
    /// For which the kept condition is true.
    True(&'a str),
    /// For which it is false.
    False(&'a str),
    /// For which it is false or unknown.
    NotTrue(&'a str),
    /// In which the column of that number is NULL.
    Null(i16),
}

/// A query over one table.
#[derive(Clone, Debug)]
pub struct TableQuery<'a> {
    pub table: &'a Arc<Table>,
    pub values: Vec<RowValue<'a>>,
    pub condition: RowCondition<'a>,
    /// One row is enough.
    pub is_one: bool,
}

impl TableQuery<'_> {
    pub fn bind(&self, catalog: &dyn CatalogView) -> Result<BoundStatement> {
        let rel = Binder::new(catalog, Arc::from(""), Vec::new()).new_rel();
        let mut targets = Vec::with_capacity(self.values.len());
        for value in &self.values {
            targets.push(self.target(*value, rel, catalog)?);
        }
        let query = Query {
            rels: vec![Rel {
                id: rel,
                alias: self.table.name.clone(),
                columns: table_columns(self.table),
                kind: RelKind::Table(self.table.clone()),
                lateral: false,
            }],
            from: vec![JoinTree::Rel(rel)],
            filter: self.filter(rel, catalog)?,
            targets,
            limit: self.is_one.then(|| Expr::new(ExprKind::Const(Datum::Int8(1)), oids::INT8)),
            ..Query::default()
        };
        Ok(BoundStatement::Query(SharedQuery::new(query)))
    }

    fn column(&self, attnum: i16, rel: u32) -> Result<(Expr, &str)> {
        let column = self.table.columns.iter().find(|c| c.attnum == attnum && !c.dropped);
        let column = column.ok_or_else(|| Error::internal(format!("{} has no column {attnum}", self.table.name)))?;
        Ok((Expr::column(ColId { rel, att: attnum }, column.type_oid, column.typmod), &column.name))
    }

    fn target(&self, value: RowValue<'_>, rel: u32, catalog: &dyn CatalogView) -> Result<Target> {
        let system = |att: i16, ty| Expr::column(ColId { rel, att }, ty, -1);
        let plain =
            |expr: Expr, name: &str| Target { expr, name: name.to_string(), junk: false, table_oid: 0, attnum: 0 };
        Ok(match value {
            RowValue::Place => plain(system(ATT_CTID, oids::TID), "ctid"),
            RowValue::TableOid => plain(system(ATT_TABLEOID, oids::OID), "tableoid"),
            RowValue::Column(attnum) => {
                let (expr, name) = self.column(attnum, rel)?;
                Target { table_oid: self.table.oid, attnum, ..plain(expr, name) }
            }
            RowValue::Expression(sql) => plain(self.expression(sql, rel, catalog)?, "?column?"),
        })
    }

    /// An expression's columns are those of a relation that has its first number from the binder, as this one's has.
    fn expression(&self, sql: &str, rel: u32, catalog: &dyn CatalogView) -> Result<Expr> {
        let bound = bind_expression(sql, Some(self.table), catalog, None)?;
        if bound.rel != rel {
            return Err(Error::internal("an expression over another relation than the query's"));
        }
        Ok(bound.expr)
    }

    fn condition(&self, sql: &str, rel: u32, catalog: &dyn CatalogView) -> Result<Expr> {
        let bound = bind_expression(sql, Some(self.table), catalog, Some((oids::BOOL, -1)))?;
        if bound.rel != rel {
            return Err(Error::internal("a condition over another relation than the query's"));
        }
        Ok(bound.expr)
    }

    fn filter(&self, rel: u32, catalog: &dyn CatalogView) -> Result<Option<Expr>> {
        let of = |kind| Some(Expr::new(kind, oids::BOOL));
        Ok(match self.condition {
            RowCondition::All => None,
            RowCondition::True(sql) => Some(self.condition(sql, rel, catalog)?),
            RowCondition::False(sql) => of(ExprKind::Not(Box::new(self.condition(sql, rel, catalog)?))),
            RowCondition::NotTrue(sql) => {
                let arg = Box::new(self.condition(sql, rel, catalog)?);
                of(ExprKind::BoolTest { arg, test: BoolTestKind::NotTrue })
            }
            RowCondition::Null(attnum) => {
                let arg = Box::new(self.column(attnum, rel)?.0);
                of(ExprKind::IsNull { arg, negated: false })
            }
        })
    }
}
