//! EXPLAIN as JSON, YAML and XML: one tree of properties, written in three ways.

use super::measured::{self, Measurements};
use super::text::AbsorbedNodes;
use crate::{NodeCounter, NodeReport};
use kilndb_bind::ir::{DmlKind, ExplainFormat, ExplainOptions, SetOp};
use kilndb_plan::{CtePlan, Op, Plan, PlanNode};
use kilndb_storage::accesses::Accesses;
use std::fmt::Write;

enum PropertyValue {
    Text(String),
    /// Numbers and booleans: never quoted in JSON and YAML.
    Bare(String),
    Texts(Vec<String>),
    Group(Properties),
    Groups(Vec<Properties>),
}

type Properties = Vec<(&'static str, PropertyValue)>;

fn text(value: impl Into<String>) -> PropertyValue {
    PropertyValue::Text(value.into())
}

fn number(value: f64, digits: usize) -> PropertyValue {
    PropertyValue::Bare(format!("{value:.digits$}"))
}

struct PropertyBuilder<'a> {
    plan: &'a Plan,
    options: &'a ExplainOptions,
    measured: &'a Measurements<'a>,
}

/// The one value of EXPLAIN's result in a format that is not text.
pub fn document(plan: &Plan, measured: &Measurements<'_>) -> String {
    let default = ExplainOptions::default();
    let options = plan.explain.as_ref().unwrap_or(&default);
    let builder = PropertyBuilder { plan, options, measured };
    let mut root = builder.node(&plan.root, None);
    let mut first = Vec::new();
    plan.other_ctes().for_each(|c| builder.cte(c, &mut first));
    for (i, s) in plan.other_subplans() {
        first.push(builder.named(s, &format!("SubPlan {}", i + 1)));
    }
    if !first.is_empty() {
        match root.last_mut() {
            Some(("Plans", PropertyValue::Groups(children))) => {
                children.splice(0..0, first);
            }
            _ => root.push(("Plans", PropertyValue::Groups(first))),
        }
    }
    let mut query = vec![("Plan", PropertyValue::Group(root))];
    builder.summary(&mut query);
    match options.format {
        ExplainFormat::Xml => xml_document(&query),
        ExplainFormat::Yaml => yaml_document(&query),
        _ => json_document(&query),
    }
}

/// A label's `table alias` after `on`: the alias is the table's name if it has none of its own.
fn alias_of(label: &str, table: &str) -> String {
    let after = label.rsplit_once(&format!(" on {table}")).map_or("", |(_, after)| after.trim());
    if after.is_empty() { table.to_string() } else { after.to_string() }
}

fn count(n: u64) -> PropertyValue {
    PropertyValue::Bare(n.to_string())
}

