//! The partition that a statement's parameter leads to: the executor prefetches it into the processor's caches before
//! the statement comes to it.
//!
//! Invariant: it is a guess, which nothing but speed depends on; the statement finds its partitions itself.

use super::expression::{CExpr, Expression};
use super::partition::{PruneCondition, PruneSubject};
use super::{Op, PlanNode};
use kilndb_base::Oid;
use kilndb_base::sync::atomic::AtomicUsize;
use kilndb_catalog::operator_class::EQUAL;
use kilndb_catalog::partition::{PartitionKey, PartitionStrategy};

/// The hash partitioning of a table by one column, with as many partitions as remainders.
pub struct KeyAhead {
    pub table: Oid,
    /// The base type of the key's column.
    pub base_type: Oid,
    pub parameter: usize,
    pub to_change: bool,
    /// The address of the partitions' slots (0: not known yet), and how many there are. The executor fills them in.
    pub slots: AtomicUsize,
    pub count: AtomicUsize,
}

impl KeyAhead {
    /// The parameter of the plan with this root that leads to one partition, if there is one.
    pub fn of(root: &PlanNode) -> Option<KeyAhead> {
        KeyAhead::below(root, false)
    }

    fn below(node: &PlanNode, to_change: bool) -> Option<KeyAhead> {
        let made = |key: &PartitionKey, table: Oid, value: &Expression| {
            let CExpr::Param(parameter) = value.tree() else { return None };
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
                let (PruneCondition::All(conditions), Some(key)) = (&p.prune, &p.table.partition_key) else {
                    return None;
                };
                let [PruneCondition::Compare { subject: PruneSubject::Column(attnum), strategy: EQUAL, value, .. }] =
                    conditions.as_slice()
                else {
                    return None;
                };
                if key.parts.first()?.attnum == *attnum { made(key, p.table.oid, value) } else { None }
            }
            Op::Filter { input, .. }
            | Op::OneTimeFilter { input, .. }
            | Op::Project { input, .. }
            | Op::Limit { input, .. }
            | Op::Sort { input, .. }
            | Op::Aggregate { input, .. } => KeyAhead::below(input, to_change),
            Op::LockRows { input, .. } => KeyAhead::below(input, true),
            _ => None,
        }
    }
}

fn is_simple(key: &PartitionKey) -> bool {
    key.strategy == PartitionStrategy::Hash && key.parts.len() == 1 && !key.has_user_classes() && !key.has_expressions()
}

/// The expression that a column of the only row is made of.
fn made_of(input: &PlanNode, column: usize) -> Option<&Expression> {
    match &input.op {
        Op::Values { rows } if rows.len() == 1 => rows[0].get(column),
        Op::Project { input, exprs, .. } if matches!(input.op, Op::Result { .. }) => exprs.get(column),
        _ => None,
    }
}
