//! hstore: a set of keys with values, all of them texts, as the extension of that name brings it.
//!
//! A value is an [`OpaqueValue`]. Its bytes are 0 for no pairs, else 1, the texts of all keys and values one behind the
//! other, 0, the number of pairs, and for each pair where its key ends among the texts, where its value ends, and whether
//! the value is NULL.
//!
//! Invariants
//! 1. Pairs are in the order of their keys, shorter ones first; no key is there twice.
//! 2. The bytes sort as PostgreSQL's hstore_cmp does. No text has a zero byte, so the first one ends them.
//! 3. Reading never trusts a byte: what does not fit is [`Error::corrupted`].

mod text;

use crate::hash::{hash_bytes, hash_bytes_extended};
use crate::types::{BASE, KeySubscript, OpaqueHash, OpaqueType, OpaqueValue, OpaqueWidth, TypeDescriptor};
use crate::{Array, Datum, oids};
use kilndb_base::{Error, Oid, Result, sqlstate, work};
use std::cmp::Ordering;

/// The OIDs that the extension gives its type and the array of it, in every database.
pub const HSTORE: Oid = 15693;

const NOTHING: u8 = 0;
const PAIRS: u8 = 1;
/// Bytes behind the texts for each pair.
const ENTRY: usize = 9;
/// PostgreSQL's limit of a key or a value.
const LONGEST: usize = 0x3fff_ffff;

pub(crate) const TYPES: &[TypeDescriptor] = &[TypeDescriptor {
    oid: HSTORE,
    input: |text, _, _| datum(text::parse(text)?),
    receive: |bytes, _, _| text::receive(bytes),
    output: Some(|value, _, out, _| text::write(&Hstore::of(value)?, out)),
    send: Some(|value, _, out, _| text::send(&Hstore::of(value)?, out)),
    is_settings_free: true,
    is_self_contained: true,
    opaque: Some(OpaqueType {
        width: OpaqueWidth::Of(|bytes| hashed(bytes).len()),
        alignment: 4,
        hash: Some(OpaqueHash {
            plain: |bytes| hash_bytes(&hashed(bytes)),
            extended: |bytes, seed| hash_bytes_extended(&hashed(bytes), seed),
        }),
    }),
    json: Some(|value| crate::functions::hstore::json_text(value, false)),
    subscript: Some(&SUBSCRIPT),
    ..BASE
}];

static SUBSCRIPT: KeySubscript = KeySubscript {
    type_name: "hstore",
    key: oids::TEXT,
    element: oids::TEXT,
    fetch: |container, key| match key {
        Datum::Text(key) => Ok(text_datum(Hstore::of(container)?.find(key)?.flatten())),
        _ => Ok(Datum::Null),
    },
    assign: |container, key, value| {
        let Datum::Text(key) = key else { return Err(Error::internal("a key that is no text")) };
        let value = match value {
            Datum::Text(value) => Some(&**value),
            _ => None,
        };
        let mut pairs = if container.is_null() { Vec::new() } else { Hstore::of(container)?.pairs()? };
        match place(&pairs, key) {
            Ok(at) => pairs[at].1 = value,
            Err(at) => pairs.insert(at, (key, value)),
        }
        made(&pairs)
    },
};

/// A key with its value; None: NULL.
pub(crate) type Pair<'a> = (&'a str, Option<&'a str>);

/// Shorter keys come first.
pub(crate) fn key_order(a: &str, b: &str) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.as_bytes().cmp(b.as_bytes()))
}

