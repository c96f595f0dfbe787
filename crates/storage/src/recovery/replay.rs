//! Replays single records of the log.
//!
//! Invariants: 1 and 2 of [`super`].
//!
//! Must not know: where the log ends, and what is done about what it leaves open.

use crate::api::RelationKind;
use crate::core::Core;
use crate::directory::persistence_of;
use crate::page::{self, PAGE, at};
use crate::undo::record::CHUNK;
use crate::wal::record::{PageOp, PageTarget, Record};
use kilndb_base::hash::HashMap;
use kilndb_base::planted::{self, PlantedBug};
use kilndb_base::sync::atomic::Ordering::*;
use kilndb_base::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What the records that were replayed so far leave open.
#[derive(Default, Debug, PartialEq)]
pub(super) struct RedoState {
    /// Unfinished transactions: the head of the undo chain, and whether only the purge is due.
    pub(super) txns: BTreeMap<u64, (u64, bool)>,
    pub(super) max_xid: u64,
    /// Blocks whose page was not theirs, or not as a record needs it: they must be gone at the end, or their relations.
    pub(super) suspects: BTreeMap<(u32, u32), String>,
    pub(super) suspect_chunks: BTreeSet<u64>,
    /// Relations by the transaction that has made them and has not ended.
    pub(super) made: HashMap<u64, Vec<u32>>,
    /// The relations that are dropped if the transaction commits.
    pub(super) doomed: HashMap<u64, Vec<u32>>,
    /// The transactions that were ending when the images were taken and have committed.
    pub(super) ended_well: BTreeSet<u64>,
    pub(super) ending: BTreeSet<u64>,
    /// The newest LSN of the pages that the log mentions.
    pub(super) newest_page_lsn: u64,
}

impl RedoState {
    /// Notes that a page belongs to another owner, or does not exist.
    fn suspect(&mut self, target: PageTarget, pid: Option<u32>) {
        let rel = target.rel;
        self.suspects.entry((rel, target.block)).or_insert_with(|| {
            let place = pid.map_or(String::new(), |pid| {
                format!(" (page {pid}: file \"pages\", offset {})", u64::from(pid) * PAGE as u64)
            });
            format!("a page of storage relation {rel} is not what the log says it should be{place}")
        });
    }
}

