//! Old snapshots beside changes of all kinds, one row at a time and in bulk, against a model: while undo is compacted,
//! rows are pruned, index entries purged and slots and entries used again, each open snapshot sees by scan, by index
//! and by row id what it saw when it was taken. Limits are small, so that statements are refused; and the power fails.
mod support;

use kilndb_base::{Error, Result, RowId, sqlstate};
use kilndb_storage::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::Rng;
use support::disk::{DiskFault, SimEnv, SimPark, simulated_process};

const W: WriteOptions = WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: false };
/// Rows have ids below this one, and one of so many second keys.
const IDS: u64 = 400;
const VALUES: u64 = 6;
const WRITERS: usize = 3;
const SNAPSHOTS: usize = 10;

#[derive(Clone, PartialEq, Eq)]
struct Row(Vec<u8>);
impl Row {
    fn new(id: u32, value: u8, payload: &[u8]) -> Row {
        Row([&id.to_be_bytes()[..], &[value], payload].concat())
    }
    fn id(&self) -> u32 {
        u32::from_be_bytes(self.0[..4].try_into().unwrap())
    }
    /// Its keys in the two indexes.
    fn keys(&self) -> [Vec<u8>; 2] {
        [self.0[..4].to_vec(), vec![self.0[4]; 20]]
    }
}
type Rows = BTreeMap<RowId, Row>;
/// The rows that a transaction has written, with their new values; None: deleted.
type OwnChanges = BTreeMap<RowId, Option<Row>>;

fn merged(committed: &Rows, own: &OwnChanges) -> Rows {
    let mut all = committed.clone();
    for (rid, row) in own {
        match row {
            Some(row) => drop(all.insert(*rid, row.clone())),
            None => drop(all.remove(rid)),
        }
    }
    all
}

struct Writer {
    t: Transaction,
    own: OwnChanges,
    saved: Option<(Savepoint, OwnChanges)>,
}
struct HeldSnapshot {
    _t: Transaction,
    s: Snapshot,
    rows: Arc<Rows>,
}

#[derive(Default)]
struct Counts {
    refused: u64,
    looks: u64,
    /// Bytes of the versions that were replaced.
    replaced: u64,
    most_undo: u64,
}

struct World {
    what: String,
    env: Arc<SimEnv>,
    e: Arc<Engine>,
    heap: Arc<Relation>,
    indexes: [Arc<Relation>; 2],
    /// A row that has nothing to do with the others.
    other: Option<(Arc<Relation>, RowId)>,
    rng: Rng,
    park: SimPark,
    committed: Arc<Rows>,
    /// The states that a power loss may leave, oldest first, with the place in the log where each is durable.
    possible: Vec<(Option<kilndb_base::Lsn>, Arc<Rows>)>,
    writers: Vec<Writer>,
    held: Vec<HeldSnapshot>,
    long: bool,
    counts: Counts,
}

fn open(env: &Arc<SimEnv>, limits: StorageLimits, buffers: u64) -> Result<Arc<Engine>> {
    let config = EngineConfig { limits, max_wal_size_bytes: 32 << 20, ..simulated_process(env, buffers) };
    Engine::open(env.clone(), config)
}

impl World {
    fn new(seed: u64, limits: StorageLimits, buffers: u64) -> World {
        let env = Arc::new(SimEnv::default());
        let e = open(&env, limits, buffers).unwrap();
        let park = SimPark::new(&env);
        let mut t = e.begin(Isolation::ReadCommitted, 0);
        let mut create = |kind| e.create_relation(&mut t, kind, Persistence::Logged).unwrap();
        let heap = create(RelationKind::Heap);
        let indexes = [(); 2].map(|()| create(RelationKind::BTree));
        indexes.iter().for_each(|i| i.set_heap(heap.id()));
        let other = create(RelationKind::Heap);
        let rid = other.insert(&mut t, &[0; 4]).unwrap();
        let lsn = t.commit(CommitMode::Sync, &park).unwrap().unwrap();
        e.wait_flushed(lsn, &park).unwrap();
        World {
            what: format!("seed {seed}"),
            env,
            e,
            heap,
            indexes,
            other: Some((other, rid)),
            rng: Rng::new(seed),
            park,
            committed: Arc::default(),
            possible: vec![(None, Arc::default())],
            writers: Vec::new(),
            held: Vec::new(),
            // With every other seed rows are so long that undo is soon worth compacting.
            long: seed.is_multiple_of(2),
            counts: Counts::default(),
        }
    }

