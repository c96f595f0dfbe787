//! `kilndb-lab bench`: what experiments of the lab do not say. KilnDB against PostgreSQL, or one build of KilnDB against another, in
//! turns, with tables: changes of tables beside a load, access control, TLS.

mod access;
mod figures;
mod load;
mod online;
mod per_second;
mod pgbench;
mod tls;
mod turns;

use figures::Figures;
use kilndb_lab::client::Address;
use kilndb_lab::postgres as pg;
use kilndb_lab::process::{self, TempDir};
use kilndb_lab::report::slower::{ROUNDS_MIN, SLOWER_BELOW};
use std::path::PathBuf;
use std::process::Command;
use turns::{BenchStage, ComparedServer};

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
    parts: Vec<String>,
}

const PARTS: [&str; 3] = [ONLINE, TLS, ACCESS];
/// Changes of tables beside a load.
const ONLINE: &str = "online";
/// What grants, policies and strangers cost.
const ACCESS: &str = "access";
/// Point queries over TLS.
const TLS: &str = "tls";

impl BenchOptions {
    fn has(&self, part: &str) -> bool {
        self.parts.iter().any(|known| known == part)
    }
}

pub fn run(arguments: &[String]) -> Result<(), String> {
    let options = options(arguments)?;
    // Strangers at the door need as many descriptors.
    kilndb_base::env::raise_descriptor_limit();
    print_conditions(&options);
    let sides = sides(&options)?;
    let mut figures = Figures::default();
    let failed = measure(&sides, &options, &mut figures);
    let mut wrong = Vec::new();
    let checked = end(sides);
    let (base, other) = names(&options);
    figures.print([base, other]);
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
    println!("scale {}, {} pairs of runs of {} s", options.scale, options.pairs, options.duration_s);
    println!();
}

/// Both servers. The names of the stages that failed: a part that fails is left out of the table and
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
    let mut stages = load::stages(options);
    if options.has(ONLINE) {
        stages.extend(online::stages());
    }
    if options.has(TLS) {
        stages.extend(tls::stages(options));
    }
    if options.has(ACCESS) {
        stages.extend(access::stages());
    }
    stages
}

fn options(arguments: &[String]) -> Result<BenchOptions, String> {
    let mut options = BenchOptions {
        scale: 50,
        duration_s: 1,
        pairs: ROUNDS_MIN,
        clients: vec![1, 8, 28, 64],
        shared_buffers: "1GB".into(),
        before: None,
        parts: Vec::new(),
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
            "--shared-buffers" => options.shared_buffers = value.clone(),
            "--before" => options.before = Some(value.into()),
            "--parts" => options.parts = value.split(',').map(str::to_string).collect(),
            _ => return Err(format!("unknown option {flag}")),
        }
    }
    if options.pairs < ROUNDS_MIN {
        return Err(format!("--pairs: at least {ROUNDS_MIN}"));
    }
    if let Some(part) = options.parts.iter().find(|part| !PARTS.contains(&part.as_str())) {
        return Err(format!("unknown part {part}: there are {}", PARTS.join(", ")));
    }
    if options.parts.is_empty() {
        return Err(format!(
            "--parts names some of {}; `kilndb lab run bench` and `plans`, `execution` are all else",
            PARTS.join(", ")
        ));
    }
    if let Some(before) = options.before.as_ref().filter(|before| !before.is_file()) {
        return Err(format!("--before: {} is no file", before.display()));
    }
    Ok(options)
}

fn numbers(list: &str) -> Result<Vec<u32>, std::num::ParseIntError> {
    list.split(',').map(str::parse).collect()
}

/// What the second is held against, and the second.
fn names(options: &BenchOptions) -> (&'static str, &'static str) {
    if options.before.is_some() { ("before", "now") } else { ("PostgreSQL", "KilnDB") }
}

fn sides(options: &BenchOptions) -> Result<Vec<ComparedServer>, String> {
    let own = process::kilndb_program().map_err(|e| e.to_string())?;
    let (base, other) = names(options);
    Ok(vec![start(base, options.before.clone(), options)?, start(other, Some(own), options)?])
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
    Ok(ComparedServer { name, at, server, data, kilndb, _folders: [folder, sockets] })
}

/// Stops the servers, and checks what they leave.
fn end(sides: Vec<ComparedServer>) -> Result<(), String> {
    for side in sides {
        side.server.stop().map_err(|e| format!("{}: {e}", side.name))?;
        if let Some(program) = side.kilndb {
            process::check_program(&program, &side.data).map_err(|e| format!("{}: {e}", side.name))?;
        }
    }
    Ok(())
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
