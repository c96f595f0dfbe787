//! An index that follows the rows of its table.

use super::{Definitions, ROWS_AT_ONCE};
use crate::build::KeysOf;
use crate::client::Runtime;
use crate::key_sort::{KeySorter, MergedKeys};
use crate::older_keys::OlderKeys;
use kilndb_base::{Error, Result, RowId, sqlstate};
use kilndb_base::{Oid, hash::HashMap};
use kilndb_catalog::{Index, Table};
use kilndb_storage::{IndexInsert, Relation, Snapshot, TermChange, Uniqueness};
use std::cmp::Ordering;
use std::sync::Arc;

/// What a sorter gives: key, row, and whether a column of the key is NULL.
type SortedKey = (Vec<u8>, RowId, bool);

impl Definitions<'_> {
    /// The index has the entries of these rows as one snapshot sees them; from now on those as the other one does.
    pub(super) fn follow_index(
        &mut self,
        index: Oid,
        rows: &[RowId],
        (before, now): (&Snapshot, &Snapshot),
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let (table, index) = self.followed_index(index, runtime)?;
        let storage = self.context().cluster.engine.relation(index.storage)?;
        if index.has_terms() {
            for rows in rows.chunks(ROWS_AT_ONCE) {
                let keys = KeysOf { snapshot: Some(now), rows: Some(rows) };
                let terms = self.gather_keys(&table, &index, &keys, runtime)?;
                self.follow_terms(&storage, rows, terms)?;
                runtime.checkpoint()?;
            }
            storage.set_made_of(now);
            return Ok(());
        }
        // All old entries go before the first new one comes: a key may have gone from one row to another.
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for rows in rows.chunks(ROWS_AT_ONCE) {
            old.extend(self.gather_keys(
                &table,
                &index,
                &KeysOf { snapshot: Some(before), rows: Some(rows) },
                runtime,
            )?);
            new.extend(self.gather_keys(&table, &index, &KeysOf { snapshot: Some(now), rows: Some(rows) }, runtime)?);
            runtime.checkpoint()?;
        }
        let mut added = self.new_key_sorter(1)();
        self.retire_keys(&storage, (&mut old, &mut new), &mut added)?;
        self.insert_keys(&table, &index, &storage, added, runtime)?;
        self.add_older_keys(&table, &index, OlderKeys { than: now, since: Some((before, rows)) }, runtime)
    }

    fn followed_index(&mut self, index: Oid, runtime: &dyn Runtime) -> Result<(Arc<Table>, Arc<Index>)> {
        let table = self.table_of_index(index, runtime)?;
        let found = table.indexes.iter().find(|i| i.oid == index).cloned();
        let index = found.ok_or_else(|| Error::internal("a new index is not in the catalogs"))?;
        Ok((table, index))
    }

    /// Retires the keys that only the old ones have; those that only the new ones have are added to `added`.
    fn retire_keys(
        &mut self,
        storage: &Relation,
        (old, new): (&mut [KeySorter], &mut [KeySorter]),
        added: &mut KeySorter,
    ) -> Result<()> {
        let (mut old, mut new) = (MergedKeys::new(old)?, MergedKeys::new(new)?);
        let (mut gone, mut come) = (old.next().transpose()?, new.next().transpose()?);
        loop {
            let order = match (&gone, &come) {
                (None, None) => return Ok(()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(gone), Some(come)) => (&gone.0, gone.1).cmp(&(&come.0, come.1)),
            };
            match (order, &gone, &come) {
                (Ordering::Less, Some((key, rid, _)), _) => storage.index_retire_kept(self.writer()?, key, *rid)?,
                (Ordering::Greater, _, Some((key, rid, has_null))) => added.push(key, *rid, *has_null)?,
                _ => {}
            }
            if order != Ordering::Greater {
                gone = old.next().transpose()?;
            }
            if order != Ordering::Less {
                come = new.next().transpose()?;
            }
        }
    }

    fn insert_keys(
        &mut self,
        table: &Arc<Table>,
        index: &Arc<Index>,
        storage: &Relation,
        mut added: KeySorter,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let heap = self.context().cluster.engine.relation(table.storage)?;
        for entry in added.finish()? {
            let (key, rid, has_null): SortedKey = entry?;
            if index.primary && has_null {
                return Err(contains_null(table, index));
            }
            let is_unique = index.unique && !has_null;
            let uniqueness = if is_unique { Uniqueness::Unique } else { Uniqueness::NotUnique };
            let entry = (&*key, rid);
            if storage.index_insert_kept(self.writer()?, &heap, entry, uniqueness, runtime)? != IndexInsert::Inserted {
                return Err(self.duplicate_error(table, index, rid, runtime)?);
            }
        }
        Ok(())
    }

    /// The rows have these terms from now on, or none.
    fn follow_terms(&mut self, storage: &Relation, rows: &[RowId], mut terms: Vec<KeySorter>) -> Result<()> {
        let mut of_rows: HashMap<RowId, Vec<Vec<u8>>> = rows.iter().map(|rid| (*rid, Vec::new())).collect();
        for entry in MergedKeys::new(&mut terms)? {
            let (term, rid, _) = entry?;
            of_rows.entry(rid).or_default().push(term);
        }
        for rid in rows {
            let terms = of_rows.get(rid).map_or(&[][..], Vec::as_slice);
            storage.change_terms(self.writer()?, *rid, TermChange::Updated(terms))?;
        }
        Ok(())
    }
}

/// A row has come that a primary key cannot have.
fn contains_null(table: &Table, index: &Index) -> Error {
    let column = index.keys.first().and_then(|key| table.columns.iter().find(|c| c.attnum == key.attnum));
    let name = column.map_or("?", |column| column.name.as_str());
    let message = format!("column \"{name}\" of relation \"{}\" contains null values", table.name);
    Error::new(sqlstate::NOT_NULL_VIOLATION, message).with_table(&table.schema_name, &table.name).with_column(name)
}
