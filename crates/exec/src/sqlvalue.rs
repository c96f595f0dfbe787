//! current_timestamp and its relatives.

use super::context::ExecContext;
use kilndb_base::{Error, Result};
use kilndb_bind::ir::SqlValue;
use kilndb_types::{Datum, cast, oids};

pub fn value(v: SqlValue, cx: &mut ExecContext<'_>) -> Result<Datum> {
    let now = Datum::TimestampTz(cx.eval.transaction_timestamp);
    let convert = |target| match cast::lookup_cast(oids::TIMESTAMPTZ, target) {
        Some(f) => f(&now, -1, false, &cx.eval),
        None => Err(Error::unsupported("current date and time")),
    };
    match v {
        SqlValue::CurrentTimestamp => Ok(now),
        SqlValue::CurrentDate => convert(oids::DATE),
        SqlValue::CurrentTime => convert(oids::TIMETZ),
        SqlValue::LocalTime => convert(oids::TIME),
        SqlValue::LocalTimestamp => convert(oids::TIMESTAMP),
        SqlValue::CurrentUser => Ok(Datum::text(cx.session.current_user())),
        SqlValue::SessionUser => Ok(Datum::text(cx.session.session_user())),
        SqlValue::CurrentCatalog => Ok(Datum::text(cx.session.current_database())),
        SqlValue::CurrentSchema => Ok(cx.session.current_schema().map_or(Datum::Null, Datum::text)),
    }
}
