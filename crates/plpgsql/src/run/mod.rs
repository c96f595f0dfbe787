//! The run of a routine: a walk over its tree.
//!
//! Invariants
//! 1. `current`, `phase` and `declaring` say where the run is; while an error unwinds nobody touches them, so that the
//!    line of CONTEXT can be told where the error leaves the routine (or is caught).
//! 2. Each line of CONTEXT is added once: `told` says that this routine's is there already.
//! 3. Whatever waits or runs SQL goes through `Spi`.

mod assign;
mod block;
mod cursor;
mod raise;
mod result;
mod sql;

use crate::compile::{Routine, Shortcuts, spi_mode};
use crate::parser::ExtraChecks;
use crate::tree::*;
use crate::values::{Row, Vars};
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_sql::routine::{
    Call, ContextSource, Definition, ResultRows, SlotExpression, Spi, SpiPrepared, TupleDescriptor, VariableScope,
};
use kilndb_types::{Datum, oids};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// How a statement ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flow {
    Next,
    Exit,
    Continue,
    Return,
}

/// A value and its type.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub value: Datum,
    pub oid: Oid,
    pub typmod: i32,
}

/// What others are told of a running routine.
struct Frame {
    definition: Arc<Definition>,
    line: Cell<u32>,
    what: Cell<&'static str>,
    /// `what` is no statement.
    is_phase: Cell<bool>,
    /// The text of the statement of SQL that runs.
    sql: RefCell<Option<Arc<str>>>,
}

impl ContextSource for Frame {
    fn add_lines(&self, lines: &mut Vec<String>) {
        if let Some(text) = &*self.sql.borrow() {
            lines.push(format!("SQL statement \"{text}\""));
        }
        lines.push(line_of_context(&self.definition.signature, self.line.get(), self.what.get(), self.is_phase.get()));
    }
}

fn line_of_context(signature: &str, line: u32, what: &str, is_phase: bool) -> String {
    match (is_phase, line) {
        (true, 0) => format!("PL/pgSQL function {signature} {what}"),
        (true, line) => format!("PL/pgSQL function {signature} line {line} {what}"),
        (false, 0) => format!("PL/pgSQL function {signature}"),
        (false, line) => format!("PL/pgSQL function {signature} line {line} at {what}"),
    }
}

pub(crate) struct Run<'r, 's> {
    pub routine: &'r Routine,
    frame: Rc<Frame>,
    pub spi: &'r mut Spi<'s>,
    pub vars: Vars<'r>,
    pub rows: Option<&'r mut dyn ResultRows>,
    /// The columns of the result, if it is a row or a set.
    pub result_row: Option<Arc<TupleDescriptor>>,
    pub result: Typed,
    /// The label that EXIT or CONTINUE looks for.
    label: Option<&'r str>,
    pub row_count: u64,
    /// Room for a row of INTO.
    pub row_room: Vec<Datum>,
    current: Option<&'r Stmt>,
    phase: Option<&'static str>,
    /// The line of the declaration whose default is being computed.
    declaring: Option<u32>,
    told: bool,
    /// Errors that handlers are at work on, inner ones last.
    handled: Vec<Error>,
    steps: u32,
    checks: Option<(ExtraChecks, ExtraChecks)>,
}

/// Statements between two looks at the clock.
const STEPS_PER_CHECKPOINT: u32 = 64;

