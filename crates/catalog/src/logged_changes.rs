//! What DDL has changed, as commit records of the log have it: whoever replays the log, and has objects cached, forgets
//! what a commit makes stale. The bytes are in docs/format.md.
//!
//! Invariants
//! 1. What does not fit, or is not understood, counts as everything of the database.
//! 2. The same changes are the same bytes: lists are sorted.
//!
//! Must not know: the log.

use super::changes::Changes;
use kilndb_base::Oid;
use kilndb_base::bytes::{ByteReader, put_prefixed, put_varint};
use kilndb_base::hash::HashSet;

const FORM: u8 = 1;
const EVERYTHING: u8 = 1;
const FOREIGN_KEYS: u8 = 2;
const ROLES: u8 = 4;
/// Form, flags, an OID, four empty lists.
const _: () = assert!(LEAST_ROOM == 1 + 1 + 5 + 4);
/// The least number of bytes that a record may have: "everything has changed" fits in it.
pub(crate) const LEAST_ROOM: usize = 11;

/// The changes of a database's catalogs in at most `room` bytes, which are [`LEAST_ROOM`] or more.
pub fn encode(changes: &Changes, database: Oid, room: usize) -> Vec<u8> {
    assert!(room >= LEAST_ROOM);
    let whole = encode_whole(changes, database);
    if whole.len() <= room {
        return whole;
    }
    let Changes { foreign_keys, roles, .. } = *changes;
    encode_whole(&Changes { everything: true, foreign_keys, roles, ..Changes::default() }, database)
}
fn encode_whole(changes: &Changes, database: Oid) -> Vec<u8> {
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let flags = flag(changes.everything, EVERYTHING) | flag(changes.foreign_keys, FOREIGN_KEYS);
    let mut out = vec![FORM, flags | flag(changes.roles, ROLES)];
    put_varint(&mut out, u64::from(database));
    for oids in [&changes.objects, &changes.indexes, &changes.maps] {
        let mut oids: Vec<Oid> = oids.iter().copied().collect();
        oids.sort_unstable();
        put_varint(&mut out, oids.len() as u64);
        oids.iter().for_each(|oid| put_varint(&mut out, u64::from(*oid)));
    }
    let mut names: Vec<&(Oid, String)> = changes.names.iter().collect();
    names.sort_unstable();
    put_varint(&mut out, names.len() as u64);
    for (schema, name) in names {
        put_varint(&mut out, u64::from(*schema));
        put_prefixed(&mut out, name.as_bytes());
    }
    out
}

/// The database and its changes. None: damaged.
pub fn decode(bytes: &[u8]) -> Option<(Oid, Changes)> {
    let mut r = ByteReader::new(bytes);
    let (form, flags) = (r.u8()?, r.u8()?);
    let database = read_oid(&mut r)?;
    let mut changes = Changes::default();
    if form != FORM {
        changes.everything = true;
        return Some((database, changes));
    }
    changes.everything = flags & EVERYTHING != 0;
    changes.foreign_keys = flags & FOREIGN_KEYS != 0;
    changes.roles = flags & ROLES != 0;
    for oids in [&mut changes.objects, &mut changes.indexes, &mut changes.maps] {
        read_oids(&mut r, oids)?;
    }
    for _ in 0..r.varint()? {
        let schema = read_oid(&mut r)?;
        let name = String::from_utf8(r.prefixed()?.to_vec()).ok()?;
        changes.names.insert((schema, name));
    }
    r.is_empty().then_some((database, changes))
}
fn read_oid(r: &mut ByteReader<'_>) -> Option<Oid> {
    Oid::try_from(r.varint()?).ok()
}
fn read_oids(r: &mut ByteReader<'_>, oids: &mut HashSet<Oid>) -> Option<()> {
    for _ in 0..r.varint()? {
        oids.insert(read_oid(r)?);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_changes() -> Changes {
        let mut changes = Changes { foreign_keys: true, roles: true, ..Changes::default() };
        changes.objects.extend([16400, 16384]);
        changes.indexes.insert(16390);
        changes.maps.insert(16500);
        changes.names.insert((2200, "b".into()));
        changes.names.insert((2200, "a".into()));
        changes
    }

    /// As docs/format.md draws it.
    #[test]
    fn byte_by_byte() {
        let oid = |low: u8| [0x80 | low, 0x80, 0x01];
        let mut expected = vec![1, 6, 5, 2];
        expected.extend([oid(0), oid(16)].concat());
        expected.extend([&[1][..], &oid(6), &[1], &[0xf4, 0x80, 0x01], &[2]].concat());
        expected.extend([&[0x98, 0x11, 1][..], b"a", &[0x98, 0x11, 1], b"b"].concat());
        assert_eq!(encode(&some_changes(), 5, 1000), expected);
    }

    #[test]
    fn changes_come_back() {
        let changes = some_changes();
        let (database, back) = decode(&encode(&changes, 16000, 1000)).unwrap();
        assert_eq!((database, format!("{:?}", back.objects.len())), (16000, "2".into()));
        assert_eq!((back.objects, back.indexes, back.maps), (changes.objects, changes.indexes, changes.maps));
        assert_eq!((back.names, back.foreign_keys, back.roles, back.everything), (changes.names, true, true, false));
    }

    #[test]
    fn what_does_not_fit_is_everything() {
        let bytes = encode(&some_changes(), Oid::MAX, LEAST_ROOM);
        assert!(bytes.len() <= LEAST_ROOM);
        let (database, back) = decode(&bytes).unwrap();
        assert!(database == Oid::MAX && back.everything && back.foreign_keys && back.objects.is_empty());
        // A later form.
        let (database, back) = decode(&[2, 0, 7, 1, 2, 3]).unwrap();
        assert!(database == 7 && back.everything);
        assert!(decode(&[1, 0, 7, 9]).is_none());
    }
}
