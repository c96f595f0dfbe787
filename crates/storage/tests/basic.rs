//! The interface, one thing after the other.
mod support;
use kilndb_base::RowId;
use kilndb_base::env::OsEnv;
use kilndb_base::park::ThreadPark;
use kilndb_storage::*;
use std::ops::Bound;
use std::sync::Arc;
use support::Dir;

fn config(dir: &Dir) -> EngineConfig {
    EngineConfig {
        wal_buffers_bytes: 4 << 20,
        max_wal_size_bytes: 256 << 20,
        checkpoint_completion_target: 0.9,
        wal_writer_delay_ms: 20,
        fsync: true,
        ..support::config(dir.0.clone(), 64 << 20)
    }
}
fn open(dir: &Dir) -> Arc<Engine> {
    Engine::open(Arc::new(OsEnv), config(dir)).unwrap()
}
fn commit(e: &Engine, mut t: Transaction) {
    let p = ThreadPark::new();
    if let Some(lsn) = t.commit(CommitMode::Sync, &p).unwrap() {
        e.wait_flushed(lsn, &p).unwrap();
    }
}
fn rows(e: &Arc<Engine>, r: &Relation) -> Vec<Vec<u8>> {
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let s = t.take_snapshot();
    let mut out = Vec::new();
    let mut n = 0;
    for b in 0..r.pages() {
        let mut batch = RowBatch::default();
        r.scan_block(b, &s, &mut batch).unwrap();
        n += r.count_block(b, &s).unwrap() as usize;
        out.extend((0..batch.rows.len()).map(|i| batch.row(i).to_vec()));
    }
    assert_eq!(n, out.len());
    out
}
const W: WriteOptions = WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: false };

#[test]
fn rows_come_and_go() {
    let dir = Dir::new("rows");
    let e = open(&dir);
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    let a = heap.insert(&mut t, b"alpha").unwrap();
    let b = heap.insert(&mut t, b"beta").unwrap();
    commit(&e, t);
    assert_eq!(rows(&e, &heap), vec![b"alpha".to_vec(), b"beta".to_vec()]);

    let mut old = e.begin(Isolation::RepeatableRead, 1);
    let old_snapshot = old.take_snapshot();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let s = t.take_snapshot();
    assert_eq!(heap.update(&mut t, a, b"alphabet", &[], &W.with(&s, &p)).unwrap(), WriteOutcome::Done);
    let sp = t.savepoint();
    assert_eq!(heap.update(&mut t, b, &[7; 5000], &[], &W.with(&s, &p)).unwrap(), WriteOutcome::Done);
    let big = vec![9u8; 100_000];
    let c = heap.insert(&mut t, &big).unwrap();
    t.next_command();
    let s2 = t.take_snapshot();
    let mut out = Vec::new();
    assert!(matches!(heap.fetch(c, &s2, &mut out).unwrap(), Fetched::Visible { .. }));
    assert_eq!(out, big);
    assert_eq!(heap.update(&mut t, b, &[8; 200_000], &[], &W.with(&s2, &p)).unwrap(), WriteOutcome::Done);
    t.next_command();
    let s2 = t.take_snapshot();
    assert!(matches!(heap.fetch(b, &s2, &mut out).unwrap(), Fetched::Visible { .. }));
    assert_eq!(out, vec![8; 200_000]);
    t.rollback_to(&sp, &p).unwrap();
    assert_eq!(heap.fetch(c, &s2, &mut out).unwrap(), Fetched::Invisible);
    commit(&e, t);
    assert_eq!(rows(&e, &heap), vec![b"alphabet".to_vec(), b"beta".to_vec()]);
    heap.fetch(a, &old_snapshot, &mut out).unwrap();
    assert_eq!(out, b"alpha");
    drop(old_snapshot);
    old.rollback(&p).unwrap();

    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let s = t.take_snapshot();
    assert_eq!(heap.delete(&mut t, a, &[], &W.with(&s, &p)).unwrap(), WriteOutcome::Done);
    t.rollback(&p).unwrap();
    assert_eq!(rows(&e, &heap).len(), 2);
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let s = t.take_snapshot();
    heap.delete(&mut t, a, &[], &W.with(&s, &p)).unwrap();
    commit(&e, t);
    assert_eq!(rows(&e, &heap), vec![b"beta".to_vec()]);
    e.shutdown().unwrap();
    drop(e);
    assert_eq!(check(Arc::new(OsEnv), dir.0.clone()).unwrap(), Vec::<String>::new());
    let e = open(&dir);
    assert!(!e.is_new());
    let heap = e.relation(heap.id()).unwrap();
    assert_eq!(rows(&e, &heap), vec![b"beta".to_vec()]);
}

