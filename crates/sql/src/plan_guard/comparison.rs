//! When a plan counts as slower than another, by what executions of both have cost.

use kilndb_plan::measured::CostSummary;

/// So many executions tell what a plan costs.
pub(super) const EXECUTIONS: u64 = 3;
/// Differences up to this are never looked at: the clock and the processor's caches make as much.
const NOISE_NANOS: u64 = 20_000;

/// Is the new plan so much slower than the former one was that the former should be tried again?
pub(super) fn is_suspect(new: CostSummary, former: CostSummary) -> bool {
    if former.executions < EXECUTIONS {
        return false;
    }
    let is_far_off = new.executions >= 2 && exceeds(new.least_nanos, former.most_nanos, 5.0);
    let is_slower = exceeds(new.median_nanos, former.median_nanos, 1.5)
        // A value in many may be the one that the new plan is bad for.
        || exceeds(new.mean_nanos, former.mean_nanos, 3.0);
    is_far_off || new.executions >= EXECUTIONS && is_slower
}

/// Is the former plan, tried again, really the faster one? What has made both slower, as a table that has grown, has not
/// made it so.
pub(super) fn is_better(tried: CostSummary, new: CostSummary) -> bool {
    exceeds(new.median_nanos, tried.median_nanos, 1.3) || exceeds(new.mean_nanos, tried.mean_nanos, 2.0)
}

fn exceeds(nanos: u64, other: u64, factor: f64) -> bool {
    nanos as f64 > other as f64 * factor + NOISE_NANOS as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(executions: u64, millis: u64) -> CostSummary {
        let nanos = millis * 1_000_000;
        CostSummary { executions, median_nanos: nanos, mean_nanos: nanos, least_nanos: nanos, most_nanos: nanos }
    }

    #[test]
    fn a_plan_is_suspect_after_three_executions_or_two_bad_ones() {
        assert!(!is_suspect(cost(2, 2), cost(9, 1)));
        assert!(is_suspect(cost(3, 2), cost(9, 1)));
        assert!(is_suspect(cost(2, 6), cost(9, 1)));
        assert!(!is_suspect(cost(1, 600), cost(9, 1)));
        assert!(!is_suspect(cost(9, 600), cost(2, 1)), "nobody knows what the former one costs");
        assert!(!is_suspect(cost(9, 1), cost(9, 1)));
    }

    #[test]
    fn one_value_in_many_counts_by_the_mean() {
        let former = cost(16, 1);
        let new = CostSummary { mean_nanos: 4_000_000, most_nanos: 49_000_000, ..cost(16, 1) };
        assert!(is_suspect(new, former));
        assert!(is_better(cost(3, 1), new));
    }

    #[test]
    fn noise_is_not_looked_at() {
        let micros = |n: u64| CostSummary { median_nanos: n * 1000, mean_nanos: n * 1000, ..cost(9, 0) };
        assert!(!is_suspect(micros(20), micros(5)));
        assert!(!is_better(micros(5), micros(20)));
    }

    #[test]
    fn a_former_plan_that_is_as_slow_now_does_not_return() {
        assert!(!is_better(cost(3, 10), cost(9, 11)));
        assert!(is_better(cost(3, 10), cost(9, 20)));
    }
}
