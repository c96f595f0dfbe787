//! CREATE INDEX: definition and catalog rows; `build` fills it.

use super::{Definitions, index_class};
use crate::client::Runtime;
use crate::create_table::{NewColumn, insert_attributes};
use crate::host::default_class;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_bind::collation::DerivedCollation;
use kilndb_bind::names::VisibleColumns;
use kilndb_catalog::cache::EXPRESSION_SEPARATOR;
use kilndb_catalog::ids::*;
use kilndb_catalog::store::{array, vector};
use kilndb_catalog::{AccessMethod, BTREE_METHOD, IndexKey, Table, TableKind};
use kilndb_storage::LockMode;
use kilndb_syntax::raw::{SortByDir, SortByNulls};
use kilndb_syntax::{Node, nodes};
use kilndb_types::{Datum, oids};
use std::sync::Arc;

pub(super) struct NewIndex {
    pub name: String,
    pub keys: Vec<IndexKey>,
    pub include: Vec<i16>,
    pub unique: bool,
    pub primary: bool,
    pub nulls_not_distinct: bool,
    pub immediate: bool,
    pub predicate: Option<String>,
    pub options: Vec<String>,
    /// OID of the access method.
    pub method: Oid,
    /// Its entries are in the tree of the index that it becomes a part of.
    pub in_whole: bool,
    /// It becomes a part of a partitioned table's index.
    pub is_part: bool,
}

/// What a key of an index is of, without the COLLATE clauses around it: the outermost one says how it is sorted.
struct KeySubject<'a> {
    column: Option<&'a str>,
    expression: Node<'a>,
    collation: Vec<&'a str>,
}

impl<'a> KeySubject<'a> {
    fn of(e: &'a nodes::IndexElem) -> KeySubject<'a> {
        let mut subject =
            KeySubject { column: e.name(), expression: e.expr(), collation: super::strings(e.collation()) };
        while let Node::CollateClause(c) = subject.expression {
            if subject.collation.is_empty() {
                subject.collation = super::strings(c.collname());
            }
            subject.expression = c.arg();
        }
        if let Node::ColumnRef(c) = subject.expression
            && let [name] = super::strings(c.fields()).as_slice()
        {
            subject.column = Some(*name);
        }
        subject
    }
}

impl Definitions<'_> {
    /// An ascending key over a column, of its type's own operator class.
    pub(super) fn plain_key(&mut self, table: &Table, attnum: i16, runtime: &dyn Runtime) -> Result<IndexKey> {
        let column = &table.columns[attnum as usize - 1];
        let type_oid = column.type_oid;
        let class =
            self.context_mut().with_catalog(runtime, |host| default_class(BTREE_METHOD, type_oid, &host.reader))?;
        Ok(IndexKey {
            attnum,
            expression_sql: None,
            type_oid,
            order_type: column.collation.order_type(type_oid),
            descending: false,
            nulls_first: false,
            collation: column.collation.oid,
            opclass: class.filter(|class| !super::is_user_object(*class)).unwrap_or(0),
        })
    }

    pub fn create_index(&mut self, s: &nodes::IndexStmt, runtime: &dyn Runtime) -> Result<()> {
        let relation = s.relation().ok_or_else(|| Error::internal("CREATE INDEX without a table"))?;
        let table = self.context_mut().relation_of(relation, runtime)?;
        if !table.kind.keeps_rows() {
            return Err(Error::new(
                sqlstate::WRONG_OBJECT_TYPE,
                format!("cannot create index on relation \"{}\"", table.name),
            ));
        }
        let method = self.index_method(s.access_method())?;
        index_class::check_method(s, method)?;
        let table = self.lock_tree_online(&table, self.table_lock(), runtime)?;
        let Some(new) = self.new_index(&table, s, method, runtime)? else { return Ok(()) };
        if table.kind == TableKind::Partitioned && s.concurrent {
            return Err(Error::unsupported(format!(
                "cannot create index on partitioned table \"{}\" concurrently",
                table.name
            )));
        }
        // The index is the table's owner's, and so is what its expressions do. What they name is looked up by whoever
        // runs the command.
        self.as_role(table.owner, |definitions| {
            let oid = definitions.insert_index(&table, &new, runtime)?;
            definitions.index_partitions(&table, oid, super::partition::says_only(relation), runtime)
        })
    }

