//! Which tables have changed so much that they are due for ANALYZE.
//!
//! Must not know: threads, locks.

use crate::client::Runtime;
use crate::session::Session;
use kilndb_base::{Oid, Result, Severity};
use kilndb_catalog::global::GLOBAL;
use kilndb_catalog::lock_class::RELATION_LOCK;
use kilndb_catalog::storage_parameters::StorageParameters;
use kilndb_context::Cluster;
use kilndb_storage::LockTag;

/// A table to be analyzed.
pub(super) struct DueTable {
    pub oid: Oid,
    database: Oid,
    /// With its database and schema.
    pub name: String,
    /// With its schema.
    pub shown_name: String,
    /// An analysis that takes as many milliseconds is told to the log; negative: none is.
    told_ms: i64,
}

impl DueTable {
    pub(super) fn lock_tag(&self) -> LockTag {
        LockTag(RELATION_LOCK, u64::from(self.database), u64::from(self.oid))
    }

    pub(super) fn tell(&self, cluster: &Cluster, took_nanos: u64) {
        if self.told_ms >= 0 && took_nanos / 1_000_000 >= self.told_ms as u64 {
            let seconds = took_nanos as f64 / 1e9;
            let message =
                format!("automatic analyze of table \"{}\"\nsystem usage: elapsed: {seconds:.2} s", self.name);
            cluster.log(Severity::Log, &message);
        }
    }
}

/// None: the table has not changed enough, or is not analyzed by itself.
pub(super) fn due_table(
    session: &mut Session,
    cluster: &Cluster,
    oid: Oid,
    runtime: &dyn Runtime,
) -> Result<Option<DueTable>> {
    let found = session.context.with_catalog(runtime, |host| {
        let Some(class) = host.reader.class_row(oid)? else { return Ok(None) };
        let schema = host.reader.schema_name(class.oid("relnamespace"))?.unwrap_or_default();
        Ok(Some((class, schema)))
    })?;
    let Some((class, schema)) = found else { return Ok(None) };
    let parameters = StorageParameters(class.texts("reloptions"));
    if !b"rm".contains(&class.char("relkind"))
        || class.char("relpersistence") == GLOBAL
        || parameters.is_off("autovacuum_enabled")
    {
        return Ok(None);
    }
    let settings = cluster.settings();
    let own = |name: &str| parameters.number(name).unwrap_or_else(|| settings.real(name));
    let rows = f64::from(class.float4("reltuples")).max(0.0);
    let threshold = own("autovacuum_analyze_threshold") + own("autovacuum_analyze_scale_factor") * rows;
    let database = &session.context.database;
    let changed = cluster.statistics.relation(database.oid, oid).modified_since_analyze;
    if changed as f64 <= threshold {
        return Ok(None);
    }
    let shown_name = format!("{schema}.{}", class.text("relname").unwrap_or(""));
    let told = parameters.get("log_autovacuum_min_duration").and_then(|v| v.trim().parse().ok());
    Ok(Some(DueTable {
        oid,
        database: database.oid,
        name: format!("{}.{shown_name}", database.name),
        shown_name,
        told_ms: told.unwrap_or_else(|| settings.number("log_autovacuum_min_duration")),
    }))
}
