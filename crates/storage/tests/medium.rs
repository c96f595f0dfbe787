//! What the medium does to files behind the back of everybody: bits that rot, writes that go astray or are lost, files
//! that are gone or cannot be read. docs/faults.md says what is promised; each promise has its test here.
mod support;

use kilndb_base::env::{Env, FolderLock, OsEnv};
use kilndb_base::park::ThreadPark;
use kilndb_base::{RelationId, RowId, sqlstate};
use kilndb_storage::*;
use std::path::PathBuf;
use std::sync::Arc;
use support::disk::{SimEnv, simulated_process};

const W: WriteOptions = WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: false };
const PAGE: usize = 8192;
const SLOT: usize = PAGE + 32;
const EIO: i32 = 5;
const EACCES: i32 = 13;

fn config(env: &Arc<SimEnv>) -> EngineConfig {
    EngineConfig { workers: 1, ..simulated_process(env, 8 << 20) }
}
fn open(env: &Arc<SimEnv>) -> Arc<Engine> {
    Engine::open(env.clone(), config(env)).unwrap()
}
/// Why a start is refused.
fn refused(env: &Arc<SimEnv>) -> String {
    match Engine::open(env.clone(), config(env)) {
        Ok(_) => panic!("the cluster was opened"),
        Err(e) => e.message().to_string(),
    }
}
fn commit(e: &Engine, mut t: Transaction) {
    let park = ThreadPark::new();
    if let Some(lsn) = t.commit(CommitMode::Sync, &park).unwrap() {
        e.wait_flushed(lsn, &park).unwrap();
    }
}
fn create(e: &Arc<Engine>, kind: RelationKind) -> Arc<Relation> {
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let relation = e.create_relation(&mut t, kind, Persistence::Logged).unwrap();
    commit(e, t);
    relation
}
fn insert(e: &Arc<Engine>, heap: &Relation, row: &[u8], count: usize) -> RowId {
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let rids: Vec<RowId> = (0..count).map(|_| heap.insert(&mut t, row).unwrap()).collect();
    commit(e, t);
    rids[0]
}
fn update(e: &Arc<Engine>, heap: &Relation, rid: RowId, row: &[u8]) {
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let s = t.take_snapshot();
    assert_eq!(heap.update(&mut t, rid, row, &[], &W.with(&s, &ThreadPark::new())).unwrap(), WriteOutcome::Done);
    drop(s);
    commit(e, t);
}
fn rows(e: &Arc<Engine>, id: RelationId) -> kilndb_base::Result<Vec<Vec<u8>>> {
    let heap = e.relation(id)?;
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let s = t.take_snapshot();
    let mut found = Vec::new();
    for block in 0..heap.pages() {
        let mut batch = RowBatch::default();
        heap.scan_block(block, &s, &mut batch)?;
        found.extend((0..batch.rows.len()).map(|i| batch.row(i).to_vec()));
    }
    Ok(found)
}
/// The error that reading all rows raises.
fn unreadable(e: &Arc<Engine>, id: RelationId) -> String {
    let Err(error) = rows(e, id) else { panic!("rows are read as if nothing had happened") };
    assert_eq!(error.sqlstate(), sqlstate::DATA_CORRUPTED);
    error.message().to_string()
}
/// Where a text is in a file.
fn place_of(env: &SimEnv, file: &str, text: &[u8]) -> Vec<usize> {
    env.spoil(file, |bytes| {
        bytes.windows(text.len()).enumerate().filter(|(_, w)| *w == text).map(|(at, _)| at).collect()
    })
}
fn place_in_pages(env: &SimEnv, text: &[u8]) -> usize {
    *place_of(env, "pages", text).first().expect("it was written")
}
fn problems(env: &Arc<SimEnv>) -> Vec<String> {
    check(env.clone(), PathBuf::from("/sim")).unwrap()
}
/// The double-write area has nothing to repair a page from.
fn without_copies(env: &SimEnv) {
    env.spoil("doublewrite", |bytes| bytes.fill(0));
}
/// A heap with a few rows in several blocks, shut down properly.
fn stopped_cluster() -> (Arc<SimEnv>, RelationId) {
    let env = Arc::new(SimEnv::default());
    let e = open(&env);
    let heap = create(&e, RelationKind::Heap);
    insert(&e, &heap, b"precious", 1);
    insert(&e, &heap, &[1; 3000], 9);
    let id = heap.id();
    drop(heap);
    e.shutdown().unwrap();
    (env.restart(), id)
}

// ---- control

