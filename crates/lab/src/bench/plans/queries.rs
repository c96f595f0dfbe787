//! The texts of the queries, as they lie in `crates/lab/plans`.
//!
//! A file has queries under comment lines: `-- name:` begins a query, `-- before:` and `-- after:` are statements that
//! are run around it and not timed, `-- order: total` says that the order of its rows is part of its answer.

/// A query that is measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PlanQuery {
    pub name: String,
    pub sql: String,
    pub before: Vec<String>,
    pub after: Vec<String>,
    /// The query's ORDER BY leaves no two rows equal, so both servers must send them in the same order.
    pub ordered: bool,
}

const CLASSES: [&str; 4] = [
    include_str!("../../../plans/classes/joins.sql"),
    include_str!("../../../plans/classes/rows.sql"),
    include_str!("../../../plans/classes/conditions.sql"),
    include_str!("../../../plans/classes/groups.sql"),
];

/// The script of the experiment `tpc-h`: queries under names, each with a semicolon at its end.
const TPCH: &str = include_str!("../../../../../experiments/tpc-h/queries.sql");

/// The classes of queries that PostgreSQL's users write.
pub(super) fn classes() -> Vec<PlanQuery> {
    CLASSES.iter().flat_map(|text| named(text)).collect()
}

/// The queries of TPC-H. One of them depends on how much data there are.
pub(super) fn tpch(scale: f64) -> Vec<PlanQuery> {
    named(&TPCH.replace(":scale", &scale.to_string()).replace(";\n", "\n"))
}

/// The queries of a text. What stands before the first name says something about the file.
pub(super) fn named(text: &str) -> Vec<PlanQuery> {
    let mut queries: Vec<PlanQuery> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("-- name: ") {
            queries.push(PlanQuery { name: name.to_string(), ..PlanQuery::default() });
            continue;
        }
        let Some(query) = queries.last_mut() else { continue };
        if let Some(sql) = line.strip_prefix("-- before: ") {
            query.before.push(sql.to_string());
        } else if let Some(sql) = line.strip_prefix("-- after: ") {
            query.after.push(sql.to_string());
        } else if line == "-- order: total" {
            query.ordered = true;
        } else if !line.trim().is_empty() {
            query.sql.push_str(line);
            query.sql.push('\n');
        }
    }
    queries
}

/// The statements of a file that creates tables; none of them has a semicolon at the end of a line inside it.
pub(super) fn statements(text: &str) -> impl Iterator<Item = &str> {
    text.split(";\n").map(str::trim).filter(|sql| !sql.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_text_is_read_into_queries() {
        let text = "-- About the file.\n\n-- name: one\n-- before: begin\n-- after: rollback\nselect 1,\n2\n\n-- name: two\n-- order: total\nselect 3\n";
        let queries = named(text);
        assert_eq!(queries.len(), 2);
        assert_eq!((queries[0].name.as_str(), queries[0].sql.as_str()), ("one", "select 1,\n2\n"));
        assert_eq!((queries[0].before.len(), queries[0].after.len(), queries[0].ordered), (1, 1, false));
        assert!(queries[1].ordered && queries[1].before.is_empty());
    }

    #[test]
    fn every_query_has_a_name_of_its_own_and_a_text() {
        let classes = classes();
        assert_eq!(classes.len(), 90);
        let queries: Vec<PlanQuery> = classes.into_iter().chain(tpch(0.1)).collect();
        let names: BTreeSet<&str> = queries.iter().map(|query| query.name.as_str()).collect();
        assert_eq!(names.len(), 112);
        for query in &queries {
            assert!(!query.sql.is_empty() && !query.sql.contains(":scale"), "{}", query.name);
            assert!(!query.ordered || query.sql.contains("order by"), "{}", query.name);
        }
    }
}
