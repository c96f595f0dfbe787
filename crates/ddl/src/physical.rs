//! What PostgreSQL's definitions say of how a table is stored and this engine stores otherwise: it is kept, shown and
//! dumped, and has no effect. ALTER TABLE … CLUSTER ON, REPLICA IDENTITY, ALTER COLUMN … SET STORAGE, SET COMPRESSION,
//! SET (n_distinct = …).

use super::Definitions;
use super::alter_table::column_of;
use super::create_table::NewColumn;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::CatalogView;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_catalog::store::array;
use kilndb_catalog::{Index, Table, TableKind};
use kilndb_syntax::{Node, nodes, raw::AlterTableType as A};
use kilndb_types::{Datum, oids};
use std::sync::Arc;

fn invalid(message: String) -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}

pub(super) fn index_named<'t>(table: &'t Table, name: &str) -> Result<&'t Arc<Index>> {
    table.indexes.iter().find(|i| i.name == name).ok_or_else(|| {
        Error::new(sqlstate::UNDEFINED_OBJECT, format!("index \"{name}\" for table \"{}\" does not exist", table.name))
    })
}

fn type_storage_in(catalog: &dyn CatalogView, ty: Oid) -> Result<(i16, u8)> {
    let info = catalog.type_by_oid(ty)?;
    let info = info.ok_or_else(|| Error::internal(format!("cache lookup failed for type {ty}")))?;
    Ok((info.len, info.storage))
}

impl Definitions<'_> {
    /// How values of a type are stored: bytes (negative: they differ), and PostgreSQL's letter of the strategy for
    /// large ones.
    pub(super) fn type_storage(&mut self, ty: Oid, runtime: &dyn Runtime) -> Result<(i16, u8)> {
        self.context_mut().with_catalog(runtime, |host| type_storage_in(&host.reader, ty))
    }

    /// The same of each column's type.
    pub(super) fn column_storages(&mut self, columns: &[NewColumn], runtime: &dyn Runtime) -> Result<Vec<(i16, u8)>> {
        self.context_mut().with_catalog(runtime, |host| {
            columns.iter().map(|column| type_storage_in(&host.reader, column.type_oid)).collect()
        })
    }

    pub(super) fn set_column_storage(
        &mut self,
        table: &Table,
        name: &str,
        def: Node<'_>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let column = column_of(table, name)?;
        let given = def.as_str().unwrap_or("");
        let (_, usual) = self.type_storage(column.type_oid, runtime)?;
        let letter = match given.to_ascii_lowercase().as_str() {
            "plain" => b'p',
            "external" => b'e',
            "extended" => b'x',
            "main" => b'm',
            "default" => usual,
            _ => return Err(invalid(format!("invalid storage type \"{given}\""))),
        };
        if letter != b'p' && usual == b'p' {
            let shown = self.type_shown(column.type_oid, runtime)?;
            return Err(Error::unsupported(format!("column data type {shown} can only have storage PLAIN")));
        }
        self.update_attribute(table.oid, column.attnum, runtime, |row| row.set("attstorage", Datum::Char(letter)))
    }

    pub(super) fn set_column_compression(
        &mut self,
        table: &Table,
        name: &str,
        def: Node<'_>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let column = column_of(table, name)?;
        let given = def.as_str().unwrap_or("");
        let letter = match given {
            "default" => 0,
            "pglz" => b'p',
            "lz4" => b'l',
            _ => return Err(invalid(format!("invalid compression method \"{given}\""))),
        };
        if letter != 0 && self.type_storage(column.type_oid, runtime)?.1 == b'p' {
            let shown = self.type_shown(column.type_oid, runtime)?;
            return Err(Error::unsupported(format!("column data type {shown} does not support compression")));
        }
        self.update_attribute(table.oid, column.attnum, runtime, |row| row.set("attcompression", Datum::Char(letter)))
    }

    /// SET (n_distinct = …) and RESET (n_distinct) of a column.
    pub(super) fn set_column_options(
        &mut self,
        table: &Table,
        name: &str,
        c: &nodes::AlterTableCmd,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let column = column_of(table, name)?;
        let Node::NodeList(list) = c.def() else { return Ok(()) };
        let is_reset = c.subtype == A::AT_ResetOptions;
        let (mut names, mut added) = (Vec::new(), Vec::new());
        for node in list.iter() {
            let Node::DefElem(d) = node else { continue };
            let option = d.defname().unwrap_or("").to_string();
            if !is_reset {
                added.push(format!("{option}={}", distinct_value(&option, d.arg())?));
            }
            names.push(option);
        }
        self.update_attribute(table.oid, column.attnum, runtime, |row| {
            let mut options: Vec<String> = row.texts("attoptions");
            options.retain(|o| !names.iter().any(|name| o.split('=').next() == Some(name)));
            options.extend(added);
            let value = if options.is_empty() {
                Datum::Null
            } else {
                array(oids::TEXT, options.iter().map(Datum::text).collect())
            };
            row.set("attoptions", value);
        })
    }

    /// CLUSTER ON; None: SET WITHOUT CLUSTER.
    pub(super) fn mark_clustered(
        &mut self,
        table: &Arc<Table>,
        name: Option<&str>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let index = name.map(|name| index_named(table, name)).transpose()?;
        if let Some(index) = index {
            let refused = |why: String| Err(Error::unsupported(why));
            if !index.method.can_cluster {
                return refused(format!(
                    "cannot cluster on index \"{}\" because access method does not support clustering",
                    index.name
                ));
            }
            if index.predicate_sql.is_some() {
                return refused(format!("cannot cluster on partial index \"{}\"", index.name));
            }
        }
        if table.kind == TableKind::Partitioned {
            return Err(Error::unsupported("cannot mark index clustered in partitioned table"));
        }
        let chosen = index.map_or(0, |i| i.oid);
        self.mark_indexes(table, "indisclustered", chosen, runtime)
    }

    pub(super) fn set_replica_identity(
        &mut self,
        table: &Arc<Table>,
        s: &nodes::ReplicaIdentityStmt,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        if !matches!(table.kind, TableKind::Table | TableKind::Partitioned) {
            return Err(Error::new(
                sqlstate::WRONG_OBJECT_TYPE,
                format!("ALTER action REPLICA IDENTITY cannot be performed on relation \"{}\"", table.name),
            ));
        }
        let letter = s.identity_type as u8;
        let chosen = if letter == b'i' { identity_index(table, s.name().unwrap_or(""))? } else { 0 };
        self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, table.oid, runtime, |row| {
            row.set("relreplident", Datum::Char(letter))
        })?;
        self.mark_indexes(table, "indisreplident", chosen, runtime)
    }

    /// Of a table's indexes only `chosen` has the mark.
    fn mark_indexes(&mut self, table: &Table, mark: &str, chosen: Oid, runtime: &dyn Runtime) -> Result<()> {
        for index in &table.indexes {
            let rows: Vec<CatalogRow> =
                self.context_mut().catalog_lookup(PG_INDEX, PG_INDEX_INDEXRELID_INDEX, &[Datum::Oid(index.oid)])?;
            for row in rows.iter().filter(|row| row.bool(mark) != (index.oid == chosen)) {
                let mut new = row.clone();
                new.set(mark, Datum::Bool(index.oid == chosen));
                self.write_catalog(runtime, |w| w.update(row, new.values()))?;
            }
        }
        Ok(())
    }
}

