//! Rows that a sequential scan reads together: judged by its filter all at once, and handed on as columns or as rows.
//!
//! Of the rows that the filter drops no more columns are decoded than it has looked at. The first rows of a scan are few,
//! because a LIMIT may want no more.
//!
//! Invariants
//! 1. A batch whose filter fails is judged again one row after the other, so that the error is that of the first row; rows
//!    before it are handed on first.
//! 2. A row is handed on once, in the order of the table. A scan is read as rows or as columns, or
//!    first as columns and then as rows.
//!
//! Must not know: what the rows are for.

use super::{RowBytes, ScanProgress, ScanSource};
use crate::columns::ColumnBatch;
use crate::context::*;
use crate::expr::Evaluate;
use crate::vector_program::{ColumnSource, ProgramState};
use kilndb_base::{Error, Oid, Result, RowId};
use kilndb_catalog::Table;
use kilndb_plan::{Scan, ScanOutput};
use kilndb_storage::RowBatch;
use kilndb_types::Datum;
use kilndb_types::row::ColumnFetch;
use kilndb_types::stored_columns::{StoredColumns, StoredRows};
use kilndb_types::vector::{IntegerKind, Rows, Vector, tid_word};

/// Fewer rows are judged one after the other.
const VECTOR_ROWS_MIN: usize = 16;
/// As many bytes of rows are read together at most, and those of one block more.
pub(super) const GATHERED_BYTES_MAX: usize = 1 << 18;

/// How far a column of the gathered rows is known.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Loaded {
    #[default]
    Not,
    /// For some of the rows that are left.
    Partly,
    Wholly,
}

#[derive(Default)]
pub(super) struct GatheredRows {
    columns: StoredColumns,
    is_begun: bool,
    /// By output of the scan.
    vectors: Vec<Vector>,
    loaded: Vec<Loaded>,
    program: ProgramState,
    /// The rows that are left of those gathered, and how many of them have been handed on.
    left: Vec<u32>,
    next: usize,
    /// The rows have not been judged by the filter yet.
    is_unjudged: bool,
    /// What judging the row behind those that are left has raised.
    failure: Option<Error>,
    /// How many rows are wanted together.
    wanted: usize,
}

/// The columns of gathered rows.
struct GatheredColumns<'a> {
    table: &'a Table,
    oid: Oid,
    outputs: &'a [ScanOutput],
    needed: &'a [ColumnFetch],
    rows: &'a RowBatch,
    columns: &'a mut StoredColumns,
    is_begun: &'a mut bool,
    vectors: &'a mut [Vector],
    loaded: &'a mut [Loaded],
}

impl ColumnSource for GatheredColumns<'_> {
    fn load(&mut self, column: usize, rows: Rows<'_>, left: Rows<'_>) -> Result<()> {
        let (Some(vector), Some(loaded)) = (self.vectors.get_mut(column), self.loaded.get_mut(column)) else {
            return Err(Error::internal("a scan without such a column"));
        };
        if *loaded == Loaded::Wholly {
            return Ok(());
        }
        if *loaded == Loaded::Not {
            vector.start(rows.positions());
        }
        *loaded = if rows.len() == left.len() { Loaded::Wholly } else { Loaded::Partly };
        let each = |vector: &mut Vector, value: &dyn Fn(RowId) -> Datum| {
            rows.each(|row| vector.put(row, value(self.rows.rows[row].0)));
            Ok(())
        };
        match self.outputs[column] {
            ScanOutput::Column(stored) => {
                let desc = &self.table.descriptor;
                let batch = StoredRows { bytes: &self.rows.bytes, rows: &self.rows.rows };
                if !std::mem::replace(self.is_begun, true) {
                    self.columns.begin(desc, batch)?;
                }
                self.columns.find(desc, (stored, self.needed), batch, left)?;
                let layout = &desc.columns[stored];
                let missing = &self.table.columns[stored].missing;
                match self.needed.get(stored) {
                    Some(ColumnFetch::Stored) => {
                        self.columns.read_stored((layout, stored), missing, batch, rows, vector)
                    }
                    _ => self.columns.read((layout, stored), missing, batch, rows, vector),
                }
            }
            ScanOutput::Ctid => {
                let places = vector.start_integers(IntegerKind::Tid, rows.positions());
                rows.each(|row| {
                    let rid = self.rows.rows[row].0;
                    places[row] = tid_word(rid.block, rid.slot);
                });
                Ok(())
            }
            ScanOutput::TableOid => each(vector, &|_| Datum::Oid(self.oid)),
            ScanOutput::Fixed(n) => each(vector, &|_| Datum::Oid(n)),
            ScanOutput::Nothing => each(vector, &|_| Datum::Null),
        }
    }
    fn column(&self, column: usize) -> &Vector {
        &self.vectors[column]
    }
}

