//! A round here; `make crash ROUNDS=500` for more. `KILNDB_CRASH_SEED` repeats the choices of a run.

use kilndb_sim::definitions::{self, DefinitionOptions};

fn run(only_synchronous: bool) {
    let number = |name: &str, default: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64);
    let options = DefinitionOptions {
        rounds: number("KILNDB_CRASH_ROUNDS", 1),
        sessions: 6,
        load_max_ms: 1500,
        only_synchronous,
        seed: number("KILNDB_CRASH_SEED", time),
    };
    println!("seed {}", options.seed);
    match definitions::run(&options, |line| println!("{line}")) {
        Ok(report) => {
            println!("{report:?}");
            assert!(report.acknowledged > 0 && report.indexes_compared > 0);
        }
        Err(message) => panic!("{message}"),
    }
}

#[test]
fn killed_amid_changes_of_definitions() {
    run(false);
}

#[test]
fn killed_amid_changes_of_definitions_that_wait_for_the_log() {
    run(true);
}
