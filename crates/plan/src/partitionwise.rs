//! Joins and aggregates done partition by partition (`enable_partitionwise_join`, `enable_partitionwise_aggregate`).
//!
//! Invariants
//! 1. The plan of a join or aggregate is what it would be for whole tables; [`Op::ByPartition`] above it runs it for a
//!    few partitions after the other. Whether the tables are divided alike is looked at when it runs, so a plan
//!    outlives changes of the partitions.
//! 2. Rows of different partitions have different values of every column that a [`PartitionDivision`] names.

use super::partition::ShownScan;
use super::*;
use kilndb_catalog::Table;
use kilndb_catalog::partition::PartitionMap;

/// How the rows of a node are divided by partitions.
#[derive(Clone)]
pub(crate) struct PartitionDivision {
    /// The scans that the rows come from, by node id.
    scans: Vec<DividedScan>,
    map: Arc<PartitionMap>,
    /// For each part of the key the columns that have its values.
    keys: Vec<Vec<ColId>>,
    /// EXPLAIN: the number behind the alias of a table's first partition, 0 for none.
    first_number: usize,
}

#[derive(Clone)]
struct DividedScan {
    node: usize,
    table: Arc<Table>,
    alias: String,
    /// The partitions that EXPLAIN shows.
    shown: Vec<usize>,
}

/// Runs its input for some partitions of the scans' tables after the other.
pub struct ByPartition {
    pub input: Arc<PlanNode>,
    /// Node ids of [`Op::Partitions`], and their tables.
    pub scans: Vec<(usize, Arc<Table>)>,
    /// EXPLAIN: the input as it is for each partition.
    pub shown: Vec<ShownPartition>,
}

pub struct ShownPartition {
    pub position: usize,
    pub node: Arc<PlanNode>,
    /// Nodes of the input, and those that stand for them.
    pub stands_for: Vec<(usize, usize)>,
}

fn column_of(e: &Expr) -> Option<ColId> {
    match &access::strip(e).kind {
        ExprKind::Column(c) => Some(*c),
        _ => None,
    }
}

