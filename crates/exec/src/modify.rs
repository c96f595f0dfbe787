//! INSERT, UPDATE and DELETE of one table, row by row or batch by batch.

use super::cascade;
use super::constraint::ConstraintQueue;
use super::context::*;
use super::expr::Evaluate;
use super::inverted::RetiredEntries;
use super::modify_row::{ProposedRow, RowElsewhere, StoredRow, TargetRow, tid};
use super::state::NodeState;
use super::trigger::{ProposedChange, RowChange, changed_by_trigger};
use super::{index, inverted, write};
use kilndb_base::{Error, RelationId, Result, RowId, sqlstate};
use kilndb_bind::ir::{DmlKind, RowCheckKind};
use kilndb_plan::{ModifyPlan, Op, PlanNode};
use kilndb_storage::{Fetched, Relation, RowLockMode, WaitPolicy, WriteOptions, WriteOutcome};
use kilndb_types::Datum;
use std::sync::Arc;

pub(crate) struct ModifyState {
    pub node: Arc<PlanNode>,
    pub(super) input: NodeState,
    pub changed: u64,
    /// How many of the changed rows ON CONFLICT DO UPDATE has changed.
    pub(super) conflicted: u64,
    done: bool,
    results: Vec<Datum>,
    result_rows: usize,
    next: usize,
    pub(super) bytes: Vec<u8>,
    pub(super) queue: ConstraintQueue,
    pub(super) scratch: super::modify_many::BatchScratch,
    /// Index entries that are still to be changed for rows that are.
    pub(super) gathered: super::index_changes::GatheredEntries,
    /// Rows that ON CONFLICT DO UPDATE changed in this command.
    touched: kilndb_base::hash::HashSet<(RelationId, RowId)>,
    pub(super) firing: Box<super::trigger::StatementTriggers>,
    pub(super) partitions: super::modify_partitions::PartitionTargets,
    pub(super) merge: super::merge::MergeState,
}

/// Decides when an error in an INSERT's input is raised. Ok: once the rows before it are stored, since one of them may
/// have an error of its own that comes first. Err: at once, because there are no such rows or their errors do not
/// matter.
pub(super) fn rows_before_failure(m: &ModifyPlan, batch: &Batch, e: Error, cx: &ExecContext<'_>) -> Result<Error> {
    if m.statement.kind == DmlKind::Insert && batch.rows > 0 && is_of_data(&e) && !takes_rows_together(cx) {
        Ok(e)
    } else {
        Err(e)
    }
}

/// Is the error one of values, rather than of the server, the client or a limit?
pub(super) fn is_of_data(e: &Error) -> bool {
    matches!(e.sqlstate().as_str().as_bytes(), [b'2', ..] | [b'P', ..])
}

/// COPY stores the lines that it has read together: the errors of all of them come before those of any index.
pub(super) fn takes_rows_together(cx: &ExecContext<'_>) -> bool {
    cx.source.is_some()
}

impl ModifyState {
    pub fn new(node: &Arc<PlanNode>, input: &Arc<PlanNode>) -> ModifyState {
        ModifyState {
            node: node.clone(),
            input: NodeState::new(input),
            changed: 0,
            conflicted: 0,
            done: false,
            results: Vec::new(),
            result_rows: 0,
            next: 0,
            bytes: Vec::new(),
            queue: ConstraintQueue::default(),
            scratch: Default::default(),
            gathered: Default::default(),
            touched: Default::default(),
            partitions: Default::default(),
            firing: Default::default(),
            merge: Default::default(),
        }
    }

    pub fn next(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.node.clone();
        let Op::Modify(m) = &node.op else { return Ok(()) };
        if !self.done {
            self.run(m, rt, cx)?;
            self.done = true;
        }
        let width = node.width;
        while !out.full() && self.next < self.result_rows {
            out.push(&self.results[self.next * width..(self.next + 1) * width]);
            self.next += 1;
        }
        Ok(())
    }

