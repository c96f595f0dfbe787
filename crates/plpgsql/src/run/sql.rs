//! Statements of SQL, static and made at run time, and loops over their rows.

use super::{Flow, Run};
use crate::tree::*;
use kilndb_base::{Error, Oid, Result, Severity, SqlState, sqlstate};
use kilndb_sql::routine::RowSink;
use kilndb_sql::routine::{Command, Direction as FetchDirection, Outcome, Scroll as SpiScroll, TupleDescriptor};
use kilndb_types::Datum;
use std::sync::Arc;

const NO_DATA_FOUND: SqlState = SqlState::new("P0002");
const TOO_MANY_ROWS: SqlState = SqlState::new("P0003");

/// Rows that are fetched at a time by a loop, first and later.
const FIRST_ROWS: i64 = 10;
const MORE_ROWS: i64 = 50;

/// A sink that keeps the rows which it is given.
#[derive(Default)]
pub(crate) struct RowBuffer {
    pub rows: Vec<Vec<Datum>>,
}

impl RowSink for RowBuffer {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        self.rows.push(values.to_vec());
        Ok(())
    }
}

/// Keeps the first row, in room that is used again.
#[derive(Default)]
pub(crate) struct FirstRow {
    pub values: Vec<Datum>,
    pub count: u64,
}

impl RowSink for FirstRow {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        if self.count == 0 {
            self.values.clear();
            self.values.extend_from_slice(values);
        }
        self.count += 1;
        Ok(())
    }
}

struct Nowhere;

impl RowSink for Nowhere {
    fn row(&mut self, _values: &[Datum]) -> Result<()> {
        Ok(())
    }
}

fn unsupported_destination(text: &str) -> Error {
    let e = Error::new(sqlstate::SYNTAX_ERROR, "query has no destination for result data");
    if text.is_empty() {
        e
    } else {
        e.with_hint("If you want to discard the results of a SELECT, use PERFORM instead.")
    }
}

fn may_change(text: &str) -> bool {
    let text = text.trim_start();
    let word = text.find(|c: char| !c.is_ascii_alphabetic()).and_then(|end| text.get(..end)).unwrap_or(text);
    !["select", "values", "table"].iter().any(|reads| word.eq_ignore_ascii_case(reads))
}

