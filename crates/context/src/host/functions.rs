//! Functions that depend on the session or the catalogs.

use super::arguments::{bool_of, int_of, oid_of, text_of};
use super::session_function::{self, Call, session_functions};
use super::views::INET;
use super::{StatementHost, relation_by_text};
use crate::client::SessionControl;
use crate::privileges::{may_read, refuse_functions, require_of_owner};
use crate::settings::{LiveValue, PendingSetting, confidential, is_confidential};
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_bind::access::FunctionAccess;
use kilndb_catalog::bootstrap;
use kilndb_catalog::ids::*;
use kilndb_catalog::qualified_name::split_qualified;
use kilndb_catalog::roles::{PG_READ_ALL_SETTINGS, PG_SIGNAL_BACKEND};
use kilndb_catalog::store::CatalogStore;
use kilndb_catalog::text_search::TextSearchKind;
use kilndb_catalog::{CatalogView, Table, TableKind};
use kilndb_exec::{CallEnv, SessionHost};
use kilndb_plan::partition;
use kilndb_types::context::SessionEnvironment;
use kilndb_types::functions::SessionFunction;
use kilndb_types::{Datum, oids};

impl SessionHost for StatementHost<'_> {
    fn is_replica(&self) -> bool {
        self.settings.get("session_replication_role") == Some("replica")
    }
    fn role(&self) -> Oid {
        self.facts.current_role
    }
    fn refuse_deferred_trigger(&self) -> Result<()> {
        if !self.facts.is_restricted {
            return Ok(());
        }
        let message = "cannot fire deferred trigger within security-restricted operation";
        Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, message))
    }
    fn may_read(&self, table: &Table, columns: &[i16]) -> bool {
        let role = self.facts.current_role;
        self.facts.is_superuser
            || self.roles().is_ok_and(|roles| may_read(role, table, columns, roles.seen_from(self.database().oid)))
    }
    fn require_of_owner(&self, table: &Table, wanted: u64, columns: &[i16]) -> Result<()> {
        require_of_owner(table, wanted, columns, self.roles()?.seen_from(self.database().oid))
    }
    fn hides_rows(&self, table: &Table) -> bool {
        let role = self.facts.current_role;
        table.row_security.is_some()
            && self.roles().is_ok_and(|roles| table.hides_rows_from(role, roles.seen_from(self.database().oid)))
    }
    fn require_functions(&self, functions: &[FunctionAccess], role: Option<Oid>) -> Result<()> {
        let roles = self.roles()?;
        refuse_functions(functions, role.unwrap_or(self.facts.current_role), roles.seen_from(self.database().oid))
    }
    fn fuzzy_search_limit(&self) -> u64 {
        self.settings.number("gin_fuzzy_search_limit")
    }
    fn call_function(&self, function: SessionFunction, args: &[Datum], env: &mut CallEnv<'_>) -> Result<Datum> {
        session_function::call(function, &mut Call { host: self, args, env })
    }
    fn call_for_rows(
        &self,
        function: SessionFunction,
        args: &[Datum],
        env: &mut CallEnv<'_>,
    ) -> Result<Vec<Vec<Datum>>> {
        session_function::rows(function, &mut Call { host: self, args, env })
    }
    fn table_rules(&self, table: &std::sync::Arc<Table>) -> Result<partition::TableRules> {
        partition::table_rules(table, &self.reader, &self.cluster.engine)
    }
    fn key_expressions(&self, table: &Table) -> Result<Vec<Option<kilndb_plan::expression::Expression>>> {
        partition::key_expressions(table, &self.reader, &self.cluster.engine)
    }
    fn shown_expression(&self, sql: &str, table: &Table) -> String {
        super::expression_text::canonical(self, sql, &std::sync::Arc::new(table.clone()), None, false)
    }
    fn current_user(&self) -> String {
        self.role_name.to_string()
    }
    fn session_user(&self) -> String {
        self.session_user.to_string()
    }
    fn current_database(&self) -> String {
        self.database().name.clone()
    }
    fn current_schema(&self) -> Option<String> {
        self.reader.creation_schema.map(str::to_string)
    }
}

session_functions! {
    /// The row that a cursor stands on, for WHERE CURRENT OF (`kilndb_bind::current_of`).
    fn p0_current_of(call) = call.host.named.current_place(call.host, call.args);
}

