//! A script of interleaved transactions, run again and again: each time another operation on the disk is the one that
//! fails (a write, a sync, the power, the process, a bit that is read wrong), and then, mostly, one of the recovery.
//! Each transaction writes the same rows to a logged table, an unlogged one, and one that is kept at checkpoints.
//! Afterwards:
//! 1. the logged table is as after one of the commits, no older than the last acknowledged;
//! 2. the unlogged one is empty, or as it was at the clean stop;
//! 3. the kept one is as it was at the last checkpoint, or at one that was under way: with what had committed then, and
//!    nothing else;
//! 4. indexes lead to the same rows, and the offline check finds nothing;
//! 5. where a bit was read wrong: an error that names the page, or right answers.
mod support;

use kilndb_base::park::ThreadPark;
use kilndb_base::{Result, sqlstate};
use kilndb_storage::*;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use support::Rng;
use support::disk::{DiskFault, SimEnv, SimPark, simulated_process};

type Model = BTreeMap<u32, Vec<u8>>;
const SLOTS: u32 = 3;
const OWN: u64 = 12;
const STEPS: usize = 120;
const W: WriteOptions = WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: false };
const KINDS: [Persistence; 3] = [Persistence::Logged, Persistence::Unlogged, Persistence::Kept];

fn config(env: &Arc<SimEnv>) -> EngineConfig {
    EngineConfig { workers: 1, ..simulated_process(env, 64 * 8192) }
}
fn key_of(k: u32) -> Vec<u8> {
    k.to_be_bytes().to_vec()
}
fn row(k: u32, v: &[u8]) -> Vec<u8> {
    [&k.to_le_bytes()[..], v].concat()
}

#[derive(Clone)]
struct Table {
    heap: Arc<Relation>,
    index: Arc<Relation>,
}
fn read_all(t: &Table, s: &Snapshot) -> Result<Model> {
    let mut model = Model::new();
    let mut batch = RowBatch::default();
    for b in 0..t.heap.pages() {
        t.heap.scan_block(b, s, &mut batch)?;
        for i in 0..batch.rows.len() {
            let r = batch.row(i);
            assert!(
                model.insert(u32::from_le_bytes(r[..4].try_into().unwrap()), r[4..].to_vec()).is_none(),
                "a row twice"
            );
        }
    }
    let mut through = Model::new();
    let mut scan = t.index.index_scan(Bound::Unbounded, Bound::Unbounded, false);
    let (mut keys, mut ends, mut rids) = (vec![], vec![], vec![]);
    while scan.next_batch(&mut keys, &mut ends, &mut rids)? {}
    let (mut a, mut out) = (0, Vec::new());
    for (end, rid) in ends.iter().zip(&rids) {
        let key = u32::from_be_bytes(keys[a..*end as usize].try_into().unwrap());
        a = *end as usize;
        if let Fetched::Visible { .. } = t.heap.fetch(*rid, s, &mut out)?
            && u32::from_le_bytes(out[..4].try_into().unwrap()) == key
        {
            through.insert(key, out[4..].to_vec());
        }
    }
    assert!(through == model, "an index leads to other rows than the table has");
    Ok(model)
}
fn tables(e: &Arc<Engine>, ids: &[(kilndb_base::RelationId, kilndb_base::RelationId)]) -> Vec<Table> {
    ids.iter().map(|(h, i)| Table { heap: e.relation(*h).unwrap(), index: e.relation(*i).unwrap() }).collect()
}

/// The states that may be found afterwards.
#[derive(Clone, Default, Debug)]
struct Possible {
    logged: Vec<Model>,
    kept: Vec<Model>,
    unlogged: Model,
}
struct Slot {
    txn: Option<Transaction>,
    rows: Model,
    saved: Vec<(Savepoint, Model)>,
}

