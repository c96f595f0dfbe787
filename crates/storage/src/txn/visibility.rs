//! Which version of a row a snapshot sees; who holds a row.
//!
//! Invariants
//! 1. A version whose undo record is gone, or below the horizon, is visible to everybody (undo invariant 2).
//! 2. A lock record changes nothing about the row: looking through it leads to the same version.
//!
//! Must not know: how the row got into memory.

use super::Snapshot;
use super::table::Status;
use crate::core::Core;
use crate::directory::Relation;
use crate::heap::page::{ADDRESS, DELETED, FORWARD, KEY_CHANGED};
use crate::undo::record::UndoKind;
use kilndb_base::Result;
use kilndb_base::planted::{self, PlantedBug};
use kilndb_base::sync::atomic::Ordering::*;

/// A flag in an undo record's mode: the version that the record made has its payload in pieces.
pub(crate) const MADE_FORWARD: u8 = 4;
/// A flag in the mode of a deletion: the row has moved to another relation.
pub(crate) const MOVED: u8 = 4;

/// The newest version of a row, as a writer sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NewestVersion {
    /// Made by another transaction in progress: its xid, its lock mode (0–3), and what it did.
    Held { xid: u64, mode: u8, kind: UndoKind },
    /// Made by the transaction itself.
    Own { command: u32, deleted: bool },
    /// Committed with this CSN; 0 means visible to all.
    Committed { csn: u64, deleted: bool, moved: bool },
}

/// How a snapshot sees a row.
#[derive(Clone, Copy)]
pub(crate) struct SeenVersion {
    /// The row's key has changed at some time, so an index entry that led to it must be compared with it.
    pub recheck: bool,
    /// The version in the page is the one that is seen. This holds for all rows with the same word, since none of their
    /// changes was rolled back.
    pub as_stored: bool,
}

