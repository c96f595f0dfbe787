//! An environment whose folders are read from another one and written to in memory alone.
//!
//! `kilndb check` opens a cluster with it: opening replays, upgrades and writes a checkpoint, and none of that may reach
//! the cluster that is being looked at.
//!
//! Invariants
//! 1. The environment below is asked to read, to list and to lock for readers, and for nothing that changes a file.
//! 2. What a file has been given is read back from it by every handle, whoever opened it.
//!
//! Must not know: what the files hold.

use crate::env::{Env, File, FolderLock, FolderLockGuard, OpenMode};
use crate::hash::{HashMap, HashMapExt};
use crate::network::{NetworkListener, NetworkStream};
use crate::sync::{Arc, JoinHandle, Mutex, MutexGuard};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of a file that are kept in memory together once one of them is written.
const BLOCK_BYTES: u64 = 4096;

pub struct OverlayEnv {
    below: Arc<dyn Env>,
    /// Names that have been opened, made or removed; none: there is no such file any more.
    names: Mutex<HashMap<PathBuf, Option<Arc<OverlayFile>>>>,
}

impl OverlayEnv {
    pub fn new(below: Arc<dyn Env>) -> OverlayEnv {
        OverlayEnv { below, names: Mutex::new(HashMap::new()) }
    }

    fn names(&self) -> MutexGuard<'_, HashMap<PathBuf, Option<Arc<OverlayFile>>>> {
        self.names.lock().unwrap_or_else(|e| e.into_inner())
    }
}

fn missing(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{}: no such file", path.display()))
}

impl Env for OverlayEnv {
    fn unix_micros(&self) -> i64 {
        self.below.unix_micros()
    }
    fn monotonic_nanos(&self) -> u64 {
        self.below.monotonic_nanos()
    }
    fn sleep(&self, duration: Duration) {
        self.below.sleep(duration);
    }
    fn random_bytes(&self, buf: &mut [u8]) {
        self.below.random_bytes(buf);
    }
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
        self.below.spawn(name, body)
    }
    fn spawn_less_urgent(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
        self.below.spawn_less_urgent(name, body)
    }

    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn File>> {
        let mut names = self.names();
        let empties = matches!(how, OpenMode::Truncate | OpenMode::TruncateForOthers);
        let makes = how == OpenMode::Create || empties;
        let file = match names.get(path) {
            Some(Some(file)) => file.clone(),
            Some(None) if makes => Arc::new(OverlayFile::empty()),
            Some(None) => return Err(missing(path)),
            None => match self.below.open(path, OpenMode::ReadOnly) {
                Ok(below) => Arc::new(OverlayFile::over(below)?),
                Err(e) if e.kind() == io::ErrorKind::NotFound && makes => Arc::new(OverlayFile::empty()),
                Err(e) => return Err(e),
            },
        };
        if empties {
            file.set_len(0)?;
        }
        names.insert(path.to_path_buf(), Some(file.clone()));
        Ok(file)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        match self.names().get(path) {
            Some(file) => Ok(file.is_some()),
            None => self.below.exists(path),
        }
    }
    /// Whoever writes in memory alone is a reader to others.
    fn lock_dir(&self, path: &Path, _how: FolderLock) -> io::Result<Option<FolderLockGuard>> {
        self.below.lock_dir(path, FolderLock::Shared)
    }
    fn create_dir_all(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        // Opening looks it up, here or below.
        self.open(from, OpenMode::Existing)?;
        let mut names = self.names();
        let file = names.insert(from.to_path_buf(), None).flatten();
        names.insert(to.to_path_buf(), file);
        Ok(())
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        if !self.exists(path)? {
            return Err(missing(path));
        }
        self.names().insert(path.to_path_buf(), None);
        Ok(())
    }
    fn list_dir(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let mut listed = match self.below.list_dir(path) {
            Ok(listed) => listed,
            // The folder has been made here, or is not there: then nothing is in it.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(e),
        };
        let names = self.names();
        listed.retain(|name| !names.contains_key(name));
        let present = names.iter().filter(|(name, file)| file.is_some() && name.parent() == Some(path));
        listed.extend(present.map(|(name, _)| name.clone()));
        Ok(listed)
    }
    fn sync_dir(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }
    fn connect(&self, address: &str, limit: Duration) -> io::Result<Arc<dyn NetworkStream>> {
        self.below.connect(address, limit)
    }
    fn listen(&self, address: &str) -> io::Result<Arc<dyn NetworkListener>> {
        self.below.listen(address)
    }
}

