//! Work beside that of `sim`'s sessions: sequences, documents under an inverted index, a queue, a table that is changed as
//! a whole; and somebody who ends sessions.

use kilndb_base::sync::Arc;
use kilndb_lab::client::{Answer, ClientError, Connection, ServerError};
use kilndb_sim::random::Random;
use std::collections::BTreeSet;
use std::sync::Mutex;

pub const TABLES: &str = "create sequence numbers; create sequence cached cache 7; \
    create table documents (id int primary key, words text[], other int); \
    create index documents_words on documents using gin (words); \
    create table queue (id int primary key, taken int); \
    create table bulk (id int primary key, n int, w text); \
    insert into bulk select g, 0, repeat(g::text, 10) from generate_series(1, 400) g";

const DOCUMENTS: u64 = 40;
const WORDS: u64 = 12;

/// What clients have been told of the sequences' numbers, over all lives of the server.
#[derive(Clone, Default)]
pub struct ToldNumbers(Arc<Mutex<BTreeSet<(usize, i64)>>>);

/// What no server may do.
pub fn wrong(message: String) -> ClientError {
    let severity = "ERROR".to_string();
    ClientError::Server(ServerError { severity, code: "wrong".into(), message, detail: None })
}

/// Runs a text; a deadlock is rolled back.
pub fn attempt(client: &mut dyn Connection, sql: &str) -> Result<(), ClientError> {
    match client.query(sql) {
        Err(ClientError::Server(e)) if e.code == "40P01" => client.query("rollback").map(drop),
        done => done.map(drop),
    }
}

/// Two ways to ask, usually a scan and an index, have found the same.
pub fn same_rows(what: &str, one: &[Answer], other: &[Answer]) -> Result<(), ClientError> {
    let rows = |answers: &[Answer]| answers.last().map(|a| a.rows.clone());
    let (one, other) = (rows(one), rows(other));
    if one == other {
        return Ok(());
    }
    Err(wrong(format!("{what}: one way finds {one:?}, the other one {other:?}")))
}

impl ToldNumbers {
    fn told(&self, sequence: usize, number: i64) -> Result<(), ClientError> {
        let is_new = self.0.lock().unwrap_or_else(|e| e.into_inner()).insert((sequence, number));
        if is_new { Ok(()) } else { Err(wrong(format!("sequence {sequence} gives {number} again"))) }
    }

    /// Draws numbers until the connection breaks. A number counts as told when its transaction has been acknowledged.
    pub fn draw(&self, client: &mut dyn Connection, random: &mut Random) -> Result<(), ClientError> {
        loop {
            let sequence = random.below(2) as usize;
            let next = format!("select nextval('{}')", ["numbers", "cached"][sequence]);
            if random.one_in(3) {
                client.query("begin")?;
                let number = client.integer(&next)?;
                if random.one_in(4) {
                    client.query("rollback")?;
                    continue;
                }
                client.query("commit")?;
                self.told(sequence, number)?;
            } else {
                let number = client.integer(&next)?;
                self.told(sequence, number)?;
            }
            client.pause(std::time::Duration::from_micros(random.below(2000)));
        }
    }
}

fn words(random: &mut Random) -> String {
    let list: Vec<String> = (0..random.below(5)).map(|_| format!("w{}", random.below(WORDS))).collect();
    format!("{{{}}}", list.join(","))
}

/// Changes documents until the connection breaks.
pub fn write_documents(client: &mut dyn Connection, random: &mut Random) -> Result<(), ClientError> {
    loop {
        let id = random.below(DOCUMENTS);
        let list = words(random);
        let sql = match random.below(8) {
            0 => format!("delete from documents where id = {id}"),
            1 | 2 => format!("update documents set other = other + 1 where id = {id}"),
            3 => format!("begin; update documents set words = '{list}' where id = {id}; rollback"),
            4 => format!("begin; savepoint s; delete from documents where id = {id}; rollback to s; commit"),
            _ => format!(
                "insert into documents values ({id}, '{list}', 0) on conflict (id) do update set words = excluded.words"
            ),
        };
        attempt(client, &sql)?;
        if random.one_in(10) {
            check_documents(client, random)?;
        }
    }
}

const PLACES: u64 = 200;

