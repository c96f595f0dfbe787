//! What access control costs: point SELECT as a superuser and as a role with grants, with and without a policy; and how
//! long point queries take while strangers press against the door.
//!
//! Rows of one server are compared with each other here: what is compared runs in one turn, in the order a, b, b, a.

use super::pgbench::{PgbenchLoad, p99_ms};
use super::tls;
use super::turns::{BenchStage, ServerTurn};
use kilndb_lab::client::extended;
use kilndb_lab::guard::SetAtEnd;
use kilndb_lab::statistics::Better;
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CLIENTS: u32 = 64;
/// Whose latencies are looked at.
const LATENCY_CLIENTS: u32 = 16;
const READER: &str = "bench_reader";
const SELECT: &str = "\\set id random(1, 100000 * :scale)\nselect abalance from pgbench_accounts where aid = :id;\n";
const SELECT_WITH_POLICY: &str =
    "\\set id random(1, 100000 * :scale)\nselect abalance from bench_accounts where aid = :id;\n";

const HALF_OPEN: usize = 2_000;
const IDLE: usize = 10_000;
const WRONG_PASSWORDS_PER_SECOND: u32 = 100;
const GRANTED: &str = "point SELECT, prepared, 64 clients, as a role with grants, of a superuser's rate, %";
const WITH_POLICY: &str = "the same with a policy of one comparison, of the rate without, %";
const FLOODED: &str = "point SELECT, 16 clients, p99 beside 2,000 half-open handshakes, 10,000 idle strangers, 100 wrong passwords a second, of without, %";
const STRANGER: &str = "memory for each of those strangers, bytes";

pub(super) fn stages() -> Vec<BenchStage> {
    vec![
        BenchStage::new(GRANTED, |turn| {
            let (superuser, granted) =
                (Load { role: "postgres", script: SELECT }, Load { role: READER, script: SELECT });
            let share = share(turn, superuser, granted)?;
            turn.put_bound(GRANTED, Better::More, share, 97.0);
            Ok(())
        })
        .begin(prepare)
        .unjudged(),
        BenchStage::new(WITH_POLICY, |turn| {
            let policy = Load { role: READER, script: SELECT_WITH_POLICY };
            let share = share(turn, Load { role: READER, script: SELECT }, policy)?;
            turn.put_bound(WITH_POLICY, Better::More, share, 85.0);
            Ok(())
        })
        .end(|turn| {
            turn.execute(&[
                "drop table bench_accounts",
                &format!("drop owned by {READER}"),
                &format!("drop role {READER}"),
            ])
        })
        .unjudged(),
        // PostgreSQL has a process for each stranger.
        BenchStage::new(STRANGER, |turn| if turn.is_postgres() { Ok(()) } else { weigh(turn) })
            .begin(|turn| if turn.is_postgres() { Ok(()) } else { open_the_door(turn) })
            .turns(1)
            .unjudged(),
        BenchStage::new(FLOODED, |turn| if turn.is_postgres() { Ok(()) } else { flood(turn) }).turns(6).unjudged(),
    ]
}

/// A role that may read, and a table like pgbench's with a policy that shows it all rows.
fn prepare(turn: &mut ServerTurn<'_>) -> Result<(), String> {
    turn.execute(&[
        &format!("create role {READER} login"),
        &format!("grant select on pgbench_accounts to {READER}"),
        "create table bench_accounts (like pgbench_accounts including all)",
        "insert into bench_accounts select * from pgbench_accounts",
        "alter table bench_accounts enable row level security",
        &format!("create policy positive on bench_accounts for select to {READER} using (bid > 0)"),
        &format!("grant select on bench_accounts to {READER}"),
        "vacuum analyze bench_accounts",
    ])
}

#[derive(Clone, Copy)]
struct Load {
    role: &'static str,
    script: &'static str,
}

/// How fast the second load is, in % of the first.
fn share(turn: &ServerTurn<'_>, first: Load, second: Load) -> Result<f64, String> {
    let scale = format!("scale={}", turn.options.scale);
    let rate = |load: Load| {
        let more = ["-U", load.role, "-D", &scale];
        let script = PgbenchLoad { more: &more, ..PgbenchLoad::script(load.script, CLIENTS, "prepared") };
        turn.pgbench(&script).map(|run| run.tps)
    };
    let (a, b) = (rate(first)?, rate(second)?);
    let (c, d) = (rate(second)?, rate(first)?);
    Ok(100.0 * (b + c) / (a + d))
}

/// TLS, a role whose password is guessed, and time for strangers.
fn open_the_door(turn: &mut ServerTurn<'_>) -> Result<(), String> {
    let file = turn.side.data.join("pg_hba.conf");
    let rules = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let asked = format!("host all bench_guessed 127.0.0.1/32 scram-sha-256\n{rules}");
    std::fs::write(&file, asked).map_err(|e| format!("{}: {e}", file.display()))?;
    turn.execute(&[
        "create role bench_guessed login password 'not so easy'",
        "alter system set authentication_timeout = 600",
        "select pg_reload_conf()",
    ])?;
    tls::switch_on(turn)
}

