//! TPC-C's conditions hold after the load, after its transactions side by side, and after `kill -9` amid them. What a
//! terminal was told of its new orders is there. `KILNDB_CRASH_ROUNDS` sets the number of kills.

use kilndb_lab::client::Client;
use kilndb_lab::guard::KillAtEnd;
use kilndb_lab::process::{self, Server, TempDir};
use kilndb_lab::session_socket::SessionLogin;
use kilndb_lab::tpcc::{self, OrderKey, RoundTrips, TpccControl, TpccKind, TpccLoad, TpccRun, TpccSize, consistency};
use kilndb_sim::random::Random;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

/// Small, so that terminals meet each other at every warehouse, district and item.
const SIZE: TpccSize = TpccSize { warehouses: 2, items: 200, customers: 60 };
const LONG: Duration = Duration::from_secs(3_600);

fn start(data: &Path) -> Server {
    // Pages are evicted and checkpoints run while the load does.
    let settings = ["shared_buffers=8MB", "max_wal_size=32MB"];
    process::start_kilndb(data, process::free_port().expect("a free port"), &settings).expect("the server starts")
}

fn load(terminals: u32, time: Duration, seed: u64) -> TpccLoad {
    let round_trips = if seed.is_multiple_of(2) { RoundTrips::Statements } else { RoundTrips::Batches };
    TpccLoad { size: SIZE, terminals, threads: 2, time, round_trips, seed }
}

fn connect(server: &Server) -> Client {
    Client::connect(server.address(), tpcc::DATABASE).expect("a connection")
}

fn run(server: &Server, load: &TpccLoad, is_over: &AtomicBool) -> Result<TpccRun, String> {
    let login = SessionLogin::to(server.address(), tpcc::DATABASE);
    tpcc::run(&login, load, TpccControl { is_over, entered: &AtomicU64::new(0) })
}

fn assert_consistent(server: &Server) {
    assert_eq!(consistency::breaches(&mut connect(server)).expect("conditions are counted"), []);
}

/// Orders that were acknowledged and are not there.
fn lost(client: &mut Client, orders: &[OrderKey]) -> Vec<OrderKey> {
    let is_there = |client: &mut Client, (warehouse, district, number): OrderKey| {
        let sql = format!(
            "select count(*) from orders where o_w_id = {warehouse} and o_d_id = {district} and o_id = {number}"
        );
        client.integer(&sql).expect("a count") == 1
    };
    orders.iter().copied().filter(|order| !is_there(client, *order)).collect()
}

/// Runs the mix until the server is killed. What the terminals were told until then.
fn kill_amid(server: Server, after: Duration, seed: u64) -> TpccRun {
    let killed = AtomicBool::new(false);
    let run = std::thread::scope(|scope| {
        let guard = KillAtEnd { server: &server, killed: &killed };
        let running = scope.spawn(|| run(&server, &load(16, LONG, seed), &killed));
        std::thread::sleep(after);
        drop(guard);
        running.join().expect("terminals do not panic")
    });
    server.kill().expect("the server is gone");
    run.expect("no transaction fails before the kill")
}

#[test]
fn conditions_hold_side_by_side_and_after_kills() {
    let rounds: u64 = std::env::var("KILNDB_CRASH_ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(2);
    let folder = TempDir::new("tpcc").expect("a temporary folder");
    let data = folder.path().join("data");
    let mut server = start(&data);
    tpcc::create(server.address(), SIZE, 1).expect("the tables are loaded");
    assert_eq!(consistency::misloaded(&mut connect(&server), &SIZE).expect("rows are counted"), None);
    assert_consistent(&server);

    let mut done = [0; 5];
    for seed in [1, 2] {
        let run = run(&server, &load(24, Duration::from_secs(2), seed), &AtomicBool::new(false));
        let run = run.expect("no transaction fails");
        assert_eq!(lost(&mut connect(&server), &run.orders), []);
        assert_consistent(&server);
        (0..5).for_each(|kind| done[kind] += run.done[kind]);
    }
    assert!(TpccKind::ALL.into_iter().all(|kind| done[kind as usize] > 0), "all kinds were done: {done:?}");

    let mut random = Random(20_261_126);
    let mut acknowledged = 0;
    for round in 0..rounds {
        // Connecting and preparing is part of the time.
        let after = Duration::from_millis(500 + random.below(1_500));
        let run = kill_amid(server, after, 100 + round);
        server = start(&data);
        assert_eq!(lost(&mut connect(&server), &run.orders), [], "round {round}");
        assert_consistent(&server);
        acknowledged += run.orders.len();
        assert!(server.stop().expect("a clean stop").success());
        process::check_kilndb(&data).expect("the check finds nothing");
        server = start(&data);
    }
    assert!(acknowledged > 0, "no order was entered before a kill");
}

/// Each of the conditions is broken once, and told.
#[test]
fn broken_conditions_are_found() {
    let folder = TempDir::new("tpcc-broken").expect("a temporary folder");
    let server = start(&folder.path().join("data"));
    tpcc::create(server.address(), TpccSize { warehouses: 1, items: 20, customers: 10 }, 1).expect("tables");
    let mut client = connect(&server);
    for (sql, broken) in [
        ("update warehouse set w_ytd = w_ytd + 1", vec![1, 8]),
        ("update district set d_next_o_id = d_next_o_id + 1 where d_id = 3", vec![2]),
        ("delete from new_order where no_d_id = 4 and no_o_id = 9", vec![3, 5]),
        ("update orders set o_ol_cnt = o_ol_cnt + 1 where o_d_id = 5 and o_id = 2", vec![4, 6]),
        ("update orders set o_carrier_id = null where o_d_id = 6 and o_id = 1", vec![5, 7]),
        ("update order_line set ol_delivery_d = null where ol_d_id = 7 and ol_o_id = 1", vec![7]),
        ("update history set h_amount = h_amount + 1 where h_d_id = 8 and h_c_id = 1", vec![8, 9, 10]),
        ("update customer set c_balance = c_balance + 1 where c_d_id = 9 and c_id = 1", vec![10, 12]),
    ] {
        client.query("begin").expect("a transaction");
        client.query(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
        let found = consistency::breaches(&mut client).expect("conditions are counted");
        assert_eq!(found.iter().map(|(number, _)| *number).collect::<Vec<_>>(), broken, "{sql}");
        client.query("rollback").expect("it is taken back");
    }
    assert_consistent(&server);
}