/// Takes from the front of a queue, and puts back what was taken before, until the connection breaks.
pub fn work_queue(client: &mut dyn Connection, random: &mut Random) -> Result<(), ClientError> {
    loop {
        let id = random.below(PLACES);
        let sql = match random.below(8) {
            0 => {
                format!("insert into queue select g, 0 from generate_series({id}, {id} + 20) g on conflict do nothing")
            }
            1 => format!("insert into queue values ({id}, 0) on conflict do nothing"),
            2 => format!("begin; delete from queue where id < {id}; rollback"),
            3 => format!("delete from queue where id between {id} and {id} + 5"),
            _ => {
                "delete from queue where id = (select id from queue order by id limit 1 for update skip locked)".into()
            }
        };
        attempt(client, &sql)?;
        if random.one_in(6) {
            check_queue(client)?;
        }
    }
}

/// One snapshot finds the same front of the queue through the index and without.
fn check_queue(client: &mut dyn Connection) -> Result<(), ClientError> {
    client.query("begin isolation level repeatable read; set local enable_seqscan = off")?;
    let with = client.query("select id from queue order by id limit 5")?;
    client.query(
        "set local enable_seqscan = on; set local enable_indexscan = off; set local enable_indexonlyscan = off",
    )?;
    let without = client.query("select id from queue order by id limit 5")?;
    client.query("commit")?;
    same_rows("the front of the queue", &without, &with)
}

/// Changes all rows of a table at once, until the connection breaks. Whoever looks finds one number in all of them.
pub fn change_all(client: &mut dyn Connection, random: &mut Random) -> Result<(), ClientError> {
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
        client.pause(std::time::Duration::from_micros(random.below(3000)));
    }
}

/// Takes snapshots of that table, and looks at each several times, until the connection breaks.
pub fn watch_all(client: &mut dyn Connection, random: &mut Random) -> Result<(), ClientError> {
    loop {
        client.query("begin isolation level repeatable read")?;
        let first = check_all(client)?;
        let longest_us = if random.one_in(3) { 150_000 } else { 4000 };
        for _ in 0..random.below(4) {
            client.pause(std::time::Duration::from_micros(random.below(longest_us)));
            let again = check_all(client)?;
            if again != first {
                return Err(wrong(format!("a snapshot has changed: {first:?}, then {again:?}")));
            }
        }
        client.query("commit")?;
    }
}

/// Each row has the same number, the first 400 are there, and the index leads to as many rows as there are.
pub fn check_all(client: &mut dyn Connection) -> Result<Vec<Option<String>>, ClientError> {
    let sql = "select count(*), sum(n), count(distinct n), count(*) filter (where id between 1 and 400) from bulk \
        where id > 0";
    client.query("set enable_seqscan = off")?;
    let with = client.query(sql)?;
    client.query("set enable_seqscan = on; set enable_indexscan = off; set enable_indexonlyscan = off; set enable_bitmapscan = off")?;
    let without = client.query(sql)?;
    client.query("reset enable_indexscan; reset enable_indexonlyscan; reset enable_bitmapscan")?;
    same_rows("the table that is changed as a whole", &without, &with)?;
    let row = without.last().and_then(|answer| answer.rows.first()).cloned().unwrap_or_default();
    let number = |at: usize| row.get(at).cloned().flatten().unwrap_or_default();
    if number(2) != "1" || number(3) != "400" {
        return Err(wrong(format!("rows, their sum, different numbers, of the first 400: {row:?}")));
    }
    Ok(row)
}

/// Ends sessions of others now and then, until the connection breaks.
pub fn end_sessions(client: &mut dyn Connection, random: &mut Random) -> Result<(), ClientError> {
    loop {
        client.pause(std::time::Duration::from_micros(random.below(40_000)));
        let place = random.below(20);
        let sql = format!(
            "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() order by pid offset {place} limit 1"
        );
        client.query(&sql)?;
    }
}

/// One snapshot finds the same documents with the index and without.
pub fn check_documents(client: &mut dyn Connection, random: &mut Random) -> Result<(), ClientError> {
    let sql = format!("select id from documents where words @> '{{w{}}}' order by id", random.below(WORDS));
    client.query("begin isolation level repeatable read; set local enable_bitmapscan = off")?;
    let without = client.query(&sql)?;
    client.query("set local enable_bitmapscan = on; set local enable_seqscan = off")?;
    let with = client.query(&sql)?;
    client.query("commit")?;
    same_rows(&sql, &without, &with)
}
