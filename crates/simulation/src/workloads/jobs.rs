//! Jobs whose rows go through states and come back, under an index of their states.

use super::{IndexScan, Workload, WorkloadResult, attempt, check_index, watch};
use kilndb_lab::client::Connection;
use kilndb_sim::random::Random;

pub(crate) const WORKLOAD: Workload = Workload {
    tables: "create table jobs (id int primary key, state text, tries int); \
        create index jobs_state on jobs (state); create sequence job_ids start 1000; \
        insert into jobs select g, 'new', 0 from generate_series(1, 150) g",
    clients: &[("jobs 0", work), ("jobs 1", work), ("jobs snapshots", watch_jobs)],
    check: |client, _| check(client),
};

const JOBS: u64 = 150;
const NEW_JOBS: &str = "select count(*), sum(id) from jobs where state = 'new'";
/// Index entries of new jobs die. They come back to life when a job is new again, or when another new one gets the place
/// of one that is gone.
const FINISH_ONE: &str = "update jobs set state = 'done', tries = tries + 1 \
    where id = (select id from jobs where state = 'new' limit 1 for update skip locked)";

/// Finishes jobs, makes them new again, removes them and adds others.
fn work(client: &mut dyn Connection, random: &mut Random) -> WorkloadResult {
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
            check(client)?;
            client.query("set enable_seqscan = off; set enable_bitmapscan = off")?;
        }
    }
}

fn watch_jobs(client: &mut dyn Connection, random: &mut Random) -> WorkloadResult {
    watch(client, random, |client| client.query(NEW_JOBS))
}

fn check(client: &mut dyn Connection) -> WorkloadResult {
    check_index(client, NEW_JOBS, IndexScan::Plain)
}
