//! A table whose rows all get other keys, again and again: its index grows with each change, and becomes smaller in the
//! background, while others look for rows by it.

use super::{IndexScan, Workload, WorkloadResult, attempt, by_index_and_scan, pause, watch, wrong};
use kilndb_lab::client::{Answer, ClientError, Connection};
use kilndb_sim::random::Random;

pub(crate) const WORKLOAD: Workload = Workload {
    // Few rows fit into a leaf, so that a small table has an index with as many blocks as a pass asks for.
    tables: "create table keyed (id int primary key, n int, k text); create index keyed_k on keyed (k); \
        insert into keyed select g, 0, rpad(md5(g::text), 300, 'k') from generate_series(1, 100) g",
    clients: &[("keyed", change), ("keyed snapshots", watch_keyed)],
    check: |client, _| look(client).map(drop),
};

fn change(client: &mut dyn Connection, random: &mut Random) -> WorkloadResult {
    loop {
        // Keys of several lengths, anywhere or near to where they were; those of 1,900 bytes make separators long.
        let length = [40, 300, 300, 600, 1900][random.below(5) as usize];
        let key = match random.below(3) {
            0 => format!("rpad(left(k, 8) || n, {length}, 'x')"),
            1 => format!("repeat('k', id % 3 * 100) || rpad(md5((id * 31 + n)::text), {length}, 'y')"),
            _ => format!("rpad(md5((id + n * 1000)::text), {length}, 'z')"),
        };
        let key = format!("left({key}, 1900)");
        let update = format!("update keyed set n = n + 1, k = {key}");
        let sql = match random.below(6) {
            0 => format!("begin; {update}; rollback"),
            1 => format!(
                "begin; create temp table moved on commit drop as select * from keyed where id % 3 <> 0; \
                    delete from keyed where id % 3 <> 0; savepoint s; {update}; rollback to s; \
                    insert into keyed select * from moved; commit"
            ),
            2 => format!("begin; {update}; {update}; commit"),
            _ => update,
        };
        attempt(client, &sql)?;
        // What this has retired is taken out in the meantime.
        pause(client, random, 4000);
        if !random.one_in(3) {
            attempt(client, "vacuum keyed")?;
            pause(client, random, 6000);
        }
    }
}

fn watch_keyed(client: &mut dyn Connection, random: &mut Random) -> WorkloadResult {
    watch(client, random, look)
}

/// Each row has the same number, and the index leads to all of them, in both directions.
fn look(client: &mut dyn Connection) -> Result<Vec<Answer>, ClientError> {
    by_index_and_scan(client, "select id, left(k, 40) from keyed where k > '' order by k, id", IndexScan::Plain)?;
    by_index_and_scan(client, "select id from keyed where k > '' order by k desc, id desc limit 60", IndexScan::Plain)?;
    let sql = "select count(*), count(distinct n), sum(n), sum(id) from keyed where k > ''";
    let answers = by_index_and_scan(client, sql, IndexScan::Plain)?;
    let row = answers.last().and_then(|answer| answer.rows.first()).cloned().unwrap_or_default();
    let number = |at: usize| row.get(at).cloned().flatten().unwrap_or_default();
    if number(0) != "100" || number(1) != "1" {
        return Err(wrong(format!("rows, different numbers, their sum, that of the ids: {row:?}")));
    }
    Ok(answers)
}
