//! Hash joins of rows that come as columns, and leave as columns.
//!
//! The build side is kept as columns, of which only those that somebody uses. A batch of the probe side is joined in
//! pieces: pairs of rows with equal keys are listed, the join's condition is asked of all pairs of a piece at once, and
//! then the used columns of those that are left are gathered. If the build side does not fit, the join goes on with rows,
//! in partitions ([`super`]).
//!
//! Invariants
//! 1. Rows leave in the order of the probe side, unmatched ones among them.
//! 2. Behind a row's pairs stands an end in the list, if the kind of join asks whether the row has found a partner.

use super::{HashJoinState, ProbePartitions, SpilledBuild, keeps_table, keeps_unmatched, needs_probe};
use crate::columns::{ColumnBatch, ColumnInput, pointed_bytes, row_of};
use crate::context::*;
use crate::expr::Evaluate;
use crate::hash_table::{HashTable, NONE};
use crate::key_index::{KeyBatch, KeyIndex, long_key_bytes};
use crate::state::NodeState;
use crate::vector_program::ProgramState;
use kilndb_base::{Error, Oid, Result};
use kilndb_bind::ir::JoinKind;
use kilndb_plan::expression::Expression;
use kilndb_plan::program::{JoinProgram, Program};
use kilndb_plan::{Op, PlanNode};
use kilndb_spill::KeyFilter;
use kilndb_types::Datum;
use kilndb_types::vector::{NO_ROW, Rows, Vector};
use std::sync::Arc;

/// A piece ends with the row that reaches so many pairs, or in the midst of its pairs, if they alone are as many again.
const PIECE_PAIRS: usize = 2048;
/// Stands in place of a build row behind the pairs of a probe row.
const END: u32 = u32::MAX - 1;

/// The build side. It does not change once it is whole, and several threads may read it.
#[derive(Default)]
struct ColumnTable {
    columns: Vec<Vector>,
    index: KeyIndex,
    next_row: Vec<u32>,
    /// Has a key more than one row? If not, nobody looks at `next_row`, which is in no cache.
    has_equal_keys: bool,
    /// What long keys take, and what values point to.
    other_bytes: usize,
}

/// What threads share that join parts of the probe side with one build side.
#[derive(Clone)]
pub(crate) struct SharedBuild {
    table: Arc<ColumnTable>,
    used: (Vec<bool>, Vec<bool>),
    /// A row of the probe side has no more pairs than these.
    pub pairs_max: u64,
}

#[derive(Default)]
pub(super) struct JoinColumns {
    is_started: bool,
    table: Arc<ColumnTable>,
    /// Which rows of the table have found a partner, if that is asked for.
    matched: Vec<bool>,
    input: ColumnInput,
    keys: ProgramState,
    on: ProgramState,
    /// By column of the probe side, and of the build side: is it used?
    used: (Vec<bool>, Vec<bool>),
    /// The next row of the input's list, and the next row of the table that has its key, once that has been looked up.
    next: usize,
    chain: Option<u32>,
    /// Has the row at hand found a partner?
    has_partner: bool,
    is_input_done: bool,
    /// Rows of the table that have been looked at for a partner at the end.
    tail: usize,
    pairs: Vec<(u32, u32)>,
    kept: PairLists,
    /// The keys of the input's list, and for each the first row of the table that has it.
    key_batch: KeyBatch,
    first: Vec<u32>,
    /// The pairs' columns that the condition uses.
    pair_columns: Vec<Vector>,
    passed: Vec<u32>,
    /// The build side did not fit.
    goes_by_rows: bool,
    rows: Batch,
}

/// The rows of both sides that leave together.
#[derive(Default)]
struct PairLists {
    probe: Vec<u32>,
    build: Vec<u32>,
}

impl PairLists {
    fn clear(&mut self) {
        self.probe.clear();
        self.build.clear();
    }
    fn push(&mut self, probe: u32, build: u32) {
        self.probe.push(probe);
        self.build.push(build);
    }
}

