//! The control file and the directory file.
//!
//! Invariants
//! 1. `control` has two slots of 512 bytes at 0 and 4096, written in turn; the valid one with the higher generation
//!    counts.
//! 2. The slot of a generation is made durable before the server goes on from it ([`harden`]).
//! 3. The directory file of a generation is complete and durable before the control file names it, and so is all that
//!    the checkpoint consists of. A directory of a generation that never counted is removed at the next start.
//! 4. A folder is taken for a new one only if nothing of a cluster is in it ([`read`]).
//!
//! Format of a slot: magic u64, version u32, zero u32, generation u64, crc u32 of the 24 bytes before.
//! Directory file `directory-<generation>`: magic u64, varints (see `encode`), crc u32 of everything before.
//!
//! Must not know: how the cluster is recovered.

use crate::buffer::doublewrite::DoubleWriteArea;
use crate::crc::crc32c;
use crate::image::{BlockBits, ImageEntry, UnendedTransaction};
use crate::wal::Log;
use crate::wal::segment::failed;
use kilndb_base::bytes::{ByteReader, put_prefixed, put_varint};
use kilndb_base::env::{Env, File, OpenMode};
use kilndb_base::planted::{self, PlantedBug};
use kilndb_base::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub const VERSION: u32 = 7;
/// Clusters from this version on are read too; they become [`VERSION`] with their first checkpoint.
const OLDEST_VERSION: u32 = 1;
const MAGIC: u64 = u64::from_le_bytes(*b"KilnCtl1");
const DIRECTORY_MAGIC: u64 = u64::from_le_bytes(*b"KilnDir1");

/// A flag beside the number of an index's heap.
const HAS_ALL_ROWS: u64 = 1 << 32;

#[derive(Default, Debug, Clone)]
pub(crate) struct RelationEntry {
    pub id: u32,
    pub kind: u8,
    pub persistence: u8,
    pub heap: u32,
    /// The relation is an index with one entry for each row of its heap.
    pub has_all_rows: bool,
    pub creator: u64,
    pub blocks: u32,
    pub extents: Vec<u32>,
    /// The contents that an unlogged cell has after a crash.
    pub initial: Vec<u8>,
    pub image: Option<ImageEntry>,
}
/// All that a checkpoint writes to the directory file.
#[derive(Default, Debug, Clone)]
pub(crate) struct Checkpoint {
    pub generation: u64,
    pub redo: u64,
    pub clean: bool,
    pub next_xid: u64,
    pub next_csn: u64,
    pub next_relation: u32,
    pub next_chunk: u64,
    pub relations: Vec<RelationEntry>,
    /// The undo chunks: number, first page, whether it is logged.
    pub chunks: Vec<(u64, u32, bool)>,
    /// Unfinished transactions: xid, undo chain, whether only the purge is due.
    pub unfinished: Vec<(u64, u64, bool)>,
    /// The transactions that had not ended when the images were taken, and the undo chunks that are saved with the
    /// images.
    pub unended: Vec<UnendedTransaction>,
    pub image_chunks: Vec<u64>,
    /// The LSN up to which the log was durable at that time; 0: not known.
    pub durable: u64,
}

