//! SELECT … FOR UPDATE and its relatives.

use super::context::*;
use super::expr::Evaluate;
use super::scan::{self, LockFilter};
use super::state::{NodeState, UnaryInput};
use kilndb_base::{Result, RowId};
use kilndb_bind::ir::{LockStrength, LockWait};
use kilndb_catalog::temporary::is_temporary_row;
use kilndb_plan::{LockTarget, Op, RowRecheck, ScanOutput};
use kilndb_storage::{LockMode, RowLockMode, WaitPolicy, WriteOptions, WriteOutcome};
use kilndb_types::Datum;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

pub(crate) struct LockRowsState {
    pub unary: UnaryInput,
    bytes: Vec<u8>,
    /// A number that says how this statement looks for rows: it is the same for all that run this plan with the same
    /// parameters.
    token: Option<u64>,
    /// The statement looks for one row by its key: if that is gone, there is no next row that others would wait for.
    one_row: bool,
}

impl LockRowsState {
    pub fn new(mut unary: UnaryInput) -> LockRowsState {
        let node = unary.node.clone();
        if let (Op::LockRows { targets, early: true, .. }, NodeState::Scan(scan)) = (&node.op, &mut *unary.input)
            && let Some(t) = targets.first()
        {
            scan.pass_over(LockFilter { skip: (t.wait == LockWait::SkipLocked).then(|| mode_of(t.strength)) });
        }
        let input = match &node.op {
            Op::LockRows { input, .. } => Some(&input.op),
            _ => None,
        };
        let one_row = matches!(input, Some(Op::IndexScan { access, .. }) if access.unique_point);
        LockRowsState { unary, bytes: Vec::new(), token: None, one_row }
    }
    fn token(&mut self, rt: &RunState) -> u64 {
        if self.one_row {
            return 0;
        }
        *self.token.get_or_insert_with(|| {
            let mut hasher = foldhash::fast::FixedState::default().build_hasher();
            Arc::as_ptr(&self.unary.node).hash(&mut hasher);
            if !rt.params.is_empty() || !rt.exec_params.is_empty() {
                format!("{:?} {:?}", rt.params, rt.exec_params).hash(&mut hasher);
            }
            hasher.finish() | 1
        })
    }
    pub(crate) fn rescan(&mut self, rt: &mut RunState) {
        self.token = None;
        self.unary.rescan(rt);
    }
    pub fn next(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::LockRows { targets, recheck, .. } = &node.op else { return Ok(()) };
        while out.rows == 0 {
            if !self.unary.fill(out.max, rt, cx)? {
                cx.txn.pass_turn();
                break;
            }
            let token = self.token(rt);
            for i in 0..self.unary.buffer.rows {
                let mut row = self.unary.buffer.row(i).to_vec();
                let mut keep = true;
                let mut changed = false;
                for t in targets {
                    match self.lock(t, &mut row, token, cx)? {
                        LockOutcome::Yes => {}
                        LockOutcome::Changed => changed = true,
                        LockOutcome::Gone => {
                            keep = false;
                            break;
                        }
                    }
                }
                if keep && changed {
                    keep = judge_again(recheck, self.unary.buffer.row(i), &mut row, rt, cx)?;
                }
                if keep {
                    out.push(&row);
                }
            }
        }
        Ok(())
    }

