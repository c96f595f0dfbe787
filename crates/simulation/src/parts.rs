//! The parts of a run that can be left out, by name: its clients, kind by kind, its troubles, and who ends sessions.

use crate::machine::SeedChoice;
use crate::run::RunOptions;
use crate::workloads::WORKLOADS;
use kilndb_sim::definitions::{self, SideWork};
use kilndb_sim::random::Chooser;

pub(crate) const TROUBLES: &str = "troubles";
pub(crate) const REAPER: &str = "reaper";
pub const NUMBERS: &str = "numbers";
pub(crate) const HISTORY_SESSIONS: u32 = 3;
pub(crate) const DEFINITION_SESSIONS: usize = 2;
/// Beside the sessions of `sim`'s definitions.
const BESIDE_DEFINITIONS: &[(&str, SideWork)] = &[
    ("shared definitions", definitions::BESIDE[0]),
    ("snapshots", definitions::BESIDE[1]),
    ("long snapshot", definitions::BESIDE[2]),
    ("checkpoints", definitions::BESIDE[3]),
];

pub fn history(number: u32) -> String {
    format!("history {number}")
}
pub fn definitions(number: usize) -> String {
    format!("definitions {number}")
}

/// Clients that work until their connections break, and remember nothing, kind by kind.
fn kinds_beside() -> impl Iterator<Item = &'static [(&'static str, SideWork)]> {
    std::iter::once(BESIDE_DEFINITIONS).chain(WORKLOADS.iter().map(|workload| workload.clients))
}
pub fn beside() -> impl Iterator<Item = (&'static str, SideWork)> {
    kinds_beside().flatten().copied()
}

/// All clients but the reaper, kind by kind.
fn kinds() -> Vec<Vec<String>> {
    let mut kinds = vec![
        (0..HISTORY_SESSIONS).map(history).collect(),
        (0..DEFINITION_SESSIONS).map(definitions).collect(),
        vec![NUMBERS.to_string()],
    ];
    kinds.extend(kinds_beside().map(|kind| kind.iter().map(|(name, _)| name.to_string()).collect()));
    kinds
}

pub fn all() -> Vec<String> {
    let single = [TROUBLES, REAPER].map(String::from);
    single.into_iter().chain(kinds().concat()).collect()
}

/// What a run does without: what it was told, and in two seeds of three some of its clients too, so that what is rare
/// beside all the others has room. (Groce et al., "Swarm Testing", ISSTA 2012.)
pub fn left_out(run: &RunOptions, choice: &mut SeedChoice<'_>) -> Vec<String> {
    let mut kinds = kinds();
    let mut left_out = match choice.below(3) {
        0 => Vec::new(),
        1 => {
            let mut clients = kinds.concat();
            clients.retain(|_| choice.below(2) == 0);
            clients
        }
        _ => {
            kinds.retain(|_| choice.below(6) != 0);
            kinds.concat()
        }
    };
    left_out.extend(run.without.iter().cloned());
    left_out
}
