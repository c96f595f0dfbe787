//! Pruning of version chains: versions that no live snapshot sees are cut out.
//!
//! Invariants
//! 1. A version valid in [birth, death) goes only if no live snapshot lies in between, and none that is taken while
//!    this goes on can ([`LiveSnapshots`]).
//! 2. Only chains whose newest record is committed are rebuilt, with the row's page latched. So a record of a
//!    transaction in progress never changes, and its rollback finds what it replaced.
//! 3. A row whose newest record is a delete is left alone: its purge looks for that record.
//! 4. A record written here stands for the newest of those it replaces: same transaction. It is never logged: after a
//!    crash no snapshot is left that could need it.
//! 5. A record of a transaction that a serializable transaction may still have to find is not merged into a newer one.
//! 6. A record of several rows is not replaced by one for each of them just to empty its chunk: that would need more
//!    room.
//! 7. A record that a chain no longer leads to may go at once. A reader that meets a missing record compares the row's
//!    word with the one it began with, and begins again if it differs.
//!
//! Must not know: when pruning is worth its cost.

use super::page::{ADDRESS, DELETED, FORWARD};
use crate::core::Core;
use crate::txn::table::{LiveSnapshots, Status};
use crate::txn::visibility::MADE_FORWARD;
use crate::undo::record::CHUNK;
use crate::undo::record::{UndoKind, UndoRecord, update_data};
use kilndb_base::Result;
use kilndb_base::hash::{HashMap, HashMapExt, HashSet, HashSetExt};
use kilndb_base::planted::{self, PlantedBug};
use kilndb_base::sync::atomic::Ordering::Relaxed;

/// One transaction in this many looks whether chains should be pruned.
const EVERY: u64 = 8;
const DEPTH: usize = 64;

/// The snapshots and limits that a pruning works with.
pub(crate) struct Prune<'a> {
    core: &'a Core,
    worker: usize,
    live: LiveSnapshots,
    /// The CSN up to which commits are seen by all snapshots and are on disk.
    oldest: u64,
    /// The chunk that no chain is to lead to any more.
    empty: Option<u64>,
    depth: usize,
    /// Inserts that were moved out of the chunk: one record serves all rows that the one before it made.
    moved: HashMap<u64, u64>,
    /// The chunks that records of shorter chains were written to.
    pub(crate) written: HashSet<u64>,
}

/// Records of a chain that are merged into one.
struct MergedRecord {
    /// Flags of the word that leads here.
    flags: u64,
    record: UndoRecord,
    address: u64,
    newest: u64,
    oldest: u64,
    /// The payload that the newest record led back from, if it can be known.
    from: Option<Vec<u8>>,
    /// The payload of the version below the oldest record.
    to: Option<Vec<u8>>,
    count: usize,
}

impl MergedRecord {
    fn plain(record: &UndoRecord) -> bool {
        record.kind == UndoKind::Update && record.mode & MADE_FORWARD == 0 && record.old_word & FORWARD == 0
    }
    /// Whether an older record can be taken in: both are undone together, or neither.
    fn takes(&self, older: &UndoRecord) -> bool {
        if self.record.kind != UndoKind::Update {
            return false;
        }
        match older.kind {
            UndoKind::Insert | UndoKind::InsertRange => true,
            _ => MergedRecord::plain(&self.record) && self.to.is_some() && MergedRecord::plain(older),
        }
    }
}

