//! Inserting entries, uniqueness, looking for live rows with a key.
//!
//! Invariants
//! 1. Uniqueness is judged while the leaf where the key's entries begin is latched: two inserters of one key meet there,
//!    and an entry found there leads to its row, since purge takes the entry before the slot.
//! 2. An undecided row is waited for with nothing latched, then everything is looked at again.
//!
//! Must not know: which constraint it is.

use super::node::{self, Key, MAX_KEY, RETIRED, Side};
use crate::api::{IndexInsert, Uniqueness};
use crate::buffer::WriteGuard;
use crate::directory::Relation;
use crate::heap::page::ADDRESS;
use crate::heap::write::Liveness;
use crate::page::{KIND_TREE, View};
use crate::txn::Transaction;
use crate::txn::table::Status;
use crate::undo::record::{UndoKind, index_data};
use crate::wal::record::Op;
use kilndb_base::park::Park;
use kilndb_base::{Error, Result, RowId, sqlstate};
use std::cell::OnceCell;

/// Entries of one key: row id and stamp.
type Candidates = Vec<(u64, u64)>;

/// What a look at one leaf says about the rest.
enum Rest {
    None,
    /// Entries from this row id on may be in that block.
    In(u32, u64),
    /// The block is another node by now.
    Moved,
}

impl Relation {
    /// Adds the entries of `key` from row id `from` on that are in this block.
    fn gather(&self, v: &View, block: u32, key: &[u8], from: u64, found: &mut Candidates) -> Rest {
        if !v.is(KIND_TREE, self.id, block) || node::level(v) != 0 {
            return Rest::Moved;
        }
        match node::side(v, Key(key, from)) {
            Side::Left => return Rest::Moved,
            Side::Right => return Rest::In(node::right(v), from),
            Side::Inside => {}
        }
        for idx in node::lower_bound(v, Key(key, from))..node::count(v) {
            match node::entry(v, idx) {
                Some(e) if e.key == key => found.push((e.rid, e.stamp)),
                _ => return Rest::None,
            }
        }
        match node::high(v) {
            Some(high) if high.key == key => Rest::In(node::right(v), high.rid),
            _ => Rest::None,
        }
    }
    /// Goes on to the right until all entries of `key` are gathered; false: nodes have moved, look again.
    fn gather_rest(&self, mut rest: Rest, key: &[u8], found: &mut Candidates) -> Result<bool> {
        loop {
            let (block, from) = match rest {
                Rest::None => return Ok(true),
                Rest::Moved => return Ok(false),
                Rest::In(block, from) => (block, from),
            };
            let mark = found.len();
            rest = self.core.pool.read(self.pid(block)?, |v| {
                found.truncate(mark);
                self.gather(&v, block, key, from, found)
            })?;
        }
    }
}