impl Checkpoint {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = DIRECTORY_MAGIC.to_le_bytes().to_vec();
        let mut put = |v: u64| put_varint(&mut out, v);
        put(self.generation);
        put(self.redo);
        put(u64::from(self.clean));
        put(self.next_xid);
        put(self.next_csn);
        put(u64::from(self.next_relation));
        put(self.next_chunk);
        put(self.relations.len() as u64);
        for r in &self.relations {
            put(u64::from(r.id));
            put(u64::from(r.kind));
            put(u64::from(r.persistence));
            put(u64::from(r.heap) | if r.has_all_rows { HAS_ALL_ROWS } else { 0 });
            put(r.creator);
            put(u64::from(r.blocks));
            put(r.extents.len() as u64);
            for e in &r.extents {
                put(u64::from(*e));
            }
        }
        put(self.chunks.len() as u64);
        for (number, page, logged) in &self.chunks {
            put(*number);
            put(u64::from(*page));
            put(u64::from(*logged));
        }
        put(self.unfinished.len() as u64);
        for (xid, head, purge) in &self.unfinished {
            put(*xid);
            put(*head);
            put(u64::from(*purge));
        }
        let cells: Vec<_> = self.relations.iter().filter(|r| !r.initial.is_empty()).collect();
        put_varint(&mut out, cells.len() as u64);
        for r in cells {
            put_varint(&mut out, u64::from(r.id));
            put_prefixed(&mut out, &r.initial);
        }
        let images: Vec<_> = self.relations.iter().filter_map(|r| r.image.as_ref().map(|i| (r.id, i))).collect();
        put_varint(&mut out, images.len() as u64);
        for (id, image) in images {
            put_varint(&mut out, u64::from(id));
            put_varint(&mut out, u64::from(image.blocks));
            put_prefixed(&mut out, &image.second.bytes());
        }
        put_varint(&mut out, self.unended.len() as u64);
        for t in &self.unended {
            put_varint(&mut out, t.xid);
            put_varint(&mut out, t.head);
            put_varint(&mut out, u64::from(t.purge) | u64::from(t.ending) << 1);
        }
        put_varint(&mut out, self.image_chunks.len() as u64);
        self.image_chunks.iter().for_each(|number| put_varint(&mut out, *number));
        put_varint(&mut out, self.durable);
        let crc = crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }
    fn decode(bytes: &[u8]) -> Option<Checkpoint> {
        let (body, crc) = bytes.split_last_chunk::<4>()?;
        if crc32c(body) != u32::from_le_bytes(*crc) {
            return None;
        }
        let mut r = ByteReader::new(body);
        if r.u64()? != DIRECTORY_MAGIC {
            return None;
        }
        let v32 = |r: &mut ByteReader<'_>| r.varint().and_then(|v| u32::try_from(v).ok());
        let mut c = Checkpoint {
            generation: r.varint()?,
            redo: r.varint()?,
            clean: r.varint()? != 0,
            next_xid: r.varint()?,
            next_csn: r.varint()?,
            next_relation: v32(&mut r)?,
            next_chunk: r.varint()?,
            ..Checkpoint::default()
        };
        for _ in 0..r.varint()? {
            let (id, kind, persistence) = (v32(&mut r)?, r.varint()? as u8, r.varint()? as u8);
            let heap = r.varint()?;
            let mut e = RelationEntry {
                id,
                kind,
                persistence,
                heap: u32::try_from(heap & !HAS_ALL_ROWS).ok()?,
                has_all_rows: heap & HAS_ALL_ROWS != 0,
                creator: r.varint()?,
                blocks: v32(&mut r)?,
                extents: Vec::new(),
                initial: Vec::new(),
                image: None,
            };
            for _ in 0..r.varint()? {
                e.extents.push(v32(&mut r)?);
            }
            c.relations.push(e);
        }
        for _ in 0..r.varint()? {
            c.chunks.push((r.varint()?, v32(&mut r)?, r.varint()? != 0));
        }
        for _ in 0..r.varint()? {
            c.unfinished.push((r.varint()?, r.varint()?, r.varint()? != 0));
        }
        if r.is_empty() {
            // A file of version 1 ends here.
            return Some(c);
        }
        for _ in 0..r.varint()? {
            let (id, bytes) = (v32(&mut r)?, r.prefixed()?);
            c.relations.iter_mut().find(|e| e.id == id)?.initial = bytes.to_vec();
        }
        for _ in 0..r.varint()? {
            let (id, blocks, second) = (v32(&mut r)?, v32(&mut r)?, BlockBits::from_bytes(r.prefixed()?));
            c.relations.iter_mut().find(|e| e.id == id)?.image = Some(ImageEntry { blocks, second });
        }
        for _ in 0..r.varint()? {
            let (xid, head, how) = (r.varint()?, r.varint()?, r.varint()?);
            c.unended.push(UnendedTransaction { xid, head, purge: how & 1 != 0, ending: how & 2 != 0 });
        }
        for _ in 0..r.varint()? {
            c.image_chunks.push(r.varint()?);
        }
        if !r.is_empty() {
            // This field is missing in version 2.
            c.durable = r.varint()?;
        }
        Some(c)
    }
}

fn directory_path(dir: &Path, generation: u64) -> PathBuf {
    dir.join(format!("directory-{generation:016x}"))
}
fn read_whole(file: &dyn File) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; file.len()? as usize];
    let got = file.read_at(&mut bytes, 0)?;
    bytes.truncate(got);
    Ok(bytes)
}

pub fn write(env: &Arc<dyn Env>, dir: &Path, log: &Log, checkpoint: &Checkpoint) -> Result<()> {
    let generation = checkpoint.generation;
    assert!(generation > 0 && checkpoint.redo > 0, "a checkpoint has a generation and a place in the log");
    let path = directory_path(dir, generation);
    let fresh = dir.join("directory.new");
    let file = env.open(&fresh, OpenMode::Truncate).map_err(|e| failed("create", "directory.new", e))?;
    file.write_at(&checkpoint.encode(), 0).map_err(|e| failed("write to", "directory.new", e))?;
    log.sync(&*file, "directory.new")?;
    env.rename(&fresh, &path).map_err(|e| failed("rename", "directory.new", e))?;
    log.sync_dir(&**env, dir)?;
    write_slot(env, dir, log, generation)?;
    for (old, n) in directories(env, dir).unwrap_or_default() {
        if n + 1 < generation {
            // This checkpoint counts already; if the old file stays, the next checkpoint removes it.
            let _ = env.remove_file(&old);
        }
    }
    Ok(())
}

