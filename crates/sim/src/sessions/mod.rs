//! Very many sessions, and sessions whose clients go away in the middle of something.
//!
//! After every round of the second: no lock is left, no session, no row that somebody cannot have; and after all rounds
//! the server is not bigger than it was after the first ones.

mod raw;

use kilndb_lab::client::Client;
use kilndb_lab::process::{self, Server, TempDir};
use raw::{Leaving, RawConnection, fields};
use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Rounds after which the server has made what it keeps for reuse.
const WARM_UP_ROUNDS: usize = 60;
const ROWS: u32 = 2000;

pub struct CrowdServer {
    server: Server,
    port: u16,
    // Removed after the server has ended.
    _folder: TempDir,
}

fn text(e: impl std::fmt::Display) -> String {
    e.to_string()
}

impl CrowdServer {
    pub fn start(settings: &[&str]) -> Result<CrowdServer, String> {
        let folder = TempDir::new("sessions").map_err(text)?;
        let port = process::free_port().map_err(text)?;
        let server = process::start_kilndb(&folder.path().join("data"), port, settings).map_err(text)?;
        Ok(CrowdServer { server, port, _folder: folder })
    }

    fn client(&self) -> Result<Client, String> {
        Client::connect(self.server.address(), "postgres").map_err(text)
    }

    /// Memory that is the process's own, in bytes.
    fn memory_bytes(&self) -> Result<u64, String> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.server.engine_pid().map_err(text)?))
            .map_err(text)?;
        let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:")).ok_or("no RssAnon")?;
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().map_err(text)?;
        Ok(kilobytes * 1024)
    }

    pub fn stop(self) -> Result<(), String> {
        self.server.stop().map_err(text).map(|_| ())
    }
}

/// Lets the process have as many descriptors as the system allows; returns how many.
fn raise_descriptor_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: plain system calls on a local struct.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
    limit.rlim_cur
}

#[derive(Debug)]
pub struct CrowdReport {
    pub sessions: usize,
    pub connect_seconds: f64,
    pub bytes_per_session: u64,
    pub queries_per_second: f64,
    pub slowest_query_ms: f64,
    /// Milliseconds from one NOTIFY's commit to the last of all sessions having heard it.
    pub notify_ms: f64,
    pub notify_commit_ms: f64,
}

/// `wanted` idle sessions (fewer if there are not so many descriptors), one of which asks while the others wait.
pub fn crowd(wanted: usize) -> Result<CrowdReport, String> {
    let sessions = wanted.min((raise_descriptor_limit() as usize).saturating_sub(200));
    let host = CrowdServer::start(&["max_connections=20000"])?;
    let mut asker = host.client()?;
    asker.query("create table point (id int primary key, v text); insert into point select g, 'v' || g from generate_series(1, 10000) g").map_err(text)?;
    ask(&mut asker, 2000)?;
    let before = host.memory_bytes()?;
    let began = Instant::now();
    let mut all: Vec<RawConnection> = Vec::with_capacity(sessions);
    for _ in 0..sessions {
        all.push(RawConnection::connect(host.port, "postgres").map_err(|e| format!("session {}: {e}", all.len()))?);
    }
    let connect_seconds = began.elapsed().as_secs_f64();
    let bytes_per_session = host.memory_bytes()?.saturating_sub(before) / sessions as u64;
    let began = Instant::now();
    let slowest_query_ms = ask(&mut asker, 5000)?;
    let queries_per_second = 5000.0 / began.elapsed().as_secs_f64();
    let seen = asker.integer("select count(*) from pg_stat_activity where state = 'idle'").map_err(text)?;
    if seen < sessions as i64 {
        return Err(format!("{seen} idle sessions of {sessions}"));
    }
    for one in &mut all {
        one.query("listen crowd").map_err(text)?;
    }
    for one in &mut all {
        one.wait_for(b'Z').map_err(text)?;
    }
    let began = Instant::now();
    asker.query("notify crowd, 'all'").map_err(text)?;
    let notify_commit_ms = began.elapsed().as_secs_f64() * 1e3;
    for one in &mut all {
        let body = one.wait_for(b'A').map_err(text)?;
        if !body.ends_with(b"crowd\0all\0") {
            return Err("a notification that is not the one sent".into());
        }
    }
    let notify_ms = began.elapsed().as_secs_f64() * 1e3;
    drop(all);
    until("the sessions are gone", || Ok(asker.integer("select count(*) from pg_stat_activity").map_err(text)? == 1))?;
    drop(asker);
    host.stop()?;
    Ok(CrowdReport {
        sessions,
        connect_seconds,
        bytes_per_session,
        queries_per_second,
        slowest_query_ms,
        notify_ms,
        notify_commit_ms,
    })
}

