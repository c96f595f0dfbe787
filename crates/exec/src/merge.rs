//! MERGE: for each row of the join the first action whose conditions hold (docs/decisions/0020).
//!
//! Invariants
//! 1. An action is executed by its own plan, with its own queue of checks and its own partitions, as an INSERT, UPDATE
//!    or DELETE of its own would be.
//! 2. A row that somebody has changed meanwhile is matched again in its newest version. It may turn from matched to not
//!    matched, never the other way round.
//! 3. No row is changed twice by the same statement.

use super::cascade;
use super::constraint::ConstraintQueue;
use super::context::*;
use super::expr::Evaluate;
use super::modify::ModifyState;
use super::modify_partitions::{PartitionTargets, PartitionedPlan};
use super::modify_row::{TargetRow, old_row, rid_of};
use super::trigger::StatementTriggers;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_bind::ir::{DmlKind, MergeWhen, RowCheckKind};
use kilndb_catalog::trigger::TriggerOperation as Operation;
use kilndb_plan::{MergePlan, MergeStep, ModifyPlan};
use kilndb_storage::WriteOutcome;
use kilndb_types::Datum;

/// The state of each action, and what is counted for all of them.
#[derive(Default)]
pub(crate) struct MergeState {
    steps: Vec<MergeStepState>,
    /// How many rows the join has yielded.
    rows: u64,
}

#[derive(Default)]
struct MergeStepState {
    queue: ConstraintQueue,
    partitions: PartitionTargets,
    /// Rows that it has changed.
    changed: u64,
}

const KINDS: [(DmlKind, Operation); 3] =
    [(DmlKind::Insert, Operation::Insert), (DmlKind::Update, Operation::Update), (DmlKind::Delete, Operation::Delete)];

impl ModifyState {
    pub(super) fn run_merge(
        &mut self,
        m: &ModifyPlan,
        merge: &MergePlan,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let done = self.merge_all(m, merge, rt, cx);
        for (n, step) in merge.steps.iter().enumerate() {
            let (Some(plan), Some(state)) = (&step.change, self.merge.steps.get(n)) else { continue };
            let rows = state.changed;
            match plan.statement.kind {
                _ if plan.routing().is_some() => self.at_step(n, |state| {
                    state.count_partitions(cx);
                    Ok(())
                })?,
                DmlKind::Insert => cx.usage.changed(m.table.oid, rows, 0, 0),
                DmlKind::Update => cx.usage.changed(m.table.oid, 0, rows, 0),
                _ => cx.usage.changed(m.table.oid, 0, 0, rows),
            }
        }
        done
    }

    fn merge_all(
        &mut self,
        m: &ModifyPlan,
        merge: &MergePlan,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        self.merge.steps.resize_with(merge.steps.len(), MergeStepState::default);
        for (n, step) in merge.steps.iter().enumerate() {
            if let Some(plan) = &step.change
                && let Some(routing) = plan.routing()
            {
                self.at_step(n, |state| state.begin_partitions(PartitionedPlan { plan, routing }, cx))?;
            }
        }
        let has =
            |kind: DmlKind| merge.steps.iter().filter_map(|s| s.change.as_ref()).any(|p| p.statement.kind == kind);
        let operations: Vec<Operation> =
            KINDS.into_iter().filter(|(kind, _)| has(*kind)).map(|(_, operation)| operation).collect();
        if m.triggers.is_some() {
            *self.firing = StatementTriggers::new(cx);
            for operation in &operations {
                self.firing.statement(m, *operation, true, rt, cx)?;
            }
        }
        // A trigger may do what the next row's evaluation sees.
        let one_by_one = m.triggers.as_ref().is_some_and(|t| t.has_before_row);
        let mut batch = Batch::with_max(m.statement.input_width, if one_by_one { 1 } else { BATCH_ROWS });
        while self.input.fill(&mut batch, rt, cx)? {
            self.merge.rows += batch.rows as u64;
            for i in 0..batch.rows {
                self.merge_row(m, merge, batch.row(i).to_vec(), rt, cx)?;
            }
        }
        for (n, step) in merge.steps.iter().enumerate() {
            let Some(plan) = &step.change else { continue };
            self.at_step(n, |state| {
                if plan.routing().is_some() {
                    return state.end_partitions(plan, cx);
                }
                cascade::run(std::mem::take(&mut state.queue), plan, cx)
            })?;
        }
        self.report_merge(merge, rt);
        if !self.firing.has_begun {
            return Ok(());
        }
        let partitions: Vec<_> = self.merge.steps.iter().map(|step| step.partitions.plans()).collect();
        self.firing.end(m, &partitions, &operations, rt, cx)
    }

