//! The rows that INSERT, UPDATE, DELETE and MERGE work on, as the functions that do it hand them to each other.
//!
//! Must not know: how a row is stored or who fires for it.

use kilndb_base::{RelationId, RowId};
use kilndb_plan::ModifyPlan;
use kilndb_types::Datum;

/// A stored row that is to be updated or deleted.
pub(super) struct TargetRow {
    pub rid: RowId,
    /// The values of all columns of its table.
    pub old: Vec<Datum>,
    /// The row of the statement's input that names it, which expressions are evaluated over.
    pub input: Vec<Datum>,
    /// Both have the newest version, not the snapshot's: see [`kilndb_storage::WriteOptions::latest`].
    pub is_latest: bool,
}

impl TargetRow {
    /// None: the input row names no stored row, as an outer join's may.
    pub fn of(m: &ModifyPlan, input: Vec<Datum>) -> Option<TargetRow> {
        let rid = rid_of(m, &input)?;
        Some(TargetRow { rid, old: old_row(m, &input), input, is_latest: false })
    }
}

/// A version of a row that is in its table now.
#[derive(Clone, Copy)]
pub(super) struct StoredRow<'a> {
    pub rid: RowId,
    pub values: &'a [Datum],
    /// The row of the statement's input that it was made from, for RETURNING.
    pub input: &'a [Datum],
}

/// A row of INSERT … ON CONFLICT that cannot be stored, because of one that is there.
#[derive(Clone, Copy)]
pub(super) struct ProposedRow<'a> {
    /// Of the partition that it would be in.
    pub plan: &'a ModifyPlan,
    pub values: &'a [Datum],
    pub input: &'a [Datum],
}

/// ON CONFLICT DO UPDATE: the row to be updated is in another partition than the proposed one would be.
pub(super) struct RowElsewhere {
    pub heap: RelationId,
    pub rid: RowId,
    pub proposed: Vec<Datum>,
}

pub(super) fn tid(rid: RowId) -> Datum {
    Datum::Tid(rid.block, rid.slot)
}

/// The stored row that a row of the input names.
pub(super) fn rid_of(m: &ModifyPlan, input: &[Datum]) -> Option<RowId> {
    match input.get(m.statement.old_ctid) {
        Some(Datum::Tid(block, slot)) => Some(RowId { block: *block, slot: *slot }),
        _ => None,
    }
}

/// The values of that stored row, as far as the statement reads them.
pub(super) fn old_row(m: &ModifyPlan, input: &[Datum]) -> Vec<Datum> {
    m.old_columns.iter().map(|s| s.and_then(|s| input.get(s).cloned()).unwrap_or_default()).collect()
}
