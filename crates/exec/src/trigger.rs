//! Triggers of the changes that a plan makes: which fire, with which rows, and when.
//!
//! Invariants
//! 1. AFTER triggers see the whole statement's work: they fire when all its rows are written, for rows in the order of
//!    their changes, and statement triggers last.
//! 2. Rows wait for AFTER triggers in at most work_mem of memory, the rest in a temporary file.
//!
//! Must not know: languages, sessions. [`super::RoutineHost`] does.

use super::context::*;
use super::expr::Evaluate;
use super::routine::CallerResources;
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
pub struct TriggerCall<'a> {
    pub trigger: &'a Trigger,
    pub table: &'a Arc<Table>,
    pub operation: TriggerOperation,
    /// The old and new row, with the values of all columns of the table.
    pub old: Option<&'a [Datum]>,
    pub new: Option<&'a [Datum]>,
    pub transitions: Option<&'a mut TransitionRows>,
}

/// What has become of one row, as AFTER triggers see it. An UPDATE that moves a row to another partition has changed two:
/// the one without its new values, the other without its old ones.
#[derive(Clone, Copy)]
pub(crate) struct RowChange<'a> {
    pub operation: TriggerOperation,
    pub old: Option<&'a [Datum]>,
    pub new: Option<&'a [Datum]>,
}

impl<'a> RowChange<'a> {
    pub fn inserted(new: &'a [Datum]) -> RowChange<'a> {
        RowChange { operation: TriggerOperation::Insert, old: None, new: Some(new) }
    }
    pub fn updated(old: &'a [Datum], new: &'a [Datum]) -> RowChange<'a> {
        RowChange { operation: TriggerOperation::Update, old: Some(old), new: Some(new) }
    }
    pub fn deleted(old: &'a [Datum]) -> RowChange<'a> {
        RowChange { operation: TriggerOperation::Delete, old: Some(old), new: None }
    }
    /// What the change is to statement triggers of an UPDATE that has moved the row to another partition.
    pub(crate) fn as_update(self) -> RowChange<'a> {
        RowChange { operation: TriggerOperation::Update, ..self }
    }
}

/// What is about to become of one row. BEFORE triggers may replace the new row.
pub(crate) enum ProposedChange<'a> {
    Insert(&'a mut Vec<Datum>),
    Update(&'a [Datum], &'a mut Vec<Datum>),
    Delete(&'a [Datum]),
}

impl ProposedChange<'_> {
    fn as_change(&self) -> RowChange<'_> {
        match self {
            ProposedChange::Insert(new) => RowChange::inserted(new),
            ProposedChange::Update(old, new) => RowChange::updated(old, new),
            ProposedChange::Delete(old) => RowChange::deleted(old),
        }
    }
    fn new_row(&mut self) -> Option<&mut Vec<Datum>> {
        match self {
            ProposedChange::Insert(new) | ProposedChange::Update(_, new) => Some(new),
            ProposedChange::Delete(_) => None,
        }
    }
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
    /// Who made the change, and calls the function.
    pub role: Oid,
    /// The call was made already, when so many savepoints were open.
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
pub(crate) struct StatementTriggers {
    pub has_begun: bool,
    is_replica: bool,
    /// The partition that the row of the moment is in, among those that the statement has changed.
    pub at: usize,
    /// The action of a MERGE whose partitions those are.
    pub step: usize,
    /// Partition, operation, which 62 of its triggers, a bit for each of them, old row, new row; these as the named
    /// table has them.
    queue: Option<RowStore>,
    /// The transition tables, by operation.
    transitions: [TransitionRows; 3],
    /// Rows that the statement has changed itself, by table.
    pub own: HashSet<(Oid, RowId)>,
}

const BITS: usize = 62;
/// The number of columns of the queue before the rows.
const QUEUE_HEAD: usize = 4;
/// The bits for the number of a partition among those that one action changes.
const STEP_SHIFT: usize = 20;

/// Appends a version of a row as the named table has it, or as many NULLs where there is none.
fn extend_version(m: &ModifyPlan, version: Option<&[Datum]>, out: &mut Vec<Datum>) {
    match version {
        Some(row) => m.extend_named(out, row),
        None => out.resize(out.len() + m.named_width(), Datum::Null),
    }
}