/// One change in every table, or none at all.
fn change(
    txn: &mut Transaction,
    tables: &[Table],
    k: u32,
    v: Option<&[u8]>,
    rekey: Option<u32>,
    park: &SimPark,
) -> Result<()> {
    for t in tables {
        txn.next_command();
        let s = txn.take_snapshot();
        let found = t.index.index_find_live(txn, &t.heap, &key_of(k), park)?;
        let outcome = match (found, v, rekey) {
            (None, Some(v), _) => {
                let rid = t.heap.insert(txn, &row(k, v))?;
                t.index.index_insert(txn, &t.heap, &key_of(k), rid, Uniqueness::Unique, park)?;
                WriteOutcome::Done
            }
            (Some(rid), Some(v), Some(new)) => {
                let old = key_of(k);
                let done = t.heap.update(
                    txn,
                    rid,
                    &row(new, v),
                    &[(&t.index, &old)],
                    &WriteOptions { key_update: true, ..W }.with(&s, park),
                )?;
                t.index.index_insert(txn, &t.heap, &key_of(new), rid, Uniqueness::Unique, park)?;
                done
            }
            (Some(rid), Some(v), None) => t.heap.update(txn, rid, &row(k, v), &[], &W.with(&s, park))?,
            (Some(rid), None, _) => {
                let old = key_of(k);
                t.heap.delete(txn, rid, &[(&t.index, &old)], &W.with(&s, park))?
            }
            (None, None, _) => WriteOutcome::Done,
        };
        assert_eq!(outcome, WriteOutcome::Done, "key {k}");
    }
    Ok(())
}

/// Runs the script until its end or the end of the process. True: it was stopped cleanly.
fn life(
    env: &Arc<SimEnv>,
    ids: &[(kilndb_base::RelationId, kilndb_base::RelationId)],
    start: Model,
    seed: u64,
    steps: usize,
    possible: &mut Possible,
) -> bool {
    let what = |e: &dyn std::fmt::Display| format!("seed {seed}: {e}");
    let of_disk =
        |e: &kilndb_base::Error| [sqlstate::IO_ERROR, sqlstate::DISK_FULL].contains(&e.sqlstate()) && env.fired();
    let named = |e: &kilndb_base::Error| {
        e.sqlstate() == sqlstate::DATA_CORRUPTED && e.message().contains("page") && env.fired()
    };
    let mut rng = Rng::new(seed);
    let e = match Engine::open(env.clone(), config(env)) {
        Ok(e) => e,
        Err(err) => {
            assert!(env.dead() || of_disk(&err) || named(&err), "{}", what(&err));
            return false;
        }
    };
    let tables = tables(&e, ids);
    let park = SimPark::new(env);
    let mut committed = start;
    let mut slots: Vec<Slot> = (0..SLOTS).map(|_| Slot { txn: None, rows: Model::new(), saved: vec![] }).collect();
    for _ in 0..steps {
        if env.dead() {
            return false;
        }
        let number = rng.below(u64::from(SLOTS)) as u32;
        let (key, other) = (number * 100 + rng.below(OWN) as u32, number * 100 + rng.below(OWN) as u32);
        let len = if rng.one_in(8) { 9000 } else { rng.below(900) };
        let value = vec![rng.next() as u8; len as usize];
        let op = rng.below(20);
        let slot = &mut slots[number as usize];
        if slot.txn.is_none() {
            slot.txn = Some(e.begin(Isolation::ReadCommitted, 0));
            slot.saved.clear();
            slot.rows = committed.range(number * 100..(number + 1) * 100).map(|(k, v)| (*k, v.clone())).collect();
        }
        let txn = slot.txn.as_mut().unwrap();
        let outcome = match op {
            0..=8 => change(txn, &tables, key, Some(&value), None, &park).map(|()| {
                slot.rows.insert(key, value);
            }),
            9 | 10 if slot.rows.contains_key(&key) && !slot.rows.contains_key(&other) => {
                change(txn, &tables, key, Some(&value), Some(other), &park).map(|()| {
                    slot.rows.remove(&key);
                    slot.rows.insert(other, value);
                })
            }
            9..=12 => change(txn, &tables, key, None, None, &park).map(|()| {
                slot.rows.remove(&key);
            }),
            13 => {
                slot.saved.push((txn.savepoint(), slot.rows.clone()));
                Ok(())
            }
            14 => match slot.saved.pop() {
                Some((sp, rows)) => txn.rollback_to(&sp, &park).map(|()| slot.rows = rows),
                None => Ok(()),
            },
            15..=17 => {
                let done = txn.commit(CommitMode::Sync, &park);
                if done.is_ok() {
                    committed =
                        committed.into_iter().filter(|(k, _)| k / 100 != number).chain(slot.rows.clone()).collect();
                    possible.logged.push(committed.clone());
                }
                slot.txn = None;
                done.and_then(|lsn| lsn.map_or(Ok(()), |lsn| e.wait_flushed(lsn, &park))).map(|()| {
                    if !env.dead() {
                        possible.logged = vec![committed.clone()];
                    }
                })
            }
            18 => {
                let done = txn.rollback(&park);
                slot.txn = None;
                done
            }
            _ => {
                possible.kept.push(committed.clone());
                e.checkpoint(&park).map(|()| {
                    if !env.dead() {
                        possible.kept = vec![committed.clone()];
                    }
                })
            }
        };
        if let Err(err) = outcome {
            if env.dead() {
                return false;
            }
            assert!(of_disk(&err) || named(&err), "{}", what(&err));
            // A session's transaction is rolled back after an error; if that fails too, only a restart helps.
            if let Some(mut txn) = slots[number as usize].txn.take()
                && let Err(err) = txn.rollback(&park)
            {
                assert!(env.dead() || of_disk(&err) || named(&err), "{}", what(&err));
                env.kill();
                return false;
            }
        }
    }
    for slot in &mut slots {
        if let Some(mut txn) = slot.txn.take()
            && txn.rollback(&park).is_err()
        {
            env.kill();
            return false;
        }
    }
    if env.dead() || rng.one_in(2) {
        return false;
    }
    possible.kept.push(committed.clone());
    possible.unlogged.clone_from(&committed);
    let clean = e.shutdown().is_ok() && !env.dead();
    if clean {
        *possible = Possible { logged: vec![committed.clone()], kept: vec![committed.clone()], unlogged: committed };
    }
    clean
}

