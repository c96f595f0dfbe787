//! The functions of a window, and those that are no aggregates.

use super::aggregates::FrameAggregate;
use super::frames::{Partition, PeerPosition};
use super::rows::PartitionRows;
use crate::context::*;
use crate::expr::Evaluate;
use kilndb_base::{Error, Result};
use kilndb_plan::{WindowFn, WindowPlan};
use kilndb_spill::StoreCursor;
use kilndb_types::Datum;
use kilndb_types::functions::{FunctionKind, descriptor::WindowFunction};

/// The row that the functions are computed for.
pub(super) struct CurrentRow<'a> {
    pub plan: &'a WindowPlan,
    pub partition: &'a Partition,
    pub rows: &'a PartitionRows,
    pub place: PeerPosition,
    /// The row's frame: the first row and the one behind the last.
    pub frame: (usize, usize),
}

/// What is kept of a function from one row to the next.
pub(super) enum FunctionState {
    Aggregate(FrameAggregate),
    Other(FunctionReaders),
}

impl FunctionState {
    pub fn new(plan: &WindowPlan, f: &WindowFn) -> FunctionState {
        match f.is_aggregate {
            true => FunctionState::Aggregate(FrameAggregate::new(plan, f)),
            false => FunctionState::Other(FunctionReaders::default()),
        }
    }
    /// The first `rows` rows are gone.
    pub fn renumber(&mut self, rows: usize) {
        if let FunctionState::Aggregate(aggregate) = self {
            aggregate.renumber(rows);
        }
    }
    pub fn value(
        &mut self,
        f: &WindowFn,
        current: &CurrentRow<'_>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<Datum> {
        match self {
            FunctionState::Aggregate(aggregate) => aggregate.value(f, current, rt, cx),
            FunctionState::Other(readers) => current.function(f, readers, rt, cx),
        }
    }
}

/// What a function reads its arguments with: of the current row, and of others.
#[derive(Default)]
pub(super) struct FunctionReaders {
    own: StoreCursor,
    other: StoreCursor,
}

impl CurrentRow<'_> {
    /// Does EXCLUDE leave that row out of the frame? 1: the row itself, 2: its group, 3: its peers.
    pub fn excludes(&self, other: usize) -> bool {
        if self.plan.exclude == 0 {
            return false;
        }
        let (start, end) = self.partition.group(self.place.group);
        let is_peer = other >= start && other < end;
        match self.plan.exclude {
            1 => other == self.place.row,
            2 => is_peer,
            3 => is_peer && other != self.place.row,
            _ => false,
        }
    }

    /// The value of a function that is no aggregate.
    fn function(
        &self,
        f: &WindowFn,
        readers: &mut FunctionReaders,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<Datum> {
        let CurrentRow { plan, partition: p, place: PeerPosition { row: i, group }, frame, .. } = *self;
        let total = p.rows;
        let (rank, peer_end) = p.group(group);
        let mut arg = |n: usize, at: usize, rt: &mut RunState, cx: &mut ExecContext<'_>| -> Result<Datum> {
            let reader = if at == i { &mut readers.own } else { &mut readers.other };
            match f.args.get(n) {
                Some(e) => e.eval(self.rows.row(at, reader, cx.io())?, rt, cx),
                None => Ok(Datum::Null),
            }
        };
        let Some(FunctionKind::Window(function)) = f.function else {
            return Err(Error::unsupported(format!("window function {} is not supported", f.name)));
        };
        use WindowFunction as W;
        Ok(match function {
            W::RowNumber => Datum::Int8((p.rows_before + i + 1) as i64),
            W::Rank => Datum::Int8((p.rows_before + rank + 1) as i64),
            W::DenseRank => Datum::Int8((p.groups_before + group + 1) as i64),
            W::PercentRank => Datum::Float8(if total <= 1 { 0.0 } else { rank as f64 / (total - 1) as f64 }),
            W::CumeDist => Datum::Float8(peer_end as f64 / total as f64),
            W::Ntile => {
                let Datum::Int4(buckets) = arg(0, i, rt, cx)? else { return Ok(Datum::Null) };
                if buckets <= 0 {
                    return Err(Error::new(
                        kilndb_base::SqlState::new("22014"),
                        "argument of ntile must be greater than zero",
                    ));
                }
                let (buckets, at) = (buckets as usize, i);
                let (small, rest) = (total / buckets, total % buckets);
                let wide = rest * (small + 1);
                let n = if at < wide { at / (small + 1) } else { rest + (at - wide) / small.max(1) };
                Datum::Int4(n as i32 + 1)
            }
            W::Lag
            | W::LagWithOffset
            | W::LagWithOffsetAndDefault
            | W::Lead
            | W::LeadWithOffset
            | W::LeadWithOffsetAndDefault => {
                let lag = matches!(function, W::Lag | W::LagWithOffset | W::LagWithOffsetAndDefault);
                let offset = if f.args.len() > 1 {
                    match arg(1, i, rt, cx)? {
                        Datum::Int4(n) => i64::from(n),
                        _ => return Ok(Datum::Null),
                    }
                } else {
                    1
                };
                let at = i as i64 + if lag { -offset } else { offset };
                if at >= 0 && at < total as i64 { arg(0, at as usize, rt, cx)? } else { arg(2, i, rt, cx)? }
            }
            W::FirstValue | W::LastValue | W::NthValue => {
                let mut list = (frame.0..frame.1).filter(|j| !self.excludes(*j));
                let at = match function {
                    W::FirstValue => list.next(),
                    W::LastValue => list.next_back(),
                    _ => match arg(1, i, rt, cx)? {
                        Datum::Int4(n) if n > 0 && plan.exclude == 0 => {
                            Some(frame.0 + n as usize - 1).filter(|at| *at < frame.1)
                        }
                        Datum::Int4(n) if n > 0 => list.nth(n as usize - 1),
                        Datum::Int4(_) => {
                            return Err(Error::new(
                                kilndb_base::SqlState::new("22016"),
                                "argument of nth_value must be greater than zero",
                            ));
                        }
                        _ => None,
                    },
                };
                match at {
                    Some(j) => arg(0, j, rt, cx)?,
                    None => Datum::Null,
                }
            }
        })
    }
}
