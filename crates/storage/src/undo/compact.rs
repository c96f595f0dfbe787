//! Compaction of undo: chunks that an old snapshot keeps are emptied of what it does not need.
//!
//! Invariants
//! 1. A chunk is emptied only while no transaction holds it (none in progress, none to be purged), and goes only if
//!    then no row's chain leads into it.
//! 2. A pass is due when there are twice as many chunks that no transaction holds as the last pass has left: those that
//!    it could not empty and those that it has written what is needed to. So the work is bounded by what was written,
//!    and undo by twice what is needed, a few chunks (`StorageLimits::compacted_chunks`, 4 MB) and what transactions
//!    hold. What was held during a pass has not been looked at, so it does not put off the next one.
//!
//! Must not know: how a chain is rebuilt.

use super::record::{CHUNK, CHUNK_PAGES};
use super::record::{FIXED, UndoKind, UndoRecord};
use crate::core::Core;
use crate::heap::page as hp;
use crate::heap::prune::Prune;
use crate::page::{HEADER, KIND_UNDO, PAGE};
use crate::wal::record::PageOp;
use kilndb_base::hash::{HashSet, HashSetExt};
use kilndb_base::{Result, Severity};

/// Chunks looked at before the cleaner does something else.
const AT_ONCE: usize = 16;

/// The progress of a compaction pass.
pub(crate) struct UndoCompactor {
    /// So many chunks that no transaction holds make the next pass due.
    due: usize,
    /// The chunks that the pass has still to look at.
    pass: Vec<u64>,
    /// The chunks that the pass has looked at, and those that it has written to.
    touched: HashSet<u64>,
    failed: bool,
}

impl UndoCompactor {
    pub fn new(core: &Core) -> UndoCompactor {
        UndoCompactor {
            due: core.config.limits.compacted_chunks,
            pass: Vec::new(),
            touched: HashSet::new(),
            failed: false,
        }
    }
    /// Does some work of a pass, if one is due; true if there is more to do.
    pub fn round(&mut self, core: &Core) -> bool {
        if self.pass.is_empty() {
            let live = core.undo.count();
            self.due = self.due.min((2 * live).max(core.config.limits.compacted_chunks));
            if live < self.due || !core.has_old_snapshot() {
                return false;
            }
            let live = core.undo.live().into_iter().rev().map(|(number, _, _)| number);
            let pass: Vec<u64> = live.filter(|number| core.undo.unheld(*number)).collect();
            if pass.len() < self.due {
                return false;
            }
            self.pass = pass;
            self.touched.clear();
        }
        for _ in 0..AT_ONCE {
            let Some(number) = self.pass.pop() else { break };
            self.touched.insert(number);
            let mut prune = Prune::new(core, core.workers() - 1, Some(number));
            match core.compact_chunk(number, &mut prune) {
                Ok(()) => {}
                // The row or its relation may have gone in between; what it is told once is enough.
                Err(e) if !self.failed => {
                    self.failed = true;
                    core.tell(Severity::Warning, &format!("compacting undo: {}", e.message()));
                }
                Err(_) => {}
            }
            self.touched.extend(prune.written);
        }
        if self.pass.is_empty() {
            let left = self.touched.iter().filter(|number| core.undo.is_live(**number)).count();
            self.due = (2 * left).max(core.config.limits.compacted_chunks);
        }
        !self.pass.is_empty()
    }
}

impl Core {
    /// Empties a chunk that no transaction holds, which goes if nothing of it is needed. `prune` is one for this chunk.
    fn compact_chunk(&self, number: u64, prune: &mut Prune<'_>) -> Result<()> {
        if !self.undo.unheld(number) {
            return Ok(());
        }
        let mut done = HashSet::new();
        let mut free = true;
        for page in 0..CHUNK_PAGES {
            let Some(records) = self.undo_page(number, page)? else { return Ok(()) };
            for record in records {
                let one = usize::from(record.slot);
                let slots: Vec<usize> = match record.kind {
                    UndoKind::Insert | UndoKind::Update | UndoKind::Delete | UndoKind::Lock => vec![one],
                    UndoKind::InsertRange => {
                        (one..=record.data.first_chunk::<2>().map_or(0, |b| usize::from(u16::from_le_bytes(*b))))
                            .collect()
                    }
                    UndoKind::UpdateMany | UndoKind::DeleteMany => {
                        record.rows().map_or_else(Vec::new, |rows| rows.iter().collect())
                    }
                    _ => continue,
                };
                for slot in slots {
                    if done.insert((record.rel, record.block, slot)) {
                        free &= self.compact_row(prune, number, record.rel, record.block, slot)?;
                    }
                }
            }
        }
        if free && self.undo.unheld(number) {
            self.undo.let_go(&self.pool, &self.directory.space, &self.log, number);
        }
        Ok(())
    }
    /// Rebuilds a row's chain without the chunk; false if the chain still leads into it.
    fn compact_row(&self, prune: &mut Prune<'_>, number: u64, rel: u32, block: u32, slot: usize) -> Result<bool> {
        let Some(relation) = self.directory.get(rel) else { return Ok(true) };
        let Ok(pid) = relation.pid(block) else { return Ok(true) };
        let mut page = self.pool.write(pid)?;
        let Some((at, len)) = hp::item(page.view(), slot) else { return Ok(true) };
        let word = page.view().u64(at);
        if word & hp::PIECE != 0 || !self.leads_into(word, number)? {
            return Ok(true);
        }
        let payload = page.page()[at + hp::WORD..at + len].to_vec();
        let Some(new) = prune.word(word, slot, &payload)? else { return Ok(false) };
        let op = PageOp::Word { slot, word: new };
        self.emit_plain(&relation, 0, &[(relation.target(block), op)], &[0], &mut [&mut page])?;
        Ok(!self.leads_into(new, number)?)
    }
    fn leads_into(&self, mut word: u64, number: u64) -> Result<bool> {
        while word & hp::ADDRESS != 0 {
            if word & hp::ADDRESS >= number * CHUNK && (word & hp::ADDRESS) < (number + 1) * CHUNK {
                return Ok(true);
            }
            let Some(head) = self.undo.head(&self.pool, word & hp::ADDRESS)? else { break };
            word = head.old_word;
        }
        Ok(false)
    }
    /// The records of one page of a chunk; None: something else is there than should be.
    fn undo_page(&self, number: u64, page: u32) -> Result<Option<Vec<UndoRecord>>> {
        let Some(first) = self.undo.page_of(number) else { return Ok(None) };
        self.pool.read(first + page, |v| {
            let mut records = Vec::new();
            if !v.is(KIND_UNDO, number as u32, page) {
                // The page was not reached when the chunk was closed.
                return Some(records);
            }
            let mut at = HEADER;
            while at + FIXED <= PAGE && v.u16(at) != 0 {
                let record = v.bytes(at, v.u16(at)).and_then(UndoRecord::parse)?;
                at += record.len();
                records.push(record);
            }
            Some(records)
        })
    }
}
