//! Queries over the rows of one table.

use super::*;
use crate::domain;
use kilndb_base::RowId;
use kilndb_types::datum::Array;

/// A value of each row.
#[derive(Clone, Copy, Debug)]
pub enum RowValue<'a> {
    /// Where the row is.
    Place,
    /// The table that it is in: a partition, of a partitioned table.
    TableOid,
    /// The column of that number.
    Column(i16),
    /// The text of an expression as it is kept.
    Expression(&'a str),
    /// A kept expression, converted to a type and modifier as an assignment does.
    Assigned(&'a str, (Oid, i32)),
    /// Another value as a text.
    Text(&'a RowValue<'a>),
}

/// Which rows.
#[derive(Clone, Copy, Debug)]
pub enum RowCondition<'a> {
    All,
    /// Rows for which the kept condition is true.
    True(&'a str),
    /// Rows for which the kept condition is false.
    False(&'a str),
    /// Rows for which the kept condition is false or unknown.
    NotTrue(&'a str),
    /// Rows in which the column of that number is NULL.
    Null(i16),
    /// Rows in which none of the columns of these numbers is NULL.
    NoneNull(&'a [i16]),
    /// The row that is there.
    At(RowId),
    /// The rows that are there.
    Among(&'a [RowId]),
    /// Of the rows that are there those for which the kept condition is true.
    TrueAmong(&'a str, &'a [RowId]),
    /// The value of whose column (by its number) a domain's kept check is false for.
    DomainFalse {
        attnum: i16,
        base: Oid,
        check: &'a str,
    },
}

/// A query over one table.
#[derive(Clone, Debug)]
pub struct TableQuery<'a> {
    pub table: &'a Arc<Table>,
    pub values: Vec<RowValue<'a>>,
    pub condition: RowCondition<'a>,
    /// Whether one row is enough for whoever asks.
    pub is_one: bool,
}

impl EngineQuery for TableQuery<'_> {
    fn bind(&self, catalog: &dyn CatalogView) -> Result<BoundStatement> {
        Ok(statement(self.in_order(&[], catalog)?))
    }
}

impl TableQuery<'_> {
    /// The query with its rows in the order of an index's keys.
    pub(super) fn in_order(&self, order: &[IndexKey], catalog: &dyn CatalogView) -> Result<Query> {
        let binder = binder_of(catalog);
        let rel = binder.new_rel();
        let mut targets = Vec::with_capacity(self.values.len());
        for value in &self.values {
            targets.push(self.target(value, rel, &binder)?);
        }
        let mut order_by = Vec::new();
        for key in order {
            let expr = match &key.expression_sql {
                Some(sql) => self.expression(sql, rel, None, &binder)?,
                None => Expr::of_column(rel, column_of(self.table, key.attnum)?),
            };
            order_by.push(SortKey { expr, descending: key.descending, nulls_first: key.nulls_first });
        }
        Ok(Query {
            rels: vec![table_rel(rel, self.table)],
            from: vec![JoinTree::Rel(rel)],
            filter: self.filter(rel, &binder)?,
            targets,
            order_by,
            limit: if self.is_one { one_row() } else { None },
            ..Query::default()
        })
    }

    fn target(&self, value: &RowValue<'_>, rel: u32, binder: &Binder<'_>) -> Result<Target> {
        let system = |att: i16, ty| Expr::column(ColId { rel, att }, ty, -1);
        Ok(match *value {
            RowValue::Place => target(system(ATT_CTID, oids::TID), "ctid"),
            RowValue::TableOid => target(system(ATT_TABLEOID, oids::OID), "tableoid"),
            RowValue::Column(attnum) => {
                let column = column_of(self.table, attnum)?;
                Target { table_oid: self.table.oid, attnum, ..target(Expr::of_column(rel, column), &column.name) }
            }
            RowValue::Expression(sql) => target(self.expression(sql, rel, None, binder)?, "?column?"),
            RowValue::Assigned(sql, ty) => target(self.expression(sql, rel, Some(ty), binder)?, "?column?"),
            RowValue::Text(value) => {
                let value = self.target(value, rel, binder)?;
                target(binder.explicit_cast(value.expr, oids::TEXT, -1, -1)?, &value.name)
            }
        })
    }

    fn expression(&self, sql: &str, rel: u32, ty: Option<(Oid, i32)>, binder: &Binder<'_>) -> Result<Expr> {
        binder.converted(binder.bind_catalog_sql(sql, self.table, rel)?, ty)
    }

    fn filter(&self, rel: u32, binder: &Binder<'_>) -> Result<Option<Expr>> {
        let of = |kind| Some(Expr::new(kind, oids::BOOL));
        let condition = |sql| self.expression(sql, rel, Some((oids::BOOL, -1)), binder);
        Ok(match self.condition {
            RowCondition::All => None,
            RowCondition::True(sql) => Some(condition(sql)?),
            RowCondition::False(sql) => of(ExprKind::Not(Box::new(condition(sql)?))),
            RowCondition::NotTrue(sql) => {
                of(ExprKind::BoolTest { arg: Box::new(condition(sql)?), test: BoolTestKind::NotTrue })
            }
            RowCondition::Null(attnum) => Some(null_test(Expr::of_column(rel, column_of(self.table, attnum)?), false)),
            RowCondition::NoneNull(attnums) => {
                let test = |attnum: &i16| Ok(null_test(Expr::of_column(rel, column_of(self.table, *attnum)?), true));
                Expr::and_all(attnums.iter().map(test).collect::<Result<_>>()?)
            }
            RowCondition::At(rid) => {
                let place = Expr::column(ColId { rel, att: ATT_CTID }, oids::TID, -1);
                let wanted = Expr::new(ExprKind::Const(Datum::Tid(rid.block, rid.slot)), oids::TID);
                Some(binder.make_operator(Some("pg_catalog"), "=", Some(place), wanted, -1)?)
            }
            RowCondition::Among(rows) => Some(among(rows, rel, binder)?),
            RowCondition::TrueAmong(sql, rows) => Expr::and_all(vec![among(rows, rel, binder)?, condition(sql)?]),
            RowCondition::DomainFalse { attnum, base, check } => {
                let mut check = domain::check(check, base, binder.catalog)?;
                let column = Expr::of_column(rel, column_of(self.table, attnum)?).kind;
                check.rewrite(&mut |e| {
                    if matches!(e.kind, ExprKind::Column(c) if c.rel == domain::VALUE_REL) {
                        e.kind = column.clone();
                    }
                    Ok(())
                })?;
                of(ExprKind::Not(Box::new(check)))
            }
        })
    }
}

/// `ctid = ANY (…)`: the rows in these places.
pub(super) fn among(rows: &[RowId], rel: u32, binder: &Binder<'_>) -> Result<Expr> {
    let place = Expr::column(ColId { rel, att: ATT_CTID }, oids::TID, -1);
    let elements: Vec<Datum> = rows.iter().map(|rid| Datum::Tid(rid.block, rid.slot)).collect();
    let dims = if rows.is_empty() { Vec::new() } else { vec![(1, rows.len() as u32)] };
    let array = Datum::Array(Arc::new(Array { element_type: oids::TID, dims, elements }));
    let wanted = Expr::new(ExprKind::Const(array), binder.array_of(oids::TID));
    binder.scalar_array(Some("pg_catalog"), "=", place, wanted, true, -1)
}