    fn new_row(&mut self, id: u32) -> Row {
        let most = match self.rng.below(40) {
            0 => 20_000,
            1..=3 => 6000,
            _ if self.long => 2500,
            _ => 60,
        };
        let payload = vec![self.rng.next() as u8; self.rng.below(most) as usize];
        Row::new(id, self.rng.below(VALUES) as u8, &payload)
    }
    /// Rows that a writer sees and no other has touched; and ids that nobody uses.
    fn free_rows(&self, at: usize) -> (Rows, Vec<u32>) {
        let mut mine = merged(&self.committed, &self.writers[at].own);
        let mut used: BTreeSet<u32> = mine.values().chain(self.committed.values()).map(Row::id).collect();
        for (n, w) in self.writers.iter().enumerate() {
            used.extend(w.own.values().flatten().map(Row::id));
            if let Some((_, own)) = &w.saved {
                used.extend(own.values().flatten().map(Row::id));
            }
            if n != at {
                w.own.keys().for_each(|rid| _ = mine.remove(rid));
                w.saved.iter().flat_map(|(_, own)| own.keys()).for_each(|rid| _ = mine.remove(rid));
            }
        }
        (mine, (0..IDS as u32).filter(|id| !used.contains(id)).collect())
    }

    /// One statement of a writer, or its end. What fails has changed nothing of the model.
    fn write(&mut self) -> Result<()> {
        if self.writers.len() < WRITERS && self.rng.one_in(5) || self.writers.is_empty() {
            let t = self.e.begin(Isolation::ReadCommitted, self.rng.below(4) as usize);
            self.writers.push(Writer { t, own: OwnChanges::new(), saved: None });
        }
        let at = self.rng.below(self.writers.len() as u64) as usize;
        match self.rng.below(10) {
            0 | 1 => return self.end(at),
            2 => {
                let w = &mut self.writers[at];
                w.saved = Some((w.t.savepoint(), w.own.clone()));
                return Ok(());
            }
            3 => {
                let w = &mut self.writers[at];
                if let Some((savepoint, own)) = w.saved.take() {
                    w.t.rollback_to(&savepoint, &self.park)?;
                    w.own = own;
                }
                return Ok(());
            }
            _ => {}
        }
        self.writers[at].t.next_command();
        let savepoint = self.writers[at].t.savepoint();
        match self.change(at) {
            Ok(own) => self.writers[at].own.extend(own),
            Err(e) if e.sqlstate() == sqlstate::PROGRAM_LIMIT_EXCEEDED && !self.env.dead() => {
                self.counts.refused += 1;
                let mut w = self.writers.swap_remove(at);
                if self.rng.one_in(2) {
                    w.t.rollback_to(&savepoint, &self.park)?;
                    self.writers.push(w);
                } else {
                    w.t.rollback(&self.park)?;
                }
                // Whoever keeps it from going on: the oldest ones.
                self.held.drain(..self.held.len().min(2));
                if self.rng.one_in(2) {
                    self.writers.drain(..1.min(self.writers.len())).try_for_each(|mut w| w.t.rollback(&self.park))?;
                }
            }
            Err(e) => return Err(e),
        }
        Ok(())
    }
    fn end(&mut self, at: usize) -> Result<()> {
        let mut w = self.writers.swap_remove(at);
        if self.rng.one_in(3) {
            return w.t.rollback(&self.park);
        }
        let state = Arc::new(merged(&self.committed, &w.own));
        // From here on it may be found.
        self.possible.push((None, state.clone()));
        let lsn = w.t.commit(CommitMode::Sync, &self.park)?;
        self.committed = state;
        if let Some(last) = self.possible.last_mut() {
            last.0 = lsn;
        }
        if let Some(lsn) = lsn.filter(|_| self.rng.one_in(3)) {
            self.e.wait_flushed(lsn, &self.park)?;
            let last = self.possible.len() - 1;
            self.possible.drain(..last);
        }
        Ok(())
    }

