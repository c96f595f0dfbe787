//! What people are shown of a run of the lab, all of it made from its results alone: a table on the terminal, CSV, a page, Markdown for a
//! document, a picture, what is slower, what is beyond its bounds.
//!
//! 1. Nothing is shown that the results do not say, and a cell without runs says in words why it has none.
//! 2. Each kind of view computes nothing: medians, intervals and verdicts come from `summary` and `verdict`.
//!
//! Must not know: servers, and how loads are run.

pub mod bounds;
pub mod compare;
pub mod csv;
pub mod html;
pub mod markdown;
mod markup;
pub mod picture;
pub mod sample;
pub mod slower;
pub mod summary;
mod svg;
pub mod table;
pub mod verdict;
mod words;

use crate::results::LabResults;
use std::path::Path;

/// The page's name in the folder of a run.
pub const REPORT_FILE: &str = "report.html";
/// The name of the lines of all runs.
pub const CSV_FILE: &str = "results.csv";

/// Writes the page and the CSV of a run into its folder, over earlier ones.
pub fn write(results: &LabResults, folder: &Path) -> Result<(), String> {
    write_file(&folder.join(REPORT_FILE), &html::page(results))?;
    write_file(&folder.join(CSV_FILE), &csv::lines(results))
}

/// Writes the picture of an experiment.
pub fn write_picture(results: &LabResults, experiment: &str, file: &Path) -> Result<(), String> {
    write_file(file, &picture::of_experiment(results, experiment)?)
}

fn write_file(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::TempDir;

    #[test]
    fn both_files_are_written_over_earlier_ones() {
        let folder = TempDir::new("lab-report").expect("a folder");
        let results = sample::results();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("a file");
        std::fs::write(folder.path().join(REPORT_FILE), "an earlier one that is no page").expect("a file");
        // What is shown comes from the file of the results alone.
        results.write(folder.path()).expect("results");
        let kept = LabResults::read(folder.path()).expect("results");
        write(&kept, folder.path()).expect("a report");
        assert_eq!(read(REPORT_FILE), html::page(&kept));
        assert_eq!(read(CSV_FILE), csv::lines(&kept));
        let nowhere = folder.path().join("nowhere");
        let told = write(&results, &nowhere).expect_err("there is no folder");
        assert!(told.contains("nowhere") && told.contains("No such file"), "{told}");
    }
}
