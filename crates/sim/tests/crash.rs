//! Three rounds here; `make crash ROUNDS=100` for more.

use kilndb_sim::crash;

#[test]
fn acknowledged_transactions_survive_kill() {
    let number = |name: &str, default: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64);
    let options = crash::CrashOptions {
        rounds: number("KILNDB_CRASH_ROUNDS", 3) as usize,
        clients: 16,
        load_max_ms: 2_500,
        seed: number("KILNDB_CRASH_SEED", time),
    };
    println!("seed {}", options.seed);
    match crash::run(&options, |line| println!("{line}")) {
        Ok(report) => {
            println!(
                "{} rounds, {} transactions acknowledged and found, longest start {} ms",
                report.rounds, report.acknowledged, report.longest_start_ms
            );
            assert!(report.acknowledged > 0);
        }
        Err(message) => panic!("{message}"),
    }
}