fn key(i: u32) -> Vec<u8> {
    i.to_be_bytes().to_vec()
}

#[test]
fn index_finds_rows() {
    let dir = Dir::new("index");
    let e = open(&dir);
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    let index = e.create_relation(&mut t, RelationKind::BTree, Persistence::Logged).unwrap();
    index.set_heap(heap.id());
    for i in 0..20_000u32 {
        let k = i.wrapping_mul(7919) % 20_000;
        let rid = heap.insert(&mut t, &k.to_le_bytes()).unwrap();
        assert_eq!(
            index.index_insert(&mut t, &heap, &key(k), rid, Uniqueness::Unique, &p).unwrap(),
            IndexInsert::Inserted
        );
    }
    commit(&e, t);
    let scan = |lo: Bound<Vec<u8>>, hi: Bound<Vec<u8>>, back: bool| {
        let entries = support::scan(&index, lo, hi, back);
        entries.into_iter().map(|(key, rid)| (u32::from_be_bytes(key.try_into().unwrap()), rid)).collect::<Vec<_>>()
    };
    let all = scan(Bound::Unbounded, Bound::Unbounded, false);
    assert_eq!(all.iter().map(|x| x.0).collect::<Vec<_>>(), (0..20_000).collect::<Vec<_>>());
    let back = scan(Bound::Unbounded, Bound::Unbounded, true);
    assert_eq!(back.iter().map(|x| x.0).collect::<Vec<_>>(), (0..20_000).rev().collect::<Vec<_>>());
    let part = scan(Bound::Excluded(key(100)), Bound::Included(key(900)), false);
    assert_eq!(part.iter().map(|x| x.0).collect::<Vec<_>>(), (101..=900).collect::<Vec<_>>());
    let part = scan(Bound::Included(key(100)), Bound::Excluded(key(900)), true);
    assert_eq!(part.iter().map(|x| x.0).collect::<Vec<_>>(), (100..900).rev().collect::<Vec<_>>());

    // Unique, delete, insert again; key updates there and back.
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let rid = heap.insert(&mut t, &5u32.to_le_bytes()).unwrap();
    assert_eq!(
        index.index_insert(&mut t, &heap, &key(5), rid, Uniqueness::Unique, &p).unwrap(),
        IndexInsert::Conflict(all[5].1)
    );
    t.rollback(&p).unwrap();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let s = t.take_snapshot();
    let opts = WriteOptions { key_update: true, ..W };
    let five = all[5].1;
    heap.update(&mut t, five, &50_000u32.to_le_bytes(), &[(&index, &key(5))], &opts.with(&s, &p)).unwrap();
    assert_eq!(
        index.index_insert(&mut t, &heap, &key(50_000), five, Uniqueness::Unique, &p).unwrap(),
        IndexInsert::Inserted
    );
    t.next_command();
    drop(s);
    let s = t.take_snapshot();
    heap.update(&mut t, five, &5u32.to_le_bytes(), &[(&index, &key(50_000))], &opts.with(&s, &p)).unwrap();
    assert_eq!(
        index.index_insert(&mut t, &heap, &key(5), five, Uniqueness::Unique, &p).unwrap(),
        IndexInsert::Inserted
    );
    commit(&e, t);
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    assert_eq!(index.index_find_live(&mut t, &heap, &key(5), &p).unwrap(), Some(five));
    assert_eq!(index.index_find_live(&mut t, &heap, &key(50_000), &p).unwrap(), None);
    drop((t, s));
    // Queue: delete everything from the left, leaves go away.
    for (k, rid) in &all {
        let mut t = e.begin(Isolation::ReadCommitted, 0);
        let s = t.take_snapshot();
        assert_eq!(heap.delete(&mut t, *rid, &[(&index, &key(*k))], &W.with(&s, &p)).unwrap(), WriteOutcome::Done);
        t.commit(CommitMode::Async, &p).unwrap();
    }
    for _ in 0..500 {
        if e.purge_backlog() == 0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(e.purge_backlog(), 0);
    assert_eq!(scan(Bound::Unbounded, Bound::Unbounded, false), vec![]);
    assert!(rows(&e, &heap).is_empty());
    e.shutdown().unwrap();
    drop(e);
    assert_eq!(check(Arc::new(OsEnv), dir.0.clone()).unwrap(), Vec::<String>::new());
}

#[test]
fn build_and_bulk() {
    let dir = Dir::new("bulk");
    let e = open(&dir);
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Unlogged).unwrap();
    let index = e.create_relation(&mut t, RelationKind::BTree, Persistence::Unlogged).unwrap();
    let mut batch = RowBatch::default();
    for i in 0..100_000u32 {
        batch.push(RowId::default(), &i.to_le_bytes());
    }
    let mut rids = Vec::new();
    heap.insert_many(&mut t, &batch, &mut rids).unwrap();
    assert_eq!(rids.len(), 100_000);
    let entries = rids.iter().enumerate().map(|(i, r)| Ok((key(i as u32), *r)));
    index.index_build(&mut t, &mut IteratorEntries::new(entries), &p).unwrap();
    commit(&e, t);
    assert_eq!(rows(&e, &heap).len(), 100_000);
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    for i in (0..100_000).step_by(997) {
        assert_eq!(index.index_find_live(&mut t, &heap, &key(i), &p).unwrap(), Some(rids[i as usize]));
    }
    t.rollback(&p).unwrap();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    heap.insert_many(&mut t, &batch, &mut rids).unwrap();
    t.rollback(&p).unwrap();
    assert_eq!(rows(&e, &heap).len(), 100_000);
    let id = heap.id();
    drop((heap, index));
    e.shutdown().unwrap();
    drop(e);
    let e = open(&dir);
    let heap = e.relation(id).unwrap();
    assert_eq!(rows(&e, &heap).len(), 100_000);
    drop(heap);
    drop(e);
    let e = open(&dir);
    let heap = e.relation(id).unwrap();
    assert_eq!(rows(&e, &heap).len(), 0);
}

