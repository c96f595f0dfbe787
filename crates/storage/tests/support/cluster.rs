//! A cluster of a test's: its folder and how it is set up. The crate's own tests have this file too.
use super::EngineConfig;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A folder that goes away with this value.
pub struct Dir(pub PathBuf);
impl Dir {
    pub fn new(name: &str) -> Dir {
        let d = std::env::temp_dir().join(format!("kilndb-storage-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&d);
        Dir(d)
    }
}
impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
pub fn config(data_dir: PathBuf, buffers: u64) -> EngineConfig {
    EngineConfig {
        data_dir,
        shared_buffers_bytes: buffers,
        huge_pages: true,
        wal_buffers_bytes: 1 << 20,
        max_wal_size_bytes: 64 << 20,
        checkpoint_timeout_s: 300,
        checkpoint_completion_target: 0.1,
        wal_writer_delay_ms: 1,
        startup_progress_interval_ms: 0,
        limits: Default::default(),
        fsync: false,
        accept_lost_log: false,
        workers: 4,
        log: Arc::new(|s, t| {
            if s >= kilndb_base::Severity::Warning {
                eprintln!("{s:?}: {t}")
            }
        }),
    }
}
/// Copies a folder with all that is in it.
pub fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_folder(&entry.path(), &to),
            false => _ = std::fs::copy(entry.path(), &to).unwrap(),
        }
    }
}
