//! The checks that `kilndb check` makes of an inverted index, beside those of any tree.
//!
//! Must not know: what terms mean.

use super::entry::{self, HISTORY, LONGEST_TERM, PENDING, POSTING, Posting, RowHistory};
use super::merge::PieceJoiner;
use crate::api::Persistence;
use crate::core::Core;
use crate::directory::Relation;
use crate::report::{CheckReport, RowSet, has_row, unreached};
use kilndb_base::bytes::ByteReader;
use kilndb_base::hash::{HashMap, HashMapExt};
use kilndb_base::sync::atomic::Ordering::Relaxed;
use kilndb_base::{Result, RowId};
use std::sync::Arc;

/// The number of complaints about one index; further ones are left out.
const MOST: usize = 20;

/// Every entry is of a known sort and can be read; every posting and every pending row is of a row's present generation,
/// or of a dead one; rows that are there have what they lead to.
pub(crate) fn check(core: &Core, index: &Arc<Relation>, report: &mut CheckReport) -> Result<()> {
    let heap = core.directory.get(index.heap.load(Relaxed)).filter(|h| h.persistence != Persistence::Temporary);
    let mut complaints = Complaints { index: index.id, said: 0, wrong: &mut report.problems };
    let entries = [(vec![], vec![PENDING]), (vec![HISTORY + 1], vec![0xff; crate::MAX_KEY + 1])];
    for (from, to) in entries {
        index.each_between(from, to, &mut |_, _| {
            complaints.say("an entry is of no known sort".into());
            Ok(true)
        })?;
    }
    let histories = read_histories(index, &mut complaints)?;
    let mut rows = PostingCheck { core, heap: heap.as_deref(), histories, known: HashMap::new() };
    check_pending(index, &mut rows, &mut complaints)?;
    check_postings(index, &mut rows, &mut complaints)?;
    let Some(heap) = &heap else { return Ok(()) };
    let mut reached = RowSet::default();
    for row in rows.known.into_iter().filter_map(|(row, is_there)| is_there.then_some(row)) {
        reached.add(RowId::from_u64(row));
    }
    let found = unreached(core, heap, &reached)?;
    if found.unreached > 0 {
        report.unchecked.push(format!(
            "whether {} of {} rows of heap {} should have terms in inverted index {}",
            found.unreached, found.rows, heap.id, index.id
        ));
    }
    Ok(())
}

struct Complaints<'a> {
    index: u32,
    said: usize,
    wrong: &'a mut Vec<String>,
}
impl Complaints<'_> {
    fn say(&mut self, what: String) {
        self.said += 1;
        if self.said <= MOST {
            self.wrong.push(format!("inverted index {}: {what}", self.index));
        }
    }
}

fn read_histories(index: &Arc<Relation>, complaints: &mut Complaints<'_>) -> Result<HashMap<u64, RowHistory>> {
    let mut histories: HashMap<u64, RowHistory> = HashMap::new();
    index.each_entry(HISTORY, &mut |key, _| {
        let (Some(row), Some(history)) = (RowHistory::row_of(key), RowHistory::parse(key)) else {
            complaints.say("a history is damaged".into());
            return Ok(true);
        };
        if history.present.is_some_and(|present| history.is_dead(present)) {
            complaints.say(format!("row {:?}'s present generation is dead", RowId::from_u64(row)));
        }
        if histories.insert(row, history).is_some() {
            complaints.say(format!("row {:?} has two histories", RowId::from_u64(row)));
        }
        Ok(true)
    })?;
    Ok(histories)
}

/// Checks where postings lead.
struct PostingCheck<'a> {
    core: &'a Core,
    heap: Option<&'a Relation>,
    histories: HashMap<u64, RowHistory>,
    /// Rows that something of their present generation names: they are there, or not.
    known: HashMap<u64, bool>,
}
impl PostingCheck<'_> {
    /// What is wrong with the row that a posting leads to; None: nothing.
    fn fault(&mut self, (row, generation): Posting) -> Result<Option<&'static str>> {
        let plain = RowHistory::none();
        let history = self.histories.get(&row).unwrap_or(&plain);
        if history.is_dead(generation) {
            return Ok(None);
        }
        if history.present != Some(generation) {
            return Ok(Some("a generation that is neither present nor dead"));
        }
        let is_there = match (self.known.get(&row), self.heap) {
            (Some(is_there), _) => *is_there,
            (None, Some(heap)) => has_row(self.core, heap, RowId::from_u64(row))?,
            (None, None) => true,
        };
        self.known.insert(row, is_there);
        Ok((!is_there).then_some("no row"))
    }
}

fn check_pending(index: &Arc<Relation>, rows: &mut PostingCheck<'_>, complaints: &mut Complaints<'_>) -> Result<()> {
    let mut joiner = PieceJoiner::default();
    let (mut entries, mut whole) = (0u64, 0u64);
    index.each_entry(PENDING, &mut |key, _| {
        entries += 1;
        let row = match joiner.push(key) {
            Ok(Some(row)) => row,
            Ok(None) => {
                // What a crash has left of a row that was being taken out is removed by the next merge.
                if joiner.stray.take().is_some() {
                    entries -= 1;
                }
                return Ok(true);
            }
            Err(_) => {
                entries -= 1;
                complaints.say("a piece of a pending row is damaged".into());
                return Ok(true);
            }
        };
        whole += u64::from(row.pieces);
        let rid = RowId::from_u64(row.posting.0);
        if !are_terms(&row.body) {
            complaints.say(format!("the terms of pending row {rid:?} are damaged, or out of order"));
        }
        if let Some(fault) = rows.fault(row.posting)? {
            complaints.say(format!("pending row {rid:?} leads to {fault}"));
        }
        Ok(true)
    })?;
    if entries != whole {
        complaints.say(format!("{} pieces of pending rows belong to none", entries - whole));
    }
    Ok(())
}
/// Terms that are not too long, each behind its length, in order, each once.
fn are_terms(body: &[u8]) -> bool {
    let mut r = ByteReader::new(body);
    let mut before: Option<&[u8]> = None;
    while !r.is_empty() {
        let Some(term) = r.prefixed().filter(|term| term.len() <= LONGEST_TERM) else { return false };
        if before.is_some_and(|before| before >= term) {
            return false;
        }
        before = Some(term);
    }
    true
}

fn check_postings(index: &Arc<Relation>, rows: &mut PostingCheck<'_>, complaints: &mut Complaints<'_>) -> Result<()> {
    // The term and the anchor of the last block.
    let mut last_block = Vec::new();
    index.each_entry(POSTING, &mut |key, rid| {
        let mut postings = Vec::new();
        let read =
            entry::split_posting(key).map(|(_, rest)| entry::read_postings(rest, rid, &mut |p| postings.push(p)));
        if read.is_none_or(|read| read.is_err()) {
            complaints.say("an entry is damaged".into());
        }
        if postings.windows(2).any(|w| w[0] >= w[1]) {
            complaints.say("postings are out of order".into());
        }
        if let Some((own, rest)) = entry::split_posting(key)
            && !rest.is_empty()
        {
            let begins = key.get(..own.len() + entry::ANCHOR_BYTES).unwrap_or(key);
            if last_block == begins {
                complaints.say("two blocks of a term have the same anchor".into());
            }
            last_block = begins.to_vec();
        }
        for posting in postings {
            if let Some(fault) = rows.fault(posting)? {
                complaints.say(format!(
                    "a posting of row {:?}, generation {}, leads to {fault}",
                    RowId::from_u64(posting.0),
                    posting.1
                ));
            }
        }
        Ok(true)
    })
}
