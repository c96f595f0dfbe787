//! The words of `experiment.toml`.
//!
//! 1. A word that is not known is an error: what is misspelt would otherwise be left out without anybody noticing.
//!
//! Must not know: what the words are used for.

use crate::driver::LoadProtocol;
use crate::kind::{BesideKind, DataKind, LoadKind, beside_kind, data_kind, load_kind};
use crate::results::{BoundFigure, CountedUnit};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// What a folder says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ExperimentFile {
    pub title: String,
    /// What somebody who runs it wants to know.
    pub question: String,
    #[serde(default = "transactions")]
    pub count: CountedUnit,
    /// Variants from the best to the worst, as its writer expects them.
    #[serde(default)]
    pub expected: Vec<String>,
    /// One of the documents' experiments, which `make lab` runs.
    #[serde(default)]
    pub documents: bool,
    /// One of those that builds are compared by, which `make bench` runs.
    #[serde(default)]
    pub bench: bool,
    /// Other lists that it is in.
    #[serde(default)]
    pub lists: Vec<String>,
    pub load: LoadSection,
    /// Numbers and texts that setups and scripts know by name.
    #[serde(default)]
    pub variables: BTreeMap<String, VariableText>,
    #[serde(default)]
    pub setup: SetupSection,
    #[serde(default)]
    pub temporary: TemporarySection,
    #[serde(default)]
    pub measure: MeasureSection,
    pub beside: Option<BesideSection>,
    pub counter: Option<CounterSection>,
    pub variants: Vec<Variant>,
    #[serde(default)]
    pub checks: Vec<Check>,
    #[serde(default)]
    pub bounds: Vec<BoundSection>,
    /// What others have measured, to be shown beside.
    #[serde(default)]
    pub figures: Vec<KnownFigures>,
}

fn transactions() -> CountedUnit {
    CountedUnit::Transactions
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LoadSection {
    /// Each number is a run of each variant.
    pub clients: Vec<usize>,
    pub seconds: u64,
    /// With `--full`.
    pub full_seconds: Option<u64>,
    #[serde(default)]
    pub protocol: LoadProtocol,
    /// How often a transaction is tried that others have made fail.
    #[serde(default = "one")]
    pub tries: u32,
    /// Transactions a second that are due; without it each begins when the one before has ended.
    pub rate: Option<f64>,
    /// Before the rounds that count comes one that does not. Without it: unless scripts run once.
    pub warm_up: Option<bool>,
}

fn one() -> u32 {
    1
}

/// What is there before a variant runs: files of the folder, or statements.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SetupSection {
    /// A kind of tables that no file could fill, before all else.
    #[serde(default, deserialize_with = "data_kind")]
    pub data: Option<&'static DataKind>,
    /// Once for each variant and target, in a schema of its own.
    #[serde(default)]
    pub sql: Vec<String>,
    /// All variants of a target work in one schema, and leave it as they have found it.
    #[serde(default)]
    pub shared: bool,
    /// Before each run.
    #[serde(default)]
    pub each_run: Vec<String>,
    /// What each client says once it has connected.
    #[serde(default)]
    pub session: Vec<String>,
    /// In the end, before the schema goes: what lies outside of it.
    #[serde(default)]
    pub teardown: Vec<String>,
}

/// What temporary servers have beside what all of them have.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TemporarySection {
    /// Of the form `name=value`.
    #[serde(default)]
    pub settings: Vec<String>,
    /// Lines of pg_hba.conf, before all others.
    #[serde(default)]
    pub rules: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MeasureSection {
    /// A query for a number that each row changed moves by one. Without it the command tags are believed.
    pub changed_rows: Option<String>,
    /// A query for the bytes that are counted, behind each run.
    pub bytes: Option<String>,
    /// The same load on a server that only answers stands beside, where the servers are this machine's.
    #[serde(default)]
    pub wire_limit: bool,
    /// Of scripts that run once: all targets must answer each statement alike.
    #[serde(default)]
    pub answers: bool,
    /// Of scripts that run once: EXPLAIN ANALYZE tells once how many rows pass through the plan of each statement with a name.
    #[serde(default)]
    pub plan_rows: bool,
    /// Of scripts that run once: how near estimates come to the truth, and plans to the best that switches of the planner can force.
    #[serde(default)]
    pub estimates: bool,
}

