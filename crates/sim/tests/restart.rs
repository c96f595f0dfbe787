//! Engines that crash, and what their supervisor does: sockets stay, clients are told, the next engine recovers.

use kilndb_lab::client::{Client, ClientError};
use kilndb_lab::process::{self, Server, TempDir};
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

struct Bench {
    folder: TempDir,
    data: PathBuf,
    port: u16,
}

impl Bench {
    fn new(name: &str) -> Bench {
        let folder = TempDir::new(name).expect("a temporary folder");
        let data = folder.path().join("data");
        Bench { folder, data, port: process::free_port().expect("a free port") }
    }

    /// Its crashes leave no core dumps.
    fn command(&self, settings: &[&str]) -> Command {
        let mut command = Command::new(process::kilndb_program().expect("the program is built"));
        command.arg("serve").arg("-D").arg(&self.data).args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
        command.arg("-k").arg(self.folder.path());
        settings.iter().for_each(|setting| _ = command.args(["-c", setting]));
        // SAFETY: a system call on a structure of the closure's own.
        unsafe {
            command.pre_exec(|| {
                let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
                Ok(_ = libc::setrlimit(libc::RLIMIT_CORE, &none))
            })
        };
        command
    }

    fn serve(&self, command: Command) -> Server {
        let address = kilndb_lab::client::Address::local(self.port);
        Server::start(command, address, &self.log_path(), PATIENCE).expect("the server starts")
    }
    fn start(&self, settings: &[&str]) -> Server {
        self.serve(self.command(settings))
    }
    fn log_path(&self) -> PathBuf {
        self.data.with_extension("log")
    }
    fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }
    /// What a server ends with, and says, that is to end by itself.
    fn output(&self, settings: &[&str]) -> (Option<i32>, String) {
        let mut command = self.command(settings);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program runs");
        let end = Instant::now() + PATIENCE;
        while child.try_wait().expect("a child").is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        // One that serves instead is ended, which its exit status shows.
        let _ = child.kill();
        let output = child.wait_with_output().expect("it has ended");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn connect(server: &Server) -> Client {
    Client::connect(server.address(), "postgres").expect("a connection")
}

fn run(client: &mut Client, sql: &str) {
    client.query(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
}

fn send(pid: u32, signal: libc::c_int) {
    // SAFETY: a system call without pointers; the process is one that this test has started, or its child.
    assert_eq!(unsafe { libc::kill(pid as libc::pid_t, signal) }, 0, "the signal is sent");
}

fn within_patience(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn is_alive(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    status.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

fn code<T>(outcome: Result<T, ClientError>) -> String {
    match outcome {
        Ok(_) => "no error".into(),
        Err(ClientError::Server(e)) => {
            assert_eq!(e.severity, "FATAL");
            assert!(e.detail.is_some());
            e.code
        }
        Err(ClientError::Io(e)) => e.to_string(),
    }
}

/// Sends the engine a signal, as a crash would; answers when the next one has taken over.
fn crash(server: &Server, signal: libc::c_int) {
    let old = server.engine_pid().expect("an engine");
    send(old, signal);
    within_patience("another engine", || server.engine_pid().expect("an engine") != old);
}

/// While `signal` crashes the engine, nobody is refused a connection, all who have a session are told, and what they
/// have committed is there afterwards.
fn survives(bench: &Bench, server: &Server, signal: libc::c_int) {
    let mut idle = connect(server);
    run(
        &mut idle,
        "drop table if exists t; create table t (a int primary key, b int); insert into t values (1, 1), (2, 2)",
    );
    let mut listening = connect(server);
    run(&mut listening, "listen something");
    let mut open = connect(server);
    run(&mut open, "begin; update t set b = -1 where a = 1; insert into t values (3, 3)");
    let mut waiting = connect(server);
    waiting.send("update t set b = 0 where a = 1").expect("a message");
    let mut busy = connect(server);
    busy.send("select count(*) from generate_series(1, 1000000000)").expect("a message");
    let mut many: Vec<Client> = (0..20).map(|_| connect(server)).collect();
    let silent = TcpStream::connect(("127.0.0.1", bench.port)).expect("a connection");
    let mut local = Client::connect(
        &kilndb_lab::client::Address { host: bench.folder.path().display().to_string(), ..server.address().clone() },
        "postgres",
    )
    .expect("a connection through the Unix socket");
    run(&mut local, "insert into t values (4, 4)");
    within_patience("a session that waits", || {
        many[0].integer("select count(*) from pg_stat_activity where wait_event_type = 'Lock'").ok() == Some(1)
    });

    let (stop, tried) = (AtomicBool::new(false), AtomicUsize::new(0));
    let began = Instant::now();
    std::thread::scope(|scope| {
        let _guard = kilndb_lab::guard::SetAtEnd(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                TcpStream::connect(("127.0.0.1", bench.port)).expect("the port refuses nobody");
                tried.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        crash(server, signal);
        // It waits in the backlog until the next engine has recovered.
        let mut after = connect(server);
        println!("signal {signal}: back after {} ms", began.elapsed().as_millis());
        assert_eq!(after.integer("select sum(b) from t").ok(), Some(7), "{}", server.log_tail());
        let seen = tried.load(Ordering::SeqCst);
        within_patience("somebody who connects", || tried.load(Ordering::SeqCst) > seen);
    });
    for client in [&mut idle, &mut listening, &mut open, &mut local].into_iter().chain(&mut many) {
        // Nothing was asked: the message is there by itself.
        assert_eq!(code(client.notification()), "57P02");
    }
    for client in [&mut waiting, &mut busy] {
        assert_eq!(code(client.answers()), "57P02");
    }
    silent.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    let mut rest = Vec::new();
    // A reset is an end, too.
    let _ = std::io::Read::read_to_end(&mut &silent, &mut rest);
    assert!(rest.is_empty(), "who has no session is told nothing");
}

#[test]
fn a_crash_is_survived() {
    let bench = Bench::new("restart");
    let mut server = bench.start(&[]);
    for (signal, name) in [(libc::SIGSEGV, "11: Segmentation fault"), (libc::SIGABRT, "6: Aborted")] {
        let pid = server.engine_pid().expect("an engine");
        survives(&bench, &server, signal);
        let log = bench.log();
        for line in [
            format!("LOG:  server process (PID {pid}) was terminated by signal {name}"),
            "LOG:  terminating any other active server processes".into(),
            "LOG:  all server processes terminated; reinitializing".into(),
        ] {
            assert!(log.lines().any(|l| l.ends_with(&line)), "{line}: {log}");
        }
    }
    assert!(server.is_running());
    let resident = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("the process is there");
    let resident = resident.lines().find_map(|l| l.strip_prefix("RssAnon:")).expect("a line for its memory");
    let kilobytes: u64 = resident.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(kilobytes < 8 << 10, "the supervisor has {kilobytes} kB");
    assert!(server.stop().expect("the server stops").success());
    process::check_kilndb(&bench.data).expect("the check finds nothing");
}

#[test]
fn many_crashes_are_reported() {
    let bench = Bench::new("crashes");
    let server = bench.start(&[]);
    for round in 1..=3 {
        // Each engine has got as far as to serve.
        run(&mut connect(&server), &format!("create table t{round} ()"));
        assert!(!bench.log().contains("processes have crashed"), "{}", bench.log());
        crash(&server, libc::SIGKILL);
    }
    assert_eq!(connect(&server).integer("select count(*) from pg_class where relname ~ '^t[123]$'").ok(), Some(3));
    let log = bench.log();
    assert_eq!(log.matches("was terminated by signal 9: Killed").count(), 3, "{log}");
    let warning = "WARNING:  server processes have crashed 3 times within a minute: the cause needs looking at";
    assert!(log.contains(warning), "{log}");
    assert!(server.stop().expect("the server stops").success());
}

#[test]
fn no_restart_if_it_is_off() {
    let bench = Bench::new("norestart");
    let mut server = bench.start(&["restart_after_crash=off"]);
    run(&mut connect(&server), "create table t ()");
    send(server.engine_pid().expect("an engine"), libc::SIGSEGV);
    within_patience("the server ends", || !server.is_running());
    assert_eq!(server.stop().expect("it has ended").code(), Some(1));
    let log = bench.log();
    assert!(log.contains("was terminated by signal 11") && !log.contains("reinitializing"), "{log}");
    assert!(log.ends_with("LOG:  shutting down because \"restart_after_crash\" is off\n"), "{log}");
    assert!(TcpStream::connect(("127.0.0.1", bench.port)).is_err(), "nobody listens");
    // ALTER SYSTEM and a reload count, too.
    let mut server = bench.start(&[]);
    let mut client = connect(&server);
    run(&mut client, "alter system set restart_after_crash = off");
    run(&mut client, "select pg_reload_conf()");
    send(server.engine_pid().expect("an engine"), libc::SIGABRT);
    within_patience("the server ends", || !server.is_running());
}

#[test]
fn an_engine_ends_with_its_supervisor() {
    let bench = Bench::new("orphan");
    for round in 0..5 {
        let server = bench.start(&[]);
        run(&mut connect(&server), &format!("create table t{round} ()"));
        let engine = server.engine_pid().expect("an engine");
        let named = std::fs::read_to_string(bench.data.join("kilndb.pid")).expect("kilndb.pid");
        assert_eq!(named.trim(), server.pid().to_string());
        for pid in [server.pid(), engine] {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).expect("the process is there");
            assert_eq!(name.trim(), "kilndb");
        }
        server.kill().expect("the server is killed");
        match round {
            0 => within_patience("the engine ends", || !is_alive(engine)),
            // What comes next waits for the engine's end by itself.
            1 => assert!(process::check_kilndb(&bench.data).is_err_and(|e| e.to_string().contains("not shut down"))),
            _ => {}
        }
    }
    let mut server = bench.start(&[]);
    assert_eq!(connect(&server).integer("select count(*) from pg_class where relname ~ '^t[0-4]$'").ok(), Some(5));
    // A stop at once: no shutdown, and nobody is left.
    let engine = server.engine_pid().expect("an engine");
    server.signal(libc::SIGQUIT).expect("the signal is sent");
    // Of two signals that wait the one with the lower number is taken first: stop() sends another.
    within_patience("the server ends", || !server.is_running());
    assert_eq!(server.stop().expect("the server ends").code(), Some(1));
    assert!(!is_alive(engine), "the supervisor ends last");
    assert!(bench.log().ends_with("LOG:  received immediate shutdown request\n"), "{}", bench.log());
}

#[test]
fn a_failure_at_the_start_is_no_crash() {
    let bench = Bench::new("failures");
    let taken = TcpListener::bind(("127.0.0.1", bench.port)).expect("the port is free");
    let (code, text) = bench.output(&[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.starts_with("kilndb: could not listen on 127.0.0.1:"), "{text}");
    drop(taken);
    let (code, text) = bench.output(&["work_mem=frob"]);
    assert_eq!(code, Some(1), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    let server = bench.start(&[]);
    let (code, text) = bench.output(&[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("is in use by another kilndb server"), "{text}");
    server.kill().expect("the server is killed");
    // A failure that only the engine meets.
    within_patience("the folder is free", || {
        process::check_kilndb(&bench.data).is_err_and(|e| !e.to_string().contains("in use"))
    });
    std::fs::remove_file(bench.data.join("pages")).expect("a file can be removed");
    let (code, text) = bench.output(&[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("kilndb: ") && !text.contains("terminating any"), "{text}");
}

/// What the service manager was told, up to a message with this in it.
fn told(socket: &UnixDatagram, last: &str) -> Vec<String> {
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    let mut all: Vec<String> = Vec::new();
    while all.last().is_none_or(|text| !text.contains(last)) {
        let mut got = [0; 1000];
        let length = socket.recv(&mut got).unwrap_or_else(|e| panic!("{last}: {e} after {all:?}"));
        all.push(String::from_utf8_lossy(&got[..length]).into_owned());
    }
    all
}

#[test]
fn the_service_manager_is_told() {
    let bench = Bench::new("notify");
    let path: &Path = &bench.folder.path().join("notify");
    let abstract_name = format!("kilndb-test-{}", bench.port);
    let by_name = SocketAddr::from_abstract_name(&abstract_name).expect("a name");
    for (socket, name) in [
        (UnixDatagram::bind(path).expect("a socket"), path.display().to_string()),
        (UnixDatagram::bind_addr(&by_name).expect("a socket"), format!("@{abstract_name}")),
    ] {
        let mut command = bench.command(&[]);
        command.env("NOTIFY_SOCKET", name);
        let server = bench.serve(command);
        let ready = format!("READY=1\nMAINPID={}\nSTATUS=Ready to accept connections", server.pid());
        assert_eq!(told(&socket, "READY=1"), [&*ready]);
        std::fs::write(bench.data.join("kilndb.conf"), "work_mem = 5MB\n").expect("a file can be written");
        server.signal(libc::SIGHUP).expect("the signal is sent");
        let reload = told(&socket, "READY=1");
        assert!(reload[0].starts_with("RELOADING=1\nMONOTONIC_USEC=") && reload.len() == 2, "{reload:?}");
        assert_eq!(connect(&server).value("show work_mem").expect("SHOW").as_deref(), Some("5MB"));
        crash(&server, libc::SIGSEGV);
        assert_eq!(told(&socket, "READY=1"), ["STATUS=Recovering after a crash", &*ready]);
        server.signal(libc::SIGTERM).expect("the signal is sent");
        told(&socket, "STOPPING=1");
        assert!(server.stop().expect("the server stops").success());
    }
    // The second start found a folder that a clean stop has left.
    assert_eq!(bench.log().matches("recovery starts").count(), 2, "{}", bench.log());
}
