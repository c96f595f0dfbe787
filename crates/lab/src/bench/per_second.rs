//! What pgbench has done in each second, from its logs.

use kilndb_lab::process::TempDir;
use kilndb_lab::statistics::median;
use std::collections::BTreeMap;

/// What a run was like, second by second.
pub(super) struct PerSecondFigures {
    pub median: f64,
    pub worst: f64,
    pub worst_latency_ms: f64,
}

/// Reads the logs of all threads: second, transactions, sum and sum of squares of latencies, least and greatest latency
/// in µs.
pub(super) fn by_second(logs: &TempDir) -> Result<PerSecondFigures, String> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    let mut worst_us = 0u64;
    for file in std::fs::read_dir(logs.path()).map_err(|e| e.to_string())?.flatten() {
        let text = std::fs::read_to_string(file.path()).map_err(|e| e.to_string())?;
        for line in text.lines() {
            let fields: Vec<u64> = line.split(' ').map_while(|f| f.parse().ok()).collect();
            if let [second, count, _, _, _, greatest, ..] = fields[..] {
                *counts.entry(second).or_default() += count;
                worst_us = worst_us.max(greatest);
            }
        }
    }
    // The first and the last are parts of seconds; in a very short run they are all there is.
    let (first, last) = match (counts.keys().next(), counts.keys().next_back()) {
        (Some(first), Some(last)) if last - first >= 2 => (first + 1, last - 1),
        (Some(first), Some(last)) => (*first, *last),
        _ => return Err("pgbench has logged nothing".into()),
    };
    let seconds: Vec<f64> = (first..=last).map(|s| counts.get(&s).copied().unwrap_or(0) as f64).collect();
    Ok(PerSecondFigures {
        worst: seconds.iter().copied().fold(f64::INFINITY, f64::min),
        median: median(seconds),
        worst_latency_ms: worst_us as f64 / 1000.0,
    })
}
