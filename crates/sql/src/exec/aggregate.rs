//! Grouping and aggregates.

use super::context::*;
use super::hash::KeyMap;
use super::sort;
use super::state::Unary;
use crate::plan::{AggSpec, Op};
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_types::aggregates::{self, Accumulator};
use kilndb_types::{Datum, key};

/// One aggregate of one group.
struct Slot {
    acc: Option<Box<dyn Accumulator>>,
    /// DISTINCT or ORDER BY: arguments (and sort keys) are kept until the end.
    kept: Vec<Vec<Datum>>,
    seen: Option<KeyMap<()>>,
    /// count(*) and the like.
    count: i64,
}

struct Group {
    values: Vec<Datum>,
    set: usize,
    slots: Vec<Slot>,
}

pub struct AggregateState {
    pub unary: Unary,
    groups: Vec<Group>,
    done: bool,
    next: usize,
}

const COUNT_STAR: Oid = 2803;
const COUNT_ANY: Oid = 2147;

fn new_slot(a: &AggSpec) -> Result<Slot> {
    let plain_count = a.oid == COUNT_STAR || a.oid == COUNT_ANY;
    let acc = if plain_count {
        None
    } else {
        Some(
            aggregates::new_with_types(a.oid, &a.arg_types)
                .ok_or_else(|| Error::unsupported(format!("aggregate {} is not supported", a.name)))?,
        )
    };
    Ok(Slot { acc, kept: Vec::new(), seen: a.distinct.then(KeyMap::default), count: 0 })
}

impl AggregateState {
    pub fn new(unary: Unary) -> AggregateState {
        AggregateState { unary, groups: Vec::new(), done: false, next: 0 }
    }
    pub fn rescan(&mut self, rt: &mut Runtime) {
        self.unary.rescan(rt);
        self.groups.clear();
        self.done = false;
        self.next = 0;
    }

    fn collect(&mut self, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::Aggregate { groups, types, sets, aggs, .. } = &node.op else { return Ok(()) };
        let one_set = vec![(0..groups.len()).collect::<Vec<_>>()];
        let sets = sets.as_ref().unwrap_or(&one_set);
        let mut table: KeyMap = KeyMap::default();
        // A group of no rows exists where nothing is grouped.
        for (n, s) in sets.iter().enumerate() {
            if s.is_empty() {
                let slots = aggs.iter().map(new_slot).collect::<Result<Vec<_>>>()?;
                table.insert(vec![n as u8, (n >> 8) as u8].into(), self.groups.len() as u32);
                self.groups.push(Group { values: vec![Datum::Null; groups.len()], set: n, slots });
            }
        }
        let mut k = Vec::new();
        let mut values: Vec<Datum> = Vec::new();
        let mut args: Vec<Datum> = Vec::new();
        while self.unary.fill(BATCH_ROWS, rt, cx)? {
            for i in 0..self.unary.buffer.rows {
                let row = self.unary.buffer.row(i);
                values.clear();
                for g in groups {
                    let v = g.eval(row, rt, cx)?;
                    values.push(v);
                }
                for (n, set) in sets.iter().enumerate() {
                    k.clear();
                    k.extend([n as u8, (n >> 8) as u8]);
                    for c in set {
                        key::hash_equal_key(types[*c], &values[*c], &mut k)?;
                    }
                    let number = match table.get(k.as_slice()) {
                        Some(g) => *g as usize,
                        None => {
                            let slots = aggs.iter().map(new_slot).collect::<Result<Vec<_>>>()?;
                            let kept =
                                (0..groups.len()).map(|c| if set.contains(&c) { values[c].clone() } else { Datum::Null }).collect();
                            table.insert(k.as_slice().into(), self.groups.len() as u32);
                            self.groups.push(Group { values: kept, set: n, slots });
                            self.groups.len() - 1
                        }
                    };
                    for (a, slot) in aggs.iter().zip(&mut self.groups[number].slots) {
                        add(a, slot, row, &mut args, rt, cx)?;
                    }
                }
            }
        }
        Ok(())
    }

