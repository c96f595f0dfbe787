//! RETURN in its forms, and what a call gives back.

use super::{Flow, Run, Typed};
use crate::parser::Returns;
use crate::tree::*;
use crate::values::not_assigned;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_sql::routine::RowSink;
use kilndb_sql::routine::{Command, ResultRows, RoutineKind, RowColumn, TupleDescriptor};
use kilndb_types::{Datum, Record, oids};
use std::sync::Arc;

const NO_ROW: &str = "cannot return non-composite value from function returning composite type";

fn mismatch(message: &str) -> Error {
    Error::new(sqlstate::DATATYPE_MISMATCH, message)
}

/// Rows of a query on their way to the caller.
struct Forward<'a> {
    rows: &'a mut dyn ResultRows,
    count: u64,
}

impl RowSink for Forward<'_> {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        self.count += 1;
        self.rows.push(values)
    }
}

impl<'r> Run<'r, '_> {
    pub(crate) fn return_value(&mut self, value: &'r ReturnValue) -> Result<Flow> {
        if self.routine.returns == Returns::Set {
            return Ok(Flow::Return);
        }
        self.result = match value {
            ReturnValue::Slot(slot) => {
                let (oid, typmod) = self.vars.type_of(*slot)?;
                Typed { value: self.vars.get(*slot)?, oid, typmod }
            }
            ReturnValue::Expr(expr) => self.evaluate(expr)?,
            ReturnValue::None => {
                let is_procedure = self.routine.definition.kind == RoutineKind::Procedure;
                let value =
                    if is_procedure || self.routine.result_type != oids::VOID { Datum::Null } else { Datum::text("") };
                Typed { value, oid: self.routine.result_type, typmod: -1 }
            }
        };
        if self.routine.returns_row && !matches!(self.result.value, Datum::Null | Datum::Record(_)) {
            return Err(mismatch(NO_ROW));
        }
        Ok(Flow::Return)
    }

    /// The value of the call.
    pub(super) fn finish(&mut self) -> Result<Datum> {
        if self.routine.returns == Returns::Set {
            return Ok(Datum::Null);
        }
        let Typed { value, oid, typmod } =
            std::mem::replace(&mut self.result, Typed { value: Datum::Null, oid: 0, typmod: -1 });
        if self.routine.trigger_rows.is_some() {
            return self.finish_trigger(value);
        }
        let result_type = self.routine.result_type;
        if !self.routine.returns_row {
            return self.cast(value, (oid, typmod), (result_type, -1));
        }
        let Datum::Record(record) = value else { return Ok(value) };
        let Some(wanted) = self.result_row.clone() else { return Ok(Datum::Record(record)) };
        if record.type_oid == result_type && result_type != oids::RECORD {
            return Ok(Datum::Record(record));
        }
        self.fit(&record, &wanted, "returned record type does not match expected record type")?;
        Ok(Datum::Record(Arc::new(Record {
            type_oid: wanted.type_oid,
            fields: record.fields.clone(),
            names: record.names.clone(),
        })))
    }

    fn finish_trigger(&mut self, value: Datum) -> Result<Datum> {
        self.phase = Some("during function exit");
        let is_row = self.vars.trigger.is_some_and(|event| event.for_each_row);
        let Datum::Record(record) = value else { return Ok(Datum::Null) };
        if !is_row {
            return Ok(Datum::Null);
        }
        let Some(table) = &self.routine.definition.trigger_table else { return Ok(Datum::Null) };
        let wanted = table.row.clone();
        if record.type_oid != wanted.type_oid {
            self.fit(&record, &wanted, "returned row structure does not match the structure of the triggering table")?;
        }
        Ok(Datum::Record(Arc::new(Record {
            type_oid: wanted.type_oid,
            fields: record.fields.clone(),
            names: record.names.clone(),
        })))
    }

    fn fit(&mut self, record: &Record, wanted: &TupleDescriptor, message: &str) -> Result<()> {
        let shape = self.shape_of_record(record)?;
        self.fit_columns(&shape.columns, &wanted.columns, message)
    }

    /// Columns must be as many, and of the same types.
    fn fit_columns(&mut self, given: &[RowColumn], wanted: &[RowColumn], message: &str) -> Result<()> {
        if let Some((i, (g, w))) = given
            .iter()
            .zip(wanted)
            .enumerate()
            .find(|(_, (g, w))| g.type_oid != w.type_oid || w.typmod >= 0 && g.typmod >= 0 && g.typmod != w.typmod)
        {
            let (returned, expected) =
                (self.spi.format_type(g.type_oid, g.typmod)?, self.spi.format_type(w.type_oid, w.typmod)?);
            return Err(mismatch(message).with_detail(format!(
                "Returned type {returned} does not match expected type {expected} in column \"{}\" (position {}).",
                w.name,
                i + 1
            )));
        }
        if given.len() != wanted.len() {
            return Err(mismatch(message).with_detail(format!(
                "Number of returned columns ({}) does not match expected column count ({}).",
                given.len(),
                wanted.len()
            )));
        }
        Ok(())
    }

    /// Columns of the set's rows; a scalar counts as one column.
    fn set_columns(&self) -> Vec<RowColumn> {
        match &self.result_row {
            Some(row) => row.columns.clone(),
            None => vec![RowColumn {
                name: self.routine.definition.name.clone(),
                type_oid: self.routine.result_type,
                typmod: -1,
            }],
        }
    }

    fn push(&mut self, row: &[Datum]) -> Result<()> {
        match &mut self.rows {
            Some(rows) => rows.push(row),
            None => Err(Error::unsupported("set-valued function called in context that cannot accept a set")),
        }
    }

    pub(crate) fn return_next(&mut self, value: &'r ReturnValue) -> Result<()> {
        let columns = self.set_columns();
        match value {
            ReturnValue::Slot(slot) => match self.vars.variable(*slot)? {
                Variable::Record(r) => {
                    let Some(shape) = self.vars.shape_of(*slot)?.cloned() else { return Err(not_assigned(&r.name)) };
                    let fields = self
                        .vars
                        .row(*slot)
                        .map_or_else(|| vec![Datum::Null; shape.columns.len()], |row| row.fields.clone());
                    self.fit_columns(&shape.columns, &columns, "wrong record type supplied in RETURN NEXT")?;
                    self.push(&fields)
                }
                Variable::Row { slots, .. } => {
                    let row = slots.iter().map(|s| self.vars.get(*s)).collect::<Result<Vec<_>>>()?;
                    self.push(&row)
                }
                _ => {
                    let (oid, typmod) = self.vars.type_of(*slot)?;
                    let value = self.vars.get(*slot)?;
                    self.push_scalar(Typed { value, oid, typmod }, &columns)
                }
            },
            ReturnValue::Expr(expr) => {
                let typed = self.evaluate(expr)?;
                if !self.routine.returns_row {
                    return self.push_scalar(typed, &columns);
                }
                match typed.value {
                    Datum::Null => self.push(&vec![Datum::Null; columns.len()]),
                    Datum::Record(record) => {
                        let shape = self.shape_of_record(&record)?;
                        self.fit_columns(
                            &shape.columns,
                            &columns,
                            "returned record type does not match expected record type",
                        )?;
                        let row: Vec<Datum> = record.fields.iter().map(|(_, v)| v.clone()).collect();
                        self.push(&row)
                    }
                    _ => Err(mismatch(NO_ROW)),
                }
            }
            ReturnValue::None => Err(Error::new(sqlstate::SYNTAX_ERROR, "RETURN NEXT must have a parameter")),
        }
    }

    fn push_scalar(&mut self, typed: Typed, columns: &[RowColumn]) -> Result<()> {
        let [column] = columns else { return Err(mismatch("wrong result type supplied in RETURN NEXT")) };
        let value = self.cast(typed.value, (typed.oid, typed.typmod), (column.type_oid, column.typmod))?;
        self.push(&[value])
    }

    /// Runs `query`, whose columns are `given`, into the result.
    fn forward(
        &mut self,
        given: Option<Arc<TupleDescriptor>>,
        run: impl FnOnce(&mut Self, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        let columns = self.set_columns();
        if let Some(given) = given {
            self.fit_columns(&given.columns, &columns, "structure of query does not match function result type")?;
        }
        let Some(rows) = self.rows.take() else {
            return Err(Error::unsupported("set-valued function called in context that cannot accept a set"));
        };
        let mut sink = Forward { rows, count: 0 };
        let ran = run(self, &mut sink);
        let count = sink.count;
        self.rows = Some(sink.rows);
        ran?;
        self.row_count = count;
        self.set_found(count != 0);
        Ok(())
    }

    pub(crate) fn return_query(&mut self, query: &'r Expr) -> Result<()> {
        let prepared = self.prepared(query)?;
        let scope = self.vars.scope(query.place);
        let Some(given) = self.spi.describe(&prepared, &scope)? else {
            return Err(no_rows(prepared.command(), &query.text));
        };
        self.going_out(Some(&query.text));
        self.forward(Some(given), |run, sink| run.spi.run(&prepared, &run.vars.scope(query.place), 0, sink).map(|_| ()))
    }

    pub(crate) fn return_dynamic(&mut self, query: &'r Expr, params: &'r [Expr]) -> Result<()> {
        let (text, values) = self.dynamic_query(query, params)?;
        // The columns are known when the statement has run: its rows wait until then.
        let mut kept = super::sql::RowBuffer::default();
        let outcome = self.spi.execute(&text, &values, 0, &mut kept)?;
        let Some(given) = outcome.row else { return Err(no_rows(outcome.command, &text)) };
        self.forward(Some(given), |_, sink| kept.rows.iter().try_for_each(|row| sink.row(row)))
    }
}

/// 42601: the statement has no result.
fn no_rows(command: Command, text: &str) -> Error {
    let word = text.split_whitespace().next().unwrap_or("").to_ascii_uppercase();
    let name = if command == Command::SelectInto && word == "SELECT" { "SELECT INTO" } else { &word };
    Error::new(sqlstate::SYNTAX_ERROR, format!("{name} query does not return tuples"))
        .with_context(format!("SQL statement \"{text}\""))
}
