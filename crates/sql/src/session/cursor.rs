//! SQL cursors: DECLARE, FETCH, MOVE, CLOSE.
//!
//! A cursor's rows are produced as they are asked for; what has been fetched is kept only if the cursor may go back
//! (SCROLL) or outlive its transaction (WITH HOLD, materialised at commit), beyond work_mem in a temporary file.

use super::Session;
use super::command::is_plannable;
use super::portal::{Portal, PortalState};
use super::prepared::Prepared;
use super::run::{PlanRun, SinkMaker};
use crate::client::{Client, Runtime};
use crate::context::SessionContext;
use crate::host::NullSink;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_exec::RowSink;
use kilndb_plan::Plan;
use kilndb_spill::{RowStore, SpillIo, StoreCursor};
use kilndb_storage::Snapshot;
use kilndb_syntax::raw::FetchDirection as F;
use kilndb_syntax::{Statement, nodes};
use kilndb_types::Datum;
use std::sync::Arc;

const CURSOR_OPT_BINARY: i32 = 0x0001;
const CURSOR_OPT_SCROLL: i32 = 0x0002;
const CURSOR_OPT_NO_SCROLL: i32 = 0x0004;
const CURSOR_OPT_HOLD: i32 = 0x0020;

pub(crate) struct CursorInfo {
    pub hold: bool,
    pub scroll: bool,
    /// BINARY: so it answers a FETCH that does not say how.
    pub binary: bool,
    /// Rows fetched so far (all of them, once `complete`), the first `passed` ones left out: a routine has had them.
    pub rows: RowStore,
    pub passed: usize,
    /// Opened by a routine, which goes on with it after a COMMIT.
    pub of_routine: bool,
    /// 0: before the first row; n: on row n; rows.len() + 1: after the last.
    pub position: usize,
    pub complete: bool,
    /// The last row that was passed on without being kept.
    pub last: Vec<Datum>,
}

/// Keeps rows for later.
struct StoreSink<'a> {
    rows: &'a mut RowStore,
    io: SpillIo<'a>,
}
impl RowSink for StoreSink<'_> {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        self.rows.push(values, self.io)
    }
}

/// Hands columns on and keeps what is behind those of the last row.
struct PassingSink<'a> {
    sink: &'a mut dyn RowSink,
    columns: usize,
    last: Option<&'a mut Vec<Datum>>,
}
impl RowSink for PassingSink<'_> {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        let (shown, hidden) = values.split_at(self.columns.min(values.len()));
        if let Some(last) = &mut self.last {
            last.clear();
            last.extend_from_slice(hidden);
        }
        self.sink.row(shown)
    }
}

impl CursorInfo {
    pub fn is_held(&self) -> bool {
        self.hold && self.complete
    }
    /// Rows fetched so far.
    pub fn fetched(&self) -> usize {
        self.passed + self.rows.len()
    }
}