/// The keys of rows, computed at once or, where that fails, for one row after the other.
struct BatchKeys<'a> {
    program: &'a Program,
    exprs: &'a [Expression],
    types: &'a [Oid],
    is_used: &'a [bool],
}

impl BatchKeys<'_> {
    /// Computes all keys of a batch. False: it fails for a row, which has to be found.
    fn compute(
        &self,
        state: &mut ProgramState,
        batch: &mut ColumnBatch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        let (columns, rows) = batch.parts();
        state.run(self.program, columns, rows, rt, cx)
    }
    /// The keys of rows, written to `out`; a row with NULL in it has none.
    fn write(&self, state: &ProgramState, columns: &[Vector], rows: Rows<'_>, out: &mut KeyBatch) -> Result<()> {
        out.clear();
        let of_key: Vec<(&Vector, Oid)> =
            self.program.results.iter().zip(self.types).map(|(at, ty)| (state.result(columns, *at), *ty)).collect();
        rows.try_each(|row| {
            if of_key.iter().any(|(value, _)| value.is_null(row)) {
                out.push_none();
                return Ok(());
            }
            out.push(None, &of_key, row)
        })
    }
    /// Evaluates the keys of rows up to the one that fails.
    fn fail(&self, batch: &mut ColumnBatch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let (columns, rows) = batch.parts();
        let mut values = Vec::new();
        rows.try_each(|row| {
            row_of(columns, self.is_used, row, &mut values)?;
            self.exprs.iter().try_for_each(|e| e.eval(&values, rt, cx).map(drop))
        })?;
        Err(Error::internal("a key that fails for no row"))
    }
}

impl ColumnTable {
    fn bytes(&self) -> usize {
        self.other_bytes
            + self.index.slot_bytes()
            + self.next_row.len() * 5
            + self.columns.iter().map(Vector::heap_bytes).sum::<usize>()
    }
    fn count(&self) -> usize {
        self.next_row.len()
    }
    /// The number of rows that the most frequent key has.
    fn longest_chain(&self) -> u32 {
        if !self.has_equal_keys {
            return 1;
        }
        // Rows of a key are chained to earlier ones.
        let mut lengths: Vec<u32> = Vec::with_capacity(self.count());
        for next in &self.next_row {
            lengths.push(lengths.get(*next as usize).map_or(1, |length| length + 1));
        }
        lengths.into_iter().max().unwrap_or(0)
    }
    /// Appends a row without its columns, unless one of each key is enough and there is one. A row that has no key has no partner.
    /// False: it was left out.
    fn push(&mut self, keys: &KeyBatch, at: usize, one_of_key: bool) -> bool {
        let mut next = NONE;
        self.index.fetch_ahead(keys, at);
        if !keys.is_none(at) {
            if one_of_key && self.index.get_of(keys, at).is_some() {
                return false;
            }
            match self.index.insert_of(keys, at, self.next_row.len() as u32) {
                Some(first) => {
                    next = first;
                    self.has_equal_keys = true;
                }
                None => self.other_bytes += long_key_bytes(keys.bytes(at, &mut [0; 16]).len()),
            }
        }
        self.next_row.push(next);
        true
    }
}

/// The columns of pairs, those of the probe side first.
fn gather(
    (columns, is_used): (&mut [Vector], &[bool]),
    (input, table): (&[Vector], &[Vector]),
    lists: &PairLists,
) -> Result<()> {
    let of_probe = input.len();
    for (at, (vector, _)) in columns.iter_mut().zip(is_used).enumerate().filter(|(_, (_, is_used))| **is_used) {
        match at.checked_sub(of_probe) {
            None => vector.gather(&input[at], &lists.probe)?,
            Some(of_build) => vector.gather(&table[of_build], &lists.build)?,
        }
    }
    Ok(())
}

