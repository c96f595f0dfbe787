//! Common table expressions: rows are made once and read by position, recursive ones round by round.

use super::context::*;
use super::state::State;
use crate::plan::{Node, Op};
use kilndb_base::{Error, Result};
use kilndb_types::{Datum, key};
use std::collections::HashSet;
use std::sync::Arc;

pub struct CteState {
    rows: Vec<Datum>,
    count: usize,
    source: State,
    recursive: Option<State>,
    /// Rows of the previous round.
    working: Vec<Datum>,
    working_count: usize,
    seen: HashSet<Vec<u8>>,
    first_done: bool,
    done: bool,
}

pub struct CteScanState {
    pub node: Arc<Node>,
    next: usize,
}

impl CteScanState {
    pub fn new(node: &Arc<Node>) -> CteScanState {
        CteScanState { node: node.clone(), next: 0 }
    }
    pub fn rescan(&mut self) {
        self.next = 0;
    }
    pub fn next(&mut self, out: &mut Batch, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.node.clone();
        match &node.op {
            Op::WorkTable { cte } => {
                let width = node.width;
                let Some(Some(c)) = rt.ctes.get(*cte) else {
                    return Err(Error::internal("working table without a recursive query"));
                };
                while !out.full() && self.next < c.working_count {
                    out.push(&c.working[self.next * width..(self.next + 1) * width]);
                    self.next += 1;
                }
                Ok(())
            }
            Op::CteScan { cte } => loop {
                let width = node.width;
                if let Some(Some(c)) = rt.ctes.get(*cte) {
                    while !out.full() && self.next < c.count {
                        out.push(&c.rows[self.next * width..(self.next + 1) * width]);
                        self.next += 1;
                    }
                    if out.rows > 0 || c.done {
                        return Ok(());
                    }
                }
                advance(*cte, rt, cx)?;
            },
            _ => Ok(()),
        }
    }
}

/// Makes more rows.
fn advance(cte: usize, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<()> {
    let plan = rt.plan.clone();
    let Some(info) = plan.ctes.get(cte) else { return Err(Error::internal("WITH query")) };
    let mut c = match rt.ctes.get_mut(cte).and_then(Option::take) {
        Some(c) => c,
        None => CteState {
            rows: Vec::new(),
            count: 0,
            source: State::new(&info.node),
            recursive: info.recursive.as_ref().map(State::new),
            working: Vec::new(),
            working_count: 0,
            seen: HashSet::new(),
            first_done: false,
            done: false,
        },
    };
    let mut batch = Batch::new(info.node.width);
    cx.park.checkpoint()?;
    if !c.first_done {
        c.source.next(&mut batch, rt, cx)?;
        if batch.rows == 0 {
            c.first_done = true;
            c.done = c.recursive.is_none() || c.working_count == 0;
        }
        take(&mut c, &batch, info.recursive.is_some(), info.union_all, &info.types, None)?;
        rt.ctes[cte] = Some(c);
        return Ok(());
    }
    // One whole round: the working table must stand still while it is read.
    let Some(mut recursive) = c.recursive.take() else {
        c.done = true;
        rt.ctes[cte] = Some(c);
        return Ok(());
    };
    rt.ctes[cte] = Some(c);
    let mut next: (Vec<Datum>, usize) = (Vec::new(), 0);
    recursive.rescan(rt);
    for n in info.inner.clone() {
        if let Some(slot) = rt.ctes.get_mut(n) {
            *slot = None;
        }
    }
    loop {
        batch.clear();
        cx.park.checkpoint()?;
        recursive.next(&mut batch, rt, cx)?;
        if batch.rows == 0 {
            break;
        }
        if let Some(Some(c)) = rt.ctes.get_mut(cte) {
            take(c, &batch, true, info.union_all, &info.types, Some(&mut next))?;
        }
    }
    if let Some(Some(c)) = rt.ctes.get_mut(cte) {
        c.recursive = Some(recursive);
        c.done = next.1 == 0;
        (c.working, c.working_count) = next;
    }
    Ok(())
}

fn take(
    c: &mut CteState,
    batch: &Batch,
    recursive: bool,
    all: bool,
    types: &[kilndb_base::Oid],
    mut next: Option<&mut (Vec<Datum>, usize)>,
) -> Result<()> {
    for i in 0..batch.rows {
        let row = batch.row(i);
        if recursive && !all {
            let mut k = Vec::new();
            for (d, t) in row.iter().zip(types) {
                key::hash_equal_key(*t, d, &mut k)?;
            }
            if !c.seen.insert(k) {
                continue;
            }
        }
        c.rows.extend_from_slice(row);
        c.count += 1;
        if recursive {
            match &mut next {
                Some(n) => {
                    n.0.extend_from_slice(row);
                    n.1 += 1;
                }
                None => {
                    c.working.extend_from_slice(row);
                    c.working_count += 1;
                }
            }
        }
    }
    Ok(())
}

pub fn run_to_end(cte: usize, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<()> {
    loop {
        if let Some(Some(c)) = rt.ctes.get(cte)
            && c.done
        {
            return Ok(());
        }
        advance(cte, rt, cx)?;
    }
}
