//! REINDEX: new storage for indexes, filled from their tables; the old goes at commit.
//!
//! CONCURRENTLY is accepted where PostgreSQL accepts it and locks as REINDEX does.

use super::Definitions;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_catalog::builtin::FIRST_USER_OID;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_catalog::{CatalogView, Table, TableKind};
use kilndb_syntax::raw::ReindexObjectType as R;
use kilndb_syntax::{Node, nodes};
use std::sync::Arc;

/// REINDEX … CONCURRENTLY. The last of several options counts.
pub fn is_concurrent(s: &nodes::ReindexStmt) -> bool {
    let is_on = |option: &nodes::DefElem| match option.arg() {
        Node::String(word) => !matches!(word.sval(), Some("off" | "false" | "0")),
        Node::Integer(number) => number.ival != 0,
        Node::Boolean(flag) => flag.boolval,
        _ => true,
    };
    s.params().iter().rfind(|o| o.defname() == Some("concurrently")).is_some_and(is_on)
}

impl Definitions<'_> {
    pub fn reindex(&mut self, s: &nodes::ReindexStmt, runtime: &dyn Runtime) -> Result<()> {
        for option in s.params() {
            match option.defname().unwrap_or("") {
                "concurrently" | "verbose" => {}
                "tablespace" => return Err(Error::unsupported("REINDEX with TABLESPACE is not supported")),
                other => {
                    return Err(Error::new(sqlstate::SYNTAX_ERROR, format!("unrecognized REINDEX option \"{other}\"")));
                }
            }
        }
        match s.kind {
            R::REINDEX_OBJECT_INDEX => self.reindex_one(s, runtime),
            R::REINDEX_OBJECT_TABLE => self.reindex_named_table(s, runtime),
            _ => self.reindex_many(s, runtime),
        }
    }

    fn reindex_one(&mut self, s: &nodes::ReindexStmt, runtime: &dyn Runtime) -> Result<()> {
        let name = s.relation().ok_or_else(|| Error::internal("REINDEX without a name"))?;
        let index = self.context_mut().relation_of(name, runtime)?;
        if index.kind != TableKind::Index {
            return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("\"{}\" is not an index", index.name)));
        }
        if index.oid < FIRST_USER_OID {
            return Err(Error::unsupported("REINDEX of system catalogs is not supported"));
        }
        let table = self.table_of_index(index.oid, runtime)?;
        if let Some((whole, shared)) = self.tree_of_part(&table, index.oid, runtime)? {
            let whole = self.lock_for_ddl(&whole, self.table_lock(), runtime)?;
            return self.rebuild_index(&whole, shared, runtime);
        }
        if table.kind == TableKind::Partitioned {
            self.context().refuse_in_block("REINDEX INDEX")?;
        }
        let table = self.lock_online(&table, self.table_lock(), runtime)?;
        self.rebuild_index(&table, index.oid, runtime)
    }

    pub(super) fn table_of_index(&mut self, index: Oid, runtime: &dyn Runtime) -> Result<Arc<Table>> {
        let key = [kilndb_types::Datum::Oid(index)];
        let rows = self.context_mut().catalog_lookup(PG_INDEX, PG_INDEX_INDEXRELID_INDEX, &key)?;
        let row = rows.first().ok_or_else(|| Error::internal("an index without a row in pg_index"))?;
        self.context_mut().table_by_oid(row.oid("indrelid"), runtime)
    }

    /// The table and the index whose tree has the entries of a partition's part, which cannot be told from the others'
    /// there.
    fn tree_of_part(
        &mut self,
        table: &Arc<Table>,
        index: Oid,
        runtime: &dyn Runtime,
    ) -> Result<Option<(Arc<Table>, Oid)>> {
        let (mut table, mut index, mut found) = (table.clone(), index, None);
        while let Some(part) = table.indexes.iter().find(|i| i.oid == index && i.is_in_whole).cloned() {
            table = self.context_mut().table_by_oid(table.partition_of, runtime)?;
            index = part.part_of;
            found = Some((table.clone(), index));
        }
        Ok(found)
    }

    fn reindex_named_table(&mut self, s: &nodes::ReindexStmt, runtime: &dyn Runtime) -> Result<()> {
        let name = s.relation().ok_or_else(|| Error::internal("REINDEX without a name"))?;
        let table = self.context_mut().relation_of(name, runtime)?;
        if !table.kind.keeps_rows() {
            let message = format!("\"{}\" is not a table or materialized view", table.name);
            return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, message));
        }
        if table.is_catalog {
            return Err(Error::unsupported("REINDEX of system catalogs is not supported"));
        }
        if table.kind == TableKind::Partitioned {
            self.context().refuse_in_block("REINDEX TABLE")?;
        }
        let table = self.lock_tree_online(&table, self.table_lock(), runtime)?;
        if !self.rebuild_indexes(&table, runtime)? {
            self.context().notice(Severity::Notice, format!("table \"{}\" has no indexes to reindex", table.name));
        }
        Ok(())
    }

    /// SCHEMA and DATABASE: all tables of users there, each in a transaction of its own.
    fn reindex_many(&mut self, s: &nodes::ReindexStmt, runtime: &dyn Runtime) -> Result<()> {
        if s.kind == R::REINDEX_OBJECT_SYSTEM {
            return Err(Error::unsupported("REINDEX SYSTEM is not supported"));
        }
        let mut schema = None;
        if let Some(name) = s.name() {
            if s.kind == R::REINDEX_OBJECT_SCHEMA {
                let found = self.context_mut().with_catalog(runtime, |host| host.reader.schema_oid(name))?;
                let missing = || Error::new(sqlstate::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"));
                schema = Some(found.ok_or_else(missing)?);
            } else if name != self.context().database.name {
                return Err(Error::unsupported("can only reindex the currently open database"));
            }
        }
        let rows = self.context_mut().catalog_scan(PG_CLASS)?;
        let is_wanted = |row: &&CatalogRow| {
            matches!(row.char("relkind"), b'r' | b'm' | b'p')
                && row.oid("oid") >= FIRST_USER_OID
                && schema.is_none_or(|schema| row.oid("relnamespace") == schema)
        };
        let tables: Vec<Oid> = rows.iter().filter(is_wanted).map(|row| row.oid("oid")).collect();
        for oid in tables {
            self.in_own_transaction(runtime, |own| {
                // Another session may have dropped it meanwhile.
                match own.context_mut().with_catalog(runtime, |host| host.reader.table_by_oid(oid))? {
                    Some(table) => own.reindex_one_of_many(&table, runtime),
                    None => Ok(()),
                }
            })?;
        }
        Ok(())
    }

    fn reindex_one_of_many(&mut self, table: &Arc<Table>, runtime: &dyn Runtime) -> Result<()> {
        if table.kind != TableKind::Partitioned {
            let table = self.lock_online(table, self.table_lock(), runtime)?;
            return self.rebuild_indexes(&table, runtime).map(|_| ());
        }
        // Partitions have their turn; what they share is the partitioned table's.
        for index in table.indexes.iter().filter(|i| i.is_global && !i.is_in_whole) {
            let table = self.lock_for_ddl(table, self.table_lock(), runtime)?;
            self.rebuild_index(&table, index.oid, runtime)?;
        }
        Ok(())
    }

    /// False if there are none. Of a partitioned table: those of its partitions, and trees that these share.
    fn rebuild_indexes(&mut self, table: &Arc<Table>, runtime: &dyn Runtime) -> Result<bool> {
        let table = match self.is_online(table) {
            true => table.clone(),
            false => self.lock_part_online(table, self.table_lock(), runtime)?,
        };
        let mut any = false;
        for index in
            table.indexes.iter().filter(|i| !i.is_in_whole && (i.is_global || table.kind != TableKind::Partitioned))
        {
            any = true;
            self.rebuild_index(&table, index.oid, runtime)?;
        }
        if table.kind == TableKind::Partitioned {
            for partition in self.partition_oids(table.oid, runtime)? {
                let child = self.context_mut().table_by_oid(partition, runtime)?;
                any |= self.rebuild_indexes(&child, runtime)?;
            }
        }
        Ok(any || !table.indexes.is_empty())
    }

    /// Makes an index anew, with the privileges of the table's owner.
    pub(super) fn rebuild_index(&mut self, table: &Arc<Table>, index: Oid, runtime: &dyn Runtime) -> Result<()> {
        self.as_role(table.owner, |definitions| definitions.rebuild_index_of(table, index, runtime))
    }

    fn rebuild_index_of(&mut self, table: &Arc<Table>, index: Oid, runtime: &dyn Runtime) -> Result<()> {
        let missing = || Error::internal("an index is not one of its table");
        let old = table.indexes.iter().find(|i| i.oid == index).cloned().ok_or_else(missing)?;
        if old.is_in_whole {
            let message = format!(
                "index \"{}\" has its entries in the tree of the partitioned index that it is a part of",
                old.name
            );
            return Err(Error::unsupported(message).with_hint("REINDEX the partitioned table's index."));
        }
        if old.is_global {
            return self.rebuild_global_tree(table, &old, runtime);
        }
        if table.kind == TableKind::Partitioned {
            for partition in self.partition_oids(table.oid, runtime)? {
                let child = self.context_mut().table_by_oid(partition, runtime)?;
                let child = self.lock_for_ddl(&child, self.table_lock(), runtime)?;
                if let Some(part) = child.indexes.iter().find(|i| i.part_of == index) {
                    self.rebuild_index(&child, part.oid, runtime)?;
                }
            }
            return Ok(());
        }
        self.replace_storage(index, old.storage, old.storage_kind(), table.persistence, runtime)?;
        let table = self.context_mut().table_by_oid(table.oid, runtime)?;
        let index = table.indexes.iter().find(|i| i.oid == index).cloned().ok_or_else(missing)?;
        self.build_index_for(super::build::REINDEX, &table, &index, runtime)
    }
}
