//! Calls of trigger functions.

use super::call::Routines;
use super::language::*;
use crate::client::Runtime;
use crate::context::Restriction;
use crate::host::routine_definition::RoutineKey;
use crate::session::Session;
use kilndb_base::hash::HashSet;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::trigger::{self, TransitionTables, Trigger};
use kilndb_catalog::{CatalogView, Table};
use kilndb_exec::{PendingTrigger, TriggerCall};
use kilndb_spill::SpillIo;
use kilndb_storage::Snapshot;
use kilndb_types::{Datum, Record};
use std::sync::Arc;

/// suppress_redundant_updates_trigger().
const SUPPRESS_REDUNDANT_UPDATES: Oid = 1291;

/// A row as a value of the table's row type: dropped columns are none of it.
fn record_of(table: &Table, values: &[Datum]) -> Datum {
    let present = table.columns.iter().zip(values).filter(|(c, _)| !c.dropped);
    Datum::Record(Arc::new(Record {
        type_oid: table.type_oid,
        fields: present.map(|(c, v)| (c.type_oid, v.clone())).collect(),
        names: None,
    }))
}

fn values_of(table: &Table, record: Arc<Record>) -> Vec<Datum> {
    let mut fields = Arc::unwrap_or_clone(record).fields.into_iter();
    table
        .columns
        .iter()
        .map(|c| if c.dropped { Datum::Null } else { fields.next().map(|f| f.1).unwrap_or_default() })
        .collect()
}

fn time_of(t: &Trigger) -> TriggerTime {
    match t.kind & (trigger::BEFORE | trigger::INSTEAD) {
        trigger::BEFORE => TriggerTime::Before,
        0 => TriggerTime::After,
        _ => TriggerTime::InsteadOf,
    }
}

impl Routines<'_> {
    /// The rows of the running trigger's OLD TABLE or NEW TABLE.
    pub(super) fn transition_rows(&mut self, is_new: bool, rows: &mut dyn ResultRows) -> Result<()> {
        let own = self.session.context.shared.clone();
        let io = SpillIo { space: &own.database.temp, park: self.runtime };
        let mut present = Vec::new();
        own.temporary.each_transition_row(is_new, io, &mut |table, row| {
            present.clear();
            present.extend(table.columns.iter().zip(row).filter(|(c, _)| !c.dropped).map(|(_, v)| v.clone()));
            rows.push(&present)
        })
    }
}

impl Session {
    /// Calls a trigger's function; the row that it returns, None if that is NULL.
    pub(crate) fn call_trigger_function(
        &mut self,
        fire: TriggerCall<'_>,
        snapshot: Option<&Snapshot>,
        runtime: &dyn Runtime,
    ) -> Result<Option<Vec<Datum>>> {
        let TriggerCall { trigger: t, table, operation, old, new, transitions } = fire;
        if t.function == SUPPRESS_REDUNDANT_UPDATES {
            return suppress_redundant(t, table, operation, old, new);
        }
        let key = RoutineKey {
            oid: t.function,
            types: Vec::new(),
            collation: 0,
            table: table.oid,
            trigger: if t.has_transition_tables() { t.oid } else { 0 },
        };
        let event = TriggerEvent {
            trigger_name: &t.name,
            time: time_of(t),
            for_each_row: t.for_each_row(),
            operation,
            table_oid: table.oid,
            table_name: &table.name,
            table_schema: &table.schema_name,
            arguments: &t.arguments,
            old: old.map(|row| record_of(table, row)),
            new: new.map(|row| record_of(table, row)),
            old_table: t.old_table.as_deref(),
            new_table: t.new_table.as_deref(),
        };
        let mut visible = TransitionTables::default();
        let mut rows = transitions;
        if t.has_transition_tables() {
            visible.table = Some(table.clone());
            (visible.old_name, visible.new_name) = (t.old_table.clone(), t.new_table.clone());
            visible.rows = rows.as_mut().map(|rows| std::mem::take(*rows)).unwrap_or_default();
        }
        self.context.shared.temporary.push_transitions(visible);
        self.context.shared.scratch.trigger_depth.set(self.context.shared.scratch.trigger_depth.get() + 1);
        let done = self.compiled(&key, runtime).and_then(|compiled| {
            let definition = compiled.definition.clone();
            let mut call = Call {
                definition: &definition,
                arguments: &[],
                expected: None,
                rows: None,
                trigger: Some(&event),
                atomic: true,
            };
            self.call_compiled(&compiled, &mut call, snapshot, runtime)
        });
        self.context.shared.scratch.trigger_depth.set(self.context.shared.scratch.trigger_depth.get() - 1);
        let seen = self.context.shared.temporary.pop_transitions();
        if let (true, Some(rows)) = (t.has_transition_tables(), rows) {
            *rows = seen.rows;
        }
        // The function's row is its own by now, unless it is the one that it got.
        drop(event);
        match done? {
            Datum::Record(record) => Ok(Some(values_of(table, record))),
            _ => Ok(None),
        }
    }