    /// Some rows are inserted, changed or deleted, each by itself or in bulk.
    fn change(&mut self, at: usize) -> Result<OwnChanges> {
        let (mine, ids) = self.free_rows(at);
        let from = self.rng.below(mine.len() as u64 + 1) as usize;
        let most = [2, 10, 200][self.rng.below(3) as usize];
        let every = 1 + self.rng.below(2) as usize;
        let picked: Vec<(RowId, Row)> =
            mine.into_iter().skip(from).step_by(every).take(1 + self.rng.below(most) as usize).collect();
        let s = self.writers[at].t.take_snapshot();
        match self.rng.below(8) {
            0 | 1 => {
                let first = self.rng.below(ids.len() as u64 + 1) as usize;
                let rows: Vec<Row> = ids[first..].iter().take(most as usize).map(|id| self.new_row(*id)).collect();
                self.insert(at, rows)
            }
            2..=4 => {
                // The bytes after the keys.
                let rows: Vec<(RowId, Row)> = picked
                    .into_iter()
                    .map(|(rid, old)| {
                        let new = self.new_row(old.id());
                        self.counts.replaced += old.0.len() as u64;
                        (rid, Row::new(old.id(), old.0[4], &new.0[5..]))
                    })
                    .collect();
                self.update(at, &s, rows)
            }
            5 | 6 => self.change_keys(at, &s, picked),
            _ => self.delete(at, &s, picked),
        }
    }
    fn insert(&mut self, at: usize, rows: Vec<Row>) -> Result<OwnChanges> {
        let t = &mut self.writers[at].t;
        let mut rids = Vec::new();
        if self.rng.one_in(2) {
            let mut batch = RowBatch::default();
            rows.iter().for_each(|row| batch.push(RowId { block: 0, slot: 0 }, &row.0));
            self.heap.insert_many(t, &batch, &mut rids)?;
            for (n, index) in self.indexes.iter().enumerate() {
                let mut entries = RowBatch::default();
                rids.iter().zip(&rows).for_each(|(rid, row)| entries.push(*rid, &row.keys()[n]));
                let stopped = index.index_insert_many(t, &self.heap, &entries, Uniqueness::NotUnique, &self.park)?;
                assert!(stopped.is_none());
            }
        } else {
            for row in &rows {
                let rid = self.heap.insert(t, &row.0)?;
                for (index, key) in self.indexes.iter().zip(row.keys()) {
                    index.index_insert(t, &self.heap, &key, rid, Uniqueness::NotUnique, &self.park)?;
                }
                rids.push(rid);
            }
        }
        for rid in &rids {
            assert!(!self.committed.contains_key(rid), "{}: the slot of a row is given again: {rid:?}", self.what);
        }
        Ok(rids.into_iter().zip(rows.into_iter().map(Some)).collect())
    }
    fn update(&mut self, at: usize, s: &Snapshot, rows: Vec<(RowId, Row)>) -> Result<OwnChanges> {
        let t = &mut self.writers[at].t;
        let mut batch = RowBatch::default();
        rows.iter().for_each(|(rid, row)| batch.push(*rid, &row.0));
        let in_bulk = self.rng.below(4) > 0;
        let mut next = 0;
        while next < rows.len() {
            if in_bulk {
                next += self.heap.update_many(t, s, &batch, &[], next)?;
            }
            if let Some((rid, row)) = rows.get(next) {
                let outcome = self.heap.update(t, *rid, &row.0, &[], &W.with(s, &self.park))?;
                assert_eq!(outcome, WriteOutcome::Done, "{}: {rid:?}", self.what);
                next += 1;
            }
        }
        Ok(rows.into_iter().map(|(rid, row)| (rid, Some(row))).collect())
    }
    /// The second key of each: its entry is retired, and one that was retired before may come to life again.
    fn change_keys(&mut self, at: usize, s: &Snapshot, mut picked: Vec<(RowId, Row)>) -> Result<OwnChanges> {
        let in_bulk = self.rng.one_in(2);
        picked.truncate(if in_bulk { 200 } else { 40 });
        let rows: Vec<(RowId, Row, Row)> = picked
            .into_iter()
            .map(|(rid, old)| {
                let new = self.new_row(old.id());
                (rid, old, new)
            })
            .collect();
        let mut batch = RowBatch::default();
        rows.iter().for_each(|(rid, _, new)| batch.push(*rid, &new.0));
        let rekeyed: Vec<bool> = rows.iter().map(|(_, old, new)| old.keys()[1] != new.keys()[1]).collect();
        let mut changes = EntryChanges::default();
        let mut next = 0;
        while next < rows.len() {
            if in_bulk {
                let done = self.heap.update_many(&mut self.writers[at].t, s, &batch, &rekeyed, next)?;
                for n in (next..next + done).filter(|n| rekeyed[*n]) {
                    let (rid, old, new) = &rows[n];
                    changes.retire(&old.keys()[1], *rid);
                    changes.insert(&new.keys()[1], *rid);
                }
                next += done;
                if self.rng.one_in(3) {
                    self.change_entries(at, &mut changes)?;
                }
            }
            if let Some((rid, old, new)) = rows.get(next) {
                self.change_key(at, s, *rid, old, new)?;
                next += 1;
            }
        }
        self.change_entries(at, &mut changes)?;
        Ok(rows.into_iter().map(|(rid, _, new)| (rid, Some(new))).collect())
    }
    fn change_entries(&mut self, at: usize, changes: &mut EntryChanges) -> Result<()> {
        changes.sort();
        while !changes.is_done() {
            self.indexes[1].index_change_many(&mut self.writers[at].t, changes)?;
        }
        changes.clear();
        Ok(())
    }
    fn change_key(&mut self, at: usize, s: &Snapshot, rid: RowId, old: &Row, new: &Row) -> Result<()> {
        let (old_key, new_key) = (&old.keys()[1], &new.keys()[1]);
        let index = &self.indexes[1];
        let retired: Vec<RetiredKey<'_>> =
            if old_key == new_key { Vec::new() } else { vec![(&**index, old_key.as_slice())] };
        let options = WriteOptions { key_update: true, ..W };
        let t = &mut self.writers[at].t;
        let outcome = self.heap.update(t, rid, &new.0, &retired, &options.with(s, &self.park))?;
        assert_eq!(outcome, WriteOutcome::Done, "{}: {rid:?}", self.what);
        if old_key != new_key {
            index.index_insert(t, &self.heap, new_key, rid, Uniqueness::NotUnique, &self.park)?;
        }
        Ok(())
    }
    fn delete(&mut self, at: usize, s: &Snapshot, picked: Vec<(RowId, Row)>) -> Result<OwnChanges> {
        let t = &mut self.writers[at].t;
        let rids: Vec<RowId> = picked.iter().map(|(rid, _)| *rid).collect();
        let in_bulk = self.rng.one_in(2);
        let mut next = 0;
        while next < rids.len() {
            if in_bulk {
                let done = self.heap.delete_many(t, s, &rids[next..])?;
                for (n, index) in self.indexes.iter().enumerate() {
                    let keys: Vec<_> = picked[next..next + done].iter().map(|(rid, row)| (*rid, row.keys())).collect();
                    index.retire_many(t, &self.heap, keys.iter().map(|(rid, keys)| (*rid, keys[n].as_slice())))?;
                }
                next += done;
            }
            if let Some((rid, row)) = picked.get(next) {
                let keys = row.keys();
                let retired: Vec<RetiredKey<'_>> =
                    self.indexes.iter().zip(&keys).map(|(index, key)| (&**index, key.as_slice())).collect();
                let outcome = self.heap.delete(t, *rid, &retired, &W.with(s, &self.park))?;
                assert_eq!(outcome, WriteOutcome::Done, "{}: {rid:?}", self.what);
                next += 1;
            }
        }
        Ok(rids.into_iter().map(|rid| (rid, None)).collect())
    }

