//! The console from outside: who gets in, what is there, and that it shows what happens.

#[path = "../browser/mod.rs"]
mod browser;
mod devtools;
mod page;

use kilndb_lab::client::Client;
use kilndb_lab::guard::SetAtEnd;
use kilndb_lab::process::{self, Server, TempDir};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

struct ConsoleServer {
    server: Server,
    folder: TempDir,
    place: String,
}

/// An answer of HTTP.
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl ConsoleServer {
    fn start() -> ConsoleServer {
        let port = process::free_port().expect("a free port");
        ConsoleServer::start_at(|_| format!("127.0.0.1:{port}"))
    }
    fn start_at(place: impl FnOnce(&TempDir) -> String) -> ConsoleServer {
        let folder = TempDir::new("console").expect("a folder");
        let place = place(&folder);
        let port = process::free_port().expect("a free port");
        let listen = format!("console_listen={place}");
        let server = process::start_kilndb(&folder.path().join("data"), port, &[&listen]).expect("the server starts");
        ConsoleServer { server, folder, place }
    }
    fn client(&self) -> Client {
        Client::connect(self.server.address(), "postgres").expect("a connection")
    }
    /// The lines of pg_hba.conf from now on; others go on to be let in from this machine.
    fn set_rules(&self, lines: &str) {
        let path = self.folder.path().join("data/pg_hba.conf");
        std::fs::write(path, format!("{lines}\nhost postgres all 127.0.0.1/32 trust\n")).expect("a file");
        self.client().query("select pg_reload_conf()").expect("it reloads");
    }
    fn get(&self, path: &str) -> Reply {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.place))
    }
    /// `who`: a name and a password as Basic authentication has them.
    fn get_as(&self, path: &str, who: &str) -> Reply {
        let who = base64_of(who);
        let head = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Basic {who}\r\n", self.place);
        self.ask(&format!("{head}Connection: close\r\n\r\n"))
    }
    fn ask(&self, request: &str) -> Reply {
        match self.place.starts_with('/') {
            true => talk(UnixStream::connect(&self.place).expect("a connection"), request),
            false => talk(TcpStream::connect(&self.place).expect("a connection"), request),
        }
    }
}

fn talk(mut stream: impl Read + Write, request: &str) -> Reply {
    stream.write_all(request.as_bytes()).expect("it is sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer of HTTP: {text:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Reply { status, head: head.to_string(), body: body.to_string() }
}

fn base64_of(text: &str) -> String {
    use base64::Engine;
    base64::prelude::BASE64_STANDARD.encode(text)
}

fn json(reply: &Reply) -> serde_json::Value {
    assert_eq!(reply.status, 200, "{}", reply.body);
    serde_json::from_str(&reply.body).unwrap_or_else(|e| panic!("{e}: {}", reply.body))
}

/// The value of a metric whose name and labels are `name`.
fn metric(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn there_is_a_page_and_whether_the_server_is_well() {
    let server = ConsoleServer::start();
    for path in ["/health", "/ready"] {
        let reply = server.get(path);
        assert_eq!((reply.status, reply.body.as_str()), (200, "ok\n"), "{path}");
    }
    let page = server.get("/");
    assert!(page.status == 200 && page.body.contains("<title>KilnDB console</title>"), "{}", page.head);
    assert!(page.head.contains("Content-Security-Policy: default-src 'none'"), "{}", page.head);
    assert_eq!(server.get("/nothing").status, 404);
    let post = format!("POST / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", server.place);
    assert_eq!(server.ask(&post).status, 405);
    assert_eq!(server.ask("nonsense\r\n\r\n").status, 400);
    // No name of somebody else's page leads here without a password.
    let other = "GET /data.json HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert_eq!(server.ask(other).status, 403);
}

#[test]
fn a_hot_row_is_seen_within_two_seconds() {
    let server = ConsoleServer::start();
    server.client().query("create table seat (id int primary key, taken int)").expect("a table");
    server.client().query("insert into seat select n, 0 from generate_series(1, 50) n").expect("rows");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = SetAtEnd(&is_over);
        let began = Instant::now();
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = server.client();
                while !is_over.load(Ordering::Relaxed) {
                    client.query("update seat set taken = taken + 1 where id = 42").expect("an update");
                }
            });
        }
        let seen = loop {
            let data = json(&server.get("/data.json"));
            let rows = data["hot_rows"]["rows"].as_array().expect("rows").clone();
            if let Some(row) = rows.iter().find(|row| row[0] == "public.seat") {
                break row.clone();
            }
            assert!(began.elapsed() < Duration::from_secs(2), "it is not seen: {data}");
            std::thread::sleep(Duration::from_millis(100));
        };
        assert_eq!(seen[5], "42", "its key: {seen}");
    });
}