#[test]
fn a_cluster_without_control_is_not_made_anew() {
    let (env, _) = stopped_cluster();
    let before = env.image();
    env.lose("control");
    let why = refused(&env);
    assert!(why.contains("file \"control\" is missing") && why.contains("directory-"), "{why}");
    let after = env.image();
    assert_eq!(after.len(), before.len() - 1, "a refused start makes no file");
    assert!(after.iter().all(|file| before.contains(file)), "a refused start changes nothing");
}

/// Whatever else is left of it.
#[test]
fn each_remainder_of_a_cluster_counts() {
    let (env, _) = stopped_cluster();
    let all = env.names();
    let with_content = all.iter().filter(|name| {
        // The first directory is there before control is.
        let is_later_directory = name.starts_with("directory-") && !name.ends_with("-0000000000000001");
        is_later_directory || name.starts_with("wal/") || ["pages", "doublewrite"].contains(&name.as_str())
    });
    let with_content: Vec<&String> = with_content.collect();
    assert!(with_content.len() >= 4, "{all:?}");
    for left in with_content {
        let (env, _) = stopped_cluster();
        for name in env.names().iter().filter(|name| *name != left) {
            env.lose(name);
        }
        assert!(refused(&env).contains(left.as_str()), "{left}: {}", refused(&env));
    }
}

#[test]
fn a_creation_that_was_cut_off_begins_again() {
    // Everything that is made before the first slot of control is durable.
    let env = Arc::new(SimEnv::default());
    drop(open(&env));
    let env = env.restart();
    for name in env.names().iter().filter(|name| name.starts_with("wal/")) {
        env.lose(name);
    }
    env.spoil("control", Vec::clear);
    let e = open(&env);
    assert!(e.is_new());
    let heap = create(&e, RelationKind::Heap);
    insert(&e, &heap, b"first", 1);
    assert_eq!(rows(&e, heap.id()).unwrap(), [b"first".to_vec()]);
}

#[test]
fn a_control_file_that_cannot_be_read_is_not_absent() {
    for number in [EACCES, EIO] {
        let (env, id) = stopped_cluster();
        env.deny("control", number);
        let why = refused(&env);
        assert!(why.contains("could not open file \"control\""), "{why}");
        assert_eq!(rows(&open(&env.restart()), id).unwrap().len(), 10);
    }
}

#[test]
fn control_without_a_valid_slot_is_an_error() {
    let (env, _) = stopped_cluster();
    env.spoil("control", |bytes| {
        bytes[16] ^= 1;
        bytes[4096 + 16] ^= 1;
    });
    assert_eq!(refused(&env), "file \"control\" has no valid slot (offsets 0 and 4096)");
    env.spoil("control", |bytes| bytes.fill(0));
    assert!(refused(&env).contains("file \"control\" is empty"), "{}", refused(&env));
}

/// One that was damaged after it was written: the newer names a checkpoint for which the log before it was given up.
#[test]
fn one_slot_of_control_may_go_bad() {
    for slot in [0, 4096] {
        let env = Arc::new(SimEnv::default());
        let e = open(&env);
        let heap = create(&e, RelationKind::Heap);
        let id = heap.id();
        for round in 0..4 {
            // More than a segment of the log each time.
            insert(&e, &heap, &[round; 8000], 2200);
            e.checkpoint(&ThreadPark::new()).unwrap();
        }
        insert(&e, &heap, b"last", 1);
        let env = env.restart();
        drop((heap, e));
        env.spoil("control", |bytes| bytes[slot + 20] ^= 4);
        let e = open(&env);
        let found = rows(&e, id).unwrap();
        assert_eq!((found.len(), &found[found.len() - 1][..]), (4 * 2200 + 1, &b"last"[..]), "slot at {slot}");
        e.shutdown().unwrap();
        assert_eq!(problems(&env.restart()), Vec::<String>::new());
    }
}

#[test]
fn a_damaged_directory_file_is_named() {
    let (env, _) = stopped_cluster();
    let newest = env.names().into_iter().filter(|name| name.starts_with("directory-")).max().unwrap();
    env.spoil(&newest, |bytes| bytes[30] ^= 1);
    assert_eq!(refused(&env), format!("file \"{newest}\" is damaged"));
    env.lose(&newest);
    assert!(refused(&env).starts_with(&format!("could not open file \"{newest}\"")), "{}", refused(&env));
}

// ---- pages and the double-write area

