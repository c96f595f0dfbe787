//! TPC-C as data and as a load: new orders that were committed count as transactions, each with its latency.
//!
//! Must not know: experiments and targets.

use super::{KindLoad, KindVariables};
use crate::client::Client;
use crate::driver::{EndedTransaction, LoadFigures};
use crate::tpcc::{self, RoundTrips, TpccControl, TpccLoad, TpccRun, TpccSize};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const SEED: u64 = 20_261_126;

fn size(variables: KindVariables<'_>) -> Result<TpccSize, String> {
    Ok(TpccSize {
        warehouses: variables.number("warehouses", (1, 10_000))?,
        // Fewer would not have the lines of an order, or customers whose orders are delivered and others.
        items: variables.number("items", (20, 100_000))?,
        customers: variables.number("customers", (10, 3_000))?,
    })
}

pub(super) fn fill(client: &mut Client, variables: KindVariables<'_>) -> Result<(), String> {
    tpcc::fill(client, size(variables)?, SEED)
}

pub(super) fn run_statements(load: &KindLoad<'_>) -> Result<LoadFigures, String> {
    run(load, RoundTrips::Statements)
}
pub(super) fn run_batches(load: &KindLoad<'_>) -> Result<LoadFigures, String> {
    run(load, RoundTrips::Batches)
}

fn run(load: &KindLoad<'_>, round_trips: RoundTrips) -> Result<LoadFigures, String> {
    // No run repeats another one's choices.
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let seed = SEED + RUNS.fetch_add(1, Ordering::Relaxed);
    // With more threads the clients would take more of the cores that servers of this machine share with them.
    let threads = std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1) as u32);
    let terminals = u32::try_from(load.clients).unwrap_or(u32::MAX);
    let run = TpccLoad { size: size(load.variables)?, terminals, threads, time: load.length, round_trips, seed };
    let control = TpccControl { is_over: &AtomicBool::new(false), entered: load.ended };
    tpcc::run(&load.login, &run, control).map(|run| figures_of(&run))
}

fn figures_of(run: &TpccRun) -> LoadFigures {
    let mut figures = LoadFigures { elapsed: run.time, ..LoadFigures::default() };
    for entry in &run.entries {
        figures.ended(&EndedTransaction { at: entry.at, latency: entry.took, changed_rows: 0 });
    }
    for (at, sqlstate) in &run.refused {
        figures.failed(*at, sqlstate, "rolled back for another transaction");
    }
    figures
}

pub(super) fn breaches(client: &mut Client) -> Result<Vec<String>, String> {
    let broken = tpcc::consistency::breaches(client)?;
    Ok(broken.iter().map(|(number, count)| format!("TPC-C's condition {number}: {count} times")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::OrderEntry;
    use std::time::Duration;

    #[test]
    fn new_orders_are_the_transactions_and_have_their_latencies() {
        let ms = Duration::from_millis;
        let entry = |at, took| OrderEntry { at: ms(at), took: ms(took) };
        let run = TpccRun {
            done: [3, 4, 1, 1, 1],
            entries: vec![entry(100, 2), entry(1_900, 4), entry(1_950, 90)],
            refused: vec![(ms(1_000), "40P01".into())],
            time: ms(2_000),
            ..TpccRun::default()
        };
        let figures = figures_of(&run);
        assert_eq!((figures.transactions(), figures.failures(), figures.elapsed), (3, 1, ms(2_000)));
        assert_eq!(figures.seconds.iter().map(|second| second.transactions).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(figures.errors.get("40P01"), Some(&1));
        let longest = figures.percentile_us(100.0);
        assert!((89_000..92_000).contains(&longest), "{longest}");
    }
}
