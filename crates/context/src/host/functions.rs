//! Functions that depend on the session or the catalogs, by PostgreSQL's names.

use super::arguments::{bool_of, int_of, oid_of, text_of};
use super::sequence_functions as seq;
use super::views::INET;
use super::{StatementHost, relation_by_text};
use crate::settings::PendingSetting;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::bootstrap;
use kilndb_catalog::extension::{SET_LIMIT, SHOW_LIMIT};
use kilndb_catalog::ids::*;
use kilndb_catalog::qualified_name::split_qualified;
use kilndb_catalog::store::CatalogStore;
use kilndb_catalog::text_search::TextSearchKind;
use kilndb_catalog::{CatalogView, Table, TableKind};
use kilndb_exec::{CallEnv, SessionHost};
use kilndb_plan::partition;
use kilndb_types::context::Host;
use kilndb_types::{Datum, oids};

/// All names that [`StatementHost::call_session_function`] knows.
pub const SESSION_FUNCTIONS: &[&str] = &[
    "nextval",
    "currval",
    "setval",
    "lastval",
    "pg_sequence_last_value",
    "current_setting",
    "set_config",
    "version",
    "pg_backend_pid",
    "current_database",
    "current_catalog",
    "current_schema",
    "current_schemas",
    "current_user",
    "session_user",
    "user",
    "getpgusername",
    "format_type",
    "pg_get_userbyid",
    "pg_table_is_visible",
    "pg_type_is_visible",
    "pg_function_is_visible",
    "pg_operator_is_visible",
    "pg_collation_is_visible",
    "pg_opclass_is_visible",
    "pg_opfamily_is_visible",
    "pg_conversion_is_visible",
    "pg_ts_config_is_visible",
    "pg_ts_dict_is_visible",
    "pg_ts_parser_is_visible",
    "pg_ts_template_is_visible",
    "pg_statistics_obj_is_visible",
    "pg_get_expr",
    "pg_get_indexdef",
    "pg_get_constraintdef",
    "pg_get_viewdef",
    "obj_description",
    "col_description",
    "shobj_description",
    "pg_relation_size",
    "pg_total_relation_size",
    "pg_table_size",
    "pg_indexes_size",
    "pg_database_size",
    "pg_encoding_to_char",
    "pg_char_to_encoding",
    "pg_is_in_recovery",
    "txid_current",
    "txid_current_if_assigned",
    "pg_current_xact_id",
    "pg_current_xact_id_if_assigned",
    "pg_cancel_backend",
    "pg_terminate_backend",
    "pg_postmaster_start_time",
    "pg_conf_load_time",
    "pg_reload_conf",
    "pg_get_serial_sequence",
    "has_table_privilege",
    "has_schema_privilege",
    "has_database_privilege",
    "has_column_privilege",
    "has_sequence_privilege",
    "has_function_privilege",
    "pg_has_role",
    "pg_sleep",
    "to_regclass",
    "to_regtype",
    "to_regproc",
    "to_regnamespace",
    "to_regrole",
    "pg_my_temp_schema",
    "pg_is_other_temp_schema",
    "pg_get_function_result",
    "pg_get_function_arguments",
    "pg_get_function_identity_arguments",
    "pg_client_encoding",
    "inet_server_port",
    "pg_current_wal_lsn",
    "pg_current_wal_insert_lsn",
    "pg_current_wal_flush_lsn",
    "pg_relation_filenode",
    "pg_get_partkeydef",
    "pg_get_partition_constraintdef",
    "pg_partition_root",
    "pg_relation_is_publishable",
    "pg_tablespace_location",
    "pg_get_statisticsobjdef_columns",
    "pg_jit_available",
    "pg_is_wal_replay_paused",
    "row_security_active",
    "pg_get_function_sqlbody",
    "pg_input_is_valid",
    "pg_input_error_info",
    "parse_ident",
    "pg_sequence_parameters",
    "pg_get_triggerdef",
    "pg_trigger_depth",
    "pg_get_ruledef",
    "pg_get_functiondef",
    "pg_get_statisticsobjdef",
    "current_query",
    "inet_client_addr",
    "inet_client_port",
    "has_any_column_privilege",
    "has_type_privilege",
    "has_language_privilege",
    "pg_advisory_xact_lock",
    "pg_advisory_xact_lock_shared",
    "pg_try_advisory_xact_lock",
    "pg_try_advisory_xact_lock_shared",
    "pg_advisory_lock",
    "pg_advisory_lock_shared",
    "pg_try_advisory_lock",
    "pg_try_advisory_lock_shared",
    "pg_advisory_unlock",
    "pg_advisory_unlock_shared",
    "pg_advisory_unlock_all",
    "has_tablespace_privilege",
    "pg_get_function_arg_default",
    "getdatabaseencoding",
    "pg_notify",
    "pg_notification_queue_usage",
    "pg_blocking_pids",
    "gin_clean_pending_list",
    "pg_describe_object",
    "pg_get_sequence_data",
    "pg_tablespace_size",
    "pg_export_snapshot",
];

