//! What scans read: tables, and what is looked for in their indexes.

use super::expression::Expression;
use super::program::LazyCondition;
use kilndb_catalog::{Index, Table};
use kilndb_storage::Relation;
use kilndb_types::row::ColumnFetch;
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScanOutput {
    /// The column with this index in `Table::columns`.
    Column(usize),
    Ctid,
    TableOid,
    /// xmin and friends: not kept, shown as this number.
    Fixed(u32),
    /// A column that a partition does not have.
    Nothing,
}

pub struct Scan {
    pub table: Arc<Table>,
    /// The heap; None if the table is partitioned: the executor says which partition is read.
    pub heap: Option<Arc<Relation>>,
    pub outputs: Vec<ScanOutput>,
    /// What is decoded of each column of the table.
    pub needed: Vec<ColumnFetch>,
    /// How many of `outputs`, at their beginning, are the needed columns in order.
    pub leading: usize,
    pub filter: Option<Expression>,
    /// The filter, and what is looked for in an index, need no session, so any thread can evaluate them.
    pub is_self_contained: bool,
    /// Conditions beside the filter, of scans that read whole rows.
    pub tests: Vec<StoredTest>,
    /// The filter for many rows at a time.
    pub program: LazyCondition,
}

/// `column @@ query`, judged by the column's stored bytes.
pub struct StoredTest {
    pub column: usize,
    pub query: Expression,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IntWidth {
    None,
    Int2,
    Int4,
    Int8,
}

/// What a scan looks for in a tree.
pub struct IndexAccess {
    pub index: Arc<Index>,
    /// None of a partitioned table.
    pub relation: Option<Arc<Relation>>,
    /// The values of the leading key columns.
    pub equal: Vec<Expression>,
    /// What is looked for in the columns after those of `equal`; None: whatever is there.
    pub search: Option<Box<KeySearch>>,
    pub backward: bool,
    /// The access finds at most one row.
    pub unique_point: bool,
    /// Key expressions over a table row, for the recheck; empty: plain columns only.
    pub keys: Vec<Expression>,
}

/// What an access looks for in the columns after its equal ones.
pub struct KeySearch {
    /// The values that each of the next columns may have: one range of keys for each combination of them.
    pub points: Vec<KeyPoints>,
    /// Bounds of the columns after these, all of which hold.
    pub bounds: Vec<KeyBound>,
    /// Entries with NULL in the column after the points are left out, as bounds leave them out.
    pub not_null: bool,
}

/// The values that a key column may have.
pub enum KeyPoints {
    Equal(Expression),
    /// An element of an array.
    AnyOf(Expression),
    Null,
    /// Each value that entries have: the scan skips from one to the next.
    Each,
}

/// A bound of a key column, or of several ones that are compared one after the other.
pub struct KeyBound {
    pub values: Vec<Expression>,
    /// In the index's own direction.
    pub is_lower: bool,
    pub is_inclusive: bool,
}

impl IndexAccess {
    /// Does it look for nothing but keys in all their columns? Not if it looks for combinations of several arrays'
    /// elements: there may be too many of these to be looked for one by one.
    pub fn has_whole_keys(&self) -> bool {
        let Some(search) = &self.search else { return self.equal.len() >= self.index.keys.len() };
        let arrays = search.points.iter().filter(|p| matches!(p, KeyPoints::AnyOf(_))).count();
        let skips = search.points.iter().any(|p| matches!(p, KeyPoints::Each));
        arrays < 2 && !skips && self.equal.len() + search.points.len() >= self.index.keys.len()
    }
}

impl Scan {
    #[inline]
    pub fn heap(&self) -> kilndb_base::Result<&Arc<Relation>> {
        self.heap.as_ref().ok_or_else(|| kilndb_base::Error::internal("a partitioned table has no rows of its own"))
    }
}