/// The columns of the rows that `progress` has gathered, apart from what else it has.
macro_rules! gathered_columns {
    ($progress:ident, $gathered:ident, $source:ident) => {{
        let ScanSource { scan, leaf } = $source;
        let (table, oid) = match leaf {
            None => (&scan.table, scan.table.oid),
            Some(leaf) if leaf.is_alike => (&scan.table, leaf.oid),
            Some(leaf) => (&leaf.table, leaf.oid),
        };
        let (outputs, needed) = match &$progress.own {
            None => (&scan.outputs, &scan.needed),
            Some(own) => (&own.outputs, &own.needed),
        };
        GatheredColumns {
            table,
            oid,
            outputs,
            needed,
            rows: &$progress.rows,
            columns: &mut $gathered.columns,
            is_begun: &mut $gathered.is_begun,
            vectors: &mut $gathered.vectors,
            loaded: &mut $gathered.loaded,
        }
    }};
}

impl ScanProgress {
    /// Does the scan read rows that can be gathered?
    pub(super) fn gathers(&self, scan: &Scan) -> bool {
        scan.tests.is_empty() && !scan.table.is_catalog
    }

    /// Reads more rows, none of which have been judged. False: there are no more.
    fn gather(
        &mut self,
        source: ScanSource<'_>,
        gathered: &mut GatheredRows,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        gathered.left.clear();
        gathered.next = 0;
        gathered.is_begun = false;
        gathered.is_unjudged = true;
        gathered.loaded.clear();
        self.rows.clear();
        if self.gathers_found {
            return self.gather_found(source, cx);
        }
        let heap = self.begin_blocks(source, cx)?;
        if self.is_read || self.ends_with_block {
            return Ok(false);
        }
        while self.rows.rows.len() < gathered.wanted.max(1) && self.rows.bytes.len() < GATHERED_BYTES_MAX {
            let block = self.next_block();
            if block >= heap.pages() {
                self.is_read = true;
                break;
            }
            heap.append_block(block, &cx.snapshot, &mut self.rows)?;
            self.block = block + 1;
            if self.block.is_multiple_of(16) {
                cx.park.checkpoint()?;
            }
        }
        self.tally.read += self.rows.rows.len() as u64;
        gathered.wanted = (gathered.wanted.max(16) * 4).min(BATCH_ROWS);
        Ok(!self.rows.rows.is_empty() || !self.is_read)
    }

    /// Finds the rows that meet the filter, all at once. False: they have to be judged one after the other.
    fn judge(
        &mut self,
        source: ScanSource<'_>,
        gathered: &mut GatheredRows,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        let count = self.rows.rows.len();
        if source.scan.filter.is_none() {
            gathered.left.extend(0..count as u32);
            return Ok(true);
        }
        if count < VECTOR_ROWS_MIN {
            return Ok(false);
        }
        let condition = source.scan.program.of(source.scan.filter.as_deref());
        let Some(program) = &condition.program else { return Ok(false) };
        gathered.start_columns(source.scan.outputs.len());
        let mut columns = gathered_columns!(self, gathered, source);
        let list = (program, &mut gathered.left);
        if !gathered.program.filter(list, &mut columns, Rows::All(count), rt, cx)? {
            return Ok(false);
        }
        if let Some(rest) = &condition.rest {
            let found = std::mem::take(&mut gathered.left);
            self.judge_each(source, gathered, (rest, found.iter().copied()), rt, cx);
        }
        rt.removed += (count - gathered.left.len()) as u64;
        Ok(true)
    }

    /// Judges rows one after the other, up to the first failure, which is kept.
    fn judge_each(
        &mut self,
        source: ScanSource<'_>,
        gathered: &mut GatheredRows,
        (condition, rows): (&kilndb_plan::expression::Expression, impl Iterator<Item = u32>),
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) {
        let mut values = Vec::new();
        for row in rows {
            values.clear();
            let (rid, from, to) = self.rows.rows[row as usize];
            let judged = self
                .emit(source, RowBytes::Scanned(from, to), rid, &mut values)
                .and_then(|()| condition.is_true(&values, rt, cx));
            match judged {
                Ok(true) => gathered.left.push(row),
                Ok(false) => {}
                Err(error) => {
                    gathered.failure = Some(error);
                    return;
                }
            }
        }
    }

