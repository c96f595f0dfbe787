//! Types and conversions, as routines ask for them.

use super::language::TupleDescriptor;
use super::spi::Spi;
use crate::host::StatementHost;
use crate::host::routine_definition::row_of_type;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_bind::Binder;
use kilndb_catalog::CatalogView;
use kilndb_catalog::collation_read::unknown_collation;
use kilndb_exec::RowSink;
use kilndb_types::collation::Collation;
use kilndb_types::{Datum, cast, io, oids};
use std::sync::Arc;

fn split(parts: &[&str]) -> (Option<String>, String) {
    match parts {
        [name] => (None, name.to_string()),
        [.., schema, name] => (Some(schema.to_string()), name.to_string()),
        [] => (None, String::new()),
    }
}

/// Takes the first value.
struct First(Datum);
impl RowSink for First {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        self.0 = values.first().cloned().unwrap_or_default();
        Ok(())
    }
}

impl Spi<'_> {
    fn ask<R>(&mut self, ask: impl FnOnce(&StatementHost<'_>) -> Result<R>) -> Result<R> {
        self.session.context.with_catalog(self.runtime, ask)
    }

    /// `text` as in a declaration: `integer`, `numeric(10,2)[]`, `public.t`, `t.c%TYPE`.
    pub fn resolve_type(&mut self, text: &str) -> Result<(Oid, i32)> {
        self.ask(|host| kilndb_bind::type_of_text(text, &host.reader))
    }
    /// The columns of a composite type; None: it is none.
    pub fn row_of_type(&mut self, type_oid: Oid) -> Result<Option<Arc<TupleDescriptor>>> {
        self.ask(|host| row_of_type(&host.reader, type_oid))
    }
    /// The type of a column: `table.column`, `schema.table.column`. None: there is no such column or table.
    pub fn column_type(&mut self, parts: &[&str]) -> Result<Option<(Oid, i32)>> {
        let Some((column, table)) = parts.split_last() else { return Ok(None) };
        let (schema, name) = split(table);
        self.ask(|host| {
            let table = host.reader.table_by_name(schema.as_deref(), &name)?;
            Ok(table.and_then(|t| {
                t.columns.iter().find(|c| !c.dropped && c.name == *column).map(|c| (c.type_oid, c.typmod))
            }))
        })
    }
    /// The composite type of a relation's rows. 42P01.
    pub fn row_type_of_relation(&mut self, parts: &[&str]) -> Result<Oid> {
        let (schema, name) = split(parts);
        let found = self.ask(|host| host.reader.table_by_name(schema.as_deref(), &name))?;
        let missing =
            || Error::new(sqlstate::UNDEFINED_TABLE, format!("relation \"{}\" does not exist", parts.join(".")));
        found.map(|t| t.type_oid).filter(|t| *t != 0).ok_or_else(missing)
    }
    /// The collation of that name.
    pub fn collation(&mut self, parts: &[&str]) -> Result<Collation> {
        let (schema, name) = split(parts);
        let found = self.ask(|host| host.reader.collation_named(schema.as_deref(), &name))?;
        found.ok_or_else(|| unknown_collation(&parts.join(".")))?.collation()
    }
    /// The array type of a type, or 0.
    pub fn array_type(&mut self, type_oid: Oid) -> Result<Oid> {
        self.ask(|host| Ok(host.reader.type_by_oid(type_oid)?.map_or(0, |t| t.array)))
    }
    /// The element type of an array type (or of a domain over one), or 0.
    pub fn element_type(&mut self, type_oid: Oid) -> Result<Oid> {
        let base = self.base_type(type_oid)?;
        self.ask(|host| Ok(host.reader.type_by_oid(base)?.filter(|t| t.category == b'A').map_or(0, |t| t.element)))
    }
    /// A domain's own type; any other as it is.
    pub fn base_type(&mut self, type_oid: Oid) -> Result<Oid> {
        self.ask(|host| Ok(Binder::new(&host.reader, Arc::from(""), Vec::new()).base_type(type_oid)))
    }
    /// 'b' base, 'c' composite, 'd' domain, 'e' enum, 'p' pseudo, 'r' range.
    pub fn type_kind(&mut self, type_oid: Oid) -> Result<u8> {
        self.ask(|host| Ok(host.reader.type_by_oid(type_oid)?.map_or(0, |t| t.kind)))
    }
    pub fn format_type(&mut self, type_oid: Oid, typmod: i32) -> Result<String> {
        self.ask(|host| Ok(host.reader.format_type(type_oid, typmod)))
    }
    /// As an assignment does: by an assignment cast, or through the text form.
    pub fn convert(&mut self, value: Datum, from: (Oid, i32), to: (Oid, i32)) -> Result<Datum> {
        let needs_no_typmod = to.1 < 0 || to.1 == from.1;
        if from.0 == to.0 && needs_no_typmod && (to.0 < kilndb_catalog::builtin::FIRST_USER_OID) {
            return Ok(value);
        }
        if from.0 < kilndb_catalog::builtin::FIRST_USER_OID
            && to.0 < kilndb_catalog::builtin::FIRST_USER_OID
            && value.is_null()
        {
            return Ok(value);
        }
        if let Some(done) = self.session.routines.plans.convert_quickly(
            &self.session.context,
            &value,
            (from.0, to.0, to.1),
            self.runtime,
        ) {
            return done;
        }
        let planned =
            self.session.routines.plans.conversion(&mut self.session.context, (from.0, to.0, to.1), self.runtime)?;
        match planned {
            Some(plan) => {
                let mut first = First(Datum::Null);
                self.run_plan(&plan, &[value], 0, &mut first)?;
                Ok(first.0)
            }
            None if value.is_null() => Ok(value),
            None => {
                let text = self.output(&value, from.0)?;
                self.input(&text, to.0, to.1)
            }
        }
    }
    pub fn output(&mut self, value: &Datum, type_oid: Oid) -> Result<String> {
        let mut bytes = Vec::new();
        self.session.context.with_value_context(std::iter::once(type_oid), self.runtime, |eval| {
            io::output_typmod(type_oid, -1, value, &mut bytes, eval)
        })?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
    pub fn input(&mut self, text: &str, type_oid: Oid, typmod: i32) -> Result<Datum> {
        self.session.context.with_value_context(std::iter::once(type_oid), self.runtime, |eval| {
            let value = io::input(type_oid, text, typmod, eval)?;
            cast::apply_typmod(type_oid, value, typmod, false)
        })
    }
    /// A row as a value of a type: the composite type of the shape, or RECORD.
    pub fn record(shape: &TupleDescriptor, values: &[Datum]) -> Datum {
        let fields = shape.columns.iter().zip(values).map(|(c, v)| (c.type_oid, v.clone())).collect();
        let type_oid = if shape.type_oid == 0 { oids::RECORD } else { shape.type_oid };
        Datum::Record(Arc::new(kilndb_types::Record { type_oid, fields, names: None }))
    }
}