    /// What CREATE INDEX says; None: there is a relation of that name, and the command does not mind.
    fn new_index(
        &mut self,
        table: &Arc<Table>,
        s: &nodes::IndexStmt,
        method: Oid,
        runtime: &dyn Runtime,
    ) -> Result<Option<NewIndex>> {
        let mut keys = Vec::new();
        let mut names = Vec::new();
        for element in s.index_params() {
            let (key, name) = self.index_key(element, table, method, runtime)?;
            keys.push(key);
            names.push(name);
        }
        if keys.len() > 32 {
            return Err(Error::new(sqlstate::TOO_MANY_COLUMNS, "cannot use more than 32 columns in an index"));
        }
        let predicate = match s.where_clause() {
            kilndb_syntax::Node::None => None,
            node => Some(kilndb_syntax::expression_sql(node)?),
        };
        if let Some(sql) = &predicate {
            self.check_index_expression(sql, table, Some((oids::BOOL, -1)), runtime)?;
        }
        let predicate =
            predicate.map(|sql| self.stored_expression(&sql, VisibleColumns::Table(table), runtime)).transpose()?;
        let name = match s.idxname() {
            Some(name) => name.to_string(),
            None => self.free_name(table, &names, "idx", runtime)?,
        };
        if self.name_is_taken(table.schema_oid, &name, "relation", s.if_not_exists, runtime)? {
            return Ok(None);
        }
        let mut include = Vec::new();
        for node in s.index_including_params() {
            if let kilndb_syntax::Node::IndexElem(e) = node {
                let names = [e.name().unwrap_or("").to_string()];
                include.extend(super::constraint::column_numbers(table, &names, "key")?);
            }
        }
        let options: Vec<kilndb_syntax::Node<'_>> = s.options().iter().map(kilndb_syntax::Node::DefElem).collect();
        let new = NewIndex {
            name,
            keys,
            include,
            unique: s.unique,
            primary: false,
            nulls_not_distinct: s.nulls_not_distinct,
            immediate: true,
            predicate,
            options: self.index_options(options)?,
            method,
            in_whole: false,
            is_part: false,
        };
        index_class::check_options(method, &new.options)?;
        Ok(Some(new))
    }

    /// The parts of a partitioned table's new index; without them (ONLY) it is not valid yet.
    pub(super) fn index_partitions(
        &mut self,
        table: &Arc<Table>,
        index: Oid,
        only: bool,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        if table.kind != TableKind::Partitioned {
            return Ok(());
        }
        let partitions = self.partition_oids(table.oid, runtime)?;
        if only && !partitions.is_empty() {
            return self.update_row(PG_INDEX, PG_INDEX_INDEXRELID_INDEX, index, runtime, |row| {
                row.set("indisvalid", Datum::Bool(false))
            });
        }
        let table = self.context_mut().table_by_oid(table.oid, runtime)?;
        let Some(whole) = table.indexes.iter().find(|i| i.oid == index).cloned() else { return Ok(()) };
        if whole.is_global {
            // One tree for all partitions does not follow what others do to them.
            self.finish_online(runtime)?;
        }
        for partition in partitions {
            let child = self.context_mut().table_by_oid(partition, runtime)?;
            let child = self.lock_part_online(&child, LockMode::Share, runtime)?;
            self.copy_index_to(&table, &whole, &child, runtime)?;
        }
        Ok(())
    }

    fn check_index_expression(
        &mut self,
        sql: &str,
        table: &Arc<Table>,
        target: Option<(Oid, i32)>,
        runtime: &dyn Runtime,
    ) -> Result<(Oid, DerivedCollation)> {
        self.context_mut().with_catalog(runtime, |host| {
            let bound = kilndb_bind::bind_expression(sql, Some(table), &host.reader, target).and_then(|b| {
                if b.expr.is_immutable() {
                    return Ok((b.expr.ty, b.expr.collation));
                }
                let what = if target.is_some() { "predicate" } else { "expression" };
                Err(Error::new(
                    sqlstate::INVALID_OBJECT_DEFINITION,
                    format!("functions in index {what} must be marked IMMUTABLE"),
                ))
            });
            bound.map_err(|mut e| {
                e.0.position = None;
                e
            })
        })
    }

