//! `kilndb-lab`: experiments against servers that speak PostgreSQL's protocol.

mod bench;

use std::process::ExitCode;

const HELP: &str = "\
Usage:
  kilndb-lab bench [--scale N] [--duration SECONDS] [--clients N,N,...] [--only PART,PART,...] [--parts PART,PART,...] [--rows N]
  kilndb-lab canned SOCKET

bench    pgbench against PostgreSQL, KilnDB and the wire limit, one after the other; prints tables
canned   the wire limit alone: a server that answers every message with prepared bytes
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.first().map(String::as_str) {
        Some("bench") => bench::run(&arguments[1..]),
        Some("canned") => match arguments.get(1) {
            Some(socket) => kilndb_lab::canned::serve(socket.as_ref()).map_err(|e| e.to_string()),
            None => Err("canned needs the path of a socket".into()),
        },
        _ => {
            print!("{HELP}");
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("kilndb-lab: {message}");
            ExitCode::FAILURE
        }
    }
}
