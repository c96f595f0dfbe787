//! What is seen of a server while a load runs: what its sessions wait for, and its memory. It shows the progress as well.
//!
//! 1. It looks so rarely that it does not count: twice a second, from a connection of its own.
//!
//! Must not know: what the load is.

use super::LOOK_EVERY;
use super::cell::LabCell;
use super::progress::LabProgress;
use crate::client::Client;
use crate::driver::LoadPlan;
use crate::target::session_name;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SAMPLE_EVERY: Duration = Duration::from_millis(500);
/// Reading the memory of thousands of processes takes long.
const MEMORY_EVERY: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(super) struct Observed {
    /// How often sessions were seen to wait for what; `running`: they did not wait.
    pub waits: BTreeMap<String, u64>,
    pub samples: u64,
    /// The most that was seen.
    pub memory_bytes: Option<u64>,
}

/// Runs `load`, and looks on until it is over.
pub(super) fn beside<T>(
    cell: &LabCell<'_>,
    plan: &LoadPlan,
    progress: &mut LabProgress,
    load: impl FnOnce() -> T,
) -> (T, Observed) {
    let is_over = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sampler = scope.spawn(move || sample(cell, is_over));
        let shower = scope.spawn(move || {
            let mut second = Instant::now();
            while !is_over.load(Ordering::Acquire) {
                std::thread::sleep(LOOK_EVERY);
                if second.elapsed() >= Duration::from_secs(1) {
                    second += Duration::from_secs(1);
                    progress.second(plan.ended.load(Ordering::Relaxed));
                }
            }
        });
        let done = {
            let _over = crate::guard::SetAtEnd(is_over);
            load()
        };
        // A thread that panicked has seen nothing.
        let _ = shower.join();
        (done, sampler.join().unwrap_or_default())
    })
}

fn sample(cell: &LabCell<'_>, is_over: &AtomicBool) -> Observed {
    let mut observed = Observed::default();
    let mut client = cell.observer();
    let (mut next_sample, mut next_memory) = (Instant::now() + SAMPLE_EVERY, Instant::now() + SAMPLE_EVERY);
    while !is_over.load(Ordering::Acquire) {
        std::thread::sleep(LOOK_EVERY);
        let now = Instant::now();
        if now >= next_sample {
            next_sample = now + SAMPLE_EVERY;
            // One that cannot be asked any more is not asked again.
            if client.as_mut().is_some_and(|client| !note_waits(client, &mut observed)) {
                client = None;
            }
        }
        if now >= next_memory {
            next_memory = now + MEMORY_EVERY;
            observed.memory_bytes = observed.memory_bytes.max(cell.memory_bytes());
        }
    }
    observed
}

fn note_waits(client: &mut Client, observed: &mut Observed) -> bool {
    let sql = format!(
        "select coalesce(wait_event_type || ':' || wait_event, 'running'), count(*) from pg_stat_activity \
         where application_name = '{}' and state = 'active' and pid <> pg_backend_pid() group by 1",
        session_name()
    );
    let Ok(answers) = client.query(&sql) else { return false };
    observed.samples += 1;
    for row in answers.iter().flat_map(|answer| &answer.rows) {
        if let [Some(event), Some(count)] = &row[..] {
            *observed.waits.entry(event.clone()).or_default() += count.parse::<u64>().unwrap_or(0);
        }
    }
    true
}
