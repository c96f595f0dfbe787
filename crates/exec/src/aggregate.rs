//! Grouping and aggregates.
//!
//! With hashing, what does not fit the budget goes to partitions by the hash of the groups' keys, which become inputs of their own
//! at the end. If most rows that have come belong to a group that had others, the groups themselves go there, with what has been
//! gathered of them; if most rows have a group for themselves, the rows of new groups wait there (docs/decisions/0064). With
//! sorted input there is one group at a time.
//!
//! Invariant: once groups have gone to partitions, none is given out that is not read from there.

mod arguments;
mod columns;
mod groups;

use self::columns::ColumnScratch;
use self::groups::GroupTable;
use super::context::*;
use super::expr::Evaluate;
use super::hash::budget_of_reader;
use super::state::{NodeState, UnaryInput};
use kilndb_base::{Oid, Result};
use kilndb_plan::expression::Expression;
use kilndb_plan::{AggSpec, Op, PlanNode};
use kilndb_spill::{SpillCursor, SpillFile, SpillPartitions};
use kilndb_types::{Datum, key, row};
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq)]
enum AggregatePhase {
    Collect,
    Emit,
    Done,
}

/// One of the partitions that what did not fit has gone to.
struct WaitingPartition {
    /// Groups with what had been gathered of them, those that left first in the first file.
    groups: Vec<SpillFile>,
    /// Rows, with the keys of their groups.
    rows: Option<SpillFile>,
    level: u32,
}

