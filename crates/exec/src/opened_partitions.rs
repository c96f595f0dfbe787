//! Partitions that statements have opened, kept for other statements and found by position without a lock.
//!
//! Invariants
//! 1. It belongs to one shared cache of catalog objects, with the table's map, and goes with it: its contents are valid
//!    as long as that cache is.
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
    /// The partitions, by position in the map.
    leaves: Box<[PathSlot]>,
    /// What partitions, and plans of many sessions, have in common.
    target_shapes: Mutex<Vec<Arc<TargetKey>>>,
    index_shapes: Mutex<Vec<Arc<IndexShape>>>,
    target_rules: Mutex<Vec<Arc<TargetRules>>>,
}

/// The opened partitions of a table whose map sessions share. None: the map is not shared, or not in this way.
#[inline]
pub fn opened(table: Oid, catalog: &dyn CatalogView) -> Option<&OpenedPartitions> {
    catalog.shared_partitions(table)?.opened(OpenedPartitions::new)
}

/// The number of plans for partitions that are shared; further ones are not.
const SHAPES: usize = 64;

/// How many bytes of a partition's plan are prefetched for statements that change it.
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
    /// The address of the plan that statements which change the partition need. It is used for prefetching only.
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
    /// The line is written only once, because other processors read it.
    #[inline]
    pub(crate) fn note_target(&self, target: &Arc<ModifyTarget>) {
        if self.target.load(Relaxed) == 0 {
            self.target.store(Arc::as_ptr(target) as usize, Relaxed);
        }
    }
    /// Prefetches what a search in the partition reads first.
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
    /// The description of an index of a partition that has the table's columns.
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
    /// The rules of a partition that has the table's columns: mostly they are the same for all partitions.
    pub(crate) fn target_rules(&self, rules: TargetRules) -> Arc<TargetRules> {
        if rules.is_plain() { shared(&self.target_rules, rules, TargetRules::is_like) } else { Arc::new(rules) }
    }
    pub fn keep(&self, at: usize, leaf: &Arc<LeafPartition>) {
        if let Some(slot) = self.leaves.get(at) {
            slot.0.get_or_init(|| PartitionPath::new(leaf));
        }
    }
}

/// Returns the equal value that is known already, or notes this one.
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
