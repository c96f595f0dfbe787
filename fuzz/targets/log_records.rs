//! Decodes log records and reads segments: any bytes give records or errors, and a record that decodes is written as
//! one that decodes to the same.
//!
//! Compiled into the crate `storage`, whose log is nobody else's business.

use crate::page;
use crate::wal::frame::{SEGMENT, frame};
use crate::wal::reader::LogReader;
use crate::wal::record::{PageOp, PageTarget, Record, decode, encode, encode_change, encode_compensate};
use crate::wal::segment::LogSegments;
use kilndb_base::env::{Env, File, FolderLock, FolderLockGuard, OpenMode};
use kilndb_base::network::{NetworkListener, NetworkStream};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub fn run(data: &[u8]) {
    one_record(data);
    let (found, _) = read_segment(data.to_vec());
    assert!(found.iter().map(Vec::len).sum::<usize>() <= data.len());
    framed(data);
}

fn one_record(body: &[u8]) {
    let Ok(record) = decode(body) else { return };
    if let Record::Change { ops, .. } | Record::Compensate { ops, .. } = &record {
        assert!(ops.len() <= body.len());
        for kind in [page::KIND_HEAP, page::KIND_TREE, page::KIND_CELL] {
            apply(ops, kind);
        }
    }
    let mut written = Vec::new();
    match &record {
        Record::Change { xid, undo, ops } => {
            let undo = undo.as_ref().map(|(address, u)| (*address, u));
            encode_change(&mut written, *xid, undo, ops);
        }
        Record::Compensate { xid, next, ops } => encode_compensate(&mut written, *xid, *next, ops),
        other => written = encode(other),
    }
    let again = decode(&written).expect("a record that was just written");
    assert_eq!(format!("{record:?}"), format!("{again:?}"));
}

/// Applies the operations to a new page as recovery does, up to the first that does not fit.
fn apply(ops: &[(PageTarget, PageOp<'_>)], kind: u8) {
    let mut page = [0; page::PAGE];
    let target = PageTarget { rel: 1, block: 0 };
    let init = PageOp::Init { kind, level: 0 };
    for op in [&init].into_iter().chain(ops.iter().map(|(_, op)| op)) {
        if op.apply(&mut page, target).is_err() {
            return;
        }
    }
}

/// Cuts `data` into bodies (a length byte before each), frames them as the log does, and changes one byte, chosen by
/// the first two: the bodies before it are read, the others are not.
fn framed(data: &[u8]) {
    let Some((&[a, b], mut rest)) = data.split_first_chunk::<2>() else { return };
    let mut bodies = Vec::new();
    let mut segment = Vec::new();
    let mut ends = Vec::new();
    while let Some((&length, after)) = rest.split_first() {
        let (body, after) = after.split_at(usize::from(length).min(after.len()));
        rest = after;
        if body.is_empty() {
            continue;
        }
        segment.extend(frame(body, SEGMENT + segment.len() as u64));
        bodies.push(body.to_vec());
        ends.push(segment.len());
    }
    let (found, end) = read_segment(segment.clone());
    assert_eq!(found, bodies);
    assert_eq!(end, SEGMENT + segment.len() as u64);
    if !segment.is_empty() {
        let at = usize::from(u16::from_be_bytes([a, b])) % segment.len();
        segment[at] ^= 0x10;
        let whole = ends.iter().filter(|end| **end <= at).count();
        let (found, _) = read_segment(segment);
        assert_eq!(found, bodies[..whole]);
    }
}

/// The bodies in segment 1, and where reading ended.
fn read_segment(bytes: Vec<u8>) -> (Vec<Vec<u8>>, u64) {
    let env = Arc::new(OneFile(Arc::new(Bytes(bytes))));
    let segments = LogSegments::new(env, PathBuf::from("wal"), Default::default());
    let mut reader = LogReader::new(&segments, SEGMENT, 0);
    let mut found = Vec::new();
    while let Some(record) = reader.read_framed().expect("a file that can be read") {
        assert_eq!(record.end, reader.lsn());
        found.push(record.body);
    }
    (found, reader.lsn())
}

/// A world with one file, segment 1, to be read.
struct OneFile(Arc<Bytes>);
struct Bytes(Vec<u8>);

fn read_only<T>() -> io::Result<T> {
    Err(io::Error::from(io::ErrorKind::ReadOnlyFilesystem))
}

impl File for Bytes {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = self.0.get(offset as usize..).unwrap_or(&[]);
        let count = from.len().min(buf.len());
        buf[..count].copy_from_slice(&from[..count]);
        Ok(count)
    }
    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        read_only()
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
    fn set_len(&self, _: u64) -> io::Result<()> {
        read_only()
    }
    fn punch_hole(&self, _: u64, _: u64) -> io::Result<()> {
        read_only()
    }
    fn allocate(&self, _: u64, _: u64) -> io::Result<()> {
        read_only()
    }
}

impl Env for OneFile {
    fn unix_micros(&self) -> i64 {
        0
    }
    fn monotonic_nanos(&self) -> u64 {
        0
    }
    fn sleep(&self, _: Duration) {}
    fn random_bytes(&self, buf: &mut [u8]) {
        buf.fill(0);
    }
    fn spawn(&self, _: &str, _: Box<dyn FnOnce() + Send>) -> io::Result<std::thread::JoinHandle<()>> {
        read_only()
    }
    fn open(&self, _: &Path, _: OpenMode) -> io::Result<Arc<dyn File>> {
        Ok(self.0.clone())
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(path.file_name().is_some_and(|n| n == "0000000000000001"))
    }
    fn lock_dir(&self, _: &Path, _: FolderLock) -> io::Result<Option<FolderLockGuard>> {
        Ok(Some(Box::new(())))
    }
    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        read_only()
    }
    fn remove_file(&self, _: &Path) -> io::Result<()> {
        read_only()
    }
    fn list_dir(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn connect(&self, _: &str, _: Duration) -> io::Result<Arc<dyn NetworkStream>> {
        read_only()
    }
    fn listen(&self, _: &str) -> io::Result<Arc<dyn NetworkListener>> {
        read_only()
    }
}
