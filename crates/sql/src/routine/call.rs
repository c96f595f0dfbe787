//! Calls: the session is handed to a routine, and taken back.
//!
//! Invariants
//! 1. Whatever happens in a routine, role, settings of its SET clauses and savepoints are as before when it has ended.

use super::cache::Compiled;
use super::language::*;
use super::spi::Spi;
use crate::client::Runtime;
use crate::context::{Restriction, SuspendedRole};
use crate::host::routine_definition::RoutineKey;
use crate::session::Session;
use crate::settings::SettingScope;
use kilndb_base::Result;
use kilndb_bind::trigger::{NEW_TABLE_ROWS, OLD_TABLE_ROWS};
use kilndb_catalog::FunctionInfo;
use kilndb_exec::{CallerResources, RoutineHost, TriggerCall};
use kilndb_plan::Plan;
use kilndb_plan::expression::RoutineCall;
use kilndb_storage::Snapshot;
use kilndb_types::{Datum, oids};
use std::sync::Arc;

/// The session as the plan of one of its statements has it.
pub(crate) struct Routines<'s> {
    pub session: &'s mut Session,
    pub plan: &'s Arc<Plan>,
    pub runtime: &'s dyn Runtime,
}

impl Routines<'_> {
    /// The session has all of its own while `run` runs, and knows that the statement does.
    fn lend<R>(
        &mut self,
        held: CallerResources<'_>,
        run: impl FnOnce(&mut Session, &Snapshot, &dyn Runtime) -> R,
    ) -> R {
        let CallerResources { txn, pending, usage, snapshot } = held;
        let session = &mut *self.session;
        session.context.transaction.txn = txn.take();
        // What the routine runs is none of the statement's actions.
        let cascade = pending.cascade.take();
        std::mem::swap(&mut session.context.transaction.pending, pending);
        std::mem::swap(&mut session.context.transaction.usage, usage);
        session.routines.running_plans.push(self.plan.clone());
        let done = run(session, snapshot, self.runtime);
        session.routines.running_plans.pop();
        std::mem::swap(&mut session.context.transaction.pending, pending);
        std::mem::swap(&mut session.context.transaction.usage, usage);
        pending.cascade = cascade;
        txn.put_back(session.context.transaction.txn.take());
        done
    }
}

impl RoutineHost for Routines<'_> {
    fn call_routine(
        &mut self,
        call: &RoutineCall,
        arguments: &[Datum],
        mut rows: Option<&mut dyn ResultRows>,
        held: CallerResources<'_>,
    ) -> Result<Datum> {
        if let (Some(rows), OLD_TABLE_ROWS | NEW_TABLE_ROWS) = (rows.as_deref_mut(), call.oid) {
            return self.transition_rows(call.oid == NEW_TABLE_ROWS, rows).map(|()| Datum::Null);
        }
        self.lend(held, |session, snapshot, runtime| session.call_function(call, arguments, rows, snapshot, runtime))
    }

    fn call_trigger(&mut self, fire: TriggerCall<'_>, held: CallerResources<'_>) -> Result<Option<Vec<Datum>>> {
        self.lend(held, |session, snapshot, runtime| session.call_trigger_function(fire, Some(snapshot), runtime))
    }
}

/// Rows as the caller wants them: spread over columns, or as one value each.
struct Shaped<'a> {
    rows: &'a mut dyn ResultRows,
    definition: &'a Definition,
    expected: Option<&'a TupleDescriptor>,
    spread: bool,
    values: Vec<Datum>,
}
impl ResultRows for Shaped<'_> {
    fn push(&mut self, row: &[Datum]) -> Result<()> {
        let shape = self.expected.or(self.definition.row.as_deref());
        match shape {
            Some(shape) if !self.spread => {
                let record = Spi::record(shape, row);
                self.rows.push(&[record])
            }
            // A composite function's row that is NULL as a whole.
            Some(shape) if row.len() == 1 && shape.columns.len() != 1 && row[0].is_null() => {
                self.values.clear();
                self.values.resize(shape.columns.len(), Datum::Null);
                self.rows.push(&self.values)
            }
            _ => self.rows.push(row),
        }
    }
}

/// What a routine changes of its session for the time that it runs.
struct Before {
    role: Option<SuspendedRole>,
    settings_mark: usize,
    savepoints: usize,
    has_clauses: bool,
}

impl Session {
    fn call_function(
        &mut self,
        call: &RoutineCall,
        arguments: &[Datum],
        rows: Option<&mut dyn ResultRows>,
        snapshot: &Snapshot,
        runtime: &dyn Runtime,
    ) -> Result<Datum> {
        let key = RoutineKey { oid: call.oid, types: call.types(), collation: call.collation, table: 0, trigger: 0 };
        let compiled = self.compiled(&key, runtime)?;
        let definition = compiled.definition.clone();
        let expected = call.expected.as_deref();
        let mut shaped = rows.map(|rows| Shaped {
            rows,
            definition: &definition,
            expected,
            spread: call.spread,
            values: Vec::new(),
        });
        let mut call = Call {
            definition: &definition,
            arguments,
            expected,
            rows: shaped.as_mut().map(|s| s as &mut dyn ResultRows),
            trigger: None,
            atomic: true,
        };
        self.call_compiled(&compiled, &mut call, Some(snapshot), runtime)
    }

