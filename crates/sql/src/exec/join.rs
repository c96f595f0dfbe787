//! Nested loops and hash joins.

use super::context::*;
use super::expr::CExpr;
use super::hash::KeyMap;
use super::state::State;
use crate::bind::ir::JoinKind;
use crate::plan::{Node, Op};
use kilndb_base::{Oid, Result};
use kilndb_types::{Datum, key};
use std::sync::Arc;

pub struct NestLoopState {
    pub node: Arc<Node>,
    outer: State,
    inner: State,
    outer_batch: Batch,
    outer_next: usize,
    inner_batch: Batch,
    inner_next: usize,
    /// In the middle of an outer row.
    active: bool,
    matched: bool,
    inner_started: bool,
    /// The inner side, kept.
    stored: Option<(Vec<Datum>, usize)>,
    stored_next: usize,
    inner_matched: Vec<bool>,
    outer_done: bool,
    tail: usize,
}

impl NestLoopState {
    pub fn new(node: &Arc<Node>, outer: &Arc<Node>, inner: &Arc<Node>) -> NestLoopState {
        NestLoopState {
            node: node.clone(),
            outer: State::new(outer),
            inner: State::new(inner),
            outer_batch: Batch::new(outer.width),
            outer_next: 0,
            inner_batch: Batch::new(inner.width),
            inner_next: 0,
            active: false,
            matched: false,
            inner_started: false,
            stored: None,
            stored_next: 0,
            inner_matched: Vec::new(),
            outer_done: false,
            tail: 0,
        }
    }
    pub fn rescan(&mut self, rt: &mut Runtime) {
        self.outer.rescan(rt);
        self.outer_batch.clear();
        self.outer_next = 0;
        self.active = false;
        self.outer_done = false;
        self.tail = 0;
        // What is kept may depend on parameters from further out.
        self.stored = None;
        self.inner_matched.clear();
    }

    fn restart_inner(&mut self, rt: &mut Runtime) {
        if self.inner_started {
            self.inner.rescan(rt);
        }
        self.inner_started = true;
        self.inner_batch.clear();
        self.inner_next = 0;
    }

    pub fn next(&mut self, out: &mut Batch, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.node.clone();
        let Op::NestLoop { inner, kind, on, params, materialize, .. } = &node.op else { return Ok(()) };
        let inner_width = inner.width;
        if *materialize && self.stored.is_none() {
            self.restart_inner(rt);
            let mut rows = (Vec::new(), 0);
            loop {
                self.inner_batch.clear();
                cx.park.checkpoint()?;
                self.inner.next(&mut self.inner_batch, rt, cx)?;
                if self.inner_batch.rows == 0 {
                    break;
                }
                rows.1 += self.inner_batch.rows;
                rows.0.append(&mut self.inner_batch.data);
            }
            if *kind == JoinKind::Full {
                self.inner_matched = vec![false; rows.1];
            }
            self.stored = Some(rows);
        }
        while !out.full() {
            if !self.active {
                if self.outer_next >= self.outer_batch.rows {
                    if self.outer_done {
                        if *kind == JoinKind::Full {
                            self.unmatched_inner(out, inner_width);
                        }
                        return Ok(());
                    }
                    self.outer_batch.clear();
                    self.outer_batch.max = out.max;
                    self.outer_next = 0;
                    cx.park.checkpoint()?;
                    self.outer.next(&mut self.outer_batch, rt, cx)?;
                    if self.outer_batch.rows == 0 {
                        self.outer_done = true;
                    }
                    continue;
                }
                for (param, slot) in params {
                    rt.exec_params[*param] = self.outer_batch.row(self.outer_next).get(*slot).cloned().unwrap_or_default();
                }
                if self.stored.is_none() {
                    self.restart_inner(rt);
                }
                self.stored_next = 0;
                self.active = true;
                self.matched = false;
            }
            if !self.inner_row(out, on.as_ref(), *kind, inner_width, rt, cx)? {
                // The inner side is at its end.
                if !self.matched && matches!(kind, JoinKind::Left | JoinKind::Full | JoinKind::Anti) {
                    out.data.extend_from_slice(self.outer_batch.row(self.outer_next));
                    out.data.extend(std::iter::repeat_n(Datum::Null, inner_width));
                    out.end_row();
                }
                self.active = false;
                self.outer_next += 1;
            }
        }
        Ok(())
    }