/// A heap with one row that was written twice, the first time at the end of the area, and so much more since that the
/// second copy is gone.
fn cluster_with_a_stale_copy() -> (Arc<SimEnv>, RelationId) {
    // Nothing is evicted in between.
    let roomy = |env: &Arc<SimEnv>| {
        Engine::open(env.clone(), EngineConfig { shared_buffers_bytes: 64 << 20, ..config(env) }).unwrap()
    };
    let env = Arc::new(SimEnv::default());
    let e = roomy(&env);
    let (heap, filler) = (create(&e, RelationKind::Heap), create(&e, RelationKind::Heap));
    let rid = insert(&e, &heap, b"version 1", 1);
    let park = ThreadPark::new();
    let slots = || env.spoil("doublewrite", |b| b.chunks(SLOT).take(2048).filter(|slot| slot[0] != 0).count());
    insert(&e, &filler, &[3; 7000], 1800);
    e.checkpoint(&park).unwrap();
    while slots() < 2035 {
        insert(&e, &filler, &[3; 7000], 1);
        e.checkpoint(&park).unwrap();
    }
    update(&e, &heap, rid, b"version 1a");
    e.checkpoint(&park).unwrap();
    let (id, filler_id) = (heap.id(), filler.id());
    drop((heap, filler));
    e.shutdown().unwrap();
    let env = env.restart();
    let e = roomy(&env);
    let (heap, filler) = (e.relation(id).unwrap(), e.relation(filler_id).unwrap());
    update(&e, &heap, rid, b"version 2");
    e.checkpoint(&park).unwrap();
    while !place_of(&env, "doublewrite", b"version 2").is_empty() {
        insert(&e, &filler, &[3; 7000], 60);
        e.checkpoint(&park).unwrap();
    }
    drop((heap, filler));
    e.shutdown().unwrap();
    (env.restart(), id)
}

#[test]
fn a_stale_copy_repairs_nothing() {
    let (env, id) = cluster_with_a_stale_copy();
    assert!(!place_of(&env, "doublewrite", b"version 1a").is_empty(), "the case is not met: no old copy");
    let at = place_in_pages(&env, b"version 2");
    env.spoil("pages", |bytes| bytes[at - 100] ^= 1);
    let offset = at / PAGE * PAGE;
    let expected = format!("(file \"pages\", offset {offset})");
    assert!(problems(&env)[0].ends_with(&expected), "{:?}", problems(&env));
    let why = unreadable(&open(&env), id);
    assert!(why.starts_with("checksum of page") && why.ends_with(&expected), "{why}");
}

/// As long as the copy that was written last is there, a page can be had back.
#[test]
fn the_last_copy_repairs_a_page() {
    for clean in [true, false] {
        let env = Arc::new(SimEnv::default());
        let e = open(&env);
        let heap = create(&e, RelationKind::Heap);
        let rid = insert(&e, &heap, b"version 1", 1);
        e.checkpoint(&ThreadPark::new()).unwrap();
        update(&e, &heap, rid, b"version 2");
        e.checkpoint(&ThreadPark::new()).unwrap();
        let id = heap.id();
        drop(heap);
        if clean {
            e.shutdown().unwrap();
        }
        drop(e);
        let env = env.restart();
        let at = place_in_pages(&env, b"version 2");
        env.spoil("pages", |bytes| bytes[at + 1000] ^= 1);
        assert_eq!(rows(&open(&env), id).unwrap(), [b"version 2".to_vec()]);
    }
}

/// A page that is still as it was before: nothing in it says so, but the area does.
#[test]
fn a_lost_write_is_made_good_by_the_last_copy() {
    let env = Arc::new(SimEnv::default());
    let e = open(&env);
    let heap = create(&e, RelationKind::Heap);
    let rid = insert(&e, &heap, b"version 1", 1);
    e.checkpoint(&ThreadPark::new()).unwrap();
    let at = place_in_pages(&env, b"version 1") / PAGE * PAGE;
    let old = env.spoil("pages", |bytes| bytes[at..at + PAGE].to_vec());
    update(&e, &heap, rid, b"version 2");
    let id = heap.id();
    drop(heap);
    e.shutdown().unwrap();
    let env = env.restart();
    env.spoil("pages", |bytes| bytes[at..at + PAGE].copy_from_slice(&old));
    assert_eq!(rows(&open(&env), id).unwrap(), [b"version 2".to_vec()]);
}