fn write_slot(env: &Arc<dyn Env>, dir: &Path, log: &Log, generation: u64) -> Result<()> {
    let mut slot = Vec::with_capacity(32);
    slot.extend_from_slice(&MAGIC.to_le_bytes());
    slot.extend_from_slice(&VERSION.to_le_bytes());
    slot.extend_from_slice(&[0; 4]);
    slot.extend_from_slice(&generation.to_le_bytes());
    let crc = crc32c(&slot);
    slot.extend_from_slice(&crc.to_le_bytes());
    slot.resize(512, 0);
    let control = env.open(&dir.join("control"), OpenMode::Create).map_err(|e| failed("open", "control", e))?;
    control.write_at(&slot, (generation % 2) * 4096).map_err(|e| {
        let e = failed("write to", "control", e);
        // After this error the checkpoint may count or not. Only the next start can tell which files the next
        // checkpoint may write over, so the log fails and with it the process.
        log.fail(&e);
        e
    })?;
    log.sync(&*control, "control")?;
    log.sync_dir(&**env, dir)
}
/// The generation that was read may be in the system's memory only: the last process may have ended before its sync, or
/// with it. It is made durable before anything that the one before it needs is written over. Directories of later
/// generations belong to checkpoints that never counted: they go, so that the next one to be found beside a damaged slot
/// is what that slot named.
pub(crate) fn harden(env: &Arc<dyn Env>, dir: &Path, log: &Log, generation: u64) -> Result<()> {
    for (path, number) in directories(env, dir)? {
        if number > generation {
            env.remove_file(&path).map_err(|e| failed("remove", &shown(&path), e))?;
        }
    }
    write_slot(env, dir, log, generation)
}

/// The state of the folder that a start begins with.
#[derive(Debug)]
pub(crate) struct FoundCluster {
    pub checkpoint: Checkpoint,
    /// A slot is damaged that the cluster can do without.
    pub damage: Option<String>,
}
#[derive(Clone, Copy, PartialEq, Eq)]
enum ControlSlot {
    /// The slot has zeros, or is beyond the file's end.
    Empty,
    Damaged,
    Valid(u64),
}

/// Reads the newest valid generation. None: the folder has no cluster and no file of one.
pub fn read(env: &Arc<dyn Env>, dir: &Path) -> Result<Option<FoundCluster>> {
    let slots = read_slots(env, dir)?;
    let generation = match slots.unwrap_or([ControlSlot::Empty; 2]) {
        [ControlSlot::Valid(a), ControlSlot::Valid(b)] => a.max(b),
        [ControlSlot::Valid(one), other] | [other, ControlSlot::Valid(one)] => {
            return beside_damage(env, dir, one, other).map(Some);
        }
        [ControlSlot::Empty, ControlSlot::Empty] => {
            if planted::is(PlantedBug::NoControlNoCluster) {
                return Ok(None);
            }
            let Some(name) = content(env, dir)? else { return Ok(None) };
            let problem = if slots.is_some() { "is empty" } else { "is missing" };
            let message = format!("file \"control\" {problem}, but there is a cluster in its folder (file \"{name}\")");
            return Err(Error::corrupted(message));
        }
        _ => return Err(Error::corrupted("file \"control\" has no valid slot (offsets 0 and 4096)")),
    };
    Ok(Some(FoundCluster { checkpoint: read_directory(env, dir, generation)?, damage: None }))
}

/// The other slot does not sum up. A write cannot have torn it, as a sector is written whole: it went bad later, and may
/// have named the next generation, for which room was made by giving up what this one needs. Then the directory of that
/// is here ([`harden`] leaves none that never counted), and complete, as it is the last thing to be made durable before
/// the slot.
fn beside_damage(env: &Arc<dyn Env>, dir: &Path, valid: u64, other: ControlSlot) -> Result<FoundCluster> {
    let next = directory_path(dir, valid + 1);
    let is_later = env.exists(&next).map_err(|e| failed("open", &shown(&next), e))?;
    let checkpoint = read_directory(env, dir, valid + u64::from(is_later))?;
    // The first generation has no other before it.
    let is_usual = valid == 1 && other == ControlSlot::Empty;
    let offset = (valid + 1) % 2 * 4096;
    let damage =
        (!is_usual).then(|| format!("file \"control\" is damaged (offset {offset}); its other slot is enough"));
    Ok(FoundCluster { checkpoint, damage })
}

