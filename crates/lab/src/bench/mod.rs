//! `kilndb-lab bench`: KilnDB against PostgreSQL, or one build of KilnDB against another, in turns, and a table.

mod access;
mod bulk;
mod execution;
mod figures;
mod hot;
mod inverted;
mod latency;
mod load;
mod online;
mod partitions;
mod per_second;
mod pgbench;
mod plans;
mod tls;
mod tpcc;
mod turns;

use figures::{Figures, SLOWER_BELOW};
use kilndb_lab::canned;
use kilndb_lab::client::{Address, Client};
use kilndb_lab::postgres as pg;
use kilndb_lab::process::{self, TempDir};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use turns::{BenchStage, ComparedServer, RunningServer};

/// Fewer say too little of a row: the interval of twelve pairs on a machine that varies by 5 % is 6 % wide.
const PAIRS_MIN: usize = 12;

#[derive(Clone)]
pub(crate) struct BenchOptions {
    scale: u32,
    duration_s: u32,
    /// Turns of each server in a row.
    pairs: usize,
    clients: Vec<u32>,
    shared_buffers: String,
    /// Another build of KilnDB to be compared with, instead of PostgreSQL.
    before: Option<PathBuf>,
    /// The parts that run, of `pgbench`, `latency`, `hot` (experiment 4), `bulk` (experiments 1 and 3), `partitions`
    /// (experiments 4 and 5), `inverted` (experiment 2), `online` (changes of tables beside the load), `tls`, `access`, `tpcc`, `plans`,
    /// `joins` and `execution`; None: all but `online` and `tpcc`, whose turns are long, `tls`, `access`, and the last three, which measure
    /// statements and not loads.
    parts: Option<Vec<String>>,
    /// The rows of the tables that are filled, changed and emptied as a whole.
    rows: u32,
    /// The scale of TPC-H in `plans` and `execution`.
    tpch: f64,
    /// The sizes and the numbers of clients of `tpcc`, each with each.
    warehouses: Vec<u32>,
    terminals: Vec<u32>,
    /// The films in `joins`, which all sizes follow from.
    films: u32,
    /// Parts of the names of rows in `execution`; none: all rows.
    only: Vec<String>,
    /// The turns of each server in `execution`, of which the medians count.
    turns: usize,
}

const PARTS: [&str; 6] = ["pgbench", "latency", "hot", "bulk", "partitions", "inverted"];
/// Parts that run only if they are named.
const NAMED_PARTS: [&str; 7] = [ONLINE, TLS, ACCESS, TPCC, PLANS, JOINS, EXECUTION];
const ONLINE: &str = "online";
/// What grants, policies and strangers cost.
const ACCESS: &str = "access";
/// Point queries over TLS.
const TLS: &str = "tls";
/// TPC-C, which has a database of its own.
const TPCC: &str = "tpcc";
/// The part that compares queries and their plans; it has tables of its own.
const PLANS: &str = "plans";
/// The part that compares estimates and plans of joins with the truth; it has tables of its own.
const JOINS: &str = "joins";
/// The part that measures how fast statements are executed; it has tables of its own.
const EXECUTION: &str = "execution";

impl BenchOptions {
    fn has(&self, part: &str) -> bool {
        self.parts.as_ref().is_none_or(|parts| parts.iter().any(|p| p == part))
    }
    fn has_named(&self, part: &str) -> bool {
        self.parts.is_some() && self.has(part)
    }
    /// There is something beside `plans`.
    fn has_loads(&self) -> bool {
        self.has_pgbench_tables() || self.has_named(TPCC)
    }
    /// There is something that begins with pgbench's tables.
    fn has_pgbench_tables(&self) -> bool {
        PARTS.into_iter().any(|part| self.has(part))
            || [ONLINE, TLS, ACCESS].into_iter().any(|part| self.has_named(part))
    }
}

