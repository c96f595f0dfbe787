//! CREATE TABLE (LIKE …): columns at once; constraints, indexes and comments when the table is there.

use super::Definitions;
use super::constraint::NewConstraint;
use super::create_table::NewColumn;
use super::index::NewIndex;
use super::not_null::NotNullClause;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::global::GLOBAL;
use kilndb_catalog::ids::*;
use kilndb_catalog::privileges::privilege;
use kilndb_catalog::{Column, Index, Table};
use kilndb_syntax::nodes;
use kilndb_types::Datum;
use std::sync::Arc;

const COMMENTS: u32 = 1;
const CONSTRAINTS: u32 = 1 << 2;
const DEFAULTS: u32 = 1 << 3;
const GENERATED: u32 = 1 << 4;
const IDENTITY: u32 = 1 << 5;
const INDEXES: u32 = 1 << 6;
const STATISTICS: u32 = 1 << 7;

/// Where the new table is going to be.
pub(super) struct NewPlace<'a> {
    pub table: &'a str,
    pub schema: Oid,
    pub persistence: u8,
}

/// The LIKE clauses of a CREATE TABLE, with the options of each.
#[derive(Default)]
pub(super) struct Likes(Vec<(Arc<Table>, u32)>);

impl Likes {
    /// Whether something of the other tables is added when the new one is there, which it is looked up for.
    pub fn look_up_table(&self) -> bool {
        self.0.iter().any(|(_, options)| options & (CONSTRAINTS | DEFAULTS | GENERATED | INDEXES | STATISTICS) != 0)
    }

    pub fn add(
        &mut self,
        definitions: &mut Definitions<'_>,
        like: &nodes::TableLikeClause,
        columns: &mut Vec<NewColumn>,
        place: &NewPlace<'_>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        use kilndb_catalog::TableKind as K;
        let r = like.relation().ok_or_else(|| Error::internal("LIKE without a table"))?;
        let table = definitions.context_mut().relation_of(r, runtime)?;
        if !definitions.context().is_superuser() {
            definitions.context_mut().require_on_table(&table, privilege::SELECT)?;
        }
        if !matches!(table.kind, K::Table | K::View | K::Materialized | K::Partitioned | K::Composite) {
            return Err(Error::new(
                sqlstate::WRONG_OBJECT_TYPE,
                format!("relation \"{}\" is invalid in LIKE clause", table.name),
            )
            .with_detail(super::identity::not_for(table.kind)));
        }
        for column in table.columns.iter().filter(|c| !c.dropped) {
            if columns.iter().any(|known| known.name == column.name) {
                return Err(Error::new(
                    sqlstate::DUPLICATE_COLUMN,
                    format!("column \"{}\" specified more than once", column.name),
                ));
            }
            columns.push(definitions.like_column(&table, column, like.options, place, runtime)?);
        }
        self.0.push((table, like.options));
        Ok(())
    }

    /// CHECK constraints.
    pub(crate) fn copy_checks(&self, definitions: &mut Definitions<'_>, new: Oid, runtime: &dyn Runtime) -> Result<()> {
        for (table, _) in self.0.iter().filter(|(_, options)| options & CONSTRAINTS != 0) {
            let target = definitions.context_mut().table_by_oid(new, runtime)?;
            for check in &table.checks {
                let copy = NewConstraint {
                    name: &check.name,
                    kind: b'c',
                    table: &target,
                    columns: &[],
                    index: 0,
                    deferrable: false,
                    deferred: false,
                    validated: check.enforced,
                    enforced: check.enforced,
                    no_inherit: check.no_inherit,
                    expression: Some(&check.sql),
                    foreign: None,
                    is_inherited: false,
                    part_of: 0,
                };
                definitions.insert_constraint(&copy, runtime)?;
            }
            let checks = (target.checks.len() + table.checks.len()) as i16;
            definitions.update_row(PG_CLASS, PG_CLASS_OID_INDEX, new, runtime, |row| {
                row.set("relchecks", Datum::Int2(checks))
            })?;
        }
        Ok(())
    }

    /// Indexes with their constraints, comments.
    pub(crate) fn copy_rest(&self, definitions: &mut Definitions<'_>, new: Oid, runtime: &dyn Runtime) -> Result<()> {
        for (table, options) in &self.0 {
            if options & INDEXES != 0 {
                for index in &table.indexes {
                    let copy = definitions.copy_index(table, index, new, runtime)?;
                    if options & COMMENTS != 0 {
                        definitions.copy_comment((PG_CLASS, index.oid, 0), (PG_CLASS, copy, 0), runtime)?;
                    }
                }
            }
            if options & COMMENTS != 0 {
                definitions.copy_comments(table, new, options & CONSTRAINTS != 0, runtime)?;
            }
        }
        Ok(())
    }
}