session_functions! {
    fn current_setting(call) = setting_value(call.host, &call.text(0), call.flag(1));
    fn set_config(call) = set_setting(call.host, call.args);
    fn p15000_set_limit(call) = trigram_limit(call.host, call.args);
    fn p15001_show_limit(call) = trigram_limit(call.host, call.args);
    fn pg_relation_size(call) = match call.arg(1) {
        Some(fork) if text_of(Some(fork)) != "main" => size_of(call, |_, _| 0),
        _ => size_of(call, |heap, _| heap),
    };
    fn pg_table_size(call) = size_of(call, |heap, _| heap);
    fn pg_indexes_size(call) = size_of(call, |_, indexes| indexes);
    fn pg_total_relation_size(call) = size_of(call, |heap, indexes| heap + indexes);
    fn pg_database_size(call) = database_size(call.host, call.arg(0), call.env);
    fn pg_tablespace_size(call) = tablespace_size(call.host, call.arg(0), call.env);
    fn pg_relation_filenode(call) = {
        Ok(call.host.reader.table_by_oid(call.oid(0))?.map_or(Datum::Null, |t| Datum::Oid(t.storage.0)))
    };
    fn obj_description(call) = {
        let class = call.host.reader.find_relation(Some("pg_catalog"), &call.text(1))?;
        description(call.host, call.oid(0), class, 0)
    };
    fn col_description(call) = description(call.host, call.oid(0), Some(PG_CLASS), call.int(1));
    fn shobj_description(call) = {
        let rows = call.host.reader.scan(PG_SHDESCRIPTION)?;
        let found = rows.iter().find(|r| r.oid("objoid") == call.oid(0));
        Ok(found.and_then(|r| r.text("description")).map_or(Datum::Null, Datum::text))
    };
    fn to_regclass(call) = to_reg(call.host, oids::REGCLASS, &call.text(0));
    fn to_regtype(call) = to_reg(call.host, oids::REGTYPE, &call.text(0));
    fn to_regproc(call) = to_reg(call.host, oids::REGPROC, &call.text(0));
    fn to_regnamespace(call) = to_reg(call.host, oids::REGNAMESPACE, &call.text(0));
    fn to_regrole(call) = to_reg(call.host, oids::REGROLE, &call.text(0));
    fn version(_call) = Ok(Datum::text(format!(
        "PostgreSQL {} (KilnDB {}) on {}-linux, 64-bit",
        crate::SERVER_VERSION,
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH
    )));
    fn system_user(call) = Ok(match call.host.cluster.sessions().get(call.host.facts.process_id) {
        Some(control) => {
            let activity = control.activity.lock().unwrap_or_else(|e| e.into_inner());
            activity.system_user.as_deref().map_or(Datum::Null, Datum::text)
        }
        None => Datum::Null,
    });
    fn pg_backend_pid(call) = Ok(Datum::Int4(call.host.facts.process_id));
    fn current_database(call) = Ok(Datum::text(&call.host.database().name));
    fn current_schema(call) = Ok(call.host.reader.creation_schema.map_or(Datum::Null, Datum::text));
    fn current_schemas(call) = searched_schemas(call.host, call.flag(0));
    fn current_user(call) = Ok(Datum::text(call.host.role_name));
    fn getpgusername(call) = Ok(Datum::text(call.host.role_name));
    fn session_user(call) = Ok(Datum::text(call.host.session_user));
    fn format_type(call) = {
        if call.arg(0).is_none_or(Datum::is_null) {
            return Ok(Datum::Null);
        }
        let typmod = call.arg(1).filter(|d| !d.is_null()).map(|d| int_of(Some(d)) as i32);
        Ok(Datum::text(kilndb_catalog::format_type::format_type(&call.host.reader, call.oid(0), typmod)))
    };
    fn pg_get_userbyid(call) = {
        let oid = call.oid(0);
        let rows = call.host.reader.lookup(PG_AUTHID, PG_AUTHID_OID_INDEX, &[Datum::Oid(oid)])?;
        let name = rows.first().and_then(|r| r.text("rolname")).map(str::to_string);
        Ok(Datum::text(name.unwrap_or_else(|| format!("unknown (OID={oid})"))))
    };
    fn pg_table_is_visible(call) = relation_visible(call.host, call.oid(0));
    fn pg_type_is_visible(call) = {
        let Some(info) = call.host.reader.type_by_oid(call.oid(0))? else { return Ok(Datum::Null) };
        Ok(Datum::Bool(call.host.reader.type_by_name(None, &info.name)?.is_some_and(|t| t.oid == info.oid)))
    };
    fn pg_function_is_visible(call) = {
        let Some(info) = call.host.reader.function_by_oid(call.oid(0))? else { return Ok(Datum::Null) };
        let functions = call.host.reader.functions(None, &info.name)?;
        let first = functions.iter().find(|f| f.arg_types == info.arg_types);
        Ok(Datum::Bool(first.is_some_and(|f| f.oid == info.oid)))
    };
    fn pg_ts_config_is_visible(call) = text_search_visible(call.host, TextSearchKind::Config, call.oid(0));
    fn pg_ts_dict_is_visible(call) = text_search_visible(call.host, TextSearchKind::Dictionary, call.oid(0));
    fn pg_ts_parser_is_visible(call) = text_search_visible(call.host, TextSearchKind::Parser, call.oid(0));
    fn pg_ts_template_is_visible(call) = text_search_visible(call.host, TextSearchKind::Template, call.oid(0));
    fn pg_encoding_to_char(call) = Ok(Datum::text(if call.int(0) == 6 { "UTF8" } else { "" }));
    fn pg_char_to_encoding(call) = {
        Ok(Datum::Int4(if call.text(0).to_ascii_lowercase().replace('-', "") == "utf8" { 6 } else { -1 }))
    };
    fn pg_client_encoding(_call) = Ok(Datum::text("UTF8"));
    fn getdatabaseencoding(_call) = Ok(Datum::text("UTF8"));
    fn pg_is_in_recovery(_call) = Ok(Datum::Bool(false));
    fn pg_jit_available(_call) = Ok(Datum::Bool(false));
    fn row_security_active(call) = is_row_security_active(call.host, call.arg(0));
    fn pg_is_wal_replay_paused(_call) = Ok(Datum::Bool(false));
    fn txid_current(call) = Ok(Datum::Int8(call.env.txn.assign_xid()?.0 as i64));
    fn pg_current_xact_id(call) = Ok(Datum::U64(call.env.txn.assign_xid()?.0));
    fn txid_current_if_assigned(call) = Ok(call.env.txn.xid().map_or(Datum::Null, |x| Datum::Int8(x.0 as i64)));
    fn pg_current_xact_id_if_assigned(call) = Ok(call.env.txn.xid().map_or(Datum::Null, |x| Datum::U64(x.0)));
    fn pg_cancel_backend(call) = signal(call.host, call.int(0), &CANCEL);
    fn pg_terminate_backend(call) = signal(call.host, call.int(0), &TERMINATE);
    fn pg_postmaster_start_time(call) = Ok(started(call.host));
    fn pg_conf_load_time(call) = Ok(started(call.host));
    fn pg_reload_conf(call) = call.host.cluster.reload_settings().map(|()| Datum::Bool(true));
    fn pg_sleep(call) = sleep(call.host, call.arg(0), call.env);
    fn pg_my_temp_schema(call) = Ok(Datum::Oid(call.host.reader.temporary_schema().unwrap_or(0)));
    fn pg_is_other_temp_schema(call) = {
        let oid = call.oid(0);
        let temporary = call.host.reader.schema_name(oid)?.is_some_and(|n| n.starts_with("pg_temp_"));
        Ok(Datum::Bool(temporary && call.host.reader.temporary_schema() != Some(oid)))
    };
    fn pg_current_wal_lsn(call) = Ok(Datum::U64(call.host.cluster.engine.insert_lsn().0));
    fn pg_current_wal_insert_lsn(call) = Ok(Datum::U64(call.host.cluster.engine.insert_lsn().0));
    fn pg_current_wal_flush_lsn(call) = Ok(Datum::U64(call.host.cluster.engine.flushed_lsn().0));
    fn inet_server_port(call) = Ok(Datum::Int4(call.host.cluster.settings().port().into()));
    fn inet_client_addr(call) = match client_address(call.host) {
        (Some(address), _) => kilndb_types::io::input(INET, &address, -1, &call.host.eval()),
        _ => Ok(Datum::Null),
    };
    fn inet_client_port(call) = match client_address(call.host) {
        (Some(_), Some(port)) => Ok(Datum::Int4(port)),
        _ => Ok(Datum::Null),
    };
    fn pg_sequence_parameters(call) = sequence_parameters(call.host, call.oid(0));
    fn pg_trigger_depth(call) = Ok(Datum::Int4(call.host.scratch.trigger_depth.get()));
    // There are no rules.
    fn pg_get_ruledef(_call) = Ok(Datum::Null);
    fn pg_get_function_arg_default(_call) = Ok(Datum::Null);
    fn pg_tablespace_location(_call) = Ok(Datum::Null);
    fn pg_relation_is_publishable(_call) = Ok(Datum::Bool(true));
    fn current_query(call) = {
        let activity = call.host.runtime.control().activity.lock().unwrap_or_else(|e| e.into_inner());
        Ok(Datum::text(&activity.query))
    };
}

