//! Commits that nobody waits for, and the settings of the log's flusher: what a power loss takes of them (the disk of
//! `support::disk` keeps what was synced and any part of the rest), when they are written, and `fsync = off`.
mod support;
use kilndb_base::park::ThreadPark;
use kilndb_storage::*;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::Rng;
use support::disk::{DiskFault, SimEnv};

fn config() -> EngineConfig {
    EngineConfig { fsync: true, ..support::config(PathBuf::from("/sim"), 4 << 20) }
}

fn commit(e: &Arc<Engine>, heap: &Relation, row: &[u8], mode: CommitMode) -> Option<kilndb_base::Lsn> {
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    heap.insert(&mut t, row).unwrap();
    t.commit(mode, &ThreadPark::new()).unwrap()
}

fn new_heap(e: &Arc<Engine>) -> Arc<Relation> {
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    let lsn = t.commit(CommitMode::Sync, &p).unwrap().unwrap();
    e.wait_flushed(lsn, &p).unwrap();
    heap
}

/// Commits numbers until `long` is over, then the power goes. Returns when each was committed, when the power went, and
/// the numbers found afterwards, sorted.
fn lose_power(delay_ms: u64, long: Duration, rng: &mut Rng) -> (Vec<Instant>, Instant, Vec<u32>) {
    let env = Arc::new(SimEnv::default());
    let e = Engine::open(env.clone(), EngineConfig { wal_writer_delay_ms: delay_ms, ..config() }).unwrap();
    let heap = new_heap(&e);
    let id = heap.id();
    let mut committed = Vec::new();
    let began = Instant::now();
    while began.elapsed() < long {
        commit(&e, &heap, &(committed.len() as u32 + 1).to_le_bytes(), CommitMode::Async);
        committed.push(Instant::now());
        if rng.one_in(8) {
            std::thread::sleep(Duration::from_micros(rng.below(2000)));
        }
    }
    let gone = Instant::now();
    let after = env.after_power_loss(rng);
    drop((heap, e));
    let e = Engine::open(after, config()).unwrap();
    let heap = e.relation(id).unwrap();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let snapshot = t.take_snapshot();
    let (mut found, mut batch) = (Vec::new(), RowBatch::default());
    for block in 0..heap.pages() {
        batch.clear();
        heap.scan_block(block, &snapshot, &mut batch).unwrap();
        found.extend((0..batch.rows.len()).map(|i| u32::from_le_bytes(batch.row(i).try_into().unwrap())));
    }
    found.sort_unstable();
    (committed, gone, found)
}

/// `found` must be a prefix of the commits, and hold all that are older than three delays. A machine that stood still
/// is not to blame: the longest time between two commits counts as one more.
fn complaint(committed: &[Instant], gone: Instant, found: &[u32], delay: Duration) -> Option<String> {
    if !found.iter().copied().eq(1..=found.len() as u32) {
        return Some(format!("the {} commits found are not the first ones", found.len()));
    }
    let stall = committed.windows(2).map(|w| w[1] - w[0]).max().unwrap_or_default();
    let bound = 3 * delay + stall + Duration::from_millis(100);
    let lost = committed.get(found.len())?;
    let age = gone - *lost;
    (age > bound).then(|| format!("a commit was lost {age:?} after it, {bound:?} is the most"))
}

#[test]
fn a_power_loss_takes_the_last_three_delays_at_most() {
    let mut lost = 0;
    for seed in support::seeds(6) {
        let mut rng = Rng::new(seed);
        let delay = Duration::from_millis(20 + rng.below(60));
        let long = Duration::from_millis(300 + rng.below(300));
        let (committed, gone, found) = lose_power(delay.as_millis() as u64, long, &mut rng);
        assert_eq!(complaint(&committed, gone, &found, delay), None, "seed {seed}");
        lost += committed.len() - found.len();
    }
    assert!(lost > 0, "commits that nobody waits for were as safe as the others: the test saw nothing");
}

#[test]
fn the_check_sees_a_flusher_that_comes_too_late() {
    // The log's buffer would be full before ten minutes are over, but not in a second.
    let (committed, gone, found) = lose_power(600_000, Duration::from_millis(700), &mut Rng::new(1));
    let complaint = complaint(&committed, gone, &found, Duration::from_millis(20));
    assert!(complaint.is_some_and(|c| c.contains("was lost")), "{} of {} found", found.len(), committed.len());
}

