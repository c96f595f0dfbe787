//! PRIMARY KEY, UNIQUE, CHECK and FOREIGN KEY.

use super::Definitions;
use super::build::key_text;
use super::index::NewIndex;
use super::partition_keys::NameCounter;
use crate::client::Runtime;
use crate::privileges::{may_read, require_of_owner};
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_bind::engine_query::{KeyJoin, RowCondition, RowValue, TableQuery};
use kilndb_bind::names::{BoundText, VisibleColumns};
use kilndb_catalog::ForeignKey;
use kilndb_catalog::global::GLOBAL;
use kilndb_catalog::ids::*;
use kilndb_catalog::privileges::privilege;
use kilndb_catalog::store::array;
use kilndb_catalog::user_types::shown_type;
use kilndb_catalog::{CatalogView, Table, TableKind};
use kilndb_storage::LockMode;
use kilndb_syntax::nodes;
use kilndb_syntax::raw::ConstrType as C;
use kilndb_types::{Datum, oids};
use std::sync::Arc;

/// A row of pg_constraint to be made.
pub(super) struct NewConstraint<'a> {
    pub name: &'a str,
    pub kind: u8,
    pub table: &'a Table,
    pub columns: &'a [i16],
    pub index: Oid,
    pub deferrable: bool,
    pub deferred: bool,
    pub validated: bool,
    pub enforced: bool,
    pub no_inherit: bool,
    pub expression: Option<&'a str>,
    pub foreign: Option<ForeignPart>,
    /// A partition has it from its parent.
    pub is_inherited: bool,
    /// The parent's constraint, for those that point at it.
    pub part_of: Oid,
}

impl<'a> NewConstraint<'a> {
    /// Of an index or a trigger: the table's own.
    pub fn own(name: &'a str, kind: u8, table: &'a Table, columns: &'a [i16]) -> NewConstraint<'a> {
        NewConstraint {
            no_inherit: true,
            is_inherited: false,
            ..NewConstraint::inherited(name, kind, table, columns, true)
        }
    }
    /// What a partition has from its parent.
    pub(crate) fn inherited(
        name: &'a str,
        kind: u8,
        table: &'a Table,
        columns: &'a [i16],
        validated: bool,
    ) -> NewConstraint<'a> {
        NewConstraint {
            name,
            kind,
            table,
            columns,
            index: 0,
            deferrable: false,
            deferred: false,
            validated,
            enforced: true,
            no_inherit: false,
            expression: None,
            foreign: None,
            is_inherited: true,
            part_of: 0,
        }
    }
}

pub(super) struct ForeignPart {
    pub table: Oid,
    pub columns: Vec<i16>,
    pub on_update: u8,
    pub on_delete: u8,
    pub match_type: u8,
    /// ON DELETE SET NULL (…), SET DEFAULT (…).
    pub delete_columns: Vec<i16>,
    pub equal_operators: Vec<KeyOperators>,
}

/// The columns of a foreign key beside those that they reference.
#[derive(Clone, Copy)]
pub(super) struct KeyPair<'a> {
    pub referencing: &'a Arc<Table>,
    pub columns: &'a [i16],
    pub referenced: &'a Arc<Table>,
    pub referenced_columns: &'a [i16],
}

pub(super) fn key_pair<'a>(
    key: &'a ForeignKey,
    referencing: &'a Arc<Table>,
    referenced: &'a Arc<Table>,
) -> KeyPair<'a> {
    KeyPair { referencing, columns: &key.columns, referenced, referenced_columns: &key.referenced_columns }
}

/// Equality of one column of a foreign key and the column that it references (pg_constraint's conpfeqop, conppeqop,
/// conffeqop).
#[derive(Clone, Copy)]
pub(super) struct KeyOperators {
    pub mixed: Oid,
    pub referenced: Oid,
    pub referencing: Oid,
}

