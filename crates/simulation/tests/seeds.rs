//! Some seeds, the same in each run of the tests; `make simulate` draws fresh ones.

use std::process::{Command, Output};

fn simulate(arguments: &[&str]) -> (Output, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_kilndb-simulation")).args(arguments).output().expect("it is started");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, text)
}

/// `KILNDB_SIMULATION_SEEDS`: another number of them.
fn seeds(usual: u64) -> String {
    std::env::var("KILNDB_SIMULATION_SEEDS").unwrap_or_else(|_| usual.to_string())
}

#[test]
fn nothing_is_found_and_each_seed_replays() {
    let (output, text) = simulate(&["--seed", "1", "--seeds", &seeds(40), "--twice"]);
    assert!(output.status.success(), "{text}");
}

#[test]
fn what_is_planted_is_found() {
    for name in ["SnapshotOneTooNew", "LosersStay", "NoRecheckAfterWait"] {
        let (output, text) = simulate(&["--seed", "1", "--seeds", "40", "--plant", name]);
        assert!(output.status.success(), "{name} was not found: {text}");
    }
}
