//! COPY TO.

use super::copy_table;
use super::file::open_output;
use super::{BYTES, CopyOptions, Format, Output, ROWS, copy_columns};
use crate::client::{Client, ProgressSlot, Runtime};
use crate::session::Session;
use crate::session::run::{SinkMaker, column_types};
use kilndb_base::{Error, Oid, Result};
use kilndb_bind::engine_query::{RowCondition, RowValue, TableQuery};
use kilndb_catalog::format_type::quote_identifier;
use kilndb_catalog::{Column, Table};
use kilndb_exec::RowSink;
use kilndb_plan::Plan;
use kilndb_syntax::{Node, Statement, nodes};
use kilndb_types::{Datum, EvalContext, io};
use std::sync::Arc;

/// What a [`CopySink`] is made of; the settings it formats with come from the running statement.
pub(crate) struct CopyParts<'a> {
    output: &'a mut dyn Output,
    options: &'a CopyOptions,
    columns: Vec<(Oid, i32)>,
    names: Vec<String>,
    progress: &'a ProgressSlot,
    /// Goes with the first row.
    header: &'static [u8],
}

/// Makes the sink once the statement that fills it runs.
pub(crate) trait SinkParts {
    fn sink<'s>(&'s mut self, eval: EvalContext<'s>) -> Box<dyn RowSink + 's>;
}

impl SinkParts for CopyParts<'_> {
    fn sink<'s>(&'s mut self, eval: EvalContext<'s>) -> Box<dyn RowSink + 's> {
        Box::new(CopySink {
            output: &mut *self.output,
            options: self.options,
            columns: self.columns.clone(),
            names: self.names.clone(),
            eval,
            line: self.header.to_vec(),
            value: Vec::new(),
            progress: self.progress,
            rows: 0,
            bytes: 0,
        })
    }
}

/// Formats rows and hands them to the client.
pub(crate) struct CopySink<'a> {
    output: &'a mut dyn Output,
    options: &'a CopyOptions,
    columns: Vec<(Oid, i32)>,
    names: Vec<String>,
    eval: EvalContext<'a>,
    /// The row that is being made, behind what goes with it.
    line: Vec<u8>,
    value: Vec<u8>,
    progress: &'a ProgressSlot,
    rows: i64,
    bytes: i64,
}

impl CopySink<'_> {
    fn field_text(&mut self, column: usize, value: &Datum) -> Result<()> {
        if value.is_null() {
            self.line.extend_from_slice(self.options.null.as_bytes());
            return Ok(());
        }
        self.value.clear();
        let (type_oid, typmod) = self.columns[column];
        io::output_typmod(type_oid, typmod, value, &mut self.value, &self.eval)?;
        if self.options.format == Format::Csv {
            let force = self.options.force_quote.iter().any(|n| n == "*" || *n == self.names[column]);
            write_csv_field(&self.value, self.options, force, self.columns.len() == 1, &mut self.line);
        } else {
            write_text_field(&self.value, self.options.delimiter, &mut self.line);
        }
        Ok(())
    }
}

fn write_text_field(value: &[u8], delimiter: u8, out: &mut Vec<u8>) {
    for b in value {
        let escaped = match b {
            b'\\' => b'\\',
            8 => b'b',
            12 => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            11 => b'v',
            b if *b == delimiter => *b,
            b => {
                out.push(*b);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', escaped]);
    }
}

fn write_csv_field(value: &[u8], o: &CopyOptions, force: bool, single: bool, out: &mut Vec<u8>) {
    let special = |b: &u8| *b == o.delimiter || *b == o.quote || *b == b'\n' || *b == b'\r';
    let end_marker = single && value == b"\\.";
    if !(force || end_marker || value == o.null.as_bytes() || value.iter().any(special)) {
        out.extend_from_slice(value);
        return;
    }
    out.push(o.quote);
    for b in value {
        if *b == o.quote || *b == o.escape {
            out.push(o.escape);
        }
        out.push(*b);
    }
    out.push(o.quote);
}

impl RowSink for CopySink<'_> {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        if self.options.format == Format::Binary {
            self.line.extend_from_slice(&(values.len() as i16).to_be_bytes());
            for (value, (type_oid, typmod)) in values.iter().zip(&self.columns) {
                if value.is_null() {
                    self.line.extend_from_slice(&(-1i32).to_be_bytes());
                    continue;
                }
                self.value.clear();
                io::send_typmod(*type_oid, *typmod, value, &mut self.value, &self.eval)?;
                self.line.extend_from_slice(&(self.value.len() as i32).to_be_bytes());
                self.line.extend_from_slice(&self.value);
            }
        } else {
            for (i, value) in values.iter().enumerate() {
                if i > 0 {
                    self.line.push(self.options.delimiter);
                }
                self.field_text(i, value)?;
            }
            self.line.push(b'\n');
        }
        self.rows += 1;
        self.bytes += self.line.len() as i64;
        self.progress.set(ROWS, self.rows);
        self.progress.set(BYTES, self.bytes);
        self.output.write(&self.line)?;
        self.line.clear();
        Ok(())
    }
}

