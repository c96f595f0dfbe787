//! INSERT, UPDATE and DELETE of a table that has triggers: row by row.

use super::cascade;
use super::context::*;
use super::modify::ModifyState;
use super::trigger::{Firing, changed_by_trigger};
use super::write;
use kilndb_base::{Error, Result, RowId};
use kilndb_bind::ir::DmlKind;
use kilndb_catalog::trigger::TriggerOperation as Operation;
use kilndb_plan::{ModifyPlan, TriggerPlan};
use kilndb_storage::{RowLockMode, WaitPolicy, WriteOptions, WriteOutcome};
use kilndb_types::Datum;

impl ModifyState {
    fn operations(m: &ModifyPlan) -> Result<&'static [Operation]> {
        let upserts = m.statement.conflict.as_ref().is_some_and(|c| c.update.is_some());
        Ok(match m.statement.kind {
            DmlKind::Insert if upserts => &[Operation::Insert, Operation::Update],
            DmlKind::Insert => &[Operation::Insert],
            DmlKind::Update => &[Operation::Update],
            DmlKind::Delete => &[Operation::Delete],
            DmlKind::Merge => return Err(Error::internal("MERGE without its plan")),
        })
    }

    /// The partitions' row triggers fire with their rows, the named table's statement triggers before and after them.
    pub(super) fn run_triggered_partitions(
        &mut self,
        m: &ModifyPlan,
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let operations = Self::operations(m)?;
        if let Some(plan) = &m.triggers {
            *self.firing = Firing::new(cx);
            for operation in operations {
                self.firing.statement(m, plan, *operation, true, rt, cx)?;
            }
        }
        self.run_partitions(m, rt, cx)?;
        if !self.firing.has_begun {
            return Ok(());
        }
        let partitions = self.partitions.plans();
        self.firing.end(m, &[partitions], operations, rt, cx)
    }

    pub(super) fn run_triggered(
        &mut self,
        m: &ModifyPlan,
        plan: &TriggerPlan,
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        *self.firing = Firing::new(cx);
        let operations = Self::operations(m)?;
        for operation in operations {
            self.firing.statement(m, plan, *operation, true, rt, cx)?;
        }
        // A trigger may do what the next row's evaluation sees.
        let mut batch = Batch::with_max(m.statement.input_width, if plan.has_before_row { 1 } else { BATCH_ROWS });
        while self.input.fill(&mut batch, rt, cx)? {
            for i in 0..batch.rows {
                cx.concerns(RowPlace::OfBatch(i), false);
                match m.statement.kind {
                    _ if plan.is_instead => self.instead(m, plan, batch.row(i), rt, cx)?,
                    DmlKind::Insert if m.statement.conflict.is_none() => {
                        self.insert_triggered(m, plan, (batch.row(i), i), rt, cx)?
                    }
                    DmlKind::Insert => self.upsert(m, batch.row(i), rt, cx)?,
                    _ => self.change(m, batch.row(i).to_vec(), rt, cx)?,
                }
            }
            cx.concerns_none();
        }
        cascade::run_now(std::mem::take(&mut self.queue), m, cx)?;
        let done = self.firing.end(m, &[], operations, rt, cx);
        cx.pending.failed_behind |= done.is_err();
        done
    }

    /// The row to store, as BEFORE triggers want it; None: it is passed over.
    pub(super) fn proposed(
        &mut self,
        m: &ModifyPlan,
        plan: &TriggerPlan,
        input: &[Datum],
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<Option<Vec<Datum>>> {
        let mut values = Vec::with_capacity(m.table.columns.len());
        if !Self::assign_row(m, input, &mut values, rt, cx)?
            || !self.firing.before_row(m, plan, Operation::Insert, None, Some(&mut values), rt, cx)?
        {
            return Ok(None);
        }
        write::complete(m, &mut values, rt, cx)?;
        Ok(Some(values))
    }

    pub(super) fn insert_triggered(
        &mut self,
        m: &ModifyPlan,
        plan: &TriggerPlan,
        (input, at): (&[Datum], usize),
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let Some(values) = self.proposed(m, plan, input, rt, cx)? else { return Ok(()) };
        // What BEFORE triggers see makes PostgreSQL's COPY store its lines one by one.
        cx.concerns(RowPlace::OfBatch(at), !plan.has_before_row);
        write::encode(m, &values, &mut self.bytes)?;
        let rid = m.heap()?.insert(cx.txn, &self.bytes)?;
        self.inserted(m, input, &values, rid, rt, cx)?;
        self.firing.after_row(m, plan, Operation::Insert, None, Some(&values), rt, cx)
    }

    /// Locks a row for its BEFORE triggers, which see its newest version.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn hold(
        &mut self,
        m: &ModifyPlan,
        rid: RowId,
        mode: RowLockMode,
        old: &mut Vec<Datum>,
        row: &mut [Datum],
        latest: &mut bool,
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        loop {
            let options = WriteOptions { wait: WaitPolicy::Wait, latest: *latest, key_update: false };
            match m.heap()?.lock_row(cx.txn, rid, &cx.snapshot, mode, &options, cx.park)? {
                WriteOutcome::Done => return Ok(true),
                WriteOutcome::Changed => {
                    if !self.refresh(m, rid, old, row, rt, cx)? {
                        return Ok(false);
                    }
                    *latest = true;
                }
                WriteOutcome::SelfModified if !self.firing.own.contains(&(m.table.oid, rid)) => {
                    return Err(changed_by_trigger(mode == RowLockMode::Update));
                }
                _ => return Ok(false),
            }
        }
    }

    /// `Skipped`: a trigger wants the row passed over.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn update_once_triggered(
        &mut self,
        m: &ModifyPlan,
        plan: &TriggerPlan,
        rid: RowId,
        old: &[Datum],
        row: &[Datum],
        latest: bool,
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<WriteOutcome> {
        let mut new = old.to_vec();
        super::modify_partitions::assign(m, row, &mut new, rt, cx)?;
        if !self.firing.before_row(m, plan, Operation::Update, Some(old), Some(&mut new), rt, cx)? {
            return Ok(WriteOutcome::Skipped);
        }
        write::complete(m, &mut new, rt, cx)?;
        let outcome = self.write_update(m, rid, old, &new, latest, rt, cx)?;
        if outcome == WriteOutcome::Done {
            self.changed += 1;
            if plan.has_before_row {
                self.firing.own.insert((m.table.oid, rid));
            }
            self.firing.after_row(m, plan, Operation::Update, Some(old), Some(&new), rt, cx)?;
            self.returning(m, row, &new, rid, rt, cx)?;
        }
        Ok(outcome)
    }

    /// The same.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn delete_once_triggered(
        &mut self,
        m: &ModifyPlan,
        plan: &TriggerPlan,
        rid: RowId,
        old: &[Datum],
        row: &[Datum],
        latest: bool,
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<WriteOutcome> {
        if !self.firing.before_row(m, plan, Operation::Delete, Some(old), None, rt, cx)? {
            return Ok(WriteOutcome::Skipped);
        }
        let outcome = self.write_delete(m, rid, old, latest, rt, cx)?;
        if outcome == WriteOutcome::Done {
            self.changed += 1;
            if plan.has_before_row {
                self.firing.own.insert((m.table.oid, rid));
            }
            self.firing.after_row(m, plan, Operation::Delete, Some(old), None, rt, cx)?;
            let nulls = vec![Datum::Null; old.len()];
            self.returning(m, row, &nulls, rid, rt, cx)?;
        }
        Ok(outcome)
    }

    /// A row of a view: its triggers do everything.
    pub(super) fn instead(
        &mut self,
        m: &ModifyPlan,
        plan: &TriggerPlan,
        input: &[Datum],
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let rid = RowId::default();
        let old = Self::old_row(m, input);
        let mut new =
            if m.statement.kind == DmlKind::Insert { vec![Datum::Null; m.table.columns.len()] } else { old.clone() };
        super::modify_partitions::assign(m, input, &mut new, rt, cx)?;
        let done = match m.statement.kind {
            DmlKind::Insert => self.firing.before_row(m, plan, Operation::Insert, None, Some(&mut new), rt, cx)?,
            DmlKind::Update => {
                self.firing.before_row(m, plan, Operation::Update, Some(&old), Some(&mut new), rt, cx)?
            }
            _ => self.firing.before_row(m, plan, Operation::Delete, Some(&old), None, rt, cx)?,
        };
        if !done {
            return Ok(());
        }
        self.changed += 1;
        if m.statement.returning.is_none() {
            return Ok(());
        }
        let mut wide = input.to_vec();
        match m.statement.kind {
            DmlKind::Insert => Self::widen(m, &mut wide, &new),
            DmlKind::Update => {}
            _ => new.fill(Datum::Null),
        }
        self.returning(m, &wide, &new, rid, rt, cx)
    }
}