fn searched_schemas(host: &StatementHost<'_>, implicit: bool) -> Result<Datum> {
    let mut names = Vec::new();
    for oid in host.reader.search_path {
        let name = host.reader.schema_name(*oid)?.unwrap_or_default();
        if implicit || name != "pg_catalog" || host.settings.search_path.contains(&name) {
            names.push(Datum::text(name));
        }
    }
    Ok(kilndb_catalog::store::array(oids::NAME, names))
}

fn started(host: &StatementHost<'_>) -> Datum {
    Datum::TimestampTz(host.cluster.start_unix_micros - super::POSTGRES_EPOCH_MICROS)
}

fn client_address(host: &StatementHost<'_>) -> (Option<String>, Option<i32>) {
    let activity = host.runtime.control().activity.lock().unwrap_or_else(|e| e.into_inner());
    (activity.client_addr.clone(), activity.client_port)
}

fn set_setting(host: &StatementHost<'_>, args: &[Datum]) -> Result<Datum> {
    if args.first().is_none_or(Datum::is_null) {
        return Err(Error::new(sqlstate::NULL_VALUE_NOT_ALLOWED, "SET requires parameter name"));
    }
    let (key, value) = (text_of(args.first()), text_of(args.get(1)));
    let shown = match crate::settings::definition(&key) {
        Some(d) => crate::settings::show_value(d, &crate::settings::check_value(d, &value)?),
        None => value.clone(),
    };
    let setting = PendingSetting { name: key, value, is_local: bool_of(args.get(2)) };
    host.scratch.set_config.borrow_mut().push(setting);
    Ok(Datum::text(shown))
}

