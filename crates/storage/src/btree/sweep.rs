//! Sweeps of trees whose entries name their heaps: entries of heaps that are gone are taken out in the background, some
//! leaves at a time.
//!
//! Invariants
//! 1. An entry is taken out only if its heap is not in the directory. Ids are given once, so no heap with this id will
//!    come.
//! 2. Correctness does not depend on the sweep: an entry of a heap that is gone counts as dead. So a sweep that a crash
//!    or a shutdown has cut off need not be remembered; the next one takes out what is left.
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
    /// Sweeps some leaves of the next tree; false if there was nothing to do.
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
    /// Sweeps some leaves from a key on. The result is the key to go on from; None: the tree is done.
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
