//! SIGTERM while transactions are open: they are rolled back, and the next start has nothing to recover.

use kilndb_lab::client::Client;
use kilndb_lab::process::{self, TempDir};

#[test]
fn a_stop_with_open_transactions_is_clean() {
    let folder = TempDir::new("stop").expect("a temporary folder");
    let data = folder.path().join("data");
    let port = process::free_port().expect("a free port");
    let server = process::start_kilndb(&data, port, &[]).expect("the server starts");
    let connect = || Client::connect(server.address(), "postgres").expect("a connection");
    let mut first = connect();
    for sql in
        ["create table t (a int primary key, b text)", "insert into t select g, 'kept' from generate_series(1, 1000) g"]
    {
        first.query(sql).expect(sql);
    }
    // One idle in a transaction, one that waits for it, one in the middle of a long statement.
    first
        .query("begin; update t set b = 'gone' where a <= 500; delete from t where a > 900; create table never (a int)")
        .expect("the first");
    let mut second = connect();
    second.query("begin; insert into t values (2000, 'gone')").expect("the second");
    second.send("update t set b = 'gone too' where a = 1").expect("a message");
    let mut third = connect();
    third.send("insert into t select g, repeat('x', 100) from generate_series(10000, 100000000) g").expect("a message");
    std::thread::sleep(std::time::Duration::from_millis(500));
    server.signal(libc::SIGTERM).expect("the signal is sent");
    // A second signal changes nothing; the end is waited for.
    let status = server.stop().expect("the server stops");
    assert!(status.success(), "a stop ended with {status}");
    process::check_kilndb(&data).expect("the check finds nothing");
    let server = process::start_kilndb(&data, port, &[]).expect("the server starts again");
    // The log goes on: after the last stop there must be no recovery.
    let log = server.log_tail();
    let since = log.rfind("database system is shut down").map_or("", |at| &log[at..]);
    assert!(!since.is_empty() && !since.contains("recovery"), "{log}");
    let mut client = Client::connect(server.address(), "postgres").expect("a connection");
    assert_eq!(client.integer("select count(*) from t where b = 'kept'").ok(), Some(1000));
    assert_eq!(client.integer("select count(*) from t").ok(), Some(1000));
    assert_eq!(client.integer("select count(*) from pg_class where relname = 'never'").ok(), Some(0));
    server.stop().expect("the server stops");
}