/// NULL for an unknown name that may be missing.
fn setting_value(host: &StatementHost<'_>, key: &str, missing_ok: bool) -> Result<Datum> {
    let pending = host.scratch.set_config.borrow().value(key).map(str::to_string);
    let definition = crate::settings::definition(key);
    if definition.is_some_and(|d| is_confidential(d.name)) && !host.has_privileges_of(PG_READ_ALL_SETTINGS)? {
        return Err(confidential(definition.map_or(key, |d| d.name)));
    }
    let on_or_off = |on| if on { "on" } else { "off" }.to_string();
    let special = definition.and_then(|d| d.descriptor.live).map(|live| match live {
        LiveValue::IsSuperuser => on_or_off(host.facts.is_superuser),
        LiveValue::SessionUser => host.session_user.to_string(),
        LiveValue::Isolation => host.facts.isolation.to_string(),
        LiveValue::ReadOnly => on_or_off(host.facts.read_only),
        LiveValue::Deferrable => on_or_off(host.facts.deferrable),
        LiveValue::DataDirectory => host.cluster.data_dir.display().to_string(),
    });
    let latest = host.scratch.latest_settings.borrow();
    let settings = latest.as_deref().filter(|l| l.generation > host.settings.generation).unwrap_or(host.settings);
    let value = pending.or(special).or_else(|| settings.get(key).map(str::to_string));
    match (value, definition) {
        (Some(value), Some(d)) => Ok(Datum::text(crate::settings::show_value(d, &value))),
        (Some(value), None) => Ok(Datum::text(value)),
        (None, _) if missing_ok => Ok(Datum::Null),
        (None, _) => Err(crate::settings::unrecognized(key)),
    }
}

