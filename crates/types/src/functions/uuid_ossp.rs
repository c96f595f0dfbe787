//! Functions of the extension uuid-ossp: UUIDs of time, chance and names (RFC 9562), and the namespaces of names.

use crate::{EvalContext, pieces};
use kilndb_base::Result;
use sha2::Digest;

/// From the beginning of the calendar that UUIDs count in, 1582-10-15, to 1970, in units of 100 nanoseconds.
const TICKS_TO_1970: i64 = 0x01b2_1dd2_1381_4000;

/// What hashing a byte is taken for.
const UNITS_PER_BYTE: usize = 5;

/// The namespaces differ in their fourth byte.
fn namespace(number: u8) -> [u8; 16] {
    [0x6b, 0xa7, 0xb8, number, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8]
}

fn with_version(mut uuid: [u8; 16], version: u8) -> [u8; 16] {
    uuid[6] = uuid[6] & 0x0f | version << 4;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// A UUID of now. Its node is chance, marked as no network card's address.
fn of_time(ctx: &EvalContext<'_>) -> [u8; 16] {
    let mut uuid = [0; 16];
    ctx.host.random_bytes(&mut uuid);
    let ticks = (ctx.host.ascending_unix_nanos() / 100).wrapping_add(TICKS_TO_1970) as u64;
    uuid[..4].copy_from_slice(&(ticks as u32).to_be_bytes());
    uuid[4..6].copy_from_slice(&((ticks >> 32) as u16).to_be_bytes());
    uuid[6..8].copy_from_slice(&((ticks >> 48) as u16).to_be_bytes());
    uuid[10] |= 3;
    with_version(uuid, 1)
}

fn of_name<D: Digest>(space: &[u8; 16], name: &str, version: u8) -> Result<[u8; 16]> {
    let mut state = D::new_with_prefix(space);
    for piece in pieces::of_bytes(name.as_bytes(), UNITS_PER_BYTE) {
        state.update(piece?);
    }
    let digest = state.finalize();
    let mut uuid = [0; 16];
    uuid.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
    Ok(with_version(uuid, version))
}

scalars! {
    fn uuid_nil(_c;) = [0u8; 16];
    fn uuid_ns_dns(_c;) = namespace(0x10);
    fn uuid_ns_url(_c;) = namespace(0x11);
    fn uuid_ns_oid(_c;) = namespace(0x12);
    fn uuid_ns_x500(_c;) = namespace(0x14);
    fn uuid_generate_v1(c;) = of_time(c);
    fn uuid_generate_v1mc(c;) = of_time(c);
    fn uuid_generate_v3(_c; space: uuid, name: text) = of_name::<md5::Md5>(space, name, 3)?;
    fn uuid_generate_v4(c;) = super::bytea::uuid4(c);
    fn uuid_generate_v5(_c; space: uuid, name: text) = of_name::<sha1::Sha1>(space, name, 5)?;
}
