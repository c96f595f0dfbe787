//! What recovery takes grows with the log that it reads, not with that times what there is beside it.
mod support;

use kilndb_base::park::ThreadPark;
use kilndb_storage::*;
use std::sync::Arc;
use std::time::Instant;
use support::disk::{SimEnv, simulated_process};

const BUFFERS: u64 = 256 << 20;
const W: WriteOptions = WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: false };

/// Seconds of recovering so many commits, in a cluster of so many relations, of which half are not even committed.
fn recovery_s(relations: usize, commits: u32) -> f64 {
    let env = Arc::new(SimEnv::default());
    let e = Engine::open(env.clone(), simulated_process(&env, BUFFERS)).unwrap();
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    let rid = heap.insert(&mut t, b"0").unwrap();
    let mut open = e.begin(Isolation::ReadCommitted, 1);
    for i in 0..relations {
        let t = if i % 2 == 0 { &mut t } else { &mut open };
        e.create_relation(t, RelationKind::Heap, Persistence::Logged).unwrap();
    }
    t.commit(CommitMode::Async, &p).unwrap();
    e.checkpoint(&p).unwrap();
    let mut last = None;
    for i in 0..commits {
        let mut t = e.begin(Isolation::ReadCommitted, 0);
        let s = t.take_snapshot();
        heap.update(&mut t, rid, &i.to_le_bytes(), &[], &W.with(&s, &p)).unwrap();
        last = t.commit(CommitMode::Sync, &p).unwrap();
    }
    e.wait_flushed(last.expect("it has written"), &p).unwrap();
    let restarted = env.restart();
    let began = Instant::now();
    let recovered = Engine::open(restarted.clone(), simulated_process(&restarted, BUFFERS)).unwrap();
    let took = began.elapsed().as_secs_f64();
    env.kill();
    drop((open, recovered));
    took
}

/// Ten times the relations and ten times the commits: hundred times as long, were it their product.
#[test]
fn recovery_is_linear() {
    // The quickest of a few: others may want the processor too.
    let best = |relations, commits| (0..3).map(|_| recovery_s(relations, commits)).fold(f64::MAX, f64::min);
    let (small, large) = (best(1_000, 3_000), best(10_000, 30_000));
    assert!(large < small.max(0.02) * 30.0, "{small} s, then {large} s with ten times as much");
}