#[test]
fn who_waits_for_whom_is_shown() {
    let server = ConsoleServer::start();
    let (mut holder, mut waiter) = (server.client(), server.client());
    holder.query("create table seat (id int primary key, taken int); insert into seat values (1, 0)").expect("a table");
    holder.query("begin; update seat set taken = 1").expect("it is held");
    waiter.send("update seat set taken = 2").expect("it is sent");
    let deadline = Instant::now() + Duration::from_secs(20);
    let (lock, hot) = loop {
        let data = json(&server.get("/data.json"));
        for (name, answer) in data.as_object().expect("an object") {
            assert!(answer.get("problem").is_none(), "{name}: {answer}");
        }
        let row = |name: &str| data[name]["rows"].get(0).cloned();
        if let (Some(lock), Some(hot)) = (row("locks"), row("hot_rows")) {
            break (lock, hot);
        }
        assert!(Instant::now() < deadline, "{data}");
    };
    assert_eq!(lock[5], "update seat set taken = 2");
    assert_eq!((&hot[0], &hot[3], &hot[5]), (&"public.seat".into(), &"1".into(), &"1".into()));
    let waits_for = lock[1].as_str().expect("a list").trim_matches(['{', '}']).to_string();
    assert_eq!(hot[4].as_str(), Some(waits_for.as_str()), "who holds it");
    holder.query("commit").expect("it ends");
    waiter.answers().expect("it goes on");
}

/// The rows of a question, each as a map from columns to values.
fn rows(data: &serde_json::Value, question: &str) -> Vec<BTreeMap<String, String>> {
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let columns = list(&data[question]["columns"]);
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_string();
    let row = |row: &serde_json::Value| columns.iter().map(text).zip(list(row).iter().map(text)).collect();
    list(&data[question]["rows"]).iter().map(row).collect()
}

/// The first row of a question that is as wanted, once there is one.
fn wait_for_row(
    server: &ConsoleServer,
    question: &str,
    is_wanted: impl Fn(&BTreeMap<String, String>) -> bool,
) -> BTreeMap<String, String> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let data = json(&server.get("/data.json"));
        if let Some(row) = rows(&data, question).into_iter().find(|row| is_wanted(row)) {
            return row;
        }
        assert!(Instant::now() < deadline, "{question}: {}", data[question]);
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn commits_are_timed() {
    let server = ConsoleServer::start();
    let mut client = server.client();
    client.query("create table t (a int)").expect("a table");
    let samples = || {
        let data = json(&server.get("/data.json"));
        let numbers = rows(&data, "commits").into_iter().map(|row| row["samples"].parse::<u64>().expect("a number"));
        numbers.sum::<u64>()
    };
    let before = samples();
    for _ in 0..160 {
        client.query("insert into t values (1)").expect("a row");
    }
    let more = samples() - before;
    // Nobody else commits anything, and reading is no commit.
    assert!((10..=160).contains(&more), "{more} of 160");
    for _ in 0..160 {
        client.query("select count(*) from t").expect("a row");
    }
    assert_eq!(samples(), before + more);
    let text = server.get("/metrics").body;
    let all = metric(&text, "kilndb_commit_duration_seconds_count");
    assert_eq!(all, Some((before + more) as f64), "{text}");
    assert_eq!(all, metric(&text, "kilndb_commit_duration_seconds_bucket{le=\"+Inf\"}"));
    let short = metric(&text, "kilndb_commit_duration_seconds_bucket{le=\"0.000001\"}");
    assert!(
        short.is_some_and(|short| short < all.unwrap_or_default()),
        "no commit takes less than a microsecond: {text}"
    );
    assert!(metric(&text, "kilndb_commit_duration_seconds_sum") > Some(0.0), "{text}");
}

