//! What a check has found, and which rows there are for whoever compares indexes with heaps.
//!
//! Must not know: what the structures of indexes look like.

use crate::core::Core;
use crate::directory::Relation;
use crate::heap::page as hp;
use crate::page::{at, get16};
use kilndb_base::hash::HashMap;
use kilndb_base::{Result, RowId};

/// So many complaints of one kind about one relation are enough.
pub(crate) const MOST_COMPLAINTS: u64 = 20;

/// What a check has found.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// What is wrong.
    pub problems: Vec<String>,
    /// What was not looked at, since storage cannot know how it should be.
    pub unchecked: Vec<String>,
}

/// Rows by their ids.
#[derive(Default)]
pub(crate) struct RowSet(HashMap<u64, u64>);
impl RowSet {
    /// False: it was there.
    pub(crate) fn add(&mut self, rid: RowId) -> bool {
        let word = self.0.entry(rid.to_u64() / 64).or_default();
        let bit = 1 << (rid.to_u64() % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
    fn has(&self, rid: RowId) -> bool {
        self.0.get(&(rid.to_u64() / 64)).is_some_and(|word| word >> (rid.to_u64() % 64) & 1 != 0)
    }
}

/// From heap to index: how many rows the heap has, and how many of them are not among those that an index leads to;
/// the first of these.
pub(crate) struct UnreachedRows {
    pub(crate) rows: u64,
    pub(crate) unreached: u64,
    pub(crate) first: Vec<RowId>,
}
pub(crate) fn unreached(core: &Core, heap: &Relation, reached: &RowSet) -> Result<UnreachedRows> {
    let mut found = UnreachedRows { rows: 0, unreached: 0, first: Vec::new() };
    for block in 0..heap.pages() {
        let page = core.pool.write(heap.pid(block)?)?;
        for slot in 1..=get16(page.page(), at::COUNT) {
            let rid = RowId { block, slot: slot as u16 };
            if !hp::word(page.view(), slot).is_some_and(is_row) {
                continue;
            }
            found.rows += 1;
            if !reached.has(rid) {
                found.unreached += 1;
                if found.unreached <= MOST_COMPLAINTS {
                    found.first.push(rid);
                }
            }
        }
    }
    Ok(found)
}
/// By its version word: there is a row here, after a proper stop.
fn is_row(word: u64) -> bool {
    word & (hp::DELETED | hp::PIECE) == 0
}
/// There is a row of the heap here.
pub(crate) fn has_row(core: &Core, heap: &Relation, rid: RowId) -> Result<bool> {
    let Ok(pid) = heap.pid(rid.block) else { return Ok(false) };
    core.pool.read(pid, |v| hp::word(v, usize::from(rid.slot)).is_some_and(is_row))
}
