//! Text, what is held as text, and bytes.

use super::{BASE, FREE, HeldAs, PLAIN, TypeDescriptor, TypeModifier, bad_format, error, fixed, short};
use crate::oids::*;
use crate::row::PhysicalType as P;
use crate::{Datum, EvalContext, cast, io, json, pieces};
use kilndb_base::{Error, Oid, Result, shared, sqlstate, work};
use std::borrow::Cow;

pub(crate) fn utf8(bytes: &[u8]) -> Result<&str> {
    let bad = |at: usize| {
        let hex: Vec<String> = bytes[at..].iter().take(3).map(|b| format!("0x{b:02x}")).collect();
        let message = format!("invalid byte sequence for encoding \"UTF8\": {}", hex.join(" "));
        error(sqlstate::CHARACTER_NOT_IN_REPERTOIRE, message)
    };
    if bytes.contains(&0) {
        let message = "invalid byte sequence for encoding \"UTF8\": 0x00";
        return Err(error(sqlstate::CHARACTER_NOT_IN_REPERTOIRE, message));
    }
    std::str::from_utf8(bytes).map_err(|e| bad(e.valid_up_to()))
}
fn refused(type_name: &str) -> Error {
    Error::new(sqlstate::FEATURE_NOT_SUPPORTED, format!("cannot accept a value of type {type_name}"))
}
fn text_in(text: &str, _: i32, _: &EvalContext<'_>) -> Result<Datum> {
    shared::text(text).map(Datum::Text)
}
fn text_recv(bytes: &[u8], _: i32, _: &EvalContext<'_>) -> Result<Datum> {
    shared::text(utf8(bytes)?).map(Datum::Text)
}
fn json_in(text: &str, _: i32, _: &EvalContext<'_>) -> Result<Datum> {
    json::validate(text)?;
    shared::text(text).map(Datum::Text)
}
fn jsonb_in(text: &str, _: i32, _: &EvalContext<'_>) -> Result<Datum> {
    json::binary::datum(&json::JsonValue::parse(text)?)
}
fn jsonpath_in(text: &str, _: i32, _: &EvalContext<'_>) -> Result<Datum> {
    Ok(Datum::text(json::path_parse::parse(text)?.text()))
}
/// The text behind a version number.
fn versioned<'a>(bytes: &'a [u8], name: &str) -> Result<&'a str> {
    let (version, text) = bytes.split_first().ok_or_else(short)?;
    if *version != 1 {
        return Err(error(sqlstate::INTERNAL_ERROR, format!("unsupported {name} version number {version}")));
    }
    utf8(text)
}

/// A number of characters, or of bits.
fn length(mods: &[i32], name: &str, longest: i32) -> std::result::Result<i32, String> {
    let [n] = mods else { return Err("invalid type modifier".into()) };
    if *n < 1 {
        return Err(format!("length for type {name} must be at least 1"));
    }
    if *n > longest {
        return Err(format!("length for type {name} cannot exceed {longest}"));
    }
    Ok(*n)
}
const CHARACTERS_MAX: i32 = 10_485_760;
const BITS_MAX: i32 = 83_886_080;

static VARCHAR_MODIFIER: TypeModifier = TypeModifier {
    read: |mods| Ok(length(mods, "varchar", CHARACTERS_MAX)? + 4),
    apply: |value, modifier, explicit| match &value {
        Datum::Text(s) if s.len() as i64 > i64::from(modifier) - 4 => cast::varchar(s, modifier, explicit),
        _ => Ok(value),
    },
};
static BPCHAR_MODIFIER: TypeModifier = TypeModifier {
    read: |mods| Ok(length(mods, "char", CHARACTERS_MAX)? + 4),
    apply: |value, modifier, explicit| match &value {
        Datum::Text(s) => cast::bpchar(s, modifier, explicit),
        _ => Ok(value),
    },
};
static BIT_MODIFIER: TypeModifier = TypeModifier {
    read: |mods| length(mods, "bit", BITS_MAX),
    apply: |value, modifier, explicit| match &value {
        Datum::Text(s) => cast::bit_length(BIT, s, modifier, explicit),
        _ => Ok(value),
    },
};
static VARBIT_MODIFIER: TypeModifier = TypeModifier {
    read: |mods| length(mods, "varbit", BITS_MAX),
    apply: |value, modifier, explicit| match &value {
        Datum::Text(s) => cast::bit_length(VARBIT, s, modifier, explicit),
        _ => Ok(value),
    },
};

