//! Grouping and aggregates.
//!
//! With hashing, groups that do not fit the budget wait: their rows go to partitions, which become inputs of their own
//! after the table has been given out. With sorted input there is one group at a time.

mod arguments;
mod columns;

use self::arguments::AggregateArguments;
use self::columns::ColumnScratch;
use super::context::*;
use super::expr::Evaluate;
use super::hash::budget_of_reader;
use super::key_index::{KeyIndex, entry_bytes};
use super::state::{NodeState, UnaryInput};
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_plan::expression::CExpr;
use kilndb_plan::node::COUNT_ANY;
use kilndb_plan::{AggSpec, Op, PlanNode};
use kilndb_spill::{SpillCursor, SpillFile, SpillPartitions, row_bytes};
use kilndb_types::aggregates::Accumulator;
use kilndb_types::{Datum, key, row};
use std::sync::Arc;

/// One aggregate of one group.
struct GroupAggregate {
    acc: Option<Box<dyn Accumulator>>,
    /// The arguments of an aggregate with DISTINCT or ORDER BY are kept until the group's end.
    kept: Option<Box<AggregateArguments>>,
    /// The number of rows, for count(*) and its kin, which need no accumulator.
    count: i64,
}

struct AggregateGroup {
    values: Vec<Datum>,
    set: usize,
    slots: Vec<GroupAggregate>,
}

#[derive(Clone, Copy, PartialEq)]
enum AggregatePhase {
    Collect,
    Emit,
    Done,
}

pub(crate) struct AggregateState {
    pub unary: UnaryInput,
    groups: Vec<AggregateGroup>,
    table: KeyIndex,
    used_bytes: usize,
    phase: AggregatePhase,
    next: usize,
    level: u32,
    overflow: Option<SpillPartitions>,
    pending: Vec<(SpillFile, u32)>,
    /// The partition that is being read in place of the input.
    reading: Option<SpillFile>,
    /// The group that is being gathered, if the input is sorted.
    current: Option<(Vec<u8>, AggregateGroup)>,
    input_done: bool,
    batches: u64,
    peak_bytes: usize,
    disk_bytes: u64,
    /// Set while several threads aggregate parts of the table: a group that does not fit ends this thread's part.
    is_part: bool,
    /// Kept from one batch of columns to the next, once there has been one.
    columns: Option<Box<ColumnScratch>>,
}

/// What taking in rows one after the other writes to again and again.
#[derive(Default)]
struct RowScratch {
    key: Vec<u8>,
    values: Vec<Datum>,
    args: Vec<Datum>,
}

const COUNT_STAR: Oid = 2803;
/// The bytes that one aggregate of a group takes, its accumulator included (as long as that does not grow).
const SLOT_BYTES: usize = size_of::<GroupAggregate>() + 96;

/// Can the groups of two threads be combined into one result?
pub fn has_parts(a: &AggSpec) -> bool {
    let counts = a.oid == COUNT_STAR || a.oid == COUNT_ANY;
    !a.keeps_arguments() && (counts || a.make.is_some_and(|make| make(&a.arg_types).partial().is_some()))
}

/// Is count(*) without FILTER the only aggregate, and nothing grouped?
pub(crate) fn counts_whole_table(op: &Op) -> bool {
    let Op::Aggregate { input, groups, sets: None, aggs, .. } = op else { return false };
    let Op::Partitions(p) = &input.op else { return false };
    let all_rows = matches!(&p.template.op, Op::SeqScan(scan) if scan.filter.is_none()) && p.order.is_none();
    all_rows && groups.is_empty() && !aggs.is_empty() && aggs.iter().all(|a| a.oid == COUNT_STAR && a.filter.is_none())
}

fn new_slot(a: &AggSpec, budget: usize) -> Result<GroupAggregate> {
    let plain_count = a.oid == COUNT_STAR || a.oid == COUNT_ANY;
    let acc = if plain_count {
        None
    } else {
        let make = a.make.ok_or_else(|| Error::unsupported(format!("aggregate {} is not supported", a.name)))?;
        Some(make(&a.arg_types))
    };
    let kept = (a.keeps_arguments() && a.oid != COUNT_STAR).then(|| Box::new(AggregateArguments::new(a, budget)));
    Ok(GroupAggregate { acc, kept, count: 0 })
}

