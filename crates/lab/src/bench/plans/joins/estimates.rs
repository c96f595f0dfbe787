//! How near a plan's estimates of rows come to the truth.

use super::super::explain::numbers;

/// An estimate within this factor of the truth is near.
pub(super) const NEAR: f64 = 10.0;

/// The nodes of plans that ran, and those of them whose estimate is near.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct NodeCounts {
    pub nodes: usize,
    pub near: usize,
}

impl NodeCounts {
    pub(super) fn add(&mut self, other: NodeCounts) {
        self.nodes += other.nodes;
        self.near += other.near;
    }

    pub(super) fn near_percent(&self) -> f64 {
        100.0 * self.near as f64 / self.nodes.max(1) as f64
    }
}

/// The nodes of a plan that EXPLAIN (ANALYZE, FORMAT JSON) shows. Estimates and actual rows are both of one loop, as
/// PostgreSQL counts them, and at least one row, which no estimate is below. Nodes that never ran are left out.
fn node_counts(json: &str) -> NodeCounts {
    let mut counts = NodeCounts::default();
    let (mut estimated, mut actual) = (1.0, 1.0);
    for (key, value) in numbers(json) {
        match key {
            "Plan Rows" => estimated = value,
            "Actual Rows" => actual = value,
            // A node names its loops after its rows.
            "Actual Loops" if value > 0.0 => {
                counts.nodes += 1;
                counts.near += usize::from(miss(estimated, actual) <= NEAR);
            }
            _ => {}
        }
    }
    counts
}

/// What EXPLAIN (ANALYZE, FORMAT JSON) says of a run.
pub(super) struct ExplainedRun {
    pub nodes: NodeCounts,
    pub planning_ms: f64,
    pub execution_ms: f64,
}

/// None: the text names no times.
pub(super) fn explained_run(json: &str) -> Option<ExplainedRun> {
    let figures = numbers(json);
    let of = |wanted: &str| figures.iter().find(|(key, _)| *key == wanted).map(|(_, ms)| *ms);
    let (planning_ms, execution_ms) = (of("Planning Time")?, of("Execution Time")?);
    Some(ExplainedRun { nodes: node_counts(json), planning_ms, execution_ms })
}

/// How many times as much the greater of the two is.
fn miss(estimated: f64, actual: f64) -> f64 {
    let (estimated, actual) = (estimated.max(1.0), actual.max(1.0));
    (estimated / actual).max(actual / estimated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_ran_are_near_or_far_by_rows_of_a_loop() {
        let json = r#"[{"Plan": {"Node Type": "Nested Loop", "Plan Rows": 7, "Actual Rows": 71.00, "Actual Loops": 1,
            "Plans": [
              {"Node Type": "Seq Scan", "Plan Rows": 30, "Actual Rows": 3.00, "Actual Loops": 1},
              {"Node Type": "Index Scan", "Plan Rows": 1, "Actual Rows": 0.01, "Actual Loops": 900},
              {"Node Type": "Index Scan", "Plan Rows": 500, "Actual Rows": 0, "Actual Loops": 0}]}, "Planning Time": 1.5, "Execution Time": 2.5}]"#;
        let run = explained_run(json).unwrap();
        assert_eq!((run.planning_ms, run.execution_ms), (1.5, 2.5));
        assert!(explained_run("[]").is_none());
        assert_eq!(node_counts(json), NodeCounts { nodes: 3, near: 2 });
    }
}
