//! A session's own values, and how they follow its transactions.

use super::registry::{Context, Definition, check_value, definition, definitions, show_value};
use super::table::{Effect, SETTINGS, STATEMENT_MEM_LIMIT, TRIGRAM_SIMILARITY, TRIGRAM_STRICT_WORD, TRIGRAM_WORD};
use super::{LogSwitches, PlanCacheMode, ServerSettings, unrecognized};
use kilndb_base::hash::{HashMap, HashMapExt, HashSet, HashSetExt};
use kilndb_base::{Error, Result, sqlstate};
use kilndb_catalog::PlannerSettings;
use kilndb_storage::CommitDelay;
use kilndb_types::FormatSettings;
use kilndb_types::context::{DateOrder, DateStyle, IntervalStyle};
use kilndb_types::trigram::Thresholds;
use std::sync::Arc;

/// The source of what a start-up packet asks for.
pub const CLIENT: &str = "client";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SettingScope {
    Session,
    /// Until the transaction ends.
    Local,
}

#[derive(Clone)]
struct Change {
    name: String,
    previous: Option<String>,
    scope: SettingScope,
}

/// Values by name, which know the order in which they came.
#[derive(Clone, Default)]
struct Values {
    by_name: HashMap<String, (u64, String)>,
    next: u64,
}

impl Values {
    fn get(&self, name: &str) -> Option<&str> {
        self.by_name.get(name).map(|(_, value)| value.as_str())
    }
    /// Sets a value or, without one, removes it; returns the one before.
    fn replace(&mut self, name: &str, value: Option<String>) -> Option<String> {
        let Some(value) = value else { return self.by_name.remove(name).map(|(_, value)| value) };
        if let Some((_, current)) = self.by_name.get_mut(name) {
            return Some(std::mem::replace(current, value));
        }
        self.by_name.insert(name.to_string(), (self.next, value));
        self.next += 1;
        None
    }
    /// Those that came first, first.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<(u64, &String)> = self.by_name.iter().map(|(name, (order, _))| (*order, name)).collect();
        names.sort_unstable();
        names.into_iter().map(|(_, name)| name.clone()).collect()
    }
}

/// The name under which clients are told of a setting.
fn reported_name(name: &str) -> Option<&'static str> {
    definition(name).filter(|d| d.descriptor.is_reported).map(|d| d.name)
}

/// A fingerprint that has to be made anew.
const STALE: u64 = 0;

