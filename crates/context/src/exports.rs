//! Snapshots that transactions have exported for others to read with.
//!
//! Invariants
//! 1. A snapshot can be taken over while the transaction lives that has exported it, and holds then for whoever has
//!    taken it over.
//! 2. Of the exporter's own changes nobody else sees any.

use kilndb_base::Oid;
use kilndb_base::hash::HashMap;
use kilndb_base::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use kilndb_storage::Snapshot;

pub struct Exported {
    pub snapshot: Snapshot,
    pub database: Oid,
    pub is_serializable: bool,
}

/// All that are exported, by name.
#[derive(Default)]
pub struct Exports {
    list: Mutex<(u64, HashMap<String, Weak<Exported>>)>,
}

impl Exports {
    fn locked(&self) -> MutexGuard<'_, (u64, HashMap<String, Weak<Exported>>)> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names look as PostgreSQL's do: process, a number, a number.
    pub fn add(&self, process_id: i32, exported: &Arc<Exported>) -> String {
        let mut list = self.locked();
        list.1.retain(|_, known| known.strong_count() > 0);
        list.0 += 1;
        let name = format!("{process_id:08X}-{:08X}-1", list.0);
        list.1.insert(name.clone(), Arc::downgrade(exported));
        name
    }

    pub fn find(&self, name: &str) -> Option<Arc<Exported>> {
        self.locked().1.get(name)?.upgrade()
    }
}
