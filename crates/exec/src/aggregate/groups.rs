//! Groups with the states of their aggregates.
//!
//! Groups are numbered from 0 on. What they have stands in lists, one for their values and one for each aggregate: a group
//! has no memory of its own but for what its values and states point to.
//!
//! Invariants
//! 1. All lists have as many elements as there are groups (those of values, as many as there are grouping columns for each).
//! 2. A group's number does not change until all groups go.

use super::COUNT_STAR;
use super::arguments::AggregateArguments;
use super::columns::{AggregateScratch, BatchValues};
use crate::context::*;
use crate::expr::Evaluate;
use crate::key_index::{KeyBatch, KeyIndex, entry_bytes};
use kilndb_base::{Error, Result};
use kilndb_plan::AggSpec;
use kilndb_plan::expression::CExpr;
use kilndb_spill::{SpillPartitions, row_bytes};
use kilndb_types::Datum;
use kilndb_types::aggregates::{GroupedAccumulator, GroupedRows, PartialAggregate, PartialForm, grouped};
use kilndb_types::vector::{Rows, Vector};

/// One aggregate's states, of all groups.
struct GroupedAggregate {
    states: Box<dyn GroupedAccumulator>,
    /// By group, if the aggregate has DISTINCT or ORDER BY: arguments that are kept until the group's end.
    kept: Option<Vec<AggregateArguments>>,
    /// What parts of it look like, if they can be put into values.
    form: Option<PartialForm>,
}

