//! Clients that go away in the middle, and what a stop does with those that never said anything.

use kilndb_lab::client::Client;
use kilndb_lab::process::{self, TempDir};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

#[test]
fn the_end_of_input_is_noticed_and_silent_clients_do_not_keep_the_server() {
    let folder = TempDir::new("hangup").expect("a temporary folder");
    let port = process::free_port().expect("a free port");
    let server = process::start_kilndb(&folder.path().join("data"), port, &[]).expect("the server starts");
    // Bytes and the end of input that arrive together are one event.
    for _ in 0..200 {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("the server accepts connections");
        socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout can be set");
        socket.write_all(b"\0\0\0@\0\x03\0\0user\0").expect("the server reads");
        socket.shutdown(Shutdown::Write).expect("a socket can be closed by half");
        let mut rest = Vec::new();
        assert!(socket.read_to_end(&mut rest).is_ok(), "the server does not close a connection that has ended");
    }
    let silent = TcpStream::connect(("127.0.0.1", port)).expect("the server accepts connections");
    let mut client = Client::connect(server.address(), "postgres").expect("a connection");
    assert_eq!(client.integer("select 1").ok(), Some(1));
    server.stop().expect("a stop does not wait for a client that says nothing");
    drop((silent, client));
}
