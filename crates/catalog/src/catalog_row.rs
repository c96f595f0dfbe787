//! A row of a system table, with its columns by name.
//!
//! Invariants
//! 1. A row that was read from storage stays as it is stored, and a column is decoded when somebody asks for it: most
//!    readers ask for a few of some thirty columns. Whatever could fail to be decoded is looked at when the row is read,
//!    so that asking never fails.
//! 2. A row that was changed, or that is in the session's own memory, has its values, and shares them until it is
//!    changed.
//!
//! Must not know: where rows are found.

use super::builtin::SystemTable;
use super::store::SystemTableLayout;
use kilndb_base::sync::{Arc, OnceLock};
use kilndb_base::{Oid, Result, RowId};
use kilndb_types::Datum;
use kilndb_types::acl::AclItem;
use kilndb_types::row::{NO_VALUE, PhysicalType, column_starts, decode_at, text_at};

/// A system table's row with its columns by name.
#[derive(Clone)]
pub struct CatalogRow {
    pub rid: RowId,
    shape: &'static SystemTableLayout,
    content: RowContent,
}

#[derive(Clone)]
enum RowContent {
    Stored(StoredColumns),
    Values(Arc<Vec<Datum>>),
}

/// A row as it is stored.
#[derive(Clone)]
struct StoredColumns {
    bytes: Box<[u8]>,
    /// Where each column begins in `bytes`.
    starts: Box<[u32]>,
    /// The columns whose values are described by themselves, such as arrays, which are decoded to know that they can be.
    tagged: Vec<(usize, Datum)>,
    /// All columns, once somebody has asked for one of another kind as a value, or for all.
    all: OnceLock<Vec<Datum>>,
}

static NULL: Datum = Datum::Null;

impl StoredColumns {
    fn new(shape: &SystemTableLayout, bytes: &[u8]) -> Result<StoredColumns> {
        let mut starts = Vec::new();
        column_starts(&shape.descriptor, bytes, &mut starts)?;
        let mut tagged = Vec::new();
        for (i, (column, start)) in shape.descriptor.columns.iter().zip(&starts).enumerate() {
            match column.storage {
                _ if *start == NO_VALUE => {}
                PhysicalType::Text => {
                    text_at(bytes, *start)?;
                }
                // Of the values of fixed width only a truth value can be a wrong one.
                PhysicalType::Bool => {
                    decode_at(column, bytes, *start)?;
                }
                storage if storage.width().is_some() => {}
                _ => tagged.push((i, decode_at(column, bytes, *start)?)),
            }
        }
        Ok(StoredColumns { bytes: bytes.into(), starts: starts.into(), tagged, all: OnceLock::new() })
    }

    /// A column that [`StoredColumns::new`] has found to be readable.
    fn decoded(&self, shape: &SystemTableLayout, column: usize) -> Datum {
        decode_at(&shape.descriptor.columns[column], &self.bytes, self.starts[column])
            .expect("a stored row is looked at when it is read")
    }

    fn all(&self, shape: &SystemTableLayout) -> &[Datum] {
        self.all.get_or_init(|| {
            let mut values: Vec<Datum> = Vec::with_capacity(self.starts.len());
            let mut tagged = self.tagged.iter().peekable();
            for column in 0..self.starts.len() {
                values.push(match tagged.next_if(|(i, _)| *i == column) {
                    Some((_, value)) => value.clone(),
                    None => self.decoded(shape, column),
                });
            }
            values
        })
    }
}

impl CatalogRow {
    /// A row as its table stores it.
    pub(super) fn stored(rid: RowId, shape: &'static SystemTableLayout, bytes: &[u8]) -> Result<CatalogRow> {
        Ok(CatalogRow { rid, shape, content: RowContent::Stored(StoredColumns::new(shape, bytes)?) })
    }

    pub(super) fn of_values(rid: RowId, shape: &'static SystemTableLayout, values: Arc<Vec<Datum>>) -> CatalogRow {
        CatalogRow { rid, shape, content: RowContent::Values(values) }
    }

