//! The figures of an experiment that are held to bounds: of statements, as notes in front of them say, and what `[[bounds]]` say of all
//! statements or of a load.
//!
//! 1. A bound that can never have a figure is an error of the folder.
//!
//! Must not know: servers, and what was measured.

use super::{BoundSection, Experiment, Variant};
use crate::results::{BoundFacts, BoundFigure, CountedUnit};
use crate::script::{StatementNotes, VariableNames};

impl Experiment {
    /// The figures that are held to bounds: of statements, as notes in front of them say, then of all statements and of loads.
    pub fn bounds(&self) -> Result<Vec<BoundFacts>, String> {
        let mut bounds = Vec::new();
        for variant in &self.file.variants {
            let Some(script) = &variant.script else { continue };
            let script = self.script(script, &mut VariableNames::default())?;
            let mut names = Vec::new();
            for notes in script.commands.iter().map(|command| &command.notes) {
                let Some(name) = &notes.name else { continue };
                if names.contains(name) {
                    return Err(format!("{}: there are two statements {name}", script.name));
                }
                names.push(name.clone());
                bounds.extend(self.bound_of_statement(variant, name, notes));
            }
        }
        for bound in &self.file.bounds {
            self.examine_bound(bound).map_err(|e| format!("bounds: {}: {e}", bound.name))?;
            bounds.push(BoundFacts {
                name: bound.name.clone(),
                figure: bound.figure,
                variant: bound.variant.clone(),
                statement: String::new(),
                than: bound.than.clone().unwrap_or_default(),
                clients: bound.clients,
                of: bound.of,
                must: bound.must,
                aim: bound.aim,
            });
        }
        Ok(bounds)
    }
    fn bound_of_statement(&self, variant: &Variant, name: &str, notes: &StatementNotes) -> Option<BoundFacts> {
        notes.must.or(notes.aim)?;
        Some(BoundFacts {
            name: if self.file.variants.len() == 1 { name.to_string() } else { format!("{name}, {}", variant.name) },
            figure: if notes.is_value { BoundFigure::Value } else { BoundFigure::Time },
            variant: variant.name.clone(),
            statement: name.to_string(),
            than: String::new(),
            clients: None,
            of: None,
            must: notes.must,
            aim: notes.aim,
        })
    }

    fn examine_bound(&self, bound: &BoundSection) -> Result<(), String> {
        let figure = bound.figure;
        let runs_once = self.file.count.runs_once();
        match () {
            () if figure.is_of_statement() => Err("a figure of one statement stands in front of it".into()),
            () if figure.is_of_load() == runs_once => Err(match runs_once {
                true => "the figure is of a load that lasts, and the scripts run once".to_string(),
                false => "the figure is of scripts that run once".to_string(),
            }),
            () if figure.wants_other_variant() && bound.than.is_none() => {
                Err("the figure wants another variant to be held against: than".into())
            }
            () if !figure.wants_other_variant() && bound.than.is_some() => {
                Err("the figure is held against no other variant".into())
            }
            () if figure == BoundFigure::Rate && !counts_by_second(self.file.count) => {
                Err("a rate is of what is counted by the second".into())
            }
            () if bound.of.is_some() && figure != BoundFigure::Memory => Err("of is for memory alone".into()),
            () if bound.of.is_some_and(|of| of <= 0.0) => Err("of is a number above zero".into()),
            () => self.examine_clients(bound),
        }
    }
    /// Both variants run with that number of clients.
    fn examine_clients(&self, bound: &BoundSection) -> Result<(), String> {
        let Some(clients) = bound.clients else { return Ok(()) };
        if !bound.figure.is_of_load() {
            return Err("scripts that run once have one client".into());
        }
        let named = [Some(&bound.variant), bound.than.as_ref()];
        let has = |variant: &&Variant| match variant.clients.as_slice() {
            [] => self.file.load.clients.contains(&clients),
            own => own.contains(&clients),
        };
        let of_bound = self.file.variants.iter().filter(|variant| named.contains(&Some(&variant.name)));
        match of_bound.into_iter().find(|variant| !has(variant)) {
            Some(variant) => Err(format!("variant {} never has {clients} clients", variant.name)),
            None => Ok(()),
        }
    }
}

fn counts_by_second(count: CountedUnit) -> bool {
    matches!(count, CountedUnit::Transactions | CountedUnit::ChangedRows)
}

#[cfg(test)]
mod tests {
    use crate::experiment::Experiment;
    use crate::process::TempDir;
    use crate::results::BoundFigure;

    fn read(toml: &str) -> Result<Experiment, String> {
        let folder = TempDir::new("bounds").expect("a folder");
        let text = format!(
            "title = 't'\nquestion = 'q'\nload = {{ clients = [4, 8], seconds = 1 }}\n\
             [[variants]]\nname = 'a'\nscript = 'a.sql'\n[[variants]]\nname = 'b'\nscript = 'a.sql'\nclients = [8]\n{toml}"
        );
        std::fs::write(folder.path().join("experiment.toml"), text).expect("a file");
        std::fs::write(folder.path().join("a.sql"), "select 1;\n").expect("a file");
        Experiment::read(folder.path())
    }

    #[test]
    fn bounds_of_loads_are_read() {
        let read = read(
            "[[bounds]]\nname = 'r'\nfigure = 'rate'\nvariant = 'a'\nthan = 'b'\nclients = 8\nmust = 60\naim = 80\n\
             [[bounds]]\nname = 'w'\nfigure = 'worst-second'\nvariant = 'a'\nmust = 40\n\
             [[bounds]]\nname = 'm'\nfigure = 'memory'\nvariant = 'b'\nthan = 'a'\nof = 12000\nmust = 32768\n",
        );
        let bounds = read.expect("it is right").bounds().expect("they are right");
        assert_eq!((bounds[0].figure, bounds[0].than.as_str(), bounds[0].clients), (BoundFigure::Rate, "b", Some(8)));
        assert_eq!((bounds[0].must, bounds[0].aim), (Some(60.0), Some(80.0)));
        assert_eq!((bounds[1].figure, bounds[1].than.as_str()), (BoundFigure::WorstSecond, ""));
        assert_eq!((bounds[2].figure, bounds[2].of), (BoundFigure::Memory, Some(12_000.0)));
    }

    #[test]
    fn bounds_that_can_have_no_figure_are_refused() {
        for (rest, told) in [
            ("figure = 'rate'\nvariant = 'a'\n", "bounds: x: the figure wants another variant"),
            ("figure = 'worst-second'\nvariant = 'a'\nthan = 'b'\n", "held against no other variant"),
            ("figure = 'rate'\nvariant = 'a'\nthan = 'c'\n", "there is no variant c"),
            ("figure = 'rate'\nvariant = 'a'\nthan = 'b'\nclients = 4\n", "variant b never has 4 clients"),
            ("figure = 'rate'\nvariant = 'a'\nthan = 'b'\nof = 2\n", "of is for memory alone"),
            ("figure = 'memory'\nvariant = 'a'\nthan = 'b'\nof = 0\n", "of is a number above zero"),
            ("figure = 'total-time'\nvariant = 'a'\n", "is of scripts that run once"),
            ("figure = 'time'\nvariant = 'a'\n", "stands in front of it"),
            ("figure = 'speed'\nvariant = 'a'\n", "unknown variant `speed`"),
        ] {
            let error = read(&format!("[[bounds]]\nname = 'x'\n{rest}")).expect_err("it is wrong");
            assert!(error.contains(told), "{error}, not {told}");
        }
    }
}
