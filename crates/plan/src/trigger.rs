//! The triggers of a changed table, and those that a partition's rows fire when another table is named.

use super::node::PlannedTrigger;
use super::partition::{PartitionColumns, TableRules};
use super::*;
use kilndb_bind::ir::DmlKind;
use kilndb_bind::trigger::BoundTrigger;
use kilndb_catalog::Table;
use kilndb_catalog::trigger::{BEFORE, DELETE, INSERT, INSTEAD, ROW, UPDATE};

impl TriggerPlan {
    fn new(list: Vec<Arc<PlannedTrigger>>, assigned: Arc<[bool]>) -> TriggerPlan {
        let has = |bits: i16| list.iter().any(|t| t.trigger.is(bits));
        let captures = [INSERT, UPDATE, DELETE].map(|event| {
            let mut due = list.iter().map(|t| &t.trigger).filter(|t| t.is(event));
            (due.clone().any(|t| t.old_table.is_some()), due.any(|t| t.new_table.is_some()))
        });
        TriggerPlan {
            has_before_row: has(ROW | BEFORE),
            may_change_row: has(ROW | BEFORE | UPDATE),
            is_instead: has(INSTEAD),
            captures,
            list,
            assigned,
        }
    }

    pub(crate) fn captures_any(&self) -> bool {
        self.captures.iter().any(|(old, new)| *old || *new)
    }
}

impl Planner<'_> {
    /// The triggers of a changed table; None: it has none that the statement may fire. `assigned`: the columns that an
    /// UPDATE sets.
    pub(super) fn trigger_plan(&self, d: &Dml, assigned: Arc<[bool]>) -> Result<Option<Arc<TriggerPlan>>> {
        if d.triggers.is_empty() {
            return Ok(None);
        }
        let both = Self::old_and_new(&d.table, d.old_values_rel, d.new_rel);
        let list = d.triggers.iter().map(|bound| self.planned_trigger(bound, &both)).collect::<Result<_>>()?;
        Ok(Some(Arc::new(TriggerPlan::new(list, assigned))))
    }

    fn old_and_new(table: &Table, old: u32, new: u32) -> Layout {
        let columns = |rel: u32| table.columns.iter().map(move |c| ColId { rel, att: c.attnum });
        Layout(columns(old).chain(columns(new)).collect())
    }

    fn planned_trigger(&self, bound: &BoundTrigger, both: &Layout) -> Result<Arc<PlannedTrigger>> {
        let when = bound.when.as_ref().map(|e| self.expression(e, both)).transpose()?;
        Ok(Arc::new(PlannedTrigger { trigger: bound.trigger.clone(), when }))
    }

    /// The row triggers of a partition, whatever their event.
    pub(super) fn row_triggers(
        &self,
        table: &Table,
        binder: &kilndb_bind::Binder<'_>,
    ) -> Result<Vec<Arc<PlannedTrigger>>> {
        let (old, new) = (binder.new_rel(), binder.new_rel());
        let both = Self::old_and_new(table, old, new);
        let due = table.triggers.iter().filter(|t| t.for_each_row() && t.enabled != b'D');
        due.map(|t| self.planned_trigger(&binder.bind_trigger(t, table, old, new)?, &both)).collect()
    }
}

impl ModifyPlan {
    /// The triggers that a partition's rows fire when the statement names the table of this plan: the partition's own
    /// row triggers. Rows are kept for the transition tables of the statement's triggers. An UPDATE that moves a row
    /// also deletes and inserts.
    pub fn partition_triggers(
        &self,
        columns: Option<&PartitionColumns>,
        rules: &TableRules,
    ) -> Option<Arc<TriggerPlan>> {
        let captures = self.triggers.as_ref().filter(|plan| plan.captures_any()).map(|plan| plan.captures);
        if rules.triggers.is_empty() && captures.is_none() {
            return None;
        }
        let upserts = self.statement.conflict.as_ref().is_some_and(|c| c.update.is_some());
        let events = match self.statement.kind {
            DmlKind::Insert if upserts => INSERT | UPDATE,
            DmlKind::Insert => INSERT,
            DmlKind::Delete => DELETE,
            DmlKind::Update | DmlKind::Merge => INSERT | UPDATE | DELETE,
        };
        let list: Vec<_> = rules.triggers.iter().filter(|t| t.trigger.kind & events != 0).cloned().collect();
        if list.is_empty() && captures.is_none() {
            return None;
        }
        let assigned = match columns {
            None => self.statement.assigned.clone(),
            Some(columns) => columns.named.iter().map(|i| i.is_some_and(|i| self.statement.assigned[i])).collect(),
        };
        let plan = TriggerPlan::new(list, assigned);
        Some(Arc::new(TriggerPlan { captures: captures.unwrap_or_default(), ..plan }))
    }
}
