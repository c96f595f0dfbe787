//! Experiments: folders with a file `experiment.toml` that says what is set up, which variants are compared, and what is measured,
//! and with the SQL and the scripts that it names (docs/decisions/0072).
//!
//! Errors name the file, and the line where TOML knows it, so that whoever writes a folder of his own finds what is wrong.
//!
//! The experiments of the repository are part of the program; a user's own folders are read where they are. Both work the same way.
//!
//! Must not know: servers, and how loads are run.

mod bounds;
mod file;

pub use file::*;

use crate::results::CountedUnit;
use crate::script::{Script, ScriptCommand, ScriptStep, SqlResults, SqlText, VariableNames};
use include_dir::{Dir, include_dir};
use std::collections::BTreeMap;
use std::path::Path;

/// The folders that come with the program.
static SHIPPED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../experiments");

const FILE: &str = "experiment.toml";

/// An experiment that can be run.
#[derive(Debug)]
pub struct Experiment {
    /// The folder's name.
    pub name: String,
    pub file: ExperimentFile,
    /// The texts of all files of the folder, by name.
    texts: BTreeMap<String, String>,
}

impl Experiment {
    /// Reads a folder, and all that it names.
    pub fn read(folder: &Path) -> Result<Experiment, String> {
        let fail = |e: std::io::Error| format!("{}: {e}", folder.display());
        let mut texts = BTreeMap::new();
        for entry in std::fs::read_dir(folder).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            // What is not text is none of the experiment's files.
            if path.is_file()
                && let Ok(text) = std::fs::read_to_string(&path)
            {
                texts.insert(path.file_name().unwrap_or_default().to_string_lossy().into_owned(), text);
            }
        }
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Experiment::of_texts(name, texts, &folder.join(FILE).display().to_string())
    }
    /// `shown`: where its TOML file is, for errors.
    fn of_texts(name: String, texts: BTreeMap<String, String>, shown: &str) -> Result<Experiment, String> {
        let toml = texts.get(FILE).ok_or_else(|| format!("{shown}: there is no such file"))?;
        let file: ExperimentFile = toml::from_str(toml).map_err(|e| format!("{shown}: {e}"))?;
        let experiment = Experiment { name, file, texts };
        experiment.examine().map_err(|e| format!("{shown}: {e}"))?;
        Ok(experiment)
    }

    /// A script of the folder, which shares the numbers of its variables with others.
    pub fn script(&self, name: &str, names: &mut VariableNames) -> Result<Script, String> {
        Script::read(name, self.text(name)?, names)
    }
    /// What the clients of a variant run, for whoever reads what was done.
    pub fn load_text(&self, variant: &Variant) -> Result<String, String> {
        match variant.load()? {
            VariantLoad::Script(name) => self.text(name).map(str::to_string),
            VariantLoad::Kind(kind) => Ok(kind.text()),
        }
    }
    /// The files of what is beside a variant's load.
    pub fn beside<'e>(&'e self, variant: &'e Variant) -> &'e [String] {
        match variant.beside.as_slice() {
            [] => self.file.beside.as_ref().map_or(&[], |beside| beside.script.as_slice()),
            own => own,
        }
    }
    /// A setup as one script: files of the folder, and statements as they stand.
    pub fn setup(&self, entries: &[&[String]], names: &mut VariableNames) -> Result<Script, String> {
        let text = self.setup_text(entries)?;
        Script::read("setup", &text, names)
    }
    /// The text of a setup, for whoever reads what was done.
    pub fn setup_text(&self, entries: &[&[String]]) -> Result<String, String> {
        let mut text = String::new();
        for entry in entries.iter().copied().flatten() {
            let piece = if is_file_name(entry) { self.text(entry)? } else { entry.as_str() };
            text.push_str(piece.trim_end());
            // A statement needs its end, a comment or a command behind it does not.
            if !is_file_name(entry) && !piece.trim_end().ends_with(';') {
                text.push(';');
            }
            text.push('\n');
        }
        Ok(text)
    }
    pub fn text(&self, name: &str) -> Result<&str, String> {
        self.texts.get(name).map(String::as_str).ok_or_else(|| format!("{name}: there is no such file"))
    }

    fn examine_load(&self, variant: &Variant, names: &mut VariableNames) -> Result<(), String> {
        let kind = match variant.load()? {
            VariantLoad::Script(script) => return self.script(script, names).map(drop),
            VariantLoad::Kind(kind) => kind,
        };
        let has_data = self.file.setup.data.is_some_and(|data| data.name == kind.data);
        match () {
            () if !has_data => Err(format!("load {} wants setup: data = \"{}\"", kind.name, kind.data)),
            () if self.file.count != CountedUnit::Transactions => {
                Err(format!("load {} counts transactions", kind.name))
            }
            () => Ok(()),
        }
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
        let names = &mut VariableNames::default();
        for (at, variant) in file.variants.iter().enumerate() {
            if file.variants[..at].iter().any(|other| other.name == variant.name) {
                return Err(format!("there are two variants {}", variant.name));
            }
            if variant.clients.contains(&0) {
                return Err(format!("variant {}: clients have to be numbers above zero", variant.name));
            }
            self.examine_load(variant, names)?;
            self.setup(&[&file.setup.sql, &variant.setup], names)?;
            self.beside(variant).iter().try_for_each(|name| self.script(name, names).map(drop))?;
        }
        self.setup(&[&file.setup.each_run], names)?;
        self.setup(&[&file.setup.teardown], names)?;
        for variant in &file.variants {
            session_statements(&self.setup(&[&file.setup.session, &variant.session], names)?)?;
            if let Some(kind) = variant.beside_kind
                && let Some(name) = kind.variables.iter().find(|name| !file.variables.contains_key(**name))
            {
                return Err(format!("{} beside the load want a variable {name}", kind.name));
            }
        }
        if let Some(setting) = file.temporary.settings.iter().find(|setting| !setting.contains('=')) {
            return Err(format!("temporary: a setting is name=value, and not {setting}"));
        }
        if let Some(data) = file.setup.data
            && let Some(name) = data.variables.iter().find(|name| !file.variables.contains_key(**name))
        {
            return Err(format!("data {} want a variable {name}", data.name));
        }
        if (file.count == CountedUnit::Bytes) != file.measure.bytes.is_some() {
            return Err("count = \"bytes\" and measure: bytes belong together".into());
        }
        if file.beside.as_ref().is_some_and(|beside| beside.without_pause && beside.every_ms.is_some()) {
            return Err("beside: every-ms is a pause, and without-pause has none".into());
        }
        self.bounds()?;
        let runs_once = file.count.runs_once();
        if (file.measure.answers || file.measure.plan_rows || file.measure.estimates) && !runs_once {
            return Err("answers, rows of plans and estimates are of scripts that run once".into());
        }
        let mentioned = file.figures.iter().flat_map(|figures| figures.values.keys()).chain(&file.expected);
        let mentioned = mentioned.chain(file.counter.iter().map(|counter| &counter.variant));
        let mentioned =
            mentioned.chain(file.bounds.iter().flat_map(|bound| [Some(&bound.variant), bound.than.as_ref()]).flatten());
        match mentioned.into_iter().find(|name| !file.variants.iter().any(|variant| variant.name == **name)) {
            Some(name) => Err(format!(
                "there is no variant {name}, which figures, bounds, the expected order or the counter mention"
            )),
            None => Ok(()),
        }
    }
}

