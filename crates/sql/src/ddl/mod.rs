//! CREATE, ALTER, DROP and their kin: changes to the system tables, inside the session's transaction.
//!
//! Invariants
//! 1. Every change goes through [`CatalogWriter`]; storage relations are created and dropped in the same transaction.
//! 2. After each change [`Session::catalog_changed`] is called, so that the next look-up sees it.
//! 3. An object that others depend on is dropped only with CASCADE (pg_depend: see [`dependency`]).

mod alter_constraint;
mod alter_partitions;
mod alter_table;
mod analyze;
mod build;
mod comment;
mod constraint;
mod constraint_attributes;
mod create_table;
mod database;
mod default;
mod depend;
pub(crate) mod dependency;
mod domain;
mod drop;
mod drop_column;
pub(crate) mod extension;
mod foreign_key_triggers;
pub(crate) mod function;
mod global_index;
mod identity;
mod index;
pub(crate) mod index_class;
mod key_sort;
mod like;
mod not_null;
mod operator_class;
mod operator_class_objects;
pub(crate) mod partition;
mod partition_attach;
pub(crate) mod partition_detach;
mod partition_keys;
mod persistence;
mod physical;
mod range_type;
mod reindex;
mod renaming;
mod role;
mod role_setting;
mod routine_objects;
mod schema;
pub(crate) mod sequence;
pub(crate) mod sequence_functions;
mod stored_text;
mod table_as;
mod temporary_objects;
mod text_search;
mod text_search_objects;
mod trigger;
mod trigger_clone;
mod truncate;
mod types;
mod vacuum;
mod view;

use crate::client::{Client, Runtime};
use crate::session::Session;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::builtin::{FIRST_USER_OID, PG_CATALOG};
use kilndb_catalog::global::GLOBAL;
use kilndb_catalog::store::{CatalogRow, CatalogWriter};
use kilndb_catalog::{CatalogView, Table, TableKind, temporary};
use kilndb_storage::{LockMode, WaitPolicy};
use kilndb_syntax::raw::ObjectType as O;
use kilndb_syntax::{Node, Statement, nodes};
use kilndb_types::Datum;
use std::sync::Arc;

