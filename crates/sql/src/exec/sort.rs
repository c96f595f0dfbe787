//! Sorting.

use super::context::*;
use super::state::Unary;
use crate::plan::{Op, SortSpec};
use kilndb_base::{Oid, Result};
use kilndb_types::{Datum, key};
use std::cmp::Ordering;

pub fn compare_values(ty: Oid, a: &Datum, b: &Datum, descending: bool, nulls_first: bool) -> Ordering {
    match (a.is_null(), b.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) => if nulls_first { Ordering::Less } else { Ordering::Greater },
        (false, true) => if nulls_first { Ordering::Greater } else { Ordering::Less },
        (false, false) => {
            let o = match (a, b) {
                (Datum::Int4(x), Datum::Int4(y)) => x.cmp(y),
                (Datum::Int8(x), Datum::Int8(y)) => x.cmp(y),
                (Datum::Text(x), Datum::Text(y)) => x.as_bytes().cmp(y.as_bytes()),
                _ => key::compare(ty, a, b),
            };
            if descending { o.reverse() } else { o }
        }
    }
}

pub fn compare_keys(keys: &[SortSpec], a: &[Datum], b: &[Datum]) -> Ordering {
    for ((k, x), y) in keys.iter().zip(a).zip(b) {
        let o = compare_values(k.ty, x, y, k.descending, k.nulls_first);
        if o.is_ne() {
            return o;
        }
    }
    Ordering::Equal
}

/// All input, with its keys, sorted by position.
pub struct SortState {
    pub unary: Unary,
    rows: Vec<Datum>,
    order: Vec<u32>,
    next: usize,
    sorted: bool,
}

impl SortState {
    pub fn new(unary: Unary) -> SortState {
        SortState { unary, rows: Vec::new(), order: Vec::new(), next: 0, sorted: false }
    }
    pub fn rescan(&mut self, rt: &mut Runtime) {
        self.unary.rescan(rt);
        self.rows.clear();
        self.order.clear();
        self.next = 0;
        self.sorted = false;
    }
    fn sort(&mut self, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::Sort { keys, .. } = &node.op else { return Ok(()) };
        let mut values: Vec<Datum> = Vec::new();
        let mut count = 0u32;
        while self.unary.fill(BATCH_ROWS, rt, cx)? {
            for i in 0..self.unary.buffer.rows {
                let row = self.unary.buffer.row(i);
                for k in keys {
                    let v = k.expr.eval(row, rt, cx)?;
                    values.push(v);
                }
                count += 1;
            }
            self.rows.append(&mut self.unary.buffer.data);
        }
        let width = keys.len();
        self.order = (0..count).collect();
        let slice = |i: u32| &values[i as usize * width..(i as usize + 1) * width];
        self.order.sort_by(|a, b| compare_keys(keys, slice(*a), slice(*b)));
        self.sorted = true;
        Ok(())
    }
    pub fn next(&mut self, out: &mut Batch, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<()> {
        if !self.sorted {
            self.sort(rt, cx)?;
        }
        let width = self.unary.node.width;
        while !out.full() {
            let Some(i) = self.order.get(self.next) else { break };
            self.next += 1;
            let from = *i as usize * width;
            out.push(self.rows.get(from..from + width).unwrap_or(&[]));
        }
        Ok(())
    }
}
