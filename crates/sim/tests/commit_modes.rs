//! `synchronous_commit = off` and `kill -9`: what is lost is the end of the log that the server had not given to the
//! system yet. What the system has is not lost by a kill, synced or not; what a power loss takes is seen by the tests
//! of storage (`commit_modes`), on a disk of their own.

use kilndb_lab::client::{Client, ClientError};
use kilndb_lab::guard::KillAtEnd;
use kilndb_lab::process::{self, Server, TempDir};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn start(data: &Path, settings: &[&str]) -> Server {
    process::start_kilndb(data, process::free_port().expect("a free port"), settings).expect("the server starts")
}

fn connect(server: &Server) -> Client {
    Client::connect(server.address(), "postgres").expect("a connection")
}

const CLIENTS: i64 = 4;

/// Each transaction takes the next number from one row, so the numbers are in the order of the commits. Returns those
/// whose COMMIT was answered, and when.
fn work(server: &Server, client: i64, synchronous_commit: &str, killed: &AtomicBool) -> Vec<(i64, Instant)> {
    let mut connection = connect(server);
    let mut acknowledged = Vec::new();
    let sql = format!(
        "with n as (update counter set number = number + 1 returning number) insert into taken select number, {client} from n returning number"
    );
    let done = connection.query(&format!("set synchronous_commit = {synchronous_commit}")).map(|_| ()).and_then(|()| {
        loop {
            let number = connection.integer(&sql)?;
            acknowledged.push((number, Instant::now()));
        }
    });
    let e: ClientError =
        done.map(|never: std::convert::Infallible| match never {}).expect_err("it works until it is killed");
    assert!(killed.load(Ordering::SeqCst), "client {client}: {e}");
    acknowledged
}

struct Outcome {
    /// In the order of the numbers.
    acknowledged: Vec<(i64, Instant)>,
    killed_at: Instant,
    found: i64,
}

/// Load, `kill -9`, a new start. Whatever is found must be the first so many commits.
fn crash(data: &Path, settings: &[&str], synchronous_commit: &str, under_load: Duration) -> Outcome {
    let server = start(data, settings);
    let mut client = connect(&server);
    for sql in [
        "drop table if exists counter, taken",
        "create table counter (number bigint)",
        "create table taken (number bigint primary key, client bigint)",
        "insert into counter values (0)",
    ] {
        client.query(sql).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    }
    let killed = AtomicBool::new(false);
    let (mut acknowledged, killed_at) = std::thread::scope(|scope| {
        let (server_of, killed) = (&server, &killed);
        let guard = KillAtEnd { server: server_of, killed };
        let threads: Vec<_> =
            (0..CLIENTS).map(|c| scope.spawn(move || work(server_of, c, synchronous_commit, killed))).collect();
        std::thread::sleep(under_load);
        let killed_at = Instant::now();
        drop(guard);
        let all = threads.into_iter().flat_map(|t| t.join().expect("a client panicked")).collect::<Vec<_>>();
        (all, killed_at)
    });
    drop(server);
    acknowledged.sort_by_key(|(number, _)| *number);
    let server = start(data, settings);
    let mut client = connect(&server);
    let mut ask = |sql: &str| client.integer(sql).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    let found = ask("select number from counter");
    let rows = ask("select count(*) from taken");
    let highest = ask("select coalesce(max(number), 0) from taken");
    let through_index = ask("select count(*) from taken where number between 1 and 1000000000");
    assert_eq!([rows, highest, through_index], [found; 3], "the commits found are not the first {found}");
    assert!(server.stop().expect("a clean stop").success());
    process::check_kilndb(data).expect("nothing is damaged");
    Outcome { acknowledged, killed_at, found }
}

impl Outcome {
    fn lost(&self) -> impl Iterator<Item = &(i64, Instant)> {
        self.acknowledged.iter().filter(|(number, _)| *number > self.found)
    }
    /// Three delays; and since neither the machine nor its disk promises anything, the longest time without an answer
    /// and a second.
    fn complaint(&self, delay: Duration) -> Option<String> {
        let stall =
            self.acknowledged.windows(2).map(|w| w[1].1.saturating_duration_since(w[0].1)).max().unwrap_or_default();
        let bound = 3 * delay + stall + Duration::from_secs(1);
        let oldest = self.lost().map(|(_, at)| self.killed_at.saturating_duration_since(*at)).max()?;
        (oldest > bound).then(|| format!("a commit was lost {oldest:?} after its answer, {bound:?} is the most"))
    }
}

#[test]
fn a_kill_takes_the_last_three_delays_at_most() {
    let folder = TempDir::new("commit-modes").expect("a temporary folder");
    let data = folder.path().join("data");
    let mut lost = 0;
    for (delay_ms, under_load_ms) in [(200, 2_500), (500, 4_000), (50, 1_700)] {
        let setting = format!("wal_writer_delay={delay_ms}ms");
        // What a kill leaves is in the system's memory or not; how long a disk full of other work takes to sync does
        // not matter.
        let settings = [setting.as_str(), "wal_writer_flush_after=1GB", "fsync=off"];
        let outcome = crash(&data, &settings, "off", Duration::from_millis(under_load_ms));
        assert_eq!(outcome.complaint(Duration::from_millis(delay_ms)), None);
        println!("delay {delay_ms} ms: {} of {} commits lost", outcome.lost().count(), outcome.acknowledged.len());
        lost += outcome.lost().count();
    }
    assert!(lost > 0, "commits that nobody waits for were as safe as the others: the test saw nothing");
}

/// The same check, told of a delay that is not the server's.
#[test]
fn the_check_sees_a_flusher_that_comes_too_late() {
    let folder = TempDir::new("commit-modes-late").expect("a temporary folder");
    let settings = ["wal_writer_delay=10s", "wal_writer_flush_after=1GB", "wal_buffers=64MB", "checkpoint_timeout=1h"];
    let outcome = crash(&folder.path().join("data"), &settings, "off", Duration::from_secs(6));
    assert!(outcome.complaint(Duration::from_millis(50)).is_some(), "{} lost", outcome.lost().count());
}

#[test]
fn a_kill_takes_nothing_that_was_waited_for() {
    let folder = TempDir::new("commit-modes-on").expect("a temporary folder");
    for mode in ["on", "local", "remote_write", "remote_apply"] {
        let outcome = crash(&folder.path().join("data"), &["wal_writer_delay=10s"], mode, Duration::from_millis(700));
        assert!(!outcome.acknowledged.is_empty());
        assert_eq!(outcome.lost().count(), 0, "{mode}");
    }
}
