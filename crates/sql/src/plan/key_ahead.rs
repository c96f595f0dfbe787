//! The one partition that a statement is about, if a parameter says which: asked for from memory before the statement
//! comes to it.
//!
//! Of thousands of partitions each is in no cache. When the parameter arrives it is known where the partition's slot
//! among those of its table is; when the statement starts, that slot says where the partition is. Both are waited for
//! only when the row is made.
//!
//! Invariants
//! 1. It is a guess, which nothing but speed depends on: the statement finds its partitions itself.
//! 2. Nothing is read through the address kept here, so it may be of what is gone.

use super::partition::{Prune, Subject};
use super::{Node, Op};
use crate::catalog::CatalogView;
use crate::catalog::known_partitions::SLOT_BYTES;
use crate::catalog::operator_class::EQUAL;
use crate::catalog::partition::{PartitionKey, Strategy, remainder};
use crate::exec::expr::CExpr;
use kilndb_base::Oid;
use kilndb_base::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use kilndb_storage::ahead;
use kilndb_types::{Datum, partition_hash};

/// Of a table whose partitions are as many as its remainders, by a key of one column.
pub struct KeyAhead {
    table: Oid,
    /// The key's.
    base_type: Oid,
    parameter: usize,
    to_change: bool,
    /// Where the partitions' slots are (0: not known yet), and how many.
    slots: AtomicUsize,
    count: AtomicUsize,
}

impl KeyAhead {
    /// Of the plan with this root.
    pub fn of(root: &Node) -> Option<KeyAhead> {
        KeyAhead::below(root, false)
    }

    fn below(node: &Node, to_change: bool) -> Option<KeyAhead> {
        let made = |key: &PartitionKey, table: Oid, value: &CExpr| {
            let CExpr::Param(parameter) = value else { return None };
            let part = key.parts.first().filter(|_| is_simple(key))?;
            Some(KeyAhead {
                table,
                base_type: part.base_type,
                parameter: *parameter,
                to_change,
                slots: AtomicUsize::new(0),
                count: AtomicUsize::new(0),
            })
        };
        match &node.op {
            Op::Modify(m) if m.statement.routing.is_some() => {
                let key = m.table.partition_key.as_ref()?;
                let column = usize::try_from(key.parts.first()?.attnum - 1).ok()?;
                match made_of(&m.statement.input, column) {
                    Some(value) => KeyAhead { to_change: true, ..made(key, m.table.oid, value)? }.into(),
                    None => KeyAhead::below(&m.statement.input, true),
                }
            }
            Op::Partitions(p) => {
                let (Prune::All(conditions), Some(key)) = (&p.prune, &p.table.partition_key) else { return None };
                let [Prune::Compare { subject: Subject::Column(attnum), strategy: EQUAL, value, .. }] =
                    conditions.as_slice()
                else {
                    return None;
                };
                if key.parts.first()?.attnum == *attnum { made(key, p.table.oid, value) } else { None }
            }
            Op::Filter { input, .. }
            | Op::Project { input, .. }
            | Op::Limit { input, .. }
            | Op::Sort { input, .. }
            | Op::Aggregate { input, .. } => KeyAhead::below(input, to_change),
            Op::LockRows { input, .. } => KeyAhead::below(input, true),
            _ => None,
        }
    }

    fn hash(&self, params: &[Datum]) -> Option<u64> {
        let value = params.get(self.parameter)?;
        partition_hash::row_hash(std::iter::once((self.base_type, value))).ok()
    }

    /// The parameters are known.
    pub fn fetch_slot(&self, params: &[Datum]) {
        let (slots, count) = (self.slots.load(Relaxed), self.count.load(Relaxed));
        if slots != 0
            && let Some(hash) = self.hash(params)
        {
            ahead::fetch(slots + remainder(hash, count.max(1)) * SLOT_BYTES);
        }
    }

    /// The statement starts.
    pub fn fetch(&self, params: &[Datum], catalog: &dyn CatalogView) {
        let Some(shared) = catalog.shared_partitions(self.table) else { return };
        let Some((slots, count)) = shared.slots_by_remainder() else { return };
        // Other processors read this.
        if self.slots.load(Relaxed) != slots {
            self.count.store(count, Relaxed);
            self.slots.store(slots, Relaxed);
        }
        if let Some(hash) = self.hash(params)
            && let Some(known) = shared.known(remainder(hash, count))
        {
            known.fetch_ahead(self.to_change);
        }
    }
}

fn is_simple(key: &PartitionKey) -> bool {
    key.strategy == Strategy::Hash && key.parts.len() == 1 && !key.has_user_classes() && !key.has_expressions()
}

/// What a column of the only row is.
fn made_of(input: &Node, column: usize) -> Option<&CExpr> {
    match &input.op {
        Op::Values { rows } if rows.len() == 1 => rows[0].get(column),
        Op::Project { input, exprs } if matches!(input.op, Op::Result { .. }) => exprs.get(column),
        _ => None,
    }
}
