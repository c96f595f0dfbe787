//! Variables of a running call, and what SQL sees of them.
//!
//! Invariants
//! 1. A slot's value is of the variable's type; a field's value is in its record.
//! 2. A record of type RECORD has columns only while something is assigned to it.
//! 3. The slot of a variable that is no scalar is NULL but while an expression that uses the variable is evaluated.

use crate::compile::Routine;
use crate::namespace::{NamespaceItemKind, NamespacePosition};
use crate::tree::*;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_sql::routine::{
    self, RowColumn, TriggerEvent, TriggerOperation, TriggerTime, TupleDescriptor, VariableConflict, VariableScope,
    VariableValues,
};
use kilndb_types::collation::Collation;
use kilndb_types::{Array, Datum, Record, oids};
use std::cell::RefCell;
use std::sync::Arc;

/// What a record variable holds.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub shape: Arc<TupleDescriptor>,
    pub fields: Vec<Datum>,
    /// The row is NULL; its fields are too.
    pub is_null: bool,
}

impl Row {
    pub fn nulls(shape: Arc<TupleDescriptor>, is_null: bool) -> Row {
        let fields = vec![Datum::Null; shape.columns.len()];
        Row { shape, fields, is_null }
    }
    pub fn datum(&self) -> Datum {
        if self.is_null {
            return Datum::Null;
        }
        let fields = self.shape.columns.iter().zip(&self.fields).map(|(c, v)| (c.type_oid, v.clone())).collect();
        Datum::Record(Arc::new(Record { type_oid: self.shape.type_oid, fields, names: None }))
    }
    pub fn column(&self, name: &str) -> Option<usize> {
        self.shape.columns.iter().position(|c| c.name == name)
    }
}

/// Where a variable's value is.
#[derive(Clone, Debug)]
pub(crate) enum VariableStorage {
    /// In its slot.
    Slot,
    /// Told when it is asked for.
    Fact(TriggerFact),
    /// None: nothing is assigned yet (RECORD), or NULL.
    Record(Option<Row>),
    /// Rows and fields are made of other variables.
    Others,
}

pub(crate) struct Vars<'r> {
    pub routine: &'r Routine,
    /// The values of scalars by slot: the row that expressions are evaluated over.
    pub slots: Vec<Datum>,
    pub storages: Vec<VariableStorage>,
    /// Types of variables that CASE compares, which are known when they are assigned.
    pub case_types: Vec<(Slot, Oid, i32)>,
    pub trigger: Option<&'r TriggerEvent<'r>>,
    /// Columns of composite types as they were when this call first needed them.
    pub shapes: Vec<(Oid, Arc<TupleDescriptor>)>,
}

pub(crate) fn not_assigned(name: &str) -> Error {
    Error::new(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, format!("record \"{name}\" is not assigned yet"))
        .with_detail("The tuple structure of a not-yet-assigned record is indeterminate.")
}

pub(crate) fn no_field(record: &str, field: &str) -> Error {
    Error::new(sqlstate::UNDEFINED_COLUMN, format!("record \"{record}\" has no field \"{field}\""))
}