#[derive(Clone)]
pub struct SessionSettings {
    server: Arc<ServerSettings>,
    /// What RESET goes back to, and where it is from: start-up parameters and role or database defaults.
    session_defaults: HashMap<String, (String, &'static str)>,
    /// Names without a definition that have been set, which are there from then on: their value is the empty string when
    /// nothing else is in force.
    placeholders: HashSet<String>,
    values: Values,
    /// Changes of the open transaction, oldest first.
    changes: Vec<Change>,
    /// What clients are told of and has changed since they were told last: the name, and the value that they know.
    /// In the order of the first changes.
    untold: Vec<(&'static str, String)>,
    /// Settings that formats depend on, kept ready for use.
    pub format: FormatSettings,
    /// Equal for sessions whose literals are read alike, and whose statements are planned alike.
    pub format_fingerprint: u64,
    pub switches: PlannerSettings,
    pub plan_cache_mode: PlanCacheMode,
    pub plan_guard: bool,
    /// Policies are applied; otherwise what they would change is refused.
    pub row_security: bool,
    pub synchronous_commit: bool,
    pub track_counts: bool,
    pub commit_delay: CommitDelay,
    pub search_path: Vec<String>,
    pub statement_timeout_ms: u64,
    pub lock_timeout_ms: u64,
    pub transaction_timeout_ms: u64,
    pub idle_in_transaction_timeout_ms: u64,
    pub idle_session_timeout_ms: u64,
    pub work_mem_bytes: u64,
    pub temp_buffers_bytes: u64,
    /// work_mem times hash_mem_multiplier.
    pub hash_mem_bytes: u64,
    /// Threads that may help with a query, and with making an index.
    pub helpers_per_query: usize,
    pub helpers_per_index: usize,
    /// Long changes of tables are made beside the load.
    pub online_ddl: bool,
    pub maintenance_work_mem_bytes: u64,
    pub log: LogSwitches,
    pub default_isolation: IsolationName,
    /// Set for the open transaction.
    pub transaction_isolation: Option<IsolationName>,
    pub default_read_only: bool,
    pub transaction_read_only: Option<bool>,
    pub default_deferrable: bool,
    pub transaction_deferrable: Option<bool>,
    /// Counts changes; what is derived from settings is kept until it moves.
    pub generation: u64,
}

impl SessionSettings {
    pub fn new(server: Arc<ServerSettings>) -> SessionSettings {
        let mut settings = SessionSettings {
            server,
            session_defaults: HashMap::new(),
            values: Values::default(),
            placeholders: HashSet::default(),
            changes: Vec::new(),
            untold: Vec::new(),
            format: FormatSettings::default(),
            format_fingerprint: 0,
            switches: PlannerSettings::default(),
            plan_cache_mode: PlanCacheMode::default(),
            plan_guard: false,
            row_security: true,
            synchronous_commit: true,
            track_counts: true,
            commit_delay: CommitDelay::default(),
            search_path: Vec::new(),
            statement_timeout_ms: 0,
            lock_timeout_ms: 0,
            transaction_timeout_ms: 0,
            idle_in_transaction_timeout_ms: 0,
            idle_session_timeout_ms: 0,
            work_mem_bytes: 0,
            temp_buffers_bytes: 0,
            hash_mem_bytes: 0,
            helpers_per_query: 0,
            helpers_per_index: 0,
            online_ddl: true,
            maintenance_work_mem_bytes: 0,
            log: LogSwitches::default(),
            default_isolation: "read committed",
            transaction_isolation: None,
            default_read_only: false,
            transaction_read_only: None,
            default_deferrable: false,
            transaction_deferrable: None,
            generation: 0,
        };
        settings.derive();
        settings
    }

    /// Canonical value.
    pub fn get(&self, name: &str) -> Option<&str> {
        let key = match definition(name) {
            Some(d) => d.name,
            None => name,
        };
        self.values.get(key).or_else(|| self.reset_value(key)).or_else(|| self.placeholders.contains(key).then_some(""))
    }
    /// What RESET of the name goes back to.
    pub fn reset_value(&self, name: &str) -> Option<&str> {
        match self.session_defaults.get(name) {
            Some((value, _)) => Some(value),
            None => definition(name).map(|d| self.server.get(d.name)),
        }
    }
    /// EXPLAIN (SETTINGS): those that plans depend on in PostgreSQL and that are not as they come, as SHOW prints them.
    pub(crate) fn changed_for_plans(&self) -> Vec<(&'static str, String)> {
        let concerned =
            definitions().into_iter().filter(|d| d.category.starts_with("Query Tuning") || d.descriptor.is_for_plans);
        let value = |d: &'static Definition| {
            self.get(d.name).filter(|v| *v != d.boot_value).map(|v| (d.name, show_value(d, v)))
        };
        concerned.filter_map(value).collect()
    }
    /// PostgreSQL's word for where the value in force is from.
    pub fn source(&self, name: &str) -> &'static str {
        if self.values.get(name).is_some() {
            return "session";
        }
        self.session_defaults.get(name).map_or_else(|| self.server.source(name), |(_, source)| source)
    }
    pub fn flag(&self, name: &str) -> bool {
        self.get(name) == Some("on")
    }

    /// SET name = value. Custom names (with a dot) need no definition.
    pub fn set(&mut self, name: &str, value: &str, scope: SettingScope) -> Result<()> {
        let (key, value) = match definition(name) {
            Some(d) => {
                changeable(d)?;
                let mut checked = check_value(d, value)?;
                if d.name == "DateStyle" {
                    // What is not named keeps its value.
                    let current = self.get(d.name).unwrap_or("ISO, MDY");
                    checked = check_value(d, &format!("{current}, {value}"))?;
                }
                (d.name.to_string(), checked)
            }
            None if is_custom(name) => {
                let key = name.to_ascii_lowercase();
                self.placeholders.insert(key.clone());
                (key, value.to_string())
            }
            None => return Err(unrecognized(name)),
        };
        self.replace(key, Some(value), scope);
        Ok(())
    }

