//! The rows of a nested loop's inner side, kept by the values that it is run with. What was used longest ago goes when
//! there is no more room.

use super::context::*;
use super::hash::{ENTRY_BYTES, KeyMap};
use super::state::UnaryInput;
use kilndb_base::Result;
use kilndb_plan::Op;
use kilndb_spill::row_bytes;
use kilndb_types::{Datum, row};
use std::collections::VecDeque;
use std::sync::Arc;

/// The rows of one run.
struct KeptRun {
    rows: Arc<Vec<Datum>>,
    count: usize,
    bytes: usize,
    /// When it was used last.
    stamp: u64,
}

/// What the present run does.
enum MemoizeRun {
    NotBegun,
    /// Its rows are kept: the next one is this.
    Hit {
        rows: Arc<Vec<Datum>>,
        count: usize,
        next: usize,
    },
    /// Rows come from the input, and are gathered to be kept; None: they are too many.
    Miss {
        gathered: Option<(Vec<Datum>, usize)>,
    },
    Ended,
}

pub(crate) struct MemoizeState {
    pub unary: UnaryInput,
    kept: KeyMap<KeptRun>,
    /// Keys in the order of their use, the last one at the end; those that were used again later are there twice.
    used: VecDeque<(Box<[u8]>, u64)>,
    used_bytes: usize,
    clock: u64,
    key: Vec<u8>,
    run: MemoizeRun,
    is_input_used: bool,
    hits: u64,
    misses: u64,
    evictions: u64,
    overflows: u64,
    peak_bytes: usize,
}

impl MemoizeState {
    pub fn new(unary: UnaryInput) -> MemoizeState {
        MemoizeState {
            unary,
            kept: KeyMap::default(),
            used: VecDeque::new(),
            used_bytes: 0,
            clock: 0,
            key: Vec::new(),
            run: MemoizeRun::NotBegun,
            is_input_used: false,
            hits: 0,
            misses: 0,
            evictions: 0,
            overflows: 0,
            peak_bytes: 0,
        }
    }
    /// Another run begins, maybe with other values.
    pub(crate) fn rescan(&mut self) {
        self.run = MemoizeRun::NotBegun;
    }
    /// What was kept is of no use any more: values that the rows depend on beside the keys may be others.
    pub(crate) fn forget(&mut self) {
        self.kept.clear();
        self.used.clear();
        self.used_bytes = 0;
        self.run = MemoizeRun::NotBegun;
    }

    fn begin(&mut self, params: &[usize], rt: &mut RunState) {
        self.key.clear();
        for param in params {
            let value = rt.exec_params.get(*param).unwrap_or(&Datum::Null);
            row::encode_self_describing(std::slice::from_ref(value), &mut self.key);
        }
        self.clock += 1;
        if let Some(found) = self.kept.get_mut(self.key.as_slice()) {
            found.stamp = self.clock;
            self.hits += 1;
            self.run = MemoizeRun::Hit { rows: found.rows.clone(), count: found.count, next: 0 };
            self.used.push_back((self.key.as_slice().into(), self.clock));
            self.forget_uses();
            return;
        }
        self.misses += 1;
        if std::mem::replace(&mut self.is_input_used, true) {
            self.unary.rescan(rt);
        }
        self.run = MemoizeRun::Miss { gathered: Some((Vec::new(), 0)) };
    }

    /// Uses that a later one has made void are not to become more than there are keys.
    fn forget_uses(&mut self) {
        if self.used.len() <= 2 * self.kept.len() + 64 {
            return;
        }
        let kept = &self.kept;
        self.used.retain(|(key, stamp)| kept.get(key).is_some_and(|run| run.stamp == *stamp));
    }

    fn keep(&mut self, (rows, count): (Vec<Datum>, usize), budget_bytes: usize) {
        let bytes = row_bytes(&rows) + 2 * self.key.len() + ENTRY_BYTES + size_of::<KeptRun>();
        if bytes > budget_bytes {
            self.overflows += 1;
            return;
        }
        while self.used_bytes + bytes > budget_bytes {
            let Some((key, stamp)) = self.used.pop_front() else { break };
            if self.kept.get(&key).is_some_and(|run| run.stamp == stamp)
                && let Some(gone) = self.kept.remove(&key)
            {
                self.used_bytes -= gone.bytes;
                self.evictions += 1;
            }
        }
        self.used_bytes += bytes;
        self.peak_bytes = self.peak_bytes.max(self.used_bytes);
        self.used.push_back((self.key.as_slice().into(), self.clock));
        let run = KeptRun { rows: Arc::new(rows), count, bytes, stamp: self.clock };
        self.kept.insert(self.key.as_slice().into(), run);
    }

    pub fn next(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::Memoize { params, single, .. } = &node.op else { return Ok(()) };
        if let MemoizeRun::NotBegun = self.run {
            self.begin(params, rt);
        }
        match std::mem::replace(&mut self.run, MemoizeRun::Ended) {
            MemoizeRun::NotBegun | MemoizeRun::Ended => {}
            MemoizeRun::Hit { rows, count, mut next } => {
                while next < count && !out.full() {
                    out.push(rows.get(next * out.width..(next + 1) * out.width).unwrap_or(&[]));
                    next += 1;
                }
                self.run = MemoizeRun::Hit { rows, count, next };
            }
            MemoizeRun::Miss { mut gathered } => {
                self.unary.input.next(out, rt, cx)?;
                let is_end = out.rows == 0;
                if let Some((rows, count)) = &mut gathered {
                    rows.extend_from_slice(&out.data);
                    *count += out.rows;
                    if rows.len() * size_of::<Datum>() > cx.hash_mem_bytes {
                        self.overflows += 1;
                        gathered = None;
                    }
                }
                match gathered {
                    // One row is all that is asked for.
                    Some(rows) if is_end || *single => self.keep(rows, cx.hash_mem_bytes),
                    gathered if !is_end => self.run = MemoizeRun::Miss { gathered },
                    _ => {}
                }
            }
        }
        if rt.counters.is_some() {
            let report = NodeReport::Memoize {
                hits: self.hits,
                misses: self.misses,
                evictions: self.evictions,
                overflows: self.overflows,
                memory: self.peak_bytes as u64,
            };
            rt.report(node.id, report);
        }
        Ok(())
    }
}