impl Definitions<'_> {
    fn like_column(
        &mut self,
        table: &Table,
        c: &Column,
        options: u32,
        place: &NewPlace<'_>,
        runtime: &dyn Runtime,
    ) -> Result<NewColumn> {
        let keep = if c.generated != 0 { options & GENERATED != 0 } else { options & DEFAULTS != 0 };
        let mut column = NewColumn {
            name: c.name.clone(),
            type_oid: c.type_oid,
            typmod: c.typmod,
            collation: c.collation.oid,
            not_null: c.not_null,
            default_sql: c.default_sql.clone().filter(|_| keep),
            generated: if keep { c.generated } else { 0 },
            ..NewColumn::default()
        };
        if let Some(row) = self.not_null_row(table, c.attnum)?.filter(|_| c.not_null) {
            column.not_null_clause = NotNullClause {
                name: row.text("conname").map(str::to_string),
                no_inherit: row.bool("connoinherit"),
                not_valid: false,
            };
        }
        if let (Some(sequence), true) = (c.identity_sequence, c.identity != 0 && options & IDENTITY != 0) {
            let copied = self.sequence_options(sequence)?;
            let name = self.free_sequence_name(place.table, &c.name, place.schema, runtime)?;
            column.sequence = Some(self.insert_sequence(
                &name,
                place.schema,
                if place.persistence == GLOBAL { b'p' } else { place.persistence },
                &copied,
                runtime,
            )?);
            column.identity = c.identity;
        }
        Ok(column)
    }

    fn copy_index(&mut self, table: &Table, index: &Arc<Index>, new: Oid, runtime: &dyn Runtime) -> Result<Oid> {
        let target = self.context_mut().table_by_oid(new, runtime)?;
        // Columns keep their names, not their numbers.
        let moved = |attnum: i16| -> i16 {
            let name = usize::try_from(attnum - 1).ok().and_then(|i| table.columns.get(i)).map(|c| &c.name);
            target.columns.iter().find(|c| Some(&c.name) == name).map_or(0, |c| c.attnum)
        };
        let mut keys = index.keys.clone();
        keys.iter_mut().filter(|k| k.attnum != 0).for_each(|k| k.attnum = moved(k.attnum));
        let rows =
            self.context_mut().catalog_lookup(PG_CONSTRAINT, PG_CONSTRAINT_CONRELID_INDEX, &[Datum::Oid(table.oid)])?;
        let constraint = rows.iter().find(|r| r.oid("conindid") == index.oid && b"pu".contains(&r.char("contype")));
        let attributes = self.context_mut().catalog_lookup(
            PG_ATTRIBUTE,
            PG_ATTRIBUTE_RELID_ATTNUM_INDEX,
            &[Datum::Oid(index.oid)],
        )?;
        let names: Vec<String> = attributes.iter().filter_map(|a| a.text("attname").map(str::to_string)).collect();
        let name = match (index.primary, constraint.is_some()) {
            (true, _) => self.free_name(&target, &[], "pkey", runtime)?,
            (false, true) => self.free_name(&target, &names, "key", runtime)?,
            (false, false) => self.free_name(&target, &names, "idx", runtime)?,
        };
        let options = self.context_mut().with_catalog(runtime, |host| {
            Ok(host.reader.class_row(index.oid)?.map(|c| c.texts("reloptions")).unwrap_or_default())
        })?;
        let copy = NewIndex {
            name: name.clone(),
            keys,
            include: index.include.iter().map(|n| moved(*n)).collect(),
            unique: index.unique,
            primary: index.primary,
            nulls_not_distinct: index.nulls_not_distinct,
            immediate: !index.deferrable,
            predicate: index.predicate_sql.clone(),
            options,
            method: index.method.oid,
            in_whole: false,
            is_part: false,
        };
        let oid = self.insert_index(&target, &copy, runtime)?;
        if let Some(row) = constraint {
            let columns: Vec<i16> = copy.keys.iter().map(|k| k.attnum).collect();
            let new = NewConstraint {
                index: oid,
                deferrable: row.bool("condeferrable"),
                deferred: row.bool("condeferred"),
                ..NewConstraint::own(&name, row.char("contype"), &target, &columns)
            };
            self.insert_constraint(&new, runtime)?;
        }
        Ok(oid)
    }

    fn copy_comments(&mut self, table: &Table, new: Oid, constraints: bool, runtime: &dyn Runtime) -> Result<()> {
        let target = self.context_mut().table_by_oid(new, runtime)?;
        for column in table.columns.iter().filter(|c| !c.dropped) {
            if let Some(copy) = target.columns.iter().find(|c| c.name == column.name) {
                self.copy_comment(
                    (PG_CLASS, table.oid, i32::from(column.attnum)),
                    (PG_CLASS, new, i32::from(copy.attnum)),
                    runtime,
                )?;
            }
        }
        let old =
            self.context_mut().catalog_lookup(PG_CONSTRAINT, PG_CONSTRAINT_CONRELID_INDEX, &[Datum::Oid(table.oid)])?;
        let fresh =
            self.context_mut().catalog_lookup(PG_CONSTRAINT, PG_CONSTRAINT_CONRELID_INDEX, &[Datum::Oid(new)])?;
        for row in old.iter().filter(|r| (r.char("contype") == b'c' && constraints) || r.char("contype") == b'n') {
            if let Some(copy) = fresh.iter().find(|f| f.text("conname") == row.text("conname")) {
                self.copy_comment((PG_CONSTRAINT, row.oid("oid"), 0), (PG_CONSTRAINT, copy.oid("oid"), 0), runtime)?;
            }
        }
        Ok(())
    }

    fn copy_comment(&mut self, from: (Oid, Oid, i32), to: (Oid, Oid, i32), runtime: &dyn Runtime) -> Result<()> {
        let key = [Datum::Oid(from.1), Datum::Oid(from.0), Datum::Int4(from.2)];
        for row in self.context_mut().catalog_lookup(PG_DESCRIPTION, PG_DESCRIPTION_O_C_O_INDEX, &key)? {
            let text = row.text("description").unwrap_or("").to_string();
            self.write_catalog(runtime, |w| {
                let values = [
                    ("objoid", Datum::Oid(to.1)),
                    ("classoid", Datum::Oid(to.0)),
                    ("objsubid", Datum::Int4(to.2)),
                    ("description", Datum::text(text)),
                ];
                w.insert(PG_DESCRIPTION, &values).map(|_| ())
            })?;
        }
        Ok(())
    }
}
