//! What statements keep of a table's partitions, found by position without a lock.
//!
//! Invariants
//! 1. It is of one shared cache of objects, with the table's map, and goes with it: what it says is right as long as that
//!    cache is.
//! 2. Nothing in it that statements read while they run changes once it is there, so reading writes no memory that
//!    others read.

use super::partition::LeafPartition;
use kilndb_base::Oid;
use kilndb_base::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use kilndb_base::sync::{Arc, Mutex, OnceLock, PoisonError};
use kilndb_catalog::CatalogView;
use kilndb_catalog::partition::PartitionMap;
use kilndb_plan::partition::TargetKey;
use kilndb_plan::{IndexPlan, IndexShape, ModifyTarget, TargetRules};
use kilndb_storage::ahead::{self, IndexRootAddress};

/// A table's map, with the partitions that have been opened under that table's name.
pub(crate) struct OpenedPartitions {
    pub map: Arc<PartitionMap>,
    /// By position in the map.
    leaves: Box<[PathSlot]>,
    /// What partitions, and plans of many sessions, have in common.
    target_shapes: Mutex<Vec<Arc<TargetKey>>>,
    index_shapes: Mutex<Vec<Arc<IndexShape>>>,
    target_rules: Mutex<Vec<Arc<TargetRules>>>,
}

/// Of a table whose map sessions share. None: it is not shared, or not this way.
#[inline]
pub fn opened(table: Oid, catalog: &dyn CatalogView) -> Option<&OpenedPartitions> {
    catalog.shared_partitions(table)?.opened(OpenedPartitions::new)
}

/// More than these are not shared.
const SHAPES: usize = 64;

/// Of what a partition keeps for statements that change it, so much is asked for ahead.
const LEAF_LINES_BYTES: usize = 64;

/// One cache line: what leads to all that a point query reads.
#[repr(align(64))]
#[derive(Default)]
struct PathSlot(OnceLock<PartitionPath>);

pub const SLOT_BYTES: usize = size_of::<PathSlot>();
const _: () = assert!(SLOT_BYTES == 64);

pub(crate) struct PartitionPath {
    pub leaf: Arc<LeafPartition>,
    pub oid: Oid,
    heap: ahead::RelationAddress,
    index: IndexRootAddress,
    /// Where something is that statements that change it need: to ask for it ahead, no more.
    target: AtomicUsize,
}

impl PartitionPath {
    fn new(leaf: &Arc<LeafPartition>) -> PartitionPath {
        PartitionPath {
            oid: leaf.oid,
            heap: ahead::whereabouts(&leaf.heap),
            index: leaf
                .first
                .as_ref()
                .map_or_else(IndexRootAddress::default, |i| IndexRootAddress::of_index(&i.relation)),
            leaf: leaf.clone(),
            target: AtomicUsize::new(0),
        }
    }
    /// Written once: others read this line.
    #[inline]
    pub(crate) fn note_target(&self, target: &Arc<ModifyTarget>) {
        if self.target.load(Relaxed) == 0 {
            self.target.store(Arc::as_ptr(target) as usize, Relaxed);
        }
    }
    /// Its rows are looked for in a moment.
    #[inline]
    pub fn fetch_ahead(&self, to_change: bool) {
        ahead::fetch(Arc::as_ptr(&self.leaf) as usize);
        if to_change {
            ahead::fetch_range(self.leaf.kept_targets(), LEAF_LINES_BYTES);
            ahead::fetch_range(self.target.load(Relaxed), size_of::<ModifyTarget>());
        }
        self.index.fetch();
        ahead::fetch_relation(self.heap);
    }
}

impl OpenedPartitions {
    fn new(map: &Arc<PartitionMap>) -> OpenedPartitions {
        OpenedPartitions {
            leaves: map.partitions.iter().map(|_| PathSlot::default()).collect(),
            map: map.clone(),
            target_shapes: Mutex::default(),
            index_shapes: Mutex::default(),
            target_rules: Mutex::default(),
        }
    }
    #[inline]
    pub fn known(&self, at: usize) -> Option<&PartitionPath> {
        self.leaves.get(at)?.0.get()
    }
    /// Where the slots are and how many, if a hash's remainder says which: for [`ahead`].
    pub(crate) fn slots_by_remainder(&self) -> Option<(usize, usize)> {
        self.map.is_by_remainder().then_some((self.leaves.as_ptr() as usize, self.leaves.len()))
    }
    pub(crate) fn target_shape(&self, shape: TargetKey) -> Arc<TargetKey> {
        shared(&self.target_shapes, shape, PartialEq::eq)
    }
    /// Of an index of a partition with the columns of the table.
    pub(crate) fn index_shape(&self, of: &IndexPlan) -> Arc<IndexShape> {
        let mut known = self.index_shapes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = known.iter().find(|s| s.is_of(&of.index)) {
            return same.clone();
        }
        if known.len() < SHAPES && of.shape.is_of(&of.index) {
            known.push(of.shape.clone());
        }
        of.shape.clone()
    }
    /// Of a partition with the columns of the table: mostly the same for all of them.
    pub(crate) fn target_rules(&self, rules: TargetRules) -> Arc<TargetRules> {
        if rules.is_plain() { shared(&self.target_rules, rules, TargetRules::is_like) } else { Arc::new(rules) }
    }
    pub fn keep(&self, at: usize, leaf: &Arc<LeafPartition>) {
        if let Some(slot) = self.leaves.get(at) {
            slot.0.get_or_init(|| PartitionPath::new(leaf));
        }
    }
}

/// The same as a known one, or one that is known from now on.
fn shared<T>(known: &Mutex<Vec<Arc<T>>>, new: T, is_same: fn(&T, &T) -> bool) -> Arc<T> {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(same) = known.iter().find(|k| is_same(k, &new)) {
        return same.clone();
    }
    let new = Arc::new(new);
    if known.len() < SHAPES {
        known.push(new.clone());
    }
    new
}