    fn index_key(
        &mut self,
        e: &nodes::IndexElem,
        table: &Arc<Table>,
        method: Oid,
        runtime: &dyn Runtime,
    ) -> Result<(IndexKey, String)> {
        let descending = e.ordering == SortByDir::SORTBY_DESC;
        let nulls_first = match e.nulls_ordering {
            SortByNulls::SORTBY_NULLS_FIRST => true,
            SortByNulls::SORTBY_NULLS_LAST => false,
            _ => descending,
        };
        let subject = KeySubject::of(e);
        let (attnum, expression_sql, type_oid, collation, name) = match subject.column {
            Some(name) => {
                let column = table.columns.iter().find(|c| !c.dropped && c.name == name).ok_or_else(|| {
                    Error::new(sqlstate::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"))
                })?;
                (column.attnum, None, column.type_oid, column.collation.oid, name.to_string())
            }
            None => {
                let sql = kilndb_syntax::expression_sql(subject.expression)?;
                let (type_oid, derived) = self.check_index_expression(&sql, table, None, runtime)?;
                let sql = self.stored_expression(&sql, VisibleColumns::Table(table), runtime)?;
                let name = expression_column_name(&sql)?;
                let collation = self.collation_of_expression(type_oid, derived, runtime)?;
                (0, Some(sql), type_oid, collation, name)
            }
        };
        let collation = match subject.collation.is_empty() {
            true => collation,
            false => self.collation_for(type_oid, &subject.collation, runtime)?,
        };
        let opclass = self.index_class(e, method, type_oid, runtime)?;
        index_class::check_order(e, method)?;
        let order_type =
            self.context_mut().with_catalog(runtime, |host| host.reader.order_type(type_oid, collation))?;
        let key =
            IndexKey { attnum, expression_sql, type_oid, order_type, descending, nulls_first, collation, opclass };
        Ok((key, name))
    }

    /// Catalog rows, storage and contents of a new index.
    pub(super) fn insert_index(&mut self, table: &Arc<Table>, new: &NewIndex, runtime: &dyn Runtime) -> Result<Oid> {
        if self.name_is_taken(table.schema_oid, &new.name, "relation", false, runtime)? {
            return Err(Error::internal("a taken name was not refused"));
        }
        let oid = self.new_oid(table.oid)?;
        let is_partitioned = table.kind == TableKind::Partitioned;
        let storage = match is_partitioned {
            _ if new.in_whole => kilndb_base::RelationId(0),
            true => self.new_global_tree(table, new.unique, &new.keys)?,
            false => {
                let kind = AccessMethod::of(new.method).storage_kind();
                self.new_storage_like(kind, table.persistence, table.storage)?
            }
        };
        let owner = self.context().identity.current_role;
        let columns = self.index_columns(table, new, runtime)?;
        let storages = self.column_storages(&columns, runtime)?;
        let expressions: Vec<&str> = new.keys.iter().filter_map(|k| k.expression_sql.as_deref()).collect();
        let all: Vec<Datum> =
            new.keys.iter().map(|k| k.attnum).chain(new.include.iter().copied()).map(Datum::Int2).collect();
        let collations: Vec<Datum> =
            new.keys.iter().map(|k| Datum::Oid(k.collation)).chain(new.include.iter().map(|_| Datum::Oid(0))).collect();
        self.write_catalog(runtime, |w| {
            let mut class = vec![
                ("oid", Datum::Oid(oid)),
                ("relname", Datum::text(&new.name)),
                ("relnamespace", Datum::Oid(table.schema_oid)),
                ("relowner", Datum::Oid(owner)),
                ("relam", Datum::Oid(new.method)),
                ("relfilenode", Datum::Oid(storage.0)),
                ("reltuples", Datum::Float4(-1.0)),
                ("relpersistence", Datum::Char(table.persistence)),
                ("relkind", Datum::Char(if is_partitioned { b'I' } else { b'i' })),
                ("relnatts", Datum::Int2(all.len() as i16)),
                ("relispopulated", Datum::Bool(true)),
                ("relreplident", Datum::Char(b'n')),
                ("relispartition", Datum::Bool(new.is_part)),
            ];
            if !new.options.is_empty() {
                class.push(("reloptions", array(oids::TEXT, new.options.iter().map(Datum::text).collect())));
            }
            w.insert(PG_CLASS, &class)?;
            insert_attributes(w, oid, 1, &columns, &storages)?;
            let mut row = vec![
                ("indexrelid", Datum::Oid(oid)),
                ("indrelid", Datum::Oid(table.oid)),
                ("indnatts", Datum::Int2(all.len() as i16)),
                ("indnkeyatts", Datum::Int2(new.keys.len() as i16)),
                ("indisunique", Datum::Bool(new.unique)),
                ("indnullsnotdistinct", Datum::Bool(new.nulls_not_distinct)),
                ("indisprimary", Datum::Bool(new.primary)),
                ("indimmediate", Datum::Bool(new.immediate)),
                ("indisvalid", Datum::Bool(true)),
                ("indisready", Datum::Bool(true)),
                ("indislive", Datum::Bool(true)),
                ("indkey", vector(oids::INT2, all.clone())),
                ("indcollation", vector(oids::OID, collations.clone())),
                ("indclass", vector(oids::OID, new.keys.iter().map(|k| Datum::Oid(k.opclass)).collect())),
                (
                    "indoption",
                    vector(
                        oids::INT2,
                        new.keys
                            .iter()
                            .map(|k| Datum::Int2(i16::from(k.descending) | i16::from(k.nulls_first) << 1))
                            .collect(),
                    ),
                ),
            ];
            if !expressions.is_empty() {
                row.push(("indexprs", Datum::text(expressions.join(&EXPRESSION_SEPARATOR.to_string()))));
            }
            if let Some(sql) = &new.predicate {
                row.push(("indpred", Datum::text(sql)));
            }
            w.insert(PG_INDEX, &row).map(|_| ())
        })?;
        if table.indexes.is_empty() {
            self.mark_indexed(table.oid, runtime)?;
        }
        if is_partitioned || new.in_whole {
            return Ok(oid);
        }
        // The rows of a global temporary table are in storage of the session's own.
        let is_shared = table.persistence != kilndb_catalog::global::GLOBAL;
        let is_alone = is_shared && !self.is_online(table);
        if is_alone && new.predicate.is_none() && self.is_index_of_nothing(table, storage, true)? {
            return Ok(oid);
        }
        let table = self.context_mut().table_by_oid(table.oid, runtime)?;
        let index = table.indexes.iter().find(|i| i.oid == oid).cloned();
        let index = index.ok_or_else(|| Error::internal("a new index is not in the catalogs"))?;
        self.build_index(&table, &index, runtime)?;
        Ok(oid)
    }

    /// The table's row in pg_class says that it has indexes.
    fn mark_indexed(&mut self, table: Oid, runtime: &dyn Runtime) -> Result<()> {
        let rows = self.context_mut().catalog_lookup(PG_CLASS, PG_CLASS_OID_INDEX, &[Datum::Oid(table)])?;
        match rows.first().filter(|row| !row.bool("relhasindex")) {
            Some(row) => self.rewrite_row(row, runtime, |row| row.set("relhasindex", Datum::Bool(true))),
            None => Ok(()),
        }
    }

    fn index_columns(&mut self, table: &Table, new: &NewIndex, runtime: &dyn Runtime) -> Result<Vec<NewColumn>> {
        let mut columns = Vec::new();
        for key in &new.keys {
            let name = match key.attnum {
                0 => expression_column_name(key.expression_sql.as_deref().unwrap_or(""))?,
                n => table.columns[n as usize - 1].name.clone(),
            };
            let type_oid = self.stored_type(new.method, key.opclass, key.type_oid, runtime)?;
            let column = table.columns.iter().find(|c| c.attnum == key.attnum && c.type_oid == type_oid);
            columns.push(NewColumn {
                name,
                type_oid,
                typmod: column.map_or(-1, |c| c.typmod),
                collation: key.collation,
                ..NewColumn::default()
            });
        }
        for n in &new.include {
            let c = &table.columns[*n as usize - 1];
            columns.push(NewColumn {
                name: c.name.clone(),
                type_oid: c.type_oid,
                typmod: c.typmod,
                collation: c.collation.oid,
                ..NewColumn::default()
            });
        }
        // Index columns of one name get numbers, as in PostgreSQL.
        for i in 1..columns.len() {
            let base = columns[i].name.clone();
            let mut number = 0;
            while columns[..i].iter().any(|c| c.name == columns[i].name) {
                number += 1;
                columns[i].name = format!("{base}{number}");
            }
        }
        Ok(columns)
    }
}

/// The name of an index's column that is an expression: what a query would call it.
pub(super) fn expression_column_name(sql: &str) -> Result<String> {
    Ok(kilndb_bind::output_name(sql)?.unwrap_or_else(|| "expr".to_string()))
}
