//! How many rows and pages a table has. What nobody has counted is estimated as PostgreSQL does it: from the pages that
//! there are, ten at least, and from how wide the types of the columns make a row.
//!
//! Must not know: conditions, indexes.

use super::cost::TableSize;
use super::*;
use kilndb_base::Oid;
use kilndb_catalog::Table;
use kilndb_catalog::model::CountedSize;
use kilndb_types::oids;

/// What a table has at least that has never been counted.
const FEWEST_PAGES: f64 = 10.0;
/// The bytes of a page that rows have for themselves, and those that each row takes beside its columns (PostgreSQL's).
const PAGE_BYTES: f64 = 8168.0;
const ROW_OVERHEAD: f64 = 28.0;
/// The width of a value of which the type says nothing.
const UNKNOWN_WIDTH: f64 = 32.0;
/// What a length in a type's modifier is more than it says.
const MODIFIER_OFFSET: i32 = 4;

impl Planner<'_> {
    /// The size of a table, which its relation has from here on.
    pub(super) fn size_of(&self, rel: &Rel, table: &Arc<Table>) -> Result<TableSize> {
        let size = self.table_size(table)?;
        self.note_table(rel.id, table, size.rows);
        Ok(size)
    }

    fn table_size(&self, table: &Table) -> Result<TableSize> {
        let counted = self.catalog.counted_size(table);
        match self.heap_of(table)? {
            Some(heap) => Ok(self.plain_size(table, counted, f64::from(heap.pages()))),
            None => {
                let size = self.partitions_size(table)?;
                Ok(if counted.rows < 0.0 { size } else { TableSize { rows: f64::from(counted.rows).max(1.0), ..size } })
            }
        }
    }

    /// The size of a table of so many pages: as many rows in a page as when they were last counted.
    fn plain_size(&self, table: &Table, counted: CountedSize, pages: f64) -> TableSize {
        let (rows, counted_pages) = (f64::from(counted.rows), f64::from(counted.pages));
        if rows < 0.0 {
            let pages = pages.max(FEWEST_PAGES);
            return TableSize { rows: pages * self.rows_per_page(table), pages };
        }
        let pages = pages.max(1.0);
        let rows = if counted_pages > 0.0 { (rows / counted_pages * pages).round() } else { rows };
        TableSize { rows: rows.max(1.0), pages }
    }

    /// Estimates the size of all partitions together from that of a few.
    fn partitions_size(&self, table: &Table) -> Result<TableSize> {
        const LOOKED_AT: usize = 4;
        let map = self.catalog.partition_map(table.oid)?;
        let step = (map.partitions.len() / LOOKED_AT).max(1);
        let (mut rows, mut pages, mut looked) = (0.0, 0.0, 0.0f64);
        for partition in map.partitions.iter().step_by(step).take(LOOKED_AT) {
            let Some(found) = self.catalog.table_by_oid(partition.oid)? else { continue };
            let size = self.table_size(&found)?;
            (rows, pages, looked) = (rows + size.rows, pages + size.pages, looked + 1.0);
        }
        let all = map.partitions.len() as f64 / looked.max(1.0);
        Ok(TableSize { rows: (rows * all).max(1.0), pages: (pages * all).max(1.0) })
    }

    /// How many rows find room in a page, by the types of the columns.
    fn rows_per_page(&self, table: &Table) -> f64 {
        let width: f64 =
            table.columns.iter().filter(|c| !c.dropped).map(|c| self.value_width(c.type_oid, c.typmod)).sum();
        (PAGE_BYTES / (width + ROW_OVERHEAD)).floor().max(1.0)
    }

    /// The usual width of a type's values.
    pub(super) fn value_width(&self, ty: Oid, typmod: i32) -> f64 {
        match type_length(ty, self.catalog) {
            fixed @ 1.. => return f64::from(fixed),
            _ if typmod < MODIFIER_OFFSET => return UNKNOWN_WIDTH,
            _ => {}
        }
        let length = f64::from(typmod - MODIFIER_OFFSET);
        match self.base_type(ty) {
            // Four bytes a character, of which few are used where many are allowed.
            oids::BPCHAR => length * 4.0 + 4.0,
            oids::VARCHAR => usual_width(length * 4.0 + 4.0),
            oids::NUMERIC => {
                usual_width(8.0 + 2.0 * ((f64::from((typmod - MODIFIER_OFFSET) >> 16) + 6.0) / 4.0).floor())
            }
            _ => UNKNOWN_WIDTH,
        }
    }
}

/// What a value of a type usually takes that may take as much as this.
fn usual_width(most: f64) -> f64 {
    const LONG: f64 = 1000.0;
    if most <= UNKNOWN_WIDTH { most } else { UNKNOWN_WIDTH + (most.min(LONG) - UNKNOWN_WIDTH) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_long_types_are_taken_for_shorter_ones() {
        assert_eq!(usual_width(20.0), 20.0);
        assert_eq!(usual_width(132.0), 82.0);
        assert_eq!(usual_width(40_000.0), 516.0);
    }
}
