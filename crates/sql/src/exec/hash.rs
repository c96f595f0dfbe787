//! Hash tables over equality keys: DISTINCT and set operations.

use super::context::*;
use super::state::{State, Unary};
use crate::bind::ir::SetOp;
use crate::plan::{Node, Op};
use kilndb_base::Result;
use kilndb_types::{Datum, key};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// A fast hash for keys of our own making (no defence against chosen keys is needed per statement).
#[derive(Default)]
pub struct ByteHasher(u64);

impl Hasher for ByteHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }
    fn write(&mut self, bytes: &[u8]) {
        const K: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut chunks = bytes.chunks_exact(8);
        for c in &mut chunks {
            let mut b = [0; 8];
            b.copy_from_slice(c);
            self.0 = (self.0.rotate_left(5) ^ u64::from_le_bytes(b)).wrapping_mul(K);
        }
        let mut last = [0; 8];
        let rest = chunks.remainder();
        last[..rest.len()].copy_from_slice(rest);
        self.0 = (self.0.rotate_left(5) ^ u64::from_le_bytes(last) ^ ((bytes.len() as u64) << 56)).wrapping_mul(K);
    }
}

pub type KeyMap<V = u32> = HashMap<Box<[u8]>, V, BuildHasherDefault<ByteHasher>>;

pub struct DistinctState {
    pub unary: Unary,
    seen: KeyMap<()>,
}

impl DistinctState {
    pub fn new(unary: Unary) -> DistinctState {
        DistinctState { unary, seen: KeyMap::default() }
    }
    pub fn rescan(&mut self, rt: &mut Runtime) {
        self.seen.clear();
        self.unary.rescan(rt);
    }
    pub fn next(&mut self, out: &mut Batch, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::Distinct { keys, .. } = &node.op else { return Ok(()) };
        let mut k = Vec::new();
        while out.rows == 0 && self.unary.fill(out.max, rt, cx)? {
            for i in 0..self.unary.buffer.rows {
                let row = self.unary.buffer.row(i);
                k.clear();
                for s in keys {
                    let d = s.expr.eval(row, rt, cx)?;
                    key::hash_equal_key(s.ty, &d, &mut k)?;
                }
                if !self.seen.contains_key(k.as_slice()) {
                    self.seen.insert(k.as_slice().into(), ());
                    out.push(row);
                }
            }
        }
        Ok(())
    }
}

pub struct SetOpState {
    pub node: Arc<Node>,
    left: State,
    right: State,
    /// 0 reading left (Union) or right (others), 1 the other side, 2 done.
    phase: u8,
    seen: KeyMap<u64>,
}

impl SetOpState {
    pub fn new(node: &Arc<Node>, left: &Arc<Node>, right: &Arc<Node>) -> SetOpState {
        SetOpState { node: node.clone(), left: State::new(left), right: State::new(right), phase: 0, seen: KeyMap::default() }
    }
    pub fn rescan(&mut self, rt: &mut Runtime) {
        self.left.rescan(rt);
        self.right.rescan(rt);
        self.phase = 0;
        self.seen.clear();
    }
    pub fn next(&mut self, out: &mut Batch, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.node.clone();
        let Op::SetOp { op, all, types, .. } = &node.op else { return Ok(()) };
        let key_of = |row: &[Datum]| -> Result<Vec<u8>> {
            let mut k = Vec::new();
            for (d, t) in row.iter().zip(types) {
                key::hash_equal_key(*t, d, &mut k)?;
            }
            Ok(k)
        };
        let mut b = Batch::with_max(node.width, out.max);
        if *op == SetOp::Union {
            while out.rows == 0 && self.phase < 2 {
                b.clear();
                cx.park.checkpoint()?;
                let side = if self.phase == 0 { &mut self.left } else { &mut self.right };
                if *all {
                    side.next(out, rt, cx)?;
                    if out.rows == 0 {
                        self.phase += 1;
                    }
                    continue;
                }
                side.next(&mut b, rt, cx)?;
                if b.rows == 0 {
                    self.phase += 1;
                }
                for i in 0..b.rows {
                    let k = key_of(b.row(i))?;
                    if self.seen.insert(k.into(), 1).is_none() {
                        out.push(b.row(i));
                    }
                }
            }
            return Ok(());
        }
        if self.phase == 0 {
            loop {
                b.clear();
                cx.park.checkpoint()?;
                self.right.next(&mut b, rt, cx)?;
                if b.rows == 0 {
                    break;
                }
                for i in 0..b.rows {
                    *self.seen.entry(key_of(b.row(i))?.into()).or_insert(0) += 1;
                }
            }
            self.phase = 1;
        }
        while out.rows == 0 {
            b.clear();
            cx.park.checkpoint()?;
            self.left.next(&mut b, rt, cx)?;
            if b.rows == 0 {
                break;
            }
            for i in 0..b.rows {
                let k = key_of(b.row(i))?;
                let count = self.seen.get(k.as_slice()).copied();
                let keep = match (op, all) {
                    // Without ALL: u64::MAX marks a key that was given out or must not be.
                    (SetOp::Intersect, false) => {
                        let keep = count.is_some_and(|c| c != u64::MAX && c > 0);
                        if keep {
                            self.seen.insert(k.into(), u64::MAX);
                        }
                        keep
                    }
                    (SetOp::Intersect, true) | (SetOp::Except, true) => {
                        let had = count.is_some_and(|c| c > 0);
                        if had {
                            self.seen.insert(k.into(), count.unwrap_or(1) - 1);
                        }
                        had == (*op == SetOp::Intersect)
                    }
                    _ => {
                        let keep = count.is_none();
                        self.seen.insert(k.into(), 1);
                        keep
                    }
                };
                if keep {
                    out.push(b.row(i));
                }
            }
        }
        Ok(())
    }
}
