//! Restores unlogged relations after a crash: they become empty, or get what the images of the last checkpoint have of
//! them.
//!
//! Invariants
//! 1. An index comes back with its table, or neither does.
//! 2. Only changes that were committed when the images were taken are left; the others are rolled back with the undo
//!    that is saved with the images.
//! 3. Image files are only read: a recovery that is cut off begins again.
//!
//! Must not know: SQL.

use crate::control::{Checkpoint, RelationEntry};
use crate::core::Core;
use crate::directory::Relation;
use crate::image;
use crate::page::{self, at};
use crate::undo::record::CHUNK_PAGES;
use kilndb_base::env::File;
use kilndb_base::sync::atomic::Ordering::*;
use kilndb_base::{Result, Severity};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Core {
    /// `ended_well`: transactions that were ending when the images were taken, and have committed.
    pub(crate) fn restore_images(self: &Arc<Core>, c: &Checkpoint, ended_well: &BTreeSet<u64>) -> Result<()> {
        let mut restored = BTreeSet::new();
        for (relation, entry, file) in self.whole_images(c, ended_well)? {
            self.restore_relation(&relation, entry, &*file)?;
            restored.insert(relation.id);
        }
        self.empty_unlogged()?;
        if restored.is_empty() {
            return Ok(());
        }
        self.load_undo(c)?;
        let counts = |t: &image::UnendedTransaction| t.purge || t.ending && ended_well.contains(&t.xid);
        for t in c.unended.iter().filter(|t| !counts(t)) {
            self.along(t.head, &restored, |record, address| self.undo_step(record.xid, address).map(|_| ()))?;
        }
        for t in c.unended.iter().filter(|t| counts(t)) {
            self.along(t.head, &restored, |record, address| {
                if record.wants_purge() { self.purge_step(record, address).map(|_| ()) } else { Ok(()) }
            })?;
        }
        self.tell(
            Severity::Log,
            &format!("{} unlogged relations are as they were at the last checkpoint", restored.len()),
        );
        Ok(())
    }
    /// The images that count: a table and its indexes have theirs together.
    #[allow(clippy::type_complexity)]
    fn whole_images<'c>(
        &self,
        c: &'c Checkpoint,
        ended_well: &BTreeSet<u64>,
    ) -> Result<Vec<(Arc<Relation>, &'c RelationEntry, Arc<dyn File>)>> {
        let entries: BTreeMap<u32, &RelationEntry> =
            c.relations.iter().filter(|e| e.image.is_some()).map(|e| (e.id, e)).collect();
        let kept: Vec<Arc<Relation>> = self.directory.list().into_iter().filter(|r| r.image.is_some()).collect();
        let (mut found, mut incomplete) = (BTreeMap::new(), BTreeSet::new());
        for relation in &kept {
            let heap = if relation.kind.is_index() { relation.heap.load(Relaxed) } else { relation.id };
            let entry = entries.get(&relation.id).filter(|e| e.creator == 0 || ended_well.contains(&e.creator));
            match (entry, image::open(&*self.env, &self.config.data_dir, relation.id)?) {
                (Some(entry), Some(file)) => {
                    found.insert(relation.id, (heap, *entry, file));
                }
                // The relation was never written to, so that it has no image.
                (Some(entry), None) if entry.image.as_ref().is_some_and(|i| i.blocks == 0) => {}
                (entry, _) => {
                    if entry.is_some() {
                        self.tell(
                            Severity::Warning,
                            &format!("there is no file for the image of storage relation {}", relation.id),
                        );
                    }
                    incomplete.insert(heap);
                }
            }
        }
        let whole = |r: &Arc<Relation>| {
            found.remove(&r.id).filter(|(heap, _, _)| !incomplete.contains(heap)).map(|(_, e, f)| (r.clone(), e, f))
        };
        Ok(kept.iter().filter_map(whole).collect())
    }
    fn restore_relation(&self, relation: &Relation, entry: &RelationEntry, file: &dyn File) -> Result<()> {
        let Some(image) = &entry.image else { return Ok(()) };
        for block in 0..image.blocks {
            let saved = image::read_block(file, relation.id, block, image)?;
            let (at_block, mut page) = relation.extend(saved[at::LEVEL])?;
            if at_block != block {
                return Err(kilndb_base::Error::internal("a relation to be restored is not empty"));
            }
            let lsn = page::lsn(page.page());
            page.bytes().copy_from_slice(&saved[..]);
            page::set_lsn(page.bytes(), lsn);
            page.mark_dirty();
        }
        if let Some(own) = &relation.image {
            own.set_current(Some(image), image.blocks);
        }
        Ok(())
    }
    /// The undo that was saved, at the addresses that it had.
    fn load_undo(&self, c: &Checkpoint) -> Result<()> {
        if c.image_chunks.is_empty() {
            return Ok(());
        }
        let file = image::open_undo(&*self.env, &self.config.data_dir, c.generation)?;
        for (index, number) in c.image_chunks.iter().enumerate() {
            let first = self.pool.take_pages(&self.directory.space, CHUNK_PAGES)?;
            for i in 0..CHUNK_PAGES {
                let saved = image::read_undo(&*file, c.generation, index, *number, i)?;
                let mut page = self.pool.write_new(first + i)?;
                page.bytes().copy_from_slice(&saved[..]);
                page::set_lsn(page.bytes(), self.log.insert_lsn());
                page.mark_dirty();
            }
            self.undo.register(*number, first, false);
        }
        Ok(())
    }
    /// The records of a chain, newest first, that are about restored relations.
    fn along(
        &self,
        head: u64,
        restored: &BTreeSet<u32>,
        mut f: impl FnMut(&crate::undo::record::UndoRecord, u64) -> Result<()>,
    ) -> Result<()> {
        let mut address = head;
        while address != 0 {
            let Some(record) = self.undo.read(&self.pool, address)? else {
                return Err(kilndb_base::Error::corrupted(format!(
                    "undo record {address:#x} was not saved with the images"
                )));
            };
            if restored.contains(&record.rel) {
                f(&record, address)?;
            }
            address = record.prev;
        }
        Ok(())
    }
}