    fn report_merge(&self, merge: &MergePlan, rt: &mut RunState) {
        let sum = |kind: DmlKind| {
            let steps = merge.steps.iter().zip(&self.merge.steps);
            steps
                .filter(|(step, _)| step.change.as_ref().is_some_and(|p| p.statement.kind == kind))
                .map(|(_, state)| state.changed)
                .sum::<u64>()
        };
        let [inserted, updated, deleted] = KINDS.map(|(kind, _)| sum(kind));
        let skipped = self.merge.rows.saturating_sub(inserted + updated + deleted);
        rt.report(self.node.id, NodeReport::Merge { inserted, updated, deleted, skipped });
    }

    /// Runs `run` with the queue of checks and the partitions of one action.
    fn at_step<R>(&mut self, n: usize, run: impl FnOnce(&mut ModifyState) -> Result<R>) -> Result<R> {
        let before = self.changed;
        let swap = |state: &mut ModifyState| {
            let own = &mut state.merge.steps[n];
            std::mem::swap(&mut state.queue, &mut own.queue);
            std::mem::swap(&mut state.partitions, &mut own.partitions);
        };
        swap(self);
        self.firing.step = n;
        let done = run(self);
        swap(self);
        self.merge.steps[n].changed += self.changed - before;
        done
    }

    fn merge_row(
        &mut self,
        m: &ModifyPlan,
        merge: &MergePlan,
        mut row: Vec<Datum>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        if row.get(m.statement.old_ctid).is_some_and(|v| !v.is_null()) {
            let rid = rid_of(m, &row).unwrap_or_default();
            let mut target = TargetRow { rid, old: Vec::new(), input: row, is_latest: false };
            if self.merge_matched(m, merge, &mut target, rt, cx)? {
                return Ok(());
            }
            row = target.input;
            merge.target.iter().for_each(|slot| row[*slot] = Datum::Null);
        }
        for (n, step) in merge.steps.iter().enumerate().filter(|(_, s)| s.when == MergeWhen::NotMatchedByTarget) {
            if step.condition.as_ref().map_or(Ok(true), |c| c.is_true(&row, rt, cx))? {
                return match &step.change {
                    Some(plan) => self.at_step(n, |state| state.merge_insert(plan, &row, rt, cx)),
                    None => Ok(()),
                };
            }
        }
        Ok(())
    }

    /// Executes the first action whose conditions hold for a matched row. False: the target's row is gone or no longer
    /// matches, so the source's row is to be treated as not matched.
    fn merge_matched(
        &mut self,
        m: &ModifyPlan,
        merge: &MergePlan,
        row: &mut TargetRow,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        let mut still = true;
        let mut when = MergeWhen::Matched;
        if merge.by_source && !merge.on.is_true(&row.input, rt, cx)? {
            when = MergeWhen::NotMatchedBySource;
        }
        loop {
            let Some((n, step)) = Self::find_step(merge, when, &row.input, rt, cx)? else { return Ok(still) };
            let Some(plan) = &step.change else { return Ok(still) };
            let found = match plan.statement.kind {
                DmlKind::Delete => RowCheckKind::MergeDelete,
                _ => RowCheckKind::MergeUpdate,
            };
            super::row_security::check(plan, found, &row.input, rt, cx)?;
            match self.at_step(n, |state| state.merge_change(plan, row, rt, cx))? {
                WriteOutcome::Changed => {
                    if when == MergeWhen::Matched && !merge.on.is_true(&row.input, rt, cx)? {
                        when = MergeWhen::NotMatchedBySource;
                        still = false;
                    }
                }
                WriteOutcome::Deleted => return Ok(false),
                WriteOutcome::SelfModified => return Err(self.second_time(m, row)),
                _ => return Ok(still),
            }
        }
    }

    fn find_step<'m>(
        merge: &'m MergePlan,
        when: MergeWhen,
        row: &[Datum],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<Option<(usize, &'m MergeStep)>> {
        for (n, step) in merge.steps.iter().enumerate().filter(|(_, s)| s.when == when) {
            if step.condition.as_ref().map_or(Ok(true), |c| c.is_true(row, rt, cx))? {
                return Ok(Some((n, step)));
            }
        }
        Ok(None)
    }

