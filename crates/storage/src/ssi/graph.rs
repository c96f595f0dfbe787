//! The graph of rw-dependencies among serializable transactions, and the choice of the one that fails.
//!
//! An edge R → W says: R read what W wrote (or has written) without seeing it, so R comes before W in every serial
//! order. Every anomaly of snapshot isolation has two such edges in a row, Tin → Tpivot → Tout, where Tout committed
//! before the other two, and, if Tin only reads, before Tin's snapshot (Cahill, Röhm and Fekete 2008; Ports and
//! Grittner 2012).
//!
//! Invariants
//! 1. Snapshots are taken, and commits get their number and their place in the log, while the graph is held: the order
//!    of `order` is the order of snapshots and commits.
//! 2. No transaction is chosen to fail while none of a dangerous structure has committed, so that a retry meets other
//!    circumstances.
//! 3. A committed transaction stays until every serializable transaction that overlapped it has ended; beyond a limit
//!    the oldest are summarised: of their edges it is only known that there were some.
//!
//! Must not know: pages, keys, what was read.

use super::Reader;
use crate::api::SerializableModes;
use kilndb_base::park::WakeHandle;
use kilndb_base::planted::{self, PlantedBug};
use kilndb_base::sync::atomic::Ordering::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Why a transaction must fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ConflictReason {
    PivotDuringWrite,
    PivotDuringRead(u64),
    PivotDuringCommit,
    PivotWithOldOut(u64),
    OldPivot,
    OldPivotNamed(u64),
}

struct TransactionNode {
    reader: Arc<Reader>,
    /// The transactions that read what this one wrote.
    ins: Vec<u64>,
    /// The transactions that wrote what this one read.
    outs: Vec<u64>,
    /// There is an edge from a summarised transaction.
    summary_in: bool,
    summary_out: bool,
    /// Set at commit: the first that committed of those in `outs` that had committed by then.
    earliest_out: Option<u64>,
    /// READ ONLY: the writers that may yet make its snapshot unsafe. Others: the READ ONLY ones waiting for it.
    possible: Vec<u64>,
    waiter: Option<WakeHandle>,
    /// Transactions of different domains share nothing.
    domain: u64,
}

/// Committed writers of which only this is known any more.
#[derive(Default)]
struct CommittedSummary {
    /// For each xid: when it committed, and the first commit among its edges out.
    xids: BTreeMap<u64, (u64, Option<u64>)>,
    order: VecDeque<(u64, u64)>,
    /// All transactions up to this xid count as summarised, as long as one is left that began before that moment.
    blanket: Option<(u64, u64)>,
}
/// The number of xids that are kept one by one.
const MOST_SUMMARISED: usize = 1 << 16;

#[derive(Default)]
pub(super) struct ConflictGraph {
    order: u64,
    nodes: kilndb_base::hash::HashMap<u64, TransactionNode>,
    active: BTreeSet<u64>,
    writable: BTreeSet<u64>,
    /// Committed: (number of the commit, transaction).
    finished: VecDeque<(u64, u64)>,
    /// The commit up to which locks and edges in have been dropped.
    locks_gone_through: u64,
    summary: CommittedSummary,
}

/// The work that ended transactions leave to be done after the graph is unlocked.
#[derive(Default)]
pub(super) struct EndedTransactions {
    /// Readers whose locks are released.
    pub unlocked: Vec<Arc<Reader>>,
    /// Readers that are removed with all that belongs to them.
    pub gone: Vec<Arc<Reader>>,
    /// Readers whose locks are taken over by one that stands for many.
    pub fold: Vec<Arc<Reader>>,
    pub wake: Vec<WakeHandle>,
}

/// How the snapshot of a new transaction stands.
pub(super) enum SnapshotStanding {
    Tracked(Arc<Reader>),
    /// READ ONLY, and nobody can make it part of an anomaly.
    Safe,
}