#[test]
fn a_rotten_double_write_area_costs_nothing_but_repairs() {
    for spoiled in [0, 5000, 2048 * SLOT] {
        let (env, id) = stopped_cluster();
        env.spoil("doublewrite", |bytes| bytes[spoiled] ^= 1);
        assert_eq!(rows(&open(&env), id).unwrap().len(), 10, "offset {spoiled}");
    }
    // With the line behind the slots, no copy is known to be the last.
    let (env, id) = stopped_cluster();
    env.spoil("doublewrite", |bytes| bytes[2048 * SLOT + 9] ^= 1);
    let at = place_in_pages(&env, b"precious");
    env.spoil("pages", |bytes| bytes[at] ^= 1);
    assert!(unreadable(&open(&env), id).starts_with("checksum of page"));
    let (env, id) = stopped_cluster();
    env.lose("doublewrite");
    assert_eq!(rows(&open(&env), id).unwrap().len(), 10);
}

/// A heap whose only page has been written twice in a pass of the area, and whose last copy has rotted.
fn cluster_with_a_rotten_copy() -> (Arc<SimEnv>, RelationId) {
    let env = Arc::new(SimEnv::default());
    let e = open(&env);
    let (heap, other) = (create(&e, RelationKind::Heap), create(&e, RelationKind::Heap));
    let rid = insert(&e, &heap, b"version 1", 1);
    e.checkpoint(&ThreadPark::new()).unwrap();
    update(&e, &heap, rid, b"version 2");
    e.checkpoint(&ThreadPark::new()).unwrap();
    // With a batch behind it: a torn copy cannot be meant.
    insert(&e, &other, b"another", 1);
    e.checkpoint(&ThreadPark::new()).unwrap();
    let id = heap.id();
    drop((heap, other));
    drop(e);
    let env = env.restart();
    assert!(!place_of(&env, "doublewrite", b"version 1").is_empty(), "the case is not met: no older copy");
    for at in place_of(&env, "doublewrite", b"version 2") {
        env.spoil("doublewrite", |bytes| bytes[at] ^= 1);
    }
    (env, id)
}

/// Found by simulation: the older copy took the place of the page.
#[test]
fn a_rotten_copy_does_not_bring_an_older_one_back() {
    let (env, id) = cluster_with_a_rotten_copy();
    assert_eq!(rows(&open(&env), id).unwrap(), [b"version 2".to_vec()]);
}

#[test]
fn a_torn_page_with_a_rotten_copy_is_reported() {
    let (env, id) = cluster_with_a_rotten_copy();
    let at = place_in_pages(&env, b"version 2");
    env.spoil("pages", |bytes| bytes[at - 100] ^= 1);
    assert!(unreadable(&open(&env), id).starts_with("checksum of page"));
}

/// A copy of the last batch that is not whole was torn before its page went in place: the one before it counts.
#[test]
fn a_torn_last_batch_leaves_the_copies_before_it() {
    let env = Arc::new(SimEnv::default());
    let e = open(&env);
    let heap = create(&e, RelationKind::Heap);
    insert(&e, &heap, b"version 1", 1);
    e.checkpoint(&ThreadPark::new()).unwrap();
    let id = heap.id();
    drop(heap);
    drop(e);
    let env = env.restart();
    let last = env.spoil("doublewrite", |bytes| bytes.chunks(SLOT).take(2048).rposition(|slot| slot[0] != 0).unwrap());
    // What a write that was torn leaves in the next slot.
    env.spoil("doublewrite", |bytes| bytes[(last + 1) * SLOT..(last + 1) * SLOT + 512].fill(7));
    let at = place_in_pages(&env, b"version 1");
    env.spoil("pages", |bytes| bytes[at - 100] ^= 1);
    assert_eq!(rows(&open(&env), id).unwrap(), [b"version 1".to_vec()]);
}

#[test]
fn a_missing_file_of_pages_is_named() {
    let (env, _) = stopped_cluster();
    env.lose("pages");
    assert!(refused(&env).starts_with("could not open file \"pages\""), "{}", refused(&env));
    assert!(!env.names().contains(&"pages".to_string()));
}

// ---- pages in the wrong place

/// A stopped cluster of two heaps, without copies of their pages, and where the pages of both are.
fn two_heaps() -> (Arc<SimEnv>, [RelationId; 2], [usize; 2]) {
    let env = Arc::new(SimEnv::default());
    let e = open(&env);
    let heaps = [create(&e, RelationKind::Heap), create(&e, RelationKind::Heap)];
    insert(&e, &heaps[0], b"of the first", 1);
    insert(&e, &heaps[1], b"of the second", 1);
    let ids = [heaps[0].id(), heaps[1].id()];
    drop(heaps);
    e.shutdown().unwrap();
    let env = env.restart();
    without_copies(&env);
    let places = [b"of the first".as_slice(), b"of the second"].map(|text| place_in_pages(&env, text) / PAGE * PAGE);
    (env, ids, places)
}

