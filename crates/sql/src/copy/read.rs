//! COPY FROM: bytes from the client into rows for the executor's INSERT.

use super::lines::KeptLines;
use super::pieces::{NextOfPieces, PIECE_SIZES, PieceSizes, PiecesInOrder, ReadBatch};
use super::reader::{ReadColumn, RowLayout, RowReader};
use super::target::FilledColumns;
use super::{BYTES, CopyOptions, Format, Input, ROWS};
use crate::client::ProgressSlot;
use kilndb_base::{Error, Result};
use kilndb_catalog::{Column, Table};
use kilndb_exec::{Batch, RowSource, SOURCE_ROWS, SourceConcern, SourceContext};
use kilndb_types::EvalContext;
use kilndb_types::vector::Vector;
use std::sync::Arc;

/// Rows handed to the executor at once, and bytes of the input that they are read from: a row more may go beyond those. Rows
/// that indexes may refuse are stored as soon as PostgreSQL stores them (CopyMultiInsertInfoIsFull), since which error comes
/// first depends on it.
pub(super) const BATCH_ROWS: usize = 1000;
pub(super) const BATCH_BYTES: usize = 1 << 20;
const TEXT_BYTES: usize = 65_535;
const _: () = assert!(BATCH_ROWS <= SOURCE_ROWS);

pub(super) struct CopySource<'a> {
    input: CountedInput<'a>,
    reader: RowReader,
    progress: &'a ProgressSlot,
    concern: SourceConcern,
    /// What was met behind the rows of the last batch.
    failed: Option<Error>,
    lines: KeptLines,
    /// Several threads read: then `reader` has the bytes and lines that none of them has been given.
    pieces: Option<PiecesInOrder>,
    sizes: PieceSizes,
    /// Other threads are asked after so many bytes.
    asked_at: usize,
}

/// The input, whose bytes are counted.
struct CountedInput<'a> {
    input: &'a mut dyn Input,
    progress: &'a ProgressSlot,
    received: usize,
    /// What the next reading ends with.
    failed: Option<Error>,
}

impl Input for CountedInput<'_> {
    fn read(&mut self, data: &mut Vec<u8>) -> Result<bool> {
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        let before = data.len();
        let is_more = self.input.read(data)?;
        self.received += data.len() - before;
        self.progress.add(BYTES, (data.len() - before) as i64);
        Ok(is_more)
    }
}

impl<'a> CopySource<'a> {
    pub fn new(
        (table, columns): (&Table, &[Column]),
        options: &CopyOptions,
        input: &'a mut dyn Input,
        progress: &'a ProgressSlot,
    ) -> CopySource<'a> {
        let columns = columns.iter().map(|column| ReadColumn::new(&column.name, column.type_oid, column.typmod));
        CopySource::of(RowLayout::new(&table.name, columns.collect(), options), input, progress)
    }
    fn of(layout: RowLayout, input: &'a mut dyn Input, progress: &'a ProgressSlot) -> CopySource<'a> {
        let layout = Arc::new(layout);
        let sizes = PIECE_SIZES;
        let asked_at = if layout.may_be_cut() { sizes.alone_bytes } else { usize::MAX };
        CopySource {
            input: CountedInput { input, progress, received: 0, failed: None },
            reader: RowReader::new(layout),
            progress,
            concern: SourceConcern::Nothing,
            failed: None,
            lines: KeptLines::default(),
            pieces: None,
            sizes,
            asked_at,
        }
    }

    /// Where an error was met; None: not in a row.
    pub fn context(&self) -> Option<String> {
        match self.concern {
            SourceConcern::Nothing => None,
            SourceConcern::Reading => self.reader.context(),
            SourceConcern::Row(row) => {
                let (line, text) = self.lines.get(row.place)?;
                let mut context = self.reader.layout.line_context(line);
                if !row.is_stored && self.reader.layout.options.format != Format::Binary {
                    context.push_str(&format!(": \"{text}\""));
                }
                Some(context)
            }
        }
    }

    /// Asks other threads, if there is much to read, to take part.
    fn ask_others(&mut self, width: usize, cx: &SourceContext<'_>) {
        if self.pieces.is_none() && self.input.received >= self.asked_at && !self.reader.is_finished {
            self.asked_at = self.input.received + self.sizes.alone_bytes;
            self.pieces = PiecesInOrder::begin(&self.reader.layout, (width, self.sizes.piece_bytes), cx);
        }
    }

    fn hand_on(&mut self, batch: ReadBatch, columns: &mut [Vector]) -> usize {
        let ReadBatch { columns: mut read, rows, lines } = batch;
        columns.iter_mut().zip(&mut read).for_each(|(column, read)| std::mem::swap(column, read));
        if let Some(pieces) = &self.pieces {
            pieces.give_back(read);
        }
        self.lines.begin_batch();
        self.lines.append(&lines, self.reader.line);
        rows
    }

    fn read_alone(&mut self, columns: &mut [Vector], cx: &SourceContext<'_>) -> Result<usize> {
        let mut out = FilledColumns { columns, rows: 0 };
        // Others are asked between two batches.
        let limits = (BATCH_ROWS, BATCH_BYTES.min(self.sizes.alone_bytes));
        let to = (&mut out, &mut self.lines);
        let (rows, done) = self.reader.read_rows(to, limits, cx.eval, &mut self.input);
        match done {
            Err(e) if rows == 0 => return Err(e),
            Err(e) => self.failed = Some(e),
            Ok(()) => {}
        }
        Ok(rows)
    }
}

