//! Who may make a definition: what a command asks of its role before it begins, by the kind of the command.
//!
//! Invariants
//! 1. Superusers may do all this. Whoever else wants to change, rename, move or drop an object has its owner's
//!    privileges; a few commands ask for a privilege instead (TRUNCATE, TRIGGER, MAINTAIN).
//! 2. An object that is not there is its command's to tell of.
//! 3. What objects are made in, and of, is asked where they are made: schemas ([`Definitions::creation_schema`]), types,
//!    languages, functions of triggers, referenced tables.
//!
//! Policies, routines, types, text search objects, operator classes, statistics objects, extensions and databases' settings ask
//! for themselves, where they look up what they name.

use super::{DefinitionStatement, Definitions};
use crate::client::Runtime;
use crate::context::Restriction;
use crate::privileges::{not_owner, permission_denied, relation_word};
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_catalog::privileges::{Privileges, privilege};
use kilndb_catalog::roles::PG_MAINTAIN;
use kilndb_catalog::{Table, TableKind};
use kilndb_syntax::raw::{ObjectType as O, ReindexObjectType as R};
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;
use std::sync::Arc;

impl Definitions<'_> {
    /// 42501 unless the role in force may make this definition.
    pub fn refuse_unless_allowed(&mut self, statement: &DefinitionStatement<'_>) -> Result<()> {
        let runtime = statement.runtime;
        if self.context().is_superuser() {
            return Ok(());
        }
        match &statement.node {
            Node::AlterTableStmt(s) => self.require_relation(s.relation(), runtime),
            Node::AlterSeqStmt(s) => self.require_relation(s.sequence(), runtime),
            Node::IndexStmt(s) => self.require_index_table(s.relation(), runtime),
            Node::CreateTrigStmt(s) => self.require_trigger(s, runtime),
            Node::CreateStatsStmt(s) => {
                for r in s.relations() {
                    self.require_relation(Some(r), runtime)?;
                }
                Ok(())
            }
            Node::TruncateStmt(s) => {
                for node in s.relations() {
                    if let Node::RangeVar(r) = node {
                        self.require_privilege(Some(r), privilege::TRUNCATE, runtime)?;
                    }
                }
                Ok(())
            }
            Node::ClusterStmt(s) => self.require_privilege(s.relation(), privilege::MAINTAIN, runtime),
            Node::RefreshMatViewStmt(s) => self.require_privilege(s.relation(), privilege::MAINTAIN, runtime),
            Node::ReindexStmt(s) => self.require_reindex(s, runtime),
            Node::DropStmt(s) => self.require_drop(s, runtime),
            Node::RenameStmt(s) => self.require_rename(s, runtime),
            Node::AlterObjectSchemaStmt(s) => self.require_relation(s.relation(), runtime),
            Node::CommentStmt(s) => self.require_comment(s, runtime),
            Node::CreateSchemaStmt(s) => self.require_create_schema(s),
            Node::CreatedbStmt(_) if !self.context().has_attribute(|role| role.creates_databases) => {
                Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, "permission denied to create database"))
            }
            Node::DropdbStmt(s) => self.require_database_owner(s.dbname().unwrap_or("")),
            _ => Ok(()),
        }
    }

    fn named_relation(&mut self, r: Option<&nodes::RangeVar>, runtime: &dyn Runtime) -> Result<Option<Arc<Table>>> {
        match r {
            Some(r) => self.context_mut().find_relation_of(r, runtime),
            None => Ok(None),
        }
    }

    /// 42501 unless the role in force has the privileges of a relation's owner.
    pub(crate) fn require_table_owner(&self, table: &Table) -> Result<()> {
        if self.context().owns(table.owner) { Ok(()) } else { Err(not_owner(relation_word(table), &table.name)) }
    }

    fn require_relation(&mut self, r: Option<&nodes::RangeVar>, runtime: &dyn Runtime) -> Result<()> {
        match self.named_relation(r, runtime)? {
            Some(table) => self.require_table_owner(&table),
            None => Ok(()),
        }
    }

    /// A partitioned table and all below it.
    pub(crate) fn with_partitions(&mut self, table: &Table, runtime: &dyn Runtime) -> Result<Vec<Arc<Table>>> {
        let oids = self.context_mut().with_catalog(runtime, |host| host.reader.partition_tree(table.oid))?;
        oids.into_iter().map(|oid| self.context_mut().table_by_oid(oid, runtime)).collect()
    }

    /// An index is made in the schema of its table, by the table's owner.
    fn require_index_table(&mut self, r: Option<&nodes::RangeVar>, runtime: &dyn Runtime) -> Result<()> {
        let Some(table) = self.named_relation(r, runtime)? else { return Ok(()) };
        self.require_table_owner(&table)?;
        self.require_on_schema(table.schema_oid, privilege::CREATE, runtime)?;
        if table.kind != TableKind::Partitioned || r.is_some_and(super::partition::says_only) {
            return Ok(());
        }
        // Those of the partitions are made in the partitions' schemas.
        for partition in self.with_partitions(&table, runtime)? {
            self.require_on_schema(partition.schema_oid, privilege::CREATE, runtime)?;
        }
        Ok(())
    }

    fn require_privilege(&mut self, r: Option<&nodes::RangeVar>, wanted: u64, runtime: &dyn Runtime) -> Result<()> {
        match self.named_relation(r, runtime)? {
            Some(table) => self.context_mut().require_on_table(&table, wanted),
            None => Ok(()),
        }
    }

    /// A trigger for rows of a partitioned table is one of each partition.
    fn require_trigger(&mut self, s: &nodes::CreateTrigStmt, runtime: &dyn Runtime) -> Result<()> {
        let Some(table) = self.named_relation(s.relation(), runtime)? else { return Ok(()) };
        self.context_mut().require_on_table(&table, privilege::TRIGGER)?;
        if table.kind != TableKind::Partitioned || !s.row {
            return Ok(());
        }
        for partition in self.with_partitions(&table, runtime)? {
            self.context_mut().require_on_table(&partition, privilege::TRIGGER)?;
        }
        Ok(())
    }

    fn require_reindex(&mut self, s: &nodes::ReindexStmt, runtime: &dyn Runtime) -> Result<()> {
        match s.kind {
            R::REINDEX_OBJECT_TABLE => self.require_privilege(s.relation(), privilege::MAINTAIN, runtime),
            R::REINDEX_OBJECT_INDEX => {
                let Some(index) = self.named_relation(s.relation(), runtime)? else { return Ok(()) };
                let key = [Datum::Oid(index.oid)];
                let rows = self.context_mut().catalog_lookup(PG_INDEX, PG_INDEX_INDEXRELID_INDEX, &key)?;
                let Some(row) = rows.first() else { return Ok(()) };
                let table = self.context_mut().table_by_oid(row.oid("indrelid"), runtime)?;
                let what = ("index", index.name.as_str());
                self.context_mut().require(&table.privileges(), privilege::MAINTAIN, what)
            }
            _ if self.context().owns(PG_MAINTAIN) => Ok(()),
            R::REINDEX_OBJECT_SCHEMA => self.require_schema_owner(s.name().unwrap_or(""), runtime),
            _ => {
                let name = self.context().database.name.clone();
                self.require_database_owner(&name)
            }
        }
    }

    fn schema_row(&mut self, name: &str, runtime: &dyn Runtime) -> Result<Option<CatalogRow>> {
        let oid = self.context_mut().with_catalog(runtime, |host| host.reader.schema_oid(name))?;
        let Some(oid) = oid else { return Ok(None) };
        Ok(self.context_mut().catalog_lookup(PG_NAMESPACE, PG_NAMESPACE_OID_INDEX, &[Datum::Oid(oid)])?.pop())
    }

    pub(crate) fn require_schema_owner(&mut self, name: &str, runtime: &dyn Runtime) -> Result<()> {
        match self.schema_row(name, runtime)? {
            Some(row) if !self.context().owns(row.oid("nspowner")) => Err(not_owner("schema", name)),
            _ => Ok(()),
        }
    }

    pub(super) fn require_database_owner(&mut self, name: &str) -> Result<()> {
        match self.context().cluster.database_row(name)? {
            Some(row) if !self.context().owns(row.oid("datdba")) => Err(not_owner("database", name)),
            _ => Ok(()),
        }
    }

    /// Who owns a relation or its schema may drop it.
    fn require_drop(&mut self, s: &nodes::DropStmt, runtime: &dyn Runtime) -> Result<()> {
        for object in s.objects() {
            match s.remove_type {
                O::OBJECT_TABLE | O::OBJECT_VIEW | O::OBJECT_MATVIEW | O::OBJECT_SEQUENCE | O::OBJECT_INDEX => {
                    let (schema, name) = super::qualified_relation(object, &self.context().database.name)?;
                    let found = self.context_mut().with_catalog(runtime, |host| {
                        kilndb_catalog::CatalogView::table_by_name(&host.reader, schema, name)
                    })?;
                    let Some(table) = found else { continue };
                    let schema_owner = self.owner_of_schema(table.schema_oid)?;
                    if !self.context().owns(table.owner) && !self.context().owns(schema_owner) {
                        return Err(not_owner(relation_word(&table), &table.name));
                    }
                }
                O::OBJECT_SCHEMA => self.require_schema_owner(object.as_str().unwrap_or(""), runtime)?,
                O::OBJECT_TRIGGER | O::OBJECT_RULE => self.require_owner_of_part(object, runtime)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether the role in force has the privileges of a schema's owner, who may drop what is in it.
    pub(crate) fn owns_schema(&mut self, schema: Oid) -> Result<bool> {
        let owner = self.owner_of_schema(schema)?;
        Ok(owner != 0 && self.context().owns(owner))
    }

    fn owner_of_schema(&mut self, schema: Oid) -> Result<Oid> {
        let rows = self.context_mut().catalog_lookup(PG_NAMESPACE, PG_NAMESPACE_OID_INDEX, &[Datum::Oid(schema)])?;
        Ok(rows.first().map_or(0, |row| row.oid("nspowner")))
    }

    /// Of a trigger, a column, a constraint: the relation's owner.
    fn require_owner_of_part(&mut self, object: Node<'_>, runtime: &dyn Runtime) -> Result<()> {
        let Node::NodeList(list) = object else { return Ok(()) };
        let names = super::strings(list);
        let (schema, table) = match names.as_slice() {
            [.., schema, table, _] => (Some(*schema), *table),
            [table, _] => (None, *table),
            _ => return Ok(()),
        };
        let found = self
            .context_mut()
            .with_catalog(runtime, |host| kilndb_catalog::CatalogView::table_by_name(&host.reader, schema, table))?;
        match found {
            Some(table) if !self.context().owns(table.owner) => Err(not_owner("relation", &table.name)),
            _ => Ok(()),
        }
    }

    fn require_rename(&mut self, s: &nodes::RenameStmt, runtime: &dyn Runtime) -> Result<()> {
        match s.rename_type {
            O::OBJECT_SCHEMA => {
                self.require_schema_owner(s.subname().unwrap_or(""), runtime)?;
                self.require_on_own_database(privilege::CREATE)
            }
            O::OBJECT_DATABASE => {
                self.require_database_owner(s.subname().unwrap_or(""))?;
                if self.context().has_attribute(|role| role.creates_databases) {
                    return Ok(());
                }
                Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, "permission denied to rename database"))
            }
            O::OBJECT_TABLE | O::OBJECT_INDEX | O::OBJECT_SEQUENCE | O::OBJECT_VIEW | O::OBJECT_MATVIEW => {
                let Some(table) = self.named_relation(s.relation(), runtime)? else { return Ok(()) };
                self.require_table_owner(&table)?;
                self.require_on_schema(table.schema_oid, privilege::CREATE, runtime)
            }
            _ => self.require_relation(s.relation(), runtime),
        }
    }

    fn require_comment(&mut self, s: &nodes::CommentStmt, runtime: &dyn Runtime) -> Result<()> {
        match s.objtype {
            O::OBJECT_TABLE | O::OBJECT_VIEW | O::OBJECT_MATVIEW | O::OBJECT_INDEX | O::OBJECT_SEQUENCE => {
                let (schema, name) = super::qualified(s.object());
                let found = self.context_mut().with_catalog(runtime, |host| {
                    kilndb_catalog::CatalogView::table_by_name(&host.reader, schema, name)
                })?;
                found.map_or(Ok(()), |table| self.require_table_owner(&table))
            }
            O::OBJECT_COLUMN | O::OBJECT_TRIGGER | O::OBJECT_TABCONSTRAINT => {
                self.require_owner_of_part(s.object(), runtime)
            }
            O::OBJECT_SCHEMA => self.require_schema_owner(s.object().as_str().unwrap_or(""), runtime),
            O::OBJECT_DATABASE => self.require_database_owner(s.object().as_str().unwrap_or("")),
            O::OBJECT_TYPE | O::OBJECT_DOMAIN => {
                let oid = self.commented_type(s.object(), runtime)?;
                self.refuse_other_owner_of_type(oid, runtime)
            }
            kind @ (O::OBJECT_FUNCTION | O::OBJECT_PROCEDURE | O::OBJECT_ROUTINE) => {
                let oid = self.commented_routine(s.object(), kind, runtime)?;
                let rows = self.context_mut().catalog_lookup(PG_PROC, PG_PROC_OID_INDEX, &[Datum::Oid(oid)])?;
                match rows.first() {
                    Some(row) if !self.context().owns(row.oid("proowner")) => {
                        Err(not_owner(super::routine_objects::word_of(kind), &written_name(s.object())))
                    }
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// 42501 unless the role in force has a privilege on the session's database.
    pub(crate) fn require_on_own_database(&mut self, wanted: u64) -> Result<()> {
        let name = self.context().database.name.clone();
        let Some(privileges) = self.own_database_privileges()? else { return Ok(()) };
        self.context_mut().require(&privileges, wanted, ("database", &name))
    }

    /// None if the database is gone.
    pub(crate) fn own_database_privileges(&self) -> Result<Option<Privileges>> {
        let row = self.context().cluster.database_row(&self.context().database.name)?;
        Ok(row.map(|row| kilndb_catalog::secured_objects::DATABASES.privileges(&row)))
    }

    fn require_create_schema(&mut self, s: &nodes::CreateSchemaStmt) -> Result<()> {
        self.require_on_own_database(privilege::CREATE)?;
        match s.authrole() {
            Some(spec) => {
                let role = self.role_by_spec(spec)?;
                self.require_set_role(role.oid)
            }
            None => Ok(()),
        }
    }

    /// 42501 unless the role in force could go to work as another one: who gives something away could have made it so.
    pub(crate) fn require_set_role(&mut self, role: Oid) -> Result<()> {
        let current = self.context().identity.current_role;
        if self.context_mut().with_roles(|roles| roles.may_set(current, role))? {
            return Ok(());
        }
        let name = self.roles()?.name(role);
        Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, format!("must be able to SET ROLE \"{name}\"")))
    }

    /// 42501 unless the role in force may give a schema to another role.
    pub(crate) fn require_new_schema_owner(&mut self, owner: Oid) -> Result<()> {
        if self.context().is_superuser() {
            return Ok(());
        }
        self.require_set_role(owner)?;
        self.require_on_own_database(privilege::CREATE)
    }

    /// 42501 unless the role in force may give what is in a schema to another role, which may make it there, too.
    pub(crate) fn require_new_owner(&mut self, owner: Oid, schema: Option<Oid>, runtime: &dyn Runtime) -> Result<()> {
        if self.context().is_superuser() {
            return Ok(());
        }
        self.require_set_role(owner)?;
        let Some(schema) = schema else { return Ok(()) };
        let (privileges, wanted, name) = self.privileges_in_schema(schema, privilege::CREATE, runtime)?;
        let Some(privileges) = privileges else { return Ok(()) };
        if self.context_mut().with_roles(|roles| privileges.has_all(owner, wanted, roles))? {
            return Ok(());
        }
        Err(permission_denied("schema", &name))
    }

    /// 42501 unless the role in force may use a type in what it makes.
    pub(crate) fn require_type(&mut self, oid: Oid, runtime: &dyn Runtime) -> Result<()> {
        if self.context().is_superuser() {
            return Ok(());
        }
        let mut oid = oid;
        let mut row = self.context_mut().catalog_lookup(PG_TYPE, PG_TYPE_OID_INDEX, &[Datum::Oid(oid)])?.pop();
        while let Some(array) = row.as_ref().filter(|row| row.char("typcategory") == b'A' && row.oid("typelem") != 0) {
            oid = array.oid("typelem");
            row = self.context_mut().catalog_lookup(PG_TYPE, PG_TYPE_OID_INDEX, &[Datum::Oid(oid)])?.pop();
        }
        let Some(row) = row else { return Ok(()) };
        let privileges = kilndb_catalog::secured_objects::TYPES.privileges(&row);
        let shown = self.type_shown(oid, runtime)?;
        self.context_mut().require(&privileges, privilege::USAGE, ("type", &shown))
    }

    /// What users' functions do is done as the role, as if it had called them.
    pub(crate) fn as_role<R>(&mut self, role: Oid, run: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        let suspended = self.context_mut().act_as(role, Restriction::Operation)?;
        let done = run(self);
        self.context_mut().resume_role(suspended);
        done
    }

    /// Whether VACUUM and ANALYZE may be about a table; if not, a warning says that it is left out.
    pub(super) fn may_maintain(&mut self, table: &Table, command: &str) -> Result<bool> {
        let current = self.context().identity.current_role;
        let owner =
            self.context().cluster.database_row(&self.context().database.name)?.map_or(0, |row| row.oid("datdba"));
        let may = self.context_mut().with_roles(|roles| {
            table.privileges().has_all(current, privilege::MAINTAIN, roles)
                || (!table.is_catalog || table.kind != TableKind::Table) && roles.has_privileges_of(current, owner)
        })?;
        if !may {
            let message = format!("permission denied to {command} \"{}\", skipping it", table.name);
            self.context().notice(kilndb_base::Severity::Warning, message);
        }
        Ok(may)
    }
}

/// The name of a routine as the statement has it.
fn written_name(object: Node<'_>) -> String {
    match object {
        Node::ObjectWithArgs(o) => super::strings(o.objname()).join("."),
        _ => String::new(),
    }
}