/// set_limit and show_limit of pg_trgm.
fn trigram_limit(host: &StatementHost<'_>, args: &[Datum]) -> Result<Datum> {
    let name = crate::settings::TRIGRAM_SIMILARITY;
    let shown = match args.first() {
        Some(Datum::Float4(limit)) => {
            set_setting(host, &[Datum::text(name), Datum::text(limit.to_string()), Datum::Bool(false)])?
        }
        _ => setting_value(host, name, false)?,
    };
    Ok(Datum::Float4(text_of(Some(&shown)).parse().unwrap_or(0.0)))
}

/// Bytes of a storage relation: none if it has no storage, or was dropped since the snapshot that names it was taken.
fn storage_bytes(host: &StatementHost<'_>, storage: kilndb_base::RelationId) -> Result<i64> {
    if storage.0 == 0 {
        return Ok(0);
    }
    let relation = host.reader.temporary.relation(&host.cluster.engine, storage);
    if_dropped(relation.map(|relation| i64::from(relation.pages()) * 8192), 0)
}

/// The other value if a storage relation that was to be read was dropped meanwhile.
fn if_dropped<T>(read: Result<T>, other: T) -> Result<T> {
    match read {
        Err(e) if e.sqlstate() == sqlstate::UNDEFINED_TABLE => Ok(other),
        outcome => outcome,
    }
}

fn relation_sizes(host: &StatementHost<'_>, table: &Table) -> Result<(i64, i64)> {
    let mut indexes = 0;
    for index in table.indexes.iter().filter(|i| !i.is_in_whole) {
        indexes += storage_bytes(host, index.storage)?;
    }
    Ok((storage_bytes(host, table.storage)?, indexes))
}

/// What `of` makes of the bytes of a relation, and of those of its indexes; NULL if there is no such relation.
fn size_of(call: &Call<'_, '_>, of: fn(i64, i64) -> i64) -> Result<Datum> {
    let Some(table) = call.host.reader.table_by_oid(call.oid(0))? else { return Ok(Datum::Null) };
    let (heap, indexes) = relation_sizes(call.host, &table)?;
    Ok(Datum::Int8(of(heap, indexes)))
}

/// Bytes of all relations of a database, by its own pg_class.
fn database_bytes(host: &StatementHost<'_>, store: &CatalogStore, env: &CallEnv<'_>) -> Result<i64> {
    let mut total = 0i64;
    for row in store.scan(PG_CLASS, env.snapshot)? {
        let storage = kilndb_base::RelationId(row.oid("relfilenode"));
        if !kilndb_storage::is_private(storage) {
            total += storage_bytes(host, storage)?;
        }
    }
    Ok(total)
}

fn database_size(host: &StatementHost<'_>, database: Option<&Datum>, env: &CallEnv<'_>) -> Result<Datum> {
    let oid = match database {
        Some(Datum::Text(name)) => {
            let missing = || Error::new(sqlstate::INVALID_CATALOG_NAME, format!("database \"{name}\" does not exist"));
            host.cluster.database_row(name)?.ok_or_else(missing)?.oid("oid")
        }
        other => oid_of(other),
    };
    if oid == host.database().oid {
        return database_bytes(host, &host.database().store, env).map(Datum::Int8);
    }
    let engine = &host.cluster.engine;
    let map = bootstrap::read_boot_map(engine)?;
    if oid == 0 || !map.contains_key(&oid) {
        return Err(Error::new(sqlstate::UNDEFINED_OBJECT, format!("database with OID {oid} does not exist")));
    }
    database_bytes(host, &bootstrap::open_store(engine, &map, oid)?, env).map(Datum::Int8)
}

/// All databases are in pg_default, what they share in pg_global.
fn tablespace_size(host: &StatementHost<'_>, tablespace: Option<&Datum>, env: &CallEnv<'_>) -> Result<Datum> {
    let rows = host.reader.scan(PG_TABLESPACE)?;
    let found = rows.iter().find(|row| match tablespace {
        Some(Datum::Text(name)) => row.text("spcname") == Some(name),
        other => row.oid("oid") == oid_of(other),
    });
    let missing =
        || Error::new(sqlstate::UNDEFINED_OBJECT, format!("tablespace \"{}\" does not exist", text_of(tablespace)));
    let is_global = found.ok_or_else(missing)?.text("spcname") == Some("pg_global");
    let engine = &host.cluster.engine;
    let map = bootstrap::read_boot_map(engine)?;
    let mut total = 0;
    for (database, relations) in &map {
        if is_global && *database == 0 {
            for (_, storage) in relations {
                total += storage_bytes(host, *storage)?;
            }
        } else if !is_global && *database != 0 {
            let bytes =
                bootstrap::open_store(engine, &map, *database).and_then(|store| database_bytes(host, &store, env));
            total += if_dropped(bytes, 0)?;
        }
    }
    Ok(Datum::Int8(total))
}

