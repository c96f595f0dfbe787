//! ALTER COLUMN … ADD GENERATED, SET GENERATED, DROP IDENTITY; and whose sequence a sequence is.

use super::Definitions;
use super::alter_table::column_of;
use super::sequence::ColumnTable;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_bind::object_address::ObjectAddress;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_catalog::{CatalogView, Column, Table};
use kilndb_syntax::{Node, nodes};
use kilndb_types::{Datum, oids};
use std::sync::Arc;

fn state(message: String) -> Error {
    Error::new(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}

pub(super) fn identity_type(type_oid: Oid) -> Result<()> {
    if matches!(type_oid, oids::INT2 | oids::INT4 | oids::INT8) {
        return Ok(());
    }
    Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, "identity column type must be smallint, integer, or bigint"))
}

fn not_identity(table: &Table, column: &Column) -> String {
    format!("column \"{}\" of relation \"{}\" is not an identity column", column.name, table.name)
}

impl Definitions<'_> {
    pub(super) fn add_identity(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        def: Node<'_>,
        source: &str,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let column = column_of(table, name)?;
        let Node::Constraint(c) = def else { return Err(Error::internal("ADD GENERATED without its constraint")) };
        identity_type(column.type_oid)?;
        let is = |what: &str| state(format!("column \"{name}\" of relation \"{}\" {what}", table.name));
        if !column.not_null {
            return Err(is("must be declared NOT NULL before identity can be added"));
        }
        if column.identity != 0 {
            return Err(is("is already an identity column"));
        }
        if column.default_sql.is_some() {
            return Err(is("already has a default value"));
        }
        let options: Vec<Node<'_>> = c.options().iter().collect();
        let sequence =
            self.column_sequence(ColumnTable::of(table), (name, column.type_oid), (&options, source), runtime)?;
        let when = c.generated_when as u8;
        self.update_attribute(table.oid, column.attnum, runtime, |row| row.set("attidentity", Datum::Char(when)))?;
        self.tie_sequence(sequence, ObjectAddress::column(table.oid, column.attnum), b'i', runtime)?;
        self.keep_with_table(sequence, table.oid, runtime)
    }

    pub(super) fn set_identity(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        def: Node<'_>,
        source: &str,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let column = column_of(table, name)?;
        let (Some(sequence), true) = (column.identity_sequence, column.identity != 0) else {
            return Err(state(not_identity(table, column)));
        };
        let Node::NodeList(list) = def else { return Ok(()) };
        let mut options = Vec::new();
        for node in list {
            match node {
                Node::DefElem(d) if d.defname() == Some("generated") => {
                    let when = if let Node::Integer(i) = d.arg() { i.ival as u8 } else { column.identity };
                    self.update_attribute(table.oid, column.attnum, runtime, |row| {
                        row.set("attidentity", Datum::Char(when))
                    })?;
                }
                other => options.push(other),
            }
        }
        if options.is_empty() {
            return Ok(());
        }
        let sequence = self.context_mut().table_by_oid(sequence, runtime)?;
        self.change_sequence(&sequence, options, source, runtime)
    }

    pub(super) fn drop_identity(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        missing_ok: bool,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let column = column_of(table, name)?;
        if column.identity == 0 {
            if missing_ok {
                self.context().notice(Severity::Notice, format!("{}, skipping", not_identity(table, column)));
                return Ok(());
            }
            return Err(state(not_identity(table, column)));
        }
        self.update_attribute(table.oid, column.attnum, runtime, |row| row.set("attidentity", Datum::Char(0)))?;
        match column.identity_sequence {
            Some(sequence) => {
                self.remove_dependencies((PG_CLASS, sequence), Some(b'i'), runtime)?;
                self.delete_objects(&[ObjectAddress::object(PG_CLASS, sequence)], false, runtime)
            }
            None => Ok(()),
        }
    }

    /// The row of pg_depend that ties a sequence to a column: 'i' of an identity column, 'a' of OWNED BY.
    pub(super) fn sequence_link(&mut self, sequence: Oid) -> Result<Option<CatalogRow>> {
        let rows = self.context_mut().catalog_lookup(
            PG_DEPEND,
            PG_DEPEND_DEPENDER_INDEX,
            &[Datum::Oid(PG_CLASS), Datum::Oid(sequence)],
        )?;
        Ok(rows.into_iter().find(|r| r.oid("refclassid") == PG_CLASS && b"ai".contains(&r.char("deptype"))))
    }

    /// A relation's name, with its schema if that is not searched.
    pub(super) fn shown_name(&mut self, table: &Table, runtime: &dyn Runtime) -> Result<String> {
        let quote = kilndb_catalog::format_type::quote_identifier;
        let visible = self.context_mut().with_catalog(runtime, |host| host.reader.find_relation(None, &table.name))?
            == Some(table.oid);
        Ok(if visible { quote(&table.name) } else { format!("{}.{}", quote(&table.schema_name), quote(&table.name)) })
    }

    /// CREATE or ALTER SEQUENCE … OWNED BY.
    pub(super) fn own_sequence(&mut self, sequence: Oid, names: &[String], runtime: &dyn Runtime) -> Result<()> {
        let own = self.context_mut().table_by_oid(sequence, runtime)?;
        let linked = self.sequence_link(sequence)?;
        let target = match names {
            [none] if none == "none" => None,
            [] | [_] => {
                return Err(Error::new(sqlstate::SYNTAX_ERROR, "invalid OWNED BY option")
                    .with_hint("Specify OWNED BY table.column or OWNED BY NONE."));
            }
            [.., table, column] => {
                let schema = if names.len() > 2 { Some(names[names.len() - 3].as_str()) } else { None };
                Some(self.column_to_own(&own, schema, table, column, runtime)?)
            }
        };
        if let Some(link) = linked.filter(|l| l.char("deptype") == b'i') {
            let table = self.context_mut().table_by_oid(link.oid("refobjid"), runtime)?;
            return Err(Error::unsupported("cannot change ownership of identity sequence")
                .with_detail(format!("Sequence \"{}\" is linked to table \"{}\".", own.name, table.name)));
        }
        self.remove_dependencies((PG_CLASS, sequence), Some(b'a'), runtime)?;
        match target {
            Some((table, attnum)) => self.tie_sequence(sequence, ObjectAddress::column(table, attnum), b'a', runtime),
            None => Ok(()),
        }
    }

    fn column_to_own(
        &mut self,
        own: &Table,
        schema: Option<&str>,
        table: &str,
        column: &str,
        runtime: &dyn Runtime,
    ) -> Result<(Oid, i16)> {
        use kilndb_catalog::TableKind as K;
        let found = self.context_mut().with_catalog(runtime, |host| host.reader.table_by_name(schema, table))?;
        let found = found.ok_or_else(|| {
            let shown = schema.map_or(table.to_string(), |s| format!("{s}.{table}"));
            Error::new(sqlstate::UNDEFINED_TABLE, format!("relation \"{shown}\" does not exist"))
        })?;
        if !matches!(found.kind, K::Table | K::View | K::Partitioned) {
            return Err(Error::new(
                sqlstate::WRONG_OBJECT_TYPE,
                format!("sequence cannot be owned by relation \"{}\"", found.name),
            )
            .with_detail(not_for(found.kind)));
        }
        if found.owner != own.owner {
            return Err(state("sequence must have same owner as table it is linked to".to_string()));
        }
        if found.schema_oid != own.schema_oid {
            return Err(state("sequence must be in same schema as table it is linked to".to_string()));
        }
        Ok((found.oid, column_of(&found, column)?.attnum))
    }

    /// ALTER SEQUENCE … SET SCHEMA of one that goes with a table.
    /// 0A000 for a sequence that goes where its column's table goes, and is its owner's.
    pub(super) fn refuse_owned_sequence(
        &mut self,
        table: &Table,
        gets_owner: bool,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        if table.kind != kilndb_catalog::TableKind::Sequence {
            return Ok(());
        }
        let Some(link) = self.sequence_link(table.oid)? else { return Ok(()) };
        let owner = self.context_mut().table_by_oid(link.oid("refobjid"), runtime)?;
        let message = match gets_owner {
            true => format!("cannot change owner of sequence \"{}\"", table.name),
            false => "cannot move an owned sequence into another schema".to_string(),
        };
        Err(Error::unsupported(message)
            .with_detail(format!("Sequence \"{}\" is linked to table \"{}\".", table.name, owner.name)))
    }
}