/// Point queries; answers the slowest one's time.
fn ask(client: &mut Client, count: u64) -> Result<f64, String> {
    let mut slowest = 0.0_f64;
    for n in 0..count {
        let id = n * 7919 % 10_000 + 1;
        let began = Instant::now();
        let value = client.value(&format!("select v from point where id = {id}")).map_err(text)?;
        slowest = slowest.max(began.elapsed().as_secs_f64() * 1e3);
        if value != Some(format!("v{id}")) {
            return Err(format!("{id} is {value:?}"));
        }
    }
    Ok(slowest)
}

fn until(what: &str, mut reached: impl FnMut() -> Result<bool, String>) -> Result<(), String> {
    // Counted, not timed: the process may be stopped for a while.
    for _ in 0..3000 {
        if reached()? {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(format!("not reached: {what}"))
}

/// The last places are kept for those who may have them, and one more than there are is told so.
pub fn limits() -> Result<(), String> {
    let host =
        CrowdServer::start(&["max_connections=12", "superuser_reserved_connections=2", "reserved_connections=3"])?;
    let mut first = host.client()?;
    first.query("create role plain login").map_err(text)?;
    let refused = |user: &str| -> Result<String, String> {
        let mut raw = RawConnection::begin(host.port, user).map_err(text)?;
        let mut told = raw.read().map_err(text)?;
        if told.0 == b'R' {
            // He is who he says he is, and there is no place for him.
            told = raw.read().map_err(text)?;
        }
        match told {
            (b'E', body) => Ok(fields(&body)),
            (kind, _) => Err(format!("{user} is not refused, but told {}", char::from(kind))),
        }
    };
    // Whoever only connects takes no place.
    let silent: Vec<TcpStream> = (0..30).filter_map(|_| TcpStream::connect(("127.0.0.1", host.port)).ok()).collect();
    let mut all = Vec::new();
    let mut fill = |user: &str, count: usize| -> Result<(), String> {
        for _ in 0..count {
            all.push(RawConnection::connect(host.port, user).map_err(|e| format!("{user}: {e}"))?);
        }
        Ok(())
    };
    let expect = |found: Result<String, String>, expected: &str| match found? {
        found if found == expected => Ok(()),
        found => Err(format!("expected {expected}\nfound {found}")),
    };
    fill("plain", 6)?;
    expect(
        refused("plain"),
        "53300 remaining connection slots are reserved for roles with privileges of the \"pg_use_reserved_connections\" role",
    )?;
    fill("postgres", 3)?;
    expect(refused("plain"), "53300 remaining connection slots are reserved for roles with the SUPERUSER attribute")?;
    fill("postgres", 2)?;
    expect(refused("postgres"), "53300 sorry, too many clients already")?;
    expect(refused("plain"), "53300 sorry, too many clients already")?;
    // A place that is given back can be had at once.
    drop(all.pop());
    until("there is room again", || Ok(RawConnection::connect(host.port, "postgres").is_ok()))?;
    drop((all, silent, first));
    host.stop()
}

/// Lets so many clients connect at the same moment. Returns the seconds until the last one was served.
pub fn storm(clients: usize) -> Result<f64, String> {
    raise_descriptor_limit();
    let host = CrowdServer::start(&["max_connections=20000"])?;
    let began = Instant::now();
    let threads = 20;
    std::thread::scope(|scope| {
        let works: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| -> io::Result<()> {
                    let begun: io::Result<Vec<RawConnection>> =
                        (0..clients / threads).map(|_| RawConnection::begin(host.port, "postgres")).collect();
                    for mut one in begun? {
                        one.wait_for(b'Z')?;
                        if one.value("select 7")? != "7" {
                            return Err(io::Error::other("a wrong answer"));
                        }
                        one.terminate();
                    }
                    Ok(())
                })
            })
            .collect();
        works.into_iter().try_for_each(|w| w.join().map_err(|_| "a thread failed".to_string())?.map_err(text))
    })?;
    let seconds = began.elapsed().as_secs_f64();
    host.stop()?;
    Ok(seconds)
}

#[derive(Debug)]
pub struct KilledClientsReport {
    pub rounds: usize,
    pub clients: usize,
    pub bytes_before: u64,
    pub bytes_after: u64,
}

/// What a client is in the middle of when it goes away.
const MIDDLES: usize = 12;
/// The one with more answers than it reads.
const UNREAD: usize = 7;

/// Clients go away in the middle of everything, again and again.
pub fn kill_clients(rounds: usize, mut progress: impl FnMut(&str)) -> Result<KilledClientsReport, String> {
    let host = CrowdServer::start(&["max_connections=200"])?;
    let mut control = host.client()?;
    control
        .query(&format!(
            "create table t (id int primary key, v text); insert into t select g, repeat('x', 100) from generate_series(1, {ROWS}) g; \
             create table other (id int); create table copied (id int, v text)"
        ))
        .map_err(text)?;
    let (mut bytes_before, mut clients) = (0, 0);
    for round in 0..rounds + WARM_UP_ROUNDS {
        if round == WARM_UP_ROUNDS {
            bytes_before = host.memory_bytes()?;
        }
        let how = [Leaving::Close, Leaving::Reset, Leaving::HalfClose][round % 3];
        clients += one_round(&host, &mut control, how).map_err(|e| format!("round {round}, {how:?}: {e}"))?;
        if round % 100 == 99 {
            progress(&format!("{} rounds, {} kB", round + 1, host.memory_bytes()? / 1024));
        }
    }
    let bytes_after = host.memory_bytes()?;
    drop(control);
    host.stop()?;
    Ok(KilledClientsReport { rounds, clients, bytes_before, bytes_after })
}

