//! Settings with PostgreSQL's names, units, ranges and contexts.
//!
//! Invariants
//! 1. A value that is kept has passed its setting's check and stands in canonical form (numbers in the setting's base
//!    unit).
//! 2. A session's changes follow its transaction: SET is undone by a rollback, SET LOCAL by the end too.

mod checks;
mod log_switches;
mod logged_statements;
mod pending;
mod plan_cache_mode;
mod registry;
mod session;
mod table;

pub use log_switches::{LogLevel, LogSwitches, Verbosity};
pub use logged_statements::LoggedStatements;
pub use pending::{PendingSetting, PendingSettings};
pub use plan_cache_mode::PlanCacheMode;
pub use registry::{
    Context, Definition, Kind, check_value, confidential, definition, definitions, is_confidential, reported,
    show_value,
};
pub use session::{CLIENT, SessionSettings, SettingScope, check_privilege, check_setting, parse_search_path};
pub use table::{LiveValue, SetBy, SettingDescriptor, TRIGRAM_SIMILARITY};

use kilndb_base::{Error, Result, sqlstate};
use std::collections::BTreeMap;
use std::path::Path;

/// The server's own values: built-in defaults, then the file, then ALTER SYSTEM's file, then the command line.
#[derive(Clone, Debug, Default)]
pub struct ServerSettings {
    values: BTreeMap<String, String>,
    sources: BTreeMap<String, &'static str>,
}

impl ServerSettings {
    /// Reads `kilndb.conf` and `kilndb.auto.conf` in `dir`; `command_line` wins.
    pub fn read(dir: &Path, command_line: &[(String, String)]) -> Result<ServerSettings> {
        let mut settings = ServerSettings::default();
        for file in ["kilndb.conf", "kilndb.auto.conf"] {
            let path = dir.join(file);
            if let Ok(text) = std::fs::read_to_string(&path) {
                for (number, line) in text.lines().enumerate() {
                    let Some((name, value)) = parse_line(line).map_err(|why| {
                        Error::new(
                            sqlstate::CONFIG_FILE_ERROR,
                            format!("{why} in file \"{}\" line {}", path.display(), number + 1),
                        )
                    })?
                    else {
                        continue;
                    };
                    settings.set(&name, &value, "configuration file")?;
                }
            }
        }
        for (name, value) in command_line {
            settings.set(name, value, "command line")?;
        }
        settings.find_rule_files(dir);
        Ok(settings)
    }

    /// The rules of authentication are in the data folder unless a setting says otherwise.
    fn find_rule_files(&mut self, dir: &Path) {
        let folder = std::path::absolute(dir).unwrap_or_else(|_| dir.to_path_buf());
        for (name, file) in [("hba_file", "pg_hba.conf"), ("ident_file", "pg_ident.conf")] {
            let given = Some(self.get(name)).filter(|path| !path.is_empty());
            let path = folder.join(given.unwrap_or(file));
            self.values.insert(name.to_string(), path.display().to_string());
            self.sources.entry(name.to_string()).or_insert("override");
        }
    }

    pub fn set(&mut self, name: &str, value: &str, source: &'static str) -> Result<()> {
        let definition = definition(name).ok_or_else(|| unrecognized(name))?;
        let value = check_value(definition, value)?;
        self.values.insert(definition.name.to_string(), value);
        self.sources.insert(definition.name.to_string(), source);
        Ok(())
    }

