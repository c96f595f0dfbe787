//! INSERT, UPDATE, DELETE.

use super::cascade;
use super::constraint::Queue;
use super::context::*;
use super::expr::Evaluate;
use super::inverted::Retired;
use super::state::State;
use super::trigger::changed_by_trigger;
use super::{index, inverted, write};
use kilndb_base::{Error, RelationId, Result, RowId, sqlstate};
use kilndb_bind::ir::DmlKind;
use kilndb_catalog::trigger::TriggerOperation as Operation;
use kilndb_plan::{ModifyPlan, Node, Op};
use kilndb_storage::{Fetched, Relation, RowLockMode, WaitPolicy, WriteOptions, WriteOutcome};
use kilndb_types::Datum;
use std::sync::Arc;

pub struct ModifyState {
    pub node: Arc<Node>,
    pub(super) input: State,
    pub changed: u64,
    /// Those among them that ON CONFLICT DO UPDATE changed.
    pub(super) conflicted: u64,
    done: bool,
    results: Vec<Datum>,
    result_rows: usize,
    next: usize,
    pub(super) bytes: Vec<u8>,
    pub(super) queue: Queue,
    pub(super) scratch: super::modify_many::Scratch,
    /// Rows that ON CONFLICT DO UPDATE changed in this command.
    touched: kilndb_base::hash::HashSet<(RelationId, RowId)>,
    pub(super) firing: Box<super::trigger::Firing>,
    pub(super) partitions: super::modify_partitions::Targets,
    pub(super) merge: super::merge::MergeState,
}

/// ON CONFLICT DO UPDATE: the row to be updated is in another partition than the proposed one would be.
pub(super) struct RowElsewhere {
    pub heap: RelationId,
    pub rid: RowId,
    pub proposed: Vec<Datum>,
}

pub(super) fn tid(rid: RowId) -> Datum {
    Datum::Tid(rid.block, rid.slot)
}

/// The input of an INSERT has failed: the error to be raised once the rows before it are stored, of which one may have an
/// error of its own that then comes first. At once if there are none, or if they do not matter.
pub(super) fn rows_before_failure(m: &ModifyPlan, batch: &Batch, e: Error, cx: &ExecContext<'_>) -> Result<Error> {
    let of_data = matches!(e.sqlstate().as_str().as_bytes(), [b'2', ..] | [b'P', ..]);
    if m.statement.kind == DmlKind::Insert && batch.rows > 0 && of_data && !takes_rows_together(cx) {
        Ok(e)
    } else {
        Err(e)
    }
}

/// COPY stores the lines that it has read together: the errors of all of them come before those of any index.
pub(super) fn takes_rows_together(cx: &ExecContext<'_>) -> bool {
    cx.source.is_some()
}

impl ModifyState {
    pub fn new(node: &Arc<Node>, input: &Arc<Node>) -> ModifyState {
        ModifyState {
            node: node.clone(),
            input: State::new(input),
            changed: 0,
            conflicted: 0,
            done: false,
            results: Vec::new(),
            result_rows: 0,
            next: 0,
            bytes: Vec::new(),
            queue: Queue::default(),
            scratch: Default::default(),
            touched: Default::default(),
            partitions: Default::default(),
            firing: Default::default(),
            merge: Default::default(),
        }
    }