fn read_slots(env: &Arc<dyn Env>, dir: &Path) -> Result<Option<[ControlSlot; 2]>> {
    let path = dir.join("control");
    if !env.exists(&path).map_err(|e| failed("open", "control", e))? {
        return Ok(None);
    }
    let control = env.open(&path, OpenMode::ReadOnly).map_err(|e| failed("open", "control", e))?;
    let mut slots = [ControlSlot::Empty; 2];
    for (index, slot) in slots.iter_mut().enumerate() {
        let mut bytes = [0; 28];
        control.read_at(&mut bytes, index as u64 * 4096).map_err(|e| failed("read", "control", e))?;
        *slot = read_slot(&bytes)?;
    }
    Ok(Some(slots))
}
fn read_slot(bytes: &[u8; 28]) -> Result<ControlSlot> {
    if bytes.iter().all(|b| *b == 0) {
        return Ok(ControlSlot::Empty);
    }
    let mut r = ByteReader::new(bytes);
    let (Some(magic), Some(version), Some(_), Some(generation), Some(crc)) =
        (r.u64(), r.u32(), r.u32(), r.u64(), r.u32())
    else {
        return Ok(ControlSlot::Damaged);
    };
    if magic != MAGIC || crc32c(&bytes[..24]) != crc {
        return Ok(ControlSlot::Damaged);
    }
    if !(OLDEST_VERSION..=VERSION).contains(&version) {
        return Err(Error::corrupted(format!(
            "the cluster has format version {version}, this program reads {VERSION}"
        )));
    }
    Ok(ControlSlot::Valid(generation))
}
fn read_directory(env: &Arc<dyn Env>, dir: &Path, generation: u64) -> Result<Checkpoint> {
    let path = directory_path(dir, generation);
    let name = shown(&path);
    let file = env.open(&path, OpenMode::ReadOnly).map_err(|e| failed("open", &name, e))?;
    let bytes = read_whole(&*file).map_err(|e| failed("read", &name, e))?;
    Checkpoint::decode(&bytes)
        .filter(|c| c.generation == generation)
        .ok_or_else(|| Error::corrupted(format!("file \"{name}\" is damaged")))
}

/// The first file found in which a cluster has, or may have, something to lose. A cluster that is being made writes
/// neither log nor pages nor a second directory before its first slot of `control` is durable: without one, and without
/// these, it is made again from the beginning.
fn content(env: &Arc<dyn Env>, dir: &Path) -> Result<Option<String>> {
    if let Some((path, _)) = directories(env, dir)?.into_iter().find(|(_, generation)| *generation != 1) {
        return Ok(Some(shown(&path)));
    }
    let pages = dir.join("pages");
    let has_pages = env.exists(&pages).map_err(|e| failed("open", "pages", e))?
        && env.open(&pages, OpenMode::ReadOnly).and_then(|f| f.len()).map_err(|e| failed("open", "pages", e))? > 0;
    if has_pages {
        return Ok(Some("pages".into()));
    }
    for folder in ["wal", "images"] {
        let path = dir.join(folder);
        if env.exists(&path).map_err(|e| failed("open", folder, e))?
            && let Some(file) = env.list_dir(&path).map_err(|e| failed("open", folder, e))?.first()
        {
            return Ok(Some(format!("{folder}/{}", shown(file))));
        }
    }
    let area = dir.join("doublewrite");
    let has_copies = env.exists(&area).map_err(|e| failed("open", "doublewrite", e))?
        && env
            .open(&area, OpenMode::ReadOnly)
            .map_err(|e| failed("open", "doublewrite", e))
            .and_then(|file| DoubleWriteArea::read(&*file))?
            .has_copies();
    Ok(has_copies.then(|| "doublewrite".into()))
}
fn directories(env: &Arc<dyn Env>, dir: &Path) -> Result<Vec<(PathBuf, u64)>> {
    let files = env.list_dir(dir).map_err(|e| failed("read", &dir.display().to_string(), e))?;
    let numbered = files.into_iter().filter_map(|path| {
        let number = path.file_name()?.to_str()?.strip_prefix("directory-")?;
        u64::from_str_radix(number, 16).ok().map(|n| (path.clone(), n))
    });
    Ok(numbered.collect())
}
/// The name of a file without its folder, for messages.
fn shown(path: &Path) -> String {
    path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}
