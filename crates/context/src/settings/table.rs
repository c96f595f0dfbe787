//! What this server adds to PostgreSQL's facts about a setting: another default, a check, an effect
//! (docs/decisions/0040).
//!
//! pg_settings has a row for each of PostgreSQL's settings; one that needs nothing beside its type and range has no row
//! here. A setting of our own has all its facts here.

use super::checks;
use super::plan_cache_mode::PlanCacheMode;
use super::registry::{Context, Definition, Kind};
use super::session::{SessionSettings, isolation_name, parse_search_path};
use kilndb_base::Result;
use kilndb_storage::CommitDelay;

pub type CheckFn = fn(&Definition, &str) -> Result<String>;

/// How a value gets into what the session keeps ready for use.
#[derive(Clone, Copy, Debug)]
pub enum Effect {
    /// This takes the value over.
    Value(fn(&mut SessionSettings, &str)),
    /// This makes anew what depends on several settings.
    Renewal(fn(&mut SessionSettings)),
}

#[derive(Debug)]
pub struct SettingDescriptor {
    pub name: &'static str,
    /// Instead of PostgreSQL's default.
    pub default: Option<&'static str>,
    /// Beyond its type and range: an error, or the canonical form.
    pub check: Option<CheckFn>,
    pub effect: Option<Effect>,
    /// Clients are told of the value at the start, and again when it changes.
    pub is_reported: bool,
    /// RESET ALL leaves it as it is.
    pub stays: bool,
    /// EXPLAIN (SETTINGS) shows it, though it is none of "Query Tuning".
    pub is_for_plans: bool,
    /// Who answers SHOW, if it is not the value that was set.
    pub live: Option<LiveValue>,
    pub set_by: SetBy,
    /// Of a setting that PostgreSQL does not have.
    pub own: Option<OwnFacts>,
}

/// A value that the session tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LiveValue {
    SessionUser,
    IsSuperuser,
    DataDirectory,
    Isolation,
    ReadOnly,
    Deferrable,
}

/// What a change of a setting is, for the session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetBy {
    /// A value, and its effect.
    Value,
    Role,
    SessionAuthorization,
    /// It holds for the open transaction.
    TransactionMode,
    /// It cannot change any more once there are temporary tables.
    TemporaryBuffers,
}

#[derive(Debug)]
pub struct OwnFacts {
    pub unit: Option<&'static str>,
    pub category: &'static str,
    pub context: Context,
    pub kind: Kind,
    pub min: f64,
    pub max: f64,
    pub enum_values: &'static [&'static str],
}

/// A setting of which nothing is said.
pub(super) static PLAIN: SettingDescriptor = setting("");

const fn setting(name: &'static str) -> SettingDescriptor {
    SettingDescriptor {
        name,
        default: None,
        check: None,
        effect: None,
        is_reported: false,
        stays: false,
        is_for_plans: false,
        live: None,
        set_by: SetBy::Value,
        own: None,
    }
}

impl SettingDescriptor {
    const fn default(self, default: &'static str) -> Self {
        SettingDescriptor { default: Some(default), ..self }
    }
    const fn check(self, check: CheckFn) -> Self {
        SettingDescriptor { check: Some(check), ..self }
    }
    const fn effect(self, take: fn(&mut SessionSettings, &str)) -> Self {
        SettingDescriptor { effect: Some(Effect::Value(take)), ..self }
    }
    const fn renews(self, renew: fn(&mut SessionSettings)) -> Self {
        SettingDescriptor { effect: Some(Effect::Renewal(renew)), ..self }
    }
    const fn reported(self) -> Self {
        SettingDescriptor { is_reported: true, ..self }
    }
    const fn stays(self) -> Self {
        SettingDescriptor { stays: true, ..self }
    }
    const fn for_plans(self) -> Self {
        SettingDescriptor { is_for_plans: true, ..self }
    }
    const fn live(self, live: LiveValue) -> Self {
        SettingDescriptor { live: Some(live), ..self }
    }
    const fn set_by(self, set_by: SetBy) -> Self {
        SettingDescriptor { set_by, ..self }
    }
    const fn own(self, kind: Kind, context: Context, category: &'static str) -> Self {
        let facts = OwnFacts { unit: None, category, context, kind, min: 0.0, max: 0.0, enum_values: &[] };
        SettingDescriptor { own: Some(facts), ..self }
    }
    const fn range(self, unit: Option<&'static str>, min: f64, max: f64) -> Self {
        match self.own {
            Some(own) => SettingDescriptor { own: Some(OwnFacts { unit, min, max, ..own }), ..self },
            None => self,
        }
    }
    const fn values(self, enum_values: &'static [&'static str]) -> Self {
        match self.own {
            Some(own) => SettingDescriptor { own: Some(OwnFacts { enum_values, ..own }), ..self },
            None => self,
        }
    }
}

