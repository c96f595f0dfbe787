//! ALTER DEFAULT PRIVILEGES: rows of pg_default_acl, which objects that a role makes begin with
//! (`kilndb_catalog::default_grants` finds them).

use super::super::Definitions;
use super::{Grant, grants_value, invalid_privilege, privilege_word};
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::ids::*;
use kilndb_catalog::privileges::{SecuredKind, changed_items, default_items, same_items};
use kilndb_syntax::raw::{DropBehavior, ObjectType as O};
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;

/// The letter of pg_default_acl, the kind of objects and its name in messages.
fn default_kind(kind: O::Type) -> Result<(u8, SecuredKind, &'static str)> {
    Ok(match kind {
        O::OBJECT_TABLE => (b'r', SecuredKind::Relation, "relation"),
        O::OBJECT_SEQUENCE => (b'S', SecuredKind::Sequence, "sequence"),
        O::OBJECT_FUNCTION | O::OBJECT_ROUTINE => (b'f', SecuredKind::Function, "function"),
        O::OBJECT_TYPE => (b'T', SecuredKind::Type, "type"),
        O::OBJECT_SCHEMA => (b'n', SecuredKind::Schema, "schema"),
        O::OBJECT_LARGEOBJECT => (b'L', SecuredKind::LargeObject, "large object"),
        _ => return Err(Error::unsupported("default privileges for this kind of object are not supported")),
    })
}

