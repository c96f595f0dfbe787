//! The order of commits and snapshots (see the parent's statements 1 to 7) as a graph: circles in it are anomalies.
//!
//! An event is a point in time. A transaction has its snapshots (one, or one for each statement), at READ COMMITTED the
//! moment at which it takes each row that it locks or writes, and its end. An edge says that one event came before
//! another. A serializable transaction has a place in the serial order besides: after its snapshot, before its end.
//! With those edges a way from a's place through a's end to b's snapshot and b's place says that a's commit came before
//! b's snapshot, and rw-dependencies lead directly from place to place: they do not say that anything came before
//! anything. So a circle without places is one of events, with them one of the serial order.

use super::explain::{Anomaly, CycleEdge, circle};
use super::graph::{Edge, Graph};
use super::model::*;
use super::versions::Versions;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeLabel {
    /// One value of a key follows another.
    Ww(Key, u32),
    /// A value was seen; it is the last of so many.
    Wr(Key, u32),
    /// A value was not seen: the next after so many.
    Rw(Key, u32),
    /// A value was not seen, between places in the serial order: the next after so many.
    SerialRw(Key, u32),
    /// Nobody writes a locked row.
    Lock(Key, u32),
    /// The order inside of a transaction.
    Program,
    /// Between an event and its place in the serial order.
    Place,
    /// The edge leads from a tick to what began with it.
    Began,
    /// The edge leads from what had ended to the tick, or from tick to tick.
    Passed,
}

const UNUSED: u32 = u32::MAX;

struct EventNodes {
    /// For each transaction, the event of each of its steps.
    steps: Vec<Vec<u32>>,
    ends: Vec<u32>,
    places: Vec<u32>,
    /// For each node, the transaction whose it is.
    owners: Vec<usize>,
}

struct GraphBuilder<'a> {
    history: &'a History,
    versions: &'a Versions,
    nodes: EventNodes,
    edges: Vec<Edge<EdgeLabel>>,
    /// The interval that each event lies in.
    intervals: Vec<(u32, Interval)>,
}

/// The relations that are looked at, from the strongest finding to the weakest: one that needs few kinds of edges says
/// most.
const STAGES: &[fn(&EdgeLabel) -> Option<u32>] = &[
    |label| match label {
        EdgeLabel::Ww(..) => Some(1),
        EdgeLabel::Program => Some(0),
        _ => None,
    },
    |label| match label {
        EdgeLabel::Ww(..) | EdgeLabel::Wr(..) => Some(1),
        EdgeLabel::Program => Some(0),
        _ => None,
    },
    |label| match label {
        EdgeLabel::Ww(..) | EdgeLabel::Wr(..) | EdgeLabel::Rw(..) => Some(1),
        EdgeLabel::Program => Some(0),
        _ => None,
    },
    |label| match label {
        EdgeLabel::Ww(..) | EdgeLabel::Wr(..) | EdgeLabel::Rw(..) | EdgeLabel::Lock(..) => Some(1),
        EdgeLabel::Program => Some(0),
        _ => None,
    },
    |label| match label {
        EdgeLabel::Ww(..) | EdgeLabel::Wr(..) | EdgeLabel::Rw(..) | EdgeLabel::SerialRw(..) => Some(1),
        EdgeLabel::Program | EdgeLabel::Place => Some(0),
        _ => None,
    },
    |label| match label {
        EdgeLabel::Place | EdgeLabel::SerialRw(..) => None,
        EdgeLabel::Program | EdgeLabel::Passed => Some(0),
        _ => Some(1),
    },
    |label| match label {
        EdgeLabel::Program | EdgeLabel::Passed | EdgeLabel::Place => Some(0),
        _ => Some(1),
    },
];

pub fn check(history: &History, versions: &Versions, anomalies: &mut Vec<Anomaly>) {
    let (graph, nodes) = GraphBuilder::new(history, versions).draw();
    let everything = STAGES[STAGES.len() - 1];
    if graph.circles(everything).is_empty() {
        return;
    }
    for stage in STAGES {
        let circles = graph.circles(stage);
        for found in &circles {
            let links: Vec<CycleEdge> = found
                .iter()
                .map(|edge| CycleEdge { from: nodes.owner(edge.from), to: nodes.owner(edge.to), label: edge.label })
                .collect();
            anomalies.push(circle(history, versions, &links));
        }
        // What follows would find these again, in longer words.
        if !circles.is_empty() {
            return;
        }
    }
}

impl EventNodes {
    /// The transaction whose event the node is; none for ticks.
    fn owner(&self, node: u32) -> Option<usize> {
        self.owners.get(node as usize).copied()
    }
}

impl<'a> GraphBuilder<'a> {
    fn new(history: &'a History, versions: &'a Versions) -> Self {
        let nodes = EventNodes { steps: Vec::new(), ends: Vec::new(), places: Vec::new(), owners: Vec::new() };
        GraphBuilder { history, versions, nodes, edges: Vec::new(), intervals: Vec::new() }
    }

    fn draw(mut self) -> (Graph<EdgeLabel>, EventNodes) {
        let history = self.history;
        for (number, transaction) in history.transactions.iter().enumerate() {
            self.events(number, transaction);
        }
        self.writes();
        self.reads();
        let ticks = self.clock();
        (Graph::new(self.nodes.owners.len() + ticks, self.edges), self.nodes)
    }

    fn edge(&mut self, from: u32, to: u32, label: EdgeLabel) {
        self.edges.push(Edge { from, to, label });
    }

    fn event(&mut self, owner: usize, during: Interval) -> u32 {
        let node = self.place(owner);
        self.intervals.push((node, during));
        node
    }