impl ConflictGraph {
    fn next(&mut self) -> u64 {
        self.order += 1;
        self.order
    }
    /// Adds a transaction. To be called while the graph is locked and the snapshot is taken.
    pub fn begin(&mut self, owner: u64, modes: SerializableModes, waiter: Option<WakeHandle>) -> SnapshotStanding {
        let SerializableModes { read_only, domain, session } = modes;
        let mut possible = Vec::new();
        if read_only {
            let matters = |id: &u64| self.nodes.get(id).is_some_and(|n| n.domain == domain && !n.reader.is_doomed());
            possible = self.writable.iter().copied().filter(matters).collect();
            if possible.is_empty() {
                return SnapshotStanding::Safe;
            }
        }
        let id = self.next();
        for writer in &possible {
            if let Some(node) = self.nodes.get_mut(writer) {
                node.possible.push(id);
            }
        }
        let reader = Arc::new(Reader { session, ..Reader::new(id, owner, read_only) });
        let node = TransactionNode {
            reader: reader.clone(),
            ins: Vec::new(),
            outs: Vec::new(),
            summary_in: false,
            summary_out: false,
            earliest_out: None,
            possible,
            waiter,
            domain,
        };
        self.nodes.insert(id, node);
        self.active.insert(id);
        if !read_only {
            self.writable.insert(id);
        }
        SnapshotStanding::Tracked(reader)
    }
    fn doomed(&self, id: u64) -> bool {
        self.nodes.get(&id).is_none_or(|n| n.reader.is_doomed())
    }
    fn commit_of(&self, id: u64) -> Option<u64> {
        self.nodes.get(&id).and_then(|n| n.reader.committed_at())
    }
    /// The edge reader → writer, found by `me`, one of the two. Err: `me` must go.
    pub fn flag(&mut self, reader: &Reader, writer: &Reader, me: &Reader) -> Result<(), ConflictReason> {
        if reader.id == writer.id || reader.is_doomed() || writer.is_doomed() || reader.safe.load(Relaxed) {
            return Ok(());
        }
        let Some(w) = self.nodes.get(&writer.id) else { return Ok(()) };
        if !self.nodes.contains_key(&reader.id) {
            // The reader is not in the graph, although its locks are still there: it ended before all others began, or
            // it stands for many.
            return if reader.summarised.load(Relaxed) { self.flag_old_reader(reader, writer) } else { Ok(()) };
        }
        if reader.committed_at().is_some_and(|at| at < writer.id)
            || writer.committed_at().is_some_and(|at| at < reader.id)
        {
            return Ok(());
        }
        if w.ins.contains(&reader.id) {
            return Ok(());
        }
        if self.makes_danger(reader, writer) {
            if me.id == writer.id {
                return Err(ConflictReason::PivotDuringWrite);
            }
            if writer.committed_at().is_some() {
                return Err(ConflictReason::PivotDuringRead(writer.xid.load(Relaxed)));
            }
            writer.doom();
        }
        if let Some(w) = self.nodes.get_mut(&writer.id) {
            w.ins.push(reader.id);
        }
        if let Some(r) = self.nodes.get_mut(&reader.id) {
            r.outs.push(writer.id);
        }
        Ok(())
    }
    /// A lock of somebody summarised lies where `writer` (the caller) writes.
    fn flag_old_reader(&mut self, reader: &Reader, writer: &Reader) -> Result<(), ConflictReason> {
        if reader.committed_at().is_none_or(|at| at < writer.id) {
            return Ok(());
        }
        let Some(w) = self.nodes.get_mut(&writer.id) else { return Ok(()) };
        // Whatever committed before the old one was summarised before it.
        if w.summary_out {
            return Err(ConflictReason::PivotDuringWrite);
        }
        w.summary_in = true;
        Ok(())
    }
    /// Whether the new edge completes a dangerous structure whose Tout has committed first.
    fn makes_danger(&self, reader: &Reader, writer: &Reader) -> bool {
        let (Some(r), Some(w)) = (self.nodes.get(&reader.id), self.nodes.get(&writer.id)) else { return false };
        let (r_end, w_end) = (reader.committed_at(), writer.committed_at());
        let r_only = reader.is_read_only();
        if planted::is(PlantedBug::OpenReaderHarmless) && r_end.is_none() {
            return false;
        }
        // The writer is the pivot.
        if w_end.is_some() && w.earliest_out.is_some() || w.summary_out {
            return true;
        }
        let first = |out: u64| {
            r_end.is_none_or(|end| out <= end) && w_end.is_none_or(|end| out <= end) && (!r_only || out < reader.id)
        };
        if w.outs.iter().filter_map(|t| self.commit_of(*t)).any(first) {
            return true;
        }
        // The reader is the pivot.
        let Some(w_end) = w_end.filter(|_| !r_only) else { return false };
        r.summary_in
            || r.ins.iter().filter_map(|id| self.nodes.get(id)).any(|t| {
                let t = &t.reader;
                // Tpivot may be the writer itself.
                !t.is_doomed() && t.committed_at().is_none_or(|end| end >= w_end) && (!t.is_read_only() || t.id > w_end)
            })
    }
    /// `me` met a version that it does not see, written by `writer`.
    pub(crate) fn conflict_out(&mut self, me: &Reader, writer: &Arc<Reader>) -> Result<(), ConflictReason> {
        let Some(w) = self.nodes.get(&writer.id) else { return Ok(()) };
        if writer.is_doomed() {
            return Ok(());
        }
        if w.summary_out {
            // The old one committed first, nobody knows when.
            if writer.committed_at().is_none() {
                writer.doom();
                return Ok(());
            }
            return Err(ConflictReason::OldPivot);
        }
        if me.is_read_only() && writer.committed_at().is_some() && w.earliest_out.is_none_or(|out| me.id < out) {
            return Ok(());
        }
        self.flag(me, writer, me)
    }
    /// As [`ConflictGraph::conflict_out`], for a writer that is no longer in the graph.
    pub(crate) fn conflict_out_to_old(&mut self, me: &Reader, xid: u64) -> Result<(), ConflictReason> {
        let known = self.summary.xids.get(&xid).map(|(_, out)| *out);
        // For transactions that are not kept one by one the worst is assumed.
        let Some(earliest_out) = known.or_else(|| self.under_blanket(xid).then_some(Some(0))) else { return Ok(()) };
        if earliest_out.is_some_and(|out| !me.is_read_only() || out < me.id) {
            return Err(ConflictReason::OldPivotNamed(xid));
        }
        let Some(node) = self.nodes.get_mut(&me.id) else { return Ok(()) };
        if node.summary_in || !node.ins.is_empty() {
            return Err(ConflictReason::PivotWithOldOut(xid));
        }
        node.summary_out = true;
        Ok(())
    }
    fn under_blanket(&self, xid: u64) -> bool {
        self.summary.blanket.is_some_and(|(most, _)| xid <= most)
    }
    pub(crate) fn is_summarised(&self, xid: u64) -> bool {
        self.summary.xids.contains_key(&xid) || self.under_blanket(xid)
    }
    /// The last moment to find that `me` may not commit, or that another may not: the pivot goes, so that who is ready
    /// to commit gets through.
    pub fn before_commit(&mut self, me: &Reader) -> Result<(), ConflictReason> {
        if me.is_doomed() {
            return Err(ConflictReason::PivotDuringCommit);
        }
        if planted::is(PlantedBug::PivotUncheckedAtCommit) {
            return Ok(());
        }
        let Some(node) = self.nodes.get(&me.id) else { return Ok(()) };
        for pivot in node.ins.iter().filter_map(|id| self.nodes.get(id)) {
            if pivot.reader.committed_at().is_some() || pivot.reader.is_doomed() {
                continue;
            }
            let dangerous =
                pivot.ins.iter().filter_map(|id| self.nodes.get(id)).map(|n| &n.reader).any(|far| {
                    far.id == me.id || far.committed_at().is_none() && !far.is_read_only() && !far.is_doomed()
                });
            if dangerous {
                pivot.reader.doom();
            }
        }
        Ok(())
    }
    /// Notes that `me` has its place among the commits.
    pub fn committed(&mut self, me: &Reader, remembered: usize) -> EndedTransactions {
        let at = self.next();
        let wrote = me.wrote.load(Relaxed);
        let declared = me.is_read_only();
        me.commit.store(at, SeqCst);
        if !wrote {
            me.read_only.store(true, Relaxed);
        }
        let (outs, ins, possible) = match self.nodes.get_mut(&me.id) {
            Some(node) => {
                (std::mem::take(&mut node.outs), std::mem::take(&mut node.ins), std::mem::take(&mut node.possible))
            }
            None => return EndedTransactions::default(),
        };
        let (ended, open): (Vec<u64>, Vec<u64>) =
            outs.into_iter().partition(|id| self.commit_of(*id).is_some() || self.doomed(*id));
        let mut earliest = ended.iter().filter_map(|id| self.commit_of(*id)).min();
        ended.iter().for_each(|id| self.forget_in(*id, me.id));
        // Edges in from those that have ended, or only read, complete nothing any more.
        let idle =
            |id: &u64| self.commit_of(*id).is_some() || self.nodes.get(id).is_none_or(|n| n.reader.is_read_only());
        let (gone, kept): (Vec<u64>, Vec<u64>) = ins.into_iter().partition(idle);
        gone.iter().for_each(|id| self.forget_out(*id, me.id));
        if let Some(node) = self.nodes.get_mut(&me.id) {
            node.outs = open;
            node.ins = kept;
            if node.summary_out {
                earliest = Some(0);
            }
            node.earliest_out = earliest.filter(|_| wrote);
        }
        let mut left = EndedTransactions::default();
        self.leave(me, declared, possible, earliest.filter(|_| wrote), &mut left);
        self.finished.push_back((at, me.id));
        self.clean(remembered, &mut left);
        left
    }
    /// `me` is rolled back, or turned out to be safe: as if it had never been.
    pub fn forget(&mut self, me: &Reader) -> EndedTransactions {
        let mut left = EndedTransactions::default();
        let Some(node) = self.nodes.get_mut(&me.id) else { return left };
        let possible = std::mem::take(&mut node.possible);
        self.leave(me, me.is_read_only(), possible, None, &mut left);
        left.gone.extend(self.remove(me.id));
        self.clean(usize::MAX, &mut left);
        left
    }
    fn forget_in(&mut self, of: u64, gone: u64) {
        if let Some(node) = self.nodes.get_mut(&of) {
            node.ins.retain(|id| *id != gone);
        }
    }
    fn forget_out(&mut self, of: u64, gone: u64) {
        if let Some(node) = self.nodes.get_mut(&of) {
            node.outs.retain(|id| *id != gone);
        }
    }
    fn remove(&mut self, id: u64) -> Option<Arc<Reader>> {
        let node = self.nodes.remove(&id)?;
        node.outs.iter().for_each(|other| self.forget_in(*other, id));
        node.ins.iter().for_each(|other| self.forget_out(*other, id));
        Some(node.reader)
    }
    /// `me` is active no more; what that means to READ ONLY transactions. `earliest_out`: it has committed with an edge
    /// out to that commit.
    fn leave(
        &mut self,
        me: &Reader,
        declared_read_only: bool,
        possible: Vec<u64>,
        earliest_out: Option<u64>,
        left: &mut EndedTransactions,
    ) {
        self.active.remove(&me.id);
        if declared_read_only {
            for writer in possible {
                if let Some(node) = self.nodes.get_mut(&writer) {
                    node.possible.retain(|id| *id != me.id);
                }
            }
            return;
        }
        self.writable.remove(&me.id);
        for id in possible {
            let Some(node) = self.nodes.get_mut(&id) else { continue };
            if earliest_out.is_some_and(|out| out < id) {
                let others = std::mem::take(&mut node.possible);
                node.reader.unsafe_snapshot.store(true, Release);
                left.wake.extend(node.waiter.take());
                for other in others {
                    if let Some(node) = self.nodes.get_mut(&other) {
                        node.possible.retain(|r| *r != id);
                    }
                }
                continue;
            }
            node.possible.retain(|w| *w != me.id);
            if node.possible.is_empty() && !node.reader.unsafe_snapshot.load(Relaxed) {
                node.reader.safe.store(true, Release);
                left.wake.extend(node.waiter.take());
                self.active.remove(&id);
                left.gone.extend(self.remove(id));
            }
        }
    }
    /// Drops transactions that no other one overlaps any more.
    fn clean(&mut self, remembered: usize, left: &mut EndedTransactions) {
        let oldest = self.active.first().copied().unwrap_or(u64::MAX);
        let oldest_writable = self.writable.first().copied().unwrap_or(u64::MAX);
        while let Some((_, id)) = self.finished.front().copied().filter(|(at, _)| *at < oldest) {
            self.finished.pop_front();
            left.gone.extend(self.remove(id));
        }
        // Only read-only transactions are left from before, so no write can meet these locks.
        let from = self.finished.partition_point(|(at, _)| *at <= self.locks_gone_through);
        let to = self.finished.partition_point(|(at, _)| *at < oldest_writable);
        for (at, id) in self.finished.range(from..to.max(from)).copied().collect::<Vec<_>>() {
            self.locks_gone_through = at;
            if let Some(node) = self.nodes.get_mut(&id) {
                let ins = std::mem::take(&mut node.ins);
                left.unlocked.push(node.reader.clone());
                ins.iter().for_each(|other| self.forget_out(*other, id));
            }
        }
        while self.finished.len() > remembered {
            let Some((at, id)) = self.finished.pop_front() else { break };
            self.summarise(at, id, left);
        }
        let summary = &mut self.summary;
        while let Some((_, xid)) = summary.order.front().copied().filter(|(at, _)| *at < oldest) {
            summary.order.pop_front();
            summary.xids.remove(&xid);
        }
        if summary.blanket.is_some_and(|(_, at)| at < oldest) {
            summary.blanket = None;
        }
    }
    fn summarise(&mut self, at: u64, id: u64, left: &mut EndedTransactions) {
        let Some(node) = self.nodes.get(&id) else { return };
        let (ins, outs, earliest, xid) =
            (node.ins.clone(), node.outs.clone(), node.earliest_out, node.reader.xid.load(Relaxed));
        for other in outs {
            if let Some(node) = self.nodes.get_mut(&other) {
                node.summary_in = true;
            }
        }
        for other in ins {
            if let Some(node) = self.nodes.get_mut(&other) {
                node.summary_out = true;
            }
        }
        let Some(reader) = self.remove(id) else { return };
        reader.summarised.store(true, SeqCst);
        left.fold.push(reader);
        if xid != 0 {
            self.summary.xids.insert(xid, (at, earliest));
            self.summary.order.push_back((at, xid));
        }
        if self.summary.order.len() > MOST_SUMMARISED {
            for (at, xid) in self.summary.order.drain(..MOST_SUMMARISED / 2) {
                self.summary.xids.remove(&xid);
                let (most, last) = self.summary.blanket.unwrap_or_default();
                self.summary.blanket = Some((most.max(xid), last.max(at)));
            }
        }
    }
    /// Everything before this moment has been seen by every transaction that may yet write.
    pub(crate) fn oldest_writable(&self) -> u64 {
        self.writable.first().copied().unwrap_or(u64::MAX)
    }
    pub fn contains(&self, id: u64) -> bool {
        self.nodes.contains_key(&id)
    }
    /// The number of transactions that others may still overlap.
    pub fn count(&self) -> usize {
        self.nodes.len() + self.summary.order.len() + usize::from(self.summary.blanket.is_some())
    }
    pub fn readers(&self) -> Vec<Arc<Reader>> {
        self.nodes.values().map(|n| n.reader.clone()).collect()
    }
    /// Owners of the transactions that a READ ONLY DEFERRABLE one waits for.
    pub(crate) fn waited_for(&self, owner: u64) -> Vec<u64> {
        let waits = |n: &&TransactionNode| n.reader.owner == owner && n.waiter.is_some();
        let possible = self.nodes.values().find(waits).map(|n| n.possible.clone()).unwrap_or_default();
        possible.iter().filter_map(|id| self.nodes.get(id)).map(|n| n.reader.owner).collect()
    }
    /// The oldest snapshot of the active transactions.
    pub(crate) fn oldest_snapshot(&self) -> Option<u64> {
        self.active.first().and_then(|id| self.nodes.get(id)).map(|n| n.reader.snapshot_csn.load(Relaxed))
    }
    #[cfg(test)]
    pub fn size(&self) -> (usize, usize, usize) {
        (self.nodes.len(), self.finished.len(), self.summary.xids.len())
    }
}
