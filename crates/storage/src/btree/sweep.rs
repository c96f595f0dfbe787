//! Entries of heaps that are gone, in trees whose entries name their heaps: taken out in the background, some leaves at
//! a time.
//!
//! Invariants
//! 1. An entry goes only if its heap is not in the directory: ids are given once, so none will be.
//! 2. Nobody needs it to: whoever meets such an entry takes it for dead. So a sweep that a crash, or a shutdown, has
//!    broken off need not be remembered; the next one takes out what is left.
//!
//! Must not know: why a heap went.

use super::dead_prefix::FullKey;
use crate::core::Core;
use crate::directory::Relation;
use kilndb_base::Result;
use kilndb_base::sync::Arc;
use std::ops::Bound;

const LEAVES_AT_ONCE: usize = 64;

impl Core {
    /// Some leaves of the tree that is next; false: there was nothing to do.
    pub(crate) fn sweep_round(&self) -> bool {
        let Some((id, from)) = self.sweeps.next() else { return false };
        let Some(tree) = self.directory.get(id).filter(|tree| tree.entries_name_heap()) else { return true };
        match tree.sweep(from) {
            Ok(Some(next)) => self.sweeps.go_on((id, next)),
            Ok(None) => {}
            // The tree was dropped meanwhile; or the next sweep finds them.
            Err(e) if self.directory.get(id).is_some() => {
                self.tell(kilndb_base::Severity::Warning, &format!("sweep: {}", e.message()))
            }
            Err(_) => {}
        }
        true
    }
}

impl Relation {
    /// Where to go on; None: that was all.
    fn sweep(self: &Arc<Self>, from: FullKey) -> Result<Option<FullKey>> {
        let mut scan = self.index_scan(Bound::Included(from.0.clone()), Bound::Unbounded, false);
        let (mut keys, mut ends, mut rids) = (Vec::new(), Vec::new(), Vec::new());
        let mut last = from;
        for _ in 0..LEAVES_AT_ONCE {
            keys.clear();
            ends.clear();
            rids.clear();
            let more = scan.next_batch(&mut keys, &mut ends, &mut rids)?;
            let mut start = 0;
            for (end, rid) in ends.iter().zip(&rids) {
                let key = &keys[start..*end as usize];
                start = *end as usize;
                if self.core.directory.get(self.heap_of_entry(key)).is_none() {
                    self.entry_remove(key, rid.to_u64(), None, None)?;
                }
                last = (key.to_vec(), rid.to_u64());
            }
            if !more {
                return Ok(None);
            }
        }
        Ok(Some(last))
    }
}
