//! What a text needs: objects and columns that binding it has found (pg_depend's terms).
//!
//! Must not know: what is done with a reference.

use super::Binder;
use super::scope::{NsColumn, NsItem};
use kilndb_base::Oid;
use kilndb_catalog::ids::PG_CLASS;

/// An object, or a column of a relation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ObjectAddress {
    /// The system table that has the object.
    pub class: Oid,
    pub object: Oid,
    /// 0: the object as a whole.
    pub column: i16,
}

impl ObjectAddress {
    pub fn object(class: Oid, object: Oid) -> ObjectAddress {
        ObjectAddress { class, object, column: 0 }
    }
    pub fn column(table: Oid, attnum: i16) -> ObjectAddress {
        ObjectAddress { class: PG_CLASS, object: table, column: attnum }
    }
}

impl Binder<'_> {
    /// The text names a column, at `loc` as the last part of what is there; -1: it does not say so in one place. Those
    /// of subqueries are no table's: what they come from has been named in there.
    pub(super) fn note_column(&self, column: &NsColumn, loc: i32) {
        match column.is_named_here {
            true if column.table_oid != 0 && column.attnum > 0 => {
                self.note_reference(ObjectAddress::column(column.table_oid, column.attnum))
            }
            true => {}
            false => self.note_named(column.table_oid, column.attnum, (&column.name, loc), true),
        }
    }
    pub(super) fn note_columns(&self, items: &[&NsItem]) {
        items.iter().flat_map(|item| &item.columns).for_each(|column| self.note_column(column, -1));
    }
    pub(super) fn note_attribute(&self, table: Oid, attnum: i16, name: &str, loc: i32) {
        self.note_named(table, attnum, (name, loc), false);
    }
    fn note_named(&self, table: Oid, attnum: i16, (name, loc): (&str, i32), is_in_from: bool) {
        if table != 0 && attnum > 0 {
            let reference = ObjectAddress::column(table, attnum);
            self.note_reference(reference);
            self.note_column_name(reference, name, loc, is_in_from);
        }
    }
}