    /// RESET name, SET name TO DEFAULT.
    pub fn reset(&mut self, name: &str, scope: SettingScope) -> Result<()> {
        match definition(name) {
            Some(d) => {
                changeable(d)?;
                self.replace(d.name.to_string(), None, scope);
            }
            None if is_custom(name) => self.replace(name.to_ascii_lowercase(), None, scope),
            None => return Err(unrecognized(name)),
        }
        Ok(())
    }

    pub fn reset_all(&mut self) {
        for name in self.values.names() {
            if !definition(&name).is_some_and(|d| d.descriptor.stays) {
                self.replace(name, None, SettingScope::Session);
            }
        }
    }

    /// Values that RESET returns to; they win over what is there. Returns why some were not taken.
    pub fn set_session_defaults<'v>(
        &mut self,
        values: impl IntoIterator<Item = (&'v str, &'v str)>,
        source: &'static str,
    ) -> Vec<Error> {
        let mut refused = Vec::new();
        for (name, value) in values {
            match check_default(name, value, source) {
                Ok((name, value)) => {
                    self.session_defaults.insert(name, (value, source));
                }
                Err(e) => refused.push(e),
            }
        }
        self.derive();
        refused
    }

    fn replace(&mut self, name: String, value: Option<String>, scope: SettingScope) {
        self.will_change(&name);
        let previous = self.values.replace(&name, value);
        self.take_effect(&name);
        self.changes.push(Change { name, previous, scope });
    }

    /// A place to go back to (savepoints).
    pub fn mark(&self) -> usize {
        self.changes.len()
    }

    /// Has the open transaction set one of these?
    pub(crate) fn has_changed(&self, names: &[&str]) -> bool {
        self.changes.iter().any(|change| names.contains(&change.name.as_str()))
    }

    /// Undoes all changes since `mark`.
    pub fn rollback_to(&mut self, mark: usize) {
        if self.changes.len() > mark {
            self.undo_changes(mark);
        }
    }

    fn undo_changes(&mut self, mark: usize) {
        let undone = self.changes.split_off(mark.min(self.changes.len()));
        let mut reported: Vec<&'static str> = Vec::new();
        for name in undone.iter().filter_map(|change| reported_name(&change.name)) {
            if !reported.contains(&name) {
                reported.push(name);
            }
        }
        // What was changed first is told first.
        reported.into_iter().rev().for_each(|name| self.will_change(name));
        for change in undone.into_iter().rev() {
            self.values.replace(&change.name, change.previous);
            self.take_effect(&change.name);
        }
    }

    /// The values that stay of what was changed since `mark`: those that were set last for the session.
    fn values_that_stay(&self, mark: usize) -> Vec<(String, Option<String>)> {
        // What the next change of the name has replaced is what this one has set.
        let mut replaced: HashMap<&str, Option<&str>> = HashMap::new();
        let mut found: HashSet<&str> = HashSet::new();
        let mut stay = Vec::new();
        for change in self.changes[mark..].iter().rev() {
            let name = change.name.as_str();
            if change.scope == SettingScope::Session && found.insert(name) {
                let value = replaced.get(name).copied().unwrap_or_else(|| self.values.get(name));
                stay.push((change.name.clone(), value.map(str::to_string)));
            }
            replaced.insert(name, change.previous.as_deref());
        }
        stay.reverse();
        stay
    }

    /// A name's value is about to change: clients may have to be told.
    fn will_change(&mut self, name: &str) {
        if let Some(reported) = reported_name(name) {
            let known = self.get(reported).unwrap_or("").to_string();
            self.note_untold(reported, known);
        }
    }

    /// Clients know this value of what may have changed.
    pub(crate) fn note_untold(&mut self, reported: &'static str, known: String) {
        if self.untold.iter().all(|(name, _)| *name != reported) {
            self.untold.push((reported, known));
        }
    }

    pub fn has_untold(&self) -> bool {
        !self.untold.is_empty()
    }

    /// What may have changed since the last call, with the values that were known then, in PostgreSQL's order: what was
    /// changed last comes first.
    pub fn take_untold(&mut self) -> Vec<(&'static str, String)> {
        let mut untold = std::mem::take(&mut self.untold);
        untold.reverse();
        untold
    }

    /// A function with SET clauses has ended: local changes since `mark` end, session changes stay.
    pub fn end_of_function(&mut self, mark: usize) {
        if self.changes.len() <= mark {
            return;
        }
        let later = self.values_that_stay(mark);
        self.undo_changes(mark);
        for (name, value) in later {
            self.replace(name, value, SettingScope::Session);
        }
    }

    /// The transaction has committed: local changes end, session changes stay.
    pub fn commit(&mut self) {
        if self.changes.is_empty() {
            return;
        }
        // A session-wide SET after a local one of the same name is what stays.
        let kept = self.values_that_stay(0);
        self.undo_changes(0);
        for (name, value) in kept {
            self.values.replace(&name, value);
            self.take_effect(&name);
        }
    }

    pub fn number(&self, name: &str) -> u64 {
        self.get(name).and_then(|v| v.parse::<f64>().ok()).unwrap_or(0.0).max(0.0) as u64
    }

    fn trigram_thresholds(&self) -> Thresholds {
        let real = |name, otherwise: f64| self.get(name).and_then(|v| v.parse().ok()).unwrap_or(otherwise);
        let d = Thresholds::default();
        Thresholds {
            similarity: real(TRIGRAM_SIMILARITY, d.similarity),
            word: real(TRIGRAM_WORD, d.word),
            strict_word: real(TRIGRAM_STRICT_WORD, d.strict_word),
        }
    }

    /// The session's own value, if it has set one.
    pub(super) fn own_value(&self, name: &str) -> Option<&str> {
        self.values.get(name)
    }

    /// What is kept ready follows the value of one setting. Of what users have made up nothing is kept.
    fn take_effect(&mut self, name: &str) {
        self.generation += 1;
        if let Some(d) = definition(name) {
            self.limit_statements();
            self.effect_of(d.name, d.descriptor.effect);
            self.renew_fingerprint();
        }
    }
    /// The same for all settings.
    fn derive(&mut self) {
        self.generation += 1;
        self.limit_statements();
        let mut renewed: Vec<fn(&mut SessionSettings)> = Vec::new();
        for setting in SETTINGS {
            match setting.effect {
                // Once for all settings of the group.
                Some(Effect::Renewal(renew)) if renewed.iter().any(|r| std::ptr::fn_addr_eq(*r, renew)) => {}
                Some(Effect::Renewal(renew)) => {
                    renew(self);
                    renewed.push(renew);
                }
                effect => self.effect_of(setting.name, effect),
            }
        }
        self.renew_fingerprint();
    }
    fn effect_of(&mut self, name: &str, effect: Option<Effect>) {
        match effect {
            Some(Effect::Value(take)) => {
                let value = self.get(name).unwrap_or("").to_string();
                take(self, &value);
            }
            Some(Effect::Renewal(renew)) => renew(self),
            None => {}
        }
    }

    /// How deep and how large this session's statements may become.
    fn limit_statements(&self) {
        kilndb_base::stack::limit_depth(self.number("max_stack_depth") as usize * 1024);
        let limit_kb = i64::try_from(self.number(STATEMENT_MEM_LIMIT)).unwrap_or(0);
        kilndb_base::memory::limit_account(if limit_kb == 0 { i64::MAX } else { limit_kb << 10 });
    }

    pub(super) fn renew_format(&mut self) {
        let style = self.get("DateStyle").unwrap_or("").to_string();
        let (date_style, date_order) =
            parse_date_style(&style, (DateStyle::Iso, DateOrder::Mdy)).unwrap_or((DateStyle::Iso, DateOrder::Mdy));
        self.format = FormatSettings {
            date_style,
            date_order,
            interval_style: match self.get("IntervalStyle") {
                Some("postgres_verbose") => IntervalStyle::PostgresVerbose,
                Some("sql_standard") => IntervalStyle::SqlStandard,
                Some("iso_8601") => IntervalStyle::Iso8601,
                _ => IntervalStyle::Postgres,
            },
            time_zone: self.get("TimeZone").unwrap_or("UTC").to_string(),
            extra_float_digits: self.get("extra_float_digits").and_then(|v| v.parse().ok()).unwrap_or(1),
            bytea_output_hex: self.get("bytea_output") != Some("escape"),
            standard_conforming_strings: self.get("standard_conforming_strings") != Some("off"),
            array_nulls: self.get("array_nulls") != Some("off"),
            trigram: self.trigram_thresholds(),
        };
        self.format_fingerprint = STALE;
    }

    /// To turn some of them.
    pub(super) fn planner_settings(&mut self) -> &mut PlannerSettings {
        self.format_fingerprint = STALE;
        &mut self.switches
    }

    fn renew_fingerprint(&mut self) {
        if self.format_fingerprint != STALE {
            return;
        }
        use std::hash::{Hash, Hasher};
        let mut hasher = std::hash::DefaultHasher::new();
        format!("{:?}", self.format).hash(&mut hasher);
        self.switches.hash(&mut hasher);
        self.format_fingerprint = hasher.finish() | 1;
    }

    pub(super) fn renew_work_memory(&mut self) {
        self.work_mem_bytes = self.number("work_mem") * 1024;
        let multiplier = self.get("hash_mem_multiplier").and_then(|v| v.parse::<f64>().ok()).unwrap_or(1.0);
        self.hash_mem_bytes = (self.work_mem_bytes as f64 * multiplier) as u64;
    }

    pub(super) fn renew_helpers(&mut self) {
        let helpers = self.number("max_parallel_workers");
        self.helpers_per_query = self.number("max_parallel_workers_per_gather").min(helpers) as usize;
        self.helpers_per_index = self.number("max_parallel_maintenance_workers").min(helpers) as usize;
    }

    pub(super) fn renew_log(&mut self) {
        self.log = LogSwitches::new(|name| self.get(name).unwrap_or(""));
    }
}

