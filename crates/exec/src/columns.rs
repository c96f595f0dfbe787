//! Rows as columns, between operators.

use super::context::{Batch, ExecContext, RunState};
use super::morsels::{BatchMorsels, RowsBatch};
use super::state::NodeState;
use kilndb_base::{Error, Result};
use kilndb_spill::row_bytes;
use kilndb_types::Datum;
use kilndb_types::vector::{Rows, Vector, VectorValues};

/// Columns are not worth while for fewer rows.
pub(crate) const COLUMNS_ROWS_MIN: f64 = 64.0;

/// Some rows, each column of them in a vector.
#[derive(Default)]
pub(crate) struct ColumnBatch {
    /// Only the columns that were asked for have values.
    pub columns: Vec<Vector>,
    positions: usize,
    /// The positions that have rows, unless all have.
    list: Vec<u32>,
}

/// An operator's input as columns, whether it has them or rows.
#[derive(Default)]
pub(crate) struct ColumnInput {
    pub batch: ColumnBatch,
    rows: Batch,
    /// Several threads read it: batches of the present morsel, and those to come.
    morsels: Option<BatchMorsels<ColumnBatch>>,
}

impl ColumnInput {
    /// Reads the input together with helpers, if there are some and its plan allows, for the node with the number `consumer`. To
    /// be called before the first row.
    pub fn begin_morsels(
        &mut self,
        (node, consumer): (&mut NodeState, usize),
        is_used: &[bool],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let wanted = is_used.to_vec();
        let fill = move |node: &mut NodeState, batch: &mut ColumnBatch, rt: &mut RunState, cx: &mut ExecContext<'_>| {
            let mut input = ColumnInput::of_batch(batch);
            let is_filled = input.fill(node, &wanted, rt, cx);
            *batch = input.batch;
            is_filled
        };
        self.morsels = BatchMorsels::begin((node, is_used, consumer), fill, rt, cx)?;
        Ok(())
    }
    /// As [`ColumnInput::begin_morsels`]; `fill` puts few of the next rows into a batch, in place of what was in it. False: there
    /// are no more.
    pub fn begin_morsels_of_few(
        &mut self,
        (node, consumer): (&mut NodeState, usize),
        is_used: &[bool],
        fill: impl Fn(&mut NodeState, &mut ColumnBatch, &mut RunState, &mut ExecContext<'_>) -> Result<bool>
        + Send
        + Sync
        + 'static,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        self.morsels = BatchMorsels::begin_of_few((node, is_used, consumer), fill, rt, cx)?;
        Ok(())
    }
    pub fn is_in_morsels(&self) -> bool {
        self.morsels.is_some()
    }
    /// An input that puts its rows into a batch, which is taken.
    pub fn of_batch(batch: &mut ColumnBatch) -> ColumnInput {
        ColumnInput { batch: std::mem::take(batch), ..ColumnInput::default() }
    }
    /// The next rows, of whose columns only those in `is_used` are there. False: there are no more.
    pub fn fill(
        &mut self,
        node: &mut NodeState,
        is_used: &[bool],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        if let Some(morsels) = &mut self.morsels {
            return morsels.next(&mut self.batch, node, rt, cx);
        }
        if node.has_columns() {
            return node.fill_columns((&mut self.batch, is_used), rt, cx);
        }
        self.rows.start(is_used.len());
        let is_filled = node.fill(&mut self.rows, rt, cx)?;
        self.batch.take_values(&mut self.rows, is_used);
        Ok(is_filled)
    }
}

/// An operator's input as rows, which several threads read if they can.
#[derive(Default)]
pub(crate) struct RowInput {
    is_begun: bool,
    columns: ColumnBatch,
    morsels: Option<BatchMorsels<Batch>>,
}

