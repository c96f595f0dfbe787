//! Sorts, with a limit on the rows kept where a LIMIT follows.

use super::columns::RowInput;
use super::context::*;
use super::expr::Evaluate;
use super::state::UnaryInput;
use kilndb_base::{Oid, Result};
use kilndb_plan::expression::CExpr;
use kilndb_plan::{Op, SortSpec};
use kilndb_spill::{Sorter, SpillIo, row_bytes};
use kilndb_types::{Datum, key, oids, row};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

pub fn compare_values(ty: Oid, a: &Datum, b: &Datum, descending: bool, nulls_first: bool) -> Ordering {
    match (a.is_null(), b.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) => {
            if nulls_first {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        }
        (false, true) => {
            if nulls_first {
                Ordering::Greater
            } else {
                Ordering::Less
            }
        }
        (false, false) => {
            let o = match (a, b) {
                (Datum::Int4(x), Datum::Int4(y)) => x.cmp(y),
                (Datum::Int8(x), Datum::Int8(y)) => x.cmp(y),
                (Datum::Text(x), Datum::Text(y)) if ty == oids::TEXT => x.as_bytes().cmp(y.as_bytes()),
                _ => key::compare(ty, a, b),
            };
            if descending { o.reverse() } else { o }
        }
    }
}

/// Input sorted by keys: all of it, or (top-N) the first rows only. Of input that is sorted by the first keys already, as
/// many rows at a time as have these keys alike.
pub(crate) struct SortState {
    pub unary: UnaryInput,
    /// How the input is read, unless its order is wanted in groups.
    input: RowInput,
    sorter: Option<Sorter>,
    top: Option<TopRows>,
    /// The number of rows that the consumer takes at most.
    bound: Option<u64>,
    /// How many of them it has been given.
    given: u64,
    sorted: bool,
    /// The next row of the input's batch.
    position: usize,
    input_done: bool,
    key: Vec<u8>,
    report: GroupsReport,
}

/// What is told of a sort in groups.
#[derive(Default)]
struct GroupsReport {
    groups: u64,
    bytes: u64,
    peak: u64,
    on_disk: bool,
}

/// Groups of fewer rows are sorted together.
const SMALL_GROUP: u64 = 32;

impl SortState {
    pub fn new(unary: UnaryInput) -> SortState {
        SortState {
            unary,
            input: RowInput::default(),
            sorter: None,
            top: None,
            bound: None,
            given: 0,
            sorted: false,
            position: 0,
            input_done: false,
            key: Vec::new(),
            report: GroupsReport::default(),
        }
    }
    pub(crate) fn rescan(&mut self, rt: &mut RunState) {
        self.unary.rescan(rt);
        self.input = RowInput::default();
        self.sorter = None;
        self.top = None;
        (self.sorted, self.input_done) = (false, false);
        (self.position, self.given) = (0, 0);
    }
    /// Says that no more than `rows` rows will be asked for.
    pub(crate) fn set_bound(&mut self, rows: Option<u64>) {
        self.bound = rows;
    }