/// One of PostgreSQL's four.
pub type IsolationName = &'static str;

pub(super) fn isolation_name(value: &str) -> IsolationName {
    match value {
        "serializable" => "serializable",
        "repeatable read" => "repeatable read",
        "read uncommitted" => "read uncommitted",
        _ => "read committed",
    }
}

fn is_custom(name: &str) -> bool {
    name.contains('.')
        && name.split('.').all(|part| !part.is_empty() && !part.starts_with(|c: char| c.is_ascii_digit()))
}

fn check_default(name: &str, value: &str, source: &str) -> Result<(String, String)> {
    let Some(d) = definition(name) else {
        return if is_custom(name) {
            Ok((name.to_ascii_lowercase(), value.to_string()))
        } else {
            Err(unrecognized(name))
        };
    };
    // A client may also set what is fixed from the start of its connection on.
    if source != CLIENT || d.context <= Context::Sighup {
        changeable(d)?;
    }
    Ok((d.name.to_string(), check_value(d, value)?))
}

/// 42501 for what only superusers may set.
pub fn check_privilege(name: &str, superuser: bool) -> Result<()> {
    match definition(name) {
        Some(d) if !superuser && matches!(d.context, Context::Superuser | Context::SuperuserBackend) => Err(
            Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, format!("permission denied to set parameter \"{}\"", d.name)),
        ),
        _ => Ok(()),
    }
}

