//! A queue: clients take from its front, and put back what was taken before. The index and a scan know the same front.

use super::{IndexScan, Workload, WorkloadResult, attempt, check_index};
use kilndb_lab::client::Connection;
use kilndb_sim::random::Random;

pub(crate) const WORKLOAD: Workload = Workload {
    tables: "create table queue (id int primary key, taken int)",
    clients: &[("queue 0", work), ("queue 1", work)],
    check: |client, _| check(client),
};

const PLACES: u64 = 200;

fn work(client: &mut dyn Connection, random: &mut Random) -> WorkloadResult {
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
            check(client)?;
        }
    }
}

fn check(client: &mut dyn Connection) -> WorkloadResult {
    check_index(client, "select id from queue order by id limit 5", IndexScan::Plain)
}
