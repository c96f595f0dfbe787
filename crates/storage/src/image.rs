//! Images: what unlogged relations that are kept at checkpoints are brought back from after a crash
//! (docs/decisions/0013).
//!
//! Invariants
//! 1. An image shows its relation, page by page, as it was at one moment, the same for all relations of a checkpoint:
//!    then no change was half done ([`Core::change_gate`]). A page is copied before its first change after that moment.
//! 2. Each block has two places in its relation's file. A checkpoint writes to the one that the last completed one does
//!    not use; its notes say which is which, so it counts as a whole or not at all.
//! 3. With the pages go the undo chains of the transactions that had not ended at that moment.
//! 4. Nothing here is read, written or waited for on behalf of other relations.
//!
//! Must not know: SQL, when checkpoints happen.

use crate::core::Core;
use crate::directory::Relation;
use crate::page::{self, KIND_UNDO, PAGE, PageBytes};
use crate::txn::table::Status;
use crate::undo::{CHUNK, CHUNK_PAGES};
use crate::wal::segment::failed;
use kilndb_base::env::{Env, File, Open};
use kilndb_base::sync::atomic::Ordering::*;
use kilndb_base::sync::{Arc, Mutex, OnceLock, RwLockReadGuard};
use kilndb_base::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A bit for each block.
#[derive(Default, Clone, Debug, PartialEq, Eq)]
pub struct Bits(Vec<u64>);
impl Bits {
    pub fn get(&self, at: u32) -> bool {
        self.0.get(at as usize / 64).is_some_and(|w| w >> (at % 64) & 1 != 0)
    }
    /// Returns what it was.
    pub fn set(&mut self, at: u32, to: bool) -> bool {
        let word = at as usize / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let was = self.0[word] >> (at % 64) & 1 != 0;
        if was != to {
            self.0[word] ^= 1 << (at % 64);
        }
        was
    }
    pub fn all(count: u32) -> Bits {
        let mut bits = Bits::default();
        (0..count).for_each(|at| {
            bits.set(at, true);
        });
        bits
    }
    fn merge(&mut self, other: &Bits, join: impl Fn(u64, u64) -> u64) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = join(*mine, *theirs);
        }
    }
    fn list(&self) -> Vec<u32> {
        let words = self.0.iter().enumerate().filter(|(_, w)| **w != 0);
        words.flat_map(|(i, w)| (0..64).filter(move |b| w >> b & 1 != 0).map(move |b| i as u32 * 64 + b)).collect()
    }
    pub fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|w| w.to_le_bytes()).collect()
    }
    pub fn from_bytes(bytes: &[u8]) -> Bits {
        Bits(bytes.chunks(8).map(|b| b.iter().rev().fold(0, |w, b| w << 8 | u64::from(*b))).collect())
    }
}

/// What a checkpoint notes of a relation's image.
#[derive(Default, Clone, Debug)]
pub struct ImageEntry {
    pub blocks: u32,
    /// Blocks whose second place counts.
    pub second: Bits,
}
/// What a checkpoint notes of transactions that had not ended.
#[derive(Default, Clone, Debug)]
pub struct Unended {
    pub xid: u64,
    /// Newest undo record that is not logged.
    pub head: u64,
    /// Committed, only its purge is due.
    pub purge: bool,
    /// It changes nothing any more: if it has committed after all, it counts.
    pub ending: bool,
}

/// Of one relation.
pub struct Image {
    path: PathBuf,
    file: OnceLock<Arc<dyn File>>,
    state: Mutex<ImageState>,
}
#[derive(Default)]
struct ImageState {
    /// Blocks with contents that the last completed image, and the one being taken, do not have.
    changed: Bits,
    blocks: u32,
    second: Bits,
    run: Option<Run>,
}
struct Run {
    blocks: u32,
    taken: Bits,
    pending: Bits,
    failed: Option<Error>,
}

fn path_of(dir: &Path, rel: u32) -> PathBuf {
    dir.join("images").join(format!("{rel:08x}"))
}
fn undo_path(dir: &Path, generation: u64) -> PathBuf {
    dir.join("images").join(format!("undo-{generation:016x}"))
}
fn offset_of(block: u32, second: bool) -> u64 {
    (u64::from(block) * 2 + u64::from(second)) * PAGE as u64
}