impl PropertyBuilder<'_> {
    /// Appends what EXPLAIN shows below the tree: planning, triggers, times.
    fn summary(&self, query: &mut Properties) {
        let planning = &self.plan.planning;
        if self.options.settings {
            query.push((
                "Settings",
                PropertyValue::Group(
                    planning.settings.iter().map(|(name, value)| (*name, text(value.as_str()))).collect(),
                ),
            ));
        }
        if self.options.buffers {
            query.push(("Planning", PropertyValue::Group(self.buffers(&planning.accesses).collect())));
        }
        if self.options.summary {
            query.push(("Planning Time", number(planning.nanos as f64 / 1e6, 3)));
        }
        if self.options.analyze {
            query.push(("Triggers", PropertyValue::Groups(Vec::new())));
        }
        if let Some(s) = &self.measured.serialized {
            let mut made: Properties = Vec::new();
            if self.options.timing {
                made.push(("Time", number(s.nanos as f64 / 1e6, 3)));
            }
            made.extend([("Output Volume", count(s.bytes.div_ceil(1024))), ("Format", text(s.format_name()))]);
            made.extend(self.buffers(&s.accesses));
            query.push(("Serialization", PropertyValue::Group(made)));
        }
        if let Some(ms) = self.measured.execution_ms.filter(|_| self.options.summary) {
            query.push(("Execution Time", number(ms, 3)));
        }
    }

    fn buffers(&self, accesses: &Accesses) -> impl Iterator<Item = (&'static str, PropertyValue)> {
        let shown = if self.options.buffers { measured::buffer_properties(accesses) } else { Vec::new() };
        shown.into_iter().map(|(name, n)| (name, count(n)))
    }

    fn cte(&self, c: &CtePlan, made: &mut Vec<Properties>) {
        let name = format!("CTE {}", c.name);
        made.push(self.named(&c.node, &name));
        made.extend(c.recursive.iter().map(|next| self.named(next, &name)));
    }

    fn named(&self, n: &PlanNode, name: &str) -> Properties {
        let mut made = self.node(n, Some("InitPlan"));
        let at = made.iter().position(|(key, _)| *key == "Parallel Aware").unwrap_or(0);
        made.insert(at, ("Subplan Name", text(name)));
        made
    }

    /// Node type, and the properties that say more exactly what it is: before and after the general ones.
    fn kind(&self, n: &PlanNode) -> (&'static str, Properties, Properties) {
        let mut before = Vec::new();
        let mut after = Vec::new();
        let label = n.label.as_str();
        let relation = |name: &str, after: &mut Properties| {
            after.push(("Relation Name", text(name)));
            after.push(("Alias", text(alias_of(label, name))));
        };
        let join = |after: &mut Properties| {
            let kinds = ["Left", "Full", "Right", "Semi", "Anti"];
            let kind = kinds.into_iter().find(|k| label.contains(&format!(" {k} "))).unwrap_or("Inner");
            after.push(("Join Type", text(kind)));
        };
        let kind = match &n.op {
            Op::SeqScan(scan) => {
                relation(&scan.table.name, &mut after);
                "Seq Scan"
            }
            Op::TidScan { scan, .. } => {
                relation(&scan.table.name, &mut after);
                "Tid Scan"
            }
            Op::IndexScan { scan, access } => {
                let direction = if label.starts_with("Index Scan Backward") { "Backward" } else { "Forward" };
                after.push(("Scan Direction", text(direction)));
                after.push(("Index Name", text(access.index.name.as_str())));
                relation(&scan.table.name, &mut after);
                "Index Scan"
            }
            Op::BitmapScan { scan, .. } => {
                relation(&scan.table.name, &mut after);
                "Bitmap Heap Scan"
            }
            Op::Shown { .. } if label == "BitmapAnd" => "BitmapAnd",
            Op::Shown { .. } if label == "BitmapOr" => "BitmapOr",
            Op::Shown { .. } if label.starts_with("Bitmap Index Scan on ") => {
                after.push(("Index Name", text(label.trim_start_matches("Bitmap Index Scan on "))));
                "Bitmap Index Scan"
            }
            Op::NestLoop { .. } => {
                join(&mut after);
                "Nested Loop"
            }
            Op::HashJoin { .. } => {
                join(&mut after);
                "Hash Join"
            }
            Op::MergeJoin { .. } => {
                join(&mut after);
                "Merge Join"
            }
            Op::Aggregate { .. } | Op::Distinct { .. } => {
                let strategy = match label {
                    "HashAggregate" => "Hashed",
                    "GroupAggregate" => "Sorted",
                    "Unique" => return ("Unique", before, after),
                    _ => "Plain",
                };
                before.push(("Strategy", text(strategy)));
                before.push(("Partial Mode", text("Simple")));
                "Aggregate"
            }
            Op::SetOp { op: SetOp::Union, all: true, .. } => "Append",
            Op::SetOp { op, .. } => {
                before.push(("Strategy", text("Hashed")));
                let command = match op {
                    SetOp::Union => "Union",
                    SetOp::Intersect => "Intersect",
                    SetOp::Except => "Except",
                };
                after.push(("Command", text(command)));
                "SetOp"
            }
            Op::Function { shown: Some(shown), .. } => {
                if let Some((schema, name)) = &shown.name {
                    after.push(("Function Name", text(name.as_str())));
                    after.extend(self.options.verbose.then(|| ("Schema", text(schema.as_str()))));
                }
                after.push(("Alias", text(shown.alias.as_str())));
                "Function Scan"
            }
            Op::Modify(m) => {
                let operation = match m.statement.kind {
                    DmlKind::Insert => "Insert",
                    DmlKind::Update => "Update",
                    DmlKind::Delete => "Delete",
                    DmlKind::Merge => "Merge",
                };
                before.push(("Operation", text(operation)));
                relation(&m.table.name, &mut after);
                "ModifyTable"
            }
            _ => self.kind_by_label(label, &mut after),
        };
        (kind, before, after)
    }

    fn kind_by_label(&self, label: &str, after: &mut Properties) -> &'static str {
        let (kind, on) = label.split_once(" on ").unwrap_or((label, ""));
        let known = [
            "Seq Scan",
            "Tid Scan",
            "HashAggregate",
            "Merge Append",
            "Function Scan",
            "Values Scan",
            "CTE Scan",
            "WorkTable Scan",
            "Subquery Scan",
            "Count Scan",
            "WindowAgg",
            "LockRows",
            "Limit",
            "Sort",
            "ProjectSet",
            "Append",
            "Materialize",
            "Recursive Union",
        ];
        let kind = known.into_iter().find(|k| *k == kind).unwrap_or("Result");
        let name = on.trim_matches('"');
        match kind {
            "Seq Scan" | "Tid Scan" => {
                let (table, alias) = name.split_once(' ').unwrap_or((name, name));
                after.push(("Relation Name", text(table)));
                after.push(("Alias", text(alias)));
                return kind;
            }
            "HashAggregate" => return "Aggregate",
            "CTE Scan" | "WorkTable Scan" => after.push(("CTE Name", text(name))),
            "Count Scan" => after.push(("Relation Name", text(name))),
            _ => {}
        }
        if !name.is_empty() {
            after.push(("Alias", text(name)));
        }
        kind
    }

    fn node(&self, n: &PlanNode, relationship: Option<&'static str>) -> Properties {
        self.node_of_level(n, relationship, AbsorbedNodes::default())
    }

    fn node_of_level(&self, n: &PlanNode, relationship: Option<&'static str>, above: AbsorbedNodes) -> Properties {
        let above = above.and(n, self.plan);
        // Projections are shown by PostgreSQL as part of the node below.
        if let Some(input) = super::text::passes_on(n) {
            return self.node_of_level(input, relationship, above);
        }
        let (kind, before, after) = self.kind(n);
        let mut made: Properties = vec![("Node Type", text(kind))];
        made.extend(before);
        made.extend(relationship.map(|r| ("Parent Relationship", text(r))));
        made.push(("Parallel Aware", PropertyValue::Bare("false".into())));
        made.push(("Async Capable", PropertyValue::Bare("false".into())));
        made.extend(after);
        if self.options.costs {
            made.push(("Startup Cost", number(n.startup, 2)));
            made.push(("Total Cost", number(n.cost.max(0.01), 2)));
            made.push(("Plan Rows", number(n.rows, 0)));
            made.push(("Plan Width", PropertyValue::Bare((n.width * 8).to_string())));
        }
        let counter = above.counter(n, self.measured);
        if let Some(c) = &counter {
            self.actual(c, &mut made);
        }
        let is_disabled = n.info.first().is_some_and(|line| line == "Disabled: true");
        made.push(("Disabled", PropertyValue::Bare(is_disabled.to_string())));
        for line in &n.info {
            made.extend(property_of(line));
            // What is looked for in a tree is found exactly.
            if counter.is_some() && line.starts_with("Index Cond: ") && n.label.starts_with("Index Scan") {
                made.push(("Rows Removed by Index Recheck", count(0)));
            }
            if let Some((c, name)) = counter.as_ref().zip(super::text::removed_by(n, line)) {
                made.push((name, number(c.removed as f64 / c.loops.max(1) as f64, 0)));
            }
        }
        if let Some(c) = &counter {
            report(&c.report, &mut made);
            if c.workers_launched > 0 {
                made.push(("Workers Launched", count(c.workers_launched)));
            }
            if measured::is_index_search(&n.label) {
                made.push(("Index Searches", count(c.searches)));
            }
        }
        let accesses = counter.map(|c| c.accesses).unwrap_or_default();
        made.extend(self.buffers(&accesses));
        if self.options.wal {
            made.extend(measured::log_properties(&accesses).map(|(name, n)| (name, count(n))));
        }
        if let Op::Partitions(_) = n.op {
            made.push((
                "Subplans Removed",
                PropertyValue::Bare(self.measured.removed.get(&n.id).map_or(0, Vec::len).to_string()),
            ));
        }
        let children = super::text::children(n, self.measured.removed);
        let member = matches!(n.op, Op::SetOp { op: SetOp::Union, .. } | Op::Partitions(_) | Op::ByPartition(_))
            || matches!(kind, "BitmapAnd" | "BitmapOr");
        let mut groups = Vec::new();
        above.ctes.iter().for_each(|i| self.cte(&self.plan.ctes[*i], &mut groups));
        groups.extend(above.init.iter().map(|i| self.named(&self.plan.subplans[*i], &format!("InitPlan {}", i + 1))));
        let position = |i| {
            if member {
                "Member"
            } else if i == 0 {
                "Outer"
            } else {
                "Inner"
            }
        };
        groups.extend(children.iter().enumerate().map(|(i, c)| self.node(c, Some(position(i)))));
        if !groups.is_empty() {
            made.push(("Plans", PropertyValue::Groups(groups)));
        }
        made
    }

    fn actual(&self, c: &NodeCounter, made: &mut Properties) {
        let loops = c.loops.max(1) as f64;
        if self.options.timing {
            made.push(("Actual Startup Time", number(c.startup_nanos as f64 / 1e6 / loops, 3)));
            made.push(("Actual Total Time", number(c.nanos as f64 / 1e6 / loops, 3)));
        }
        made.push(("Actual Rows", number(c.rows as f64 / loops, 2)));
        made.push(("Actual Loops", PropertyValue::Bare(c.loops.to_string())));
    }
}

