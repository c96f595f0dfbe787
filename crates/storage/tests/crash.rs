//! Crashes at random moments: a simulated disk keeps what was synced and a random part of what was not, torn at
//! sectors. After recovery the rows must be those of a commit that is no older than the last one acknowledged.
mod support;
use kilndb_base::park::ThreadPark;
use kilndb_base::{Result, RowId};
use kilndb_storage::*;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use support::Rng;
use support::disk::{DiskFault, SimEnv};

fn config(buffers: u64) -> EngineConfig {
    EngineConfig {
        data_dir: PathBuf::from("/sim"),
        shared_buffers_bytes: buffers,
        huge_pages: true,
        wal_buffers_bytes: 1 << 20,
        max_wal_size_bytes: 32 << 20,
        checkpoint_timeout_s: 300,
        checkpoint_completion_target: 0.1,
        wal_writer_delay_ms: 1,
        startup_progress_interval_ms: 0,
        limits: Default::default(),
        fsync: true,
        accept_lost_log: false,
        workers: 2,
        log: Arc::new(|_, _| {}),
    }
}
const W: WriteOptions = WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: false };
type Model = BTreeMap<u32, Vec<u8>>;

fn ik(k: u32) -> Vec<u8> {
    k.to_be_bytes().to_vec()
}
fn row(k: u32, v: &[u8]) -> Vec<u8> {
    let mut r = k.to_le_bytes().to_vec();
    r.extend_from_slice(v);
    r
}
/// Rows by scan, checked against the index both ways.
fn read_all(e: &Arc<Engine>, heap: &Arc<Relation>, index: &Arc<Relation>) -> Model {
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let s = t.take_snapshot();
    let mut model = Model::new();
    let mut batch = RowBatch::default();
    let mut count = 0;
    for b in 0..heap.pages() {
        heap.scan_block(b, &s, &mut batch).unwrap();
        count += heap.count_block(b, &s).unwrap() as usize;
        for i in 0..batch.rows.len() {
            let r = batch.row(i);
            assert!(
                model.insert(u32::from_le_bytes(r[..4].try_into().unwrap()), r[4..].to_vec()).is_none(),
                "duplicate row"
            );
        }
    }
    assert_eq!(count, model.len());
    for backward in [false, true] {
        let mut through = Model::new();
        let mut scan = index.index_scan(Bound::Unbounded, Bound::Unbounded, backward);
        let (mut keys, mut ends, mut rids) = (vec![], vec![], vec![]);
        while scan.next_batch(&mut keys, &mut ends, &mut rids).unwrap() {}
        let mut a = 0;
        let mut out = Vec::new();
        for (end, rid) in ends.iter().zip(&rids) {
            let key = u32::from_be_bytes(keys[a..*end as usize].try_into().unwrap());
            a = *end as usize;
            if let Fetched::Visible { recheck } = heap.fetch(*rid, &s, &mut out).unwrap() {
                let k = u32::from_le_bytes(out[..4].try_into().unwrap());
                assert!(recheck || k == key, "entry {key} leads to row {k}");
                if k == key {
                    assert!(through.insert(k, out[4..].to_vec()).is_none());
                }
            }
        }
        assert!(through == model, "index and heap differ: {} {}", through.len(), model.len());
    }
    model
}
fn find(t: &mut Transaction, heap: &Relation, index: &Relation, k: u32, p: &ThreadPark) -> Result<Option<RowId>> {
    index.index_find_live(t, heap, &ik(k), p)
}
/// The rows that the snapshot sees, by block and slot: ids, keys.
fn all_rows(heap: &Relation, s: &Snapshot) -> Result<Vec<(RowId, u32)>> {
    let mut batch = RowBatch::default();
    let mut all = Vec::new();
    for block in 0..heap.pages() {
        heap.scan_block(block, s, &mut batch)?;
        all.extend(
            (0..batch.rows.len()).map(|i| (batch.rows[i].0, u32::from_le_bytes(batch.row(i)[..4].try_into().unwrap()))),
        );
    }
    Ok(all)
}
/// An UPDATE of all rows, or of every third: one byte of each, or all get new values.
fn change_many(t: &mut Transaction, heap: &Relation, s: &Snapshot, m: &mut Model, rng: &mut Rng) -> Result<()> {
    let p = ThreadPark::new();
    let (every, value) = (1 + 2 * rng.below(2) as usize, rng.next() as u8);
    let whole = rng.below(3) == 0;
    let mut rows = RowBatch::default();
    for (rid, k) in all_rows(heap, s)?.into_iter().step_by(every) {
        let mut v = m[&k].clone();
        match v.len() / 2 {
            _ if whole => v = vec![value; rng.below(200) as usize],
            0 => {}
            middle => v[middle] = value,
        }
        rows.push(rid, &row(k, &v));
        m.insert(k, v);
    }
    let mut at = 0;
    while at < rows.rows.len() {
        at += heap.update_many(t, s, &rows, &[], at)?;
        if let Some((rid, _, _)) = rows.rows.get(at) {
            assert_eq!(heap.update(t, *rid, rows.row(at), &[], &W.with(s, &p))?, WriteOutcome::Done);
            at += 1;
        }
    }
    Ok(())
}
fn delete_many(
    t: &mut Transaction,
    heap: &Arc<Relation>,
    index: &Arc<Relation>,
    s: &Snapshot,
    m: &mut Model,
    rng: &mut Rng,
) -> Result<()> {
    let p = ThreadPark::new();
    let all: Vec<_> = all_rows(heap, s)?.into_iter().step_by(1 + rng.below(3) as usize).collect();
    let rids: Vec<RowId> = all.iter().map(|(rid, _)| *rid).collect();
    let keys: Vec<Vec<u8>> = all.iter().map(|(_, k)| ik(*k)).collect();
    let mut at = 0;
    while at < rids.len() {
        let done = heap.delete_many(t, s, &rids[at..])?;
        index.retire_many(t, heap, (at..at + done).map(|n| (rids[n], keys[n].as_slice())))?;
        at += done;
        if let Some(rid) = rids.get(at) {
            assert_eq!(heap.delete(t, *rid, &[(index, &keys[at])], &W.with(s, &p))?, WriteOutcome::Done);
            at += 1;
        }
    }
    all.iter().for_each(|(_, k)| drop(m.remove(k)));
    Ok(())
}
/// One random transaction; the model is what it makes of it. Err: the disk has died.
fn transaction(
    e: &Arc<Engine>,
    heap: &Arc<Relation>,
    index: &Arc<Relation>,
    model: &Model,
    rng: &mut Rng,
) -> Result<Option<(Model, Option<kilndb_base::Lsn>)>> {
    let p = ThreadPark::new();
    let mut t = e.begin(
        if rng.below(4) == 0 { Isolation::RepeatableRead } else { Isolation::ReadCommitted },
        rng.below(2) as usize,
    );
    let mut m = model.clone();
    let mut saved: Vec<(Savepoint, Model)> = Vec::new();
    for _ in 0..1 + rng.below(12) {
        let s = t.take_snapshot();
        let k = rng.below(200) as u32;
        let len = match rng.below(20) {
            0 => rng.below(30_000),
            1 | 2 => rng.below(3000),
            _ => rng.below(120),
        };
        let v = vec![rng.next() as u8; len as usize];
        let op = rng.below(15);
        let rid = find(&mut t, heap, index, k, &p)?;
        assert_eq!(rid.is_some(), m.contains_key(&k), "key {k}");
        match (op, rid) {
            (0..=4, None) => {
                let rid = heap.insert(&mut t, &row(k, &v))?;
                assert_eq!(
                    index.index_insert(&mut t, heap, &ik(k), rid, Uniqueness::Unique, &p)?,
                    IndexInsert::Inserted
                );
                m.insert(k, v);
            }
            (0..=5, Some(rid)) => {
                assert_eq!(heap.update(&mut t, rid, &row(k, &v), &[], &W.with(&s, &p))?, WriteOutcome::Done);
                m.insert(k, v);
            }
            (6, Some(rid)) => {
                let new = rng.below(200) as u32;
                if find(&mut t, heap, index, new, &p)?.is_none() {
                    let o = WriteOptions { key_update: true, ..W };
                    assert_eq!(
                        heap.update(&mut t, rid, &row(new, &v), &[(index, &ik(k))], &o.with(&s, &p))?,
                        WriteOutcome::Done
                    );
                    assert_eq!(
                        index.index_insert(&mut t, heap, &ik(new), rid, Uniqueness::Unique, &p)?,
                        IndexInsert::Inserted
                    );
                    m.remove(&k);
                    m.insert(new, v);
                }
            }
            (7 | 8, Some(rid)) => {
                assert_eq!(heap.delete(&mut t, rid, &[(index, &ik(k))], &W.with(&s, &p))?, WriteOutcome::Done);
                m.remove(&k);
            }
            (9, _) => saved.push((t.savepoint(), m.clone())),
            (10, _) => {
                if let Some((sp, old)) = saved.pop() {
                    t.rollback_to(&sp, &p)?;
                    m = old;
                }
            }
            (11, Some(rid)) => {
                heap.lock_row(&mut t, rid, RowLockMode::Update, &W.with(&s, &p))?;
            }
            (12 | 13, _) => change_many(&mut t, heap, &s, &mut m, rng)?,
            (14, _) if rng.below(3) == 0 => delete_many(&mut t, heap, index, &s, &mut m, rng)?,
            _ => {}
        }
        t.next_command();
    }
    if rng.below(6) == 0 {
        t.rollback(&p)?;
        return Ok(None);
    }
    let lsn = t.commit(if rng.below(2) == 0 { CommitMode::Sync } else { CommitMode::Async }, &p)?;
    Ok(Some((m, lsn)))
}

