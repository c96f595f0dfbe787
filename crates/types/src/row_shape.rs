//! The shape of stored composite values: a value is stored with a field for each attribute that its type has ever had,
//! so that it can be read after attributes were added or dropped.
//!
//! Invariants
//! 1. In memory a [`Record`] has the fields that its type has now; only stored bytes have the others.
//! 2. A field of type 0 is a dropped attribute, and stands in bytes alone. A stored record that has one has a field for
//!    every attribute up to its last.
//! 3. A stored record without one was written when its type had no attribute that was dropped, or by a build that left
//!    such attributes out ([`AttributeState::LeftOut`]): no attribute could be dropped then while values were stored.
//!
//! Must not know: catalogs. A shape comes complete.

use crate::range::{Multirange, Range};
use crate::{Array, Datum, Record};
use kilndb_base::Oid;
use std::sync::Arc;

/// How the values of a type that has composite values in it are stored.
#[derive(Clone, Debug)]
pub enum StoredShape {
    Record(RecordShape),
    /// Of an array's elements.
    Elements(Box<StoredShape>),
    /// Of the bounds of a range or multirange.
    Bounds(Box<StoredShape>),
}

#[derive(Clone, Debug)]
pub struct RecordShape {
    /// All attributes in attnum order.
    attributes: Vec<StoredAttribute>,
    has_dropped: bool,
    has_left_out: bool,
    /// Whether an attribute's own values have a shape.
    has_inner: bool,
}

#[derive(Clone, Debug)]
pub struct StoredAttribute {
    pub type_oid: Oid,
    pub state: AttributeState,
    pub shape: Option<StoredShape>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttributeState {
    Live,
    Dropped,
    /// Dropped by a build whose records had no field for such attributes.
    LeftOut,
}

impl StoredShape {
    /// A value as it is in memory, made of what was stored.
    pub fn read(&self, value: Datum) -> Datum {
        match (self, value) {
            (StoredShape::Record(shape), Datum::Record(record)) => Datum::Record(shape.read(record)),
            (shape, value) => shape.each_inner(value, &StoredShape::read),
        }
    }

    /// What is stored of a value.
    pub fn written(&self, value: Datum) -> Datum {
        match (self, value) {
            (StoredShape::Record(shape), Datum::Record(record)) => Datum::Record(shape.written(record)),
            (shape, value) => shape.each_inner(value, &StoredShape::written),
        }
    }

    /// Whether values are stored as they are in memory.
    pub fn writes_plainly(&self) -> bool {
        match self {
            StoredShape::Record(shape) => {
                let mut inner = shape.attributes.iter().filter_map(|attribute| attribute.shape.as_ref());
                !shape.has_dropped && inner.all(StoredShape::writes_plainly)
            }
            StoredShape::Elements(inner) | StoredShape::Bounds(inner) => inner.writes_plainly(),
        }
    }

    fn each_inner(&self, value: Datum, change: &dyn Fn(&StoredShape, Datum) -> Datum) -> Datum {
        match (self, value) {
            (StoredShape::Elements(inner), Datum::Array(mut array)) => {
                let Array { elements, .. } = Arc::make_mut(&mut array);
                elements.iter_mut().for_each(|element| *element = change(inner, std::mem::take(element)));
                Datum::Array(array)
            }
            (StoredShape::Bounds(inner), Datum::Range(mut range)) => {
                change_bounds(Arc::make_mut(&mut range), inner, change);
                Datum::Range(range)
            }
            (StoredShape::Bounds(inner), Datum::Multirange(mut multirange)) => {
                let Multirange { ranges, .. } = Arc::make_mut(&mut multirange);
                ranges.iter_mut().for_each(|range| change_bounds(range, inner, change));
                Datum::Multirange(multirange)
            }
            (_, other) => other,
        }
    }
}

fn change_bounds(range: &mut Range, shape: &StoredShape, change: &dyn Fn(&StoredShape, Datum) -> Datum) {
    let Some((lower, upper)) = &mut range.bounds else { return };
    for bound in [lower, upper] {
        bound.value = change(shape, std::mem::take(&mut bound.value));
    }
}

impl RecordShape {
    pub fn new(attributes: Vec<StoredAttribute>) -> RecordShape {
        RecordShape {
            has_dropped: attributes.iter().any(|a| a.state != AttributeState::Live),
            has_left_out: attributes.iter().any(|a| a.state == AttributeState::LeftOut),
            has_inner: attributes.iter().any(|a| a.shape.is_some()),
            attributes,
        }
    }

    fn read(&self, record: Arc<Record>) -> Arc<Record> {
        if !self.has_dropped && !self.has_inner && record.fields.len() == self.attributes.len() {
            return record;
        }
        let Record { type_oid, fields, names } = Arc::unwrap_or_clone(record);
        let leaves_out = self.has_left_out && !fields.iter().any(|(ty, _)| *ty == 0);
        let mut stored = fields.into_iter();
        let mut fields = Vec::with_capacity(self.attributes.len());
        for attribute in &self.attributes {
            let is_left_out = leaves_out && attribute.state == AttributeState::LeftOut;
            let field = if is_left_out { None } else { stored.next() };
            if attribute.state == AttributeState::Live {
                let (ty, value) = field.unwrap_or((attribute.type_oid, Datum::Null));
                fields.push((ty, attribute.with_shape(value, StoredShape::read)));
            }
        }
        // Of attributes that a statement does not know of that began before they were added: it may write them again.
        fields.extend(stored);
        Arc::new(Record { type_oid, fields, names })
    }