pub const TRIGRAM_SIMILARITY: &str = "pg_trgm.similarity_threshold";
pub const TRIGRAM_WORD: &str = "pg_trgm.word_similarity_threshold";
pub const TRIGRAM_STRICT_WORD: &str = "pg_trgm.strict_word_similarity_threshold";
pub const STATEMENT_MEM_LIMIT: &str = "statement_mem_limit";

fn whole(value: &str) -> u64 {
    value.parse::<f64>().unwrap_or(0.0).max(0.0) as u64
}
fn real(value: &str) -> f64 {
    value.parse().unwrap_or(0.0)
}
fn is_on(value: &str) -> bool {
    value == "on"
}
/// A setting of the log.
const fn logged(name: &'static str) -> SettingDescriptor {
    setting(name).renews(SessionSettings::renew_log)
}
/// A setting that the formats of values depend on.
const fn format(name: &'static str) -> SettingDescriptor {
    setting(name).renews(SessionSettings::renew_format)
}
const PLPGSQL: &str = "Customized Options";
const AUTHENTICATION: &str = "Connections and Authentication / Authentication";

/// The reported ones in the order in which clients are told of them at the start; of the others the order says nothing.
pub(super) static SETTINGS: &[SettingDescriptor] = &[
    setting("in_hot_standby").default("off").reported(),
    setting("integer_datetimes").default("on").reported(),
    format("TimeZone").default("UTC").check(checks::time_zone).reported(),
    format("IntervalStyle").reported(),
    setting("search_path").effect(|s, v| s.search_path = parse_search_path(v)).reported().for_plans(),
    setting("is_superuser").default("on").reported().live(LiveValue::IsSuperuser).own(
        Kind::String,
        Context::Internal,
        "Ungrouped",
    ),
    setting("application_name").default("").check(checks::application_name).reported(),
    setting("default_transaction_read_only").effect(|s, v| s.default_read_only = is_on(v)).reported(),
    setting("scram_iterations").reported(),
    format("DateStyle").default("ISO, MDY").check(checks::date_style).reported(),
    format("standard_conforming_strings").reported(),
    setting("session_authorization")
        .reported()
        .stays()
        .live(LiveValue::SessionUser)
        .set_by(SetBy::SessionAuthorization)
        .own(Kind::String, Context::User, "Ungrouped"),
    setting("client_encoding").default("UTF8").check(checks::client_encoding).reported(),
    setting("server_version").default(crate::SERVER_VERSION).reported(),
    setting("server_encoding").default("UTF8").reported(),
    setting("role").default("none").stays().set_by(SetBy::Role).own(Kind::String, Context::User, "Ungrouped"),
    // Of the open transaction, and of the next ones.
    setting("transaction_isolation")
        .effect(|s, _| s.transaction_isolation = s.own_value("transaction_isolation").map(isolation_name))
        .stays()
        .live(LiveValue::Isolation)
        .set_by(SetBy::TransactionMode),
    setting("transaction_read_only")
        .effect(|s, _| s.transaction_read_only = s.own_value("transaction_read_only").map(is_on))
        .stays()
        .live(LiveValue::ReadOnly)
        .set_by(SetBy::TransactionMode),
    setting("transaction_deferrable")
        .effect(|s, _| s.transaction_deferrable = s.own_value("transaction_deferrable").map(is_on))
        .stays()
        .live(LiveValue::Deferrable)
        .set_by(SetBy::TransactionMode),
    setting("default_transaction_isolation").effect(|s, v| s.default_isolation = isolation_name(v)),
    setting("default_transaction_deferrable").effect(|s, v| s.default_deferrable = is_on(v)),
    // There are no standbys: everything but off waits for the disk here.
    setting("synchronous_commit").effect(|s, v| s.synchronous_commit = v != "off"),
    setting("row_security").effect(|s, v| s.row_security = is_on(v)),
    setting("track_counts").effect(|s, v| s.track_counts = is_on(v)),
    setting("commit_delay").effect(|s, v| s.commit_delay = CommitDelay { delay_us: whole(v), ..s.commit_delay }),
    setting("commit_siblings")
        .effect(|s, v| s.commit_delay = CommitDelay { siblings: whole(v) as usize, ..s.commit_delay }),
    setting("statement_timeout").effect(|s, v| s.statement_timeout_ms = whole(v)),
    setting("lock_timeout").effect(|s, v| s.lock_timeout_ms = whole(v)),
    setting("transaction_timeout").effect(|s, v| s.transaction_timeout_ms = whole(v)),
    setting("idle_in_transaction_session_timeout").effect(|s, v| s.idle_in_transaction_timeout_ms = whole(v)),
    setting("idle_session_timeout").effect(|s, v| s.idle_session_timeout_ms = whole(v)),
    // Formats of values.
    format("extra_float_digits"),
    format("bytea_output"),
    format("array_nulls"),
    // Plans.
    setting("plan_cache_mode").effect(|s, v| s.plan_cache_mode = PlanCacheMode::of_setting(v)),
    setting("plan_guard").default("off").effect(|s, v| s.plan_guard = is_on(v)).own(
        Kind::Bool,
        Context::User,
        "Query Tuning / Other Planner Options",
    ),
    setting("enable_seqscan").effect(|s, v| s.planner_settings().seqscan = is_on(v)),
    setting("enable_indexscan").effect(|s, v| s.planner_settings().indexscan = is_on(v)),
    setting("enable_bitmapscan").effect(|s, v| s.planner_settings().bitmapscan = is_on(v)),
    setting("enable_hashjoin").effect(|s, v| s.planner_settings().hashjoin = is_on(v)),
    setting("enable_nestloop").effect(|s, v| s.planner_settings().nestloop = is_on(v)),
    setting("enable_sort").effect(|s, v| s.planner_settings().sort = is_on(v)),
    setting("enable_incremental_sort").effect(|s, v| s.planner_settings().incremental_sort = is_on(v)),
    setting("enable_mergejoin").effect(|s, v| s.planner_settings().mergejoin = is_on(v)),
    setting("enable_memoize").effect(|s, v| s.planner_settings().memoize = is_on(v)),
    setting("enable_material").effect(|s, v| s.planner_settings().material = is_on(v)),
    setting("enable_tidscan").effect(|s, v| s.planner_settings().tidscan = is_on(v)),
    setting("enable_partition_pruning").effect(|s, v| s.planner_settings().partition_pruning = is_on(v)),
    setting("enable_group_by_reordering").effect(|s, v| s.planner_settings().group_by_reordering = is_on(v)),
    setting("enable_distinct_reordering").effect(|s, v| s.planner_settings().distinct_reordering = is_on(v)),
    setting("enable_presorted_aggregate").effect(|s, v| s.planner_settings().presorted_aggregate = is_on(v)),
    setting("enable_self_join_elimination").effect(|s, v| s.planner_settings().self_join_elimination = is_on(v)),
    setting("enable_hashagg").effect(|s, v| s.planner_settings().hashagg = is_on(v)),
    setting("seq_page_cost").effect(|s, v| s.planner_settings().costs.seq_page = real(v)),
    setting("random_page_cost").effect(|s, v| s.planner_settings().costs.random_page = real(v)),
    setting("cpu_tuple_cost").effect(|s, v| s.planner_settings().costs.cpu_tuple = real(v)),
    setting("cpu_index_tuple_cost").effect(|s, v| s.planner_settings().costs.cpu_index_tuple = real(v)),
    setting("cpu_operator_cost").effect(|s, v| s.planner_settings().costs.cpu_operator = real(v)),
    setting("enable_partitionwise_aggregate").effect(|s, v| s.planner_settings().partitionwise_aggregate = is_on(v)),
    setting("enable_partitionwise_join").effect(|s, v| s.planner_settings().partitionwise_join = is_on(v)),
    setting("effective_io_concurrency").for_plans(),
    setting("maintenance_io_concurrency").for_plans(),
    setting("max_parallel_workers").renews(SessionSettings::renew_helpers).for_plans(),
    setting("max_parallel_workers_per_gather").renews(SessionSettings::renew_helpers).for_plans(),
    setting("max_parallel_maintenance_workers").renews(SessionSettings::renew_helpers),
    setting("parallel_leader_participation").for_plans(),
    setting("jit").default("off"),
    // Memory.
    setting("work_mem").renews(SessionSettings::renew_work_memory).for_plans(),
    setting("hash_mem_multiplier").renews(SessionSettings::renew_work_memory).for_plans(),
    setting("temp_buffers")
        .effect(|s, v| s.temp_buffers_bytes = whole(v) * 8192)
        .set_by(SetBy::TemporaryBuffers)
        .for_plans(),
    setting("maintenance_work_mem").effect(|s, v| s.maintenance_work_mem_bytes = whole(v) * 1024),
    // Frames are larger than PostgreSQL's, and so are the stacks.
    setting("max_stack_depth").default("40960").check(checks::stack_depth),
    setting("online_ddl").default("on").effect(|s, v| s.online_ddl = is_on(v)).own(
        Kind::Bool,
        Context::User,
        "Client Connection Defaults / Statement Behavior",
    ),
    setting(STATEMENT_MEM_LIMIT).default("0").own(Kind::Integer, Context::User, MEMORY).range(Some("kB"), 0.0, KB_MAX),
    setting("server_mem_limit").default("0").own(Kind::Integer, Context::Postmaster, MEMORY).range(
        Some("kB"),
        0.0,
        KB_MAX,
    ),
    // The log.
    logged("log_statement"),
    logged("log_duration"),
    logged("log_min_duration_statement"),
    logged("log_min_duration_sample"),
    logged("log_statement_sample_rate"),
    logged("log_transaction_sample_rate"),
    logged("log_min_messages"),
    logged("log_min_error_statement"),
    logged("log_error_verbosity"),
    logged("log_parameter_max_length"),
    logged("log_parameter_max_length_on_error"),
    logged("log_temp_files"),
    logged("log_lock_waits"),
    logged("deadlock_timeout"),
    logged("log_disconnections"),
    setting("log_timezone").default("UTC").check(checks::time_zone),
    // The server, and facts about it.
    setting("server_version_num").default("180000"),
    setting("shared_buffers").default("16384"),
    setting("wal_buffers").default("2048"),
    setting("data_checksums").default("on"),
    // TLS: the defaults of a PostgreSQL that was built with it.
    setting("ssl_ciphers").default("HIGH:MEDIUM:+3DES:!aNULL"),
    setting("ssl_groups").default("X25519:prime256v1"),
    setting("ssl_library").default("rustls"),
    // The queue is in memory.
    setting("max_notify_queue_pages").default("16384"),
    setting("max_connections").default("100"),
    setting("unix_socket_directories").default(""),
    setting("listen_addresses").default("127.0.0.1"),
    // Where the console listens: a host and a port, or the path of a Unix socket.
    setting("console_listen").default("").own(
        Kind::String,
        Context::Postmaster,
        "Connections and Authentication / Connection Settings",
    ),
    setting("port").default("5432"),
    setting("lc_messages").default("C"),
    setting("lc_monetary").default("C"),
    setting("lc_numeric").default("C"),
    setting("lc_time").default("C"),
    setting("default_text_search_config").default("pg_catalog.english"),
    setting("config_file").default("kilndb.conf"),
    setting("hba_file").default(""),
    setting("ident_file").default(""),
    setting("authentication_delay_max").default("5000").own(Kind::Integer, Context::Sighup, AUTHENTICATION).range(
        Some("ms"),
        0.0,
        60_000.0,
    ),
    setting("data_directory").default("").live(LiveValue::DataDirectory),
    setting("dynamic_library_path").default(""),
    // pg_trgm's, which are there without the extension.
    trigram(TRIGRAM_SIMILARITY).default("0.3"),
    trigram(TRIGRAM_WORD).default("0.6"),
    trigram(TRIGRAM_STRICT_WORD).default("0.5"),
    // PL/pgSQL's.
    setting("plpgsql.check_asserts").default("on").own(Kind::Bool, Context::User, PLPGSQL),
    setting("plpgsql.extra_errors").default("none").check(checks::extra_checks).own(
        Kind::String,
        Context::User,
        PLPGSQL,
    ),
    setting("plpgsql.extra_warnings").default("none").check(checks::extra_checks).own(
        Kind::String,
        Context::User,
        PLPGSQL,
    ),
    setting("plpgsql.print_strict_params").default("off").own(Kind::Bool, Context::User, PLPGSQL),
    setting("plpgsql.variable_conflict").default("error").own(Kind::Enum, Context::Superuser, PLPGSQL).values(&[
        "error",
        "use_variable",
        "use_column",
    ]),
];

const MEMORY: &str = "Resource Usage / Memory";
const KB_MAX: f64 = i32::MAX as f64;

const fn trigram(name: &'static str) -> SettingDescriptor {
    format(name).own(Kind::Real, Context::User, "Customized Options").range(None, 0.0, 1.0)
}
