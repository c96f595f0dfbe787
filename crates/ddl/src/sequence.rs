//! Sequences: definition in pg_sequence, value in a storage cell outside of transactions.
//!
//! Cell format, little-endian: last value i64, is_called u8, values logged ahead i64.

use super::Definitions;
use super::create_table::{NewColumn, NewTable};
use crate::client::Runtime;
use crate::host::SequenceState;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::global::GLOBAL;
use kilndb_catalog::ids::*;
use kilndb_catalog::{SequenceOptions, Table};
use kilndb_storage::RelationKind;
use kilndb_syntax::{Node, nodes};
use kilndb_types::{Datum, oids};
use std::sync::Arc;

fn invalid(message: impl Into<String>) -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}

fn type_range(type_oid: Oid) -> (i64, i64) {
    match type_oid {
        oids::INT2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        oids::INT4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    }
}

fn number(d: &nodes::DefElem) -> Result<i64> {
    match d.arg() {
        Node::Integer(i) => Ok(i64::from(i.ival)),
        Node::Float(f) => {
            let text = f.fval().unwrap_or("");
            text.parse().map_err(|_| {
                Error::new(
                    sqlstate::INVALID_TEXT_REPRESENTATION,
                    format!("value \"{text}\" is out of range for type bigint"),
                )
            })
        }
        _ => Err(Error::new(sqlstate::SYNTAX_ERROR, format!("{} requires a numeric value", d.defname().unwrap_or("")))),
    }
}

#[derive(Default)]
struct Given {
    type_oid: Option<Oid>,
    start: Option<i64>,
    restart: Option<Option<i64>>,
    increment: Option<i64>,
    min: Option<Option<i64>>,
    max: Option<Option<i64>>,
    cache: Option<i64>,
    cycle: Option<bool>,
    owned_by: Option<Vec<String>>,
    name: Option<Vec<String>>,
}

impl Given {
    fn changes_state(&self) -> bool {
        self.type_oid.is_some()
            || self.start.is_some()
            || self.restart.is_some()
            || self.increment.is_some()
            || self.min.is_some()
            || self.max.is_some()
            || self.cache.is_some()
            || self.cycle.is_some()
    }

    /// RESTART; the value it goes on from must be within the bounds.
    fn restart_in(&self, state: &mut SequenceState, options: &SequenceOptions) -> Result<()> {
        if let Some(restart) = self.restart {
            state.last_value = restart.unwrap_or(options.start);
            state.is_called = false;
        }
        if state.last_value < options.min {
            return Err(invalid(format!(
                "RESTART value ({}) cannot be less than MINVALUE ({})",
                state.last_value, options.min
            )));
        }
        if state.last_value > options.max {
            return Err(invalid(format!(
                "RESTART value ({}) cannot be greater than MAXVALUE ({})",
                state.last_value, options.max
            )));
        }
        state.log_count = 0;
        Ok(())
    }

