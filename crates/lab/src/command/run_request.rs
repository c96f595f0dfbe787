//! What `kilndb lab run` is asked: experiments, targets and how long.
//!
//! Must not know: how experiments are run, and how results are shown.

use crate::experiment::{self, ConnectionName, Experiment};
use crate::report::slower::ROUNDS_MIN;
use crate::run::{DriverKind, LabOptions};
use crate::target::{Target, TargetUri, TemporaryNeeds, TemporaryProduct, own_kilndb};
use std::path::{Path, PathBuf};

/// What is asked.
pub(super) struct RunRequest {
    pub experiments: Vec<Experiment>,
    targets: Vec<(String, TargetUri)>,
    pub options: LabOptions,
    /// Another build's program to be compared with.
    pub before: Option<PathBuf>,
    pub folder: Option<PathBuf>,
    pub overwrite: bool,
    /// What temporary servers leave is checked in the end.
    pub check: bool,
    /// A figure beyond its bound fails.
    pub bounds: bool,
}

/// The targets of two builds.
pub(super) const OWN: &str = "kilndb";
pub(super) const BEFORE: &str = "before";
/// Rounds where nobody says how many, and nothing is judged.
const ROUNDS: usize = 3;

impl RunRequest {
    /// Errors: words that mean nothing, and what does not go together.
    pub fn read(arguments: &[String]) -> Result<RunRequest, String> {
        let mut request = RunRequest {
            experiments: Vec::new(),
            targets: Vec::new(),
            options: LabOptions::of_rounds(ROUNDS),
            before: None,
            folder: None,
            overwrite: false,
            check: false,
            bounds: false,
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
                "--bounds" => request.bounds = true,
                "--restart" => request.options.restart = true,
                "--search-rate" => request.options.search_rate = true,
                "--out" => request.folder = Some(value()?.into()),
                "--clients" => request.options.clients = Some(numbers(value()?)?),
                "--seconds" => request.options.seconds = Some(number(value()?)?),
                "--rounds" => rounds = Some(number(value()?)? as usize),
                "--rows" => request.options.variables.push(("rows".into(), number(value()?)?.to_string())),
                "--set" => request.options.variables.push(named(value()?, "--set needs NAME=VALUE")?),
                "--before" => request.before = Some(program(value()?)?),
                "--driver" => request.options.driver = driver(value()?)?,
                "--target" => {
                    let (name, uri) = named(value()?, "--target needs NAME=URI")?;
                    request.targets.push((name, TargetUri::read(&uri)?));
                }
                option if option.starts_with("--") => return Err(format!("unknown option {option}")),
                name => request.experiments.extend(experiments(name)?),
            }
        }
        request.options.counters = request.targets.is_empty() && request.before.is_none();
        request.options.rounds = rounds.unwrap_or(if request.before.is_some() { ROUNDS_MIN } else { ROUNDS });
        request.examine().map(|()| request)
    }

    /// What is wrong with all of it together.
    fn examine(&self) -> Result<(), String> {
        if self.experiments.is_empty() {
            return Err("run needs the name of an experiment, or its folder: `kilndb lab list` shows them".into());
        }
        for (at, (name, _)) in self.targets.iter().enumerate() {
            if self.targets[..at].iter().any(|(known, _)| known == name) {
                return Err(format!("there are two targets {name}"));
            }
            if self.before.is_some() && [OWN, BEFORE].contains(&name.as_str()) {
                return Err(format!("{name} is the name of a build that is compared"));
            }
        }
        // What is for all that have rows may be for none of them.
        let has = |name: &str| self.experiments.iter().any(|experiment| experiment.file.variables.contains_key(name));
        match self.options.variables.iter().find(|(name, _)| name != "rows" && !has(name)) {
            Some((name, _)) => Err(format!("none of the experiments has a variable {name}")),
            None => Ok(()),
        }
    }

    /// The two builds that are compared and the targets that are given, or temporary ones.
    pub fn targets(&self) -> Result<Vec<Target>, String> {
        let mut targets = Vec::new();
        let needs = needs(&self.experiments)?;
        let own = || own_kilndb().map(TemporaryProduct::KilnDb).map_err(|e| e.to_string());
        if let Some(program) = &self.before {
            targets.push(Target::temporary(OWN, own()?, &needs)?);
            targets.push(Target::temporary(BEFORE, TemporaryProduct::KilnDb(program.clone()), &needs)?);
        }
        targets.extend(self.targets.iter().map(|(name, uri)| Target::given(name, uri.clone())));
        let wants_wire = self.experiments.iter().any(|experiment| experiment.file.measure.wire_limit);
        if targets.is_empty() {
            targets.push(Target::temporary("KilnDB", own()?, &needs)?);
            match Target::temporary("PostgreSQL", TemporaryProduct::Postgres, &needs) {
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

/// What temporary servers have to have for all experiments of a run. Errors: two of them want a setting to be different things.
fn needs(experiments: &[Experiment]) -> Result<TemporaryNeeds, String> {
    let mut needs = TemporaryNeeds::default();
    let add = |all: &mut Vec<String>, one: &String| {
        if !all.contains(one) {
            all.push(one.clone());
        }
    };
    for file in experiments.iter().map(|experiment| &experiment.file) {
        for setting in &file.temporary.settings {
            let name = |setting: &str| setting.split('=').next().map(str::trim).map(str::to_lowercase);
            let is_other = |known: &&String| *known != setting && name(known) == name(setting);
            if let Some(other) = needs.settings.iter().find(is_other) {
                return Err(format!("two experiments want temporary servers to differ: {other} and {setting}"));
            }
            add(&mut needs.settings, setting);
        }
        file.temporary.rules.iter().for_each(|rule| add(&mut needs.rules, rule));
        let wants_tls = file
            .variants
            .iter()
            .any(|variant| variant.connection == Some(ConnectionName::Tls) || variant.beside_kind.is_some());
        needs.certificate |= wants_tls;
    }
    Ok(needs)
}

/// `name=value`
fn named(text: &str, told: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or(told)?;
    Ok((name.to_string(), value.to_string()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::TempDir;

    fn with(more: &str) -> Experiment {
        let folder = TempDir::new("needs").expect("a folder");
        let toml = format!(
            "title = 't'\nquestion = 'q'\nload = {{ clients = [1], seconds = 1 }}\n{more}\n[[variants]]\nname = 'b'\nscript = 'a.sql'\n"
        );
        std::fs::write(folder.path().join("experiment.toml"), toml).expect("a file");
        std::fs::write(folder.path().join("a.sql"), "select 1;\n").expect("a file");
        Experiment::read(folder.path()).expect("it is right")
    }

    #[test]
    fn temporary_servers_have_what_all_experiments_want() {
        assert_eq!(needs(&[with("")]), Ok(TemporaryNeeds::default()));
        let encrypted = "[[variants]]\nname = 'a'\nscript = 'a.sql'\nconnection = 'tls'\n";
        assert!(needs(&[with(""), with(encrypted)]).expect("they agree").certificate);
        let first = with("[temporary]\nsettings = ['work_mem=1MB', 'jit=off']\nrules = ['local all a reject']\n");
        let second = with("[temporary]\nsettings = ['jit=off', 'port=1']\nrules = ['local all b reject']\n");
        let found = needs(&[first, second]).expect("they agree");
        assert_eq!(found.settings, ["work_mem=1MB", "jit=off", "port=1"]);
        assert_eq!(
            (found.rules, found.certificate),
            (vec!["local all a reject".into(), "local all b reject".into()], false)
        );
        let other = with("[temporary]\nsettings = ['Work_mem=2MB']\n");
        let error = needs(&[with("[temporary]\nsettings = ['work_mem=1MB']\n"), other]).expect_err("they differ");
        assert_eq!(error, "two experiments want temporary servers to differ: work_mem=1MB and Work_mem=2MB");
    }
}