fn one_round(host: &CrowdServer, control: &mut Client, how: Leaving) -> Result<usize, String> {
    control
        .query("begin; update t set v = v where id = 1; lock table other; select pg_advisory_xact_lock(1)")
        .map_err(text)?;
    let mut all = Vec::new();
    let mut waiting = 0;
    for middle in 0..MIDDLES {
        let mut raw = RawConnection::connect(host.port, "postgres").map_err(text)?;
        begin_middle(&mut raw, middle).map_err(|e| format!("middle {middle}: {e}"))?;
        waiting += usize::from(middle < 4);
        all.push(raw);
    }
    let count = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'";
    until("all who wait for locks wait", || Ok(control.integer(count).map_err(text)? == waiting as i64))?;
    // Who closes by half and does not read what is sent cannot be told from one that is slow.
    let leaving = |middle| if middle == UNREAD && matches!(how, Leaving::HalfClose) { Leaving::Close } else { how };
    let kept: Vec<_> = all.into_iter().enumerate().filter_map(|(middle, raw)| raw.leave(leaving(middle))).collect();
    let others = "select count(*) from pg_stat_activity where pid <> pg_backend_pid()";
    until("no session is left", || Ok(control.integer(others).map_err(text)? == 0))?;
    drop(kept);
    control.query("commit").map_err(text)?;
    let locks = "select count(*) from pg_locks where pid is distinct from pg_backend_pid()";
    let (locks, copied) =
        (control.integer(locks).map_err(text)?, control.integer("select count(*) from copied").map_err(text)?);
    if locks != 0 || copied != 0 {
        return Err(format!("{locks} locks and {copied} copied rows are left"));
    }
    // Every row, table and number can be had at once.
    let free = "begin; select count(*) from (select id from t for update nowait) s; lock table t, other, copied nowait; \
                select pg_try_advisory_xact_lock(1), pg_try_advisory_xact_lock(2)";
    let answers = control.query(free).map_err(text)?;
    let row = answers.last().and_then(|a| a.rows.first()).cloned().unwrap_or_default();
    if row != [Some("t".to_string()), Some("t".to_string())] {
        return Err(format!("advisory locks are left: {row:?}"));
    }
    control.query("rollback").map_err(text)?;
    Ok(MIDDLES)
}

/// The first four wait for a lock.
fn begin_middle(raw: &mut RawConnection, middle: usize) -> io::Result<()> {
    match middle {
        0 => raw.query("update t set v = 'lost' where id = 1"),
        1 => raw.query("begin; update t set v = 'lost' where id = 11; select * from other"),
        2 => raw.query("select pg_advisory_lock(1)"),
        3 => {
            raw.value("begin; select pg_advisory_lock(2)")?;
            raw.query("select id from t where id in (1, 12) order by id desc for share")
        }
        4 => raw.query("select pg_sleep(1000)"),
        5 => {
            raw.query("begin; update t set v = 'lost' where id between 20 and 200; savepoint s; delete from t where id > 1900; create table never (a int)")?;
            raw.wait_for(b'Z').map(|_| ())
        }
        6 => {
            raw.query("begin; listen everything; notify everything; copy copied from stdin")?;
            raw.wait_for(b'G')?;
            for n in 0..200 {
                raw.copy_data(format!("{n}\tsome text of row {n}\n").as_bytes())?;
            }
            // The next one is not whole.
            raw.send(&[b'd', 0, 0, 1, 0, b'1'])
        }
        UNREAD => {
            // More than the sockets hold, of which nothing is read.
            raw.query("copy (select a.id, a.v, b.v from t a, t b) to stdout")?;
            raw.wait_for(b'H').map(|_| ())
        }
        8 => {
            raw.open_portal("select a.id, b.id from t a, t b where b.id <= 10 order by b.id, a.id", 10_000)?;
            raw.wait_for(b's').map(|_| ())
        }
        9 => raw.query("select count(*) from t a, t b, t c where a.v || b.v < c.v"),
        10 => {
            raw.query("begin; declare half cursor with hold for select * from t order by v; fetch 500 from half")?;
            raw.wait_for(b'Z').map(|_| ())
        }
        // A message that has only begun.
        _ => raw.send(&[b'Q', 0, 0, 1]),
    }
}