fn receive_bits(type_oid: Oid, bytes: &[u8], typmod: i32) -> Result<Datum> {
    let (head, body) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
    let len = i32::from_be_bytes(*head);
    let len = usize::try_from(len).map_err(|_| bad_format())?;
    if body.len() != len.div_ceil(8) {
        return Err(bad_format());
    }
    let mut text = String::with_capacity(body.len() * 8);
    for piece in pieces::of_bytes(body, 8) {
        let bits = piece?.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1));
        text.extend(bits.map(|bit| if bit { '1' } else { '0' }));
    }
    text.truncate(len);
    cast::parse_bit(type_oid, &text, typmod)
}
fn send_bits(value: &Datum, _: i32, out: &mut Vec<u8>, _: &EvalContext<'_>) -> Result<()> {
    let Datum::Text(v) = value else { return Ok(()) };
    out.extend_from_slice(&(v.len() as u32).to_be_bytes());
    for chunk in work::steps(v.as_bytes().chunks(8), 8) {
        let chunk = chunk?;
        let byte = chunk.iter().enumerate().fold(0u8, |b, (i, c)| b | u8::from(*c == b'1') << (7 - i));
        out.push(byte);
    }
    Ok(())
}
const BITS: TypeDescriptor = TypeDescriptor { send: Some(send_bits), storage: P::Text, is_hashed: false, ..FREE };

fn send_bpchar(value: &Datum, modifier: i32, out: &mut Vec<u8>, _: &EvalContext<'_>) -> Result<()> {
    let Datum::Text(v) = value else { return Ok(()) };
    pieces::append_mostly_short(out, v.as_bytes())?;
    if modifier >= 4 {
        io::pad(v, modifier, out);
    }
    Ok(())
}

/// Types that are text by another name.
pub(crate) const TEXTUAL: TypeDescriptor =
    TypeDescriptor { input: text_in, receive: text_recv, storage: P::Text, held_as: HeldAs::Text, ..BASE };

