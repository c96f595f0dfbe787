//! Keys of all sizes up to the largest, with long beginnings in common, so that separators are as long as keys.
mod support;

use kilndb_base::park::ThreadPark;
use kilndb_storage::*;
use std::ops::Bound;
use support::{Dir, Rng};

#[test]
fn nodes_of_large_keys_are_split_where_both_halves_fit() {
    for seed in support::seeds(12) {
        let dir = Dir::new(&format!("large-keys-{seed}"));
        let e = support::open(&dir, 16 << 20);
        let mut rng = Rng::new(seed);
        let p = ThreadPark::new();
        let mut t = e.begin(Isolation::ReadCommitted, 0);
        let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
        let index = e.create_relation(&mut t, RelationKind::BTree, Persistence::Logged).unwrap();
        let mut count = 0;
        for _ in 0..600 {
            let most = [MAX_KEY as u64, MAX_KEY as u64, 1900, 1100, 400, 30][rng.below(6) as usize];
            let len = most - rng.below(3);
            let mut key = vec![b'x'; len as usize];
            key[len as usize - 1] = rng.next() as u8;
            if rng.one_in(2) {
                key[len as usize - 2] = rng.next() as u8;
            }
            if rng.one_in(4) {
                key[rng.below(len) as usize] = b'x' + rng.below(2) as u8;
            }
            let rid = heap.insert(&mut t, b"row").unwrap();
            let got = index.index_insert(&mut t, &heap, &key, rid, Uniqueness::NotUnique, &p);
            assert_eq!(got.unwrap_or_else(|e| panic!("seed {seed}, entry {count}: {e}")), IndexInsert::Inserted);
            count += 1;
        }
        let mut scan = index.index_scan(Bound::Unbounded, Bound::Unbounded, false);
        let (mut keys, mut ends, mut rids) = (vec![], vec![], vec![]);
        while scan.next_batch(&mut keys, &mut ends, &mut rids).unwrap() {}
        assert_eq!(rids.len(), count, "seed {seed}");
        t.commit(CommitMode::Async, &p).unwrap();
        drop((heap, index));
        e.shutdown().unwrap();
        drop(e);
        let wrong = check(std::sync::Arc::new(kilndb_base::env::OsEnv), dir.0.clone()).unwrap();
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    }
}