impl<'r> Vars<'r> {
    /// The variables of a call that begins.
    pub fn new(routine: &'r Routine, trigger: Option<&'r TriggerEvent<'r>>) -> Vars<'r> {
        let storages = routine.variables.iter().map(|v| match v {
            Variable::Scalar(ScalarVariable { fact: Some(fact), .. }) => VariableStorage::Fact(*fact),
            Variable::Scalar(_) => VariableStorage::Slot,
            Variable::Record(_) => VariableStorage::Record(None),
            _ => VariableStorage::Others,
        });
        Vars {
            routine,
            slots: vec![Datum::Null; routine.variables.len()],
            storages: storages.collect(),
            case_types: Vec::new(),
            trigger,
            shapes: Vec::new(),
        }
    }
    pub fn variable(&self, slot: Slot) -> Result<&'r Variable> {
        self.routine.variables.get(slot).ok_or_else(|| Error::internal("a variable without a slot"))
    }
    pub fn record_variable(&self, slot: Slot) -> Result<&'r RecordVariable> {
        match self.variable(slot)? {
            Variable::Record(r) => Ok(r),
            _ => Err(Error::internal("a record was expected")),
        }
    }
    pub fn set(&mut self, slot: Slot, value: Datum) {
        if let (Some(to), Some(storage)) = (self.slots.get_mut(slot), self.storages.get_mut(slot)) {
            *to = value;
            // Whoever assigns to a fact has it in its slot from then on.
            *storage = VariableStorage::Slot;
        }
    }
    /// Writes the slot alone: of a variable whose value is in its slot, or while an expression is evaluated.
    #[inline]
    pub fn set_slot(&mut self, slot: Slot, value: Datum) {
        if let Some(to) = self.slots.get_mut(slot) {
            *to = value;
        }
    }
    /// An integer to a variable of so many bits; false: it does not fit.
    #[inline]
    pub fn set_int(&mut self, slot: Slot, bits: u8, value: i64) -> bool {
        match (self.slots.get_mut(slot), bits) {
            // As it is in all turns of a loop but the first: nothing to drop.
            (Some(Datum::Int8(place)), 64) => *place = value,
            (Some(Datum::Int4(place)), 32) => match i32::try_from(value) {
                Ok(value) => *place = value,
                Err(_) => return false,
            },
            _ => return self.set_int_anew(slot, bits, value),
        }
        true
    }
    #[inline(never)]
    fn set_int_anew(&mut self, slot: Slot, bits: u8, value: i64) -> bool {
        let new = match bits {
            64 => Some(Datum::Int8(value)),
            32 => i32::try_from(value).ok().map(Datum::Int4),
            16 => i16::try_from(value).ok().map(Datum::Int2),
            _ => None,
        };
        let is_set = new.is_some();
        if let Some(new) = new {
            self.set(slot, new);
        }
        is_set
    }
    pub fn set_record(&mut self, slot: Slot, row: Option<Row>) {
        if let Some(storage) = self.storages.get_mut(slot) {
            *storage = VariableStorage::Record(row);
        }
    }
    pub fn row(&self, slot: Slot) -> Option<&Row> {
        match self.storages.get(slot) {
            Some(VariableStorage::Record(row)) => row.as_ref(),
            _ => None,
        }
    }
    pub fn row_mut(&mut self, slot: Slot) -> Option<&mut Row> {
        match self.storages.get_mut(slot) {
            Some(VariableStorage::Record(row)) => row.as_mut(),
            _ => None,
        }
    }
    fn shape(&self, type_oid: Oid) -> Option<&Arc<TupleDescriptor>> {
        self.shapes.iter().find(|(oid, _)| *oid == type_oid).map(|(_, shape)| shape)
    }
    /// The columns of a record as it is now.
    pub fn shape_of(&self, slot: Slot) -> Result<Option<&Arc<TupleDescriptor>>> {
        if let Some(row) = self.row(slot) {
            return Ok(Some(&row.shape));
        }
        Ok(self.shape(self.record_variable(slot)?.ty.oid))
    }

    pub fn scalar_type(&self, slot: Slot, v: &ScalarVariable) -> (Oid, i32) {
        match self.case_types.iter().find(|(s, ..)| *s == slot) {
            Some((_, oid, typmod)) => (*oid, *typmod),
            None => (v.ty.oid, v.ty.typmod),
        }
    }

    /// The type of a slot as it is now.
    /// What a variable's texts are compared by: what it declares, else what the routine was called with.
    fn collation_of(&self, slot: Slot) -> Collation {
        match self.variable(slot) {
            Ok(Variable::Scalar(v)) => v.collation.unwrap_or(self.routine.definition.collation),
            Ok(_) | Err(_) => Collation::default(),
        }
    }

    pub fn type_of(&self, slot: Slot) -> Result<(Oid, i32)> {
        Ok(match self.variable(slot)? {
            Variable::Scalar(v) => self.scalar_type(slot, v),
            Variable::Record(r) if r.ty.oid == oids::RECORD => {
                (self.row(slot).map_or(oids::RECORD, |row| row.shape.type_oid), -1)
            }
            Variable::Record(r) => (r.ty.oid, -1),
            Variable::Row { .. } => (oids::RECORD, -1),
            Variable::Field { record, name } => {
                let column = self.field_column(*record, name)?;
                (column.type_oid, column.typmod)
            }
        })
    }

    fn field_column(&self, record: Slot, field: &str) -> Result<&RowColumn> {
        let shown = &self.record_variable(record)?.name;
        let shape = self.shape_of(record)?.ok_or_else(|| not_assigned(shown))?;
        shape.columns.iter().find(|c| c.name == *field).ok_or_else(|| no_field(shown, field))
    }

    pub fn get(&self, slot: Slot) -> Result<Datum> {
        match self.storages.get(slot) {
            Some(VariableStorage::Slot) => return Ok(self.slots.get(slot).cloned().unwrap_or_default()),
            Some(VariableStorage::Record(row)) => return Ok(row.as_ref().map_or(Datum::Null, Row::datum)),
            Some(VariableStorage::Fact(fact)) => {
                return Ok(self.trigger.map_or(Datum::Null, |event| fact_of(event, *fact)));
            }
            _ => {}
        }
        match self.variable(slot)? {
            Variable::Field { record, name } => match self.row(*record) {
                Some(row) => {
                    let at = row.column(name);
                    let value = at.and_then(|at| row.fields.get(at)).cloned();
                    value.ok_or_else(|| self.record_variable(*record).map_or_else(|e| e, |r| no_field(&r.name, name)))
                }
                // A NULL of a composite type: the field must exist all the same.
                None => self.field_column(*record, name).map(|_| Datum::Null),
            },
            Variable::Row { slots, .. } => {
                let fields = slots.iter().map(|s| Ok((self.type_of(*s)?.0, self.get(*s)?))).collect::<Result<_>>()?;
                Ok(Datum::Record(Arc::new(Record { type_oid: oids::RECORD, fields, names: None })))
            }
            _ => Err(Error::internal("a variable without a value")),
        }
    }

    /// NULL of a scalar, or the value of a record's field; None: the variable is neither.
    #[inline(never)]
    fn null_or_field(&self, slot: Slot) -> Option<&Datum> {
        match (self.storages.get(slot)?, self.variable(slot)) {
            (VariableStorage::Slot, _) => self.slots.get(slot),
            (VariableStorage::Others, Ok(Variable::Field { record, name })) => {
                let row = self.row(*record)?;
                row.fields.get(row.column(name)?)
            }
            _ => None,
        }
    }

    /// Those of an expression's variables whose values are to be put into their slots before it is evaluated.
    pub fn elsewhere<'v>(&self, variables: &'v [routine::Variable]) -> impl Iterator<Item = &'v routine::Variable> {
        variables.iter().filter(|v| !matches!(self.storages.get(v.number as usize), Some(VariableStorage::Slot)))
    }

    pub fn scope(&self, place: NamespacePosition) -> Scope<'_, 'r> {
        Scope { vars: self, place, noted: RefCell::new(Vec::new()), used: RefCell::default() }
    }
}

