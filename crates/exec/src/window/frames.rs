//! The frames of a partition's rows.

use crate::context::{ExecContext, RunState};
use crate::expr::Evaluate;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_bind::ir::FrameMode;
use kilndb_plan::{CFrameBound, SortSpec, WindowPlan};
use kilndb_spill::{RowStore, StoreCursor};
use kilndb_types::{Datum, key, oids};
use std::cmp::Ordering;

/// A partition, or groups of peers of one that follow each other. The bounds of its groups stay in memory.
#[derive(Default)]
pub(super) struct Partition {
    pub rows: usize,
    /// Where each group of peers starts, and the end of the last one. Empty: nothing asks for groups.
    pub bounds: Vec<usize>,
    /// How many rows and groups of the partition came before.
    pub rows_before: usize,
    pub groups_before: usize,
}

impl Partition {
    /// The rows of a group: the first one and the one behind the last.
    pub fn group(&self, number: usize) -> (usize, usize) {
        let bound = |at: usize| self.bounds.get(at).copied().unwrap_or(self.rows);
        (bound(number), bound(number + 1))
    }
}

/// Do the groups of peers make a difference to the frames?
pub(super) fn frames_need_groups(plan: &WindowPlan) -> bool {
    let is_unbounded = |b: &CFrameBound| matches!(b, CFrameBound::UnboundedPreceding | CFrameBound::UnboundedFollowing);
    plan.exclude != 0 || plan.mode != FrameMode::Rows && !(is_unbounded(&plan.start) && is_unbounded(&plan.end))
}

pub(super) fn has_offset(b: &CFrameBound) -> bool {
    matches!(b, CFrameBound::Preceding(_) | CFrameBound::Following(_))
}

/// Are frames found by the values of the ORDER BY expression?
pub(super) fn frames_need_values(plan: &WindowPlan) -> bool {
    plan.mode == FrameMode::Range && (has_offset(&plan.start) || has_offset(&plan.end))
}

/// The offsets of a frame's bounds; NULL for a bound that has none.
pub(super) struct FrameOffsets {
    pub start: Datum,
    pub end: Datum,
}

impl FrameOffsets {
    pub fn of(plan: &WindowPlan, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<FrameOffsets> {
        let mut offset = |b: &CFrameBound| match b {
            CFrameBound::Preceding(e) | CFrameBound::Following(e) => e.eval(&[], rt, cx),
            _ => Ok(Datum::Null),
        };
        let (start, end) = (offset(&plan.start)?, offset(&plan.end)?);
        check_offset(&plan.start, &start, "starting")?;
        check_offset(&plan.end, &end, "ending")?;
        Ok(FrameOffsets { start, end })
    }
    /// How many rows before and behind the current one the bounds of a frame of ROWS are, at most.
    pub fn reach(&self, plan: &WindowPlan) -> (usize, usize) {
        let (mut back, mut ahead) = (0, 0);
        for (bound, offset) in [(&plan.start, &self.start), (&plan.end, &self.end)] {
            let rows = if let Datum::Int8(n) = offset { usize::try_from(*n).unwrap_or(0) } else { 0 };
            match bound {
                CFrameBound::Preceding(_) => back = back.max(rows),
                CFrameBound::Following(_) => ahead = ahead.max(rows),
                _ => {}
            }
        }
        (back, ahead)
    }
}

fn check_offset(b: &CFrameBound, d: &Datum, which: &str) -> Result<()> {
    if !has_offset(b) {
        return Ok(());
    }
    if d.is_null() {
        return Err(Error::new(sqlstate::NULL_VALUE_NOT_ALLOWED, format!("frame {which} offset must not be null")));
    }
    if matches!(d, Datum::Int8(n) if *n < 0) || matches!(d, Datum::Int4(n) if *n < 0) {
        return Err(Error::new(
            kilndb_base::SqlState::new("22013"),
            format!("frame {which} offset must not be negative"),
        ));
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FrameEnd {
    /// The frame's first row.
    Start,
    /// The row behind its last.
    End,
}

/// A row and the number of its group of peers.
#[derive(Clone, Copy)]
pub(super) struct PeerPosition {
    pub row: usize,
    pub group: usize,
}

/// The values of the ORDER BY expression of a partition's rows. Those that are NULL are together at one end.
#[derive(Default)]
pub(super) struct OrderValues {
    values: Option<RowStore>,
    /// The rows whose values are not NULL.
    known: (usize, usize),
}

impl OrderValues {
    pub fn push(&mut self, value: Datum, cx: &ExecContext<'_>) -> Result<()> {
        let values = self.values.get_or_insert_with(|| RowStore::new(1, cx.work_mem_bytes / 8));
        let row = values.len();
        if !value.is_null() {
            self.known.1 = row + 1;
        } else if self.known.1 == 0 {
            self.known.0 = row + 1;
        }
        values.push(&[value], cx.io())
    }
    /// The first row that has a value and the row behind the last.
    fn known(&self) -> (usize, usize) {
        (self.known.0, self.known.1.max(self.known.0))
    }
    fn value<'v>(&'v self, row: usize, reader: &'v mut StoreCursor, cx: &ExecContext<'_>) -> Result<&'v Datum> {
        let values = self.values.as_ref().map_or(Ok(&[][..]), |values| values.row(row, reader, cx.io()))?;
        values.first().ok_or_else(|| Error::internal("a row of a window without the value that orders it"))
    }
}

/// Finds the frames of a partition's rows, one row after the other.
pub(super) struct FrameFinder {
    pub partition: Partition,
    order: OrderValues,
    /// The row whose frame was found last.
    pub place: PeerPosition,
    /// Where the last RANGE frame started and ended: the next one's edges are mostly near.
    near: [usize; 2],
    /// Of the values that order the rows: the row's own, and those at the edges.
    own: StoreCursor,
    edges: [StoreCursor; 2],
}

/// One end of a frame.
#[derive(Clone, Copy)]
struct Edge<'a> {
    bound: &'a CFrameBound,
    offset: &'a Datum,
    which: FrameEnd,
}

