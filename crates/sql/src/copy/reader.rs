//! COPY FROM: bytes into rows.
//!
//! Must not know: where the bytes come from, and which thread this is.

use super::escape::{find, unescape};
use super::lines::{KeptLines, shown};
use super::marks::{LineMarks, MarkedBytes};
use super::target::ReadTarget;
use super::{CopyOptions, Format, Input};
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_types::io::WrittenColumn;
use kilndb_types::{Datum, EvalContext};
use std::sync::Arc;

/// Bytes that a line may have: PostgreSQL's limit of an allocation.
const LONGEST_LINE: usize = 0x3fff_ffff;

/// What the rows are, and how they are written.
pub(super) struct RowLayout {
    pub options: CopyOptions,
    /// Of each column: a value without quotes is not NULL, whatever it is.
    never_null: Vec<bool>,
    /// Of each column: a value in quotes may be NULL, too.
    null_if_quoted: Vec<bool>,
    table: String,
    pub columns: Vec<ReadColumn>,
    marked: MarkedBytes,
}

/// A column that is read.
pub(super) struct ReadColumn {
    pub name: String,
    pub type_oid: Oid,
    pub written: WrittenColumn,
}

impl ReadColumn {
    pub fn new(name: &str, type_oid: Oid, typmod: i32) -> ReadColumn {
        ReadColumn { name: name.to_string(), type_oid, written: WrittenColumn::new(type_oid, typmod) }
    }
}

impl RowLayout {
    /// The columns of a table with this name.
    pub fn new(table: &str, columns: Vec<ReadColumn>, options: &CopyOptions) -> RowLayout {
        let listed = |list: &[String]| columns.iter().map(|c| list.iter().any(|n| n == "*" || *n == c.name)).collect();
        RowLayout {
            options: options.clone(),
            never_null: listed(&options.force_not_null),
            null_if_quoted: listed(&options.force_null),
            table: table.to_string(),
            columns,
            marked: match options.format {
                Format::Csv => MarkedBytes::of_csv(options.delimiter, options.quote),
                _ => MarkedBytes::of_text(options.delimiter),
            },
        }
    }
    /// The beginning of an error's context.
    pub fn line_context(&self, line: u64) -> String {
        format!("COPY {}, line {line}", self.table)
    }
}

/// Makes rows of bytes, and knows where it is in them.
pub(super) struct RowReader {
    pub layout: Arc<RowLayout>,
    /// What there is of the input; what is before `at` has been read.
    pub data: Vec<u8>,
    pub at: usize,
    /// All bytes so far.
    received: usize,
    pub end_of_data: bool,
    /// There are no more rows.
    pub is_finished: bool,
    /// A mark in the data said so.
    pub is_ended: bool,
    /// The line in work, from 1.
    pub line: u64,
    pub header_seen: bool,
    /// Fields of the line in work: start and end in what [`LineText`] says, None for NULL.
    fields: Vec<Option<(usize, usize)>>,
    text: LineText,
    scratch: Vec<u8>,
    /// The line in work, once it is known: start and end in `data`.
    pub current: Option<(usize, usize)>,
    /// The column in work: its place in `columns`.
    pub(super) converted: Option<(usize, Converted)>,
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

pub(super) fn bad_format(message: impl Into<String>) -> Error {
    Error::new(sqlstate::BAD_COPY_FILE_FORMAT, message)
}

/// What is being converted.
#[derive(Clone, Copy)]
pub(super) enum Converted {
    Null,
    /// Start and end in the line's text.
    Text(usize, usize),
    Binary,
}

impl RowReader {
    pub fn new(layout: Arc<RowLayout>) -> RowReader {
        RowReader {
            layout,
            data: Vec::new(),
            at: 0,
            received: 0,
            end_of_data: false,
            is_finished: false,
            is_ended: false,
            line: 0,
            header_seen: false,
            fields: Vec::new(),
            text: LineText::Scratch,
            scratch: Vec::new(),
            current: None,
            converted: None,
            marks: LineMarks::default(),
        }
    }
    /// Reads whole rows, from the middle of the input, which are in `data` from `at` on.
    pub fn of_piece(layout: Arc<RowLayout>, data: Vec<u8>, at: usize) -> RowReader {
        let received = data.len();
        RowReader { data, at, received, end_of_data: true, header_seen: true, ..RowReader::new(layout) }
    }

    /// Reads up to so many rows and about so many bytes. Returns how many, and what has failed behind them.
    pub fn read_rows(
        &mut self,
        (out, lines): (&mut impl ReadTarget, &mut KeptLines),
        (most, most_bytes): (usize, usize),
        eval: &EvalContext<'_>,
        input: &mut dyn Input,
    ) -> (usize, Result<()>) {
        lines.begin_batch();
        let (mut rows, start) = (0, self.consumed());
        while !self.is_finished && rows < most && self.consumed() - start < most_bytes {
            let row = match self.layout.options.format {
                Format::Binary => self.binary_row(out, eval, input),
                _ => self.line_row(out, eval, input),
            };
            match row {
                Ok(true) => {
                    rows += 1;
                    let (start, end) = self.current.unwrap_or((0, 0));
                    lines.push(self.line, self.data.get(start..end).unwrap_or(&[]));
                }
                Ok(false) => self.is_finished = true,
                Err(e) => return (rows, Err(e)),
            }
        }
        (rows, Ok(()))
    }

