//! Statements in text that fill materialized views: the view's own query, and those that bring its rows up to date.

use super::*;

/// A statement of the engine's own in text. Its names are qualified.
pub struct ViewStatement<'a> {
    pub sql: &'a str,
    /// The rows are to be entered in this table.
    pub into: Option<&'a Arc<Table>>,
    /// The materialized view whose rows the statement changes by itself, 0 if there is none.
    pub maintained: Oid,
}

impl EngineQuery for ViewStatement<'_> {
    fn bind(&self, catalog: &dyn CatalogView) -> Result<BoundStatement> {
        let script = kilndb_syntax::parse(self.sql)?;
        let statements = script.statements();
        let Some(one) = statements.first() else { return Err(Error::internal("a view without a query")) };
        let binder = Binder { maintained: self.maintained, ..Binder::new(catalog, Arc::from(self.sql), Vec::new()) };
        let bound = BoundStatement::Query(SharedQuery::new(binder.trusting(|| binder.bind_whole(one.node()))?));
        match self.into {
            Some(table) => insert_rows(bound, table, catalog),
            None => Ok(bound),
        }
    }
}
