//! What a type is: one descriptor for each built-in type that has values of its own (docs/decisions/0040), and for each
//! that an extension brings.
//!
//! A new type is a file with its descriptor and a row of [`ROWS`]; pg_type has its row already. Its values are
//! [`OpaqueValue`] unless one of [`Datum`]'s variants holds them, so nothing else has to know it. Arrays, ranges, composite
//! types, domains and enums have no descriptors: what they are made of says how they are read and written.
//!
//! Must not know: catalogs, sessions.

mod names;
mod network;
mod numbers;
mod search;
pub(crate) mod text;
mod time;

use crate::row::PhysicalType;
use crate::{Datum, EvalContext, oids};
use kilndb_base::{Error, Oid, Result, SqlState, sqlstate};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

pub type InputFn = fn(&str, i32, &EvalContext<'_>) -> Result<Datum>;
pub type ReceiveFn = fn(&[u8], i32, &EvalContext<'_>) -> Result<Datum>;
/// Appends a value's form; the number is the column's type modifier.
pub type OutputFn = fn(&Datum, i32, &mut Vec<u8>, &EvalContext<'_>) -> Result<()>;

/// The part of a text that counts where it is compared.
pub type FoldFn = for<'t> fn(&'t str) -> Cow<'t, str>;

pub struct TypeDescriptor {
    pub oid: Oid,
    /// Text form to value, the modifier applied as PostgreSQL's input functions do.
    pub input: InputFn,
    /// Binary form to value.
    pub receive: ReceiveFn,
    /// Value to text form; None: the variant of [`Datum`] tells.
    pub output: Option<OutputFn>,
    /// Value to binary form; None: the variant of [`Datum`] tells.
    pub send: Option<OutputFn>,
    /// How a row stores it.
    pub storage: PhysicalType,
    /// Whether the type has a btree operator class, so that keys are made of its values.
    pub is_ordered: bool,
    /// PostgreSQL hashes it as it is hashed here: hash partitions may have it as their key.
    pub is_hashed: bool,
    pub modifier: Option<&'static TypeModifier>,
    /// Whether values mean the same in every session and are read without looking anything up.
    pub is_self_contained: bool,
    /// The text form means the same under all settings and names nothing: the binder reads literals.
    pub is_settings_free: bool,
    /// Types of one group hold their values alike: a cast between them changes nothing.
    pub held_as: HeldAs,
    /// Values that are held as text are compared, hashed and sorted as the text that this makes of them; None: as they
    /// are.
    pub folded: Option<FoldFn>,
    pub statistics: StatisticsKind,
    /// What is done with values that are [`OpaqueValue`]s; None: they are none.
    pub opaque: Option<OpaqueType>,
    /// The JSON that a value becomes in functions that make JSON of any type; None: a string with its text form.
    pub json: Option<fn(&Datum) -> Result<String>>,
    /// Parts of a value have keys; None: the type is not subscripted like that.
    pub subscript: Option<&'static KeySubscript>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeldAs {
    /// Values are held as those of no other type are.
    Itself,
    Text,
    Oid,
    /// Values are held as an OID is, and shown as the name of an object.
    NamedOid,
}

/// What ANALYZE gathers of a column beside what it gathers of all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatisticsKind {
    Plain,
    /// The words of a tsvector.
    Lexemes,
}

pub struct TypeModifier {
    /// The modifier of what stands in parentheses behind the type's name; an error is of SQLSTATE 22023.
    pub read: fn(&[i32]) -> std::result::Result<i32, String>,
    /// A value cut or rounded to a modifier; the flag says that the cast is explicit.
    pub apply: fn(Datum, i32, bool) -> Result<Datum>,
}

/// A value that only its type's descriptor knows. Its bytes sort as the type's values do, equal values have equal bytes,
/// and no value's bytes begin another's.
#[derive(Debug)]
pub struct OpaqueValue {
    pub ty: &'static TypeDescriptor,
    pub bytes: Box<[u8]>,
}

pub struct OpaqueType {
    /// The bytes that PostgreSQL stores a value in, and their alignment, for statistics.
    pub width: OpaqueWidth,
    pub alignment: usize,
    /// How values are hashed; None: the type has no hash operator class.
    pub hash: Option<OpaqueHash>,
}

#[derive(Clone, Copy)]
pub enum OpaqueWidth {
    /// pg_type.typlen.
    Fixed(usize),
    /// It varies: what a value of these bytes takes without its length word.
    Of(fn(&[u8]) -> usize),
}

/// Subscripts of a type that takes one, a key: `value['key']`.
#[derive(Debug)]
pub struct KeySubscript {
    /// The type as messages call it.
    pub type_name: &'static str,
    /// Types of the key and of the part that it leads to.
    pub key: Oid,
    pub element: Oid,
    /// The part of a value, neither of which is NULL.
    pub fetch: fn(&Datum, &Datum) -> Result<Datum>,
    /// The value, which may be NULL, with another part at the key, which may not.
    pub assign: fn(&Datum, &Datum, &Datum) -> Result<Datum>,
}

/// The functions of PostgreSQL's hash operator class.
pub struct OpaqueHash {
    pub plain: fn(&[u8]) -> u32,
    pub extended: fn(&[u8], u64) -> u64,
}

impl std::fmt::Debug for TypeDescriptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "type {}", self.oid)
    }
}

