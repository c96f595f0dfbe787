//! Pages that others hold, or that were given up, while a tree becomes smaller.

use super::*;
use crate::api::*;
use crate::btree::search::DescentStep;
use crate::cluster::{Dir, config};
use crate::engine::Engine;
use crate::method::IteratorEntries;
use crate::page::format;
use kilndb_base::RowId;
use kilndb_base::env::OsEnv;
use kilndb_base::park::ThreadPark;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

fn key_of(n: u64) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}
/// An engine, and a tree with two levels at least.
fn tree(dir: &Dir, entries: u64) -> (Arc<Engine>, Arc<Relation>) {
    let e = Engine::open(Arc::new(OsEnv), EngineConfig { workers: 2, ..config(dir.0.clone(), 16 << 20) }).unwrap();
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let index = e.create_relation(&mut t, RelationKind::BTree, Persistence::Logged).unwrap();
    let all = (0..entries).map(|n| Ok((key_of(n), RowId::from_u64(n << 16))));
    index.index_build(&mut t, &mut IteratorEntries::new(all), &p).unwrap();
    t.commit(CommitMode::Sync, &p).unwrap();
    (e, index)
}
fn node_page(level: u8, low: &[u8], high: &[u8], entries: &[Vec<u8>]) -> PageBytes {
    let mut page = [0; PAGE];
    format(&mut page, KIND_TREE, 0, level, 1, 1);
    let refs: Vec<&[u8]> = entries.iter().map(Vec::as_slice).collect();
    node::load_image(&mut page, level, &node::image(2, low, high, &refs)).unwrap();
    page
}

/// A separator of an inner node becomes its low fence, and may be longer than all that was moved away before it.
#[test]
fn the_right_node_has_room_for_its_new_fence() {
    let entry = |n: u64, length: usize| {
        let mut key = key_of(n);
        key.resize(length, b'x');
        node::build(&key, 0, Some(9), 0)
    };
    let fence = |n: u64| node::build(&key_of(n), 0, None, 0);
    // Behind the first separators come long ones, and the node is full.
    let short = |numbers: std::ops::Range<u64>| numbers.map(|n| entry(n, 12));
    let entries: Vec<_> = short(100..122).chain((200..203).map(|n| entry(n, 1950))).chain(short(210..250)).collect();
    let right = node_page(1, &fence(100), &fence(300), &entries);
    let left = node_page(1, &[], &fence(100), &[node::build(&[], 0, Some(8), 0), entry(1, 1500), entry(2, 1900)]);
    let view = PageView::of(&right);
    assert!(node::room_of(&view) < 1000, "the node is nearly full");
    let shift = Shift::plan(&left, &view, &entries_of(&view), 1).expect("some can move");
    let (mut left, mut changed) = (left, right);
    node::append_entries(&mut left, 3, &shift.high, &shift.moved(&entries_of(&view))).unwrap();
    node::drop_front(&mut changed, shift.count, &shift.high).unwrap();
}

/// Who gives up blocks at the end keeps the tree from growing, and must not wait for one who has a node latched and waits
/// for the tree to grow.
#[test]
fn giving_up_blocks_waits_for_no_latch() {
    let dir = Dir::new("cut-waits-for-nobody");
    let (e, index) = tree(&dir, 2000);
    assert_eq!(index.root_level().unwrap(), 1);
    // As a split that a crash has cut off leaves it.
    let (last, page) = index.extend(0).unwrap();
    drop(page);
    let root = e.core().pool.write(index.pid(0).unwrap()).unwrap();
    let (to, done) = channel();
    let its = index.clone();
    let worker = std::thread::spawn(move || to.send(its.cut_free_end(1, 100)).unwrap());
    assert!(done.recv_timeout(Duration::from_secs(20)).expect("it does not wait").is_ok());
    worker.join().unwrap();
    assert_eq!(index.pages(), last + 1, "nobody could say whether the block is in use");
    drop(root);
    index.cut_free_end(1, 100).unwrap();
    assert_eq!(index.pages(), last, "the block is given up, and the node before it is not");
    e.shutdown().unwrap();
}

/// A page that was the tree's may have become another's, which has gone without a write: it is read as it was earlier.
#[test]
fn a_page_that_was_given_up_is_no_node() {
    let dir = Dir::new("given-up-page");
    let (e, index) = tree(&dir, 4000);
    e.checkpoint(&ThreadPark::new()).unwrap();
    let block = index.pages() - 1;
    let pid = index.pid(block).unwrap();
    let pool = &e.core().pool;
    assert!(pool.read(pid, |v| index.is_node_in(&v, block, pid)).unwrap());
    let low = pool.read(pid, |v| node::low(&v).map(|e| (e.key.to_vec(), e.rid))).unwrap().unwrap();
    // What a pass does with it: it is moved to the front, and its block given up.
    for n in 0..2000 {
        index.entry_remove(&key_of(n), RowId::from_u64(n << 16).to_u64(), None, None).unwrap();
    }
    let mut free = Vec::new();
    index.gather_free(0..block, &mut free).unwrap();
    index.set_free(free);
    let mut at = (Vec::new(), 0);
    let left = loop {
        let seen = index.see_node(0, &at).unwrap();
        if seen.right == block {
            break seen;
        }
        at = seen.high.unwrap();
    };
    assert!(matches!(index.relocate(0, Some(&left), block, block).unwrap(), ChangeOutcome::Done));
    index.cut_free_end(block, 100).unwrap();
    assert_eq!(index.pages(), block);
    pool.discard(pid);
    let is_as_it_was = pool.read(pid, |v| v.is(KIND_TREE, index.id, block)).unwrap();
    assert!(is_as_it_was, "the disk has it as it was");
    assert!(!pool.read(pid, |v| index.is_node_in(&v, block, pid)).unwrap());
    // A reader that is about to go there begins again.
    let key = KeyAndRow(&low.0, low.1);
    let step = pool.read(pid, |v| index.step(v, (block, pid), 0, key)).unwrap();
    assert!(matches!(step, DescentStep::Restart));
    e.shutdown().unwrap();
}