pub(crate) struct AggregateState {
    pub unary: UnaryInput,
    /// There is a table for these aggregates.
    is_begun: bool,
    table: GroupTable,
    phase: AggregatePhase,
    next: usize,
    level: u32,
    /// Where rows wait that had no room for their groups.
    waiting_rows: Option<SpillPartitions>,
    /// Where groups have gone.
    left_groups: Option<SpillPartitions>,
    /// Where groups of other threads have gone, by partition.
    others_groups: Vec<Vec<SpillFile>>,
    pending: Vec<WaitingPartition>,
    /// The partition that is being read in place of the input.
    reading: Option<WaitingPartition>,
    /// Rows that have come since groups have left.
    rows_taken: u64,
    /// There is no more room, and the groups are to leave.
    is_full: bool,
    /// The key of the group that is being gathered, if the input is sorted.
    current: Option<Vec<u8>>,
    input_done: bool,
    batches: u64,
    peak_bytes: usize,
    disk_bytes: u64,
    /// Set while several threads aggregate parts of the table: a group that does not fit ends this thread's part, unless
    /// groups can leave.
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
/// Groups leave when there is no more room if there have been so many rows of each; with fewer, rows wait.
const ROWS_OF_GROUP_MIN: u64 = 2;

/// Is count(*) without FILTER the only aggregate, and nothing grouped?
pub(crate) fn counts_whole_table(op: &Op) -> bool {
    let Op::Aggregate { input, groups, sets: None, aggs, .. } = op else { return false };
    let Op::Partitions(p) = &input.op else { return false };
    let all_rows = matches!(&p.template.op, Op::SeqScan(scan) if scan.filter.is_none()) && p.order.is_none();
    all_rows && groups.is_empty() && !aggs.is_empty() && aggs.iter().all(|a| a.oid == COUNT_STAR && a.filter.is_none())
}

impl AggregateState {
    pub fn new(unary: UnaryInput) -> AggregateState {
        AggregateState {
            unary,
            is_begun: false,
            table: GroupTable::default(),
            phase: AggregatePhase::Collect,
            next: 0,
            level: 0,
            waiting_rows: None,
            left_groups: None,
            others_groups: Vec::new(),
            pending: Vec::new(),
            reading: None,
            rows_taken: 0,
            is_full: false,
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
        self.table.clear();
        self.phase = AggregatePhase::Collect;
        self.next = 0;
        self.level = 0;
        (self.waiting_rows, self.left_groups) = (None, None);
        self.others_groups.clear();
        self.pending.clear();
        self.reading = None;
        (self.rows_taken, self.is_full) = (0, false);
        self.current = None;
        self.input_done = false;
    }

    pub fn next(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::Aggregate { sets, groupings, sorted, groups, aggs, .. } = &node.op else { return Ok(()) };
        if *sorted {
            return self.next_sorted(out, rt, cx);
        }
        loop {
            match self.phase {
                AggregatePhase::Done => return Ok(()),
                AggregatePhase::Collect => {
                    match self.reading.take() {
                        Some(partition) => self.collect_partition(&partition, rt, cx)?,
                        None => {
                            self.begin(cx)?;
                            match super::parts::count_partitions(self, rt, cx)? {
                                Some(rows) => self.table.count_rows(0, rows, cx)?,
                                None => {
                                    super::parts::aggregate(self, rt, cx)?;
                                    self.collect(rt, cx)?;
                                }
                            }
                            if self.left_groups.is_some() {
                                self.leave(cx)?;
                            }
                        }
                    }
                    self.peak_bytes = self.peak_bytes.max(self.table.used_bytes());
                    self.batches += 1;
                    self.phase = AggregatePhase::Emit;
                }
                AggregatePhase::Emit => {
                    while !out.full() && self.next < self.table.len() {
                        let group = self.next;
                        self.next += 1;
                        self.table.finish(aggs, group, &mut out.data, cx)?;
                        let of_group = sets.as_ref().and_then(|sets| sets.get(self.table.set_of(group)));
                        for list in groupings {
                            let mut bits = 0i32;
                            for c in list {
                                let grouped = of_group.is_none_or(|set| set.contains(c));
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
        let rows = self.waiting_rows.take().map(|rows| rows.finish(cx.io())).transpose()?.unwrap_or_default();
        let groups = self.left_groups.take().map(|groups| groups.finish(cx.io())).transpose()?.unwrap_or_default();
        let others = std::mem::take(&mut self.others_groups);
        let level = self.level + 1;
        let (mut rows, mut groups, mut others) = (rows.into_iter(), groups.into_iter(), others.into_iter());
        loop {
            let (rows, group, others) = (rows.next(), groups.next(), others.next());
            if rows.is_none() && group.is_none() && others.is_none() {
                break;
            }
            let groups: Vec<SpillFile> = group.into_iter().chain(others.into_iter().flatten()).collect();
            let files = || rows.iter().chain(&groups);
            self.disk_bytes += files().map(SpillFile::disk_bytes).sum::<u64>();
            if files().any(|file| file.records > 0) {
                self.pending.push(WaitingPartition { groups, rows, level });
            }
        }
        self.table.clear();
        self.next = 0;
        let Some(partition) = self.pending.pop() else {
            self.phase = AggregatePhase::Done;
            return Ok(());
        };
        self.level = partition.level;
        self.reading = Some(partition);
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
        // Once rows wait, the group of one of them must not be made of those that come later, though what aggregates keep may
        // have gone to files meanwhile. If groups have left, all are read again.
        let is_closed = self.waiting_rows.is_some() && self.left_groups.is_none();
        if !self.is_full && (is_closed || !self.table.has_room(key, &values, cx.hash_mem_bytes)) {
            // A thread's part can let no rows wait, so its groups leave however many rows they have had.
            let groups_leave = self.is_part || self.rows_taken >= ROWS_OF_GROUP_MIN * self.table.len() as u64;
            if self.level == 0 && groups_leave && self.table.can_leave() {
                // Groups of the batch at hand have been looked up already: they leave after that.
                self.is_full = true;
            } else if self.is_part {
                // No other thread reads the block that this one has begun: it is read to its end.
                self.unary.input.end_with_block(true);
            } else {
                return Ok(None);
            }
        }
        Ok(Some(self.table.push(aggs, key, set, values, cx.work_mem_bytes)))
    }
    /// Does it take in any number of rows without more memory than it may have, if it is one thread's part?
    pub(crate) fn is_bounded(&self) -> bool {
        self.table.can_leave()
    }
    /// To be called when no group's number is known any more: lets the groups leave if they must.
    fn make_room(&mut self, cx: &ExecContext<'_>) -> Result<()> {
        if self.is_full { self.leave(cx) } else { Ok(()) }
    }
    fn leave(&mut self, cx: &ExecContext<'_>) -> Result<()> {
        self.peak_bytes = self.peak_bytes.max(self.table.used_bytes());
        (self.is_full, self.rows_taken) = (false, 0);
        let partitions = self.left_groups.get_or_insert_with(|| SpillPartitions::new(self.level, cx.hash_mem_bytes));
        self.table.leave(partitions, cx)
    }

    /// Without GROUP BY there is one group even if there are no rows.
    fn begin(&mut self, cx: &ExecContext<'_>) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::Aggregate { groups, sets, aggs, .. } = &node.op else { return Ok(()) };
        if !self.is_begun {
            self.table = GroupTable::new(aggs, groups.len(), sets.is_some())?;
            self.is_begun = true;
        }
        let empty = |s: &Vec<usize>| s.is_empty();
        let without: Vec<usize> = match sets {
            Some(sets) => sets.iter().enumerate().filter(|(_, s)| empty(s)).map(|(n, _)| n).collect(),
            None if groups.is_empty() => vec![0],
            None => Vec::new(),
        };
        for n in without {
            let key = [n as u8, (n >> 8) as u8];
            self.table.push(aggs, &key, n, vec![Datum::Null; groups.len()], cx.work_mem_bytes);
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
    pub fn absorb(&mut self, mut other: AggregateState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::Aggregate { aggs, .. } = &node.op else { return Ok(()) };
        if let Some(left) = other.left_groups.take() {
            let files = left.finish(cx.io())?;
            self.others_groups.resize_with(files.len(), Vec::new);
            self.others_groups.iter_mut().zip(files).for_each(|(of_partition, file)| of_partition.push(file));
            // None of this thread's groups may be given out without what the files have of it.
            self.leave(cx)?;
        }
        self.peak_bytes = self.peak_bytes.max(other.peak_bytes);
        if let Some(partitions) = &mut self.left_groups {
            return other.table.leave(partitions, cx);
        }
        self.table.absorb(other.table, aggs, cx)
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
            self.make_room(cx)?;
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
            return self.table.add_row(aggs, 0, row, args, rt, cx);
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
            self.rows_taken += 1;
            let number = match self.table.get(k.as_slice()) {
                Some(g) => Some(g),
                None => {
                    let of_group = set.map_or_else(|| values.clone(), |set| of_set(values, set));
                    self.add_group(aggs, k, n, of_group, cx)?
                }
            };
            match number {
                Some(g) => self.table.add_row(aggs, g, row, args, rt, cx)?,
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
        self.waiting_rows.get_or_insert_with(|| SpillPartitions::new(level, budget)).push(key, used, cx.io())
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

    /// Reads what had to wait in a partition: groups that had left, and rows after them.
    fn collect_partition(
        &mut self,
        partition: &WaitingPartition,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        for file in &partition.groups {
            self.collect_left(file, cx)?;
        }
        partition.rows.as_ref().map_or(Ok(()), |file| self.collect_waiting(file, rt, cx))
    }

    /// Reads groups that had left. Their keys, which begin with the number of the grouping set, are stored with them.
    fn collect_left(&mut self, file: &SpillFile, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::Aggregate { groups, aggs, .. } = &node.op else { return Ok(()) };
        let (io, budget) = (cx.io(), cx.hash_mem_bytes);
        let mut cursor = SpillCursor::new(budget_of_reader());
        let (mut record, mut count) = (Vec::new(), 0);
        while cursor.advance(file, io)? {
            count += 1;
            if count % BATCH_ROWS == 0 {
                cx.park.checkpoint()?;
            }
            record.clear();
            row::decode_self_describing(cursor.row(), self.table.record_width(), &mut record)?;
            let group = match self.table.get(cursor.key()) {
                Some(group) => Some(group),
                None => {
                    let values = record.iter_mut().take(groups.len()).map(std::mem::take).collect();
                    self.add_group(aggs, cursor.key(), set_of_key(cursor.key()), values, cx)?
                }
            };
            match group {
                Some(group) => self.table.absorb_record(group, &mut record, cx)?,
                None => {
                    let level = self.level;
                    let left = self.left_groups.get_or_insert_with(|| SpillPartitions::new(level, budget));
                    left.push_record(cursor.key(), cursor.record(), io)?;
                }
            }
        }
        Ok(())
    }

    /// Reads rows that had to wait, with which the keys of their groups are stored.
    fn collect_waiting(&mut self, file: &SpillFile, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
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
                Some(g) => Some(g),
                None => {
                    Self::read_put_off(cursor.row(), is_used.as_deref(), input.width, &mut row)?;
                    eval_groups(groups, &row, &mut values, rt, cx)?;
                    let n = set_of_key(cursor.key());
                    let set = sets.as_ref().and_then(|s| s.get(n)).unwrap_or(&whole);
                    self.add_group(aggs, cursor.key(), n, of_set(&values, set), cx)?
                }
            };
            match number {
                Some(g) => {
                    if row.is_empty() {
                        Self::read_put_off(cursor.row(), is_used.as_deref(), input.width, &mut row)?;
                    }
                    self.table.add_row(aggs, g, &row, &mut args, rt, cx)?;
                }
                None => {
                    let level = self.level;
                    let waiting = self.waiting_rows.get_or_insert_with(|| SpillPartitions::new(level, budget));
                    waiting.push_record(cursor.key(), cursor.record(), io)?;
                }
            }
        }
        Ok(())
    }

    /// Aggregates sorted input, in which the rows of a group follow one another.
    fn next_sorted(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::Aggregate { groups, types, aggs, .. } = &node.op else { return Ok(()) };
        let (mut k, mut values, mut args) = (Vec::new(), Vec::new(), Vec::new());
        while out.rows == 0 && !self.input_done {
            if !self.unary.fill(out.max, rt, cx)? {
                self.input_done = true;
                self.end_group(out, cx)?;
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
                if self.current.as_ref() != Some(&k) {
                    self.end_group(out, cx)?;
                    if !self.is_begun {
                        self.table = GroupTable::new(aggs, groups.len(), false)?;
                        self.is_begun = true;
                    }
                    self.table.clear();
                    self.table.push(aggs, &[], 0, values.clone(), cx.work_mem_bytes);
                    self.current.get_or_insert_default().clone_from(&k);
                }
                self.table.add_row(aggs, 0, row, &mut args, rt, cx)?;
            }
            self.unary.buffer = buffer;
        }
        Ok(())
    }
    /// Gives out the group at hand of a sorted input, if there is one.
    fn end_group(&mut self, out: &mut Batch, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::Aggregate { aggs, groupings, .. } = &node.op else { return Ok(()) };
        if self.current.is_some() {
            self.table.finish(aggs, 0, &mut out.data, cx)?;
            out.data.extend(groupings.iter().map(|_| Datum::Int4(0)));
            out.end_row();
        }
        Ok(())
    }
}

/// The number of the grouping set that a group's key begins with.
fn set_of_key(key: &[u8]) -> usize {
    key.first_chunk::<2>().map_or(0, |b| usize::from(u16::from_le_bytes(*b)))
}

fn eval_groups(
    groups: &[Expression],
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