fn description(host: &StatementHost<'_>, object: Oid, class: Option<Oid>, column: i64) -> Result<Datum> {
    let rows = host.reader.lookup(PG_DESCRIPTION, PG_DESCRIPTION_O_C_O_INDEX, &[Datum::Oid(object)])?;
    let found = rows.iter().find(|r| class.is_none_or(|c| r.oid("classoid") == c) && r.int("objsubid") == column);
    Ok(found.and_then(|r| r.text("description")).map_or(Datum::Null, Datum::text))
}

fn text_search_visible(host: &StatementHost<'_>, kind: TextSearchKind, oid: Oid) -> Result<Datum> {
    let Some(row) = host.reader.text_search_row(kind, oid)? else { return Ok(Datum::Null) };
    host.reader.text_search_is_visible(kind, &row).map(Datum::Bool)
}

fn is_row_security_active(host: &StatementHost<'_>, relation: Option<&Datum>) -> Result<Datum> {
    let oid = match relation {
        Some(Datum::Text(name)) => kilndb_types::context::ObjectNames::reg_input(host, oids::REGCLASS, name)?,
        other => oid_of(other),
    };
    Ok(Datum::Bool(host.reader.table_by_oid(oid)?.is_some_and(|table| host.hides_rows(&table))))
}

fn relation_visible(host: &StatementHost<'_>, oid: Oid) -> Result<Datum> {
    let Some(class) = host.reader.class_row(oid)? else { return Ok(Datum::Null) };
    let name = class.text("relname").unwrap_or("");
    Ok(Datum::Bool(host.reader.find_relation(None, name)? == Some(oid)))
}

/// What one session may ask of another, and how its refusal is worded.
struct Signal {
    request: fn(&SessionControl),
    message: &'static str,
    of_superuser: &'static str,
    of_other: &'static str,
}

const CANCEL: Signal = Signal {
    request: SessionControl::request_cancel,
    message: "permission denied to cancel query",
    of_superuser: "Only roles with the SUPERUSER attribute may cancel queries of roles with the SUPERUSER attribute.",
    of_other: "Only roles with privileges of the role whose query is being canceled or with privileges of the \"pg_signal_backend\" role may cancel this query.",
};
const TERMINATE: Signal = Signal {
    request: SessionControl::request_terminate,
    message: "permission denied to terminate process",
    of_superuser: "Only roles with the SUPERUSER attribute may terminate processes of roles with the SUPERUSER attribute.",
    of_other: "Only roles with privileges of the role whose process is being terminated or with privileges of the \"pg_signal_backend\" role may terminate this process.",
};

/// 42501 unless the role in force may signal a session of a role.
fn refuse_signal(host: &StatementHost<'_>, role: Oid, signal: &Signal) -> Result<()> {
    let refused = |detail: &str| Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, signal.message).with_detail(detail));
    let roles = host.roles()?;
    if host.facts.is_superuser {
        return Ok(());
    }
    // Somebody who has not said who it is counts as a superuser.
    if role == 0 || roles.is_superuser(role) {
        return refused(signal.of_superuser);
    }
    let seen = roles.seen_from(host.database().oid);
    let current = host.facts.current_role;
    if seen.has_privileges_of(current, role) || seen.has_privileges_of(current, PG_SIGNAL_BACKEND) {
        return Ok(());
    }
    refused(signal.of_other)
}

fn signal(host: &StatementHost<'_>, pid: i64, signal: &Signal) -> Result<Datum> {
    let Some(control) = i32::try_from(pid).ok().and_then(|p| host.cluster.sessions().get(p)) else {
        host.notice(Error::notice(
            sqlstate::WARNING,
            kilndb_base::Severity::Warning,
            format!("PID {pid} is not a PostgreSQL backend process"),
        ));
        return Ok(Datum::Bool(false));
    };
    let role = control.activity.lock().unwrap_or_else(|e| e.into_inner()).user_oid;
    refuse_signal(host, role, signal)?;
    (signal.request)(&control);
    Ok(Datum::Bool(true))
}

