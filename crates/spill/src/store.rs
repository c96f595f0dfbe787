//! Rows kept in their order and read by position, several readers at once.

use super::file::{STEP_BYTES, SpillCursor, SpillFile, SpillIo};
use super::row_bytes;
use kilndb_base::Result;
use kilndb_types::{Datum, row};

const CHUNK_ROWS: usize = 1024;
/// Every so many rows on disk the place is remembered.
const PLACE_ROWS: usize = 64;

/// The first rows are in memory, those beyond the budget in a file.
pub struct RowStore {
    width: usize,
    budget_bytes: usize,
    used_bytes: usize,
    chunks: Vec<Vec<Datum>>,
    in_memory: usize,
    file: Option<SpillFile>,
    /// The offsets where the file's rows 0, 64, 128, … begin.
    places: Vec<u64>,
    rows: usize,
}

/// The position of one reader. It keeps the row that it has read from the file.
pub struct StoreCursor {
    file: SpillCursor,
    /// The row in `values`, if any.
    current: Option<usize>,
    values: Vec<Datum>,
}

impl Default for StoreCursor {
    fn default() -> StoreCursor {
        StoreCursor { file: SpillCursor::new(STEP_BYTES / 4), current: None, values: Vec::new() }
    }
}

impl RowStore {
    pub fn new(width: usize, budget_bytes: usize) -> RowStore {
        RowStore {
            width,
            budget_bytes,
            used_bytes: 0,
            chunks: Vec::new(),
            in_memory: 0,
            file: None,
            places: Vec::new(),
            rows: 0,
        }
    }
    pub fn len(&self) -> usize {
        self.rows
    }
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }
    pub fn is_in_memory(&self) -> bool {
        self.file.is_none()
    }

    pub fn push(&mut self, values: &[Datum], io: SpillIo<'_>) -> Result<()> {
        if self.file.is_none() {
            let bytes = row_bytes(values);
            if self.used_bytes + bytes <= self.budget_bytes || self.rows == 0 {
                self.used_bytes += bytes;
                if self.rows.is_multiple_of(CHUNK_ROWS) {
                    self.chunks.push(Vec::new());
                }
                if let Some(chunk) = self.chunks.last_mut() {
                    chunk.extend_from_slice(values);
                }
                self.in_memory += 1;
                self.rows += 1;
                return Ok(());
            }
        }
        let buffer = self.budget_bytes / 8;
        let file = self.file.get_or_insert_with(|| SpillFile::new(buffer));
        if (self.rows - self.in_memory).is_multiple_of(PLACE_ROWS) {
            self.places.push(file.bytes());
        }
        file.push(&[], values, io)?;
        self.rows += 1;
        Ok(())
    }

    /// Row number `n`, which must be there.
    pub fn row<'s>(&'s self, n: usize, cursor: &'s mut StoreCursor, io: SpillIo<'_>) -> Result<&'s [Datum]> {
        if n < self.in_memory {
            let from = n % CHUNK_ROWS * self.width;
            return Ok(self.chunks.get(n / CHUNK_ROWS).and_then(|c| c.get(from..from + self.width)).unwrap_or(&[]));
        }
        if cursor.current == Some(n) {
            return Ok(&cursor.values);
        }
        let Some(file) = &self.file else { return Ok(&[]) };
        let mut skip = 1;
        if n == self.in_memory || cursor.current.is_none_or(|c| c + 1 != n) {
            let at = n - self.in_memory;
            cursor.file.seek(self.places.get(at / PLACE_ROWS).copied().unwrap_or(0));
            skip = at % PLACE_ROWS + 1;
        }
        cursor.current = None;
        for _ in 0..skip {
            if !cursor.file.advance(file, io)? {
                return Err(kilndb_base::Error::corrupted("a temporary file has fewer rows than were written"));
            }
        }
        cursor.values.clear();
        row::decode_self_describing(cursor.file.row(), self.width, &mut cursor.values)?;
        cursor.current = Some(n);
        Ok(&cursor.values)
    }
}

#[cfg(test)]
mod tests {
    use super::super::TempSpace;
    use super::*;
    use kilndb_base::env::OsEnv;
    use kilndb_base::park::ThreadPark;
    use std::sync::Arc;

    #[test]
    fn rows_are_found_by_number_while_more_are_added() {
        let dir = std::env::temp_dir().join(format!("kilndb-store-{}", std::process::id()));
        let space = TempSpace::new(Arc::new(OsEnv), &dir);
        let park = ThreadPark::new();
        let io = SpillIo { space: &space, park: &park };
        let mut store = RowStore::new(2, 8000);
        let (mut forward, mut jumping) = (StoreCursor::default(), StoreCursor::default());
        let mut x = 1usize;
        for n in 0..5000usize {
            store.push(&[Datum::Int4(n as i32), Datum::text("t".repeat(n % 50))], io).unwrap();
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            for (cursor, at) in [(&mut forward, n), (&mut jumping, (x >> 33) % (n + 1))] {
                let row = store.row(at, cursor, io).unwrap();
                assert!(matches!(row, [Datum::Int4(v), Datum::Text(t)] if *v == at as i32 && t.len() == at % 50));
            }
        }
        assert!(store.in_memory < 200 && store.len() == 5000);
        drop(store);
        assert_eq!(std::fs::read_dir(dir.join("tmp")).unwrap().count(), 0);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
