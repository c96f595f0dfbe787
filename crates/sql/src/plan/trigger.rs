//! The triggers of a changed table.

use super::node::PlannedTrigger;
use super::*;
use crate::catalog::trigger::{BEFORE, INSTEAD, ROW, UPDATE};

impl Planner<'_> {
    /// None: it has none that the statement may fire. `assigned`: the columns that an UPDATE sets.
    pub(super) fn trigger_plan(&self, d: &Dml, assigned: Vec<bool>) -> Result<Option<Arc<TriggerPlan>>> {
        if d.triggers.is_empty() {
            return Ok(None);
        }
        let columns = |rel: u32| d.table.columns.iter().map(move |c| ColId { rel, att: c.attnum });
        let both = Layout(columns(d.old_values_rel).chain(columns(d.new_rel)).collect());
        let mut list = Vec::new();
        for bound in &d.triggers {
            let when = bound.when.as_ref().map(|e| self.compile(e, &both)).transpose()?;
            list.push(PlannedTrigger { trigger: bound.trigger.clone(), when });
        }
        let has = |bits: i16| list.iter().any(|t| t.trigger.is(bits));
        Ok(Some(Arc::new(TriggerPlan { has_before_row: has(ROW | BEFORE), may_change_row: has(ROW | BEFORE | UPDATE), is_instead: has(INSTEAD), list, assigned })))
    }
}