#[test]
fn queues_are_told_from_other_tables() {
    let server = ConsoleServer::start();
    let mut client = server.client();
    client
        .query(
            "create table job (id int primary key, task text, made timestamptz default clock_timestamp(), due timestamptz); \
             create table shop (id int primary key, made timestamptz); \
             insert into job (id) select n from generate_series(1, 300) n; delete from job where id <= 200; \
             insert into shop select n, now() from generate_series(1, 300) n; delete from shop where id <= 120",
        )
        .expect("tables");
    let queue = wait_for_row(&server, "queues", |row| row["deleted"] == "200");
    assert_eq!((queue["table"].as_str(), queue["depth"].as_str()), ("public.job", "100"));
    let age: f64 = queue["oldest_s"].parse().expect("an age");
    assert!((0.0..60.0).contains(&age), "{age}");
    assert!(rows(&json(&server.get("/data.json")), "queues").iter().all(|row| row["table"] != "public.shop"));
    // Ten thousand rows without an index are too many to be looked at once a second.
    client.query("insert into job (id) select n from generate_series(1001, 21000) n").expect("rows");
    client.query("delete from job where id between 1001 and 11000").expect("they go");
    let is_deep = |row: &BTreeMap<String, String>| row["table"] == "public.job" && row["depth"] == "10100";
    assert_eq!(wait_for_row(&server, "queues", is_deep)["oldest_s"], "");
    client.query("create index on job (made)").expect("an index");
    wait_for_row(&server, "queues", |row| is_deep(row) && row["oldest_s"].parse::<f64>().is_ok());
}

#[test]
fn undo_says_whose_snapshot_keeps_it() {
    let server = ConsoleServer::start();
    let (mut reader, mut writer) = (server.client(), server.client());
    writer.query("create table seat (id int primary key, note text)").expect("a table");
    writer.query("insert into seat select n, repeat('x', 300) from generate_series(1, 1000) n").expect("rows");
    reader.query("begin isolation level repeatable read; select count(*) from seat").expect("a snapshot");
    writer.query("update seat set note = repeat('y', 300)").expect("they change");
    let is_reader = |row: &BTreeMap<String, String>| row["statement"].contains("repeatable read");
    let keeps = wait_for_row(&server, "snapshots", |row| is_reader(row) && row["keeps_undo"].contains("kB"));
    assert!(keeps["commits_since"].parse::<u64>().is_ok_and(|commits| commits >= 1), "{keeps:?}");
    wait_for_row(&server, "undo", |row| row["of_old_snapshots"] != "0 bytes");
    reader.query("commit").expect("it ends");
    // Nobody needs it now, and it goes.
    wait_for_row(&server, "undo", |row| row["of_old_snapshots"] == "0 bytes");
}

#[test]
fn slow_statements_are_kept_with_their_plans() {
    let server = ConsoleServer::start();
    let mut client = server.client();
    client.query("create role watcher login password 'secret'").expect("a role");
    client.query("create table seat (id int primary key)").expect("a table");
    for _ in 0..2 {
        client.query("select count(*), pg_sleep(0.05) from seat where id < 7").expect("it is slow");
    }
    client.prepare("s", "select pg_sleep($1::float8), 'prepared'").expect("a statement");
    client.execute("s", &["0.05".to_string()]).expect("it is slow");
    let slow = wait_for_row(&server, "slow_statements", |row| row["statement"].contains("from seat"));
    assert_eq!((slow["executions"].as_str(), slow["role"].as_str()), ("2", "postgres"));
    assert!(slow["plan"].contains("Aggregate") && slow["plan"].contains("seat"), "{slow:?}");
    assert!(slow["longest_ms"].parse::<f64>().is_ok_and(|ms| ms >= 50.0), "{slow:?}");
    wait_for_row(&server, "slow_statements", |row| row["statement"].contains("'prepared'"));
    // Others do not see the text.
    server.set_rules("host kiln_console all 127.0.0.1/32 scram-sha-256");
    let seen = json(&server.get_as("/data.json", "watcher:secret"))["slow_statements"].to_string();
    assert!(seen.contains("insufficient privilege") && !seen.contains("from seat"), "{seen}");
}

