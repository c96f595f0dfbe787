//! Rows that are changed the most, from samples of updates.
//!
//! Invariants
//! 1. A worker counts its own updates in a line of its own; one in [`SAMPLE_EVERY`] leaves a sample, whose mutex nobody else
//!    takes but who looks. An update that leaves none costs an addition.
//! 2. A worker keeps its last [`SAMPLES`] samples, with their times: who looks sees how often a row was changed lately, and
//!    never how often in all.
//!
//! Must not know: pages, transactions, who looks.

use kilndb_base::RowId;
use kilndb_base::hash::HashMap;
use kilndb_base::sync::Mutex;
use kilndb_base::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::collections::VecDeque;

/// A prime: statements that update several rows in turn are sampled at each of them.
const SAMPLE_EVERY: u32 = 61;
const SAMPLES: usize = 512;
/// Samples that are older say nothing of now.
const WINDOW_NANOS: u64 = 5_000_000_000;

#[derive(Clone, Copy)]
struct UpdateSample {
    at_nanos: u64,
    relation: u32,
    row: RowId,
}

#[derive(Default)]
#[repr(align(128))]
struct WorkerSamples {
    updates: AtomicU32,
    last: Mutex<VecDeque<UpdateSample>>,
}

/// The samples of all workers.
pub(crate) struct UpdateSamples(Vec<WorkerSamples>);

/// How often a row was updated lately.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct UpdateRate {
    pub relation: u32,
    pub row: RowId,
    pub per_second: f64,
}

impl UpdateSamples {
    pub fn new(workers: usize) -> UpdateSamples {
        UpdateSamples((0..workers).map(|_| WorkerSamples::default()).collect())
    }

    /// Counts an update that `worker` has done. `now_nanos` is asked for a sample alone.
    #[inline]
    pub fn note(&self, worker: usize, relation: u32, row: RowId, now_nanos: impl FnOnce() -> u64) {
        let own = &self.0[worker];
        let updates = own.updates.load(Relaxed).wrapping_add(1);
        own.updates.store(updates, Relaxed);
        if updates.is_multiple_of(SAMPLE_EVERY) {
            own.keep(UpdateSample { at_nanos: now_nanos(), relation, row });
        }
    }

    /// The rows of the samples, those that were updated the most first.
    pub fn rates(&self, now_nanos: u64) -> Vec<UpdateRate> {
        let mut found: HashMap<(u32, u64), f64> = HashMap::default();
        for worker in &self.0 {
            let last = crate::lock(&worker.last);
            let is_recent = |sample: &&UpdateSample| now_nanos.saturating_sub(sample.at_nanos) <= WINDOW_NANOS;
            let recent: Vec<UpdateSample> = last.iter().filter(is_recent).copied().collect();
            // What was thrown away for want of room would have been older than the first one that is here.
            let begins = if last.len() == SAMPLES { recent.first().map(|sample| sample.at_nanos) } else { None };
            drop(last);
            let begins = begins.unwrap_or(now_nanos.saturating_sub(WINDOW_NANOS));
            let seconds = now_nanos.saturating_sub(begins).max(1) as f64 / 1e9;
            for sample in recent {
                let rate = found.entry((sample.relation, sample.row.to_u64())).or_default();
                *rate += f64::from(SAMPLE_EVERY) / seconds;
            }
        }
        let rate = |((relation, row), per_second)| UpdateRate { relation, row: RowId::from_u64(row), per_second };
        let mut rates: Vec<UpdateRate> = found.into_iter().map(rate).collect();
        rates.sort_by(|a, b| b.per_second.total_cmp(&a.per_second).then(a.row.to_u64().cmp(&b.row.to_u64())));
        rates
    }
}

impl WorkerSamples {
    #[cold]
    fn keep(&self, sample: UpdateSample) {
        let mut last = crate::lock(&self.last);
        if last.len() == SAMPLES {
            last.pop_front();
        }
        last.push_back(sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn row(slot: u16) -> RowId {
        RowId { block: 7, slot }
    }

    #[test]
    fn the_rate_of_a_row_is_that_of_its_updates() {
        let samples = UpdateSamples::new(2);
        // Two rows in turn: 20,000 updates a second on each of two workers, for a second.
        for update in 0..20_000_u64 {
            for worker in 0..2 {
                samples.note(worker, 3, row((update % 2) as u16 + 1), || 10_000 * MS + update * MS / 20);
            }
        }
        let rates = samples.rates(11_000 * MS);
        assert_eq!(rates.len(), 2, "{rates:?}");
        for rate in rates {
            assert_eq!(rate.relation, 3);
            // Nothing was thrown away: the window is longer than the load.
            assert!((rate.per_second * 5.0 / 20_000.0 - 1.0).abs() < 0.05, "{rate:?}");
        }
    }

    #[test]
    fn a_fast_row_is_judged_by_the_time_of_its_samples() {
        let samples = UpdateSamples::new(1);
        for update in 0..100_000_u64 {
            samples.note(0, 3, row(1), || update * 10_000);
        }
        let rates = samples.rates(100_000 * 10_000);
        assert!((rates[0].per_second / 100_000.0 - 1.0).abs() < 0.05, "{rates:?}");
    }

    #[test]
    fn what_is_long_ago_does_not_count() {
        let samples = UpdateSamples::new(1);
        (0..1000).for_each(|_| samples.note(0, 3, row(1), || 0));
        assert!(!samples.rates(1000 * MS).is_empty());
        assert_eq!(samples.rates(6000 * MS), []);
    }
}
