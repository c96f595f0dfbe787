//! Portals: a bound statement between its messages.

use super::prepared::Prepared;
use crate::exec::Execution;
use crate::plan::Plan;
use kilndb_storage::Snapshot;
use kilndb_types::Datum;
use foldhash::HashMap;
use std::sync::Arc;

pub(crate) struct Portal {
    pub prepared: Arc<Prepared>,
    pub params: Vec<Datum>,
    pub result_formats: Vec<i16>,
    pub plan: Option<Arc<Plan>>,
    pub state: PortalState,
    /// DECLARE CURSOR's portals: name is known to SQL.
    pub cursor: Option<super::cursor::CursorInfo>,
}

pub(crate) enum PortalState {
    Ready,
    Running { execution: Box<Execution>, snapshot: Snapshot },
    Finished,
}

impl Portal {
    /// WITH HOLD cursors outlive their transaction once their rows are stored.
    pub fn holds(&self) -> bool {
        self.cursor.as_ref().is_some_and(|c| c.is_held())
    }
}

/// A session's portals. The unnamed one, which is all that most drivers use, is found without a hash.
#[derive(Default)]
pub(crate) struct Portals {
    unnamed: Option<Portal>,
    named: HashMap<String, Portal>,
}

impl Portals {
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }
    pub fn get(&self, name: &str) -> Option<&Portal> {
        if name.is_empty() { self.unnamed.as_ref() } else { self.named.get(name) }
    }
    /// In place of one of that name.
    pub fn insert(&mut self, name: &str, portal: Portal) {
        if name.is_empty() {
            self.unnamed = Some(portal);
        } else {
            self.named.insert(name.to_string(), portal);
        }
    }
    pub fn remove(&mut self, name: &str) -> Option<Portal> {
        if name.is_empty() { self.unnamed.take() } else { self.named.remove(name) }
    }
    pub fn retain(&mut self, mut keep: impl FnMut(&Portal) -> bool) {
        self.unnamed.take_if(|p| !keep(p));
        if !self.named.is_empty() {
            self.named.retain(|_, p| keep(p));
        }
    }
    pub fn clear(&mut self) {
        self.retain(|_| false);
    }
    pub fn named(&self) -> impl Iterator<Item = (&String, &Portal)> {
        self.named.iter()
    }
}