impl VariableValues for Vars<'_> {
    #[inline]
    fn scalar(&self, variable: u32) -> Option<&Datum> {
        match self.slots.get(variable as usize)? {
            Datum::Null => self.null_or_field(variable as Slot),
            value => Some(value),
        }
    }
}

fn fact_of(event: &TriggerEvent<'_>, fact: TriggerFact) -> Datum {
    match fact {
        TriggerFact::Name => Datum::text(event.trigger_name),
        TriggerFact::When => Datum::text(match event.time {
            TriggerTime::Before => "BEFORE",
            TriggerTime::After => "AFTER",
            TriggerTime::InsteadOf => "INSTEAD OF",
        }),
        TriggerFact::Level => Datum::text(if event.for_each_row { "ROW" } else { "STATEMENT" }),
        TriggerFact::Op => Datum::text(match event.operation {
            TriggerOperation::Insert => "INSERT",
            TriggerOperation::Update => "UPDATE",
            TriggerOperation::Delete => "DELETE",
            TriggerOperation::Truncate => "TRUNCATE",
        }),
        TriggerFact::RelId => Datum::Oid(event.table_oid),
        TriggerFact::TableName => Datum::text(event.table_name),
        TriggerFact::TableSchema => Datum::text(event.table_schema),
        TriggerFact::ArgumentCount => Datum::Int4(event.arguments.len() as i32),
        TriggerFact::Arguments if event.arguments.is_empty() => Datum::Null,
        TriggerFact::Arguments => Datum::Array(Arc::new(Array {
            element_type: oids::TEXT,
            // As C counts.
            dims: vec![(0, event.arguments.len() as u32)],
            elements: event.arguments.iter().map(Datum::text).collect(),
        })),
    }
}

