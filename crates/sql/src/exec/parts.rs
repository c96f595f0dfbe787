//! A whole table read by several threads.
//!
//! The session and its helpers take the blocks of the table from one counter. What runs beside the session has a
//! [`Runtime`] and an [`ExecContext`] of its own, without catalogs, session and client: the planner gives only expressions here
//! that need none of these.
//!
//! Invariants
//! 1. All read with one snapshot, so that which of them reads a row does not matter.
//! 2. While there are parts, nothing is spilled: a part that has no more room ends, and the session goes on alone with the
//!    rest of the table once it has taken in the others'.
//!
//! Must not know: what is aggregated.

use super::routine::TransactionSlot;
use super::aggregate::{AggregateState, has_parts};
use super::context::*;
use super::scan::ScanState;
use super::spill::TempSpace;
use super::state::State;
use crate::catalog::CatalogView;
use crate::catalog::model::{CastInfo, FunctionInfo, OperatorInfo, OrderingOperators, Table, TypeInfo};
use crate::helpers::{HelperPark, HelperPool};
use crate::plan::{Op, Plan};
use crate::stats::Usage;
use kilndb_base::{Error, Oid, Result};
use kilndb_storage::{Engine, Isolation, Relation, Snapshot};
use kilndb_types::context::NoHost;
use kilndb_types::{Datum, EvalContext, FormatSettings};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Smaller tables are read before a helper has begun.
const BLOCKS_MIN: u32 = 1024;
/// Blocks that are counted between two looks at the counter.
const BLOCKS_AT_ONCE: u32 = 16;

/// What a helper needs of the statement.
struct Orders {
    engine: Arc<Engine>,
    snapshot: Snapshot,
    plan: Arc<Plan>,
    params: Vec<Datum>,
    exec_params: Vec<Datum>,
    format: FormatSettings,
    transaction_timestamp: i64,
    statement_timestamp: i64,
    work_mem_bytes: usize,
    hash_mem_bytes: usize,
    temp: TempSpace,
    /// Rows that helpers have read.
    read: Arc<AtomicU64>,
}

impl Orders {
    fn of(rt: &Runtime, cx: &ExecContext<'_>) -> Orders {
        Orders {
            engine: cx.engine.clone(),
            snapshot: cx.snapshot.clone(),
            plan: rt.plan.clone(),
            params: rt.params.clone(),
            exec_params: rt.exec_params.clone(),
            format: cx.eval.format.clone(),
            transaction_timestamp: cx.eval.transaction_timestamp,
            statement_timestamp: cx.eval.statement_timestamp,
            work_mem_bytes: cx.work_mem_bytes,
            hash_mem_bytes: cx.hash_mem_bytes,
            temp: cx.temp.clone(),
            read: Arc::default(),
        }
    }

    fn carry_out<R>(&self, park: &HelperPark, work: impl FnOnce(&mut Runtime, &mut ExecContext<'_>) -> Result<R>) -> Result<R> {
        let mut rt = Runtime::new(self.plan.clone(), &self.params);
        rt.exec_params.clone_from(&self.exec_params);
        // Never writes and takes no snapshot: it is there to be asked what it has done, which is nothing.
        let mut txn = TransactionSlot::new(self.engine.begin(Isolation::ReadCommitted, 0));
        let random_state = Cell::new([1, 2]);
        let mut pending = PendingChecks::default();
        let mut usage = Usage::default();
        let mut cx = ExecContext {
            engine: &self.engine,
            txn: &mut txn,
            snapshot: self.snapshot.clone(),
            park,
            eval: EvalContext {
                format: &self.format,
                transaction_timestamp: self.transaction_timestamp,
                statement_timestamp: self.statement_timestamp,
                host: &NoHost,
                random_state: &random_state,
            },
            catalog: &Nobody,
            session: &Nobody,
            work_mem_bytes: self.work_mem_bytes,
            hash_mem_bytes: self.hash_mem_bytes,
            temp: &self.temp,
            source: None,
            pending: &mut pending,
            helpers: None,
            usage: &mut usage,
            routines: None,
        };
        let done = work(&mut rt, &mut cx);
        drop(cx);
        self.read.fetch_add(usage.rows_read(), Ordering::Relaxed);
        txn.rollback(park)?;
        done
    }
}

/// The pool to take helpers from, and how many, if the table is worth it.
fn helpers<'a>(heap: &Relation, rt: &Runtime, cx: &ExecContext<'a>) -> Option<(&'a Arc<HelperPool>, usize)> {
    // Times and rows of EXPLAIN ANALYZE are counted in one place; read locks of SERIALIZABLE belong to one transaction.
    let alone = rt.counters.is_some() || cx.txn.isolation() == Isolation::Serializable || heap.pages() < BLOCKS_MIN;
    cx.helpers.filter(|(_, most)| *most > 0 && !alone)
}

