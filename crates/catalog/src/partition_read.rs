//! Partition keys and maps from the system tables' rows.

use super::cache::{CatalogReader, ObjectCache};
use super::ids::*;
use super::model::*;
use super::partition::{self, Partition, PartitionKey, PartitionKeyPart, PartitionMap, PartitionStrategy};
use kilndb_base::{Error, Oid, Result};
use kilndb_storage::Snapshot;
use kilndb_types::Datum;
use std::sync::Arc;

impl CatalogReader<'_> {
    /// What a relation is a partition of (a table's, or an index's); 0 if nothing.
    pub fn partition_parent(&self, oid: Oid) -> Result<Oid> {
        let rows = self.lookup(PG_INHERITS, PG_INHERITS_RELID_SEQNO_INDEX, &[Datum::Oid(oid)])?;
        Ok(rows.first().map_or(0, |r| r.oid("inhparent")))
    }

    /// None: while the table is being made.
    pub(super) fn load_partition_key(&self, table: Oid) -> Result<Option<PartitionKey>> {
        let rows = self.lookup(PG_PARTITIONED_TABLE, PG_PARTITIONED_TABLE_PARTRELID_INDEX, &[Datum::Oid(table)])?;
        let Some(row) = rows.first() else { return Ok(None) };
        let (attnums, classes, collations) =
            (row.numbers("partattrs"), row.numbers("partclass"), row.numbers("partcollation"));
        // An expression's type stands before it.
        let texts = row.text("partexprs").map(super::cache::split_expressions).unwrap_or_default();
        let mut expressions = texts.into_iter();
        let mut parts = Vec::new();
        for (i, attnum) in attnums.iter().enumerate() {
            let at = |list: &[i64]| list.get(i).copied().unwrap_or(0) as Oid;
            let (expression_sql, type_oid, typmod) = match attnum {
                0 => {
                    let text = expressions.next().unwrap_or_default();
                    let (ty, sql) = text
                        .split_once(':')
                        .ok_or_else(|| Error::internal("a partition key expression without a type"))?;
                    (Some(sql.to_string()), ty.parse().unwrap_or(0), -1)
                }
                _ => {
                    let key = [Datum::Oid(table), Datum::Int2(*attnum as i16)];
                    let rows = self.lookup(PG_ATTRIBUTE, PG_ATTRIBUTE_RELID_ATTNUM_INDEX, &key)?;
                    let row = rows.first().ok_or_else(|| Error::internal("a partition key column does not exist"))?;
                    (None, row.oid("atttypid"), row.int("atttypmod") as i32)
                }
            };
            // An enum's labels are read and shown as the enum's.
            let base_type = super::user_types::shown_type(type_oid, -1, self).0;
            parts.push(PartitionKeyPart {
                attnum: *attnum as i16,
                expression_sql,
                type_oid,
                base_type,
                typmod,
                collation: at(&collations),
                opclass: at(&classes),
                class: self.user_class(at(&classes))?,
            });
        }
        Ok(Some(PartitionKey { strategy: PartitionStrategy::of(row.char("partstrat")), parts }))
    }

    /// The sequence behind an identity column; a partition draws from its parent's.
    pub(super) fn identity_sequence(&self, table: Oid, attnum: i16, name: &str) -> Result<Option<Oid>> {
        let (mut table, mut attnum) = (table, attnum);
        loop {
            if let Some(found) = self.owned_sequence(table, attnum)? {
                return Ok(Some(found));
            }
            table = self.partition_parent(table)?;
            if table == 0 {
                return Ok(None);
            }
            let columns = self.lookup(PG_ATTRIBUTE, PG_ATTRIBUTE_RELID_ATTNUM_INDEX, &[Datum::Oid(table)])?;
            let Some(column) = columns.iter().find(|c| c.text("attname") == Some(name)) else { return Ok(None) };
            attnum = column.int("attnum") as i16;
        }
    }

    pub(super) fn load_partition_map(&self, table: Oid) -> Result<Arc<PartitionMap>> {
        if let Some(known) = self.objects(table).partition_maps.get(&table) {
            return Ok(known.clone());
        }
        let parent = self.table_by_oid(table)?;
        let key = parent.and_then(|p| p.partition_key.clone());
        let key = key.ok_or_else(|| Error::internal(format!("relation {table} is not partitioned")))?;
        let mut partitions = Vec::new();
        for row in self.lookup(PG_INHERITS, PG_INHERITS_PARENT_INDEX, &[Datum::Oid(table)])? {
            let Some(class) = self.class_row(row.oid("inhrelid"))? else { continue };
            let Some(text) = class.text("relpartbound") else { continue };
            partitions.push(Partition {
                oid: row.oid("inhrelid"),
                bound: Arc::new(partition::read_bound(&key, text, self)?),
                is_partitioned: class.char("relkind") == b'p',
                is_pending: row.bool("inhdetachpending"),
            });
        }
        let map = Arc::new(PartitionMap::new(table, key, partitions));
        self.objects(table).partition_maps.insert(table, map.clone());
        Ok(map)
    }

    /// A map that is known without being read: one partition more or less.
    pub fn set_partition_map(&self, map: Arc<PartitionMap>) {
        self.objects(map.table).partition_maps.insert(map.table, map);
    }

    /// A table as a snapshot shows it that is newer than this reader's, past all caches.
    pub(super) fn read_anew(&self, oid: Oid, now: &Snapshot) -> Result<Option<Arc<Table>>> {
        let cache = ObjectCache::default();
        let reader = CatalogReader { snapshot: now, cache: &cache, ..*self };
        reader.table_by_oid(oid)
    }

    /// A map of partitions as a snapshot shows it that is newer than this reader's, past all caches.
    pub(super) fn read_map_anew(&self, table: Oid, now: &Snapshot) -> Result<Arc<PartitionMap>> {
        let cache = ObjectCache::default();
        let reader = CatalogReader { snapshot: now, cache: &cache, ..*self };
        reader.load_partition_map(table)
    }

    /// All partitions of a table, at any depth, each before its own; the table itself first.
    pub fn partition_tree(&self, table: Oid) -> Result<Vec<Oid>> {
        let mut all = vec![table];
        let mut at = 0;
        while at < all.len() {
            let rows = self.lookup(PG_INHERITS, PG_INHERITS_PARENT_INDEX, &[Datum::Oid(all[at])])?;
            let mut below: Vec<Oid> = rows.iter().map(|r| r.oid("inhrelid")).collect();
            below.sort_unstable();
            all.extend(below);
            at += 1;
        }
        Ok(all)
    }
}
