//! What executions of a plan have cost, as measured.

use kilndb_base::sync::{Mutex, PoisonError};

/// So many executions are remembered.
const EXECUTIONS_KEPT: usize = 16;

/// The times that executions have taken, waiting apart. Plans that take each other's place may share it.
#[derive(Debug, Default)]
pub struct MeasuredCost(Mutex<Times>);

#[derive(Clone, Debug, Default)]
struct Times {
    executions: u64,
    total_nanos: u64,
    /// The latest, in a ring: the next one goes to `executions % EXECUTIONS_KEPT`.
    nanos: [u64; EXECUTIONS_KEPT],
}

/// What the latest executions have cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CostSummary {
    /// Of those that are summed up here.
    pub executions: u64,
    pub median_nanos: u64,
    pub mean_nanos: u64,
    pub least_nanos: u64,
    pub most_nanos: u64,
}

impl MeasuredCost {
    pub fn add(&self, nanos: u64) {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = (times.executions % EXECUTIONS_KEPT as u64) as usize;
        times.nanos[at] = nanos;
        times.executions += 1;
        times.total_nanos = times.total_nanos.saturating_add(nanos);
    }

    /// Goes on from what another plan's executions have cost.
    pub fn continue_from(&self, other: &MeasuredCost) {
        let times = other.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = times;
    }

    pub fn executions(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).executions
    }

    pub fn total_nanos(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).total_nanos
    }

    /// Of the executions from a number on (from 0), as far as they are remembered.
    pub fn since(&self, first: u64) -> CostSummary {
        let times = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let first = first.max(times.executions.saturating_sub(EXECUTIONS_KEPT as u64));
        let kept = (first..times.executions).map(|n| times.nanos[(n % EXECUTIONS_KEPT as u64) as usize]);
        let mut nanos: Vec<u64> = kept.collect();
        nanos.sort_unstable();
        let (Some(least), Some(most)) = (nanos.first(), nanos.last()) else { return CostSummary::default() };
        CostSummary {
            executions: nanos.len() as u64,
            median_nanos: nanos[nanos.len() / 2],
            mean_nanos: nanos.iter().sum::<u64>() / nanos.len() as u64,
            least_nanos: *least,
            most_nanos: *most,
        }
    }

    pub fn summary(&self) -> CostSummary {
        self.since(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_executions_are_summed_up() {
        let cost = MeasuredCost::default();
        assert_eq!(cost.summary(), CostSummary::default());
        (1..=20).for_each(|n| cost.add(n));
        let latest = cost.summary();
        assert_eq!((latest.executions, latest.least_nanos, latest.most_nanos), (16, 5, 20));
        assert_eq!((latest.median_nanos, latest.mean_nanos), (13, 12));
        assert_eq!((cost.executions(), cost.total_nanos()), (20, 210));
        let two = cost.since(18);
        assert_eq!((two.executions, two.least_nanos, two.most_nanos), (2, 19, 20));
    }

    #[test]
    fn another_plan_goes_on_with_them() {
        let (one, other) = (MeasuredCost::default(), MeasuredCost::default());
        one.add(7);
        other.continue_from(&one);
        other.add(9);
        assert_eq!((other.executions(), other.summary().mean_nanos, one.executions()), (2, 8, 1));
    }
}