    fn run(&mut self, m: &ModifyPlan, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        if let Some(merge) = &m.statement.merge {
            return self.run_merge(m, merge, rt, cx);
        }
        if m.routing().is_some() {
            return self.run_triggered_partitions(m, rt, cx);
        }
        let done = self.run_all(m, rt, cx);
        let rows = self.changed - self.conflicted;
        match m.statement.kind {
            DmlKind::Insert => cx.usage.changed(m.table.oid, rows, self.conflicted, 0),
            DmlKind::Update => cx.usage.changed(m.table.oid, 0, rows, 0),
            _ => cx.usage.changed(m.table.oid, 0, 0, rows),
        }
        done
    }

    fn run_all(&mut self, m: &ModifyPlan, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        if let Some(plan) = &m.triggers {
            return self.run_triggered(m, plan, rt, cx);
        }
        if super::modify_columns::takes_columns(m, &self.input, cx) {
            self.run_columns(m, rt, cx)?;
            self.gathered.apply(m, cx)?;
            return cascade::run(std::mem::take(&mut self.queue), m, cx);
        }
        let mut batch = Batch::new(m.statement.input_width);
        loop {
            let failed = match self.input.fill(&mut batch, rt, cx) {
                Ok(true) => None,
                Ok(false) => break,
                Err(e) if takes_rows_together(cx) => return Err(self.first_error(m, &batch, e, rt, cx)),
                Err(e) => Some(rows_before_failure(m, &batch, e, cx)?),
            };
            match m.statement.kind {
                DmlKind::Insert if m.statement.conflict.is_none() => self.insert_batch(m, &batch, rt, cx)?,
                DmlKind::Insert => {
                    for i in 0..batch.rows {
                        self.upsert(m, batch.row(i), rt, cx)?;
                    }
                }
                DmlKind::Update if m.at_once && batch.rows > 1 => self.update_batch(m, &batch, rt, cx)?,
                DmlKind::Delete if batch.rows > 1 => self.delete_batch(m, &batch, rt, cx)?,
                DmlKind::Update | DmlKind::Delete => {
                    for i in 0..batch.rows {
                        let row = batch.row(i).to_vec();
                        self.change(m, row, rt, cx)?;
                    }
                }
                DmlKind::Merge => return Err(Error::internal("MERGE without its plan")),
            }
            if let Some(e) = failed {
                return Err(e);
            }
            cx.concerns_none();
        }
        self.gathered.apply(m, cx)?;
        cascade::run(std::mem::take(&mut self.queue), m, cx)
    }

