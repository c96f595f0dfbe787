//! What a session's settings say to the planner: which ways it wants (enable_…), and what they cost.

use std::hash::{Hash, Hasher};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PlannerSettings {
    pub seqscan: bool,
    pub indexscan: bool,
    pub bitmapscan: bool,
    pub hashjoin: bool,
    pub nestloop: bool,
    pub sort: bool,
    pub incremental_sort: bool,
    pub mergejoin: bool,
    pub memoize: bool,
    pub material: bool,
    pub hashagg: bool,
    pub tidscan: bool,
    pub partition_pruning: bool,
    pub group_by_reordering: bool,
    pub distinct_reordering: bool,
    pub presorted_aggregate: bool,
    pub self_join_elimination: bool,
    pub partitionwise_aggregate: bool,
    pub partitionwise_join: bool,
    pub costs: CostParameters,
}

impl Default for PlannerSettings {
    fn default() -> PlannerSettings {
        PlannerSettings {
            seqscan: true,
            indexscan: true,
            bitmapscan: true,
            hashjoin: true,
            nestloop: true,
            sort: true,
            incremental_sort: true,
            mergejoin: true,
            memoize: true,
            material: true,
            hashagg: true,
            tidscan: true,
            partition_pruning: true,
            group_by_reordering: true,
            distinct_reordering: true,
            presorted_aggregate: true,
            self_join_elimination: true,
            partitionwise_aggregate: false,
            partitionwise_join: false,
            costs: CostParameters::default(),
        }
    }
}

/// What a node that a setting turns off costs more.
const PENALTY: f64 = 1e10;

impl PlannerSettings {
    /// What is not wanted is done only where there is no other way.
    pub fn penalty(self, wanted: bool) -> f64 {
        if wanted { 0.0 } else { PENALTY }
    }
    /// Is any kind of node turned off? If not, no cost has a penalty in it, however large it is.
    pub fn has_penalties(self) -> bool {
        let scans = [self.seqscan, self.indexscan, self.bitmapscan];
        let joins = [self.hashjoin, self.nestloop, self.mergejoin];
        !scans.into_iter().chain(joins).chain([self.sort, self.hashagg]).all(|is_wanted| is_wanted)
    }
    /// The part of a cost that is penalties, where there are some. PostgreSQL counts nodes that are turned off: it does not
    /// matter how often they run.
    pub fn penalties_of(cost: f64) -> f64 {
        (cost / PENALTY).floor() * PENALTY
    }
}

/// The settings of the chapter "Planner Cost Constants".
#[derive(Clone, Copy, Debug)]
pub struct CostParameters {
    pub seq_page: f64,
    pub random_page: f64,
    pub cpu_tuple: f64,
    pub cpu_index_tuple: f64,
    pub cpu_operator: f64,
}

impl Default for CostParameters {
    fn default() -> CostParameters {
        CostParameters {
            seq_page: 1.0,
            random_page: 4.0,
            cpu_tuple: 0.01,
            cpu_index_tuple: 0.005,
            cpu_operator: 0.0025,
        }
    }
}

impl CostParameters {
    fn bits(&self) -> [u64; 5] {
        [self.seq_page, self.random_page, self.cpu_tuple, self.cpu_index_tuple, self.cpu_operator].map(f64::to_bits)
    }
}

impl PartialEq for CostParameters {
    fn eq(&self, other: &CostParameters) -> bool {
        self.bits() == other.bits()
    }
}
impl Eq for CostParameters {}
impl Hash for CostParameters {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bits().hash(state);
    }
}