impl Definitions<'_> {
    pub fn alter_default_privileges(
        &mut self,
        s: &nodes::AlterDefaultPrivilegesStmt,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let action = s.action().ok_or_else(|| Error::internal("ALTER DEFAULT PRIVILEGES without an action"))?;
        let (letter, kind, word) = default_kind(action.objtype)?;
        let grant = self.read_default_grant(action, kind, word)?;
        let (mut roles, mut schemas, mut names_roles) = (Vec::new(), Vec::new(), false);
        for option in s.options() {
            let Node::NodeList(list) = option.arg() else { continue };
            match option.defname().unwrap_or("") {
                "roles" => {
                    names_roles = true;
                    for node in list {
                        if let Node::RoleSpec(spec) = node {
                            roles.push(self.role_by_spec(spec)?.oid);
                        }
                    }
                }
                "schemas" => {
                    if matches!(letter, b'n' | b'L') {
                        let what = if letter == b'n' { "SCHEMAS" } else { "LARGE OBJECTS" };
                        let message = format!("cannot use IN SCHEMA clause when using GRANT/REVOKE ON {what}");
                        return Err(Error::new(sqlstate::INVALID_GRANT_OPERATION, message));
                    }
                    schemas = self.default_schemas(list, runtime)?;
                }
                _ => {}
            }
        }
        if !names_roles {
            roles.push(self.context().identity.current_role);
        }
        if schemas.is_empty() {
            schemas.push(0);
        }
        for role in roles {
            if !self.context_mut().has_privileges_of(role)? {
                let message = "permission denied to change default privileges";
                return Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, message));
            }
            for schema in &schemas {
                self.set_default_grants(role, *schema, (letter, kind), &grant, runtime)?;
            }
        }
        Ok(())
    }

    fn default_schemas(&mut self, list: &kilndb_syntax::NodeList, runtime: &dyn Runtime) -> Result<Vec<Oid>> {
        let mut schemas = Vec::new();
        for name in super::super::strings(list) {
            let missing = || Error::new(sqlstate::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"));
            let oid = self.context_mut().with_catalog(runtime, |host| host.reader.schema_oid(name))?;
            schemas.push(oid.ok_or_else(missing)?);
        }
        Ok(schemas)
    }

    fn read_default_grant(
        &mut self,
        action: &nodes::GrantStmt,
        kind: SecuredKind,
        word: &str,
    ) -> Result<Grant<'static>> {
        let all = action.privileges().is_empty();
        let mut privileges = if all { kind.all() } else { 0 };
        for privilege in action.privileges() {
            if !privilege.cols().is_empty() {
                let message = "default privileges cannot be set for columns";
                return Err(Error::new(sqlstate::INVALID_GRANT_OPERATION, message));
            }
            let wanted = privilege_word(privilege.priv_name().unwrap_or(""))?;
            if wanted & !kind.all() != 0 {
                return Err(invalid_privilege(wanted & !kind.all(), word));
            }
            privileges |= wanted;
        }
        Ok(Grant {
            is_grant: action.is_grant,
            option: action.grant_option,
            cascades: action.behavior == DropBehavior::DROP_CASCADE,
            privileges,
            all,
            columns: Vec::new(),
            grantees: self.grantees(action.grantees())?,
        })
    }

    /// Changes a role's defaults for a kind of objects, of a schema or (0) of all.
    fn set_default_grants(
        &mut self,
        role: Oid,
        schema: Oid,
        (letter, kind): (u8, SecuredKind),
        grant: &Grant<'_>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        // What a schema's row says is added to what there is else.
        let unset = if schema == 0 { default_items(kind, role) } else { Vec::new() };
        let key = [Datum::Oid(role), Datum::Oid(schema), Datum::Char(letter)];
        let row = self.context_mut().catalog_lookup(PG_DEFAULT_ACL, PG_DEFAULT_ACL_ROLE_NSP_OBJ_INDEX, &key)?.pop();
        let items = row.as_ref().and_then(|row| row.grants("defaclacl")).map_or_else(|| unset.clone(), |l| l.to_vec());
        let change = grant.change(grant.privileges, role);
        let mut changed = self.context_mut().with_roles(|roles| changed_items(&items, &change, role, roles))??;
        changed.sort_unstable();
        let is_unset = same_items(&changed, &unset);
        match &row {
            Some(row) if is_unset => {
                let object = (PG_DEFAULT_ACL, row.oid("oid"));
                self.remove_dependencies(object, None, runtime)?;
                self.write_catalog(runtime, |w| w.delete(row))
            }
            Some(row) => self.rewrite_row(row, runtime, |row| row.set("defaclacl", grants_value(&changed))),
            None if is_unset => Ok(()),
            None => self.insert_default_grants(key, grants_value(&changed), runtime),
        }
    }

    /// Takes what a row of pg_default_acl gives to a role out of it.
    pub(crate) fn revoke_default_grants(&mut self, oid: Oid, role: Oid, runtime: &dyn Runtime) -> Result<()> {
        let rows = self.context_mut().catalog_scan(PG_DEFAULT_ACL)?;
        let Some(row) = rows.into_iter().find(|row| row.oid("oid") == oid) else { return Ok(()) };
        let letter = row.char("defaclobjtype");
        let kind = match letter {
            b'r' => SecuredKind::Relation,
            b'S' => SecuredKind::Sequence,
            b'f' => SecuredKind::Function,
            b'T' => SecuredKind::Type,
            b'L' => SecuredKind::LargeObject,
            _ => SecuredKind::Schema,
        };
        let grant = Grant { privileges: kind.all(), ..Grant::all_from(role) };
        let (owner, schema) = (row.oid("defaclrole"), row.oid("defaclnamespace"));
        self.set_default_grants(owner, schema, (letter, kind), &grant, runtime)
    }

    fn insert_default_grants(&mut self, key: [Datum; 3], grants: Datum, runtime: &dyn Runtime) -> Result<()> {
        let oid = self.context().cluster.next_oid()?;
        let [role, schema, letter] = key;
        let schema_oid = if let Datum::Oid(schema) = schema { schema } else { 0 };
        let row = [
            ("oid", Datum::Oid(oid)),
            ("defaclrole", role),
            ("defaclnamespace", schema),
            ("defaclobjtype", letter),
            ("defaclacl", grants),
        ];
        self.write_catalog(runtime, |w| w.insert(PG_DEFAULT_ACL, &row).map(|_| ()))?;
        if schema_oid != 0 {
            let row = [
                ("classid", Datum::Oid(PG_DEFAULT_ACL)),
                ("objid", Datum::Oid(oid)),
                ("refclassid", Datum::Oid(PG_NAMESPACE)),
                ("refobjid", Datum::Oid(schema_oid)),
                ("deptype", Datum::Char(b'a')),
            ];
            self.write_catalog(runtime, |w| w.insert(PG_DEPEND, &row).map(|_| ()))?;
        }
        Ok(())
    }
}
