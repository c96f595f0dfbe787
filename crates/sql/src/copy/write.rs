//! COPY TO.

use super::copy_table;
use super::escape::{CsvColumn, append_csv, append_text};
use super::file::open_output;
use super::{BYTES, CopyOptions, Format, MadeForm, Output, ROWS, copy_columns};
use crate::client::{Client, MessageMaker, ProgressSlot, Runtime};
use crate::session::Session;
use crate::session::run::{SinkMaker, column_types};
use kilndb_base::{Error, Oid, Result};
use kilndb_bind::engine_query::{RowCondition, RowValue, TableQuery};
use kilndb_catalog::builtin::FIRST_USER_OID;
use kilndb_catalog::format_type::quote_identifier;
use kilndb_catalog::{Column, Table};
use kilndb_exec::{PrintedRows, RowPrinter, RowSink};
use kilndb_plan::Plan;
use kilndb_syntax::{Node, Statement, nodes};
use kilndb_types::context::is_shown_by_settings;
use kilndb_types::io::ShownColumn;
use kilndb_types::oids::BPCHAR;
use kilndb_types::vector::{Rows, Vector};
use kilndb_types::{Datum, EvalContext, io};
use std::sync::Arc;

/// What a [`CopySink`] is made of; the settings it formats with come from the running statement.
pub(crate) struct CopyParts<'a> {
    output: &'a mut dyn Output,
    format: Arc<CopyFormat>,
    progress: &'a ProgressSlot,
    /// Goes with the first row.
    header: &'static [u8],
}

/// A column that is written.
#[derive(Clone)]
pub(super) struct CopiedColumn {
    name: String,
    type_oid: Oid,
    typmod: i32,
    /// Texts are shown as they are kept.
    is_text: bool,
    csv: CsvColumn,
}

impl CopiedColumn {
    fn all(plan: &Plan, options: &CopyOptions) -> Vec<CopiedColumn> {
        let types = column_types(plan);
        let is_alone = types.len() == 1;
        let columns = plan.columns.iter().zip(types).map(|(column, (type_oid, typmod))| CopiedColumn {
            name: column.name.clone(),
            type_oid,
            typmod,
            is_text: type_oid < FIRST_USER_OID && type_oid != BPCHAR,
            csv: CsvColumn {
                is_always_quoted: options.force_quote.iter().any(|n| n == "*" || *n == column.name),
                is_alone,
            },
        });
        columns.collect()
    }
}

/// Makes the sink once the statement that fills it runs.
pub(crate) trait SinkParts {
    fn sink<'s>(&'s mut self, eval: EvalContext<'s>) -> Box<dyn RowSink + 's>;
}

impl SinkParts for CopyParts<'_> {
    fn sink<'s>(&'s mut self, eval: EvalContext<'s>) -> Box<dyn RowSink + 's> {
        Box::new(CopySink {
            output: &mut *self.output,
            format: &self.format,
            eval,
            line: self.header.to_vec(),
            value: Vec::new(),
            progress: self.progress,
            rows: 0,
            bytes: 0,
        })
    }
}

/// How rows are written.
struct CopyFormat {
    options: CopyOptions,
    columns: Vec<CopiedColumn>,
    /// Values that are [`is_number`] need no escape and no quotes.
    are_numbers_plain: bool,
}

/// Formats rows and hands them to the client.
pub(crate) struct CopySink<'a> {
    output: &'a mut dyn Output,
    format: &'a Arc<CopyFormat>,
    eval: EvalContext<'a>,
    /// The row that is being made, behind what goes with it.
    line: Vec<u8>,
    /// A value that may have to be escaped.
    value: Vec<u8>,
    progress: &'a ProgressSlot,
    rows: i64,
    bytes: i64,
}

/// What numbers, dates and times are written with has no other meaning with these options.
fn are_numbers_plain(options: &CopyOptions) -> bool {
    let is_in_numbers = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.:/ ".contains(&byte);
    match options.format {
        Format::Csv => !is_in_numbers(options.delimiter) && !is_in_numbers(options.quote) && options.null.is_empty(),
        _ => !is_in_numbers(options.delimiter),
    }
}

/// A number, a date, a time or the like, whose text has no bytes but those that [`are_numbers_plain`] has looked at. The names
/// of zones may have others.
fn is_number(value: &Datum) -> bool {
    matches!(
        value,
        Datum::Int2(_)
            | Datum::Int4(_)
            | Datum::Int8(_)
            | Datum::Numeric(_)
            | Datum::Float4(_)
            | Datum::Float8(_)
            | Datum::Date(_)
            | Datum::Time(_)
            | Datum::Timestamp(_)
            | Datum::Bool(_)
            | Datum::Uuid(_)
    )
}

