//! Dates and times. Their text forms depend on DateStyle and TimeZone.

use super::{BASE, TypeDescriptor, TypeModifier, error, fixed};
use crate::oids::*;
use crate::row::PhysicalType as P;
use crate::{Datum, EvalContext, Interval, datetime};
use kilndb_base::{Result, sqlstate};
use std::sync::Arc;

/// Digits of the seconds' fraction.
const fn precision(apply: fn(Datum, i32, bool) -> Result<Datum>) -> TypeModifier {
    TypeModifier {
        read: |mods| match mods {
            [p] => Ok((*p).clamp(0, 6)),
            _ => Err("invalid type modifier".into()),
        },
        apply,
    }
}
static TIME_MODIFIER: TypeModifier = precision(|value, modifier, _| {
    Ok(match value {
        Datum::Time(v) => Datum::Time(datetime::round_time(v, modifier)),
        Datum::TimeTz(v, zone) => Datum::TimeTz(datetime::round_time(v, modifier), zone),
        other => other,
    })
});
static TIMESTAMP_MODIFIER: TypeModifier = precision(|value, modifier, _| {
    Ok(match value {
        Datum::Timestamp(v) => Datum::Timestamp(datetime::round_timestamp(v, modifier)?),
        Datum::TimestampTz(v) => Datum::TimestampTz(datetime::round_timestamp(v, modifier)?),
        other => other,
    })
});
/// The upper half says which fields, the lower how many digits.
static INTERVAL_MODIFIER: TypeModifier = TypeModifier {
    read: |mods| match mods {
        [range] => Ok((range << 16) | 0xffff),
        [range, p] => Ok((range << 16) | (*p).clamp(0, 6)),
        _ => Err("invalid type modifier".into()),
    },
    apply: |value, modifier, _| {
        Ok(match value {
            Datum::Interval(v) => Datum::Interval(Arc::new(datetime::interval_typmod(*v, modifier)?)),
            other => other,
        })
    },
};

fn receive_timetz(bytes: &[u8], modifier: i32, _: &EvalContext<'_>) -> Result<Datum> {
    let b: [u8; 12] = fixed(bytes)?;
    let (t, z) = b.split_at(8);
    let time = datetime::check_time(i64::from_be_bytes(fixed(t)?))?;
    let zone = i32::from_be_bytes(fixed(z)?);
    if zone.abs() >= 16 * 3600 {
        return Err(error(sqlstate::INVALID_TIME_ZONE_DISPLACEMENT_VALUE, "time zone displacement out of range"));
    }
    Ok(Datum::TimeTz(datetime::round_time(time, modifier), zone))
}
fn receive_timestamp(bytes: &[u8], modifier: i32) -> Result<i64> {
    datetime::round_timestamp(datetime::check_timestamp(i64::from_be_bytes(fixed(bytes)?))?, modifier)
}
fn receive_interval(bytes: &[u8], modifier: i32, _: &EvalContext<'_>) -> Result<Datum> {
    let b: [u8; 16] = fixed(bytes)?;
    let (micros, rest) = b.split_at(8);
    let (days, months) = rest.split_at(4);
    let v = Interval {
        micros: i64::from_be_bytes(fixed(micros)?),
        days: i32::from_be_bytes(fixed(days)?),
        months: i32::from_be_bytes(fixed(months)?),
    };
    Ok(Datum::Interval(Arc::new(datetime::interval_typmod(v, modifier)?)))
}

pub(super) const TYPES: &[TypeDescriptor] = &[
    TypeDescriptor {
        oid: DATE,
        input: |text, _, ctx| datetime::date_in(text, ctx).map(Datum::Date),
        receive: |bytes, _, _| datetime::check_date(i32::from_be_bytes(fixed(bytes)?)).map(Datum::Date),
        storage: P::Date,
        ..BASE
    },
    TypeDescriptor {
        oid: TIME,
        input: |text, modifier, ctx| datetime::time_in(text, modifier, ctx).map(Datum::Time),
        receive: |bytes, modifier, _| {
            let time = datetime::check_time(i64::from_be_bytes(fixed(bytes)?))?;
            Ok(Datum::Time(datetime::round_time(time, modifier)))
        },
        storage: P::Time,
        modifier: Some(&TIME_MODIFIER),
        ..BASE
    },
    TypeDescriptor {
        oid: TIMETZ,
        input: |text, modifier, ctx| datetime::timetz_in(text, modifier, ctx).map(|(t, z)| Datum::TimeTz(t, z)),
        receive: receive_timetz,
        storage: P::TimeTz,
        modifier: Some(&TIME_MODIFIER),
        ..BASE
    },
    TypeDescriptor {
        oid: TIMESTAMP,
        input: |text, modifier, ctx| datetime::timestamp_in(text, modifier, ctx).map(Datum::Timestamp),
        receive: |bytes, modifier, _| receive_timestamp(bytes, modifier).map(Datum::Timestamp),
        storage: P::Timestamp,
        modifier: Some(&TIMESTAMP_MODIFIER),
        ..BASE
    },
    TypeDescriptor {
        oid: TIMESTAMPTZ,
        input: |text, modifier, ctx| datetime::timestamptz_in(text, modifier, ctx).map(Datum::TimestampTz),
        receive: |bytes, modifier, _| receive_timestamp(bytes, modifier).map(Datum::TimestampTz),
        storage: P::TimestampTz,
        modifier: Some(&TIMESTAMP_MODIFIER),
        ..BASE
    },
    TypeDescriptor {
        oid: INTERVAL,
        input: |text, modifier, ctx| Ok(Datum::Interval(Arc::new(datetime::interval_in(text, modifier, ctx)?))),
        receive: receive_interval,
        storage: P::Interval,
        modifier: Some(&INTERVAL_MODIFIER),
        ..BASE
    },
];
