//! Who uses a column, by what binding finds in kept definitions; and ALTER TABLE … DROP COLUMN.
//!
//! Invariants
//! 1. A definition uses a column if it names it, whatever else in its text reads like the column's name.
//! 2. Without CASCADE a column goes only with what is the table's own: indexes, checks, foreign keys, its default.

use super::Session;
use super::drop::{Blocker, Dependent, still_needed};
use super::renaming::bound_parts;
use crate::bind::reference::Reference;
use crate::catalog::ids::*;
use crate::catalog::store::CatalogRow;
use crate::catalog::{Column, Table, TableKind};
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_types::{Datum, oids};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What names a column.
#[derive(Default)]
pub(super) struct ColumnUsers {
    pub indexes: BTreeSet<Oid>,
    /// Those of the indexes that name it in an expression or in their condition.
    pub expression_indexes: BTreeSet<Oid>,
    pub checks: BTreeSet<Oid>,
    /// Generated columns of the table.
    pub generated: BTreeSet<i16>,
    pub triggers: BTreeSet<Oid>,
    pub views: BTreeSet<Oid>,
    pub routines: BTreeSet<Oid>,
}

/// A column that somebody asks for the users of.
struct AskedColumn<'c> {
    reference: Reference,
    name: &'c str,
}

impl AskedColumn<'_> {
    /// False: the text cannot name it, and need not be bound.
    fn may_be_named_in(&self, text: &str) -> bool {
        let quoted = self.name.replace('"', "\"\"");
        text.contains(self.name) || text.contains(&quoted) || text.to_ascii_uppercase().contains("NATURAL")
    }
}

