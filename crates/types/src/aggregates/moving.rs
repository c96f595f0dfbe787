//! Aggregates that keep more than their result, so that rows can be taken out again as a window's frame moves.

use super::{Accumulator, PartialAggregate, first, mixed};
use crate::{Datum, EvalContext, key};
use kilndb_base::{Error, Oid, Result};
use std::cmp::Ordering;
use std::collections::VecDeque;

/// bool_and and bool_or.
struct BoolCounts {
    is_or: bool,
    count: i64,
    /// How many of the values are true.
    met: i64,
}
pub(super) fn bools(is_or: bool) -> Box<dyn Accumulator> {
    Box::new(BoolCounts { is_or, count: 0, met: 0 })
}
fn truth(args: &[Datum]) -> Result<Option<bool>> {
    match first(args) {
        Datum::Null => Ok(None),
        Datum::Bool(value) => Ok(Some(*value)),
        _ => Err(Error::internal("a boolean aggregate over values of another type")),
    }
}
impl BoolCounts {
    fn value(&self) -> Datum {
        match self.count {
            0 => Datum::Null,
            count => Datum::Bool(if self.is_or { self.met > 0 } else { self.met == count }),
        }
    }
}
impl Accumulator for BoolCounts {
    fn add(&mut self, args: &[Datum], _: &EvalContext) -> Result<()> {
        if let Some(value) = truth(args)? {
            self.count += 1;
            self.met += i64::from(value);
        }
        Ok(())
    }
    fn remove(&mut self, args: &[Datum], _: &EvalContext) -> Result<bool> {
        if let Some(value) = truth(args)? {
            self.count -= 1;
            self.met -= i64::from(value);
        }
        Ok(true)
    }
    fn finish(&mut self, _: &EvalContext) -> Result<Datum> {
        Ok(self.value())
    }
    fn partial(&self) -> Option<PartialAggregate> {
        Some(PartialAggregate::Value(self.value()))
    }
    fn absorb(&mut self, other: PartialAggregate, ctx: &EvalContext) -> Result<()> {
        let PartialAggregate::Value(value) = other else { return Err(mixed()) };
        self.add(&[value], ctx)
    }
}

/// min, max and any_value of a frame that moves: only values that can still become the result are kept, so the first one
/// is the result, and each value comes and goes once.
struct MovingExtreme {
    keep: fn(Ordering) -> bool,
    type_oid: Oid,
    /// The values, each with its number.
    candidates: VecDeque<(u64, Datum)>,
    /// How many values have come, and how many of them have gone.
    added: u64,
    removed: u64,
}
/// `keep` says of the order of a later value and an earlier one whether the later one takes its place.
pub(super) fn extreme(keep: fn(Ordering) -> bool, type_oid: Oid) -> Box<dyn Accumulator> {
    Box::new(MovingExtreme { keep, type_oid, candidates: VecDeque::new(), added: 0, removed: 0 })
}
impl Accumulator for MovingExtreme {
    fn add(&mut self, args: &[Datum], _: &EvalContext) -> Result<()> {
        let v = first(args);
        if v.is_null() {
            return Ok(());
        }
        while let Some((_, earlier)) = self.candidates.back()
            && (self.keep)(key::compare(self.type_oid, v, earlier))
        {
            self.candidates.pop_back();
        }
        self.candidates.push_back((self.added, v.clone()));
        self.added += 1;
        Ok(())
    }
    fn remove(&mut self, args: &[Datum], _: &EvalContext) -> Result<bool> {
        if !first(args).is_null() {
            if self.candidates.front().is_some_and(|(number, _)| *number == self.removed) {
                self.candidates.pop_front();
            }
            self.removed += 1;
        }
        Ok(true)
    }
    fn finish(&mut self, _: &EvalContext) -> Result<Datum> {
        Ok(self.candidates.front().map_or(Datum::Null, |(_, value)| value.clone()))
    }
}
