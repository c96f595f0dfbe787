//! Rows of system tables as the objects that they describe.

use super::catalog_row::CatalogRow;
use super::model::{ForeignKey, SequenceOptions};
use super::trigger::ForeignKeyFiring;
use kilndb_base::Oid;
use kilndb_base::hash::HashMap;

/// Rows of pg_constraint by which referenced tables know their foreign keys. That of a partitioned referencing table
/// stands for those of its partitions, which point at it and have the same referenced table.
pub(super) fn foreign_key_rows(rows: &[CatalogRow]) -> impl Iterator<Item = &CatalogRow> {
    let keys = || rows.iter().filter(|row| row.char("contype") == b'f');
    let referenced: HashMap<Oid, Oid> = keys().map(|row| (row.oid("oid"), row.oid("confrelid"))).collect();
    keys().filter(move |row| referenced.get(&row.oid("conparentid")) != Some(&row.oid("confrelid")))
}

impl SequenceOptions {
    pub fn of_row(row: &CatalogRow) -> SequenceOptions {
        SequenceOptions {
            type_oid: row.oid("seqtypid"),
            start: row.int("seqstart"),
            increment: row.int("seqincrement"),
            min: row.int("seqmin"),
            max: row.int("seqmax"),
            cache: row.int("seqcache"),
            cycle: row.bool("seqcycle"),
        }
    }
}

pub(super) fn foreign_key(row: &CatalogRow, firing: ForeignKeyFiring) -> ForeignKey {
    let attnums = |column: &str| row.numbers(column).iter().map(|n| *n as i16).collect();
    ForeignKey {
        oid: row.oid("oid"),
        name: row.text("conname").unwrap_or("").to_string(),
        table: row.oid("conrelid"),
        columns: attnums("conkey"),
        referenced_table: row.oid("confrelid"),
        referenced_columns: attnums("confkey"),
        referenced_index: row.oid("conindid"),
        on_update: row.char("confupdtype"),
        on_delete: row.char("confdeltype"),
        match_type: row.char("confmatchtype"),
        deferrable: row.bool("condeferrable"),
        initially_deferred: row.bool("condeferred"),
        validated: row.bool("convalidated"),
        enforced: row.bool("conenforced"),
        delete_columns: attnums("confdelsetcols"),
        part_of: row.oid("conparentid"),
        firing,
    }
}

pub(super) fn triggers_by_key(rows: Vec<CatalogRow>) -> HashMap<Oid, Vec<CatalogRow>> {
    let mut by_key: HashMap<Oid, Vec<CatalogRow>> = HashMap::default();
    for row in rows.into_iter().filter(|row| row.oid("tgconstraint") != 0) {
        by_key.entry(row.oid("tgconstraint")).or_default().push(row);
    }
    by_key
}

pub(super) fn firing_of(key: &CatalogRow, triggers: &HashMap<Oid, Vec<CatalogRow>>) -> ForeignKeyFiring {
    ForeignKeyFiring::of_rows(triggers.get(&key.oid("oid")).into_iter().flatten())
}
