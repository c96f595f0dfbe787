//! Purging: deleted rows, retired index entries and replaced pieces are removed once no snapshot lies between birth and
//! death.
//!
//! Invariants
//! 1. What is to be purged is found by walking the transaction's undo chain; memory holds one item per transaction.
//! 2. Index entries of a row go before its slot.
//! 3. An entry that a transaction in progress has revived is waited for: a rollback would leave it retired for ever.
//! 4. Steps are idempotent: a slot goes only while its word points at the delete, an entry only while it is that row's.
//!
//! Must not know: SQL.

use super::purge_queue::PendingPurge;
use super::table::{LiveSnapshots, Status};
use crate::core::Core;
use crate::directory::Relation;
use crate::heap::page::{self as hp, ADDRESS, DELETED};
use crate::undo::record::{UndoKind, UndoRecord};
use crate::wal::record::{PageOp, Record, encode};
use kilndb_base::planted::{self, PlantedBug};
use kilndb_base::sync::atomic::Ordering::SeqCst;
use kilndb_base::{Error, Result, RowId};

/// The number of versions of a row that are searched for its birth.
const LONGEST: usize = 4096;

impl Core {
    /// CSN up to which everything is seen by every snapshot, and is on disk.
    pub(crate) fn visible_to_all(&self) -> u64 {
        let newest = self.log.last_csn();
        self.snapshots.oldest(newest).min(self.log.flushed_csn())
    }
    /// One round over the queue; returns how many transactions were purged.
    /// `last`: no session is left (shutdown), snapshots do not count.
    pub(crate) fn purge_round(&self, last: bool) -> usize {
        let flushed = self.log.flushed_csn();
        let newest = self.log.last_csn();
        let live = if last { LiveSnapshots::none() } else { self.snapshots.live(newest) };
        self.purge.unblock(&live);
        let oldest = live.oldest(newest).min(flushed);
        let serializable = if last { None } else { self.ssi.oldest_snapshot() };
        let count = self.purge.ready();
        let mut done = 0;
        for _ in 0..count {
            let Some(mut item) = crate::lock(&self.purge.queue).pop_front() else { break };
            if item.csn > flushed {
                crate::lock(&self.purge.queue).push_back(item);
                continue;
            }
            let blocker = if item.csn <= oldest || planted::is(PlantedBug::PurgeIgnoresSnapshots) {
                None
            } else {
                self.first_blocker(&item, &live, serializable)
            };
            match blocker {
                None => match self.purge_chain(&mut item) {
                    // The purge is tried again later; if the server ends before, recovery does it.
                    Err(e) if crate::txn::is_of_disk(&e) => {
                        crate::lock(&self.purge.queue).push_front(item);
                        break;
                    }
                    Ok(false) => crate::lock(&self.purge.queue).push_back(item),
                    outcome => {
                        if let Err(e) = outcome {
                            self.tell(kilndb_base::Severity::Warning, &format!("purge: {}", e.message()));
                        }
                        self.purged(&item);
                        self.purge.unfinished.fetch_sub(1, SeqCst);
                        done += 1;
                    }
                },
                Some(blocker) => {
                    crate::lock(&self.purge.blocked).entry(blocker).or_default().push(item);
                }
            }
        }
        done
    }
    fn purged(&self, item: &PendingPurge) {
        if item.logged {
            self.log
                .append_then(&encode(&Record::PurgeDone { xid: item.xid }), || self.xids.set_purge(item.xid, false));
        } else {
            self.xids.set_purge(item.xid, false);
        }
        for chunk in &item.chunks {
            self.undo.release(*chunk, item.csn);
        }
    }
    /// A live snapshot that still sees something the transaction replaced; or one (`serializable` is the oldest such)
    /// that must be able to find who has written what it does not see.
    fn first_blocker(&self, item: &PendingPurge, live: &LiveSnapshots, serializable: Option<u64>) -> Option<u64> {
        let minded = serializable.filter(|s| *s < item.csn);
        for head in item.heads {
            let mut address = head;
            while address != 0 {
                let Ok(Some(record)) = self.undo.read(&self.pool, address) else { break };
                if record.wants_purge() && !matches!(record.kind, UndoKind::IndexRetire | UndoKind::IndexRetireMany) {
                    // This holds for a delete of several rows too, because their words were the same.
                    if let Some(s) = self.first_viewer(&record, item, live) {
                        return Some(s);
                    }
                    if minded.is_some() && self.is_minded(&record, item.xid) {
                        return minded;
                    }
                }
                address = record.prev;
            }
        }
        None
    }
    /// A live snapshot that sees something that this record of the transaction has replaced.
    fn first_viewer(&self, record: &UndoRecord, item: &PendingPurge, live: &LiveSnapshots) -> Option<u64> {
        let between = |birth| live.first_between(birth, item.csn);
        match record.kind.of_row() {
            UndoKind::Delete => between(self.birth(record.old_word, item.xid)),
            // Entries that cannot be read count as old.
            UndoKind::IndexMark | UndoKind::IndexChangeMany => match marked_entries(record) {
                Ok(entries) => entries.iter().find_map(|entry| between(self.entry_birth(record.rel, *entry, item.xid))),
                Err(_) => between(0),
            },
            _ => between(0),
        }
    }
    /// Whether somebody serializable may yet have to find that the row, or the entry's row, was written.
    fn is_minded(&self, record: &UndoRecord, xid: u64) -> bool {
        if self.ssi.minds(xid) {
            return true;
        }
        match record.kind.of_row() {
            UndoKind::Delete => self.is_word_minded(record.old_word),
            UndoKind::IndexMark | UndoKind::IndexChangeMany => match marked_entries(record) {
                // A row that cannot be read stays.
                Ok(entries) => entries.iter().any(|entry| match self.word_of_entry(record.rel, *entry) {
                    Ok(word) => self.is_word_minded(word.unwrap_or(0)),
                    Err(_) => true,
                }),
                Err(_) => true,
            },
            _ => false,
        }
    }
    fn is_word_minded(&self, mut word: u64) -> bool {
        for _ in 0..LONGEST {
            match self.undo.head(&self.pool, word & ADDRESS) {
                _ if word & ADDRESS == 0 => return false,
                Ok(None) => return false,
                Ok(Some(head)) if !self.ssi.minds(head.xid) => word = head.old_word,
                _ => return true,
            }
        }
        true
    }
    /// CSN at which the row with this word was inserted; 0: not known. Rows that the deleter inserted itself were never
    /// seen.
    fn birth(&self, mut word: u64, xid: u64) -> u64 {
        for _ in 0..LONGEST {
            let Ok(Some(head)) = self.undo.head(&self.pool, word & ADDRESS) else { return 0 };
            if matches!(head.kind, UndoKind::Insert | UndoKind::InsertRange) {
                if head.xid == xid {
                    return u64::MAX;
                }
                return match self.xids.status(head.xid) {
                    Status::Committed { csn, .. } => csn,
                    _ => 0,
                };
            }
            word = head.old_word;
        }
        0
    }
    /// CSN before which nobody can have seen the entry's key in its row: that of the row's birth; 0: not known.
    fn entry_birth(&self, index: u32, entry: (u64, &[u8]), xid: u64) -> u64 {
        // A row that is gone was seen by nobody; one that took its slot is younger.
        self.word_of_entry(index, entry).map_or(0, |word| word.map_or(u64::MAX, |w| self.birth(w, xid)))
    }
    /// The word of the row that a retired entry leads to, if it is still there.
    fn word_of_entry(&self, index: u32, (rid, key): (u64, &[u8])) -> Result<Option<u64>> {
        let missing = || Error::internal("a relation has gone");
        let index = self.directory.get(index).ok_or_else(missing)?;
        let heap = match self.directory.get(index.heap_of_entry(key)) {
            None if index.entries_name_heap() => return Ok(None),
            heap => heap.ok_or_else(missing)?,
        };
        let id = RowId::from_u64(rid);
        self.pool.read(heap.pid(id.block)?, |v| hp::word(v, usize::from(id.slot)))
    }
    /// Purges what a transaction has left. False: a transaction in progress is in the way, and the item says where to
    /// go on later. Steps that are done are not repeated, since the slots may have new rows by then.
    pub(crate) fn purge_chain(&self, item: &mut PendingPurge) -> Result<bool> {
        for head in &mut item.heads {
            while *head != 0 {
                let Some(record) = self.undo.read(&self.pool, *head)? else { break };
                if record.wants_purge() {
                    match self.purge_step(&record, *head) {
                        Ok(false) => return Ok(false),
                        // Dropped meanwhile; what the rest of the chain is about need not be.
                        Err(_) if self.directory.get(record.rel).is_none() => {}
                        done => _ = done?,
                    }
                }
                *head = record.prev;
            }
        }
        Ok(true)
    }
    pub(crate) fn purge_step(&self, record: &UndoRecord, address: u64) -> Result<bool> {
        let Some(relation) = self.directory.get(record.rel) else { return Ok(true) };
        match record.kind {
            UndoKind::IndexMark => {
                let (_, rid, key) = record.index_parts(8)?;
                return relation.entry_remove(key, rid, Some(address), None);
            }
            UndoKind::IndexChangeMany => return relation.entries_purge(record.leaf_changes()?, address),
            UndoKind::IndexRetire => {
                let (heap, rid, key) = record.index_parts(4)?;
                self.purge_entries(&relation, heap as u32, &[(rid, key)])?;
            }
            UndoKind::IndexRetireMany => {
                let (heap, entries) = record.retired()?;
                self.purge_entries(&relation, heap, &entries)?;
            }
            UndoKind::OfMethod => self.purge_of_method(&relation, record)?,
            UndoKind::DeleteMany => self.purge_rows(&relation, record, address)?,
            UndoKind::PieceRetire => {
                // The record before it is the update that replaced the pieces: it names their row.
                let Some(update) = self.undo.read(&self.pool, record.prev)? else { return Ok(true) };
                if update.kind == UndoKind::Update && update.rel == record.rel {
                    let home = RowId { block: update.block, slot: update.slot };
                    let in_use = relation.pieces_of(home)?;
                    relation.free_pieces(RowId { block: record.block, slot: record.slot }, home, &in_use)?;
                }
            }
            UndoKind::Delete => self.purge_row(&relation, RowId { block: record.block, slot: record.slot }, address)?,
            _ => {}
        }
        Ok(true)
    }
    fn purge_entries(&self, index: &Relation, heap: u32, entries: &[(u64, &[u8])]) -> Result<()> {
        let heap = self.directory.get(heap);
        if heap.is_none() && !index.entries_name_heap() {
            return Ok(());
        }
        for (rid, key) in entries {
            let deleted = match &heap {
                Some(heap) => Self::is_deleted(heap, *rid)
                    .or_else(|e| if heap.dropped.load(SeqCst) { Ok(true) } else { Err(e) })?,
                None => true,
            };
            if deleted {
                index.entry_remove(key, *rid, None, None)?;
            }
        }
        Ok(())
    }
    pub(crate) fn is_deleted(heap: &Relation, rid: u64) -> Result<bool> {
        let id = RowId::from_u64(rid);
        let pid = heap.pid(id.block)?;
        heap.core.pool.read(pid, |v| hp::word(v, usize::from(id.slot)).is_some_and(|w| w & DELETED != 0))
    }
    fn purge_row(&self, relation: &Relation, home: RowId, address: u64) -> Result<()> {
        let slot = usize::from(home.slot);
        let pid = relation.pid(home.block)?;
        let mine = |word: Option<u64>| word.is_some_and(|w| w & ADDRESS == address && w & DELETED != 0);
        // The pieces are freed first: after a crash in between, the row still leads to the rest of them.
        if !mine(self.pool.read(pid, |v| hp::word(v, slot))?) {
            return Ok(());
        }
        if let Some(first) = relation.pieces_of(home)?.first() {
            relation.free_pieces(*first, home, &[])?;
        }
        let mut page = self.pool.write(pid)?;
        if !mine(hp::word(page.view(), slot)) {
            return Ok(());
        }
        self.emit_plain(relation, 0, &[(relation.target(home.block), PageOp::Free { slot })], &[0], &mut [&mut page])?;
        let roomy = hp::room(page.page()) > crate::page::PAGE / 4;
        drop(page);
        if roomy {
            relation.hint(home.block);
        }
        Ok(())
    }
    /// Purges the rows of a record of many, none of which is in pieces.
    fn purge_rows(&self, relation: &Relation, record: &UndoRecord, address: u64) -> Result<()> {
        let slots = record.rows().ok_or_else(UndoRecord::bad)?;
        let mut page = self.pool.write(relation.pid(record.block)?)?;
        let mine = |slot| hp::word(page.view(), slot).is_some_and(|w| w & ADDRESS == address && w & DELETED != 0);
        if !slots.iter().any(mine) {
            return Ok(());
        }
        let op = PageOp::FreeRange { first: slots.first, last: slots.last, word: address };
        self.emit_plain(relation, 0, &[(relation.target(record.block), op)], &[0], &mut [&mut page])?;
        let roomy = hp::room(page.page()) > crate::page::PAGE / 4;
        drop(page);
        if roomy {
            relation.hint(record.block);
        }
        Ok(())
    }
}

/// The entries that a record has marked: row id, key.
fn marked_entries(record: &UndoRecord) -> Result<Vec<(u64, &[u8])>> {
    if record.kind == UndoKind::IndexChangeMany {
        return Ok(record.leaf_changes()?.retired().collect());
    }
    let (_, rid, key) = record.index_parts(8)?;
    Ok(vec![(rid, key)])
}
