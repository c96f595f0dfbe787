//! Pages of large tables that are read past the pool.

use crate::api::*;
use crate::cluster::{Dir, config};
use crate::engine::Engine;
use kilndb_base::env::OsEnv;
use kilndb_base::park::ThreadPark;
use std::sync::Arc;

/// Who looks at a page may ask what holds only for as long as nobody changes it, so the look is repeated if somebody has.
#[test]
fn a_page_that_is_changed_while_it_is_looked_at_is_looked_at_again() {
    let dir = Dir::new("passing-look");
    let e = Engine::open(Arc::new(OsEnv), EngineConfig { workers: 2, ..config(dir.0.clone(), 2 << 20) }).unwrap();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Unlogged).unwrap();
    (0..20_000).for_each(|_| _ = heap.insert(&mut t, &[1; 500]).unwrap());
    t.commit(CommitMode::Async, &ThreadPark::new()).unwrap();
    let pool = &heap.core.pool;
    let mut passed = 0;
    for pid in (0..heap.pages()).map(|block| heap.pid(block).unwrap()) {
        let was_missing = pool.version(pid).is_none();
        // Whoever passes leaves the page where it was.
        pool.read_passing(pid, |_| ()).unwrap();
        if !was_missing || pool.version(pid).is_some() {
            continue;
        }
        let mut looks = 0;
        let seen = pool.read_passing(pid, |_| {
            looks += 1;
            if looks == 1 {
                drop(pool.write(pid).unwrap());
            }
            looks
        });
        assert_eq!(seen.unwrap(), 2, "page {pid}");
        passed += 1;
    }
    assert!(passed > 100, "{passed} pages were not in memory");
}