/// The index that tells rows apart: unique, of columns that are never NULL.
fn identity_index(table: &Table, name: &str) -> Result<Oid> {
    let index = index_named(table, name)?;
    let wrong = |message: String| Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, message));
    if !index.unique {
        return wrong(format!("cannot use non-unique index \"{name}\" as replica identity"));
    }
    if index.deferrable {
        return Err(Error::unsupported(format!("cannot use non-immediate index \"{name}\" as replica identity")));
    }
    if index.predicate_sql.is_some() {
        return Err(Error::unsupported(format!("cannot use partial index \"{name}\" as replica identity")));
    }
    for key in &index.keys {
        let Some(column) = table.columns.iter().find(|c| c.attnum == key.attnum) else {
            return Err(Error::unsupported(format!("cannot use expression index \"{name}\" as replica identity")));
        };
        if !column.not_null {
            return wrong(format!(
                "index \"{name}\" cannot be used as replica identity because column \"{}\" is nullable",
                column.name
            ));
        }
    }
    Ok(index.oid)
}

/// The value of n_distinct or n_distinct_inherited, as it was written.
fn distinct_value(option: &str, given: Node<'_>) -> Result<String> {
    if !matches!(option, "n_distinct" | "n_distinct_inherited") {
        return Err(invalid(format!("unrecognized parameter \"{option}\"")));
    }
    let text = match given {
        Node::Integer(i) => i.ival.to_string(),
        Node::Float(f) => f.fval().unwrap_or("").to_string(),
        other => other.as_str().unwrap_or("true").to_string(),
    };
    match text.parse::<f64>() {
        Ok(value) if value >= -1.0 => Ok(text),
        Ok(_) => Err(invalid(format!("value {text} out of bounds for option \"{option}\""))),
        Err(_) => Err(invalid(format!("invalid value for floating point option \"{option}\": {text}"))),
    }
}
