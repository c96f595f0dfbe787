//! How long commits take, from samples.
//!
//! Invariants
//! 1. A worker counts its own commits in lines of its own, which nobody else writes to. A commit that is not timed costs an
//!    addition and two comparisons.
//! 2. One commit in [`SAMPLE_EVERY`] is timed, and besides the first of each [`SLOT_MICROS`]: where few commit, each counts.
//! 3. Counts only grow, until the server starts anew.
//!
//! Must not know: what a commit does, who looks.

use crate::api::CommitTimeBucket;
use kilndb_base::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

const SAMPLE_EVERY: u32 = 16;
const SLOT_MICROS: i64 = 10_000;

/// Each power of two has four buckets, so that a bucket's bounds are at most a quarter apart. Below four microseconds each
/// number has its own.
const BUCKETS_PER_POWER: usize = 4;
/// The last bucket begins at 117 seconds, and has no end.
const BUCKETS: usize = 104;

#[repr(align(128))]
struct WorkerCommits {
    commits: AtomicU32,
    /// When a commit was timed last, in slots of time.
    slot: AtomicI64,
    samples: [AtomicU64; BUCKETS],
    total_nanos: [AtomicU64; BUCKETS],
}

impl Default for WorkerCommits {
    fn default() -> WorkerCommits {
        WorkerCommits {
            commits: AtomicU32::new(0),
            slot: AtomicI64::new(0),
            samples: [const { AtomicU64::new(0) }; BUCKETS],
            total_nanos: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }
}

/// The times of all workers.
pub(crate) struct CommitTimes(Vec<WorkerCommits>);

impl CommitTimes {
    pub fn new(workers: usize) -> CommitTimes {
        CommitTimes((0..workers).map(|_| WorkerCommits::default()).collect())
    }

    /// Whether `worker` is to time the commit that begins now. `now_micros`: about now; when the commit's statement began is near
    /// enough.
    #[inline]
    pub fn is_due(&self, worker: usize, now_micros: i64) -> bool {
        let own = &self.0[worker % self.0.len()];
        let commits = own.commits.load(Relaxed).wrapping_add(1);
        own.commits.store(commits, Relaxed);
        let slot = now_micros / SLOT_MICROS;
        if !commits.is_multiple_of(SAMPLE_EVERY) && slot == own.slot.load(Relaxed) {
            return false;
        }
        own.slot.store(slot, Relaxed);
        true
    }

    /// A commit that was due has taken so long.
    pub fn note(&self, worker: usize, nanos: u64) {
        let own = &self.0[worker % self.0.len()];
        let bucket = bucket_of(nanos / 1000);
        // Only this worker writes here.
        let add = |counter: &AtomicU64, more: u64| counter.store(counter.load(Relaxed).wrapping_add(more), Relaxed);
        add(&own.samples[bucket], 1);
        add(&own.total_nanos[bucket], nanos);
    }

    /// What all workers have counted, in the order of times.
    pub fn buckets(&self) -> Vec<CommitTimeBucket> {
        let sum = |of: fn(&WorkerCommits, usize) -> &AtomicU64, at: usize| {
            self.0.iter().map(|worker| of(worker, at).load(Relaxed)).fold(0, u64::wrapping_add)
        };
        let bucket = |at: usize| CommitTimeBucket {
            from_us: least_of(at),
            to_us: (at + 1 < BUCKETS).then(|| least_of(at + 1)),
            samples: sum(|worker, at| &worker.samples[at], at),
            total_us: sum(|worker, at| &worker.total_nanos[at], at) / 1000,
        };
        (0..BUCKETS).map(bucket).collect()
    }
}

fn bucket_of(micros: u64) -> usize {
    let Some(power) = micros.checked_ilog2().filter(|power| *power >= 2) else { return micros as usize };
    let quarter = (micros >> (power - 2)) as usize % BUCKETS_PER_POWER;
    ((power as usize - 1) * BUCKETS_PER_POWER + quarter).min(BUCKETS - 1)
}

/// The least number of microseconds that a bucket is for.
fn least_of(bucket: usize) -> u64 {
    if bucket < BUCKETS_PER_POWER {
        return bucket as u64;
    }
    let power = bucket / BUCKETS_PER_POWER + 1;
    ((BUCKETS_PER_POWER + bucket % BUCKETS_PER_POWER) as u64) << (power - 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_has_one_bucket_and_bounds_are_a_quarter_apart() {
        for bucket in 0..BUCKETS {
            let least = least_of(bucket);
            assert_eq!(bucket_of(least), bucket);
            if bucket + 1 < BUCKETS {
                let next = least_of(bucket + 1);
                assert_eq!(bucket_of(next - 1), bucket);
                assert!(next - least <= (least / 4).max(1), "{least} to {next}");
            }
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn one_in_sixteen_is_timed_and_one_in_each_slot() {
        let times = CommitTimes::new(2);
        let due = (0..1600).filter(|_| times.is_due(1, 5)).count();
        assert_eq!(due, 100);
        // Where there are few, each is; and a clock that is set back does no harm.
        assert!((1..=20).rev().all(|slot| times.is_due(0, slot * SLOT_MICROS)));
    }

    #[test]
    fn samples_and_their_times_are_in_the_right_bucket() {
        let times = CommitTimes::new(2);
        times.note(0, 130_500);
        times.note(1, 140_500);
        times.note(1, 3_000_000);
        let found: Vec<CommitTimeBucket> = times.buckets().into_iter().filter(|bucket| bucket.samples > 0).collect();
        let expected = [
            CommitTimeBucket { from_us: 128, to_us: Some(160), samples: 2, total_us: 271 },
            CommitTimeBucket { from_us: 2560, to_us: Some(3072), samples: 1, total_us: 3000 },
        ];
        assert_eq!(found, expected);
    }
}