/// "This operation is not supported for …".
pub(super) fn not_for(kind: kilndb_catalog::TableKind) -> String {
    format!("This operation is not supported for {}.", kind.plural())
}

/// The identity clauses of a column: at most one, and nothing that contradicts it.
pub(super) fn check_column_clauses(c: &nodes::ColumnDef, table: &str, is_serial: bool, source: &str) -> Result<()> {
    use kilndb_syntax::raw::ConstrType as C;
    let (mut default, mut identity, mut generated, mut null, mut not_null) =
        (is_serial, false, false, false, is_serial);
    let name = c.colname().unwrap_or("");
    for constraint in c.constraints() {
        let Node::Constraint(k) = constraint else { continue };
        let fail = |what: String| {
            Err(Error::new(sqlstate::SYNTAX_ERROR, format!("{what} for column \"{name}\" of table \"{table}\""))
                .or_position(kilndb_syntax::position_of(source, k.location)))
        };
        match k.contype {
            C::CONSTR_NULL if not_null => return fail("conflicting NULL/NOT NULL declarations".to_string()),
            C::CONSTR_NULL => null = true,
            C::CONSTR_NOTNULL if null => return fail("conflicting NULL/NOT NULL declarations".to_string()),
            C::CONSTR_NOTNULL => not_null = true,
            C::CONSTR_PRIMARY if null => {
                let at = c.constraints().iter().find_map(|o| match o {
                    Node::Constraint(o) if o.contype == C::CONSTR_NULL => Some(o.location),
                    _ => None,
                });
                return Err(Error::new(
                    sqlstate::SYNTAX_ERROR,
                    format!("conflicting NULL/NOT NULL declarations for column \"{name}\" of table \"{table}\""),
                )
                .or_position(kilndb_syntax::position_of(source, at.unwrap_or(-1))));
            }
            C::CONSTR_DEFAULT if default => return fail("multiple default values specified".to_string()),
            C::CONSTR_DEFAULT => default = true,
            C::CONSTR_IDENTITY if identity => return fail("multiple identity specifications".to_string()),
            C::CONSTR_IDENTITY if null => return fail("conflicting NULL/NOT NULL declarations".to_string()),
            C::CONSTR_IDENTITY => (identity, not_null) = (true, true),
            C::CONSTR_GENERATED if generated => return fail("multiple generation clauses specified".to_string()),
            C::CONSTR_GENERATED => generated = true,
            _ => {}
        }
        let pair = match (default, identity, generated) {
            (true, true, _) => Some("default and identity"),
            (true, _, true) => Some("default and generation expression"),
            (_, true, true) => Some("identity and generation expression"),
            _ => None,
        };
        if let Some(pair) = pair {
            return fail(format!("both {pair} specified"));
        }
    }
    Ok(())
}
