//! Work that goes on beside a report, which holds its snapshot until the work lets it end: entries of an index die under
//! that snapshot, their rows go after them, and new rows come where those were while the entries are just being removed.

use super::{IndexScan, Workload, WorkloadResult, attempt, check_index, pause};
use kilndb_lab::client::Connection;
use kilndb_sim::random::Random;

pub(crate) const WORKLOAD: Workload = Workload {
    tables: "create table parcels (id int primary key, state text); create index parcels_state on parcels (state); \
        create sequence parcel_ids; create table ballast (id int)",
    clients: &[("parcels", send), ("report", report)],
    check: |client, _| check(client),
};

/// Whoever has this advisory lock keeps the report from its end.
const REPORT_GOES_ON: u32 = 4711;

fn send(client: &mut dyn Connection, random: &mut Random) -> WorkloadResult {
    loop {
        let count = 34 + random.below(30);
        attempt(
            client,
            &format!(
                "insert into parcels select nextval('parcel_ids'), 'new' from generate_series(1, {count}); \
                 insert into ballast select g from generate_series(1, 200) g; \
                 select pg_advisory_lock({REPORT_GOES_ON})"
            ),
        )?;
        // The report takes its snapshot.
        pause(client, random, 3000);
        attempt(client, "update parcels set state = 'sent' where state = 'new'")?;
        // What this has retired is looked at, and must wait for the report.
        pause(client, random, 20_000);
        attempt(client, "delete from parcels where state = 'sent'; delete from ballast")?;
        check(client)?;
        client.query(&format!("select pg_advisory_unlock({REPORT_GOES_ON})"))?;
        pause(client, random, 2000);
        for _ in 0..random.below(8) {
            attempt(client, "insert into parcels values (nextval('parcel_ids'), 'new')")?;
            check(client)?;
        }
        attempt(client, "delete from parcels where state = 'sent'")?;
    }
}

fn report(client: &mut dyn Connection, random: &mut Random) -> WorkloadResult {
    loop {
        client.query(&format!(
            "begin isolation level repeatable read; select count(*) from parcels; \
             select pg_advisory_xact_lock_shared({REPORT_GOES_ON}); commit"
        ))?;
        pause(client, random, 2000);
    }
}

/// The first new parcels are the same by the index and by a scan.
fn check(client: &mut dyn Connection) -> WorkloadResult {
    check_index(client, "select count(*), min(id), max(id) from parcels where state = 'new'", IndexScan::Plain)
}
