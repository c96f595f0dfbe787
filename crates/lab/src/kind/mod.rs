//! Kinds of data, of loads and of what is beside them that a folder cannot say in SQL and scripts: a row each, which an experiment names.
//!
//! 1. A kind works where its session works: in the schema of its variant, on any server that speaks the protocol.
//! 2. What a kind is asked for beside its name are the experiment's variables.
//!
//! Must not know: experiments and targets.

mod films_kind;
mod strangers;
mod tpcc_kind;
mod tpch_kind;

use crate::client::{Address, Client};
use crate::driver::LoadFigures;
use crate::session_socket::SessionLogin;
use serde::{Deserialize, Deserializer};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Tables with their rows.
#[derive(Debug)]
pub struct DataKind {
    pub name: &'static str,
    /// What it wants to be told.
    pub variables: &'static [&'static str],
    fill: fn(&mut Client, KindVariables<'_>) -> Result<(), String>,
}

/// Clients that are more than a script.
#[derive(Debug)]
pub struct LoadKind {
    pub name: &'static str,
    /// The data that it works on.
    pub data: &'static str,
    /// The statements, for whoever reads what was done.
    text: fn() -> String,
    run: fn(&KindLoad<'_>) -> Result<LoadFigures, String>,
    breaches: fn(&mut Client) -> Result<Vec<String>, String>,
}

/// What happens to a server beside a load and is more than sessions with scripts.
#[derive(Debug)]
pub struct BesideKind {
    pub name: &'static str,
    /// What it wants to be told.
    pub variables: &'static [&'static str],
    /// Why it is for temporary servers alone.
    pub wants_temporary: &'static str,
    start: fn(&BesideStart<'_>) -> Result<Box<dyn BesideWork>, String>,
}

/// Where it happens, and how much of it.
pub struct BesideStart<'b> {
    /// Over TCP, encrypted for whoever wants it to be.
    pub address: Address,
    pub database: &'b str,
    pub variables: KindVariables<'b>,
}

/// What happens from now on. It ends with this value.
pub trait BesideWork {
    /// Ends it. Errors: not all has happened that should have.
    fn end(self: Box<Self>) -> Result<(), String>;
}

static DATA: [DataKind; 3] = [
    DataKind { name: "films", variables: &["films"], fill: films_kind::fill },
    DataKind { name: "tpcc", variables: &["warehouses", "items", "customers"], fill: tpcc_kind::fill },
    DataKind { name: "tpch", variables: &["scale"], fill: tpch_kind::fill },
];

static LOADS: [LoadKind; 2] = [
    LoadKind {
        name: "tpcc",
        data: "tpcc",
        text: crate::tpcc::statement_texts,
        run: tpcc_kind::run_statements,
        breaches: tpcc_kind::breaches,
    },
    LoadKind {
        name: "tpcc-batches",
        data: "tpcc",
        text: crate::tpcc::statement_texts,
        run: tpcc_kind::run_batches,
        breaches: tpcc_kind::breaches,
    },
];

static BESIDE: [BesideKind; 1] = [BesideKind {
    name: "strangers",
    variables: &["half_open", "idle", "guesses"],
    wants_temporary: "it guesses the password of a role, which pg_hba.conf has to ask for",
    start: strangers::start,
}];

/// What a load is to be.
pub struct KindLoad<'l> {
    pub login: SessionLogin<'l>,
    pub clients: usize,
    pub length: Duration,
    pub variables: KindVariables<'l>,
    /// Transactions that have ended so far, for whoever looks on.
    pub ended: &'l AtomicU64,
}

/// Variables by name, as they stand in statements.
#[derive(Clone, Copy)]
pub struct KindVariables<'v>(pub &'v [(String, String)]);

impl KindVariables<'_> {
    /// A variable that must be a number within bounds.
    fn number<N: std::str::FromStr + PartialOrd>(&self, name: &str, (from, to): (N, N)) -> Result<N, String> {
        let text = self.0.iter().find(|(known, _)| known == name).map(|(_, text)| text.as_str());
        let text = text.ok_or_else(|| format!("there is no variable {name}"))?;
        let number = text.parse().ok().filter(|number| *number >= from && *number <= to);
        number.ok_or_else(|| format!("the variable {name} cannot be {text}"))
    }
}

impl DataKind {
    /// Makes the tables.
    pub fn fill(&self, client: &mut Client, variables: KindVariables<'_>) -> Result<(), String> {
        (self.fill)(client, variables).map_err(|e| format!("data {}: {e}", self.name))
    }
}

impl BesideKind {
    pub fn start(&self, start: &BesideStart<'_>) -> Result<Box<dyn BesideWork>, String> {
        (self.start)(start).map_err(|e| format!("beside the load: {e}"))
    }
}

impl LoadKind {
    pub fn text(&self) -> String {
        (self.text)()
    }
    pub fn run(&self, load: &KindLoad<'_>) -> Result<LoadFigures, String> {
        (self.run)(load)
    }
    /// What does not hold that must hold whatever the load has done. Nobody must change anything meanwhile.
    pub fn breaches(&self, client: &mut Client) -> Result<Vec<String>, String> {
        (self.breaches)(client)
    }
}

/// Reads the name of a kind of data.
pub fn data_kind<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<&'static DataKind>, D::Error> {
    let name = String::deserialize(reader)?;
    let found = DATA.iter().find(|kind| kind.name == name);
    found.map(Some).ok_or_else(|| unknown("data", &name, DATA.iter().map(|kind| kind.name)))
}

/// Reads the name of a kind of load.
pub fn load_kind<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<&'static LoadKind>, D::Error> {
    let name = String::deserialize(reader)?;
    let found = LOADS.iter().find(|kind| kind.name == name);
    found.map(Some).ok_or_else(|| unknown("load", &name, LOADS.iter().map(|kind| kind.name)))
}

/// Reads the name of a kind of what is beside a load.
pub fn beside_kind<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<&'static BesideKind>, D::Error> {
    let name = String::deserialize(reader)?;
    let found = BESIDE.iter().find(|kind| kind.name == name);
    found.map(Some).ok_or_else(|| unknown("what is beside:", &name, BESIDE.iter().map(|kind| kind.name)))
}

fn unknown<E: serde::de::Error>(what: &str, name: &str, known: impl Iterator<Item = &'static str>) -> E {
    E::custom(format!("there is no kind of {what} {name}, but {}", known.collect::<Vec<_>>().join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_load_has_its_data_and_tells_its_statements() {
        for load in &LOADS {
            assert!(DATA.iter().any(|data| data.name == load.data), "{}", load.name);
            assert!(load.text().contains("insert into order_line"), "{}", load.name);
        }
    }

    #[test]
    fn variables_are_numbers_within_bounds() {
        let all = [("scale".to_string(), "0.5".to_string()), ("items".to_string(), "x".to_string())];
        let variables = KindVariables(&all);
        assert_eq!(variables.number("scale", (0.1, 1.0)), Ok(0.5));
        assert_eq!(variables.number("scale", (1.0, 2.0)), Err("the variable scale cannot be 0.5".into()));
        assert_eq!(variables.number("items", (1, 2)), Err("the variable items cannot be x".into()));
        assert_eq!(variables.number("none", (1, 2)), Err("there is no variable none".into()));
    }
}