pub(super) const TYPES: &[TypeDescriptor] = &[
    TypeDescriptor { oid: TEXT, is_self_contained: true, is_settings_free: true, ..TEXTUAL },
    TypeDescriptor {
        oid: VARCHAR,
        input: |text, modifier, _| cast::varchar(text, modifier, false),
        receive: |bytes, modifier, _| cast::varchar(utf8(bytes)?, modifier, false),
        modifier: Some(&VARCHAR_MODIFIER),
        is_self_contained: true,
        is_settings_free: true,
        ..TEXTUAL
    },
    TypeDescriptor {
        oid: BPCHAR,
        input: |text, modifier, _| cast::bpchar(text, modifier, false),
        receive: |bytes, modifier, _| cast::bpchar(utf8(bytes)?, modifier, false),
        send: Some(send_bpchar),
        folded: Some(|text| Cow::Borrowed(cast::without_padding(text))),
        modifier: Some(&BPCHAR_MODIFIER),
        is_self_contained: true,
        is_settings_free: true,
        ..TEXTUAL
    },
    TypeDescriptor {
        oid: NAME,
        input: |text, _, _| Ok(Datum::text(cast::truncate_name(text))),
        receive: |bytes, _, _| Ok(Datum::text(cast::truncate_name(utf8(bytes)?))),
        is_self_contained: true,
        is_settings_free: true,
        ..TEXTUAL
    },
    TypeDescriptor { oid: CSTRING, is_ordered: false, is_settings_free: true, ..TEXTUAL },
    TypeDescriptor { oid: UNKNOWN, is_ordered: false, is_hashed: false, ..TEXTUAL },
    TypeDescriptor { oid: XML, is_ordered: false, is_hashed: false, ..TEXTUAL },
    TypeDescriptor {
        oid: PG_NODE_TREE,
        receive: |_, _, _| Err(Error::unsupported("binary input of type pg_node_tree is not supported")),
        is_ordered: false,
        held_as: HeldAs::Itself,
        ..TEXTUAL
    },
    // Values of statistics objects: made by ANALYZE alone, and shown.
    TypeDescriptor {
        oid: PG_NDISTINCT,
        input: |_, _, _| Err(refused("pg_ndistinct")),
        receive: |_, _, _| Err(refused("pg_ndistinct")),
        is_ordered: false,
        is_hashed: false,
        held_as: HeldAs::Itself,
        ..TEXTUAL
    },
    TypeDescriptor {
        oid: PG_DEPENDENCIES,
        input: |_, _, _| Err(refused("pg_dependencies")),
        receive: |_, _, _| Err(refused("pg_dependencies")),
        is_ordered: false,
        is_hashed: false,
        held_as: HeldAs::Itself,
        ..TEXTUAL
    },
    TypeDescriptor {
        oid: PG_MCV_LIST,
        input: |_, _, _| Err(refused("pg_mcv_list")),
        receive: |_, _, _| Err(refused("pg_mcv_list")),
        storage: P::Bytea,
        is_ordered: false,
        is_hashed: false,
        ..PLAIN
    },
    TypeDescriptor { oid: REFCURSOR, held_as: HeldAs::Itself, ..TEXTUAL },
    TypeDescriptor {
        oid: CHAR,
        input: |text, _, _| Ok(Datum::Char(io::parse_char(text))),
        receive: |bytes, _, _| Ok(Datum::Char(fixed::<1>(bytes)?[0])),
        storage: P::Char,
        ..FREE
    },
    TypeDescriptor {
        oid: BYTEA,
        input: |text, _, _| shared::bytes(&io::bytea::parse(text)?).map(Datum::Bytea),
        receive: |bytes, _, _| shared::bytes(bytes).map(Datum::Bytea),
        storage: P::Bytea,
        ..PLAIN
    },
    TypeDescriptor {
        oid: BIT,
        input: |text, modifier, _| cast::parse_bit(BIT, text, modifier),
        receive: |bytes, modifier, _| receive_bits(BIT, bytes, modifier),
        modifier: Some(&BIT_MODIFIER),
        ..BITS
    },
    TypeDescriptor {
        oid: VARBIT,
        input: |text, modifier, _| cast::parse_bit(VARBIT, text, modifier),
        receive: |bytes, modifier, _| receive_bits(VARBIT, bytes, modifier),
        modifier: Some(&VARBIT_MODIFIER),
        ..BITS
    },
    TypeDescriptor {
        oid: UUID,
        input: |text, _, _| io::parse_uuid(text).map(Datum::Uuid),
        receive: |bytes, _, _| fixed(bytes).map(Datum::Uuid),
        storage: P::Uuid,
        ..PLAIN
    },
    TypeDescriptor {
        oid: JSON,
        input: json_in,
        receive: |bytes, modifier, ctx| json_in(utf8(bytes)?, modifier, ctx),
        is_ordered: false,
        is_hashed: false,
        is_settings_free: true,
        ..TEXTUAL
    },
    TypeDescriptor {
        oid: JSONB,
        input: jsonb_in,
        receive: |bytes, modifier, ctx| jsonb_in(versioned(bytes, "jsonb")?, modifier, ctx),
        storage: P::Jsonb,
        ..FREE
    },
    TypeDescriptor {
        oid: JSONPATH,
        input: jsonpath_in,
        receive: |bytes, modifier, ctx| jsonpath_in(versioned(bytes, "jsonpath")?, modifier, ctx),
        send: Some(|value, _, out, _| {
            if let Datum::Text(v) = value {
                out.push(1);
                out.extend_from_slice(v.as_bytes());
            }
            Ok(())
        }),
        is_ordered: false,
        ..BASE
    },
    TypeDescriptor {
        oid: VOID,
        input: |_, _, _| Ok(Datum::text("")),
        receive: |_, _, _| Ok(Datum::text("")),
        is_ordered: false,
        ..BASE
    },
];
