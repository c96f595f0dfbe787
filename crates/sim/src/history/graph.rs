//! A directed graph with labelled edges: its strongly connected components, and a shortest circle in each.

use std::collections::VecDeque;

pub struct Edge<L> {
    pub from: u32,
    pub to: u32,
    pub label: L,
}

pub struct Graph<L> {
    /// Sorted by where they begin.
    edges: Vec<Edge<L>>,
    /// Where each node's edges begin in `edges`; one more than there are nodes.
    first: Vec<usize>,
}

/// Nodes tried as the beginning of a shortest circle, in one component.
const STARTS_MAX: usize = 300;

impl<L> Graph<L> {
    pub fn new(nodes: usize, mut edges: Vec<Edge<L>>) -> Graph<L> {
        edges.sort_by_key(|e| e.from);
        let mut first = vec![0; nodes + 1];
        for edge in &edges {
            first[edge.from as usize + 1] += 1;
        }
        for node in 0..nodes {
            first[node + 1] += first[node];
        }
        Graph { edges, first }
    }

    fn out(&self, node: u32) -> std::ops::Range<usize> {
        self.first[node as usize]..self.first[node as usize + 1]
    }

    /// A circle for each strongly connected component of the edges that `cost` gives a price, as cheap as could be
    /// found.
    pub fn circles(&self, cost: impl Fn(&L) -> Option<u32>) -> Vec<Vec<&Edge<L>>> {
        let component = self.components(&cost);
        let mut starts: std::collections::BTreeMap<u32, Vec<u32>> = Default::default();
        for edge in &self.edges {
            // Every circle has an edge that costs something: the others only lead on.
            if cost(&edge.label).is_some_and(|c| c > 0) && component[edge.from as usize] == component[edge.to as usize]
            {
                starts.entry(component[edge.from as usize]).or_default().push(edge.from);
            }
        }
        let mut circles = Vec::new();
        for mut nodes in starts.into_values() {
            nodes.dedup();
            let stride = nodes.len().div_ceil(STARTS_MAX);
            let found = nodes.iter().step_by(stride).filter_map(|start| self.cheapest(*start, &component, &cost));
            circles.extend(found.min_by_key(|(price, circle)| (*price, circle.len())).map(|(_, circle)| circle));
        }
        circles
    }

    /// Tarjan's algorithm, without recursion. A node that is in no circle is a component of its own.
    fn components(&self, cost: &impl Fn(&L) -> Option<u32>) -> Vec<u32> {
        const NEW: u32 = u32::MAX;
        let nodes = self.first.len() - 1;
        let (mut index, mut low, mut component) = (vec![NEW; nodes], vec![0_u32; nodes], vec![NEW; nodes]);
        let (mut visited, mut components) = (0, 0);
        let mut stack = Vec::new();
        let mut path: Vec<(u32, usize)> = Vec::new();
        for root in 0..nodes as u32 {
            if index[root as usize] != NEW {
                continue;
            }
            path.push((root, self.out(root).start));
            while let Some((node, next)) = path.last_mut() {
                let at = *node as usize;
                if index[at] == NEW {
                    (index[at], low[at]) = (visited, visited);
                    visited += 1;
                    stack.push(*node);
                }
                if *next < self.out(*node).end {
                    let edge = &self.edges[*next];
                    *next += 1;
                    if cost(&edge.label).is_none() {
                        continue;
                    }
                    let to = edge.to as usize;
                    if index[to] == NEW {
                        path.push((edge.to, self.out(edge.to).start));
                    } else if component[to] == NEW {
                        low[at] = low[at].min(index[to]);
                    }
                    continue;
                }
                if low[at] == index[at] {
                    while let Some(member) = stack.pop() {
                        component[member as usize] = components;
                        if member as usize == at {
                            break;
                        }
                    }
                    components += 1;
                }
                path.pop();
                if let Some((parent, _)) = path.last() {
                    low[*parent as usize] = low[*parent as usize].min(low[at]);
                }
            }
        }
        component
    }

    /// The cheapest way from a node back to itself within its component.
    fn cheapest(
        &self,
        start: u32,
        component: &[u32],
        cost: &impl Fn(&L) -> Option<u32>,
    ) -> Option<(u32, Vec<&Edge<L>>)> {
        let mut price: std::collections::HashMap<u32, (u32, usize)> = Default::default();
        let mut queue = VecDeque::from([(start, 0)]);
        let mut begun = false;
        while let Some((node, so_far)) = queue.pop_front() {
            if node == start && begun {
                let mut circle = Vec::new();
                let mut at = start;
                loop {
                    let edge = &self.edges[price[&at].1];
                    circle.push(edge);
                    at = edge.from;
                    if at == start {
                        circle.reverse();
                        return Some((so_far, circle));
                    }
                }
            }
            begun = true;
            if price.get(&node).is_some_and(|(known, _)| *known < so_far) {
                continue;
            }
            for number in self.out(node) {
                let edge = &self.edges[number];
                let Some(step) = cost(&edge.label) else { continue };
                if component[edge.to as usize] != component[start as usize] {
                    continue;
                }
                let total = so_far + step;
                if price.get(&edge.to).is_none_or(|(known, _)| total < *known) {
                    price.insert(edge.to, (total, number));
                    if step == 0 {
                        queue.push_front((edge.to, total));
                    } else {
                        queue.push_back((edge.to, total));
                    }
                }
            }
        }
        None
    }
}
