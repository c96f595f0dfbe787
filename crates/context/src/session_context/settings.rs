//! SET, RESET and what they change of a session.

use super::SessionContext;
use crate::settings::{SetBy, SettingScope, check_privilege, check_value, definition};
use kilndb_base::{Error, Oid, Result, Severity, sqlstate, work};
use kilndb_catalog::privileges::privilege;
use kilndb_catalog::temporary::is_temporary;
use kilndb_syntax::{ConstValue, Node, nodes};

/// What changing a setting is taken for.
const UNITS_PER_SETTING: usize = 2000;

/// What a change of the setting is; of what users have made up it is a value.
fn set_by(name: &str) -> SetBy {
    definition(name).map_or(SetBy::Value, |d| d.descriptor.set_by)
}

impl SessionContext {
    pub fn warn_outside_block(&self, what: &str) {
        let message = format!("{what} can only be used in transaction blocks");
        self.shared.scratch.notices.borrow_mut().push(Error::notice(
            sqlstate::NO_ACTIVE_SQL_TRANSACTION,
            Severity::Warning,
            message,
        ));
    }

    pub fn set_value(&mut self, name: &str, value: &str, scope: SettingScope) -> Result<()> {
        match set_by(name) {
            SetBy::Role => return self.set_role(value, scope),
            SetBy::SessionAuthorization => return self.set_session_authorization(Some(value), scope),
            SetBy::TransactionMode => return self.set_mode(name, value),
            SetBy::TemporaryBuffers => self.refuse_other_temp_buffers(value)?,
            SetBy::Value => {}
        }
        self.refuse_setting(name)?;
        self.settings.set(name, value, scope)
    }

    /// 42501 unless the role in force may set it.
    pub fn refuse_setting(&self, name: &str) -> Result<()> {
        match check_privilege(name, false) {
            Err(e) if !self.is_superuser() && !self.is_granted_parameter(name, privilege::SET) => Err(e),
            _ => Ok(()),
        }
    }

    /// Whether somebody has granted the role in force a privilege on a parameter.
    pub fn is_granted_parameter(&self, name: &str, wanted: u64) -> bool {
        self.cluster.parameter_privileges(name).ok().flatten().is_some_and(|privileges| {
            self.cluster.roles().is_ok_and(|(_, roles)| {
                privileges.has_all(self.identity.current_role, wanted, roles.seen_from(self.database.oid))
            })
        })
    }

    pub fn reset_value(&mut self, name: &str, scope: SettingScope) -> Result<()> {
        match set_by(name) {
            SetBy::Role => self.reset_role(scope),
            SetBy::SessionAuthorization => self.set_session_authorization(None, scope),
            SetBy::TransactionMode => Err(Error::unsupported(format!("parameter \"{name}\" cannot be reset"))),
            SetBy::Value | SetBy::TemporaryBuffers => {
                self.refuse_setting(name)?;
                self.settings.reset(name, scope)
            }
        }
    }

    pub fn forget_sequences(&mut self) {
        self.shared.scratch.currval.borrow_mut().clear();
        self.shared.scratch.last_sequence.set(None);
        self.shared.scratch.sequence_cache.borrow_mut().clear();
    }

    /// The private store has the size with which it was opened.
    pub(crate) fn refuse_other_temp_buffers(&mut self, value: &str) -> Result<()> {
        let Some(definition) = definition("temp_buffers").filter(|_| self.shared.temporary.store().is_some()) else {
            return Ok(());
        };
        if check_value(definition, value)? == self.settings.get("temp_buffers").unwrap_or("") {
            return Ok(());
        }
        Err(Error::new(
            sqlstate::INVALID_PARAMETER_VALUE,
            format!("invalid value for parameter \"temp_buffers\": {value}"),
        )
        .with_detail(
            "\"temp_buffers\" cannot be changed after any temporary tables have been accessed in the session.",
        ))
    }

    /// What is known of temporary sequences that are no more: their OIDs may be given again.
    pub fn forget_gone_sequences(&mut self) {
        let temporary = &self.shared.temporary;
        let is_there = |oid: &Oid| !is_temporary(*oid) || temporary.has_relation(*oid);
        self.shared.scratch.currval.borrow_mut().retain(|oid, _| is_there(oid));
        self.shared.scratch.sequence_cache.borrow_mut().retain(|oid, _| is_there(oid));
    }

    /// What the statement has asked for by set_config() takes effect.
    #[inline]
    pub fn apply_set_config(&mut self) -> Result<()> {
        if self.shared.scratch.set_config.borrow().is_empty() { Ok(()) } else { self.apply_pending_settings() }
    }