/// A value of a row that is being written.
#[derive(Clone, Copy)]
enum WrittenValue<'a> {
    Single(&'a Datum),
    /// In a column, by its row.
    Shown(&'a ShownColumn<'a>, usize),
}

impl<'a> WrittenValue<'a> {
    #[inline]
    fn is_null(self) -> bool {
        match self {
            WrittenValue::Single(value) => value.is_null(),
            WrittenValue::Shown(column, row) => column.is_null(row),
        }
    }
    /// The text, if the value is one that is shown as it is kept.
    #[inline]
    fn text(self, column: &CopiedColumn) -> Option<&'a [u8]> {
        match self {
            WrittenValue::Single(Datum::Text(text)) if column.is_text => Some(text.as_bytes()),
            WrittenValue::Single(_) => None,
            WrittenValue::Shown(column, row) => column.text(row),
        }
    }
    /// False: it is no [number](is_number), and nothing was appended.
    #[inline]
    fn append_number(self, column: &CopiedColumn, out: &mut Vec<u8>, eval: &EvalContext<'_>) -> Result<bool> {
        match self {
            WrittenValue::Single(value) if is_number(value) => {
                io::output_typmod(column.type_oid, column.typmod, value, out, eval).map(|()| true)
            }
            WrittenValue::Single(_) => Ok(false),
            WrittenValue::Shown(column, row) => column.append_number(row, out, eval),
        }
    }
    fn append_text(self, column: &CopiedColumn, out: &mut Vec<u8>, eval: &EvalContext<'_>) -> Result<()> {
        match self {
            WrittenValue::Single(value) => io::output_typmod(column.type_oid, column.typmod, value, out, eval),
            WrittenValue::Shown(column, row) => column.append_text(row, out, eval),
        }
    }
    /// Appends a value of the binary format behind its length.
    #[inline]
    fn append_sized(self, column: &CopiedColumn, out: &mut Vec<u8>, eval: &EvalContext<'_>) -> Result<()> {
        match self {
            WrittenValue::Single(value) => io::send_sized(column.type_oid, column.typmod, value, out, eval),
            WrittenValue::Shown(column, row) => column.append_sized(row, out, eval),
        }
    }
}

/// A row that is being written.
struct LineWriter<'a> {
    line: &'a mut Vec<u8>,
    /// For a value that may have to be escaped.
    value: &'a mut Vec<u8>,
    eval: &'a EvalContext<'a>,
}

impl CopyFormat {
    fn new(options: &CopyOptions, columns: Vec<CopiedColumn>) -> Arc<CopyFormat> {
        let (options, are_numbers_plain) = (options.clone(), are_numbers_plain(options));
        Arc::new(CopyFormat { options, columns, are_numbers_plain })
    }
    fn append_field(&self, column: &CopiedColumn, value: WrittenValue<'_>, to: &mut LineWriter<'_>) -> Result<()> {
        if value.is_null() {
            to.line.extend_from_slice(self.options.null.as_bytes());
            return Ok(());
        }
        let is_plain = self.are_numbers_plain && !column.csv.is_always_quoted;
        if is_plain && value.append_number(column, to.line, to.eval)? {
            return Ok(());
        }
        let text = match value.text(column) {
            Some(text) => text,
            None => {
                to.value.clear();
                value.append_text(column, to.value, to.eval)?;
                &to.value[..]
            }
        };
        match self.options.format {
            Format::Csv => append_csv(text, &self.options, column.csv, to.line),
            _ => append_text(text, self.options.delimiter, to.line),
        }
    }

    fn append_row<'v>(
        &self,
        values: impl ExactSizeIterator<Item = WrittenValue<'v>>,
        to: &mut LineWriter<'_>,
    ) -> Result<()> {
        if self.options.format == Format::Binary {
            to.line.extend_from_slice(&(values.len() as i16).to_be_bytes());
            for (value, column) in values.zip(&self.columns) {
                value.append_sized(column, to.line, to.eval)?;
            }
        } else {
            for (i, (value, column)) in values.zip(&self.columns).enumerate() {
                if i > 0 {
                    to.line.push(self.options.delimiter);
                }
                self.append_field(column, value, to)?;
            }
            to.line.push(b'\n');
        }
        Ok(())
    }
    fn shown<'v>(&self, vectors: &'v [Vector]) -> Vec<ShownColumn<'v>> {
        let columns = self.columns.iter().zip(vectors);
        columns.map(|(column, vector)| ShownColumn::new(vector, column.type_oid, column.typmod)).collect()
    }
}

