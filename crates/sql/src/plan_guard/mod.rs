//! Statements whose plans are watched (plan_guard): new statistics may bring a plan that turns out many times slower than
//! the one before, which then returns.
//!
//! Invariants
//! 1. A plan returns only while nothing but statistics of what it uses has changed since it was made.
//! 2. A plan is compared with another by what executions of both have cost, never by estimates.
//!
//! Must not know: the protocol, portals, where plans are run.

mod comparison;
mod statement;

pub(crate) use statement::{FormerPlan, StatementGuard};

use crate::session::CacheKey;
use kilndb_base::hash::HashMap;
use kilndb_base::sync::{Arc, Mutex, PoisonError};
use kilndb_types::Datum;

/// So many statements are watched; whoever comes then takes the place of all that nobody has prepared any more.
const STATEMENTS_MAX: usize = 8192;

/// The statements that are watched, by text, shared by all sessions.
#[derive(Default)]
pub(crate) struct GuardedStatements(Mutex<HashMap<CacheKey, Arc<StatementGuard>>>);

impl GuardedStatements {
    /// The guard of a statement; None: there are too many. `key`: its catalog version does not count.
    pub fn of(&self, key: CacheKey) -> Option<Arc<StatementGuard>> {
        let key = key.of_any_version();
        let mut guards = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = guards.get(&key) {
            return Some(known.clone());
        }
        if guards.len() >= STATEMENTS_MAX {
            guards.retain(|_, guard| Arc::strong_count(guard) > 1);
        }
        if guards.len() >= STATEMENTS_MAX {
            return None;
        }
        let guard = Arc::new(StatementGuard::new(key.database, key.sql.clone()));
        guards.insert(key, guard.clone());
        Some(guard)
    }

    /// What pg_stat_plans shows: a row for each plan that is known.
    pub fn rows(&self) -> Vec<Vec<Datum>> {
        let guards: Vec<_> = self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        guards.iter().flat_map(|guard| guard.rows()).collect()
    }
}
