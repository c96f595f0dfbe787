//! The extended query protocol: Parse, Bind, Describe, Execute, Close, Sync.

use super::Session;
use super::command::{is_plannable, may_run_when_failed};
use super::kept_rows::KeptRows;
use super::logging::LoggedStep;
use super::portal::{Portal, PortalState};
use super::prepared::{CacheKey, ChosenPlan, Prepared, row_columns};
use super::run::PlanRun;
use super::run::{Format, SinkMaker, check_parameter_count, check_result_formats, command_tag, describe, known_format};
use crate::client::{Client, Runtime};
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_plan::node::OutputColumn;
use kilndb_syntax::Node;
use kilndb_types::{Datum, EvalContext, io};
use std::sync::Arc;

/// A Bind message.
pub struct BindRequest<'a> {
    pub portal: &'a str,
    pub statement: &'a str,
    pub param_formats: &'a [i16],
    pub params: &'a [Option<&'a [u8]>],
    pub result_formats: &'a [i16],
}

impl Session {
    pub fn parse(&mut self, name: &str, sql: &str, param_types: &[Oid], runtime: &dyn Runtime) -> Result<()> {
        self.statement_started(sql, None, runtime);
        self.note_command("PARSE", runtime);
        self.parse_text(name, sql, param_types, runtime)?;
        if self.context.times_statement() {
            self.log_duration(LoggedStep::Parse { name, sql }, runtime);
        }
        Ok(())
    }

    fn parse_text(&mut self, name: &str, sql: &str, param_types: &[Oid], runtime: &dyn Runtime) -> Result<()> {
        let key = CacheKey::of(sql, param_types, &self.context);
        let known = key.as_ref().and_then(|k| self.instance.statements.get(k));
        if let Some(known) = known
            && !self.context.in_explicit_failure()
            && known.may_be_taken_in(&mut self.context)
            && (name.is_empty() || !self.statements.prepared.contains(name))
        {
            self.context.begin_statement(runtime)?;
            self.context.fix_snapshot(runtime)?;
            self.statements.prepared.insert(name, known);
            return Ok(());
        }
        let script = kilndb_syntax::parse(sql)?;
        let mut statements = script.statements();
        if statements.len() > 1 {
            return Err(Error::new(
                sqlstate::SYNTAX_ERROR,
                "cannot insert multiple commands into a prepared statement",
            ));
        }
        let statement = statements.pop();
        if let Some(s) = &statement
            && !may_run_when_failed(&s.node())
        {
            self.context.refuse_if_failed()?;
        }
        if !name.is_empty() && self.statements.prepared.contains(name) {
            return Err(Error::new(
                sqlstate::DUPLICATE_PSTATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            ));
        }
        if statement.as_ref().is_some_and(|s| is_plannable(&s.node())) {
            self.context.begin_statement(runtime)?;
            self.context.fix_snapshot(runtime)?;
        }
        let prepared = Prepared::new(sql, statement, param_types, self.context.now());
        let prepared = self.prepare_statement(prepared, runtime)?;
        self.instance.statements.share(key, &prepared, &self.context);
        self.statements.prepared.insert(name, prepared);
        Ok(())
    }

    /// Plans it, or finds out what its rows have: errors show at PREPARE.
    pub(super) fn prepare_statement(&mut self, mut prepared: Prepared, runtime: &dyn Runtime) -> Result<Arc<Prepared>> {
        if prepared.is_plannable {
            prepared = prepared.planned_in(&mut self.context, runtime)?;
        } else if let Some(statement) = prepared.statement.clone() {
            prepared.columns = self.utility_columns(&statement);
            match statement.node() {
                Node::DeclareCursorStmt(cursor) => {
                    self.context.begin_statement(runtime)?;
                    prepared.param_types = self.cursor_parameters(cursor, &prepared.param_types, runtime)?;
                }
                Node::CallStmt(call) => {
                    let (types, columns) =
                        self.describe_call(call, statement.source(), &prepared.param_types, runtime)?;
                    prepared.param_types = types;
                    prepared.columns = columns.map(Arc::from);
                }
                _ => {}
            }
        }
        Ok(Arc::new(prepared))
    }

    pub(crate) fn find_prepared(&mut self, name: &str) -> Result<Arc<Prepared>> {
        self.statements.prepared.get(name).ok_or_else(|| {
            let message = if name.is_empty() {
                "unnamed prepared statement does not exist".to_string()
            } else {
                format!("prepared statement \"{name}\" does not exist")
            };
            Error::new(sqlstate::INVALID_SQL_STATEMENT_NAME, message)
        })
    }

