//! What the driver gets from a server that answers every message with prepared bytes: no server on this machine can give more.
//!
//! Must not know: experiments.

use crate::canned;
use crate::client::Address;
use crate::driver::{self, LoadLength, LoadPlan};
use crate::process::TempDir;
use crate::script::{Script, VariableNames};
use std::time::{Duration, Instant};

const CLIENTS: usize = 64;
const LENGTH: Duration = Duration::from_secs(1);
const START_MAX: Duration = Duration::from_secs(5);

/// Transactions of one statement a second.
pub(super) fn measure() -> Result<f64, String> {
    let folder = TempDir::new("lab-wire").map_err(|e| e.to_string())?;
    let socket = folder.path().join(".s.PGSQL.5432");
    let listens_at = socket.clone();
    // It serves until this process ends; without its socket nobody reaches it any more.
    std::thread::spawn(move || canned::serve(&listens_at));
    let began = Instant::now();
    while !socket.exists() && began.elapsed() < START_MAX {
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut names = VariableNames::default();
    let text = "\\set aid random(1, 100000)\nselect abalance from pgbench_accounts where aid = :aid;\n";
    let script = Script::read("wire limit", text, &mut names)?;
    let address = Address { host: folder.path().display().to_string(), ..Address::local(5432) };
    let figures = driver::run(&LoadPlan {
        clients: CLIENTS,
        scripts: vec![(script, 1)],
        names,
        length: LoadLength::After(LENGTH),
        ..LoadPlan::new(address, "postgres")
    })?;
    Ok(figures.transactions_per_second())
}