    /// The key of the present row in `key`; the length of the part that the input is sorted by.
    fn read_key(
        &mut self,
        keys: &[SortSpec],
        presorted: usize,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<usize> {
        let row = self.unary.buffer.row(self.position);
        let mut beginning = 0;
        self.key.clear();
        for (n, k) in keys.iter().enumerate() {
            let d = match k.expr.tree() {
                CExpr::Slot(s) => &row[*s],
                _ => &k.expr.eval(row, rt, cx)?,
            };
            key::encode_key(k.ty, d, k.descending, k.nulls_first, &mut self.key)?;
            if n + 1 == presorted {
                beginning = self.key.len();
            }
        }
        Ok(beginning)
    }

    /// Sorts what is left of the input, or the next groups of it.
    fn sort(&mut self, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::Sort { keys, presorted, .. } = &node.op else { return Ok(()) };
        let io = cx.io();
        let bound = self.bound.map(|n| n.saturating_sub(self.given));
        let mut top = bound.map(|n| TopRows::new(n, cx.work_mem_bytes));
        let mut sorter = Sorter::new(cx.work_mem_bytes);
        let mut group: Vec<u8> = Vec::new();
        let mut count = 0u64;
        // Whoever wants few rows does not want many more of the input.
        let max = match bound {
            Some(n) if *presorted > 0 => {
                usize::try_from(n).unwrap_or(BATCH_ROWS).clamp(SMALL_GROUP as usize, BATCH_ROWS)
            }
            _ => BATCH_ROWS,
        };
        loop {
            if self.position >= self.unary.buffer.rows {
                self.position = 0;
                let UnaryInput { input, buffer, .. } = &mut self.unary;
                let is_filled = match *presorted {
                    0 => self.input.fill((buffer, max), (input, node.id), rt, cx)?,
                    _ => self.unary.fill(max, rt, cx)?,
                };
                if !is_filled {
                    self.unary.buffer.clear();
                    self.input_done = true;
                    break;
                }
            }
            let beginning = self.read_key(keys, *presorted, rt, cx)?;
            if *presorted > 0 && (count == 0 || group != self.key[..beginning]) {
                if count >= SMALL_GROUP.min(bound.unwrap_or(SMALL_GROUP)).max(1) {
                    break;
                }
                group.clear();
                group.extend_from_slice(&self.key[..beginning]);
            }
            let row = self.unary.buffer.row(self.position);
            count += 1;
            match &mut top {
                Some(t) => {
                    if !t.offer(&self.key, row) {
                        t.give_to(&mut sorter, io)?;
                        top = None;
                    }
                }
                None => sorter.push(&self.key, row, io)?,
            }
            self.position += 1;
        }
        let report = match &mut top {
            Some(t) => {
                t.finish();
                let method = if count > t.limit.saturating_mul(2) { "top-N heapsort" } else { "quicksort" };
                NodeReport::Sort { method, on_disk: false, bytes: t.bytes as u64 }
            }
            None => {
                sorter.finish(io)?;
                match sorter.is_external() {
                    true => NodeReport::Sort { method: "external merge", on_disk: true, bytes: sorter.disk_bytes },
                    false => NodeReport::Sort { method: "quicksort", on_disk: false, bytes: sorter.peak_bytes as u64 },
                }
            }
        };
        let report = if *presorted > 0 { self.report.add(report) } else { report };
        rt.report(node.id, report);
        self.sorter = top.is_none().then_some(sorter);
        self.top = top;
        self.sorted = true;
        Ok(())
    }

    pub fn next(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        if !self.sorted {
            self.sort(rt, cx)?;
        }
        self.hand_out(out, cx)?;
        while !out.full() && !self.input_done && self.bound.is_none_or(|n| self.given < n) {
            self.sort(rt, cx)?;
            self.hand_out(out, cx)?;
        }
        Ok(())
    }

    fn hand_out(&mut self, out: &mut Batch, cx: &mut ExecContext<'_>) -> Result<()> {
        let io = cx.io();
        while !out.full() {
            if let Some(top) = &mut self.top {
                let Some(row) = top.take() else { break };
                out.data.extend(row);
            } else if let Some(sorter) = &mut self.sorter {
                let Some((_, bytes)) = sorter.advance(io)? else { break };
                row::decode_self_describing(bytes, out.width, &mut out.data)?;
            }
            out.end_row();
            self.given += 1;
        }
        Ok(())
    }
}

impl GroupsReport {
    /// Adds the sort of some groups.
    fn add(&mut self, report: NodeReport) -> NodeReport {
        if let NodeReport::Sort { on_disk, bytes, .. } = report {
            self.groups += 1;
            self.bytes += bytes;
            self.peak = self.peak.max(bytes);
            self.on_disk |= on_disk;
        }
        NodeReport::IncrementalSort {
            groups: self.groups,
            method: if self.on_disk { "external merge" } else { "quicksort" },
            average: self.bytes / self.groups.max(1),
            peak: self.peak,
        }
    }
}

/// A row of the first N, by its key and then its arrival.
struct TopRow {
    key: Vec<u8>,
    number: u64,
    row: Vec<Datum>,
}

impl PartialEq for TopRow {
    fn eq(&self, other: &TopRow) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for TopRow {}
impl PartialOrd for TopRow {
    fn partial_cmp(&self, other: &TopRow) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for TopRow {
    fn cmp(&self, other: &TopRow) -> Ordering {
        self.key.cmp(&other.key).then(self.number.cmp(&other.number))
    }
}

/// The first rows of a sort, in a heap whose top is the last of them.
struct TopRows {
    limit: u64,
    budget_bytes: usize,
    bytes: usize,
    count: u64,
    heap: BinaryHeap<TopRow>,
    /// The rows after the end of the input, the last one first.
    sorted: Vec<TopRow>,
}

impl TopRows {
    fn new(limit: u64, budget_bytes: usize) -> TopRows {
        TopRows { limit, budget_bytes, bytes: 0, count: 0, heap: BinaryHeap::new(), sorted: Vec::new() }
    }
    /// Takes the row if it belongs to the first ones; false if these do not fit the budget any more.
    fn offer(&mut self, key: &[u8], row: &[Datum]) -> bool {
        self.count += 1;
        if self.heap.len() as u64 >= self.limit {
            // A later row of equal key comes after those that are there.
            let Some(mut last) = self.heap.peek_mut() else { return true };
            if key >= last.key.as_slice() {
                return true;
            }
            self.bytes -= row_bytes(&last.row) + last.key.len();
            last.key.clear();
            last.key.extend_from_slice(key);
            last.row.clear();
            last.row.extend_from_slice(row);
            last.number = self.count;
        } else {
            self.bytes += size_of::<TopRow>();
            self.heap.push(TopRow { key: key.to_vec(), number: self.count, row: row.to_vec() });
        }
        self.bytes += row_bytes(row) + key.len();
        self.bytes <= self.budget_bytes
    }
    /// Hands all rows over, in the order of their arrival.
    fn give_to(&mut self, sorter: &mut Sorter, io: SpillIo<'_>) -> Result<()> {
        let mut rows = std::mem::take(&mut self.heap).into_vec();
        rows.sort_unstable_by_key(|r| r.number);
        rows.iter().try_for_each(|r| sorter.push(&r.key, &r.row, io))
    }
    fn finish(&mut self) {
        self.sorted = std::mem::take(&mut self.heap).into_sorted_vec();
        self.sorted.reverse();
    }
    fn take(&mut self) -> Option<Vec<Datum>> {
        self.sorted.pop().map(|r| r.row)
    }
}
