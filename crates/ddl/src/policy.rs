//! Row security's definitions: policies, and whether a table has any of it (ALTER TABLE … ROW LEVEL SECURITY).
//!
//! Invariants
//! 1. A policy's conditions are kept as text with full names, as a view's query is (docs/decisions/0037).
//! 2. `polroles` is {0} for PUBLIC, and never empty.
//! 3. Whoever changes a policy has locked its table: plans have the conditions in them.
//!
//! Must not know: which rows a policy hides, and from whom.

use super::Definitions;
use crate::client::Runtime;
use crate::host::StatementHost;
use crate::privileges::{not_owner, relation_word};
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_bind::names::VisibleColumns;
use kilndb_bind::object_address::ObjectAddress;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_catalog::store::array;
use kilndb_catalog::{CatalogView, Table, TableKind};
use kilndb_storage::LockMode;
use kilndb_syntax::raw::{AlterTableType as A, RoleSpecType};
use kilndb_syntax::{Node, NodeList, nodes};
use kilndb_types::{Datum, oids};
use std::sync::Arc;

/// The pseudo-role in `polroles` that stands for everybody.
const PUBLIC: Oid = 0;

fn syntax_error(message: &str) -> Error {
    Error::new(sqlstate::SYNTAX_ERROR, message)
}

fn duplicate(name: &str, table: &Table) -> Error {
    Error::new(sqlstate::DUPLICATE_OBJECT, format!("policy \"{name}\" for table \"{}\" already exists", table.name))
}

fn missing(name: &str, table: &str) -> Error {
    Error::new(sqlstate::UNDEFINED_OBJECT, format!("policy \"{name}\" for table \"{table}\" does not exist"))
}

/// The letter of pg_policy.polcmd.
fn command_letter(command: &str) -> Result<u8> {
    match command {
        "all" => Ok(b'*'),
        "select" => Ok(b'r'),
        "insert" => Ok(b'a'),
        "update" => Ok(b'w'),
        "delete" => Ok(b'd'),
        other => Err(Error::internal(format!("unrecognized policy command \"{other}\""))),
    }
}

fn is_given(condition: Node<'_>) -> bool {
    !matches!(condition, Node::None)
}

fn role_array(roles: &[Oid]) -> Datum {
    array(oids::OID, roles.iter().map(|role| Datum::Oid(*role)).collect())
}

fn roles_of(row: &CatalogRow) -> Vec<Oid> {
    row.numbers("polroles").into_iter().map(|role| role as Oid).collect()
}

