//! Grouping and aggregating rows that come as columns.
//!
//! Keys and arguments are computed for a batch of rows at once. Then each aggregate takes in all of the batch's rows
//! ([`GroupTable`](super::groups::GroupTable)).
//!
//! Invariant: nothing is added to a group before all of a batch's keys and arguments have been computed, so that a batch
//! that fails can be taken one row after the other instead.

use super::groups::TakenRows;
use super::{AggregateState, RowScratch, of_set};
use crate::columns::{ColumnInput, row_of};
use crate::context::*;
use crate::key_index::{KeyBatch, NO_NUMBER};
use crate::vector_program::ProgramState;
use kilndb_base::{Error, Oid, Result};
use kilndb_plan::program::{Operand, ValuesProgram};
use kilndb_plan::{AggSpec, Op, PlanNode};
use kilndb_types::Datum;
use kilndb_types::aggregates::GroupedRows;
use kilndb_types::vector::Vector;
use std::sync::Arc;

/// What taking in columns needs beside the groups, and keeps from one batch to the next.
#[derive(Default)]
pub(super) struct ColumnScratch {
    input: ColumnInput,
    program: ProgramState,
    keys: KeyBatch,
    /// By row, the group that was there before the batch.
    numbers: Vec<u32>,
    /// The rows that have found their group.
    found: GroupedRows,
    of_aggregate: AggregateScratch,
}

/// What one aggregate needs for a batch's rows.
#[derive(Default)]
pub(super) struct AggregateScratch {
    /// The rows that FILTER leaves.
    pub filtered: Vec<u32>,
    pub grouped: GroupedRows,
    /// The arguments whose number counts.
    pub keys: KeyBatch,
}

/// What a grouping set is of all grouping columns, and its number.
#[derive(Clone, Copy)]
struct GroupingSet<'a> {
    number: usize,
    columns: &'a [usize],
    /// How many grouping columns there are in all.
    count: usize,
}

/// The values of a batch: those of keys and arguments.
#[derive(Clone, Copy)]
pub(super) struct BatchValues<'a> {
    program: &'a ValuesProgram,
    state: &'a ProgramState,
    columns: &'a [Vector],
}

impl<'a> BatchValues<'a> {
    /// How many results there are.
    pub fn count(&self) -> usize {
        self.program.program.results.len()
    }
    pub fn get(&self, result: usize) -> &'a Vector {
        let at = self.program.program.results.get(result).copied().unwrap_or(Operand::Register(0));
        self.state.result(self.columns, at)
    }
}

