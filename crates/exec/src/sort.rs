//! Sorts, with a limit on the rows kept where a LIMIT follows.

use super::context::*;
use super::expr::Evaluate;
use super::state::UnaryInput;
use kilndb_base::{Oid, Result};
use kilndb_plan::expression::CExpr;
use kilndb_plan::{Op, SortSpec};
use kilndb_spill::{Sorter, SpillIo, row_bytes};
use kilndb_types::{Datum, key, row};
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
                (Datum::Text(x), Datum::Text(y)) => x.as_bytes().cmp(y.as_bytes()),
                _ => key::compare(ty, a, b),
            };
            if descending { o.reverse() } else { o }
        }
    }
}

pub(crate) fn compare_keys(keys: &[SortSpec], a: &[Datum], b: &[Datum]) -> Ordering {
    for ((k, x), y) in keys.iter().zip(a).zip(b) {
        let o = compare_values(k.ty, x, y, k.descending, k.nulls_first);
        if o.is_ne() {
            return o;
        }
    }
    Ordering::Equal
}

/// Input sorted by keys: all of it, or (top-N) the first rows only.
pub(crate) struct SortState {
    pub unary: UnaryInput,
    sorter: Option<Sorter>,
    top: Option<TopRows>,
    /// The number of rows that the consumer takes at most.
    bound: Option<u64>,
    sorted: bool,
}

impl SortState {
    pub fn new(unary: UnaryInput) -> SortState {
        SortState { unary, sorter: None, top: None, bound: None, sorted: false }
    }
    pub(crate) fn rescan(&mut self, rt: &mut RunState) {
        self.unary.rescan(rt);
        self.sorter = None;
        self.top = None;
        self.sorted = false;
    }
    /// Says that no more than `rows` rows will be asked for.
    pub(crate) fn set_bound(&mut self, rows: Option<u64>) {
        self.bound = rows;
    }

    fn sort(&mut self, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::Sort { keys, .. } = &node.op else { return Ok(()) };
        let io = cx.io();
        let mut top = self.bound.map(|n| TopRows::new(n, cx.work_mem_bytes));
        let mut sorter = Sorter::new(cx.work_mem_bytes);
        let mut key = Vec::new();
        let mut count = 0u64;
        while self.unary.fill(BATCH_ROWS, rt, cx)? {
            for i in 0..self.unary.buffer.rows {
                let row = self.unary.buffer.row(i);
                key.clear();
                for k in keys {
                    let d = match &k.expr {
                        CExpr::Slot(s) => &row[*s],
                        e => &e.eval(row, rt, cx)?,
                    };
                    key::encode_key(k.ty, d, k.descending, k.nulls_first, &mut key)?;
                }
                count += 1;
                match &mut top {
                    Some(t) => {
                        if !t.offer(&key, row) {
                            t.give_to(&mut sorter, io)?;
                            top = None;
                        }
                    }
                    None => sorter.push(&key, row, io)?,
                }
            }
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
        }
        Ok(())
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
