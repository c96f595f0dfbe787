//! Runs the conversations of `tests/protocol`, each in a database of its own, against KilnDB or (`-- --postgres`)
//! PostgreSQL: see `kilndb_lab::suite` for the words it takes and `kilndb_lab::conversation` for the format.

use kilndb_lab::conversation;
use kilndb_lab::suite::{FileRun, Suite};
use std::process::ExitCode;

fn main() -> ExitCode {
    Suite { name: "protocol", folder: "tests/protocol", extension: "msg", unit: "turns", at_once: 3, one }.main()
}

fn one(run: &FileRun<'_>) -> Result<usize, String> {
    if !run.record {
        return conversation::run_file(run.path, run.address, run.engine);
    }
    let text = conversation::record_file(run.path, run.address, run.engine)?;
    std::fs::write(run.path, text).map_err(|e| e.to_string())?;
    Ok(0)
}