pub(crate) fn call(routine: &Routine, call: &mut Call<'_>, spi: &mut Spi<'_>) -> Result<Datum> {
    let result_row = match call.expected {
        Some(shape) => Some(Arc::new(shape.clone())),
        None => call.definition.row.clone(),
    };
    let rows: Option<&mut dyn ResultRows> = match &mut call.rows {
        Some(rows) => Some(&mut **rows),
        None => None,
    };
    let vars = Vars::new(routine, call.trigger);
    let definition = routine.definition.clone();
    let frame = Frame {
        definition,
        line: Cell::new(0),
        what: Cell::new(""),
        is_phase: Cell::new(false),
        sql: RefCell::new(None),
    };
    let mut run = Run {
        routine,
        frame: Rc::new(frame),
        spi,
        vars,
        rows,
        result_row,
        result: Typed { value: Datum::Null, oid: 0, typmod: -1 },
        label: None,
        row_count: 0,
        row_room: Vec::new(),
        current: None,
        phase: None,
        declaring: None,
        told: false,
        handled: Vec::new(),
        steps: 0,
        checks: None,
    };
    run.spi.enter(run.frame.clone());
    let done = run.whole(call.arguments);
    run.spi.leave();
    done.map_err(|e| run.complete(e))
}

impl<'r> Run<'r, '_> {
    fn whole(&mut self, arguments: &[Datum]) -> Result<Datum> {
        self.phase = Some("while storing call arguments into local variables");
        let routine = self.routine;
        for (slot, value) in routine.inputs.iter().zip(arguments) {
            match self.vars.variable(*slot)? {
                Variable::Record(_) => self.assign_record_datum(*slot, value.clone())?,
                _ => self.vars.set(*slot, value.clone()),
            }
        }
        self.prepare_records()?;
        self.phase = Some("during function entry");
        self.set_trigger_rows()?;
        self.set_found(false);
        self.phase = None;
        self.current = Some(&routine.action);
        let flow = self.statement(&routine.action)?;
        (self.current, self.phase) = (None, None);
        if flow != Flow::Return {
            let message = match routine.trigger_rows {
                Some(_) => "control reached end of trigger procedure without RETURN",
                None => "control reached end of function without RETURN",
            };
            return Err(Error::new(sqlstate::FUNCTION_EXECUTED_NO_RETURN_STATEMENT, message));
        }
        self.phase = Some("while casting return value to function's return type");
        self.finish()
    }

    /// Columns of composite types that variables are of.
    fn prepare_records(&mut self) -> Result<()> {
        for variable in &self.routine.variables {
            if let Variable::Record(r) = variable
                && r.ty.oid != oids::RECORD
            {
                self.shape_of_type(r.ty.oid)?;
            }
        }
        Ok(())
    }

    pub(crate) fn shape_of_type(&mut self, oid: Oid) -> Result<Arc<TupleDescriptor>> {
        if let Some((_, shape)) = self.vars.shapes.iter().find(|(o, _)| *o == oid) {
            return Ok(shape.clone());
        }
        let Some(shape) = self.spi.row_of_type(oid)? else {
            let name = self.spi.format_type(oid, -1)?;
            return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("type {name} is not composite")));
        };
        self.vars.shapes.push((oid, shape.clone()));
        Ok(shape)
    }

    fn set_trigger_rows(&mut self) -> Result<()> {
        let Some((new, old)) = self.routine.trigger_rows else { return Ok(()) };
        let Some(event) = self.vars.trigger else {
            return Err(Error::unsupported("trigger functions can only be called as triggers"));
        };
        let Some(table) = &self.routine.definition.trigger_table else {
            return Err(Error::internal("a trigger without a table"));
        };
        for (slot, value) in [(new, &event.new), (old, &event.old)] {
            let row = match value {
                Some(Datum::Record(record)) => Row {
                    shape: table.row.clone(),
                    fields: record.fields.iter().map(|(_, v)| v.clone()).collect(),
                    is_null: false,
                },
                _ => Row::nulls(table.row.clone(), true),
            };
            self.vars.set_record(slot, Some(row));
        }
        Ok(())
    }

    // Where it is.

    /// Line, statement or phase.
    fn place(&self) -> (u32, &'static str, bool) {
        let line = self.declaring.or(self.current.map(|s| s.line)).unwrap_or(0);
        match (self.phase, self.current) {
            (Some(phase), _) => (line, phase, true),
            (None, Some(statement)) => (line, statement.kind.name(), false),
            (None, None) => (0, "", false),
        }
    }

    fn context_line(&self) -> String {
        let (line, what, is_phase) = self.place();
        line_of_context(&self.routine.definition.signature, line, what, is_phase)
    }

    /// This routine's line, and those of its callers.
    pub(crate) fn whole_context(&self) -> String {
        let mut lines = vec![self.context_line()];
        lines.extend(self.spi.callers());
        lines.join("\n")
    }

    /// To be called before what may call other routines. `sql`: the statement, if it is more than an expression.
    pub(crate) fn going_out(&self, sql: Option<&Arc<str>>) {
        let (line, what, is_phase) = self.place();
        self.frame.line.set(line);
        self.frame.what.set(what);
        self.frame.is_phase.set(is_phase);
        let mut known = self.frame.sql.borrow_mut();
        if sql.is_some() || known.is_some() {
            *known = sql.cloned();
        }
    }

    /// The error with this routine's line of context.
    fn complete(&mut self, mut e: Error) -> Error {
        if !std::mem::take(&mut self.told) {
            e.add_context(&self.context_line());
        }
        e
    }

    pub(crate) fn set_found(&mut self, found: bool) {
        self.vars.set(self.routine.found, Datum::Bool(found));
    }

    /// Extra checks that are made while the routine runs: warnings, errors.
    pub(crate) fn extra_checks(&mut self) -> (ExtraChecks, ExtraChecks) {
        if let Some(checks) = self.checks {
            return checks;
        }
        let read = |spi: &Spi<'_>, name: &str| crate::compile::extra_checks(spi.setting(name).as_deref());
        let checks = (read(self.spi, "plpgsql.extra_warnings"), read(self.spi, "plpgsql.extra_errors"));
        self.checks = Some(checks);
        checks
    }

    // Statements.

    pub(crate) fn statements(&mut self, list: &'r [Stmt]) -> Result<Flow> {
        let outer = self.current;
        if list.is_empty() {
            self.step()?;
        }
        for statement in list {
            self.current = Some(statement);
            self.step()?;
            let flow = match &statement.kind {
                // Most statements of loops are assignments, and small enough to feel one call more.
                StmtKind::Assign { target, expr } => {
                    self.assign_expr(*target, expr)?;
                    Flow::Next
                }
                _ => self.statement(statement)?,
            };
            if flow != Flow::Next {
                self.current = outer;
                return Ok(flow);
            }
        }
        self.current = outer;
        Ok(Flow::Next)
    }

    /// Others get their turn now and then.
    fn step(&mut self) -> Result<()> {
        self.steps += 1;
        if self.steps < STEPS_PER_CHECKPOINT {
            return Ok(());
        }
        self.steps = 0;
        self.spi.checkpoint()
    }

    fn statement(&mut self, statement: &'r Stmt) -> Result<Flow> {
        match &statement.kind {
            StmtKind::If { arms, otherwise } => self.if_statement(arms, otherwise),
            StmtKind::ForInteger { label, var, lower, upper, step, reverse, body } => {
                self.for_integer(label.as_deref(), *var, (lower, upper, step.as_ref()), *reverse, body)
            }
            StmtKind::While { label, condition, body } => self.while_loop(label.as_deref(), condition, body),
            StmtKind::Loop { label, body } => self.endless_loop(label.as_deref(), body),
            StmtKind::Sql { query, into } => self.execute_sql(query, *into).map(|()| Flow::Next),
            StmtKind::Exit { is_exit, label, condition } => self.exit(*is_exit, label.as_deref(), condition.as_ref()),
            StmtKind::Return(value) => self.return_value(value),
            StmtKind::Block(block) => self.block(block),
            _ => self.rarer(statement),
        }
    }

    #[inline(never)]
    fn rarer(&mut self, statement: &'r Stmt) -> Result<Flow> {
        match &statement.kind {
            StmtKind::Case { test, whens, otherwise } => return self.case(test.as_ref(), whens, otherwise.as_deref()),
            StmtKind::ForQuery { label, target, query, body } => {
                return self.for_query(label.as_deref(), *target, query, body);
            }
            StmtKind::ForDynamic { label, target, query, params, body } => {
                return self.for_dynamic(label.as_deref(), *target, query, params, body);
            }
            StmtKind::ForCursor { label, cursor, args, record, body } => {
                return self.for_cursor(label.as_deref(), *cursor, args.as_ref(), *record, body);
            }
            StmtKind::ForEach { label, target, slice, array, body } => {
                return self.for_each(label.as_deref(), *target, *slice, array, body);
            }
            StmtKind::ReturnNext(value) => self.return_next(value)?,
            StmtKind::ReturnQuery(query) => self.return_query(query)?,
            StmtKind::ReturnDynamic { query, params } => self.return_dynamic(query, params)?,
            StmtKind::Raise(raise) => self.raise(raise)?,
            StmtKind::Assert { condition, message } => self.assert(condition, message.as_ref())?,
            StmtKind::Dynamic { query, into, params } => self.dynamic(query, *into, params)?,
            StmtKind::Perform(query) => self.perform(query)?,
            StmtKind::Call { query, is_call } => self.call_statement(query, *is_call)?,
            StmtKind::Diagnostics { stacked, items } => self.diagnostics(*stacked, items)?,
            StmtKind::Open { cursor, scroll, source } => self.open(*cursor, *scroll, source)?,
            StmtKind::Fetch { cursor, target, direction, count } => self.fetch(*cursor, *target, *direction, count)?,
            StmtKind::Close(cursor) => self.close(*cursor)?,
            StmtKind::Commit { chain } => self.spi.commit(*chain)?,
            StmtKind::Rollback { chain } => self.spi.roll_back(*chain)?,
            _ => return Err(Error::internal("a statement that nobody runs")),
        }
        Ok(Flow::Next)
    }

    // Expressions.

    /// A piece of SQL, prepared for the types that its variables have.
    pub(crate) fn prepared(&mut self, expr: &'r Expr) -> Result<Arc<SpiPrepared>> {
        let routine = self.routine;
        let known = routine.prepared.get(expr.id).ok_or_else(|| Error::internal("SQL that was not numbered"))?;
        if let Some(prepared) = known.fixed.get() {
            return Ok(prepared.clone());
        }
        if let Some((types, prepared)) = &*known.dynamic.lock().unwrap_or_else(|e| e.into_inner())
            && types.iter().all(|(slot, oid)| self.vars.type_of(*slot).is_ok_and(|(now, _)| now == *oid))
        {
            return Ok(prepared.clone());
        }
        let scope = self.vars.scope(expr.place);
        let prepared = match &expr.assignment {
            Some(whole) => self.spi.prepare_source(&expr.text, whole, &scope)?,
            None => self.spi.prepare(&expr.text, spi_mode(expr.mode), &scope)?,
        };
        let noted = scope.noted.take();
        if noted.is_empty() {
            known.shortcuts.get_or_init(|| Shortcuts {
                quick: self.spi.quick(&prepared),
                program: self.spi.over_slots(&prepared),
            });
            // Another session may have been faster; both mean the same.
            return Ok(known.fixed.get_or_init(|| prepared).clone());
        }
        known.shortcuts.get_or_init(|| Shortcuts { quick: self.spi.quick(&prepared), program: None });
        *known.dynamic.lock().unwrap_or_else(|e| e.into_inner()) = Some((noted, prepared.clone()));
        Ok(prepared)
    }

    pub(crate) fn evaluate(&mut self, expr: &'r Expr) -> Result<Typed> {
        if let Some(shortcuts) = self.shortcuts(expr) {
            if let Some(quick) = &shortcuts.quick
                && let Some(value) = quick.evaluate(&self.vars)
            {
                return Ok(Typed { value, oid: quick.type_oid(), typmod: -1 });
            }
            if let Some(program) = &shortcuts.program {
                let value = self.computed(expr, program)?;
                return Ok(Typed { value, oid: program.type_oid(), typmod: program.typmod() });
            }
        }
        let prepared = self.prepared(expr)?;
        self.going_out(None);
        let (value, oid, typmod) = self.spi.evaluate(&prepared, &self.vars.scope(expr.place))?;
        Ok(Typed { value, oid, typmod })
    }

    /// The value of an expression that depends on nothing but its variables.
    #[inline]
    pub(crate) fn computed(&mut self, expr: &'r Expr, program: &'r SlotExpression) -> Result<Datum> {
        if self.vars.elsewhere(program.variables()).next().is_some() {
            return self.computed_of_fields(expr, program);
        }
        self.spi.compute(program, &self.vars.slots)
    }

    /// The same of variables whose values are not all in their slots.
    #[inline(never)]
    fn computed_of_fields(&mut self, expr: &'r Expr, program: &'r SlotExpression) -> Result<Datum> {
        let mut elsewhere = Vec::new();
        for variable in self.vars.elsewhere(program.variables()) {
            let value = self.vars.scope(expr.place).checked_value(variable)?;
            elsewhere.push((variable.number as Slot, value));
        }
        for (slot, value) in &mut elsewhere {
            self.vars.set_slot(*slot, std::mem::take(value));
        }
        let done = self.spi.compute(program, &self.vars.slots);
        for (slot, _) in &elsewhere {
            self.vars.set_slot(*slot, Datum::Null);
        }
        done
    }

    #[inline]
    pub(crate) fn shortcuts(&self, expr: &Expr) -> Option<&'r Shortcuts> {
        self.routine.prepared.get(expr.id)?.shortcuts.get()
    }

    pub(crate) fn condition(&mut self, expr: &'r Expr) -> Result<Option<bool>> {
        if let Some(Shortcuts { quick: Some(quick), .. }) = self.shortcuts(expr)
            && let Some(truth) = quick.truth(&self.vars)
        {
            return Ok(Some(truth));
        }
        if let Some(Shortcuts { program: Some(program), .. }) = self.shortcuts(expr)
            && program.type_oid() == oids::BOOL
        {
            return Ok(match self.computed(expr, program)? {
                Datum::Bool(b) => Some(b),
                _ => None,
            });
        }
        let Typed { value, oid, typmod } = self.evaluate(expr)?;
        match value {
            Datum::Bool(b) if oid == oids::BOOL => Ok(Some(b)),
            value => match self.cast(value, (oid, typmod), (oids::BOOL, -1))? {
                Datum::Bool(b) => Ok(Some(b)),
                _ => Ok(None),
            },
        }
    }

    pub(crate) fn integer(&mut self, expr: &'r Expr) -> Result<Option<i32>> {
        let Typed { value, oid, typmod } = self.evaluate(expr)?;
        match self.cast(value, (oid, typmod), (oids::INT4, -1))? {
            Datum::Int4(v) => Ok(Some(v)),
            _ => Ok(None),
        }
    }

    /// A value's text; None: it is NULL.
    pub(crate) fn text(&mut self, expr: &'r Expr) -> Result<Option<String>> {
        let typed = self.evaluate(expr)?;
        self.text_of(&typed)
    }

    pub(crate) fn text_of(&mut self, typed: &Typed) -> Result<Option<String>> {
        match &typed.value {
            Datum::Null => Ok(None),
            Datum::Text(t) if matches!(typed.oid, oids::TEXT | oids::VARCHAR | oids::NAME | oids::UNKNOWN) => {
                Ok(Some(t.to_string()))
            }
            value => self.spi.output(value, typed.oid).map(Some),
        }
    }
}
