//! COPY FROM by several threads: the session cuts the input into pieces of whole rows, any thread makes columns of them, and
//! the session stores these in the order of the input (docs/decisions/0070).
//!
//! Invariants
//! 1. What is stored, and what fails, is what one thread would store, and where it would fail.

use super::Format;
use super::Input;
use super::lines::KeptLines;
use super::read::{BATCH_BYTES, BATCH_ROWS};
use super::reader::{RowLayout, RowReader};
use super::target::FilledColumns;
use kilndb_base::{Error, Result};
use kilndb_exec::{PieceRun, PieceWork, SOURCE_ROWS, SourceContext, Spares};
use kilndb_types::EvalContext;
use kilndb_types::context::is_read_by_settings;
use kilndb_types::vector::Vector;
use std::collections::VecDeque;
use std::sync::Arc;

/// When other threads are asked to take part, and how much each of them is given at a time.
#[derive(Clone, Copy)]
pub(super) struct PieceSizes {
    /// After so many bytes they are asked, and asked again each time when there were none.
    pub alone_bytes: usize,
    /// A piece has about so many bytes: what is made of it fits a processor's cache.
    pub piece_bytes: usize,
}

pub(super) const PIECE_SIZES: PieceSizes = PieceSizes { alone_bytes: 1 << 20, piece_bytes: 256 << 10 };

/// Bytes of whole rows, from `at` on.
struct Piece {
    data: Vec<u8>,
    at: usize,
}

/// Rows that are handed to the executor together.
pub(super) struct ReadBatch {
    pub columns: Vec<Vector>,
    pub rows: usize,
    /// Their lines, counted from the piece's begin.
    pub lines: KeptLines,
}

/// What was made of a piece.
struct ReadPiece {
    batches: Vec<ReadBatch>,
    end: PieceEnd,
}

/// What came behind the rows.
enum PieceEnd {
    /// The piece's end, after so many lines.
    Lines(u64),
    /// The mark that ends the data, and the reader that has come to it.
    Marked(Box<RowReader>),
    /// An error, and the reader that knows where.
    Failed(Error, Box<RowReader>),
}

/// What comes next of an input in pieces.
pub(super) enum NextOfPieces {
    Rows(ReadBatch),
    End,
    /// The input fails with this, behind what no piece has. One thread reads that.
    Alone(Error),
}

/// Makes columns of pieces, on any thread.
struct PieceReader {
    layout: Arc<RowLayout>,
    /// How many columns are wanted.
    width: usize,
    columns: Spares<Vec<Vector>>,
    buffers: Spares<Vec<u8>>,
}

impl PieceWork for PieceReader {
    type Piece = Piece;
    type Made = ReadPiece;
    fn work_on(&self, piece: Piece, eval: &EvalContext<'_>) -> ReadPiece {
        let mut reader = RowReader::of_piece(self.layout.clone(), piece.data, piece.at);
        let mut batches = Vec::new();
        while !reader.is_finished {
            let mut columns = self.columns.take();
            columns.resize_with(self.width, Vector::default);
            columns.iter_mut().for_each(|column| column.start(SOURCE_ROWS));
            let mut lines = KeptLines::default();
            let mut out = FilledColumns { columns: &mut columns, rows: 0 };
            let limits = (BATCH_ROWS, BATCH_BYTES);
            let (rows, done) = reader.read_rows((&mut out, &mut lines), limits, eval, &mut NoInput);
            match rows {
                0 => self.columns.put(columns),
                _ => batches.push(ReadBatch { columns, rows, lines }),
            }
            if let Err(e) = done {
                return ReadPiece { batches, end: PieceEnd::Failed(e, Box::new(reader)) };
            }
        }
        if reader.is_ended {
            return ReadPiece { batches, end: PieceEnd::Marked(Box::new(reader)) };
        }
        // The line that was not there has been counted.
        let end = PieceEnd::Lines(reader.line - 1);
        let mut buffer = reader.data;
        buffer.clear();
        self.buffers.put(buffer);
        ReadPiece { batches, end }
    }
}

/// A piece is all that there is.
struct NoInput;

impl Input for NoInput {
    fn read(&mut self, _: &mut Vec<u8>) -> Result<bool> {
        Ok(false)
    }
}

