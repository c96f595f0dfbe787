//! The settings that exist: PostgreSQL 18's names, units and ranges, with this server's defaults where they differ.

use kilndb_base::hash::{HashMap, HashMapExt};
use kilndb_base::stack::DEPTH_MAX_BYTES;
use kilndb_base::sync::LazyLock;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_catalog::builtin::FILES;
use kilndb_types::datetime::zone;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Bool,
    Integer,
    Real,
    String,
    Enum,
}

/// When a setting can change (pg_settings.context).
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Context {
    Internal,
    Postmaster,
    Sighup,
    SuperuserBackend,
    Backend,
    Superuser,
    User,
}

impl Context {
    pub fn as_str(self) -> &'static str {
        match self {
            Context::Internal => "internal",
            Context::Postmaster => "postmaster",
            Context::Sighup => "sighup",
            Context::SuperuserBackend => "superuser-backend",
            Context::Backend => "backend",
            Context::Superuser => "superuser",
            Context::User => "user",
        }
    }
}

#[derive(Debug)]
pub struct Definition {
    pub name: &'static str,
    pub unit: Option<&'static str>,
    pub category: &'static str,
    pub context: Context,
    pub kind: Kind,
    pub min: f64,
    pub max: f64,
    pub enum_values: Vec<&'static str>,
    pub boot_value: String,
}

static DEFINITIONS: LazyLock<HashMap<String, Definition>> = LazyLock::new(load);

/// What this server's defaults are where PostgreSQL's fit it badly, or where facts about the server are told.
const OVERRIDES: &[(&str, &str)] = &[
    ("server_version", crate::SERVER_VERSION),
    ("server_version_num", "180000"),
    ("shared_buffers", "16384"),
    ("data_checksums", "on"),
    // The queue is in memory.
    ("max_notify_queue_pages", "16384"),
    ("max_connections", "100"),
    ("unix_socket_directories", ""),
    ("listen_addresses", "127.0.0.1"),
    ("port", "5432"),
    ("TimeZone", "UTC"),
    ("log_timezone", "UTC"),
    ("lc_messages", "C"),
    ("lc_monetary", "C"),
    ("lc_numeric", "C"),
    ("lc_time", "C"),
    ("default_text_search_config", "pg_catalog.english"),
    ("DateStyle", "ISO, MDY"),
    ("client_encoding", "UTF8"),
    ("server_encoding", "UTF8"),
    // Frames are larger than PostgreSQL's, and so are the stacks.
    ("max_stack_depth", "40960"),
    ("application_name", ""),
    ("config_file", "kilndb.conf"),
    ("hba_file", ""),
    ("ident_file", ""),
    ("data_directory", ""),
    ("wal_buffers", "2048"),
    ("dynamic_library_path", ""),
    ("jit", "off"),
    ("in_hot_standby", "off"),
    ("integer_datetimes", "on"),
];

fn load() -> HashMap<String, Definition> {
    let file = &FILES.pg_settings;
    let c = |name| file.column(name);
    let (unit, category, context, kind, min, max, enums, boot) = (
        c("unit"),
        c("category"),
        c("context"),
        c("vartype"),
        c("min_val"),
        c("max_val"),
        c("enumvals"),
        c("boot_val"),
    );
    let mut all: HashMap<String, Definition> = HashMap::new();
    for r in &file.rows {
        let name = r[0].unwrap_or("");
        let kind = match r[kind] {
            Some("bool") => Kind::Bool,
            Some("integer") => Kind::Integer,
            Some("real") => Kind::Real,
            Some("enum") => Kind::Enum,
            _ => Kind::String,
        };
        let context = match r[context] {
            Some("internal") => Context::Internal,
            Some("postmaster") => Context::Postmaster,
            Some("sighup") => Context::Sighup,
            Some("superuser-backend") => Context::SuperuserBackend,
            Some("backend") => Context::Backend,
            Some("superuser") => Context::Superuser,
            _ => Context::User,
        };
        let boot_value =
            OVERRIDES.iter().find(|(n, _)| *n == name).map_or(r[boot].unwrap_or(""), |(_, v)| v).to_string();
        let enum_values = r[enums]
            .unwrap_or("")
            .trim_matches(['{', '}'])
            .split(',')
            .map(|v| v.trim_matches('"'))
            .filter(|v| !v.is_empty());
        let definition = Definition {
            name,
            unit: r[unit],
            category: r[category].unwrap_or(""),
            context,
            kind,
            min: r[min].and_then(|v| v.parse().ok()).unwrap_or(f64::MIN),
            max: r[max].and_then(|v| v.parse().ok()).unwrap_or(f64::MAX),
            enum_values: enum_values.collect(),
            boot_value,
        };
        all.insert(name.to_ascii_lowercase(), definition);
    }
    // Not in pg_settings, but settable.
    for name in ["session_authorization", "role", "is_superuser"] {
        all.entry(name.to_string()).or_insert(Definition {
            name,
            unit: None,
            category: "Ungrouped",
            context: if name == "is_superuser" { Context::Internal } else { Context::User },
            kind: Kind::String,
            min: 0.0,
            max: 0.0,
            enum_values: Vec::new(),
            boot_value: match name {
                "is_superuser" => "on".into(),
                "role" => "none".into(),
                _ => String::new(),
            },
        });
    }
    all.extend(plpgsql().chain(trigrams()).chain(memory_limits()).map(|d| (d.name.to_string(), d)));
    all
}

