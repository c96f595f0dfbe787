//! How columns store composite values, from the attributes that the types have and have had.

use super::builtin::FIRST_USER_OID;
use super::cache::CatalogReader;
use super::catalog_row::CatalogRow;
use super::ids::*;
use super::model::CatalogView;
use kilndb_base::{Oid, Result};
use kilndb_types::Datum;
use kilndb_types::row_shape::{AttributeState, RecordShape, StoredAttribute, StoredShape};

/// What `attfdwoptions` says of a dropped attribute that has a field in stored values; an earlier build dropped those
/// of which it says nothing.
pub const HAS_FIELD: &str = "has_field";

/// Types hold others no deeper than this.
const DEEPEST: usize = 64;

impl CatalogReader<'_> {
    /// The shape of a type's values, if they have composite values in them. `relations` gets the relations whose
    /// attributes the shape is made of.
    pub fn stored_shape(&self, type_oid: Oid, relations: &mut Vec<Oid>) -> Result<Option<StoredShape>> {
        self.shape_at(type_oid, relations, 0)
    }

    fn shape_at(&self, type_oid: Oid, relations: &mut Vec<Oid>, depth: usize) -> Result<Option<StoredShape>> {
        if type_oid < FIRST_USER_OID || depth > DEEPEST {
            return Ok(None);
        }
        let Some(info) = self.type_by_oid(type_oid)? else { return Ok(None) };
        let inner = match info.kind {
            b'c' => return self.record_shape(info.table_oid, relations, depth),
            b'd' => return self.shape_at(info.base_type, relations, depth + 1),
            b'r' | b'm' => info.range.map_or(0, |range| range.subtype),
            _ if info.category == b'A' => info.element,
            _ => 0,
        };
        let Some(inner) = self.shape_at(inner, relations, depth + 1)? else { return Ok(None) };
        Ok(Some(match info.range {
            Some(_) => StoredShape::Bounds(Box::new(inner)),
            None => StoredShape::Elements(Box::new(inner)),
        }))
    }

    fn record_shape(&self, relation: Oid, relations: &mut Vec<Oid>, depth: usize) -> Result<Option<StoredShape>> {
        if relation < FIRST_USER_OID {
            return Ok(None);
        }
        if !relations.contains(&relation) {
            relations.push(relation);
        }
        let rows = self.lookup(PG_ATTRIBUTE, PG_ATTRIBUTE_RELID_ATTNUM_INDEX, &[Datum::Oid(relation)])?;
        let mut attributes = Vec::with_capacity(rows.len());
        for row in rows.iter().filter(|row| row.int("attnum") > 0) {
            let (type_oid, state) = (row.oid("atttypid"), attribute_state(row));
            let shape = match state {
                AttributeState::Live => self.shape_at(type_oid, relations, depth + 1)?,
                AttributeState::Dropped | AttributeState::LeftOut => None,
            };
            attributes.push(StoredAttribute { type_oid, state, shape });
        }
        Ok(Some(StoredShape::Record(RecordShape::new(attributes))))
    }
}

fn attribute_state(row: &CatalogRow) -> AttributeState {
    match row.bool("attisdropped") {
        false => AttributeState::Live,
        true if row.texts("attfdwoptions").iter().any(|option| option == HAS_FIELD) => AttributeState::Dropped,
        true => AttributeState::LeftOut,
    }
}
