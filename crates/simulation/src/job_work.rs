//! More work: jobs whose rows go through states and come back, and a transaction that stays open for long.

use crate::more_work::{attempt, same_rows, wrong};
use kilndb_lab::client::{ClientError, Connection};
use kilndb_sim::random::Random;
use std::time::Duration;

pub const TABLES: &str = "create table jobs (id int primary key, state text, tries int); \
    create index jobs_state on jobs (state); create sequence job_ids start 1000; \
    insert into jobs select g, 'new', 0 from generate_series(1, 150) g; \
    create table undecided (id int primary key, n int); \
    insert into undecided select g, 0 from generate_series(1, 5) g; \
    create table counters (id int primary key, n int); \
    insert into counters select g, 0 from generate_series(1, 20) g";

const JOBS: u64 = 150;
/// Index entries of new jobs die. They come back to life when a job is new again, or when another new one gets the place
/// of one that is gone.
const FINISH_ONE: &str = "update jobs set state = 'done', tries = tries + 1 \
    where id = (select id from jobs where state = 'new' limit 1 for update skip locked)";

/// Finishes jobs, makes them new again, removes them and adds others, until the connection breaks.
pub fn work_jobs(client: &mut dyn Connection, random: &mut Random) -> Result<(), ClientError> {
    client.query("set enable_seqscan = off; set enable_bitmapscan = off")?;
    loop {
        let id = random.below(JOBS);
        let sql = match random.below(9) {
            0 => "update jobs set state = 'done' where state = 'new'".to_string(),
            1 => format!("update jobs set state = 'new' where id between {id} and {id} + 3"),
            2 => format!("begin; update jobs set state = 'new' where id < {id}; rollback"),
            3 => format!("begin; savepoint s; {FINISH_ONE}; rollback to s; commit"),
            4 => "delete from jobs where state = 'done'".to_string(),
            5 | 6 => "insert into jobs select nextval('job_ids'), 'new', 0 from generate_series(1, 40) \
                where (select count(*) from jobs) < 300"
                .to_string(),
            _ => FINISH_ONE.to_string(),
        };
        attempt(client, &sql)?;
        if random.one_in(4) {
            check_jobs(client)?;
        }
    }
}

/// One snapshot finds the same new jobs with the index and without.
pub fn check_jobs(client: &mut dyn Connection) -> Result<(), ClientError> {
    let sql = "select count(*), sum(id) from jobs where state = 'new'";
    client.query(
        "begin isolation level repeatable read; set local enable_seqscan = off; set local enable_bitmapscan = off",
    )?;
    let with = client.query(sql)?;
    client.query(
        "set local enable_seqscan = on; set local enable_indexscan = off; set local enable_indexonlyscan = off",
    )?;
    let without = client.query(sql)?;
    client.query("commit")?;
    same_rows("new jobs", &without, &with)
}

/// Takes snapshots of the jobs, which what is gone of them must wait for, until the connection breaks.
pub fn watch_jobs(client: &mut dyn Connection, random: &mut Random) -> Result<(), ClientError> {
    watch(client, random, "select count(*), sum(id) from jobs where state = 'new'")
}

/// Counts in single rows, which get many versions, until the connection breaks.
pub fn count(client: &mut dyn Connection, random: &mut Random) -> Result<(), ClientError> {
    loop {
        attempt(client, &format!("update counters set n = n + 1 where id = {}", 1 + random.below(20)))?;
    }
}

/// Takes snapshots of these rows until the connection breaks.
pub fn watch_counters(client: &mut dyn Connection, random: &mut Random) -> Result<(), ClientError> {
    watch(client, random, "select sum(n), sum(n * id) from counters")
}

/// Takes snapshots, each of which finds the same first and later; they end soon.
fn watch(client: &mut dyn Connection, random: &mut Random, sql: &str) -> Result<(), ClientError> {
    loop {
        client.query("begin isolation level repeatable read")?;
        let first = client.query(sql)?;
        for _ in 0..1 + random.below(3) {
            client.pause(Duration::from_micros(random.below(5000)));
            same_rows("a snapshot, asked first and later", &first, &client.query(sql)?)?;
        }
        client.query("commit")?;
    }
}

/// Changes rows and takes that back, sometimes much later, until the connection breaks. All the while nobody sees it.
pub fn stay_undecided(client: &mut dyn Connection, random: &mut Random) -> Result<(), ClientError> {
    loop {
        check_undecided(client)?;
        let id = 1 + random.below(5);
        client.query(&format!("begin; update undecided set n = n + 1 where id = {id}"))?;
        let longest_us = if random.one_in(3) { 150_000 } else { 3000 };
        client.pause(Duration::from_micros(random.below(longest_us)));
        client.query("rollback")?;
    }
}

/// Looks at the rows that somebody else is undecided about, until the connection breaks.
pub fn watch_undecided(client: &mut dyn Connection, random: &mut Random) -> Result<(), ClientError> {
    loop {
        check_undecided(client)?;
        client.pause(Duration::from_micros(random.below(10_000)));
    }
}

pub fn check_undecided(client: &mut dyn Connection) -> Result<(), ClientError> {
    match client.integer("select count(*) from undecided where n = 0")? {
        5 => Ok(()),
        rows => Err(wrong(format!("of 5 rows whose changes were all taken back {rows} are as they were"))),
    }
}
