//! Rows that definitions write: those of CREATE TABLE AS, and a new column's value in rows that were there before it.
//! No trigger fires for them.

use super::*;
use crate::dml::next_value;
use kilndb_base::RowId;

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
        let value = output.expr.as_column(id);
        dml.assignments.push(Assignment { column: place, expr: binder.assign(value, column, table)? });
    }
    dml.source = Some(source);
    binder.row_rules(table, dml.new_rel, &mut dml)?;
    // What a definition does with rows nobody is asked about.
    dml.rule_functions = RuleFunctions::default();
    Ok(statement(Query { body: QueryBody::Dml(Box::new(dml)), ..Query::default() }))
}

/// What is different in a column of a table's rows and of their copies.
#[derive(Clone, Copy, Debug)]
pub enum ColumnChange<'a> {
    /// The column of that number is of another type, which the kept expression over the old row has the value for.
    Converted { attnum: i16, value: &'a str, ty: (Oid, i32) },
    /// The column of that number is new.
    Added { attnum: i16, value: FillValue },
}

/// Enters rows of one table in another, or in new storage of the same one, which has the same columns but for
/// some.
#[derive(Clone, Debug)]
pub struct CopyRows<'a> {
    pub source: &'a Arc<Table>,
    pub target: &'a Arc<Table>,
    pub changes: &'a [ColumnChange<'a>],
    pub condition: RowCondition<'a>,
    /// The rows come in the order of these keys of an index.
    pub order: &'a [IndexKey],
    /// The result's rows are to tell each row's old place, its new one, and the table that it is in now.
    pub tells_places: bool,
}

impl ColumnChange<'_> {
    fn attnum(&self) -> i16 {
        match *self {
            ColumnChange::Converted { attnum, .. } | ColumnChange::Added { attnum, .. } => attnum,
        }
    }
}

impl<'a> CopyRows<'a> {
    fn change_of(&self, column: &Column) -> Option<ColumnChange<'a>> {
        self.changes.iter().find(|change| change.attnum() == column.attnum).copied()
    }
}

impl EngineQuery for CopyRows<'_> {
    fn bind(&self, catalog: &dyn CatalogView) -> Result<BoundStatement> {
        let columns = || self.target.columns.iter().enumerate().filter(|(_, c)| !c.dropped);
        let mut values: Vec<RowValue<'_>> = Vec::new();
        for (_, column) in columns() {
            match self.change_of(column) {
                None => values.push(RowValue::Column(column.attnum)),
                Some(ColumnChange::Converted { value, ty, .. }) => values.push(RowValue::Assigned(value, ty)),
                Some(ColumnChange::Added { .. }) => {}
            }
        }
        values.push(RowValue::Place);
        let place = values.len() as i16;
        let rows = TableQuery { table: self.source, values, condition: self.condition, is_one: false };
        let source = rows.in_order(self.order, catalog)?;
        let binder = binder_of(catalog);
        binder.next_rel.set(FIRST_INSERT_REL);
        let mut dml = binder.new_dml(DmlKind::Insert, self.target.clone());
        let mut outputs = (1..).zip(source.targets.iter().filter(|t| !t.junk));
        for (at, column) in columns() {
            let value = match self.change_of(column) {
                Some(ColumnChange::Added { value, .. }) => {
                    // A generated column's value is among the row's rules.
                    if column.generated != 0 {
                        continue;
                    }
                    value.bind(&binder, self.target, column, dml.new_rel)?
                }
                _ => {
                    let Some((n, output)) = outputs.next() else { break };
                    let id = ColId { rel: dml.source_rel, att: n };
                    binder.assign(output.expr.as_column(id), column, self.target)?
                }
            };
            dml.assignments.push(Assignment { column: at, expr: value });
        }
        if self.tells_places {
            let system = |rel, att, ty| Expr::column(ColId { rel, att }, ty, -1);
            dml.returning = vec![
                target(system(dml.source_rel, place, oids::TID), "old"),
                target(system(dml.new_rel, ATT_CTID, oids::TID), "new"),
                target(system(dml.new_rel, ATT_TABLEOID, oids::OID), "tableoid"),
            ];
        }
        dml.moves_rows = true;
        dml.source = Some(SharedQuery::new(source));
        binder.row_rules(self.target, dml.new_rel, &mut dml)?;
        // What a definition does with rows nobody is asked about.
        dml.rule_functions = RuleFunctions::default();
        Ok(statement(Query { body: QueryBody::Dml(Box::new(dml)), ..Query::default() }))
    }
}

/// Deletes the rows of a table that are in these places.
#[derive(Clone, Debug)]
pub struct DeleteRows<'a> {
    pub table: &'a Arc<Table>,
    pub rows: &'a [RowId],
}

impl EngineQuery for DeleteRows<'_> {
    fn bind(&self, catalog: &dyn CatalogView) -> Result<BoundStatement> {
        let binder = binder_of(catalog);
        let mut dml = binder.new_dml(DmlKind::Delete, self.table.clone());
        dml.moves_rows = true;
        dml.indexes = binder.bind_indexes(self.table, dml.new_rel)?;
        let filter = super::table::among(self.rows, dml.rel, &binder)?;
        Ok(change_of(dml, Some(filter)))
    }
}

/// What rows get in a column that is new.
#[derive(Clone, Copy, Debug)]
pub enum FillValue {
    /// The column's default, or what it is generated from.
    Default,
    /// The next value of a sequence, for an identity column.
    Sequence(Oid),
}

impl FillValue {
    fn bind(self, binder: &Binder<'_>, table: &Table, column: &Column, rel: u32) -> Result<Expr> {
        match self {
            FillValue::Default => binder.default_of(table, column, rel),
            FillValue::Sequence(sequence) => binder.assign(next_value(sequence), column, table),
        }
    }
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
            let expr = self.value.bind(&binder, self.table, column, dml.rel)?;
            dml.assignments.push(Assignment { column: place, expr });
        }
        binder.row_rules(self.table, dml.new_rel, &mut dml)?;
        // What a definition does with rows nobody is asked about.
        dml.rule_functions = RuleFunctions::default();
        Ok(change_of(dml, None))
    }
}