/// Relations come and go beside the main ones; their space must never be given out twice.
fn side_work(e: &Arc<Engine>, extra: &mut Vec<kilndb_base::RelationId>, rng: &mut Rng) -> Result<()> {
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 1);
    if extra.len() > 3 || (!extra.is_empty() && rng.below(3) == 0) {
        let id = extra.swap_remove(rng.below(extra.len() as u64) as usize);
        if e.relation(id).is_ok() {
            e.drop_relation(&mut t, id)?;
        }
        if rng.below(4) == 0 {
            extra.push(id);
            return t.rollback(&p);
        }
        t.commit(CommitMode::Async, &p)?;
        return Ok(());
    }
    let persistence = match rng.below(3) {
        0 => Persistence::Unlogged,
        1 => Persistence::Temporary,
        _ => Persistence::Logged,
    };
    let heap = e.create_relation(&mut t, RelationKind::Heap, persistence)?;
    let index = e.create_relation(&mut t, RelationKind::BTree, persistence)?;
    for i in 0..rng.below(60) {
        let rid = heap.insert(&mut t, &vec![3; rng.below(3000) as usize])?;
        index.index_insert(&mut t, &heap, &i.to_be_bytes(), rid, Uniqueness::Unique, &p)?;
    }
    if rng.below(3) == 0 {
        return t.rollback(&p);
    }
    t.commit(CommitMode::Async, &p)?;
    extra.push(heap.id());
    extra.push(index.id());
    Ok(())
}
fn run(seed: u64, rounds: usize, buffers: u64) {
    let mut extra = Vec::new();
    let mut rng = Rng::new(seed);
    let mut env = Arc::new(SimEnv::default());
    let (heap_id, index_id) = {
        let e = Engine::open(env.clone(), config(buffers)).unwrap();
        let p = ThreadPark::new();
        let mut t = e.begin(Isolation::ReadCommitted, 0);
        let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
        let index = e.create_relation(&mut t, RelationKind::BTree, Persistence::Logged).unwrap();
        index.set_heap(heap.id());
        let lsn = t.commit(CommitMode::Sync, &p).unwrap().unwrap();
        e.wait_flushed(lsn, &p).unwrap();
        (heap.id(), index.id())
    };
    let mut possible: Vec<Model> = vec![Model::new()];
    env = env.after_power_loss(&mut rng);
    for round in 0..rounds {
        let limit = 20 + rng.below(600) as i64;
        // Sometimes the crash comes during recovery.
        let early = rng.below(3) == 0;
        env = env.after_power_loss(&mut rng);
        if early {
            env.arm(limit, DiskFault::PowerLoss);
        }
        let e = match Engine::open(env.clone(), config(buffers)) {
            Ok(e) => e,
            Err(err) if env.dead() => {
                let _ = err;
                continue;
            }
            Err(err) => panic!("seed {seed} round {round}: {err}"),
        };
        let dead = || env.dead();
        let heap = e.relation(heap_id).unwrap();
        let index = e.relation(index_id).unwrap();
        let found = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| read_all(&e, &heap, &index))) {
            Ok(f) => f,
            Err(_) if dead() => continue,
            Err(_) => panic!("seed {seed} round {round}: read failed"),
        };
        assert!(
            possible.contains(&found),
            "seed {seed} round {round}: the rows are of no commit that may have survived ({} candidates)",
            possible.len()
        );
        possible = vec![found.clone()];
        let mut model = found;
        if !dead() {
            env.arm(limit, DiskFault::PowerLoss);
        }
        let mut holder = None;
        for step in 0..400 {
            if dead() {
                break;
            }
            if rng.below(40) == 0 {
                let mut t = e.begin(Isolation::RepeatableRead, 1);
                let s = t.take_snapshot();
                holder = Some((t, s));
            } else if rng.below(20) == 0 {
                holder = None;
            }
            match transaction(&e, &heap, &index, &model, &mut rng) {
                Ok(Some((m, lsn))) => {
                    model = m;
                    possible.push(model.clone());
                    if let Some(lsn) = lsn.filter(|_| rng.below(3) == 0) {
                        while e.flushed_lsn() < lsn && !dead() {
                            std::thread::sleep(Duration::from_micros(100));
                        }
                        if e.flushed_lsn() >= lsn {
                            possible = vec![model.clone()];
                        }
                    }
                }
                Ok(None) => {}
                Err(_) if dead() => break,
                Err(err) => panic!("seed {seed} round {round} step {step}: {err}"),
            }
            if rng.below(15) == 0
                && let Err(err) = side_work(&e, &mut extra, &mut rng)
            {
                assert!(dead(), "seed {seed} round {round}: {err}");
            }
            if rng.below(100) == 0 {
                let _ = e.checkpoint(&ThreadPark::new());
            }
        }
        drop(holder);
        if dead() || rng.below(3) != 0 {
            drop((heap, index));
            continue;
        }
        let shut = e.shutdown();
        drop((heap, index));
        if shut.is_ok() && !dead() {
            drop(e);
            match check(env.clone(), PathBuf::from("/sim")) {
                Ok(wrong) => assert!(wrong.is_empty(), "seed {seed} round {round}: {wrong:#?}"),
                // The power fails while it reads.
                Err(err) => assert!(dead(), "seed {seed} round {round}: {err}"),
            }
            possible = vec![model];
        }
    }
    // At last: recover, shut down, verify.
    let env = env.after_power_loss(&mut rng);
    let e = Engine::open(env.clone(), config(buffers)).unwrap();
    let (heap, index) = (e.relation(heap_id).unwrap(), e.relation(index_id).unwrap());
    assert!(possible.contains(&read_all(&e, &heap, &index)), "seed {seed}: at last");
    drop((heap, index));
    e.shutdown().unwrap();
    drop(e);
    let wrong = check(env, PathBuf::from("/sim")).unwrap();
    assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
}

#[test]
fn survives_crashes() {
    for seed in support::seeds(4) {
        run(seed, 12, if seed % 2 == 0 { 4 << 20 } else { 64 * 8192 });
    }
}
