//! A session's prepared statements by name.
//!
//! Invariants
//! 1. `last` is one of `named`, or nothing.

use super::prepared::Prepared;
use foldhash::HashMap;
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
pub(crate) struct PreparedByName {
    unnamed: Option<Arc<Prepared>>,
    named: HashMap<String, Arc<Prepared>>,
    last: Option<(ShortName, Arc<Prepared>)>,
}

impl PreparedByName {
    pub fn contains(&self, name: &str) -> bool {
        if name.is_empty() { self.unnamed.is_some() } else { self.named.contains_key(name) }
    }
    pub fn get(&mut self, name: &str) -> Option<Arc<Prepared>> {
        if name.is_empty() {
            return self.unnamed.clone();
        }
        if let Some((last, prepared)) = &self.last
            && last.is(name)
        {
            return Some(prepared.clone());
        }
        let prepared = self.named.get(name)?.clone();
        self.last = ShortName::new(name).map(|short| (short, prepared.clone()));
        Some(prepared)
    }
    /// In place of one of that name.
    pub fn insert(&mut self, name: &str, prepared: Arc<Prepared>) {
        if name.is_empty() {
            self.unnamed = Some(prepared);
        } else {
            self.named.insert(name.to_string(), prepared);
            self.last = None;
        }
    }
    pub fn remove(&mut self, name: &str) {
        if name.is_empty() {
            self.unnamed = None;
        } else {
            self.named.remove(name);
            self.last = None;
        }
    }
    pub fn clear(&mut self) {
        *self = PreparedByName::default();
    }
    pub fn named(&self) -> impl Iterator<Item = (&String, &Arc<Prepared>)> {
        self.named.iter()
    }
}