impl StatementTriggers {
    pub fn new(cx: &ExecContext<'_>) -> StatementTriggers {
        StatementTriggers { has_begun: true, is_replica: cx.session.is_replica(), ..StatementTriggers::default() }
    }
    /// Begins when the first trigger that may fire is a partition's.
    pub fn begin(&mut self, cx: &ExecContext<'_>) {
        *self = StatementTriggers { step: self.step, ..StatementTriggers::new(cx) };
    }

    /// Does it fire for this event, as far as its row is not looked at?
    fn is_due(&self, plan: &TriggerPlan, t: &Trigger, operation: TriggerOperation) -> bool {
        let is_set = |attnum: &i16| plan.assigned.get((*attnum - 1).max(0) as usize).copied().unwrap_or(false);
        t.is(bit_of(operation))
            && t.fires_as(self.is_replica)
            && (operation != TriggerOperation::Update || t.columns.is_empty() || t.columns.iter().any(is_set))
    }

    /// Does the trigger's WHEN condition hold for the row? Statement triggers see none.
    fn condition_holds(
        t: &PlannedTrigger,
        change: Option<RowChange<'_>>,
        width: usize,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        let Some(when) = &t.when else { return Ok(true) };
        let mut row = Vec::with_capacity(width * 2);
        for version in [change.and_then(|c| c.old), change.and_then(|c| c.new)] {
            row.extend_from_slice(version.unwrap_or_default());
            row.resize(row.len() + width - version.map_or(0, <[Datum]>::len), Datum::Null);
        }
        when.is_true(&row, rt, cx)
    }

    /// Fires the statement triggers of `m`: those before its rows are changed, or those after.
    pub fn statement(
        &mut self,
        m: &ModifyPlan,
        operation: TriggerOperation,
        before: bool,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let Some(plan) = &m.triggers else { return Ok(()) };
        for t in &plan.list {
            let trigger = &*t.trigger;
            if trigger.for_each_row()
                || trigger.is(BEFORE) != before
                || !self.is_due(plan, trigger, operation)
                || !Self::condition_holds(t, None, m.table.columns.len(), rt, cx)?
            {
                continue;
            }
            let transitions = Some(&mut self.transitions[operation as usize]);
            fire(TriggerCall { trigger, table: &m.table, operation, old: None, new: None, transitions }, cx)?;
        }
        Ok(())
    }

    /// BEFORE … FOR EACH ROW, or INSTEAD OF: the new row may be another afterwards. False: the row is passed over.
    pub(crate) fn before_row(
        &mut self,
        m: &ModifyPlan,
        mut change: ProposedChange<'_>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        let Some(plan) = &m.triggers else { return Ok(true) };
        let operation = change.as_change().operation;
        for t in &plan.list {
            let trigger = &*t.trigger;
            if !trigger.for_each_row() || trigger.is_after() || !self.is_due(plan, trigger, operation) {
                continue;
            }
            if let Some(new) = change.new_row() {
                // Generated columns are computed after the triggers.
                m.generated.iter().for_each(|(column, _)| new[*column] = Datum::Null);
            }
            let RowChange { operation, old, new } = change.as_change();
            if !Self::condition_holds(t, Some(change.as_change()), m.table.columns.len(), rt, cx)? {
                continue;
            }
            let call = TriggerCall { trigger, table: &m.table, operation, old, new, transitions: None };
            let Some(row) = fire(call, cx)? else { return Ok(false) };
            let Some(new) = change.new_row() else { continue };
            let before = std::mem::replace(new, row);
            if operation == TriggerOperation::Insert
                && trigger.parent != 0
                && !super::partition::belongs(&m.table, new, rt, cx)?
                && super::partition::belongs(&m.table, &before, rt, cx)?
            {
                return Err(moved_by_trigger(trigger, &m.table));
            }
        }
        Ok(true)
    }

