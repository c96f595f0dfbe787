//! Images of unlogged relations, taken and written at a checkpoint. Invariants: those of [`super`].
//!
//! Must not know: SQL, when checkpoints happen.

use super::{BlockBits, ImageEntry, RelationImage, UnendedTransaction, undo_path};
use crate::core::Core;
use crate::directory::Relation;
use crate::page::{self, KIND_UNDO, PAGE, PageBytes};
use crate::txn::table::Status;
use crate::undo::record::{CHUNK, CHUNK_PAGES};
use crate::wal::segment::failed;
use kilndb_base::env::OpenMode;
use kilndb_base::sync::atomic::Ordering::*;
use kilndb_base::sync::{Arc, RwLockReadGuard};
use kilndb_base::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// The images of one checkpoint while they are taken. Dropped before [`ImageTaking::complete`], they are not: the last ones
/// count.
pub(crate) struct ImageTaking<'a> {
    core: &'a Core,
    generation: u64,
    relations: Vec<Arc<Relation>>,
    pub entries: BTreeMap<u32, ImageEntry>,
    pub unended: Vec<UnendedTransaction>,
    /// The numbers of the undo chunks that are saved.
    pub chunks: Vec<u64>,
    completed: bool,
}

impl Drop for ImageTaking<'_> {
    fn drop(&mut self) {
        if !self.completed {
            self.relations.iter().filter_map(|r| r.image.as_deref()).for_each(RelationImage::abandon);
        }
        self.core.undo.keep_unlogged(false);
    }
}

impl Core {
    /// A guard that is held while a change of a kept relation is made, so that no image shows half of it. It must not
    /// be taken twice.
    #[inline]
    pub(crate) fn change_gate(&self, relation: &Relation) -> Option<RwLockReadGuard<'_, ()>> {
        relation.image.as_ref().map(|_| self.images.read().unwrap_or_else(|e| e.into_inner()))
    }
    /// The block, latched by the caller, is about to change.
    #[inline]
    pub(crate) fn before_change(&self, image: &RelationImage, block: u32, page: &PageBytes) {
        image.before_change(&*self.env, block, page);
        if !self.kept_changed.load(Relaxed) {
            self.kept_changed.store(true, Relaxed);
        }
    }
    /// The moment that the images of a checkpoint show. `ending`: transactions that do no more but commit, if that.
    pub(crate) fn begin_images(&self, generation: u64, ending: &[u64]) -> ImageTaking<'_> {
        let mut taking = ImageTaking {
            core: self,
            generation,
            relations: Vec::new(),
            entries: BTreeMap::new(),
            unended: Vec::new(),
            chunks: Vec::new(),
            completed: false,
        };
        if !self.directory.has_kept.load(Acquire) {
            return taking;
        }
        self.undo.keep_unlogged(true);
        let _nobody_changes = self.images.write().unwrap_or_else(|e| e.into_inner());
        self.kept_changed.store(false, Relaxed);
        let kept: Vec<_> = self.directory.list().into_iter().filter(|r| r.image.is_some()).collect();
        let kept: Vec<_> = kept.into_iter().map(|r| (r.creator.load(Acquire), r)).collect();
        let unfinished = self.xids.unfinished();
        // Every transaction that counts as committed by now has its CSN too.
        self.log.settled_lsn();
        let newest = self.log.last_csn();
        let committed = |xid: u64| matches!(self.xids.status(xid), Status::Committed { csn, .. } if csn <= newest);
        for (xid, _, was_over) in unfinished {
            let (head, over) = (self.xids.unlogged_head(xid), was_over || committed(xid));
            if head != 0 && (!over || was_over || self.xids.wants_purge(xid)) {
                taking.unended.push(UnendedTransaction { xid, head, purge: over, ending: ending.contains(&xid) });
            }
        }
        for (creator, relation) in kept {
            if creator != 0 && !committed(creator) && !ending.contains(&creator) {
                continue;
            }
            if let Some(image) = &relation.image {
                taking.entries.insert(relation.id, image.begin());
                taking.relations.push(relation);
            }
        }
        taking
    }
}

