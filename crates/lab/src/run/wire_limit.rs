//! What the driver gets from a server that answers every message with prepared bytes: no server on this machine can give more.
//!
//! Must not know: experiments.

use crate::canned;
use crate::driver::{self, LoadLength, LoadPlan};
use crate::script::{Script, VariableNames};
use std::time::Duration;

const CLIENTS: usize = 64;
const LENGTH: Duration = Duration::from_secs(1);

/// Transactions of one statement a second.
pub(super) fn measure() -> Result<f64, String> {
    let (address, _folder) = canned::start().map_err(|e| e.to_string())?;
    let mut names = VariableNames::default();
    let text = "\\set aid random(1, 100000)\nselect abalance from pgbench_accounts where aid = :aid;\n";
    let script = Script::read("wire limit", text, &mut names)?;
    let figures = driver::run(&LoadPlan {
        clients: CLIENTS,
        scripts: vec![(script, 1)],
        names,
        length: LoadLength::After(LENGTH),
        ..LoadPlan::new(address, "postgres")
    })?;
    Ok(figures.transactions_per_second())
}