pub const TRIGRAM_SIMILARITY: &str = "pg_trgm.similarity_threshold";
pub const TRIGRAM_WORD: &str = "pg_trgm.word_similarity_threshold";
pub const TRIGRAM_STRICT_WORD: &str = "pg_trgm.strict_word_similarity_threshold";

/// Settings of pg_trgm, which are there without the extension.
fn trigrams() -> impl Iterator<Item = Definition> {
    [(TRIGRAM_SIMILARITY, "0.3"), (TRIGRAM_WORD, "0.6"), (TRIGRAM_STRICT_WORD, "0.5")].into_iter().map(
        |(name, boot)| Definition {
            name,
            unit: None,
            category: "Customized Options",
            context: Context::User,
            kind: Kind::Real,
            min: 0.0,
            max: 1.0,
            enum_values: Vec::new(),
            boot_value: boot.to_string(),
        },
    )
}

pub const STATEMENT_MEM_LIMIT: &str = "statement_mem_limit";
pub const SERVER_MEM_LIMIT: &str = "server_mem_limit";

/// How much memory statements may hold: KilnDB's own settings (docs/compatibility.md).
fn memory_limits() -> impl Iterator<Item = Definition> {
    [(STATEMENT_MEM_LIMIT, Context::User), (SERVER_MEM_LIMIT, Context::Postmaster)].into_iter().map(
        |(name, context)| Definition {
            name,
            unit: Some("kB"),
            category: "Resource Usage / Memory",
            context,
            kind: Kind::Integer,
            min: 0.0,
            max: f64::from(i32::MAX),
            enum_values: Vec::new(),
            boot_value: "0".to_string(),
        },
    )
}

/// Settings of PL/pgSQL.
fn plpgsql() -> impl Iterator<Item = Definition> {
    let settings = [
        ("plpgsql.check_asserts", Kind::Bool, Context::User, "on"),
        ("plpgsql.extra_errors", Kind::String, Context::User, "none"),
        ("plpgsql.extra_warnings", Kind::String, Context::User, "none"),
        ("plpgsql.print_strict_params", Kind::Bool, Context::User, "off"),
        ("plpgsql.variable_conflict", Kind::Enum, Context::Superuser, "error"),
    ];
    settings.into_iter().map(|(name, kind, context, boot)| Definition {
        name,
        unit: None,
        category: "Customized Options",
        context,
        kind,
        min: 0.0,
        max: 0.0,
        enum_values: if kind == Kind::Enum { vec!["error", "use_variable", "use_column"] } else { Vec::new() },
        boot_value: boot.to_string(),
    })
}

/// Checks that PL/pgSQL makes beyond what is an error anyway.
fn check_extra_checks(d: &Definition, value: &str) -> Result<String> {
    let words: Vec<&str> = value.split(',').map(str::trim).collect();
    let is_word = |word: &str, list: &[&str]| list.iter().any(|known| word.eq_ignore_ascii_case(known));
    if words.len() == 1 && is_word(words[0], &["all", "none"]) {
        return Ok(value.to_string());
    }
    if let Some(word) = words.iter().find(|w| is_word(w, &["all", "none"])) {
        return Err(
            invalid(d, value).with_detail(format!("Key word \"{word}\" cannot be combined with other key words."))
        );
    }
    match words.iter().find(|w| !is_word(w, &["shadowed_variables", "too_many_rows", "strict_multi_assignment"])) {
        Some(word) => Err(invalid(d, value).with_detail(format!("Unrecognized key word: \"{word}\"."))),
        None => Ok(value.to_string()),
    }
}

