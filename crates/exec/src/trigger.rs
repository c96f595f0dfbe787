//! Triggers of the changes that a plan makes: which fire, with which rows, and when.
//!
//! Invariants
//! 1. What AFTER triggers see is the whole statement's work: they fire when all its rows are written, rows in the order
//!    of their changes, statement triggers last.
//! 2. Rows wait for them in at most work_mem, the rest in a temporary file.
//!
//! Must not know: languages, sessions. [`super::RoutineHost`] does.

use super::context::*;
use super::expr::Evaluate;
use super::routine::Held;
use kilndb_base::hash::HashSet;
use kilndb_base::{Error, Oid, Result, RowId, sqlstate};
use kilndb_catalog::Table;
use kilndb_catalog::trigger::TriggerOperation;
use kilndb_catalog::trigger::*;
use kilndb_plan::{ModifyPlan, PlannedTrigger, TriggerPlan};
use kilndb_spill::{RowStore, StoreCursor};
use kilndb_types::Datum;
use std::sync::Arc;

/// One call of a trigger's function.
pub struct Fire<'a> {
    pub trigger: &'a Trigger,
    pub table: &'a Arc<Table>,
    pub operation: TriggerOperation,
    /// Values of all columns of the table.
    pub old: Option<&'a [Datum]>,
    pub new: Option<&'a [Datum]>,
    pub transitions: Option<&'a mut TransitionRows>,
}

/// A call of a constraint trigger's function that waits for the end of the transaction.
#[derive(Clone, Debug)]
pub struct PendingTrigger {
    pub constraint: Oid,
    pub trigger: Oid,
    pub table: Oid,
    pub operation: TriggerOperation,
    pub old: Option<Vec<Datum>>,
    pub new: Option<Vec<Datum>>,
    /// Made already, when so many savepoints were open.
    pub done_at: Option<usize>,
}

pub(super) fn bit_of(operation: TriggerOperation) -> i16 {
    match operation {
        TriggerOperation::Insert => INSERT,
        TriggerOperation::Update => UPDATE,
        TriggerOperation::Delete => DELETE,
        TriggerOperation::Truncate => TRUNCATE,
    }
}

const OPERATIONS: [TriggerOperation; 3] =
    [TriggerOperation::Insert, TriggerOperation::Update, TriggerOperation::Delete];

/// The triggers' side of one run of a [`ModifyPlan`].
#[derive(Default)]
pub struct Firing {
    pub has_begun: bool,
    is_replica: bool,
    /// The partition that the row of the moment is in, among those that the statement has changed.
    pub at: usize,
    /// The action of a MERGE whose partitions those are.
    pub step: usize,
    /// Partition, operation, which 62 of its triggers, a bit for each of them, old row, new row; these as the named
    /// table has them.
    queue: Option<RowStore>,
    /// By operation.
    transitions: [TransitionRows; 3],
    /// Rows that the statement has changed itself, by table.
    pub own: HashSet<(Oid, RowId)>,
}

const BITS: usize = 62;
/// Columns of the queue before the rows.
const QUEUE_HEAD: usize = 4;
/// Partitions that one action can change.
const STEP_SHIFT: usize = 20;

fn extend_side(m: &ModifyPlan, side: Option<&[Datum]>, out: &mut Vec<Datum>) {
    match side {
        Some(row) => m.extend_named(out, row),
        None => out.resize(out.len() + m.named_width(), Datum::Null),
    }
}

impl Firing {
    pub fn new(cx: &ExecContext<'_>) -> Firing {
        Firing { has_begun: true, is_replica: cx.session.is_replica(), ..Firing::default() }
    }
    /// The first trigger is a partition's.
    pub fn begin(&mut self, cx: &ExecContext<'_>) {
        *self = Firing { step: self.step, ..Firing::new(cx) };
    }

    /// Does it fire for this event, as far as its row is not looked at?
    fn is_due(&self, plan: &TriggerPlan, t: &Trigger, operation: TriggerOperation) -> bool {
        let is_set = |attnum: &i16| plan.assigned.get((*attnum - 1).max(0) as usize).copied().unwrap_or(false);
        t.is(bit_of(operation))
            && t.fires_as(self.is_replica)
            && (operation != TriggerOperation::Update || t.columns.is_empty() || t.columns.iter().any(is_set))
    }

    fn fits(
        t: &PlannedTrigger,
        old: Option<&[Datum]>,
        new: Option<&[Datum]>,
        width: usize,
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        let Some(when) = &t.when else { return Ok(true) };
        let mut row = Vec::with_capacity(width * 2);
        for side in [old, new] {
            row.extend_from_slice(side.unwrap_or_default());
            row.resize(row.len() + width - side.map_or(0, <[Datum]>::len), Datum::Null);
        }
        when.is_true(&row, rt, cx)
    }

