//! Sorts, with a limit on the rows kept where a LIMIT follows.

mod rows;
mod top;

use self::rows::{SortWork, SortedRows};
use super::context::*;
use super::parts::make_together;
use super::state::UnaryInput;
use kilndb_base::{Oid, Result};
use kilndb_plan::{Op, SortSpec};
use kilndb_types::{Datum, key, oids};
use std::cmp::Ordering;

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
    sorted: Option<SortedRows>,
    /// The number of rows that the consumer takes at most.
    bound: Option<u64>,
    /// How many of them it has been given.
    given: u64,
    /// The next row of the input's batch.
    position: usize,
    input_done: bool,
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
            sorted: None,
            bound: None,
            given: 0,
            position: 0,
            input_done: false,
            report: GroupsReport::default(),
        }
    }
    pub(crate) fn rescan(&mut self, rt: &mut RunState) {
        self.unary.rescan(rt);
        (self.sorted, self.input_done) = (None, false);
        (self.position, self.given) = (0, 0);
    }
    /// Says that no more than `rows` rows will be asked for.
    pub(crate) fn set_bound(&mut self, rows: Option<u64>) {
        self.bound = rows;
    }

    /// Sorts what is left of the input, or the next groups of it.
    fn sort(&mut self, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::Sort { keys, presorted, .. } = &node.op else { return Ok(()) };
        let bound = self.bound.map(|n| n.saturating_sub(self.given));
        let sorted = match *presorted {
            0 => self.sort_all(keys, bound, rt, cx)?,
            presorted => self.sort_groups((keys, presorted), bound, rt, cx)?,
        };
        let report = if *presorted > 0 { self.report.add(sorted.report()) } else { sorted.report() };
        rt.report(node.id, report);
        self.sorted = Some(sorted);
        Ok(())
    }

    /// Sorts all rows, together with helpers if the plan allows and there are some.
    fn sort_all(
        &mut self,
        keys: &[SortSpec],
        bound: Option<u64>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<SortedRows> {
        let UnaryInput { node, input, buffer } = &mut self.unary;
        self.input_done = true;
        if let Some(work) = SortWork::of(node, bound, cx) {
            let is_used = vec![true; buffer.width];
            if let Some(sorted) = make_together((input, &is_used, node.id), work, rt, cx)? {
                return Ok(sorted);
            }
        }
        let mut sorted = SortedRows::new(bound, cx.work_mem_bytes);
        sorted.take_in((keys, 0), (input, buffer.width), rt, cx)?;
        sorted.finish(cx.io())?;
        Ok(sorted)
    }

    /// Sorts the next groups of rows that have the first keys alike.
    fn sort_groups(
        &mut self,
        (keys, presorted): (&[SortSpec], usize),
        bound: Option<u64>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<SortedRows> {
        let io = cx.io();
        let mut sorted = SortedRows::new(bound, cx.work_mem_bytes);
        let mut group: Vec<u8> = Vec::new();
        // Whoever wants few rows does not want many more of the input.
        let max = match bound {
            Some(n) => usize::try_from(n).unwrap_or(BATCH_ROWS).clamp(SMALL_GROUP as usize, BATCH_ROWS),
            None => BATCH_ROWS,
        };
        let enough = SMALL_GROUP.min(bound.unwrap_or(SMALL_GROUP)).max(1);
        loop {
            if self.position >= self.unary.buffer.rows {
                self.position = 0;
                if !self.unary.fill(max, rt, cx)? {
                    self.unary.buffer.clear();
                    self.input_done = true;
                    break;
                }
            }
            let row = self.unary.buffer.row(self.position);
            let count = sorted.count();
            let (key, beginning) = sorted.make_key((keys, presorted), row, rt, cx)?;
            if count == 0 || group != key[..beginning] {
                if count >= enough {
                    break;
                }
                group.clear();
                group.extend_from_slice(&key[..beginning]);
            }
            sorted.push(row, 0, io)?;
            self.position += 1;
        }
        sorted.finish(io)?;
        Ok(sorted)
    }

    pub fn next(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        if self.sorted.is_none() {
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
        let Some(sorted) = &mut self.sorted else { return Ok(()) };
        while !out.full() && sorted.next(out, cx.io())? {
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
