//! Set-returning functions, streamed where that matters.

use super::context::*;
use super::expr::Evaluate;
use super::expr::eval_all;
use super::state::UnaryInput;
use kilndb_base::{Error, Result};
use kilndb_plan::{FunctionCall, Op, PlanNode, ProjectItem};
use kilndb_spill::{RowStore, StoreCursor};
use kilndb_types::Datum;
use kilndb_types::functions::FunctionKind;
use kilndb_types::functions::rows::{FunctionRows, RowsCall, spread};
use std::sync::Arc;

/// The rows that one call of a function yields.
enum CallRows {
    Of(FunctionRows),
    /// The rows that a routine has returned.
    Stored(Box<StoredRows>),
}

struct StoredRows {
    rows: RowStore,
    reader: StoreCursor,
    next: usize,
}

fn start(call: &FunctionCall, row: &[Datum], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<CallRows> {
    if let Some(e) = &call.scalar {
        return Ok(CallRows::Of(FunctionRows::list(vec![e.eval(row, rt, cx)?])));
    }
    let Some(args) = eval_all(&call.args, call.strict, row, rt, cx)? else {
        return Ok(CallRows::Of(FunctionRows::none()));
    };
    if let Some(routine) = &call.routine {
        let width = if call.composite { call.columns } else { 1 };
        let rows = super::routine::call_for_rows(routine, &args, width, cx)?;
        return Ok(CallRows::Stored(Box::new(StoredRows { rows, reader: StoreCursor::default(), next: 0 })));
    }
    let rows = match call.function {
        Some(FunctionKind::Rows(function)) => {
            let field = |c: &kilndb_catalog::routine::RowColumn| (c.name.clone(), c.type_oid, c.typmod);
            function(RowsCall {
                args,
                types: &call.arg_types,
                name: &call.name,
                columns: call.shape.as_ref().map(|shape| shape.columns.iter().map(field).collect()),
                spread: call.composite,
                ctx: &cx.eval,
            })?
        }
        Some(FunctionKind::SessionRows(function)) => {
            FunctionRows::table(cx.call_env(|s, env| s.call_for_rows(function, &args, env))?)
        }
        _ => return Err(Error::unsupported(format!("function {} is not supported", call.name))),
    };
    Ok(CallRows::Of(rows))
}

impl CallRows {
    /// Appends `columns` values; false at the end.
    fn next(
        &mut self,
        columns: usize,
        composite: bool,
        out: &mut Vec<Datum>,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        match self {
            CallRows::Of(rows) => rows.next(columns, composite, out, &cx.eval),
            CallRows::Stored(stored) => {
                if stored.next >= stored.rows.len() {
                    return Ok(false);
                }
                let row = stored.rows.row(stored.next, &mut stored.reader, cx.io())?;
                stored.next += 1;
                spread(row.to_vec(), columns, composite, out);
                Ok(true)
            }
        }
    }
}

pub(crate) struct FunctionState {
    pub node: Arc<PlanNode>,
    rows: Vec<Option<CallRows>>,
    started: bool,
    count: i64,
}

impl FunctionState {
    pub fn new(node: &Arc<PlanNode>) -> FunctionState {
        FunctionState { node: node.clone(), rows: Vec::new(), started: false, count: 0 }
    }
    pub(crate) fn rescan(&mut self) {
        self.started = false;
        self.rows.clear();
        self.count = 0;
    }
    pub fn next(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.node.clone();
        let Op::Function { calls, ordinality, .. } = &node.op else { return Ok(()) };
        if !self.started {
            self.started = true;
            for c in calls {
                self.rows.push(Some(start(c, &[], rt, cx)?));
            }
        }
        while !out.full() {
            let mut any = false;
            for (c, slot) in calls.iter().zip(&mut self.rows) {
                let got = match slot {
                    Some(r) => r.next(c.columns, c.composite, &mut out.data, cx)?,
                    None => false,
                };
                if got {
                    any = true;
                } else {
                    *slot = None;
                    out.data.extend(std::iter::repeat_n(Datum::Null, c.columns));
                }
            }
            if !any {
                out.cancel_row();
                return Ok(());
            }
            if *ordinality {
                self.count += 1;
                out.data.push(Datum::Int8(self.count));
            }
            out.end_row();
        }
        Ok(())
    }
}

/// Set-returning functions in the select list: all advance together, the short ones give NULL.
pub(crate) struct ProjectSetState {
    pub unary: UnaryInput,
    position: usize,
    active: Option<Vec<Option<CallRows>>>,
}

impl ProjectSetState {
    pub fn new(unary: UnaryInput) -> ProjectSetState {
        ProjectSetState { unary, position: 0, active: None }
    }
    pub(crate) fn rescan(&mut self, rt: &mut RunState) {
        self.unary.rescan(rt);
        self.position = 0;
        self.active = None;
    }
    pub fn next(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::ProjectSet { items, .. } = &node.op else { return Ok(()) };
        while !out.full() {
            if self.active.is_none() {
                if self.position >= self.unary.buffer.rows {
                    self.position = 0;
                    if !self.unary.fill(BATCH_ROWS, rt, cx)? {
                        return Ok(());
                    }
                }
                let mut rows = Vec::new();
                for i in items {
                    rows.push(match i {
                        ProjectItem::Set(c) => Some(start(c, self.unary.buffer.row(self.position), rt, cx)?),
                        ProjectItem::Expr(_) => None,
                    });
                }
                self.active = Some(rows);
            }
            let Some(rows) = &mut self.active else { return Ok(()) };
            let mut any = false;
            for (item, slot) in items.iter().zip(rows) {
                match item {
                    ProjectItem::Expr(e) => {
                        let v = e.eval(self.unary.buffer.row(self.position), rt, cx)?;
                        out.data.push(v);
                    }
                    ProjectItem::Set(c) => {
                        let got = match slot {
                            Some(r) => r.next(1, c.composite, &mut out.data, cx)?,
                            None => false,
                        };
                        if got {
                            any = true;
                        } else {
                            *slot = None;
                            out.data.push(Datum::Null);
                        }
                    }
                }
            }
            if any {
                out.end_row();
            } else {
                out.cancel_row();
                self.active = None;
                self.position += 1;
            }
        }
        Ok(())
    }
}