impl RowSource for CopySource<'_> {
    fn fill(&mut self, out: &mut Batch, eval: &EvalContext<'_>) -> Result<()> {
        if self.pieces.is_some() {
            return Err(Error::internal("rows are asked of COPY behind columns"));
        }
        // A trigger may do what the next line's evaluation sees.
        let most = if out.max == 1 { 1 } else { BATCH_ROWS.saturating_sub(out.rows) };
        let is_binary = self.reader.layout.options.format == Format::Binary;
        let most_bytes = if is_binary { BATCH_BYTES } else { TEXT_BYTES };
        self.concern = SourceConcern::Reading;
        let to = (&mut *out, &mut self.lines);
        let (rows, done) = self.reader.read_rows(to, (most, most_bytes), eval, &mut self.input);
        self.progress.add(ROWS, rows as i64);
        if done.is_err() {
            out.cancel_row();
            return done;
        }
        self.concern = SourceConcern::Nothing;
        Ok(())
    }

    fn fill_columns(&mut self, columns: &mut [Vector], cx: &SourceContext<'_>) -> Result<usize> {
        self.concern = SourceConcern::Reading;
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        self.ask_others(columns.len(), cx);
        let pieces = self.pieces.as_mut();
        let next = pieces.map(|pieces| pieces.next(&mut self.reader, &mut self.input, cx)).transpose()?;
        let rows = match next {
            Some(NextOfPieces::Rows(batch)) => self.hand_on(batch, columns),
            Some(NextOfPieces::End) => 0,
            Some(NextOfPieces::Alone(failed)) => {
                (self.pieces, self.asked_at, self.input.failed) = (None, usize::MAX, Some(failed));
                self.read_alone(columns, cx)?
            }
            None => self.read_alone(columns, cx)?,
        };
        self.progress.add(ROWS, rows as i64);
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

#[cfg(test)]
mod tests {
    use super::*;
    use kilndb_base::env::OsEnv;
    use kilndb_base::park::ThreadPark;
    use kilndb_exec::RowPlace;
    use kilndb_exec::helpers::HelperPool;
    use kilndb_types::context::NoHost;
    use kilndb_types::oids::{INT4, TEXT};
    use kilndb_types::{Datum, FormatSettings};
    use std::cell::Cell;

    /// Data that comes in messages, of which the last may be an error.
    struct Messages {
        data: Vec<u8>,
        at: usize,
        message_bytes: usize,
        fails: bool,
    }
    impl Input for Messages {
        fn read(&mut self, data: &mut Vec<u8>) -> Result<bool> {
            let end = self.data.len().min(self.at + self.message_bytes);
            data.extend_from_slice(&self.data[self.at..end]);
            let is_more = end > self.at;
            self.at = end;
            if self.fails && !is_more { Err(Error::internal("COPY from stdin failed")) } else { Ok(is_more) }
        }
    }

    /// All rows with their lines, and what they end with; and whether pieces of the input were given out.
    fn read(
        mut input: Messages,
        options: &CopyOptions,
        helpers: Option<(&Arc<HelperPool>, usize)>,
    ) -> (Vec<String>, bool) {
        let (format, park, random_state) = (FormatSettings::default(), ThreadPark::new(), Cell::new([1, 2]));
        let eval = EvalContext {
            format: &format,
            transaction_timestamp: 0,
            statement_timestamp: 0,
            host: &NoHost,
            random_state: &random_state,
            clock_was_read: None,
        };
        let cx = SourceContext { eval: &eval, park: &park, helpers };
        let (progress, columns) = (ProgressSlot::default(), [("a", INT4), ("b", TEXT)]);
        let columns = columns.map(|(name, oid)| ReadColumn::new(name, oid, -1)).into_iter().collect();
        let mut source = CopySource::of(RowLayout::new("t", columns, options), &mut input, &progress);
        (source.sizes, source.asked_at) = (PieceSizes { alone_bytes: 100, piece_bytes: 300 }, 100);
        let mut columns = vec![Vector::default(), Vector::default()];
        let mut read = Vec::new();
        loop {
            columns.iter_mut().for_each(|column| column.start(SOURCE_ROWS));
            match source.fill_columns(&mut columns, &cx) {
                Ok(0) => read.push(format!("the end, {} bytes", source.input.received)),
                Ok(rows) => {
                    for row in 0..rows {
                        let values: Vec<Datum> = columns.iter().map(|column| column.get(row).unwrap()).collect();
                        let line = source.lines.get(RowPlace::OfBatch(row));
                        let by_number = source.lines.get(RowPlace::Number(read.len() as u64));
                        assert_eq!(line, by_number);
                        read.push(format!("{values:?} of {line:?}"));
                    }
                    if read.len() % 3 == 0 {
                        source.concerns(SourceConcern::Nothing);
                    }
                    continue;
                }
                Err(e) => read.push(format!("{} {:?}", e.0.message, source.context())),
            }
            let is_cut = source.pieces.is_some();
            return (read, is_cut);
        }
    }

    fn options(format: Format) -> CopyOptions {
        let (delimiter, null) = if format == Format::Csv { (b',', "") } else { (b'\t', "\\N") };
        CopyOptions {
            format,
            delimiter,
            null: null.to_string(),
            header: false,
            header_match: false,
            quote: b'"',
            escape: b'"',
            force_quote: Vec::new(),
            force_not_null: Vec::new(),
            force_null: Vec::new(),
        }
    }

    struct Draws(u64);
    impl Draws {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) as usize % n
        }
        fn of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
            texts[self.below(texts.len())]
        }
    }

    /// Rows as they may come, now and then one that may not.
    fn data(format: Format, draws: &mut Draws) -> Vec<u8> {
        let mut data = Vec::new();
        if format == Format::Binary {
            data.extend_from_slice(b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0");
        }
        let (rows, rare) = (draws.below(400), if draws.below(2) == 0 { 1000 } else { usize::MAX });
        for row in 0..rows {
            let is_odd = draws.below(rare) == 0;
            match format {
                Format::Binary => {
                    let text = "x".repeat(draws.below(40));
                    data.extend_from_slice(&2i16.to_be_bytes());
                    data.extend_from_slice(&if is_odd { draws.below(9) as i32 - 4 } else { 4 }.to_be_bytes());
                    data.extend_from_slice(&(row as i32).to_be_bytes());
                    data.extend_from_slice(&(text.len() as i32).to_be_bytes());
                    data.extend_from_slice(text.as_bytes());
                }
                _ => {
                    let number = if is_odd {
                        draws.of(&["x", "\\.\n", "1\t2", "\"", "1\n"]).to_string()
                    } else {
                        row.to_string()
                    };
                    let delimiter = if format == Format::Csv { "," } else { "\t" };
                    let csv = ["plain", "\"two\nlines\"", "\"\"\"\"", "\"a,\r\nb\"", "", "\"\"", "w\"or\"d"];
                    let text = ["plain", "two\\\nlines", "\\\\", "a\\tb", "\\N", "", "\\\\\\\n"];
                    let value = draws.of(if format == Format::Csv { &csv } else { &text });
                    let end = draws.of(&["\n", "\r\n", "\n"]);
                    data.extend_from_slice(format!("{number}{delimiter}{value}{end}").as_bytes());
                }
            }
        }
        match draws.below(4) {
            0 if format == Format::Binary => data.extend_from_slice(&[0xff, 0xff, 1, 2, 3]),
            0 => data.extend_from_slice(b"\\.\nmore\n"),
            1 => data.truncate(data.len() - data.len().min(3)),
            _ => {}
        }
        data
    }

    #[test]
    fn several_threads_read_what_one_reads() {
        let mut draws = Draws(18);
        let (mut failed, mut cut) = (0, 0);
        for n in 0..600 {
            let format = [Format::Text, Format::Csv, Format::Binary][n % 3];
            let data = data(format, &mut draws);
            let (message_bytes, fails) = (1 + draws.below(700), draws.below(8) == 0);
            let messages = || Messages { data: data.clone(), at: 0, message_bytes, fails };
            let (alone, _) = read(messages(), &options(format), None);
            // Helpers of the run before may not have ended yet.
            let pool = Arc::new(HelperPool::new(Arc::new(OsEnv), 3));
            let (together, is_cut) = read(messages(), &options(format), Some((&pool, 2)));
            assert_eq!(alone, together, "{n} {format:?}");
            cut += usize::from(is_cut);
            failed += usize::from(!alone.last().is_some_and(|last| last.starts_with("the end")));
        }
        assert!((60..400).contains(&failed), "{failed} of 600 fail");
        assert!(cut > 300, "{cut} of 600 are cut");
    }
}
