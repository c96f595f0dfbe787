//! Subqueries in expressions.

use super::context::*;
use super::expr::Evaluate;
use super::hash_table::key_of;
use super::key_index::{KeyIndex, entry_bytes};
use super::null_rows::{NullableRowSet, RowKey};
use super::state::NodeState;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_plan::expression::{CExpr, ExistsTable, Expression, SubPlanKind, SubPlanUse, expressions};
use kilndb_spill::{RowStore, StoreCursor};
use kilndb_types::{Datum, Record, oids};
use std::sync::Arc;

pub(crate) struct SubplanState {
    state: NodeState,
    started: bool,
    cached: Option<Datum>,
    rows: Option<RowStore>,
    set: Option<NullableRowSet>,
    table: ExistsTableState,
}

/// How often EXISTS was asked, and the table that it looks in then.
#[derive(Default)]
struct ExistsTableState {
    calls: u64,
    keys: Option<KeyIndex>,
    /// It does not fit into memory, or cannot be made, so rows are looked up as before.
    is_given_up: bool,
    key: Vec<u8>,
}

impl ExistsTableState {
    /// Is there a row with the keys of `row`? None: there is no table yet.
    fn ask(
        &mut self,
        table: &ExistsTable,
        row: &[Datum],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<Option<bool>> {
        self.calls += 1;
        if self.keys.is_none() {
            if self.calls <= table.after_calls || self.is_given_up {
                return Ok(None);
            }
            match self.make(table, rt, cx) {
                // Rows that no look-up has come to have values that cannot be computed with.
                Err(error) if error.is_data_exception() => self.is_given_up = true,
                made => made?,
            }
        }
        let Some(keys) = &self.keys else { return Ok(None) };
        if keys.len() == 0 {
            return Ok(Some(false));
        }
        key_of(&table.keys, &table.types, row, &mut self.key, rt, cx)?;
        Ok(Some(!self.key.is_empty() && keys.get(&self.key).is_some()))
    }
    fn make(&mut self, table: &ExistsTable, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = rt.plan.subplans[table.index].clone();
        let (mut input, mut batch) = (NodeState::new(&node), Batch::new(node.width));
        let columns = expressions((0..table.types.len()).map(CExpr::Slot));
        let (mut keys, mut bytes) = (KeyIndex::default(), 0);
        while input.fill(&mut batch, rt, cx)? {
            for i in 0..batch.rows {
                key_of(&columns, &table.types, batch.row(i), &mut self.key, rt, cx)?;
                if !self.key.is_empty() && keys.insert(&self.key, 0).is_none() {
                    bytes += entry_bytes(self.key.len());
                }
            }
            if bytes > cx.hash_mem_bytes {
                self.is_given_up = true;
                return Ok(());
            }
        }
        self.keys = Some(keys);
        Ok(())
    }
}

pub fn eval(s: &SubPlanUse, row: &[Datum], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Datum> {
    for (param, slot) in &s.set {
        rt.exec_params[*param] = row.get(*slot).cloned().unwrap_or_default();
    }
    super::cte::forget(s.ctes.iter().copied(), rt);
    let mut state = match rt.subplans.get_mut(s.index).and_then(Option::take) {
        Some(st) => st,
        None => {
            let node = rt.plan.subplans[s.index].clone();
            SubplanState {
                state: NodeState::new(&node),
                started: false,
                cached: None,
                rows: None,
                set: None,
                table: ExistsTableState::default(),
            }
        }
    };
    let result = eval_with(s, &mut state, row, rt, cx);
    if let Some(slot) = rt.subplans.get_mut(s.index) {
        *slot = Some(state);
    }
    result
}

fn restart(st: &mut SubplanState, rt: &mut RunState) {
    if st.started {
        st.state.rescan(rt);
    }
    st.started = true;
}

fn eval_with(
    s: &SubPlanUse,
    st: &mut SubplanState,
    row: &[Datum],
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<Datum> {
    if s.cacheable
        && let Some(d) = &st.cached
    {
        return Ok(d.clone());
    }
    if let Some(table) = &s.table
        && let Some(found) = st.table.ask(table, row, rt, cx)?
    {
        return Ok(Datum::Bool(found));
    }
    let width = rt.plan.subplans[s.index].width;
    let value = match &s.kind {
        SubPlanKind::Exists => {
            restart(st, rt);
            let mut b = Batch::with_max(width, 1);
            st.state.next(&mut b, rt, cx)?;
            Datum::Bool(b.rows > 0)
        }
        SubPlanKind::Scalar | SubPlanKind::Row(_) => {
            restart(st, rt);
            match single_row(st, width, rt, cx)? {
                None => Datum::Null,
                Some(r) => match &s.kind {
                    SubPlanKind::Row(types) => {
                        let fields = types.iter().copied().zip(r).collect();
                        Datum::Record(Arc::new(Record { type_oid: oids::RECORD, fields, names: None }))
                    }
                    _ => r.into_iter().next().unwrap_or_default(),
                },
            }
        }
        SubPlanKind::Array(element) => {
            restart(st, rt);
            let rows = all_rows(st, width, rt, cx)?;
            let list: Vec<Datum> = rows.into_iter().filter_map(|r| r.into_iter().next()).collect();
            if matches!(list.first(), Some(Datum::Array(_))) {
                super::arrays::join(*element, &list)?
            } else {
                kilndb_catalog::store::array(*element, list)
            }
        }
        SubPlanKind::RowCompare => {
            restart(st, rt);
            return match single_row(st, width, rt, cx)? {
                None => Ok(Datum::Null),
                Some(r) => test(s, r, row, rt, cx),
            };
        }
        SubPlanKind::Any | SubPlanKind::All => return quantified(s, st, row, width, rt, cx),
    };
    if s.cacheable {
        st.cached = Some(value.clone());
    }
    Ok(value)
}

fn single_row(
    st: &mut SubplanState,
    width: usize,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<Option<Vec<Datum>>> {
    let mut b = Batch::with_max(width, 2);
    let mut found: Option<Vec<Datum>> = None;
    loop {
        b.clear();
        st.state.next(&mut b, rt, cx)?;
        if b.rows == 0 {
            return Ok(found);
        }
        if found.is_some() || b.rows > 1 {
            return Err(Error::new(
                sqlstate::CARDINALITY_VIOLATION,
                "more than one row returned by a subquery used as an expression",
            ));
        }
        found = Some(b.row(0).to_vec());
    }
}

fn all_rows(
    st: &mut SubplanState,
    width: usize,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<Vec<Vec<Datum>>> {
    let mut b = Batch::new(width);
    let mut rows = Vec::new();
    while st.state.fill(&mut b, rt, cx)? {
        rows.extend((0..b.rows).map(|i| b.row(i).to_vec()));
    }
    Ok(rows)
}

/// All rows, those that memory has no room for in a file.
fn kept_rows(st: &mut SubplanState, width: usize, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<RowStore> {
    let (mut rows, mut b) = (RowStore::new(width, cx.work_mem_bytes), Batch::new(width));
    while st.state.fill(&mut b, rt, cx)? {
        for i in 0..b.rows {
            rows.push(b.row(i), cx.io())?;
        }
    }
    Ok(rows)
}

fn test(
    s: &SubPlanUse,
    values: Vec<Datum>,
    row: &[Datum],
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<Datum> {
    for (param, v) in s.test_params.iter().zip(values) {
        rt.exec_params[*param] = v;
    }
    match &s.test {
        Some(t) => t.eval(row, rt, cx),
        None => Ok(Datum::Null),
    }
}

fn quantified(
    s: &SubPlanUse,
    st: &mut SubplanState,
    row: &[Datum],
    width: usize,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<Datum> {
    let any = matches!(s.kind, SubPlanKind::Any);
    if let Some(keys) = s.hash.as_ref().filter(|_| s.cacheable) {
        return hashed(keys, st, row, width, rt, cx);
    }
    let rows = match st.rows.take() {
        Some(r) if s.cacheable => r,
        _ => {
            restart(st, rt);
            kept_rows(st, width, rt, cx)?
        }
    };
    let mut null = false;
    let mut decided = None;
    let mut cursor = StoreCursor::default();
    for n in 0..rows.len() {
        let values = rows.row(n, &mut cursor, cx.io())?.to_vec();
        match test(s, values, row, rt, cx)? {
            Datum::Bool(b) if b == any => {
                decided = Some(Datum::Bool(any));
                break;
            }
            Datum::Null => null = true,
            _ => {}
        }
    }
    if s.cacheable {
        st.rows = Some(rows);
    }
    Ok(decided.unwrap_or(if null { Datum::Null } else { Datum::Bool(!any) }))
}

/// `left = ANY (SELECT …)` by a look-up in the set of the subquery's rows.
fn hashed(
    keys: &[(Expression, usize, Oid)],
    st: &mut SubplanState,
    row: &[Datum],
    width: usize,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<Datum> {
    let mut key = RowKey::default();
    if st.set.is_none() {
        restart(st, rt);
        let (mut set, mut b) = (NullableRowSet::new(cx.hash_mem_bytes), Batch::new(width));
        while st.state.fill(&mut b, rt, cx)? {
            for i in 0..b.rows {
                let values = b.row(i);
                key.clear();
                for (_, column, ty) in keys {
                    key.push(*ty, values.get(*column).unwrap_or(&Datum::Null))?;
                }
                set.insert(&key, cx.io())?;
            }
        }
        st.set = Some(set);
    }
    let Some(set) = st.set.as_mut().filter(|set| !set.is_empty()) else { return Ok(Datum::Bool(false)) };
    key.clear();
    for (e, _, ty) in keys {
        key.push(*ty, &e.eval(row, rt, cx)?)?;
    }
    Ok(set.contains(&key, cx.io())?.map_or(Datum::Null, Datum::Bool))
}
