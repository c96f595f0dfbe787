//! Grouping and aggregating rows that come as columns.
//!
//! Keys and arguments are computed for a batch of rows at once. Then the rows of each group are given to its aggregates
//! together, if there are few groups in the batch, else one after the other.
//!
//! Invariant: nothing is added to a group before all of a batch's keys and arguments have been computed, so that a batch
//! that fails can be taken one row after the other instead.

use super::{AggregateState, COUNT_STAR, GroupAggregate, RowScratch, of_set};
use crate::columns::{ColumnBatch, row_of};
use crate::context::*;
use crate::key_index::{KeyBatch, NO_NUMBER};
use crate::vector_program::ProgramState;
use kilndb_base::{Error, Oid, Result};
use kilndb_plan::node::COUNT_ANY;
use kilndb_plan::program::{ValuesProgram, VectorOperand};
use kilndb_plan::{AggSpec, Op, PlanNode};
use kilndb_types::Datum;
use kilndb_types::vector::{Rows, Vector};
use std::sync::Arc;

/// Rows of a group that are fewer than this are not listed for it.
const LISTED_ROWS_MIN: usize = 4;

/// What taking in columns needs beside the groups, and keeps from one batch to the next.
#[derive(Default)]
pub(super) struct ColumnScratch {
    batch: ColumnBatch,
    program: ProgramState,
    keys: KeyBatch,
    /// By row, the group that was there before the batch.
    numbers: Vec<u32>,
    /// The rows that have found their group, with its number.
    found: Vec<(u32, u32)>,
    /// By group: its list in this batch, and the number of the batch that this is of.
    list_of: Vec<(u32, u64)>,
    batch_number: u64,
    /// The groups that the batch has rows of, and these rows.
    listed: Vec<u32>,
    lists: Vec<Vec<u32>>,
    of_aggregate: AggregateScratch,
}

/// What one aggregate needs for a group's rows.
#[derive(Default)]
struct AggregateScratch {
    /// The rows that FILTER leaves.
    filtered: Vec<u32>,
    /// The arguments whose number counts.
    keys: KeyBatch,
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
struct BatchValues<'a> {
    program: &'a ValuesProgram,
    state: &'a ProgramState,
    columns: &'a [Vector],
}

impl<'a> BatchValues<'a> {
    fn get(&self, result: usize) -> &'a Vector {
        let at = self.program.program.results.get(result).copied().unwrap_or(VectorOperand::Register(0));
        self.state.result(self.columns, at)
    }
}

