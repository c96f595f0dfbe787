//! The extended query protocol: Parse, Bind, Describe, Execute, Close, Sync.

use super::Session;
use super::portal::{Portal, PortalState};
use super::prepared::{Prepared, is_plannable};
use super::run::{SinkMaker, check_parameter_count, command_tag, describe, format_of};
use super::simple::may_run_when_failed;
use crate::client::{Client, Runtime};
use kilndb_base::{Error, Oid, Result, sqlstate};
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
        self.statement_started(sql, runtime);
        let key = self.cache_key(sql, param_types);
        let known = key.as_ref().and_then(|k| self.instance.statements.get(k));
        if let Some(known) = known
            && !self.in_explicit_failure()
            && self.may_take(&known)
            && (name.is_empty() || !self.own.prepared.contains(name))
        {
            self.begin_statement(runtime)?;
            self.own.prepared.insert(name, known);
            return Ok(());
        }
        let script = runtime.parse(sql)?;
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
            self.refuse_if_failed()?;
        }
        if !name.is_empty() && self.own.prepared.contains(name) {
            return Err(Error::new(
                sqlstate::DUPLICATE_PSTATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            ));
        }
        if statement.as_ref().is_some_and(|s| is_plannable(&s.node())) {
            self.begin_statement(runtime)?;
        }
        let prepared = self.prepare_statement(sql, statement, param_types, false, runtime)?;
        self.share(key, &prepared);
        self.own.prepared.insert(name, prepared);
        Ok(())
    }

    pub(crate) fn find_prepared(&mut self, name: &str) -> Result<Arc<Prepared>> {
        self.own.prepared.get(name).ok_or_else(|| {
            let message = if name.is_empty() {
                "unnamed prepared statement does not exist".to_string()
            } else {
                format!("prepared statement \"{name}\" does not exist")
            };
            Error::new(sqlstate::INVALID_SQL_STATEMENT_NAME, message)
        })
    }

    pub fn bind(&mut self, request: &BindRequest<'_>, runtime: &dyn Runtime, _client: &mut dyn Client) -> Result<()> {
        let prepared = self.find_prepared(request.statement)?;
        if !prepared.may_run_when_failed {
            self.refuse_if_failed()?;
        }
        let formats = request.param_formats.len();
        if formats > 1 && formats != request.params.len() {
            return Err(Error::new(
                sqlstate::PROTOCOL_VIOLATION,
                format!("bind message has {formats} parameter formats but {} parameters", request.params.len()),
            ));
        }
        check_parameter_count(request.params.len(), prepared.param_types.len(), request.statement)?;
        if request.param_formats.iter().chain(request.result_formats).any(|f| !(0..=1).contains(f)) {
            return Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, "unsupported format code: 2"));
        }
        if !request.portal.is_empty() && self.own.portals.contains(request.portal) {
            return Err(Error::new(
                sqlstate::DUPLICATE_CURSOR,
                format!("cursor \"{}\" already exists", request.portal),
            ));
        }
        let (mut params, mut plan) = (Vec::new(), None);
        let version = self.database.version();
        if prepared.is_plannable {
            self.begin_statement(runtime)?;
            params = self.decode_params(&prepared, request, runtime)?;
            let planned = self.plan_of(&prepared, runtime)?;
            let count = request.result_formats.len();
            if count > 1 && count != planned.columns.len() {
                return Err(Error::new(
                    sqlstate::PROTOCOL_VIOLATION,
                    format!("bind message has {count} result formats but query has {} columns", planned.columns.len()),
                ));
            }
            if let Some(key) = &planned.key_ahead {
                key.fetch_slot(&params);
            }
            plan = Some(planned);
        }
        let portal = Portal {
            prepared,
            params,
            result_formats: request.result_formats.to_vec(),
            plan,
            state: PortalState::Ready { version },
            cursor: None,
            level: self.savepoints.len(),
        };
        self.own.portals.insert(request.portal, portal);
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
        self.with_value_context(prepared.param_types.iter().copied(), runtime, |eval| decode(prepared, request, eval))
    }

    pub fn describe_statement(&mut self, name: &str, runtime: &dyn Runtime, client: &mut dyn Client) -> Result<()> {
        let prepared = self.find_prepared(name)?;
        if prepared.is_plannable {
            self.refuse_if_failed()?;
            self.begin_statement(runtime)?;
            let plan = self.plan_of(&prepared, runtime)?;
            client.parameter_description(&prepared.param_types);
            if plan.columns.is_empty() && plan.command != "SELECT" {
                client.no_data();
            } else {
                describe(&plan, &[], client);
            }
            return Ok(());
        }
        client.parameter_description(&prepared.param_types);
        self.describe_utility(&prepared, &[], client)
    }

    pub fn describe_portal(&mut self, name: &str, client: &mut dyn Client) -> Result<()> {
        let own = self.own.clone();
        let known = own.portals.with(name, |portal| match &portal.plan {
            Some(plan) if !plan.columns.is_empty() || plan.command == "SELECT" => {
                describe(plan, &portal.result_formats, client);
                Ok(())
            }
            Some(_) => {
                client.no_data();
                Ok(())
            }
            None => self.describe_utility(&portal.prepared, &portal.result_formats, client),
        });
        known.unwrap_or_else(|| Err(missing_portal(name)))
    }

    pub fn execute(
        &mut self,
        name: &str,
        max_rows: Option<u64>,
        runtime: &dyn Runtime,
        client: &mut dyn Client,
    ) -> Result<()> {
        let Some(mut portal) = self.own.portals.remove(name) else { return Err(missing_portal(name)) };
        self.statement_started(&portal.prepared.sql, runtime);
        let mut plan = portal.plan.take();
        let done = match (&portal.prepared.statement, &mut plan) {
            (None, _) => {
                client.empty_query();
                Ok(())
            }
            (Some(_), Some(plan)) => self.execute_plan(&mut portal, plan, max_rows, runtime, client),
            (Some(statement), None) => {
                if !portal.prepared.may_run_when_failed {
                    self.refuse_if_failed()?;
                }
                let alone = !self.in_explicit_block();
                self.utility_formats = portal.result_formats.clone();
                let done = self.run_utility(statement, alone, runtime, client);
                self.utility_formats = Vec::new();
                done.map(|tag| {
                    self.send_notices(client);
                    client.command_complete(&tag);
                })
            }
        };
        portal.plan = plan;
        if done.is_ok() && self.txn.is_some() {
            self.own.portals.insert(name, portal);
        }
        self.send_notices(client);
        done
    }

    fn execute_plan(
        &mut self,
        portal: &mut Portal,
        plan: &mut Arc<crate::plan::Plan>,
        max_rows: Option<u64>,
        runtime: &dyn Runtime,
        client: &mut dyn Client,
    ) -> Result<()> {
        self.refuse_if_failed()?;
        self.begin_statement(runtime)?;
        let (mut execution, snapshot) = match std::mem::replace(&mut portal.state, PortalState::Finished) {
            PortalState::Ready { version } => {
                if !self.lock_plan(plan, version, runtime)? {
                    let again = self.plan_of(&portal.prepared, runtime)?;
                    self.lock_tables(&again, runtime)?;
                    if !plan
                        .columns
                        .iter()
                        .map(|c| (c.type_oid, &c.name))
                        .eq(again.columns.iter().map(|c| (c.type_oid, &c.name)))
                    {
                        return Err(Error::unsupported("cached plan must not change result type"));
                    }
                    *plan = again;
                }
                (None, self.take_snapshot(runtime)?)
            }
            PortalState::Running { execution, snapshot } => (Some(execution), snapshot),
            PortalState::Finished => {
                client.command_complete(&command_tag(plan, 0));
                return Ok(());
            }
        };
        let sink = SinkMaker::Client { client, formats: &portal.result_formats };
        let progress = self.advance(plan, &portal.params, &mut execution, snapshot.clone(), max_rows, runtime, sink)?;
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
            self.own.portals.remove(name);
        } else {
            self.own.prepared.remove(name);
        }
    }

    /// End of a pipeline: commits what ran outside of a block.
    pub fn sync(&mut self, runtime: &dyn Runtime, client: &mut dyn Client) -> Result<()> {
        let done = self.finish_implicit(runtime);
        self.send_notices(client);
        self.statement_ended(runtime);
        done
    }
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
        let (type_oid, typmod) = under(*type_oid);
        params.push(match bytes {
            None => Datum::Null,
            Some(bytes) if format_of(request.param_formats, i) == 1 => io::receive(type_oid, bytes, typmod, eval)?,
            Some(bytes) => {
                let text = std::str::from_utf8(bytes).map_err(|_| {
                    Error::new(sqlstate::CHARACTER_NOT_IN_REPERTOIRE, "invalid byte sequence for encoding \"UTF8\"")
                })?;
                if text.contains('\0') {
                    return Err(Error::new(
                        sqlstate::CHARACTER_NOT_IN_REPERTOIRE,
                        "invalid byte sequence for encoding \"UTF8\": 0x00",
                    ));
                }
                io::input(type_oid, text, typmod, eval)?
            }
        });
    }
    Ok(params)
}
