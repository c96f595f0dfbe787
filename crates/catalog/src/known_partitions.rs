//! Maps of partitions, found without a lock, and with each a place for what statements keep of its partitions.
//!
//! Invariants
//! 1. They are of one shared cache of objects, and go with it: what they say is right as long as that cache is.
//! 2. A map does not change once it is there, so reading writes no memory that others read.
//!
//! Must not know: what is kept of a partition. Whoever runs statements does.

use super::model::Table;
use super::partition::PartitionMap;
use kilndb_base::Oid;
use kilndb_base::sync::{Arc, OnceLock};
use std::any::Any;

/// A table's map.
pub struct SharedPartitions {
    pub map: Arc<PartitionMap>,
    opened: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl SharedPartitions {
    fn new(map: Arc<PartitionMap>) -> SharedPartitions {
        SharedPartitions { map, opened: OnceLock::new() }
    }
    /// What is kept of the partitions; `make` is asked the first time. One type is kept of all tables: for another one
    /// there is none.
    #[inline]
    pub fn opened<T: Any + Send + Sync>(&self, make: impl FnOnce(&Arc<PartitionMap>) -> T) -> Option<&T> {
        self.opened.get_or_init(|| Box::new(make(&self.map))).downcast_ref()
    }
}

/// What is kept of a partition where no map is shared.
pub trait CachedPartition: Any + Send + Sync {
    /// The table that statements name.
    fn ancestor(&self) -> Oid;
    /// The partition.
    fn table(&self) -> &Arc<Table>;
}

/// Tables that find no place here are found the slower way.
const PLACES: usize = 128;
const TRIED: usize = 4;

pub struct PartitionMapCache([OnceLock<SharedPartitions>; PLACES]);

impl Default for PartitionMapCache {
    fn default() -> PartitionMapCache {
        PartitionMapCache([const { OnceLock::new() }; PLACES])
    }
}

impl PartitionMapCache {
    /// `load` is asked if the table is not known.
    #[inline]
    pub fn get(&self, table: Oid, load: impl FnOnce() -> Option<Arc<PartitionMap>>) -> Option<&SharedPartitions> {
        let places = (0..TRIED).map(|i| &self.0[(table as usize + i) % PLACES]);
        for place in places.clone() {
            match place.get() {
                Some(known) if known.map.table == table => return Some(known),
                Some(_) => {}
                None => break,
            }
        }
        // Another may take the place meanwhile: then the next time.
        let free = places.into_iter().find(|place| place.get().is_none())?;
        let map = load()?;
        let known = free.get_or_init(|| SharedPartitions::new(map));
        (known.map.table == table).then_some(known)
    }
}
