//! CLUSTER: a table's rows in the order of one of its indexes, in new storage.

use super::Definitions;
use super::physical::index_named;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_catalog::ids::*;
use kilndb_catalog::{CatalogView, Index, Table, TableKind};
use kilndb_storage::LockMode;
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;
use std::sync::Arc;

impl Definitions<'_> {
    pub fn cluster(&mut self, s: &nodes::ClusterStmt, runtime: &dyn Runtime) -> Result<()> {
        let verbose = is_verbose(s)?;
        let Some(name) = s.relation() else { return self.cluster_all(verbose, runtime) };
        let table = self.context_mut().relation_of(name, runtime)?;
        if !table.kind.keeps_rows() {
            let message = format!("\"{}\" is not a table or materialized view", table.name);
            return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, message));
        }
        if table.kind == TableKind::Partitioned {
            self.context().refuse_in_block("CLUSTER")?;
            return self.cluster_partitions(&table, s.indexname(), verbose, runtime);
        }
        let table = self.lock_online(&table, LockMode::AccessExclusive, runtime)?;
        let index = match s.indexname() {
            Some(index) => index_of(&table, index)?,
            None => self.marked_index(&table)?.ok_or_else(|| not_marked(&table))?,
        };
        self.cluster_table(&table, &index, verbose, runtime)
    }

    /// All tables that have been clustered before, each in a transaction of its own.
    fn cluster_all(&mut self, verbose: bool, runtime: &dyn Runtime) -> Result<()> {
        let rows = self.context_mut().catalog_scan(PG_INDEX)?;
        let marked = rows.iter().filter(|row| row.bool("indisclustered"));
        let marked: Vec<(Oid, Oid)> = marked.map(|row| (row.oid("indrelid"), row.oid("indexrelid"))).collect();
        for (table, index) in marked {
            self.in_own_transaction(runtime, |own| {
                // Somebody may have dropped it meanwhile, or the index.
                let Some(table) = own.context_mut().with_catalog(runtime, |host| host.reader.table_by_oid(table))?
                else {
                    return Ok(());
                };
                let table = own.lock_online(&table, LockMode::AccessExclusive, runtime)?;
                match table.indexes.iter().find(|i| i.oid == index).cloned() {
                    Some(index) => own.cluster_table(&table, &index, verbose, runtime),
                    None => Ok(()),
                }
            })?;
        }
        Ok(())
    }

    /// The partitions by their parts of the index.
    fn cluster_partitions(
        &mut self,
        table: &Arc<Table>,
        index: Option<&str>,
        verbose: bool,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let table = self.lock_for_ddl(table, LockMode::AccessExclusive, runtime)?;
        let whole = index_of(&table, index.ok_or_else(|| not_marked(&table))?)?;
        self.cluster_below(&table, &whole, verbose, runtime)
    }

    fn cluster_below(
        &mut self,
        table: &Arc<Table>,
        whole: &Arc<Index>,
        verbose: bool,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        for oid in self.partition_oids(table.oid, runtime)? {
            let partition = self.context_mut().table_by_oid(oid, runtime)?;
            let partition = self.lock_for_ddl(&partition, LockMode::AccessExclusive, runtime)?;
            let Some(part) = partition.indexes.iter().find(|i| i.part_of == whole.oid).cloned() else { continue };
            match partition.kind {
                TableKind::Partitioned => self.cluster_below(&partition, &part, verbose, runtime)?,
                _ => self.cluster_table(&partition, &part, verbose, runtime)?,
            }
        }
        Ok(())
    }

    fn cluster_table(
        &mut self,
        table: &Arc<Table>,
        index: &Arc<Index>,
        verbose: bool,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        table.indexes.iter().try_for_each(|i| self.refuse_for_global(i, "CLUSTER"))?;
        self.mark_clustered(table, Some(&index.name), runtime)?;
        if verbose {
            let message =
                format!("clustering \"{}.{}\" using index scan on \"{}\"", table.schema_name, table.name, index.name);
            self.context().notice(Severity::Info, message);
        }
        self.as_role(table.owner, |definitions| definitions.move_rows_with(table, (&[], &index.keys), runtime))
    }

    /// The index that the table was clustered by.
    fn marked_index(&mut self, table: &Table) -> Result<Option<Arc<Index>>> {
        for index in &table.indexes {
            let key = [Datum::Oid(index.oid)];
            let rows = self.context_mut().catalog_lookup(PG_INDEX, PG_INDEX_INDEXRELID_INDEX, &key)?;
            if rows.iter().any(|row| row.bool("indisclustered")) {
                return Ok(Some(index.clone()));
            }
        }
        Ok(None)
    }
}

fn index_of(table: &Table, name: &str) -> Result<Arc<Index>> {
    index_named(table, name).cloned()
}

fn not_marked(table: &Table) -> Error {
    let message = format!("there is no previously clustered index for table \"{}\"", table.name);
    Error::new(sqlstate::UNDEFINED_OBJECT, message)
}

fn is_verbose(s: &nodes::ClusterStmt) -> Result<bool> {
    let mut verbose = false;
    for option in s.params() {
        match (option.defname().unwrap_or(""), option.arg()) {
            ("verbose", Node::String(word)) => verbose = !matches!(word.sval(), Some("off" | "false" | "0")),
            ("verbose", Node::Integer(number)) => verbose = number.ival != 0,
            ("verbose", Node::Boolean(flag)) => verbose = flag.boolval,
            ("verbose", _) => verbose = true,
            (other, _) => {
                return Err(Error::new(sqlstate::SYNTAX_ERROR, format!("unrecognized CLUSTER option \"{other}\"")));
            }
        }
    }
    Ok(verbose)
}
