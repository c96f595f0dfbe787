//! INSERT, UPDATE and DELETE of a partitioned table: each row is changed by its partition's own plan.
//!
//! Invariants
//! 1. What is done to a row is done by the partition's own plan ([`ModifyPlan::for_partition`]), over rows with the
//!    partition's columns; expressions of the statement see rows with the named table's.
//! 2. Rows that are kept back to be stored together are stored before the statement looks at the table again: before
//!    checks that are due at its end, before RETURNING, and before anything else is inserted into the same partition.

use super::cascade;
use super::constraint::ConstraintQueue;
use super::context::*;
use super::expr::Evaluate;
use super::modify::{ModifyState, is_of_data, rows_before_failure, takes_rows_together};
use super::modify_row::{ProposedRow, RowElsewhere, StoredRow, TargetRow};
use super::opened_partitions::opened;
use super::partition::{self, FoundPartition, PartitionRoute};
use super::trigger::{ProposedChange, RowChange};
use super::write;
use kilndb_base::hash::HashMap;
use kilndb_base::{Error, Oid, RelationId, Result, RowId, sqlstate};
use kilndb_bind::ir::DmlKind;
use kilndb_catalog::partition::PartitionMap;
use kilndb_catalog::trigger::{BEFORE, INSERT, ROW};
use kilndb_plan::ModifyPlan;
use kilndb_plan::partition::Routing;
use kilndb_storage::{LockMode, WaitPolicy, WriteOptions, WriteOutcome, ahead};
use kilndb_types::{Datum, row};
use std::sync::Arc;

/// Rows that are kept back, of all partitions together, and in bytes of what values hold themselves.
const ROWS_KEPT_MAX: usize = 32 * 1024;

/// What is done with rows that were kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeptRows {
    Store,
    /// Only an error is looked for that comes before that of an index: the statement fails anyway.
    Check,
}

struct PartitionTarget {
    oid: Oid,
    /// The partition's own plan, which has its heap and its table.
    plan: ModifyPlan,
    queue: ConstraintQueue,
    /// Rows to be stored, one after the other.
    kept: Vec<Datum>,
    /// The numbers of the kept rows among all rows of the statement.
    kept_numbers: Vec<u64>,
    inserted: u64,
    updated: u64,
    deleted: u64,
}

/// The plan of a statement that names a partitioned table.
#[derive(Clone, Copy)]
pub(crate) struct PartitionedPlan<'a> {
    pub plan: &'a ModifyPlan,
    pub routing: &'a Routing,
}

impl<'a> PartitionedPlan<'a> {
    pub fn of(plan: &'a ModifyPlan) -> Result<PartitionedPlan<'a>> {
        match plan.routing() {
            Some(routing) => Ok(PartitionedPlan { plan, routing }),
            None => Err(Error::internal("a partitioned table without routing")),
        }
    }
}

/// A row on its way from one partition to another.
struct RowMove<'a> {
    from: &'a ModifyPlan,
    /// The positions of both among the statement's targets.
    from_at: usize,
    to_at: usize,
    row: &'a TargetRow,
    /// The new values, in the columns of the table named.
    named: Vec<Datum>,
}

impl PartitionTarget {
    fn new(oid: Oid, plan: ModifyPlan) -> PartitionTarget {
        PartitionTarget {
            oid,
            plan,
            queue: ConstraintQueue::default(),
            kept: Vec::new(),
            kept_numbers: Vec::new(),
            inserted: 0,
            updated: 0,
            deleted: 0,
        }
    }
    fn is_of(&self, heap: RelationId) -> bool {
        self.plan.heap.as_ref().is_some_and(|own| own.id() == heap)
    }
}

