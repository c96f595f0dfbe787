//! Sweeps of inverted indexes: a pass over all leaves takes dead postings out when many have died.
//!
//! Invariants
//! 1. A pass takes out the postings of generations that were dead when it began, and then what says that they are. It
//!    begins when nothing is being merged, and has all that is pending merged before it looks at the first leaf: a
//!    merge takes dead rows out and makes no postings of them ([`super::merge`]), so none of those that the pass is
//!    about is pending from then on.
//! 2. Correctness does not depend on it: a pass that is cut off begins anew.
//!
//! Must not know: what terms mean.

use super::dead::DeadRows;
use super::entry::{self, HISTORY, PENDING, POSTING, Posting, RowHistory};
use crate::btree::node::{self, KeyAndRow};
use crate::directory::Relation;
use crate::page::{PageBytes, PageView};
use crate::wal::record::PageOp;
use kilndb_base::Result;
use kilndb_base::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// The position of a thread that goes through an index.
#[derive(Default)]
pub(crate) struct MaintenancePass {
    /// Pending rows from here on are to be merged yet.
    pub(super) merge_from: Option<u64>,
    pub(super) sweep: Option<DeadRowSweep>,
}
impl MaintenancePass {
    pub(super) fn is_merging(&self) -> bool {
        self.merge_from.is_some()
    }
}

pub(super) struct DeadRowSweep {
    dead: DeadRows,
    /// The CSN of the newest commit when the pass began.
    csn: u64,
    from: (Vec<u8>, u64),
}

const LEAVES_AT_ONCE: usize = 64;
/// The number of rows with dead generations in one pass.
const MOST_DEAD: usize = 1 << 20;
/// A pass is worthwhile if so many generations have died for each page, and some more.
const DEAD_PER_PAGE: u64 = 2;
const LEAST_DEAD: u64 = 128;

