//! Scripts in pgbench's language (pgbench.sgml, "Custom Scripts"): statements with variables, and commands that begin with a
//! backslash.
//!
//! A script is read once into commands that are run one after the other, with jumps for `\if` and its kin; variables have numbers.
//! Errors name the script, the line and what is wrong with it.
//!
//! Must not know: connections, and how commands are run.

mod expression;
mod functions;
mod notes;
mod random;
mod reader;
mod sql;
mod value;
mod variables;

pub use expression::{ScriptEnvironment, ScriptExpression};
pub use notes::StatementNotes;
pub use random::ScriptRandom;
pub use reader::{Script, ScriptCommand, ScriptStep, ShellWord, SleepTime};
pub use sql::{SqlResults, SqlText};
pub use value::ScriptValue;
pub use variables::{VariableNames, Variables};