pub fn run(arguments: &[String]) -> Result<(), String> {
    let options = options(arguments)?;
    // 1,920 clients need as many descriptors.
    kilndb_base::env::raise_descriptor_limit();
    print_conditions(&options);
    let sides = sides(&options)?;
    let mut figures = Figures::default();
    let failed = if options.has_loads() { measure(&sides, &options, &mut figures) } else { Vec::new() };
    let mut wrong = if options.has_named(PLANS) { plans::run(&sides, &options) } else { Vec::new() };
    if options.has_named(JOINS) {
        wrong.extend(plans::joins::run(&sides, &options));
    }
    if options.has_named(EXECUTION) {
        wrong.extend(execution::run(&sides, &options));
    }
    let checked = end(sides, &options);
    let (base, other) = names(&options);
    let mut names = vec![base, other];
    if options.before.is_none() && options.has("pgbench") {
        names.push(WIRE);
    }
    if options.has_loads() {
        figures.print(&names);
    }
    let slower = figures.slower(base, other);
    let beyond = figures.beyond_bounds(other);
    if !failed.is_empty() {
        wrong.push(format!("not finished: {}", failed.join(", ")));
    }
    if !slower.is_empty() {
        wrong.push(format!("slower than {base} by their whole interval (below {SLOWER_BELOW}): {}", slower.join("; ")));
    }
    if !beyond.is_empty() {
        wrong.push(format!("beyond their bounds by their whole interval: {}", beyond.join("; ")));
    }
    wrong.extend(checked.err());
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Prints under which conditions the figures come about.
fn print_conditions(options: &BenchOptions) {
    let compared = match &options.before {
        Some(path) => format!("before: {}", path.display()),
        None => version("postgres"),
    };
    println!(
        "{} cores; {}; {compared}; shared_buffers {}",
        std::thread::available_parallelism().map_or(0, |n| n.get()),
        version("pgbench"),
        options.shared_buffers
    );
    if options.has_pgbench_tables() {
        println!("scale {}, {} pairs of runs of {} s", options.scale, options.pairs, options.duration_s);
    }
    println!();
}

/// Both servers, or all three. The names of the stages that failed: a part that fails is left out of the table and
/// named, so that the rest of a long run is not lost.
fn measure(sides: &[ComparedServer], options: &BenchOptions, figures: &mut Figures) -> Vec<String> {
    let names: Vec<&'static str> = sides.iter().map(|side| side.name).collect();
    sides.iter().for_each(ComparedServer::pause);
    let mut failed = Vec::new();
    for stage in stages(options) {
        let rows = figures.count();
        if let Err(e) = stage.run(sides, options, figures) {
            eprintln!("{e}");
            failed.push(e.lines().next().unwrap_or_default().to_string());
        }
        figures.progress(&names, rows);
    }
    sides.iter().for_each(ComparedServer::go_on);
    failed
}

fn stages(options: &BenchOptions) -> Vec<BenchStage> {
    let mut stages = if options.has_pgbench_tables() { load::stages(options) } else { Vec::new() };
    for part in PARTS.into_iter().filter(|part| options.has(part)) {
        stages.extend(match part {
            "pgbench" => pgbench::stages(options),
            "latency" => latency::stages(),
            "hot" => hot::stages(options),
            "bulk" => bulk::stages(options),
            "partitions" => partitions::stages(options),
            _ => inverted::stages(options),
        });
    }
    if options.has_named(ONLINE) {
        stages.extend(online::stages());
    }
    if options.has_named(TLS) {
        stages.extend(tls::stages(options));
    }
    if options.has_named(ACCESS) {
        stages.extend(access::stages());
    }
    if options.has_named(TPCC) {
        stages.extend(tpcc::stages(options));
    }
    stages
}

fn options(arguments: &[String]) -> Result<BenchOptions, String> {
    let mut options = BenchOptions {
        scale: 50,
        duration_s: 1,
        pairs: PAIRS_MIN,
        clients: vec![1, 8, 28, 64, 1920],
        shared_buffers: "1GB".into(),
        before: None,
        parts: None,
        rows: 1_000_000,
        tpch: 0.1,
        warehouses: vec![5, 50],
        terminals: vec![16, 64],
        films: 30_000,
        only: Vec::new(),
        turns: 3,
    };
    let mut rest = arguments.iter();
    while let Some(flag) = rest.next() {
        let value = rest.next().ok_or_else(|| format!("{flag} needs a value"))?;
        let bad = |_| format!("bad value of {flag}: {value}");
        match flag.as_str() {
            "--scale" => options.scale = value.parse().map_err(bad)?,
            "--duration" => options.duration_s = value.parse().map_err(bad)?,
            "--pairs" => options.pairs = value.parse().map_err(bad)?,
            "--clients" => options.clients = numbers(value).map_err(bad)?,
            "--warehouses" => options.warehouses = numbers(value).map_err(bad)?,
            "--terminals" => options.terminals = numbers(value).map_err(bad)?,
            "--shared-buffers" => options.shared_buffers = value.clone(),
            "--before" => options.before = Some(value.into()),
            "--parts" => options.parts = Some(value.split(',').map(str::to_string).collect()),
            "--rows" => options.rows = value.parse().map_err(bad)?,
            "--films" => options.films = films(value)?,
            "--only" => options.only = value.split(',').map(|text| text.trim().to_string()).collect(),
            "--turns" => options.turns = value.parse().map_err(bad)?,
            "--tpch" => options.tpch = scale_of_tpch(value)?,
            _ => return Err(format!("unknown option {flag}")),
        }
    }
    if options.pairs < PAIRS_MIN {
        return Err(format!("--pairs: at least {PAIRS_MIN}"));
    }
    if options.turns == 0 {
        return Err("--turns: at least 1".into());
    }
    let is_known = |part: &&String| PARTS.contains(&part.as_str()) || NAMED_PARTS.contains(&part.as_str());
    if let Some(part) = options.parts.iter().flatten().find(|part| !is_known(part)) {
        return Err(format!("unknown part {part}: there are {}, {}", PARTS.join(", "), NAMED_PARTS.join(", ")));
    }
    if let Some(before) = options.before.as_ref().filter(|before| !before.is_file()) {
        return Err(format!("--before: {} is no file", before.display()));
    }
    Ok(options)
}

fn numbers(list: &str) -> Result<Vec<u32>, std::num::ParseIntError> {
    list.split(',').map(str::parse).collect()
}

/// Below 0.01 there would not be a supplier of each kind; beyond 10 the numbers of parts outgrow what is measured here.
fn scale_of_tpch(value: &str) -> Result<f64, String> {
    let scale = value.parse::<f64>().ok().filter(|scale| (0.01..=10.0).contains(scale));
    scale.ok_or_else(|| format!("--tpch: {value} is no scale from 0.01 to 10"))
}

/// Fewer films would not have a company of each country.
fn films(value: &str) -> Result<u32, String> {
    let films = value.parse::<u32>().ok().filter(|films| (1_000..=1_000_000).contains(films));
    films.ok_or_else(|| format!("--films: {value} is no number from 1000 to 1000000"))
}

const WIRE: &str = "wire limit";

/// What the second is held against, and the second.
fn names(options: &BenchOptions) -> (&'static str, &'static str) {
    if options.before.is_some() { ("before", "now") } else { ("PostgreSQL", "KilnDB") }
}

fn sides(options: &BenchOptions) -> Result<Vec<ComparedServer>, String> {
    let own = process::kilndb_program().map_err(|e| e.to_string())?;
    let (base, other) = names(options);
    let mut sides = vec![start(base, options.before.clone(), options)?, start(other, Some(own), options)?];
    if options.before.is_none() && options.has("pgbench") {
        sides.push(wire()?);
    }
    Ok(sides)
}

/// A KilnDB of this program, or PostgreSQL. Both get the same settings.
fn start(name: &'static str, kilndb: Option<PathBuf>, options: &BenchOptions) -> Result<ComparedServer, String> {
    let folder = TempDir::new(&format!("bench-{}", name.to_lowercase())).map_err(|e| e.to_string())?;
    let port = process::free_port().map_err(|e| e.to_string())?;
    let buffers = format!("shared_buffers={}", options.shared_buffers);
    // Where pgbench goes when it is not told of a host, as in the experiments.
    let sockets = TempDir::for_sockets().map_err(|e| e.to_string())?;
    let socket = format!("unix_socket_directories={}", sockets.path().display());
    // As servers run by default: what they do in the background counts.
    let settings = [buffers.as_str(), "max_connections=2000", "autovacuum=on", &socket];
    let (started, data) = match &kilndb {
        None => (pg::start(folder.path(), port, &settings), folder.path().join("pg")),
        Some(program) => {
            let data = folder.path().join("data");
            (process::start_program(program, &data, port, &settings), data)
        }
    };
    let mut server = started.map_err(|e| format!("{name}: {e}"))?;
    server.reach_in(sockets.path());
    let at = server.address().clone();
    Ok(ComparedServer { name, at, running: Some(RunningServer { server, data, kilndb, _folders: [folder, sockets] }) })
}

/// The wire limit has no data and no processes: it serves from this one, for as long as that runs.
fn wire() -> Result<ComparedServer, String> {
    let folder = TempDir::for_sockets().map_err(|e| e.to_string())?;
    let port = process::free_port().map_err(|e| e.to_string())?;
    let at = Address { host: folder.path().display().to_string(), ..Address::local(port) };
    let socket = folder.path().join(format!(".s.PGSQL.{port}"));
    std::thread::spawn(move || {
        let _folder = folder;
        if let Err(e) = canned::serve(&socket) {
            eprintln!("{WIRE}: {e}");
        }
    });
    std::thread::sleep(Duration::from_millis(200));
    Ok(ComparedServer { name: WIRE, at, running: None })
}

/// Stops the servers, and checks what they leave.
fn end(sides: Vec<ComparedServer>, options: &BenchOptions) -> Result<(), String> {
    for side in sides {
        let Some(running) = side.running else { continue };
        let sums = if options.has("pgbench") { sums(&side.at)? } else { Vec::new() };
        running.server.stop().map_err(|e| format!("{}: {e}", side.name))?;
        if sums.iter().any(|sum| *sum != sums[0]) {
            return Err(format!("{}: the four sums differ: {sums:?}", side.name));
        }
        if let Some(program) = running.kilndb {
            process::check_program(&program, &running.data).map_err(|e| format!("{}: {e}", side.name))?;
        }
    }
    Ok(())
}

/// What TPC-B keeps equal.
fn sums(at: &Address) -> Result<Vec<i64>, String> {
    let mut admin = Client::connect(at, "postgres").map_err(|e| e.to_string())?;
    [
        "select coalesce(sum(abalance), 0)::bigint from pgbench_accounts",
        "select coalesce(sum(tbalance), 0)::bigint from pgbench_tellers",
        "select coalesce(sum(bbalance), 0)::bigint from pgbench_branches",
        "select coalesce(sum(delta), 0)::bigint from pgbench_history",
    ]
    .iter()
    .map(|sql| admin.integer(sql).map_err(|e| format!("{sql}: {e}")))
    .collect()
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
