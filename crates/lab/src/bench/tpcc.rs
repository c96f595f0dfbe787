//! TPC-C: new orders a minute, by warehouses and terminals.

use super::BenchOptions;
use super::turns::{BenchStage, ServerTurn};
use kilndb_lab::client::Client;
use kilndb_lab::statistics::Better;
use kilndb_lab::tpcc::{self, RoundTrips, TpccLoad, TpccRun, TpccSize};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Long runs instead of many: caches, checkpoints and the growth of tables count.
const TURNS: usize = 3;
/// A turn's seconds, in those of pgbench's runs.
const SECONDS_A_TURN: u32 = 10;
const SEED: u64 = 20_261_126;

pub(super) fn stages(options: &BenchOptions) -> Vec<BenchStage> {
    let mut stages = Vec::new();
    for &warehouses in &options.warehouses {
        stages.push(load(warehouses));
        for &terminals in &options.terminals {
            let crowd = Crowd { warehouses, terminals, round_trips: RoundTrips::Statements };
            stages.push(orders(crowd));
            stages.push(orders(Crowd { round_trips: RoundTrips::Batches, ..crowd }));
        }
        stages.push(check(warehouses));
    }
    stages
}

/// Who enters orders, and how.
#[derive(Clone, Copy)]
struct Crowd {
    warehouses: u32,
    terminals: u32,
    round_trips: RoundTrips,
}

fn load(warehouses: u32) -> BenchStage {
    let row = format!("TPC-C, {warehouses} warehouses, loading, seconds");
    BenchStage::new(&row.clone(), move |turn| {
        let began = Instant::now();
        tpcc::create(&turn.side.at, TpccSize::standard(warehouses), SEED)?;
        turn.put(&row, Better::Less, began.elapsed().as_secs_f64());
        Ok(())
    })
    .begin(|turn| tpcc::drop_database(&turn.side.at))
    .turns(1)
    .unjudged()
}

fn orders(crowd: Crowd) -> BenchStage {
    let batches = if crowd.round_trips == RoundTrips::Batches { ", in batches" } else { "" };
    let row = format!("TPC-C, {} warehouses, {} clients{batches}", crowd.warehouses, crowd.terminals);
    BenchStage::new(&row.clone(), move |turn| {
        let done = run(turn, crowd)?;
        turn.put(&format!("{row}, new orders a minute"), Better::More, done.orders_a_minute());
        turn.put(&format!("{row}, new order, p95, ms"), Better::Less, quantile_ms(&done, 95));
        if done.refused > 0 {
            turn.add(&format!("{row}, rolled back for others, all runs"), done.refused as f64);
        }
        Ok(())
    })
    .begin(move |turn| run(turn, crowd).map(drop))
    .turns(TURNS)
}

fn run(turn: &ServerTurn<'_>, crowd: Crowd) -> Result<TpccRun, String> {
    // No run repeats another one's choices.
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let seed = SEED + RUNS.fetch_add(1, Ordering::Relaxed);
    let time = Duration::from_secs(u64::from(SECONDS_A_TURN * turn.options.duration_s));
    let Crowd { warehouses, terminals, round_trips } = crowd;
    let load =
        TpccLoad { size: TpccSize::standard(warehouses), terminals, threads: threads(), time, round_trips, seed };
    tpcc::run(&turn.side.at, &load, &AtomicBool::new(false))
}

/// The client's threads: with more of them it would take more of the cores that the servers share with it.
fn threads() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1) as u32)
}

fn quantile_ms(run: &TpccRun, percent: usize) -> f64 {
    let mut sorted = run.entry_us.clone();
    sorted.sort_unstable();
    sorted.get(sorted.len() * percent / 100).map_or(f64::NAN, |us| f64::from(*us) / 1000.0)
}

/// What all the runs have left keeps the conditions of the specification.
fn check(warehouses: u32) -> BenchStage {
    BenchStage::new(&format!("TPC-C, {warehouses} warehouses, conditions"), |turn| {
        let mut client = Client::connect(&turn.side.at, tpcc::DATABASE).map_err(|e| e.to_string())?;
        match tpcc::consistency::breaches(&mut client)? {
            none if none.is_empty() => Ok(()),
            broken => Err(format!("conditions are broken (number, how often): {broken:?}")),
        }
    })
    .end(|turn| tpcc::drop_database(&turn.side.at))
    .turns(1)
}
