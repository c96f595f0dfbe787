//! Definitions are kept as text. Before they are, every name in them gets its schema, so that they mean the same to
//! whoever uses them, whatever his search path.

use super::Definitions;
use crate::client::Runtime;
use crate::host::StatementHost;
use crate::host::routine_definition::Arguments;
use crate::host::routine_definition::Definition;
use kilndb_base::{Error, Oid, Result};
use kilndb_bind::names::{VisibleColumns, qualified_expression, qualified_queries};
use kilndb_bind::variables::Variables;
use kilndb_types::context::ObjectNames;

/// What text names as a value of a reg… type, in full; None: as it is.
fn full_name(host: &StatementHost<'_>, kind: Oid, text: &str) -> Option<String> {
    if text == "-" || text.trim().parse::<u32>().is_ok() {
        return None;
    }
    let oid = host.reg_input(kind, text).ok()?;
    Some(host.with_path(&[kilndb_catalog::builtin::PG_CATALOG]).reg_output(kind, oid))
}

/// Where in the text it is means nothing to whoever has given more than the text.
fn nowhere(mut e: Error) -> Error {
    e.0.position = None;
    e
}

impl Definitions<'_> {
    /// An expression as it is kept.
    pub(super) fn stored_expression(
        &mut self,
        sql: &str,
        over: VisibleColumns<'_>,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let bind = |host: &StatementHost<'_>| {
            qualified_expression(sql, over, &host.reader, &|kind, text| full_name(host, kind, text))
        };
        self.context_mut().with_catalog(runtime, bind).map_err(nowhere)
    }

    /// A query as it is kept.
    pub(super) fn stored_query(&mut self, sql: &str, runtime: &dyn Runtime) -> Result<String> {
        let bind = |host: &StatementHost<'_>| {
            qualified_queries(sql, &host.reader, None, &|kind, text| full_name(host, kind, text))
        };
        self.context_mut().with_catalog(runtime, bind).map_err(nowhere)
    }

    /// A body in SQL syntax as it is kept.
    pub(super) fn stored_body(&mut self, sql: &str, definition: &Definition, runtime: &dyn Runtime) -> Result<String> {
        self.context_mut().with_catalog(runtime, |host| {
            let arguments = Arguments { definition, values: &[] };
            let variables = Variables::new(&arguments);
            qualified_queries(sql, &host.reader, Some(&variables), &|kind, text| full_name(host, kind, text))
        })
    }
}
