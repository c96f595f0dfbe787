//! Cursors: portals that live as long as their transaction, found by name from SQL too.

use super::language::TupleDescriptor;
use super::spi::*;
use crate::session::NewCursor;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_exec::RowSink;
use kilndb_syntax::raw::FetchDirection as F;
use kilndb_types::Datum;
use std::sync::Arc;

impl Spi<'_> {
    /// Opens a cursor on a statement that returns rows. `name` None: one is made up (`<unnamed portal 1>`). Returns the
    /// name.
    pub fn open_cursor(
        &mut self,
        name: Option<&str>,
        prepared: &Arc<SpiPrepared>,
        scope: &dyn VariableScope,
        scroll: Scroll,
    ) -> Result<String> {
        let (plan, params) = self.plan_and_values(prepared, scope)?;
        if plan.columns.is_empty() && plan.command != "SELECT" {
            return Err(Error::new(
                sqlstate::INVALID_CURSOR_DEFINITION,
                format!("cannot open {} query as cursor", plan.command),
            ));
        }
        if self.read_only && plan.changes_permanent {
            return Err(super::statement::not_allowed_here(plan.command));
        }
        let scroll = match scroll {
            Scroll::Default => None,
            Scroll::Scroll => Some(true),
            Scroll::NoScroll => Some(false),
        };
        let opened = self.session.context.lock_tables(&plan, self.runtime).and_then(|()| {
            let snapshot = self.statement_snapshot()?;
            let text = prepared.text();
            self.session.open_cursor(NewCursor { name, text, plan, params, snapshot, scroll }, self.runtime)
        });
        opened.map_err(|mut e| {
            if e.sqlstate() != sqlstate::DUPLICATE_CURSOR {
                e.add_context(&prepared.line_of_context());
            }
            e
        })
    }
    pub fn open_cursor_on_text(
        &mut self,
        name: Option<&str>,
        text: &str,
        parameters: &[(Oid, Datum)],
        scroll: Scroll,
    ) -> Result<String> {
        let prepared = self.parse(text, ParseMode::Statement)?;
        if !prepared.is_plannable() && !super::held::is_explained_query(&prepared.statement().node()) {
            return Err(Error::new(
                sqlstate::INVALID_CURSOR_DEFINITION,
                format!("cannot open {} query as cursor", crate::session::tag_of(&prepared.statement().node())),
            ));
        }
        self.open_cursor(name, &prepared, &Parameters(parameters), scroll)
    }
    /// The columns of an open cursor's rows. 34000 if there is no such cursor.
    pub fn cursor_row(&mut self, name: &str) -> Result<Arc<TupleDescriptor>> {
        let plan = self.session.cursor_plan(name)?;
        super::statement::row_of_plan(&plan).ok_or_else(|| Error::internal("a cursor without columns"))
    }
    pub fn has_cursor(&self, name: &str) -> bool {
        self.session.cursor_plan(name).is_ok()
    }
    /// Returns how many rows there were. `is_move`: they go nowhere.
    pub fn fetch(&mut self, name: &str, direction: Direction, is_move: bool, sink: &mut dyn RowSink) -> Result<u64> {
        let (direction, count) = match direction {
            Direction::Forward(n) => (F::FETCH_FORWARD, n),
            Direction::Backward(n) => (F::FETCH_BACKWARD, n),
            Direction::Absolute(n) => (F::FETCH_ABSOLUTE, n),
            Direction::Relative(n) => (F::FETCH_RELATIVE, n),
        };
        self.session.fetch_into(name, direction, count, (!is_move).then_some(sink), self.runtime)
    }
    pub fn close_cursor(&mut self, name: &str) -> Result<()> {
        self.session.close_cursor(Some(name)).map(|_| ())
    }
    pub(super) fn hold_open_cursors(&mut self) -> Result<()> {
        self.session.hold_cursors_of_routines(self.runtime)
    }
}