fn sleep(host: &StatementHost<'_>, seconds: Option<&Datum>, env: &mut CallEnv<'_>) -> Result<Datum> {
    let seconds = match seconds {
        Some(Datum::Float8(s)) => s.max(0.0),
        _ => 0.0,
    };
    let end = host.cluster.env.monotonic_nanos().saturating_add((seconds * 1e9) as u64);
    while host.cluster.env.monotonic_nanos() < end {
        env.park.park(Some(end))?;
    }
    Ok(Datum::Text(std::sync::Arc::from("")))
}

fn sequence_parameters(host: &StatementHost<'_>, oid: Oid) -> Result<Datum> {
    let rows = host.reader.lookup(PG_SEQUENCE, PG_SEQUENCE_SEQRELID_INDEX, &[Datum::Oid(oid)])?;
    let row = rows
        .first()
        .ok_or_else(|| Error::new(sqlstate::UNDEFINED_TABLE, format!("relation with OID {oid} does not exist")))?;
    let number = |column: &str| (oids::INT8, Datum::Int8(row.int(column)));
    Ok(super::identifiers::record(vec![
        number("seqstart"),
        number("seqmin"),
        number("seqmax"),
        number("seqincrement"),
        (oids::BOOL, Datum::Bool(row.bool("seqcycle"))),
        number("seqcache"),
        (oids::OID, Datum::Oid(row.oid("seqtypid"))),
    ]))
}

fn to_reg(host: &StatementHost<'_>, kind: Oid, text: &str) -> Result<Datum> {
    match reg_lookup(host, kind, text) {
        Ok(oid) => Ok(Datum::Oid(oid)),
        Err(e) if e.sqlstate().0.starts_with(b"42") || e.sqlstate() == sqlstate::INVALID_SCHEMA_NAME => Ok(Datum::Null),
        Err(e) => Err(e),
    }
}

