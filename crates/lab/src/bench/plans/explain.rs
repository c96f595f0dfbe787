//! What EXPLAIN (ANALYZE, FORMAT JSON) says of the work of a plan.

/// The rows that the nodes of a plan have produced, sub-plans included: the sum of `Actual Rows` times `Actual Loops`.
/// None: the text names no such thing. A node names its rows before its loops.
pub(super) fn produced_rows(json: &str) -> Option<f64> {
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

/// The members of all objects of a JSON text whose values are numbers. Texts are skipped as a whole: a condition that a
/// plan shows may have anything in it.
pub(super) fn numbers(json: &str) -> Vec<(&str, f64)> {
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