    fn options(&self, previous: Option<&SequenceOptions>, default_type: Oid) -> Result<SequenceOptions> {
        let type_oid = self.type_oid.or(previous.map(|p| p.type_oid)).unwrap_or(default_type);
        let (low, high) = type_range(type_oid);
        let increment = self.increment.or(previous.map(|p| p.increment)).unwrap_or(1);
        if increment == 0 {
            return Err(invalid("INCREMENT must not be zero"));
        }
        let retyped = self.type_oid.is_some() && previous.is_some();
        let old_range = previous.map(|p| type_range(p.type_oid));
        let ascending = increment > 0;
        let default_max = if ascending { high } else { -1 };
        let default_min = if ascending { 1 } else { low };
        let max = match (self.max, previous) {
            (Some(Some(v)), _) => v,
            (Some(None), _) | (None, None) => default_max,
            (None, Some(p)) if retyped && old_range.is_some_and(|r| p.max == r.1) => default_max,
            (None, Some(p)) => p.max,
        };
        let min = match (self.min, previous) {
            (Some(Some(v)), _) => v,
            (Some(None), _) | (None, None) => default_min,
            (None, Some(p)) if retyped && old_range.is_some_and(|r| p.min == r.0) => default_min,
            (None, Some(p)) => p.min,
        };
        let name = match type_oid {
            oids::INT2 => "smallint",
            oids::INT4 => "integer",
            _ => "bigint",
        };
        if max < low || max > high {
            return Err(invalid(format!("MAXVALUE ({max}) is out of range for sequence data type {name}")));
        }
        if min < low || min > high {
            return Err(invalid(format!("MINVALUE ({min}) is out of range for sequence data type {name}")));
        }
        if min >= max {
            return Err(invalid(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})")));
        }
        let start = self.start.or(previous.map(|p| p.start)).unwrap_or(if ascending { min } else { max });
        if start < min {
            return Err(invalid(format!("START value ({start}) cannot be less than MINVALUE ({min})")));
        }
        if start > max {
            return Err(invalid(format!("START value ({start}) cannot be greater than MAXVALUE ({max})")));
        }
        let cache = self.cache.or(previous.map(|p| p.cache)).unwrap_or(1);
        if cache <= 0 {
            return Err(invalid(format!("CACHE ({cache}) must be greater than zero")));
        }
        let cycle = self.cycle.or(previous.map(|p| p.cycle)).unwrap_or(false);
        Ok(SequenceOptions { type_oid, start, increment, min, max, cache, cycle })
    }
}

/// The table that a column belongs to, which may not be there yet.
#[derive(Clone, Copy)]
pub(super) struct ColumnTable<'a> {
    pub name: &'a str,
    pub schema: Oid,
    pub persistence: u8,
    /// None: whoever makes the table.
    pub owner: Option<Oid>,
}

impl ColumnTable<'_> {
    pub fn of(table: &Table) -> ColumnTable<'_> {
        let owner = Some(table.owner);
        ColumnTable { name: &table.name, schema: table.schema_oid, persistence: table.persistence, owner }
    }
}

