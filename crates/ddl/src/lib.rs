//! CREATE, ALTER, DROP and their kin: changes to the system tables, inside the session's transaction.
//!
//! Invariants
//! 1. Every change goes through [`CatalogWriter`]; storage relations are created and dropped in the same transaction.
//! 2. After each change [`SessionContext::catalog_changed`] is called, so that the next look-up sees it.
//! 3. An object that others depend on is dropped only with CASCADE (pg_depend: see [`dependency`]).
//!
//! Must not know: sessions, prepared statements, portals, messages, the client ([`DefinitionHost`] is what it asks of whoever
//! runs a command), how sessions find a statement's handler.

mod add_column;
mod alter_constraint;
mod alter_partitions;
mod alter_table;
mod alter_type;
mod analyze;
mod build;
mod built_size;
mod cluster;
pub mod collation;
mod comment;
pub use comment::refuse_security_label;
mod constraint;
mod constraint_attributes;
mod create_table;
mod database;
mod default;
mod depend;
mod dependency;
mod domain;
mod drop;
mod drop_column;
mod extension;
mod foreign_key_triggers;
pub mod function;
mod global_index;
mod grant;
mod identity;
mod index;
mod index_class;
mod key_merge;
mod key_sort;
mod large_object;
mod like;
mod materialized_view;
mod not_null;
mod older_keys;
mod online;
mod operator_class;
mod operator_class_objects;
mod partition;
mod partition_attach;
pub mod partition_detach;
mod partition_keys;
pub mod partition_table;
mod permission;
mod persistence;
mod physical;
mod policy;
mod range_type;
mod reassign_owned;
pub mod reindex;
mod renaming;
mod role;
mod routine_objects;
mod row_type_users;
mod schema;
mod sequence;
mod short_key;
mod statistics_object;
mod stored_text;
mod table_as;
mod table_rewrite;
mod temporary_objects;
pub mod text_search;
mod text_search_objects;
mod trigger;
mod trigger_clone;
mod truncate;
mod types;
mod vacuum;
mod view;

use kilndb_context::{client, host, privileges, session_context as context, settings};

use crate::client::Runtime;
use crate::context::{Block, SessionContext};
use crate::host::routine_definition;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_catalog::builtin::{FIRST_USER_OID, PG_CATALOG};
use kilndb_catalog::global::GLOBAL;
use kilndb_catalog::privileges::privilege;
use kilndb_catalog::store::CatalogWriter;
use kilndb_catalog::trigger::TriggerOperation;
use kilndb_catalog::{FunctionInfo, Table, TableKind};
use kilndb_exec::RowSink;
use kilndb_plan::Plan;
use kilndb_storage::{LockMode, Snapshot, WaitPolicy};
use kilndb_syntax::raw::ObjectType as O;
use kilndb_syntax::{Node, nodes};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What definitions ask of whoever makes them.
pub trait DefinitionHost {
    fn context(&self) -> &SessionContext;
    fn context_mut(&mut self) -> &mut SessionContext;
    /// Runs a plan, with the locks that it needs, on what the snapshot sees. Returns how many rows there were.
    fn run_plan(
        &mut self,
        plan: &Arc<Plan>,
        snapshot: Snapshot,
        runtime: &dyn Runtime,
        sink: &mut dyn RowSink,
    ) -> Result<u64>;
    /// Does a statement that has begun and not ended use such a plan?
    fn any_running(&self, uses: &dyn Fn(&Plan) -> bool) -> bool;
    /// Ends the transaction.
    fn commit(&mut self, runtime: &dyn Runtime) -> Result<()>;
    /// Makes a definition that another one has in it.
    fn define(&mut self, definition: &DefinitionStatement<'_>) -> Result<String>;
    /// Fires a table's statement triggers.
    fn fire_statement_triggers(
        &mut self,
        table: &Arc<Table>,
        operation: TriggerOperation,
        bits: i16,
        runtime: &dyn Runtime,
    ) -> Result<()>;
    /// Has a routine's language check its body.
    fn check_routine(
        &mut self,
        definition: &routine_definition::Definition,
        info: &FunctionInfo,
        runtime: &dyn Runtime,
    ) -> Result<()>;
    /// Nobody uses a database any more, nor by its name.
    fn forget_database(&self, database: Oid);
}

/// A definition that is to be made.
pub struct DefinitionStatement<'a> {
    pub node: Node<'a>,
    /// The text that was parsed.
    pub source: &'a Arc<str>,
    pub runtime: &'a dyn Runtime,
}