    /// As [`ScanProgress::seq`], for a scan with a filter whose rows can be gathered.
    pub(super) fn seq_gathered(
        &mut self,
        source: ScanSource<'_>,
        out: &mut Batch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let mut gathered = self.gathered.take().unwrap_or_default();
        let done = self.rows_gathered(source, &mut gathered, out, rt, cx);
        self.gathered = Some(gathered);
        done
    }

    fn rows_gathered(
        &mut self,
        source: ScanSource<'_>,
        gathered: &mut GatheredRows,
        out: &mut Batch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        while !out.full() {
            if let Some(row) = gathered.left.get(gathered.next) {
                gathered.next += 1;
                let (rid, from, to) = self.rows.rows[*row as usize];
                self.emit(source, RowBytes::Scanned(from, to), rid, &mut out.data)?;
                if gathered.is_unjudged {
                    if let Err(error) = Self::keep(source.scan, out, rt, cx) {
                        out.cancel_row();
                        gathered.fail(error);
                    }
                } else {
                    out.end_row();
                }
                continue;
            }
            if let Some(error) = gathered.failure.take() {
                if out.rows == 0 {
                    return Err(error);
                }
                gathered.failure = Some(error);
                return Ok(());
            }
            if !self.gather(source, gathered, cx)? {
                self.done = self.is_read;
                return Ok(());
            }
            gathered.is_unjudged = !self.judge(source, gathered, rt, cx)?;
            if gathered.is_unjudged {
                gathered.left.extend(0..self.rows.rows.len() as u32);
            }
        }
        Ok(())
    }

    /// The next rows as columns, of which only those in `is_used` are there. No row: there are no more.
    pub(super) fn next_columns(
        &mut self,
        source: ScanSource<'_>,
        (out, is_used): (&mut ColumnBatch, &[bool]),
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let mut gathered = self.gathered.take().unwrap_or_default();
        let done = self.columns_gathered(source, &mut gathered, (out, is_used), rt, cx);
        self.gathered = Some(gathered);
        done
    }

    fn columns_gathered(
        &mut self,
        source: ScanSource<'_>,
        gathered: &mut GatheredRows,
        (out, is_used): (&mut ColumnBatch, &[bool]),
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        out.clear();
        loop {
            if let Some(error) = gathered.failure.take() {
                return Err(error);
            }
            gathered.wanted = BATCH_ROWS;
            if !self.gather(source, gathered, cx)? {
                self.done = self.is_read;
                return Ok(());
            }
            if !self.judge(source, gathered, rt, cx)?
                && let Some(condition) = &source.scan.filter
            {
                let count = self.rows.rows.len();
                self.judge_each(source, gathered, (condition, 0..count as u32), rt, cx);
                rt.removed += (count - gathered.left.len()) as u64;
            }
            if !gathered.left.is_empty() {
                break;
            }
        }
        let count = self.rows.rows.len();
        gathered.start_columns(source.scan.outputs.len());
        let rows = Rows::of(&gathered.left, count);
        let mut columns = gathered_columns!(self, gathered, source);
        for (column, _) in is_used.iter().enumerate().filter(|(_, is_used)| **is_used) {
            columns.load(column, rows, rows)?;
        }
        // The vectors change places with those of earlier rows, whose memory is used again.
        std::mem::swap(&mut out.columns, &mut gathered.vectors);
        out.take_rows(&mut gathered.left, count);
        // Whoever goes on with rows begins behind these.
        self.rows.clear();
        self.next = 0;
        Ok(())
    }
}

impl GatheredRows {
    /// No column of the rows is loaded, if they have not had columns before.
    fn start_columns(&mut self, count: usize) {
        self.vectors.resize_with(count, Vector::default);
        self.loaded.resize(count, Loaded::Not);
    }
    /// Keeps a failure, and nothing of the rows behind it.
    fn fail(&mut self, error: Error) {
        self.failure = Some(error);
        self.left.clear();
        self.next = 0;
    }
    pub(super) fn rescan(&mut self) {
        self.left.clear();
        self.next = 0;
        self.failure = None;
        self.wanted = 0;
    }
}