impl Definitions<'_> {
    fn given_options<'n>(
        &mut self,
        options: impl IntoIterator<Item = Node<'n>>,
        source: &str,
        runtime: &dyn Runtime,
    ) -> Result<Given> {
        let mut given = Given::default();
        let mut seen: Vec<&str> = Vec::new();
        for option in options {
            let Node::DefElem(d) = option else { continue };
            let name = d.defname().unwrap_or("");
            if seen.contains(&name) {
                return Err(Error::new(sqlstate::SYNTAX_ERROR, "conflicting or redundant options")
                    .or_position(kilndb_syntax::position_of(source, d.location)));
            }
            seen.push(name);
            let optional = || match d.arg() {
                Node::None => Ok(None),
                _ => number(d).map(Some),
            };
            match d.defname().unwrap_or("") {
                "as" => {
                    if let Node::TypeName(t) = d.arg() {
                        let (type_oid, _) = self.context_mut().resolve_type(t, &std::sync::Arc::from(""), runtime)?;
                        if !matches!(type_oid, oids::INT2 | oids::INT4 | oids::INT8) {
                            return Err(invalid("sequence type must be smallint, integer, or bigint"));
                        }
                        given.type_oid = Some(type_oid);
                    }
                }
                "start" => given.start = Some(number(d)?),
                "restart" => given.restart = Some(optional()?),
                "increment" => given.increment = Some(number(d)?),
                "minvalue" => given.min = Some(optional()?),
                "maxvalue" => given.max = Some(optional()?),
                "cache" => given.cache = Some(number(d)?),
                "cycle" => given.cycle = Some(matches!(d.arg(), Node::Boolean(b) if b.boolval)),
                "owned_by" | "sequence_name" => {
                    if let Node::NodeList(list) = d.arg() {
                        let names = super::strings(list).iter().map(|s| s.to_string()).collect();
                        if d.defname() == Some("owned_by") {
                            given.owned_by = Some(names)
                        } else {
                            given.name = Some(names)
                        }
                    }
                }
                "logged" | "unlogged" => {}
                other => return Err(Error::unsupported(format!("sequence option {other} is not supported"))),
            }
        }
        Ok(given)
    }

    pub fn create_sequence(&mut self, s: &nodes::CreateSeqStmt, source: &str, runtime: &dyn Runtime) -> Result<()> {
        let r = s.sequence().ok_or_else(|| Error::internal("CREATE SEQUENCE without a name"))?;
        let temporary = self.will_be_temporary(r, runtime)?;
        let persistence = if temporary { b't' } else { r.relpersistence as u8 };
        let (schema, _) = self.creation_schema(r.schemaname(), temporary, runtime)?;
        let name = r.relname().unwrap_or("").to_string();
        if self.name_is_taken(schema, &name, "relation", s.if_not_exists, runtime)? {
            return Ok(());
        }
        let given = self.given_options(s.options(), source, runtime)?;
        let options = given.options(None, oids::INT8)?;
        let oid = self.insert_sequence(&name, schema, persistence, &options, runtime)?;
        match &given.owned_by {
            Some(names) => self.own_sequence(oid, names, runtime),
            None => Ok(()),
        }
    }

    /// The sequence of a serial or identity column, by its name and type; `options` with the text that they are of.
    pub(super) fn column_sequence(
        &mut self,
        table: ColumnTable<'_>,
        (column, type_oid): (&str, Oid),
        options: (&[Node<'_>], &str),
        runtime: &dyn Runtime,
    ) -> Result<Oid> {
        let given = self.given_options(options.0.iter().copied(), options.1, runtime)?;
        let name = match given.name.as_ref().and_then(|names| names.last()) {
            Some(name) => name.clone(),
            None => self.free_sequence_name(table.name, column, table.schema, runtime)?,
        };
        let options = given.options(None, type_oid)?;
        // The sessions draw from one sequence.
        let persistence = if table.persistence == GLOBAL { b'p' } else { table.persistence };
        let sequence = self.insert_sequence(&name, table.schema, persistence, &options, runtime)?;
        if let Some(owner) = table.owner.filter(|owner| *owner != self.context().identity.current_role) {
            // Whoever alters a table for its owner makes the sequence for him, too.
            let give = |row: &mut CatalogRow| row.set("relowner", Datum::Oid(owner));
            self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, sequence, runtime, give)?;
        }
        Ok(sequence)
    }

    pub(super) fn free_sequence_name(
        &mut self,
        table: &str,
        column: &str,
        schema: Oid,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        for number in 0.. {
            let label = if number == 0 { "seq".to_string() } else { format!("seq{number}") };
            let candidate = super::constraint::object_name(table, column, &label);
            if self.context_mut().with_catalog(runtime, |host| host.reader.relation_oid(schema, &candidate))?.is_none()
            {
                return Ok(candidate);
            }
        }
        Err(Error::internal("no free name"))
    }

    pub(super) fn insert_sequence(
        &mut self,
        name: &str,
        schema: Oid,
        persistence: u8,
        options: &SequenceOptions,
        runtime: &dyn Runtime,
    ) -> Result<Oid> {
        let column = |name: &str, type_oid: Oid| NewColumn {
            name: name.to_string(),
            type_oid,
            typmod: -1,
            not_null: true,
            ..NewColumn::default()
        };
        let columns =
            vec![column("last_value", oids::INT8), column("log_cnt", oids::INT8), column("is_called", oids::BOOL)];
        let new = NewTable {
            name: name.to_string(),
            schema,
            kind: b'S',
            persistence,
            columns,
            options: Vec::new(),
            class_columns: Vec::new(),
        };
        let oid = self.insert_table(&new, runtime)?;
        let storage = self.new_storage(RelationKind::Cell, persistence)?;
        self.begin_sequence(storage, SequenceState { last_value: options.start, is_called: false, log_count: 0 })?;
        self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, oid, runtime, |row| {
            row.set("relfilenode", Datum::Oid(storage.0))
        })?;
        self.write_catalog(runtime, |w| w.insert(PG_SEQUENCE, &sequence_row(oid, options)).map(|_| ()))?;
        Ok(oid)
    }

    pub(crate) fn sequence_options(&mut self, oid: Oid) -> Result<SequenceOptions> {
        let rows = self.context_mut().catalog_lookup(PG_SEQUENCE, PG_SEQUENCE_SEQRELID_INDEX, &[Datum::Oid(oid)])?;
        rows.first()
            .map(SequenceOptions::of_row)
            .ok_or_else(|| Error::internal(format!("sequence {oid} has no definition")))
    }

    pub fn alter_sequence(&mut self, s: &nodes::AlterSeqStmt, source: &str, runtime: &dyn Runtime) -> Result<()> {
        let r = s.sequence().ok_or_else(|| Error::internal("ALTER SEQUENCE without a name"))?;
        let Some(sequence) = self.relation_if_any(r, s.missing_ok, runtime)? else { return Ok(()) };
        if sequence.kind != kilndb_catalog::TableKind::Sequence {
            return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("cannot open relation \"{}\"", sequence.name))
                .with_detail(super::identity::not_for(sequence.kind)));
        }
        let options: Vec<Node<'_>> = s.options().iter().collect();
        self.change_sequence(&sequence, options, source, runtime)
    }

    pub(super) fn change_sequence(
        &mut self,
        sequence: &Arc<Table>,
        options: Vec<Node<'_>>,
        source: &str,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let given = self.given_options(options, source, runtime)?;
        self.change_given(sequence, &given, runtime)
    }

    /// The sequence's values become those of another integer type, and so do bounds that are those of its type.
    pub(super) fn retype_sequence(&mut self, sequence: Oid, type_oid: Oid, runtime: &dyn Runtime) -> Result<()> {
        let sequence = self.context_mut().table_by_oid(sequence, runtime)?;
        self.change_given(&sequence, &Given { type_oid: Some(type_oid), ..Given::default() }, runtime)
    }

    /// A change of more than the owner gives the sequence a new cell, so that a rollback brings the old value back.
    fn change_given(&mut self, sequence: &Arc<Table>, given: &Given, runtime: &dyn Runtime) -> Result<()> {
        let sequence = self.lock_for_ddl(sequence, kilndb_storage::LockMode::ShareRowExclusive, runtime)?;
        if given.changes_state() {
            let previous = self.sequence_options(sequence.oid)?;
            let options = given.options(Some(&previous), oids::INT8)?;
            let mut state = SequenceState::decode(
                &self
                    .context()
                    .shared
                    .temporary
                    .relation(&self.context().cluster.engine, sequence.storage)?
                    .cell_read()?,
            )?;
            given.restart_in(&mut state, &options)?;
            let cell = self.replace_storage(
                sequence.oid,
                sequence.storage,
                RelationKind::Cell,
                sequence.persistence,
                runtime,
            )?;
            self.begin_sequence(cell, state)?;
            self.context().shared.scratch.sequence_cache.borrow_mut().remove(&sequence.oid);
            let rows = self.context_mut().catalog_lookup(
                PG_SEQUENCE,
                PG_SEQUENCE_SEQRELID_INDEX,
                &[Datum::Oid(sequence.oid)],
            )?;
            if let Some(row) = rows.first() {
                let mut new = row.clone();
                for (name, value) in sequence_row(sequence.oid, &options) {
                    new.set(name, value);
                }
                self.write_catalog(runtime, |w| w.update(row, new.values()))?;
            }
        }
        match &given.owned_by {
            Some(names) => self.own_sequence(sequence.oid, names, runtime),
            None => Ok(()),
        }
    }
}

fn sequence_row(oid: Oid, o: &SequenceOptions) -> Vec<(&'static str, Datum)> {
    vec![
        ("seqrelid", Datum::Oid(oid)),
        ("seqtypid", Datum::Oid(o.type_oid)),
        ("seqstart", Datum::Int8(o.start)),
        ("seqincrement", Datum::Int8(o.increment)),
        ("seqmax", Datum::Int8(o.max)),
        ("seqmin", Datum::Int8(o.min)),
        ("seqcache", Datum::Int8(o.cache)),
        ("seqcycle", Datum::Bool(o.cycle)),
    ]
}