#[derive(Default)]
pub(crate) struct PartitionTargets {
    /// The table's map, if the statement has its own. None: the shared map is used, without counting a reference.
    map: Option<Arc<PartitionMap>>,
    /// The plan runs often, so the partitions' plans are kept for the next run.
    keep_plans: bool,
    /// Rows without triggers are kept, and stored together.
    keep_rows_back: bool,
    list: Vec<PartitionTarget>,
    by_oid: HashMap<Oid, usize>,
    /// The position of the partition that the last row went to.
    last: usize,
    rows_kept: usize,
    /// How many rows the statement has routed so far.
    rows_seen: u64,
}

/// A row that cannot be stored: its position among the rows given, and the error.
struct RefusedRow {
    row: usize,
    error: Error,
    /// The row is in the heap; an index has refused it.
    is_stored: bool,
}

impl PartitionTargets {
    pub fn plans(&self) -> Vec<ModifyPlan> {
        self.list.iter().map(|t| t.plan.clone()).collect()
    }
}

/// Assigns an UPDATE's new values to the columns of `new`.
pub(super) fn assign(
    m: &ModifyPlan,
    input: &[Datum],
    new: &mut [Datum],
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<()> {
    for (column, e) in &*m.statement.assignments {
        if let Some(position) = m.own_column(*column) {
            new[position] = e.eval(input, rt, cx)?;
        }
    }
    Ok(())
}

impl ModifyState {
    pub(super) fn run_partitions(&mut self, m: &ModifyPlan, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let done = self.run_all_partitions(m, rt, cx);
        self.count_partitions(cx);
        done
    }

    pub(super) fn begin_partitions(&mut self, table: PartitionedPlan<'_>, cx: &mut ExecContext<'_>) -> Result<()> {
        let m = table.plan;
        self.partitions.keep_plans = table.routing.runs_often();
        let catalog = cx.catalog;
        if catalog.shared_partitions(m.table.oid).is_none_or(|shared| partition::keeps_pending(&shared.map, cx)) {
            self.partitions.map = Some(partition::seen_map(m.table.oid, cx)?);
        }
        Ok(())
    }

    /// Runs the checks that are due when all rows are written.
    pub(super) fn end_partitions(&mut self, m: &ModifyPlan, cx: &mut ExecContext<'_>) -> Result<()> {
        // With AFTER triggers the foreign keys' actions run to their end first, because the triggers see them done.
        let run = if self.firing.has_begun { cascade::run_now } else { cascade::run };
        for at in 0..self.partitions.list.len() {
            let target = &mut self.partitions.list[at];
            if target.queue.is_empty() {
                continue;
            }
            let (queue, plan) = (std::mem::take(&mut target.queue), target.plan.clone());
            run(queue, &plan, cx)?;
        }
        run(std::mem::take(&mut self.queue), m, cx)
    }

    pub(super) fn count_partitions(&self, cx: &mut ExecContext<'_>) {
        for t in &self.partitions.list {
            cx.usage.changed(t.oid, t.inserted, t.updated, t.deleted);
        }
    }

    fn run_all_partitions(&mut self, m: &ModifyPlan, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let table = PartitionedPlan::of(m)?;
        self.begin_partitions(table, cx)?;
        // A trigger may do what the next row's evaluation sees.
        let before_row = m.triggers.as_ref().is_some_and(|t| t.has_before_row);
        let mut batch =
            if before_row { Batch::with_max(m.statement.input_width, 1) } else { Batch::new(m.statement.input_width) };
        let mut first = true;
        let mut values = Vec::new();
        loop {
            let failed = match self.input.fill(&mut batch, rt, cx) {
                Ok(true) => None,
                Ok(false) => break,
                // Rows of batches before are kept back, too.
                Err(e) if takes_rows_together(cx) && is_of_data(&e) => Some(e),
                Err(e) => Some(rows_before_failure(m, &batch, e, cx)?),
            };
            match m.statement.kind {
                DmlKind::Insert => {
                    // A single row is stored at once.
                    self.partitions.keep_rows_back = m.statement.conflict.is_none()
                        && m.statement.returning.is_none()
                        && !super::row_security::has_view_checks(m)
                        && !(first && batch.rows == 1);
                    for i in 0..batch.rows {
                        cx.concerns(RowPlace::OfBatch(i), false);
                        if let Err(e) = self.insert_routed(table, batch.row(i), &mut values, rt, cx) {
                            self.end_kept(rt, cx)?;
                            cx.concerns(RowPlace::OfBatch(i), false);
                            return Err(e);
                        }
                        self.partitions.rows_seen += 1;
                    }
                    if failed.is_some() {
                        self.end_kept(rt, cx)?;
                        cx.concerns_reading();
                    } else if self.partitions.rows_kept >= ROWS_KEPT_MAX {
                        self.store_kept(KeptRows::Store, rt, cx)?;
                    }
                    if self.partitions.rows_kept == 0 && failed.is_none() {
                        cx.concerns_none();
                    }
                }
                DmlKind::Update => self.update_partitions(table, &batch, rt, cx)?,
                DmlKind::Delete => self.delete_partitions(table, &batch, rt, cx)?,
                DmlKind::Merge => return Err(Error::internal("MERGE without its plan")),
            }
            if let Some(e) = failed {
                return Err(e);
            }
            first = false;
        }
        self.store_kept(KeptRows::Store, rt, cx)?;
        self.end_partitions(m, cx)
    }

    /// Locks and opens a partition; the position among the targets. None: it is gone.
    fn target(
        &mut self,
        table: PartitionedPlan<'_>,
        partition: impl Into<PartitionRoute>,
        cx: &mut ExecContext<'_>,
    ) -> Result<Option<usize>> {
        let PartitionedPlan { plan: m, routing } = table;
        let place = partition.into();
        let oid = place.oid;
        if self.partitions.list.get(self.partitions.last).is_some_and(|t| t.oid == oid) {
            return Ok(Some(self.partitions.last));
        }
        if let Some(known) = self.partitions.by_oid.get(&oid) {
            self.partitions.last = *known;
            return Ok(Some(*known));
        }
        let found = partition::find_locked(&m.table, place, LockMode::RowExclusive, cx)?;
        let leaf = match &found {
            FoundPartition::Known(leaf) => *leaf,
            FoundPartition::Opened(Some(leaf)) => leaf,
            FoundPartition::Opened(None) => return Ok(None),
        };
        let plan = leaf.plan(m, routing, self.partitions.keep_plans, cx)?;
        if self.partitions.keep_plans
            && let Some(at) = place.at
            && let Some(known) = opened(m.table.oid, cx.catalog).and_then(|shared| shared.known(at as usize))
        {
            known.note_target(&plan.target);
        }
        if plan.triggers.is_some() && !self.firing.has_begun {
            self.firing.begin(cx);
        }
        if m.statement.kind == DmlKind::Insert {
            cx.txn.will_insert(&leaf.heap);
            plan.indexes.iter().take(1).for_each(|p| ahead::fetch_bounds(&p.relation));
        }
        let at = self.partitions.list.len();
        self.partitions.list.push(PartitionTarget::new(oid, plan));
        if at > 0 {
            if at == 1 {
                let first = self.partitions.list[0].oid;
                self.partitions.by_oid.insert(first, 0);
            }
            self.partitions.by_oid.insert(oid, at);
        }
        self.partitions.last = at;
        Ok(Some(at))
    }

    /// Runs a partition's plan with its own queue of checks, and counts for it what was done.
    pub(super) fn at_target<R>(
        &mut self,
        at: usize,
        kind: DmlKind,
        run: impl FnOnce(&mut ModifyState, &ModifyPlan) -> Result<R>,
    ) -> Result<R> {
        let plan = self.partitions.list[at].plan.clone();
        self.firing.at = at;
        let (changed, conflicted) = (self.changed, self.conflicted);
        std::mem::swap(&mut self.queue, &mut self.partitions.list[at].queue);
        let done = run(self, &plan);
        std::mem::swap(&mut self.queue, &mut self.partitions.list[at].queue);
        let (changed, conflicted) = (self.changed - changed, self.conflicted - conflicted);
        let t = &mut self.partitions.list[at];
        match kind {
            DmlKind::Insert => {
                t.inserted += changed - conflicted;
                t.updated += conflicted;
            }
            DmlKind::Update => t.updated += changed,
            _ => t.deleted += changed,
        }
        done
    }

    fn destination(
        &mut self,
        table: PartitionedPlan<'_>,
        named: &[Datum],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<usize> {
        let PartitionedPlan { plan: m, .. } = table;
        let catalog = cx.catalog;
        let own = self.partitions.map.clone();
        let shared = if own.is_some() { None } else { catalog.shared_partitions(m.table.oid) };
        let Some(map) = own.as_ref().or_else(|| shared.map(|s| &s.map)) else {
            return Err(Error::internal("partitions are not known"));
        };
        let mut place = partition::route(table, map, named, None, rt, cx)?;
        let known = self.partitions.list.len();
        let at = loop {
            let at = self.target(table, place, cx)?;
            if let Some(at) = at {
                break at;
            }
            // The partition was detached or dropped while its lock was waited for, so the row is routed again.
            let (gone, now) = (place.oid, cx.txn.catalog_snapshot());
            let map = partition::map_at(m.table.oid, Some(&now), cx)?;
            place = partition::route(table, &map, named, Some(&now), rt, cx)?;
            if place.oid == gone {
                return Err(Error::new(sqlstate::UNDEFINED_TABLE, format!("relation with OID {gone} does not exist")));
            }
        };
        // Partitions may have been attached or detached while this one's lock was waited for.
        if self.partitions.list.len() > known && cx.catalog.is_stale() {
            let plan = self.partitions.list[at].plan.clone();
            self.partitions.map = Some(partition::route_again(table, &plan, named, rt, cx)?);
        }
        Ok(at)
    }

    /// Stores a row of the input in its partition, or keeps it back to be stored with others.
    pub(super) fn insert_routed(
        &mut self,
        table: PartitionedPlan<'_>,
        input: &[Datum],
        values: &mut Vec<Datum>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        if !Self::assign_row(table.plan, input, values, rt, cx)? {
            return Ok(());
        }
        write::check_belongs(table.plan, values, rt, cx)?;
        let at = self.destination(table, values, rt, cx)?;
        let target = &mut self.partitions.list[at];
        if let Some(columns) = &target.plan.columns {
            *values = columns.to_own(values);
        }
        match &target.plan.triggers {
            // BEFORE triggers may look for the rows before this one.
            Some(triggers) if triggers.has_before_row => self.store_kept(KeptRows::Store, rt, cx)?,
            Some(_) => {}
            None if self.partitions.keep_rows_back => {
                target.kept.append(values);
                target.kept_numbers.push(self.partitions.rows_seen);
                self.partitions.rows_kept += 1;
                return Ok(());
            }
            None => {}
        }
        let elsewhere = self.at_target(at, DmlKind::Insert, |state, plan| {
            if !state.fires_before_insert(plan, values, rt, cx)? {
                return Ok(None);
            }
            write::complete(plan, values, rt, cx)?;
            if plan.statement.conflict.is_some() {
                return state.upsert_values(plan, input, std::mem::take(values), rt, cx);
            }
            state.insert_one(plan, input, values, rt, cx).map(|()| None)
        })?;
        match elsewhere {
            Some(row) => self.update_elsewhere(table, at, row, input, rt, cx),
            None => Ok(()),
        }
    }

    /// ON CONFLICT DO UPDATE of a row in another partition than the new one's.
    fn update_elsewhere(
        &mut self,
        table: PartitionedPlan<'_>,
        at: usize,
        mut row: RowElsewhere,
        input: &[Datum],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        loop {
            cx.park.checkpoint()?;
            let known = self.partitions.list.iter().position(|t| t.is_of(row.heap));
            let to = match known {
                Some(known) => Some(known),
                None => match super::partition_scan::with_heap(&table.plan.table, row.heap, cx)? {
                    Some(place) => self.target(table, place, cx)?,
                    None => None,
                },
            };
            let from = self.partitions.list[at].plan.clone();
            match to {
                Some(to) if self.partitions.list[to].is_of(row.heap) => {
                    let done = self.at_target(to, DmlKind::Insert, |state, plan| {
                        let proposed = ProposedRow { plan: &from, values: &row.proposed, input };
                        state.on_conflict(plan, row.rid, proposed, rt, cx)
                    })?;
                    if done {
                        return Ok(());
                    }
                }
                // The row's partition was truncated or dropped, and the row with it.
                _ if cx.engine.relation(row.heap).is_err() => {}
                _ => {
                    refuse_pending(&table.plan.table, row.heap, cx)?;
                    return Err(Error::new(
                        sqlstate::SERIALIZATION_FAILURE,
                        "could not serialize access due to a concurrent change of partitions",
                    ));
                }
            }
            match self
                .at_target(at, DmlKind::Insert, |state, plan| state.upsert_values(plan, input, row.proposed, rt, cx))?
            {
                Some(again) => row = again,
                None => return Ok(()),
            }
        }
    }

    pub(super) fn insert_one(
        &mut self,
        plan: &ModifyPlan,
        input: &[Datum],
        values: &[Datum],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        write::encode(plan, values, &mut self.bytes)?;
        let rid = plan.heap()?.insert(cx.txn, &self.bytes)?;
        self.inserted(plan, StoredRow { rid, values, input }, rt, cx)
    }

    /// Fires the BEFORE INSERT triggers of a partition. False: the row is passed over.
    fn fires_before_insert(
        &mut self,
        plan: &ModifyPlan,
        values: &mut Vec<Datum>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        let Some(triggers) = &plan.triggers else { return Ok(true) };
        if !self.firing.before_row(plan, ProposedChange::Insert(values), rt, cx)? {
            return Ok(false);
        }
        // Copies of the partitioned table's triggers are checked by `before_row` itself.
        let own = triggers.list.iter().any(|t| t.trigger.parent == 0 && t.trigger.is(ROW | BEFORE | INSERT));
        if own && !partition::belongs(&plan.table, values, rt, cx)? {
            return Err(write::not_within_bounds(&plan.table, values, rt, cx));
        }
        Ok(true)
    }

    /// Ends a statement whose next row cannot be stored: an error in one of the rows that were kept comes first.
    fn end_kept(&mut self, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let what = if takes_rows_together(cx) { KeptRows::Check } else { KeptRows::Store };
        self.store_kept(what, rt, cx)
    }

    /// Stores the rows that were kept, a partition after the other. Of those with an error the statement's first raises
    /// it: once one has been found, the rows behind it do not matter.
    fn store_kept(&mut self, what: KeptRows, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        if std::mem::take(&mut self.partitions.rows_kept) == 0 {
            return Ok(());
        }
        let mut first: Option<(u64, RefusedRow)> = None;
        for at in 0..self.partitions.list.len() {
            let target = &mut self.partitions.list[at];
            if target.kept.is_empty() {
                continue;
            }
            let (mut kept, mut numbers) = (std::mem::take(&mut target.kept), std::mem::take(&mut target.kept_numbers));
            let wanted = first.as_ref().map_or(numbers.len(), |f| numbers.partition_point(|n| *n < f.0));
            let refused = self.at_target(at, DmlKind::Insert, |state, plan| {
                let width = plan.table.columns.len();
                state.store_rows(plan, (what, &mut kept[..wanted * width]), rt, cx)
            })?;
            if let Some(refused) = refused {
                first = Some((numbers[refused.row], refused));
            }
            kept.clear();
            numbers.clear();
            let target = &mut self.partitions.list[at];
            (target.kept, target.kept_numbers) = (kept, numbers);
            cx.park.checkpoint()?;
        }
        let Some((number, refused)) = first else { return Ok(()) };
        cx.concerns(RowPlace::Number(number), refused.is_stored);
        Err(refused.error)
    }

    /// Stores rows of a partition up to the first that has an error, or looks for that one.
    fn store_rows(
        &mut self,
        plan: &ModifyPlan,
        (what, kept): (KeptRows, &mut [Datum]),
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<Option<RefusedRow>> {
        let width = plan.table.columns.len().max(1);
        let mut s = std::mem::take(&mut self.scratch);
        let mut refused = None;
        for (chunk, rows) in kept.chunks_mut(width * BATCH_ROWS).enumerate() {
            s.rows.clear();
            s.rids.clear();
            for (n, values) in rows.chunks_mut(width).enumerate() {
                let start = s.rows.bytes.len();
                let made = write::complete(plan, values, rt, cx)
                    .and_then(|()| row::encode_row(&plan.stored_as.descriptor, values, &mut s.rows.bytes))
                    .and_then(|()| s.rows.end_row(RowId::default(), start));
                if let Err(e) = made {
                    refused = Some(RefusedRow { row: n, error: e, is_stored: false });
                    break;
                }
            }
            let stores = what == KeptRows::Store;
            if stores && (refused.is_none() || !takes_rows_together(cx)) {
                cx.engine.pace_bulk(s.rows.rows.len(), cx.park)?;
                plan.heap()?.insert_many(cx.txn, &s.rows, &mut s.rids)?;
                assert!(s.rids.len() == s.rows.rows.len(), "each row that is stored has its id");
                let new = write::NewRows { values: rows, width, rids: &s.rids };
                if let Some((n, index)) =
                    write::insert_entries_of(plan, new, &mut s.keys, &mut self.queue.twins, rt, cx)?
                {
                    let error = write::duplicate(plan, index, new.row(n), rt, cx);
                    refused = Some(RefusedRow { row: n, error, is_stored: true });
                }
            }
            if let Some(refused) = refused {
                self.scratch = s;
                return Ok(Some(RefusedRow { row: chunk * BATCH_ROWS + refused.row, ..refused }));
            }
            for (values, rid) in rows.chunks(width).zip(&s.rids) {
                self.has_inserted(plan, StoredRow { rid: *rid, values, input: &[] }, rt, cx)?;
            }
        }
        self.scratch = s;
        Ok(None)
    }

    /// The partition that all rows of a batch are in; None: several, or one that is gone.
    fn only_target(
        &mut self,
        table: PartitionedPlan<'_>,
        batch: &Batch,
        cx: &mut ExecContext<'_>,
    ) -> Result<Option<usize>> {
        let oid_of = |i: usize| match batch.row(i).get(table.routing.tableoid) {
            Some(Datum::Oid(oid)) => Some(*oid),
            _ => None,
        };
        let Some(first) = oid_of(0) else { return Ok(None) };
        if batch.rows < 2 || !(1..batch.rows).all(|i| oid_of(i) == Some(first)) {
            return Ok(None);
        }
        self.target(table, first, cx)
    }

    pub(super) fn target_of(
        &mut self,
        table: PartitionedPlan<'_>,
        input: &[Datum],
        cx: &mut ExecContext<'_>,
    ) -> Result<Option<usize>> {
        match input.get(table.routing.tableoid) {
            Some(Datum::Oid(oid)) => self.target(table, *oid, cx),
            _ => Ok(None),
        }
    }

    fn update_partitions(
        &mut self,
        table: PartitionedPlan<'_>,
        batch: &Batch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        if !table.routing.changes_key
            && let Some(at) = self.only_target(table, batch, cx)?
            && self.partitions.list[at].plan.at_once
            && self.partitions.list[at].plan.table.partition_of == table.plan.table.oid
        {
            return self.at_target(at, DmlKind::Update, |state, plan| state.update_batch(plan, batch, rt, cx));
        }
        for i in 0..batch.rows {
            let input = batch.row(i);
            let Some(at) = self.target_of(table, input, cx)? else { continue };
            if self.may_leave(table, at) {
                self.update_or_move(table, at, input.to_vec(), rt, cx)?;
            } else {
                self.at_target(at, DmlKind::Update, |state, plan| state.change(plan, input.to_vec(), rt, cx))?;
            }
        }
        Ok(())
    }

    fn delete_partitions(
        &mut self,
        table: PartitionedPlan<'_>,
        batch: &Batch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        if let Some(at) = self.only_target(table, batch, cx)?
            && self.partitions.list[at].plan.columns.is_none()
            && self.partitions.list[at].plan.triggers.is_none()
        {
            return self.at_target(at, DmlKind::Delete, |state, plan| state.delete_batch(plan, batch, rt, cx));
        }
        for i in 0..batch.rows {
            let input = batch.row(i);
            if let Some(at) = self.target_of(table, input, cx)? {
                self.at_target(at, DmlKind::Delete, |state, plan| state.change(plan, input.to_vec(), rt, cx))?;
            }
        }
        Ok(())
    }

    /// An UPDATE after which the row may belong to another partition.
    fn update_or_move(
        &mut self,
        table: PartitionedPlan<'_>,
        at: usize,
        input: Vec<Datum>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let plan = self.partitions.list[at].plan.clone();
        self.until_changed(&plan, input, rt, cx, |state, row, rt, cx| state.update_or_move_once(table, at, row, rt, cx))
    }

    pub(super) fn update_or_move_once(
        &mut self,
        table: PartitionedPlan<'_>,
        at: usize,
        row: &TargetRow,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<WriteOutcome> {
        let plan = self.partitions.list[at].plan.clone();
        let mut new = row.old.clone();
        assign(&plan, &row.input, &mut new, rt, cx)?;
        self.firing.at = at;
        if !self.firing.before_row(&plan, ProposedChange::Update(&row.old, &mut new), rt, cx)? {
            return Ok(WriteOutcome::Skipped);
        }
        let mut named = Vec::with_capacity(plan.named_width());
        plan.extend_named(&mut named, &new);
        write::check_belongs(table.plan, &named, rt, cx)?;
        let to_at = self.destination(table, &named, rt, cx)?;
        if to_at != at {
            return self.move_row(table.plan, RowMove { from: &plan, from_at: at, to_at, row, named }, rt, cx);
        }
        write::complete(&plan, &mut new, rt, cx)?;
        self.at_target(at, DmlKind::Update, |state, plan| state.update_to(plan, row, &new, rt, cx))
    }

    /// May an UPDATE have to move a row of that partition to another one?
    pub(super) fn may_leave(&self, table: PartitionedPlan<'_>, at: usize) -> bool {
        let target = &self.partitions.list[at];
        table.routing.changes_key
            || target.plan.table.partition_of != table.plan.table.oid
            || target.plan.triggers.as_ref().is_some_and(|t| t.may_change_row)
    }
    pub(super) fn plan_at(&self, at: usize) -> ModifyPlan {
        self.partitions.list[at].plan.clone()
    }

    /// Queues the checks of a moved row: for foreign keys that reference the named table it has changed, for those that
    /// reference the partition it has gone.
    fn note_move(
        &mut self,
        m: &ModifyPlan,
        movement: &RowMove<'_>,
        target: &ModifyPlan,
        new: &[Datum],
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let (from, old) = (movement.from, &movement.row.old);
        self.partitions.list[movement.from_at].queue.left_row(from, old);
        if !m.referenced_by.is_empty() {
            let (mut before, mut after) = (Vec::new(), Vec::new());
            from.extend_named(&mut before, old);
            target.extend_named(&mut after, new);
            self.queue.moved_row(m, &before, &after);
        }
        let mut above = from.table.partition_of;
        while above != m.table.oid && above != 0 {
            let Some(table) = cx.catalog.table_by_oid(above)? else { break };
            if table.referenced_by.iter().any(|key| key.part_of == 0) {
                return Err(Error::unsupported("cannot move tuple across partitions when a non-root ancestor of the source partition is directly referenced in a foreign key")
                    .with_detail(format!("A foreign key points to ancestor \"{}\" but not the root ancestor \"{}\".", table.name, m.table.name))
                    .with_hint(format!("Consider defining the foreign key on table \"{}\".", m.table.name)));
            }
            above = table.partition_of;
        }
        Ok(())
    }

    /// Deletes the row where it is and inserts it where it belongs.
    fn move_row(
        &mut self,
        m: &ModifyPlan,
        mut movement: RowMove<'_>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<WriteOutcome> {
        let target = self.partitions.list[movement.to_at].plan.clone();
        let named = std::mem::take(&mut movement.named);
        let mut new = match &target.columns {
            Some(columns) => columns.to_own(&named),
            None => named,
        };
        let (from, row) = (movement.from, movement.row);
        self.firing.at = movement.from_at;
        if !self.firing.before_row(from, ProposedChange::Delete(&row.old), rt, cx)? {
            return Ok(WriteOutcome::Skipped);
        }
        let outcome = self.delete_moved(from, row, rt, cx)?;
        if outcome != WriteOutcome::Done {
            return Ok(outcome);
        }
        self.partitions.list[movement.from_at].deleted += 1;
        let deleted = RowChange::deleted(&row.old);
        self.firing.queue_row(from, deleted, rt, cx)?;
        self.firing.capture(from, deleted.as_update(), cx)?;
        self.firing.at = movement.to_at;
        if !self.fires_before_insert(&target, &mut new, rt, cx)? {
            return Ok(WriteOutcome::Done);
        }
        write::complete(&target, &mut new, rt, cx)?;
        write::encode(&target, &new, &mut self.bytes)?;
        let rid = target.heap()?.insert(cx.txn, &self.bytes)?;
        let stored = StoredRow { rid, values: &new, input: &row.input };
        let queue = &mut self.partitions.list[movement.to_at].queue;
        if let Some(n) = write::insert_entries(&target, stored, None, &mut queue.twins, rt, cx)? {
            return Err(write::duplicate(&target, n, &new, rt, cx));
        }
        super::row_security::check_stored(&target, &new, rt, cx)?;
        queue.child_row(&target, &new);
        self.partitions.list[movement.to_at].inserted += 1;
        let inserted = RowChange::inserted(&new);
        self.firing.queue_row(&target, inserted, rt, cx)?;
        self.firing.capture(&target, inserted.as_update(), cx)?;
        self.note_move(m, &movement, &target, &new, cx)?;
        self.changed += 1;
        self.returning(&target, stored, rt, cx)?;
        Ok(WriteOutcome::Done)
    }

    fn delete_moved(
        &mut self,
        from: &ModifyPlan,
        row: &TargetRow,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<WriteOutcome> {
        let retired = super::inverted::RetiredEntries::of(from, &row.old, rt, cx)?;
        let options = WriteOptions { wait: WaitPolicy::Wait, latest: row.is_latest, key_update: true };
        let keys = retired.keys(from);
        let outcome = from.heap()?.delete_moved(cx.txn, row.rid, &keys, &options.with(&cx.snapshot, cx.park))?;
        if outcome == WriteOutcome::Done {
            retired.apply(from, row.rid, cx)?;
        }
        Ok(outcome)
    }
}

/// The row is in a partition that is being detached: its key is taken until that is done, but it is no row of the table
/// any more.
fn refuse_pending(named: &kilndb_catalog::Table, heap: RelationId, cx: &ExecContext<'_>) -> Result<()> {
    for partition in &cx.catalog.partition_map(named.oid)?.pending {
        if let Some(table) = cx.catalog.table_by_oid(partition.oid)?.filter(|t| t.storage == heap) {
            let message = format!("the row to update is in partition \"{}\", which is being detached", table.name);
            return Err(Error::new(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
        }
    }
    Ok(())
}
