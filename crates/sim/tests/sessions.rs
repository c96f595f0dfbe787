//! A few rounds here; KILNDB_SESSIONS and KILNDB_KILL_ROUNDS ask for more.

use kilndb_sim::sessions;

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

#[test]
fn idle_sessions_cost_little_and_hear_of_notifications() {
    let crowd = sessions::crowd(number("KILNDB_SESSIONS", 2000)).unwrap_or_else(|e| panic!("{e}"));
    println!("{crowd:?}");
    assert!(crowd.bytes_per_session < 64 * 1024, "{crowd:?}");
}

#[test]
fn places_are_limited_and_kept() {
    sessions::limits().unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn a_storm_of_connects_is_served() {
    let seconds = sessions::storm(2000).unwrap_or_else(|e| panic!("{e}"));
    println!("2000 clients served in {seconds:.2} s");
}

#[test]
fn nothing_is_left_of_clients_that_went_away() {
    let rounds = number("KILNDB_KILL_ROUNDS", 20);
    let killed = sessions::kill_clients(rounds, |line| println!("{line}")).unwrap_or_else(|e| panic!("{e}"));
    println!("{killed:?}");
    // What a leak of a kilobyte for each would be, and some room for the allocator.
    let limit = killed.bytes_before + 8 * 1024 * 1024 + killed.clients as u64 * 256;
    assert!(killed.bytes_after < limit, "{killed:?}");
}