impl OpaqueValue {
    pub fn datum(ty: &'static TypeDescriptor, bytes: &[u8]) -> Datum {
        Datum::Opaque(Arc::new(OpaqueValue { ty, bytes: bytes.into() }))
    }
    /// A value of the type with this OID; None: such values do not exist.
    pub(crate) fn of_type(type_oid: Oid, bytes: &[u8]) -> Option<Datum> {
        let ty = descriptor(type_oid)?;
        ty.opaque.as_ref().map(|_| OpaqueValue::datum(ty, bytes))
    }
    pub fn compare(&self, other: &OpaqueValue) -> Ordering {
        self.bytes.cmp(&other.bytes)
    }
    fn hash_functions(&self) -> Result<&'static OpaqueHash> {
        let hash = self.ty.opaque.as_ref().and_then(|o| o.hash.as_ref());
        hash.ok_or_else(|| Error::unsupported(format!("hashing of values of type {} is not supported", self.ty.oid)))
    }
    pub fn hash(&self) -> Result<u32> {
        self.hash_functions().map(|hash| (hash.plain)(&self.bytes))
    }
    pub(crate) fn hash_extended(&self, seed: u64) -> Result<u64> {
        self.hash_functions().map(|hash| (hash.extended)(&self.bytes, seed))
    }
}

/// The families' descriptors. A new type's is added here.
const ROWS: &[&[TypeDescriptor]] = &[
    numbers::TYPES,
    text::TYPES,
    time::TYPES,
    network::TYPES,
    search::TYPES,
    names::TYPES,
    crate::functions::money::TYPES,
    crate::hstore::TYPES,
    crate::citext::TYPES,
];

/// Built-in types have OIDs below this.
const OIDS: usize = 6000;
/// What extensions bring has OIDs from here up to those of users.
pub(crate) const FIRST_EXTENSION_TYPE: Oid = 15000;
pub(crate) const FIRST_USER_TYPE: Oid = 16384;
const MEMBERS: usize = (FIRST_USER_TYPE - FIRST_EXTENSION_TYPE) as usize;
/// No type.
const NOBODY: (u8, u8) = (u8::MAX, 0);

/// Where the descriptors of types are, by their OIDs less `first`.
const fn index_of<const N: usize>(first: Oid) -> [(u8, u8); N] {
    let mut index = [NOBODY; N];
    let mut family = 0;
    while family < ROWS.len() {
        let mut row = 0;
        while row < ROWS[family].len() {
            let oid = ROWS[family][row].oid;
            if oid >= first && oid < first + N as Oid {
                let at = (oid - first) as usize;
                assert!(index[at].0 == NOBODY.0, "two descriptors of one type");
                index[at] = (family as u8, row as u8);
            }
            row += 1;
        }
        family += 1;
    }
    index
}
static INDEX: [(u8, u8); OIDS] = index_of(0);
static MEMBER_INDEX: [(u8, u8); MEMBERS] = index_of(FIRST_EXTENSION_TYPE);
static DESCRIPTORS: &[&[TypeDescriptor]] = ROWS;