/// `Key: value` of the text format; keys of sorts and groups are lists.
fn property_of(line: &str) -> Option<(&'static str, PropertyValue)> {
    let (key, value) = line.split_once(": ")?;
    let known = [
        "Function Call",
        "Filter",
        "Index Cond",
        "Recheck Cond",
        "Hash Cond",
        "Join Filter",
        "One-Time Filter",
        "TID Cond",
        "Sort Key",
        "Group Key",
        "Presorted Key",
        "Merge Cond",
        "Cache Key",
        "Cache Mode",
        "Run Condition",
        "Window",
    ];
    let key = known.into_iter().find(|k| *k == key)?;
    Some((
        key,
        if key.ends_with("Key") && key != "Cache Key" { PropertyValue::Texts(split_list(value)) } else { text(value) },
    ))
}

/// Splits at commas outside of parentheses and quotes.
fn split_list(list: &str) -> Vec<String> {
    let (mut parts, mut depth, mut quoted, mut start) = (Vec::new(), 0, false, 0);
    for (i, c) in list.char_indices() {
        match c {
            '\'' => quoted = !quoted,
            '(' | '[' if !quoted => depth += 1,
            ')' | ']' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                parts.push(list[start..i].trim().to_string());
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(list[start..].trim().to_string());
    parts
}

fn report(report: &NodeReport, made: &mut Properties) {
    let kilobytes = |bytes: u64| PropertyValue::Bare(bytes.div_ceil(1024).to_string());
    match *report {
        NodeReport::None => {}
        NodeReport::Sort { method, on_disk, bytes } => {
            made.push(("Sort Method", text(method)));
            made.push(("Sort Space Used", kilobytes(bytes)));
            made.push(("Sort Space Type", text(if on_disk { "Disk" } else { "Memory" })));
        }
        NodeReport::Hash { batches, memory, disk } => {
            made.push(("Hash Batches", PropertyValue::Bare(batches.to_string())));
            made.push(("Peak Memory Usage", kilobytes(memory)));
            if disk > 0 {
                made.push(("Disk Usage", kilobytes(disk)));
            }
        }
        NodeReport::LoopTable { after_rows, memory } => {
            made.push(("Hashed After Rows", PropertyValue::Bare(after_rows.to_string())));
            made.push(("Peak Memory Usage", kilobytes(memory)));
        }
        NodeReport::IncrementalSort { groups, method, average, peak } => {
            made.push((
                "Full-sort Groups",
                PropertyValue::Group(vec![
                    ("Group Count", PropertyValue::Bare(groups.to_string())),
                    ("Sort Methods Used", PropertyValue::Texts(vec![method.to_string()])),
                    (
                        "Sort Space Memory",
                        PropertyValue::Group(vec![
                            ("Average Sort Space Used", kilobytes(average)),
                            ("Peak Sort Space Used", kilobytes(peak)),
                        ]),
                    ),
                ]),
            ));
        }
        NodeReport::Memoize { hits, misses, evictions, overflows, memory } => {
            let counts = [
                ("Cache Hits", hits),
                ("Cache Misses", misses),
                ("Cache Evictions", evictions),
                ("Cache Overflows", overflows),
            ];
            made.extend(counts.map(|(name, n)| (name, PropertyValue::Bare(n.to_string()))));
            made.push(("Peak Memory Usage", kilobytes(memory)));
        }
        NodeReport::Merge { inserted, updated, deleted, skipped } => {
            let counts = [
                ("Tuples Inserted", inserted),
                ("Tuples Updated", updated),
                ("Tuples Deleted", deleted),
                ("Tuples Skipped", skipped),
            ];
            made.extend(counts.map(|(name, n)| (name, PropertyValue::Bare(n.to_string()))));
        }
        NodeReport::Blocks { exact, lossy } => {
            made.extend(
                [("Exact Heap Blocks", exact), ("Lossy Heap Blocks", lossy)]
                    .map(|(name, n)| (name, PropertyValue::Bare(n.to_string()))),
            );
        }
    }
}

fn json_string(s: &str) -> String {
    let mut out = String::from("\"");
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn json_document(query: &Properties) -> String {
    let mut out = String::from("[\n  ");
    json_group(query, 2, &mut out);
    out.push_str("\n]");
    out
}

fn json_group(group: &Properties, indent: usize, out: &mut String) {
    out.push('{');
    let inner = " ".repeat(indent + 2);
    for (i, (key, value)) in group.iter().enumerate() {
        let _ = write!(out, "{}\n{inner}\"{key}\": ", if i > 0 { "," } else { "" });
        match value {
            PropertyValue::Text(s) => out.push_str(&json_string(s)),
            PropertyValue::Bare(s) => out.push_str(s),
            PropertyValue::Texts(list) => {
                let list: Vec<String> = list.iter().map(|s| json_string(s)).collect();
                let _ = write!(out, "[{}]", list.join(", "));
            }
            PropertyValue::Group(g) => json_group(g, indent + 2, out),
            PropertyValue::Groups(groups) => {
                out.push('[');
                for (j, g) in groups.iter().enumerate() {
                    let _ = write!(out, "{}\n{inner}  ", if j > 0 { "," } else { "" });
                    json_group(g, indent + 4, out);
                }
                let _ = write!(out, "\n{inner}]");
            }
        }
    }
    let _ = write!(out, "\n{}}}", " ".repeat(indent));
}

fn yaml_document(query: &Properties) -> String {
    let mut out = String::from("- ");
    yaml_group(query, 2, &mut out);
    out
}

/// A group whose first property goes on the line that is open, after a dash.
fn yaml_group(group: &Properties, indent: usize, out: &mut String) {
    for (i, property) in group.iter().enumerate() {
        if i > 0 {
            let _ = write!(out, "\n{}", " ".repeat(indent));
        }
        yaml_property(property, indent, out);
    }
}

fn yaml_property((key, value): &(&'static str, PropertyValue), indent: usize, out: &mut String) {
    let inner = " ".repeat(indent + 2);
    let _ = write!(out, "{key}: ");
    match value {
        PropertyValue::Text(s) => out.push_str(&json_string(s)),
        PropertyValue::Bare(s) => out.push_str(s),
        PropertyValue::Texts(list) => {
            for s in list {
                let _ = write!(out, "\n{inner}- {}", json_string(s));
            }
        }
        PropertyValue::Group(g) => {
            let _ = write!(out, "\n{inner}");
            yaml_group(g, indent + 2, out);
        }
        PropertyValue::Groups(groups) => {
            for g in groups {
                let _ = write!(out, "\n{inner}- ");
                yaml_group(g, indent + 4, out);
            }
        }
    }
}

fn xml_text(s: &str) -> String {
    s.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\r', "&#x0d;")
}

fn xml_document(query: &Properties) -> String {
    let mut out = String::from("<explain xmlns=\"http://www.postgresql.org/2009/explain\">\n  <Query>\n");
    xml_group(query, 4, &mut out);
    out.push_str("  </Query>\n</explain>");
    out
}

fn xml_group(group: &Properties, indent: usize, out: &mut String) {
    let pad = " ".repeat(indent);
    for (key, value) in group {
        let tag = key.replace([' ', '/'], "-");
        match value {
            PropertyValue::Text(s) | PropertyValue::Bare(s) => {
                let _ = writeln!(out, "{pad}<{tag}>{}</{tag}>", xml_text(s));
            }
            PropertyValue::Texts(list) => {
                let _ = writeln!(out, "{pad}<{tag}>");
                for s in list {
                    let _ = writeln!(out, "{pad}  <Item>{}</Item>", xml_text(s));
                }
                let _ = writeln!(out, "{pad}</{tag}>");
            }
            PropertyValue::Group(g) => {
                let _ = writeln!(out, "{pad}<{tag}>");
                xml_group(g, indent + 2, out);
                let _ = writeln!(out, "{pad}</{tag}>");
            }
            PropertyValue::Groups(groups) => {
                let _ = writeln!(out, "{pad}<{tag}>");
                for g in groups {
                    let _ = writeln!(out, "{pad}  <Plan>");
                    xml_group(g, indent + 4, out);
                    let _ = writeln!(out, "{pad}  </Plan>");
                }
                let _ = writeln!(out, "{pad}</{tag}>");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tree_in_three_formats() {
        let plan = vec![
            ("Node Type", text("Seq \"x\" <")),
            ("Plan Rows", number(1.0, 0)),
            ("Sort Key", PropertyValue::Texts(split_list("a, f(b, c)"))),
        ];
        let query = vec![("Plan", PropertyValue::Group(plan))];
        let json = "[\n  {\n    \"Plan\": {\n      \"Node Type\": \"Seq \\\"x\\\" <\",\n      \"Plan Rows\": 1,\n      \"Sort Key\": [\"a\", \"f(b, c)\"]\n    }\n  }\n]";
        assert_eq!(json_document(&query), json);
        assert_eq!(
            yaml_document(&query),
            "- Plan: \n    Node Type: \"Seq \\\"x\\\" <\"\n    Plan Rows: 1\n    Sort Key: \n      - \"a\"\n      - \"f(b, c)\""
        );
        assert!(xml_document(&query).contains("<Node-Type>Seq \"x\" &lt;</Node-Type>"));
    }
}
