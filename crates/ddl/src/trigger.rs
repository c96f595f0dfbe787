//! CREATE TRIGGER, and what changes triggers afterwards.

use super::Definitions;
use super::constraint::NewConstraint;
use super::trigger_clone::Which;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_bind::Binder;
use kilndb_bind::ir::{ATT_TABLEOID, ColId, Expr, ExprKind};
use kilndb_bind::names::VisibleColumns;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_catalog::store::vector;
use kilndb_catalog::trigger::{
    BEFORE, DELETE, INSERT, INSTEAD, ROW, TRUNCATE, UPDATE, is_key_function, is_of_key, join_arguments,
};
use kilndb_catalog::{CatalogView, Table, TableKind};
use kilndb_storage::LockMode;
use kilndb_syntax::{Node, nodes};
use kilndb_types::{Datum, oids};
use std::sync::Arc;

fn invalid(message: impl Into<String>) -> Error {
    Error::new(sqlstate::INVALID_OBJECT_DEFINITION, message)
}

/// Names of the tables of changed rows.
#[derive(Default)]
struct Transitions {
    old: Option<String>,
    new: Option<String>,
}

impl Definitions<'_> {
    pub fn create_trigger(
        &mut self,
        s: &nodes::CreateTrigStmt,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let r = s.relation().ok_or_else(|| Error::internal("CREATE TRIGGER without a table"))?;
        let name = s.trigname().unwrap_or("");
        let table = self.context_mut().relation_of(r, runtime)?;
        if table.is_catalog {
            return Err(Error::new(
                sqlstate::INSUFFICIENT_PRIVILEGE,
                format!("permission denied: \"{}\" is a system catalog", table.name),
            ));
        }
        if s.isconstraint && s.replace {
            return Err(Error::unsupported("CREATE OR REPLACE CONSTRAINT TRIGGER is not supported"));
        }
        check_kind_of_table(s, &table)?;
        if s.row && s.events & TRUNCATE != 0 {
            return Err(Error::unsupported("TRUNCATE FOR EACH ROW triggers are not supported"));
        }
        if s.timing & INSTEAD != 0 {
            check_instead(s)?;
        }
        let transitions = check_transitions(s, &table)?;
        let table =
            if table.kind == TableKind::View { table } else { self.lock_for_ddl(&table, self.table_lock(), runtime)? };
        let when = self.checked_condition(s, &table, source, runtime)?;
        let columns = named_columns(s, &table)?;
        let function = self.trigger_function(s, runtime)?;
        let other = match s.constrrel() {
            Some(other) => self.context_mut().table_of(other, runtime)?.oid,
            None => 0,
        };
        let existing = self.trigger_row(table.oid, name)?;
        if let Some(old) = &existing {
            if s.replace && old.oid("tgparentid") != 0 {
                let message =
                    format!("trigger \"{name}\" for relation \"{}\" is an internal or a child trigger", table.name);
                return Err(Error::new(sqlstate::DUPLICATE_OBJECT, message));
            }
            refuse_existing(old, s.replace, &table)?;
        }
        let constraint = match s.isconstraint {
            true => self.trigger_constraint(s, name, &table, runtime)?,
            false => 0,
        };
        let oid = match &existing {
            Some(old) => old.oid("oid"),
            None => self.new_oid(table.oid)?,
        };
        let arguments: Vec<&str> = s.args().iter().map(|a| a.sval().unwrap_or("")).collect();
        let kind = s.timing | s.events | if s.row { ROW } else { 0 };
        let mut values = vec![
            ("oid", Datum::Oid(oid)),
            ("tgrelid", Datum::Oid(table.oid)),
            ("tgparentid", Datum::Oid(0)),
            ("tgname", Datum::text(name)),
            ("tgfoid", Datum::Oid(function)),
            ("tgtype", Datum::Int2(kind)),
            ("tgenabled", Datum::Char(existing.as_ref().map_or(b'O', |old| old.char("tgenabled")))),
            ("tgisinternal", Datum::Bool(false)),
            ("tgconstrrelid", Datum::Oid(other)),
            ("tgconstrindid", Datum::Oid(0)),
            ("tgconstraint", Datum::Oid(constraint)),
            ("tgdeferrable", Datum::Bool(s.deferrable)),
            ("tginitdeferred", Datum::Bool(s.initdeferred)),
            ("tgnargs", Datum::Int2(arguments.len() as i16)),
            ("tgattr", vector(oids::INT2, columns.iter().map(|n| Datum::Int2(*n)).collect())),
            ("tgargs", Datum::Bytea(Arc::from(join_arguments(&arguments).as_slice()))),
        ];
        let optional = [
            ("tgqual", when.as_ref()),
            ("tgoldtable", transitions.old.as_ref()),
            ("tgnewtable", transitions.new.as_ref()),
        ];
        values.extend(optional.into_iter().filter_map(|(column, text)| text.map(|text| (column, Datum::text(text)))));
        if let Some(old) = &existing {
            self.write_catalog(runtime, |w| w.delete(old))?;
        }
        self.write_catalog(runtime, |w| w.insert(PG_TRIGGER, &values).map(|_| ()))?;
        self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, table.oid, runtime, |row| {
            row.set("relhastriggers", Datum::Bool(true))
        })?;
        self.pass_on_trigger(&table, oid, s.replace, runtime)
    }

    fn trigger_constraint(
        &mut self,
        s: &nodes::CreateTrigStmt,
        name: &str,
        table: &Table,
        runtime: &dyn Runtime,
    ) -> Result<Oid> {
        let new = NewConstraint {
            deferrable: s.deferrable,
            deferred: s.initdeferred,
            ..NewConstraint::own(name, b't', table, &[])
        };
        self.insert_constraint(&new, runtime)
    }

    pub(super) fn trigger_row(&mut self, table: Oid, name: &str) -> Result<Option<CatalogRow>> {
        let rows = self.context_mut().catalog_lookup(
            PG_TRIGGER,
            PG_TRIGGER_TGRELID_TGNAME_INDEX,
            &[Datum::Oid(table), Datum::text(name)],
        )?;
        Ok(rows.into_iter().next())
    }

    fn trigger_function(&mut self, s: &nodes::CreateTrigStmt, runtime: &dyn Runtime) -> Result<Oid> {
        let names = super::strings(s.funcname());
        let (schema, name) = match names.as_slice() {
            [name] => (None, *name),
            [.., schema, name] => (Some(*schema), *name),
            [] => return Err(Error::internal("a trigger without a function")),
        };
        let all = self.context_mut().with_catalog(runtime, |host| host.reader.functions(schema, name))?;
        let found = all.iter().find(|f| f.arg_types.is_empty() && f.kind == b'f');
        let shown = names.join(".");
        let found = found
            .ok_or_else(|| Error::new(sqlstate::UNDEFINED_FUNCTION, format!("function {shown}() does not exist")))?;
        if is_key_function(found.oid) {
            return Err(Error::unsupported(format!(
                "triggers that call \"{name}\" are not supported: foreign keys have their own"
            )));
        }
        if found.return_type != oids::TRIGGER {
            return Err(invalid(format!("function {name} must return type trigger")));
        }
        self.context_mut().require_call(found.oid, Some(&shown), runtime)?;
        Ok(found.oid)
    }

    fn checked_condition(
        &mut self,
        s: &nodes::CreateTrigStmt,
        table: &Arc<Table>,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<Option<String>> {
        if matches!(s.when_clause(), Node::None) {
            return Ok(None);
        }
        self.context_mut().with_catalog(runtime, |host| {
            let binder = Binder::new(&host.reader, source.clone(), Vec::new());
            let (old, new) = (binder.new_rel(), binder.new_rel());
            let e = binder.bind_when(s.when_clause(), table, old, new)?;
            check_condition(s, table, &e, (old, new), &binder)?;
            Ok(())
        })?;
        let text = kilndb_syntax::expression_sql(s.when_clause())?;
        self.stored_expression(&text, VisibleColumns::Rows(table), runtime).map(Some)
    }

    /// DROP TRIGGER.
    pub(super) fn drop_trigger(&mut self, s: &nodes::DropStmt, runtime: &dyn Runtime) -> Result<String> {
        let tag = "DROP TRIGGER".to_string();
        for object in s.objects() {
            let Node::NodeList(list) = object else { continue };
            let names = super::strings(list);
            let (schema, relation, name) = match names.as_slice() {
                [table, name] => (None, *table, *name),
                [.., schema, table, name] => (Some(*schema), *table, *name),
                _ => return Err(Error::internal("DROP TRIGGER without a table")),
            };
            if let Some(schema) = schema
                && s.missing_ok
                && !self.context_mut().with_catalog(runtime, |host| host.reader.schema_exists(schema))?
            {
                self.context().notice(Severity::Notice, format!("schema \"{schema}\" does not exist, skipping"));
                continue;
            }
            let Some(table) =
                self.context_mut().with_catalog(runtime, |host| host.reader.table_by_name(schema, relation))?
            else {
                let shown = schema.map_or(relation.to_string(), |schema| format!("{schema}.{relation}"));
                if s.missing_ok {
                    self.context().notice(Severity::Notice, format!("relation \"{shown}\" does not exist, skipping"));
                    continue;
                }
                return Err(Error::new(sqlstate::UNDEFINED_TABLE, format!("relation \"{shown}\" does not exist")));
            };
            let Some(row) = self.trigger_row(table.oid, name)? else {
                if s.missing_ok {
                    self.context().notice(
                        Severity::Notice,
                        format!("trigger \"{name}\" for relation \"{relation}\" does not exist, skipping"),
                    );
                    continue;
                }
                return Err(missing(name, &table));
            };
            if table.kind != TableKind::View {
                self.lock_for_ddl(&table, LockMode::AccessExclusive, runtime)?;
            }
            self.refuse_key_trigger(&row, runtime)?;
            self.refuse_clone(&row, runtime)?;
            self.delete_trigger(&row, runtime)?;
        }
        Ok(tag)
    }

    pub(super) fn delete_trigger(&mut self, row: &CatalogRow, runtime: &dyn Runtime) -> Result<()> {
        let oid = row.oid("oid");
        self.delete_clones(row, runtime)?;
        let key = [Datum::Oid(oid), Datum::Oid(PG_TRIGGER)];
        self.delete_rows(PG_DESCRIPTION, PG_DESCRIPTION_O_C_O_INDEX, &key, runtime)?;
        self.write_catalog(runtime, |w| w.delete(row))?;
        // Other sessions look at the table anew.
        self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, row.oid("tgrelid"), runtime, |_| {})?;
        match row.oid("tgconstraint") {
            0 => Ok(()),
            constraint => self.delete_constraint(constraint, runtime),
        }
    }

    /// Those of a table that goes.
    pub(super) fn delete_triggers_of(&mut self, table: Oid, runtime: &dyn Runtime) -> Result<()> {
        let rows =
            self.context_mut().catalog_lookup(PG_TRIGGER, PG_TRIGGER_TGRELID_TGNAME_INDEX, &[Datum::Oid(table)])?;
        // Those of foreign keys go with these.
        for row in rows.iter().filter(|row| !is_of_key(row)) {
            self.delete_trigger(row, runtime)?;
        }
        Ok(())
    }

    pub(super) fn trigger_by_oid(&mut self, oid: Oid) -> Result<Option<CatalogRow>> {
        Ok(self.context_mut().catalog_lookup(PG_TRIGGER, PG_TRIGGER_OID_INDEX, &[Datum::Oid(oid)])?.into_iter().next())
    }

    /// `trigger a on table t`.
    pub(super) fn trigger_shown(&mut self, row: &CatalogRow, runtime: &dyn Runtime) -> Result<String> {
        let table = self.context_mut().table_by_oid(row.oid("tgrelid"), runtime)?;
        Ok(format!(
            "trigger {} on {} {}",
            row.text("tgname").unwrap_or(""),
            super::kind_word(table.kind),
            self.shown_name(&table, runtime)?
        ))
    }

    /// ALTER TRIGGER … RENAME TO.
    pub(super) fn rename_trigger(
        &mut self,
        s: &nodes::RenameStmt,
        new_name: &str,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let r = s.relation().ok_or_else(|| Error::internal("ALTER TRIGGER without a table"))?;
        let table = self.context_mut().relation_of(r, runtime)?;
        if table.kind != TableKind::View {
            self.lock_for_ddl(&table, LockMode::AccessExclusive, runtime)?;
        }
        let old_name = s.subname().unwrap_or("");
        let row = self.trigger_row(table.oid, old_name)?.ok_or_else(|| missing(old_name, &table))?;
        if row.oid("tgparentid") != 0 {
            let above = self.context_mut().table_by_oid(table.partition_of, runtime)?;
            return Err(Error::unsupported(format!(
                "cannot rename trigger \"{old_name}\" on table \"{}\"",
                table.name
            ))
            .with_hint(format!("Rename the trigger on the partitioned table \"{}\" instead.", above.name)));
        }
        if old_name == new_name {
            return Ok("ALTER TRIGGER".to_string());
        }
        if self.trigger_row(table.oid, new_name)?.is_some() {
            return Err(duplicate(new_name, &table));
        }
        self.update_row(PG_TRIGGER, PG_TRIGGER_OID_INDEX, row.oid("oid"), runtime, |row| {
            row.set("tgname", Datum::text(new_name))
        })?;
        self.rename_clones(&table, row.oid("oid"), old_name, new_name, runtime)?;
        Ok("ALTER TRIGGER".to_string())
    }

    /// ALTER TABLE … ENABLE, DISABLE TRIGGER.
    pub(super) fn enable_trigger(
        &mut self,
        table: &Table,
        which: Which<'_>,
        mode: u8,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        if let Which::All = which {
            self.complete_key_triggers(table, runtime)?;
        }
        let rows =
            self.context_mut().catalog_lookup(PG_TRIGGER, PG_TRIGGER_TGRELID_TGNAME_INDEX, &[Datum::Oid(table.oid)])?;
        let mut found = false;
        for row in rows.iter().filter(|row| which.is(row)) {
            found = true;
            self.refuse_system_trigger(row)?;
            if row.char("tgenabled") != mode {
                self.update_row(PG_TRIGGER, PG_TRIGGER_OID_INDEX, row.oid("oid"), runtime, |row| {
                    row.set("tgenabled", Datum::Char(mode))
                })?;
            }
        }
        match which {
            Which::Named(name) if !found => Err(missing(name, table)),
            _ => Ok(()),
        }
    }

    pub(super) fn commented_trigger(&mut self, object: Node<'_>, runtime: &dyn Runtime) -> Result<(Oid, Oid, i32)> {
        let Node::NodeList(list) = object else { return Err(Error::internal("COMMENT ON TRIGGER without a name")) };
        let names = super::strings(list);
        let (schema, table, name) = match names.as_slice() {
            [table, name] => (None, *table, *name),
            [.., schema, table, name] => (Some(*schema), *table, *name),
            _ => return Err(Error::internal("COMMENT ON TRIGGER without a table")),
        };
        let found = self.context_mut().with_catalog(runtime, |host| host.reader.table_by_name(schema, table))?;
        let found = found
            .ok_or_else(|| Error::new(sqlstate::UNDEFINED_TABLE, format!("relation \"{table}\" does not exist")))?;
        let row = self.trigger_row(found.oid, name)?.ok_or_else(|| missing(name, &found))?;
        Ok((PG_TRIGGER, row.oid("oid"), 0))
    }
}