/// The columns of pg_constraint that the operators of a foreign key are kept in.
pub(super) fn operator_columns(operators: &[KeyOperators]) -> [(&'static str, Datum); 3] {
    let list = |of: fn(&KeyOperators) -> Oid| array(oids::OID, operators.iter().map(|o| Datum::Oid(of(o))).collect());
    [("conpfeqop", list(|o| o.mixed)), ("conppeqop", list(|o| o.referenced)), ("conffeqop", list(|o| o.referencing))]
}

/// DEFERRABLE, INITIALLY DEFERRED.
#[derive(Clone, Copy)]
struct Deferral {
    deferrable: bool,
    deferred: bool,
}

/// A column's constraint has its DEFERRABLE and the like as separate nodes behind it.
fn deferral_of(c: &nodes::Constraint, all: &[&nodes::Constraint]) -> Deferral {
    let mut found = Deferral { deferrable: c.deferrable, deferred: c.initdeferred };
    let at = all.iter().position(|other| std::ptr::eq(*other, c)).map_or(all.len(), |i| i + 1);
    for attribute in all.get(at..).unwrap_or(&[]) {
        match attribute.contype {
            C::CONSTR_ATTR_DEFERRABLE => found.deferrable = true,
            C::CONSTR_ATTR_NOT_DEFERRABLE => found.deferrable = false,
            C::CONSTR_ATTR_DEFERRED => (found.deferrable, found.deferred) = (true, true),
            C::CONSTR_ATTR_IMMEDIATE => found.deferred = false,
            C::CONSTR_ATTR_ENFORCED | C::CONSTR_ATTR_NOT_ENFORCED => {}
            _ => break,
        }
    }
    found
}

fn is_enforced(c: &nodes::Constraint, all: &[&nodes::Constraint]) -> bool {
    let is_attribute = |k: &nodes::Constraint| {
        matches!(
            k.contype,
            C::CONSTR_ATTR_DEFERRABLE
                | C::CONSTR_ATTR_NOT_DEFERRABLE
                | C::CONSTR_ATTR_DEFERRED
                | C::CONSTR_ATTR_IMMEDIATE
                | C::CONSTR_ATTR_ENFORCED
                | C::CONSTR_ATTR_NOT_ENFORCED
        )
    };
    let at = all.iter().position(|other| std::ptr::eq(*other, c)).map_or(all.len(), |i| i + 1);
    let mut attributes = all.get(at..).unwrap_or(&[]).iter().take_while(|k| is_attribute(k));
    c.is_enforced && !attributes.any(|k| k.contype == C::CONSTR_ATTR_NOT_ENFORCED)
}

impl Definitions<'_> {
    /// Adds one constraint. `all`: the constraints of the same command, for names already spoken for.
    pub(super) fn add_constraint(
        &mut self,
        table: Oid,
        c: &nodes::Constraint,
        column: Option<&str>,
        all: &[&nodes::Constraint],
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let table = self.context_mut().table_by_oid(table, runtime)?;
        let deferral = deferral_of(c, all);
        match c.contype {
            C::CONSTR_PRIMARY | C::CONSTR_UNIQUE => self.add_key(&table, c, column, deferral, false, runtime),
            C::CONSTR_CHECK => self.add_check(&table, c, all, runtime),
            C::CONSTR_FOREIGN => self.add_foreign_key(&table, (c, is_enforced(c, all)), column, deferral, runtime),
            C::CONSTR_EXCLUSION => Err(Error::unsupported("exclusion constraints are not supported")),
            _ => Ok(()),
        }?;
        let _ = source;
        Ok(())
    }

    fn add_key(
        &mut self,
        table: &Arc<Table>,
        c: &nodes::Constraint,
        column: Option<&str>,
        deferral: Deferral,
        only: bool,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let primary = c.contype == C::CONSTR_PRIMARY;
        if primary && table.indexes.iter().any(|i| i.primary) {
            return Err(Error::new(
                sqlstate::INVALID_TABLE_DEFINITION,
                format!("multiple primary keys for table \"{}\" are not allowed", table.name),
            ));
        }
        if c.without_overlaps {
            return Err(Error::unsupported("WITHOUT OVERLAPS is not supported"));
        }
        if let Some(index) = c.indexname() {
            return self.adopt_index(table, c, index, primary, deferral, runtime);
        }
        let names: Vec<String> = match column {
            Some(column) => vec![column.to_string()],
            None => super::strings(c.keys()).iter().map(|s| s.to_string()).collect(),
        };
        let what = if primary { "primary key constraint" } else { "unique constraint" };
        let columns = column_numbers(table, &names, "key")?;
        if let Some(name) = repeated(&columns, &names) {
            return Err(Error::new(sqlstate::DUPLICATE_COLUMN, format!("column \"{name}\" appears twice in {what}")));
        }
        let included: Vec<String> = super::strings(c.including()).iter().map(|s| s.to_string()).collect();
        let suffix = if primary { "pkey" } else { "key" };
        let name = match c.conname() {
            Some(name) => name.to_string(),
            None if primary => self.free_name(table, &[], suffix, runtime)?,
            None => self.free_name(table, &[names, included.clone()].concat(), suffix, runtime)?,
        };
        if primary {
            self.set_not_null(table, &columns, runtime)?;
        }
        let include = column_numbers(table, &included, "key")?;
        let table = self.context_mut().table_by_oid(table.oid, runtime)?;
        let new = NewIndex {
            name: name.clone(),
            keys: columns.iter().map(|n| self.plain_key(&table, *n, runtime)).collect::<Result<_>>()?,
            include,
            unique: true,
            primary,
            nulls_not_distinct: c.nulls_not_distinct,
            immediate: !deferral.deferrable,
            predicate: None,
            options: self.index_options(c.options())?,
            method: 403,
            in_whole: false,
            is_part: false,
        };
        super::index_class::check_options(new.method, &new.options)?;
        let index = self.insert_index(&table, &new, runtime)?;
        self.insert_constraint(
            &NewConstraint {
                index,
                deferrable: deferral.deferrable,
                deferred: deferral.deferred,
                ..NewConstraint::own(&name, if primary { b'p' } else { b'u' }, &table, &columns)
            },
            runtime,
        )?;
        self.index_partitions(&table, index, only, runtime)
    }

    /// ALTER TABLE ONLY … ADD PRIMARY KEY or UNIQUE, of a partitioned table: its partitions' keys are attached
    /// afterwards.
    pub(super) fn add_key_only(
        &mut self,
        table: &Arc<Table>,
        c: &nodes::Constraint,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        self.add_key(table, c, None, deferral_of(c, &[]), true, runtime)
    }

    /// ADD CONSTRAINT … USING INDEX.
    fn adopt_index(
        &mut self,
        table: &Arc<Table>,
        c: &nodes::Constraint,
        index: &str,
        primary: bool,
        deferral: Deferral,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let found = table
            .indexes
            .iter()
            .find(|i| i.name == index)
            .cloned()
            .ok_or_else(|| Error::new(sqlstate::UNDEFINED_OBJECT, format!("index \"{index}\" does not exist")))?;
        if !found.unique {
            return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("\"{index}\" is not a unique index")));
        }
        let columns: Vec<i16> = found.keys.iter().map(|k| k.attnum).collect();
        if columns.contains(&0) || found.predicate_sql.is_some() {
            return Err(Error::new(
                sqlstate::WRONG_OBJECT_TYPE,
                format!("index \"{index}\" contains expressions or a predicate"),
            )
            .with_detail("Cannot create a primary key or unique constraint using such an index."));
        }
        let name = c.conname().unwrap_or(index).to_string();
        if primary {
            self.set_not_null(table, &columns, runtime)?;
            self.update_row(PG_INDEX, PG_INDEX_INDEXRELID_INDEX, found.oid, runtime, |row| {
                row.set("indisprimary", Datum::Bool(true))
            })?;
        }
        if deferral.deferrable {
            self.update_row(PG_INDEX, PG_INDEX_INDEXRELID_INDEX, found.oid, runtime, |row| {
                row.set("indimmediate", Datum::Bool(false))
            })?;
        }
        if name != index {
            self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, found.oid, runtime, |row| {
                row.set("relname", Datum::text(&name))
            })?;
        }
        let new = NewConstraint {
            index: found.oid,
            deferrable: deferral.deferrable,
            deferred: deferral.deferred,
            ..NewConstraint::own(&name, if primary { b'p' } else { b'u' }, table, &columns)
        };
        self.insert_constraint(&new, runtime)?;
        Ok(())
    }

    /// NOT VALID, which says nothing of a new table.
    fn skips_validation(&self, c: &nodes::Constraint) -> bool {
        c.skip_validation && self.command != "CREATE TABLE"
    }

    fn add_check(
        &mut self,
        table: &Arc<Table>,
        c: &nodes::Constraint,
        all: &[&nodes::Constraint],
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let sql = kilndb_syntax::expression_sql(c.raw_expr())?;
        let used = self.context_mut().with_catalog(runtime, |host| {
            let bound = kilndb_bind::bind_expression(&sql, Some(table), &host.reader, Some((oids::BOOL, -1)));
            let bound = bound.map_err(|mut e| {
                e.0.position = None;
                e
            })?;
            let mut used = Vec::new();
            columns_in(&bound.expr, bound.rel, &mut used);
            Ok(used)
        })?;
        let sql = self.stored_expression(&sql, VisibleColumns::Table(table), runtime)?;
        let name = match c.conname() {
            Some(name) => name.to_string(),
            None => {
                let taken: Vec<&str> = all.iter().filter_map(|o| o.conname()).collect();
                // Named after the column if there is only one in it.
                let part = match used.as_slice() {
                    [one] => table.columns.get(*one as usize - 1).map(|c| c.name.clone()).into_iter().collect(),
                    _ => Vec::new(),
                };
                self.free_constraint_name(table, &part, "check", &taken, runtime)?
            }
        };
        if table.checks.iter().any(|k| k.name == name) {
            return Err(Error::new(
                sqlstate::DUPLICATE_OBJECT,
                format!("constraint \"{name}\" for relation \"{}\" already exists", table.name),
            ));
        }
        let enforced = is_enforced(c, all);
        let validated = enforced && !self.skips_validation(c);
        // A new table has no rows, and whoever enters some is asked about the check's functions then.
        if validated && self.command != "CREATE TABLE" {
            self.validate_check(table, &name, &sql, runtime)?;
        }
        self.insert_constraint(
            &NewConstraint {
                name: &name,
                kind: b'c',
                table,
                columns: &[],
                index: 0,
                deferrable: false,
                deferred: false,
                validated,
                enforced,
                no_inherit: c.is_no_inherit,
                expression: Some(&sql),
                foreign: None,
                is_inherited: false,
                part_of: 0,
            },
            runtime,
        )?;
        let checks = table.checks.len() as i16 + 1;
        self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, table.oid, runtime, |row| {
            row.set("relchecks", Datum::Int2(checks))
        })
    }

    /// PostgreSQL names a check after the column if it uses just one.
    pub(super) fn validate_check(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        sql: &str,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        if self.has_no_page(table)? {
            return self.require_calls(table, (RowValue::TableOid, RowCondition::False(sql)), runtime);
        }
        let Some(table) = self.table_with_row(table, RowCondition::False(sql), runtime)? else { return Ok(()) };
        Err(Error::new(
            sqlstate::CHECK_VIOLATION,
            format!("check constraint \"{name}\" of relation \"{}\" is violated by some row", table.name),
        )
        .with_table(&table.schema_name, &table.name)
        .with_constraint(name))
    }

    fn add_foreign_key(
        &mut self,
        table: &Arc<Table>,
        (c, enforced): (&nodes::Constraint, bool),
        column: Option<&str>,
        deferral: Deferral,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let target = c.pktable().ok_or_else(|| Error::internal("a foreign key without a target"))?;
        let target = self.context_mut().relation_of(target, runtime)?;
        if !matches!(target.kind, TableKind::Table | TableKind::Partitioned) {
            return Err(Error::new(
                sqlstate::WRONG_OBJECT_TYPE,
                format!("referenced relation \"{}\" is not a table", target.name),
            ));
        }
        let (allowed, message): (&[u8], _) = match table.persistence {
            b't' => (b"t", "constraints on temporary tables may reference only temporary tables"),
            b'u' => (b"pu", "constraints on unlogged tables may reference only permanent or unlogged tables"),
            GLOBAL => (b"g", "constraints on global temporary tables may reference only global temporary tables"),
            _ => (b"p", "constraints on permanent tables may reference only permanent tables"),
        };
        if !allowed.contains(&target.persistence) {
            return Err(Error::new(sqlstate::INVALID_TABLE_DEFINITION, message));
        }
        if table.persistence == GLOBAL && target.delete_rows && !table.delete_rows {
            return Err(Error::unsupported("unsupported ON COMMIT and foreign key combination").with_detail(format!(
                "Table \"{}\" references \"{}\", but they do not have the same ON COMMIT setting.",
                table.name, target.name
            )));
        }
        self.lock_for_ddl(&target, LockMode::ShareRowExclusive, runtime)?;
        let names: Vec<String> = match column {
            Some(column) => vec![column.to_string()],
            None => super::strings(c.fk_attrs()).iter().map(|s| s.to_string()).collect(),
        };
        let columns = column_numbers(table, &names, "foreign key constraint")?;
        let (target_columns, index) = self.referenced_key(&target, c)?;
        self.context_mut().require_on_columns(&target, &target_columns, privilege::REFERENCES)?;
        if columns.len() != target_columns.len() {
            return Err(Error::new(
                sqlstate::INVALID_FOREIGN_KEY,
                "number of referencing and referenced columns for foreign key disagree",
            ));
        }
        let name = match c.conname() {
            Some(name) => name.to_string(),
            None => self.free_constraint_name(table, &names, "fkey", &[], runtime)?,
        };
        let pair =
            KeyPair { referencing: table, columns: &columns, referenced: &target, referenced_columns: &target_columns };
        let equal_operators = self.equality_operators(pair, &name, runtime)?;
        if c.fk_matchtype as u8 == b'p' {
            return Err(Error::unsupported("MATCH PARTIAL not yet implemented"));
        }
        let delete_columns = delete_columns(table, c, &columns)?;
        let validated = enforced && !self.skips_validation(c);
        let foreign = ForeignPart {
            table: target.oid,
            columns: target_columns.clone(),
            on_update: c.fk_upd_action as u8,
            on_delete: c.fk_del_action as u8,
            match_type: c.fk_matchtype as u8,
            delete_columns,
            equal_operators,
        };
        if validated {
            self.validate_foreign_key(pair, &name, runtime)?;
        }
        let key = self.insert_constraint(
            &NewConstraint {
                name: &name,
                kind: b'f',
                table,
                columns: &columns,
                index,
                deferrable: deferral.deferrable,
                deferred: deferral.deferred,
                validated,
                enforced,
                no_inherit: table.kind != TableKind::Partitioned,
                expression: None,
                foreign: Some(foreign),
                is_inherited: false,
                part_of: 0,
            },
            runtime,
        )?;
        self.reference_partitions(key, &target, &mut NameCounter::default(), runtime)
    }

    /// Columns a foreign key points at, and the unique index over them.
    fn referenced_key(&mut self, target: &Table, c: &nodes::Constraint) -> Result<(Vec<i16>, Oid)> {
        let names: Vec<String> = super::strings(c.pk_attrs()).iter().map(|s| s.to_string()).collect();
        if names.is_empty() {
            let primary = target.indexes.iter().find(|i| i.primary).ok_or_else(|| {
                Error::new(
                    sqlstate::UNDEFINED_OBJECT,
                    format!("there is no primary key for referenced table \"{}\"", target.name),
                )
            })?;
            if primary.deferrable {
                return Err(deferrable_target("primary key", target));
            }
            return Ok((primary.keys.iter().map(|k| k.attnum).collect(), primary.oid));
        }
        let columns = column_numbers(target, &names, "foreign key constraint")?;
        if repeated(&columns, &names).is_some() {
            return Err(Error::new(
                sqlstate::INVALID_FOREIGN_KEY,
                "foreign key referenced-columns list must not contain duplicates",
            ));
        }
        let mut wanted = columns.clone();
        wanted.sort_unstable();
        let mut deferrable = false;
        for index in target.indexes.iter().filter(|i| i.unique && i.predicate_sql.is_none()) {
            let mut keys: Vec<i16> = index.keys.iter().map(|k| k.attnum).collect();
            keys.sort_unstable();
            if keys == wanted && !index.deferrable {
                return Ok((columns, index.oid));
            }
            deferrable |= keys == wanted;
        }
        if deferrable {
            return Err(deferrable_target("unique constraint", target));
        }
        Err(Error::new(
            sqlstate::INVALID_FOREIGN_KEY,
            format!("there is no unique constraint matching given keys for referenced table \"{}\"", target.name),
        ))
    }

    /// The operators that compare the key's columns in pairs: 42804 if a pair has none.
    pub(super) fn equality_operators(
        &mut self,
        key: KeyPair<'_>,
        name: &str,
        runtime: &dyn Runtime,
    ) -> Result<Vec<KeyOperators>> {
        let mut operators = Vec::new();
        for (mine, theirs) in key.columns.iter().zip(key.referenced_columns) {
            let mine = &key.referencing.columns[*mine as usize - 1];
            let theirs = &key.referenced.columns[*theirs as usize - 1];
            let found = self.context_mut().with_catalog(runtime, |host| {
                // Values of a domain are compared as those of the type under it.
                let base = |ty| shown_type(ty, -1, &host.reader).0;
                let (left, right) = (base(theirs.type_oid), base(mine.type_oid));
                let own = |ty| Ok::<_, Error>(host.reader.ordering_operators(ty)?.map_or(0, |o| o.equal));
                let all = host.reader.operators(None, "=")?;
                if let Some(exact) = all.iter().find(|o| o.left == left && o.right == right) {
                    let (referenced, referencing) = (own(left)?, own(right)?);
                    return Ok(Some(KeyOperators { mixed: exact.oid, referenced, referencing }));
                }
                let implicit = left == right
                    || host
                        .reader
                        .cast(right, left)?
                        .is_some_and(|c| c.context == kilndb_catalog::CastContext::Implicit);
                let same = host.reader.ordering_operators(left)?.map(|o| o.equal).filter(|_| implicit);
                Ok(same.map(|same| KeyOperators { mixed: same, referenced: same, referencing: same }))
            })?;
            let Some(found) = found else {
                let (left, right) = self.context_mut().with_catalog(runtime, |host| {
                    Ok((host.reader.format_type(mine.type_oid, -1), host.reader.format_type(theirs.type_oid, -1)))
                })?;
                let message = format!("foreign key constraint \"{name}\" cannot be implemented");
                return Err(Error::new(sqlstate::DATATYPE_MISMATCH, message).with_detail(format!(
                    "Key columns \"{}\" of the referencing table and \"{}\" of the referenced table are of incompatible types: {left} and {right}.",
                    mine.name, theirs.name
                )));
            };
            if mine.collation != theirs.collation
                && !(mine.collation.is_deterministic() && theirs.collation.is_deterministic())
            {
                return Err(self.refused_collations(name, mine, theirs, runtime)?);
            }
            operators.push(found);
        }
        Ok(operators)
    }

    /// 42P21: a key's columns are not equal by the same collation.
    fn refused_collations(
        &mut self,
        name: &str,
        mine: &kilndb_catalog::Column,
        theirs: &kilndb_catalog::Column,
        runtime: &dyn Runtime,
    ) -> Result<Error> {
        let mut shown = |oid| {
            let name = self.context_mut().with_catalog(runtime, |host| host.reader.collation_info(oid))?;
            Ok::<_, Error>(name.map_or_else(String::new, |info| info.name))
        };
        let (left, right) = (shown(mine.collation.oid)?, shown(theirs.collation.oid)?);
        let message = format!("foreign key constraint \"{name}\" cannot be implemented");
        Ok(Error::new(sqlstate::COLLATION_MISMATCH, message).with_detail(format!(
            "Key columns \"{}\" of the referencing table and \"{}\" of the referenced table have incompatible collations: \"{left}\" and \"{right}\".  If either collation is nondeterministic, then both collations have to be the same.",
            mine.name, theirs.name
        )))
    }

    pub(super) fn validate_foreign_key(&mut self, key: KeyPair<'_>, name: &str, runtime: &dyn Runtime) -> Result<()> {
        let KeyPair { referencing: table, columns, referenced: target, referenced_columns } = key;
        self.require_for_validation(key, runtime)?;
        let query = KeyJoin { referencing: table, columns, referenced: target, referenced_columns, is_dangling: true };
        let found = self.first_row_of(&query, runtime)?;
        let Some((Datum::Oid(place), row)) = found.as_deref().and_then(<[Datum]>::split_first) else { return Ok(()) };
        // Of a partitioned table, the partition.
        let place = self.context_mut().table_by_oid(*place, runtime)?;
        let values: Vec<String> = row.iter().map(key_text).collect();
        let names: Vec<&str> = columns.iter().map(|n| table.columns[*n as usize - 1].name.as_str()).collect();
        Err(Error::new(
            sqlstate::FOREIGN_KEY_VIOLATION,
            format!("insert or update on table \"{}\" violates foreign key constraint \"{name}\"", place.name),
        )
        .with_detail(format!(
            "Key ({})=({}) is not present in table \"{}\".",
            names.join(", "),
            values.join(", "),
            target.name
        ))
        .with_table(&place.schema_name, &place.name)
        .with_constraint(name))
    }

    /// As in PostgreSQL a role that may read both tables holds their rows against each other itself; for any other role
    /// each row is checked as the owner of the referenced table. 42501: that owner may not.
    fn require_for_validation(&mut self, key: KeyPair<'_>, runtime: &dyn Runtime) -> Result<()> {
        let KeyPair { referencing, columns, referenced, referenced_columns } = key;
        if self.context().is_superuser() {
            return Ok(());
        }
        let role = self.context().identity.current_role;
        let (is_own_work, allowed) = self.context_mut().with_roles(|roles| {
            let reads_both =
                may_read(role, referencing, columns, roles) && may_read(role, referenced, referenced_columns, roles);
            let wanted = privilege::SELECT | privilege::UPDATE;
            (reads_both, require_of_owner(referenced, wanted, referenced_columns, roles))
        })?;
        if is_own_work || allowed.is_ok() {
            return Ok(());
        }
        let query = TableQuery {
            table: referencing,
            values: vec![RowValue::TableOid],
            condition: RowCondition::NoneNull(columns),
            is_one: true,
        };
        match self.first_row_of(&query, runtime)? {
            Some(_) => allowed,
            None => Ok(()),
        }
    }

    pub(super) fn insert_constraint(&mut self, new: &NewConstraint<'_>, runtime: &dyn Runtime) -> Result<Oid> {
        let oid = self.new_oid(new.table.oid)?;
        let numbers = |list: &[i16]| array(oids::INT2, list.iter().map(|n| Datum::Int2(*n)).collect());
        let mut row = vec![
            ("oid", Datum::Oid(oid)),
            ("conname", Datum::text(new.name)),
            ("connamespace", Datum::Oid(new.table.schema_oid)),
            ("contype", Datum::Char(new.kind)),
            ("condeferrable", Datum::Bool(new.deferrable)),
            ("condeferred", Datum::Bool(new.deferred)),
            ("conenforced", Datum::Bool(new.enforced)),
            ("convalidated", Datum::Bool(new.validated)),
            ("conrelid", Datum::Oid(new.table.oid)),
            ("conindid", Datum::Oid(new.index)),
            ("conislocal", Datum::Bool(!new.is_inherited)),
            ("coninhcount", Datum::Int2(i16::from(new.is_inherited))),
            ("conparentid", Datum::Oid(new.part_of)),
            ("connoinherit", Datum::Bool(new.no_inherit)),
            ("confupdtype", Datum::Char(b' ')),
            ("confdeltype", Datum::Char(b' ')),
            ("confmatchtype", Datum::Char(b' ')),
        ];
        let columns = match new.expression {
            Some(sql) => self.columns_named(sql, new.table.oid, runtime)?,
            None => new.columns.to_vec(),
        };
        if !columns.is_empty() {
            row.push(("conkey", numbers(&columns)));
        }
        if let Some(sql) = new.expression {
            row.push(("conbin", Datum::text(sql)));
        }
        if let Some(foreign) = &new.foreign {
            row.retain(|(name, _)| !name.starts_with("conf"));
            if !foreign.delete_columns.is_empty() {
                row.push(("confdelsetcols", numbers(&foreign.delete_columns)));
            }
            row.extend([
                ("confrelid", Datum::Oid(foreign.table)),
                ("confupdtype", Datum::Char(foreign.on_update)),
                ("confdeltype", Datum::Char(foreign.on_delete)),
                ("confmatchtype", Datum::Char(foreign.match_type)),
                ("confkey", numbers(&foreign.columns)),
            ]);
            row.extend(operator_columns(&foreign.equal_operators));
        }
        self.write_catalog(runtime, |w| w.insert(PG_CONSTRAINT, &row).map(|_| ()))?;
        if new.foreign.is_some() {
            self.settle_key_triggers(oid, runtime)?;
        }
        Ok(oid)
    }

    /// The columns of its table that a check names.
    fn columns_named(&mut self, sql: &str, table: Oid, runtime: &dyn Runtime) -> Result<Vec<i16>> {
        let table = self.context_mut().table_by_oid(table, runtime)?;
        let references = self.context_mut().with_catalog(runtime, |host| {
            Ok(BoundText::expression(sql, VisibleColumns::Table(&table), &host.reader)?.references())
        })?;
        let of_table = references.iter().filter(|r| r.class == PG_CLASS && r.object == table.oid && r.column > 0);
        Ok(of_table.map(|r| r.column).collect())
    }

    /// `table_a_b_suffix`, with a number if that is taken (PostgreSQL's ChooseRelationName).
    pub(super) fn free_name(
        &mut self,
        table: &Table,
        columns: &[String],
        suffix: &str,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        for number in 0.. {
            let label = if number == 0 { suffix.to_string() } else { format!("{suffix}{number}") };
            let name = object_name(&table.name, &columns.join("_"), &label);
            let schema = table.schema_oid;
            if self.context_mut().with_catalog(runtime, |host| host.reader.relation_oid(schema, &name))?.is_none() {
                return Ok(name);
            }
        }
        Err(Error::internal("no free name"))
    }

    pub(super) fn free_constraint_name(
        &mut self,
        table: &Table,
        columns: &[String],
        suffix: &str,
        taken: &[&str],
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let known = self.context_mut().with_catalog(runtime, |host| host.reader.constraints_of(table.oid))?;
        for number in 0.. {
            let label = if number == 0 { suffix.to_string() } else { format!("{suffix}{number}") };
            let name = object_name(&table.name, &columns.join("_"), &label);
            if !taken.contains(&name.as_str()) && !known.iter().any(|r| r.text("conname") == Some(&name)) {
                return Ok(name);
            }
        }
        Err(Error::internal("no free name"))
    }
}

