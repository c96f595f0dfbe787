//! Inserts entries, enforces uniqueness, and looks for live rows with a key.
//!
//! Invariants
//! 1. Uniqueness is judged while the leaf where the key's entries begin is latched: two inserters of one key meet
//!    there, and an entry found there leads to its row, since purge takes the entry before the slot.
//! 2. An undecided row is waited for with nothing latched, then everything is looked at again.
//! 3. Where entries name their heaps, the entries of a key are those of all heaps; one of a heap that is gone is dead,
//!    one of a heap that a transaction in progress drops is undecided.
//!
//! Must not know: which constraint it is.

use super::dead_prefix::FullKey;
use super::insert_many::free_place;
use super::node::{self, FenceSide, KeyAndRow, MAX_KEY, RETIRED};
use super::retire::FoundEntry;
use crate::api::{IndexInsert, Uniqueness};
use crate::buffer::WriteGuard;
use crate::directory::{HEAP_NAME_BYTES, Relation};
use crate::heap::page::ADDRESS;
use crate::heap::write::Liveness;
use crate::locks::waiting::RowWait;
use crate::method::NewKey;
use crate::page::PageView;
use crate::trace::{self, TracedOperation};
use crate::txn::table::Status;
use crate::txn::{Snapshot, Transaction};
use crate::undo::record::{UndoKind, index_data};
use crate::wal::record::{PageOp, PageTarget};
use kilndb_base::park::Park;
use kilndb_base::planted::{self, PlantedBug};
use kilndb_base::sync::atomic::Ordering::SeqCst;
use kilndb_base::{Error, RelationId, Result, RowId, sqlstate};
use std::cell::OnceCell;

/// The entries of one key.
type KeyEntries = Vec<KeyEntry>;

struct KeyEntry {
    rid: u64,
    stamp: u64,
    /// The heap that the entry belongs to, if entries name their heaps.
    heap: u32,
}

/// The bytes that all entries of a key have in common.
#[derive(Clone, Copy)]
struct SearchedKey<'k> {
    key: &'k [u8],
    /// The name of a heap follows in each entry.
    names_heap: bool,
}

/// Greater than any heap's name.
const LAST_NAME: [u8; HEAP_NAME_BYTES] = [0xff; HEAP_NAME_BYTES];

impl SearchedKey<'_> {
    fn is_key_of(self, entry: &[u8]) -> bool {
        match self.names_heap {
            false => entry == self.key,
            true => entry.len() == self.key.len() + HEAP_NAME_BYTES && entry.starts_with(self.key),
        }
    }
    /// May there be entries at or after a fence?
    fn goes_beyond(self, fence: &[u8]) -> bool {
        match self.names_heap {
            false => fence == self.key,
            true => fence.iter().cmp(self.key.iter().chain(&LAST_NAME)).is_le(),
        }
    }
    fn heap_of(self, entry: &[u8]) -> u32 {
        if self.names_heap { entry.last_chunk().map_or(0, |name| u32::from_be_bytes(*name)) } else { 0 }
    }
}

/// The entries of a key that are left after one leaf was read.
enum RemainingEntries {
    None,
    /// There may be entries from this key on in that block.
    In(u32, Option<FullKey>),
    /// The block has become another node: the search begins anew.
    Moved,
}