struct OverlayFile {
    below: Option<Arc<dyn File>>,
    contents: Mutex<OverlayContents>,
}

/// What has been written over a file.
#[derive(Default)]
struct OverlayContents {
    len: u64,
    /// How far the file below shows through, in bytes.
    below_len: u64,
    /// Blocks that have been written, by their number; none: zeros alone.
    blocks: HashMap<u64, Option<Box<[u8; BLOCK_BYTES as usize]>>>,
}

impl OverlayFile {
    fn empty() -> OverlayFile {
        OverlayFile { below: None, contents: Mutex::default() }
    }
    fn over(below: Arc<dyn File>) -> io::Result<OverlayFile> {
        let len = below.len()?;
        let contents = OverlayContents { len, below_len: len, blocks: HashMap::new() };
        Ok(OverlayFile { below: Some(below), contents: Mutex::new(contents) })
    }

    fn contents(&self) -> MutexGuard<'_, OverlayContents> {
        self.contents.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Fills `buf` with what the file below has at `offset`, zeros behind its end. No block in memory lies there.
    fn read_below(&self, contents: &OverlayContents, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let shown = contents.below_len.saturating_sub(offset).min(buf.len() as u64) as usize;
        let (shown, rest) = buf.split_at_mut(shown);
        let read = match &self.below {
            Some(below) if !shown.is_empty() => below.read_at(shown, offset)?,
            _ => 0,
        };
        shown[read..].fill(0);
        rest.fill(0);
        Ok(())
    }

    /// The block in memory, with what the file has there if that is not in memory yet.
    fn block<'c>(
        &self,
        contents: &'c mut OverlayContents,
        number: u64,
    ) -> io::Result<&'c mut [u8; BLOCK_BYTES as usize]> {
        if !contents.blocks.contains_key(&number) {
            let mut bytes = Box::new([0; BLOCK_BYTES as usize]);
            self.read_below(contents, &mut bytes[..], number * BLOCK_BYTES)?;
            contents.blocks.insert(number, Some(bytes));
        }
        let block = contents.blocks.entry(number).or_default();
        Ok(block.get_or_insert_with(|| Box::new([0; BLOCK_BYTES as usize])))
    }

    /// Makes the range read as zeros.
    fn clear(&self, contents: &mut OverlayContents, mut offset: u64, end: u64) -> io::Result<()> {
        while offset < end {
            let (number, within) = (offset / BLOCK_BYTES, offset % BLOCK_BYTES);
            let to = (end - number * BLOCK_BYTES).min(BLOCK_BYTES);
            if (within, to) == (0, BLOCK_BYTES) {
                contents.blocks.insert(number, None);
            } else {
                self.block(contents, number)?[within as usize..to as usize].fill(0);
            }
            offset = number * BLOCK_BYTES + to;
        }
        Ok(())
    }
}