impl Image {
    pub fn new(dir: &Path, rel: u32) -> Image {
        Image { path: path_of(dir, rel), file: OnceLock::new(), state: Mutex::default() }
    }
    fn name(&self) -> String {
        format!("images/{}", self.path.file_name().and_then(|n| n.to_str()).unwrap_or(""))
    }
    fn file(&self, env: &dyn Env) -> Result<&Arc<dyn File>> {
        if self.file.get().is_none() {
            let file = env.open(&self.path, Open::Create).map_err(|e| failed("open", &self.name(), e))?;
            let _ = self.file.set(file);
        }
        self.file.get().ok_or_else(|| Error::internal("the file of an image is not open"))
    }
    /// The relation's pages are as the checkpoint's image has them (None: it has none).
    pub fn set_current(&self, entry: Option<&ImageEntry>, blocks: u32) {
        let mut s = crate::lock(&self.state);
        let changed = if entry.is_some() { Bits::default() } else { Bits::all(blocks) };
        *s = ImageState { changed, blocks, second: entry.map(|e| e.second.clone()).unwrap_or_default(), run: None };
    }
    fn put(&self, env: &dyn Env, block: u32, second: bool, page: &PageBytes) -> Result<()> {
        let mut copy = Box::new(*page);
        page::seal(&mut copy);
        let file = self.file(env)?;
        file.write_at(&copy[..], offset_of(block, second)).map_err(|e| failed("write to", &self.name(), e))
    }
    fn before_change(&self, env: &dyn Env, block: u32, page: &PageBytes) {
        let mut s = crate::lock(&self.state);
        let second = !s.second.get(block);
        if let Some(run) = &mut s.run
            && run.pending.set(block, false)
        {
            // Who changes the page is not to blame: it is the checkpoint that fails.
            if let Err(e) = self.put(env, block, second, page) {
                run.failed = Some(e);
            }
        }
        s.changed.set(block, true);
        s.blocks = s.blocks.max(block + 1);
    }
    fn begin(&self) -> ImageEntry {
        let mut s = crate::lock(&self.state);
        let taken = std::mem::take(&mut s.changed);
        let mut second = s.second.clone();
        second.merge(&taken, |a, b| a ^ b);
        s.run = Some(Run { blocks: s.blocks, pending: taken.clone(), taken, failed: None });
        ImageEntry { blocks: s.blocks, second }
    }
    /// Copies what nobody has changed since.
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
        let run = crate::lock(&self.state).run.as_mut().map(|r| (r.failed.take(), r.taken != Bits::default()));
        match run {
            Some((Some(e), _)) => Err(e),
            Some((None, any)) if written || any => core.log.sync(&**self.file(&*core.env)?, &self.name()),
            _ => Ok(()),
        }
    }
    fn complete(&self) {
        let mut s = crate::lock(&self.state);
        if let Some(run) = s.run.take() {
            s.second.merge(&run.taken, |a, b| a ^ b);
        }
    }
    fn abandon(&self) {
        let mut s = crate::lock(&self.state);
        if let Some(run) = s.run.take() {
            s.changed.merge(&run.taken, |a, b| a | b);
            s.blocks = s.blocks.max(run.blocks);
        }
    }
}