impl Definitions<'_> {
    pub fn create_policy(&mut self, s: &nodes::CreatePolicyStmt, runtime: &dyn Runtime) -> Result<()> {
        let command = command_letter(s.cmd_name().unwrap_or(""))?;
        if matches!(command, b'r' | b'd') && is_given(s.with_check()) {
            return Err(syntax_error("WITH CHECK cannot be applied to SELECT or DELETE"));
        }
        if command == b'a' && is_given(s.qual()) {
            return Err(syntax_error("only WITH CHECK expression allowed for INSERT"));
        }
        let roles = self.policy_roles(s.roles())?;
        let table = self.policy_table(s.table(), runtime)?;
        let using = self.stored_condition(s.qual(), &table, runtime)?;
        let check = self.stored_condition(s.with_check(), &table, runtime)?;
        let name = s.policy_name().unwrap_or("");
        if self.policy_row(table.oid, name)?.is_some() {
            return Err(duplicate(name, &table));
        }
        let oid = self.new_oid(table.oid)?;
        let mut values = vec![
            ("oid", Datum::Oid(oid)),
            ("polname", Datum::text(name)),
            ("polrelid", Datum::Oid(table.oid)),
            ("polcmd", Datum::Char(command)),
            ("polpermissive", Datum::Bool(s.permissive)),
            ("polroles", role_array(&roles)),
        ];
        let conditions = [("polqual", using), ("polwithcheck", check)];
        values.extend(conditions.into_iter().filter_map(|(column, text)| Some((column, Datum::text(text?)))));
        self.write_catalog(runtime, |w| w.insert(PG_POLICY, &values).map(|_| ()))
    }

    pub fn alter_policy(&mut self, s: &nodes::AlterPolicyStmt, runtime: &dyn Runtime) -> Result<()> {
        let roles = if s.roles().is_empty() { None } else { Some(self.policy_roles(s.roles())?) };
        let table = self.policy_table(s.table(), runtime)?;
        let using = self.stored_condition(s.qual(), &table, runtime)?;
        let check = self.stored_condition(s.with_check(), &table, runtime)?;
        let name = s.policy_name().unwrap_or("");
        let row = self.policy_row(table.oid, name)?.ok_or_else(|| missing(name, &table.name))?;
        match row.char("polcmd") {
            b'r' | b'd' if check.is_some() => {
                return Err(syntax_error("only USING expression allowed for SELECT, DELETE"));
            }
            b'a' if using.is_some() => return Err(syntax_error("only WITH CHECK expression allowed for INSERT")),
            _ => {}
        }
        self.rewrite_row(&row, runtime, |row| {
            if let Some(roles) = roles {
                row.set("polroles", role_array(&roles));
            }
            for (column, text) in [("polqual", using), ("polwithcheck", check)] {
                if let Some(text) = text {
                    row.set(column, Datum::text(text));
                }
            }
        })
    }

    /// Whom a policy is for.
    fn policy_roles(&mut self, roles: &NodeList) -> Result<Vec<Oid>> {
        let mut found = Vec::new();
        for role in roles {
            let Node::RoleSpec(role) = role else { continue };
            if role.roletype != RoleSpecType::ROLESPEC_PUBLIC {
                found.push(self.role_by_spec(role)?.oid);
                continue;
            }
            if roles.len() != 1 {
                let message = "ignoring specified roles other than PUBLIC";
                let warning = Error::notice(sqlstate::INVALID_PARAMETER_VALUE, Severity::Warning, message)
                    .with_hint("All roles are members of the PUBLIC role.");
                self.context().shared.scratch.notices.borrow_mut().push(warning);
            }
            return Ok(vec![PUBLIC]);
        }
        Ok(if found.is_empty() { vec![PUBLIC] } else { found })
    }

    /// The table that a command about a policy names, locked, if the role in force may change its policies.
    fn policy_table(&mut self, r: Option<&nodes::RangeVar>, runtime: &dyn Runtime) -> Result<Arc<Table>> {
        let r = r.ok_or_else(|| Error::internal("a policy without a table"))?;
        let table = self.context_mut().relation_of(r, runtime)?;
        if !self.context().owns(table.owner) {
            return Err(not_owner(relation_word(&table), &table.name));
        }
        let allows_catalogs = self.context().catalogs.allow_system_objects;
        if table.is_catalog && !allows_catalogs {
            let message = format!("permission denied: \"{}\" is a system catalog", table.name);
            return Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, message));
        }
        if !matches!(table.kind, TableKind::Table | TableKind::Partitioned) {
            return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("\"{}\" is not a table", table.name)));
        }
        self.lock_for_ddl(&table, LockMode::AccessExclusive, runtime)
    }

    /// A condition as it is kept. PostgreSQL's errors about one do not say where in the statement they are.
    fn stored_condition(
        &mut self,
        condition: Node<'_>,
        table: &Arc<Table>,
        runtime: &dyn Runtime,
    ) -> Result<Option<String>> {
        if !is_given(condition) {
            return Ok(None);
        }
        let mut text = kilndb_syntax::expression_sql(condition)?;
        // A literal that takes the type it is used as: the text is to say which.
        if matches!(condition, Node::A_Const(_)) {
            let is_untyped = |host: &StatementHost<'_>| kilndb_bind::is_untyped_literal(&text, &host.reader);
            if self.context_mut().with_catalog(runtime, is_untyped)? {
                text.push_str("::boolean");
            }
        }
        self.stored_expression(&text, VisibleColumns::Policy(table), runtime).map(Some)
    }

    fn policy_row(&mut self, table: Oid, name: &str) -> Result<Option<CatalogRow>> {
        let key = [Datum::Oid(table), Datum::text(name)];
        Ok(self.context_mut().catalog_lookup(PG_POLICY, PG_POLICY_POLRELID_POLNAME_INDEX, &key)?.pop())
    }

    /// ALTER POLICY … RENAME TO.
    pub(super) fn rename_policy(
        &mut self,
        s: &nodes::RenameStmt,
        new_name: &str,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let table = self.policy_table(s.relation(), runtime)?;
        if self.policy_row(table.oid, new_name)?.is_some() {
            return Err(duplicate(new_name, &table));
        }
        let name = s.subname().unwrap_or("");
        let row = self.policy_row(table.oid, name)?.ok_or_else(|| missing(name, &table.name))?;
        self.rewrite_row(&row, runtime, |row| row.set("polname", Datum::text(new_name)))?;
        Ok("ALTER POLICY".to_string())
    }

    pub(super) fn drop_policies(
        &mut self,
        s: &nodes::DropStmt,
        cascade: bool,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let mut named = Vec::new();
        for object in s.objects() {
            if let Some(policy) = self.named_policy(object, s.missing_ok, runtime)? {
                named.push(ObjectAddress::object(PG_POLICY, policy));
            }
        }
        self.delete_objects(&named, cascade, runtime)?;
        Ok("DROP POLICY".to_string())
    }

    /// The policy of a name that begins with its table's. With `missing_ok` the client is told that there is none.
    fn named_policy(&mut self, object: Node<'_>, missing_ok: bool, runtime: &dyn Runtime) -> Result<Option<Oid>> {
        let Node::NodeList(list) = object else { return Err(Error::internal("a policy without a name")) };
        let names = super::strings(list);
        let (schema, relation, name) = match names.as_slice() {
            [table, name] => (None, *table, *name),
            [.., schema, table, name] => (Some(*schema), *table, *name),
            _ => return Err(syntax_error("must specify relation and object name")),
        };
        let skip =
            |this: &Self, message: String| this.context().notice(Severity::Notice, format!("{message}, skipping"));
        if let Some(schema) = schema
            && missing_ok
            && !self.context_mut().with_catalog(runtime, |host| host.reader.schema_exists(schema))?
        {
            skip(self, format!("schema \"{schema}\" does not exist"));
            return Ok(None);
        }
        let table = self.context_mut().with_catalog(runtime, |host| host.reader.table_by_name(schema, relation))?;
        let Some(table) = table else {
            let shown = schema.map_or(relation.to_string(), |schema| format!("{schema}.{relation}"));
            let message = format!("relation \"{shown}\" does not exist");
            if !missing_ok {
                return Err(Error::new(sqlstate::UNDEFINED_TABLE, message));
            }
            skip(self, message);
            return Ok(None);
        };
        match self.policy_row(table.oid, name)? {
            Some(_) if !self.context().owns(table.owner) => Err(not_owner("relation", &table.name)),
            Some(row) => Ok(Some(row.oid("oid"))),
            None if missing_ok => {
                skip(
                    self,
                    format!(
                        "policy \"{name}\" for relation \"{shown}\" does not exist",
                        shown = names[..names.len() - 1].join(".")
                    ),
                );
                Ok(None)
            }
            None => Err(missing(name, &table.name)),
        }
    }

    pub(super) fn commented_policy(&mut self, object: Node<'_>, runtime: &dyn Runtime) -> Result<(Oid, Oid, i32)> {
        let policy = self.named_policy(object, false, runtime)?;
        Ok((PG_POLICY, policy.ok_or_else(|| Error::internal("a policy vanished"))?, 0))
    }

    /// Deletes a policy that nothing needs any more.
    pub(super) fn delete_policy(&mut self, policy: Oid, runtime: &dyn Runtime) -> Result<()> {
        let row = self.context_mut().catalog_lookup(PG_POLICY, PG_POLICY_OID_INDEX, &[Datum::Oid(policy)])?.pop();
        let Some(row) = row else { return Ok(()) };
        let table = self.context_mut().table_by_oid(row.oid("polrelid"), runtime)?;
        self.lock_for_ddl(&table, LockMode::AccessExclusive, runtime)?;
        self.delete_object(PG_POLICY, PG_POLICY_OID_INDEX, policy, runtime)
    }

    /// DROP OWNED: a policy is no longer for a role. False: it is for nobody else, and stays as it is.
    pub(super) fn leave_policy(&mut self, policy: Oid, role: Oid, runtime: &dyn Runtime) -> Result<bool> {
        let row = self.context_mut().catalog_lookup(PG_POLICY, PG_POLICY_OID_INDEX, &[Datum::Oid(policy)])?.pop();
        let Some(row) = row else { return Ok(true) };
        let mut roles = roles_of(&row);
        roles.retain(|known| *known != role);
        if roles.is_empty() {
            return Ok(false);
        }
        self.rewrite_row(&row, runtime, |row| row.set("polroles", role_array(&roles)))?;
        Ok(true)
    }

    /// ALTER TABLE … ENABLE, DISABLE, FORCE, NO FORCE ROW LEVEL SECURITY.
    pub(super) fn switch_row_security(&mut self, table: &Table, subtype: A::Type, runtime: &dyn Runtime) -> Result<()> {
        let (action, column, value) = match subtype {
            A::AT_EnableRowSecurity => ("ENABLE ROW SECURITY", "relrowsecurity", true),
            A::AT_DisableRowSecurity => ("DISABLE ROW SECURITY", "relrowsecurity", false),
            A::AT_ForceRowSecurity => ("FORCE ROW SECURITY", "relforcerowsecurity", true),
            _ => ("NO FORCE ROW SECURITY", "relforcerowsecurity", false),
        };
        if !matches!(table.kind, TableKind::Table | TableKind::Partitioned) {
            let message = format!("ALTER action {action} cannot be performed on relation \"{}\"", table.name);
            return Err(
                Error::new(sqlstate::WRONG_OBJECT_TYPE, message).with_detail(super::identity::not_for(table.kind))
            );
        }
        self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, table.oid, runtime, |row| row.set(column, Datum::Bool(value)))
    }
}
