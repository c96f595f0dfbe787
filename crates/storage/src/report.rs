//! The findings of a check, and sets of row ids for the comparison of indexes with heaps.
//!
//! Must not know: what the structures of indexes look like.

use crate::core::Core;
use crate::directory::Relation;
use crate::heap::page as hp;
use crate::page::{at, get16};
use kilndb_base::hash::HashMap;
use kilndb_base::{Result, RowId};

/// The number of complaints of one kind about one relation; further ones are left out.
pub(crate) const MOST_COMPLAINTS: u64 = 20;

/// The findings of a check.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// The inconsistencies that were found.
    pub problems: Vec<String>,
    /// The structures that were not checked, because storage cannot know how they should be.
    pub unchecked: Vec<String>,
}

/// A set of row ids, as bits by block.
#[derive(Default)]
pub(crate) struct RowSet(HashMap<u64, u64>);
impl RowSet {
    /// Adds a row id; false if the set has it already.
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

/// The comparison from heap to index: how many rows the heap has, how many of them the index does not lead to, and the
/// first ones of these.
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
/// Does a version word say that there is a row? This holds after a proper stop, when nothing is left to be rolled back.
fn is_row(word: u64) -> bool {
    word & (hp::DELETED | hp::PIECE) == 0
}
/// Does the heap have a row with this id?
pub(crate) fn has_row(core: &Core, heap: &Relation, rid: RowId) -> Result<bool> {
    let Ok(pid) = heap.pid(rid.block) else { return Ok(false) };
    core.pool.read(pid, |v| hp::word(v, usize::from(rid.slot)).is_some_and(is_row))
}
