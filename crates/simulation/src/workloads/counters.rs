//! Counters: single rows that get many versions, and whose sum stays the same; and new rows, while snapshots of both are
//! held. Nothing of it is ever removed, so that what an old snapshot does not need of it is compacted.

use super::{IndexScan, Workload, WorkloadResult, attempt, check_index, pause, same_rows, watch, wrong};
use kilndb_lab::client::{Answer, ClientError, Connection};
use kilndb_sim::random::Random;

pub(crate) const WORKLOAD: Workload = Workload {
    tables: "create table counters (id int primary key, n int); \
        insert into counters select g, 0 from generate_series(1, 40) g; \
        create table readings (id int primary key, n int); create sequence reading_ids",
    clients: &[
        ("counters 0", count),
        ("counters 1", count),
        ("counters snapshots", watch_counters),
        ("counters short snapshots", look_twice),
    ],
    check: |client, _| look(client).and_then(|_| check_index(client, READINGS, IndexScan::Plain)),
};

const COUNTERS: u64 = 40;
const READINGS: &str = "select count(*), sum(n), sum(n * id) from readings where id > 0";

fn count(client: &mut dyn Connection, random: &mut Random) -> WorkloadResult {
    if random.one_in(2) {
        client.query("set synchronous_commit = off")?;
    }
    loop {
        let sql = match random.below(8) {
            0 => format!(
                "insert into readings select nextval('reading_ids'), 1 from generate_series(1, {}) \
                    where (select count(*) from readings) < 2000",
                1 + random.below(12)
            ),
            1 => "update readings set n = n + 1 where id = (select max(id) - 3 from readings)".to_string(),
            _ => {
                let (from, to) = (1 + random.below(COUNTERS), 1 + random.below(COUNTERS));
                format!(
                    "begin; update counters set n = n - 1 where id = {from}; \
                     update counters set n = n + 1 where id = {to}; commit"
                )
            }
        };
        attempt(client, &sql)?;
    }
}

fn look(client: &mut dyn Connection) -> Result<Vec<Answer>, ClientError> {
    let sql = "select sum(n), sum(n * id), (select sum(n * id) from readings) from counters";
    let found = client.query(sql)?;
    let sum = found.last().and_then(|answer| answer.rows.first()?.first()?.clone());
    if sum.as_deref() == Some("0") { Ok(found) } else { Err(wrong(format!("the sum of all counters is {sum:?}"))) }
}

fn watch_counters(client: &mut dyn Connection, random: &mut Random) -> WorkloadResult {
    watch(client, random, look)
}

/// Takes one snapshot after the other: many begin while undo is compacted for the sake of an older one.
fn look_twice(client: &mut dyn Connection, random: &mut Random) -> WorkloadResult {
    loop {
        client.query("begin isolation level repeatable read")?;
        let first = look(client)?;
        pause(client, random, 1000);
        same_rows("a snapshot, asked twice", &first, &look(client)?)?;
        client.query("commit")?;
    }
}