/// The descriptor of a type by its OID; None: the type is made of others (arrays, ranges, users' types), or has no
/// values here.
#[inline]
pub fn descriptor(oid: Oid) -> Option<&'static TypeDescriptor> {
    let place = match INDEX.get(oid as usize) {
        Some(place) => place,
        None => MEMBER_INDEX.get(oid.checked_sub(FIRST_EXTENSION_TYPE)? as usize)?,
    };
    let (family, row) = *place;
    DESCRIPTORS.get(usize::from(family))?.get(usize::from(row))
}

/// What counts of a text where values of the type are compared; None: all of it.
#[inline]
pub fn folding(oid: Oid) -> Option<FoldFn> {
    // Most texts are of these.
    if matches!(oid, oids::TEXT | oids::VARCHAR | oids::NAME) {
        return None;
    }
    descriptor(oid).and_then(|ty| ty.folded)
}

/// The part of a text that counts where values of the type are compared.
pub fn folded(oid: Oid, text: &str) -> Cow<'_, str> {
    folding(oid).map_or(Cow::Borrowed(text), |fold| fold(text))
}

/// Whether values that a cast between the types leaves as they are compare alike before and after it. Of what is under
/// users' types nothing is known here.
pub fn compare_alike(a: Oid, b: Oid) -> bool {
    let is_users = |oid| oid >= FIRST_USER_TYPE;
    is_users(a) || is_users(b) || folding(a).map(|f| f as usize) == folding(b).map(|f| f as usize)
}

/// The descriptors of all types.
pub fn descriptors() -> impl Iterator<Item = &'static TypeDescriptor> {
    DESCRIPTORS.iter().flat_map(|family| family.iter())
}

/// What a descriptor says where it says nothing else: a type that is ordered and hashed, and depends on settings.
pub(crate) const BASE: TypeDescriptor = TypeDescriptor {
    oid: 0,
    input: |_, _, _| Err(Error::unsupported("input of values of this type is not supported")),
    receive: |_, _, _| Err(Error::unsupported("binary input of values of this type is not supported")),
    output: None,
    send: None,
    storage: PhysicalType::Tagged,
    is_ordered: true,
    is_hashed: true,
    modifier: None,
    is_self_contained: false,
    is_settings_free: false,
    held_as: HeldAs::Itself,
    folded: None,
    statistics: StatisticsKind::Plain,
    opaque: None,
    json: None,
    subscript: None,
};
/// What descriptors of types have in common whose text form means the same everywhere.
const FREE: TypeDescriptor = TypeDescriptor { is_settings_free: true, ..BASE };
/// What descriptors of types have in common whose values are, besides, read without looking anything up.
const PLAIN: TypeDescriptor = TypeDescriptor { is_self_contained: true, ..FREE };

#[cold]
pub(crate) fn bad_format() -> Error {
    Error::new(sqlstate::INVALID_BINARY_REPRESENTATION, "incorrect binary data format")
}
#[cold]
pub(crate) fn short() -> Error {
    Error::new(sqlstate::PROTOCOL_VIOLATION, "insufficient data left in message")
}
#[cold]
fn error(state: SqlState, message: impl Into<String>) -> Error {
    Error::new(state, message)
}
pub(crate) fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    if bytes.len() < N {
        return Err(short());
    }
    bytes.try_into().map_err(|_| bad_format())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_found_by_their_oids() {
        let mut count = 0;
        for ty in descriptors() {
            assert!(descriptor(ty.oid).is_some_and(|found| std::ptr::eq(found, ty)), "{ty:?}");
            assert!(ty.opaque.is_none() || ty.output.is_some() && ty.send.is_some(), "{ty:?} cannot be written");
            count += 1;
        }
        assert!(count > 50, "only {count}");
        assert!(descriptor(0).is_none() && descriptor(Oid::MAX).is_none());
        assert!(descriptor(FIRST_EXTENSION_TYPE).is_none() && descriptor(FIRST_USER_TYPE).is_none());
        assert_eq!(&*folded(oids::BPCHAR, "a "), "a");
        assert_eq!(&*folded(oids::TEXT, "a "), "a ");
    }
}