/// Checks what would be set at a later time, without setting it; without a value, that it may be reset.
pub fn check_setting(name: &str, value: Option<&str>) -> Result<()> {
    match definition(name) {
        Some(d) => {
            changeable(d)?;
            value.map_or(Ok(()), |value| check_value(d, value).map(|_| ()))
        }
        None if is_custom(name) => Ok(()),
        None => Err(unrecognized(name)),
    }
}

fn changeable(d: &Definition) -> Result<()> {
    let why = match d.context {
        Context::Internal => "cannot be changed",
        Context::Postmaster => "cannot be changed without restarting the server",
        Context::Sighup => "cannot be changed now",
        Context::Backend | Context::SuperuserBackend => "cannot be set after connection start",
        Context::Superuser | Context::User => return Ok(()),
    };
    Err(Error::new(sqlstate::CANT_CHANGE_RUNTIME_PARAM, format!("parameter \"{}\" {why}", d.name)))
}

/// A list of names, quoted or not.
pub fn parse_search_path(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let name = if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"').unwrap_or(quoted.len());
            rest = quoted.get(end + 1..).unwrap_or("");
            quoted[..end].to_string()
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            let name = rest[..end].trim().to_ascii_lowercase();
            rest = &rest[end..];
            name
        };
        if !name.is_empty() {
            names.push(name);
        }
        rest = rest.trim_start().trim_start_matches(',').trim_start();
    }
    names
}