    /// Updates or deletes a row of the target. `Changed`: it is locked, and `row` has its newest version.
    fn merge_change(
        &mut self,
        plan: &ModifyPlan,
        row: &mut TargetRow,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<WriteOutcome> {
        if plan.triggers.as_ref().is_some_and(|t| t.is_instead) {
            self.instead(plan, &row.input, rt, cx)?;
            return Ok(WriteOutcome::Done);
        }
        let Some(routing) = plan.routing() else { return self.merge_stored(plan, row, rt, cx) };
        let table = PartitionedPlan { plan, routing };
        let Some(target) = self.target_of(table, &row.input, cx)? else { return Ok(WriteOutcome::Deleted) };
        if plan.statement.kind == DmlKind::Update && self.may_leave(table, target) {
            let own = self.plan_at(target);
            return self
                .merge_attempt(&own, row, cx, |state, row, cx| state.update_or_move_once(table, target, row, rt, cx));
        }
        self.at_target(target, plan.statement.kind, |state, own| state.merge_stored(own, row, rt, cx))
    }

    /// Updates or deletes a row of a table with rows of its own.
    fn merge_stored(
        &mut self,
        plan: &ModifyPlan,
        row: &mut TargetRow,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<WriteOutcome> {
        self.merge_attempt(plan, row, cx, |state, row, cx| state.change_once(plan, row, rt, cx))
    }

    /// Changes a row of the table that `plan` is of, once BEFORE triggers find it locked.
    fn merge_attempt(
        &mut self,
        plan: &ModifyPlan,
        row: &mut TargetRow,
        cx: &mut ExecContext<'_>,
        change: impl FnOnce(&mut ModifyState, &TargetRow, &mut ExecContext<'_>) -> Result<WriteOutcome>,
    ) -> Result<WriteOutcome> {
        row.old = old_row(plan, &row.input);
        let has_before_row = plan.triggers.as_ref().is_some_and(|t| t.has_before_row);
        let mut outcome = WriteOutcome::Done;
        if has_before_row {
            outcome = self.try_lock_for_triggers(plan, row, cx)?;
        }
        if outcome == WriteOutcome::Done {
            outcome = change(self, row, cx)?;
        }
        if outcome == WriteOutcome::Changed && !self.reread(plan, row, cx)? {
            outcome = WriteOutcome::Deleted;
        }
        Ok(outcome)
    }

    fn merge_insert(
        &mut self,
        plan: &ModifyPlan,
        row: &[Datum],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        if let Some(routing) = plan.routing() {
            let mut values = Vec::with_capacity(plan.table.columns.len());
            return self.insert_routed(PartitionedPlan { plan, routing }, row, &mut values, rt, cx);
        }
        match &plan.triggers {
            Some(triggers) if triggers.is_instead => self.instead(plan, row, rt, cx),
            Some(_) => self.insert_triggered(plan, row, 0, rt, cx),
            None => {
                let mut values = Vec::with_capacity(plan.table.columns.len());
                Self::fill_new_row(plan, row, &mut values, rt, cx)?;
                self.insert_one(plan, row, &values, rt, cx)
            }
        }
    }

    /// The error of a row that this statement has already changed, by itself or by one of its triggers.
    fn second_time(&self, m: &ModifyPlan, row: &TargetRow) -> Error {
        let oid = match m.routing().and_then(|routing| row.input.get(routing.tableoid)) {
            Some(Datum::Oid(oid)) => *oid,
            _ => m.table.oid,
        };
        let fires = |plan: &ModifyPlan| plan.triggers.as_ref().is_some_and(|t| t.has_before_row);
        let fires_there = || {
            self.merge
                .steps
                .iter()
                .flat_map(|step| step.partitions.plans())
                .any(|plan| plan.table.oid == oid && fires(&plan))
        };
        let by_trigger = (fires(m) || fires_there()) && !self.firing.own.contains(&(oid, row.rid));
        if by_trigger {
            let message =
                "tuple to be updated or deleted was already modified by an operation triggered by the current command";
            return Error::new(sqlstate::TRIGGERED_DATA_CHANGE_VIOLATION, message).with_hint(
                "Consider using an AFTER trigger instead of a BEFORE trigger to propagate changes to other rows.",
            );
        }
        Error::new(sqlstate::CARDINALITY_VIOLATION, "MERGE command cannot affect row a second time")
            .with_hint("Ensure that not more than one source row matches any one target row.")
    }
}