    fn place(&mut self, owner: usize) -> u32 {
        self.nodes.owners.push(owner);
        self.nodes.owners.len() as u32 - 1
    }

    fn events(&mut self, number: usize, transaction: &Transaction) {
        let mut before: Vec<u32> = Vec::new();
        let mut of_steps = Vec::with_capacity(transaction.steps.len());
        let mut snapshot = UNUSED;
        for step in &transaction.steps {
            let rows = match &step.action {
                StepAction::Select(_) => 0,
                // Each row's moment: the nodes after that of the statement's snapshot, in the order of the rows.
                StepAction::Modify { rows, .. } => rows.len(),
                StepAction::Savepoint | StepAction::RollbackToSavepoint | StepAction::Release => {
                    of_steps.push(UNUSED);
                    continue;
                }
            };
            if transaction.level.keeps_snapshot() {
                if snapshot == UNUSED {
                    snapshot = self.event(number, step.during);
                    before.push(snapshot);
                }
                of_steps.push(snapshot);
                continue;
            }
            let event = self.event(number, step.during);
            of_steps.push(event);
            for earlier in std::mem::take(&mut before) {
                self.edge(earlier, event, EdgeLabel::Program);
            }
            for _ in 0..rows {
                let row = self.event(number, step.during);
                self.edge(event, row, EdgeLabel::Program);
                before.push(row);
            }
            if rows == 0 {
                before.push(event);
            }
        }
        let end = self.event(number, transaction.end);
        for earlier in before {
            self.edge(earlier, end, EdgeLabel::Program);
        }
        let mut place = UNUSED;
        if transaction.level == IsolationLevel::Serializable && self.versions.committed[number] && snapshot != UNUSED {
            place = self.place(number);
            self.edge(snapshot, place, EdgeLabel::Place);
            self.edge(place, end, EdgeLabel::Place);
        }
        self.nodes.steps.push(of_steps);
        self.nodes.ends.push(end);
        self.nodes.places.push(place);
    }

    /// The event at which a step saw, locked or wrote a key.
    fn event_of(&self, transaction: usize, step: usize, key: Key) -> u32 {
        let event = self.nodes.steps[transaction][step];
        let t = &self.history.transactions[transaction];
        match &t.steps[step].action {
            StepAction::Modify { rows, .. } if !t.level.keeps_snapshot() => {
                let row = rows.iter().position(|(k, _)| *k == key).map_or(0, |at| at as u32 + 1);
                event + row
            }
            _ => event,
        }
    }

    fn writes(&mut self) {
        let versions = self.versions;
        for (key, list) in &versions.lists {
            for (at, pair) in list.windows(2).enumerate() {
                let [(_, Some(earlier)), (_, Some(later))] = pair else { continue };
                if earlier.transaction != later.transaction {
                    let to = self.event_of(later.transaction, later.step, *key);
                    self.edge(self.nodes.ends[earlier.transaction], to, EdgeLabel::Ww(*key, at as u32 + 1));
                }
            }
        }
    }

    fn reads(&mut self) {
        let versions = self.versions;
        let undone: Vec<Vec<bool>> = self.history.transactions.iter().map(Transaction::undone).collect();
        for read in &versions.reads {
            let event = self.event_of(read.transaction, read.step, read.key);
            let writer = |at: usize| {
                versions.lists.get(&read.key).and_then(|l| l.get(at)).and_then(|(_, w)| *w).map(|w| w.transaction)
            };
            let length = read.length as u32;
            let last_seen = if read.length > 0 { writer(read.length - 1) } else { None };
            if let Some(seen) = last_seen.filter(|w| *w != read.transaction) {
                self.edge(self.nodes.ends[seen], event, EdgeLabel::Wr(read.key, length));
            }
            let Some(next) = writer(read.length).filter(|w| *w != read.transaction) else { continue };
            self.edge(event, self.nodes.ends[next], EdgeLabel::Rw(read.key, length));
            let undone = undone[read.transaction][read.step];
            let (locks, watched) = match &self.history.transactions[read.transaction].steps[read.step].action {
                StepAction::Modify { rows, way, .. } => (
                    rows.iter().any(|(k, touch)| *k == read.key && *touch != RowTouch::Missed),
                    !undone || *way != WriteWay::OnConflict,
                ),
                _ => (false, true),
            };
            let (mine, theirs) = (self.nodes.places[read.transaction], self.nodes.places[next]);
            if mine != UNUSED && theirs != UNUSED && watched && !read.own {
                self.edge(mine, theirs, EdgeLabel::SerialRw(read.key, length));
            }
            if locks && !undone {
                self.edge(self.nodes.ends[read.transaction], self.nodes.ends[next], EdgeLabel::Lock(read.key, length));
            }
        }
    }

    /// A node for each tick, in a row; every event lies between two of them. Answers how many there are.
    fn clock(&mut self) -> usize {
        let mut ticks: Vec<Tick> = self.intervals.iter().flat_map(|(_, during)| [during.from, during.to]).collect();
        ticks.sort_unstable();
        ticks.dedup();
        let base = self.nodes.owners.len() as u32;
        let node = |tick: Tick| base + ticks.binary_search(&tick).map_or(0, |at| at as u32);
        for (event, during) in std::mem::take(&mut self.intervals) {
            self.edge(node(during.from), event, EdgeLabel::Began);
            self.edge(event, node(during.to), EdgeLabel::Passed);
        }
        for at in 1..ticks.len() as u32 {
            self.edge(base + at - 1, base + at, EdgeLabel::Passed);
        }
        ticks.len()
    }
}
