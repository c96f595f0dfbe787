//! The hooks in reads and writes of heaps and indexes for SERIALIZABLE. They do nothing for transactions of other
//! isolation levels, whose snapshots have no reader.
//!
//! Must not know: what a dangerous structure is.

use super::ranges::{FullKey, KeyRange};
use super::{Reader, Ssi};
use crate::directory::Relation;
use crate::txn::{Snapshot, Transaction};
use kilndb_base::sync::atomic::Ordering::Relaxed;
use kilndb_base::{Result, RowId};
use std::sync::Arc;

impl Snapshot {
    /// The snapshot for reads that are not to be noted, as those of foreign key checks: row locks protect what they
    /// find.
    pub fn untracked(mut self) -> Snapshot {
        self.reader = None;
        self
    }
}

impl Relation {
    /// Reads and writes here are no business of serializable transactions: a system table.
    pub fn exclude_from_serializability(&self) {
        self.reads.excluded.store(true, Relaxed);
    }
    /// The reader, if what is read here is to be noted.
    #[inline]
    pub(crate) fn watched<'r>(&self, reader: &'r Option<Arc<Reader>>) -> Result<Option<&'r Arc<Reader>>> {
        match reader {
            None => Ok(None),
            Some(reader) => self.watched_reader(reader),
        }
    }
    #[cold]
    fn watched_reader<'r>(&self, reader: &'r Arc<Reader>) -> Result<Option<&'r Arc<Reader>>> {
        if self.reads.excluded.load(Relaxed) {
            return Ok(None);
        }
        Ok(self.core.ssi.goes_on(&self.core, reader, "conflict out checking")?.then_some(reader))
    }
    /// Notes that the whole relation is about to be read, including rows that do not exist yet. To be called before the
    /// first block is read.
    pub fn begin_scan(&self, snapshot: &Snapshot) -> Result<()> {
        let snapshot = snapshot.of(self)?;
        if let Some(reader) = self.watched(&snapshot.reader)? {
            self.core.ssi.locks.lock_whole(reader, self);
        }
        Ok(())
    }
    /// Notes the transaction that has replaced the version which the reader sees.
    pub(crate) fn note_passed(
        &self,
        reader: &Arc<Reader>,
        word: u64,
        snapshot: &Snapshot,
        missed: &mut bool,
    ) -> Result<bool> {
        let own = reader.xid.load(Relaxed);
        let (passed, is_own) = self.core.written_over(word, snapshot, own, missed)?;
        if let Some(xid) = passed {
            self.core.ssi.read_past(reader, xid)?;
        }
        Ok(is_own)
    }
    /// Notes that a row is read; true: it must be read again.
    pub(crate) fn note_row(&self, reader: &Arc<Reader>, rid: RowId) -> bool {
        self.core.ssi.locks.lock_row(reader, self, rid)
    }
    pub(crate) fn note_key(&self, reader: &Arc<Reader>, key: &[u8]) {
        self.note_unique_part(reader, self.unique_part(key));
    }
    pub(crate) fn note_unique_part(&self, reader: &Arc<Reader>, key: &[u8]) {
        self.core.ssi.locks.lock_key(reader, self, key);
    }
    /// Notes that a range of keys is read; true: it must be read again.
    pub(crate) fn note_range(&self, reader: &Arc<Reader>, range: &KeyRange) -> bool {
        self.core.ssi.locks.lock_range(reader, self, range)
    }
}

impl Transaction {
    /// To be called after a row was changed. `replaced_csn` is the CSN of the version that it replaces; None: the row
    /// is new, so only its absence can have been read.
    #[inline]
    pub(crate) fn wrote_row(&self, heap: &Relation, rid: RowId, replaced_csn: Option<u64>) -> Result<()> {
        match &self.reader {
            None => Ok(()),
            Some(reader) => self.core.ssi.wrote_row(&self.core, reader, heap, rid, replaced_csn, !self.had_savepoint),
        }
    }
    /// To be called after an entry was inserted into an index, or was refused as a duplicate.
    #[inline]
    pub(crate) fn wrote_key(&self, index: &Relation, key: &[u8], rid: u64) -> Result<()> {
        match &self.reader {
            None => Ok(()),
            Some(reader) => self.wrote_watched_key(reader, index, (key.to_vec(), rid)),
        }
    }
    #[cold]
    fn wrote_watched_key(&self, reader: &Arc<Reader>, index: &Relation, entry: FullKey) -> Result<()> {
        let ssi: &Ssi = &self.core.ssi;
        if index.reads.excluded.load(Relaxed) || !ssi.goes_on(&self.core, reader, "conflict in checking")? {
            return Ok(());
        }
        reader.wrote.store(true, Relaxed);
        let mut readers = Vec::new();
        ssi.locks.readers_of_key(index, &entry, &mut readers);
        ssi.written_over(reader, &readers)
    }
}
