//! What EXPLAIN (ANALYZE, FORMAT JSON) says of a plan: its work, its times, and how near its estimates come to the truth.
//!
//! Must not know: servers.

/// The rows that the nodes of a plan have produced, sub-plans included: the sum of `Actual Rows` times `Actual Loops`.
/// None: the text names no such thing. A node names its rows before its loops.
pub fn produced_rows(json: &str) -> Option<f64> {
    let mut sum = None;
    let mut rows = 0.0;
    for (key, value) in numbers(json) {
        match key {
            "Actual Rows" => rows = value,
            "Actual Loops" => *sum.get_or_insert(0.0) += rows * value,
            _ => {}
        }
    }
    sum
}

/// An estimate within this factor of the truth is near.
pub const NEAR: f64 = 10.0;

/// The nodes of a plan that ran, and those of them whose estimate is near.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeCounts {
    pub nodes: usize,
    pub near: usize,
}

/// Estimates and actual rows are both of one loop, as PostgreSQL counts them, and at least one row, which no estimate is below. Nodes that
/// never ran are left out.
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

/// What is said of a run.
pub struct ExplainedRun {
    pub nodes: NodeCounts,
    pub planning_ms: f64,
    pub execution_ms: f64,
}

/// None: the text names no times.
pub fn explained_run(json: &str) -> Option<ExplainedRun> {
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

/// The members of all objects of a JSON text whose values are numbers. Texts are skipped as a whole: a condition that a
/// plan shows may have anything in it.
fn numbers(json: &str) -> Vec<(&str, f64)> {
    let mut found = Vec::new();
    let mut rest = json;
    while let Some(begin) = rest.find('"') {
        let inside = &rest[begin + 1..];
        let Some(end) = end_of_text(inside) else { break };
        let text = &inside[..end];
        rest = &inside[end + 1..];
        let Some(value) = rest.trim_start().strip_prefix(':') else { continue };
        let value = value.trim_start();
        let length = value.find(|c: char| !matches!(c, '0'..='9' | '.' | '-' | '+' | 'e' | 'E')).unwrap_or(value.len());
        if let Ok(number) = value[..length].parse() {
            found.push((text, number));
        }
    }
    found
}

/// The place of the quote that ends a text.
fn end_of_text(inside: &str) -> Option<usize> {
    let mut escaped = false;
    inside.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_all_nodes_times_their_loops() {
        let json = r#"[{"Plan": {"Node Type": "Nested Loop", "Plan Rows": 7, "Actual Rows": 12.00, "Actual Loops": 1,
            "Plans": [
              {"Node Type": "Seq Scan", "Actual Rows": 3, "Actual Loops" : 1},
              {"Node Type": "Index Scan", "Actual Rows": 0.50, "Actual Loops": 4,
               "Plans": [{"Subplan Name": "SubPlan 1", "Actual Rows": 1.25e2, "Actual Loops": 2}]}]},
            "Planning Time": 0.5, "Execution Time": 5.1}]"#;
        assert_eq!(produced_rows(json), Some(12.0 + 3.0 + 2.0 + 250.0));
    }

    #[test]
    fn nodes_that_ran_are_near_or_far_by_rows_of_a_loop() {
        let json = r#"[{"Plan": {"Node Type": "Nested Loop", "Plan Rows": 7, "Actual Rows": 71.00, "Actual Loops": 1,
            "Plans": [
              {"Node Type": "Seq Scan", "Plan Rows": 30, "Actual Rows": 3.00, "Actual Loops": 1},
              {"Node Type": "Index Scan", "Plan Rows": 1, "Actual Rows": 0.01, "Actual Loops": 900},
              {"Node Type": "Index Scan", "Plan Rows": 500, "Actual Rows": 0, "Actual Loops": 0}]}, "Planning Time": 1.5, "Execution Time": 2.5}]"#;
        let run = explained_run(json).expect("there are times");
        assert_eq!((run.planning_ms, run.execution_ms), (1.5, 2.5));
        assert!(explained_run("[]").is_none());
        assert_eq!(node_counts(json), NodeCounts { nodes: 3, near: 2 });
    }

    #[test]
    fn texts_are_no_members() {
        let json =
            r#"{"Filter": "(a = '\"Actual Rows\": 5, \"Actual Loops\": 9 \\')", "Actual Rows": 2, "Actual Loops": 3}"#;
        assert_eq!(produced_rows(json), Some(6.0));
        // A node that was never reached produced nothing.
        assert_eq!(produced_rows(r#"{"Actual Rows": 0, "Actual Loops": 0}"#), Some(0.0));
        assert_eq!(produced_rows(r#"{"Plan Rows": 7}"#), None);
        assert_eq!(produced_rows(r#"{"Actual Rows"#), None);
    }
}