    /// Where the reading is, as an error tells it; None: nowhere yet.
    pub fn context(&self) -> Option<String> {
        if self.line == 0 {
            return None;
        }
        let mut context = self.layout.line_context(self.line);
        match self.converted {
            Some((i, converted)) => {
                context.push_str(&format!(", column {}", self.layout.columns[i].name));
                match converted {
                    Converted::Null => context.push_str(": null input"),
                    Converted::Text(start, end) => {
                        let text = self.line_text().get(start..end).unwrap_or(&[]);
                        context.push_str(&format!(": \"{}\"", shown(text)));
                    }
                    Converted::Binary => {}
                }
            }
            None => {
                let text = self.current.and_then(|(start, end)| self.data.get(start..end)).map(shown);
                context.extend(text.map(|text| format!(": \"{text}\"")));
            }
        }
        Some(context)
    }
}

impl RowReader {
    /// Gets more data; false at the end.
    pub fn more(&mut self, input: &mut dyn Input) -> Result<bool> {
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
        if !input.read(&mut self.data)? {
            self.end_of_data = true;
            return Ok(false);
        }
        self.received += self.data.len() - before;
        Ok(true)
    }

    /// How many bytes of the input have been read from.
    fn consumed(&self) -> usize {
        self.received - (self.data.len() - self.at)
    }

    /// Finds the end of the next line: start and end without the line's end; None at the end of data.
    fn next_line(&mut self, input: &mut dyn Input) -> Result<Option<(usize, usize)>> {
        self.marks.clear();
        loop {
            // A newline that is escaped belongs to the value.
            let end = self.layout.marked.line_end(&self.data[self.at..], &mut self.marks);
            if self.marks.is_special && self.layout.options.format == Format::Csv {
                return self.quoted_line(input);
            }
            if let Some(length) = end {
                return Ok(Some(self.line_of(length)));
            }
            if !self.more(input)? {
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
    fn quoted_line(&mut self, input: &mut dyn Input) -> Result<Option<(usize, usize)>> {
        let (mut offset, mut quoted) = (0, false);
        let (quote, escape) = (self.layout.options.quote, self.layout.options.escape);
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
            if !self.more(input)? {
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
        let null = self.layout.options.null.as_bytes();
        let mut from = 0;
        for to in self.marks.delimiters.iter().copied().chain([line.len()]) {
            let is_null = &line[from..to] == null && !self.layout.never_null.get(self.fields.len()).unwrap_or(&false);
            self.fields.push((!is_null).then_some((from, to)));
            from = to + 1;
        }
    }

    fn split_text(&mut self, start: usize, end: usize) {
        self.fields.clear();
        self.scratch.clear();
        self.text = LineText::Scratch;
        let line = &self.data[start..end];
        let (null, delimiter) = (self.layout.options.null.as_bytes(), self.layout.options.delimiter);
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
        let (quote, escape, delimiter) =
            (self.layout.options.quote, self.layout.options.escape, self.layout.options.delimiter);
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
            let matches_null = &self.scratch[field_start..] == self.layout.options.null.as_bytes();
            let forced = if saw_quote { &self.layout.null_if_quoted } else { &self.layout.never_null };
            let is_null = matches_null && *forced.get(self.fields.len()).unwrap_or(&false) == saw_quote;
            self.fields.push((!is_null).then_some((field_start, self.scratch.len())));
            if i >= line.len() {
                return;
            }
            i += 1;
        }
    }

    /// Appends the next row; false at the end.
    fn line_row(&mut self, out: &mut impl ReadTarget, eval: &EvalContext<'_>, input: &mut dyn Input) -> Result<bool> {
        loop {
            self.line += 1;
            self.current = None;
            let Some((start, end)) = self.next_line(input)? else { return Ok(false) };
            self.current = Some((start, end));
            if &self.data[start..end] == b"\\." {
                self.end(input)?;
                return Ok(false);
            }
            match self.layout.options.format {
                _ if !self.marks.is_special => self.split_plain(start, end),
                Format::Csv => self.split_csv(start, end),
                _ => self.split_text(start, end),
            }
            if self.layout.options.header && !self.header_seen {
                self.header_seen = true;
                self.check_header()?;
                continue;
            }
            self.convert_fields(out, eval)?;
            return Ok(true);
        }
    }

    /// The data's end was marked: what follows is not read.
    pub fn end(&mut self, input: &mut dyn Input) -> Result<()> {
        self.is_ended = true;
        self.current = None;
        self.drain(input)
    }
    /// Takes what is left of the input.
    pub fn drain(&mut self, input: &mut dyn Input) -> Result<()> {
        while !self.end_of_data {
            self.at = self.data.len();
            self.more(input)?;
        }
        Ok(())
    }

    fn check_header(&mut self) -> Result<()> {
        if !self.layout.options.header_match {
            return Ok(());
        }
        if self.fields.len() != self.layout.columns.len() {
            let message = format!(
                "wrong number of fields in header line: got {}, expected {}",
                self.fields.len(),
                self.layout.columns.len()
            );
            return Err(bad_format(message));
        }
        for (i, (field, column)) in self.fields.iter().zip(&self.layout.columns).enumerate() {
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
            self.layout.columns.is_empty() && matches!(self.fields.as_slice(), [Some((start, end))] if start == end);
        if self.fields.len() > self.layout.columns.len() && !is_empty {
            return Err(bad_format("extra data after last expected column"));
        }
        let bytes = match self.text {
            LineText::InPlace(start, end) => &self.data[start..end],
            LineText::Scratch => &self.scratch,
        };
        // Where the whole line is valid text, so is each value that ends where characters do.
        let has_zeros = self.marks.is_special && bytes.contains(&0);
        let all = std::str::from_utf8(bytes).ok().filter(|_| !has_zeros);
        out.begin_row(self.layout.columns.len());
        for (i, column) in self.layout.columns.iter().enumerate() {
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
            out.put_text(i, &column.written, text, eval)?;
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
}

/// A domain may refuse null.
pub(super) fn check_null(column: &ReadColumn, eval: &EvalContext<'_>) -> Result<()> {
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