    /// Snapshots come and go, and look again.
    fn look(&mut self) -> Result<()> {
        if self.rng.one_in(6) && self.held.len() < SNAPSHOTS {
            let mut t = self.e.begin(Isolation::RepeatableRead, self.rng.below(4) as usize);
            let s = t.take_snapshot();
            self.held.push(HeldSnapshot { _t: t, s, rows: self.committed.clone() });
        }
        if self.rng.one_in(20) && !self.held.is_empty() {
            // Mostly not the oldest.
            let at = self.rng.below(self.held.len() as u64).max(self.rng.below(2)) as usize;
            if at < self.held.len() {
                let held = self.held.remove(at);
                self.sees(&held.s, &held.rows)?;
            }
        }
        if self.rng.one_in(5) && !self.held.is_empty() {
            let held = &self.held[self.rng.below(self.held.len() as u64) as usize];
            self.sees(&held.s, &held.rows)?;
            self.counts.looks += 1;
        }
        if self.rng.one_in(8) && !self.writers.is_empty() {
            let at = self.rng.below(self.writers.len() as u64) as usize;
            let w = &mut self.writers[at];
            w.t.next_command();
            let (s, rows) = (w.t.take_snapshot(), merged(&self.committed, &w.own));
            self.sees(&s, &rows)?;
        }
        self.counts.most_undo = self.counts.most_undo.max(self.e.undo_bytes());
        Ok(())
    }
    fn differ(&self, found: &Rows, expected: &Rows, how: &str) {
        let brief = |row: Option<&Row>| row.map(|r| (r.id(), r.0[4], r.0.len(), r.0.last().copied()));
        let wrong = found.keys().chain(expected.keys()).find(|rid| found.get(rid) != expected.get(rid));
        assert!(
            wrong.is_none(),
            "{}: {how} finds {} rows instead of {}; at {wrong:?} {:?} instead of {:?}",
            self.what,
            found.len(),
            expected.len(),
            wrong.map(|rid| brief(found.get(rid))),
            wrong.map(|rid| brief(expected.get(rid)))
        );
    }
    /// By scan, by row id, and by index in both directions.
    fn sees(&self, s: &Snapshot, expected: &Rows) -> Result<()> {
        let (mut found, mut count, mut batch) = (Rows::new(), 0, RowBatch::default());
        for block in 0..self.heap.pages() {
            batch.clear();
            self.heap.scan_block(block, s, &mut batch)?;
            count += self.heap.count_block(block, s)? as usize;
            found.extend((0..batch.rows.len()).map(|n| (batch.rows[n].0, Row(batch.row(n).to_vec()))));
        }
        self.differ(&found, expected, "a scan");
        assert_eq!(count, expected.len(), "{}: counted", self.what);
        let mut out = Vec::new();
        // Rows that came later, too.
        for rid in expected.keys().chain(self.committed.keys()) {
            match (self.heap.fetch(*rid, s, &mut out)?, expected.get(rid)) {
                (Fetched::Visible { .. }, Some(row)) => assert!(out == row.0, "{}: {rid:?} by its id", self.what),
                (Fetched::Invisible, None) => {}
                (fetched, _) => panic!("{}: {rid:?} by its id: {fetched:?}", self.what),
            }
        }
        for (n, backward) in [(0, false), (0, true), (1, false), (1, true)] {
            let mut found = Rows::new();
            let mut scan = self.indexes[n].index_scan(Bound::Unbounded, Bound::Unbounded, backward);
            let (mut keys, mut ends, mut rids) = (vec![], vec![], vec![]);
            while scan.next_batch(&mut keys, &mut ends, &mut rids)? {
                let mut from = 0;
                for (at, (end, rid)) in ends.iter().zip(&rids).enumerate() {
                    let key = &keys[from..*end as usize];
                    from = *end as usize;
                    let Fetched::Visible { recheck } = self.heap.fetch(*rid, s, &mut out)? else { continue };
                    let row = Row(out.clone());
                    let is_its_key = row.keys()[n] == key;
                    assert!(
                        recheck || scan.is_retired(at) || is_its_key,
                        "{}: index {n} leads to {rid:?} with another key, and does not say so",
                        self.what
                    );
                    if is_its_key {
                        let twice = found.insert(*rid, row).is_some();
                        assert!(!twice, "{}: index {n} leads to {rid:?} twice", self.what);
                    }
                }
                keys.clear();
                ends.clear();
                rids.clear();
            }
            self.differ(&found, expected, &format!("index {n}, backward {backward},"));
        }
        Ok(())
    }
    /// Many small transactions: a snapshot is old, and the undo that it keeps worth compacting, after a few thousand.
    fn age(&mut self) -> Result<()> {
        let Some((heap, rid)) = &self.other else { return Ok(()) };
        for n in 0..400u32 {
            let mut t = self.e.begin(Isolation::ReadCommitted, 1);
            let s = t.take_snapshot();
            let done = heap.update(&mut t, *rid, &n.to_le_bytes(), &[], &W.with(&s, &self.park));
            drop(s);
            match done {
                Ok(_) => drop(t.commit(CommitMode::Async, &self.park)?),
                Err(e) if e.sqlstate() == sqlstate::PROGRAM_LIMIT_EXCEEDED => return t.rollback(&self.park),
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
    fn step(&mut self) -> Result<()> {
        self.write()?;
        if self.rng.one_in(12) {
            self.age()?;
        }
        self.look()?;
        if self.rng.one_in(150) { self.e.checkpoint(&self.park) } else { Ok(()) }
    }

    /// Everybody goes; then work goes on, and nothing is wrong.
    fn finish(mut self, limits: StorageLimits, buffers: u64) -> Counts {
        for mut w in std::mem::take(&mut self.writers) {
            w.t.rollback(&self.park).unwrap();
        }
        self.held.clear();
        let began = Instant::now();
        while let Err(e) = self.try_insert() {
            assert!(began.elapsed() < Duration::from_secs(20), "{}: refused for ever: {}", self.what, e.message());
            std::thread::sleep(Duration::from_millis(5));
        }
        self.e.shutdown().unwrap();
        let World { what, env, committed, counts, heap, indexes, other, e, .. } = self;
        let ids = [heap.id(), indexes[0].id(), indexes[1].id()];
        drop((heap, indexes, other, e));
        recover(&what, &env.restart(), ids, &[(None, committed)], limits, buffers);
        counts
    }
    fn try_insert(&mut self) -> Result<()> {
        let t = self.e.begin(Isolation::ReadCommitted, 0);
        self.writers.push(Writer { t, own: OwnChanges::new(), saved: None });
        let (_, ids) = self.free_rows(0);
        let row = Row::new(ids.first().copied().unwrap_or(IDS as u32), 0, &[]);
        match self.insert(0, vec![row]) {
            Ok(own) => {
                let mut w = self.writers.remove(0);
                w.t.commit(CommitMode::Async, &self.park)?;
                self.committed = Arc::new(merged(&self.committed, &own));
                Ok(())
            }
            Err(e) => {
                self.writers.remove(0).t.rollback(&self.park)?;
                Err(e)
            }
        }
    }
}

/// Opens what is on the disk: its rows are one of the possible states, whichever way they are read, and a check finds
/// nothing.
fn recover(
    what: &str,
    env: &Arc<SimEnv>,
    ids: [kilndb_base::RelationId; 3],
    possible: &[(Option<kilndb_base::Lsn>, Arc<Rows>)],
    limits: StorageLimits,
    buffers: u64,
) {
    let e = open(env, limits, buffers).unwrap_or_else(|e| panic!("{what}: the server does not start: {}", e.message()));
    let [heap, first, second] = ids.map(|id| e.relation(id).unwrap());
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let s = t.take_snapshot();
    let (mut found, mut batch) = (Rows::new(), RowBatch::default());
    for block in 0..heap.pages() {
        batch.clear();
        heap.scan_block(block, &s, &mut batch).unwrap();
        found.extend((0..batch.rows.len()).map(|n| (batch.rows[n].0, Row(batch.row(n).to_vec()))));
    }
    let is_possible = possible.iter().any(|(_, rows)| **rows == found);
    assert!(is_possible, "{what}: {} rows, of none of {} states that may be found", found.len(), possible.len());
    let world = World {
        what: format!("{what}, recovered"),
        env: env.clone(),
        e: e.clone(),
        heap,
        indexes: [first, second],
        other: None,
        rng: Rng::new(1),
        park: SimPark::new(env),
        committed: Arc::new(found.clone()),
        possible: Vec::new(),
        writers: Vec::new(),
        held: Vec::new(),
        long: false,
        counts: Counts::default(),
    };
    world.sees(&s, &found).unwrap();
    drop((s, t, world));
    e.shutdown().unwrap();
    drop(e);
    let wrong = check(env.restart(), PathBuf::from("/sim")).unwrap();
    assert!(wrong.is_empty(), "{what}: {wrong:#?}");
}

fn small_limits(seed: u64) -> StorageLimits {
    // A statement of 200 long rows takes some ten chunks.
    StorageLimits { xids: 1 << (8 + seed % 3), undo_chunks: 1 << (7 + seed % 4), ..StorageLimits::default() }
}
fn buffers(seed: u64) -> u64 {
    if seed.is_multiple_of(3) { 16 << 20 } else { 64 * 8192 }
}

fn snapshots_do_not_change(seed: u64, limits: StorageLimits) -> Counts {
    let mut world = World::new(seed, limits, buffers(seed));
    for step in 0..600 {
        world.what = format!("seed {seed} step {step}");
        if let Err(e) = world.step() {
            let e: Error = e;
            panic!("{}: {} {}", world.what, e.sqlstate().as_str(), e.message());
        }
    }
    world.finish(limits, buffers(seed))
}

#[test]
fn each_snapshot_sees_what_it_saw() {
    let mut all = Counts::default();
    for seed in support::seeds(6) {
        let counts = snapshots_do_not_change(seed, StorageLimits::default());
        assert_eq!(counts.refused, 0, "seed {seed}");
        all.looks += counts.looks;
        all.replaced += counts.replaced;
    }
    assert!(all.looks > 20 && all.replaced > 1 << 20, "{} looks, {} bytes replaced", all.looks, all.replaced);
}

#[test]
fn each_snapshot_sees_what_it_saw_within_small_limits() {
    let refused: u64 = support::seeds(6).map(|seed| snapshots_do_not_change(seed, small_limits(seed)).refused).sum();
    assert!(refused > 0, "nothing was refused");
}

/// Runs the model until the power fails.
fn lose_power(seed: u64) {
    let limits = if seed % 4 == 3 { small_limits(seed) } else { StorageLimits::default() };
    let mut world = World::new(seed, limits, buffers(seed));
    let operations = 20 + world.rng.below(1500) as i64;
    world.env.arm(operations, DiskFault::PowerLoss);
    for step in 0..2000 {
        world.what = format!("seed {seed} step {step}");
        match world.step() {
            _ if world.env.dead() => break,
            Ok(()) => {}
            Err(e) => panic!("{}: {} {}", world.what, e.sqlstate().as_str(), e.message()),
        }
    }
    // What is durable once it is told: what came before it cannot be found any more.
    let flushed = world.e.flushed_lsn();
    let durable = world.possible.iter().rposition(|(lsn, _)| lsn.is_some_and(|lsn| lsn <= flushed)).unwrap_or(0);
    let World { env, mut rng, possible, heap, indexes, other, e, writers, held, .. } = world;
    let after = if rng.one_in(4) { env.restart() } else { env.after_power_loss(&mut rng) };
    let ids = [heap.id(), indexes[0].id(), indexes[1].id()];
    drop((writers, held, heap, indexes, other, e));
    recover(&format!("seed {seed}"), &after, ids, &possible[durable..], limits, buffers(seed));
}

#[test]
fn power_fails_beside_old_snapshots() {
    support::each_seed(24, lose_power);
}