#[test]
fn the_rules_of_pg_hba_decide() {
    let server = ConsoleServer::start();
    let mut admin = server.client();
    admin.query("create role watcher login password 'secret'").expect("a role");
    admin.query("create role all_seeing login password 'secret' in role pg_monitor").expect("a role");
    admin.query("create database shop").expect("a database");
    server.set_rules("host kiln_console all 127.0.0.1/32 scram-sha-256");
    for reply in [server.get("/"), server.get_as("/", "watcher:wrong"), server.get_as("/metrics", "nobody:secret")] {
        assert_eq!(reply.status, 401, "{}", reply.body);
        assert!(reply.head.contains("WWW-Authenticate: Basic realm=\"kiln_console\""), "{}", reply.head);
        assert!(!reply.body.contains("commits"), "{}", reply.body);
    }
    assert_eq!(server.get("/health").status, 200, "nobody needs a name for it");
    assert_eq!(server.get_as("/", "watcher:secret").status, 200);
    // Each sees what it has a right to see.
    admin.query("select 'planted' from pg_sleep(0)").expect("a statement");
    let statements = |who: &str| json(&server.get_as("/data.json", who))["snapshots"].to_string();
    admin.query("begin; select 'planted'").expect("a transaction");
    assert!(!statements("watcher:secret").contains("planted"));
    assert!(statements("all_seeing:secret").contains("planted"));
    admin.query("rollback").expect("it ends");
    // Another database than the first; one that is not there; and no way to the console's name but through the console.
    let in_shop = json(&server.get_as("/data.json?database=shop", "watcher:secret"));
    assert_eq!(in_shop["server"]["rows"][0][3], "watcher");
    assert_eq!(server.get_as("/data.json?database=nowhere", "watcher:secret").status, 503);
    assert!(Client::connect(server.server.address(), "kiln_console").is_err());
}

#[test]
fn metrics_are_what_prometheus_reads() {
    let server = ConsoleServer::start();
    let mut client = server.client();
    client.query("create table t (a int)").expect("a table");
    let before = server.get("/metrics");
    assert!(before.head.contains("text/plain; version=0.0.4"), "{}", before.head);
    for line in before.body.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        assert!(name.starts_with("kilndb_") && value.parse::<f64>().is_ok(), "{line}");
    }
    assert_eq!(metric(&before.body, "kilndb_up"), Some(1.0));
    assert_eq!(metric(&before.body, "kilndb_console_failed_metrics"), Some(0.0));
    for _ in 0..10 {
        client.query("insert into t values (1)").expect("a row");
    }
    drop(client);
    // Counters of a session come when it has ended, at the latest.
    let rows = "kilndb_rows_changed_total{database=\"postgres\",change=\"insert\"}";
    let deadline = Instant::now() + Duration::from_secs(20);
    while metric(&server.get("/metrics").body, rows) < metric(&before.body, rows).map(|n| n + 10.0) {
        assert!(Instant::now() < deadline, "{}", server.get("/metrics").body);
    }
}

#[test]
fn a_unix_socket_has_a_user_at_its_end() {
    let server = ConsoleServer::start_at(|folder| folder.path().join("console.socket").display().to_string());
    // SAFETY: no arguments, cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    let map = if is_root { "both root postgres" } else { "both /^(.*)$ postgres" };
    std::fs::write(server.folder.path().join("data/pg_ident.conf"), format!("{map}\n")).expect("a file");
    server.set_rules("local kiln_console all peer map=both");
    assert_eq!(server.get("/data.json").status, 200);
    server.set_rules("local kiln_console all reject");
    assert_eq!(server.get("/data.json").status, 401);
}