    pub fn statement(
        &mut self,
        m: &ModifyPlan,
        plan: &TriggerPlan,
        operation: TriggerOperation,
        before: bool,
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        for t in &plan.list {
            let trigger = &*t.trigger;
            if trigger.for_each_row()
                || trigger.is(BEFORE) != before
                || !self.is_due(plan, trigger, operation)
                || !Self::fits(t, None, None, m.table.columns.len(), rt, cx)?
            {
                continue;
            }
            let transitions = Some(&mut self.transitions[operation as usize]);
            fire(Fire { trigger, table: &m.table, operation, old: None, new: None, transitions }, cx)?;
        }
        Ok(())
    }

    /// BEFORE … FOR EACH ROW, or INSTEAD OF: the new row may be another afterwards. False: the row is passed over.
    #[allow(clippy::too_many_arguments)]
    pub fn before_row(
        &mut self,
        m: &ModifyPlan,
        plan: &TriggerPlan,
        operation: TriggerOperation,
        old: Option<&[Datum]>,
        mut new: Option<&mut Vec<Datum>>,
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        for t in &plan.list {
            let trigger = &*t.trigger;
            if !trigger.for_each_row() || trigger.is_after() || !self.is_due(plan, trigger, operation) {
                continue;
            }
            if let Some(new) = &mut new {
                // Not computed yet.
                m.generated.iter().for_each(|(column, _)| new[*column] = Datum::Null);
            }
            if !Self::fits(t, old, new.as_deref().map(Vec::as_slice), m.table.columns.len(), rt, cx)? {
                continue;
            }
            match fire(
                Fire {
                    trigger,
                    table: &m.table,
                    operation,
                    old,
                    new: new.as_deref().map(Vec::as_slice),
                    transitions: None,
                },
                cx,
            )? {
                None => return Ok(false),
                Some(row) => {
                    let Some(new) = &mut new else { continue };
                    let before = std::mem::replace(&mut **new, row);
                    if operation == TriggerOperation::Insert
                        && trigger.parent != 0
                        && !super::partition::belongs(&m.table, new, rt, cx)?
                        && super::partition::belongs(&m.table, &before, rt, cx)?
                    {
                        return Err(moved_by_trigger(trigger, &m.table));
                    }
                }
            }
        }
        Ok(true)
    }

    /// Queues what is to fire for a changed row, and keeps it for statement triggers.
    #[allow(clippy::too_many_arguments)]
    pub fn after_row(
        &mut self,
        m: &ModifyPlan,
        plan: &TriggerPlan,
        operation: TriggerOperation,
        old: Option<&[Datum]>,
        new: Option<&[Datum]>,
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        self.capture(m, plan, operation, old, new, cx)?;
        self.queue_row(m, plan, operation, old, new, rt, cx)
    }