/// Text input of the reg… types.
pub fn reg_lookup(host: &StatementHost<'_>, kind: Oid, text: &str) -> Result<Oid> {
    let parts = || split_qualified(text).ok_or_else(|| Error::new(sqlstate::INVALID_NAME, "invalid name syntax"));
    match kind {
        oids::REGCLASS => relation_by_text(host, text),
        oids::REGTYPE => kilndb_bind::type_of_text(text, &host.reader).map(|(oid, _)| oid),
        oids::REGNAMESPACE => {
            let parts = parts()?;
            let name = parts.first().map(String::as_str).unwrap_or("");
            let missing = || Error::new(sqlstate::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"));
            host.reader.schema_oid(name)?.ok_or_else(missing)
        }
        oids::REGROLE => {
            // Plans do not know of roles that come and go.
            if let Some(asked) = host.reader.asked {
                asked.reads_moment.set(true);
            }
            let parts = parts()?;
            let name = parts.first().map(String::as_str).unwrap_or("");
            let missing = || Error::new(sqlstate::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"));
            host.roles()?.named(name).map(|role| role.oid).ok_or_else(missing)
        }
        oids::REGPROC => {
            let parts = parts()?;
            let (schema, name) = match parts.as_slice() {
                [schema, name] => (Some(schema.as_str()), name),
                [name] => (None, name),
                _ => {
                    return Err(Error::new(
                        sqlstate::SYNTAX_ERROR,
                        format!("improper qualified name (too many dotted names): {text}"),
                    ));
                }
            };
            match host.reader.functions(schema, name)?.as_slice() {
                [] => Err(Error::new(sqlstate::UNDEFINED_FUNCTION, format!("function \"{text}\" does not exist"))),
                [one] => Ok(one.oid),
                _ => Err(Error::new(sqlstate::AMBIGUOUS_FUNCTION, format!("more than one function named \"{text}\""))),
            }
        }
        oids::REGPROCEDURE => {
            let (name, list) = text
                .trim()
                .strip_suffix(')')
                .and_then(|t| t.split_once('('))
                .ok_or_else(|| Error::new(sqlstate::INVALID_TEXT_REPRESENTATION, "expected a left parenthesis"))?;
            let mut types = Vec::new();
            for ty in kilndb_catalog::builtin::split_defaults(list) {
                types.push(reg_lookup(host, oids::REGTYPE, &ty)?);
            }
            let parts =
                split_qualified(name).ok_or_else(|| Error::new(sqlstate::INVALID_NAME, "invalid name syntax"))?;
            let (schema, name) = match parts.as_slice() {
                [name] => (None, name),
                [schema, name] => (Some(schema.as_str()), name),
                _ => {
                    return Err(Error::new(
                        sqlstate::SYNTAX_ERROR,
                        format!("improper qualified name (too many dotted names): {text}"),
                    ));
                }
            };
            let found = host.reader.functions(schema, name)?.iter().find(|f| f.arg_types == types).map(|f| f.oid);
            found.ok_or_else(|| Error::new(sqlstate::UNDEFINED_FUNCTION, format!("function \"{text}\" does not exist")))
        }
        oids::REGCOLLATION => {
            let parts = parts()?;
            let (schema, name) = match parts.as_slice() {
                [name] => (None, name.as_str()),
                [.., schema, name] => (Some(schema.as_str()), name.as_str()),
                [] => (None, ""),
            };
            let found = host.reader.collation_named(schema, name)?.map(|info| info.oid);
            found.ok_or_else(|| kilndb_catalog::collation_read::unknown_collation(text))
        }
        oids::REGCONFIG | oids::REGDICTIONARY => host.reader.text_search_named(TextSearchKind::of_reg_type(kind), text),
        _ => Err(Error::unsupported("text input of this reg… type is not supported")),
    }
}

/// Text output of the reg… types; None: print the number.
pub(crate) fn reg_name(host: &StatementHost<'_>, kind: Oid, oid: Oid) -> Option<String> {
    let quote = kilndb_catalog::format_type::quote_identifier;
    match kind {
        oids::REGCLASS => {
            let class = host.reader.class_row(oid).ok()??;
            let name = class.text("relname")?;
            if host.reader.find_relation(None, name).ok()? == Some(oid) {
                return Some(quote(name));
            }
            let schema = host.reader.schema_name(class.oid("relnamespace")).ok()??;
            Some(format!("{}.{}", quote(&schema), quote(name)))
        }
        oids::REGTYPE => {
            host.reader.type_by_oid(oid).ok()??;
            Some(kilndb_catalog::format_type::format_type(&host.reader, oid, None))
        }
        oids::REGPROC | oids::REGPROCEDURE => {
            let f = host.reader.function_by_oid(oid).ok()??;
            let schema = host.reader.schema_name(f.schema_oid).ok()??;
            let visible = host.reader.search_path.contains(&f.schema_oid);
            let name = if visible { quote(&f.name) } else { format!("{}.{}", quote(&schema), quote(&f.name)) };
            if kind == oids::REGPROC {
                return Some(name);
            }
            let args: Vec<String> = f.arg_types.iter().map(|t| super::definitions::plain_type(host, *t)).collect();
            Some(format!("{name}({})", args.join(",")))
        }
        oids::REGNAMESPACE => host.reader.schema_name(oid).ok()?.map(|n| quote(&n)),
        oids::REGROLE => {
            let rows = host.reader.lookup(PG_AUTHID, PG_AUTHID_OID_INDEX, &[Datum::Oid(oid)]).ok()?;
            rows.first().and_then(|r| r.text("rolname")).map(quote)
        }
        oids::REGOPER | oids::REGOPERATOR => {
            let o = host.reader.operator_by_oid(oid).ok()??;
            if kind == oids::REGOPER {
                return Some(o.name.clone());
            }
            let side = |t: Oid| if t == 0 { "NONE".to_string() } else { super::definitions::plain_type(host, t) };
            Some(format!("{}({},{})", o.name, side(o.left), side(o.right)))
        }
        oids::REGCONFIG | oids::REGDICTIONARY => {
            let kind = TextSearchKind::of_reg_type(kind);
            let row = host.reader.text_search_row(kind, oid).ok()??;
            let (.., name, schema) = kind.table();
            let shown = quote(row.text(name)?);
            if host.reader.text_search_is_visible(kind, &row).ok()? {
                return Some(shown);
            }
            Some(format!("{}.{shown}", quote(&host.reader.schema_name(row.oid(schema)).ok()??)))
        }
        oids::REGCOLLATION => super::describe::collation_name(host, oid).ok()?,
        _ => None,
    }
}

/// 42809 unless the relation is a sequence.
pub(crate) fn require_sequence(table: &Table) -> Result<()> {
    if table.kind == TableKind::Sequence {
        return Ok(());
    }
    Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("\"{}\" is not a sequence", table.name)))
}