/// One command's changes of the system tables: what commands have in common.
pub struct Definitions<'a> {
    host: &'a mut dyn DefinitionHost,
    /// The command's tag.
    command: &'static str,
    /// The lock on the table that the command is about, where the command alone tells it.
    lock: Option<LockMode>,
    /// Objects whose definitions have been written, and whose dependencies are not settled yet.
    changed: BTreeSet<(Oid, Oid)>,
    /// Those of them that the command has created. What it deletes and inserts again is not new.
    created: BTreeSet<(Oid, Oid)>,
    deleted: BTreeSet<(Oid, Oid)>,
    /// Relations that have lost attributes, and whose rows may be stored in columns of others.
    narrowed: BTreeSet<Oid>,
    /// What the command does beside others.
    online: Option<online::OnlineChange>,
    /// The columns that the command changes together.
    rewrite: Option<table_rewrite::TableRewrite>,
}

impl<'a> Definitions<'a> {
    pub fn new(host: &'a mut dyn DefinitionHost, command: &'static str, lock: Option<LockMode>) -> Definitions<'a> {
        Definitions {
            host,
            command,
            lock,
            changed: BTreeSet::new(),
            created: BTreeSet::new(),
            deleted: BTreeSet::new(),
            narrowed: BTreeSet::new(),
            online: None,
            rewrite: None,
        }
    }
}