/// Writes rows of COPY on any thread.
struct CopyPrinter {
    format: Arc<CopyFormat>,
    /// None: the output has no messages.
    messages: Option<&'static dyn MessageMaker>,
}

impl RowPrinter for CopyPrinter {
    fn print(&self, columns: &[Vector], rows: Rows<'_>, eval: &EvalContext<'_>, out: &mut PrintedRows) -> Result<()> {
        let shown = self.format.shown(columns);
        let (mut line, mut value) = (Vec::new(), Vec::new());
        rows.try_each(|row| {
            let values = shown.iter().map(|column| WrittenValue::Shown(column, row));
            line.clear();
            // Of a row that fails nothing is written.
            self.format.append_row(values, &mut LineWriter { line: &mut line, value: &mut value, eval })?;
            match self.messages {
                Some(messages) => messages.copy_data(&line, &mut out.bytes),
                None => out.bytes.extend_from_slice(&line),
            }
            out.rows += 1;
            out.content_bytes += line.len() as u64;
            Ok(())
        })
    }
}

impl CopySink<'_> {
    fn write_row<'v>(&mut self, values: impl ExactSizeIterator<Item = WrittenValue<'v>>) -> Result<()> {
        let mut to = LineWriter { line: &mut self.line, value: &mut self.value, eval: &self.eval };
        self.format.append_row(values, &mut to)?;
        self.count(1, self.line.len() as u64);
        self.write_line()
    }
    fn write_line(&mut self) -> Result<()> {
        self.output.write(&self.line)?;
        self.line.clear();
        Ok(())
    }
    fn count(&mut self, rows: u64, bytes: u64) {
        self.rows += rows as i64;
        self.bytes += bytes as i64;
        self.progress.set(ROWS, self.rows);
        self.progress.set(BYTES, self.bytes);
    }
}

impl RowSink for CopySink<'_> {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        self.write_row(values.iter().map(WrittenValue::Single))
    }
    fn takes_columns(&self) -> bool {
        true
    }
    fn columns(&mut self, vectors: &[Vector], rows: Rows<'_>) -> Result<()> {
        let shown = self.format.shown(vectors);
        rows.try_each(|row| self.write_row(shown.iter().map(|column| WrittenValue::Shown(column, row))))
    }
    fn printer(&self) -> Option<Arc<dyn RowPrinter>> {
        let are_plain = self.format.columns.iter().all(|column| is_shown_by_settings(column.type_oid));
        let messages = match self.output.made_form() {
            MadeForm::None => return None,
            MadeForm::Bytes => None,
            MadeForm::Messages(messages) => Some(messages),
        };
        are_plain.then(|| Arc::new(CopyPrinter { format: self.format.clone(), messages }) as Arc<dyn RowPrinter>)
    }
    fn printed(&mut self, rows: &PrintedRows) -> Result<()> {
        if rows.rows == 0 {
            return Ok(());
        }
        self.count(rows.rows, rows.content_bytes + self.line.len() as u64);
        if !self.line.is_empty() {
            self.write_line()?;
        }
        self.output.write_made(&rows.bytes)
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
    let format = CopyFormat::new(options, CopiedColumn::all(&plan, options));
    let header = if options.format == Format::Binary { BINARY_HEADER } else { &[] };
    if let Some(name) = s.filename() {
        let mut file = open_output(&session.context, name)?;
        let parts = CopyParts { output: &mut file, format, progress, header };
        let rows = copy_rows(session, &plan, parts, runtime)?;
        file.finish()?;
        return Ok(rows);
    }
    let mut client = client;
    client.copy_out_begin(options.format == Format::Binary, format.columns.len());
    let parts = CopyParts { output: &mut client, format, progress, header };
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
    let format = parts.format.clone();
    let options = &format.options;
    if options.header && options.format != Format::Binary {
        let mut line = Vec::new();
        for (i, column) in format.columns.iter().enumerate() {
            let name = column.name.as_bytes();
            if i > 0 {
                line.push(options.delimiter);
            }
            match options.format {
                Format::Csv => {
                    let plain = CsvColumn { is_always_quoted: false, ..column.csv };
                    append_csv(name, options, plain, &mut line)?;
                }
                _ => append_text(name, options.delimiter, &mut line)?,
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
