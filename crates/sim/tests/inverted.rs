//! What GIN indexes find is what a scan of the table finds, always: beside inserts, updates, deletes, rollbacks, merges
//! and long snapshots, and after `kill -9`. `KILNDB_CRASH_ROUNDS` sets the number of rounds.

use kilndb_lab::client::{Client, ClientError};
use kilndb_lab::guard::{KillAtEnd, connect_unless};
use kilndb_lab::process::{self, Server, TempDir};
use kilndb_sim::random::Random;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const ROWS: u64 = 400;
const WRITERS: u64 = 3;

fn connect(server: &Server) -> Client {
    Client::connect(server.address(), "postgres").expect("a connection")
}
fn run(client: &mut Client, sql: &str) {
    client.query(sql).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
}
fn make_table(client: &mut Client) {
    // It must be there after the first kill.
    run(client, "set synchronous_commit = on");
    run(client, "create table docs (id int primary key, info tsvector, tags int[], body jsonb, hits int default 0)");
    for index in [
        "docs_info on docs using gin (info)",
        "docs_tags on docs using gin (tags)",
        "docs_body on docs using gin (body)",
        "docs_some on docs using gin (info, tags) where id % 3 = 0",
    ] {
        run(client, &format!("create index {index}"));
    }
}

/// Few words are frequent, most are rare; now and then there are very many.
fn words(random: &mut Random) -> Vec<u64> {
    let count = if random.below(50) == 0 { 600 } else { random.below(14) };
    (0..count)
        .map(|_| random.below(40).min(random.below(40)) + if count > 100 { random.below(1000) } else { 0 })
        .collect()
}
fn values(random: &mut Random) -> (String, String, String) {
    let words = words(random);
    let text: Vec<String> = words.iter().map(|w| format!("w{w}")).collect();
    let tags: Vec<String> = words.iter().take(20).map(u64::to_string).collect();
    let body: Vec<String> = words.iter().take(8).map(|w| format!("\"k{}\": {w}", w % 5)).collect();
    (
        format!("to_tsvector('simple', '{}')", text.join(" ")),
        format!("'{{{}}}'::int[]", tags.join(",")),
        format!("'{{{}}}'::jsonb", body.join(",")),
    )
}
fn statement(random: &mut Random) -> String {
    let id = random.below(ROWS);
    let (info, tags, body) = values(random);
    match random.below(10) {
        0..=3 => format!(
            "insert into docs values ({id}, {info}, {tags}, {body}) on conflict (id) do update set info = excluded.info, body = excluded.body"
        ),
        4 => format!("update docs set info = {info} where id = {id}"),
        5 => format!("update docs set tags = {tags}, body = {body} where id between {id} and {id} + 3"),
        6 => format!("update docs set hits = hits + 1 where id between {id} and {id} + 20"),
        7 => format!("delete from docs where id = {id}"),
        8 => format!("delete from docs where id between {id} and {id} + 15"),
        _ => format!("update docs set id = id + {ROWS} where id = {id}; delete from docs where id >= {ROWS}"),
    }
}
fn condition(random: &mut Random) -> String {
    let (a, b) = (random.below(40).min(random.below(40)), random.below(40).min(random.below(40)));
    match random.below(12) {
        0 | 1 => format!("info @@ 'w{a}'"),
        2 => format!("info @@ 'w{a} & w{b}'"),
        3 => format!("info @@ 'w{a} | w{b}'"),
        4 => format!("info @@ 'w{a} <-> w{b}'"),
        5 => format!("info @@ 'w{}:*'", a % 10),
        6 => format!("info @@ 'w{a} & !w{b}'"),
        7 => format!("tags @> '{{{a},{b}}}'"),
        8 => format!("tags && '{{{a},{b}}}'"),
        9 => format!("body @> '{{\"k{}\": {a}}}'", a % 5),
        10 => format!("body ? 'k{}'", a % 5),
        _ => format!("info @@ 'w{a}' and tags && '{{{b}}}' and id % 3 = 0"),
    }
}