/// The columns of ON DELETE SET NULL (…) or SET DEFAULT (…), each once.
fn delete_columns(table: &Table, c: &nodes::Constraint, key: &[i16]) -> Result<Vec<i16>> {
    let mut names: Vec<String> = Vec::new();
    for name in super::strings(c.fk_del_set_cols()) {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_string());
        }
    }
    let columns = column_numbers(table, &names, "foreign key constraint")?;
    for (column, name) in columns.iter().zip(&names) {
        if !key.contains(column) {
            let message = format!("column \"{name}\" referenced in ON DELETE SET action must be part of foreign key");
            return Err(Error::new(sqlstate::INVALID_COLUMN_REFERENCE, message));
        }
    }
    Ok(columns)
}

fn deferrable_target(what: &str, target: &Table) -> Error {
    let message = format!("cannot use a deferrable {what} for referenced table \"{}\"", target.name);
    Error::new(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}

pub(super) fn column_numbers(table: &Table, names: &[String], what: &str) -> Result<Vec<i16>> {
    let mut numbers = Vec::new();
    for name in names {
        let column = table.columns.iter().find(|c| !c.dropped && c.name == *name).ok_or_else(|| {
            let message = if what == "key" {
                format!("column \"{name}\" named in key does not exist")
            } else {
                format!("column \"{name}\" referenced in {what} does not exist")
            };
            Error::new(sqlstate::UNDEFINED_COLUMN, message)
        })?;
        numbers.push(column.attnum);
    }
    Ok(numbers)
}

/// The name of the first column that is there a second time. A referencing column may be.
fn repeated<'a>(columns: &[i16], names: &'a [String]) -> Option<&'a String> {
    (1..columns.len()).find(|at| columns[..*at].contains(&columns[*at])).map(|at| &names[at])
}

/// Joins name parts with underscores, cutting the longer of the first two so that all fits in 63 bytes.
pub(super) fn object_name(first: &str, second: &str, label: &str) -> String {
    let overhead = label.len() + 1 + usize::from(!second.is_empty());
    let room = 63usize.saturating_sub(overhead);
    let (mut a, mut b) = (first.len(), second.len());
    while a + b > room {
        if a > b { a -= 1 } else { b -= 1 }
    }
    let cut = |s: &str, mut n: usize| {
        while !s.is_char_boundary(n) {
            n -= 1;
        }
        s[..n].to_string()
    };
    let mut name = cut(first, a);
    if !second.is_empty() {
        name = format!("{name}_{}", cut(second, b));
    }
    format!("{name}_{label}")
}

/// Attribute numbers of the columns of relation `rel` in an expression, each once.
fn columns_in(e: &kilndb_bind::ir::Expr, rel: u32, out: &mut Vec<i16>) {
    if let kilndb_bind::ir::ExprKind::Column(c) = &e.kind
        && c.rel == rel
        && c.att > 0
        && !out.contains(&c.att)
    {
        out.push(c.att);
    }
    e.for_children(&mut |child| columns_in(child, rel, out));
}