pub(super) fn missing(name: &str) -> Error {
    Error::new(sqlstate::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist"))
}

/// What a cursor's rows come from.
fn cursor_query(s: &nodes::DeclareCursorStmt) -> Result<Statement> {
    let text = kilndb_syntax::statement_sql(s.query())?;
    let query = kilndb_syntax::parse(&text)?.statements().pop();
    query
        .filter(|query| is_plannable(&query.node()))
        .ok_or_else(|| Error::new(sqlstate::INVALID_CURSOR_DEFINITION, "DECLARE CURSOR must specify a SELECT"))
}

impl Session {
    pub(super) fn declare_cursor(
        &mut self,
        s: &nodes::DeclareCursorStmt,
        statement: &Statement,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let name = s.portalname().unwrap_or("");
        let hold = s.options & CURSOR_OPT_HOLD != 0;
        if hold {
            self.context.refuse_in_restricted_operation("create a cursor WITH HOLD")?;
        }
        if !hold && !self.context.lives_longer_than_statement() {
            return Err(Error::new(
                sqlstate::NO_ACTIVE_SQL_TRANSACTION,
                "DECLARE CURSOR can only be used in transaction blocks",
            ));
        }
        if self.statements.portals.contains(name) {
            return Err(Error::new(sqlstate::DUPLICATE_CURSOR, format!("cursor \"{name}\" already exists")));
        }
        self.context.begin_statement(runtime)?;
        let inner = cursor_query(s)?;
        let (types, params): (Vec<Oid>, Vec<Datum>) = std::mem::take(&mut self.utility_parameters).into_iter().unzip();
        let (prepared, plan) = self.plan_cursor(statement, &inner, &types, runtime)?;
        if plan.param_types.len() > params.len() {
            let message = format!("there is no parameter ${}", params.len() + 1);
            return Err(Error::new(sqlstate::UNDEFINED_PARAMETER, message));
        }
        let snapshot = self.context.take_snapshot(runtime)?;
        let execution = self.start_execution(&plan, &params, snapshot.clone(), runtime)?;
        let scroll = s.options & CURSOR_OPT_NO_SCROLL == 0 && (s.options & CURSOR_OPT_SCROLL != 0 || plan.is_read_only);
        let rows = RowStore::new(plan.row_width(), self.context.settings.work_mem_bytes as usize);
        let mut portal = Portal {
            prepared,
            params,
            result_formats: Vec::new(),
            plan: Some(plan),
            columns: None,
            state: PortalState::Running { execution, snapshot },
            cursor: Some(CursorInfo {
                hold,
                scroll,
                binary: s.options & CURSOR_OPT_BINARY != 0,
                rows,
                passed: 0,
                of_routine: false,
                position: 0,
                complete: false,
                last: Vec::new(),
            }),
            level: self.context.transaction.savepoints.len(),
            statement_name: None,
        };
        if hold {
            self.fill(&mut portal, usize::MAX, runtime)?;
        }
        self.statements.portals.insert(name, portal);
        Ok("DECLARE CURSOR".to_string())
    }

    /// The types of the parameters in a cursor's query, those that the client leaves open as the query wants them.
    pub(super) fn cursor_parameters(
        &mut self,
        s: &nodes::DeclareCursorStmt,
        declared_types: &[Oid],
        runtime: &dyn Runtime,
    ) -> Result<Vec<Oid>> {
        let query = Prepared::of_cursor("", cursor_query(s)?, declared_types, self.context.now());
        Ok(query.planned_in(&mut self.context, runtime)?.param_types)
    }

    /// With its tables locked.
    fn plan_cursor(
        &mut self,
        statement: &Statement,
        inner: &Statement,
        types: &[Oid],
        runtime: &dyn Runtime,
    ) -> Result<(Arc<Prepared>, Arc<Plan>)> {
        let context = &mut self.context;
        let version = context.database.version();
        let planned = |context: &mut SessionContext| {
            let prepared = Prepared::of_cursor(statement.text(), inner.clone(), types, context.now());
            prepared.planned_in(context, runtime).map(Arc::new)
        };
        let mut prepared = planned(context)?;
        let plan = prepared.plan_in(context, runtime)?;
        let again = context.lock_or_replan(&plan, version, runtime, |context| {
            // Nobody has been told yet which columns it has.
            prepared = planned(context)?;
            prepared.plan_in(context, runtime)
        })?;
        Ok((prepared, again.unwrap_or(plan)))
    }

    fn start_execution(
        &mut self,
        plan: &std::sync::Arc<kilndb_plan::Plan>,
        params: &[Datum],
        snapshot: kilndb_storage::Snapshot,
        runtime: &dyn Runtime,
    ) -> Result<Box<kilndb_exec::Execution>> {
        let mut execution = None;
        let mut sink = NullSink;
        let run = PlanRun::part(plan, params, snapshot, Some(0));
        self.advance(run, &mut execution, runtime, SinkMaker::Sink(&mut sink))?;
        execution.ok_or_else(|| Error::internal("an execution vanished"))
    }

    /// Has at least `count` rows fetched, if there are as many.
    fn fill(&mut self, portal: &mut Portal, count: usize, runtime: &dyn Runtime) -> Result<()> {
        let (Some(cursor), Some(plan)) = (&mut portal.cursor, &portal.plan) else { return Ok(()) };
        if cursor.complete || cursor.fetched() >= count {
            return Ok(());
        }
        let PortalState::Running { execution, snapshot } = std::mem::replace(&mut portal.state, PortalState::Finished)
        else {
            cursor.complete = true;
            return Ok(());
        };
        let want = if count == usize::MAX { None } else { Some((count - cursor.fetched()) as u64) };
        let shared = self.context.shared.clone();
        let mut sink = StoreSink { rows: &mut cursor.rows, io: SpillIo { space: &shared.temp_space, park: runtime } };
        let mut running = Some(execution);
        let plan = plan.clone();
        let run = PlanRun::part(&plan, &portal.params, snapshot.clone(), want);
        let progress = self.advance(run, &mut running, runtime, SinkMaker::Sink(&mut sink))?;
        cursor.complete = progress.finished;
        if let (false, Some(execution)) = (progress.finished, running) {
            portal.state = PortalState::Running { execution, snapshot };
        }
        Ok(())
    }

    pub(super) fn fetch_command(
        &mut self,
        s: &nodes::FetchStmt,
        runtime: &dyn Runtime,
        client: &mut dyn Client,
    ) -> Result<String> {
        let name = s.portalname().unwrap_or("");
        let mut portal = self.statements.portals.remove(name).ok_or_else(|| missing(name))?;
        self.context.begin_statement(runtime)?;
        if portal.cursor.is_none() {
            self.make_cursor(name, &mut portal, runtime)?;
        }
        let range = self.move_cursor(&mut portal, s.direction, s.how_many, runtime);
        let sent = range.and_then(|range| {
            if !s.ismove {
                self.send_cursor_rows(&portal, &range, runtime, client)?;
            }
            Ok(range.len())
        });
        self.statements.portals.insert(name, portal);
        let verb = if s.ismove { "MOVE" } else { "FETCH" };
        sent.map(|count| format!("{verb} {count}"))
    }

    /// A portal that a Bind has opened becomes a cursor that goes on with the rows that it has yet to give.
    fn make_cursor(&mut self, name: &str, portal: &mut Portal, runtime: &dyn Runtime) -> Result<()> {
        let Some(mut plan) = portal.plan.clone().filter(|plan| plan.command == "SELECT") else {
            return Err(missing(name));
        };
        if let PortalState::Ready { version } = portal.state {
            if let Some(again) =
                self.context.lock_or_replan(&plan, version, runtime, |context| portal.plan_again(context, runtime))?
            {
                plan = again;
            }
            let snapshot = self.context.take_snapshot(runtime)?;
            let mut execution = None;
            let nowhere = SinkMaker::Sink(&mut NullSink);
            let run = PlanRun::part(&plan, &portal.params, snapshot.clone(), Some(0));
            self.advance(run, &mut execution, runtime, nowhere)?;
            let execution = execution.ok_or_else(|| Error::internal("an execution vanished"))?;
            portal.state = PortalState::Running { execution, snapshot };
        }
        portal.cursor = Some(CursorInfo {
            hold: false,
            scroll: false,
            binary: false,
            rows: RowStore::new(plan.row_width(), self.context.settings.work_mem_bytes as usize),
            passed: 0,
            of_routine: false,
            position: 0,
            complete: false,
            last: Vec::new(),
        });
        portal.plan = Some(plan);
        Ok(())
    }

    /// Moves the cursor and returns the rows passed over, as indexes in the order they are shown.
    fn move_cursor(
        &mut self,
        portal: &mut Portal,
        direction: u32,
        how_many: i64,
        runtime: &dyn Runtime,
    ) -> Result<Vec<usize>> {
        const ALL: i64 = i64::MAX;
        let (backward, count) = match (direction, how_many) {
            (F::FETCH_FORWARD, n) if n < 0 => (true, -n),
            (F::FETCH_BACKWARD, n) if n < 0 => (false, -n),
            (F::FETCH_BACKWARD, n) => (true, n),
            (F::FETCH_ABSOLUTE | F::FETCH_RELATIVE, _) => return self.move_to(portal, direction, how_many, runtime),
            (_, n) => (false, n),
        };
        let position = portal.cursor.as_ref().map_or(0, |c| c.position);
        if backward {
            let Some(cursor) = &mut portal.cursor else { return Ok(Vec::new()) };
            if !cursor.scroll {
                return Err(Error::new(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, "cursor can only scan forward")
                    .with_hint("Declare it with SCROLL option to enable backward scan."));
            }
            let wanted = if count == ALL { usize::MAX } else { count as usize };
            let available = position.saturating_sub(1 + cursor.passed);
            let taken = wanted.min(available);
            let range = (0..taken).map(|i| position - 2 - i).collect();
            cursor.position = if wanted > available { 0 } else { position - taken };
            return Ok(range);
        }
        if count == 0 {
            let on_row = portal.cursor.as_ref().is_some_and(|c| position >= 1 && position <= c.fetched());
            return Ok(if on_row { vec![position - 1] } else { Vec::new() });
        }
        let end = if count == ALL { usize::MAX } else { position.saturating_add(count as usize) };
        self.fill(portal, end, runtime)?;
        let Some(cursor) = &mut portal.cursor else { return Ok(Vec::new()) };
        let last = end.min(cursor.fetched());
        cursor.position = if end > cursor.fetched() { cursor.fetched() + 1 } else { end };
        Ok((position.min(last)..last).collect())
    }

    fn move_to(
        &mut self,
        portal: &mut Portal,
        direction: u32,
        how_many: i64,
        runtime: &dyn Runtime,
    ) -> Result<Vec<usize>> {
        let position = portal.cursor.as_ref().map_or(0, |c| c.position) as i64;
        let target = if direction == F::FETCH_RELATIVE {
            position.saturating_add(how_many)
        } else if how_many < 0 {
            self.fill(portal, usize::MAX, runtime)?;
            portal.cursor.as_ref().map_or(0, |c| c.fetched()) as i64 + 1 + how_many
        } else {
            how_many
        };
        let target = target.max(0) as usize;
        self.fill(portal, target, runtime)?;
        let Some(cursor) = &mut portal.cursor else { return Ok(Vec::new()) };
        if (target as i64) < position && !cursor.scroll {
            return Err(Error::new(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, "cursor can only scan forward")
                .with_hint("Declare it with SCROLL option to enable backward scan."));
        }
        cursor.position = target.min(cursor.fetched() + 1);
        let on_row = target >= 1 && target <= cursor.fetched();
        Ok(if on_row { vec![target - 1] } else { Vec::new() })
    }

    fn send_cursor_rows(
        &mut self,
        portal: &Portal,
        range: &[usize],
        runtime: &dyn Runtime,
        client: &mut dyn Client,
    ) -> Result<()> {
        let (Some(cursor), Some(plan)) = (&portal.cursor, &portal.plan) else { return Ok(()) };
        let own: &[i16] = if cursor.binary { &[1] } else { &[] };
        let formats = self.begin_rows(&plan.columns, own, client);
        let environment = self.context.environment(runtime)?;
        let host = environment.host();
        let mut sink = super::run::ClientSink { client, columns: &plan.columns, formats: &formats, eval: host.eval() };
        let io = SpillIo { space: &self.context.database.temp, park: runtime };
        let mut reader = StoreCursor::default();
        for (passed, index) in range.iter().enumerate() {
            if passed % 1024 == 0 {
                runtime.checkpoint()?;
            }
            sink.row(cursor.rows.row(index - cursor.passed, &mut reader, io)?)?;
        }
        Ok(())
    }

    pub(crate) fn close_cursor(&mut self, name: Option<&str>) -> Result<String> {
        match name {
            None => {
                self.statements.portals.retain(|p| p.cursor.is_none());
                Ok("CLOSE CURSOR ALL".to_string())
            }
            Some(name) => {
                self.statements.portals.remove(name).ok_or_else(|| missing(name))?;
                Ok("CLOSE CURSOR".to_string())
            }
        }
    }
}

/// A cursor that a routine opens.
pub(crate) struct NewCursor<'a> {
    /// None: one is made up.
    pub name: Option<&'a str>,
    /// Of the query.
    pub text: &'a str,
    pub plan: Arc<Plan>,
    pub params: Vec<Datum>,
    pub snapshot: Snapshot,
    /// None: backwards if that costs nothing.
    pub scroll: Option<bool>,
}