impl File for OverlayFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let contents = self.contents();
        let len = contents.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        let mut done = 0;
        while done < len {
            let from = offset + done as u64;
            let (number, within) = (from / BLOCK_BYTES, (from % BLOCK_BYTES) as usize);
            let piece = (BLOCK_BYTES as usize - within).min(len - done);
            let into = &mut buf[done..done + piece];
            match contents.blocks.get(&number) {
                Some(Some(bytes)) => into.copy_from_slice(&bytes[within..within + piece]),
                Some(None) => into.fill(0),
                None => self.read_below(&contents, into, from)?,
            }
            done += piece;
        }
        Ok(done)
    }
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let mut contents = self.contents();
        let mut done = 0;
        while done < data.len() {
            let from = offset + done as u64;
            let (number, within) = (from / BLOCK_BYTES, (from % BLOCK_BYTES) as usize);
            let piece = (BLOCK_BYTES as usize - within).min(data.len() - done);
            self.block(&mut contents, number)?[within..within + piece].copy_from_slice(&data[done..done + piece]);
            done += piece;
        }
        contents.len = contents.len.max(offset + data.len() as u64);
        Ok(())
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.contents().len)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut contents = self.contents();
        if len < contents.len {
            let whole = len.div_ceil(BLOCK_BYTES);
            contents.blocks.retain(|number, _| *number < whole);
            contents.below_len = contents.below_len.min(len);
            // What is behind the new end must not come back when the file grows again.
            if let Some(Some(bytes)) = contents.blocks.get_mut(&(len / BLOCK_BYTES)) {
                bytes[(len % BLOCK_BYTES) as usize..].fill(0);
            }
        }
        contents.len = len;
        Ok(())
    }
    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        let mut contents = self.contents();
        let end = (offset + len).min(contents.len);
        self.clear(&mut contents, offset, end)
    }
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        let mut contents = self.contents();
        contents.len = contents.len.max(offset + len);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::OsEnv;

    /// A folder that goes with the value.
    struct TemporaryFolder(PathBuf);

    impl TemporaryFolder {
        fn new(name: &str) -> TemporaryFolder {
            let path = std::env::temp_dir().join(format!("kilndb-overlay-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            TemporaryFolder(path)
        }
    }
    impl Drop for TemporaryFolder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Small numbers that a seed decides.
    struct Choices(u64);

    impl Choices {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % limit
        }
    }

    /// Reads, writes, cuts, holes: an overlay over a file says at every step what a copy of the file says.
    #[test]
    fn an_overlay_reads_as_a_file_that_is_written_to() {
        let folder = TemporaryFolder::new("model");
        for seed in 0..20 {
            let mut choices = Choices(seed);
            let (seen, copy) = (folder.0.join("seen"), folder.0.join("copy"));
            let original: Vec<u8> = (0..choices.below(40_000)).map(|i| (i % 251) as u8 + 1).collect();
            std::fs::write(&seen, &original).unwrap();
            std::fs::write(&copy, &original).unwrap();
            let overlay = OverlayEnv::new(Arc::new(OsEnv)).open(&seen, OpenMode::Existing).unwrap();
            let file = OsEnv.open(&copy, OpenMode::Existing).unwrap();
            for _ in 0..200 {
                let (offset, len) = (choices.below(40_000), choices.below(9_000));
                for f in [&overlay, &file] {
                    match seed.wrapping_add(offset) % 5 {
                        0 | 1 => f.write_at(&vec![(offset % 256) as u8; len as usize], offset).unwrap(),
                        2 => f.set_len(offset).unwrap(),
                        3 => f.punch_hole(offset, len + 1).unwrap(),
                        _ => f.allocate(offset, len + 1).unwrap(),
                    }
                }
                assert_eq!(overlay.len().unwrap(), file.len().unwrap(), "seed {seed}");
                let (mut a, mut b) = (vec![7; 50_000], vec![7; 50_000]);
                assert_eq!(overlay.read_at(&mut a, offset / 2).unwrap(), file.read_at(&mut b, offset / 2).unwrap());
                assert!(a == b, "seed {seed}");
            }
            assert_eq!(std::fs::read(&seen).unwrap(), original);
        }
    }

    #[test]
    fn names_change_in_memory_alone() {
        let folder = TemporaryFolder::new("names");
        let at = |name: &str| folder.0.join(name);
        std::fs::write(at("a"), "a").unwrap();
        std::fs::write(at("b"), "b").unwrap();
        let env = OverlayEnv::new(Arc::new(OsEnv));
        env.rename(&at("a"), &at("c")).unwrap();
        env.remove_file(&at("b")).unwrap();
        env.open(&at("d"), OpenMode::Create).unwrap().write_at(b"d", 0).unwrap();
        assert_eq!(env.open(&at("a"), OpenMode::Existing).err().unwrap().kind(), io::ErrorKind::NotFound);
        assert_eq!(env.remove_file(&at("b")).err().unwrap().kind(), io::ErrorKind::NotFound);
        assert!(env.exists(&at("c")).unwrap() && !env.exists(&at("b")).unwrap());
        let mut listed = env.list_dir(&folder.0).unwrap();
        listed.sort();
        assert_eq!(listed, [at("c"), at("d")]);
        let mut byte = [0];
        env.open(&at("c"), OpenMode::ReadOnly).unwrap().read_at(&mut byte, 0).unwrap();
        assert_eq!(byte, *b"a");
        // Made again, it is empty.
        assert!(env.open(&at("b"), OpenMode::Create).unwrap().is_empty().unwrap());
        let mut below = OsEnv.list_dir(&folder.0).unwrap();
        below.sort();
        assert_eq!(below, [at("a"), at("b")]);
    }
}
