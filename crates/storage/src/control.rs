//! The control file and the directory file.
//!
//! Invariants
//! 1. `control` has two slots of 512 bytes at 0 and 4096, written in turn; the valid one with the higher generation
//!    counts.
//! 2. Whoever goes on from a generation makes its slot durable first ([`harden`]).
//! 3. The directory file of a generation is complete and durable before the control file names it.
//!
//! Format of a slot: magic u64, version u32, zero u32, generation u64, crc u32 of the 24 bytes before.
//! Directory file `directory-<generation>`: magic u64, varints (see `encode`), crc u32 of everything before.
//!
//! Must not know: how the cluster is recovered.

use crate::crc::crc32c;
use crate::image::{Bits, ImageEntry, Unended};
use crate::wal::Log;
use crate::wal::segment::failed;
use kilndb_base::bytes::{Reader, put_prefixed, put_varint};
use kilndb_base::env::{Env, File, Open};
use kilndb_base::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub const VERSION: u32 = 2;
/// Clusters of this version are read too; they become [`VERSION`] with their first checkpoint.
const OLDEST_VERSION: u32 = 1;
const MAGIC: u64 = u64::from_le_bytes(*b"KilnCtl1");
const DIRECTORY_MAGIC: u64 = u64::from_le_bytes(*b"KilnDir1");

#[derive(Default, Debug, Clone)]
pub struct RelationEntry {
    pub id: u32,
    pub kind: u8,
    pub persistence: u8,
    pub heap: u32,
    pub creator: u64,
    pub blocks: u32,
    pub extents: Vec<u32>,
    /// What an unlogged cell begins with after a crash.
    pub initial: Vec<u8>,
    pub image: Option<ImageEntry>,
}
/// What a checkpoint notes.
#[derive(Default, Debug, Clone)]
pub struct Checkpoint {
    pub generation: u64,
    pub redo: u64,
    pub clean: bool,
    pub next_xid: u64,
    pub next_csn: u64,
    pub next_relation: u32,
    pub next_chunk: u64,
    pub relations: Vec<RelationEntry>,
    /// Number, first page, logged.
    pub chunks: Vec<(u64, u32, bool)>,
    /// Xid, undo chain, waits for its purge only.
    pub unfinished: Vec<(u64, u64, bool)>,
    /// Of the images: transactions that had not ended, undo chunks saved with them.
    pub unended: Vec<Unended>,
    pub image_chunks: Vec<u64>,
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
            put(u64::from(r.heap));
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
        let crc = crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }
    fn decode(bytes: &[u8]) -> Option<Checkpoint> {
        let (body, crc) = bytes.split_last_chunk::<4>()?;
        if crc32c(body) != u32::from_le_bytes(*crc) {
            return None;
        }
        let mut r = Reader::new(body);
        if r.u64()? != DIRECTORY_MAGIC {
            return None;
        }
        let v32 = |r: &mut Reader<'_>| r.varint().and_then(|v| u32::try_from(v).ok());
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
            let mut e = RelationEntry {
                id: v32(&mut r)?,
                kind: r.varint()? as u8,
                persistence: r.varint()? as u8,
                heap: v32(&mut r)?,
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
            // As version 1 has it.
            return Some(c);
        }
        for _ in 0..r.varint()? {
            let (id, bytes) = (v32(&mut r)?, r.prefixed()?);
            c.relations.iter_mut().find(|e| e.id == id)?.initial = bytes.to_vec();
        }
        for _ in 0..r.varint()? {
            let (id, blocks, second) = (v32(&mut r)?, v32(&mut r)?, Bits::from_bytes(r.prefixed()?));
            c.relations.iter_mut().find(|e| e.id == id)?.image = Some(ImageEntry { blocks, second });
        }
        for _ in 0..r.varint()? {
            let (xid, head, how) = (r.varint()?, r.varint()?, r.varint()?);
            c.unended.push(Unended { xid, head, purge: how & 1 != 0, ending: how & 2 != 0 });
        }
        for _ in 0..r.varint()? {
            c.image_chunks.push(r.varint()?);
        }
        Some(c)
    }
}

fn directory_path(dir: &Path, generation: u64) -> PathBuf {
    dir.join(format!("directory-{generation:016x}"))
}
fn read_whole(file: &dyn File) -> Result<Vec<u8>> {
    let mut bytes = vec![0; file.len()? as usize];
    let got = file.read_at(&mut bytes, 0)?;
    bytes.truncate(got);
    Ok(bytes)
}

pub fn write(env: &Arc<dyn Env>, dir: &Path, log: &Log, checkpoint: &Checkpoint) -> Result<()> {
    let generation = checkpoint.generation;
    let path = directory_path(dir, generation);
    let fresh = dir.join("directory.new");
    let file = env.open(&fresh, Open::Truncate)?;
    file.write_at(&checkpoint.encode(), 0)?;
    log.sync(&*file, "directory.new")?;
    env.rename(&fresh, &path)?;
    log.sync_dir(&**env, dir)?;
    write_slot(env, dir, log, generation)?;
    for old in env.list_dir(dir).unwrap_or_default() {
        let number = old.file_name().and_then(|n| n.to_str()).and_then(|n| n.strip_prefix("directory-"));
        if let Some(n) = number.and_then(|n| u64::from_str_radix(n, 16).ok())
            && n + 1 < generation
        {
            // This checkpoint counts by now; the file goes with the next one.
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
    let control = env.open(&dir.join("control"), Open::Create)?;
    control.write_at(&slot, (generation % 2) * 4096).map_err(|e| {
        let e = failed("write to", "control", e);
        // It may count, or not: which files the next checkpoint may write over, only the next start can tell.
        log.fail(&e);
        e
    })?;
    log.sync(&*control, "control")?;
    log.sync_dir(&**env, dir)
}
/// The generation that was read may be in the system's memory only: the last process may have ended before its sync, or
/// with it. It is made durable before anything that the one before it needs is written over.
pub fn harden(env: &Arc<dyn Env>, dir: &Path, log: &Log, generation: u64) -> Result<()> {
    write_slot(env, dir, log, generation)
}

/// None: there is no cluster here.
pub fn read(env: &Arc<dyn Env>, dir: &Path) -> Result<Option<Checkpoint>> {
    let path = dir.join("control");
    if !env.exists(&path) {
        return Ok(None);
    }
    let control = env.open(&path, Open::Existing)?;
    let mut best = None;
    for slot in 0..2u64 {
        let mut bytes = [0; 28];
        if control.read_at(&mut bytes, slot * 4096)? < bytes.len() {
            continue;
        }
        let mut r = Reader::new(&bytes);
        let (Some(magic), Some(version), Some(_), Some(generation), Some(crc)) =
            (r.u64(), r.u32(), r.u32(), r.u64(), r.u32())
        else {
            continue;
        };
        if magic != MAGIC || crc32c(&bytes[..24]) != crc {
            continue;
        }
        if !(OLDEST_VERSION..=VERSION).contains(&version) {
            return Err(Error::corrupted(format!(
                "the cluster has format version {version}, this program reads {VERSION}"
            )));
        }
        best = best.max(Some(generation));
    }
    let Some(generation) = best else {
        return if env
            .list_dir(dir)?
            .iter()
            .any(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("directory-")))
        {
            Err(Error::corrupted("file \"control\" has no valid slot"))
        } else {
            Ok(None)
        };
    };
    let path = directory_path(dir, generation);
    let file = env.open(&path, Open::Existing)?;
    Checkpoint::decode(&read_whole(&*file)?)
        .map(Some)
        .ok_or_else(|| Error::corrupted(format!("file \"{}\" is damaged", path.display())))
}