const BINARY_HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

pub(super) fn copy_to(
    session: &mut Session,
    s: &nodes::CopyStmt,
    statement: &Statement,
    options: &CopyOptions,
    runtime: &dyn Runtime,
    client: &mut dyn Client,
) -> Result<u64> {
    let plan = match s.query() {
        Node::None => {
            let table = copy_table(&mut session.context, s, runtime)?;
            runtime.control().progress.concerns(table.oid);
            let columns = copy_columns(&table, &crate::ddl::strings(s.attlist()))?;
            match session.context.row_security_counts(&table)? {
                true => plan_as_query(session, &table, &columns, runtime)?,
                false => {
                    let values = columns.iter().map(|c| RowValue::Column(c.attnum)).collect();
                    let query = TableQuery { table: &table, values, condition: RowCondition::All, is_one: false };
                    session.context.plan_engine_query(&query, runtime)?
                }
            }
        }
        query => session.context.make_plan_of(query, statement.source(), &[], runtime)?,
    };
    if plan.columns.is_empty() && plan.command != "SELECT" {
        return Err(Error::unsupported("COPY query must have a RETURNING clause"));
    }
    let progress = &runtime.control().progress;
    let columns = column_types(&plan);
    let names: Vec<String> = plan.columns.iter().map(|c| c.name.clone()).collect();
    let header = if options.format == Format::Binary { BINARY_HEADER } else { &[] };
    if let Some(name) = s.filename() {
        let mut file = open_output(&session.context, name)?;
        let parts = CopyParts { output: &mut file, options, columns, names, progress, header };
        let rows = copy_rows(session, &plan, parts, runtime)?;
        file.finish()?;
        return Ok(rows);
    }
    let mut client = client;
    client.copy_out_begin(options.format == Format::Binary, columns.len());
    let parts = CopyParts { output: &mut client, options, columns, names, progress, header };
    let rows = copy_rows(session, &plan, parts, runtime)?;
    client.copy_out_end();
    Ok(rows)
}

/// The plan of a SELECT of the columns, which has the policies of the table.
fn plan_as_query(session: &mut Session, table: &Table, columns: &[Column], runtime: &dyn Runtime) -> Result<Arc<Plan>> {
    let names: Vec<String> = columns.iter().map(|c| quote_identifier(&c.name)).collect();
    let (schema, name) = (quote_identifier(&table.schema_name), quote_identifier(&table.name));
    let script = kilndb_syntax::parse(&format!("SELECT {} FROM ONLY {schema}.{name}", names.join(", ")))?;
    let Some(select) = script.statements().into_iter().next() else {
        return Err(Error::internal("COPY without a query"));
    };
    session.context.make_plan_of(select.node(), select.source(), &[], runtime)
}

fn copy_rows(session: &mut Session, plan: &Arc<Plan>, mut parts: CopyParts<'_>, runtime: &dyn Runtime) -> Result<u64> {
    let (options, names) = (parts.options, &parts.names);
    if options.header && options.format != Format::Binary {
        let mut line = Vec::new();
        for (i, name) in names.iter().enumerate() {
            if i > 0 {
                line.push(options.delimiter);
            }
            match options.format {
                Format::Csv => write_csv_field(name.as_bytes(), options, false, names.len() == 1, &mut line),
                _ => write_text_field(name.as_bytes(), options.delimiter, &mut line),
            }
        }
        line.push(b'\n');
        parts.output.write(&line)?;
    }
    let rows = session.run_to_sink(plan, &[], runtime, SinkMaker::Copy(&mut parts))?.rows;
    if options.format == Format::Binary {
        let header = if rows == 0 { parts.header } else { &[] };
        parts.output.write(&[header, &(-1i16).to_be_bytes()].concat())?;
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_fields_are_escaped() {
        let mut out = Vec::new();
        write_text_field(b"a\tb\\c\n", b'\t', &mut out);
        assert_eq!(out, b"a\\tb\\\\c\\n");
    }
}