/// The batches of pieces, in the order of the input.
pub(super) struct PiecesInOrder {
    run: PieceRun<PieceReader>,
    columns: Spares<Vec<Vector>>,
    buffers: Spares<Vec<u8>>,
    piece_bytes: usize,
    /// Batches of the present piece that are still to come, and what is behind them.
    batches: VecDeque<ReadBatch>,
    end: PieceEnd,
    /// Nothing more is cut: the input has ended, or failed.
    is_cut: bool,
    /// What the input ends with.
    failed: Option<Error>,
}

impl PiecesInOrder {
    /// None: nobody helps.
    pub fn begin(
        layout: &Arc<RowLayout>,
        (width, piece_bytes): (usize, usize),
        cx: &SourceContext<'_>,
    ) -> Option<PiecesInOrder> {
        let (columns, buffers) = (Spares::default(), Spares::default());
        let reader = PieceReader { layout: layout.clone(), width, columns: columns.clone(), buffers: buffers.clone() };
        let run = PieceRun::begin(reader, cx)?;
        let (batches, end) = (VecDeque::new(), PieceEnd::Lines(0));
        Some(PiecesInOrder { run, columns, buffers, piece_bytes, batches, end, is_cut: false, failed: None })
    }
    /// Columns whose memory can be used again.
    pub fn give_back(&self, columns: Vec<Vector>) {
        self.columns.put(columns);
    }

    /// `reader` has what no piece has yet, and the number of the last line before the rows' piece; behind an error it is where
    /// that was met.
    pub fn next(
        &mut self,
        reader: &mut RowReader,
        input: &mut dyn Input,
        cx: &SourceContext<'_>,
    ) -> Result<NextOfPieces> {
        while !reader.is_finished {
            if let Some(batch) = self.batches.pop_front() {
                return Ok(NextOfPieces::Rows(batch));
            }
            match std::mem::replace(&mut self.end, PieceEnd::Lines(0)) {
                PieceEnd::Lines(lines) => reader.line += lines,
                PieceEnd::Marked(at) => {
                    reader.go_on_as(*at);
                    // What follows means nothing, but has to be there.
                    self.failed.take().map_or(Ok(()), Err)?;
                    reader.drain(input)?;
                    break;
                }
                PieceEnd::Failed(e, at) => {
                    reader.go_on_as(*at);
                    return Err(e);
                }
            }
            while !self.is_cut && self.run.has_room() {
                self.cut(reader, input, cx)?;
            }
            match self.run.next(cx)? {
                Some(ReadPiece { batches, end }) => (self.batches, self.end) = (batches.into(), end),
                None => match self.failed.take() {
                    Some(failed) => return Ok(NextOfPieces::Alone(failed)),
                    None => reader.is_finished = true,
                },
            }
        }
        Ok(NextOfPieces::End)
    }
    /// Cuts the next piece off and gives it out.
    fn cut(&mut self, reader: &mut RowReader, input: &mut dyn Input, cx: &SourceContext<'_>) -> Result<()> {
        match reader.cut_piece(self.piece_bytes, &self.buffers, input) {
            Ok(piece) => {
                self.is_cut = reader.end_of_data;
                self.run.add(piece, cx)
            }
            // What was read before may fail first.
            Err(e) => {
                self.is_cut = true;
                self.failed = Some(e);
                Ok(())
            }
        }
    }
}

impl RowReader {
    /// Is where the reader of a piece has come to, which reads no more rows.
    fn go_on_as(&mut self, of_piece: RowReader) {
        let (lines, end_of_data) = (self.line, self.end_of_data);
        *self = of_piece;
        self.line += lines;
        (self.end_of_data, self.is_finished) = (end_of_data, true);
    }
    /// The next rows that are whole, of about so many bytes. At the end of the data: all that is left.
    fn cut_piece(&mut self, mut wanted: usize, buffers: &Spares<Vec<u8>>, input: &mut dyn Input) -> Result<Piece> {
        loop {
            let there = &self.data[self.at..];
            if self.end_of_data {
                return Ok(Piece { at: std::mem::take(&mut self.at), data: std::mem::take(&mut self.data) });
            }
            if there.len() >= wanted {
                if let Some(length) = self.layout.whole_rows(there) {
                    let end = self.at + length;
                    let mut rest = buffers.take();
                    rest.extend_from_slice(&self.data[end..]);
                    self.data.truncate(end);
                    let data = std::mem::replace(&mut self.data, rest);
                    return Ok(Piece { data, at: std::mem::take(&mut self.at) });
                }
                // A row is longer: all of it is looked at again once there is twice as much.
                wanted = there.len() * 2;
            }
            self.more(input)?;
        }
    }
}