impl AggregateState {
    pub fn new(unary: UnaryInput) -> AggregateState {
        AggregateState {
            unary,
            groups: Vec::new(),
            table: KeyIndex::default(),
            used_bytes: 0,
            phase: AggregatePhase::Collect,
            next: 0,
            level: 0,
            overflow: None,
            pending: Vec::new(),
            reading: None,
            current: None,
            input_done: false,
            batches: 0,
            peak_bytes: 0,
            disk_bytes: 0,
            is_part: false,
            columns: None,
        }
    }
    pub(crate) fn rescan(&mut self, rt: &mut RunState) {
        self.unary.rescan(rt);
        (self.batches, self.peak_bytes, self.disk_bytes) = (0, 0, 0);
        self.groups.clear();
        self.table.clear();
        self.used_bytes = 0;
        self.phase = AggregatePhase::Collect;
        self.next = 0;
        self.level = 0;
        self.overflow = None;
        self.pending.clear();
        self.reading = None;
        self.current = None;
        self.input_done = false;
    }

    pub fn next(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::Aggregate { sets, groupings, sorted, groups, .. } = &node.op else { return Ok(()) };
        if *sorted {
            return self.next_sorted(out, rt, cx);
        }
        loop {
            match self.phase {
                AggregatePhase::Done => return Ok(()),
                AggregatePhase::Collect => {
                    match self.reading.take() {
                        Some(file) => self.collect_partition(&file, rt, cx)?,
                        None => {
                            self.begin(cx)?;
                            match super::parts::count_partitions(self, rt, cx)? {
                                Some(rows) => self
                                    .groups
                                    .iter_mut()
                                    .flat_map(|g| &mut g.slots)
                                    .for_each(|slot| slot.count += rows),
                                None => {
                                    super::parts::aggregate(self, rt, cx)?;
                                    self.collect(rt, cx)?;
                                }
                            }
                        }
                    }
                    self.peak_bytes = self.peak_bytes.max(self.used_bytes);
                    self.batches += 1;
                    self.phase = AggregatePhase::Emit;
                }
                AggregatePhase::Emit => {
                    while !out.full() {
                        let Some(g) = self.groups.get_mut(self.next) else { break };
                        self.next += 1;
                        emit(&node.op, g, out, cx)?;
                        for list in groupings {
                            let mut bits = 0i32;
                            for c in list {
                                let grouped = sets.as_ref().is_none_or(|s| s.get(g.set).is_some_and(|s| s.contains(c)));
                                bits = (bits << 1) | i32::from(!grouped);
                            }
                            out.data.push(Datum::Int4(bits));
                        }
                        out.end_row();
                    }
                    if out.rows > 0 {
                        return Ok(());
                    }
                    self.next_input(cx)?;
                    if self.phase == AggregatePhase::Done && !groups.is_empty() {
                        let report = NodeReport::Hash {
                            batches: self.batches,
                            memory: self.peak_bytes as u64,
                            disk: self.disk_bytes,
                        };
                        rt.report(node.id, report);
                    }
                }
            }
        }
    }

    /// The next partition that waits, if any.
    fn next_input(&mut self, cx: &ExecContext<'_>) -> Result<()> {
        if let Some(overflow) = self.overflow.take() {
            let files = overflow.finish(cx.io())?;
            self.disk_bytes += files.iter().map(SpillFile::disk_bytes).sum::<u64>();
            self.pending.extend(files.into_iter().filter(|f| f.records > 0).map(|f| (f, self.level + 1)));
        }
        self.groups.clear();
        self.next = 0;
        let Some((file, level)) = self.pending.pop() else {
            self.phase = AggregatePhase::Done;
            return Ok(());
        };
        self.table = KeyIndex::default();
        self.used_bytes = 0;
        self.level = level;
        self.reading = Some(file);
        self.phase = AggregatePhase::Collect;
        Ok(())
    }

