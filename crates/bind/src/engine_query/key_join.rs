//! Rows of a table held against the rows that they reference.

use super::*;

/// A row of the referencing table whose key is whole: the table (or partition) that it is in, and the key's values as
/// texts.
#[derive(Clone, Debug)]
pub struct KeyJoin<'a> {
    pub referencing: &'a Arc<Table>,
    pub columns: &'a [i16],
    pub referenced: &'a Arc<Table>,
    pub referenced_columns: &'a [i16],
    /// Rows are wanted that reference nothing; otherwise those that reference a row. Where all is as it should be there
    /// are none: a limit would only make the planner expect that the first is soon found.
    pub is_dangling: bool,
}

impl EngineQuery for KeyJoin<'_> {
    fn bind(&self, catalog: &dyn CatalogView) -> Result<BoundStatement> {
        let binder = binder_of(catalog);
        let (referencing, referenced) = (binder.new_rel(), binder.new_rel());
        let mut targets =
            vec![target(Expr::column(ColId { rel: referencing, att: ATT_TABLEOID }, oids::OID, -1), "tableoid")];
        let (mut equal, mut conditions) = (Vec::new(), Vec::new());
        for (mine, theirs) in self.columns.iter().zip(self.referenced_columns) {
            let value = Expr::of_column(referencing, column_of(self.referencing, *mine)?);
            let key = Expr::of_column(referenced, column_of(self.referenced, *theirs)?);
            targets.push(target(binder.explicit_cast(value.clone(), oids::TEXT, -1, -1)?, "key"));
            conditions.push(null_test(value.clone(), true));
            if self.is_dangling && equal.is_empty() {
                conditions.push(null_test(key.clone(), false));
            }
            equal.push(equality(&binder, key, value)?);
        }
        let join = JoinTree::Join {
            kind: if self.is_dangling { JoinKind::Left } else { JoinKind::Inner },
            left: Box::new(JoinTree::Rel(referencing)),
            right: Box::new(JoinTree::Rel(referenced)),
            on: Expr::and_all(equal),
        };
        Ok(statement(Query {
            rels: vec![table_rel(referencing, self.referencing), table_rel(referenced, self.referenced)],
            from: vec![join],
            filter: Expr::and_all(conditions),
            targets,
            ..Query::default()
        }))
    }
}