impl Relation {
    /// Counts pending rows and dead generations after a start.
    pub(super) fn count_left_over(self: &Arc<Self>) -> Result<()> {
        let state = self.state()?;
        let (mut pending, mut pending_rows) = (0, 0);
        self.each_entry(PENDING, &mut |key, _| {
            pending += key.len() as u64;
            pending_rows += u64::from(entry::split_pending(key).is_some_and(|(_, piece, _)| piece == 0));
            Ok(pending < 1 << 30)
        })?;
        let mut dead = 0;
        self.each_entry(HISTORY, &mut |key, _| {
            let history = RowHistory::parse(key).ok_or_else(entry::damaged)?;
            dead += history.dead.iter().map(|(first, last)| u64::from(last - first) + 1).sum::<u64>();
            Ok(dead < 1 << 30)
        })?;
        state.pending_rows.fetch_add(pending_rows, Relaxed);
        state.pending_bytes.fetch_add(pending, Relaxed);
        state.dead.fetch_add(dead, Relaxed);
        Ok(())
    }
    /// Sweeps some leaves; true if there is more to do.
    pub(super) fn sweep_step(self: &Arc<Self>, pass: &mut MaintenancePass) -> Result<bool> {
        let state = self.state()?;
        let dead = state.dead.load(Relaxed);
        if pass.sweep.is_none() && dead > LEAST_DEAD + DEAD_PER_PAGE * u64::from(self.pages()) {
            state.dead.store(0, Relaxed);
            let dead = self.all_dead()?;
            pass.sweep = Some(DeadRowSweep { dead, csn: self.core.log.last_csn(), from: (vec![POSTING], 0) });
            pass.merge_from = Some(0);
            return Ok(true);
        }
        let Some(sweep) = &mut pass.sweep else { return Ok(false) };
        for _ in 0..LEAVES_AT_ONCE {
            match self.sweep_leaf(sweep)? {
                Some(next) => sweep.from = next,
                None => {
                    let is_settled = self.core.purge.is_settled(sweep.csn);
                    for (row, dead) in std::mem::take(&mut sweep.dead).into_rows() {
                        self.forget_dead(row, &dead, is_settled)?;
                    }
                    pass.sweep = None;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
    fn all_dead(self: &Arc<Self>) -> Result<DeadRows> {
        let mut all = DeadRows::default();
        self.each_entry(HISTORY, &mut |key, _| {
            let history = RowHistory::parse(key).ok_or_else(entry::damaged)?;
            all.push(RowHistory::row_of(key).ok_or_else(entry::damaged)?, &history.dead);
            Ok(all.len() < MOST_DEAD)
        })?;
        all.finish();
        Ok(all)
    }
    /// Forgets generations that have no posting any more. `is_settled`: everything that was committed before they died
    /// is purged. Otherwise the histories may name generations of a row that is gone, which must not be given to
    /// another row in its place.
    fn forget_dead(&self, row: u64, dead: &[(u32, u32)], is_settled: bool) -> Result<()> {
        self.amend_history(
            row,
            |history| {
                if is_settled || history.present.is_some() {
                    history.forget(dead);
                }
            },
            None,
        )
    }
    /// Takes dead postings out of the leaf at the pass's place; where the next one begins.
    fn sweep_leaf(&self, sweep: &DeadRowSweep) -> Result<Option<(Vec<u8>, u64)>> {
        let from = KeyAndRow(&sweep.from.0, sweep.from.1);
        let copy = self.read_leaf(from, |v| {
            v.bytes(0, crate::page::PAGE).and_then(|bytes| <PageBytes>::try_from(bytes).ok()).map(Box::new)
        })?;
        let copy = copy.ok_or_else(entry::damaged)?;
        let view = PageView::of(&copy);
        let high = node::high(&view).map(|e| (e.key.to_vec(), e.rid));
        let mut postings = Vec::new();
        if (0..node::count(&view))
            .any(|idx| Relation::without_dead(&view, idx, sweep, &mut postings).is_ok_and(|kept| kept.is_some()))
        {
            self.rewrite_leaf(sweep, &mut postings)?;
        }
        Ok(high.filter(|(key, _)| key.first().is_none_or(|sort| *sort <= POSTING)))
    }
    /// An entry without its dead postings (inner None: nothing is left); None: it has none. `postings` is for use in
    /// here.
    fn without_dead(
        view: &PageView,
        idx: usize,
        sweep: &DeadRowSweep,
        postings: &mut Vec<Posting>,
    ) -> Result<Option<Option<Vec<u8>>>> {
        let e = node::entry(view, idx).ok_or_else(entry::damaged)?;
        let Some((own, rest)) = entry::split_posting(e.key) else { return Ok(None) };
        postings.clear();
        entry::read_postings(rest, e.rid, &mut |posting| postings.push(posting))?;
        let all = postings.len();
        postings.retain(|posting| !sweep.dead.contains(*posting));
        if postings.len() == all {
            return Ok(None);
        }
        let anchor = entry::anchor_of(rest).filter(|_| !postings.is_empty());
        Ok(Some(anchor.map(|anchor| node::build(&entry::block(own, anchor, postings), 0, None, 0))))
    }
    fn rewrite_leaf(&self, sweep: &DeadRowSweep, postings: &mut Vec<Posting>) -> Result<()> {
        let (block, mut page) = self.latch_node(0, KeyAndRow(&sweep.from.0, sweep.from.1))?;
        let target = self.target(block);
        let mut kept = Vec::new();
        for idx in (0..node::count(&page.view())).rev() {
            kept.extend(Relation::without_dead(&page.view(), idx, sweep, postings)?.map(|kept| (idx, kept)));
        }
        // From the right, so that places stay. No entry grows, so all of them together are less than a page.
        let ops: Vec<_> = kept
            .iter()
            .map(|(idx, kept)| match kept {
                Some(entry) => (target, PageOp::TreeReplace { idx: *idx, entry }),
                None => (target, PageOp::TreeRemove { idx: *idx }),
            })
            .collect();
        if !ops.is_empty() {
            self.core.emit_plain(self, 0, &ops, &vec![0; ops.len()], &mut [&mut page])?;
        }
        let is_empty = node::count(&page.view()) == 0 && block != 0;
        drop(page);
        if is_empty {
            self.unlink_empty(block)?;
        }
        Ok(())
    }
}