#[test]
fn much_unwritten_log_is_written_before_the_delay_is_over() {
    let run = |flush_after_bytes: u64| {
        let e = Engine::open(Arc::new(SimEnv::default()), EngineConfig { wal_writer_delay_ms: 600_000, ..config() })
            .unwrap();
        let heap = new_heap(&e);
        e.set_tuning(Tuning { wal_writer_flush_after_bytes: flush_after_bytes, ..e.tuning() });
        // The change of the setting wakes the flusher once: at the latest it is over with what is waited for here.
        let lsn = commit(&e, &heap, &[7; 1000], CommitMode::Sync).unwrap();
        e.wait_flushed(lsn, &ThreadPark::new()).unwrap();
        let before = e.flushed_lsn();
        for _ in 0..300 {
            commit(&e, &heap, &[7; 1000], CommitMode::Async);
        }
        (e, before)
    };
    let (e, before) = run(64 << 10);
    let end = Instant::now() + Duration::from_secs(60);
    while e.flushed_lsn().0 < before.0 + 200_000 {
        assert!(Instant::now() < end, "nothing was written");
        std::thread::sleep(Duration::from_millis(1));
    }
    let (e, before) = run(64 << 20);
    std::thread::sleep(Duration::from_millis(50));
    assert!(e.flushed_lsn().0 < before.0 + 100_000);
    // A shorter delay counts at once.
    e.set_tuning(Tuning { wal_writer_delay_ms: 1, ..e.tuning() });
    let end = Instant::now() + Duration::from_secs(60);
    while e.flushed_lsn().0 < before.0 + 200_000 {
        assert!(Instant::now() < end, "nothing was written");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_commit_waits_for_others_if_enough_are_under_way() {
    let e = Engine::open(Arc::new(SimEnv::default()), config()).unwrap();
    let heap = new_heap(&e);
    let p = ThreadPark::new();
    let delay = Duration::from_millis(400);
    let timed = |siblings: usize| {
        let began = Instant::now();
        let lsn = commit(&e, &heap, &[1], CommitMode::Sync).unwrap();
        e.wait_flushed_together(lsn, CommitDelay { delay_us: delay.as_micros() as u64, siblings }, &p).unwrap();
        began.elapsed()
    };
    let mut others: Vec<_> = (0..2).map(|_| e.begin(Isolation::ReadCommitted, 1)).collect();
    for t in &mut others {
        heap.insert(t, &[2]).unwrap();
    }
    // The flusher may have looked at the log just before it was asked to wait: once is enough.
    assert!((0..3).any(|_| timed(2) >= delay));
    assert!((0..3).any(|_| timed(3) < delay), "nobody was to be waited for");
    others.into_iter().for_each(|mut t| t.rollback(&p).unwrap());
}

/// The next sync would fail: whether there was one is seen by that.
fn syncs(fsync: bool) -> bool {
    let env = Arc::new(SimEnv::default());
    env.arm(0, DiskFault::Sync);
    let Ok(e) = Engine::open(env.clone(), EngineConfig { fsync, ..config() }) else { return env.fired() };
    let p = ThreadPark::new();
    let heap = new_heap(&e);
    for i in 0..2000_u32 {
        commit(&e, &heap, &i.to_le_bytes(), CommitMode::Async);
    }
    let lsn = commit(&e, &heap, &[0], CommitMode::Sync).unwrap();
    e.wait_flushed(lsn, &p).unwrap();
    e.checkpoint(&p).unwrap();
    e.shutdown().unwrap();
    drop((heap, e));
    // A start after a crash, too.
    let env = env.restart();
    env.arm(0, DiskFault::Sync);
    let e = Engine::open(env.clone(), EngineConfig { fsync, ..config() }).unwrap();
    let heap = new_heap(&e);
    drop((heap, e));
    let env = env.restart();
    env.arm(0, DiskFault::Sync);
    drop(Engine::open(env.clone(), EngineConfig { fsync, ..config() }).unwrap());
    env.fired()
}

#[test]
fn nothing_is_synced_with_fsync_off() {
    assert!(!syncs(false));
    assert!(syncs(true), "the test would not see a sync");
}

#[test]
fn fsync_can_be_switched_while_the_engine_runs() {
    let env = Arc::new(SimEnv::default());
    let e = Engine::open(env.clone(), EngineConfig { fsync: false, ..config() }).unwrap();
    let heap = new_heap(&e);
    e.set_tuning(Tuning { fsync: true, ..e.tuning() });
    env.arm(0, DiskFault::Sync);
    let lsn = commit(&e, &heap, &[0], CommitMode::Sync).unwrap();
    assert!(e.wait_flushed(lsn, &ThreadPark::new()).is_err());
    assert!(env.fired());
}