impl Planner<'_> {
    /// Notes that the node reads a partitioned table.
    pub(super) fn note_divided_scan(&self, node: &PlanNode, rel: &Rel, table: &Arc<Table>) -> Result<()> {
        let Some(key) = table.partition_key.as_ref().filter(|key| !key.has_expressions()) else { return Ok(()) };
        for part in key.parts.iter().filter(|part| part.class.is_some()) {
            // Values that joins and groups treat as equal must be equal to the key's operator class.
            if !self.catalog.ordering_operators(part.base_type)?.is_some_and(|o| part.is_equality(o.equal)) {
                return Ok(());
            }
        }
        let switches = self.catalog.planner_settings();
        if !(switches.partitionwise_join || switches.partitionwise_aggregate) {
            return Ok(());
        }
        let alias = self.shown_relation(rel);
        let shown =
            if let Op::Partitions(p) = &node.op { p.shown.iter().map(|s| s.position).collect() } else { Vec::new() };
        let division = PartitionDivision {
            scans: vec![DividedScan { node: node.id, table: table.clone(), alias, shown }],
            map: self.catalog.partition_map(table.oid)?,
            keys: key.parts.iter().map(|part| vec![ColId { rel: rel.id, att: part.attnum }]).collect(),
            first_number: 1,
        };
        self.divisions.borrow_mut().insert(node.id, division);
        Ok(())
    }

    /// Notes that a node's rows are divided as its input's are.
    pub(super) fn note_divided_like(&self, node: &PlanNode, input: &PlanNode) {
        let mut divisions = self.divisions.borrow_mut();
        if let Some(division) = divisions.get(&input.id).cloned() {
            divisions.insert(node.id, division);
        }
    }

    /// The division of a join with these conditions, if both sides are divided in the same way by columns that must be
    /// equal.
    pub(super) fn joined_division(
        &self,
        probe: &PlanNode,
        build: &PlanNode,
        kind: JoinKind,
        keys: &[(Expr, Expr)],
    ) -> Option<PartitionDivision> {
        if !self.catalog.planner_settings().partitionwise_join {
            return None;
        }
        let divisions = self.divisions.borrow();
        let (left, right) = (divisions.get(&probe.id)?, divisions.get(&build.id)?);
        let is_equal = |(l, r): (&Vec<ColId>, &Vec<ColId>)| {
            keys.iter().any(|(x, y)| {
                column_of(x).is_some_and(|x| l.contains(&x)) && column_of(y).is_some_and(|y| r.contains(&y))
            })
        };
        if !left.map.is_divided_like(&right.map) || !left.keys.iter().zip(&right.keys).all(is_equal) {
            return None;
        }
        // The columns of a side that may be missing from a row cannot divide it.
        let keys = left.keys.iter().zip(&right.keys).map(|(l, r)| match kind {
            JoinKind::Inner => [l.as_slice(), r].concat(),
            JoinKind::Left | JoinKind::Semi | JoinKind::Anti => l.clone(),
            JoinKind::Right => r.clone(),
            JoinKind::Full => Vec::new(),
        });
        Some(PartitionDivision {
            scans: [left.scans.as_slice(), &right.scans].concat(),
            map: left.map.clone(),
            keys: keys.collect(),
            first_number: 1,
        })
    }

    pub(super) fn note_division(&self, node: &PlanNode, division: PartitionDivision) {
        self.divisions.borrow_mut().insert(node.id, division);
    }

    /// Are all rows of each group in one partition?
    pub(super) fn divides_groups(&self, input: &PlanNode, groups: &[Expr]) -> bool {
        let divisions = self.divisions.borrow();
        let Some(division) =
            divisions.get(&input.id).filter(|_| self.catalog.planner_settings().partitionwise_aggregate)
        else {
            return false;
        };
        division.keys.iter().all(|columns| groups.iter().any(|g| column_of(g).is_some_and(|c| columns.contains(&c))))
    }

    /// A divided join or aggregate is run partition by partition: what stands above it asks for all its rows.
    pub(super) fn by_partition(&self, planned: PlannedNode) -> PlannedNode {
        let worthwhile = has_work(&planned.node);
        let Some(mut division) = self.divisions.borrow().get(&planned.node.id).filter(|_| worthwhile).cloned() else {
            return planned;
        };
        // PostgreSQL's names: with groups, the tables themselves are no part of the plan.
        division.first_number = usize::from(!matches!(&planned.node.op, Op::Aggregate { .. } | Op::Filter { .. }));
        let PlannedNode { node: input, layout } = planned;
        let (width, rows, cost) = (input.width, input.rows, input.cost);
        let shown = if self.explains() { self.show_parts(&input, &division) } else { Vec::new() };
        let (label, info) = match shown.as_slice() {
            [] if self.explains() => ("Result", vec!["One-Time Filter: false".to_string()]),
            _ => ("Append", Vec::new()),
        };
        let scans = division.scans.iter().map(|scan| (scan.node, scan.table.clone())).collect();
        let op = Op::ByPartition(Box::new(ByPartition { input, scans, shown }));
        PlannedNode { node: self.node_with(op, width, Estimate { rows, cost }, label, info), layout }
    }

    fn show_parts(&self, input: &Arc<PlanNode>, division: &PartitionDivision) -> Vec<ShownPartition> {
        let mut parts = Vec::new();
        for position in 0..division.map.partitions.len() {
            let mut stands_for = Vec::new();
            if let Some(node) = self.show_part(input, division, position, &mut stands_for) {
                parts.push(ShownPartition { position, node, stands_for });
            }
        }
        parts
    }

    /// A node as it is for one partition; None: without rows.
    fn show_part(
        &self,
        node: &Arc<PlanNode>,
        division: &PartitionDivision,
        position: usize,
        stands_for: &mut Vec<(usize, usize)>,
    ) -> Option<Arc<PlanNode>> {
        if let Op::Partitions(p) = &node.op {
            let own: Vec<&ShownScan> = p.shown.iter().filter(|s| s.position == position).collect();
            return match own.as_slice() {
                [] => None,
                [one] => {
                    let name = self.part_name(division, node.id, position);
                    let label = format!(
                        "{} {name}",
                        one.node.label.rsplit_once(' ').map_or(one.node.label.as_str(), |(label, _)| label)
                    );
                    Some(self.shown_as(
                        &one.node,
                        label,
                        one.node.info.clone(),
                        one.node.children().into_iter().cloned().collect(),
                        stands_for,
                    ))
                }
                several => Some(self.shown_as(
                    node,
                    "Append".into(),
                    Vec::new(),
                    several.iter().map(|s| s.node.clone()).collect(),
                    stands_for,
                )),
            };
        }
        let parts: Vec<Option<Arc<PlanNode>>> =
            node.children().into_iter().map(|child| self.show_part(child, division, position, stands_for)).collect();
        let outer = matches!(&node.op, Op::HashJoin { kind: JoinKind::Left | JoinKind::Full | JoinKind::Anti, .. });
        let full = matches!(&node.op, Op::HashJoin { kind: JoinKind::Full, .. });
        let is_empty = match parts.as_slice() {
            [Some(_), None] => !outer,
            [None, Some(_)] => !full,
            parts => parts.iter().any(Option::is_none),
        };
        if is_empty {
            return None;
        }
        let nothing = || {
            self.node_with(
                Op::Shown { index: 0, below: Vec::new() },
                0,
                Estimate { rows: 1.0, cost: 0.0 },
                "Result",
                vec!["One-Time Filter: false".into()],
            )
        };
        let children = parts.into_iter().map(|part| part.unwrap_or_else(nothing)).collect();
        let info = node.info.iter().map(|line| self.of_part(line, division, position)).collect();
        Some(self.shown_as(node, node.label.clone(), info, children, stands_for))
    }

    fn shown_as(
        &self,
        node: &PlanNode,
        label: String,
        info: Vec<String>,
        children: Vec<Arc<PlanNode>>,
        stands_for: &mut Vec<(usize, usize)>,
    ) -> Arc<PlanNode> {
        let shown = self.node_with(
            Op::Shown { index: 0, below: children },
            node.width,
            Estimate { rows: node.rows, cost: node.cost },
            label,
            info,
        );
        stands_for.push((node.id, shown.id));
        shown
    }

    /// The alias of a scan's partition.
    fn part_name(&self, division: &PartitionDivision, scan: usize, position: usize) -> String {
        let Some(scan) = division.scans.iter().find(|s| s.node == scan) else { return String::new() };
        let before = scan.shown.iter().filter(|shown| **shown < position).count();
        match before + division.first_number {
            0 => scan.alias.clone(),
            number => format!("{}_{number}", scan.alias),
        }
    }

    /// Names in a line of EXPLAIN as they are where one partition is read.
    fn of_part(&self, line: &str, division: &PartitionDivision, position: usize) -> String {
        let mut made = String::new();
        let mut rest = line;
        'line: while !rest.is_empty() {
            let starts_name = !made.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '.');
            for scan in division.scans.iter().filter(|_| starts_name) {
                if let Some(after) = rest.strip_prefix(&scan.alias).filter(|after| after.starts_with('.')) {
                    made.push_str(&self.part_name(division, scan.node, position));
                    rest = after;
                    continue 'line;
                }
            }
            let Some(c) = rest.chars().next() else { break };
            made.push(c);
            rest = &rest[c.len_utf8()..];
        }
        made
    }
}

/// Is there more below than a scan?
fn has_work(node: &PlanNode) -> bool {
    match &node.op {
        Op::HashJoin { .. } | Op::Aggregate { .. } => true,
        Op::Filter { input, .. } | Op::OneTimeFilter { input, .. } => has_work(input),
        _ => false,
    }
}
