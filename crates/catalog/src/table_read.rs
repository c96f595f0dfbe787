//! Tables as they are read from the system tables: columns, indexes, constraints, and what else a plan needs of one.

use super::access_method::{AccessMethod, BTREE_METHOD};
use super::builtin::{FIRST_USER_OID, PG_CATALOG, SystemTable};
use super::cache::{CatalogReader, split_expressions};
use super::catalog_row::CatalogRow;
use super::extension::is_member;
use super::global::DELETE_ROWS_OPTION;
use super::ids::*;
use super::model::*;
use super::operator_class::compares_bytes;
use super::rows::{firing_of, foreign_key, foreign_key_rows, triggers_by_key};
use super::store::shape;
use super::temporary::is_temporary;
use super::trigger::ForeignKeyFiring;
use kilndb_base::hash::{HashMap, HashMapExt};
use kilndb_base::sync::Arc;
use kilndb_base::{Oid, RelationId, Result};
use kilndb_types::collation::Collation;
use kilndb_types::row::RowDescriptor;
use kilndb_types::{Datum, oids};

impl CatalogReader<'_> {
    pub(super) fn load_table(&self, oid: Oid) -> Result<Option<Arc<Table>>> {
        let Some(class) = self.class_row(oid)? else { return Ok(None) };
        let kind = match class.char("relkind") {
            b'r' | b't' => TableKind::Table,
            b'v' => TableKind::View,
            b'm' => TableKind::Materialized,
            b'S' => TableKind::Sequence,
            b'i' | b'I' => TableKind::Index,
            b'p' => TableKind::Partitioned,
            b'c' => TableKind::Composite,
            _ => return Ok(None),
        };
        let mut columns = self.load_columns(oid)?;
        let mut row_types = Vec::new();
        let mut stored_types = Vec::with_capacity(columns.len());
        for column in &columns {
            stored_types.push(self.storage_type(column.type_oid)?);
        }
        let mut descriptor = RowDescriptor::new(&stored_types)?;
        for (layout, column) in descriptor.columns.iter_mut().zip(&mut columns).filter(|(_, column)| !column.dropped) {
            if let Some(shape) = self.stored_shape(column.type_oid, &mut row_types)? {
                column.missing = shape.read(std::mem::take(&mut column.missing));
                layout.shape_by(Arc::new(shape));
            }
            let (base, typmod) = super::user_types::shown_type(column.type_oid, column.typmod, self);
            if layout.type_oid == oids::BPCHAR && base == oids::BPCHAR && typmod >= 4 {
                layout.pad_to(typmod as u32 - 4);
            }
        }
        let schema_oid = class.oid("relnamespace");
        let has_rules = matches!(kind, TableKind::View | TableKind::Materialized);
        let indexes = if class.bool("relhasindex") { self.load_indexes(oid, &columns)? } else { Vec::new() };
        let (checks, foreign_keys) = self.load_constraints(oid, &mut columns)?;
        Ok(Some(Arc::new(Table {
            oid,
            name: class.text("relname").unwrap_or("").to_string(),
            schema_oid,
            schema_name: self.schema_name(schema_oid)?.unwrap_or_default(),
            owner: class.oid("relowner"),
            grants: class.grants("relacl"),
            is_security_invoker: class.texts("reloptions").iter().any(|o| o == "security_invoker=true"),
            is_security_barrier: class.texts("reloptions").iter().any(|o| o == "security_barrier=true"),
            check_option: super::model::CheckOption::of_options(&class.texts("reloptions")),
            row_security: self.load_row_security(&class)?,
            kind,
            persistence: class.char("relpersistence"),
            delete_rows: class.texts("reloptions").iter().any(|o| o.strip_prefix(DELETE_ROWS_OPTION) == Some("=true")),
            type_oid: class.oid("reltype"),
            descriptor: Arc::new(descriptor),
            row_types,
            columns,
            storage: RelationId(class.oid("relfilenode")),
            indexes,
            checks,
            foreign_keys,
            referenced_by: self.referencing(oid)?,
            triggers: if class.bool("relhastriggers") { self.load_triggers(oid)? } else { Vec::new() },
            view_sql: if has_rules { self.load_view(oid)? } else { None },
            reltuples: class.float4("reltuples"),
            relpages: class.int("relpages") as i32,
            is_catalog: oid < FIRST_USER_OID,
            is_populated: class.bool("relispopulated"),
            partition_key: if kind == TableKind::Partitioned {
                self.load_partition_key(oid)?.map(Arc::new)
            } else {
                None
            },
            partition_of: if class.bool("relispartition") && kind != TableKind::Index {
                self.partition_parent(oid)?
            } else {
                0
            },
            sequence: if kind == TableKind::Sequence { self.load_sequence(oid)? } else { None },
            statistics: Default::default(),
        })))
    }

    /// What a row stores for a type: domains as their base type, enums as numbers of 64 bits ([`EnumLabel::value`]).
    pub fn storage_type(&self, oid: Oid) -> Result<Oid> {
        match self.type_by_oid(oid)? {
            Some(t) if t.kind == b'd' => self.storage_type(t.base_type),
            Some(t) if t.kind == b'e' => Ok(oids::XID8),
            _ => Ok(oid),
        }
    }

    fn load_columns(&self, oid: Oid) -> Result<Vec<Column>> {
        let rows = self.lookup(PG_ATTRIBUTE, PG_ATTRIBUTE_RELID_ATTNUM_INDEX, &[Datum::Oid(oid)])?;
        let defaults = self.lookup(PG_ATTRDEF, PG_ATTRDEF_ADRELID_ADNUM_INDEX, &[Datum::Oid(oid)])?;
        let mut columns = Vec::new();
        for row in rows.iter().filter(|r| r.int("attnum") > 0) {
            let attnum = row.int("attnum") as i16;
            let default = defaults.iter().find(|d| d.int("adnum") == i64::from(attnum));
            let missing = match row.get("attmissingval") {
                Datum::Array(a) => a.elements.first().cloned().unwrap_or_default(),
                _ => Datum::Null,
            };
            let identity = letter(row.char("attidentity"));
            columns.push(Column {
                name: row.text("attname").unwrap_or("").to_string(),
                attnum,
                type_oid: row.oid("atttypid"),
                typmod: row.int("atttypmod") as i32,
                collation: match row.bool("attisdropped") {
                    true => Collation::default(),
                    false => self.collation_of(row.oid("attcollation"))?,
                },
                not_null: row.bool("attnotnull"),
                is_never_null: row.bool("attnotnull"),
                dropped: row.bool("attisdropped"),
                default_sql: default.and_then(|d| d.text("adbin")).map(str::to_string),
                identity,
                identity_sequence: if identity != 0 {
                    self.identity_sequence(oid, attnum, row.text("attname").unwrap_or(""))?
                } else {
                    None
                },
                generated: letter(row.char("attgenerated")),
                missing,
                grants: row.grants("attacl"),
            });
        }
        Ok(columns)
    }

    /// The sequence that depends internally on a column (an identity column's), or else automatically (a serial's).
    pub fn owned_sequence(&self, table: Oid, attnum: i16) -> Result<Option<Oid>> {
        let key = [Datum::Oid(PG_CLASS), Datum::Oid(table), Datum::Int4(i32::from(attnum))];
        let rows = self.lookup(PG_DEPEND, PG_DEPEND_REFERENCE_INDEX, &key)?;
        let mut owned = None;
        for row in rows.iter().filter(|r| r.oid("classid") == PG_CLASS && b"ai".contains(&r.char("deptype"))) {
            let object = row.oid("objid");
            if self.class_row(object)?.is_some_and(|c| c.char("relkind") == b'S') {
                if row.char("deptype") == b'i' {
                    return Ok(Some(object));
                }
                owned = owned.or(Some(object));
            }
        }
        Ok(owned)
    }

    fn load_view(&self, oid: Oid) -> Result<Option<String>> {
        let rows = self.lookup(PG_REWRITE, PG_REWRITE_REL_RULENAME_INDEX, &[Datum::Oid(oid)])?;
        Ok(rows.first().and_then(|r| r.text("ev_action")).map(str::to_string))
    }

    fn load_indexes(&self, table: Oid, columns: &[Column]) -> Result<Vec<Arc<Index>>> {
        let rows = self.lookup(PG_INDEX, PG_INDEX_INDRELID_INDEX, &[Datum::Oid(table)])?;
        let mut indexes = Vec::new();
        for row in &rows {
            if let Some(index) = self.load_index(row, columns)? {
                indexes.push(Arc::new(index));
            }
        }
        indexes.sort_by_key(|i| i.oid);
        Ok(indexes)
    }

    fn load_index(&self, row: &CatalogRow, columns: &[Column]) -> Result<Option<Index>> {
        let oid = row.oid("indexrelid");
        let Some(class) = self.class_row(oid)? else { return Ok(None) };
        let attributes = self.lookup(PG_ATTRIBUTE, PG_ATTRIBUTE_RELID_ATTNUM_INDEX, &[Datum::Oid(oid)])?;
        let attnums = row.numbers("indkey");
        let options = row.numbers("indoption");
        let classes = row.numbers("indclass");
        let collations = row.numbers("indcollation");
        let expressions = row.text("indexprs").map(split_expressions).unwrap_or_default();
        let mut expressions = expressions.into_iter();
        let key_count = row.int("indnkeyatts") as usize;
        let at = |list: &[i64], i: usize| list.get(i).copied().unwrap_or(0);
        let method = AccessMethod::of(class.oid("relam"));
        let mut keys = Vec::new();
        for (i, attnum) in attnums.iter().take(key_count).enumerate() {
            let column = columns.iter().find(|c| i64::from(c.attnum) == *attnum);
            let type_oid = match column {
                Some(c) => c.type_oid,
                None => attributes.iter().find(|a| a.int("attnum") == i as i64 + 1).map_or(0, |a| a.oid("atttypid")),
            };
            let type_oid = self.key_type(type_oid)?;
            keys.push(IndexKey {
                attnum: *attnum as i16,
                expression_sql: if *attnum == 0 { expressions.next() } else { None },
                type_oid,
                order_type: match method.has_terms() || compares_bytes(at(&classes, i) as Oid) {
                    true => type_oid,
                    false => self.order_type(type_oid, at(&collations, i) as Oid)?,
                },
                descending: at(&options, i) & 1 != 0,
                nulls_first: at(&options, i) & 2 != 0,
                collation: at(&collations, i) as Oid,
                opclass: at(&classes, i) as Oid,
            });
        }
        let constraint = self.constraint_of_index(row.oid("indrelid"), oid)?;
        let part_of = if class.bool("relispartition") { self.partition_parent(oid)? } else { 0 };
        let own = RelationId(class.oid("relfilenode"));
        let storage = if own.0 == 0 && part_of != 0 { self.tree_of_whole(part_of)? } else { own };
        let is_in_whole = storage != own;
        Ok(Some(Index {
            oid,
            name: class.text("relname").unwrap_or("").to_string(),
            table_oid: row.oid("indrelid"),
            storage,
            unique: row.bool("indisunique"),
            primary: row.bool("indisprimary"),
            nulls_not_distinct: row.bool("indnullsnotdistinct"),
            is_constraint: constraint.is_some(),
            constraint: constraint.as_ref().map_or(0, |c| c.oid("oid")),
            deferrable: constraint.as_ref().is_some_and(|c| c.bool("condeferrable")),
            initially_deferred: constraint.is_some_and(|c| c.bool("condeferred")),
            keys,
            include: attnums.iter().skip(key_count).map(|n| *n as i16).collect(),
            predicate_sql: row.text("indpred").map(str::to_string),
            valid: row.bool("indisvalid"),
            method,
            part_of,
            is_global: storage.0 != 0 && (is_in_whole || class.char("relkind") == b'I'),
            is_in_whole,
        }))
    }

    /// Where the entries of an index without storage of its own are, if they are in the tree of what it is a part of.
    fn tree_of_whole(&self, mut part_of: Oid) -> Result<RelationId> {
        while part_of != 0 {
            let Some(class) = self.class_row(part_of)? else { break };
            let storage = class.oid("relfilenode");
            if storage != 0 {
                return Ok(RelationId(storage));
            }
            part_of = if class.bool("relispartition") { self.partition_parent(part_of)? } else { 0 };
        }
        Ok(RelationId(0))
    }

    fn constraint_of_index(&self, table: Oid, index: Oid) -> Result<Option<CatalogRow>> {
        let rows = self.constraints_of(table)?;
        Ok(rows.into_iter().find(|c| b"pux".contains(&c.char("contype")) && c.oid("conindid") == index))
    }

    pub fn constraints_of(&self, table: Oid) -> Result<Vec<CatalogRow>> {
        self.lookup(PG_CONSTRAINT, PG_CONSTRAINT_CONRELID_INDEX, &[Datum::Oid(table)])
    }

    fn load_sequence(&self, sequence: Oid) -> Result<Option<SequenceOptions>> {
        let rows = self.lookup(PG_SEQUENCE, PG_SEQUENCE_SEQRELID_INDEX, &[Datum::Oid(sequence)])?;
        Ok(rows.first().map(SequenceOptions::of_row))
    }

    /// A table's constraints; columns whose NOT NULL is not known to hold for all rows are told so.
    fn load_constraints(
        &self,
        table: Oid,
        columns: &mut [Column],
    ) -> Result<(Vec<CheckConstraint>, Vec<Arc<ForeignKey>>)> {
        let (mut checks, mut foreign_keys) = (Vec::new(), Vec::new());
        let rows = self.constraints_of(table)?;
        for row in &rows {
            match row.char("contype") {
                b'c' => checks.push(CheckConstraint {
                    oid: row.oid("oid"),
                    name: row.text("conname").unwrap_or("").to_string(),
                    sql: row.text("conbin").unwrap_or("").to_string(),
                    validated: row.bool("convalidated"),
                    enforced: row.bool("conenforced"),
                    no_inherit: row.bool("connoinherit"),
                    is_local: row.bool("conislocal"),
                    inherited: row.int("coninhcount") as i16,
                }),
                // A row for a partition of the referenced table points at another of this table: that one stands for
                // it.
                b'f' if !rows.iter().any(|whole| whole.oid("oid") == row.oid("conparentid")) => {
                    let triggers =
                        self.lookup(PG_TRIGGER, PG_TRIGGER_TGCONSTRAINT_INDEX, &[Datum::Oid(row.oid("oid"))])?;
                    foreign_keys.push(Arc::new(foreign_key(row, ForeignKeyFiring::of_rows(triggers.iter()))));
                }
                b'n' if !row.bool("convalidated") => {
                    let of_constraint = row.numbers("conkey");
                    let is_of = |column: &&mut Column| of_constraint.contains(&i64::from(column.attnum));
                    columns.iter_mut().filter(is_of).for_each(|column| column.is_never_null = false);
                }
                _ => {}
            }
        }
        checks.sort_by(|a, b| a.name.cmp(&b.name));
        Ok((checks, foreign_keys))
    }

    fn referencing(&self, table: Oid) -> Result<Vec<Arc<ForeignKey>>> {
        if is_temporary(table) {
            let (own, triggers) =
                (self.temporary.scan(PG_CONSTRAINT), triggers_by_key(self.temporary.scan(PG_TRIGGER)));
            let keys = foreign_key_rows(&own).filter(|row| row.oid("confrelid") == table);
            return Ok(keys.map(|row| Arc::new(foreign_key(row, firing_of(row, &triggers)))).collect());
        }
        let known = self.cache.lock().referencing.as_ref().map(|m| m.get(&table).cloned().unwrap_or_default());
        if let Some(found) = known {
            return Ok(found);
        }
        let triggers = triggers_by_key(self.store().scan(PG_TRIGGER, self.snapshot)?);
        let mut map: HashMap<Oid, Vec<Arc<ForeignKey>>> = HashMap::new();
        for row in foreign_key_rows(&self.store().scan(PG_CONSTRAINT, self.snapshot)?) {
            map.entry(row.oid("confrelid")).or_default().push(Arc::new(foreign_key(row, firing_of(row, &triggers))));
        }
        map.values_mut().for_each(|keys| keys.sort_by_key(|key| key.oid));
        let found = map.get(&table).cloned().unwrap_or_default();
        self.cache.lock().referencing = Some(map);
        Ok(found)
    }

    /// The type that tells how keys are made of values: for a domain over an extension's type that type. What is under
    /// other domains is told by the values.
    fn key_type(&self, type_oid: Oid) -> Result<Oid> {
        if type_oid < FIRST_USER_OID {
            return Ok(type_oid);
        }
        let (base, _) = super::user_types::shown_type(type_oid, -1, self);
        Ok(if is_member(base) { base } else { type_oid })
    }

    pub(super) fn system_table(&self, table: &'static SystemTable) -> Result<Arc<Table>> {
        let store = self.store();
        let columns = table
            .columns
            .iter()
            .enumerate()
            .map(|(i, c)| Column {
                name: c.name.to_string(),
                attnum: i as i16 + 1,
                type_oid: c.type_oid,
                typmod: c.typmod,
                collation: Collation::of_bytes(c.collation),
                not_null: c.not_null,
                is_never_null: c.not_null,
                dropped: false,
                default_sql: None,
                identity: 0,
                identity_sequence: None,
                generated: 0,
                missing: Datum::Null,
                grants: None,
            })
            .collect();
        let mut indexes = Vec::new();
        for index in &table.indexes {
            let keys = index.keys.iter().zip(&index.opclasses).map(|(key, opclass)| IndexKey {
                attnum: *key as i16 + 1,
                expression_sql: None,
                type_oid: table.columns[*key].type_oid,
                order_type: table.columns[*key].type_oid,
                descending: false,
                nulls_first: false,
                collation: table.columns[*key].collation,
                opclass: *opclass,
            });
            indexes.push(Arc::new(Index {
                oid: index.oid,
                name: index.name.to_string(),
                table_oid: table.oid,
                storage: store.relation(index.oid)?.id(),
                unique: index.unique,
                primary: index.primary,
                nulls_not_distinct: false,
                is_constraint: index.unique,
                constraint: 0,
                deferrable: false,
                initially_deferred: false,
                keys: keys.collect(),
                include: Vec::new(),
                predicate_sql: None,
                valid: true,
                method: AccessMethod::of(BTREE_METHOD),
                part_of: 0,
                is_global: false,
                is_in_whole: false,
            }));
        }
        Ok(Arc::new(Table {
            oid: table.oid,
            name: table.name.to_string(),
            schema_oid: PG_CATALOG,
            schema_name: "pg_catalog".to_string(),
            owner: super::builtin::BOOTSTRAP_SUPERUSER,
            grants: self.class_row(table.oid)?.and_then(|class| class.grants("relacl")),
            is_security_invoker: false,
            is_security_barrier: false,
            check_option: None,
            row_security: None,
            kind: TableKind::Table,
            persistence: b'p',
            delete_rows: false,
            type_oid: table.type_oid,
            columns,
            descriptor: shape(table.oid)?.descriptor.clone(),
            row_types: Vec::new(),
            storage: store.relation(table.oid)?.id(),
            indexes,
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            referenced_by: Vec::new(),
            triggers: Vec::new(),
            view_sql: None,
            reltuples: -1.0,
            relpages: 0,
            is_catalog: true,
            is_populated: true,
            partition_key: None,
            partition_of: 0,
            sequence: None,
            statistics: Default::default(),
        }))
    }
}

/// A `"char"` column's '\0' or blank is "none".
fn letter(c: u8) -> u8 {
    if c == b' ' { 0 } else { c }
}