impl Session {
    pub(crate) fn run_ddl(
        &mut self,
        statement: &Statement,
        runtime: &dyn Runtime,
        client: &mut dyn Client,
    ) -> Result<String> {
        self.begin_statement(runtime)?;
        let node = statement.node();
        let source = statement.source().clone();
        if let Some(command) = command_name(&node) {
            self.refuse_if_read_only(command)?;
        }
        self.ddl_command = command_name(&node).unwrap_or("ALTER TABLE");
        let tag = match node {
            Node::CreateStmt(s) => self.create_table(s, &source, runtime).map(|()| "CREATE TABLE".to_string()),
            Node::CreateTableAsStmt(s) => self.create_table_as(s, &source, runtime),
            Node::SelectStmt(s) => self.select_into(s, node, &source, runtime),
            Node::IndexStmt(s) => self.create_index(s, runtime).map(|()| "CREATE INDEX".to_string()),
            Node::CreateSeqStmt(s) => self.create_sequence(s, &source, runtime).map(|()| "CREATE SEQUENCE".to_string()),
            Node::AlterSeqStmt(s) => self.alter_sequence(s, &source, runtime).map(|()| "ALTER SEQUENCE".to_string()),
            Node::CreateSchemaStmt(s) => self.create_schema(s, runtime, client).map(|()| "CREATE SCHEMA".to_string()),
            Node::ViewStmt(s) => self.create_view(s, &source, runtime).map(|()| "CREATE VIEW".to_string()),
            Node::CreatedbStmt(s) => self.create_database(s, runtime).map(|()| "CREATE DATABASE".to_string()),
            Node::DropdbStmt(s) => self.drop_database(s, runtime).map(|()| "DROP DATABASE".to_string()),
            Node::AlterTableStmt(s) => self.alter_table(s, &source, runtime),
            Node::RenameStmt(s) => self.rename(s, runtime),
            Node::AlterObjectSchemaStmt(s) => self.set_schema(s, runtime),
            Node::AlterOwnerStmt(s) => self.set_owner(s, runtime),
            Node::DropStmt(s) => self.drop_objects(s, runtime),
            Node::CreateTrigStmt(s) => self.create_trigger(s, &source, runtime).map(|()| "CREATE TRIGGER".to_string()),
            Node::TruncateStmt(s) => self.truncate(s, runtime).map(|()| "TRUNCATE TABLE".to_string()),
            Node::CommentStmt(s) => self.comment(s, runtime).map(|()| "COMMENT".to_string()),
            Node::CreateRoleStmt(s) => self.create_role(s, runtime).map(|()| "CREATE ROLE".to_string()),
            Node::AlterRoleSetStmt(s) => self.alter_role_set(s, runtime).map(|()| "ALTER ROLE".to_string()),
            Node::AlterDatabaseSetStmt(s) => self.alter_database_set(s, runtime).map(|()| "ALTER DATABASE".to_string()),
            Node::AlterDatabaseStmt(s) => {
                self.alter_database(s, &source, runtime).map(|()| "ALTER DATABASE".to_string())
            }
            Node::AlterRoleStmt(s) => self.alter_role(s, runtime).map(|()| "ALTER ROLE".to_string()),
            Node::DropRoleStmt(s) => self.drop_role(s, runtime).map(|()| "DROP ROLE".to_string()),
            Node::AlterFunctionStmt(s) => self.alter_function(s, &source, runtime),
            Node::CreateFunctionStmt(s) => {
                let tag = if s.is_procedure { "CREATE PROCEDURE" } else { "CREATE FUNCTION" };
                self.create_function(s, &source, runtime).map(|()| tag.to_string())
            }
            Node::CompositeTypeStmt(s) => {
                self.create_composite_type(s, &source, runtime).map(|()| "CREATE TYPE".to_string())
            }
            Node::CreateEnumStmt(s) => self.create_enum(s, runtime).map(|()| "CREATE TYPE".to_string()),
            Node::CreateRangeStmt(s) => self.create_range_type(s, &source, runtime).map(|()| "CREATE TYPE".to_string()),
            Node::AlterEnumStmt(s) => self.alter_enum(s, runtime).map(|()| "ALTER TYPE".to_string()),
            Node::CreateDomainStmt(s) => self.create_domain(s, &source, runtime).map(|()| "CREATE DOMAIN".to_string()),
            Node::AlterDomainStmt(s) => self.alter_domain(s, &source, runtime).map(|()| "ALTER DOMAIN".to_string()),
            Node::DefineStmt(s) if text_search::kind_of(s.kind).is_some() => self.define_text_search(s, runtime),
            Node::AlterTSConfigurationStmt(s) => self.alter_config(s, runtime),
            Node::AlterTSDictionaryStmt(s) => self.alter_dictionary(s, runtime),
            Node::CreateOpClassStmt(s) => {
                self.create_operator_class(s, &source, runtime).map(|()| "CREATE OPERATOR CLASS".to_string())
            }
            Node::CreateOpFamilyStmt(s) => {
                self.create_operator_family(s, runtime).map(|()| "CREATE OPERATOR FAMILY".to_string())
            }
            Node::AlterOpFamilyStmt(s) => {
                self.alter_operator_family(s, &source, runtime).map(|()| "ALTER OPERATOR FAMILY".to_string())
            }
            Node::CreateExtensionStmt(s) => {
                self.create_extension(s, &source, runtime).map(|()| "CREATE EXTENSION".to_string())
            }
            Node::AlterExtensionStmt(s) => self.alter_extension(s).map(|()| "ALTER EXTENSION".to_string()),
            Node::ReindexStmt(s) => self.reindex(s, !self.in_explicit_block(), runtime),
            other => Err(Error::unsupported(format!("{} is not supported", statement_name(&other)))),
        };
        if tag.is_err() {
            self.changed_definitions.clear();
        }
        if let Some(txn) = &mut self.txn {
            txn.next_command();
        }
        let tag = tag?;
        self.settle_dependencies(runtime)?;
        Ok(tag)
    }