#[test]
fn a_write_that_went_astray_is_found_out() {
    let (env, [first, second], [from, to]) = two_heaps();
    env.spoil("pages", |bytes| bytes.copy_within(from..from + PAGE, to));
    let expected = format!(
        "page {} is not the one that belongs there: block 0 of storage relation {} is expected there, and block 0 of \
         storage relation {} is found (file \"pages\", offset {to})",
        to / PAGE,
        second.0,
        first.0
    );
    assert!(problems(&env).iter().any(|problem| problem.ends_with(&expected)), "{:?}", problems(&env));
    let e = open(&env);
    assert_eq!(rows(&e, first).unwrap(), [b"of the first".to_vec()]);
    assert_eq!(unreadable(&e, second), expected);
}

#[test]
fn a_first_write_that_was_lost_is_found_out() {
    let (env, [first, _], [at, _]) = two_heaps();
    env.spoil("pages", |bytes| bytes[at..at + PAGE].fill(0));
    let why = unreadable(&open(&env), first);
    let expected = format!("block 0 of storage relation {} is expected there, and nothing is found", first.0);
    assert!(why.contains(&expected) && why.ends_with(&format!("(file \"pages\", offset {at})")), "{why}");
}

/// A page of another block of the same relation, in the wrong place.
#[test]
fn a_block_in_place_of_another_is_found_out() {
    let (env, id) = stopped_cluster();
    without_copies(&env);
    let at = place_of(&env, "pages", &[1; 3000])[0] / PAGE * PAGE;
    let other = env.spoil("pages", |bytes| {
        let relation = bytes[at + 8..at + 12].to_vec();
        let is_other = |page: &[u8]| page[4] == 1 && page[8..12] == relation && page[12..16] != bytes[at + 12..at + 16];
        let found = bytes.chunks(PAGE).position(is_other).unwrap() * PAGE;
        bytes.copy_within(found..found + PAGE, at);
        found
    });
    assert_ne!(at, other);
    assert!(unreadable(&open(&env), id).contains("is not the one that belongs there"));
}

/// The disk gives another page than the one that was asked for: nothing is damaged, and the next read is right.
#[test]
fn a_read_that_went_astray_is_found_out() {
    let (env, [first, _], [from, to]) = two_heaps();
    let e = open(&env);
    env.misread("pages", from as u64, to as u64);
    let why = unreadable(&e, first);
    assert!(why.contains(&format!("block 0 of storage relation {} is expected there", first.0)), "{why}");
    assert_eq!(rows(&e, first).unwrap(), [b"of the first".to_vec()]);
}

/// Undo that was overwritten by what belongs elsewhere.
#[test]
fn undo_overwritten_by_another_page_is_named_when_it_is_read() {
    let env = Arc::new(SimEnv::default());
    let e = Engine::open(env.clone(), EngineConfig { shared_buffers_bytes: 64 * 8192, ..config(&env) }).unwrap();
    let (heap, filler) = (create(&e, RelationKind::Heap), create(&e, RelationKind::Heap));
    let rid = insert(&e, &heap, b"before", 1);
    e.checkpoint(&ThreadPark::new()).unwrap();
    let other = place_in_pages(&env, b"before") / PAGE * PAGE;
    let mut old = e.begin(Isolation::RepeatableRead, 0);
    let s = old.take_snapshot();
    update(&e, &heap, rid, b"after, and longer");
    // Everything is evicted, undo as well.
    insert(&e, &filler, &[3; 7000], 400);
    e.checkpoint(&ThreadPark::new()).unwrap();
    let undo = env.spoil("pages", |bytes| {
        let (row, page) = (u32::to_le_bytes(heap.id().0), bytes[other..other + PAGE].to_vec());
        // The record of the update: kind 3, and its relation.
        let is_it =
            |at: usize| bytes[at + 2] == 3 && bytes[at + 32..at + 36] == row && bytes[at / PAGE * PAGE + 4] == 4;
        let at = (0..bytes.len() - 64).find(|at| is_it(*at)).expect("the undo of the update") / PAGE * PAGE;
        bytes[at..at + PAGE].copy_from_slice(&page);
        at
    });
    let mut out = Vec::new();
    let why = heap.fetch(rid, &s, &mut out).expect_err("undo that is not there was read");
    assert!(why.message().ends_with(&format!("is not readable (file \"pages\", offset {undo})")), "{why}");
}

// ---- images of unlogged relations