    /// The row to store; None if COPY … WHERE leaves it out.
    fn new_row(
        m: &ModifyPlan,
        row: &[Datum],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<Option<Vec<Datum>>> {
        let mut values = Vec::with_capacity(m.table.columns.len());
        Ok(Self::fill_new_row(m, row, &mut values, rt, cx)?.then_some(values))
    }
    /// Computes the row to store in `values`; false if COPY … WHERE leaves it out.
    pub(super) fn fill_new_row(
        m: &ModifyPlan,
        row: &[Datum],
        values: &mut Vec<Datum>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        if !Self::assign_row(m, row, values, rt, cx)? {
            return Ok(false);
        }
        write::complete(m, values, rt, cx)?;
        Ok(true)
    }
    /// Computes the values that are assigned and the defaults; false if COPY … WHERE leaves the row out.
    pub(super) fn assign_row(
        m: &ModifyPlan,
        row: &[Datum],
        values: &mut Vec<Datum>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        values.clear();
        values.resize_with(m.table.columns.len(), Datum::default);
        for (column, e) in &*m.statement.assignments {
            e.eval_into(row, &mut values[*column], rt, cx)?;
        }
        if let Some(filter) = &m.statement.row_filter
            && !filter.is_true(values, rt, cx)?
        {
            return Ok(false);
        }
        Ok(true)
    }

    pub(super) fn insert_batch(
        &mut self,
        m: &ModifyPlan,
        batch: &Batch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        if batch.rows == 1 {
            cx.concerns(RowPlace::OfBatch(0), false);
            let Some(values) = Self::new_row(m, batch.row(0), rt, cx)? else { return Ok(()) };
            write::encode(m, &values, &mut self.bytes)?;
            cx.concerns(RowPlace::OfBatch(0), true);
            let rid = m.heap()?.insert(cx.txn, &self.bytes)?;
            return self.inserted(m, StoredRow { rid, values: &values, input: batch.row(0) }, rt, cx);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let outcome = self.insert_rows(m, batch, &mut scratch, rt, cx);
        self.scratch = scratch;
        outcome
    }

    /// The row is in the heap: it gets its index entries.
    pub(super) fn inserted(
        &mut self,
        m: &ModifyPlan,
        row: StoredRow<'_>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        if let Some(n) = write::insert_entries(m, row, None, &mut self.queue.twins, rt, cx)? {
            return Err(write::duplicate(m, n, row.values, rt, cx));
        }
        self.has_inserted(m, row, rt, cx)
    }
    /// The row is in the heap and in all indexes.
    pub(super) fn has_inserted(
        &mut self,
        m: &ModifyPlan,
        row: StoredRow<'_>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        super::row_security::check_stored(m, row.values, rt, cx)?;
        self.queue.child_row(m, row.values);
        self.changed += 1;
        self.firing.after_row(m, RowChange::inserted(row.values), rt, cx)?;
        if m.statement.returning.is_some() {
            let mut wide = row.input.to_vec();
            Self::widen(m, &mut wide, row.values);
            self.returning(m, StoredRow { input: &wide, ..row }, rt, cx)?;
        }
        Ok(())
    }

    /// Appends the existing row, NULLs as there is none, and the proposed one: see [`ModifyPlan`] for the layout.
    pub(super) fn widen(m: &ModifyPlan, wide: &mut Vec<Datum>, proposed: &[Datum]) {
        wide.extend(std::iter::repeat_n(Datum::Null, m.named_width() + 1));
        m.extend_named(wide, proposed);
    }

    pub(super) fn returning(
        &mut self,
        m: &ModifyPlan,
        new: StoredRow<'_>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let Some(list) = &m.statement.returning else { return Ok(()) };
        let mut row = new.input.to_vec();
        m.extend_named(&mut row, new.values);
        row.push(tid(new.rid));
        row.push(Datum::Oid(m.table.oid));
        for e in &**list {
            let v = e.eval(&row, rt, cx)?;
            self.results.push(v);
        }
        self.result_rows += 1;
        Ok(())
    }

    pub(super) fn upsert(
        &mut self,
        m: &ModifyPlan,
        input: &[Datum],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let values = match &m.triggers {
            Some(_) => self.proposed(m, input, rt, cx)?,
            None => Self::new_row(m, input, rt, cx)?,
        };
        match values {
            Some(values) => match self.upsert_values(m, input, values, rt, cx)? {
                None => Ok(()),
                Some(_) => Err(Error::unsupported(format!(
                    "ON CONFLICT DO UPDATE of a row that is not in the partition \"{}\", which the statement names, is not supported",
                    m.table.name
                ))),
            },
            None => Ok(()),
        }
    }

    pub(super) fn upsert_values(
        &mut self,
        m: &ModifyPlan,
        input: &[Datum],
        values: Vec<Datum>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<Option<RowElsewhere>> {
        let arbiters = &*m.arbiters;
        if let Some(p) = arbiters.iter().map(|n| &m.indexes[*n]).find(|p| p.shape.deferrable) {
            return Err(Error::new(
                sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters",
            )
            .with_table(m.table.schema_name.clone(), m.table.name.clone())
            .with_constraint(p.index.name.clone()));
        }
        loop {
            cx.park.checkpoint()?;
            let mut found = None;
            for &n in arbiters {
                let p = &m.indexes[n];
                let Some((key, null)) = index::entry(p, &values, rt, cx)? else { continue };
                if null && !p.shape.nulls_not_distinct {
                    continue;
                }
                if let Some(row) = p.relation.index_find_live_anywhere(cx.txn, m.heap()?, &key, cx.park)? {
                    found = Some(row);
                    break;
                }
            }
            match found {
                Some((heap, rid)) if heap != m.heap()?.id() => {
                    if m.statement.conflict.as_ref().is_some_and(|c| c.update.is_some()) {
                        return Ok(Some(RowElsewhere { heap, rid, proposed: values }));
                    }
                    // If the other partition's heap is gone by now, the loop tries again.
                    if let Ok(heap) = cx.engine.relation(heap) {
                        self.refuse_unseen(&heap, rid, cx)?;
                        return Ok(None);
                    }
                }
                Some((_, rid)) => {
                    let proposed = ProposedRow { plan: m, values: &values, input };
                    if self.on_conflict(m, rid, proposed, rt, cx)? {
                        return Ok(None);
                    }
                    // The conflicting row is gone by now: the loop tries again.
                }
                None => {
                    let savepoint = cx.txn.savepoint();
                    write::encode(m, &values, &mut self.bytes)?;
                    let rid = m.heap()?.insert(cx.txn, &self.bytes)?;
                    let row = StoredRow { rid, values: &values, input };
                    match write::insert_entries(m, row, None, &mut self.queue.twins, rt, cx)? {
                        None => {
                            self.touched.insert((m.heap()?.id(), rid));
                            return self.has_inserted(m, row, rt, cx).map(|()| None);
                        }
                        Some(n) if !arbiters.contains(&n) => return Err(write::duplicate(m, n, &values, rt, cx)),
                        Some(_) => cx.txn.rollback_to(&savepoint, cx.park)?,
                    }
                }
            }
        }
    }

    /// `m` is of the partition that the conflicting row `rid` is in. False: that row is gone.
    pub(super) fn on_conflict(
        &mut self,
        m: &ModifyPlan,
        rid: RowId,
        proposed: ProposedRow<'_>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        let Some(update) = m.statement.conflict.as_ref().and_then(|c| c.update.as_ref()) else {
            return self.refuse_unseen(m.heap()?, rid, cx).map(|()| true);
        };
        if self.touched.contains(&(m.heap()?.id(), rid)) {
            return Err(second_time());
        }
        let options = WriteOptions { wait: WaitPolicy::Wait, latest: true, key_update: false };
        match m.heap()?.lock_row(cx.txn, rid, RowLockMode::NoKeyUpdate, &options.with(&cx.snapshot, cx.park))? {
            WriteOutcome::Done | WriteOutcome::Changed => {}
            WriteOutcome::SelfModified => {}
            WriteOutcome::Deleted | WriteOutcome::Skipped => return Ok(false),
        }
        let mut old = Vec::new();
        if !write::latest(m, rid, &mut self.bytes, &mut old, cx)? {
            return Ok(false);
        }
        let mut wide = proposed.input.to_vec();
        m.extend_named(&mut wide, &old);
        wide.push(tid(rid));
        proposed.plan.extend_named(&mut wide, proposed.values);
        if let Some(f) = &update.filter
            && !f.is_true(&wide, rt, cx)?
        {
            return Ok(true);
        }
        super::row_security::check(m, RowCheckKind::Conflict, &wide, rt, cx)?;
        let mut new = old.clone();
        for (column, e) in &update.assignments {
            if let Some(position) = m.own_column(*column) {
                new[position] = e.eval(&wide, rt, cx)?;
            }
        }
        if !self.firing.before_row(m, ProposedChange::Update(&old, &mut new), rt, cx)? {
            return Ok(true);
        }
        write::complete_as(m, RowCheckKind::Update, &mut new, rt, cx)?;
        let may_move =
            update.may_move || m.table.partition_of != 0 && m.triggers.as_ref().is_some_and(|t| t.may_change_row);
        if may_move && !m.must_belong && !super::partition::belongs(&m.table, &new, rt, cx)? {
            return Err(Error::new(sqlstate::FEATURE_NOT_SUPPORTED, "invalid ON UPDATE specification")
                .with_detail("The result tuple would appear in a different partition than the original tuple."));
        }
        let row = TargetRow { rid, old, input: wide, is_latest: true };
        match self.write_update(m, &row, &new, rt, cx)? {
            WriteOutcome::Done => {}
            // A trigger or function of this same command has changed the row.
            WriteOutcome::SelfModified => return Err(second_time()),
            _ => return Ok(false),
        }
        self.touched.insert((m.heap()?.id(), rid));
        self.changed += 1;
        self.conflicted += 1;
        self.firing.after_row(m, RowChange::updated(&row.old, &new), rt, cx)?;
        self.returning(m, StoredRow { rid, values: &new, input: &row.input }, rt, cx)?;
        Ok(true)
    }

    /// At REPEATABLE READ and above, a conflicting row that the snapshot does not see is an error: the statement could
    /// not explain why it left a row out.
    fn refuse_unseen(&mut self, heap: &Relation, rid: RowId, cx: &mut ExecContext<'_>) -> Result<()> {
        if !cx.txn.isolation().keeps_snapshot() || self.touched.contains(&(heap.id(), rid)) {
            return Ok(());
        }
        match heap.fetch(rid, &cx.snapshot, &mut self.bytes)? {
            Fetched::Visible { .. } => Ok(()),
            Fetched::Invisible => {
                Err(Error::new(sqlstate::SERIALIZATION_FAILURE, "could not serialize access due to concurrent update"))
            }
        }
    }

    /// Heap, indexes and queued constraint checks of one changed row.
    pub(super) fn write_update(
        &mut self,
        m: &ModifyPlan,
        row: &TargetRow,
        new: &[Datum],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<WriteOutcome> {
        let mut dead: Vec<(usize, Vec<u8>)> = Vec::new();
        let mut born = vec![false; m.indexes.len()];
        let mut key_update = false;
        let insert = m.statement.kind == DmlKind::Insert;
        for (n, p) in m.indexes.iter().enumerate() {
            if p.has_terms() || !insert && !p.is_touched(&m.changed) {
                continue;
            }
            let before = index::entry(p, &row.old, rt, cx)?;
            let after = index::entry(p, new, rt, cx)?;
            let same = match (&before, &after) {
                (Some(a), Some(b)) => a.0 == b.0,
                (None, None) => true,
                _ => false,
            };
            if same {
                continue;
            }
            key_update |= p.shape.unique && p.predicate.is_none();
            born[n] = after.is_some();
            if let Some(b) = before {
                dead.push((n, b.0));
            }
        }
        let terms = inverted::changes(m, &row.old, new, rt, cx)?;
        let retired: Vec<(&Relation, &[u8])> =
            dead.iter().map(|(n, k)| (&*m.indexes[*n].relation, k.as_slice())).collect();
        write::encode(m, new, &mut self.bytes)?;
        let options = WriteOptions { wait: WaitPolicy::Wait, latest: row.is_latest, key_update };
        let outcome = m.heap()?.update(cx.txn, row.rid, &self.bytes, &retired, &options.with(&cx.snapshot, cx.park))?;
        if outcome != WriteOutcome::Done {
            return Ok(outcome);
        }
        inverted::apply(m, row.rid, &terms, cx)?;
        let stored = StoredRow { rid: row.rid, values: new, input: &row.input };
        if born.contains(&true)
            && let Some(n) = write::insert_entries(m, stored, Some(&born), &mut self.queue.twins, rt, cx)?
        {
            return Err(write::duplicate(m, n, new, rt, cx));
        }
        super::row_security::check_stored(m, new, rt, cx)?;
        self.queue.changed_row(m, &row.old, Some(new));
        Ok(outcome)
    }

    /// UPDATE or DELETE of one row of the input.
    pub(super) fn change(
        &mut self,
        m: &ModifyPlan,
        input: Vec<Datum>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        self.until_changed(m, input, rt, cx, |state, row, rt, cx| state.change_once(m, row, rt, cx))
    }

    /// Tries to change the row that `input` names, with its newest version again each time that somebody else was
    /// first. BEFORE triggers find it locked.
    pub(super) fn until_changed(
        &mut self,
        m: &ModifyPlan,
        input: Vec<Datum>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
        mut attempt: impl FnMut(&mut ModifyState, &TargetRow, &mut RunState, &mut ExecContext<'_>) -> Result<WriteOutcome>,
    ) -> Result<()> {
        let Some(mut row) = TargetRow::of(m, input) else { return Ok(()) };
        let has_before_row = m.triggers.as_ref().is_some_and(|t| t.has_before_row);
        if has_before_row && !self.lock_for_triggers(m, &mut row, rt, cx)? {
            return Ok(());
        }
        loop {
            match attempt(self, &row, rt, cx)? {
                WriteOutcome::Changed => {
                    if !self.refresh(m, &mut row, rt, cx)? {
                        return Ok(());
                    }
                }
                WriteOutcome::SelfModified if has_before_row => {
                    return Err(changed_by_trigger(m.statement.kind == DmlKind::Delete));
                }
                _ => return Ok(()),
            }
        }
    }

    /// One attempt, with the triggers that there are. `Skipped`: a trigger wants the row passed over.
    pub(super) fn change_once(
        &mut self,
        m: &ModifyPlan,
        row: &TargetRow,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<WriteOutcome> {
        if m.statement.kind == DmlKind::Delete {
            if !self.firing.before_row(m, ProposedChange::Delete(&row.old), rt, cx)? {
                return Ok(WriteOutcome::Skipped);
            }
            let outcome = self.write_delete(m, row, rt, cx)?;
            if outcome == WriteOutcome::Done {
                self.has_changed(m, row, None, rt, cx)?;
            }
            return Ok(outcome);
        }
        let mut new = row.old.clone();
        super::modify_partitions::assign(m, &row.input, &mut new, rt, cx)?;
        if !self.firing.before_row(m, ProposedChange::Update(&row.old, &mut new), rt, cx)? {
            return Ok(WriteOutcome::Skipped);
        }
        write::complete(m, &mut new, rt, cx)?;
        self.update_to(m, row, &new, rt, cx)
    }

    /// Stores the new values of a row.
    pub(super) fn update_to(
        &mut self,
        m: &ModifyPlan,
        row: &TargetRow,
        new: &[Datum],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<WriteOutcome> {
        let outcome = self.write_update(m, row, new, rt, cx)?;
        if outcome == WriteOutcome::Done {
            self.has_changed(m, row, Some(new), rt, cx)?;
        }
        Ok(outcome)
    }

    /// A row of the input is updated, or deleted if there is no new one: it is counted, its triggers are queued, and
    /// what RETURNING wants of it is evaluated.
    fn has_changed(
        &mut self,
        m: &ModifyPlan,
        row: &TargetRow,
        new: Option<&[Datum]>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        self.changed += 1;
        if let Some(triggers) = &m.triggers {
            if triggers.has_before_row {
                self.firing.own.insert((m.table.oid, row.rid));
            }
            let change = match new {
                Some(new) => RowChange::updated(&row.old, new),
                None => RowChange::deleted(&row.old),
            };
            self.firing.after_row(m, change, rt, cx)?;
        }
        if m.statement.returning.is_none() {
            return Ok(());
        }
        let nulls;
        let values = match new {
            Some(new) => new,
            None => {
                nulls = vec![Datum::Null; row.old.len()];
                &nulls[..]
            }
        };
        self.returning(m, StoredRow { rid: row.rid, values, input: &row.input }, rt, cx)
    }

    /// Reads the newest version into the row; false if it is gone.
    pub(super) fn reread(&mut self, m: &ModifyPlan, row: &mut TargetRow, cx: &mut ExecContext<'_>) -> Result<bool> {
        row.is_latest = true;
        if !write::latest(m, row.rid, &mut self.bytes, &mut row.old, cx)? {
            return Ok(false);
        }
        for (value, slot) in row.old.iter().zip(&*m.old_columns) {
            if let Some(slot) = slot {
                row.input[*slot] = value.clone();
            }
        }
        Ok(true)
    }

    /// Reads the newest version into the row; false if it is gone, or if the statement's conditions do not hold for
    /// it.
    pub(super) fn refresh(
        &mut self,
        m: &ModifyPlan,
        row: &mut TargetRow,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        let seen = row.input.clone();
        Ok(self.reread(m, row, cx)?
            && super::lockrows::judge_again(&m.statement.recheck, &seen, &mut row.input, rt, cx)?)
    }

    /// Heap, indexes and queued constraint checks of one row that goes.
    pub(super) fn write_delete(
        &mut self,
        m: &ModifyPlan,
        row: &TargetRow,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<WriteOutcome> {
        let retired = RetiredEntries::of(m, &row.old, rt, cx)?;
        let options = WriteOptions { wait: WaitPolicy::Wait, latest: row.is_latest, key_update: true };
        let outcome = m.heap()?.delete(cx.txn, row.rid, &retired.keys(m), &options.with(&cx.snapshot, cx.park))?;
        if outcome == WriteOutcome::Done {
            retired.apply(m, row.rid, cx)?;
            self.queue.changed_row(m, &row.old, None);
        }
        Ok(outcome)
    }
}

fn second_time() -> Error {
    Error::new(sqlstate::CARDINALITY_VIOLATION, "ON CONFLICT DO UPDATE command cannot affect row a second time")
        .with_hint(
            "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.",
        )
}
