//! COPY FROM: bytes from the client into rows for the executor's INSERT.

use super::copy_table;
use super::escape::{find, unescape};
use super::file::open_input;
use super::lines::{KeptLines, shown};
use super::marks::{LineMarks, MarkedBytes};
use super::{BYTES, BYTES_TOTAL, CopyOptions, Format, Input, ROWS, copy_columns};
use crate::client::{Client, ProgressSlot, Runtime};
use crate::session::Session;
use crate::session::run::SinkMaker;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_catalog::privileges::privilege;
use kilndb_catalog::{Column, Table};
use kilndb_exec::{Batch, RowSource, SourceRow};
use kilndb_syntax::{Statement, nodes};
use kilndb_types::{Datum, EvalContext, io};
use std::sync::Arc;

/// Rows handed to the executor at once.
const BATCH_ROWS: usize = 1000;

/// Bytes that a line may have: PostgreSQL's limit of an allocation.
const LONGEST_LINE: usize = 0x3fff_ffff;

struct CopySource<'a> {
    input: &'a mut dyn Input,
    options: &'a CopyOptions,
    /// Of each column: a value without quotes is not NULL, whatever it is.
    never_null: Vec<bool>,
    /// Of each column: a value in quotes may be NULL, too.
    null_if_quoted: Vec<bool>,
    table: Arc<Table>,
    columns: Vec<Column>,
    data: Vec<u8>,
    at: usize,
    end_of_data: bool,
    finished: bool,
    line: u64,
    header_seen: bool,
    /// Fields of the line in work: start and end in what [`LineText`] says, None for NULL.
    fields: Vec<Option<(usize, usize)>>,
    text: LineText,
    scratch: Vec<u8>,
    progress: &'a ProgressSlot,
    /// The line in work, once it is known: start and end in `data`.
    current: Option<(usize, usize)>,
    /// The column in work: its place in `columns`.
    converted: Option<(usize, Converted)>,
    concern: Concern,
    lines: KeptLines,
    marked: MarkedBytes,
    marks: LineMarks,
}

/// Where the values of the line in work are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineText {
    /// In the line as they stand: between these places in `data`.
    InPlace(usize, usize),
    /// In `scratch`, without what was written around them.
    Scratch,
}

fn bad_format(message: impl Into<String>) -> Error {
    Error::new(sqlstate::BAD_COPY_FILE_FORMAT, message)
}

/// What an error would be about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Concern {
    Nothing,
    /// The line in work.
    Reading,
    /// A row that the executor has.
    Row(SourceRow),
}

/// What is being converted.
#[derive(Clone, Copy)]
enum Converted {
    Null,
    /// Start and end in the line's text.
    Text(usize, usize),
    Binary,
}