    /// The plan for an execution of the statement of that name with these values of its parameters.
    pub(crate) fn choose_plan(
        &mut self,
        name: &str,
        prepared: &Prepared,
        values: &[Datum],
        runtime: &dyn Runtime,
    ) -> Result<ChosenPlan> {
        prepared.watch(&self.instance.guards, &self.context);
        let chosen = prepared.plan_for(values, &mut self.context, runtime)?;
        self.statements.prepared.count(name, chosen.is_for_values);
        Ok(chosen)
    }

    pub fn bind(&mut self, request: &BindRequest<'_>, runtime: &dyn Runtime, _client: &mut dyn Client) -> Result<()> {
        let prepared = self.find_prepared(request.statement)?;
        self.note_command("BIND", runtime);
        self.time_step();
        if !prepared.may_run_when_failed {
            self.context.refuse_if_failed()?;
        }
        let formats = request.param_formats.len();
        if formats > 1 && formats != request.params.len() {
            return Err(Error::new(
                sqlstate::PROTOCOL_VIOLATION,
                format!("bind message has {formats} parameter formats but {} parameters", request.params.len()),
            ));
        }
        check_parameter_count(request.params.len(), prepared.param_types.len(), request.statement)?;
        if !request.portal.is_empty() && self.statements.portals.contains(request.portal) {
            return Err(Error::new(
                sqlstate::DUPLICATE_CURSOR,
                format!("cursor \"{}\" already exists", request.portal),
            ));
        }
        let (mut params, mut plan, mut columns) = (Vec::new(), None, None);
        let version = self.context.database.version();
        if prepared.is_plannable {
            self.context.begin_statement(runtime)?;
            self.context.fix_snapshot(runtime)?;
            params = self.decode_params(&prepared, request, runtime)?;
            let planned = self.choose_plan(request.statement, &prepared, &params, runtime)?.plan;
            if let Some(columns) = row_columns(&planned) {
                check_result_formats(request.result_formats, columns)?;
            }
            if let Some(key) = &planned.key_ahead {
                kilndb_exec::key_ahead::fetch_slot(key, &params);
            }
            // It is executed in a moment.
            planned.addresses.fetch_nodes();
            planned.addresses.fetch_programs();
            plan = Some(planned);
        } else if let Some(statement) = &prepared.statement {
            columns = match statement.node() {
                Node::CallStmt(call) => {
                    self.describe_call(call, statement.source(), &prepared.param_types, runtime)?.1.map(Arc::from)
                }
                _ => self.utility_columns(statement),
            };
            if let Some(columns) = &columns {
                check_result_formats(request.result_formats, columns)?;
            }
            if !request.params.is_empty() && takes_parameters(&statement.node())? {
                self.context.begin_statement(runtime)?;
                params = self.decode_params(&prepared, request, runtime)?;
            }
        }
        let portal = Portal {
            prepared,
            params,
            result_formats: request.result_formats.to_vec(),
            plan,
            columns,
            state: PortalState::Ready { version },
            cursor: None,
            level: self.context.transaction.savepoints.len(),
            statement_name: (self.context.tells_of_statements() && !request.statement.is_empty())
                .then(|| request.statement.into()),
        };
        if self.context.times_statement() {
            let (name, portal_name) = (request.statement, request.portal);
            self.log_duration(LoggedStep::Bind { name, portal: portal_name, bound: &portal }, runtime);
        }
        self.statements.portals.insert(request.portal, portal);
        Ok(())
    }

    fn decode_params(
        &mut self,
        prepared: &Prepared,
        request: &BindRequest<'_>,
        runtime: &dyn Runtime,
    ) -> Result<Vec<Datum>> {
        if request.params.is_empty() {
            return Ok(Vec::new());
        }
        self.context
            .with_value_context(prepared.param_types.iter().copied(), runtime, |eval| decode(prepared, request, eval))
    }

    pub fn describe_statement(&mut self, name: &str, runtime: &dyn Runtime, client: &mut dyn Client) -> Result<()> {
        let prepared = self.find_prepared(name)?;
        if prepared.is_plannable {
            self.context.refuse_if_failed()?;
            self.context.begin_statement(runtime)?;
            client.parameter_description(&prepared.param_types);
            let plan = prepared.plan_in(&mut self.context, runtime)?;
            describe_rows(row_columns(&plan), &[], client);
            return Ok(());
        }
        client.parameter_description(&prepared.param_types);
        describe_rows(prepared.columns.as_deref(), &[], client);
        Ok(())
    }

    pub fn describe_portal(&mut self, name: &str, client: &mut dyn Client) -> Result<()> {
        let known = self.statements.portals.with(name, |portal| {
            let columns = match &portal.plan {
                Some(plan) => row_columns(plan),
                None => portal.columns.as_deref(),
            };
            describe_rows(columns, &portal.result_formats, client);
        });
        known.ok_or_else(|| missing_portal(name))
    }