fn flood(turn: &mut ServerTurn<'_>) -> Result<(), String> {
    let port = turn.side.at.port;
    let before = p99_ms(turn, LATENCY_CLIENTS)?;
    let strangers = strangers(turn).map_err(|e| format!("strangers: {e}"))?;
    let done = AtomicBool::new(false);
    let beside = std::thread::scope(|scope| {
        let _guard = SetAtEnd(&done);
        let guessing = scope.spawn(|| guess_passwords(port, &done));
        let beside = p99_ms(turn, LATENCY_CLIENTS);
        done.store(true, Ordering::SeqCst);
        let guessed = guessing.join().map_err(|_| "a thread failed".to_string())?;
        guessed.map_err(|e| format!("wrong passwords: {e}"))?;
        beside
    })?;
    drop(strangers);
    turn.put_bound(FLOODED, Better::Less, 100.0 * beside / before, 200.0);
    Ok(())
}

/// Of strangers that come to a server which has had none: what has been given back once may be kept for the next ones.
fn weigh(turn: &mut ServerTurn<'_>) -> Result<(), String> {
    let pid = turn.side.server.engine_pid().map_err(|e| e.to_string())?;
    let before = resident_bytes(pid)?;
    let strangers = strangers(turn).map_err(|e| format!("strangers: {e}"))?;
    let each = resident_bytes(pid)?.saturating_sub(before) as f64 / strangers.len() as f64;
    turn.put_bound(STRANGER, Better::Less, each, 32_768.0);
    Ok(())
}

/// Connections that have said nothing, and some that have begun a handshake: a half of them have sent the beginning of
/// their first message, the others wait for what follows the server's answer to it.
fn strangers(turn: &ServerTurn<'_>) -> io::Result<Vec<TcpStream>> {
    let config = tls::config(&turn.side.data)?;
    let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
    let mut strangers = Vec::with_capacity(HALF_OPEN + IDLE);
    for n in 0..HALF_OPEN + IDLE {
        let mut stream = TcpStream::connect(("127.0.0.1", turn.side.at.port))?;
        if n < HALF_OPEN {
            stream.write_all(&tls::SSL_REQUEST)?;
            stream.read_exact(&mut [0])?;
            let mut hello = Vec::new();
            ClientConnection::new(config.clone(), name.clone()).map_err(io::Error::other)?.write_tls(&mut hello)?;
            stream.write_all(if n % 2 == 0 { &hello } else { &hello[..hello.len().min(100)] })?;
        }
        strangers.push(stream);
    }
    Ok(strangers)
}

/// Logs in again and again with a proof that is none, without waiting for the server to say so.
fn guess_passwords(port: u16, done: &AtomicBool) -> io::Result<()> {
    let mut waiting = std::collections::VecDeque::new();
    let pause = Duration::from_secs(1) / WRONG_PASSWORDS_PER_SECOND;
    let mut next = Instant::now();
    while !done.load(Ordering::SeqCst) {
        waiting.push_back(guess(port)?);
        // Answers to wrong passwords are late: whoever guesses has many guesses on their way.
        if waiting.len() > 10 * WRONG_PASSWORDS_PER_SECOND as usize {
            waiting.pop_front();
        }
        next += pause;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

fn guess(port: u16) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let startup = b"\0\x03\0\0user\0bench_guessed\0database\0postgres\0\0";
    stream.write_all(&(startup.len() as u32 + 4).to_be_bytes())?;
    stream.write_all(startup)?;
    let mut received = [0; 1024];
    if stream.read(&mut received)? == 0 || received[0] != b'R' {
        return Err(io::Error::new(ErrorKind::InvalidData, "the server asks for no password"));
    }
    let first = b"n,,n=,r=abcdefghijklmnopqrstuvwx";
    let mut body = b"SCRAM-SHA-256\0".to_vec();
    body.extend_from_slice(&(first.len() as u32).to_be_bytes());
    body.extend_from_slice(first);
    let mut message = Vec::new();
    extended(&mut message, b'p', &body);
    stream.write_all(&message)?;
    let length = stream.read(&mut received)?;
    let text = String::from_utf8_lossy(&received[9.min(length)..length]).into_owned();
    let nonce = text.split(',').next().filter(|part| part.starts_with("r="));
    let nonce = nonce.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "no answer of SCRAM's"))?;
    let proof = "A".repeat(43) + "=";
    message.clear();
    extended(&mut message, b'p', format!("c=biws,{nonce},p={proof}").as_bytes());
    stream.write_all(&message)?;
    Ok(stream)
}

/// The memory of a process that is its own.
fn resident_bytes(pid: u32) -> Result<u64, String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).map_err(|e| e.to_string())?;
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).ok_or("no RssAnon")?;
    let kb = line.split_whitespace().next().and_then(|kb| kb.parse::<u64>().ok()).ok_or("no number")?;
    Ok(kb << 10)
}