pub(super) fn duplicate(name: &str, table: &Table) -> Error {
    Error::new(sqlstate::DUPLICATE_OBJECT, format!("trigger \"{name}\" for relation \"{}\" already exists", table.name))
}

/// A trigger of that name is there already.
pub(super) fn refuse_existing(old: &CatalogRow, replace: bool, table: &Table) -> Result<()> {
    let name = old.text("tgname").unwrap_or("");
    if !replace {
        return Err(duplicate(name, table));
    }
    if old.oid("tgconstraint") != 0 {
        return Err(Error::new(
            sqlstate::DUPLICATE_OBJECT,
            format!("trigger \"{name}\" for relation \"{}\" is a constraint trigger", table.name),
        ));
    }
    Ok(())
}

fn missing(name: &str, table: &Table) -> Error {
    Error::new(sqlstate::UNDEFINED_OBJECT, format!("trigger \"{name}\" for table \"{}\" does not exist", table.name))
}

fn check_kind_of_table(s: &nodes::CreateTrigStmt, table: &Table) -> Result<()> {
    let wrong = |what: &str, detail: &str| {
        Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("\"{}\" is a {what}", table.name)).with_detail(detail))
    };
    match table.kind {
        TableKind::Table if s.timing & INSTEAD != 0 => wrong("table", "Tables cannot have INSTEAD OF triggers."),
        TableKind::Partitioned if s.timing & INSTEAD != 0 => wrong("table", "Tables cannot have INSTEAD OF triggers."),
        TableKind::Partitioned if s.row && !s.transition_rels().is_empty() => {
            Err(Error::unsupported(format!("\"{}\" is a partitioned table", table.name))
                .with_detail("ROW triggers with transition tables are not supported on partitioned tables."))
        }
        TableKind::Table | TableKind::Partitioned => Ok(()),
        TableKind::View if s.isconstraint => wrong("view", "Views cannot have constraint triggers."),
        TableKind::View if s.timing & INSTEAD == 0 && s.row => {
            wrong("view", "Views cannot have row-level BEFORE or AFTER triggers.")
        }
        TableKind::View if s.events & TRUNCATE != 0 => wrong("view", "Views cannot have TRUNCATE triggers."),
        TableKind::View => Ok(()),
        kind => {
            let message = if kind == TableKind::Index {
                format!("cannot open relation \"{}\"", table.name)
            } else {
                format!("relation \"{}\" cannot have triggers", table.name)
            };
            Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, message).with_detail(super::identity::not_for(kind)))
        }
    }
}