/// The variables that SQL at a place of the routine can see.
pub(crate) struct Scope<'v, 'r> {
    vars: &'v Vars<'r>,
    place: NamespacePosition,
    /// Variables that were found whose type may be another in another call.
    pub noted: RefCell<Vec<(Slot, Oid)>>,
    pub used: RefCell<std::collections::BTreeSet<Slot>>,
}

impl Scope<'_, '_> {
    fn found(&self, slot: Slot) -> Result<routine::Variable> {
        let (type_oid, typmod) = self.vars.type_of(slot)?;
        self.used.borrow_mut().insert(slot);
        if self.vars.routine.is_dynamic(slot) {
            self.noted.borrow_mut().push((slot, type_oid));
        }
        let collation = self.vars.collation_of(slot);
        Ok(routine::Variable { number: slot as u32, type_oid, typmod, collation })
    }
}

impl VariableScope for Scope<'_, '_> {
    fn resolve(&self, parts: &[&str], star: bool, required: bool) -> Result<Option<routine::Variable>> {
        let limit = if star { 2 } else { 3 };
        if parts.len() > limit {
            return Ok(None);
        }
        // The star keeps scalar variables from fitting.
        let mut names = parts.to_vec();
        if star {
            names.push("*");
        }
        let Some((kind, used)) = self.vars.routine.namespace.find_at(self.place, &names) else { return Ok(None) };
        match kind {
            NamespaceItemKind::Scalar(slot) if used == parts.len() && !star && used <= 2 => self.found(slot).map(Some),
            NamespaceItemKind::Record(slot) if used == parts.len() && used <= 2 => self.found(slot).map(Some),
            NamespaceItemKind::Record(slot) if !star && used + 1 == parts.len() => {
                let field = parts.get(used).copied().unwrap_or("");
                let record = self.vars.record_variable(slot)?;
                match record.fields.iter().find(|(name, _)| name == field) {
                    Some((_, field)) => self.found(*field).map(Some),
                    None if required => Err(no_field(&record.name, field)),
                    None => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }
    fn parameter(&self, number: u32) -> Option<routine::Variable> {
        let name = format!("${number}");
        match self.vars.routine.namespace.find_at(self.place, &[&name])?.0 {
            NamespaceItemKind::Scalar(slot) | NamespaceItemKind::Record(slot) => self.found(slot).ok(),
            NamespaceItemKind::Label(_) => None,
        }
    }
    fn conflict(&self) -> VariableConflict {
        match self.vars.routine.conflict {
            Conflict::Error => VariableConflict::Error,
            Conflict::UseVariable => VariableConflict::UseVariable,
            Conflict::UseColumn => VariableConflict::UseColumn,
        }
    }
    fn row_of(&self, variable: u32) -> Result<Option<Arc<TupleDescriptor>>> {
        match self.vars.variable(variable as Slot)? {
            Variable::Record(_) => Ok(self.vars.shape_of(variable as Slot)?.cloned()),
            _ => Ok(None),
        }
    }
    fn value(&self, variable: u32) -> Result<Datum> {
        self.vars.get(variable as Slot)
    }
}
