//! The values of sequences, which are in storage cells outside of transactions.
//!
//! Cell format, little-endian: last value i64, is_called u8, values logged ahead i64.

use kilndb_base::{Error, Lsn, Result, sqlstate};
use kilndb_catalog::SequenceOptions;
use kilndb_storage::Relation;

/// Values written to the log ahead of use, so that not every nextval() is logged.
const LOGGED_AHEAD: i64 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceState {
    pub last_value: i64,
    pub is_called: bool,
    pub log_count: i64,
}

impl SequenceState {
    pub fn decode(bytes: &[u8]) -> Result<SequenceState> {
        let mut reader = kilndb_base::bytes::ByteReader::new(bytes);
        match (reader.i64(), reader.u8(), reader.i64()) {
            (Some(last_value), Some(called), Some(log_count)) => {
                Ok(SequenceState { last_value, is_called: called != 0, log_count })
            }
            _ => Err(Error::corrupted("a sequence's cell is too short")),
        }
    }
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.clear();
        bytes.extend_from_slice(&self.last_value.to_le_bytes());
        bytes.push(u8::from(self.is_called));
        bytes.extend_from_slice(&self.log_count.to_le_bytes());
    }
}

/// Values that a session has taken from a sequence with CACHE and not used yet.
pub struct SequenceReserve {
    pub next: i64,
    pub left: i64,
    pub step: i64,
    /// How far the log must be on disk before anybody may be told of them.
    pub lsn: Lsn,
}

/// Takes `options.cache` values; returns the first and how many follow it, and how far the log must be on disk before
/// anybody may be told of them.
pub fn take_values(cell: &Relation, name: &str, o: &SequenceOptions) -> Result<((i64, i64), Lsn)> {
    cell.cell_modify_ahead(&mut |bytes, checkpointed| {
        let state = SequenceState::decode(bytes)?;
        let next = |value: i64| match value.checked_add(o.increment) {
            Some(v) if v >= o.min && v <= o.max => Some(v),
            _ if o.cycle => Some(if o.increment > 0 { o.min } else { o.max }),
            _ => None,
        };
        let first = if state.is_called { next(state.last_value) } else { Some(state.last_value) };
        let Some(first) = first else {
            let (bound, limit) = if o.increment > 0 { ("maximum", o.max) } else { ("minimum", o.min) };
            return Err(Error::new(
                sqlstate::SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
                format!("nextval: reached {bound} value of sequence \"{name}\" ({limit})"),
            ));
        };
        let mut last = first;
        let mut taken = 1;
        while taken < o.cache {
            match last.checked_add(o.increment) {
                Some(v) if v >= o.min && v <= o.max => last = v,
                _ => break,
            }
            taken += 1;
        }
        let log_now = checkpointed || state.log_count < taken || !state.is_called;
        if log_now {
            // What the log says is where a crash would go on: ahead of everything given out.
            let mut ahead = last;
            let mut count = 0;
            while count < LOGGED_AHEAD {
                match ahead.checked_add(o.increment) {
                    Some(v) if v >= o.min && v <= o.max => ahead = v,
                    _ => break,
                }
                count += 1;
            }
            SequenceState { last_value: last, is_called: true, log_count: count }.encode(bytes);
            let mut logged = Vec::new();
            SequenceState { last_value: ahead, is_called: true, log_count: 0 }.encode(&mut logged);
            return Ok(((first, taken - 1), Some(logged)));
        }
        SequenceState { last_value: last, is_called: true, log_count: state.log_count - taken }.encode(bytes);
        Ok(((first, taken - 1), None))
    })
}