    /// Adds a group if there is room for it.
    fn add_group(
        &mut self,
        aggs: &[AggSpec],
        key: &[u8],
        set: usize,
        values: Vec<Datum>,
        cx: &ExecContext<'_>,
    ) -> Result<Option<usize>> {
        let bytes = entry_bytes(key.len()) + size_of::<AggregateGroup>() + row_bytes(&values) + aggs.len() * SLOT_BYTES;
        if self.used_bytes + bytes > cx.hash_mem_bytes && !self.groups.is_empty() {
            if !self.is_part {
                return Ok(None);
            }
            // No other thread reads the block that this one has begun: it is read to its end.
            self.unary.input.end_with_block(true);
        }
        self.used_bytes += bytes;
        self.insert_group(aggs, key, set, values, cx.work_mem_bytes)?;
        Ok(Some(self.groups.len() - 1))
    }
    fn insert_group(
        &mut self,
        aggs: &[AggSpec],
        key: &[u8],
        set: usize,
        values: Vec<Datum>,
        sort_bytes: usize,
    ) -> Result<()> {
        let slots = aggs.iter().map(|a| new_slot(a, sort_bytes)).collect::<Result<Vec<_>>>()?;
        self.table.insert(key, self.groups.len() as u32);
        self.groups.push(AggregateGroup { values, set, slots });
        Ok(())
    }

    /// Without GROUP BY there is one group even if there are no rows.
    fn begin(&mut self, cx: &ExecContext<'_>) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::Aggregate { groups, sets, aggs, .. } = &node.op else { return Ok(()) };
        let empty = |s: &Vec<usize>| s.is_empty();
        let without: Vec<usize> = match sets {
            Some(sets) => sets.iter().enumerate().filter(|(_, s)| empty(s)).map(|(n, _)| n).collect(),
            None if groups.is_empty() => vec![0],
            None => Vec::new(),
        };
        for n in without {
            self.insert_group(aggs, &[n as u8, (n >> 8) as u8], n, vec![Datum::Null; groups.len()], cx.work_mem_bytes)?;
        }
        Ok(())
    }