/// Cursors of routines.
impl Session {
    /// Opens a cursor on a plan, whose tables are locked. Returns its name.
    pub(crate) fn open_cursor(&mut self, new: NewCursor<'_>, runtime: &dyn Runtime) -> Result<String> {
        let NewCursor { name, text, plan, params, snapshot, scroll } = new;
        if name.is_some_and(|name| self.statements.portals.contains(name)) {
            let name = name.unwrap_or_default();
            return Err(Error::new(sqlstate::DUPLICATE_CURSOR, format!("cursor \"{name}\" already in use")));
        }
        let name = match name {
            Some(name) => name.to_string(),
            None => loop {
                self.unnamed_portals += 1;
                let name = format!("<unnamed portal {}>", self.unnamed_portals);
                if !self.statements.portals.contains(&name) {
                    break name;
                }
            },
        };
        let mut execution = None;
        let run = PlanRun::part(&plan, &params, snapshot.clone(), Some(0));
        self.advance(run, &mut execution, runtime, SinkMaker::Sink(&mut NullSink))?;
        let execution = execution.ok_or_else(|| Error::internal("an execution vanished"))?;
        let prepared = Arc::new(Prepared::of_text(text, self.context.now()));
        let rows = RowStore::new(plan.row_width(), self.context.settings.work_mem_bytes as usize);
        let scroll = scroll.unwrap_or(plan.is_read_only);
        let portal = Portal {
            prepared,
            params,
            result_formats: Vec::new(),
            plan: Some(plan),
            columns: None,
            state: PortalState::Running { execution, snapshot },
            cursor: Some(CursorInfo {
                hold: false,
                scroll,
                binary: false,
                rows,
                passed: 0,
                of_routine: true,
                position: 0,
                complete: false,
                last: Vec::new(),
            }),
            level: self.context.transaction.savepoints.len(),
            statement_name: None,
        };
        self.statements.portals.insert(&name, portal);
        Ok(name)
    }