    fn written(&self, record: Arc<Record>) -> Arc<Record> {
        if !self.has_dropped && !self.has_inner {
            return record;
        }
        let Record { type_oid, fields, names } = Arc::unwrap_or_clone(record);
        let mut live = fields.into_iter();
        let mut fields = Vec::with_capacity(self.attributes.len());
        for attribute in &self.attributes {
            fields.push(match attribute.state {
                AttributeState::Live => {
                    let (ty, value) = live.next().unwrap_or((attribute.type_oid, Datum::Null));
                    (ty, attribute.with_shape(value, StoredShape::written))
                }
                _ => (0, Datum::Null),
            });
        }
        fields.extend(live);
        Arc::new(Record { type_oid, fields, names })
    }
}

impl StoredAttribute {
    fn with_shape(&self, value: Datum, change: impl Fn(&StoredShape, Datum) -> Datum) -> Datum {
        match &self.shape {
            Some(shape) => change(shape, value),
            None => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oids::INT4;
    use AttributeState::{Dropped, LeftOut, Live};

    fn shape(states: &[AttributeState]) -> StoredShape {
        let attribute = |state: &AttributeState| StoredAttribute { type_oid: INT4, state: *state, shape: None };
        StoredShape::Record(RecordShape::new(states.iter().map(attribute).collect()))
    }
    fn row(numbers: &[i32]) -> Datum {
        let fields = numbers.iter().map(|n| (INT4, Datum::Int4(*n))).collect();
        Datum::Record(Arc::new(Record { type_oid: 20_000, fields, names: None }))
    }
    fn numbers(value: &Datum) -> Vec<Option<i32>> {
        let Datum::Record(record) = value else { panic!("not a record") };
        let number = |value: &Datum| if let Datum::Int4(n) = value { Some(*n) } else { None };
        record.fields.iter().map(|(_, value)| number(value)).collect()
    }

    #[test]
    fn values_are_read_by_whatever_shape_comes_later() {
        let first = shape(&[Live, Live, Live]).written(row(&[1, 2, 3]));
        let without_second = shape(&[Live, Dropped, Live]);
        assert_eq!(numbers(&without_second.read(first.clone())), [Some(1), Some(3)]);
        let second = without_second.written(row(&[4, 5]));
        assert_eq!(numbers(&second), [Some(4), None, Some(5)]);
        let longer = shape(&[Live, Dropped, Live, Live]);
        assert_eq!(numbers(&longer.read(first.clone())), [Some(1), Some(3), None]);
        assert_eq!(numbers(&longer.read(second.clone())), [Some(4), Some(5), None]);
        let last = longer.written(row(&[6, 7, 8]));
        let without_first = shape(&[Dropped, Dropped, Live, Live]);
        assert_eq!(numbers(&without_first.read(first)), [Some(3), None]);
        assert_eq!(numbers(&without_first.read(second)), [Some(5), None]);
        assert_eq!(numbers(&without_first.read(last)), [Some(7), Some(8)]);
    }

    #[test]
    fn values_of_earlier_builds_have_no_fields_of_dropped_attributes() {
        let old = row(&[1, 3]);
        let shape_then = shape(&[Live, LeftOut, Live]);
        assert_eq!(numbers(&shape_then.read(old.clone())), [Some(1), Some(3)]);
        let new = shape_then.written(row(&[4, 5]));
        let now = shape(&[Dropped, LeftOut, Live, Live]);
        assert_eq!(numbers(&now.read(old)), [Some(3), None]);
        assert_eq!(numbers(&now.read(new)), [Some(5), None]);
    }

    #[test]
    fn an_older_statement_keeps_what_it_does_not_know() {
        let newest = shape(&[Live, Live, Dropped, Live]);
        let before = shape(&[Live, Live]);
        let stored = newest.written(row(&[1, 2, 3]));
        let again = before.written(before.read(stored));
        assert_eq!(numbers(&newest.read(again)), [Some(1), Some(2), Some(3)]);
    }

    #[test]
    fn elements_and_inner_rows_have_shapes_of_their_own() {
        let inner = Some(shape(&[Dropped, Live]));
        let outer = RecordShape::new(vec![StoredAttribute { type_oid: 20_000, state: Live, shape: inner }]);
        let shape = StoredShape::Elements(Box::new(StoredShape::Record(outer)));
        let array = |value: Datum| {
            let record = Record { type_oid: 20_002, fields: vec![(20_000, value)], names: None };
            let elements = vec![Datum::Record(Arc::new(record)), Datum::Null];
            Datum::Array(Arc::new(Array { element_type: 20_002, dims: vec![(1, 2)], elements }))
        };
        let read = shape.read(array(row(&[1, 2])));
        let (Datum::Array(read), false) = (&read, shape.writes_plainly()) else { panic!("not an array") };
        let (Datum::Record(first), Datum::Null) = (&read.elements[0], &read.elements[1]) else {
            panic!("not a record")
        };
        assert_eq!(numbers(&first.fields[0].1), [Some(2)]);
    }
}