fn create(env: &Arc<SimEnv>) -> Vec<(kilndb_base::RelationId, kilndb_base::RelationId)> {
    let e = Engine::open(env.clone(), config(env)).unwrap();
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let ids = KINDS.map(|kind| {
        let heap = e.create_relation(&mut t, RelationKind::Heap, kind).unwrap();
        let index = e.create_relation(&mut t, RelationKind::BTree, kind).unwrap();
        index.set_heap(heap.id());
        (heap.id(), index.id())
    });
    t.commit(CommitMode::Sync, &p).unwrap();
    e.shutdown().unwrap();
    ids.to_vec()
}
fn next_process(env: &Arc<SimEnv>, rng: &mut Rng) -> Arc<SimEnv> {
    // What was not synced is lost, or a part of it, in any order; or nothing is, if only the process went.
    if rng.one_in(3) { env.restart() } else { env.after_power_loss(rng) }
}
/// One run with the fault at operation `at` of the first life. False: the script ended before it.
fn run(seed: u64, fault: DiskFault, at: i64, flip: Option<i64>) -> bool {
    let what = format!("seed {seed}, {fault:?} at {at}, flip {flip:?}");
    let mut rng = Rng::new(seed ^ (at as u64) << 20);
    let env = Arc::new(SimEnv::default());
    let ids = create(&env);
    let env = env.restart();
    match flip {
        Some(reads) => env.flip(reads, rng.next()),
        None => env.arm(at, fault),
    }
    let mut possible = Possible { logged: vec![Model::new()], kept: vec![Model::new()], unlogged: Model::new() };
    let clean = life(&env, &ids, Model::new(), seed, STEPS, &mut possible);
    let reached = env.fired();
    let mut env = if clean { env.restart() } else { next_process(&env, &mut rng) };
    // The recovery is cut off as well, maybe more than once.
    for _ in 0..rng.below(3) {
        if clean {
            break;
        }
        let fault = if rng.one_in(2) { DiskFault::PowerLoss } else { DiskFault::Write(5, 1) };
        env.arm(rng.below(60) as i64, fault);
        if let Ok(e) = Engine::open(env.clone(), config(&env)) {
            env.disarm();
            if !env.dead() {
                verify(&e, &ids, &possible, clean, &what);
            }
        }
        env = next_process(&env, &mut rng);
    }
    let e = Engine::open(env.clone(), config(&env)).unwrap_or_else(|e| panic!("{what}: {e}"));
    let found = verify(&e, &ids, &possible, clean, &what);
    e.shutdown().unwrap_or_else(|e| panic!("{what}: {e}"));
    drop(e);
    let wrong = check(env.clone(), PathBuf::from("/sim")).unwrap();
    assert!(wrong.is_empty(), "{what}: {wrong:#?}");
    let e = Engine::open(env.clone(), config(&env)).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(verify(&e, &ids, &possible, clean, &what) == found, "{what}: a clean stop has changed something");
    reached
}
fn verify(
    e: &Arc<Engine>,
    ids: &[(kilndb_base::RelationId, kilndb_base::RelationId)],
    possible: &Possible,
    clean: bool,
    what: &str,
) -> Vec<Model> {
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let s = t.take_snapshot();
    let found: Vec<Model> =
        tables(e, ids).iter().map(|table| read_all(table, &s).unwrap_or_else(|e| panic!("{what}: {e}"))).collect();
    let sizes = |m: &Model| m.iter().map(|(k, v)| (*k, v.len(), v.first().copied())).collect::<Vec<_>>();
    assert!(
        possible.logged.contains(&found[0]),
        "{what}: logged {:?}, possible {:?}",
        sizes(&found[0]),
        possible.logged.iter().map(sizes).collect::<Vec<_>>()
    );
    assert!(
        possible.kept.contains(&found[2]),
        "{what}: kept {:?}, possible {:?}",
        sizes(&found[2]),
        possible.kept.iter().map(sizes).collect::<Vec<_>>()
    );
    assert!(found[1] == possible.unlogged || !clean && found[1].is_empty(), "{what}: unlogged {:?}", sizes(&found[1]));
    found
}
/// How many operations lie between the ones that fail: one for `KILNDB_EVERY=1`.
fn every(usual: i64) -> i64 {
    std::env::var("KILNDB_EVERY").ok().and_then(|s| s.parse().ok()).unwrap_or(usual)
}
fn sweep(usual: i64, offset: i64, run: impl Fn(u64, i64) -> bool) {
    let one = std::env::var("KILNDB_AT").ok().and_then(|s| s.parse().ok());
    for seed in support::seeds(1) {
        if let Some(at) = one {
            run(seed, at);
            continue;
        }
        let mut at = offset;
        while run(seed, at) {
            at += every(usual);
        }
    }
}

#[test]
fn power_fails_at_every_operation() {
    sweep(11, 0, |seed, at| run(seed, DiskFault::PowerLoss, at, None));
}
#[test]
fn a_sync_fails_at_every_operation() {
    sweep(17, 1, |seed, at| run(seed, DiskFault::Sync, at, None));
}
#[test]
fn the_disk_is_full_for_a_while_at_every_operation() {
    sweep(17, 2, |seed, at| run(seed, DiskFault::Write(28, 1 + (at % 5) as u32), at, None));
}
#[test]
fn a_write_fails_at_every_operation() {
    sweep(17, 3, |seed, at| run(seed, DiskFault::Write(5, 1), at, None));
}
#[test]
fn a_bit_is_wrong_in_every_page_read() {
    sweep(7, 0, |seed, at| run(seed, DiskFault::Sync, i64::MAX, Some(at)));
}
