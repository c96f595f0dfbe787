//! A session's prepared statements by name.
//!
//! Invariants
//! 1. `last` is one of `named`, or nothing; what it counts is added to that one before another takes its place.

use super::prepared::Prepared;
use kilndb_base::hash::HashMap;
use std::cell::RefCell;
use std::sync::Arc;

/// Longer names are looked up each time.
const SHORT_NAME_BYTES: usize = 55;

struct ShortName {
    length: u8,
    bytes: [u8; SHORT_NAME_BYTES],
}

impl ShortName {
    fn new(name: &str) -> Option<ShortName> {
        let mut bytes = [0; SHORT_NAME_BYTES];
        bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        Some(ShortName { length: u8::try_from(name.len()).ok()?, bytes })
    }
    fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or("")
    }
    fn is(&self, name: &str) -> bool {
        self.bytes.get(..usize::from(self.length)) == Some(name.as_bytes())
    }
}

/// How often a statement ran by the plan for all values of its parameters, and by plans for its values.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct PlanRuns {
    pub generic: u64,
    pub custom: u64,
}

impl PlanRuns {
    fn add(&mut self, other: PlanRuns) {
        self.generic += other.generic;
        self.custom += other.custom;
    }
}

struct NamedStatement {
    prepared: Arc<Prepared>,
    runs: PlanRuns,
}

struct LastUsed {
    name: ShortName,
    prepared: Arc<Prepared>,
    /// Those that [`NamedStatement::runs`] does not have yet.
    runs: PlanRuns,
}

/// The unnamed one and the one used last are found without a hash, in memory that the session touches anyway: with
/// thousands of sessions each step into another allocation is one that the processor's cache does not have.
#[derive(Default)]
struct Names {
    unnamed: Option<Arc<Prepared>>,
    named: HashMap<String, NamedStatement>,
    last: Option<LastUsed>,
}

impl Names {
    /// Adds to a statement's runs, if there is one of that name.
    fn add_runs(&mut self, name: &str, runs: PlanRuns) {
        if let Some(known) = self.named.get_mut(name) {
            known.runs.add(runs);
        }
    }
    fn forget_last(&mut self) {
        if let Some(last) = self.last.take() {
            self.add_runs(last.name.text(), last.runs);
        }
    }
}

/// Functions prepare and forget statements while the statement that calls them runs.
#[derive(Default)]
pub(crate) struct PreparedByName(RefCell<Names>);

impl PreparedByName {
    pub fn contains(&self, name: &str) -> bool {
        let names = self.0.borrow();
        if name.is_empty() { names.unnamed.is_some() } else { names.named.contains_key(name) }
    }
    pub fn get(&self, name: &str) -> Option<Arc<Prepared>> {
        let mut names = self.0.borrow_mut();
        if name.is_empty() {
            return names.unnamed.clone();
        }
        if let Some(last) = &names.last
            && last.name.is(name)
        {
            return Some(last.prepared.clone());
        }
        let prepared = names.named.get(name)?.prepared.clone();
        names.forget_last();
        let last = |name| LastUsed { name, prepared: prepared.clone(), runs: PlanRuns::default() };
        names.last = ShortName::new(name).map(last);
        Some(prepared)
    }
    /// An execution of the statement has taken a plan for its values, or the one for all.
    pub fn count(&self, name: &str, is_for_values: bool) {
        let mut names = self.0.borrow_mut();
        let run = PlanRuns { generic: u64::from(!is_for_values), custom: u64::from(is_for_values) };
        match &mut names.last {
            Some(last) if last.name.is(name) => last.runs.add(run),
            _ if name.is_empty() => {}
            _ => names.add_runs(name, run),
        }
    }
    /// In place of one of that name.
    pub fn insert(&self, name: &str, prepared: Arc<Prepared>) {
        let mut names = self.0.borrow_mut();
        if name.is_empty() {
            names.unnamed = Some(prepared);
        } else {
            names.forget_last();
            names.named.insert(name.to_string(), NamedStatement { prepared, runs: PlanRuns::default() });
        }
    }
    pub fn remove(&self, name: &str) {
        let mut names = self.0.borrow_mut();
        if name.is_empty() {
            names.unnamed = None;
        } else {
            names.forget_last();
            names.named.remove(name);
        }
    }
    pub fn clear(&self) {
        self.0.take();
    }
    pub fn named(&self) -> Vec<(String, Arc<Prepared>, PlanRuns)> {
        let mut names = self.0.borrow_mut();
        names.forget_last();
        names.named.iter().map(|(name, known)| (name.clone(), known.prepared.clone(), known.runs)).collect()
    }
}
