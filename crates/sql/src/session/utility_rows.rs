//! The rows of utility commands: what there is in them, and in which formats they go to the client.

use super::Session;
use super::prepared::row_columns;
use super::run::describe;
use crate::client::Client;
use crate::settings::definition;
use kilndb_base::Oid;
use kilndb_plan::node::OutputColumn;
use kilndb_syntax::{Node, Statement, nodes};
use kilndb_types::oids;
use std::sync::Arc;

impl Session {
    /// What a utility command's rows have as things are now, but for CALL; None: it gives no rows. What is missing for it is told
    /// when it runs.
    pub(super) fn utility_columns(&self, statement: &Statement) -> Option<Arc<[OutputColumn]>> {
        match statement.node() {
            Node::VariableShowStmt(s) => Some(show_columns(s.name().unwrap_or("")).into()),
            Node::ExplainStmt(s) => Some([plain_column("QUERY PLAN", plan_type(s))].into()),
            Node::FetchStmt(s) if !s.ismove => {
                let columns = |portal: &super::portal::Portal| match &portal.plan {
                    Some(plan) => row_columns(plan).map(Arc::from),
                    None => portal.columns.clone(),
                };
                self.statements.portals.with(s.portalname().unwrap_or(""), columns).flatten()
            }
            Node::ExecuteStmt(s) => {
                self.statements.prepared.get(s.name().unwrap_or("")).and_then(|prepared| prepared.columns.clone())
            }
            _ => None,
        }
    }

    /// The formats of the rows that follow: those that the Bind has asked for, or `own` ones of rows that are described
    /// now.
    pub(super) fn begin_rows(&mut self, columns: &[OutputColumn], own: &[i16], client: &mut dyn Client) -> Vec<i16> {
        match self.utility_formats.take() {
            Some(formats) => formats,
            None => {
                describe(columns, own, client);
                own.to_vec()
            }
        }
    }
}

fn plain_column(name: &str, type_oid: Oid) -> OutputColumn {
    OutputColumn {
        name: name.to_string(),
        type_oid,
        typmod: -1,
        collation: Default::default(),
        type_len: -1,
        shown_type: type_oid,
        shown_typmod: -1,
        table_oid: 0,
        attnum: 0,
    }
}

pub(super) fn show_columns(name: &str) -> Vec<OutputColumn> {
    let names = match name {
        "all" => vec!["name", "setting", "description"],
        name => vec![definition(name).map_or(name, |d| d.name)],
    };
    names.into_iter().map(|name| plain_column(name, oids::TEXT)).collect()
}

/// EXPLAIN (FORMAT …) decides what its text is.
fn plan_type(s: &nodes::ExplainStmt) -> Oid {
    let format = s.options().iter().rfind(|o| o.defname() == Some("format"));
    match format.and_then(|o| o.arg().as_str().map(str::to_ascii_lowercase)).as_deref() {
        Some("json") => oids::JSON,
        Some("xml") => oids::XML,
        _ => oids::TEXT,
    }
}