    /// One thread's part: groups of the rows that `input` has, or until there is no more room.
    pub fn of_part(
        node: &Arc<PlanNode>,
        input: NodeState,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<AggregateState> {
        let width = node.children().first().map_or(0, |input| input.width);
        let unary = UnaryInput { node: node.clone(), input: Box::new(input), buffer: Batch::new(width) };
        let mut state = AggregateState::new(unary);
        state.begin(cx)?;
        state.collect_part(rt, cx)?;
        Ok(state)
    }
    pub(crate) fn collect_part(&mut self, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        self.is_part = true;
        let done = self.collect(rt, cx);
        self.is_part = false;
        self.unary.input.end_with_block(false);
        done
    }

    /// Adds the groups of another thread's part to those of this one.
    pub fn absorb(&mut self, other: AggregateState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::Aggregate { aggs, .. } = &node.op else { return Ok(()) };
        self.used_bytes += other.used_bytes;
        let mut groups: Vec<Option<AggregateGroup>> = other.groups.into_iter().map(Some).collect();
        self.table.reserve(&other.table);
        let mut count = 0;
        other.table.try_each(|key, number| {
            count += 1;
            if count % BATCH_ROWS == 0 {
                cx.park.checkpoint()?;
            }
            let Some(group) = groups.get_mut(number as usize).and_then(Option::take) else { return Ok(()) };
            let Some(mine) = self.table.get(key).and_then(|n| self.groups.get_mut(n as usize)) else {
                self.table.insert(key, self.groups.len() as u32);
                self.groups.push(group);
                return Ok(());
            };
            mine.absorb(group, aggs, cx)
        })
    }

    /// Reads the input itself, not one of its partitions.
    fn collect(&mut self, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.unary.node.clone();
        if self.collect_columns(&node, rt, cx)? {
            return Ok(());
        }
        let mut scratch = RowScratch::default();
        while self.unary.fill(BATCH_ROWS, rt, cx)? {
            let buffer = std::mem::take(&mut self.unary.buffer);
            for i in 0..buffer.rows {
                self.take_row(&node.op, buffer.row(i), &mut scratch, rt, cx)?;
            }
            self.unary.buffer = buffer;
        }
        Ok(())
    }

    /// Adds a row of the input to its group in each grouping set.
    fn take_row(
        &mut self,
        op: &Op,
        row: &[Datum],
        scratch: &mut RowScratch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let Op::Aggregate { groups, types, sets, aggs, .. } = op else { return Ok(()) };
        let RowScratch { key: k, values, args } = scratch;
        if groups.is_empty() && sets.as_ref().is_none_or(|sets| sets.len() == 1) {
            let kept_bytes = add_all(aggs, &mut self.groups[0].slots, row, args, rt, cx)?;
            self.used_bytes = self.used_bytes.saturating_add_signed(kept_bytes);
            return Ok(());
        }
        eval_groups(groups, row, values, rt, cx)?;
        for n in 0..sets.as_ref().map_or(1, Vec::len) {
            k.clear();
            k.extend([n as u8, (n >> 8) as u8]);
            let set = sets.as_ref().and_then(|sets| sets.get(n)).map(Vec::as_slice);
            match set {
                Some(set) => set.iter().try_for_each(|c| key::hash_equal_key(types[*c], &values[*c], k))?,
                None => types.iter().zip(&*values).try_for_each(|(ty, value)| key::hash_equal_key(*ty, value, k))?,
            }
            let number = match self.table.get(k.as_slice()) {
                Some(g) => Some(g as usize),
                None => {
                    let of_group = set.map_or_else(|| values.clone(), |set| of_set(values, set));
                    self.add_group(aggs, k, n, of_group, cx)?
                }
            };
            match number {
                Some(g) => {
                    let kept_bytes = add_all(aggs, &mut self.groups[g].slots, row, args, rt, cx)?;
                    self.used_bytes = self.used_bytes.saturating_add_signed(kept_bytes);
                }
                None => match self.column_program(&self.unary.node).map(|program| &program.is_used) {
                    Some(is_used) => {
                        let used = row.iter().zip(is_used).filter(|(_, is_used)| **is_used);
                        let used: Vec<Datum> = used.map(|(value, _)| value.clone()).collect();
                        self.put_off(k, &used, cx)?;
                    }
                    None => self.put_off(k, row, cx)?,
                },
            }
        }
        Ok(())
    }

    /// Puts a row into the partition of its key. Of its columns only those that somebody uses are there.
    fn put_off(&mut self, key: &[u8], used: &[Datum], cx: &ExecContext<'_>) -> Result<()> {
        let (level, budget) = (self.level, cx.hash_mem_bytes);
        self.overflow.get_or_insert_with(|| SpillPartitions::new(level, budget)).push(key, used, cx.io())
    }
    /// Reads a row that was put off: NULL stands for the columns that nobody uses.
    fn read_put_off(bytes: &[u8], is_used: Option<&[bool]>, width: usize, row: &mut Vec<Datum>) -> Result<()> {
        let Some(is_used) = is_used else { return row::decode_self_describing(bytes, width, row) };
        row::decode_self_describing(bytes, is_used.iter().filter(|is_used| **is_used).count(), row)?;
        let mut left = row.len();
        row.resize(width, Datum::Null);
        for column in (0..width).rev().filter(|column| is_used[*column]) {
            left -= 1;
            row.swap(left, column);
        }
        Ok(())
    }

    /// Reads rows that had to wait in a partition. Their keys, which begin with the number of the grouping set, are
    /// stored with them.
    fn collect_partition(&mut self, file: &SpillFile, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::Aggregate { input, groups, sets, aggs, .. } = &node.op else { return Ok(()) };
        let whole: Vec<usize> = (0..groups.len()).collect();
        let is_used = self.column_program(&node).map(|program| program.is_used.clone());
        let (io, budget) = (cx.io(), cx.hash_mem_bytes);
        let mut cursor = SpillCursor::new(budget_of_reader());
        let mut args: Vec<Datum> = Vec::new();
        let mut values: Vec<Datum> = Vec::new();
        let mut row: Vec<Datum> = Vec::new();
        let mut count = 0;
        while cursor.advance(file, io)? {
            count += 1;
            if count % BATCH_ROWS == 0 {
                cx.park.checkpoint()?;
            }
            row.clear();
            let number = match self.table.get(cursor.key()) {
                Some(g) => Some(g as usize),
                None => {
                    Self::read_put_off(cursor.row(), is_used.as_deref(), input.width, &mut row)?;
                    eval_groups(groups, &row, &mut values, rt, cx)?;
                    let n = cursor.key().first_chunk::<2>().map_or(0, |b| usize::from(u16::from_le_bytes(*b)));
                    let set = sets.as_ref().and_then(|s| s.get(n)).unwrap_or(&whole);
                    self.add_group(aggs, cursor.key(), n, of_set(&values, set), cx)?
                }
            };
            match number {
                Some(g) => {
                    if row.is_empty() {
                        Self::read_put_off(cursor.row(), is_used.as_deref(), input.width, &mut row)?;
                    }
                    let kept_bytes = add_all(aggs, &mut self.groups[g].slots, &row, &mut args, rt, cx)?;
                    self.used_bytes = self.used_bytes.saturating_add_signed(kept_bytes);
                }
                None => {
                    let level = self.level;
                    let overflow = self.overflow.get_or_insert_with(|| SpillPartitions::new(level, budget));
                    overflow.push_record(cursor.key(), cursor.record(), io)?;
                }
            }
        }
        Ok(())
    }

    /// Aggregates sorted input, in which the rows of a group follow one another.
    fn next_sorted(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::Aggregate { groups, types, aggs, groupings, .. } = &node.op else { return Ok(()) };
        let (mut k, mut values, mut args) = (Vec::new(), Vec::new(), Vec::new());
        let end_group = |group: &mut AggregateGroup, out: &mut Batch, cx: &mut ExecContext<'_>| -> Result<()> {
            emit(&node.op, group, out, cx)?;
            out.data.extend(groupings.iter().map(|_| Datum::Int4(0)));
            out.end_row();
            Ok(())
        };
        while out.rows == 0 && !self.input_done {
            if !self.unary.fill(out.max, rt, cx)? {
                self.input_done = true;
                if let Some((_, mut group)) = self.current.take() {
                    end_group(&mut group, out, cx)?;
                }
                break;
            }
            let buffer = std::mem::take(&mut self.unary.buffer);
            for i in 0..buffer.rows {
                let row = buffer.row(i);
                eval_groups(groups, row, &mut values, rt, cx)?;
                k.clear();
                for (v, t) in values.iter().zip(types) {
                    key::hash_equal_key(*t, v, &mut k)?;
                }
                if self.current.as_ref().is_none_or(|c| c.0 != k) {
                    if let Some((_, mut group)) = self.current.take() {
                        end_group(&mut group, out, cx)?;
                    }
                    let slots = aggs.iter().map(|a| new_slot(a, cx.work_mem_bytes)).collect::<Result<Vec<_>>>()?;
                    self.current = Some((k.clone(), AggregateGroup { values: values.clone(), set: 0, slots }));
                }
                if let Some((_, group)) = &mut self.current {
                    let kept_bytes = add_all(aggs, &mut group.slots, row, &mut args, rt, cx)?;
                    self.used_bytes = self.used_bytes.saturating_add_signed(kept_bytes);
                }
            }
            self.unary.buffer = buffer;
        }
        Ok(())
    }
}

