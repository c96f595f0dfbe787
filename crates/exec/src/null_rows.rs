//! Sets of rows whose components may be NULL, and the three-valued answer to "is this row one of them".
//!
//! 1. A row without NULLs that is in the set is in it: true.
//! 2. A row is perhaps in the set, NULL, if some row of the set differs from it in no component in which neither of
//!    them is NULL. One NULL on either side is not enough: `(1, 1) = (2, NULL)` is false.
//! 3. Any other row is not in the set: false.

use kilndb_base::{Oid, Result};
use kilndb_spill::{KeySet, SpillIo};
use kilndb_types::{Datum, key};

/// The components of a row, each as a mark, the length and the bytes of its key; equal rows have equal bytes.
#[derive(Default)]
pub struct RowKey {
    bytes: Vec<u8>,
    components: usize,
    nulls: usize,
}

const IS_NULL: [u8; 4] = [0xff; 4];

impl RowKey {
    pub fn clear(&mut self) {
        self.bytes.clear();
        (self.components, self.nulls) = (0, 0);
    }
    pub fn push(&mut self, type_oid: Oid, value: &Datum) -> Result<()> {
        self.components += 1;
        if value.is_null() {
            self.nulls += 1;
            self.bytes.extend_from_slice(&IS_NULL);
            return Ok(());
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        key::hash_equal_key(type_oid, value, &mut self.bytes)?;
        // No value is longer than 1 GB, so that no length looks like the mark of NULL.
        let length = (self.bytes.len() - start - 4) as u32;
        self.bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
        Ok(())
    }
}

/// The components of a row's key, `None` for NULL.
struct Components<'a>(&'a [u8]);

impl<'a> Iterator for Components<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        let (head, rest) = self.0.split_first_chunk::<4>()?;
        if *head == IS_NULL {
            self.0 = rest;
            return Some(None);
        }
        let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*head) as usize)?;
        self.0 = rest;
        Some(Some(value))
    }
}

/// Is the comparison of these rows true or NULL?
fn may_be_equal(a: &[u8], b: &[u8]) -> bool {
    Components(a).zip(Components(b)).all(|pair| match pair {
        (Some(x), Some(y)) => x == y,
        _ => true,
    })
}

pub(crate) struct NullableRowSet {
    complete: KeySet,
    /// Rows with a NULL, apart because only these can make a row without NULLs a perhaps.
    partial: KeySet,
}

impl NullableRowSet {
    /// Rows beyond so much memory go to temporary files.
    pub fn new(budget_bytes: usize) -> NullableRowSet {
        NullableRowSet { complete: KeySet::new(budget_bytes / 4 * 3), partial: KeySet::new(budget_bytes / 4) }
    }
    pub fn insert(&mut self, row: &RowKey, io: SpillIo<'_>) -> Result<()> {
        let set = if row.nulls == 0 { &mut self.complete } else { &mut self.partial };
        set.insert(&row.bytes, io)?;
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.complete.is_empty() && self.partial.is_empty()
    }

    /// Is `row` in the set? `None` is SQL's NULL.
    pub fn contains(&mut self, row: &RowKey, io: SpillIo<'_>) -> Result<Option<bool>> {
        if row.nulls == 0 && self.complete.contains(&row.bytes, io)? {
            return Ok(Some(true));
        }
        // A row of nothing but NULLs differs from no other row.
        if row.nulls == row.components && !self.is_empty() {
            return Ok(None);
        }
        let perhaps = |other: &[u8]| may_be_equal(&row.bytes, other);
        if self.partial.any(perhaps, io)? || row.nulls > 0 && self.complete.any(perhaps, io)? {
            return Ok(None);
        }
        Ok(Some(false))
    }
}
