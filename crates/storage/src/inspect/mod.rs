//! `kilndb inspect`: a cluster's structures in words, for people who look into a problem or learn the formats.
//!
//! It shows what the files have: after a crash the log is not replayed first, so pages may be older than the log.
//!
//! Invariants
//! 1. Nothing is written, and no file is made. The folder is locked as for a check, so no server runs meanwhile.
//! 2. Where something cannot be read the error is shown in its place, and the rest is shown too.
//!
//! Must not know: SQL values. Keys, rows and terms are bytes.

mod log;
mod page;
mod tree;
mod undo;
mod words;

use crate::api::RelationKind;
use crate::control::{self, Checkpoint, RelationEntry};
use crate::directory::{locate, persistence_of};
use crate::engine::lock_cluster;
use crate::page::{PAGE, PageBytes};
use crate::undo::record::{CHUNK, CHUNK_PAGES};
use crate::wal::frame::shown_lsn;
use crate::wal::segment::failed;
use kilndb_base::env::{Env, File, FolderLock, FolderLockGuard, OpenMode};
use kilndb_base::{Error, RelationId, Result, sqlstate};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use log::LogRange;
use words::in_words;

/// The function that gets the lines.
pub type LineSink<'a> = dyn FnMut(String) + 'a;

/// A cluster that is inspected.
pub struct Inspector {
    env: Arc<dyn Env>,
    dir: PathBuf,
    checkpoint: Checkpoint,
    pages: Arc<dyn File>,
    /// The lock of the folder, so that no server opens it.
    _locked: FolderLockGuard,
}

impl Inspector {
    pub fn open(env: Arc<dyn Env>, data_dir: &Path) -> Result<Inspector> {
        let locked = lock_cluster(&*env, data_dir, FolderLock::Shared)?;
        let found = control::read(&env, data_dir)?;
        let shown = data_dir.display();
        let missing = || Error::new(sqlstate::UNDEFINED_FILE, format!("there is no cluster in \"{shown}\""));
        let checkpoint = found.ok_or_else(missing)?.checkpoint;
        let pages = env.open(&data_dir.join("pages"), OpenMode::ReadOnly).map_err(|e| failed("open", "pages", e))?;
        Ok(Inspector { env, dir: data_dir.to_path_buf(), checkpoint, pages, _locked: locked })
    }
    /// Shows what the last checkpoint notes of the cluster and of each relation.
    pub fn relations(&self, lines: &mut LineSink<'_>) {
        let c = &self.checkpoint;
        lines(format!(
            "checkpoint {} {}: redo from {}, next transaction {}, {} relations, {} undo chunks, {} unfinished transactions",
            c.generation,
            if c.clean { "of a proper stop" } else { "of a running server" },
            shown_lsn(c.redo),
            c.next_xid,
            c.relations.len(),
            c.chunks.len(),
            c.unfinished.len()
        ));
        for r in &c.relations {
            let heap = if r.heap == 0 { String::new() } else { format!(", of heap {}", r.heap) };
            lines(format!("relation {}: {}, {} blocks in {} extents{heap}", r.id, about(r), r.blocks, r.extents.len()));
        }
    }
    fn relation(&self, id: RelationId) -> Result<&RelationEntry> {
        let missing = || {
            Error::new(sqlstate::UNDEFINED_TABLE, format!("the last checkpoint notes no storage relation {id}"))
                .with_hint("A table's storage relation is its pg_class.relfilenode.")
        };
        self.checkpoint.relations.iter().find(|r| r.id == id.0).ok_or_else(missing)
    }
    /// The page in the file `pages` that a block of a relation has.
    fn pid_of(r: &RelationEntry, block: u32) -> Result<u32> {
        let (index, offset) = locate(block);
        let start = r.extents.get(index).filter(|_| block < r.blocks);
        start.map(|start| start + offset).ok_or_else(|| {
            let message = format!("storage relation {} has {} blocks, and no block {block}", r.id, r.blocks);
            Error::new(sqlstate::INVALID_PARAMETER_VALUE, message)
        })
    }
    fn load(&self, pid: u32) -> Result<Box<PageBytes>> {
        let mut bytes = Box::new([0u8; PAGE]);
        let offset = u64::from(pid) * PAGE as u64;
        let got = self.pages.read_at(&mut bytes[..], offset).map_err(|e| failed("read", "pages", e))?;
        bytes[got..].fill(0);
        Ok(bytes)
    }
    /// The undo page with this address; None: the last checkpoint notes no such chunk.
    fn load_undo(&self, address: u64) -> Result<Option<(u32, Box<PageBytes>)>> {
        let Some((_, first, _)) = self.checkpoint.chunks.iter().find(|(number, ..)| *number == address / CHUNK) else {
            return Ok(None);
        };
        let page = (address % CHUNK / PAGE as u64) as u32;
        assert!(page < CHUNK_PAGES);
        Ok(Some((first + page, self.load(first + page)?)))
    }
}

fn about(r: &RelationEntry) -> String {
    let kind = match RelationKind::of_number(r.kind) {
        Some(RelationKind::Heap) => "heap".to_string(),
        Some(RelationKind::Cell) => "cell".to_string(),
        Some(kind) => kind.method().map_or("index", |method| method.name).to_string(),
        None => format!("unknown kind {}", r.kind),
    };
    let persistence = persistence_of(r.persistence).map_or("unknown persistence".into(), |p| in_words(&p));
    format!("{kind}, {persistence}")
}
