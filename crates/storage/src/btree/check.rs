//! Checks of trees: their order, their links, and where their entries lead.
//!
//! Must not know: what keys are made of.

use super::dead_prefix::FullKey;
use super::node::{self, KeyAndRow};
use crate::api::Persistence;
use crate::core::Core;
use crate::directory::{HEAP_NAME_BYTES, Relation};
use crate::page::{self, PageBytes, PageView};
use crate::report::{CheckReport, MOST_COMPLAINTS, RowSet, has_row, unreached};
use kilndb_base::hash::{HashMap, HashMapExt, HashSet, HashSetExt};
use kilndb_base::sync::atomic::Ordering::Relaxed;
use kilndb_base::{Result, RowId};
use std::cmp::Ordering;
use std::sync::Arc;

fn owned(e: Option<node::NodeEntry<'_>>) -> Option<FullKey> {
    e.map(|e| (e.key.to_vec(), e.rid))
}

pub(crate) fn check(core: &Core, index: &Relation, report: &mut CheckReport) -> Result<()> {
    let entries = EntriesCheck::new(core, index, report);
    let mut tree = TreeCheck { core, index, entries, report, seen: HashSet::new(), children: Vec::new() };
    let mut start = 0;
    let mut above = None;
    loop {
        let named = std::mem::take(&mut tree.children);
        let Some(level) = tree.check_level(start, above, &named)? else { break };
        match tree.children.first() {
            Some((_, leftmost)) if level > 0 => start = *leftmost,
            _ => {
                tree.check_unreached()?;
                break;
            }
        }
        above = Some(level);
    }
    let TreeCheck { entries, report, .. } = tree;
    entries.finish(report)
}

struct TreeCheck<'a> {
    core: &'a Core,
    index: &'a Relation,
    entries: EntriesCheck<'a>,
    report: &'a mut CheckReport,
    /// The blocks of all nodes so far.
    seen: HashSet<u32>,
    /// What the nodes of the level at hand name as the one below it: where each node begins, its block.
    children: Vec<(FullKey, u32)>,
}

impl TreeCheck<'_> {
    fn say(&mut self, block: u32, what: &str) {
        self.report.problems.push(format!("index {} block {block}: {what}", self.index.id));
    }
    /// Checks a level from left to right. The result is its number, if the level ends properly. `above` is the level
    /// above it, whose nodes name these children. They need not name all nodes: a crash may have cut off a split.
    fn check_level(&mut self, start: u32, above: Option<u8>, named: &[(FullKey, u32)]) -> Result<Option<u8>> {
        let mut block = start;
        let mut low: Option<FullKey> = None;
        let mut named = named.iter().peekable();
        loop {
            if !self.seen.insert(block) {
                self.say(block, "is linked twice");
                return Ok(None);
            }
            let page = self.core.pool.write(self.index.pid(block)?)?;
            let p = *page.page();
            drop(page);
            let v = PageView::of(&p);
            if !v.is(page::KIND_TREE, self.index.id, block) {
                self.say(block, "page header names another page");
                return Ok(None);
            }
            if above.is_some_and(|above| node::level(&v) + 1 != above) {
                self.say(block, "is on the wrong level");
            }
            if owned(node::low(&v)) != low {
                self.say(block, "low fence differs from the left sibling's high fence");
            }
            if let Some((key, _)) = named.next_if(|(_, child)| *child == block)
                && low.as_ref().unwrap_or(&FullKey::default()) != key
            {
                self.say(block, "begins elsewhere than the level above says");
            }
            self.check_node(block, &p)?;
            low = owned(node::high(&v));
            let right = node::right(&v);
            if low.is_some() != (right != 0) {
                self.say(block, "right sibling and high fence disagree");
                return Ok(None);
            }
            if right == 0 {
                if let Some((_, child)) = named.next() {
                    self.say(*child, "is named by the level above, and is not in its place on its own");
                }
                return Ok(Some(node::level(&v)));
            }
            block = right;
        }
    }
    /// Checks that no node leads to blocks that are free or were never used, and that there are no others.
    fn check_unreached(&mut self) -> Result<()> {
        for block in 0..self.index.pages() {
            if self.seen.contains(&block) {
                continue;
            }
            let page = self.core.pool.write(self.index.pid(block)?)?;
            let (kind, count) = (page.page()[page::at::KIND], node::count(&page.view()));
            drop(page);
            if kind != page::KIND_FREE && count > 0 {
                self.say(block, "has entries, and no node leads to it");
            }
        }
        Ok(())
    }
    fn check_node(&mut self, block: u32, p: &PageBytes) -> Result<()> {
        let v = PageView::of(p);
        let mut previous: Option<(Vec<u8>, u64)> = None;
        for i in 0..node::count(&v) {
            let Some(e) = node::entry(&v, i) else {
                self.say(block, "an entry is damaged");
                break;
            };
            if node::side(&v, KeyAndRow(e.key, e.rid)) != node::FenceSide::Inside && !(node::level(&v) > 0 && i == 0) {
                self.say(block, "an entry is outside of the fences");
            }
            if previous.as_ref().is_some_and(|p| node::compare(&e, KeyAndRow(&p.0, p.1)) != Ordering::Greater) {
                self.say(block, "entries are out of order");
            }
            previous = Some((e.key.to_vec(), e.rid));
            if node::level(&v) > 0 {
                self.children.push(((e.key.to_vec(), e.rid), e.child));
                if e.child == 0 || e.child >= self.index.pages() {
                    self.say(block, "a child does not exist");
                }
                continue;
            }
            for what in self.entries.follow(&e)? {
                self.say(block, &what);
            }
        }
        Ok(())
    }
}

