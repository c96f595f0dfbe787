//! Casts as functions: pg_cast names them, and users call them (`float8(x)`, `text(x)`).

use super::get::arg;
use crate::{Datum, EvalContext, cast, io, oids::*};
use kilndb_base::{Error, Oid, Result};

fn to(target: Oid, ctx: &EvalContext, args: &[Datum]) -> Result<Datum> {
    let d = arg(args, 0)?;
    // bpchar and text are both held as text: any of them leads to the right cast.
    let source = io::natural_type(d);
    let make = cast::lookup_cast(source, target)
        .ok_or_else(|| Error::internal(format!("no cast function from type {source} to {target}")))?;
    make(d, -1, true, ctx)
}
macro_rules! conversions {
    ($($name:ident => $target:ident;)*) => { $(
        pub fn $name(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
            to($target, ctx, args)
        }
    )* };
}
conversions! {
    to_int2 => INT2; to_int4 => INT4; to_int8 => INT8; to_float4 => FLOAT4; to_float8 => FLOAT8;
    to_numeric => NUMERIC; to_bool => BOOL; to_oid => OID; to_text => TEXT; to_bpchar => BPCHAR; to_name => NAME;
    to_char_type => CHAR; to_date_type => DATE; to_timestamp_type => TIMESTAMP; to_timestamptz => TIMESTAMPTZ;
    to_time => TIME; to_timetz => TIMETZ; to_interval => INTERVAL; to_bytea => BYTEA;
}
/// Length coercion functions: (value, typmod) or (value, typmod, explicit).
fn length(target: Oid, args: &[Datum]) -> Result<Datum> {
    let typmod = super::get::int4(arg(args, 1)?)?;
    let explicit = match args.get(2) {
        Some(d) => super::get::boolean(d)?,
        None => true,
    };
    cast::apply_typmod(target, arg(args, 0)?.clone(), typmod, explicit)
}
macro_rules! lengths {
    ($($name:ident => $target:ident;)*) => { $(
        pub fn $name(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
            length($target, args)
        }
    )* };
}
lengths! {
    length_varchar => VARCHAR; length_bpchar => BPCHAR; length_numeric => NUMERIC; length_timestamp => TIMESTAMP;
    length_timestamptz => TIMESTAMPTZ; length_time => TIME; length_timetz => TIMETZ; length_interval => INTERVAL;
    length_bit => BIT; length_varbit => VARBIT;
}
pub(crate) fn bpchar_to_text(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    cast::bpchar_to_text(arg(args, 0)?, -1, true, ctx)
}
pub(crate) fn bpchar_to_name(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    cast::bpchar_to_name(arg(args, 0)?, -1, true, ctx)
}
pub fn same(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    arg(args, 0).cloned()
}
