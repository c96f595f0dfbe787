//! When replies are sent: not in pieces while a statement waits, but at once where the client has asked for it; and all
//! of them to a client that is slow to read.

use kilndb_lab::client::Client;
use kilndb_lab::process::{self, TempDir};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Long enough for what is sent to arrive.
const MOMENT: Duration = Duration::from_millis(300);

fn startup() -> Vec<u8> {
    let body = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
    [&(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}
/// Parse, Bind and Execute of a statement without parameters.
fn statement(sql: &str) -> Vec<u8> {
    let parse = message(b'P', &[b"\0", sql.as_bytes(), b"\0\0\0"].concat());
    [parse, message(b'B', &[0; 8]), message(b'E', &[0; 5])].concat()
}
fn sync() -> Vec<u8> {
    message(b'S', b"")
}
fn flush() -> Vec<u8> {
    message(b'H', b"")
}
/// The kinds of the messages in `bytes`, which ends where one does.
fn kinds(bytes: &[u8]) -> String {
    let mut rest = bytes;
    let mut kinds = String::new();
    while let Some((kind, after)) = rest.split_first() {
        let length = u32::from_be_bytes(after[..4].try_into().expect("four bytes")) as usize;
        kinds.push(char::from(*kind));
        rest = &after[length..];
    }
    kinds
}
/// What arrives until nothing more does for a moment.
fn arrived(socket: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 65536];
    socket.set_read_timeout(Some(MOMENT)).expect("a timeout can be set");
    loop {
        match socket.read(&mut chunk) {
            Ok(0) => return bytes,
            Ok(n) => bytes.extend_from_slice(&chunk[..n]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return bytes,
            Err(e) => panic!("{e}"),
        }
    }
}

#[test]
fn a_statement_that_waits_keeps_the_beginning_of_its_reply() {
    let folder = TempDir::new("replies").expect("a temporary folder");
    let port = process::free_port().expect("a free port");
    let server = process::start_kilndb(&folder.path().join("data"), port, &[]).expect("the server starts");
    let mut holder = Client::connect(server.address(), "postgres").expect("a connection");
    holder.query("create table held (id int primary key, n int); insert into held values (1, 0)").expect("a table");
    let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("the server accepts connections");
    socket.write_all(&startup()).expect("the server reads");
    assert!(kinds(&arrived(&mut socket)).ends_with('Z'));
    let update = "update held set n = n + 1 where id = 1";
    // (What comes before the statement that waits; what arrives while it waits; what arrives when it goes on.)
    let select = || statement("select 1");
    // If anything is sent, then all that there is, the update's own beginning included.
    let cases = [
        (select(), "", "12DC12CZ"),
        ([select(), flush()].concat(), "12DC12", "CZ"),
        ([select(), sync()].concat(), "12DCZ12", "CZ"),
        (statement("select repeat('x', 100000)"), "12DC12", "CZ"),
    ];
    for (before, first, second) in cases {
        holder.query("begin; update held set n = 0 where id = 1").expect("the row is locked");
        socket.write_all(&[before, statement(update), sync()].concat()).expect("the server reads");
        assert_eq!(kinds(&arrived(&mut socket)), first, "while it waits");
        holder.query("commit").expect("the row is free");
        assert_eq!(kinds(&arrived(&mut socket)), second, "when it goes on");
    }
    server.stop().expect("the server stops");
}

/// All that arrives after a query with a very long answer, taken in small pieces; first nothing is read for a while.
fn read_slowly(mut socket: impl Read + Write, rows: usize) -> io::Result<usize> {
    let query = format!("select repeat('x', 1000) from generate_series(1, {rows})\0");
    socket.write_all(&[startup(), message(b'Q', query.as_bytes())].concat())?;
    std::thread::sleep(MOMENT);
    let mut bytes = Vec::new();
    let mut chunk = [0; 3000];
    let end = message(b'Z', b"I");
    // The first one is that of the start.
    let mut ends = 0;
    while ends < 2 {
        let n = socket.read(&mut chunk)?;
        assert!(n > 0, "the server has closed the connection");
        bytes.extend_from_slice(&chunk[..n]);
        ends = usize::from(bytes.ends_with(&end)) + usize::from(bytes.len() > 100_000);
    }
    Ok(kinds(&bytes).matches('D').count())
}

#[test]
fn a_client_that_is_slow_to_read_gets_everything() {
    let folder = TempDir::new("slow").expect("a temporary folder");
    let port = process::free_port().expect("a free port");
    let directories = format!("unix_socket_directories={}", folder.path().display());
    let server = process::start_kilndb(&folder.path().join("data"), port, &[&directories]).expect("the server starts");
    let rows = 20_000;
    let socket = TcpStream::connect(("127.0.0.1", port)).expect("the server accepts connections");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout can be set");
    assert_eq!(read_slowly(socket, rows).expect("all of it"), rows);
    let socket =
        UnixStream::connect(folder.path().join(format!(".s.PGSQL.{port}"))).expect("the server accepts connections");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout can be set");
    assert_eq!(read_slowly(socket, rows).expect("all of it"), rows);
    server.stop().expect("the server stops");
}
