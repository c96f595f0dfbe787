//! Reads a value in text or binary form: what is accepted is printed, and what is printed is read as the same value.
//!
//! The first bytes choose the type, the settings, and the type modifier; the rest is the value.

use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_types::citext::CITEXT;
use kilndb_types::context::{DateOrder, DateStyle, IntervalStyle};
use kilndb_types::context::{ObjectNames, SessionEnvironment, TextSearchCatalog, TypeCatalog};
use kilndb_types::hstore::HSTORE;
use kilndb_types::oids::*;
use kilndb_types::{Datum, EvalContext, FormatSettings, io};
use std::cell::Cell;

/// A composite type of the catalog below, its array type, and arrays that have no name in `oids`.
const PAIR: Oid = 100_000;
const PAIR_ARRAY: Oid = 100_001;

/// Arrays of what extensions bring.
const HSTORE_ARRAY: Oid = 15694;
const CITEXT_ARRAY: Oid = 15895;

/// Type and element type, 0 if it is no array.
pub const TYPES: &[(Oid, Oid)] = &[
    (BOOL, 0),
    (BYTEA, 0),
    (CHAR, 0),
    (NAME, 0),
    (INT8, 0),
    (INT2, 0),
    (INT2VECTOR, INT2),
    (INT4, 0),
    (REGPROC, 0),
    (TEXT, 0),
    (OID, 0),
    (TID, 0),
    (XID, 0),
    (CID, 0),
    (OIDVECTOR, OID),
    (JSON, 0),
    (XML, 0),
    (PG_NODE_TREE, 0),
    (FLOAT4, 0),
    (FLOAT8, 0),
    (UNKNOWN, 0),
    (BPCHAR, 0),
    (VARCHAR, 0),
    (DATE, 0),
    (TIME, 0),
    (TIMESTAMP, 0),
    (TIMESTAMPTZ, 0),
    (INTERVAL, 0),
    (TIMETZ, 0),
    (BIT, 0),
    (VARBIT, 0),
    (NUMERIC, 0),
    (REFCURSOR, 0),
    (REGCLASS, 0),
    (REGTYPE, 0),
    (UUID, 0),
    (PG_LSN, 0),
    (XID8, 0),
    (CSTRING, 0),
    (VOID, 0),
    (JSONB, 0),
    (MONEY, 0),
    (PAIR, 0),
    (PAIR_ARRAY, PAIR),
    (BOOL_ARRAY, BOOL),
    (BYTEA_ARRAY, BYTEA),
    (CHAR_ARRAY, CHAR),
    (NAME_ARRAY, NAME),
    (INT2_ARRAY, INT2),
    (INT4_ARRAY, INT4),
    (TEXT_ARRAY, TEXT),
    (OID_ARRAY, OID),
    (BPCHAR_ARRAY, BPCHAR),
    (VARCHAR_ARRAY, VARCHAR),
    (INT8_ARRAY, INT8),
    (FLOAT4_ARRAY, FLOAT4),
    (FLOAT8_ARRAY, FLOAT8),
    (TIMESTAMP_ARRAY, TIMESTAMP),
    (DATE_ARRAY, DATE),
    (TIMESTAMPTZ_ARRAY, TIMESTAMPTZ),
    (NUMERIC_ARRAY, NUMERIC),
    (UUID_ARRAY, UUID),
    (INET, 0),
    (CIDR, 0),
    (MACADDR, 0),
    (MACADDR8, 0),
    (PG_SNAPSHOT, 0),
    (INT4RANGE, 0),
    (INT8RANGE, 0),
    (NUMRANGE, 0),
    (DATERANGE, 0),
    (TSRANGE, 0),
    (TSTZRANGE, 0),
    (4451, 0),
    (4532, 0),
    (4533, 0),
    (4534, 0),
    (4535, 0),
    (4536, 0),
    (HSTORE, 0),
    (CITEXT, 0),
    (HSTORE_ARRAY, HSTORE),
    (CITEXT_ARRAY, CITEXT),
];

/// Zones of whole hours, half hours, summer time, and one that once was seconds off.
const ZONES: &[&str] = &["UTC", "America/New_York", "Asia/Kolkata", "Africa/Monrovia"];

struct Catalog;
impl ObjectNames for Catalog {
    fn format_type(&self, oid: Oid, _: i32) -> String {
        format!("type {oid}")
    }
    fn reg_input(&self, _: Oid, text: &str) -> Result<Oid> {
        text.parse().map_err(|_| Error::new(sqlstate::UNDEFINED_OBJECT, "no such object"))
    }
    fn reg_output(&self, _: Oid, oid: Oid) -> String {
        oid.to_string()
    }
}

impl TypeCatalog for Catalog {
    fn element_type(&self, oid: Oid) -> Oid {
        TYPES.iter().find(|t| t.0 == oid).map_or(0, |t| t.1)
    }
    fn array_type(&self, oid: Oid) -> Oid {
        TYPES.iter().find(|t| t.1 == oid).map_or(0, |t| t.0)
    }
    fn composite_fields(&self, oid: Oid) -> Option<Vec<(String, Oid, i32)>> {
        let field = |name: &str, oid| (name.to_string(), oid, -1);
        (oid == PAIR).then(|| vec![field("a", INT4), field("b", TEXT), field("c", NUMERIC_ARRAY)])
    }
}

impl TextSearchCatalog for Catalog {}

impl SessionEnvironment for Catalog {
    fn clock_unix_micros(&self) -> i64 {
        0
    }
    fn random_bytes(&self, buf: &mut [u8]) {
        buf.fill(0);
    }
    fn notice(&self, _: Error) {}
}

