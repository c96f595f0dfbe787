//! Assignment: values to variables, rows to records and lists of variables.

use super::{Run, Typed};
use crate::compile::Shortcuts;
use crate::namespace::NamespaceItemKind;
use crate::tree::*;
use crate::values::{Row, no_field, not_assigned};
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_sql::routine::{RowColumn, TupleDescriptor};
use kilndb_types::{Datum, Record, oids};
use std::sync::Arc;

fn not_null(name: &str) -> Error {
    Error::new(
        sqlstate::NULL_VALUE_NOT_ALLOWED,
        format!("null value cannot be assigned to variable \"{name}\" declared NOT NULL"),
    )
}

/// Columns of a record that nobody has named.
pub(crate) fn unnamed(record: &Record) -> Arc<TupleDescriptor> {
    let columns = record.fields.iter().enumerate();
    let columns =
        columns.map(|(i, (oid, _))| RowColumn { name: format!("f{}", i + 1), type_oid: *oid, typmod: -1 }).collect();
    Arc::new(TupleDescriptor { type_oid: record.type_oid, columns })
}

impl<'r> Run<'r, '_> {
    /// As an assignment converts.
    pub(crate) fn cast(&mut self, value: Datum, from: (Oid, i32), to: (Oid, i32)) -> Result<Datum> {
        if from.0 == to.0 && (to.1 == -1 || to.1 == from.1) || value.is_null() {
            return Ok(value);
        }
        match (&value, to.0) {
            (Datum::Int4(v), oids::INT8) => return Ok(Datum::Int8(i64::from(*v))),
            (Datum::Int8(v), oids::INT4) => {
                if let Ok(v) = i32::try_from(*v) {
                    return Ok(Datum::Int4(v));
                }
            }
            _ => {}
        }
        self.spi.convert(value, from, to)
    }

    #[inline]
    pub(crate) fn assign_expr(&mut self, target: Slot, expr: &'r Expr) -> Result<()> {
        if self.assign_quickly(target, expr) || self.assign_computed(target, expr)? {
            return Ok(());
        }
        self.assign_slowly(target, expr)
    }

    /// Integers and truth values to variables of such types; false: nothing was done.
    // A loop of one assignment spends a seventh of its time here if this is a call of its own.
    #[inline(always)]
    fn assign_quickly(&mut self, target: Slot, expr: &'r Expr) -> bool {
        let Some(Shortcuts { quick: Some(quick), .. }) = self.shortcuts(expr) else { return false };
        match self.routine.plain.get(target) {
            None | Some(0) => false,
            Some(1) => match quick.truth(&self.vars) {
                Some(truth) => {
                    self.vars.set(target, Datum::Bool(truth));
                    true
                }
                None => false,
            },
            Some(bits) => match quick.int(&self.vars) {
                Some(value) => self.vars.set_int(target, *bits, value),
                None => false,
            },
        }
    }

    /// The value of an expression of variables to a variable that takes it as it is; false: nothing was done.
    fn assign_computed(&mut self, target: Slot, expr: &'r Expr) -> Result<bool> {
        let Some(Shortcuts { program: Some(program), .. }) = self.shortcuts(expr) else { return Ok(false) };
        if self.routine.taken_types.get(target) != Some(&program.type_oid()) {
            return Ok(false);
        }
        let value = self.computed(expr, program)?;
        self.vars.set_slot(target, value);
        Ok(true)
    }

    #[inline(never)]
    fn assign_slowly(&mut self, target: Slot, expr: &'r Expr) -> Result<()> {
        if let Some(source) = self.record_named_by(target, expr) {
            let row = self.vars.row(source).cloned();
            return match row {
                Some(row) if !row.is_null => self.assign_row(target, &row.shape.clone(), Some(&row.fields)),
                _ => self.assign(target, Typed { value: Datum::Null, oid: oids::RECORD, typmod: -1 }),
            };
        }
        let typed = self.evaluate(expr)?;
        self.assign(target, typed)
    }

    /// The record variable that the whole expression is, if the target is one too: its columns keep their names.
    fn record_named_by(&self, target: Slot, expr: &Expr) -> Option<Slot> {
        if !matches!(self.vars.variable(target), Ok(Variable::Record(_))) || expr.mode != ParseMode::Expression {
            return None;
        }
        let text = expr.text.trim();
        let is_name = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let name = text.to_ascii_lowercase();
        match self.routine.namespace.find_at(expr.place, &[&name])?.0 {
            NamespaceItemKind::Record(slot) if is_name => Some(slot),
            _ => None,
        }
    }

    pub(crate) fn assign(&mut self, target: Slot, typed: Typed) -> Result<()> {
        match self.vars.variable(target)? {
            Variable::Scalar(v) => {
                let to = self.vars.scalar_type(target, v);
                let value = if typed.oid == to.0 && to.1 == -1 {
                    typed.value
                } else {
                    self.cast(typed.value, (typed.oid, typed.typmod), to)?
                };
                if v.not_null && value.is_null() {
                    return Err(not_null(&v.name));
                }
                self.vars.set(target, value);
                Ok(())
            }
            Variable::Record(r) => match typed.value {
                Datum::Null => {
                    if r.not_null {
                        return Err(not_null(&r.name));
                    }
                    self.vars.set_record(target, None);
                    Ok(())
                }
                Datum::Record(_) => self.assign_record_datum(target, typed.value),
                value if r.ty.oid != oids::RECORD => {
                    let value = self.spi.convert(value, (typed.oid, typed.typmod), (r.ty.oid, -1))?;
                    self.assign_record_datum(target, value)
                }
                _ if self.declaring.is_none() => {
                    Err(Error::unsupported("input of anonymous composite types is not implemented"))
                }
                _ => Err(Error::new(
                    sqlstate::DATATYPE_MISMATCH,
                    "cannot assign non-composite value to a record variable",
                )),
            },
            Variable::Row { slots, .. } => match typed.value {
                Datum::Null => slots.iter().try_for_each(|slot| {
                    self.assign(*slot, Typed { value: Datum::Null, oid: oids::UNKNOWN, typmod: -1 })
                }),
                Datum::Record(record) => {
                    let shape = self.shape_of_record(&record)?;
                    let fields: Vec<Datum> = record.fields.iter().map(|(_, v)| v.clone()).collect();
                    self.assign_row(target, &shape, Some(&fields))
                }
                _ => {
                    Err(Error::new(sqlstate::DATATYPE_MISMATCH, "cannot assign non-composite value to a row variable"))
                }
            },
            Variable::Field { record, name } => self.assign_field(*record, name, typed),
        }
    }

    fn assign_field(&mut self, record: Slot, field: &str, typed: Typed) -> Result<()> {
        let variable = self.vars.record_variable(record)?;
        if self.vars.row(record).is_none() {
            let Some(shape) = self.vars.shape_of(record)?.cloned() else { return Err(not_assigned(&variable.name)) };
            self.vars.set_record(record, Some(Row::nulls(shape, true)));
        }
        let shape = self.vars.shape_of(record)?.cloned().unwrap_or_default();
        let at = shape.columns.iter().position(|c| c.name == field);
        let Some((at, column)) = at.and_then(|at| shape.columns.get(at).map(|c| (at, c))) else {
            return Err(no_field(&variable.name, field));
        };
        let value = self.cast(typed.value, (typed.oid, typed.typmod), (column.type_oid, column.typmod))?;
        if let Some(row) = self.vars.row_mut(record) {
            row.is_null = false;
            if let Some(place) = row.fields.get_mut(at) {
                *place = value;
            }
        }
        Ok(())
    }

    pub(crate) fn shape_of_record(&mut self, record: &Record) -> Result<Arc<TupleDescriptor>> {
        if record.type_oid == oids::RECORD { Ok(unnamed(record)) } else { self.shape_of_type(record.type_oid) }
    }

    pub(crate) fn assign_record_datum(&mut self, target: Slot, value: Datum) -> Result<()> {
        let Datum::Record(record) = value else {
            self.vars.set_record(target, None);
            return Ok(());
        };
        let shape = self.shape_of_record(&record)?;
        let fields: Vec<Datum> = record.fields.iter().map(|(_, v)| v.clone()).collect();
        self.assign_row(target, &shape, Some(&fields))
    }

    /// A row of these columns to a record or a list of variables. None: there is no row, so all is NULL.
    pub(crate) fn assign_row(
        &mut self,
        target: Slot,
        shape: &Arc<TupleDescriptor>,
        fields: Option<&[Datum]>,
    ) -> Result<()> {
        match self.vars.variable(target)? {
            Variable::Record(r) => {
                let row = match fields {
                    _ if r.ty.oid == oids::RECORD || r.ty.oid == shape.type_oid => match fields {
                        Some(fields) => Row { shape: shape.clone(), fields: fields.to_vec(), is_null: false },
                        None => Row::nulls(shape.clone(), false),
                    },
                    None => Row::nulls(self.shape_of_type(r.ty.oid)?, false),
                    Some(fields) => self.fitted(r.ty.oid, shape, fields)?,
                };
                self.vars.set_record(target, Some(row));
                Ok(())
            }
            Variable::Row { slots, .. } => {
                if fields.is_some() {
                    self.check_width(shape.columns.len(), slots.len())?;
                }
                for (i, slot) in slots.iter().enumerate() {
                    let value = fields.and_then(|f| f.get(i)).cloned().unwrap_or_default();
                    let (oid, typmod) = shape.columns.get(i).map_or((oids::UNKNOWN, -1), |c| (c.type_oid, c.typmod));
                    self.assign(*slot, Typed { value, oid, typmod })?;
                }
                Ok(())
            }
            _ => Err(Error::internal("a row was assigned to a scalar variable")),
        }
    }

    /// The row in a composite type's columns, by their places.
    fn fitted(&mut self, type_oid: Oid, shape: &Arc<TupleDescriptor>, fields: &[Datum]) -> Result<Row> {
        let wanted = self.shape_of_type(type_oid)?;
        self.check_width(shape.columns.len(), wanted.columns.len())?;
        let mut row = Row::nulls(wanted.clone(), false);
        for (i, column) in wanted.columns.iter().enumerate() {
            let (Some(from), Some(value)) = (shape.columns.get(i), fields.get(i)) else { continue };
            let value = self.cast(value.clone(), (from.type_oid, from.typmod), (column.type_oid, column.typmod))?;
            if let Some(place) = row.fields.get_mut(i) {
                *place = value;
            }
        }
        Ok(row)
    }

    /// strict_multi_assignment.
    fn check_width(&mut self, given: usize, wanted: usize) -> Result<()> {
        if given == wanted {
            return Ok(());
        }
        let (warn, refuse) = self.extra_checks();
        if !warn.strict_multi_assignment && !refuse.strict_multi_assignment {
            return Ok(());
        }
        let active = if refuse.strict_multi_assignment { "extra_errors" } else { "extra_warnings" };
        let error =
            Error::new(sqlstate::DATATYPE_MISMATCH, "number of source and target fields in assignment does not match")
                .with_detail(format!("strict_multi_assignment check of {active} is active."))
                .with_hint("Make sure the query returns the exact list of columns.");
        if refuse.strict_multi_assignment {
            return Err(error);
        }
        self.notice(error.with_severity(Severity::Warning))?;
        Ok(())
    }
}
