//! Runs the files of `tests/sql`, each in a database of its own, against KilnDB or (`-- --postgres`) PostgreSQL: see
//! `kilndb_lab::suite` for the words it takes.

use kilndb_lab::slt;
use kilndb_lab::suite::{FileRun, Suite};
use std::process::ExitCode;

fn main() -> ExitCode {
    Suite { name: "sql", folder: "tests/sql", extension: "slt", unit: "records", at_once: 4, one }.main()
}

fn one(run: &FileRun<'_>) -> Result<usize, String> {
    if !run.record {
        return slt::run_file(run.path, run.address, run.engine);
    }
    let text = slt::record_file(run.path, run.address, run.engine)?;
    std::fs::write(run.path, text).map_err(|e| e.to_string())?;
    Ok(0)
}