    pub fn next(&mut self, out: &mut Batch, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<()> {
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

    fn run(&mut self, m: &ModifyPlan, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<()> {
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

    fn run_all(&mut self, m: &ModifyPlan, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<()> {
        if let Some(plan) = &m.triggers {
            return self.run_triggered(m, plan, rt, cx);
        }
        let mut batch = Batch::new(m.statement.input_width);
        loop {
            let failed = match self.input.fill(&mut batch, rt, cx) {
                Ok(true) => None,
                Ok(false) => break,
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
        cascade::run(std::mem::take(&mut self.queue), m, cx)
    }

    /// The row to store; None if COPY … WHERE leaves it out.
    fn new_row(
        m: &ModifyPlan,
        row: &[Datum],
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<Option<Vec<Datum>>> {
        let mut values = Vec::with_capacity(m.table.columns.len());
        Ok(Self::fill_new_row(m, row, &mut values, rt, cx)?.then_some(values))
    }
    /// The same in `values`; false if it is left out.
    pub(super) fn fill_new_row(
        m: &ModifyPlan,
        row: &[Datum],
        values: &mut Vec<Datum>,
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        if !Self::assign_row(m, row, values, rt, cx)? {
            return Ok(false);
        }
        write::complete(m, values, rt, cx)?;
        Ok(true)
    }
    /// What is assigned, and defaults.
    pub(super) fn assign_row(
        m: &ModifyPlan,
        row: &[Datum],
        values: &mut Vec<Datum>,
        rt: &mut Runtime,
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
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        if batch.rows == 1 {
            cx.concerns(RowPlace::OfBatch(0), false);
            let Some(values) = Self::new_row(m, batch.row(0), rt, cx)? else { return Ok(()) };
            write::encode(m, &values, &mut self.bytes)?;
            cx.concerns(RowPlace::OfBatch(0), true);
            let rid = m.heap()?.insert(cx.txn, &self.bytes)?;
            return self.inserted(m, batch.row(0), &values, rid, rt, cx);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let outcome = self.insert_rows(m, batch, &mut scratch, rt, cx);
        self.scratch = scratch;
        outcome
    }

    pub(super) fn inserted(
        &mut self,
        m: &ModifyPlan,
        input: &[Datum],
        values: &[Datum],
        rid: RowId,
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        if let Some(n) = write::insert_entries(m, values, rid, None, &mut self.queue.twins, rt, cx)? {
            return Err(write::duplicate(m, n, values, rt, cx));
        }
        self.has_inserted(m, input, values, rid, rt, cx)
    }
    /// The row is in the heap and in all indexes.
    pub(super) fn has_inserted(
        &mut self,
        m: &ModifyPlan,
        input: &[Datum],
        values: &[Datum],
        rid: RowId,
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        self.queue.child_row(m, values);
        self.changed += 1;
        if m.statement.returning.is_some() {
            let mut wide = input.to_vec();
            Self::widen(m, &mut wide, values);
            self.returning(m, &wide, values, rid, rt, cx)?;
        }
        Ok(())
    }

    /// Appends the existing row, which there is none of, and the proposed one: see ModifyPlan.
    pub(super) fn widen(m: &ModifyPlan, wide: &mut Vec<Datum>, proposed: &[Datum]) {
        wide.extend(std::iter::repeat_n(Datum::Null, m.named_width() + 1));
        m.extend_named(wide, proposed);
    }

    pub(super) fn returning(
        &mut self,
        m: &ModifyPlan,
        wide: &[Datum],
        new: &[Datum],
        rid: RowId,
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let Some(list) = &m.statement.returning else { return Ok(()) };
        let mut row = wide.to_vec();
        m.extend_named(&mut row, new);
        row.push(tid(rid));
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
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let values = match &m.triggers {
            Some(plan) => self.proposed(m, plan, input, rt, cx)?,
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
        rt: &mut Runtime,
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
                    // It may have gone meanwhile: then try again.
                    if let Ok(heap) = cx.engine.relation(heap) {
                        self.refuse_unseen(&heap, rid, cx)?;
                        return Ok(None);
                    }
                }
                Some((_, rid)) => {
                    if self.on_conflict((m, m), input, &values, rid, rt, cx)? {
                        return Ok(None);
                    }
                    // The row went away meanwhile: try again.
                }
                None => {
                    let savepoint = cx.txn.savepoint();
                    write::encode(m, &values, &mut self.bytes)?;
                    let rid = m.heap()?.insert(cx.txn, &self.bytes)?;
                    match write::insert_entries(m, &values, rid, None, &mut self.queue.twins, rt, cx)? {
                        None => {
                            self.queue.child_row(m, &values);
                            self.touched.insert((m.heap()?.id(), rid));
                            self.changed += 1;
                            if let Some(plan) = &m.triggers {
                                self.firing.after_row(m, plan, Operation::Insert, None, Some(&values), rt, cx)?;
                            }
                            if m.statement.returning.is_some() {
                                let mut wide = input.to_vec();
                                Self::widen(m, &mut wide, &values);
                                self.returning(m, &wide, &values, rid, rt, cx)?;
                            }
                            return Ok(None);
                        }
                        Some(n) if !arbiters.contains(&n) => return Err(write::duplicate(m, n, &values, rt, cx)),
                        Some(_) => cx.txn.rollback_to(&savepoint, cx.park)?,
                    }
                }
            }
        }
    }

    /// `m` is of the partition that the conflicting row is in, `from` of the one that the proposed one would be in.
    /// False: the conflicting row is gone.
    pub(super) fn on_conflict(
        &mut self,
        (m, from): (&ModifyPlan, &ModifyPlan),
        input: &[Datum],
        proposed: &[Datum],
        rid: RowId,
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        let Some(update) = m.statement.conflict.as_ref().and_then(|c| c.update.as_ref()) else {
            return self.refuse_unseen(m.heap()?, rid, cx).map(|()| true);
        };
        if self.touched.contains(&(m.heap()?.id(), rid)) {
            return Err(second_time());
        }
        let options = WriteOptions { wait: WaitPolicy::Wait, latest: true, key_update: false };
        match m.heap()?.lock_row(cx.txn, rid, &cx.snapshot, RowLockMode::NoKeyUpdate, &options, cx.park)? {
            WriteOutcome::Done | WriteOutcome::Changed => {}
            WriteOutcome::SelfModified => {}
            WriteOutcome::Deleted | WriteOutcome::Skipped => return Ok(false),
        }
        let mut old = Vec::new();
        let mut bytes = std::mem::take(&mut self.bytes);
        if !write::latest(m, rid, &mut bytes, &mut old, cx)? {
            self.bytes = bytes;
            return Ok(false);
        }
        self.bytes = bytes;
        let mut wide = input.to_vec();
        m.extend_named(&mut wide, &old);
        wide.push(tid(rid));
        from.extend_named(&mut wide, proposed);
        if let Some(f) = &update.filter
            && !f.is_true(&wide, rt, cx)?
        {
            return Ok(true);
        }
        let mut new = old.clone();
        for (column, e) in &update.assignments {
            if let Some(place) = m.own_column(*column) {
                new[place] = e.eval(&wide, rt, cx)?;
            }
        }
        if let Some(plan) = &m.triggers
            && !self.firing.before_row(m, plan, Operation::Update, Some(&old), Some(&mut new), rt, cx)?
        {
            return Ok(true);
        }
        write::complete(m, &mut new, rt, cx)?;
        let may_move =
            update.may_move || m.table.partition_of != 0 && m.triggers.as_ref().is_some_and(|t| t.may_change_row);
        if may_move && !m.must_belong && !super::partition::belongs(&m.table, &new, rt, cx)? {
            return Err(Error::new(sqlstate::FEATURE_NOT_SUPPORTED, "invalid ON UPDATE specification")
                .with_detail("The result tuple would appear in a different partition than the original tuple."));
        }
        match self.write_update(m, rid, &old, &new, true, rt, cx)? {
            WriteOutcome::Done => {}
            // By another part of this same command.
            WriteOutcome::SelfModified => return Err(second_time()),
            _ => return Ok(false),
        }
        self.touched.insert((m.heap()?.id(), rid));
        self.changed += 1;
        self.conflicted += 1;
        if let Some(plan) = &m.triggers {
            self.firing.after_row(m, plan, Operation::Update, Some(&old), Some(&new), rt, cx)?;
        }
        self.returning(m, &wide, &new, rid, rt, cx)?;
        Ok(true)
    }

    /// At REPEATABLE READ a row that the snapshot does not see is no reason to leave one out.
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
    #[allow(clippy::too_many_arguments)]
    pub(super) fn write_update(
        &mut self,
        m: &ModifyPlan,
        rid: RowId,
        old: &[Datum],
        new: &[Datum],
        latest: bool,
        rt: &mut Runtime,
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
            let before = index::entry(p, old, rt, cx)?;
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
        let terms = inverted::changes(m, old, new, rt, cx)?;
        let retired: Vec<(&Relation, &[u8])> =
            dead.iter().map(|(n, k)| (&*m.indexes[*n].relation, k.as_slice())).collect();
        write::encode(m, new, &mut self.bytes)?;
        let options = WriteOptions { wait: WaitPolicy::Wait, latest, key_update };
        let outcome = m.heap()?.update(cx.txn, rid, &cx.snapshot, &self.bytes, &retired, &options, cx.park)?;
        if outcome != WriteOutcome::Done {
            return Ok(outcome);
        }
        inverted::apply(m, rid, &terms, cx)?;
        if born.contains(&true)
            && let Some(n) = write::insert_entries(m, new, rid, Some(&born), &mut self.queue.twins, rt, cx)?
        {
            return Err(write::duplicate(m, n, new, rt, cx));
        }
        self.queue.changed_row(m, old, Some(new));
        Ok(outcome)
    }

    /// UPDATE or DELETE of one row of the input.
    pub(super) fn change(
        &mut self,
        m: &ModifyPlan,
        row: Vec<Datum>,
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        self.until_changed(m, row, rt, cx, |state, version, row, rt, cx| state.change_once(m, version, row, rt, cx))
    }

    /// Tries to change a row (its id, its columns, whether these are the newest), with its newest version again each
    /// time that somebody else was first. BEFORE triggers find it locked.
    pub(super) fn until_changed(
        &mut self,
        m: &ModifyPlan,
        mut row: Vec<Datum>,
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
        mut attempt: impl FnMut(
            &mut ModifyState,
            (RowId, &[Datum], bool),
            &[Datum],
            &mut Runtime,
            &mut ExecContext<'_>,
        ) -> Result<WriteOutcome>,
    ) -> Result<()> {
        let Some(Datum::Tid(block, slot)) = row.get(m.statement.old_ctid) else { return Ok(()) };
        let rid = RowId { block: *block, slot: *slot };
        let mut old = Self::old_row(m, &row);
        let mut latest = false;
        let is_delete = m.statement.kind == DmlKind::Delete;
        let has_before_row = m.triggers.as_ref().is_some_and(|t| t.has_before_row);
        let mode = if is_delete { RowLockMode::Update } else { RowLockMode::NoKeyUpdate };
        if has_before_row && !self.hold(m, rid, mode, &mut old, &mut row, &mut latest, rt, cx)? {
            return Ok(());
        }
        loop {
            match attempt(self, (rid, &old, latest), &row, rt, cx)? {
                WriteOutcome::Changed => {
                    if !self.refresh(m, rid, &mut old, &mut row, rt, cx)? {
                        return Ok(());
                    }
                    latest = true;
                }
                WriteOutcome::SelfModified if has_before_row => return Err(changed_by_trigger(is_delete)),
                _ => return Ok(()),
            }
        }
    }

    /// One attempt, with the triggers that there are.
    pub(super) fn change_once(
        &mut self,
        m: &ModifyPlan,
        (rid, old, latest): (RowId, &[Datum], bool),
        row: &[Datum],
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<WriteOutcome> {
        match (&m.triggers, m.statement.kind) {
            (Some(plan), DmlKind::Delete) => self.delete_once_triggered(m, plan, rid, old, row, latest, rt, cx),
            (Some(plan), _) => self.update_once_triggered(m, plan, rid, old, row, latest, rt, cx),
            (None, DmlKind::Delete) => self.delete_once(m, rid, old, row, latest, rt, cx),
            (None, _) => self.update_once(m, rid, old, row, latest, rt, cx),
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn update_once(
        &mut self,
        m: &ModifyPlan,
        rid: RowId,
        old: &[Datum],
        row: &[Datum],
        latest: bool,
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<WriteOutcome> {
        let mut new = old.to_vec();
        super::modify_partitions::assign(m, row, &mut new, rt, cx)?;
        write::complete(m, &mut new, rt, cx)?;
        let outcome = self.write_update(m, rid, old, &new, latest, rt, cx)?;
        if outcome == WriteOutcome::Done {
            self.changed += 1;
            self.returning(m, row, &new, rid, rt, cx)?;
        }
        Ok(outcome)
    }

    pub(super) fn old_row(m: &ModifyPlan, row: &[Datum]) -> Vec<Datum> {
        m.old_columns.iter().map(|s| s.and_then(|s| row.get(s).cloned()).unwrap_or_default()).collect()
    }

    /// Reads the newest version into the row; false if it is gone.
    pub(super) fn reread(
        &mut self,
        m: &ModifyPlan,
        rid: RowId,
        old: &mut Vec<Datum>,
        row: &mut [Datum],
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        let mut bytes = std::mem::take(&mut self.bytes);
        let there = write::latest(m, rid, &mut bytes, old, cx);
        self.bytes = bytes;
        if !there? {
            return Ok(false);
        }
        for (value, slot) in old.iter().zip(&*m.old_columns) {
            if let Some(s) = slot {
                row[*s] = value.clone();
            }
        }
        Ok(true)
    }

    /// The same; false also if it no longer qualifies.
    pub(super) fn refresh(
        &mut self,
        m: &ModifyPlan,
        rid: RowId,
        old: &mut Vec<Datum>,
        row: &mut [Datum],
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        let seen = row.to_vec();
        Ok(self.reread(m, rid, old, row, cx)?
            && super::lockrows::judge_again(&m.statement.recheck, &seen, row, rt, cx)?)
    }

    #[allow(clippy::too_many_arguments)]
    fn delete_once(
        &mut self,
        m: &ModifyPlan,
        rid: RowId,
        old: &[Datum],
        row: &[Datum],
        latest: bool,
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<WriteOutcome> {
        let outcome = self.write_delete(m, rid, old, latest, rt, cx)?;
        if outcome == WriteOutcome::Done {
            self.changed += 1;
            let nulls = vec![Datum::Null; old.len()];
            self.returning(m, row, &nulls, rid, rt, cx)?;
        }
        Ok(outcome)
    }

    /// Heap, indexes and queued constraint checks of one row that goes.
    pub(super) fn write_delete(
        &mut self,
        m: &ModifyPlan,
        rid: RowId,
        old: &[Datum],
        latest: bool,
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<WriteOutcome> {
        let retired = Retired::of(m, old, rt, cx)?;
        let options = WriteOptions { wait: WaitPolicy::Wait, latest, key_update: true };
        let outcome = m.heap()?.delete(cx.txn, rid, &cx.snapshot, &retired.keys(m), &options, cx.park)?;
        if outcome == WriteOutcome::Done {
            retired.apply(m, rid, cx)?;
            self.queue.changed_row(m, old, None);
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