    pub fn next(&mut self, out: &mut Batch, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<()> {
        if !self.done {
            self.collect(rt, cx)?;
            self.done = true;
        }
        let node = self.unary.node.clone();
        let Op::Aggregate { sets, aggs, groupings, .. } = &node.op else { return Ok(()) };
        while !out.full() {
            let Some(g) = self.groups.get_mut(self.next) else { break };
            self.next += 1;
            out.data.append(&mut g.values);
            for (a, slot) in aggs.iter().zip(&mut g.slots) {
                out.data.push(finish(a, slot, cx)?);
            }
            for list in groupings {
                let mut bits = 0i32;
                for c in list {
                    let grouped = sets.as_ref().is_none_or(|s| s.get(g.set).is_some_and(|s| s.contains(c)));
                    bits = (bits << 1) | i32::from(!grouped);
                }
                out.data.push(Datum::Int4(bits));
            }
            g.slots.clear();
            out.end_row();
        }
        Ok(())
    }
}

fn add(a: &AggSpec, slot: &mut Slot, row: &[Datum], args: &mut Vec<Datum>, rt: &mut Runtime, cx: &mut ExecContext<'_>) -> Result<()> {
    if let Some(f) = &a.filter
        && !f.is_true(row, rt, cx)?
    {
        return Ok(());
    }
    if a.oid == COUNT_STAR {
        slot.count += 1;
        return Ok(());
    }
    args.clear();
    for e in &a.args {
        let v = e.eval(row, rt, cx)?;
        args.push(v);
    }
    if let Some(seen) = &mut slot.seen {
        let mut k = Vec::new();
        for (d, t) in args.iter().zip(&a.arg_types) {
            key::hash_equal_key(*t, d, &mut k)?;
        }
        if seen.insert(k.into(), ()).is_some() {
            return Ok(());
        }
    }
    if a.oid == COUNT_ANY {
        slot.count += i64::from(args.first().is_some_and(|d| !d.is_null()));
        return Ok(());
    }
    if !a.order.is_empty() || slot.seen.is_some() || a.within_group {
        let mut kept = std::mem::take(args);
        for s in &a.order {
            let v = s.expr.eval(row, rt, cx)?;
            kept.push(v);
        }
        slot.kept.push(kept);
        return Ok(());
    }
    match &mut slot.acc {
        Some(acc) => acc.add(args, &cx.eval),
        None => Ok(()),
    }
}

fn finish(a: &AggSpec, slot: &mut Slot, cx: &mut ExecContext<'_>) -> Result<Datum> {
    if a.oid == COUNT_STAR || a.oid == COUNT_ANY {
        return Ok(Datum::Int8(slot.count));
    }
    let Some(acc) = &mut slot.acc else {
        return Err(Error::new(sqlstate::INTERNAL_ERROR, "aggregate without state"));
    };
    if !slot.kept.is_empty() {
        let width = a.args.len();
        let mut kept = std::mem::take(&mut slot.kept);
        if a.order.is_empty() {
            // DISTINCT sorts its arguments.
            kept.sort_by(|x, y| {
                a.arg_types
                    .iter()
                    .enumerate()
                    .map(|(i, t)| sort::compare_values(*t, &x[i], &y[i], false, false))
                    .find(|o| o.is_ne())
                    .unwrap_or(std::cmp::Ordering::Equal)
            });
        } else {
            kept.sort_by(|x, y| {
                a.order
                    .iter()
                    .enumerate()
                    .map(|(i, s)| sort::compare_values(s.ty, &x[width + i], &y[width + i], s.descending, s.nulls_first))
                    .find(|o| o.is_ne())
                    .unwrap_or(std::cmp::Ordering::Equal)
            });
        }
        for r in &kept {
            acc.add(&r[..width], &cx.eval)?;
        }
    }
    acc.finish(&cx.eval)
}
