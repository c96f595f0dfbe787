//! COPY FROM: what is checked before anything is read, and the INSERT that takes the rows.

use super::file::open_input;
use super::read::CopySource;
use super::{BYTES_TOTAL, CopyOptions, Format, Input, copy_columns, copy_table};
use crate::client::{Client, Runtime};
use crate::session::Session;
use crate::session::run::SinkMaker;
use kilndb_base::{Error, Result};
use kilndb_catalog::Table;
use kilndb_catalog::privileges::privilege;
use kilndb_syntax::{Statement, nodes};

pub(super) fn copy_from(
    session: &mut Session,
    s: &nodes::CopyStmt,
    statement: &Statement,
    options: &CopyOptions,
    runtime: &dyn Runtime,
    client: &mut dyn Client,
) -> Result<u64> {
    let table = copy_table(&mut session.context, s, runtime)?;
    if table.persistence != b't' {
        session.context.refuse_if_read_only("COPY FROM")?;
    }
    refuse_catalog(&table)?;
    if session.context.row_security_counts(&table)? {
        return Err(Error::unsupported("COPY FROM not supported with row-level security")
            .with_hint("Use INSERT statements instead."));
    }
    let columns = copy_columns(&table, &crate::ddl::strings(s.attlist()))?;
    let (plan, read) = {
        let environment = session.context.environment(runtime)?;
        let host = environment.host();
        let attnums: Vec<i16> = columns.iter().map(|c| c.attnum).collect();
        let filter = (s.where_clause(), statement.source());
        let bound = kilndb_bind::bind_row_source(&table, &attnums, filter, &host.reader)?;
        let read = kilndb_bind::access::filter_columns(&bound);
        (kilndb_plan::plan_with(bound, Vec::new(), &host.reader, &session.context.cluster.engine)?, read)
    };
    if !read.is_empty() {
        session.context.require_on_columns(&table, &read, privilege::SELECT)?;
    }
    let mut client = client;
    let mut file = match s.filename() {
        Some(name) => Some(open_input(&session.context, name)?),
        None => None,
    };
    if file.is_none() {
        client.copy_in_begin(options.format == Format::Binary, columns.len())?;
    }
    if let Some(file) = &file {
        runtime.control().progress.set(BYTES_TOTAL, file.bytes() as i64);
    }
    let progress = &runtime.control().progress;
    progress.concerns(table.oid);
    let input: &mut dyn Input = match &mut file {
        Some(file) => file,
        None => &mut client,
    };
    let mut source = CopySource::new((&table, &columns), options, input, progress);
    let done = session.run_to_sink(&plan, &[], runtime, SinkMaker::Source(&mut source));
    match done {
        Ok(progress) => Ok(progress.rows),
        Err(mut e) => {
            if let Some(context) = source.context().filter(|_| e.0.severity <= kilndb_base::Severity::Error) {
                e.add_context(&context);
            }
            Err(e)
        }
    }
}

/// 42501 for a system table.
fn refuse_catalog(table: &Table) -> Result<()> {
    if table.is_catalog {
        return Err(kilndb_context::privileges::permission_denied("table", &table.name));
    }
    Ok(())
}
