//! A table whose structure changes beside the load, again and again: indexes come and go, columns get other types and new
//! values, rows go into new storage. Whatever is added to a row is noted in another table, so that a change that gets lost
//! on the way, or is done twice, is found.

use super::{IndexScan, Workload, WorkloadResult, by_index_and_scan, check_index, wrong};
use kilndb_lab::client::{Answer, ClientError, Connection};
use kilndb_sim::random::Random;

pub(crate) const WORKLOAD: Workload = Workload {
    tables: "create table parts (id int primary key, k int, v text); create table part_moves (d int); \
        insert into parts select g, 0, 'v' || g from generate_series(1, 60) g; \
        create index parts_v on parts (v)",
    clients: &[
        ("changed table 0", write),
        ("changed table 1", write),
        ("changed table definitions", define),
        ("changed table snapshots", watch_index),
    ],
    check: |client, _| {
        is_balanced(client)?;
        BY_INDEX.iter().try_for_each(|sql| check_index(client, sql, IndexScan::Plain))
    },
};

const PARTS: u64 = 60;
const BY_INDEX: [&str; 3] = [
    "select count(*), sum(k) from parts where id > 0",
    "select count(*), sum(k) from parts where v > ''",
    "select count(*), sum(id) from parts where k > -1000000",
];

/// As the index is in the midst of being made, two rows may have the key that one of them had before.
fn go_on(done: Result<Vec<Answer>, ClientError>, client: &mut dyn Connection) -> WorkloadResult {
    match done {
        Err(ClientError::Server(e)) if ["40P01", "40001", "23505"].contains(&e.code.as_str()) => {
            client.query("rollback").map(drop)
        }
        done => done.map(drop),
    }
}

fn write(client: &mut dyn Connection, random: &mut Random) -> WorkloadResult {
    if random.one_in(2) {
        client.query("set synchronous_commit = off")?;
    }
    loop {
        let (id, d) = (1 + random.below(PARTS), random.below(9) as i64 - 4);
        let add = format!(
            "with u as (update parts set k = k + ({d}) where id = {id} returning 1) insert into part_moves select {d} from u"
        );
        let sql = match random.below(8) {
            0 => format!("begin; {add}; rollback"),
            1 => format!("begin; {add}; savepoint s; {add}; rollback to s; commit"),
            2 => format!("update parts set v = 'w' || {d} || ' ' || id where id = {id}"),
            3 => format!(
                "with g as (delete from parts where id = {id} returning k) insert into part_moves select -k from g"
            ),
            4 | 5 => format!(
                "with i as (insert into parts (id, k, v) values ({id}, {d}, 'v{id}') on conflict do nothing returning 1) \
                 insert into part_moves select {d} from i"
            ),
            _ => add,
        };
        let done = client.query(&sql);
        go_on(done, client)?;
    }
}

fn define(client: &mut dyn Connection, random: &mut Random) -> WorkloadResult {
    loop {
        let sql = match random.below(10) {
            0 => "create index if not exists parts_k on parts (k)",
            1 => "drop index if exists parts_k",
            2 => "reindex table parts",
            3 => "alter table parts alter k type bigint",
            4 => "alter table parts alter k type int, alter v type varchar",
            5 => "alter table parts add column if not exists n int default (random() * 9)::int",
            6 => "alter table parts drop column if exists n",
            7 => "cluster parts using parts_v",
            8 => "alter table parts add unique (id, v)",
            _ => "alter table parts drop constraint if exists parts_id_v_key",
        };
        let done = client.query(sql);
        go_on(done, client)?;
        super::pause(client, random, 3000);
    }
}

/// A snapshot that is older than an index finds by it what a scan finds.
fn watch_index(client: &mut dyn Connection, random: &mut Random) -> WorkloadResult {
    loop {
        client.query("begin isolation level repeatable read; select count(*) from part_moves")?;
        super::pause(client, random, 20_000);
        let sql = BY_INDEX[random.below(BY_INDEX.len() as u64) as usize];
        by_index_and_scan(client, sql, IndexScan::Plain)?;
        client.query("commit")?;
    }
}

fn is_balanced(client: &mut dyn Connection) -> WorkloadResult {
    let sql = "select coalesce((select sum(k) from parts), 0) - coalesce((select sum(d) from part_moves), 0)";
    let found = client.query(sql)?;
    let difference = found.last().and_then(|answer| answer.rows.first()?.first()?.clone());
    match difference.as_deref() {
        Some("0") => Ok(()),
        other => Err(wrong(format!("the rows differ from what was added to them by {other:?}"))),
    }
}