pub const SET_RETURNING_FUNCTIONS: &[&str] = &[
    "pg_show_all_settings",
    "pg_stat_get_activity",
    "pg_lock_status",
    "pg_prepared_statement",
    "pg_cursor",
    "pg_partition_tree",
    "pg_partition_ancestors",
    "pg_get_keywords",
    "pg_timezone_names",
    "pg_available_extensions",
    "pg_available_extension_versions",
    "pg_extension_update_paths",
    "aclexplode",
    "pg_options_to_table",
    "pg_sequence_parameters",
    "pg_listening_channels",
    "pg_stat_get_io",
    "pg_stat_get_progress_info",
];

impl SessionHost for StatementHost<'_> {
    fn is_replica(&self) -> bool {
        self.settings.get("session_replication_role") == Some("replica")
    }
    fn fuzzy_search_limit(&self) -> u64 {
        self.settings.number("gin_fuzzy_search_limit")
    }
    fn call_session_function(
        &self,
        oid: Oid,
        name: &str,
        args: &[Datum],
        env: &mut CallEnv<'_>,
    ) -> Option<Result<Datum>> {
        if let Some(done) = super::array_functions::call(oid, args) {
            return Some(done);
        }
        if oid == 0 && name == kilndb_bind::current_of::CURRENT_OF {
            return Some(self.named.current_place(self, args));
        }
        if matches!(oid, SET_LIMIT | SHOW_LIMIT) {
            return Some(trigram_limit(self, args));
        }
        if super::statistics::is_known(name) {
            return Some(super::statistics::call(self, name, args));
        }
        if !SESSION_FUNCTIONS.contains(&name) {
            return None;
        }
        Some(call(self, name, args, env))
    }
    fn call_set_returning(
        &self,
        oid: Oid,
        name: &str,
        args: &[Datum],
        env: &mut CallEnv<'_>,
    ) -> Option<Result<Vec<Vec<Datum>>>> {
        if let Some(done) = super::text_search::rows(self, oid, args, env) {
            return Some(done);
        }
        if !SET_RETURNING_FUNCTIONS.contains(&name) {
            return None;
        }
        Some(super::views::rows(self, name, args))
    }
    fn table_rules(&self, table: &std::sync::Arc<Table>) -> Result<partition::TableRules> {
        partition::table_rules(table, &self.reader, &self.cluster.engine)
    }
    fn key_expressions(&self, table: &Table) -> Result<Vec<Option<kilndb_plan::expression::CExpr>>> {
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

fn call(host: &StatementHost<'_>, name: &str, args: &[Datum], env: &mut CallEnv<'_>) -> Result<Datum> {
    let first = args.first();
    match name {
        "pg_describe_object" => super::describe::call(host, args),
        "gin_clean_pending_list" => super::inverted::clean_pending_list(host, args),
        "nextval" | "currval" | "setval" | "lastval" | "pg_sequence_last_value" | "pg_get_sequence_data" => {
            seq::call(host, name, args, env)
        }
        "current_setting" | "set_config" => setting(host, name, args),
        "pg_relation_size"
        | "pg_total_relation_size"
        | "pg_table_size"
        | "pg_indexes_size"
        | "pg_database_size"
        | "pg_relation_filenode" => sizes(host, name, args, env),
        "pg_get_expr"
        | "pg_get_indexdef"
        | "pg_get_constraintdef"
        | "pg_get_viewdef"
        | "pg_get_serial_sequence"
        | "pg_get_partkeydef"
        | "pg_get_partition_constraintdef"
        | "pg_partition_root"
        | "pg_get_function_result"
        | "pg_get_function_arguments"
        | "pg_get_function_identity_arguments" => super::definitions::call(host, name, args),
        "obj_description" | "col_description" | "shobj_description" => description(host, name, args),
        "to_regclass" | "to_regtype" | "to_regproc" | "to_regnamespace" | "to_regrole" => {
            to_reg(host, name, &text_of(first))
        }
        "version" => Ok(Datum::text(format!(
            "PostgreSQL {} (KilnDB {}) on {}-linux, 64-bit",
            crate::SERVER_VERSION,
            env!("CARGO_PKG_VERSION"),
            std::env::consts::ARCH
        ))),
        "pg_backend_pid" => Ok(Datum::Int4(host.facts.process_id)),
        "current_database" | "current_catalog" => Ok(Datum::text(&host.database().name)),
        "current_schema" => Ok(host.reader.creation_schema.map_or(Datum::Null, Datum::text)),
        "current_schemas" => {
            let implicit = bool_of(first);
            let mut names = Vec::new();
            for oid in host.reader.search_path {
                let name = host.reader.schema_name(*oid)?.unwrap_or_default();
                if implicit || name != "pg_catalog" || host.settings.search_path.contains(&name) {
                    names.push(Datum::text(name));
                }
            }
            Ok(kilndb_catalog::store::array(oids::NAME, names))
        }
        "current_user" | "user" | "getpgusername" => Ok(Datum::text(host.role_name)),
        "session_user" => Ok(Datum::text(host.session_user)),
        "format_type" => {
            if first.is_none_or(Datum::is_null) {
                return Ok(Datum::Null);
            }
            let typmod = args.get(1).filter(|d| !d.is_null()).map(|d| int_of(Some(d)) as i32);
            Ok(Datum::text(kilndb_catalog::format_type::format_type(&host.reader, oid_of(first), typmod)))
        }
        "pg_get_userbyid" => {
            let oid = oid_of(first);
            let rows = host.reader.lookup(PG_AUTHID, PG_AUTHID_OID_INDEX, &[Datum::Oid(oid)])?;
            let name = rows.first().and_then(|r| r.text("rolname")).map(str::to_string);
            Ok(Datum::text(name.unwrap_or_else(|| format!("unknown (OID={oid})"))))
        }
        "pg_table_is_visible" => relation_visible(host, oid_of(first)),
        "pg_type_is_visible" => {
            let Some(info) = host.reader.type_by_oid(oid_of(first))? else { return Ok(Datum::Null) };
            Ok(Datum::Bool(host.reader.type_by_name(None, &info.name)?.is_some_and(|t| t.oid == info.oid)))
        }
        "pg_function_is_visible" => {
            let Some(info) = host.reader.function_by_oid(oid_of(first))? else { return Ok(Datum::Null) };
            let same = |f: &std::sync::Arc<kilndb_catalog::FunctionInfo>| f.arg_types == info.arg_types;
            Ok(Datum::Bool(
                host.reader.functions(None, &info.name)?.iter().find(|f| same(f)).is_some_and(|f| f.oid == info.oid),
            ))
        }
        "pg_ts_config_is_visible" => text_search_visible(host, TextSearchKind::Config, oid_of(first)),
        "pg_ts_dict_is_visible" => text_search_visible(host, TextSearchKind::Dictionary, oid_of(first)),
        "pg_ts_parser_is_visible" => text_search_visible(host, TextSearchKind::Parser, oid_of(first)),
        "pg_ts_template_is_visible" => text_search_visible(host, TextSearchKind::Template, oid_of(first)),
        n if n.ends_with("_is_visible") => super::describe::is_visible(host, n, oid_of(first)),
        "pg_encoding_to_char" => Ok(Datum::text(if int_of(first) == 6 { "UTF8" } else { "" })),
        "pg_char_to_encoding" => {
            Ok(Datum::Int4(if text_of(first).to_ascii_lowercase().replace('-', "") == "utf8" { 6 } else { -1 }))
        }
        "pg_client_encoding" => Ok(Datum::text("UTF8")),
        "pg_is_in_recovery" | "pg_jit_available" | "row_security_active" | "pg_is_wal_replay_paused" => {
            Ok(Datum::Bool(false))
        }
        "txid_current" => Ok(Datum::Int8(env.txn.assign_xid()?.0 as i64)),
        "pg_current_xact_id" => Ok(Datum::U64(env.txn.assign_xid()?.0)),
        "txid_current_if_assigned" => Ok(env.txn.xid().map_or(Datum::Null, |x| Datum::Int8(x.0 as i64))),
        "pg_current_xact_id_if_assigned" => Ok(env.txn.xid().map_or(Datum::Null, |x| Datum::U64(x.0))),
        "pg_cancel_backend" | "pg_terminate_backend" => signal(host, name, int_of(first)),
        "pg_postmaster_start_time" | "pg_conf_load_time" => {
            Ok(Datum::TimestampTz(host.cluster.start_unix_micros - super::POSTGRES_EPOCH_MICROS))
        }
        "pg_reload_conf" => {
            host.cluster.reload_settings()?;
            Ok(Datum::Bool(true))
        }
        "pg_sleep" => sleep(host, first, env),
        "pg_my_temp_schema" => Ok(Datum::Oid(host.reader.temporary_schema().unwrap_or(0))),
        "pg_is_other_temp_schema" => {
            let oid = oid_of(first);
            let temporary = host.reader.schema_name(oid)?.is_some_and(|n| n.starts_with("pg_temp_"));
            Ok(Datum::Bool(temporary && host.reader.temporary_schema() != Some(oid)))
        }
        "pg_current_wal_lsn" | "pg_current_wal_insert_lsn" => Ok(Datum::U64(host.cluster.engine.insert_lsn().0)),
        "pg_current_wal_flush_lsn" => Ok(Datum::U64(host.cluster.engine.flushed_lsn().0)),
        "inet_server_port" => Ok(Datum::Int4(host.cluster.settings().port().into())),
        "pg_input_is_valid" => super::identifiers::input_is_valid(host, &text_of(first), &text_of(args.get(1))),
        "pg_input_error_info" => super::identifiers::input_error_info(host, &text_of(first), &text_of(args.get(1))),
        "parse_ident" => super::identifiers::parse_ident(&text_of(first), args.get(1).is_none_or(|d| bool_of(Some(d)))),
        "pg_sequence_parameters" => sequence_parameters(host, oid_of(first)),
        "pg_get_functiondef" => super::definitions::function_definition(host, oid_of(first)),
        "pg_get_triggerdef" => super::trigger_text::definition(host, oid_of(first), bool_of(args.get(1))),
        "pg_trigger_depth" => Ok(Datum::Int4(host.scratch.trigger_depth.get())),
        // There are no rules and no extended statistics.
        "pg_get_ruledef" | "pg_get_statisticsobjdef" | "pg_get_function_arg_default" => Ok(Datum::Null),
        "getdatabaseencoding" => Ok(Datum::text("UTF8")),
        "current_query" => {
            let activity = host.runtime.control().activity.lock().unwrap_or_else(|e| e.into_inner());
            Ok(Datum::text(&activity.query))
        }
        "inet_client_addr" | "inet_client_port" => {
            let activity = host.runtime.control().activity.lock().unwrap_or_else(|e| e.into_inner()).clone();
            match (activity.client_addr, name) {
                (Some(address), "inet_client_addr") => kilndb_types::io::input(INET, &address, -1, &host.eval()),
                (Some(_), _) => Ok(activity.client_port.map_or(Datum::Null, Datum::Int4)),
                (None, _) => Ok(Datum::Null),
            }
        }
        "pg_blocking_pids" => Ok(super::views::blocking_pids(host, int_of(first) as i32)),
        "pg_notify" => super::notify(host.scratch, &text_of(first), &text_of(args.get(1))).map(|()| Datum::text("")),
        "pg_notification_queue_usage" => Ok(Datum::Float8(super::notifications::queue_usage(host.cluster))),
        n if n.starts_with("pg_advisory") || n.starts_with("pg_try_advisory") => {
            super::advisory::call(host, n, args, env)
        }
        n if n.starts_with("has_") || n == "pg_has_role" => privilege(host, n, args),
        "pg_export_snapshot" => super::exported::export(host, env),
        "pg_tablespace_size" => tablespace_size(host, first, env),
        "pg_get_statisticsobjdef_columns" | "pg_tablespace_location" => Ok(Datum::Null),
        "pg_get_function_sqlbody" => super::definitions::function_body(host, oid_of(first)),
        "pg_relation_is_publishable" => Ok(Datum::Bool(true)),
        other => Err(Error::unsupported(format!("function {other} is not supported"))),
    }
}

fn setting(host: &StatementHost<'_>, name: &str, args: &[Datum]) -> Result<Datum> {
    let key = text_of(args.first());
    if name == "set_config" {
        if args.first().is_none_or(Datum::is_null) {
            return Err(Error::new(sqlstate::NULL_VALUE_NOT_ALLOWED, "SET requires parameter name"));
        }
        let value = text_of(args.get(1));
        let shown = match crate::settings::definition(&key) {
            Some(d) => crate::settings::show_value(d, &crate::settings::check_value(d, &value)?),
            None => value.clone(),
        };
        let setting = PendingSetting { name: key, value, is_local: bool_of(args.get(2)) };
        host.scratch.set_config.borrow_mut().push(setting);
        return Ok(Datum::text(shown));
    }
    let pending = host.scratch.set_config.borrow().value(&key).map(str::to_string);
    let special = match key.to_ascii_lowercase().as_str() {
        "is_superuser" => Some(if host.facts.is_superuser { "on" } else { "off" }.to_string()),
        "session_authorization" => Some(host.session_user.to_string()),
        "transaction_isolation" => Some(host.facts.isolation.to_string()),
        "transaction_read_only" => Some(if host.facts.read_only { "on" } else { "off" }.to_string()),
        "transaction_deferrable" => Some(if host.facts.deferrable { "on" } else { "off" }.to_string()),
        "data_directory" => Some(host.cluster.data_dir.display().to_string()),
        _ => None,
    };
    let latest = host.scratch.latest_settings.borrow();
    let settings = latest.as_deref().filter(|l| l.generation > host.settings.generation).unwrap_or(host.settings);
    let value = pending.or(special).or_else(|| settings.get(&key).map(str::to_string));
    match (value, crate::settings::definition(&key)) {
        (Some(value), Some(d)) => Ok(Datum::text(crate::settings::show_value(d, &value))),
        (Some(value), None) => Ok(Datum::text(value)),
        (None, _) if bool_of(args.get(1)) => Ok(Datum::Null),
        (None, _) => Err(crate::settings::unrecognized(&key)),
    }
}

/// set_limit and show_limit of pg_trgm.
fn trigram_limit(host: &StatementHost<'_>, args: &[Datum]) -> Result<Datum> {
    let name = Datum::text(crate::settings::TRIGRAM_SIMILARITY);
    let shown = match args.first() {
        Some(Datum::Float4(limit)) => {
            setting(host, "set_config", &[name, Datum::text(limit.to_string()), Datum::Bool(false)])?
        }
        _ => setting(host, "current_setting", &[name])?,
    };
    Ok(Datum::Float4(text_of(Some(&shown)).parse().unwrap_or(0.0)))
}

fn relation_sizes(host: &StatementHost<'_>, table: &Table) -> Result<(i64, i64)> {
    let bytes = |storage: kilndb_base::RelationId| -> Result<i64> {
        Ok(if storage.0 == 0 {
            0
        } else {
            i64::from(host.reader.temporary.relation(&host.cluster.engine, storage)?.pages()) * 8192
        })
    };
    let mut indexes = 0;
    for index in table.indexes.iter().filter(|i| !i.is_in_whole) {
        indexes += bytes(index.storage)?;
    }
    Ok((bytes(table.storage)?, indexes))
}

fn sizes(host: &StatementHost<'_>, name: &str, args: &[Datum], env: &mut CallEnv<'_>) -> Result<Datum> {
    if name == "pg_database_size" {
        return database_size(host, args.first(), env);
    }
    let Some(table) = host.reader.table_by_oid(oid_of(args.first()))? else { return Ok(Datum::Null) };
    if name == "pg_relation_filenode" {
        return Ok(Datum::Oid(table.storage.0));
    }
    if name == "pg_relation_size" && args.len() > 1 && text_of(args.get(1)) != "main" {
        return Ok(Datum::Int8(0));
    }
    let (own, indexes) = relation_sizes(host, &table)?;
    Ok(Datum::Int8(match name {
        "pg_indexes_size" => indexes,
        "pg_total_relation_size" => own + indexes,
        _ => own,
    }))
}

/// Bytes of all relations of a database, by its own pg_class.
fn database_bytes(host: &StatementHost<'_>, store: &CatalogStore, env: &CallEnv<'_>) -> Result<i64> {
    let mut total = 0i64;
    for row in store.scan(PG_CLASS, env.snapshot)? {
        let storage = kilndb_base::RelationId(row.oid("relfilenode"));
        if storage.0 != 0 && !kilndb_storage::is_private(storage) {
            total += i64::from(host.reader.temporary.relation(&host.cluster.engine, storage)?.pages()) * 8192;
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
                total += i64::from(engine.relation(*storage)?.pages()) * 8192;
            }
        } else if !is_global && *database != 0 {
            total += database_bytes(host, &bootstrap::open_store(engine, &map, *database)?, env)?;
        }
    }
    Ok(Datum::Int8(total))
}