/// In the client's transaction, which has one snapshot: both ways find the same. Returns how many rows that were.
fn compare(client: &mut Client, random: &mut Random) -> Result<usize, ClientError> {
    let condition = condition(random);
    let sql = format!("select id from docs where {condition} order by id");
    let mut found = Vec::new();
    for way in [
        "set local enable_seqscan = on; set local enable_bitmapscan = off; set local enable_indexscan = off",
        "set local enable_seqscan = off; set local enable_bitmapscan = on; set local enable_indexscan = off",
    ] {
        client.query(way)?;
        let rows: Vec<_> = client.query(&sql)?.into_iter().flat_map(|a| a.rows).collect();
        found.push(rows);
    }
    assert_eq!(found[0], found[1], "{condition}");
    Ok(found[0].len())
}

/// Changes until the server is killed.
fn write(server: &Server, killed: &AtomicBool, seed: u64, done: &AtomicU64) {
    let Some(mut client) = connect_unless(server, killed) else { return };
    let mut random = Random(seed + 1);
    loop {
        let several: Vec<String> = (0..1 + random.below(4)).map(|_| statement(&mut random)).collect();
        let sql = match random.below(8) {
            0 => format!("begin; {}; rollback", several.join("; ")),
            1 | 2 => format!("begin; {}; savepoint s; {}; rollback to s; commit", several[0], several.join("; ")),
            3 => format!("begin; {}; commit", several.join("; ")),
            4 if random.below(10) == 0 => "select gin_clean_pending_list('docs_info')".to_string(),
            _ => several[0].clone(),
        };
        match client.query(&sql) {
            Ok(_) => _ = done.fetch_add(1, Ordering::SeqCst),
            Err(ClientError::Server(e)) if ["23505", "40P01", "40001"].contains(&e.code.as_str()) => {
                if client.query("rollback").is_err() {
                    return;
                }
            }
            Err(e) => {
                assert!(killed.load(Ordering::SeqCst), "{sql}: {e}");
                return;
            }
        }
    }
}
/// Looks at one snapshot for a while, then at the next.
fn read(server: &Server, killed: &AtomicBool, seed: u64, compared: &AtomicU64) {
    let Some(mut client) = connect_unless(server, killed) else { return };
    let mut random = Random(seed + 1);
    loop {
        let looks = if random.below(4) == 0 { 40 } else { 4 };
        let look = |client: &mut Client, random: &mut Random| -> Result<(), ClientError> {
            client.query("begin isolation level repeatable read")?;
            for _ in 0..looks {
                compare(client, random)?;
                compared.fetch_add(1, Ordering::SeqCst);
            }
            client.query("commit").map(|_| ())
        };
        if let Err(e) = look(&mut client, &mut random) {
            assert!(killed.load(Ordering::SeqCst), "{e}");
            return;
        }
    }
}

#[test]
fn search_finds_what_a_scan_finds() {
    let rounds: u64 = std::env::var("KILNDB_CRASH_ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(4);
    let folder = TempDir::new("inverted").expect("a temporary folder");
    let data = folder.path().join("data");
    let start = || {
        process::start_kilndb(&data, process::free_port().expect("a free port"), &["synchronous_commit=off"])
            .expect("the server starts")
    };
    let mut server = start();
    make_table(&mut connect(&server));
    let mut random = Random(20_261_122);
    let (done, compared) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut found = 0;
    for round in 0..rounds {
        let killed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (server, killed, done, compared) = (&server, &killed, &done, &compared);
            let guard = KillAtEnd { server, killed };
            for writer in 0..WRITERS {
                scope.spawn(move || write(server, killed, round * 100 + writer, done));
            }
            for reader in 0..2 {
                scope.spawn(move || read(server, killed, round * 100 + 50 + reader, compared));
            }
            // Longer than what waits before it is merged, now and then.
            std::thread::sleep(Duration::from_millis(300 + random.below(1500)));
            drop(guard);
        });
        server.kill().expect("the server is gone");
        server = start();
        let mut client = connect(&server);
        run(&mut client, "begin isolation level repeatable read");
        for _ in 0..60 {
            found += compare(&mut client, &mut random).expect("rows");
        }
        run(&mut client, "commit");
        drop(client);
        if round % 2 == 1 {
            assert!(server.stop().expect("a clean stop").success());
            process::check_kilndb(&data).expect("the check finds nothing");
            server = start();
        }
    }
    let (done, compared) = (done.into_inner(), compared.into_inner());
    assert!(
        done > 20 * rounds && compared > 5 * rounds && found > 0,
        "{done} statements, {compared} comparisons, {found} rows"
    );
    assert!(server.stop().expect("a clean stop").success());
    process::check_kilndb(&data).expect("the check finds nothing");
}
