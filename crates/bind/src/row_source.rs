//! Statements whose rows come from elsewhere: COPY FROM as an INSERT.

use super::ir::*;
use super::{bind, bind_row_filter};
use kilndb_base::{Error, Result};
use kilndb_catalog::{CatalogView, Table};
use kilndb_syntax::Node;
use std::sync::Arc;

/// The rows of a COPY into a table without columns; no other relation of such a statement has this number.
const NO_COLUMNS_REL: u32 = 0x3fff_fffe;

/// An INSERT whose rows come from elsewhere (COPY FROM), as values of the columns named. `filter`: a condition on the
/// rows, and the text that it is of.
pub fn bind_row_source(
    table: &Arc<Table>,
    attnums: &[i16],
    filter: (Node<'_>, &Arc<str>),
    catalog: &dyn CatalogView,
) -> Result<BoundStatement> {
    let quote = kilndb_catalog::format_type::quote_identifier;
    let columns: Vec<_> = table.columns.iter().filter(|c| attnums.contains(&c.attnum)).collect();
    let ordered = attnums.iter().filter_map(|n| columns.iter().find(|c| c.attnum == *n));
    let (mut names, mut nulls) = (Vec::new(), Vec::new());
    for column in ordered {
        names.push(quote(&column.name));
        nulls.push(format!("CAST(NULL AS {})", catalog.format_type(column.type_oid, column.typmod)));
    }
    let row = format!("({})", nulls.join(", "));
    // A list of no columns cannot be written.
    let (list, rows) = match names.as_slice() {
        [] => (String::new(), "DEFAULT VALUES".to_string()),
        names => (format!("({})", names.join(", ")), format!("OVERRIDING SYSTEM VALUE VALUES {row}, {row}")),
    };
    let sql = format!("INSERT INTO {}.{} {list} {rows}", quote(&table.schema_name), quote(&table.name));
    let script = kilndb_syntax::parse(&sql)?;
    let statement = script.statements().pop().ok_or_else(|| Error::internal("an empty statement"))?;
    let mut bound = bind(&statement, catalog, &mut Vec::new())?;
    if let BoundStatement::Query(query) = &mut bound {
        empty_values(query);
        if let QueryBody::Dml(d) = &mut query.body {
            if names.is_empty() {
                let rel = Rel {
                    id: NO_COLUMNS_REL,
                    alias: "*VALUES*".into(),
                    columns: Vec::new(),
                    kind: RelKind::Values(Vec::new()),
                    lateral: false,
                    security_quals: Vec::new(),
                };
                d.source = Some(SharedQuery::new(Query {
                    rels: vec![rel],
                    from: vec![JoinTree::Rel(NO_COLUMNS_REL)],
                    ..Query::default()
                }));
            }
            d.row_filter = bind_row_filter(filter.0, filter.1, table, d.new_rel, catalog)?;
        }
    }
    Ok(bound)
}

/// Takes the rows out of VALUES lists.
fn empty_values(query: &mut Query) {
    if let QueryBody::Dml(d) = &mut query.body
        && let Some(source) = &mut d.source
    {
        empty_values(source);
    }
    if let QueryBody::Values(rows) = &mut query.body {
        rows.clear();
    }
    for rel in &mut query.rels {
        match &mut rel.kind {
            RelKind::Values(rows) => rows.clear(),
            RelKind::Subquery(inner) => empty_values(inner),
            _ => {}
        }
    }
}
