//! COPY FROM: bytes from the client into rows for the executor's INSERT.

use super::escape::{find, unescape};
use super::lines::{KeptLines, shown};
use super::marks::{LineMarks, MarkedBytes};
use super::target::{FilledColumns, ReadTarget};
use super::{BYTES, CopyOptions, Format, Input, ROWS};
use crate::client::ProgressSlot;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_catalog::{Column, Table};
use kilndb_exec::{Batch, RowSource, SOURCE_ROWS, SourceConcern};
use kilndb_types::io::WrittenColumn;
use kilndb_types::vector::Vector;
use kilndb_types::{Datum, EvalContext};
use std::sync::Arc;

/// Rows handed to the executor at once, and bytes of the input that they are read from: a row more may go beyond those. Rows
/// that indexes may refuse are stored as soon as PostgreSQL stores them (CopyMultiInsertInfoIsFull), since which error comes
/// first depends on it.
const BATCH_ROWS: usize = 1000;
const BATCH_BYTES: usize = 1 << 20;
const TEXT_BYTES: usize = 65_535;
const _: () = assert!(BATCH_ROWS <= SOURCE_ROWS);

/// Bytes that a line may have: PostgreSQL's limit of an allocation.
const LONGEST_LINE: usize = 0x3fff_ffff;

pub(super) struct CopySource<'a> {
    input: &'a mut dyn Input,
    options: &'a CopyOptions,
    /// Of each column: a value without quotes is not NULL, whatever it is.
    never_null: Vec<bool>,
    /// Of each column: a value in quotes may be NULL, too.
    null_if_quoted: Vec<bool>,
    table: Arc<Table>,
    columns: Vec<Column>,
    /// By column.
    written: Vec<WrittenColumn>,
    data: Vec<u8>,
    at: usize,
    /// All bytes so far.
    received: usize,
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
    concern: SourceConcern,
    /// What was met behind the rows of the last batch.
    failed: Option<Error>,
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

/// What is being converted.
#[derive(Clone, Copy)]
enum Converted {
    Null,
    /// Start and end in the line's text.
    Text(usize, usize),
    Binary,
}

