//! Shortening version chains: versions between live snapshots are cut out when a row is updated again.
//!
//! Invariants
//! 1. A version valid in [birth, death) is cut out only if no live snapshot lies in between; new snapshots are newer
//!    than every version that is looked at here.
//! 2. The merged record stands for the newest committed version: same transaction, but it leads straight to the next
//!    version that somebody needs. It is never logged: after a crash no snapshot is left that could need it.
//!
//! Must not know: the log.

use super::page::{ADDRESS, FORWARD};
use crate::core::Core;
use crate::txn::table::Status;
use crate::txn::visibility::MADE_FORWARD;
use crate::undo::CHUNK;
use crate::undo::record::{UndoKind, UndoRecord};
use crate::wal::record::update_data;
use kilndb_base::Result;
use std::sync::atomic::Ordering::Relaxed;

/// How often (by xid) an update looks, and how deep.
const EVERY: u64 = 8;
const DEPTH: usize = 64;
/// Without a snapshot so many commits old, chains are cut short by discarding undo anyway.
const OLD: u64 = 2000;

impl Core {
    fn plain_update(&self, word: u64) -> Result<Option<(UndoRecord, u64)>> {
        if word & ADDRESS == 0 || word & FORWARD != 0 {
            return Ok(None);
        }
        let Some(record) = self.undo.read(&self.pool, word & ADDRESS)? else { return Ok(None) };
        if record.kind != UndoKind::Update || record.mode & MADE_FORWARD != 0 || record.old_word & FORWARD != 0 {
            return Ok(None);
        }
        match self.xids.status(record.xid) {
            Status::Committed { csn, .. } => Ok(Some((record, csn))),
            _ => Ok(None),
        }
    }
    /// The word that an updater by `xid` may note as replaced, given the row's word and payload: maybe of a shorter chain.
    pub(super) fn spliced(&self, worker: usize, xid: u64, word: u64, payload: &[u8]) -> Result<u64> {
        if !xid.is_multiple_of(EVERY) || self.log.last_csn() < self.oldest_seen.load(Relaxed).saturating_add(OLD) {
            return Ok(word);
        }
        let Some((newest, newest_csn)) = self.plain_update(word)? else { return Ok(word) };
        let mut older = payload.to_vec();
        newest.apply_to(&mut older)?;
        let mut next = newest.old_word;
        let mut death = newest_csn;
        let mut live = None;
        let mut cut = 0;
        while cut < DEPTH {
            let Some((record, birth)) = self.plain_update(next)? else { break };
            let live = live.get_or_insert_with(|| self.snapshots.sorted());
            let at = live.partition_point(|s| *s < birth);
            if live.get(at).is_some_and(|s| *s < death) {
                break;
            }
            record.apply_to(&mut older)?;
            next = record.old_word;
            death = birth;
            cut += 1;
        }
        if cut == 0 {
            return Ok(word);
        }
        let (prefix, suffix) = super::write::difference(payload, &older);
        let merged = UndoRecord {
            old_word: next,
            prev: 0,
            data: update_data(prefix, payload.len() - prefix - suffix, &older[prefix..older.len() - suffix]),
            ..newest
        };
        let place = self.undo.reserve(&self.pool, &self.directory, &self.log, worker, false, merged.len())?;
        let address = place.address;
        self.undo.hold(address / CHUNK, merged.xid);
        place.write(&merged, 0);
        self.undo.release(address / CHUNK, newest_csn);
        Ok((word & !ADDRESS) | address)
    }
}