/// Damage in the images of a checkpoint, from which a relation is restored after the server died.
#[test]
fn a_damaged_image_is_named() {
    let env = Arc::new(SimEnv::default());
    let e = open(&env);
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Kept).unwrap();
    commit(&e, t);
    insert(&e, &heap, b"kept", 1);
    e.checkpoint(&ThreadPark::new()).unwrap();
    let id = heap.id();
    let env = env.restart();
    drop((heap, e));
    let file = format!("images/{:08x}", id.0);
    let at = place_of(&env, &file, b"kept")[0];
    env.spoil(&file, |bytes| bytes[at] ^= 1);
    let expected = format!(
        "checksum of block 0 of storage relation {} is wrong (file \"{file}\", offset {})",
        id.0,
        at / PAGE * PAGE
    );
    assert_eq!(refused(&env), expected);
    assert!(problems(&env).contains(&expected), "{:?}", problems(&env));
    // Without it there is nothing to come back from: the relation begins anew, which is told.
    env.lose(&file);
    assert!(problems(&env).contains(&format!("file \"{file}\" is missing")), "{:?}", problems(&env));
    assert!(rows(&open(&env), id).unwrap().is_empty());
}

// ---- the log

const SEGMENT: u64 = 16 << 20;

/// A running cluster after a checkpoint and so many acknowledged commits of one row, which then dies. Where the log was at
/// both ends of these.
fn updates_since_a_checkpoint(env: &Arc<SimEnv>, count: u32) -> (RelationId, u64, u64) {
    let e = open(env);
    let heap = create(&e, RelationKind::Heap);
    let rid = insert(&e, &heap, &0u32.to_le_bytes(), 1);
    e.checkpoint(&ThreadPark::new()).unwrap();
    let from = e.insert_lsn().0;
    for i in 1..=count {
        update(&e, &heap, rid, &i.to_le_bytes());
    }
    (heap.id(), from, e.insert_lsn().0)
}
fn segment_of(lsn: u64) -> String {
    format!("wal/{:016x}", lsn / SEGMENT)
}
fn counted(e: &Arc<Engine>, id: RelationId) -> u32 {
    u32::from_le_bytes(rows(e, id).unwrap()[0][..].try_into().unwrap())
}
fn shown(lsn: u64) -> String {
    format!("{:X}/{:X}", lsn >> 32, lsn as u32)
}

/// Anywhere but in what was flushed last: nothing behind that says that it was durable.
#[test]
fn a_damaged_log_is_not_taken_for_one_that_ends() {
    for tenth in 0..9 {
        let env = Arc::new(SimEnv::default());
        let (_, from, to) = updates_since_a_checkpoint(&env, 200);
        let env = env.restart();
        let at = from + (to - from) * tenth / 10;
        env.spoil(segment_of(at), |bytes| bytes[(at % SEGMENT) as usize] ^= 1);
        let why = refused(&env);
        let place = format!("(file \"{}\", offset ", segment_of(at));
        assert!(why.starts_with("the log is damaged at ") && why.contains(&place), "{why}");
        let offset: u64 = why.split("offset ").nth(1).unwrap().split(')').next().unwrap().parse().unwrap();
        assert!(
            ((at % SEGMENT).saturating_sub(200)..=at % SEGMENT).contains(&offset),
            "the record that was hit: {why}"
        );
        assert!(problems(&env).contains(&why), "{:?}", problems(&env));
    }
}

#[test]
fn who_accepts_a_lost_log_goes_on() {
    let env = Arc::new(SimEnv::default());
    let (id, from, to) = updates_since_a_checkpoint(&env, 200);
    let env = env.restart();
    let at = (from + to) / 2;
    env.spoil(segment_of(at), |bytes| bytes[(at % SEGMENT) as usize] ^= 1);
    let said = Arc::new(std::sync::Mutex::new(Vec::new()));
    let heard = said.clone();
    let log = Arc::new(move |_: kilndb_base::Severity, text: &str| heard.lock().unwrap().push(text.to_string()));
    let e = Engine::open(env.clone(), EngineConfig { accept_lost_log: true, log, ..config(&env) }).unwrap();
    assert!(said.lock().unwrap().iter().any(|text| text.contains("the log is damaged") && text.contains("given up")));
    let left = counted(&e, id);
    assert!((50..150).contains(&left), "{left} of 200");
    // It is a cluster like any other from here on.
    let heap = e.relation(id).unwrap();
    update(&e, &heap, RowId { block: 0, slot: 1 }, &1000u32.to_le_bytes());
    let env = env.restart();
    drop((heap, e));
    let e = open(&env);
    assert_eq!(counted(&e, id), 1000);
    e.shutdown().unwrap();
    assert_eq!(problems(&env.restart()), Vec::<String>::new());
}

