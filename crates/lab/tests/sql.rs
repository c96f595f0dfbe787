//! Runs the files of `tests/sql`, each in a database of its own, against KilnDB.
//!
//! `-- --postgres` runs them against a PostgreSQL started in a temporary folder, `-- --at HOST:PORT` against a server
//! that runs already; `--record` then writes the results found into the files. Other words select files by name.

use kilndb_lab::client::Address;
use kilndb_lab::process::{self, Server, TempDir};
use kilndb_lab::slt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            println!("test result: FAILED. 0 passed; 1 failed");
            ExitCode::FAILURE
        }
    }
}

struct Options {
    postgres: bool,
    record: bool,
    at: Option<Address>,
    names: Vec<String>,
}

fn options(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options { postgres: false, record: false, at: None, names: Vec::new() };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--postgres" => options.postgres = true,
            "--record" => options.record = true,
            "--at" => {
                let text = rest.next().ok_or("--at needs HOST:PORT")?;
                let (host, port) = text.rsplit_once(':').ok_or("--at needs HOST:PORT")?;
                let port = port.parse().map_err(|_| "bad port")?;
                options.at = Some(Address { host: host.into(), port, user: "postgres".into() });
            }
            // What the test harness's callers pass.
            flag if flag.starts_with("--") => {}
            name => options.names.push(name.to_string()),
        }
    }
    Ok(options)
}

fn run(arguments: &[String]) -> Result<bool, String> {
    let options = options(arguments)?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sql");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .map_err(|e| format!("{}: {e}", folder.display()))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "slt"))
        .filter(|path| options.names.is_empty() || options.names.iter().any(|n| path.display().to_string().contains(n.as_str())))
        .collect();
    files.sort();
    let temp = TempDir::new("sql").map_err(|e| e.to_string())?;
    let server = start(&options, temp.path())?;
    let address = match (&server, &options.at) {
        (Some(server), _) => server.address().clone(),
        (None, Some(address)) => address.clone(),
        (None, None) => return Err("no server".into()),
    };
    let engine = if options.postgres { "postgres" } else { "kilndb" };
    println!("\nrunning {} tests", files.len());
    let queue = Mutex::new(files.iter());
    let failed = Mutex::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let Some(path) = queue.lock().ok().and_then(|mut q| q.next()) else { return };
                    if !one(path, &address, engine, options.record)
                        && let Ok(mut failed) = failed.lock()
                    {
                        *failed += 1;
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or(1);
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {verdict}. {} passed; {failed} failed", files.len() - failed);
    if let Some(server) = server {
        server.stop().map_err(|e| e.to_string())?;
    }
    Ok(failed == 0)
}

fn start(options: &Options, temp: &Path) -> Result<Option<Server>, String> {
    if options.at.is_some() {
        return Ok(None);
    }
    let port = process::free_port().map_err(|e| e.to_string())?;
    let server = if options.postgres {
        process::start_postgres(temp, port, &["fsync=off"])
    } else {
        process::start_kilndb(&temp.join("data"), port, &[])
    };
    server.map(Some).map_err(|e| e.to_string())
}

fn one(path: &Path, address: &Address, engine: &str, record: bool) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let done = if record {
        slt::record_file(path, address, engine)
            .and_then(|text| std::fs::write(path, text).map_err(|e| e.to_string()))
            .map(|()| 0)
    } else {
        slt::run_file(path, address, engine)
    };
    match done {
        Ok(records) => {
            println!("test sql::{name} ({records} records) ... ok");
            true
        }
        Err(message) => {
            println!("test sql::{name} ... FAILED\n{message}");
            false
        }
    }
}