fn check_instead(s: &nodes::CreateTrigStmt) -> Result<()> {
    if !s.row {
        return Err(Error::unsupported("INSTEAD OF triggers must be FOR EACH ROW"));
    }
    if !matches!(s.when_clause(), Node::None) {
        return Err(Error::unsupported("INSTEAD OF triggers cannot have WHEN conditions"));
    }
    if !s.columns().is_empty() {
        return Err(Error::unsupported("INSTEAD OF triggers cannot have column lists"));
    }
    Ok(())
}

fn check_transitions(s: &nodes::CreateTrigStmt, table: &Table) -> Result<Transitions> {
    let mut found = Transitions::default();
    for node in s.transition_rels() {
        let Node::TriggerTransition(t) = node else { continue };
        if !t.is_table {
            return Err(Error::unsupported("ROW variable naming in the REFERENCING clause is not supported")
                .with_hint("Use OLD TABLE or NEW TABLE for naming transition tables."));
        }
        if table.kind == TableKind::View {
            return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("\"{}\" is a view", table.name))
                .with_detail("Triggers on views cannot have transition tables."));
        }
        if s.row && table.partition_of != 0 {
            return Err(Error::unsupported("ROW triggers with transition tables are not supported on partitions"));
        }
        if s.timing & (BEFORE | INSTEAD) != 0 {
            return Err(invalid("transition table name can only be specified for an AFTER trigger"));
        }
        if s.events & TRUNCATE != 0 {
            return Err(invalid("TRUNCATE triggers with transition tables are not supported"));
        }
        if (s.events & (INSERT | UPDATE | DELETE)).count_ones() != 1 {
            return Err(Error::unsupported(
                "transition tables cannot be specified for triggers with more than one event",
            ));
        }
        if !s.columns().is_empty() {
            return Err(Error::unsupported("transition tables cannot be specified for triggers with column lists"));
        }
        let (word, others, refused, place) = match t.is_new {
            true => ("NEW TABLE", "an INSERT or UPDATE", DELETE, &mut found.new),
            false => ("OLD TABLE", "a DELETE or UPDATE", INSERT, &mut found.old),
        };
        if s.events & refused != 0 {
            return Err(invalid(format!("{word} can only be specified for {others} trigger")));
        }
        if place.is_some() {
            return Err(invalid(format!("{word} cannot be specified multiple times")));
        }
        *place = t.name().map(str::to_string);
    }
    if found.old.is_some() && found.old == found.new {
        return Err(invalid("OLD TABLE name and NEW TABLE name cannot be the same"));
    }
    Ok(found)
}

