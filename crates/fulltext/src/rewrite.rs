//! ts_rewrite: a part of a query is replaced by another query, wherever it is and in whatever order its terms are.

use crate::query::{QueryItem, QueryOperand, QueryOperator, TsQuery, legacy_crc};
use kilndb_base::{Error, Result, work};
use std::cmp::Ordering;

/// A query as a tree; AND and OR of more than two are one node.
#[derive(Clone)]
struct QueryNode {
    item: QueryNodeItem,
    children: Vec<QueryNode>,
    /// A bit per word below, by its checksum, as of the time when the node was made.
    sign: u32,
    /// What has just been put in is not looked into.
    fixed: bool,
}
#[derive(Clone)]
enum QueryNodeItem {
    Operand(QueryOperand, i32),
    Operator(QueryOperator, u16),
}

fn tree(query: &TsQuery, at: usize) -> Option<QueryNode> {
    Some(match query.items.get(at)? {
        QueryItem::Operand(o) => {
            let crc = legacy_crc(o.word.as_bytes());
            QueryNode {
                item: QueryNodeItem::Operand(o.clone(), crc),
                children: Vec::new(),
                sign: 1 << (crc as u32 % 32),
                fixed: false,
            }
        }
        QueryItem::Operator { operator, distance, left } => {
            let mut children = vec![tree(query, at + 1)?];
            if *operator != QueryOperator::Not {
                children.push(tree(query, at + left)?);
            }
            let sign = children.iter().fold(0, |s, c| s | c.sign);
            QueryNode { item: QueryNodeItem::Operator(*operator, *distance), children, sign, fixed: false }
        }
    })
}

impl QueryNode {
    fn operator(&self) -> Option<QueryOperator> {
        match &self.item {
            QueryNodeItem::Operator(o, _) => Some(*o),
            QueryNodeItem::Operand(..) => None,
        }
    }
    fn compare(&self, other: &QueryNode) -> Ordering {
        match (&self.item, &other.item) {
            (QueryNodeItem::Operator(..), QueryNodeItem::Operand(..)) => Ordering::Less,
            (QueryNodeItem::Operand(..), QueryNodeItem::Operator(..)) => Ordering::Greater,
            (QueryNodeItem::Operand(a, x), QueryNodeItem::Operand(b, y)) => {
                y.cmp(x).then_with(|| a.word.as_bytes().cmp(b.word.as_bytes()))
            }
            (QueryNodeItem::Operator(a, x), QueryNodeItem::Operator(b, y)) => {
                let by_children = || {
                    let orders = self.children.iter().zip(&other.children).map(|(c, d)| c.compare(d));
                    orders.into_iter().find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
                };
                b.cmp(a)
                    .then_with(|| other.children.len().cmp(&self.children.len()))
                    .then_with(by_children)
                    .then_with(|| y.cmp(x))
            }
        }
    }
    fn equals(&self, other: &QueryNode) -> bool {
        self.sign == other.sign && self.compare(other).is_eq()
    }
    /// Makes one node of `a & b & c`, all in order. A chain is gathered at once: level by level would be quadratic.
    fn normalize(&mut self) -> Result<()> {
        let operator = self.operator();
        let is_chain = matches!(operator, Some(QueryOperator::And | QueryOperator::Or));
        let mut rest = std::mem::take(&mut self.children);
        rest.reverse();
        while let Some(mut child) = rest.pop() {
            work::step(100)?;
            if is_chain && child.operator() == operator {
                rest.extend(child.children.into_iter().rev());
            } else {
                child.normalize()?;
                self.children.push(child);
            }
        }
        if is_chain { work::sort_by(&mut self.children, QueryNode::compare) } else { Ok(()) }
    }
    fn sort(&mut self) {
        if matches!(self.operator(), Some(QueryOperator::And | QueryOperator::Or)) {
            self.children.sort_by(QueryNode::compare);
        }
    }
    fn sort_all(&mut self) {
        self.children.iter_mut().for_each(QueryNode::sort_all);
        self.sort();
    }
    fn release(&mut self) {
        self.fixed = false;
        self.children.iter_mut().for_each(QueryNode::release);
    }
    fn write(&self, out: &mut Vec<QueryItem>) {
        match &self.item {
            QueryNodeItem::Operand(o, _) => out.push(QueryItem::Operand(o.clone())),
            QueryNodeItem::Operator(operator, distance) => {
                let pairs = self.children.len().max(2) - 1;
                for _ in 0..pairs {
                    out.push(QueryItem::Operator { operator: *operator, distance: *distance, left: 0 });
                }
                let first = self.children.iter().take(2);
                let rest = self.children.iter().skip(2).rev();
                first.chain(rest).for_each(|c| c.write(out));
            }
        }
    }
}

