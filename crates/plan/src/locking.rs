//! Row locks: refused where rows are not those of relations, and the node that takes them.

use super::node::ScanOutput;
use super::*;
use kilndb_base::Error;
use kilndb_bind::locking::{refuse_nullable, refuse_unlockable};
use kilndb_catalog::Table;

/// The tables that a query itself locks, views and subqueries left out.
pub(super) fn locked_tables(q: &Query) -> impl Iterator<Item = (u32, &Arc<Table>)> {
    q.locks.iter().filter_map(|lock| Some((lock.rel, locked_table(q, lock.rel)?)))
}

fn locked_table(q: &Query, rel: u32) -> Option<&Arc<Table>> {
    match q.rels.iter().find(|r| r.id == rel).map(|r| &r.kind) {
        Some(RelKind::Table(table)) => Some(table),
        _ => None,
    }
}

impl Planner<'_> {
    /// Notes why what the query locks cannot be locked, which is known only now that views have been merged with it.
    /// Whoever may not lock the views hears of that first.
    pub(super) fn note_unlockable(&self, q: &Query) {
        let Some(lock) = q.locks.first() else { return };
        if let Err(refusal) = refuse_unlockable(q, lock.strength).and_then(|()| refuse_nullable(q)) {
            self.unlockable.borrow_mut().get_or_insert(refusal);
        }
    }

    pub(super) fn lock_rows(&self, q: &Query, input: PlannedNode) -> Result<PlannedNode> {
        let mut targets = Vec::new();
        self.read_only.set(false);
        for l in &q.locks {
            let Some(table) = locked_table(q, l.rel) else { continue };
            self.lock_table(table.oid, LockMode::RowShare);
            self.note_change(table);
            let Some(ctid) = input.layout.find(ColId { rel: l.rel, att: ATT_CTID }) else {
                if self.unlockable.borrow().is_some() {
                    continue;
                }
                return Err(Error::internal("rows of a locked relation are not told from one another"));
            };
            let mut columns = Vec::new();
            for (slot, c) in input.layout.0.iter().enumerate().filter(|(_, c)| c.rel == l.rel) {
                match c.att {
                    ATT_CTID => columns.push((slot, ScanOutput::Ctid)),
                    ATT_TABLEOID => columns.push((slot, ScanOutput::TableOid)),
                    a if a > 0 => columns.push((slot, ScanOutput::Column(a as usize - 1))),
                    _ => {}
                }
            }
            let tableoid = if table.partition_key.is_some() {
                input.layout.find(ColId { rel: l.rel, att: ATT_TABLEOID })
            } else {
                None
            };
            targets.push(LockTarget {
                table: table.clone(),
                heap: self.heap_of(table)?,
                tableoid,
                ctid,
                columns,
                strength: l.strength,
                wait: l.wait,
            });
        }
        let recheck = self.recheck(q, &input.layout)?;
        let (width, rows, cost) = (input.layout.0.len(), input.node.rows, input.node.cost);
        let secured = q.rels.iter().flat_map(|rel| &rel.security_quals);
        let plain = secured.chain(&q.filter).all(|f| !f.is_volatile() && !f.has_sublink());
        let early = plain && targets.len() == 1 && matches!(input.node.op, Op::SeqScan(_) | Op::IndexScan { .. });
        let node =
            self.node(Op::LockRows { input: input.node, targets, recheck, early }, width, rows, cost, "LockRows");
        Ok(PlannedNode { node, layout: input.layout })
    }
}