impl<'a> CopySource<'a> {
    pub fn new(
        (table, columns): (Arc<Table>, Vec<Column>),
        options: &'a CopyOptions,
        input: &'a mut dyn Input,
        progress: &'a ProgressSlot,
    ) -> CopySource<'a> {
        let listed = |list: &[String]| columns.iter().map(|c| list.iter().any(|n| n == "*" || *n == c.name)).collect();
        CopySource {
            input,
            options,
            never_null: listed(&options.force_not_null),
            null_if_quoted: listed(&options.force_null),
            written: columns.iter().map(|c| WrittenColumn::new(c.type_oid, c.typmod)).collect(),
            table,
            columns,
            data: Vec::new(),
            at: 0,
            received: 0,
            end_of_data: false,
            finished: false,
            line: 0,
            header_seen: false,
            fields: Vec::new(),
            text: LineText::Scratch,
            scratch: Vec::new(),
            progress,
            current: None,
            converted: None,
            concern: SourceConcern::Nothing,
            failed: None,
            lines: KeptLines::default(),
            marked: marked_bytes(options),
            marks: LineMarks::default(),
        }
    }
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
        self.received += self.data.len() - before;
        self.progress.add(BYTES, (self.data.len() - before) as i64);
        Ok(true)
    }

    /// How many bytes of the input have been read from.
    fn consumed(&self) -> usize {
        self.received - (self.data.len() - self.at)
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
    fn line_row(&mut self, out: &mut impl ReadTarget, eval: &EvalContext<'_>) -> Result<bool> {
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

    fn convert_fields(&mut self, out: &mut impl ReadTarget, eval: &EvalContext<'_>) -> Result<()> {
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
        out.begin_row(self.columns.len());
        for (i, (column, written)) in self.columns.iter().zip(&self.written).enumerate() {
            let Some(field) = self.fields.get(i) else {
                // An empty line of a table of one column is one empty value; anything else is too short.
                return Err(bad_format(format!("missing data for column \"{}\"", column.name)));
            };
            let Some((start, end)) = *field else {
                self.converted = Some((i, Converted::Null));
                check_null(column, eval)?;
                self.converted = None;
                out.put_null(i);
                continue;
            };
            let text = match all.and_then(|all| all.get(start..end)) {
                Some(text) => text,
                None => valid_text(&bytes[start..end])?,
            };
            self.converted = Some((i, Converted::Text(start, end)));
            out.put_text(i, written, text, eval)?;
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

    fn binary_row(&mut self, out: &mut impl ReadTarget, eval: &EvalContext<'_>) -> Result<bool> {
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
        out.begin_row(self.columns.len());
        for i in 0..self.columns.len() {
            self.converted = Some((i, Converted::Binary));
            let length = self.take_i32()?;
            if length == -1 {
                check_null(&self.columns[i], eval)?;
                out.put_null(i);
                continue;
            }
            let length = usize::try_from(length).map_err(|_| bad_format("invalid field size"))?;
            let at = self.take(length)?;
            out.put_message(i, &self.written[i], &self.data[at..at + length], eval)?;
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
    pub fn context(&self) -> Option<String> {
        let is_binary = self.options.format == Format::Binary;
        let (line, text) = match self.concern {
            SourceConcern::Nothing => return None,
            SourceConcern::Reading if self.line == 0 => return None,
            SourceConcern::Reading => {
                (self.line, self.current.and_then(|(start, end)| self.data.get(start..end)).map(shown))
            }
            SourceConcern::Row(row) => {
                let (line, text) = self.lines.get(row.place)?;
                (line, (!row.is_stored && !is_binary).then_some(text))
            }
        };
        let mut context = format!("COPY {}, line {line}", self.table.name);
        match self.converted.filter(|_| self.concern == SourceConcern::Reading) {
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

impl CopySource<'_> {
    /// Reads up to so many rows and about so many bytes. Returns how many, and what has failed behind them.
    fn read_rows(
        &mut self,
        out: &mut impl ReadTarget,
        (most, most_bytes): (usize, usize),
        eval: &EvalContext<'_>,
    ) -> (usize, Result<()>) {
        self.concern = SourceConcern::Reading;
        self.lines.begin_batch();
        let (mut rows, mut done) = (0, Ok(()));
        let start = self.consumed();
        while !self.finished && rows < most && self.consumed() - start < most_bytes {
            let row = match self.options.format {
                Format::Binary => self.binary_row(out, eval),
                _ => self.line_row(out, eval),
            };
            match row {
                Ok(true) => {
                    rows += 1;
                    self.keep_line();
                }
                Ok(false) => self.finished = true,
                Err(e) => {
                    done = Err(e);
                    break;
                }
            }
        }
        self.progress.add(ROWS, rows as i64);
        (rows, done)
    }
}

impl RowSource for CopySource<'_> {
    fn fill(&mut self, out: &mut Batch, eval: &EvalContext<'_>) -> Result<()> {
        // A trigger may do what the next line's evaluation sees.
        let most = if out.max == 1 { 1 } else { BATCH_ROWS.saturating_sub(out.rows) };
        let most_bytes = if self.options.format == Format::Binary { BATCH_BYTES } else { TEXT_BYTES };
        let (_, done) = self.read_rows(out, (most, most_bytes), eval);
        if done.is_err() {
            out.cancel_row();
            return done;
        }
        self.concern = SourceConcern::Nothing;
        Ok(())
    }

    fn fill_columns(&mut self, columns: &mut [Vector], eval: &EvalContext<'_>) -> Result<usize> {
        if let Some(failed) = self.failed.take() {
            self.concern = SourceConcern::Reading;
            return Err(failed);
        }
        let mut out = FilledColumns { columns, rows: 0 };
        let (rows, done) = self.read_rows(&mut out, (BATCH_ROWS, BATCH_BYTES), eval);
        match done {
            Err(e) if rows == 0 => return Err(e),
            Err(e) => self.failed = Some(e),
            Ok(()) => {}
        }
        self.concern = SourceConcern::Nothing;
        Ok(rows)
    }

    fn concerns(&mut self, what: SourceConcern) {
        self.concern = what;
        if what == SourceConcern::Nothing {
            self.lines.forget();
        }
    }
}

fn marked_bytes(options: &CopyOptions) -> MarkedBytes {
    match options.format {
        Format::Csv => MarkedBytes::of_csv(options.delimiter, options.quote),
        _ => MarkedBytes::of_text(options.delimiter),
    }
}
