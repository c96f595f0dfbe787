//! A sync of the pages that fails, beside another one.

use crate::api::EngineConfig;
use crate::cluster::{Dir, config};
use crate::engine::Engine;
use kilndb_base::env::{File, OsEnv};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// The first sync fails and loses what it should have synced, so that the second one finds nothing to do. The first one
/// returns when the second has come, or after a while.
#[derive(Default)]
struct LosingFile {
    syncs: AtomicU32,
    begun: Mutex<u32>,
    changed: Condvar,
}
impl File for LosingFile {
    fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        Ok(0)
    }
    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Ok(())
    }
    fn sync_data(&self) -> io::Result<()> {
        let is_first = self.syncs.fetch_add(1, SeqCst) == 0;
        let mut begun = self.begun.lock().unwrap();
        *begun += 1;
        self.changed.notify_all();
        if !is_first {
            return Ok(());
        }
        let limit = Duration::from_millis(300);
        drop(self.changed.wait_timeout_while(begun, limit, |begun| *begun < 2).unwrap());
        Err(io::Error::from_raw_os_error(5))
    }
    fn len(&self) -> io::Result<u64> {
        Ok(0)
    }
    fn set_len(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn punch_hole(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn allocate(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
}

/// A checkpoint whose own sync finds nothing to do counts as durable, and recovery would begin behind what was lost.
#[test]
fn no_sync_of_the_pages_succeeds_beside_one_that_fails() {
    let dir = Dir::new("failing-sync");
    let config = EngineConfig { log: Arc::new(|_, _| ()), workers: 1, ..config(dir.0.clone(), 16 << 20) };
    let e = Engine::open(Arc::new(OsEnv), config).unwrap();
    let file = LosingFile::default();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| e.core().log.sync_pages(&file));
        drop(file.changed.wait_while(file.begun.lock().unwrap(), |begun| *begun == 0).unwrap());
        assert!(e.core().log.sync_pages(&file).is_err(), "the second sync");
        assert!(first.join().unwrap().is_err(), "the first sync");
    });
}