fn column_program(node: &PlanNode) -> Option<&JoinProgram> {
    let Op::HashJoin { probe_keys, build_keys, on, program, .. } = &node.op else { return None };
    program.of(probe_keys, build_keys, on.as_deref())
}

/// Takes rows out of the probe side that have no partner, on any thread.
struct ProbeSieve {
    node: Arc<PlanNode>,
    is_used: Vec<bool>,
    /// The keys of the build side, and maybe others.
    filter: KeyFilter,
}

impl ProbeSieve {
    /// The next rows of the probe side, without most of those that have no partner. False: there are no more.
    fn fill(
        &self,
        probe: &mut NodeState,
        batch: &mut ColumnBatch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        let mut input = ColumnInput::of_batch(batch);
        let is_filled = input.fill(probe, &self.is_used, rt, cx);
        *batch = input.batch;
        if !is_filled? {
            return Ok(false);
        }
        let mut keys = KeyBatch::default();
        keys_of_probe(&self.node, &self.is_used, batch, &mut keys, rt, cx)?;
        let (mut short, mut at) = ([0; 16], 0..);
        let has_partner = |_: &&u32| {
            let at = at.next().unwrap_or(0);
            !keys.is_none(at) && self.filter.may_have_key(keys.bytes(at, &mut short))
        };
        let mut list = batch.list().iter().filter(has_partner).copied().collect();
        let positions = batch.rows().positions();
        batch.take_rows(&mut list, positions);
        Ok(true)
    }
}