impl ImageTaking<'_> {
    /// Writes and syncs the images. They count once the checkpoint's notes do.
    pub(crate) fn save(&mut self) -> Result<()> {
        if self.relations.is_empty() {
            self.unended.clear();
            return Ok(());
        }
        let core = self.core;
        let dir = core.config.data_dir.join("images");
        let new = !core.env.exists(&dir).map_err(|e| failed("open", "images", e))?;
        core.env.create_dir_all(&dir)?;
        for relation in &self.relations {
            if let Some(image) = &relation.image {
                image.take(core, relation)?;
            }
        }
        self.save_undo()?;
        core.undo.keep_unlogged(false);
        core.log.sync_dir(&*core.env, &dir)?;
        if new { core.log.sync_dir(&*core.env, &core.config.data_dir) } else { Ok(()) }
    }
    fn save_undo(&mut self) -> Result<()> {
        let core = self.core;
        let mut wanted = BTreeSet::new();
        let entries = &self.entries;
        let mut failure = None;
        self.unended.retain(|t| match chunks_of(core, t.head, entries) {
            Ok(Some(chunks)) => {
                wanted.extend(chunks);
                true
            }
            Ok(None) => false,
            Err(e) => {
                failure = Some(e);
                false
            }
        });
        if let Some(e) = failure {
            return Err(e);
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let path = undo_path(&core.config.data_dir, self.generation);
        let name = format!("images/undo-{:016x}", self.generation);
        let file = core.env.open(&path, OpenMode::Truncate).map_err(|e| failed("open", &name, e))?;
        for (index, number) in wanted.iter().enumerate() {
            let first = core
                .undo
                .first_page(*number)
                .ok_or_else(|| Error::internal(format!("undo chunk {number} has gone while it was saved")))?;
            for page in 0..CHUNK_PAGES {
                let mut copy = Box::new([0u8; PAGE]);
                let is_it = core.pool.read(first + page, |v| {
                    if let Some(bytes) = v.bytes(0, PAGE) {
                        copy.copy_from_slice(bytes);
                    }
                    v.is(KIND_UNDO, *number as u32, page)
                })?;
                if is_it {
                    page::seal(&mut copy);
                } else {
                    // The block is not written yet.
                    copy.fill(0);
                }
                let offset = (index as u64 * u64::from(CHUNK_PAGES) + u64::from(page)) * PAGE as u64;
                file.write_at(&copy[..], offset).map_err(|e| failed("write to", &name, e))?;
            }
        }
        core.log.sync(&*file, &name)?;
        self.chunks = wanted.into_iter().collect();
        Ok(())
    }
    /// The checkpoint is durable. Files that it does not need go; what cannot be removed now is tried the next time.
    /// `relations`: those that it notes.
    pub fn complete(mut self, relations: &BTreeSet<u32>) {
        self.completed = true;
        self.relations.iter().filter_map(|r| r.image.as_deref()).for_each(RelationImage::complete);
        let core = self.core;
        if !core.directory.has_kept.load(Acquire) {
            return;
        }
        let Ok(files) = core.env.list_dir(&core.config.data_dir.join("images")) else { return };
        for path in files {
            let Some(name) = path.file_name().and_then(|n| n.to_str()) else { continue };
            let in_use = match name.strip_prefix("undo-") {
                Some(number) => u64::from_str_radix(number, 16).is_ok_and(|n| n + 1 >= self.generation),
                None => u32::from_str_radix(name, 16)
                    .is_ok_and(|id| relations.contains(&id) || core.directory.get(id).is_some()),
            };
            if !in_use {
                let _ = core.env.remove_file(&path);
            }
        }
    }
}

/// The chunks that a chain goes through; None if it has nothing of the relations of `entries`.
fn chunks_of(core: &Core, head: u64, entries: &BTreeMap<u32, ImageEntry>) -> Result<Option<BTreeSet<u64>>> {
    let (mut chunks, mut wanted, mut address) = (BTreeSet::new(), false, head);
    while address != 0 {
        let Some(record) = core.undo.read(&core.pool, address)? else { break };
        chunks.insert(address / CHUNK);
        wanted |= entries.contains_key(&record.rel);
        address = record.prev;
    }
    Ok(wanted.then_some(chunks))
}

impl RelationImage {
    /// Copies the blocks that were not changed since.
    fn take(&self, core: &Core, relation: &Relation) -> Result<()> {
        let pending = crate::lock(&self.state).run.as_ref().map(|r| r.pending.list()).unwrap_or_default();
        let written = !pending.is_empty();
        for block in pending {
            let copied = relation.pid(block).and_then(|pid| {
                let page = core.pool.write(pid)?;
                let mut s = crate::lock(&self.state);
                let second = !s.second.get(block);
                let mine = s.run.as_mut().is_some_and(|r| r.pending.set(block, false));
                Ok(mine.then(|| (Box::new(*page.page()), second)))
            });
            match copied {
                Ok(Some((page, second))) => self.put(&*core.env, block, second, &page)?,
                Ok(None) => {}
                Err(_) if relation.dropped.load(Acquire) => return Ok(()),
                Err(e) => return Err(e),
            }
        }
        let run = crate::lock(&self.state).run.as_mut().map(|r| (r.failed.take(), r.taken != BlockBits::default()));
        match run {
            Some((Some(e), _)) => Err(e),
            Some((None, any)) if written || any => core.log.sync(&**self.file(&*core.env)?, &self.name()),
            _ => Ok(()),
        }
    }
}
