//! A table that is changed as a whole: whoever looks finds one number in all of its rows.

use super::{IndexScan, Workload, WorkloadResult, attempt, by_index_and_scan, pause, watch, wrong};
use kilndb_lab::client::{Answer, ClientError, Connection};
use kilndb_sim::random::Random;

pub(crate) const WORKLOAD: Workload = Workload {
    tables: "create table bulk (id int primary key, n int, w text); \
        insert into bulk select g, 0, repeat(g::text, 10) from generate_series(1, 400) g",
    clients: &[("bulk", change), ("bulk snapshots", watch_bulk)],
    check: |client, _| look(client).map(drop),
};

fn change(client: &mut dyn Connection, random: &mut Random) -> WorkloadResult {
    loop {
        let sql = match random.below(9) {
            0 => "begin; update bulk set n = n + 7; rollback",
            1 => "begin; savepoint s; delete from bulk; rollback to s; update bulk set n = n + 1; commit",
            2 => {
                "insert into bulk select id + 1000, n, w from bulk where id <= 400 \
                    and not exists (select from bulk where id > 1000)"
            }
            3 => "delete from bulk where id > 1000",
            4 => {
                "begin; create temp table gone on commit drop as select * from bulk where id <= 400; \
                    delete from bulk where id <= 400; insert into bulk select * from gone; commit"
            }
            5 => "begin; truncate bulk; rollback",
            _ => "update bulk set n = n + 1",
        };
        attempt(client, sql)?;
        pause(client, random, 3000);
    }
}

fn watch_bulk(client: &mut dyn Connection, random: &mut Random) -> WorkloadResult {
    watch(client, random, look)
}

/// Each row has the same number, the first 400 are there, and the index leads to as many rows as there are.
fn look(client: &mut dyn Connection) -> Result<Vec<Answer>, ClientError> {
    let sql = "select count(*), sum(n), count(distinct n), count(*) filter (where id between 1 and 400) from bulk \
        where id > 0";
    let answers = by_index_and_scan(client, sql, IndexScan::Plain)?;
    let row = answers.last().and_then(|answer| answer.rows.first()).cloned().unwrap_or_default();
    let number = |at: usize| row.get(at).cloned().flatten().unwrap_or_default();
    if number(2) != "1" || number(3) != "400" {
        return Err(wrong(format!("rows, their sum, different numbers, of the first 400: {row:?}")));
    }
    Ok(answers)
}
