//! Plan trees as PostgreSQL draws them.

use super::measured::{self, Measurements};
use crate::{NodeCounter, NodeReport, RemovedPartitions};
use kilndb_bind::ir::*;
use kilndb_plan::{CtePlan, Op, Plan, PlanNode};
use kilndb_storage::accesses::Accesses;
use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

struct TextPrinter<'a> {
    plan: &'a Plan,
    options: &'a ExplainOptions,
    measured: &'a Measurements<'a>,
    out: Vec<String>,
}

/// Is the inner side of a nested loop kept because it is wanted more than once, and does not keep its rows itself?
fn keeps_rows(n: &PlanNode) -> bool {
    let Op::NestLoop { outer, inner, materialize: true, .. } = &n.op else { return false };
    let mut inner = inner;
    while let Some(below) = passes_on(inner) {
        inner = below;
    }
    outer.rows.round() > 1.0 && !matches!(inner.op, Op::Function { .. } | Op::CteScan { .. } | Op::WorkTable { .. })
}

/// What is shown as a part of the node below it.
#[derive(Default)]
pub(super) struct AbsorbedNodes {
    /// The init plans that are shown with the node.
    pub init: Vec<usize>,
    /// The WITH queries that are shown with it.
    pub ctes: Vec<usize>,
    /// The topmost projection or condition on groups: the rows, the time and the pages are its.
    top: Option<usize>,
}

impl AbsorbedNodes {
    pub fn and(mut self, n: &PlanNode, plan: &Plan) -> AbsorbedNodes {
        self.init.extend(plan.init_plans.get(&n.id).into_iter().flatten());
        self.ctes.extend(plan.level_ctes.get(&n.id).into_iter().flatten());
        if matches!(n.op, Op::Project { .. } | Op::Filter { .. }) && passes_on(n).is_some() {
            self.top = self.top.or(Some(n.id));
        }
        self
    }
    /// What was counted of a node with all that is shown as a part of it.
    pub fn counter(&self, n: &PlanNode, measured: &Measurements<'_>) -> Option<NodeCounter> {
        let of = |id: usize| measured.counters.and_then(|c| c.get(id)).copied();
        let mut own = of(n.id)?;
        // The only partition that is left is shown in place of all.
        if let Op::Partitions(p) = &n.op
            && let [one] = p.shown.as_slice()
            && let Some(one) = of(one.node.id)
        {
            own = NodeCounter { removed: one.removed, searches: one.searches, ..own };
        }
        Some(match self.top.and_then(of).filter(|top| top.loops > 0 && own.loops > 0) {
            Some(top) => NodeCounter {
                removed: own.removed,
                searches: own.searches,
                report: own.report,
                loops: own.loops,
                workers_launched: own.workers_launched,
                ..top
            },
            None => own,
        })
    }
}

/// What a plan does, line by line, without what it costs.
pub fn shape(plan: &Plan) -> Vec<String> {
    let options = ExplainOptions { costs: false, summary: false, ..ExplainOptions::default() };
    let removed = RemovedPartitions::default();
    let measured = Measurements { counters: None, removed: &removed, execution_ms: None, serialized: None };
    lines_with(plan, &options, &measured)
}

/// The lines of EXPLAIN in text format.
pub fn lines(plan: &Plan, measured: &Measurements<'_>) -> Vec<String> {
    let default = ExplainOptions::default();
    lines_with(plan, plan.explain.as_ref().unwrap_or(&default), measured)
}

fn lines_with(plan: &Plan, options: &ExplainOptions, measured: &Measurements<'_>) -> Vec<String> {
    let mut p = TextPrinter { plan, options, measured, out: Vec::new() };
    p.node(&plan.root, None);
    plan.other_ctes().for_each(|c| p.cte(c, 2));
    for (i, s) in plan.other_subplans() {
        p.out.push(format!("  SubPlan {}", i + 1));
        p.node(s, Some(4));
    }
    p.summary();
    p.out
}

