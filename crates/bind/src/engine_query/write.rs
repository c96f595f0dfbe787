//! Rows that definitions write: those of CREATE TABLE AS, and a new column's value in rows that were there before it.
//! No trigger fires for them.

use super::*;
use crate::dml::next_value;

/// The numbers of an insert's relations begin here: the binder counts from 1 upwards, the planner from the highest
/// number downwards.
const FIRST_INSERT_REL: u32 = 1 << 30;

/// The statement that enters a bound query's rows in a table, whose columns are the query's.
pub fn insert_rows(source: BoundStatement, table: &Arc<Table>, catalog: &dyn CatalogView) -> Result<BoundStatement> {
    let BoundStatement::Query(source) = source else { return Err(Error::internal("EXPLAIN has no rows to insert")) };
    let binder = binder_of(catalog);
    binder.next_rel.set(FIRST_INSERT_REL);
    let mut dml = binder.new_dml(DmlKind::Insert, table.clone());
    let outputs = source.targets.iter().filter(|t| !t.junk);
    let columns = table.columns.iter().enumerate().filter(|(_, c)| !c.dropped);
    for (n, (output, (place, column))) in outputs.zip(columns).enumerate() {
        let id = ColId { rel: dml.source_rel, att: n as i16 + 1 };
        let value = Expr::column(id, output.expr.ty, output.expr.typmod);
        dml.assignments.push(Assignment { column: place, expr: binder.assign(value, column, table)? });
    }
    dml.source = Some(source);
    binder.row_rules(table, dml.new_rel, &mut dml)?;
    Ok(statement(Query { body: QueryBody::Dml(Box::new(dml)), ..Query::default() }))
}

/// What rows get in a column that is new.
#[derive(Clone, Copy, Debug)]
pub enum FillValue {
    /// The column's default, or what it is generated from.
    Default,
    /// The next value of a sequence, for an identity column.
    Sequence(Oid),
}

/// Gives every row of a table a value in one column.
#[derive(Clone, Debug)]
pub struct FillColumn<'a> {
    pub table: &'a Arc<Table>,
    pub attnum: i16,
    pub value: FillValue,
}

impl EngineQuery for FillColumn<'_> {
    fn bind(&self, catalog: &dyn CatalogView) -> Result<BoundStatement> {
        let binder = binder_of(catalog);
        let mut dml = binder.new_dml(DmlKind::Update, self.table.clone());
        let found = self.table.columns.iter().position(|c| c.attnum == self.attnum && !c.dropped);
        let place =
            found.ok_or_else(|| Error::internal(format!("{} has no column {}", self.table.name, self.attnum)))?;
        let column = &self.table.columns[place];
        // A generated column's value is among the row's rules.
        if column.generated == 0 {
            let expr = match self.value {
                FillValue::Default => binder.default_of(self.table, column, dml.rel)?,
                FillValue::Sequence(sequence) => binder.assign(next_value(sequence), column, self.table)?,
            };
            dml.assignments.push(Assignment { column: place, expr });
        }
        binder.row_rules(self.table, dml.new_rel, &mut dml)?;
        Ok(change_of(dml, None))
    }
}
