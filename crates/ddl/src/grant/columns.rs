//! GRANT and REVOKE on tables, views and sequences, and on their columns.

use super::super::Definitions;
use super::{Grant, grants_value, invalid_privilege};
use crate::client::Runtime;
use crate::privileges::permission_denied;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_catalog::privileges::{Privileges, SecuredKind, privilege};
use kilndb_catalog::{Table, TableKind};
use kilndb_syntax::raw::ObjectType as O;
use kilndb_types::Datum;
use kilndb_types::acl::AclItem;
use std::collections::BTreeMap;

/// Columns that every table has. REVOKE on a table is about them, too.
const SYSTEM_COLUMNS: [(i16, &str); 6] =
    [(-6, "tableoid"), (-5, "cmax"), (-4, "xmax"), (-3, "cmin"), (-2, "xmin"), (-1, "ctid")];

impl Definitions<'_> {
    pub(super) fn grant_on_relation(
        &mut self,
        table: &Table,
        grant: &Grant<'_>,
        kind: O::Type,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        Self::refuse_kind(table, kind)?;
        let privileges = table.privileges();
        let mut wanted = if grant.all { privileges.kind.all() } else { grant.privileges };
        if kind == O::OBJECT_TABLE {
            wanted = self.valid_for_relation(table, wanted)?;
        }
        let before = privileges.items();
        let whole = wanted;
        if wanted != 0 {
            let shown = format!("\"{}\"", table.name);
            // Whatever is not a sequence is granted on as a table is.
            let word = if table.kind == TableKind::Sequence { "sequence" } else { "table" };
            let denied = || permission_denied(word, &table.name);
            let (allowed, grantor) = self.grantable(&privileges, wanted, grant, (&shown, &denied))?;
            if let Some(items) = self.changed_grants(&privileges, allowed, grantor, grant)? {
                self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, table.oid, runtime, |row| {
                    row.set("relacl", grants_value(&items));
                })?;
            }
        }
        for (attnum, wanted) in self.column_privileges(table, grant, whole)? {
            self.grant_on_column(table, attnum, wanted, (grant, &before), runtime)?;
        }
        Ok(())
    }

    /// A sequence may be named as a table: what it has no privileges for is left out.
    fn valid_for_relation(&self, table: &Table, wanted: u64) -> Result<u64> {
        if table.kind == TableKind::Sequence {
            let valid = SecuredKind::Sequence.all();
            if wanted & !valid != 0 {
                let message = format!("sequence \"{}\" only supports USAGE, SELECT, and UPDATE privileges", table.name);
                self.warn(Error::notice(sqlstate::INVALID_GRANT_OPERATION, Severity::Warning, message));
            }
            return Ok(wanted & valid);
        }
        let invalid = wanted & !SecuredKind::Relation.all();
        if invalid != 0 { Err(invalid_privilege(invalid, "table")) } else { Ok(wanted) }
    }

    fn warn(&self, warning: Error) {
        self.context().shared.scratch.notices.borrow_mut().push(warning);
    }

    /// What the statement is about in each column, by number.
    fn column_privileges(&self, table: &Table, grant: &Grant<'_>, whole: u64) -> Result<BTreeMap<i16, u64>> {
        let mut found: BTreeMap<i16, u64> = BTreeMap::new();
        let of_columns = whole & SecuredKind::Column.all();
        if !grant.is_grant && of_columns != 0 {
            // Views have no columns of the system's.
            let system = SYSTEM_COLUMNS.iter().filter(|_| table.kind != TableKind::View);
            found.extend(system.map(|(attnum, _)| (*attnum, of_columns)));
            for column in table.columns.iter().filter(|c| !c.dropped) {
                *found.entry(column.attnum).or_default() |= of_columns;
            }
        }
        for named in &grant.columns {
            let mut privileges = named.privileges;
            if table.kind == TableKind::Sequence && privileges & !privilege::SELECT != 0 {
                let message = format!("sequence \"{}\" only supports SELECT column privileges", table.name);
                self.warn(Error::notice(sqlstate::INVALID_GRANT_OPERATION, Severity::Warning, message));
                privileges &= privilege::SELECT;
            }
            for name in &named.columns {
                let column = table.columns.iter().find(|c| !c.dropped && c.name == *name);
                let system = SYSTEM_COLUMNS.iter().find(|(_, known)| known == name && table.kind != TableKind::View);
                let attnum = match (column, system) {
                    (Some(column), _) => column.attnum,
                    (None, Some(_)) if grant.is_grant => {
                        let message = format!("granting privileges on system column \"{name}\" is not supported");
                        return Err(Error::unsupported(message));
                    }
                    (None, Some((attnum, _))) => *attnum,
                    (None, None) => {
                        let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
                        return Err(Error::new(sqlstate::UNDEFINED_COLUMN, message));
                    }
                };
                *found.entry(attnum).or_default() |= privileges;
            }
        }
        Ok(found)
    }

    /// GRANT on one column. `whole`: the grants on its relation, whose options count.
    fn grant_on_column(
        &mut self,
        table: &Table,
        attnum: i16,
        wanted: u64,
        (grant, whole): (&Grant<'_>, &[AclItem]),
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let key = [Datum::Oid(table.oid), Datum::Int2(attnum)];
        let row = self.context_mut().catalog_lookup(PG_ATTRIBUTE, PG_ATTRIBUTE_RELID_ATTNUM_INDEX, &key)?.pop();
        let own = row.as_ref().and_then(|row| row.grants("attacl"));
        let system = SYSTEM_COLUMNS.iter().find(|(known, _)| *known == attnum).map(|(_, name)| *name);
        let name = row.as_ref().and_then(|row| row.text("attname")).or(system).unwrap_or("").to_string();
        let items: Vec<AclItem> = own.iter().flat_map(|list| list.iter().copied()).collect();
        let merged = whole.iter().chain(&items).copied().collect();
        let with_options = Privileges { kind: SecuredKind::Column, owner: table.owner, list: Some(merged) };
        let shown = format!("column \"{name}\" of relation \"{}\"", table.name);
        let denied = || {
            let message = format!("permission denied for column \"{name}\" of relation \"{}\"", table.name);
            Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, message)
        };
        let all = Grant { all: wanted == SecuredKind::Column.all(), ..grant.for_columns() };
        let (allowed, grantor) =
            self.grantable_within(&with_options, &table.privileges(), wanted, &all, (&shown, &denied))?;
        let privileges = Privileges { kind: SecuredKind::Column, owner: table.owner, list: Some(items.into()) };
        if let Some(row) = row
            && let Some(items) = self.changed_grants(&privileges, allowed, grantor, grant)?
            && (!items.is_empty() || !row.get("attacl").is_null())
        {
            let value = if items.is_empty() { Datum::Null } else { grants_value(&items) };
            self.rewrite_row(&row, runtime, |row| row.set("attacl", value))?;
        }
        Ok(())
    }

    /// ALTER TABLE … OWNER TO: the relation, its row types and indexes, and the sequences of its columns.
    pub(crate) fn give_relation(&mut self, table: &Table, owner: Oid, runtime: &dyn Runtime) -> Result<()> {
        if table.owner == owner {
            return Ok(());
        }
        let message = format!("cannot change owner of sequence \"{}\"", table.name);
        self.refuse_owned_sequence(table, &message, runtime)?;
        self.require_new_owner(owner, Some(table.schema_oid), runtime)?;
        let relations = self.with_own_relations(table)?;
        let mut types = Vec::new();
        for oid in relations {
            self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, oid, runtime, |row| {
                types.extend(Some(row.oid("reltype")).filter(|oid| *oid != 0));
                row.set("relowner", Datum::Oid(owner));
            })?;
        }
        for oid in types {
            let mut array = 0;
            self.update_row(PG_TYPE, PG_TYPE_OID_INDEX, oid, runtime, |row| {
                array = row.oid("typarray");
                row.set("typowner", Datum::Oid(owner));
            })?;
            if array != 0 {
                let give = |row: &mut CatalogRow| row.set("typowner", Datum::Oid(owner));
                self.update_row(PG_TYPE, PG_TYPE_OID_INDEX, array, runtime, give)?;
            }
        }
        self.give_column_grants(table, owner, runtime)
    }

    /// A relation, its indexes, and the sequences of its columns, which go where it goes.
    pub(crate) fn with_own_relations(&mut self, table: &Table) -> Result<Vec<Oid>> {
        let mut relations = vec![table.oid];
        relations.extend(table.indexes.iter().map(|index| index.oid));
        for row in self.dependents(PG_CLASS, table.oid, 0)? {
            let is_owned = b"ai".contains(&row.char("deptype")) && row.int("refobjsubid") != 0;
            if is_owned && row.oid("classid") == PG_CLASS && row.oid("objid") != table.oid {
                relations.push(row.oid("objid"));
            }
        }
        Ok(relations)
    }

    /// Grants on the columns of a relation are its new owner's, as those on itself are.
    fn give_column_grants(&mut self, table: &Table, new: Oid, runtime: &dyn Runtime) -> Result<()> {
        for column in &table.columns {
            let Some(list) = &column.grants else { continue };
            let items = kilndb_catalog::privileges::items_of_new_owner(list, table.owner, new);
            self.update_attribute(table.oid, column.attnum, runtime, |row| row.set("attacl", grants_value(&items)))?;
        }
        Ok(())
    }
}

impl Grant<'_> {
    /// The same for a column.
    fn for_columns(&self) -> Grant<'static> {
        Grant {
            is_grant: self.is_grant,
            option: self.option,
            cascades: self.cascades,
            privileges: 0,
            all: false,
            columns: Vec::new(),
            grantees: Vec::new(),
        }
    }
}
