//! What the programs that run a folder of test files have in common: their words on the command line, the server
//! they run against, and the lines they print.

use crate::client::Address;
use crate::postgres;
use crate::process::{self, Server, TempDir};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;

struct SuiteOptions {
    postgres: bool,
    record: bool,
    at: Option<Address>,
    names: Vec<String>,
}

/// What a file is run with.
pub struct FileRun<'a> {
    pub path: &'a Path,
    pub address: &'a Address,
    /// `kilndb` or `postgres`.
    pub engine: &'a str,
    /// Write down what was found instead of comparing.
    pub record: bool,
}

pub struct Suite {
    pub name: &'static str,
    /// The folder of the suite's files, from the root of the repository.
    pub folder: &'static str,
    pub extension: &'static str,
    /// What the number that `one` answers counts.
    pub unit: &'static str,
    pub at_once: usize,
    /// Runs one file.
    pub one: fn(&FileRun<'_>) -> Result<usize, String>,
}

impl Suite {
    /// `--postgres` runs the files against a PostgreSQL started in a temporary folder, `--at HOST:PORT` against a
    /// server that runs already; `--record` then writes the results found into the files. Other words select files by
    /// name.
    pub fn main(&self) -> ExitCode {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        match self.run(&arguments) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(message) => {
                eprintln!("{message}");
                println!("test result: FAILED. 0 passed; 1 failed");
                ExitCode::FAILURE
            }
        }
    }

    fn run(&self, arguments: &[String]) -> Result<bool, String> {
        let options = options(arguments)?;
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(self.folder);
        let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
            .map_err(|e| format!("{}: {e}", folder.display()))?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|e| e == self.extension))
            .filter(|path| {
                options.names.is_empty()
                    || options.names.iter().any(|n| path.display().to_string().contains(n.as_str()))
            })
            .collect();
        files.sort();
        let temp = TempDir::new(self.name).map_err(|e| e.to_string())?;
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
            for _ in 0..self.at_once {
                scope.spawn(|| {
                    loop {
                        let Some(path) = queue.lock().ok().and_then(|mut q| q.next()) else { return };
                        if !self.one(&FileRun { path, address: &address, engine, record: options.record })
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

    fn one(&self, run: &FileRun<'_>) -> bool {
        let name = run.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match (self.one)(run) {
            Ok(count) => {
                println!("test {}::{name} ({count} {}) ... ok", self.name, self.unit);
                true
            }
            Err(message) => {
                println!("test {}::{name} ... FAILED\n{message}", self.name);
                false
            }
        }
    }
}

fn options(arguments: &[String]) -> Result<SuiteOptions, String> {
    let mut options = SuiteOptions { postgres: false, record: false, at: None, names: Vec::new() };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--postgres" => options.postgres = true,
            "--record" => options.record = true,
            "--at" => {
                let text = rest.next().ok_or("--at needs HOST:PORT")?;
                let (host, port) = text.rsplit_once(':').ok_or("--at needs HOST:PORT")?;
                let port = port.parse().map_err(|_| "bad port")?;
                options.at = Some(Address { host: host.into(), ..Address::local(port) });
            }
            // What the test harness's callers pass.
            flag if flag.starts_with("--") => {}
            name => options.names.push(name.to_string()),
        }
    }
    Ok(options)
}

fn start(options: &SuiteOptions, temp: &Path) -> Result<Option<Server>, String> {
    if options.at.is_some() {
        return Ok(None);
    }
    let port = process::free_port().map_err(|e| e.to_string())?;
    let server = if options.postgres {
        postgres::start(temp, port, &["fsync=off"])
    } else {
        process::start_kilndb(&temp.join("data"), port, &[])
    };
    server.map(Some).map_err(|e| e.to_string())
}
