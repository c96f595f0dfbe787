//! Large objects as they are kept: a row of pg_largeobject_metadata for each, and its bytes in rows of pg_largeobject.
//!
//! Invariants
//! 1. A page has at most [`PAGE_BYTES`] bytes. A page that is not there, and what a page lacks that is not the last one,
//!    reads as zeroes.
//! 2. A few hundred pages are in memory at a time, however long the object is.
//! 3. What is written is seen by whatever the transaction reads next; a page that another transaction has changed since
//!    it was read is an error, as its bytes would be lost.
//!
//! Must not know: descriptors, who may do what.

use super::catalog_row::CatalogRow;
use super::ids::*;
use super::key_range::successor;
use super::store::{CatalogStore, CatalogWriter, IndexRange, key_range, shape};
use kilndb_base::work::SmallSteps;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_storage::Snapshot;
use kilndb_types::Datum;
use std::ops::Bound;
use std::sync::Arc;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 2048;
/// Bytes that an object has at most.
pub const MOST_BYTES: i64 = i32::MAX as i64 * PAGE_BYTES as i64;

/// Pages that are read before they are written.
const PAGES_AT_ONCE: usize = 256;

/// The row of pg_largeobject_metadata; None: there is no such object.
pub fn find(store: &CatalogStore, object: Oid, snapshot: &Snapshot) -> Result<Option<CatalogRow>> {
    let key = [Datum::Oid(object)];
    Ok(store.lookup(PG_LARGEOBJECT_METADATA, PG_LARGEOBJECT_METADATA_OID_INDEX, &key, snapshot)?.pop())
}

/// 42704.
pub fn missing(object: Oid) -> Error {
    Error::new(sqlstate::UNDEFINED_OBJECT, format!("large object {object} does not exist"))
}

/// The pages of an object from a number on.
fn pages_from(object: Oid, first: i32, backward: bool) -> Result<IndexRange> {
    let (table, index) = (PG_LARGEOBJECT, PG_LARGEOBJECT_LOID_PN_INDEX);
    let shape = shape(table)?;
    let (lower, _) = key_range(shape, index, &[Datum::Oid(object), Datum::Int4(first)])?;
    let (whole, _) = key_range(shape, index, &[Datum::Oid(object)])?;
    let upper = match whole {
        Bound::Included(prefix) => successor(&prefix).map_or(Bound::Unbounded, Bound::Excluded),
        _ => Bound::Unbounded,
    };
    Ok(IndexRange { table, index, range: (lower, upper), backward })
}

fn page_of(position: i64) -> i32 {
    i32::try_from(position / PAGE_BYTES as i64).unwrap_or(i32::MAX)
}
fn start_of(page: i64) -> i64 {
    page * PAGE_BYTES as i64
}
fn offset_in_page(position: i64) -> usize {
    (position % PAGE_BYTES as i64) as usize
}

fn bytes_of(row: &CatalogRow) -> Result<Arc<[u8]>> {
    match row.get("data") {
        Datum::Bytea(bytes) if bytes.len() <= PAGE_BYTES => Ok(bytes.clone()),
        Datum::Bytea(bytes) => {
            let (object, page, length) = (row.oid("loid"), row.int("pageno"), bytes.len());
            let message =
                format!("pg_largeobject entry for OID {object}, page {page} has invalid data field size {length}");
            Err(Error::new(sqlstate::DATA_CORRUPTED, message))
        }
        _ => Err(Error::internal("null field found in pg_largeobject")),
    }
}

/// How long an object is: up to the last byte that was written.
pub fn length(store: &CatalogStore, object: Oid, snapshot: &Snapshot) -> Result<i64> {
    let mut end = 0;
    store.visit(&pages_from(object, 0, true)?, snapshot, &mut |row| {
        end = start_of(row.int("pageno")) + bytes_of(&row)?.len() as i64;
        Ok(false)
    })?;
    Ok(end)
}

/// At most `most` bytes from a position on; fewer at the object's end.
pub fn read(store: &CatalogStore, object: Oid, from: i64, most: usize, snapshot: &Snapshot) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    if most == 0 {
        return Ok(out);
    }
    let mut steps = SmallSteps::default();
    store.visit(&pages_from(object, page_of(from), false)?, snapshot, &mut |row| {
        steps.step(PAGE_BYTES)?;
        let start = start_of(row.int("pageno"));
        let hole = usize::try_from(start - (from + out.len() as i64)).unwrap_or(0);
        out.resize(out.len() + hole.min(most - out.len()), 0);
        if out.len() < most {
            let bytes = bytes_of(&row)?;
            let offset = (from + out.len() as i64 - start) as usize;
            let rest = bytes.get(offset..).unwrap_or(&[]);
            out.extend_from_slice(&rest[..rest.len().min(most - out.len())]);
        }
        Ok(out.len() < most)
    })?;
    Ok(out)
}

/// Makes an empty object. 23505 if there is one of this OID.
pub fn create(writer: &mut CatalogWriter<'_>, object: Oid, owner: Oid) -> Result<()> {
    let row = [("oid", Datum::Oid(object)), ("lomowner", Datum::Oid(owner))];
    let made = writer.insert(PG_LARGEOBJECT_METADATA, &row);
    made.map_err(|e| match e.sqlstate() {
        sqlstate::UNIQUE_VIOLATION => e
            .with_detail(format!("Key (oid)=({object}) already exists."))
            .with_table("pg_catalog", "pg_largeobject_metadata")
            .with_constraint("pg_largeobject_metadata_oid_index"),
        _ => e,
    })?;
    writer.txn.next_command();
    Ok(())
}