impl AggregateState {
    /// The program to take in the input as columns by. None: it has rows, or calls that want one row after the other.
    pub(super) fn column_program<'n>(&self, node: &'n PlanNode) -> Option<&'n ValuesProgram> {
        let Op::Aggregate { input, groups, aggs, program, .. } = &node.op else { return None };
        self.unary.input.has_columns().then(|| program.of(groups, aggs, input.width)).flatten()
    }

    /// The columns of the input that are used, if it is read by several threads; none if it is not taken in as columns.
    pub fn used_columns(&self) -> &[bool] {
        let Op::Aggregate { input, groups, aggs, program, .. } = &self.unary.node.op else { return &[] };
        let may = self.unary.input.may_have_columns();
        let program = may.then(|| program.of(groups, aggs, input.width)).flatten();
        program.map_or(&[], |program| &program.is_used)
    }

    /// Takes in all of the input as columns. False: it cannot.
    pub(super) fn collect_columns(
        &mut self,
        node: &Arc<PlanNode>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        let Some(program) = self.column_program(node) else { return Ok(false) };
        let mut scratch = self.columns.take().unwrap_or_default();
        let done = self.take_columns(node, program, &mut scratch, rt, cx);
        self.columns = Some(scratch);
        done.map(|()| true)
    }

    fn take_columns(
        &mut self,
        node: &Arc<PlanNode>,
        program: &ValuesProgram,
        scratch: &mut ColumnScratch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let (mut rows, mut row) = (RowScratch::default(), Vec::new());
        if matches!(node.op, Op::Aggregate { in_parts: false, .. }) {
            scratch.input.begin_morsels((&mut self.unary.input, node.id), &program.is_used, rt, cx)?;
        }
        while scratch.input.fill(&mut self.unary.input, &program.is_used, rt, cx)? {
            let (columns, left) = scratch.input.batch.parts();
            match scratch.program.run(&program.program, columns, left, rt, cx)? {
                true => self.add_batch(node, program, scratch, cx)?,
                false => left.try_each(|position| {
                    row_of(columns, &program.is_used, position, &mut row)?;
                    self.take_row(&node.op, &row, &mut rows, rt, cx)
                })?,
            }
            self.make_room(cx)?;
        }
        Ok(())
    }

    fn add_batch(
        &mut self,
        node: &Arc<PlanNode>,
        program: &ValuesProgram,
        scratch: &mut ColumnScratch,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let Op::Aggregate { groups, types, sets, aggs, .. } = &node.op else { return Ok(()) };
        let (columns, rows) = scratch.input.batch.parts();
        let values = BatchValues { program, state: &scratch.program, columns };
        if groups.is_empty() && sets.as_ref().is_none_or(|sets| sets.len() == 1) {
            return self.table.add_columns(aggs, TakenRows::OfOne(0, rows), values, &mut scratch.of_aggregate, cx);
        }
        let whole: Vec<usize> = (0..groups.len()).collect();
        let one_set = [whole];
        for (number, columns) in sets.as_deref().unwrap_or(&one_set).iter().enumerate() {
            let set = GroupingSet { number, columns, count: types.len() };
            let of_set: Vec<(&Vector, Oid)> = columns.iter().map(|c| (values.get(*c), types[*c])).collect();
            scratch.keys.clear();
            rows.try_each(|row| scratch.keys.push(Some(number as u16), &of_set, row))?;
            self.table.find(&scratch.keys, &mut scratch.numbers);
            scratch.found.start(rows.positions());
            let mut at = 0;
            rows.try_each(|row| {
                self.rows_taken += 1;
                let known = Some(scratch.numbers[at]).filter(|number| *number != NO_NUMBER);
                let group = match known.or_else(|| self.table.get_of(&scratch.keys, at)) {
                    Some(group) => Some(group),
                    None => self.new_group(aggs, set, row, values, (&scratch.keys, at), cx)?,
                };
                if let Some(group) = group {
                    scratch.found.push(row, group);
                }
                at += 1;
                Ok::<(), Error>(())
            })?;
            scratch.found.list(self.table.len());
            self.table.add_columns(aggs, TakenRows::Grouped(&scratch.found), values, &mut scratch.of_aggregate, cx)?;
        }
        Ok(())
    }

    /// Makes the group of a row, or puts the row into the partition of its key if there is no room for the group.
    fn new_group(
        &mut self,
        aggs: &[AggSpec],
        set: GroupingSet<'_>,
        row: usize,
        values: BatchValues<'_>,
        (keys, at): (&KeyBatch, usize),
        cx: &mut ExecContext<'_>,
    ) -> Result<Option<u32>> {
        let mut short = [0; 16];
        let key = keys.bytes(at, &mut short);
        let all = (0..set.count).map(|c| values.get(c).get(row)).collect::<Result<Vec<Datum>>>()?;
        match self.add_group(aggs, key, set.number, of_set(&all, set.columns), cx)? {
            Some(group) => Ok(Some(group as u32)),
            None => {
                let used = values.columns.iter().zip(&values.program.is_used).filter(|(_, is_used)| **is_used);
                let used = used.map(|(column, _)| column.get(row)).collect::<Result<Vec<Datum>>>()?;
                self.put_off(key, &used, cx).map(|()| None)
            }
        }
    }
}