impl FrameFinder {
    pub fn new(partition: Partition, order: OrderValues) -> FrameFinder {
        let near = [order.known().0; 2];
        let place = PeerPosition { row: 0, group: 0 };
        FrameFinder { partition, order, place, near, own: StoreCursor::default(), edges: Default::default() }
    }

    /// Goes on to a row behind the present one, or to itself.
    pub fn go_to(&mut self, row: usize) {
        self.place.row = row;
        while row >= self.partition.group(self.place.group).1 && row < self.partition.rows {
            self.place.group += 1;
        }
    }

    /// The row's frame: the first row and the one behind the last.
    pub fn frame(&mut self, plan: &WindowPlan, offsets: &FrameOffsets, cx: &ExecContext<'_>) -> Result<(usize, usize)> {
        let start = Edge { bound: &plan.start, offset: &offsets.start, which: FrameEnd::Start };
        let end = Edge { bound: &plan.end, offset: &offsets.end, which: FrameEnd::End };
        let start = self.edge(plan, start, cx)?;
        Ok((start, self.edge(plan, end, cx)?.max(start)))
    }

    /// The first row of the row's frame, or the row behind its last.
    fn edge(&mut self, plan: &WindowPlan, edge: Edge<'_>, cx: &ExecContext<'_>) -> Result<usize> {
        let (p, PeerPosition { row: i, group }, which) = (&self.partition, self.place, edge.which);
        let n = match edge.offset {
            Datum::Int8(n) => *n,
            _ => 0,
        };
        let n = if matches!(edge.bound, CFrameBound::Following(_)) { n } else { -n };
        Ok(match (edge.bound, plan.mode) {
            (CFrameBound::UnboundedPreceding, _) => 0,
            (CFrameBound::UnboundedFollowing, _) => p.rows,
            (CFrameBound::CurrentRow, FrameMode::Rows) => i + usize::from(which == FrameEnd::End),
            (CFrameBound::CurrentRow, _) => self.edge_of_peers(which),
            (_, FrameMode::Rows) => {
                let at = (i as i64).saturating_add(n).saturating_add(i64::from(which == FrameEnd::End));
                at.clamp(0, p.rows as i64) as usize
            }
            (_, FrameMode::Groups) => {
                let wanted = (group as i64).saturating_add(n).saturating_add(i64::from(which == FrameEnd::End));
                p.group(usize::try_from(wanted).unwrap_or(0)).0
            }
            (_, FrameMode::Range) => self.range_edge(plan, edge, cx)?,
        })
    }

