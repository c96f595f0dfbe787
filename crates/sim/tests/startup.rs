//! A connection that does not send its startup packet in time is closed; one that has sent it stays.

use kilndb_lab::client::Client;
use kilndb_lab::process::{self, TempDir};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// `authentication_timeout` of this test's server.
const LIMIT: Duration = Duration::from_secs(1);

/// SSLRequest and GSSENCRequest.
const REQUESTS: [[u8; 8]; 2] = [[0, 0, 0, 8, 4, 210, 22, 47], [0, 0, 0, 8, 4, 210, 22, 48]];

/// How long it takes until the server closes the connection; it must send nothing before.
fn closed_after(mut socket: TcpStream, since: Instant) -> Duration {
    socket.set_read_timeout(Some(LIMIT * 20)).expect("a timeout can be set");
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).expect("the server closes the connection");
    assert!(rest.is_empty(), "the server has sent {rest:?}");
    since.elapsed()
}

#[test]
fn who_does_not_start_in_time_is_closed() {
    let folder = TempDir::new("startup").expect("a temporary folder");
    let port = process::free_port().expect("a free port");
    let server = process::start_kilndb(&folder.path().join("data"), port, &["authentication_timeout=1"])
        .expect("the server starts");
    let mut started = Client::connect(server.address(), "postgres").expect("a connection");
    let since = Instant::now();
    let silent = |sent: &[u8]| {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("the server accepts connections");
        socket.write_all(sent).expect("the server reads");
        socket
    };
    let mut sockets = vec![silent(b""), silent(b"\0\0"), silent(b"\0\0\0\x40\0\x03\0\0user\0")];
    for request in REQUESTS {
        let mut socket = silent(&request);
        let mut answer = [0];
        socket.read_exact(&mut answer).expect("the server answers");
        assert_eq!(answer, *b"N");
        sockets.push(socket);
    }
    for socket in sockets {
        let after = closed_after(socket, since);
        assert!(after >= LIMIT * 9 / 10, "closed after {after:?} already");
        assert!(after < LIMIT * 10, "closed after {after:?} only");
    }
    std::thread::sleep(LIMIT);
    assert_eq!(started.integer("select 7").expect("a session that has started stays"), 7);
    server.stop().expect("the server stops");
}
