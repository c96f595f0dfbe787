//! Arguments of aggregates that are kept until a group's end: those of aggregates with DISTINCT or ORDER BY.

use crate::context::*;
use crate::expr::Evaluate;
use crate::hash::DistinctKeys;
use crate::key_index::{KeyBatch, KeyIndex, entry_bytes};
use kilndb_base::Result;
use kilndb_plan::AggSpec;
use kilndb_spill::Sorter;
use kilndb_types::vector::{Rows, Vector};
use kilndb_types::{Datum, key, row};

/// Keys that are looked for between two looks at the time slice.
const STEP_KEYS: usize = 64;

pub(super) struct AggregateArguments {
    sorter: Sorter,
    /// The arguments that DISTINCT has seen so far. When there are too many of them the set is given up: the sort finds
    /// the duplicates then.
    seen: Option<KeyIndex>,
    seen_bytes: usize,
    /// The different arguments, where only their number counts.
    pub counted: Option<Box<CountedArguments>>,
    /// The sort's key of the row at hand.
    key: Vec<u8>,
}

#[derive(Default)]
pub(super) struct CountedArguments {
    keys: DistinctKeys,
    /// How many have been seen, without those that had to wait.
    count: i64,
}

impl CountedArguments {
    pub fn bytes(&self) -> usize {
        self.keys.used_bytes()
    }
    /// Takes in arguments that come as a column.
    pub fn add(
        &mut self,
        a: &AggSpec,
        (arg, rows): (&Vector, Rows<'_>),
        keys: &mut KeyBatch,
        cx: &ExecContext<'_>,
    ) -> Result<()> {
        let [ty] = &a.told_apart_types[..] else { return Ok(()) };
        keys.clear();
        rows.try_each(|row| if arg.is_null(row) { Ok(()) } else { keys.push(None, &[(arg, *ty)], row) })?;
        for at in 0..keys.len() {
            // Long keys take so long that a batch of them is more than others should wait for.
            if at % STEP_KEYS == 0 {
                cx.park.step()?;
            }
            let is_new = self.keys.offer_of(keys, at, |_| Ok(()), cx.hash_mem_bytes, cx.io())?;
            self.count += i64::from(is_new);
        }
        Ok(())
    }
    /// Their number, once all have been seen.
    pub fn finish(&mut self, cx: &ExecContext<'_>) -> Result<i64> {
        let mut rest = Batch::new(0);
        loop {
            rest.clear();
            self.keys.drain(&mut rest, cx.hash_mem_bytes, cx.io())?;
            if rest.rows == 0 {
                return Ok(self.count);
            }
            self.count += rest.rows as i64;
            cx.park.checkpoint()?;
        }
    }
}

impl AggregateArguments {
    pub fn new(a: &AggSpec, budget: usize) -> AggregateArguments {
        AggregateArguments {
            sorter: Sorter::new(budget),
            seen: (a.distinct && !a.counts_different()).then(KeyIndex::default),
            seen_bytes: 0,
            counted: a.counts_different().then(Box::default),
            key: Vec::new(),
        }
    }
    pub fn bytes(&self) -> usize {
        let counted = self.counted.as_ref().map_or(0, |counted| counted.bytes());
        counted + self.seen_bytes + self.sorter.memory_bytes()
    }

    /// The sort's key: what ORDER BY says, and for DISTINCT the arguments.
    pub fn add(
        &mut self,
        a: &AggSpec,
        row: &[Datum],
        args: &[Datum],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        if a.counts_different() && args.iter().any(Datum::is_null) {
            return Ok(());
        }
        self.key.clear();
        for s in &a.order {
            let v = s.expr.eval(row, rt, cx)?;
            key::encode_key(s.ty, &v, s.descending, s.nulls_first, &mut self.key)?;
        }
        if a.distinct {
            let from = self.key.len();
            for (d, t) in args.iter().zip(&a.told_apart_types) {
                key::hash_equal_key(*t, d, &mut self.key)?;
            }
            if let Some(counted) = &mut self.counted {
                let is_new = counted.keys.offer(&self.key, &[], cx.hash_mem_bytes, cx.io())?;
                counted.count += i64::from(is_new);
                return Ok(());
            }
            if !self.note_different(from) {
                return Ok(());
            }
            if self.seen_bytes > cx.work_mem_bytes / 2 {
                (self.seen, self.seen_bytes) = (None, 0);
            }
        }
        self.sorter.push(&self.key, args, cx.io())
    }

    /// Notes the arguments, whose key begins at `from`, if they were not seen before. False: they were.
    fn note_different(&mut self, from: usize) -> bool {
        let Some(seen) = &mut self.seen else { return true };
        let key = &self.key[from..];
        if seen.insert(key, 0).is_some() {
            return false;
        }
        self.seen_bytes += entry_bytes(key.len());
        true
    }

    /// Hands the arguments out in order, equal ones once if they are to be distinct.
    pub fn each(
        &mut self,
        a: &AggSpec,
        cx: &mut ExecContext<'_>,
        f: &mut dyn FnMut(&[Datum], &mut ExecContext<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut args = Vec::new();
        self.each_row(a.distinct, cx, &mut |bytes, cx| {
            args.clear();
            row::decode_self_describing(bytes, a.args.len(), &mut args)?;
            f(&args, cx)
        })
    }

    /// What was kept, in order.
    fn each_row(
        &mut self,
        distinct: bool,
        cx: &mut ExecContext<'_>,
        f: &mut dyn FnMut(&[u8], &mut ExecContext<'_>) -> Result<()>,
    ) -> Result<()> {
        let io = cx.io();
        self.seen = None;
        self.sorter.finish(io)?;
        let mut last: Option<Vec<u8>> = None;
        let mut count = 0;
        while let Some((k, bytes)) = self.sorter.advance(io)? {
            count += 1;
            if count % BATCH_ROWS == 0 {
                cx.park.checkpoint()?;
            }
            if distinct {
                if last.as_deref() == Some(k) {
                    continue;
                }
                let last = last.get_or_insert_default();
                last.clear();
                last.extend_from_slice(k);
            }
            f(bytes, cx)?;
        }
        Ok(())
    }
}