    /// Calls with the role and the settings that the definition asks for.
    pub(crate) fn call_compiled(
        &mut self,
        compiled: &Compiled,
        call: &mut Call<'_>,
        snapshot: Option<&Snapshot>,
        runtime: &dyn Runtime,
    ) -> Result<Datum> {
        self.enter()?;
        let mut before = Before {
            role: None,
            settings_mark: self.context.settings.mark(),
            savepoints: self.context.transaction.savepoints.len(),
            has_clauses: compiled.info.security_definer || !compiled.info.config.is_empty(),
        };
        let read_only = call.definition.is_read_only();
        // Not what the caller's trigger sees.
        let hides = call.trigger.is_none() && self.context.shared.temporary.is_in_trigger();
        if hides {
            self.context.shared.temporary.push_transitions(Default::default());
        }
        let held = self.context.held_variables.take();
        let settings_before = self.context.settings.generation;
        let entered = match before.has_clauses {
            true => self.take_clauses(&compiled.info, &mut before.role),
            false => Ok(()),
        };
        let done = entered.and_then(|()| {
            let atomic = call.atomic;
            let mut spi = Spi { session: self, runtime, read_only, atomic, snapshot: snapshot.cloned() };
            compiled.routine.call(call, &mut spi)
        });
        if hides {
            self.context.shared.temporary.pop_transitions();
        }
        self.context.held_variables = held;
        self.leave(before, done.is_err());
        if self.context.settings.generation != settings_before {
            *self.context.shared.scratch.latest_settings.borrow_mut() = Some(self.context.settings.held());
        }
        done
    }

    fn enter(&mut self) -> Result<()> {
        kilndb_base::stack::check()?;
        self.context.routine_depth += 1;
        Ok(())
    }

    fn leave(&mut self, before: Before, failed: bool) {
        self.context.routine_depth -= 1;
        if failed {
            self.context.transaction.savepoints.truncate(before.savepoints);
        }
        if before.has_clauses {
            let mark = before.settings_mark.min(self.context.settings.mark());
            self.context.settings.end_of_function(mark);
            if let Some(suspended) = before.role {
                self.context.resume_role(suspended);
            }
        }
    }

    /// SECURITY DEFINER and SET.
    fn take_clauses(&mut self, info: &FunctionInfo, suspended: &mut Option<SuspendedRole>) -> Result<()> {
        if info.security_definer {
            *suspended = Some(self.context.act_as(info.owner, Restriction::LocalRole)?);
        }
        for item in &info.config {
            if let Some((name, value)) = item.split_once('=') {
                self.context.set_value(name, value, SettingScope::Local)?;
            }
        }
        Ok(())
    }

    /// Has `run` do something with a routine's body, whose names are looked for as when it is called: by the role and
    /// with the settings that its definition asks for.
    pub(crate) fn within_clauses<R>(
        &mut self,
        info: &FunctionInfo,
        run: impl FnOnce(&mut Session) -> Result<R>,
    ) -> Result<R> {
        if !info.security_definer && info.config.is_empty() {
            return run(self);
        }
        let (mark, generation) = (self.context.settings.mark(), self.context.settings.generation);
        let mut suspended = None;
        let done = self.take_clauses(info, &mut suspended).and_then(|()| run(self));
        let mark = mark.min(self.context.settings.mark());
        self.context.settings.end_of_function(mark);
        if let Some(suspended) = suspended {
            self.context.resume_role(suspended);
        }
        if self.context.settings.generation != generation {
            *self.context.shared.scratch.latest_settings.borrow_mut() = Some(self.context.settings.held());
        }
        done
    }

    /// DO.
    pub(crate) fn run_inline(&mut self, language: &str, body: &str, runtime: &dyn Runtime) -> Result<()> {
        let definition = std::sync::Arc::new(Definition {
            oid: 0,
            schema: String::new(),
            name: "inline_code_block".to_string(),
            signature: "inline_code_block".to_string(),
            kind: RoutineKind::Inline,
            arguments: Vec::new(),
            result_type: oids::VOID,
            collation: Default::default(),
            returns_set: false,
            row: None,
            body: std::sync::Arc::from(body),
            volatility: Volatility::Volatile,
            trigger_table: None,
            is_validation: false,
        });
        let language = self.language_of(language)?;
        let atomic = self.context.in_explicit_block() || self.context.routine_depth > 0;
        self.enter()?;
        let (depth, savepoints) = (self.context.routine_depth, self.context.transaction.savepoints.len());
        let mut call =
            Call { definition: &definition, arguments: &[], expected: None, rows: None, trigger: None, atomic };
        let mut spi = Spi { session: self, runtime, read_only: false, atomic, snapshot: None };
        let done =
            language.compile(&definition, &mut spi).and_then(|routine| routine.call(&mut call, &mut spi)).map(|_| ());
        self.context.routine_depth = depth - 1;
        if done.is_err() {
            self.context.transaction.savepoints.truncate(savepoints);
        }
        done
    }
}