fn named_columns(s: &nodes::CreateTrigStmt, table: &Table) -> Result<Vec<i16>> {
    let mut columns = Vec::new();
    for name in super::strings(s.columns()) {
        let found = table.columns.iter().find(|c| !c.dropped && c.name == name);
        let missing = || {
            Error::new(
                sqlstate::UNDEFINED_COLUMN,
                format!("column \"{name}\" of relation \"{}\" does not exist", table.name),
            )
        };
        let attnum = found.ok_or_else(missing)?.attnum;
        if columns.contains(&attnum) {
            return Err(Error::new(sqlstate::DUPLICATE_COLUMN, format!("column \"{name}\" specified more than once")));
        }
        columns.push(attnum);
    }
    Ok(columns)
}

/// Where an expression has a column that fits.
fn place_of(e: &Expr, fits: &dyn Fn(&ColId) -> bool) -> Option<i32> {
    let place = std::cell::Cell::new(None);
    e.any(&|e| {
        if let ExprKind::Column(c) = &e.kind
            && fits(c)
        {
            place.set(place.get().or(Some(e.loc)));
        }
        false
    });
    place.get()
}

/// What a condition may look at depends on the event.
fn check_condition(
    s: &nodes::CreateTrigStmt,
    table: &Table,
    e: &Expr,
    (old, new): (u32, u32),
    binder: &Binder<'_>,
) -> Result<()> {
    if e.has_sublink() {
        return Err(Error::unsupported("cannot use subquery in trigger WHEN condition"));
    }
    let refuse = |place: Option<i32>, error: Error| place.map_or(Ok(()), |place| Err(binder.at(error, place)));
    if !s.row {
        refuse(place_of(e, &|_| true), invalid("statement trigger's WHEN condition cannot reference column values"))?;
    }
    if s.events & INSERT != 0 {
        refuse(place_of(e, &|c| c.rel == old), invalid("INSERT trigger's WHEN condition cannot reference OLD values"))?;
    }
    if s.events & DELETE != 0 {
        refuse(place_of(e, &|c| c.rel == new), invalid("DELETE trigger's WHEN condition cannot reference NEW values"))?;
    }
    if s.timing & BEFORE != 0 {
        let message = "BEFORE trigger's WHEN condition cannot reference NEW system columns";
        refuse(place_of(e, &|c| c.rel == new && c.att < 0), Error::unsupported(message))?;
        for column in table.columns.iter().filter(|c| !c.dropped && c.generated != 0) {
            let error = invalid("BEFORE trigger's WHEN condition cannot reference NEW generated columns")
                .with_detail(format!("Column \"{}\" is a generated column.", column.name));
            refuse(place_of(e, &|c| c.rel == new && c.att == column.attnum), error)?;
        }
    }
    let message = "system columns in a trigger's WHEN condition are not supported";
    refuse(place_of(e, &|c| c.att < 0 && c.att != ATT_TABLEOID), Error::unsupported(message))
}