impl Definitions<'_> {
    pub(crate) fn context(&self) -> &SessionContext {
        self.host.context()
    }
    pub(crate) fn context_mut(&mut self) -> &mut SessionContext {
        self.host.context_mut()
    }

    /// What a command has come to: its dependencies are settled if it has worked.
    pub fn finish_command(&mut self, done: Result<String>, runtime: &dyn Runtime) -> Result<String> {
        if let Some(txn) = &mut self.context_mut().transaction.txn {
            txn.next_command();
        }
        let tag = done?;
        self.finish_online(runtime)?;
        self.settle_dependencies(runtime)?;
        Ok(tag)
    }

    /// Does a part of a command that stands alone in a transaction of its own: nobody waits for the rest of the command
    /// to see it, or to get a lock that it has taken.
    fn in_own_transaction(
        &mut self,
        runtime: &dyn Runtime,
        part: impl FnOnce(&mut Definitions<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut definitions = Definitions::new(&mut *self.host, self.command, self.lock);
        let done = part(&mut definitions);
        definitions.finish_command(done.map(|()| String::new()), runtime)?;
        self.host.commit(runtime)?;
        self.context_mut().begin_statement(runtime)
    }

    /// The lock that the command takes on the table that it is about.
    fn table_lock(&self) -> LockMode {
        self.lock.unwrap_or(LockMode::AccessExclusive)
    }

    /// Ends an implicit transaction.
    fn finish_implicit(&mut self, runtime: &dyn Runtime) -> Result<()> {
        if self.context().transaction.block == Block::Implicit { self.host.commit(runtime) } else { Ok(()) }
    }

    /// Changes system tables. What was looked up before is stale afterwards.
    pub fn write_catalog<R>(
        &mut self,
        runtime: &dyn Runtime,
        change: impl FnOnce(&mut CatalogWriter<'_>) -> Result<R>,
    ) -> Result<R> {
        let (done, written) = self.context_mut().write_catalog(runtime, change)?;
        self.changed.extend(written.defined);
        self.deleted.extend(written.deleted);
        self.created.extend(written.created.into_iter().filter(|object| !self.deleted.contains(object)));
        done
    }

    /// A running statement of this session does not expect a table that it uses to change.
    fn refuse_if_running(&self, table: &Table, mode: LockMode) -> Result<()> {
        // What these change is of no account to a statement that has been planned.
        const HARMLESS: [&str; 5] = ["CREATE TRIGGER", "COMMENT", "CREATE POLICY", "ALTER POLICY", "DROP POLICY"];
        if mode <= LockMode::RowExclusive || HARMLESS.contains(&self.command) {
            return Ok(());
        }
        let uses = |plan: &kilndb_plan::Plan| plan.locks.iter().any(|(oid, _)| *oid == table.oid);
        if self.host.any_running(&uses) {
            let command = if self.command == "TRUNCATE TABLE" { "TRUNCATE" } else { self.command };
            let message = format!(
                "cannot {command} \"{}\" because it is being used by active queries in this session",
                table.name
            );
            return Err(Error::new(sqlstate::OBJECT_IN_USE, message));
        }
        Ok(())
    }

    /// The relation that a command names. None: there is none, which the client is told as IF EXISTS has it.
    pub(crate) fn relation_if_any(
        &mut self,
        r: &nodes::RangeVar,
        missing_ok: bool,
        runtime: &dyn Runtime,
    ) -> Result<Option<Arc<Table>>> {
        let found = self.context_mut().find_relation_of(r, runtime)?;
        match found {
            None if missing_ok => {
                let message = format!("relation \"{}\" does not exist, skipping", r.relname().unwrap_or(""));
                self.context().notice(Severity::Notice, message);
                Ok(None)
            }
            None => Err(context::missing_relation(r)),
            found => Ok(found),
        }
    }

    /// Takes ACCESS EXCLUSIVE (or another mode) on a table that DDL is about to change, then looks again.
    pub(crate) fn lock_for_ddl(&mut self, table: &Table, mode: LockMode, runtime: &dyn Runtime) -> Result<Arc<Table>> {
        if table.is_catalog && !self.context().catalogs.allow_system_objects {
            return Err(Error::new(
                sqlstate::INSUFFICIENT_PRIVILEGE,
                format!("permission denied: \"{}\" is a system catalog", table.name),
            ));
        }
        self.refuse_if_running(table, mode)?;
        // Of a table that is changed beside others the last step takes the lock.
        if !self.online.as_ref().is_some_and(|online| online.is_of(table.oid)) {
            self.context_mut().lock_table(table.oid, mode, WaitPolicy::Wait, runtime)?;
        }
        let table = self.context_mut().table_by_oid(table.oid, runtime)?;
        if table.persistence == GLOBAL
            && mode > LockMode::RowExclusive
            && self.context().shared.temporary.is_used_by_others(table.oid)
        {
            let message = format!(
                "cannot change global temporary table \"{}\" because other sessions have rows in it",
                table.name
            );
            return Err(Error::new(sqlstate::OBJECT_IN_USE, message));
        }
        Ok(table)
    }

    /// Is a relation temporary that is to be made under this name? So it is if it says so, or if its schema is.
    pub(crate) fn will_be_temporary(&mut self, r: &nodes::RangeVar, runtime: &dyn Runtime) -> Result<bool> {
        kilndb_bind::refuse_other_database(r, &self.context().database.name)?;
        if r.relpersistence as u8 == b't' {
            return Ok(true);
        }
        let temporary = self.is_own_temporary_schema(r.schemaname(), runtime)?;
        if temporary && r.relpersistence as u8 == b'u' {
            return Err(Error::new(
                sqlstate::INVALID_TABLE_DEFINITION,
                "only temporary relations may be created in temporary schemas",
            ));
        }
        Ok(temporary)
    }

    /// Is it the session's temporary schema where an object is made under this name?
    pub(crate) fn is_own_temporary_schema(&mut self, schema: Option<&str>, runtime: &dyn Runtime) -> Result<bool> {
        let own = self.context().shared.temporary.schema();
        self.context_mut().with_catalog(runtime, |host| match schema {
            Some("pg_temp") => Ok(true),
            Some(name) => Ok(own.is_some() && host.reader.schema_oid(name)? == own),
            None => Ok(host.reader.creation_schema == Some("pg_temp")),
        })
    }

    /// 42501 unless the role in force may make temporary objects in the database. As in PostgreSQL it is the database
    /// that refuses while the session has no temporary schema, and later that schema.
    fn require_temporary_tables(&mut self) -> Result<()> {
        if self.context().is_superuser() {
            return Ok(());
        }
        self.require_on_own_database(privilege::TEMPORARY).map_err(|_| {
            let context = self.context();
            let message = match context.shared.temporary.schema() {
                None => {
                    format!("permission denied to create temporary tables in database \"{}\"", context.database.name)
                }
                Some(_) => format!("permission denied for schema {}", context.temporary_schema_name()),
            };
            Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, message)
        })
    }

    /// The schema that a new object would be in, if there is one.
    fn schema_to_create_in(&mut self, schema: Option<&str>, runtime: &dyn Runtime) -> Result<Option<Oid>> {
        self.context_mut().with_catalog(runtime, |host| match schema.or(host.reader.creation_schema) {
            Some(name) => host.reader.schema_oid(name),
            None => Ok(None),
        })
    }

    /// Schema of a new object: the one named or the first of search_path. Returns OID and name.
    pub(crate) fn creation_schema(
        &mut self,
        schema: Option<&str>,
        temporary: bool,
        runtime: &dyn Runtime,
    ) -> Result<(Oid, String)> {
        if temporary {
            if let Some(name) = schema
                && name != "pg_temp"
                && (self.context().shared.temporary.schema().is_none()
                    || self.context_mut().with_catalog(runtime, |host| host.reader.schema_oid(name))?
                        != self.context().shared.temporary.schema())
            {
                if name.starts_with("pg_temp_") {
                    return Err(Error::new(
                        sqlstate::INVALID_TABLE_DEFINITION,
                        "cannot create relations in temporary schemas of other sessions",
                    ));
                }
                return Err(Error::new(
                    sqlstate::INVALID_TABLE_DEFINITION,
                    "cannot create temporary relation in non-temporary schema",
                ));
            }
            self.context().refuse_in_restricted_operation("create temporary table")?;
            self.require_temporary_tables()?;
            let oid = self.own_temporary_schema(runtime)?;
            return Ok((oid, "pg_temp".to_string()));
        }
        let name = match schema {
            Some(name) => name.to_string(),
            None => self
                .context_mut()
                .with_catalog(runtime, |host| Ok(host.reader.creation_schema.map(str::to_string)))?
                .ok_or_else(|| Error::new(sqlstate::INVALID_SCHEMA_NAME, "no schema has been selected to create in"))?,
        };
        let oid = self.context_mut().with_catalog(runtime, |host| host.reader.schema_oid(&name))?;
        let oid =
            oid.ok_or_else(|| Error::new(sqlstate::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist")))?;
        if !self.context().is_superuser() {
            self.require_on_schema(oid, privilege::CREATE, runtime)?;
        }
        if oid == PG_CATALOG && !self.context().catalogs.allow_system_objects {
            return Err(Error::new(
                sqlstate::INSUFFICIENT_PRIVILEGE,
                "permission denied to create in schema \"pg_catalog\"",
            )
            .with_detail("System catalog modifications are currently disallowed."));
        }
        Ok((oid, name))
    }
}

/// Strings of a list of String nodes.
pub fn strings<'a>(list: impl IntoIterator<Item = Node<'a>>) -> Vec<&'a str> {
    list.into_iter().filter_map(|n| n.as_str()).collect()
}

