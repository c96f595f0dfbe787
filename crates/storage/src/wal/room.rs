//! Room for what the log is about to get: the next segment's file is made before it is needed, and where the disk is too
//! full for that, changes are refused while there is still room to take back what is under way.
//!
//! Must not know: who writes, what the records mean.

use super::SEGMENT;
use super::segment::Segments;
use kilndb_base::{Error, Result, sqlstate};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::*};

/// Nothing is refused.
const PLENTY: u8 = 0;
/// What adds data is refused.
const LITTLE: u8 = 1;
/// All changes are refused; what is left is for rollbacks.
const NEXT_TO_NONE: u8 = 2;

/// What a change does to the space that is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpaceUse {
    Takes,
    /// It deletes or drops, and so makes room.
    Frees,
}

#[derive(Default)]
pub struct LogRoom {
    level: AtomicU8,
    /// The segment whose file was seen last, as its first LSN.
    prepared: AtomicU64,
    cause: Mutex<Option<Error>>,
}

impl LogRoom {
    /// Err: the disk is so full that the log may not get this change.
    #[inline]
    pub fn check(&self, what: SpaceUse) -> Result<()> {
        let level = self.level.load(Relaxed);
        if level == PLENTY || level == LITTLE && what == SpaceUse::Frees { Ok(()) } else { self.refuse() }
    }
    #[cold]
    fn refuse(&self) -> Result<()> {
        match crate::lock(&self.cause).clone() {
            Some(cause) => Err(cause.with_hint("Free disk space, or drop tables; what is read is not affected.")),
            None => Ok(()),
        }
    }
    pub fn is_short(&self) -> bool {
        self.level.load(Relaxed) != PLENTY
    }
    /// Makes the file behind the one that the log has come to, once a quarter of that is used.
    pub fn prepare(&self, segments: &Segments, insert_lsn: u64) {
        let next = (insert_lsn / SEGMENT + 1) * SEGMENT;
        if insert_lsn % SEGMENT < SEGMENT / 4 || self.prepared.load(Relaxed) == next {
            return self.level.store(PLENTY, Relaxed);
        }
        let level = match segments.prepare(next) {
            Err(e) if e.sqlstate() == sqlstate::DISK_FULL => {
                *crate::lock(&self.cause) = Some(e);
                let left = next - insert_lsn;
                if left > SEGMENT / 2 {
                    PLENTY
                } else if left > SEGMENT / 4 {
                    LITTLE
                } else {
                    NEXT_TO_NONE
                }
            }
            // Whatever else is wrong with the log is told by who writes it.
            Err(_) => PLENTY,
            Ok(()) => {
                self.prepared.store(next, Relaxed);
                PLENTY
            }
        };
        self.level.store(level, Relaxed);
    }
}