/// The keys of rows of the probe side.
fn keys_of_probe(
    node: &PlanNode,
    is_used: &[bool],
    batch: &mut ColumnBatch,
    out: &mut KeyBatch,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<()> {
    let (Op::HashJoin { probe_keys, types, .. }, Some(program)) = (&node.op, column_program(node)) else {
        return Err(Error::internal("keys are asked of a join that has no program"));
    };
    let keys = BatchKeys { program: &program.probe_keys, exprs: probe_keys, types, is_used };
    let mut state = ProgramState::default();
    if !keys.compute(&mut state, batch, rt, cx)? {
        return keys.fail(batch, rt, cx);
    }
    keys.write(&state, &batch.columns, batch.rows(), out)
}

impl HashJoinState {
    /// Can it hand on its rows as columns? It can whatever its probe side has once it has begun to.
    pub fn has_columns(&self) -> bool {
        self.columns.is_some() || self.probe.has_columns() && self.may_have_columns()
    }
    /// Has it begun to hand on columns? It hands on no rows then.
    pub fn has_begun_columns(&self) -> bool {
        self.columns.is_some()
    }
    /// Can it hand on its rows as columns, if this is wanted though its probe side has none?
    pub fn may_have_columns(&self) -> bool {
        column_program(&self.node).is_some()
    }

    /// Reads the build side, for a join of which only the columns in `is_used` are there. Returns what threads need that are to
    /// join parts of the probe side. None: it is joined in another way than by columns that are in memory, or has no row.
    pub fn share_build(
        &mut self,
        is_used: &[bool],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<Option<SharedBuild>> {
        let node = self.node.clone();
        let Op::HashJoin { kind, .. } = &node.op else { return Ok(None) };
        let Some(program) = column_program(&node).filter(|_| !keeps_table(*kind)) else { return Ok(None) };
        let mut state = self.columns.take().unwrap_or_default();
        state.is_started = true;
        let begun = rt.counters.is_some().then(MeasureStart::now);
        let done = self.start_columns(&node, program, &mut state, is_used, rt, cx);
        if let Some(begun) = begun {
            rt.count_rows(node.id, 0, &begun);
        }
        let has_one_pair = matches!(kind, JoinKind::Semi | JoinKind::Anti);
        let pairs_max = if has_one_pair { 1 } else { u64::from(state.table.longest_chain()) };
        let shared = SharedBuild { table: state.table.clone(), used: state.used.clone(), pairs_max };
        let is_shared = !state.goes_by_rows && (needs_probe(*kind) || state.table.count() > 0);
        self.columns = Some(state);
        done.map(|()| is_shared.then_some(shared))
    }
    /// Joins what `probe` has with a build side that was read before.
    pub fn with_shared(mut self, probe: NodeState, build: SharedBuild) -> HashJoinState {
        self.probe = probe;
        self.started = true;
        let SharedBuild { table, used, .. } = build;
        self.columns = Some(Box::new(JoinColumns { is_started: true, table, used, ..JoinColumns::default() }));
        self
    }
    /// The columns of the probe side that are used, once the build side has been read.
    pub fn used_of_probe(&self) -> &[bool] {
        self.columns.as_ref().map_or(&[], |columns| &columns.used.0)
    }
    /// The probe side.
    pub fn probe(&mut self) -> &mut NodeState {
        &mut self.probe
    }
    /// The probe side may have more rows after it had none.
    pub fn go_on(&mut self) {
        self.probe_done = false;
        if let Some(columns) = &mut self.columns {
            columns.is_input_done = false;
        }
    }

    /// The next rows as columns, of which only those in `is_used` are there. No row: there are no more.
    pub fn next_columns(
        &mut self,
        out: &mut ColumnBatch,
        is_used: &[bool],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let node = self.node.clone();
        let mut state = self.columns.take().unwrap_or_default();
        let done = self.joined_columns(&node, &mut state, (out, is_used), rt, cx);
        self.columns = Some(state);
        done
    }

    fn joined_columns(
        &mut self,
        node: &Arc<PlanNode>,
        state: &mut JoinColumns,
        (out, is_used): (&mut ColumnBatch, &[bool]),
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let Op::HashJoin { kind, .. } = &node.op else { return Ok(()) };
        let Some(program) = column_program(node) else {
            return Err(Error::internal("columns are asked of a join that has rows"));
        };
        out.clear();
        if !state.is_started {
            state.is_started = true;
            self.start_columns(node, program, state, is_used, rt, cx)?;
        }
        if state.goes_by_rows {
            state.rows.start(is_used.len());
            self.next(&mut state.rows, rt, cx)?;
            out.take_values(&mut state.rows, is_used);
            return Ok(());
        }
        loop {
            state.kept.clear();
            if !self.next_piece(node, program, state, rt, cx)? {
                if keeps_table(*kind) {
                    state.list_unmatched();
                }
                if state.kept.probe.is_empty() {
                    self.report_memory(state, rt);
                    return Ok(());
                }
            }
            if !state.kept.probe.is_empty() {
                break;
            }
            cx.park.step()?;
        }
        out.start(state.kept.probe.len(), is_used.len());
        let input = &state.input.batch.columns;
        // Before its first row the probe side has no columns.
        let of_probe = state.used.0.len();
        let none = vec![Vector::constant(Datum::Null); if input.is_empty() { of_probe } else { 0 }];
        let input = if input.is_empty() { &none } else { input };
        gather((&mut out.columns, is_used), (input, &state.table.columns), &state.kept)
    }

    fn report_memory(&mut self, state: &JoinColumns, rt: &mut RunState) {
        let memory = self.peak_bytes.max(state.table.bytes()) as u64;
        rt.report(self.node.id, NodeReport::Hash { batches: 1, memory, disk: 0 });
    }

    /// Reads the build side. If it does not fit, both sides go to partitions.
    fn start_columns(
        &mut self,
        node: &Arc<PlanNode>,
        program: &JoinProgram,
        state: &mut JoinColumns,
        is_used: &[bool],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let Op::HashJoin { probe, build_keys, types, kind, on, .. } = &node.op else { return Ok(()) };
        // Rows with the same key are asked nothing else: who has one partner has them all.
        let one_of_key = matches!(kind, JoinKind::Semi | JoinKind::Anti) && on.is_none();
        let mut used = is_used.to_vec();
        program.on.iter().flat_map(|on| &on.columns).for_each(|column| used[*column] = true);
        let mut of_build = used.split_off(probe.width);
        program.probe_keys.columns.iter().for_each(|column| used[*column] = true);
        program.build_keys.columns.iter().for_each(|column| of_build[*column] = true);
        let keys = BatchKeys { program: &program.build_keys, exprs: build_keys, types, is_used: &of_build };
        let columns = of_build.iter().map(|_| Vector::default()).collect();
        let mut table = ColumnTable { columns, ..ColumnTable::default() };
        let mut input = ColumnInput::default();
        input.begin_morsels((&mut self.build, node.id), &of_build, rt, cx)?;
        let mut is_full = false;
        while !is_full && input.fill(&mut self.build, &of_build, rt, cx)? {
            if !keys.compute(&mut state.keys, &mut input.batch, rt, cx)? {
                return keys.fail(&mut input.batch, rt, cx);
            }
            let (columns, rows) = input.batch.parts();
            keys.write(&state.keys, columns, rows, &mut state.key_batch)?;
            let (mut with_key, mut at) = (Vec::with_capacity(rows.len()), 0);
            rows.each(|row| {
                let is_wanted = !state.key_batch.is_none(at) || keeps_table(*kind);
                if is_wanted && table.push(&state.key_batch, at, one_of_key) {
                    with_key.push(row as u32);
                }
                at += 1;
            });
            let rows = Rows::Listed(&with_key, rows.positions());
            for ((column, from), is_used) in table.columns.iter_mut().zip(&*columns).zip(&of_build) {
                if *is_used {
                    column.extend(from, rows)?;
                    table.other_bytes += pointed_bytes(column, rows.len());
                }
            }
            is_full =
                table.bytes() > cx.hash_mem_bytes && table.count() > 1 || table.count() >= END as usize - BATCH_ROWS;
        }
        (self.started, self.batches) = (true, 1);
        self.peak_bytes = table.bytes();
        if is_full {
            state.goes_by_rows = true;
            self.go_on_with_rows(table, (&mut input, &of_build), &used, rt, cx)?;
        } else {
            if keeps_table(*kind) {
                state.matched = vec![false; table.count()];
            }
            state.table = Arc::new(table);
        }
        state.used = (used, of_build);
        Ok(())
    }

    /// Goes on as a join of rows, with those of the table and those that the build side still has: they come as columns, as
    /// the ones before, and so do those of the probe side.
    fn go_on_with_rows(
        &mut self,
        table: ColumnTable,
        (input, of_build): (&mut ColumnInput, &[bool]),
        of_probe: &[bool],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let node = self.node.clone();
        self.table = HashTable::new(of_build.len());
        let (mut parts, mut row) = (None, Vec::new());
        for at in 0..table.count() {
            row_of(&table.columns, of_build, at, &mut row)?;
            self.add_build_row(&node, &mut row, &mut parts, rt, cx)?;
        }
        drop(table);
        while input.fill(&mut self.build, of_build, rt, cx)? {
            let (columns, rows) = input.batch.parts();
            rows.try_each(|position| {
                row_of(columns, of_build, position, &mut row)?;
                self.add_build_row(&node, &mut row, &mut parts, rt, cx)
            })?;
        }
        self.finish_table();
        match parts {
            Some(build) => self.partition_probe_columns(&node, build, of_probe, rt, cx),
            None => Ok(()),
        }
    }

    /// As `partition_probe`, of rows that come as columns. Several threads take out those that have no partner, if these do not
    /// belong to the result.
    fn partition_probe_columns(
        &mut self,
        node: &Arc<PlanNode>,
        build: SpilledBuild,
        is_used: &[bool],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let Op::HashJoin { kind, .. } = &node.op else { return Ok(()) };
        let SpilledBuild { parts: build, filter } = build;
        let mut input = ColumnInput::default();
        let is_complete = keeps_unmatched(*kind);
        let sieve = Arc::new(ProbeSieve { node: node.clone(), is_used: is_used.to_vec(), filter });
        if !is_complete {
            let shared = sieve.clone();
            let fill = move |probe: &mut NodeState,
                             batch: &mut ColumnBatch,
                             rt: &mut RunState,
                             cx: &mut ExecContext<'_>| shared.fill(probe, batch, rt, cx);
            input.begin_morsels_of_few((&mut self.probe, node.id), is_used, fill, rt, cx)?;
        }
        let is_sieved_here = !is_complete && !input.is_in_morsels();
        let mut parts = ProbePartitions::new(node, cx);
        let (mut keys, mut row, mut short) = (KeyBatch::default(), Vec::new(), [0; 16]);
        loop {
            let is_filled = match is_sieved_here {
                true => sieve.fill(&mut self.probe, &mut input.batch, rt, cx)?,
                false => input.fill(&mut self.probe, is_used, rt, cx)?,
            };
            if !is_filled {
                break;
            }
            keys_of_probe(node, is_used, &mut input.batch, &mut keys, rt, cx)?;
            for (at, position) in input.batch.list().iter().enumerate() {
                row_of(&input.batch.columns, is_used, *position as usize, &mut row)?;
                let key = if keys.is_none(at) { &[][..] } else { keys.bytes(at, &mut short) };
                parts.push(key, &row, cx.io())?;
            }
        }
        self.begin_pairs(build, parts, cx)
    }

    /// Lists the next pairs that belong to the result. False: the probe side is at its end.
    fn next_piece(
        &mut self,
        node: &Arc<PlanNode>,
        program: &JoinProgram,
        state: &mut JoinColumns,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        let Op::HashJoin { probe_keys, types, kind, on, .. } = &node.op else { return Ok(false) };
        let is_used = std::mem::take(&mut state.used.0);
        let keys = BatchKeys { program: &program.probe_keys, exprs: probe_keys, types, is_used: &is_used };
        let is_there = state.next_input((&keys, *kind), &mut self.probe, rt, cx);
        let listed = is_there.map(|is_there| match is_there {
            true => {
                state.list_pairs(*kind, program.on.is_some());
                true
            }
            false => false,
        });
        state.used.0 = is_used;
        if !listed? {
            return Ok(false);
        }
        if let (Some(program), Some(on)) = (&program.on, on) {
            state.ask_pairs((program, on), *kind, rt, cx)?;
        }
        state.keep_pairs(on.is_some(), *kind);
        Ok(true)
    }
}

impl JoinColumns {
    /// The next batch of the probe side, with its keys, unless there are rows left of the one at hand.
    fn next_input(
        &mut self,
        (keys, kind): (&BatchKeys<'_>, JoinKind),
        probe: &mut NodeState,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        if self.is_input_done || !needs_probe(kind) && self.table.count() == 0 {
            return Ok(false);
        }
        if self.next < self.input.batch.list().len() {
            return Ok(true);
        }
        self.next = 0;
        if !self.input.fill(probe, keys.is_used, rt, cx)? {
            self.is_input_done = true;
            return Ok(false);
        }
        if !keys.compute(&mut self.keys, &mut self.input.batch, rt, cx)? {
            keys.fail(&mut self.input.batch, rt, cx)?;
        }
        let batch = &self.input.batch;
        keys.write(&self.keys, &batch.columns, batch.rows(), &mut self.key_batch)?;
        self.table.index.find(&self.key_batch, &mut self.first);
        Ok(true)
    }

    fn list_pairs(&mut self, kind: JoinKind, has_condition: bool) {
        self.pairs.clear();
        let list = self.input.batch.list();
        let (asks_each, only_first) = (keeps_unmatched(kind), matches!(kind, JoinKind::Semi | JoinKind::Anti));
        while let Some(row) = list.get(self.next) {
            let mut chain = self.chain.take().unwrap_or(self.first[self.next]);
            while chain != NONE {
                self.pairs.push((*row, chain));
                chain = if self.table.has_equal_keys { self.table.next_row[chain as usize] } else { NONE };
                if only_first && !has_condition {
                    break;
                }
                if self.pairs.len() >= 2 * PIECE_PAIRS && chain != NONE {
                    self.chain = Some(chain);
                    return;
                }
            }
            if asks_each || only_first {
                self.pairs.push((*row, END));
            }
            self.next += 1;
            if self.pairs.len() >= PIECE_PAIRS {
                break;
            }
        }
    }

    /// Keeps those pairs that meet the condition, and rows without a partner where they belong to the result.
    fn keep_pairs(&mut self, has_condition: bool, kind: JoinKind) {
        let mut passed = self.passed.iter().copied().peekable();
        for (at, (probe, build)) in self.pairs.iter().enumerate() {
            if *build == END {
                if !self.has_partner && keeps_unmatched(kind) {
                    self.kept.push(*probe, NO_ROW);
                }
                self.has_partner = false;
                continue;
            }
            if has_condition && passed.next_if_eq(&(at as u32)).is_none() {
                continue;
            }
            let is_first = !std::mem::replace(&mut self.has_partner, true);
            if keeps_table(kind) {
                self.matched[*build as usize] = true;
            }
            match kind {
                JoinKind::Anti => {}
                JoinKind::Semi if !is_first => {}
                _ => self.kept.push(*probe, *build),
            }
        }
    }

    /// Lists the pairs that meet the condition.
    fn ask_pairs(
        &mut self,
        (program, on): (&Program, &Expression),
        kind: JoinKind,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let (input, table) = (&self.input.batch.columns, &self.table.columns);
        self.pair_columns.resize_with(input.len() + table.len(), Vector::default);
        let mut is_used = vec![false; self.pair_columns.len()];
        program.columns.iter().for_each(|column| is_used[*column] = true);
        let mut lists = PairLists::default();
        let mut asked = Vec::with_capacity(self.pairs.len());
        for (at, (probe, build)) in self.pairs.iter().enumerate() {
            let is_end = *build == END;
            lists.push(*probe, if is_end { NO_ROW } else { *build });
            if !is_end {
                asked.push(at as u32);
            }
        }
        gather((&mut self.pair_columns, &is_used), (input, table), &lists)?;
        let rows = Rows::Listed(&asked, self.pairs.len());
        let columns = self.pair_columns.as_mut_slice();
        match self.on.filter((program, &mut self.passed), columns, rows, rt, cx)? {
            true => Ok(()),
            false => self.ask_each_pair((on, &is_used), &asked, kind, rt, cx),
        }
    }

    /// Asks the condition of one pair after the other, as often as the kind of join wants to know.
    #[cold]
    fn ask_each_pair(
        &mut self,
        (on, is_used): (&Expression, &[bool]),
        asked: &[u32],
        kind: JoinKind,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        self.passed.clear();
        let mut values = Vec::new();
        let mut settled = None;
        for at in asked {
            let probe = self.pairs[*at as usize].0;
            if settled == Some(probe) {
                continue;
            }
            row_of(&self.pair_columns, is_used, *at as usize, &mut values)?;
            if on.is_true(&values, rt, cx)? {
                self.passed.push(*at);
                settled = matches!(kind, JoinKind::Semi | JoinKind::Anti).then_some(probe);
            }
        }
        Ok(())
    }

    /// Lists the next rows of the table that have no partner.
    fn list_unmatched(&mut self) {
        while self.kept.probe.len() < BATCH_ROWS && self.tail < self.matched.len() {
            if !self.matched[self.tail] {
                self.kept.push(NO_ROW, self.tail as u32);
            }
            self.tail += 1;
        }
    }
}
