//! Random and mutated protocol messages and SQL texts against a running server: errors are fine, a panic, a lost server
//! or a damaged cluster is not. `KILNDB_FUZZ_ROUNDS` and `KILNDB_FUZZ_SEED` for more and for replay.

use kilndb_lab::client::Client;
use kilndb_lab::process::{self, TempDir};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

const SEEDS: &[&str] = &[
    "select * from t where a = 1 and b like 'x%' order by a desc nulls last limit 3 offset 1",
    "insert into t (a, b) values (1, 'x'), (2, null) on conflict (a) do update set b = excluded.b returning *",
    "update t set b = upper(b) || 'é', c = c + 1.5e3 where a in (select a from t where c is not null)",
    "delete from t using t as u where t.a = u.a and u.c > 10 returning t.*",
    "with recursive r(n) as (select 1 union all select n + 1 from r where n < 5) select sum(n), array_agg(n) from r",
    "select a, count(*) filter (where c > 1), sum(c) over (partition by b order by a) from t group by rollup(a, b, c) having count(*) > 0",
    "select case when a > 1 then 'x' else b end, coalesce(b, 'y'), nullif(a, 2), extract(year from now()) from t left join t u using (a)",
    "create table x (id serial primary key, v numeric(10,2) check (v > 0), d timestamptz default now(), unique (v))",
    "alter table x add column z int default 5, drop column v; drop table x",
    "begin; savepoint s; insert into t values (7); rollback to s; commit",
    "select to_char(now(), 'YYYY-MM-DD'), '2020-02-30'::date, interval '1 year 2 days' * 3, '{1,2,{3}}'::int[]",
    "explain (analyze, costs off) select * from t where a between 1 and 5",
    "select E'\\x41' || U&'\\0441' || $tag$a$tag$ || B'101'::text",
    "prepare p(int) as select $1 + a from t; execute p(3); deallocate p",
    "copy (select * from t) to stdout with (format csv, header)",
];

fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        match random.below(6) {
            0 if at < bytes.len() => bytes[at] = random.next() as u8,
            1 if at < bytes.len() => {
                bytes.remove(at);
            }
            2 => bytes.insert(at, b"'\"()[]{};,.$\\%*+-/<>=~ \t\n0123456789eE"[random.below(37)]),
            3 => {
                let end = (at + random.below(20)).min(bytes.len());
                let part = bytes[at.min(end)..end].to_vec();
                let to = random.below(bytes.len() + 1);
                bytes.splice(to..to, part);
            }
            4 => {
                let end = (at + random.below(30)).min(bytes.len());
                bytes.drain(at.min(end)..end);
            }
            _ => {
                let other = SEEDS[random.below(SEEDS.len())].as_bytes();
                let from = random.below(other.len());
                let to = (from + random.below(25)).min(other.len());
                bytes.splice(at..at, other[from..to].iter().copied());
            }
        }
    }
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut m = vec![kind];
    m.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    m.extend_from_slice(body);
    m
}

fn connect(port: u16) -> TcpStream {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("the server accepts connections");
    socket.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout can be set");
    let mut body = 0x0003_0000u32.to_be_bytes().to_vec();
    body.extend_from_slice(b"user\0postgres\0database\0postgres\0\0");
    let mut packet = (body.len() as u32 + 4).to_be_bytes().to_vec();
    packet.extend_from_slice(&body);
    // A server that has had enough closes: the next round connects anew.
    let _ = socket.write_all(&packet);
    socket
}

fn drain(socket: &mut TcpStream) {
    let mut buffer = [0; 65536];
    while matches!(socket.read(&mut buffer), Ok(n) if n == buffer.len()) {}
}

fn random_messages(random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..=random.below(6) {
        let kinds = if random.below(20) == 0 { 16 } else { 9 };
        let kind = b"QPBDECHSpdcfFXz\0"[random.below(kinds)];
        let mut body = match kind {
            b'Q' => [SEEDS[random.below(SEEDS.len())].as_bytes(), b"\0"].concat(),
            b'P' => [b"s\0".as_slice(), SEEDS[random.below(SEEDS.len())].as_bytes(), b"\0\0\0"].concat(),
            b'B' => b"\0s\0\0\0\0\0\0\0".to_vec(),
            b'D' | b'C' => b"Ss\0".to_vec(),
            b'E' => b"\0\0\0\0\x02".to_vec(),
            _ => Vec::new(),
        };
        if random.below(2) == 0 {
            mutate(random, &mut body);
        }
        let mut m = message(kind, &body);
        if random.below(10) == 0 {
            mutate(random, &mut m);
        }
        out.extend(m);
    }
    out.extend(message(b'S', b""));
    out
}

#[test]
fn nothing_a_client_sends_brings_the_server_down() {
    let number = |name: &str, default: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let rounds = number("KILNDB_FUZZ_ROUNDS", 1500);
    let seed = number("KILNDB_FUZZ_SEED", std::process::id().into());
    println!("seed {seed}");
    let mut random = Random(seed);
    let folder = TempDir::new("fuzz").expect("a temporary folder");
    let port = process::free_port().expect("a free port");
    let mut server = process::start_kilndb(&folder.path().join("data"), port, &["statement_timeout=2s"]).expect("the server starts");
    let mut client = Client::connect(server.address(), "postgres").expect("a connection");
    client.query("create table t (a int primary key, b text, c numeric)").expect("a table");
    for round in 0..rounds {
        if random.below(3) == 0 {
            let mut socket = connect(port);
            drain(&mut socket);
            // The server may close in the middle; that is an answer too.
            let _ = socket.write_all(&random_messages(&mut random));
            drain(&mut socket);
        } else {
            let mut text = SEEDS[random.below(SEEDS.len())].as_bytes().to_vec();
            mutate(&mut random, &mut text);
            text.retain(|b| *b != 0);
            let text = String::from_utf8_lossy(&text);
            if client.query(&text).is_err() && client.query("rollback").is_err() {
                client = Client::connect(server.address(), "postgres").expect("the server still takes connections");
            }
        }
        assert!(server.is_running(), "the server died in round {round} of seed {seed}: {}", server.log_tail());
    }
    let log = std::fs::read_to_string(folder.path().join("data.log")).unwrap_or_else(|_| server.log_tail());
    assert!(!log.contains("panicked"), "a session panicked with seed {seed}: {log}");
    let mut last = Client::connect(server.address(), "postgres").expect("the server still takes connections");
    assert_eq!(last.integer("select 1").ok(), Some(1));
    drop((client, last));
    server.stop().expect("a clean stop");
    process::check_kilndb(&folder.path().join("data")).expect("a clean cluster");
}