fn report_text(report: &NodeReport) -> Option<String> {
    let kilobytes = |bytes: u64| bytes.div_ceil(1024);
    match *report {
        NodeReport::None => None,
        NodeReport::Sort { method, on_disk, bytes } => {
            let place = if on_disk { "Disk" } else { "Memory" };
            Some(format!("Sort Method: {method}  {place}: {}kB", kilobytes(bytes)))
        }
        NodeReport::Hash { batches, memory, disk } => {
            let mut text = format!("Batches: {batches}  Memory Usage: {}kB", kilobytes(memory));
            if disk > 0 {
                let _ = write!(text, "  Disk Usage: {}kB", kilobytes(disk));
            }
            Some(text)
        }
        NodeReport::LoopTable { after_rows, memory } => {
            Some(format!("Hashed After Rows: {after_rows}  Memory Usage: {}kB", kilobytes(memory)))
        }
        NodeReport::IncrementalSort { groups, method, average, peak } => Some(format!(
            "Full-sort Groups: {groups}  Sort Method: {method}  Average Memory: {}kB  Peak Memory: {}kB",
            kilobytes(average),
            kilobytes(peak)
        )),
        NodeReport::Memoize { hits, misses, evictions, overflows, memory } => Some(format!(
            "Hits: {hits}  Misses: {misses}  Evictions: {evictions}  Overflows: {overflows}  Memory Usage: {}kB",
            kilobytes(memory)
        )),
        NodeReport::Merge { inserted, updated, deleted, skipped } => {
            let counts = [("inserted", inserted), ("updated", updated), ("deleted", deleted), ("skipped", skipped)];
            let shown: Vec<String> =
                counts.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{name}={n}")).collect();
            (!shown.is_empty()).then(|| format!("Tuples: {}", shown.join(" ")))
        }
        NodeReport::Blocks { exact, lossy } => {
            let shown: Vec<String> = [("exact", exact), ("lossy", lossy)]
                .iter()
                .filter(|(_, n)| *n > 0)
                .map(|(name, n)| format!("{name}={n}"))
                .collect();
            (!shown.is_empty()).then(|| format!("Heap Blocks: {}", shown.join(" ")))
        }
    }
}

/// What the rows that a node left out are called, below the line with the condition that did it. A bitmap scan that
/// shows no other condition has left them out when it looked at them again.
pub(super) fn removed_by(n: &PlanNode, line: &str) -> Option<&'static str> {
    let has_filter = || n.info.iter().any(|line| line.starts_with("Filter: "));
    if line.starts_with("Filter: ") {
        Some("Rows Removed by Filter")
    } else if line.starts_with("Recheck Cond: ") && !has_filter() {
        Some("Rows Removed by Index Recheck")
    } else {
        None
    }
}

