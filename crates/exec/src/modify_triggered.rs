//! INSERT, UPDATE and DELETE of a table that has triggers: row by row.

use super::cascade;
use super::context::*;
use super::modify::ModifyState;
use super::modify_row::{StoredRow, TargetRow, old_row};
use super::trigger::{ProposedChange, StatementTriggers, changed_by_trigger};
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
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let operations = Self::operations(m)?;
        if m.triggers.is_some() {
            *self.firing = StatementTriggers::new(cx);
            for operation in operations {
                self.firing.statement(m, *operation, true, rt, cx)?;
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
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        *self.firing = StatementTriggers::new(cx);
        let operations = Self::operations(m)?;
        for operation in operations {
            self.firing.statement(m, *operation, true, rt, cx)?;
        }
        // A trigger may do what the next row's evaluation sees.
        let mut batch = Batch::with_max(m.statement.input_width, if plan.has_before_row { 1 } else { BATCH_ROWS });
        loop {
            match self.input.fill(&mut batch, rt, cx) {
                Ok(true) => {}
                Ok(false) => break,
                Err(e) => return Err(self.first_error(m, &batch, e, rt, cx)),
            }
            for i in 0..batch.rows {
                cx.concerns(RowPlace::OfBatch(i), false);
                match m.statement.kind {
                    _ if plan.is_instead => self.instead(m, batch.row(i), rt, cx)?,
                    DmlKind::Insert if m.statement.conflict.is_none() => {
                        self.insert_triggered(m, batch.row(i), i, rt, cx)?
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

    /// The row to store after the BEFORE triggers; None: one of them wants it passed over.
    pub(super) fn proposed(
        &mut self,
        m: &ModifyPlan,
        input: &[Datum],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<Option<Vec<Datum>>> {
        let mut values = Vec::with_capacity(m.table.columns.len());
        if !Self::assign_row(m, input, &mut values, rt, cx)?
            || !self.firing.before_row(m, ProposedChange::Insert(&mut values), rt, cx)?
        {
            return Ok(None);
        }
        write::complete(m, &mut values, rt, cx)?;
        Ok(Some(values))
    }

    /// A new row of a table with triggers; `at`: its number in the input's batch.
    pub(super) fn insert_triggered(
        &mut self,
        m: &ModifyPlan,
        input: &[Datum],
        at: usize,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let Some(values) = self.proposed(m, input, rt, cx)? else { return Ok(()) };
        // What BEFORE triggers see makes PostgreSQL's COPY store its lines one by one.
        let has_before_row = m.triggers.as_ref().is_some_and(|t| t.has_before_row);
        cx.concerns(RowPlace::OfBatch(at), !has_before_row);
        self.insert_one(m, input, &values, rt, cx)
    }

    /// Locks a row for its BEFORE triggers, which see its newest version. False: it is gone, or no longer qualifies.
    pub(super) fn lock_for_triggers(
        &mut self,
        m: &ModifyPlan,
        row: &mut TargetRow,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        loop {
            match self.try_lock_for_triggers(m, row, cx)? {
                WriteOutcome::Done => return Ok(true),
                WriteOutcome::Changed => {
                    if !self.refresh(m, row, rt, cx)? {
                        return Ok(false);
                    }
                }
                WriteOutcome::SelfModified if !self.firing.own.contains(&(m.table.oid, row.rid)) => {
                    return Err(changed_by_trigger(m.statement.kind == DmlKind::Delete));
                }
                _ => return Ok(false),
            }
        }
    }

    /// One attempt to lock a row for its BEFORE triggers.
    pub(super) fn try_lock_for_triggers(
        &self,
        m: &ModifyPlan,
        row: &TargetRow,
        cx: &mut ExecContext<'_>,
    ) -> Result<WriteOutcome> {
        let is_delete = m.statement.kind == DmlKind::Delete;
        let mode = if is_delete { RowLockMode::Update } else { RowLockMode::NoKeyUpdate };
        let options = WriteOptions { wait: WaitPolicy::Wait, latest: row.is_latest, key_update: false };
        m.heap()?.lock_row(cx.txn, row.rid, mode, &options.with(&cx.snapshot, cx.park))
    }

    /// Changes a row of a view: its INSTEAD OF triggers do everything.
    pub(super) fn instead(
        &mut self,
        m: &ModifyPlan,
        input: &[Datum],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let old = old_row(m, input);
        let mut new =
            if m.statement.kind == DmlKind::Insert { vec![Datum::Null; m.table.columns.len()] } else { old.clone() };
        super::modify_partitions::assign(m, input, &mut new, rt, cx)?;
        let change = match m.statement.kind {
            DmlKind::Insert => ProposedChange::Insert(&mut new),
            DmlKind::Update => ProposedChange::Update(&old, &mut new),
            _ => ProposedChange::Delete(&old),
        };
        let done = self.firing.before_row(m, change, rt, cx)?;
        if !done {
            return Ok(());
        }
        if m.statement.kind != DmlKind::Delete {
            super::row_security::check_stored(m, &new, rt, cx)?;
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
        self.returning(m, StoredRow { rid: RowId::default(), values: &new, input: &wide }, rt, cx)
    }
}
