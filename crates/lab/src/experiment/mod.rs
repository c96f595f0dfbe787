//! Experiments: folders with a file `experiment.toml` that says what is set up, which variants are compared, and what is measured,
//! and with the SQL and the scripts that it names (docs/decisions/0072).
//!
//! Errors name the file, and the line where TOML knows it, so that whoever writes a folder of his own finds what is wrong.
//!
//! Must not know: servers, and how loads are run.

use crate::driver::LoadProtocol;
use crate::script::{Script, VariableNames};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a folder says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ExperimentFile {
    pub title: String,
    /// What somebody who runs it wants to know.
    pub question: String,
    pub load: LoadSection,
    #[serde(default)]
    pub setup: SetupSection,
    #[serde(default)]
    pub measure: MeasureSection,
    pub variants: Vec<Variant>,
    #[serde(default)]
    pub checks: Vec<Check>,
    /// What others have measured, to be shown beside.
    #[serde(default)]
    pub figures: Vec<KnownFigures>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LoadSection {
    /// Each number is a run of each variant.
    pub clients: Vec<usize>,
    pub seconds: u64,
    #[serde(default)]
    pub protocol: LoadProtocol,
    /// How often a transaction is tried that others have made fail.
    #[serde(default = "one")]
    pub tries: u32,
    /// Transactions a second that are due; without it each begins when the one before has ended.
    pub rate: Option<f64>,
}

fn one() -> u32 {
    1
}

/// What is there before a variant runs, and what takes it away: files of the folder, or statements.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SetupSection {
    #[serde(default)]
    pub sql: Vec<String>,
    #[serde(default)]
    pub undo: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MeasureSection {
    /// A query for a number that each row changed moves by one. Without it the command tags are believed.
    pub changed_rows: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Variant {
    pub name: String,
    /// A file of the folder in pgbench's language.
    pub script: String,
    /// As [`SetupSection::sql`], of this variant alone, behind that of all.
    #[serde(default)]
    pub setup: Vec<String>,
    /// The rows changed must be as many as the transactions: one that is missing was lost.
    #[serde(default)]
    pub every_transaction_changes: bool,
}

/// A query whose value must be `t` after each run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Check {
    pub name: String,
    pub sql: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct KnownFigures {
    pub source: String,
    pub unit: String,
    /// By the variants' names.
    pub values: BTreeMap<String, f64>,
}

/// An experiment that can be run.
#[derive(Debug)]
pub struct Experiment {
    /// The folder's name.
    pub name: String,
    pub folder: PathBuf,
    pub file: ExperimentFile,
}

impl Experiment {
    /// Reads a folder, and all that it names.
    pub fn read(folder: &Path) -> Result<Experiment, String> {
        let path = folder.join("experiment.toml");
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{shown}: {e}"))?;
        let file: ExperimentFile = toml::from_str(&text).map_err(|e| format!("{shown}: {e}"))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let experiment = Experiment { name, folder: folder.to_path_buf(), file };
        experiment.examine().map_err(|e| format!("{shown}: {e}"))?;
        Ok(experiment)
    }

    /// A variant's script, with the numbers of its variables.
    pub fn script(&self, variant: &Variant) -> Result<(Script, VariableNames), String> {
        let mut names = VariableNames::default();
        let script = Script::read(&variant.script, &self.text(&variant.script)?, &mut names)?;
        Ok((script, names))
    }
    /// The statements of a list: a file of the folder, if it is the name of one, or SQL as it stands.
    pub fn sql(&self, list: &[String]) -> Result<Vec<String>, String> {
        list.iter().map(|entry| if is_file_name(entry) { self.text(entry) } else { Ok(entry.clone()) }).collect()
    }
    fn text(&self, name: &str) -> Result<String, String> {
        std::fs::read_to_string(self.folder.join(name)).map_err(|e| format!("{name}: {e}"))
    }

    /// What would only be noticed when a server is there already.
    fn examine(&self) -> Result<(), String> {
        let file = &self.file;
        if file.variants.is_empty() {
            return Err("there are no variants".into());
        }
        if file.load.clients.is_empty() || file.load.clients.contains(&0) || file.load.seconds == 0 {
            return Err("load: clients and seconds have to be numbers above zero".into());
        }
        for (at, variant) in file.variants.iter().enumerate() {
            if file.variants[..at].iter().any(|other| other.name == variant.name) {
                return Err(format!("there are two variants {}", variant.name));
            }
            self.script(variant)?;
            self.sql(&variant.setup)?;
        }
        self.sql(&file.setup.sql)?;
        self.sql(&file.setup.undo)?;
        let known = |name: &String| file.variants.iter().any(|variant| variant.name == *name);
        match file.figures.iter().flat_map(|figures| figures.values.keys()).find(|name| !known(name)) {
            Some(name) => Err(format!("figures: there is no variant {name}")),
            None => Ok(()),
        }
    }
}

fn is_file_name(entry: &str) -> bool {
    entry.ends_with(".sql") && !entry.contains(char::is_whitespace)
}

/// The experiments in the folders of a folder, by name.
pub fn read_all(folder: &Path) -> Result<Vec<Experiment>, String> {
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| format!("{}: {e}", folder.display()))?.path();
        if path.join("experiment.toml").is_file() {
            found.push(Experiment::read(&path)?);
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::TempDir;

    /// What is wrong with a folder of one file and a script.
    fn wrong(toml: &str) -> String {
        let folder = TempDir::new("experiment").expect("a folder");
        std::fs::write(folder.path().join("experiment.toml"), toml).expect("a file");
        std::fs::write(folder.path().join("a.sql"), "select 1;\n").expect("a file");
        std::fs::write(folder.path().join("bad.sql"), "\\set x\n").expect("a file");
        Experiment::read(folder.path()).err().unwrap_or_default()
    }

    #[test]
    fn the_experiments_of_the_repository_can_be_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        let all = read_all(&folder).expect("they are right");
        assert!(all.iter().any(|experiment| experiment.name == "hot-row"));
    }

    #[test]
    fn what_is_wrong_is_told() {
        let with = |rest: &str| {
            wrong(&format!("title = 't'\nquestion = 'q'\nload = {{ clients = [1], seconds = 1 }}\n{rest}"))
        };
        assert_eq!(with("[[variants]]\nname = 'a'\nscript = 'a.sql'\n"), "");
        for (rest, told) in [
            ("variants = []\n", "there are no variants"),
            ("[[variants]]\nname = 'a'\nscript = 'b.sql'\n", "b.sql: No such file"),
            ("[[variants]]\nname = 'a'\nscript = 'bad.sql'\n", "bad.sql:1: unexpected end of the expression"),
            ("[[variants]]\nname = 'a'\nscript = 'a.sql'\ncolour = 1\n", "unknown field `colour`"),
            (
                "[[variants]]\nname = 'a'\nscript = 'a.sql'\n[[variants]]\nname = 'a'\nscript = 'a.sql'\n",
                "there are two variants a",
            ),
        ] {
            let found = with(rest);
            assert!(found.contains(told) && found.contains("experiment.toml"), "{found}, not {told}");
        }
    }
}