impl CopySource<'_> {
    /// Gets more data; false at the end.
    fn more(&mut self) -> Result<bool> {
        if self.end_of_data {
            return Ok(false);
        }
        if self.at > 0 {
            self.data.drain(..self.at);
            self.at = 0;
        }
        if self.data.len() > LONGEST_LINE {
            return Err(Error::new(
                sqlstate::PROGRAM_LIMIT_EXCEEDED,
                format!("string buffer exceeds maximum allowed length ({LONGEST_LINE} bytes)"),
            ));
        }
        let before = self.data.len();
        if !self.input.read(&mut self.data)? {
            self.end_of_data = true;
            return Ok(false);
        }
        self.progress.add(BYTES, (self.data.len() - before) as i64);
        Ok(true)
    }

    /// Finds the end of the next line: start and end without the line's end; None at the end of data.
    fn next_line(&mut self) -> Result<Option<(usize, usize)>> {
        self.marks.clear();
        loop {
            // A newline that is escaped belongs to the value.
            let end = self.marked.line_end(&self.data[self.at..], &mut self.marks);
            if self.marks.is_special && self.options.format == Format::Csv {
                return self.quoted_line();
            }
            if let Some(length) = end {
                return Ok(Some(self.line_of(length)));
            }
            if !self.more()? {
                return Ok(self.last_line());
            }
        }
    }

    /// The line of so many bytes, without a carriage return at its end.
    fn line_of(&mut self, length: usize) -> (usize, usize) {
        let (start, mut end) = (self.at, self.at + length);
        self.at = end + 1;
        if end > start && self.data[end - 1] == b'\r' {
            end -= 1;
        }
        (start, end)
    }

    /// What is left, if anything is.
    fn last_line(&mut self) -> Option<(usize, usize)> {
        let line = (self.at, self.data.len());
        self.at = self.data.len();
        (line.0 < line.1).then_some(line)
    }

    /// The end of a CSV line with quotes: newlines within them belong to the value.
    fn quoted_line(&mut self) -> Result<Option<(usize, usize)>> {
        let (mut offset, mut quoted) = (0, false);
        let (quote, escape) = (self.options.quote, self.options.escape);
        loop {
            let rest = &self.data[self.at..];
            while let Some(skipped) = find(&rest[offset..], |b| b == quote || b == escape || b == b'\n') {
                offset += skipped;
                let b = rest[offset];
                if b == quote {
                    quoted = !quoted;
                } else if quoted && b == escape {
                    if offset + 1 < rest.len() {
                        offset += 1;
                    } else if !self.end_of_data {
                        // What is escaped has not come yet.
                        break;
                    }
                } else if b == b'\n' && quoted {
                    self.line += 1;
                } else if b == b'\n' {
                    return Ok(Some(self.line_of(offset)));
                }
                offset += 1;
            }
            if rest.get(offset) != Some(&escape) {
                offset = rest.len();
            }
            if !self.more()? {
                if quoted && self.at < self.data.len() {
                    self.current = Some((self.at, self.data.len()));
                    return Err(bad_format("unterminated CSV quoted field"));
                }
                return Ok(self.last_line());
            }
        }
    }

    /// Fields that stand in the line as they are, between its delimiters.
    fn split_plain(&mut self, start: usize, end: usize) {
        self.fields.clear();
        self.text = LineText::InPlace(start, end);
        let line = &self.data[start..end];
        let null = self.options.null.as_bytes();
        let mut from = 0;
        for to in self.marks.delimiters.iter().copied().chain([line.len()]) {
            let is_null = &line[from..to] == null && !self.never_null.get(self.fields.len()).unwrap_or(&false);
            self.fields.push((!is_null).then_some((from, to)));
            from = to + 1;
        }
    }

    fn split_text(&mut self, start: usize, end: usize) {
        self.fields.clear();
        self.scratch.clear();
        self.text = LineText::Scratch;
        let line = &self.data[start..end];
        let (null, delimiter) = (self.options.null.as_bytes(), self.options.delimiter);
        let mut i = 0;
        loop {
            let field_start = self.scratch.len();
            let raw_start = i;
            while let Some(plain) = find(&line[i..], |b| b == delimiter || b == b'\\') {
                self.scratch.extend_from_slice(&line[i..i + plain]);
                i += plain;
                if line[i] == delimiter {
                    break;
                }
                let (value, used) = match &line[i + 1..] {
                    [] => (b'\\', 0),
                    rest => unescape(rest),
                };
                self.scratch.push(value);
                i += 1 + used;
            }
            if line.get(i) != Some(&delimiter) {
                self.scratch.extend_from_slice(&line[i..]);
                i = line.len();
            }
            let is_null = &line[raw_start..i] == null;
            self.fields.push((!is_null).then_some((field_start, self.scratch.len())));
            if i >= line.len() {
                return;
            }
            i += 1;
        }
    }

    fn split_csv(&mut self, start: usize, end: usize) {
        self.fields.clear();
        self.scratch.clear();
        self.text = LineText::Scratch;
        let line = &self.data[start..end];
        let (quote, escape, delimiter) = (self.options.quote, self.options.escape, self.options.delimiter);
        let mut i = 0;
        loop {
            let field_start = self.scratch.len();
            let (mut quoted, mut saw_quote) = (false, false);
            loop {
                let plain = match quoted {
                    true => find(&line[i..], |b| b == quote || b == escape),
                    false => find(&line[i..], |b| b == quote || b == delimiter),
                };
                let special = plain.map_or(line.len(), |plain| i + plain);
                self.scratch.extend_from_slice(&line[i..special]);
                i = special;
                let Some(b) = line.get(i).copied().filter(|b| quoted || *b != delimiter) else { break };
                let next = line.get(i + 1).copied();
                if quoted && b == escape && (next == Some(quote) || next == Some(escape)) {
                    self.scratch.extend(next);
                    i += 2;
                    continue;
                }
                if b == quote {
                    quoted = !quoted;
                    saw_quote = true;
                } else {
                    self.scratch.push(b);
                }
                i += 1;
            }
            let matches_null = &self.scratch[field_start..] == self.options.null.as_bytes();
            let forced = if saw_quote { &self.null_if_quoted } else { &self.never_null };
            let is_null = matches_null && *forced.get(self.fields.len()).unwrap_or(&false) == saw_quote;
            self.fields.push((!is_null).then_some((field_start, self.scratch.len())));
            if i >= line.len() {
                return;
            }
            i += 1;
        }
    }

    /// Appends the next row; false at the end.
    fn line_row(&mut self, out: &mut Batch, eval: &EvalContext<'_>) -> Result<bool> {
        loop {
            self.line += 1;
            self.current = None;
            let Some((start, end)) = self.next_line()? else { return Ok(false) };
            self.current = Some((start, end));
            if &self.data[start..end] == b"\\." {
                self.drain()?;
                return Ok(false);
            }
            match self.options.format {
                _ if !self.marks.is_special => self.split_plain(start, end),
                Format::Csv => self.split_csv(start, end),
                _ => self.split_text(start, end),
            }
            if self.options.header && !self.header_seen {
                self.header_seen = true;
                self.check_header()?;
                continue;
            }
            self.convert_fields(out, eval)?;
            return Ok(true);
        }
    }

    fn drain(&mut self) -> Result<()> {
        while !self.end_of_data {
            self.at = self.data.len();
            self.more()?;
        }
        Ok(())
    }

    fn check_header(&mut self) -> Result<()> {
        if !self.options.header_match {
            return Ok(());
        }
        if self.fields.len() != self.columns.len() {
            let message = format!(
                "wrong number of fields in header line: got {}, expected {}",
                self.fields.len(),
                self.columns.len()
            );
            return Err(bad_format(message));
        }
        for (i, (field, column)) in self.fields.iter().zip(&self.columns).enumerate() {
            let name =
                field.map(|(a, b)| String::from_utf8_lossy(&self.line_text()[a..b]).into_owned()).unwrap_or_default();
            if name != column.name {
                let message = format!(
                    "column name mismatch in header line field {}: got \"{name}\", expected \"{}\"",
                    i + 1,
                    column.name
                );
                return Err(bad_format(message));
            }
        }
        Ok(())
    }

    fn convert_fields(&mut self, out: &mut Batch, eval: &EvalContext<'_>) -> Result<()> {
        // An empty line is a row without columns.
        let is_empty =
            self.columns.is_empty() && matches!(self.fields.as_slice(), [Some((start, end))] if start == end);
        if self.fields.len() > self.columns.len() && !is_empty {
            return Err(bad_format("extra data after last expected column"));
        }
        let bytes = match self.text {
            LineText::InPlace(start, end) => &self.data[start..end],
            LineText::Scratch => &self.scratch,
        };
        // Where the whole line is valid text, so is each value that ends where characters do.
        let has_zeros = self.marks.is_special && bytes.contains(&0);
        let all = std::str::from_utf8(bytes).ok().filter(|_| !has_zeros);
        let values = new_row(out, self.columns.len());
        for ((i, column), to) in self.columns.iter().enumerate().zip(values) {
            let Some(field) = self.fields.get(i) else {
                // An empty line of a table of one column is one empty value; anything else is too short.
                return Err(bad_format(format!("missing data for column \"{}\"", column.name)));
            };
            let Some((start, end)) = *field else {
                self.converted = Some((i, Converted::Null));
                check_null(column, eval)?;
                continue;
            };
            let text = match all.and_then(|all| all.get(start..end)) {
                Some(text) => text,
                None => valid_text(&bytes[start..end])?,
            };
            self.converted = Some((i, Converted::Text(start, end)));
            io::input_into(column.type_oid, text, column.typmod, eval, to)?;
            self.converted = None;
        }
        self.converted = None;
        out.end_row();
        Ok(())
    }

    /// What the places of fields are places in.
    fn line_text(&self) -> &[u8] {
        match self.text {
            LineText::InPlace(start, end) => self.data.get(start..end).unwrap_or(&[]),
            LineText::Scratch => &self.scratch,
        }
    }

    fn need(&mut self, count: usize) -> Result<bool> {
        while self.data.len() - self.at < count {
            if !self.more()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn take(&mut self, count: usize) -> Result<usize> {
        if !self.need(count)? {
            return Err(bad_format("unexpected EOF in COPY data"));
        }
        self.at += count;
        Ok(self.at - count)
    }

    fn take_i32(&mut self) -> Result<i32> {
        if let Some(bytes) = self.data.get(self.at..).and_then(|rest| rest.first_chunk::<4>()) {
            self.at += 4;
            return Ok(i32::from_be_bytes(*bytes));
        }
        let at = self.take(4)?;
        Ok(i32::from_be_bytes([self.data[at], self.data[at + 1], self.data[at + 2], self.data[at + 3]]))
    }

    fn binary_header(&mut self) -> Result<()> {
        let at = self.take(11)?;
        if &self.data[at..at + 11] != b"PGCOPY\n\xff\r\n\0" {
            return Err(bad_format("COPY file signature not recognized"));
        }
        if self.take_i32()? & !0xffff != 0 {
            return Err(bad_format("unrecognized critical flags in COPY file header"));
        }
        let extension = self.take_i32()?;
        let extension =
            usize::try_from(extension).map_err(|_| bad_format("invalid COPY file header (missing length)"))?;
        self.take(extension)?;
        Ok(())
    }

    fn binary_row(&mut self, out: &mut Batch, eval: &EvalContext<'_>) -> Result<bool> {
        if !self.header_seen {
            self.header_seen = true;
            self.binary_header()?;
        }
        self.line += 1;
        if !self.need(2)? {
            return Ok(false);
        }
        let at = self.take(2)?;
        let count = i16::from_be_bytes([self.data[at], self.data[at + 1]]);
        if count == -1 {
            self.drain()?;
            return Ok(false);
        }
        if usize::try_from(count).ok() != Some(self.columns.len()) {
            return Err(bad_format(format!("row field count is {count}, expected {}", self.columns.len())));
        }
        let first = out.data.len();
        new_row(out, self.columns.len());
        for i in 0..self.columns.len() {
            self.converted = Some((i, Converted::Binary));
            let length = self.take_i32()?;
            if length == -1 {
                check_null(&self.columns[i], eval)?;
                continue;
            }
            let length = usize::try_from(length).map_err(|_| bad_format("invalid field size"))?;
            let at = self.take(length)?;
            let column = &self.columns[i];
            let bytes = &self.data[at..at + length];
            io::receive_into(column.type_oid, bytes, column.typmod, eval, &mut out.data[first + i])?;
        }
        self.converted = None;
        out.end_row();
        Ok(true)
    }

    /// A row was made of the line in work.
    fn keep_line(&mut self) {
        let (start, end) = self.current.unwrap_or((0, 0));
        self.lines.push(self.line, self.data.get(start..end).unwrap_or(&[]));
    }

    /// Where an error was met; None: not in a row.
    fn context(&self) -> Option<String> {
        let is_binary = self.options.format == Format::Binary;
        let (line, text) = match self.concern {
            Concern::Nothing => return None,
            Concern::Reading if self.line == 0 => return None,
            Concern::Reading => (self.line, self.current.and_then(|(start, end)| self.data.get(start..end)).map(shown)),
            Concern::Row(row) => {
                let (line, text) = self.lines.get(row.place)?;
                (line, (!row.is_stored && !is_binary).then_some(text))
            }
        };
        let mut context = format!("COPY {}, line {line}", self.table.name);
        match self.converted.filter(|_| self.concern == Concern::Reading) {
            Some((i, converted)) => {
                context.push_str(&format!(", column {}", self.columns[i].name));
                match converted {
                    Converted::Null => context.push_str(": null input"),
                    Converted::Text(start, end) => {
                        let text = self.line_text().get(start..end).unwrap_or(&[]);
                        context.push_str(&format!(": \"{}\"", shown(text)));
                    }
                    Converted::Binary => {}
                }
            }
            None => context.extend(text.map(|text| format!(": \"{text}\""))),
        }
        Some(context)
    }
}

/// The places of an unfinished row's values, all NULL.
fn new_row(out: &mut Batch, columns: usize) -> &mut [Datum] {
    let first = out.data.len();
    out.data.resize_with(first + columns, Datum::default);
    &mut out.data[first..]
}

/// A domain may refuse null.
fn check_null(column: &Column, eval: &EvalContext<'_>) -> Result<()> {
    if column.type_oid >= kilndb_catalog::builtin::FIRST_USER_OID && eval.host.under_domain(column.type_oid).is_some() {
        eval.host.check_domain(column.type_oid, &Datum::Null)?;
    }
    Ok(())
}

/// The text of one value.
fn valid_text(bytes: &[u8]) -> Result<&str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => {
            let shown: Vec<String> =
                bytes.iter().filter(|b| **b >= 0x80 || **b == 0).take(1).map(|b| format!("0x{b:02x}")).collect();
            let message = format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" "));
            Err(Error::new(sqlstate::CHARACTER_NOT_IN_REPERTOIRE, message))
        }
    }
}