impl RowInput {
    /// The next rows of all of the input, at most `max` where one thread reads it, for the node with the number `consumer`. False:
    /// there are no more, and none are in `rows`.
    pub fn fill(
        &mut self,
        (rows, max): (&mut Batch, usize),
        (node, consumer): (&mut NodeState, usize),
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        if !std::mem::replace(&mut self.is_begun, true) {
            let width = rows.width;
            let fill = move |node: &mut NodeState, rows: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>| {
                rows.start(width);
                fill_rows(node, (rows, &mut ColumnBatch::default()), rt, cx)
            };
            self.morsels = BatchMorsels::begin((node, &vec![true; width], consumer), fill, rt, cx)?;
        }
        if let Some(morsels) = &mut self.morsels {
            let is_filled = morsels.next(rows, node, rt, cx)?;
            if !is_filled {
                rows.clear();
            }
            return Ok(is_filled);
        }
        rows.max = max;
        fill_rows(node, (rows, &mut self.columns), rt, cx)
    }
}

/// As [`NodeState::fill`], of a node that may be a join which has begun to hand on columns.
pub(crate) fn fill_rows(
    node: &mut NodeState,
    (rows, columns): (&mut Batch, &mut ColumnBatch),
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<bool> {
    let NodeState::HashJoin(join) = node else { return node.fill(rows, rt, cx) };
    if !join.has_begun_columns() {
        return node.fill(rows, rt, cx);
    }
    rows.clear();
    if !node.fill_columns((columns, &vec![true; rows.width]), rt, cx)? {
        return Ok(false);
    }
    let (columns, list) = columns.parts();
    list.try_each(|row| {
        for column in &*columns {
            rows.data.push(column.get(row)?);
        }
        rows.end_row();
        Ok::<(), Error>(())
    })?;
    Ok(true)
}

impl RowsBatch for ColumnBatch {
    fn bytes(&self) -> usize {
        self.columns.iter().map(|column| column.heap_bytes() + pointed_bytes(column, usize::MAX)).sum()
    }
}

impl RowsBatch for Batch {
    fn bytes(&self) -> usize {
        row_bytes(&self.data)
    }
}

/// What the last values of a column point to, in bytes.
pub(crate) fn pointed_bytes(column: &Vector, count: usize) -> usize {
    match &column.values {
        VectorValues::Datums(values) => {
            let last = &values[values.len() - count.min(values.len())..];
            row_bytes(last).saturating_sub(size_of_val(last))
        }
        _ => 0,
    }
}

/// The used columns of a row as values, NULL for the others.
pub(crate) fn row_of(columns: &[Vector], is_used: &[bool], position: usize, row: &mut Vec<Datum>) -> Result<()> {
    row.clear();
    for (column, is_used) in columns.iter().zip(is_used) {
        row.push(if *is_used { column.get(position)? } else { Datum::Null });
    }
    Ok(())
}

impl ColumnBatch {
    /// Has the rows of a batch, of whose columns only those in `is_used` are there. Their values are taken out of it.
    pub fn take_values(&mut self, rows: &mut Batch, is_used: &[bool]) {
        self.start(rows.rows, is_used.len());
        for row in 0..rows.rows {
            let values = rows.data[row * rows.width..].iter_mut();
            for ((value, vector), is_used) in values.zip(&mut self.columns).zip(is_used) {
                if *is_used {
                    vector.put(row, std::mem::take(value));
                }
            }
        }
    }
    /// Has so many rows, at all positions, whose values are still to be written.
    pub fn start(&mut self, rows: usize, columns: usize) {
        self.columns.resize_with(columns, Vector::default);
        self.columns.iter_mut().for_each(|vector| vector.start(rows));
        self.positions = rows;
        self.list.clear();
        self.list.extend(0..rows as u32);
    }
    /// Has the first rows only.
    pub fn truncate(&mut self, rows: usize) {
        self.list.truncate(rows);
    }
    pub fn clear(&mut self) {
        self.positions = 0;
        self.list.clear();
    }
    /// Has the rows of a list, whose memory changes hands, of so many positions.
    pub fn take_rows(&mut self, list: &mut Vec<u32>, positions: usize) {
        self.positions = positions;
        std::mem::swap(&mut self.list, list);
    }
    /// The columns, and which rows they have.
    pub fn parts(&mut self) -> (&mut [Vector], Rows<'_>) {
        (&mut self.columns, Rows::of(&self.list, self.positions))
    }
    pub fn rows(&self) -> Rows<'_> {
        Rows::of(&self.list, self.positions)
    }
    /// The positions that have rows.
    pub fn list(&self) -> &[u32] {
        &self.list
    }
}