    pub fn execute(
        &mut self,
        name: &str,
        max_rows: Option<u64>,
        runtime: &dyn Runtime,
        client: &mut dyn Client,
    ) -> Result<()> {
        let Some(mut portal) = self.statements.portals.remove(name) else { return Err(missing_portal(name)) };
        self.statement_started(&portal.prepared.sql, Some(portal.prepared.number), runtime);
        let fetches = !matches!(portal.state, PortalState::Ready { .. });
        if self.context.tells_of_statements() {
            self.log_execute(LoggedStep::Execute { portal: name, bound: &portal, fetches }, runtime);
        }
        let mut plan = portal.plan.take();
        let done = match (&portal.prepared.statement, &mut plan) {
            (None, _) => {
                client.empty_query();
                Ok(())
            }
            (Some(_), Some(plan)) => self.execute_plan(&mut portal, (name, plan), max_rows, runtime, client),
            (Some(_), None) => self.execute_utility(&mut portal, name, max_rows, runtime, client),
        };
        portal.plan = plan;
        self.send_notices(client);
        let done = done.map_err(|e| {
            self.note_failed_text(&portal.prepared.sql);
            self.add_parameters(e, name, &portal, runtime)
        });
        if done.is_ok() && self.context.times_statement() {
            self.log_duration(LoggedStep::Execute { portal: name, bound: &portal, fetches }, runtime);
        }
        if done.is_ok() && self.context.transaction.txn.is_some() {
            self.statements.portals.insert(name, portal);
        }
        done
    }

    /// A command with rows runs at once to its end; a client that wants some of them only gets the others later.
    fn execute_utility(
        &mut self,
        portal: &mut Portal,
        name: &str,
        max_rows: Option<u64>,
        runtime: &dyn Runtime,
        client: &mut dyn Client,
    ) -> Result<()> {
        if !portal.prepared.may_run_when_failed {
            self.context.refuse_if_failed()?;
        }
        let mut kept = match std::mem::replace(&mut portal.state, PortalState::Finished) {
            PortalState::Kept(kept) => kept,
            PortalState::Ready { .. } => {
                let Some(statement) = portal.prepared.statement.clone() else { return Ok(()) };
                let alone = !self.context.in_explicit_block();
                if portal.columns.is_some() {
                    // Rows may be left for a later Execute, which the transaction keeps the portal for.
                    self.context.begin_statement(runtime)?;
                }
                self.utility_formats = Some(portal.result_formats.clone());
                self.utility_parameters =
                    portal.prepared.param_types.iter().copied().zip(portal.params.iter().cloned()).collect();
                let mut keeper = KeptRows::default();
                let done = match portal.columns.as_ref().and(max_rows) {
                    Some(_) => self.run_utility(&statement, alone, runtime, &mut keeper.filled_for(client)),
                    None => self.run_utility(&statement, alone, runtime, client),
                };
                self.utility_formats = None;
                self.utility_parameters.clear();
                let tag = done?;
                self.send_notices(client);
                if portal.columns.is_none() || max_rows.is_none() {
                    client.command_complete(&tag);
                    portal.state = match portal.columns {
                        Some(_) => PortalState::Kept(Box::new(KeptRows::none(tag))),
                        None => PortalState::Finished,
                    };
                    return Ok(());
                }
                keeper.tag = tag;
                Box::new(keeper)
            }
            _ => return Err(spent_portal(name)),
        };
        if kept.send(max_rows, client)? {
            client.command_complete(&kept.tag_of_sent());
        } else {
            client.portal_suspended();
        }
        portal.state = PortalState::Kept(kept);
        Ok(())
    }

    fn execute_plan(
        &mut self,
        portal: &mut Portal,
        (name, plan): (&str, &mut Arc<kilndb_plan::Plan>),
        max_rows: Option<u64>,
        runtime: &dyn Runtime,
        client: &mut dyn Client,
    ) -> Result<()> {
        self.context.refuse_if_failed()?;
        self.context.begin_statement(runtime)?;
        self.note_command(plan.command, runtime);
        let (mut execution, snapshot) = match std::mem::replace(&mut portal.state, PortalState::Finished) {
            PortalState::Ready { version } => {
                if let Some(again) = self
                    .context
                    .lock_or_replan(plan, version, runtime, |context| portal.plan_again(context, runtime))?
                {
                    *plan = again;
                }
                (None, self.context.take_snapshot(runtime)?)
            }
            PortalState::Running { execution, snapshot } => (Some(execution), snapshot),
            PortalState::Kept(_) | PortalState::Finished => {
                if row_columns(plan).is_none() {
                    return Err(spent_portal(name));
                }
                client.command_complete(&command_tag(plan, 0));
                return Ok(());
            }
        };
        let sink = SinkMaker::Client { client, formats: &portal.result_formats };
        let run = PlanRun::part(plan, &portal.params, snapshot.clone(), max_rows);
        let progress = self.advance(run, &mut execution, runtime, sink)?;
        self.note_duration(plan, runtime);
        self.send_notices(client);
        if progress.finished {
            client.command_complete(&command_tag(plan, progress.rows));
        } else {
            client.portal_suspended();
            if let Some(execution) = execution {
                portal.state = PortalState::Running { execution, snapshot };
            }
        }
        Ok(())
    }