    #[cold]
    fn apply_pending_settings(&mut self) -> Result<()> {
        for setting in self.shared.scratch.set_config.take().into_list() {
            work::step(UNITS_PER_SETTING)?;
            let scope = if setting.is_local { SettingScope::Local } else { SettingScope::Session };
            self.set_value(&setting.name, &setting.value, scope)?;
        }
        Ok(())
    }
}

pub(crate) fn const_text(c: &nodes::A_Const) -> String {
    match c.val() {
        Some(ConstValue::Integer(i)) => i.to_string(),
        Some(ConstValue::Float(f)) => f.to_string(),
        Some(ConstValue::Boolean(b)) => b.to_string(),
        Some(ConstValue::String(s) | ConstValue::BitString(s)) => s.to_string(),
        _ => String::new(),
    }
}

/// A value in SET: a constant, or an interval's cast in SET TIME ZONE.
fn setting_argument(node: Node<'_>, name: &str) -> Result<String> {
    match node {
        Node::A_Const(c) => Ok(const_text(c)),
        Node::TypeCast(t) => match t.arg() {
            Node::A_Const(c) => time_zone_of_interval(&const_text(c), t),
            _ => Err(Error::unsupported(format!("this value for \"{name}\" is not supported"))),
        },
        _ => Err(Error::unsupported(format!("this value for \"{name}\" is not supported"))),
    }
}

/// SET TIME ZONE INTERVAL '…' HOUR TO MINUTE: the grammar has intervals nowhere else.
fn time_zone_of_interval(text: &str, cast: &nodes::TypeCast) -> Result<String> {
    let fields = cast.type_name().and_then(|t| t.typmods().into_iter().next());
    let range = match fields {
        Some(Node::A_Const(c)) => {
            if let Some(ConstValue::Integer(range)) = c.val() {
                range
            } else {
                -1
            }
        }
        _ => -1,
    };
    let typmod = if range < 0 { -1 } else { (range << 16) | 0xffff };
    let format = kilndb_types::FormatSettings::default();
    let random_state = std::cell::Cell::new([0; 2]);
    let cx = kilndb_types::EvalContext {
        format: &format,
        transaction_timestamp: 0,
        statement_timestamp: 0,
        host: &kilndb_types::context::NoHost,
        random_state: &random_state,
        clock_was_read: None,
    };
    let interval = kilndb_types::datetime::interval::interval_in(text, typmod, &cx)?;
    let beyond = if interval.months != 0 { "months" } else { "days" };
    if interval.months != 0 || interval.days != 0 {
        let error = Error::new(
            sqlstate::INVALID_PARAMETER_VALUE,
            format!("invalid value for parameter \"TimeZone\": \"INTERVAL '{text}'\""),
        );
        return Err(error.with_detail(format!("Cannot specify {beyond} in time zone interval.")));
    }
    Ok(kilndb_types::datetime::zone::fixed_name((interval.micros / 1_000_000) as i32))
}

/// The value that a SET names, as text.
pub fn given_value(s: &nodes::VariableSetStmt) -> Result<String> {
    let name = s.name().unwrap_or("");
    let mut values = Vec::new();
    for arg in s.args() {
        values.push(setting_argument(arg, name)?);
    }
    if values.len() > 1 && !is_list(name) {
        return Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, format!("SET {name} takes only one argument")));
    }
    Ok(join_setting(name, &values))
}

/// Settings that are lists in PostgreSQL.
fn is_list(name: &str) -> bool {
    let known = [
        "createrole_self_grant",
        "datestyle",
        "debug_io_direct",
        "listen_addresses",
        "local_preload_libraries",
        "log_connections",
        "log_destination",
        "restrict_nonsystem_relation_kind",
        "search_path",
        "session_preload_libraries",
        "shared_preload_libraries",
        "synchronized_standby_slots",
        "synchronous_standby_names",
        "temp_tablespaces",
        "unix_socket_directories",
        "wal_consistency_checking",
    ];
    known.contains(&name.to_ascii_lowercase().as_str())
}

/// Lists (search_path, DateStyle) are kept as text with quotes where a name needs them.
fn join_setting(name: &str, values: &[String]) -> String {
    let is_name_list =
        matches!(name.to_ascii_lowercase().as_str(), "search_path" | "temp_tablespaces" | "local_preload_libraries");
    if is_name_list {
        let quoted: Vec<String> = values.iter().map(|v| kilndb_catalog::format_type::quote_identifier(v)).collect();
        return quoted.join(", ");
    }
    values.join(", ")
}