    /// Joins the present outer row with one more inner row; false at the inner side's end.
    fn inner_row(
        &mut self,
        out: &mut Batch,
        on: Option<&CExpr>,
        kind: JoinKind,
        width: usize,
        rt: &mut Runtime,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        let outer = self.outer_batch.row(self.outer_next);
        let number = self.stored_next;
        if let Some((rows, count)) = &self.stored {
            if self.stored_next >= *count {
                return Ok(false);
            }
            out.data.extend_from_slice(outer);
            out.data.extend_from_slice(&rows[self.stored_next * width..(self.stored_next + 1) * width]);
            self.stored_next += 1;
        } else {
            if self.inner_next >= self.inner_batch.rows {
                self.inner_batch.clear();
                self.inner_next = 0;
                cx.park.checkpoint()?;
                self.inner.next(&mut self.inner_batch, rt, cx)?;
                if self.inner_batch.rows == 0 {
                    return Ok(false);
                }
            }
            out.data.extend_from_slice(outer);
            out.data.extend_from_slice(self.inner_batch.row(self.inner_next));
            self.inner_next += 1;
        }
        let from = out.rows * out.width;
        let pass = match on {
            Some(e) => e.is_true(&out.data[from..], rt, cx)?,
            None => true,
        };
        if !pass {
            out.cancel_row();
            return Ok(true);
        }
        self.matched = true;
        if let Some(m) = self.inner_matched.get_mut(number) {
            *m = true;
        }
        if kind == JoinKind::Anti {
            out.cancel_row();
            return Ok(false);
        }
        out.end_row();
        Ok(kind != JoinKind::Semi)
    }

    fn unmatched_inner(&mut self, out: &mut Batch, width: usize) {
        let Some((rows, count)) = &self.stored else { return };
        while !out.full() && self.tail < *count {
            let i = self.tail;
            self.tail += 1;
            if !self.inner_matched.get(i).copied().unwrap_or(true) {
                out.data.extend(std::iter::repeat_n(Datum::Null, self.outer_batch.width));
                out.data.extend_from_slice(&rows[i * width..(i + 1) * width]);
                out.end_row();
            }
        }
    }
}

pub struct HashJoinState {
    pub node: Arc<Node>,
    probe: State,
    build: State,
    built: bool,
    rows: Vec<Datum>,
    count: usize,
    /// Key → first row with it; chains through `next_row`.
    table: KeyMap,
    next_row: Vec<u32>,
    matched: Vec<bool>,
    probe_batch: Batch,
    probe_next: usize,
    chain: u32,
    active: bool,
    row_matched: bool,
    probe_done: bool,
    tail: usize,
    key: Vec<u8>,
}

const NONE: u32 = u32::MAX;

impl HashJoinState {
    pub fn new(node: &Arc<Node>, probe: &Arc<Node>, build: &Arc<Node>) -> HashJoinState {
        HashJoinState {
            node: node.clone(),
            probe: State::new(probe),
            build: State::new(build),
            built: false,
            rows: Vec::new(),
            count: 0,
            table: KeyMap::default(),
            next_row: Vec::new(),
            matched: Vec::new(),
            probe_batch: Batch::new(probe.width),
            probe_next: 0,
            chain: NONE,
            active: false,
            row_matched: false,
            probe_done: false,
            tail: 0,
            key: Vec::new(),
        }
    }
    pub fn rescan(&mut self, rt: &mut Runtime) {
        self.probe.rescan(rt);
        self.build.rescan(rt);
        self.built = false;
        self.probe_batch.clear();
        self.probe_next = 0;
        self.active = false;
        self.probe_done = false;
        self.tail = 0;
    }