    fn edge_of_peers(&self, which: FrameEnd) -> usize {
        let (start, end) = self.partition.group(self.place.group);
        if which == FrameEnd::Start { start } else { end }
    }

    /// The edge of a RANGE frame whose bound is so far from a row, in the order or against it.
    fn range_edge(&mut self, plan: &WindowPlan, edge: Edge<'_>, cx: &ExecContext<'_>) -> Result<usize> {
        let Some(k) = plan.order.first() else { return Ok(self.partition.rows) };
        let value = self.order.value(self.place.row, &mut self.own, cx)?;
        if value.is_null() {
            return Ok(self.edge_of_peers(edge.which));
        }
        let up = matches!(edge.bound, CFrameBound::Following(_)) != k.descending;
        let f = if up { plan.range_plus } else { plan.range_minus };
        let Some(f) = f else {
            return Err(Error::unsupported(
                "RANGE with offset PRECEDING/FOLLOWING is not supported for this column type",
            ));
        };
        let limit = f(&cx.eval, &[value.clone(), edge.offset.clone()])?;
        let (first, end) = self.order.known();
        let is_start = edge.which == FrameEnd::Start;
        let (order, reader) = (&self.order, &mut self.edges[usize::from(!is_start)]);
        let at = first_not((first, end), self.near[usize::from(!is_start)], |row| {
            let side = side_of(k, order.value(row, reader, cx)?, &limit);
            Ok(if is_start { side == Ordering::Less } else { side != Ordering::Greater })
        })?;
        self.near[usize::from(!is_start)] = at;
        Ok(match is_start {
            true if at >= end => self.partition.rows,
            false if at <= first => 0,
            _ => at,
        })
    }
}

/// Is a value before the limit, in the order of the rows?
fn side_of(k: &SortSpec, value: &Datum, limit: &Datum) -> Ordering {
    // A date plus an interval is a timestamp, so dates are compared as timestamps.
    let o = match (value, limit) {
        (Datum::Date(days), Datum::Timestamp(_)) if k.ty == oids::DATE => {
            key::compare(oids::TIMESTAMP, &Datum::Timestamp(midnight(*days)), limit)
        }
        (Datum::Int4(a), Datum::Int4(b)) => a.cmp(b),
        (Datum::Int8(a), Datum::Int8(b)) => a.cmp(b),
        _ => key::compare(k.ty, value, limit),
    };
    if k.descending { o.reverse() } else { o }
}

/// The first row that does not meet the test, which all rows meet up to some row, and none from there on. It is looked for
/// from the row `near` on in steps that double, so that a near one is found soon.
fn first_not((first, end): (usize, usize), near: usize, mut test: impl FnMut(usize) -> Result<bool>) -> Result<usize> {
    let near = near.clamp(first, end);
    let (mut low, mut high) = (first, near);
    if near == first || test(near - 1)? {
        (low, high) = (near, end);
        let mut step = 1;
        while low + step < end {
            if !test(low + step - 1)? {
                high = low + step - 1;
                break;
            }
            low += step;
            step *= 2;
        }
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if test(middle)? { low = middle + 1 } else { high = middle }
    }
    Ok(low)
}

/// Microseconds of a date's beginning; the infinities stay what they are.
fn midnight(days: i32) -> i64 {
    match days {
        i32::MIN => i64::MIN,
        i32::MAX => i64::MAX,
        days => i64::from(days) * 86_400_000_000,
    }
}

#[cfg(test)]
mod tests {
    use super::first_not;

    #[test]
    fn an_edge_is_found_from_everywhere() {
        for (first, end) in [(0, 0), (0, 1), (3, 40)] {
            for edge in first..=end {
                for near in 0..end + 3 {
                    let found = first_not((first, end), near, |row| Ok(row < edge)).unwrap();
                    assert_eq!(found, edge, "{first} {end} {near}");
                }
            }
        }
    }
}