fn description(host: &StatementHost<'_>, name: &str, args: &[Datum]) -> Result<Datum> {
    let object = oid_of(args.first());
    if name == "shobj_description" {
        let rows = host.reader.scan(PG_SHDESCRIPTION)?;
        let found = rows.iter().find(|r| r.oid("objoid") == object);
        return Ok(found.and_then(|r| r.text("description")).map_or(Datum::Null, Datum::text));
    }
    let (class, column) = match name {
        "col_description" => (Some(PG_CLASS), int_of(args.get(1))),
        _ => {
            let class = text_of(args.get(1));
            (host.reader.find_relation(Some("pg_catalog"), &class)?, 0)
        }
    };
    let rows = host.reader.lookup(PG_DESCRIPTION, PG_DESCRIPTION_O_C_O_INDEX, &[Datum::Oid(object)])?;
    let found = rows.iter().find(|r| class.is_none_or(|c| r.oid("classoid") == c) && r.int("objsubid") == column);
    Ok(found.and_then(|r| r.text("description")).map_or(Datum::Null, Datum::text))
}

fn text_search_visible(host: &StatementHost<'_>, kind: TextSearchKind, oid: Oid) -> Result<Datum> {
    let Some(row) = host.reader.text_search_row(kind, oid)? else { return Ok(Datum::Null) };
    host.reader.text_search_is_visible(kind, &row).map(Datum::Bool)
}