/// The log went bad behind the last flush that anything in it tells of, but a page was written after it.
#[test]
fn a_page_proves_how_far_the_log_was() {
    let env = Arc::new(SimEnv::default());
    let e = Engine::open(env.clone(), EngineConfig { shared_buffers_bytes: 64 * 8192, ..config(&env) }).unwrap();
    let heap = create(&e, RelationKind::Heap);
    e.checkpoint(&ThreadPark::new()).unwrap();
    let from = e.insert_lsn().0;
    // One flush, much of which is evicted.
    insert(&e, &heap, &[5; 6000], 150);
    let env = env.restart();
    drop((heap, e));
    let cut = from + 2000;
    env.spoil(segment_of(cut), |bytes| bytes[(cut % SEGMENT) as usize..].fill(0));
    assert!(refused(&env).contains("it was durable up to"), "{}", refused(&env));
}

#[test]
fn a_missing_file_of_the_log_is_named() {
    // The first one that is needed, one in the middle. No checkpoint that the volume brings makes one of them needless.
    for missing in 0..2 {
        let env = Arc::new(SimEnv::default());
        let e = Engine::open(env.clone(), EngineConfig { max_wal_size_bytes: 1 << 30, ..config(&env) }).unwrap();
        let heap = create(&e, RelationKind::Heap);
        e.checkpoint(&ThreadPark::new()).unwrap();
        let from = e.insert_lsn().0;
        for _ in 0..5 {
            insert(&e, &heap, &[5; 7000], 1100);
        }
        assert!(e.insert_lsn().0 / SEGMENT >= from / SEGMENT + 2);
        let env = env.restart();
        drop((heap, e));
        let lost = segment_of(from + missing * SEGMENT);
        env.lose(&lost);
        let why = refused(&env);
        assert!(why.contains("the log is damaged") && why.contains(&lost), "{why}");
    }
    // All of it, of a server that had just started.
    let (env, id) = stopped_cluster();
    let e = open(&env);
    insert(&e, &e.relation(id).unwrap(), b"more", 1);
    let lost = segment_of(e.insert_lsn().0);
    let env = env.restart();
    drop(e);
    env.lose(&lost);
    assert!(refused(&env).contains(&lost), "{}", refused(&env));
}

/// A crash leaves any part of what was not flushed, whole records behind a hole too, so nothing says of the last flush that
/// it was once complete.
#[test]
fn damage_to_the_last_flush_looks_like_a_torn_end() {
    let env = Arc::new(SimEnv::default());
    let e = Engine::open(env.clone(), EngineConfig { wal_writer_delay_ms: 10_000, ..config(&env) }).unwrap();
    let heap = create(&e, RelationKind::Heap);
    insert(&e, &heap, b"before", 1);
    let last = e.insert_lsn().0;
    insert(&e, &heap, &[5; 3000], 20);
    let id = heap.id();
    let env = env.restart();
    drop((heap, e));
    env.spoil(segment_of(last), |bytes| {
        let at = (last % SEGMENT) as usize;
        bytes[at..at + 512].fill(0);
    });
    let e = open(&env);
    assert_eq!(rows(&e, id).unwrap(), [b"before".to_vec()]);
    e.shutdown().unwrap();
    assert_eq!(problems(&env.restart()), Vec::<String>::new());
}

/// A checkpoint notes how far the log was durable, which is not less than where recovery begins.
#[test]
fn a_log_that_ends_before_the_checkpoint_is_damaged() {
    let env = Arc::new(SimEnv::default());
    let e = Engine::open(env.clone(), EngineConfig { wal_writer_delay_ms: 10_000, ..config(&env) }).unwrap();
    let heap = create(&e, RelationKind::Heap);
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    heap.insert(&mut t, b"not flushed before").unwrap();
    t.commit(CommitMode::Async, &ThreadPark::new()).unwrap();
    let redo = e.insert_lsn().0;
    e.checkpoint(&ThreadPark::new()).unwrap();
    let durable = e.flushed_lsn().0;
    assert!(durable > redo, "the case is not met");
    let env = env.restart();
    drop((heap, e));
    without_copies(&env);
    env.spoil(segment_of(redo), |bytes| bytes[(redo % SEGMENT) as usize..].fill(0));
    let why = refused(&env);
    assert!(why.contains(&format!("durable up to {}", shown(durable))), "{why}");
}

// ---- who else is there

