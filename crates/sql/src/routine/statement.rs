//! Statements and expressions of routines: parsed once, planned once per state of the catalogs.
//!
//! Invariants
//! 1. A plan is used only under the catalog version, search path and formats that it was made for; what has changed
//!    within the session's own transaction is not shared with others.
//! 2. An expression that depends on nothing but variables is evaluated without a snapshot, an executor or the catalogs.

use super::collect::Collector;
use super::plans::{PlanKind, RoutinePlans, SharedPlan, SpiPlan};
use super::slot_expression::SlotExpression;
use super::spi::*;
use super::text::{in_text, parse};
use crate::session::Session;
use crate::session::command::{self, Access};
use crate::session::run::PlanRun;
use crate::session::run::SinkMaker;
use crate::session::{Body, Template, TemplatePlan};
use crate::session::{lifted_values, literal_arguments, look_up};
use kilndb_base::sync::atomic::{AtomicU64, Ordering};
use kilndb_base::sync::{Arc, Mutex};
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_exec::integer_program::IntegerProgram;
use kilndb_exec::{Execution, RowSink};
use kilndb_plan::Plan;
use kilndb_storage::Snapshot;
use kilndb_syntax::literals::Scanned;
use kilndb_syntax::{Node, Statement};
use kilndb_types::Datum;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// A statement or expression of a routine: parsed once, planned once per state of the catalogs. Shared by sessions.
pub struct SpiPrepared {
    pub(super) id: u64,
    pub(super) text: Arc<str>,
    pub(super) mode: ParseMode,
    pub(super) statement: Statement,
    /// `target := text`, of which this is the right side.
    pub(super) assignment: Option<Arc<str>>,
    pub(super) shared: Mutex<Option<SharedPlan>>,
}

impl SpiPrepared {
    pub fn text(&self) -> &str {
        &self.text
    }
    pub fn mode(&self) -> ParseMode {
        self.mode
    }
    /// A SELECT, INSERT, UPDATE, DELETE or MERGE.
    pub fn is_plannable(&self) -> bool {
        crate::session::is_plannable(&self.statement.node())
    }
    /// What kind of statement it is, before it has run.
    pub fn command(&self) -> Command {
        command_of(&self.statement.node())
    }
    pub(crate) fn statement(&self) -> &Statement {
        &self.statement
    }
    /// The error in the whole assignment, if this is the right side of one.
    fn in_assignment(&self, mut e: Error) -> Error {
        if let (Some(whole), Some(position)) = (&self.assignment, e.0.internal_position)
            && e.0.internal_query.as_deref() == Some(&*self.text)
        {
            let before = whole.chars().count() - self.text.chars().count();
            e.0.internal_position = Some(position + before as u32);
            e.0.internal_query = Some(whole.to_string());
        }
        e
    }
    pub(crate) fn line_of_context(&self) -> String {
        match self.mode {
            ParseMode::Statement => format!("SQL statement \"{}\"", self.text),
            ParseMode::Expression => match &self.assignment {
                Some(whole) => format!("PL/pgSQL assignment \"{whole}\""),
                None => format!("PL/pgSQL expression \"{}\"", self.text),
            },
            ParseMode::Assignment { .. } => format!("PL/pgSQL assignment \"{}\"", self.text),
        }
    }
}

fn command_of(node: &Node<'_>) -> Command {
    match node {
        Node::SelectStmt(s) if s.into_clause().is_some() => Command::SelectInto,
        Node::CreateTableAsStmt(_) => Command::SelectInto,
        Node::SelectStmt(_) => Command::Select,
        Node::InsertStmt(_) => Command::Insert,
        Node::UpdateStmt(_) => Command::Update,
        Node::DeleteStmt(_) => Command::Delete,
        Node::MergeStmt(_) => Command::Merge,
        Node::CallStmt(_) => Command::Call,
        _ => Command::Utility,
    }
}

/// Takes the only row of an expression.
#[derive(Default)]
struct OneRow {
    value: Option<Datum>,
    rows: usize,
}
impl RowSink for OneRow {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        self.rows += 1;
        self.value = values.first().cloned();
        Ok(())
    }
}

