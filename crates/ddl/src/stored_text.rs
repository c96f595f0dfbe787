//! Definitions are kept as text. Before they are, every name in them gets its schema, and dates and times are written as
//! ISO has them, so that they mean the same to whoever uses them, whatever his search path and settings.

use super::Definitions;
use crate::client::Runtime;
use crate::host::StatementHost;
use crate::host::routine_definition::Arguments;
use crate::host::routine_definition::Definition;
use kilndb_base::{Error, Result};
use kilndb_bind::names::{TextConstant, VisibleColumns, has_times, qualified_expression, qualified_queries};
use kilndb_bind::variables::Variables;
use kilndb_types::context::{DateStyle, FormatSettings, IntervalStyle, ObjectNames};
use kilndb_types::{EvalContext, io};

/// A constant's text that every session reads alike; None: it is one already.
fn lasting_text(host: &StatementHost<'_>, constant: &TextConstant) -> Result<Option<String>> {
    let TextConstant { ty, typmod, ref text } = *constant;
    if has_times(ty, &host.reader) {
        let eval = host.eval();
        let value = io::input(ty, text, typmod, &eval)?;
        let (date_style, interval_style) = (DateStyle::Iso, IntervalStyle::Postgres);
        let format = FormatSettings { date_style, interval_style, ..eval.format.clone() };
        return io::output_string(ty, &value, &EvalContext { format: &format, ..eval }).map(Some);
    }
    if text == "-" || text.trim().parse::<u32>().is_ok() {
        return Ok(None);
    }
    let oid = host.reg_input(ty, text)?;
    Ok(Some(host.with_path(&[kilndb_catalog::builtin::PG_CATALOG]).reg_output(ty, oid)))
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
            qualified_expression(sql, over, &host.reader, &|constant| lasting_text(host, constant))
        };
        self.context_mut().with_catalog(runtime, bind).map_err(nowhere)
    }

    /// A query as it is kept.
    pub(super) fn stored_query(&mut self, sql: &str, runtime: &dyn Runtime) -> Result<String> {
        let bind = |host: &StatementHost<'_>| {
            qualified_queries(sql, &host.reader, None, &|constant| lasting_text(host, constant))
        };
        self.context_mut().with_catalog(runtime, bind).map_err(nowhere)
    }

    /// A body in SQL syntax as it is kept.
    pub(super) fn stored_body(&mut self, sql: &str, definition: &Definition, runtime: &dyn Runtime) -> Result<String> {
        self.context_mut().with_catalog(runtime, |host| {
            let arguments = Arguments { definition, values: &[] };
            let variables = Variables::new(&arguments);
            qualified_queries(sql, &host.reader, Some(&variables), &|constant| lasting_text(host, constant))
        })
    }
}
