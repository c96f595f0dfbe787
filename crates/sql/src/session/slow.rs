//! A client's statement that took long is kept with its plan (`kiln_stat_slow_statements`).
//!
//! Must not know: how long others took.

use super::Session;
use crate::client::Runtime;
use kilndb_base::sync::PoisonError;
use kilndb_context::slow_statements::{SLOW_MICROS, SlowExecution};
use kilndb_exec::plan_shape;
use kilndb_plan::Plan;

/// A plan with very many nodes is not kept whole.
const PLAN_LINES_MAX: usize = 200;

impl Session {
    /// A client's statement has run, or its rows up to here: by now it may have taken long.
    #[inline]
    pub(super) fn note_duration(&self, plan: &Plan, runtime: &dyn Runtime) {
        let (now, began) = (self.context.now(), self.context.transaction.statement_timestamp);
        if now - began >= SLOW_MICROS {
            self.keep_slow(plan, (now, now - began), runtime);
        }
    }

    #[cold]
    fn keep_slow(&self, plan: &Plan, (ended, micros): (i64, i64), runtime: &dyn Runtime) {
        let activity = runtime.control().activity.lock().unwrap_or_else(PoisonError::into_inner);
        let (database, user, text) = (activity.database_oid, activity.user_oid, activity.query.clone());
        drop(activity);
        let seen = SlowExecution { database, user, text: &text, ended, micros };
        let shown = || plan_shape(plan).into_iter().take(PLAN_LINES_MAX).collect::<Vec<_>>().join("\n");
        self.context.cluster.slow_statements.note(&seen, shown);
    }
}
