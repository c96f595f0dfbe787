//! Taking versions back on a page whose room others have taken meanwhile: payloads move into pieces and out of them.
mod support;
use kilndb_base::RowId;
use kilndb_base::park::ThreadPark;
use kilndb_storage::*;
use std::sync::Arc;
use support::disk::{SimEnv, simulated_process};
use support::{Dir, Rng};

const W: WriteOptions = WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: false };

fn now(e: &Arc<Engine>, heap: &Relation, rid: RowId) -> Vec<u8> {
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let s = t.take_snapshot();
    let mut out = Vec::new();
    assert!(matches!(heap.fetch(rid, &s, &mut out).unwrap(), Fetched::Visible { .. }));
    out
}
/// Four rows, and one more on their page.
fn create(e: &Arc<Engine>, row: &[u8], p: &ThreadPark) -> (Arc<Relation>, [RowId; 4], RowId) {
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    let others = [(); 4].map(|()| heap.insert(&mut t, &[9; 10]).unwrap());
    let rid = heap.insert(&mut t, row).unwrap();
    assert!(others.iter().all(|o| o.block == rid.block));
    t.commit(CommitMode::Async, p).unwrap();
    (heap, others, rid)
}
/// Another transaction makes the page's other rows so long: 4 × 1950 bytes are all the room there is.
fn fill(e: &Arc<Engine>, heap: &Relation, others: &[RowId], len: usize, p: &ThreadPark) {
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    for rid in others {
        let s = t.take_snapshot();
        assert_eq!(heap.update(&mut t, *rid, &vec![8; len], &[], &W.with(&s, p)).unwrap(), WriteOutcome::Done);
    }
    t.commit(CommitMode::Async, p).unwrap();
}
fn change(heap: &Relation, rid: RowId, t: &mut Transaction, row: &[u8], p: &ThreadPark) {
    t.next_command();
    let s = t.take_snapshot();
    assert_eq!(heap.update(t, rid, row, &[], &W.with(&s, p)).unwrap(), WriteOutcome::Done);
    t.next_command();
    let mut out = Vec::new();
    assert!(matches!(heap.fetch(rid, &t.take_snapshot(), &mut out).unwrap(), Fetched::Visible { .. }));
    assert!(out == row, "{} bytes instead of {}", out.len(), row.len());
}

#[test]
fn from_pieces_to_the_page_and_back() {
    let dir = Dir::new("rollback-pieces");
    let e = support::open(&dir, 16 << 20);
    let p = ThreadPark::new();
    // So long that its piece needs a page of its own.
    let (heap, others, rid) = create(&e, &[1; 8100], &p);
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    change(&heap, rid, &mut t, &[2; 3000], &p);
    change(&heap, rid, &mut t, &[3; 10], &p);
    fill(&e, &heap, &others, 1950, &p);
    t.rollback(&p).unwrap();
    assert!(now(&e, &heap, rid) == [1; 8100], "{} bytes", now(&e, &heap, rid).len());
}

#[test]
fn any_sizes() {
    for seed in support::seeds(20) {
        let mut rng = Rng::new(seed);
        let dir = Dir::new(&format!("rollback-{seed}"));
        let e = support::open(&dir, 16 << 20);
        let p = ThreadPark::new();
        let sizes = [4, 10, 300, 3000, 5900, 7000, 20_000];
        let payload = |rng: &mut Rng| vec![rng.next() as u8; sizes[rng.below(sizes.len() as u64) as usize]];
        let mut row = payload(&mut rng);
        let (heap, others, rid) = create(&e, &row, &p);
        for _ in 0..12 {
            let mut t = e.begin(Isolation::ReadCommitted, 0);
            let mut saved = vec![(t.savepoint(), row.clone())];
            for _ in 0..1 + rng.below(6) {
                match rng.below(6) {
                    0 | 5 => fill(&e, &heap, &others, [10, 1000, 1950][rng.below(3) as usize], &p),
                    1 => saved.push((t.savepoint(), row.clone())),
                    2 => {
                        let (savepoint, old) = saved.last().unwrap();
                        t.rollback_to(savepoint, &p).unwrap();
                        row.clone_from(old);
                        t.next_command();
                        let mut out = Vec::new();
                        assert!(matches!(
                            heap.fetch(rid, &t.take_snapshot(), &mut out).unwrap(),
                            Fetched::Visible { .. }
                        ));
                        assert!(out == row, "seed {seed}: {} bytes instead of {}", out.len(), row.len());
                    }
                    _ => {
                        row = payload(&mut rng);
                        change(&heap, rid, &mut t, &row, &p);
                    }
                }
            }
            if rng.one_in(2) {
                t.commit(CommitMode::Async, &p).unwrap();
            } else {
                t.rollback(&p).unwrap();
                row.clone_from(&saved[0].1);
            }
            let seen = now(&e, &heap, rid);
            assert!(seen == row, "seed {seed}: {} bytes instead of {}", seen.len(), row.len());
        }
        e.shutdown().unwrap();
        drop((heap, e));
        let wrong = check(Arc::new(kilndb_base::env::OsEnv), dir.0.clone()).unwrap();
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    }
}

/// Recovery rolls back, and that needs new pages: not those of the undo that it goes by.
#[test]
fn a_rollback_after_a_crash_takes_no_page_of_the_undo() {
    let env = Arc::new(SimEnv::default());
    let e = Engine::open(env.clone(), simulated_process(&env, 16 << 20)).unwrap();
    let p = ThreadPark::new();
    let mut loser = e.begin(Isolation::ReadCommitted, 1);
    let made: Vec<_> = (0..40u8).map(|i| (create(&e, &[i; 5900], &p), i)).collect();
    for ((heap, _, rid), _) in &made {
        change(heap, *rid, &mut loser, &[100; 10], &p);
    }
    for ((heap, others, _), _) in &made {
        fill(&e, heap, others, 1950, &p);
    }
    let rows: Vec<_> = made.iter().map(|((heap, _, rid), i)| (heap.id(), *rid, vec![*i; 5900])).collect();
    let mut last = e.begin(Isolation::ReadCommitted, 0);
    made[0].0.0.insert(&mut last, &[1]).unwrap();
    let lsn = last.commit(CommitMode::Sync, &p).unwrap().unwrap();
    e.wait_flushed(lsn, &p).unwrap();
    env.kill();
    drop((made, loser, e));
    let env = env.restart();
    let e = Engine::open(env.clone(), simulated_process(&env, 16 << 20)).unwrap();
    for (heap, rid, row) in &rows {
        assert!(now(&e, &e.relation(*heap).unwrap(), *rid) == *row);
    }
    e.shutdown().unwrap();
    drop(e);
    assert_eq!(check(env, "/sim".into()).unwrap(), Vec::<String>::new());
}
