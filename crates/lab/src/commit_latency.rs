//! How long commits take, as a server counts them by time (`kiln_stat_commits`): what is in between two answers tells of that time.
//!
//! Must not know: how answers are shown.

use crate::client::Answer;
use std::collections::BTreeMap;

/// Samples and what they took together, by the least time of their bucket.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommitLatency(BTreeMap<u64, TimedCommits>);

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct TimedCommits {
    samples: u64,
    total_us: u64,
}

impl CommitLatency {
    /// Of an answer with the columns `from_us`, `samples` and `total_us`; what is not there is empty.
    pub fn of(answer: &Answer) -> CommitLatency {
        let at = |name: &str| answer.columns.iter().position(|(column, _)| column == name);
        let (Some(from), Some(samples), Some(total)) = (at("from_us"), at("samples"), at("total_us")) else {
            return CommitLatency::default();
        };
        let bucket = |row: &Vec<Option<String>>| {
            let number = |at: usize| row.get(at)?.as_deref()?.parse::<u64>().ok();
            Some((number(from)?, TimedCommits { samples: number(samples)?, total_us: number(total)? }))
        };
        CommitLatency(answer.rows.iter().filter_map(bucket).collect())
    }

    /// What has come since an earlier answer. A server that was started anew counts from the beginning.
    pub fn since(&self, before: &CommitLatency) -> CommitLatency {
        let more = |(from_us, now): (&u64, &TimedCommits)| {
            let then = before.0.get(from_us).copied().unwrap_or_default();
            let samples = now.samples.saturating_sub(then.samples);
            let total_us = now.total_us.saturating_sub(then.total_us);
            (samples > 0).then_some((*from_us, TimedCommits { samples, total_us }))
        };
        CommitLatency(self.0.iter().filter_map(more).collect())
    }

    /// The time that so many percent of the commits did not exceed, as far as buckets tell: the mean of the one that it is in.
    pub fn percentile_us(&self, percent: f64) -> Option<f64> {
        let all: u64 = self.0.values().map(|timed| timed.samples).sum();
        let wanted = (all as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut passed = 0;
        let bucket = self.0.values().find(|timed| {
            passed += timed.samples;
            passed >= wanted
        });
        bucket.map(|timed| timed.total_us as f64 / timed.samples as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(rows: &[[u64; 3]]) -> Answer {
        let columns = ["from_us", "samples", "total_us"].map(|name| (name.to_string(), 20)).to_vec();
        let rows = rows.iter().map(|row| row.map(|number| Some(number.to_string())).to_vec()).collect();
        Answer { columns, rows, ..Answer::default() }
    }

    #[test]
    fn percentiles_are_of_what_came_in_between() {
        let before = CommitLatency::of(&answer(&[[4, 10, 40], [128, 2, 300]]));
        let now = CommitLatency::of(&answer(&[[4, 10, 40], [128, 100, 14_020], [1024, 2, 2200]]));
        let since = now.since(&before);
        assert_eq!(since.percentile_us(50.0), Some(140.0));
        assert_eq!(since.percentile_us(99.0), Some(1100.0));
        assert_eq!(now.since(&now).percentile_us(50.0), None);
        assert_eq!(before.since(&now).percentile_us(50.0), None, "it was started anew");
    }

    #[test]
    fn what_is_no_answer_tells_nothing() {
        assert_eq!(CommitLatency::of(&Answer::default()).percentile_us(50.0), None);
    }
}