/// Pages of an object from a number on, but not more than `most`.
fn read_pages(
    writer: &CatalogWriter<'_>,
    object: Oid,
    first: i32,
    most: usize,
    snapshot: &Snapshot,
) -> Result<Vec<CatalogRow>> {
    let mut rows = Vec::new();
    writer.store.visit(&pages_from(object, first, false)?, snapshot, &mut |row| {
        rows.push(row);
        Ok(rows.len() < most)
    })?;
    Ok(rows)
}

fn change_page(writer: &mut CatalogWriter<'_>, row: &CatalogRow, bytes: &[u8], snapshot: &Snapshot) -> Result<()> {
    let mut changed = row.clone();
    changed.set("data", Datum::Bytea(Arc::from(bytes)));
    writer.update_seen(row, changed.values(), snapshot)
}

fn insert_pages(writer: &mut CatalogWriter<'_>, object: Oid, pages: Vec<(i32, Vec<u8>)>) -> Result<()> {
    let rows: Vec<Vec<Datum>> = pages
        .into_iter()
        .map(|(page, bytes)| vec![Datum::Oid(object), Datum::Int4(page), Datum::Bytea(Arc::from(bytes))])
        .collect();
    writer.insert_many(PG_LARGEOBJECT, &["loid", "pageno", "data"], &rows)
}

/// Puts bytes where an object has others, or none.
pub fn write(writer: &mut CatalogWriter<'_>, object: Oid, from: i64, bytes: &[u8]) -> Result<()> {
    let (mut at, mut rest) = (from, bytes);
    let mut steps = SmallSteps::default();
    while !rest.is_empty() {
        let first = page_of(at);
        let snapshot = writer.txn.catalog_snapshot();
        let mut known = read_pages(writer, object, first, PAGES_AT_ONCE, &snapshot)?.into_iter().peekable();
        let mut new = Vec::new();
        for page in (first..=i32::MAX).take(PAGES_AT_ONCE) {
            if rest.is_empty() {
                break;
            }
            steps.step(PAGE_BYTES)?;
            let offset = offset_in_page(at);
            let (piece, others) = rest.split_at(rest.len().min(PAGE_BYTES - offset));
            let row = known.next_if(|row| row.int("pageno") == i64::from(page));
            let mut content = row.as_ref().map_or(Ok(Vec::new()), |row| bytes_of(row).map(|bytes| bytes.to_vec()))?;
            content.resize(content.len().max(offset + piece.len()), 0);
            content[offset..offset + piece.len()].copy_from_slice(piece);
            match &row {
                Some(row) => change_page(writer, row, &content, &snapshot)?,
                None => new.push((page, content)),
            }
            at += piece.len() as i64;
            rest = others;
        }
        insert_pages(writer, object, new)?;
        writer.txn.next_command();
    }
    Ok(())
}

/// Gives an object a length: what is behind goes, what is missing is zeroes.
pub fn truncate(writer: &mut CatalogWriter<'_>, object: Oid, length: i64) -> Result<()> {
    let (page, offset) = (page_of(length), offset_in_page(length));
    let snapshot = writer.txn.catalog_snapshot();
    let last = read_pages(writer, object, page, 1, &snapshot)?.pop();
    match last.filter(|row| row.int("pageno") == i64::from(page)) {
        Some(row) => {
            let mut content = bytes_of(&row)?.to_vec();
            content.resize(offset, 0);
            change_page(writer, &row, &content, &snapshot)?;
        }
        None => insert_pages(writer, object, vec![(page, vec![0; offset])])?,
    }
    writer.txn.next_command();
    match page.checked_add(1) {
        Some(first) => delete_pages(writer, object, first),
        None => Ok(()),
    }
}

fn delete_pages(writer: &mut CatalogWriter<'_>, object: Oid, first: i32) -> Result<()> {
    let mut next = Some(first);
    let mut steps = SmallSteps::default();
    while let Some(first) = next {
        let snapshot = writer.txn.catalog_snapshot();
        let rows = read_pages(writer, object, first, PAGES_AT_ONCE, &snapshot)?;
        for row in &rows {
            steps.step(PAGE_BYTES)?;
            writer.delete_seen(row, &snapshot)?;
        }
        writer.txn.next_command();
        let last = rows.last().map(|row| row.int("pageno") as i32);
        next = last.and_then(|last| last.checked_add(1));
    }
    Ok(())
}

/// Does away with an object that there is, and with what is said of it.
pub fn drop(writer: &mut CatalogWriter<'_>, object: Oid) -> Result<()> {
    let snapshot = writer.txn.catalog_snapshot();
    let row = find(writer.store, object, &snapshot)?.ok_or_else(|| missing(object))?;
    if let Err(e) = writer.delete_seen(&row, &snapshot) {
        // Somebody else may have been quicker.
        let now = writer.txn.catalog_snapshot();
        return Err(if find(writer.store, object, &now)?.is_some() { e } else { missing(object) });
    }
    let key = [Datum::Oid(object), Datum::Oid(PG_LARGEOBJECT)];
    for comment in writer.store.lookup(PG_DESCRIPTION, PG_DESCRIPTION_O_C_O_INDEX, &key, &snapshot)? {
        writer.delete_seen(&comment, &snapshot)?;
    }
    writer.txn.next_command();
    delete_pages(writer, object, 0)
}
