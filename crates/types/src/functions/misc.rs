//! What fits nowhere else.

use super::get;
use crate::{Datum, EvalContext};
use kilndb_base::{Result, work};

scalars! {
    fn oidtoi8(_c; a: oid) = i64::from(a);
    fn xid8toxid(_c; a: big) = a as u32;
}
/// Elements of a VARIADIC call: spread out, or one array.
fn nulls(args: &[Datum]) -> Result<(usize, usize)> {
    let list: &[Datum] = match args {
        [Datum::Array(a)] => &a.elements,
        _ => args,
    };
    let mut n = 0;
    for piece in list.chunks(4096) {
        work::step(piece.len())?;
        n += piece.iter().filter(|d| d.is_null()).count();
    }
    Ok((n, list.len() - n))
}
pub(crate) fn pg_num_nulls(_ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    Ok(Datum::Int4(nulls(args)?.0 as i32))
}
pub(crate) fn pg_num_nonnulls(_ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    Ok(Datum::Int4(nulls(args)?.1 as i32))
}
/// Bytes in PostgreSQL's row format, as of a column that is not compressed.
pub(crate) fn pg_column_size(_ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    Ok(match get::arg(args, 0)? {
        Datum::Null => Datum::Null,
        value => Datum::Int4(crate::width::width(0, value) as i32),
    })
}
