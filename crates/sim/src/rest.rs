//! The log when nobody writes.

use kilndb_lab::client::Client;
use std::time::{Duration, Instant};

const REST: Duration = Duration::from_millis(2500);

/// Where the log ends once nothing has come to it for a while: what transactions have left to be purged is logged a
/// moment after them, and a stream of undo that nobody writes to lets go of its chunk after about a second.
pub fn log_at_rest(client: &mut Client) -> Option<String> {
    let begun = Instant::now();
    let mut position = None;
    loop {
        let now = client.value("select pg_current_wal_insert_lsn()").expect("a position");
        if now == position {
            return position;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "the log does not come to rest");
        position = now;
        std::thread::sleep(REST);
    }
}