    pub(crate) fn cursor_plan(&self, name: &str) -> Result<Arc<Plan>> {
        let known = self.statements.portals.with(name, |p| p.plan.clone().filter(|_| p.cursor.is_some()));
        known.flatten().ok_or_else(|| missing(name))
    }

    /// FETCH and MOVE into a sink. Rows of a cursor that only goes forward are not kept.
    pub(crate) fn fetch_into(
        &mut self,
        name: &str,
        direction: u32,
        how_many: i64,
        sink: Option<&mut dyn RowSink>,
        runtime: &dyn Runtime,
    ) -> Result<u64> {
        let mut portal = self.statements.portals.remove(name).ok_or_else(|| missing(name))?;
        let done = self.fetch_from(&mut portal, name, direction, how_many, sink, runtime);
        self.statements.portals.insert(name, portal);
        done
    }

    fn fetch_from(
        &mut self,
        portal: &mut Portal,
        name: &str,
        direction: u32,
        how_many: i64,
        sink: Option<&mut dyn RowSink>,
        runtime: &dyn Runtime,
    ) -> Result<u64> {
        let Some(cursor) = &portal.cursor else { return Err(missing(name)) };
        let forward = direction == F::FETCH_FORWARD && how_many > 0;
        if forward
            && cursor.of_routine
            && !cursor.scroll
            && !cursor.hold
            && cursor.rows.is_empty()
            && cursor.position == cursor.passed
        {
            return self.pass_on(portal, how_many, sink, runtime);
        }
        let range = self.move_cursor(portal, direction, how_many, runtime)?;
        let (Some(cursor), Some(sink)) = (&portal.cursor, sink) else { return Ok(range.len() as u64) };
        let columns = portal.plan.as_ref().map_or(0, |p| p.columns.len());
        let database = self.context.database.clone();
        let io = SpillIo { space: &database.temp, park: runtime };
        let mut reader = StoreCursor::default();
        for index in &range {
            let at = index.checked_sub(cursor.passed).ok_or_else(|| {
                Error::new(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, "cursor can only scan forward")
                    .with_hint("Declare it with SCROLL option to enable backward scan.")
            })?;
            let row = cursor.rows.row(at, &mut reader, io)?;
            sink.row(row.get(..columns).unwrap_or(row))?;
        }
        Ok(range.len() as u64)
    }

