//! Documents under an inverted index, which finds the same as a scan.

use super::{IndexScan, Workload, WorkloadResult, attempt, check_index};
use kilndb_lab::client::Connection;
use kilndb_sim::random::Random;

pub(crate) const WORKLOAD: Workload = Workload {
    tables: "create table documents (id int primary key, words text[], other int); \
        create index documents_words on documents using gin (words)",
    clients: &[("documents", write)],
    check: |client, random| (0..4).try_for_each(|_| check(client, random)),
};

const DOCUMENTS: u64 = 40;
const WORDS: u64 = 12;

fn words(random: &mut Random) -> String {
    let list: Vec<String> = (0..random.below(5)).map(|_| format!("w{}", random.below(WORDS))).collect();
    format!("{{{}}}", list.join(","))
}

fn write(client: &mut dyn Connection, random: &mut Random) -> WorkloadResult {
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
            check(client, random)?;
        }
    }
}

fn check(client: &mut dyn Connection, random: &mut Random) -> WorkloadResult {
    let sql = format!("select id from documents where words @> '{{w{}}}' order by id", random.below(WORDS));
    check_index(client, &sql, IndexScan::Bitmap)
}