impl<'r> Run<'r, '_> {
    pub(crate) fn execute_sql(&mut self, query: &'r Expr, into: Option<IntoClause>) -> Result<()> {
        let prepared = self.prepared(query)?;
        let Some(into) = into else {
            self.going_out(Some(&query.text));
            let outcome = self.spi.run(&prepared, &self.vars.scope(query.place), 0, &mut Nowhere)?;
            self.note(&outcome);
            if outcome.row.is_some() && outcome.command != Command::Call {
                return Err(unsupported_destination(if outcome.command == Command::Select { "SELECT" } else { "" }));
            }
            return Ok(());
        };
        let (warn, refuse) = if into.strict { Default::default() } else { self.extra_checks() };
        let strictly = into.strict || warn.too_many_rows || refuse.too_many_rows || may_change(&query.text);
        let mut first = FirstRow { values: std::mem::take(&mut self.row_room), count: 0 };
        self.going_out(Some(&query.text));
        let outcome =
            self.spi.run(&prepared, &self.vars.scope(query.place), if strictly { 2 } else { 1 }, &mut first)?;
        self.note(&outcome);
        let Some(shape) = outcome.row else {
            return Err(Error::new(sqlstate::SYNTAX_ERROR, "INTO used with a command that cannot return data"));
        };
        if first.count > 1 {
            let changes =
                matches!(outcome.command, Command::Insert | Command::Update | Command::Delete | Command::Merge);
            if into.strict || changes || refuse.too_many_rows || warn.too_many_rows {
                let e = self.too_many(query).with_hint("Make sure the query returns a single row, or use LIMIT 1.");
                if into.strict || changes || refuse.too_many_rows {
                    return Err(e);
                }
                self.notice(e.with_severity(Severity::Warning))?;
            }
        }
        if first.count == 0 && into.strict {
            return Err(self.with_parameters(Error::new(NO_DATA_FOUND, "query returned no rows"), query));
        }
        let row = (first.count > 0).then_some(first.values.as_slice());
        self.assign_row(into.target, &shape, row)?;
        self.row_room = first.values;
        Ok(())
    }

    /// FOUND and the number of rows.
    fn note(&mut self, outcome: &Outcome) {
        self.row_count = outcome.processed;
        if !matches!(outcome.command, Command::Utility | Command::SelectInto | Command::Call) {
            self.set_found(outcome.processed != 0);
        }
    }

    fn too_many(&mut self, query: &'r Expr) -> Error {
        self.with_parameters(Error::new(TOO_MANY_ROWS, "query returned more than one row"), query)
    }

    /// print_strict_params: the values of the variables in the query.
    fn with_parameters(&mut self, e: Error, query: &'r Expr) -> Error {
        if !self.routine.print_strict_params {
            return e;
        }
        let scope = self.vars.scope(query.place);
        if self.spi.prepare(&query.text, crate::compile::spi_mode(query.mode), &scope).is_err() {
            return e;
        }
        let used = scope.used.take();
        let mut shown = Vec::new();
        for slot in used {
            let name = match self.vars.variable(slot) {
                Ok(Variable::Scalar(v)) => v.name.clone(),
                Ok(Variable::Record(r)) => r.name.clone(),
                Ok(Variable::Field { name, .. }) => name.clone(),
                _ => continue,
            };
            let (Ok(value), Ok((oid, _))) = (self.vars.get(slot), self.vars.type_of(slot)) else { continue };
            shown.push((name, value, oid));
        }
        self.parameters_detail(e, &shown)
    }

    fn parameters_detail(&mut self, e: Error, values: &[(String, Datum, Oid)]) -> Error {
        let shown: Vec<String> = values
            .iter()
            .map(|(name, value, oid)| match value {
                Datum::Null => format!("{name} = NULL"),
                value => format!("{name} = '{}'", self.spi.output(value, *oid).unwrap_or_default().replace('\'', "''")),
            })
            .collect();
        if shown.is_empty() { e } else { e.with_detail(format!("parameters: {}", shown.join(", "))) }
    }

    /// The text of EXECUTE, and the values of USING.
    pub(crate) fn dynamic_query(&mut self, query: &'r Expr, params: &'r [Expr]) -> Result<(String, Vec<(Oid, Datum)>)> {
        let Some(text) = self.text(query)? else {
            return Err(Error::new(sqlstate::NULL_VALUE_NOT_ALLOWED, "query string argument of EXECUTE is null"));
        };
        let mut values = Vec::with_capacity(params.len());
        for expr in params {
            let typed = self.evaluate(expr)?;
            values.push((typed.oid, typed.value));
        }
        Ok((text, values))
    }

    pub(crate) fn dynamic(&mut self, query: &'r Expr, into: Option<IntoClause>, params: &'r [Expr]) -> Result<()> {
        let (text, values) = self.dynamic_query(query, params)?;
        let mut first = FirstRow { values: std::mem::take(&mut self.row_room), count: 0 };
        self.going_out(Some(&Arc::from(text.as_str())));
        let outcome = self.spi.execute(&text, &values, 0, &mut first)?;
        if outcome.command == Command::SelectInto && is_select_into(&text) {
            return Err(Error::unsupported("EXECUTE of SELECT ... INTO is not implemented")
                .with_hint("You might want to use EXECUTE ... INTO or EXECUTE CREATE TABLE ... AS instead."));
        }
        self.row_count = outcome.processed;
        let Some(into) = into else {
            self.row_room = first.values;
            return Ok(());
        };
        let Some(shape) = outcome.row else {
            return Err(Error::new(sqlstate::SYNTAX_ERROR, "INTO used with a command that cannot return data"));
        };
        if into.strict && first.count != 1 {
            let (state, message) = if first.count == 0 {
                (NO_DATA_FOUND, "query returned no rows")
            } else {
                (TOO_MANY_ROWS, "query returned more than one row")
            };
            let e = Error::new(state, message);
            if !self.routine.print_strict_params {
                return Err(e);
            }
            let shown: Vec<(String, Datum, Oid)> =
                values.into_iter().enumerate().map(|(i, (oid, value))| (format!("${}", i + 1), value, oid)).collect();
            return Err(self.parameters_detail(e, &shown));
        }
        let row = (first.count > 0).then_some(first.values.as_slice());
        self.assign_row(into.target, &shape, row)?;
        self.row_room = first.values;
        Ok(())
    }

    pub(crate) fn perform(&mut self, query: &'r Expr) -> Result<()> {
        let prepared = self.prepared(query)?;
        self.going_out(Some(&query.text));
        let outcome = self.spi.run(&prepared, &self.vars.scope(query.place), 0, &mut Nowhere)?;
        self.row_count = outcome.processed;
        self.set_found(outcome.processed != 0);
        Ok(())
    }

    /// CALL and DO. A procedure's output goes to the variables that were given for it.
    pub(crate) fn call_statement(&mut self, query: &'r Expr, is_call: bool) -> Result<()> {
        let prepared = self.prepared(query)?;
        let slots = if is_call { self.output_slots(query, &prepared)? } else { Vec::new() };
        let mut first = FirstRow::default();
        self.going_out(Some(&query.text));
        let outcome = self.spi.run(&prepared, &self.vars.scope(query.place), 0, &mut first)?;
        self.row_count = outcome.processed;
        if let (Some(shape), true) = (&outcome.row, first.count > 0) {
            self.take_outputs(&slots, shape, &first.values)?;
        }
        Ok(())
    }

    // Loops over rows.

    pub(crate) fn for_query(
        &mut self,
        label: Option<&'r str>,
        target: Slot,
        query: &'r Expr,
        body: &'r [Stmt],
    ) -> Result<Flow> {
        let prepared = self.prepared(query)?;
        let name = self.spi.open_cursor(None, &prepared, &self.vars.scope(query.place), SpiScroll::NoScroll)?;
        let flow = self.for_rows(label, target, &name, body, true);
        // Whoever catches an error finds no cursor of ours.
        let closed = self.spi.close_cursor(&name);
        flow.and_then(|flow| closed.map(|()| flow))
    }

    pub(crate) fn for_dynamic(
        &mut self,
        label: Option<&'r str>,
        target: Slot,
        query: &'r Expr,
        params: &'r [Expr],
        body: &'r [Stmt],
    ) -> Result<Flow> {
        let (text, values) = self.dynamic_query(query, params)?;
        let name = self.spi.open_cursor_on_text(None, &text, &values, SpiScroll::NoScroll)?;
        let flow = self.for_rows(label, target, &name, body, true);
        // Whoever catches an error finds no cursor of ours.
        let closed = self.spi.close_cursor(&name);
        flow.and_then(|flow| closed.map(|()| flow))
    }

    /// Runs the body for each row of an open cursor.
    pub(crate) fn for_rows(
        &mut self,
        label: Option<&'r str>,
        target: Slot,
        name: &str,
        body: &'r [Stmt],
        ahead: bool,
    ) -> Result<Flow> {
        let shape = self.spi.cursor_row(name)?;
        let (mut found, mut result) = (false, Flow::Next);
        let mut wanted = if ahead { FIRST_ROWS } else { 1 };
        'rows: loop {
            let mut kept = RowBuffer::default();
            self.going_out(None);
            let count = self.spi.fetch(name, FetchDirection::Forward(wanted), false, &mut kept)?;
            if count == 0 {
                break;
            }
            for row in &kept.rows {
                found = true;
                self.assign_row(target, &shape, Some(row))?;
                if let Some(flow) = self.once(label, body)? {
                    result = flow;
                    break 'rows;
                }
            }
            if (count as i64) < wanted {
                break;
            }
            wanted = if ahead { MORE_ROWS } else { 1 };
        }
        if !found {
            self.assign_row(target, &shape, None)?;
        }
        self.set_found(found);
        Ok(result)
    }

    pub(crate) fn rows_of(&mut self, query: &'r Expr, limit: u64) -> Result<(Option<Arc<TupleDescriptor>>, FirstRow)> {
        let prepared = self.prepared(query)?;
        let mut first = FirstRow::default();
        self.going_out(Some(&query.text));
        let outcome = self.spi.run(&prepared, &self.vars.scope(query.place), limit, &mut first)?;
        Ok((outcome.row, first))
    }
}

fn is_select_into(text: &str) -> bool {
    !text.trim_start().get(..6).is_some_and(|w| w.eq_ignore_ascii_case("create"))
}
