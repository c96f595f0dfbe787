//! Where reads and writes of heaps and indexes meet serializability. All of it is out of the way of transactions of
//! other isolation levels: their snapshots and transactions have no reader.
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
    /// The same for reads that nobody is to be told of, as those of foreign key checks: locks protect what they find.
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
    /// All of the relation is about to be read, also what is not there. Before the first block is looked at.
    pub fn begin_scan(&self, snapshot: &Snapshot) -> Result<()> {
        let snapshot = snapshot.of(self)?;
        if let Some(reader) = self.watched(&snapshot.reader)? {
            self.core.ssi.locks.lock_whole(reader, self);
        }
        Ok(())
    }
    /// Of a row's chain: who has written over what the reader sees.
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
    /// True: the row must be read again.
    pub(crate) fn note_row(&self, reader: &Arc<Reader>, rid: RowId) -> bool {
        self.core.ssi.locks.lock_row(reader, self, rid)
    }
    pub(crate) fn note_key(&self, reader: &Arc<Reader>, key: &[u8]) {
        self.note_unique_part(reader, self.unique_part(key));
    }
    pub(crate) fn note_unique_part(&self, reader: &Arc<Reader>, key: &[u8]) {
        self.core.ssi.locks.lock_key(reader, self, key);
    }
    /// True: the range must be read again.
    pub(crate) fn note_range(&self, reader: &Arc<Reader>, range: &KeyRange) -> bool {
        self.core.ssi.locks.lock_range(reader, self, range)
    }
}

impl Transaction {
    /// After a row was changed. `replaced_csn`: when the version was committed that it replaces; None: the row is new,
    /// only its absence can have been read.
    #[inline]
    pub(crate) fn wrote_row(&self, heap: &Relation, rid: RowId, replaced_csn: Option<u64>) -> Result<()> {
        match &self.reader {
            None => Ok(()),
            Some(reader) => self.core.ssi.wrote_row(&self.core, reader, heap, rid, replaced_csn, !self.had_savepoint),
        }
    }
    /// After an entry was put into an index, or was found to be impossible.
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