/// A figure of all statements of a variant, or of its load, that is held to bounds. Bounds of one statement stand in front of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BoundSection {
    pub name: String,
    pub figure: BoundFigure,
    pub variant: String,
    /// The variant of the same target that a figure of a load is held against.
    pub than: Option<String>,
    /// Of variants that run with several numbers of clients: which one. Without it: the least.
    pub clients: Option<usize>,
    /// What memory is divided by.
    pub of: Option<f64>,
    pub must: Option<f64>,
    pub aim: Option<f64>,
}

/// Sessions beside the load, from before its beginning to behind its end.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BesideSection {
    /// Files of the folder, in the language of scripts: a session for each.
    #[serde(default, deserialize_with = "names")]
    pub script: Vec<String>,
    /// It runs again and again, so long after it has ended. Without it: once, and the session stays as it is then.
    pub every_ms: Option<u64>,
    /// It begins with the load and runs again at once; what runs at the load's end is cancelled.
    #[serde(default)]
    pub without_pause: bool,
}

/// One name, or a list of them.
fn names<'de, D: Deserializer<'de>>(reader: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a name or a list of names")]
    enum NameOrNames {
        One(String),
        Several(Vec<String>),
    }
    Ok(match NameOrNames::deserialize(reader)? {
        NameOrNames::One(name) => vec![name],
        NameOrNames::Several(names) => names,
    })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Variant {
    pub name: String,
    /// What it is, in a few words.
    #[serde(default)]
    pub title: String,
    /// A file of the folder in pgbench's language.
    pub script: Option<String>,
    /// Instead of a script: a kind of clients that are more than one.
    #[serde(default, deserialize_with = "load_kind")]
    pub load: Option<&'static LoadKind>,
    /// Instead of that of all.
    pub protocol: Option<LoadProtocol>,
    /// Instead of those of all.
    #[serde(default)]
    pub clients: Vec<usize>,
    /// As those of [`SetupSection`], of this variant alone, behind those of all.
    #[serde(default)]
    pub setup: Vec<String>,
    #[serde(default)]
    pub session: Vec<String>,
    /// Instead of what is beside all.
    #[serde(default, deserialize_with = "names")]
    pub beside: Vec<String>,
    #[serde(default)]
    pub variables: BTreeMap<String, VariableText>,
    /// Beside scripts that are beside: a kind of what happens to the server.
    #[serde(default, deserialize_with = "beside_kind")]
    pub beside_kind: Option<&'static BesideKind>,
    /// How clients connect. Without it: as the target says.
    pub connection: Option<ConnectionName>,
    /// The rows changed must be as many as the transactions: one that is missing was lost.
    #[serde(default)]
    pub every_transaction_changes: bool,
    /// The products that it is for; empty: all.
    #[serde(default)]
    pub only: Vec<ProductName>,
}

/// What the clients of a variant do.
#[derive(Clone, Copy, Debug)]
pub enum VariantLoad<'v> {
    /// A script of the folder.
    Script(&'v str),
    Kind(&'static LoadKind),
}

impl Variant {
    /// Errors: the variant says neither, or both.
    pub fn load(&self) -> Result<VariantLoad<'_>, String> {
        match (&self.script, self.load) {
            (Some(script), None) => Ok(VariantLoad::Script(script)),
            (None, Some(kind)) => Ok(VariantLoad::Kind(kind)),
            (None, None) => Err(format!("variant {} has neither a script nor a load", self.name)),
            (Some(_), Some(_)) => Err(format!("variant {} has a script and a load", self.name)),
        }
    }
}

/// A way to a server.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ConnectionName {
    /// TCP, in the clear.
    Tcp,
    /// TCP, encrypted.
    Tls,
    /// A Unix socket.
    Socket,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ProductName {
    KilnDb,
    Postgres,
}

/// Servers of other kinds that are installed move a counter meanwhile, to be held against a variant that does.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CounterSection {
    pub variant: String,
    /// Each change is in the log before it is acknowledged.
    #[serde(default)]
    pub durable: bool,
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

/// The value of a variable, as it stands in statements.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum VariableText {
    Whole(i64),
    Fraction(f64),
    Text(String),
}

impl std::fmt::Display for VariableText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            VariableText::Whole(number) => write!(f, "{number}"),
            VariableText::Fraction(number) => write!(f, "{number}"),
            VariableText::Text(text) => f.write_str(text),
        }
    }
}