    pub fn table(&self) -> &'static SystemTable {
        self.shape.table
    }

    /// All columns, in the table's order.
    pub fn values(&self) -> &[Datum] {
        match &self.content {
            RowContent::Stored(row) => row.all(self.shape),
            RowContent::Values(values) => values,
        }
    }

    /// A list of grants; None if the column is NULL.
    pub fn grants(&self, column: &str) -> Option<Arc<[AclItem]>> {
        let Datum::Array(array) = self.get(column) else { return None };
        let item = |element: &Datum| if let Datum::AclItem(item) = element { Some(*item) } else { None };
        Some(array.elements.iter().filter_map(item).collect())
    }

    pub fn get(&self, column: &str) -> &Datum {
        let Some(i) = self.table().column(column) else { return &NULL };
        match &self.content {
            RowContent::Stored(row) if row.starts[i] == NO_VALUE => &NULL,
            RowContent::Stored(row) => match row.tagged.iter().find(|(column, _)| *column == i) {
                Some((_, value)) => value,
                None => &row.all(self.shape)[i],
            },
            RowContent::Values(values) => values.get(i).unwrap_or(&NULL),
        }
    }

    /// A column of fixed width (a number, a letter, a truth value), without keeping it. NULL for any other column.
    fn plain(&self, column: &str) -> Datum {
        let Some(i) = self.table().column(column) else { return Datum::Null };
        match &self.content {
            RowContent::Stored(row) if self.shape.descriptor.columns[i].storage.width().is_none() => Datum::Null,
            RowContent::Stored(row) => row.decoded(self.shape, i),
            RowContent::Values(values) => values.get(i).cloned().unwrap_or_default(),
        }
    }

    pub fn oid(&self, column: &str) -> Oid {
        match self.plain(column) {
            Datum::Oid(v) => v,
            Datum::Int4(v) => v as Oid,
            _ => 0,
        }
    }
    pub fn int(&self, column: &str) -> i64 {
        match self.plain(column) {
            Datum::Int2(v) => i64::from(v),
            Datum::Int4(v) => i64::from(v),
            Datum::Int8(v) => v,
            Datum::Oid(v) => i64::from(v),
            _ => 0,
        }
    }
    pub fn bool(&self, column: &str) -> bool {
        matches!(self.plain(column), Datum::Bool(true))
    }
    pub fn char(&self, column: &str) -> u8 {
        match self.plain(column) {
            Datum::Char(v) => v,
            _ => 0,
        }
    }
    pub fn float4(&self, column: &str) -> f32 {
        match self.plain(column) {
            Datum::Float4(v) => v,
            _ => 0.0,
        }
    }
    pub fn text(&self, column: &str) -> Option<&str> {
        let i = self.table().column(column)?;
        match &self.content {
            RowContent::Stored(row) => {
                let is_text = self.shape.descriptor.columns[i].storage == PhysicalType::Text;
                let start = Some(row.starts[i]).filter(|start| is_text && *start != NO_VALUE)?;
                Some(text_at(&row.bytes, start).expect("a stored row is looked at when it is read"))
            }
            RowContent::Values(values) => match values.get(i) {
                Some(Datum::Text(s)) => Some(s),
                _ => None,
            },
        }
    }
    /// An int2vector, oidvector or array as numbers.
    pub fn numbers(&self, column: &str) -> Vec<i64> {
        match self.get(column) {
            Datum::Array(a) => a
                .elements
                .iter()
                .map(|d| match d {
                    Datum::Int2(v) => i64::from(*v),
                    Datum::Int4(v) => i64::from(*v),
                    Datum::Oid(v) => i64::from(*v),
                    Datum::Char(c) => i64::from(*c),
                    _ => 0,
                })
                .collect(),
            _ => Vec::new(),
        }
    }
    pub fn texts(&self, column: &str) -> Vec<String> {
        match self.get(column) {
            Datum::Array(a) => a
                .elements
                .iter()
                .map(|d| match d {
                    Datum::Text(s) => s.to_string(),
                    _ => String::new(),
                })
                .collect(),
            _ => Vec::new(),
        }
    }
    pub fn set(&mut self, column: &str, value: Datum) {
        let Some(i) = self.table().column(column) else { return };
        if let RowContent::Stored(row) = &self.content {
            self.content = RowContent::Values(Arc::new(row.all(self.shape).to_vec()));
        }
        if let RowContent::Values(values) = &mut self.content {
            Arc::make_mut(values)[i] = value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{PG_CLASS, PG_INDEX};
    use crate::store::{array, shape, vector};
    use kilndb_types::oids;
    use kilndb_types::row::{decode_row, encode_row};

    /// A row of a table with some columns set and the others NULL, and its bytes.
    fn row(table: Oid, set: &[(&str, Datum)]) -> (&'static SystemTableLayout, Vec<u8>) {
        let shape = shape(table).unwrap();
        let mut values = vec![Datum::Null; shape.table.columns.len()];
        for (column, value) in set {
            values[shape.table.column(column).unwrap()] = value.clone();
        }
        let mut bytes = Vec::new();
        encode_row(&shape.descriptor, &values, &mut bytes).unwrap();
        (shape, bytes)
    }

    fn class_row() -> (&'static SystemTableLayout, Vec<u8>) {
        let options = array(oids::TEXT, vec![Datum::text("fillfactor=70")]);
        row(
            PG_CLASS,
            &[
                ("oid", Datum::Oid(16_384)),
                ("relname", Datum::text("größe")),
                ("reltuples", Datum::Float4(-1.0)),
                ("relkind", Datum::Char(b'r')),
                ("relnatts", Datum::Int2(3)),
                ("relispartition", Datum::Bool(true)),
                ("reloptions", options),
            ],
        )
    }

    #[test]
    fn columns_are_what_the_whole_row_decodes_to() {
        let index = row(
            PG_INDEX,
            &[("indexrelid", Datum::Oid(7)), ("indkey", vector(oids::INT2, vec![Datum::Int2(2), Datum::Int2(0)]))],
        );
        for (shape, bytes) in [class_row(), index] {
            let mut whole = Vec::new();
            decode_row(&shape.descriptor, &bytes, None, &mut whole).unwrap();
            let row = CatalogRow::stored(RowId::from_u64(0), shape, &bytes).unwrap();
            for (column, value) in shape.table.columns.iter().zip(&whole) {
                assert_eq!(format!("{:?}", row.get(column.name)), format!("{value:?}"), "{}", column.name);
            }
            assert_eq!(format!("{:?}", row.values()), format!("{whole:?}"));
        }
    }

    #[test]
    fn columns_read_one_by_one() {
        let (shape, bytes) = class_row();
        let mut row = CatalogRow::stored(RowId::from_u64(0), shape, &bytes).unwrap();
        assert_eq!((row.oid("oid"), row.text("relname"), row.char("relkind")), (16_384, Some("größe"), b'r'));
        assert_eq!((row.int("relnatts"), row.bool("relispartition"), row.float4("reltuples")), (3, true, -1.0));
        assert_eq!((row.texts("reloptions"), row.text("relpartbound")), (vec!["fillfactor=70".to_string()], None));
        // A number is no text, and what is NULL or unknown is none.
        assert_eq!((row.text("oid"), row.oid("relname"), row.oid("relowner"), row.oid("nothing")), (None, 0, 0, 0));
        let before = row.clone();
        row.set("relname", Datum::text("other"));
        assert_eq!((row.text("relname"), row.oid("oid")), (Some("other"), 16_384));
        assert_eq!(before.text("relname"), Some("größe"));
    }

    #[test]
    fn damaged_rows_are_refused_or_can_be_read() {
        let (shape, bytes) = class_row();
        for len in 0..bytes.len() {
            assert!(CatalogRow::stored(RowId::from_u64(0), shape, &bytes[..len]).is_err(), "{len} bytes");
        }
        let mut refused = 0;
        for at in 0..bytes.len() {
            for flip in 1..=255u8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                let Ok(row) = CatalogRow::stored(RowId::from_u64(0), shape, &damaged) else {
                    refused += 1;
                    continue;
                };
                assert_eq!(row.values().len(), shape.table.columns.len());
                shape.table.columns.iter().for_each(|column| {
                    row.get(column.name);
                    row.text(column.name);
                    row.int(column.name);
                });
            }
        }
        assert!(refused > 1000, "{refused}");
    }
}
