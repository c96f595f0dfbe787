//! `kilndb-lab bench`: pgbench against PostgreSQL, KilnDB and the wire limit, one after the other, and a table.

mod bulk;
mod hot;
mod inverted;
mod latency;
mod partitions;

use kilndb_lab::canned;
use kilndb_lab::client::{Address, Client, ClientError};
use kilndb_lab::postgres as pg;
use kilndb_lab::process::{self, Server, TempDir};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const IDLE_SESSIONS: usize = 500;

#[derive(Clone)]
struct Options {
    scale: u32,
    duration_s: u32,
    clients: Vec<u32>,
    shared_buffers: String,
    only: Option<Vec<String>>,
    /// Of `pgbench`, `latency`, `hot` (experiment 4), `bulk` (experiments 1 and 3), `partitions` (experiments 4 and 5)
    /// and `inverted` (experiment 2); None: all.
    parts: Option<Vec<String>>,
    /// Of the tables that are filled, changed and emptied as a whole.
    rows: u32,
}

impl Options {
    fn has(&self, part: &str) -> bool {
        self.parts.as_ref().is_none_or(|parts| parts.iter().any(|p| p == part))
    }
}

/// What was measured, in the order of the table.
#[derive(Default)]
struct Figures {
    rows: Vec<(String, Better)>,
    values: BTreeMap<(String, &'static str), f64>,
}

#[derive(Clone, Copy, PartialEq)]
enum Better {
    More,
    Less,
}

impl Figures {
    fn put(&mut self, engine: &'static str, row: &str, better: Better, value: f64) {
        if !self.rows.iter().any(|(name, _)| name == row) {
            self.rows.push((row.to_string(), better));
        }
        eprintln!("{engine}: {row}: {value:.1}");
        self.values.insert((row.to_string(), engine), value);
    }