fn eval_groups(
    groups: &[CExpr],
    row: &[Datum],
    values: &mut Vec<Datum>,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<()> {
    values.clear();
    for g in groups {
        values.push(g.eval(row, rt, cx)?);
    }
    Ok(())
}

fn of_set(values: &[Datum], set: &[usize]) -> Vec<Datum> {
    (0..values.len()).map(|c| if set.contains(&c) { values[c].clone() } else { Datum::Null }).collect()
}

/// Appends a group's columns and results; the row is still to be ended.
fn emit(op: &Op, g: &mut AggregateGroup, out: &mut Batch, cx: &mut ExecContext<'_>) -> Result<()> {
    let Op::Aggregate { aggs, .. } = op else { return Ok(()) };
    out.data.append(&mut g.values);
    for (a, slot) in aggs.iter().zip(&mut g.slots) {
        out.data.push(finish(a, slot, cx)?);
    }
    g.slots = Vec::new();
    Ok(())
}

/// Adds a row to all aggregates of a group. Returns by how many bytes the arguments that aggregates keep have grown:
/// negative when they went to a file.
fn add_all(
    aggs: &[AggSpec],
    slots: &mut [GroupAggregate],
    row: &[Datum],
    args: &mut Vec<Datum>,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<isize> {
    let mut kept_bytes = 0;
    for (a, slot) in aggs.iter().zip(slots) {
        kept_bytes += add(a, slot, row, args, rt, cx)?;
    }
    Ok(kept_bytes)
}

fn add(
    a: &AggSpec,
    slot: &mut GroupAggregate,
    row: &[Datum],
    args: &mut Vec<Datum>,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<isize> {
    if let Some(f) = &a.filter
        && !f.is_true(row, rt, cx)?
    {
        return Ok(0);
    }
    if a.oid == COUNT_STAR {
        slot.count += 1;
        return Ok(0);
    }
    // An argument that is a plain column is read in place, without a copy.
    if let ([CExpr::Slot(column)], None) = (&a.args[..], &slot.kept)
        && let Some(value) = row.get(*column..*column + 1)
    {
        return slot.add(value, cx).map(|()| 0);
    }
    args.clear();
    for e in &a.args {
        let v = e.eval(row, rt, cx)?;
        args.push(v);
    }
    if let Some(kept) = &mut slot.kept {
        let before = kept.bytes();
        kept.add(a, row, args, rt, cx)?;
        return Ok(kept.bytes() as isize - before as isize);
    }
    slot.add(args, cx).map(|()| 0)
}

impl AggregateGroup {
    /// Adds what another thread has gathered of the same group.
    fn absorb(&mut self, other: AggregateGroup, aggs: &[AggSpec], cx: &ExecContext<'_>) -> Result<()> {
        assert!(self.slots.len() == other.slots.len(), "all parts compute the same aggregates");
        for ((slot, other), a) in self.slots.iter_mut().zip(other.slots).zip(aggs) {
            slot.count += other.count;
            if let (Some(acc), Some(other)) = (&mut slot.acc, other.acc) {
                let part =
                    other.partial().ok_or_else(|| Error::internal(format!("aggregate {} has no parts", a.name)))?;
                acc.absorb(part, &cx.eval)?;
            }
        }
        Ok(())
    }
}

impl GroupAggregate {
    #[inline]
    fn add(&mut self, args: &[Datum], cx: &ExecContext<'_>) -> Result<()> {
        match &mut self.acc {
            Some(acc) => acc.add(args, &cx.eval),
            None => {
                self.count += i64::from(args.first().is_some_and(|d| !d.is_null()));
                Ok(())
            }
        }
    }
}

fn finish(a: &AggSpec, slot: &mut GroupAggregate, cx: &mut ExecContext<'_>) -> Result<Datum> {
    let kept = slot.kept.take();
    if a.oid == COUNT_STAR || a.oid == COUNT_ANY {
        let mut count = slot.count;
        if let Some(mut kept) = kept {
            match &mut kept.counted {
                Some(counted) => count += counted.finish(cx)?,
                None => kept.each(a, cx, &mut |args, _| {
                    count += i64::from(args.first().is_some_and(|d| !d.is_null()));
                    Ok(())
                })?,
            }
        }
        return Ok(Datum::Int8(count));
    }
    let Some(acc) = &mut slot.acc else {
        return Err(Error::new(sqlstate::INTERNAL_ERROR, "aggregate without state"));
    };
    if let Some(mut kept) = kept {
        kept.each(a, cx, &mut |args, cx| acc.add(args, &cx.eval))?;
    }
    acc.finish(&cx.eval)
}