/// Checks where the entries on the leaves lead.
struct EntriesCheck<'a> {
    core: &'a Core,
    index: &'a Relation,
    /// The heap of the last entry.
    heap: Option<Arc<Relation>>,
    /// The rows that entries lead to, by heap.
    reached: HashMap<u32, RowSet>,
}

impl<'a> EntriesCheck<'a> {
    fn new(core: &'a Core, index: &'a Relation, report: &mut CheckReport) -> EntriesCheck<'a> {
        let mut check = EntriesCheck { core, index, heap: None, reached: HashMap::new() };
        let id = index.heap.load(Relaxed);
        if index.entries_name_heap() {
            return check;
        }
        let heap = check.heap_of(id);
        match &heap {
            None if id == 0 => {
                report.unchecked.push(format!("where the entries of index {} lead: its heap is not noted", index.id));
            }
            None => {
                report.unchecked.push(format!("where the entries of index {} lead: there is no heap {id}", index.id));
            }
            // The entries of other methods do not lead to rows directly: the method checks them.
            Some(_) if !index.kind.method().is_some_and(|method| method.leads_to_all_rows) => return check,
            Some(_) => _ = check.reached.insert(id, RowSet::default()),
        }
        check.heap = heap;
        check
    }
    fn heap_of(&self, id: u32) -> Option<Arc<Relation>> {
        self.core.directory.get(id).filter(|heap| heap.persistence != Persistence::Temporary)
    }
    /// Checks one entry of a leaf; the inconsistencies found.
    fn follow(&mut self, e: &node::NodeEntry<'_>) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        if self.index.entries_name_heap() {
            let id = self.index.heap_of_entry(e.key);
            if self.heap.as_ref().is_none_or(|heap| heap.id != id) {
                // A heap that was dropped may have left entries.
                self.heap = self.heap_of(id);
            }
            if e.key.len() < HEAP_NAME_BYTES || id >= self.core.directory.next_id.load(Relaxed) {
                wrong.push("an entry names a heap that never was".into());
            }
        }
        let Some(heap) = &self.heap else { return Ok(wrong) };
        let rid = RowId::from_u64(e.rid);
        let of = match self.index.entries_name_heap() {
            true => format!(" of heap {}", heap.id),
            false => String::new(),
        };
        if !has_row(self.core, heap, rid)? {
            wrong.push(format!("an entry leads to no row ({},{}){of}", rid.block, rid.slot));
        }
        if e.stamp & node::RETIRED != 0 {
            wrong.push("a retired entry was not purged".into());
        } else if !self.reached.entry(heap.id).or_default().add(rid) {
            wrong.push(format!("row ({},{}){of} has two entries", rid.block, rid.slot));
        }
        Ok(wrong)
    }
    /// Checks from heap to index that no row is missing from an index that has all. For an index of several heaps these
    /// are the heaps that it has entries of.
    fn finish(self, report: &mut CheckReport) -> Result<()> {
        let mut reached: Vec<_> = self.reached.iter().collect();
        reached.sort_unstable_by_key(|(id, _)| **id);
        for (id, rows) in reached {
            let Some(heap) = self.heap_of(*id) else { continue };
            let found = unreached(self.core, &heap, rows)?;
            let index = self.index.id;
            if found.unreached == 0 {
                continue;
            }
            if !self.index.has_all_rows() {
                report.unchecked.push(format!(
                    "whether {} of {} rows of heap {id} should have an entry in index {index}",
                    found.unreached, found.rows
                ));
                continue;
            }
            for rid in &found.first {
                let RowId { block, slot } = rid;
                report.problems.push(format!("index {index}: row ({block},{slot}) of heap {id} has no entry"));
            }
            if found.unreached > MOST_COMPLAINTS {
                let more = found.unreached - MOST_COMPLAINTS;
                report.problems.push(format!("index {index}: {more} more rows of heap {id} have no entry"));
            }
        }
        Ok(())
    }
}