    fn lock(&mut self, t: &LockTarget, row: &mut [Datum], token: u64, cx: &mut ExecContext<'_>) -> Result<LockOutcome> {
        // A row that an outer join filled with NULLs has nothing to lock.
        let Some(Datum::Tid(block, slot)) = row.get(t.ctid) else { return Ok(LockOutcome::Yes) };
        let rid = RowId { block: *block, slot: *slot };
        if t.table.is_catalog && is_temporary_row(rid) {
            return Ok(LockOutcome::Yes);
        }
        let mode = mode_of(t.strength);
        let wait = match t.wait {
            LockWait::Wait => WaitPolicy::Wait,
            LockWait::NoWait => WaitPolicy::NoWait,
            LockWait::SkipLocked => WaitPolicy::SkipLocked,
        };
        let mut options = WriteOptions { wait, latest: false, key_update: false };
        let mut changed = false;
        let leaf = match t.tableoid.and_then(|slot| row.get(slot)) {
            Some(Datum::Oid(partition)) => {
                let Some(leaf) = super::partition::open(&t.table, *partition, LockMode::RowShare, cx)? else {
                    return Ok(LockOutcome::Gone);
                };
                Some(leaf)
            }
            _ => None,
        };
        let (heap, table) = match (&leaf, &t.heap) {
            (Some(leaf), _) => (&leaf.heap, &leaf.table),
            (None, Some(heap)) => (heap, &t.table),
            (None, None) => return Err(kilndb_base::Error::internal("a partitioned table has no rows of its own")),
        };
        loop {
            cx.txn.look_alike(token);
            let outcome = heap.lock_row(cx.txn, rid, mode, &options.with(&cx.snapshot, cx.park));
            cx.txn.look_alike(0);
            let outcome = outcome.map_err(|e| name_it(e, t, table))?;
            match outcome {
                WriteOutcome::Done => return Ok(if changed { LockOutcome::Changed } else { LockOutcome::Yes }),
                WriteOutcome::SelfModified => return Ok(LockOutcome::Yes),
                WriteOutcome::Deleted | WriteOutcome::Skipped => return Ok(LockOutcome::Gone),
                WriteOutcome::Changed => {
                    if !heap.fetch_latest(cx.txn, rid, &mut self.bytes)? {
                        return Ok(LockOutcome::Gone);
                    }
                    let mut values = Vec::new();
                    scan::decode_all(table, &self.bytes, &mut values)?;
                    if let Some(columns) = leaf.as_ref().and_then(|leaf| leaf.columns.as_ref()) {
                        values = columns.to_named(&values);
                    }
                    for (slot, o) in &t.columns {
                        if let ScanOutput::Column(c) = o {
                            row[*slot] = values.get(*c).cloned().unwrap_or_default();
                        }
                    }
                    changed = true;
                    options.latest = true;
                }
            }
        }
    }
}

fn mode_of(strength: LockStrength) -> RowLockMode {
    match strength {
        LockStrength::KeyShare => RowLockMode::KeyShare,
        LockStrength::Share => RowLockMode::Share,
        LockStrength::NoKeyUpdate => RowLockMode::NoKeyUpdate,
        LockStrength::Update => RowLockMode::Update,
    }
}

/// Does a joined row still belong to the result after one of its tables' rows has changed since it was `seen`? Columns
/// that an outer join added become NULL where its condition no longer holds.
pub(crate) fn judge_again(
    recheck: &RowRecheck,
    seen: &[Datum],
    row: &mut [Datum],
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<bool> {
    if let Some(security) = &recheck.security
        && !security.is_true(row, rt, cx)?
    {
        return Ok(false);
    }
    for (slots, condition) in &recheck.semi {
        if slots.iter().any(|slot| !identical(seen.get(*slot), row.get(*slot))) && !condition.is_true(row, rt, cx)? {
            return Ok(false);
        }
    }
    for (condition, slots) in &recheck.outer {
        if !condition.is_true(row, rt, cx)? {
            slots.iter().for_each(|slot| row[*slot] = Datum::Null);
        }
    }
    match &recheck.filter {
        Some(e) => e.is_true(row, rt, cx),
        None => Ok(true),
    }
}

/// Have two values the same form? Values that are equal but look different (1.0 and 1.00) may count as a change.
fn identical(a: Option<&Datum>, b: Option<&Datum>) -> bool {
    format!("{a:?}") == format!("{b:?}")
}

enum LockOutcome {
    Yes,
    Changed,
    Gone,
}

/// Adds the table's name to error 55P03 (lock not available), as PostgreSQL does.
fn name_it(e: kilndb_base::Error, t: &LockTarget, table: &kilndb_catalog::Table) -> kilndb_base::Error {
    let mut e = e;
    if e.sqlstate() == kilndb_base::sqlstate::LOCK_NOT_AVAILABLE && t.wait == LockWait::NoWait {
        e.0.message = format!("could not obtain lock on row in relation \"{}\"", table.name);
    }
    e
}