/// The node, or what it is replaced by, if it is what is looked for (or contains all its terms).
fn replace_here(mut node: QueryNode, what: &QueryNode, by: Option<&QueryNode>) -> Option<QueryNode> {
    let fixed = |n: &QueryNode| QueryNode { fixed: true, ..n.clone() };
    if node.sign & what.sign != what.sign || node.fixed || node.operator() != what.operator() {
        return Some(node);
    }
    if node.children.len() == what.children.len() {
        return if node.equals(what) { by.map(fixed) } else { Some(node) };
    }
    if node.children.len() < what.children.len() || what.children.is_empty() {
        return Some(node);
    }
    let mut matched = vec![false; node.children.len()];
    let (mut i, mut j) = (0, 0);
    while let (Some(mine), Some(theirs)) = (node.children.get(i), what.children.get(j)) {
        match mine.compare(theirs) {
            Ordering::Equal => {
                matched[i] = true;
                j += 1;
            }
            Ordering::Less => {}
            Ordering::Greater => break,
        }
        i += 1;
    }
    if j == what.children.len() {
        let mut at = matched.iter();
        node.children.retain(|_| !at.next().copied().unwrap_or(false));
        node.children.extend(by.map(fixed));
        node.sort_all();
    }
    Some(node)
}
fn replace(node: QueryNode, what: &QueryNode, by: Option<&QueryNode>) -> Option<QueryNode> {
    let mut node = replace_here(node, what, by)?;
    if node.fixed || node.operator().is_none() {
        return Some(node);
    }
    node.children = std::mem::take(&mut node.children).into_iter().filter_map(|c| replace(c, what, by)).collect();
    match node.children.len() {
        0 => None,
        1 if node.operator() != Some(QueryOperator::Not) => node.children.pop(),
        _ => Some(node),
    }
}

/// A query on which several replacements are made.
pub struct Rewriter {
    root: Option<QueryNode>,
}
impl Rewriter {
    pub fn new(query: &TsQuery) -> Result<Rewriter> {
        let mut root = tree(query, 0);
        root.iter_mut().try_for_each(QueryNode::normalize)?;
        Ok(Rewriter { root })
    }
    /// False: nothing is left.
    pub fn replace(&mut self, what: &TsQuery, by: &TsQuery) -> Result<bool> {
        let (Some(mut what), by) = (tree(what, 0), tree(by, 0)) else { return Ok(self.root.is_some()) };
        what.normalize()?;
        self.root = self.root.take().and_then(|root| replace(root, &what, by.as_ref()));
        Ok(self.root.is_some())
    }
    /// Between two replacements: what the last one has put in is looked into by the next.
    pub fn settle(&mut self) -> Result<()> {
        let Some(root) = &mut self.root else { return Ok(()) };
        root.release();
        root.normalize()
    }
    pub fn finish(self) -> Result<TsQuery> {
        let Some(root) = self.root else { return Ok(TsQuery::default()) };
        let mut items = Vec::new();
        root.write(&mut items);
        if items.len() > 1 << 26 {
            return Err(Error::new(kilndb_base::sqlstate::PROGRAM_LIMIT_EXCEEDED, "tsquery is too large"));
        }
        TsQuery::link(items)
    }
}