/// Rows of a batch that are taken in together.
#[derive(Clone, Copy)]
pub(super) enum TakenRows<'a> {
    /// All for the group of this number.
    OfOne(usize, Rows<'a>),
    Grouped(&'a GroupedRows),
}

#[derive(Default)]
pub(super) struct GroupTable {
    index: KeyIndex,
    count: usize,
    /// The grouping columns, and their values, group after group.
    width: usize,
    values: Vec<Datum>,
    /// By group, the number of its grouping set; none if there is but one.
    sets: Vec<u16>,
    aggregates: Vec<GroupedAggregate>,
    /// The memory of a group without its key and what its values point to.
    group_bytes: usize,
    used_bytes: usize,
}

impl GroupTable {
    /// No groups, of these aggregates and so many grouping columns.
    pub fn new(aggs: &[AggSpec], width: usize, has_sets: bool) -> Result<GroupTable> {
        let mut aggregates = Vec::with_capacity(aggs.len());
        let mut group_bytes = width * size_of::<Datum>() * 3 / 2 + usize::from(has_sets) * size_of::<u16>() * 3 / 2;
        for a in aggs {
            let make = a.make.ok_or_else(|| Error::unsupported(format!("aggregate {} is not supported", a.name)))?;
            let states = grouped(make, &a.arg_types);
            let kept = (a.keeps_arguments() && a.oid != COUNT_STAR).then(Vec::new);
            let form = a.partial.as_ref().and_then(PartialAggregate::form);
            let kept_bytes = if kept.is_some() { size_of::<AggregateArguments>() * 3 / 2 } else { 0 };
            group_bytes += states.group_bytes() + kept_bytes;
            aggregates.push(GroupedAggregate { states, kept, form });
        }
        Ok(GroupTable { width, aggregates, group_bytes, ..GroupTable::default() })
    }
    pub fn len(&self) -> usize {
        self.count
    }
    pub fn used_bytes(&self) -> usize {
        self.used_bytes
    }
    /// The grouping set of a group.
    pub fn set_of(&self, group: usize) -> usize {
        self.sets.get(group).map_or(0, |set| usize::from(*set))
    }
    pub fn get(&self, key: &[u8]) -> Option<usize> {
        self.index.get(key).map(|group| group as usize)
    }
    pub fn get_of(&self, keys: &KeyBatch, at: usize) -> Option<u32> {
        self.index.get_of(keys, at)
    }
    pub fn find(&self, keys: &KeyBatch, numbers: &mut Vec<u32>) {
        self.index.find(keys, numbers);
    }
    /// Is there room for one more group? There always is for the first one.
    pub fn has_room(&self, key: &[u8], values: &[Datum], budget: usize) -> bool {
        self.count == 0 || self.used_bytes + self.bytes_of(key, values) <= budget
    }
    fn bytes_of(&self, key: &[u8], values: &[Datum]) -> usize {
        let pointed = row_bytes(values).saturating_sub(size_of_val(values));
        entry_bytes(key.len()) + self.group_bytes + pointed
    }
    /// Adds a group that is not there yet. Its number is returned.
    pub fn push(&mut self, aggs: &[AggSpec], key: &[u8], set: usize, values: Vec<Datum>, sort_bytes: usize) -> usize {
        self.used_bytes += self.bytes_of(key, &values);
        self.index.insert(key, self.count as u32);
        if set > 0 || !self.sets.is_empty() {
            self.sets.resize(self.count, 0);
            self.sets.push(set as u16);
        }
        self.values.extend(values);
        for (a, aggregate) in aggs.iter().zip(&mut self.aggregates) {
            aggregate.states.push_group();
            if let Some(kept) = &mut aggregate.kept {
                kept.push(AggregateArguments::new(a, sort_bytes));
            }
        }
        self.count += 1;
        self.count - 1
    }
    /// Forgets all groups.
    pub fn clear(&mut self) {
        self.index.clear();
        self.forget();
    }
    /// As [`GroupTable::clear`], but keeps the room for as many groups as there were.
    fn forget(&mut self) {
        self.index.forget();
        (self.count, self.used_bytes) = (0, 0);
        self.values.clear();
        self.sets.clear();
        for aggregate in &mut self.aggregates {
            aggregate.states.clear();
            aggregate.kept.iter_mut().for_each(Vec::clear);
        }
    }
    /// What aggregates keep has grown by so many bytes, or become less.
    fn note_kept(&mut self, bytes: isize) {
        self.used_bytes = self.used_bytes.saturating_add_signed(bytes);
    }

    /// Adds a row to all aggregates of a group.
    pub fn add_row(
        &mut self,
        aggs: &[AggSpec],
        group: usize,
        row: &[Datum],
        args: &mut Vec<Datum>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        for (n, a) in aggs.iter().enumerate() {
            if let Some(f) = &a.filter
                && !f.is_true(row, rt, cx)?
            {
                continue;
            }
            let aggregate = &mut self.aggregates[n];
            // An argument that is a plain column is read in place, without a copy.
            if let ([argument], None) = (&a.args[..], &aggregate.kept)
                && let CExpr::Slot(column) = argument.tree()
                && let Some(value) = row.get(*column..*column + 1)
            {
                aggregate.states.state(group).add(value, &cx.eval)?;
                continue;
            }
            args.clear();
            for e in &a.args {
                args.push(e.eval(row, rt, cx)?);
            }
            let Some(kept) = &mut aggregate.kept else {
                aggregate.states.state(group).add(args, &cx.eval)?;
                continue;
            };
            let before = kept[group].bytes() as isize;
            kept[group].add(a, row, args, rt, cx)?;
            let now = kept[group].bytes() as isize;
            self.note_kept(now - before);
        }
        Ok(())
    }

    /// Adds rows that come as columns to all aggregates of their groups.
    pub fn add_columns(
        &mut self,
        aggs: &[AggSpec],
        rows: TakenRows<'_>,
        values: BatchValues<'_>,
        scratch: &mut AggregateScratch,
        cx: &ExecContext<'_>,
    ) -> Result<()> {
        let argument_count: usize = aggs.iter().map(|a| a.args.len() + usize::from(a.filter.is_some())).sum();
        let mut next = values.count() - argument_count;
        let AggregateScratch { filtered, grouped, keys } = scratch;
        let mut kept_bytes = 0;
        for (a, aggregate) in aggs.iter().zip(&mut self.aggregates) {
            let mut of_aggregate = rows;
            if a.filter.is_some() {
                let condition = values.get(next);
                next += 1;
                of_aggregate = match rows {
                    TakenRows::OfOne(group, rows) => {
                        rows.list_where(filtered, |row| condition.is_true(row));
                        TakenRows::OfOne(group, Rows::Listed(filtered, rows.positions()))
                    }
                    TakenRows::Grouped(rows) => {
                        grouped.take_where(rows, |row| condition.is_true(row));
                        TakenRows::Grouped(grouped)
                    }
                };
            }
            let args: Vec<&Vector> = (next..next + a.args.len()).map(|arg| values.get(arg)).collect();
            next += a.args.len();
            match &mut aggregate.kept {
                Some(kept) => {
                    let count = |group: usize, rows: Rows<'_>| {
                        let (Some(counted), [arg]) = (&mut kept[group].counted, &args[..]) else { return Ok(0) };
                        let before = counted.bytes() as isize;
                        counted.add(a, (arg, rows), keys, cx)?;
                        Ok::<isize, Error>(counted.bytes() as isize - before)
                    };
                    kept_bytes += count_in(of_aggregate, count)?;
                }
                None => match of_aggregate {
                    TakenRows::OfOne(_, rows) if rows.is_empty() => {}
                    TakenRows::OfOne(group, rows) => {
                        aggregate.states.state(group).add_vectors(rows, &args, &cx.eval)?;
                    }
                    TakenRows::Grouped(rows) => aggregate.states.add_rows(rows, &args, &cx.eval)?,
                },
            }
        }
        self.note_kept(kept_bytes);
        Ok(())
    }

    /// Appends a group's columns, which are taken out, and results; the row is still to be ended.
    pub fn finish(
        &mut self,
        aggs: &[AggSpec],
        group: usize,
        out: &mut Vec<Datum>,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        out.extend(self.values[group * self.width..(group + 1) * self.width].iter_mut().map(std::mem::take));
        for (a, aggregate) in aggs.iter().zip(&mut self.aggregates) {
            let state = aggregate.states.state(group);
            if let Some(kept) = &mut aggregate.kept {
                match &mut kept[group].counted {
                    Some(counted) => {
                        let count = counted.finish(cx)?;
                        state.absorb(PartialAggregate::Count(count), &cx.eval)?;
                    }
                    None => kept[group].each(a, cx, &mut |args, cx| state.add(args, &cx.eval))?,
                }
                // What it has kept is not needed any more.
                kept[group] = AggregateArguments::new(a, 0);
            }
            out.push(state.finish(&cx.eval)?);
        }
        Ok(())
    }
    /// Adds so many rows to the counts of a group, of which there are no other aggregates.
    pub fn count_rows(&mut self, group: usize, rows: i64, cx: &ExecContext<'_>) -> Result<()> {
        let mut each = self.aggregates.iter_mut();
        each.try_for_each(|a| a.states.state(group).absorb(PartialAggregate::Count(rows), &cx.eval))
    }

    /// Adds the groups of another table to those of this one.
    pub fn absorb(&mut self, mut other: GroupTable, aggs: &[AggSpec], cx: &mut ExecContext<'_>) -> Result<()> {
        self.index.reserve(&other.index);
        let index = std::mem::take(&mut other.index);
        let mut count = 0;
        index.try_each(|key, number| {
            count += 1;
            if count % BATCH_ROWS == 0 {
                cx.park.checkpoint()?;
            }
            let number = number as usize;
            let mine = match self.get(key) {
                Some(mine) => mine,
                None => {
                    let values = &mut other.values[number * self.width..(number + 1) * self.width];
                    let values = values.iter_mut().map(std::mem::take).collect();
                    self.push(aggs, key, other.set_of(number), values, cx.work_mem_bytes)
                }
            };
            for ((a, aggregate), theirs) in aggs.iter().zip(&mut self.aggregates).zip(&mut other.aggregates) {
                let part = theirs.states.state(number).partial();
                let part = part.ok_or_else(|| Error::internal(format!("aggregate {} has no parts", a.name)))?;
                aggregate.states.state(mine).absorb(part, &cx.eval)?;
            }
            Ok(())
        })
    }

    /// Can groups be put into partitions as they are, to be combined later?
    pub fn can_leave(&self) -> bool {
        !self.aggregates.is_empty() && self.aggregates.iter().all(|a| a.form.is_some())
    }
    /// Puts all groups into the partitions of their keys: their values, and what their aggregates have gathered.
    pub fn leave(&mut self, partitions: &mut SpillPartitions, cx: &ExecContext<'_>) -> Result<()> {
        let GroupTable { index, width, values, aggregates, .. } = self;
        let mut record = Vec::new();
        index.try_each(|key, number| {
            let number = number as usize;
            record.clear();
            record.extend(values[number * *width..(number + 1) * *width].iter_mut().map(std::mem::take));
            let parts = aggregates.iter_mut().filter_map(|a| a.states.state(number).partial());
            parts.for_each(|part| part.append_to(&mut record));
            partitions.push(key, &record, cx.io())
        })?;
        self.forget();
        Ok(())
    }
    /// How many values a group is that has [left](GroupTable::leave).
    pub fn record_width(&self) -> usize {
        self.width + self.aggregates.iter().filter_map(|a| a.form).map(PartialForm::width).sum::<usize>()
    }
    /// Adds to a group what one that had left has gathered, whose record this is.
    pub fn absorb_record(&mut self, group: usize, record: &mut [Datum], cx: &ExecContext<'_>) -> Result<()> {
        let mut at = self.width;
        for aggregate in &mut self.aggregates {
            let Some(form) = aggregate.form else { continue };
            let part = form.read(record.get_mut(at..at + form.width()).unwrap_or_default())?;
            at += form.width();
            aggregate.states.state(group).absorb(part, &cx.eval)?;
        }
        Ok(())
    }
}

/// Calls `count` for rows of each group, as many at once as are listed together. Returns the sum of what it says.
fn count_in(rows: TakenRows<'_>, mut count: impl FnMut(usize, Rows<'_>) -> Result<isize>) -> Result<isize> {
    let mut sum = 0;
    match rows {
        TakenRows::OfOne(group, rows) => sum += count(group, rows)?,
        TakenRows::Grouped(rows) => match rows.lists() {
            Some(lists) => {
                for (group, rows) in lists {
                    sum += count(group, rows)?;
                }
            }
            None => {
                for (row, group) in rows.pairs() {
                    sum += count(*group as usize, Rows::Listed(std::slice::from_ref(row), rows.positions()))?;
                }
            }
        },
    }
    Ok(sum)
}
