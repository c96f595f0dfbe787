//! `kilndb lab`: the command line of the lab.
//!
//! Must not know: how experiments are run, and how results are shown.

mod run_request;

use crate::experiment::{self, Experiment};
use crate::report;
use crate::report::bounds;
use crate::report::compare::Comparison;
use crate::report::slower::BuildComparison;
use crate::results::{LabResults, RESULTS_FILE};
use crate::run::{self, StopWatch, is_stopped};
use crate::target::TargetUri;
use run_request::{BEFORE, OWN, RunRequest};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

pub const HELP: &str = "\
Usage:
  kilndb lab list [FOLDER...]
  kilndb lab run EXPERIMENT... [--target NAME=URI]... [--before PROGRAM] [--restart] [--clients N,...] [--seconds N]
                 [--rows N] [--set NAME=VALUE]... [--rounds N] [--full] [--search-rate] [--driver lab|pgbench] [--keep]
                 [--check] [--bounds] [--overwrite] [--out FOLDER]
  kilndb lab report FOLDER [--markdown FILE --section NAME] [--svg EXPERIMENT FILE]
  kilndb lab compare FOLDER FOLDER

list     shows the experiments that come with the program, and those of folders
run      runs experiments by their names, or folders of your own, or `documents` for those of the documents, `bench` for
         those that builds are compared by, or `all`, and writes results.json, results.csv and report.html. Without a
         target it starts a KilnDB and, if one is installed, a PostgreSQL in temporary folders, and for counters a Redis and
         a MariaDB. On a target that is given
         it works in schemas of its own, which it drops in the end unless --keep. With --before it compares two builds,
         its own (target kilndb) and another one's program (target before), in twelve rounds or more, and fails if a row
         is slower by its whole interval. --restart starts temporary servers again between rounds, with their data: one
         start of a server is one sample. --check stops them in the end and has `kilndb check` look at what they leave.
         --bounds fails if a figure that experiments hold to a bound is beyond it
report   writes results.csv and report.html of a folder anew. --markdown writes tables into a document instead, between its lines
         `<!-- lab: begin NAME -->` and `<!-- lab: end NAME -->`; --svg writes a picture of one experiment's bars
compare  tells what has changed from one folder's results to another's, there and in compare.html of the second folder
";

/// What `lab` is asked.
pub fn run(arguments: &[String]) -> Result<(), String> {
    match arguments.split_first() {
        Some((word, rest)) if word == "list" => list(rest),
        Some((word, rest)) if word == "run" => run_experiments(rest),
        Some((word, [folder, rest @ ..])) if word == "report" => report(Path::new(folder), rest),
        Some((word, [before, after])) if word == "compare" => compare(Path::new(before), Path::new(after)),
        Some((word, _)) if !matches!(word.as_str(), "help" | "--help" | "-h") => {
            Err(format!("lab does not know this: {}\n{HELP}", arguments.join(" ")))
        }
        _ => {
            print!("{HELP}");
            Ok(())
        }
    }
}

fn list(folders: &[String]) -> Result<(), String> {
    let mut all = experiment::shipped()?;
    for folder in folders {
        all.push(Experiment::read(Path::new(folder))?);
    }
    let width = all.iter().map(|experiment| experiment.name.len()).max().unwrap_or(0);
    for experiment in &all {
        println!("{:width$}  {}", experiment.name, experiment.file.title);
        let variants: Vec<&str> = experiment.file.variants.iter().map(|variant| variant.name.as_str()).collect();
        println!("{:width$}  {}", "", variants.join(", "));
    }
    Ok(())
}

fn run_experiments(arguments: &[String]) -> Result<(), String> {
    let request = RunRequest::read(arguments)?;
    let folder = request.folder.clone().unwrap_or_else(|| PathBuf::from("lab-results"));
    if folder.join(RESULTS_FILE).exists() && !request.overwrite && !may_overwrite(&folder)? {
        return Err(format!("{} has results already: --overwrite takes their place", folder.display()));
    }
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    // Thousands of clients need as many descriptors.
    kilndb_base::env::raise_descriptor_limit();
    let watch = StopWatch::new();
    let targets = request.targets()?;
    let command = format!("kilndb lab run {}", shown_arguments(arguments));
    let results = watch
        .guard(&targets, || run::run(&request.experiments, &targets, &request.options, (command, folder.as_path())))?;
    if is_stopped() {
        return Err(format!("stopped; what was measured before is in {}", folder.display()));
    }
    show(&results, &folder)?;
    let mut wrong = Vec::new();
    if request.before.is_some() {
        let comparison = BuildComparison::of(&results, BEFORE, OWN);
        println!("\n{}", comparison.text());
        wrong.extend(comparison.failures());
    }
    if request.bounds {
        wrong.extend(bounds::failures(&results));
    }
    if request.check {
        wrong.extend(targets.into_iter().filter_map(|target| target.end().err()));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Passwords are not for reports.
fn shown_arguments(arguments: &[String]) -> String {
    let shown = |argument: &String| match argument.split_once("=postgres") {
        Some((name, rest)) => match TargetUri::read(&format!("postgres{rest}")) {
            Ok(uri) => format!("{name}={}", uri.shown()),
            Err(_) => format!("{name}=…"),
        },
        None => argument.clone(),
    };
    arguments.iter().map(shown).collect::<Vec<_>>().join(" ")
}

fn may_overwrite(folder: &Path) -> Result<bool, String> {
    if !std::io::stdin().is_terminal() {
        return Ok(false);
    }
    eprint!("{} has results already. Take their place? [y/N] ", folder.display());
    std::io::stderr().flush().map_err(|e| e.to_string())?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(|e| e.to_string())?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Without options the page and the CSV; otherwise what they say.
fn report(folder: &Path, options: &[String]) -> Result<(), String> {
    let (mut document, mut section, mut pictures) = (None, None, Vec::new());
    let mut rest = options.iter();
    while let Some(word) = rest.next() {
        let mut value = || rest.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--markdown" => document = Some(value()?),
            "--section" => section = Some(value()?),
            "--svg" => {
                pictures.push((value()?, rest.next().ok_or("--svg needs the name of an experiment and of a file")?))
            }
            _ => return Err(format!("report does not know {word}")),
        }
    }
    let results = LabResults::read(folder)?;
    match (document, section) {
        (Some(document), Some(section)) => report::markdown::write(&results, Path::new(document), section)?,
        (None, None) if pictures.is_empty() => return show(&results, folder),
        (None, None) => {}
        (Some(_), None) => return Err("--markdown needs --section NAME".into()),
        (None, Some(_)) => return Err("--section needs --markdown FILE".into()),
    }
    pictures.iter().try_for_each(|(name, file)| report::write_picture(&results, name, Path::new(file)))
}

fn show(results: &LabResults, folder: &Path) -> Result<(), String> {
    report::write(results, folder)?;
    print!("{}", report::table::text(results));
    println!("\n{}", folder.join(report::REPORT_FILE).display());
    Ok(())
}

fn compare(before: &Path, after: &Path) -> Result<(), String> {
    let comparison = Comparison::of(&LabResults::read(before)?, &LabResults::read(after)?);
    comparison.write(after)?;
    print!("{}", comparison.text());
    Ok(())
}