impl TextPrinter<'_> {
    /// `arrow`: the column of the arrow before it; the root has none.
    fn node(&mut self, n: &PlanNode, arrow: Option<usize>) {
        self.node_of_level(n, arrow, AbsorbedNodes::default());
    }

    fn node_of_level(&mut self, n: &PlanNode, arrow: Option<usize>, above: AbsorbedNodes) {
        let above = above.and(n, self.plan);
        // Projections are shown by PostgreSQL as part of the node below.
        if let Some(input) = passes_on(n) {
            return self.node_of_level(input, arrow, above);
        }
        let counter = above.counter(n, self.measured);
        let mut line = arrow.map_or_else(String::new, |column| format!("{}->  ", " ".repeat(column)));
        line.push_str(&n.label);
        if self.options.costs {
            let width = n.width * 8;
            let _ = write!(line, "  (cost={:.2}..{:.2} rows={:.0} width={width})", n.startup, n.cost.max(0.01), n.rows);
        }
        if let Some(c) = &counter {
            line.push_str(&self.actual(c, false));
        }
        self.out.push(line);
        let below = arrow.map_or(2, |column| column + 6);
        let indent = " ".repeat(below);
        for i in &n.info {
            self.out.push(format!("{indent}{i}"));
            if let Some((c, name)) = counter.as_ref().filter(|c| c.removed > 0).zip(removed_by(n, i)) {
                self.out.push(format!("{indent}{name}: {:.0}", c.removed as f64 / c.loops.max(1) as f64));
            }
        }
        let report = counter.as_ref().and_then(|c| report_text(&c.report));
        let hashes = is_hash_join(n);
        if let Some(line) = report.as_ref().filter(|_| !hashes) {
            self.out.push(format!("{indent}{line}"));
        }
        if let Some(c) = &counter {
            if c.workers_launched > 0 {
                self.out.push(format!("{indent}Workers Launched: {}", c.workers_launched));
            }
            if measured::is_index_search(&n.label) {
                self.out.push(format!("{indent}Index Searches: {}", c.searches));
            }
            self.accesses(&c.accesses, below);
        }
        above.ctes.iter().for_each(|i| self.cte(&self.plan.ctes[*i], below));
        for i in above.init {
            self.out.push(format!("{indent}InitPlan {}", i + 1));
            self.node(&self.plan.subplans[i], Some(below + 2));
        }
        let removed = self.measured.removed.get(&n.id).map_or(0, Vec::len);
        if removed > 0 {
            self.out.push(format!("{indent}Subplans Removed: {removed}"));
        }
        for (i, c) in children(n, self.measured.removed).iter().enumerate() {
            if hashes && i == 1 {
                self.hash(c, below, report.as_deref());
                self.node(c, Some(below + 6));
            } else if i == 1 && counter.is_none() && keeps_rows(n) {
                self.kept(c, below);
                self.node(c, Some(below + 6));
            } else {
                self.node(c, Some(below));
            }
        }
    }

    /// A WITH query, at this column.
    fn cte(&mut self, c: &CtePlan, column: usize) {
        self.out.push(format!("{}CTE {}", " ".repeat(column), c.name));
        let Some(next) = &c.recursive else { return self.node(&c.node, Some(column + 2)) };
        let mut line = format!("{}->  Recursive Union", " ".repeat(column + 2));
        if self.options.costs {
            let (cost, rows, width) = (c.node.cost + next.cost, c.node.rows + next.rows, c.node.width * 8);
            let _ = write!(line, "  (cost={:.2}..{cost:.2} rows={rows:.0} width={width})", c.node.startup);
        }
        self.out.push(line);
        self.node(&c.node, Some(column + 8));
        self.node(next, Some(column + 8));
    }

    /// What PostgreSQL has between a hash join and the side that goes into the table.
    fn hash(&mut self, input: &PlanNode, arrow: usize, report: Option<&str>) {
        let mut input = input;
        while let Some(below) = passes_on(input) {
            input = below;
        }
        let mut line = format!("{}->  Hash", " ".repeat(arrow));
        if self.options.costs {
            let _ = write!(
                line,
                "  (cost={:.2}..{:.2} rows={:.0} width={})",
                input.cost.max(0.01),
                input.cost.max(0.01),
                input.rows,
                input.width * 8
            );
        }
        let counter = self.measured.counters.and_then(|c| c.get(input.id));
        if let Some(c) = counter {
            line.push_str(&self.actual(c, true));
        }
        self.out.push(line);
        if let Some(report) = report {
            self.out.push(format!("{}{report}", " ".repeat(arrow + 6)));
        }
        if let Some(c) = counter {
            self.accesses(&c.accesses, arrow + 6);
        }
    }

    /// What PostgreSQL has between a nested loop and the side whose rows are kept: of keeping them nothing is counted.
    fn kept(&mut self, input: &PlanNode, arrow: usize) {
        let mut line = format!("{}->  Materialize", " ".repeat(arrow));
        if self.options.costs {
            let (cost, width) = (input.cost.max(0.01), input.width * 8);
            let _ = write!(line, "  (cost={:.2}..{cost:.2} rows={:.0} width={width})", input.startup, input.rows);
        }
        self.out.push(line);
    }

    fn accesses(&mut self, accesses: &Accesses, column: usize) {
        let buffers = measured::buffers_line(accesses).filter(|_| self.options.buffers);
        let log = measured::log_line(accesses).filter(|_| self.options.wal);
        self.out.extend(buffers.into_iter().chain(log).map(|line| format!("{}{line}", " ".repeat(column))));
    }

    /// What stands below the tree.
    fn summary(&mut self) {
        let (options, planning) = (self.options, &self.plan.planning);
        if !planning.settings.is_empty() {
            let list: Vec<String> =
                planning.settings.iter().map(|(name, value)| format!("{name} = '{value}'")).collect();
            self.out.push(format!("Settings: {}", list.join(", ")));
        }
        if let Some(buffers) = measured::buffers_line(&planning.accesses).filter(|_| options.buffers) {
            self.out.extend(["Planning:".to_string(), format!("  {buffers}")]);
        }
        if options.summary {
            self.out.push(format!("Planning Time: {:.3} ms", planning.nanos as f64 / 1e6));
        }
        if let Some(s) = &self.measured.serialized {
            let time = if options.timing { format!("time={:.3} ms  ", s.nanos as f64 / 1e6) } else { String::new() };
            self.out.push(format!(
                "Serialization: {time}output={}kB  format={}",
                s.bytes.div_ceil(1024),
                s.format_name()
            ));
            let buffers = measured::buffers_line(&s.accesses).filter(|_| options.buffers);
            self.out.extend(buffers.map(|line| format!("  {line}")));
        }
        if let Some(ms) = self.measured.execution_ms.filter(|_| options.summary) {
            self.out.push(format!("Execution Time: {ms:.3} ms"));
        }
    }

    /// The costs of a node as text. `at_end`: the first row comes with the last one, so both costs are the same.
    fn actual(&self, c: &NodeCounter, at_end: bool) -> String {
        if c.loops == 0 {
            return " (never executed)".into();
        }
        let loops = c.loops as f64;
        let rows = c.rows as f64 / loops;
        if !self.options.timing {
            return format!(" (actual rows={rows:.2} loops={})", c.loops);
        }
        let ms = |n: u64| n as f64 / 1e6 / loops;
        let first = if at_end { c.nanos } else { c.startup_nanos };
        format!(" (actual time={:.3}..{:.3} rows={rows:.2} loops={})", ms(first), ms(c.nanos), c.loops)
    }
}