fn relation_visible(host: &StatementHost<'_>, oid: Oid) -> Result<Datum> {
    let Some(class) = host.reader.class_row(oid)? else { return Ok(Datum::Null) };
    let name = class.text("relname").unwrap_or("");
    Ok(Datum::Bool(host.reader.find_relation(None, name)? == Some(oid)))
}

fn signal(host: &StatementHost<'_>, name: &str, pid: i64) -> Result<Datum> {
    let Some(control) = i32::try_from(pid).ok().and_then(|p| host.cluster.sessions().get(p)) else {
        host.notice(Error::notice(
            sqlstate::WARNING,
            kilndb_base::Severity::Warning,
            format!("PID {pid} is not a PostgreSQL backend process"),
        ));
        return Ok(Datum::Bool(false));
    };
    if name == "pg_cancel_backend" {
        control.request_cancel()
    } else {
        control.request_terminate()
    }
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

/// `8192 bytes`, `16 kB`, …: the next unit from 10240 on, halves rounded away from zero.
/// Owners and superusers may do everything, everybody else nothing: there is no GRANT yet.
fn privilege(host: &StatementHost<'_>, name: &str, args: &[Datum]) -> Result<Datum> {
    if args.iter().any(Datum::is_null) {
        return Ok(Datum::Null);
    }
    let arity = if name == "has_column_privilege" { 3 } else { 2 };
    let (mut role, mut superuser) = (host.facts.current_role, host.facts.is_superuser);
    if args.len() > arity {
        let row = match args.first() {
            Some(Datum::Text(user)) => host
                .cluster
                .role_row(user)?
                .ok_or_else(|| Error::new(sqlstate::UNDEFINED_OBJECT, format!("role \"{user}\" does not exist")))?,
            other => {
                let key = [Datum::Oid(oid_of(other))];
                let mut rows = host.reader.lookup(PG_AUTHID, PG_AUTHID_OID_INDEX, &key)?;
                match rows.pop() {
                    Some(row) => row,
                    None => return Ok(Datum::Bool(false)),
                }
            }
        };
        (role, superuser) = (row.oid("oid"), row.bool("rolsuper"));
    }
    let object = args.get(args.len().saturating_sub(arity));
    if name == "pg_has_role" {
        let target = match object {
            Some(Datum::Text(name)) => host.cluster.role_row(name)?.map_or(0, |r| r.oid("oid")),
            other => oid_of(other),
        };
        return Ok(Datum::Bool(superuser || target == role));
    }
    if !matches!(
        name,
        "has_table_privilege" | "has_sequence_privilege" | "has_column_privilege" | "has_any_column_privilege"
    ) {
        return Ok(Datum::Bool(superuser || !matches!(name, "has_tablespace_privilege")));
    }
    let oid = match object {
        Some(Datum::Text(text)) => relation_by_text(host, text)?,
        other => oid_of(other),
    };
    let Some(table) = host.reader.table_by_oid(oid)? else { return Ok(Datum::Null) };
    // System tables and views may be read by all.
    let reads = args.last().is_some_and(|p| text_of(Some(p)).eq_ignore_ascii_case("select"));
    Ok(Datum::Bool(superuser || table.owner == role || (table.is_catalog && reads && table.name != "pg_authid")))
}

fn to_reg(host: &StatementHost<'_>, name: &str, text: &str) -> Result<Datum> {
    let kind = match name {
        "to_regclass" => oids::REGCLASS,
        "to_regtype" => oids::REGTYPE,
        "to_regproc" => oids::REGPROC,
        "to_regnamespace" => oids::REGNAMESPACE,
        _ => oids::REGROLE,
    };
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
        oids::REGTYPE => {
            let cast = format!("CAST(NULL AS {text})");
            let found = kilndb_bind::bind_expression(&cast, None, &host.reader, None);
            found.map(|b| b.expr.ty).map_err(|mut e| {
                e.0.position = None;
                e
            })
        }
        oids::REGNAMESPACE => {
            let parts = parts()?;
            let name = parts.first().map(String::as_str).unwrap_or("");
            let missing = || Error::new(sqlstate::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"));
            host.reader.schema_oid(name)?.ok_or_else(missing)
        }
        oids::REGROLE => {
            let parts = parts()?;
            let name = parts.first().map(String::as_str).unwrap_or("");
            let missing = || Error::new(sqlstate::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"));
            host.cluster.role_row(name)?.map(|r| r.oid("oid")).ok_or_else(missing)
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
            let name = parts.last().cloned().unwrap_or_default();
            let rows = host.reader.scan(PG_COLLATION)?;
            let found = rows.iter().find(|r| r.text("collname") == Some(&name)).map(|r| r.oid("oid"));
            found.ok_or_else(|| {
                Error::new(
                    sqlstate::UNDEFINED_OBJECT,
                    format!("collation \"{text}\" for encoding \"UTF8\" does not exist"),
                )
            })
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
        oids::REGCOLLATION => {
            let rows = host.reader.scan(PG_COLLATION).ok()?;
            rows.iter().find(|r| r.oid("oid") == oid).and_then(|r| r.text("collname")).map(quote)
        }
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