/// Names are matched without regard to case.
pub fn definition(name: &str) -> Option<&'static Definition> {
    DEFINITIONS.get(name).or_else(|| DEFINITIONS.get(&name.to_ascii_lowercase()))
}

/// All, sorted as pg_settings sorts them.
pub fn definitions() -> Vec<&'static Definition> {
    let mut all: Vec<_> = DEFINITIONS.values().collect();
    all.sort_by_key(|d| d.name.to_ascii_lowercase());
    all
}

fn invalid(d: &Definition, value: &str) -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, format!("invalid value for parameter \"{}\": \"{value}\"", d.name))
}

/// Checks a value and gives its canonical form.
pub fn check_value(d: &Definition, value: &str) -> Result<String> {
    match d.kind {
        Kind::Bool => parse_bool(value).map(|b| if b { "on" } else { "off" }.to_string()).ok_or_else(|| {
            Error::new(sqlstate::INVALID_PARAMETER_VALUE, format!("parameter \"{}\" requires a Boolean value", d.name))
        }),
        Kind::Integer | Kind::Real => check_number(d, value),
        Kind::Enum => check_enum(d, value),
        Kind::String => check_string(d, value),
    }
}

fn check_enum(d: &Definition, value: &str) -> Result<String> {
    let lower = value.to_ascii_lowercase();
    if let Some(found) = d.enum_values.iter().find(|v| **v == lower) {
        return Ok(found.to_string());
    }
    // Enums with on and off take every spelling of a boolean.
    if let Some(flag) = parse_bool(value) {
        let name = if flag { "on" } else { "off" };
        if d.enum_values.contains(&name) {
            return Ok(name.to_string());
        }
    }
    let list = d.enum_values.join(", ");
    Err(invalid(d, value).with_hint(format!("Available values: {list}.")))
}

pub(crate) fn parse_bool(value: &str) -> Option<bool> {
    let v = value.trim().to_ascii_lowercase();
    let is_prefix = |word: &str, least: usize| v.len() >= least && word.starts_with(&v);
    if is_prefix("true", 1) || is_prefix("yes", 1) || v == "on" || v == "1" {
        Some(true)
    } else if is_prefix("false", 1) || is_prefix("no", 1) || is_prefix("off", 2) || v == "0" {
        Some(false)
    } else {
        None
    }
}

const MEMORY_UNITS: &[(&str, f64)] =
    &[("TB", 1099511627776.0), ("GB", 1073741824.0), ("MB", 1048576.0), ("kB", 1024.0), ("B", 1.0)];
const TIME_UNITS: &[(&str, f64)] = &[
    ("d", 86_400_000_000.0),
    ("h", 3_600_000_000.0),
    ("min", 60_000_000.0),
    ("s", 1_000_000.0),
    ("ms", 1000.0),
    ("us", 1.0),
];

/// Size of a setting's base unit in bytes or microseconds, and the units a value may be given in.
fn base_unit(unit: &str) -> Option<(f64, &'static [(&'static str, f64)])> {
    if let Some((_, size)) = TIME_UNITS.iter().find(|(n, _)| *n == unit) {
        return Some((*size, TIME_UNITS));
    }
    let split = unit.find(|c: char| !c.is_ascii_digit())?;
    let count: f64 = if split == 0 { 1.0 } else { unit[..split].parse().ok()? };
    let (_, size) = MEMORY_UNITS.iter().find(|(n, _)| *n == &unit[split..])?;
    Some((count * size, MEMORY_UNITS))
}