#[test]
fn hot_row_counts_exactly() {
    let dir = Dir::new("hot");
    let e = open(&dir);
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    let rid = heap.insert(&mut t, &0u64.to_le_bytes()).unwrap();
    commit(&e, t);
    let threads: Vec<_> = (0..16)
        .map(|w| {
            let (e, heap) = (e.clone(), heap.clone());
            std::thread::spawn(move || {
                let p = ThreadPark::new();
                for _ in 0..200 {
                    let mut t = e.begin(Isolation::ReadCommitted, w);
                    let s = t.take_snapshot();
                    let mut out = Vec::new();
                    heap.fetch(rid, &s, &mut out).unwrap();
                    let mut options = W;
                    loop {
                        let v = u64::from_le_bytes(out[..8].try_into().unwrap()) + 1;
                        match heap.update(&mut t, rid, &v.to_le_bytes(), &[], &options.with(&s, &p)).unwrap() {
                            WriteOutcome::Done => break,
                            WriteOutcome::Changed => {
                                assert!(heap.fetch_latest(&t, rid, &mut out).unwrap());
                                options.latest = true;
                            }
                            other => panic!("{other:?}"),
                        }
                    }
                    t.commit(CommitMode::Async, &p).unwrap();
                }
            })
        })
        .collect();
    for t in threads {
        t.join().unwrap();
    }
    assert_eq!(rows(&e, &heap), vec![3200u64.to_le_bytes().to_vec()]);
}

