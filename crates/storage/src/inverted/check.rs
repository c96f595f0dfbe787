//! What `kilndb check` asks of an inverted index, beside what it asks of any tree.
//!
//! Must not know: what terms mean.

use super::entry::{self, HISTORY, History, PENDING, POSTING, Posting};
use super::merge::Joiner;
use crate::api::Persistence;
use crate::core::Core;
use crate::directory::Relation;
use crate::heap::page as hp;
use kilndb_base::{Result, RowId};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// So many complaints are enough.
const MOST: usize = 20;

/// Every posting and every pending row is of a row's present generation, or of a dead one; rows that are there have
/// what they lead to.
pub(crate) fn check(core: &Core, index: &Arc<Relation>, wrong: &mut Vec<String>) -> Result<()> {
    let mut said = 0;
    let mut say = |what: String| {
        said += 1;
        if said <= MOST {
            wrong.push(format!("inverted index {}: {what}", index.id));
        }
    };
    let mut histories = HashMap::new();
    index.each_entry(HISTORY, &mut |key, _| {
        match (History::row_of(key), History::parse(key)) {
            (Some(row), Some(history)) => _ = histories.insert(row, history),
            _ => say("a history is damaged".into()),
        }
        Ok(true)
    })?;
    let heap = core.directory.get(index.heap.load(Relaxed)).filter(|h| h.persistence != Persistence::Temporary);
    let exists = |row: u64| -> Result<bool> {
        let Some(heap) = &heap else { return Ok(true) };
        let rid = RowId::from_u64(row);
        let Ok(pid) = heap.pid(rid.block) else { return Ok(false) };
        core.pool.read(pid, |v| hp::word(v, usize::from(rid.slot)).is_some_and(|w| w & (hp::DELETED | hp::PIECE) == 0))
    };
    let plain = History::none();
    let mut known: HashMap<u64, bool> = HashMap::new();
    let mut fault = |(row, generation): Posting| -> Result<Option<&'static str>> {
        let history = histories.get(&row).unwrap_or(&plain);
        if history.is_dead(generation) {
            return Ok(None);
        }
        if history.present != Some(generation) {
            return Ok(Some("a generation that is neither present nor dead"));
        }
        let is_there = match known.get(&row) {
            Some(is_there) => *is_there,
            None => exists(row)?,
        };
        known.insert(row, is_there);
        Ok((!is_there).then_some("no row"))
    };
    let mut joiner = Joiner::default();
    let (mut entries, mut whole) = (0u64, 0u64);
    index.each_entry(PENDING, &mut |key, _| {
        entries += 1;
        let Some(row) = joiner.push(key)? else {
            // What a crash has left of a row that was being taken out goes with the next merge.
            if joiner.stray.take().is_some() {
                entries -= 1;
            }
            return Ok(true);
        };
        whole += u64::from(row.pieces);
        if let Some(fault) = fault(row.posting)? {
            say(format!("pending row {:?} leads to {fault}", RowId::from_u64(row.posting.0)));
        }
        Ok(true)
    })?;
    if entries != whole {
        say(format!("{} pieces of pending rows belong to none", entries - whole));
    }
    index.each_entry(POSTING, &mut |key, rid| {
        let mut postings = Vec::new();
        let read =
            entry::split_posting(key).map(|(_, rest)| entry::read_postings(rest, rid, &mut |p| postings.push(p)));
        if !read.is_some_and(|read| read.is_ok()) {
            say("an entry is damaged".into());
        }
        if postings.windows(2).any(|w| w[0] >= w[1]) {
            say("postings are out of order".into());
        }
        for posting in postings {
            if let Some(fault) = fault(posting)? {
                say(format!(
                    "a posting of row {:?}, generation {}, leads to {fault}",
                    RowId::from_u64(posting.0),
                    posting.1
                ));
            }
        }
        Ok(true)
    })
}