    pub fn close_named(&mut self, portal: bool, name: &str) {
        if portal {
            self.statements.portals.remove(name);
        } else {
            self.statements.prepared.remove(name);
        }
    }

    /// End of a pipeline: commits what ran outside of a block.
    pub fn sync(&mut self, runtime: &dyn Runtime, client: &mut dyn Client) -> Result<()> {
        let done = self.finish_implicit(runtime);
        self.send_notices(client);
        self.statement_ended(runtime);
        if done.is_ok() {
            self.log.end();
        }
        done
    }
}

fn describe_rows(columns: Option<&[OutputColumn]>, formats: &[i16], client: &mut dyn Client) {
    match columns {
        Some(columns) => describe(columns, formats, client),
        None => client.no_data(),
    }
}

/// Whether the command does something with parameters of the client. One that would take them for nulls is refused.
fn takes_parameters(node: &Node<'_>) -> Result<bool> {
    let what = match node {
        Node::DeclareCursorStmt(_) | Node::CallStmt(_) => return Ok(true),
        Node::CreateTableAsStmt(_) => "CREATE TABLE AS",
        Node::ExplainStmt(s) if s.options().iter().any(|o| o.defname() == Some("analyze")) => "EXPLAIN ANALYZE",
        _ => return Ok(false),
    };
    Err(Error::unsupported(format!("a client's parameters in {what} are not supported")))
}

/// A command without rows runs but once.
fn spent_portal(name: &str) -> Error {
    Error::new(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, format!("portal \"{name}\" cannot be run"))
}

fn missing_portal(name: &str) -> Error {
    Error::new(sqlstate::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist"))
}

fn decode(prepared: &Prepared, request: &BindRequest<'_>, eval: &EvalContext<'_>) -> Result<Vec<Datum>> {
    let mut params = Vec::with_capacity(request.params.len());
    // The statement looks whether a domain's value belongs to it.
    let under = |ty: u32| {
        let mut base = (ty, -1);
        while let Some(next) = eval.host.under_domain(base.0) {
            base = next;
        }
        base
    };
    for (i, (bytes, type_oid)) in request.params.iter().zip(&prepared.param_types).enumerate() {
        let about = |value: &'static str| move |e: Error| in_parameter(e, request.portal, i, value);
        let given = known_format(request.param_formats, i).and_then(|format| given_value(format, *bytes));
        let (type_oid, typmod) = under(*type_oid);
        params.push(match given.map_err(about(""))? {
            Given::Null => Datum::Null,
            Given::Binary(bytes) => io::receive(type_oid, bytes, typmod, eval).map_err(about(""))?,
            // The value itself is not told: it may be a secret.
            Given::Text(text) => io::input(type_oid, text, typmod, eval).map_err(about(" = '...'"))?,
        });
    }
    Ok(params)
}

/// A parameter as it came.
pub(super) enum Given<'a> {
    Null,
    Text(&'a str),
    Binary(&'a [u8]),
}

pub(super) fn given_value(format: Format, bytes: Option<&[u8]>) -> Result<Given<'_>> {
    let invalid = |message: &str| Err(Error::new(sqlstate::CHARACTER_NOT_IN_REPERTOIRE, message));
    match (format, bytes) {
        (_, None) => Ok(Given::Null),
        (Format::Binary, Some(bytes)) => Ok(Given::Binary(bytes)),
        (Format::Text, Some(bytes)) => match std::str::from_utf8(bytes) {
            Ok(text) if text.contains('\0') => invalid("invalid byte sequence for encoding \"UTF8\": 0x00"),
            Ok(text) => Ok(Given::Text(text)),
            Err(_) => invalid("invalid byte sequence for encoding \"UTF8\""),
        },
    }
}

/// Says which parameter an error is about.
fn in_parameter(mut e: Error, portal: &str, index: usize, value: &str) -> Error {
    let whose = if portal.is_empty() { "unnamed portal".to_string() } else { format!("portal \"{portal}\"") };
    e.add_context(&format!("{whose} parameter ${}{value}", index + 1));
    e
}