/// This is true of a node that stands for an aggregate or a sort too.
pub(super) fn is_hash_join(n: &PlanNode) -> bool {
    matches!(n.op, Op::HashJoin { .. } | Op::Shown { .. }) && n.label.starts_with("Hash ") && n.label.ends_with("Join")
}

/// What is shown as a part of the node below it: a projection, a condition on groups.
pub(super) fn passes_on(n: &PlanNode) -> Option<&Arc<PlanNode>> {
    match &n.op {
        Op::Project { input, .. } => Some(input),
        Op::Filter { input, .. } if n.label.is_empty() => Some(input),
        Op::Shown { below: children, .. } if n.label.is_empty() => children.first(),
        Op::ByPartition(p) if p.shown.len() == 1 => p.shown.first().map(|s| &s.node),
        _ => None,
    }
}

/// What is shown below a node: of partitions those that are left when it begins, numbered anew.
pub(super) fn children<'n>(n: &'n PlanNode, removed: &RemovedPartitions) -> Vec<Cow<'n, Arc<PlanNode>>> {
    let (Op::Partitions(p), Some(gone)) = (&n.op, removed.get(&n.id).filter(|gone| !gone.is_empty())) else {
        return n.children().into_iter().map(Cow::Borrowed).collect();
    };
    let left = p.shown.iter().filter(|s| !gone.contains(&s.oid)).enumerate();
    left.map(|(i, s)| {
        let name = s.node.label.rsplit_once('_').map_or(s.node.label.as_str(), |(name, _)| name);
        Cow::Owned(Arc::new(PlanNode {
            label: format!("{name}_{}", i + 1),
            op: Op::Shown { index: 0, below: s.node.children().into_iter().cloned().collect() },
            info: s.node.info.clone(),
            ..*s.node
        }))
    })
    .collect()
}