#[test]
fn the_same_is_shown_in_a_terminal() {
    let server = ConsoleServer::start();
    let (mut holder, mut waiter) = (server.client(), server.client());
    holder.query("create table seat (id int primary key, taken int); insert into seat values (1, 0)").expect("a table");
    holder.query("begin; update seat set taken = 1").expect("it is held");
    waiter.send("update seat set taken = 2").expect("it is sent");
    let uri = format!("postgresql://postgres@127.0.0.1:{}/postgres", server.server.address().port);
    let top = |uri: &str| {
        let program = process::kilndb_program().expect("it is built");
        std::process::Command::new(program).args(["top", uri, "--once", "--interval", "0.2"]).output().expect("it runs")
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let screen = String::from_utf8(top(&uri).stdout).expect("text");
        assert!(screen.contains("KilnDB") && screen.contains("commits "), "{screen}");
        let wanted = ["public.seat", "update seat set taken = 2", "Undo", "keeps_undo"];
        if wanted.iter().all(|text| screen.contains(text)) {
            break;
        }
        assert!(Instant::now() < deadline, "{screen}");
    }
    holder.query("commit").expect("it ends");
    waiter.answers().expect("it goes on");
    let down = format!("postgresql://postgres@127.0.0.1:{}/postgres", process::free_port().expect("a port"));
    let output = top(&down);
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("refused"), "{output:?}");
}

/// A process that ends with this value.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "wants Debian's package prometheus: make test-pages"]
fn prometheus_scrapes_it() {
    let server = ConsoleServer::start();
    server.client().query("create role watcher login password 'secret' in role pg_monitor").expect("a role");
    server.set_rules("host kiln_console all 127.0.0.1/32 scram-sha-256");
    let folder = server.folder.path();
    let config = format!(
        "scrape_configs:\n  - job_name: kilndb\n    scrape_interval: 200ms\n    scrape_timeout: 200ms\n    basic_auth: {{ username: watcher, password: secret }}\n\
         \u{20}   static_configs: [{{ targets: ['{}'] }}]\n",
        server.place
    );
    std::fs::write(folder.join("prometheus.yml"), config).expect("a file");
    let place = format!("127.0.0.1:{}", process::free_port().expect("a port"));
    let log = std::fs::File::create(folder.join("prometheus.log")).expect("a file");
    let mut prometheus = std::process::Command::new("prometheus");
    prometheus
        .arg(format!("--config.file={}", folder.join("prometheus.yml").display()))
        .arg(format!("--storage.tsdb.path={}", folder.join("tsdb").display()))
        .arg(format!("--web.listen-address={place}"));
    let _prometheus =
        Ended(prometheus.stdout(log.try_clone().expect("a file")).stderr(log).spawn().expect("prometheus"));
    let told = || std::fs::read_to_string(folder.join("prometheus.log")).unwrap_or_default();
    // What it knows of a metric: values by labels.
    let known = |query: &str| -> Option<serde_json::Value> {
        let request = format!("GET /api/v1/query?query={query} HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n\r\n");
        let stream = TcpStream::connect(&place).ok()?;
        let reply = talk(stream, &request);
        // The body may come in pieces, each behind its length.
        let from = reply.body.find('{')?;
        let to = reply.body.rfind('}')?;
        let answer: serde_json::Value = serde_json::from_str(&reply.body[from..=to]).ok()?;
        answer["data"]["result"].get(0).cloned()
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    let seen = |query: &str, is_right: &dyn Fn(&serde_json::Value) -> bool| {
        while !known(query).is_some_and(|value| is_right(&value)) {
            assert!(Instant::now() < deadline, "{query}: {:?}\n{}", known(query), told());
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    let number = |value: &serde_json::Value| value["value"][1].as_str().and_then(|text| text.parse::<f64>().ok());
    seen("up", &|value| number(value) == Some(1.0));
    seen("kilndb_up", &|value| number(value) == Some(1.0));
    seen("kilndb_console_failed_metrics", &|value| number(value) == Some(0.0));
    seen("kilndb_log_bytes_total", &|value| number(value).is_some_and(|bytes| bytes > 0.0));
}