impl Session {
    fn names_column(
        &mut self,
        class: Oid,
        row: &CatalogRow,
        texts: &[&'static str],
        asked: &AskedColumn<'_>,
        runtime: &dyn Runtime,
    ) -> Result<bool> {
        for column in texts {
            let Some(text) = row.text(column).filter(|text| asked.may_be_named_in(text)) else { continue };
            let is_named = self.with_catalog(runtime, |host| {
                let parts = bound_parts(host, class, row, column, text)?;
                Ok(parts.iter().any(|(_, part)| part.refers_to(asked.reference)))
            })?;
            if is_named {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The rows of a system table that belong to the table, and name the column.
    fn own_texts_naming(
        &mut self,
        (class, index): (Oid, Oid),
        texts: &[&'static str],
        asked: &AskedColumn<'_>,
        runtime: &dyn Runtime,
    ) -> Result<Vec<CatalogRow>> {
        let mut naming = Vec::new();
        for row in self.catalog_lookup(class, index, &[Datum::Oid(asked.reference.object)])? {
            if self.names_column(class, &row, texts, asked, runtime)? {
                naming.push(row);
            }
        }
        Ok(naming)
    }

    pub(super) fn column_users(&mut self, table: &Table, attnum: i16, runtime: &dyn Runtime) -> Result<ColumnUsers> {
        let name = table.columns.iter().find(|c| c.attnum == attnum).map_or("", |c| c.name.as_str());
        let asked = AskedColumn { reference: Reference::column(table.oid, attnum), name };
        let mut users = ColumnUsers::default();
        for index in &table.indexes {
            if index.keys.iter().any(|k| k.attnum == attnum) || index.include.contains(&attnum) {
                users.indexes.insert(index.oid);
            }
        }
        let own = [(PG_INDEX, PG_INDEX_INDRELID_INDEX), (PG_CONSTRAINT, PG_CONSTRAINT_CONRELID_INDEX)];
        for row in self.own_texts_naming(own[0], &["indexprs", "indpred"], &asked, runtime)? {
            users.indexes.insert(row.oid("indexrelid"));
            users.expression_indexes.insert(row.oid("indexrelid"));
        }
        for row in self.own_texts_naming(own[1], &["conbin"], &asked, runtime)? {
            users.checks.insert(row.oid("oid"));
        }
        for row in self.own_texts_naming((PG_ATTRDEF, PG_ATTRDEF_ADRELID_ADNUM_INDEX), &["adbin"], &asked, runtime)? {
            let is_generated = |c: &&Column| c.attnum == row.int("adnum") as i16 && c.generated != 0;
            users.generated.extend(table.columns.iter().find(is_generated).map(|c| c.attnum));
        }
        for row in self.dependents(PG_CLASS, table.oid, 0)? {
            let (class, oid) = (row.oid("classid"), row.oid("objid"));
            if class == PG_TRIGGER && row.char("deptype") == b'n' && row.int("refobjsubid") == i64::from(attnum) {
                // Those of partitions go with the partitioned table's.
                users.triggers.extend(self.trigger_by_oid(oid)?.filter(|t| t.oid("tgparentid") == 0).map(|_| oid));
            }
        }
        self.add_users_elsewhere(table, &asked, &mut users, runtime)?;
        Ok(users)
    }

    /// Views and bodies of routines.
    fn add_users_elsewhere(
        &mut self,
        table: &Table,
        asked: &AskedColumn<'_>,
        users: &mut ColumnUsers,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let (rules, bodies) = if table.kind == TableKind::Composite {
            // A composite type's fields are named where nothing says that the type is.
            (self.catalog_scan(PG_REWRITE)?, self.catalog_scan(PG_PROC)?)
        } else {
            let (mut rules, mut bodies) = (Vec::new(), Vec::new());
            for row in self.dependents(PG_CLASS, table.oid, 0)? {
                let key = [Datum::Oid(row.oid("objid"))];
                match (row.oid("classid"), row.char("deptype")) {
                    (PG_CLASS, b'n') => {
                        rules.extend(self.catalog_lookup(PG_REWRITE, PG_REWRITE_REL_RULENAME_INDEX, &key)?)
                    }
                    (PG_PROC, b'n') => bodies.extend(self.catalog_lookup(PG_PROC, PG_PROC_OID_INDEX, &key)?),
                    _ => {}
                }
            }
            (rules, bodies)
        };
        for row in rules {
            if super::is_user_object(row.oid("oid"))
                && self.names_column(PG_REWRITE, &row, &["ev_action"], asked, runtime)?
            {
                users.views.insert(row.oid("ev_class"));
            }
        }
        for row in bodies {
            if super::is_user_object(row.oid("oid"))
                && self.names_column(PG_PROC, &row, &["prosqlbody"], asked, runtime)?
            {
                users.routines.insert(row.oid("oid"));
            }
        }
        Ok(())
    }

    /// Does an expression of the table's partition key name the column?
    pub(super) fn is_in_key_expression(&mut self, table: &Table, attnum: i16, runtime: &dyn Runtime) -> Result<bool> {
        let name = table.columns.iter().find(|c| c.attnum == attnum).map_or("", |c| c.name.as_str());
        let asked = AskedColumn { reference: Reference::column(table.oid, attnum), name };
        let keys = (PG_PARTITIONED_TABLE, PG_PARTITIONED_TABLE_PARTRELID_INDEX);
        Ok(!self.own_texts_naming(keys, &["partexprs"], &asked, runtime)?.is_empty())
    }

    pub(super) fn drop_column(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        cascade: bool,
        missing_ok: bool,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let Some(column) = table.columns.iter().find(|c| !c.dropped && c.name == name) else {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
            if missing_ok {
                self.notice(Severity::Notice, format!("{message}, skipping"));
                return Ok(());
            }
            return Err(Error::new(sqlstate::UNDEFINED_COLUMN, message));
        };
        let attnum = column.attnum;
        let mut found = FoundBlockers::default();
        self.find_column_blockers(table, attnum, &mut found, runtime)?;
        // Found from the last one on, and each behind those that need it.
        found.blockers.reverse();
        let shown = self.column_shown(table, attnum, runtime)?;
        if !cascade && !found.blockers.is_empty() {
            let line = |b: &Blocker| format!("{} depends on {}", b.text, b.on.as_deref().unwrap_or(&shown));
            return Err(still_needed(Some(&shown), &found.blockers.iter().map(line).collect::<Vec<_>>()));
        }
        let lines: Vec<String> = found.blockers.iter().map(|b| b.text.clone()).collect();
        self.tell_cascade(&lines);
        self.drop_blockers(found.blockers, &[table.oid], runtime)?;
        let table = self.table_by_oid(table.oid, runtime)?;
        self.drop_column_alone(&table, attnum, cascade, runtime)
    }

    /// `column a of table t`.
    pub(super) fn column_shown(&mut self, table: &Table, attnum: i16, runtime: &dyn Runtime) -> Result<String> {
        let name = table.columns.iter().find(|c| c.attnum == attnum).map_or("", |c| c.name.as_str());
        Ok(format!("column {name} of {} {}", super::kind_word(table.kind), self.shown_name(table, runtime)?))
    }

    /// Adds who needs the column and is not the table's own, in the order in which PostgreSQL comes to them: those with
    /// the largest OIDs first, and each after those that need it.
    fn find_column_blockers(
        &mut self,
        table: &Arc<Table>,
        attnum: i16,
        found: &mut FoundBlockers,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let users = self.column_users(table, attnum, runtime)?;
        let shown = self.column_shown(table, attnum, runtime)?;
        let mut direct: Vec<(Oid, Dependent)> = Vec::new();
        let keys: Vec<_> =
            table.referenced_by.iter().filter(|k| users.indexes.contains(&k.referenced_index)).cloned().collect();
        let mut key_texts = Vec::new();
        for (key, name, owner) in self.whole_keys(&keys)? {
            if owner != table.oid {
                let owner = self.table_by_oid(owner, runtime)?;
                key_texts.push((key, format!("constraint {name} on table {}", self.shown_name(&owner, runtime)?)));
                direct.push((key, Dependent::Constraint(key)));
            }
        }
        direct.extend(users.triggers.into_iter().map(|oid| (oid, Dependent::Trigger(oid))));
        direct.extend(users.views.into_iter().map(|oid| (oid, Dependent::Relation(oid))));
        direct.extend(users.routines.into_iter().map(|oid| (oid, Dependent::Routine(oid))));
        direct.extend(users.generated.into_iter().map(|n| (table.oid, Dependent::Generated(table.oid, n))));
        direct.sort_by_key(|(oid, dependent)| {
            let sub = if let Dependent::Generated(_, attnum) = dependent { *attnum } else { 0 };
            std::cmp::Reverse((*oid, sub))
        });
        for (oid, dependent) in direct {
            let key = (oid, if let Dependent::Generated(_, attnum) = dependent { attnum } else { 0 });
            if !found.seen.insert(key) {
                continue;
            }
            let text = match &dependent {
                Dependent::Generated(_, attnum) => {
                    self.find_column_blockers(table, *attnum, found, runtime)?;
                    self.column_shown(table, *attnum, runtime)?
                }
                Dependent::Trigger(oid) => match self.trigger_by_oid(*oid)? {
                    Some(row) => self.trigger_shown(&row, runtime)?,
                    None => continue,
                },
                Dependent::Routine(oid) => self.routine_shown(*oid, runtime)?,
                Dependent::Relation(oid) => {
                    let view = self.table_by_oid(*oid, runtime)?;
                    self.find_view_blockers(&view, found, runtime)?;
                    self.view_shown(&view, runtime)?
                }
                _ => key_texts.iter().find(|(key, _)| *key == oid).map_or_else(String::new, |(_, text)| text.clone()),
            };
            found.blockers.push(Blocker { text, on: Some(shown.clone()), dependent });
        }
        Ok(())
    }

    fn view_shown(&mut self, view: &Table, runtime: &dyn Runtime) -> Result<String> {
        Ok(format!("{} {}", super::kind_word(view.kind), self.shown_name(view, runtime)?))
    }

    /// Views and routines that need a view.
    fn find_view_blockers(
        &mut self,
        view: &Arc<Table>,
        found: &mut FoundBlockers,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let on = self.view_shown(view, runtime)?;
        let rows = self.dependents(PG_CLASS, view.oid, 0)?;
        let needs =
            |row: &&CatalogRow| row.char("deptype") == b'n' && [PG_CLASS, PG_PROC].contains(&row.oid("classid"));
        let mut next: Vec<(Oid, Oid)> = rows.iter().filter(needs).map(|r| (r.oid("objid"), r.oid("classid"))).collect();
        next.sort_unstable_by_key(|row| std::cmp::Reverse(*row));
        for (oid, class) in next {
            if !found.seen.insert((oid, 0)) {
                continue;
            }
            let (text, dependent) = if class == PG_PROC {
                (self.routine_shown(oid, runtime)?, Dependent::Routine(oid))
            } else {
                let next = self.table_by_oid(oid, runtime)?;
                self.find_view_blockers(&next, found, runtime)?;
                (self.view_shown(&next, runtime)?, Dependent::Relation(oid))
            };
            found.blockers.push(Blocker { text, on: Some(on.clone()), dependent });
        }
        Ok(())
    }

    /// A column that nobody else needs any more goes, with what is the table's own. `cascade`: and with who needs its
    /// sequence.
    pub(super) fn drop_column_alone(
        &mut self,
        table: &Arc<Table>,
        attnum: i16,
        cascade: bool,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let Some(column) = table.columns.iter().find(|c| !c.dropped && c.attnum == attnum) else { return Ok(()) };
        let users = self.column_users(table, attnum, runtime)?;
        for index in table.indexes.iter().filter(|i| users.indexes.contains(&i.oid)) {
            for row in self.catalog_lookup(PG_CONSTRAINT, PG_CONSTRAINT_CONRELID_INDEX, &[Datum::Oid(table.oid)])? {
                if row.oid("conindid") == index.oid && row.char("contype") != b'f' {
                    self.delete_constraint(row.oid("oid"), runtime)?;
                }
            }
            self.remove_index(index, table.storage, runtime)?;
        }
        for key in table.foreign_keys.iter().filter(|k| k.columns.contains(&attnum)) {
            self.delete_constraint(key.oid, runtime)?;
        }
        for check in users.checks {
            self.delete_constraint(check, runtime)?;
        }
        if let Some(row) = self.not_null_row(table, attnum)? {
            self.delete_constraint(row.oid("oid"), runtime)?;
        }
        self.delete_defaults(table.oid, Some(attnum), runtime)?;
        let owner = self.column_shown(table, attnum, runtime)?;
        for row in self.dependents(PG_CLASS, table.oid, i32::from(attnum))? {
            if b"ai".contains(&row.char("deptype")) && row.oid("classid") == PG_CLASS {
                let owned = self.table_by_oid(row.oid("objid"), runtime)?;
                self.drop_owned(&owned, cascade, &[], &owner, runtime)?;
            }
        }
        self.refuse_stored_rows(table, runtime)?;
        self.forget_type(table.oid, attnum, runtime)?;
        self.delete_statistics(table.oid, Some(attnum), runtime)?;
        // Rows keep the value: what it is stored as must be known when the type is gone.
        let type_oid = column.type_oid;
        let stored = self.with_catalog(runtime, |host| host.reader.storage_type(type_oid))?;
        let stored = if stored >= crate::catalog::builtin::FIRST_USER_OID { oids::RECORD } else { stored };
        self.update_attribute(table.oid, attnum, runtime, |row| {
            row.set("atttypid", Datum::Oid(stored));
            row.set("attisdropped", Datum::Bool(true));
            row.set("attnotnull", Datum::Bool(false));
            row.set("atthasdef", Datum::Bool(false));
            row.set("attname", Datum::text(format!("........pg.dropped.{attnum}........")));
        })
    }

    /// ALTER COLUMN … TYPE is refused where the old type is built in, in PostgreSQL too but for checks and indexes.
    pub(super) fn refuse_new_type(&mut self, table: &Table, column: &Column, runtime: &dyn Runtime) -> Result<()> {
        let users = self.column_users(table, column.attnum, runtime)?;
        let name = &column.name;
        let refuse = |what: &str, user: String| {
            Err(Error::unsupported(format!("cannot alter type of a column used {what}"))
                .with_detail(format!("{user} depends on column \"{name}\"")))
        };
        if let Some(routine) = users.routines.first() {
            return refuse("by a function or procedure", self.routine_shown(*routine, runtime)?);
        }
        if let Some(view) = users.views.first() {
            let view = self.table_by_oid(*view, runtime)?;
            let shown = format!("rule _RETURN on {}", self.view_shown(&view, runtime)?);
            return refuse("by a view or rule", shown);
        }
        if let Some(generated) = users.generated.first() {
            let other = table.columns.iter().find(|c| c.attnum == *generated).map_or("", |c| c.name.as_str());
            return Err(Error::unsupported("cannot alter type of a column used by a generated column")
                .with_detail(format!("Column \"{name}\" is used by generated column \"{other}\".")));
        }
        if let Some(trigger) = users.triggers.first()
            && let Some(row) = self.trigger_by_oid(*trigger)?
        {
            return refuse("in a trigger definition", self.trigger_shown(&row, runtime)?);
        }
        if !users.checks.is_empty() || !users.expression_indexes.is_empty() {
            return Err(Error::unsupported(format!(
                "changing the type of column \"{name}\", which a check or an expression of an index uses, is not supported"
            )));
        }
        Ok(())
    }
}

/// Who needs what goes, and whom somebody has come to already: an OID, and the column of a generated one.
#[derive(Default)]
struct FoundBlockers {
    blockers: Vec<Blocker>,
    seen: BTreeSet<(Oid, i16)>,
}
