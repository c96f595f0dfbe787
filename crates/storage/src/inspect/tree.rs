//! Shows a tree, level by level from the root, each from left to right.
//!
//! Must not know: what keys mean.

use super::page::{entry, kind_name, node_summary};
use super::{Inspector, LineSink, about};
use crate::btree::node;
use crate::page::{KIND_TREE, PageView, at};
use kilndb_base::hash::{HashSet, HashSetExt};
use kilndb_base::{Error, RelationId, Result, sqlstate};

impl Inspector {
    /// Levels, nodes with their fill and fences; with `keys`, the entries too.
    pub fn tree(&self, relation: RelationId, keys: bool, lines: &mut LineSink<'_>) -> Result<()> {
        let r = self.relation(relation)?;
        if crate::api::RelationKind::of_number(r.kind).is_none_or(|kind| kind.page_kind() != KIND_TREE) {
            let message = format!("storage relation {} is no tree, but a {}", r.id, about(r));
            return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, message));
        }
        lines(format!("storage relation {} ({}), {} blocks", r.id, about(r), r.blocks));
        let mut seen = HashSet::new();
        let mut first = Some(0);
        while let Some(start) = first.take() {
            let (mut block, mut nodes, mut entries) = (Some(start), 0u64, 0u64);
            let mut level = None;
            while let Some(at_block) = block.take() {
                if !seen.insert(at_block) {
                    lines(format!("  block {at_block} has been shown: links go in a circle"));
                    break;
                }
                let page = match Inspector::pid_of(r, at_block).and_then(|pid| self.load(pid)) {
                    Ok(page) => page,
                    Err(e) => {
                        lines(format!("  block {at_block}: {}", e.message()));
                        break;
                    }
                };
                let v = PageView::of(&page);
                if !v.is(KIND_TREE, r.id, at_block) {
                    lines(format!("  block {at_block} is no node of this tree: kind {}", kind_name(page[at::KIND])));
                    break;
                }
                if level.is_none() {
                    level = Some(node::level(&v));
                    lines(format!("level {}", node::level(&v)));
                    first = node::entry(&v, 0).filter(|_| node::level(&v) > 0).map(|e| e.child);
                }
                lines(format!("  block {at_block}: {}", node_summary(&page)));
                for e in (0..node::count(&v)).filter(|_| keys).filter_map(|idx| node::entry(&v, idx)) {
                    lines(format!("    {}", entry(&e, node::level(&v))));
                }
                nodes += 1;
                entries += node::count(&v) as u64;
                block = Some(node::right(&v)).filter(|right| *right != 0);
            }
            lines(format!("  {nodes} nodes, {entries} entries"));
        }
        Ok(())
    }
}