    /// Changes system tables. What was looked up before is stale afterwards.
    pub(crate) fn write_catalog<R>(
        &mut self,
        runtime: &dyn Runtime,
        change: impl FnOnce(&mut CatalogWriter<'_>) -> Result<R>,
    ) -> Result<R> {
        let txn = self.txn.as_mut().ok_or_else(|| Error::internal("no transaction for a catalog change"))?;
        let temporary = Some(&self.own.temporary);
        let mut writer = CatalogWriter {
            store: &self.database.store,
            txn,
            park: runtime,
            temporary,
            wrote_shared: false,
            changes: Default::default(),
            defined: Vec::new(),
        };
        let done = change(&mut writer);
        self.changed_definitions.extend(writer.defined.drain(..));
        if writer.wrote_shared {
            let changes = std::mem::take(&mut writer.changes);
            txn.next_command();
            self.catalog_changed(&changes);
        }
        done
    }

    /// Rows of a system table as this transaction sees them.
    pub(crate) fn catalog_lookup(&mut self, table: Oid, index: Oid, key: &[Datum]) -> Result<Vec<CatalogRow>> {
        let snapshot = self.catalog_snapshot()?;
        temporary::lookup(&self.database.store, &self.own.temporary, table, index, key, &snapshot)
    }
    pub(crate) fn catalog_scan(&mut self, table: Oid) -> Result<Vec<CatalogRow>> {
        let snapshot = self.catalog_snapshot()?;
        temporary::scan(&self.database.store, &self.own.temporary, table, &snapshot)
    }

    /// Asks the catalogs.
    pub(crate) fn with_catalog<R>(
        &mut self,
        runtime: &dyn Runtime,
        ask: impl FnOnce(&crate::session::environment::StatementHost<'_>) -> Result<R>,
    ) -> Result<R> {
        let environment = self.environment(runtime)?;
        let host = environment.host();
        ask(&host)
    }

    pub(crate) fn resolve_type(
        &mut self,
        t: &nodes::TypeName,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<(Oid, i32)> {
        self.with_catalog(runtime, |host| {
            kilndb_bind::Binder::new(&host.reader, source.clone(), Vec::new()).resolve_type(t)
        })
    }

    /// The relation named, of any kind; 42P01 if there is none.
    pub(crate) fn relation_of(&mut self, r: &nodes::RangeVar, runtime: &dyn Runtime) -> Result<Arc<Table>> {
        self.find_relation_of(r, runtime)?.ok_or_else(|| missing_relation(r))
    }

    pub(crate) fn find_relation_of(
        &mut self,
        r: &nodes::RangeVar,
        runtime: &dyn Runtime,
    ) -> Result<Option<Arc<Table>>> {
        kilndb_bind::refuse_other_database(r, &self.database.name)?;
        let (schema, name) = (r.schemaname(), r.relname().unwrap_or(""));
        self.with_catalog(runtime, |host| host.reader.table_by_name(schema, name))
    }

    /// An ordinary table; 42809 for anything else.
    pub(crate) fn table_of(&mut self, r: &nodes::RangeVar, runtime: &dyn Runtime) -> Result<Arc<Table>> {
        let table = self.relation_of(r, runtime)?;
        if matches!(table.kind, TableKind::Table | TableKind::Partitioned) {
            return Ok(table);
        }
        Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("\"{}\" is not a table", table.name)))
    }

    pub(crate) fn table_by_oid(&mut self, oid: Oid, runtime: &dyn Runtime) -> Result<Arc<Table>> {
        let found = self.with_catalog(runtime, |host| host.reader.table_by_oid(oid))?;
        found.ok_or_else(|| Error::new(sqlstate::UNDEFINED_TABLE, format!("relation with OID {oid} does not exist")))
    }

    /// A running statement of this session does not expect a table that it uses to change.
    fn refuse_if_running(&self, table: &Table, mode: LockMode) -> Result<()> {
        if mode <= LockMode::RowExclusive || matches!(self.ddl_command, "CREATE TRIGGER" | "COMMENT") {
            return Ok(());
        }
        let uses = |plan: &kilndb_plan::Plan| plan.locks.iter().any(|(oid, _)| *oid == table.oid);
        if self.running_plans.iter().any(|plan| uses(plan)) || self.own.portals.any_open(uses) {
            let command = if self.ddl_command == "TRUNCATE TABLE" { "TRUNCATE" } else { self.ddl_command };
            let message = format!(
                "cannot {command} \"{}\" because it is being used by active queries in this session",
                table.name
            );
            return Err(Error::new(sqlstate::OBJECT_IN_USE, message));
        }
        Ok(())
    }

    /// Takes ACCESS EXCLUSIVE (or another mode) on a table that DDL is about to change, then looks again.
    pub(crate) fn lock_for_ddl(&mut self, table: &Table, mode: LockMode, runtime: &dyn Runtime) -> Result<Arc<Table>> {
        if table.is_catalog {
            return Err(Error::new(
                sqlstate::INSUFFICIENT_PRIVILEGE,
                format!("permission denied: \"{}\" is a system catalog", table.name),
            ));
        }
        self.refuse_if_running(table, mode)?;
        self.lock_table(table.oid, mode, WaitPolicy::Wait, runtime)?;
        let table = self.table_by_oid(table.oid, runtime)?;
        if table.persistence == GLOBAL
            && mode > LockMode::RowExclusive
            && self.own.temporary.is_used_by_others(table.oid)
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
    pub(super) fn will_be_temporary(&mut self, r: &nodes::RangeVar, runtime: &dyn Runtime) -> Result<bool> {
        kilndb_bind::refuse_other_database(r, &self.database.name)?;
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
    pub(super) fn is_own_temporary_schema(&mut self, schema: Option<&str>, runtime: &dyn Runtime) -> Result<bool> {
        let own = self.own.temporary.schema();
        self.with_catalog(runtime, |host| match schema {
            Some("pg_temp") => Ok(true),
            Some(name) => Ok(own.is_some() && host.reader.schema_oid(name)? == own),
            None => Ok(host.reader.creation_schema == Some("pg_temp")),
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
                && (self.own.temporary.schema().is_none()
                    || self.with_catalog(runtime, |host| host.reader.schema_oid(name))? != self.own.temporary.schema())
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
            let oid = self.own_temporary_schema(runtime)?;
            return Ok((oid, "pg_temp".to_string()));
        }
        let name = match schema {
            Some(name) => name.to_string(),
            None => self
                .with_catalog(runtime, |host| Ok(host.reader.creation_schema.map(str::to_string)))?
                .ok_or_else(|| Error::new(sqlstate::INVALID_SCHEMA_NAME, "no schema has been selected to create in"))?,
        };
        let oid = self.with_catalog(runtime, |host| host.reader.schema_oid(&name))?;
        let oid =
            oid.ok_or_else(|| Error::new(sqlstate::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist")))?;
        if oid == PG_CATALOG && !self.allow_system_objects {
            return Err(Error::new(
                sqlstate::INSUFFICIENT_PRIVILEGE,
                "permission denied to create in schema \"pg_catalog\"",
            )
            .with_detail("System catalog modifications are currently disallowed."));
        }
        Ok((oid, name))
    }
}

pub(crate) fn missing_relation(r: &nodes::RangeVar) -> Error {
    let name = match r.schemaname() {
        Some(schema) => format!("{schema}.{}", r.relname().unwrap_or("")),
        None => r.relname().unwrap_or("").to_string(),
    };
    Error::new(sqlstate::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
}

/// The command's tag, for those that a read-only transaction refuses.
pub(crate) fn command_name(node: &Node<'_>) -> Option<&'static str> {
    let altered = |kind: O::Type| match kind {
        O::OBJECT_INDEX => "ALTER INDEX",
        O::OBJECT_VIEW => "ALTER VIEW",
        O::OBJECT_SEQUENCE => "ALTER SEQUENCE",
        O::OBJECT_SCHEMA => "ALTER SCHEMA",
        O::OBJECT_TRIGGER => "ALTER TRIGGER",
        O::OBJECT_TYPE | O::OBJECT_ATTRIBUTE => "ALTER TYPE",
        O::OBJECT_DOMAIN | O::OBJECT_DOMCONSTRAINT => "ALTER DOMAIN",
        O::OBJECT_DATABASE => "ALTER DATABASE",
        O::OBJECT_ROLE => "ALTER ROLE",
        O::OBJECT_TSCONFIGURATION => "ALTER TEXT SEARCH CONFIGURATION",
        O::OBJECT_TSDICTIONARY => "ALTER TEXT SEARCH DICTIONARY",
        O::OBJECT_TSPARSER => "ALTER TEXT SEARCH PARSER",
        O::OBJECT_TSTEMPLATE => "ALTER TEXT SEARCH TEMPLATE",
        O::OBJECT_EXTENSION => "ALTER EXTENSION",
        O::OBJECT_OPCLASS => "ALTER OPERATOR CLASS",
        O::OBJECT_OPFAMILY => "ALTER OPERATOR FAMILY",
        _ => "ALTER TABLE",
    };
    Some(match node {
        Node::CreateStmt(_) => "CREATE TABLE",
        Node::CreateTableAsStmt(_) => "CREATE TABLE AS",
        Node::SelectStmt(_) => "SELECT INTO",
        Node::IndexStmt(_) => "CREATE INDEX",
        Node::CreateSeqStmt(_) => "CREATE SEQUENCE",
        Node::AlterSeqStmt(_) => "ALTER SEQUENCE",
        Node::CreateSchemaStmt(_) => "CREATE SCHEMA",
        Node::ViewStmt(_) => "CREATE VIEW",
        Node::CreatedbStmt(_) => "CREATE DATABASE",
        Node::DropdbStmt(_) => "DROP DATABASE",
        Node::AlterTableStmt(s) => altered(s.objtype),
        Node::RenameStmt(s) => match s.rename_type {
            O::OBJECT_COLUMN | O::OBJECT_ATTRIBUTE => altered(s.relation_type),
            kind => altered(kind),
        },
        Node::AlterObjectSchemaStmt(s) => altered(s.object_type),
        Node::AlterOwnerStmt(s) => altered(s.object_type),
        Node::DropStmt(s) => match s.remove_type {
            O::OBJECT_INDEX => "DROP INDEX",
            O::OBJECT_VIEW => "DROP VIEW",
            O::OBJECT_SEQUENCE => "DROP SEQUENCE",
            O::OBJECT_SCHEMA => "DROP SCHEMA",
            O::OBJECT_TABLE => "DROP TABLE",
            O::OBJECT_TRIGGER => "DROP TRIGGER",
            O::OBJECT_FUNCTION => "DROP FUNCTION",
            O::OBJECT_PROCEDURE => "DROP PROCEDURE",
            O::OBJECT_ROUTINE => "DROP ROUTINE",
            O::OBJECT_TYPE => "DROP TYPE",
            O::OBJECT_DOMAIN => "DROP DOMAIN",
            O::OBJECT_TSCONFIGURATION => "DROP TEXT SEARCH CONFIGURATION",
            O::OBJECT_TSDICTIONARY => "DROP TEXT SEARCH DICTIONARY",
            O::OBJECT_TSPARSER => "DROP TEXT SEARCH PARSER",
            O::OBJECT_TSTEMPLATE => "DROP TEXT SEARCH TEMPLATE",
            O::OBJECT_EXTENSION => "DROP EXTENSION",
            O::OBJECT_OPCLASS => "DROP OPERATOR CLASS",
            O::OBJECT_OPFAMILY => "DROP OPERATOR FAMILY",
            _ => return None,
        },
        Node::AlterFunctionStmt(_) => "ALTER FUNCTION",
        Node::DefineStmt(s) if s.kind == O::OBJECT_TSCONFIGURATION => "CREATE TEXT SEARCH CONFIGURATION",
        Node::DefineStmt(s) if s.kind == O::OBJECT_TSDICTIONARY => "CREATE TEXT SEARCH DICTIONARY",
        Node::DefineStmt(s) if s.kind == O::OBJECT_TSPARSER => "CREATE TEXT SEARCH PARSER",
        Node::DefineStmt(s) if s.kind == O::OBJECT_TSTEMPLATE => "CREATE TEXT SEARCH TEMPLATE",
        Node::AlterTSConfigurationStmt(_) => "ALTER TEXT SEARCH CONFIGURATION",
        Node::AlterTSDictionaryStmt(_) => "ALTER TEXT SEARCH DICTIONARY",
        Node::CreateTrigStmt(_) => "CREATE TRIGGER",
        Node::CreateFunctionStmt(s) if s.is_procedure => "CREATE PROCEDURE",
        Node::CreateFunctionStmt(_) => "CREATE FUNCTION",
        Node::CompositeTypeStmt(_) | Node::CreateEnumStmt(_) | Node::CreateRangeStmt(_) => "CREATE TYPE",
        Node::AlterEnumStmt(_) => "ALTER TYPE",
        Node::CreateDomainStmt(_) => "CREATE DOMAIN",
        Node::CreateExtensionStmt(_) => "CREATE EXTENSION",
        Node::CreateOpClassStmt(_) => "CREATE OPERATOR CLASS",
        Node::CreateOpFamilyStmt(_) => "CREATE OPERATOR FAMILY",
        Node::AlterOpFamilyStmt(_) => "ALTER OPERATOR FAMILY",
        Node::AlterExtensionStmt(_) => "ALTER EXTENSION",
        Node::AlterDomainStmt(_) => "ALTER DOMAIN",
        Node::TruncateStmt(_) => "TRUNCATE TABLE",
        Node::CommentStmt(_) => "COMMENT",
        Node::CreateRoleStmt(_) => "CREATE ROLE",
        Node::AlterRoleStmt(_) | Node::AlterRoleSetStmt(_) => "ALTER ROLE",
        Node::AlterDatabaseStmt(_) | Node::AlterDatabaseSetStmt(_) => "ALTER DATABASE",
        Node::DropRoleStmt(_) => "DROP ROLE",
        _ => return None,
    })
}

/// What a statement that is not supported is called. (The nodes' Debug text fails for some kinds.)
fn statement_name(node: &Node<'_>) -> &'static str {
    match node {
        Node::GrantStmt(_) => "GRANT and REVOKE",
        Node::GrantRoleStmt(_) => "GRANT and REVOKE of roles",
        Node::AlterDefaultPrivilegesStmt(_) => "ALTER DEFAULT PRIVILEGES",
        Node::CreateFunctionStmt(_) => "CREATE FUNCTION",
        Node::AlterFunctionStmt(_) => "ALTER FUNCTION",
        Node::CreatePolicyStmt(_) => "CREATE POLICY",
        Node::AlterPolicyStmt(_) => "ALTER POLICY",
        Node::AlterTypeStmt(_) => "ALTER TYPE",
        Node::DefineStmt(_) => "CREATE AGGREGATE, OPERATOR, TYPE or COLLATION",
        Node::AlterOperatorStmt(_) => "ALTER OPERATOR",
        Node::CreateCastStmt(_) => "CREATE CAST",
        Node::CreateConversionStmt(_) => "CREATE CONVERSION",
        Node::CreateTransformStmt(_) => "CREATE TRANSFORM",
        Node::AlterExtensionContentsStmt(_) => "ALTER EXTENSION ... ADD and DROP",
        Node::CreatePLangStmt(_) => "CREATE LANGUAGE",
        Node::CreateAmStmt(_) => "CREATE ACCESS METHOD",
        Node::CreateStatsStmt(_) => "CREATE STATISTICS",
        Node::AlterStatsStmt(_) => "ALTER STATISTICS",
        Node::CreateTableSpaceStmt(_) => "CREATE TABLESPACE",
        Node::DropTableSpaceStmt(_) => "DROP TABLESPACE",
        Node::AlterTableSpaceOptionsStmt(_) => "ALTER TABLESPACE",
        Node::AlterTableMoveAllStmt(_) => "ALTER TABLE ALL IN TABLESPACE",
        Node::CreateForeignServerStmt(_) => "CREATE SERVER",
        Node::AlterForeignServerStmt(_) => "ALTER SERVER",
        Node::CreateFdwStmt(_) => "CREATE FOREIGN DATA WRAPPER",
        Node::AlterFdwStmt(_) => "ALTER FOREIGN DATA WRAPPER",
        Node::ImportForeignSchemaStmt(_) => "IMPORT FOREIGN SCHEMA",
        Node::CreateUserMappingStmt(_) => "CREATE USER MAPPING",
        Node::AlterUserMappingStmt(_) => "ALTER USER MAPPING",
        Node::DropUserMappingStmt(_) => "DROP USER MAPPING",
        Node::CreateEventTrigStmt(_) => "CREATE EVENT TRIGGER",
        Node::AlterEventTrigStmt(_) => "ALTER EVENT TRIGGER",
        Node::CreatePublicationStmt(_) => "CREATE PUBLICATION",
        Node::AlterPublicationStmt(_) => "ALTER PUBLICATION",
        Node::CreateSubscriptionStmt(_) => "CREATE SUBSCRIPTION",
        Node::AlterSubscriptionStmt(_) => "ALTER SUBSCRIPTION",
        Node::DropSubscriptionStmt(_) => "DROP SUBSCRIPTION",
        Node::RuleStmt(_) => "CREATE RULE",
        Node::RefreshMatViewStmt(_) => "REFRESH MATERIALIZED VIEW",
        Node::ClusterStmt(_) => "CLUSTER",
        Node::CallStmt(_) => "CALL",
        Node::DoStmt(_) => "DO",
        Node::LoadStmt(_) => "LOAD",
        Node::SecLabelStmt(_) => "SECURITY LABEL",
        Node::ReassignOwnedStmt(_) => "REASSIGN OWNED",
        Node::DropOwnedStmt(_) => "DROP OWNED",
        Node::AlterCollationStmt(_) => "ALTER COLLATION",
        Node::AlterObjectDependsStmt(_) => "ALTER ... DEPENDS ON EXTENSION",
        Node::AlterTSDictionaryStmt(_) => "ALTER TEXT SEARCH DICTIONARY",
        Node::AlterTSConfigurationStmt(_) => "ALTER TEXT SEARCH CONFIGURATION",
        Node::ReplicaIdentityStmt(_) => "REPLICA IDENTITY",
        _ => "this statement",
    }
}

/// Strings of a list of String nodes.
pub(crate) fn strings<'a>(list: impl IntoIterator<Item = Node<'a>>) -> Vec<&'a str> {
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
pub(crate) fn qualified<'a>(node: Node<'a>) -> (Option<&'a str>, &'a str) {
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
        TableKind::Index => "index",
        TableKind::Composite => "composite type",
    }
}
