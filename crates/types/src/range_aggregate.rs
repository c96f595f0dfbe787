//! range_agg and range_intersect_agg.

use crate::aggregates::{Accumulator, PartialAggregate, aggregates};
use crate::functions::get;
use crate::range::{self, Multirange, Range, RangeType};
use crate::{Datum, EvalContext};
use kilndb_base::Result;

aggregates! {
    fn range_agg(_types; 4301, 6227) = Box::new(Union::default());
    fn range_intersect_agg(_types; 4450, 4389) = Box::new(Intersection::default());
}

#[derive(Default)]
struct Union {
    /// The range type of the first value; None while there was none.
    ty: Option<RangeType>,
    ranges: Vec<Range>,
}
impl Accumulator for Union {
    fn add(&mut self, args: &[Datum], _: &EvalContext) -> Result<()> {
        match args.first() {
            None | Some(Datum::Null) => {}
            Some(Datum::Multirange(v)) => {
                self.ty = Some(v.ty);
                range::append(&mut self.ranges, &v.ranges)?;
            }
            Some(value) => {
                let range = get::range(value)?;
                self.ty = Some(range.ty);
                self.ranges.push(range.clone());
            }
        }
        Ok(())
    }
    fn finish(&mut self, _: &EvalContext) -> Result<Datum> {
        let Some(ty) = self.ty else { return Ok(Datum::Null) };
        let union = Multirange::make(ty, std::mem::take(&mut self.ranges))?;
        // More ranges may come, in a window.
        self.ranges.clone_from(&union.ranges);
        Ok(union.datum())
    }
}

#[derive(Default)]
struct Intersection {
    value: Datum,
}
impl Accumulator for Intersection {
    fn add(&mut self, args: &[Datum], _: &EvalContext) -> Result<()> {
        self.value = match (&self.value, args.first()) {
            (_, None | Some(Datum::Null)) => return Ok(()),
            (Datum::Null, Some(value)) => value.clone(),
            (Datum::Multirange(a), Some(Datum::Multirange(b))) => a.intersect(b)?.datum(),
            (a, Some(b)) => get::range(a)?.intersect(get::range(b)?)?.datum(),
        };
        Ok(())
    }
    fn finish(&mut self, _: &EvalContext) -> Result<Datum> {
        Ok(self.value.clone())
    }
    fn partial(&self) -> Option<PartialAggregate> {
        Some(PartialAggregate::Value(self.value.clone()))
    }
    fn absorb(&mut self, other: PartialAggregate, ctx: &EvalContext) -> Result<()> {
        match other {
            PartialAggregate::Value(value) => self.add(&[value], ctx),
            _ => Err(kilndb_base::Error::internal("parts of different aggregates")),
        }
    }
}
