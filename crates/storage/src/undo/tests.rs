//! Chunks that have gone keep their places and their memory for those to come.

use super::{CHUNK_PAGES, SPARE_CHUNKS};
use crate::cluster::{Dir, config};
use crate::control;
use crate::engine::{CorePurpose, Engine, build_core};
use kilndb_base::env::{Env, OsEnv};
use std::collections::BTreeSet;
use std::sync::Arc;

#[test]
fn chunks_that_have_gone_are_kept_for_the_next_ones() {
    let dir = Dir::new("spare-chunks");
    drop(Engine::open(Arc::new(OsEnv), config(dir.0.clone(), 16 << 20)).unwrap());
    let env: Arc<dyn Env> = Arc::new(OsEnv);
    let c = control::read(&env, &dir.0).unwrap().unwrap().checkpoint;
    let core = build_core(env, config(dir.0.clone(), 16 << 20), &c, CorePurpose::Serve).unwrap();
    core.load_checkpoint(&c).unwrap();
    let space = &core.directory.space;
    let fill = |chunks: usize| {
        let pages: BTreeSet<u32> = (0..chunks)
            .map(|_| {
                let (number, page) = core.undo.allocate(&core.pool, space, false).unwrap();
                drop(core.pool.write_new(page).unwrap());
                core.undo.drop_holder(number);
                page
            })
            .collect();
        assert_eq!(pages.len(), chunks, "live chunks share no place");
        pages
    };
    let drop_all = || core.undo.discard(&core.pool, space, &core.log, u64::MAX);
    let first = fill(SPARE_CHUNKS + 3);
    assert_eq!(drop_all(), SPARE_CHUNKS + 3);
    let spare: BTreeSet<u32> = core.undo.spare.lock().unwrap().iter().copied().collect();
    assert!(spare.len() == SPARE_CHUNKS && spare.is_subset(&first), "{spare:?}");
    // Whoever takes space for something else gets none of theirs.
    let taken = core.pool.take_pages(space, CHUNK_PAGES).unwrap();
    assert!(!spare.contains(&taken));
    assert_eq!(fill(SPARE_CHUNKS), spare);
    assert!(core.undo.spare.lock().unwrap().is_empty());
}