impl RowSource for CopySource<'_> {
    fn fill(&mut self, out: &mut Batch, eval: &EvalContext<'_>) -> Result<()> {
        let before = out.rows;
        self.concern = Concern::Reading;
        self.lines.begin_batch();
        // A trigger may do what the next line's evaluation sees.
        let most = if out.max == 1 { 1 } else { BATCH_ROWS };
        while !self.finished && out.rows < most {
            let row = if self.options.format == Format::Binary {
                self.binary_row(out, eval)
            } else {
                self.line_row(out, eval)
            };
            match row {
                Ok(true) => self.keep_line(),
                Ok(false) => self.finished = true,
                Err(e) => {
                    out.cancel_row();
                    return Err(e);
                }
            }
        }
        self.progress.add(ROWS, (out.rows - before) as i64);
        self.concern = Concern::Nothing;
        Ok(())
    }

    fn concerns(&mut self, row: Option<SourceRow>) {
        self.concern = row.map_or(Concern::Nothing, Concern::Row);
        if row.is_none() {
            self.lines.forget();
        }
    }
}

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
    let listed = |list: &[String]| columns.iter().map(|c| list.iter().any(|n| n == "*" || *n == c.name)).collect();
    let (never_null, null_if_quoted) = (listed(&options.force_not_null), listed(&options.force_null));
    let mut source = CopySource {
        input: match &mut file {
            Some(file) => file,
            None => &mut client,
        },
        options,
        never_null,
        null_if_quoted,
        table,
        columns,
        data: Vec::new(),
        at: 0,
        end_of_data: false,
        finished: false,
        line: 0,
        header_seen: false,
        fields: Vec::new(),
        text: LineText::Scratch,
        scratch: Vec::new(),
        progress: &runtime.control().progress,
        current: None,
        converted: None,
        concern: Concern::Nothing,
        lines: KeptLines::default(),
        marked: marked_bytes(options),
        marks: LineMarks::default(),
    };
    source.progress.concerns(source.table.oid);
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

fn marked_bytes(options: &CopyOptions) -> MarkedBytes {
    match options.format {
        Format::Csv => MarkedBytes::of_csv(options.delimiter, options.quote),
        _ => MarkedBytes::of_text(options.delimiter),
    }
}

/// 42501 for a system table.
fn refuse_catalog(table: &Table) -> Result<()> {
    if table.is_catalog {
        return Err(kilndb_context::privileges::permission_denied("table", &table.name));
    }
    Ok(())
}
