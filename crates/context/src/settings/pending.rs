//! What set_config() has asked for within a statement, until the statement has ended and it is done.

use kilndb_base::hash::HashMap;

/// A value for a setting, for the transaction alone or for the session.
pub struct PendingSetting {
    pub name: String,
    pub value: String,
    pub is_local: bool,
}

/// In the order of the calls.
#[derive(Default)]
pub struct PendingSettings {
    list: Vec<PendingSetting>,
    /// The last one of each name, in lower case.
    last: HashMap<String, usize>,
}

impl PendingSettings {
    pub fn push(&mut self, setting: PendingSetting) {
        self.last.insert(setting.name.to_ascii_lowercase(), self.list.len());
        self.list.push(setting);
    }
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
    /// The value that a name is going to have.
    pub fn value(&self, name: &str) -> Option<&str> {
        if self.list.is_empty() {
            return None;
        }
        self.last.get(&name.to_ascii_lowercase()).map(|at| self.list[*at].value.as_str())
    }
    pub(crate) fn into_list(self) -> Vec<PendingSetting> {
        self.list
    }
}
