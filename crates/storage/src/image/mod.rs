//! Images: copies of unlogged relations that are kept at checkpoints, from which they are restored after a crash
//! (docs/decisions/0013).
//!
//! Invariants
//! 1. An image shows its relation, page by page, as it was at one moment, the same for all relations of a checkpoint:
//!    then no change was half done ([`Core::change_gate`]). A page is copied before its first change after that moment.
//! 2. Each block has two places in its relation's file. A checkpoint writes to the one that the last completed one does
//!    not use; its notes say which is which, so it counts as a whole or not at all.
//! 3. The undo chains of the transactions that had not ended at that moment are saved with the pages.
//! 4. Nothing here is read, written or waited for on behalf of other relations.
//!
//! Must not know: SQL, when checkpoints happen.

pub mod taking;

use crate::page::{self, KIND_UNDO, PAGE, PageBytes};
use crate::undo::record::CHUNK_PAGES;
use crate::wal::segment::failed;
use kilndb_base::env::{Env, File, OpenMode};
use kilndb_base::sync::{Arc, Mutex, OnceLock};
use kilndb_base::{Error, Result};
use std::path::{Path, PathBuf};

/// A set of blocks: one bit for each block.
#[derive(Default, Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockBits(Vec<u64>);
impl BlockBits {
    pub fn get(&self, at: u32) -> bool {
        self.0.get(at as usize / 64).is_some_and(|w| w >> (at % 64) & 1 != 0)
    }
    /// Sets a bit; returns what it was.
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
    pub fn all(count: u32) -> BlockBits {
        let mut bits = BlockBits::default();
        (0..count).for_each(|at| {
            bits.set(at, true);
        });
        bits
    }
    fn merge(&mut self, other: &BlockBits, join: impl Fn(u64, u64) -> u64) {
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
    pub fn from_bytes(bytes: &[u8]) -> BlockBits {
        BlockBits(bytes.chunks(8).map(|b| b.iter().rev().fold(0, |w, b| w << 8 | u64::from(*b))).collect())
    }
}

/// The entry for a relation's image in a checkpoint's notes.
#[derive(Default, Clone, Debug)]
pub(crate) struct ImageEntry {
    pub blocks: u32,
    /// The blocks whose second place counts.
    pub second: BlockBits,
}
/// The entry for a transaction that had not ended in a checkpoint's notes.
#[derive(Default, Clone, Debug)]
pub(crate) struct UnendedTransaction {
    pub xid: u64,
    /// The newest undo record that is not logged.
    pub head: u64,
    /// The transaction has committed, and only its purge is due.
    pub purge: bool,
    /// The transaction changes nothing any more: if it has committed by the end of the log, it counts as committed.
    pub ending: bool,
}

/// The image of one relation.
pub(crate) struct RelationImage {
    path: PathBuf,
    file: OnceLock<Arc<dyn File>>,
    state: Mutex<ImageState>,
}
#[derive(Default)]
struct ImageState {
    /// Blocks with contents that the last completed image, and the one being taken, do not have.
    changed: BlockBits,
    blocks: u32,
    second: BlockBits,
    run: Option<ImageRun>,
}
struct ImageRun {
    blocks: u32,
    taken: BlockBits,
    pending: BlockBits,
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

impl RelationImage {
    pub fn new(dir: &Path, rel: u32) -> RelationImage {
        RelationImage { path: path_of(dir, rel), file: OnceLock::new(), state: Mutex::default() }
    }
    fn name(&self) -> String {
        format!("images/{}", self.path.file_name().and_then(|n| n.to_str()).unwrap_or(""))
    }
    fn file(&self, env: &dyn Env) -> Result<&Arc<dyn File>> {
        if self.file.get().is_none() {
            let file = env.open(&self.path, OpenMode::Create).map_err(|e| failed("open", &self.name(), e))?;
            let _ = self.file.set(file);
        }
        self.file.get().ok_or_else(|| Error::internal("the file of an image is not open"))
    }
    /// The relation's pages are as the checkpoint's image has them (None: it has none).
    pub(crate) fn set_current(&self, entry: Option<&ImageEntry>, blocks: u32) {
        let mut s = crate::lock(&self.state);
        let changed = if entry.is_some() { BlockBits::default() } else { BlockBits::all(blocks) };
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
            // The session that changes the page goes on: it is the checkpoint that fails.
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
        s.run = Some(ImageRun { blocks: s.blocks, pending: taken.clone(), taken, failed: None });
        ImageEntry { blocks: s.blocks, second }
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
pub(crate) fn read_block(file: &dyn File, rel: u32, block: u32, entry: &ImageEntry) -> Result<Box<PageBytes>> {
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
    Ok(Some(env.open(&path, OpenMode::ReadOnly).map_err(|e| failed("open", &name, e))?))
}
/// Reads a page of a saved undo chunk: the `index`th chunk that the checkpoint of this generation names, which has this
/// number.
pub(crate) fn read_undo(
    file: &dyn File,
    generation: u64,
    index: usize,
    number: u64,
    page: u32,
) -> Result<Box<PageBytes>> {
    let mut bytes = Box::new([0u8; PAGE]);
    let offset = (index as u64 * u64::from(CHUNK_PAGES) + u64::from(page)) * PAGE as u64;
    let name = format!("images/undo-{generation:016x}");
    let got = file.read_at(&mut bytes[..], offset).map_err(|e| failed("read", &name, e))?;
    let is_it = bytes[page::at::KIND] == 0 || page::PageView::of(&bytes).is(KIND_UNDO, number as u32, page);
    if got < PAGE || !is_it || !page::is_intact(&bytes) {
        return Err(Error::corrupted(format!(
            "checksum of page {page} of undo chunk {number} is wrong (file \"{name}\", offset {offset})"
        )));
    }
    Ok(bytes)
}
pub(crate) fn open_undo(env: &dyn Env, dir: &Path, generation: u64) -> Result<Arc<dyn File>> {
    let name = format!("images/undo-{generation:016x}");
    env.open(&undo_path(dir, generation), OpenMode::ReadOnly).map_err(|e| failed("open", &name, e))
}