/// Aggregates a whole table together with helpers, if the plan allows and there are some. What is left of the table afterwards is
/// read by `state` alone: mostly nothing.
pub fn aggregate(state: &mut AggregateState, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<()> {
    let node = state.unary.node.clone();
    let Op::Aggregate { input, aggs, in_parts: true, .. } = &node.op else { return Ok(()) };
    let Op::SeqScan(scan) = &input.op else { return Ok(()) };
    let State::Scan(own) = &mut *state.unary.input else { return Ok(()) };
    let Some(heap) = &scan.heap else { return Ok(()) };
    let Some((pool, most)) = helpers(heap, rt, cx).filter(|_| aggs.iter().all(has_parts)) else { return Ok(()) };
    let blocks = Arc::new(AtomicU32::new(0));
    own.share(blocks.clone());
    let (orders, input, of) = (Orders::of(rt, cx), input.clone(), node.clone());
    let read = orders.read.clone();
    let team = pool.start(most, cx.park.wake_handle(), move |park| {
        orders.carry_out(park, |rt, cx| {
            let mut scan = ScanState::new(&input);
            scan.share(blocks.clone());
            AggregateState::of_part(&of, State::Scan(Box::new(scan)), rt, cx)
        })
    });
    let Some(team) = team else { return Ok(()) };
    state.collect_part(rt, cx)?;
    for part in team.finish(cx.park)? {
        state.absorb(part, cx)?;
    }
    cx.usage.scanned(scan.table.oid, 0, read.load(Ordering::Relaxed), 0);
    Ok(())
}

/// The number of a table's rows, counted together with helpers.
pub fn count(heap: &Arc<Relation>, rt: &Runtime, cx: &mut ExecContext<'_>) -> Result<i64> {
    let blocks = Arc::new(AtomicU32::new(0));
    let team = helpers(heap, rt, cx).and_then(|(pool, most)| {
        let (heap, snapshot, blocks) = (heap.clone(), cx.snapshot.clone(), blocks.clone());
        pool.start(most, cx.park.wake_handle(), move |park| count_part(&heap, &snapshot, &blocks, park))
    });
    let mut total = count_part(heap, &cx.snapshot, &blocks, cx.park)?;
    if let Some(team) = team {
        total += team.finish(cx.park)?.into_iter().sum::<i64>();
    }
    Ok(total)
}

fn count_part(heap: &Relation, snapshot: &Snapshot, blocks: &AtomicU32, park: &dyn kilndb_base::park::Park) -> Result<i64> {
    let mut total = 0;
    loop {
        let first = blocks.fetch_add(BLOCKS_AT_ONCE, Ordering::Relaxed);
        let end = heap.pages().min(first.saturating_add(BLOCKS_AT_ONCE));
        if first >= end {
            return Ok(total);
        }
        for block in first..end {
            total += i64::from(heap.count_block(block, snapshot)?);
        }
        park.checkpoint()?;
    }
}

/// Stands where a helper has no catalogs and no session. Expressions that would ask are not given to helpers.
pub(crate) struct Nobody;

fn not_here<T>() -> Result<T> {
    Err(Error::internal("a helper thread has no session"))
}

impl CatalogView for Nobody {
    fn table_by_name(&self, _: Option<&str>, _: &str) -> Result<Option<Arc<Table>>> {
        not_here()
    }
    fn table_by_oid(&self, _: Oid) -> Result<Option<Arc<Table>>> {
        not_here()
    }
    fn schema_exists(&self, _: &str) -> Result<bool> {
        not_here()
    }
    fn type_by_name(&self, _: Option<&str>, _: &str) -> Result<Option<Arc<TypeInfo>>> {
        not_here()
    }
    fn type_by_oid(&self, _: Oid) -> Result<Option<Arc<TypeInfo>>> {
        not_here()
    }
    fn functions(&self, _: Option<&str>, _: &str) -> Result<Vec<Arc<FunctionInfo>>> {
        not_here()
    }
    fn function_by_oid(&self, _: Oid) -> Result<Option<Arc<FunctionInfo>>> {
        not_here()
    }
    fn operators(&self, _: Option<&str>, _: &str) -> Result<Vec<Arc<OperatorInfo>>> {
        not_here()
    }
    fn operator_by_oid(&self, _: Oid) -> Result<Option<Arc<OperatorInfo>>> {
        not_here()
    }
    fn cast(&self, _: Oid, _: Oid) -> Result<Option<CastInfo>> {
        not_here()
    }
    fn ordering_operators(&self, _: Oid) -> Result<Option<OrderingOperators>> {
        not_here()
    }
    fn btree_strategy(&self, _: Oid) -> Result<Option<u8>> {
        not_here()
    }
    fn format_type(&self, oid: Oid, _: i32) -> String {
        oid.to_string()
    }
    fn schema_name_of(&self, _: Oid) -> Option<String> {
        None
    }
    fn current_schema(&self) -> Option<String> {
        None
    }
}

impl SessionHost for Nobody {
    fn call_session_function(&self, _: Oid, _: &str, _: &[Datum], _: &mut CallEnv<'_>) -> Option<Result<Datum>> {
        None
    }
    fn call_set_returning(&self, _: Oid, _: &str, _: &[Datum], _: &mut CallEnv<'_>) -> Option<Result<Vec<Vec<Datum>>>> {
        None
    }
    fn current_user(&self) -> String {
        String::new()
    }
    fn session_user(&self) -> String {
        String::new()
    }
    fn current_database(&self) -> String {
        String::new()
    }
    fn current_schema(&self) -> Option<String> {
        None
    }
}