impl Spi<'_> {
    /// Parses and plans; errors of both have their position in `text`.
    pub fn prepare(&mut self, text: &str, mode: ParseMode, scope: &dyn VariableScope) -> Result<Arc<SpiPrepared>> {
        let prepared = self.parse(text, mode)?;
        self.session.routines.plans.plan(&mut self.session.context, &prepared, scope, self.runtime)?;
        Ok(prepared)
    }
    /// The right side of `whole`, an assignment to a variable: whose errors are told with all of it.
    pub fn prepare_source(&mut self, text: &str, whole: &str, scope: &dyn VariableScope) -> Result<Arc<SpiPrepared>> {
        let mut prepared = self.parse(text, ParseMode::Expression)?;
        if let Some(prepared) = Arc::get_mut(&mut prepared) {
            prepared.assignment = Some(Arc::from(whole));
        }
        self.session
            .routines
            .plans
            .plan(&mut self.session.context, &prepared, scope, self.runtime)
            .map_err(|e| prepared.in_assignment(e))?;
        Ok(prepared)
    }
    /// Parses only: the first run plans.
    pub fn parse(&mut self, text: &str, mode: ParseMode) -> Result<Arc<SpiPrepared>> {
        let statement = parse(text, mode)?;
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(SpiPrepared {
            id,
            text: Arc::from(text),
            mode,
            statement,
            assignment: None,
            shared: Mutex::new(None),
        }))
    }
    /// Checks the syntax only, as CREATE FUNCTION does.
    pub fn check_syntax(&mut self, text: &str, mode: ParseMode) -> Result<()> {
        parse(text, mode).map(|_| ())
    }
    /// The result's columns, as the catalogs are now; None: it has none.
    pub fn describe(
        &mut self,
        prepared: &Arc<SpiPrepared>,
        scope: &dyn VariableScope,
    ) -> Result<Option<Arc<TupleDescriptor>>> {
        Ok(self.session.routines.plans.plan(&mut self.session.context, prepared, scope, self.runtime)?.row.clone())
    }

    /// Runs a statement; `sink` gets the rows, of which there are at most `limit` (0: all).
    pub fn run(
        &mut self,
        prepared: &Arc<SpiPrepared>,
        scope: &dyn VariableScope,
        limit: u64,
        sink: &mut dyn RowSink,
    ) -> Result<Outcome> {
        let plan = self.session.routines.plans.plan(&mut self.session.context, prepared, scope, self.runtime)?;
        self.run_planned(prepared, &plan, scope, limit, sink).map_err(|mut e| {
            e.add_context(&prepared.line_of_context());
            e
        })
    }

    /// As [`Spi::run`], without a line of context of its own.
    pub(super) fn run_bare(
        &mut self,
        prepared: &SpiPrepared,
        scope: &dyn VariableScope,
        limit: u64,
        sink: &mut dyn RowSink,
    ) -> Result<Outcome> {
        let plan = self.session.routines.plans.plan(&mut self.session.context, prepared, scope, self.runtime)?;
        self.run_planned(prepared, &plan, scope, limit, sink)
    }

    /// The statements of a script; their positions are of the whole of it.
    pub(super) fn parse_script(&mut self, text: &str) -> Result<Vec<Arc<SpiPrepared>>> {
        let script = kilndb_syntax::parse(text).map_err(|e| in_text(e, text, ""))?;
        let text: Arc<str> = Arc::from(text);
        let prepared = |statement| {
            let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
            Arc::new(SpiPrepared {
                id,
                text: text.clone(),
                mode: ParseMode::Statement,
                statement,
                assignment: None,
                shared: Mutex::new(None),
            })
        };
        Ok(script.statements().into_iter().map(prepared).collect())
    }

    pub(super) fn plan_and_values(
        &mut self,
        prepared: &SpiPrepared,
        scope: &dyn VariableScope,
    ) -> Result<(Arc<Plan>, Vec<Datum>)> {
        if let Node::ExplainStmt(s) = prepared.statement.node() {
            if let Node::ExecuteStmt(e) = s.query() {
                return self.session.explained_execute(s, e, &prepared.statement, self.runtime);
            }
            let held = self.hold_variables(&prepared.statement, scope)?;
            let before = std::mem::replace(&mut self.session.context.held_variables, held);
            let plan = self.session.context.make_plan(&prepared.statement, &[], self.runtime);
            self.session.context.held_variables = before;
            return Ok((plan?, Vec::new()));
        }
        let mut planned = self.session.routines.plans.plan(&mut self.session.context, prepared, scope, self.runtime)?;
        // Rows that are locked may be named by CURRENT OF. (A cursor that only reads is not planned again for that.)
        if planned.plan.as_ref().is_some_and(|p| !p.is_read_only && p.command == "SELECT") {
            let kind = PlanKind { tells_places: true, ..PlanKind::default() };
            planned = RoutinePlans::make_plan(prepared, scope, kind, &mut self.session.context, self.runtime)?;
        }
        if let Some(generic) = &planned.plan {
            self.session.context.lock_tables(generic, self.runtime)?;
        }
        let plan = self
            .choose_plan(prepared, &planned, scope)?
            .ok_or_else(|| Error::new(sqlstate::INVALID_CURSOR_DEFINITION, "cannot open utility query as cursor"))?;
        Ok((plan, values_of(&planned.uses, scope)?))
    }

    fn run_planned(
        &mut self,
        prepared: &SpiPrepared,
        planned: &SpiPlan,
        scope: &dyn VariableScope,
        limit: u64,
        sink: &mut dyn RowSink,
    ) -> Result<Outcome> {
        let Some(plan) = &planned.plan else { return self.run_command(prepared.statement(), scope, limit, sink) };
        if self.read_only && plan.changes_permanent {
            return Err(not_allowed_here(plan.command));
        }
        let (runtime, mut again) = (self.runtime, None);
        let (context, plans) = (&mut self.session.context, &mut self.session.routines.plans);
        context.lock_or_replan(plan, planned.catalog_version, runtime, |context| {
            let made = again.insert(plans.plan(context, prepared, scope, runtime)?);
            made.plan.clone().ok_or_else(|| Error::internal("a plan vanished"))
        })?;
        self.run_planned_locked(prepared, again.as_deref().unwrap_or(planned), scope, limit, sink)
    }

    /// With the locks that the plan needs.
    fn run_planned_locked(
        &mut self,
        prepared: &SpiPrepared,
        planned: &SpiPlan,
        scope: &dyn VariableScope,
        limit: u64,
        sink: &mut dyn RowSink,
    ) -> Result<Outcome> {
        let Some(plan) = &self.choose_plan(prepared, planned, scope)? else {
            return Err(Error::internal("a plan vanished"));
        };
        // Whoever runs the same statement meanwhile (recursion) finds none.
        let mut execution = match self.session.routines.plans.statements.get_mut(&prepared.id) {
            Some(known) => known.execution.take().filter(|e| Arc::ptr_eq(e.plan(), plan)),
            None => None,
        };
        let processed = match &mut execution {
            Some(running) => {
                running.restart(|params| {
                    for v in &planned.uses {
                        params.push(scope.checked_value(v)?);
                    }
                    Ok(())
                })?;
                self.run_plan_in(&mut execution, plan, &[], limit, sink)?
            }
            None => {
                let params = values_of(&planned.uses, scope)?;
                self.run_plan_in(&mut execution, plan, &params, limit, sink)?
            }
        };
        if let Some(mut ended) = execution
            && ended.set_aside()
            && let Some(known) = self.session.routines.plans.statements.get_mut(&prepared.id)
        {
            known.execution = Some(ended);
        }
        Ok(Outcome { command: prepared.command(), processed, row: planned.row.clone() })
    }

    /// Takes locks and the snapshot that the routine's volatility calls for, and runs: of statements that are not made
    /// again while they wait.
    pub(super) fn run_plan(
        &mut self,
        plan: &Arc<Plan>,
        params: &[Datum],
        limit: u64,
        sink: &mut dyn RowSink,
    ) -> Result<u64> {
        if self.read_only && plan.changes_permanent {
            return Err(not_allowed_here(plan.command));
        }
        self.session.context.check_read_only(plan)?;
        self.session.context.lock_tables(plan, self.runtime)?;
        self.run_plan_in(&mut None, plan, params, limit, sink)
    }

    /// `execution`: one that was set aside and has its parameters; or none, and then the one that has run.
    fn run_plan_in(
        &mut self,
        execution: &mut Option<Box<Execution>>,
        plan: &Arc<Plan>,
        params: &[Datum],
        limit: u64,
        sink: &mut dyn RowSink,
    ) -> Result<u64> {
        // One that was set aside has been run by whoever was at work then.
        self.session.context.check_access(plan)?;
        let snapshot = self.statement_snapshot()?;
        let limit = (limit != 0).then_some(limit);
        let run = PlanRun { max_rows: limit, ..PlanRun::whole(plan, params, snapshot) };
        let progress = self.session.advance(run, execution, self.runtime, SinkMaker::Sink(sink))?;
        Ok(progress.rows)
    }

    /// A new one for each statement of a VOLATILE routine, else the caller's.
    pub(super) fn statement_snapshot(&mut self) -> Result<Snapshot> {
        if let (true, Some(snapshot)) = (self.read_only, &self.snapshot) {
            return Ok(snapshot.clone());
        }
        if let Some(txn) = &mut self.session.context.transaction.txn {
            txn.next_command();
        }
        self.session.context.take_snapshot(self.runtime)
    }

    /// A command that is not planned.
    pub(super) fn run_command(
        &mut self,
        statement: &Statement,
        scope: &dyn VariableScope,
        limit: u64,
        sink: &mut dyn RowSink,
    ) -> Result<Outcome> {
        let node = statement.node();
        match &node {
            Node::TransactionStmt(_) => return Err(Error::unsupported("unsupported transaction command in PL/pgSQL")),
            Node::CopyStmt(c) if c.filename().is_none() => {
                return Err(Error::unsupported("cannot COPY to/from client in PL/pgSQL"));
            }
            Node::ExecuteStmt(s) => return self.run_execute(s, statement.source(), limit, sink),
            Node::CallStmt(s) => {
                let atomic = self.atomic;
                let output = self.session.call_procedure(s, statement.source(), scope, atomic, self.runtime)?;
                if !atomic {
                    // It may have ended the transaction.
                    self.snapshot = None;
                }
                if let Some((_, values)) = &output {
                    sink.row(values)?;
                }
                let row = output.map(|(row, _)| row);
                return Ok(Outcome { command: Command::Call, processed: u64::from(row.is_some()), row });
            }
            _ => {}
        }
        if self.read_only && command::command_of(&node).access != Access::Reads {
            return Err(not_allowed_here(command::tag_of(&node)));
        }
        let mut collector = Collector::new(sink);
        let held = self.hold_variables(statement, scope)?;
        let before = std::mem::replace(&mut self.session.context.held_variables, held);
        let done = self.session.run_utility(statement, false, self.runtime, &mut collector);
        self.session.context.held_variables = before;
        let tag = done?;
        let (row, rows) = collector.into_parts();
        let counted = tag.rsplit(' ').next().and_then(|n| n.parse().ok());
        Ok(Outcome { command: command_of(&node), processed: counted.unwrap_or(rows), row: row.map(Arc::new) })
    }

    /// EXECUTE of a prepared statement.
    fn run_execute(
        &mut self,
        s: &kilndb_syntax::nodes::ExecuteStmt,
        source: &Arc<str>,
        limit: u64,
        sink: &mut dyn RowSink,
    ) -> Result<Outcome> {
        let name = s.name().unwrap_or("");
        let prepared = self.session.find_prepared(name)?;
        let params = self.session.evaluate_arguments(s, source, &prepared.param_types.clone(), self.runtime)?;
        let Some(inner) = &prepared.statement else {
            return Ok(Outcome { command: Command::Utility, processed: 0, row: None });
        };
        if !crate::session::is_plannable(&inner.node()) {
            return self.run_command(&inner.clone(), &NoVariables, limit, sink);
        }
        let plan = self.session.choose_plan(name, &prepared, &params, self.runtime)?.plan;
        let processed = self.run_plan(&plan, &params, limit, sink)?;
        Ok(Outcome { command: command_of(&inner.node()), processed, row: row_of_plan(&plan) })
    }

    /// Of each output argument of a CALL, in the order of its result's columns: its name, and the variable that was
    /// given for it.
    pub fn outputs_of_call(
        &mut self,
        prepared: &SpiPrepared,
        scope: &dyn VariableScope,
    ) -> Result<Vec<(String, Option<u32>)>> {
        let Node::CallStmt(s) = prepared.statement.node() else { return Ok(Vec::new()) };
        self.session.outputs_of_call(s, prepared.statement.source(), scope, self.runtime)
    }

    /// Runs text that was made at run time (EXECUTE … USING). A text that was seen before is neither parsed nor planned
    /// again.
    pub fn execute(
        &mut self,
        text: &str,
        parameters: &[(Oid, Datum)],
        limit: u64,
        sink: &mut dyn RowSink,
    ) -> Result<Outcome> {
        self.execute_text(text, parameters, limit, sink).map_err(|mut e| {
            if e.0.internal_query.is_none() {
                e.add_context(&format!("SQL statement \"{text}\""));
            }
            e
        })
    }

    fn execute_text(
        &mut self,
        text: &str,
        parameters: &[(Oid, Datum)],
        limit: u64,
        sink: &mut dyn RowSink,
    ) -> Result<Outcome> {
        if parameters.is_empty() {
            let mut scanned = std::mem::take(&mut self.session.scanned);
            let done = self.execute_by_shape(text, &mut scanned, limit, sink);
            self.session.scanned = scanned;
            if let Some(outcome) = done? {
                return Ok(outcome);
            }
        }
        let scope = Parameters(parameters);
        let script = kilndb_syntax::parse(text).map_err(|e| in_text(e, text, ""))?;
        let mut outcome = Outcome { command: Command::Utility, processed: 0, row: None };
        for statement in script.statements() {
            let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
            let prepared = SpiPrepared {
                id,
                text: Arc::from(text),
                mode: ParseMode::Statement,
                statement,
                assignment: None,
                shared: Mutex::new(None),
            };
            if matches!(prepared.statement.node(), Node::TransactionStmt(_)) {
                return Err(Error::unsupported("EXECUTE of transaction commands is not implemented"));
            }
            // It runs but once.
            let kind = PlanKind { for_values: true, ..PlanKind::default() };
            let planned = RoutinePlans::make_plan(&prepared, &scope, kind, &mut self.session.context, self.runtime)?;
            outcome = self.run_planned(&prepared, &planned, &scope, limit, sink)?;
        }
        Ok(outcome)
    }

    /// An expression that takes no more than integers and truth values.
    pub fn quick(&mut self, prepared: &SpiPrepared) -> Option<IntegerProgram> {
        self.session.routines.plans.statements.get(&prepared.id)?.plan.quick.clone()
    }

    /// An expression that depends on nothing but its variables.
    pub fn over_slots(&mut self, prepared: &SpiPrepared) -> Option<SlotExpression> {
        self.session.routines.plans.statements.get(&prepared.id)?.plan.over_slots.clone()
    }

    /// The value of such an expression, by the slots of all variables.
    pub fn compute(&mut self, expression: &SlotExpression, slots: &[Datum]) -> Result<Datum> {
        let Session { context, routines, .. } = &mut *self.session;
        routines.plans.room.evaluate(expression, slots, context, self.runtime)
    }

    /// As simple queries are run (docs/decisions/0009). None: nothing was done.
    fn execute_by_shape(
        &mut self,
        text: &str,
        scanned: &mut Scanned,
        limit: u64,
        sink: &mut dyn RowSink,
    ) -> Result<Option<Outcome>> {
        let Some(lookup) = look_up(&self.session.context, text, scanned) else { return Ok(None) };
        if let Some(known) = self.session.instance.templates.find(&lookup, text, scanned, &self.session.context) {
            return self.run_by_template(&known, text, scanned, limit, sink);
        }
        let Ok(script) = kilndb_syntax::parse(text) else { return Ok(None) };
        let statements = script.statements();
        let [statement] = statements.as_slice() else { return Ok(None) };
        match self.session.make_template(&lookup, statement, text, scanned, self.runtime) {
            Ok(Some(template)) => self.run_by_template(&template, text, scanned, limit, sink),
            // What is wrong with it is told the long way.
            _ => Ok(None),
        }
    }

    fn run_by_template(
        &mut self,
        template: &Template,
        text: &str,
        scanned: &Scanned,
        limit: u64,
        sink: &mut dyn RowSink,
    ) -> Result<Option<Outcome>> {
        match &template.body {
            Body::Plan { .. } => {
                let Some(TemplatePlan { plan, lifted, .. }) = template.plan_in(&self.session.context) else {
                    return Ok(None);
                };
                let Ok(params) = lifted_values(&mut self.session.context, lifted, text, scanned, self.runtime) else {
                    return Ok(None);
                };
                let processed = self.run_plan(&plan, &params, limit, sink)?;
                Ok(Some(Outcome { command: command_of_plan(&plan), processed, row: row_of_plan(&plan) }))
            }
            Body::Execute(name) => {
                let prepared = self.session.find_prepared(name)?;
                if !prepared.is_plannable {
                    return Ok(None);
                }
                let Some(params) =
                    literal_arguments(&mut self.session.context, text, scanned, &prepared.param_types, self.runtime)
                else {
                    return Ok(None);
                };
                let plan = self.session.choose_plan(name, &prepared, &params, self.runtime)?.plan;
                let processed = self.run_plan(&plan, &params, limit, sink)?;
                Ok(Some(Outcome { command: command_of_plan(&plan), processed, row: row_of_plan(&plan) }))
            }
            Body::Command(_) | Body::Unshared => Ok(None),
        }
    }

    /// The value of an expression, and its type. More than one column or row is PostgreSQL's error. Takes no snapshot
    /// and starts no executor where the expression can do without.
    pub fn evaluate(&mut self, prepared: &Arc<SpiPrepared>, scope: &dyn VariableScope) -> Result<(Datum, Oid, i32)> {
        let Session { context, routines, .. } = &mut *self.session;
        if let Some(done) = routines.plans.evaluate_quickly(context, prepared, scope, self.runtime) {
            return done;
        }
        let planned = self.session.routines.plans.plan(&mut self.session.context, prepared, scope, self.runtime)?;
        let Some(plan) = &planned.plan else {
            return Err(Error::new(sqlstate::SYNTAX_ERROR, "query did not return data")
                .with_context(format!("query: {}", prepared.text())));
        };
        let (_, type_oid, typmod) = match plan.columns.as_slice() {
            [only] => ((), only.type_oid, only.typmod),
            columns => {
                let (n, s) = (columns.len(), if columns.len() == 1 { "" } else { "s" });
                if prepared.assignment.is_some() {
                    let message = format!("assignment source returned {n} column{s}");
                    return Err(Error::new(sqlstate::SYNTAX_ERROR, message).with_context(prepared.line_of_context()));
                }
                return Err(Error::new(sqlstate::SYNTAX_ERROR, format!("query returned {n} column{s}"))
                    .with_context(format!("query: {}", prepared.text())));
            }
        };
        let mut sink = OneRow::default();
        let params = values_of(&planned.uses, scope)?;
        self.session.context.lock_tables(plan, self.runtime)?;
        let Some(plan) = &self.choose_plan(prepared, &planned, scope)? else {
            return Err(Error::internal("a plan vanished"));
        };
        let done = self.run_plan(plan, &params, 2, &mut sink);
        done.map_err(|mut e| {
            if planned.simple.is_none() {
                e.add_context(&prepared.line_of_context());
            }
            e
        })?;
        if sink.rows > 1 {
            return Err(Error::new(sqlstate::CARDINALITY_VIOLATION, "query returned more than one row")
                .with_context(format!("query: {}", prepared.text())));
        }
        Ok((sink.value.unwrap_or_default(), type_oid, typmod))
    }
}

fn command_of_plan(plan: &Plan) -> Command {
    match plan.command {
        "INSERT" => Command::Insert,
        "UPDATE" => Command::Update,
        "DELETE" => Command::Delete,
        "MERGE" => Command::Merge,
        _ => Command::Select,
    }
}

fn values_of(uses: &[Variable], scope: &dyn VariableScope) -> Result<Vec<Datum>> {
    uses.iter().map(|v| scope.checked_value(v)).collect()
}

pub(super) fn row_of_plan(plan: &Plan) -> Option<Arc<TupleDescriptor>> {
    (!plan.columns.is_empty() || plan.command == "SELECT").then(|| {
        let columns = plan
            .columns
            .iter()
            .map(|c| RowColumn { name: c.name.clone(), type_oid: c.type_oid, typmod: c.typmod })
            .collect();
        Arc::new(TupleDescriptor { type_oid: kilndb_types::oids::RECORD, columns })
    })
}

pub(super) fn not_allowed_here(command: &str) -> Error {
    Error::unsupported(format!("{command} is not allowed in a non-volatile function"))
}