impl Relation {
    fn sought<'k>(&self, key: &'k [u8]) -> SearchedKey<'k> {
        SearchedKey { key: self.unique_part(key), names_heap: self.entries_name_heap() }
    }
    /// Adds the entries that are in this block, in its page, from `from` on.
    fn gather(
        &self,
        v: &PageView,
        (block, pid): (u32, u32),
        sought: SearchedKey<'_>,
        from: Option<&FullKey>,
        found: &mut KeyEntries,
    ) -> RemainingEntries {
        if !self.is_node_in(v, block, pid) || node::level(v) != 0 {
            return RemainingEntries::Moved;
        }
        let start = from.map_or(KeyAndRow(sought.key, 0), |from| KeyAndRow(&from.0, from.1));
        match node::side(v, start) {
            FenceSide::Left => return RemainingEntries::Moved,
            FenceSide::Right => return RemainingEntries::In(node::right(v), from.cloned()),
            FenceSide::Inside => {}
        }
        for idx in node::lower_bound(v, start)..node::count(v) {
            match node::entry(v, idx) {
                Some(e) if sought.is_key_of(e.key) => {
                    found.push(KeyEntry { rid: e.rid, stamp: e.stamp, heap: sought.heap_of(e.key) })
                }
                _ => return RemainingEntries::None,
            }
        }
        match node::high(v) {
            Some(high) if sought.goes_beyond(high.key) => {
                RemainingEntries::In(node::right(v), Some((high.key.to_vec(), high.rid)))
            }
            _ => RemainingEntries::None,
        }
    }
    /// Goes on to the right until all entries are gathered; false: nodes have moved, look again.
    fn gather_rest(&self, mut rest: RemainingEntries, sought: SearchedKey<'_>, found: &mut KeyEntries) -> Result<bool> {
        loop {
            let (block, from) = match rest {
                RemainingEntries::None => return Ok(true),
                RemainingEntries::Moved => return Ok(false),
                RemainingEntries::In(block, from) => (block, from),
            };
            let mark = found.len();
            let Some(pid) = self.node_pid(block)? else { return Ok(false) };
            rest = self.core.pool.read(pid, |v| {
                found.truncate(mark);
                self.gather(&v, (block, pid), sought, from.as_ref(), found)
            })?;
        }
    }
}

/// The key belongs to this leaf, behind the entry before `idx` and before the one that is there.
fn is_place_of(v: &PageView, idx: usize, key: KeyAndRow<'_>) -> bool {
    let is_before = |at: usize| node::entry(v, at).is_some_and(|e| node::compare(&e, key).is_lt());
    let is_behind = |at: usize| node::entry(v, at).is_some_and(|e| node::compare(&e, key).is_gt());
    node::side(v, key) == FenceSide::Inside
        && idx <= node::count(v)
        && (idx == 0 || is_before(idx - 1))
        && (idx == node::count(v) || is_behind(idx))
}