fn parse_date_style(text: &str, start: (DateStyle, DateOrder)) -> Option<(DateStyle, DateOrder)> {
    let (mut style, mut order) = start;
    for part in text.split(',').map(|p| p.trim().to_ascii_lowercase()) {
        match part.as_str() {
            "iso" => style = DateStyle::Iso,
            "sql" => style = DateStyle::Sql,
            p if p.starts_with("postgres") => style = DateStyle::Postgres,
            "german" => {
                style = DateStyle::German;
                order = DateOrder::Dmy;
            }
            "ymd" => order = DateOrder::Ymd,
            "dmy" => order = DateOrder::Dmy,
            p if p.starts_with("euro") => order = DateOrder::Dmy,
            "mdy" | "us" => order = DateOrder::Mdy,
            p if p.starts_with("noneuro") => order = DateOrder::Mdy,
            "default" => (style, order) = (DateStyle::Iso, DateOrder::Mdy),
            _ => return None,
        }
    }
    Some((style, order))
}

/// Canonical form of a DateStyle, `ISO, MDY`.
pub(crate) fn check_date_style(text: &str) -> Option<String> {
    let (style, order) = parse_date_style(text, (DateStyle::Iso, DateOrder::Mdy))?;
    let style = match style {
        DateStyle::Iso => "ISO",
        DateStyle::Sql => "SQL",
        DateStyle::Postgres => "Postgres",
        DateStyle::German => "German",
    };
    let order = match order {
        DateOrder::Ymd => "YMD",
        DateOrder::Dmy => "DMY",
        DateOrder::Mdy => "MDY",
    };
    Some(format!("{style}, {order}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> SessionSettings {
        SessionSettings::new(Arc::new(ServerSettings::default()))
    }

    #[test]
    fn a_rollback_restores_and_a_commit_ends_what_is_local() {
        let mut s = settings();
        s.set("work_mem", "1MB", SettingScope::Session).unwrap();
        s.commit();
        s.set("work_mem", "2MB", SettingScope::Session).unwrap();
        s.set("work_mem", "3MB", SettingScope::Local).unwrap();
        assert_eq!(s.get("work_mem"), Some("3072"));
        s.commit();
        assert_eq!(s.get("work_mem"), Some("2048"));
        s.set("work_mem", "9MB", SettingScope::Session).unwrap();
        s.rollback_to(0);
        assert_eq!(s.get("work_mem"), Some("2048"));
    }

    #[test]
    fn what_needs_a_restart_is_refused() {
        let e = settings().set("shared_buffers", "1GB", SettingScope::Session).err();
        assert_eq!(e.map(|e| e.sqlstate()), Some(sqlstate::CANT_CHANGE_RUNTIME_PARAM));
    }

    #[test]
    fn search_paths_are_split() {
        assert_eq!(parse_search_path("\"$user\", public"), ["$user", "public"]);
    }
}
