//! Connections that say nothing, more of them than the server has file descriptors: others get in all the same.

use kilndb_lab::client::{Address, Client};
use kilndb_lab::process::{self, Server, TempDir};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const DESCRIPTORS: u64 = 256;
/// Longer than any step here may take, and shorter than `authentication_timeout` where that is not to help.
const PATIENCE: Duration = Duration::from_secs(60);

fn start(data: &Path, port: u16, authentication_timeout_s: u64) -> Server {
    let mut command = Command::new(process::kilndb_program().expect("the program is built"));
    command.arg("serve").arg("-D").arg(data).args(["-h", "127.0.0.1", "-p", &port.to_string()]);
    command.args(["-c", &format!("authentication_timeout={authentication_timeout_s}")]);
    // SAFETY: a system call on a structure of the closure's own.
    unsafe {
        command.pre_exec(|| {
            let few = libc::rlimit { rlim_cur: DESCRIPTORS, rlim_max: DESCRIPTORS };
            match libc::setrlimit(libc::RLIMIT_NOFILE, &few) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        })
    };
    Server::start(command, Address::local(port), &data.with_extension("log"), PATIENCE).expect("the server starts")
}

fn silent(port: u16, number: u64) -> TcpStream {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("the server accepts connections");
    if number.is_multiple_of(2) {
        socket.write_all(b"\0\0\0\x40\0\x03\0\0user\0").expect("the server reads");
    }
    socket
}

/// The end of the connection, which is silent; a reset is one.
fn end(socket: &mut TcpStream) -> Result<(), String> {
    socket.set_read_timeout(Some(PATIENCE)).map_err(|e| e.to_string())?;
    match socket.read(&mut [0]) {
        Ok(0) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

#[test]
fn the_oldest_that_say_nothing_make_room() {
    let folder = TempDir::new("crowd").expect("a temporary folder");
    let data = folder.path().join("data");
    let port = process::free_port().expect("a free port");
    let server = start(&data, port, 600);
    let mut before = Client::connect(server.address(), "postgres").expect("a connection");
    let mut crowd: Vec<TcpStream> = (0..3 * DESCRIPTORS).map(|n| silent(port, n)).collect();
    let began = Instant::now();
    let mut sessions: Vec<Client> =
        (0..20).map(|_| Client::connect(server.address(), "postgres").expect("somebody gets in")).collect();
    assert!(began.elapsed() < PATIENCE, "after {:?}", began.elapsed());
    // Storage has descriptors to work with.
    for client in sessions.iter_mut().chain([&mut before]) {
        client
            .query("create temp table t as select g from generate_series(1, 1000) g; drop table t; checkpoint")
            .unwrap_or_else(|e| panic!("{e}: {}", server.log_tail()));
    }
    for (number, socket) in crowd.iter_mut().take(DESCRIPTORS as usize).enumerate() {
        end(socket).unwrap_or_else(|e| panic!("socket {number}: {e}"));
    }
    let youngest = crowd.last_mut().expect("a crowd");
    youngest.set_nonblocking(true).expect("a mode");
    let waits = youngest.read(&mut [0]).is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock);
    assert!(waits, "the youngest has its time");
    let log = std::fs::read_to_string(data.with_extension("log")).expect("a log");
    assert!(log.contains("that had not sent a startup packet yet"), "{log}");
    assert!(!log.contains("could not accept"), "{log}");
    server.stop().expect("the server stops");
}

#[test]
fn those_that_fit_have_their_time_and_no_more() {
    let folder = TempDir::new("crowd-time").expect("a temporary folder");
    let port = process::free_port().expect("a free port");
    let server = start(&folder.path().join("data"), port, 3);
    let began = Instant::now();
    let mut crowd: Vec<TcpStream> = (0..DESCRIPTORS - 100).map(|n| silent(port, n)).collect();
    let mut client = Client::connect(server.address(), "postgres").expect("somebody gets in");
    assert_eq!(client.integer("select 1").ok(), Some(1));
    end(&mut crowd[0]).expect("the first is closed");
    assert!(began.elapsed() >= Duration::from_millis(2700), "{:?}", began.elapsed());
    crowd.iter_mut().for_each(|socket| end(socket).expect("it is closed"));
    assert_eq!(client.integer("select 2").ok(), Some(2), "a session stays");
    server.stop().expect("the server stops");
}
