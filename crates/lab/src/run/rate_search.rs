//! The rate that a server keeps up with: transactions a second, due at times of their own, of which 99 % take at most 10 ms.
//!
//! It is found by doubling from a tenth of what the closed loop reached, then by halving what lies between the last rate that was
//! kept and the first that was not.
//!
//! Must not know: what runs.

use super::cell::{LabCell, LoadShape};
use super::is_stopped;
use super::progress::LabProgress;
use crate::results::{CellResults, RunResults};
use std::time::Duration;

const P99_MAX_US: u64 = 10_000;
const STEP: Duration = Duration::from_secs(3);
/// The rate is known to a sixteenth by then.
const HALVINGS: usize = 4;
const DOUBLINGS_MAX: usize = 12;
/// Of the transactions that were due, so many have to have ended.
const ENDED_MIN: f64 = 0.95;

pub(super) fn search(cell: &mut LabCell<'_>, results: &mut CellResults, progress: &mut LabProgress) {
    let rates = results.runs.iter().map(|run| run.transactions as f64 / run.elapsed_s.max(1e-9));
    let Some(most) = rates.reduce(f64::max).filter(|_| results.problem.is_none()) else { return };
    let clients = results.clients;
    let mut keeps = |rate: f64| {
        progress.begin(&format!("{} at {rate:.0}/s", cell.name()), clients, None);
        let run = cell.run_shaped(LoadShape { clients, length: STEP, rate: Some(rate) }, progress);
        run.map(|run| is_kept(&run, rate))
    };
    results.rate_within_10_ms = find(most / 10.0, &mut keeps).ok().flatten();
}

/// None: not even a small part of the first rate is kept. Errors: a run failed.
fn find(first: f64, keeps: &mut dyn FnMut(f64) -> Result<bool, String>) -> Result<Option<f64>, String> {
    let (mut low, mut high) = (0.0, first);
    for _ in 0..DOUBLINGS_MAX {
        if is_stopped() || !keeps(high)? {
            break;
        }
        (low, high) = (high, high * 2.0);
    }
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        match !is_stopped() && keeps(middle)? {
            true => low = middle,
            false => high = middle,
        }
    }
    Ok((low > 0.0).then_some(low))
}

fn is_kept(run: &RunResults, rate: f64) -> bool {
    let ended = run.transactions as f64 / run.elapsed_s.max(1e-9);
    run.percentile_us(99.0).is_some_and(|p99| p99 <= P99_MAX_US) && ended >= ENDED_MIN * rate
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_found_to_a_sixteenth() {
        for limit in [130.0, 999.0, 4_000.0, 90.0] {
            let found = find(100.0, &mut |rate| Ok(rate <= limit)).expect("no run fails").expect("there is one");
            assert!(found <= limit && found > limit * 0.85, "{found} of {limit}");
        }
        assert_eq!(find(100.0, &mut |_| Ok(false)), Ok(None));
    }
}