    fn key_of(keys: &[CExpr], types: &[Oid], row: &[Datum], out: &mut Vec<u8>, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<bool> {
        out.clear();
        for (e, t) in keys.iter().zip(types) {
            let d = e.eval(row, rt, cx)?;
            if d.is_null() {
                return Ok(false);
            }
            key::hash_equal_key(*t, &d, out)?;
        }
        Ok(true)
    }

    fn build(&mut self, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.node.clone();
        let Op::HashJoin { build, build_keys, types, .. } = &node.op else { return Ok(()) };
        self.rows.clear();
        self.count = 0;
        self.table.clear();
        self.next_row.clear();
        let mut b = Batch::new(build.width);
        loop {
            b.clear();
            cx.park.checkpoint()?;
            self.build.next(&mut b, rt, cx)?;
            if b.rows == 0 {
                break;
            }
            for i in 0..b.rows {
                let has_key = Self::key_of(build_keys, types, b.row(i), &mut self.key, rt, cx)?;
                let number = self.count as u32;
                let mut next = NONE;
                if has_key {
                    match self.table.get_mut(self.key.as_slice()) {
                        Some(first) => next = std::mem::replace(first, number),
                        None => {
                            self.table.insert(self.key.as_slice().into(), number);
                        }
                    }
                }
                self.next_row.push(next);
                self.count += 1;
            }
            self.rows.append(&mut b.data);
        }
        self.matched = vec![false; self.count];
        self.built = true;
        Ok(())
    }

    pub fn next(&mut self, out: &mut Batch, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.node.clone();
        let Op::HashJoin { build, kind, probe_keys, types, on, .. } = &node.op else { return Ok(()) };
        let width = build.width;
        if !self.built {
            self.build(rt, cx)?;
        }
        while !out.full() {
            if !self.active {
                if self.probe_next >= self.probe_batch.rows {
                    if self.probe_done {
                        if *kind == JoinKind::Full {
                            self.unmatched(out, width);
                        }
                        return Ok(());
                    }
                    self.probe_batch.clear();
                    self.probe_next = 0;
                    cx.park.checkpoint()?;
                    self.probe.next(&mut self.probe_batch, rt, cx)?;
                    self.probe_done = self.probe_batch.rows == 0;
                    continue;
                }
                let row = self.probe_batch.row(self.probe_next);
                let has_key = Self::key_of(probe_keys, types, row, &mut self.key, rt, cx)?;
                self.chain = if has_key { self.table.get(self.key.as_slice()).copied().unwrap_or(NONE) } else { NONE };
                self.active = true;
                self.row_matched = false;
            }
            if self.chain == NONE {
                if !self.row_matched && matches!(kind, JoinKind::Left | JoinKind::Full | JoinKind::Anti) {
                    out.data.extend_from_slice(self.probe_batch.row(self.probe_next));
                    out.data.extend(std::iter::repeat_n(Datum::Null, width));
                    out.end_row();
                }
                self.active = false;
                self.probe_next += 1;
                continue;
            }
            let i = self.chain as usize;
            self.chain = self.next_row[i];
            out.data.extend_from_slice(self.probe_batch.row(self.probe_next));
            out.data.extend_from_slice(&self.rows[i * width..(i + 1) * width]);
            let from = out.rows * out.width;
            let pass = match on {
                Some(e) => e.is_true(&out.data[from..], rt, cx)?,
                None => true,
            };
            if !pass {
                out.cancel_row();
                continue;
            }
            self.row_matched = true;
            self.matched[i] = true;
            match kind {
                JoinKind::Anti => {
                    out.cancel_row();
                    self.chain = NONE;
                }
                JoinKind::Semi => {
                    out.end_row();
                    self.chain = NONE;
                }
                _ => out.end_row(),
            }
        }
        Ok(())
    }

    fn unmatched(&mut self, out: &mut Batch, width: usize) {
        while !out.full() && self.tail < self.count {
            let i = self.tail;
            self.tail += 1;
            if !self.matched[i] {
                out.data.extend(std::iter::repeat_n(Datum::Null, self.probe_batch.width));
                out.data.extend_from_slice(&self.rows[i * width..(i + 1) * width]);
                out.end_row();
            }
        }
    }
}
