//! Members of jsonb objects, read in place.

use super::bytes::{ByteColumn, BytesKind};
use super::{Rows, Vector, VectorValues, text_of};
use crate::functions::jsonb;
use crate::json::binary;

/// The documents, and the key if it is the same for all.
fn operands<'a>(args: &[&'a Vector]) -> Option<(&'a Vector, &'a ByteColumn, &'a str)> {
    let [document, key] = *args else { return None };
    match (&document.values, &key.values) {
        (VectorValues::Bytes(BytesKind::Jsonb, documents), VectorValues::Bytes(BytesKind::Text, keys))
            if key.is_constant() =>
        {
            Some((document, documents, text_of(keys.get(0)).ok()?))
        }
        _ => None,
    }
}

/// `jsonb -> text`.
pub(super) fn member(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let Some((document, documents, key)) = operands(args) else { return false };
    out.start_bytes(BytesKind::Jsonb, rows.positions());
    let Vector { values: VectorValues::Bytes(_, found), nulls, .. } = out else { return false };
    rows.all(|row| match binary::get(documents.get(document.at(row)), key) {
        Some(value) => found.put(row, value),
        None => {
            nulls.set(row);
            true
        }
    })
}

/// `jsonb ->> text`. Objects and arrays are left to the function itself.
pub(super) fn member_text(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let Some((document, documents, key)) = operands(args) else { return false };
    out.start_bytes(BytesKind::Text, rows.positions());
    let Vector { values: VectorValues::Bytes(_, found), nulls, .. } = out else { return false };
    rows.all(|row| {
        let Some(value) = binary::get(documents.get(document.at(row)), key) else {
            nulls.set(row);
            return true;
        };
        if let Some(text) = binary::string(value) {
            return found.put(row, text.as_bytes());
        }
        if let Some(number) = binary::numeric(value) {
            return found.put_with(row, |bytes| number.write(bytes));
        }
        match jsonb::scalar_text(value) {
            Some(Some(text)) => found.put(row, text.as_bytes()),
            Some(None) => {
                nulls.set(row);
                true
            }
            None => false,
        }
    })
}
