//! COPY in and out: text, csv and binary formats.
//!
//! Invariants
//! 1. Rows go through the same checks, defaults and index maintenance as INSERT's ([`kilndb_exec::CopyTarget`]).
//! 2. An error tells the line: `COPY table, line n, column c: "value"`.

mod binary_rows;
mod escape;
mod file;
mod from;
mod lines;
mod marks;
mod options;
mod pieces;
mod read;
mod reader;
mod target;
mod write;

use options::{CopyOptions, Format};
pub(crate) use write::SinkParts;

use crate::client::{Client, MessageMaker, ProgressKind, Runtime};
use crate::context::SessionContext;
use crate::session::Session;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_catalog::privileges::privilege;
use kilndb_catalog::{Column, Table, TableKind};
use kilndb_syntax::{Statement, nodes};
use std::sync::Arc;

pub(crate) fn run(
    session: &mut Session,
    s: &nodes::CopyStmt,
    statement: &Statement,
    runtime: &dyn Runtime,
    client: &mut dyn Client,
) -> Result<String> {
    if s.is_program {
        return Err(Error::unsupported("COPY with PROGRAM is not supported"));
    }
    session.context.begin_statement(runtime)?;
    if s.filename().is_some() {
        file::refuse_server_file(&session.context, s.is_from)?;
    }
    let options = CopyOptions::parse(s)?;
    let progress = &runtime.control().progress;
    progress.begin(ProgressKind::Copy, 0);
    progress.set(COMMAND, if s.is_from { 1 } else { 2 });
    progress.set(KIND, if s.filename().is_some() { 1 } else { 3 });
    let count = if s.is_from {
        from::copy_from(session, s, statement, &options, runtime, client)
    } else {
        write::copy_to(session, s, statement, &options, runtime, client)
    };
    progress.end();
    let count = count?;
    if let Some(txn) = &mut session.context.transaction.txn {
        txn.next_command();
    }
    Ok(format!("COPY {count}"))
}

fn copy_table(context: &mut SessionContext, s: &nodes::CopyStmt, runtime: &dyn Runtime) -> Result<Arc<Table>> {
    let r = s.relation().ok_or_else(|| Error::internal("COPY without a table"))?;
    let table = context.relation_of(r, runtime)?;
    let columns: Vec<i16> =
        copy_columns(&table, &crate::ddl::strings(s.attlist()))?.iter().map(|column| column.attnum).collect();
    // Who may not have the rows does not learn whether they could be copied.
    context.require_on_columns(&table, &columns, if s.is_from { privilege::INSERT } else { privilege::SELECT })?;
    let direction = if s.is_from { "to" } else { "from" };
    match table.kind {
        TableKind::Table => Ok(table),
        TableKind::Materialized if !s.is_from && table.is_populated => Ok(table),
        TableKind::Materialized if !s.is_from => {
            let message = format!("cannot copy from unpopulated materialized view \"{}\"", table.name);
            Err(Error::new(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
                .with_hint("Use the REFRESH MATERIALIZED VIEW command."))
        }
        TableKind::Partitioned if s.is_from => Ok(table),
        // Its rows are had by a query.
        TableKind::Partitioned if context.row_security_counts(&table)? => Ok(table),
        kind => {
            let word = match kind {
                TableKind::View => "view",
                TableKind::Materialized => "materialized view",
                TableKind::Partitioned => "partitioned table",
                TableKind::Sequence => "sequence",
                _ => "non-table relation",
            };
            let e =
                Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("cannot copy {direction} {word} \"{}\"", table.name));
            Err(if s.is_from && kind == TableKind::View {
                e.with_hint("To enable copying to a view, provide an INSTEAD OF INSERT trigger.")
            } else if s.is_from || kind == TableKind::Sequence {
                e
            } else {
                e.with_hint("Try the COPY (SELECT ...) TO variant.")
            })
        }
    }
}

/// Places in pg_stat_progress_copy's numbers.
pub(super) const BYTES: usize = 0;
pub(super) const BYTES_TOTAL: usize = 1;
pub(super) const ROWS: usize = 2;
const COMMAND: usize = 4;
const KIND: usize = 5;

/// Where COPY's bytes come from: the client, or a file of the server.
pub(super) trait Input {
    /// Appends the next piece; false at the end.
    fn read(&mut self, data: &mut Vec<u8>) -> Result<bool>;
}

/// Where they go.
pub(super) trait Output {
    fn write(&mut self, data: &[u8]) -> Result<()>;
    /// In which form it takes rows that other threads have written.
    fn made_form(&self) -> MadeForm {
        MadeForm::None
    }
    /// Takes many rows in that form.
    fn write_made(&mut self, rows: &[u8]) -> Result<()> {
        self.write(rows)
    }
}

/// The form of many rows together.
pub(crate) enum MadeForm {
    /// They are taken one by one.
    None,
    Bytes,
    Messages(&'static dyn MessageMaker),
}

impl Input for &mut dyn Client {
    fn read(&mut self, data: &mut Vec<u8>) -> Result<bool> {
        self.copy_in_read(data)
    }
}

impl Output for &mut dyn Client {
    fn write(&mut self, data: &[u8]) -> Result<()> {
        self.copy_out_data(data)
    }
    fn made_form(&self) -> MadeForm {
        self.messages().map_or(MadeForm::None, MadeForm::Messages)
    }
    fn write_made(&mut self, rows: &[u8]) -> Result<()> {
        self.send_made(rows)
    }
}

/// The columns named, or all that are not generated.
fn copy_columns(table: &Table, names: &[&str]) -> Result<Vec<Column>> {
    if names.is_empty() {
        return Ok(table.columns.iter().filter(|c| !c.dropped && c.generated == 0).cloned().collect());
    }
    let mut columns: Vec<Column> = Vec::new();
    for name in names {
        let column = table.columns.iter().find(|c| !c.dropped && c.name == *name).ok_or_else(|| {
            Error::new(
                sqlstate::UNDEFINED_COLUMN,
                format!("column \"{name}\" of relation \"{}\" does not exist", table.name),
            )
        })?;
        if columns.iter().any(|c| c.attnum == column.attnum) {
            return Err(Error::new(sqlstate::DUPLICATE_COLUMN, format!("column \"{name}\" specified more than once")));
        }
        if column.generated != 0 {
            return Err(Error::new(
                sqlstate::INVALID_COLUMN_REFERENCE,
                format!("column \"{name}\" is a generated column"),
            )
            .with_detail("Generated columns cannot be used in COPY."));
        }
        columns.push(column.clone());
    }
    Ok(columns)
}