    /// Canonical value; empty for an unknown name.
    pub fn get(&self, name: &str) -> &str {
        match self.values.get(name) {
            Some(value) => value,
            None => definition(name).map_or("", |d| d.boot_value.as_str()),
        }
    }
    pub fn source(&self, name: &str) -> &'static str {
        self.sources.get(name).copied().unwrap_or("default")
    }
    pub fn number(&self, name: &str) -> i64 {
        self.get(name).parse::<f64>().unwrap_or(0.0) as i64
    }
    pub fn real(&self, name: &str) -> f64 {
        self.get(name).parse().unwrap_or(0.0)
    }
    pub fn flag(&self, name: &str) -> bool {
        self.get(name) == "on"
    }
    /// These settings with the files' values of `fresh` where they may change while the server runs.
    pub(crate) fn reloaded(&self, fresh: &ServerSettings) -> ServerSettings {
        let mut merged = self.clone();
        for d in definitions() {
            let fixed = d.context <= Context::Postmaster || self.source(d.name) == "command line";
            if !fixed {
                match fresh.values.get(d.name) {
                    Some(value) => merged.values.insert(d.name.to_string(), value.clone()),
                    None => merged.values.remove(d.name),
                };
            }
        }
        merged
    }
    pub fn port(&self) -> u16 {
        self.number("port") as u16
    }
    pub fn listen_addresses(&self) -> Vec<String> {
        let list = self.get("listen_addresses");
        list.split(',').map(|a| a.trim().to_string()).filter(|a| !a.is_empty()).collect()
    }
    pub fn socket_directories(&self) -> Vec<String> {
        let list = self.get("unix_socket_directories");
        list.split(',').map(|a| a.trim().to_string()).filter(|a| !a.is_empty()).collect()
    }
}

pub fn unrecognized(name: &str) -> Error {
    Error::new(sqlstate::UNDEFINED_OBJECT, format!("unrecognized configuration parameter \"{name}\""))
}

/// `name = 'value' # comment`, as in postgresql.conf.
fn parse_line(line: &str) -> std::result::Result<Option<(String, String)>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let name_end = line.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.')).unwrap_or(line.len());
    let (name, rest) = line.split_at(name_end);
    let rest = rest.trim_start().strip_prefix('=').unwrap_or(rest.trim_start()).trim_start();
    if name.is_empty() {
        return Err("syntax error".to_string());
    }
    let value = if let Some(quoted) = rest.strip_prefix('\'') {
        let mut value = String::new();
        let mut chars = quoted.chars().peekable();
        loop {
            match chars.next() {
                Some('\'') if chars.peek() == Some(&'\'') => {
                    chars.next();
                    value.push('\'');
                }
                Some('\'') => break,
                Some(c) => value.push(c),
                None => return Err("unterminated quoted value".to_string()),
            }
        }
        value
    } else {
        rest.split(['#', ' ', '\t']).next().unwrap_or("").to_string()
    };
    Ok(Some((name.to_string(), value)))
}

/// Rewrites `kilndb.auto.conf` with one setting changed or, without a value, removed (ALTER SYSTEM).
pub fn write_auto_conf(dir: &Path, name: Option<&str>, value: Option<&str>, fsync: bool) -> Result<()> {
    let path = dir.join("kilndb.auto.conf");
    let mut values = BTreeMap::new();
    if let Some(name) = name {
        for line in std::fs::read_to_string(&path).unwrap_or_default().lines() {
            if let Ok(Some((known, old))) = parse_line(line) {
                values.insert(known, old);
            }
        }
        match value {
            Some(value) => values.insert(name.to_string(), value.to_string()),
            None => values.remove(name),
        };
    }
    let mut text = String::from("# Written by ALTER SYSTEM; edit kilndb.conf instead.\n");
    for (name, value) in values {
        text.push_str(&format!("{name} = '{}'\n", value.replace('\'', "''")));
    }
    let temporary = dir.join("kilndb.auto.conf.tmp");
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(text.as_bytes())?;
    if fsync {
        file.sync_all()?;
    }
    std::fs::rename(&temporary, &path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_file() {
        let parsed = |line| parse_line(line).unwrap();
        assert_eq!(parsed("shared_buffers = 64MB # small"), Some(("shared_buffers".into(), "64MB".into())));
        assert_eq!(parsed("search_path '\"a\", b''c'"), Some(("search_path".into(), "\"a\", b'c".into())));
        assert_eq!(parsed("  # nothing"), None);
        assert!(parse_line("x = 'open").is_err());
    }
}
