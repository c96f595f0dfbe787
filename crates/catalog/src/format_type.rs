//! Type names as PostgreSQL's format_type() prints them.

use super::builtin::PG_CATALOG;
use super::model::CatalogView;
use super::temporary::is_temporary;
use kilndb_base::Oid;
pub use kilndb_types::functions::string::quote_identifier;
use kilndb_types::oids::*;

/// `typmod` None: none was given (char prints as "character", bpchar without length as "bpchar" only when one was).
pub fn format_type(catalog: &dyn CatalogView, oid: Oid, typmod: Option<i32>) -> String {
    if oid == 0 {
        return "-".to_string();
    }
    let Ok(Some(info)) = catalog.type_by_oid(oid) else { return "???".to_string() };
    if info.element != 0 && oid != INT2VECTOR && oid != OIDVECTOR {
        return format!("{}[]", format_type(catalog, info.element, typmod));
    }
    let modifier = typmod.unwrap_or(-1);
    if let Some(name) = standard_name(oid, typmod.is_some(), modifier) {
        return name;
    }
    let visible = info.schema_oid == PG_CATALOG
        || matches!(catalog.type_by_name(None, &info.name), Ok(Some(found)) if found.oid == oid);
    let name = quote_identifier(&info.name);
    let name = match (visible, schema_name(catalog, info.schema_oid)) {
        (false, Some(schema)) => format!("{}.{name}", quote_identifier(&schema)),
        _ => name,
    };
    if modifier >= 0 && !matches!(info.kind, b'd' | b'c') { format!("{name}({modifier})") } else { name }
}

pub fn schema_name(catalog: &dyn CatalogView, oid: Oid) -> Option<String> {
    if is_temporary(oid) { Some("pg_temp".to_string()) } else { catalog.schema_name_of(oid) }
}

fn standard_name(oid: Oid, modifier_given: bool, modifier: i32) -> Option<String> {
    let length = |name: &str| if modifier >= 4 { format!("{name}({})", modifier - 4) } else { name.to_string() };
    let precision = |name: &str, zone: &str| {
        if modifier >= 0 { format!("{name}({modifier}){zone}") } else { format!("{name}{zone}") }
    };
    Some(match oid {
        BOOL => "boolean".into(),
        JSON => "json".into(),
        INT2 => "smallint".into(),
        INT4 => "integer".into(),
        INT8 => "bigint".into(),
        FLOAT4 => "real".into(),
        FLOAT8 => "double precision".into(),
        NUMERIC if modifier >= 4 => {
            let m = modifier - 4;
            let scale = ((m & 0x7ff) ^ 1024) - 1024;
            format!("numeric({},{scale})", (m >> 16) & 0xffff)
        }
        NUMERIC => "numeric".into(),
        VARCHAR => length("character varying"),
        BPCHAR if modifier_given && modifier < 4 => "bpchar".into(),
        BPCHAR => length("character"),
        CHAR => "\"char\"".into(),
        BIT if modifier_given && modifier < 0 => "\"bit\"".into(),
        BIT => {
            if modifier >= 0 {
                format!("bit({modifier})")
            } else {
                "bit".into()
            }
        }
        VARBIT => {
            if modifier >= 0 {
                format!("bit varying({modifier})")
            } else {
                "bit varying".into()
            }
        }
        TIME => precision("time", " without time zone"),
        TIMETZ => precision("time", " with time zone"),
        TIMESTAMP => precision("timestamp", " without time zone"),
        TIMESTAMPTZ => precision("timestamp", " with time zone"),
        INTERVAL => interval_name(modifier),
        _ => return None,
    })
}

/// The field range is in the upper half of an interval's modifier, the precision in the lower.
fn interval_name(modifier: i32) -> String {
    if modifier < 0 {
        return "interval".into();
    }
    let (range, precision) = ((modifier >> 16) & 0x7fff, modifier & 0xffff);
    let bit = |n: i32| 1 << n;
    let (month, year, day, hour, minute, second) = (bit(1), bit(2), bit(3), bit(10), bit(11), bit(12));
    let fields = match range {
        r if r == year => " year",
        r if r == month => " month",
        r if r == day => " day",
        r if r == hour => " hour",
        r if r == minute => " minute",
        r if r == second => " second",
        r if r == year | month => " year to month",
        r if r == day | hour => " day to hour",
        r if r == day | hour | minute => " day to minute",
        r if r == day | hour | minute | second => " day to second",
        r if r == hour | minute => " hour to minute",
        r if r == hour | minute | second => " hour to second",
        r if r == minute | second => " minute to second",
        _ => "",
    };
    if precision == 0xffff { format!("interval{fields}") } else { format!("interval{fields}({precision})") }
}
