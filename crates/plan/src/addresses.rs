//! Where a plan is in memory, so that it is on its way to the processor's caches before it is read: when thousands of sessions or
//! hundreds of plans take turns, none is there (docs/decisions/0005 and 0069).
//!
//! Must not know: what nodes do.

use super::expression::Expression;
use super::node::{Op, PlanNode};
use super::program::Program;
use kilndb_base::prefetch::LINE_BYTES;
use kilndb_storage::ahead;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How many bytes of each node are prefetched.
const NODE_BYTES: usize = 192;
/// What an `Arc` counts with stands so far before what it points to.
const COUNTS_BYTES: usize = 16;

/// The addresses of a plan's parts.
pub struct PlanAddresses {
    /// Of the nodes, and of what a Modify has beside its node.
    nodes: Box<[usize]>,
    /// The lines of what statements of few rows evaluate: expressions and their programs.
    programs: Box<[usize]>,
}

impl PlanAddresses {
    pub fn of<'n>(tops: impl IntoIterator<Item = &'n Arc<PlanNode>>) -> PlanAddresses {
        let mut addresses = Vec::new();
        let mut programs = ProgramLines::default();
        let mut nodes: Vec<&Arc<PlanNode>> = tops.into_iter().collect();
        while let Some(node) = nodes.pop() {
            addresses.push(Arc::as_ptr(node) as usize);
            match &node.op {
                Op::Modify(m) => {
                    addresses.extend([Arc::as_ptr(&m.statement) as usize, Arc::as_ptr(&m.target) as usize]);
                    m.statement.assignments.iter().for_each(|(_, e)| programs.add_value(e));
                    m.statement.returning.iter().for_each(|list| list.iter().for_each(|e| programs.add_value(e)));
                }
                Op::IndexScan { scan, access } => {
                    access.equal.iter().for_each(|e| programs.add_value(e));
                    scan.filter.iter().for_each(|filter| programs.add_program(filter.condition()));
                }
                _ => {}
            }
            nodes.extend(node.children());
        }
        PlanAddresses { nodes: addresses.into(), programs: programs.0.into_iter().collect() }
    }

    /// Prefetches all nodes at once. They are about to be read, each by way of the one before.
    pub fn fetch_nodes(&self) {
        for node in &self.nodes {
            // An execution keeps its nodes, which it counts.
            ahead::fetch_to_write(node - COUNTS_BYTES);
            ahead::fetch_range(*node, NODE_BYTES);
        }
    }
    /// Prefetches what the first rows' expressions take, if there is time until they are evaluated: right before that it would only
    /// stand in the way of the nodes.
    pub fn fetch_programs(&self) {
        self.programs.iter().for_each(|line| ahead::fetch(*line));
    }
}

/// Lines of the processor's cache, by their addresses.
#[derive(Default)]
struct ProgramLines(BTreeSet<usize>);

impl ProgramLines {
    fn add(&mut self, from: usize, bytes: usize) {
        self.0.extend((from / LINE_BYTES..=(from + bytes - 1) / LINE_BYTES).map(|line| line * LINE_BYTES));
    }
    fn add_value(&mut self, e: &Expression) {
        self.add(std::ptr::from_ref(e) as usize, size_of::<Expression>());
        if e.has_program() {
            self.add_program(e.program());
        }
    }
    fn add_program(&mut self, program: &Arc<Program>) {
        self.add(Arc::as_ptr(program) as usize, size_of::<Program>());
    }
}
