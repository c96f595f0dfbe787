//! `kilndb lab`: the command line of the lab.
//!
//! Must not know: how experiments are run, and how results are shown.

use crate::experiment::{self, Experiment};
use crate::report;
use crate::report::compare::Comparison;
use crate::report::slower::{BuildComparison, ROUNDS_MIN};
use crate::results::{LabResults, RESULTS_FILE};
use crate::run::{self, DriverKind, LabOptions, StopWatch, is_stopped};
use crate::target::{Target, TargetUri, TemporaryProduct, own_kilndb};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

pub const HELP: &str = "\
Usage:
  kilndb lab list [FOLDER...]
  kilndb lab run EXPERIMENT... [--target NAME=URI]... [--clients N,...] [--seconds N] [--rows N] [--set NAME=VALUE]...
                 [--rounds N] [--full] [--before PROGRAM] [--restart] [--search-rate] [--driver lab|pgbench] [--keep] [--check] [--overwrite] [--out FOLDER]
  kilndb lab report FOLDER [--markdown FILE --section NAME] [--svg EXPERIMENT FILE]
  kilndb lab compare FOLDER FOLDER

list     shows the experiments that come with the program, and those of folders
run      runs experiments by their names, or folders of your own, or `documents` for those of the documents, `bench` for those that
         builds are compared by, or `all`, and writes results.json, results.csv and report.html. Without a target it starts a KilnDB and, if one is installed, a
         PostgreSQL in temporary folders. On a target that is given it works in schemas of its own, which it drops in the
         end unless --keep. With --before it compares two builds, its own (target kilndb) and another one's program (target
         before), in twelve rounds or more, and fails if a row is slower by its whole interval. --restart starts
         temporary servers again between rounds, with their data: one start of a server is one sample. --check stops them in
         the end and has `kilndb check` look at what they leave
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

/// What `lab run` is asked.
struct RunRequest {
    experiments: Vec<Experiment>,
    targets: Vec<(String, TargetUri)>,
    options: LabOptions,
    /// Another build's program to be compared with.
    before: Option<PathBuf>,
    folder: Option<PathBuf>,
    overwrite: bool,
    /// What temporary servers leave is checked in the end.
    check: bool,
}

/// The targets of two builds.
const OWN: &str = "kilndb";
const BEFORE: &str = "before";
/// Rounds where nobody says how many, and nothing is judged.
const ROUNDS: usize = 3;

impl RunRequest {
    /// The two builds that are compared and the targets that are given, or temporary ones.
    fn targets(&self) -> Result<Vec<Target>, String> {
        let mut targets = Vec::new();
        let own = || own_kilndb().map(TemporaryProduct::KilnDb).map_err(|e| e.to_string());
        if let Some(program) = &self.before {
            targets.push(Target::temporary(OWN, own()?)?);
            targets.push(Target::temporary(BEFORE, TemporaryProduct::KilnDb(program.clone()))?);
        }
        targets.extend(self.targets.iter().map(|(name, uri)| Target::given(name, uri.clone())));
        let wants_wire = self.experiments.iter().any(|experiment| experiment.file.measure.wire_limit);
        if targets.is_empty() {
            targets.push(Target::temporary("KilnDB", own()?)?);
            match Target::temporary("PostgreSQL", TemporaryProduct::Postgres) {
                Ok(target) => targets.push(target),
                Err(e) => eprintln!("without PostgreSQL: {e}"),
            }
            if wants_wire {
                targets.push(Target::wire_limit()?);
            }
        }
        Ok(targets)
    }
}