    pub fn capture(
        &mut self,
        m: &ModifyPlan,
        plan: &TriggerPlan,
        operation: TriggerOperation,
        old: Option<&[Datum]>,
        new: Option<&[Datum]>,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let (wants_old, wants_new) = plan.captures.get(operation as usize).copied().unwrap_or_default();
        if !wants_old && !wants_new {
            return Ok(());
        }
        let (io, budget_bytes) = (cx.io(), cx.work_mem_bytes);
        let kept = &mut self.transitions[operation as usize];
        for (store, wanted, row) in [(&mut kept.old, wants_old, old), (&mut kept.new, wants_new, new)] {
            if let (true, Some(row)) = (wanted, row) {
                let mut named = Vec::with_capacity(m.named_width());
                m.extend_named(&mut named, row);
                store.get_or_insert_with(|| RowStore::new(named.len(), budget_bytes)).push(&named, io)?;
            }
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    pub fn queue_row(
        &mut self,
        m: &ModifyPlan,
        plan: &TriggerPlan,
        operation: TriggerOperation,
        old: Option<&[Datum]>,
        new: Option<&[Datum]>,
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let width = m.table.columns.len();
        for (word, list) in plan.list.chunks(BITS).enumerate() {
            let mut due = 0i64;
            for (n, t) in list.iter().enumerate() {
                let trigger = &*t.trigger;
                if !trigger.for_each_row()
                    || !trigger.is_after()
                    || !self.is_due(plan, trigger, operation)
                    || !Self::fits(t, old, new, width, rt, cx)?
                {
                    continue;
                }
                if trigger.constraint != 0
                    && super::constraint::is_deferred(
                        trigger.constraint,
                        trigger.deferrable,
                        trigger.initially_deferred,
                        cx,
                    )
                {
                    cx.pending.triggers.push(PendingTrigger {
                        constraint: trigger.constraint,
                        trigger: trigger.oid,
                        table: m.table.oid,
                        operation,
                        old: old.map(<[Datum]>::to_vec),
                        new: new.map(<[Datum]>::to_vec),
                        done_at: None,
                    });
                    continue;
                }
                due |= 1 << n;
            }
            if due == 0 {
                continue;
            }
            let mut row = Vec::with_capacity(QUEUE_HEAD + 2 * m.named_width());
            row.extend([
                Datum::Int4((self.step << STEP_SHIFT | self.at) as i32),
                Datum::Int4(operation as i32),
                Datum::Int4(word as i32),
                Datum::Int8(due),
            ]);
            extend_side(m, old, &mut row);
            extend_side(m, new, &mut row);
            let (io, budget_bytes) = (cx.io(), cx.work_mem_bytes);
            self.queue.get_or_insert_with(|| RowStore::new(row.len(), budget_bytes)).push(&row, io)?;
        }
        Ok(())
    }

    /// The statement has written all its rows. `partitions`: those that it has changed, by the number that the queue
    /// has of each.
    pub fn end(
        &mut self,
        m: &ModifyPlan,
        partitions: &[Vec<ModifyPlan>],
        operations: &[TriggerOperation],
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        // They see what it did.
        cx.txn.next_command();
        let snapshot = cx.txn.take_snapshot();
        let saved = std::mem::replace(&mut cx.snapshot, snapshot);
        let done = self.fire_queued(m, partitions, cx).and_then(|()| match &m.triggers {
            Some(plan) => {
                operations.iter().rev().try_for_each(|operation| self.statement(m, plan, *operation, false, rt, cx))
            }
            None => Ok(()),
        });
        cx.snapshot = saved;
        done
    }

    fn fire_queued(&mut self, m: &ModifyPlan, partitions: &[Vec<ModifyPlan>], cx: &mut ExecContext<'_>) -> Result<()> {
        let Some(queue) = self.queue.take() else { return Ok(()) };
        let mut cursor = StoreCursor::default();
        for at in 0..queue.len() {
            cx.park.checkpoint()?;
            let row = queue.row(at, &mut cursor, cx.io())?;
            let [Datum::Int4(partition), Datum::Int4(operation), Datum::Int4(word), Datum::Int8(due), rows @ ..] = row
            else {
                continue;
            };
            let (step, at) = (*partition as usize >> STEP_SHIFT, *partition as usize % (1 << STEP_SHIFT));
            let of = partitions.get(step).and_then(|changed| changed.get(at)).unwrap_or(m);
            let Some(plan) = &of.triggers else { continue };
            let operation = OPERATIONS[(*operation).clamp(0, 2) as usize];
            let (old, new) = rows.split_at(rows.len() / 2);
            let (own_old, own_new);
            let (old, new) = match &of.columns {
                None => (old, new),
                Some(columns) => {
                    (own_old, own_new) = (columns.to_own(old), columns.to_own(new));
                    (&own_old[..], &own_new[..])
                }
            };
            let old = (operation != TriggerOperation::Insert).then_some(old);
            let new = (operation != TriggerOperation::Delete).then_some(new);
            for (n, t) in plan.list.iter().skip(*word as usize * BITS).take(BITS).enumerate() {
                if due & (1 << n) != 0 {
                    let transitions = Some(&mut self.transitions[operation as usize]);
                    fire(Fire { trigger: &t.trigger, table: &of.table, operation, old, new, transitions }, cx)?;
                }
            }
        }
        Ok(())
    }
}

fn fire(fire: Fire<'_>, cx: &mut ExecContext<'_>) -> Result<Option<Vec<Datum>>> {
    let held = Held { txn: cx.txn, pending: cx.pending, usage: cx.usage, snapshot: &cx.snapshot };
    let host =
        cx.routines.as_deref_mut().ok_or_else(|| Error::internal("a trigger fired where there is no session"))?;
    host.call_trigger(fire, held)
}

/// A row that a trigger of the running statement has changed before the statement could.
pub(super) fn changed_by_trigger(deleting: bool) -> Error {
    let verb = if deleting { "deleted" } else { "updated" };
    Error::new(
        sqlstate::TRIGGERED_DATA_CHANGE_VIOLATION,
        format!("tuple to be {verb} was already modified by an operation triggered by the current command"),
    )
    .with_hint("Consider using an AFTER trigger instead of a BEFORE trigger to propagate changes to other rows.")
}

fn moved_by_trigger(trigger: &Trigger, partition: &Table) -> Error {
    Error::unsupported("moving row to another partition during a BEFORE FOR EACH ROW trigger is not supported")
        .with_detail(format!(
            "Before executing trigger \"{}\", the row was to be in partition \"{}.{}\".",
            trigger.name, partition.schema_name, partition.name
        ))
}
