//! `kilndb-lab`: experiments against servers that speak PostgreSQL's protocol.

mod load_command;

use std::process::ExitCode;

const HELP: &str = "\
Usage:
  kilndb-lab load [--host HOST] [--port N] [--user NAME] [--database NAME] [--clients N] [--threads N] [--seconds N]
                  [--rate N] [--tries N] [--protocol simple|extended|prepared] [--define NAME=VALUE] SCRIPT...
  kilndb-lab canned SOCKET
  kilndb-lab lab ...

load     runs pgbench's scripts against a server, and tells transactions, rows and latencies
lab      `kilndb lab`, from the library that the server's program has it from
canned   the wire limit alone: a server that answers every message with prepared bytes
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.first().map(String::as_str) {
        Some("load") => load_command::run(&arguments[1..]),
        Some("lab") => kilndb_lab::command::run(&arguments[1..]),
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
