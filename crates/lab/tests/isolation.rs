//! Runs the specs of `tests/isolation`, each in a database of its own, against KilnDB or (`-- --postgres`) PostgreSQL:
//! see `kilndb_lab::suite` for the words it takes and `kilndb_lab::isolation` for the format.

use kilndb_lab::isolation;
use kilndb_lab::suite::{FileRun, Suite};
use std::process::ExitCode;

fn main() -> ExitCode {
    Suite { name: "isolation", folder: "tests/isolation", extension: "spec", unit: "orders", at_once: 3, one }.main()
}

fn one(run: &FileRun<'_>) -> Result<usize, String> {
    let how = if run.record { isolation::record_file } else { isolation::run_file };
    how(run.path, run.address, run.engine)
}
