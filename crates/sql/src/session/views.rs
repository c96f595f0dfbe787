//! Rows of the functions behind the system views.

use super::environment::StatementHost;
use crate::settings::{Context, Kind, definitions};
use kilndb_base::{Error, Result};
use kilndb_types::Datum;

pub(super) fn rows(host: &StatementHost<'_>, name: &str, _args: &[Datum]) -> Result<Vec<Vec<Datum>>> {
    match name {
        "pg_show_all_settings" => Ok(settings(host)),
        "pg_stat_get_activity" => Ok(activity(host)),
        "pg_options_to_table" => Ok(Vec::new()),
        other => Err(Error::unsupported(format!("function {other} is not supported"))),
    }
}

/// Columns of pg_settings.
fn settings(host: &StatementHost<'_>) -> Vec<Vec<Datum>> {
    let server = host.instance.settings();
    let optional = |text: Option<&str>| text.map_or(Datum::Null, Datum::text);
    definitions()
        .into_iter()
        .filter(|d| !matches!(d.name, "role" | "session_authorization"))
        .map(|d| {
            let value = host.settings.get(d.name).unwrap_or("");
            let number = |v: f64| if v == f64::MIN || v == f64::MAX || d.kind == Kind::String { Datum::Null } else { Datum::text(v.to_string()) };
            let kind = match d.kind {
                Kind::Bool => "bool",
                Kind::Integer => "integer",
                Kind::Real => "real",
                Kind::String => "string",
                Kind::Enum => "enum",
            };
            let enums = match d.kind {
                Kind::Enum => crate::catalog::store::array(kilndb_types::oids::TEXT, d.enum_values.iter().map(Datum::text).collect()),
                _ => Datum::Null,
            };
            let source = if value == server.get(d.name) { server.source(d.name) } else { "session" };
            vec![
                Datum::text(d.name),
                Datum::text(value),
                optional(d.unit),
                Datum::text(d.category),
                Datum::text(""),
                Datum::Null,
                Datum::text(d.context.as_str()),
                Datum::text(kind),
                Datum::text(source),
                number(d.min),
                number(d.max),
                enums,
                Datum::text(&d.boot_value),
                Datum::text(if d.context <= Context::Postmaster { server.get(d.name) } else { value }),
                Datum::Null,
                Datum::Null,
                Datum::Bool(false),
            ]
        })
        .collect()
}

/// Columns of pg_stat_get_activity(): those of pg_stat_activity come first here, in the view's own order.
fn activity(host: &StatementHost<'_>) -> Vec<Vec<Datum>> {
    let optional = |text: &Option<&'static str>| text.map_or(Datum::Null, Datum::text);
    let time = |t: Option<i64>| t.map_or(Datum::Null, Datum::TimestampTz);
    host.instance
        .sessions()
        .all()
        .iter()
        .map(|control| {
            let a = control.activity.lock().unwrap_or_else(|e| e.into_inner()).clone();
            vec![
                Datum::Oid(a.database_oid),
                Datum::text(&a.database),
                Datum::Int4(control.process_id),
                Datum::Oid(a.user_oid),
                Datum::text(&a.user),
                Datum::text(&a.application_name),
                a.client_addr.as_ref().map_or(Datum::Null, Datum::text),
                Datum::TimestampTz(a.backend_start),
                time(a.xact_start),
                time(a.query_start),
                Datum::TimestampTz(a.state_change),
                optional(&a.wait_event_type),
                optional(&a.wait_event),
                Datum::text(a.state),
                Datum::text(&a.query),
            ]
        })
        .collect()
}
