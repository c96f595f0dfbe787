//! The settings that exist: PostgreSQL 18's names, units and ranges, with this server's defaults where they differ.

use super::table::{PLAIN, SETTINGS, SettingDescriptor};
use kilndb_base::hash::{HashMap, HashMapExt};
use kilndb_base::sync::LazyLock;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_catalog::builtin::FILES;

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
    /// What this server adds.
    pub descriptor: &'static SettingDescriptor,
}

/// Settings whose values tell of the server's files: only members of pg_read_all_settings may look at them.
const CONFIDENTIAL: [&str; 24] = [
    "config_file",
    "data_directory",
    "dynamic_library_path",
    "extension_control_path",
    "external_pid_file",
    "hba_file",
    "ident_file",
    "jit_provider",
    "krb_server_keyfile",
    "log_directory",
    "log_filename",
    "oauth_validator_libraries",
    "output_plugin_libraries",
    "primary_conninfo",
    "session_preload_libraries",
    "shared_preload_libraries",
    "ssl_ciphers",
    "ssl_dh_params_file",
    "ssl_groups",
    "ssl_max_protocol_version",
    "ssl_min_protocol_version",
    "ssl_passphrase_command",
    "ssl_tls13_ciphers",
    "unix_socket_directories",
];

/// Whether only some roles may look at a setting.
pub fn is_confidential(name: &str) -> bool {
    CONFIDENTIAL.binary_search(&name).is_ok()
}

/// 42501 of who may not look at a setting.
pub fn confidential(name: &str) -> Error {
    let message = format!("permission denied to examine \"{name}\"");
    Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, message)
        .with_detail("Only roles with privileges of the \"pg_read_all_settings\" role may examine this parameter.")
}

static DEFINITIONS: LazyLock<HashMap<String, Definition>> = LazyLock::new(load);

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
        let descriptor = SETTINGS.iter().find(|s| s.name == name).unwrap_or(&PLAIN);
        let boot_value = descriptor.default.or(r[boot]).unwrap_or("").to_string();
        let enum_values = r[enums]
            .unwrap_or("")
            .trim_matches(['{', '}'])
            .split(',')
            .filter(|v| !v.is_empty())
            .map(|v| v.trim_matches('"'));
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
            descriptor,
        };
        all.insert(name.to_ascii_lowercase(), definition);
    }
    all.extend(SETTINGS.iter().filter_map(own_definition));
    all
}

/// Of a setting that PostgreSQL does not show.
fn own_definition(descriptor: &'static SettingDescriptor) -> Option<(String, Definition)> {
    let own = descriptor.own.as_ref()?;
    let definition = Definition {
        name: descriptor.name,
        unit: own.unit,
        category: own.category,
        context: own.context,
        kind: own.kind,
        min: own.min,
        max: own.max,
        enum_values: own.enum_values.to_vec(),
        boot_value: descriptor.default.unwrap_or("").to_string(),
        descriptor,
    };
    Some((descriptor.name.to_ascii_lowercase(), definition))
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

pub(super) fn invalid(d: &Definition, value: &str) -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, format!("invalid value for parameter \"{}\": \"{value}\"", d.name))
}

/// Checks a value and gives its canonical form.
pub fn check_value(d: &Definition, value: &str) -> Result<String> {
    let canonical = match d.kind {
        Kind::Bool => parse_bool(value).map(|b| if b { "on" } else { "off" }.to_string()).ok_or_else(|| {
            Error::new(sqlstate::INVALID_PARAMETER_VALUE, format!("parameter \"{}\" requires a Boolean value", d.name))
        })?,
        Kind::Integer | Kind::Real => check_number(d, value)?,
        Kind::Enum => check_enum(d, value)?,
        Kind::String => value.to_string(),
    };
    match d.descriptor.check {
        Some(check) => check(d, &canonical),
        None => Ok(canonical),
    }
}

fn check_enum(d: &Definition, value: &str) -> Result<String> {
    if let Some(found) = d.enum_values.iter().find(|v| v.eq_ignore_ascii_case(value)) {
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
    let is_octal = d.kind == Kind::Integer && digits.len() > 1 && digits.bytes().all(|c| (b'0'..=b'7').contains(&c));
    let mut number: f64 = match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).map_err(|_| invalid(d, value))? as f64,
        None if is_octal && digits.starts_with('0') => {
            i64::from_str_radix(digits, 8).map_err(|_| invalid(d, value))? as f64
        }
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
    Ok(format!("{number}"))
}

/// Modes of files.
const OCTAL: [&str; 3] = ["unix_socket_permissions", "log_file_mode", "data_directory_mode"];

/// As SHOW prints a canonical value: with the largest unit that divides it.
pub fn show_value(d: &Definition, value: &str) -> String {
    if OCTAL.contains(&d.name) {
        return value.parse::<u32>().map_or(value.to_string(), |mode| format!("{mode:04o}"));
    }
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

/// What clients are told of at the start, in that order.
pub fn reported() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().filter(|s| s.is_reported).map(|s| s.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_descriptor_is_of_a_setting() {
        for s in SETTINGS {
            let Some(d) = definition(s.name) else { panic!("{} is not in pg_settings, and has no facts", s.name) };
            assert!(std::ptr::eq(d.descriptor, s), "{} has two descriptors", s.name);
            assert_eq!(d.name, s.name);
            // Nobody sets what is internal, and its limits are those of PostgreSQL's own value.
            let is_fixed = d.context == Context::Internal || d.boot_value.is_empty();
            assert!(is_fixed || check_value(d, &d.boot_value).is_ok(), "{}'s default", s.name);
        }
    }

    #[test]
    fn units_are_converted_both_ways() {
        let d = definition("shared_buffers").unwrap();
        assert_eq!(check_value(d, "64MB").unwrap(), "8192");
        assert_eq!(show_value(d, "8192"), "64MB");
        let d = definition("statement_timeout").unwrap();
        assert_eq!(check_value(d, "2s").unwrap(), "2000");
        assert_eq!(show_value(d, "90000"), "90s");
        assert!(check_value(d, "2 parsecs").is_err());
        let d = definition("unix_socket_permissions").unwrap();
        assert_eq!(check_value(d, "0770").unwrap(), "504");
        assert_eq!(show_value(d, "504"), "0770");
        assert!(check_value(d, "770").is_err());
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
