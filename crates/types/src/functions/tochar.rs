//! to_char, to_number, to_date, to_timestamp.

use crate::Interval;
use crate::datetime::is_finite_ts;
use crate::datetime::parse::session_zone;
use crate::datetime::zone::Zone;
use crate::template::number::{NumberFormat, to_number};
use crate::template::{read, write};
use kilndb_base::Result;

/// Empty templates and infinities give NULL.
fn moment(ts: i64, zone: Option<Zone>, template: &str) -> Result<Option<String>> {
    if template.is_empty() || !is_finite_ts(ts) {
        return Ok(None);
    }
    write::timestamp(ts, zone.as_ref(), template).map(Some)
}
fn span(v: &Interval, template: &str) -> Result<Option<String>> {
    if template.is_empty() || v.is_infinite() {
        return Ok(None);
    }
    write::interval(v, template).map(Some)
}
/// Number pictures: an empty one gives an empty text.
fn picture(template: &str, shown: impl FnOnce(NumberFormat) -> Result<String>) -> Result<String> {
    if template.is_empty() { Ok(String::new()) } else { shown(NumberFormat::parse(template)?) }
}

scalars! {
    fn timestamp_to_char(_c; v: timestamp, t: text) = moment(v, None, t)?;
    fn timestamptz_to_char(c; v: timestamp, t: text) = moment(v, Some(session_zone(c)), t)?;
    fn interval_to_char(_c; v: interval, t: text) = span(&v, t)?;
    fn numeric_to_char(_c; v: numeric, t: text) = picture(t, |p| p.write_numeric(v))?;
    fn int4_to_char(_c; v: int4, t: text) = picture(t, |p| p.write_int4(v))?;
    fn int8_to_char(_c; v: int8, t: text) = picture(t, |p| p.write_int8(v))?;
    fn float4_to_char(_c; v: float4, t: text) = picture(t, |p| p.write_float4(v))?;
    fn float8_to_char(_c; v: float8, t: text) = picture(t, |p| p.write_float8(v))?;
    fn numeric_to_number(_c; v: text, t: text) = to_number(v, t)?;
    fn to_timestamp(c; v: text, t: text) = crate::Datum::TimestampTz(read::timestamptz(v, t, c)?);
    fn to_date(_c; v: text, t: text) = crate::Datum::Date(read::date(v, t)?);
}