    /// Makes the calls of deferred constraint triggers; `only`: of these constraints. Returns whether there were any.
    pub(crate) fn fire_pending_triggers(&mut self, only: Option<&HashSet<Oid>>, runtime: &dyn Runtime) -> Result<bool> {
        let mut fired = false;
        let mut at = 0;
        // Functions may add to the list.
        while let Some(pending) = self.context.transaction.pending.triggers.get(at) {
            at += 1;
            if pending.done_at.is_some() || only.is_some_and(|only| !only.contains(&pending.constraint)) {
                continue;
            }
            fired = true;
            let pending: PendingTrigger = pending.clone();
            self.context.transaction.pending.triggers[at - 1].done_at = Some(self.context.transaction.savepoints.len());
            runtime.checkpoint()?;
            let Some(table) = self.context.with_catalog(runtime, |host| host.reader.table_by_oid(pending.table))?
            else {
                continue;
            };
            let Some(t) = table.triggers.iter().find(|t| t.oid == pending.trigger).cloned() else { continue };
            if let Some(txn) = &mut self.context.transaction.txn {
                txn.next_command();
            }
            let snapshot = self.context.take_snapshot(runtime)?;
            let fire = TriggerCall {
                trigger: &t,
                table: &table,
                operation: pending.operation,
                old: pending.old.as_deref(),
                new: pending.new.as_deref(),
                transitions: None,
            };
            let suspended = self.context.act_as(pending.role, Restriction::None)?;
            let called = self.call_trigger_function(fire, Some(&snapshot), runtime);
            self.context.resume_role(suspended);
            called?;
        }
        Ok(fired)
    }

    /// Fires a table's statement triggers outside of a plan (TRUNCATE).
    pub(crate) fn fire_statement_triggers(
        &mut self,
        table: &Arc<Table>,
        operation: TriggerOperation,
        bits: i16,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let is_replica = self.context.settings.get("session_replication_role") == Some("replica");
        let is_due = |t: &&Arc<Trigger>| {
            !t.for_each_row() && t.is(bits) && t.is_after() == (bits & trigger::BEFORE == 0) && t.fires_as(is_replica)
        };
        for t in table.triggers.iter().filter(is_due) {
            let snapshot = self.context.take_snapshot(runtime)?;
            let fire = TriggerCall { trigger: t, table, operation, old: None, new: None, transitions: None };
            self.call_trigger_function(fire, Some(&snapshot), runtime)?;
            if let Some(txn) = &mut self.context.transaction.txn {
                txn.next_command();
            }
        }
        Ok(())
    }
}

fn suppress_redundant(
    t: &Trigger,
    table: &Table,
    operation: TriggerOperation,
    old: Option<&[Datum]>,
    new: Option<&[Datum]>,
) -> Result<Option<Vec<Datum>>> {
    let wrong = |how: &str| {
        Error::new(
            sqlstate::E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
            format!("suppress_redundant_updates_trigger: must be called {how}"),
        )
    };
    if operation != TriggerOperation::Update {
        return Err(wrong("on update"));
    }
    if time_of(t) != TriggerTime::Before {
        return Err(wrong("before update"));
    }
    let (Some(old), Some(new)) = (old, new) else { return Err(wrong("for each row")) };
    let stored = |row: &[Datum]| {
        let mut bytes = Vec::new();
        kilndb_types::row::encode_row(&table.descriptor, row, &mut bytes).map(|()| bytes)
    };
    Ok((stored(old)? != stored(new)?).then(|| new.to_vec()))
}
