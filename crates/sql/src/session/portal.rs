//! Portals: a bound statement between its messages.

use super::kept_rows::KeptRows;
use super::prepared::Prepared;
use crate::client::Runtime;
use crate::context::SessionContext;
use kilndb_base::Result;
use kilndb_base::hash::HashMap;
use kilndb_exec::Execution;
use kilndb_plan::Plan;
use kilndb_plan::node::OutputColumn;
use kilndb_storage::Snapshot;
use kilndb_types::Datum;
use std::cell::RefCell;
use std::sync::Arc;

pub(crate) struct Portal {
    pub prepared: Arc<Prepared>,
    pub params: Vec<Datum>,
    pub result_formats: Vec<i16>,
    pub plan: Option<Arc<Plan>>,
    /// A utility command's rows, as the portal was bound.
    pub columns: Option<Arc<[OutputColumn]>>,
    pub state: PortalState,
    /// DECLARE CURSOR's portals: name is known to SQL.
    pub cursor: Option<super::cursor::CursorInfo>,
    /// How many savepoints there were when it was opened: it goes with a rollback to an earlier one.
    pub level: usize,
    /// Of the statement that was bound, if the log may be told of it; None for the unnamed one, too.
    pub statement_name: Option<Box<str>>,
}

pub(crate) enum PortalState {
    /// Planned when the catalogs were of this version.
    Ready {
        version: u64,
    },
    Running {
        execution: Box<Execution>,
        snapshot: Snapshot,
    },
    /// A utility command has run; these rows are yet to be sent.
    Kept(Box<KeptRows>),
    Finished,
}

impl Portal {
    /// A plan for the portal's values, as the definitions are now.
    pub fn plan_again(&self, context: &mut SessionContext, runtime: &dyn Runtime) -> Result<Arc<Plan>> {
        Ok(self.prepared.plan_for(&self.params, context, runtime)?.plan)
    }
    /// WITH HOLD cursors outlive their transaction once their rows are stored.
    pub fn holds(&self) -> bool {
        self.cursor.as_ref().is_some_and(|c| c.is_held())
    }
}

#[derive(Default)]
struct Names {
    unnamed: Option<Portal>,
    named: HashMap<String, Portal>,
}

/// A session's portals. The unnamed one, which is all that most drivers use, is found without a hash. A portal that is
/// in use is taken out, so that functions can open and close others meanwhile.
#[derive(Default)]
pub(crate) struct Portals(RefCell<Names>);

impl Portals {
    pub fn contains(&self, name: &str) -> bool {
        self.with(name, |_| ()).is_some()
    }
    /// `look` must not use the session.
    pub fn with<R>(&self, name: &str, look: impl FnOnce(&Portal) -> R) -> Option<R> {
        let names = self.0.borrow();
        if name.is_empty() { names.unnamed.as_ref() } else { names.named.get(name) }.map(look)
    }
    /// In place of one of that name.
    pub fn insert(&self, name: &str, portal: Portal) {
        let mut names = self.0.borrow_mut();
        if name.is_empty() {
            names.unnamed = Some(portal);
        } else {
            names.named.insert(name.to_string(), portal);
        }
    }
    pub fn remove(&self, name: &str) -> Option<Portal> {
        let mut names = self.0.borrow_mut();
        if name.is_empty() { names.unnamed.take() } else { names.named.remove(name) }
    }
    pub fn retain(&self, mut keep: impl FnMut(&Portal) -> bool) {
        let mut names = self.0.borrow_mut();
        names.unnamed.take_if(|p| !keep(p));
        if !names.named.is_empty() {
            names.named.retain(|_, p| keep(p));
        }
    }
    pub fn clear(&self) {
        self.retain(|_| false);
    }
    /// Those of the levels above belong to level `level` from here on.
    pub fn keep_from(&self, level: usize) {
        for portal in self.0.borrow_mut().named.values_mut() {
            portal.level = portal.level.min(level);
        }
    }
    /// Is there one whose rows are still to come from a plan of this kind?
    pub fn any_open(&self, is_concerned: impl Fn(&Plan) -> bool) -> bool {
        let names = self.0.borrow();
        names.unnamed.iter().chain(names.named.values()).any(|portal| {
            let reads = portal.plan.as_ref().filter(|plan| plan.command == "SELECT" && !portal.holds());
            reads.is_some_and(|plan| is_concerned(plan))
        })
    }
    /// `look` must not use the session.
    pub fn for_named(&self, mut look: impl FnMut(&str, &Portal)) {
        self.0.borrow().named.iter().for_each(|(name, portal)| look(name, portal));
    }
}