/// The statements that a session begins with. Errors: there is something else.
pub fn session_statements(script: &Script) -> Result<Vec<&SqlText>, String> {
    fn statement(command: &ScriptCommand) -> Result<&SqlText, String> {
        match &command.step {
            ScriptStep::Sql(sql) if sql.results == SqlResults::Ignored => Ok(sql),
            _ => Err("session: there are commands, and not statements alone".to_string()),
        }
    }
    script.commands.iter().map(statement).collect()
}

fn is_file_name(entry: &str) -> bool {
    entry.ends_with(".sql") && !entry.contains(char::is_whitespace)
}

impl Experiment {
    /// Whether it is in a list, or the one of that name.
    pub fn is_of(&self, name: &str) -> bool {
        match name {
            "documents" => self.file.documents,
            "bench" => self.file.bench,
            "all" => true,
            _ => self.name == name || self.file.lists.iter().any(|list| list == name),
        }
    }
}

/// The experiments that come with the program, by name.
pub fn shipped() -> Result<Vec<Experiment>, String> {
    let mut found = Vec::new();
    for folder in SHIPPED.dirs() {
        let name = folder.path().to_string_lossy().into_owned();
        let named = |file: &include_dir::File<'_>| {
            let name = file.path().file_name()?.to_string_lossy().into_owned();
            Some((name, file.contents_utf8()?.to_string()))
        };
        let shown = format!("{name}/{FILE}");
        found.push(Experiment::of_texts(name, folder.files().filter_map(named).collect(), &shown)?);
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
    fn the_experiments_that_come_with_the_program_can_be_read() {
        let all = shipped().expect("they are right");
        let names = |list: &str| -> Vec<&str> {
            all.iter().filter(|experiment| experiment.is_of(list)).map(|experiment| experiment.name.as_str()).collect()
        };
        assert_eq!((names("hot-row"), names("none")), (vec!["hot-row"], vec![]));
        assert!(names("documents").contains(&"queue") && !names("documents").contains(&"tpc-b"));
        assert!(names("bench").contains(&"queue") && names("bench").contains(&"tpc-b"));
        assert_eq!(names("all").len(), all.len());
        for experiment in &all {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments").join(&experiment.name);
            let read = Experiment::read(&folder).expect("a folder is read as what comes with the program");
            assert_eq!(read.texts, experiment.texts, "{}", experiment.name);
            let readme = include_str!("../../../../experiments/README.md");
            assert!(readme.contains(&format!("| `{}` | {} |", experiment.name, experiment.file.question)));
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        let with = |rest: &str| {
            wrong(&format!("title = 't'\nquestion = 'q'\nload = {{ clients = [1], seconds = 1 }}\n{rest}"))
        };
        assert_eq!(with("[[variants]]\nname = 'a'\nscript = 'a.sql'\n"), "");
        for (rest, told) in [
            ("variants = []\n", "there are no variants"),
            ("count = 'bytes'\n[[variants]]\nname = 'a'\nscript = 'a.sql'\n", "measure: bytes belong together"),
            (
                "[[variants]]\nname = 'a'\nscript = 'a.sql'\nclients = [0]\n",
                "variant a: clients have to be numbers above zero",
            ),
            ("expected = ['b']\n[[variants]]\nname = 'a'\nscript = 'a.sql'\n", "there is no variant b"),
            ("[[variants]]\nname = 'a'\nscript = 'a.sql'\nsetup = ['c.sql']\n", "c.sql: there is no such file"),
            ("[[variants]]\nname = 'a'\nscript = 'b.sql'\n", "b.sql: there is no such file"),
            ("[[variants]]\nname = 'a'\nscript = 'bad.sql'\n", "bad.sql:1: unexpected end of the expression"),
            ("[[variants]]\nname = 'a'\nscript = 'a.sql'\ncolour = 1\n", "unknown field `colour`"),
            ("[[variants]]\nname = 'a'\n", "variant a has neither a script nor a load"),
            ("[[variants]]\nname = 'a'\nload = 'tpcd'\n", "there is no kind of load tpcd, but tpcc, tpcc-batches"),
            (
                "[setup]\ndata = 'tpcd'\n[[variants]]\nname = 'a'\nscript = 'a.sql'\n",
                "kind of data tpcd, but films, tpcc, tpch",
            ),
            ("[[variants]]\nname = 'a'\nload = 'tpcc'\n", "load tpcc wants setup: data = \"tpcc\""),
            ("[setup]\ndata = 'tpch'\n[[variants]]\nname = 'a'\nscript = 'a.sql'\n", "data tpch want a variable scale"),
            ("[[variants]]\nname = 'a'\nscript = 'a.sql'\nload = 'tpcc'\n", "variant a has a script and a load"),
            ("[[variants]]\nname = 'a'\nscript = 'a.sql'\nbeside = 7\n", "expected a name or a list of names"),
            (
                "[[variants]]\nname = 'a'\nscript = 'a.sql'\nbeside = ['a.sql', 'b.sql']\n",
                "b.sql: there is no such file",
            ),
            (
                "[[variants]]\nname = 'a'\nscript = 'a.sql'\n[[variants]]\nname = 'a'\nscript = 'a.sql'\n",
                "there are two variants a",
            ),
            (
                "[[variants]]\nname = 'a'\nscript = 'a.sql'\nconnection = 'udp'\n",
                "expected one of `tcp`, `tls`, `socket`",
            ),
            (
                "[setup]\nteardown = ['c.sql']\n[[variants]]\nname = 'a'\nscript = 'a.sql'\n",
                "c.sql: there is no such file",
            ),
            (
                "[[variants]]\nname = 'a'\nscript = 'a.sql'\nbeside-kind = 'noise'\n",
                "no kind of what is beside: noise, but strangers",
            ),
            (
                "[[variants]]\nname = 'a'\nscript = 'a.sql'\nbeside-kind = 'strangers'\n",
                "strangers beside the load want a variable half_open",
            ),
            (
                "[temporary]\nsettings = ['work_mem']\n[[variants]]\nname = 'a'\nscript = 'a.sql'\n",
                "a setting is name=value, and not work_mem",
            ),
            (
                "[[variants]]\nname = 'a'\nscript = 'a.sql'\nsession = ['\\set x 1']\n",
                "unexpected character \";\" in command \"set\"",
            ),
        ] {
            let found = with(rest);
            assert!(found.contains(told) && found.contains("experiment.toml"), "{found}, not {told}");
        }
        // What the file's own words are wrong in has a line.
        let unknown = with("[[variants]]\nname = 'a'\nload = 'tpcd'\n");
        assert!(unknown.contains("line 6"), "{unknown}");
    }
}