#[test]
fn deadlock_is_found() {
    let dir = Dir::new("deadlock");
    let e = open(&dir);
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    let a = heap.insert(&mut t, b"a").unwrap();
    let b = heap.insert(&mut t, b"b").unwrap();
    commit(&e, t);
    let mut one = e.begin(Isolation::ReadCommitted, 0);
    let s = one.take_snapshot();
    heap.update(&mut one, a, b"1", &[], &W.with(&s, &p)).unwrap();
    let (e2, heap2) = (e.clone(), heap.clone());
    let other = std::thread::spawn(move || {
        let p = ThreadPark::new();
        let mut two = e2.begin(Isolation::ReadCommitted, 1);
        let s = two.take_snapshot();
        heap2.update(&mut two, b, b"2", &[], &W.with(&s, &p)).unwrap();
        let r = heap2.update(&mut two, a, b"2", &[], &W.with(&s, &p));
        two.rollback(&p).unwrap();
        r
    });
    std::thread::sleep(std::time::Duration::from_millis(100));
    let r = heap.update(&mut one, b, b"1", &[], &W.with(&s, &p));
    one.rollback(&p).unwrap();
    let r2 = other.join().unwrap();
    assert!(r.is_err() ^ r2.is_err(), "{r:?} {r2:?}");
    let err = r.err().or(r2.err()).unwrap();
    assert_eq!(err.sqlstate().as_str(), "40P01");
    assert_eq!(rows(&e, &heap), vec![b"a".to_vec(), b"b".to_vec()]);
}

#[test]
fn cells_and_locks() {
    let dir = Dir::new("cells");
    let e = open(&dir);
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let cell = e.create_relation(&mut t, RelationKind::Cell, Persistence::Logged).unwrap();
    cell.cell_modify(&mut |b| {
        *b = vec![1, 2, 3];
        Ok(((), true))
    })
    .unwrap();
    commit(&e, t);
    assert_eq!(cell.cell_read().unwrap(), vec![1, 2, 3]);
    let tag = LockTag(1, 2, 3);
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    assert!(t.lock(tag, LockMode::AccessExclusive, WaitPolicy::Wait, &p).unwrap());
    let mut o = e.lock_owner_of(&e.begin(Isolation::ReadCommitted, 0));
    assert!(!o.lock(tag, LockMode::AccessShare, WaitPolicy::NoWait, &p).unwrap());
    assert_eq!(e.locks_snapshot().len(), 1);
    t.rollback(&p).unwrap();
    assert!(o.lock(tag, LockMode::AccessShare, WaitPolicy::NoWait, &p).unwrap());
    e.checkpoint(&p).unwrap();
    let id = cell.id();
    drop((o, t, cell));
    drop(e);
    let e = open(&dir);
    assert_eq!(e.relation(id).unwrap().cell_read().unwrap(), vec![1, 2, 3]);
}

/// A forgotten snapshot does not make a hot row's chain long: it still sees its version, quickly.
#[test]
fn old_snapshot_over_a_hot_row() {
    let dir = Dir::new("splice");
    let e = open(&dir);
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    let rid = heap.insert(&mut t, b"counter 00000000 end").unwrap();
    commit(&e, t);
    let mut kept = Vec::new();
    for i in 0..20_000u32 {
        if i % 4_000 == 100 {
            let mut t = e.begin(Isolation::RepeatableRead, 1);
            let s = t.take_snapshot();
            kept.push((i, t, s));
        }
        let mut t = e.begin(Isolation::ReadCommitted, 0);
        let s = t.take_snapshot();
        let row = format!("counter {:08} {}", i + 1, "end".repeat(1 + i as usize % 3));
        heap.update(&mut t, rid, row.as_bytes(), &[], &W.with(&s, &p)).unwrap();
        if i % 50 == 7 {
            t.rollback(&p).unwrap();
        } else {
            t.commit(CommitMode::Async, &p).unwrap();
        }
    }
    let mut out = Vec::new();
    let started = std::time::Instant::now();
    for (i, _, s) in &kept {
        heap.fetch(rid, s, &mut out).unwrap();
        assert_eq!(&out[8..16], format!("{:08}", if *i == 0 { 0 } else { *i }).as_bytes());
    }
    assert!(started.elapsed().as_millis() < 20, "{:?}", started.elapsed());
}

fn sendable<T: Send>() {}
#[test]
fn sessions_may_move() {
    sendable::<Transaction>();
    sendable::<IndexScan>();
    sendable::<Snapshot>();
    sendable::<LockOwner>();
}