impl Relation {
    fn check_key(key: &[u8]) -> Result<()> {
        if key.len() > MAX_KEY {
            return Err(Error::new(
                sqlstate::PROGRAM_LIMIT_EXCEEDED,
                format!("index row size {} exceeds btree maximum {MAX_KEY}", key.len()),
            ));
        }
        Ok(())
    }
    /// `heap` is where the row ids lead (to see who is alive). Waits for undecided conflicting rows.
    pub fn index_insert(
        &self,
        txn: &mut Transaction,
        heap: &Relation,
        key: &[u8],
        rid: RowId,
        uniqueness: Uniqueness,
        park: &dyn Park,
    ) -> Result<IndexInsert> {
        let txn = txn.of(self)?;
        Relation::check_key(key)?;
        txn.begin_write()?;
        let rid = rid.to_u64();
        loop {
            if uniqueness == Uniqueness::NotUnique {
                let (block, page) = self.latch_node(0, Key(key, rid))?;
                if self.put_entry(txn, block, page, key, rid)? {
                    txn.wrote_key(self, key, rid)?;
                    return Ok(IndexInsert::Inserted);
                }
                continue;
            }
            let (block, page) = self.latch_node(0, Key(key, 0))?;
            let mut found = Candidates::new();
            let rest = self.gather(&page.view(), block, key, 0, &mut found);
            if !self.gather_rest(rest, key, &mut found)? {
                continue;
            }
            let mut undecided = None;
            for &(other, stamp) in found.iter().filter(|(other, _)| *other != rid) {
                match self.entry_liveness(heap, other, stamp, txn)? {
                    Liveness::Dead => {}
                    Liveness::Live => {
                        drop(page);
                        // Who looked whether the key is free is told of dependencies rather than of the duplicate.
                        txn.wrote_key(self, key, rid)?;
                        return Ok(IndexInsert::Conflict(RowId::from_u64(other)));
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
            let done = if node::side(&page.view(), Key(key, rid)) == Side::Inside {
                self.put_entry(txn, block, page, key, rid)?
            } else {
                let mut at = node::right(&page.view());
                loop {
                    let other = self.core.pool.write(self.pid(at)?)?;
                    let v = other.view();
                    if !v.is(KIND_TREE, self.id, at) || node::level(&v) != 0 || node::side(&v, Key(key, rid)) == Side::Left {
                        // Taken out since its neighbour named it.
                        break false;
                    }
                    if node::side(&other.view(), Key(key, rid)) == Side::Inside {
                        // A split of that leaf needs the parent, which nobody holds while waiting for a leaf.
                        let done = self.put_entry(txn, at, other, key, rid)?;
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
    fn entry_liveness(&self, heap: &Relation, rid: u64, stamp: u64, txn: &Transaction) -> Result<Liveness> {
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
    /// Inserts (or revives) the entry in its latched leaf; false: the leaf was split, look again.
    fn put_entry<'a>(&'a self, txn: &mut Transaction, block: u32, mut page: WriteGuard<'a>, key: &[u8], rid: u64) -> Result<bool> {
        let target = self.target(block);
        if let Some((idx, old)) = Relation::find_exact(&page.view(), Key(key, rid)) {
            if old & RETIRED != 0 {
                let mut record = txn.record(self, UndoKind::IndexRevive, 0, 0, 0, 0);
                record.data = index_data(&old.to_le_bytes(), rid, key);
                let entry = OnceCell::new();
                let build = |a| {
                    let entry = entry.get_or_init(|| node::build(key, rid, None, a));
                    vec![(target, Op::TreeReplace { idx, entry })]
                };
                txn.change(self, &record, build, &[0], &mut [&mut page])?;
            }
            return Ok(true);
        }
        let entry = node::build(key, rid, None, 0);
        let idx = node::lower_bound(&page.view(), Key(key, rid));
        if node::room(page.page()) < entry.len() + 2 {
            self.split(block, page, idx)?;
            return Ok(false);
        }
        let mut record = txn.record(self, UndoKind::IndexInsert, 0, 0, 0, 0);
        record.data = index_data(&[], rid, key);
        txn.change(self, &record, |_| vec![(target, Op::TreeInsert { idx, entry: &entry })], &[0], &mut [&mut page])?;
        self.dead_prefixes.inserted(key, rid);
        Ok(true)
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
                cycle = core.waits.wait(txn.owner, &[holder], false);
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
        let parked = park.park(None);
        core.waits.done(txn.owner);
        core.let_look(core.rows.leave(key, txn.owner).next);
        parked
    }
    /// A live (committed, own, or undecided: then waited for) row with this key, for ON CONFLICT and foreign keys.
    pub fn index_find_live(&self, txn: &mut Transaction, heap: &Relation, key: &[u8], park: &dyn Park) -> Result<Option<RowId>> {
        let txn = txn.of(self)?;
        txn.pin();
        'again: loop {
            let mut found = Candidates::new();
            let first = self.descend(0, Key(key, 0))?;
            if !self.gather_rest(Rest::In(first, 0), key, &mut found)? {
                continue;
            }
            for (rid, stamp) in found {
                match self.entry_liveness(heap, rid, stamp, txn)? {
                    Liveness::Dead => {}
                    Liveness::Undecided(xid) => {
                        self.wait_for(txn, xid, park)?;
                        continue 'again;
                    }
                    Liveness::Live => {
                        // The slot may have been another row's by now: then the entry is gone.
                        let block = self.descend(0, Key(key, rid))?;
                        let still = self.core.pool.read(self.pid(block)?, |v| Relation::find_exact(&v, Key(key, rid)).is_some())?;
                        if still {
                            return Ok(Some(RowId::from_u64(rid)));
                        }
                        continue 'again;
                    }
                }
            }
            return Ok(None);
        }
    }
}