impl<'a> Prune<'a> {
    pub(crate) fn new(core: &'a Core, worker: usize, empty: Option<u64>) -> Prune<'a> {
        let newest = core.log.last_csn();
        let live = core.snapshots.live(newest);
        let oldest = live.oldest(newest).min(core.log.flushed_csn());
        let depth = if empty.is_some() { usize::MAX } else { DEPTH };
        Prune { core, worker, live, oldest, empty, depth, moved: HashMap::new(), written: HashSet::new() }
    }
    /// The word that may stand for `word` (the row's, its page is latched by the caller); None: it stays.
    pub(crate) fn word(&mut self, word: u64, slot: usize, payload: &[u8]) -> Result<Option<u64>> {
        let Some((groups, mut below, dropped)) = self.gather(word, slot, payload)? else { return Ok(None) };
        let mut changed = dropped || groups.is_empty();
        for group in groups.into_iter().rev() {
            let unchanged =
                group.count == 1 && (group.record.old_word == below || group.record.kind != UndoKind::Update);
            let keep = unchanged
                && (self.empty != Some(group.address / CHUNK)
                    || self.core.undo.is_of_many(&self.core.pool, group.address)?);
            let address = if keep {
                group.address
            } else {
                changed = true;
                match self.write(&group, below)? {
                    Some(address) => address,
                    None => return Ok(None),
                }
            };
            below = group.flags | address;
        }
        let word = (word & !ADDRESS) | (below & ADDRESS);
        Ok(changed.then_some(word))
    }
    /// The chain in groups, newest first; the word below them; whether something was left out. None: not to be rebuilt.
    fn gather(&self, word: u64, slot: usize, payload: &[u8]) -> Result<Option<(Vec<MergedRecord>, u64, bool)>> {
        let mut groups: Vec<MergedRecord> = Vec::new();
        let mut payload = (word & FORWARD == 0).then(|| payload.to_vec());
        let mut at = word;
        let mut dropped = false;
        let mut steps = 0;
        if word & DELETED != 0 {
            return Ok(None);
        }
        loop {
            let address = at & ADDRESS;
            let record = if address == 0 { None } else { self.core.undo.read_row(&self.core.pool, address, slot)? };
            let Some(record) = record else { return Ok(Some((groups, at & !ADDRESS, dropped || address != 0))) };
            let Status::Committed { csn, .. } = self.core.xids.status(record.xid) else { return Ok(None) };
            if csn <= self.oldest {
                return Ok(Some((groups, at & !ADDRESS, true)));
            }
            if steps >= self.depth {
                return Ok(Some((groups, at, dropped)));
            }
            steps += 1;
            match record.kind {
                UndoKind::Lock => {
                    if (at ^ record.old_word) & FORWARD != 0 {
                        return Ok(None);
                    }
                    at = (at & !ADDRESS) | (record.old_word & ADDRESS);
                    dropped = true;
                    continue;
                }
                UndoKind::Update | UndoKind::Insert | UndoKind::InsertRange => {}
                _ => return Ok(None),
            }
            let before = payload.take();
            if let Some(mut p) = before.clone().filter(|_| MergedRecord::plain(&record)) {
                record.apply_to(&mut p)?;
                payload = Some(p);
            }
            let insert = record.kind != UndoKind::Update;
            let next = record.old_word;
            match groups.last_mut() {
                Some(group)
                    if group.takes(&record)
                        && self.live.first_between(csn, group.oldest).is_none()
                        && !self.core.ssi.minds(record.xid) =>
                {
                    if insert {
                        group.record.kind = UndoKind::Insert;
                    }
                    group.oldest = csn;
                    group.to = payload.clone();
                    group.count += 1;
                }
                _ => groups.push(MergedRecord {
                    flags: at & !ADDRESS,
                    record,
                    address,
                    newest: csn,
                    oldest: csn,
                    from: before,
                    to: payload.clone(),
                    count: 1,
                }),
            }
            if insert {
                return Ok(Some((groups, 0, dropped)));
            }
            at = next;
        }
    }
    /// Writes the record that stands for the group; returns its address. None: meanwhile everybody sees what the record
    /// is about, and its transaction's id may be another's soon.
    fn write(&mut self, group: &MergedRecord, below: u64) -> Result<Option<u64>> {
        let insert = group.record.kind != UndoKind::Update;
        if insert
            && group.count == 1
            && let Some(&address) = self.moved.get(&group.address)
        {
            return Ok(Some(address));
        }
        let mut record = UndoRecord { prev: 0, ..group.record.clone() };
        if insert {
            // A record of several rows stays one, since it is shared by them: whoever empties the chunk that it comes to
            // lie in must find all of them.
            if record.kind != UndoKind::InsertRange || planted::is(PlantedBug::RowsOfOneInsertApart) {
                record.kind = UndoKind::Insert;
                record.data = Vec::new();
            }
            record.old_word = 0;
        } else {
            record.old_word = below;
            if group.count > 1
                && let (Some(from), Some(to)) = (&group.from, &group.to)
            {
                let (prefix, suffix) = super::write::difference(from, to);
                record.data = update_data(prefix, from.len() - prefix - suffix, &to[prefix..to.len() - suffix]);
            }
        }
        let core = self.core;
        let place =
            core.undo.reserve(&core.pool, &core.directory.space, &core.log, self.worker, false, record.len())?;
        let address = place.address;
        core.undo.hold(address / CHUNK, record.xid);
        // The chunk keeps the id from here on; until now only the old chunk did, which may have gone.
        let known = matches!(core.xids.status(record.xid), Status::Committed { csn, .. } if csn == group.newest);
        self.written.insert(address / CHUNK);
        place.write(&record, 0);
        core.undo.release(address / CHUNK, group.newest);
        if !known {
            return Ok(None);
        }
        if insert && group.count == 1 {
            self.moved.insert(group.address, address);
        }
        Ok(Some(address))
    }
}

impl Core {
    /// A snapshot is so old that shortening chains beside it pays.
    pub(crate) fn has_old_snapshot(&self) -> bool {
        let newest_old = self.oldest_seen.load(Relaxed).saturating_add(self.config.limits.old_snapshot_commits);
        self.log.last_csn() >= newest_old
    }
    /// The word that a writer with `xid` may note as replaced, given the row's word and payload: maybe of a shorter
    /// chain.
    pub(super) fn pruned(&self, worker: usize, xid: u64, word: u64, slot: usize, payload: &[u8]) -> Result<u64> {
        if word & ADDRESS == 0 || !xid.is_multiple_of(EVERY) || !self.has_old_snapshot() {
            return Ok(word);
        }
        Ok(Prune::new(self, worker, None).word(word, slot, payload)?.unwrap_or(word))
    }
}
