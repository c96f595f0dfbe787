//! A transaction that stays open, and is rolled back in the end: nobody ever sees what it has changed.

use super::{Workload, WorkloadResult, pause, wrong};
use kilndb_lab::client::Connection;
use kilndb_sim::random::Random;

pub(crate) const WORKLOAD: Workload = Workload {
    tables: "create table undecided (id int primary key, n int); \
        insert into undecided select g, 0 from generate_series(1, 5) g",
    clients: &[("undecided", stay), ("undecided watcher", watch_undecided)],
    check: |client, _| check(client),
};

fn stay(client: &mut dyn Connection, random: &mut Random) -> WorkloadResult {
    loop {
        check(client)?;
        let id = 1 + random.below(5);
        client.query(&format!("begin; update undecided set n = n + 1 where id = {id}"))?;
        let longest_us = if random.one_in(3) { 150_000 } else { 3000 };
        pause(client, random, longest_us);
        client.query("rollback")?;
    }
}

fn watch_undecided(client: &mut dyn Connection, random: &mut Random) -> WorkloadResult {
    loop {
        check(client)?;
        pause(client, random, 10_000);
    }
}

fn check(client: &mut dyn Connection) -> WorkloadResult {
    match client.integer("select count(*) from undecided where n = 0")? {
        5 => Ok(()),
        rows => Err(wrong(format!("of 5 rows whose changes were all taken back {rows} are as they were"))),
    }
}