#[test]
fn one_server_or_some_checks_have_a_folder() {
    let dir = support::Dir::new("locked");
    let e = support::open(&dir, 8 << 20);
    let inspect = || check(Arc::new(OsEnv), dir.0.clone());
    for why in [
        Engine::open(Arc::new(OsEnv), support::config(dir.0.clone(), 8 << 20)).map(|_| ()).unwrap_err(),
        inspect().unwrap_err(),
    ] {
        assert_eq!(why.sqlstate(), sqlstate::OBJECT_IN_USE);
        assert!(why.message().contains("is in use by another kilndb server"), "{why}");
    }
    e.shutdown().unwrap();
    drop(e);
    assert_eq!(inspect().unwrap(), Vec::<String>::new());
    let reader = OsEnv.lock_dir(&dir.0, FolderLock::Shared).unwrap();
    assert!(reader.is_some());
    assert_eq!(inspect().unwrap(), Vec::<String>::new());
    let opened = Engine::open(Arc::new(OsEnv), support::config(dir.0.clone(), 8 << 20));
    assert_eq!(opened.map(|_| ()).unwrap_err().sqlstate(), sqlstate::OBJECT_IN_USE);
    drop(reader);
    support::open(&dir, 8 << 20).shutdown().unwrap();
}

#[test]
fn a_check_writes_nothing() {
    let (stopped, _) = stopped_cluster();
    let crashed = Arc::new(SimEnv::default());
    updates_since_a_checkpoint(&crashed, 20);
    for (env, expected) in [(stopped, 0), (crashed, 1)] {
        let env = env.restart();
        let before = env.image();
        env.make_read_only();
        let found = problems(&env);
        // After a crash it says that it has not looked at everything.
        assert_eq!(found.len(), expected, "{found:?}");
        assert!(!env.dead());
        assert!(env.image() == before);
    }
}

/// In which no row may be without an entry, or have two.
#[test]
fn a_check_looks_from_heap_to_index() {
    let park = ThreadPark::new();
    for (of_all_rows, entries) in [(true, 0), (true, 1), (true, 2), (false, 0)] {
        let env = Arc::new(SimEnv::default());
        let e = open(&env);
        let (heap, index) = (create(&e, RelationKind::Heap), create(&e, RelationKind::BTree));
        if of_all_rows {
            index.set_heap_of_all_rows(heap.id());
        } else {
            index.set_heap(heap.id());
        }
        let mut t = e.begin(Isolation::ReadCommitted, 0);
        for row in 0..300u32 {
            let rid = heap.insert(&mut t, &[7; 500]).unwrap();
            for n in 0..if row == 211 { entries } else { 1 } {
                let key = [row.to_be_bytes(), [n; 4]].concat();
                index.index_insert(&mut t, &heap, &key, rid, Uniqueness::NotUnique, &park).unwrap();
            }
        }
        commit(&e, t);
        let (heap_id, index_id) = (heap.id().0, index.id().0);
        drop((heap, index));
        // The index says so itself: by the log, and by the directory.
        let env = env.restart();
        drop(e);
        open(&env).shutdown().unwrap();
        let found = problems(&env.restart());
        match (of_all_rows, entries) {
            (true, 0) => {
                assert_eq!(found.len(), 1, "{found:?}");
                let (start, end) = (format!("index {index_id}: row ("), format!(" of heap {heap_id} has no entry"));
                assert!(found[0].starts_with(&start) && found[0].ends_with(&end), "{found:?}");
            }
            (true, 2) => assert!(found.len() == 1 && found[0].ends_with("has two entries"), "{found:?}"),
            _ => assert_eq!(found, Vec::<String>::new()),
        }
    }
}

#[test]
fn a_stopped_cluster_needs_no_log() {
    let (env, id) = stopped_cluster();
    for name in env.names().iter().filter(|name| name.starts_with("wal/")) {
        env.lose(name);
    }
    assert_eq!(problems(&env), Vec::<String>::new());
    assert_eq!(rows(&open(&env), id).unwrap().len(), 10);
}

// ---- room

/// The area takes its room when the cluster is made, so that pages get to their places on a full disk.
#[test]
fn the_double_write_area_needs_no_room_later() {
    use support::disk::DiskFault;
    const ENOSPC: i32 = 28;
    let env = Arc::new(SimEnv::default());
    let e = open(&env);
    let heap = create(&e, RelationKind::Heap);
    insert(&e, &heap, &[1; 5900], 800);
    env.arm(0, DiskFault::Full(ENOSPC));
    let done = e.checkpoint(&ThreadPark::new());
    // A directory file is new each time, and needs room; pages do not.
    let why = done.map_err(|e| e.message().to_string()).unwrap_err();
    assert!(why.contains("directory.new"), "{why}");
    assert!(!env.dead());
    env.disarm();
    e.checkpoint(&ThreadPark::new()).unwrap();
}