    fn pass_on(
        &mut self,
        portal: &mut Portal,
        how_many: i64,
        sink: Option<&mut dyn RowSink>,
        runtime: &dyn Runtime,
    ) -> Result<u64> {
        let (Some(cursor), Some(plan)) = (&mut portal.cursor, portal.plan.clone()) else { return Ok(0) };
        let PortalState::Running { execution, snapshot } = std::mem::replace(&mut portal.state, PortalState::Finished)
        else {
            return Ok(0);
        };
        let want = (how_many != i64::MAX).then_some(how_many as u64);
        let (mut nowhere, mut running) = (NullSink, Some(execution));
        let sink = sink.unwrap_or(&mut nowhere);
        let mut kept = Vec::new();
        let mut passing = PassingSink {
            sink,
            columns: plan.columns.len(),
            last: if plan.places.is_empty() { None } else { Some(&mut kept) },
        };
        let run = PlanRun::part(&plan, &portal.params, snapshot.clone(), want);
        let progress = self.advance(run, &mut running, runtime, SinkMaker::Sink(&mut passing))?;
        cursor.last = kept;
        cursor.position += progress.rows as usize;
        cursor.passed = cursor.position;
        cursor.complete = progress.finished;
        if let (false, Some(execution)) = (progress.finished, running) {
            portal.state = PortalState::Running { execution, snapshot };
        } else {
            cursor.position += 1;
        }
        Ok(progress.rows)
    }

    /// Before a COMMIT or ROLLBACK of a procedure: its cursors go on with the rows that they have yet to give.
    pub(crate) fn hold_cursors_of_routines(&mut self, runtime: &dyn Runtime) -> Result<()> {
        let mut names = Vec::new();
        self.statements.portals.for_named(|name, p| {
            if p.cursor.as_ref().is_some_and(|c| c.of_routine && !c.is_held()) {
                names.push(name.to_string());
            }
        });
        for name in names {
            let Some(mut portal) = self.statements.portals.remove(&name) else { continue };
            let filled = self.fill(&mut portal, usize::MAX, runtime);
            if let Some(cursor) = &mut portal.cursor {
                (cursor.hold, cursor.complete) = (true, true);
            }
            self.statements.portals.insert(&name, portal);
            filled?;
        }
        Ok(())
    }
}
