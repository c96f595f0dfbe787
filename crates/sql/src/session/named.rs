//! A session's prepared statements by name.
//!
//! Invariants
//! 1. `last` is one of `named`, or nothing.

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
    fn is(&self, name: &str) -> bool {
        self.bytes.get(..usize::from(self.length)) == Some(name.as_bytes())
    }
}

/// The unnamed one and the one used last are found without a hash, in memory that the session touches anyway: with
/// thousands of sessions each step into another allocation is one that the processor's cache does not have.
#[derive(Default)]
struct Names {
    unnamed: Option<Arc<Prepared>>,
    named: HashMap<String, Arc<Prepared>>,
    last: Option<(ShortName, Arc<Prepared>)>,
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
        if let Some((last, prepared)) = &names.last
            && last.is(name)
        {
            return Some(prepared.clone());
        }
        let prepared = names.named.get(name)?.clone();
        names.last = ShortName::new(name).map(|short| (short, prepared.clone()));
        Some(prepared)
    }
    /// In place of one of that name.
    pub fn insert(&self, name: &str, prepared: Arc<Prepared>) {
        let mut names = self.0.borrow_mut();
        if name.is_empty() {
            names.unnamed = Some(prepared);
        } else {
            names.named.insert(name.to_string(), prepared);
            names.last = None;
        }
    }
    pub fn remove(&self, name: &str) {
        let mut names = self.0.borrow_mut();
        if name.is_empty() {
            names.unnamed = None;
        } else {
            names.named.remove(name);
            names.last = None;
        }
    }
    pub fn clear(&self) {
        self.0.take();
    }
    pub fn named(&self) -> Vec<(String, Arc<Prepared>)> {
        self.0.borrow().named.iter().map(|(name, prepared)| (name.clone(), prepared.clone())).collect()
    }
}