/// Where a key is among pairs that are in order, or where it would be.
fn place(pairs: &[Pair<'_>], key: &str) -> std::result::Result<usize, usize> {
    pairs.binary_search_by(|pair| key_order(pair.0, key))
}

/// The value with these pairs, in any order: of several with one key the first counts.
pub(crate) fn datum<K: AsRef<str>, V: AsRef<str>>(pairs: Vec<(K, Option<V>)>) -> Result<Datum> {
    let mut list: Vec<Pair<'_>> = Vec::with_capacity(pairs.len());
    for pair in work::steps(&pairs, 5) {
        let (key, value) = pair?;
        list.push((key.as_ref(), value.as_ref().map(AsRef::as_ref)));
    }
    if !list.is_sorted_by(|a, b| key_order(a.0, b.0).is_lt()) {
        work::sort_by(&mut list, |a, b| key_order(a.0, b.0))?;
        list.dedup_by(|later, first| later.0 == first.0);
    }
    made(&list)
}

/// The value with pairs that are in order.
pub(crate) fn made(pairs: &[Pair<'_>]) -> Result<Datum> {
    if pairs.is_empty() {
        return Ok(OpaqueValue::datum(&TYPES[0], &[NOTHING]));
    }
    let too_long =
        |what: &str| Error::new(sqlstate::STRING_DATA_RIGHT_TRUNCATION, format!("string too long for hstore {what}"));
    let mut total = 0usize;
    for (key, value) in pairs {
        total += key.len();
        if total > LONGEST {
            return Err(too_long("key"));
        }
        total += value.map_or(0, str::len);
        if total > LONGEST {
            return Err(too_long("value"));
        }
    }
    let mut bytes = Vec::with_capacity(total + 6 + pairs.len() * ENTRY);
    bytes.push(PAIRS);
    for pair in work::steps(pairs, 10) {
        let (key, value) = pair?;
        bytes.extend_from_slice(key.as_bytes());
        bytes.extend_from_slice(value.unwrap_or("").as_bytes());
    }
    bytes.push(0);
    bytes.extend_from_slice(&(pairs.len() as u32).to_be_bytes());
    let mut end = 0u32;
    for (key, value) in pairs {
        for text in [key, value.unwrap_or("")] {
            end += text.len() as u32;
            bytes.extend_from_slice(&end.to_be_bytes());
        }
        bytes.push(u8::from(value.is_none()));
    }
    Ok(OpaqueValue::datum(&TYPES[0], &bytes))
}

#[cold]
fn corrupted() -> Error {
    Error::corrupted("stored hstore value")
}

/// A value that is read where it is.
pub(crate) struct Hstore<'a> {
    texts: &'a str,
    entries: &'a [u8],
}

impl<'a> Hstore<'a> {
    pub(crate) fn of(value: &'a Datum) -> Result<Hstore<'a>> {
        match value {
            Datum::Opaque(v) if v.ty.oid == HSTORE => Hstore::read(&v.bytes),
            other => Err(Error::internal(format!("function wants hstore, got {other:?}"))),
        }
    }
    fn read(bytes: &'a [u8]) -> Result<Hstore<'a>> {
        match bytes.split_first() {
            Some((&NOTHING, [])) => Ok(Hstore { texts: "", entries: &[] }),
            Some((&PAIRS, rest)) => Hstore::read_pairs(rest).ok_or_else(corrupted),
            _ => Err(corrupted()),
        }
    }
    fn read_pairs(bytes: &'a [u8]) -> Option<Hstore<'a>> {
        let end = bytes.iter().position(|b| *b == 0)?;
        let (count, entries) = bytes.get(end + 1..)?.split_first_chunk::<4>()?;
        let texts = std::str::from_utf8(bytes.get(..end)?).ok()?;
        (entries.len() == (u32::from_be_bytes(*count) as usize).checked_mul(ENTRY)?)
            .then_some(Hstore { texts, entries })
    }
    pub(crate) fn len(&self) -> usize {
        self.entries.len() / ENTRY
    }
    /// Where the key of a pair ends, where its value does, and whether that is NULL.
    fn entry(&self, at: usize) -> Option<(usize, usize, bool)> {
        let entry = self.entries.get(at * ENTRY..(at + 1) * ENTRY)?;
        let (key, rest) = entry.split_first_chunk::<4>()?;
        let (value, rest) = rest.split_first_chunk::<4>()?;
        Some((u32::from_be_bytes(*key) as usize, u32::from_be_bytes(*value) as usize, rest == [1]))
    }
    fn pair(&self, at: usize) -> Option<Pair<'a>> {
        let start = if at == 0 { 0 } else { self.entry(at - 1)?.1 };
        let (key_end, value_end, is_null) = self.entry(at)?;
        let (key, value) = (self.texts.get(start..key_end)?, self.texts.get(key_end..value_end)?);
        Some((key, (!is_null).then_some(value)))
    }
    pub(crate) fn pairs(&self) -> Result<Vec<Pair<'a>>> {
        let mut pairs = Vec::with_capacity(self.len());
        for at in work::steps(0..self.len(), 5) {
            pairs.push(self.pair(at?).ok_or_else(corrupted)?);
        }
        Ok(pairs)
    }
    /// The value of a key; None: it is not there.
    pub(crate) fn find(&self, key: &str) -> Result<Option<Option<&'a str>>> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            let (found, value) = self.pair(middle).ok_or_else(corrupted)?;
            match key_order(found, key) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(Some(value)),
            }
        }
        Ok(None)
    }
    /// Whether each of the other's pairs is one of these.
    pub(crate) fn contains(&self, other: &Hstore<'_>) -> Result<bool> {
        for at in work::steps(0..other.len(), 10) {
            let (key, value) = other.pair(at?).ok_or_else(corrupted)?;
            if self.find(key)? != Some(value) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The bytes that PostgreSQL hashes: the number of pairs, where each text ends, then the texts, in the byte order of most
/// machines.
fn hashed(bytes: &[u8]) -> Vec<u8> {
    const IS_NEW_VERSION: u32 = 0x8000_0000;
    const IS_FIRST: u32 = 0x8000_0000;
    const IS_NULL: u32 = 0x4000_0000;
    let Ok(value) = Hstore::read(bytes) else { return Vec::new() };
    let mut out = Vec::with_capacity(bytes.len() + 4);
    out.extend_from_slice(&(value.len() as u32 | IS_NEW_VERSION).to_le_bytes());
    for at in 0..value.len() {
        let (key, end, is_null) = value.entry(at).unwrap_or_default();
        let first = if at == 0 { IS_FIRST } else { 0 };
        out.extend_from_slice(&(key as u32 | first).to_le_bytes());
        out.extend_from_slice(&(end as u32 | if is_null { IS_NULL } else { 0 }).to_le_bytes());
    }
    out.extend_from_slice(value.texts.as_bytes());
    out
}

pub(crate) fn text_datum(text: Option<&str>) -> Datum {
    text.map_or(Datum::Null, Datum::text)
}

/// The texts of an array that are not NULL, in the order of keys and each once.
pub(crate) fn keys_of(array: &Array) -> Result<Vec<&str>> {
    let mut keys = Vec::with_capacity(array.elements.len());
    for element in work::steps(&array.elements, 5) {
        if let Datum::Text(key) = element? {
            keys.push(&**key);
        }
    }
    work::sort_by(&mut keys, |a, b| key_order(a, b))?;
    keys.dedup();
    Ok(keys)
}

/// A value from its text form, for tests.
#[cfg(test)]
pub(crate) fn parsed(text: &str) -> Datum {
    datum(text::parse(text).unwrap()).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{compare, encode_key};

    /// PostgreSQL's hstore_cmp, from its definition.
    fn expected(a: &[Pair<'_>], b: &[Pair<'_>]) -> Ordering {
        if a.is_empty() || b.is_empty() {
            return (!a.is_empty()).cmp(&!b.is_empty());
        }
        let texts = |pairs: &[Pair<'_>]| {
            pairs.iter().map(|(key, value)| format!("{key}{}", value.unwrap_or(""))).collect::<String>()
        };
        let ends = |pairs: &[Pair<'_>]| {
            let mut end = 0;
            let mut all = Vec::new();
            for (key, value) in pairs {
                end += key.len();
                all.push((end, false));
                end += value.map_or(0, str::len);
                all.push((end, value.is_none()));
            }
            all
        };
        texts(a).as_bytes().cmp(texts(b).as_bytes()).then(a.len().cmp(&b.len())).then_with(|| ends(a).cmp(&ends(b)))
    }

    fn some_values() -> Vec<Datum> {
        let texts = ["", "a", "b", "ab", "aa", "é", "ä\u{1}", "\u{1}", "zz"];
        let mut values = vec![parsed("")];
        let mut state = 7u64;
        let mut next = |n: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % n
        };
        for _ in 0..300 {
            let count = next(4);
            let pairs = (0..count).map(|_| (texts[next(9)], (next(4) > 0).then(|| texts[next(9)]))).collect();
            values.push(datum::<&str, &str>(pairs).unwrap());
        }
        values
    }

    #[test]
    fn bytes_sort_as_values_do() {
        let values = some_values();
        let key = |d: &Datum| {
            let mut out = Vec::new();
            encode_key(HSTORE, d, false, false, &mut out).unwrap();
            out
        };
        for a in &values {
            for b in &values {
                let (x, y) = (Hstore::of(a).unwrap().pairs().unwrap(), Hstore::of(b).unwrap().pairs().unwrap());
                let order = expected(&x, &y);
                assert_eq!(compare(HSTORE, a, b), order, "{x:?} {y:?}");
                assert_eq!(key(a).cmp(&key(b)), order, "{x:?} {y:?}");
                assert_eq!(order.is_eq(), x == y);
                // Columns may follow.
                assert!(x == y || !key(b).starts_with(&key(a)));
            }
        }
    }

    #[test]
    fn a_key_is_found_as_it_would_be_by_looking_at_all() {
        for value in some_values() {
            let value = Hstore::of(&value).unwrap();
            let pairs = value.pairs().unwrap();
            for key in ["", "a", "b", "ab", "aa", "é", "zz", "no"] {
                let found = pairs.iter().find(|p| p.0 == key).map(|p| p.1);
                assert_eq!(value.find(key).unwrap(), found);
            }
        }
    }

    #[test]
    fn broken_bytes_are_refused() {
        let Datum::Opaque(whole) = parsed("a=>1, bc=>NULL") else { panic!() };
        for cut in 0..whole.bytes.len() {
            assert!(Hstore::read(&whole.bytes[..cut]).is_err(), "{cut}");
        }
        let mut broken = whole.bytes.to_vec();
        let at = broken.len() - 7;
        broken[at] = 0xff;
        let broken = Hstore::read(&broken).unwrap();
        assert!(broken.pairs().is_err());
    }
}
