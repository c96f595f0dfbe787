//! Room for the log: the next segment's file is made before it is needed. If the disk is too full for that, changes are
//! refused while there is still room to roll back transactions in progress.
//!
//! Must not know: who writes, what the records mean.

use super::frame::SEGMENT;
use super::segment::LogSegments;
use kilndb_base::sync::Mutex;
use kilndb_base::sync::atomic::{AtomicU8, AtomicU64, Ordering::*};
use kilndb_base::{Error, Result, sqlstate};

/// There is enough room: nothing is refused.
const PLENTY: u8 = 0;
/// There is little room: changes that add data are refused.
const LITTLE: u8 = 1;
/// There is next to no room: all changes are refused, and what is left is for rollbacks.
const NEXT_TO_NONE: u8 = 2;

/// What a change does to the space that is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SpaceUse {
    Takes,
    /// The change deletes or drops, and so frees room.
    Frees,
}

#[derive(Default)]
pub(crate) struct LogRoom {
    level: AtomicU8,
    /// The LSN up to which there are files.
    end: AtomicU64,
    cause: Mutex<Option<Error>>,
}

/// The level of refusal with so many bytes left in the log's files.
fn level_with(left: u64) -> u8 {
    if left > SEGMENT / 2 {
        PLENTY
    } else if left > SEGMENT / 4 {
        LITTLE
    } else {
        NEXT_TO_NONE
    }
}

impl LogRoom {
    /// Whether such a change may go on without a look for more room.
    #[inline]
    pub fn allows(&self, what: SpaceUse) -> bool {
        let level = self.level.load(Relaxed);
        level == PLENTY || level == LITTLE && what == SpaceUse::Frees
    }
    /// Err if the disk is so full that the log may not get this change, as of the last look.
    pub fn check(&self, what: SpaceUse) -> Result<()> {
        if self.allows(what) {
            return Ok(());
        }
        match crate::lock(&self.cause).clone() {
            Some(cause) => Err(cause.with_hint("Free disk space, or drop tables; what is read is not affected.")),
            None => Ok(()),
        }
    }
    pub fn is_short(&self) -> bool {
        self.level.load(Relaxed) != PLENTY
    }
    /// The log has come to there. Whoever makes the next change finds out whether there can be more room, however long
    /// the cleaner has not looked.
    #[inline]
    pub(crate) fn came_to(&self, lsn: u64) {
        let end = self.end.load(Relaxed);
        if lsn + SEGMENT / 2 >= end {
            self.level.fetch_max(level_with(end.saturating_sub(lsn)), Relaxed);
        }
    }
    /// Makes the file behind the one that the log has come to, once a quarter of that is used.
    pub fn prepare(&self, segments: &LogSegments, insert_lsn: u64) {
        let next = (insert_lsn / SEGMENT + 1) * SEGMENT;
        self.end.fetch_max(next, Relaxed);
        if insert_lsn % SEGMENT < SEGMENT / 4 || self.end.load(Relaxed) > next {
            return self.level.store(PLENTY, Relaxed);
        }
        let level = match segments.prepare(next) {
            Err(e) if e.sqlstate() == sqlstate::DISK_FULL => {
                *crate::lock(&self.cause) = Some(e);
                level_with(next - insert_lsn)
            }
            // Whatever else is wrong with the log is told by who writes it.
            Err(_) => PLENTY,
            Ok(()) => {
                self.end.fetch_max(next + SEGMENT, Relaxed);
                PLENTY
            }
        };
        self.level.store(level, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kilndb_base::env::OsEnv;
    use std::sync::Arc;

    /// The cleaner has not looked since the log was at its beginning: whoever adds data finds out by himself.
    #[test]
    fn the_log_itself_says_that_its_room_ends() {
        let dir = crate::cluster::Dir::new("log-room");
        std::fs::create_dir_all(&dir.0).unwrap();
        let segments = LogSegments::new(Arc::new(OsEnv), dir.0.clone(), Arc::default());
        let room = LogRoom::default();
        let allowed = |room: &LogRoom| (room.allows(SpaceUse::Takes), room.allows(SpaceUse::Frees));
        room.prepare(&segments, 100);
        room.came_to(SEGMENT / 4);
        assert_eq!(allowed(&room), (true, true));
        room.came_to(SEGMENT / 2);
        assert_eq!(allowed(&room), (false, true));
        room.came_to(SEGMENT * 3 / 4);
        assert_eq!(allowed(&room), (false, false));
        // No look has failed: there may be room.
        assert!(room.check(SpaceUse::Takes).is_ok());
        *crate::lock(&room.cause) = Some(Error::new(sqlstate::DISK_FULL, "full"));
        assert_eq!(room.check(SpaceUse::Takes).unwrap_err().sqlstate(), sqlstate::DISK_FULL);
        room.prepare(&segments, SEGMENT * 3 / 4);
        assert_eq!(allowed(&room), (true, true));
        room.came_to(SEGMENT + SEGMENT / 4);
        assert_eq!(allowed(&room), (true, true));
    }
}