impl Relation {
    /// Errors: 54000, the key is longer than an index takes.
    pub fn check_key(key: &[u8]) -> Result<()> {
        if key.len() > MAX_KEY {
            return Err(Error::new(
                sqlstate::PROGRAM_LIMIT_EXCEEDED,
                format!("index row size {} exceeds btree maximum {MAX_KEY}", key.len()),
            ));
        }
        Ok(())
    }
    /// Waits for undecided conflicting rows.
    pub(crate) fn tree_insert(&self, txn: &mut Transaction, new: &NewKey<'_>, park: &dyn Park) -> Result<IndexInsert> {
        let NewKey { heap, key, rid, uniqueness } = *new;
        let txn = txn.of(self)?;
        Relation::check_key(key)?;
        txn.begin_write()?;
        let rid = rid.to_u64();
        let sought = self.sought(key);
        let own_heap = sought.heap_of(key);
        let held = sought.names_heap && uniqueness == Uniqueness::UniqueFromNow;
        loop {
            let mut hint = txn.inserted_at.get(self.id);
            if uniqueness == Uniqueness::NotUnique {
                let (block, page) = self.latch_leaf_by(&mut hint, KeyAndRow(key, rid))?;
                txn.inserted_at.set(hint);
                if self.put_entry(txn, block, page, KeyAndRow(key, rid), held)? {
                    txn.wrote_key(self, key, rid)?;
                    return Ok(IndexInsert::Inserted);
                }
                continue;
            }
            let (block, page) = self.latch_leaf_by(&mut hint, KeyAndRow(sought.key, 0))?;
            txn.inserted_at.set(hint);
            // Mostly nobody has the key, and what was looked at tells the entry's place.
            if let (false, Some(idx)) = (sought.names_heap, free_place(&page.view(), key, rid, true)) {
                if self.put_at(txn, (block, idx), page, KeyAndRow(key, rid), held)? {
                    txn.wrote_key(self, key, rid)?;
                    return Ok(IndexInsert::Inserted);
                }
                continue;
            }
            let mut found = KeyEntries::new();
            let rest = self.gather(&page.view(), (block, page.pid()), sought, None, &mut found);
            if !self.gather_rest(rest, sought, &mut found)? {
                continue;
            }
            let mut undecided = None;
            for other in found.iter().filter(|other| other.rid != rid || other.heap != own_heap) {
                match self.entry_liveness(heap, other, txn)? {
                    Liveness::Dead => {}
                    Liveness::Live => {
                        drop(page);
                        // A serializable transaction that has looked whether the key is free gets the serialization
                        // failure rather than the duplicate.
                        txn.wrote_key(self, key, rid)?;
                        let row = RowId::from_u64(other.rid);
                        let is_here = other.heap == own_heap;
                        return Ok(if is_here {
                            IndexInsert::Conflict(row)
                        } else {
                            IndexInsert::Elsewhere(RelationId(other.heap), row)
                        });
                    }
                    Liveness::Undecided(xid) => {
                        undecided = Some(xid);
                        break;
                    }
                }
            }
            if let Some(xid) = undecided {
                drop(page);
                self.wait_for(txn, xid, park)?;
                continue;
            }
            // The entry's own place may lie further right; the first leaf stays latched meanwhile.
            let done = if node::side(&page.view(), KeyAndRow(key, rid)) == FenceSide::Inside {
                self.put_entry(txn, block, page, KeyAndRow(key, rid), held)?
            } else {
                let mut at = node::right(&page.view());
                loop {
                    let Some(pid) = self.node_pid(at)? else { break false };
                    let other = self.core.pool.write(pid)?;
                    let v = other.view();
                    if !self.is_node_in(&v, at, pid)
                        || node::level(&v) != 0
                        || node::side(&v, KeyAndRow(key, rid)) == FenceSide::Left
                    {
                        // The leaf was taken out since its neighbour named it.
                        break false;
                    }
                    if node::side(&other.view(), KeyAndRow(key, rid)) == FenceSide::Inside {
                        // A split of that leaf needs the parent, which nobody holds while waiting for a leaf.
                        let done = self.put_entry(txn, at, other, KeyAndRow(key, rid), held)?;
                        drop(page);
                        break done;
                    }
                    at = node::right(&other.view());
                    if at == 0 {
                        return Err(self.broken_tree(block));
                    }
                }
            };
            if done {
                txn.wrote_key(self, key, rid)?;
                return Ok(IndexInsert::Inserted);
            }
        }
    }
    fn entry_liveness(&self, heap: &Relation, entry: &KeyEntry, txn: &Transaction) -> Result<Liveness> {
        if entry.heap != 0 {
            return self.named_liveness(entry, txn);
        }
        self.liveness_in(heap, entry.rid, entry.stamp, txn)
    }
    /// The state of the row of an entry that names its heap.
    fn named_liveness(&self, entry: &KeyEntry, txn: &Transaction) -> Result<Liveness> {
        let core = &self.core;
        let Some(heap) = core.directory.get(entry.heap) else { return Ok(Liveness::Dead) };
        let dropper = heap.dropper.load(SeqCst);
        let dropped = if dropper == 0 { Status::Aborted } else { core.xids.status(dropper) };
        if dropper != 0 && dropper == txn.xid || matches!(dropped, Status::Committed { .. }) {
            return Ok(Liveness::Dead);
        }
        let found = self.liveness_in(&heap, entry.rid, entry.stamp, txn);
        // Looked at without a lock on it: its pages may have become another's while they were read.
        if heap.dropped.load(SeqCst) {
            return Ok(Liveness::Dead);
        }
        let found = found?;
        if found == Liveness::Live && dropped == Status::InProgress {
            return Ok(Liveness::Undecided(dropper));
        }
        if found == Liveness::Live && entry.stamp & RETIRED == 0 && entry.stamp & ADDRESS != 0 {
            // The row is older than its entry.
            let head = core.undo.head(&core.pool, entry.stamp & ADDRESS)?;
            if let Some(head) =
                head.filter(|head| head.xid != txn.xid && core.xids.status(head.xid) == Status::InProgress)
            {
                return Ok(Liveness::Undecided(head.xid));
            }
        }
        Ok(found)
    }
    fn liveness_in(&self, heap: &Relation, rid: u64, stamp: u64, txn: &Transaction) -> Result<Liveness> {
        if stamp & RETIRED != 0 {
            let Some(head) = self.core.undo.head(&self.core.pool, stamp & ADDRESS)? else { return Ok(Liveness::Dead) };
            if head.xid == txn.xid {
                return Ok(Liveness::Dead);
            }
            match self.core.xids.status(head.xid) {
                Status::InProgress => return Ok(Liveness::Undecided(head.xid)),
                Status::Committed { .. } => return Ok(Liveness::Dead),
                Status::Aborted => {}
            }
        }
        heap.liveness(RowId::from_u64(rid), txn)
    }
    /// Inserts (or revives) the entry in its latched leaf; false: the leaf was split, look again. `held`: it has a
    /// stamp that leads to this transaction.
    fn put_entry<'a>(
        &'a self,
        txn: &mut Transaction,
        block: u32,
        mut page: WriteGuard<'a>,
        entry_key: KeyAndRow<'_>,
        held: bool,
    ) -> Result<bool> {
        let target = self.target(block);
        let mut hint = txn.inserted_at.get(self.id);
        let (idx, found) = match hint.block == block {
            true => Relation::place_by(&page.view(), &mut hint, entry_key),
            false => Relation::place_of(&page.view(), entry_key),
        };
        txn.inserted_at.set(hint);
        if let Some(stamp) = found {
            self.revive(txn, &mut page, &FoundEntry { target, idx, stamp, key: entry_key })?;
            return Ok(true);
        }
        self.put_at(txn, (block, idx), page, entry_key, held)
    }
    /// An entry of a latched leaf is wanted, whether it was retired or not.
    pub(super) fn revive(
        &self,
        txn: &mut Transaction,
        page: &mut WriteGuard<'_>,
        found: &FoundEntry<'_>,
    ) -> Result<()> {
        if found.stamp & RETIRED != 0 {
            self.restamp(txn, page, found, (UndoKind::IndexRevive, 0))?;
            if planted::is(PlantedBug::RevivedEntryUntold) {
                return Ok(());
            }
        }
        // The row is new, whatever its entry has been: scans that leave out what is deleted must come here again.
        let KeyAndRow(key, rid) = found.key;
        self.dead_prefixes.inserted(key, rid);
        Ok(())
    }
    /// Puts an entry that is not there at its place in the leaf.
    fn put_at<'a>(
        &'a self,
        txn: &mut Transaction,
        (block, idx): (u32, usize),
        mut page: WriteGuard<'a>,
        entry_key: KeyAndRow<'_>,
        held: bool,
    ) -> Result<bool> {
        let KeyAndRow(key, rid) = entry_key;
        let target = self.target(block);
        let entry = node::build(key, rid, None, u64::from(held));
        if node::room(page.page()) < entry.len() + 2 {
            self.split(block, page, idx)?;
            return Ok(false);
        }
        if !held {
            self.add_entry(txn, &mut page, (target, idx), &entry, entry_key)?;
            return Ok(true);
        }
        let mut record = txn.record(self, UndoKind::IndexInsert, 0, 0, 0, 0);
        record.data = index_data(&[], rid, key);
        let entry = OnceCell::new();
        let build = |a| {
            let entry = entry.get_or_init(|| node::build(key, rid, None, a));
            vec![(target, PageOp::TreeInsert { idx, entry })]
        };
        txn.change(self, &record, build, &[0], &mut [&mut page])?;
        self.dead_prefixes.inserted(key, rid);
        Ok(true)
    }
    /// Puts an entry in its place on its latched leaf, which has room for it.
    pub(super) fn add_entry(
        &self,
        txn: &mut Transaction,
        page: &mut WriteGuard<'_>,
        place: (PageTarget, usize),
        entry: &[u8],
        entry_key: KeyAndRow<'_>,
    ) -> Result<()> {
        let KeyAndRow(key, rid) = entry_key;
        let (target, idx) = place;
        assert!(key.len() <= MAX_KEY && node::room(page.page()) >= entry.len() + 2, "an entry that fits");
        debug_assert!(is_place_of(&page.view(), idx, entry_key), "entries stay in order");
        let mut record = txn.record(self, UndoKind::IndexInsert, 0, 0, 0, 0);
        record.data = index_data(&[], rid, key);
        txn.change(self, &record, |_| vec![(target, PageOp::TreeInsert { idx, entry })], &[0], &mut [page])?;
        self.dead_prefixes.inserted(key, rid);
        Ok(())
    }
    /// Waits until the transaction has ended (or has taken something back).
    fn wait_for(&self, txn: &mut Transaction, xid: u64, park: &dyn Park) -> Result<()> {
        let core = &*self.core;
        txn.pass_turn();
        let key = (0, xid);
        let holder = core.xids.owner(xid);
        let mut untangled = 0;
        loop {
            core.rows.watch(holder, key);
            let mut cycle = None;
            let register = |_| {
                cycle = core.waits.wait(txn.owner, &[holder], RowWait { xid, row: None, in_line: false });
                cycle.is_none()
            };
            if core.rows.enqueue(key, txn.owner, park.wake_handle(), 0, register).is_some() {
                break;
            }
            txn.resolve(cycle, &mut untangled)?;
        }
        if !core.xids.mark_waited_for(xid) {
            core.waits.done(txn.owner);
            core.let_look(core.rows.leave(key, txn.owner).next);
            core.let_look(core.rows.free_watched(holder));
            return Ok(());
        }
        let parked = core.unended.check(xid).and_then(|()| park.park(None));
        core.waits.done(txn.owner);
        core.let_look(core.rows.leave(key, txn.owner).next);
        parked
    }
    /// A live (committed, own, or undecided: then waited for) row with this key, for ON CONFLICT and foreign keys.
    pub fn index_find_live(
        &self,
        txn: &mut Transaction,
        heap: &Relation,
        key: &[u8],
        park: &dyn Park,
    ) -> Result<Option<RowId>> {
        Ok(self.index_find_live_anywhere(txn, heap, key, park)?.map(|(_, rid)| rid))
    }
    /// Finds a live row with a key, and the heap that it is in, which is another one only in trees whose entries name
    /// their heaps.
    pub fn index_find_live_anywhere(
        &self,
        txn: &mut Transaction,
        heap: &Relation,
        key: &[u8],
        park: &dyn Park,
    ) -> Result<Option<(RelationId, RowId)>> {
        let txn = txn.of(self)?;
        txn.pin();
        let sought = self.sought(key);
        'again: loop {
            for entry in self.entries_of(sought)? {
                match self.entry_liveness(heap, &entry, txn)? {
                    Liveness::Dead => {}
                    Liveness::Undecided(xid) => {
                        self.wait_for(txn, xid, park)?;
                        continue 'again;
                    }
                    Liveness::Live => {
                        // The slot may have been another row's by now: then the entry is gone.
                        if self.has_entry(sought, &entry)? {
                            let heap = if sought.names_heap { RelationId(entry.heap) } else { heap.id() };
                            return Ok(Some((heap, RowId::from_u64(entry.rid))));
                        }
                        continue 'again;
                    }
                }
            }
            return Ok(None);
        }
    }
    fn entries_of(&self, sought: SearchedKey<'_>) -> Result<KeyEntries> {
        loop {
            let mut found = KeyEntries::new();
            let first = self.descend(0, KeyAndRow(sought.key, 0))?;
            if self.gather_rest(RemainingEntries::In(first, None), sought, &mut found)? {
                trace::note(|| TracedOperation::FindKey { tree: self.id(), entries: found.len() });
                return Ok(found);
            }
        }
    }
    fn has_entry(&self, sought: SearchedKey<'_>, entry: &KeyEntry) -> Result<bool> {
        let mut key = sought.key.to_vec();
        if sought.names_heap {
            key.extend_from_slice(&Relation::heap_name(RelationId(entry.heap)));
        }
        let key = KeyAndRow(&key, entry.rid);
        self.read_leaf(key, |v| Relation::find_exact(v, key).is_some())
    }
    /// The heaps that have entries of this key, which comes without a heap's name, in a tree whose entries name their
    /// heaps. A heap in which the snapshot sees a row with the key is among them.
    pub fn heaps_with(&self, snapshot: &Snapshot, key: &[u8]) -> Result<Vec<RelationId>> {
        let snapshot = snapshot.of(self)?;
        if let Some(reader) = self.watched(&snapshot.reader)? {
            self.note_unique_part(reader, key);
        }
        let mut heaps: Vec<RelationId> =
            self.entries_of(SearchedKey { key, names_heap: true })?.iter().map(|e| RelationId(e.heap)).collect();
        heaps.dedup();
        Ok(heaps)
    }
}
