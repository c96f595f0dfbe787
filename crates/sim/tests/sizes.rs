//! Sizes of databases and tablespaces, asked while other sessions create and drop databases.

use kilndb_lab::client::Client;
use kilndb_lab::process::{self, TempDir};
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_tablespace_has_a_size_while_its_databases_go() {
    let folder = TempDir::new("sizes").expect("a temporary folder");
    let port = process::free_port().expect("a free port");
    let server = process::start_kilndb(&folder.path().join("data"), port, &[]).expect("the server starts");
    let connect = || Client::connect(server.address(), "postgres").expect("a connection");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut client = connect();
            let mut asked = 0;
            while !is_over.load(Ordering::Relaxed) {
                let bytes = client.integer("select pg_tablespace_size('pg_default')").expect("a size");
                assert!(bytes > 0);
                asked += 1;
            }
            asked
        });
        let churning = ["one", "two"].map(|name| {
            scope.spawn(move || {
                let mut client = connect();
                for _ in 0..15 {
                    client.query(&format!("create database {name}")).expect("a database");
                    client.query(&format!("drop database {name}")).expect("none");
                }
            })
        });
        let ended = churning.map(|thread| thread.join().is_ok());
        is_over.store(true, Ordering::Relaxed);
        assert!(asking.join().expect("sizes") > 20);
        assert_eq!(ended, [true; 2]);
    });
}