impl AggregateState {
    /// The program to take in the input as columns by. None: it has rows, or calls that want one row after the other.
    pub(super) fn column_program<'n>(&self, node: &'n PlanNode) -> Option<&'n ValuesProgram> {
        let Op::Aggregate { input, groups, aggs, program, .. } = &node.op else { return None };
        self.unary.input.has_columns().then(|| program.of(groups, aggs, input.width)).flatten()
    }

    /// The columns of the input that are used; none if it is not taken in as columns.
    pub fn used_columns(&self) -> &[bool] {
        self.column_program(&self.unary.node).map_or(&[], |program| &program.is_used)
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
        while self.unary.input.fill_columns((&mut scratch.batch, &program.is_used), rt, cx)? {
            let (columns, left) = scratch.batch.parts();
            match scratch.program.run(&program.program, columns, left, rt, cx)? {
                true => self.add_batch(node, program, scratch, cx)?,
                false => left.try_each(|position| {
                    row_of(columns, &program.is_used, position, &mut row)?;
                    self.take_row(&node.op, &row, &mut rows, rt, cx)
                })?,
            }
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
        let (columns, rows) = scratch.batch.parts();
        let values = BatchValues { program, state: &scratch.program, columns };
        if groups.is_empty() && sets.as_ref().is_none_or(|sets| sets.len() == 1) {
            let slots = &mut self.groups[0].slots;
            let kept_bytes = add_to_group(aggs, slots, rows, values, &mut scratch.of_aggregate, cx)?;
            self.used_bytes = self.used_bytes.saturating_add_signed(kept_bytes);
            return Ok(());
        }
        let whole: Vec<usize> = (0..groups.len()).collect();
        let one_set = [whole];
        for (number, columns) in sets.as_deref().unwrap_or(&one_set).iter().enumerate() {
            let set = GroupingSet { number, columns, count: types.len() };
            let of_set: Vec<(&Vector, Oid)> = columns.iter().map(|c| (values.get(*c), types[*c])).collect();
            scratch.keys.clear();
            rows.try_each(|row| scratch.keys.push(Some(number as u16), &of_set, row))?;
            self.table.find(&scratch.keys, &mut scratch.numbers);
            scratch.found.clear();
            let mut at = 0;
            rows.try_each(|row| {
                let known = Some(scratch.numbers[at]).filter(|number| *number != NO_NUMBER);
                let group = match known.or_else(|| self.table.get_of(&scratch.keys, at)) {
                    Some(group) => Some(group),
                    None => self.new_group(aggs, set, row, values, (&scratch.keys, at), cx)?,
                };
                scratch.found.extend(group.map(|group| (row as u32, group)));
                at += 1;
                Ok::<(), Error>(())
            })?;
            let mut lists = GroupLists {
                found: &scratch.found,
                list_of: &mut scratch.list_of,
                listed: &mut scratch.listed,
                lists: &mut scratch.lists,
            };
            scratch.batch_number += 1;
            let positions = rows.positions();
            if lists.sort(self.groups.len(), scratch.batch_number) {
                for (group, list) in scratch.listed.iter().zip(&scratch.lists) {
                    let slots = &mut self.groups[*group as usize].slots;
                    let rows = Rows::Listed(list, positions);
                    let kept_bytes = add_to_group(aggs, slots, rows, values, &mut scratch.of_aggregate, cx)?;
                    self.used_bytes = self.used_bytes.saturating_add_signed(kept_bytes);
                }
            } else {
                for (row, group) in &scratch.found {
                    let slots = &mut self.groups[*group as usize].slots;
                    let rows = Rows::Listed(std::slice::from_ref(row), positions);
                    let kept_bytes = add_to_group(aggs, slots, rows, values, &mut scratch.of_aggregate, cx)?;
                    self.used_bytes = self.used_bytes.saturating_add_signed(kept_bytes);
                }
            }
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

/// The rows of a batch by group.
struct GroupLists<'a> {
    found: &'a [(u32, u32)],
    list_of: &'a mut Vec<(u32, u64)>,
    listed: &'a mut Vec<u32>,
    lists: &'a mut Vec<Vec<u32>>,
}

impl GroupLists<'_> {
    /// Lists each group's rows. False: there are so many groups that it is not worth while.
    fn sort(&mut self, groups: usize, batch_number: u64) -> bool {
        self.list_of.resize(groups.max(self.list_of.len()), (0, 0));
        self.listed.clear();
        let most = self.found.len() / LISTED_ROWS_MIN;
        for (row, group) in self.found {
            let (list, of_batch) = &mut self.list_of[*group as usize];
            if *of_batch != batch_number {
                if self.listed.len() > most {
                    return false;
                }
                (*list, *of_batch) = (self.listed.len() as u32, batch_number);
                self.listed.push(*group);
                if self.lists.len() < self.listed.len() {
                    self.lists.push(Vec::new());
                }
                self.lists[*list as usize].clear();
            }
            self.lists[*list as usize].push(*row);
        }
        true
    }
}

/// Adds rows of one group to its aggregates. Returns by how many bytes the arguments that aggregates keep have grown.
fn add_to_group(
    aggs: &[AggSpec],
    slots: &mut [GroupAggregate],
    rows: Rows<'_>,
    values: BatchValues<'_>,
    scratch: &mut AggregateScratch,
    cx: &ExecContext<'_>,
) -> Result<isize> {
    let mut kept_bytes = 0;
    let argument_count: usize = aggs.iter().map(|a| a.args.len() + usize::from(a.filter.is_some())).sum();
    let mut next = values.program.program.results.len() - argument_count;
    for (a, slot) in aggs.iter().zip(slots) {
        let mut of_aggregate = rows;
        if a.filter.is_some() {
            let condition = values.get(next);
            next += 1;
            rows.list_where(&mut scratch.filtered, |row| condition.is_true(row));
            of_aggregate = Rows::Listed(&scratch.filtered, rows.positions());
        }
        let first = next;
        next += a.args.len();
        if of_aggregate.is_empty() {
            continue;
        }
        if let Some(kept) = &mut slot.kept {
            let before = kept.bytes();
            if let Some(counted) = &mut kept.counted {
                counted.add(a, (values.get(first), of_aggregate), &mut scratch.keys, cx)?;
            }
            kept_bytes += kept.bytes() as isize - before as isize;
            continue;
        }
        match &mut slot.acc {
            Some(acc) => match a.args.len() {
                1 => acc.add_vectors(of_aggregate, &[values.get(first)], &cx.eval)?,
                count => {
                    let args: Vec<&Vector> = (first..first + count).map(|arg| values.get(arg)).collect();
                    acc.add_vectors(of_aggregate, &args, &cx.eval)?;
                }
            },
            None if a.oid == COUNT_STAR => slot.count += of_aggregate.len() as i64,
            None => {
                debug_assert!(a.oid == COUNT_ANY, "only counts have no accumulator");
                let arg = values.get(first);
                of_aggregate.each(|row| slot.count += i64::from(!arg.is_null(row)));
            }
        }
    }
    Ok(kept_bytes)
}
