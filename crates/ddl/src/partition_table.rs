//! CALL kiln_partition_table: a plain table becomes a partitioned one and keeps its OID; its rows move into new partitions,
//! beside the load. (PostgreSQL has no such command: its users make a second table, copy, and exchange the names.)

use super::Definitions;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, RelationId, Result, sqlstate};
use kilndb_catalog::format_type::quote_identifier;
use kilndb_catalog::ids::*;
use kilndb_catalog::{Table, TableKind};
use kilndb_storage::LockMode;
use kilndb_syntax::{Node, Statement, nodes};
use kilndb_types::Datum;
use std::sync::Arc;

/// The partitions that a table is to have.
pub enum NewPartitions {
    /// Each as `name FOR VALUES …` or `name DEFAULT`.
    Listed(Vec<String>),
    /// So many, by hash, with the table's name and a number.
    ByHash(i32),
}

/// What kiln_partition_table is asked for.
pub struct PartitioningRequest<'a> {
    pub table: Oid,
    /// What PARTITION BY would say: `range (created)`.
    pub by: &'a str,
    pub partitions: NewPartitions,
    /// The call is no part of a transaction block or another routine.
    pub is_alone: bool,
}

fn invalid(message: String) -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}

/// The only statement of a text.
fn one_statement(text: &str) -> Result<Statement> {
    let script = kilndb_syntax::parse(text).map_err(without_position)?;
    let mut statements = script.statements().into_iter();
    match (statements.next(), statements.next()) {
        (Some(statement), None) => Ok(statement.clone()),
        _ => Err(invalid(format!("not the definition of one partition: {text}"))),
    }
}

/// An error without its position, which is in a text that the client has not sent.
fn without_position(mut error: Error) -> Error {
    error.0.position = None;
    error
}

impl Definitions<'_> {
    pub fn partition_table(&mut self, request: &PartitioningRequest<'_>, runtime: &dyn Runtime) -> Result<()> {
        let table = self.context_mut().table_by_oid(request.table, runtime)?;
        self.require_table_owner(&table)?;
        self.refuse_partitioning(&table)?;
        let texts = partition_texts(&table, &request.partitions)?;
        let full = LockMode::AccessExclusive;
        let source = match request.is_alone {
            true => self.lock_online_at(1, &table, full, runtime)?,
            false => self.lock_for_ddl(&table, full, runtime)?,
        };
        self.refuse_partitioning(&source)?;
        self.make_partitioned(&source, request.by, runtime).map_err(without_position)?;
        for text in &texts {
            let statement = one_statement(text)?;
            let Node::CreateStmt(create) = statement.node() else {
                return Err(invalid(format!("not the definition of a partition: {text}")));
            };
            self.create_table(create, statement.source(), runtime).map_err(without_position)?;
        }
        let target = self.context_mut().table_by_oid(source.oid, runtime)?;
        self.copy_table(&source, &target, (&[], &[]), runtime)?;
        self.leave_storage(&source, runtime)
    }

    fn refuse_partitioning(&self, table: &Table) -> Result<()> {
        if table.kind != TableKind::Table {
            let message = format!("\"{}\" is not a plain table", table.name);
            return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, message));
        }
        if !matches!(table.persistence, b'p' | b'u') || table.is_catalog {
            return Err(Error::unsupported("only permanent tables of users can be partitioned"));
        }
        if table.partition_of != 0 {
            return Err(Error::unsupported("partitioning a table that is a partition itself is not supported"));
        }
        Ok(())
    }

    /// The table and its indexes have no storage of their own any more, in the system tables.
    fn make_partitioned(&mut self, table: &Arc<Table>, by: &str, runtime: &dyn Runtime) -> Result<()> {
        let statement = one_statement(&format!("create table kiln () partition by {by}"))?;
        let spec = match statement.node() {
            Node::CreateStmt(create) => create.partspec(),
            _ => None,
        };
        let spec: &nodes::PartitionSpec = spec.ok_or_else(|| invalid(format!("not a way to partition: {by}")))?;
        let none = |row: &mut kilndb_catalog::catalog_row::CatalogRow, kind: u8| {
            row.set("relkind", Datum::Char(kind));
            row.set("relfilenode", Datum::Oid(0));
            row.set("reltuples", Datum::Float4(-1.0));
            row.set("relpages", Datum::Int4(0));
        };
        self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, table.oid, runtime, |row| {
            none(row, b'p');
            row.set("relam", Datum::Oid(0));
        })?;
        self.insert_partition_key(table.oid, spec, statement.source(), runtime)?;
        for index in &table.indexes {
            self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, index.oid, runtime, |row| none(row, b'I'))?;
        }
        // A unique key that does not say which partition a row is in holds by one tree for all of them.
        let partitioned = self.context_mut().table_by_oid(table.oid, runtime)?;
        for index in &partitioned.indexes {
            let tree = self.new_global_tree(&partitioned, index.unique, &index.keys)?;
            self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, index.oid, runtime, |row| {
                row.set("relfilenode", Datum::Oid(tree.0));
            })?;
        }
        Ok(())
    }

    /// The old storage goes, in the last step if others use it until then.
    fn leave_storage(&mut self, source: &Table, runtime: &dyn Runtime) -> Result<()> {
        let mut heaps = Vec::new();
        for oid in self.partition_oids(source.oid, runtime)? {
            heaps.push(self.context_mut().table_by_oid(oid, runtime)?.storage);
        }
        let old = std::iter::once(source.storage).chain(source.indexes.iter().map(|index| index.storage));
        for (at, old) in old.enumerate() {
            let new: &[RelationId] = if at == 0 { &heaps } else { &[] };
            if !self.replace_later(old, new) {
                self.drop_replaced(old, new)?;
            }
        }
        Ok(())
    }
}

/// CREATE TABLE statements of the partitions.
fn partition_texts(table: &Table, partitions: &NewPartitions) -> Result<Vec<String>> {
    let qualified = format!("{}.{}", quote_identifier(&table.schema_name), quote_identifier(&table.name));
    let unlogged = if table.persistence == b'u' { "unlogged " } else { "" };
    let create = |name: &str, bound: &str| format!("create {unlogged}table {name} partition of {qualified} {bound}");
    match partitions {
        NewPartitions::Listed(texts) if texts.is_empty() => Err(invalid("no partition is named".to_string())),
        NewPartitions::Listed(texts) => texts
            .iter()
            .map(|text| {
                let (name, bound) =
                    split_name(text).ok_or_else(|| invalid(format!("a partition without bounds: {text}")))?;
                Ok(create(name, bound))
            })
            .collect(),
        NewPartitions::ByHash(count) if !(1..=100_000).contains(count) => {
            Err(invalid(format!("{count} is not a number of partitions")))
        }
        NewPartitions::ByHash(count) => Ok((0..*count)
            .map(|n| {
                let schema = quote_identifier(&table.schema_name);
                let name = quote_identifier(&format!("{}_{n}", table.name));
                let bound = format!("for values with (modulus {count}, remainder {n})");
                create(&format!("{schema}.{name}"), &bound)
            })
            .collect()),
    }
}

/// A name, which may be quoted and qualified, and what follows it.
fn split_name(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let mut is_quoted = false;
    let end = text.char_indices().find(|(_, c)| {
        is_quoted ^= *c == '"';
        c.is_whitespace() && !is_quoted
    })?;
    Some((&text[..end.0], text[end.0..].trim_start()))
}