    /// Queues what is to fire for a changed row, and keeps it for statement triggers.
    pub(crate) fn after_row(
        &mut self,
        m: &ModifyPlan,
        change: RowChange<'_>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        if m.triggers.is_none() {
            return Ok(());
        }
        self.capture(m, change, cx)?;
        self.queue_row(m, change, rt, cx)
    }

    /// Keeps a changed row for triggers with transition tables.
    pub(crate) fn capture(&mut self, m: &ModifyPlan, change: RowChange<'_>, cx: &mut ExecContext<'_>) -> Result<()> {
        let Some(plan) = &m.triggers else { return Ok(()) };
        let operation = change.operation as usize;
        let (wants_old, wants_new) = plan.captures.get(operation).copied().unwrap_or_default();
        if !wants_old && !wants_new {
            return Ok(());
        }
        let (io, budget_bytes) = (cx.io(), cx.work_mem_bytes);
        let kept = &mut self.transitions[operation];
        for (store, wanted, row) in [(&mut kept.old, wants_old, change.old), (&mut kept.new, wants_new, change.new)] {
            if let (true, Some(row)) = (wanted, row) {
                let mut named = Vec::with_capacity(m.named_width());
                m.extend_named(&mut named, row);
                store.get_or_insert_with(|| RowStore::new(named.len(), budget_bytes)).push(&named, io)?;
            }
        }
        Ok(())
    }

    /// Queues a changed row with the row triggers that are to fire for it when the statement is done.
    pub(crate) fn queue_row(
        &mut self,
        m: &ModifyPlan,
        change: RowChange<'_>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let Some(plan) = &m.triggers else { return Ok(()) };
        let width = m.table.columns.len();
        for (word, list) in plan.list.chunks(BITS).enumerate() {
            let mut due = 0i64;
            for (n, t) in list.iter().enumerate() {
                let trigger = &*t.trigger;
                if !trigger.for_each_row()
                    || !trigger.is_after()
                    || !self.is_due(plan, trigger, change.operation)
                    || !Self::condition_holds(t, Some(change), width, rt, cx)?
                {
                    continue;
                }
                if is_deferred(trigger, cx) {
                    cx.session.refuse_deferred_trigger()?;
                    cx.pending.triggers.push(PendingTrigger {
                        role: cx.session.role(),
                        constraint: trigger.constraint,
                        trigger: trigger.oid,
                        table: m.table.oid,
                        operation: change.operation,
                        old: change.old.map(<[Datum]>::to_vec),
                        new: change.new.map(<[Datum]>::to_vec),
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
                Datum::Int4(change.operation as i32),
                Datum::Int4(word as i32),
                Datum::Int8(due),
            ]);
            extend_version(m, change.old, &mut row);
            extend_version(m, change.new, &mut row);
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
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        // The AFTER triggers see what the statement did.
        cx.txn.next_command();
        let snapshot = cx.txn.take_snapshot();
        let saved = std::mem::replace(&mut cx.snapshot, snapshot.into());
        let done = self.fire_queued(m, partitions, cx).and_then(|()| {
            operations.iter().rev().try_for_each(|operation| self.statement(m, *operation, false, rt, cx))
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
                return Err(Error::internal("a row that waits for its triggers is not as it was queued"));
            };
            assert!(rows.len() % 2 == 0, "an old and a new row have waited for their triggers");
            let (step, at) = (*partition as usize >> STEP_SHIFT, *partition as usize % (1 << STEP_SHIFT));
            let of = partitions.get(step).and_then(|changed| changed.get(at)).unwrap_or(m);
            let plan = of.triggers.as_ref().ok_or_else(|| Error::internal("a row has waited for no triggers"))?;
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
                    fire(TriggerCall { trigger: &t.trigger, table: &of.table, operation, old, new, transitions }, cx)?;
                }
            }
        }
        Ok(())
    }
}

/// Does a constraint trigger wait for the end of the transaction?
fn is_deferred(trigger: &Trigger, cx: &ExecContext<'_>) -> bool {
    let (deferrable, initially) = (trigger.deferrable, trigger.initially_deferred);
    trigger.constraint != 0 && super::constraint::is_deferred(trigger.constraint, deferrable, initially, cx)
}

fn fire(fire: TriggerCall<'_>, cx: &mut ExecContext<'_>) -> Result<Option<Vec<Datum>>> {
    let held = CallerResources { txn: cx.txn, pending: cx.pending, usage: cx.usage, snapshot: &cx.snapshot };
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
