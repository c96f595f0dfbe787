//! A few seconds here. `KILNDB_FUZZ_MESSAGES` and `KILNDB_FUZZ_TEXTS` (each `KILNDB_FUZZ_ROUNDS` if not given) for
//! more, `KILNDB_FUZZ_SEED` for replay, `KILNDB_FUZZ_CORPUS` for a folder of .sql files to begin with (PostgreSQL's
//! src/test/regress/sql, for one).

use kilndb_sim::fuzz;

#[test]
fn nothing_a_client_sends_brings_the_server_down() {
    let number = |name: &str, default: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let rounds = number("KILNDB_FUZZ_ROUNDS", 4000);
    let options = fuzz::FuzzOptions {
        messages: number("KILNDB_FUZZ_MESSAGES", rounds),
        texts: number("KILNDB_FUZZ_TEXTS", rounds),
        clients: number("KILNDB_FUZZ_CLIENTS", 2),
        seed: number("KILNDB_FUZZ_SEED", std::process::id().into()),
        corpus: std::env::var_os("KILNDB_FUZZ_CORPUS").map(Into::into),
    };
    println!("seed {}", options.seed);
    let report = fuzz::run(&options, |line| println!("{line}")).unwrap_or_else(|e| panic!("{e}"));
    println!(
        "{} messages and {} texts ({} without an error) on {} connections in {} s; {} MB after a quarter, {} MB at the end",
        report.messages,
        report.texts,
        report.succeeded,
        report.connections,
        report.seconds,
        report.memory_warm_kb / 1024,
        report.memory_end_kb / 1024
    );
    println!("errors by SQLSTATE: {:?}", report.errors);
    assert!(report.internal_errors.is_empty(), "internal errors: {:#?}", report.internal_errors);
    assert!(report.stuck.is_empty(), "no answer: {:#?}", report.stuck);
    // A leak of 100 bytes a message or text would be 200 MB in the long run; short runs are still warming up.
    if report.messages + report.texts > 1_000_000 {
        let bound = report.memory_warm_kb * 5 / 4 + 64 * 1024;
        assert!(
            report.memory_end_kb <= bound,
            "memory grows: {} kB after a quarter, {} kB at the end",
            report.memory_warm_kb,
            report.memory_end_kb
        );
    }
}