fn settings(choice: u8) -> FormatSettings {
    let pick = |n: u8, of: u8| usize::from(choice / n % of);
    // The other combinations print dates that are read differently, as in PostgreSQL.
    let (date_style, date_order) = match pick(1, 4) {
        0 => (DateStyle::Iso, [DateOrder::Mdy, DateOrder::Dmy, DateOrder::Ymd][pick(4, 3)]),
        1 => (DateStyle::Sql, [DateOrder::Mdy, DateOrder::Dmy][pick(4, 2)]),
        2 => (DateStyle::Postgres, [DateOrder::Mdy, DateOrder::Dmy][pick(4, 2)]),
        _ => (DateStyle::German, DateOrder::Dmy),
    };
    FormatSettings {
        date_style,
        date_order,
        interval_style: [
            IntervalStyle::Postgres,
            IntervalStyle::PostgresVerbose,
            IntervalStyle::SqlStandard,
            IntervalStyle::Iso8601,
        ][pick(12, 4)],
        // Only ISO dates name the zone by its offset; abbreviations do not all come back.
        time_zone: ZONES[if date_style == DateStyle::Iso { pick(48, 4) } else { 0 }].into(),
        bytea_output_hex: pick(2, 2) == 0,
        ..FormatSettings::default()
    }
}

/// A type modifier that the type could be declared with, mostly none.
fn type_modifier(type_oid: Oid, choice: u8) -> i32 {
    let small = i32::from(choice) - 192;
    match type_oid {
        _ if small < 0 => -1,
        BPCHAR | VARCHAR => 4 + 1 + small,
        NUMERIC => 4 + ((1 + small) << 16) + small / 2,
        TIME | TIMETZ | TIMESTAMP | TIMESTAMPTZ => small % 7,
        INTERVAL => (0x7fff << 16) | (small % 7),
        BIT | VARBIT => 1 + small,
        _ => -1,
    }
}

pub fn run(data: &[u8]) {
    let Some((&[which, format, modifier], value)) = data.split_first_chunk::<3>() else { return };
    let type_oid = TYPES[usize::from(which) % TYPES.len()].0;
    let typmod = type_modifier(type_oid, modifier);
    let format = settings(format);
    let random_state = Cell::new([1, 2]);
    let ctx = EvalContext {
        format: &format,
        transaction_timestamp: 0,
        statement_timestamp: 0,
        host: &Catalog,
        random_state: &random_state,
        clock_was_read: None,
    };
    if let Ok(datum) = io::receive(type_oid, value, typmod, &ctx) {
        check(type_oid, typmod, &datum, &ctx);
    }
    // The protocol lets no zero byte through in a text.
    if let Ok(text) = std::str::from_utf8(value)
        && !text.contains('\0')
        && let Ok(datum) = io::input(type_oid, text, typmod, &ctx)
    {
        check(type_oid, typmod, &datum, &ctx);
    }
}

fn printed(type_oid: Oid, typmod: i32, datum: &Datum, ctx: &EvalContext) -> Result<String> {
    let mut out = Vec::new();
    io::output_typmod(type_oid, typmod, datum, &mut out, ctx)?;
    Ok(String::from_utf8(out).expect("a text form is UTF-8"))
}

fn sent(type_oid: Oid, typmod: i32, datum: &Datum, ctx: &EvalContext) -> Vec<u8> {
    let mut out = Vec::new();
    io::send_typmod(type_oid, typmod, datum, &mut out, ctx).expect("what was read can be sent");
    out
}

fn check(type_oid: Oid, typmod: i32, datum: &Datum, ctx: &EvalContext) {
    let text = match printed(type_oid, typmod, datum, ctx) {
        Ok(text) => text,
        // The zone can take a timestamp near the ends of the range beyond them.
        Err(e) => {
            assert_eq!(e.sqlstate(), sqlstate::DATETIME_FIELD_OVERFLOW, "{type_oid} {datum:?}: {e:?}");
            return;
        }
    };
    let binary = sent(type_oid, typmod, datum, ctx);
    let again = io::input(type_oid, &text, typmod, ctx)
        .unwrap_or_else(|e| panic!("{type_oid} {datum:?} prints {text:?}: {e:?}"));
    assert_eq!(
        printed(type_oid, typmod, &again, ctx).ok().as_deref(),
        Some(text.as_str()),
        "{type_oid} {datum:?} {again:?}"
    );
    // There is more than one NaN in binary, one in text.
    let has_nan = text.contains("NaN");
    assert!(
        has_nan || sent(type_oid, typmod, &again, ctx) == binary,
        "{type_oid} {text:?}: {datum:?}, read again {again:?}"
    );
    match io::receive(type_oid, &binary, typmod, ctx) {
        Ok(again) => {
            assert_eq!(sent(type_oid, typmod, &again, ctx), binary, "{type_oid} {datum:?} {again:?}");
            assert_eq!(
                printed(type_oid, typmod, &again, ctx).ok().as_deref(),
                Some(text.as_str()),
                "{type_oid} {datum:?} {again:?}"
            );
        }
        Err(e) => {
            // PostgreSQL refuses the empty vectors that it sends.
            let is_empty_vector = matches!(type_oid, INT2VECTOR | OIDVECTOR) && text.is_empty();
            assert!(is_empty_vector || e.sqlstate() == sqlstate::FEATURE_NOT_SUPPORTED, "{type_oid} {datum:?}: {e:?}");
        }
    }
}
