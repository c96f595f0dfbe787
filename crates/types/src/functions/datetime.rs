//! placeholder
use crate::Interval;
use crate::datetime::zone::Zone;
use kilndb_base::Result;
pub(super) fn timestamptz_add(ts: i64, _i: &Interval, _z: &Zone) -> Result<i64> { Ok(ts) }