    fn print(&self) {
        println!("| | PostgreSQL | KilnDB | wire limit | KilnDB : PostgreSQL | of the wire limit |");
        println!("|---|---:|---:|---:|---:|---:|");
        for (row, better) in &self.rows {
            let value = |engine| self.values.get(&(row.clone(), engine)).copied();
            let (postgres, kilndb, wire) = (value("PostgreSQL"), value("KilnDB"), value("wire limit"));
            let show = |v: Option<f64>| v.map_or(String::new(), number);
            let ratio = match (postgres, kilndb) {
                (Some(p), Some(k)) if p > 0.0 => format!("{:.2}", k / p),
                _ => String::new(),
            };
            let of_wire = match (wire, kilndb) {
                (Some(w), Some(k)) if *better == Better::More && w > 0.0 => format!("{:.0} %", 100.0 * k / w),
                _ => String::new(),
            };
            println!("| {row} | {} | {} | {} | {ratio} | {of_wire} |", show(postgres), show(kilndb), show(wire));
        }
    }
}

fn number(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

pub fn run(arguments: &[String]) -> Result<(), String> {
    let options = options(arguments)?;
    // 1,920 clients need as many descriptors.
    kilndb_base::env::raise_descriptor_limit();
    let mut figures = Figures::default();
    let wanted = |name: &str| options.only.as_ref().is_none_or(|only| only.iter().any(|o| o == name));
    let pgbench = version("pgbench");
    println!(
        "{} cores; {pgbench}; {}",
        std::thread::available_parallelism().map_or(0, |n| n.get()),
        version("postgres")
    );
    println!("scale {}, {} s a run, shared_buffers {}\n", options.scale, options.duration_s, options.shared_buffers);
    // A part that fails is left out of the table and named, so that the rest of a long run is not lost.
    let mut failed = Vec::new();
    let parts = [
        ("postgres", postgres as fn(&Options, &mut Figures) -> Result<(), String>),
        ("kilndb", kilndb),
        ("wire", wire),
    ];
    for (name, part) in parts {
        if wanted(name)
            && (name != "wire" || options.has("pgbench"))
            && let Err(e) = part(&options, &mut figures)
        {
            eprintln!("{name}: {e}");
            failed.push(name);
        }
    }
    if (options.has("partitions") || options.has("inverted"))
        && wanted("postgres")
        && wanted("kilndb")
        && let Err(e) = in_turns(&options, &mut figures)
    {
        eprintln!("in turns: {e}");
        failed.push("in turns");
    }
    figures.print();
    if failed.is_empty() { Ok(()) } else { Err(format!("not finished: {}", failed.join(", "))) }
}

fn options(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options {
        scale: 50,
        duration_s: 10,
        clients: vec![1, 8, 28, 64, 1920],
        shared_buffers: "1GB".into(),
        only: None,
        parts: None,
        rows: 10_000_000,
    };
    let mut rest = arguments.iter();
    while let Some(flag) = rest.next() {
        let value = rest.next().ok_or_else(|| format!("{flag} needs a value"))?;
        let bad = |_| format!("bad value of {flag}: {value}");
        match flag.as_str() {
            "--scale" => options.scale = value.parse().map_err(bad)?,
            "--duration" => options.duration_s = value.parse().map_err(bad)?,
            "--clients" => {
                options.clients = value.split(',').map(|c| c.parse().map_err(bad)).collect::<Result<_, _>>()?
            }
            "--shared-buffers" => options.shared_buffers = value.clone(),
            "--parts" => options.parts = Some(value.split(',').map(str::to_string).collect()),
            "--rows" => options.rows = value.parse().map_err(bad)?,
            "--only" => options.only = Some(value.split(',').map(str::to_string).collect()),
            _ => return Err(format!("unknown option {flag}")),
        }
    }
    Ok(options)
}

/// A server with its folders, which go away with it.
struct Running {
    server: Server,
    data: PathBuf,
    // After the server: fields are dropped in order.
    _folders: [TempDir; 2],
}

/// `engine`: as in the table. Both get the same settings.
fn start(engine: &str, options: &Options) -> Result<Running, String> {
    let folder = TempDir::new(&format!("bench-{}", engine.to_lowercase())).map_err(|e| e.to_string())?;
    let port = process::free_port().map_err(|e| e.to_string())?;
    let buffers = format!("shared_buffers={}", options.shared_buffers);
    let sockets = socket_folder()?;
    let socket = format!("unix_socket_directories={}", sockets.path().display());
    let settings = [buffers.as_str(), "max_connections=2000", &socket];
    let (started, data) = if engine == "PostgreSQL" {
        (pg::start(folder.path(), port, &settings), folder.path().join("pg"))
    } else {
        let data = folder.path().join("data");
        (process::start_kilndb(&data, port, &settings), data)
    };
    let mut server = started.map_err(|e| e.to_string())?;
    server.reach_in(sockets.path());
    Ok(Running { server, data, _folders: [folder, sockets] })
}

fn postgres(options: &Options, figures: &mut Figures) -> Result<(), String> {
    let running = start("PostgreSQL", options)?;
    measure("PostgreSQL", options, figures, &running.server, &running.data.join("base"))?;
    running.server.stop().map(|_| ()).map_err(|e| e.to_string())
}

fn kilndb(options: &Options, figures: &mut Figures) -> Result<(), String> {
    let running = start("KilnDB", options)?;
    measure("KilnDB", options, figures, &running.server, &running.data)?;
    let mut admin = connect(&running.server)?;
    let sums = [
        "select coalesce(sum(abalance), 0)::bigint from pgbench_accounts",
        "select coalesce(sum(tbalance), 0)::bigint from pgbench_tellers",
        "select coalesce(sum(bbalance), 0)::bigint from pgbench_branches",
        "select coalesce(sum(delta), 0)::bigint from pgbench_history",
    ];
    let sums: Vec<i64> =
        sums.iter().map(|sql| admin.integer(sql)).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    drop(admin);
    running.server.stop().map_err(|e| e.to_string())?;
    if sums.iter().any(|s| *s != sums[0]) {
        return Err(format!("the four sums differ: {sums:?}"));
    }
    process::check_kilndb(&running.data).map_err(|e| e.to_string())
}

/// What is held against the other server within seconds or minutes: both run, and take turns.
fn in_turns(options: &Options, figures: &mut Figures) -> Result<(), String> {
    let (postgres, kilndb) = (start("PostgreSQL", options)?, start("KilnDB", options)?);
    if options.has("partitions") {
        partitions::queue_in_turns(options, figures, [("KilnDB", &kilndb.server), ("PostgreSQL", &postgres.server)])?;
    }
    if options.has("inverted") {
        inverted::in_turns(options, figures, [("PostgreSQL", &postgres.server), ("KilnDB", &kilndb.server)])?;
    }
    kilndb.server.stop().and(postgres.server.stop()).map_err(|e| e.to_string())?;
    process::check_kilndb(&kilndb.data).map_err(|e| e.to_string())
}

/// The wire limit has no data: only the runs.
fn wire(options: &Options, figures: &mut Figures) -> Result<(), String> {
    let folder = socket_folder()?;
    let port = process::free_port().map_err(|e| e.to_string())?;
    let at = &Address { host: folder.path().display().to_string(), ..Address::local(port) };
    let socket = folder.path().join(format!(".s.PGSQL.{port}"));
    std::thread::spawn(move || {
        if let Err(e) = canned::serve(&socket) {
            eprintln!("wire limit: {e}");
        }
    });
    std::thread::sleep(Duration::from_millis(200));
    selects("wire limit", options, figures, at)?;
    let result = pgbench(at, options, 28, &["-M", "prepared"])?;
    figures.put("wire limit", "TPC-B, prepared, 28 clients, tps", Better::More, result.tps);
    Ok(())
}

/// Everything that is measured of a server with data.
fn measure(
    engine: &'static str,
    options: &Options,
    figures: &mut Figures,
    server: &Server,
    data: &Path,
) -> Result<(), String> {
    let at = server.address();
    // Before anything else: what work leaves free would hide it.
    let memory = idle_memory(server)?;
    figures.put(engine, "memory of an idle session, kB", Better::Less, memory);
    let before = folder_bytes(data);
    let began = Instant::now();
    let output = command("pgbench", at)?
        .args(["-i", "-q", "-s", &options.scale.to_string(), "postgres"])
        .output()
        .map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(format!("pgbench -i: {}", String::from_utf8_lossy(&output.stderr)));
    }
    figures.put(
        engine,
        &format!("pgbench -i -s {}, seconds", options.scale),
        Better::Less,
        began.elapsed().as_secs_f64(),
    );
    let mut admin = connect(server)?;
    admin.query("checkpoint").map_err(|e| e.to_string())?;
    let grown = folder_bytes(data).saturating_sub(before);
    figures.put(engine, "disk size after load, MB", Better::Less, grown as f64 / 1e6);
    if options.has("pgbench") {
        of_pgbench(engine, options, figures, server)?;
    }
    if options.has("latency") {
        latency::measure(engine, options, figures, server)?;
    }
    if options.has("hot") {
        hot::measure(engine, options, figures, server)?;
    }
    if options.has("bulk") {
        bulk::measure(engine, options, figures, server)?;
    }
    if options.has("partitions") {
        partitions::measure(engine, options, figures, server)?;
    }
    Ok(())
}

fn of_pgbench(engine: &'static str, options: &Options, figures: &mut Figures, server: &Server) -> Result<(), String> {
    let at = server.address();
    let mut admin = connect(server)?;
    selects(engine, options, figures, at)?;
    for &clients in &options.clients {
        if clients == 28 {
            let (bytes, tps) = log_bytes(options, server, &mut admin)?;
            figures.put(engine, "TPC-B, prepared, 28 clients, tps", Better::More, tps);
            figures.put(engine, "log bytes per TPC-B transaction", Better::Less, bytes);
        } else {
            let result = pgbench(at, options, clients, &["-M", "prepared"])?;
            figures.put(engine, &format!("TPC-B, prepared, {clients} clients, tps"), Better::More, result.tps);
        }
    }
    let result = pgbench(at, options, 28, &["-M", "simple"])?;
    figures.put(engine, "TPC-B, simple, 28 clients, tps", Better::More, result.tps);
    without_images(engine, options, figures, server, &mut admin)
}

/// Once more without full-page images: what the changes alone cost in the log. KilnDB never writes images.
fn without_images(
    engine: &'static str,
    options: &Options,
    figures: &mut Figures,
    server: &Server,
    admin: &mut Client,
) -> Result<(), String> {
    for sql in ["alter system set full_page_writes = off", "select pg_reload_conf()", "checkpoint"] {
        admin.query(sql).map_err(|e| e.to_string())?;
    }
    let (bytes, _) = log_bytes(options, server, admin)?;
    figures.put(engine, "log bytes per TPC-B transaction, no full-page images", Better::Less, bytes);
    for sql in ["alter system reset full_page_writes", "select pg_reload_conf()"] {
        admin.query(sql).map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn selects(engine: &'static str, options: &Options, figures: &mut Figures, at: &Address) -> Result<(), String> {
    for &clients in &options.clients {
        let row = format!("point SELECT, prepared, {clients} clients, tps");
        match pgbench(at, options, clients, &["-S", "-M", "prepared"]) {
            Ok(result) => figures.put(engine, &row, Better::More, result.tps),
            // A field stays empty; the other runs still count.
            Err(e) => eprintln!("{engine}: {row}: {e}"),
        }
    }
    for mode in ["simple", "extended"] {
        let result = pgbench(at, options, 8, &["-S", "-M", mode])?;
        figures.put(engine, &format!("point SELECT, {mode}, 8 clients, tps"), Better::More, result.tps);
    }
    Ok(())
}

/// A TPC-B run: bytes of log per transaction, and transactions per second. No checkpoint is asked for in between.
fn log_bytes(options: &Options, server: &Server, admin: &mut Client) -> Result<(f64, f64), String> {
    let before = position(admin).map_err(|e| e.to_string())?;
    let result = pgbench(server.address(), options, 28, &["-M", "prepared"])?;
    let after = position(admin).map_err(|e| e.to_string())?;
    Ok((after.saturating_sub(before) as f64 / result.transactions.max(1) as f64, result.tps))
}

fn position(admin: &mut Client) -> Result<u64, ClientError> {
    let text = admin.value("select pg_current_wal_lsn()")?.unwrap_or_default();
    let (high, low) = text.split_once('/').unwrap_or(("0", "0"));
    let part = |t: &str| u64::from_str_radix(t, 16).unwrap_or(0);
    Ok((part(high) << 32) | part(low))
}

fn execute(server: &Server, statements: &[&str]) -> Result<(), String> {
    execute_with(&mut connect(server)?, statements)
}

fn execute_with(client: &mut Client, statements: &[&str]) -> Result<(), String> {
    statements.iter().try_for_each(|sql| client.query(sql).map(drop).map_err(|e| format!("{sql}: {e}")))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) { (values[middle - 1] + values[middle]) / 2.0 } else { values[middle] }
}

struct Run {
    tps: f64,
    transactions: u64,
    /// Seconds in which no transaction ended.
    empty_seconds: usize,
}

fn pgbench(at: &Address, options: &Options, clients: u32, arguments: &[&str]) -> Result<Run, String> {
    pgbench_with(at, options, clients, clients.min(2), arguments)
}

fn pgbench_with(
    at: &Address,
    options: &Options,
    clients: u32,
    threads: u32,
    arguments: &[&str],
) -> Result<Run, String> {
    let threads = threads.to_string();
    // Starting thousands of processes takes PostgreSQL longer than a short run lasts.
    let duration_s = if clients >= 500 { options.duration_s.max(30) } else { options.duration_s };
    let mut pgbench = command("pgbench", at)?;
    pgbench.args(["-n", "-c", &clients.to_string(), "-j", &threads, "-P", "1"]).args(arguments);
    // So many transactions or so long.
    if !arguments.contains(&"-t") {
        pgbench.args(["-T", &duration_s.to_string()]);
    }
    let output = pgbench.arg("postgres").output().map_err(|e| format!("pgbench: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let find = |start: &str| text.lines().find_map(|l| l.strip_prefix(start)).map(str::trim);
    let tps = find("tps = ").and_then(|t| t.split(' ').next()).and_then(|t| t.parse().ok());
    // Of so many, where so many were asked for.
    let transactions = find("number of transactions actually processed:")
        .and_then(|t| t.split('/').next())
        .and_then(|t| t.parse().ok());
    let progress = String::from_utf8_lossy(&output.stderr);
    let empty_seconds = progress.lines().filter(|l| l.starts_with("progress: ") && l.contains(" s, 0.0 tps")).count();
    let unfailed = find("number of failed transactions:").is_none_or(|t| t.starts_with("0 "));
    match (tps, transactions) {
        (Some(tps), Some(transactions)) if output.status.success() && unfailed => {
            Ok(Run { tps, transactions, empty_seconds })
        }
        _ => Err(format!(
            "pgbench {} -c {clients}: {text}{}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

/// For Unix sockets, which is where pgbench goes when it is not told of a host, as in the experiments. PostgreSQL may
/// run as another user.
fn socket_folder() -> Result<TempDir, String> {
    let folder = TempDir::new("bench-sockets").map_err(|e| e.to_string())?;
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).map_err(|e| e.to_string())?;
    Ok(folder)
}

fn command(program: &str, at: &Address) -> Result<Command, String> {
    let mut command = Command::new(pg::program(program).map_err(|e| e.to_string())?);
    command.args(["-h", &at.host, "-p", &at.port.to_string(), "-U", &at.user]);
    Ok(command)
}

fn version(program: &str) -> String {
    let output = pg::program(program).and_then(|path| Command::new(path).arg("--version").output());
    output.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_string()).unwrap_or_else(|e| format!("{program}: {e}"))
}

fn connect(server: &Server) -> Result<Client, String> {
    Client::connect(server.address(), "postgres").map_err(|e| e.to_string())
}

/// Growth of the server's proportional memory per session that has run one statement and now does nothing, in kB.
fn idle_memory(server: &Server) -> Result<f64, String> {
    // The first sessions fill caches that all share.
    let warm: Vec<Client> = sessions(server, 20)?;
    let before = memory_kb(server.pid());
    let idle = sessions(server, IDLE_SESSIONS)?;
    std::thread::sleep(Duration::from_millis(500));
    let after = memory_kb(server.pid());
    drop((warm, idle));
    Ok(after.saturating_sub(before) as f64 / IDLE_SESSIONS as f64)
}

fn sessions(server: &Server, count: usize) -> Result<Vec<Client>, String> {
    let mut sessions = Vec::new();
    for number in 1..=count {
        let mut client = connect(server)?;
        client.query(&format!("select relname from pg_class where oid = {number}")).map_err(|e| e.to_string())?;
        sessions.push(client);
    }
    Ok(sessions)
}

/// Proportional set size of a process and its children.
fn memory_kb(pid: u32) -> u64 {
    let own = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let own = own
        .lines()
        .find_map(|l| l.strip_prefix("Pss:"))
        .and_then(|l| l.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0);
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    own + children.split_whitespace().filter_map(|c| c.parse().ok()).map(memory_kb).sum::<u64>()
}

/// Bytes on disk below a folder, the log's files aside.
fn folder_bytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let mut bytes = 0;
    for entry in entries.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        let name = entry.file_name();
        if metadata.is_dir() && name != "wal" && name != "pg_wal" && name != "log" {
            bytes += folder_bytes(&entry.path());
        } else if metadata.is_file() {
            bytes += metadata.blocks() * 512;
        }
    }
    bytes
}