/// Reads a block of an image.
pub fn read_block(file: &dyn File, rel: u32, block: u32, entry: &ImageEntry) -> Result<Box<PageBytes>> {
    let mut bytes = Box::new([0u8; PAGE]);
    let offset = offset_of(block, entry.second.get(block));
    let got = file.read_at(&mut bytes[..], offset)?;
    bytes[got..].fill(0);
    let is_it = page::get32(&bytes, page::at::REL) == rel && page::get32(&bytes, page::at::BLOCK) == block;
    if bytes[page::at::KIND] == 0 || !is_it || !page::is_intact(&bytes) {
        let message = format!(
            "checksum of block {block} of storage relation {rel} is wrong (file \"images/{rel:08x}\", offset {offset})"
        );
        return Err(Error::corrupted(message));
    }
    Ok(bytes)
}
pub fn open(env: &dyn Env, dir: &Path, rel: u32) -> Result<Option<Arc<dyn File>>> {
    let path = path_of(dir, rel);
    let name = format!("images/{rel:08x}");
    if !env.exists(&path).map_err(|e| failed("open", &name, e))? {
        return Ok(None);
    }
    Ok(Some(env.open(&path, Open::ReadOnly).map_err(|e| failed("open", &name, e))?))
}
/// Reads a page of a saved undo chunk: the `index`th chunk that the checkpoint of this generation names, which has this
/// number.
pub fn read_undo(file: &dyn File, generation: u64, index: usize, number: u64, page: u32) -> Result<Box<PageBytes>> {
    let mut bytes = Box::new([0u8; PAGE]);
    let offset = (index as u64 * u64::from(CHUNK_PAGES) + u64::from(page)) * PAGE as u64;
    let name = format!("images/undo-{generation:016x}");
    let got = file.read_at(&mut bytes[..], offset).map_err(|e| failed("read", &name, e))?;
    let is_it = bytes[page::at::KIND] == 0 || page::View::of(&bytes).is(KIND_UNDO, number as u32, page);
    if got < PAGE || !is_it || !page::is_intact(&bytes) {
        return Err(Error::corrupted(format!(
            "checksum of page {page} of undo chunk {number} is wrong (file \"{name}\", offset {offset})"
        )));
    }
    Ok(bytes)
}
pub fn open_undo(env: &dyn Env, dir: &Path, generation: u64) -> Result<Arc<dyn File>> {
    let name = format!("images/undo-{generation:016x}");
    env.open(&undo_path(dir, generation), Open::ReadOnly).map_err(|e| failed("open", &name, e))
}

/// The images of one checkpoint while they are taken. Dropped before [`Taking::complete`], they are not: the last ones
/// count.
pub struct Taking<'a> {
    core: &'a Core,
    generation: u64,
    relations: Vec<Arc<Relation>>,
    pub entries: BTreeMap<u32, ImageEntry>,
    pub unended: Vec<Unended>,
    /// Numbers of the undo chunks saved.
    pub chunks: Vec<u64>,
    completed: bool,
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        if !self.completed {
            self.relations.iter().filter_map(|r| r.image.as_deref()).for_each(Image::abandon);
        }
        self.core.undo.keep_unlogged(false);
    }
}

impl Core {
    /// Held while a change of a kept relation is made, so that no image shows it by half. Not to be taken twice.
    #[inline]
    pub(crate) fn change_gate(&self, relation: &Relation) -> Option<RwLockReadGuard<'_, ()>> {
        relation.image.as_ref().map(|_| self.images.read().unwrap_or_else(|e| e.into_inner()))
    }
    /// The block, latched by the caller, is about to change.
    #[inline]
    pub(crate) fn before_change(&self, image: &Image, block: u32, page: &PageBytes) {
        image.before_change(&*self.env, block, page);
        if !self.kept_changed.load(Relaxed) {
            self.kept_changed.store(true, Relaxed);
        }
    }
    /// The moment that the images of a checkpoint show. `ending`: transactions that do no more but commit, if that.
    pub(crate) fn begin_images(&self, generation: u64, ending: &[u64]) -> Taking<'_> {
        let mut taking = Taking {
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
        // Whoever counts as committed by now has its number too.
        self.log.settled_lsn();
        let newest = self.log.last_csn();
        let committed = |xid: u64| matches!(self.xids.status(xid), Status::Committed { csn, .. } if csn <= newest);
        for (xid, _, was_over) in unfinished {
            let (head, over) = (self.xids.unlogged_head(xid), was_over || committed(xid));
            if head != 0 && (!over || was_over || self.xids.wants_purge(xid)) {
                taking.unended.push(Unended { xid, head, purge: over, ending: ending.contains(&xid) });
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

impl Taking<'_> {
    /// Writes and syncs the images. They count once the checkpoint's notes do.
    pub fn save(&mut self) -> Result<()> {
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
        let file = core.env.open(&path, Open::Truncate).map_err(|e| failed("open", &name, e))?;
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
                    // Not reached yet.
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
        self.relations.iter().filter_map(|r| r.image.as_deref()).for_each(Image::complete);
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