fn run_experiments(arguments: &[String]) -> Result<(), String> {
    let request = request(arguments)?;
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
    if request.check {
        wrong.extend(targets.into_iter().filter_map(|target| target.end().err()));
    }
    if request.before.is_some() {
        let comparison = BuildComparison::of(&results, BEFORE, OWN);
        println!("\n{}", comparison.text());
        wrong.extend(comparison.failures());
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

fn request(arguments: &[String]) -> Result<RunRequest, String> {
    let mut request = RunRequest {
        experiments: Vec::new(),
        targets: Vec::new(),
        options: LabOptions {
            clients: None,
            seconds: None,
            variables: Vec::new(),
            rounds: ROUNDS,
            full: false,
            restart: false,
            keep: false,
            search_rate: false,
            driver: DriverKind::Lab,
        },
        before: None,
        folder: None,
        overwrite: false,
        check: false,
    };
    let mut rounds = None;
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let mut value = || rest.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--full" => request.options.full = true,
            "--keep" => request.options.keep = true,
            "--overwrite" => request.overwrite = true,
            "--check" => request.check = true,
            "--search-rate" => request.options.search_rate = true,
            "--out" => request.folder = Some(value()?.into()),
            "--clients" => request.options.clients = Some(numbers(value()?)?),
            "--seconds" => request.options.seconds = Some(number(value()?)?),
            "--rows" => request.options.variables.push(("rows".into(), number(value()?)?.to_string())),
            "--set" => {
                let (name, text) = value()?.split_once('=').ok_or("--set needs NAME=VALUE")?;
                request.options.variables.push((name.to_string(), text.to_string()));
            }
            "--rounds" => rounds = Some(number(value()?)? as usize),
            "--restart" => request.options.restart = true,
            "--before" => request.before = Some(program(value()?)?),
            "--driver" => request.options.driver = driver(value()?)?,
            "--target" => {
                let (name, uri) = value()?.split_once('=').ok_or("--target needs NAME=URI")?;
                if request.targets.iter().any(|(known, _)| known == name) {
                    return Err(format!("there are two targets {name}"));
                }
                request.targets.push((name.to_string(), TargetUri::read(uri)?));
            }
            option if option.starts_with("--") => return Err(format!("unknown option {option}")),
            name => request.experiments.extend(experiments(name)?),
        }
    }
    request.options.rounds = rounds.unwrap_or(if request.before.is_some() { ROUNDS_MIN } else { ROUNDS });
    let is_taken = |name: &str| request.before.is_some() && [OWN, BEFORE].contains(&name);
    if let Some((name, _)) = request.targets.iter().find(|(name, _)| is_taken(name)) {
        return Err(format!("{name} is the name of a build that is compared"));
    }
    let has = |name: &str| request.experiments.iter().any(|experiment| experiment.file.variables.contains_key(name));
    let unknown = request.options.variables.iter().find(|(name, _)| name != "rows" && !has(name));
    if let Some((name, _)) = unknown.filter(|_| !request.experiments.is_empty()) {
        return Err(format!("none of the experiments has a variable {name}"));
    }
    if request.experiments.is_empty() {
        return Err("run needs the name of an experiment, or its folder: `kilndb lab list` shows them".into());
    }
    Ok(request)
}

fn program(path: &str) -> Result<PathBuf, String> {
    let program = PathBuf::from(path);
    if program.is_file() { Ok(program) } else { Err(format!("--before: {path} is no file")) }
}

fn number(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("{text} is no number above zero"))
}

fn numbers(text: &str) -> Result<Vec<usize>, String> {
    text.split(',').map(|text| number(text).map(|number| number as usize)).collect()
}

fn driver(text: &str) -> Result<DriverKind, String> {
    match text {
        "lab" => Ok(DriverKind::Lab),
        "pgbench" => Ok(DriverKind::Pgbench),
        _ => Err(format!("there is no driver {text}: lab or pgbench")),
    }
}

/// Experiments by a name, or the one of a folder.
fn experiments(name: &str) -> Result<Vec<Experiment>, String> {
    let folder = Path::new(name);
    if name.contains('/') || folder.join("experiment.toml").is_file() {
        return Experiment::read(folder).map(|experiment| vec![experiment]);
    }
    let shipped = experiment::shipped()?;
    let found: Vec<Experiment> = shipped.into_iter().filter(|experiment| experiment.is_of(name)).collect();
    match found.is_empty() {
        true => Err(format!("there is no experiment {name}: `kilndb lab list` shows them")),
        false => Ok(found),
    }
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
