//! The rounds of the cleaner thread: it purges, makes trees smaller, discards undo and writes dirty pages before the
//! clock hand reaches them, for the cluster and for the sessions' private stores.
//!
//! Must not know: SQL.

use crate::core::Core;
use crate::method::work::IndexWorkers;
use crate::undo::compact::UndoCompactor;
use kilndb_base::sync::atomic::Ordering::*;
use kilndb_base::sync::{Mutex, Weak};
use std::time::Duration;

/// Stores looked after in one round: with more of them, each has its turn less often.
const STORES_PER_ROUND: usize = 256;

fn clean_private(private: &Mutex<Vec<Weak<Core>>>, round: u64) -> bool {
    let stores = {
        let mut all = crate::lock(private);
        let parts = all.len().div_ceil(STORES_PER_ROUND);
        let part = (round % parts.max(1) as u64) as usize;
        if part == 0 {
            all.retain(|s| s.strong_count() > 0);
        }
        all.iter().skip(part * STORES_PER_ROUND).take(STORES_PER_ROUND).cloned().collect::<Vec<_>>()
    };
    let mut busy = false;
    for store in &stores {
        // Upgraded one by one: none of them may be kept alive for longer than its turn.
        busy |= store.upgrade().is_some_and(|store| clean_store(&store));
    }
    busy
}

/// Purges, discards undo, cleans pages ahead of the clock.
pub(crate) fn run(core: &Core, private: &Mutex<Vec<Weak<Core>>>) {
    let mut round = 0u64;
    let mut compactor = UndoCompactor::new(core);
    while !core.stop.load(Acquire) {
        let mut busy = core.purge_round(false) > 0 || core.purge.ready() > 0;
        busy |= core.sweep_round();
        busy |= core.shrink_round();
        core.oldest_seen.store(core.snapshots.oldest(core.log.last_csn()), Relaxed);
        core.undo.discard(&core.pool, &core.directory.space, &core.log, core.visible_to_all());
        busy |= compactor.round(core);
        core.pool.clean_ahead();
        core.log.prepare_room();
        core.pool.gather_dense();
        round += 1;
        busy |= clean_private(private, round);
        if round.is_multiple_of(256) {
            core.free_xids();
        }
        core.env.sleep(Duration::from_millis(if busy { 1 } else { 5 }));
    }
}

/// Does one round for a private store; false if there was nothing to do.
fn clean_store(core: &Core) -> bool {
    if core.stop.load(Acquire) {
        return false;
    }
    core.oldest_seen.store(core.snapshots.oldest(core.log.last_csn()), Relaxed);
    let busy = core.purge.len() > 0 && (core.purge_round(false) > 0 || core.purge.ready() > 0);
    let busy = core.index_work_round(&mut IndexWorkers::default()) || busy;
    let busy = core.shrink_round() || busy;
    core.undo.discard(&core.pool, &core.directory.space, &core.log, core.visible_to_all());
    if core.xids.in_use() > 1024 {
        core.free_xids();
    }
    busy
}