fn check_number(d: &Definition, value: &str) -> Result<String> {
    let text = value.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || "+-.eExX".contains(c))).unwrap_or(text.len());
    // "1e" of "1em" is no number; the exponent letter belongs to the unit then.
    let (digits, suffix) = text.split_at(end);
    let mut number: f64 = match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).map_err(|_| invalid(d, value))? as f64,
        None => digits.parse().map_err(|_| invalid(d, value))?,
    };
    let suffix = suffix.trim();
    if !suffix.is_empty() {
        let Some((base, units)) = d.unit.and_then(base_unit) else { return Err(invalid(d, value)) };
        let Some((_, size)) = units.iter().find(|(n, _)| *n == suffix) else {
            let names = if units.len() == MEMORY_UNITS.len() && units[0].0 == "TB" {
                "\"B\", \"kB\", \"MB\", \"GB\", and \"TB\""
            } else {
                "\"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\""
            };
            return Err(invalid(d, value).with_hint(format!("Valid units for this parameter are {names}.")));
        };
        number = number * size / base;
    }
    if d.kind == Kind::Integer {
        number = number.round();
    }
    if number < d.min || number > d.max {
        let unit = d.unit.map(|u| format!(" {u}")).unwrap_or_default();
        return Err(Error::new(
            sqlstate::INVALID_PARAMETER_VALUE,
            format!(
                "{number}{unit} is outside the valid range for parameter \"{}\" ({}{unit} .. {}{unit})",
                d.name, d.min, d.max
            ),
        ));
    }
    let stack_kb = (DEPTH_MAX_BYTES >> 10) as f64;
    if d.name == "max_stack_depth" && number > stack_kb {
        return Err(Error::new(
            sqlstate::INVALID_PARAMETER_VALUE,
            format!("invalid value for parameter \"{}\": {number}", d.name),
        )
        .with_detail(format!("\"max_stack_depth\" must not exceed {stack_kb}kB.")));
    }
    Ok(format!("{number}"))
}

fn check_string(d: &Definition, value: &str) -> Result<String> {
    match d.name {
        "DateStyle" => super::session::check_date_style(value).ok_or_else(|| invalid(d, value)),
        "client_encoding" => match value.to_ascii_lowercase().replace(['-', '_'], "").as_str() {
            "utf8" | "unicode" => Ok("UTF8".to_string()),
            "sqlascii" => Ok("SQL_ASCII".to_string()),
            _ => Err(Error::unsupported(format!("client_encoding \"{value}\" is not supported: only UTF8 is"))),
        },
        "TimeZone" | "log_timezone" => {
            // A number is hours east of UTC.
            let hours = value.trim().parse::<f64>().ok().filter(|hours| hours.abs() < 1000.0);
            let name = hours.map_or_else(|| value.to_string(), |hours| zone::fixed_name((hours * 3600.0) as i32));
            match zone::Zone::find(&name) {
                Some(found) => Ok(found.name().map_or(name, str::to_string)),
                None => Err(invalid(d, value)),
            }
        }
        "plpgsql.extra_errors" | "plpgsql.extra_warnings" => check_extra_checks(d, value),
        "application_name" => {
            Ok(value.chars().map(|c| if (' '..='~').contains(&c) { c } else { '?' }).take(63).collect())
        }
        _ => Ok(value.to_string()),
    }
}

/// As SHOW prints a canonical value: with the largest unit that divides it.
pub fn show_value(d: &Definition, value: &str) -> String {
    let (Some(unit), Kind::Integer | Kind::Real) = (d.unit, d.kind) else { return value.to_string() };
    let (Some((base, units)), Ok(number)) = (base_unit(unit), value.parse::<f64>()) else { return value.to_string() };
    if number <= 0.0 {
        return value.to_string();
    }
    let total = number * base;
    for (name, size) in units {
        if *size >= base.min(*size) && (total / size).fract() == 0.0 && total / size >= 1.0 {
            return format!("{}{name}", total / size);
        }
    }
    format!("{value}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_converted_both_ways() {
        let d = definition("shared_buffers").unwrap();
        assert_eq!(check_value(d, "64MB").unwrap(), "8192");
        assert_eq!(show_value(d, "8192"), "64MB");
        let d = definition("statement_timeout").unwrap();
        assert_eq!(check_value(d, "2s").unwrap(), "2000");
        assert_eq!(show_value(d, "90000"), "90s");
        assert!(check_value(d, "2 parsecs").is_err());
    }

    #[test]
    fn booleans_have_many_spellings() {
        for yes in ["on", "TRUE", "t", "y", "1"] {
            assert_eq!(parse_bool(yes), Some(true), "{yes}");
        }
        assert_eq!(parse_bool("of"), Some(false));
        assert_eq!(parse_bool("o"), None);
    }
}
