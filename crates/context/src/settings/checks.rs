//! Checks of settings beyond their types and ranges; each gives the canonical form.

use super::registry::{Definition, invalid};
use super::session::check_date_style;
use kilndb_base::stack::DEPTH_MAX_BYTES;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_types::datetime::zone;

pub(super) fn date_style(d: &Definition, value: &str) -> Result<String> {
    check_date_style(value).ok_or_else(|| invalid(d, value))
}

/// Names of encodings that PostgreSQL has besides UTF8, SQL_ASCII and those of Windows, as it compares them.
const OTHER_ENCODINGS: [&str; 47] = [
    "abc",
    "alt",
    "big5",
    "euccn",
    "eucjis2004",
    "eucjp",
    "euckr",
    "euctw",
    "gb18030",
    "gbk",
    "iso88591",
    "iso885910",
    "iso885913",
    "iso885914",
    "iso885915",
    "iso885916",
    "iso88592",
    "iso88593",
    "iso88594",
    "iso88595",
    "iso88596",
    "iso88597",
    "iso88598",
    "iso88599",
    "johab",
    "koi8",
    "koi8r",
    "koi8u",
    "latin1",
    "latin10",
    "latin2",
    "latin3",
    "latin4",
    "latin5",
    "latin6",
    "latin7",
    "latin8",
    "latin9",
    "mskanji",
    "muleinternal",
    "shiftjis",
    "shiftjis2004",
    "sjis",
    "tcvn",
    "tcvn5712",
    "uhc",
    "vscii",
];

/// PostgreSQL compares the letters and digits of names of encodings alone (`clean_encoding_name`).
pub(super) fn client_encoding(d: &Definition, value: &str) -> Result<String> {
    let name: String = value.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    match name.as_str() {
        "utf8" | "unicode" => Ok("UTF8".to_string()),
        "sqlascii" => Ok("SQL_ASCII".to_string()),
        other if !OTHER_ENCODINGS.contains(&other) && !other.starts_with("win") => Err(invalid(d, value)),
        _ => Err(Error::unsupported(format!("client_encoding \"{value}\" is not supported: only UTF8 is"))),
    }
}

pub(super) fn time_zone(d: &Definition, value: &str) -> Result<String> {
    // A number is hours east of UTC.
    let hours = value.trim().parse::<f64>().ok().filter(|hours| hours.abs() < 1000.0);
    let name = hours.map_or_else(|| value.to_string(), |hours| zone::fixed_name((hours * 3600.0) as i32));
    match zone::Zone::find(&name) {
        Some(found) => Ok(found.name().map_or(name, str::to_string)),
        None => Err(invalid(d, value)),
    }
}

pub(super) fn application_name(_: &Definition, value: &str) -> Result<String> {
    Ok(value.chars().map(|c| if (' '..='~').contains(&c) { c } else { '?' }).take(63).collect())
}

/// `value` is in the setting's unit.
pub(super) fn stack_depth(d: &Definition, value: &str) -> Result<String> {
    let stack_kb = (DEPTH_MAX_BYTES >> 10) as f64;
    if value.parse::<f64>().is_ok_and(|kb| kb <= stack_kb) {
        return Ok(value.to_string());
    }
    Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, format!("invalid value for parameter \"{}\": {value}", d.name))
        .with_detail(format!("\"max_stack_depth\" must not exceed {stack_kb}kB.")))
}

/// Checks that PL/pgSQL makes beyond what is an error anyway.
pub(super) fn extra_checks(d: &Definition, value: &str) -> Result<String> {
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