impl Core {
    /// Turns the newest payload into the one the snapshot sees; None: it sees none. `payload` has the payload itself,
    /// or the pointer if `word` says FORWARD. `missed`: the chain ended at a record that is gone. That is right if the
    /// row's word is still the same afterwards; else the chain may have been rebuilt meanwhile, and the row must be
    /// looked at again.
    pub(crate) fn version_for(
        &self,
        relation: &Relation,
        (mut word, slot): (u64, u16),
        payload: &mut Vec<u8>,
        snapshot: &Snapshot,
        missed: &mut bool,
    ) -> Result<Option<SeenVersion>> {
        let recheck = word & KEY_CHANGED != 0;
        let mut as_stored = word & FORWARD == 0;
        loop {
            let address = word & ADDRESS;
            let Some(head) = (if address == 0 { None } else { self.undo.head(&self.pool, address)? }) else {
                *missed = address != 0;
                break;
            };
            let visible = if head.kind == UndoKind::Lock { false } else { self.sees(snapshot, head.xid, head.command) };
            if visible {
                break;
            }
            match head.kind {
                UndoKind::Insert | UndoKind::InsertRange => return Ok(None),
                UndoKind::Update => {
                    let Some(record) = self.undo.read_row(&self.pool, address, usize::from(slot))? else {
                        *missed = true;
                        break;
                    };
                    if word & FORWARD != 0 && record.mode & MADE_FORWARD == 0 {
                        relation.load_pieces(payload)?;
                    }
                    record.apply_to(payload)?;
                    as_stored = false;
                    word = head.old_word;
                }
                // The payload is the same, also where a rollback had to move it apart since.
                _ => word = head.old_word | (word & FORWARD),
            }
        }
        if word & DELETED != 0 {
            return Ok(None);
        }
        if word & FORWARD != 0 {
            relation.load_pieces(payload)?;
        }
        Ok(Some(SeenVersion { recheck, as_stored }))
    }
    /// The transaction that made the oldest of the versions that the snapshot does not see because they are newer, and
    /// whether the newest version is `own`. `missed` is as in [`Core::version_for`].
    pub(crate) fn written_over(
        &self,
        mut word: u64,
        snapshot: &Snapshot,
        own: u64,
        missed: &mut bool,
    ) -> Result<(Option<u64>, bool)> {
        let (mut passed, mut is_own, mut newest) = (None, false, true);
        while word & ADDRESS != 0 {
            let Some(head) = self.undo.head(&self.pool, word & ADDRESS)? else {
                *missed = true;
                break;
            };
            if head.kind != UndoKind::Lock {
                if head.xid == own && own != 0 {
                    is_own |= newest;
                } else if self.sees(snapshot, head.xid, head.command) {
                    break;
                } else if self.xids.status(head.xid) != Status::Aborted {
                    passed = Some(head.xid);
                }
                newest = false;
                if matches!(head.kind, UndoKind::Insert | UndoKind::InsertRange) {
                    break;
                }
            }
            word = head.old_word;
        }
        Ok((passed, is_own))
    }
    #[inline]
    fn sees(&self, snapshot: &Snapshot, xid: u64, command: u32) -> bool {
        if xid == snapshot.xid && xid != 0 {
            return command < snapshot.command;
        }
        match self.xids.status(xid) {
            Status::Committed { csn, asynchronous }
                if csn <= snapshot.csn + u64::from(planted::is(PlantedBug::SnapshotOneTooNew)) =>
            {
                if !asynchronous && csn > self.log.flushed_csn() {
                    snapshot.registered.unflushed.fetch_max(csn, Relaxed);
                }
                true
            }
            _ => false,
        }
    }
    /// Whether a row with this word counts (no payload wanted). `missed` as in [`Core::version_for`].
    pub(crate) fn counts(&self, mut word: u64, snapshot: &Snapshot, missed: &mut bool) -> Result<bool> {
        loop {
            let address = word & ADDRESS;
            let Some(head) = (if address == 0 { None } else { self.undo.head(&self.pool, address)? }) else {
                *missed = address != 0;
                break;
            };
            if head.kind != UndoKind::Lock && self.sees(snapshot, head.xid, head.command) {
                break;
            }
            if matches!(head.kind, UndoKind::Insert | UndoKind::InsertRange) {
                return Ok(false);
            }
            word = head.old_word;
        }
        Ok(word & DELETED == 0)
    }
    /// The newest version's state as `xid` finds it. The caller has the page latched or a snapshot registered.
    pub(crate) fn newest(&self, mut word: u64, xid: u64) -> Result<NewestVersion> {
        loop {
            let address = word & ADDRESS;
            let head = if address == 0 { None } else { self.undo.head(&self.pool, address)? };
            let Some(head) = head else {
                return Ok(NewestVersion::Committed { csn: 0, deleted: word & DELETED != 0, moved: false });
            };
            if head.xid == xid {
                if head.kind != UndoKind::Lock {
                    return Ok(NewestVersion::Own { command: head.command, deleted: word & DELETED != 0 });
                }
            } else {
                match self.xids.status(head.xid) {
                    Status::InProgress => {
                        return Ok(NewestVersion::Held { xid: head.xid, mode: head.mode & 3, kind: head.kind });
                    }
                    Status::Committed { csn, .. } if head.kind != UndoKind::Lock => {
                        let moved = head.kind == UndoKind::Delete && head.mode & MOVED != 0;
                        return Ok(NewestVersion::Committed { csn, deleted: word & DELETED != 0, moved });
                    }
                    _ => {}
                }
            }
            word = head.old_word;
        }
    }
    /// Strongest exclusive lock mode of `xid` on the row (its records on top of the chain).
    pub(crate) fn own_mode(&self, mut word: u64, xid: u64) -> Result<Option<u8>> {
        let mut mode = None;
        while word & ADDRESS != 0 {
            match self.undo.head(&self.pool, word & ADDRESS)? {
                Some(head) if head.xid == xid => {
                    mode = Some(mode.unwrap_or(0).max(head.mode & 3));
                    word = head.old_word;
                }
                _ => break,
            }
        }
        Ok(mode)
    }
    /// The word as a new version's predecessor: without its address if everybody sees it.
    pub(crate) fn shorten(&self, word: u64) -> u64 {
        if word & ADDRESS != 0 && self.undo.is_gone(word & ADDRESS) { word & !ADDRESS } else { word }
    }
}

/// An index and snapshots that are older than what it was made of.
impl Relation {
    /// Notes that the index was made of the rows that the snapshot sees. An older snapshot may see rows with other keys:
    /// it finds them through retired entries, if those were added, and has to compare the key of every row that it comes
    /// to with the entry's. After a restart there is no older snapshot.
    pub fn set_made_of(&self, snapshot: &Snapshot) {
        self.made_of_csn.store(snapshot.csn, Release);
    }
    /// Whether the snapshot is older than what the index was made of.
    pub fn is_newer_than(&self, snapshot: &Snapshot) -> bool {
        snapshot.csn < self.made_of_csn.load(Acquire)
    }
}