impl RowLayout {
    /// Can the ends of rows be found without reading them, and values be read on any thread?
    pub fn may_be_cut(&self) -> bool {
        let has_plain_quotes = self.options.format != Format::Csv || self.options.escape == self.options.quote;
        has_plain_quotes && self.columns.iter().all(|column| is_read_by_settings(column.type_oid))
    }
    /// How many of the bytes, which begin with a row, are whole rows; None: not even one is.
    fn whole_rows(&self, data: &[u8]) -> Option<usize> {
        match self.options.format {
            Format::Text => whole_lines(data),
            Format::Csv => whole_records(data, self.options.quote),
            Format::Binary => whole_tuples(data),
        }
    }
}

/// Lines of the text format: their ends are not behind a backslash, unless that is behind one itself.
fn whole_lines(data: &[u8]) -> Option<usize> {
    let mut end = data.len();
    loop {
        let newline = data[..end].iter().rposition(|byte| *byte == b'\n')?;
        let backslashes = data[..newline].iter().rev().take_while(|byte| **byte == b'\\').count();
        if backslashes.is_multiple_of(2) {
            return Some(newline + 1);
        }
        end = newline;
    }
}

/// Records of CSV: before their ends is an even number of quotes.
fn whole_records(data: &[u8], quote: u8) -> Option<usize> {
    let mut quotes = data.iter().filter(|byte| **byte == quote).count();
    for (at, byte) in data.iter().enumerate().rev() {
        if *byte == quote {
            quotes -= 1;
        } else if *byte == b'\n' && quotes.is_multiple_of(2) {
            return Some(at + 1);
        }
    }
    None
}

/// Tuples of the binary format. What is no tuple ends the data, one way or the other, and is for the reader.
fn whole_tuples(data: &[u8]) -> Option<usize> {
    let mut end = None;
    let mut at = 0;
    while let Some(count) = data.get(at..).and_then(|rest| rest.first_chunk()).map(|word| i16::from_be_bytes(*word)) {
        at += 2;
        if count < 0 {
            return Some(data.len());
        }
        for _ in 0..count {
            let Some(length) = data.get(at..).and_then(|rest| rest.first_chunk()) else { return end };
            at += 4;
            match i32::from_be_bytes(*length) {
                -1 => {}
                ..-1 => return Some(data.len()),
                length => at += length as usize,
            }
        }
        if at > data.len() {
            return end;
        }
        end = Some(at);
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_where_no_backslash_escapes_their_end() {
        for (data, whole) in [
            ("", None),
            ("a\tb", None),
            ("a\nb", Some(2)),
            ("a\nb\n", Some(4)),
            ("a\nb\\\nc", Some(2)),
            ("a\nb\\\\\nc", Some(6)),
            ("a\nb\\\\\\\nc", Some(2)),
            ("a\\\n", None),
            ("a\r\nb\r", Some(3)),
        ] {
            assert_eq!(whole_lines(data.as_bytes()), whole, "{data:?}");
        }
    }

    #[test]
    fn records_end_outside_of_quotes() {
        for (data, whole) in [
            ("", None),
            ("a,b", None),
            ("a,b\nc", Some(4)),
            ("\"a\nb\",c", None),
            ("\"a\nb\",c\nd", Some(8)),
            ("a\n\"b\n", Some(2)),
            ("a\n\"b\"\"\n\"\nc\n", Some(11)),
            ("a\n\"b\"\"\nc\n", Some(2)),
        ] {
            assert_eq!(whole_records(data.as_bytes(), b'"'), whole, "{data:?}");
        }
    }

    #[test]
    fn tuples_are_whole_or_not() {
        let tuple = [0, 2, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 3, 7, 8, 9];
        let two = [tuple, tuple].concat();
        for length in 0..=two.len() {
            let whole = Some(length / tuple.len() * tuple.len()).filter(|whole| *whole > 0);
            assert_eq!(whole_tuples(&two[..length]), whole, "{length}");
        }
        // The end, a negative length: whatever follows is with them.
        for rest in [&[0xff, 0xff, 1, 2][..], &[0, 1, 0xff, 0xff, 0xff, 0xf0, 1]] {
            assert_eq!(whole_tuples(&[&tuple, rest].concat()), Some(tuple.len() + rest.len()));
        }
    }
}
