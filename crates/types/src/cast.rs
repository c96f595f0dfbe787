//! Casts between built-in types and length coercion.
use crate::{Datum, EvalContext, io};
use kilndb_base::{Error, Oid, Result};

pub type CastFn = fn(&Datum, typmod: i32, explicit: bool, ctx: &EvalContext) -> Result<Datum>;

/// The built-in cast by function or binary coercion, if there is one.
pub fn lookup_cast(source: Oid, target: Oid) -> Option<CastFn> {
    let _ = (source, target);
    None
}
/// Length coercion: varchar(n), char(n), numeric(p,s), timestamp(p), interval(p), bit(n).
pub fn apply_typmod(type_oid: Oid, datum: Datum, typmod: i32, explicit: bool, ctx: &EvalContext) -> Result<Datum> {
    let _ = (type_oid, typmod, explicit, ctx);
    Ok(datum)
}
/// I/O conversion: the text form of `source` read as `target`.
pub fn cast_via_text(source: Oid, target: Oid, datum: &Datum, typmod: i32, explicit: bool, ctx: &EvalContext) -> Result<Datum> {
    let _ = explicit;
    if datum.is_null() {
        return Ok(Datum::Null);
    }
    let mut text = Vec::new();
    io::output(source, datum, &mut text, ctx)?;
    let text = String::from_utf8(text).map_err(|_| Error::internal("text form is not UTF-8"))?;
    io::input(target, &text, typmod, ctx)
}