/// (schema, name) of a relation's qualified name given as a list, which may begin with `database`.
fn qualified_relation<'a>(node: Node<'a>, database: &str) -> Result<(Option<&'a str>, &'a str)> {
    let Node::NodeList(list) = node else { return Ok(qualified(node)) };
    let names = strings(list);
    match names.as_slice() {
        [other, _, _] if *other != database => {
            Err(kilndb_catalog::qualified_name::other_database(&format!("\"{}\"", names.join("."))))
        }
        [_, _, _, _, ..] => {
            let message = format!("improper relation name (too many dotted names): {}", names.join("."));
            Err(Error::new(sqlstate::SYNTAX_ERROR, message))
        }
        _ => Ok(qualified(node)),
    }
}

/// (schema, name) of a qualified name given as a list.
pub fn qualified<'a>(node: Node<'a>) -> (Option<&'a str>, &'a str) {
    let parts = match node {
        Node::NodeList(list) => strings(list),
        Node::String(s) => vec![s.sval().unwrap_or("")],
        Node::TypeName(t) => t.names().iter().map(|s| s.sval().unwrap_or("")).collect(),
        _ => Vec::new(),
    };
    match parts.as_slice() {
        [name] => (None, name),
        [.., schema, name] => (Some(schema), name),
        [] => (None, ""),
    }
}

pub(crate) fn object_word(kind: O::Type) -> &'static str {
    match kind {
        O::OBJECT_TABLE => "table",
        O::OBJECT_INDEX => "index",
        O::OBJECT_SEQUENCE => "sequence",
        O::OBJECT_VIEW => "view",
        O::OBJECT_SCHEMA => "schema",
        O::OBJECT_TYPE => "type",
        O::OBJECT_MATVIEW => "materialized view",
        _ => "object",
    }
}

pub(crate) fn is_user_object(oid: Oid) -> bool {
    oid >= FIRST_USER_OID
}

/// What a table-like relation is called in messages.
pub(crate) fn kind_word(kind: TableKind) -> &'static str {
    match kind {
        TableKind::Table | TableKind::Partitioned => "table",
        TableKind::Sequence => "sequence",
        TableKind::View => "view",
        TableKind::Materialized => "materialized view",
        TableKind::Index => "index",
        TableKind::Composite => "composite type",
    }
}