impl Core {
    pub(super) fn redo_record(self: &Arc<Core>, lsn: u64, record: Record<'_>, redo: &mut RedoState) -> Result<()> {
        match record {
            Record::Change { xid, undo, ops } => {
                redo.max_xid = redo.max_xid.max(xid);
                if let Some((address, record)) = &undo {
                    redo.txns.insert(xid, (*address, false));
                    if !self.undo.redo(&self.pool, *address, record, lsn)? {
                        redo.suspect_chunks.insert(*address / CHUNK);
                    }
                }
                self.redo_ops(lsn, &ops, redo)?;
            }
            Record::Compensate { xid, next, ops } => {
                redo.txns.insert(xid, (next, false));
                self.redo_ops(lsn, &ops, redo)?;
            }
            Record::Commit { xid, purge, drops, .. } => {
                redo.max_xid = redo.max_xid.max(xid);
                if redo.ending.contains(&xid) {
                    redo.ended_well.insert(xid);
                }
                match redo.txns.get_mut(&xid) {
                    Some(t) if purge => t.1 = true,
                    _ => {
                        redo.txns.remove(&xid);
                    }
                }
                for made in redo.made.remove(&xid).unwrap_or_default().iter().filter_map(|id| self.directory.get(*id)) {
                    made.creator.store(0, Relaxed);
                }
                for id in redo.doomed.remove(&xid).unwrap_or_default().into_iter().chain(drops) {
                    if planted::is(PlantedBug::DropNotRepeated) {
                        continue;
                    }
                    self.directory.remove(self, id);
                }
            }
            Record::Doom { xid, rels } => redo.doomed.entry(xid).or_default().extend(rels),
            Record::Abort { xid } => {
                redo.txns.remove(&xid);
                redo.doomed.remove(&xid);
                for id in redo.made.remove(&xid).unwrap_or_default() {
                    self.directory.remove(self, id);
                }
            }
            Record::PurgeDone { xid } => {
                redo.txns.remove(&xid);
            }
            Record::Create { xid, rel, kind, persistence } => {
                redo.max_xid = redo.max_xid.max(xid);
                if xid != 0 {
                    redo.txns.entry(xid).or_insert((0, false));
                }
                let (Some(kind), Some(persistence)) = (RelationKind::of_number(kind), persistence_of(persistence))
                else {
                    return Err(Error::corrupted("log: unknown relation kind"));
                };
                match self.directory.get(rel) {
                    // The checkpoint may know the future: that its creator has committed.
                    Some(_) => {}
                    None => {
                        self.directory.add(self, rel, kind, persistence, xid);
                        redo.made.entry(xid).or_default().push(rel);
                    }
                }
            }
            Record::Extent { rel, index, start } => {
                if let Some(r) = self.directory.get(rel) {
                    r.set_extent(index as usize, start);
                }
            }
            Record::Truncate { rel, blocks } => {
                if let Some(r) = self.directory.get(rel) {
                    r.forget_blocks(blocks);
                }
                redo.suspects.retain(|(of, block), _| *of != rel || *block < blocks);
            }
            Record::Drop { rel } => self.directory.remove(self, rel),
            Record::Chunk { number, page } => self.undo.register(number, page, true),
            Record::ChunkGone { number } => self.undo.was_used(number),
            Record::Initial { rel, bytes } => {
                if let Some(r) = self.directory.get(rel) {
                    *crate::lock(&r.initial) = bytes.to_vec();
                }
            }
            // Followed by who reads, and looked for by who judges the end.
            Record::Link { .. } | Record::Durable { .. } => {}
            Record::Belongs { rel, heap, has_all_rows } => {
                if let Some(r) = self.directory.get(rel) {
                    r.heap.store(heap, Relaxed);
                    r.has_all_rows.store(has_all_rows, Relaxed);
                }
            }
        }
        Ok(())
    }
    fn redo_ops(&self, lsn: u64, ops: &[(PageTarget, PageOp<'_>)], redo: &mut RedoState) -> Result<()> {
        // Operations on one page of one record belong together: the LSN is set after the last.
        let mut done: Vec<PageTarget> = Vec::new();
        for (index, (target, _)) in ops.iter().enumerate() {
            if done.contains(target) {
                continue;
            }
            done.push(*target);
            let Some(relation) = self.directory.get(target.rel) else { continue };
            let Some(pid) = relation.pid_raw(target.block) else {
                redo.suspect(*target, None);
                continue;
            };
            let mut mine = ops[index..].iter().filter(|(t, _)| t == target).map(|(_, op)| op);
            let init = ops[index].1.is_init();
            if init {
                relation.blocks.fetch_max(target.block + 1, Relaxed);
            }
            let mut page = self.pool.write(pid)?;
            let header = page.view();
            redo.newest_page_lsn = redo.newest_page_lsn.max(page::lsn(page.page()));
            let is_its_own = header.u8(at::KIND) != page::KIND_UNDO
                && header.u32(at::REL) == target.rel
                && header.u32(at::BLOCK) == target.block;
            let ahead = u64::from(planted::is(PlantedBug::RedoSkipsNext)) * 64;
            if page::lsn(page.page()) + ahead >= lsn && header.u8(at::KIND) != 0 {
                if is_its_own {
                    for op in mine.filter(|op| op.is_of_cell() && !planted::is(PlantedBug::CellBehindItsLog)) {
                        op.apply(page.bytes(), *target)?;
                    }
                } else {
                    // The page may belong to another owner by now, if the relation is dropped later in the log.
                    redo.suspect(*target, Some(pid));
                }
                // Read as it should be, but maybe never synced: written again before the log goes.
                page.mark_dirty();
                continue;
            }
            let has_its_page = is_its_own && header.u8(at::KIND) != 0;
            if !init && !has_its_page {
                redo.suspect(*target, Some(pid));
                continue;
            }
            if init {
                page.bytes()[at::FLAGS] = 0;
            }
            let before = page::lsn(page.page());
            let applied = mine.try_for_each(|op| op.apply(page.bytes(), *target));
            if let Err(e) = applied {
                // A checkpoint leaves out the pages of a relation that has gone before it came to them: they are as an
                // earlier one has left them. What they hold is of no use to anybody, and is not written.
                let PageTarget { rel, block } = target;
                let place = format!("log record {lsn:X}, relation {rel} block {block} (page {pid}, LSN {before:X})");
                redo.suspects.entry((*rel, *block)).or_insert_with(|| format!("{place}: {}", e.message()));
                continue;
            }
            page::set_lsn(page.bytes(), lsn);
            page.mark_dirty();
        }
        Ok(())
    }
}
