//! The double-write area: a ring of page copies, each with a header, so that a torn page can be put right.
//!
//! Invariants
//! 1. A batch is durable here before any of its pages is written in place.
//! 2. Sequence numbers never go back, not even over restarts.
//! 3. A failed write may be tried again (the slots and the pages are written once more); a failed sync may not.
//! 4. A slot is reused only after the data file was synced since its page went in place. A page whose place could not
//!    be written, and may be torn, is written there before any slot is reused.
//!
//! Must not know: which pages are written and why.
//!
//! Format: slot i at offset i × 8,224: magic u32, page u32, sequence u64, crc u32 of header and page, 12 zero
//! bytes, then the page as it goes to its place.

use crate::crc::crc32c;
use crate::page::{PAGE, PageBytes};
use crate::stats::{Event, IoObject, Stats};
use crate::wal::Log;
use crate::wal::segment::failed;
use kilndb_base::Result;
use kilndb_base::env::File;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

pub const SLOTS: usize = 2048;
pub const SLOT_BYTES: usize = PAGE + 32;
const MAGIC: u32 = 0x4457_4b31;

pub struct DoubleWrite {
    file: Arc<dyn File>,
    ring: Mutex<Ring>,
}
struct Ring {
    next: usize,
    sequence: u64,
    buffer: Vec<u8>,
    /// Pages whose places may be torn: their last write failed.
    owed: BTreeMap<u32, Box<PageBytes>>,
}
impl Ring {
    fn add(&mut self, pid: u32, bytes: &PageBytes) {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&MAGIC.to_le_bytes());
        self.buffer.extend_from_slice(&pid.to_le_bytes());
        self.buffer.extend_from_slice(&self.sequence.to_le_bytes());
        self.buffer.extend_from_slice(&[0; 16]);
        self.buffer.extend_from_slice(bytes);
        let crc = crc32c(&self.buffer[start..]);
        self.buffer[start + 16..start + 20].copy_from_slice(&crc.to_le_bytes());
        self.sequence += 1;
    }
}

fn put(home: &dyn File, pid: u32, bytes: &PageBytes) -> Result<()> {
    home.write_at(bytes, u64::from(pid) * PAGE as u64).map_err(|e| failed("write to", "pages", e))
}

impl DoubleWrite {
    pub fn new(file: Arc<dyn File>) -> Result<DoubleWrite> {
        // Sequence numbers go on where the last run stopped, or its copies would look newer than ours.
        let sequence = DoubleWrite::copies(&*file)?.values().map(|(s, _)| *s).max().unwrap_or(0) + 1;
        Ok(DoubleWrite {
            file,
            ring: Mutex::new(Ring { next: 0, sequence, buffer: Vec::new(), owed: BTreeMap::new() }),
        })
    }
    /// Writes sealed pages: area, sync, then their places.
    pub fn write(&self, home: &dyn File, log: &Log, pages: &[(u32, Box<PageBytes>)], stats: &Stats) -> Result<()> {
        let mut ring = crate::lock(&self.ring);
        let ring = &mut *ring;
        for part in pages.chunks(SLOTS / 4) {
            ring.buffer.clear();
            if ring.next + part.len() > SLOTS {
                for (pid, bytes) in &ring.owed {
                    put(home, *pid, bytes)?;
                }
                log.sync(home, "pages")?;
                stats.count(IoObject::Relation, Event::Sync, 1, 0);
                ring.owed.clear();
                ring.next = 0;
            }
            part.iter().for_each(|(pid, bytes)| ring.add(*pid, bytes));
            let at = (ring.next * SLOT_BYTES) as u64;
            self.file.write_at(&ring.buffer, at).map_err(|e| failed("write to", "doublewrite", e))?;
            log.sync(&*self.file, "doublewrite")?;
            stats.count(IoObject::Relation, Event::Sync, 1, 0);
            ring.next += part.len();
            for (pid, bytes) in part {
                let done = put(home, *pid, bytes);
                if done.is_err() {
                    ring.owed.insert(*pid, bytes.clone());
                } else if !ring.owed.is_empty() {
                    ring.owed.remove(pid);
                }
                done?;
            }
        }
        if ring.buffer.capacity() > 4 << 20 {
            ring.buffer = Vec::new();
        }
        Ok(())
    }
    /// The newest copy of every page in the area.
    pub fn copies(file: &dyn File) -> Result<HashMap<u32, (u64, Box<PageBytes>)>> {
        let mut found: HashMap<u32, (u64, Box<PageBytes>)> = HashMap::new();
        let mut slot = vec![0u8; SLOT_BYTES];
        for i in 0..SLOTS {
            if file.read_at(&mut slot, (i * SLOT_BYTES) as u64)? < SLOT_BYTES {
                break;
            }
            let mut r = kilndb_base::bytes::Reader::new(&slot);
            let (Some(magic), Some(pid), Some(sequence), Some(crc)) = (r.u32(), r.u32(), r.u64(), r.u32()) else {
                continue;
            };
            slot[16..20].fill(0);
            if magic != MAGIC || crc32c(&slot) != crc {
                continue;
            }
            if found.get(&pid).is_none_or(|(have, _)| *have < sequence) {
                let mut bytes = Box::new([0u8; PAGE]);
                bytes.copy_from_slice(&slot[32..]);
                found.insert(pid, (sequence, bytes));
            }
        }
        Ok(found)
    }
}
